from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive_methods
from against import SHAPES, Floats, compare, periods, readings, relative_error
from sensormend import OLRSC
from sensormend.methods.olrsc import relative, sweep


def start(rows: int, rank: int, seed: int) -> Floats:
    """The dictionary that a model of this seed draws."""
    return np.random.default_rng(seed).standard_normal((rows, rank))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("missing", [0.0, 0.15])
@pytest.mark.parametrize(("shape", "fiber_axis"), SHAPES)
def test_equals_the_oracle(shape: tuple[int, ...], fiber_axis: int, missing: float, passes: int, seed: int) -> None:
    tensor = readings(shape, seed, missing)
    oracle = naive_methods.Olrsc(start(shape[0], 3, seed))
    result = OLRSC(3, fiber_axis=fiber_axis, seed=seed).recover(tensor, passes=passes)
    for _ in range(passes):
        oracle.start_over()
        expected = naive_methods.walk(periods(tensor), oracle.column)
    compare(result, expected)


def test_another_weight_of_the_fit() -> None:
    tensor = readings((6, 5, 7), 1)
    oracle = naive_methods.Olrsc(start(6, 2, 1), lambda1=3.0)
    compare(OLRSC(2, lambda1=3.0, seed=1).recover(tensor), naive_methods.walk(periods(tensor), oracle.column))


def test_a_stream_is_one_pass_however_often_it_is_cut() -> None:
    tensor = readings((6, 5, 7), 1)
    whole, model = OLRSC(2, seed=1).recover(tensor), OLRSC(2, seed=1)
    last = [model.update(tensor[..., day]) for day in range(7)][-1]
    np.testing.assert_array_equal(last.low_rank, whole.low_rank[..., -1])


@given(st.integers(0, 10**6), st.integers(1, 7), st.integers(1, 7), st.floats(1e-3, 1e3))
def test_the_sweep_is_a_loop_in_place(seed: int, rows: int, rank: int, weight: float) -> None:
    random = np.random.default_rng(seed)
    v, z = random.normal(0, 1, (rank, 9)), random.normal(0, 5, (rows, 9))
    D, A, B = random.normal(0, 1, (rows, rank)), v @ v.T, z @ v.T
    before = D.copy()
    expected = naive_methods.in_place(D, A + weight * np.eye(rank), B)
    np.testing.assert_allclose(sweep(D, A, B, weight), expected, rtol=1e-8, atol=1e-8)
    np.testing.assert_array_equal(D, before)


def test_relative_to_nothing_is_absolute() -> None:
    assert relative(np.array([3.0, 4.0]), np.zeros(2)) == 5
    assert relative(np.array([3.0, 4.0]), np.array([10.0, 0.0])) == 0.5


def test_lands_where_another_port_did_on_noaa(noaa: Floats) -> None:
    assert relative_error(OLRSC(20, seed=0), noaa, 0) == pytest.approx(0.264, rel=0.1)
