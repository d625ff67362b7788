"""`Stream` takes inputs and yields the events that follow from them; the same inputs always give the same events.

It uses neither a clock nor a disk, so that a replay of the journal after a restart gives the same state.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from itertools import compress
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sensormend.errors import ConfigError, SensormendError
from sensormend.io.sources import listed
from sensormend.model.network_model import LEARNING_PERIODS
from sensormend.pipeline.channel_states import ChannelState
from sensormend.pipeline.cleaner import NEVER, CleanedPeriod, Cleaner, cleaner_for
from sensormend.pipeline.grid import ANCHOR, Grid
from sensormend.pipeline.health import Health
from sensormend.pipeline.maintenance import Maintenance, Note
from sensormend.pipeline.options import EVERY, Options
from sensormend.pipeline.places import Places
from sensormend.pipeline.survey import Survey, check_grid, survey_start
from sensormend.pipeline.tally import Tally
from sensormend.pipeline.times import FAR_AWAY, iso
from sensormend.readings import DAY, HOUR, REASONS, NameIndex, Readings, Rows
from sensormend.recovery import BoolArray
from sensormend.stream.admission import (
    OLD,
    RARE,
    TOO_MANY,
    TOO_MANY_LATE,
    Admission,
    common_variables,
    rejections,
)  # fmt: skip
from sensormend.stream.alerts import Alerts, Muting
from sensormend.stream.arrivals import Arrived, PeriodBuffer, Rejected
from sensormend.stream.deliveries import Alert
from sensormend.stream.digest import Digest
from sensormend.stream.event_time import NetworkPace, Watermark
from sensormend.stream.monitor import ChannelMonitor

__all__ = ["AlertsRaised", "Event", "LateReadings", "PeriodFinal", "Problem", "ReadingsRejected", "Stream"]


@dataclass(frozen=True, eq=False)
class PeriodFinal:
    """A period is over: its rows, and the readings that made them."""

    cleaned_period: CleanedPeriod
    readings: Readings


@dataclass(frozen=True, eq=False)
class LateReadings:
    """Readings of one period that came after it was final."""

    period: int
    readings: Readings


@dataclass(frozen=True, eq=False)
class AlertsRaised:
    """Sensors turned faulty, silent, or healthy again; or a digest is due."""

    alerts: Sequence[Alert]


@dataclass(frozen=True, eq=False)
class ReadingsRejected:
    """Inputs that were rejected."""

    rejected: Sequence[Rejected]


@dataclass(frozen=True)
class Problem:
    """An error in the inputs that is logged once; the stream continues.

    Attributes
    ----------
    error, details
        The text of the error, and what is special about this occurrence.
    """

    error: str
    details: Mapping[str, object] = field(default_factory=dict)


Event = PeriodFinal | LateReadings | AlertsRaised | ReadingsRejected | Problem


_Time = TypeVar("_Time", int, NDArray[np.int64])

MAX_FUTURE = DAY
"""The maximum time by which a reading may be ahead of this machine's clock: more than the error of a missing time
zone."""

SAMPLE_SIZE = 1_000_000
"""The maximum number of readings of the first day from which the grid is detected."""

SILENT = REASONS.index("silent")

MOST_READINGS, MOST_LATE = 1_000_000, 1_000_000
"""The maximum number of readings of one sensor in open periods, 32 bytes each: twelve a second, all day. Also the
maximum number of late readings of one period, all of which are read again with the next one. Further readings are
refused; `python benchmarks/limits.py readings late` measures their cost."""

MANY_VARIABLES = 1_000
"""The number of variables of a feed without a grid above which those that occur in too few messages are dropped at
once."""

MOST_CELLS, MIN_VERDICTS = 12_000, 4
"""An open period of up to this many cells, 500 hourly channels, is judged at the end of every slot; a larger one at
every second, third, ... slot, and at least this many times. Each verdict costs about as much as the end of the period.
`python benchmarks/alerts.py cost` measures it."""


class Stream:
    """Takes inputs, and closes each period when it and its grace are over.

    Parameters
    ----------
    grace
        How long a period waits for its last readings; a step by default.
    late_for
        How far back a late reading may still correct its row.
    cleaner, survey
        Those of an archive to continue from.

    Attributes
    ----------
    closed
        The last final period; None before the first.
    readings
        The number of readings that came.
    """

    def __init__(
        self,
        options: Options,
        *,
        grace: int | None = None,
        late_for: int = 30 * DAY,
        alerts: Alerts | None = None,
        digest: Digest | None = None,
        cleaner: Cleaner | None = None,
        survey: Survey | None = None,
    ) -> None:
        check_grid(options)
        self.options, self._grace, self._late_for = options, grace, late_for
        self.alerts, self._digest = alerts or Alerts(), digest or Digest()
        self._muting = Muting()
        named = {name: option for option, values in options.per_variable().items() for name in values if name != EVERY}
        for name, option in named.items():
            if options.variables and name not in options.variables:
                raise ConfigError(f"{option} names variable {name!r}; variables has {', '.join(options.variables)}")
        self._named_variables = list(dict.fromkeys([*options.variables, *named]))
        self.sensors, self.variables = NameIndex(), NameIndex(self._named_variables)
        self._dropped_variables: tuple[str, ...] = ()
        self.buffer = PeriodBuffer()
        self.watermark = Watermark(options.period or DAY, options.gone_after)
        self.coordinates: dict[str, tuple[float, float]] = {}
        self.places = Places.read(options.coordinates) if options.coordinates else Places()
        self.admission = Admission({*self.places.coordinates, *(cleaner.sensors if cleaner else ())})
        self.closed: int | None = None
        self.readings = 0
        self._first_time: int | None = None
        self._detection_tried = NEVER
        self._oldest = NEVER
        self._late: dict[int, int] = {}
        # The number of ended slots that were processed, and the time until which readings were judged.
        self._slot, self._judged = NEVER, NEVER
        self._last_peeks: dict[int, tuple[object, CleanedPeriod]] = {}
        self.maintenance = Maintenance()
        self.pace = NetworkPace()
        self.cleaner: Cleaner | None = None
        self._archive_variable: str | None = None
        if cleaner is not None and survey is not None:
            self.variables = NameIndex(cleaner.variables)
            self._archive_variable = cleaner.variables[0] if len(cleaner.variables) == 1 else None
            self._begin(cleaner, survey)

    @property
    def grid(self) -> Grid | None:
        """The grid; None until it is known."""
        return self.cleaner.grid if self.cleaner else None

    @property
    def grace(self) -> int:
        """How long a period waits for its last readings."""
        return self._grace if self._grace is not None else self.step

    @property
    def step(self) -> int:
        """The length of a slot: detected, given, or an hour by default."""
        return self.cleaner.grid.step if self.cleaner else self.options.step or HOUR

    def slots_until(self, time: _Time) -> _Time:
        """Return the number of slots that have ended by a time."""
        return self.cleaner.grid.slots_until(time) if self.cleaner else time // self.step

    @property
    def longest_wait(self) -> int:
        """How long the whole network may be silent before the clock advances event time."""
        return self.pace.longest_wait(self.step, self.cleaner.grid.period if self.cleaner else DAY)

    def take(self, arrived: Arrived) -> Iterator[Event]:
        """Take an arrival, and yield the events that follow."""
        readings = self._renamed(self.places.rename_moved(arrived.readings))
        self.readings += readings.time.size
        rejected, reached, continued = arrived.rejected, self.watermark.readings, False
        while True:
            has_grid = self.cleaner is not None
            admitted = self.admission.admit(
                readings,
                self.sensors,
                self.cleaner.variables if self.cleaner else self.options.variables,
                oldest=self._oldest,
                # The clock of this machine may be behind event time.
                latest=max(arrived.received, self.watermark.time) + MAX_FUTURE,
                received=arrived.received,
                admits=self.options.admits,
            )
            if rejected or admitted.rejected:
                yield ReadingsRejected([*rejected, *admitted.rejected])
            yield from self._raised(admitted.alerts)
            readings, rejected = admitted.readings, ()
            # Once there is a grid, other variables are admitted.
            while readings.time.size and (self.cleaner is not None) == has_grid:
                count = yield from self._take_first(readings, continued=continued)
                readings, continued = readings.taken(slice(count, None)), True
            if not readings.time.size:
                break
        if self.watermark.readings > reached:
            self.pace.moved(arrived.received)
        for place in arrived.positions:
            if place.sensor in self.sensors:
                self.coordinates.setdefault(place.sensor, (place.latitude, place.longitude))
        if not continued:
            yield from self._advance()

    def _take_first(self, readings: Readings, *, continued: bool) -> Generator[Event, None, int]:
        """Take readings up to the one by which event time reaches the end of a slot, and return their number.

        Which readings are late must depend on their order alone, not on how many of them come at once.
        """
        sensor = self.sensors.codes(readings.sensors, readings.sensor)
        count = self.watermark.count_until(self._next_moment(), sensor, readings.time, self.admission.counting)
        if self.watermark.time == NEVER:
            count = 1
        elif self.closed is None and self._first_time is not None:
            # The first period may be an earlier one, and may be over.
            earlier = np.flatnonzero(readings.time[:count] < self._first_time)
            count = int(earlier[0]) + 1 if earlier.size else count
        first = readings.taken(slice(0, count))
        variable = self.variables.codes(first.variables, first.variable)
        columns = (sensor[:count], variable, first.time, first.value)
        yield from self._add_to_buffer(Readings(self.sensors.all, self.variables.all, *columns), continued=continued)
        yield from self._advance()
        return count

    def _next_moment(self) -> int:
        """Return the next event time at which something may happen."""
        time, leap = self.watermark.time, self.watermark.leap
        moments = [(time // leap + 1) * leap]
        if self.cleaner is not None:
            grid = self.cleaner.grid
            moments.append(grid.period_start(grid.find_period(time - self.grace) + 1) - grid.early + self.grace)
            if self._slot > NEVER:
                moments.append(self._find_end(grid, self._slot + 1))
        elif self._first_time is not None:
            moments.append(
                max(self._first_time + (self.options.period or DAY) + self.grace, self._detection_tried + HOUR)
            )
        return min(moments)

    def _renamed(self, readings: Readings) -> Readings:
        """Rename the feed's only variable, if it is given, to that of the archive, which may have an empty name."""
        new, variables = self._archive_variable, self.options.variables
        if new is None or len(variables) != 1 or variables[0] == new:
            return readings
        return replace(readings, variables=[new if name == variables[0] else name for name in readings.variables])

    def tick(self, now: int) -> Iterator[Event]:
        """Advance event time to `now` without a reading, and yield the events that follow."""
        self.watermark.move(now)
        yield from self._advance()

    def end(self) -> Iterator[Event]:
        """Close all periods that have readings, at the end of the source."""
        if len(self.buffer):
            self.watermark.move(int(self.buffer.column("time").max()))
            yield from self._detect_grid()
            yield from self._advance()
        if self.cleaner is not None and len(self.buffer):
            periods = self.cleaner.grid.find_period(self.buffer.column("time"))
            yield from self._close_until(int(periods.max()))

    def refuse_before(self, time: int | None) -> None:
        """Refuse readings of before a time: their rows are final, and their readings are not known here any more."""
        if time is not None:
            self._oldest = max(self._oldest, time)

    def set_maintenance(self, maintenance: Maintenance) -> None:
        """Set the notes on maintenance, which hold from the next period on."""
        self.maintenance = maintenance
        if self.cleaner is not None:
            self.cleaner.maintenance = maintenance

    def health(self, most: int | None = None) -> list[Health]:
        """Return the health of every channel, or of as many with the worst states."""
        return self.monitor.health(most) if self.cleaner else []

    @property
    def counts(self) -> dict[str, int]:
        """The number of sensors in each state of `ChannelState`."""
        if self.cleaner is None:
            return {state: len(self.sensors) if state == "learning" else 0 for state in ChannelState}
        return self.monitor.counts

    def peek(self, now: int) -> Rows | None:
        """Return provisional rows of the slots of open periods that have ended by `now`."""
        cleaner = self.cleaner or self._tentative_cleaner()
        if cleaner is None:
            return None
        grid, times = cleaner.grid, self.buffer.column("time")
        until = self._find_end(grid, grid.slots_until(now))
        periods = grid.find_period(times)
        last = grid.find_period(now)
        first = self.closed + 1 if self.closed is not None else int(periods.min()) if times.size else last
        silent = self.monitor.is_silent(now, self.maintenance) if self.cleaner else np.zeros(0, dtype=bool)
        parts = []
        for period in range(max(first, last - 1), last + 1):
            rows = self._mend_open(cleaner, period, until).rows
            if not len(rows) or rows.time.max() >= until:
                # Of a period that has hardly begun there is one slot, which has not ended.
                rows = rows.taken(rows.time < until)
            parts.append(self._with_own_codes(rows, silent))
        return Rows.concatenate(parts) if any(map(len, parts)) else None

    def _mend_open(self, cleaner: Cleaner, period: int, until: int) -> CleanedPeriod:
        """Return an open period, cleaned by the readings before `until`."""
        times = self.buffer.column("time")
        mask = (cleaner.grid.find_period(times) == period) & (times < until)
        if len(cleaner.variables) < len(self.variables):
            mask &= np.array([name in cleaner.variables for name in self.variables.all])[self.buffer.column("variable")]
        # A period that is over stays as it is while late readings of it are waited for.
        until = min(until, cleaner.grid.period_start(period + 1) - cleaner.grid.early)
        key = (cleaner.period, until, int(mask.sum()), cleaner.maintenance)
        known = self._last_peeks.get(period)
        if known is None or known[0] != key:
            readings = self._buffered(mask)
            known = key, cleaner.peek(_of_variables(readings, cleaner.variables), period, until)
        self._last_peeks = {number: entry for number, entry in self._last_peeks.items() if abs(number - period) == 1}
        self._last_peeks[period] = known
        return known[1]

    @staticmethod
    def _find_end(grid: Grid, slots: int) -> int:
        """Return the time by which so many slots have ended."""
        return slots * grid.step + ANCHOR - grid.early

    def _tentative_cleaner(self) -> Cleaner | None:
        """Return a cleaner for the first period, before the grid is known; None if that is not possible yet."""
        try:
            sample, common = self._buffered(slice(0, SAMPLE_SIZE)), self._common_variables()
            variables = list(compress(self.variables.all, common))
            sample = _of_variables(sample.taken(common[sample.variable]), variables)
            return cleaner_for(survey_start(sample, self.options), variables, self.options)
        except SensormendError:
            return None

    def _buffered(self, chosen: NDArray[np.bool_] | slice) -> Readings:
        return self.buffer.readings(chosen, self.sensors.all, self.variables.all)

    def _keep_buffered(self, chosen: BoolArray) -> Readings:
        """Drop all but these readings before the first period is closed, and return the dropped ones."""
        dropped = self._buffered(~chosen)
        self.buffer.keep(chosen)
        self._first_time = int(self.buffer.column("time").min()) if len(self.buffer) else None
        return dropped

    def _common_variables(self) -> BoolArray:
        return common_variables(self._buffered(slice(None)), self._named_variables)

    def _drop_rare_variables(self) -> Iterator[Event]:
        """Drop the variables that too few messages carry, before the first period is closed."""
        common = self._common_variables()
        if common.all() or not common.any():
            return
        names = list(compress(self.variables.all, ~common))
        dropped = self._keep_buffered(common[self.buffer.column("variable")])
        self.buffer.renumber(np.cumsum(common) - 1)
        self.variables = NameIndex(list(compress(self.variables.all, common)))
        self._last_peeks = {}
        self._dropped_variables = tuple(dict.fromkeys([*self._dropped_variables, *names]))[:MANY_VARIABLES]
        yield ReadingsRejected(rejections(dropped, RARE))
        yield Problem("variables that too few messages carry are passed over", {"variables": listed(names, most=20)})

    def _add_to_buffer(self, readings: Readings, *, continued: bool) -> Iterator[Event]:
        if self.cleaner is not None:
            # Readings of slots that have not ended are passed to the monitor when they end.
            self.monitor.record(readings.taken(readings.time < self._find_end(self.cleaner.grid, self._slot)))
        sensor = readings.sensor.astype(np.int64, copy=False)
        before = self.watermark.time
        self.watermark.update(sensor, readings.time, self.admission.counting, continued=continued)
        # The reading that begins a period is the last one of the period before.
        self.admission.record(sensor, (self.watermark.time if before == NEVER else before) // self.watermark.leap)
        if self.closed is not None and self.cleaner is not None:
            period = self.cleaner.grid.find_period(readings.time)
            late = period <= self.closed
            if late.any():
                for number in np.unique(period[late]).tolist():
                    yield from self._take_late(number, readings.taken(period == number))
                readings = readings.taken(~late)
        full = self.buffer.full(readings.sensor, MOST_READINGS)
        if full.any():
            yield ReadingsRejected(rejections(readings.taken(full), TOO_MANY))
            readings = readings.taken(~full)
        if readings.time.size:
            self.buffer.add(readings)
            first = int(readings.time.min())
            self._first_time = first if self._first_time is None else min(first, self._first_time)

    def _take_late(self, period: int, readings: Readings) -> Iterator[Event]:
        """Take readings of a final period, up to the limit."""
        count = self._late.get(period, 0)
        if count + len(readings) > MOST_LATE:
            yield ReadingsRejected(rejections(readings.taken(slice(max(MOST_LATE - count, 0), None)), TOO_MANY_LATE))
            readings = readings.taken(slice(0, max(MOST_LATE - count, 0)))
        if len(readings):
            self._late[period] = count + len(readings)
            yield LateReadings(period, readings)

    def _advance(self) -> Iterator[Event]:
        """Process the slots that have ended: close what is due, and raise alerts."""
        oldest = self.watermark.time - FAR_AWAY
        if self.closed is None and self._first_time is not None and self._first_time < oldest:
            # Their clocks were never set.
            yield ReadingsRejected(rejections(self._keep_buffered(self.buffer.column("time") >= oldest), OLD))
        if self.cleaner is None:
            if len(self.variables.all) > MANY_VARIABLES:
                yield from self._drop_rare_variables()
            yield from self._detect_grid_when_due()
        if self.cleaner is None or self.watermark.time == NEVER:
            return
        grid, ended = self.cleaner.grid, self.cleaner.grid.slots_until(self.watermark.time)
        if self._slot == NEVER:
            first = self.watermark.time if self._first_time is None else self._first_time
            self._slot = min(grid.slots_until(first), ended)
        while self._slot < ended:
            before = self._find_end(grid, self._slot)
            self._slot = min(self._next_slot(before), ended)
            yield from self._end_slot(before, self._find_end(grid, self._slot))
        # A grace that is not a whole number of slots ends within a slot.
        yield from self._close_until(self._due(self.watermark.time))

    def _end_slot(self, before: int, now: int) -> Iterator[Event]:
        """Process the time from `before` to `now`, the end of a slot."""
        yield from self._digests(before, now - 1)
        times = self.buffer.column("time")
        new = (times >= before) & (times < now)
        if new.any():
            self.monitor.record(self._buffered(new))
        yield from self._close_until(self._due(now))
        alerts = self._provisional_alerts(now)
        alerts += self.monitor.check_silence(now, self.maintenance, self.admission.counting)
        yield from self._raised(alerts)
        yield from self._announced(self._muting.released(now, self.maintenance))
        yield from self._digests(now - 1, now)

    def _raised(self, alerts: Sequence[Alert]) -> Iterator[AlertsRaised]:
        """Yield alerts, without those of muted channels."""
        yield from self._announced(self._muting.raised(alerts, self.maintenance))

    def _announced(self, alerts: Sequence[Alert]) -> Iterator[AlertsRaised]:
        if alerts:
            self._digest.record(alerts)
            yield AlertsRaised(alerts)

    def _digests(self, after: int, until: int) -> Iterator[Event]:
        """Yield the digests that are due after `after` and not after `until`."""
        for time in self._digest.times(after, until):
            yield AlertsRaised([self._digest.message(time, self.health(), self.counts)])

    def _due(self, time: int) -> int:
        """Return the last period that is over by a time."""
        assert self.cleaner is not None
        return self.cleaner.grid.find_period(time - self.grace) - 1

    def _next_slot(self, before: int) -> int:
        """Return the next slot at whose end something can change.

        That is the next slot if it has a reading; else the one with the next reading, or at whose end a channel turns
        silent or gone, or a period is due.
        """
        assert self.cleaner is not None
        grid, times = self.cleaner.grid, self.buffer.column("time")
        later = times[times >= before]
        following = int(later.min()) if later.size else None
        if following is not None and following < before + grid.step:
            return self._slot + 1
        moments = [] if following is None else [following + 1]
        change = self.monitor.silence.next_change(before)
        if self.alerts.waiting:
            moments.append(before + 1)
        elif change is not None and self._first_time is not None:
            # When all channels are gone, periods without a reading are closed with the next reading.
            first = grid.find_period(self._first_time)
            period_end = (
                grid.period_start(first + 1 if self.closed is None else self.closed + 2) - grid.early + self.grace
            )
            moments += [change, period_end]
        slots = [-((ANCHOR - grid.early - moment) // grid.step) for moment in moments]
        return max(min(slots), self._slot + 1) if slots else -NEVER

    def _provisional_alerts(self, now: int) -> list[Alert]:
        """Judge the readings so far of the oldest open period, if there are new ones."""
        assert self.cleaner is not None
        grid, times = self.cleaner.grid, self.buffer.column("time")
        if self.cleaner.model.periods < LEARNING_PERIODS or self._slot % self._verdict_slots():
            return []
        periods = grid.find_period(times)
        period = self.closed + 1 if self.closed is not None else int(periods.min(initial=0))
        if not ((periods == period) & (times >= self._judged) & (times < now)).any():
            return []
        self._judged = now
        try:
            return self.monitor.provisional(self._mend_open(self.cleaner, period, now), now)
        except (ArithmeticError, ValueError):
            # If the model cannot take these readings, the end of the period logs it.
            return []

    def _verdict_slots(self) -> int:
        """Return the number of slots between two verdicts on an open period."""
        assert self.cleaner is not None
        grid = self.cleaner.grid
        counting = self.admission.counting
        channels = len(self.monitor.silence) if counting is None else int(counting.sum()) * len(self.variables)
        cells = channels * grid.slots
        slots = min(-(-cells // MOST_CELLS), max(1, grid.slots // MIN_VERDICTS))
        return max(slots, self.alerts.min_duration // 2 // grid.step, 1)

    def _detect_grid_when_due(self) -> Iterator[Event]:
        """Detect the grid when the first period is complete."""
        full = (self.options.period or DAY) + self.grace
        if self._first_time is None or self._first_time > self.watermark.time - full:
            return
        # If no sensor has reported twice, detection needs more readings; it is repeated after an hour.
        if self.watermark.time >= self._detection_tried + HOUR:
            self._detection_tried = self.watermark.time
            yield from self._detect_grid()

    def _detect_grid(self) -> Iterator[Event]:
        if self.cleaner is None:
            yield from self._drop_rare_variables()
            try:
                survey = survey_start(self._buffered(slice(0, SAMPLE_SIZE)), self.options)
                if self._dropped_variables:
                    note = f"passed over, since too few messages carry them: {listed(self._dropped_variables, most=20)}"
                    survey = replace(survey, notes=(*survey.notes, note))
                self._begin(None, survey)
            except SensormendError as error:
                yield Problem(f"no grid yet: {error}")

    def _begin(self, cleaner: Cleaner | None, survey: Survey) -> None:
        """Set the grid, and create all that needs one."""
        self.survey = survey
        cleaner = cleaner or cleaner_for(survey, self.variables.all, self.options)
        grid = cleaner.grid
        self.cleaner = cleaner
        cleaner.maintenance = self.maintenance
        self.tally = Tally(grid, cleaner.variables)
        self.monitor = ChannelMonitor(
            grid, self.options.gone_after, self.sensors, self.variables, self.alerts, survey.fill
        )
        self.watermark.leap = grid.period

    def _close_until(self, last: int) -> Iterator[Event]:
        """Close all periods up to `last`, including those without a reading."""
        assert self.cleaner is not None
        grid = self.cleaner.grid
        if self.closed is None and (self._first_time is None or grid.find_period(self._first_time) > last):
            return
        while self.closed is None or self.closed < last:
            periods = grid.find_period(self.buffer.column("time"))
            period = int(periods.min(initial=last))
            mask = periods == period
            readings = self._buffered(mask)
            self.buffer.keep(~mask)
            yield from self._close(period, readings)
            self.monitor.learn(readings)

    def _close(self, period: int, readings: Readings) -> Iterator[Event]:
        assert self.cleaner is not None
        first = self.closed is None
        if first and self.cleaner.period is not None and self.cleaner.period >= period:
            # The archive ends after this period: the model is used, its position in time is not.
            self.cleaner = self.cleaner.fresh_copy()
            self.cleaner.model.rewind()
        cleaned_period = self.cleaner.push(readings, period)
        self.watermark.fixed = True
        for part in cleaned_period:
            if part.problem:
                yield Problem(part.problem, {"start": iso(self.cleaner.grid.period_start(part.period))})
            if first and part.period < period:
                continue  # there are no readings between the archive and the feed
            self.closed = part.period
            self.tally.add(part)
            self.pace.close()
            alerts = self.monitor.close(part)
            yield PeriodFinal(part, readings if part.period == period else readings.taken(slice(0, 0)))
            yield from self._raised(alerts)
        self.closed = period
        self._oldest = max(self._oldest, self.cleaner.grid.period_start(period + 1) - self._late_for)
        oldest = self.cleaner.grid.find_period(self._oldest)
        self._late = {number: count for number, count in self._late.items() if number >= oldest}

    def _with_own_codes(self, rows: Rows, silent: BoolArray) -> Rows:
        """Return provisional rows with the codes of the stream; `silent` is the reason only where it is unusual."""
        sensor = self.sensors.codes(rows.sensors, rows.sensor)
        variable = self.variables.codes(rows.variables, rows.variable)
        channel = sensor * len(self.variables) + variable
        usual = ~np.isin(channel, np.flatnonzero(silent))
        reason = np.where((rows.reason == SILENT) & usual, 0, rows.reason).astype(np.int8)
        return replace(
            rows,
            sensors=self.sensors.all,
            variables=self.variables.all,
            sensor=sensor,
            variable=variable,
            reason=reason,
        )

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return settings and arrays for a state file, without the cleaner and the tally."""
        watermark, watermark_arrays = self.watermark.state()
        settings: dict[str, Any] = {
            "sensors": list(self.sensors.all),
            "variables": list(self.variables.all),
            "coordinates": {name: list(where) for name, where in self.coordinates.items()},
            "closed": self.closed,
            "readings": self.readings,
            "first_time": self._first_time,
            "watermark": watermark,
            "maintenance": [astuple(note) for note in self.maintenance.notes],
            "pace": self.pace.state(),
            "only": self._archive_variable,
            "oldest": self._oldest,
            "looked": self._detection_tried,
            "slot": self._slot,
            "judged": self._judged,
            "alerts": self.alerts.state(),
            "digest": self._digest.state(),
            "muted": self._muting.state(),
            "dropped_variables": self._dropped_variables,
            "late": list(self._late.items()),
        }
        arrays = {**self.buffer.state(), **{f"watermark_{name}": array for name, array in watermark_arrays.items()}}
        settings["admission"], counts = self.admission.state()
        arrays |= {f"admission_{name}": array for name, array in counts.items()}
        if self.cleaner is not None:
            grid = self.cleaner.grid
            settings["grid"] = list(astuple(grid))
            settings["fill"] = {name: list(values) for name, values in self.survey.fill.items()}
            settings["notes"] = list(self.survey.notes)
            settings["circular"] = self.survey.circular
            settings["listening"], silence_arrays = self.monitor.state()
            arrays |= {f"listening_{name}": array for name, array in silence_arrays.items()}
        return settings, arrays

    def restore(self, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Load a state; those of the cleaner and the tally are loaded separately."""
        self.sensors, self.variables = NameIndex(settings["sensors"]), NameIndex(settings["variables"])
        self.coordinates = {name: (where[0], where[1]) for name, where in settings["coordinates"].items()}
        self.closed, self.readings = settings["closed"], settings["readings"]
        self._first_time = settings["first_time"]
        self.pace.restore(settings["pace"])
        self._archive_variable, self._oldest, self._detection_tried = (
            settings["only"],
            settings["oldest"],
            settings["looked"],
        )
        self._slot, self._judged = settings["slot"], settings["judged"]
        self.maintenance = Maintenance(tuple(Note(*note) for note in settings["maintenance"]))
        self.alerts.restore(settings["alerts"])
        self._digest.restore(settings["digest"])
        self._muting.restore(settings["muted"])
        self._dropped_variables = tuple(settings["dropped_variables"])
        self._late = dict(settings["late"])
        self.admission.restore(settings["admission"], _with_prefix("admission", arrays))
        self.buffer.restore(arrays)
        if "grid" in settings:
            fill = {name: tuple(values) for name, values in settings["fill"].items()}
            survey = Survey(Grid(*settings["grid"]), fill, tuple(settings["notes"]), settings["circular"])
            self._begin(None, survey)
            self.monitor.restore(settings["listening"], _with_prefix("listening", arrays))
            if self.closed is not None:
                # A shorter `late_for` than before takes effect now.
                self._oldest = max(self._oldest, survey.grid.period_start(self.closed + 1) - self._late_for)
        self.watermark.restore(settings["watermark"], _with_prefix("watermark", arrays))


def _of_variables(readings: Readings, variables: Sequence[str]) -> Readings:
    """Return readings with the codes of these variables."""
    if tuple(readings.variables) == tuple(variables):
        return readings
    codes = NameIndex(variables).codes(readings.variables, readings.variable)
    return Readings(readings.sensors, tuple(variables), readings.sensor, codes, readings.time, readings.value)


def _with_prefix(prefix: str, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the arrays whose names begin with the prefix, by their names without it."""
    return {name.removeprefix(f"{prefix}_"): array for name, array in arrays.items() if name.startswith(f"{prefix}_")}
