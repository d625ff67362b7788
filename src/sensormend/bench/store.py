"""`Store` writes the results of a bench: every run at once as a line of JSON, all as Parquet, and their provenance.

results.jsonl      one line per run, on the disk before the next one begins
results.parquet    the same as a table
run.json           by experiment: the plan, the versions, the machine, and when
"""

from __future__ import annotations

import ast
import glob
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
from sensormend.errors import SensormendError
from sensormend.files import locked, write_beside

__all__ = ["SCHEMA", "Store", "code_version"]

_TEXT = ("experiment", "method", "kind", "setting", "output", "status")
_INTEGERS = ("trial", "seed", "minibatch", "days", "minibatches", "passes", "faults")
_NUMBERS = (
    "x", "re", "re_text", "re_code", "re_cleaned", "f1", "precision", "recall", "f1_best", "threshold_best",
    "missing", "faulty", "repaired", "trusted", "false_alarms", "coverage_missing", "coverage_repaired",
    "reading_f1", "raw", "sound_flagged", "sound_wrong", "after_flagged", "false_lasting", "detected_short",
    "detected_middle", "detected_long", "within_3", "within_6", "within_24", "never",
    "correlation", "lowest", "highest", "seconds", "peak_mb", "iterations",
)  # fmt: skip
SCHEMA: dict[str, str] = {
    **dict.fromkeys(_TEXT, "VARCHAR"),
    **dict.fromkeys(_INTEGERS, "BIGINT"),
    **dict.fromkeys(_NUMBERS, "DOUBLE"),
}
"""The columns of a row and their types."""

# These only show results; a change to them does not make a run obsolete.
SHOWING = {"charts", "pictures", "results_page", "runner", "store", "styles", "tables"}
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


class Store:
    """The results in one folder; as a context manager it creates the folder and locks it for writing.

    `version` is that of the code that makes new rows; rows of other versions are kept.
    """

    def __init__(self, folder: Path, version: str | None = None) -> None:
        self.folder = folder
        self.version = code_version() if version is None else version
        self._lines: dict[str, dict[str, Any]] = {}
        self._lock = ExitStack()

    def __enter__(self) -> Self:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            refusal = f"another run is writing to {self.folder}: wait for it, or give another --out"
            self._lock.enter_context(locked(self.folder / ".lock", refusal))
            self._read()
            self._rewrite()
        except OSError as error:
            raise SensormendError(f"cannot keep results in {self.folder}: {error}") from error
        return self

    def __exit__(self, *error: object) -> None:
        self._lock.close()

    @property
    def lines(self) -> Path:
        """Return the file of lines."""
        return self.folder / "results.jsonl"

    def has(self, key: str) -> bool:
        """Return whether this version of the code has done a run."""
        return key in self._lines and self._lines[key]["version"] == self.version

    def rows(self, keys: Iterable[str]) -> list[Row]:
        """Return the rows of some runs, in the order of the keys, of any version."""
        return [_known(row) for key in keys if key in self._lines for row in self._lines[key]["rows"]]

    def versions(self, keys: Iterable[str]) -> list[str]:
        """Return the versions of the code that made some runs."""
        return sorted({self._lines[key]["version"] for key in keys if key in self._lines})

    def append(self, key: str, rows: Iterable[Row]) -> None:
        """Write the rows of one run; they are on disk when this returns."""
        line = {"key": key, "version": self.version, "rows": [_plain(row) for row in rows]}
        with self.lines.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, allow_nan=False) + "\n")
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
        columns = ", ".join(f"{name} {kind}" for name, kind in SCHEMA.items())
        with duckdb.connect() as engine:
            lines = engine.read_json(
                glob.escape(str(self.lines)), format="newline_delimited", maximum_object_size=1 << 28,
                columns={"key": "VARCHAR", "version": "VARCHAR", "rows": f"STRUCT({columns})[]"},
            )  # fmt: skip
            lines.project("key, version, unnest(rows, recursive := true)").write_parquet(str(beside))
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
        with write_beside(self.folder / "run.json") as file:
            file.write(json.dumps(record, indent=2) + "\n")

    def _read(self) -> None:
        if not self.lines.is_file():
            return
        for text in self.lines.read_bytes().splitlines():
            try:
                line = json.loads(text)
                self._lines[line["key"]] = line
            except (ValueError, KeyError, TypeError):
                continue  # truncated by a crash: that run is done again

    def _rewrite(self) -> None:
        """Keep only the last complete line per run; a file that has no others is not written."""
        text = "".join(json.dumps(line, allow_nan=False) + "\n" for line in self._lines.values())
        if not self.lines.is_file() or self.lines.read_text(encoding="utf-8", errors="replace") != text:
            with write_beside(self.lines) as file:
                file.write(text)


def _plain(row: Row) -> Row:
    strange = row.keys() - SCHEMA.keys()
    if strange:
        raise KeyError(f"columns without a type: {', '.join(sorted(strange))}")
    return {name: _number(row[name], SCHEMA[name]) for name in SCHEMA if name in row}


def _number(value: Any, kind: str) -> Any:
    if value is None or (kind != "VARCHAR" and not math.isfinite(value)):
        return None
    return {"VARCHAR": str, "BIGINT": int, "DOUBLE": float}[kind](value)


def _known(row: Row) -> Row:
    """Return a row with every column: NaN for missing numbers."""
    return {
        name: float("nan") if row.get(name) is None and kind == "DOUBLE" else row.get(name)
        for name, kind in SCHEMA.items()
    }
