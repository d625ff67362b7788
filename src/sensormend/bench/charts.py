"""`line_charts`, `bar_chart` and others draw measured rows with the axes of the paper, as PNG and SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill, wrap
from typing import Any, NamedTuple

import numpy as np

from sensormend.bench.styles import KINDS, LineEnd, finish_axes, finish_panel, in_order, style_of
from sensormend.plot.canvas import GREYS, INK, bare, blank, heading, save_both

__all__ = [
    "Panel",
    "PlottedLine",
    "Rows",
    "bar_chart",
    "convergence_chart",
    "diverged",
    "diverged_note",
    "faults_chart",
    "gather",
    "growth_chart",
    "line_charts",
    "number",
    "values",
]

Rows = Sequence[Mapping[str, Any]]
"""One flat row per run: `method`, `setting`, `x`, `trial`, `status`, and metrics that may be None or NaN."""


class PlottedLine(NamedTuple):
    """Mean and standard deviation of one metric over the trials, at every x; NaN where there is none."""

    x: np.ndarray[tuple[int], np.dtype[np.float64]]
    mean: np.ndarray[tuple[int], np.dtype[np.float64]]
    spread: np.ndarray[tuple[int], np.dtype[np.float64]]


def number(row: Mapping[str, Any], *columns: str) -> float:
    """Return the number in the first of these columns that has one, else NaN."""
    for column in columns:
        value = row.get(column)
        if value is not None and np.isfinite(value):
            return float(value)
    return float("nan")


def values(rows: Iterable[Mapping[str, Any]], column: str) -> list[float]:
    """Return the values of a column in the runs that succeeded."""
    numbers = [number(row, column) for row in rows if row.get("status", "done") != "diverged"]
    return [value for value in numbers if np.isfinite(value)]


def gather(
    rows: Rows, column: str, *, at: Callable[[Mapping[str, Any]], float] = lambda row: number(row, "x")
) -> PlottedLine:
    """Return one method's rows as a line; an x at which every run failed is a gap."""
    places = sorted({place for row in rows if np.isfinite(place := at(row))})
    means, spreads = [], []
    for place in places:
        numbers = values([row for row in rows if at(row) == place], column)
        means.append(float(np.mean(numbers)) if numbers else np.nan)
        spreads.append(float(np.std(numbers, ddof=1)) if len(numbers) > 1 else np.nan)
    return PlottedLine(np.array(places), np.array(means), np.array(spreads))


def diverged(rows: Rows) -> dict[str, tuple[int, int]]:
    """Return the numbers of diverged runs and of all runs of methods that diverged; a run may have many rows."""
    runs: dict[str, dict[tuple[object, ...], bool]] = {}
    for row in rows:
        run = tuple(row.get(name) for name in ("setting", "x", "trial"))
        own = runs.setdefault(row["method"], {})
        own[run] = own.get(run, False) or row.get("status") == "diverged"
    return {method: (sum(own.values()), len(own)) for method, own in runs.items() if any(own.values())}


def diverged_note(rows: Rows) -> str:
    """Return a sentence on what diverged; empty where nothing did."""
    lost = diverged(rows)
    named = [f"{method} ({lost[method][0]} of {lost[method][1]} runs)" for method in in_order(lost)]
    return f"Diverged, not drawn: {', '.join(named)}." if named else ""


WIDTH = 10.0
ERRORS = {"missing": "error at missing readings (°C)", "faulty": "error in faulty fibers (°C)"}
# A bar is cut at this multiple of the median method, with its number beside it: else the worst hides the others.
CUT = 2.5
SIDE_BY_SIDE = 6
"""With more cases than this the tables are stacked."""


def bar_chart(
    rows: Rows, folder: Path | str, name: str = "noaa", *,
    published: Mapping[tuple[str, str], float] | None = None, title: str = "",
) -> list[Path]:  # fmt: skip
    """Draw the table of one network as bars: F1, and the errors at missing readings and in faulty fibers.

    Each `setting` is one bar per method, the last one in full colour; `published` is F1 in the paper, by method and
    setting.
    """
    methods = in_order(row["method"] for row in rows)
    settings = list(dict.fromkeys(str(row.get("setting", "")) for row in rows))
    figure = blank(WIDTH, 1.5 + 0.35 * bool(title) + (0.1 + 0.17 * len(settings)) * len(methods))
    heading(figure, title)
    panels = figure.subplots(1, 3, sharey=True)
    _draw_f1(panels[0], rows, methods, settings, published or {})
    for axes, (column, label) in zip(panels[1:], ERRORS.items(), strict=True):
        _draw_bars(axes, rows, methods, settings, column, cut=True)
        axes.set_xlabel(label, color=INK, fontsize=10)
    panels[0].set_yticks(range(len(methods)), methods)
    panels[0].set_ylim(len(methods) - 0.4, -0.6)
    for label, method in zip(panels[0].get_yticklabels(), methods, strict=True):
        label.set(fontsize=9.5, fontweight="bold" if style_of(method).kind == "ours" else "normal")
    borders = [
        place - 0.5
        for place in range(1, len(methods))
        if style_of(methods[place]).kind != style_of(methods[place - 1]).kind
    ]
    for axes in panels:
        axes.grid(axis="x", color=GREYS[3], lw=0.7, zorder=0)
        axes.set_axisbelow(True)
        bare(axes)
        axes.tick_params(axis="y", length=0)
        for border in borders:
            axes.axhline(border, color=GREYS[2], lw=0.8, zorder=1)
    _bar_keys(figure, settings, diverged_note(rows), published=bool(published))
    return save_both(figure, folder, name)


def faults_chart(rows: Rows, folder: Path | str, name: str = "faults", *, title: str = "") -> list[Path]:
    """Draw methods against cases (the column `setting`) as tables in colours: F1 and the two errors.

    They are by reading where faults begin at any hour, else by fiber. The best of every column is in bold; dark is
    good.
    """
    methods = in_order(row["method"] for row in rows)
    cases = list(dict.fromkeys(str(row.get("setting", "")) for row in rows))
    beside = len(cases) <= SIDE_BY_SIDE
    tall = 0.24 * len(methods) + 1.0
    figure = blank(WIDTH, (tall if beside else 3 * tall) + 0.35 * bool(title) + 0.25)
    heading(figure, title)
    figure.get_layout_engine().set(w_pad=0.05, h_pad=0.1, wspace=0.01)
    shape: dict[str, Any] = {"nrows": 1, "ncols": 3, "sharey": True} if beside else {"nrows": 3, "ncols": 1}
    panels = figure.subplots(**shape)
    for axes, (column, label) in zip(panels, {"f1": "F1 score", **ERRORS}.items(), strict=True):
        _draw_table(axes, rows, methods, cases, column)
        axes.set_title(label, fontsize=10.5, color=INK, loc="left")
    for axes in panels[:1] if beside else panels:
        axes.set_yticks(range(len(methods)), methods, fontsize=9.5)
        for text, method in zip(axes.get_yticklabels(), methods, strict=True):
            text.set_fontweight("bold" if style_of(method).kind == "ours" else "normal")
    note = "Mean over the runs; the best of each column in bold, darker is better; div.: every run diverged."
    figure.supxlabel(
        "\n".join([note, *wrap(diverged_note(rows), 140)]), fontsize=8.5, color=GREYS[0], x=0.008, ha="left",
    )  # fmt: skip
    return save_both(figure, folder, name)


def _mean(rows: Rows, method: str, setting: str, column: str) -> tuple[float, bool]:
    """Return the mean of the runs that succeeded, and whether all runs failed."""
    own = [row for row in rows if row["method"] == method and str(row.get("setting", "")) == setting]
    numbers = values(own, column)
    lost = bool(own) and all(row.get("status") == "diverged" for row in own)
    return (float(np.mean(numbers)) if numbers else float("nan")), lost


def _places(settings: Sequence[str]) -> tuple[float, list[float]]:
    """Return the height of a bar, and the distance of each setting's bar from the middle."""
    height = 0.72 / len(settings)
    return height, [(place - (len(settings) - 1) / 2) * height for place in range(len(settings))]


def _paleness(settings: Sequence[str]) -> list[float]:
    return [1.0 - 0.55 * (len(settings) - 1 - place) / max(len(settings) - 1, 1) for place in range(len(settings))]


def _shown_value(value: float) -> str:
    return f"{value:.2f}" if value < 9.995 else f"{value:,.0f}" if value < 1e4 else f"{value:.0e}"


def _draw_bars(
    axes: Any, rows: Rows, methods: list[str], settings: list[str], column: str, *, cut: bool = False,
    inside: bool = False,
) -> None:  # fmt: skip
    """Draw one bar per method and setting with its number after it, or inside it where marks follow."""
    height, offsets = _places(settings)
    means = {(m, s): _mean(rows, m, s, column) for m in methods for s in settings}
    finite = [value for value, _ in means.values() if np.isfinite(value)]
    most = max(finite, default=1.0)
    limit = min(most, CUT * float(np.median(finite))) if cut and finite else most
    for place, method in enumerate(methods):
        for setting, offset, share in zip(settings, offsets, _paleness(settings), strict=True):
            value, lost = means[method, setting]
            if not np.isfinite(value):
                if lost:
                    _beside(axes, 0.0, place + offset, "diverged")
                continue
            shown = min(value, limit)
            colour = _pale(style_of(method).colour, share)
            axes.barh(place + offset, shown, 0.9 * height, color=colour, zorder=2)
            label = ("▸ " if value > limit else "") + _shown_value(value)
            if inside and shown > 0.25 * limit:
                ink = INK if np.dot((0.299, 0.587, 0.114), colour) > 0.55 else "white"
                _beside(axes, shown, place + offset, label, ink, xytext=(-3, 0), ha="right")
            else:
                mark = _mean(rows, method, setting, "f1_best")[0] if inside else np.nan
                _beside(axes, float(np.fmax(shown, mark)), place + offset, label)
    axes.set_xlim(0, 1.18 * limit)


def _beside(
    axes: Any, x: float, y: float, text: str, ink: str = GREYS[0], *, xytext: tuple[int, int] = (3, 0), ha: str = "left"
) -> None:  # fmt: skip
    axes.annotate(
        text, (x, y), xytext=xytext, textcoords="offset points", ha=ha, va="center", fontsize=7.5, color=ink, zorder=5
    )


def _pale(colour: str, share: float) -> tuple[float, ...]:
    """Mix a colour with white; a transparent one would show the grid through it."""
    from matplotlib.colors import to_rgb

    return tuple(1 - share * (1 - part) for part in to_rgb(colour))


def _draw_f1(
    axes: Any, rows: Rows, methods: list[str], settings: list[str], published: Mapping[tuple[str, str], float]
) -> None:  # fmt: skip
    _draw_bars(axes, rows, methods, settings, "f1", inside=True)
    height, offsets = _places(settings)
    for place, method in enumerate(methods):
        for setting, offset in zip(settings, offsets, strict=True):
            best, _ = _mean(rows, method, setting, "f1_best")
            if np.isfinite(best):
                ends = (place + offset - 0.45 * height, place + offset + 0.45 * height)
                axes.plot([best, best], ends, color=INK, lw=1.6, zorder=4, solid_capstyle="butt")
            paper = published.get((method, setting))
            if paper is not None:
                axes.plot(paper, place + offset, "D", ms=4, mfc="white", mec=INK, mew=1, zorder=6)
    axes.set_xlim(0, 1.18)
    axes.set_xticks([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    axes.set_xlabel("F1 score", color=INK, fontsize=10)


def _bar_keys(figure: Any, settings: list[str], note: str, *, published: bool) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [
        Patch(fc=_pale(GREYS[0], share), label=setting)
        for setting, share in zip(settings, _paleness(settings), strict=True)
    ]
    handles.append(
        Line2D([], [], color=INK, marker="|", ms=9, mew=1.6, ls="none", label="F1 at the best threshold (an oracle)")
    )
    if published:
        handles.append(Line2D([], [], marker="D", ms=4, mfc="white", mec=INK, ls="none", label="F1 in the paper"))
    _add_legend(figure, handles, note, ncols=len(handles), fontsize=9.5)


def _draw_table(axes: Any, rows: Rows, methods: list[str], cases: list[str], column: str) -> None:
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    means = [[_mean(rows, method, case, column) for case in cases] for method in methods]
    table = np.array([[value for value, _ in line] for line in means])
    goodness = _goodness(table, larger=column == "f1")
    # On the darkest end of the map the numbers could not be read.
    shades = ListedColormap(colormaps["Blues"](np.linspace(0.02, 0.85, 256))).with_extremes(bad="#f4f5f6")
    pick = np.max if column == "f1" else np.min
    # Methods whose printed numbers are equal are all in bold.
    leaders = [_shown_value(float(pick(finite))) if (finite := own[np.isfinite(own)]).size else "" for own in table.T]
    axes.imshow(goodness, cmap=shades, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    for line, own in enumerate(means):
        for place, (value, lost) in enumerate(own):
            if not np.isfinite(value) and not lost:
                continue
            label = "div." if lost else _shown_value(value)
            axes.text(
                place, line, label, ha="center", va="center", fontsize=8.5,
                color="white" if np.isfinite(value) and goodness[line, place] > 0.68 else INK,
                fontweight="bold" if label == leaders[place] else "normal", fontstyle="italic" if lost else "normal",
            )  # fmt: skip
    axes.set_xticks(range(len(cases)), [case.replace("-", "\n", 1) for case in cases], fontsize=8.5)
    axes.set_yticks([])
    for edge in np.arange(0.5, len(cases) - 1):
        axes.axvline(edge, color="white", lw=1.2)
    for edge in np.arange(0.5, len(methods) - 1):
        axes.axhline(edge, color="white", lw=1.2)
    bare(axes, sides=())
    axes.tick_params(length=0)


def _goodness(table: Any, *, larger: bool) -> Any:
    """Map values to 0 (bad) ... 1 (good): F1 as it is, errors by their ratio to the best, three times being 0.3."""
    if larger:
        return np.clip(table, 0, 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        best = np.nanmin(np.where(np.isfinite(table), table, np.inf), axis=0)
        return np.where(np.isfinite(table), np.clip(best / np.maximum(table, 1e-300), 0, 1), np.nan)


FEW_DECADES = 100
"""Lengths closer together than this have a tick each, others have ticks at powers of ten."""
PANELS = {
    "seconds": "computation time (s)",
    "one_more": "time for one more day (s)",
    "peak_mb": "peak memory (MB)",
}
ONE_MORE = "One more day: an online method takes that day alone (drawn: its mean), a batch method begins again."


def growth_chart(rows: Rows, folder: Path | str, name: str = "growth", *, title: str = "") -> list[Path]:
    """Draw computation time, time for one more day, and peak memory against the length of the tensor.

    For one more day an online method takes that day alone; a batch method begins again with all of them.
    The length is the column `days`, or `x` where there is none. A panel without values is left out.
    """
    shifted = [_with_one_more(row) for row in rows]
    shown = [column for column in PANELS if any(np.isfinite(number(row, column)) for row in shifted)] or ["seconds"]
    figure = blank(WIDTH, 3.7 + 0.35 * bool(title))
    heading(figure, title)
    figure.get_layout_engine().set(w_pad=0.06, h_pad=0.06, wspace=0.02)
    for axes, column in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        _draw(axes, shifted, column)
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
        drawn = _positive(line.mean)
        axes.plot(line.x, drawn, label=method, **style.line)
        _band(axes, line, style.colour, log=True)
        last = np.flatnonzero(np.isfinite(drawn))[-1:]
        ends += [LineEnd(line.x[k], drawn[k], method, style.colour, bold=style.kind == "ours") for k in last]
    places = sorted({number(row, "x") for row in rows})
    if places[-1] < FEW_DECADES * places[0]:
        axes.set_xticks(places)
    finish_panel(axes, ends, across="length of the tensor (days)", up=PANELS[column])


MOST_TICKS, LABEL_HEIGHT = 8, 0.09
# NetworkModel beside the few batch methods, and the many online ones at the end.
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

    The panels stand side by side, four of them two by two.
    """
    columns = len(panels) if len(panels) <= 3 else 2
    lines = -(-len(panels) // columns)
    legend = _legend_columns(rows)
    below = 0.3 + 0.2 * max(map(len, legend)) + 0.2 * bool(diverged(rows))
    figure = blank(WIDTH, 3.5 * lines + 0.35 * bool(title) + below)
    heading(figure, title)
    _set_padding(figure)
    grid = figure.subplots(lines, columns, squeeze=False).ravel()
    beyond: list[str] = []
    for axes, panel in zip(grid, panels, strict=False):
        beyond += _draw_panel(axes, rows, panel, log_x=log_x)
        axes.set_xlabel(x_label, color=INK, fontsize=10)
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    edge = f"Past the upper edge: {', '.join(in_order(beyond))}." if beyond else ""
    _legend(figure, legend, " ".join(part for part in (diverged_note(rows), edge) if part))
    return save_both(figure, folder, name)


CONVERGENCE_STYLES: tuple[tuple[Any, float], ...] = (((0, (1, 1.2)), 0.75), ((0, (4, 1.5)), 0.85), ("-", 1.0))
"""Line style and opacity, which differ in grey: dotted to solid, as the minibatches grow."""


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
    _set_padding(figure)
    grid = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True)
    looks = []
    for place in range(len(settings)):
        # The largest setting is always the solid line.
        style, alpha = CONVERGENCE_STYLES[max(place - len(settings), -len(CONVERGENCE_STYLES))]
        width = 1.2 + 1.1 * place / max(len(settings) - 1, 1)
        looks.append({"linestyle": style, "linewidth": width, "alpha": alpha})
    for axes, method in zip(grid.ravel(), methods, strict=False):
        colour, bold = style_of(method).colour, style_of(method).kind == "ours"
        for setting, look in zip(settings, looks, strict=True):
            own = [row for row in rows if row["method"] == method and str(row.get("setting", "")) == setting]
            line = gather(own, "re", at=lambda row: number(row, "minibatch", "x"))
            axes.plot(line.x, _positive(line.mean), color=colour, label=setting, **look)
            _band(axes, line, colour, log=True)
        axes.set_yscale("log")
        finish_axes(axes)
        axes.set_title(method, fontsize=10, color=INK, fontweight="bold" if bold else "normal")
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
        Line2D([], [], color=INK, label=setting.replace("I3", "$I_3$"), **look)
        for setting, look in zip(settings, looks, strict=True)
    ]
    _add_legend(figure, keys, diverged_note(rows), ncols=len(keys), fontsize=10, handlelength=3)
    return save_both(figure, folder, name)


def _draw_panel(axes: Any, rows: Rows, panel: Panel, *, log_x: bool) -> list[str]:
    """Draw one panel; return the methods that have points past its upper edge."""
    beyond = []
    for method in reversed(in_order(row["method"] for row in rows)):
        style = style_of(method)
        line = gather([row for row in rows if row["method"] == method], panel.column)
        shown = _positive(line.mean) if panel.log else line.mean
        axes.plot(line.x, shown, label=method, **style.line)
        _band(axes, line, style.colour, log=panel.log)
        if panel.top is not None and (line.mean > panel.top).any():
            beyond.append(method)
    _scale(axes, panel)
    axes.set_ylabel(panel.label, color=INK, fontsize=10)
    places = sorted({float(row["x"]) for row in rows if np.isfinite(number(row, "x"))})
    if log_x:
        axes.set_xscale("log")
    if 0 < len(places) <= MOST_TICKS:
        axes.set_xticks(places, _apart([math.log(place) for place in places] if log_x else places, places))
    finish_axes(axes)
    return beyond


def _apart(places: list[float], values: list[float]) -> list[str]:
    """Return labels of ticks from the last one down, empty for those whose labels would touch."""
    labels: list[str] = []
    last = float("inf")
    for place, value in zip(reversed(places), reversed(values), strict=True):
        fits = last - place > LABEL_HEIGHT * (places[-1] - places[0])
        labels.append(f"{value:g}" if fits else "")
        last = place if fits else last
    return labels[::-1]


def _scale(axes: Any, panel: Panel) -> None:
    if panel.log:
        axes.set_yscale("log")
        if panel.top is not None:
            axes.set_ylim(top=1.2 * panel.top)
    elif panel.top is not None:
        # A margin, so that markers at 0 and at the top are whole.
        axes.set_ylim(-0.03 * panel.top, 1.04 * panel.top)
    else:
        top = axes.get_ylim()[1]
        axes.set_ylim(-0.03 * top, top)


def _band(axes: Any, line: PlottedLine, colour: str, *, log: bool) -> None:
    """Shade one standard deviation around a line."""
    x, mean, spread = line
    if np.isfinite(spread).any():
        low = np.maximum(mean - spread, mean / 3) if log else mean - spread
        axes.fill_between(x, low, mean + spread, color=colour, alpha=0.10, lw=0, zorder=1)


def _positive(values: Any) -> Any:
    return np.where(values > 0, values, np.nan)


def _by_number(text: str) -> tuple[float, str]:
    digits = "".join(letter if letter.isdigit() or letter == "." else " " for letter in text).split()
    try:
        return float(digits[-1]), text
    except (IndexError, ValueError):
        return float("inf"), text


def _legend_columns(rows: Rows) -> list[list[tuple[str, str]]]:
    """Return the legend in columns of (kind, method), with as few lines as the width allows.

    Each kind has a line above its methods, in which the method is empty. Short kinds share a column, a long one takes
    several.
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


def _legend(figure: Any, columns: list[list[tuple[str, str]]], note: str) -> None:
    """Draw the legend of `_legend_columns`."""
    from matplotlib.lines import Line2D

    height = max(map(len, columns))
    handles = []
    for column in columns:
        for kind, method in column + [("", " ")] * (height - len(column)):
            if method.strip():
                handles.append(Line2D([], [], label=method, **style_of(method).line))
            else:
                handles.append(Line2D([], [], linestyle="none", label=method or KINDS[kind]))
    legend = _add_legend(
        figure, handles, note, ncols=len(columns), fontsize=9.5, handlelength=3.2, columnspacing=2.0,
        labelspacing=0.35, borderaxespad=0.3,
    )  # fmt: skip
    for text in legend.get_texts():
        if text.get_text() in KINDS.values():
            text.set(color=GREYS[0], fontstyle="italic")
        elif style_of(text.get_text()).kind == "ours":
            text.set_fontweight("bold")


def _add_legend(figure: Any, handles: list[Any], note: str, **settings: Any) -> Any:
    """Draw one legend below all panels, and above it a note on what the figure does not show."""
    legend = figure.legend(
        handles=handles, loc="outside lower center", frameon=False, labelcolor=INK, title=fill(note, 130) or None,
        title_fontproperties={"size": 8.5}, **settings,
    )  # fmt: skip
    legend.get_title().set_color(GREYS[0])
    return legend


def _set_padding(figure: Any) -> None:
    """Keep each panel's label away from the panel before it."""
    figure.get_layout_engine().set(w_pad=0.09, h_pad=0.06, wspace=0.02)
