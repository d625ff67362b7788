"""NetworkModel on simulated networks that are hard to clean, through its public interface alone.

What must hold on each of them: every number is finite and lies within what its variable has shown, a quantity that is
never negative stays so, few sound sensor-days are flagged, and none that differs by less than the sensor's step.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pytest
from numpy.typing import NDArray

import hostile
from sensormend import NetworkModel
from sensormend.recovery import Recovery

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

WARM = 10
"""Days after which the limits below hold."""

NETWORKS: dict[str, tuple[Callable[[], Floats], float]] = {
    "city_archive": (lambda: hostile.city_archive(days=24), 0.01),
    "copies": (hostile.copies, 0.01),
    "coarse": (hostile.coarse, 0.01),
    "zeros": (hostile.zeros, 0.01),
    "seasons": (lambda: hostile.seasons(days=430), 0.01),
    "heavy_tails": (hostile.heavy_tails, 0.01),
    "barometers": (hostile.barometers, 0.01),
    "motes": (hostile.motes, 0.01),
    "one_sensor": (hostile.one_sensor, 0.0),
}
"""The networks, and which share of the evaluated sensor-days after the first ten days may be flagged."""

EACH_NETWORK = pytest.mark.parametrize("name", list(NETWORKS))


@lru_cache
def truth(name: str) -> Floats:
    """Return the true readings, (sensor, variable, slot, day)."""
    values = NETWORKS[name][0]()
    values = values[:, None] if values.ndim == 3 else values
    values.flags.writeable = False
    return values


@lru_cache
def readings(name: str) -> Floats:
    """Return what arrived of them: one reading in ten is missing, and one sensor-day in fifty."""
    random = np.random.default_rng(1)
    whole = truth(name)
    missing = random.random(whole.shape) < 0.1
    missing |= random.random((*whole.shape[:2], 1, whole.shape[3])) < 0.02
    observed = np.where(missing, np.nan, whole)
    # Every variable of every sensor is there on the first day.
    observed[..., 0] = whole[..., 0]
    observed.flags.writeable = False
    return observed


def clean(values: Floats) -> Recovery:
    """Go through (sensor, variable, slot, day) day by day."""
    single = values.shape[1] == 1
    model = NetworkModel(fiber_axis=1 if single else 2)
    minibatch = values[:, 0] if single else values
    return Recovery.stack([model.update(minibatch[..., day]) for day in range(minibatch.shape[-1])])


@lru_cache
def cleaned(name: str) -> Recovery:
    """Return what becomes of a network."""
    return clean(readings(name))


def shaped(values: Floats, like: Floats) -> Floats:
    """Return a field of a recovery as (sensor, variable, slot, day)."""
    return values.reshape(like.shape)


def fibers(values: Bools, like: Floats) -> Bools:
    """Return a field of a recovery as (sensor, variable, day)."""
    return values.reshape(*like.shape[:2], like.shape[3])


def shown(values: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the least and the largest of every variable up to each day, (variable, 1, day), and its spread."""
    by_variable = np.moveaxis(values, 1, 0).reshape(values.shape[1], -1, values.shape[3])
    low = np.fmin.accumulate(np.fmin.reduce(by_variable, axis=1), axis=1)
    high = np.fmax.accumulate(np.fmax.reduce(by_variable, axis=1), axis=1)
    return low[:, None], high[:, None], np.nanstd(by_variable, axis=(1, 2))[:, None, None]


def assert_within(result: Recovery, values: Floats) -> None:
    """Assert that all numbers are finite and lie in the range that these readings have shown, within their spread."""
    low, high, margin = shown(values)
    for field in ("cleaned", "lower", "upper", "expected"):
        actual = shaped(getattr(result, field), values)
        assert np.isfinite(actual).all(), field
        assert (actual >= low - margin).all(), field
        assert (actual <= high + margin).all(), field
        never_negative = np.broadcast_to(low >= 0, actual.shape)
        assert (actual[never_negative] >= 0).all(), field


@EACH_NETWORK
def test_everything_is_finite_and_within_what_the_variable_has_shown(name: str) -> None:
    assert_within(cleaned(name), readings(name))
    lower, estimate, upper = (getattr(cleaned(name), field) for field in ("lower", "cleaned", "upper"))
    assert (lower <= estimate).all()
    assert (estimate <= upper).all()


@EACH_NETWORK
def test_readings_that_are_not_called_wrong_stay_as_they_are(name: str) -> None:
    values, result = readings(name), cleaned(name)
    trusted = np.isfinite(values) & ~result.wrong.reshape(values.shape)
    np.testing.assert_array_equal(shaped(result.cleaned, values)[trusted], values[trusted])


@EACH_NETWORK
def test_few_sound_days_are_flagged(name: str) -> None:
    values, result = readings(name), cleaned(name)
    evaluated, faulty = (fibers(verdict, values)[..., WARM:] for verdict in (result.evaluated, result.faulty))
    for variable in range(values.shape[1]):
        count = int(evaluated[:, variable].sum())
        assert int(faulty[:, variable].sum()) <= NETWORKS[name][1] * count + 1, f"variable {variable}: {count} days"
    assert faulty.sum() <= NETWORKS[name][1] * evaluated.sum()


@pytest.mark.parametrize("seed", range(1, 6))
def test_few_days_of_rain_gauges_are_flagged_whatever_the_weather(seed: int) -> None:
    """The limit of `zeros` on other seeds than the one above, which is not representative."""
    values = hostile.zeros(days=60, seed=seed)[:, None]
    missing = np.random.default_rng(1).random((*values.shape[:2], 1, values.shape[3])) < 0.02
    result = clean(np.where(missing, np.nan, values))
    assert result.faulty[:, WARM:].sum() <= 0.01 * result.evaluated[:, WARM:].sum()


def test_copies_are_flagged_no_more_than_the_others() -> None:
    faulty = cleaned("copies").faulty[:, WARM:]
    evaluated = cleaned("copies").evaluated[:, WARM:]
    twins, others = [0, 1, 2, 3, 7, 8, 9, 10, 11], [4, 5, 6]
    assert evaluated[others].mean() > 0.5
    for rows in (twins, others):
        assert faulty[rows].sum() <= 0.01 * evaluated[rows].sum() + 1


def test_nothing_within_the_resolution_is_flagged() -> None:
    values, result = readings("coarse")[:, 0], cleaned("coarse")
    step = hostile.coarse_steps()[:, None, None]
    apart = np.abs(values - result.expected) / step
    worst = np.where(np.isfinite(apart), apart, 0.0).max(axis=1)
    assert result.evaluated[:, WARM:].mean() > 0.5
    assert not (result.faulty & (worst <= 1.0)).any()
    assert not (result.spikes & (apart <= 1.0)).any()


def test_an_offset_of_half_a_step_is_no_fault_and_one_of_four_steps_is() -> None:
    values = np.array(readings("coarse"))
    step = hostile.coarse_steps()
    sensors = np.flatnonzero(step > 1)
    values[sensors[0], 0, :, 30] += 4 * step[sensors[0]]
    # Half a step more makes every second reading the next one.
    values[sensors[1], 0, ::2, 30] += step[sensors[1]]
    result = clean(values)
    assert result.faulty[sensors[0], 30]
    assert not result.faulty[sensors[1], 30]


@pytest.mark.parametrize("name", ["city_archive", "heavy_tails", "motes"])
def test_wild_readings_of_one_sensor_do_not_take_the_estimates_along(name: str) -> None:
    values, sound = np.array(readings(name)), readings(name)
    observed = np.isfinite(values[2, ..., 12:15])
    values[2, ..., 12:15] = np.where(observed, 1e6, np.nan)
    result = clean(values[..., :18])
    low, high, margin = shown(sound[..., :18])
    others = np.arange(values.shape[0]) != 2
    cleaned = shaped(result.cleaned, values[..., :18])[others]
    assert np.isfinite(cleaned).all()
    assert (cleaned >= low - margin).all()
    assert (cleaned <= high + margin).all()


def test_a_variable_is_not_changed_by_what_the_other_variables_read() -> None:
    """Pressure is the same, whatever the rain gauges of the same stations report."""
    values = np.array(readings("city_archive")[:, GAUGED, :, :14])
    other = values.copy()
    other[:, 1] = np.where(np.isfinite(other[:, 1]), 40 - 7 * other[::-1, 1], np.nan)
    other[:, 1] = np.where(np.isfinite(other[:, 1]), other[:, 1], 3.0)
    first, second = clean(values), clean(other)
    for field in ("cleaned", "lower", "upper", "expected", "faulty", "evaluated"):
        np.testing.assert_array_equal(getattr(first, field)[:, 0], getattr(second, field)[:, 0], err_msg=field)


GAUGED = [7, 9]
"""Pressure and rain of `city_archive`."""
