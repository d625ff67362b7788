from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import naive
from sensormend.auto import judge
from sensormend.auto.conditioning import condition
from sensormend.auto.memory import Channels

Floats = NDArray[np.float64]
SEEDS = st.integers(0, 2**32 - 1)


@given(SEEDS, st.integers(0, 5), st.integers(1, 30), st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]))
def test_features_against_the_oracle(seed: int, fibers: int, slots: int, share: float) -> None:
    random = np.random.default_rng(seed)
    residual = random.standard_t(2, (fibers, slots))
    there = random.random((fibers, slots)) < share
    floor = random.choice([0.0, 0.3], fibers)
    found = judge.features(np.where(there, residual, 0.0), judge.Seen.of(there), floor)
    np.testing.assert_allclose(found, naive.features(residual, there, floor), atol=1e-9)


def test_a_single_wrong_reading_is_no_fault_of_the_fiber() -> None:
    random = np.random.default_rng(0)
    residual = random.normal(size=(1, 24))
    there, floor = np.ones((1, 24), dtype=bool), np.zeros(1)
    before = judge.features(residual, judge.Seen.of(there), floor)
    residual[0, 7] = 1e6
    assert (judge.features(residual, judge.Seen.of(there), floor) - before < np.log(1.5)).all()


def test_features_follow_the_unit() -> None:
    random = np.random.default_rng(1)
    residual, there = random.normal(size=(4, 24)), random.random((4, 24)) < 0.8
    one = judge.features(residual, judge.Seen.of(there), np.full(4, 0.1))
    other = judge.features(1000 * residual, judge.Seen.of(there), np.full(4, 100.0))
    np.testing.assert_allclose(other - one, np.log(1000))


@given(SEEDS, st.integers(0, 5), st.integers(1, 20), st.sampled_from([0.0, 0.5, 1.0]))
def test_longest_run_against_the_oracle(seed: int, fibers: int, slots: int, share: float) -> None:
    random = np.random.default_rng(seed)
    values = random.integers(0, 3, (fibers, slots)).astype(float)
    there = random.random((fibers, slots)) < share
    length, inside = judge.longest_run(np.where(there, values, np.nan), there)
    wanted, cells = naive.longest_run(values, there)
    np.testing.assert_array_equal(length, wanted)
    np.testing.assert_array_equal(inside, cells)


def test_gaps_do_not_end_a_stretch() -> None:
    values = np.array([[1.0, np.nan, 1.0, 1.0, 2.0, 2.0]])
    length, inside = judge.longest_run(values, np.isfinite(values))
    assert length[0] == 3
    assert inside[0].tolist() == [True, False, True, True, False, False]


def stuck(moving: float, length: int, run: float = 2.0) -> float:
    """Score a fiber of 24 slots that stands still for `length` of them while the network moves."""
    expected = moving * np.sin(np.arange(24) / 24 * 2 * np.pi)[None, :]
    inside = (np.arange(24) < length)[None, :]
    found = judge.stuck_scores(expected, inside, np.array([length]), np.array([run]), np.ones(1))
    return float(found[0])


def test_standing_still_counts_when_the_network_moves() -> None:
    assert stuck(moving=5.0, length=24) > 1
    assert stuck(moving=0.2, length=24) < 0.5
    assert stuck(moving=5.0, length=3) == 0
    assert stuck(moving=5.0, length=12) < stuck(moving=5.0, length=24)
    assert stuck(moving=5.0, length=24, run=12.0) < stuck(moving=5.0, length=24)


@given(SEEDS)
def test_smoothed_takes_the_mean_of_the_neighbours(seed: int) -> None:
    random = np.random.default_rng(seed)
    expected, share = random.normal(size=(3, 6)), random.random((3, 1))
    found = judge.smoothed(expected, share)
    for row in range(3):
        for slot in range(6):
            near = (expected[row, max(slot - 1, 0)] + expected[row, min(slot + 1, 5)]) / 2
            wanted = (1 - share[row, 0]) * expected[row, slot] + share[row, 0] * near
            assert found[row, slot] == pytest.approx(wanted)


def test_scores_are_one_at_the_threshold() -> None:
    middle, limit = np.array([[-1.0, 0.0, 1.0]]), np.array([[1.0, 1.5, 2.0]])
    event, many = np.zeros((1, 3)), np.array([10**9])
    np.testing.assert_allclose(judge.scores(middle + limit, middle, event, limit, many), 1.0)
    twice = judge.scores(middle + limit + np.log(2), middle, event, limit, many)
    np.testing.assert_allclose(twice, 2.0)
    # A day that is three times as wild among the relatives needs three times as much; few readings more, too.
    np.testing.assert_allclose(judge.scores(middle + limit, middle, event + np.log(3), limit, many), 1 / 3)
    assert (judge.scores(middle + limit, middle, event, limit, np.array([3])) < 0.8).all()
    unknown = judge.scores(np.full((1, 3), np.nan), middle, event, limit, np.array([0]))
    assert (unknown < 1e-6).all()


def seasoned(count: int, days: int, seed: int, tail: float | None = None) -> tuple[Channels, Floats]:
    """Channels that have seen `days` sound fibers, and the log features of those."""
    random = np.random.default_rng(seed)
    channels = Channels.new(count, 24)
    channels.days[:] = 10
    drawn = random.normal(0, 0.3, (days, count, 3)) if tail is None else random.gumbel(0, tail, (days, count, 3))
    for day in drawn:
        judge.learn_usual(channels, np.arange(count), day, np.ones(count, dtype=bool))
    return channels, drawn


def test_running_quantiles_find_the_median_and_the_upper_tenth() -> None:
    channels, drawn = seasoned(40, 300, 0)
    assert (channels.judged == 300).all()
    assert np.abs(channels.median).mean() < 0.1
    high = np.quantile(drawn, 0.9)
    assert channels.high.mean() == pytest.approx(high, abs=0.1)


def test_heavy_tails_get_a_wider_limit() -> None:
    steady, _ = seasoned(20, 200, 0)
    heavy, _ = seasoned(20, 200, 0, tail=0.6)
    pooled, ease = np.full((20, 3), 0.5), np.zeros(20)
    assert (judge.limits(heavy, pooled, ease).mean(axis=0) > judge.limits(steady, pooled, ease).mean(axis=0)).all()
    np.testing.assert_allclose(judge.limits(steady, pooled, ease + 0.5), 0.5 * judge.limits(steady, pooled, ease))


def test_wrong_fibers_move_what_is_usual_slowly_and_never_start_it() -> None:
    fresh = Channels.new(1, 24)
    judge.learn_usual(fresh, np.array([0]), np.full((1, 3), 5.0), np.array([False]))
    assert fresh.judged[0] == 0
    assert not fresh.median.any()
    channels, _ = seasoned(1, 100, 2)
    before = channels.median.copy()
    for _ in range(7):
        judge.learn_usual(channels, np.array([0]), np.full((1, 3), 5.0), np.array([False]))
    assert channels.judged[0] == 100
    assert (channels.median - before < 0.35).all()
    assert (channels.high < 2).all()


def test_the_upper_quantile_stays_above_the_median() -> None:
    channels, _ = seasoned(5, 50, 3)
    for _ in range(50):
        judge.learn_usual(channels, np.arange(5), np.full((5, 3), -3.0), np.ones(5, dtype=bool))
    assert (channels.high > channels.median).all()


def test_a_young_channel_leans_on_the_network() -> None:
    channels = Channels.new(3, 24)
    channels.days[:], channels.judged[:] = [5, 40, 5], [0, 1000, 5]
    channels.median[:] = 2.0
    pooled, guess = np.zeros((3, 3)), np.array([[-9.0] * 3, [9.0] * 3, [1.5] * 3])
    found = judge.usual(channels, pooled, guess)
    np.testing.assert_allclose(found[0], 0.0)
    np.testing.assert_allclose(found[1], 2.0, atol=0.01)
    # Worse predicted than the rest so far: measured by that.
    np.testing.assert_allclose(found[2], 1.5)


def neighbourhood(sensors: int, seed: int) -> tuple[Floats, Floats]:
    """A covariance of sensors that follow each other, and a day of it."""
    random = np.random.default_rng(seed)
    covariance = np.full((sensors, sensors), 0.95) + 0.05 * np.eye(sensors)
    return covariance, np.linalg.cholesky(covariance) @ random.normal(size=(sensors, 24))


def events(deviation: Floats, covariance: Floats) -> Floats:
    """Ask every member's relatives how unusual the day is, given that 0.22 is the usual size of a residual."""
    sensors = len(covariance)
    there = np.ones(deviation.shape, dtype=bool)
    usual = np.log(np.array([0.22, 0.1, 0.31]))
    return judge.events(
        condition(covariance[None], deviation[None], there[None]),
        there,
        covariance,
        np.broadcast_to(usual, (sensors, 3)),
        np.full(sensors, 1e-3),
        np.ones(sensors, dtype=bool),
        np.zeros(sensors),
        np.arange(sensors),
    )


def test_a_fault_is_no_event_and_a_wild_day_is_one() -> None:
    covariance, deviation = neighbourhood(10, 0)
    assert events(deviation, covariance)[:, 0].mean() < 0.2
    broken = deviation.copy()
    broken[4] += 20
    assert events(broken, covariance)[4, 0] < 0.3
    wild = deviation + np.random.default_rng(1).normal(0, 1.0, deviation.shape)
    assert (events(wild, covariance)[:, 0] > 0.8).all()


@given(SEEDS, st.integers(4, 9))
def test_events_leave_the_member_itself_out(seed: int, sensors: int) -> None:
    """What a sensor reads has no say in whether its relatives' residuals are unusual."""
    covariance, deviation = neighbourhood(sensors, seed)
    one = events(deviation, covariance)[0]
    deviation[0] += np.random.default_rng(seed).normal(0, 50, 24)
    np.testing.assert_allclose(events(deviation, covariance)[0], one, atol=1e-6)


def test_two_sensors_know_no_events() -> None:
    covariance, deviation = neighbourhood(2, 0)
    assert not events(deviation * 100, covariance).any()
