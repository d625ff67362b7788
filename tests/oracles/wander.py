"""How far channels wander, from all levels that they ever had: what the engine keeps of them as means, in rings.

Thresholds are those of `sensormend.model.wander`; what follows from them is written once more, from `docs/auto.md`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sensormend.model import wander
from sensormend.model.arrays import MIN_OTHERS

__all__ = ["Network", "Wanderings", "limit", "structure", "student"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

student = getattr(wander.student, "py_func", wander.student)
"""It has an oracle in SciPy."""

PAST = 4096
"""Periods before the first one, in which a channel is taken to have had its first level."""


@dataclass(frozen=True, eq=False)
class Network:
    """Channels, their variables, and the slow weights of the others in the prediction of each, (channel, channel).

    Those of other variables are 0. Channels that are not `counted` say nothing of their variable.
    """

    variable: NDArray[np.int64]
    weights: Floats
    counted: Bools


class Wanderings:
    """All levels of some channels, and how they wandered: mean squares by channel and lag, and of their variables."""

    def __init__(self, network: Network, periods: int) -> None:
        self.network = network
        channels, variables = len(network.variable), int(network.variable.max()) + 1
        self.levels = np.full((channels, PAST + periods), np.nan)
        self.square = np.zeros((channels, wander.LAGS))
        self.movement, self.mean_square, self.spans = (np.zeros((variables, wander.LAGS)) for _ in range(3))

    def add(self, c: int, n: int, level: float, *, is_first: bool) -> None:
        """Note the level of period n; before the first one it was the same."""
        self.levels[c, slice(None, PAST + n + 1) if is_first else PAST + n] = level

    def shift(self, c: int, n: int, span: int, size: float) -> None:
        """Add to the levels of the last periods."""
        self.levels[c, PAST + n + 1 - span : PAST + n + 1] += size

    def change(self, c: int, n: int, span: int) -> float:
        """Return by how much a level has changed over a span that ends with period n.

        What it was before is the mean of the last 1, 2, 4 ... 32 periods, counted from period 0 on, that were over when
        the span began: of so many that the span is no longer than seven times. What it is now is that of as many
        periods, eight at most.
        """
        width = _width(span)
        end = PAST + (n + 1 - span) // width * width
        now = self.levels[c, PAST + n + 1 - min(width, 8) : PAST + n + 1]
        return float(now.mean() - self.levels[c, end - width : end].mean())

    def predicted(self, c: int, n: int, span: int) -> float:
        """Return dP, what the others say of that change; of one that never had a level there is none."""
        others = [k for k in range(len(self.levels)) if k != c and not np.isnan(self.levels[k, PAST])]
        return sum(float(self.network.weights[c, k]) * self.change(k, n, span) for k in others)

    def learn(self, n: int, is_sound: Bools, level_age: NDArray[np.int64], is_distant: Bools) -> None:
        """Learn from the changes up to period n, about four times within each span."""
        for lag in range(wander.LAGS):
            span = 2**lag
            every = max(1, span // 4)
            if n % every == 0 and n > span:
                known = level_age > span + _width(span)
                for number in range(len(self.movement)):
                    self._learn_lag(n, lag, every, number, is_sound & known, level_age, is_distant)

    def _learn_lag(
        self, n: int, lag: int, every: int, number: int, known: Bools, level_age: NDArray[np.int64], is_distant: Bools
    ) -> None:
        span, network = 2**lag, self.network
        channels = np.flatnonzero(network.variable == number)
        if len(channels) <= MIN_OTHERS:
            return
        channels = channels[known[channels]]
        movements, squares = [], []
        usual, is_usual = self.movement[number, lag], self.spans[number, lag] >= 4
        for c in channels.tolist():
            moved = self.predicted(c, n, span)
            if network.counted[c]:
                movements.append(abs(moved))
            if usual == 0:
                continue
            rho = (self.change(c, n, span) - moved) ** 2 / (moved**2 + usual**2)
            if is_usual:
                rho = min(rho, wander.MAX_SQUARE * max(self.mean_square[number, lag], self.square[c, lag]))
            rate = every / min(200, max(level_age[c] - span, 1) + every)
            if is_distant[c]:
                rate *= wander.DISTANT_RATE
            self.square[c, lag] += rate * (rho - self.square[c, lag])
            if network.counted[c]:
                squares.append(self.square[c, lag])
        if movements:
            rate = 1 if usual == 0 else every / min(200, n - span + every)
            self.movement[number, lag] += rate * (np.mean(movements) - usual)
        if squares:
            self.mean_square[number, lag] = np.median(squares)
            spans = self.spans[number, lag] + 0.5 * len(squares) * every / span
            self.spans[number, lag] = min(spans, 0.5 * len(squares) * 200 / span)


def _width(span: float) -> int:
    return next(width for width in (1, 2, 4, 8, 16, 32) if span <= 7 * width or width == 32)


def structure(square: Floats, pooled: Floats, age: int, span: float) -> tuple[float, float, float]:
    """Return S(T), how many independent spans it is from, and m_T.

    `pooled` has m_T, the mean square and its spans by lag: a lag is known from four spans on, if those before it are.
    """
    lag = max(lag for lag in range(wander.LAGS) if lag == 0 or 2**lag <= span)
    seen = max(k for k in range(lag + 1) if all(pooled[j, 2] >= 4 for j in range(1, k + 1)))
    own = max(min(age, 200) / 2**seen - 1, 0)
    spans = pooled[seen, 2]
    logs = np.log([max(pooled[seen, 1], 1e-12), wander.PRIOR**2])
    common = np.exp(np.average(logs, weights=[spans, wander.PRIOR_SPANS]))
    size = np.sqrt(np.average([square[seen], common], weights=[own, wander.POOLED_SPANS]))
    if lag > seen:
        exponent = 0.3
        if seen >= 2 and pooled[seen - 2, 1] > 0:
            # S over the last two doublings of the span.
            growth = np.sqrt(max(pooled[seen, 1], 1e-12) / pooled[seen - 2, 1])
            exponent = np.clip(np.log(growth) / np.log(4), 0.1, 0.6)
        size *= (span / 2**seen) ** exponent
    known = 1 + own + wander.POOLED_SPANS * spans / (spans + 2 * wander.PRIOR_SPANS)
    return float(size), float(known), float(pooled[seen, 0])


def limit(square: Floats, pooled: Floats, age: int, span: float, support: float, moved: float, least: float) -> float:
    """Return the change over a span from which a channel is wrong, with what it is at `least`."""
    size, known, usual = structure(square, pooled, age, span)
    z = student(wander.Z + wander.Z_SUPPORT / support, known)
    return max(float(z * size * np.sqrt(1 + wander.FEW_OTHERS / support) * np.hypot(moved, usual)), least)
