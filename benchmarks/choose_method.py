"""What `clean` makes of a network with each method: when to prefer OLRTR, and when the default model.

    python benchmarks/choose_method.py [--methods olrtr,rtr,network] [--days 364]

Faults are put into the NOAA temperatures of the paper (37 stations by the hour, 10 % of the readings missing). Printed
are, after the first ten days: precision and recall of the days with a fault, the share of sound readings that have
flag 4, and the error (RMSE, deg C) of `cleaned` where a reading is missing or wrong.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import polars
from rich.console import Console
from rich.table import Table

from sensormend import clean
from sensormend.bench.data import load_network
from sensormend.simulate.degrade import Case, Degraded, degrade

CASES = {
    "the paper's (a day of random numbers)": Case("uniform"),
    "none": Case("none"),
    "offsets, days": Case("offset"),
    "all kinds, hours to a week": Case("mix", hourly=True),
    "an offset of 3 deg C for 90 days": Case("offset", share=0.2, lasting=3.0),
}
COLD = 10


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", default="olrtr,rtr,network")
    parser.add_argument("--days", type=int, default=364)
    args = parser.parse_args()
    table = Table("faults", "method", "precision", "recall", "sound readings flagged", "error")
    for name, case in CASES.items():
        truth = load_network("noaa")[:, :, : args.days]
        degraded = degrade(truth, case, seed=0)
        for method in args.methods.split(","):
            table.add_row(name, method, *scores(degraded, method))
    Console(width=140).print(table)
    return 0


def scores(degraded: Degraded, method: str) -> list[str]:
    sensors, slots, days = degraded.readings.shape
    times = np.datetime64("2018-01-01", "us") + np.arange(slots * days) * np.timedelta64(3600, "s")
    values = {f"s{row:02}": degraded.readings[row].T.ravel() for row in range(sensors)}
    rows = clean(polars.DataFrame({"time": times, **values}), method=method, step="1h", period="1d").data

    def on_grid(column: str) -> Any:
        return rows[column].to_numpy().reshape(sensors, days, slots).transpose(0, 2, 1)[..., COLD:]

    flag, cleaned = on_grid("flag"), on_grid("cleaned")
    wrong, truth = degraded.wrong[..., COLD:], degraded.truth[..., COLD:]
    present = np.isfinite(degraded.readings[..., COLD:])
    flagged, faulty = ((flag == 4).mean(axis=1) > 1 / 3), degraded.faulty[:, COLD:]
    hits = int((flagged & faulty).sum())
    replaced = (~present | wrong) & np.isfinite(cleaned)
    sound = present & ~wrong
    return [
        f"{hits / flagged.sum():.2f}" if flagged.any() else "-",
        f"{hits / faulty.sum():.2f}" if faulty.any() else "-",
        f"{(flag == 4)[sound].mean():.2%}",
        f"{np.sqrt(np.mean((cleaned - truth)[replaced] ** 2)):.2f}",
    ]


if __name__ == "__main__":
    raise SystemExit(main())
