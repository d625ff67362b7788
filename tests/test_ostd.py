from __future__ import annotations

import math

import numpy as np
import pytest

import naive_methods
from against import SHAPES, Floats, compare, periods, readings, relative_error
from sensormend import OSTD, ConfigError


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("missing", [0.0, 0.15])
@pytest.mark.parametrize(("shape", "fiber_axis"), SHAPES)
def test_every_mode_vectorised_yields_what_one_does(
    shape: tuple[int, ...], fiber_axis: int, missing: float, seed: int
) -> None:
    tensor = readings(shape, seed, missing)
    weight = 1 / math.sqrt(math.prod(shape[:-1]))
    oracle = naive_methods.Ostd(3, weight, 10 * weight)
    last: naive_methods.Last = {}
    model = OSTD(3, fiber_axis=fiber_axis)
    expected, iterations = [], 0
    for period in periods(tensor):
        X, E, turns = oracle.frame(naive_methods.close(period, last))
        expected.append((X, np.where(np.isnan(period), 0.0, E)))
        iterations += turns
    result = model.recover(tensor)
    # The columns of the first basis are equal: the sweep after it subtracts numbers that cancel.
    compare(result, expected, atol=1e-7)
    assert result.iterations == iterations


def test_minibatches_of_several_periods_have_three_modes() -> None:
    tensor = readings((5, 4, 9), 3, missing=0.0)
    weight = 1 / math.sqrt(5 * 4 * 3)
    oracle, model = naive_methods.Ostd(2, weight, 10 * weight), OSTD(2)
    for first in (0, 3, 6):
        X, E, iterations = oracle.frame(tensor[..., first : first + 3])
        result = model.update(tensor[..., first : first + 3])
        np.testing.assert_allclose(result.low_rank, X, rtol=0, atol=1e-7)
        np.testing.assert_allclose(result.outliers, E, rtol=0, atol=1e-7)
        assert result.iterations == iterations


def test_the_turns_are_limited() -> None:
    tensor = 30 * readings((6, 5, 4), 0, missing=0.0)
    weight = 1 / math.sqrt(30)
    for cap in (50, 7):
        oracle = naive_methods.Ostd(3, weight, 10 * weight, cap)
        frames = [oracle.frame(period) for period in periods(tensor)]
        result = OSTD(3, max_iter=cap).recover(tensor)
        assert result.iterations == sum(turns for _, _, turns in frames)
        assert max(turns for _, _, turns in frames) == cap
        compare(result, frames, atol=1e-6)


def test_a_frame_of_zeros_does_not_become_the_basis() -> None:
    tensor = readings((6, 5, 4), 0, missing=0.0)
    late = np.concatenate([np.zeros((6, 5, 2)), tensor], axis=-1)
    model = OSTD(2)
    np.testing.assert_array_equal(model.recover(late).low_rank[..., 2:], OSTD(2).recover(tensor).low_rank)


def test_readings_so_large_that_the_ridge_is_lost() -> None:
    tensor = 1e9 * (5 + readings((6, 5, 7), 0, missing=0.0))
    result = OSTD(3).recover(tensor)
    assert np.isfinite(result.low_rank).all()
    assert np.abs(result.low_rank).max() < 10 * np.abs(tensor).max()


def test_sensors_are_the_first_axis() -> None:
    with pytest.raises(ConfigError, match="axis 0 is the sensors"):
        OSTD(fiber_axis=0)


def test_lands_where_another_port_did_on_noaa(noaa: Floats) -> None:
    assert relative_error(OSTD(10), noaa, 0) == pytest.approx(0.325, rel=0.15)
