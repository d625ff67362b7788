from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from oracles.methods import bcd
from sensormend.methods.stoc_rpca import bounded_sweep


@given(st.integers(0, 10**6), st.integers(1, 7), st.integers(1, 7), st.floats(1e-9, 1e3))
def test_bounded_sweep(seed: int, rows: int, rank: int, weight: float) -> None:
    random = np.random.default_rng(seed)
    r, z = random.normal(0, 3, (rank, 4)), random.normal(0, 10, (rows, 4))
    L, A, B = random.normal(0, 1, (rows, rank)), r @ r.T, z @ r.T
    before = L.copy()
    swept = bounded_sweep(L, A, B, weight)
    np.testing.assert_allclose(swept, bcd(L, A, B, weight), rtol=1e-7, atol=1e-9)
    assert np.linalg.norm(swept, axis=0).max() <= 1 + 1e-12
    np.testing.assert_array_equal(L, before)


def test_a_basis_too_long_to_be_allowed_is_cut() -> None:
    swept = bounded_sweep(np.ones((3, 2)), np.eye(2), np.full((3, 2), 50.0), 0.1)
    np.testing.assert_allclose(np.linalg.norm(swept, axis=0), 1)
