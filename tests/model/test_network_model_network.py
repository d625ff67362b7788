"""NetworkModel when sensors join, leave and come back, in any order, few or many."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks import assert_same_recovery
from networks import LEARNED, Floats, fault_free, observed_mask, partition_small_networks, regions, update_all
from sensormend import NetworkModel
from sensormend.recovery import Recovery


def named(count: int) -> list[str]:
    return [f"s{number}" for number in range(count)]


@lru_cache
def _labelled(sensors: int) -> NetworkModel:
    model = NetworkModel()
    update_all(model, fault_free()[:sensors, :, :LEARNED], sensors=named(sensors))
    return model


def labelled(sensors: int) -> NetworkModel:
    """Return a model of one's own that has learned the first sensors of the sound network by their labels."""
    return _labelled(sensors).copy()


def test_labels_are_text_or_whole_numbers() -> None:
    model = NetworkModel()
    model.update(fault_free()[:3, :, 0], ["a", 7, np.int64(8)])
    assert model.sensors == ("a", 7, 8)


def test_a_sensor_that_joins_is_mended_at_once() -> None:
    model = labelled(12)
    labels = [*named(12), "new"]
    readings = fault_free()[:13, :, LEARNED : LEARNED + 25].copy()
    readings[12, 10:14, :5] = np.nan
    result = update_all(model, readings, sensors=labels)
    assert np.isfinite(result.cleaned).all()
    assert np.abs(result.cleaned - fault_free()[:13, :, LEARNED : LEARNED + 25])[12].max() < 4
    assert not result.evaluated[12, :4].any()
    assert result.evaluated[:12].all()
    assert result.faulty.sum() <= 1


@pytest.mark.parametrize("joins", [12, 13, 14, 15])
def test_a_sensor_that_joins_is_judged_within_ten_periods(joins: int) -> None:
    model = labelled(12)
    rows = [*range(12), joins]
    readings = fault_free()[rows, :, LEARNED : LEARNED + 16].copy()
    readings[12, :, 15] += 12
    result = update_all(model, readings, sensors=[*named(12), "new"])
    assert result.evaluated[12, 10:].all()
    # The others know little of a channel of ten periods: what is far off is doubtful at least.
    assert not result.faulty[12, :15].any()
    assert (result.wrong | result.doubtful)[12, :, 15].mean() > 0.5


def test_many_join_at_once() -> None:
    model = labelled(4)
    result = update_all(model, fault_free()[..., LEARNED : LEARNED + 15], sensors=named(16))
    assert np.isfinite(result.cleaned).all()
    assert result.faulty.sum() <= 2
    assert result.evaluated[:, 8:].mean() > 0.95


def test_a_sensor_that_is_away_has_no_rows_and_is_not_forgotten() -> None:
    model = labelled(12)
    present = [label for label in named(12) if label != "s5"]
    rows = [row for row in range(12) if row != 5]
    away = update_all(model, fault_free()[rows, :, LEARNED : LEARNED + 10], sensors=present)
    assert away.cleaned.shape == (11, 24, 10)
    assert "s5" in model.sensors
    back = update_all(model, fault_free()[:12, :, LEARNED + 10 : LEARNED + 14], sensors=named(12))
    assert back.evaluated[5].all()
    assert back.faulty.sum() <= 1
    # It is known as well as if it had been silent: the same readings, asked for with gaps.
    silent = np.array(fault_free()[:12, :, LEARNED : LEARNED + 10])
    silent[5] = np.nan
    twin = labelled(12)
    update_all(twin, silent, sensors=named(12))
    again = update_all(twin, fault_free()[:12, :, LEARNED + 10 : LEARNED + 14], sensors=named(12))
    np.testing.assert_array_equal(back.cleaned, again.cleaned)
    np.testing.assert_array_equal(back.score, again.score)


def test_a_sensor_that_comes_back_with_another_level_is_flagged() -> None:
    model = labelled(12)
    rows = [row for row in range(12) if row != 5]
    update_all(model, fault_free()[rows, :, LEARNED : LEARNED + 10], sensors=[f"s{row}" for row in rows])
    readings = fault_free()[:12, :, LEARNED + 10].copy()
    readings[5] += 9
    assert model.update(readings, named(12)).faulty[5]


def test_a_sensor_without_readings_for_long_is_forgotten() -> None:
    readings = fault_free(5, 40)
    model = NetworkModel()
    update_all(model, readings[..., :8], sensors=named(5))
    for day in range(180):
        model.update(readings[:3, :, day % 40], named(3))
        assert len(model.sensors) == 5
    # One that is named but silent is as absent as one that is not named.
    silent = np.concatenate([readings[:3, :, 8], np.full((1, 24), np.nan)])
    result = model.update(silent, [*named(3), "s3"])
    assert result.cleaned.shape == (4, 24)
    assert model.sensors == tuple(named(3))
    again = model.update(readings[..., 9], named(5))
    assert np.isfinite(again.cleaned).all()
    assert not again.evaluated[3:].any()


def test_without_labels_no_sensor_is_forgotten() -> None:
    readings = np.array(fault_free(3, 40))
    model = NetworkModel()
    update_all(model, readings[..., :6])
    readings[2] = np.nan
    for day in range(182):
        result = model.update(readings[..., day % 40])
    assert result.cleaned.shape == (3, 24)
    assert np.isfinite(result.cleaned).all()


@pytest.mark.parametrize("level", [30.0, -40.0])
def test_a_new_sensor_far_off_is_wrong_until_it_moves_with_the_others(level: float) -> None:
    """Indoors, say; later it stands outside, and is one of them."""
    model = labelled(12)
    labels = [*named(12), "indoors"]
    steady = level + np.random.default_rng(0).normal(0, 0.2, (24, 20))
    days = fault_free()[:12, :, LEARNED:]
    inside = update_all(model, np.concatenate([days[..., :20], steady[None]]), sensors=labels)
    assert inside.faulty[12].all()
    assert inside.faulty[:12].sum() <= 1
    outside = update_all(model, fault_free()[:13, :, LEARNED + 20 : LEARNED + 45], sensors=labels)
    assert not outside.faulty[12, 10:].any()
    assert outside.faulty[:12].sum() <= 1


def test_a_new_sensor_on_a_mountain_is_accepted_since_it_moves_with_the_others() -> None:
    model = labelled(12)
    readings = fault_free()[:13, :, LEARNED : LEARNED + 20].copy()
    readings[12] -= 25
    result = update_all(model, readings, sensors=[*named(12), "summit"])
    assert not result.faulty[12, 12:].any()
    assert result.faulty[:12].sum() <= 1


def test_a_large_network_is_judged_like_a_small_one(monkeypatch: pytest.MonkeyPatch) -> None:
    truth = fault_free(60, 40, seed=2)
    hidden = ~observed_mask(0.9, truth.shape)
    readings = np.where(hidden, np.nan, truth)
    readings[7, :, 30:33] += 9
    readings[33, :, 35] = np.random.default_rng(0).uniform(-30, 40, 24)
    hidden[..., :12] = False
    errors = []
    for partitioned in (False, True):
        if partitioned:
            partition_small_networks(monkeypatch)
        result = NetworkModel().recover(readings)
        assert result.faulty[7, 30:33].all()
        assert result.faulty[33, 35]
        assert result.faulty[:, 10:].mean() < 0.01
        errors.append(float(np.sqrt(np.mean((result.cleaned - truth)[hidden] ** 2))))
    assert errors[1] < 1.15 * errors[0]


def test_a_first_day_of_one_reading_each_does_not_blow_up_a_large_network() -> None:
    """A sensor that was seen once has not moved yet; no prediction from it is a million times too large."""
    readings = regions((150, 100), 9, seed=4)
    first = readings[..., 0]
    first[np.random.default_rng(0).random(first.shape) < 0.95] = np.nan
    result = update_all(NetworkModel(), readings)
    assert np.abs(result.expected - readings)[..., 1:].max() < 20
    assert result.faulty.sum() <= 2


def closely(one: Recovery, other: Recovery, factor: float = 1.0, shift: float = 0.0) -> None:
    """Assert that `other` is `one` in another unit, away from the threshold."""
    clear = np.abs(one.score - 1) > 0.2
    np.testing.assert_array_equal(one.faulty[clear], other.faulty[clear])
    np.testing.assert_array_equal(one.evaluated, other.evaluated)
    # Rounding grows on its way through the inverses and the fit of the correlation in time.
    wanted = one.cleaned * factor + shift
    size = float(np.nanstd(wanted))
    if (one.faulty == other.faulty).all():
        np.testing.assert_allclose(other.cleaned, wanted, rtol=0, atol=1e-4 * size)
        np.testing.assert_allclose(other.score, one.score, rtol=1e-3, atol=0.01)
        np.testing.assert_array_equal(other.reason, one.reason)


def faulty_network(climate: str) -> Floats:
    readings = fault_free(10, 26, seed=8, climate=climate).copy()
    readings[2, :, 20] *= 4
    readings[2, :, 20] += 20
    readings[6, :, 23] = np.random.default_rng(5).uniform(0, 90, 24)
    return np.where(observed_mask(0.92, readings.shape), readings, np.nan)


@settings(max_examples=5)
@given(st.permutations(range(10)), st.sampled_from(["city", "skewed"]))
def test_permuted_sensors_give_the_permuted_result(order: list[int], climate: str) -> None:
    readings = faulty_network(climate)
    one = NetworkModel().recover(readings)
    # Ten rain-like sensors do not tell a day of six times as much from a shower: it is doubtful there.
    noticed = one.faulty | (one.suspect if climate == "skewed" else False)
    assert noticed[2, 20]
    assert noticed[6, 23]
    labels = named(10)
    other = update_all(NetworkModel(), readings[order], sensors=[labels[index] for index in order])
    closely(one.of_sensors(np.array(order)), other)


@settings(max_examples=5)
@given(st.floats(-4, 4), st.floats(-500, 500))
def test_another_unit_gives_the_same_flags(power: float, shift: float) -> None:
    factor = 10**power
    readings = faulty_network("city")
    closely(
        NetworkModel().recover(readings), NetworkModel().recover(factor * (readings + shift)), factor, factor * shift
    )


@settings(max_examples=3)
@given(st.floats(-4, 4))
def test_a_skewed_quantity_in_another_unit(power: float) -> None:
    readings = faulty_network("skewed")
    closely(NetworkModel().recover(readings), NetworkModel().recover(10**power * readings), 10**power)


@pytest.mark.parametrize("hours", [3, 24])
def test_a_new_sensor_is_estimated_as_by_an_update(hours: int) -> None:
    today = np.where(np.arange(24) < hours, fault_free()[:13, :, LEARNED], np.nan)
    today[4, 1:] += 6
    model, labels = labelled(12), ["new", *named(12)]
    before = model.copy()
    assert_same_recovery(model.estimate(today, labels), model.copy().update(today, labels))
    # The next day's answer shows that nothing was learned.
    tomorrow = fault_free()[:12, :, LEARNED + 1]
    assert_same_recovery(model.update(tomorrow, named(12)), before.update(tomorrow, named(12)))


def test_a_new_sensor_can_be_estimated() -> None:
    model = labelled(12)
    peek = model.estimate(fault_free()[:13, :, LEARNED], [*named(12), "new"])
    assert peek.cleaned.shape == (13, 24)
    assert np.isfinite(peek.cleaned).all()
    assert model.sensors == tuple(named(12))
    assert model.periods == LEARNED
