from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from checks import network, with_gaps
from sensormend import ShapeError
from sensormend.bench.contestants import BuddyCheck, RollingMedian
from sensormend.recovery import Recovery

Floats = NDArray[np.float64]
RULES = [RollingMedian, BuddyCheck]
SOUND = network(20)
SOUND.flags.writeable = False


def wild(seed: int = 0) -> Floats:
    return np.random.default_rng(seed).uniform(-40, 60, 24)


def faulty_fibers(result: Recovery) -> list[tuple[int, int]]:
    return [(int(sensor), int(day)) for sensor, day in np.argwhere(result.faulty)]


@pytest.fixture(params=RULES, ids=lambda method: method.__name__)
def method(request: pytest.FixtureRequest) -> RollingMedian | BuddyCheck:
    made: RollingMedian | BuddyCheck = request.param()
    return made


def assert_whole(result: Recovery, readings: Floats) -> None:
    """What holds of every verdict, whatever it is."""
    for field in fields(Recovery):
        value = getattr(result, field.name)
        if isinstance(value, np.ndarray) and value.shape == readings.shape and value.dtype.kind == "f":
            assert np.isfinite(value).all(), field.name
    np.testing.assert_array_equal(result.faulty, result.score > 1)
    observed = np.isfinite(readings)
    trusted = observed & ~result.spikes & ~result.faulty[:, None]
    np.testing.assert_array_equal(result.cleaned[trusted], readings[trusted])
    wrong = observed & ~trusted
    np.testing.assert_allclose(result.outliers[wrong], (readings - result.cleaned)[wrong])
    assert not result.outliers[~wrong].any()
    assert not (result.spikes & result.faulty[:, None]).any()
    assert not result.spikes[~observed].any()
    np.testing.assert_array_equal(result.evaluated, observed.any(axis=1))
    assert not result.faulty[~result.evaluated].any()


def test_a_noisy_day_and_a_spike_are_detected_and_replaced(method: RollingMedian | BuddyCheck) -> None:
    readings = SOUND.copy()
    readings[3, :, 12] = wild()
    readings[2, 5, 7] += 25
    result = method.recover(readings)
    assert faulty_fibers(result) == [(3, 12)]
    assert result.spikes[2, 5, 7]
    assert result.spikes.sum() <= 5
    assert np.abs(result.cleaned - SOUND).max() < (6 if isinstance(method, RollingMedian) else 2)
    assert_whole(result, readings)


def test_the_buddies_see_what_is_stuck_or_off_for_a_day() -> None:
    readings = SOUND.copy()
    readings[3, :, 12] = readings[3, 0, 12]
    readings[5, :, 9] += 15
    result = BuddyCheck().recover(with_gaps(readings))
    assert faulty_fibers(result) == [(3, 12), (5, 9)]
    errors = (result.cleaned - SOUND)[[3, 5], :, [12, 9]]
    assert np.sqrt(np.mean(errors**2)) < 1
    assert_whole(result, with_gaps(readings))


def test_a_rolling_median_goes_along_with_a_day_that_is_off() -> None:
    readings = SOUND.copy()
    readings[5, :, 9] += 15
    assert not RollingMedian().recover(readings).faulty.any(), "a window of a day cannot see it: that is its limit"


def test_a_sound_network_is_left_alone(method: RollingMedian | BuddyCheck) -> None:
    result = method.recover(SOUND)
    assert not result.faulty.any()
    assert result.spikes.mean() < 0.01
    assert_whole(result, SOUND)


def test_gaps_are_filled_sensibly(method: RollingMedian | BuddyCheck) -> None:
    readings = SOUND.copy()
    readings[1, 4:7, 3] = np.nan
    readings[6, :, 9] = np.nan
    result = method.recover(readings)
    assert np.abs(result.cleaned - SOUND)[1, 4:7, 3].max() < 1
    assert np.abs(result.cleaned - SOUND)[6, :, 9].max() < (8 if isinstance(method, RollingMedian) else 1.5)
    assert not result.evaluated[6, 9]
    assert_whole(result, readings)


def test_a_single_gap_is_a_straight_line() -> None:
    readings = SOUND.copy()
    readings[1, 4, 3] = np.nan
    expected = (SOUND[1, 3, 3] + SOUND[1, 5, 3]) / 2
    assert RollingMedian().recover(readings).cleaned[1, 4, 3] == pytest.approx(expected)


def test_the_rolling_median_by_hand() -> None:
    random = np.random.default_rng(3)
    line = random.normal(0, 1, 60)
    line[30] = 9.0
    distance = [abs(line[at] - np.median(np.pad(line, 2, mode="edge")[at : at + 5])) for at in range(60)]
    limit = 3 * 1.4826 * float(np.median(distance))
    result = RollingMedian(5).recover(line.reshape(1, 6, 10, order="F"))
    beyond = np.array(distance).reshape(6, 10, order="F") / limit
    np.testing.assert_allclose(result.score[0], np.median(beyond, axis=0))
    np.testing.assert_array_equal(result.spikes[0] | result.faulty, (beyond > 1) | result.faulty)
    assert result.spikes[0, 0, 5]


def test_the_buddies_by_hand() -> None:
    """Sensors 0 to 2 go together at their own levels, 3 goes its own way: with two buddies it is not asked."""
    random = np.random.default_rng(3)
    common = random.normal(0, 3, 60)
    lines = np.stack([common, common + 5, common - 2, random.normal(0, 3, 60)]) + random.normal(0, 0.1, (4, 60))
    lines[0, 30] += 20
    result = BuddyCheck(2).recover(lines.reshape(4, 10, 6).swapaxes(1, 2))
    shifted = [lines[buddy] + np.median(lines[0] - lines[buddy]) for buddy in (1, 2)]
    expected = (shifted[0][30] + shifted[1][30]) / 2
    assert result.spikes[0, 0, 5]
    assert result.cleaned[0, 0, 5] == pytest.approx(expected)


def test_a_sensor_that_never_speaks(method: RollingMedian | BuddyCheck) -> None:
    readings = with_gaps(SOUND)
    readings[3] = np.nan
    result = method.recover(readings)
    assert_whole(result, readings)
    assert not result.evaluated[3].any()
    assert 5 < result.cleaned[3].mean() < 25


@pytest.mark.parametrize("sensors", [1, 2])
def test_hardly_any_sensors(method: RollingMedian | BuddyCheck, sensors: int) -> None:
    readings = with_gaps(SOUND[:sensors])
    assert_whole(method.recover(readings), readings)


def test_nothing_at_all(method: RollingMedian | BuddyCheck) -> None:
    result = method.recover(np.full((3, 24, 4), np.nan))
    assert np.isnan(result.cleaned).all()
    assert not result.faulty.any()
    assert not result.spikes.any()
    assert not result.evaluated.any()
    assert np.isfinite(result.score).all()


def test_one_reading_and_constant_sensors(method: RollingMedian | BuddyCheck) -> None:
    lone = np.full((3, 24, 4), np.nan)
    lone[1, 3, 2] = 4.0
    np.testing.assert_array_equal(method.recover(lone).cleaned, np.full((3, 24, 4), 4.0))
    constant = np.full((3, 24, 4), 5.0)
    constant[2] = 7.0
    result = method.recover(constant)
    np.testing.assert_array_equal(result.cleaned, constant)
    assert not result.faulty.any()


@settings(max_examples=12)
@given(st.integers(0, 10**6), st.sampled_from([0.3, 0.7, 0.97]), st.sampled_from(RULES))
def test_any_gaps_and_faults(seed: int, share: float, kind: type[RollingMedian] | type[BuddyCheck]) -> None:
    random = np.random.default_rng(seed)
    readings = SOUND[:5, :, :8].copy()
    readings[random.integers(5), :, random.integers(8)] = random.normal(0, 50, 24)
    readings[random.integers(5)] = 3.0
    readings = with_gaps(readings, share, seed)
    result = kind().recover(readings)
    assert_whole(result, readings)
    same_input = with_gaps(readings, 0.0)
    np.testing.assert_array_equal(readings, same_input)


def test_a_louder_fault_scores_higher(method: RollingMedian | BuddyCheck) -> None:
    scores = []
    for size in (0.0, 0.2, 0.5, 1.0, 2.0):
        readings = SOUND.copy()
        readings[3, :, 12] += size * (wild() - 10)
        scores.append(float(method.recover(readings).score[3, 12]))
    assert scores == sorted(scores)
    assert scores[0] < 1 < scores[-1]


def test_days_are_needed(method: RollingMedian | BuddyCheck) -> None:
    with pytest.raises(ShapeError):
        method.recover(SOUND[..., 0])
