"""`compare_forms` cleans the same readings as tables of other forms, and counts the flags that differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from archives.judging import clean_readings
from sensormend.errors import SensormendError
from sensormend.io.folder import data_files
from sensormend.io.sql import literal, read_parquet

__all__ = ["FIRST_DAYS", "FORMS", "FormResult", "compare_forms", "write_form"]

FIRST_DAYS = 28
"""Days from the first reading on in which flags may depend on what was learned before; reported with and without."""

LONG = "long"

FORMS = {
    LONG: "select * from readings order by time, sensor, variable",
    "wide": "select * from (pivot readings on variable using first(value) group by sensor, time) order by time, sensor",
    "another order": "select * from readings order by hash(sensor, variable, time)",
    # One after every tenth reading of a channel, halfway to the next one.
    "empty rows": """
        select time, sensor, variable, value from (
            select * from readings
            union all
            select time + (next - time) / 2 as time, sensor, variable, null as value
            from (select *, lead(time) over channel as next, row_number() over channel as place
                  from readings window channel as (partition by sensor, variable order by time))
            where place % 10 = 0 and next is not null
        ) order by time, sensor, variable""",
    "without the first week": """
        select * from readings where time >= (select min(time) from readings) + interval 7 days
        order by time, sensor, variable""",
}
"""SQL of the forms of a table `readings`: time, sensor, variable, value. All are compared with the first."""


@dataclass(frozen=True)
class FormResult:
    """The rows of one form beside those of the long table.

    Attributes
    ----------
    rows, common
        The number of its rows, and of those that both have: sensor, variable and time are the same.
    differing
        The share of common rows whose flag differs.
    differing_later
        The same after the first `FIRST_DAYS` days.
    trouble
        Why it was not cleaned; empty where it was.
    """

    form: str
    rows: int = 0
    common: int = 0
    differing: float = 0.0
    differing_later: float = 0.0
    trouble: str = ""


def write_form(archive: Path, form: str, target: Path) -> None:
    """Write the readings of an archive in one of `FORMS` as Parquet."""
    with duckdb.connect() as connection:
        connection.execute(
            f"""create table readings as
                select time::timestamp as time, sensor::varchar as sensor, variable::varchar as variable, value
                from {read_parquet([archive])} where value is not null"""
        )
        # PIVOT cannot stand within COPY.
        connection.execute(f"create table form as {FORMS[form]}")
        connection.execute(f"copy form to {literal(target)} (format parquet)")


def compare_forms(archive: Path, folder: Path, options: Sequence[str] = ()) -> Iterator[FormResult]:
    """Clean an archive in every form, within a folder, and yield each beside the long form."""
    outs: dict[str, Path] = {}
    for form in FORMS:
        table, out = folder / f"{form}.parquet", folder / form
        write_form(archive, form, table)
        try:
            clean_readings(table, out, options)
        except SensormendError as error:
            yield FormResult(form, trouble=str(error))
            if form == LONG:
                return
            continue
        outs[form] = out
        yield _compared(form, outs[LONG], out)


def _compared(form: str, long: Path, out: Path) -> FormResult:
    with duckdb.connect() as connection:
        for name, place in (("a", long), ("b", out)):
            rows = read_parquet(data_files(place), "union_by_name = true")
            columns = {column for column, *_ in connection.execute(f"describe select * from {rows}").fetchall()}
            variable = "coalesce(variable, '')" if "variable" in columns else "''"
            connection.execute(f"create table {name} as select sensor, {variable} as variable, time, flag from {rows}")
        count, common, differing, later = connection.execute(
            f"""select (select count(*) from b), count(*), avg((a.flag <> b.flag)::int),
                       avg((a.flag <> b.flag)::int)
                       filter (a.time >= (select min(time) from a) + interval {FIRST_DAYS} days)
                from a join b using (sensor, variable, time)"""
        ).fetchall()[0]
    return FormResult(form, count, common, differing or 0.0, later or 0.0)
