"""`AcceptedRange` bounds estimates and corrections to what channel and variable showed, and withholds those far off."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.pipeline.verdicts import Verdicts
from sensormend.readings import CORRECTED, NO_ORIGIN, OBSERVED, Flag
from sensormend.recovery import BoolArray, FloatArray

__all__ = ["FAR", "JUDGED", "LEAST_CELLS", "AcceptedRange", "clipped", "far_outside"]

FAR = 1.0
"""The distance outside the range of a channel, in widths of that range, up to which an estimate or a correction is
bounded to the range; beyond it, it is withheld. The engine's own bounds allow 0.05."""

WIDE = 2.0
"""Ranges of the median channel of its variable that the range of a channel is no wider than to be believed: it may
stand elsewhere, as a barometer on a mountain does, but it does not vary that much more than the others."""

APART = 4
"""One in so many channels must reach an end of the range of their variable, on one day or another."""

MANY = 4
"""Channels of a variable from which the median of their ranges says what one of them can be."""

REACHED = 3
"""Periods that must reach an end of the range of a channel: what was accepted on one or two days does not move it."""

EXTREMES, LONG = 8, 100
"""The most periods that must, of a channel that was accepted in this many times as many: what one that ran wild for a
week showed is not what it can be, after years."""

YOUNG = 10
"""Periods of a channel up to which its range is that of all of them: the third lowest of three days is the highest."""

FEW = 100
"""Accepted readings of a variable up to which nothing is far outside: half a dozen say nothing about the next one."""

LEAST_CELLS = 1000
"""Cells that need an estimate until it is decided whether a variable can be judged at all."""

JUDGED = np.iinfo(np.int64).max
"""The value of `unjudged_from` of a variable that is judged."""


@dataclass(frozen=True, eq=False)
class AcceptedRange:
    """The ranges of the accepted readings of channels and variables, and the number of cells withheld for them.

    Accepted readings have flag 1; until a channel has one of them, those with flag 2 count.

    The range must not follow garbage that was accepted, or it bounds nothing any more. That of a channel therefore ends
    at the third lowest and the third highest of what its periods reached, after years at the eighth, and that of a
    variable at what periods of three of its channels or of one in four reached, without those that vary much more than
    the others. The bounds of a channel enclose both its own range and that of the variable; one that is not believed is
    bounded by the others.

    Attributes
    ----------
    lowest, highest
        (2, sensor, variable, 8): the lowest and the highest ends of the channels' periods, in order from the outermost;
        of flag 1, and of flag 2. Infinite where there are fewer.
    periods
        (2, sensor, variable): the number of these periods.
    count
        By variable: the number of accepted readings.
    needed, withheld
        By variable: the cells that needed an estimate or a correction, and those of them that were withheld.
    unjudged_from
        By variable: the first period that is not judged; `JUDGED` for a variable that is.
    """

    lowest: FloatArray
    highest: FloatArray
    periods: NDArray[np.int64]
    count: NDArray[np.int64]
    needed: NDArray[np.int64]
    withheld: NDArray[np.int64]
    unjudged_from: NDArray[np.int64]

    @classmethod
    def of(cls, variables: int) -> AcceptedRange:
        """Return the range of variables without sensors."""
        shape, counts = (2, 0, variables, EXTREMES), np.zeros((3, variables), dtype=np.int64)
        never = np.full(variables, JUDGED, dtype=np.int64)
        periods = np.zeros(shape[:3], dtype=np.int64)
        return cls(np.zeros(shape), np.zeros(shape), periods, counts[0], counts[1], counts[2], never)

    @cached_property
    def own(self) -> tuple[FloatArray, FloatArray]:
        """The ends of the range of every channel, (sensor, variable); infinite, and inverted, where there is none."""
        part = np.where(self.periods[0] > 0, 0, 1)[None, ..., None]
        periods = self.periods.sum(axis=0)
        place = np.where(periods < YOUNG, 0, np.clip(periods // LONG, REACHED - 1, EXTREMES - 1))[..., None]
        ends = (np.take_along_axis(end, part, axis=0)[0] for end in (self.lowest, self.highest))
        low, high = (np.take_along_axis(end, place, axis=2)[..., 0] for end in ends)
        return low, high

    @cached_property
    def believed(self) -> BoolArray:
        """Which channels have a range that is not much wider than that of the median channel, (sensor, variable)."""
        low, high = self.own
        known = low <= high
        with np.errstate(invalid="ignore"):
            width = np.where(known, high - low, np.nan)
        believed: BoolArray = known.copy()
        for variable in np.flatnonzero(known.sum(axis=0) >= MANY).tolist():
            median = np.median(width[known[:, variable], variable])
            believed[:, variable] &= (width[:, variable] <= WIDE * median) | (median == 0)
        return believed

    @cached_property
    def variable_limits(self) -> tuple[FloatArray, FloatArray]:
        """The lower and the upper end of the range of every variable; infinite where there is no reading."""
        believed = self.believed
        part = np.where(self.periods[0] > 0, 0, 1)[None, ..., None]
        place = np.maximum(REACHED, believed.sum(axis=0) // APART) - 1
        place[np.where(believed, self.periods.sum(axis=0), 0).sum(axis=0) < YOUNG] = 0
        limits = []
        for ends, sign in ((self.lowest[..., :REACHED], 1), (self.highest[..., :REACHED], -1)):
            own = np.where(believed[..., None], sign * np.take_along_axis(ends, part, axis=0)[0], np.inf)
            pooled = np.sort(own.transpose(1, 0, 2).reshape(self.count.size, -1), axis=1)
            pooled = np.concatenate([pooled, np.full((self.count.size, REACHED), np.inf)], axis=1)
            limits.append(sign * np.take_along_axis(pooled, place[:, None], axis=1)[:, 0])
        known = limits[0] <= limits[1]
        return np.where(known, limits[0], -np.inf), np.where(known, limits[1], np.inf)

    @cached_property
    def limits(self) -> tuple[FloatArray, FloatArray]:
        """The lower and the upper bound of every channel, (sensor, variable); infinite where nothing is known."""
        low, high = self.variable_limits
        own_low, own_high = self.own
        believed = self.believed
        return np.where(believed, np.minimum(low, own_low), low), np.where(believed, np.maximum(high, own_high), high)

    def for_second_pass(self) -> AcceptedRange:
        """Return the range for a second pass over the same readings, without those of flag 2 and without counts.

        The second pass judges the readings that the first one had not judged yet.
        """
        start = AcceptedRange.of(self.count.size).with_sensors(self.lowest.shape[1])
        for own, judged in ((start.lowest, self.lowest), (start.highest, self.highest), (start.periods, self.periods)):
            own[0] = judged[0]
        return replace(start, count=np.where(self.periods[0].any(axis=0), self.count, 0))

    def with_sensors(self, sensors: int) -> AcceptedRange:
        """Return the range with sensors added that have no readings yet, up to this number of them."""
        missing = sensors - self.lowest.shape[1]
        if missing <= 0:
            return self

        def longer(array: NDArray[Any], value: float) -> NDArray[Any]:
            new = np.full((2, missing, *array.shape[2:]), value, dtype=array.dtype)
            return np.concatenate([array, new], axis=1)

        return replace(
            self, lowest=longer(self.lowest, np.inf), highest=longer(self.highest, -np.inf),
            periods=longer(self.periods, 0),
        )  # fmt: skip

    def extended(self, value: FloatArray, cells: Verdicts, sensors: NDArray[np.intp]) -> AcceptedRange:
        """Return the range extended by the accepted readings of one period, (sensor, variable, slot), of `sensors`."""
        ranges = self.with_sensors(int(sensors.max(initial=-1)) + 1)
        lowest, highest, periods = ranges.lowest.copy(), ranges.highest.copy(), ranges.periods.copy()
        trusted = (cells.origin == OBSERVED) & np.isfinite(value)
        judged = periods[0, sensors] > 0
        count = self.count.copy()
        for part, flag in enumerate((Flag.GOOD, Flag.NOT_EVALUATED)):
            accepted = trusted & (cells.flag == flag)
            if part == 1:
                accepted &= ~judged[..., None]
            bottom = np.where(accepted, value, np.inf).min(axis=2)
            top = np.where(accepted, value, -np.inf).max(axis=2)
            shows = bottom <= top
            for ends, new, sign in ((lowest, bottom, 1), (highest, top, -1)):
                joined = np.concatenate([ends[part, sensors], new[..., None]], axis=2)
                ends[part, sensors] = sign * np.sort(sign * joined, axis=2)[..., :EXTREMES]
            periods[part, sensors] += shows
            judged = judged | shows
            count += accepted.sum(axis=(0, 2))
        return replace(ranges, lowest=lowest, highest=highest, periods=periods, count=count)

    def applied(
        self,
        cells: Verdicts,
        value: FloatArray,
        seen: BoolArray,
        listed: BoolArray,
        period: int,
        sensors: NDArray[np.intp],
        *,
        intervals: bool = True,
    ) -> tuple[Verdicts, AcceptedRange]:
        """Return the verdicts of a period with bounded values, and the range with the cells counted that it withholds.

        `seen` readings were given to the model; only the `listed` channels of the `sensors` have rows. An estimate
        without an interval is withheld, unless the method has no `intervals` at all.
        """
        low, high = (end[sensors, :, None] for end in self.limits)
        observed, absent = cells.origin == OBSERVED, np.isnan(cells.cleaned)
        finite = np.isfinite(cells.cleaned)
        if intervals:
            finite &= np.isfinite(cells.lower) & np.isfinite(cells.upper)
        far = far_outside(cells.cleaned, low, high) & (self.count >= FEW)[:, None]
        wrong = seen & (cells.flag == Flag.FAIL) & ~observed
        # A gap that the model gives no estimate for is no estimate that was withheld.
        needed = listed[..., None] & ~observed & (wrong | ~absent)
        withheld = needed & (far | ~finite)
        # A correction of which the bounds leave nothing: the reading lies at the end to which it would be moved.
        void = wrong & (cells.origin == CORRECTED) & (clipped(cells.cleaned, low, high) == value)
        returned = (withheld & wrong & (value >= low) & (value <= high)) | (void & ~withheld)
        flag, reason, origin = cells.flag.copy(), cells.reason.copy(), cells.origin.copy()
        flag[returned], origin[withheld], origin[returned] = Flag.SUSPECT, NO_ORIGIN, OBSERVED
        # The interval of a doubtful reading reaches to its estimate, which is bounded likewise.
        cleaned = np.where(observed, cells.cleaned, clipped(cells.cleaned, low, high))
        bound_low, bound_high = np.fmin(low, cleaned), np.fmax(high, cleaned)
        lower = np.where(observed & ~np.isfinite(cells.lower), cleaned, clipped(cells.lower, bound_low, bound_high))
        upper = np.where(observed & ~np.isfinite(cells.upper), cleaned, clipped(cells.upper, bound_low, bound_high))
        for column in (cleaned, lower, upper):
            column[withheld] = np.nan
            column[returned] = value[returned]
        unjudged = np.broadcast_to((self.unjudged_from <= period)[:, None], flag.shape)
        if unjudged.any():
            as_it_came, empty = unjudged & seen, unjudged & ~seen & ~observed
            flag[as_it_came], reason[as_it_came], origin[as_it_came] = Flag.NOT_EVALUATED, 0, OBSERVED
            origin[empty] = NO_ORIGIN
            for column in (cleaned, lower, upper):
                column[empty] = np.nan
                column[as_it_came] = value[as_it_came]
        judged = self.unjudged_from > period
        counts = replace(
            self,
            needed=self.needed + np.where(judged, needed.sum(axis=(0, 2)), 0),
            withheld=self.withheld + np.where(judged, withheld.sum(axis=(0, 2)), 0),
        )
        given_up = (counts.needed >= LEAST_CELLS) & (2 * counts.withheld > counts.needed)
        unjudged_from = np.where(judged & given_up, period + 1, self.unjudged_from)
        return Verdicts(flag, reason, origin, cleaned, lower, upper), replace(counts, unjudged_from=unjudged_from)


def clipped(value: FloatArray, low: FloatArray | float, high: FloatArray | float) -> FloatArray:
    """Return the values bounded to a range; NaN stays NaN."""
    bounded: FloatArray = np.minimum(np.maximum(value, low), high)
    return bounded


def far_outside(value: FloatArray, low: FloatArray | float, high: FloatArray | float) -> BoolArray:
    """Return which values lie more than `FAR` widths outside a range; a range of zero width gives no scale."""
    with np.errstate(invalid="ignore"):
        width = np.multiply(FAR, np.subtract(high, low))
        far: BoolArray = (width > 0) & ((value < low - width) | (value > high + width))
    return far
