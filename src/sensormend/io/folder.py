"""`Archive` reads an output folder, the result of `clean` or `watch`; `write_flags` adds the flags of other systems."""

from __future__ import annotations

import difflib
import gzip
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal, TypeVar

import duckdb
import numpy as np

from sensormend.errors import ConfigError, InputError, MissingError, StorageError
from sensormend.files import Closing, replacing, signature
from sensormend.io.metadata import read_faults, read_json, read_sensors
from sensormend.io.sources import listed
from sensormend.io.sql import first_line, literal, original_text, path_literal, read_parquet
from sensormend.io.writing import COLUMNS, TEXTS
from sensormend.pipeline.faults import FaultInterval, SensorSummary
from sensormend.readings import DAY, DTYPES, ORIGINS, REASONS, Flag, Rows

__all__ = [
    "ENDINGS",
    "VOCABULARIES",
    "Archive",
    "covered",
    "data_files",
    "file_metadata",
    "file_rows",
    "find_ending",
    "find_meta",
    "parse_dates",
    "parse_span",
    "write_flags",
]


_Result = TypeVar("_Result")

SPANS: dict[str, Literal["D", "M"]] = {"date": "D", "month": "M"}
"""The span of the rows in one folder: a date if `watch` wrote them, a month if `clean` did."""

ENDINGS = (".csv", ".csv.gz", ".parquet", ".nc")
"""The endings that make an output folder a single file; anything else is a folder."""


def find_ending(path: str | os.PathLike[str]) -> str | None:
    """Return the ending of a single output file, or None for a folder.

    Examples
    --------
    >>> find_ending("mended.csv.gz"), find_ending("mended")
    ('.csv.gz', None)
    """
    name = Path(path).name.lower()
    return next((ending for ending in ENDINGS if name.endswith(ending) and name != ending), None)


def find_meta(path: str | os.PathLike[str]) -> Path:
    """Return the folder with faults.csv, sensors.csv and run.json of an output folder."""
    path = Path(path)
    return path if find_ending(path) is None or path.is_dir() else path.with_name(f"{path.name}.meta")


def data_files(folder: str | os.PathLike[str], start: int | None = None, end: int | None = None) -> list[Path]:
    """Return the Parquet files of an output folder that can have rows from `start` to before `end`, in order of time.

    Files that were merged into one are left out as soon as the merged file exists, removed or not.
    """
    parts: list[tuple[int, Path]] = []
    for part in Path(folder, "data").glob("*=*"):
        try:
            dates = parse_dates(part)
        except ValueError:
            continue
        if (start is None or dates.stop * DAY > start) and (end is None or dates.start * DAY < end):
            parts.append((dates.start, part))
    selected: list[Path] = []
    for _, part in sorted(parts):
        files = sorted(part.glob("*.parquet"))
        merged = covered(files)
        selected += [file for file in files if file not in merged]
    for file in selected:
        if file.exists() and not file.is_file():
            # Who opens a pipe waits until somebody writes into it.
            raise InputError(f"{file} is not a regular file")
    return selected


def parse_dates(folder: Path) -> range:
    """Return the dates of a folder of rows, in days since 1970; a ValueError is raised for a name that has none.

    Examples
    --------
    >>> parse_dates(Path("data/date=1970-01-31")), parse_dates(Path("data/month=1970-02"))
    (range(30, 31), range(31, 59))
    """
    kind, _, text = folder.name.partition("=")
    if kind not in SPANS:
        raise ValueError(f"{folder.name} is neither a date nor a month")
    first = np.datetime64(text, SPANS[kind])
    begin, end = (int(edge.astype("datetime64[D]").astype(np.int64)) for edge in (first, first + 1))
    return range(begin, end)


def parse_span(file: Path) -> tuple[str, str]:
    """Return the first and the last period of a file, as written in its name."""
    first, _, last = file.stem.removeprefix("part-").partition("-")
    return first, last or first


def covered(files: Sequence[Path]) -> set[Path]:
    """Return those of a date's files whose rows are also in a merged file.

    Examples
    --------
    >>> names = ("part-20190101T000000", "part-20190101T120000", "part-20190101T000000-20190101T060000")
    >>> [path.stem for path in covered([Path(f"{name}.parquet") for name in names])]
    ['part-20190101T000000']
    """
    spans = {file: parse_span(file) for file in files}
    wide = {file: span for file, span in spans.items() if span[0] < span[1]}
    return {
        file
        for file, (first, last) in spans.items()
        if any(file != other and start <= first and last <= end for other, (start, end) in wide.items())
    }


@lru_cache(maxsize=1)
def _engine() -> Any:
    """Return one engine for all files: creating one takes 15 ms."""
    return duckdb.connect(config={"threads": 1})


def file_rows(path: str | os.PathLike[str]) -> Rows:
    """Return the rows of one Parquet file of an output folder, in the order of the file."""
    try:
        with _engine().cursor() as engine:
            engine.execute(f"CREATE TEMP VIEW source AS SELECT * FROM {read_parquet([path])}")
            columns = [line[0] for line in engine.execute("DESCRIBE source").fetchall()]
            return _fetch(engine, columns, order="taken.rowid")
    except duckdb.Error as error:
        raise InputError(f"cannot read {path}: {first_line(error)}") from error


def file_metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """Return the metadata of a Parquet file."""
    try:
        with _engine().cursor() as engine:
            pairs = engine.execute(f"SELECT decode(key), decode(value) FROM parquet_kv_metadata({path_literal(path)})")
            return dict(pairs.fetchall())
    except duckdb.Error as error:
        raise InputError(f"cannot read {path}: {first_line(error)}") from error


class Archive(Closing):
    """An output: the folder that `clean` or `watch` wrote, or the single file that has its `.meta` folder beside it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        self.meta = find_meta(self.path)
        if not self.path.exists():
            raise MissingError(f"no such output: {str(path)!r}; give what clean or watch wrote")
        if self.path.is_file() and (self.meta / "data").is_dir():
            self.path = self.meta  # a wide table, whose rows are in the folder beside it
        self._ending = None if self.path.is_dir() else find_ending(self.path)
        self._names: tuple[object, tuple[str, ...]] | None = None
        if self.path.is_dir() and not (self.path / "data").is_dir():
            self._refuse_too_early()
            if (self.path / "networks.csv").exists():
                raise MissingError(f"{path} holds many networks: give one of the folders that its networks.csv names")
            raise MissingError(f"{path} was not written by sensormend clean or watch: it has no folder data")
        if self.path.is_file() and (self._ending is None or not self.meta.is_dir()):
            raise MissingError(
                f"{path} was not written by sensormend clean: there is no {self.path.name}.meta beside it"
            )

    def _refuse_too_early(self) -> None:
        """Refuse an output folder without rows whose first period is not over."""
        if (self.path / "state" / "watch.json").exists():
            raise InputError(
                f"no period is final yet in {self.path.name}: the first rows come when its first period and the grace "
                "are over; what is known until then is in state/provisional.parquet"
            )

    def close(self) -> None:
        """Close the engine and its threads."""
        if "_database" in self.__dict__:
            self._database.close()

    def faults(self) -> list[FaultInterval]:
        """Return the content of faults.csv."""
        return read_faults(self.meta / "faults.csv")

    def sensors(self) -> list[SensorSummary]:
        """Return the content of sensors.csv."""
        return read_sensors(self.meta / "sensors.csv")

    def run(self) -> dict[str, Any]:
        """Return the content of run.json."""
        return read_json(self.meta / "run.json")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the sensors, sorted; read again after `watch` has rewritten them."""
        written = signature(self.meta / "sensors.csv")
        if self._names is None or self._names[0] != written:
            sensors = {entry.sensor for entry in self.sensors()} or self._sensors_of_rows()
            self._names = (written, tuple(sorted(sensors)))
        return self._names[1]

    def _sensors_of_rows(self) -> Iterable[str]:
        if self._ending == ".nc":
            return self.rows().sensors

        def query(files: list[Path] | None) -> set[str]:
            with self.table(files) as (engine, columns):
                names = engine.execute("SELECT DISTINCT sensor FROM source").fetchall() if columns else []
            return {name for (name,) in names}

        return self._retried(query)

    def check_sensor(self, sensor: str) -> str:
        """Return the name of a sensor, or raise an error that lists similar names."""
        if sensor in self.names:
            return sensor
        if not self.names:
            self._refuse_too_early()
        similar = [name for name in self.names if _plain(name) == _plain(sensor)]
        similar = similar or difflib.get_close_matches(sensor, self.names, n=3, cutoff=0.5)
        similar = similar or [name for name in self.names if sensor.casefold() in name.casefold()]
        hint = f"did you mean {' or '.join(similar[:3])}?" if similar else f"there are {listed(self.names, most=5)}"
        raise ConfigError(f"there is no sensor {sensor!r} in {self.path.name}; {hint}")

    def span(self) -> tuple[int, int] | None:
        """Return the first and the last time of all rows; None if there is none."""
        if self._ending == ".nc":
            times = self.rows().time
            return (int(times.min()), int(times.max())) if times.size else None

        def query(files: list[Path] | None) -> tuple[int, int] | None:
            with self.table([files[0], files[-1]] if files else files) as (engine, columns):
                if not columns:
                    return None
                engine.execute("SELECT epoch_us(min(time)), epoch_us(max(time)) FROM source")
                first, last = engine.fetchall()[0]
            return None if first is None else (first, last)

        return self._retried(query)

    def rows(
        self,
        sensor: str | Sequence[str] | None = None,
        start: int | None = None,
        end: int | None = None,
        variable: str | None = None,
    ) -> Rows:
        """Return rows from `start` to before `end`, sorted by time, sensor and variable; only those dates are read."""
        wanted = None if sensor is None else [sensor] if isinstance(sensor, str) else list(sensor)
        names = set(self.names) if wanted else ()
        for name in wanted or ():
            if name not in names:
                self.check_sensor(name)
        if self._ending == ".nc":
            from sensormend.io.netcdf import read_rows

            return read_rows(self.path, wanted, start, end, variable)

        def query(files: list[Path] | None) -> Rows:
            with self.table(files) as (engine, columns):
                if not columns:
                    return _make_rows({}, wanted or (), ("",) if variable is None else (variable,))
                return _fetch(engine, columns, wanted, start, end, variable)

        return self._retried(query, start, end)

    def _retried(
        self, query: Callable[[list[Path] | None], _Result], start: int | None = None, end: int | None = None
    ) -> _Result:
        """Run a query on the files of a span; None stands for the single file."""
        while True:
            files = data_files(self.path, start, end) if self._ending is None else None
            try:
                return query(files)
            except InputError:
                # `watch` may have merged files while they were read: list them again.
                if files is None or files == data_files(self.path, start, end):
                    raise

    @cached_property
    def _database(self) -> Any:
        """One engine for all queries, each with its own cursor and temporary tables: creating one takes 15 ms."""
        # The operating system caches files that are read often; a second cache would grow with every query.
        return duckdb.connect(config={"enable_external_file_cache": False})

    @contextmanager
    def table(self, files: list[Path] | None = None) -> Iterator[tuple[Any, list[str]]]:
        """Yield an engine with the rows as the table `source`, and the names of its columns; none without files."""
        if self._ending is None:
            files = data_files(self.path) if files is None else files
            source = read_parquet(files) if files else None
        elif self._ending == ".parquet":
            source = read_parquet([self.path])
        else:
            source = (
                f"read_csv({path_literal(self.path)}, header = true, delim = ',', quote = '\"', "
                f"escape = '\"', auto_detect = false, columns = {self._csv_types()})"
            )
        with self._database.cursor() as engine:
            try:
                if source is None:
                    yield engine, []
                    return
                engine.execute(f"CREATE TEMP VIEW source AS SELECT * {self._restored_names()} FROM {source}")
                columns = [line[0] for line in engine.execute("DESCRIBE source").fetchall()]
                lacking = [name for name in COLUMNS if name not in columns and name not in ("variable", "owner_flag")]
                if lacking:
                    raise InputError(f"{self.path} has no column {lacking[0]!r}: sensormend did not write it")
                yield engine, columns
            except duckdb.Error as error:
                raise InputError(f"cannot read {self.path}: {first_line(error)}") from error

    def _restored_names(self) -> str:
        """Return SQL that gives the names in a CSV file back as they were before they were made harmless."""
        if self._ending not in (".csv", ".csv.gz"):
            return ""
        names = [name for name in TEXTS if name in self._csv_columns()]
        return f"REPLACE ({', '.join(f'{original_text(name)} AS {name}' for name in names)})" if names else ""

    def _csv_columns(self) -> list[str]:
        """Return the columns of the CSV file, from its header."""
        try:
            with (gzip.open if self._ending == ".csv.gz" else open)(self.path, "rt", encoding="utf-8") as file:
                return file.readline().strip().split(",")
        except (OSError, EOFError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read {self.path}: {error}") from None

    def _csv_types(self) -> str:
        """Return the columns of the CSV file with their types."""
        names = self._csv_columns()
        unknown = [name for name in names if name not in COLUMNS]
        if unknown:
            raise InputError(f"{self.path} has a column {unknown[0]!r}: sensormend did not write it")
        return "{" + ", ".join(f"{literal(name)}: {literal(COLUMNS[name])}" for name in names) + "}"


def _fetch(
    engine: Any, present: Sequence[str], wanted: list[str] | None = None, start: int | None = None,
    end: int | None = None, variable: str | None = None, order: str = "time, sensor, variable, taken.rowid",
) -> Rows:  # fmt: skip
    clauses: dict[str, tuple[str, object]] = {
        "sensors": ("list_contains($sensors, sensor)", wanted),
        "start": ("time >= make_timestamp($start)", start),
        "end": ("time < make_timestamp($end)", end),
        "variable": ("variable = $variable" if "variable" in present else "$variable = ''", variable),
    }
    parameters = {name: value for name, (_, value) in clauses.items() if value is not None}
    where = " AND ".join(clauses[name][0] for name in parameters) or "true"
    unnamed = "" if "variable" in present else ", '' AS variable"
    engine.execute(f"CREATE TEMP TABLE taken AS SELECT *{unnamed} FROM source WHERE {where}", parameters)
    # Names become numbers in the engine: a Python string per row would cost more than everything else.
    for kind in ("sensor", "variable"):
        engine.execute(
            f"CREATE TEMP TABLE {kind}s AS SELECT {kind} AS name, (row_number() OVER (ORDER BY {kind}) - 1)::INTEGER "
            f"AS code FROM (SELECT DISTINCT {kind} FROM taken) ORDER BY code"
        )
    sensors, variables = (
        tuple(name for (name,) in engine.execute(f"SELECT name FROM {kind}s ORDER BY code").fetchall())
        for kind in ("sensor", "variable")
    )
    owner, words = "", ("",)
    if "owner_flag" in present:
        given = "SELECT DISTINCT owner_flag FROM taken WHERE owner_flag <> '' ORDER BY 1"
        words += tuple(word for (word,) in engine.execute(given).fetchall())
        owner = f", {_encode_words('owner_flag', words, 'INTEGER')} AS owner"
    columns = engine.execute(
        f"""SELECT s.code AS sensor, v.code AS variable, epoch_us(time) AS time, value, n, cleaned, lower, upper, flag,
        {_encode_words("reason", REASONS)} AS reason, {_encode_words("origin", ORIGINS)} AS origin{owner}
        FROM taken JOIN sensors s ON s.name = sensor JOIN variables v ON v.name = variable
        ORDER BY {order}"""
    ).fetchnumpy()
    rows = _make_rows(columns, sensors, variables or ("",))
    return replace(rows, owner=np.ma.getdata(columns["owner"]), owner_flags=words) if owner else rows


def _encode_words(column: str, words: Sequence[str], kind: str = "TINYINT") -> str:
    """Return SQL of the index of a column's text in `words`; 0 for none, and for a word of a later version."""
    return f"coalesce(nullif(list_position([{', '.join(map(literal, words))}], {column}), 0) - 1, 0)::{kind}"


def _make_rows(columns: dict[str, Any], sensors: Sequence[str], variables: Sequence[str]) -> Rows:
    """Return rows from masked arrays; without columns, no rows."""
    arrays: dict[str, Any] = {}
    for name, dtype in DTYPES.items():
        column = np.ma.asarray(columns.get(name, np.empty(0)), dtype)
        arrays[name] = column.filled(np.nan) if dtype.kind == "f" else column.data
    return Rows(tuple(sensors), tuple(variables), **arrays)


def _plain(name: str) -> str:
    """Return a name for comparison: lower case, without punctuation and leading zeros."""
    return re.sub(r"(?<!\d)0+(?=\d)|[\W_]+", "", name.casefold())


VOCABULARIES: Mapping[str, Mapping[Flag, float]] = {
    "qartod": {flag: flag for flag in Flag},
    # The primary level of IOC's scheme (Manuals and Guides 54, volume 3) has the codes of QARTOD.
    "ioc": {flag: flag for flag in Flag},
    # UNFLAGGED, GOOD, DOUBTFUL and BAD; a missing value is BAD, as SaQC's flagMissing has it.
    "saqc": {
        Flag.NOT_EVALUATED: -math.inf, Flag.GOOD: 0.0, Flag.SUSPECT: 25.0, Flag.FAIL: 255.0, Flag.MISSING: 255.0,
    },
    # 4 is data from before the automated checks: nothing else in this scheme says that a reading was not checked.
    "nerrs": {Flag.NOT_EVALUATED: 4, Flag.GOOD: 0, Flag.SUSPECT: 1, Flag.FAIL: -3, Flag.MISSING: -2},
}  # fmt: skip
"""The code of each flag, by the name of the vocabulary."""


def write_flags(folder: Path, vocabulary: str) -> Path:
    """Write flags.csv into an output: sensor, time, variable where there is one, and the flag in a vocabulary."""
    path, files = folder / "flags.csv", data_files(folder)
    if not files:
        raise InputError(f"there are no rows in {folder}")
    cases = " ".join(f"WHEN {int(flag)} THEN '{code:g}'" for flag, code in VOCABULARIES[vocabulary].items())
    try:
        with duckdb.connect() as engine, replacing(path) as new:
            source = read_parquet(files)
            columns = [line[0] for line in engine.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()]
            variable = ", variable" if "variable" in columns else ""
            engine.execute(
                f"COPY (SELECT sensor, time{variable}, CASE flag {cases} END AS flag FROM {source} "
                f"ORDER BY sensor{variable}, time) TO {literal(new)} "
                "(FORMAT csv, HEADER true, TIMESTAMPFORMAT '%Y-%m-%dT%H:%M:%S', USE_TMP_FILE false)"
            )
    except duckdb.Error as error:
        raise StorageError(f"cannot write {path}: {first_line(error)}") from error
    return path
