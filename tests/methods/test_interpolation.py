from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from oracles.methods import Last, interpolated
from sensormend.methods.interpolation import as_series, from_series, interpolate, interpolate_periods

Floats = NDArray[np.float64]
NAN = math.nan


def drawn(shape: tuple[int, ...], seed: int, share: float) -> Floats:
    random = np.random.default_rng(seed)
    return np.where(random.random(shape) < share, np.nan, random.normal(10, 5, shape))


@pytest.mark.parametrize("fiber_axis", [1, 2, 3])
@pytest.mark.parametrize("after", [(), (4,), (4, 2)])
def test_series_and_back(fiber_axis: int, after: tuple[int, ...]) -> None:
    shape = (3, *(2, 5)[: fiber_axis - 1], 6, *after)
    tensor = np.random.default_rng(0).random(shape)
    series = as_series(tensor, fiber_axis)
    assert series.shape == (3, math.prod(shape[1:fiber_axis]), 6 * math.prod(after))
    np.testing.assert_array_equal(from_series(series, shape, fiber_axis), tensor)
    # Slot by slot within a period, the periods in their order.
    variables, times = (list(np.ndindex(lengths)) for lengths in (shape[1:fiber_axis], after))
    for variable, (number, time), slot in itertools.product(range(len(variables)), enumerate(times), range(6)):
        at = (slice(None), *variables[variable], slot, *time)
        np.testing.assert_array_equal(series[:, variable, number * 6 + slot], tensor[at])


def test_gaps_by_hand() -> None:
    series = np.array(
        [[NAN, 2.0, NAN, NAN, 5.0, NAN], [1.0] * 6, [NAN, NAN, NAN, 4.0, NAN, NAN], [NAN] * 6],
    )
    expected = np.array(
        [[2.0, 2.0, 3.0, 4.0, 5.0, 5.0], [1.0] * 6, [4.0] * 6, [7 / 3, 7 / 3, 8 / 3, 3.0, 10 / 3, 10 / 3]],
    )
    before = series.copy()
    np.testing.assert_allclose(interpolate(series), expected)
    np.testing.assert_array_equal(series, before)
    carried = interpolate(series, np.array([1.0, NAN, NAN, 8.0]))
    np.testing.assert_allclose(carried[0, :2], [1.5, 2.0])
    np.testing.assert_allclose(carried[2], 4.0)
    np.testing.assert_allclose(carried[3], 8.0)


def test_where_nothing_is_known_nothing_is_made_up() -> None:
    assert np.isnan(interpolate(np.full((3, 4), np.nan))).all()
    np.testing.assert_array_equal(interpolate(np.full((1, 4), np.nan), np.array([3.0])), np.full((1, 4), 3.0))


def test_whole_readings_come_back_as_they_are_and_as_a_copy() -> None:
    series = np.random.default_rng(0).random((3, 5))
    filled = interpolate(series, np.zeros(3))
    np.testing.assert_array_equal(filled, series)
    assert not np.shares_memory(filled, series)


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 9), st.sampled_from([0.0, 0.3, 0.7, 0.95]))
def test_gaps_are_those_of_the_oracle(seed: int, rows: int, times: int, share: float) -> None:
    series = drawn((rows, times), seed, share)
    before = drawn((rows,), seed + 1, 0.5)
    last: Last = {(row,): float(before[row]) for row in range(rows) if np.isfinite(before[row])}
    np.testing.assert_allclose(interpolate(series, before), interpolated(series, last), rtol=1e-12, atol=1e-12)
    plain = interpolate(series)
    for row in range(rows):
        observed = np.flatnonzero(np.isfinite(series[row]))
        if observed.size:
            np.testing.assert_allclose(plain[row], np.interp(np.arange(times), observed, series[row, observed]))


@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(1, 5), st.integers(1, 5), st.sampled_from([0.2, 0.6, 0.9]))
def test_many_periods_are_many_calls(seed: int, variables: int, slots: int, days: int, share: float) -> None:
    tensor = drawn((3, variables, slots, days), seed, share)
    no_values = np.full((3, variables), np.nan)
    together, last = interpolate_periods(tensor, no_values, 2)
    carried: list[Last] = [{} for _ in range(variables)]
    last_apart = no_values
    for day in range(days):
        apart, last_apart = interpolate_periods(tensor[..., day], last_apart, 2)
        span = slice(day * slots, (day + 1) * slots)
        np.testing.assert_array_equal(together[..., span], apart)
        for variable in range(variables):
            expected = interpolated(tensor[:, variable, :, day], carried[variable])
            if not np.isnan(expected).all():
                np.testing.assert_allclose(apart[:, variable], expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(last, last_apart)
    assert np.isnan(no_values).all(), "what was handed in is not written to"


def test_the_last_value_is_carried_over_any_number_of_silent_periods() -> None:
    tensor = np.full((2, 2, 4), np.nan)
    tensor[0, 1, 0], tensor[0, 0, 3] = 5.0, 11.0
    tensor[1] = 1.0
    filled, last = interpolate_periods(tensor, np.full((2, 1), np.nan), 1)
    # In period 3 the series starts from the 5 that stood one slot before; it does not know the future before that.
    np.testing.assert_allclose(filled[0, 0], [5, 5, 5, 5, 5, 5, 11, 11])
    np.testing.assert_allclose(last, [[11.0], [1.0]])


def test_a_sensor_that_never_reported_is_the_mean_of_the_others_and_carries_nothing() -> None:
    tensor = np.stack([np.full((4, 2), 1.0), np.full((4, 2), np.nan), np.full((4, 2), 4.0)])
    tensor[1, 2, 1] = 9.0
    filled, last = interpolate_periods(tensor, np.full((3, 1), np.nan), 1)
    np.testing.assert_allclose(filled[1, 0], [2.5] * 4 + [9.0] * 4)
    _, after_one = interpolate_periods(tensor[..., 0], np.full((3, 1), np.nan), 1)
    assert np.isnan(after_one[1, 0])
    np.testing.assert_allclose(last[:, 0], [1, 9, 4])


def test_a_silent_sensor_takes_the_mean_of_its_own_variable() -> None:
    tensor = np.stack([np.full((3, 4), 20.0), np.full((3, 4), 1013.0)], axis=1)
    tensor[2, 1] = np.nan
    filled, last = interpolate_periods(tensor, np.full((3, 2), np.nan), 2)
    np.testing.assert_allclose(filled[2, 1], 1013.0)
    np.testing.assert_array_equal(np.isnan(last), [[False, False], [False, False], [False, True]])


def test_a_variable_that_was_never_reported_does_not_hide_the_others() -> None:
    tensor = np.stack([np.full((3, 4), 20.0), np.full((3, 4), np.nan)], axis=1)
    filled, last = interpolate_periods(tensor, np.full((3, 2), np.nan), 2)
    assert np.isfinite(filled).all(), "NaN is left only where nothing is known at all"
    assert np.isnan(last[:, 1]).all()
