"""`blank`, `save` and others provide the palette, empty figures, and files that are the same bytes on every run."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from sensormend.errors import SensormendError
from sensormend.pipeline.health import HEALTH

__all__ = [
    "AREAS_AT_NIGHT",
    "BLUE",
    "GREYS",
    "HEALTH_COLOURS",
    "INK",
    "MAP_COLOURS",
    "NIGHT",
    "ORANGE",
    "bare",
    "blank",
    "darken",
    "heading",
    "is_dark",
    "save",
    "save_both",
]

# From Okabe and Ito's palette, which can be distinguished with every kind of colour blindness.
BLUE, ORANGE = "#0072b2", "#d55e00"
INK = "#3b4252"
GREYS = ("#56606b", "#8a94a0", "#b8c0c8", "#e3e7ea")
"""From text to hairlines."""

NIGHT = {
    "#ffffff": "#14181d",
    INK: "#d8dee6",
    BLUE: "#56b4e9",
    ORANGE: "#f0803c",
    **dict(zip(GREYS, ("#a9b2bc", "#7b8590", "#4b545e", "#2b3138"), strict=True)),
    "#1f2933": "#eceff4",
    "#a04000": "#f4a36c",
    "#7a6000": "#f0c419",
    "#edf3ef": "#22302b",
    "#d3e6f3": "#274357",
    "#cfcfcf": "#565d66",
}
"""The colour on a dark page of each colour of a picture; others stay as they are."""

# The lightness differs as well as the hue, so that a health matrix can be printed in grey.
HEALTH_COLOURS = dict(zip(HEALTH, ("#edf3ef", "#d3e6f3", "#f0c419", "#d55e00", INK, "#cfcfcf"), strict=True))

# Ink that fills an area would be the brightest thing on a dark page.
AREAS_AT_NIGHT = NIGHT | {INK: "#8e99a6"}

# ColorBrewer's RdYlBu, the other way round: light in the middle and coloured, never black, at both ends.
MAP_COLOURS = ("#313695", "#4575b4", "#74add1", "#abd9e9", "#e0f3f8", "#ffffbf", "#fee090", "#fdae61", "#f46d43",
               "#d73027", "#a50026")  # fmt: skip

# Without a fixed salt an SVG's identifiers change with every run.
_SAVED = {"svg.hashsalt": "sensormend", "svg.fonttype": "path"}
_METADATA: dict[str, dict[str, None]] = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}


def blank(width: float, height: float) -> Any:
    """Return an empty matplotlib figure, size in inches, that pyplot does not keep open."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise SensormendError("pictures need matplotlib: pip install 'sensormend[plot]'") from None
    return Figure(figsize=(width, height), dpi=160, layout="constrained", facecolor="white")


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
    """Put the title at the upper left; none where it is empty."""
    if title:
        figure.suptitle(title, x=0.008, ha="left", fontsize=13, fontweight="bold", color=INK)


def bare(axes: Any, *, sides: tuple[str, ...] = ("bottom",)) -> None:
    """Remove all of the frame but some sides, and draw the ticks in ink."""
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(side in sides)
        axes.spines[side].set_color(GREYS[2])
    axes.tick_params(colors=INK, labelsize=9, width=0.6)


def is_dark() -> bool:
    """Return whether matplotlib is set to a dark style."""
    matplotlib: Any = import_module("matplotlib")
    red, green, blue, _ = import_module("matplotlib.colors").to_rgba(matplotlib.rcParams["figure.facecolor"])
    return bool(0.3 * red + 0.6 * green + 0.1 * blue < 0.5)


def darken(figure: Any) -> None:
    """Change the colours of a finished figure to those for a dark page."""
    colours: Any = import_module("matplotlib.colors")
    kinds = {name: getattr(import_module(f"matplotlib.{module}"), name) for name, module in
             (("Text", "text"), ("Line2D", "lines"), ("Patch", "patches"), ("Collection", "collections"),
              ("AxesImage", "image"))}  # fmt: skip

    def night(colour: Any, area: bool = False) -> Any:
        if isinstance(colour, str) and colour.lower() in ("none", "auto"):
            return colour
        named = (AREAS_AT_NIGHT if area else NIGHT).get(colours.to_hex(colour))
        return colour if named is None else (*colours.to_rgba(named)[:3], colours.to_rgba(colour)[3])

    for axes in figure.axes:
        axes.tick_params(colors=NIGHT[INK])
    for artist in figure.findobj():
        if isinstance(artist, kinds["Text"]):
            artist.set_color(night(artist.get_color()))
        elif isinstance(artist, kinds["Line2D"]):
            for name in ("color", "markerfacecolor", "markeredgecolor"):
                getattr(artist, f"set_{name}")(night(getattr(artist, f"get_{name}")()))
        elif isinstance(artist, kinds["Patch"]):
            artist.set_facecolor(night(artist.get_facecolor(), area=True))
            artist.set_edgecolor(night(artist.get_edgecolor()))
        elif isinstance(artist, kinds["Collection"]):
            artist.set_facecolor([night(colour) for colour in artist.get_facecolor()])
        elif isinstance(artist, kinds["AxesImage"]) and isinstance(artist.cmap, colours.ListedColormap):
            cells = colours.ListedColormap([night(colour, area=True) for colour in artist.cmap.colors])
            artist.set_cmap(cells.with_extremes(under=night(artist.cmap.get_under())))
