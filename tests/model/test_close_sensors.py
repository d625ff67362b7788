"""Sensors that are close to each other tell what the rest of the network cannot; set points and rain stand still."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from sensormend import NetworkModel
from sensormend.model import arrays

Floats = NDArray[np.float64]

MAST = [8, 9, 10, 11]
SLOTS, DAYS, FROM = 24, 60, 45


def stations(seed: int = 0) -> Floats:
    """Return temperatures, (sensor, slot, day): eight stations of a region, and a mast with four sensors."""
    random = np.random.default_rng(seed)

    def weather(scale: float) -> Floats:
        course = np.zeros(SLOTS * DAYS)
        for t in range(1, course.size):
            course[t] = 0.97 * course[t - 1] + random.normal(0, 0.24 * scale)
        return course.reshape(DAYS, SLOTS).T

    region = weather(4)
    places = [region + weather(0.7) for _ in range(8)]
    mast = region + weather(0.7)
    sensors = [*places, *(mast for _ in MAST)]
    return np.stack(sensors) + 5 + random.normal(0, 0.1, (12, SLOTS, DAYS)) + random.normal(0, 1, 12)[:, None, None]


def judged(readings: Floats) -> tuple[NDArray[np.bool_], Floats]:
    """Return which readings are wrong, and what is made of them, (sensor, slot, day)."""
    model = NetworkModel()
    results = [model.update(readings[:, :, day]) for day in range(readings.shape[2])]
    return np.stack([one.wrong for one in results], axis=2), np.stack([one.cleaned for one in results], axis=2)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_mast_with_weather_of_its_own_is_sound(seed: int) -> None:
    readings = stations(seed)
    readings[MAST, :, FROM:] -= 9
    wrong, cleaned = judged(readings)
    assert wrong[MAST, :, FROM:].mean() < 0.02
    assert np.abs(cleaned - readings)[MAST, :, FROM:].mean() < 0.1


@pytest.mark.parametrize("seed", [0, 1])
def test_one_sensor_of_the_mast_that_leaves_the_others_is_wrong(seed: int) -> None:
    readings = stations(seed)
    readings[MAST[0], :, FROM:] -= 9
    wrong, cleaned = judged(readings)
    assert wrong[MAST[0], :, FROM:].mean() > 0.9
    assert wrong[MAST[1:], :, FROM:].mean() < 0.02
    assert np.abs(cleaned - stations(seed))[MAST[0], :, FROM:].mean() < 1


def test_two_sensors_of_the_mast_with_different_faults_are_wrong() -> None:
    readings = stations()
    readings[MAST[0], :, FROM:] -= 9
    readings[MAST[1], :, FROM:] += 6
    wrong, _ = judged(readings)
    assert (wrong[MAST[:2], :, FROM:].mean(axis=(1, 2)) > 0.9).all()
    assert wrong[MAST[2:], :, FROM:].mean() < 0.02


def test_where_a_fifth_stand_still_each_at_its_own_value_these_are_set_points() -> None:
    readings = stations()
    readings[:3] = np.array([3.0, 7.5, 4.25])[:, None, None]
    wrong, _ = judged(readings)
    assert not wrong[:3].any()
    readings = stations()
    readings[0, :, FROM:] = 7.5
    assert judged(readings)[0][0, :, FROM + 2 :].mean() > 0.9


@pytest.mark.parametrize("sensors", [1, 12])
def test_rain_on_every_third_day_keeps_its_heaviest_day(sensors: int) -> None:
    random = np.random.default_rng(0)
    wet = random.random(700) < 0.33
    rain = np.where(wet, random.gamma(0.7, 6, 700), 0.0) * random.uniform(0.5, 1.5, (sensors, 700))
    rain[:, 500] = 96.0
    readings = rain.round(1).reshape(sensors, 100, 7).transpose(0, 2, 1)
    wrong, cleaned = judged(readings)
    assert wrong.mean() < 0.002
    assert cleaned.sum() == pytest.approx(readings.sum(), rel=0.01)


def test_where_it_rains_on_most_days_rain_is_intermittent_and_wind_that_is_calm_at_times_is_not() -> None:
    dry = np.array([0.22, 0.4, 0.1])
    numbers = np.full(3, 20), 100 * dry, np.full(3, 100.0)
    rests = arrays.is_intermittent.py_func(*numbers, np.zeros(3), np.zeros(3))
    assert rests.tolist() == [True, True, False]
    assert not arrays.is_intermittent.py_func(*numbers, np.ones(3), np.zeros(3)).any()


def test_brooks_that_are_in_flood_for_a_day_have_no_spikes() -> None:
    random = np.random.default_rng(0)
    flow = np.exp(0.3 * np.cumsum(random.normal(0, 0.15, 420)) * 0.3) * random.uniform(1, 4, (12, 1))
    flow = flow * np.exp(random.normal(0, 0.04, flow.shape))
    floods = [300, 341, 382]
    for day in floods:
        flow[random.permutation(12)[:5], day] *= random.uniform(8, 20, 5)
    lone = flow.copy()
    lone[3, 360] *= 15
    readings = lone.round(2).reshape(12, 60, 7).transpose(0, 2, 1)
    model = NetworkModel()
    results = [model.update(readings[:, :, week]) for week in range(60)]
    spikes = np.stack([one.spikes for one in results], axis=1).reshape(12, 420)
    assert spikes[:, floods].mean() < 0.2
    assert spikes[3, 360]
