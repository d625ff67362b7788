"""`literal`, `read_parquet` and others return SQL of values, names and files for DuckDB, the embedded engine."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from typing import Generic, TypeVar

__all__ = [
    "Spare",
    "first_line",
    "harmless_text",
    "literal",
    "original_text",
    "path_literal",
    "quoted",
    "read_parquet",
]

_Engine = TypeVar("_Engine")


class Spare(Generic[_Engine]):
    """Keeps an engine that its owner needs no more for the next one in this process: creating one takes 14 ms.

    Examples
    --------
    >>> spare = Spare[str]()
    >>> spare.take(), spare.leave("engine"), spare.leave("another"), spare.take(), spare.take()
    (None, True, False, 'engine', None)
    """

    def __init__(self) -> None:
        self._engines: list[tuple[int, _Engine]] = []

    def take(self) -> _Engine | None:
        """Return the engine that was left; None if there is none, or it was left before this process was forked."""
        try:
            process, engine = self._engines.pop()
        except IndexError:
            return None
        return engine if process == os.getpid() else None

    def leave(self, engine: _Engine) -> bool:
        """Keep an engine; return False if there is one already."""
        if self._engines:
            return False
        self._engines.append((os.getpid(), engine))
        return True


def literal(text: object) -> str:
    """Return a text as a quoted SQL literal.

    Examples
    --------
    >>> literal("it's")
    "'it''s'"
    """
    return "'" + str(text).replace("'", "''") + "'"


def harmless_text(column: str) -> str:
    """Return SQL for a column in which no spreadsheet takes a text for a formula, as `files.harmless` writes them."""
    return f"CASE WHEN regexp_matches({column}, {_FORMULA}) THEN chr(39) || {column} ELSE {column} END"


def original_text(column: str) -> str:
    """Return SQL of the texts that `harmless_text` was given."""
    return (
        f"CASE WHEN starts_with({column}, chr(39)) AND regexp_matches({column}, {_FORMULA}) "
        f"THEN substring({column}, 2) ELSE {column} END"
    )


_FORMULA = literal("^'*[=+@\\t\\r-]")


def quoted(name: str) -> str:
    """Return the name of a column as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def path_literal(path: str | os.PathLike[str]) -> str:
    """Return a path as a literal in which wildcards are escaped."""
    return literal(glob.escape(os.fspath(path)))


def read_parquet(files: Iterable[str | os.PathLike[str]], *options: str) -> str:
    """Return SQL of the rows of Parquet files; the names of their folders add no columns.

    Examples
    --------
    >>> read_parquet(["a.parquet"], "filename = true")
    "read_parquet(['a.parquet'], hive_partitioning = false, filename = true)"
    """
    return (
        f"read_parquet([{', '.join(map(path_literal, files))}], {', '.join(('hive_partitioning = false', *options))})"
    )


def first_line(error: BaseException) -> str:
    """Return the first line of an error: DuckDB and distributed may add pages to it."""
    lines = str(error).strip().splitlines()
    return lines[0].strip() if lines else type(error).__name__
