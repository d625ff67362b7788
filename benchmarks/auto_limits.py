"""What other limits than AutoOLRTR's would reach: `python benchmarks/auto_limits.py`."""

from __future__ import annotations

import argparse
import sys

import numpy as np
from rich.console import Console
from rich.progress import track

from sensormend.auto import judge
from sensormend.bench.experiment import Plan
from sensormend.bench.faults import Faults

FACTORS = (0.8, 0.9, 1.0, 1.1, 1.25)
CASES = ("uniform-90", "mix-90", "mix-outages", "none-90")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="noaa", help="as for `sensormend bench faults`")
    parser.add_argument("--seeds", type=int, default=1)
    told = parser.parse_args()
    bench, plan = (
        Faults(),
        Plan(told.seeds, methods="AutoOLRTR", options=(("cases", ",".join(CASES)), ("data", told.data))),
    )
    screen = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    screen.print("| limits times | " + " | ".join(f"{case}: F1, false alarms" for case in CASES) + " |", soft_wrap=True)
    screen.print("|---|" + "---|" * len(CASES))
    chosen = judge.LIMITS.copy()
    for factor in track(FACTORS, console=Console(stderr=True)):
        judge.LIMITS[:] = factor * chosen
        cells = []
        for case in CASES:
            runs = [row for job in bench.jobs(plan) if job.setting == case for row in bench.run(job)]
            f1, alarms = (float(np.mean([run[name] for run in runs])) for name in ("f1", "false_alarms"))
            cells.append(f"{'-' if np.isnan(f1) else f'{f1:.3f}'}, {alarms:.2f} %")
        screen.print(f"| {factor:g} | " + " | ".join(cells) + " |", soft_wrap=True)
    judge.LIMITS[:] = chosen
    return 0


if __name__ == "__main__":
    sys.exit(main())
