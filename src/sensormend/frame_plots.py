"""Pictures of what `clean` made of readings: one sensor, the whole network, and why one was called wrong.

For notebooks and scripts; needs the extra `plot`. Each takes what `clean()` returned, a pandas or polars frame, or the
OUT that `sensormend clean` wrote, and returns a matplotlib figure; `figure.savefig("course.png")` keeps it. They are
light or dark as matplotlib's style is, or as `dark` says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from io import BytesIO
from typing import Any

import numpy as np

from sensormend.canvas import GREYS, INK, bare, blank, darken, heading, is_dark
from sensormend.evidence import Moment
from sensormend.frame_views import (
    Surroundings,
    balance,
    between,
    channel,
    clock,
    course_of,
    described_by,
    states_of,
    surroundings,
    table,
)
from sensormend.plots import dates, draw_course, draw_health, legend_above, most_trouble
from sensormend.readings import Rows
from sensormend.recovery import FloatArray
from sensormend.units import axis_label

__all__ = ["beside", "course", "health"]

WIDTH = 11.0
MOST_NAMES = 45
RELATIVES = ("#009e73", "#cc79a7", "#7b6fb0")
"""With orange and blue from Okabe and Ito's palette, too; the last one is darker, to be seen as a thin line."""


def course(
    rows: Any,
    sensor: str,
    start: Moment | None = None,
    end: Moment | None = None,
    variable: str | None = None,
    *,
    dark: bool | None = None,
) -> Any:
    """Draw one sensor over time: what it read, what it was made of with its interval, and what was wrong with it when.

    Parameters
    ----------
    rows
        What `clean` returned, or the OUT that it wrote.
    sensor, variable
        Whose course; the variable only where there are several.
    start, end
        From when to when, UTC; all of it by default.
    dark
        For a dark page; by default as matplotlib's style is.
    """
    with _page(WIDTH, 4.4, dark) as (figure, finish):
        own, name, what = channel(rows, sensor, variable)
        shown = between(own, start, end, name)
        axes = figure.add_subplot()
        quantity, unit = axis_label(what, described_by(rows))
        draw_course(axes, course_of(shown), quantity=quantity, unit=unit)
        heading(figure, f"Sensor {name}")
        _years(axes, shown)
        finish()
    return figure


def health(rows: Any, *, dark: bool | None = None) -> Any:
    """Draw the health of all sensors, day by day, those with most trouble on top.

    A day is faulty or suspect where some of its readings are, silent where nothing came, filled where something is
    missing or a single reading was wrong, and left blank where the sensor has no rows: not there yet, or gone.

    Parameters
    ----------
    rows
        What `clean` returned, or the OUT that it wrote.
    dark
        For a dark page; by default as matplotlib's style is.
    """
    everybody = table(rows)
    panels = [everybody.taken(everybody.variable == code) for code in np.unique(everybody.variable)]
    states = [states_of(panel) for panel in panels]
    many = [len(names) for names, *_ in states]
    heights = [1.1 + min(0.165 * count, 5.5 if len(panels) < 3 else 3.0) for count in many]
    with _page(WIDTH, sum(heights) + 0.35, dark) as (figure, finish):
        grid = figure.add_gridspec(len(panels), 1, height_ratios=heights)
        for place, (panel, (names, state, times, days)) in enumerate(zip(panels, states, strict=True)):
            axes = figure.add_subplot(grid[place])
            what = everybody.variables[int(panel.variable[0])]
            often = "day by day" if days == 1 else f"{days} days a cell"
            title = f"{what[:1].upper()}{what[1:]}: every sensor, {often}" if what else f"Every sensor, {often}"
            if len(names) > MOST_NAMES:
                title += f"; worst are {', '.join(names[row] for row in most_trouble(state)[:5])}"
            draw_health(axes, state, times, names, cell_days=days, title=title, most_labels=MOST_NAMES)
            _years(axes, panel)
        heading(figure, balance(everybody))
        finish()
    return figure


def beside(
    rows: Any,
    sensor: str,
    time: Moment,
    variable: str | None = None,
    *,
    days: float | None = None,
    dark: bool | None = None,
) -> Any:
    """Draw a sensor beside its three closest relatives around a moment: why it was called wrong, or was not.

    Above: the sensor, and what each relative lets expect of it, which is the relative's own reading plus the usual
    difference of the two. Below: how far the sensor is from that; the bands are three times what is usual.

    Parameters
    ----------
    rows
        What `clean` returned, or the OUT that it wrote.
    sensor, variable
        Who; the variable only where there are several.
    time
        When, UTC.
    days
        How many days before and after it are shown; by default four, or more to have all of the fault in view.
    dark
        For a dark page; by default as matplotlib's style is.
    """
    around = surroundings(rows, sensor, time, variable, days)
    near, relatives, moment = around.near, around.relatives, clock(around.moment)
    with _page(WIDTH, 6.6 if relatives else 4.4, dark) as (figure, finish):
        panels = figure.add_gridspec(2 if relatives else 1, 1, height_ratios=(1.6, 1) if relatives else (1,))
        above = figure.add_subplot(panels[0])
        quantity, unit = axis_label(around.variable, described_by(rows))
        room = draw_course(above, course_of(near), quantity=quantity, unit=unit)
        for colour, relative in zip(RELATIVES, relatives, strict=False):
            label, expected = _signed(relative.sensor, relative.usual), relative.value + relative.usual
            above.plot(relative.clock, expected, color=colour, lw=1.1, zorder=4, label=label)
        above.axvline(moment, color=INK, lw=0.8, ls=(0, (3, 2)), zorder=7)
        heading(figure, around.said)
        legend_above(above, room)
        if relatives:
            below = figure.add_subplot(panels[1], sharex=above)
            _draw_distances(below, around, above.get_ylim())
            below.axvline(moment, color=INK, lw=0.8, ls=(0, (3, 2)), zorder=7)
            above.tick_params(labelbottom=False)
            _years(below, near)
        else:
            said = "no other sensor that is like it has a good reading then"
            above.text(0.01, 0.04, said, color=GREYS[0], fontsize=9, transform=above.transAxes)
            _years(above, near)
        finish()
    return figure


@contextmanager
def _page(width: float, height: float, dark: bool | None) -> Iterator[tuple[Any, Callable[[], None]]]:
    """Give an empty figure, and what makes it ready to be shown; a style of the user's changes nothing else of it."""
    figure = blank(width, height)
    style: Any = import_module("matplotlib.style")
    wanted = is_dark() if dark is None else dark

    def finish() -> None:
        if wanted:
            darken(figure)
        # Without pyplot a notebook does not know how to show a figure; this it asks for first.
        figure._repr_png_ = partial(_png, figure)

    with style.context("default"):
        yield figure, finish


def _png(figure: Any) -> bytes:
    file = BytesIO()
    figure.savefig(file, format="png", dpi=100, facecolor=figure.get_facecolor())
    return file.getvalue()


def _years(axes: Any, rows: Rows) -> None:
    """Say of which year the dates below are."""
    first, last = (np.datetime64(int(time), "us").astype("datetime64[Y]") for time in (rows.time[0], rows.time.max()))
    axes.set_xlabel(str(first) if first == last else f"{first} to {last}", color=GREYS[0], fontsize=9, loc="right")


def _draw_distances(axes: Any, around: Surroundings, limits: tuple[float, float]) -> None:
    near = around.near
    _, own = np.unique(near.time, return_index=True)
    values: list[FloatArray] = []
    for colour, relative in zip(RELATIVES, around.relatives, strict=False):
        distance = near.value[own] - relative.value - relative.usual
        axes.axhspan(-3 * relative.spread, 3 * relative.spread, color=colour, alpha=0.10, lw=0, zorder=0)
        axes.plot(relative.clock, distance, color=colour, lw=1.2, marker=".", ms=2, zorder=3)
        values += [distance, np.array([-3.3, 3.3]) * relative.spread]
    told = np.concatenate(values)
    told = told[np.isfinite(told)]
    # A reading that is far beyond would press all others together, as above.
    low, high = np.quantile(told, [0.01, 0.99])
    most, margin = limits[1] - limits[0], 0.08 * (high - low)
    axes.set_ylim(max(low - margin, -most), min(high + margin, most))
    axes.axhline(0, color=GREYS[2], lw=0.8, zorder=1)
    axes.set_ylabel("distance from that", color=INK)
    axes.set_title("How far it is from what each of them lets expect; the bands are three times the usual",
                   loc="left", fontsize=9, color=GREYS[0], pad=4)  # fmt: skip
    dates(axes)
    bare(axes)
    axes.grid(axis="y", color=GREYS[3], lw=0.6, zorder=0)


def _signed(sensor: str, usual: float) -> str:
    size = f"{abs(usual):.2g}"
    return sensor if float(size) == 0 else f"{sensor} {'-' if usual < 0 else '+'} {size}"
