"""`read_report_data` reads the data of the report; `count_rows` counts the rows in one pass."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import duckdb

from sensormend.errors import InputError
from sensormend.io.folder import data_files, parse_dates
from sensormend.pipeline.channel_states import ChannelName
from sensormend.pipeline.faults import FaultInterval
from sensormend.pipeline.sentences import counted
from sensormend.readings import DAY, HOUR
from sensormend.views.channel_status import ChannelStatus, all_faults, channel_statuses
from sensormend.views.daily_counts import parquet_source, read_days
from sensormend.views.matrix import Matrix, matrix
from sensormend.views.overview import NetworkOverview, network_overview
from sensormend.views.reader import OutReader

__all__ = [
    "CAUSES",
    "ChannelCounts",
    "EstimatedSpan",
    "ReportData",
    "RowCounts",
    "count_rows",
    "read_report_data",
]

MAX_ROWS = 1_500_000
"""The maximum number of rows in memory at once: about 200 MB."""

MAX_CHANGES = 1_000_000
"""The maximum number of rows whose changes are computed, which needs them sorted; of more, a sample of the sensors is
used."""

ZERO_WIDTH = -(1 << 20)
"""Code of an interval of width zero."""

CAUSE = """CASE WHEN reason = 'fill' OR flag = 9 AND reason = 'silent' THEN reason WHEN flag = 9 THEN 'missing'
    WHEN flag = 4 AND reason = 'spike' THEN 'spike' WHEN flag = 4 THEN 'faulty' ELSE 'ignored' END"""

CAUSES = {
    "missing": "No reading came",
    "silent": "The sensor was silent for a whole period",
    "fill": "Something came, but no number, or a fill value",
    "faulty": "The reading was replaced: the sensor was faulty",
    "spike": "The reading was replaced: a single wrong value",
    "ignored": "The reading was to be ignored",
}
"""Causes of estimates, in the order of the table."""

MIN_LISTED_VALUES = 3
"""A gap of at least a day, and of this many values, is listed individually."""

GAPS = ((0, "a single value"), (6 * HOUR, "up to 6 hours"), (DAY, "up to a day"), (7 * DAY, "up to a week"),
        (1 << 62, "longer than a week"))  # fmt: skip


@dataclass(frozen=True)
class _RowBlock:
    """Rows from `start` to before `end`, None for no limit, in the tables `part` and `gaps` of an engine.

    Changes are computed for one in `sample` sensors; `progress` is the share of all rows up to its end.
    """

    engine: Any
    start: int | None
    end: int | None
    sample: int
    progress: float

    def query(self, text: str) -> list[Any]:
        """Return the lines of an answer."""
        lines: list[Any] = self.engine.execute(text).fetchall()
        return lines


def _row_blocks(folder: Path, step: int, last: int, channels: int) -> Iterator[_RowBlock]:
    """Yield the rows of a folder up to a time, in order of time; `channels` is their approximate number."""
    parts = {file.parent for file in data_files(folder, None, last)}
    dates = sorted({date for part in parts for date in parse_dates(part) if date * DAY < last})
    daily = max(channels * DAY // step, 1)
    size = max(MAX_ROWS // daily, 1)
    sample = max(round(daily * len(dates) / MAX_CHANGES), 1)
    with duckdb.connect() as engine:
        for begin in range(0, len(dates), size):
            chosen = dates[begin : begin + size]
            stop = min(chosen[-1] * DAY + DAY, last)
            read_days(folder, chosen[0] * DAY, stop, partial(_read, engine, chosen[0] * DAY, stop, step))
            # A block lasts until the next one begins, also where dates between them are missing.
            start = chosen[0] * DAY if begin else None
            end = chosen[-1] * DAY + DAY if begin + size < len(dates) else None
            yield _RowBlock(engine, start, end, sample, (begin + len(chosen)) / len(dates))


def _read(engine: Any, first: int, last: int, step: int, files: list[Path]) -> None:
    source, variable = parquet_source(engine, files)
    engine.execute(
        f"CREATE OR REPLACE TEMP TABLE part AS SELECT sensor, {variable} AS variable, epoch_us(time) AS slot, value, "
        "n, cleaned, lower, upper, flag, coalesce(reason, '') AS reason, coalesce(origin = 'estimated', false) AS "
        "estimated, coalesce(origin = 'corrected', false) AS corrected "
        f"FROM {source} WHERE time >= make_timestamp({first}) AND time < make_timestamp({last})"
    )
    engine.execute(
        f"""CREATE OR REPLACE TEMP TABLE gaps AS SELECT sensor, variable, min(slot) AS begin, max(slot) AS last FROM (
          SELECT sensor, variable, slot, sum(fresh::INTEGER) OVER (PARTITION BY sensor, variable ORDER BY slot) AS gap
          FROM (
            SELECT *, coalesce(slot - lag(slot) OVER (PARTITION BY sensor, variable ORDER BY slot) > {step * 3 // 2},
            true) AS fresh FROM part WHERE estimated))
        GROUP BY sensor, variable, gap"""
    )


@dataclass(frozen=True)
class ChannelCounts:
    """Counts of one variable of one sensor.

    Attributes
    ----------
    rows, estimated, corrected
        Numbers of values, of estimates among them, and of readings with their fault taken out.
    readings, alone, unjudged
        Numbers of values with a reading, of readings not judged since the sensor is alone, and for another cause.
    """

    rows: int
    estimated: int
    corrected: int
    readings: int
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
        shift = mean - self.mean
        self.variance = (
            self.count * self.variance + count * variance + shift**2 * self.count * count / both
        ) / both  # fmt: skip
        self.mean += shift * count / both
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
    rows, estimated, corrected
        Numbers of values, of estimates among them, and of readings with their fault taken out.
    unknown, duplicates
        Numbers of values without even an estimate, and of readings that contradict another one of the same time.
    flags
        Number of values by flag.
    causes
        Number of estimates by (variable, cause).
    widths
        Number of estimates by width of the interval in 64ths of an octave, by (variable, cause).
    gaps
        Number of gaps by length in microseconds.
    estimated_spans
        Gaps of at least a day with several values, the longest first.
    empty_spans
        Spans in which no sensor had a reading.
    unjudged
        By date: number of readings not evaluated for another cause than that the sensor is alone, and number of
        readings.
    """

    step: int
    channels: dict[ChannelName, ChannelCounts] = field(default_factory=dict)
    rows: int = 0
    estimated: int = 0
    corrected: int = 0
    unknown: int = 0
    duplicates: int = 0
    flags: Counter[int] = field(default_factory=Counter)
    causes: Counter[tuple[str, str]] = field(default_factory=Counter)
    widths: dict[tuple[str, str], Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    gaps: Counter[int] = field(default_factory=Counter)
    estimated_spans: list[EstimatedSpan] = field(default_factory=list)
    empty_spans: list[tuple[int, int]] = field(default_factory=list)
    unjudged: dict[int, tuple[int, int]] = field(default_factory=dict)
    _levels: dict[str, _Moments] = field(default_factory=lambda: defaultdict(_Moments))
    _spreads: dict[str, list[float]] = field(default_factory=lambda: defaultdict(lambda: [0.0, 0.0]))
    _changes: dict[str, list[float]] = field(default_factory=lambda: defaultdict(lambda: [0.0] * 4))
    _open: dict[ChannelName, tuple[int, int]] = field(default_factory=dict)

    @property
    def spread(self) -> dict[str, tuple[float, float]]:
        """By variable: the standard deviation of good readings over all, and among the sensors at one time."""
        return {
            variable: (math.sqrt(level.variance), _root(*self._spreads[variable]))
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
        remaining = share * widths.total()
        for bucket in sorted(widths):
            remaining -= widths[bucket]
            if remaining <= 0:
                # The middle of its 64th of an octave, so it is within 1 %.
                return 0.0 if bucket <= ZERO_WIDTH else float(2 ** ((bucket + 0.5) / 64)) / 2
        return math.nan

    def gap_table(self) -> list[tuple[str, int, int]]:
        """Return for each class of gaps its label, their number, and the number of their values."""
        table = {label: [0, 0] for _, label in GAPS}
        for length, count in self.gaps.items():
            label = next(label for edge, label in GAPS if length <= max(edge, self.step))
            table[label][0] += count
            table[label][1] += count * (length // self.step)
        return [(label, gaps, values) for label, (gaps, values) in table.items() if gaps]

    def add(self, block: _RowBlock) -> None:
        """Add the rows of a block; blocks come in order of time."""
        for rows, estimated, corrected, unknown, duplicates in block.query(
            "SELECT count(*), count(*) FILTER (estimated), count(*) FILTER (corrected), "
            "count(*) FILTER (cleaned IS NULL), count(*) FILTER (reason = 'duplicate') FROM part"
        ):
            self.rows += rows
            self.estimated += estimated
            self.corrected += corrected
            self.unknown += unknown
            self.duplicates += duplicates
        for sensor, variable, *columns in block.query(
            "SELECT sensor, variable, count(*), count(*) FILTER (estimated), count(*) FILTER (corrected), "
            "count(*) FILTER (n > 0), "
            "count(*) FILTER (flag = 2 AND reason = 'alone'), count(*) FILTER (flag = 2 AND reason <> 'alone') "
            "FROM part GROUP BY ALL"
        ):
            before = self.channels.get((sensor, variable), ChannelCounts(*[0] * len(columns)))
            sums = (old + new for old, new in zip(vars(before).values(), columns, strict=True))
            self.channels[sensor, variable] = ChannelCounts(*sums)
        self.flags.update(dict(block.query("SELECT flag, count(*) FROM part GROUP BY ALL")))
        for variable, cause, bucket, values in block.query(
            f"SELECT variable, {CAUSE}, CASE WHEN upper - lower > 0 THEN floor(log2(upper - lower) * 64)::INTEGER "
            f"WHEN upper IS NOT NULL THEN {ZERO_WIDTH} END, count(*) FROM part WHERE estimated GROUP BY ALL"
        ):
            self.causes[variable, cause] += values
            if bucket is not None:
                self.widths[variable, cause][bucket] += values
        for variable, *columns in block.query(
            "SELECT variable, count(*), avg(value), var_pop(value) FROM part WHERE flag = 1 GROUP BY variable"
        ):
            self._levels[variable].add(*columns)
        # The variance among sensors at one time, weighted by their number.
        for variable, *columns in block.query(
            "SELECT variable, sum(sensors), sum(sensors * variance) FROM (SELECT variable, slot, count(*) AS sensors, "
            "var_pop(value) AS variance FROM part WHERE flag = 1 GROUP BY variable, slot HAVING count(*) > 2) "
            "GROUP BY variable"
        ):
            self._spreads[variable] = [old + new for old, new in zip(self._spreads[variable], columns, strict=True)]
        # For readings and for estimates: the number of changes and the sum of their squares.
        for variable, *columns in block.query(
            f"""SELECT variable, count(*) FILTER (NOT estimated), coalesce(sum(change ** 2) FILTER (NOT estimated), 0),
            count(*) FILTER (estimated), coalesce(sum(change ** 2) FILTER (estimated), 0) FROM (
              SELECT variable, estimated, cleaned - lag(cleaned) OVER run AS change, slot - lag(slot) OVER run AS apart,
              estimated = lag(estimated) OVER run AND (estimated OR flag = 1 AND lag(flag) OVER run = 1) AS alike
              FROM part WHERE hash(sensor) % {block.sample} = 0
              WINDOW run AS (PARTITION BY sensor, variable ORDER BY slot))
            WHERE alike AND apart BETWEEN {self.step // 2} AND {self.step * 3 // 2} AND change IS NOT NULL
            GROUP BY variable"""
        ):
            self._changes[variable] = [old + new for old, new in zip(self._changes[variable], columns, strict=True)]
        for date, unjudged, readings in block.query(
            "SELECT make_timestamp(slot)::DATE - DATE '1970-01-01', count(*) FILTER (flag = 2 AND reason <> 'alone') "
            "AS unjudged, count(*) FILTER (n > 0) FROM part GROUP BY 1 HAVING unjudged > 0 ORDER BY 1"
        ):
            self.unjudged[date] = (unjudged, readings)
        for (time,) in block.query("SELECT slot FROM part GROUP BY slot HAVING max(n) = 0 ORDER BY slot"):
            if self.empty_spans and time - self.empty_spans[-1][1] <= self.step // 2:
                self.empty_spans[-1] = (self.empty_spans[-1][0], time + self.step)
            else:
                self.empty_spans.append((time, time + self.step))
        self._add_gaps(block)

    def _add_gaps(self, block: _RowBlock) -> None:
        """Count gaps within a block that are shorter than a day, and continue those that reached its start."""
        long = [f"last - begin + {self.step} >= {DAY}"]
        long += [] if block.start is None else [f"begin <= {block.start + self.step // 2}"]
        long += [] if block.end is None else [f"last + {self.step} >= {block.end - self.step // 2}"]
        for length, count in block.query(
            f"SELECT (round((last - begin) / {self.step}) + 1)::BIGINT * {self.step}, count(*) FROM gaps "
            f"WHERE NOT ({' OR '.join(long)}) GROUP BY ALL"
        ):
            self.gaps[length] += count
        before, self._open = self._open, {}
        for sensor, variable, begin, last in block.query(
            f"SELECT sensor, variable, begin, last FROM gaps WHERE {' OR '.join(long)} ORDER BY begin"
        ):
            name, start, end = (sensor, variable), begin, last + self.step
            if name in before and start - before[name][1] <= self.step // 2:
                start, _ = before.pop(name)
            if block.end is not None and end >= block.end - self.step // 2:
                self._open[name] = (start, end)
            else:
                self._end_gap(name, start, end)
        for name, (start, end) in before.items():
            self._end_gap(name, start, end)

    def _end_gap(self, name: ChannelName, start: int, end: int) -> None:
        # Rows per reading are not on the grid; the length of a gap is rounded to slots.
        slots = max(round((end - start) / self.step), 1)
        self.gaps[slots * self.step] += 1
        if end - start >= max(DAY, MIN_LISTED_VALUES * self.step):
            self.estimated_spans.append(EstimatedSpan(*name, start, end))

    def finish(self) -> None:
        """End open gaps after the last block."""
        for name, (start, end) in self._open.items():
            self._end_gap(name, start, end)
        self._open = {}
        self.estimated_spans.sort(key=lambda span: (span.start - span.end, span.sensor, span.variable))


def count_rows(
    folder: Path, step: int, end: int, channels: int, done: Callable[[float], None] | None = None
) -> RowCounts:
    """Count the rows of a folder in one pass.

    Rows from `end` on are left out: a watch may be writing them now. `channels` is their approximate number; `done` is
    called with the progress, from 0 to 1.
    """
    counts = RowCounts(step)
    for block in _row_blocks(folder, step, end, channels):
        counts.add(block)
        if done is not None:
            done(block.progress)
    counts.finish()
    return counts


def _root(weight: Any, total: Any) -> float:
    return math.sqrt(total / weight) if weight else math.nan


@dataclass(frozen=True)
class ReportData:
    """The data of the report.

    Attributes
    ----------
    reader, network
        The output folder, and its overview.
    start, end
        The span of final values; `end` is excluded.
    counts
        Counts of rows and gaps.
    matrix
        The state of every channel by day, the worst first.
    now, faults
        The state of every channel, and all faults.
    troubles
        Channels with faults that are not doubtful, each with these: the longest faulty first, then the longest silent.
    """

    reader: OutReader
    network: NetworkOverview
    start: int
    end: int
    counts: RowCounts
    matrix: Matrix
    now: dict[ChannelName, ChannelStatus]
    faults: tuple[FaultInterval, ...]
    troubles: dict[ChannelName, list[FaultInterval]]

    @property
    def several(self) -> bool:
        """Whether there are several variables."""
        return len(self.reader.variables) > 1

    def number_of(self, count: int) -> str:
        """Format a number of sensors, or of series where there are several variables."""
        return counted(count, "series", "series") if self.several else counted(count, "sensor")

    @property
    def step(self) -> int:
        """Microseconds of a slot."""
        return self.reader.step

    def ended(self) -> list[tuple[str, int]]:
        """Return the sensors that have ended with the times of their last readings, the latest first."""
        present = {status.sensor for status in self.now.values() if status.state != "ended"}
        last: dict[str, int] = {}
        for status in self.now.values():
            if status.sensor not in present and status.heard is not None:
                last[status.sensor] = max(status.heard, last.get(status.sensor, status.heard))
        return sorted(last.items(), key=lambda entry: (-entry[1], entry[0]))


def read_report_data(reader: OutReader, done: Callable[[float], None] | None = None) -> ReportData:
    """Return the data of the report; raise InputError where nothing is final yet, or there is no row."""
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
    faults = tuple(all_faults(reader))
    return ReportData(
        reader=reader,
        network=network_overview(reader),
        start=span[0],
        end=end,
        counts=count_rows(reader.folder, reader.step, end, len(reader.summaries), done),
        matrix=matrix(reader, start=span[0], end=end, limit=1 << 60),
        now=channel_statuses(reader),
        faults=faults,
        troubles=_faults_by_channel(reader, faults),
    )


def _faults_by_channel(reader: OutReader, faults: Iterable[FaultInterval]) -> dict[ChannelName, list[FaultInterval]]:
    by_channel: dict[ChannelName, list[FaultInterval]] = {}
    for fault in (fault for fault in faults if not fault.doubtful):
        # A sensor that is silent in all its variables has one line, without a variable.
        variables = reader.channels.get(fault.sensor, ()) if fault.reason == "silent" and not fault.variable else ()
        for variable in variables or (fault.variable,):
            by_channel.setdefault((fault.sensor, variable), []).append(fault)

    def order(name: ChannelName) -> tuple[int, int, ChannelName]:
        faulty, silent = (
            sum(fault.end - fault.start for fault in by_channel[name] if (fault.reason == "silent") == is_silent)
            for is_silent in (False, True)
        )
        return -faulty, -silent, name

    return {name: by_channel[name] for name in sorted(by_channel, key=order)}
