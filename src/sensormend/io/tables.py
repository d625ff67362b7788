"""A file as the engine sees it: a relation, its columns, and some of what is in them."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sensormend.errors import InputError
from sensormend.io.layout import Kind, kind_of

__all__ = ["SAMPLE", "Column", "Engine", "Table", "literal", "parquet_table", "path_literal", "reason_of"]

Engine = Any
"""A connection of duckdb, which has no types of its own."""

SAMPLE = 200
"""Rows that are looked at to know what a column holds."""

_TIMES = ("TIMESTAMP", "DATE")
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
    first_row
        What people call its first row: the number of its line, or 1.
    line
        SQL of the whole row as it is written, where that can be had.
    broken
        SQL that says whether a row cannot be read at all.
    decimal_comma
        Numbers are written as 1,5.
    lines
        The file of text itself, where rows are lines.
    """

    shown: str
    sensor: str
    relation: str
    columns: tuple[Column, ...]
    first_row: int = 1
    line: str | None = None
    broken: str | None = None
    decimal_comma: bool = False
    lines: Path | None = field(default=None)

    def column(self, name: str) -> Column:
        """Return a column by its name."""
        return next(column for column in self.columns if column.name == name)

    @property
    def kinds(self) -> list[tuple[str, Kind]]:
        """Return the columns as `recognise` wants them."""
        return [(column.name, column.kind) for column in self.columns]


def parquet_table(engine: Engine, path: Path, shown: str) -> Table:
    """Look into a Parquet file."""
    relation = f"read_parquet({path_literal(path)}, hive_partitioning=false)"
    try:
        described = engine.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
        rows = engine.execute(f"SELECT * FROM {relation} LIMIT {SAMPLE}").fetchall()
    except Exception as error:
        raise InputError(f"{shown}: this Parquet file cannot be read: {reason_of(error)}") from None
    columns = []
    for place, (name, kind, *_) in enumerate(described):
        sample = tuple(str(row[place]) for row in rows if row[place] is not None)
        columns.append(Column(name, '"' + name.replace('"', '""') + '"', kind, _kind(kind, sample), sample))
    return Table(shown, path.name.split(".")[0], relation, tuple(columns))


def literal(text: str) -> str:
    """Return a text as SQL has it."""
    return "'" + text.replace("'", "''") + "'"


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
    if engine_type.startswith(_TIMES):
        return "time"
    if engine_type.startswith(_NUMBERS):
        return "number"
    return kind_of(sample) if engine_type.startswith(_TEXTS) else "other"
