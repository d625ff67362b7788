"""A file of readings to try things on: a simulated city as a logger would have written it down."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sensormend.errors import ConfigError
from sensormend.files import write_beside
from sensormend.simulate.network import Network, city

__all__ = ["write_example"]

JITTER = 20.0
"""Seconds, a standard deviation: clocks that were set once and left alone."""

FILL, FILL_SHARE = -999.0, 0.3
"""What the logger writes for a part of what it did not get; of a sensor that is silent for a day it writes nothing."""

REPEATED, CHANGED = 0.004, 0.0004
"""Shares of the readings that were sent twice, and of those that were sent again with another value."""

DELAY_HOURS = 6.0
"""How late a reading is written down, in the mean: rows come in no order."""


def write_example(path: str | os.PathLike[str], *, sensors: int = 20, days: int = 90, seed: int = 0) -> int:
    """Write hourly temperatures of a simulated city as CSV, with all that real ones have, and return how many rows.

    Columns sensor, time, value, latitude and longitude. There are sensors that break and fall silent, times beside the
    full hour, fill values, readings that come twice, some of these with another value, and rows in no order.

    Parameters
    ----------
    path
        A file that is not there yet.
    sensors, days, seed
        As for `sensormend.simulate.network.city`.
    """
    path = Path(path)
    if path.exists():
        raise ConfigError(f"{path} is there already; name a file that is not")
    if seed < 0:
        raise ConfigError(f"--seed is 0 or more, not {seed}")
    network = city(sensors, days, seed=seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    with write_beside(path) as file:
        file.write("sensor,time,value,latitude,longitude\n")
        for line in _lines(network, np.random.default_rng([seed, 4])):
            file.write(line)
            written += 1
    return written


def _lines(network: Network, random: np.random.Generator) -> Iterator[str]:
    sensors, slots, days = network.readings.shape
    value = np.moveaxis(network.readings, 1, 2).reshape(sensors, days * slots)
    hour = network.times.T.reshape(-1).astype("datetime64[s]")
    silent = np.repeat(np.isnan(network.readings).all(axis=1), slots, axis=1)
    value = np.where(np.isnan(value) & ~silent & (random.random(value.shape) < FILL_SHARE), FILL, value)
    who, when = np.nonzero(np.isfinite(value))
    jitter = np.clip(random.normal(0, JITTER, who.size), -90, 90).astype("timedelta64[s]")
    time, number = hour[when] + jitter, value[who, when]
    again = np.flatnonzero(random.random(who.size) < REPEATED + CHANGED)
    other = np.where(
        random.random(again.size) < CHANGED / (REPEATED + CHANGED),
        number[again] + random.choice([-1.5, -0.5, 0.5, 1.5], again.size),
        number[again],
    )
    other = np.where(number[again] == FILL, FILL, other)
    who, time, number = np.append(who, who[again]), np.append(time, time[again]), np.append(number, other)
    late = random.exponential(DELAY_HOURS * 3600, time.size).astype("timedelta64[s]")
    where = network.stations.degrees()
    for row in np.argsort(time + late, kind="stable"):
        latitude, longitude = where[who[row]]
        yield f"{network.sensors[who[row]]},{time[row]}Z,{round(number[row], 2):g},{latitude:.4f},{longitude:.4f}\n"
