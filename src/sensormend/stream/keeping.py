"""What becomes of dates that are over: their files are made one, and old ones go."""

from __future__ import annotations

import glob
import os
import shutil
from pathlib import Path

import duckdb
import numpy as np

from sensormend.errors import StorageError
from sensormend.files import beside, sync
from sensormend.io.folder import covered, date_of, span_of
from sensormend.io.sql import literal

__all__ = ["compact", "dates", "drop", "tidy"]

GONE = "gone="
"""What the name of a date's folder begins with from the moment when it is dropped until it is empty."""


def dates(folder: str | os.PathLike[str]) -> dict[int, Path]:
    """Return the folders of an OUT's dates by their days since 1970, in order."""
    found = {}
    for part in sorted(Path(folder, "data").glob("date=*")):
        try:
            found[date_of(part)] = part
        except ValueError:
            continue
    return found


def compact(folder: str | os.PathLike[str], date: int) -> Path | None:
    """Make the files of a date one, sorted by sensor, variable and time, and return it; None where there is none.

    The new file is named by the first and the last period of those that it has the rows of. From the moment when it
    has that name, `data_files` passes over the files that it was made of: whoever reads sees every row once, and so
    does whoever comes after a crash, while these are still there; `tidy` removes them. Should one of these periods be
    written again, as one that is replayed may be, it is passed over too. So this is for periods that are not going to
    be written otherwise than they were.

    Parameters
    ----------
    folder
        The OUT.
    date
        Days since 1970.
    """
    part = Path(folder, "data", f"date={np.datetime64(date, 'D')}")
    there = sorted(part.glob("*.parquet"))
    old = covered(there)
    files = [file for file in there if file not in old]
    _remove(old)
    if len(files) < 2:
        return files[0] if files else None
    spans = [span_of(file) for file in files]
    whole = part / f"part-{min(first for first, _ in spans)}-{max(last for _, last in spans)}.parquet"
    _merge(files, whole)
    # Its name has to outlast a power cut before theirs may go.
    sync(part)
    _remove(set(files) - {whole})
    return whole


def drop(folder: str | os.PathLike[str], before: int) -> list[int]:
    """Remove the dates before that one, and return them; both in days since 1970."""
    old = {date: part for date, part in dates(folder).items() if date < before}
    for part in old.values():
        # All of its rows go at once; what is left of it after a crash is nothing that anybody reads.
        gone = part.with_name(f"{GONE}{part.name.removeprefix('date=')}")
        try:
            if gone.exists():
                shutil.rmtree(gone)
            part.rename(gone)
            shutil.rmtree(gone)
        except OSError as error:
            raise StorageError(f"cannot remove {part}: {error.strerror or error}") from error
    return list(old)


def tidy(folder: str | os.PathLike[str]) -> None:
    """Clear away what `compact` and `drop` left when they were cut short."""
    for part in dates(folder).values():
        _remove(covered(list(part.glob("*.parquet"))))
    for gone in Path(folder, "data").glob(f"{GONE}*"):
        shutil.rmtree(gone, ignore_errors=True)


def _merge(files: list[Path], whole: Path) -> None:
    listed = ", ".join(literal(glob.escape(str(file))) for file in files)
    try:
        with beside(whole) as new, duckdb.connect(config={"threads": 1}) as engine:
            source = f"read_parquet([{listed}], hive_partitioning = false)"
            columns = [line[0] for line in engine.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()]
            order = ", ".join(name for name in ("sensor", "variable", "time") if name in columns)
            engine.execute(f"COPY (SELECT * FROM {source} ORDER BY {order}) TO {literal(new)} "
                           "(FORMAT parquet, USE_TMP_FILE false)")  # fmt: skip
            sync(new)
    except duckdb.Error as error:
        raise StorageError(f"cannot write {whole}: {str(error).splitlines()[0]}") from error


def _remove(files: set[Path]) -> None:
    for file in files:
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(f"cannot remove {file}: {error.strerror or error}") from error
