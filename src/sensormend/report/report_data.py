"""`read_report_data` reads the data of the report; `count_rows` counts the rows in one pass."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import duckdb

from sensormend.errors import InputError
from sensormend.io.folder import data_files, date_of
from sensormend.io.metadata import FaultInterval
from sensormend.pipeline.health import ABSENT
from sensormend.pipeline.sentences import counted
from sensormend.readings import DAY, HOUR
from sensormend.views.channel_status import RANKS, WRONG, ChannelStatus, channel_statuses, is_open
from sensormend.views.daily_counts import ChannelName, parquet_source, read_days
from sensormend.views.matrix import Matrix, matrix
from sensormend.views.overview import NetworkOverview, network_overview
from sensormend.views.reader import OutReader

__all__ = [
    "CAUSES",
    "ChannelCounts",
    "ChannelFaults",
    "EstimatedSpan",
    "ReportData",
    "RowCounts",
    "count_rows",
    "read_report_data",
]

ROWS = 1_500_000
"""Most rows in memory at once: about 200 MB."""

MAX_CHANGES = 1_000_000
"""Most rows whose changes are computed, which needs them sorted; of more, a sample of the sensors is used."""

ZERO_WIDTH = -(1 << 20)
"""Code of an interval of width zero."""

CAUSE = """CASE WHEN flag = 9 AND reason IN ('silent', 'fill') THEN reason WHEN flag = 9 THEN 'missing'
    WHEN flag = 4 AND reason = 'spike' THEN 'spike' WHEN flag = 4 THEN 'faulty' ELSE 'ignored' END"""

CAUSES = {
    "missing": "No reading came",
    "silent": "The sensor was silent for a whole period",
    "fill": "Something came, but no number",
    "faulty": "The reading was replaced: the sensor was faulty",
    "spike": "The reading was replaced: a single wrong value",
    "ignored": "The reading was to be ignored",
}
"""Causes of estimates, in the order of the table."""

LONG, FEWEST = DAY, 3
"""A gap of at least a day, and of this many values, is listed individually."""

GAPS = ((0, "a single value"), (6 * HOUR, "up to 6 hours"), (DAY, "up to a day"), (7 * DAY, "up to a week"),
        (1 << 62, "longer than a week"))  # fmt: skip

MAX_VARIABLES = 6
"""Most variables with charts, to limit the length of the page."""


@dataclass(frozen=True)
class _RowBlock:
    """Rows from `start` to before `end`, None for no limit; each method is one query."""

    engine: Any
    step: int
    start: int | None
    end: int | None
    every: int

    def _ask(self, question: str) -> list[Any]:
        answer: list[Any] = self.engine.execute(question).fetchall()
        return answer

    def channels(self) -> list[Any]:
        """Return sensor, variable, and counts: rows, estimates, corrections, readings, alone, otherwise not judged."""
        return self._ask(
            "SELECT sensor, variable, count(*), count(*) FILTER (guess), count(*) FILTER (corrected), "
            "count(*) FILTER (n > 0), "
            "count(*) FILTER (flag = 2 AND reason = 'alone'), count(*) FILTER (flag = 2 AND reason <> 'alone') "
            "FROM part GROUP BY ALL"
        )

    def flags(self) -> list[Any]:
        """Return flag and count."""
        return self._ask("SELECT flag, count(*) FROM part GROUP BY ALL")

    def widths(self) -> list[Any]:
        """Return variable, cause, width in 64ths of an octave, and number of estimates."""
        return self._ask(
            f"SELECT variable, {CAUSE}, CASE WHEN upper - lower > 0 THEN floor(log2(upper - lower) * 64)::INTEGER "
            f"WHEN upper IS NOT NULL THEN {ZERO_WIDTH} END, count(*) FROM part WHERE guess GROUP BY ALL"
        )

    def others(self) -> list[Any]:
        """Return the numbers of unknown values, and of readings that contradict another one."""
        return self._ask("SELECT count(*) FILTER (cleaned IS NULL), count(*) FILTER (reason = 'duplicate') FROM part")

    def levels(self) -> list[Any]:
        """Return variable, number of good readings, their mean and variance."""
        return self._ask(
            "SELECT variable, count(*), avg(value), var_pop(value) FROM part WHERE flag = 1 GROUP BY variable"
        )

    def spreads(self) -> list[Any]:
        """Return variable, weight, and the variance among sensors at one time, weighted."""
        return self._ask(
            "SELECT variable, sum(many), sum(many * off) FROM (SELECT variable, slot, count(*) AS many, "
            "var_pop(value) AS off FROM part WHERE flag = 1 GROUP BY variable, slot HAVING count(*) > 2) "
            "GROUP BY variable"
        )

    def changes(self) -> list[Any]:
        """Return variable, then for readings and for estimates the number of changes and the sum of their squares."""
        chosen = f"hash(sensor) % {self.every} = 0" if self.every > 1 else "true"
        return self._ask(
            f"""SELECT variable, count(*) FILTER (NOT guess), coalesce(sum(pow(off, 2)) FILTER (NOT guess), 0),
            count(*) FILTER (guess), coalesce(sum(pow(off, 2)) FILTER (guess), 0) FROM (
              SELECT variable, guess, cleaned - lag(cleaned) OVER run AS off, slot - lag(slot) OVER run AS apart,
              guess = lag(guess) OVER run AND (guess OR flag = 1 AND lag(flag) OVER run = 1) AS alike
              FROM part WHERE {chosen} WINDOW run AS (PARTITION BY sensor, variable ORDER BY slot))
            WHERE alike AND apart BETWEEN {self.step // 2} AND {self.step * 3 // 2} AND off IS NOT NULL
            GROUP BY variable"""
        )

    def unjudged(self) -> list[Any]:
        """Return date (days since 1970), number of readings that were not judged, and number of readings."""
        return self._ask(
            "SELECT make_timestamp(slot)::DATE - DATE '1970-01-01', count(*) FILTER (flag = 2 AND reason <> 'alone'), "
            "count(*) FILTER (n > 0) FROM part GROUP BY 1 HAVING count(*) FILTER (flag = 2 AND reason <> 'alone') > 0 "
            "ORDER BY 1"
        )

    def nobody(self) -> list[int]:
        """Return the times at which no sensor had a reading, in order."""
        return [time for (time,) in self._ask("SELECT slot FROM part GROUP BY slot HAVING max(n) = 0 ORDER BY slot")]

    def short_gaps(self) -> list[Any]:
        """Return lengths in microseconds of gaps within this part and shorter than a day, and their numbers."""
        return self._ask(
            f"SELECT (round((last - begin) / {self.step}) + 1)::BIGINT * {self.step}, count(*) FROM gaps "
            f"WHERE NOT ({self._long()}) GROUP BY ALL"
        )

    def long_gaps(self) -> list[Any]:
        """Return sensor, variable, first and last time of the other gaps, in order of time."""
        return self._ask(f"SELECT sensor, variable, begin, last FROM gaps WHERE {self._long()} ORDER BY begin")

    def _long(self) -> str:
        edges = [f"last - begin + {self.step} >= {DAY}"]
        edges += [] if self.start is None else [f"begin <= {self.start + self.step // 2}"]
        edges += [] if self.end is None else [f"last + {self.step} >= {self.end - self.step // 2}"]
        return " OR ".join(edges)


def _row_blocks(folder: Path, step: int, last: int, channels: int) -> Iterator[tuple[_RowBlock, float]]:
    """Yield the parts of a folder OUT in order of time, each with the progress after it.

    Parameters
    ----------
    folder
        The folder that contains `data/date=...`.
    step
        Microseconds of a slot.
    last
        The end of the last part.
    channels
        Their approximate number.
    """
    dates = sorted({date_of(file.parent) for file in data_files(folder, None, last)})
    daily = max(channels * DAY // step, 1)
    many = max(ROWS // daily, 1)
    every = max(round(daily * len(dates) / MAX_CHANGES), 1)
    with duckdb.connect() as engine:
        for begin in range(0, len(dates), many):
            chosen = dates[begin : begin + many]
            stop = min(chosen[-1] * DAY + DAY, last)
            read_days(folder, chosen[0] * DAY, stop, partial(_read, engine, stop, step))
            # A part lasts until the next one begins, also where dates between them are missing.
            start = chosen[0] * DAY if begin else None
            end = chosen[-1] * DAY + DAY if begin + many < len(dates) else None
            yield _RowBlock(engine, step, start, end, every), (begin + len(chosen)) / len(dates)


def _read(engine: Any, last: int, step: int, files: list[Path]) -> None:
    source, variable = parquet_source(engine, files)
    engine.execute(
        f"CREATE OR REPLACE TEMP TABLE part AS SELECT sensor, {variable} AS variable, epoch_us(time) AS slot, value, "
        "n, cleaned, lower, upper, flag, coalesce(reason, '') AS reason, coalesce(origin = 'estimated', false) AS "
        "guess, coalesce(origin = 'corrected', false) AS corrected "
        f"FROM {source} WHERE time < make_timestamp({last})"
    )
    engine.execute(
        f"""CREATE OR REPLACE TEMP TABLE gaps AS SELECT sensor, variable, min(slot) AS begin, max(slot) AS last FROM (
          SELECT sensor, variable, slot, sum(fresh::INTEGER) OVER (PARTITION BY sensor, variable ORDER BY slot) AS gap
          FROM (
            SELECT *, coalesce(slot - lag(slot) OVER (PARTITION BY sensor, variable ORDER BY slot) > {step * 3 // 2},
            true) AS fresh FROM part WHERE guess))
        GROUP BY sensor, variable, gap"""
    )


@dataclass(frozen=True)
class ChannelCounts:
    """Counts of one variable of one sensor.

    Attributes
    ----------
    rows, estimated, corrected
        Numbers of values, of estimates among them, and of readings with their fault taken out.
    heard, alone, unjudged
        Numbers of values with a reading, of readings not judged since the sensor is alone, and for another cause.
    """

    rows: int
    estimated: int
    corrected: int
    heard: int
    alone: int
    unjudged: int


@dataclass(frozen=True)
class EstimatedSpan:
    """A span in which a channel has only estimates, from `start` to before `end`."""

    sensor: str
    variable: str
    start: int
    end: int


@dataclass
class _Moments:
    """Count, mean and variance that can be merged with others."""

    count: int = 0
    mean: float = 0.0
    variance: float = 0.0

    def add(self, count: int, mean: float, variance: float) -> None:
        """Merge another count, mean and variance."""
        both = self.count + count
        apart = mean - self.mean
        self.variance = (
            self.count * self.variance + count * variance + apart**2 * self.count * count / both
        ) / both  # fmt: skip
        self.mean += apart * count / both
        self.count = both


@dataclass
class RowCounts:
    """Counts of rows and gaps for the report.

    Attributes
    ----------
    step
        Microseconds of a slot.
    channels
        Counts by (sensor, variable).
    flags
        Number of values by flag.
    causes
        Number of estimates by (variable, cause).
    unknown
        Number of values without even an estimate.
    duplicates
        Number of readings that contradict another one of the same time.
    widths
        Number of estimates by width of the interval in 64ths of an octave, by (variable, cause).
    gaps
        Number of gaps by length in microseconds.
    stretches
        Gaps of at least a day with several values, the longest first.
    nobody
        Spans in which no sensor had a reading.
    unjudged
        By date: number of readings not evaluated for another cause than that the sensor is alone, and number of
        readings.
    """

    step: int
    channels: dict[tuple[str, str], ChannelCounts] = field(default_factory=dict)
    flags: Counter[int] = field(default_factory=Counter)
    causes: Counter[tuple[str, str]] = field(default_factory=Counter)
    unknown: int = 0
    duplicates: int = 0
    widths: dict[tuple[str, str], Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    gaps: Counter[int] = field(default_factory=Counter)
    stretches: list[EstimatedSpan] = field(default_factory=list)
    nobody: list[tuple[int, int]] = field(default_factory=list)
    unjudged: dict[int, tuple[int, int]] = field(default_factory=dict)
    _levels: dict[str, _Moments] = field(default_factory=lambda: defaultdict(_Moments))
    _among: dict[str, list[float]] = field(default_factory=lambda: defaultdict(lambda: [0.0, 0.0]))
    _changes: dict[str, list[float]] = field(default_factory=lambda: defaultdict(lambda: [0.0] * 4))
    _open: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Number of values."""
        return sum(channel.rows for channel in self.channels.values())

    @property
    def estimated(self) -> int:
        """Number of estimates."""
        return sum(channel.estimated for channel in self.channels.values())

    @property
    def corrected(self) -> int:
        """Number of readings with their fault taken out."""
        return sum(channel.corrected for channel in self.channels.values())

    @property
    def spread(self) -> dict[str, tuple[float, float]]:
        """By variable: the standard deviation of good readings over all, and among the sensors at one time."""
        return {
            variable: (math.sqrt(level.variance), _root(*self._among[variable]))
            for variable, level in self._levels.items()
        }

    @property
    def change(self) -> dict[str, tuple[float, float]]:
        """By variable: root mean square changes from one value to the next, of good readings and of estimates."""
        return {variable: (_root(*sums[:2]), _root(*sums[2:])) for variable, sums in self._changes.items()}

    def half_width(self, variable: str, *causes: str, share: float = 0.5) -> float:
        """Return the half width of an interval that is wider than those of `share` of the estimates."""
        widths: Counter[int] = Counter()
        for cause in causes or CAUSES:
            widths += self.widths.get((variable, cause), Counter())
        return _quantile(widths, share) / 2

    def gap_table(self) -> list[tuple[str, int, int]]:
        """Return for each class of gaps its label, their number, and the number of their values."""
        kinds = [[0, 0] for _ in GAPS]
        for length, times in self.gaps.items():
            kind = 0 if length <= self.step else next(
                number for number, (edge, _) in enumerate(GAPS) if number and length <= edge
            )  # fmt: skip
            kinds[kind][0] += times
            kinds[kind][1] += times * (length // self.step)
        return [(words, *pair) for (_, words), pair in zip(GAPS, kinds, strict=True) if pair[0]]  # type: ignore[misc]

    def add(self, block: _RowBlock) -> None:
        """Add the rows of a block; blocks come in order of time."""
        for sensor, variable, *columns in block.channels():
            before = self.channels.get((sensor, variable), ChannelCounts(*[0] * len(columns)))
            sums = (old + new for old, new in zip(astuple(before), columns, strict=True))
            self.channels[sensor, variable] = ChannelCounts(*sums)
        for flag, values in block.flags():
            self.flags[flag] += values
        for variable, cause, bucket, values in block.widths():
            self.causes[variable, cause] += values
            if bucket is not None:
                self.widths[variable, cause][bucket] += values
        for unknown, duplicates in block.others():
            self.unknown += unknown
            self.duplicates += duplicates
        for variable, *columns in block.levels():
            self._levels[variable].add(*columns)
        for variable, weight, total in block.spreads():
            self._among[variable][0] += weight
            self._among[variable][1] += total
        for variable, *columns in block.changes():
            self._changes[variable] = [old + new for old, new in zip(self._changes[variable], columns, strict=True)]
        for date, unjudged, heard in block.unjudged():
            self.unjudged[date] = (unjudged, heard)
        for length, times in block.short_gaps():
            self.gaps[length] += times
        self._stretch(block)
        for time in block.nobody():
            if self.nobody and time - self.nobody[-1][1] <= self.step // 2:
                self.nobody[-1] = (self.nobody[-1][0], time + self.step)
            else:
                self.nobody.append((time, time + self.step))

    def _stretch(self, block: _RowBlock) -> None:
        """Continue gaps that reached the end of the block before."""
        going_on = dict(self._open)
        self._open = {}
        for sensor, variable, start, last in block.long_gaps():
            key, end = (sensor, variable), last + self.step
            before = going_on.get(key)
            if before is not None and start - before[1] <= self.step // 2:
                start = before[0]
                del going_on[key]
            if block.end is not None and end >= block.end - self.step // 2:
                self._open[key] = (start, end)
            else:
                self._over(key, start, end)
        for key, (start, end) in going_on.items():
            self._over(key, start, end)

    def _over(self, key: tuple[str, str], start: int, end: int) -> None:
        # Rows per reading are not on the grid; the length of a gap is rounded to slots.
        slots = max(round((end - start) / self.step), 1)
        self.gaps[slots * self.step] += 1
        if end - start >= max(LONG, FEWEST * self.step):
            self.stretches.append(EstimatedSpan(*key, start, end))

    def finish(self) -> None:
        """End open gaps after the last block."""
        for key, (start, end) in self._open.items():
            self._over(key, start, end)
        self._open = {}
        self.stretches.sort(key=lambda one: (one.start - one.end, one.sensor, one.variable))


def _quantile(widths: Counter[int], share: float) -> float:
    """Return a quantile of the widths; the middle of its 64th of an octave, so it is within 1 %."""
    left = share * widths.total()
    for bucket in sorted(widths):
        left -= widths[bucket]
        if left <= 0:
            return 0.0 if bucket <= ZERO_WIDTH else float(2 ** ((bucket + 0.5) / 64))
    return math.nan


def count_rows(
    folder: Path, step: int, end: int, channels: int, done: Callable[[float], None] | None = None
) -> RowCounts:
    """Count the rows of a folder in one pass.

    Parameters
    ----------
    folder
        The folder that contains `data/date=...`.
    step
        Microseconds of a slot.
    end
        Later rows are left out: a watch may be writing them now.
    channels
        Their approximate number.
    done
        Called with the progress, from 0 to 1.
    """
    counts = RowCounts(step)
    for block, share in _row_blocks(folder, step, end, channels):
        counts.add(block)
        if done is not None:
            done(share)
    counts.finish()
    return counts


def _root(weight: Any, total: Any) -> float:
    return math.sqrt(total / weight) if weight else math.nan


@dataclass(frozen=True)
class ChannelFaults:
    """The faults of a channel.

    Attributes
    ----------
    faulty, silent
        Total duration, microseconds.
    reasons
        Duration by reason.
    faults
        Its lines of faults.csv.
    """

    sensor: str
    variable: str
    faulty: int
    silent: int
    reasons: Counter[str]
    faults: tuple[FaultInterval, ...]

    @property
    def longest(self) -> FaultInterval:
        """The longest of its faults, a silence only where there is nothing else."""
        return max(self.faults, key=lambda fault: (fault.reason != "silent", fault.end - fault.start))


@dataclass(frozen=True)
class ReportData:
    """The data of the report.

    Attributes
    ----------
    reader, network
        The OUT, and its overview.
    start, end
        The span of final values; `end` is excluded.
    counts
        Counts of rows and gaps.
    matrix
        The state of every channel by day, the worst first.
    now, open
        The state of every channel, and the open faults.
    troubles
        Channels with faults, the worst first.
    variables
        Those that have charts.
    """

    reader: OutReader
    network: NetworkOverview
    start: int
    end: int
    counts: RowCounts
    matrix: Matrix
    now: dict[ChannelName, ChannelStatus]
    open: dict[ChannelName, FaultInterval]
    troubles: tuple[ChannelFaults, ...]
    variables: tuple[str, ...]

    @property
    def several(self) -> bool:
        """Whether there are several variables."""
        return len(self.reader.variables) > 1

    def many(self, count: int) -> str:
        """Format a number of sensors, or of series where there are several variables."""
        return counted(count, "series", "series") if self.several else counted(count, "sensor")

    @property
    def step(self) -> int:
        """Microseconds of a slot."""
        return self.reader.step

    def wrong_now(self) -> list[ChannelStatus]:
        """Return channels that are faulty, silent or gone, the worst and longest first."""
        wrong = [one for one in self.now.values() if one.state in WRONG]
        return sorted(wrong, key=lambda one: (RANKS.index(one.state), one.since or 0, one.sensor, one.variable))

    def gone(self) -> list[tuple[str, int]]:
        """Return removed sensors with the times of their last readings, the latest first."""
        here = {sensor for sensor, _ in self.now}
        heard: dict[str, int] = {}
        for entry in self.reader.summaries:
            if entry.sensor not in here and entry.last is not None:
                heard[entry.sensor] = max(entry.last, heard.get(entry.sensor, entry.last))
        return sorted(heard.items(), key=lambda one: (-one[1], one[0]))

    def open_fault(self, one: ChannelStatus) -> FaultInterval | None:
        """Return the open fault of a channel; a silence of all its variables has no variable."""
        names = ((one.sensor, ""), (one.sensor, one.variable))
        return next((self.open[name] for name in names if name in self.open), None)


def read_report_data(reader: OutReader, done: Callable[[float], None] | None = None) -> ReportData:
    """Return the data of the report.

    Parameters
    ----------
    reader
        The OUT.
    done
        Called with the progress, from 0 to 1.

    Raises
    ------
    InputError
        Nothing is final yet, or there is no row.
    """
    # The tables of a watch may be behind its rows; the report ends where the tables do.
    end, archive = reader.tables_end(), reader.archive
    if end is None or archive is None:
        raise InputError(
            f"no period is final yet in {reader.name}: there is nothing to report before its first period and the "
            "grace are over"
            if reader.provisional is not None or (reader.folder / "state" / "watch.json").exists()
            else f"there are no rows in {reader.name}: there is nothing to report"
        )
    span = archive.span()
    assert span is not None
    end = max(end, span[0] + reader.step)
    return ReportData(
        reader=reader,
        network=network_overview(reader),
        start=span[0],
        end=end,
        counts=count_rows(reader.folder, reader.step, end, len(reader.summaries), done),
        matrix=matrix(reader, start=span[0], end=end, limit=1 << 60),
        now={name: one for name, one in channel_statuses(reader).items() if one.state != ABSENT},
        open={(fault.sensor, fault.variable): fault for fault in reader.faults if is_open(fault, end)},
        troubles=_faults_by_channel(reader),
        variables=reader.variables[:MAX_VARIABLES],
    )


def _faults_by_channel(reader: OutReader) -> tuple[ChannelFaults, ...]:
    by_channel: dict[ChannelName, list[FaultInterval]] = {}
    for fault in (fault for fault in reader.faults if not fault.doubtful):
        # A sensor that is silent in all its variables has one line, without a variable.
        of = reader.channels.get(fault.sensor, ()) if fault.reason == "silent" and not fault.variable else ()
        for variable in of or (fault.variable,):
            by_channel.setdefault((fault.sensor, variable), []).append(fault)
    channels = []
    for (sensor, variable), faults in by_channel.items():
        reasons: Counter[str] = Counter()
        for fault in faults:
            reasons[fault.reason] += fault.end - fault.start
        silent = reasons["silent"]
        channels.append(ChannelFaults(sensor, variable, reasons.total() - silent, silent, reasons, tuple(faults)))
    return tuple(sorted(channels, key=lambda one: (-one.faulty, -one.silent, one.sensor, one.variable)))
