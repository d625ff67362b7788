"""The figure of the growth: what a longer tensor costs, both axes in powers of ten, names at the lines' ends."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sensormend.bench.labels import LineEnd, finish_panel
from sensormend.bench.runs import Rows, diverged_note, gather, number
from sensormend.bench.styles import in_order, style_of
from sensormend.plot.canvas import GREYS, blank, heading, save_both

__all__ = ["growth_chart"]

WIDTH, HEIGHT = 10.0, 3.7
FEW_DECADES = 100
"""Lengths closer together than this are marked one by one, others at powers of ten."""
PANELS = {
    "seconds": "computation time (s)",
    "one_more": "time for one more day (s)",
    "peak_mb": "peak memory (MB)",
}
ONE_MORE = "One more day: an online method takes that day alone (drawn: its mean), a batch method begins again."


def growth_chart(rows: Rows, folder: Path | str, name: str = "growth", *, title: str = "") -> list[Path]:
    """Draw what a longer tensor costs: computation time, time for one more day, peak memory.

    For one more day an online method takes that day alone; a batch method begins again with all of them.
    The length is the column `days`, or `x` where there is none. A panel without a figure is left out.
    """
    told = [_with_one_more(row) for row in rows]
    shown = [column for column in PANELS if any(np.isfinite(number(row, column)) for row in told)] or ["seconds"]
    figure = blank(WIDTH, HEIGHT + 0.35 * bool(title))
    heading(figure, title)
    figure.get_layout_engine().set(w_pad=0.06, h_pad=0.06, wspace=0.02)
    for axes, column in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        _draw(axes, told, column)
    note = " ".join(part for part in (ONE_MORE, diverged_note(rows)) if part)
    figure.supxlabel(note, x=0.008, ha="left", fontsize=8.5, color=GREYS[0])
    return save_both(figure, folder, name)


def _with_one_more(row: Mapping[str, Any]) -> dict[str, Any]:
    days, seconds = number(row, "days", "x"), number(row, "seconds")
    batch = style_of(row["method"]).kind == "batch"
    return {**row, "x": days, "one_more": seconds if batch or not days else seconds / days}


def _draw(axes: Any, rows: Rows, column: str) -> None:
    ends = []
    axes.set(xscale="log", yscale="log")
    for method in reversed(in_order(row["method"] for row in rows)):
        style = style_of(method)
        line = gather([row for row in rows if row["method"] == method], column)
        drawn = np.where(line.mean > 0, line.mean, np.nan)
        axes.plot(line.x, drawn, label=method, **style.line)
        if np.isfinite(line.spread).any():
            low = np.maximum(line.mean - line.spread, line.mean / 3)
            axes.fill_between(line.x, low, line.mean + line.spread, color=style.colour, alpha=0.10, lw=0, zorder=1)
        last = np.flatnonzero(np.isfinite(drawn))
        if last.size:
            ends.append(
                LineEnd(line.x[last[-1]], drawn[last[-1]], method, style.colour, bold=style.kind == "ours")
            )  # fmt: skip
    places = sorted({number(row, "x") for row in rows})
    if places[-1] < FEW_DECADES * places[0]:
        axes.set_xticks(places)
    finish_panel(axes, ends, across="length of the tensor (days)", up=PANELS[column])
