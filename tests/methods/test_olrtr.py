from __future__ import annotations

import copy
import pickle
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.io import loadmat

from method_cases import low_rank_tensor
from oracles import methods as oracle
from sensormend import OLRTR, ConfigError, DivergenceError, ShapeError, ValueRangeError
from sensormend.recovery import Recovery
from sensormend.simulate.network import stream

Floats = NDArray[np.float64]


def against_the_oracle(minibatches: list[Floats], rank: int = 3, alpha: float = 2.0, **settings: Any) -> None:
    """Run OLRTR and the oracle side by side and assert that they agree, iterations included."""
    shape = minibatches[0].shape
    random = np.random.default_rng(7)
    start = [random.random((length, rank)) for length in shape]
    state = oracle.OlrtrState(start)
    chosen = {"tol": 1e-4, "max_iter": 60, "fiber_axis": 1, "dictionary_update": "column", **settings}
    model = OLRTR(rank, alpha, dictionaries=start, **chosen)
    for minibatch in minibatches:
        X, E, iterations = oracle.olrtr_minibatch(
            state, minibatch, lambda1=0.01, lambda2=oracle.olrtr_lambda2(alpha, shape), **chosen
        )
        result = model.update(minibatch)
        np.testing.assert_allclose(result.expected, X, rtol=0, atol=1e-9)
        np.testing.assert_allclose(result.outliers, E, rtol=0, atol=1e-9)
        assert result.iterations == iterations
    assert model.dictionaries is not None
    for ours, theirs in zip(model.dictionaries, state.L, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9)


@pytest.mark.parametrize("update", ["column", "jacobi"])
@pytest.mark.parametrize(
    ("shape", "fiber_axis"),
    [((9, 7), axis) for axis in range(2)]
    + [((6, 5, 4), axis) for axis in range(3)]
    + [((4, 3, 5, 2), axis) for axis in range(4)],
)
@pytest.mark.parametrize("missing", [0.0, 0.15])
def test_equals_the_oracle(shape: tuple[int, ...], fiber_axis: int, update: str, missing: float) -> None:
    minibatches = [low_rank_tensor(shape, seed, missing) for seed in range(3)]
    against_the_oracle(minibatches, fiber_axis=fiber_axis, dictionary_update=update)


@settings(max_examples=15)
@given(st.lists(st.integers(1, 5), min_size=2, max_size=4), st.integers(0, 10**6), st.data())
def test_equals_the_oracle_on_any_shape(lengths: list[int], seed: int, data: st.DataObject) -> None:
    lengths[0] = max(2, lengths[0])
    fiber_axis = data.draw(st.integers(0, len(lengths) - 1))
    minibatches = [low_rank_tensor(tuple(lengths), seed + day, 0.2) for day in range(2)]
    against_the_oracle(minibatches, fiber_axis=fiber_axis)


def test_equals_the_oracle_with_more_columns_than_rows() -> None:
    against_the_oracle([low_rank_tensor((4, 2), seed) for seed in range(4)])


def test_a_minibatch_without_readings_teaches_what_it_teaches_the_oracle() -> None:
    empty, zeros = np.full((6, 5), np.nan), np.zeros((6, 5))
    against_the_oracle([zeros, empty, low_rank_tensor((6, 5), 0), empty, zeros, low_rank_tensor((6, 5), 1)])


def test_equals_the_authors_on_noaa(data: Path) -> None:
    with np.load(data / "reference" / "olrtr_noaa_tem.npz") as archive:
        reference = dict(archive)
    model = OLRTR(
        int(reference["rank"]),
        lambda1=float(reference["lambda1"]),
        lambda2=float(reference["lambda2"]),
        tol=float(reference["tol"]),
        max_iter=int(reference["max_iter"]),
        dictionary_update="jacobi",
        dictionaries=[reference["dictionary1"], reference["dictionary2"]],
    )
    days = [model.update(reference["observed"][..., day]) for day in range(364)]
    result = Recovery.stack(days)
    np.testing.assert_allclose(result.expected, reference["low_rank"], rtol=0, atol=1e-9)
    np.testing.assert_allclose(result.outliers, reference["outliers"], rtol=0, atol=1e-9)
    np.testing.assert_array_equal([day.iterations for day in days], reference["iterations"])


def test_equals_the_authors_on_simulated_tensors(data: Path) -> None:
    with np.load(data / "reference" / "olrtr_simulated.npz") as archive:
        reference = dict(archive)
    model = OLRTR(
        int(reference["rank"]),
        alpha=3,
        dictionary_update="jacobi",
        dictionaries=[reference[f"dictionary{mode}"] for mode in (1, 2, 3)],
    )
    parts = [model.update(part) for part in np.split(reference["observed"], 3, axis=2)]
    result = Recovery.concatenate(parts)
    np.testing.assert_allclose(result.expected, reference["low_rank"], rtol=0, atol=1e-9)
    np.testing.assert_allclose(result.outliers, reference["outliers"], rtol=0, atol=1e-9)
    assert [part.iterations for part in parts] == list(reference["iterations"])


def test_equals_the_authors_stored_result_on_aot(data: Path, aot: Floats) -> None:
    stored = loadmat(data / "reference" / "aot_olrtr.mat")["Xhat_mat"]
    random = np.random.RandomState(15)
    start = [random.rand(3, length).T for length in (52, 24)]
    model = OLRTR(3, alpha=370, tol=1e-3, max_iter=50, dictionary_update="jacobi", dictionaries=start)
    model.recover(aot)
    model.recover(aot[:, ::-1, ::-1])
    result = model.recover(aot)
    lines = np.moveaxis(result.expected, 2, 1).reshape(52, -1).T
    # 1e-9 is about what rounding allows here: 1,095 Jacobi sweeps turn one ulp in the initial dictionaries
    # into 5e-10 (the median of 24 such starts; one passed 1e-9). Another BLAS may need a little more room.
    np.testing.assert_allclose(lines, stored, rtol=0, atol=1e-9)


@pytest.mark.parametrize("alpha", [20.0, 60.0, 200.0])
def test_equals_the_oracle_on_days_of_a_city(alpha: float) -> None:
    days = [day.readings for day in islice(stream(120, seed=3), 3)]
    against_the_oracle(days, rank=6, alpha=alpha, max_iter=3000)


def test_no_two_results_share_memory_nor_do_the_fields_of_one() -> None:
    model = OLRTR(3, alpha=2, seed=0)
    minibatches = [low_rank_tensor((6, 5), seed) for seed in range(3)] + [np.zeros((6, 5))]
    results = [model.update(day) for day in minibatches]
    arrays = [getattr(result, name) for result in results for name in ("expected", "outliers", "cleaned")]
    for number, array in enumerate(arrays):
        assert not any(np.shares_memory(array, other) for other in [*arrays[:number], *minibatches])


def test_a_copy_goes_on_as_the_model_does() -> None:
    model = OLRTR(3, alpha=2, seed=0)
    model.update(low_rank_tensor((6, 5), 0))
    copies = [pickle.loads(pickle.dumps(model)), copy.deepcopy(model)]
    expected = model.update(low_rank_tensor((6, 5), 1)).cleaned
    for other in copies:
        np.testing.assert_array_equal(other.update(low_rank_tensor((6, 5), 1)).cleaned, expected)


def test_jacobi_reports_its_divergence_with_the_papers_noaa_settings(noaa: Floats) -> None:
    model = OLRTR(20, alpha=70, dictionary_update="jacobi", max_iter=30, seed=0)
    with pytest.raises(DivergenceError, match="infinity"):
        model.recover(noaa, passes=3)
    assert model.dictionaries is None


def test_in_place_is_stable_where_jacobi_is_not(noaa: Floats) -> None:
    result = OLRTR(20, alpha=70, max_iter=30, seed=0).recover(noaa[..., :120])
    assert np.abs(result.expected).max() < 100


def test_minibatches_of_several_periods_are_those_of_update() -> None:
    tensor = low_rank_tensor((6, 5, 11), 3)
    walked = OLRTR(2, alpha=2, seed=1).recover(tensor, periods=4)
    model = OLRTR(2, alpha=2, seed=1)
    padded = np.concatenate([tensor, np.full((6, 5, 1), np.nan)], axis=2)
    parts = [model.update(padded[..., first : first + 4]) for first in (0, 4, 8)]
    np.testing.assert_array_equal(walked.expected, Recovery.concatenate(parts).expected[..., :11])
    assert walked.faulty.shape == (6, 11)


def test_passes_go_on_learning() -> None:
    tensor = low_rank_tensor((6, 5, 9), 3)
    twice = OLRTR(2, alpha=2, seed=1).recover(tensor, passes=2)
    model = OLRTR(2, alpha=2, seed=1)
    model.recover(tensor)
    np.testing.assert_array_equal(twice.expected, model.recover(tensor).expected)


def test_a_fiber_is_faulty_when_any_outlier_exceeds_the_threshold() -> None:
    tensor = low_rank_tensor((6, 5), 3)
    for threshold in (0.01, 3.0):
        result = OLRTR(2, alpha=2, seed=1, threshold=threshold).update(tensor)
        np.testing.assert_array_equal(result.faulty, np.abs(result.outliers).max(axis=1) > threshold)
        np.testing.assert_array_equal(result.score > 1, result.faulty)


def test_permuting_sensors_and_their_dictionary_permutes_the_result() -> None:
    days = [low_rank_tensor((5, 4), seed) for seed in range(3)]
    random = np.random.default_rng(0)
    rows, columns = random.random((5, 2)), random.random((4, 2))
    order = [3, 0, 4, 1, 2]
    straight = OLRTR(2, alpha=2, dictionaries=[rows, columns])
    permuted = OLRTR(2, alpha=2, dictionaries=[rows[order], columns])
    for day in days:
        np.testing.assert_allclose(
            permuted.update(day[order]).expected, straight.update(day).expected[order], rtol=0, atol=1e-9
        )


def test_labels_need_a_sensor_axis() -> None:
    with pytest.raises(ShapeError, match="fiber_axis=0"):
        OLRTR(2, alpha=2, fiber_axis=0).update(np.ones((2, 2)), sensors=["a", "b"])


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"rank": 2}, "either alpha or lambda2"),
        ({"rank": 2, "alpha": 1, "lambda2": 1}, "not both"),
        ({"rank": 2, "alpha": -1}, "alpha"),
        ({"rank": 2, "alpha": np.nan}, "alpha"),
        ({"rank": 2, "alpha": "much"}, "alpha"),
        ({"rank": 2, "lambda2": 0}, "lambda2"),
        ({"rank": 2, "alpha": 1, "dictionary_update": "gauss"}, "column, jacobi"),
        ({"rank": 2, "alpha": 1, "dictionaries": [np.ones((3, 3))]}, "shape"),
        ({"rank": 2, "alpha": 1, "dictionaries": [np.full((3, 2), np.nan)]}, "finite"),
        ({"rank": 2, "alpha": 1, "dictionaries": [["x"]]}, "real numbers"),
        ({"rank": 2, "alpha": 1, "dictionaries": [np.ones((3, 2), dtype=complex)]}, "real numbers"),
        ({"rank": 2, "alpha": 1, "dictionaries": [[[1.0], [1.0, 2.0]]]}, "real numbers"),
        ({"rank": 2, "alpha": 1, "dictionaries": 3}, "real numbers"),
    ],
)
def test_its_own_wrong_settings_get_one_clear_line(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        OLRTR(**settings)
    assert "\n" not in str(caught.value)


def test_dictionaries_must_fit_the_minibatch() -> None:
    model = OLRTR(2, alpha=1, dictionaries=[np.ones((3, 2)), np.ones((4, 2))])
    with pytest.raises(ConfigError, match=r"\[3, 4\] rows"):
        model.update(np.ones((3, 5)))
    assert model.update(np.ones((3, 4))).iterations > 0


@pytest.mark.parametrize("settings", [{"passes": 0}, {"periods": 0}, {"passes": 1.5}])
def test_wrong_walks_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))):
        OLRTR(2, alpha=1).recover(np.ones((2, 3, 4)), **settings)


def test_handed_in_dictionaries_are_not_written_to() -> None:
    start = [np.random.default_rng(0).random((length, 2)) for length in (6, 5)]
    copies = [L.copy() for L in start]
    OLRTR(2, alpha=2, dictionaries=start).update(low_rank_tensor((6, 5), 0))
    for L, untouched in zip(start, copies, strict=True):
        np.testing.assert_array_equal(L, untouched)


def test_readings_too_large_for_squares_are_reported_and_not_learned() -> None:
    model = OLRTR(2, alpha=2, seed=0)
    with pytest.raises(ValueRangeError, match="must not exceed"):
        model.update(np.full((3, 4), 1e200))
    assert model.dictionaries is None
    assert np.isfinite(model.update(np.ones((3, 4))).expected).all()


def test_saving_leaves_one_file_and_a_failed_save_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state.npz"
    model = OLRTR(2, alpha=2, seed=0)
    model.update(np.ones((3, 4)))
    model.save(path)
    before = path.read_bytes()
    model.update(np.full((3, 4), 2.0))

    def fail(descriptor: int) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="full"):
        model.save(path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.npz"]
