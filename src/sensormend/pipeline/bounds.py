"""`AcceptedRange` bounds estimates and corrections to the readings of their variable, and withholds those far off."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sensormend.pipeline.verdicts import Verdicts
from sensormend.readings import CORRECTED, NO_ORIGIN, OBSERVED, Flag
from sensormend.recovery import BoolArray, FloatArray

__all__ = ["FAR", "JUDGED", "LEAST_CELLS", "AcceptedRange", "clipped", "far_outside"]

FAR = 1.0
"""The distance outside the range of a variable's accepted readings, in widths of that range, up to which an estimate
or a correction is bounded to the range; beyond it, it is withheld. The engine's own bounds allow 0.05."""

EXTREMES = 3
"""Readings that must reach a bound: one or two freak readings that were accepted do not move it."""

MANY = 12
"""Good readings of one period that move a bound as far as they reach; fewer move it by one width at most. A storm, or a
barometer on a mountain that joins, has more of them than a freak."""

FEW = 100
"""Accepted readings up to which the range is that of all of them, and nothing is far outside: half a dozen readings
say nothing about the next one."""

LEAST_CELLS = 1000
"""Cells that need an estimate until it is decided whether a variable can be judged at all."""

JUDGED = np.iinfo(np.int64).max
"""The value of `unjudged_from` of a variable that is judged."""


@dataclass(frozen=True, eq=False)
class AcceptedRange:
    """The range of the accepted readings of every variable, and the number of cells that were withheld for it.

    Accepted readings have flag 1 or 3. Until a variable has one of them, those with flag 2 count, too.

    The range must not follow a freak reading that was accepted, or it bounds nothing any more. It therefore ends at
    the third lowest and the third highest reading, and readings of one period count as no farther than one width
    outside the range before it, except as far as a dozen good readings of the period reach.

    Attributes
    ----------
    lowest, highest
        (2, variable, 3): the lowest and the highest readings, in order from the outermost; those of flags 1 and 3, and
        those of flag 2. Infinite where there are fewer.
    count
        (2, variable): the number of these readings.
    needed, withheld
        By variable: the cells that needed an estimate or a correction, and those of them that were withheld.
    unjudged_from
        By variable: the first period that is not judged; `JUDGED` for a variable that is.
    """

    lowest: FloatArray
    highest: FloatArray
    count: NDArray[np.int64]
    needed: NDArray[np.int64]
    withheld: NDArray[np.int64]
    unjudged_from: NDArray[np.int64]

    @classmethod
    def of(cls, variables: int) -> AcceptedRange:
        """Return the range of variables without readings."""
        shape, counts = (2, variables, EXTREMES), np.zeros((4, variables), dtype=np.int64)
        never = np.full(variables, JUDGED, dtype=np.int64)
        return cls(np.full(shape, np.inf), np.full(shape, -np.inf), counts[:2], counts[2], counts[3], never)

    @property
    def limits(self) -> tuple[FloatArray, FloatArray]:
        """The lower and the upper end of the range by variable; infinite where there is no reading."""
        which, variables = np.where(self.count.sum(axis=0) < FEW, 0, EXTREMES - 1), np.arange(self.count.shape[1])
        low = np.sort(np.concatenate(self.lowest, axis=1), axis=1)[variables, which]
        high = -np.sort(-np.concatenate(self.highest, axis=1), axis=1)[variables, which]
        known = low <= high
        return np.where(known, low, -np.inf), np.where(known, high, np.inf)

    def for_second_pass(self) -> AcceptedRange:
        """Return the range for a second pass over the same readings, without those of flag 2 and without counts.

        The second pass judges the readings that the first one had not judged yet.
        """
        start = AcceptedRange.of(self.count.shape[1])
        for own, judged in ((start.lowest, self.lowest), (start.highest, self.highest), (start.count, self.count)):
            own[0] = judged[0]
        return start

    def extended(self, value: FloatArray, cells: Verdicts) -> AcceptedRange:
        """Return the range extended by the accepted readings of one period, (sensor, variable, slot)."""
        lowest, highest, count = self.lowest.copy(), self.highest.copy(), self.count.copy()
        low, high = self.limits
        with np.errstate(invalid="ignore"):
            # A range of zero width gives no scale, and a few readings are no range yet.
            width = np.where((self.count.sum(axis=0) >= FEW) & (high > low), high - low, np.inf)
        trusted = (cells.origin == OBSERVED) & np.isfinite(value)
        for variable in range(count.shape[1]):
            own, flag = value[:, variable], np.where(trusted[:, variable], cells.flag[:, variable], 0)
            good = own[flag == Flag.GOOD]
            parts = (own[(flag == Flag.GOOD) | (flag == Flag.SUSPECT)], own[flag == Flag.NOT_EVALUATED])
            for part, readings in enumerate(parts):
                if readings.size == 0 or (part == 1 and self.count[0, variable] > 0):
                    continue
                least, most = low[variable] - width[variable], high[variable] + width[variable]
                if good.size >= MANY:
                    least = min(least, np.partition(good, MANY - 1)[MANY - 1])
                    most = max(most, np.partition(good, -MANY)[-MANY])
                last = min(EXTREMES, readings.size) - 1
                bottom, top = np.partition(readings, last)[: last + 1], -np.partition(-readings, last)[: last + 1]
                with_new = (
                    np.concatenate([lowest[part, variable], np.maximum(bottom, least)]),
                    np.concatenate([highest[part, variable], np.minimum(top, most)]),
                )
                lowest[part, variable] = np.sort(with_new[0])[:EXTREMES]
                highest[part, variable] = -np.sort(-with_new[1])[:EXTREMES]
                count[part, variable] += readings.size
        return replace(self, lowest=lowest, highest=highest, count=count)

    def applied(
        self, cells: Verdicts, value: FloatArray, seen: BoolArray, listed: BoolArray, period: int
    ) -> tuple[Verdicts, AcceptedRange]:
        """Return the verdicts of a period with bounded values, and the range with the cells counted that it withholds.

        `seen` readings were given to the model; only the `listed` channels have rows.
        """
        low, high = (end[:, None] for end in self.limits)
        observed, absent = cells.origin == OBSERVED, np.isnan(cells.cleaned)
        finite = np.isfinite(cells.cleaned) & np.isfinite(cells.lower) & np.isfinite(cells.upper)
        far = far_outside(cells.cleaned, low, high) & (self.count.sum(axis=0) >= FEW)[:, None]
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
