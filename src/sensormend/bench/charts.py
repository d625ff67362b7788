"""Figures out of measured rows, with the axes of the paper's: each written as PNG and as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

from sensormend.bench.bars import bar_chart, faults_chart
from sensormend.bench.growth_chart import growth_chart
from sensormend.bench.runs import Rows, diverged, diverged_note, gather, number
from sensormend.bench.styles import KINDS, in_order, style_of
from sensormend.plot.canvas import GREYS, INK, bare, blank, heading, save_both
from sensormend.plot.decomposition import decomposition
from sensormend.plot.maps import city_map

__all__ = [
    "Panel",
    "bar_chart",
    "city_map",
    "convergence_chart",
    "decomposition",
    "faults_chart",
    "growth_chart",
    "line_charts",
]

WIDTH = 10.0
MOST_TICKS, LABEL_ROOM = 8, 0.09
# Ours beside the batch methods, which are few, and the many online ones at the end.
LEGEND_ORDER = ("ours", "batch", "plain", "online")


@dataclass(frozen=True)
class Panel:
    """One panel: a column of the rows, its label, and its scale; `top` is the upper limit, from 0 where not `log`."""

    column: str
    label: str
    log: bool = False
    top: float | None = None


def line_charts(
    rows: Rows, folder: Path | str, name: str, *, panels: Sequence[Panel], x_label: str, title: str = "",
    log_x: bool = False,
) -> list[Path]:  # fmt: skip
    """Draw each panel's column against `x`: the mean over the trials, and one standard deviation around it.

    Parameters
    ----------
    rows
        Measured runs.
    folder, name
        Where to; `name.png` and `name.svg` are written.
    panels
        Side by side, two by two where there are four.
    x_label
        Under each panel.
    title
        Above it all.
    log_x
        Whether `x` is spread over powers of ten.
    """
    return _lines(rows, folder, name, panels, x_label, title, log_x=log_x)


def _lines(
    rows: Rows, folder: Path | str, name: str, panels: Sequence[Panel], x_label: str, title: str, note: str = "",
    *, log_x: bool = False,
) -> list[Path]:  # fmt: skip
    columns = len(panels) if len(panels) <= 3 else 2
    lines = -(-len(panels) // columns)
    figure = blank(WIDTH, 3.5 * lines + 0.35 * bool(title) + _legend_height(rows) + 0.2 * bool(note))
    heading(figure, title)
    _airy(figure)
    grid = figure.subplots(lines, columns, squeeze=False).ravel()
    beyond: list[str] = []
    for axes, panel in zip(grid, panels, strict=False):
        beyond += _draw_panel(axes, rows, panel, log_x=log_x)
        axes.set_xlabel(x_label, color=INK, fontsize=10)
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    _legend(figure, rows, _notes(rows, beyond, note))
    return save_both(figure, folder, name)


def convergence_chart(rows: Rows, folder: Path | str, name: str = "convergence", *, title: str = "") -> list[Path]:
    """Draw RE against the number of the minibatch, a panel per method, a line per setting (the paper's I3).

    The number is the column `minibatch`, or `x` where there is none.
    """
    methods = in_order(row["method"] for row in rows)
    settings = sorted({str(row.get("setting", "")) for row in rows}, key=_by_number)
    lines = -(-len(methods) // 4)
    columns = -(-len(methods) // lines)
    figure = blank(WIDTH, 2.6 * lines + 0.9 + 0.35 * bool(title))
    heading(figure, title)
    _airy(figure)
    grid = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True)
    # Three looks that stay apart in grey: thin and dotted to thick and solid, as the minibatches grow.
    looks: list[dict[str, Any]] = [
        {"linestyle": style, "linewidth": 1.2 + 1.1 * place / max(len(settings) - 1, 1), "alpha": alpha}
        for place, (style, alpha) in enumerate(
            zip(_cycle([(0, (1, 1.2)), (0, (4, 1.5)), "-"], settings), _cycle([0.75, 0.85, 1.0], settings), strict=True)
        )
    ]
    for axes, method in zip(grid.ravel(), methods, strict=False):
        style = style_of(method)
        for setting, look in zip(settings, looks, strict=True):
            own = [row for row in rows if row["method"] == method and str(row.get("setting", "")) == setting]
            line = gather(own, "re", at=lambda row: number(row, "minibatch", "x"))
            axes.plot(line.x, _positive(line.mean), color=style.colour, label=setting, **look)
            _band(axes, line.x, line.mean, line.spread, style.colour, log=True)
        axes.set_yscale("log")
        _finish(axes)
        axes.set_title(method, fontsize=10, color=INK, fontweight="bold" if style.kind == "ours" else "normal")
    for axes in grid.ravel()[len(methods) :]:
        axes.set_visible(False)
    for place in range(len(methods)):
        if place + columns >= len(methods):
            shown = grid.ravel()[place]
            shown.set_xlabel("minibatch", color=INK, fontsize=10)
            shown.tick_params(labelbottom=True)
    for axes in grid[:, 0]:
        axes.set_ylabel("RE", color=INK, fontsize=10)
    from matplotlib.lines import Line2D

    keys = [
        Line2D([], [], color=INK, label=_subscripted(setting), **look)
        for setting, look in zip(settings, looks, strict=True)
    ]
    legend = figure.legend(
        handles=keys, loc="outside lower center", ncols=len(keys), frameon=False, fontsize=10, labelcolor=INK,
        handlelength=3, **_noted(_notes(rows)),
    )  # fmt: skip
    legend.get_title().set_color(GREYS[0])
    return save_both(figure, folder, name)


def _draw_panel(axes: Any, rows: Rows, panel: Panel, *, log_x: bool) -> list[str]:
    """Draw one panel; return the methods that have points past its upper edge."""
    beyond = []
    for method in reversed(in_order(row["method"] for row in rows)):
        style = style_of(method)
        line = gather([row for row in rows if row["method"] == method], panel.column)
        shown = _positive(line.mean) if panel.log else line.mean
        axes.plot(line.x, shown, label=method, **style.line)
        _band(axes, line.x, line.mean, line.spread, style.colour, log=panel.log)
        if panel.top is not None and (line.mean > panel.top).any():
            beyond.append(method)
    _scale(axes, panel)
    axes.set_ylabel(panel.label, color=INK, fontsize=10)
    places = sorted({float(row["x"]) for row in rows if np.isfinite(number(row, "x"))})
    if log_x:
        axes.set_xscale("log")
    if 0 < len(places) <= MOST_TICKS:
        axes.set_xticks(places, _apart([math.log(place) for place in places] if log_x else places, places))
    _finish(axes)
    return beyond


def _apart(places: list[float], values: list[float]) -> list[str]:
    """Label ticks with their values, from the last one down, but for those whose labels would touch."""
    labels: list[str] = []
    last = float("inf")
    for place, value in zip(reversed(places), reversed(values), strict=True):
        fits = last - place > LABEL_ROOM * (places[-1] - places[0])
        labels.append(f"{value:g}" if fits else "")
        last = place if fits else last
    return labels[::-1]


def _scale(axes: Any, panel: Panel) -> None:
    if panel.log:
        axes.set_yscale("log")
        if panel.top is not None:
            axes.set_ylim(top=1.2 * panel.top)
    elif panel.top is not None:
        # A little room, so that markers at 0 and at the top are whole.
        axes.set_ylim(-0.03 * panel.top, 1.04 * panel.top)
    else:
        top = axes.get_ylim()[1]
        axes.set_ylim(-0.03 * top, top)


def _finish(axes: Any) -> None:
    axes.grid(axis="y", color=GREYS[3], lw=0.7, zorder=0)
    axes.set_axisbelow(True)
    bare(axes, sides=("left", "bottom"))
    axes.tick_params(which="minor", length=0)


def _band(axes: Any, x: Any, mean: Any, spread: Any, colour: str, *, log: bool) -> None:
    if not np.isfinite(spread).any():
        return
    low = np.maximum(mean - spread, mean / 3) if log else mean - spread
    axes.fill_between(x, low, mean + spread, color=colour, alpha=0.10, lw=0, zorder=1)


def _positive(values: Any) -> Any:
    return np.where(values > 0, values, np.nan)


def _cycle(looks: list[Any], of: Sequence[object]) -> list[Any]:
    """Take the last looks first: the largest setting is always the solid line."""
    return [looks[max(len(looks) - len(of) + place, 0) % len(looks)] for place in range(len(of))]


def _by_number(text: str) -> tuple[float, str]:
    digits = "".join(letter if letter.isdigit() or letter == "." else " " for letter in text).split()
    try:
        return float(digits[-1]), text
    except (IndexError, ValueError):
        return float("inf"), text


def _subscripted(setting: str) -> str:
    return setting.replace("I3", "$I_3$")


def _legend_columns(rows: Rows) -> list[list[tuple[str, str]]]:
    """Lay the legend out in columns of (kind, method), as low as the width allows.

    A kind has its own line above its methods (there the method is empty). Short kinds share a column, a
    long one takes several.
    """
    methods = in_order(row["method"] for row in rows)
    groups = [(kind, [method for method in methods if style_of(method).kind == kind]) for kind in LEGEND_ORDER]
    columns: list[list[tuple[str, str]]] = []
    for height in range(4, len(methods) + len(KINDS) + 1):
        columns = [[]]
        for kind, own in groups:
            if not own:
                continue
            if len(columns[-1]) + 1 + len(own) > height and columns[-1]:
                columns.append([])
            columns[-1].append((kind, ""))
            for method in own:
                if len(columns[-1]) == height:
                    columns.append([(kind, " ")])
                columns[-1].append((kind, method))
        widths = [0.8 + 0.082 * max(len(method) for _, method in column) for column in columns]
        if sum(widths) < WIDTH:
            break
    return columns


def _legend_height(rows: Rows) -> float:
    return 0.3 + 0.2 * max(map(len, _legend_columns(rows))) + 0.2 * bool(diverged(rows))


def _legend(figure: Any, rows: Rows, notes: str) -> None:
    """Put one legend below all panels, and above it what the figure does not show."""
    from matplotlib.lines import Line2D

    columns = _legend_columns(rows)
    height = max(map(len, columns))
    handles = []
    for column in columns:
        for kind, method in column + [("", " ")] * (height - len(column)):
            if method.strip():
                handles.append(Line2D([], [], label=method, **style_of(method).line))
            else:
                handles.append(Line2D([], [], linestyle="none", label=method or KINDS[kind]))
    legend = figure.legend(
        handles=handles, loc="outside lower center", ncols=len(columns), frameon=False, fontsize=9.5,
        labelcolor=INK, handlelength=3.2, columnspacing=2.0, labelspacing=0.35, borderaxespad=0.3,
        **_noted(notes),
    )  # fmt: skip
    for text in legend.get_texts():
        if text.get_text() in KINDS.values():
            text.set(color=GREYS[0], fontstyle="italic")
        elif style_of(text.get_text()).kind == "ours":
            text.set_fontweight("bold")
    legend.get_title().set_color(GREYS[0])


def _noted(notes: str) -> dict[str, Any]:
    if not notes:
        return {}
    return {"title": fill(notes, 130), "title_fontproperties": {"size": 8.5}}


def _notes(rows: Rows, beyond: Sequence[str] = (), note: str = "") -> str:
    """Say what the figure does not show."""
    edge = f"Past the upper edge: {', '.join(in_order(beyond))}." if beyond else ""
    return " ".join(part for part in (note, diverged_note(rows), edge) if part)


def _airy(figure: Any) -> None:
    """Keep each panel's label away from the panel before it."""
    figure.get_layout_engine().set(w_pad=0.09, h_pad=0.06, wspace=0.02)
