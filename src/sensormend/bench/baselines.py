"""What a user would do instead: two plain rules that most people would write in an afternoon."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.ndimage import median_filter

from sensormend.methods.gaps import close_gaps, time_line, time_line_back
from sensormend.recovery import BoolArray, FloatArray, Recovery
from sensormend.tensor import as_readings

__all__ = ["BuddyCheck", "RollingMedian"]

AS_NORMAL = 1.4826
"""A median absolute deviation times this is the standard deviation of normal numbers."""
SIGMAS = 3.0
HALF_DAY = 0.5
"""A fiber is faulty when half of its readings are beyond the limit."""


class RollingMedian:
    """Compare each reading with the median of the readings around it; close what is left open by straight lines.

    A reading farther than three (robust) standard deviations of that sensor's distances from its rolling median is an
    outlier; a fiber half of whose readings are outliers is faulty. Each sensor stands alone, so that what lasts longer
    than the window, an offset or a stuck value, takes the median along and is not seen.

    Parameters
    ----------
    hours
        The window, in slots.
    """

    def __init__(self, hours: int = 25) -> None:
        self.hours = hours

    def recover(self, tensor: ArrayLike) -> Recovery:
        """Judge the whole tensor (sensor, slot, day), then interpolate."""
        readings = as_readings(tensor, min_axes=3)
        line = time_line(readings, 1)[:, 0]
        closed = close_gaps(line)
        distance = np.abs(line - median_filter(closed, size=(1, self.hours), mode="nearest"))
        excess = distance / _limit(distance)
        return _verdict(readings, excess, lambda wrong: close_gaps(np.where(wrong, np.nan, line)))


class BuddyCheck:
    """Compare each reading with what the sensors most correlated with this one say; fill with the same.

    A sensor's buddies are those most correlated with it over the whole time; their estimate is the median of their
    readings, each shifted by its usual distance. A reading farther from it than three (robust) standard deviations is
    an outlier; a fiber half of whose readings are outliers is faulty.

    Parameters
    ----------
    buddies
        How many.
    """

    def __init__(self, buddies: int = 5) -> None:
        self.buddies = buddies

    def recover(self, tensor: ArrayLike) -> Recovery:
        """Judge the whole tensor (sensor, slot, day), then fill from the buddies, or by straight lines without any."""
        readings = as_readings(tensor, min_axes=3)
        line = time_line(readings, 1)[:, 0]
        estimate = self._estimate(line)
        distance = np.abs(line - estimate)
        excess = distance / _limit(distance)
        return _verdict(readings, excess, lambda wrong: np.where(wrong | np.isnan(line), estimate, line))

    def _estimate(self, line: FloatArray) -> FloatArray:
        closed = close_gaps(line)
        # Ranks, so that a few wild readings do not decide who belongs together.
        ranked = closed.argsort(axis=1).argsort(axis=1)
        with np.errstate(invalid="ignore"):
            alike = np.corrcoef(ranked) if line.shape[1] > 1 else np.zeros((len(line), len(line)))
        alike = np.nan_to_num(np.atleast_2d(alike))
        np.fill_diagonal(alike, -np.inf)
        estimate = closed.copy()
        for sensor in range(len(line)):
            best = np.argsort(-alike[sensor])[: min(self.buddies, len(line) - 1)]
            if best.size:
                shift = np.median(closed[sensor] - closed[best], axis=1, keepdims=True)
                estimate[sensor] = np.median(closed[best] + shift, axis=0)
        return estimate


def _limit(distance: FloatArray) -> FloatArray:
    """Return three robust standard deviations of every sensor's distances, (sensor, 1)."""
    with np.errstate(invalid="ignore"):
        heard = np.where(np.isnan(distance).all(axis=1, keepdims=True), 0.0, distance)
    usual = np.nanmedian(heard, axis=1, keepdims=True)
    limit: FloatArray = np.maximum(SIGMAS * AS_NORMAL * usual, 1e-9)
    return limit


def _verdict(readings: FloatArray, excess: FloatArray, fill: Callable[[BoolArray], FloatArray]) -> Recovery:
    """Turn how far each reading is past its limit into a `Recovery`; `fill` replaces what it is told is wrong."""
    by_slot = time_line_back(excess[:, None], readings.shape, 1)
    there = np.isfinite(readings)
    evaluated: BoolArray = np.any(there, axis=1)
    score = np.nanquantile(np.where(evaluated[:, None], by_slot, 0.0), HALF_DAY, axis=1)
    faulty = score > 1
    beyond = there & (np.nan_to_num(by_slot) > 1)
    wrong = there & (beyond | faulty[:, None])
    flat = np.moveaxis(wrong, 1, -1).reshape(len(wrong), -1)
    estimate = time_line_back(fill(flat)[:, None], readings.shape, 1)
    return Recovery(
        low_rank=estimate,
        outliers=np.where(wrong, readings - estimate, 0.0),
        wrong=wrong,
        doubtful=np.zeros(wrong.shape, dtype=bool),
        spikes=beyond & ~faulty[:, None],
        corrected=np.zeros(wrong.shape, dtype=bool),
        cleaned=np.where(there & ~wrong, readings, estimate),
        lower=None,
        upper=None,
        faulty=faulty,
        suspect=np.zeros(faulty.shape, dtype=bool),
        evaluated=evaluated,
        score=score,
        reason=np.full(faulty.shape, "", dtype="<U11"),
        faults=(),
        iterations=1,
    )
