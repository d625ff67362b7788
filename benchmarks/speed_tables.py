"""The tables of `make bench`."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from speed_machine import MEMBERS, RANK, SLOTS, TALL
from speed_network import CUT

__all__ = ["machine_table", "network_table", "race_table", "size_table"]

Rows = list[dict[str, Any]]


def race_table(rows: Rows) -> Table:
    """Lay out OLRTR beside the naive port."""
    table = Table(
        "minibatches", "OLRTR, ms", "naive, ms", "naive / OLRTR", "largest difference", "iterations, both",
        title="OLRTR against a naive port of the paper's algorithms", title_justify="left",
    )  # fmt: skip
    for row in rows:
        table.add_row(row["case"], f"{row['olrtr_ms']:.2f}", f"{row['naive_ms']:.1f}", f"[bold]{row['ratio']:.1f}[/]",
                      f"{row['difference']:.0e}", str(row["iterations"]))  # fmt: skip
    return table


def machine_table(machine: dict[str, Any]) -> Table:
    """Lay out what one core can do."""
    table = Table("what", "float32", "float64", title="One core of this machine", title_justify="left")
    table.add_row("copy, GB read and written per second", "", f"{machine['copy'] / 1e9:.1f}")
    table.add_row("triad a = b + s c, the same", "", f"{machine['triad'] / 1e9:.1f}")
    for name, shape in (
        ("tall", f"product ({TALL:,} x {RANK}) ({RANK} x {SLOTS}), Gflop/s"),
        ("batched", f"products ({MEMBERS} x {MEMBERS}) ({MEMBERS} x {SLOTS}), Gflop/s"),
    ):
        rates = [machine["products"][f"{name} {dtype}"] / 1e9 for dtype in ("float32", "float64")]
        table.add_row(shape, *(f"{rate:.1f}" for rate in rates))
    return table


def network_table(rows: Rows) -> Table:
    """Lay out a large network: speed, shares of the machine, memory."""
    table = Table(
        "method", "s per\nperiod", "million\nreadings/s", "iterations", "copy bandwidth,\nin and out once",
        "and every\niteration", "bare\nproducts", "peak,\nminibatches",
        title=f"{rows[0]['sensors']:,} sensors x {SLOTS} on one core", title_justify="left",
    )  # fmt: skip
    for row in rows:
        table.add_row(
            row["method"], f"{row['seconds']:.2f}", f"[bold]{row['readings_per_second'] / 1e6:.2f}[/]",
            f"{row['iterations']:g}" if "iterations" in row else "-", f"{row['bandwidth']:.1%}",
            f"{row['bandwidth_iterations']:.0%}" if "bandwidth_iterations" in row else "-", f"{row['products']:.0%}",
            f"[bold]{row['minibatches']:.1f}[/]",
        )  # fmt: skip
    caption = ["Shares count every sensor in every iteration, also those that were left out as settled.",
            "Peak memory: what is returned included, the minibatch itself not."]  # fmt: skip
    caption += [
        f"{row['method']}: median of periods {row['timed'][0]} to {row['timed'][1]}; period {CUT + 1}, which begins "
        f"with cutting the network anew: {row['cut_seconds']:.1f} s."
        for row in rows
        if row["cut_seconds"] is not None
    ]
    table.caption, table.caption_justify = " ".join(caption), "left"
    return table


def size_table(rows: Rows) -> Table:
    """Lay out cost and memory against the number of sensors."""
    table = Table(
        "sensors", "method", "periods\ntimed", "ns per\nreading", "ratio to\n1,000 sensors", "million\nreadings/s",
        "minibatch,\nMiB", "peak,\nMiB", "in mini-\nbatches",
        title="By the number of sensors", title_justify="left",
    )  # fmt: skip
    for row in rows:
        table.add_row(
            f"{row['sensors']:,}", row["method"], f"{row['timed'][0]} to {row['timed'][1]}", f"{row['ns']:.0f}",
            f"[bold]{row['ratio']:.2f}[/]", f"{row['readings_per_second'] / 1e6:.2f}", f"{row['minibatch_mib']:.1f}",
            f"{row['peak_mib']:.1f}", f"{row['minibatches']:.1f}",
        )  # fmt: skip
    table.caption = "Below 10,000 sensors the peak is mostly the fixed megabytes of the numerical libraries."
    table.caption_justify = "left"
    return table
