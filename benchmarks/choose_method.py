"""What `clean` makes of a network with each method: when to prefer OLRTR, and when the default model.

    python benchmarks/choose_method.py [READINGS] [--variable NAME] [--methods olrtr,rtr,network] [--days 364]

Faults are put into the readings of a network, and a tenth of them is taken out: READINGS, anything that `clean` reads,
or else the NOAA temperatures of the paper (37 stations by the hour). Of READINGS those that the default model calls
good are taken for true. Printed are, after the first ten days: precision and recall of the days with a fault, the share
of sound readings that have flag 4, and the error (RMSE) of `cleaned` where a reading is missing or wrong.
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
from sensormend.recovery import FloatArray
from sensormend.simulate.degrade import Case, Degraded, degrade

CASES = {
    "the paper's (a day of random numbers)": Case("uniform"),
    "none": Case("none"),
    "offsets, days": Case("offset"),
    "all kinds, hours to a week": Case("mix", hourly=True),
    "an offset of 3 deg C for 90 days": Case("offset", share=0.2, lasting=3.0),
}
"""Of another network than the paper's the offset is as large in its own unit: a quarter of the standard deviation."""
LONG = 60 + 90 + 20
"""Days that a fault of 90 days needs: 60 before it and 20 after it."""
COLD = 10


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("readings", nargs="?", help="by default the NOAA temperatures")
    parser.add_argument("--variable", default="", help="which one, where there are several")
    parser.add_argument("--methods", default="olrtr,rtr,network")
    parser.add_argument("--days", type=int, default=364)
    args = parser.parse_args()
    table = Table("faults", "method", "precision", "recall", "sound readings flagged", "error")
    whole = load_network("noaa") if args.readings is None else trusted(args.readings, args.variable)
    truth = whole[:, :, : args.days]
    if truth.shape[2] <= COLD:
        parser.error(f"{args.readings} has {truth.shape[2]} whole days; the first {COLD} are not scored")
    for name, case in CASES.items():
        if case.lasting and truth.shape[2] < LONG:
            print(f"left out, since it needs {LONG} days: {name}")
            continue
        degraded = degrade(truth, case, seed=0)
        for method in args.methods.split(","):
            table.add_row(name, method, *scores(degraded, method))
    Console(width=140).print(table)
    return 0


def trusted(readings: str, variable: str) -> FloatArray:
    """Return the good readings of whole days, (sensor, slot, day); NaN where there is none."""
    rows = clean(readings, period="1d").data
    if "variable" in rows:
        known = sorted(set(rows["variable"]))
        if variable not in known:
            raise SystemExit(f"--variable is one of {', '.join(known)}")
        rows = rows[rows["variable"] == variable]
    good = rows["value"].where(rows["flag"] == 1)
    table = rows.assign(value=good).pivot_table(index="time", columns="sensor", values="value", dropna=False)
    step = table.index.to_series().diff().min()
    table = table.asfreq(step)
    slots = round(86_400 / step.total_seconds())
    days = len(table) // slots
    values: FloatArray = table.to_numpy()[: days * slots].T.reshape(-1, days, slots).transpose(0, 2, 1)
    return values


def scores(degraded: Degraded, method: str) -> list[str]:
    sensors, slots, days = degraded.readings.shape
    step = 86_400 // slots
    times = np.datetime64("2018-01-01", "us") + np.arange(slots * days) * np.timedelta64(step, "s")
    values = {f"s{row:05}": degraded.readings[row].T.ravel() for row in range(sensors)}
    rows = clean(polars.DataFrame({"time": times, **values}), method=method, step=f"{step}s", period="1d").data

    # A series that ends has no rows after its last period.
    sensor = np.searchsorted(list(values), rows["sensor"].to_numpy())
    slot = np.searchsorted(times, rows["time"].to_numpy().astype("datetime64[us]"))

    def on_grid(column: str, nothing: float) -> Any:
        cells = np.full((sensors, days * slots), nothing)
        cells[sensor, slot] = rows[column].to_numpy()
        return cells.reshape(sensors, days, slots).transpose(0, 2, 1)[..., COLD:]

    flag, cleaned = on_grid("flag", 9), on_grid("cleaned", np.nan)
    wrong, truth = degraded.wrong[..., COLD:], degraded.truth[..., COLD:]
    present, known = np.isfinite(degraded.readings[..., COLD:]), np.isfinite(truth)
    flagged, faulty = ((flag == 4).mean(axis=1) > 1 / 3), degraded.faulty[:, COLD:]
    hits = int((flagged & faulty).sum())
    replaced = (~present | wrong) & np.isfinite(cleaned) & known
    sound = present & ~wrong
    return [
        f"{hits / flagged.sum():.2f}" if flagged.any() else "-",
        f"{hits / faulty.sum():.2f}" if faulty.any() else "-",
        f"{(flag == 4)[sound].mean():.2%}",
        f"{np.sqrt(np.mean((cleaned - truth)[replaced] ** 2)):.2f}",
    ]


if __name__ == "__main__":
    raise SystemExit(main())
