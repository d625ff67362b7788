"""AutoOLRTR takes torch tensors through the host: tensors in, tensors out, and the same answers as of arrays."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from networks import Floats, sound
from sensormend import AutoOLRTR, ConfigError, Recovery, SensormendError, ShapeError, ValueRangeError
from sensormend.simulate.network import city
from tensors import the_torch

DAYS = 10
TENSORS = [field.name for field in fields(Recovery) if field.name not in ("reason", "iterations", "faults")]


@pytest.fixture(scope="module")
def torch() -> Any:
    return the_torch()


def tensored(**settings: Any) -> Any:
    """Return a model whose results are tensors, which its type does not say."""
    return AutoOLRTR(**settings)


@lru_cache
def spoilt(sensors: int = 120) -> NDArray[np.float32]:
    """Days of a city with faults, gaps, outages and spikes, as a tensor on a GPU has them."""
    readings = city(sensors, DAYS, seed=3).readings.astype(np.float32)
    readings.flags.writeable = False
    return readings


@pytest.mark.parametrize("sensors", [20, 120])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int32"])
def test_tensors_give_what_arrays_give(torch: Any, dtype: str, sensors: int) -> None:
    readings = sound(120, 9)[:sensors].round()
    tensor = torch.tensor(readings).to(getattr(torch, dtype))
    host, device = AutoOLRTR(), tensored()
    for day in range(9):
        wanted, found = host.update(readings[..., day]), device.update(tensor[..., day])
        # What is no precision of its own is taken to the next better one.
        better = {"float16": torch.float32, "int32": torch.float64}.get(dtype, getattr(torch, dtype))
        for name in TENSORS:
            value, should = getattr(found, name), getattr(wanted, name)
            assert isinstance(value, torch.Tensor), name
            if should.dtype == bool:
                np.testing.assert_array_equal(value.numpy(), should, err_msg=name)
            else:
                assert value.dtype == better, name
                np.testing.assert_array_equal(value.numpy(), should.astype(value.numpy().dtype), err_msg=name)
        assert isinstance(found.reason, np.ndarray)
        assert found.faults == wanted.faults


def test_several_variables_and_periods_in_one_call(torch: Any) -> None:
    readings = np.stack([sound(20, 12, seed=3), 1000 * sound(20, 12, seed=6) + 5000], axis=1)
    readings[4, 0, :, 9] += 9
    wanted, found = AutoOLRTR(fiber_axis=2).update(readings), tensored(fiber_axis=2).update(torch.tensor(readings))
    assert tuple(found.cleaned.shape) == readings.shape
    np.testing.assert_array_equal(found.cleaned.numpy(), wanted.cleaned)
    np.testing.assert_array_equal(found.faulty.numpy(), wanted.faulty)


def test_a_model_goes_from_arrays_to_tensors_and_back(torch: Any) -> None:
    readings = spoilt()
    straight, mixed = AutoOLRTR(), AutoOLRTR()
    for day in range(DAYS):
        wanted = straight.update(readings[..., day])
        tensors = day % 3 == 1
        found = mixed.update(torch.tensor(readings[..., day]) if tensors else readings[..., day])
        assert isinstance(found.cleaned, torch.Tensor if tensors else np.ndarray)
        np.testing.assert_array_equal(np.asarray(found.wrong), wanted.wrong)


def test_a_state_of_tensors_needs_no_torch(torch: Any, tmp_path: Path) -> None:
    readings = spoilt(100)
    model = AutoOLRTR()
    model.update(torch.tensor(readings[..., :8]))
    model.save(tmp_path / "state.npz")
    np.save(tmp_path / "day.npy", readings[..., 8])
    program = (
        "import sys; sys.modules['torch'] = sys.modules['array_api_compat'] = None\n"
        "import numpy as np, sensormend\n"
        "model = sensormend.AutoOLRTR.load(sys.argv[1] + '/state.npz')\n"
        "np.save(sys.argv[1] + '/cleaned.npy', model.update(np.load(sys.argv[1] + '/day.npy')).cleaned)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)
    wanted = model.update(readings[..., 8]).cleaned
    np.testing.assert_array_equal(np.load(tmp_path / "cleaned.npy"), wanted)


def test_tensors_are_not_written_to_and_need_no_gradient(torch: Any) -> None:
    readings = torch.tensor(spoilt(100)[..., :8], requires_grad=True)
    before = readings.detach().clone()
    result = tensored().recover(readings)
    assert torch.equal(torch.nan_to_num(readings.detach(), nan=-99.0), torch.nan_to_num(before, nan=-99.0))
    assert not result.cleaned.requires_grad
    assert result.cleaned.data_ptr() != readings.data_ptr()
    trusted = torch.isfinite(before) & ~result.wrong
    assert torch.equal(result.cleaned[trusted], before[trusted])


@pytest.mark.parametrize("sensors", [5, 100])
def test_tensors_that_are_no_readings_are_refused_in_one_line(torch: Any, sensors: int, tmp_path: Path) -> None:
    model = AutoOLRTR()
    day = torch.tensor(sound(100, 6)[:sensors, :, 0].copy())
    model.update(day)
    model.save(tmp_path / "before.npz")
    infinite = day.clone()
    infinite[2, 3] = -torch.inf
    bad: list[tuple[Any, type[SensormendError]]] = [
        (day > 0, ValueRangeError),
        (day.to(torch.complex64), ValueRangeError),
        (infinite, ValueRangeError),
        (torch.where(torch.isfinite(day), 1e120, day), ValueRangeError),
        (day[0], ShapeError),
        (day[:0], ShapeError),
        (day[:, :0], ShapeError),
        (day[:-1], ShapeError),
        (day[:, :-1], ShapeError),
        (day[..., None, None], ShapeError),
    ]
    for wrong, error in bad:
        for method in (model.update, model.estimate):
            with pytest.raises(error) as caught:
                method(wrong)
            assert str(caught.value)
            assert "\n" not in str(caught.value)
    with pytest.raises(ShapeError):
        model.update(day, sensors=["a"] * sensors)
    model.save(tmp_path / "after.npz")
    assert (tmp_path / "after.npz").read_bytes() == (tmp_path / "before.npz").read_bytes()


def test_directions_of_a_tensor_are_refused(torch: Any) -> None:
    steps = np.random.default_rng(0).normal(0, 40, (100, 24))
    with pytest.raises(ValueRangeError, match="directions"):
        AutoOLRTR().update(torch.tensor(np.cumsum(steps, axis=1) % 360))


@pytest.mark.parametrize("sensors", [5, 100])
def test_tensors_without_array_api_compat(torch: Any, sensors: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "array_api_compat"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "array_api_compat", None)
    day: Floats = sound(100, 6)[:sensors, :, 0].copy()
    with pytest.raises(ConfigError, match=r"sensormend\[gpu\]"):
        AutoOLRTR().update(torch.tensor(day))
    assert np.isfinite(AutoOLRTR().update(day).cleaned).all()
