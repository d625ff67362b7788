"""`DailyCounts` counts the rows of every channel and date, and caches them while the date's files do not change."""

from __future__ import annotations

import glob
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
from sensormend.io.folder import data_files, date_of
from sensormend.io.sql import literal
from sensormend.pipeline.health import COUNTS, NO_ROWS, states
from sensormend.readings import DAY

__all__ = ["ChannelName", "DailyCounts", "parquet_source", "read_days"]

DATES_AT_ONCE = 400
"""Dates read by one query: a year of 2,000 sensors takes a second, and some hundred MB meanwhile."""

MAX_BYTES = 128 << 20
"""Bytes of cached counts: twelve years of 2,000 sensors; the least recently used are dropped."""

_X = TypeVar("_X")

ChannelName = tuple[str, str]
"""A channel: its sensor and its variable."""

_SQL_COUNTS = {
    "slots": "count(*)",
    "missing": "count(*) FILTER (flag = 9)",
    "faulty": "count(*) FILTER (flag = 4 AND reason IS DISTINCT FROM 'spike')",
    "spikes": "count(*) FILTER (flag = 4 AND reason = 'spike')",
    "suspect": "count(*) FILTER (flag = 3)",
    "unjudged": "count(*) FILTER (flag = 2)",
    "estimated": "count(*) FILTER (origin = 'estimated')",
}


def read_days(folder: Path, start: int, end: int, read: Callable[[list[Path]], _X]) -> _X:
    """Return `read` of the files of some days; it is repeated where a watch has merged files meanwhile."""
    while True:
        files = data_files(folder, start, end)
        try:
            return read(files)
        except duckdb.Error as error:
            if files == data_files(folder, start, end):
                raise InputError(f"cannot read {folder.name}/data: {str(error).splitlines()[0]}") from error


def parquet_source(engine: Any, files: Sequence[Path]) -> tuple[str, str]:
    """Return SQL for the table in Parquet files, and for its variable, empty where there is no such column."""
    paths = ", ".join(literal(glob.escape(str(file))) for file in files)
    source = f"read_parquet([{paths}], hive_partitioning = false, union_by_name = true)"
    columns = {line[0] for line in engine.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()}
    return source, "coalesce(variable, '')" if "variable" in columns else "''"


@dataclass(frozen=True, eq=False)
class _CountsOfDate:
    files: object
    channel: NDArray[np.int32]
    counts: NDArray[np.integer]

    @property
    def size(self) -> int:
        return self.counts.nbytes


class DailyCounts(Closing):
    """Counts of the rows of an OUT.

    Parameters
    ----------
    folder
        The folder that contains `data/date=...`.
    """

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
        """Return the channels, and the state of each in every cell, as an index of `pipeline.health.states`.

        Parameters
        ----------
        first, last
            Dates, both included, in days since 1970.
        days
            Days of a cell.
        """
        with self._lock:
            self._read(first, last)
            names = list(self._channels)
            state = np.full((len(names), (last - first) // days + 1), NO_ROWS, np.int8)
            for cell in range(state.shape[1]):
                begin = first + cell * days
                state[:, cell] = states(self._sum(begin, min(begin + days - 1, last)))
            self._forget()
        return names, state

    def totals(self, first: int, last: int) -> tuple[list[ChannelName], dict[str, NDArray[np.int64]]]:
        """Return the channels and their `COUNTS` over some dates, both included."""
        with self._lock:
            self._read(first, last)
            totals = self._sum(first, last)
            names = list(self._channels)
            self._forget()
        return names, totals

    def _sum(self, first: int, last: int) -> dict[str, NDArray[np.int64]]:
        table = np.zeros((len(COUNTS), len(self._channels)), np.int64)
        for date in range(first, last + 1):
            if date in self._dates:
                self._dates.move_to_end(date)
                table[:, self._dates[date].channel] += self._dates[date].counts
        return dict(zip(COUNTS, table, strict=True))

    def _changed(self, first: int, last: int) -> dict[int, tuple[object, list[Path]]]:
        """Return the dates whose files have changed since they were counted."""
        files: dict[int, list[Path]] = {}
        for file in data_files(self._folder, first * DAY, (last + 1) * DAY):
            date = date_of(file.parent)
            files.setdefault(date, []).append(file)
        for date in [date for date in self._dates if first <= date <= last and date not in files]:
            del self._dates[date]
        seen = {date: tuple((file.name, signature(file)) for file in of_date) for date, of_date in files.items()}
        return {
            date: (seen[date], of_date)
            for date, of_date in files.items()
            if date not in self._dates or self._dates[date].files != seen[date]
        }

    def _read(self, first: int, last: int) -> None:
        """Count the dates whose files have changed since they were counted."""
        while changed := self._changed(first, last):
            try:
                self._count(changed)
            except duckdb.Error as error:
                # A watch may have merged files while they were read: then the list has changed.
                if changed == self._changed(first, last):
                    raise InputError(f"cannot read {self._folder.name}/data: {str(error).splitlines()[0]}") from error
            else:
                return

    def _count(self, changed: dict[int, tuple[object, list[Path]]]) -> None:
        dates = sorted(changed)
        for begin in range(0, len(dates), DATES_AT_ONCE):
            some = dates[begin : begin + DATES_AT_ONCE]
            counted = self._counted([file for date in some for file in changed[date][1]])
            order = np.lexsort((counted["channel"], counted["date"]))
            edges = np.searchsorted(counted["date"][order], [*some, some[-1] + 1])
            for place, date in enumerate(some):
                mine = order[edges[place] : edges[place + 1]]
                counts: NDArray[np.int64] = np.stack([counted[name][mine] for name in COUNTS])
                small = counts.astype(np.uint16) if counts.max(initial=0) < 1 << 16 else counts.astype(np.int32)
                self._dates[date] = _CountsOfDate(changed[date][0], self._shared(counted["channel"][mine]), small)

    def _shared(self, channel: NDArray[np.integer]) -> NDArray[np.int32]:
        """Return the array of channels of an earlier date where it is equal, as it is on most dates."""
        latest = next(reversed(self._dates.values()), None)
        same = latest is not None and np.array_equal(latest.channel, channel)
        return latest.channel if latest is not None and same else channel.astype(np.int32)

    def _counted(self, files: Sequence[Path]) -> dict[str, Any]:
        with self._engine.cursor() as engine:
            source, variable = parquet_source(engine, files)
            counts = ", ".join(f"{count} AS {name}" for name, count in _SQL_COUNTS.items())
            engine.execute(
                f"CREATE TEMP TABLE days AS SELECT sensor, {variable} AS variable, "
                f"time::DATE - DATE '1970-01-01' AS date, {counts} FROM {source} GROUP BY ALL"
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

    def _forget(self) -> None:
        size = sum(entry.size for entry in self._dates.values())
        while size > MAX_BYTES and len(self._dates) > 1:
            _, gone = self._dates.popitem(last=False)
            size -= gone.size

    @cached_property
    def _engine(self) -> Any:
        return duckdb.connect(config={"enable_external_file_cache": False})
