"""Each variable on a scale of its own, found in its first readings.

Most quantities are taken as they are, centred and divided by their spread. One that is never negative, reaches
down to zero and has a long upper tail (PM2.5, rain, light) is taken as asinh(x / c), on which doubling means the
same everywhere above c and zero is nothing special. Both follow a change of unit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sensormend.recovery import BoolArray, FloatArray

__all__ = ["Scales", "looks_circular"]

ENOUGH = 48
"""Readings of a variable needed before anything is said of its shape."""

SKEWED = 1.5
"""Upper over lower half-width (90 % and 10 % quantiles from the median) from which a tail counts as long: about 1 for
temperature over a week, 1.5 to 4 for PM2.5, 2.7 for an exponential quantity."""

GROWING = (0.4, 2.5)
"""Slope of log step size over log level between which steps grow with the level: 1 for a log-normal quantity, 0 for
one that is as lively at any level."""

DECIDE = (7, 30)
"""Periods after which a variable's shape is decided: one day of temperature can look like anything."""

SAMPLE = 4096

FARTHEST = 1e12
"""Widths from the centre beyond which a reading is no farther off: the squares of those of 1e40 are more than the
moments, in single precision, can hold, and one such reading would end the model."""


@dataclass(eq=False)
class Scales:
    """Centre, width and bend of every variable; width 0 while it is not known yet, bend 0 for a linear one.

    `sample` holds pairs of neighbouring readings, (variable, pair, 2), until the shapes are decided.
    """

    centre: FloatArray
    width: FloatArray
    bend: FloatArray
    sample: FloatArray

    @classmethod
    def unknown(cls, variables: int) -> Scales:
        """Return scales of which nothing is known yet."""
        return cls(np.zeros(variables), np.zeros(variables), np.zeros(variables), np.empty((variables, 0, 2)))

    def learn(self, readings: FloatArray) -> None:
        """Set the scale of each variable, (sensor, variable, slot), that varies and has no scale yet."""
        for variable in np.flatnonzero(self.width == 0).tolist():
            values = readings[:, variable]
            values = values[np.isfinite(values)]
            if values.size and values.min() < values.max():
                self._set(variable, values, 0.0)

    def _set(self, variable: int, values: FloatArray, bend: float) -> None:
        scaled = np.arcsinh(values / bend) if bend else values
        low, middle, high = np.quantile(scaled, [0.1, 0.5, 0.9])
        self.centre[variable], self.bend[variable] = middle, bend
        self.width[variable] = (high - low) / 2.56 or float(scaled.max() - scaled.min())

    def collect(self, readings: FloatArray, period: int) -> None:
        """Keep pairs of neighbouring readings, (sensor, variable, slot), for the decision to come."""
        if period > DECIDE[-1]:
            self.sample = self.sample[:, :0]
            return
        share = SAMPLE // (DECIDE[-1] + 1)
        pairs = np.full((self.width.size, share, 2), np.nan)
        for variable in range(self.width.size):
            some = readings[:: max(1, len(readings) // share), variable]
            both = np.stack([some[:, :-1], some[:, 1:]], axis=-1).reshape(-1, 2)
            both = both[np.isfinite(both).all(axis=1)]
            both = both[:: max(1, -(-len(both) // share))][:share]
            pairs[variable, : len(both)] = both
        self.sample = np.concatenate([self.sample, pairs], axis=1)

    def bent(self, period: int) -> Scales | None:
        """Return the scales with the shapes that the sample shows, or None where nothing changes."""
        if period not in DECIDE:
            return None
        changed = Scales(self.centre.copy(), self.width.copy(), self.bend.copy(), self.sample)
        for variable in np.flatnonzero((self.bend == 0) & (self.width > 0)).tolist():
            pairs = self.sample[variable]
            pairs = pairs[np.isfinite(pairs).all(axis=1)]
            bend = _bend(pairs)
            if bend:
                changed._set(variable, pairs[:, 0], bend)
        return changed if (changed.bend != self.bend).any() else None

    def forward(self, readings: FloatArray, variable: np.ndarray[tuple[int], np.dtype[np.intp]]) -> FloatArray:
        """Put readings (channel, slot) on their scales; NaN stays NaN."""
        scaled = readings.copy()
        bent = np.flatnonzero(self.bend[variable] > 0)
        scaled[bent] = np.arcsinh(readings[bent] / self.bend[variable[bent], None])
        scaled -= self.centre[variable][:, None]
        scaled /= np.where(self.width > 0, self.width, 1.0)[variable][:, None]
        return np.clip(scaled, -FARTHEST, FARTHEST, out=scaled)

    def backward(self, scaled: FloatArray, variable: np.ndarray[tuple[int], np.dtype[np.intp]]) -> FloatArray:
        """Undo `forward`. A quantity that is never negative does not become so."""
        width = np.where(self.width > 0, self.width, 1.0)[variable][:, None]
        bend = self.bend[variable][:, None]
        bent = bend > 0
        plain = scaled * width + self.centre[variable][:, None]
        # 700 keeps sinh finite; a reading there would be 1e300.
        curved = bend * np.sinh(np.clip(plain, 0.0, 700.0))
        return np.where(bent, curved, plain)

    def known(self) -> BoolArray:
        """Say of which variables the scale is set."""
        return np.asarray(self.width > 0)


def _bend(pairs: FloatArray) -> float:
    """Return the c of asinh(x / c) for a quantity with a long tail upwards from zero, else 0."""
    sound = pairs[(pairs >= 0).all(axis=1)]
    # A broken sensor or two may report what cannot be.
    if len(sound) < max(ENOUGH, 0.95 * len(pairs)):
        return 0.0
    pairs = sound
    low, middle, high = np.quantile(pairs, [0.1, 0.5, 0.9])
    if high <= 2 * low or high - middle <= SKEWED * (middle - low):
        return 0.0
    order = np.argsort(pairs.sum(axis=1), kind="stable")
    parts = [pairs[part] for part in np.array_split(order, 5)]
    level = np.array([part.mean() for part in parts])
    step = np.array([np.abs(part[:, 1] - part[:, 0]).mean() for part in parts])
    slope = np.polyfit(np.log(level + 0.05 * level[-1]), np.log(step + 1e-3 * step.mean() + 1e-300), 1)[0]
    if not GROWING[0] < slope < GROWING[1]:
        return 0.0
    return float(np.median(pairs[pairs > 0])) / 2


def looks_circular(readings: FloatArray) -> bool:
    """Say whether readings, (fiber, slot), look like directions in degrees: all of 0 ... 360, wrapping through north.

    Told by steps of nearly a full turn from one slot to the next, which no length takes so often.
    """
    values = readings[np.isfinite(readings)]
    if values.size < ENOUGH or values.min() < 0 or values.max() > 360:
        return False
    steps = np.abs(np.diff(readings, axis=-1))
    steps = steps[np.isfinite(steps)]
    if steps.size == 0:
        return False
    full, half = np.mean(steps > 300), np.mean((steps > 150) & (steps <= 250))
    return bool(full > 0.005 and full > 0.3 * half)
