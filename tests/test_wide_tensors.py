"""AutoOLRTR on torch tensors, large networks and small ones. On the CPU; a GPU runs the same lines."""

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

from networks import Floats, seen, sound
from sensormend import AutoOLRTR, ConfigError, Recovery, SensormendError, ShapeError, ValueRangeError
from sensormend.auto.wide import founding
from sensormend.simulate import city
from tensors import the_torch

DAYS = 10
CLEAR = 0.2
"""How far a score lies from its threshold, as a share of it, when rounding cannot take it across."""

NEARLY = 0.95
"""Share of the numbers that must be near each other; the rest may be where rounding tipped a choice."""

FARTHEST = 0.25
"""How far apart any two estimates of a cell may be, in standard deviations of the readings."""

TENSORS = [field.name for field in fields(Recovery) if field.name not in ("reason", "iterations")]


@pytest.fixture(scope="module")
def torch() -> Any:
    return the_torch()


@pytest.fixture(params=["float64", "float32"])
def inside(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let networks of the tests' size be computed in one precision or the other."""
    if request.param == "float32":
        monkeypatch.setattr(founding, "PRECISE", 0)
    return str(request.param)


def tensored(**settings: Any) -> Any:
    """Return a model whose results are tensors, which its type does not say."""
    return AutoOLRTR(**settings)


@lru_cache
def spoilt(sensors: int = 300) -> NDArray[np.float32]:
    """Days of a city with faults, gaps, outages and spikes, as a tensor on a GPU has them."""
    readings = city(sensors, DAYS, seed=3).readings.astype(np.float32)
    readings.flags.writeable = False
    return readings


def alike(wanted: Recovery, found: Recovery, spread: float, near: float) -> int:
    """Assert that a recovery of tensors says what one of arrays does, and return how many fibers are faulty.

    Rounding, which differs between processors, may tip who is somebody's fourth relative or which hidden reading is
    covered, and so move a few fibers by more than itself. So nearly all numbers must be as near as `near`, in spreads
    of the readings, and none farther than `FARTHEST`; verdicts are compared where the score is clear of its threshold.
    """
    score = np.asarray(found.score)
    for name, threshold in (("faulty", 1.0), ("suspect", 0.75), ("evaluated", 0.0)):
        clear = np.ones(score.shape, dtype=bool)
        for edge in {threshold, 1.0} - {0.0}:
            clear &= np.abs(wanted.score - edge) > CLEAR * edge
        one, other = getattr(wanted, name), np.asarray(getattr(found, name))
        np.testing.assert_array_equal(other[clear], one[clear], err_msg=name)
    same = (np.asarray(found.faulty) == wanted.faulty) & (np.asarray(found.spikes) == wanted.spikes).all(axis=1)
    assert same.mean() > NEARLY
    off = np.abs(score - wanted.score) / np.maximum(wanted.score, 1.0)
    assert np.quantile(off, NEARLY) < max(1e-2, 15 * near)
    for name in ("low_rank", "cleaned", "lower", "upper", "outliers"):
        apart = np.abs(np.asarray(getattr(found, name)) - getattr(wanted, name))[same] / spread
        assert np.quantile(apart, NEARLY) < near * (20 if name in ("lower", "upper") else 1), name
        assert apart.max() < FARTHEST, name
    clear = same & (np.abs(wanted.score - 1) > CLEAR) & (np.abs(wanted.score - 0.75) > CLEAR)
    assert (found.reason[clear] == wanted.reason[clear]).mean() > NEARLY
    return int(wanted.faulty.sum())


def test_tensors_equal_arrays_day_by_day(torch: Any, inside: str) -> None:
    readings = spoilt()
    spread = float(np.nanstd(readings))
    host, device = AutoOLRTR(), tensored()
    faulty = 0
    for day in range(DAYS):
        wanted = host.update(readings[..., day])
        found = device.update(torch.tensor(readings[..., day]))
        faulty += alike(wanted, found, spread, near=1e-5 if inside == "float64" else 2e-3)
        for name in TENSORS:
            value = getattr(found, name)
            assert isinstance(value, torch.Tensor), name
            kind = torch.bool if getattr(wanted, name).dtype == bool else torch.float32
            assert value.dtype == kind, name
            assert tuple(value.shape) == getattr(wanted, name).shape, name
        assert isinstance(found.reason, np.ndarray)
    assert faulty > 10
    assert device._model is not None
    assert device._model.parts is not None
    memory = device._model.channels.mean, device._model.parts.moments
    assert all(isinstance(array, torch.Tensor) and array.dtype == getattr(torch, inside) for array in memory)


def test_several_variables_and_periods_in_one_call(torch: Any, inside: str) -> None:
    truth = np.stack([sound(70, 12, seed=3), 1000 * sound(70, 12, seed=6) + 5000], axis=1)
    readings = np.where(seen(0.9, truth.shape), truth, np.nan)
    readings[4, 0, :, 9] += 9
    host, device = AutoOLRTR(fiber_axis=2), tensored(fiber_axis=2)
    for days in (slice(0, 9), slice(9, 12)):
        wanted, found = host.update(readings[..., days]), device.update(torch.tensor(readings[..., days]))
        assert found.cleaned.dtype == torch.float64
        for variable, unit in ((0, 1.0), (1, 1000.0)):
            np.testing.assert_allclose(
                found.cleaned[:, variable].numpy(), wanted.cleaned[:, variable], rtol=0, atol=2e-3 * unit
            )
        np.testing.assert_array_equal(found.faulty.numpy(), wanted.faulty)
    assert found.faulty[4, 0, 0]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int32"])
def test_small_networks_go_through_the_small_engine(torch: Any, dtype: str) -> None:
    readings = sound(20, 9).round()
    tensor = torch.tensor(readings).to(getattr(torch, dtype))
    host, device = AutoOLRTR(), tensored()
    for day in range(9):
        wanted, found = host.update(readings[..., day]), device.update(tensor[..., day])
        assert device._model is not None
        assert device._model.parts is None
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


def test_a_model_goes_from_arrays_to_tensors_and_back(torch: Any, inside: str) -> None:
    readings = spoilt(100)
    spread = float(np.nanstd(readings))
    straight, mixed = AutoOLRTR(), AutoOLRTR()
    for day in range(DAYS):
        wanted = straight.update(readings[..., day])
        tensors = day % 3 == 1
        found = mixed.update(torch.tensor(readings[..., day]) if tensors else readings[..., day])
        assert isinstance(found.cleaned, torch.Tensor if tensors else np.ndarray)
        alike(wanted, found, spread, near=1e-5 if inside == "float64" else 2e-3)


def test_a_network_of_tensors_grows_from_one_neighbourhood_to_two(torch: Any) -> None:
    readings = spoilt(100)[:70]
    names = [f"s{number}" for number in range(70)]
    host, device = AutoOLRTR(), tensored()
    for day in range(DAYS):
        count = 60 if day < 6 else 70
        order = np.random.default_rng(day).permutation(count)
        labels = [names[index] for index in order]
        wanted = host.update(readings[order, :, day], labels)
        found = device.update(torch.tensor(readings[order, :, day]), labels)
        assert found.cleaned.dtype == torch.float32
        # The moments of one neighbourhood are in single precision, and decide how it is cut.
        alike(wanted, found, float(np.nanstd(readings)), near=5e-2)
    assert device.sensors == host.sensors


def test_states_copies_and_estimates_of_both_kinds(torch: Any, tmp_path: Path, inside: str) -> None:
    readings = spoilt(100)
    tensor = torch.tensor(readings)
    device = tensored()
    device.update(tensor[..., :8])
    device.save(tmp_path / "tensors.npz")
    before = (tmp_path / "tensors.npz").read_bytes()
    peeks = [device.estimate(tensor[..., 8]), device.copy().estimate(tensor[..., 8]),
             AutoOLRTR.load(tmp_path / "tensors.npz").estimate(tensor[..., 8])]  # fmt: skip
    on_arrays = AutoOLRTR.load(tmp_path / "tensors.npz").estimate(readings[..., 8])
    assert isinstance(on_arrays.cleaned, np.ndarray)
    device.save(tmp_path / "after.npz")
    assert (tmp_path / "after.npz").read_bytes() == before
    resumed = AutoOLRTR.load(tmp_path / "tensors.npz")
    for day in (8, 9):
        straight, other = device.update(tensor[..., day]), resumed.update(tensor[..., day])
        for name in TENSORS:
            assert bool((getattr(straight, name) == getattr(other, name)).all()), name
            if day == 8:
                for peek in peeks:
                    assert bool((getattr(peek, name) == getattr(straight, name)).all()), name
        if day == 8:
            alike(on_arrays, straight, float(np.nanstd(readings)), near=1e-5 if inside == "float64" else 2e-3)


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
    trusted = torch.isfinite(before) & ~result.faulty[:, None, :] & ~result.spikes
    assert torch.equal(result.cleaned[trusted], before[trusted])


def test_odd_days_of_tensors(torch: Any, inside: str) -> None:
    """A first day that begins in the evening, a silent one, hours without anyone, and one reading beyond measure."""
    readings = np.array(sound(100, 12))
    readings[:, :14, 0] = np.nan
    readings[..., 4] = np.nan
    readings[:, 5:9, 6] = np.nan
    readings[7, :, 8] = 12.5
    readings[3, 3, 10] = 1e38
    tensor = torch.tensor(readings, dtype=torch.float32)
    host, device = AutoOLRTR(), tensored()
    for day in range(12):
        wanted, found = host.update(readings[..., day].astype(np.float32)), device.update(tensor[..., day])
        assert host.periods == device.periods
        if day == 0:
            assert bool(torch.isnan(found.cleaned[:, :14]).all())
        else:
            assert bool(torch.isfinite(found.cleaned).all())
        if day != 10:
            np.testing.assert_array_equal(found.faulty.numpy(), wanted.faulty)
    device.rewind()
    device.arrive()
    assert not device.update(tensor[..., 5]).faulty.any()


def test_a_skewed_quantity_is_bent_on_tensors_too(torch: Any) -> None:
    readings = np.maximum(sound(80, 10, seed=2, climate="skewed"), 0)
    host, device = AutoOLRTR(), tensored()
    for day in range(10):
        wanted, found = host.update(readings[..., day]), device.update(torch.tensor(readings[..., day]))
        assert bool((found.low_rank >= 0).all()) or day < 8
        np.testing.assert_allclose(found.cleaned.numpy(), wanted.cleaned, rtol=1e-3, atol=1e-3)
    assert device._model is not None
    assert (device._model.scales.bend > 0).all()


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
