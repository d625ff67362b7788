"""How every sensor was on every date: counted once from the date's files, and kept while these stay as they are."""

from __future__ import annotations

import glob
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from sensormend.errors import InputError
from sensormend.files import Closing, signature
from sensormend.io.folder import data_files, date_of
from sensormend.io.sql import literal
from sensormend.pipeline.health import COUNTS, NO_ROWS, counted_as, states
from sensormend.readings import DAY, Rows

__all__ = ["Digest", "Name", "states_by_date"]

AT_ONCE = 400
"""Dates that are read in one go: a year of 2,000 sensors takes a second, and some hundred MB for that long."""

ROOM = 128 << 20
"""Bytes of counts that are kept: twelve years of 2,000 sensors; what was not asked for longest goes."""

Name = tuple[str, str]
"""A channel: its sensor and its variable."""

_WHAT = {
    "slots": "count(*)",
    "missing": "count(*) FILTER (flag = 9)",
    "faulty": "count(*) FILTER (flag = 4 AND reason IS DISTINCT FROM 'spike')",
    "spikes": "count(*) FILTER (flag = 4 AND reason = 'spike')",
    "suspect": "count(*) FILTER (flag = 3)",
    "unjudged": "count(*) FILTER (flag = 2)",
    "estimated": "count(*) FILTER (origin = 'estimated')",
}


@dataclass(frozen=True, eq=False)
class _Date:
    files: object
    channel: NDArray[np.int32]
    counts: NDArray[np.integer]

    @property
    def size(self) -> int:
        return self.counts.nbytes


class Digest(Closing):
    """Counts of an OUT's rows.

    Parameters
    ----------
    folder
        With `data/date=...` in it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._dates: OrderedDict[int, _Date] = OrderedDict()
        self._channels: dict[Name, int] = {}

    def close(self) -> None:
        """Let go of the engine, when nobody is counting any more."""
        with self._lock:
            if "_engine" in self.__dict__:
                self._engine.close()

    def states(self, first: int, last: int, days: int = 1) -> tuple[list[Name], NDArray[np.int8]]:
        """Return the channels, and how each was in every cell of so many days, as `pipeline.health.states` has it.

        Parameters
        ----------
        first, last
            Dates, both included, in days since 1970.
        days
            How many of them are a cell.
        """
        with self._lock:
            self._read(first, last)
            names = list(self._channels)
            found = np.full((len(names), (last - first) // days + 1), NO_ROWS, np.int8)
            for cell in range(found.shape[1]):
                begin = first + cell * days
                found[:, cell] = states(self._sum(begin, min(begin + days - 1, last)))
            self._forget()
        return names, found

    def totals(self, first: int, last: int) -> tuple[list[Name], dict[str, NDArray[np.int64]]]:
        """Return the channels, and what `COUNTS` names of each, over some dates, both included."""
        with self._lock:
            self._read(first, last)
            found = self._sum(first, last)
            names = list(self._channels)
            self._forget()
        return names, found

    def _sum(self, first: int, last: int) -> dict[str, NDArray[np.int64]]:
        table = np.zeros((len(COUNTS), len(self._channels)), np.int64)
        for date in range(first, last + 1):
            if date in self._dates:
                self._dates.move_to_end(date)
                table[:, self._dates[date].channel] += self._dates[date].counts
        return dict(zip(COUNTS, table, strict=True))

    def _changed(self, first: int, last: int) -> dict[int, tuple[object, list[Path]]]:
        """Return the dates whose files are not those that were counted."""
        files: dict[int, list[Path]] = {}
        for file in data_files(self._folder, first * DAY, (last + 1) * DAY):
            date = date_of(file.parent)
            files.setdefault(date, []).append(file)
        for date in [date for date in self._dates if first <= date <= last and date not in files]:
            del self._dates[date]
        seen = {date: tuple((file.name, signature(file)) for file in found) for date, found in files.items()}
        return {
            date: (seen[date], found)
            for date, found in files.items()
            if date not in self._dates or self._dates[date].files != seen[date]
        }

    def _read(self, first: int, last: int) -> None:
        """Count the dates whose files are not those that were counted."""
        while changed := self._changed(first, last):
            try:
                self._count(changed)
            except duckdb.Error as error:
                # A watch may have made one file of several while they were read: then there are others now.
                if changed == self._changed(first, last):
                    raise InputError(f"cannot read {self._folder.name}/data: {str(error).splitlines()[0]}") from error
            else:
                return

    def _count(self, changed: dict[int, tuple[object, list[Path]]]) -> None:
        dates = sorted(changed)
        for begin in range(0, len(dates), AT_ONCE):
            some = dates[begin : begin + AT_ONCE]
            found = self._counted([file for date in some for file in changed[date][1]])
            order = np.lexsort((found["channel"], found["date"]))
            edges = np.searchsorted(found["date"][order], [*some, some[-1] + 1])
            for place, date in enumerate(some):
                mine = order[edges[place] : edges[place + 1]]
                counts: NDArray[np.int64] = np.stack([found[name][mine] for name in COUNTS])
                small = counts.astype(np.uint16) if counts.max(initial=0) < 1 << 16 else counts.astype(np.int32)
                self._dates[date] = _Date(changed[date][0], self._shared(found["channel"][mine]), small)

    def _shared(self, channel: NDArray[np.integer]) -> NDArray[np.int32]:
        """Return channels as one of the last dates has them, where it has the same: most dates do."""
        latest = next(reversed(self._dates.values()), None)
        same = latest is not None and np.array_equal(latest.channel, channel)
        return latest.channel if latest is not None and same else channel.astype(np.int32)

    def _counted(self, files: Sequence[Path]) -> dict[str, Any]:
        listed = ", ".join(literal(glob.escape(str(file))) for file in files)
        with self._engine.cursor() as engine:
            engine.execute(f"CREATE TEMP VIEW source AS SELECT * FROM read_parquet([{listed}], hive_partitioning = "
                           "false, union_by_name = true)")  # fmt: skip
            columns = {line[0] for line in engine.execute("DESCRIBE source").fetchall()}
            variable = "coalesce(variable, '')" if "variable" in columns else "''"
            counts = ", ".join(f"{count} AS {name}" for name, count in _WHAT.items())
            engine.execute(
                f"CREATE TEMP TABLE days AS SELECT sensor, {variable} AS variable, "
                f"time::DATE - DATE '1970-01-01' AS date, {counts} FROM source GROUP BY ALL"
            )
            for name in engine.execute("SELECT DISTINCT sensor, variable FROM days ORDER BY ALL").fetchall():
                self._channels.setdefault(name, len(self._channels))
            # Names become numbers in the engine: a Python string per channel and date would cost more than the count.
            engine.execute(
                "CREATE TEMP TABLE channels AS SELECT unnest($1::VARCHAR[]) AS sensor, unnest($2::VARCHAR[]) AS "
                "variable, unnest(range(len($1)))::INTEGER AS channel",
                [[sensor for sensor, _ in self._channels], [variable for _, variable in self._channels]],
            )
            found: dict[str, Any] = engine.execute(
                f"SELECT channel, date, {', '.join(COUNTS)} FROM days JOIN channels USING (sensor, variable)"
            ).fetchnumpy()
        return found

    def _forget(self) -> None:
        size = sum(entry.size for entry in self._dates.values())
        while size > ROOM and len(self._dates) > 1:
            _, gone = self._dates.popitem(last=False)
            size -= gone.size

    @cached_property
    def _engine(self) -> Any:
        return duckdb.connect(config={"enable_external_file_cache": False})


def states_by_date(rows: Rows, first: int, last: int) -> tuple[list[Name], NDArray[np.int8]]:
    """Return the same as `Digest.states` for rows that are in memory, a date in every cell."""
    dates = last - first + 1
    inside = (rows.time >= first * DAY) & (rows.time < (last + 1) * DAY)
    rows = rows.taken(inside)
    pairs, channel = np.unique(np.stack([rows.sensor, rows.variable]), axis=1, return_inverse=True)
    names = [(rows.sensors[sensor], rows.variables[variable]) for sensor, variable in pairs.T.tolist()]
    cell = channel.reshape(-1) * dates + (rows.time // DAY - first)
    counts = {
        name: np.bincount(cell[chosen], minlength=len(names) * dates).reshape(len(names), dates)
        for name, chosen in counted_as(rows).items()
    }
    return names, states(counts)
