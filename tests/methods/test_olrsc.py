from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from method_cases import readings
from oracles.methods import in_place
from sensormend.methods import OLRSC
from sensormend.methods.olrsc import relative, sweep


def test_a_stream_is_one_pass_however_often_it_is_cut() -> None:
    tensor = readings((6, 5, 7), 1)
    whole, model = OLRSC(2, seed=1).recover(tensor), OLRSC(2, seed=1)
    last = [model.update(tensor[..., day]) for day in range(7)][-1]
    np.testing.assert_array_equal(last.expected, whole.expected[..., -1])


@given(st.integers(0, 10**6), st.integers(1, 7), st.integers(1, 7), st.floats(1e-3, 1e3))
def test_the_sweep_is_a_loop_in_place(seed: int, rows: int, rank: int, weight: float) -> None:
    random = np.random.default_rng(seed)
    v, z = random.normal(0, 1, (rank, 9)), random.normal(0, 5, (rows, 9))
    D, A, B = random.normal(0, 1, (rows, rank)), v @ v.T, z @ v.T
    before = D.copy()
    expected = in_place(D, A + weight * np.eye(rank), B)
    np.testing.assert_allclose(sweep(D, A, B, weight), expected, rtol=1e-8, atol=1e-8)
    np.testing.assert_array_equal(D, before)


def test_relative_to_nothing_is_absolute() -> None:
    assert relative(np.array([3.0, 4.0]), np.zeros(2)) == 5
    assert relative(np.array([3.0, 4.0]), np.array([10.0, 0.0])) == 0.5
