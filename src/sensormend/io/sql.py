"""`literal`, `read_parquet` and others write values, paths and files as the embedded engine's SQL has them."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable

__all__ = ["literal", "path_literal", "quoted", "read_parquet", "reason_of"]


def literal(text: object) -> str:
    """Return a text so that nothing in it is taken for a command.

    Examples
    --------
    >>> literal("it's")
    "'it''s'"
    """
    return "'" + str(text).replace("'", "''") + "'"


def quoted(name: str) -> str:
    """Return the name of a column."""
    return '"' + name.replace('"', '""') + '"'


def path_literal(path: str | os.PathLike[str]) -> str:
    """Return a path; a star in it is a star."""
    return literal(glob.escape(os.fspath(path)))


def read_parquet(files: Iterable[str | os.PathLike[str]], *options: str) -> str:
    """Return the relation of the rows of Parquet files, whatever folders they lie in.

    Examples
    --------
    >>> read_parquet(["a.parquet"], "filename = true")
    "read_parquet(['a.parquet'], hive_partitioning = false, filename = true)"
    """
    return (
        f"read_parquet([{', '.join(map(path_literal, files))}], {', '.join(('hive_partitioning = false', *options))})"
    )


def reason_of(error: Exception) -> str:
    """Return the first line of what the engine says."""
    lines = str(error).strip().splitlines()
    return lines[0].strip() if lines else type(error).__name__
