"""`RowWriter` writes rows as Parquet files in a folder per date, `MonthlyWriter` in one per month.

`RowSpool` keeps rows on disk that may still change.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from sensormend.errors import StorageError
from sensormend.files import Closing, replacing, sync
from sensormend.io.sql import Spare, first_line, literal
from sensormend.readings import DAY, DTYPES, ORIGINS, REASONS, SECOND, Rows

__all__ = ["COLUMNS", "TEXTS", "MonthlyWriter", "RowSpool", "RowWriter", "named", "part_name"]

COLUMNS = {
    "sensor": "VARCHAR",
    "time": "TIMESTAMP",
    "value": "DOUBLE",
    "n": "INTEGER",
    "cleaned": "DOUBLE",
    "lower": "DOUBLE",
    "upper": "DOUBLE",
    "flag": "TINYINT",
    "reason": "VARCHAR",
    "origin": "VARCHAR",
    "variable": "VARCHAR",
    "owner_flag": "VARCHAR",
}
"""The columns of a row with their types; `variable` only where variables have names, `owner_flag` only where flags came
with the readings."""

TEXTS = ("sensor", "variable", "owner_flag")
"""The columns with texts that came with the readings; in CSV files they are made harmless."""

LISTED = 2000
"""Up to so many names are passed to the engine as a list, which it searches for every row: a third less time for a
small day than a join (3.6 against 5.6 ms), but twice as much with 20,000 names."""

MOST_ROWS = 200_000
"""Rows from which `MonthlyWriter` writes a file: 15 MB in memory. Twelve stations with eleven variables have 98,000 in
a month; as many files as days would cost a fifth of `clean` there."""

RENEWED = 200
"""Files after which the engine is created anew, in 15 ms: it keeps 5 to 8 kB per file that it wrote."""

_SPARE = Spare[tuple[Any, int]]()
"""The engine of a closed writer, with the number of its files."""


class RowWriter(Closing):
    """Appends rows to `folder/data/date=YYYY-MM-DD/`, a Parquet file per date and call.

    A file appears whole or not at all, and is named by its period: a period that is written again replaces its file.
    Incomplete files of an earlier writer are removed. `replacing` is called with a file before it is replaced;
    `unsynced` has the files since the last `sync`, each with its number of rows.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from sensormend.readings import HOUR, Rows
    >>> one, zero = np.ones(2), np.zeros(2, np.int8)
    >>> rows = Rows(("roof", "yard"), ("",), np.arange(2), zero, np.array([0, HOUR]), one, np.ones(2, np.int32),
    ...             one, one, one, zero + 1, zero, zero + 1)
    >>> with tempfile.TemporaryDirectory() as folder, RowWriter(folder) as writer:
    ...     print(writer.write(rows)[0].relative_to(folder).as_posix())
    data/date=1970-01-01/part-19700101T000000.parquet
    """

    def __init__(self, folder: str | os.PathLike[str], replacing: Callable[[Path], None] = lambda path: None) -> None:
        self.data, self._replacing = Path(folder).absolute() / "data", replacing
        self._connect()
        self.unsynced: dict[Path, int] = {}
        # Left by a writer that was killed; there is never more than one writer.
        for incomplete in self.data.glob("*=*/*.new"):
            incomplete.unlink(missing_ok=True)

    def write(self, rows: Rows, start: int | None = None) -> tuple[Path, ...]:
        """Write the rows of one period and return the files, one per date.

        The files are named by the start of the period, by default the first time in the rows.
        """
        if not len(rows):
            return ()
        columns, query = self._prepared(rows)
        name = part_name(int(rows.time.min()) if start is None else start)
        dates = rows.time // DAY
        first, last = int(dates.min()), int(dates.max())
        written = []
        for date in [first] if first == last else np.unique(dates).tolist():
            part = columns if first == last else {key: column[dates == date] for key, column in columns.items()}
            path = self.data / f"date={np.datetime64(date, 'D')}" / name
            self._replace(path, part, query)
            self.unsynced[path] = part["time"].size
            written.append(path)
        return tuple(written)

    def rewrite(self, path: Path, rows: Rows) -> None:
        """Replace the rows of an existing file; a reader sees the old rows or the new ones."""
        # Synced, since the rows that it replaces cannot be computed again.
        self._replace(path, *self._prepared(rows), synced=True)
        self.unsynced[path.absolute()] = len(rows)

    def write_file(self, path: Path, rows: Rows, metadata: Mapping[str, str]) -> None:
        """Write rows to a single file with metadata; a reader sees the old rows or the new ones."""
        self._copy(path, *self._prepared(rows), metadata=metadata)

    def sync(self) -> None:
        """Wait until everything written is on disk and survives a power cut."""
        for path in dict.fromkeys(entry for file in self.unsynced for entry in (file, file.parent)):
            if path.exists():  # old files may have been removed meanwhile
                sync(path)
        self.unsynced = {}

    def close(self) -> None:
        """Close the engine, or leave it to the next writer."""
        if self._files >= RENEWED or not _SPARE.leave((self._engine, self._files)):
            self._engine.close()

    def _connect(self) -> None:
        """Create the engine, or take that of a writer before."""
        self._names: dict[str, Sequence[str] | None] = {"sensor": None, "variable": None}
        spare = _SPARE.take()
        if spare is not None:
            self._engine, self._files = spare
            return
        # A file is one row group, which one thread writes; the other cores run the model.
        self._engine, self._files = duckdb.connect(config={"threads": 1}), 0
        # The optimiser costs a quarter of a small day (4.0 against 3.1 ms for 900 rows), and it may swap the sides of
        # the join of rows and names, and with them the order of the rows.
        self._engine.execute("PRAGMA disable_optimizer")
        self._engine.execute(f"SET VARIABLE reasons = {_enumerated(REASONS)}")
        self._engine.execute(f"SET VARIABLE origins = {_enumerated(ORIGINS, unknown='')}")

    def _renew(self) -> None:
        if self._files >= RENEWED:
            self._engine.close()
            self._connect()

    def _prepared(self, rows: Rows) -> tuple[dict[str, NDArray[Any]], str]:
        """Register the names of some rows with the engine; return their columns, and SQL that selects from these."""
        self._renew()
        columns = _make_columns(rows)
        self._register("sensor", rows.sensors)
        if "variable" in columns:
            self._register("variable", rows.variables)
        if "owner_flag" in columns:
            self._engine.execute(f"SET VARIABLE owner_flags = {_enumerated(rows.owner_flags, unknown='')}")
        return columns, self._selection(columns)

    def _register(self, kind: str, names: Sequence[str]) -> None:
        """Register names with the engine, which looks them up: no text per row is made in Python."""
        if self._names[kind] is names:
            return
        if self._names[kind] != names and len(names) <= LISTED:
            self._engine.execute(f"SET VARIABLE {kind}s = {_enumerated(names)}")
        elif self._names[kind] != names:
            self._engine.execute(
                f"CREATE OR REPLACE TEMP TABLE {kind}s AS SELECT unnest(range(len($1)))::INTEGER AS {kind}_code, "
                f"unnest($1::VARCHAR[]) AS {kind}_name",
                [list(names)],
            )
        self._names[kind] = names

    def _selection(self, present: Collection[str]) -> str:
        """Return SQL of the rows with the columns of the files; the engine reads NaN in arrays as NULL."""
        columns = {name: _CODED.get(name, "{place}").format(place=name) for name in present}
        columns["time"] = "make_timestamp(time)"
        joins = ""
        for kind in ("sensor", "variable") if "variable" in present else ("sensor",):
            if len(self._names[kind] or ()) <= LISTED:
                columns[kind] = f"getvariable('{kind}s')[{kind} + 1]"
            else:
                columns[kind] = f"{kind}_name"
                joins += f" JOIN {kind}s ON {kind} = {kind}_code"
        return f"SELECT {', '.join(f'{sql} AS {name}' for name, sql in columns.items())} FROM rows_now{joins}"

    def _replace(self, path: Path, columns: dict[str, NDArray[Any]], query: str, *, synced: bool = False) -> None:
        if path.exists():
            self._replacing(path.absolute())
        self._copy(path, columns, query, synced=synced)

    def _copy(
        self, path: Path, columns: dict[str, NDArray[Any]], query: str, *,
        synced: bool = False, metadata: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        pairs = ", ".join(f"{literal(key)}: {literal(value)}" for key, value in (metadata or {}).items())
        options = f"FORMAT parquet, USE_TMP_FILE false{f', KV_METADATA {{{pairs}}}' if pairs else ''}"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._engine.register("rows_now", columns)
            # Not named .parquet until it is complete: readers of the folder take every .parquet file in it.
            with replacing(path) as new:
                self._engine.execute(f"COPY ({query}) TO {literal(new)} ({options})")
                if synced:
                    sync(new)
            self._files += 1
        except (OSError, duckdb.Error) as error:
            raise StorageError(f"cannot write {path}: {first_line(error)}") from error
        finally:
            self._engine.unregister("rows_now")


class MonthlyWriter(RowWriter):
    """Appends rows to `folder/data/month=YYYY-MM/`, a Parquet file for as many consecutive periods as make a large one.

    A file is written when a month is over, when it has many rows, and with `sync`; it is named by its first period.

    Parameters
    ----------
    folder
        The output folder.
    start
        Files that begin then or later are removed, all with None: their periods will be written again.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from sensormend.readings import HOUR, Rows
    >>> one, zero = np.ones(2), np.zeros(2, np.int8)
    >>> rows = Rows(("roof", "yard"), ("",), np.arange(2), zero, np.array([0, HOUR]), one, np.ones(2, np.int32),
    ...             one, one, one, zero + 1, zero, zero + 1)
    >>> with tempfile.TemporaryDirectory() as folder, MonthlyWriter(folder) as writer:
    ...     print(writer.write(rows))
    ...     print(writer.flush()[0].relative_to(folder).as_posix())
    ()
    data/month=1970-01/part-19700101T000000.parquet
    """

    def __init__(self, folder: str | os.PathLike[str], start: int | None = None) -> None:
        super().__init__(folder)
        self._parts: list[Rows] = []
        self._month, self._start = 0, 0
        for file in self.data.glob("month=*/*.parquet"):
            if start is None or file.stem >= Path(part_name(start)).stem:
                file.unlink()

    def write(self, rows: Rows, start: int | None = None) -> tuple[Path, ...]:
        """Take the rows of one period, later than those before; return the files that were written, if any."""
        if not len(rows):
            return ()
        start = int(rows.time.min()) if start is None else start
        first, last = _months(np.array([rows.time.min(), rows.time.max()])).tolist()
        months = None if first == last else _months(rows.time)
        written: tuple[Path, ...] = ()
        for month in [first] if months is None else np.unique(months).tolist():
            if month != self._month:
                written += self.flush()
            if not self._parts:
                self._month, self._start = month, start
            self._parts.append(rows if months is None else rows.taken(months == month))
            if sum(map(len, self._parts)) >= MOST_ROWS:
                written += self.flush()
        return written

    def flush(self) -> tuple[Path, ...]:
        """Write what was taken; return the file, if there is one."""
        if not self._parts:
            return ()
        rows, self._parts = Rows.concatenate(self._parts), []
        path = self.data / f"month={np.datetime64(self._month, 'M')}" / part_name(self._start)
        self._copy(path, *self._prepared(rows))
        self.unsynced[path] = len(rows)
        return (path,)

    def sync(self) -> None:
        """Write what was taken, and wait until everything is on disk and survives a power cut."""
        self.flush()
        super().sync()


class RowSpool(Closing):
    """Keeps the rows of periods on disk as arrays, until all is known that changes them.

    Writing and reading them takes a tenth of the time of Parquet, and rewriting a Parquet file twice that of writing.

    Parameters
    ----------
    folder
        Where the files are, created where it is missing.
    start
        Periods that begin then or later are removed, all with None: their rows will be added again.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from sensormend.readings import HOUR, Rows
    >>> one, zero = np.ones(2), np.zeros(2, np.int8)
    >>> rows = Rows(("roof", "yard"), ("",), np.arange(2), zero, np.array([0, HOUR]), one, np.ones(2, np.int32),
    ...             one, one, one, zero + 1, zero, zero + 1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     spool = RowSpool(Path(folder))
    ...     spool.write(rows, 0)
    ...     [(start, part.taken(period).time.tolist())
    ...      for part, periods in spool.parts(("roof", "yard"), ("",)) for start, period in periods]
    [(0, [0, 3600000000])]
    """

    def __init__(self, folder: Path, start: int | None = None) -> None:
        self._folder = folder
        self._parts: list[tuple[int, Rows]] = []
        self._unsynced: list[Path] = []
        folder.mkdir(parents=True, exist_ok=True)
        for file in folder.iterdir():
            # A file ends with the last period before a checkpoint: none has periods on both sides of `start`.
            if file.suffix != ".rows" or start is None or int(file.stem) >= start:
                file.unlink()

    def write(self, rows: Rows, start: int) -> None:
        """Take the rows of the period that begins then, later than those before."""
        if not len(rows):
            return
        self._parts.append((start, rows))
        if sum(len(part) for _, part in self._parts) >= MOST_ROWS:
            self._flush()

    def sync(self) -> None:
        """Wait until everything is on disk and survives a power cut."""
        self._flush()
        for path in (*self._unsynced, self._folder):
            sync(path)
        self._unsynced = []

    def parts(self, sensors: Sequence[str], variables: Sequence[str]) -> Iterator[tuple[Rows, list[tuple[int, slice]]]]:
        """Yield the rows of consecutive periods, with the start and the place of each period in them.

        The names are those of the last period, which begin with those of all periods before it.
        """
        for path in sorted(self._folder.glob("*.rows"), key=lambda path: int(path.stem)):
            with path.open("rb") as file:
                count = int.from_bytes(file.read(8), "little")
                starts, ends = np.fromfile(file, np.int64, 2 * count).reshape(2, count).tolist()
                columns: dict[str, Any] = {name: np.fromfile(file, dtype, ends[-1]) for name, dtype in DTYPES.items()}
            yield Rows(sensors, variables, **columns), _places(starts, ends)
        if self._parts:
            starts, ends, rows = self._joined()
            yield replace(rows, sensors=sensors, variables=variables), _places(starts, ends)

    def _joined(self) -> tuple[list[int], list[int], Rows]:
        """Return the starts of the periods that are not in a file yet, where each ends, and their rows."""
        ends = np.cumsum([len(part) for _, part in self._parts]).tolist()
        return [start for start, _ in self._parts], ends, Rows.concatenate([part for _, part in self._parts])

    def _flush(self) -> None:
        if not self._parts:
            return
        starts, ends, rows = self._joined()
        self._parts = []
        path = self._folder / f"{starts[0]}.rows"
        # Not `np.savez`: its checksums take as long as all else. Not `tofile`: it says nothing where the disk is full.
        with replacing(path) as new, new.open("wb") as file:
            file.write(len(starts).to_bytes(8, "little"))
            file.write(np.array([starts, ends], dtype=np.int64).data)
            for name, dtype in DTYPES.items():
                file.write(np.ascontiguousarray(getattr(rows, name), dtype).data)
        self._unsynced.append(path)


def _months(time: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the months of some times, counted since 1970."""
    return time.astype("datetime64[us]").astype("datetime64[M]").astype(np.int64)


def _places(starts: Sequence[int], ends: Sequence[int]) -> list[tuple[int, slice]]:
    return list(zip(starts, map(slice, [0, *ends[:-1]], ends), strict=True))


def named(variables: Sequence[str]) -> bool:
    """Return whether rows have a column for the variable: not for a single unnamed one."""
    return len(variables) > 1 or any(variables)


def part_name(start: int) -> str:
    """Return the name of the file with the rows of the period that begins then.

    Examples
    --------
    >>> part_name(0)
    'part-19700101T000000.parquet'
    """
    exact = np.datetime64(start, "us")
    # To the second, or as fine as it is.
    text = str(exact if start % SECOND else exact.astype("datetime64[s]"))
    return f"part-{text.replace('-', '').replace(':', '')}.parquet"


_CODED = {kind: f"getvariable('{kind}s')[{{place}} + 1]" for kind in ("reason", "origin", "owner_flag")}
"""SQL of the columns of text that `Rows` holds as numbers."""


def _enumerated(words: Sequence[str], unknown: str | None = None) -> str:
    """Return SQL of a list of `words` of an enumerated type, which the engine writes faster than text.

    The words differ; the word `unknown` becomes NULL.
    """
    texts = [literal(word) for word in words]
    listed = ["NULL" if word == unknown else text for word, text in zip(words, texts, strict=True)]
    return f"[{', '.join(listed)}]::VARCHAR[]::ENUM({', '.join(texts)})[]"


def _make_columns(rows: Rows) -> dict[str, NDArray[Any]]:
    names = [name for name in DTYPES if name != "variable" or named(rows.variables)]
    columns = {name: np.ascontiguousarray(getattr(rows, name), DTYPES[name]) for name in COLUMNS if name in names}
    return columns if rows.owner is None else {**columns, "owner_flag": np.ascontiguousarray(rows.owner, np.int32)}
