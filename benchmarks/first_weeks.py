"""What it gains to clean the first weeks of an archive again, with the model learned from them.

    python benchmarks/first_weeks.py [--seeds 3]

Three ways over the first WARM_UP days of simulated networks: in one pass; again, learning as it goes; again, only
answering. Printed are the share of fibers that were judged, F1 of the faults, and the error of all cleaned values.
"""

from __future__ import annotations

import argparse

import numpy as np
from rich.console import Console
from rich.table import Table

from sensormend import NetworkModel
from sensormend.pipeline.cleaner import WARM_UP
from sensormend.recovery import FloatArray, Recovery
from sensormend.simulate.network import Network, city

CLIMATES = ("city", "dense", "pressure", "skewed")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    table = Table("network", "way", "judged", "F1", "error", title=f"The first {WARM_UP} days", title_justify="left")
    for climate in CLIMATES:
        networks = [city(40, WARM_UP, seed=seed, climate=climate) for seed in range(args.seeds)]
        for way in ("one pass", "again", "answering only"):
            results = np.array([judged(network, walked(network.readings, way)) for network in networks])
            table.add_row(climate, way, *(f"{figure:.3f}" for figure in results.mean(axis=0)))
    Console().print(table)
    return 0


def walked(readings: FloatArray, way: str) -> Recovery:
    model = NetworkModel()
    days = [readings[..., day] for day in range(readings.shape[2])]
    first = [model.update(day) for day in days]
    if way == "one pass":
        return Recovery.stack(first)
    if way == "answering only":
        return Recovery.stack([model.estimate(day) for day in days])
    model.rewind()
    return Recovery.stack([model.update(day) for day in days])


def judged(network: Network, recovery: Recovery) -> tuple[float, float, float]:
    truth = network.degraded().faulty
    right = np.sum(recovery.faulty & truth)
    return (
        float(recovery.evaluated.mean()),
        float(2 * right / max(recovery.faulty.sum() + truth.sum(), 1)),
        float(np.sqrt(np.nanmean((recovery.cleaned - network.truth) ** 2))),
    )


if __name__ == "__main__":
    raise SystemExit(main())
