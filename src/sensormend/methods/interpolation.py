"""The module interpolates missing readings linearly in time, for the methods that know no missing data."""

from __future__ import annotations

import math

import numpy as np

from sensormend.recovery import FloatArray

__all__ = ["as_series", "from_series", "interpolate", "interpolate_periods", "no_last_values"]


def as_series(readings: FloatArray, fiber_axis: int) -> FloatArray:
    """Lay readings out as (sensor, variable, time): the periods in order, each slot by slot.

    Examples
    --------
    >>> as_series(np.array([[[1, 3], [2, 4]]]), 1)
    array([[[1, 2, 3, 4]]])
    """
    last = np.moveaxis(readings, fiber_axis, -1)
    variables = int(np.prod(readings.shape[1:fiber_axis], dtype=int))
    return last.reshape(readings.shape[0], variables, -1)


def from_series(series: FloatArray, shape: tuple[int, ...], fiber_axis: int) -> FloatArray:
    """Undo `as_series`."""
    moved = (*shape[:fiber_axis], *shape[fiber_axis + 1 :], shape[fiber_axis])
    return np.moveaxis(series.reshape(moved), -1, fiber_axis)


def interpolate(series: FloatArray, before: FloatArray | None = None) -> FloatArray:
    """Interpolate (sensor, time) or (sensor, variable, time) linearly, holding first and last readings at the ends.

    Parameters
    ----------
    series
        Readings, NaN where there is none.
    before
        What each sensor (and variable) was just before the first time, NaN where that is not known.

    Returns
    -------
    filled
        A sensor without any reading takes the mean of the others, of the same variable if any of them reported it; NaN
        is left only where nothing is known at all.
    """
    filled = np.array(series)
    if not np.isnan(filled).any():
        return filled
    if filled.ndim == 3:
        for variable in range(filled.shape[1]):
            filled[:, variable] = interpolate(series[:, variable], None if before is None else before[:, variable])
        return _with_means(filled)
    times = np.arange(filled.shape[1])
    for row in np.flatnonzero(np.isnan(filled).any(axis=1)):
        observed = np.flatnonzero(~np.isnan(series[row]))
        times_known, values = observed.astype(float), series[row, observed]
        if before is not None and np.isfinite(before[row]):
            times_known, values = np.concatenate(([-1.0], times_known)), np.concatenate(([before[row]], values))
        if times_known.size:
            filled[row] = np.interp(times, times_known, values)
    return _with_means(filled)


def _with_means(filled: FloatArray) -> FloatArray:
    """Give sensors that were never reported the mean of those that were."""
    silent = np.isnan(filled[..., 0])
    if silent.any() and not silent.all():
        filled[silent] = filled[~silent].mean(axis=0)
    return filled


def no_last_values(shape: tuple[int, ...], fiber_axis: int) -> FloatArray:
    """Return the `last` of `interpolate_periods` before the first period, for minibatches of this shape."""
    return np.full((shape[0], math.prod(shape[1:fiber_axis])), np.nan)


def interpolate_periods(readings: FloatArray, last: FloatArray, fiber_axis: int) -> tuple[FloatArray, FloatArray]:
    """Interpolate a minibatch period by period, as if each came alone.

    Returns
    -------
    filled
        (sensor, variable, time).
    last
        The last value of each (sensor, variable) that ever reported, for the next period.
    """
    series = as_series(readings, fiber_axis)
    slots = readings.shape[fiber_axis]
    filled = np.empty_like(series)
    for first in range(0, series.shape[2], slots):
        span = slice(first, first + slots)
        filled[..., span] = interpolate(series[..., span], last)
        reported = np.isfinite(last) | np.isfinite(series[..., span]).any(axis=2)
        last = np.where(reported, filled[..., span.stop - 1], np.nan)
    return filled, last
