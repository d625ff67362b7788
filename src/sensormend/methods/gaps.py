"""Gaps closed by straight lines, for the methods that know no missing data."""

from __future__ import annotations

import math

import numpy as np

from sensormend.recovery import FloatArray

__all__ = ["close_gaps", "close_period", "nobody_heard", "time_line", "time_line_back"]


def time_line(readings: FloatArray, fiber_axis: int) -> FloatArray:
    """Lay readings out as (sensor, variable, time): the periods in order, each slot by slot.

    Examples
    --------
    >>> time_line(np.array([[[1, 3], [2, 4]]]), 1)
    array([[[1, 2, 3, 4]]])
    """
    last = np.moveaxis(readings, fiber_axis, -1)
    variables = int(np.prod(readings.shape[1:fiber_axis], dtype=int))
    return last.reshape(readings.shape[0], variables, -1)


def time_line_back(line: FloatArray, shape: tuple[int, ...], fiber_axis: int) -> FloatArray:
    """Undo `time_line`."""
    moved = (*shape[:fiber_axis], *shape[fiber_axis + 1 :], shape[fiber_axis])
    return np.moveaxis(line.reshape(moved), -1, fiber_axis)


def close_gaps(line: FloatArray, before: FloatArray | None = None) -> FloatArray:
    """Interpolate (sensor, time) or (sensor, variable, time) linearly, holding first and last readings at the ends.

    Parameters
    ----------
    line
        Readings, NaN where there is none.
    before
        What each sensor (and variable) was just before the first time, NaN where that is not known.

    Returns
    -------
    closed
        A sensor without any reading takes the mean of the others, of the same variable if anyone was heard on it; NaN
        is left only where nothing is known at all.
    """
    closed = np.array(line)
    if not np.isnan(closed).any():
        return closed
    if closed.ndim == 3:
        for variable in range(closed.shape[1]):
            closed[:, variable] = close_gaps(line[:, variable], None if before is None else before[:, variable])
        return _with_means(closed)
    times = np.arange(closed.shape[1])
    for row in np.flatnonzero(np.isnan(closed).any(axis=1)):
        there = np.flatnonzero(~np.isnan(line[row]))
        at, values = there.astype(float), line[row, there]
        if before is not None and np.isfinite(before[row]):
            at, values = np.concatenate(([-1.0], at)), np.concatenate(([before[row]], values))
        if at.size:
            closed[row] = np.interp(times, at, values)
    return _with_means(closed)


def _with_means(closed: FloatArray) -> FloatArray:
    """Give whoever was never heard the mean of those who were."""
    unheard = np.isnan(closed[..., 0])
    if unheard.any() and not unheard.all():
        closed[unheard] = closed[~unheard].mean(axis=0)
    return closed


def nobody_heard(shape: tuple[int, ...], fiber_axis: int) -> FloatArray:
    """Return the `last` of `close_period` before the first period, for minibatches of this shape."""
    return np.full((shape[0], math.prod(shape[1:fiber_axis])), np.nan)


def close_period(readings: FloatArray, last: FloatArray, fiber_axis: int) -> tuple[FloatArray, FloatArray]:
    """Close the gaps of a minibatch period by period, as if each came alone.

    Returns
    -------
    closed
        (sensor, variable, time).
    last
        The last value of each (sensor, variable) that was ever heard, for the next period.
    """
    line = time_line(readings, fiber_axis)
    slots = readings.shape[fiber_axis]
    closed = np.empty_like(line)
    for first in range(0, line.shape[2], slots):
        span = slice(first, first + slots)
        closed[..., span] = close_gaps(line[..., span], last)
        heard = np.isfinite(last) | np.isfinite(line[..., span]).any(axis=2)
        last = np.where(heard, closed[..., span.stop - 1], np.nan)
    return closed, last
