"""Readings for the tests of `clean`: a small simulated city as columns, frames and files."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sensormend.pipeline.cleaner import CleanedPeriod, Cleaner, InMemory
from sensormend.pipeline.grid import Grid
from sensormend.readings import DAY, HOUR, Readings, Rows
from sensormend.simulate.network import Network, city

__all__ = [
    "HOURLY", "START", "all_rows", "city_readings", "mend", "small_city", "tensor_readings", "with_value",
    "write_csv",
]  # fmt: skip

HOURLY = Grid(HOUR, DAY)
START = 18_262 * DAY
"""1 January 2020."""


@lru_cache
def small_city(sensors: int = 8, days: int = 40, seed: int = 3) -> Network:
    """Return a city with faults and gaps."""
    return city(sensors, days, seed=seed)


def tensor_readings(tensor: NDArray[np.float64], start: int = START) -> Readings:
    """Return (sensor, slot, day) as hourly readings, sensor by sensor; a NaN is no reading."""
    sensors, slots, days = tensor.shape
    value = np.moveaxis(tensor, 1, 2).reshape(sensors, -1)
    time = start + np.arange(slots * days, dtype=np.int64) * (DAY // slots)
    row, column = np.nonzero(np.isfinite(value))
    names = tuple(f"s{number:02d}" for number in range(sensors))
    return Readings(names, ("",), row, np.zeros(row.size, dtype=np.int64), time[column], value[row, column])


def city_readings(sensors: int = 8, days: int = 40, seed: int = 3) -> Readings:
    """Return the readings of `small_city`."""
    return tensor_readings(small_city(sensors, days, seed).readings)


def write_csv(path: Path, readings: Readings, order: NDArray[np.intp] | None = None) -> Path:
    """Write readings as a long table."""
    times = readings.time.astype("datetime64[us]").astype("datetime64[s]")
    rows = range(len(readings)) if order is None else order
    lines = [f"{readings.sensors[readings.sensor[row]]},{times[row]},{readings.value[row]!r}\n" for row in rows]
    path.write_text("sensor,time,value\n" + "".join(lines).replace("np.float64(", "").replace(")", ""))
    return path


def mend(readings: Readings, cleaner: Cleaner) -> Iterator[CleanedPeriod]:
    """Yield what the cleaner makes of the readings, period by period."""
    source = InMemory(readings, cleaner.grid)
    for period in source.periods:
        yield from cleaner.push(source.read(period))


def all_rows(readings: Readings, cleaner: Cleaner | None = None) -> Rows:
    """Return all the rows that a cleaner makes of the readings."""
    return Rows.concatenate([mended.rows for mended in mend(readings, cleaner or Cleaner(HOURLY))])


def with_value(readings: Readings, sensor: int, day: int, hour: int, value: float) -> Readings:
    """Return the readings with another value in one of them."""
    values = readings.value.copy()
    values[(readings.sensor == sensor) & (readings.time == START + day * DAY + hour * HOUR)] = value
    return Readings(readings.sensors, readings.variables, readings.sensor, readings.variable, readings.time, values)
