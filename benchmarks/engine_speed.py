"""What NetworkModel costs, measured in one run on one core, beside the same of another checkout.

    python benchmarks/engine_speed.py --against ../before/src

`--against` takes the `src` folder of another checkout, such as a git worktree of an earlier commit; everything is then
measured with that too, and the last column is its figure over ours: 2 is twice as fast, or half the memory. Times are
processor time, in which other processes on the machine do not count; only two threads are timed by the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from sensormend.bench.data import load_network
from sensormend.simulate.degrade import Case, degrade
from sensormend.simulate.network import city
from speed_simulate import simulate_in_a_process
from speed_walk import Task, Walked, walk_in_a_process

SOURCE = Path(__file__).resolve().parents[1] / "src"
THREADS = "SENSORMEND_THREADS"
"""The environment variable that says how many threads NetworkModel may use."""

PARTS = ("noaa", "step", "gaps", "medium", "large", "threads", "start")
PERIODS = 12
"""Days of a simulated field; the last four are timed, when nothing is new to the model any more."""
TIMED = 4
LIMIT = 300.0
"""Seconds of processor time after which no further day of a field is begun."""
STEP_DAYS, STEP_WARM = 60, 20
GAPS = ("a silent day", "half a day dark", "3-hourly readings on an hourly grid")
GAPS_SENSORS, GAPS_DAYS = 1000, 32
REPEATS = 3
"""Small runs are repeated and the quickest counts: what else the machine does makes them slower, never faster."""
START = "import sys, numpy; from speed_walk import NetworkModel; NetworkModel().update(numpy.load(sys.argv[1]))"
"""Run in the folder of this file, from which `-c` imports."""


@dataclass(frozen=True)
class Measured:
    """One figure of one checkout."""

    part: str
    name: str
    unit: str
    value: float


def main() -> int:
    """Measure, print a table, and write the figures where that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--against", type=Path, help="the src folder of another checkout")
    parser.add_argument("--only", default=",".join(PARTS), help=f"which parts to run (default: {','.join(PARTS)})")
    parser.add_argument("--medium", type=int, default=100_000, help="sensors of the smaller field")
    parser.add_argument("--large", type=int, default=1_000_000, help="sensors of the larger field")
    parser.add_argument("--periods", type=int, default=PERIODS, help="days of the fields")
    parser.add_argument("--keep", type=Path, help="keep the simulated days in this folder, 2.6 GB, for the next time")
    parser.add_argument("--out", type=Path, help="also write the figures to this file, as JSON")
    args = parser.parse_args()
    parts = args.only.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    sources = [SOURCE, *([args.against.resolve()] if args.against else [])]
    if missing := [source for source in sources if not (source / "sensormend").is_dir()]:
        parser.error(f"{missing[0]} has no package sensormend")
    with TemporaryDirectory() as passing:
        folders = Folders(args.keep or Path(passing), args.periods)
        runs = {
            "noaa": lambda source: noaa(source, folders),
            "step": lambda source: step(source, folders),
            "gaps": lambda source: gaps(source, folders),
            "medium": lambda source: field(source, folders, "medium", args.medium),
            "large": lambda source: field(source, folders, "large", args.large),
            "threads": lambda source: threads(source, folders, args.medium),
            "start": lambda source: start(source, folders),
        }
        columns = measured(parts, runs, sources)
    Console(width=None if sys.stdout.isatty() else 110).print(laid_out(columns))
    if args.out:
        rows = [[vars(figure) for figure in column] for column in columns]
        results = {str(source): row for source, row in zip(sources, rows, strict=True)}
        args.out.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return 0


def measured(
    parts: Sequence[str], runs: dict[str, Callable[[Path], list[Measured]]], sources: Sequence[Path]
) -> list[list[Measured]]:
    """Return the figures of every source; a part is done with all sources before the next, so that they are alike."""
    columns: list[list[Measured]] = [[] for _ in sources]
    for part in parts:
        for source, column in zip(sources, columns, strict=True):
            print(f"{part}: {source}", file=sys.stderr, flush=True)
            column += runs[part](source)
    return columns


def laid_out(columns: Sequence[Sequence[Measured]]) -> Table:
    """Return a table of the figures; with those of another checkout and their ratio where there are any."""
    table = Table()
    for name in ("", "unit", "this checkout", *(("the other", "other / this") if len(columns) > 1 else ())):
        table.add_column(name, justify="left" if name in ("", "unit") else "right")
    for row in zip(*columns, strict=True):
        values = [figure.value for figure in row]
        cost = row[0].unit in ("s", "ms", "minibatches")
        ratio = ([f"{values[1] / values[0]:.2f}"] if cost else [""]) if len(values) > 1 else []
        table.add_row(row[0].name, row[0].unit, *(f"{value:.4g}" for value in values), *ratio)
    return table


class Folders:
    """Folders of days, (sensor, slot) in a file each, that are made when they are first asked for."""

    def __init__(self, root: Path, periods: int) -> None:
        self._root, self._periods = root, periods

    def noaa(self) -> Path:
        """Return a year of NOAA temperatures with faults and gaps."""
        return self._written("noaa", lambda: degrade(load_network("noaa"), Case("mix"), seed=0).readings)

    def few(self, sensors: int) -> Path:
        """Return some days of the first sensors of a city of 65."""
        return self._written(f"few{sensors}", lambda: city(65, STEP_DAYS, seed=0).readings[:sensors])

    def gaps(self, kind: str) -> Path:
        """Return days of a city; every other one, of three-hourly readings every one, has gaps of a kind."""

        def make() -> NDArray[np.float64]:
            readings = city(GAPS_SENSORS, GAPS_DAYS, seed=0).readings.copy()
            if kind == GAPS[0]:
                readings[..., STEP_WARM::2] = np.nan
            elif kind == GAPS[1]:
                readings[:, 12:, STEP_WARM::2] = np.nan
            elif kind == GAPS[2]:
                readings[:, np.arange(24) % 3 != 0] = np.nan
            return readings

        return self._written(f"gaps{GAPS.index(kind) if kind else ''}", make)

    def field(self, sensors: int) -> Path:
        """Return the days of a simulated city of so many sensors."""
        folder = self._root / f"{sensors}x{self._periods}"
        if len(list(folder.glob("*.npy"))) != self._periods:
            simulate_in_a_process(folder, sensors, self._periods)
        return folder

    def _written(self, name: str, make: Callable[[], NDArray[np.float64]]) -> Path:
        folder = self._root / name
        if not folder.is_dir():
            readings = make()
            folder.mkdir(parents=True)
            for day in range(readings.shape[-1]):
                np.save(folder / f"{day:03d}.npy", readings[..., day])
        return folder


def walked(source: Path, folder: Path, task: Task, *, cores: int = 1) -> Walked:
    """Run a task with one checkout's code, on so many cores and with as many threads."""
    if hasattr(os, "sched_setaffinity"):
        everywhere = os.sched_getaffinity(0)
        os.sched_setaffinity(0, set(sorted(everywhere)[-cores:]))
    try:
        return walk_in_a_process(folder, task, {"PYTHONPATH": str(source), THREADS: str(cores)})
    finally:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, everywhere)


def noaa(source: Path, folders: Folders) -> list[Measured]:
    """Measure a year of 37 sensors, a day at a time; the first day, which loads code, is left out."""
    seconds = [sum(walked(source, folders.noaa(), Task("NetworkModel")).seconds[1:]) for _ in range(REPEATS)]
    return [Measured("noaa", "NOAA, 37 sensors, a year day by day", "s", min(seconds))]


def step(source: Path, folders: Folders) -> list[Measured]:
    """Measure what the 65th sensor costs: a network larger than one partition must not cost a multiple."""
    days: dict[int, list[float]] = {64: [], 65: []}
    for _ in range(REPEATS):
        for count, medians in days.items():
            medians.append(median(walked(source, folders.few(count), Task("NetworkModel")).seconds[STEP_WARM:]))
    return [
        Measured("step", "64 sensors, a day", "ms", 1e3 * min(days[64])),
        Measured("step", "65 sensors over 64, a day", "ratio", min(days[65]) / min(days[64])),
    ]


def gaps(source: Path, folders: Folders) -> list[Measured]:
    """Measure days with gaps over full ones."""
    days = {
        kind: min(
            median(walked(source, folders.gaps(kind), Task("NetworkModel")).seconds[STEP_WARM::2])
            for _ in range(REPEATS)
        )
        for kind in ("", *GAPS)
    }
    name = f"{GAPS_SENSORS:,} sensors"
    ratios = [Measured("gaps", f"{name}, {kind}", "of a full day", days[kind] / days[""]) for kind in GAPS]
    return [Measured("gaps", f"{name}, a full day", "ms", 1e3 * days[""]), *ratios]


def field(source: Path, folders: Folders, part: str, sensors: int) -> list[Measured]:
    """Measure a large field: a day, the first day, and the peak of memory in minibatches of float64."""
    folder = folders.field(sensors)
    run = walked(source, folder, Task("NetworkModel", limit=LIMIT))
    reading = walked(source, folder, Task("nothing", periods=2))
    name = f"{sensors:,} sensors"
    return [
        Measured(part, f"{name}, a day", "s", median(run.seconds[-TIMED:])),
        Measured(part, f"{name}, the slowest day", "s", max(run.seconds)),
        Measured(part, f"{name}, peak memory", "minibatches", (run.peak - reading.peak) / run.read),
    ]


def threads(source: Path, folders: Folders, sensors: int) -> list[Measured]:
    """Measure two threads on two cores against one on one, by the clock."""
    task, folder = Task("NetworkModel", limit=LIMIT), folders.field(sensors)
    one, two = (median(walked(source, folder, task, cores=cores).wall[-TIMED:]) for cores in (1, 2))
    return [Measured("threads", f"{sensors:,} sensors, two threads over one", "speed", one / two)]


def start(source: Path, folders: Folders) -> list[Measured]:
    """Measure a fresh process up to the end of its first update, by the clock; compiled code is cached by then."""
    day = str(min(folders.noaa().glob("*.npy")))
    seconds = []
    for _ in range(REPEATS + 1):
        start = perf_counter()
        subprocess.run(
            [sys.executable, "-c", START, day],
            env={**os.environ, "PYTHONPATH": str(source)},
            check=True,
            cwd=Path(__file__).parent,
        )
        seconds.append(perf_counter() - start)
    return [Measured("start", "a fresh process and its first update", "s", min(seconds[1:]))]


if __name__ == "__main__":
    sys.exit(main())
