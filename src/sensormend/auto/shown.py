"""What a variable has shown so far, and the estimates kept within it."""

from __future__ import annotations

import numpy as np

from sensormend.arrays import Array, namespace, on_host
from sensormend.auto.door import some_sensors
from sensormend.auto.memory import Model
from sensormend.auto.settling import Period

__all__ = ["keep_within"]

ABSURD = 20.0
"""Widths (90 % less 10 % quantile) from the median beyond which a reading that nobody judged is not counted."""

MARGIN = 0.5
"""Share of the mean standard deviation within a period by which estimates may lie beyond all that was shown."""

SLOWEST = 0.02
"""How much of the mean of the daily spreads one more period makes, at least."""


def keep_within(model: Model, readings: Array, result: Period, *, learning: bool) -> None:
    """Keep what a period estimates, (channel, slot), within what trusted sensors of the variable have shown.

    That is from the least to the largest of their readings so far, this period's included, and beyond that by a part
    of their usual spread within a period, but not below zero where none was. With `learning` on, the range is
    remembered.
    """
    for variable in range(model.variables):
        _keep_variable(model, readings, result, variable, learning=learning)


def _keep_variable(model: Model, readings: Array, result: Period, variable: int, *, learning: bool) -> None:
    xp, mine = namespace(readings), slice(variable, None, model.variables)
    raw = readings[mine]
    observed = xp.isfinite(raw)
    good = observed & ~result.faulty[mine][:, None] & ~result.spikes[mine]
    judged = good & result.evaluated[mine][:, None]
    today = _range(raw, judged)
    if not np.isfinite(today).all():
        today = _range(raw, good & _plausible(raw, good))
    low, high, spread, rest = _together(model, variable, today)
    if not np.isfinite(low):
        return
    if learning:
        model.pools.shown[variable] = low, high, spread, rest
    margin = min(MARGIN * spread, high - low)
    least, most = low - margin, high + margin
    if low >= 0:
        least = max(least, 0.0)
    result.low_rank[mine] = estimate = xp.clip(result.low_rank[mine], least, most)
    for array in (result.cleaned, result.lower, result.upper):
        values = array[mine]
        array[mine] = xp.where(good, values, xp.clip(values, least, most))
    wrong = observed & ~good
    if bool(xp.any(wrong)):
        result.outliers[mine] = xp.where(wrong, raw - estimate, result.outliers[mine])


def _together(model: Model, variable: int, today: list[float]) -> list[float]:
    """Return the least, the largest, the mean spread and the mean share at rest of all periods up to this one."""
    before: list[float] = model.pools.shown[variable].tolist()
    if not np.isfinite(before).all():
        return today
    if not np.isfinite(today).all():
        return before
    rate = max(1 / (model.pools.period + 1), SLOWEST)
    means = [old + rate * (new - old) for old, new in zip(before[2:], today[2:], strict=True)]
    return [min(before[0], today[0]), max(before[1], today[1]), *means]


def _range(raw: Array, there: Array) -> list[float]:
    """Return the least and the largest of these readings, their spread and the share equal to their median.

    NaN where there are none.
    """
    xp = namespace(raw)
    count = int(xp.sum(there, dtype=xp.int64))
    if count == 0:
        return [np.nan] * 4
    low, high = float(xp.min(xp.where(there, raw, xp.inf))), float(xp.max(xp.where(there, raw, -xp.inf)))
    middle = low + (high - low) / 2
    apart = xp.where(there, raw - middle, 0.0)
    mean, square = (float(xp.sum(values, dtype=xp.float64)) / count for values in (apart, apart * apart))
    some = some_sensors(xp.where(there, raw, xp.nan))
    some = some[np.isfinite(some)]
    rest = float(np.mean(some == np.quantile(some, 0.5, method="lower"))) if some.size else 0.0
    return [low, high, float(np.sqrt(max(square - mean**2, 0.0))), rest]


def _plausible(raw: Array, there: Array) -> Array:
    """Say which readings are not absurdly far from all others."""
    xp = namespace(raw)
    if not bool(xp.any(there)):
        return there
    low, middle, high = np.quantile(on_host(raw[there]).astype(float), [0.1, 0.5, 0.9])
    if high == low:
        return there
    return xp.abs(raw - float(middle)) <= ABSURD * float(high - low)
