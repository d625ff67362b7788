"""`decomposition` draws observed values as the sum of the low-rank part and the days of faulty sensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sensormend.plot.style import GREYS, INK, blank, save_both
from sensormend.recovery import FloatArray, Recovery

__all__ = ["decomposition", "most_telling"]

MISSING = "#1f2933"
# Slant of a day, and distance to the next one, in the height of a day.
DEPTH, LIFT, APART = 0.52, 0.3, 0.44
SIGN, WIDTH, DAYS = 0.32, 10.0, 5


def decomposition(
    folder: Path | str, *, readings: FloatArray, recovery: Recovery, days: slice | None = None, unit: str = "°C",
) -> list[Path]:  # fmt: skip
    """Draw observed = low rank + outlier fibers of (sensor, slot, day), each a row of days, each day sensors by hours.

    `decomposition.png` and `decomposition.svg` are written to the folder. The days are by default the five with most
    faulty sensors; about five can be distinguished.
    """
    shown = most_telling(recovery) if days is None else days
    observed = readings[..., shown]
    agreed, wrong = recovery.expected[..., shown], recovery.outliers[..., shown]
    # As deviations from the mean all three have the same zero and share one scale; the sum still holds.
    centre = float(np.nanmean(agreed))
    parts = [
        ("observed", "what came in, with gaps", observed - centre),
        ("low rank", "what the network agrees on", agreed - centre),
        ("outlier fibers", "whole days of single sensors", np.where(np.isfinite(observed), wrong, 0.0)),
    ]
    limit = float(np.nanpercentile(np.abs(parts[1][2]), 99.5)) or 1.0
    wide = 0.2 + 3 * (APART * (observed.shape[2] - 1) + DEPTH) + 2 * SIGN
    figure = blank(WIDTH, min(WIDTH * (1.5 + LIFT) / wide + 0.75, 7.0))
    axes = figure.subplots()
    at, mesh = 0.0, None
    for sign, (label, meaning, values) in zip(("", "=", "+"), parts, strict=True):
        if sign:
            axes.text(at + SIGN / 2, 0.5 + LIFT / 2, sign, fontsize=30, ha="center", va="center", color=INK)
            at += SIGN
        mesh, right = _slabs(axes, values, at, limit)
        middle = (at + right) / 2
        axes.text(middle, -0.13, label, ha="center", va="top", fontsize=13, fontweight="bold", color=INK)
        axes.text(middle, -0.26, meaning, ha="center", va="top", fontsize=10, color=GREYS[0])
        at = right
    _axis_names(axes, observed.shape[2])
    axes.set(xlim=(-0.16, at + 0.02), ylim=(-0.4, 1.07 + LIFT), aspect="equal")
    axes.set_axis_off()
    bar = figure.colorbar(mesh, ax=axes, orientation="horizontal", extend="both", shrink=0.42, aspect=32, pad=0.01)
    bar.set_label(f"{unit} from the mean" if unit else "from the mean", color=INK, fontsize=10)
    bar.ax.tick_params(colors=INK, labelsize=9, width=0.6)
    bar.outline.set_visible(False)
    from matplotlib.patches import Patch

    figure.legend(
        handles=[Patch(fc=MISSING, label="missing")], loc="lower right", frameon=False, fontsize=10, labelcolor=INK,
        handlelength=1.1, handleheight=1.1,
    )  # fmt: skip
    return save_both(figure, folder, "decomposition")


def most_telling(recovery: Recovery) -> slice:
    """Choose the span of days in which most sensors are faulty, and of several the one with most faulty days."""
    faulty = recovery.faulty

    def merit(first: int) -> tuple[int, int]:
        window = faulty[:, first : first + DAYS]
        return int(window.any(axis=1).sum()), int(window.sum())

    first = max(range(max(faulty.shape[1] - DAYS, 0) + 1), key=merit)
    return slice(first, first + DAYS)


def _slabs(axes: Any, values: FloatArray, left: float, limit: float) -> tuple[Any, float]:
    """Draw the days behind each other, the first in front; return the last mesh and the right edge."""
    from matplotlib import colormaps

    shades = colormaps["RdBu_r"].with_extremes(bad=MISSING)
    sensors, slots, days = values.shape
    along, up = np.meshgrid(np.linspace(0, 1, slots + 1), np.linspace(1, 0, sensors + 1))
    mesh = None
    for day in range(days):
        x = left + APART * day + DEPTH * along
        y = up + LIFT * along
        mesh = axes.pcolormesh(
            x, y, np.ma.masked_invalid(values[..., day]), cmap=shades, vmin=-limit, vmax=limit, zorder=2 + day,
            rasterized=True,
        )  # fmt: skip
        edge = [(x[i, j], y[i, j]) for i, j in ((0, 0), (0, -1), (-1, -1), (-1, 0), (0, 0))]
        axes.plot(*zip(*edge, strict=True), color=INK, lw=0.8, zorder=2 + day + 0.5)
    return mesh, left + APART * (days - 1) + DEPTH


def _axis_names(axes: Any, days: int) -> None:
    """Name the three axes on the first tensor only."""
    arrow = {"arrowstyle": "->", "color": GREYS[0], "lw": 1}
    axes.annotate("", (-0.05, 0.0), (-0.05, 1.0), arrowprops=arrow)
    axes.text(-0.08, 0.5, "sensors", rotation=90, ha="right", va="center", fontsize=10, color=GREYS[0])
    axes.annotate("", (DEPTH - 0.02, 1.06 + LIFT), (-0.02, 1.06), arrowprops=arrow)
    lean = np.degrees(np.arctan2(LIFT, DEPTH))
    axes.text(
        DEPTH / 2 - 0.06, 1.1 + LIFT / 2, "hours", rotation=lean, ha="center", va="bottom", fontsize=10, color=GREYS[0]
    )
    if days > 1:
        axes.annotate("", (APART * (days - 1), -0.06), (0.0, -0.06), arrowprops=arrow)
        axes.text(-0.02, -0.06, "days", ha="right", va="center", fontsize=10, color=GREYS[0])
