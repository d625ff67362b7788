"""Sources loaded into a temporary `Staging`, and readings as plain tuples to compare."""

from __future__ import annotations

import csv
import math
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sensormend.io.staging import Staging
from sensormend.pipeline.options import Options
from sensormend.readings import Readings

__all__ = ["Reading", "as_list", "as_set", "rejects", "staged", "staged_text"]

Reading = tuple[str, str, int, float | None]
"""Sensor, variable, time, value; None for a reading without a number."""


@contextmanager
def staged(source: Any, options: Options | None = None) -> Iterator[Staging]:
    """Load a source into a temporary folder."""
    with tempfile.TemporaryDirectory() as folder, Staging(Path(folder)) as staging:
        staging.load(source, options)
        yield staging


@contextmanager
def staged_text(text: str | bytes, options: Options | None = None, name: str = "readings.csv") -> Iterator[Staging]:
    """Load one file with this text."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        with staged(path, options) as staging:
            yield staging


def as_list(readings: Readings) -> list[Reading]:
    """Return readings in their order."""
    return [
        (readings.sensors[s], readings.variables[q], int(t), None if math.isnan(v) else float(v))
        for s, q, t, v in zip(readings.sensor, readings.variable, readings.time, readings.value, strict=True)
    ]


def as_set(readings: Readings) -> set[Reading]:
    """Return readings without their order."""
    listed = as_list(readings)
    assert len(set(listed)) == len(listed)
    return set(listed)


def rejects(staging: Staging) -> list[tuple[int, str, str]]:
    """Return (row, reason, line) of what was rejected, as written."""
    path = staging.folder / "rejected.csv"
    staging.write_rejected(path)
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == staging.rejected
    return [(int(row["row"]), row["reason"], row["line"]) for row in rows]
