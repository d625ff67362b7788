"""`styled`, `blank` and `save` give all pictures one look, light or dark, and files that are the same on every run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from sensormend.errors import SensormendError

__all__ = ["BLUE", "DARK", "GREYS", "INK", "LIGHT", "ORANGE", "Colours", "bare", "blank", "dates_below", "heading",
           "save", "save_both", "styled"]  # fmt: skip

# From Okabe and Ito's palette, which can be distinguished with every kind of colour blindness.
BLUE, ORANGE = "#0072b2", "#d55e00"
INK = "#3b4252"
GREYS = ("#56606b", "#8a94a0", "#b8c0c8", "#e3e7ea")
"""From text to hairlines."""


@dataclass(frozen=True)
class Colours:
    """The colours of a light or a dark page.

    `health` has a colour for each of `HEALTH`; their lightness differs as well, so that they can be printed in grey.
    """

    page: str
    ink: str
    greys: tuple[str, str, str, str]
    raw: str
    cleaned: str
    fault_label: str
    doubt_label: str
    health: tuple[str, ...]


LIGHT = Colours("#ffffff", INK, GREYS, ORANGE, BLUE, "#a04000", "#7a6000",
                ("#edf3ef", "#d3e6f3", "#f0c419", "#d55e00", INK, "#cfcfcf"))  # fmt: skip
DARK = Colours("#14181d", "#d8dee6", ("#a9b2bc", "#7b8590", "#4b545e", "#2b3138"), "#f0803c", "#56b4e9", "#f4a36c",
               "#f0c419", ("#22302b", "#274357", "#f0c419", "#d55e00", "#8e99a6", "#565d66"))  # fmt: skip

# Without a fixed salt an SVG's identifiers change with every run.
_SAVED = {"svg.hashsalt": "sensormend", "svg.fonttype": "path"}
_METADATA: dict[str, dict[str, None]] = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}


@contextmanager
def styled(dark: bool | None = False) -> Iterator[Colours]:
    """Apply the look of our pictures, dark if matplotlib's own style is where `dark` is None; yield its colours."""
    try:
        matplotlib: Any = import_module("matplotlib")
    except ImportError:
        raise SensormendError("pictures need matplotlib: pip install 'sensormend[plot]'") from None
    if dark is None:
        dark = sum(import_module("matplotlib.colors").to_rgb(matplotlib.rcParams["figure.facecolor"])) < 1.5
    colours = DARK if dark else LIGHT
    names = ("text.color", "axes.labelcolor", "xtick.color", "ytick.color", "legend.labelcolor")
    look = {
        **dict.fromkeys(names, colours.ink),
        **dict.fromkeys(("figure.facecolor", "axes.facecolor"), colours.page),
        **dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), 9),
        "legend.frameon": False, "axes.titlelocation": "left", "axes.titlesize": 11, "figure.titlesize": 13,
        "figure.titleweight": "bold",
    }  # fmt: skip
    with import_module("matplotlib.style").context(["default", look]):
        yield colours


def blank(width: float, height: float) -> Any:
    """Return an empty matplotlib figure, size in inches, that pyplot does not keep open."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise SensormendError("pictures need matplotlib: pip install 'sensormend[plot]'") from None
    return Figure(figsize=(width, height), dpi=160, layout="constrained")


def save(figure: Any, path: Path | str) -> Path:
    """Write a figure in the format of the path's ending, without the date and the name of the program."""
    matplotlib: Any = import_module("matplotlib")
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(_SAVED):
        figure.savefig(target, metadata=_METADATA.get(target.suffix[1:].lower()))
    return target


def save_both(figure: Any, folder: Path | str, name: str) -> list[Path]:
    """Write `name.png` and `name.svg`; the layout, which takes longest, is computed once."""
    png = save(figure, Path(folder) / f"{name}.png")
    figure.set_layout_engine("none")
    return [png, save(figure, Path(folder) / f"{name}.svg")]


def heading(figure: Any, title: str) -> None:
    """Put the title at the upper left; do nothing if it is empty."""
    if title:
        figure.suptitle(title, x=0.008, ha="left", fontsize=13, fontweight="bold")


def bare(axes: Any, *, sides: tuple[str, ...] = ("bottom",), colour: str = GREYS[2]) -> None:
    """Remove all of the frame but some sides."""
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set(visible=side in sides, color=colour)
    axes.tick_params(labelsize=9, width=0.6)


def dates_below(axes: Any, *, least: int, most: int) -> None:
    """Write `least` to `most` dates below the axis, as fine as its span needs."""
    dates: Any = import_module("matplotlib.dates")
    ticks = dates.AutoDateLocator(minticks=least, maxticks=most)
    axes.xaxis.set_major_locator(ticks)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(ticks))
