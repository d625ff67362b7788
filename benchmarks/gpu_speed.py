"""Speed and memory on a CUDA card: `PYTHONPATH=src python3 benchmarks/gpu_speed.py --out FILE.json`.

Needs torch, NumPy, SciPy and array-api-compat, and nothing else: where the last is not installed, a folder that holds
it can be named on PYTHONPATH. Readings are made on the device, so that the card waits for nobody. All shares are of the
rate at which the same card copies memory to memory in the same run, bytes read and written.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import perf_counter
from types import ModuleType
from typing import Any

SLOTS, RANK, PERIODS, CUT = 24, 10, 12, 7
PATTERNS, GAPS, FAULTY = 12, 0.03, 0.02
FIBER_LIMIT = 20.0
NEEDED, SPARED = ("numpy", "torch", "scipy", "array_api_compat"), ("narwhals",)
"""What the methods need, and what only `import sensormend` as a whole does."""

HEADS = ("method", "sensors", "s per period", "million readings/s", "iterations", "of copy, once", "and iterations",
         "peak GiB", "minibatches", "cut, s")  # fmt: skip
COMPARED = ("against NumPy in float32", "sensors", "periods", "cells within 1e-4", "largest difference", "relative",
            "verdicts that differ", "faulty")  # fmt: skip
NEAR = 1e-4
"""How near two devices should be: relative to the value, or to 1 where that is more."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, help="also write the figures to this JSON file")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--sensors", default="1000000,10000000")
    parser.add_argument("--compare", default="4000,20000", help="sensors of the networks that the CPU mends as well")
    parser.add_argument("--methods", default="AutoOLRTR,OLRTR", help="those whose names begin so")
    parser.add_argument("--periods", type=int, default=PERIODS)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds after which a run begins no other period")
    parser.add_argument("--profile", action="store_true", help="also say where the time of one period goes")
    told = parser.parse_args()
    if not prepared():
        return 2
    import torch

    if told.device == "cuda" and not torch.cuda.is_available():
        print("no CUDA device here; --device cpu tries the script out", file=sys.stderr)
        return 2
    device = torch.device(told.device)
    figures: dict[str, Any] = {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "torch": torch.__version__, "copy": copy_rate(device), "runs": [], "compared": [],
    }  # fmt: skip
    print(f"{figures['device']}: copies {figures['copy'] / 1e9:,.0f} GB read and written per second", flush=True)
    chosen = {name: make for name, make in makers().items() if name.startswith(tuple(told.methods.split(",")))}
    for name, make in chosen.items():
        for sensors in sizes(told.compare):
            guarded(figures["compared"], name, sensors, partial(compared, make, sensors, device, told.periods))
        for sensors in sizes(told.sensors):
            guarded(figures["runs"], name, sensors, partial(timed, make, sensors, device, figures["copy"], told))
        if told.profile:
            profiled(make, sizes(told.sensors)[0], device)
    if told.out:
        told.out.parent.mkdir(parents=True, exist_ok=True)
        told.out.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    report(figures)
    return 1 if any("failed" in row for row in figures["runs"] + figures["compared"]) else 0


def prepared() -> bool:
    """Say what is missing here; make do without what the methods do not need."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    for name in missing:
        print(f"{name} is missing here: install it, or put a folder that holds it on PYTHONPATH", file=sys.stderr)
    if find_spec("sensormend") is None:
        print("sensormend is missing here: set PYTHONPATH=src", file=sys.stderr)
        return False
    if lacking := [name for name in SPARED if find_spec(name) is None]:
        print(f"without {', '.join(lacking)}: only the methods are loaded", file=sys.stderr)
        spec = find_spec("sensormend")
        assert spec is not None
        bare = ModuleType("sensormend")
        bare.__path__ = list(spec.submodule_search_locations or [])
        sys.modules["sensormend"] = bare
    return not missing


def makers() -> dict[str, Callable[[], Any]]:
    """Return the methods by name: AutoOLRTR, and OLRTR of rank 10 in single precision with each solver."""
    from sensormend.methods.auto import AutoOLRTR
    from sensormend.methods.olrtr import OLRTR

    settings: dict[str, Any] = {"rank": RANK, "lambda2": FIBER_LIMIT, "seed": 0, "precision": "single"}
    return {
        "AutoOLRTR": AutoOLRTR,
        f"OLRTR rank {RANK}": lambda: OLRTR(**settings),
        f"OLRTR rank {RANK} accelerated": lambda: OLRTR(**settings, solver="accelerated"),
    }


def days_of(sensors: int, device: Any, periods: int, *, seed: int = 0) -> Iterator[Any]:
    """Make the days of a network: patterns over a map times courses of the day, noise, gaps, and faulty fibers."""
    import torch

    random = torch.Generator(device).manual_seed(seed)

    def uniform(*shape: int) -> Any:
        return torch.rand(*shape, generator=random, device=device)

    def normal(*shape: int) -> Any:
        return torch.randn(*shape, generator=random, device=device)

    place = uniform(sensors, 2)
    # Half of the patterns span the map, half are of about a hundred sensors' width.
    fine = math.sqrt(sensors) / 10
    waves = normal(2, PATTERNS) * torch.tensor([1.0, fine], device=device).repeat(PATTERNS // 2)
    loadings = torch.cos(2 * math.pi * (place @ waves) + 2 * math.pi * uniform(PATTERNS))
    level, noise = 2 * normal(sensors, 1), 0.15 + 0.2 * uniform(sensors, 1)
    clock = torch.arange(SLOTS, device=device) / SLOTS * 2 * math.pi
    weather = normal(1 + PATTERNS)
    for _ in range(periods):
        before, weather = weather, 0.6 * weather + 0.8 * normal(1 + PATTERNS)
        along = torch.linspace(0, 1, SLOTS, device=device)
        course = before[:, None] * (1 - along) + weather[:, None] * along + 0.3 * torch.sin(clock + weather[:, None])
        day = loadings @ course[1:]
        day += 12 + 3 * course[0] - 5 * torch.cos(clock - 0.5) + level
        day += noise * normal(sensors, SLOTS)
        broken = torch.nonzero(uniform(sensors) < FAULTY).squeeze(1)
        day[broken] = 40 * uniform(broken.shape[0], SLOTS) - 10
        day[uniform(sensors, SLOTS) < GAPS] = math.nan
        yield day


def timed(
    make: Callable[[], Any], sensors: int, device: Any, copy: float, told: argparse.Namespace
) -> dict[str, Any]:  # fmt: skip
    """Time the periods of one network, and see what memory they take: state and results, the minibatch itself not."""
    model, times, iterations, peak = make(), [], [], 0
    result: Any = None
    began_all, made = perf_counter(), None  # type: float, int | None
    for day in days_of(sensors, device, told.periods):
        result = None
        _wait(device)
        # What makes the readings, and the readings themselves, are no part of it.
        _forget_peak(device)
        made = _peak(device) if made is None else made
        began = perf_counter()
        result = model.update(day)
        _wait(device)
        times.append(perf_counter() - began)
        peak = max(peak, _peak(device) - made)
        iterations.append(int(result.iterations))
        if perf_counter() - began_all > told.limit:
            break
    typical = slice(CUT + 1, None) if len(times) > CUT + 1 else slice(min(2, len(times) - 1), CUT - 1)
    seconds = median(times[typical])
    taken, given = day.nbytes, _bytes_of(result)
    row: dict[str, Any] = {
        "seconds": seconds, "readings_per_second": sensors * SLOTS / seconds, "periods": len(times),
        "all_seconds": times, "bytes_once": taken + given, "bandwidth": (taken + given) / seconds / copy,
        "peak": peak, "minibatches": peak / taken, "faulty": float(result.faulty.sum()) / sensors,
        "cut_seconds": times[CUT] if len(times) > CUT and "Auto" in type(model).__name__ else None,
        "stays": str(getattr(result.cleaned, "device", "host")),
    }  # fmt: skip
    if "Auto" not in type(model).__name__:
        turns = median(iterations[typical])
        # As in speed_network: B and Z read, Z written, and the sensors' dictionary read, in each iteration.
        moved = taken + given + turns * (3 + RANK / SLOTS) * taken
        row |= {"iterations": turns, "bandwidth_iterations": moved / seconds / copy}
    return row


@dataclass
class Agreement:
    """How near two recoveries of the same periods are, fibers with unequal verdicts counted and left out.

    `relative` is the largest difference relative to the value, or to 1 where that is more; `near` counts the cells
    in which it is at most `NEAR`.
    """

    periods: int = 0
    fibers: int = 0
    faulty: int = 0
    verdicts_differ: int = 0
    cells: int = 0
    near: int = 0
    difference: float = 0.0
    relative: float = 0.0

    def take_in(self, found: Any, known: Any) -> None:
        """Add one period."""
        import numpy as np

        faulty, cleaned, wanted = _host(known.faulty), _host(found.cleaned), _host(known.cleaned).astype(float)
        alike = _host(found.faulty) == faulty
        gap = np.where(np.isnan(cleaned) & np.isnan(wanted), 0.0, np.abs(cleaned - wanted))[alike]
        relative = gap / np.maximum(1, np.abs(wanted[alike]))
        self.periods += 1
        self.fibers += alike.size
        self.faulty += int(faulty.sum())
        self.verdicts_differ += int((~alike).sum())
        self.cells += gap.size
        self.near += int((relative <= NEAR).sum())
        self.difference = max(self.difference, float(np.nanmax(gap, initial=0.0)))
        self.relative = max(self.relative, float(np.nanmax(relative, initial=0.0)))

    def shares(self) -> dict[str, Any]:
        """Tell the counts as shares."""
        return asdict(self) | {
            "faulty": self.faulty / self.fibers,
            "verdicts_differ": self.verdicts_differ / self.fibers,
            "near": self.near / max(1, self.cells),
        }


def compared(make: Callable[[], Any], sensors: int, device: Any, periods: int) -> dict[str, Any]:
    """Mend the same readings here and on the CPU in NumPy, and tell by how much the two differ.

    The periods up to the first new cut of AutoOLRTR's network and those after it are told apart: a sensor at an edge
    may come to another neighbourhood on another device, and is then judged in other company.
    """
    import torch

    there, here = make(), make()
    stretches = {"before_the_cut": Agreement(), "after_the_cut": Agreement()}
    for number, day in enumerate(days_of(sensors, torch.device("cpu"), periods)):
        found, known = there.update(day.to(device)), here.update(day.numpy())
        stretches["before_the_cut" if number < CUT else "after_the_cut"].take_in(found, known)
    return {name: stretch.shares() for name, stretch in stretches.items() if stretch.periods}


def copy_rate(device: Any) -> float:
    """Return the bytes that a copy within the device reads and writes per second; the best of several."""
    import torch

    length = 2**30 if device.type == "cuda" else 2**26
    source, target = (torch.zeros(length, dtype=torch.float32, device=device) for _ in range(2))
    times = []
    for _ in range(10):
        _wait(device)
        began = perf_counter()
        target.copy_(source)
        _wait(device)
        times.append(perf_counter() - began)
    return float(2 * 4 * length / min(times))


def profiled(make: Callable[[], Any], sensors: int, device: Any) -> None:
    """Print which operations one period past the first cut spends its time in."""
    from torch.profiler import ProfilerActivity, profile

    model, cuda = make(), device.type == "cuda"
    *before, last = days_of(sensors, device, CUT + 2)
    for day in before:
        model.update(day)
    _wait(device)
    with profile(activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])]) as seen:
        model.update(last)
        _wait(device)
    order = "self_cuda_time_total" if cuda else "self_cpu_time_total"
    print(seen.key_averages().table(sort_by=order, row_limit=25, max_name_column_width=70), flush=True)


def guarded(rows: list[dict[str, Any]], name: str, sensors: int, work: Callable[[], dict[str, Any]]) -> None:
    """Do one measurement; one that fails is told, and the others go on."""
    import torch

    try:
        rows.append({"method": name, "sensors": sensors, **work()})
    except Exception as error:
        traceback.print_exc()
        rows.append({"method": name, "sensors": sensors, "failed": f"{type(error).__name__}: {error}"})
    told = {key: value for key, value in rows[-1].items() if not isinstance(value, list)}
    print(json.dumps(told), flush=True)
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def report(figures: dict[str, Any]) -> None:
    """Print the tables."""
    lines: list[tuple[str, ...]] = [HEADS]
    for row in figures["runs"]:
        if "failed" in row:
            lines.append((row["method"], f"{row['sensors']:,}", row["failed"].splitlines()[0][:60], *[""] * 7))
            continue
        lines.append((
            row["method"], f"{row['sensors']:,}", f"{row['seconds']:.4f}", f"{row['readings_per_second'] / 1e6:,.1f}",
            f"{row['iterations']:g}" if "iterations" in row else "-", f"{row['bandwidth']:.1%}",
            f"{row['bandwidth_iterations']:.0%}" if "bandwidth_iterations" in row else "-",
            f"{row['peak'] / 2**30:.2f}", f"{row['minibatches']:.1f}",
            "-" if row["cut_seconds"] is None else f"{row['cut_seconds']:.2f}",
        ))  # fmt: skip
    print()
    _lay_out(lines)
    lines = [COMPARED]
    for row in figures["compared"]:
        name = (row["method"], f"{row['sensors']:,}")
        if "failed" in row:
            lines.append((*name, row["failed"].splitlines()[0][:60], *[""] * 5))
        for stretch in ("before_the_cut", "after_the_cut"):
            if told := row.get(stretch):
                lines.append((
                    *name, stretch.replace("_", " "), f"{told['near']:.4%}", f"{told['difference']:.1e}",
                    f"{told['relative']:.1e}", f"{told['verdicts_differ']:.3%}", f"{told['faulty']:.2%}",
                ))  # fmt: skip
    print()
    _lay_out(lines)


def _lay_out(lines: list[tuple[str, ...]]) -> None:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip(), flush=True)


def sizes(told: str) -> list[int]:
    return [int(part) for part in told.split(",") if part]


def _host(values: Any) -> Any:
    return values.detach().cpu().numpy() if hasattr(values, "detach") else values


def _bytes_of(result: Any) -> int:
    """Return the bytes of what lies on the device; the reasons, empty as a rule, are the host's."""
    values = (getattr(result, field.name) for field in fields(result))
    return sum(int(value.nbytes) for value in values if hasattr(value, "detach"))


def _wait(device: Any) -> None:
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _forget_peak(device: Any) -> None:
    import torch

    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def _peak(device: Any) -> int:
    """Return the most bytes that were in use on the device at once; 0 on a CPU, which does not count them."""
    import torch

    return int(torch.cuda.max_memory_allocated(device)) if device.type == "cuda" else 0


if __name__ == "__main__":
    sys.exit(main())
