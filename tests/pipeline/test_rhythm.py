"""Any rhythm: what is said of a reading does not hang on where the periods are cut, and one wrong reading costs one."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars
import pytest
from numpy.typing import NDArray

from networks import Floats, fault_free
from sensormend import clean

DAYS, LEARNED, SHIFT = 80, 28, 6
START = np.datetime64("2020-01-06T00:00", "us")
"""A Monday, on which weeks begin."""
Bools = NDArray[np.bool_]


def frame(line: Floats, step: np.timedelta64, shift: int = 0) -> Any:
    """Readings (sensor, time) as a frame, their times so many hours later."""
    times = START + np.timedelta64(shift, "h") + np.arange(line.shape[1]) * step
    names = np.repeat([f"s{number:02d}" for number in range(len(line))], line.shape[1])
    return polars.DataFrame({"sensor": names, "time": np.tile(times, len(line)), "value": line.ravel()})


def flagged(rows: Any, shape: tuple[int, ...], step: np.timedelta64, shift: int = 0) -> Bools:
    """Return which readings have flag 3 or 4, as (sensor, time)."""
    sensor = np.array([int(name[1:]) for name in rows["sensor"].to_list()])
    first = START + np.timedelta64(shift, "h")
    place = (rows["time"].to_numpy().astype("datetime64[us]") - first) // step
    inside = (place >= 0) & (place < shape[1])
    flagged_cells = np.zeros(shape, dtype=bool)
    flagged_cells[sensor[inside], place[inside]] = np.isin(rows["flag"].to_numpy()[inside], (3, 4))
    return flagged_cells


def broken(seed: int, sensors: int = 12) -> tuple[Floats, list[tuple[int, int, int]]]:
    """Return hours of a city with clear faults after the first weeks, and each fault: sensor, first hour, end."""
    random = np.random.default_rng(seed)
    line = np.moveaxis(fault_free(sensors, 90, seed=seed + 1), 1, 2)[:, :DAYS].reshape(sensors, -1).copy()
    faults = []
    for sensor in range(sensors):
        begin = 30 * 24 + int(random.integers(0, 15 * 24))
        while begin < (DAYS - 3) * 24:
            length = int(random.integers(6, 60))
            part = line[sensor, begin : begin + length]
            sign = random.choice((-1.0, 1.0))
            kind = random.choice(("offset", "stuck", "noise", "drift"))
            if kind == "stuck":
                part[:] = part[0]
            elif kind == "noise":
                part += random.normal(0, 8, length)
            else:
                part += sign * (8.0 if kind == "offset" else np.linspace(3, 12, length))
            faults.append((sensor, begin, begin + length))
            begin += length + int(random.integers(5 * 24, 20 * 24))
    return line, faults


def near_a_cut(hour: int) -> bool:
    """Say whether an hour is within 6 of midnight, or of where midnight is in the shifted file."""
    return any(min((hour - cut) % 24, (cut - hour) % 24) <= SHIFT for cut in (0, 24 - SHIFT))


@pytest.mark.parametrize("shift", [SHIFT, 17])
def test_times_that_are_later_change_no_flag_of_an_archive(shift: int) -> None:
    line, _ = broken(3)
    hour = np.timedelta64(3600, "s")
    one, other = (flagged(clean(frame(line, hour, later)).data, line.shape, hour, later) for later in (0, shift))
    assert one.any()
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("seed", [0, 1, 5])
def test_in_one_pass_times_that_are_six_hours_later_change_only_what_lies_at_a_cut(seed: int) -> None:
    line, faults = broken(seed)
    hour = np.timedelta64(3600, "s")
    one, other = (
        flagged(clean(frame(line, hour, shift), one_pass=True, period="1d").data, line.shape, hour, shift)
        for shift in (0, SHIFT)
    )
    wrong = np.zeros(line.shape, dtype=bool)
    excused = np.zeros(line.shape, dtype=bool)
    for sensor, begin, end in faults:
        wrong[sensor, begin:end] = True
        if near_a_cut(begin) or near_a_cut(end):
            excused[sensor, begin - 12 : end + 12] = True
    later = np.arange(line.shape[1]) >= LEARNED * 24
    assert np.mean(one[wrong & later]) > 0.9, "the faults are found"
    assert np.mean(one[~wrong & later]) < 0.01
    differ = (one != other) & later
    assert differ.sum() < 0.005 * later.sum() * len(line)
    assert (differ & ~excused).sum() <= 0.001 * later.sum() * len(line), "all else is the same"


def slow_network(random: np.random.Generator, count: int, cycle: float, sensors: int = 10) -> Floats:
    """Return readings that share their weather and a yearly course, (sensor, time)."""
    common = 10 + 8 * np.sin(2 * np.pi * np.arange(count) / cycle) + random.normal(0, 2, count)
    return np.asarray(common + random.normal(0, 2, (sensors, 1)) + random.normal(0, 0.5, (sensors, count)))


@pytest.mark.parametrize("one_pass", [False, True])
@pytest.mark.parametrize(("days", "cycle"), [(1, 365.25), (7, 52.2)])
def test_one_wrong_day_or_week_costs_one(days: int, cycle: float, one_pass: bool) -> None:
    step = np.timedelta64(days * 86400, "s")
    random = np.random.default_rng(days)
    line = slow_network(random, 300, cycle)
    line[3, 170] = 80.0
    rows = clean(frame(line, step), one_pass=one_pass).data
    flags = flagged(rows, line.shape, step)
    assert np.argwhere(flags).tolist() == [[3, 170]]
    replaced = polars.col("origin").cast(polars.String) == "estimated"
    own = rows.filter((polars.col("sensor") == "s03") & replaced & (polars.col("n") > 0))
    assert own.height == 1, "nothing else of it is replaced"
    assert abs(own["cleaned"][0] - np.delete(line[:, 170], 3).mean()) < 6


@pytest.mark.parametrize("seed", range(4))
def test_a_wild_day_of_one_of_two_sensors_is_flagged(seed: int) -> None:
    day = np.timedelta64(86400, "s")
    line = slow_network(np.random.default_rng(seed), 300, 365.0, sensors=2)
    line[0, 170 + 11 * seed] = 80.0
    rows = flagged(clean(frame(line, day)).data, line.shape, day)
    assert rows[0, 170 + 11 * seed]
    assert rows.sum() <= 4


def test_readings_of_every_minute() -> None:
    """Six days of minutes: two of them are averaged, a wrong one costs its slot, a fault of hours is found."""
    random = np.random.default_rng(0)
    minutes = 6 * 1440
    common = 10 + 5 * np.sin(2 * np.pi * np.arange(minutes) / 1440) + np.cumsum(random.normal(0, 0.02, minutes))
    line = common + random.normal(0, 1, (6, 1)) + random.normal(0, 0.05, (6, minutes))
    line[2, 5000] = 80.0
    line[3, 6000:6300] += 5.0
    rows = clean(frame(line, np.timedelta64(60, "s"))).data
    step = np.timedelta64(120, "s")
    flags = flagged(rows, (6, minutes // 2), step)
    assert np.flatnonzero(flags[2]).tolist() == [2500]
    inside = np.flatnonzero(flags[3])
    assert (inside.min(), inside.max()) == pytest.approx((3000, 3149), abs=2)
    assert flags.sum() <= 1 + 150 + 5
