"""`Target` is where an OUT is written: in a temporary folder that is exported and published when it is complete."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from sensormend.errors import ConfigError, InputError, StorageError
from sensormend.files import locked
from sensormend.io.folder import Archive, data_files, ending_of
from sensormend.io.metadata import read_sensors
from sensormend.io.sql import literal, quoted, read_parquet, reason_of
from sensormend.io.writing import COLUMNS
from sensormend.readings import Rows

__all__ = ["Target", "export"]

FORMATS = {
    ".csv": "FORMAT csv, HEADER true",
    ".csv.gz": "FORMAT csv, HEADER true, COMPRESSION gzip",
    ".parquet": "FORMAT parquet, COMPRESSION zstd",
}

SPARSE = 20
"""Cells of the table of times and stations per row beyond which NetCDF is refused: rows per reading, each with its own
time, leave it nearly empty. A network that grew from one sensor to twenty is still below the limit."""

LOCK = ".lock"


@dataclass(frozen=True)
class Target:
    """The place of a result.

    Attributes
    ----------
    path
        The OUT: a folder, or a file by its ending.
    ending
        The ending of a single file; empty for a folder.
    """

    path: Path
    ending: str

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> Target:
        """Return the target for a path."""
        path = Path(path)
        if not path.name or path.name in (".", ".."):
            raise ConfigError(f"OUT is a folder or a file that is not there yet, not {str(path)!r}")
        return cls(path, ending_of(path) or "")

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

        Parameters
        ----------
        sources
            The input files, which must not be replaced.
        overwrite, resume
            The user's options.
        replaces
            Whether an existing OUT may be replaced, by this call or by the run that is resumed.
        """
        self._refuse_what_is_there(overwrite=overwrite, resume=resume, replaces=replaces)
        self._refuse_to_replace(sources)
        try:
            self.work.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"cannot write to {self.work}: {error.strerror}") from error
        with locked(self.work / LOCK, f"another run is writing {self.path}: wait for it"):
            if not resume:
                self._empty()
            yield

    def _refuse_what_is_there(self, *, overwrite: bool, resume: bool, replaces: bool) -> None:
        if overwrite and resume:
            raise ConfigError("--resume continues an interrupted run and --overwrite starts over: give one of them")
        for path in dict.fromkeys((self.path, self.folder)):
            if os.path.lexists(path) and not replaces:
                raise ConfigError(f"{path} is there already; --overwrite replaces it")
            if path.is_dir() and not (path / "run.json").exists() and any(path.iterdir()):
                raise ConfigError(f"{path} is a folder that sensormend did not write; --overwrite does not replace it")
        if resume and not self.work.exists():
            raise ConfigError(f"there is nothing to resume: {self.work} is not there")
        if self.work.exists() and not resume and not overwrite:
            raise ConfigError(
                f"{self.work} is left from an interrupted run; --resume goes on with it, --overwrite starts over"
            )

    def _refuse_to_replace(self, sources: Iterable[Path]) -> None:
        ours = {path.resolve() for path in (self.path, self.folder, self.work)}
        for file in sources:
            place = file.resolve()
            if not ours.isdisjoint((place, *place.parents)):
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
        path = self.work / f"rows{self.ending}"
        if wide:
            _export_wide(self.work, path)
        else:
            export(self.work, path, attributes=attributes)
            shutil.rmtree(self.work / "data")

    def publish(self) -> None:
        """Move the result to its place; an existing OUT is removed once the new one is there."""
        replaced = [path for path in dict.fromkeys((self.path, self.folder)) if os.path.lexists(path)]
        aside = Path(mkdtemp(prefix=f".{self.path.name[:100]}-", dir=self.path.parent)) if replaced else None
        for path in replaced:
            assert aside is not None
            os.replace(path, aside / path.name)
        (self.work / LOCK).unlink(missing_ok=True)
        if self.ending:
            os.replace(self.work / f"rows{self.ending}", self.path)
        os.replace(self.work, self.folder)
        if aside is not None:
            shutil.rmtree(aside, ignore_errors=True)


def export(
    folder: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    memory: str = "1GB",
    locations: Any = None,
    attributes: Any = None,
) -> Path:
    """Write the rows of a folder OUT to one file, by time, sensor and variable, and return its path.

    Parameters
    ----------
    folder
        The OUT, with its rows in `data/`.
    path
        The file, whose ending sets the format: `.csv`, `.csv.gz`, `.parquet` or `.nc`. It is written under a temporary
        name and renamed.
    memory
        The limit of memory for sorting; the rest goes to disk beside `path`.
    locations, attributes
        For NetCDF, as `dataset_of` takes them; by default the locations of sensors.csv.
    """
    target, ending = Path(path).absolute(), ending_of(path)
    if ending is None:
        raise ConfigError(f"the ending of {path} is none of .csv, .csv.gz, .parquet and .nc")
    files = data_files(folder)
    if not files:
        raise InputError(f"there are no rows in {folder}")
    with _source(files, target, memory) as engine:
        if ending != ".nc":
            _copy(engine, target, FORMATS[ending])
            return target
        sensors, variables, times = _axes(engine)
    from sensormend.io.netcdf import write_netcdf

    if locations is None:
        sensors_csv = read_sensors(Path(folder) / "sensors.csv")
        locations = {entry.sensor: (entry.latitude, entry.longitude) for entry in sensors_csv}
    write_netcdf(
        target, _parts(Archive(folder), times, len(sensors) * len(variables)), sensors=sensors, variables=variables,
        times=times, locations=locations, attributes=attributes,
    )  # fmt: skip
    return target


def _export_wide(folder: str | os.PathLike[str], path: str | os.PathLike[str], *, memory: str = "1GB") -> Path:
    """Write the cleaned values of a folder OUT to one table by time, and return its path.

    It has a column per sensor; where there are several variables, a column per variable and one of sensors.

    Parameters
    ----------
    folder
        The OUT, with its rows in `data/`, one per sensor, variable and time.
    path
        The file, whose ending sets the format: `.csv`, `.csv.gz` or `.parquet`.
    memory
        The limit of memory for sorting; the rest goes to disk beside `path`.
    """
    target, files = Path(path).absolute(), data_files(folder)
    form = FORMATS.get(ending_of(path) or "")
    if form is None:
        raise ConfigError(f"the ending of {path} is none of .csv, .csv.gz and .parquet")
    if not files:
        raise InputError(f"there are no rows in {folder}")
    with _source(files, target, memory) as engine:
        names = _names(engine, "variable")
        across, beside = ("variable", "time, sensor") if len(names) > 1 else ("sensor", "time")
        names = names if len(names) > 1 else _names(engine, "sensor")
        # A sensor named `time` or `sensor` would collide with that column.
        columns = [f"{literal(name)} AS {quoted(f'{name}_' if name in ('time', 'sensor') else name)}" for name in names]
        _write(
            engine,
            f"SELECT * FROM (PIVOT (SELECT time, sensor, {across} AS across, cleaned FROM source) "
            f"ON across IN ({', '.join(columns)}) USING any_value(cleaned) GROUP BY {beside}) ORDER BY {beside}",
            target,
            form,
        )
    return target


@contextmanager
def _source(files: list[Path], target: Path, memory: str) -> Iterator[Any]:
    """Open an engine with the rows of files as `source`; its errors are raised in one line with the target's name."""
    with TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as scratch:
        # Few threads, since the memory is divided among them.
        threads = min(os.cpu_count() or 1, 4)
        with duckdb.connect(config={"memory_limit": memory, "temp_directory": scratch, "threads": threads}) as engine:
            try:
                rows = read_parquet(files, "file_row_number = true")
                engine.execute(f"CREATE TEMP VIEW source AS SELECT * FROM {rows}")
                yield engine
            except duckdb.Error as error:
                raise StorageError(f"cannot write {target}: {reason_of(error)}") from error


def _copy(engine: Any, target: Path, form: str) -> None:
    present = {line[0] for line in engine.execute("DESCRIBE source").fetchall()}
    columns = [name for name in COLUMNS if name in present]
    # In CSV an empty text would be written as two quotation marks, NULL as an empty cell.
    written = {"reason": "nullif(reason, '')"} if "csv" in form else {}
    keys = ["time", "sensor", *(["variable"] if "variable" in present else []), "file_row_number"]
    _write(
        engine,
        f"SELECT {', '.join(f'{written.get(name, name)} AS {name}' for name in columns)} FROM source "
        f"ORDER BY {', '.join(f'source.{key}' for key in keys)}",
        target,
        form,
    )


def _write(engine: Any, query: str, target: Path, form: str) -> None:
    beside = target.with_name(f"{target.name}.new")
    try:
        engine.execute(f"COPY ({query}) TO {literal(beside)} ({form}, USE_TMP_FILE false)")
        os.replace(beside, target)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise


def _names(engine: Any, column: str) -> tuple[str, ...]:
    """Return the distinct names of a column, sorted; one empty name where there is no such column."""
    if column not in {line[0] for line in engine.execute("DESCRIBE source").fetchall()}:
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
            "NetCDF is a table of times and stations, and these rows leave it all but empty: "
            "write rows per reading to .csv or .parquet"
        )
    return sensors, variables, times


def _parts(archive: Archive, times: NDArray[np.int64], width: int) -> Iterator[Rows]:
    """Yield the rows in spans of time that fit into memory."""
    from sensormend.io.netcdf import stretch_of

    step = stretch_of(width)
    for begin in range(0, times.size, step):
        end = int(times[begin + step]) if begin + step < times.size else int(times[-1]) + 1
        yield archive.rows(start=int(times[begin]), end=end)
