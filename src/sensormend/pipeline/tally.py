"""`Tally` counts over all periods: every fault with its span, and the summary of every sensor."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.pipeline.bounds import clipped
from sensormend.pipeline.channel_states import ChannelName, FinalState, PeriodCounts, final_states
from sensormend.pipeline.circular import distances
from sensormend.pipeline.cleaner import CleanedPeriod
from sensormend.pipeline.copies import CopyCounter
from sensormend.pipeline.faults import (
    FaultInterval,
    IncidentEnds,
    ReadingSums,
    SensorSummary,
    distances_from,
    with_incidents,
)
from sensormend.pipeline.grid import Grid
from sensormend.pipeline.maintenance import Maintenance
from sensormend.pipeline.places import Places
from sensormend.pipeline.sentences import comma, how_long, readable, what_it_does, who
from sensormend.pipeline.verdicts import Mark, flag_cells
from sensormend.readings import CORRECTED, ESTIMATED, OBSERVED, REASONS, Flag, NameIndex, Rows
from sensormend.recovery import BoolArray, Fault, FloatArray

__all__ = ["FaultEpisode", "Tally", "mark_dated_back"]

SILENT, SPIKE, DUPLICATE, FILL, STUCK = (
    REASONS.index(reason) for reason in ("silent", "spike", "duplicate", "fill", "stuck")
)

CORRECTABLE = ("offset", "drift")
"""Kinds whose size at any time follows from size and rate; that of a gain or of noise does not."""

AGREEING = 2.0
"""The ratio up to which the model's size of a fault and what the corrections took out agree: the model learns the size
while it corrects."""


@dataclass
class FaultEpisode:
    """A fault that is added up period by period, which becomes a `FaultInterval` of faults.csv.

    It is an episode of the model, or a run of wrong slots of one channel that belong to no episode.

    Attributes
    ----------
    start, end
        From the start of its first wrong slot to the end of its last, microseconds since 1970, UTC.
    slots
        The number of slots by reason.
    sums
        The sums over its readings.
    score
        The highest score of its fibers.
    wrong
        The number of slots that are judged wrong, not only doubtful.
    corrected, taken_out, last_taken_out
        The number of corrected slots, the sum of what the corrections took out, and its mean in the last period that
        has any.
    shown, earliest
        Its first slot that rows show as wrong or doubtful, and the time before which it cannot have begun: the end of
        the fault before it, or the first reading.
    resolution
        The smallest change between two readings of its channel; NaN where none is known.
    reach
        The latest time until which it may have lasted: while the model's episode is open, and while only missing slots
        follow its last wrong one.
    fault
        The model's fault; None where it is not an episode of the model.
    first
        The first slot that rows show as wrong; 0 while there is none.
    dated_size, dated_rate, dated_at, half_width
        When its start was last dated: its size at the time `dated_at`, the growth of the size in a period, and half
        the median width of the intervals of `cleaned`.
    """

    sensor: str
    variable: str
    start: int
    end: int
    slots: dict[int, int] = field(default_factory=dict)
    score: float = 0.0
    reach: int = 0
    sums: ReadingSums = field(default_factory=ReadingSums)
    fault: Fault | None = None
    first: int = 0
    dated_size: float = math.nan
    dated_rate: float = 0.0
    dated_at: int = 0
    half_width: float = math.nan
    wrong: int = 0
    corrected: int = 0
    taken_out: float = 0.0
    last_taken_out: float = math.nan
    shown: int = 0
    earliest: int = 0
    resolution: float = math.nan

    def __post_init__(self) -> None:
        self.reach = max(self.reach, self.end)

    @property
    def reason(self) -> str:
        """The model's kind, or the reason that most of its slots have."""
        if self.fault is not None:
            return self.fault.kind
        return REASONS[max(self.slots, key=lambda code: (self.slots[code], -code))]

    @property
    def size(self) -> float:
        """The size of the model's fault, as far as the rows agree with it; NaN where it is not an episode of the model.

        The model revises the size as it sees more, while rows stay. Where the offset or drift that the rows show has
        another sign, or is more than twice or less than half as large, the size is that of the rows.
        """
        if self.fault is None or self.reason not in CORRECTABLE or not self.wrong:
            return math.nan if self.fault is None else self.fault.size
        size, mean = self.fault.size, self.sums.distance / self.wrong
        if self.corrected:
            mean = self.taken_out / self.corrected
            shown = self.last_taken_out if self.reason == "drift" and self.last_taken_out * mean > 0 else mean
            if abs(size) > AGREEING * abs(shown) or abs(shown) > AGREEING * abs(size):
                size = shown
        if size * mean < 0:
            size = mean
        if abs(size) < self.resolution:
            # Readings that are off by less are not wrong: the size of the wrong ones is at least this.
            size = math.copysign(math.sqrt(self.sums.square / self.wrong), size)
        return size

    @property
    def negligible(self) -> bool:
        """Whether it is an offset or a drift below the resolution of which no row is wrong."""
        return not self.wrong and self.reason in CORRECTABLE and abs(self.size) < self.resolution

    @property
    def rate(self) -> float:
        """The growth of the size in a period."""
        return 0.0 if self.fault is None else self.fault.rate

    @property
    def dated_back(self) -> bool:
        """Whether it began before the first row that shows it, and can be corrected there."""
        return self.reason in CORRECTABLE and self.start < self.first and self.dated_size * self.size > 0

    def size_at(self, time: NDArray[np.int64], period: int) -> FloatArray:
        """Return its size at some times; a drift extrapolated beyond zero has size 0."""
        if self.reason == "offset":
            return np.full(time.shape, self.size)
        size = self.dated_size - self.dated_rate / period * (self.dated_at - time)
        return np.where(np.sign(size) == np.sign(self.dated_size), size, 0.0)

    def add(self, later: FaultEpisode) -> None:
        """Add later slots of the same fault."""
        for code, count in later.slots.items():
            self.slots[code] = self.slots.get(code, 0) + count
        self.score, self.wrong = max(self.score, later.score), self.wrong + later.wrong
        self.corrected, self.taken_out = self.corrected + later.corrected, self.taken_out + later.taken_out
        self.last_taken_out = later.last_taken_out if later.corrected else self.last_taken_out
        self.resolution = later.resolution
        self.sums.add(later.sums)

    def continues(self, later: FaultEpisode, fault: Fault) -> bool:
        """Return whether later slots go on with it, though the model has them in another episode.

        A sensor that is far from the others from its start is new to the model in every period.
        """
        is_implausible = self.fault is not None and self.fault.kind == fault.kind == "implausible"
        return is_implausible and self.end == later.start

    def end_here(self) -> None:
        """End it with its last wrong slot, since another fault follows."""
        self.reach = self.end

    def sentence(self, *, open_since: str = "") -> str:
        """Describe it in one sentence with its size and, while it is open, its start, else its duration."""
        name, span = who(self.sensor, self.variable), self.end - self.start
        words = what_it_does(self.reason, self.size, self.rate, self.sums, span, over=not open_since)
        if self.wrong == 0 and self.reason not in ("silent", "fill"):
            words = f"is doubtful: it {words}" if open_since else f"was doubtful: it {words}"
        if self.reason == "spike":
            return f"{name} {words}."
        preposition = "since" if open_since else "within" if "drifted" in words else "for"
        doubt = ""
        if 0 < 2 * self.wrong < sum(self.slots.values()) and self.reason not in ("silent", "fill"):
            # What lasts is doubtful once it could be the sensor's own wander: its readings are kept.
            doubt = f"; most of its readings {'are' if open_since else 'were'} only doubtful"
        return f"{name} {words}{comma(words)} {preposition} {open_since or how_long(span)}{doubt}."


COUNTS = ("slots", "missing", "faulty", "good", "readings", "square")
PERIOD_COUNTS = tuple(entry.name for entry in fields(PeriodCounts))


class Tally:
    """Counts faults, flags and readings period by period."""

    def __init__(self, grid: Grid, variables: Sequence[str]) -> None:
        self.grid, self.variables = grid, tuple(variables)
        self.sensors: Sequence[str] = ()
        self.faults: list[FaultEpisode] = []
        self._open: dict[tuple[int, int], FaultEpisode] = {}
        self._episodes: dict[tuple[int, int, int], FaultEpisode] = {}
        # By channel: the fault that began last, of those that are listed here; silence does not count.
        self._latest: dict[tuple[int, int], FaultEpisode] = {}
        self._until = 0
        self._counts = np.zeros((len(COUNTS), 0, len(self.variables)))
        self._span = np.zeros((2, 0, len(self.variables)), dtype=np.int64)
        self._last_value = np.full((0, len(self.variables)), np.nan)
        # The counts of `PeriodCounts` in the last period.
        self._last_period = np.zeros((len(PERIOD_COUNTS), 0, len(self.variables)), dtype=np.int64)
        # By channel: the end of the last fault that was popped.
        self._settled = np.zeros((0, len(self.variables)), dtype=np.int64)
        # Of the faults that were popped, for the incidents of those that follow.
        self._incident_ends: IncidentEnds = {}
        self.flags = dict.fromkeys(map(int, Flag), 0)
        self.filled = 0
        self.corrected = 0
        # Slots with fill values only.
        self.fill = 0
        self._copies = CopyCounter(grid, len(self.variables))
        # Whether the readings that faults were dated back to are counted.
        self.looked_back = False

    def add(self, cleaned_period: CleanedPeriod) -> None:
        """Count a period."""
        rows, slots = cleaned_period.rows, self.grid.slots
        if not len(rows):
            return
        self.sensors = rows.sensors
        self._grow(len(rows.sensors))
        sensor, variable = rows.sensor[::slots], rows.variable[::slots]
        flag, n, origin = (array.reshape(-1, slots) for array in (rows.flag, rows.n, rows.origin))
        fill = (flag == Flag.FAIL) & (rows.reason.reshape(-1, slots) == FILL)
        self.fill += int(fill.sum())
        by_flag = np.bincount(rows.flag, minlength=10)
        for code in self.flags:
            self.flags[code] += int(by_flag[code])
        self.filled += int((origin == ESTIMATED).sum())
        self.corrected += int((origin == CORRECTED).sum())
        value = rows.value.reshape(-1, slots)
        good = (flag == Flag.GOOD) & np.isfinite(cleaned_period.network)
        circular = np.isin(variable, cleaned_period.circular)[:, None]
        square = np.where(good, distances(value, cleaned_period.network, circular), 0.0) ** 2
        counts = (
            np.full(sensor.size, slots),
            ((flag == Flag.MISSING) | fill).sum(axis=1),
            ((flag == Flag.FAIL) & ~fill).sum(axis=1),
            good.sum(axis=1),
            n.sum(axis=1),
            square.sum(axis=1),
        )
        for total, count in zip(self._counts, counts, strict=True):
            total[sensor, variable] += count
        self._last_period[:] = 0
        self._last_period[:, sensor, variable] = (
            counts[0],
            counts[1],
            ((flag == Flag.FAIL) & ~fill & (rows.reason.reshape(-1, slots) != SPIKE)).sum(axis=1),
            (flag == Flag.SUSPECT).sum(axis=1),
            (flag == Flag.NOT_EVALUATED).sum(axis=1),
        )
        self._lengthen_silences(self.grid.period_start(cleaned_period.period), sensor, variable)
        self._note_readings(cleaned_period.period, sensor, variable, n > 0, value)
        self._copies.add(sensor, variable, np.where(fill, np.nan, value), cleaned_period.resolution)
        self._note_faults(cleaned_period, sensor, variable)

    def _grow(self, sensors: int) -> None:
        more = sensors - self._counts.shape[1]
        if more > 0:
            pad = ((0, 0), (0, more), (0, 0))
            self._counts, self._span = np.pad(self._counts, pad), np.pad(self._span, pad)
            self._last_period = np.pad(self._last_period, pad)
            self._last_value = np.pad(self._last_value, pad[1:], constant_values=np.nan)
            self._settled = np.pad(self._settled, pad[1:])

    def _is_silent(self, channel: tuple[int, int], fault: FaultEpisode) -> bool:
        """Return whether a fault is a silence after which no reading has come."""
        return SILENT in fault.slots and int(self._span[1][channel]) < fault.start

    def _lengthen_silences(self, now: int, sensor: NDArray[np.integer], variable: NDArray[np.integer]) -> None:
        """Lengthen the silences of channels that have rows again: while one counts as gone it has none."""
        last = self._span[1]
        waiting = {
            channel: fault
            for channel, fault in self._open.items()
            if SILENT in fault.slots and fault.end < now and last[channel] < fault.start
        }
        if waiting:
            for channel in waiting.keys() & set(zip(sensor.tolist(), variable.tolist(), strict=True)):
                waiting[channel].end = waiting[channel].reach = now

    def _note_readings(
        self,
        period: int,
        sensor: NDArray[np.integer],
        variable: NDArray[np.integer],
        present: BoolArray,
        value: FloatArray,
    ) -> None:
        """Note the times of the first and the last reading of each channel, and its last value."""
        reporting = present.any(axis=1)
        times, channels = self.grid.slot_times(period), (sensor[reporting], variable[reporting])
        present, value = present[reporting], value[reporting]
        first, last = present.argmax(axis=1), present.shape[1] - 1 - present[:, ::-1].argmax(axis=1)
        self._span[0][channels] = np.where(self._span[1][channels] == 0, times[first], self._span[0][channels])
        self._span[1][channels] = times[last]
        self._last_value[channels] = value[np.arange(last.size), last]

    def _note_faults(
        self, cleaned_period: CleanedPeriod, sensor: NDArray[np.integer], variable: NDArray[np.integer]
    ) -> None:
        """Assign the period's wrong slots to the model's episodes, and group the others into runs.

        Every wrong slot belongs to one fault, and the faults of a channel do not overlap: a slot that several episodes
        cover belongs to the one that began first, as a spike within an offset does.
        """
        table = _PeriodTable.of(cleaned_period, self.grid)
        self._until = table.end
        wrong, suspect = table.fail.copy(), table.suspect.copy()
        episodes: dict[int, list[tuple[Fault, NDArray[np.intp]]]] = {}
        if cleaned_period.faults:
            channel = sensor.astype(np.int64) * len(self.variables) + variable
            faulty = [int(dated.sensor) * len(self.variables) + dated.variable for dated in cleaned_period.faults]
            rows = np.minimum(np.searchsorted(channel, faulty), channel.size - 1).tolist()
            for dated, row, own in zip(cleaned_period.faults, rows, faulty, strict=True):
                if channel[row] == own:
                    slots = _claim_slots(dated, table, row, wrong, suspect)
                    episodes.setdefault(row, []).append((dated, slots))
        wrong |= table.silent | table.fill
        with_runs = set(np.flatnonzero(wrong.any(axis=1)).tolist())
        for row in sorted({*episodes, *with_runs}):
            key = int(sensor[row]), int(variable[row])
            covered = episodes.get(row, [])
            parts: list[tuple[Fault | None, NDArray[np.intp]]] = [part for part in covered if part[1].size]
            if row in with_runs:
                parts += [(None, run) for run in _runs(wrong[row], table.missing[row])]
            for episode, slots in sorted(parts, key=lambda part: int(part[1][0])):
                if episode is None:
                    self._note_run(key, table, row, slots, wrong[row])
                else:
                    self._note_episode(key, episode, table, row, slots)
            for dated, slots in covered:
                if not slots.size:
                    self._revise(key, dated, table)

    def _note_episode(
        self, channel: tuple[int, int], dated: Fault, table: _PeriodTable, row: int, slots: NDArray[np.intp]
    ) -> None:
        """Add slots to an episode. Where another fault came in between, what follows is a fault of its own."""
        part, key = self._part(channel, table, row, slots), (*channel, dated.id)
        episode = self._episodes.get(key)
        before = self._latest.get(channel)
        if episode is None and before is not None and before.continues(part, dated):
            self._episodes[key] = episode = before
        if episode is None or self._latest.get(channel) is not episode:
            self._begin(channel, part)
            self._episodes[key] = episode = part
        else:
            episode.add(part)
            episode.end = part.end
        failed = slots[table.fail[row, slots]]
        # A direction is not corrected: nothing is taken out of readings before the first wrong one.
        correctable = failed.size and not table.circular[row]
        if correctable and (math.isnan(episode.dated_size) or episode.start != dated.start):
            episode.dated_size, episode.dated_rate = dated.size, dated.rate
            episode.dated_at = int(table.times[failed[-1]])
            widths = table.half_width[row, failed]
            widths = widths[~np.isnan(widths)]
            if np.isfinite(widths).any():
                # Not `np.median`, which takes ten times as long for a few numbers.
                ordered, middle = np.sort(widths), widths.size // 2
                episode.half_width = float((ordered[(widths.size - 1) // 2] + ordered[middle]) / 2)
        if failed.size and episode.first == 0:
            episode.first = int(table.times[failed[0]])
        self._revise(channel, dated, table)

    def _revise(self, channel: tuple[int, int], dated: Fault, table: _PeriodTable) -> None:
        """Take over what the model knows of an episode by now: kind, size and start.

        It begins no later than its first slot, at most a period before it, and not before the end of the fault before
        it: the rows of that time belong to that one. It ends with its last slot.
        """
        episode = self._episodes.get((*channel, dated.id))
        if episode is None or self._latest.get(channel) is not episode:
            return
        before = episode.fault
        # The size of a direction's fault is that of the last period with readings of it.
        unknown = before is not None and math.isnan(dated.size)
        episode.fault = replace(dated, size=before.size) if before and unknown else dated
        if (
            before is not None
            and before.kind == "stuck"
            and 2 * episode.slots.get(STUCK, 0) > sum(episode.slots.values())
        ):
            # Its rows are equal readings; a few of the last period do not show that by themselves.
            episode.fault = replace(dated, kind="stuck", size=before.size, rate=0.0)
        earliest = max(episode.earliest, episode.shown - self.grid.period)
        episode.start = min(episode.shown, max(dated.start, earliest))
        episode.reach = table.end if dated.end is None else episode.end

    def _note_run(
        self, channel: tuple[int, int], table: _PeriodTable, row: int, run: NDArray[np.intp], wrong: BoolArray
    ) -> None:
        """Note a run of wrong slots; missing slots do not end a run, silence and good readings do."""
        part = self._part(channel, table, row, run)
        since, silent = part.start, SILENT in part.slots
        # A single wrong reading ends when the next slot is missing.
        if set(part.slots) != {SPIKE}:
            interruptions = np.cumsum(~(wrong | table.missing[row]))
            since = table.start if interruptions[run[0]] == 0 else part.start
            part.reach = table.end if interruptions[run[-1]] == interruptions[-1] else part.end
        before = self._open.get(channel)
        if before is not None and before.reach == since and (SILENT in before.slots) == silent:
            before.add(part)
            before.end, before.reach = part.end, part.reach
            return
        self._open[channel] = part
        if silent:
            self.faults.append(part)
        else:
            self._begin(channel, part)

    def _begin(self, channel: tuple[int, int], fault: FaultEpisode) -> None:
        """List a fault that begins after all others of its channel."""
        before = self._latest.get(channel)
        if before is not None:
            before.end_here()
        previous = int(self._settled[channel]) if before is None else before.end
        fault.earliest = max(previous, int(self._span[0][channel]))
        fault.shown = fault.start
        self._latest[channel] = fault
        self.faults.append(fault)

    def _part(self, channel: tuple[int, int], table: _PeriodTable, row: int, slots: NDArray[np.intp]) -> FaultEpisode:
        """Return some slots of one channel as a fault."""
        value, distance = table.value[row, slots], table.distance[row, slots]
        own = distance[table.corrected[row, slots]]
        taken_out = float(own.sum()) if own.size else 0.0
        counts = np.bincount(table.reason[row, slots]).tolist()
        return FaultEpisode(
            self.sensors[channel[0]],
            self.variables[channel[1]],
            int(table.times[slots[0]]),
            int(table.times[slots[-1]]) + self.grid.step,
            slots={code: count for code, count in enumerate(counts) if count},
            sums=ReadingSums.of(value, distance),
            score=float(table.score[row]),
            wrong=int(np.count_nonzero(table.fail[row, slots])),
            corrected=own.size,
            taken_out=taken_out,
            last_taken_out=taken_out / own.size if own.size else math.nan,
            resolution=float(table.resolution[row]),
        )

    def pop_finished(self, end: int) -> list[FaultInterval]:
        """Return and remove the faults that ended before `end`, the end of the last period."""
        # A silence may become longer until its sensor reports again, also where it counts as gone.
        silent = {id(fault) for channel, fault in self._open.items() if self._is_silent(channel, fault)}
        lasting = [fault for fault in self.faults if fault.reach >= end or id(fault) in silent]
        self.faults = [fault for fault in self.faults if fault.reach < end and id(fault) not in silent]
        intervals = with_incidents(self._intervals(), self._incident_ends)
        index = NameIndex(self.sensors)
        for fault in self.faults:
            if SILENT not in fault.slots:
                channel = index[fault.sensor], self.variables.index(fault.variable)
                self._settled[channel] = max(int(self._settled[channel]), fault.end)
        self.faults = lasting
        self._latest = {key: fault for key, fault in self._latest.items() if fault.reach >= end}
        self._open = {key: fault for key, fault in self._open.items() if fault.reach >= end or id(fault) in silent}
        self._episodes = {key: fault for key, fault in self._episodes.items() if fault.reach >= end}
        return intervals

    def count_dated_back(self, rows: Rows, which: BoolArray) -> None:
        """Count rows as wrong and corrected that were counted as good; `rows` are the rows before the change."""
        if not which.any():
            return
        sensor = NameIndex(self.sensors).codes(rows.sensors, rows.sensor[which])
        variable = NameIndex(self.variables).codes(rows.variables, rows.variable[which])
        # A slot counts once, whatever its number of rows.
        slots = np.stack([sensor, variable, self.grid.slots_until(rows.time[which])])
        _, place = np.unique(slots, axis=1, return_index=True)
        for flag, count in zip(*np.unique(rows.flag[which][place], return_counts=True), strict=True):
            self.flags[int(flag)] -= int(count)
        self.flags[int(Flag.FAIL)] += place.size
        self.corrected += place.size
        np.add.at(self._counts[COUNTS.index("faulty")], (sensor[place], variable[place]), 1)
        place = place[rows.time[which][place] >= self._until - self.grid.period]
        suspect = place[rows.flag[which][place] == Flag.SUSPECT]
        np.add.at(self._last_period[PERIOD_COUNTS.index("wrong")], (sensor[place], variable[place]), 1)
        np.add.at(self._last_period[PERIOD_COUNTS.index("suspect")], (sensor[suspect], variable[suspect]), -1)

    def intervals(self) -> list[FaultInterval]:
        """Return the faults in order of start; an open one ends with the last reading of its channel."""
        return with_incidents(self._intervals(), dict(self._incident_ends))

    def _intervals(self) -> list[FaultInterval]:
        faults = [(fault, fault.reach >= self._until) for fault in self._joined() if not fault.negligible]
        index = NameIndex(self.sensors)
        intervals = [
            FaultInterval(
                fault.sensor,
                fault.variable,
                fault.start,
                self._open_end(fault, index) if is_open else fault.end,
                fault.reason,
                # A spike exceeds a limit for single readings, which the score of its fiber does not include.
                math.nan if fault.reason in ("silent", "fill") else round(max(fault.score, 1.0), 3),
                fault.sentence(open_since=readable(fault.start) if is_open else ""),
                fault.size,
                math.nan if fault.fault is None else fault.fault.rate,
                math.nan if fault.fault is None else fault.fault.confidence,
                open=is_open and fault.reason != "spike",
            )
            for fault, is_open in faults
        ]
        return sorted(intervals, key=lambda fault: (fault.start, fault.sensor, fault.variable))

    def _open_end(self, fault: FaultEpisode, index: NameIndex) -> int:
        """Return the end of an open fault: that of the last reading of its channel, of a silence that of all."""
        silent = SILENT in fault.slots
        channel = ... if silent else (index[fault.sensor], self.variables.index(fault.variable))
        until = int(self._span[1][channel].max()) + self.grid.step
        return max(fault.start + self.grid.step, until) if silent else max(fault.end, min(fault.reach, until))

    def _joined(self) -> list[FaultEpisode]:
        """Return the faults, with simultaneous silence of all variables of a sensor joined into one."""
        variables = dict(zip(self.sensors, (self._counts[0] > 0).sum(axis=1), strict=True))
        silent = Counter((fault.sensor, fault.start, fault.end) for fault in self.faults if SILENT in fault.slots)
        whole_sensor = {span for span, count in silent.items() if count >= max(variables[span[0]], 2)}
        joined: dict[Any, FaultEpisode] = {}
        for number, fault in enumerate(self.faults):
            span = (fault.sensor, fault.start, fault.end)
            if SILENT in fault.slots and span in whole_sensor:
                joined.setdefault(span, replace(fault, variable=""))
            else:
                joined[number] = fault
        return list(joined.values())

    def states(self, faults: Sequence[FaultInterval]) -> dict[ChannelName, FinalState]:
        """Return the state of every channel with rows, from the last period and the open ones of some `intervals`."""
        last = {
            (self.sensors[sensor], self.variables[variable]): PeriodCounts(
                *self._last_period[:, sensor, variable].tolist()
            )
            for sensor, variable in np.argwhere(self._counts[0] > 0).tolist()
        }
        return final_states(last, faults, self._until)

    def summaries(self, places: Places, faults: Sequence[FaultInterval]) -> list[SensorSummary]:
        """Return the summary of every channel with rows, by sensor, from the `intervals`."""
        counts = dict(zip(COUNTS, self._counts, strict=True))
        states = self.states(faults)
        summaries = []
        for sensor in sorted(range(len(self.sensors)), key=lambda row: self.sensors[row]):
            latitude, longitude = places.coordinates.get(self.sensors[sensor], (math.nan, math.nan))
            for variable, name in enumerate(self.variables):
                own = {key: float(table[sensor, variable]) for key, table in counts.items()}
                if own["slots"] == 0:
                    continue
                summaries.append(
                    SensorSummary(
                        sensor=self.sensors[sensor],
                        variable=name,
                        readings=int(own["readings"]),
                        share_missing=round(own["missing"] / own["slots"], 6),
                        share_faulty=round(own["faulty"] / max(own["slots"] - own["missing"], 1), 6),
                        usual_error=math.sqrt(own["square"] / own["good"]) if own["good"] else math.nan,
                        latitude=latitude,
                        longitude=longitude,
                        first=int(self._span[0][sensor, variable]) if own["readings"] else None,
                        last=int(self._span[1][sensor, variable]) if own["readings"] else None,
                        last_value=float(self._last_value[sensor, variable]),
                        state=str(states[self.sensors[sensor], name].state),
                    )
                )
        return summaries

    def copies(self) -> list[dict[str, list[str]]]:
        """Return the sensors whose readings are those of one source, with the variables in which they are."""
        return self._copies.groups(self.sensors, self.variables)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the settings and arrays of a state file."""
        place_of = {id(fault): index for index, fault in enumerate(self.faults)}
        settings = {
            "sensors": list(self.sensors),
            "faults": [_plain(fault) for fault in self.faults],
            "open": [[*key, place_of[id(fault)]] for key, fault in self._open.items()],
            "episodes": [[*key, place_of[id(fault)]] for key, fault in self._episodes.items()],
            "latest": [[*key, place_of[id(fault)]] for key, fault in self._latest.items()],
            "incidents": [[*name, *last] for name, last in self._incident_ends.items()],
            "until": self._until,
            "flags": {str(code): count for code, count in self.flags.items()},
            "filled": self.filled,
            "corrected": self.corrected,
            "fill": self.fill,
            "looked_back": self.looked_back,
        }
        arrays = {
            "counts": self._counts,
            "span": self._span,
            "last_value": self._last_value,
            "last_period": self._last_period,
        }
        settings["copies"], copies = self._copies.state()
        arrays |= {f"copies_{name}": array for name, array in copies.items()}
        return settings, {**arrays, "settled": self._settled}

    def restore(self, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Restore a state."""
        self.sensors = settings["sensors"]
        self.faults = [_restore_episode(values) for values in settings["faults"]]
        self._open = {(sensor, variable): self.faults[index] for sensor, variable, index in settings["open"]}
        self._episodes = {(sensor, variable, number): self.faults[index]
                          for sensor, variable, number, index in settings["episodes"]}  # fmt: skip
        self._latest = {(sensor, variable): self.faults[index]
                        for sensor, variable, index in settings["latest"]}  # fmt: skip
        self._incident_ends = {
            (sensor, variable): (end, incident) for sensor, variable, end, incident in settings.get("incidents", [])
        }
        self._until = settings["until"]
        self.flags = {int(code): count for code, count in settings["flags"].items()}
        self.filled = settings["filled"]
        self.corrected, self.looked_back = settings["corrected"], settings["looked_back"]
        self.fill = settings["fill"]
        self._counts, self._span = arrays["counts"], arrays["span"]
        self._last_value, self._settled = arrays["last_value"], arrays["settled"]
        self._last_period = arrays["last_period"]
        prefix = "copies_"
        own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        self._copies.restore(settings["copies"], own)


def mark_dated_back(
    rows: Rows,
    faults: Sequence[FaultEpisode],
    maintenance: Maintenance,
    grid: Grid,
    find_limits: Callable[[str, str], tuple[float, float]],
) -> tuple[Rows, BoolArray]:
    """Return the rows with the readings marked that faults were dated back to, and a mask of these.

    `find_limits` gives the limits of a channel for a sensor and a variable. Readings that were not judged, those that
    are noted as real, and those whose correction would lie outside the limits are unchanged.
    """
    which = np.zeros(len(rows), dtype=bool)
    columns = {name: getattr(rows, name).copy() for name in ("origin", "cleaned", "lower", "upper")}
    kind = np.zeros(len(rows), dtype=np.int8)
    trusted = np.isin(rows.flag, (Flag.GOOD, Flag.SUSPECT)) & (rows.origin == OBSERVED) & np.isfinite(rows.value)
    sensors, variables = NameIndex(rows.sensors), NameIndex(rows.variables)
    faults = [fault for fault in faults if fault.sensor in sensors and fault.variable in variables]
    channel = rows.sensor.astype(np.int64) * len(variables) + rows.variable
    own_channel = [sensors[fault.sensor] * len(variables) + variables[fault.variable] for fault in faults]
    of_faults = np.zeros(len(sensors) * len(variables), dtype=bool)
    of_faults[own_channel] = True
    # The rows of these channels, channel by channel.
    listed = np.flatnonzero(trusted & of_faults[channel])
    listed = listed[np.argsort(channel[listed], kind="stable")]
    begins, ends = (np.searchsorted(channel[listed], own_channel, side).tolist() for side in ("left", "right"))
    for fault, begin, end in zip(faults, begins, ends, strict=True):
        part = listed[begin:end]
        # What came more than a period before the first wrong reading was not far enough off to be wrong.
        start = max(fault.start, fault.first - grid.period)
        own = part[trusted[part] & (rows.time[part] >= start) & (rows.time[part] < fault.first)]
        if not own.size:
            continue
        times, slot = np.unique(rows.time[own], return_inverse=True)
        real = maintenance.noted("real", [fault.sensor], [fault.variable], times, grid.step)
        if real is not None:
            own = own[~real[0, 0, slot]]
        low, high = find_limits(fault.sensor, fault.variable)
        size = fault.size_at(rows.time[own], grid.period)
        cleaned = rows.value[own] - size
        # Where the correction cannot be, the fault was not that large yet.
        sound = (cleaned >= low) & (cleaned <= high)
        own, cleaned = own[sound], cleaned[sound]
        kind[own] = REASONS.index(fault.reason)
        columns["origin"][own], columns["cleaned"][own] = CORRECTED, cleaned
        half_width = fault.half_width if math.isfinite(fault.half_width) else abs(fault.dated_size)
        columns["lower"][own] = clipped(cleaned - half_width, low, high)
        columns["upper"][own] = clipped(cleaned + half_width, low, high)
        which[own], trusted[own] = True, False
    flag, reason = flag_cells(rows.flag, rows.reason, {Mark.WRONG: which}, kind)
    return replace(rows, flag=flag, reason=reason, **columns), which


def _claim_slots(dated: Fault, table: _PeriodTable, row: int, wrong: BoolArray, suspect: BoolArray) -> NDArray[np.intp]:
    """Return the slots of an episode that are wrong or doubtful and in no other fault, and clear them in the masks."""
    end = table.end if dated.end is None else dated.end
    first, last = np.searchsorted(table.times, (dated.start, end)).tolist()
    # Doubtful episodes are listed, too.
    own: NDArray[np.intp] = first + np.flatnonzero(wrong[row, first:last] | suspect[row, first:last])
    wrong[row, own] = suspect[row, own] = False
    return own


def _runs(wrong: BoolArray, missing: BoolArray) -> list[NDArray[np.intp]]:
    """Return the wrong slots of a channel in runs, which only missing slots may interrupt."""
    slots = np.flatnonzero(wrong)
    if not slots.size:
        return []
    if slots[-1] - slots[0] + 1 == slots.size:
        return [slots]
    interruptions = np.cumsum(~(wrong | missing))
    return np.split(slots, np.flatnonzero(np.diff(interruptions[slots])) + 1)


@dataclass(frozen=True, eq=False)
class _PeriodTable:
    """A period's rows as arrays (channel, slot).

    `silent` slots are in a period without readings, `fill` ones in a period of fill values alone; `missing` ones have
    no reading, or a fill value, between others. A fill value between readings is not a fault. `distance` is that of the
    reading from `cleaned`, in the channels that have one of these slots or a doubtful one.
    """

    start: int
    end: int
    times: NDArray[np.int64]
    reason: NDArray[np.int8]
    fail: BoolArray
    suspect: BoolArray
    silent: BoolArray
    fill: BoolArray
    missing: BoolArray
    corrected: BoolArray
    value: FloatArray
    distance: FloatArray
    half_width: FloatArray
    score: FloatArray
    resolution: FloatArray
    circular: BoolArray

    @classmethod
    def of(cls, cleaned_period: CleanedPeriod, grid: Grid) -> _PeriodTable:
        rows, shape = cleaned_period.rows, (-1, grid.slots)
        flag, reason = rows.flag.reshape(shape), rows.reason.reshape(shape)
        silent, missing = reason == SILENT, flag == Flag.MISSING
        code = (flag == Flag.FAIL) & (reason == FILL)
        fill = code & (code | missing).all(axis=1, keepdims=True)
        fail, suspect = (flag == Flag.FAIL) & ~code, (flag == Flag.SUSPECT) & (reason != DUPLICATE)
        value, cleaned = rows.value.reshape(shape), rows.cleaned.reshape(shape)
        circular = np.isin(rows.variable[:: grid.slots], cleaned_period.circular)
        shown = np.flatnonzero((fail | suspect | silent | fill).any(axis=1))
        distance = np.zeros(value.shape)
        distance[shown] = distances_from(value[shown], cleaned[shown], circular[shown, None])
        return cls(
            start=grid.period_start(cleaned_period.period),
            end=grid.period_start(cleaned_period.period + 1),
            times=grid.slot_times(cleaned_period.period),
            reason=reason,
            fail=fail,
            suspect=suspect,
            silent=silent,
            fill=fill,
            missing=(missing | code) & ~silent & ~fill,
            corrected=rows.origin.reshape(shape) == CORRECTED,
            value=value,
            distance=distance,
            half_width=(rows.upper - rows.lower).reshape(shape) / 2,
            score=cleaned_period.score,
            resolution=cleaned_period.resolution,
            circular=circular,
        )


def _plain(fault: FaultEpisode) -> list[Any]:
    """Return the fields of a fault as JSON values."""
    values = vars(fault) | {
        "slots": {str(code): count for code, count in fault.slots.items()},
        "sums": list(vars(fault.sums).values()),
        "fault": fault.fault and list(vars(fault.fault).values()),
    }
    return list(values.values())


def _restore_episode(values: list[Any]) -> FaultEpisode:
    named = dict(zip((entry.name for entry in fields(FaultEpisode)), values, strict=True))
    named["slots"] = {int(code): count for code, count in named["slots"].items()}
    named["sums"] = ReadingSums(*named["sums"])
    named["fault"] = Fault(*named["fault"]) if named["fault"] else None
    return FaultEpisode(**named)
