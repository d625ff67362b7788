"""Figures that compare methods side by side: bars for one network, a table in colours for many faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill, wrap
from typing import Any

import numpy as np

from sensormend.bench.runs import Rows, diverged_note, values
from sensormend.bench.styles import in_order, style_of
from sensormend.plot.canvas import GREYS, INK, bare, blank, heading, save_both

__all__ = ["bar_chart", "faults_chart"]

WIDTH = 10.0
ERRORS = {"missing": "error at missing readings", "faulty": "error in faulty fibers"}
# Past this many times the median method a bar is cut and its number says the rest: else the worst is all one sees.
CUT = 2.5
SIDE_BY_SIDE = 6
"""With more cases than this the tables stand one below the other."""


def bar_chart(
    rows: Rows, folder: Path | str, name: str = "noaa", *,
    published: Mapping[tuple[str, str], float] | None = None, unit: str = "°C", title: str = "",
) -> list[Path]:  # fmt: skip
    """Draw the table of one network as bars: F1, and the errors at missing readings and in faulty fibers.

    Parameters
    ----------
    rows
        Measured runs; each `setting` is one bar per method, the last one in full colour.
    folder, name
        Where to; `name.png` and `name.svg` are written.
    published
        F1 as the paper has it, by method and setting.
    unit
        Of the errors, which are root mean squares.
    title
        Above it all.
    """
    methods = in_order(row["method"] for row in rows)
    settings = list(dict.fromkeys(str(row.get("setting", "")) for row in rows))
    figure = blank(WIDTH, 1.5 + 0.35 * bool(title) + (0.1 + 0.17 * len(settings)) * len(methods))
    heading(figure, title)
    panels = figure.subplots(1, 3, sharey=True)
    _draw_f1(panels[0], rows, methods, settings, published or {})
    for axes, (column, label) in zip(panels[1:], ERRORS.items(), strict=True):
        _draw_bars(axes, rows, methods, settings, column, cut=True)
        axes.set_xlabel(f"{label} ({unit})", color=INK, fontsize=10)
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


def faults_chart(
    rows: Rows, folder: Path | str, name: str = "faults", *, unit: str = "°C", title: str = ""
) -> list[Path]:  # fmt: skip
    """Draw methods against cases (the column `setting`) as tables in colours: F1 and the two errors.

    Of a case whose faults begin at any hour these are by reading, of the others by fiber.

    The best of every column is in bold; dark is good.
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
    named = {"f1": "F1 score", **{column: f"{label} ({unit})" for column, label in ERRORS.items()}}
    for axes, (column, label) in zip(panels, named.items(), strict=True):
        _draw_table(axes, rows, methods, cases, column)
        axes.set_title(label, fontsize=10.5, color=INK, loc="left")
    for axes in panels[:1] if beside else panels:
        axes.set_yticks(range(len(methods)), methods, fontsize=9.5)
        for text, method in zip(axes.get_yticklabels(), methods, strict=True):
            text.set_fontweight("bold" if style_of(method).kind == "ours" else "normal")
    told = "Mean over the runs; the best of each column in bold, darker is better; div.: every run diverged."
    figure.supxlabel(
        "\n".join([told, *wrap(diverged_note(rows), 140)]), fontsize=8.5, color=GREYS[0], x=0.008, ha="left",
    )  # fmt: skip
    return save_both(figure, folder, name)


def _mean(rows: Rows, method: str, setting: str, column: str) -> tuple[float, bool]:
    """Return the mean of the runs that ended well, and whether there were runs and none of them did."""
    own = [row for row in rows if row["method"] == method and str(row.get("setting", "")) == setting]
    told = values(own, column)
    lost = bool(own) and all(row.get("status") == "diverged" for row in own)
    return (float(np.mean(told)) if told else float("nan")), lost


def _places(settings: Sequence[str]) -> tuple[float, list[float]]:
    """Return the height of a bar and how far each setting's is from the middle."""
    height = 0.72 / len(settings)
    return height, [(place - (len(settings) - 1) / 2) * height for place in range(len(settings))]


def _paleness(settings: Sequence[str]) -> list[float]:
    return [1.0 - 0.55 * (len(settings) - 1 - place) / max(len(settings) - 1, 1) for place in range(len(settings))]


def _said(value: float) -> str:
    return f"{value:.2f}" if value < 9.995 else f"{value:,.0f}" if value < 1e4 else f"{value:.0e}"


def _draw_bars(
    axes: Any, rows: Rows, methods: list[str], settings: list[str], column: str, *, cut: bool = False,
    inside: bool = False,
) -> None:  # fmt: skip
    """Draw one bar per method and setting with its number behind it, or in its end where marks follow."""
    height, offsets = _places(settings)
    found = {(m, s): _mean(rows, m, s, column) for m in methods for s in settings}
    told = [value for value, _ in found.values() if np.isfinite(value)]
    most = max(told, default=1.0)
    limit = min(most, CUT * float(np.median(told))) if cut and told else most
    for place, method in enumerate(methods):
        for setting, offset, share in zip(settings, offsets, _paleness(settings), strict=True):
            value, lost = found[method, setting]
            if not np.isfinite(value):
                if lost:
                    _beside(axes, 0.0, place + offset, "diverged")
                continue
            shown = min(value, limit)
            colour = _pale(style_of(method).colour, share)
            axes.barh(place + offset, shown, 0.9 * height, color=colour, zorder=2)
            said = ("▸ " if value > limit else "") + _said(value)
            if inside and shown > 0.25 * limit:
                ink = INK if _lightness(colour) > 0.55 else "white"
                _beside(axes, shown, place + offset, said, ink, xytext=(-3, 0), ha="right")
            else:
                mark = _mean(rows, method, setting, "f1_best")[0] if inside else np.nan
                _beside(axes, float(np.fmax(shown, mark)), place + offset, said)
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


def _lightness(colour: tuple[float, ...]) -> float:
    return float(np.dot((0.299, 0.587, 0.114), colour))


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
    legend = figure.legend(
        handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=9.5, labelcolor=INK,
        title=fill(note, 130) or None, title_fontproperties={"size": 8.5},
    )  # fmt: skip
    legend.get_title().set_color(GREYS[0])


def _draw_table(axes: Any, rows: Rows, methods: list[str], cases: list[str], column: str) -> None:
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    found = [[_mean(rows, method, case, column) for case in cases] for method in methods]
    table = np.array([[value for value, _ in line] for line in found])
    goodness = _goodness(table, larger=column == "f1")
    # The darkest end of the map would swallow the numbers.
    shades = ListedColormap(colormaps["Blues"](np.linspace(0.02, 0.85, 256))).with_extremes(bad="#f4f5f6")
    pick = np.max if column == "f1" else np.min
    # What reads the same is the same: methods that tie in print are all in bold.
    leaders = [_said(float(pick(told))) if (told := own[np.isfinite(own)]).size else "" for own in table.T]
    axes.imshow(goodness, cmap=shades, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    for line, own in enumerate(found):
        for place, (value, lost) in enumerate(own):
            if not np.isfinite(value) and not lost:
                continue
            said = "div." if lost else _said(value)
            axes.text(
                place, line, said, ha="center", va="center", fontsize=8.5,
                color="white" if np.isfinite(value) and goodness[line, place] > 0.68 else INK,
                fontweight="bold" if said == leaders[place] else "normal", fontstyle="italic" if lost else "normal",
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
    """Map figures to 0 (bad) ... 1 (good): F1 as it is, errors by their ratio to the best, three times being 0.3."""
    if larger:
        return np.clip(table, 0, 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        best = np.nanmin(np.where(np.isfinite(table), table, np.inf), axis=0)
        return np.where(np.isfinite(table), np.clip(best / np.maximum(table, 1e-300), 0, 1), np.nan)
