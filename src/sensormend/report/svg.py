"""`svg` and its helpers draw with scales, ticks and short paths; `palette_png` draws cells of few colours."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sensormend.readings import DAY, HOUR, MINUTE, SECOND
from sensormend.recovery import BoolArray, FloatArray
from sensormend.report.markup import MONTHS, Html, tag

__all__ = [
    "Scale",
    "as_uri",
    "band",
    "line",
    "palette_png",
    "rect_path",
    "short",
    "svg",
    "text",
    "time_ticks",
    "value_ticks",
]

STEPS = (SECOND, 10 * SECOND, MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY,
         7 * DAY, 14 * DAY)  # fmt: skip


@dataclass(frozen=True)
class Scale:
    """A linear scale: `low` is drawn at `start`, `high` at `end`."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: FloatArray) -> FloatArray:
        """Return the positions of values."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def place(self, value: float) -> float:
        """Return the position of one value."""
        return float(self.at(np.float64(value)))  # type: ignore[arg-type]


def short(value: float) -> str:
    """Format a position to a tenth of a pixel, as short as possible.

    Examples
    --------
    >>> short(12.04), short(-0.04), short(3.26)
    ('12', '0', '3.3')
    """
    text = f"{value:.1f}"
    return "0" if text == "-0.0" else text.removesuffix(".0")


def line(x: FloatArray, y: FloatArray) -> str:
    """Return the path through points, interrupted where one is NaN; a single point is a dot.

    Points within a tenth of a pixel of the one before are left out, and those on a straight line between two.
    """
    parts: list[str] = []
    for run in _runs(np.isfinite(x) & np.isfinite(y)):
        across, down = np.round(x[run] * 10).astype(np.int64), np.round(y[run] * 10).astype(np.int64)
        keep = _bends(across, down)
        across, down = across[keep], down[keep]
        parts.append(f"M{_tenths(across[0])} {_tenths(down[0])}")
        if across.size == 1:
            parts.append("h0")
        parts += [f"l{_tenths(right)} {_tenths(lower)}" for right, lower in zip(
            np.diff(across).tolist(), np.diff(down).tolist(), strict=True)]  # fmt: skip
    return "".join(parts)


def band(x: FloatArray, lower: FloatArray, upper: FloatArray, half: float = 0.0) -> str:
    """Return the area between two lines; `half` a slot is added before and after each run."""
    parts = []
    for run in _runs(np.isfinite(x) & np.isfinite(lower) & np.isfinite(upper)):
        place = x[run]
        across = np.concatenate([[place[0] - half], place, [place[-1] + half]])
        edges = [np.concatenate([[edge[run][0]], edge[run], [edge[run][-1]]]) for edge in (lower, upper)]
        outline = line(np.concatenate([across, across[::-1]]), np.concatenate([edges[0], edges[1][::-1]]))
        parts.append(f"{outline}z")
    return "".join(parts)


def rect_path(x: float, y: float, width: float, height: float) -> str:
    """Return a rectangle as part of a path."""
    return f"M{short(x)} {short(y)}h{short(width)}v{short(height)}h{short(-width)}z"


def _tenths(value: int) -> str:
    return short(value / 10)


def _runs(known: BoolArray) -> list[slice]:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], known, [False]]).astype(np.int8)))
    return [slice(int(begin), int(end)) for begin, end in edges.reshape(-1, 2)]


def _bends(x: NDArray[np.int64], y: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return the indices of points that a path needs."""
    keep = np.concatenate([[True], (np.diff(x) != 0) | (np.diff(y) != 0)])
    places = np.flatnonzero(keep)
    if places.size < 3:
        return places
    dx, dy = np.diff(x[places]), np.diff(y[places])
    turn = (dx[:-1] * dy[1:] != dy[:-1] * dx[1:]) | (dx[:-1] * dx[1:] + dy[:-1] * dy[1:] < 0)
    needed: NDArray[np.intp] = places[np.concatenate([[True], turn, [True]])]
    return needed


def value_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return round values between two.

    Examples
    --------
    >>> value_ticks(-3.2, 17.9)
    [0.0, 5.0, 10.0, 15.0]
    """
    size = (high - low) / max(most - 1, 1)
    power = 10.0 ** math.floor(math.log10(size))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= size * 0.999)
    return [float(f"{number * step:.12g}") for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def time_ticks(start: int, end: int, most: int = 8) -> list[tuple[int, str]]:
    """Return times between two, in microseconds, with their labels.

    Examples
    --------
    >>> [word for _, word in time_ticks(0, 10 * DAY)]
    ['1 Jan 1970', '3 Jan', '5 Jan', '7 Jan', '9 Jan']
    """
    step = next((step for step in STEPS if (end - start) / step <= most), None)
    if step is None:
        months = np.arange(np.datetime64(start, "us").astype("datetime64[M]"),
                           np.datetime64(end, "us").astype("datetime64[M]") + 1)  # fmt: skip
        interval = next((size for size in (1, 2, 3, 6, 12, 24, 60) if months.size / size <= most), 120)
        times = [int(month.astype("datetime64[us]").astype(np.int64)) for month in months
                 if int(month.astype(np.int64)) % interval == 0]  # fmt: skip
    else:
        # From the first day on: multiples of a week since 1970 are Thursdays.
        begin = start // DAY * DAY if step >= DAY else 0
        times = [begin + number * step for number in range((start - begin) // step, (end - begin) // step + 1)]
    ticks: list[tuple[int, str]] = []
    year = ""
    for time in (time for time in times if start <= time < end):
        exact = str(np.datetime64(time, "us").astype("datetime64[s]"))
        day = f"{int(exact[8:10])} {MONTHS[int(exact[5:7]) - 1][:3]}"
        clock = exact[11:] if step and step < MINUTE else exact[11:16]
        if step is None:
            word = day.split()[1] + (f" {exact[:4]}" if exact[:4] != year else "")
        elif time % DAY and ticks:
            word = clock
        else:
            word = day + (f" {exact[:4]}" if exact[:4] != year else "") + (f", {clock}" if time % DAY else "")
        year = exact[:4]
        ticks.append((time, word))
    return ticks


def text(x: float, y: float, words: str, *, at: str = "start", class_: str | None = None) -> Html:
    """Return a text; `at` is the anchor, one of its ends."""
    return tag("text", words, x=short(x), y=short(y), text_anchor=None if at == "start" else at, class_=class_)


def svg(width: float, height: float, *children: str, description: str, widest: float | None = None) -> Html:
    """Return a picture with its description for screen readers; `widest` is its maximum width in pixels."""
    style = None if widest is None else f"max-width:{short(widest)}px"
    box = f"0 0 {short(width)} {short(height)}"
    return tag("svg", *children, viewBox=box, role="img", aria_label=description, style=style)


def palette_png(cells: NDArray[np.integer], colours: Sequence[str]) -> bytes:
    r"""Return a PNG of cells (row, column), indices into colours like `#d55e00`.

    Examples
    --------
    >>> palette_png(np.zeros((2, 3), dtype=int), ["#ffffff"])[:8]
    b'\x89PNG\r\n\x1a\n'
    """
    height, width = cells.shape
    lines = np.zeros((height, width + 1), dtype=np.uint8)  # each line begins with its filter: none
    lines[:, 1:] = cells
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    palette = b"".join(bytes.fromhex(colour.removeprefix("#")) for colour in colours)
    parts = ((b"IHDR", header), (b"PLTE", palette), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, content) for kind, content in parts)


def as_uri(png: bytes) -> str:
    """Return an image as a data URI."""
    return f"data:image/png;base64,{base64.b64encode(png).decode('ascii')}"


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
