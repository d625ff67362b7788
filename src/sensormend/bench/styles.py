"""`style_of` returns the colour, the marker and the kind of line of a method, the same in every figure.

A family of methods has a colour, its members have markers; online methods have solid lines, batch methods
dashed ones, plain rules dotted ones. So a figure can be read in colour, with colour blindness, and in grey.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np

from sensormend.plot.canvas import BLUE, GREYS, INK, ORANGE, bare

__all__ = ["KINDS", "LineEnd", "Style", "apart", "finish_axes", "finish_panel", "in_order", "style_of"]

KINDS = {"ours": "ours", "online": "online", "batch": "batch", "plain": "plain rules"}
"""Titles of the kinds of methods in a legend, in its order."""

LINES: dict[str, Any] = {"ours": "-", "online": "-", "batch": (0, (4.5, 1.8)), "plain": (0, (1, 1.6))}


@dataclass(frozen=True)
class Style:
    """The style of one method; `hollow` markers are white inside."""

    colour: str
    marker: str
    kind: str = "online"
    hollow: bool = False

    @property
    def line(self) -> dict[str, Any]:
        """Keyword arguments for matplotlib's `plot`."""
        ours = self.kind == "ours"
        return {
            "color": self.colour,
            "linestyle": LINES[self.kind],
            "linewidth": 2.6 if ours else 1.3,
            "marker": self.marker,
            "markersize": {"ours": 7.0, "plain": 8.0}.get(self.kind, 5.5),
            "markerfacecolor": "white" if self.hollow else self.colour,
            "markeredgecolor": self.colour,
            "markeredgewidth": 1.6 if self.kind == "plain" else 1.2,
            "zorder": 6 if ours else 3,
        }


_GREEN, _OLIVE = "#009e73", "#8f8a1f"

STYLES: dict[str, Style] = {
    "NetworkModel": Style(BLUE, "o", "ours"),
    "OLRTR": Style(_GREEN, "s"),
    "OLRTR r3": Style(_GREEN, "D"),
    "OLRTR r20": Style(_GREEN, "P"),
    "OLRTR r3 Jacobi": Style(_GREEN, "D", hollow=True),
    "OLRTR r20 Jacobi": Style(_GREEN, "P", hollow=True),
    "ORLTM": Style("#cc79a7", "v"),
    "StocRPCA": Style("#e69f00", "^"),
    "OSTD": Style("#56b4e9", "X"),
    "OLRSC": Style("#882255", "<"),
    "GRASTA": Style(_OLIVE, "h"),
    "GRASTA r5": Style(_OLIVE, ">"),
    "GRASTA r20": Style(_OLIVE, ">", hollow=True),
    "RTR": Style("#1f2933", "*", "batch"),
    "RTR 0.75": Style("#1f2933", "*", "batch", hollow=True),
    "TRPCA": Style(ORANGE, "p", "batch"),
    "rolling median": Style("#7b8591", "1", "plain"),
    "buddy check": Style("#9c6b4a", "2", "plain"),
}

_FREE_COLOURS = ("#332288", "#aa4499", "#117733", "#a6761d", "#ca0020", INK)
_ALIASES = {"ORLTM (reconstruction)": "ORLTM"}


def style_of(method: str) -> Style:
    """Return a method's style; an unknown one gets its initial as marker, and a colour from its name."""
    style = STYLES.get(_ALIASES.get(method, method))
    if style is not None:
        return style
    kind = "ours" if method.startswith("NetworkModel") else "online"
    initial = next((letter for letter in method if letter.isalnum()), "x")
    return Style(_FREE_COLOURS[crc32(method.encode()) % len(_FREE_COLOURS)], f"${initial}$", kind)


def in_order(methods: Iterable[str]) -> list[str]:
    """Sort methods for legends and tables: by kind, then as listed here, unknown ones last."""
    kinds, listed = list(KINDS), list(STYLES)

    def key(method: str) -> tuple[int, int, str]:
        name = _ALIASES.get(method, method)
        return kinds.index(style_of(method).kind), listed.index(name) if name in STYLES else len(listed), method

    return sorted(set(methods), key=key)


NAMES_FROM, NAMES_GAP = 1.02, 0.065
"""Where the names of lines begin, as a share of the panel's width, and their least distance, of its height."""


@dataclass(frozen=True)
class LineEnd:
    """The last point of a line, and its label."""

    x: float
    y: float
    name: str
    colour: str
    bold: bool = False


def finish_axes(axes: Any) -> None:
    """Draw horizontal grid lines behind the data, and only the left and the bottom side of the frame."""
    axes.grid(axis="y", color=GREYS[3], lw=0.7, zorder=0)
    axes.set_axisbelow(True)
    bare(axes, sides=("left", "bottom"))
    axes.tick_params(which="minor", length=0)


def finish_panel(axes: Any, ends: Sequence[LineEnd], *, across: str, up: str) -> None:
    """Label a panel with its final scales and limits: its axes, and each line at the height of its end."""
    axes.set_ylabel(up, color=INK, fontsize=10)
    axes.set_xlabel(across, color=INK, fontsize=10)
    axes.xaxis.set_major_formatter(lambda value, place: f"{value:,.0f}")
    axes.yaxis.set_major_formatter(lambda value, place: f"{value:,g}")
    finish_axes(axes)
    axes.tick_params(which="minor", labelbottom=False, labelleft=False)
    finite = [end for end in ends if np.isfinite(end.y)]
    if not finite:
        return
    axes.autoscale_view()
    heights = (axes.transScale + axes.transLimits).transform([(end.x, end.y) for end in finite])[:, 1]
    for end, height in zip(finite, apart(heights, NAMES_GAP), strict=True):
        axes.text(
            NAMES_FROM, height, end.name, transform=axes.transAxes, va="center", ha="left", fontsize=9,
            color=end.colour, fontweight="bold" if end.bold else "normal",
        )  # fmt: skip


def apart(heights: Sequence[float], gap: float) -> list[float]:
    """Move heights as little as needed to keep them apart, in their order and between 0 and 1 where they fit.

    Examples
    --------
    >>> [round(height, 2) for height in apart([0.5, 0.9, 0.52], 0.1)]
    [0.46, 0.9, 0.56]
    """
    order = np.argsort(heights, kind="stable")
    groups: list[list[float]] = []
    for height in np.asarray(heights, dtype=float)[order]:
        groups.append([height])
        # Two groups that touch become one, around the mean of the wanted heights.
        while len(groups) > 1 and np.mean(groups[-1]) - np.mean(groups[-2]) < gap * len(groups[-2] + groups[-1]) / 2:
            last = groups.pop()
            groups[-1] += last
    placed = [
        float(np.mean(group)) + gap * (number - (len(group) - 1) / 2)
        for group in groups
        for number in range(len(group))
    ]
    for number in reversed(range(len(placed))):
        highest = 1.0 if number + 1 == len(placed) else placed[number + 1] - gap
        placed[number] = min(placed[number], highest)
    for number in range(len(placed)):
        placed[number] = max(placed[number], 0.0 if number == 0 else placed[number - 1] + gap)
    places = np.empty(len(placed))
    places[order] = placed
    return [float(height) for height in places]
