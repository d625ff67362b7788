"""How well hours are filled in which no sensor has a reading, beside a straight line.

    python benchmarks/blackout.py

Simulated cities lose a whole afternoon now and then. Printed are the root mean square errors at those cells of sound
sensors, and at their other gaps, after 28 days, in one pass.
"""

from __future__ import annotations

import argparse

import numpy as np
from rich.console import Console
from rich.table import Table

from sensormend import NetworkModel
from sensormend.methods.interpolation import as_series, from_series, interpolate
from sensormend.simulate.network import city

LEARNED = 28
CITIES = ((20, 90, 0), (5, 60, 3), (50, 120, 0))
"""Sensors, days, seed."""


def main() -> int:
    argparse.ArgumentParser(description=__doc__).parse_args()
    table = Table("sensors", "cells", "", "error", "straight line", "inside the 90 % interval")
    for sensors, days, seed in CITIES:
        network = city(sensors, days, seed=seed)
        result = NetworkModel().recover(network.readings)
        assert result.lower is not None
        assert result.upper is not None
        line = from_series(interpolate(as_series(network.readings, 1)), network.readings.shape, 1)
        inside = (result.lower <= network.truth) & (network.truth <= result.upper)
        gap = np.isnan(network.readings) & (network.kind == "")[:, None, :]
        gap[..., :LEARNED] = False
        silent = np.isnan(network.readings).all(axis=0)
        for name, at in (("no sensor has one", gap & silent), ("other gaps", gap & ~silent)):
            error, straight = (np.sqrt(np.mean((values - network.truth)[at] ** 2)) for values in (result.cleaned, line))
            shown = (f"{at.sum()}", name, f"{error:.2f}", f"{straight:.2f}", f"{inside[at].mean():.2f}")
            table.add_row(f"{sensors}", *shown)
    Console().print(table)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
