"""OLRTR's ways to compute: blocks, rows left out, acceleration, single precision."""

from __future__ import annotations

import copy
import pickle
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import naive
from sensormend import OLRTR, ConfigError, ValueRangeError
from sensormend.methods import _olrtr_history, _olrtr_rows
from sensormend.methods._olrtr_modes import gathered
from sensormend.simulate.network import paper_tensor, stream

Floats = NDArray[np.float64]

DAYS = [day.readings for day in islice(stream(120, seed=3), 3)]
CUBES = [part.readings for part in paper_tensor(12, 3, minibatches=2, share=0.1, seed=0)]


def start(shape: tuple[int, ...], rank: int) -> list[Floats]:
    random = np.random.default_rng(1)
    return [random.random((length, rank)) for length in shape]


def both(minibatches: list[Floats], rank: int, alpha: float, tol: float, **settings: Any) -> list[tuple[Any, Any]]:
    """Return what OLRTR and the oracle make of each minibatch: (result, (X, E, iterations))."""
    shape = minibatches[0].shape
    begun = start(shape, rank)
    oracle, model = naive.OnlineState(begun), OLRTR(rank, alpha, dictionaries=begun, tol=tol, max_iter=3000, **settings)
    told: dict[str, Any] = {
        "lambda1": 0.01,
        "lambda2": naive.olrtr_lambda2(alpha, shape),
        "fiber_axis": 1,
        "max_iter": 3000,
    }
    return [
        (model.update(part), naive.olrtr_minibatch(oracle, part, tol=tol, dictionary_update="column", **told))
        for part in minibatches
    ]


@pytest.fixture(params=["one block, all rows", "many blocks, quiet rows left out"])
def cut(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param.startswith("many"):
        monkeypatch.setattr(_olrtr_rows, "BLOCK_BYTES", 3000)
        monkeypatch.setattr(_olrtr_rows, "ONE_BLOCK_BYTES", 0)
        monkeypatch.setattr(_olrtr_rows, "QUIET_FROM", 2)
    return str(request.param)


@pytest.mark.parametrize("alpha", [20.0, 60.0, 200.0])
def test_published_iterations_are_the_oracles_however_rows_are_cut(cut: str, alpha: float) -> None:
    for result, (X, E, iterations) in both(DAYS, 6, alpha, 1e-4):
        np.testing.assert_allclose(result.low_rank, X, rtol=0, atol=1e-9)
        np.testing.assert_allclose(result.outliers, E, rtol=0, atol=1e-9)
        assert result.iterations == iterations


def test_quiet_rows_are_left_out_and_woken_when_the_bound_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_olrtr_rows, "QUIET_FROM", 2)
    left_out, woken = [], []
    keep, wake = _olrtr_rows.Rows._keep, _olrtr_rows.Rows._wake_all

    def counted_keep(self: _olrtr_rows.Rows, busy: Any) -> None:
        left_out.append(len(busy) - np.count_nonzero(busy))
        # A radius so small that the next step has to wake them.
        self._quiet[-1] = (self._quiet[-1][0], 1e-300)
        keep(self, busy)

    def counted_wake(self: _olrtr_rows.Rows) -> None:
        woken.append(self._rows is not None)
        wake(self)

    monkeypatch.setattr(_olrtr_rows.Rows, "_keep", counted_keep)
    monkeypatch.setattr(_olrtr_rows.Rows, "_wake_all", counted_wake)
    for solver in ("published", "accelerated"):
        for result, (X, _, _) in both(DAYS, 6, 200.0, 1e-10, solver=solver):
            np.testing.assert_allclose(result.low_rank, X, rtol=0, atol=1e-6)
        assert max(left_out) >= 30
        assert sum(woken) > len(DAYS)
        left_out.clear()
        woken.clear()


@pytest.mark.parametrize(
    ("minibatches", "rank", "alpha"), [(DAYS, 6, 20.0), (DAYS, 6, 60.0), (DAYS, 6, 200.0), (CUBES, 3, 3.0)]
)
def test_accelerated_finds_the_oracles_fixed_point_in_fewer_iterations(
    cut: str, minibatches: list[Floats], rank: int, alpha: float
) -> None:
    for result, (X, E, iterations) in both(minibatches, rank, alpha, 1e-10, solver="accelerated"):
        # Each stops within tol |B| of the fixed point, and the first minibatches' rest is learned by the next.
        np.testing.assert_allclose(result.low_rank, X, rtol=0, atol=1e-6)
        np.testing.assert_allclose(result.outliers, E, rtol=0, atol=1e-6)
        assert result.iterations < 0.7 * iterations


def test_accelerated_forgets_a_past_that_misleads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_olrtr_history, "WORSE", 0.0)
    plain = both(CUBES, 3, 3.0, 1e-8, solver="accelerated")
    monkeypatch.undo()
    mixed = both(CUBES, 3, 3.0, 1e-8, solver="accelerated")
    for (slow, (X, _, _)), (fast, _) in zip(plain, mixed, strict=True):
        np.testing.assert_allclose(slow.low_rank, X, rtol=0, atol=1e-5)
        assert fast.iterations < slow.iterations


def test_accelerated_stops_at_max_iter_and_takes_days_of_zeros_and_gaps() -> None:
    model = OLRTR(3, 60.0, seed=0, solver="accelerated", max_iter=2, tol=1e-12)
    assert model.update(DAYS[0]).iterations == 2
    assert model.update(np.zeros(DAYS[0].shape)).iterations == 0
    assert model.update(np.full(DAYS[0].shape, np.nan)).iterations == 0
    holes = DAYS[1].copy()
    holes[:, 5], holes[7] = np.nan, np.nan
    assert np.isfinite(model.update(holes).cleaned).all()


@pytest.mark.parametrize("solver", ["published", "accelerated"])
def test_single_precision_costs_what_the_manual_says(solver: str, cut: str) -> None:
    double = OLRTR(6, 60.0, seed=0, solver=solver)
    single = OLRTR(6, 60.0, seed=0, solver=solver, precision="single")
    for day in DAYS:
        exact, near = double.update(day), single.update(day)
        assert near.low_rank.dtype == near.cleaned.dtype == near.score.dtype == np.float32
        assert np.abs(near.low_rank - exact.low_rank).max() < 2e-5 * np.nanmax(np.abs(day))
        np.testing.assert_array_equal(near.faulty, exact.faulty)


def test_many_rows_in_single_precision_are_summed_as_exactly_as_few() -> None:
    random = np.random.default_rng(0)
    left, right = (1 + random.random((100_001, columns), dtype=np.float32) for columns in (10, 24))
    exact = left.T.astype(np.float64) @ right.astype(np.float64)
    assert np.abs(gathered(left, right) / exact - 1).max() < 1e-7


def test_single_precision_refuses_what_it_cannot_square() -> None:
    large = np.full((3, 4), 1e20)
    OLRTR(2, 1.0).update(large)
    with pytest.raises(ValueRangeError, match="single precision"):
        OLRTR(2, 1.0, precision="single").update(large)


@pytest.mark.parametrize("settings", [{"solver": "accelerated"}, {"precision": "single"}, {}])
def test_a_state_file_keeps_how_to_compute(settings: dict[str, str], tmp_path: Path) -> None:
    straight = OLRTR(3, 60.0, seed=0, **settings)  # type: ignore[arg-type]
    straight.update(DAYS[0])
    straight.save(tmp_path / "state.npz")
    resumed = OLRTR.load(tmp_path / "state.npz")
    assert (resumed.solver, resumed.precision) == (straight.solver, straight.precision)
    np.testing.assert_array_equal(straight.update(DAYS[1]).low_rank, resumed.update(DAYS[1]).low_rank)


@pytest.mark.parametrize("settings", [{"solver": "fast"}, {"precision": "half"}])
def test_another_way_to_compute_is_refused(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))):
        OLRTR(3, 60.0, **settings)  # type: ignore[arg-type]


def test_every_row_may_be_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_olrtr_rows, "QUIET_FROM", 2)
    left: list[int] = []
    cut = _olrtr_rows.Rows._cut

    def counted(self: _olrtr_rows.Rows) -> None:
        left.append(len(self._B))
        cut(self)

    monkeypatch.setattr(_olrtr_rows.Rows, "_cut", counted)
    random = np.random.default_rng(0)
    places = random.random((30, 2)) + 0.5
    for result, (X, _, iterations) in both([places @ (random.random((2, 12)) + 0.5) for _ in range(4)], 4, 40.0, 1e-8):
        np.testing.assert_allclose(result.low_rank, X, rtol=0, atol=1e-9)
        assert result.iterations == iterations
    assert 0 in left


def test_no_two_results_share_memory_nor_do_the_fields_of_one(cut: str) -> None:
    model = OLRTR(3, 60.0, seed=0)
    minibatches = [*DAYS, np.zeros(DAYS[0].shape), DAYS[0]]
    results = [model.update(day) for day in minibatches]
    arrays = [getattr(result, name) for result in results for name in ("low_rank", "outliers", "cleaned")]
    for number, array in enumerate(arrays):
        assert not any(np.shares_memory(array, other) for other in [*arrays[:number], *minibatches])


def test_a_copy_leaves_the_memory_to_work_in_behind() -> None:
    model = OLRTR(3, 60.0, seed=0)
    model.update(DAYS[0])
    there, here = pickle.loads(pickle.dumps(model)), copy.deepcopy(model)
    assert len(pickle.dumps(model)) < len(pickle.dumps(DAYS[0])) + 20_000
    expected = model.update(DAYS[1]).cleaned
    for other in (there, here):
        np.testing.assert_array_equal(other.update(DAYS[1]).cleaned, expected)
