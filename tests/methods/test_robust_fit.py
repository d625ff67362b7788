from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from oracles import methods as oracle
from sensormend.methods.robust_fit import alternating_fit, robust_fit, soft

Floats = NDArray[np.float64]


def problem(seed: int, rows: int, rank: int, kind: str) -> tuple[Floats, Floats]:
    """A column and a basis: plain, with columns of zeros, with equal columns, with a few rows far off, or whole."""
    random = np.random.default_rng(seed)
    L, z = random.random((rows, rank)), random.normal(0, 3, rows)
    if kind == "zeros":
        L[:, ::2] = 0
    elif kind == "equal":
        L = np.repeat(z[:, None], rank, axis=1)
    elif kind == "spoilt":
        z = L @ random.normal(0, 1, rank)
        z[: rows // 3] += 100
    elif kind == "whole":
        L, z = np.round(4 * L), np.round(z)
    return z, L


def assert_optimal(z: Floats, L: Floats, weight: float, limit: float, r: Floats, e: Floats) -> None:
    """The conditions of a minimum, each relative to the size of what cancels in it."""
    left = z - L @ r - e
    assert np.abs(left).max() <= limit * (1 + 1e-9) + 1e-12 * np.abs(z).max()
    apart = np.abs(e) > 1e-12 * (np.abs(z).max() + limit)
    np.testing.assert_allclose(left[apart], limit * np.sign(e[apart]), rtol=1e-6, atol=1e-9 * np.abs(z).max())
    size = weight * np.linalg.norm(r) + np.linalg.norm(L) * np.linalg.norm(left)
    assert np.linalg.norm(weight * r - L.T @ left) <= 1e-6 * size + 1e-12


@settings(max_examples=150)
@given(
    st.integers(0, 10**6),
    st.integers(1, 12),
    st.integers(1, 12),
    st.sampled_from(["plain", "zeros", "equal", "spoilt", "whole"]),
    st.sampled_from([1e-6, 1e-2, 1.0, 1e3, 1e6]),
    st.sampled_from([1e-4, 1e-2, 0.3, 10.0, 1e6]),
)
def test_the_conditions_of_a_minimum_hold(
    seed: int, rows: int, rank: int, kind: str, weight: float, limit: float
) -> None:
    z, L = problem(seed, rows, rank, kind)
    r, e, iterations = robust_fit(z, L, weight, limit, tol=1e-10, max_iter=100)
    assert_optimal(z, L, weight, limit, r, e)
    assert iterations < 60


@settings(max_examples=40)
@given(
    st.integers(0, 10**6),
    st.integers(1, 9),
    st.integers(1, 9),
    st.sampled_from(["plain", "zeros", "equal", "spoilt", "whole"]),
)
def test_turns_go_to_the_same_point(seed: int, rows: int, rank: int, kind: str) -> None:
    z, L = problem(seed, rows, rank, kind)
    weight, limit = 0.5, 0.7
    r, e, _ = robust_fit(z, L, weight, limit, tol=1e-12, max_iter=100)

    def settled(step: Floats, _before: Floats) -> bool:
        return bool(np.linalg.norm(step) < 1e-14)

    near_r, near_e, _ = alternating_fit(z, L, weight, limit, settled=settled, max_iter=20_000)
    slow_r, slow_e, _ = oracle.alternating_fit(
        z, L, weight, limit, lambda dr, de, _r, _e: bool(max(np.abs(dr).max(), np.abs(de).max()) < 1e-14), 20_000
    )
    np.testing.assert_allclose(near_r, slow_r, rtol=0, atol=1e-9)
    np.testing.assert_allclose(near_e, slow_e, rtol=0, atol=1e-9 * np.abs(z).max() + 1e-9)
    np.testing.assert_allclose(r, slow_r, rtol=0, atol=1e-6)
    np.testing.assert_allclose(e, slow_e, rtol=0, atol=1e-6)


@pytest.mark.parametrize("cap", [1, 3, 10])
def test_turns_stop_at_max_iter(cap: int) -> None:
    z, L = problem(0, 8, 3, "spoilt")
    never = oracle.alternating_fit(z, L, 0.1, 0.1, lambda *_: False, cap)
    r, e, iterations = alternating_fit(z, L, 0.1, 0.1, settled=lambda step, before: False, max_iter=cap)
    np.testing.assert_allclose(r, never[0], rtol=1e-9)
    np.testing.assert_allclose(e, never[1], rtol=0, atol=1e-9)
    assert iterations == cap


def test_settled_gets_the_step_and_the_value_before() -> None:
    z, L = problem(0, 8, 3, "spoilt")
    calls: list[tuple[Floats, Floats]] = []

    def settled(step: Floats, before: Floats) -> bool:
        calls.append((step, before))
        return True

    r, e, iterations = alternating_fit(z, L, 0.1, 0.1, settled=settled, max_iter=9)
    assert iterations == 1
    np.testing.assert_array_equal(calls[0][0], r)
    np.testing.assert_array_equal(calls[1][0], e)
    assert not calls[0][1].any()
    assert not calls[1][1].any()


def test_a_column_of_zeros_is_zero() -> None:
    for L in (np.ones((4, 2)), np.zeros((4, 2))):
        r, e, _ = robust_fit(np.zeros(4), L, 0.1, 0.1, tol=1e-9, max_iter=50)
        assert not r.any()
        assert not e.any()


def test_a_basis_of_zeros_leaves_it_all_to_the_outliers() -> None:
    z = np.array([3.0, -0.05, -2.0])
    r, e, _ = robust_fit(z, np.zeros((3, 2)), 0.1, 0.1, tol=1e-9, max_iter=50)
    assert not r.any()
    np.testing.assert_allclose(e, [2.9, 0.0, -1.9])


def test_soft_keeps_the_sign_and_zero() -> None:
    np.testing.assert_allclose(soft(np.array([-3.0, -1.0, 0.0, 0.2, 5.0]), 1.0), [-2, 0, 0, 0, 4])


@pytest.mark.parametrize("size", [1e7, 1e8, 1e9, 1e12, 1e20])
@pytest.mark.parametrize("rank", [2, 3, 10])
def test_singular_by_rounding_is_solved_all_the_same(size: float, rank: int) -> None:
    """Equal columns in which the ridge is lost: whichever of the solutions comes out, it fits and is of their size."""
    z = size * np.array([1.0, 2.0, 3.0, 4.0])
    L = np.repeat(z[:, None], rank, axis=1)
    turned, e, _ = alternating_fit(z, L, 0.1, 0.1, settled=lambda step, before: False, max_iter=20)
    np.testing.assert_allclose(L @ turned + e, z, rtol=1e-6)
    fitted, e, _ = robust_fit(z, L, 0.1, 10 * size, tol=1e-9, max_iter=50)
    np.testing.assert_allclose(L @ fitted + e, z, rtol=1e-6)
    assert max(np.abs(turned).max(), np.abs(fitted).max()) < 10
