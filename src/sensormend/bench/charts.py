"""`line_charts`, `bar_chart` and others draw measured rows with the axes of the paper, as PNG and SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill, wrap
from typing import Any

import numpy as np

from sensormend.bench.styles import in_order, style_of
from sensormend.bench.tables import pandas_module
from sensormend.plot.style import GREYS, INK, bare, blank, heading, save_both

__all__ = ["Panel", "Rows", "bar_chart", "convergence_chart", "diverged", "faults_chart", "finish_axes", "frame_of",
           "gather", "growth_chart", "line_charts"]  # fmt: skip

Rows = Sequence[Mapping[str, Any]]
"""One flat row per run: `method`, `setting`, `x`, `trial`, `status`, and metrics that may be None or NaN."""

Frame = Any
"""A `pandas.DataFrame`."""

WIDTH = 10.0
"""The width of every figure in inches."""

ERRORS = {"missing": "error at missing readings (°C)", "faulty": "error in faulty fibers (°C)"}

CUT = 2.5
"""A bar is cut at this multiple of the median method, with its number beside it: else the worst hides the others."""

SIDE_BY_SIDE = 6
"""With more cases than this the tables are stacked."""

LEGEND_COLUMNS = 5
"""As many names of methods as fit beside each other."""

MOST_TICKS = 8
"""With more values of x than this, matplotlib chooses the ticks."""


def frame_of(rows: Rows) -> Frame:
    """Return rows as a DataFrame."""
    frame = pandas_module().DataFrame(list(rows))
    for name, default in (("setting", ""), ("x", np.nan), ("trial", 0), ("status", "done")):
        frame[name] = frame[name].fillna(default) if name in frame else default
    return frame


def gather(frame: Frame, column: str, *by: str) -> Frame:
    """Return `mean` and `std` of a metric over the trials, by other columns; NaN where every run failed."""
    pandas = pandas_module()
    values = pandas.to_numeric(frame[column] if column in frame else pandas.Series(np.nan, frame.index))
    values = values.where((frame["status"] != "diverged") & np.isfinite(values))
    return values.groupby([frame[name] for name in by]).agg(["mean", "std"])


def diverged(frame: Frame) -> dict[str, tuple[int, int]]:
    """Return the numbers of diverged runs and of all runs of methods that diverged; a run may have many rows."""
    lost = frame["status"] == "diverged"
    runs = lost.groupby([frame[name] for name in ("method", "setting", "x", "trial")], dropna=False).any()
    counts = runs.groupby("method").agg(["sum", "count"])
    return {method: (int(lost), int(count)) for method, lost, count in counts.itertuples() if lost}


def _diverged_note(frame: Frame) -> str:
    lost = diverged(frame)
    named = [f"{method} ({lost[method][0]} of {lost[method][1]} runs)" for method in in_order(lost)]
    return f"Diverged, not drawn: {', '.join(named)}." if named else ""


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
    frame = frame_of(rows)
    columns = len(panels) if len(panels) <= 3 else 2
    figure, grid = _panels(-(-len(panels) // columns), columns, 3.7, title)
    beyond: list[str] = []
    places = sorted(frame["x"].dropna().unique())
    for axes, panel in zip(grid.ravel(), panels, strict=False):
        _draw_lines(axes, frame, panel.column, log=panel.log)
        axes.set_xscale("log" if log_x else "linear")
        if panel.top is not None:
            # A margin, so that markers at 0 and at the top are whole.
            axes.set_ylim(None if panel.log else -0.03 * panel.top, 1.04 * panel.top)
            highest = gather(frame, panel.column, "method", "x")["mean"].groupby("method").max()
            beyond += highest.index[highest > panel.top].tolist()
        if 0 < len(places) <= MOST_TICKS:
            axes.set_xticks(places, [f"{place:g}" for place in places])
        finish_axes(axes, x_label, panel.label)
    edge = f"Past the upper edge: {', '.join(in_order(beyond))}." if beyond else ""
    _legend(figure, grid.flat[0], " ".join(part for part in (_diverged_note(frame), edge) if part))
    return save_both(figure, folder, name)


def convergence_chart(rows: Rows, folder: Path | str, name: str = "convergence", *, title: str = "") -> list[Path]:
    """Draw RE against the number of the minibatch, a panel per method, a line per setting (the paper's I3)."""
    frame = frame_of(rows)
    methods = in_order(frame["method"])
    settings = sorted(frame["setting"].unique(), key=lambda setting: float(setting.rpartition(" ")[2]))
    figure, grid = _panels(-(-len(methods) // 4), min(len(methods), 4), 3.2, title, sharex=True, sharey=True)
    for axes, method in zip(grid.ravel(), methods, strict=False):
        for number, setting in enumerate(settings, start=1 - len(settings)):
            own = frame[(frame["method"] == method) & (frame["setting"] == setting)]
            # The larger the minibatches, the wider and darker the line; the largest is solid.
            style = {"color": style_of(method).colour, "linestyle": (":", "--", "-")[max(number, -2) + 2],
                     "linewidth": 2.3 + 0.5 * max(number, -3), "alpha": 1 + 0.12 * max(number, -3)}  # fmt: skip
            _draw_line(axes, gather(own, "re", "minibatch"), setting, style, log=True)
        axes.set_yscale("log")
        axes.set_title(method, fontsize=10, color=INK)
        finish_axes(axes, "minibatch", "RE")
    _legend(figure, grid.flat[0], _diverged_note(frame))
    return save_both(figure, folder, name)


GROWTH = {
    "seconds": "computation time (s)",
    "one_more": "time for one more day (s)",
    "peak_mb": "peak memory (MB)",
}
ONE_MORE = "One more day: an online method takes that day alone (drawn: its mean), a batch method begins again."


def growth_chart(rows: Rows, folder: Path | str, name: str = "growth", *, title: str = "") -> list[Path]:
    """Draw computation time, time for one more day, and peak memory against the number of days.

    For one more day an online method takes that day alone; a batch method begins again with all of them. A panel
    without values is left out.
    """
    frame = frame_of(rows)
    batch = frame["method"].map(lambda method: style_of(method).kind == "batch")
    frame = frame.assign(x=frame["days"], one_more=frame["seconds"].where(batch, frame["seconds"] / frame["days"]))
    shown = [column for column in GROWTH if column in frame and frame[column].notna().any()]
    figure, grid = _panels(1, len(shown), 4.2, title)
    for axes, column in zip(grid.flat, shown, strict=True):
        _draw_lines(axes, frame, column, log=True)
        axes.set_xscale("log")
        finish_axes(axes, "length of the tensor (days)", GROWTH[column])
    _legend(figure, grid.flat[0], " ".join(part for part in (ONE_MORE, _diverged_note(frame)) if part))
    return save_both(figure, folder, name)


def bar_chart(
    rows: Rows, folder: Path | str, name: str = "noaa", *,
    published: Mapping[tuple[str, str], float] | None = None, title: str = "",
) -> list[Path]:  # fmt: skip
    """Draw the table of one network as bars: F1, and the errors at missing readings and in faulty fibers.

    Each `setting` is one bar per method, the last one in full colour; `published` is F1 in the paper, by method and
    setting.
    """
    frame = frame_of(rows)
    methods, settings = in_order(frame["method"]), list(dict.fromkeys(frame["setting"]))
    height, lost = 0.72 / len(settings), diverged(frame)
    figure, grid = _panels(1, 3, 1.5 + (0.1 + 0.17 * len(settings)) * len(methods), title, sharey=True)
    for axes, (column, label) in zip(grid.flat, {"f1": "F1 score", **ERRORS}.items(), strict=True):
        means = _table(frame, column, methods, settings)
        limit = 1.0 if column == "f1" else float(min(np.nanmax(means), CUT * np.nanmedian(means)))
        for number, (setting, own) in enumerate(zip(settings, means.T, strict=True)):
            middle = np.arange(len(methods)) + (number - (len(settings) - 1) / 2) * height
            bars = axes.barh(
                middle, np.clip(np.nan_to_num(own), 0, limit), 0.9 * height, label=setting, zorder=2,
                color=[style_of(method).colour for method in methods], alpha=0.45 + 0.55 * (number + 1) / len(settings),
            )  # fmt: skip
            texts = [
                _shown(value) if value <= limit else f"▸ {_shown(value)}" if value > limit else absent
                for value, absent in zip(own, ["diverged" if method in lost else "" for method in methods], strict=True)
            ]
            # Beside a bar of F1 stand the marks of the oracle and of the paper.
            inside = {"label_type": "center", "color": "white"} if column == "f1" else {"color": GREYS[0], "padding": 3}
            for text, value in zip(axes.bar_label(bars, texts, fontsize=7.5, **inside), own, strict=True):
                text.set(**{} if np.isfinite(value) else {"color": GREYS[0], "ha": "left"})
            if column == "f1":
                best = _table(frame, "f1_best", methods, settings)[:, number]
                axes.plot(best, middle, "|", color=INK, ms=6, mew=1.6, zorder=4)
                printed = [(published or {}).get((method, setting), np.nan) for method in methods]
                axes.plot(printed, middle, "D", ms=4, mfc="white", mec=INK, mew=1, zorder=6)
        axes.set_xlim(0, 1.18 * limit)
        finish_axes(axes, label, "")
    grid.flat[0].set_yticks(range(len(methods)), methods)
    grid.flat[0].invert_yaxis()
    note = f"{_diverged_note(frame)} The line is F1 at the best threshold (an oracle), the diamond F1 in the paper; "
    figure.supxlabel(fill(f"{note}from above: {', '.join(settings)}.", 150), fontsize=8.5, color=GREYS[0])
    return save_both(figure, folder, name)


def faults_chart(rows: Rows, folder: Path | str, name: str = "faults", *, title: str = "") -> list[Path]:
    """Draw methods against cases (the column `setting`) as tables in colours: F1 and the two errors.

    They are by reading where faults begin at any hour, else by fiber. The best of every column is in bold; dark is
    good.
    """
    frame = frame_of(rows)
    methods, cases = in_order(frame["method"]), list(dict.fromkeys(frame["setting"]))
    beside, lost = len(cases) <= SIDE_BY_SIDE, diverged(frame)
    shape = (1, 3) if beside else (3, 1)
    figure, grid = _panels(*shape, 0.24 * len(methods) + 1.1, title, sharey=beside)
    for axes, (column, label) in zip(grid.flat, {"f1": "F1 score", **ERRORS}.items(), strict=True):
        means = _table(frame, column, methods, cases)
        _draw_table(axes, means, larger=column == "f1", absent=["div." if method in lost else "" for method in methods])
        axes.set_xticks(range(len(cases)), [case.replace("-", "\n", 1) for case in cases], fontsize=8.5)
        axes.set_yticks(range(len(methods)), methods, fontsize=9.5)
        axes.set_title(label, fontsize=10.5, color=INK, loc="left")
    note = "Mean over the runs; the best of each column in bold, darker is better; div.: every run diverged."
    lines = [note, *wrap(_diverged_note(frame), 140)]
    figure.supxlabel("\n".join(lines), fontsize=8.5, color=GREYS[0], x=0.008, ha="left")
    return save_both(figure, folder, name)


def _panels(lines: int, columns: int, height: float, title: str, **shared: Any) -> tuple[Any, Any]:
    """Return a figure and its panels, each so high in inches."""
    figure = blank(WIDTH, height * lines + 0.35 * bool(title))
    heading(figure, title)
    figure.get_layout_engine().set(w_pad=0.09, h_pad=0.06, wspace=0.02)
    return figure, figure.subplots(lines, columns, squeeze=False, **shared)


def _draw_lines(axes: Any, frame: Frame, column: str, *, log: bool) -> None:
    """Draw a line for every method, ours last and on top."""
    for method in reversed(in_order(frame["method"])):
        own = gather(frame[frame["method"] == method], column, "x")
        _draw_line(axes, own, method, style_of(method).line, log=log)
    axes.set_yscale("log" if log else "linear")


def _draw_line(axes: Any, line: Frame, label: str, style: Mapping[str, Any], *, log: bool) -> None:
    """Draw a mean, and shade one standard deviation around it."""
    mean, spread = line["mean"].where(line["mean"] > 0) if log else line["mean"], line["std"]
    axes.plot(line.index, mean, label=label, **style)
    low = np.maximum(mean - spread, mean / 3) if log else mean - spread
    axes.fill_between(line.index.to_numpy(float), low, mean + spread, color=style["color"], alpha=0.10, lw=0, zorder=1)


def finish_axes(axes: Any, across: str, up: str) -> None:
    """Label the axes; leave only the left and the bottom side of the frame."""
    axes.set_xlabel(across, color=INK, fontsize=10)
    axes.set_ylabel(up, color=INK, fontsize=10)
    bare(axes, sides=("left", "bottom"))


def _legend(figure: Any, axes: Any, note: str) -> None:
    """Draw one legend below all panels, and above it a note on what the figure does not show."""
    handles, labels = axes.get_legend_handles_labels()
    ordered = sorted(zip(labels, handles, strict=True), key=lambda entry: in_order(labels).index(entry[0]))
    legend = figure.legend(
        [handle for _, handle in ordered], [label for label, _ in ordered], loc="outside lower center", frameon=False,
        labelcolor=INK, ncols=min(LEGEND_COLUMNS, len(labels)), fontsize=9, handlelength=3,
        title=fill(note, 130) or None, title_fontproperties={"size": 8.5},
    )  # fmt: skip
    legend.get_title().set_color(GREYS[0])


def _table(frame: Frame, column: str, methods: Sequence[str], settings: Sequence[str]) -> Any:
    """Return the mean of a metric, (method, setting)."""
    means = gather(frame, column, "method", "setting")["mean"].unstack()
    return means.reindex(index=methods, columns=settings).to_numpy(float)


def _draw_table(axes: Any, means: Any, *, larger: bool, absent: Sequence[str]) -> None:
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    with np.errstate(invalid="ignore", divide="ignore"):
        # 0 (bad) to 1 (good): F1 as it is, errors by their ratio to the best.
        best = np.fmax.reduce(means) if larger else np.fmin.reduce(means)
        goodness = np.clip(means if larger else best / np.maximum(means, 1e-300), 0, 1)
    # On the darkest end of the map the numbers could not be read.
    shades = ListedColormap(colormaps["Blues"](np.linspace(0.02, 0.85, 256))).with_extremes(bad="#f4f5f6")
    axes.imshow(goodness, cmap=shades, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    for (line, place), value in np.ndenumerate(means):
        label = _shown(value) if np.isfinite(value) else absent[line]
        axes.text(
            place, line, label, ha="center", va="center", fontsize=8.5,
            color="white" if np.isfinite(value) and goodness[line, place] > 0.68 else INK,
            # Methods whose printed numbers are equal are all in bold.
            fontweight="bold" if np.isfinite(value) and label == _shown(best[place]) else "normal",
        )  # fmt: skip
    bare(axes, sides=())
    axes.tick_params(length=0)


def _shown(value: float) -> str:
    return f"{value:.2f}" if value < 9.995 else f"{value:,.0f}" if value < 1e4 else f"{value:.0e}"
