"""Readings of several networks in one table, separated by a column."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from list_source import assert_same_rows, read_rows
from sensormend.files import original
from sensormend.readings import Readings
from simulated_city import city_readings

__all__ = [
    "NAMES", "assert_same_as_alone", "read_networks_csv", "rows_of", "simulated_networks", "write_networks",
    "write_one",
]  # fmt: skip

NAMES = ("north", "south", "east", "west")


def simulated_networks(names: Sequence[str], *, sensors: int = 5, days: int = 20) -> dict[str, Readings]:
    """Return a small city for every name, each with another seed; their sensors have the same names."""
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


def read_networks_csv(out: Path) -> dict[str, dict[str, str]]:
    """Return the lines of networks.csv, by network."""
    with (out / "networks.csv").open(newline="", encoding="utf-8") as file:
        return {original(row["network"]): row for row in csv.DictReader(file)}


def assert_same_as_alone(out: Path, alone: Path, names: tuple[str, ...] = NAMES) -> None:
    """Assert that every network is as if it had been cleaned alone, bit by bit."""
    lines = read_networks_csv(out)
    for name in names:
        assert lines[name]["outcome"] == "done"
        folder = out / lines[name]["folder"]
        assert_same_rows(read_rows(folder), read_rows(alone / name))
        assert {path.name for path in folder.iterdir()} == {path.name for path in (alone / name).iterdir()}
        for file in ("faults.csv", "sensors.csv"):
            assert (folder / file).read_text() == (alone / name / file).read_text()
        parquet = [path.relative_to(folder).parts[0] for path in folder.rglob("*.parquet")]
        assert set(parquet) == {"data"}
