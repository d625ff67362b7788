"""`matrix` returns the health matrix: a letter for every channel and day."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sensormend.pipeline.channel_states import STATES, ChannelName
from sensormend.pipeline.health import HEALTH, LETTERS, NO_ROWS, days_per_cell, letters, states_by_cell, trouble
from sensormend.readings import DAY
from sensormend.views.channel_status import channel_statuses
from sensormend.views.reader import OutReader, matches, page_of

__all__ = ["Matrix", "MatrixRow", "matrix"]

USUAL_DAYS = 365
"""Days that are shown by default."""


@dataclass(frozen=True)
class MatrixRow:
    """One channel: its state now, and a letter for each of its cells."""

    sensor: str
    variable: str
    state: str
    cells: str


@dataclass(frozen=True)
class Matrix:
    """Sensors by days.

    Attributes
    ----------
    start
        The date of the first cell.
    cell_days, cells
        Days of a cell, and cells of a row.
    provisional
        Number of cells at the end that are provisional.
    letters
        The meaning of the letters.
    total, offset, next
        Number of channels, the offset of this page, and that of the next one.
    rows
        The page.
    """

    start: str
    cell_days: int
    cells: int
    provisional: int
    letters: dict[str, str]
    total: int
    offset: int
    next: int | None
    rows: list[MatrixRow]


def matrix(
    reader: OutReader,
    *,
    variable: str | None = None,
    start: int | None = None,
    end: int | None = None,
    sort: Literal["trouble", "name"] = "trouble",
    search: str = "",
    state: str = "",
    offset: int = 0,
    limit: int = 200,
) -> Matrix:
    """Return the states of the sensors by day, those with most faulty days first or by name.

    Of a watch, those that are in trouble now come before all others. The span is the last year by default; `end` is
    excluded. With a `state` only those that are in it now are returned.
    """
    span = reader.span()
    first, last = _dates(span, start, end) if span else (0, -1)
    if last < first:
        return Matrix(str(np.datetime64(first, "D")), 1, 0, 0, LETTERS, 0, offset, None, [])
    days = days_per_cell(first, last, reader.step)
    names, codes = reader.daily_counts.states(first, last, days)
    provisional = 0
    if reader.provisional is not None and days == 1:
        names, codes, provisional = _with_provisional(reader, names, codes, first, last)
    now = {name: status.state for name, status in channel_statuses(reader).items()}
    chosen = [
        row
        for row, name in enumerate(names)
        if variable in (None, name[1]) and state in ("", now.get(name, "ended")) and matches(search, name[0])
    ]
    weight, has_rows = trouble(codes), (codes != NO_ROWS).any(axis=1)
    watched = reader.run.get("command") != "clean"
    urgency = [STATES.index(now.get(name, "ended")) if watched else 0 for name in names]
    keys = {
        row: names[row] if sort == "name" else (urgency[row], -weight[row], names[row])
        for row in chosen
        if has_rows[row]
    }
    order = sorted(keys, key=keys.__getitem__)
    shown, next_offset = page_of(order, offset, limit)
    rows = [MatrixRow(*names[row], now.get(names[row], "ended"), letters(codes[row])) for row in shown]
    return Matrix(
        start=str(np.datetime64(first, "D")),
        cell_days=days,
        cells=codes.shape[1],
        provisional=provisional,
        letters=LETTERS,
        total=len(order),
        offset=offset,
        next=next_offset,
        rows=rows,
    )


def _dates(span: tuple[int, int], start: int | None, end: int | None) -> tuple[int, int]:
    """Return the first and the last date to show, within those that have rows."""
    last = span[1] // DAY if end is None else min((end - 1) // DAY, span[1] // DAY)
    first = last - USUAL_DAYS + 1 if start is None else start // DAY
    return min(max(first, span[0] // DAY), span[1] // DAY + 1), last


def _with_provisional(
    reader: OutReader, names: list[ChannelName], codes: NDArray[np.int8], first: int, last: int
) -> tuple[list[ChannelName], NDArray[np.int8], int]:
    """Add provisional rows to the cells of their dates."""
    assert reader.provisional is not None
    final = reader.final()
    rows = reader.provisional.rows
    rows = rows if final is None else rows.taken(rows.time >= final)
    if not len(rows):
        return names, codes, 0
    later, states = states_by_cell(rows, first, last)
    places = {name: place for place, name in enumerate(dict.fromkeys((*names, *later)))}
    combined = np.full((len(places), codes.shape[1]), NO_ROWS, np.int8)
    combined[: len(codes)] = codes
    at = np.array([places[name] for name in later], np.intp)
    # A date that is partly final keeps the faults of its final rows.
    final_states = combined[at]
    keep = (states == NO_ROWS) | (final_states == HEALTH.index("faulty"))
    combined[at] = np.where(keep, final_states, states)
    return list(places), combined, max(0, last - max(int(rows.time.min()) // DAY, first) + 1)
