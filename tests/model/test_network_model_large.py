"""NetworkModel on networks of more than one partition: sensors join and leave, odd input, bits and units."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from checks import assert_same_recovery, assert_same_state, state
from networks import Floats, fault_free, observed_mask, partition_small_networks, update_all
from sensormend import NetworkModel
from sensormend.recovery import Recovery
from sensormend.simulate.network import city

MANY = 130
"""Sensors of most tests: four partitions."""

BASE = fault_free(100, 12)


def named(count: int) -> list[str]:
    return [f"s{number}" for number in range(count)]


@lru_cache
def spoilt() -> Floats:
    """Days of a city with faults, gaps, outages and spikes."""
    readings = city(MANY, 14, seed=4).readings
    readings.flags.writeable = False
    return readings


def walked(readings: Floats, fiber_axis: int = 1) -> Recovery:
    return update_all(NetworkModel(fiber_axis=fiber_axis), readings)


def error(result: Floats, truth: Floats, at: NDArray[np.bool_]) -> float:
    return float(np.sqrt(np.mean((result - truth)[at] ** 2)))


def test_a_network_that_grows_from_one_partition_to_several_keeps_what_it_knows() -> None:
    truth = fault_free(120, 32, seed=3)
    readings = np.where(observed_mask(0.9, truth.shape), truth, np.nan)
    readings[[3, 33], :, 20] += 9
    readings[[8, 40], :, 21] = np.random.default_rng(0).uniform(-30, 40, (2, 24))
    readings[[12, 50], :, 26:28] += 9
    model, results = NetworkModel(), []
    for day in range(32):
        count = 90 if day < 20 else 120
        results.append(model.update(readings[:count, :, day], named(count)).of_sensors(np.arange(90)))
        assert model.periods == day + 1
    wrong = np.zeros((90, 32), dtype=bool)
    wrong[[3, 33], 20] = wrong[[8, 40], 21] = True
    wrong[[12, 50], 26:28] = True
    hidden = np.isnan(readings[:90])
    result = Recovery.stack(results)
    assert result.evaluated[:, 12:].all()
    assert result.faulty[wrong].all()
    assert (result.faulty & ~wrong)[:, 8:].sum() <= 3
    before, after = (
        error(result.cleaned[..., days], truth[:90, :, days], hidden[..., days])
        for days in (slice(15, 20), slice(20, 22))
    )
    assert after < 1.5 * before


@pytest.mark.parametrize(("joined", "away", "partitioned"), [(7, range(12, 16), False), (8, range(15, 24), True)])
def test_sensors_join_leave_and_come_back(
    joined: int, away: range, partitioned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if partitioned:
        partition_small_networks(monkeypatch, owned=20, halo=12)
    random = np.random.default_rng(0)
    truth = fault_free(200, 24, seed=3)
    labels = named(200)
    model = NetworkModel()
    for day in range(24):
        # A third joins when the network is partitioned anew, or a day later; every tenth is away for some days, or
        # to the end; the order changes every day.
        present = np.arange(200)[: 140 if day < joined else 200]
        if day in away:
            present = present[present % 10 != 3]
        present = random.permutation(present)
        readings = truth[present, :, day].copy()
        if day >= 20:
            readings[[5, 50, 100]] += 10
        result = model.update(readings, [labels[index] for index in present])
        assert np.isfinite(result.cleaned).all()
        assert result.faulty.mean() < 0.05
        if day >= 20:
            assert (result.faulty | result.suspect)[[5, 50, 100]].all()
    assert sorted(model.sensors) == sorted(labels)


def test_memory_is_flat_and_sensors_without_readings_are_forgotten(tmp_path: Path) -> None:
    readings = fault_free(120, 40)
    model = NetworkModel()
    update_all(model, readings[..., :8], sensors=named(120))
    sizes = {}
    for day in range(180):
        model.update(readings[:110, :, day % 40], named(110))
        if day in (60, 179):
            sizes[day] = {name: value.nbytes for name, value in state(model, tmp_path).items() if name != "header"}
            assert sizes[day].pop("hypotheses") < 1_000_000
    assert sizes[60] == sizes[179]
    assert len(model.sensors) == 120
    silent = np.concatenate([readings[:110, :, 8], np.full((1, 24), np.nan)])
    assert model.update(silent, [*named(110), "s110"]).cleaned.shape == (111, 24)
    assert model.sensors == tuple(named(110))
    again = model.update(readings[..., 9], named(120))
    assert np.isfinite(again.cleaned).all()
    assert not again.evaluated[110:].any()
    assert again.evaluated[:110].all()


def test_several_variables_each_with_its_own_scale() -> None:
    """Temperatures and something else a thousand times as large, of 110 sensors."""
    warm, other = fault_free(110, 20, seed=3), fault_free(110, 20, seed=6)
    truth = np.stack([warm, 1000 * other + 5000], axis=1)
    readings = np.where(observed_mask(0.95, truth.shape), truth, np.nan)
    readings[4, 0, :, 15:18] += 9
    readings[9, 1, :, 17] = np.random.default_rng(0).uniform(-40000, 60000, 24)
    model = NetworkModel(fiber_axis=2)
    result = model.recover(readings)
    assert result.cleaned.shape == readings.shape
    assert result.faulty.shape == (110, 2, 20)
    assert result.faulty[4, 0, 15:18].all()
    assert not result.faulty[4, 1].any()
    assert result.faulty[9, 1, 17]
    assert not result.faulty[9, 0].any()
    assert result.faulty.sum() <= 6
    hidden = np.isnan(readings)
    hidden[..., :8] = False
    for variable, unit in ((0, 1.0), (1, 1000.0)):
        at = hidden[:, variable]
        assert error(result.cleaned[:, variable], truth[:, variable], at) < 0.8 * unit
    with_labels = NetworkModel(fiber_axis=2)
    for day in range(20):
        order = np.random.default_rng(day).permutation(110) if day else np.arange(110)
        period = with_labels.update(readings[order, ..., day], [f"s{index}" for index in order])
        np.testing.assert_array_equal(period.cleaned, result.cleaned[order, ..., day])


def test_a_silent_day_and_constant_sensors() -> None:
    readings = fault_free(MANY, 14).copy()
    readings[[10, 90]] = 12.5
    readings[20] = np.nan
    readings[..., 9] = np.nan
    result = NetworkModel().recover(readings)
    assert np.isfinite(np.delete(result.cleaned, 20, axis=0)).all()
    assert not np.isinf(result.cleaned).any()
    assert not result.faulty[:, 9].any()
    others = np.setdiff1d(np.arange(MANY), [10, 20, 90])
    assert result.faulty[others].sum() <= 3
    truth = fault_free(MANY, 14)[others]
    assert error(result.cleaned[others], truth, np.isnan(readings[others])) < 1.1 * truth[..., :9].std()


@pytest.mark.parametrize("day", [0, 3, 10])
def test_one_reading_of_1e40(day: int) -> None:
    truth = fault_free(MANY, 14)
    readings = np.where(observed_mask(0.95, truth.shape), truth, np.nan)
    plain = NetworkModel().recover(readings)
    readings[5, 7, day] = 1e40
    result = NetworkModel().recover(readings)
    assert np.isfinite(result.cleaned).all()
    if day >= 8:
        assert result.spikes[5, 7, day] or result.faulty[5, day]
        assert abs(result.cleaned[5, 7, day] - truth[5, 7, day]) < 3
    after = slice(day + 1, None)
    hidden = np.isnan(readings)[..., after]
    error_with, error_without = (error(one.cleaned[..., after], truth[..., after], hidden) for one in (result, plain))
    assert error_with < (1.2 if day != 3 else 1.6) * error_without
    assert result.faulty[:, after].sum() <= plain.faulty[:, after].sum() + 3


def test_a_network_that_never_moves() -> None:
    readings = np.full((110, 24, 8), 7.0)
    readings[2, 3, 5] = np.nan
    result = NetworkModel().recover(readings)
    np.testing.assert_allclose(result.cleaned, 7.0, atol=1e-5)
    assert not NetworkModel().recover(np.zeros((110, 24, 8))).cleaned.any()


@pytest.mark.parametrize("sender", [None, 0.0, 4.0])
def test_hours_without_any_reading_are_interpolated(sender: float | None) -> None:
    """A blackout, and one through which one sensor goes on, soundly or 4 degrees off."""
    sensors = MANY if sender is None else 50
    truth = fault_free(sensors, 26, seed=5)
    model = NetworkModel()
    model.recover(truth[..., :20])
    readings = truth[..., 20].copy()
    readings[:, 11:17] = np.nan
    if sender is not None:
        readings[7] = truth[7, :, 20] - sender
    result = model.update(readings)
    assert np.isfinite(result.cleaned).all()
    assert result.lower is not None
    assert result.upper is not None
    dark = np.zeros(readings.shape, dtype=bool)
    dark[np.arange(sensors) != 7, 11:17] = True
    assert (result.lower < result.upper)[dark].all()
    across = truth[:, [10], 20] + np.linspace(0, 1, 8)[1:-1] * (truth[:, [17], 20] - truth[:, [10], 20])
    straight = float(np.sqrt(np.mean((across - truth[:, 11:17, 20])[dark[:, 11:17]] ** 2)))
    if sender == 0:
        return
    assert error(result.cleaned, truth[..., 20], dark) < 1.5 * straight
    assert result.faulty.sum() == (sender is not None)
    after = update_all(model, truth[..., 21:])
    assert after.faulty.sum() <= 2


def test_streams_batches_and_resumed_runs_are_the_same_to_the_bit(tmp_path: Path) -> None:
    readings = spoilt()
    together, apart = NetworkModel(), NetworkModel()
    joined = Recovery.concatenate([together.update(readings[..., :5]), together.update(readings[..., 5:])])
    periods = []
    for day in range(readings.shape[-1]):
        if day in (0, 1, 7, 8, 12):
            apart.save(tmp_path / "state.npz")
            apart = NetworkModel.load(tmp_path / "state.npz") if day != 8 else apart.copy()
        periods.append(apart.update(readings[..., day]))
    assert_same_recovery(joined, Recovery.stack(periods))
    assert_same_state(state(together, tmp_path), state(apart, tmp_path))
    assert apart.sensors == tuple(range(MANY))
    again = NetworkModel(seed=0)
    assert_same_recovery(joined, again.recover(readings))
    assert joined.faulty.any()


def test_another_seed_changes_no_clear_verdict() -> None:
    readings = fault_free(MANY, 16).copy()
    readings[[5, 77], :, 12:15] += 9
    results = [NetworkModel(seed=seed).recover(readings) for seed in (0, 1)]
    for result in results:
        assert result.faulty[[5, 77], 12:15].all()
        assert result.faulty.sum() <= 2 * 3 + 2
    assert np.abs(results[0].cleaned - results[1].cleaned).max() > 0


@pytest.mark.parametrize("days", [1, 7, 12])
def test_estimate_answers_like_update_and_learns_nothing(days: int, tmp_path: Path) -> None:
    readings = spoilt()
    model = NetworkModel()
    model.update(readings[..., :days])
    before = state(model, tmp_path)
    peek = model.estimate(readings[..., days])
    assert_same_state(before, state(model, tmp_path))
    assert model.periods == days
    assert_same_recovery(peek, model.update(readings[..., days]))


def test_single_precision_finds_what_double_precision_does() -> None:
    one, other = (NetworkModel().recover(spoilt().astype(dtype)) for dtype in (np.float64, np.float32))
    clear = np.abs(one.score - 1) > 1e-3
    np.testing.assert_array_equal(one.faulty[clear], other.faulty[clear])
    # Rounding decides now and then whether a reading is wrong.
    assert np.quantile(np.abs(one.cleaned - other.cleaned), 0.99) < 1e-3 * np.nanstd(spoilt())


@pytest.mark.parametrize("sensors", [12, MANY])
def test_labels_may_come_in_any_order(sensors: int) -> None:
    readings = spoilt()[:sensors]
    one, other = NetworkModel(), NetworkModel()
    random = np.random.default_rng(0)
    for day in range(readings.shape[-1]):
        # The first day tells in which order the model knows them.
        order = random.permutation(sensors) if day else np.arange(sensors)
        expected = one.update(readings[..., day], named(sensors))
        result = other.update(readings[order, :, day], [f"s{index}" for index in order])
        assert_same_recovery(expected.of_sensors(order), result)
    assert one.sensors == other.sensors == tuple(named(sensors))


@pytest.mark.parametrize("share", [0.1, 0.2, 0.5])
def test_few_readings(share: float) -> None:
    readings = np.where(observed_mask(share, BASE.shape), BASE, np.nan)
    result = walked(readings)
    hidden = np.isnan(readings)
    hidden[..., :5] = False
    off = (result.cleaned - BASE)[hidden]
    assert np.sqrt(np.mean(off**2)) < 1.5
    assert result.faulty.sum() <= 5


def test_a_variable_without_any_reading_yet() -> None:
    readings = np.stack([BASE, 5 * BASE, np.where(observed_mask(0.5, BASE.shape), 2 * BASE, np.nan)], axis=1)
    readings[:, 1, :, :9] = np.nan
    readings[40:, 1] = np.nan
    result = walked(readings, fiber_axis=2)
    assert np.isfinite(result.cleaned[:, [0, 2]]).all()
    assert np.isnan(result.cleaned[:, 1, :, :9]).all()
    assert np.isfinite(result.cleaned[:40, 1, :, 9:]).all()
    assert not np.isinf(result.cleaned).any()
    assert result.faulty.sum() <= 3
    assert np.abs(result.cleaned[:, 2] - 2 * BASE)[..., 5:].mean() < 1


@pytest.mark.parametrize("slots", [1, 3, 96])
def test_periods_of_any_length(slots: int) -> None:
    readings = np.repeat(BASE, 4, axis=1) if slots == 96 else BASE[:, :slots]
    result = walked(readings)
    np.testing.assert_array_equal(result.cleaned[~result.wrong], readings[~result.wrong])
    assert result.faulty.sum() <= 8


def test_sensors_that_equal_each_other() -> None:
    twins = np.concatenate([BASE[:50], BASE[:50]])
    for readings in (twins, np.repeat(BASE[:1], 100, axis=0), np.concatenate([BASE[:50], -BASE[:50]])):
        result = walked(np.where(observed_mask(0.95, readings.shape), readings, np.nan))
        assert np.isfinite(result.cleaned).all()
        assert result.faulty.sum() <= 3


def test_a_network_that_was_partitioned_anew_knows_its_sensors_on_the_same_day() -> None:
    """After period 7 there are new partitions; sensors 0.1 degrees apart still fill each other's gaps."""
    truth = BASE[:1] + np.random.default_rng(1).normal(0, 0.1, BASE.shape)
    readings = np.where(observed_mask(0.95, BASE.shape), truth, np.nan)
    result = walked(readings)
    for day in range(3, 12):
        assert np.abs(result.cleaned - truth)[..., day][np.isnan(readings[..., day])].mean() < 0.2


def test_one_sensor_of_a_hundred_reports() -> None:
    readings = BASE.copy()
    readings[1:] = np.nan
    result = walked(readings)
    np.testing.assert_array_equal(result.cleaned[0], readings[0])
    assert not np.isinf(result.cleaned).any()
    assert not result.faulty.any()
    assert np.isnan(walked(np.full_like(readings, np.nan)).cleaned).all()
