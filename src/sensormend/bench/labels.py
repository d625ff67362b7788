"""Names at the ends of lines, apart from each other: a figure that needs no legend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sensormend.plot.canvas import GREYS, INK, bare

__all__ = ["LineEnd", "apart", "finish_panel", "label_ends"]

BESIDE = 1.02
"""Where the names begin, as a share of the panel's width."""


@dataclass(frozen=True)
class LineEnd:
    """The last point of a line, and what to write beside it."""

    x: float
    y: float
    name: str
    colour: str
    bold: bool = False


def finish_panel(axes: Any, ends: Sequence[LineEnd], *, across: str, up: str) -> None:
    """Say what a panel's axes are, whole numbers written out, and name its lines at their ends."""
    axes.set_ylabel(up, color=INK, fontsize=10)
    axes.set_xlabel(across, color=INK, fontsize=10)
    axes.xaxis.set_major_formatter(lambda value, place: f"{value:,.0f}")
    axes.yaxis.set_major_formatter(lambda value, place: f"{value:,g}")
    axes.grid(axis="y", color=GREYS[3], lw=0.7, zorder=0)
    axes.set_axisbelow(True)
    bare(axes, sides=("left", "bottom"))
    axes.tick_params(which="minor", length=0, labelbottom=False, labelleft=False)
    label_ends(axes, ends)


def label_ends(axes: Any, ends: Sequence[LineEnd], *, gap: float = 0.065) -> None:
    """Write each line's name to the right of the panel, at the height of its end.

    Parameters
    ----------
    axes
        With its scales and limits as they will stay.
    gap
        The least distance of two names, as a share of the panel's height.
    """
    told = [end for end in ends if np.isfinite(end.y)]
    if not told:
        return
    axes.autoscale_view()
    heights = (axes.transScale + axes.transLimits).transform([(end.x, end.y) for end in told])[:, 1]
    for end, height in zip(told, apart(heights, gap), strict=True):
        axes.text(
            BESIDE, height, end.name, transform=axes.transAxes, va="center", ha="left", fontsize=9, color=end.colour,
            fontweight="bold" if end.bold else "normal",
        )  # fmt: skip


def apart(heights: Sequence[float], gap: float) -> list[float]:
    """Move heights as little as it takes to keep them apart, in their order and between 0 and 1 where they fit.

    Examples
    --------
    >>> [round(height, 2) for height in apart([0.5, 0.9, 0.52], 0.1)]
    [0.46, 0.9, 0.56]
    """
    order = np.argsort(heights, kind="stable")
    groups: list[list[float]] = []
    for height in np.asarray(heights, dtype=float)[order]:
        groups.append([height])
        # Two groups that touch become one, around the middle of what its members asked for.
        while len(groups) > 1 and _middle(groups[-1]) - _middle(groups[-2]) < gap * _steps(groups[-1], groups[-2]):
            last = groups.pop()
            groups[-1] += last
    placed = [
        _middle(group) + gap * (number - (len(group) - 1) / 2) for group in groups for number in range(len(group))
    ]
    for number in reversed(range(len(placed))):
        highest = 1.0 if number + 1 == len(placed) else placed[number + 1] - gap
        placed[number] = min(placed[number], highest)
    for number in range(len(placed)):
        placed[number] = max(placed[number], 0.0 if number == 0 else placed[number - 1] + gap)
    found = np.empty(len(placed))
    found[order] = placed
    return [float(height) for height in found]


def _middle(group: list[float]) -> float:
    return float(np.mean(group))


def _steps(upper: list[float], lower: list[float]) -> float:
    return (len(upper) + len(lower)) / 2
