from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive_methods
from against import SHAPES, Floats, compare, periods, readings
from sensormend import StocRPCA
from sensormend.methods.stoc_rpca import bounded_sweep


def start(rows: int, rank: int, seed: int) -> Floats:
    """The basis that a model of this seed draws."""
    return np.random.default_rng(seed).random((rows, rank))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("missing", [0.0, 0.15])
@pytest.mark.parametrize(("shape", "fiber_axis"), SHAPES)
def test_equals_the_oracle(shape: tuple[int, ...], fiber_axis: int, missing: float, seed: int) -> None:
    tensor = readings(shape, seed, missing)
    columns = math.prod(shape[1:])
    weight = 1 / math.sqrt(max(shape[0], columns))
    oracle = naive_methods.StocRpca(start(shape[0], 2, seed), columns, weight, weight)
    result = StocRPCA(2, columns=columns, fiber_axis=fiber_axis, seed=seed).recover(tensor)
    compare(result, naive_methods.walk(periods(tensor), oracle.column), atol=1e-6)


def test_weights_of_ones_own_and_more_columns_than_sensors() -> None:
    tensor = readings((4, 6, 8), 5)
    oracle = naive_methods.StocRpca(start(4, 6, 1), 100, 0.3, 0.5)
    result = StocRPCA(6, columns=100, lambda1=0.3, lambda2=0.5, seed=1).recover(tensor)
    compare(result, naive_methods.walk(periods(tensor), oracle.column), atol=1e-6)


def test_a_second_pass_keeps_the_basis_and_forgets_what_was_carried() -> None:
    tensor = readings((6, 5, 5), 2)
    oracle = naive_methods.StocRpca(start(6, 2, 1), 50, 0.2, 0.4)
    naive_methods.walk(periods(tensor), oracle.column)
    result = StocRPCA(2, columns=50, lambda1=0.2, lambda2=0.4, seed=1).recover(tensor, passes=2)
    compare(result, naive_methods.walk(periods(tensor), oracle.column), atol=1e-6)


@given(st.integers(0, 10**6), st.integers(1, 7), st.integers(1, 7), st.floats(1e-9, 1e3))
def test_bounded_sweep(seed: int, rows: int, rank: int, weight: float) -> None:
    random = np.random.default_rng(seed)
    r, z = random.normal(0, 3, (rank, 4)), random.normal(0, 10, (rows, 4))
    L, A, B = random.normal(0, 1, (rows, rank)), r @ r.T, z @ r.T
    before = L.copy()
    swept = bounded_sweep(L, A, B, weight)
    np.testing.assert_allclose(swept, naive_methods.bcd(L, A, B, weight), rtol=1e-7, atol=1e-9)
    assert np.linalg.norm(swept, axis=0).max() <= 1 + 1e-12
    np.testing.assert_array_equal(L, before)


def test_a_basis_too_long_to_be_allowed_is_cut() -> None:
    swept = bounded_sweep(np.ones((3, 2)), np.eye(2), np.full((3, 2), 50.0), 0.1)
    np.testing.assert_allclose(np.linalg.norm(swept, axis=0), 1)
