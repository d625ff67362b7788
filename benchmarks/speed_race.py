"""OLRTR against the naive port of the paper's algorithms: how many times faster, at equal results."""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from oracles import methods as oracle
from sensormend.bench.data import load_network
from sensormend.errors import SensormendError
from sensormend.methods.olrtr import OLRTR
from sensormend.recovery import FloatArray
from sensormend.simulate.network import paper_tensor

__all__ = ["Race", "races", "run_race"]

EQUAL = 1e-9

Race = tuple[str, list[FloatArray], dict[str, Any]]
"""What it is called, its minibatches, and rank, alpha and tol."""


def races() -> list[Race]:
    """Return what is raced on: 37 stations x 24 hours with rank 3 and 20, and the paper's cubes of 50."""
    try:
        network, name = load_network("noaa"), "NOAA 37x24"
    except SensormendError:
        network, name = load_network("city", sensors=37, days=40), "simulated 37x24 (NOAA is not here)"
    random = np.random.default_rng(0)
    hourly = np.where(random.random(network.shape) < 0.9, network, np.nan)
    cubes = [part.readings for part in paper_tensor(50, 5, minibatches=2, share=0.1, seed=0)]
    three, twenty = ([hourly[..., day] for day in range(days)] for days in (40, 10))
    return [
        (f"{name}, rank 3", three, {"rank": 3, "alpha": 330.0, "tol": 1e-3}),
        (f"{name}, rank 20", twenty, {"rank": 20, "alpha": 70.0, "tol": 1e-4}),
        ("50x50x50, rank 5", cubes, {"rank": 5, "alpha": 3.0, "tol": 1e-4}),
    ]


def run_race(race: Race) -> dict[str, Any]:
    """Time both on the same minibatches, and insist that they agree, in results and in iterations."""
    label, minibatches, settings = race
    shape, rank = minibatches[0].shape, settings["rank"]
    random = np.random.default_rng(1)
    start = [random.random((length, rank)) for length in shape]
    most = {"tol": settings["tol"], "max_iter": 100}
    fast_times, slow_times, gap, turns = [], [], 0.0, 0
    model = OLRTR(rank, settings["alpha"], dictionaries=start, **most)
    state = oracle.OlrtrState(start)
    lambda2 = oracle.olrtr_lambda2(settings["alpha"], shape)
    for minibatch in minibatches:
        began = process_time()
        result = model.update(minibatch)
        between = process_time()
        X, E, iterations = oracle.olrtr_minibatch(
            state, minibatch, lambda1=0.01, lambda2=lambda2, fiber_axis=1, dictionary_update="column", **most
        )
        slow_times.append(process_time() - between)
        fast_times.append(between - began)
        gap = max(gap, float(np.abs(result.expected - X).max()), float(np.abs(result.outliers - E).max()))
        turns += iterations
        if iterations != result.iterations:
            raise AssertionError(f"OLRTR took {result.iterations} iterations, naive {iterations}")
    if not gap <= EQUAL:
        raise AssertionError(f"OLRTR and naive differ by {gap:.1e}, more than {EQUAL:.0e}")
    fast, slow = median(fast_times), median(slow_times)
    return {"case": label, "olrtr_ms": 1e3 * fast, "naive_ms": 1e3 * slow, "ratio": slow / fast, "difference": gap,
            "iterations": turns}  # fmt: skip
