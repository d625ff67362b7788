"""All experiments, in the order in which the page shows them."""

from __future__ import annotations

from sensormend.bench.aot import Aot
from sensormend.bench.convergence import Convergence
from sensormend.bench.corruption import Corruption
from sensormend.bench.experiment import Experiment
from sensormend.bench.faults import Faults
from sensormend.bench.growth import Growth
from sensormend.bench.magnitude import Magnitude
from sensormend.bench.noaa import Noaa
from sensormend.bench.observation import Observation
from sensormend.bench.pictures import Pictures
from sensormend.bench.size import Size

__all__ = ["EXPERIMENTS"]

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Size(), Corruption(), Magnitude(), Observation(), Convergence(), Noaa(), Aot(), Faults(), Growth(), Pictures(),
    )
}  # fmt: skip
