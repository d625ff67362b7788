"""Simulated networks that are hard to clean; nothing in them is wrong.

Each function returns the true readings as (sensor, slot, day) or (sensor, variable, slot, day), hourly, and the same
for the same seed. Sensors report in steps, which `STEPS` has where a network's are coarse.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

__all__ = [
    "GASES",
    "HOURS",
    "barometers",
    "city_archive",
    "coarse",
    "coarse_steps",
    "copies",
    "heavy_tails",
    "motes",
    "one_sensor",
    "seasons",
    "zeros",
]

Floats = NDArray[np.float64]

HOURS = 24
GASES = 6
"""How many of the variables of `city_archive` are gases or particles; they come first."""


def _weather(random: np.random.Generator, count: int, hours: int, memory: float = 0.97) -> Floats:
    """Return courses, (course, hour), with standard deviation 1 with memory of the hour before."""
    before = 200
    noise = random.normal(0, np.sqrt(1 - memory**2), (count, before + hours))
    return np.asarray(lfilter([1.0], [1.0, -memory], noise, axis=1))[:, before:]


def _daily(hours: int) -> Floats:
    """Return a course over the day between -1 and 1, warmest at 15."""
    return np.asarray(np.cos(2 * np.pi * (np.arange(hours) - 15) / HOURS))


def _by_day(courses: Floats) -> Floats:
    """Return courses, (..., hour), as (..., slot, day)."""
    days = courses.shape[-1] // HOURS
    return np.moveaxis(courses.reshape(*courses.shape[:-1], days, HOURS), -1, -2)


def _stepped(values: Floats, step: float) -> Floats:
    """Return values rounded to a step, as a sensor reports them."""
    return np.round(values / step) * step


def _temperature(random: np.random.Generator, sensors: int, hours: int) -> Floats:
    common, own = _weather(random, 1, hours), _weather(random, sensors, hours, 0.8)
    level = random.normal(0, 1.5, (sensors, 1))
    return np.asarray(15 + level + 4 * _daily(hours) + 4 * common + 0.5 * own)


def _bursts(random: np.random.Generator, sensors: int, hours: int, level: float) -> Floats:
    """Return a gas, (sensor, hour): a log-normal common course, and hours of smoke at single sensors."""
    common, own = _weather(random, 1, hours), _weather(random, sensors, hours, 0.7)
    share = random.normal(0, 0.2, (sensors, 1))
    smoke = lfilter(
        [1.0], [1.0, -0.6], (random.random((sensors, hours)) < 0.002) * random.pareto(2.0, (sensors, hours))
    )
    return np.asarray(level * np.exp(0.8 * common + 0.25 * own + share) * (1 + smoke))


def _rain(random: np.random.Generator, sensors: int, hours: int) -> Floats:
    """Return rain, (sensor, hour), in steps of 0.1: dry in 98 of 100 hours."""
    front = _weather(random, 1, hours, 0.9) + 0.25 * _weather(random, sensors, hours, 0.5)
    edge = np.quantile(front, 0.98)
    return _stepped(np.maximum(front - edge, 0) * random.gamma(1.0, 8.0, (sensors, hours)), 0.1)


def city_archive(days: int = 30, seed: int = 0) -> Floats:
    """Return twelve stations with eleven variables, (12, 11, slot, day), of which three are copies of others.

    Six gases with heavy tails, temperature, pressure, dew point, rain and wind speed. The stations with no weather
    instruments of their own report the weather of the nearest one: of temperature, pressure, dew point, rain and
    wind there are six different courses only, and three stations equal another one in everything.
    """
    random = np.random.default_rng(seed)
    hours, stations = HOURS * days, 12
    gases = [_stepped(_bursts(random, stations, hours, level), step)
             for level, step in ((60, 1.0), (90, 1.0), (12, 1.0), (40, 1.0), (900, 100.0), (50, 1.0))]  # fmt: skip
    temperature = _temperature(random, stations, hours)
    pressure = 1011 + 9 * _weather(random, 1, hours, 0.995) - 0.8 * _daily(hours) + random.normal(0, 1, (stations, 1))
    pressure = pressure + 0.1 * _weather(random, stations, hours, 0.9)
    dew = temperature - 3 - 4 * np.abs(_weather(random, 1, hours, 0.98)) - 0.3 * _weather(random, stations, hours, 0.8)
    wind = 1.8 * np.abs(_weather(random, 1, hours, 0.9) + 0.4 * _weather(random, stations, hours, 0.6))
    weather = [_stepped(temperature, 0.1), _stepped(pressure, 0.1), _stepped(dew, 0.1),
               _rain(random, stations, hours), _stepped(wind, 0.1)]  # fmt: skip
    truth = np.stack([*gases, *weather], axis=1)
    truth[6:, GASES:] = truth[:6, GASES:]
    truth[9:] = truth[3:6]
    return _by_day(truth)


def copies(days: int = 40, seed: int = 0) -> Floats:
    """Return a dense city of twelve temperature sensors, of which five report what another one reports."""
    random = np.random.default_rng(seed)
    truth = _stepped(_temperature(random, 12, HOURS * days), 0.1)
    truth[7:] = truth[[0, 0, 1, 2, 3]]
    return _by_day(truth)


def coarse_steps(sensors: int = 40) -> Floats:
    """Return the step of every sensor of `coarse`."""
    return np.where(np.arange(sensors) % 10 == 0, 2.0, 0.1)


def coarse(days: int = 40, seed: int = 0) -> Floats:
    """Return forty sensors indoors, one in ten of which reports in steps as large as its usual variation."""
    random = np.random.default_rng(seed)
    hours, step = HOURS * days, coarse_steps()[:, None]
    level = random.normal(0, 1, (step.size, 1))
    inside = 21 + level + _daily(hours) + 1.5 * _weather(random, 1, hours) + 0.15 * _weather(random, step.size, hours)
    return _by_day(np.round(inside / step) * step)


def zeros(days: int = 40, seed: int = 0) -> Floats:
    """Return twenty rain gauges, which read zero in 98 of 100 hours."""
    return _by_day(_rain(np.random.default_rng(seed), 20, HOURS * days))


def seasons(days: int = 1200, seed: int = 0) -> Floats:
    """Return several years of temperature: nine sensors in one valley and five in another with weather of its own."""
    random = np.random.default_rng(seed)
    hours, sizes = HOURS * days, (9, 5)
    year = -10 * np.cos(2 * np.pi * np.arange(hours) / (365.25 * HOURS))
    valley = np.repeat(4 * _weather(random, len(sizes), hours, 0.985), sizes, axis=0)
    swing = random.uniform(3, 6, (sum(sizes), 1)) * _daily(hours) * (1 + 0.03 * year)
    own = random.normal(0, 1, (sum(sizes), 1)) + 0.5 * _weather(random, sum(sizes), hours, 0.8)
    return _by_day(_stepped(10 + year + valley + swing + own, 0.1))


def heavy_tails(days: int = 40, seed: int = 0) -> Floats:
    """Return twenty sensors of fine dust: a log-normal common course with hours of smoke at single sensors."""
    return _by_day(_stepped(_bursts(np.random.default_rng(seed), 20, HOURS * days, 12.0), 0.1))


def barometers(days: int = 30, seed: int = 0) -> Floats:
    """Return sixty barometers, nearly equal up to the height at which they stand."""
    random = np.random.default_rng(seed)
    hours = HOURS * days
    common = 9 * _weather(random, 1, hours, 0.995) - 0.8 * _daily(hours)
    height = random.normal(0, 8, (60, 1))
    return _by_day(_stepped(1000 + height + common + 0.05 * _weather(random, 60, hours, 0.9), 0.1))


def motes(days: int = 40, seed: int = 0) -> Floats:
    """Return fifty sensors on batteries in a laboratory, silent (NaN) from the day on which theirs is empty.

    The first ones fall silent after a quarter of the time, and few are left at the end.
    """
    random = np.random.default_rng(seed)
    hours, count = HOURS * days, 50
    sun = np.maximum(_daily(hours), 0) * np.abs(_weather(random, 1, hours, 0.98))
    common = 21 + 1.5 * _weather(random, 1, hours, 0.99)
    truth = common + random.uniform(0, 4, (count, 1)) * sun + random.normal(0, 0.7, (count, 1))
    readings = _by_day(_stepped(truth + 0.1 * _weather(random, count, hours, 0.9), 0.01))
    last = random.integers(days // 4, days + days // 10, count)
    return np.where(np.arange(days) < last[:, None, None], readings, np.nan)


def one_sensor(days: int = 40, seed: int = 0) -> Floats:
    """Return the temperature of one sensor, which can be compared with no other."""
    return _by_day(_stepped(_temperature(np.random.default_rng(seed), 1, HOURS * days), 0.1))
