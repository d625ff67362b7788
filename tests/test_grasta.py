from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_methods
from against import SHAPES, Floats, compare, periods, readings, relative_error
from sensormend import GRASTA
from sensormend.methods.grasta import FAINT


def start(rows: int, rank: int, seed: int) -> Floats:
    """The subspace that a model of this seed draws."""
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((rows, min(rank, rows))))[0]


def subspace(model: GRASTA) -> Floats:
    assert model._state is not None
    return np.asarray(model._state.arrays["U"])


def off_orthonormal(model: GRASTA) -> float:
    U = subspace(model)
    return float(np.abs(U.T @ U - np.eye(U.shape[1])).max())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("missing", [0.0, 0.15, 0.5])
@pytest.mark.parametrize(("shape", "fiber_axis"), SHAPES)
def test_equals_the_oracle(shape: tuple[int, ...], fiber_axis: int, missing: float, seed: int) -> None:
    tensor = readings(shape, seed, missing)
    oracle = naive_methods.Grasta(start(shape[0], 2, seed), FAINT)
    model = GRASTA(2, fiber_axis=fiber_axis, seed=seed)
    result = model.recover(tensor)
    compare(result, naive_methods.walk(periods(tensor), oracle.column, interpolate=False), atol=1e-5)
    np.testing.assert_allclose(subspace(model), oracle.U, rtol=0, atol=1e-5)


def in_step(model: GRASTA, faint: float) -> naive_methods.Grasta:
    """The oracle as it would be if it had come as far as the model."""
    assert model._state is not None
    known = model._state.arrays
    scale, gradient = float(known["scale"]), np.outer(known["g"], known["w"])
    return naive_methods.Grasta(
        np.array(known["U"]),
        faint,
        mu=float(known["mu"]),
        level=int(known["level"]),
        scale=scale or None,
        before=gradient if gradient.any() else None,
    )


def test_every_step_is_that_of_the_oracle_through_many_levels() -> None:
    """Rounding grows from column to column, so that a long run can only be compared step by step."""
    random = np.random.default_rng(3)
    tensor = random.normal(0, 1, (8, 2)) @ random.normal(0, 2, (2, 900))
    # From here on all columns point the same new way, and so do their gradients: larger steps are called for.
    tensor[:, 700:] = random.normal(0, 1, (8, 1)) @ random.normal(9, 1, (1, 200))
    tensor[random.random(tensor.shape) < 0.02] += 20
    tensor[random.random(tensor.shape) < 0.1] = np.nan
    model = GRASTA(2, seed=0)
    model.update(tensor[:, :1])
    levels = []
    for column in tensor.T[1:]:
        oracle = in_step(model, FAINT)
        X, E = oracle.column(column)
        result = model.update(column[:, None])
        np.testing.assert_allclose(result.low_rank[:, 0], X, rtol=0, atol=1e-7)
        np.testing.assert_allclose(result.outliers[:, 0], E, rtol=0, atol=1e-7)
        after = in_step(model, FAINT)
        np.testing.assert_allclose(after.U, oracle.U, rtol=0, atol=1e-7)
        assert after.mu == pytest.approx(oracle.mu)
        assert after.level == oracle.level
        levels.append(oracle.level)
    assert max(levels) >= 7, "the adaptive step has been through several levels"
    assert (np.diff(levels) < 0).any(), "and down again"


@pytest.mark.parametrize("level", [0, 1, 2, 5])
@pytest.mark.parametrize(("mu", "agree"), [(1.0, True), (1.5, True), (14.5, False), (9.0, False)])
def test_when_the_step_changes_its_level(level: int, mu: float, agree: bool) -> None:
    """Gradients that agree lower mu, at its least the level goes down if above 1; at its most the level goes up."""
    model, twin = GRASTA(2, seed=0), GRASTA(2, seed=0)
    random = np.random.default_rng(3)
    first, column = random.normal(0, 2, (2, 6, 1))
    for each in (model, twin):
        each.update(first)
    twin.update(column)
    assert model._state is not None
    assert twin._state is not None
    known = model._state.arrays
    known["mu"][...], known["level"][...] = mu, level
    known["w"][...] = twin._state.arrays["w"]
    known["g"][...] = (1 if agree else -1) * twin._state.arrays["g"]
    oracle = in_step(model, FAINT)
    oracle.column(column[:, 0])
    model.update(column)
    after = in_step(model, FAINT)
    assert after.level == oracle.level
    assert after.mu == pytest.approx(oracle.mu)
    expected = {(1.0, True): max(level - 1, min(level, 1)), (14.5, False): level + 1, (9.0, False): level}
    assert after.level == expected.get((mu, agree), expected[1.0, True])
    np.testing.assert_allclose(after.U, oracle.U, rtol=0, atol=1e-9)


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.integers(2, 7), st.integers(1, 8), st.sampled_from([0.3, 0.7, 0.9]))
def test_equals_the_oracle_with_any_rank_and_gaps(seed: int, rows: int, rank: int, missing: float) -> None:
    random = np.random.default_rng(seed)
    tensor = random.normal(3, 2, (rows, 6, 4))
    tensor[random.random(tensor.shape) < missing] = np.nan
    oracle = naive_methods.Grasta(start(rows, rank, seed), FAINT)
    model = GRASTA(rank, seed=seed)
    results = [model.update(period) for period in periods(tensor)]
    expected = naive_methods.walk(periods(tensor), oracle.column, interpolate=False)
    heard = np.cumsum([np.isfinite(period).any() for period in periods(tensor)]) > 0
    for result, (X, E), known in zip(results, expected, heard, strict=True):
        if known:
            np.testing.assert_allclose(result.low_rank, X, rtol=0, atol=1e-6)
            np.testing.assert_allclose(result.outliers, E, rtol=0, atol=1e-6)
        else:
            assert np.isnan(result.low_rank).all()


def test_an_hour_without_any_reading_is_as_the_one_before() -> None:
    tensor = readings((6, 8, 5), 0, 0.0) + 20.0
    tensor[:, 3, 4] = np.nan
    result = GRASTA(2, seed=0).recover(tensor)
    before = result.low_rank[:, 2, 4]
    assert np.abs(result.cleaned[:, 3, 4] - before).max() < 0.2 * np.abs(before).max(), "and not 0"


def test_the_direction_that_nobody_sees_is_not_fitted() -> None:
    # The sensors that report see a thousandth of the second direction: fitted, it would be huge in the third sensor.
    tiny = 1e-3
    U = np.linalg.qr(np.array([[1.0, 0], [1, tiny], [1, 0], [0, 1]]))[0]
    model = GRASTA(2, seed=0)
    model.update(np.ones((4, 1)))
    learned = model._state
    assert learned is not None
    for part, array in learned.arrays.items():
        if part == "U":
            array[...] = U
    result = model.update(np.array([[5.0], [6.0], [5.0], [np.nan]]))
    assert np.abs(result.low_rank).max() < 50


def never_heard(tensor: Floats) -> None:
    tensor[3] = np.nan


def one_reading(tensor: Floats) -> None:
    lone = tensor[4, ::2].copy()
    tensor[:, ::2] = np.nan
    tensor[4, ::2] = lone


def too_few(tensor: Floats) -> None:
    tensor[2:] = np.nan


def zeros(tensor: Floats) -> None:
    tensor[:, 1] = 0.0


def as_many_as_the_rank(tensor: Floats) -> None:
    tensor[4:, ::3] = np.nan


def huge(tensor: Floats) -> None:
    tensor *= 1e90


def tiny(tensor: Floats) -> None:
    tensor *= 1e-90


def constant(tensor: Floats) -> None:
    tensor[...] = 7.0


@pytest.mark.parametrize("rank", [1, 4, 6, 8, 20])
@pytest.mark.parametrize("spoil", [never_heard, one_reading, too_few, zeros, as_many_as_the_rank, huge, tiny, constant])
def test_trouble_is_finite_and_the_subspace_stays_orthonormal(spoil: Callable[[Floats], None], rank: int) -> None:
    tensor = np.random.default_rng(1).normal(15, 6, (8, 10, 12))
    spoil(tensor)
    model = GRASTA(rank, seed=2)
    result = model.recover(tensor)
    assert np.isfinite(result.low_rank).all()
    assert np.isfinite(result.outliers).all()
    assert off_orthonormal(model) < 1e-10
    size = float(np.nanmax(np.abs(tensor)))
    assert np.abs(result.low_rank).max() < 100 * size, "no coefficient runs off"


def test_too_few_readings_are_fitted_and_do_not_turn_the_subspace() -> None:
    model = GRASTA(3, seed=2)
    model.recover(np.random.default_rng(1).normal(15, 6, (8, 10, 5)))
    before = subspace(model).copy()
    day = np.full((8, 10), np.nan)
    day[[0, 3, 5]] = [[10.0], [12.0], [17.0]]
    result = model.update(day)
    np.testing.assert_array_equal(subspace(model), before)
    assert np.isfinite(result.low_rank).all()
    day[6] = 11.0
    model.update(day)
    assert np.abs(subspace(model) - before).max() > 0, "one reading more turns it"


@pytest.mark.parametrize("rank", [2, 5, 10])
def test_the_subspace_stays_orthonormal_for_thousands_of_columns(rank: int) -> None:
    random = np.random.default_rng(5)
    tensor = random.normal(0, 1, (10, 3)) @ random.normal(1, 3, (3, 2400)) + random.normal(0, 0.1, (10, 2400))
    tensor[random.random(tensor.shape) < 0.1] = np.nan
    tensor[random.random(tensor.shape) < 0.05] = 90.0
    model = GRASTA(rank, seed=2)
    result = model.recover(tensor.reshape(10, 100, 24).swapaxes(1, 2))
    assert np.isfinite(result.low_rank).all()
    assert off_orthonormal(model) < 1e-8


def test_a_subspace_is_found_under_gaps_and_outliers() -> None:
    random = np.random.default_rng(5)
    truth = random.normal(0, 1, (20, 2)) @ random.normal(0, 3, (2, 2400))
    tensor = np.where(random.random(truth.shape) < 0.05, random.uniform(-30, 30, truth.shape), truth)
    tensor[random.random(tensor.shape) < 0.2] = np.nan

    def days(line: Floats) -> Floats:
        return line.reshape(20, 100, 24).swapaxes(1, 2)

    result = GRASTA(2, seed=2).recover(days(tensor))
    late = np.s_[..., 60:]
    error = np.linalg.norm(result.low_rank[late] - days(truth)[late]) / np.linalg.norm(days(truth)[late])
    assert error < 0.02


def test_lands_where_another_port_did_on_noaa(noaa: Floats) -> None:
    assert relative_error(GRASTA(5, seed=0), noaa, 0) == pytest.approx(0.087, rel=0.15)
