"""`write_parts` cuts archives: who has one of the sensors alone, or reads more rarely, must not be harmed more."""

from __future__ import annotations

from pathlib import Path

import duckdb

from sensormend.io.sql import literal, read_parquet

__all__ = ["write_parts"]

FEW, RARELY = (1, 2), 6
"""The numbers of sensors, those with most readings, and every how many readings of all sensors there are in a part."""


def write_parts(archive: Path, folder: Path) -> dict[str, Path]:
    """Write parts of an archive with all their columns, and return them by name."""
    source, parts = read_parquet([archive]), {}
    numbered = f"select *, row_number() over (partition by sensor, variable order by time) as number from {source}"
    most = f"select sensor from {source} group by sensor order by count(*) desc, sensor"
    queries = {
        f"{archive.stem}-{count}-of-the-sensors": f"select * from {source} where sensor in ({most} limit {count})"
        for count in FEW
    }
    queries[f"{archive.stem}-every-{RARELY}th"] = (
        f"select * exclude number from ({numbered}) where number % {RARELY} = 0"
    )
    for name, query in queries.items():
        parts[name] = folder / f"{name}.parquet"
        duckdb.execute(f"copy ({query}) to {literal(parts[name])} (format parquet)")
    return parts
