"""Parts of simulated archives: clocks, noise, gaps, the weather of a region, soil water, snow."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

__all__ = [
    "Array",
    "Weather",
    "between",
    "count_hours",
    "count_tips",
    "find_season",
    "lagged",
    "make_clock",
    "pulses",
    "red",
    "rounded",
    "snow_depth",
    "soil_water",
    "with_gaps",
]  # fmt: skip

Array = NDArray[Any]


def make_clock(start: str, days: int, minutes: float) -> Array:
    """Return times from `start` on."""
    steps = np.arange(round(days * 1440 / minutes))
    return np.datetime64(start, "s") + (steps * round(minutes * 60)).astype("timedelta64[s]")


def count_hours(time: Array) -> Array:
    """Return hours since midnight of the first day."""
    return np.asarray((time - time[0].astype("datetime64[D]")) / np.timedelta64(1, "h"), dtype=float)


def find_season(time: Array) -> Array:
    """Return the angle of the year, 0 on the first of January."""
    return np.asarray((time - time.astype("datetime64[Y]")) / np.timedelta64(1, "D"), dtype=float) * 2 * np.pi / 365.25


def red(random: np.random.Generator, count: int, steps: float) -> Array:
    """Return red noise of unit variance with a correlation time of so many steps."""
    keep = np.exp(-1 / max(steps, 1e-3))
    shocks = random.normal(size=count) * np.sqrt(1 - keep * keep)
    return np.asarray(lfilter([1.0], [1.0, -keep], shocks, zi=[keep * random.normal()])[0])


def lagged(values: Array, steps: float) -> Array:
    """Return values behind a first-order lag."""
    keep = np.exp(-1 / max(steps, 1e-3))
    return np.asarray(lfilter([1 - keep], [1.0, -keep], values, zi=[keep * values[: max(1, int(steps))].mean()])[0])


def rounded(values: Array, step: float) -> Array:
    """Return values in the steps of a probe."""
    return np.round(np.round(np.asarray(values, dtype=float) / step) * step, 6)


def with_gaps(random: np.random.Generator, values: Array, share: float = 0.01, longest: float = 200) -> Array:
    """Return values of which a share is missing, in gaps of one to so many steps, log-uniform."""
    values = np.array(values, dtype=float)
    missing = 0
    while missing < share * values.size:
        length = int(np.exp(random.uniform(0, np.log(longest))))
        begin = int(random.integers(values.size))
        values[begin : begin + length] = np.nan
        missing += length
    return values


def between(values: Array, first: float, last: float) -> Array:
    """Return values that are missing before and after these shares of the time."""
    values = np.array(values, dtype=float)
    values[: int(first * values.size)] = np.nan
    values[int(last * values.size) :] = np.nan
    return values


def pulses(random: np.random.Generator, count: int, every: float) -> Array:
    """Return the places of events that happen once in so many steps."""
    return np.sort(random.integers(0, count, random.poisson(count / every)))


class Weather:
    """The weather of a region, which stations share in part."""

    def __init__(
        self, time: Array, random: np.random.Generator, mean: float = 9.0, season: float = 10.0, noon: float = 12.5
    ) -> None:
        self.time, self.random, self.count = time, random, time.size
        self.step = float((time[1] - time[0]) / np.timedelta64(1, "h"))
        self.hours, self.year = count_hours(time), find_season(time)
        sky = red(random, self.count, 14 / self.step) + 0.8 * red(random, self.count, 60 / self.step)
        self.cloud = 1 / (1 + np.exp(-1.6 * sky))
        declination = -0.41 * np.cos(self.year + 0.17)
        height = 0.75 * np.sin(declination) + 0.66 * np.cos(declination) * np.cos((self.hours - noon) * np.pi / 12)
        self.clear = 1050 * np.clip(height, 0, None) ** 1.15
        self.radiation = self.clear * (1 - 0.72 * self.cloud**2.5)
        fronts = 2.2 * red(random, self.count, 55 / self.step) + 2.8 * red(random, self.count, 200 / self.step)
        warmed = lagged(self.radiation, 4 / self.step) - lagged(self.radiation, 72 / self.step)
        night = -2.2 * (1 - self.cloud) * (self.clear < 5)
        self.temperature = (
            mean - season * np.cos(self.year - 0.35) + fronts + 0.018 * warmed + lagged(night, 3 / self.step)
        )
        self.wind = 3.2 * np.exp(0.55 * red(random, self.count, 9 / self.step)) * (0.8 + 0.0006 * self.radiation)
        self.direction = (
            230 + 70 * red(random, self.count, 60 / self.step) + 25 * red(random, self.count, 4 / self.step)
        )
        self.pressure = 1014 + 8 * lagged(red(random, self.count, 70 / self.step), 8 / self.step) * 1.3
        self.deficit = np.clip(2.5 + 2 * red(random, self.count, 40 / self.step) - 3 * (self.cloud - 0.5), -0.4, None)
        self.storms = [
            (place, random.gamma(2, 2.5), np.exp(random.normal(0, 0.7)))
            for place in pulses(random, self.count, 80 / self.step)
        ]

    def rain(self, random: np.random.Generator) -> Array:
        """Return the rain of a place, mm in a step: its part of all storms, and showers of its own in summer."""
        total = np.zeros(self.count)
        own = [
            (place, random.uniform(0.3, 1.2), np.exp(random.normal(1.1, 0.7)))
            for place in pulses(random, self.count, 400 / self.step)
            if np.cos(self.year[place] - 3.4) > 0
        ]
        for begin, lasting, rate in [*self.storms, *own]:
            if random.random() < 0.1:
                continue
            length = max(1, round(lasting * np.exp(random.normal(0, 0.25)) / self.step))
            start = max(0, begin + round(random.normal(0, 0.6) / self.step))
            shape = np.sin(np.pi * (np.arange(length) + 0.5) / length) * np.exp(random.normal(0, 0.8, length))
            part = total[start : start + length]
            part += (rate * np.exp(random.normal(0, 0.35)) * shape * self.step)[: part.size]
        return total

    def air(self, random: np.random.Generator) -> Array:
        """Return the air temperature of a place, with its height, its shade and its cold pool."""
        pool = -random.gamma(2, 0.5) * (1 - self.cloud) * (self.clear < 5) * np.exp(-self.wind / 3)
        sun = random.normal(0, 0.0012) * self.radiation
        local = random.uniform(0.2, 0.5) * red(random, self.count, 5 / self.step)
        drift = random.uniform(0.1, 0.35) * red(random, self.count, 500 / self.step)
        return np.asarray(
            self.temperature
            + random.normal(0, 1.3)
            + lagged(pool + sun, 2 / self.step)
            + local
            + drift
            + random.normal(0, 0.08, self.count)
        )

    def humidity(self, air: Array, random: np.random.Generator) -> Array:
        """Return the relative humidity of a place; it saturates."""
        mean = lagged(self.temperature, 30 / self.step)
        dew = np.minimum(mean - self.deficit - 1.5, air + 0.2) + 0.5 * red(random, self.count, 6 / self.step)
        raw = 100 * np.exp(17.6 * dew / (243 + dew) - 17.6 * air / (243 + air)) + random.normal(0, 0.6, self.count)
        return np.asarray(np.clip(raw + random.normal(0, 1.0), 8, 100))


def soil_water(
    arriving: Array, dry: float, field: float, depth: int, weather: Weather, random: np.random.Generator
) -> tuple[Array, Array]:
    """Return the water content of a layer and what drains from it: fronts that jump up and decay."""
    full, drain, loss = field + random.uniform(0.05, 0.14), random.uniform(0.02, 0.12), random.uniform(0.6, 1.4) / depth
    storage, water = 10.0 * max(depth, 5) * random.uniform(0.8, 1.2), field * random.uniform(0.8, 1)
    content, drained = np.empty(arriving.size), np.empty(arriving.size)
    sun = weather.radiation
    for step, inflow in enumerate(arriving.tolist()):
        out = drain * max(water - field, 0.0)
        water += inflow / storage - out - loss * 4e-6 * sun[step] * max(water - dry, 0.0) / 0.2
        excess = max(water - full, 0.0)
        water -= excess
        content[step], drained[step] = water, (out + excess) * storage
    return content, drained


def count_tips(rain: Array, size: float) -> Array:
    """Return rain in tips of a bucket."""
    return np.round(np.diff(np.floor(np.cumsum(rain) / size), prepend=0) * size, 3)


def snow_depth(fallen: Array, air: Array, step: float) -> Array:
    """Return the depth of snow, cm, from what has fallen, mm, and the air temperature."""
    depth, value = np.empty(air.size), 0.0
    for place in range(air.size):
        value += 0.9 * fallen[place] - 0.08 * max(air[place] - 0.5, 0.0) * step - 0.004 * value * step
        depth[place] = value = max(value, 0.0)
    return depth
