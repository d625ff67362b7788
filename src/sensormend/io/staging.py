"""All the readings of an archive, whatever they come from, sorted on disk by the embedded engine."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import duckdb
import numpy as np

from sensormend.errors import ConfigError, InputError, SensormendError, StateError
from sensormend.files import beside
from sensormend.io.layout import Layout, recognise
from sensormend.io.loading import EMPTY, REJECTED, ROW_REASONS, STRUCTURE, WRONG_CLOCK, format_of, select, settled
from sensormend.io.sources import Found, find
from sensormend.io.sql import literal
from sensormend.io.tables import Engine, Table, decided, parquet_table, reason_of
from sensormend.io.text import csv_table, json_table, line_numbers
from sensormend.io.times import TimeFormat
from sensormend.options import Options
from sensormend.readings import DAY, Readings
from sensormend.survey import believable

__all__ = ["Progress", "Staging"]

Progress = Callable[[float], None]
"""Is told how much is done, 0 to 1; may be called from another thread."""

VERSION = 1
_FULL = tuple(os.strerror(code) for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
_Plan = tuple[Table, Layout, TimeFormat | None]
_SCHEMA = """
    CREATE TABLE raw (file INTEGER, sensor VARCHAR, variable VARCHAR, time BIGINT, value DOUBLE, latitude DOUBLE,
                      longitude DOUBLE, reason UTINYINT, line VARCHAR);
    CREATE TABLE rejected (file INTEGER, row BIGINT, reason VARCHAR, line VARCHAR);
    CREATE TABLE known (name VARCHAR, told VARCHAR);
"""


class Staging:
    """The readings of an archive in one database file.

    Parameters
    ----------
    folder
        Where the file lies, with all that has to be written down on the way; made where it is missing.
    memory
        What the engine may use; what is larger goes to the folder.

    Notes
    -----
    `load` once, then `sort` as often as the grid changes, then `read` period by period. `Staging.open` finds a sorted
    one again. Readings that came without a number are kept as NaN; a cell of a wide table with nothing in it is no
    reading. Duplicates stay, in the order in which they came: files in the order of their names, rows in theirs.
    """

    def __init__(self, folder: Path, *, memory: str = "1GB") -> None:
        self.folder = Path(folder)
        self._memory = memory
        self._engine: Engine = None
        self._sensors: tuple[str, ...] = ()
        self._variables: tuple[str, ...] = ()
        self._readings = 0
        self._rejected = 0
        self._periods = np.empty(0, dtype=np.int64)
        self._unread: dict[str, str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @classmethod
    def open(cls, folder: Path, *, memory: str = "1GB") -> Staging:
        """Open a staging that is loaded and sorted.

        Raises
        ------
        StateError
            Where there is none, or it was not finished.
        """
        staging = cls(folder, memory=memory)
        if not staging.path.is_file():
            raise StateError(f"{folder}: there are no staged readings here")
        try:
            staging._connect()
            told = dict(staging._ask("SELECT name, told FROM known"))
        except Exception as error:
            staging.close()
            raise StateError(f"{folder}: the staged readings cannot be opened: {reason_of(error)}") from None
        if told.get("version") != str(VERSION) or "sorted" not in told:
            staging.close()
            raise StateError(f"{folder}: the staged readings are not complete; start again without --resume")
        staging._recall()
        return staging

    @property
    def path(self) -> Path:
        """Return the database file."""
        return self.folder / "staging.duckdb"

    def close(self) -> None:
        """Let go of the file; `open` finds it again."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def load(
        self,
        source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        options: Options | None = None,
        progress: Progress | None = None,
        unread: dict[str, str] | None = None,
    ) -> None:
        """Read every file of a source.

        Parameters
        ----------
        source
            A file, a folder, a pattern, `-`, a `postgresql://` address, or several of these.
        options
            Which column is what, where that cannot be recognised.
        progress
            Is told how much is done.
        unread
            Where given, a file that cannot be read is left out, and noted there by its name with the reason.

        Raises
        ------
        InputError, ConfigError
            One line that names the file, and what to do.
        SensormendError
            The disk is full.
        """
        options = Options() if options is None else options
        self.close()
        self._unread = unread
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for old in (self.path, self.path.with_name(self.path.name + ".wal")):
                old.unlink(missing_ok=True)
        except OSError as error:
            raise SensormendError(f"{self.folder}: cannot stage readings here: {error.strerror}") from None
        found = find(source, self.folder / "spool")
        self._connect()
        try:
            self._load(found, options, progress or _nobody)
        except BaseException:
            # Else the engine would take whoever stages here next for another part of this one.
            self.close()
            raise

    def _load(self, found: Sequence[Found], options: Options, progress: Progress) -> None:
        self._ask(_SCHEMA)
        texts = self._fill(found, options, progress)
        self._doubt_clocks()
        self._collect_rejected(texts)
        self._name()
        if not self.readings:
            raise InputError(self._why_nothing(found))
        self._remember("version", str(VERSION))

    @property
    def sensors(self) -> tuple[str, ...]:
        """Return the names of the sensors, sorted; `Readings.sensor` counts in them."""
        return self._sensors

    @property
    def variables(self) -> tuple[str, ...]:
        """Return the names of the variables, sorted."""
        return self._variables

    @property
    def readings(self) -> int:
        """Return how many readings there are."""
        return self._readings

    @property
    def rejected(self) -> int:
        """Return how many rows, or cells of wide tables, could not be read."""
        return self._rejected

    @property
    def periods(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Return the periods that have readings, in order; after `sort`."""
        return self._periods

    @property
    def locations(self) -> list[tuple[int, int, float, float]]:
        """Return (sensor, since, latitude, longitude) wherever a sensor was, in the order of time.

        A place is kept to four decimals, some ten metres, since a receiver's last digits wander.
        """
        rows = self._ask("""
            WITH placed AS (
                SELECT sensors.code, raw.rowid AS arrival, time, round(latitude, 4) AS latitude,
                    round(longitude, 4) AS longitude
                FROM raw JOIN sensors ON raw.sensor = sensors.name
                WHERE reason IS NULL AND latitude IS NOT NULL AND longitude IS NOT NULL
            ), still AS (
                SELECT code, min(time) AS time, any_value(latitude) AS latitude, any_value(longitude) AS longitude
                FROM placed GROUP BY code HAVING min(latitude) = max(latitude) AND min(longitude) = max(longitude)
            ), moving AS (
                SELECT *, lag((latitude, longitude)) OVER (PARTITION BY code ORDER BY time, arrival) AS before
                FROM placed WHERE code NOT IN (SELECT code FROM still)
            )
            SELECT * FROM still UNION ALL
            SELECT code, time, latitude, longitude FROM moving WHERE before IS DISTINCT FROM (latitude, longitude)
            ORDER BY time, code""")
        return [(int(code), int(time), float(latitude), float(longitude)) for code, time, latitude, longitude in rows]

    def sample(self, most: int = 2_000_000, sensors: int = 50) -> Readings:
        """Return the whole courses of some sensors, evenly chosen by name: as many as fit into `most` readings."""
        counted = self._ask("""
            SELECT n FROM sensors JOIN (SELECT sensor, count(*) AS n FROM raw WHERE reason IS NULL GROUP BY sensor)
                ON sensor = name ORDER BY code""")
        counts = [row[0] for row in counted]
        chosen: list[int] = []
        total = 0
        for code in _evenly(len(counts))[: 4 * sensors]:
            if len(chosen) < sensors and (not chosen or total + counts[code] <= most):
                chosen.append(code)
                total += counts[code]
        names = ", ".join(literal(self._sensors[code]) for code in chosen)
        # One sensor alone may have more: then its beginning, without holes.
        short = f"QUALIFY row_number() OVER (ORDER BY time, raw.rowid) <= {most}" if total > most else ""
        return self._coded(f"raw.sensor IN ({names}) {short}")

    def sort(self, early: int, period: int, origin: int = 0, progress: Progress | None = None) -> None:
        """Sort the readings by period, and in each by their arrival.

        Parameters
        ----------
        early
            Microseconds before its begin that still belong to a period.
        period, origin
            Its length, and the begin of period 0.
        progress
            Is told how much is done.
        """
        if period <= 0:
            raise ValueError("a period takes time")
        first = self._ask("SELECT min(time) FROM raw WHERE reason IS NULL")[0][0]
        shift = early - origin
        # The engine's integer division cuts towards zero; what is never negative is cut downwards.
        below = (first + shift) // period
        number = f"((time + {shift - below * period}) // {period} + {below})"
        with self._told(progress or _nobody, 0.0, 1.0):
            self._ask("DROP TABLE IF EXISTS sorted")
            self._ask("DELETE FROM known WHERE name = 'sorted'")
            self._ask(f"""
                CREATE TABLE sorted AS SELECT period, sensor, variable, time, value FROM (
                    SELECT {number} AS period, raw.rowid AS arrival, sensors.code AS sensor,
                        {self._variable_code()} AS variable, time, value
                    FROM raw JOIN sensors ON raw.sensor = sensors.name WHERE reason IS NULL)
                ORDER BY period, arrival""")
        self._remember("sorted", f"{early} {period} {origin}")
        self._recall()

    def read(self, period: int, count: int = 1) -> Readings:
        """Return the readings of one period, or of several that follow each other, in the order of arrival."""
        last = period + count - 1
        return self._as_readings(
            f"SELECT sensor, variable, time, value FROM sorted WHERE period BETWEEN {period} AND {last}"
        )

    def write_rejected(self, path: Path) -> None:
        """Write what could not be read as CSV: file, row, reason, line."""
        with beside(path) as new:
            self._ask(f"""
                COPY (SELECT shown AS file, row, reason, line FROM rejected JOIN files USING (file)
                    ORDER BY files.file, row, reason)
                TO {literal(new)} (FORMAT csv, HEADER true)""")

    def _connect(self) -> None:
        config: dict[str, Any] = {
            "memory_limit": self._memory,
            "temp_directory": str(self.folder / "tmp"),
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
        }
        try:
            self._engine = duckdb.connect(str(self.path), config=config)
        except (OSError, duckdb.Error) as error:
            raise SensormendError(f"{self.folder}: cannot stage readings here: {reason_of(error)}") from None
        self._ask("SET TimeZone = 'UTC'")
        self._ask("SET preserve_insertion_order = true")
        self._ask("SET enable_progress_bar = true; SET enable_progress_bar_print = false")

    def _ask(self, sql: str, given: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        # An answer that is not fetched to its end keeps the connection busy.
        try:
            rows: list[tuple[Any, ...]] = self._engine.execute(sql, given).fetchall()
        except duckdb.Error as error:
            # A file of ours in it: the disk is full. Else it is rather the fault of what is read, and said there.
            ours = any(str(path) in str(error) for path in (self.path, self.folder / "tmp"))
            lacking = isinstance(error, (duckdb.OutOfMemoryException, duckdb.IOException))
            if not ours and (not lacking or "read_csv" in sql or "read_parquet" in sql):
                raise
            raise SensormendError(f"{self.folder}: no room to stage readings: {reason_of(error)}") from None
        return rows

    def _columns(self, sql: str) -> dict[str, Any]:
        try:
            columns: dict[str, Any] = self._engine.execute(sql).fetchnumpy()
        except (duckdb.OutOfMemoryException, duckdb.IOException) as error:
            raise SensormendError(f"{self.folder}: no room to read staged readings: {reason_of(error)}") from None
        return columns

    def _leave_out(self, file: str, error: Exception) -> None:
        """Note a file that cannot be read, or raise what is the matter."""
        said = str(error)
        if any(full in said for full in _FULL):
            raise SensormendError(f"{self.folder}: no room to stage readings: {said}") from None
        if self._unread is None:
            raise error
        self._unread[file] = " ".join((said or type(error).__name__).split())

    def _fill(self, found: Sequence[Found], options: Options, progress: Progress) -> dict[int, Table]:
        """Read all files, and return those of text."""
        sizes = [max(file.path.stat().st_size, 1) for file in found]
        plans = self._planned(found, options)
        done = 0
        for group in _together(found, sizes):
            size = sum(sizes[number] for number in group)
            with self._told(progress, done / sum(sizes), (done + size) / sum(sizes)):
                for number in (number for number in group if found[number].format == "netcdf"):
                    try:
                        self._insert_arrays(found[number], options, number)
                    except (InputError, ConfigError) as error:
                        self._leave_out(found[number].shown, error)
                self._insert_tables({number: plans[number] for number in group if number in plans})
            done += size
        cells = [len(plans[number][1].columns) if number in plans else 1 for number in range(len(found))]
        shown = np.array([file.shown for file in found], dtype=object)
        self._engine.register("named", {"file": np.arange(len(found)), "shown": shown, "cells": np.array(cells)})
        self._ask("""
            CREATE TABLE files AS SELECT named.file, shown, first_rowid, cells
            FROM named LEFT JOIN (SELECT file, min(rowid) AS first_rowid FROM raw GROUP BY file) AS first
                ON named.file = first.file""")
        self._engine.unregister("named")
        return {number: table for number, (table, _, _) in plans.items() if table.lines is not None}

    def _planned(self, found: Sequence[Found], options: Options) -> dict[int, _Plan]:
        """Look into every file before any is read, so that what cannot be read is said at once."""
        planned: dict[int, _Plan] = {}
        for number, file in enumerate(found):
            try:
                plan = self._plan(file, options) if file.format != "netcdf" else None
            except (InputError, ConfigError, duckdb.Error) as error:
                self._leave_out(file.shown, error)
                continue
            if plan is not None:
                planned[number] = plan
        return self._settled(planned)

    def _plan(self, file: Found, options: Options) -> _Plan | None:
        table = self._table(file)
        if table.empty:
            return None
        # Where the columns are named, what the others hold is of no interest.
        if not (options.variables or options.sensors or options.value):
            table = decided(self._engine, table)
        layout = recognise(table.kinds, options, table.shown)
        return table, layout, format_of(table, layout)

    def _settled(self, planned: dict[int, _Plan]) -> dict[int, _Plan]:
        try:
            formats = settled(self._engine, list(planned.values()))
        except InputError as error:
            (table, *_), *more = planned.values()
            if not more or self._unread is None:
                self._leave_out(table.shown, error)
                return {}
            # Together they contradict each other, or leave it open; each by itself may still be clear.
            return {number: plan for one in planned.items() for number, plan in self._settled(dict([one])).items()}
        return {number: (table, layout, written)
                for (number, (table, layout, _)), written in zip(planned.items(), formats, strict=True)}  # fmt: skip

    def _table(self, file: Found) -> Table:
        if file.format == "parquet":
            return parquet_table(self._engine, file.path, file.shown)
        return (json_table if file.format == "json" else csv_table)(file.path, file.shown, self.folder / "spool")

    def _insert_tables(self, plans: dict[int, _Plan], tolerant: bool = False) -> None:
        """Read some files at once; where that fails, one by one, and then not so strictly."""
        alike: list[tuple[dict[int, Table], Layout, TimeFormat | None]] = []
        for number, (table, layout, written) in plans.items():
            table = replace(table, relation=table.tolerant) if tolerant and table.tolerant else table
            before = alike[-1] if alike else None
            if before and (next(iter(before[0].values())).shape, *before[1:]) == (table.shape, layout, written):
                before[0][number] = table
            else:
                alike.append(({number: table}, layout, written))
        if not alike:
            return
        try:
            self._ask(f"INSERT INTO raw {' UNION ALL '.join(select(*group) for group in alike)}")
        except duckdb.Error as error:
            self._ask("DROP TABLE IF EXISTS reject_errors; DROP TABLE IF EXISTS reject_scans")
            (table, *_), *more = plans.values()
            if more:
                for number, plan in plans.items():
                    self._insert_tables({number: plan})
            elif table.tolerant and not tolerant:
                self._insert_tables(plans, tolerant=True)
            else:
                self._leave_out(table.shown, InputError(f"{table.shown}: cannot be read: {reason_of(error)}"))
            return
        texts = {str(table.lines): number for number, (table, *_) in plans.items() if table.lines is not None}
        if texts:
            self._collect_broken_lines(texts)

    def _collect_broken_lines(self, texts: dict[str, int]) -> None:
        """Gather the lines that the engine could not take apart."""
        if self._ask("SELECT count(*) FROM reject_errors")[0][0]:
            words = " ".join(f"WHEN {literal(known)} THEN {literal(said)}" for known, said in STRUCTURE.items())
            paths = " ".join(f"WHEN {literal(path)} THEN {number}" for path, number in texts.items())
            self._ask(f"""
                INSERT INTO rejected SELECT CASE file_path {paths} END, line,
                    any_value(CASE error_type::VARCHAR {words} ELSE lower(error_type::VARCHAR) END),
                    any_value(ltrim(csv_line, chr(10) || chr(13)))
                FROM reject_errors JOIN reject_scans USING (scan_id, file_id) GROUP BY file_path, line""")
        self._ask("DROP TABLE reject_errors; DROP TABLE reject_scans")

    def _insert_arrays(self, file: Found, options: Options, number: int) -> None:
        # Only who reads NetCDF needs what that needs.
        from sensormend.io.netcdf import locations_of, readings_of

        places = locations_of(file.path, options)
        for part in readings_of(file.path, options):
            columns = {"s": part.sensor, "q": part.variable, "t": part.time, "v": part.value}
            where = np.array([places.get(name, (np.nan, np.nan)) for name in part.sensors]).reshape(-1, 2)
            names = {
                "code": np.arange(len(part.sensors)), "name": np.array(part.sensors, dtype=object),
                "latitude": where[:, 0], "longitude": where[:, 1],
            }  # fmt: skip
            kinds = {"code": np.arange(len(part.variables)), "name": np.array(part.variables, dtype=object)}
            for name, table in (("part_readings", columns), ("part_sensors", names), ("part_variables", kinds)):
                self._engine.register(name, table)
            self._ask(f"""
                INSERT INTO raw SELECT {number}, a.name, b.name, t, CASE WHEN isfinite(v) THEN v ELSE 'NaN'::DOUBLE END,
                    nullif(latitude, 'NaN'::DOUBLE), nullif(longitude, 'NaN'::DOUBLE), NULL, NULL
                FROM part_readings JOIN part_sensors AS a ON s = a.code JOIN part_variables AS b ON q = b.code""")

    def _doubt_clocks(self) -> None:
        """Reject what came from a clock that was not set."""
        found = self._columns(f"""
            SELECT time // {DAY} AS day, count(*) AS n FROM raw WHERE reason IS NULL GROUP BY day ORDER BY day""")
        if len(found["day"]) == 0:
            return
        for day in found["day"][~believable(found["day"], found["n"], DAY)].tolist():
            self._ask(f"""
                UPDATE raw SET reason = {WRONG_CLOCK}, line = concat_ws(',', sensor, make_timestamp(time), value)
                WHERE reason IS NULL AND time // {DAY} = {day}""")

    def _collect_rejected(self, texts: dict[int, Table]) -> None:
        """Gather what was not read, with the number of its row or, in a file of text, of its line."""
        words = " ".join(f"WHEN {code} THEN {literal(said)}" for code, said in REJECTED.items())
        ask = self._ask
        ask(f"""
            CREATE TEMP TABLE bad AS
            SELECT raw.file, (raw.rowid - first_rowid) // cells AS row, CASE reason {words} END AS reason, line
            FROM raw JOIN files ON raw.file = files.file
            WHERE reason > {EMPTY} AND (reason NOT IN {ROW_REASONS} OR (raw.rowid - first_rowid) % cells = 0)""")
        for (file,) in ask("SELECT DISTINCT file FROM bad ORDER BY file"):
            rows = self._columns(f"SELECT DISTINCT row FROM bad WHERE file = {file} ORDER BY row")["row"]
            numbers = rows + 1
            if file in texts:
                # Lines that are empty, or that the engine could not take apart, are no rows to it.
                table = texts[file]
                assert table.lines is not None
                lines = [row[0] for row in ask("SELECT row FROM rejected WHERE file = ?", [file])]
                numbers = line_numbers(table.lines, table.skip, lines, rows, table.empty_lines)
            self._engine.register("numbered", {"row": rows, "number": numbers})
            ask(f"""INSERT INTO rejected SELECT file, number, reason, line
                    FROM bad JOIN numbered USING (row) WHERE file = {file}""")
            self._engine.unregister("numbered")
        ask("DROP TABLE bad")

    def _name(self) -> None:
        for table, column in (("sensors", "sensor"), ("variables", "variable")):
            self._ask(f"""
                CREATE TABLE {table} AS SELECT name, (row_number() OVER (ORDER BY name) - 1)::INTEGER AS code
                FROM (SELECT DISTINCT {column} AS name FROM raw WHERE reason IS NULL) ORDER BY name""")
        self._recall()

    def _recall(self) -> None:
        ask = self._ask
        self._sensors = tuple(row[0] for row in ask("SELECT name FROM sensors ORDER BY code"))
        self._variables = tuple(row[0] for row in ask("SELECT name FROM variables ORDER BY code"))
        self._readings = int(ask("SELECT count(*) FROM raw WHERE reason IS NULL")[0][0])
        self._rejected = int(ask("SELECT count(*) FROM rejected")[0][0])
        if ask("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'sorted'")[0][0]:
            found = self._columns("SELECT DISTINCT period FROM sorted ORDER BY period")["period"]
            self._periods = np.asarray(found, dtype=np.int64)

    def _remember(self, name: str, told: str) -> None:
        self._ask("INSERT INTO known VALUES (?, ?)", [name, told])

    def _why_nothing(self, found: Sequence[Found]) -> str:
        where = found[0].shown if len(found) == 1 else f"{found[0].shown} and {len(found) - 1} more"
        rejected = self._ask(
            "SELECT shown, row, reason FROM rejected JOIN files USING (file) ORDER BY file, row LIMIT 1"
        )
        if not rejected:
            return f"{where}: there are column names but no readings"
        first = rejected[0]
        return f"{where}: none of {self.rejected:,} rows can be read; {first[0]}, row {first[1]}: {first[2]}"

    def _variable_code(self) -> str:
        if len(self._variables) == 1:
            return "0::INTEGER"
        cases = " ".join(f"WHEN {literal(name)} THEN {code}" for code, name in enumerate(self._variables))
        return f"(CASE raw.variable {cases} END)::INTEGER"

    def _coded(self, condition: str) -> Readings:
        return self._as_readings(f"""
            SELECT sensor, variable, time, value FROM (
                SELECT raw.rowid AS arrival, sensors.code AS sensor, {self._variable_code()} AS variable, time, value
                FROM raw JOIN sensors ON raw.sensor = sensors.name WHERE reason IS NULL AND {condition})
            ORDER BY arrival""")

    def _as_readings(self, sql: str) -> Readings:
        columns = self._columns(sql)
        return Readings(
            self._sensors, self._variables, columns["sensor"], columns["variable"], columns["time"], columns["value"]
        )

    @contextmanager
    def _told(self, progress: Progress, begin: float, end: float) -> Iterator[None]:
        """Say how far the engine is, five times a second, while it works."""
        finished = threading.Event()

        def look() -> None:
            while not finished.wait(0.2):
                share = self._engine.query_progress() / 100
                if 0 <= share <= 1:
                    progress(begin + share * (end - begin))

        if progress is _nobody:
            yield
            return
        watcher = threading.Thread(target=look, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            finished.set()
            watcher.join()
        progress(end)


def _together(found: Sequence[Found], sizes: Sequence[int]) -> Iterator[list[int]]:
    """Give the files in their order, small ones together: a statement costs as much as a thousand rows."""
    group: list[int] = []
    for number, file in enumerate(found):
        if group and (len(group) == 64 or sizes[number] > 1 << 24 or file.format != found[group[0]].format):
            yield group
            group = []
        group.append(number)
        if sizes[number] > 1 << 24:
            yield group
            group = []
    if group:
        yield group


def _nobody(share: float) -> None:
    """Tell nobody."""


def _evenly(count: int) -> list[int]:
    """Return all numbers below `count`, so that any first few of them lie evenly."""
    bits = max(count - 1, 1).bit_length()
    turned = (int(f"{number:0{bits}b}"[::-1], 2) for number in range(1 << bits))
    return [number for number in turned if number < count]
