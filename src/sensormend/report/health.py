"""Everybody on every day, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from sensormend.pipeline.sentences import counted
from sensormend.readings import DAY
from sensormend.report.html import Html, tag
from sensormend.report.material import Material
from sensormend.report.png import as_uri, palette_png
from sensormend.report.style import NIGHT_STATES, STATES
from sensormend.report.svg import Scale, rect_path, short, svg, text, time_ticks
from sensormend.report.words import span
from sensormend.views.matrix import Line

__all__ = ["health"]

MOST_LABELLED, WORST = 60, 40
"""So many lines have names; of more, the worst have, and all are squeezed into a picture."""

WORDS = {
    "sound": "every reading good",
    "filled": "gaps or single wrong values, filled",
    "suspect": "doubtful, kept as it came",
    "faulty": "wrong, replaced by corrections or estimates",
    "silent": "nothing came, all of it estimated",
    "not evaluated": "nobody could judge it",
}
WORST_LAST = "sfnuox"
LETTERS = {"s": "sound", "f": "filled", "u": "suspect", "x": "faulty", "o": "silent", "n": "not evaluated"}
WIDTH, SAYS, LINE, TOP = 960.0, 165.0, 13.0, 22.0
LONGEST_LABEL, LETTER = 60, 6.1
TALLEST = 500
"""Pixels of the picture of all; where there are more lines, several become one."""


def health(material: Material) -> Html:
    """Return the section."""
    lines = material.matrix.rows
    cell = material.matrix.cell_days
    every = "day" if cell == 1 else f"{cell} days"
    parts: list[str] = [
        tag("h2", "How every sensor was on every day"),
        tag("p", f"One line per sensor{' and variable' if material.several else ''}, one mark for every {every}, "
            "those with most trouble at the end and over all come first."),
        _legend(lines),
    ]  # fmt: skip
    if len(lines) > MOST_LABELLED:
        parts += [tag("h3", f"All {len(lines):,}"), _squeezed(material), tag("h3", f"The worst {WORST} of them")]
    shown = lines if len(lines) <= MOST_LABELLED else lines[:WORST]
    parts.append(_labelled(material, shown))
    return tag("section", *parts, id="health")


def _legend(lines: Sequence[Line]) -> Html:
    there = set().union(*(line.cells for line in lines))
    keys = [
        tag("li", tag("svg", tag("path", d="M0 0h13v8h-13z", class_=state.replace(" ", "-")), viewBox="0 0 13 8",
                      aria_hidden="true"), tag("b", state), f": {WORDS[state]}")
        for letter, state in LETTERS.items() if letter in there
    ]  # fmt: skip
    if "." in there:
        keys.append(tag("li", tag("b", "blank"), ": not there yet, or not any more"))
    return tag("ul", *keys, class_="key")


def _squeezed(material: Material) -> Html:
    """Return all lines as an image of one pixel per cell."""
    letters = [".", *WORST_LAST]
    code = np.zeros(256, np.uint8)
    code[[ord(letter) for letter in letters]] = range(len(letters))
    lines = material.matrix.rows
    cells = code[np.frombuffer("".join(line.cells for line in lines).encode("ascii"), np.uint8)]
    together = -(-len(lines) // TALLEST)
    # A line that no pixel shows would be lost, and with it a fault.
    cells = np.maximum.reduceat(cells.reshape(len(lines), -1), np.arange(0, len(lines), together))
    light, dark = (
        as_uri(palette_png(cells, [page, *(colours[LETTERS[letter]] for letter in WORST_LAST)]))
        for page, colours in (("#ffffff", STATES), ("#14181d", NIGHT_STATES))
    )
    says = f"{counted(cells.shape[0], 'line')} of {counted(cells.shape[1], 'mark')}, one colour for each state"
    height = cells.shape[0] * max(1, 300 // cells.shape[0])
    picture = tag(
        "picture",
        tag("source", srcset=dark, media="screen and (prefers-color-scheme: dark)"),
        tag("img", src=light, alt=says, width=cells.shape[1], height=height, class_="pixels",
            style=f"height:{height}px"),
    )  # fmt: skip
    shown = span(material.start // DAY * DAY, -(-material.end // DAY) * DAY)
    each = f" Each line of it is {together} sensors, and shows the worst of them." if together > 1 else ""
    said = f"From left to right: {shown}. From top to bottom: most trouble to least.{each}"
    return tag("figure", picture, tag("figcaption", said))


def _labelled(material: Material, lines: Sequence[Line]) -> Html:
    """Return lines with names, and with what they add up to."""
    cells, first = material.matrix.cells, int(np.datetime64(material.matrix.start, "D").astype(np.int64)) * DAY
    length = material.matrix.cell_days * DAY
    labels = [_label(one) for one in lines]
    left = LETTER * max(map(len, labels)) + 10
    scale = Scale(0, cells, left, WIDTH - SAYS)
    height = TOP + LINE * len(lines) + 4
    paths: dict[str, list[str]] = {}
    drawn: list[str] = []
    for row, (line, label) in enumerate(zip(lines, labels, strict=True)):
        y = TOP + LINE * row
        for letter, begin, end in _runs(line.cells):
            if letter in LETTERS:
                place = scale.place(begin)
                paths.setdefault(LETTERS[letter], []).append(rect_path(place, y, scale.place(end) - place, LINE - 2))
        whole = f"{line.sensor} {line.variable}".strip()[:200]
        drawn.append(
            tag("text", tag("title", whole), label, x=short(left - 8), y=short(y + LINE - 4), text_anchor="end")
        )
        drawn.append(text(WIDTH - SAYS + 8, y + LINE - 4, _adds_up(line, material.matrix.cell_days), class_="soft"))
    ticks = []
    for time, word in time_ticks(first, first + cells * length):
        x = scale.place((time - first) / length)
        ticks += [tag("path", d=f"M{short(x)} {short(TOP - 5)}V{short(height - 4)}", class_="axis"),
                  text(x + 3, TOP - 8, word, class_="soft")]  # fmt: skip
    areas = [tag("path", d="".join(parts), class_=state.replace(" ", "-")) for state, parts in paths.items()]
    says = f"Health of {counted(len(lines), 'sensor')} by days"
    return tag("figure", tag("div", svg(WIDTH, height, *ticks, *areas, *drawn, says=says), class_="scroll"))


def _label(line: Line) -> str:
    """Return the name of a line, cut where it is too long; of its variable more is left."""
    variable = line.variable[: LONGEST_LABEL // 2]
    room = LONGEST_LABEL - len(variable)
    sensor = line.sensor if len(line.sensor) <= room else line.sensor[: room - 1] + "…"
    return f"{sensor} {variable}".strip()


def _adds_up(line: Line, days: int) -> str:
    found = [
        (line.cells.count(letter) * days, word) for letter, word in (("x", "faulty"), ("o", "silent"), ("u", "suspect"))
    ]
    said = [f"{count} {word}" for count, word in found if count]
    if not said:
        return "no day wrong"
    first, _, word = said[0].partition(" ")
    return ", ".join([f"{first} {'day' if first == '1' else 'days'} {word}", *said[1:2]])


def _runs(cells: str) -> list[tuple[str, int, int]]:
    codes = np.frombuffer(cells.encode("ascii"), np.uint8)
    edges = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(cells)] if cells else [0]
    return [(cells[begin], begin, end) for begin, end in pairwise(edges)]
