from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks import state
from method_cases import Floats, periods, readings
from oracles.methods import Grasta, walk
from sensormend.methods import GRASTA
from sensormend.methods.grasta import FAINT, initial_arrays, track_column

Arrays = dict[str, Floats]
TOL = 1e-6


def subspace(model: GRASTA, folder: Path) -> Floats:
    return np.asarray(state(model, folder)["U"])


def off_orthonormal(U: Floats) -> float:
    return float(np.abs(U.T @ U - np.eye(U.shape[1])).max())


def in_step(arrays: Arrays) -> Grasta:
    """The oracle as it would be if it had come as far as these arrays."""
    scale, gradient = float(arrays["scale"]), np.outer(arrays["g"], arrays["w"])
    return Grasta(
        np.array(arrays["U"]),
        FAINT,
        mu=float(arrays["mu"]),
        level=int(arrays["level"]),
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
    arrays = initial_arrays(8, 2, 0)
    levels = []
    for column in tensor.T:
        oracle = in_step(arrays)
        X, E = oracle.column(column)
        expected, outliers, _ = track_column(column, arrays, tol=TOL)
        np.testing.assert_allclose(expected, X, rtol=0, atol=1e-7)
        np.testing.assert_allclose(outliers, E, rtol=0, atol=1e-7)
        np.testing.assert_allclose(arrays["U"], oracle.U, rtol=0, atol=1e-7)
        assert float(arrays["mu"]) == pytest.approx(oracle.mu)
        assert arrays["level"] == oracle.level
        levels.append(oracle.level)
    assert max(levels) >= 7, "the adaptive step has been through several levels"
    assert (np.diff(levels) < 0).any(), "and down again"


@pytest.mark.parametrize("level", [0, 1, 2, 5])
@pytest.mark.parametrize(("mu", "agree"), [(1.0, True), (1.5, True), (14.5, False), (9.0, False)])
def test_when_the_step_changes_its_level(level: int, mu: float, agree: bool) -> None:
    """Gradients that agree lower mu, at its least the level goes down if above 1; at its most the level goes up."""
    first, column = np.random.default_rng(3).normal(0, 2, (2, 6))
    arrays = initial_arrays(6, 2, 0)
    track_column(first, arrays, tol=TOL)
    next_arrays = {name: part.copy() for name, part in arrays.items()}
    track_column(column, next_arrays, tol=TOL)
    arrays |= {"mu": np.array(mu), "level": np.array(float(level)), "w": next_arrays["w"]}
    arrays["g"] = (1 if agree else -1) * next_arrays["g"]
    oracle = in_step(arrays)
    oracle.column(column)
    track_column(column, arrays, tol=TOL)
    assert arrays["level"] == oracle.level
    assert float(arrays["mu"]) == pytest.approx(oracle.mu)
    expected = {(1.0, True): max(level - 1, min(level, 1)), (14.5, False): level + 1, (9.0, False): level}
    assert arrays["level"] == expected.get((mu, agree), expected[1.0, True])
    np.testing.assert_allclose(arrays["U"], oracle.U, rtol=0, atol=1e-9)


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.integers(2, 7), st.integers(1, 8), st.sampled_from([0.3, 0.7, 0.9]))
def test_equals_the_oracle_with_any_rank_and_gaps(seed: int, rows: int, rank: int, missing: float) -> None:
    random = np.random.default_rng(seed)
    tensor = random.normal(3, 2, (rows, 6, 4))
    tensor[random.random(tensor.shape) < missing] = np.nan
    oracle = Grasta(initial_arrays(rows, rank, seed)["U"], FAINT)
    model = GRASTA(rank, seed=seed)
    results = [model.update(period) for period in periods(tensor)]
    expected = walk(periods(tensor), oracle.column, interpolate=False)
    has_reported = np.cumsum([np.isfinite(period).any() for period in periods(tensor)]) > 0
    for result, (X, E), reported in zip(results, expected, has_reported, strict=True):
        if reported:
            np.testing.assert_allclose(result.expected, X, rtol=0, atol=1e-6)
            np.testing.assert_allclose(result.outliers, E, rtol=0, atol=1e-6)
        else:
            assert np.isnan(result.expected).all()


def test_an_hour_without_any_reading_is_as_the_one_before() -> None:
    tensor = readings((6, 8, 5), 0, 0.0) + 20.0
    tensor[:, 3, 4] = np.nan
    result = GRASTA(2, seed=0).recover(tensor)
    before = result.expected[:, 2, 4]
    assert np.abs(result.cleaned[:, 3, 4] - before).max() < 0.2 * np.abs(before).max(), "and not 0"


def test_a_direction_that_no_sensor_sees_is_not_fitted() -> None:
    # The sensors that report see a thousandth of the second direction: fitted, it would be huge in the third sensor.
    tiny = 1e-3
    arrays = initial_arrays(4, 2, 0)
    arrays["U"] = np.linalg.qr(np.array([[1.0, 0], [1, tiny], [1, 0], [0, 1]]))[0]
    expected, _, _ = track_column(np.array([5.0, 6.0, 5.0, np.nan]), arrays, tol=TOL)
    assert np.abs(expected).max() < 50


def never_reported(tensor: Floats) -> None:
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
@pytest.mark.parametrize(
    "spoil", [never_reported, one_reading, too_few, zeros, as_many_as_the_rank, huge, tiny, constant]
)
def test_trouble_is_finite_and_the_subspace_stays_orthonormal(
    spoil: Callable[[Floats], None], rank: int, tmp_path: Path
) -> None:
    tensor = np.random.default_rng(1).normal(15, 6, (8, 10, 12))
    spoil(tensor)
    model = GRASTA(rank, seed=2)
    result = model.recover(tensor)
    assert np.isfinite(result.expected).all()
    assert np.isfinite(result.outliers).all()
    assert off_orthonormal(subspace(model, tmp_path)) < 1e-10
    size = float(np.nanmax(np.abs(tensor)))
    assert np.abs(result.expected).max() < 100 * size, "no coefficient runs off"


def test_too_few_readings_are_fitted_and_do_not_turn_the_subspace(tmp_path: Path) -> None:
    model = GRASTA(3, seed=2)
    model.recover(np.random.default_rng(1).normal(15, 6, (8, 10, 5)))
    before = subspace(model, tmp_path)
    day = np.full((8, 10), np.nan)
    day[[0, 3, 5]] = [[10.0], [12.0], [17.0]]
    result = model.update(day)
    np.testing.assert_array_equal(subspace(model, tmp_path), before)
    assert np.isfinite(result.expected).all()
    day[6] = 11.0
    model.update(day)
    assert np.abs(subspace(model, tmp_path) - before).max() > 0, "one reading more turns it"


@pytest.mark.parametrize("rank", [2, 5, 10])
def test_the_subspace_stays_orthonormal_for_thousands_of_columns(rank: int, tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    tensor = random.normal(0, 1, (10, 3)) @ random.normal(1, 3, (3, 2400)) + random.normal(0, 0.1, (10, 2400))
    tensor[random.random(tensor.shape) < 0.1] = np.nan
    tensor[random.random(tensor.shape) < 0.05] = 90.0
    model = GRASTA(rank, seed=2)
    result = model.recover(tensor.reshape(10, 100, 24).swapaxes(1, 2))
    assert np.isfinite(result.expected).all()
    assert off_orthonormal(subspace(model, tmp_path)) < 1e-8


def test_a_subspace_is_recovered_under_gaps_and_outliers() -> None:
    random = np.random.default_rng(5)
    truth = random.normal(0, 1, (20, 2)) @ random.normal(0, 3, (2, 2400))
    tensor = np.where(random.random(truth.shape) < 0.05, random.uniform(-30, 30, truth.shape), truth)
    tensor[random.random(tensor.shape) < 0.2] = np.nan

    def days(line: Floats) -> Floats:
        return line.reshape(20, 100, 24).swapaxes(1, 2)

    result = GRASTA(2, seed=2).recover(days(tensor))
    late = np.s_[..., 60:]
    error = np.linalg.norm(result.expected[late] - days(truth)[late]) / np.linalg.norm(days(truth)[late])
    assert error < 0.02
