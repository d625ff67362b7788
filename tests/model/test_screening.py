"""Spikes are found by what they are: readings that jump out of a channel's own series and soon jump back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from oracles.screening import is_handled, roughness_of_channel, spikes_of_channel
from sensormend import NetworkModel
from sensormend.model.screening import find_handled, find_spikes, follow_habits, follow_spread, roughness_of, runs

Floats = NDArray[np.float32]

SLOTS = 96
READING = st.sampled_from([0.0, 0.5, 1.0, 4.0, 9.0, -6.0, np.nan])
"""Few values that lie on a grid of halves: sums of them are exact."""


def channel(**at: float) -> Floats:
    """Return a day of 15 minutes at 0, with readings that are given as `_SLOT`."""
    readings = np.zeros((1, SLOTS), np.float32)
    for slot, reading in at.items():
        readings[0, int(slot[1:])] = reading
    return readings


def spikes_in(readings: Floats, *, last: float = 0.0, roughness: float = 0.04, spread: float = 1.0) -> list[int]:
    """Return the slots of the spikes of a channel whose limit is 1, unless its roughness or spread are given."""
    one = [np.array([value], np.float32) for value in (last, roughness, spread)]
    return np.flatnonzero(find_spikes(readings, one[0], one[1], one[2])[0]).tolist()


@pytest.mark.parametrize("sign", [1, -1])
def test_a_spike_is_a_jump_and_a_jump_back_within_an_hour(sign: int) -> None:
    assert spikes_in(sign * channel(_40=2)) == [40]
    assert spikes_in(sign * channel(_40=2, _41=5, _42=3, _43=2)) == [40, 41, 42, 43]
    assert spikes_in(sign * channel(_40=2, _41=5, _42=3, _43=2, _44=2)) == []
    assert spikes_in(sign * channel(_0=2)) == [0]


def test_what_does_not_come_back_is_no_spike() -> None:
    step = channel()
    step[0, 40:] = 5
    assert spikes_in(step) == []
    step[0, 41:] = 2.6
    assert spikes_in(step) == []
    step[0, 41:] = 1.6
    assert spikes_in(step) == [40]
    assert spikes_in(channel(_95=5)) == []
    assert spikes_in(channel(_0=5), last=np.nan) == []


def test_a_peak_with_shoulders_is_none() -> None:
    assert spikes_in(channel(_39=0.9, _40=1.8, _41=0.9)) == []


def test_the_limit_is_between_roughness_and_spread() -> None:
    peak = channel(_40=2.01)
    assert spikes_in(peak, roughness=0.16) == [40]
    assert spikes_in(peak, roughness=0.17) == []
    assert spikes_in(peak, roughness=0.04, spread=4) == [40]
    assert spikes_in(peak, roughness=0.04, spread=4.1) == []
    assert spikes_in(peak, roughness=0.2, spread=0.1) == [40]
    assert spikes_in(peak, roughness=0.21, spread=0.1) == []


@pytest.mark.parametrize("unknown", ["roughness", "spread"])
def test_where_nothing_is_known_there_are_none(unknown: str) -> None:
    assert spikes_in(channel(_40=90), **{unknown: 0.0}) == []


def test_gaps_of_one_slot_are_passed_over() -> None:
    assert spikes_in(channel(_39=np.nan, _40=5, _41=np.nan)) == [40]
    assert spikes_in(channel(_40=5, _41=np.nan, _42=5)) == [40, 42]
    assert spikes_in(channel(_38=np.nan, _39=np.nan, _40=5)) == []


def test_a_coarse_channel_is_as_rough_as_its_steps() -> None:
    """Readings of 8.0 that are 8.1 now and then: a step is nothing rare, though most readings repeat."""
    readings = channel(_20=0.1, _50=0.1, _51=0.1)
    usual = np.zeros(1, np.float32)
    assert roughness_of(readings, usual, usual).tolist() == pytest.approx([(0.1 + 4 * 0.05 + 2 * 0.05) / 7])
    assert np.isnan(roughness_of(channel(), usual, usual)).all()


@given(st.lists(st.lists(READING, min_size=48, max_size=48), min_size=1, max_size=3), st.data())
def test_spikes_and_roughness_are_what_their_definitions_say(rows: list[list[float]], data: st.DataObject) -> None:
    readings = np.array(rows, np.float32)

    def drawn(*values: float) -> Floats:
        lists = st.lists(st.sampled_from(values), min_size=len(rows), max_size=len(rows))
        return np.array(data.draw(lists), np.float32)

    last, roughness, spread = drawn(0.0, 9.0, np.nan), drawn(0.0, 0.0625, 0.36, 0.82), drawn(0.0, 0.5, 1.0)
    part = data.draw(st.sampled_from([0.5, 1.0, 2.0]))
    spikes = find_spikes(readings, last, roughness, spread, part)
    measured = roughness_of(readings, last, roughness)
    for c, row in enumerate(readings):
        known = float(last[c]), float(roughness[c])
        assert np.flatnonzero(spikes[c]).tolist() == spikes_of_channel(row, *known, float(spread[c]), part)
        np.testing.assert_allclose(measured[c], roughness_of_channel(row, *known), rtol=1e-5)


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.sampled_from([24, 96]))
def test_habits_are_shares_and_the_mean_time_of_day(seed: int, channels: int, slots: int) -> None:
    random = np.random.default_rng(seed)
    spikes = random.random((20, channels, slots)) < random.choice([0, 0.02, 0.3], (20, channels, 1))
    observed = spikes | (random.random((20, channels, slots)) < random.choice([0, 0.7], (20, channels, 1)))
    habits, counted = np.zeros((channels, 4), np.float32), np.zeros(channels)
    for day in range(20):
        rate = (1 / (counted + 1)).astype(np.float32)
        habits = follow_habits(habits, spikes[day], observed[day], rate)
        counted += observed[day].any(axis=1)
    for c in range(channels):
        days = []
        for day in range(20):
            angles = [2 * np.pi * slot / slots for slot in np.flatnonzero(spikes[day, c])]
            if observed[day, c].any():
                parts = [len(angles) / observed[day, c].sum(), len(angles) > 0]
                parts += [np.mean([turn(angle) for angle in angles] or [0.0]) for turn in (np.cos, np.sin)]
                days.append(parts)
        expected = np.mean(days, axis=0) if days else np.zeros(4)
        np.testing.assert_allclose(habits[c], expected, atol=1e-4)


@pytest.mark.parametrize(
    ("share", "same_hour", "is_habit"), [(0.6, True, True), (0.6, False, False), (0.1, True, False)]
)
def test_what_comes_at_the_same_hour_of_most_days_is_no_spike(share: float, same_hour: bool, is_habit: bool) -> None:
    """A battery is charged at noon; a sonde in algae has spikes at any hour."""
    random, slots, days = np.random.default_rng(4), 144, 120
    course = np.zeros(days * slots)
    for t, step in enumerate(random.normal(0, 0.05, course.size)):
        course[t] = 0.98 * course[t - 1] + step
    series, raised = (12.5 + course + 0.05 * random.normal(size=course.size)).round(2), np.zeros(course.size, bool)
    for day in np.flatnonzero(random.random(days) < share).tolist():
        begin = day * slots + int(random.integers(66, 72) if same_hour else random.integers(2, 136))
        series[begin : begin + 4] += 1.2, 1.5, 1.6, 1.3
        raised[begin : begin + 4] = True
    model, spikes, wrong = NetworkModel(), [], []
    for day in range(days):
        result = model.update(series[None, day * slots : (day + 1) * slots])
        spikes.append(result.spikes[0])
        wrong.append(result.wrong[0])
    late = raised & (np.arange(raised.size) >= 75 * slots)
    assert np.concatenate(spikes)[late].all() != is_habit
    assert np.concatenate(wrong)[late].mean() < 0.05 if is_habit else np.concatenate(wrong)[late].all()


@given(st.integers(1, 6), st.integers(1, 4), st.sampled_from([24, 48]), st.data())
def test_a_device_is_handled_where_its_other_variables_or_other_devices_show_it(
    devices: int, variables: int, slots: int, data: st.DataObject
) -> None:
    random = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    observed = random.random((devices, variables, slots)) < 0.8
    clear = observed & (random.random((devices, variables, slots)) < data.draw(st.sampled_from([0.1, 0.4, 0.8])))
    handled = find_handled(clear, observed)
    for place in np.ndindex(handled.shape):
        assert handled[place] == is_handled(clear, observed, *place)


def test_the_spread_follows_the_readings_and_not_a_broken_channel() -> None:
    random = np.random.default_rng(2)
    usual = follow_spread(np.zeros(2, np.float32), np.full((3, SLOTS), np.nan, np.float32), 1.0)
    assert usual.tolist() == [0, 0]
    days = random.normal(5, 2, (100, 3, SLOTS)).astype(np.float32)
    days[:, 0] += random.normal(0, 3, 100)[:, None]
    for number, day in enumerate(days):
        usual = follow_spread(usual, day, max(1 / (number + 2), 0.02))
    np.testing.assert_allclose(usual, [5, np.sqrt(4 + 3)], rtol=0.15)
    day = days[-1].copy()
    day[2] = 1e6
    moved = follow_spread(usual, day, 0.02)
    assert moved[1] < 1.03 * usual[1]


@given(st.lists(st.lists(st.booleans(), min_size=7, max_size=7), min_size=1, max_size=4))
def test_runs_are_all_of_the_spikes_and_apart(rows: list[list[bool]]) -> None:
    spikes = np.array(rows)
    again = np.zeros_like(spikes)
    for c, begin, end in runs(spikes):
        assert begin < end
        assert not again[c, max(begin - 1, 0) : end].any()
        again[c, begin:end] = True
    np.testing.assert_array_equal(again, spikes)


def lake(days: int = 30, sensors: int = 6) -> NDArray[np.float64]:
    """Return readings every 15 minutes of thermistors in a lake, (sensor, slot, day), with three decimals."""
    random = np.random.default_rng(4)
    hours = np.arange(days * SLOTS) / 4
    level = 12 + np.arange(sensors)[:, None] + np.cumsum(random.normal(0, 0.03, days * SLOTS))
    waves = np.exp(-np.arange(sensors))[:, None] * np.sin(2 * np.pi * hours / 24)
    readings = level + waves + random.normal(0, 0.02, level.shape)
    return np.asarray(readings.round(3).reshape(sensors, days, SLOTS).transpose(0, 2, 1))


def test_a_string_that_is_lifted_for_an_hour_is_wrong_at_all_depths() -> None:
    readings = lake()
    readings[:, 40:44, 25] = 25 + np.arange(4)
    model = NetworkModel()
    for day in range(25):
        model.update(readings[..., day])
    result = model.update(readings[..., 25])
    assert np.argwhere(result.spikes.all(axis=0)).ravel().tolist() == [40, 41, 42, 43]
    assert not result.wrong[:, :40].any()
    assert not result.wrong[:, 44:].any()
    np.testing.assert_allclose(result.cleaned[:, 40:44], lake()[:, 40:44, 25], atol=1)
    assert [(fault.kind, fault.start % SLOTS, fault.end) for fault in result.faults] == [
        ("spike", 40, 25 * SLOTS + 43)
    ] * 6


def test_a_logger_that_reports_fewer_digits_has_no_spikes_of_one_step() -> None:
    """Acidity with two decimals for a month, and then with one."""
    readings = 8 + (lake(days=120, sensors=1) - 12) / 10
    readings[..., :30], readings[..., 30:] = readings[..., :30].round(2), readings[..., 30:].round(1)
    model = NetworkModel()
    wrong = [int(model.update(readings[..., day]).wrong.sum()) for day in range(120)]
    assert sum(wrong[75:]) == 0


def sonde(days: int = 30) -> NDArray[np.float64]:
    """Return readings every 15 minutes of one sonde with four variables, (variable, slot, day), with three decimals."""
    random = np.random.default_rng(9)
    level = 20 + np.cumsum(random.normal(0, 0.02, (4, days * SLOTS)), axis=1)
    tide = 0.1 * np.sin(2 * np.pi * np.arange(days * SLOTS) / (4 * 12.42))
    readings = level + tide + random.normal(0, 0.02, level.shape)
    return np.asarray(readings.round(3).reshape(4, days, SLOTS).transpose(0, 2, 1))


@pytest.mark.parametrize("lifted", [0, 1, 2, 3])
def test_a_sonde_that_is_lifted_is_out_of_the_water_with_all_of_its_variables(lifted: int) -> None:
    """The last variable moves by less than a spike does by itself: it counts once two others are clear."""
    readings = sonde()
    for variable in range(lifted):
        readings[variable, 40:43, 25] -= 15
    readings[3, 40:43, 25] -= 0.3
    model = NetworkModel(fiber_axis=2)
    for day in range(25):
        model.update(readings[None, ..., day])
    result = model.update(readings[None, ..., 25])
    spikes = result.spikes[0]
    assert spikes[:lifted, 40:43].all()
    assert bool(spikes[3, 40:43].all()) is (lifted >= 2)
    assert bool(spikes[3].any()) is (lifted >= 2)
    confidence = [fault.confidence for fault in result.faults if fault.kind == "spike"]
    assert confidence == [0.75] * lifted if lifted < 2 else min(confidence) >= 0.75
    assert lifted < 3 or confidence == [0.95] * 4


def test_a_lone_channel_without_its_daily_peak_is_not_wrong() -> None:
    """It is far from what it usually does at this hour, and nothing in its own series shows it."""
    random = np.random.default_rng(1)
    readings = 10 + np.cumsum(random.normal(0, 0.02, 60 * SLOTS)) + random.normal(0, 0.03, 60 * SLOTS)
    readings = readings.reshape(60, SLOTS)
    readings[:, 44:52] += 5
    readings[50, 44:52] -= 5
    model = NetworkModel()
    results = [model.update(day[None]) for day in readings]
    assert not results[50].wrong.any()
    assert results[50].doubtful[0, 44:52].any()
    assert sum(int(result.wrong.sum()) for result in results[20:]) == 0
