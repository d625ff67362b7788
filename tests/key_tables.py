"""Readings of several networks in one table, kept apart by a column."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from feeds import city_readings
from sensormend.readings import Readings

__all__ = ["rows_of", "some_networks", "write_networks", "write_one"]


def some_networks(names: Sequence[str], *, sensors: int = 5, days: int = 20) -> dict[str, Readings]:
    """Return a small city for every name, each another one; their sensors have the same names."""
    return {name: city_readings(sensors, days, seed=seed) for seed, name in enumerate(names)}


def rows_of(readings: Readings) -> list[list[str]]:
    """Return readings as a table has them: sensor, time, value."""
    times = readings.time.astype("datetime64[us]").astype("datetime64[s]")
    return [[readings.sensors[sensor], str(time), repr(float(value))]
            for sensor, time, value in zip(readings.sensor, times, readings.value, strict=True)]  # fmt: skip


def write_networks(
    path: Path, networks: Mapping[str, Readings], more: Sequence[Sequence[str]] = (), column: str = "network"
) -> Path:
    """Write one table of all networks, their rows in turn, and at its end some more rows."""
    rows = [[name, *row] for name, readings in networks.items() for row in rows_of(readings)]
    rows = sorted(rows, key=lambda row: row[2])
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([[column, "sensor", "time", "value"], *rows, *more])
    return path


def write_one(path: Path, readings: Readings) -> Path:
    """Write one network's table as it would be without the others."""
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = sorted(rows_of(readings), key=lambda row: row[1])
        csv.writer(file).writerows([["sensor", "time", "value"], *rows])
    return path
