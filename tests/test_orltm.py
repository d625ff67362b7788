from __future__ import annotations

import numpy as np
import pytest

import naive_methods
from against import SHAPES, compare, periods, readings
from sensormend import ORLTM, ConfigError


def oracle_of(shape: tuple[int, ...], rank: int, seed: int, lambda1: float = 1.0) -> naive_methods.Orltm:
    """The oracle, from the dictionaries that a model of this seed draws."""
    random = np.random.default_rng(seed)
    return naive_methods.Orltm([random.standard_normal((length, rank)) for length in shape], lambda1)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("missing", [0.0, 0.15])
@pytest.mark.parametrize(("shape", "fiber_axis"), SHAPES)
def test_equals_the_oracle(shape: tuple[int, ...], fiber_axis: int, missing: float, passes: int, seed: int) -> None:
    tensor = readings(shape, seed, missing)
    oracle = oracle_of(shape[:-1], 3, seed)
    result = ORLTM(3, fiber_axis=fiber_axis, seed=seed).recover(tensor, passes=passes)
    for _ in range(passes):
        oracle.start_over()
        last: naive_methods.Last = {}
        expected, iterations = [], 0
        for period in periods(tensor):
            X, E, turns = oracle.minibatch(naive_methods.close(period, last))
            expected.append((X, np.where(np.isnan(period), 0.0, E)))
            iterations += turns
    compare(result, expected)
    assert result.iterations == iterations


def test_minibatches_of_several_periods_have_three_modes() -> None:
    tensor = readings((5, 4, 9), 3, missing=0.0)
    oracle, model = oracle_of((5, 4, 3), 2, 8, lambda1=2.0), ORLTM(2, lambda1=2.0, seed=8)
    for first in (0, 3, 6):
        X, E, iterations = oracle.minibatch(tensor[..., first : first + 3])
        result = model.update(tensor[..., first : first + 3])
        np.testing.assert_allclose(result.low_rank, X, rtol=0, atol=1e-8)
        np.testing.assert_allclose(result.outliers, E, rtol=0, atol=1e-8)
        assert result.iterations == iterations


def test_it_says_that_it_is_a_reconstruction() -> None:
    assert "RECONSTRUCTION" in (ORLTM.__doc__ or "")


def test_sensors_are_the_first_axis() -> None:
    with pytest.raises(ConfigError, match="axis 0 is the sensors"):
        ORLTM(fiber_axis=0)


def test_readings_so_large_that_the_ridge_is_lost() -> None:
    tensor = np.full((6, 5, 4), 2e8)
    result = ORLTM(2, seed=0).recover(tensor)
    assert np.isfinite(result.low_rank).all()


def test_a_day_of_zeros_is_what_the_next_gap_starts_from() -> None:
    tensor = np.full((4, 6, 3), 5.0)
    tensor[..., 1] = 0.0
    tensor[2, :2, 2] = np.nan
    model = ORLTM(1, seed=0)
    for day in range(2):
        model.update(tensor[..., day])
    assert model._state is not None
    np.testing.assert_array_equal(model._state.arrays["last"], np.zeros((4, 1)))
