"""`Loader` reads the files of a source into an empty database and lists the rows that cannot be read."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from statistics import median_high
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb
import numpy as np
from numpy.typing import NDArray

from sensormend.errors import ConfigError, InputError, StorageError, ValueRangeError
from sensormend.io.key_columns import find_constants, find_key, number_sql, without
from sensormend.io.sources import InputFile, listed, stem
from sensormend.io.sql import first_line, literal
from sensormend.io.table_files import (
    Column,
    NotATableError,
    Table,
    csv_table,
    json_table,
    line_numbers,
    parquet_table,
    split_dates,
    typed_table,
    with_kinds,
)
from sensormend.io.table_layout import (
    CLOCK_UNITS,
    MISSING,
    TableLayout,
    holds_readings,
    may_be_header,
    place_columns,
    recognise,
)
from sensormend.io.time_formats import EARLIEST, LATEST, TimeFormat, ambiguous_order, time_format, typed_time
from sensormend.pipeline.options import Options
from sensormend.pipeline.times import FAR_AWAY, plausible_periods
from sensormend.readings import DAY, HOUR, MINUTE, SECOND, Readings

if TYPE_CHECKING:
    from sensormend.io.staging import Progress, Staging

__all__ = ["Loader"]

EMPTY = 1
"""A cell of a wide table with nothing in it: no reading, and nothing wrong."""

NO_SENSOR, OUT_OF_RANGE, NOT_A_NUMBER, WRONG_CLOCK = 2, 5, 6, 8

PASSED_OVER = 10
"""A reading of a sensor that the user does not admit."""

LEFT_OUT = (OUT_OF_RANGE, WRONG_CLOCK)
"""The reasons for which a row of a frame is left out with a warning: its clock was not set."""

FLAGGED = f"(reason IS NULL OR reason = {EMPTY} AND time BETWEEN {EARLIEST} AND {LATEST})"
"""SQL of the rows whose flags count: owners may flag a cell that they have emptied."""

CELLS = 1000
"""Columns of a wide frame that are read in one statement, whose time grows with the square of their number."""

REJECTED = {
    NO_SENSOR: "no sensor",
    3: "no time",
    4: "not a time",
    OUT_OF_RANGE: "a time before 1678 or after 2261",
    NOT_A_NUMBER: "not a number",
    7: "not a JSON object",
    9: "no network",
    WRONG_CLOCK: "a time a year and more from all others",
}
"""Why a row, or a cell of a wide one, is rejected."""

ROW_REASONS = (NO_SENSOR, 3, 4, OUT_OF_RANGE, 7, 9, WRONG_CLOCK)
"""The reasons that hold for the whole row of a wide table."""

STRUCTURE = {
    "TOO MANY COLUMNS": "more columns than the header",
    "MISSING COLUMNS": "fewer columns than the header",
    "UNQUOTED VALUE": "a quote that is not closed",
    "LINE SIZE OVER MAXIMUM": "a line of more than 2 MB",
    "INVALID ENCODING": "not UTF-8",
    "INVALID STATE": "quotes in the wrong place",
}
"""Why the engine rejects a line."""

# A regular expression, not IN: the engine turns IN into a join over every row, which was a third of the time of a CSV
# file; in a CASE the expression is evaluated only for the rows that no earlier branch took.
_MISSING = literal("|".join(re.escape(word) for word in MISSING))

_FULL_DISK = tuple(os.strerror(code) for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
_Answer = TypeVar("_Answer")
_TablePlan = tuple[Table, TableLayout, TimeFormat | None]
_OPTIONAL = {"variable": "VARCHAR", "latitude": "DOUBLE", "longitude": "DOUBLE", "owner_flag": "VARCHAR"}
"""The columns that many sources do not have."""


def _schema(absent: Collection[str] = (), *, networks: bool = False) -> str:
    """Return SQL that makes the tables.

    The `absent` columns are not stored: to write nothing into them took a quarter of the time of a Parquet file.
    """
    optional = {name: f"{name} {kind}" for name, kind in _OPTIONAL.items()}
    for name in absent:
        optional[name] += f" GENERATED ALWAYS AS ({_NOTHING.get(name, 'NULL')}::{_OPTIONAL[name]})"
    return f"""
        CREATE TABLE raw (file INTEGER, sensor VARCHAR, {optional["variable"]}, time BIGINT, value DOUBLE,
                          {optional["latitude"]}, {optional["longitude"]}, reason UTINYINT, line VARCHAR,
                          {optional["owner_flag"]} {", network VARCHAR" if networks else ""});
        CREATE TABLE rejected (file INTEGER, row BIGINT, reason VARCHAR, line VARCHAR)"""


_NOTHING = {"variable": "''"}
"""What an absent column has in place of NULL."""


class Loader:
    """Reads all the files of a source into an empty staging.

    Parameters
    ----------
    staging
        Open, and empty.
    options
        The user's options.
    unread
        Where given, for the files of a feed: one that cannot be read is skipped, and added there by its name with the
        reason.

    Attributes
    ----------
    notes
        Remarks for the user on how the files were read, one line each.
    layouts
        The roles of columns, a sentence for each layout among the files.
    unit
        The unit of the one unnamed variable, where the name of its column has one.
    absent
        The optional columns that no file has.

    Notes
    -----
    The tables: `files` has the files in order; `raw` has the readings in order of arrival, with a `reason` in rows
    that are not readings; `rejected` has the rows and lines to report, by file and row.
    """

    def __init__(self, staging: Staging, options: Options, unread: dict[str, str] | None) -> None:
        self._staging, self._options, self._unread = staging, options, unread
        self._spool = staging.folder / "spool"
        self._engine, self._ask, self._columns = staging.engine, staging.ask, staging.columns
        self.notes: list[str] = []
        self.layouts: list[str] = []
        self.unit = ""
        self._no_readings: dict[str, Exception] = {}
        self._stations: list[Table] = []
        self.absent: list[str] = []
        self._constant: tuple[str, ...] = ()

    def fill(self, files: Sequence[InputFile], progress: Progress | None) -> None:
        """Read the files."""
        texts = self._read(self._with_sheets(files), progress)
        self._reject_wrong_clocks()
        self._collect_rejected(texts)
        self._place_sensors()

    def fill_columns(self, columns: Mapping[str, NDArray[Any]], shown: str) -> TableLayout:
        """Read the columns of one table in memory, and return its layout; a row that is not a reading is refused."""
        self._ask(_schema())
        self._engine.register("frame", dict(columns))
        try:
            table = self._with_kinds(typed_table(self._engine, "frame", shown))
            table, layout, fmt = self._recognised_by_rows(table)
            (fmt,) = _with_day_order(self._engine, [(table, layout, fmt)])
            for first in range(0, len(layout.columns), CELLS):
                cells = slice(first, first + CELLS)
                part = replace(layout, columns=layout.columns[cells], owner_flags=layout.owner_flags[cells])
                before = self._ask("SELECT count(*) FROM raw")[0][0]
                self._ask(f"INSERT INTO raw {_select({0: table}, part, fmt)}")
                self._refuse_rows(table, part, fmt, before)
        except duckdb.Error as error:
            raise InputError(f"{shown} cannot be read: {first_line(error)}") from None
        finally:
            self._engine.unregister("frame")
        self._add_file(shown)
        self.unit = layout.unit
        return layout

    def fill_array(self, array: Any, shown: str) -> None:
        """Read an `xarray.DataArray` of time and station."""
        from sensormend.io.netcdf import read_readings

        self._ask(_schema())
        for part in read_readings(array, self._options):
            self._insert_readings(part, {}, 0)
        self._add_file(shown)

    def _add_file(self, shown: str) -> None:
        """Finish a source that is not a file: nothing of it is rejected but what has a wrong clock."""
        self._reject_wrong_clocks()
        self._ask("CREATE TABLE files AS SELECT 0 AS file, ? AS shown, 0 AS first_rowid, 1 AS cells", [shown])

    def _refuse_rows(self, table: Table, layout: TableLayout, fmt: TimeFormat | None, before: int) -> None:
        """Raise an error for the first row after `before` that is rejected for another reason than its clock."""
        bad = self._ask(f"""
            SELECT rowid - {before}, reason FROM raw
            WHERE rowid >= {before} AND reason > {EMPTY} AND reason NOT IN {LEFT_OUT} ORDER BY rowid LIMIT 1""")
        if not bad:
            return
        (number, reason), width = bad[0], len(layout.columns)
        row, column = divmod(int(number), width)
        names, sql, why = {
            NO_SENSOR: (layout.sensor, "NULL", "which is not a name of a sensor"),
            NOT_A_NUMBER: (layout.columns[column], table.column(layout.columns[column]).sql, "which is not a number"),
        }.get(
            reason, (layout.time_names, _time_text(table, layout, _time_column(table, layout)), "which is not a time")
        )
        ((cell,),) = self._ask(f"SELECT {sql} FROM {table.relation} LIMIT 1 OFFSET {row}")
        where = f"column {names!r}"
        if cell is None or str(cell) == "":
            raise InputError(f"{where} is empty in row {row}; a reading has a sensor and a time")
        kind = ValueRangeError if reason == NOT_A_NUMBER else InputError
        raise kind(f"{where} has {str(cell)!r} in row {row}, {why}")

    def _with_sheets(self, files: Sequence[InputFile]) -> list[InputFile]:
        """Return the files, with every workbook replaced by one file per sheet."""
        tables: list[InputFile] = []
        for file in files:
            if file.format != "excel":
                tables.append(file)
                continue
            # Imported here: openpyxl is an optional dependency.
            from sensormend.io.excel import sheets

            try:
                tables += sheets(file, self._spool)
            except InputError as error:
                self._skip(file.shown, error)
        return tables

    def _read(self, files: Sequence[InputFile], progress: Progress | None) -> dict[int, Table]:
        """Read all files, and return those of text."""
        sizes = [max(file.path.stat().st_size, 1) for file in files]
        plans = self._planned(files)
        # Stations have the places of sensors, which are set later, and arrays may have all.
        if not self._stations and all(file.format != "netcdf" for file in files):
            self.absent = [name for name in _OPTIONAL if not any(_has(plan[1], name) for plan in plans.values())]
        self._ask(_schema(self.absent, networks=self._options.networks is not None))
        read, total = 0, sum(sizes)
        for group in _groups(files, sizes):
            size = sum(sizes[number] for number in group)
            with self._staging.reporting(progress, read / total, (read + size) / total):
                for number in group:
                    if files[number].format == "netcdf":
                        self._insert_arrays(files[number], number)
                self._insert_tables({number: plans[number] for number in group if number in plans})
            read += size
        cells = [len(plans[number][1].columns) if number in plans else 1 for number in range(len(files))]
        shown = np.array([file.shown for file in files], dtype=object)
        self._engine.register("named", {"file": np.arange(len(files)), "shown": shown, "cells": np.array(cells)})
        self._ask("""
            CREATE TABLE files AS SELECT named.file, shown, first_rowid, cells
            FROM named LEFT JOIN (SELECT file, min(rowid) AS first_rowid FROM raw GROUP BY file) USING (file)""")
        self._engine.unregister("named")
        return {number: table for number, (table, _, _) in plans.items() if table.lines is not None}

    def _planned(self, files: Sequence[InputFile]) -> dict[int, _TablePlan]:
        """Inspect every file before any is read, so that an unreadable one is reported at once."""
        planned: dict[int, _TablePlan] = {}
        for number, file in enumerate(files):
            try:
                plan = self._plan(file, len(files) > 1) if file.format != "netcdf" else None
            except NotATableError as error:
                if file.in_folder and self._unread is None:
                    self._no_readings[file.shown] = error
                else:
                    self._skip(file.shown, error)
            except (InputError, ConfigError, duckdb.Error) as error:
                self._skip(file.shown, error)
            else:
                if plan is not None:
                    planned[number] = plan
        if not planned and self._no_readings and not any(file.format == "netcdf" for file in files):
            (first, reason), *more = self._no_readings.items()
            raise type(reason)(str(reason) if not more else f"{reason}; {first} and {len(more)} more hold no readings")
        if self._unread is None:
            self._add_notes(files, planned)
        self.layouts = list(dict.fromkeys(layout.sentence for _, layout, _ in planned.values()))
        units = {layout.unit for _, layout, _ in planned.values()}
        self.unit = units.pop() if len(units) == 1 else ""
        return self._with_time_formats(planned)

    def _add_notes(self, files: Sequence[InputFile], planned: dict[int, _TablePlan]) -> None:
        """Note which files have no readings, whose names are sensors, and which columns are not used."""
        if self._no_readings:
            self.notes.append(f"passed over, no readings in them: {listed(map(os.path.basename, self._no_readings))}")
        options = self._options
        by_file = [] if options.sensor_from_file else [
            files[number].sensor for number, (_, layout, _) in planned.items()
            if layout.sensor is None and layout.across != "sensor"
        ]  # fmt: skip
        if by_file:
            names = listed(str(name) for name in by_file)
            self.notes.append(f"no column says the sensor, so the file's name is the sensor: {names}")
        if not (options.variables or options.sensors or options.value):
            unused = dict.fromkeys(
                column.name
                for table, layout, _ in planned.values()
                for column in table.columns
                if column.name not in (*layout.used, *self._constant) and (column.kind != "other" or column.sample)
            )
            if unused:
                self.notes.append(f"columns that are not used: {listed(unused)}")

    def _plan(self, file: InputFile, several: bool) -> _TablePlan | None:
        feed = self._unread is not None
        options, table = self._options, self._table(file)
        names = [column.name for column in table.columns]
        if table.empty:
            if feed and not may_be_header(names, options):
                raise InputError(f"{table.shown}: one line, and it names no column: {', '.join(names)[:100]}")
            return None
        if feed:
            # In a feed `variables` lists all that may arrive; a single file need not have all of them.
            options = replace(options, variables=tuple(name for name in options.variables if name in names))
        table = self._with_kinds(table)
        if not feed and several and not holds_readings(table.kinds, options):
            if place_columns(table.kinds):
                self._stations.append(table)
                return None
            if file.in_folder:
                self._no_readings[file.shown] = _no_readings_error(table, options)
                return None
        # In a table of many networks the file's name cannot stand for the sensor.
        or_file = not feed and file.sensor is not None and options.networks is None
        if not feed and not several:
            return self._recognised_by_rows(table, or_file=or_file)
        return self._recognised(table, options, or_file=or_file)

    def _with_kinds(self, table: Table) -> Table:
        # Where the user names the columns, the contents of the others do not matter.
        options = self._options
        named = options.variables or options.sensors or options.value
        return split_dates(self._engine, table if named else with_kinds(self._engine, table))

    def _recognised_by_rows(self, table: Table, *, or_file: bool = False) -> _TablePlan:
        """Return a single table with its layout; its rows tell what the names of its columns do not."""
        options, beside = self._asked_of_rows(find_key, table, self._options)
        table = without(table, beside)
        _, layout, _ = plan = self._recognised(table, options, or_file=or_file)
        constant = (
            () if options.variables else self._asked_of_rows(find_constants, table, replace(layout, beside=beside))
        )
        if constant:
            self._constant = constant
            self.notes.append(f"columns that never change for any sensor are not used: {listed(constant)}")
            table = without(table, constant)
            plan = self._recognised(table, options, or_file=or_file)
        if beside:
            names = " and ".join([layout.sensor or "the name of the file", *beside])
            self.notes.append(f"{names} together say which sensor a reading is from")
        return plan[0], replace(plan[1], beside=beside), plan[2]

    def _asked_of_rows(self, find: Callable[..., _Answer], table: Table, *known: object) -> _Answer:
        """Return what a function finds in the rows of a table; in those that can be parsed, where some cannot."""
        try:
            return find(self._engine, table, *known)
        except duckdb.Error as error:
            if not table.tolerant:
                raise InputError(f"{table.shown}: cannot be read: {first_line(error)}") from None
            return find(self._engine, replace(table, relation=table.tolerant), *known)
        finally:
            self._ask("DROP TABLE IF EXISTS reject_errors; DROP TABLE IF EXISTS reject_scans")

    def _recognised(self, table: Table, options: Options | None = None, *, or_file: bool = False) -> _TablePlan:
        """Return a table with its layout and the format of its times."""
        layout = recognise(table.kinds, options or self._options, table.shown, or_file=or_file)
        layout = _with_hhmm(table, layout)
        return table, layout, _find_time_format(table, layout)

    def _with_time_formats(self, planned: dict[int, _TablePlan]) -> dict[int, _TablePlan]:
        try:
            formats = _with_day_order(self._engine, list(planned.values()))
        except InputError as error:
            (table, *_), *more = planned.values()
            if not more or self._unread is None:
                self._skip(table.shown, error)
                return {}
            # Together the files contradict each other or leave the order open; each alone may still be clear.
            resolved: dict[int, _TablePlan] = {}
            for number, plan in planned.items():
                resolved |= self._with_time_formats({number: plan})
            return resolved
        return {number: (table, layout, fmt)
                for (number, (table, layout, _)), fmt in zip(planned.items(), formats, strict=True)}  # fmt: skip

    def _table(self, file: InputFile) -> Table:
        if file.format == "parquet":
            table = parquet_table(self._engine, file.path, file.shown)
        else:
            table = (json_table if file.format == "json" else csv_table)(file.path, file.shown, self._spool)
        return replace(table, sensor=stem(file.path) if file.sensor is None else file.sensor)

    def _insert_tables(self, plans: dict[int, _TablePlan]) -> None:
        """Read some files in one statement; where that fails, one by one, and then with the tolerant parser."""
        if not plans:
            return
        selects = [
            _select({number: table for number, (table, _, _) in group}, layout, fmt)
            for (_, layout, fmt), group in groupby(plans.items(), lambda item: (item[1][0].shape, *item[1][1:]))
        ]
        try:
            stored = f"* EXCLUDE ({', '.join(self.absent)})" if self.absent else "*"
            self._ask(f"INSERT INTO raw SELECT {stored} FROM ({' UNION ALL '.join(selects)})")
        except duckdb.Error as error:
            self._ask("DROP TABLE IF EXISTS reject_errors; DROP TABLE IF EXISTS reject_scans")
            (number, (table, layout, fmt)), *more = plans.items()
            if more:
                for number, plan in plans.items():
                    self._insert_tables({number: plan})
            elif table.tolerant:
                table = replace(table, relation=table.tolerant, tolerant=None)
                self._insert_tables({number: (table, layout, fmt)})
            else:
                self._skip(table.shown, InputError(f"{table.shown}: cannot be read: {first_line(error)}"))
            return
        texts = {str(table.lines): number for number, (table, *_) in plans.items() if table.lines is not None}
        if texts:
            self._collect_broken_lines(texts)

    def _collect_broken_lines(self, texts: dict[str, int]) -> None:
        """Copy the lines that the engine could not parse into `rejected`."""
        if self._ask("SELECT count(*) FROM reject_errors")[0][0]:
            reasons = " ".join(f"WHEN {literal(code)} THEN {literal(reason)}" for code, reason in STRUCTURE.items())
            paths = " ".join(f"WHEN {literal(path)} THEN {number}" for path, number in texts.items())
            self._ask(f"""
                INSERT INTO rejected SELECT CASE file_path {paths} END, line,
                    any_value(CASE error_type::VARCHAR {reasons} ELSE lower(error_type::VARCHAR) END),
                    any_value(ltrim(csv_line, chr(10) || chr(13)))
                FROM reject_errors JOIN reject_scans USING (scan_id, file_id) GROUP BY file_path, line""")
        self._ask("DROP TABLE reject_errors; DROP TABLE reject_scans")

    def _insert_arrays(self, file: InputFile, number: int) -> None:
        # Imported here: xarray and h5netcdf are optional dependencies.
        from sensormend.io.netcdf import read_locations, read_readings

        try:
            if self._options.networks:
                raise ConfigError(f"{file.shown}: a NetCDF has no column of networks; clean it on its own")
            locations = read_locations(file.path, self._options)
            for part in read_readings(file.path, self._options):
                self._insert_readings(part, locations, number)
        except (InputError, ConfigError) as error:
            self._skip(file.shown, error)

    def _insert_readings(self, part: Readings, locations: Mapping[str, tuple[float, float]], number: int) -> None:
        positions = np.array([locations.get(name, (np.nan, np.nan)) for name in part.sensors]).reshape(-1, 2)
        tables = {
            "part_readings": {"s": part.sensor, "q": part.variable, "t": part.time, "v": part.value},
            "part_sensors": {
                "code": np.arange(len(part.sensors)), "name": np.array(part.sensors, dtype=object),
                "latitude": positions[:, 0], "longitude": positions[:, 1],
            },
            "part_variables": {
                "code": np.arange(len(part.variables)), "name": np.array(part.variables, dtype=object),
            },
        }  # fmt: skip
        for name, table in tables.items():
            self._engine.register(name, table)
        self._ask(f"""
            INSERT INTO raw SELECT {number}, a.name, b.name, t, CASE WHEN isfinite(v) THEN v ELSE 'NaN'::DOUBLE END,
                nullif(latitude, 'NaN'::DOUBLE), nullif(longitude, 'NaN'::DOUBLE), NULL, NULL, NULL
            FROM part_readings JOIN part_sensors AS a ON s = a.code JOIN part_variables AS b ON q = b.code""")

    def _reject_wrong_clocks(self) -> None:
        """Reject the readings of clocks that were not set, network by network."""
        if not self._options.networks:
            self._reject_wrong_clocks_of("true")
            return
        networks = self._ask(f"""
            SELECT DISTINCT network FROM (
                SELECT network, day - lag(day) OVER (PARTITION BY network ORDER BY day) AS gap
                FROM (SELECT DISTINCT network, time // {DAY} AS day FROM raw WHERE reason IS NULL))
            WHERE gap * {DAY} > {FAR_AWAY} ORDER BY network""")
        for (network,) in networks:
            self._reject_wrong_clocks_of(f"network = {literal(network)}")

    def _reject_wrong_clocks_of(self, condition: str) -> None:
        days = self._columns(f"""
            SELECT time // {DAY} AS day, count(*) AS n FROM raw WHERE reason IS NULL AND {condition}
            GROUP BY day ORDER BY day""")
        if len(days["day"]) == 0:
            return
        for day in days["day"][~plausible_periods(days["day"], days["n"], DAY)].tolist():
            self._ask(f"""
                UPDATE raw SET reason = {WRONG_CLOCK}, line = concat_ws(',', sensor, make_timestamp(time), value)
                WHERE reason IS NULL AND {condition} AND time // {DAY} = {day}""")

    def _place_sensors(self) -> None:
        """Take the coordinates of sensors from tables without readings, where the readings have none.

        The column of such a table that matches most sensors is taken as the column of names.
        """
        keys = "network, sensor" if self._options.networks else "sensor"
        for table in self._stations:
            latitude, longitude = (f"TRY_CAST({table.column(name).sql} AS DOUBLE)"
                                   for name in place_columns(table.kinds) or ())  # fmt: skip
            names = [f"lower(trim(CAST({column.sql} AS VARCHAR)))" for column in table.columns]
            self._ask(f"""
                CREATE TEMP TABLE stations AS SELECT {latitude} AS lat, {longitude} AS lon,
                    {", ".join(f"{name} AS name{index}" for index, name in enumerate(names))} FROM {table.relation};
                CREATE TEMP TABLE unplaced AS SELECT min(rowid) AS first, lower(any_value(sensor)) AS name
                FROM raw WHERE reason IS NULL GROUP BY {keys} HAVING count(latitude) = 0 OR count(longitude) = 0""")
            counts = [self._ask(f"SELECT count(*) FROM unplaced WHERE name IN (SELECT name{index} FROM stations)")[0][0]
                      for index in range(len(names))]  # fmt: skip
            best = counts.index(max(counts))
            self._ask(f"""
                UPDATE raw SET latitude = lat, longitude = lon
                FROM (SELECT first, any_value(lat) AS lat, any_value(lon) AS lon
                      FROM unplaced JOIN stations ON name = name{best} GROUP BY first) AS placed
                WHERE raw.rowid = placed.first;
                DROP TABLE stations; DROP TABLE unplaced;
                DROP TABLE IF EXISTS reject_errors; DROP TABLE IF EXISTS reject_scans""")
            self.notes.append(f"{os.path.basename(table.shown)} has the places of {counts[best]:,} sensors")

    def _collect_rejected(self, texts: dict[int, Table]) -> None:
        """Fill `rejected` with the rows that were not read, numbered by row or, in a text file, by line."""
        ask = self._ask
        if not ask(f"SELECT count(*) FROM raw WHERE reason > {EMPTY}")[0][0]:
            return
        reasons = " ".join(f"WHEN {code} THEN {literal(reason)}" for code, reason in REJECTED.items())
        ask(f"""
            CREATE TEMP TABLE bad AS
            SELECT raw.file, (raw.rowid - first_rowid) // cells AS row, CASE reason {reasons} END AS reason, line
            FROM raw JOIN files ON raw.file = files.file
            WHERE reason > {EMPTY} AND (reason NOT IN {ROW_REASONS} OR (raw.rowid - first_rowid) % cells = 0)""")
        for (file,) in ask("SELECT DISTINCT file FROM bad ORDER BY file"):
            rows = self._columns(f"SELECT DISTINCT row FROM bad WHERE file = {file} ORDER BY row")["row"]
            numbers = rows + 1
            if file in texts:
                # The engine does not count empty lines, nor those that it could not parse.
                table = texts[file]
                assert table.lines is not None
                lines = [row[0] for row in ask("SELECT row FROM rejected WHERE file = ?", [file])]
                numbers = line_numbers(table.lines, table.skip, lines, rows, table.empty_lines)
            self._engine.register("numbered", {"row": rows, "number": numbers})
            ask(f"""INSERT INTO rejected SELECT file, number, reason, line
                    FROM bad JOIN numbered USING (row) WHERE file = {file}""")
            self._engine.unregister("numbered")
        ask("DROP TABLE bad")

    def _skip(self, file: str, error: Exception) -> None:
        """Add a file that cannot be read to `unread`, or raise the error where there is none."""
        message = str(error)
        if any(text in message for text in _FULL_DISK):
            raise StorageError(f"{self._staging.folder}: no space to stage readings: {message}") from None
        if self._unread is None:
            raise error
        self._unread[file] = " ".join((message or type(error).__name__).split())


def _has(layout: TableLayout, name: str) -> bool:
    """Return whether the readings of a table have one of the optional columns."""
    if name == "variable":
        return bool(layout.variable or layout.name or layout.across == "variable")
    if name == "owner_flag":
        return any(layout.owner_flags)
    return getattr(layout, name) is not None


def _no_readings_error(table: Table, options: Options) -> Exception:
    """Return the error that a table without readings would raise as the only file."""
    try:
        recognise(table.kinds, options, table.shown, or_file=True)
    except ConfigError as error:
        return error
    return ConfigError(f"{table.shown}: no column holds readings; name it with --value (value in the TOML file)")


def _groups(files: Sequence[InputFile], sizes: Sequence[int]) -> Iterator[list[int]]:
    """Yield the files in order, small ones in groups: a statement costs as much as a thousand rows."""
    group: list[int] = []
    for number, file in enumerate(files):
        if group and (len(group) == 64 or sizes[number] > 1 << 24 or file.format != files[group[0]].format):
            yield group
            group = []
        group.append(number)
        if sizes[number] > 1 << 24:
            yield group
            group = []
    if group:
        yield group


def _find_time_format(table: Table, layout: TableLayout) -> TimeFormat | None:
    """Return the format of a table's times; None where the column has a time type."""
    column = _time_column(table, layout)
    if not column.sample or column.type.startswith(("TIMESTAMP", "DATE")):
        return None if not column.is_text else TimeFormat("iso")
    fmt = time_format(column.sample) if column.is_text else typed_time(median_high(map(float, column.sample)))
    if fmt is None:
        raise InputError(
            f"{table.shown}: column {column.name!r} holds no times, but for example {column.sample[0]!r}; "
            "name the right one with --time (time in the TOML file)"
        )
    return fmt


def _with_day_order(engine: Any, tables: list[tuple[Table, TableLayout, TimeFormat | None]]) -> list[TimeFormat | None]:
    """Decide from all tables together whether day or month comes first, where the format is ambiguous."""
    ambiguous = []
    for table, layout, fmt in tables:
        if fmt is not None and fmt.name == "ambiguous":
            text = f"trim({_time_column(table, layout).sql})"
            first, second = (
                f"max(TRY_CAST(split_part({text}, {literal(fmt.mark)}, {place}) AS INTEGER)) > 12" for place in (1, 2)
            )
            above = engine.execute(f"SELECT {first}, {second} FROM {table.relation}").fetchall()[0]
            ambiguous.append((table, layout, fmt, bool(above[0]), bool(above[1])))
    if not ambiguous:
        return [fmt for _, _, fmt in tables]
    day_first, month_first = any(entry[3] for entry in ambiguous), any(entry[4] for entry in ambiguous)
    if not day_first and not month_first:
        table, layout, fmt, *_ = ambiguous[0]
        raise InputError(f"{table.shown}: {ambiguous_order(layout.time, fmt)}")
    if day_first and month_first:
        table, layout, *_ = next((entry for entry in ambiguous if entry[3] and entry[4]), ambiguous[0])
        raise InputError(
            f"{table.shown}: in column {layout.time!r} the day comes first in some times and second in others; "
            "write them as 2020-12-31 23:59"
        )
    return [fmt.with_order(day_first) if fmt is not None and fmt.name == "ambiguous" else fmt for _, _, fmt in tables]


def _time_column(table: Table, layout: TableLayout) -> Column:
    """Return the column of times, composed where the date or the time of day has columns of its own.

    The columns that `_clock_offset` adds are not part of it.
    """
    date = _date_of_parts(table, layout) or table.column(layout.time)
    if layout.clock is None:
        return date
    clock = table.column(layout.clock)
    day = f"CAST({date.sql} AS DATE)" if date.type.startswith("TIMESTAMP") else date.sql
    both = f"concat_ws(' ', CAST({day} AS VARCHAR), CAST({clock.sql} AS VARCHAR))"
    pairs = tuple(f"{day.strip()[:10]} {hour.strip()}" for day, hour in zip(date.sample, clock.sample, strict=False))
    return Column(f"{date.name} {clock.name}", both, "VARCHAR", "time", pairs)


def _with_hhmm(table: Table, layout: TableLayout) -> TableLayout:
    """Return the layout with a column of hours that reach 100 read as hours and minutes: 1330 is 13:30."""

    def unit(part: str, name: str) -> str:
        hours = [_number(text) for text in table.column(name).sample] if part == "hour" else []
        return "hour and minute" if max(hours, default=0.0) >= 100 else part

    return replace(layout, parts=tuple((unit(part, name), name) for part, name in layout.parts))


def _clock_offset(table: Table, layout: TableLayout) -> str:
    """Return SQL of the microseconds that columns of hours, minutes and seconds add to a date; NULL if out of range.

    Hour 24 is the midnight at the end of the day.
    """
    terms = []
    for unit, name in layout.parts:
        if unit not in CLOCK_UNITS:
            continue
        number = _part_number(table, name)
        if unit == "hour and minute":
            number = f"(floor({number} / 100) + {number} % 100 / 60)"
        highest, length = {"minute": (59.999, MINUTE), "second": (60, SECOND)}.get(unit, (24, HOUR))
        terms.append(f"CASE WHEN {number} BETWEEN 0 AND {highest} THEN CAST(round({number} * {length}) AS BIGINT) END")
    return " + ".join(terms)


def _date_of_parts(table: Table, layout: TableLayout) -> Column | None:
    """Return the date composed from numeric columns; None where there is no column of years."""
    parts = dict(layout.parts)
    if "year" not in parts:
        return None
    integers = {unit: _whole_number(_part_number(table, name)) for unit, name in parts.items()}
    year = integers["year"]
    # Two-digit years below 70 are of this century, as in POSIX.
    century = f"CASE WHEN {year} BETWEEN 0 AND 69 THEN 2000 WHEN {year} BETWEEN 70 AND 99 THEN 1900 ELSE 0 END"
    year = f"{year} + {century}"
    written = f"format('{{:04d}}-{{:02d}}-{{:02d}}', {year}, {integers.get('month', '1')}, {integers.get('day', '1')})"
    date = f"TRY_CAST({written} AS DATE)"
    if "day of year" in parts:
        day = integers["day of year"]
        date = f"CASE WHEN {day} BETWEEN 1 AND 366 THEN {date} + ({day} - 1) END"
    dates = [name for unit, name in layout.parts if unit not in CLOCK_UNITS]
    samples = (table.column(name).sample for name in dates)
    return Column(
        " ".join(dates), date, "DATE", "date", tuple("-".join(texts) for texts in zip(*samples, strict=False))
    )


def _part_number(table: Table, name: str) -> str:
    return f"TRY_CAST({table.column(name).sql} AS DOUBLE)"


def _whole_number(number: str) -> str:
    return f"CASE WHEN {number} = trunc({number}) THEN TRY_CAST({number} AS INTEGER) END"


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _time_text(table: Table, layout: TableLayout, time: Column) -> str:
    """Return SQL of a row's time as text, from all of its columns."""
    if not layout.parts:
        return time.sql
    names = dict.fromkeys([layout.time, *(name for _, name in layout.parts)])
    columns = [table.column(name) for name in names]
    if layout.clock:
        columns.append(table.column(layout.clock))
    return f"concat_ws(' ', {', '.join(f'CAST({column.sql} AS VARCHAR)' for column in columns)})"


def _select(tables: Mapping[int, Table], layout: TableLayout, fmt: TimeFormat | None) -> str:
    """Return SQL that selects the rows of some tables in the columns of `raw`.

    `tables`, by file number, have the same columns, since they are read in one statement.
    """
    table = next(iter(tables.values()))
    relation = " UNION ALL ".join(
        f"SELECT *, {number} AS file_number, {literal(entry.sensor)} AS file_name FROM {entry.relation}"
        for number, entry in tables.items()
    )
    time = _time_column(table, layout)
    offset = _clock_offset(table, layout)
    parts = {
        "file": "file_number",
        "written": _time_text(table, layout, time),
        "t": f"({_time_sql(time, fmt)} + {offset})" if offset else _time_sql(time, fmt),
        "s": _sensor_sql(table, layout),
        "q": _name_sql(table.column(layout.variable)) if layout.variable else literal(layout.name),
        "latitude": _place_sql(table, layout.latitude),
        "longitude": _place_sql(table, layout.longitude),
        "broken": table.broken or "false",
    }
    if layout.network:
        parts["k"] = _name_sql(table.column(layout.network))
    if table.line:
        parts["line"] = table.line
    cells = [table.column(name) for name in layout.columns]
    as_text = any(cell.is_text for cell in cells)
    wide = layout.across != "value"
    values = [cell.sql if as_text and cell.is_text else f"CAST({cell.sql} AS {'VARCHAR' if as_text else 'DOUBLE'})"
              for cell in cells]  # fmt: skip
    owners = [_name_sql(table.column(name)) if name else "NULL" for name in layout.owner_flags]
    if wide:
        parts["cells"] = f"[{', '.join(values)}]"
        parts["names"] = f"[{', '.join(literal(name) for name in layout.columns)}]"
        parts["owners"] = f"[{', '.join(owners) or 'NULL'}]::VARCHAR[]"
    else:
        parts["x"] = values[0]
        parts["o"] = owners[0] if owners else "NULL::VARCHAR"
    inner = f"SELECT {', '.join(f'{sql} AS {name}' for name, sql in parts.items())} FROM ({relation})"
    if wide:
        name = {"sensor": "s", "variable": "q"}[layout.across]
        owner = "unnest(owners)" if owners else "NULL::VARCHAR"
        inner = f"""SELECT unnest(cells) AS x, unnest(names) AS {name}, {owner} AS o,
            * EXCLUDE ({name}, names, cells, owners) FROM ({inner})"""
    number = f"TRY_CAST({_plain_number('x', table.decimal_comma)} AS DOUBLE)" if as_text else "x"
    # An empty cell of a wide table is not a reading, however it is written: empty, NA, NaN.
    is_number, empty = (
        ("v IS NOT NULL AND NOT isnan(v)", f"({_missing_sql('x', as_text)} OR isnan(v))")
        if wide
        else ("v IS NOT NULL", "false")
    )
    in_network = " AND k <> ''" if layout.network else ""
    # The usual case comes first: the other branches are evaluated only for the remaining rows.
    reason = f"""CASE
        WHEN t BETWEEN {EARLIEST} AND {LATEST} AND {is_number} AND s <> ''{in_network} THEN NULL
        WHEN {"line IS NULL OR trim(line) = ''" if table.line else "false"} THEN {EMPTY}
        WHEN broken THEN 7
        WHEN s IS NULL OR s = '' THEN 2
        WHEN {"k IS NULL OR k = ''" if layout.network else "false"} THEN 9
        WHEN {_missing_sql("written", bool(layout.parts) or time.is_text)} THEN 3
        WHEN t IS NULL THEN 4
        WHEN t NOT BETWEEN {EARLIEST} AND {LATEST} THEN 5
        WHEN {empty} THEN {EMPTY}
        WHEN NOT {_missing_sql("x", as_text)} THEN 6
        END"""
    line = (
        "line"
        if table.line
        else "concat_ws(',', coalesce(s, ''), nullif(q, ''), coalesce(written::VARCHAR, ''), coalesce(x::VARCHAR, ''))"
    )
    return f"""
        SELECT file, s AS sensor, COALESCE(q, '') AS variable, t AS time,
            CASE WHEN isfinite(v) THEN v ELSE 'NaN'::DOUBLE END AS value, latitude, longitude, reason,
            CASE WHEN reason > {EMPTY} THEN {line} END AS line, nullif(o, '') AS owner_flag
            {", k AS network" if layout.network else ""}
        FROM (SELECT *, CAST({reason} AS UTINYINT) AS reason FROM (SELECT *, {number} AS v FROM ({inner})))"""


def _time_sql(column: Column, fmt: TimeFormat | None) -> str:
    if fmt is None:
        return f"epoch_us(CAST({column.sql} AS {'TIMESTAMPTZ' if 'ZONE' in column.type else 'TIMESTAMP'}))"
    if column.is_text:
        return fmt.sql(f"CAST({column.sql} AS VARCHAR)" if column.type != "VARCHAR" else column.sql)
    if fmt.name == "strptime":
        return fmt.sql(f"CAST(CAST({column.sql} AS BIGINT) AS VARCHAR)")
    return fmt.sql_of_number(column.sql)


def _missing_sql(sql: str, is_text: bool) -> str:
    return f"({sql} IS NULL{f' OR regexp_full_match(lower(trim({sql})), {_MISSING})' if is_text else ''})"


def _name_sql(column: Column) -> str:
    if column.type in ("FLOAT", "DOUBLE"):  # whole numbers that had gaps once: 7, not 7.0
        is_whole = f"{column.sql} = trunc({column.sql}) AND abs({column.sql}) < 1e15"
        number = f"CAST(CAST({column.sql} AS BIGINT) AS VARCHAR)"
        return f"CASE WHEN {is_whole} THEN {number} ELSE CAST({column.sql} AS VARCHAR) END"
    return f"trim(CAST({column.sql} AS VARCHAR))"


def _sensor_sql(table: Table, layout: TableLayout) -> str:
    first, *beside = [_name_sql(table.column(name)) for name in (layout.sensor, *layout.beside) if name] or [
        "file_name"
    ]
    return f"CASE WHEN {first} <> '' THEN concat_ws(' ', {first}, {', '.join(beside)}) END" if beside else first


def _place_sql(table: Table, name: str | None) -> str:
    if name is None:
        return "NULL::DOUBLE"
    column = table.column(name)
    return number_sql(column, table.decimal_comma)


def _plain_number(text: str, decimal_comma: bool) -> str:
    return f"replace({text}, ',', '.')" if decimal_comma else text
