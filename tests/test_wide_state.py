"""AutoOLRTR's state on large networks: bits, files, estimates, and the order and the unit that readings come in."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from checks import same, same_state, state
from networks import Floats, sound
from sensormend import AutoOLRTR, Recovery
from sensormend.simulate import city

MANY = 130
"""Sensors: three parts."""


@lru_cache
def spoilt() -> Floats:
    """Days of a city with faults, gaps, outages and spikes."""
    readings = city(MANY, 14, seed=4).readings
    readings.flags.writeable = False
    return readings


def named(count: int) -> list[str]:
    return [f"s{number}" for number in range(count)]


def test_streams_batches_and_resumed_runs_are_the_same_to_the_bit(tmp_path: Path) -> None:
    readings = spoilt()
    together, apart = AutoOLRTR(), AutoOLRTR()
    joined = Recovery.concatenate([together.update(readings[..., :5]), together.update(readings[..., 5:])])
    periods = []
    for day in range(readings.shape[-1]):
        if day in (0, 1, 7, 8, 12):
            apart.save(tmp_path / "state.npz")
            apart = AutoOLRTR.load(tmp_path / "state.npz") if day != 8 else apart.copy()
        periods.append(apart.update(readings[..., day]))
    same(joined, Recovery.stack(periods))
    same_state(state(together, tmp_path), state(apart, tmp_path))
    assert apart._model is not None
    assert apart._model.parts is not None
    assert apart.sensors == tuple(range(MANY))
    again = AutoOLRTR(seed=0)
    same(joined, again.recover(readings))
    assert joined.faulty.any()


def test_another_seed_changes_no_clear_verdict() -> None:
    readings = sound(MANY, 16).copy()
    readings[[5, 77], :, 12:15] += 9
    results = [AutoOLRTR(seed=seed).recover(readings) for seed in (0, 1)]
    for result in results:
        assert result.faulty[[5, 77], 12:15].all()
        assert result.faulty.sum() <= 2 * 3 + 2
    assert np.abs(results[0].cleaned - results[1].cleaned).max() > 0


@pytest.mark.parametrize("days", [1, 7, 12])
def test_estimate_answers_like_update_and_learns_nothing(days: int, tmp_path: Path) -> None:
    readings = spoilt()
    model = AutoOLRTR()
    model.update(readings[..., :days])
    before = state(model, tmp_path)
    peek = model.estimate(readings[..., days])
    same_state(before, state(model, tmp_path))
    assert model.periods == days
    same(peek, model.update(readings[..., days]))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_input_is_not_written_to_and_single_precision_stays(dtype: type) -> None:
    readings: NDArray[Any] = spoilt()[..., :9].astype(dtype)
    before = readings.copy()
    readings.flags.writeable = False
    result = AutoOLRTR().recover(readings)
    np.testing.assert_array_equal(readings, before)
    assert not np.shares_memory(result.cleaned, readings)
    for name in ("cleaned", "low_rank", "lower", "upper", "outliers", "score"):
        assert getattr(result, name).dtype == dtype, name
    trusted = np.isfinite(readings) & ~result.faulty[:, None, :] & ~result.spikes
    assert result.lower is not None
    assert result.upper is not None
    for given_back in (result.cleaned, result.lower, result.upper):
        np.testing.assert_array_equal(given_back[trusted], readings[trusted])
    replaced = np.isfinite(readings) & ~trusted
    assert replaced.any()
    assert not result.outliers[~replaced].any()
    np.testing.assert_allclose((result.cleaned + result.outliers)[replaced], readings[replaced], rtol=1e-4, atol=1e-4)
    assert (result.lower <= result.cleaned).all()
    assert (result.cleaned <= result.upper).all()


def test_single_precision_finds_what_double_precision_does() -> None:
    one, other = (AutoOLRTR().recover(spoilt().astype(dtype)) for dtype in (np.float64, np.float32))
    clear = np.abs(one.score - 1) > 1e-3
    np.testing.assert_array_equal(one.faulty[clear], other.faulty[clear])
    assert np.abs(one.cleaned - other.cleaned).max() < 1e-3 * np.nanstd(spoilt())


def test_labels_may_come_in_any_order() -> None:
    readings = spoilt()
    one, other = AutoOLRTR(), AutoOLRTR()
    random = np.random.default_rng(0)
    for day in range(readings.shape[-1]):
        # The first day tells in which order the model knows them.
        order = random.permutation(MANY) if day else np.arange(MANY)
        wanted = one.update(readings[..., day], named(MANY))
        found = other.update(readings[order, :, day], [f"s{index}" for index in order])
        same(wanted.of_sensors(order), found)
    assert one.sensors == other.sensors


def agree(one: Recovery, other: Recovery, factor: float = 1.0, shift: float = 0.0) -> None:
    """Assert that `other` is `one` in another unit, away from the threshold."""
    clear = np.abs(one.score - 1) > 0.1
    np.testing.assert_array_equal(one.faulty[clear], other.faulty[clear])
    np.testing.assert_array_equal(one.evaluated, other.evaluated)
    wanted = one.cleaned * factor + shift
    off = np.abs(other.cleaned - wanted)[np.broadcast_to((one.faulty == other.faulty)[:, None, :], wanted.shape)]
    # Rounding decides now and then who is whose neighbour.
    assert np.quantile(off, 0.99) < 2e-3 * np.nanstd(wanted)


def test_sensors_met_in_another_order_give_the_same_verdicts() -> None:
    readings = spoilt()
    order = np.random.default_rng(1).permutation(MANY)
    agree(AutoOLRTR().recover(readings).of_sensors(order), AutoOLRTR().recover(readings[order]))


@pytest.mark.parametrize(("factor", "shift"), [(1e-4, 0.0), (3e5, 0.0), (1.0, 1000.0), (1.8, -300.0)])
def test_another_unit_gives_the_same_verdicts(factor: float, shift: float) -> None:
    readings = spoilt()[..., :10]
    agree(AutoOLRTR().recover(readings), AutoOLRTR().recover(factor * readings + shift), factor, shift)
