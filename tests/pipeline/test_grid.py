import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.grid import place_readings
from sensormend.errors import ConfigError
from sensormend.pipeline.grid import ANCHOR, Grid, place
from sensormend.readings import DAY, HOUR, MINUTE, SECOND, Readings

GRID = Grid(6 * HOUR, DAY)
START = GRID.period_start(100)

several = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.integers(0, 23).map(lambda hour: START + hour * HOUR),
        st.sampled_from([1.0, 2.5, 2.5, 7.25, -3.0, 60.0, -999.0, float("nan"), float("inf")]),
    ),
    max_size=40,
)


@settings(max_examples=150, deadline=None)
@given(several)
def test_slots_hold_what_the_slow_way_puts_into_them(drawn: list[tuple[int, int, float]]) -> None:
    limits = (-5.0, 50.0)
    value, n, verdict = place_readings(
        drawn, channels=3, step=GRID.step, slots=4, start=START, fill=(-999.0,), valid=limits
    )
    channel = np.array([entry[0] for entry in drawn], dtype=np.int64)
    times = np.array([entry[1] for entry in drawn], dtype=np.int64)
    readings = Readings("abc", ("",), channel, channel * 0, times, np.array([entry[2] for entry in drawn], dtype=float))
    placed = place(GRID, readings, channel, 3, [(-999.0,)], [limits])
    np.testing.assert_array_equal(placed.n, n)
    np.testing.assert_allclose(placed.value, value, rtol=1e-12)
    for word in ("filled", "coded", "contradictory", "implausible"):
        expected = np.array([[word in cell for cell in row] for row in verdict])
        np.testing.assert_array_equal(getattr(placed, word), expected, err_msg=word)


@settings(max_examples=60, deadline=None)
@given(several, st.randoms(use_true_random=False))
def test_the_order_in_which_readings_come_matters_to_duplicates_alone(
    drawn: list[tuple[int, int, float]], chance: object
) -> None:
    once = list({entry[:2]: entry for entry in drawn}.values())
    mixed = list(once)
    chance.shuffle(mixed)  # type: ignore[attr-defined]
    placed = []
    for readings in (once, mixed):
        channel = np.array([entry[0] for entry in readings], dtype=np.int64)
        times = np.array([entry[1] for entry in readings], dtype=np.int64)
        value = np.array([entry[2] for entry in readings], dtype=float)
        placed.append(place(GRID, Readings("abc", ("",), channel, channel * 0, times, value), channel, 3, [()], []))
    for name in ("value", "n", "filled", "coded", "contradictory", "implausible"):
        np.testing.assert_array_equal(getattr(placed[0], name), getattr(placed[1], name))


def test_a_fill_value_that_went_through_single_precision_is_still_one() -> None:
    value = np.array([np.float32(-999.9), -999.9, -999.8, 5.0]).astype(float)
    zero = np.zeros(4, dtype=np.int64)
    readings = Readings("a", ("",), zero, zero, START + np.arange(4) * MINUTE, value)
    placed = place(GRID, readings, zero, 1, [(-999.9,)], [])
    assert placed.fill.tolist() == [True, True, False, False]


def test_each_variable_has_its_own_fill_values_and_limits() -> None:
    variable = np.array([0, 1, 0, 1])
    readings = Readings("a", ("x", "y"), variable * 0, variable, START + variable, np.array([-1.0, -1.0, 9.0, 9.0]))
    placed = place(GRID, readings, variable.astype(np.int64), 2, [(-1.0,), ()], [(-9, 99), (-9, 5)])
    assert placed.fill.tolist() == [True, False, False, False]
    assert placed.beyond.tolist() == [False, False, False, True]


def test_periods_are_counted_from_a_monday_also_before_1970() -> None:
    weeks = Grid(DAY, 7 * DAY)
    assert np.datetime64(weeks.period_start(0), "us") == np.datetime64("1970-01-05")
    times = np.array([ANCHOR - 1, ANCHOR, ANCHOR + 7 * DAY - 1, ANCHOR - 7 * DAY - 1])
    assert weeks.find_period(times).tolist() == [-1, 0, 0, -2]
    assert weeks.find_slot(times).tolist() == [6, 0, 6, 6]


def test_readings_that_come_early_belong_to_the_slot_they_are_early_for() -> None:
    grid = Grid(HOUR, DAY, early=30 * MINUTE)
    start = grid.period_start(7)
    assert grid.find_slot(np.array([start - 2 * SECOND, start + 2 * SECOND, start + HOUR - SECOND])).tolist() == [
        0,
        0,
        1,
    ]
    assert grid.find_period(np.array([start - 2 * SECOND])).tolist() == [7]


@pytest.mark.parametrize(("step", "period"), [(0, DAY), (DAY, HOUR), (7 * HOUR, DAY)])
def test_a_period_is_a_whole_number_of_steps(step: int, period: int) -> None:
    with pytest.raises(ConfigError, match="whole number"):
        Grid(step, period)


@given(st.integers(1, 3600), st.integers(1, 50), st.integers(0, 3000), st.integers(0, 49))
def test_a_grid_is_read_back_from_run_json(step: int, slots: int, early: int, cut: int) -> None:
    grid = Grid(step * SECOND, slots * step * SECOND, early * SECOND // 1000, cut % slots * step * SECOND)
    assert Grid.of_run(json.loads(json.dumps({"grid": grid.record()}))) == grid
    times = np.arange(-3 * step * SECOND, 3 * step * SECOND, step * SECOND // 4) + grid.early
    starts = grid.slot_start(times)
    assert (starts <= times + grid.early).all()
    assert (times + grid.early < starts + grid.step).all()
    np.testing.assert_array_equal(grid.slot_times(int(grid.find_period(times[0])))[grid.find_slot(times)[0]], starts[0])


@pytest.mark.parametrize(
    "run",
    [
        {}, {"grid": None}, {"grid": []}, {"grid": {"step": "1h"}}, {"grid": {"step": 5, "period": "1d"}},
        {"grid": {"step": "7h", "period": "1d"}}, {"grid": {"step": "1h", "period": "1d", "early_seconds": "x"}},
        {"grid": {"step": "1h", "period": "1d", "cut_seconds": float("inf")}},
    ],
)  # fmt: skip
def test_a_run_without_a_whole_grid_has_none(run: dict[str, Any]) -> None:
    assert Grid.of_run(run) is None
