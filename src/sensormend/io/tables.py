"""A file as the engine sees it: a relation, its columns, and some of what is in them."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sensormend.errors import InputError
from sensormend.io.layout import MISSING, Kind, is_part, kind_of
from sensormend.io.sources import stem
from sensormend.io.sql import literal

__all__ = [
    "SAMPLE",
    "Column",
    "Engine",
    "NotATableError",
    "Table",
    "decided",
    "parquet_table",
    "path_literal",
    "plain",
    "reason_of",
    "split_dates",
]

Engine = Any
"""A connection of duckdb, which has no types of its own."""


class NotATableError(InputError):
    """A file of text that holds no table: it is empty, or prose."""


SAMPLE = 200
"""Rows that are looked at to know what a column holds."""

_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT",
            "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL")  # fmt: skip
_TEXTS = ("VARCHAR", "ENUM", "UUID")


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes
    ----------
    name
        As people know it.
    sql
        As the relation knows it.
    type
        The engine's; `VARCHAR` for all of a file of text.
    kind
        What it holds.
    sample
        Some of it, as text and without the empty ones.
    """

    name: str
    sql: str
    type: str
    kind: Kind
    sample: tuple[str, ...] = ()

    @property
    def is_text(self) -> bool:
        """Say whether it has to be read as text."""
        return self.type.startswith(_TEXTS)


@dataclass(frozen=True)
class Table:
    """A file that can be read.

    Attributes
    ----------
    shown
        Its name, for people.
    sensor
        Its name without ending, for those whose files are sensors.
    relation
        SQL that stands for its rows, in their order.
    columns
        Its columns, in their order.
    skip
        Lines before the first row.
    line
        SQL of the whole row as it is written, where that can be had.
    broken
        SQL that says whether a row cannot be read at all.
    decimal_comma
        Numbers are written as 1,5.
    lines
        The file of text itself, where rows are lines.
    empty_lines
        Empty lines are rows too.
    tolerant
        The relation once more, for a file that does not keep to its own rules.
    empty
        There are names of columns and nothing else.
    """

    shown: str
    sensor: str
    relation: str
    columns: tuple[Column, ...]
    skip: int = 0
    line: str | None = None
    broken: str | None = None
    decimal_comma: bool = False
    lines: Path | None = None
    empty_lines: bool = False
    tolerant: str | None = None
    empty: bool = False

    def column(self, name: str) -> Column:
        """Return a column by its name."""
        return next(column for column in self.columns if column.name == name)

    @property
    def shape(self) -> tuple[object, ...]:
        """Return what tables must have in common to be read as one."""
        types = tuple((column.sql, column.type) for column in self.columns)
        return (types, self.line, self.broken, self.decimal_comma)

    @property
    def kinds(self) -> list[tuple[str, Kind]]:
        """Return the columns as `recognise` wants them."""
        return [(column.name, column.kind) for column in self.columns]


def parquet_table(engine: Engine, path: Path, shown: str) -> Table:
    """Look into a Parquet file."""
    relation = f"read_parquet({path_literal(path)}, hive_partitioning=false)"
    try:
        described = engine.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
        rows = engine.execute(f"SELECT CAST(COLUMNS(*) AS VARCHAR) FROM {relation} LIMIT {SAMPLE}").fetchall()
    except Exception as error:
        raise InputError(f"{shown}: this Parquet file cannot be read: {reason_of(error)}") from None
    columns = []
    for place, (name, kind, *_) in enumerate(described):
        sample = tuple(row[place] for row in rows if row[place] is not None)
        columns.append(Column(name, '"' + name.replace('"', '""') + '"', kind, _kind(kind, sample), sample))
    return Table(shown, stem(path), relation, tuple(columns), empty=not rows)


def decided(engine: Engine, table: Table) -> Table:
    """Look through a whole table for what its columns hold whose first rows are empty."""
    open_ones = [column for column in table.columns if column.is_text and not column.sample]
    if not open_ones:
        return table
    missing = ", ".join(literal(word) for word in MISSING)
    asked = ", ".join(
        f"{most}({column.sql}) FILTER (WHERE lower(trim({column.sql})) NOT IN ({missing}))"
        for column in open_ones
        for most in ("min", "max", "any_value")
    )
    try:
        found = engine.execute(f"SELECT {asked} FROM {table.relation}").fetchall()[0]
    except Exception as error:
        raise InputError(f"{table.shown}: cannot be read: {reason_of(error)}") from None
    samples = {column: tuple(text for text in found[3 * place : 3 * place + 3] if text is not None)
               for place, column in enumerate(open_ones)}  # fmt: skip
    columns = [replace(column, sample=samples[column], kind=kind_of(plain(samples[column], table.decimal_comma)))
               if column in samples else column for column in table.columns]  # fmt: skip
    return replace(table, columns=tuple(columns))


def split_dates(engine: Engine, table: Table) -> Table:
    """Look whether columns of times hold dates only, where a column of hours stands beside them.

    The hour is also kept beside times that have it already: only where it is midnight in all rows it is to be added.
    """
    times = [column for column in table.columns if column.type.startswith("TIMESTAMP")]
    hours = any(column.kind in ("number", "clock") and is_part("hour", column.name) for column in table.columns)
    if not times or not hours:
        return table
    asked = ", ".join(f"bool_and({column.sql} = date_trunc('day', {column.sql}))" for column in times)
    found = engine.execute(f"SELECT {asked} FROM {table.relation}").fetchall()[0]
    dates = {column.name for column, midnight in zip(times, found, strict=True) if midnight}
    columns = [replace(column, kind="date") if column.name in dates else column for column in table.columns]
    return replace(table, columns=tuple(columns))


def plain(texts: Sequence[str], decimal_comma: bool) -> list[str]:
    """Return texts with a point for a decimal comma."""
    return [text.replace(",", ".") if decimal_comma else text for text in texts]


def path_literal(path: str | os.PathLike[str]) -> str:
    """Return a path as SQL has it; a star in it is a star."""
    return literal(glob.escape(os.fspath(path)))


def reason_of(error: Exception) -> str:
    """Return the first line of what the engine says."""
    said = str(error).strip().splitlines()
    return said[0].strip() if said else type(error).__name__


def _kind(engine_type: str, sample: Sequence[str]) -> Kind:
    if engine_type.endswith("]"):
        return "other"
    if engine_type.startswith("TIMESTAMP"):
        return "time"
    if engine_type == "DATE":
        return "date"
    if engine_type.startswith(_NUMBERS):
        return "number"
    return kind_of(sample) if engine_type.startswith(_TEXTS) else "other"
