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
"""Readings of a variable needed before its scale is set."""

SKEWED = 2.0
"""Upper over lower half-width (90 % and 10 % quantiles from the median) from which a tail counts as long.

Gaussian quantities have 1, an exponential one 2.7, log-normal PM2.5 3 to 6; temperature within 0.6 to 1.6."""


@dataclass(eq=False)
class Scales:
    """Centre, width and bend of every variable; width 0 while it is not known yet, bend 0 for a linear one."""

    centre: FloatArray
    width: FloatArray
    bend: FloatArray

    @classmethod
    def unknown(cls, variables: int) -> Scales:
        """Return scales of which nothing is known yet."""
        return cls(np.zeros(variables), np.zeros(variables), np.zeros(variables))

    def learn(self, readings: FloatArray) -> None:
        """Set the scale of each variable, (sensor, variable, slot), that has readings enough and no scale yet."""
        for variable in np.flatnonzero(self.width == 0):
            values = readings[:, variable]
            values = np.sort(values[np.isfinite(values)])
            if values.size == 0 or values[0] == values[-1]:
                continue
            bend = _bend(values) if values.size >= ENOUGH else 0.0
            scaled = np.arcsinh(values / bend) if bend else values
            low, middle, high = np.quantile(scaled, [0.1, 0.5, 0.9])
            width = (high - low) / 2.56 or float(scaled[-1] - scaled[0])
            self.centre[variable], self.width[variable], self.bend[variable] = middle, width, bend

    def forward(self, readings: FloatArray, variable: np.ndarray[tuple[int], np.dtype[np.intp]]) -> FloatArray:
        """Put readings (channel, slot) on their scales; NaN stays NaN."""
        bend = self.bend[variable][:, None]
        bent = bend > 0
        scaled = np.where(bent, np.arcsinh(readings / np.where(bent, bend, 1.0)), readings)
        width = np.where(self.width > 0, self.width, 1.0)[variable][:, None]
        return np.asarray((scaled - self.centre[variable][:, None]) / width)

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


def _bend(values: FloatArray) -> float:
    """Return the c of asinh(x / c) for sorted readings with a long upper tail down to zero, else 0."""
    if values[0] < 0:
        return 0.0
    low, middle, high = np.quantile(values, [0.1, 0.5, 0.9])
    near_zero = values[0] <= 0.25 * (high - values[0])
    long_tail = high - middle > SKEWED * (middle - low) or (middle == low and high > middle)
    if not (near_zero and long_tail):
        return 0.0
    positive = values[values > 0]
    return float(np.median(positive)) / 2 if positive.size else 0.0


def looks_circular(readings: FloatArray) -> bool:
    """Say whether readings look like a direction in degrees: within 0 ... 360 and wrapping through north.

    Told by steps of nearly a full turn from one slot to the next, on both sides of which there is nothing.
    """
    values = readings[np.isfinite(readings)]
    if values.size < ENOUGH or values.min() < 0 or values.max() > 360 or values.max() < 350 or values.min() > 10:
        return False
    spread = np.quantile(values, 0.9) - np.quantile(values, 0.1)
    steps = np.abs(np.diff(readings, axis=-1))
    steps = steps[np.isfinite(steps)]
    wraps = np.mean(steps > 270) if steps.size else 0.0
    halves = np.mean((steps > 120) & (steps <= 240)) if steps.size else 1.0
    return bool(spread > 90 and wraps > 0.005 and wraps > halves)
