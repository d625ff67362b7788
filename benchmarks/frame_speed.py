"""What `clean(frame)` costs for a year of 37 hourly sensors, beside NetworkModel alone.

    python benchmarks/frame_speed.py

The readings are NOAA's, as a long frame in no order, once for pandas and once for polars.
"""

from __future__ import annotations

import argparse
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from rich.console import Console
from rich.table import Table

from sensormend import NetworkModel, clean
from sensormend.bench.data import load_network


def main() -> int:
    argparse.ArgumentParser(description=__doc__).parse_args()
    tensor = load_network("noaa")
    sensors, slots, days = tensor.shape
    value = np.moveaxis(tensor, 1, 2).reshape(sensors, -1)
    times = np.datetime64("2019-01-01", "us") + np.arange(slots * days) * np.timedelta64(3600, "s")
    order = np.random.default_rng(0).permutation(value.size)
    columns = {
        "sensor": np.repeat([f"station {number}" for number in range(sensors)], slots * days)[order],
        "time": np.tile(times, sensors)[order],
        "value": value.ravel()[order],
    }
    table = Table("", "seconds", title=f"{value.size:,} readings of {sensors} sensors", title_justify="left", box=None)
    NetworkModel().update(tensor[..., 0])  # Loads the compiled engine.
    start = perf_counter()
    NetworkModel().recover(tensor)
    table.add_row("NetworkModel alone, in one pass", f"{perf_counter() - start:.2f}")
    for name, frame in (("pandas", pd.DataFrame(columns)), ("polars", pl.DataFrame(columns))):
        table.add_row(f"clean({name} frame).data", f"{best(frame):.2f}")
    Console().print(table)
    return 0


def best(frame: Any) -> float:
    seconds = []
    for _ in range(3):
        start = perf_counter()
        len(clean(frame).data)
        seconds.append(perf_counter() - start)
    return min(seconds)


if __name__ == "__main__":
    raise SystemExit(main())
