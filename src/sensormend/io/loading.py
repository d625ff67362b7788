"""One table into the staging: the SQL that reads it, and what is said of rows that cannot be read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from sensormend.errors import InputError
from sensormend.io.layout import CLOCK_UNITS, MISSING, Layout
from sensormend.io.sql import literal
from sensormend.io.tables import Column, Engine, Table
from sensormend.io.times import EARLIEST, LATEST, TimeFormat, dated, time_format, typed_time
from sensormend.readings import HOUR, MINUTE, SECOND

__all__ = [
    "EMPTY",
    "REJECTED",
    "ROW_REASONS",
    "STRUCTURE",
    "WRONG_CLOCK",
    "clock_offset",
    "format_of",
    "select",
    "settled",
    "time_column",
    "with_hhmm",
]

EMPTY = 1
"""A cell of a wide table with nothing in it: no reading, and nothing wrong."""

WRONG_CLOCK = 8

REJECTED = {
    2: "no sensor",
    3: "no time",
    4: "not a time",
    5: "a time before 1678 or after 2261",
    6: "not a number",
    7: "not a JSON object",
    9: "no network",
    WRONG_CLOCK: "a time a year and more from all others",
}
"""Why a row, or a cell of a wide one, is rejected."""

ROW_REASONS = (2, 3, 4, 5, 7, 9, WRONG_CLOCK)
"""Those that hold for the whole row of a wide table."""

STRUCTURE = {
    "TOO MANY COLUMNS": "more columns than the header",
    "MISSING COLUMNS": "fewer columns than the header",
    "UNQUOTED VALUE": "a quote that is not closed",
    "LINE SIZE OVER MAXIMUM": "a line of more than 2 MB",
    "INVALID ENCODING": "not UTF-8",
    "INVALID STATE": "quotes in the wrong place",
}
"""Why the engine rejects a line."""

# Not IN: of that the engine makes a join, which looks at every row, where a case looks only at those that are left.
# That alone was a third of the time for a CSV file.
_MISSING = literal("|".join(re.escape(word) for word in MISSING))


def format_of(table: Table, layout: Layout) -> TimeFormat | None:
    """Return how the times of a table are written; None where they are times already."""
    column = time_column(table, layout)
    if not column.sample or (column.kind in ("time", "date") and not column.is_text):
        return None if not column.is_text else TimeFormat("iso")
    found = time_format(column.sample) if column.is_text else typed_time(_middle(column))
    if found is None:
        raise InputError(
            f"{table.shown}: column {column.name!r} holds no times, but for example {column.sample[0]!r}; "
            "name the right one with --time (time in the TOML file)"
        )
    return found


def settled(engine: Engine, tables: list[tuple[Table, Layout, TimeFormat | None]]) -> list[TimeFormat | None]:
    """Find out from all the tables together whether the day or the month comes first, where that is open."""
    firsts = []
    for table, layout, written in tables:
        if written is not None and written.name == "ambiguous":
            text = f"trim({time_column(table, layout).sql})"
            first, second = (
                f"max(TRY_CAST(split_part({text}, {literal(written.mark)}, {place}) AS INTEGER))" for place in (1, 2)
            )
            most = engine.execute(f"SELECT {first}, {second} FROM {table.relation}").fetchall()[0]
            firsts.append((table, layout, written, (most[0] or 0) > 12, (most[1] or 0) > 12))
    if not firsts:
        return [written for _, _, written in tables]
    table, layout, written, *_ = firsts[0]
    day_first, month_first = any(entry[3] for entry in firsts), any(entry[4] for entry in firsts)
    if not day_first and not month_first:
        raise InputError(f"{table.shown}: {dated(layout.time, written)}")
    if day_first and month_first:
        both = next((entry for entry in firsts if entry[3] and entry[4]), firsts[0])
        raise InputError(
            f"{both[0].shown}: in column {both[1].time!r} the day comes first in some times and second in others; "
            "write them as 2020-12-31 23:59"
        )
    return [
        written.settled(day_first) if written is not None and written.name == "ambiguous" else written
        for _, _, written in tables
    ]


def time_column(table: Table, layout: Layout) -> Column:
    """Return the column of times, put together where the year or a clock has a column of its own.

    What `clock_offset` has of it is not in it.
    """
    date = _date_of_parts(table, layout) or table.column(layout.time)
    if layout.clock is None:
        return date
    clock = table.column(layout.clock)
    both = f"concat_ws(' ', CAST({date.sql} AS VARCHAR), CAST({clock.sql} AS VARCHAR))"
    pairs = tuple(f"{day.strip()[:10]} {hour.strip()}" for day, hour in zip(date.sample, clock.sample, strict=False))
    return Column(f"{date.name} {clock.name}", both, "VARCHAR", "time", pairs)


def with_hhmm(table: Table, layout: Layout) -> Layout:
    """Return the layout with hours from 100 on taken as hours and minutes: 1330 is half past one."""

    def unit(part: str, name: str) -> str:
        hours = [_number(text) for text in table.column(name).sample] if part == "hour" else []
        return "hour and minute" if max(hours, default=0.0) >= 100 else part

    return replace(layout, parts=tuple((unit(part, name), name) for part, name in layout.parts))


def clock_offset(table: Table, layout: Layout) -> str:
    """Return SQL of the microseconds that columns of hours, minutes and seconds add to a date; NULL for no such time.

    24 is the midnight at the end of the day.
    """
    terms = []
    for unit, name in layout.parts:
        if unit not in CLOCK_UNITS:
            continue
        number = _part_number(table, name)
        if unit == "hour and minute":
            number = f"(floor({number} / 100) + {number} % 100 / 60)"
        most, length = {"minute": (59.999, MINUTE), "second": (60, SECOND)}.get(unit, (24, HOUR))
        terms.append(f"CASE WHEN {number} BETWEEN 0 AND {most} THEN CAST(round({number} * {length}) AS BIGINT) END")
    return " + ".join(terms)


def _date_of_parts(table: Table, layout: Layout) -> Column | None:
    """Return the date that columns of numbers make; None where they make none."""
    parts = dict(layout.parts)
    if "year" not in parts:
        return None
    whole = {unit: f"TRY_CAST({_part_number(table, name)} AS INTEGER)" for unit, name in parts.items()}
    year = whole["year"]
    # Of years with two digits those below 70 are of this century, as everywhere else.
    century = f"CASE WHEN {year} BETWEEN 0 AND 69 THEN 2000 WHEN {year} BETWEEN 70 AND 99 THEN 1900 ELSE 0 END"
    year = f"{year} + {century}"
    written = f"format('{{:04d}}-{{:02d}}-{{:02d}}', {year}, {whole.get('month', '1')}, {whole.get('day', '1')})"
    date = f"TRY_CAST({written} AS DATE)"
    if "day of year" in parts:
        day = whole["day of year"]
        date = f"CASE WHEN {day} BETWEEN 1 AND 366 THEN {date} + ({day} - 1) END"
    dates = [name for unit, name in layout.parts if unit not in CLOCK_UNITS]
    samples = (table.column(name).sample for name in dates)
    return Column(
        " ".join(dates), date, "DATE", "date", tuple("-".join(texts) for texts in zip(*samples, strict=False))
    )


def _part_number(table: Table, name: str) -> str:
    return f"TRY_CAST({table.column(name).sql} AS DOUBLE)"


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _written(table: Table, layout: Layout, time: Column) -> str:
    """Return SQL of a row's time as it is written, all of its columns."""
    if not layout.parts:
        return time.sql
    names = dict.fromkeys([layout.time, *(name for _, name in layout.parts)])
    columns = [table.column(name) for name in names]
    if layout.clock:
        columns.append(table.column(layout.clock))
    return f"concat_ws(' ', {', '.join(f'CAST({column.sql} AS VARCHAR)' for column in columns)})"


def select(tables: Mapping[int, Table], layout: Layout, written: TimeFormat | None) -> str:
    """Return SQL that gives the rows of some tables as the staging keeps them.

    Parameters
    ----------
    tables
        By their number; all of the same columns, since the engine plans them as one.
    layout, written
        How they are to be read.
    """
    table = next(iter(tables.values()))
    relation = " UNION ALL ".join(
        f"SELECT *, {number} AS file_number, {literal(other.sensor)} AS file_name FROM {other.relation}"
        for number, other in tables.items()
    )
    time = time_column(table, layout)
    offset = clock_offset(table, layout)
    parts = {
        "file": "file_number",
        "written": _written(table, layout, time),
        "t": f"({_time(time, written)} + {offset})" if offset else _time(time, written),
        "s": _name(table.column(layout.sensor)) if layout.sensor else "file_name",
        "q": _name(table.column(layout.variable)) if layout.variable else literal(layout.name),
        "latitude": _place(table, layout.latitude),
        "longitude": _place(table, layout.longitude),
        "broken": table.broken or "false",
    }
    if layout.network:
        parts["k"] = _name(table.column(layout.network))
    if table.line:
        parts["line"] = table.line
    cells = [table.column(name) for name in layout.columns]
    as_text = any(cell.is_text for cell in cells)
    wide = layout.across != "value"
    values = [cell.sql if as_text and cell.is_text else f"CAST({cell.sql} AS {'VARCHAR' if as_text else 'DOUBLE'})"
              for cell in cells]  # fmt: skip
    if wide:
        parts["cells"] = f"[{', '.join(values)}]"
        parts["names"] = f"[{', '.join(literal(name) for name in layout.columns)}]"
    else:
        parts["x"] = values[0]
    inner = f"SELECT {', '.join(f'{sql} AS {name}' for name, sql in parts.items())} FROM ({relation})"
    if wide:
        renamed = {"sensor": "unnest(names) AS s, * EXCLUDE (s, names, cells)",
                   "variable": "unnest(names) AS q, * EXCLUDE (q, names, cells)"}[layout.across]  # fmt: skip
        inner = f"SELECT unnest(cells) AS x, {renamed} FROM ({inner})"
    number = f"TRY_CAST({_plain_number('x', table.decimal_comma)} AS DOUBLE)" if as_text else "x"
    missing = f"(x IS NULL OR regexp_full_match(lower(trim(x)), {_MISSING}))" if as_text else "x IS NULL"
    empty = f"(x IS NULL{' OR trim(x) = ' + chr(39) * 2 if as_text else ''})"
    known = " AND k <> ''" if layout.network else ""
    # What is usual comes first: the engine looks at the other cases only for the rows that are left.
    reason = f"""CASE
        WHEN t BETWEEN {EARLIEST} AND {LATEST} AND v IS NOT NULL AND s <> ''{known} THEN NULL
        WHEN {"line IS NULL OR trim(line) = ''" if table.line else "false"} THEN {EMPTY}
        WHEN broken THEN 7
        WHEN s IS NULL OR s = '' THEN 2
        WHEN {"k IS NULL OR k = ''" if layout.network else "false"} THEN 9
        WHEN {_nothing("written", bool(layout.parts) or time.is_text)} THEN 3
        WHEN t IS NULL THEN 4
        WHEN t NOT BETWEEN {EARLIEST} AND {LATEST} THEN 5
        WHEN {empty if wide else "false"} THEN {EMPTY}
        WHEN NOT {missing} THEN 6
        END"""
    line = (
        "line"
        if table.line
        else "concat_ws(',', coalesce(s, ''), nullif(q, ''), coalesce(written::VARCHAR, ''), coalesce(x::VARCHAR, ''))"
    )
    return f"""
        SELECT file, s AS sensor, COALESCE(q, '') AS variable, t AS time,
            CASE WHEN isfinite(v) THEN v ELSE 'NaN'::DOUBLE END AS value, latitude, longitude, reason,
            CASE WHEN reason > {EMPTY} THEN {line} END AS line{", k AS network" if layout.network else ""}
        FROM (SELECT *, CAST({reason} AS UTINYINT) AS reason FROM (SELECT *, {number} AS v FROM ({inner})))"""


def _time(column: Column, written: TimeFormat | None) -> str:
    if written is None:
        return f"epoch_us(CAST({column.sql} AS {'TIMESTAMPTZ' if 'ZONE' in column.type else 'TIMESTAMP'}))"
    if column.is_text:
        return written.sql(f"CAST({column.sql} AS VARCHAR)" if column.type != "VARCHAR" else column.sql)
    if written.name == "strptime":
        return written.sql(f"CAST(CAST({column.sql} AS BIGINT) AS VARCHAR)")
    return written.sql_of_number(f"CAST({column.sql} AS DOUBLE)", f"TRY_CAST({column.sql} AS BIGINT)")


def _nothing(sql: str, is_text: bool) -> str:
    return f"({sql} IS NULL OR regexp_full_match(lower(trim({sql})), {_MISSING}))" if is_text else f"{sql} IS NULL"


def _name(column: Column) -> str:
    if column.type in ("FLOAT", "DOUBLE"):  # whole numbers that had gaps once: 7, not 7.0
        whole = f"{column.sql} = trunc({column.sql}) AND abs({column.sql}) < 1e15"
        number = f"CAST(CAST({column.sql} AS BIGINT) AS VARCHAR)"
        return f"CASE WHEN {whole} THEN {number} ELSE CAST({column.sql} AS VARCHAR) END"
    return f"trim(CAST({column.sql} AS VARCHAR))"


def _place(table: Table, name: str | None) -> str:
    if name is None:
        return "NULL::DOUBLE"
    column = table.column(name)
    text = _plain_number(column.sql, table.decimal_comma) if column.is_text else column.sql
    return f"TRY_CAST({text} AS DOUBLE)"


def _plain_number(text: str, decimal_comma: bool) -> str:
    return f"replace({text}, ',', '.')" if decimal_comma else text


def _middle(column: Column) -> float:
    numbers = sorted(float(text) for text in column.sample)
    return numbers[len(numbers) // 2]
