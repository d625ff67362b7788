"""`EXPERIMENTS` lists all experiments in the order in which the page shows them."""

from __future__ import annotations

from sensormend.bench.aot import Aot
from sensormend.bench.experiment import Experiment
from sensormend.bench.fault_bench import Faults
from sensormend.bench.growth import Growth
from sensormend.bench.noaa import Noaa
from sensormend.bench.pictures import Pictures
from sensormend.bench.simulations import Convergence, Corruption, Magnitude, Observation, Size

__all__ = ["EXPERIMENTS"]

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Size(), Corruption(), Magnitude(), Observation(), Convergence(), Noaa(), Aot(), Faults(), Growth(), Pictures(),
    )
}  # fmt: skip
