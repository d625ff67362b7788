"""What all pictures share: the palette, a blank figure, and files that are the same bytes every time."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from sensormend.errors import SensormendError

__all__ = ["BLUE", "GREYS", "INK", "ORANGE", "bare", "blank", "heading", "save", "save_both"]

# From Okabe and Ito's palette, which stays apart for every kind of colour blindness.
BLUE, ORANGE = "#0072b2", "#d55e00"
INK = "#3b4252"
GREYS = ("#56606b", "#8a94a0", "#b8c0c8", "#e3e7ea")
"""From text to hairlines."""

# Without a fixed salt an SVG's identifiers change with every run.
_SAVED = {"svg.hashsalt": "sensormend", "svg.fonttype": "path"}
_METADATA: dict[str, dict[str, None]] = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}


def blank(width: float, height: float) -> Any:
    """Return an empty matplotlib figure of a size in inches, outside of pyplot's list of open ones."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise SensormendError("pictures need matplotlib: pip install 'sensormend[plot]'") from None
    return Figure(figsize=(width, height), dpi=160, layout="constrained", facecolor="white")


def save(figure: Any, path: Path | str) -> Path:
    """Write a figure, in the format of the path's ending, with nothing in it of when and by what."""
    matplotlib: Any = import_module("matplotlib")
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(_SAVED):
        figure.savefig(target, metadata=_METADATA.get(target.suffix[1:].lower()))
    return target


def save_both(figure: Any, folder: Path | str, name: str) -> list[Path]:
    """Write `name.png` and `name.svg`; the layout, which takes longest, is worked out once."""
    png = save(figure, Path(folder) / f"{name}.png")
    figure.set_layout_engine("none")
    return [png, save(figure, Path(folder) / f"{name}.svg")]


def heading(figure: Any, title: str) -> None:
    """Put the title at the upper left; none where it is empty."""
    if title:
        figure.suptitle(title, x=0.008, ha="left", fontsize=13, fontweight="bold", color=INK)


def bare(axes: Any, *, sides: tuple[str, ...] = ("bottom",)) -> None:
    """Take away all of the frame but some sides, and draw the ticks in ink."""
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(side in sides)
        axes.spines[side].set_color(GREYS[2])
    axes.tick_params(colors=INK, labelsize=9, width=0.6)
