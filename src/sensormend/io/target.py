"""`Target` is where an output is written: in a temporary folder that is exported and published when it is complete."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from sensormend.errors import ConfigError, InputError, StorageError
from sensormend.files import harmless, locked, replacing
from sensormend.io.folder import ENDINGS, Archive, data_files, find_ending
from sensormend.io.metadata import read_sensors
from sensormend.io.sql import first_line, harmless_text, literal, quoted, read_parquet
from sensormend.io.writing import COLUMNS, TEXTS
from sensormend.readings import Rows

__all__ = ["Target", "export"]

FORMATS = {
    ".csv": "FORMAT csv, HEADER true",
    ".csv.gz": "FORMAT csv, HEADER true, COMPRESSION gzip",
    ".parquet": "FORMAT parquet, COMPRESSION zstd",
}

SPARSE = 20
"""The number of cells per row, in the table of times and stations, beyond which NetCDF is refused: rows per reading,
each with its own time, leave the table nearly empty. A network that grew from one sensor to twenty is still below the
limit."""

OTHER_FILES = (
    ".txt", ".tsv", ".dat", ".json", ".jsonl", ".ndjson", ".xls", ".xlsx", ".xlsm", ".ods", ".feather",
    ".arrow", ".ipc", ".pq", ".h5", ".hdf", ".hdf5", ".mat", ".nc4", ".netcdf", ".zip", ".gz", ".bz2", ".zst",
    ".sqlite", ".db", ".duckdb", ".html", ".htm", ".pdf", ".png", ".svg", ".toml",
)  # fmt: skip
"""Endings of files that are not written; a folder with such a name would be a surprise. Other endings, as in `run.2`,
are parts of the name of a folder."""

LOCK = ".lock"

MEMORY = "1GB"
"""The memory limit for sorting; the rest goes to disk beside the file that is written. With half of it, texts of
hundreds of thousands of characters cannot be sorted."""


@dataclass(frozen=True)
class Target:
    """The place of a result: a folder, whose `ending` is empty, or a single file."""

    path: Path
    ending: str

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> Target:
        """Return the target for a path."""
        path = Path(path)
        if not path.name or path.name in (".", ".."):
            raise ConfigError(f"OUT is a folder or a file that does not exist yet, not {str(path)!r}")
        if path.suffix.lower() in OTHER_FILES and find_ending(path) is None:
            raise ConfigError(
                f"OUT cannot be a {path.suffix} file: a name that ends in {', '.join(ENDINGS)} is a file, any other a "
                f"folder; write {path.stem} or {path.stem}.csv"
            )
        outer = next((folder for folder in path.absolute().parents if (folder / "sensors.csv").exists()
                      and (folder / "run.json").exists()), None)  # fmt: skip
        if outer is not None:
            raise ConfigError(f"{path} is inside {outer}, which sensormend wrote; choose an OUT beside it")
        return cls(path, find_ending(path) or "")

    @property
    def work(self) -> Path:
        """The temporary folder in which everything is written."""
        return self.path.with_name(f"{self.path.name}.partial")

    @property
    def folder(self) -> Path:
        """The folder that the work folder becomes: OUT itself, or the `.meta` folder of a single file."""
        return self.path.with_name(f"{self.path.name}.meta") if self.ending else self.path

    @contextmanager
    def claimed(self, sources: Iterable[Path], *, overwrite: bool, resume: bool, replaces: bool) -> Iterator[None]:
        """Lock the work folder, empty or with the state of an interrupted run; refuse to replace foreign files.

        `sources` are input files, which must not be replaced; `replaces` says whether an existing one may be replaced,
        by this call or by the run that is resumed.
        """
        self._refuse_existing(overwrite=overwrite, resume=resume, replaces=replaces)
        self._refuse_to_replace(sources)
        try:
            self.work.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"cannot write to {self.work}: {error.strerror}") from error
        with locked(self.work / LOCK, f"another run is writing {self.path}: wait for it"):
            if not resume:
                self._empty()
            yield

    def _refuse_existing(self, *, overwrite: bool, resume: bool, replaces: bool) -> None:
        if overwrite and resume:
            raise ConfigError("--resume continues an interrupted run and --overwrite starts over: give one of them")
        for path in dict.fromkeys((self.path, self.folder)):
            if os.path.lexists(path) and not replaces:
                raise ConfigError(f"{str(path)!r} already exists; --overwrite replaces it")
            if path.is_dir() and not (path / "run.json").exists() and any(path.iterdir()):
                raise ConfigError(f"{path} is a folder that sensormend did not write; --overwrite does not replace it")
        if resume and not self.work.exists():
            raise ConfigError(f"there is nothing to resume: {self.work} is not there")
        if self.work.exists() and not resume and not overwrite:
            raise ConfigError(
                f"{self.work} is left from an interrupted run; --resume continues it, --overwrite starts over"
            )

    def _refuse_to_replace(self, sources: Iterable[Path]) -> None:
        replaced = {path.resolve() for path in (self.path, self.folder, self.work)}
        for file in sources:
            resolved = file.resolve()
            if not replaced.isdisjoint((resolved, *resolved.parents)):
                raise ConfigError(f"{file} is among the readings and would be replaced; choose another OUT")

    def _empty(self) -> None:
        for entry in self.work.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            elif entry.name != LOCK:
                entry.unlink()

    def give_up(self) -> None:
        """Remove the work folder."""
        shutil.rmtree(self.work, ignore_errors=True)

    def export(self, attributes: Mapping[str, Mapping[str, Any]], *, wide: bool = False) -> None:
        """Write the single file from the rows, which are then removed; beside a wide file, without flags, they stay."""
        export(self.work, self.work / f"rows{self.ending}", attributes=attributes, wide=wide)
        if not wide:
            shutil.rmtree(self.work / "data")

    def publish(self) -> None:
        """Move the result to its place; an existing output folder is removed once the new one is there."""
        replaced = [path for path in dict.fromkeys((self.path, self.folder)) if os.path.lexists(path)]
        if replaced:
            aside = Path(mkdtemp(prefix=f".{self.path.name[:100]}-", dir=self.path.parent))
            for path in replaced:
                os.replace(path, aside / path.name)
        (self.work / LOCK).unlink(missing_ok=True)
        if self.ending:
            os.replace(self.work / f"rows{self.ending}", self.path)
        os.replace(self.work, self.folder)
        if replaced:
            shutil.rmtree(aside, ignore_errors=True)


def export(
    folder: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    attributes: Mapping[str, Mapping[str, Any]] | None = None,
    wide: bool = False,
) -> Path:
    """Write the rows of an output folder to one file, by time, sensor and variable, and return its path.

    Parameters
    ----------
    folder
        The output folder, with its rows in `data/`.
    path
        The file, whose ending sets the format: `.csv`, `.csv.gz`, `.parquet` or `.nc`. It is written under a temporary
        name and renamed.
    attributes
        For NetCDF, as `make_dataset` takes them.
    wide
        Write only the cleaned values, with a column per sensor; where there are several variables, with a column per
        variable and one of sensors. Not for `.nc`.
    """
    target, ending = Path(path).absolute(), find_ending(path) or ""
    endings = FORMATS if wide else (*FORMATS, ".nc")
    if ending not in endings:
        raise ConfigError(f"the ending of {path} is none of {', '.join(endings)}")
    files = data_files(folder)
    if not files:
        raise InputError(f"there are no rows in {folder}")
    with _source(files, target) as engine:
        if ending in FORMATS:
            query = (_wide_query if wide else _rows_query)(engine, is_csv=ending != ".parquet")
            with replacing(target) as new:
                engine.execute(f"COPY ({query}) TO {literal(new)} ({FORMATS[ending]}, USE_TMP_FILE false)")
            return target
        sensors, variables, times = _axes(engine)
    from sensormend.io.netcdf import write_netcdf

    locations = {entry.sensor: (entry.latitude, entry.longitude) for entry in read_sensors(Path(folder, "sensors.csv"))}
    parts = _parts(Archive(folder), times, len(sensors) * len(variables))
    write_netcdf(
        target, parts, sensors=sensors, variables=variables, times=times, locations=locations, attributes=attributes
    )
    return target


@contextmanager
def _source(files: list[Path], target: Path) -> Iterator[Any]:
    """Open an engine with the rows of files as `source`; its errors are raised in one line with the target's name."""
    with TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as scratch:
        # Few threads, since the memory is divided among them.
        threads = min(os.cpu_count() or 1, 4)
        with duckdb.connect(config={"memory_limit": MEMORY, "temp_directory": scratch, "threads": threads}) as engine:
            try:
                rows = read_parquet(files, "file_row_number = true")
                engine.execute(f"CREATE TEMP VIEW source AS SELECT * FROM {rows}")
                yield engine
            except duckdb.Error as error:
                raise StorageError(f"cannot write {target}: {first_line(error)}") from error


def _rows_query(engine: Any, *, is_csv: bool) -> str:
    present = _columns(engine)
    # In CSV an empty text would be written as two quotation marks, NULL as an empty cell.
    expressions = {"reason": "nullif(reason, '')"} if is_csv else {}
    if is_csv:
        expressions |= {name: harmless_text(f"source.{name}") for name in TEXTS}
    columns = (f"{expressions.get(name, name)} AS {name}" for name in COLUMNS if name in present)
    keys = (f"source.{name}" for name in ("time", "sensor", "variable", "file_row_number") if name in present)
    return f"SELECT {', '.join(columns)} FROM source ORDER BY {', '.join(keys)}"


def _wide_query(engine: Any, *, is_csv: bool) -> str:
    names = _names(engine, "variable")
    across, keys = ("variable", "time, sensor") if len(names) > 1 else ("sensor", "time")
    names = names if len(names) > 1 else _names(engine, "sensor")
    # A sensor named `time` or `sensor` would collide with that column.
    titles = [f"{name}_" if name in ("time", "sensor") else harmless(name) if is_csv else name for name in names]
    columns = [f"{literal(name)} AS {quoted(title)}" for name, title in zip(names, titles, strict=True)]
    harmless_names = f" REPLACE ({harmless_text('sensor')} AS sensor)" if is_csv and across == "variable" else ""
    return (
        f"SELECT *{harmless_names} FROM (PIVOT (SELECT time, sensor, {across} AS across, cleaned FROM source) "
        f"ON across IN ({', '.join(columns)}) USING any_value(cleaned) GROUP BY {keys}) ORDER BY {keys}"
    )


def _columns(engine: Any) -> set[str]:
    return {line[0] for line in engine.execute("DESCRIBE source").fetchall()}


def _names(engine: Any, column: str) -> tuple[str, ...]:
    """Return the distinct names of a column, sorted; one empty name where there is no such column."""
    if column not in _columns(engine):
        return ("",)
    return tuple(name for (name,) in engine.execute(f"SELECT DISTINCT {column} FROM source ORDER BY 1").fetchall())


def _axes(engine: Any) -> tuple[tuple[str, ...], tuple[str, ...], NDArray[np.int64]]:
    """Return the sensors, the variables and the times of all rows."""
    sensors, variables = _names(engine, "sensor"), _names(engine, "variable")
    column = engine.execute("SELECT DISTINCT epoch_us(time) AS time FROM source ORDER BY 1").fetchnumpy()["time"]
    times = np.ma.getdata(column).astype(np.int64)
    (rows,) = engine.execute("SELECT count(*) FROM source").fetchone()
    if times.size * len(sensors) * len(variables) > SPARSE * rows:
        raise ConfigError(
            "NetCDF is a table of times and stations, and these rows would leave it nearly empty: "
            "write rows per reading to .csv or .parquet"
        )
    return sensors, variables, times


def _parts(archive: Archive, times: NDArray[np.int64], width: int) -> Iterator[Rows]:
    """Yield the rows in spans of time that fit into memory."""
    from sensormend.io.netcdf import plan_stretch

    step = plan_stretch(width)
    for start in range(0, times.size, step):
        end = int(times[start + step]) if start + step < times.size else int(times[-1]) + 1
        yield archive.rows(start=int(times[start]), end=end)
