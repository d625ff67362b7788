"""Speed, memory and growth, measured in one run and told as ratios: `make bench`.

Ratios travel from machine to machine; nanoseconds do not. Everything runs with one BLAS thread: the products
are small, a second thread gains nothing and loses much on a busy machine. Times are processor time, in which
another process on the same machine does not count.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import naive
from sensormend.bench.contestants import auto
from sensormend.bench.data import load_network
from sensormend.errors import SensormendError
from sensormend.methods.olrtr import OLRTR
from sensormend.recovery import FloatArray
from sensormend.simulate import paper_tensor, stream

SLOTS = 24
EQUAL = 1e-9
FIRST_SIZE_OF_RATIO = 1000
PRODUCT_RANK = 12
TIMED = slice(2, 4)
"""The periods that are timed at every size: past the first two, which are nearly free since nobody is known yet."""

LATER = slice(8, 12)
"""Periods timed as well where a run gets that far: everyone is judged by now, and the network was cut anew once."""

PERIODS = {100: 12, 1000: 12, 10_000: 12}
PERIODS_AT_MOST = 4
"""At sizes beyond those: 100,000 sensors take half a minute a period."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, help="also write the figures to this JSON file")
    parser.add_argument("--sizes", default="100,1000,10000,100000", help="numbers of sensors")
    parser.add_argument("--days", type=int, default=3000, help="how far to go for the cost of a late day")
    parser.add_argument("--only", default="olrtr,size,growth", help="which parts to run")
    parser.add_argument("--walk", nargs=2, metavar=("FOLDER", "METHOD"), help=argparse.SUPPRESS)
    told = parser.parse_args()
    if told.walk:
        return _walk(Path(told.walk[0]), told.walk[1])
    sizes, parts = [int(size) for size in told.sizes.split(",")], told.only.split(",")
    screen = Console(width=None if sys.stdout.isatty() else 120)
    screen.print("One BLAS thread throughout; processor time; ratios are of medians measured in this run.")
    figures: dict[str, Any] = {"blas_threads": 1}
    with threadpool_limits(1):
        if "olrtr" in parts:
            figures["olrtr"] = olrtr_against_naive()
            screen.print(_olrtr_table(figures["olrtr"]))
        if "size" in parts:
            figures["size"] = by_size(sizes)
            screen.print(_cost_table(figures["size"]))
            screen.print(_memory_table(figures["size"]))
        if "growth" in parts:
            figures["growth"] = growth(told.days)
            late = figures["growth"]
            screen.print(
                f"AutoOLRTR, {late['sensors']} sensors: a day costs {late['early_ms']:.2f} ms around day 10 "
                f"and {late['late_ms']:.2f} around day {late['late_day']}: ratio [bold]{late['ratio']:.2f}[/]"
            )
    if told.out:
        told.out.parent.mkdir(parents=True, exist_ok=True)
        told.out.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
        screen.print(f"Figures: {told.out}", soft_wrap=True)
    return 0


def olrtr_against_naive() -> list[dict[str, Any]]:
    """Time both on the same minibatches, and insist that they agree."""
    try:
        network, name = load_network("noaa"), "NOAA 37x24"
    except SensormendError:
        network, name = load_network("city", sensors=37, days=40), "simulated 37x24 (NOAA is not here)"
    random = np.random.default_rng(0)
    hourly = np.where(random.random(network.shape) < 0.9, network, np.nan)
    cubes = [part.readings for part in paper_tensor(50, 5, minibatches=2, share=0.1, seed=0)]
    runs: list[tuple[str, list[FloatArray], dict[str, Any]]] = [
        (
            f"{name}, rank 3",
            [hourly[..., day] for day in range(40)],
            {"rank": 3, "alpha": 330.0, "tol": 1e-3},
        ),
        (
            f"{name}, rank 20",
            [hourly[..., day] for day in range(10)],
            {"rank": 20, "alpha": 70.0, "tol": 1e-4},
        ),
        ("50x50x50, rank 5", cubes, {"rank": 5, "alpha": 3.0, "tol": 1e-4}),
    ]
    rows = []
    for label, minibatches, settings in runs:
        with _doing(f"OLRTR against naive: {label}"):
            rows.append({"case": label, **_one_race(minibatches, settings)})
    return rows


def _one_race(minibatches: list[FloatArray], settings: dict[str, Any]) -> dict[str, Any]:
    shape, rank = minibatches[0].shape, settings["rank"]
    random = np.random.default_rng(1)
    start = [random.random((length, rank)) for length in shape]
    most = {"tol": settings["tol"], "max_iter": 100}
    fast_times, slow_times, gap = [], [], 0.0
    model = OLRTR(rank, settings["alpha"], dictionaries=start, **most)
    state = naive.OnlineState(start)
    lambda2 = naive.olrtr_lambda2(settings["alpha"], shape)
    for minibatch in minibatches:
        began = process_time()
        found = model.update(minibatch)
        between = process_time()
        X, E, iterations = naive.olrtr_minibatch(
            state, minibatch, lambda1=0.01, lambda2=lambda2, fiber_axis=1, dictionary_update="column", **most
        )
        slow_times.append(process_time() - between)
        fast_times.append(between - began)
        gap = max(gap, float(np.abs(found.low_rank - X).max()), float(np.abs(found.outliers - E).max()))
        if iterations != found.iterations:
            raise AssertionError(f"OLRTR took {found.iterations} iterations, naive {iterations}")
    if not gap <= EQUAL:
        raise AssertionError(f"OLRTR and naive differ by {gap:.1e}, more than {EQUAL:.0e}")
    fast, slow = median(fast_times), median(slow_times)
    return {"olrtr_ms": 1e3 * fast, "naive_ms": 1e3 * slow, "ratio": slow / fast, "difference": gap}


def by_size(sizes: list[int]) -> list[dict[str, Any]]:
    """Measure AutoOLRTR's cost per reading and its peak memory, and a bare product of the same size.

    Memory is the difference between two processes that read the same periods: one only holds them, the other
    mends them.
    """
    rows: list[dict[str, Any]] = []
    for sensors in sizes:
        periods = PERIODS.get(sensors, PERIODS_AT_MOST)
        with _doing(f"AutoOLRTR, {sensors:,} sensors, {periods} periods"), tempfile.TemporaryDirectory() as folder:
            for number, day in enumerate(islice(stream(sensors, seed=0), periods)):
                np.save(Path(folder) / f"{number:02d}.npy", day.readings)
            held, mended = (_child(Path(folder), method) for method in ("nothing", "AutoOLRTR"))
            product = 1e9 * _product_seconds(sensors) / (sensors * SLOTS)
        times = [1e9 * seconds / (sensors * SLOTS) for seconds in mended["seconds"]]
        minibatch, taken = sensors * SLOTS * 8, mended["peak"] - held["peak"]
        rows.append(
            {
                "sensors": sensors,
                "periods": periods,
                "ns": median(times[TIMED]),
                "later_ns": median(times[LATER]) if times[LATER] else None,
                "product_ns": product,
                "to_product": median(times[TIMED]) / product,
                "minibatch_mib": minibatch / 2**20,
                "peak_mib": taken / 2**20,
                "minibatches": taken / minibatch,
            }
        )
    base = next((row["ns"] for row in rows if row["sensors"] == FIRST_SIZE_OF_RATIO), rows[0]["ns"])
    return [{**row, "ratio": row["ns"] / base} for row in rows]


def _product_seconds(sensors: int) -> float:
    """Time dictionary times coefficients at rank 12: the least that any low-rank model does with a day."""
    random = np.random.default_rng(0)
    left, right = random.random((sensors, PRODUCT_RANK)), random.random((PRODUCT_RANK, SLOTS))
    into, times = np.empty((sensors, SLOTS)), []
    for _ in range(15):
        began = process_time()
        np.matmul(left, right, out=into)
        times.append(process_time() - began)
    return median(times)


def _child(folder: Path, method: str) -> dict[str, Any]:
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    ended = subprocess.run(
        [sys.executable, __file__, "--walk", str(folder), method],
        env={**os.environ, **threads}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def _walk(folder: Path, method: str) -> int:
    """Read one period after the other, mend it where told to; say how long each took and how much memory all did."""
    model = auto() if method == "AutoOLRTR" else None
    result: object = None
    seconds = []
    for file in sorted(folder.glob("*.npy")):
        readings = np.load(file)
        result = None  # as a user who writes each period out before the next
        began = process_time()
        result = readings if model is None else model.update(readings)
        seconds.append(process_time() - began)
    del result
    sys.stdout.write(json.dumps({"seconds": seconds, "peak": _high_water()}))
    return 0


def _high_water() -> int:
    """Return this process's peak of resident memory in bytes."""
    # Linux hands ru_maxrss on from the process that started this one; VmHWM is ours alone.
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def growth(days: int, *, sensors: int = 100, early: int = 10, window: int = 20) -> dict[str, Any]:
    """Time a day early and late in one long run.

    The model is set aside at its early day and taken up again at the end, so that the two are timed in turns and a
    machine that is busier at one time than at another does not show.
    """
    model, young = auto(), auto()
    network = stream(sensors, seed=1)
    with _doing(f"AutoOLRTR, {days:,} days"):
        kept: list[FloatArray] = []
        for number in range(days):
            readings = next(network).readings
            if early <= number < early + window:
                kept.append(readings)
            if number == early:
                young = model.copy()
            model.update(readings)
        times: tuple[list[float], list[float]] = ([], [])
        for before in kept:
            for which, of, readings in ((0, young, before), (1, model, next(network).readings)):
                began = process_time()
                of.update(readings)
                times[which].append(process_time() - began)
    first, last = median(times[0]), median(times[1])
    return {"sensors": sensors, "early_ms": 1e3 * first, "late_ms": 1e3 * last, "late_day": days,
            "ratio": last / first}  # fmt: skip


@contextmanager
def _doing(what: str) -> Iterator[None]:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        progress.add_task(what, total=None)
        yield


def _olrtr_table(rows: list[dict[str, Any]]) -> Table:
    table = Table("minibatches", "OLRTR, ms", "naive, ms", "naive / OLRTR", "largest difference")
    for row in rows:
        table.add_row(row["case"], f"{row['olrtr_ms']:.2f}", f"{row['naive_ms']:.1f}",
                      f"[bold]{row['ratio']:.1f}[/]", f"{row['difference']:.0e}")  # fmt: skip
    return table


def _cost_table(rows: list[dict[str, Any]]) -> Table:
    table = Table(
        "sensors", "ns per reading,\nperiods 3 and 4", "ratio to\n1,000 sensors", "the same,\nperiods 9 to 12",
        "bare product,\nns per reading", "ratio to it",
    )  # fmt: skip
    for row in rows:
        later = "-" if row["later_ns"] is None else f"{row['later_ns']:.0f}"
        table.add_row(f"{row['sensors']:,}", f"{row['ns']:.0f}", f"[bold]{row['ratio']:.2f}[/]", later,
                      f"{row['product_ns']:.2f}", f"{row['to_product']:.0f}")  # fmt: skip
    return table


def _memory_table(rows: list[dict[str, Any]]) -> Table:
    table = Table("sensors", "periods", "minibatch, MiB", "AutoOLRTR at its peak, MiB", "in minibatches")
    for row in [row for row in rows if row["sensors"] >= FIRST_SIZE_OF_RATIO]:
        table.add_row(f"{row['sensors']:,}", str(row["periods"]), f"{row['minibatch_mib']:.1f}",
                      f"{row['peak_mib']:.1f}", f"[bold]{row['minibatches']:.1f}[/]")  # fmt: skip
    table.caption = "Its outputs included; at 1,000 sensors mostly the fixed megabytes of the numerical libraries."
    return table


if __name__ == "__main__":
    sys.exit(main())
