"""Sensors that join a known network count when they have agreed with it, and reference sensors are never judged."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from checks import assert_same_recovery
from networks import Floats, fault_free, partition_small_networks, regions, update_all
from sensormend import NetworkModel
from sensormend.errors import ValueRangeError
from sensormend.model.arrays import ADMITTED, APART, JOINING, KNOWN
from sensormend.model.joining import AGREED_PERIODS, START_PERIODS, alike, complete_moments
from sensormend.model.partition import drop, extend, partition, with_hosts

SENSORS, JOINS = 20, 20


def names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number:02}" for number in range(count)]


def saved(model: NetworkModel) -> dict[str, NDArray[Any]]:
    """Return the arrays that a model saves."""
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "state.npz")
        with np.load(Path(folder) / "state.npz") as arrays:
            return dict(arrays)


def standing_of(model: NetworkModel, sensors: list[str]) -> list[int]:
    by_label = dict(zip(model.sensors, saved(model)["standing"].tolist(), strict=True))
    return [by_label[name] for name in sensors]


def by_slot(readings: Floats) -> Floats:
    """Put (sensor, slot, day) in a row of slots for each sensor."""
    return readings.transpose(0, 2, 1).reshape(len(readings), -1)


def by_day(line: Floats) -> Floats:
    return line.reshape(len(line), -1, 24).transpose(0, 2, 1)


def alternating(known: Floats, count: int) -> Floats:
    """Two values by turns, far from all others."""
    slots = np.arange(known.shape[1])
    return np.where((slots + np.arange(count)[:, None]) % 2, 30.0, 0.0)


def alternating_days(known: Floats, count: int) -> Floats:
    """Copies of the known sensors, every other day higher by ten of their usual steps."""
    step = 10 * np.abs(np.diff(known)).mean()
    return np.asarray(known[np.arange(count) % len(known)] + step * (np.arange(known.shape[1]) // 24 % 2))


def shifted(known: Floats, count: int) -> Floats:
    """Copies that go to another level a day after they joined, half of them up and half down."""
    step = 20 * np.abs(np.diff(known)).mean() * np.where(np.arange(count) % 2, 1, -1)[:, None]
    return np.asarray(known[np.arange(count) % len(known)] + step * (np.arange(known.shape[1]) >= 24 * (JOINS + 1)))


def constant(known: Floats, count: int) -> Floats:
    """One value that nothing known ever had."""
    return np.full((count, known.shape[1]), 50.0)


@pytest.mark.parametrize("count", [10, 20])
@pytest.mark.parametrize("attack", [alternating, alternating_days, shifted, constant])
@pytest.mark.parametrize("climate", ["city", "pressure", "dense"])
def test_sensors_that_join_decide_nothing_about_known_ones(
    climate: str, attack: Callable[[Floats, int], Floats], count: int
) -> None:
    known = fault_free(SENSORS, 45, climate=climate)
    made_up = by_day(attack(by_slot(known), count))
    model = NetworkModel()
    update_all(model, known[..., :JOINS], names("s", SENSORS))
    both = np.concatenate([known, made_up])[..., JOINS:]
    result = update_all(model, both, names("s", SENSORS) + names("x", count))
    assert not result.faulty[:SENSORS].any()
    assert result.wrong[:SENSORS].mean() < 1e-3
    assert result.doubtful[:SENSORS].mean() < 5e-3


def test_while_they_join_nothing_that_is_known_changes() -> None:
    known = fault_free(SENSORS, 40, climate="pressure")
    alone, joined = NetworkModel(), NetworkModel()
    labels = names("s", SENSORS)
    for model in (alone, joined):
        update_all(model, known[..., :JOINS], labels)
    made_up = np.random.default_rng(0).uniform(0, 2000, (20, 24, 20))
    for day in range(20):
        one = alone.update(known[..., JOINS + day], labels)
        other = joined.update(
            np.concatenate([known[..., JOINS + day], made_up[..., day]]), labels + names("x", 20)
        )  # fmt: skip
        np.testing.assert_array_equal(one.wrong, other.wrong[:SENSORS])
        np.testing.assert_array_equal(one.doubtful, other.doubtful[:SENSORS])
        np.testing.assert_allclose(one.expected, other.expected[:SENSORS], rtol=1e-6)
        np.testing.assert_allclose(one.cleaned, other.cleaned[:SENSORS], rtol=1e-6)
    assert not joined.counting(names("x", 20)).any()


@pytest.mark.parametrize("climate", ["city", "pressure", "dense", "sparse"])
def test_a_network_that_is_deployed_over_weeks_comes_to_know_all_its_sensors(climate: str) -> None:
    readings, sensors = fault_free(16, 90, climate=climate), names("s", 16)
    begins = np.maximum(0, 2 * (np.arange(16) - 5))
    model = NetworkModel()
    wrong = np.zeros(readings.shape, bool)
    for day in range(75):
        present = np.flatnonzero(begins <= day)
        result = model.update(readings[present, :, day], [sensors[row] for row in present])
        wrong[present, :, day] = result.wrong
    assert standing_of(model, sensors) == [KNOWN] * 9 + [ADMITTED] * 7
    assert wrong.mean() < 2e-3
    # Sensors that have joined are judged, and judge others, as any other.
    broken = readings[..., 75].copy()
    broken[[3, 12], 12:] += 60 * np.abs(np.diff(by_slot(readings))).mean()
    result = model.update(broken, sensors)
    assert result.wrong[[3, 12], 14:].mean() > 0.9
    assert not np.delete(result.wrong, [3, 12], axis=0).any()


def test_sensors_of_the_first_week_are_known_at_once() -> None:
    readings = fault_free(12, 20)
    model = NetworkModel()
    for day in range(10):
        model.update(readings[: 4 + min(day, 8), :, day], names("s", 4 + min(day, 8)))
    late = 4 + START_PERIODS
    assert standing_of(model, names("s", 12)) == [KNOWN] * late + [JOINING] * (12 - late)


def test_a_sensor_is_known_after_periods_of_agreement_and_stays_so() -> None:
    readings, labels = fault_free(13, 60), [*names("s", 12), "new"]
    model = NetworkModel()
    update_all(model, readings[:12, :, :20], labels[:12])
    seen = []
    for day in range(20, 60):
        model.update(readings[..., day], labels)
        seen += standing_of(model, ["new"])
    first = seen.index(ADMITTED)
    assert AGREED_PERIODS - 1 <= first < 20
    assert set(seen[:first]) == {JOINING}
    assert set(seen[first:]) == {ADMITTED}


def test_sensors_that_agree_only_with_each_other_are_a_network_of_their_own() -> None:
    readings = regions((12, 8), 80)
    sensors, others = names("s", 12), names("x", 8)
    model = NetworkModel()
    update_all(model, readings[:12, :, :20], sensors)
    result = update_all(model, readings[..., 20:70], sensors + others)
    assert standing_of(model, sensors) == [KNOWN] * 12
    assert standing_of(model, others) == [APART] * 8
    assert not result.faulty[:12].any()
    assert result.wrong[12:, :, 15:].mean() < 0.01
    homes = saved(model)["partitions_home"]
    assert len(set(homes[:12].tolist())) == len(set(homes[12:].tolist())) == 1
    assert homes[0] != homes[12]
    # In it, they judge each other.
    broken = readings[..., 70:72].copy()
    broken[14, 6:, :] += 6
    result = update_all(model, broken, sensors + others)
    assert result.wrong[14, 8:, 1].all()
    assert not np.delete(result.wrong, 14, axis=0).any()


def test_a_state_is_saved_and_loaded_while_sensors_join(tmp_path: Path) -> None:
    readings, labels = fault_free(16, 40), names("s", 16)
    model = NetworkModel(references=["s03"])
    update_all(model, readings[:12, :, :20], labels[:12])
    for day in range(20, 40):
        model.save(tmp_path / "state.npz")
        loaded = NetworkModel.load(tmp_path / "state.npz")
        assert loaded.references == {"s03"}
        assert_same_recovery(loaded.estimate(readings[..., day], labels), model.estimate(readings[..., day], labels))
        assert_same_recovery(loaded.update(readings[..., day], labels), model.update(readings[..., day], labels))
        model = loaded
    assert standing_of(model, labels) == [KNOWN] * 12 + [ADMITTED] * 4


def test_sensors_join_a_network_of_several_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    partition_small_networks(monkeypatch, owned=8, halo=4)
    readings, labels = fault_free(40, 60), names("s", 40)
    made_up = np.random.default_rng(0).uniform(-50, 50, (10, 24, 60))
    model = NetworkModel()
    update_all(model, readings[:30, :, :20], labels[:30])
    both = np.concatenate([readings, made_up])[..., 20:]
    result = update_all(model, both, labels + names("x", 10))
    assert standing_of(model, labels) == [KNOWN] * 30 + [ADMITTED] * 10
    assert not model.counting(names("x", 10)).any()
    assert result.wrong[:40].mean() < 2e-3


def test_a_network_whose_known_sensors_are_gone_begins_anew() -> None:
    readings = fault_free(16, 60)
    model = NetworkModel()
    update_all(model, readings[:8, :, :20], names("s", 8))
    result = update_all(model, readings[8:, :, 20:50], names("n", 8))
    assert standing_of(model, names("n", 8)) == [APART] * 8
    assert result.wrong.mean() < 0.01
    assert result.evaluated[:, 15:].all()


def test_more_than_can_be_on_trial_are_a_network_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sensormend.model.state.MOST_ON_TRIAL", 3)
    readings = fault_free(16, 60)
    model = NetworkModel()
    update_all(model, readings[:8, :, :20], names("s", 8))
    result = update_all(model, readings[..., 20:50], [*names("s", 8), *names("x", 8)])
    assert standing_of(model, names("x", 8)) == [ADMITTED] * 3 + [APART] * 5
    assert result.wrong.mean() < 0.01


def test_directions_of_sensors_that_join_count_for_nothing() -> None:
    model = NetworkModel()
    update_all(model, fault_free(12, 21)[..., :20], names("s", 12))
    assert model.counting(["s00", "x00"])[:, 0].tolist() == [True, False]
    turning = np.cumsum(np.random.default_rng(0).normal(0, 40, (20, 24)), axis=1) % 360
    with pytest.raises(ValueRangeError):
        NetworkModel().update(turning)
    both = np.concatenate([fault_free(12, 21)[..., 20], turning])
    assert not model.update(both, names("s", 12) + names("x", 20)).wrong[:12].any()
    assert model.counting(["s00", "x00"])[:, 0].tolist() == [True, False]


@settings(deadline=None, max_examples=30)
@given(st.integers(2, 6), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_former_guests_have_nothing_more_in_common_than_their_hosts_say(
    hosts: int, guests: int, seed: int
) -> None:  # fmt: skip
    random = np.random.default_rng(seed)
    channels = hosts + guests
    factors = random.normal(size=(channels, channels + 2))
    true = factors @ factors.T
    group = np.where(np.arange(channels) < hosts, 0, np.arange(channels)).astype(np.int32)
    profiles = np.zeros((channels, 1), np.float32)
    is_guest = np.arange(channels) >= hosts
    old = with_hosts(partition(profiles, group), profiles, np.zeros(channels, np.int32), is_guest, ~is_guest)
    width = old.members.shape[1]
    moments = np.zeros((len(old.members), width, width), np.float32)
    for piece, size in enumerate(old.size):
        members = old.members[piece, :size]
        moments[piece, :size, :size] = true[np.ix_(members, members)]
    new = extend(drop(old, ~is_guest), profiles, np.zeros(channels, np.int32), np.flatnonzero(is_guest))
    out = np.zeros((1, channels, channels), np.float32)
    complete_moments(old, moments, new, np.flatnonzero(is_guest), out)
    # Slowly: a guest and another, given the hosts, are independent.
    expected = true.copy()
    inner = true[:hosts, :hosts] + 0.002 * np.diag(np.diagonal(true)[:hosts])
    for one in range(hosts, channels):
        for other in range(hosts, channels):
            if one != other:
                expected[one, other] = true[one, :hosts] @ np.linalg.solve(inner, true[:hosts, other])
        # How far a guest goes is hardly known: at least as far as the median channel.
        expected[one, one] = max(true[one, one], np.median(np.diagonal(expected)[:one]))
    assert np.allclose(out[0], expected, rtol=0.02, atol=0.02 * np.abs(true).max())
    assert np.linalg.eigvalsh(out[0].astype(float)).min() > -1e-3 * np.abs(true).max()


def test_courses_with_gaps_are_compared_where_both_have_readings() -> None:
    random = np.random.default_rng(0)
    course, other = random.normal(size=(2, 24))
    gaps = course + 0.1 * random.normal(size=24)
    gaps[::3] = np.nan
    few = np.full(24, np.nan)
    few[:5] = course[:5]
    assert alike(np.array([course, gaps, few]), other[None]).tolist() == [True, True, False]
    assert alike(np.array([course, gaps]), course[None] * 2).tolist() == [False, False]
    assert alike(course[None], np.empty((0, 24))).tolist() == [False]


@pytest.mark.parametrize("damage", ["offset", "drift", "noise", "stuck", "far", "spikes"])
def test_a_reference_is_never_judged(damage: str) -> None:
    readings, labels = fault_free(8, 60).copy(), names("s", 8)
    part = readings[2, :, 30:]
    days = np.arange(30) + np.arange(24)[:, None] / 24
    readings[2, :, 30:] = {
        "offset": part + 8,
        "drift": part + days,
        "noise": part + np.random.default_rng(0).normal(0, 6, part.shape),
        "stuck": np.full_like(part, part[0, 0]),
        "far": part + 400,
        "spikes": np.where(np.random.default_rng(0).random(part.shape) < 0.03, part + 30, part),
    }[damage]
    reference, plain = NetworkModel(references=["s02"]), NetworkModel()
    result = update_all(reference, readings, labels)
    assert not result.wrong[2].any()
    assert not result.doubtful[2].any()
    assert all(fault.sensor != "s02" for fault in result.faults)
    np.testing.assert_array_equal(result.cleaned[2], readings[2])
    assert update_all(plain, readings, labels).wrong[2].any()


def test_a_reference_says_which_of_two_is_wrong() -> None:
    readings = fault_free(2, 60).copy()
    readings[1, :, 40:] += 12
    plain = update_all(NetworkModel(), readings, ["a", "b"])
    for reference, other in (("a", 1), ("b", 0)):
        result = update_all(NetworkModel(references=[reference]), readings, ["a", "b"])
        assert not result.wrong[1 - other].any()
        if other == 1:
            assert result.wrong[1, :, 41:].mean() > 0.95
            # By its own past alone it is taken as its new level.
            assert result.wrong[1].sum() > plain.wrong[1].sum()


def test_a_reference_that_joins_is_known_at_once() -> None:
    readings, labels = fault_free(13, 30), [*names("s", 12), "new"]
    model = NetworkModel(references=["new"])
    update_all(model, readings[:12, :, :20], labels[:12])
    model.update(readings[..., 20], labels)
    assert standing_of(model, ["new"]) == [KNOWN]


def test_a_sensor_that_becomes_a_reference_is_judged_no_more() -> None:
    readings, labels = fault_free(8, 60).copy(), names("s", 8)
    readings[2, :, 30:] += 8
    model = NetworkModel()
    assert update_all(model, readings[..., :40], labels).wrong[2].any()
    model.references = ["s02"]
    result = update_all(model, readings[..., 40:], labels)
    assert not result.wrong[2].any()
    assert not result.doubtful[2].any()


def test_a_newcomer_of_another_season_is_not_judged_by_sensors_that_have_ended() -> None:
    random, days, change = np.random.default_rng(1), 60, 30
    course = np.zeros(days * 24)
    for t, step in enumerate(random.normal(0, 0.1, course.size)):
        course[t] = 0.97 * course[t - 1] + step
    series = np.full((5, course.size), np.nan)
    series[:4, : change * 24] = 8 + 0.3 * np.arange(4)[:, None] + course[: change * 24]
    series[:4] += 0.1 * random.normal(size=(4, course.size))
    series[4, change * 24 :] = -6 + 0.2 * course[change * 24 :]
    model = NetworkModel()
    wrong = [model.update(series[:, day * 24 : (day + 1) * 24]).wrong[4] for day in range(days)]
    assert not np.concatenate(wrong).any()


def test_the_level_of_a_sensor_that_was_silent_for_months_starts_over() -> None:
    """Deep soil lags behind the others: in spring it is not where its winter and their spring say."""
    random, days = np.random.default_rng(2), 240
    hours = np.arange(days * 24)
    season = -8 * np.cos(hours / 24 / 365 * 2 * np.pi)
    weather = np.zeros(hours.size)
    for t, step in enumerate(random.normal(0, 0.1, hours.size)):
        weather[t] = 0.98 * weather[t - 1] + step
    series = 10 + season + weather + 0.05 * random.normal(size=(8, hours.size))
    deep = -8 * np.cos((hours / 24 - 50) / 365 * 2 * np.pi)
    series[0] = 10 + deep + 0.6 * weather + 0.05 * random.normal(size=hours.size)
    series[0, 60 * 24 : 150 * 24] = np.nan
    model = NetworkModel()
    wrong = [model.update(series[:, day * 24 : (day + 1) * 24]).wrong[0] for day in range(days)]
    assert np.concatenate(wrong[150:160]).mean() < 0.05


def test_sensors_that_were_away_together_come_back_as_they_were() -> None:
    random, days = np.random.default_rng(3), 120
    hours = np.arange(days * 24)
    weather = np.zeros(hours.size)
    for t, step in enumerate(random.normal(0, 0.1, hours.size)):
        weather[t] = 0.98 * weather[t - 1] + step
    series = 10 - 8 * np.cos(hours / 24 / 365 * 2 * np.pi) + weather + 0.05 * random.normal(size=(8, hours.size))
    series[:, 30 * 24 : 90 * 24] = np.nan
    # One has a fault when they are taken out, so that its level would be the only one to stay.
    series[0, 29 * 24 : 30 * 24] += 6
    model = NetworkModel()
    wrong = [model.update(series[:, day * 24 : (day + 1) * 24]).wrong for day in range(days)]
    assert np.concatenate(wrong[90:], axis=1).mean() < 0.01
