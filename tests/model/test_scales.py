"""The scale of a variable, its bend where it has a long tail, and how directions are recognised."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sensormend.model.scales import SHAPE_PERIODS, find_bend, find_scale, looks_circular, neighbouring_pairs
from sensormend.simulate.network import city

Floats = NDArray[np.float64]
SEEDS = st.integers(0, 2**32 - 1)


def bend_of(readings: Floats) -> float:
    """Return the bend of (sensor, slot, day) as the model finds it: from some pairs of every day."""
    days = [neighbouring_pairs(readings[..., day]) for day in range(readings.shape[-1])]
    return find_bend(np.concatenate(days))


def test_a_scale_is_the_middle_and_the_usual_width() -> None:
    readings = np.random.default_rng(0).normal(1013, 7, 960)
    centre, width = find_scale(readings)
    assert centre == np.median(readings)
    assert width == pytest.approx(7, rel=0.1)


@given(SEEDS, st.floats(0.01, 100), st.floats(-300, 300))
def test_scales_follow_the_unit(seed: int, factor: float, shift: float) -> None:
    readings = np.random.default_rng(seed).normal(10, 3, 120)
    centre, width = find_scale(readings)
    np.testing.assert_allclose(
        find_scale(factor * readings + shift), (factor * centre + shift, factor * width), rtol=1e-6
    )


def test_two_values_are_enough_for_a_scale() -> None:
    mostly = np.zeros(24)
    mostly[3] = 2.0
    assert find_scale(mostly) == (0.0, 2.0)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("climate", ["skewed", "zeros"])
def test_a_long_tail_from_zero_gets_a_bend(climate: str, seed: int) -> None:
    readings = city(20, 31, seed=seed, climate=climate).readings
    assert 0 < bend_of(readings) < np.nanmedian(readings[readings > 0])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("climate", ["city", "dense", "pressure", "sparse"])
def test_what_has_no_long_tail_stays_as_it_is(climate: str, seed: int) -> None:
    assert bend_of(city(20, 31, seed=seed, climate=climate).readings) == 0


def test_a_long_tail_alone_is_not_enough() -> None:
    """Hot days are rare, but the readings of a hot day are no livelier than those of a cold one."""
    random = np.random.default_rng(0)
    readings = 1 + random.exponential(10, (1, 1, 31)) + random.normal(0, 0.3, (12, 24, 31))
    assert bend_of(readings) == 0
    assert bend_of(readings * np.exp(random.normal(0, 0.1, readings.shape))) > 0


@pytest.mark.parametrize("unit", [1e-3, 1e4])
def test_the_bend_follows_the_unit(unit: float) -> None:
    readings = city(12, 31, seed=1, climate="skewed").readings
    bend = bend_of(readings)
    assert bend_of(unit * readings) == pytest.approx(unit * bend)
    values = readings[np.isfinite(readings)]
    assert find_scale(unit * values, unit * bend) == pytest.approx(find_scale(values, bend))


def test_nothing_is_decided_from_too_few_readings() -> None:
    scarce = np.full((1, 24, 31), np.nan)
    scarce[0, 3] = np.random.default_rng(0).lognormal(0, 1, 31)
    assert bend_of(scarce) == 0


def test_the_pairs_of_a_period_are_few_and_neighbours() -> None:
    readings = np.arange(5000 * 24.0).reshape(5000, 24)
    pairs = neighbouring_pairs(readings)
    assert len(pairs) * (SHAPE_PERIODS[-1] + 1) <= 4096
    assert set(np.diff(pairs[np.isfinite(pairs).all(axis=1)], axis=1).ravel()) == {1.0}
    assert np.isnan(neighbouring_pairs(np.full((3, 24), np.nan))).all()


def directions(seed: int, sensors: int = 8) -> Floats:
    """Wind that turns once round in the course of a day, (sensor, slot)."""
    random = np.random.default_rng(seed)
    turn = random.uniform(0, 360) + np.linspace(0, 400, 24) + random.normal(0, 15, (sensors, 24))
    return np.asarray(turn % 360)


@pytest.mark.parametrize("seed", range(8))
def test_directions_are_known_by_their_turn_through_north(seed: int) -> None:
    assert looks_circular(directions(seed))


def test_what_merely_lies_between_0_and_360_is_no_direction() -> None:
    random = np.random.default_rng(0)
    for seed in range(5):
        for climate in ("city", "dense", "pressure", "skewed", "zeros"):
            assert not looks_circular(city(12, 1, seed=seed, climate=climate).readings[..., 0])
    assert not looks_circular(random.uniform(0, 360, (12, 24)))
    light = np.clip(1000 * np.sin(np.arange(24) / 24 * 2 * np.pi), 0, 355) * random.uniform(0.5, 1, (12, 1))
    assert not looks_circular(light)
    assert not looks_circular(np.full((3, 24), np.nan))
    assert not looks_circular(directions(0)[:1, :10])


def test_spikes_of_a_concentration_are_no_directions() -> None:
    random = np.random.default_rng(0)
    readings = np.exp(random.normal(3.5, 0.5, (40, 24)))
    readings[random.random(readings.shape) < 0.01] = 355.0
    assert not looks_circular(np.minimum(readings, 360))
    wind = (random.normal(0, 40, (40, 24)) + 10) % 360
    assert looks_circular(wind)
