"""Scales put each variable's readings on a common footing: y = (x - c0) / width, or (asinh(x / c) - c0) / width.

A quantity that is never negative, reaches down to zero and has a long upper tail (PM2.5, rain, light) is taken as
asinh(x / c), on which doubling means the same everywhere above c and zero is nothing special. All of it follows a
change of unit.

References
----------
.. [1] J. B. Burbidge, L. Magee and A. L. Robb, "Alternative Transformations to Handle Extreme Values of the Dependent
   Variable", Journal of the American Statistical Association 83, 1988: the inverse hyperbolic sine.
"""

from __future__ import annotations

import math

import numpy as np

from sensormend.model.compiling import compiled
from sensormend.recovery import FloatArray

__all__ = [
    "SHAPE_PERIODS",
    "backward",
    "find_bend",
    "find_scale",
    "forward",
    "is_on_plateau",
    "looks_circular",
    "neighbouring_pairs",
    "slope",
]

MIN_READINGS = 48
"""Readings of a variable needed before its shape is decided."""

MIN_SKEW = 1.5
"""Upper over lower half-width (90 % and 10 % quantiles from the median) from which a tail counts as long: about 1 for
temperature over a week, 1.5 to 4 for PM2.5, 2.7 for an exponential quantity."""

STEP_SLOPES = (0.4, 2.5)
"""Slope of log step size over log level between which steps grow with the level: 1 for a log-normal quantity, 0 for
one that is as lively at any level."""

SHAPE_PERIODS = (7, 30)
"""Periods after which a variable's shape is decided: one day of temperature can look like anything."""

REACH = 0.15
"""The part of a variable's range from within which a sound channel reaches a value at which it stands still."""

SAMPLED_PAIRS = 4096
"""Pairs of neighbouring readings by which a shape is decided."""


def find_scale(values: FloatArray, bend: float = 0.0) -> tuple[float, float]:
    """Return centre and width of finite values that are not all equal: median, and (q90 - q10) / 2.56."""
    scaled = np.arcsinh(values / bend) if bend else values
    low, middle, high = np.quantile(scaled, [0.1, 0.5, 0.9])
    return float(middle), float((high - low) / 2.56 or scaled.max() - scaled.min())


def neighbouring_pairs(readings: FloatArray) -> FloatArray:
    """Return some pairs of neighbouring readings, (pair, 2), of (sensor, slot), padded with NaN: one period's share."""
    share = SAMPLED_PAIRS // (SHAPE_PERIODS[-1] + 1)
    pairs = np.full((share, 2), np.nan)
    sampled = readings[:: max(1, len(readings) // share)]
    both = np.stack([sampled[:, :-1], sampled[:, 1:]], axis=-1).reshape(-1, 2)
    both = both[np.isfinite(both).all(axis=1)]
    both = both[:: max(1, -(-len(both) // share))][:share]
    pairs[: len(both)] = both
    return pairs


def find_bend(pairs: FloatArray) -> float:
    """Return the c of asinh(x / c) for a quantity with a long tail upwards from zero, else 0."""
    pairs = pairs[np.isfinite(pairs).all(axis=1)]
    sound = pairs[(pairs >= 0).all(axis=1)]
    # A broken sensor or two may report what cannot be.
    if len(sound) < max(MIN_READINGS, 0.95 * len(pairs)):
        return 0.0
    pairs = sound
    low, middle, high = np.quantile(pairs, [0.1, 0.5, 0.9])
    if high <= 2 * low or high - middle <= MIN_SKEW * (middle - low):
        return 0.0
    order = np.argsort(pairs.sum(axis=1), kind="stable")
    parts = [pairs[part] for part in np.array_split(order, 5)]
    level = np.array([part.mean() for part in parts])
    step = np.array([np.abs(part[:, 1] - part[:, 0]).mean() for part in parts])
    slope = np.polyfit(np.log(level + 0.05 * level[-1]), np.log(step + 1e-3 * step.mean() + 1e-300), 1)[0]
    if not STEP_SLOPES[0] < slope < STEP_SLOPES[1]:
        return 0.0
    return float(np.median(pairs[pairs > 0])) / 2


def looks_circular(readings: FloatArray) -> bool:
    """Return whether readings, (fiber, slot), look like directions in degrees: 0 ... 360, wrapping through north.

    Directions are recognised by steps of nearly a full turn from one slot to the next, which no length takes so often,
    between readings on both sides of north that are not rare themselves, as the spikes of a concentration are.
    """
    values = readings[np.isfinite(readings)]
    if values.size < MIN_READINGS or values.min() < 0 or values.max() > 360:
        return False
    steps = np.abs(np.diff(readings, axis=-1))
    steps = steps[np.isfinite(steps)]
    if steps.size == 0:
        return False
    full, half = np.mean(steps > 300), np.mean((steps > 150) & (steps <= 250))
    sides = min(np.mean(values > 300), np.mean(values < 60))
    return bool(full > 0.005 and full > 0.3 * half and sides > 0.02)


@compiled
def forward(x, variable):
    """Put a reading on its variable's scale."""
    if variable.bend > 0.0:
        x = math.asinh(x / variable.bend)
    return max(-1e6, min(1e6, (x - variable.centre) / (variable.width if variable.width > 0.0 else 1.0)))


@compiled
def backward(y, variable):
    """Undo `forward`; a quantity that is never negative stays so."""
    x = y * (variable.width if variable.width > 0.0 else 1.0) + variable.centre
    if variable.bend > 0.0:
        return variable.bend * math.sinh(max(0.0, min(700.0, x)))
    return x


@compiled
def slope(y, variable):
    """Return dx / dy, by how much a reading changes per unit of its scale."""
    if variable.bend > 0.0:
        return variable.bend * variable.width * math.cosh(max(0.0, min(700.0, y * variable.width + variable.centre)))
    return variable.width if variable.width > 0.0 else 1.0


@compiled
def is_on_plateau(x, before, channel, v):
    """Return whether a reading is where sound sensors of its variable stand still, and was reached from nearby.

    A channel that was never anywhere else is dead.
    """
    if not (v.plateau_low <= x <= v.plateau_high):
        return False
    was_elsewhere = channel.own_low < v.plateau_low or channel.own_high > v.plateau_high
    return was_elsewhere and abs(forward(x, v) - forward(before, v)) < REACH * (forward(v.high, v) - forward(v.low, v))
