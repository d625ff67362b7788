"""`DailyCounts` counts the rows of every channel and date, and caches them while the date's files do not change."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import numpy as np
from numpy.typing import NDArray

from sensormend.errors import InputError
from sensormend.files import Closing, signature
from sensormend.io.folder import data_files, parse_dates
from sensormend.io.sql import first_line, read_parquet
from sensormend.pipeline.channel_states import ChannelName, PeriodCounts
from sensormend.pipeline.health import COUNTS, NO_ROWS, states
from sensormend.readings import DAY

__all__ = ["DailyCounts", "parquet_source", "read_days"]

DATES_AT_ONCE = 400
"""The number of dates read by one query: a year of 2,000 sensors takes a second, and some hundred MB during that
time."""

MAX_BYTES = 128 << 20
"""The maximum size of cached counts in bytes: twelve years of 2,000 sensors; the least recently used are dropped."""

_X = TypeVar("_X")

_SQL_COUNTS = {
    "slots": "count(*)",
    "missing": "count(*) FILTER (flag = 9 OR reason = 'fill')",
    "faulty": "count(*) FILTER (flag = 4 AND coalesce(reason, '') NOT IN ('spike', 'fill'))",
    "spikes": "count(*) FILTER (flag = 4 AND reason = 'spike')",
    "suspect": "count(*) FILTER (flag = 3)",
    "unjudged": "count(*) FILTER (flag = 2)",
    "estimated": "count(*) FILTER (origin = 'estimated')",
}
_PERIOD_COUNTS = ("slots", "missing", "faulty", "suspect", "unjudged")
"""The counts of `PeriodCounts`, in its order."""


def read_days(folder: Path, start: int, end: int, read: Callable[[list[Path]], _X]) -> _X:
    """Return `read` of the files of some days; it is repeated where a watch has merged or replaced files meanwhile."""
    while True:
        files = data_files(folder, start, end)
        before = [signature(file) for file in files]
        try:
            return read(files)
        except duckdb.Error as error:
            if files == data_files(folder, start, end) and before == [signature(file) for file in files]:
                raise InputError(f"cannot read {folder.name}/data: {first_line(error)}") from error


def parquet_source(engine: Any, files: Sequence[Path]) -> tuple[str, str]:
    """Return SQL for the table in Parquet files, and for its variable, empty if there is no such column."""
    source = read_parquet(files, "union_by_name = true")
    columns = {line[0] for line in engine.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()}
    return source, "coalesce(variable, '')" if "variable" in columns else "''"


@dataclass(frozen=True, eq=False)
class _CountsOfDate:
    files: object
    channel: NDArray[np.int32]
    counts: NDArray[np.integer]


class DailyCounts(Closing):
    """Counts of the rows of an output folder, whose rows are in `data/` of a `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._dates: OrderedDict[int, _CountsOfDate] = OrderedDict()
        self._channels: dict[ChannelName, int] = {}

    def close(self) -> None:
        """Close the database when no count is running."""
        with self._lock:
            if "_engine" in self.__dict__:
                self._engine.close()

    def states(self, first: int, last: int, days: int = 1) -> tuple[list[ChannelName], NDArray[np.int8]]:
        """Return the channels, and the state of each in cells of `days` days, as an index of `HEALTH`, or `NO_ROWS`.

        Dates are days since 1970; both are included.
        """
        with self._lock:
            self._read(first, last)
            names = list(self._channels)
            state = np.full((len(names), (last - first) // days + 1), NO_ROWS, np.int8)
            for cell in range(state.shape[1]):
                begin = first + cell * days
                state[:, cell] = states(self._sum(begin, min(begin + days - 1, last)))
            self._drop_oldest()
        return names, state

    def totals(self, first: int, last: int) -> tuple[list[ChannelName], dict[str, NDArray[np.int64]]]:
        """Return the channels and their `COUNTS` over some dates."""
        with self._lock:
            self._read(first, last)
            totals = self._sum(first, last)
            names = list(self._channels)
            self._drop_oldest()
        return names, totals

    def between(self, start: int, end: int) -> dict[ChannelName, PeriodCounts]:
        """Return the counts of every channel from `start` to before `end`."""

        def read(files: list[Path]) -> dict[ChannelName, PeriodCounts]:
            if not files:
                return {}
            with self._engine.cursor() as engine:
                source, variable = parquet_source(engine, files)
                lines = engine.execute(
                    f"SELECT sensor, {variable}, {', '.join(_SQL_COUNTS[name] for name in _PERIOD_COUNTS)} FROM "
                    f"{source} WHERE time >= make_timestamp({start}) AND time < make_timestamp({end}) GROUP BY ALL"
                ).fetchall()
            return {(line[0], line[1]): PeriodCounts(*line[2:]) for line in lines}

        with self._lock:
            return read_days(self._folder, start, end, read)

    def _sum(self, first: int, last: int) -> dict[str, NDArray[np.int64]]:
        table = np.zeros((len(COUNTS), len(self._channels)), np.int64)
        for date in range(first, last + 1):
            if date in self._dates:
                self._dates.move_to_end(date)
                table[:, self._dates[date].channel] += self._dates[date].counts
        return dict(zip(COUNTS, table, strict=True))

    def _read(self, first: int, last: int) -> None:
        read_days(self._folder, first * DAY, (last + 1) * DAY, lambda files: self._count(first, last, files))

    def _count(self, first: int, last: int, files: list[Path]) -> None:
        """Count the dates whose files have changed since they were counted, and drop those without files."""
        by_date: dict[int, list[Path]] = {}
        for file in files:
            span = parse_dates(file.parent)
            for date in range(max(span.start, first), min(span.stop, last + 1)):
                by_date.setdefault(date, []).append(file)
        for date in [date for date in self._dates if first <= date <= last and date not in by_date]:
            del self._dates[date]
        seen = {date: tuple((file.name, signature(file)) for file in by_date[date]) for date in by_date}
        changed = sorted(date for date in seen if date not in self._dates or self._dates[date].files != seen[date])
        for begin in range(0, len(changed), DATES_AT_ONCE):
            dates = changed[begin : begin + DATES_AT_ONCE]
            counted = self._counted(list(dict.fromkeys(file for date in dates for file in by_date[date])), dates)
            order = np.lexsort((counted["channel"], counted["date"]))
            sorted_dates = counted["date"][order]
            for date in dates:
                rows = order[slice(*np.searchsorted(sorted_dates, [date, date + 1]))]
                counts: NDArray[np.int64] = np.stack([counted[name][rows] for name in COUNTS])
                small = counts.astype(np.uint16) if counts.max(initial=0) < 1 << 16 else counts.astype(np.int32)
                self._dates[date] = _CountsOfDate(seen[date], self._shared(counted["channel"][rows]), small)

    def _shared(self, channel: NDArray[np.integer]) -> NDArray[np.int32]:
        """Return the array of channels of an earlier date where it is equal, as it is on most dates."""
        latest = next(reversed(self._dates.values()), None)
        if latest is not None and np.array_equal(latest.channel, channel):
            return latest.channel
        return channel.astype(np.int32)

    def _counted(self, files: Sequence[Path], dates: Sequence[int]) -> dict[str, Any]:
        """Count the rows of ascending dates; the files may have rows of others."""
        with self._engine.cursor() as engine:
            source, variable = parquet_source(engine, files)
            counts = ", ".join(f"{count} AS {name}" for name, count in _SQL_COUNTS.items())
            engine.execute(
                f"CREATE TEMP TABLE days AS SELECT sensor, {variable} AS variable, "
                f"time::DATE - DATE '1970-01-01' AS date, {counts} FROM {source} WHERE time >= "
                f"make_timestamp({dates[0] * DAY}) AND time < make_timestamp({(dates[-1] + 1) * DAY}) GROUP BY ALL"
            )
            for name in engine.execute("SELECT DISTINCT sensor, variable FROM days ORDER BY ALL").fetchall():
                self._channels.setdefault(name, len(self._channels))
            # Names become numbers in the engine: a Python string per channel and date would cost more than the count.
            engine.execute(
                "CREATE TEMP TABLE channels AS SELECT unnest($1::VARCHAR[]) AS sensor, unnest($2::VARCHAR[]) AS "
                "variable, unnest(range(len($1)))::INTEGER AS channel",
                [[sensor for sensor, _ in self._channels], [variable for _, variable in self._channels]],
            )
            counted: dict[str, Any] = engine.execute(
                f"SELECT channel, date, {', '.join(COUNTS)} FROM days JOIN channels USING (sensor, variable)"
            ).fetchnumpy()
        return counted

    def _drop_oldest(self) -> None:
        size = sum(entry.counts.nbytes for entry in self._dates.values())
        while size > MAX_BYTES and len(self._dates) > 1:
            _, oldest = self._dates.popitem(last=False)
            size -= oldest.counts.nbytes

    @cached_property
    def _engine(self) -> Any:
        return duckdb.connect(config={"enable_external_file_cache": False})
