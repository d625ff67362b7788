"""`matrix` returns the health matrix: a letter for every channel and day."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sensormend.pipeline.health import (
    ABSENT,
    HEALTH,
    LETTERS,
    NO_ROWS,
    days_per_cell,
    letters,
    states_by_cell,
    trouble,
)
from sensormend.readings import DAY
from sensormend.views.channel_status import RANKS, channel_statuses
from sensormend.views.daily_counts import ChannelName
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

    Parameters
    ----------
    reader
        The OUT.
    variable
        One of them; all where it is None.
    start, end
        Times, `end` excluded; the last year by default.
    sort, search, state
        The order; only sensors whose name contains the text; only those in this state now.
    offset, limit
        The page.
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
    now = {name: one.state for name, one in channel_statuses(reader).items()}
    rows_shown = np.array(
        [
            place
            for place, name in enumerate(names)
            if (variable is None or name[1] == variable)
            and (not state or now.get(name, ABSENT) == state)
            and matches(search, name[0])
        ],
        np.intp,
    )
    rows_shown = rows_shown[(codes[rows_shown] != NO_ROWS).any(axis=1)]
    codes = codes[rows_shown]
    chosen = [names[place] for place in rows_shown]
    order = _order(chosen, codes, now, sort)
    shown, following = page_of(order, offset, limit)
    rows = [MatrixRow(chosen[k][0], chosen[k][1], now.get(chosen[k], ABSENT), letters(codes[k])) for k in shown]
    return Matrix(
        start=str(np.datetime64(first, "D")),
        cell_days=days,
        cells=codes.shape[1],
        provisional=provisional,
        letters=LETTERS,
        total=len(order),
        offset=offset,
        next=following,
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
    places = {name: place for place, name in enumerate(names)}
    names = [*names, *(name for name in later if name not in places)]
    places = {name: place for place, name in enumerate(names)}
    whole = np.full((len(names), codes.shape[1]), NO_ROWS, np.int8)
    whole[: len(codes)] = codes
    at = np.array([places[name] for name in later], np.intp)
    # A date that is partly final keeps the faults of its final rows.
    newer = np.where(states == NO_ROWS, whole[at], states)
    whole[at] = np.where(whole[at] == HEALTH.index("faulty"), whole[at], newer)
    begins = int(rows.time.min()) // DAY
    return names, whole, max(0, last - max(begins, first) + 1)


def _order(names: list[ChannelName], codes: NDArray[np.int8], now: dict[ChannelName, str], sort: str) -> list[int]:
    if sort == "name":
        return sorted(range(len(names)), key=lambda k: names[k])
    weighed = trouble(codes)
    return sorted(range(len(names)), key=lambda k: (RANKS.index(now.get(names[k], ABSENT)), -weighed[k], names[k]))
