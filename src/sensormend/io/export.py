"""A finished folder of rows as one file: CSV, Parquet or NetCDF, or a wide table of cleaned values."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from sensormend.errors import ConfigError, InputError, StorageError
from sensormend.io.folder import Archive, data_files, ending_of
from sensormend.io.metadata import read_sensors
from sensormend.io.sql import literal
from sensormend.io.writing import COLUMNS
from sensormend.readings import Rows

__all__ = ["export", "export_wide"]

FORMATS = {
    ".csv": "FORMAT csv, HEADER true",
    ".csv.gz": "FORMAT csv, HEADER true, COMPRESSION gzip",
    ".parquet": "FORMAT parquet, COMPRESSION zstd",
}

SPARSE = 20
"""Cells per row beyond which a table of times and stations is no way to keep rows: those per reading, each with its own
time. A network that grew from one sensor to twenty is still below it."""


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
        It has the rows in `data/`.
    path
        Its ending says what is written: `.csv`, `.csv.gz`, `.parquet` or `.nc`. Written beside and renamed.
    memory
        What sorting may take; the rest goes to the disk beside `path`.
    locations, attributes
        For NetCDF, as `dataset_of` takes them; locations are those of sensors.csv where none are given.
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
        told = read_sensors(Path(folder) / "sensors.csv")
        locations = {entry.sensor: (entry.latitude, entry.longitude) for entry in told}
    write_netcdf(
        target, _parts(Archive(folder), times, len(sensors) * len(variables)), sensors=sensors, variables=variables,
        times=times, locations=locations, attributes=attributes,
    )  # fmt: skip
    return target


def export_wide(folder: str | os.PathLike[str], path: str | os.PathLike[str], *, memory: str = "1GB") -> Path:
    """Write the cleaned values of a folder OUT to one table by time, and return its path.

    It has a column per sensor; where there are several variables, a column per variable beside the sensor.

    Parameters
    ----------
    folder
        It has the rows in `data/`, one per sensor, variable and time.
    path
        Its ending says what is written: `.csv`, `.csv.gz` or `.parquet`.
    memory
        What sorting may take; the rest goes to the disk beside `path`.
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
        # A sensor that is called like the column of times keeps its own.
        columns = [
            f"{literal(name)} AS {_quoted(f'{name}_' if name in ('time', 'sensor') else name)}" for name in names
        ]
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
    """Have an engine with the rows of files as `source`; what it says becomes one line about the target."""
    with TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as scratch:
        # Few threads: each sorts in its own share of the memory.
        threads = min(os.cpu_count() or 1, 4)
        with duckdb.connect(config={"memory_limit": memory, "temp_directory": scratch, "threads": threads}) as engine:
            try:
                listed = ", ".join(literal(glob.escape(str(file))) for file in files)
                engine.execute(
                    "CREATE TEMP VIEW source AS SELECT * FROM "
                    f"read_parquet([{listed}], hive_partitioning = false, file_row_number = true)"
                )
                yield engine
            except duckdb.Error as error:
                raise StorageError(f"cannot write {target}: {str(error).splitlines()[0]}") from error


def _copy(engine: Any, target: Path, form: str) -> None:
    present = {line[0] for line in engine.execute("DESCRIBE source").fetchall()}
    columns = [name for name in COLUMNS if name in present]
    # In text an empty cell says it better than two quotation marks.
    said = {"reason": "nullif(reason, '')"} if "csv" in form else {}
    keys = ["time", "sensor", *(["variable"] if "variable" in present else []), "file_row_number"]
    _write(
        engine,
        f"SELECT {', '.join(f'{said.get(name, name)} AS {name}' for name in columns)} FROM source "
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
    """Return the different names of a column, sorted; one without a name where there is no such column."""
    if column not in {line[0] for line in engine.execute("DESCRIBE source").fetchall()}:
        return ("",)
    return tuple(name for (name,) in engine.execute(f"SELECT DISTINCT {column} FROM source ORDER BY 1").fetchall())


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _axes(engine: Any) -> tuple[tuple[str, ...], tuple[str, ...], NDArray[np.int64]]:
    """Return the sensors, the variables and the times of all rows."""
    sensors, variables = _names(engine, "sensor"), _names(engine, "variable")
    told = engine.execute("SELECT DISTINCT epoch_us(time) AS time FROM source ORDER BY 1").fetchnumpy()["time"]
    times = np.ma.getdata(told).astype(np.int64)
    (rows,) = engine.execute("SELECT count(*) FROM source").fetchone()
    if times.size * len(sensors) * len(variables) > SPARSE * rows:
        raise ConfigError(
            "NetCDF is a table of times and stations, and these rows leave it all but empty: "
            "write rows per reading to .csv or .parquet"
        )
    return sensors, variables, times


def _parts(archive: Archive, times: NDArray[np.int64], width: int) -> Iterator[Rows]:
    """Give the rows in stretches of time that fit into memory."""
    from sensormend.io.cf import stretch_of

    step = stretch_of(width)
    for begin in range(0, times.size, step):
        end = int(times[begin + step]) if begin + step < times.size else int(times[-1]) + 1
        yield archive.rows(start=int(times[begin]), end=end)
