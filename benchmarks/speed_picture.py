"""The picture of `make bench`: what a reading costs and what memory is held, against the number of sensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sensormend.bench.charts import line_style
from sensormend.plot.style import GREYS, bare, blank, heading, save

__all__ = ["draw_sizes"]

NAME = "sensors.png"
LIMIT = 12
"""Minibatches of memory that are allowed at most."""


def draw_sizes(rows: list[dict[str, Any]], machine: dict[str, Any], folder: Path) -> Path:
    """Draw cost per reading and peak memory against sensors, with what the machine's bandwidth would let them be."""
    figure = blank(10.0, 4.1)
    heading(figure, "One core: cost and memory against the number of sensors")
    figure.get_layout_engine().set(w_pad=0.06, h_pad=0.06, wspace=0.02)
    cost, memory = figure.subplots(1, 2)
    # The copy's rate is what memory itself allows; a small network is in the cache and may go below it.
    floor = [(row["sensors"], 1e9 * row["bytes_once"] / machine["copy"] / (row["sensors"] * 24)) for row in rows]
    allowed = [(row["sensors"], LIMIT * row["minibatch_mib"]) for row in rows]
    _draw(cost, rows, "ns", "ns per reading", _outer(floor), "memory bandwidth")
    _draw(memory, rows, "peak_mib", "peak memory (MiB)", _outer(allowed), f"{LIMIT} minibatches")
    note = (
        "Memory bandwidth: the readings in and the results out once, as fast as the machine copies. Memory is without "
        "the readings themselves."
    )
    figure.supxlabel(note, x=0.008, ha="left", fontsize=8.5, color=GREYS[0])
    return save(figure, folder / NAME)


def _outer(points: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """Keep the largest value at each number of sensors."""
    return sorted({place: max(value for at, value in points if at == place) for place, _ in points}.items())


def _draw(
    axes: Any, rows: list[dict[str, Any]], column: str, label: str, bound: list[tuple[int, float]], called: str
) -> None:
    axes.set(xscale="log", yscale="log")
    places, values = zip(*bound, strict=True)
    axes.plot(places, values, color=GREYS[1], lw=1.2, ls=(0, (4, 2)), zorder=1, label=called)
    for method in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == method and row[column] > 0]
        name = method.split()[0]
        style = line_style(name, "ours" if name == "NetworkModel" else "online")
        axes.plot([row["sensors"] for row in own], [row[column] for row in own], label=method, **style)
    axes.set(xlabel="sensors", ylabel=label)
    bare(axes, sides=("left", "bottom"))
    axes.legend(frameon=False, fontsize=9)
