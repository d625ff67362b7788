"""The rows and the list of faults say the same, on simulated networks with several faults."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import numpy as np
import polars
import pytest
from numpy.typing import NDArray

from networks import fault_free
from oracles.rows_and_faults import contradictions
from sensormend import clean
from sensormend.simulate.degrade import Case, degrade
from sensormend.simulate.network import city

Floats = NDArray[np.float64]
START = datetime(2020, 1, 1)


def frame(readings: Floats) -> Any:
    """Return (sensor, slot, day) as a long table."""
    line = np.moveaxis(readings, 1, 2).reshape(len(readings), -1)
    times = np.datetime64(START, "us") + np.arange(line.shape[1]) * np.timedelta64(3600, "s")
    names = np.repeat([f"s{number:02d}" for number in range(len(line))], line.shape[1])
    table = polars.DataFrame({"sensor": names, "time": np.tile(times, len(line)), "value": line.ravel()})
    return table.filter(polars.col("value").is_not_nan())


def problems_of(readings: Floats, **options: Any) -> list[str]:
    cleaned = clean(frame(readings), period="1d", **options)
    assert cleaned.faults.height > 0
    return contradictions(cleaned.data.iter_rows(named=True), cleaned.faults.iter_rows(named=True))


def with_faults(seed: int, sensors: int = 10, days: int = 60) -> Floats:
    """Return a network in which faults of all kinds overlap with each other, with gaps and with the first days."""
    random, readings = np.random.default_rng(seed), fault_free(sensors, 90)[..., :days].copy()
    line = np.moveaxis(readings, 1, 2).reshape(sensors, -1).copy()
    for _ in range(12):
        sensor, start = random.integers(sensors), random.integers(0, line.shape[1] - 48)
        length = int(random.choice([1, 2, 6, 30, 100, 400, 900]))
        span, size = slice(start, start + length), random.choice([-1, 1]) * random.uniform(1, 12)
        own = line[sensor, span]
        match random.integers(6):
            case 0 | 1:
                own += size
            case 2:
                own += size * np.arange(own.size) / own.size
            case 3:
                own[:] = own[0]
            case 4:
                own += random.normal(0, abs(size), own.size)
            case _:
                own *= 1 + size / 6
    for _ in range(8):
        sensor, start = random.integers(sensors), random.integers(0, line.shape[1])
        line[sensor, start : start + int(random.choice([3, 30, 200]))] = np.nan
    line[random.integers(sensors), : random.integers(1, 900)] = np.nan
    line[random.random(line.shape) < 0.003] += 25
    line[random.random(line.shape) < 0.05] = np.nan
    return line.reshape(sensors, days, 24).transpose(0, 2, 1)


@pytest.mark.parametrize("one_pass", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_rows_and_faults_agree(seed: int, one_pass: bool) -> None:
    assert problems_of(with_faults(seed), one_pass=one_pass) == []


@pytest.mark.parametrize("climate", ["city", "dense", "skewed", "zeros", "pressure"])
def test_they_agree_in_simulated_cities(climate: str) -> None:
    assert problems_of(city(12, 70, seed=5, climate=climate).readings) == []


@pytest.mark.parametrize("case", [Case(hourly=True, share=0.1), Case(share=0.2, outages=True), Case("drift", 0.2)])
def test_they_agree_on_injected_faults(case: Case) -> None:
    assert problems_of(degrade(fault_free(12, 90), case, 0).readings) == []


def test_limits_are_runs_of_their_own() -> None:
    assert problems_of(with_faults(11), valid={"": (-8.0, 25.0)}) == []


def line(kind: str, start: int, end: int, **more: Any) -> dict[str, Any]:
    """Return a fault from an hour to another."""
    hours = {"start": START + timedelta(hours=start), "end": START + timedelta(hours=end)}
    return {"sensor": "a", "variable": "", "reason": kind, "size": 2.0, "sentence": "a read 2.0 high."} | hours | more


def day(first: int = 0) -> list[dict[str, Any]]:
    """Return a day on which the readings of 6:00 to 12:00 are 2 too high."""
    return [
        {"sensor": "a", "time": START + timedelta(hours=hour), "value": 20.0 + hour,
         "cleaned": 20.0 + hour - 2.0 * (6 <= hour < 12), "flag": 4 if 6 <= hour < 12 else 1,
         "reason": "offset" if 6 <= hour < 12 else "", "origin": "corrected" if 6 <= hour < 12 else "observed"}
        for hour in range(first, 24)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("faults", "problem"),
    [
        ([line("offset", 6, 12)], ""),
        ([line("offset", 6, 12), line("silent", 2, 8)], ""),
        ([line("offset", 6, 11)], "lies in 0 faults"),
        ([line("offset", 6, 12), line("stuck", 11, 13)], "overlap"),
        ([line("offset", 6, 12), line("stuck", 14, 16)], "no row that is wrong or doubtful"),
        ([line("offset", 2, 12)], "before the first reading"),
        ([line("offset", 6, 12, size=-2.0)], "the corrections one of 2.0"),
        ([line("offset", 6, 12, size=9.0)], "far from the corrections"),
        ([line("drift", 6, 12, size=0.5)], "less than the resolution"),
        ([line("drift", 6, 12, sentence="a reads 2.0 low.")], "says: "),
    ],
)
def test_the_oracle_knows_each_contradiction(faults: list[dict[str, Any]], problem: str) -> None:
    problems = contradictions(day(first=4), faults)
    assert bool(problems) == bool(problem)
    assert not problem or any(problem in one for one in problems)
