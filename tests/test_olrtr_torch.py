"""OLRTR on torch tensors. On the CPU; a GPU runs the same lines."""

from __future__ import annotations

from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sensormend import GRASTA, OLRSC, OLRTR, ORLTM, OSTD, RTR, TRPCA, Recovery, ShapeError, StocRPCA, ValueRangeError
from servers import lacking
from test_olrtr_solvers import CUBES, DAYS


@pytest.fixture(scope="module")
def torch() -> Any:
    if find_spec("torch") is None or find_spec("array_api_compat") is None:
        lacking("torch and array-api-compat are not installed: pip install 'sensormend[gpu]'")
    return pytest.importorskip("torch")


@pytest.mark.parametrize("solver", ["published", "accelerated"])
@pytest.mark.parametrize(("dtype", "near"), [("float64", 1e-9), ("float32", 1e-4)])
@pytest.mark.parametrize(
    ("minibatches", "settings"),
    [
        (DAYS, {"rank": 6, "alpha": 60.0}),
        (CUBES, {"rank": 3, "alpha": 3.0, "fiber_axis": 2}),
        (DAYS, {"rank": 3, "alpha": 300.0, "dictionary_update": "jacobi", "max_iter": 20}),
    ],
)
def test_equals_numpy(
    torch: Any, minibatches: list[Any], settings: dict[str, Any], dtype: str, near: float, solver: str
) -> None:
    host, device = (OLRTR(seed=0, solver=solver, **settings) for _ in range(2))
    for minibatch in minibatches:
        expected, found = host.update(minibatch), device.update(torch.tensor(minibatch, dtype=getattr(torch, dtype)))
        assert found.iterations == expected.iterations
        scale = np.nanmax(np.abs(minibatch))
        for field in fields(Recovery):
            value, should = getattr(found, field.name), getattr(expected, field.name)
            if field.name in ("iterations", "reason", "faults", "lower", "upper"):
                assert not isinstance(value, torch.Tensor)
                continue
            assert isinstance(value, torch.Tensor), field.name
            assert tuple(value.shape) == should.shape, field.name
            if value.dtype == torch.bool:
                np.testing.assert_array_equal(value.numpy(), should, err_msg=field.name)
            else:
                assert value.dtype == getattr(torch, dtype), field.name
                large = scale * (100 if field.name == "score" else 1)
                assert np.abs(value.numpy() - should).max() < near * large, field.name


def test_a_model_may_go_from_tensors_to_arrays_and_through_a_file(torch: Any, tmp_path: Path) -> None:
    host, device = OLRTR(6, 60.0, seed=0), OLRTR(6, 60.0, seed=0)
    host.update(DAYS[0])
    device.update(torch.tensor(DAYS[0]))
    device.save(tmp_path / "state.npz")
    resumed = OLRTR.load(tmp_path / "state.npz")
    expected = host.update(DAYS[1]).low_rank
    assert device.dictionaries is not None
    for model in (device, resumed):
        found = model.update(DAYS[1]).low_rank
        assert isinstance(found, np.ndarray)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


def test_sensors_of_a_tensor_may_change_their_order(torch: Any) -> None:
    names = [f"s{number}" for number in range(len(DAYS[0]))]
    order = np.random.default_rng(0).permutation(len(names))
    plain, labelled = OLRTR(6, 60.0, seed=0), OLRTR(6, 60.0, seed=0)
    for day in DAYS[:2]:
        expected = plain.update(torch.tensor(day))
        labels = names if day is DAYS[0] else [names[row] for row in order]
        found = labelled.update(torch.tensor(day if day is DAYS[0] else day[order]), sensors=labels)
    np.testing.assert_array_equal(np.asarray(found.cleaned), np.asarray(expected.cleaned)[order])


def test_days_without_readings_stay_with_the_device(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = OLRTR(3, 60.0, seed=0)
    fetched: list[int] = []
    fetch = torch.Tensor.numpy

    def counted(tensor: Any) -> Any:
        fetched.append(tensor.numel())
        return fetch(tensor)

    monkeypatch.setattr(torch.Tensor, "numpy", counted)
    unknown = model.update(torch.full((50, 40), torch.nan, dtype=torch.float32))
    assert unknown.low_rank.dtype == torch.float32
    assert bool(torch.isnan(unknown.low_rank).all())
    assert bool((model.update(torch.zeros((50, 40))).low_rank == 0).all())
    assert not model.update(torch.ones((50, 40))).faulty.any()
    assert 0 < max(fetched) < 1000, "no minibatch is fetched, only small matrices"


def test_tensors_that_are_no_readings_are_refused(torch: Any) -> None:
    model = OLRTR(3, 60.0, seed=0)
    for wrong, error in (
        (torch.ones(4), ShapeError),
        (torch.ones((0, 4)), ShapeError),
        (torch.full((3, 4), torch.inf), ValueRangeError),
        (torch.full((3, 4), 1e20), ValueRangeError),
        (torch.ones((3, 4), dtype=torch.complex64), ValueRangeError),
    ):
        with pytest.raises(error):
            model.update(wrong)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "int16"])
def test_recover_takes_a_tensor_and_works_on_the_host(torch: Any, dtype: str) -> None:
    days = torch.nan_to_num(torch.tensor(np.stack(DAYS, axis=-1))).to(getattr(torch, dtype))
    found = OLRTR(6, 60.0, seed=0).recover(days)
    np.testing.assert_array_equal(found.cleaned, OLRTR(6, 60.0, seed=0).recover(days.double().numpy()).cleaned)


@pytest.mark.parametrize("method", [RTR, TRPCA, GRASTA, OLRSC, ORLTM, OSTD, StocRPCA])
def test_the_other_published_methods_fetch_a_tensor(torch: Any, method: Any) -> None:
    settings = {} if method in (RTR, TRPCA) else {"rank": 2, "seed": 0}
    days = np.stack([day[:10] for day in DAYS], axis=-1)
    found, expected = (method(**settings).recover(given) for given in (torch.tensor(days), days))
    assert isinstance(found.cleaned, np.ndarray)
    np.testing.assert_array_equal(found.cleaned, expected.cleaned)


def test_memory_that_lies_otherwise_and_other_numbers_make_no_difference(torch: Any) -> None:
    day = torch.nan_to_num(torch.tensor(DAYS[0])).round()
    expected: Any = OLRTR(6, 60.0, seed=0).update(day)
    turned = day.T.contiguous().T
    assert not turned.is_contiguous()
    for given in (turned, day.int(), day.clone().requires_grad_()):
        found: Any = OLRTR(6, 60.0, seed=0).update(given)
        assert not found.cleaned.requires_grad
        np.testing.assert_allclose(found.cleaned.numpy(), expected.cleaned.numpy(), rtol=0, atol=1e-9)
    found = OLRTR(6, 60.0, seed=0).update(day.half())
    assert found.cleaned.dtype == torch.float32
