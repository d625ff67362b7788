"""AutoOLRTR on networks of more than one neighbourhood: what goes through, who joins and leaves, what is odd."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from checks import state
from networks import Floats, seen, sound, walk
from sensormend import AutoOLRTR, Recovery
from sensormend.auto.settling import ACCEPT

MANY = 130
"""Sensors of most tests: three parts."""


class OnePart(AutoOLRTR):
    """The engine for large networks on one that is small."""

    _wide = 1


def named(count: int) -> list[str]:
    return [f"s{number}" for number in range(count)]


def is_wide(model: AutoOLRTR) -> bool:
    return model._model is not None and model._model.parts is not None and model._model.hood is None


@lru_cache
def _learned(days: int) -> AutoOLRTR:
    model = AutoOLRTR()
    walk(model, sound(MANY, 40)[..., :days], sensors=named(MANY))
    return model


def learned(days: int = 20) -> AutoOLRTR:
    """Return a model of one's own that knows a sound network, with labels."""
    return _learned(days).copy()


def error(result: Floats, truth: Floats, at: NDArray[np.bool_]) -> float:
    return float(np.sqrt(np.mean((result - truth)[at] ** 2)))


def test_a_network_that_grows_from_one_neighbourhood_to_two_keeps_what_it_knows() -> None:
    truth = sound(90, 32, seed=3)[:70]
    readings = np.where(seen(0.9, truth.shape), truth, np.nan)
    readings[[3, 33], :, 20] += 9
    readings[[8, 40], :, 21] = np.random.default_rng(0).uniform(-30, 40, (2, 24))
    readings[[12, 50], :, 26:28] += 9
    crossing, always = AutoOLRTR(), OnePart()
    results: dict[AutoOLRTR, list[Recovery]] = {crossing: [], always: []}
    for model, found in results.items():
        for day in range(32):
            count = 60 if day < 20 else 70
            found.append(model.update(readings[:count, :, day], named(count)).of_sensors(np.arange(60)))
            assert is_wide(model) == (model is always or day >= 20)
            assert model.periods == day + 1
    wrong = np.zeros((60, 32), dtype=bool)
    wrong[[3, 33], 20] = wrong[[8, 40], 21] = True
    wrong[[12, 50], 26:28] = True
    hidden = np.isnan(readings[:60])
    errors = {}
    for model, found in results.items():
        whole = Recovery.stack(found)
        assert whole.evaluated[:, 12:].all()
        assert whole.faulty[wrong].all()
        assert (whole.faulty & ~wrong)[:, 8:].sum() <= 3
        errors[model] = [
            error(whole.cleaned[..., days], truth[:60, :, days], hidden[..., days])
            for days in (slice(15, 20), slice(20, 22), slice(20, 32))
        ]
    for mine, theirs in zip(errors[crossing], errors[always], strict=True):
        assert mine < 1.1 * theirs
    assert errors[crossing][1] < 1.5 * errors[crossing][0]


def test_sensors_join_leave_and_come_back() -> None:
    random = np.random.default_rng(0)
    truth = sound(200, 24, seed=3)
    labels = named(200)
    model = AutoOLRTR()
    for day in range(24):
        # A third of the sensors joins on day 7, when the network is cut anew; every tenth is away for some days.
        there = np.arange(200)[: 140 if day < 7 else 200]
        if 12 <= day < 16:
            there = there[there % 10 != 3]
        there = random.permutation(there)
        readings = truth[there, :, day].copy()
        if day >= 20:
            readings[[5, 50, 100]] += 10
        result = model.update(readings, [labels[index] for index in there])
        assert np.isfinite(result.cleaned).all()
        assert result.faulty.mean() < 0.05
        if day >= 20:
            assert result.faulty[[5, 50, 100]].all()
    assert is_wide(model)
    parts = model._model.parts if model._model else None
    assert parts is not None
    judged = [row[:core] for row, core in zip(parts.members, parts.core, strict=True)]
    assert sorted(np.concatenate(judged).tolist()) == list(range(200))


def test_newcomers_that_are_far_off_or_stuck_are_implausible() -> None:
    model = learned()
    labels = [*named(MANY), "hot", "stuck", "sound"]
    truth = sound(MANY, 40)
    for day in range(20, 26):
        extra = np.stack([truth[3, :, day] * 0 + 60 + np.random.default_rng(day).normal(0, 8, 24), np.full(24, 45.0),
                          truth[7, :, day] + 0.3])  # fmt: skip
        result = model.update(np.concatenate([truth[..., day], extra]), labels)
        assert result.faulty[MANY]
        assert result.faulty[MANY + 1]
        assert not result.faulty[MANY + 2]
        assert result.reason[MANY + 1] in ("stuck", "implausible")
        assert result.faulty[:MANY].sum() <= 2
    assert result.evaluated[MANY + 2]


def test_memory_is_flat_and_who_is_not_heard_of_for_long_is_forgotten(tmp_path: Path) -> None:
    readings = sound(70, 40)
    model = AutoOLRTR()
    walk(model, readings[..., :8], sensors=named(70))
    sizes = {}
    for day in range(180):
        model.update(readings[:66, :, day % 40], named(66))
        if day in (60, 179):
            sizes[day] = {name: value.nbytes for name, value in state(model, tmp_path).items() if name != "header"}
    assert sizes[60] == sizes[179]
    assert len(model.sensors) == 70
    silent = np.concatenate([readings[:66, :, 8], np.full((1, 24), np.nan)])
    assert model.update(silent, [*named(66), "s66"]).cleaned.shape == (67, 24)
    assert model.sensors == tuple(named(66))
    assert model._model is not None
    assert len(model._model.channels.days) == 66
    again = model.update(readings[..., 9], named(70))
    assert np.isfinite(again.cleaned).all()
    assert not again.evaluated[66:].any()
    assert again.evaluated[:66].all()


def test_several_variables_each_with_its_own_scale() -> None:
    """Temperatures and something else a thousand times as large, of 70 sensors."""
    warm, other = sound(70, 20, seed=3), sound(70, 20, seed=6)
    truth = np.stack([warm, 1000 * other + 5000], axis=1)
    readings = np.where(seen(0.95, truth.shape), truth, np.nan)
    readings[4, 0, :, 15:18] += 9
    readings[9, 1, :, 17] = np.random.default_rng(0).uniform(-40000, 60000, 24)
    model = AutoOLRTR(fiber_axis=2)
    result = model.recover(readings)
    assert all(is_wide(part) for part in model._each)
    assert result.cleaned.shape == readings.shape
    assert result.faulty.shape == (70, 2, 20)
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
    with_labels = AutoOLRTR(fiber_axis=2)
    for day in range(20):
        order = np.random.default_rng(day).permutation(70) if day else np.arange(70)
        found = with_labels.update(readings[order, ..., day], [f"s{index}" for index in order])
        np.testing.assert_array_equal(found.cleaned, result.cleaned[order, ..., day])


def test_a_silent_day_and_constant_sensors() -> None:
    readings = sound(MANY, 14).copy()
    readings[[10, 90]] = 12.5
    readings[20] = np.nan
    readings[..., 9] = np.nan
    result = AutoOLRTR().recover(readings)
    assert np.isfinite(np.delete(result.cleaned, 20, axis=0)).all()
    assert not np.isinf(result.cleaned).any()
    assert not result.faulty[:, 9].any()
    others = np.setdiff1d(np.arange(MANY), [10, 20, 90])
    assert result.faulty[others].sum() <= 3
    truth = sound(MANY, 14)[others]
    assert error(result.cleaned[others], truth, np.isnan(readings[others])) < 1.1 * truth[..., :9].std()


def test_a_network_that_never_moves() -> None:
    readings = np.full((70, 24, 8), 7.0)
    readings[2, 3, 5] = np.nan
    result = AutoOLRTR().recover(readings)
    np.testing.assert_allclose(result.cleaned, 7.0, atol=1e-5)
    assert not AutoOLRTR().recover(np.zeros((70, 24, 8))).cleaned.any()


@pytest.mark.parametrize("day", [0, 3, 10])
def test_one_reading_of_1e40(day: int) -> None:
    truth = sound(MANY, 14)
    readings = np.where(seen(0.95, truth.shape), truth, np.nan)
    plain = AutoOLRTR().recover(readings)
    readings[5, 7, day] = 1e40
    result = AutoOLRTR().recover(readings)
    assert np.isfinite(result.cleaned).all()
    if day >= 8:
        assert result.spikes[5, 7, day] or result.faulty[5, day]
        assert abs(result.cleaned[5, 7, day] - truth[5, 7, day]) < 3
    after = slice(day + 1, None)
    hidden = np.isnan(readings)[..., after]
    mine, theirs = (error(one.cleaned[..., after], truth[..., after], hidden) for one in (result, plain))
    assert mine < (1.2 if day != 3 else 1.6) * theirs
    assert result.faulty[:, after].sum() <= plain.faulty[:, after].sum() + 3


@pytest.mark.parametrize("sender", [None, 0.0, 4.0])
def test_hours_in_which_nobody_reads_are_led_across(sender: float | None) -> None:
    """A blackout, and one through which one sensor of a network of one part goes on, soundly or 4 degrees off."""
    sensors = MANY if sender is None else 50
    truth = sound(sensors, 26, seed=5)
    model = (AutoOLRTR if sender is None else OnePart)()
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
    after = walk(model, truth[..., 21:])
    assert after.faulty.sum() <= 2


def test_readings_from_earlier_times_find_the_levels_of_then() -> None:
    model = learned()
    truth = sound(MANY, 40)
    later = truth[..., 20:40].copy()
    later[30] += 8
    result = walk(model, later, sensors=named(MANY))
    assert result.faulty[30, :4].all()
    assert not result.faulty[30, int(ACCEPT[1]) + 2 :].any()
    model.rewind()
    assert model._model is not None
    channels = model._model.channels
    assert channels.former[30] == pytest.approx(-8 / model._model.scales.width[0], rel=0.3)
    assert np.isinf(channels.age).all()
    first = model.update(truth[..., 18], named(MANY))
    assert not first.faulty[30]
    model.arrive()
    assert not model._model.channels.former.any()
    assert walk(model, truth[..., 19:23], sensors=named(MANY)).faulty.sum() <= 2


def test_a_feed_that_begins_in_the_evening() -> None:
    truth = sound(MANY, 12, seed=7)
    readings = truth.copy()
    readings[:, :19, 0] = np.nan
    model = AutoOLRTR()
    first = model.update(readings[..., 0])
    assert model.periods == 0
    np.testing.assert_array_equal(first.cleaned, readings[..., 0])
    assert not first.evaluated.any()
    result = walk(model, readings[..., 1:])
    assert model.periods == 11
    assert result.faulty.sum() <= 3
    assert result.evaluated[:, 7:].mean() > 0.9
