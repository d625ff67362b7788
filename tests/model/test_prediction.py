"""Leave-one-out prediction is regression on the trusted others, whatever is trusted."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles import kernels, prediction
from oracles.prediction import Bools, Floats
from sensormend.model import arrays
from sensormend.model.prediction import prediction_covariance

SEEDS = st.integers(0, 2**32 - 1)
SIZES = st.integers(1, 20)
SHARES = st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0])
SHRINKAGE = 0.01


class Cells(NamedTuple):
    """The part of the engine's `Work` that interpolation needs."""

    cells: Floats
    flags: Bools


CLOSE = 1e-9
"""Relative to the standard deviation. With correlations shrunk by 1 % a correlation matrix of 20 has a condition below
2,000; measured over 1,500 drawn ones, rounding stays below 1e-12."""


def drawn_covariance(random: np.random.Generator, n: int, copies: int) -> Floats:
    """Draw second moments of channels on scales from 0.1 to 10, some of which are exact copies of the first."""
    mixing = random.normal(size=(n, n // 2 + int(random.integers(1, n + 1))))
    mixing[1 : 1 + copies] = mixing[0]
    moments = mixing @ mixing.T + 1e-3 * np.eye(n)
    moments[: 1 + copies, : 1 + copies] = moments[0, 0]
    scale = 10 ** random.uniform(-1, 1, n)
    return np.asarray(moments * scale * scale[:, None])


def inverse(matrix: Floats) -> Floats:
    out = matrix.copy()
    assert kernels.invert(out, len(out), np.empty((len(out) + 1, len(out))))
    return out


@given(SEEDS, SIZES, st.integers(0, 3))
def test_invert(seed: int, n: int, copies: int) -> None:
    matrix = prediction.shrunk(drawn_covariance(np.random.default_rng(seed), n, min(copies, n - 1)), SHRINKAGE)
    scale = np.sqrt(np.diag(matrix))
    product = (inverse(matrix) * scale * scale[:, None]) @ (matrix / scale / scale[:, None])
    np.testing.assert_allclose(product, np.eye(n), atol=1e-9)


def test_what_is_not_positive_definite_is_not_inverted() -> None:
    for matrix in ([[1.0, 2.0], [2.0, 1.0]], [[0.0]], [[np.nan]], [[1.0, 1.0], [1.0, 1.0]]):
        a = np.array(matrix)
        assert not kernels.invert(a, len(a), np.empty((len(a) + 1, len(a))))


@given(SEEDS, SIZES, st.floats(0, 1))
def test_prediction_covariance(seed: int, n: int, shrinkage: float) -> None:
    moments = drawn_covariance(np.random.default_rng(seed), n, 0)
    out = np.full((n, n), np.nan)
    prediction_covariance.py_func(moments, n, shrinkage, out)
    np.testing.assert_allclose(out, prediction.shrunk(moments, shrinkage), rtol=1e-14)


def algebra(n: int) -> arrays.Algebra:
    return arrays.Algebra(
        np.full((n + 1, n), np.nan), np.full((n + 1, n + 2), np.nan), np.full(n + 4, np.nan), np.full(n + 2, -1)
    )  # fmt: skip


def predicted(precision: Floats, deviation: Floats, trusted: Bools, slot: int) -> tuple[Floats, Floats]:
    n = len(deviation)
    expected, variance = np.full(deviation.shape, np.nan), np.full(deviation.shape, np.nan)
    kernels.leave_one_out(precision, n, deviation, trusted, np.array([slot]), 1, expected, variance, algebra(n))
    assert np.isnan(np.delete(expected, slot, axis=1)).all()
    assert np.isnan(np.delete(variance, slot, axis=1)).all()
    return expected[:, slot], variance[:, slot]


@settings(max_examples=150)
@given(SEEDS, SIZES, st.integers(0, 3), SHARES)
def test_leave_one_out(seed: int, n: int, copies: int, share: float) -> None:
    random = np.random.default_rng(seed)
    matrix = prediction.shrunk(drawn_covariance(random, n, min(copies, n - 1)), SHRINKAGE)
    scale = np.sqrt(np.diag(matrix))
    deviation = scale[:, None] * random.normal(size=(n, 3))
    trusted = random.random((n, 3)) < share
    slot = int(random.integers(3))
    expected, variance = predicted(inverse(matrix), deviation, trusted, slot)
    slow, left = prediction.leave_one_out(matrix, deviation[:, slot], trusted[:, slot])
    np.testing.assert_allclose(expected / scale, slow / scale, rtol=0, atol=CLOSE)
    np.testing.assert_allclose(variance / scale**2, left / scale**2, rtol=0, atol=CLOSE)


@given(SEEDS, st.integers(1, 8), SHARES)
def test_slots_with_the_same_gaps_are_predicted_together(seed: int, n: int, share: float) -> None:
    random = np.random.default_rng(seed)
    matrix = prediction.shrunk(drawn_covariance(random, n, 0), SHRINKAGE)
    slots = 9
    deviation = np.sqrt(np.diag(matrix))[:, None] * random.normal(size=(n, slots))
    # Few patterns, in spans and one by one, and some slots that nothing has to be done for.
    trusted = (random.random((n, 3)) < share)[:, random.integers(3, size=slots)]
    stale = random.random(slots) < 0.8
    wanted, left = stale.copy(), stale.copy()
    expected, variance = np.full((n, slots), np.nan), np.full((n, slots), np.nan)
    some, groups = np.empty(slots, np.int64), 0
    for slot in range(slots):
        if left[slot]:
            count = kernels.take_alike(trusted, n, left, slot, slots, some)
            assert (trusted[:, some[:count]] == trusted[:, [slot]]).all()
            kernels.leave_one_out(inverse(matrix), n, deviation, trusted, some, count, expected, variance, algebra(n))
            groups += 1
    assert not left.any()
    patterns = trusted[:, wanted].T
    assert groups == (1 + (patterns[1:] != patterns[:-1]).any(axis=1).sum() if wanted.any() else 0)
    for slot in range(slots):
        if not wanted[slot]:
            assert np.isnan(expected[:, slot]).all()
            continue
        one, its = predicted(inverse(matrix), deviation, trusted, slot)
        np.testing.assert_array_equal(expected[:, slot], one)
        np.testing.assert_array_equal(variance[:, slot], its)


@given(SEEDS, SIZES, SHARES)
def test_what_is_not_trusted_predicts_no_other(seed: int, n: int, share: float) -> None:
    random = np.random.default_rng(seed)
    precision = inverse(prediction.shrunk(drawn_covariance(random, n, 0), SHRINKAGE))
    deviation, trusted = random.normal(size=(n, 1)), random.random((n, 1)) < share
    other = np.where(trusted, deviation, random.choice([1e6, np.nan, np.inf], (n, 1)))
    for one, two in zip(*(predicted(precision, d, trusted, 0) for d in (deviation, other)), strict=True):
        np.testing.assert_array_equal(one, two)


@given(SEEDS, SIZES, st.integers(0, 3), SHARES, st.floats(0.01, 1))
def test_conditional_covariance(seed: int, n: int, copies: int, share: float, weight: float) -> None:
    random = np.random.default_rng(seed)
    matrix = prediction.shrunk(drawn_covariance(random, n, min(copies, n - 1)), SHRINKAGE)
    trusted = random.random((n, 2)) < share
    before = random.normal(size=(n, n))
    before += before.T
    out = before.copy()
    kernels.add_conditional_covariance(inverse(matrix), n, trusted, 1, weight, 2, out, algebra(n))
    added = before + 2 * weight * prediction.conditional_covariance(matrix, trusted[:, 1])
    scale = np.sqrt(np.diag(matrix))
    scale = scale * scale[:, None]
    np.testing.assert_allclose(out / scale, added / scale, rtol=1e-12, atol=CLOSE)


@given(SEEDS, st.integers(1, 5), st.integers(1, 12), st.sampled_from([0.0, 0.1, 0.3, 1.0]))
def test_predictions_are_interpolated_where_nothing_is_trusted(seed: int, n: int, slots: int, share: float) -> None:
    random = np.random.default_rng(seed)
    expected, trusted = random.normal(size=(n, slots)), random.random((n, slots)) < share
    work = Cells(np.full((14, n, slots), np.nan), np.zeros((4, n, slots), np.bool_))
    work.cells[arrays.EXPECTED], work.flags[arrays.PREDICTS] = expected, trusted
    kernels.interpolate_gaps(work, n, slots)
    np.testing.assert_allclose(work.cells[arrays.EXPECTED], prediction.interpolated(expected, trusted), atol=1e-12)
