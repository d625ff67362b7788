"""`Pictures` draws the decomposition of a network by a method, and its map."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sensormend.bench.city_map import city_map
from sensormend.bench.decomposition import decomposition
from sensormend.bench.experiment import Experiment, Row, RunPlan
from sensormend.bench.measure import workers
from sensormend.model.network_model import NetworkModel
from sensormend.simulate.network import city

__all__ = ["Pictures"]

SENSORS, DAYS, QUICK_DAYS = 50, 182, 60


class Pictures(Experiment):
    """A simulated city, since the positions of the sensors of the Array of Things are not published."""

    name = "pictures"
    title = "Pictures of a simulated city"
    caption = (
        "The readings of some days as the sum of what the network agrees on and of whole days of single sensors; and "
        "the city at one hour on six days, raw above and cleaned below, each sensor with the area nearest to it."
    )

    def charts(self, rows: Sequence[Row], plan: RunPlan, folder: Path) -> list[Path]:
        """Simulate half a year, clean it in one pass, and draw it, in a separate process with one BLAS thread."""
        with workers(1) as pool:
            return pool.submit(_draw, folder, SENSORS, QUICK_DAYS if plan.quick else DAYS, plan.seed).result()


def _draw(folder: Path, sensors: int, days: int, seed: int) -> list[Path]:
    network = city(sensors, days, seed=seed)
    recovery = NetworkModel(seed=seed).recover(network.readings)
    unit = network.climate.unit
    positions = np.stack([network.stations.x, network.stations.y], axis=1)
    return [
        *decomposition(folder, readings=network.readings, recovery=recovery, unit=unit),
        *city_map(
            folder, positions=positions, readings=network.readings, cleaned=recovery.cleaned, times=network.times,
            faulty=recovery.faulty, quantity=network.climate.quantity, unit=unit,
        ),
    ]  # fmt: skip
