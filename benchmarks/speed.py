"""Speed, memory and growth, measured in one run and printed as ratios: `make bench`.

Ratios can be compared between machines; nanoseconds cannot. Everything runs with one BLAS thread, on one core where
the system can keep it there. Times are processor time, in which another process on the same machine does not count;
its use of the memory does, so figures for a record want a machine that is otherwise idle.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from speed_days import early_and_late
from speed_machine import measure_machine, pin_to_one_core
from speed_network import PERIODS, Contender, contenders, made
from speed_picture import draw_sizes
from speed_race import races, run_race
from speed_tables import machine_table, network_table, race_table, size_table

FIRST_SIZE_OF_RATIO = 1000
IN_THE_CURVES = 2
"""Of the contenders the first two, NetworkModel and OLRTR as published, are measured at every size."""

PARTS = ("race", "machine", "large", "size", "days")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, help="also write speed.json and sensors.png to this folder")
    parser.add_argument("--only", default=",".join(PARTS), help=f"which parts to run (default: {','.join(PARTS)})")
    parser.add_argument("--large", type=int, default=1_000_000, help="sensors of the large network")
    parser.add_argument("--sizes", default="100,1000,10000,100000", help="sensors of the smaller ones")
    parser.add_argument("--days", type=int, default=2000, help="how far to go for the cost of a late day")
    parser.add_argument("--keep", type=Path, help="keep the simulated days in this folder, 2.3 GB, for the next time")
    args = parser.parse_args()
    parts = args.only.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    screen = Console(width=None if sys.stdout.isatty() else 130)
    core = pin_to_one_core()
    screen.print(
        f"One BLAS thread, {'any core' if core is None else f'on core {core}'}; processor time; medians of this run."
    )
    results: dict[str, Any] = {"blas_threads": 1, "core": core}
    with threadpool_limits(1):
        measured(results, parts, args, screen)
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        if results.get("size"):
            screen.print(f"Picture: {draw_sizes(results['size'], results['machine'], args.out)}", soft_wrap=True)
        (args.out / "speed.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
        screen.print(f"Figures: {args.out / 'speed.json'}", soft_wrap=True)
    return 0


def measured(results: dict[str, Any], parts: list[str], args: argparse.Namespace, screen: Console) -> None:
    """Run the parts one after the other, each with its table as soon as it is done."""
    if "race" in parts:
        results["race"] = []
        for race in races():
            with _doing(f"OLRTR against naive: {race[0]}"):
                results["race"].append(run_race(race))
        screen.print(race_table(results["race"]))
    if {"machine", "large", "size"} & set(parts):
        with _doing("memory and products of this machine"):
            results["machine"] = measure_machine()
        screen.print(machine_table(results["machine"]))
    if "large" in parts:
        results["large"] = at_size(args.large, contenders(), results["machine"], args.keep)
        screen.print(network_table(results["large"]))
    if "size" in parts:
        rows: list[dict[str, Any]] = []
        few = contenders()[:IN_THE_CURVES]
        for sensors in sorted({int(size) for size in args.sizes.split(",")} - {args.large}):
            rows += at_size(sensors, few, results["machine"], args.keep)
        names = [contender.name for contender in few]
        rows += [row for row in results.get("large", []) if row["method"] in names]
        results["size"] = with_ratios(sorted(rows, key=lambda row: (names.index(row["method"]), row["sensors"])))
        screen.print(size_table(results["size"]))
    if "days" in parts:
        with _doing(f"NetworkModel, {args.days:,} days"):
            results["days"] = late = early_and_late(args.days)
        screen.print(
            f"NetworkModel, {late['sensors']} sensors: a day costs {late['early_ms']:.2f} ms around day 10 "
            f"and {late['late_ms']:.2f} around day {late['late_day']}: ratio [bold]{late['ratio']:.2f}[/]"
        )


def at_size(sensors: int, of: list[Contender], machine: dict[str, Any], keep: Path | None) -> list[dict[str, Any]]:
    """Measure contenders on a network of this size."""
    rows = []
    with _doing(f"{sensors:,} sensors: simulating {PERIODS} days") as now, made(sensors, keep=keep) as network:
        for contender in of:
            now(f"{sensors:,} sensors: {contender.name}")
            rows.append(network.measure(contender, machine))
            rows[-1]["seconds_to_make_a_day"] = network.seconds_to_make
    return rows


def with_ratios(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add how much a reading costs beside one in a network of 1,000, or in the smallest there is."""
    base: dict[str, float] = {}
    for row in rows:
        if row["method"] not in base or row["sensors"] == FIRST_SIZE_OF_RATIO:
            base[row["method"]] = row["ns"]
    return [{**row, "ratio": row["ns"] / base[row["method"]]} for row in rows]


@contextmanager
def _doing(what: str) -> Iterator[Any]:
    """Show what is going on, and for how long; gives a function that says what comes next."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(what, total=None)
        yield lambda now: progress.update(task, description=now)


if __name__ == "__main__":
    sys.exit(main())
