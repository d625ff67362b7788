"""`ResultStore` keeps the results of a bench: every run at once as a line of JSON, all as Parquet, and their origin.

results.jsonl      one line per run, on the disk before the next one begins
results.parquet    the same as a table
run.json           by experiment: the plan, the versions, the machine, and when
"""

from __future__ import annotations

import ast
import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import duckdb

from sensormend import __version__
from sensormend.bench.experiment import Row
from sensormend.bench.tables import METRICS, Frame, pandas_module
from sensormend.errors import SensormendError
from sensormend.files import atomic_write, locked

__all__ = ["SCHEMA", "ResultStore", "code_version"]

SCHEMA: dict[str, str] = {
    **dict.fromkeys(("experiment", "method", "kind", "setting", "output", "status"), "string"),
    **dict.fromkeys(("trial", "seed", "minibatch", "days", "minibatches", "passes"), "Int64"),
    **dict.fromkeys(("x", *METRICS, "threshold_best", "iterations"), "float64"),
}
"""The columns of a row and their types."""

# These only show results; a change to them does not make a run obsolete.
SHOWING = {"charts", "result_store", "runner", "tables"}
MEASURED = ("methods", "model", "bench", "simulate", "recovery.py", "tensor.py")


def code_version() -> str:
    """Return sensormend's version with a fingerprint of the code that makes the results, without comments."""
    package = Path(__file__).resolve().parents[1]
    files = [file for name in MEASURED for file in sorted((package / name).rglob("*.py") if "." not in name
                                                          else [package / name])]  # fmt: skip
    digest = hashlib.sha256()
    for file in files:
        if file.parent.name != "bench" or file.stem not in SHOWING:
            digest.update(f"{file.relative_to(package).as_posix()}\n{ast.dump(ast.parse(file.read_bytes()))}".encode())
    return f"{__version__}+{digest.hexdigest()[:8]}"


class ResultStore:
    """The results in one folder; as a context manager it creates the folder and locks it for writing.

    `version` is that of the code that makes new rows; rows of other versions are kept.
    """

    def __init__(self, folder: Path, version: str | None = None) -> None:
        self.folder = folder
        self.lines = folder / "results.jsonl"
        self.version = code_version() if version is None else version
        self._lines: dict[str, dict[str, Any]] = {}
        self._lock = ExitStack()

    def __enter__(self) -> Self:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            refusal = f"another run is writing to {self.folder}: wait for it, or give another --out"
            self._lock.enter_context(locked(self.folder / ".lock", refusal))
            for text in self.lines.read_bytes().splitlines() if self.lines.is_file() else ():
                try:
                    line = json.loads(text)
                    self._lines[line["key"]] = line
                except (ValueError, KeyError, TypeError):
                    continue  # Truncated by a crash: that run is done again.
            self._rewrite()
        except OSError as error:
            raise SensormendError(f"cannot keep results in {self.folder}: {error}") from error
        return self

    def __exit__(self, *error: object) -> None:
        self._lock.close()

    def has(self, key: str) -> bool:
        """Return whether this version of the code has done a run."""
        return key in self._lines and self._lines[key]["version"] == self.version

    def rows(self, keys: Iterable[str]) -> Frame:
        """Return the rows of some runs, in the order of the keys, of any version."""
        lines = [self._lines[key] for key in keys if key in self._lines]
        rows = [{"key": line["key"], "version": line["version"], **row} for line in lines for row in line["rows"]]
        return pandas_module().DataFrame(rows, columns=["key", "version", *SCHEMA]).astype(SCHEMA)

    def versions(self, keys: Iterable[str]) -> list[str]:
        """Return the versions of the code that made some runs."""
        return sorted({self._lines[key]["version"] for key in keys if key in self._lines})

    def append(self, key: str, rows: Iterable[Row]) -> None:
        """Write the rows of one run; they are on disk when this returns."""
        rows = list(rows)
        if unknown := {name for row in rows for name in row if name not in SCHEMA}:
            raise KeyError(f"columns without a type: {', '.join(sorted(unknown))}")
        plain = [{name: value for name, value in row.items() if not _is_missing(value)} for row in rows]
        line = {"key": key, "version": self.version, "rows": plain}
        with self.lines.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, default=float) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self._lines[key] = line

    def forget(self, keys: Iterable[str]) -> None:
        """Drop some runs."""
        for key in keys:
            self._lines.pop(key, None)
        self._rewrite()

    def seal(self) -> Path:
        """Write everything as Parquet."""
        self._rewrite()
        path = self.folder / "results.parquet"
        beside = path.with_name(f"{path.name}.part")
        with duckdb.connect() as connection:
            connection.from_df(self.rows(self._lines)).write_parquet(str(beside))
        os.replace(beside, path)
        return path

    def records(self) -> dict[str, dict[str, Any]]:
        """Return the content of `run.json`, by the name of the experiment's files."""
        try:
            record = json.loads((self.folder / "run.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return dict(record.get("experiments", {}))

    def record(self, name: str, content: Mapping[str, Any]) -> None:
        """Put an experiment into `run.json`."""
        record = {"experiments": self.records() | {name: dict(content)}}
        with atomic_write(self.folder / "run.json") as file:
            file.write(json.dumps(record, indent=2) + "\n")

    def _rewrite(self) -> None:
        """Keep only the last complete line per run; a file that has no others is not written."""
        text = "".join(json.dumps(line, default=float) + "\n" for line in self._lines.values())
        if not self.lines.is_file() or self.lines.read_text(encoding="utf-8", errors="replace") != text:
            with atomic_write(self.lines) as file:
                file.write(text)


def _is_missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and not math.isfinite(value))
