"""Speed, memory and growth, measured in one run and told as ratios: `make bench`.

Ratios travel from machine to machine; nanoseconds do not. Everything runs with one BLAS thread: the products
are small, a second thread gains nothing and loses much on a busy machine.
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
from time import perf_counter
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
DAYS_AT = {100: 40, 1000: 24, 10_000: 12, 100_000: 6}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, help="also write the figures to this JSON file")
    parser.add_argument("--sizes", default="100,1000,10000,100000", help="numbers of sensors")
    parser.add_argument("--days", type=int, default=3000, help="how far to go for the cost of a late day")
    parser.add_argument("--only", default="olrtr,cost,memory,growth", help="which parts to run")
    parser.add_argument("--hold", nargs=2, metavar=("FOLDER", "METHOD"), help=argparse.SUPPRESS)
    told = parser.parse_args()
    if told.hold:
        return _hold(Path(told.hold[0]), told.hold[1])
    sizes, parts = [int(size) for size in told.sizes.split(",")], told.only.split(",")
    screen = Console(width=None if sys.stdout.isatty() else 120)
    screen.print("One BLAS thread throughout; ratios are of medians measured in this run.")
    figures: dict[str, Any] = {"blas_threads": 1}
    with threadpool_limits(1):
        if "olrtr" in parts:
            figures["olrtr"] = olrtr_against_naive()
            screen.print(_olrtr_table(figures["olrtr"]))
        if "cost" in parts:
            figures["cost"] = cost_per_reading(sizes)
            screen.print(_cost_table(figures["cost"]))
        if "memory" in parts:
            figures["memory"] = peak_memory([size for size in sizes if size >= 1000] or sizes[-1:])
            screen.print(_memory_table(figures["memory"]))
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
        began = perf_counter()
        found = model.update(minibatch)
        between = perf_counter()
        X, E, iterations = naive.olrtr_minibatch(
            state, minibatch, lambda1=0.01, lambda2=lambda2, fiber_axis=1, dictionary_update="column", **most
        )
        slow_times.append(perf_counter() - between)
        fast_times.append(between - began)
        gap = max(gap, float(np.abs(found.low_rank - X).max()), float(np.abs(found.outliers - E).max()))
        if iterations != found.iterations:
            raise AssertionError(f"OLRTR took {found.iterations} iterations, naive {iterations}")
    if not gap <= EQUAL:
        raise AssertionError(f"OLRTR and naive differ by {gap:.1e}, more than {EQUAL:.0e}")
    fast, slow = median(fast_times), median(slow_times)
    return {"olrtr_ms": 1e3 * fast, "naive_ms": 1e3 * slow, "ratio": slow / fast, "difference": gap}


def cost_per_reading(sizes: list[int]) -> list[dict[str, Any]]:
    """Time AutoOLRTR on days that it already knows how to judge, and a bare product of the same size."""
    rows: list[dict[str, Any]] = []
    for sensors in sizes:
        with _doing(f"AutoOLRTR, {sensors:,} sensors"):
            days = DAYS_AT.get(sensors, 6)
            model, times = auto(), []
            for day in islice(stream(sensors, seed=0), days):
                began = perf_counter()
                model.update(day.readings)
                times.append(perf_counter() - began)
            readings = sensors * SLOTS
            nanoseconds = 1e9 * median(times[days // 2 :]) / readings
            product = 1e9 * _product_seconds(sensors) / readings
        rows.append(
            {
                "sensors": sensors,
                "ns": nanoseconds,
                "product_ns": product,
                "to_product": nanoseconds / product,
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
        began = perf_counter()
        np.matmul(left, right, out=into)
        times.append(perf_counter() - began)
    return median(times)


def peak_memory(sizes: list[int]) -> list[dict[str, Any]]:
    """Compare two processes that read the same days: one only holds them, the other cleans them."""
    rows = []
    for sensors in sizes:
        with _doing(f"memory, {sensors:,} sensors"), tempfile.TemporaryDirectory() as folder:
            for number, day in enumerate(islice(stream(sensors, seed=0), 4)):
                np.save(Path(folder) / f"{number}.npy", day.readings)
            held, cleaned = (_peak_of(Path(folder), method) for method in ("nothing", "AutoOLRTR"))
        minibatch = sensors * SLOTS * 8
        taken = cleaned - held
        rows.append({"sensors": sensors, "minibatch_mib": minibatch / 2**20, "peak_mib": taken / 2**20,
                     "ratio": taken / minibatch})  # fmt: skip
    return rows


def _peak_of(folder: Path, method: str) -> int:
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    ended = subprocess.run(
        [sys.executable, __file__, "--hold", str(folder), method],
        env={**os.environ, **threads}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return int(ended.stdout)


def _hold(folder: Path, method: str) -> int:
    """Read one day after the other, clean it where told to, and say how much memory that took at most."""
    model = auto() if method == "AutoOLRTR" else None
    result: object = None
    for file in sorted(folder.glob("*.npy")):
        readings = np.load(file)
        result = None  # as a user who writes each day out before the next
        result = readings if model is None else model.update(readings)
    del result
    sys.stdout.write(f"{_high_water()}\n")
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


def growth(days: int, *, sensors: int = 100, window: int = 20) -> dict[str, Any]:
    """Time a day early and late in one long run."""
    model, times = auto(), []
    with _doing(f"AutoOLRTR, {days:,} days"):
        for day in islice(stream(sensors, seed=1), days + window // 2):
            began = perf_counter()
            model.update(day.readings)
            times.append(perf_counter() - began)
    early, late = median(times[10 : 10 + window]), median(times[-window:])
    return {"sensors": sensors, "early_ms": 1e3 * early, "late_ms": 1e3 * late, "late_day": days,
            "ratio": late / early}  # fmt: skip


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
    table = Table("sensors", "AutoOLRTR, ns per reading", "ratio to 1,000 sensors", "bare product, ns", "ratio to it")
    for row in rows:
        table.add_row(f"{row['sensors']:,}", f"{row['ns']:.0f}", f"[bold]{row['ratio']:.2f}[/]",
                      f"{row['product_ns']:.2f}", f"{row['to_product']:.0f}")  # fmt: skip
    return table


def _memory_table(rows: list[dict[str, Any]]) -> Table:
    table = Table("sensors", "minibatch, MiB", "AutoOLRTR at its peak, MiB", "in minibatches")
    for row in rows:
        table.add_row(f"{row['sensors']:,}", f"{row['minibatch_mib']:.1f}", f"{row['peak_mib']:.1f}",
                      f"[bold]{row['ratio']:.1f}[/]")  # fmt: skip
    return table


if __name__ == "__main__":
    sys.exit(main())
