"""A single-file OUT laid out by date, so that a view reads what it shows and not all of it."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb

from sensormend.errors import InputError, SensormendError
from sensormend.io.folder import Archive
from sensormend.io.sql import literal
from sensormend.io.writing import RowWriter
from sensormend.readings import DAY

__all__ = ["unfold"]

AT_ONCE = 30 * DAY
"""Of a NetCDF file, so that a year of many sensors does not have to be in memory at once."""


def unfold(archive: Archive, folder: Path) -> None:
    """Write the rows of a single-file OUT into `folder/data/date=.../`, and link what stands beside them.

    Parameters
    ----------
    archive
        Of a single file.
    folder
        An empty one.
    """
    (folder / "data").mkdir()
    for name in ("faults.csv", "sensors.csv", "run.json"):
        if (archive.meta / name).exists():
            os.symlink(archive.meta / name, folder / name)
    if archive.path.name.lower().endswith(".nc"):
        _by_rows(archive, folder)
        return
    with archive.table() as (engine, columns):
        if not columns:
            return
        try:
            engine.execute(
                f"COPY (SELECT *, strftime(time, '%Y-%m-%d') AS date FROM source) TO {literal(folder / 'data')} "
                "(FORMAT parquet, PARTITION_BY (date), OVERWRITE_OR_IGNORE)"
            )
        except duckdb.IOException as error:
            raise SensormendError(f"no room to lay {archive.path.name} out by date: {error}") from error


def _by_rows(archive: Archive, folder: Path) -> None:
    span = archive.span()
    if span is None:
        raise InputError(f"there are no rows in {archive.path.name}")
    with RowWriter(folder) as writer:
        for start in range(span[0] // DAY * DAY, span[1] + 1, AT_ONCE):
            writer.write(archive.rows(start=start, end=start + AT_ONCE))
