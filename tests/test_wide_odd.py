"""AutoOLRTR on large networks that read hardly anything, in odd shapes, or nothing of a variable yet."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from networks import Floats, seen, sound
from sensormend import AutoOLRTR, Recovery
from tensors import Put

BASE = sound(100, 12)
LIBRARIES = ("numpy-float64", "torch-float64")


def through(readings: Floats, library: str, **settings: Any) -> Recovery:
    """Take readings through a model day by day, as arrays or as tensors, and return arrays."""
    put, model = Put(library), AutoOLRTR(**settings)
    periods = []
    for day in range(readings.shape[-1]):
        result: Any = model.update(put(readings[..., day]))
        periods.append(Recovery(**{name: _plain(value) for name, value in vars(result).items()}))
    for own in model._each or [model]:
        assert own._model is not None
        assert own._model.parts is not None
    return Recovery.stack(periods)


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | tuple) else np.asarray(value)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("share", [0.1, 0.2, 0.5])
def test_few_readings(share: float, library: str) -> None:
    """A sensor that its own part knows may be too odd for another one, which must not believe it the less it varies."""
    readings = np.where(seen(share, BASE.shape), BASE, np.nan)
    result = through(readings, library)
    hidden = np.isnan(readings)
    hidden[..., :5] = False
    off = (result.cleaned - BASE)[hidden]
    assert np.sqrt(np.mean(off**2)) < 1.5
    assert result.faulty.sum() <= 5


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_variable_that_nobody_has_read_yet(library: str) -> None:
    readings = np.stack([BASE, 5 * BASE, np.where(seen(0.5, BASE.shape), 2 * BASE, np.nan)], axis=1)
    readings[:, 1, :, :9] = np.nan
    readings[40:, 1] = np.nan
    result = through(readings, library, fiber_axis=2)
    assert np.isfinite(result.cleaned[:, [0, 2]]).all()
    assert np.isnan(result.cleaned[:, 1, :, :9]).all()
    assert np.isfinite(result.cleaned[:40, 1, :, 9:]).all()
    assert not np.isinf(result.cleaned).any()
    assert result.faulty.sum() <= 3
    assert np.abs(result.cleaned[:, 2] - 2 * BASE)[..., 5:].mean() < 1


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("slots", [1, 3, 96])
def test_periods_of_any_length(slots: int, library: str) -> None:
    readings = np.repeat(BASE, 4, axis=1)[:, :slots]
    result = through(readings, library)
    np.testing.assert_array_equal(result.cleaned[~np.broadcast_to(result.faulty[:, None, :], readings.shape)],
                                  readings[~np.broadcast_to(result.faulty[:, None, :], readings.shape)])  # fmt: skip
    assert result.faulty.sum() <= 8


@pytest.mark.parametrize("library", LIBRARIES)
def test_sensors_that_equal_each_other(library: str) -> None:
    twins = np.concatenate([BASE[:50], BASE[:50]])
    for readings in (twins, np.repeat(BASE[:1], 100, axis=0), np.concatenate([BASE[:50], -BASE[:50]])):
        result = through(np.where(seen(0.95, readings.shape), readings, np.nan), library)
        assert np.isfinite(result.cleaned).all()
        assert result.faulty.sum() <= 3


def test_a_network_that_was_cut_anew_knows_its_sensors_on_the_same_day() -> None:
    """After period 7 there are new parts; sensors 0.1 degrees apart still fill each other's gaps."""
    truth = BASE[:1] + np.random.default_rng(1).normal(0, 0.1, BASE.shape)
    readings = np.where(seen(0.95, BASE.shape), truth, np.nan)
    result = through(readings, "numpy-float64")
    for day in range(3, 12):
        assert np.abs(result.cleaned - truth)[..., day][np.isnan(readings[..., day])].mean() < 0.2


@pytest.mark.parametrize("library", LIBRARIES)
def test_hardly_anyone_ever_speaks(library: str) -> None:
    readings = BASE.copy()
    readings[1:] = np.nan
    result = through(readings, library)
    np.testing.assert_array_equal(result.cleaned[0], readings[0])
    assert not np.isinf(result.cleaned).any()
    assert not result.faulty.any()
    assert np.isnan(through(np.full_like(readings, np.nan), library).cleaned).all()
