"""`VOCABULARIES` has the codes of other systems for our flags; `write_flags` writes them into an output folder."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import duckdb

from sensormend.errors import InputError, StorageError
from sensormend.files import replacing
from sensormend.io.folder import data_files
from sensormend.io.sql import first_line, literal, read_parquet
from sensormend.readings import Flag

__all__ = ["VOCABULARIES", "write_flags"]

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
