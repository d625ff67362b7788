"""`AcceptedRange` clips estimates and corrections to the observed range, and withholds those far outside of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.pipeline.verdicts import Mark, Verdicts, flag_cells
from sensormend.readings import CORRECTED, NO_ORIGIN, OBSERVED, Flag
from sensormend.recovery import BoolArray, FloatArray

__all__ = ["FAR", "JUDGED", "LEAST_CELLS", "AcceptedRange", "clipped", "far_outside"]

FAR = 1.0
"""An estimate more than this many widths outside the range of its channel is withheld and counted: a variable most of
whose estimates are so far off is not judged."""

WIDE = 2.0
"""A channel is trusted if its range is at most this many times as wide as that of the median channel: a barometer on a
mountain has another level than the others, but does not vary that much more."""

DENSE = 8
"""The minimum number of known channels of a variable from which the limits of a single reading follow."""

CLIPPED = 0.05
"""An estimate more than this many widths outside the range of its channel is withheld, too, without being counted: at
the end of the range it would say nothing but that it lay beyond."""

CORE_MARGIN = 0.15
"""An estimate more than this many widths outside the core of its variable is withheld."""

CUT, VAGUE, EMPTY = 0.1, 0.25, 0.6
"""An interval was cut at one end if the estimate is closer to this end than this share of its distance to the other
end. The estimate is vague if that distance is more than this share of the range of its channel, known from `KNOWN`
periods, and says nothing if the whole interval is wider than the last share of that range."""

RATIO = 3.0
"""Readings of a nonnegative quantity are impossible from this many widths above the range, of others from `FAR`: the
heaviest rain of a decade is several times that of a year."""

UNLIKE = 4.0
"""The channels of a variable say nothing of each other's ranges if those of the middle half differ in width by more
than this factor: gauges of a brook and of a river, meters of a flat and of a factory. It is 9 among 190 rivers, and at
most 2.7 in networks of one kind, broken sensors included."""

APART = 4
"""The range of a variable extends to what one in this many of its channels has reached."""

MANY = 4
"""The minimum number of channels whose median width limits the width of one of them."""

REACHED = 3
"""The range of a channel extends to what this many periods have reached, so that one or two bad days do not widen
it."""

EXTREMES, LONG = 8, 100
"""This number grows with the length of the record, one for every `LONG` periods, up to `EXTREMES`, so that after years
one bad week does not widen the range."""

NEGATIVE = 5e-3
"""A quantity is nonnegative if less than this share of its readings is below 0, as those of an anemometer with a wrong
zero are."""

KNOWN = 30
"""The number of periods in which a channel left its lowest value, after which its readings may be called impossible. A
rain gauge needs as many wet days: the wettest of a few says little about a thunderstorm."""

YOUNG = 10
"""With fewer periods the range encloses all of them: the third lowest of three days is the highest."""

FEW = 100
"""With fewer accepted readings of a variable nothing is withheld as far outside."""

LEAST_CELLS = 1000
"""The number of cells that need an estimate before it is decided whether a variable can be judged at all."""

JUDGED = np.iinfo(np.int64).max
"""The value of `unjudged_from` of a variable that is judged."""


@dataclass(frozen=True, eq=False)
class AcceptedRange:
    """The ranges of the accepted readings of channels and variables, and the number of cells withheld for them.

    Accepted readings have flag 1; until a channel has one of them, those with flag 2 count.

    Accepted garbage must not widen the ranges. The range of a channel therefore ends at the third lowest and the third
    highest of the extremes of its periods (after years at the eighth), and that of a variable at the third most extreme
    period of its channels, or at as many as a quarter of them; channels that vary much more than the others do not
    count. The limits of a channel enclose its own range and that of the variable; a channel that is not believed has
    the limits of the variable.

    Attributes
    ----------
    lowest, highest
        (2, sensor, variable, 8): the most extreme minima and maxima of periods, the outermost first; of readings with
        flag 1, and with flag 2. Infinite where there are fewer periods.
    comoving
        (sensor, variable): which channels move with the others, as far as is known.
    counting
        (sensor, variable): which channels count for their variable: not those that joined and have not agreed yet.
    periods, moving
        (2, sensor, variable): the number of these periods, and of those that left the lowest value.
    count, negative
        By variable: the number of accepted readings, and of those below 0.
    needed, withheld
        By variable: the cells that needed an estimate or a correction, and those of them that were withheld.
    unjudged_from
        By variable: the first period that is not judged; `JUDGED` for a variable that is.
    """

    lowest: FloatArray
    highest: FloatArray
    comoving: BoolArray
    counting: BoolArray
    periods: NDArray[np.int64]
    moving: NDArray[np.int64]
    count: NDArray[np.int64]
    negative: NDArray[np.int64]
    needed: NDArray[np.int64]
    withheld: NDArray[np.int64]
    unjudged_from: NDArray[np.int64]

    @classmethod
    def of(cls, variables: int) -> AcceptedRange:
        """Return the range of variables without sensors."""
        shape = (2, 0, variables, EXTREMES)
        accepted, negative, needed, withheld = np.zeros((4, variables), dtype=np.int64)
        never = np.full(variables, JUDGED, dtype=np.int64)
        periods = np.zeros(shape[:3], dtype=np.int64)
        comoving = np.ones(shape[1:3], dtype=bool)
        return cls(
            np.zeros(shape), np.zeros(shape), comoving, comoving, periods, periods.copy(), accepted, negative, needed,
            withheld, never,
        )  # fmt: skip

    def _extremes(self) -> list[FloatArray]:
        """Return the lowest and the highest extremes of every channel, (sensor, variable, 8).

        Those of readings with flag 2 count for a channel without one with flag 1.
        """
        judged = (self.periods[0] > 0)[..., None]
        return [np.where(judged, ends[0], ends[1]) for ends in (self.lowest, self.highest)]

    @cached_property
    def own(self) -> tuple[FloatArray, FloatArray]:
        """The ends of the range of every channel, (sensor, variable); infinite, and inverted, where there is none."""
        periods = self.periods.sum(axis=0)
        place = np.where(periods < YOUNG, 0, np.minimum(np.maximum(periods // LONG, REACHED - 1), EXTREMES - 1))
        rows, columns = np.ogrid[: place.shape[0], : place.shape[1]]
        low, high = (end[rows, columns, place] for end in self._extremes())
        return low, high

    @cached_property
    def _widths(self) -> FloatArray:
        """The quartiles of the widths of the ranges of counted channels, (3, variable); infinite without any."""
        low, high = self.own
        counted = (low <= high) & self.counting
        # Unknown channels come last.
        with np.errstate(invalid="ignore"):
            ordered = np.sort(np.where(counted, high - low, np.inf), axis=0)
        if not ordered.size:
            return np.full((3, counted.shape[1]), np.inf)
        last = np.maximum(counted.sum(axis=0) - 1, 0)
        ends = np.stack([last * share for share in (0.25, 0.5, 0.75)])
        columns = np.arange(ordered.shape[1])
        below, above = (ordered[end.astype(np.intp), columns] for end in (np.floor(ends), np.ceil(ends)))
        quartiles: FloatArray = (below + above) / 2
        return quartiles

    @cached_property
    def _alike(self) -> BoolArray:
        """Whether the channels of a variable are of one kind, by the widths of their ranges."""
        low, _, high = self._widths
        alike: BoolArray = high <= UNLIKE * low
        return alike

    @cached_property
    def believed(self) -> BoolArray:
        """Which channels have a range that is not much wider than that of the median channel, (sensor, variable).

        Where channels are not alike, all have.
        """
        low, high = self.own
        known = low <= high
        count, median = (known & self.counting).sum(axis=0), self._widths[1]
        with np.errstate(invalid="ignore"):
            narrow = high - low <= WIDE * median
        believed: BoolArray = known & ((count < MANY) | ~self._alike | narrow | (median == 0))
        return believed

    @cached_property
    def variable_limits(self) -> tuple[FloatArray, FloatArray]:
        """The lower and the upper end of the range of every variable; infinite where there is no reading."""
        believed = self.believed & self.counting
        place = np.maximum(REACHED, believed.sum(axis=0) // APART) - 1
        place[np.where(believed, self.periods.sum(axis=0), 0).sum(axis=0) < YOUNG] = 0
        limits = []
        for ends, sign in zip(self._extremes(), (1, -1), strict=True):
            own = np.where(believed[..., None], sign * ends[..., :REACHED], np.inf)
            pooled = np.sort(own.transpose(1, 0, 2).reshape(self.count.size, -1), axis=1)
            pooled = np.concatenate([pooled, np.full((self.count.size, REACHED), np.inf)], axis=1)
            # Of few channels no farther than the farthest one: of that, after years, more bad periods are left out.
            farthest = np.where(believed, sign * self.own[sign < 0], np.inf).min(axis=0, initial=np.inf)
            farthest[believed.sum(axis=0) >= MANY] = -np.inf
            limits.append(sign * np.maximum(pooled[np.arange(place.size), place], farthest))
        known = limits[0] <= limits[1]
        return np.where(known, limits[0], -np.inf), np.where(known, limits[1], np.inf)

    @cached_property
    def _shown(self) -> tuple[FloatArray, FloatArray]:
        """The range that encloses those of channel and variable, (sensor, variable); infinite where none is known."""
        low, high = self.variable_limits
        own_low, own_high = self.own
        # A barometer on a mountain moves with those in the valley; a thermistor broken at 93 deg C does not.
        is_apart = (own_low > high) | (own_high < low)
        believed = self.believed & (self.comoving | ~is_apart)
        low, high = (
            np.where(believed, np.minimum(low, own_low), low),
            np.where(believed, np.maximum(high, own_high), high),
        )
        # A nonnegative quantity is not estimated below 0.
        floor = np.where(self.negative < NEGATIVE * self.count, 0.0, -np.inf)
        return np.maximum(low, np.minimum(floor, high)), high

    @cached_property
    def limits(self) -> tuple[FloatArray, FloatArray]:
        """The lower and the upper bound of every channel, (sensor, variable); infinite where nothing is known."""
        (low, high), (core_low, core_high) = self._shown, self._wide_core
        inside = self._in_core & (core_low < high) & (core_high > low)
        return np.where(inside, np.maximum(low, core_low), low), np.where(inside, np.minimum(high, core_high), high)

    @cached_property
    def correction_limits(self) -> tuple[FloatArray, FloatArray]:
        """The bounds of every channel for corrections, clipped to the core of its variable, (sensor, variable)."""
        (low, high), (core_low, core_high) = self.limits, self.core
        inside = self._in_core & (core_low < high) & (core_high > low)
        return np.where(inside, np.maximum(low, core_low), low), np.where(inside, np.minimum(high, core_high), high)

    @cached_property
    def core(self) -> tuple[FloatArray, FloatArray]:
        """The range of every variable without a quarter of its channels at either end; infinite for few channels.

        Accepted garbage of some channels does not widen it, even if it lasts for months.
        """
        return self._without(APART)

    @cached_property
    def _middle(self) -> tuple[FloatArray, FloatArray]:
        """The range of every variable without half of its channels at either end; infinite for few channels."""
        return self._without(2)

    def _without(self, part: int) -> tuple[FloatArray, FloatArray]:
        """Return the range of every variable without one in `part` of its channels at either end."""
        low, high = np.full(self.count.size, -np.inf), np.full(self.count.size, np.inf)
        believed = self.believed & self.counting & (self.periods.sum(axis=0) >= YOUNG)
        count = believed.sum(axis=0)
        dense = np.flatnonzero((count >= DENSE) & self._alike)
        for ends, sign, end in zip(self.own, (1, -1), (low, high), strict=True):
            # Channels that are not believed come last.
            ordered = np.sort(np.where(believed[:, dense], sign * ends[:, dense], np.inf), axis=0)
            end[dense] = sign * ordered[count[dense] // part, np.arange(dense.size)]
        known = (low < high) & np.isfinite(low)
        return np.where(known, low, -np.inf), np.where(known, high, np.inf)

    @cached_property
    def _piled(self) -> tuple[BoolArray, BoolArray]:
        """Whether the readings of a channel pile up at the lower and the upper end of its range, (sensor, variable).

        Nothing was ever beyond, and two periods were there: 0 mm of rain, a humidity of 100 %.
        """
        low, high = ((ends[..., :2] == end[..., None]).all(axis=-1)
                     for end, ends in zip(self.own, self._extremes(), strict=True))  # fmt: skip
        return low, high

    @cached_property
    def _wide_core(self) -> tuple[FloatArray, FloatArray]:
        """The core of every variable with a margin."""
        low, high = self.core
        own_low = np.where(self.believed, self.own[0], np.nan)
        # Where all channels have the same floor, as rain has at 0, the upper margin is wider.
        rests = (own_low == low) | np.isnan(own_low)
        with np.errstate(invalid="ignore"):
            width = np.nan_to_num(high - low, posinf=0.0)
        return low - CORE_MARGIN * width, high + np.where(rests.all(axis=0), RATIO, CORE_MARGIN) * width

    @cached_property
    def _in_core(self) -> BoolArray:
        """Which channels are bounded by the core, (sensor, variable): all but comoving ones whose range lies apart."""
        low, high = self.core
        own_low, own_high = self.own
        inside: BoolArray = ((own_low <= high) & (own_high >= low)) | ~self.comoving
        return inside

    def _outside_core(
        self, cleaned: FloatArray, value: FloatArray, channel: tuple[NDArray[np.intp], NDArray[np.intp]]
    ) -> tuple[BoolArray, BoolArray]:
        """Return which estimates are far outside the core, and which move a reading out.

        Each is of a `channel`, given as the numbers of sensors and of variables.
        """
        inside = self._in_core[channel]
        (low, high), (least, most) = ((end[channel[1]] for end in ends) for ends in (self.core, self._wide_core))
        with np.errstate(invalid="ignore"):
            far = inside & ((cleaned < least) | (cleaned > most))
            moved_out = inside & ((cleaned < low) | (cleaned > high)) & (value >= low) & (value <= high)
        return far, moved_out

    def impossible(self, value: FloatArray, sensors: NDArray[np.intp]) -> BoolArray:
        """Return which readings of a period, (sensor, variable, slot), are impossible.

        This is QARTOD's gross range test with learned limits: with many channels of a variable, a reading of a known
        channel is impossible if it lies more than `FAR` or `RATIO` widths outside both ranges.
        """
        ranges = self.with_sensors(int(sensors.max(initial=-1)) + 1)
        low, high = ranges.limits
        variable_low, variable_high = ranges.variable_limits
        periods = ranges.periods.sum(axis=0)
        known = ranges.believed & ranges.counting & (periods >= YOUNG)
        dense = (known.sum(axis=0) >= DENSE) & ranges._alike
        with np.errstate(invalid="ignore"):
            width = variable_high - variable_low
            bottom, top = low - FAR * width, high + np.where(variable_low >= 0, RATIO, FAR) * width
            judged = (dense & (width > 0)) & (ranges.moving.sum(axis=0) >= KNOWN)
        bottom, top = np.where(judged, bottom, -np.inf), np.where(judged, top, np.inf)
        outside: BoolArray = (value < bottom[sensors, :, None]) | (value > top[sensors, :, None])
        return outside

    def returning(self, value: FloatArray, sensors: NDArray[np.intp]) -> BoolArray:
        """Return which channels, (sensor, variable), read in a period what most others read, and never did before.

        What they read until then was accepted, or was not judged: where most of eight or more channels contradict it,
        the new level is right, and the old one was not.
        """
        ranges = self.with_sensors(int(sensors.max(initial=-1)) + 1)
        own_low, own_high = (end[sensors] for end in ranges.own)
        low, high = ranges.core
        with np.errstate(invalid="ignore"):
            is_apart = (own_low <= own_high) & ((own_low > high) | (own_high < low))
            inside = (value >= low[:, None]) & (value <= high[:, None])
        count = np.isfinite(value).sum(axis=2)
        returning: BoolArray = is_apart & (count > 0) & (2 * inside.sum(axis=2) > count)
        return returning

    def without(self, channels: BoolArray, sensors: NDArray[np.intp]) -> AcceptedRange:
        """Return the range without what some channels, (sensor, variable), have shown so far."""
        if not channels.any():
            return self
        new = {name: getattr(self, name).copy() for name in ("lowest", "highest", "periods", "moving")}
        rows, variables = np.nonzero(channels)
        for name, array in new.items():
            array[:, sensors[rows], variables] = {"lowest": np.inf, "highest": -np.inf}.get(name, 0)
        return replace(self, **new)

    def for_second_pass(self) -> AcceptedRange:
        """Return the range for a second pass over the same readings, without those of flag 2 and without counts.

        The second pass judges the readings that the first one had not judged yet.
        """
        start = AcceptedRange.of(self.count.size).with_sensors(self.lowest.shape[1])
        for name in ("lowest", "highest", "periods", "moving"):
            getattr(start, name)[0] = getattr(self, name)[0]
        accepted = self.periods[0].any(axis=0)
        counts = {"count": np.where(accepted, self.count, 0), "negative": np.where(accepted, self.negative, 0)}
        return replace(start, comoving=self.comoving, counting=self.counting, **counts)

    def with_sensors(self, sensors: int) -> AcceptedRange:
        """Return the range with sensors added that have no readings yet, up to this number of them."""
        missing = sensors - self.lowest.shape[1]
        if missing <= 0:
            return self

        def longer(array: NDArray[Any], value: float) -> NDArray[Any]:
            new = np.full((2, missing, *array.shape[2:]), value, dtype=array.dtype)
            return np.concatenate([array, new], axis=1)

        new = np.ones((missing, self.count.size), dtype=bool)
        return replace(
            self, lowest=longer(self.lowest, np.inf), highest=longer(self.highest, -np.inf),
            comoving=np.concatenate([self.comoving, new]), counting=np.concatenate([self.counting, new]),
            periods=longer(self.periods, 0), moving=longer(self.moving, 0),
        )  # fmt: skip

    def extended(
        self,
        value: FloatArray,
        cells: Verdicts,
        sensors: NDArray[np.intp],
        comoving: BoolArray | bool = True,
        counting: BoolArray | bool = True,
    ) -> AcceptedRange:
        """Return the range extended by the accepted readings of one period, (sensor, variable, slot), of `sensors`.

        Of their channels, (sensor, variable), `comoving` says which move with the others, and `counting` which count
        for their variable.
        """
        ranges = self.with_sensors(int(sensors.max(initial=-1)) + 1)
        lowest, highest = ranges.lowest.copy(), ranges.highest.copy()
        periods, moving = ranges.periods.copy(), ranges.moving.copy()
        trusted = (cells.origin == OBSERVED) & np.isfinite(value)
        judged = periods[0, sensors] > 0
        count, negative = self.count.copy(), self.negative.copy()
        for part, flag in enumerate((Flag.GOOD, Flag.NOT_EVALUATED)):
            accepted = trusted & (cells.flag == flag)
            if part == 1:
                accepted &= ~judged[..., None]
            if not accepted.any():
                continue
            bottom = np.where(accepted, value, np.inf).min(axis=2)
            top = np.where(accepted, value, -np.inf).max(axis=2)
            shows = bottom <= top
            for ends, new, sign in ((lowest, bottom, 1), (highest, top, -1)):
                joined = np.concatenate([ends[part, sensors], new[..., None]], axis=2)
                ends[part, sensors] = sign * np.sort(sign * joined, axis=2)[..., :EXTREMES]
            periods[part, sensors] += shows
            moving[part, sensors] += shows & (top > lowest[part, sensors, :, 0])
            judged = judged | shows
            counted = accepted & np.broadcast_to(counting, accepted.shape[:2])[..., None]
            count += counted.sum(axis=(0, 2))
            negative += (counted & (value < 0)).sum(axis=(0, 2))
        known, voices = ranges.comoving.copy(), ranges.counting.copy()
        known[sensors], voices[sensors] = comoving, counting
        return replace(
            ranges,
            lowest=lowest,
            highest=highest,
            comoving=known,
            counting=voices,
            periods=periods,
            moving=moving,
            count=count,
            negative=negative,
        )

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
        """Return the verdicts of a period with clipped values, and the range with the withheld cells counted.

        `seen` readings were given to the model; only the `listed` channels of the `sensors` have rows. An estimate
        without an interval is withheld, unless the method has no `intervals` at all.
        """
        columns = cells.cleaned.copy(), cells.lower.copy(), cells.upper.copy()
        # A trusted reading without an interval around it stays: only the others, a few of many, are looked at.
        place = np.nonzero((cells.origin != OBSERVED) | (columns[1] != columns[0]) | (columns[2] != columns[0]))
        variable, channel, reading = place[1], (sensors[place[0]], place[1]), value[place]
        cleaned, lower, upper = (column[place] for column in columns)
        origin = cells.origin[place]
        low, high = (end[channel] for end in self.limits)
        observed, absent, finite = origin == OBSERVED, np.isnan(cleaned), np.isfinite(cleaned)
        if intervals:
            finite &= np.isfinite(lower) & np.isfinite(upper)
        least, most = (end[channel] for end in self._shown)
        enough = (self.count >= FEW)[variable]
        far, clear = (far_outside(cleaned, least, most, margin) & enough for margin in (FAR, CLIPPED))
        wrong = seen[place] & (cells.flag[place] == Flag.FAIL) & ~observed
        # A gap without an estimate of the model does not count as a withheld estimate.
        needed = listed[place[:2]] & ~observed & (wrong | ~absent)
        withheld = needed & (far | ~finite)
        beyond, moved_out = self._outside_core(cleaned, reading, channel)
        # What lies outside of what most channels show is not corrected to lie even farther out.
        bottom, top = (end[variable] for end in self._middle)
        moved_out |= (origin == CORRECTED) & ((cleaned > np.fmax(reading, top)) | (cleaned < np.fmin(reading, bottom)))
        # A vague estimate that all but ends its own interval was cut there and says only that it lay beyond, unless
        # readings pile up at that end; what may be nearly anything says nothing. Of a channel whose range lies apart
        # none is believed at an end.
        at_floor, at_ceiling = (end[channel] for end in self._piled)
        with np.errstate(invalid="ignore"):
            left, right = cleaned - np.fmax(lower, low), np.fmin(upper, high) - cleaned
            below, above = left <= CUT * right, right <= CUT * left
            is_vague, is_empty = np.fmax(left, right) > VAGUE * (high - low), left + right > EMPTY * (high - low)
        is_inside = (reading >= low) & (reading <= high)
        is_lost = (self.periods.sum(axis=0)[channel] >= KNOWN) & ~is_inside
        is_cut = is_vague & ((below & ~at_floor) | (above & ~at_ceiling))
        cut = (is_lost & (is_cut | is_empty)) | (~self._in_core[channel] & (below | above))
        if not intervals:
            beyond = moved_out = cut = clear = np.zeros_like(wrong)
        # Where the reading lies even farther out, the bound is nearer to it than nothing.
        farther = ((cleaned > most) & (reading > cleaned)) | ((cleaned < least) & (reading < cleaned))
        clear &= (origin != CORRECTED) & ~farther
        unbelieved = needed & (beyond | cut | clear) & ~withheld
        # A void correction: the reading already lies at the bound to which it would be clipped.
        void = wrong & (origin == CORRECTED) & (clipped(cleaned, low, high) == reading)
        returned = (wrong & is_inside & (withheld | moved_out)) | (void & ~withheld)
        counted, withheld = withheld, withheld | unbelieved
        origin[withheld], origin[returned] = NO_ORIGIN, OBSERVED
        # The interval of a doubtful reading reaches to its estimate, which is bounded likewise.
        cleaned = np.where(observed, cleaned, clipped(cleaned, low, high))
        bound_low, bound_high = np.fmin(low, cleaned), np.fmax(high, cleaned)
        lower = np.where(observed & ~np.isfinite(lower), cleaned, clipped(lower, bound_low, bound_high))
        upper = np.where(observed & ~np.isfinite(upper), cleaned, clipped(upper, bound_low, bound_high))
        for column, bounded in zip(columns, (cleaned, lower, upper), strict=True):
            bounded[withheld] = np.nan
            bounded[returned] = reading[returned]
            column[place] = bounded
        origins, returns = cells.origin.copy(), np.zeros(value.shape, dtype=bool)
        origins[place], returns[place] = origin, returned
        marks = {Mark.DOUBTFUL: returns}
        unjudged = np.broadcast_to((self.unjudged_from <= period)[:, None], value.shape)
        if unjudged.any():
            as_it_came, empty = unjudged & seen, unjudged & ~seen & (cells.origin != OBSERVED)
            marks[Mark.IGNORED] = as_it_came
            origins[as_it_came], origins[empty] = OBSERVED, NO_ORIGIN
            for column in columns:
                column[empty] = np.nan
                column[as_it_came] = value[as_it_came]
        flag, reason = flag_cells(cells.flag, cells.reason, marks, kind=cells.reason)
        judged = self.unjudged_from > period
        all_needed, all_withheld = (
            before + np.where(judged, np.bincount(variable[cells_of], minlength=judged.size), 0)
            for before, cells_of in ((self.needed, needed), (self.withheld, counted))
        )
        given_up = (all_needed >= LEAST_CELLS) & (2 * all_withheld > all_needed)
        unjudged_from = np.where(judged & given_up, period + 1, self.unjudged_from)
        verdicts = Verdicts(flag, reason, origins, *columns)
        return verdicts, self._counting(all_needed, all_withheld, unjudged_from)

    def _counting(
        self, needed: NDArray[np.int64], withheld: NDArray[np.int64], unjudged_from: NDArray[np.int64]
    ) -> AcceptedRange:
        """Return the range with other counts of cells."""
        other = replace(self, needed=needed, withheld=withheld, unjudged_from=unjudged_from)
        # The cached ranges depend on the readings only; computing them again is a third of the work on a small period.
        vars(other).update({name: vars(self)[name] for name in _DERIVED if name in vars(self)})
        return other


_DERIVED = [name for name, entry in vars(AcceptedRange).items() if isinstance(entry, cached_property)]
"""The cached properties, which follow from the readings."""


def clipped(value: FloatArray, low: FloatArray | float, high: FloatArray | float) -> FloatArray:
    """Return the values bounded to a range; NaN stays NaN."""
    bounded: FloatArray = np.minimum(np.maximum(value, low), high)
    return bounded


def far_outside(value: FloatArray, low: FloatArray | float, high: FloatArray | float, margin: float = FAR) -> BoolArray:
    """Return which values lie more than `margin` widths outside a range; a range of zero width gives no scale."""
    with np.errstate(invalid="ignore"):
        width = np.multiply(margin, np.subtract(high, low))
        far: BoolArray = (width > 0) & ((value < low - width) | (value > high + width))
    return far
