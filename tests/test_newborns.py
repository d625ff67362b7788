from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sensormend.auto.newborns import ENOUGH, FOLLOWS, Newborns, first_look

Floats = NDArray[np.float64]
SEEDS = st.integers(0, 2**32 - 1)
COURSE = 2 * np.sin(2 * np.pi * np.arange(24) / 24)


def known_network(sensors: int, seed: int = 0) -> tuple[Floats, Floats]:
    """Levels of `sensors` that are known, and today's movement, the same for all."""
    random = np.random.default_rng(seed)
    return random.normal(0, 0.5, (sensors, 1)), random.normal(0, 0.5) + np.linspace(0, 1, 24)


def looked(newcomer: Floats, sensors: int = 6, **changed: Any) -> Newborns:
    """Let one newcomer (a row of readings, NaN where none) join a known network."""
    levels, movement = known_network(sensors)
    random = np.random.default_rng(1)
    deviation = np.concatenate([movement + random.normal(0, 0.1, (sensors, 24)), newcomer[None]])
    observed = np.isfinite(deviation)
    count = sensors + 1
    settings: dict[str, Any] = {
        "deviation": np.where(observed, deviation, 0.0),
        "observed": observed,
        "known": np.arange(count) < sensors,
        "expected": np.broadcast_to(movement, (count, 24)),
        "usual": np.concatenate([levels + COURSE, np.zeros((1, 24))]),
        "size": np.append(np.full(sensors, 0.1), 0.0),
        "variable": np.zeros(count, dtype=np.intp),
        "doubted": np.zeros(count, dtype=bool),
        "streak": np.zeros(count),
        "anchor": np.zeros(count),
    }
    return first_look(**{**settings, **changed})


def sound(level: float) -> Floats:
    _, movement = known_network(6)
    return np.asarray(level + COURSE + movement + np.random.default_rng(2).normal(0, 0.1, 24))


@given(st.floats(-1, 1), SEEDS)
def test_a_sound_newcomer_is_placed_at_its_own_level(level: float, seed: int) -> None:
    readings = sound(level)
    readings[np.random.default_rng(seed).random(24) < 0.3] = np.nan
    found = looked(readings)
    assert found.born[-1]
    assert found.oddness[-1] < 1
    assert found.usual[-1].mean() == pytest.approx(level, abs=0.15)
    assert np.corrcoef(found.usual[-1], COURSE)[0, 1] > 0.99
    seen = np.isfinite(readings)
    np.testing.assert_allclose(found.deviation[-1, seen], readings[seen] - found.usual[-1, seen])


def test_the_old_ones_stay_as_they_are() -> None:
    levels, _ = known_network(6)
    found = looked(sound(0.0))
    assert not found.born[:-1].any()
    assert not found.oddness[:-1].any()
    np.testing.assert_array_equal(found.usual[:-1], levels + COURSE)
    np.testing.assert_array_equal(found.size[:-1], 0.1)


@pytest.mark.parametrize("level", [-40.0, 40.0])
def test_far_away_and_still_is_no_place_at_all(level: float) -> None:
    found = looked(np.full(24, level))
    assert found.oddness[-1] > 1
    assert not found.born[-1]
    # Its own level cannot be trusted: the others' middle stands in for it.
    assert abs(found.usual[-1].mean()) < 1


def test_noise_is_odd_too() -> None:
    found = looked(np.random.default_rng(3).normal(0, 8, 24))
    assert found.oddness[-1] > 1


def test_far_away_but_moving_with_the_rest_is_a_place_of_its_own() -> None:
    streak, anchor = np.zeros(7), np.zeros(7)
    for day in range(FOLLOWS):
        found = looked(sound(40.0), streak=streak, anchor=anchor, doubted=np.arange(7) == 6)
        streak, anchor = found.streak, found.anchor
        assert streak[-1] == day + 1
        assert (found.oddness[-1] <= 1) == (day + 1 >= FOLLOWS)
    assert found.born[-1]
    elsewhere = looked(sound(-40.0), streak=streak - 1, anchor=anchor)
    assert elsewhere.streak[-1] == 0


def test_once_odd_it_takes_more() -> None:
    readings = sound(0.0) + np.random.default_rng(4).normal(0, 0.3, 24)
    once, doubted = looked(readings), looked(readings, doubted=np.ones(7, dtype=bool))
    assert doubted.oddness[-1] == pytest.approx(2 * once.oddness[-1])


def test_a_newcomer_without_readings_is_placed_in_the_middle() -> None:
    found = looked(np.full(24, np.nan))
    levels, _ = known_network(6)
    assert not found.born[-1]
    assert found.usual[-1].mean() == pytest.approx(float(np.median(levels)), abs=1e-9)
    assert found.size[-1] > 0
    assert not found.deviation[-1].any()


@pytest.mark.parametrize("count", range(1, ENOUGH))
def test_few_readings_place_it_but_do_not_tell_its_size(count: int) -> None:
    readings = sound(0.4)
    whole = looked(readings)
    readings[count:] = np.nan
    found = looked(readings)
    assert found.born[-1]
    assert found.size[-1] > 0.5 * whole.size[-1]
    assert found.usual[-1].mean() == pytest.approx(0.4, abs=0.3)


@given(SEEDS, st.integers(1, 8), st.sampled_from([0.0, 0.5, 1.0]))
def test_the_first_period_of_all(seed: int, sensors: int, share: float) -> None:
    random = np.random.default_rng(seed)
    readings = COURSE + random.normal(0, 1, (sensors, 1)) + random.normal(0, 0.1, (sensors, 24))
    observed = random.random((sensors, 24)) < share
    found = first_look(
        np.where(observed, readings, 0.0),
        observed,
        np.zeros(sensors, dtype=bool),
        np.zeros((sensors, 24)),
        np.zeros((sensors, 24)),
        np.zeros(sensors),
        np.zeros(sensors, dtype=np.intp),
        np.zeros(sensors, dtype=bool),
        np.zeros(sensors),
        np.zeros(sensors),
    )
    if not observed.any():
        assert np.isnan(found.usual).all()
        assert not found.born.any()
        return
    assert np.isfinite(found.usual).all()
    assert np.isfinite(found.expected).all()
    assert (found.size > 0).all()
    np.testing.assert_array_equal(found.born & ~observed.any(axis=1), False)
    if share == 1:
        assert found.born.all()
        near = found.usual + found.expected - readings
        assert np.abs(near).max() < 1


def test_each_variable_has_its_own_middle() -> None:
    random = np.random.default_rng(0)
    variable = np.tile([0, 1], 6)
    level = np.where(variable == 0, 0.0, 50.0)[:, None] + random.normal(0, 0.3, (12, 1))
    observed = np.ones((12, 24), dtype=bool)
    observed[[0, 1]] = False
    found = first_look(
        np.where(observed, level + COURSE, 0.0),
        observed,
        np.zeros(12, dtype=bool),
        np.zeros((12, 24)),
        np.zeros((12, 24)),
        np.zeros(12),
        variable,
        np.zeros(12, dtype=bool),
        np.zeros(12),
        np.zeros(12),
    )
    assert found.born[2:].all()
    np.testing.assert_allclose(found.usual[:2].mean(axis=1), [0, 50], atol=1)


def test_the_input_is_not_written_to() -> None:
    streak, anchor = np.zeros(7), np.zeros(7)
    looked(np.full(24, 30.0), streak=streak, anchor=anchor)
    assert not streak.any()
    assert not anchor.any()
