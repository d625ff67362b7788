from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import naive_methods
from against import Floats, readings, relative_error
from sensormend import TRPCA, ConfigError


def whole_line(tensor: Floats, fiber_axis: int) -> Floats:
    """Close the gaps of every sensor and variable over the whole time, periods in order, each slot by slot."""
    closed = np.empty(tensor.shape)
    slots, times = tensor.shape[fiber_axis], tensor.shape[fiber_axis + 1 :]
    for row in np.ndindex(tensor.shape[:fiber_axis]):
        at = [(*row, slot, *time) for time in np.ndindex(times) for slot in range(slots)]
        line = naive_methods.straight([float(tensor[cell]) for cell in at], None)
        assert line is not None
        for cell, value in zip(at, line, strict=True):
            closed[cell] = value
    return closed


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("missing", [0.0, 0.15])
@pytest.mark.parametrize(
    ("shape", "fiber_axis"), [((6, 5, 7), 1), ((5, 8, 4), 1), ((4, 2, 5, 6), 2), ((7, 9), 1), ((3, 2, 5), 2)]
)
def test_equals_the_oracle(shape: tuple[int, ...], fiber_axis: int, missing: float, seed: int) -> None:
    tensor = readings(shape, seed, missing) if len(shape) > fiber_axis + 1 else readings((*shape, 5), seed, 0.0)[..., 0]
    full = whole_line(tensor, fiber_axis)
    last = shape[-1] if len(shape) > fiber_axis + 1 else 1
    X = full.reshape(shape[0], -1, last)
    L, S, iterations = naive_methods.trpca(X, 1 / math.sqrt(max(X.shape[:2]) * last))
    result = TRPCA(fiber_axis=fiber_axis).recover(tensor)
    np.testing.assert_allclose(result.low_rank, L.reshape(shape), rtol=0, atol=1e-7)
    expected = np.where(np.isnan(tensor), 0.0, S.reshape(shape))
    np.testing.assert_allclose(result.outliers, expected, rtol=0, atol=1e-7)
    assert abs(result.iterations - iterations) <= 1
    assert np.abs(S).max() > 0.1
    assert np.abs(L).max() > 0.1


def test_a_weight_of_ones_own() -> None:
    tensor = readings((6, 5, 7), 4, missing=0.0)
    L, S, _ = naive_methods.trpca(tensor, 0.4)
    result = TRPCA(0.4).recover(tensor)
    np.testing.assert_allclose(result.low_rank, L, rtol=0, atol=1e-7)
    np.testing.assert_allclose(result.outliers, S, rtol=0, atol=1e-7)


def test_an_even_and_an_odd_number_of_periods_are_summed_back_exactly() -> None:
    for periods in (1, 2, 3, 6, 7):
        tensor = readings((5, 4, 8), 4, missing=0.0)[..., :periods]
        result = TRPCA().recover(tensor)
        np.testing.assert_allclose(result.low_rank + result.outliers, tensor, rtol=0, atol=1e-7)


def test_the_number_of_iterations_is_limited() -> None:
    assert TRPCA(max_iter=9).recover(readings((6, 5, 7), 0)).iterations == 9


@pytest.mark.parametrize(
    ("settings", "says"),
    [({"lam": 0}, "lam"), ({"fiber_axis": 0}, "axis 0 is the sensors"), ({"fiber_axis": 1.5}, "fiber_axis"),
     ({"tol": 0}, "tol"), ({"max_iter": 0}, "max_iter"), ({"threshold": -1}, "threshold")],
)  # fmt: skip
def test_wrong_settings_get_one_clear_line(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        TRPCA(**settings)


def test_lands_where_another_port_did_on_noaa(noaa: Floats) -> None:
    # At the published tolerance, which takes four times as long, it is 0.0462 too.
    assert relative_error(TRPCA(tol=0.1), noaa, 0) == pytest.approx(0.046, rel=0.1)
