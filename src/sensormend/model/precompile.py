"""`precompile` has the engine compiled before it is needed, by taking a small network through two periods."""

from __future__ import annotations

import numpy as np

from sensormend.model.compiling import is_compiled
from sensormend.model.network_model import NetworkModel

__all__ = ["is_precompiled", "precompile"]


def is_precompiled() -> bool:
    """Return whether the engine needs no compiling."""
    from sensormend.model.engine import run_partitions

    return is_compiled(run_partitions)


def precompile(*, everything: bool = False) -> None:
    """Compile the functions of the engine that a small network needs, or also those for more than one partition."""
    from sensormend.model.partition import MAX_SINGLE

    sensors = MAX_SINGLE + 2 if everything else 4
    readings = np.random.default_rng(0).normal(size=(sensors, 4)).cumsum(axis=0)
    model = NetworkModel()
    model.update(readings[:-1], sensors=range(sensors - 1))
    if everything:
        # A sensor joins.
        model.update(readings, sensors=range(sensors))
