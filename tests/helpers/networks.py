"""Small networks for the tests of NetworkModel, and models that have learned them; each is made once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.signal import lfilter

from sensormend import NetworkModel
from sensormend.model.partition import extend, partition
from sensormend.recovery import Recovery
from sensormend.simulate.network import city

__all__ = [
    "LEARNED", "Floats", "fault_free", "observed_mask", "partition_small_networks", "regions", "trained",
    "update_all",
]  # fmt: skip

Floats = NDArray[np.float64]
LEARNED = 30
"""Periods that a trained model has learned."""


def partition_small_networks(patch: pytest.MonkeyPatch, owned: int = 20, halo: int = 20) -> None:
    """Let networks of a few sensors be partitioned as only large ones are."""
    from sensormend.model import state

    patch.setattr(state, "MAX_SINGLE", owned)
    patch.setattr(state, "partition", partial(partition, max_single=owned, owned=owned, halo=halo))
    patch.setattr(state, "extend", partial(extend, max_single=owned, owned=owned, halo=halo))


@lru_cache
def fault_free(sensors: int = 16, days: int = 90, seed: int = 1, climate: str = "city") -> Floats:
    """Readings (sensor, slot, day) of a network in which nothing is wrong or missing."""
    readings = city(sensors, days, seed=seed, climate=climate, faults=False).readings
    readings.flags.writeable = False
    return readings


def regions(sizes: Sequence[int], days: int, seed: int = 0) -> Floats:
    """Return sensors of regions that have the same day and night, and each its own weather that lasts for days."""
    random = np.random.default_rng(seed)
    hours = 24 * days
    weather = lfilter([1.0], [1.0, -0.97], random.normal(0, 1.0, (len(sizes), hours)))
    own = lfilter([1.0], [1.0, -0.8], random.normal(0, 0.2, (sum(sizes), hours)))
    day = 5 * np.sin(2 * np.pi * np.arange(hours) / 24)
    readings = 15 + day + np.repeat(weather, sizes, axis=0) + own + random.normal(0, 0.2, own.shape)
    return np.asarray(readings).reshape(-1, days, 24).transpose(0, 2, 1)


@lru_cache
def _trained(climate: str, sensors: int, *, partitioned: bool) -> NetworkModel:
    model = NetworkModel()
    update_all(model, fault_free(sensors, climate=climate)[..., :LEARNED])
    return model


def trained(climate: str = "city", sensors: int = 16, *, partitioned: bool = False) -> NetworkModel:
    """Return a copy of a model that has learned the first `LEARNED` periods of `sound`.

    With `partitioned` on, the test has to let small networks be partitioned, see above.
    """
    return _trained(climate, sensors, partitioned=partitioned).copy()


def update_all(model: NetworkModel, readings: Floats, sensors: Sequence[str] | None = None) -> Recovery:
    """Update a model period by period."""
    return Recovery.stack([model.update(readings[..., day], sensors) for day in range(readings.shape[-1])])


def observed_mask(share: float, shape: tuple[int, ...], seed: int = 0) -> NDArray[np.bool_]:
    """Draw which readings are observed."""
    return np.asarray(np.random.default_rng(seed).random(shape) < share)
