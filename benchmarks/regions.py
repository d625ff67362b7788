"""False alarms in networks in which nothing is wrong: regions with weather of their own, gaps, and thin first days.

    python benchmarks/regions.py [--seeds 4] [--days 40]

Two kinds of networks, both without a fault. In *regions* each region has its own weather, which lasts for days, and
the same day and night; in a *field* what sensors read falls off smoothly with their distance. Printed are the flagged
fibers in ten thousand, on how many days in a hundred there was any, and the error of what the network expects, against
what it would be if nothing were known but each sensor's own level (1). Each network is judged whole, with half of the
readings, with one in five, and with a first day on which each sensor has one reading or two.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.signal import lfilter
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from sensormend import NetworkModel

Floats = NDArray[np.float64]
LASTING = 0.97
"""What is left of an hour's weather in the next."""

SETTLED = 8
"""Days that do not count for the error."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--days", type=int, default=40)
    args = parser.parse_args()
    if args.days <= SETTLED:
        parser.error(f"the first {SETTLED} days do not count for the error; give more")
    screen = Console(width=None if sys.stdout.isatty() else 120)
    table = Table("network", "readings", "flagged of 10,000", "days with a flag", "error")
    with threadpool_limits(1):
        for name, made in NETWORKS.items():
            networks = [made(args.days, seed) for seed in range(args.seeds)]
            for missing, spoil in GAPS.items():
                results = [walked(network, spoil(network, seed)) for seed, network in enumerate(networks)]
                flagged, days, error = (float(np.mean(column)) for column in zip(*results, strict=True))
                table.add_row(name, missing, f"{1e4 * flagged:.1f}", f"{100 * days:.0f} %", f"{error:.3f}")
                screen.print(f"{name}, {missing}: {1e4 * flagged:.1f}", style="dim")
    screen.print(table)
    return 0


def walked(truth: Floats, readings: Floats) -> tuple[float, float, float]:
    """Return the share of fibers that are flagged, of days with one, and the error."""
    model = NetworkModel()
    flags, errors = [], []
    for day in range(truth.shape[2]):
        result = model.update(readings[..., day])
        flags.append(result.faulty)
        errors.append(result.expected - truth[..., day])
    flagged = np.array(flags)
    usual = truth - truth.mean(axis=2, keepdims=True)
    error = np.sqrt(np.mean(np.square(errors[SETTLED:])) / np.mean(usual**2))
    return float(flagged.mean()), float(flagged.any(axis=1).mean()), float(error)


def regions(sizes: Sequence[int]) -> Callable[[int, int], Floats]:
    """Return what draws a network of so many sensors in each region."""

    def draw(days: int, seed: int) -> Floats:
        random = np.random.default_rng(seed)
        weather = _weather(random, len(sizes), days)
        own = lfilter([1.0], [1.0, -0.8], random.normal(0, 0.2, (sum(sizes), 24 * days)))
        return _by_day(np.repeat(weather, sizes, axis=0) + own, random)

    return draw


def field(sensors: int) -> Callable[[int, int], Floats]:
    """Return what draws a field: 300 sensors in the square of the unit, more in a larger one."""

    def draw(days: int, seed: int) -> Floats:
        random = np.random.default_rng(seed)
        places = random.random((sensors, 2)) * np.sqrt(sensors / 300)
        apart = np.sum((places[:, None] - places) ** 2, axis=2)
        across = np.linalg.cholesky(np.exp(-apart / 0.2) + 1e-4 * np.eye(sensors))
        return _by_day(0.75 * (across @ _weather(random, sensors, days)), random)

    return draw


def _weather(random: np.random.Generator, courses: int, days: int) -> Any:
    return lfilter([1.0], [1.0, -LASTING], random.normal(size=(courses, 24 * days)))


def _by_day(courses: Floats, random: np.random.Generator) -> Floats:
    """Add day and night and the sensors' own noise, and return (sensor, hour, day)."""
    hours = courses.shape[1]
    readings = 15 + 5 * np.sin(2 * np.pi * np.arange(hours) / 24) + courses + random.normal(0, 0.25, courses.shape)
    return np.asarray(readings.reshape(len(courses), -1, 24).transpose(0, 2, 1))


def _missing(share: float) -> Callable[[Floats, int], Floats]:
    def spoil(readings: Floats, seed: int) -> Floats:
        return np.where(np.random.default_rng(seed).random(readings.shape) < share, np.nan, readings)

    return spoil


def _thin_first_day(readings: Floats, seed: int) -> Floats:
    thinned = readings.copy()
    thinned[..., 0] = _missing(0.95)(readings[..., 0], seed)
    return thinned


NETWORKS = {
    "40 and 5 sensors": regions((40, 5)),
    "12 and 4": regions((12, 4)),
    "30, 10 and 10": regions((30, 10, 10)),
    "100, 50, 25, 12, 6 and 3": regions((100, 50, 25, 12, 6, 3)),
    "a field of 60": field(60),
    "a field of 300": field(300),
    "a field of 1,500": field(1500),
}
GAPS = {
    "all": lambda readings, _: readings,
    "half": _missing(0.5),
    "a fifth": _missing(0.8),
    "all but the first day": _thin_first_day,
}

if __name__ == "__main__":
    raise SystemExit(main())
