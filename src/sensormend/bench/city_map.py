"""`city_map` draws the values of a network on its map, raw and cleaned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sensormend.plot.style import GREYS, INK, blank, save_both
from sensormend.recovery import BoolArray, FloatArray
from sensormend.views.voronoi import VoronoiCells, group_means, voronoi_cells

__all__ = ["MAP_COLOURS", "chosen_days", "city_map", "value_range"]

DATES, HOUR = 6, 15
"""Number of dates of a map, and the hour of the day that it shows."""

LEARNING_DAYS = 10
MISSING = "#000000"

# ColorBrewer's RdYlBu, the other way round: light in the middle and coloured, never black, at both ends.
MAP_COLOURS = ("#313695", "#4575b4", "#74add1", "#abd9e9", "#e0f3f8", "#ffffbf", "#fee090", "#fdae61", "#f46d43",
               "#d73027", "#a50026")  # fmt: skip


def city_map(
    folder: Path | str, *, positions: ArrayLike, readings: FloatArray, cleaned: FloatArray,
    times: NDArray[np.datetime64], faulty: BoolArray, quantity: str, unit: str,
) -> list[Path]:  # fmt: skip
    """Draw a network at one hour of six dates: raw above, with missing values in black, and cleaned below.

    `map.png` and `map.svg` are written to the folder. Axes are (sensor, slot, day) of readings and cleaned values,
    (slot, day) of times, the starts of the slots, and (sensor, day) of `faulty`, which is drawn as a ring. Positions
    (sensor, 2) are in any unit in which both axes are alike; NaN where they are not known.
    """
    cells = voronoi_cells(positions)
    slots = readings.shape[1]
    slot = min(round(HOUR * slots / 24), slots - 1)
    chosen = chosen_days(times[slot])
    low, high = value_range(cleaned[:, slot][:, chosen])
    left, lower, right, upper = cells.box
    side = 9.0 / max(len(chosen), 3)
    tall = side * min(max((upper - lower) / (right - left), 0.4), 1.8)
    figure = blank(10, 2 * tall + 1.05)
    figure.get_layout_engine().set(w_pad=0.03, h_pad=0.055, wspace=0.0, hspace=0.0)
    grid = figure.subplots(2, len(chosen), squeeze=False)
    drawn = None
    for column, day in enumerate(chosen):
        for line, values in enumerate((readings, cleaned)):
            axes = grid[line, column]
            drawn = _draw_cells(axes, cells, values[:, slot, day], low, high)
            _draw_sensors(axes, np.asarray(positions, dtype=float), values[:, slot, day], faulty[:, day])
        moment = times[slot, day].astype("datetime64[s]").item()
        grid[0, column].set_title(f"{moment:%d %b %Y}", fontsize=10, color=INK)
    for line, word in enumerate(("raw", "mended")):
        grid[line, 0].set_ylabel(word, fontsize=11, fontweight="bold", color=INK)
    bar = figure.colorbar(drawn, ax=grid.ravel().tolist(), orientation="horizontal", extend="both",
                          shrink=0.42, aspect=36, pad=0.02)  # fmt: skip
    bar.set_label(f"{quantity} at {HOUR}:00, {unit}".strip(", "), color=INK, fontsize=10)
    bar.ax.tick_params(colors=INK, labelsize=9, width=0.6)
    bar.outline.set_visible(False)
    _map_keys(figure, rings=bool(faulty[:, chosen].any()))
    return save_both(figure, folder, "map")


def chosen_days(times: NDArray[np.datetime64]) -> list[int]:
    """Choose days to show out of one time per day: the middle of each of the last months, or evenly spaced.

    The first days, in which a method still learns, are left out where enough others remain.
    """
    days = len(times)
    months = times.astype("datetime64[M]")
    full = [month for month in np.unique(months) if (months == month).sum() >= 15]
    if len(full) >= DATES:
        return [int(np.flatnonzero(months == month)[(months == month).sum() // 2]) for month in full[-DATES:]]
    first = LEARNING_DAYS if days >= LEARNING_DAYS + DATES else 0
    return sorted({round(float(day)) for day in np.linspace(first, days - 1, min(DATES, days))})


def value_range(values: FloatArray) -> tuple[float, float]:
    """Return the ends of a colour bar for values, of which NaN are ignored."""
    known = values[np.isfinite(values)]
    if not known.size:
        return 0.0, 1.0
    low, high = float(known.min()), float(known.max())
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _draw_cells(axes: Any, cells: VoronoiCells, values: FloatArray, low: float, high: float) -> Any:
    """Colour each cell by the mean of its sensors' values; black where there is none."""
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import LinearSegmentedColormap

    means = group_means(cells.place, len(cells.polygons), values)
    shades = LinearSegmentedColormap.from_list("map", MAP_COLOURS).with_extremes(bad=MISSING)
    drawn = PolyCollection(cells.polygons, array=np.ma.masked_invalid(means), cmap=shades, edgecolors="white", lw=0.5)
    drawn.set_clim(low, high)
    axes.add_collection(drawn)
    left, lower, right, upper = cells.box
    axes.set(xlim=(left, right), ylim=(lower, upper), aspect="equal", xticks=[], yticks=[])
    for side in axes.spines.values():
        side.set(color=GREYS[2], lw=0.8)
    return drawn


def _draw_sensors(axes: Any, positions: FloatArray, values: FloatArray, faulty: BoolArray) -> None:
    """Draw a dot per sensor, light where its cell is black, and a ring around faulty ones."""
    known = np.isfinite(values)
    axes.plot(*positions[known].T, ".", ms=4.2, color=INK, mew=0, zorder=4)
    axes.plot(*positions[~known].T, ".", ms=4.2, color="white", mew=0, zorder=4)
    axes.plot(*positions[faulty].T, "o", ms=7.5, mfc="none", mec="white", mew=2.6, zorder=5)
    axes.plot(*positions[faulty].T, "o", ms=7.5, mfc="none", mec=INK, mew=1.2, zorder=6)


def _map_keys(figure: Any, *, rings: bool) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [
        Patch(fc=MISSING, label="missing"),
        Line2D([], [], ls="none", marker=".", ms=5, color=INK, mew=0, label="sensor"),
    ]
    if rings:
        handles.append(Line2D([], [], ls="none", marker="o", ms=7.5, mfc="none", mec=INK, mew=1.2, label="faulty"))
    figure.legend(
        handles=handles, loc="lower left", frameon=False, fontsize=9.5, labelcolor=INK, ncols=len(handles),
        handlelength=1.1, handleheight=1.1, columnspacing=1.2, handletextpad=0.5,
    )  # fmt: skip
    figure.text(
        0.992,
        0.02,
        "raw values past the bar take the colour of its end",
        ha="right",
        va="bottom",
        fontsize=8.5,
        color=GREYS[0],
    )
