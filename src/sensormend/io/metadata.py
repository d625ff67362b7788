"""`write_csv`, `read_faults` and others write and read the small files of an OUT: faults.csv, sensors.csv, run.json."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

from sensormend.errors import InputError
from sensormend.files import write_beside
from sensormend.readings import SECOND

__all__ = [
    "FAULTS_HEADER",
    "SENSORS_HEADER",
    "FaultInterval",
    "SensorSummary",
    "csv_lines",
    "harmless",
    "iso",
    "original",
    "read_faults",
    "read_json",
    "read_sensors",
    "time_of",
    "write_csv",
    "write_json",
]

FAULTS_HEADER = (
    "sensor", "variable", "from", "to", "reason", "score", "sentence", "size", "rate", "confidence",
)  # fmt: skip

SENSORS_HEADER = (
    "sensor", "variable", "readings", "share_missing", "share_faulty", "usual_error",
    "latitude", "longitude", "first", "last", "last_value", "state",
)  # fmt: skip

TIMES = frozenset({"from", "to", "first", "last", "received"})
"""Columns that are times."""


@dataclass(frozen=True)
class FaultInterval:
    """A line of faults.csv: a fault with its names and times as users read it, and a sentence that describes it.

    Attributes
    ----------
    start, end
        From the start of its first wrong slot to the end of its last, microseconds UTC; while it is open, to the end
        of the data.
    score
        The highest score of its periods; 1 is at the threshold.
    size, rate, confidence
        As in the model's `Fault`; NaN for what is no episode of the model.
    """

    sensor: str
    variable: str
    start: int
    end: int
    reason: str
    score: float
    sentence: str
    size: float = math.nan
    rate: float = math.nan
    confidence: float = math.nan

    @property
    def doubtful(self) -> bool:
        """Whether its confidence is low enough that it may be no fault."""
        return self.confidence <= 0.5


@dataclass(frozen=True)
class SensorSummary:
    """A line of sensors.csv; unknown values are NaN, and None for a sensor without readings.

    `state` is that of the channel at the end of the tables, one of `sensormend.pipeline.health.STATES`.
    """

    sensor: str
    variable: str
    readings: int
    share_missing: float
    share_faulty: float
    usual_error: float
    latitude: float
    longitude: float
    first: int | None
    last: int | None
    last_value: float = math.nan
    state: str = "learning"


_Entry = TypeVar("_Entry", FaultInterval, SensorSummary)


def iso(time: int) -> str:
    """Return a time as it is written in the files: ISO 8601, UTC, without a zone.

    Examples
    --------
    >>> iso(1_546_300_800_000_000)
    '2019-01-01T00:00:00'
    """
    exact = np.datetime64(time, "us")
    return str(exact if time % SECOND else exact.astype("datetime64[s]"))


def harmless(text: str) -> str:
    """Return a text for a cell that no spreadsheet takes for a formula: names come from whoever sends a reading.

    A text that begins with `=`, `+`, `-`, `@`, a tab or a carriage return gets a single quote in front, as OWASP
    advises, and so does one that looks as if it had one already.

    Examples
    --------
    >>> harmless("=1+1"), harmless("'=1+1"), harmless("roof")
    ("'=1+1", "''=1+1", 'roof')
    """
    return f"'{text}" if _FORMULA.match(text) else text


def original(text: str) -> str:
    """Return the text that `harmless` was given.

    Examples
    --------
    >>> original("'=1+1"), original("''=1+1"), original("'roof'")
    ('=1+1', "'=1+1", "'roof'")
    """
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


_FORMULA = re.compile("'*[=+@\t\r-]")


def time_of(text: str) -> int:
    """Return the microseconds of an ISO time; without a zone it is UTC, and a date alone is its midnight.

    Examples
    --------
    >>> time_of("2019-01-01T01:00+01:00") == time_of("2019-01-01") == 1_546_300_800_000_000
    True
    """
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InputError(f"a time looks like 2019-01-31T14:00, in UTC; got {text!r}") from None
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Mapping[str, object] | Sequence[object]]) -> None:
    """Write a table as CSV: None and NaN are empty, whole numbers in the columns of `TIMES` are microseconds.

    Texts are written by `harmless`.
    """
    with write_beside(Path(path)) as file:
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
    with write_beside(Path(path)) as file:
        json.dump(_plain(content), file, indent=2, ensure_ascii=False, allow_nan=False)
        file.write("\n")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; empty where there is no such file."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {error}") from None
    if not isinstance(content, dict):
        raise InputError(f"cannot read {path}: it is no JSON object")
    return content


def read_faults(path: Path) -> list[FaultInterval]:
    """Read faults.csv; empty where there is no such file."""
    return _read(path, FAULTS_HEADER, FaultInterval)


def read_sensors(path: Path) -> list[SensorSummary]:
    """Read sensors.csv; empty where there is no such file."""
    return _read(path, SENSORS_HEADER, SensorSummary)


def _read(path: Path, header: Sequence[str], kind: Callable[..., _Entry]) -> list[_Entry]:
    """Read a table whose columns are the fields of the class `kind`; refuse any other table."""
    entries = []
    try:
        with Path(path).open(encoding="utf-8", newline="") as file:
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
    **dict.fromkeys(("from", "to"), time_of),
    **dict.fromkeys(("first", "last"), lambda text: time_of(text) if text else None),
    "readings": lambda text: int(text or 0),
}
"""The parsers of columns; all others are numbers, NaN where empty."""


def _number(text: str) -> float:
    return float(text) if text else math.nan


def _cell(name: str, value: object) -> object:
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
