"""Whether AutoOLRTR's engine for large networks judges and fills as well as the one for small networks.

    python benchmarks/wide_quality.py [--sensors 60,300] [--days 60] [--seeds 2] [--climates city,dense] [--out FILE]

Both walk the same simulated networks, day by day. The engine for small networks has all sensors in one neighbourhood,
however many they are, so that a reading costs the more the more there are. Told are F1 of the faulty fibers and the
share of false alarms, root mean square errors in missing cells and in fibers that were found and repaired, how many of
these cells lie in their interval of 90 %, and the processor time per reading, one BLAS thread, from the day on from
which scores count.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from time import process_time

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from sensormend import AutoOLRTR, Recovery
from sensormend.bench.scores import DROPPED, score
from sensormend.simulate import Network, city

CLIMATES = ("city", "dense", "pressure", "skewed")

HEADINGS = {
    "f1": "F1",
    "false_alarms": "false alarms",
    "missing": "missing",
    "repaired": "repaired",
    "coverage_missing": "covered, missing",
    "coverage_repaired": "covered, repaired",
    "seconds": "µs a reading",
}


class _Small(AutoOLRTR):
    """Has all sensors in one neighbourhood, however many they are."""

    _wide = 10**9


class _Wide(AutoOLRTR):
    """Always takes it."""

    _wide = 1


def engines() -> dict[str, type[AutoOLRTR]]:
    """Return the engines that this version has."""
    return {"small": _Small, "wide": _Wide} if hasattr(AutoOLRTR, "_wide") else {"small": AutoOLRTR}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sensors", default="60,300", help="numbers of sensors")
    parser.add_argument("--days", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=2, help="networks of each kind")
    parser.add_argument("--climates", default=",".join(CLIMATES))
    parser.add_argument("--out", type=Path, help="also write the figures to this JSON file")
    told = parser.parse_args()
    if told.days <= DROPPED:
        parser.error(f"the first {DROPPED} days do not count; give more")
    screen = Console(width=None if sys.stdout.isatty() else 120)
    figures: list[dict[str, object]] = []
    with threadpool_limits(1):
        for sensors in (int(number) for number in told.sensors.split(",")):
            title = f"{sensors} sensors, {told.days} days, {told.seeds} networks"
            table = Table("network", "engine", *HEADINGS.values(), title=title, title_justify="left")
            for climate in told.climates.split(","):
                found = beside_each_other(sensors, told.days, told.seeds, climate)
                for engine, means in found.items():
                    table.add_row(climate, engine, *(_cell(name, means[name]) for name in HEADINGS))
                    figures.append({"sensors": sensors, "climate": climate, "engine": engine, **means})
            screen.print(table)
    if told.out:
        told.out.write_text(json.dumps({"days": told.days, "seeds": told.seeds, "figures": figures}, indent=2) + "\n")
    return 0


def beside_each_other(sensors: int, days: int, seeds: int, climate: str) -> dict[str, dict[str, float]]:
    """Return the mean figures of each engine over the same networks."""
    runs: dict[str, list[dict[str, float]]] = {engine: [] for engine in engines()}
    for seed in range(seeds):
        network = city(sensors, days, seed=seed, climate=climate)
        for engine, kind in engines().items():
            runs[engine].append(judged(network, kind()))
    return {engine: _means(told) for engine, told in runs.items()}


def judged(network: Network, model: AutoOLRTR) -> dict[str, float]:
    """Walk a network and return how well that went and what it cost."""
    days, spent = [], 0.0
    for day in range(network.readings.shape[2]):
        begun = process_time()
        days.append(model.update(network.readings[..., day]))
        spent += (process_time() - begun) * (day >= DROPPED)
    scores = score(Recovery.stack(days), network.degraded())
    readings = int(np.isfinite(network.readings[..., DROPPED:]).sum())
    named = {name: float(getattr(scores, name)) for name in HEADINGS if name != "seconds"}
    return {**named, "seconds": spent / readings}


def _means(told: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: fmean(run[name] for run in told) for name in HEADINGS}


def _cell(name: str, figure: float) -> str:
    if name == "seconds":
        return f"{1e6 * figure:.2f}"
    if name in ("false_alarms", "coverage_missing", "coverage_repaired"):
        return f"{100 * figure:.2f} %"
    return f"{figure:.3f}"


if __name__ == "__main__":
    raise SystemExit(main())
