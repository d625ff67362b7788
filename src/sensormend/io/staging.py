"""`Staging` stores all readings of an archive on disk: in a DuckDB database, and sorted by period."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from sensormend.errors import ConfigError, InputError, StateError, StorageError
from sensormend.files import Closing, replacing
from sensormend.io.loading import FLAGGED, LEFT_OUT, PASSED_OVER, Loader
from sensormend.io.sources import InputFile, SourcePaths, find, ignored_files, listed
from sensormend.io.sql import Spare, first_line, harmless_text, literal
from sensormend.io.table_layout import TableLayout
from sensormend.io.time_formats import EARLIEST, LATEST
from sensormend.pipeline.options import Options, matches
from sensormend.pipeline.survey import SAMPLE_READINGS, sampled_sensors
from sensormend.readings import Readings, find_spans

__all__ = ["Progress", "Staging"]

Progress = Callable[[float], None]
"""Called with the completed share, 0 to 1, possibly from another thread."""

VERSION = 1

_SPARE = Spare[Any]()
"""The engine of a closed staging in memory."""

MOST_LAYOUTS = 20
"""Layouts of files that are recorded."""

MEMORY = "400MB"
"""The engine's limit of memory; beyond it, it writes to the folder. With 200 MB it cannot store a file of many
large texts."""

MEMORY_SORTED = "100MB"
"""The same once the readings are sorted, when little is asked of the engine."""

RUN = 500_000
"""Rows that are sorted at once, in 40 MB. Sorting the whole table in the engine, and reading periods from its result,
takes twice as long and 0.1 GB more."""

_COLUMNS = ("sensor", "variable", "time", "value")

SORTED = np.dtype(list(zip(_COLUMNS, (np.int32, np.int32, np.int64, np.float64), strict=True)))
"""A reading in the sorted runs."""

MOST_FLAGS = 1000
"""Flags of the owners; what has more different texts is a column of remarks."""


class Staging(Closing):
    """The readings of an archive in one database file.

    Parameters
    ----------
    folder
        The folder of the file and of temporary files, created where it is missing; None where there is none.
    in_memory
        Keep all in memory, as it is without a folder.

    Attributes
    ----------
    engine
        The connection, while open.
    sensors, variables
        Their names, sorted; `Readings.sensor` and `Readings.variable` are indices into them.
    readings, rejected
        The number of readings, and of rows, or cells of wide tables, that could not be read.
    has_positions
        Whether some readings have a latitude, and some a longitude.
    periods
        After `sort`: the periods that have readings, in order.

    Notes
    -----
    Call `load` once, then `sort` whenever the grid changes, then `read` period by period. `Staging.open` reopens a
    loaded one, which has to be sorted again. Readings without a number are stored as NaN; an empty cell of a wide table
    is not a reading. Duplicates are kept in order of arrival: files by name, rows in the order of the file.
    """

    def __init__(self, folder: Path | None, *, in_memory: bool = False) -> None:
        self._in_memory = in_memory or folder is None
        self.folder = Path() if folder is None else Path(folder)
        self.engine: Any = None
        self.sensors: tuple[str, ...] = ()
        self.variables: tuple[str, ...] = ()
        self.readings = self.rejected = 0
        self.has_positions = False
        self.periods = np.empty(0, dtype=np.int64)
        self._memory = MEMORY
        self._runs: _Runs | None = None
        # Pairs of a name and a text, some names several times; in the file as soon as all is loaded.
        self._properties: list[tuple[str, str]] = []

    @classmethod
    def open(cls, folder: Path) -> Staging:
        """Open a staging that is loaded.

        Raises
        ------
        StateError
            There is none, or it is incomplete.
        """
        staging = cls(folder)
        if not staging.path.is_file():
            raise StateError(f"{folder}: there are no staged readings here")
        try:
            staging._connect()
            staging._properties = staging.ask("SELECT name, text FROM properties ORDER BY rowid")
        except Exception as error:
            staging.close()
            raise StateError(f"{folder}: the staged readings cannot be opened: {first_line(error)}") from None
        if staging._texts("version") != [str(VERSION)]:
            staging.close()
            raise StateError(f"{folder}: the staged readings are not complete; start again without --resume")
        staging._refresh()
        return staging

    @property
    def path(self) -> Path:
        """Return the database file."""
        return self.folder / "staging.duckdb"

    def close(self) -> None:
        """Close the files; an engine in memory is emptied and left to the next staging."""
        self._close_runs()
        engine, self.engine = self.engine, None
        if engine is None:
            return
        if self._in_memory:
            with suppress(duckdb.Error):
                for (table,) in engine.execute("SELECT table_name FROM duckdb_tables()").fetchall():
                    engine.execute(f"DROP TABLE {table}")
                if _SPARE.leave(engine):
                    return
        engine.close()

    def _close_runs(self) -> None:
        if self._runs is not None:
            self._runs.close()
            self._runs = None

    def _connect(self) -> None:
        """Open or create the file."""
        config: dict[str, Any] = {
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
        }
        self.engine = _SPARE.take() if self._in_memory else None
        if self.engine is not None:
            self._set_effort()
            return
        if not self._in_memory:
            config |= {"memory_limit": MEMORY, "temp_directory": str(self.folder / "tmp")}
            self._memory = MEMORY
        try:
            self.engine = duckdb.connect(":memory:" if self._in_memory else str(self.path), config=config)
        except (OSError, duckdb.Error) as error:
            raise StorageError(f"{self.folder}: cannot stage readings here: {first_line(error)}") from None
        self._set_effort()
        self.ask("SET TimeZone = 'UTC'")
        self.ask("SET preserve_insertion_order = true")
        # A notebook without ipywidgets refuses it; then nothing is said of how far the reading is.
        with suppress(duckdb.InvalidInputException):
            self.ask("SET enable_progress_bar = true; SET enable_progress_bar_print = false")

    def _set_effort(self) -> None:
        """Have small files read by one thread, as their statements stand.

        To hand these to others takes a fifth of the time, to make better plans for them another.
        """
        is_small = self._in_memory and self.folder != Path()
        self.ask("SET threads = 1" if is_small else "RESET threads")
        self.ask("PRAGMA disable_optimizer" if is_small else "PRAGMA enable_optimizer")

    def _limit_memory(self, most: str) -> None:
        """Limit the engine's memory from here on."""
        if not self._in_memory and self._memory != most:
            self.ask(f"SET memory_limit = '{most}'")
            self._memory = most

    def ask(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement and return all rows of its result."""
        # A result that is not fetched to its end keeps the connection busy.
        try:
            rows: list[tuple[Any, ...]] = self.engine.execute(sql, parameters).fetchall()
        except duckdb.Error as error:
            # An error about the staging's own files means a full disk; other errors concern the input.
            if self._in_memory:
                raise
            own_file = any(str(path) in str(error) for path in (self.path, self.folder / "tmp"))
            no_space = isinstance(error, (duckdb.OutOfMemoryException, duckdb.IOException))
            if not own_file and (not no_space or "read_csv" in sql or "read_parquet" in sql):
                raise
            raise StorageError(f"{self.folder}: no space to stage readings: {first_line(error)}") from None
        return rows

    def columns(self, sql: str) -> dict[str, Any]:
        """Run a query and return its columns as arrays."""
        try:
            columns: dict[str, Any] = self.engine.execute(sql).fetchnumpy()
        except (duckdb.OutOfMemoryException, duckdb.IOException) as error:
            raise StorageError(f"{self.folder}: no space to read staged readings: {first_line(error)}") from None
        return columns

    @contextmanager
    def reporting(self, progress: Progress | None, start: float, end: float) -> Iterator[None]:
        """Report the engine's progress five times a second inside the `with` block."""
        if progress is None:
            yield
            return
        finished = threading.Event()

        def report() -> None:
            while not finished.wait(0.2):
                share = self.engine.query_progress() / 100
                if 0 <= share <= 1:
                    progress(start + share * (end - start))

        thread = threading.Thread(target=report, daemon=True)
        thread.start()
        try:
            yield
        finally:
            finished.set()
            thread.join()
        progress(end)

    def load(
        self,
        source: SourcePaths,
        options: Options | None = None,
        progress: Progress | None = None,
        unread: dict[str, str] | None = None,
    ) -> None:
        """Read every file of a source; with `unread`, a file that cannot be read is added there with the reason.

        Raises
        ------
        InputError, ConfigError
            One line that names the file, and what to do.
        StorageError
            The disk is full.
        """
        self.close()
        folder = self.folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for old in (self.path, self.path.with_name(self.path.name + ".wal")):
                old.unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(f"{folder}: cannot stage readings here: {error.strerror}") from None
        files = find(source, folder / "spool")
        ignored = [os.path.basename(name) for name in ignored_files(source)]
        self._connect()
        try:
            self._properties = []
            self.ask("CREATE TABLE properties (name VARCHAR, text VARCHAR)")
            loader = Loader(self, options or Options(), unread)
            loader.fill(files, progress)
            for note in loader.notes:
                self._set("note", note)
            for sentence in loader.layouts[:MOST_LAYOUTS]:
                self._set("layout", sentence)
            self._set("unit", loader.unit)
            self._pass_over(options or Options())
            self._number_names()
            if "owner_flag" not in loader.absent:
                self._list_owner_flags()
            if not self.readings:
                raise InputError(self._no_readings_message(files))
            self._set("version", str(VERSION))
            if ignored:
                self._set("note", f"files that are not read: {listed(ignored)}")
            if not self._in_memory:
                names, texts = zip(*self._properties, strict=True)
                self.ask("INSERT INTO properties SELECT unnest($1::VARCHAR[]), unnest($2::VARCHAR[])", [names, texts])
        except BaseException:
            # The engine would otherwise reuse this instance for the next staging in the same folder.
            self.close()
            raise

    def load_columns(self, columns: Mapping[str, NDArray[Any]], options: Options) -> TableLayout:
        """Read the columns of a frame, and return its layout; a row that is not a reading is an `InputError`."""
        with self._filling(options) as loader:
            return loader.fill_columns(columns, "the frame")

    def load_array(self, array: Any, options: Options) -> None:
        """Read an `xarray.DataArray` or `xarray.Dataset`."""
        with self._filling(options) as loader:
            loader.fill_array(array, "the array")

    @contextmanager
    def _filling(self, options: Options) -> Iterator[Loader]:
        """Yield a loader for what is in memory; its tables are complete at the end of the `with` block."""
        self._connect()
        self._properties = []
        loader = Loader(self, options, None)
        yield loader
        for note in loader.notes:
            self._set("note", note)
        self._set("unit", loader.unit)
        self._pass_over(options)
        self._number_names()
        self._list_owner_flags()
        if not self.readings:
            raise InputError("there is no reading at all")

    def _pass_over(self, options: Options) -> None:
        """Leave out the readings of sensors that are not admitted, with a note; name what admits no sensor."""
        if not options.known:
            return
        counts = self.ask("SELECT sensor, count(*) FROM raw WHERE reason IS NULL GROUP BY sensor ORDER BY sensor")
        passed = {name: count for name, count in counts if not options.admits(name)}
        if len(passed) == len(counts):
            raise ConfigError(f"no sensor is known by {listed(options.known)}; there are {listed(passed)}")
        names = [name for name, _ in counts]
        unmatched = [known for known in options.known if not any(matches(name, known) for name in names)]
        if unmatched:
            self._set("note", f"known names {listed(unmatched)}, of which there is no reading")
        if not passed:
            return
        self.engine.register("passed", {"name": np.array(list(passed), dtype=object)})
        self.ask(f"UPDATE raw SET reason = {PASSED_OVER} FROM passed WHERE reason IS NULL AND sensor = passed.name")
        self.engine.unregister("passed")
        readings = f"{sum(passed.values()):,} readings of {len(passed):,} sensors"
        self._set("note", f"passed over, since they are not known: {readings}, {listed(passed)}")

    @property
    def left_out(self) -> int:
        """Return the number of readings that are left out since their clock was not set."""
        return int(self.ask(f"SELECT count(*) FROM raw WHERE reason IN {LEFT_OUT}")[0][0])

    @property
    def notes(self) -> tuple[str, ...]:
        """Return remarks for the user on how the files were read, one line each."""
        return tuple(self._texts("note"))

    @property
    def layouts(self) -> tuple[str, ...]:
        """Return the roles of the columns, a sentence for each layout among the files."""
        return tuple(self._texts("layout"))

    @property
    def unit(self) -> str:
        """Return the unit of an unnamed variable, where the name of its column has one."""
        return "".join(self._texts("unit"))

    @property
    def owner_flags(self) -> tuple[str, ...]:
        """Return the flags that came with the readings, after an empty one; nothing where none came."""
        words = sorted(self._texts("owner flag"))
        return ("", *words) if words else ()

    def flagged(self, start: int = EARLIEST, end: int = LATEST) -> Readings:
        """Return the times from `start` to before `end` at which a flag came; the values are indices of the flags."""
        self._limit_memory(MEMORY)
        words = ", ".join(map(literal, self.owner_flags))
        columns = self.columns(f"""
            SELECT sensor, variable, time, list_position([{words}], owner_flag) - 1.0 AS value
            FROM ({self._coded(f"owner_flag IS NOT NULL AND time >= {start} AND time < {end}")})""")
        return self._named(columns)

    def _list_owner_flags(self) -> None:
        """List the owners' flags; a column of too many different texts is left out with a note."""
        words = self.ask(f"""
            SELECT DISTINCT owner_flag FROM raw
            WHERE {FLAGGED} AND owner_flag IS NOT NULL LIMIT {MOST_FLAGS + 1}""")
        if len(words) > MOST_FLAGS:
            self._set("note", f"the column of flags has more than {MOST_FLAGS:,} different texts: it is not used")
            return
        for (word,) in words:
            self._set("owner flag", word)

    @property
    def locations(self) -> list[tuple[int, int, float, float]]:
        """Return (sensor, since, latitude, longitude) for every position of a sensor, in order of time.

        Positions are rounded to four decimals, about ten metres, since the last digits of a GPS receiver vary.
        """
        if not self.has_positions:
            return []
        rows = self.ask("""
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

    def sample(self, most: int = SAMPLE_READINGS) -> Readings:
        """Return the complete series of some sensors, evenly chosen by name, as many as fit into `most` readings."""
        counts = [count for (count,) in self.ask("""
            SELECT count(*) FROM raw JOIN sensors ON sensor = name WHERE reason IS NULL
            GROUP BY code ORDER BY code""")]  # fmt: skip
        chosen = sampled_sensors(counts, most)
        total = sum(counts[code] for code in chosen)
        names = ", ".join(literal(self.sensors[code]) for code in chosen)
        # A single sensor may have more: then its first `most` readings, without gaps.
        limit = f" QUALIFY row_number() OVER (ORDER BY time, arrival) <= {most}" if total > most else ""
        return self._named(self._arrived(f"raw.sensor IN ({names}){limit}"))

    def all_readings(self) -> Readings:
        """Return all readings, in order of arrival."""
        return self._named(self._arrived("true"))

    def sort(self, early: int, period: int, origin: int = 0, progress: Progress | None = None) -> None:
        """Sort the readings by period, and in each by their arrival.

        Period 0 starts at `origin`; what comes up to `early` microseconds before the start of a period belongs to it.
        """
        if period <= 0:
            raise ValueError("a period must be longer than 0")
        self._close_runs()
        path = None if self._in_memory else self.folder / "sorted"
        self._runs = _Runs(path, early - origin, period, (len(self.sensors), len(self.variables)))
        rows = self.ask("SELECT max(rowid) + 1 FROM raw WHERE reason IS NULL")[0][0] or 0
        for first in range(0, rows, RUN):
            columns = self._arrived(f"raw.rowid >= {first} AND raw.rowid < {first + RUN}")
            try:
                self._runs.add(columns)
            except OSError as error:
                raise StorageError(f"{self.folder}: no space to stage readings: {error.strerror}") from None
            if progress is not None:
                progress(min((first + RUN) / rows, 1.0))
        self.periods = self._runs.periods()
        self._limit_memory(MEMORY_SORTED)

    def read(self, period: int, count: int = 1) -> Readings:
        """Return the readings of one period, or of `count` consecutive ones, in order of arrival."""
        assert self._runs is not None, "not sorted"
        try:
            columns = self._runs.read(period, period + count)
        except OSError as error:
            raise StorageError(f"{self.folder}: cannot read staged readings: {error.strerror}") from None
        return self._named(columns)

    def spans(
        self, rename: Callable[[Readings], Readings], renamed: Sequence[str]
    ) -> dict[tuple[str, str], tuple[int, int]]:
        """Return the times of the first and the last reading of every channel, by sensor and variable.

        `rename` gives the `renamed` sensors other names from some time on.
        """
        assert self._runs is not None, "not sorted"
        first, last = self._runs.ends
        spans = {}
        for channel in np.flatnonzero(first <= last).tolist():
            sensor, variable = divmod(channel, len(self.variables))
            spans[self.sensors[sensor], self.variables[variable]] = int(first[channel]), int(last[channel])
        if renamed:
            names = ", ".join(map(literal, renamed))
            spans |= find_spans(rename(self._named(self._arrived(f"raw.sensor IN ({names})"))))
        return spans

    def write_rejected(self, path: Path) -> None:
        """Write the rows that could not be read as CSV: file, row, reason, line."""
        self._limit_memory(MEMORY)
        with replacing(path) as new:
            self.ask(f"""
                COPY (SELECT {harmless_text("shown")} AS file, row, reason, {harmless_text("line")} AS line
                    FROM rejected JOIN files USING (file)
                    ORDER BY files.file, row, reason)
                TO {literal(new)} (FORMAT csv, HEADER true)""")

    def _number_names(self) -> None:
        for table, column in (("sensors", "sensor"), ("variables", "variable")):
            self.ask(f"""
                CREATE TABLE {table} AS SELECT name, (row_number() OVER (ORDER BY name) - 1)::INTEGER AS code
                FROM (SELECT DISTINCT {column} AS name FROM raw WHERE reason IS NULL) ORDER BY name""")
        self._refresh()

    def _refresh(self) -> None:
        """Read the attributes from the tables."""
        ask = self.ask
        self.sensors = tuple(row[0] for row in ask("SELECT name FROM sensors ORDER BY code"))
        self.variables = tuple(row[0] for row in ask("SELECT name FROM variables ORDER BY code"))
        counts = """
            SELECT count(*), count(latitude), count(longitude), (SELECT count(*) FROM rejected)
            FROM raw WHERE reason IS NULL"""
        self.readings, latitudes, longitudes, self.rejected = ask(counts)[0]
        self.has_positions = min(latitudes, longitudes) > 0

    def _set(self, name: str, text: str) -> None:
        self._properties.append((name, text))

    def _texts(self, name: str) -> list[str]:
        """Return the texts of the properties with a name."""
        return [text for own, text in self._properties if own == name]

    def _no_readings_message(self, files: Sequence[InputFile]) -> str:
        shown = files[0].shown if len(files) == 1 else f"{files[0].shown} and {len(files) - 1} more"
        rejected = self.ask(
            "SELECT shown, row, reason FROM rejected JOIN files USING (file) ORDER BY file, row LIMIT 1"
        )
        if not rejected:
            return f"{shown}: there are column names but no readings"
        first = rejected[0]
        return f"{shown}: none of {self.rejected:,} rows can be read; {first[0]}, row {first[1]}: {first[2]}"

    def _coded(self, where: str = "") -> str:
        """Return SQL of the readings, with the numbers of sensors and variables for their names.

        With `where` of those rows, in which there may be an empty cell.
        """
        cases = " ".join(f"WHEN {literal(name)} THEN {code}" for code, name in enumerate(self.variables))
        variable = f"CASE raw.variable {cases} END" if len(self.variables) > 1 else "0"
        which = f"{FLAGGED} AND {where}" if where else "reason IS NULL"
        return f"""SELECT raw.rowid AS arrival, sensors.code AS sensor, ({variable})::INTEGER AS variable, time, value,
            owner_flag FROM raw JOIN sensors ON raw.sensor = sensors.name WHERE {which}"""

    def _arrived(self, where: str) -> dict[str, NDArray[Any]]:
        """Return the columns of some readings in order of arrival."""
        columns = self.columns(f"SELECT arrival, sensor, variable, time, value FROM ({self._coded()} AND {where})")
        # Joined with the names, they come nearly in this order, of which the engine knows nothing.
        order = np.argsort(columns["arrival"], kind="stable")
        return {name: columns[name][order] for name in _COLUMNS}

    def _named(self, columns: Mapping[str, NDArray[Any]]) -> Readings:
        return Readings(self.sensors, self.variables, *(columns[name] for name in _COLUMNS))


class _Runs(Closing):
    """Readings in runs, each sorted by period: on disk, or in memory where there is no path.

    Readings are added in order of arrival, which they keep within a period. Period 0 begins `shift` microseconds before
    1970. `ends` has the times of the first and the last reading of every channel, sensor by sensor.
    """

    def __init__(self, path: Path | None, shift: int, period: int, shape: tuple[int, int]) -> None:
        self._file = None if path is None else path.open("w+b")
        self._in_memory: list[NDArray[Any]] = []
        self._shift, self._period, self._variables = shift, period, shape[1]
        self.ends = np.full(math.prod(shape), LATEST + 1), np.full(math.prod(shape), EARLIEST - 1)
        # Of each run: its place in the file, its periods, and where each of them begins, and the last one ends.
        self._places: list[tuple[int, NDArray[np.int64], NDArray[np.int64]]] = []
        self._size = 0

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, columns: Mapping[str, NDArray[Any]]) -> None:
        """Add a run."""
        number = self._find_period(columns["time"])
        if not number.size:
            return
        channel = columns["sensor"].astype(np.int64) * self._variables + columns["variable"]
        for function, end in zip((np.minimum, np.maximum), self.ends, strict=True):
            function.at(end, channel, columns["time"])
        order = _sorting(number)
        run = np.empty(order.size, SORTED)
        for name, column in columns.items():
            run[name] = column[order]
        number = number[order]
        starts = np.concatenate([[0], np.flatnonzero(np.diff(number)) + 1])
        self._places.append((self._size, number[starts], np.append(starts, order.size)))
        self._size += run.nbytes
        if self._file is None:
            self._in_memory.append(run)
        else:
            # Not `tofile`, which says nothing where the disk is full.
            self._file.write(run.view(np.uint8).data)
            self._file.flush()

    def periods(self) -> NDArray[np.int64]:
        """Return the periods that have readings, in order."""
        return np.unique(np.concatenate([np.empty(0, np.int64), *(numbers for _, numbers, _ in self._places)]))

    def read(self, first: int, end: int) -> dict[str, NDArray[Any]]:
        """Return the columns of the periods from `first` to before `end`, period by period."""
        parts = [np.empty(0, SORTED)]
        for run, (place, numbers, starts) in enumerate(self._places):
            begin, until = starts[np.searchsorted(numbers, [first, end])].tolist()
            if begin == until:
                continue
            if self._file is None:
                parts.append(self._in_memory[run][begin:until])
            else:
                self._file.seek(place + begin * SORTED.itemsize)
                parts.append(np.fromfile(self._file, SORTED, until - begin))
        joined = np.concatenate(parts)
        order = _sorting(self._find_period(joined["time"]))
        return {name: joined[name][order] for name in _COLUMNS}

    def _find_period(self, time: NDArray[np.int64]) -> NDArray[np.int64]:
        return (time + self._shift) // self._period


def _sorting(number: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return the stable order of some numbers; those of 16 bits are sorted in a fifth of the time."""
    if number.size and int(number.max()) - int(number.min()) < 2**16:
        number = (number - number.min()).astype(np.uint16)
    return np.argsort(number, kind="stable")
