"""`line_charts`, `convergence_chart` and `score_chart` draw measured rows by pandas and matplotlib, as PNG and SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np

from sensormend.bench.tables import KINDS, METRICS, Frame
from sensormend.plot.style import BLUE, GREYS, INK, ORANGE, bare, blank, heading, save_both

__all__ = ["Panel", "convergence_chart", "diverged", "in_order", "line_charts", "line_style", "score_chart"]

WIDTH = 10.0
"""The width of every figure in inches."""

LINES: dict[str, Any] = {"online": "-", "batch": "--", "plain": ":"}
"""NetworkModel and online methods have solid lines, batch methods dashed ones, plain rules dotted ones."""

GREEN, OLIVE, DARK = "#009e73", "#8f8a1f", "#1f2933"
STYLES: dict[str, tuple[str, str]] = {
    "NetworkModel": (BLUE, "o"),
    "OLRTR": (GREEN, "s"),
    "OLRTR r3": (GREEN, "D"),
    "OLRTR r20": (GREEN, "P"),
    "OLRTR r3 Jacobi": (GREEN, "d"),
    "OLRTR r20 Jacobi": (GREEN, "+"),
    "ORLTM": ("#cc79a7", "v"),
    "StocRPCA": ("#e69f00", "^"),
    "OSTD": ("#56b4e9", "X"),
    "OSTD gaps as 0": ("#56b4e9", "x"),
    "OLRSC": ("#882255", "<"),
    "OLRSC 2 epochs": ("#882255", "4"),
    "GRASTA": (OLIVE, "h"),
    "GRASTA r5": (OLIVE, ">"),
    "GRASTA r20": (OLIVE, "H"),
    "RTR": (DARK, "*"),
    "RTR 0.75": (DARK, "8"),
    "TRPCA": (ORANGE, "p"),
    "rolling median": ("#7b8591", "1"),
    "buddy check": ("#9c6b4a", "2"),
}
"""Colour and marker of each method, the same in every figure: a family has a colour, its members have markers."""


class Panel(NamedTuple):
    """One panel: a column of the rows, its label, and its scale; `top` is the upper limit of a linear one."""

    column: str
    label: str
    log: bool = False
    top: float | None = None


def line_style(method: str, kind: str) -> dict[str, Any]:
    """Return the keyword arguments of matplotlib's `plot` for a method; others than in `STYLES` are grey."""
    colour, marker = STYLES.get(method.removesuffix(" (reconstruction)"), (GREYS[1], "."))
    ours = kind == "ours"
    return {"color": colour, "marker": marker, "linestyle": LINES.get(kind, "-"), "linewidth": 2.6 if ours else 1.3,
            "markersize": 7 if ours else 5.5, "zorder": 6 if ours else 3}  # fmt: skip


def in_order(rows: Frame) -> dict[str, str]:
    """Return the kind of every method of some rows, in the order of legends: by kind, then as in `STYLES`."""
    kinds, listed = dict(zip(rows["method"], rows["kind"], strict=True)), list(STYLES)

    def place(method: str) -> tuple[int, int]:
        name = method.removesuffix(" (reconstruction)")
        return KINDS.index(kinds[method]), listed.index(name) if name in STYLES else len(listed)

    return {method: kinds[method] for method in sorted(kinds, key=place)}


def diverged(rows: Frame) -> dict[str, tuple[int, int]]:
    """Return the numbers of diverged runs and of all runs of methods that diverged; a run may have many rows."""
    lost = rows.assign(lost=rows["status"] == "diverged")
    runs = lost.groupby(["method", "setting", "x", "trial"], dropna=False)["lost"].any().groupby("method")
    return {method: (int(runs.sum()[method]), int(runs.size()[method])) for method in runs.sum().index[runs.any()]}


def line_charts(
    rows: Frame, folder: Path | str, name: str, *, panels: Sequence[Panel], x_label: str, title: str = "",
    log_x: bool = False, note: str = "",
) -> list[Path]:  # fmt: skip
    """Draw each panel's column against `x`: the mean over the trials and one standard deviation; no empty panels."""
    done, methods = rows[rows["status"] == "done"], in_order(rows)
    panels = [panel for panel in panels if done[panel.column].notna().any()]
    figure = _figure(3.7, title)
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        groups = done.groupby(["method", "x"])[panel.column]
        means, spreads = groups.mean(), groups.std().fillna(0)
        for method, kind in reversed(methods.items()):
            if method in means.index:
                own = means[method]
                axes.errorbar(own.index, own.to_numpy(), spreads[method].to_numpy(), label=method, elinewidth=0.6,
                              **line_style(method, kind))  # fmt: skip
        axes.set(xlabel=x_label, ylabel=panel.label, xscale="log" if log_x else "linear",
                 yscale="log" if panel.log else "linear")  # fmt: skip
        if panel.top is not None:
            axes.set_ylim(-0.03 * panel.top, 1.04 * panel.top)
        bare(axes, sides=("left", "bottom"))
    _legend(figure, list(methods), f"{note} {_diverged_note(rows)}".strip())
    return save_both(figure, folder, name)


def convergence_chart(rows: Frame, folder: Path | str, *, title: str = "") -> list[Path]:
    """Draw RE against the number of the minibatch, a panel per method, a line per size of minibatches."""
    done, methods = rows[rows["status"] == "done"], list(in_order(rows))
    figure = _figure(3.2, title)
    panels = figure.subplots(1, len(methods), squeeze=False, sharey=True)[0]
    for axes, method in zip(panels, methods, strict=True):
        means = done[done["method"] == method].groupby(["x", "minibatch"])["re"].mean().unstack(0)
        means.rename(columns="I3 = {:g}".format).plot(ax=axes, title=method, ylabel="RE", logy=True, legend=False)
        bare(axes, sides=("left", "bottom"))
    _legend(figure, [], _diverged_note(rows))
    return save_both(figure, folder, "convergence")


def score_chart(rows: Frame, folder: Path | str, name: str, *, title: str = "") -> list[Path]:
    """Draw methods against settings as tables in colours: F1 and the errors; the darker, the better."""
    from matplotlib import colormaps

    methods, settings = list(in_order(rows)), list(dict.fromkeys(rows["setting"]))
    beside = len(settings) <= 6
    figure = _figure((0.24 * len(methods) + 0.9) * (1 if beside else 3), title)
    grid = figure.subplots(*(1, 3) if beside else (3, 1), sharey=beside)
    shades = colormaps["Blues"].with_extremes(bad="#f4f5f6")
    done = rows[rows["status"] == "done"]
    for axes, column in zip(grid, ("f1", "missing", "faulty"), strict=True):
        means = done.groupby(["method", "setting"])[column].mean().unstack().reindex(index=methods, columns=settings)
        # 0 (bad) to 1 (good): F1 as it is, errors by their ratio to the best.
        goodness = means if column == "f1" else means.min() / means
        axes.imshow(goodness.to_numpy(float), cmap=shades, vmin=0, vmax=1.2, aspect="auto")
        for (line, place), value in np.ndenumerate(means.to_numpy(float)):
            text = f"{value:.2f}" if value < 100 else f"{value:.0e}"
            colour = "white" if goodness.iloc[line, place] > 0.8 else INK
            axes.text(
                place, line, text if np.isfinite(value) else "-", ha="center", va="center", fontsize=8.5, color=colour
            )
        axes.set_xticks(range(len(settings)), [str(setting).replace("-", "\n", 1) for setting in settings])
        axes.set_yticks(range(len(methods)), methods)
        axes.set_title(METRICS[column], fontsize=10.5, color=INK, loc="left")
        bare(axes, sides=())
    _legend(figure, [], f"Mean over the runs; darker is better. {_diverged_note(rows)}")
    return save_both(figure, folder, name)


def _figure(height: float, title: str) -> Any:
    figure = blank(WIDTH, height + 0.35 * bool(title))
    heading(figure, title)
    return figure


def _legend(figure: Any, order: Sequence[str], note: str) -> None:
    """Draw one legend below all panels, in this order where it is given, and a note on what is not shown."""
    handles: Mapping[str, Any] = {
        label: handle for handle, label in zip(*figure.axes[0].get_legend_handles_labels(), strict=True)
    }
    labels = [label for label in order if label in handles] or list(handles)
    figure.legend([handles[label] for label in labels], labels, loc="outside lower center", frameon=False, ncols=5,
                  labelcolor=INK, fontsize=9, title=fill(note, 130) or None, title_fontsize=8.5)  # fmt: skip


def _diverged_note(rows: Frame) -> str:
    named = [f"{method} ({lost} of {runs} runs)" for method, (lost, runs) in diverged(rows).items()]
    return f"Diverged, not drawn: {', '.join(named)}." if named else ""
