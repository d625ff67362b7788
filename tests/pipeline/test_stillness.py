"""A channel that stands all but still while the others move is broken; some stand still by nature."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from oracles.stillness import Channel, still_channels
from sensormend.pipeline.cleaner import Cleaner
from sensormend.pipeline.grid import Grid
from sensormend.pipeline.stillness import LIVELY, MANY, Movements
from sensormend.readings import DAY, HOUR, REASONS, Flag, Readings

Floats = NDArray[np.float64]

STUCK = REASONS.index("stuck")
DAYS = 60


def thermometers(sensors: int = 12, days: int = DAYS, seed: int = 0) -> Floats:
    """Return the temperatures of alike sensors, (sensor, slot, day)."""
    random = np.random.default_rng(seed)
    hours, level = np.arange(24), np.zeros(days)
    for day in range(1, days):
        level[day] = 0.8 * level[day - 1] + random.normal(0, 2)
    course = 5 * np.sin(hours / 24 * 2 * np.pi)[:, None] * random.uniform(0.5, 1, days)
    noise = random.normal(0, 0.3, (sensors, 24, days))
    return course + level + 10 + random.normal(0, 1, sensors)[:, None, None] + noise


def pushed(values: Floats, variable: str = "temp", folder: Path | None = None) -> list[Floats]:
    """Return flags, reasons and cleaned values, (sensor, slot, day) each, of a cleaner in one pass."""
    sensors, slots, days = values.shape
    names = [f"s{number:02}" for number in range(sensors)]
    cleaner = Cleaner(Grid(HOUR, DAY), (variable,))
    out: list[list[Floats]] = [[], [], []]
    sensor, hour = np.repeat(np.arange(sensors), slots), np.tile(np.arange(slots), sensors)
    for day in range(days):
        value = values[..., day].ravel()
        seen = np.isfinite(value)
        time = day * DAY + hour[seen] * HOUR
        (period,) = cleaner.push(Readings(names, (variable,), sensor[seen], 0 * sensor[seen], time, value[seen]))
        if folder is not None and day == days // 2:
            cleaner.save(folder / "cleaner.npz")
            other = Cleaner(Grid(HOUR, DAY), (variable,), model=cleaner.model)
            other.restore(folder / "cleaner.npz")
            cleaner = other
        for column, name in zip(out, ("flag", "reason", "cleaned"), strict=True):
            column.append(getattr(period.rows, name).reshape(sensors, slots).astype(float))
    return [np.stack(column, axis=2) for column in out]


def test_a_disconnected_sensor_reports_noise_of_its_electronics() -> None:
    values = thermometers()
    values[3, :, 35:] = -20 + 0.03 * np.random.default_rng(1).normal(size=(24, DAYS - 35))
    flag, reason, cleaned = pushed(values)
    assert (flag[3, :, 46:] == Flag.FAIL).all()
    assert (reason[3, :, 46:] == STUCK).all()
    # It was known before: what it should read follows from the others.
    error = cleaned[3, :, 46:] - thermometers()[3, :, 46:]
    assert np.sqrt(np.mean(error**2)) < 1
    assert (flag[np.arange(12) != 3][:, :, 10:] == Flag.FAIL).mean() < 0.003


def test_within_what_the_others_read_it_counts_as_well() -> None:
    values = thermometers()
    values[3, :, 35:] = values[3].mean() + 0.02 * np.random.default_rng(1).normal(size=(24, DAYS - 35))
    assert (pushed(values)[0][3, :, 44:] == Flag.FAIL).all()


def test_what_never_moved_is_broken_where_nothing_else_reads_that_and_has_no_estimates() -> None:
    values = thermometers()
    values[3] = 94 + 0.03 * np.random.default_rng(1).normal(size=values[3].shape)
    flag, _, cleaned = pushed(values)
    assert (flag[3, :, 7:] == Flag.FAIL).all()
    assert np.isnan(cleaned[3, :, 7:]).all()


def test_what_never_moved_and_reads_what_the_others_do_may_be_buried_deeper() -> None:
    values = thermometers()
    values[3] = np.median(values) + 0.03 * np.random.default_rng(1).normal(size=values[3].shape)
    assert (pushed(values)[1][3] != STUCK).all()


def test_columns_of_a_table_without_variables_may_measure_something_else() -> None:
    values = thermometers()
    values[3] = 94 + 0.03 * np.random.default_rng(1).normal(size=values[3].shape)
    assert (pushed(values, variable="")[1][3] != STUCK).all()


def test_between_the_surface_and_the_bottom_of_a_lake_movements_lie_close_to_each_other() -> None:
    values = thermometers(14)
    depth = np.exp(-np.arange(14) / 2)[:, None, None]
    lake = 8 + depth * (values - values.mean(axis=(1, 2), keepdims=True))
    assert (pushed(lake)[1] != STUCK).all()


def test_a_frozen_river_stands_still() -> None:
    values = thermometers(days=70)
    values[3, :, 35:] = 0.01 * np.random.default_rng(1).integers(-1, 2, size=(24, 35))
    assert (pushed(values, "water_temp")[1][3] != STUCK).all()
    assert (pushed(values, "air_temp")[1][3, :, 45:] == STUCK).all()


def still_days(values: Floats, low: float, high: float, variable: str = "wind") -> NDArray[np.bool_]:
    """Return which channels stand still, (sensor, day), in a variable that is known to lie between two values."""
    movements, days = Movements.of(1), []
    ends = np.array([low]), np.array([high])
    for day in range(values.shape[2]):
        still, movements = movements.find_still(values[:, None, :, day], np.arange(len(values)), ends, (variable,))
        days.append(still[:, 0])
    return np.stack(days, axis=1)


def test_a_floor_that_others_reach_too_is_none() -> None:
    values = thermometers()
    values[:3, :, 35:] = 0.0
    assert still_days(values, -0.5, 20)[:3, 46:].all(axis=1).tolist() == [True, True, True]
    values[:5, :, 35:] = 0.0
    assert not still_days(values, -0.5, 20).any()
    # In the middle of the range there is no floor.
    assert still_days(values, -20, 20)[:5, 46:].all()


def test_rain_is_intermittent() -> None:
    random = np.random.default_rng(0)
    rain = np.where(random.random((12, 24, DAYS)) < 0.04, random.gamma(1, 2, (12, 24, DAYS)).round(1), 0.0)
    rain[3, :, 35:] = 0
    assert (pushed(rain, "rain")[1][3] != STUCK).all()


def test_when_it_moves_again_it_is_trusted_at_once() -> None:
    values = thermometers()
    sound = values[3, :, 50:].copy()
    values[3, :, 35:50] = -100 + 0.03 * np.random.default_rng(1).normal(size=(24, 15))
    flag, _, cleaned = pushed(values)
    assert (flag[3, :, 43:50] == Flag.FAIL).all()
    assert (flag[3, :, 50:] == Flag.GOOD).mean() > 0.95
    assert np.nanmedian(np.abs(cleaned[3, :, 50:] - sound)) == 0


def test_what_was_broken_from_its_start_and_then_reads_what_the_others_read_was_wrong_before() -> None:
    values = thermometers(days=80)
    values[3, :, :50] += 75
    flag, _, cleaned = pushed(values)
    assert (flag[3, :, 52:] == Flag.FAIL).mean() < 0.05
    assert np.nanmax(np.abs(cleaned[3, :, 52:] - thermometers(days=80)[3, :, 52:])) < 15


def test_small_networks_are_not_judged() -> None:
    values = thermometers(MANY - 1)
    values[3, :, 35:] = -100 + 0.03 * np.random.default_rng(1).normal(size=(24, DAYS - 35))
    assert (pushed(values)[1][3, :, 50:] != STUCK).all()


def test_a_saved_cleaner_goes_on_the_same(tmp_path: Path) -> None:
    values = thermometers()
    values[3, :, 33:] = -100 + 0.03 * np.random.default_rng(1).normal(size=(24, DAYS - 33))
    for one, other in zip(pushed(values), pushed(values, folder=tmp_path), strict=True):
        np.testing.assert_array_equal(one, other)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(MANY - 1, 14), st.sampled_from(["wind", ""]))
def test_it_is_the_oracle(seed: int, sensors: int, variable: str) -> None:
    random = np.random.default_rng(seed)
    values = thermometers(sensors, LIVELY + 20, seed).round(1)
    for sensor in range(sensors):
        part = slice(int(random.integers(0, 45)), int(random.integers(5, 50)))
        if random.random() < 0.5:
            level = random.choice([0.0, 94.0, float(np.median(values)), float(values.max()), float(values.min())])
            noise = random.choice([0.0, 0.003, 0.03, 0.3]) * random.normal(size=values[sensor, :, part].shape)
            values[sensor, :, part] = level + noise
    values[random.random(values.shape) < 0.1] = np.nan
    values[:, :, random.integers(values.shape[2])] = np.nan
    low, high = np.nanquantile(values, [0.02, 0.98]).tolist()
    movements, channels = Movements.of(1), [Channel() for _ in range(sensors)]
    for day in range(values.shape[2]):
        for channel, readings in zip(channels, values[..., day], strict=True):
            channel.add(readings)
        still, movements = movements.find_still(
            values[:, None, :, day], np.arange(sensors), (np.array([low]), np.array([high])), (variable,)
        )
        if sensors >= MANY:
            assert still[:, 0].tolist() == still_channels(channels, low, high, bool(variable))
        else:
            assert not still.any()


@pytest.mark.parametrize("sensors", [3, 20])
def test_the_order_of_sensors_changes_nothing(sensors: int) -> None:
    values = thermometers(20)
    values[3, :, 35:] = -100
    order = np.random.default_rng(0).permutation(20)[: max(sensors, 12)]
    movements, other = Movements.of(1), Movements.of(1)
    ends = np.array([-5.0]), np.array([25.0])
    for day in range(DAYS):
        rows = np.sort(order)
        one, movements = movements.find_still(values[rows, None, :, day], rows, ends, ("temp",))
        two, other = other.find_still(values[order, None, :, day], order, ends, ("temp",))
        np.testing.assert_array_equal(one[np.searchsorted(rows, order)], two)
