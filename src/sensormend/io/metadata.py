"""`write_csv`, `read_faults` and others read and write faults.csv, sensors.csv and run.json of an output folder."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

from sensormend.errors import InputError
from sensormend.files import atomic_write, harmless, open_text, original
from sensormend.pipeline.faults import FaultInterval, SensorSummary
from sensormend.pipeline.times import iso, parse_time

__all__ = [
    "FAULTS_HEADER",
    "SENSORS_HEADER",
    "csv_lines",
    "read_faults",
    "read_json",
    "read_sensors",
    "write_csv",
    "write_json",
]

FAULTS_HEADER = (
    "sensor", "variable", "from", "to", "reason", "score", "sentence", "size", "rate", "confidence",
    "incident", "open",
)  # fmt: skip

SENSORS_HEADER = (
    "sensor", "variable", "readings", "share_missing", "share_faulty", "usual_error",
    "latitude", "longitude", "first", "last", "last_value", "state",
)  # fmt: skip

TIMES = frozenset({"from", "to", "first", "last", "received", "incident"})
"""Columns that are times."""

_Entry = TypeVar("_Entry", FaultInterval, SensorSummary)


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Mapping[str, object] | Sequence[object]]) -> None:
    """Write a table as CSV: None and NaN are empty, whole numbers in the columns of `TIMES` are microseconds.

    Texts are written by `harmless`.
    """
    with atomic_write(Path(path)) as file:
        _write_lines(file, header, chain([header], rows))


def csv_lines(header: Sequence[str], rows: Iterable[Mapping[str, object] | Sequence[object]]) -> str:
    """Return the text that `write_csv` writes below the header."""
    text = StringIO()
    _write_lines(text, header, rows)
    return text.getvalue()


def _write_lines(file: IO[str], header: Sequence[str], rows: Iterable[Mapping[str, object] | Sequence[object]]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    for row in rows:
        cells = [row.get(name) for name in header] if isinstance(row, Mapping) else row
        writer.writerow([_cell(name, cell) for name, cell in zip(header, cells, strict=True)])


def write_json(path: Path, content: object) -> None:
    """Write indented JSON, with NaN as null and arrays as lists."""
    with atomic_write(Path(path)) as file:
        json.dump(_plain(content), file, indent=2, ensure_ascii=False, allow_nan=False)
        file.write("\n")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; empty if there is no such file."""
    try:
        with open_text(Path(path)) as file:
            content = json.load(file)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {error}") from None
    if not isinstance(content, dict):
        raise InputError(f"cannot read {path}: it is not a JSON object")
    return content


def read_faults(path: Path) -> list[FaultInterval]:
    """Read faults.csv; empty if there is no such file."""
    return _read(path, FAULTS_HEADER, FaultInterval)


def read_sensors(path: Path) -> list[SensorSummary]:
    """Read sensors.csv; empty if there is no such file."""
    return _read(path, SENSORS_HEADER, SensorSummary)


def _read(path: Path, header: Sequence[str], kind: Callable[..., _Entry]) -> list[_Entry]:
    """Read a table whose columns are the fields of the class `kind`; refuse any other table."""
    entries = []
    try:
        with open_text(Path(path)) as file:
            table: csv.DictReader[str] = csv.DictReader(file)
            lacking = [name for name in header if name not in (table.fieldnames or ())]
            if lacking:
                raise InputError(f"{path} has no column {lacking[0]!r}: it is not one that sensormend wrote")
            for number, line in enumerate(table, start=2):
                try:
                    entries.append(kind(*(_TYPES.get(name, _number)(line.get(name) or "") for name in header)))
                except ValueError as error:
                    raise InputError(f"cannot read {path}, row {number}: {error}") from None
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"cannot read {path}: {error}") from None
    return entries


_TYPES: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("sensor", "variable", "reason", "sentence", "state"), original),
    **dict.fromkeys(("from", "to"), parse_time),
    **dict.fromkeys(("first", "last", "incident"), lambda text: parse_time(text) if text else None),
    "readings": lambda text: int(text or 0),
    "open": lambda text: {"true": True, "false": False}.get(text),
}
"""The parsers of columns; all others are numbers, NaN where empty."""


def _number(text: str) -> float:
    return float(text) if text else math.nan


def _cell(name: str, value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    if name in TIMES and isinstance(value, int | np.integer):
        return iso(int(value))
    if isinstance(value, float | np.floating):
        # Twelve digits: no reading has more, and 0.1 + 0.2 is written as 0.3.
        return "" if math.isnan(value) else f"{float(value):.12g}"
    if isinstance(value, str):
        return harmless(value)
    return "" if value is None else value


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
