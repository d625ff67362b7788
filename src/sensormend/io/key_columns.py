"""`find_key` and `find_constants` find out from the rows of a single table what the names of its columns leave open."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from sensormend.io.table_files import Column, Table
from sensormend.io.table_layout import TableLayout, called, is_quantity, open_columns
from sensormend.pipeline.options import Options

__all__ = ["find_constants", "find_key", "number_sql", "without"]

UNIQUE = 0.9
"""The share of the rows from which columns tell them apart."""

CONTRADICTING = 0.7
"""The share of the rows below which a time and a known sensor do not tell them apart. Where readings are sent twice it
is more, and a table with less would be refused: its readings mostly contradict each other."""

ROUGHLY = 0.85
"""The same where the rows are counted with an error of some percent, which takes no memory: most tables end here."""

MOST_CANDIDATES = 8
"""Columns of which pairs are tried; the ones with the fewest entries."""

LABELS = 2
"""A number that tells sensors apart, like a depth, has at most so many times the entries that a time has rows. There is
one for each sensor, and some sensors are silent. What is measured has more."""

LONG_ENOUGH = 50
"""Readings of a sensor from which a column that never changes is not a reading: fewer may stand still by chance."""

FIRST_ROWS = 10_000
"""Rows in which most columns are seen to change, so that the others are few when all rows are read."""


def find_key(engine: Any, table: Table, options: Options) -> tuple[Options, tuple[str, ...]]:
    """Return the options with the sensor and the variable, and the columns that tell sensors of one name apart.

    These are the columns that tell readings of the same time apart, where those with known names do not: one, or two
    like plot and depth. One of them whose entries are names of quantities is the variable.
    """
    columns = open_columns(table.kinds, options)
    known = columns.times + tuple(filter(None, (columns.sensor, columns.variable)))
    candidates = columns.texts + columns.numbers
    if not candidates or not columns.times:
        return options, ()

    def count(*names: str) -> int:
        listed = ", ".join(table.column(name).sql for name in names)
        return int(_ask(engine, f"SELECT count(*) FROM (SELECT DISTINCT {listed} FROM {table.relation})")[0][0])

    rows = int(_ask(engine, f"SELECT count(*) FROM {table.relation}")[0][0])
    if columns.sensor is not None and _about(engine, table, known) > ROUGHLY * rows:
        return options, ()
    times = count(*known)
    if times > (UNIQUE if columns.sensor is None else CONTRADICTING) * rows:
        return options, ()
    counts = ", ".join(f"count(DISTINCT {table.column(name).sql})" for name in candidates)
    entries = dict(zip(candidates, _ask(engine, f"SELECT {counts} FROM {table.relation}")[0], strict=True))
    most = dict.fromkeys(columns.numbers, LABELS * rows / times)
    labels = [name for name in candidates if 1 < entries[name] <= most.get(name, rows / 2)]
    labels = sorted(labels, key=entries.__getitem__)[:MOST_CANDIDATES]
    chosen: tuple[str, ...] = ()
    for size in (1, 2):
        apart = [names for names in combinations(labels, size) if count(*known, *names) > UNIQUE * rows]
        if apart:
            # Of a station and its town, the one with fewer names tells them apart as well.
            best = min(apart, key=lambda names: math.prod(entries[name] for name in names))
            chosen = tuple(name for name in candidates if name in best)
            break
    variable = None
    of_values = any(called("value", name) for name in columns.readings)
    if columns.variable is None and (of_values or len({*columns.readings} - {*chosen}) == 1):
        measured = [name for name in chosen if name in columns.texts and _are_quantities(engine, table, name)]
        variable = measured[0] if len(measured) == 1 else None
    sensors = [name for name in (columns.sensor, *chosen) if name not in (None, variable)]
    if columns.sensor is None and sensors:
        options = replace(options, sensor=sensors[0])
    return replace(options, variable=variable) if variable else options, tuple(filter(None, sensors[1:]))


def find_constants(engine: Any, table: Table, layout: TableLayout) -> tuple[str, ...]:
    """Return the columns of readings that never change for any sensor, like the capacity of a car park or an altitude.

    There are none in a table of one sensor, which may be stuck; zeros may be those of rain.
    """
    if layout.across != "variable" or layout.sensor is None:
        return ()
    sensor = ", ".join(table.column(name).sql for name in (layout.sensor, *layout.beside))
    names = layout.columns
    for relation in (f"(FROM {table.relation} LIMIT {FIRST_ROWS})", table.relation):
        numbers = [number_sql(table.column(name), table.decimal_comma) for name in names]
        states = ", ".join(
            f"bool_and(low{i} IS NOT DISTINCT FROM high{i}), "
            f"count(*) FILTER (WHERE n{i} >= {LONG_ENOUGH} AND low{i} <> 0)"
            for i in range(len(names))
        )
        extremes = ", ".join(
            f"min({number}) AS low{i}, max({number}) AS high{i}, count({number}) AS n{i}"
            for i, number in enumerate(numbers)
        )
        answer = _ask(engine, f"SELECT {states} FROM (SELECT {extremes} FROM {relation} GROUP BY {sensor})")[0]
        alike, long = answer[::2], answer[1::2]
        # The first rows may be those of one sensor.
        enough = 2 if relation == table.relation else 0
        names = tuple(name for name, same, many in zip(names, alike, long, strict=True) if same and many >= enough)
        if not names:
            return ()
    return names if len(names) < len(layout.columns) else ()


def number_sql(column: Column, decimal_comma: bool) -> str:
    """Return SQL of a column's numbers; NULL where there is none."""
    text = f"replace({column.sql}, ',', '.')" if column.is_text and decimal_comma else column.sql
    return f"TRY_CAST({text} AS DOUBLE)"


def without(table: Table, names: Sequence[str]) -> Table:
    """Return the table with columns that have no role any more."""
    return replace(
        table,
        columns=tuple(replace(column, kind="other") if column.name in names else column for column in table.columns),
    )


def _are_quantities(engine: Any, table: Table, name: str) -> bool:
    entries = _ask(engine, f"SELECT DISTINCT {table.column(name).sql} FROM {table.relation} LIMIT 100")
    return 2 * sum(entry is not None and is_quantity(str(entry)) for (entry,) in entries) > len(entries)


def _about(engine: Any, table: Table, names: Sequence[str]) -> float:
    """Return about how many rows columns tell apart."""
    entries = ", ".join(table.column(name).sql for name in names)
    return float(_ask(engine, f"SELECT approx_count_distinct(hash({entries})) FROM {table.relation}")[0][0])


def _ask(engine: Any, sql: str) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = engine.execute(sql).fetchall()
    return rows
