from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sensormend.auto.scales import DECIDE, Scales, looks_circular
from sensormend.simulate import city

Floats = NDArray[np.float64]
SEEDS = st.integers(0, 2**32 - 1)
ONE = np.zeros(1, dtype=np.intp)


def learned(readings: Floats, bend: float = 0.0) -> Scales:
    """Scales of one variable after a period (sensor, slot), bent where asked for."""
    scales = Scales.unknown(1)
    scales.learn(readings[:, None, :])
    if bend:
        scales.bend[0] = bend
    return scales


def decided(readings: Floats) -> Scales:
    """Scales after (sensor, slot, day), as the model learns them."""
    scales = Scales.unknown(1)
    for day in range(readings.shape[-1]):
        scales.learn(readings[:, None, :, day])
        scales.collect(readings[:, None, :, day], day + 1)
        scales = scales.bent(day + 1) or scales
    return scales


@given(SEEDS, st.sampled_from([0.0, 0.5, 20.0]), st.floats(1e-3, 1e3))
def test_forward_and_backward_undo_each_other(seed: int, bend: float, unit: float) -> None:
    random = np.random.default_rng(seed)
    readings = unit * random.lognormal(0, 1, (4, 24))
    readings[random.random(readings.shape) < 0.2] = np.nan
    scales = learned(readings, bend * unit)
    variable = np.zeros(4, dtype=np.intp)
    scaled = scales.forward(readings, variable)
    np.testing.assert_array_equal(np.isnan(scaled), np.isnan(readings))
    np.testing.assert_allclose(scales.backward(scaled, variable), readings, rtol=1e-9)


def test_a_scale_is_the_middle_and_the_usual_width() -> None:
    readings = np.random.default_rng(0).normal(1013, 7, (20, 48))
    scaled = learned(readings).forward(readings, np.zeros(20, dtype=np.intp))
    assert np.median(scaled) == pytest.approx(0, abs=1e-9)
    assert scaled.std() == pytest.approx(1, rel=0.1)


@given(SEEDS, st.floats(0.01, 100), st.floats(-300, 300))
def test_scales_follow_the_unit(seed: int, factor: float, shift: float) -> None:
    readings = np.random.default_rng(seed).normal(10, 3, (5, 24))
    moved = factor * readings + shift
    variable = np.zeros(5, dtype=np.intp)
    one, other = learned(readings), learned(moved)
    np.testing.assert_allclose(other.forward(moved, variable), one.forward(readings, variable), atol=1e-6)


def test_what_does_not_vary_has_no_scale_yet() -> None:
    for readings in (np.full((3, 24), 7.0), np.full((3, 24), np.nan)):
        scales = learned(readings)
        assert not scales.known().any()
        np.testing.assert_array_equal(
            scales.backward(scales.forward(readings, np.zeros(3, dtype=np.intp)), np.zeros(3, dtype=np.intp)), readings
        )
    scales.learn(np.arange(24.0).reshape(1, 1, 24))
    assert scales.known().all()


def test_two_values_are_enough_for_a_scale() -> None:
    mostly = np.zeros((1, 24))
    mostly[0, 3] = 2.0
    assert learned(mostly).width[0] > 0


def test_each_variable_has_its_own() -> None:
    random = np.random.default_rng(0)
    readings = np.stack([random.normal(10, 3, (6, 24)), random.normal(1013, 0.5, (6, 24))], axis=1)
    scales = Scales.unknown(2)
    scales.learn(readings)
    np.testing.assert_allclose(scales.centre, [10, 1013], rtol=0.1)
    np.testing.assert_allclose(scales.width, [3, 0.5], rtol=0.3)
    before = scales.centre.copy()
    scales.learn(readings + 50)
    np.testing.assert_array_equal(scales.centre, before)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("climate", ["skewed", "zeros"])
def test_a_long_tail_from_zero_gets_a_bend(climate: str, seed: int) -> None:
    readings = city(20, 31, seed=seed, climate=climate).readings
    scales = decided(readings)
    assert scales.bend[0] > 0
    inside = readings[np.isfinite(readings)]
    assert scales.bend[0] < np.median(inside)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("climate", ["city", "dense", "pressure", "sparse"])
def test_what_has_no_long_tail_stays_as_it_is(climate: str, seed: int) -> None:
    assert not decided(city(20, 31, seed=seed, climate=climate).readings).bend.any()


def test_a_long_tail_alone_is_not_enough() -> None:
    """Hot days are rare, but the readings of a hot day are no livelier than those of a cold one."""
    random = np.random.default_rng(0)
    readings = 1 + random.exponential(10, (1, 1, 31)) + random.normal(0, 0.3, (12, 24, 31))
    assert not decided(readings).bend.any()
    lively = readings * np.exp(random.normal(0, 0.1, readings.shape))
    assert decided(lively).bend.all()


@pytest.mark.parametrize("unit", [1e-3, 1e4])
def test_the_bend_follows_the_unit(unit: float) -> None:
    readings = city(12, 31, seed=1, climate="skewed").readings
    one, other = decided(readings), decided(unit * readings)
    assert other.bend[0] == pytest.approx(unit * one.bend[0])
    assert other.width[0] == pytest.approx(one.width[0])


def test_a_bent_quantity_never_becomes_negative_nor_infinite() -> None:
    scales = learned(np.random.default_rng(0).lognormal(0, 1, (3, 24)), bend=0.5)
    found = scales.backward(np.array([[-1e6, -3.0, 0.0, 3.0, 1e6]]), ONE)
    assert (found >= 0).all()
    assert np.isfinite(found).all()
    assert (np.diff(found) >= 0).all()


def test_the_sample_is_let_go_once_the_shape_is_decided() -> None:
    readings = city(6, DECIDE[-1] + 5, seed=0).readings
    assert decided(readings).sample.size == 0


def test_nothing_is_decided_from_too_few_readings() -> None:
    scarce = np.full((1, 24, 31), np.nan)
    scarce[0, 3] = np.random.default_rng(0).lognormal(0, 1, 31)
    assert not decided(scarce).bend.any()


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
