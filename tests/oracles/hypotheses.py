"""The histories of a channel, every one of them, each explained from its first reading to its last.

A history holds which of a channel's readings are in which episode. Its log-likelihood is computed span by span from the
definitions in the docstring of `sensormend.model.hypotheses`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sensormend.model.hypotheses import END_HAZARD, GAIN_MEAN, GAIN_SD, LEVEL_RATE

__all__ = [
    "KINDS",
    "Case",
    "Channel",
    "Episode",
    "Explanation",
    "History",
    "all_histories",
    "best_history",
    "explain",
]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

KINDS = ("offset", "drift", "gain", "noise", "stuck")


@dataclass(frozen=True)
class Channel:
    """What is known of a channel; the names are those of `sensormend.model.records.Parameters`."""

    phi: float
    tau: float
    drift_sd: float
    log_prior: float
    wander: float
    slots: int
    freedom: float
    noise_sd: float
    usual_distance: float = 0.0


@dataclass(frozen=True, eq=False)
class Case:
    """A window of a channel: what came before it, and one value per slot.

    `repeated` is the log probability with which a sound channel repeats its reading, and above 0 where it did not.
    """

    channel: Channel
    last: float
    last_time: int
    level: float
    start: int
    observed: Bools
    residual: Floats
    expected: Floats
    repeated: Floats
    scale: Floats

    @property
    def slots(self) -> list[int]:
        """The slots that have a reading."""
        return [int(t) for t in np.flatnonzero(self.observed)]


@dataclass(frozen=True)
class Episode:
    """A fault of the readings `first` to `last`, both included; the readings of a window are numbered from 0."""

    kind: str
    first: int
    last: int


History = tuple[Episode, ...]


@dataclass(frozen=True)
class Explanation:
    """How likely a history is, in log; the channel's level after it; size and rate of every episode."""

    log_likelihood: float
    level: float
    sizes: tuple[tuple[float, float], ...]


def explain(case: Case, history: History) -> Explanation | None:
    """Return how well a history explains the window; None where one that is stuck does not repeat its reading."""
    past = _Past(case.last, case.last_time, case.level)
    total, reading, sizes = 0.0, 0, []
    slots = case.slots
    before = None
    for number, episode in enumerate(history):
        gained, past = _sound_span(case, slots[reading : episode.first], past)
        total += gained
        inside = slots[episode.first : episode.last + 1]
        # One that gets stuck in a fault stays where that left it.
        fault = _FAULTS[episode.kind](case, inside, past) if before is None else _stuck(case, inside, past, before)
        if fault is None:
            return None
        is_open = episode.last == len(slots) - 1
        total += fault.log_likelihood + _log_prior(case.channel, episode.kind, len(inside), is_open=is_open)
        sizes.append(fault.size)
        reading, before = episode.last + 1, None
        if not is_open and number + 1 < len(history) and history[number + 1].first == reading:
            slot = slots[episode.last]
            before = replace(past, residual=case.residual[slot], time=case.start + slot)
        elif not is_open:
            # The first sound reading; the level does not follow it.
            slot = slots[reading]
            centre, width = fault.back_at(case.start + slot, case.scale[slot])
            total += _log_t(case.residual[slot] - centre, width, case.channel.freedom)
            past = replace(past, residual=case.residual[slot], time=case.start + slot)
            reading += 1
    gained, past = _sound_span(case, slots[reading:], past)
    return Explanation(total + gained, past.level, tuple(sizes))


def all_histories(readings: int, episodes: int, kinds: Sequence[str] = KINDS) -> Iterator[History]:
    """Return all histories of so many readings with at most so many episodes.

    Between any two is a sound reading, unless a sensor gets stuck in a fault of another kind.
    """
    spans = [(first, last) for first in range(readings) for last in range(first, readings)]
    for count in range(episodes + 1):
        for chosen in itertools.combinations(spans, count):
            for named in itertools.product(kinds, repeat=count):
                history = tuple(Episode(kind, *span) for kind, span in zip(named, chosen, strict=True))
                if all(_may_follow(one, two) for one, two in itertools.pairwise(history)):
                    yield history


def _may_follow(one: Episode, two: Episode) -> bool:
    gets_stuck = two.kind == "stuck" != one.kind
    return one.last + 1 < two.first or (gets_stuck and one.last + 1 == two.first)


def best_history(case: Case, episodes: int = 1, kinds: Sequence[str] = KINDS) -> tuple[History, float, float]:
    """Return the most likely history, its log-likelihood, and by how much the next is less likely."""
    scored = []
    for history in all_histories(len(case.slots), episodes, kinds):
        explanation = explain(case, history)
        if explanation is not None:
            scored.append((explanation.log_likelihood, history))
    scored.sort(key=lambda pair: -pair[0])
    return scored[0][1], scored[0][0], scored[0][0] - scored[1][0]


@dataclass(frozen=True)
class _Past:
    """The last residual, its slot, and the slow level."""

    residual: float
    time: int
    level: float


def _log_t(miss: float, width: float, freedom: float) -> float:
    """Log density of Student's t, scaled by `width`."""
    constant = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - math.log(freedom * math.pi) / 2
    return constant - (freedom + 1) / 2 * math.log(1 + (miss / width) ** 2 / freedom) - math.log(width)


def _log_cauchy(miss: float, width: float) -> float:
    return _log_t(miss, width, 1.0)


def _log_prior(channel: Channel, kind: str, length: int, *, is_open: bool) -> float:
    """Return the log probability that a fault begins and is so long.

    After n readings it ends with the probability END_HAZARD / n, where n counts as at least two.
    """
    total = channel.log_prior - {"gain": 3.0, "stuck": 2.0}.get(kind, 0.0)
    for readings in range(1, length):
        total += math.log(1 - END_HAZARD / max(readings, 2))
    return total if is_open else total + math.log(END_HAZARD / max(length, 2))


def _spread(channel: Channel, scale: float, gap: int) -> float:
    """Return the scale of what `gap` innovations add up to: scale^2 (1 + phi^2 + phi^4 + ...)."""
    return scale * math.sqrt(sum(channel.phi ** (2 * k) for k in range(gap)))


def _sound_prediction(case: Case, slot: int, past: _Past) -> tuple[float, float]:
    gap = case.start + slot - past.time
    centre = past.level + case.channel.phi**gap * (past.residual - past.level)
    return centre, _spread(case.channel, case.scale[slot], gap)


def _sound_span(case: Case, slots: Sequence[int], past: _Past) -> tuple[float, _Past]:
    total, channel = 0.0, case.channel
    for slot in slots:
        centre, width = _sound_prediction(case, slot, past)
        miss = case.residual[slot] - centre
        total += _log_t(miss, width, channel.freedom)
        level = past.level + LEVEL_RATE * float(np.clip(miss, -3 * case.scale[slot], 3 * case.scale[slot]))
        past = _Past(case.residual[slot], case.start + slot, float(np.clip(level, -channel.wander, channel.wander)))
    return total, past


@dataclass(frozen=True)
class _Fault:
    """An episode that was explained; `after` is what a sound channel's residual is predicted from when it ends."""

    log_likelihood: float
    size: tuple[float, float]
    channel: Channel
    after: _Past
    variance: float = 0.0

    def back_at(self, time: int, scale: float) -> tuple[float, float]:
        """Return where the first sound reading is expected, and how surely."""
        gap, phi = time - self.after.time, self.channel.phi
        centre = self.after.level + phi**gap * (self.after.residual - self.after.level)
        return centre, math.hypot(_spread(self.channel, scale, gap), phi**gap * math.sqrt(self.variance))


def _noisy(case: Case, slots: Sequence[int], past: _Past) -> _Fault:
    """Residuals ~ N(0, variance), variance ~ inverse gamma(1/2, tau^2 / 2).

    The density of all of them at once is then that of a Cauchy vector, as wide as tau.
    """
    n, tau = len(slots), case.channel.tau
    squares = sum(case.residual[slot] ** 2 for slot in slots)
    log_likelihood = (
        math.lgamma((n + 1) / 2) - math.lgamma(0.5) - n / 2 * math.log(math.pi) - n * math.log(tau)
        - (n + 1) / 2 * math.log(1 + squares / tau**2)
    )  # fmt: skip
    return _Fault(log_likelihood, (math.sqrt(squares / n), 0.0), case.channel, past)


def _stuck(case: Case, slots: Sequence[int], past: _Past, last: _Past | None = None) -> _Fault | None:
    """A stuck sensor repeats its reading surely, a sound one the less surely the less its residual fits.

    A sound one has the density f(r) there, so that the stuck one has f(r) / P(repeated | sound). `last` is the reading
    before, where that is in another fault.
    """
    total, before = 0.0, last or past
    for slot in slots:
        if case.repeated[slot] > 0:
            return None
        centre, width = _sound_prediction(case, slot, before)
        density = _log_t(case.residual[slot] - centre, width, case.channel.freedom)
        at_centre = _log_t(0.0, width, case.channel.freedom)
        total += density - min(0.0, case.repeated[slot] + density - at_centre)
        before = replace(before, residual=case.residual[slot], time=case.start + slot)
    return _Fault(total, (0.0, 0.0), case.channel, past)


def _regressed(case: Case, slots: Sequence[int], past: _Past, kind: str) -> _Fault:
    """r = sound + theta h: theta follows by recursive least squares on the innovations, robust from the second on."""
    channel = case.channel
    tau, freedom = channel.tau, channel.freedom
    mean = np.array([0.0, GAIN_MEAN if kind == "gain" else 0.0])
    slope = {"offset": 0.0, "drift": channel.drift_sd, "gain": GAIN_SD}[kind]
    total, before, h_before = 0.0, past, np.zeros(2)
    theta, P = mean, np.diag([tau**2, slope**2])
    for number, slot in enumerate(slots):
        time = case.start + slot
        since = (time - case.start - slots[0]) / channel.slots
        h = np.array([1.0, {"offset": 0.0, "drift": since, "gain": case.expected[slot]}[kind]])
        centre, spread = _sound_prediction(case, slot, before)
        g = h - channel.phi ** (time - before.time) * h_before
        miss = case.residual[slot] - centre - float(g @ theta)
        if number > 0:
            # The size of a fault may change by the usual distance within thirty periods.
            P = P + np.diag([channel.usual_distance**2 * (time - before.time) / (30 * channel.slots), 0.0])
        variance = spread**2 + float(g @ P @ g)
        weight = 1.0
        if number == 0:
            # It may be anywhere, and one that is farther off than tau has a size of its own order.
            total += _log_cauchy(miss, math.sqrt(variance))
            P = np.diag([max(tau**2, miss**2), slope**2])
            variance = spread**2 + float(g @ P @ g)
        else:
            total += _log_t(miss, math.sqrt(variance), freedom)
            weight = min(1.0, (freedom + 1) / (freedom + miss**2 / variance))
        gain = P @ g / variance
        theta = theta + weight * gain * miss
        P = P - weight * np.outer(gain, g @ P)
        before, h_before = replace(before, residual=case.residual[slot], time=time), h
    sizes = {
        "offset": (theta[0], 0.0),
        "drift": (theta @ h_before, theta[1]),
        "gain": (1 + theta[1], 0.0),
    }
    size, rate = sizes[kind]
    after = replace(before, residual=before.residual - float(h_before @ theta))
    return _Fault(total, (float(size), float(rate)), channel, after, float(h_before @ P @ h_before))


_FAULTS: dict[str, Callable[[Case, Sequence[int], _Past], _Fault | None]] = {
    "offset": lambda case, slots, past: _regressed(case, slots, past, "offset"),
    "drift": lambda case, slots, past: _regressed(case, slots, past, "drift"),
    "gain": lambda case, slots, past: _regressed(case, slots, past, "gain"),
    "noise": _noisy,
    "stuck": _stuck,
}
