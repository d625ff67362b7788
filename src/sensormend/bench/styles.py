"""`style_of` returns the colour, the marker and the kind of line of a method, the same in every figure.

A family of methods has a colour, its members have markers; online methods have solid lines, batch methods
dashed ones, plain rules dotted ones. So a figure can be read in colour, with colour blindness, and in grey.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from sensormend.plot.style import BLUE, INK, ORANGE

__all__ = ["Style", "in_order", "style_of"]

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
    kinds, listed = list(LINES), list(STYLES)

    def key(method: str) -> tuple[int, int, str]:
        name = _ALIASES.get(method, method)
        return kinds.index(style_of(method).kind), listed.index(name) if name in STYLES else len(listed), method

    return sorted(set(methods), key=key)
