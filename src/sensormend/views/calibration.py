"""How far every sensor is from the network, week by week: a drift is seen here weeks before it is a fault.

What the network expects of a channel is what the channels most like it say, each with its usual difference taken out:

    d_i(t) = median over j of [ (y_i(t) - c_j(t)) - usual_ij ],   usual_ij = median over reference days of (y_i - c_j)

with y the readings as they came and c the cleaned values, both as means of a day. The reference is a channel's own
first trusted days, so that a distance says how far it has moved since. Channels are alike when the day-to-day changes
of their cleaned values go together; a slow drift does not make two of them alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import duckdb
import numpy as np
from numpy.typing import NDArray

from sensormend.files import signature
from sensormend.io.folder import data_files
from sensormend.pipeline.maintenance import Maintenance
from sensormend.readings import DAY
from sensormend.recovery import BoolArray, FloatArray
from sensormend.views.daily_counts import ChannelName, parquet_source, read_days
from sensormend.views.reader import OutReader, matches, numbers, page_of

__all__ = ["WEEK", "Calibration", "CalibrationRow", "calibration", "distances", "weekly"]

WEEK = 7
"""Days of a cell: long enough that weather is even, short enough that a drift is seen early."""

USUAL_DAYS, MOST_CELLS = 371, 8_000_000
"""Days that are gone through, 53 weeks; fewer where channels times days are more than so many."""

AT_ONCE = 31
"""Days that are read in one go and remembered while their files stay as they are."""

ALIKE, MOST_ALIKE, ENOUGH = 5, 0.2, 14
"""Channels that say what is expected of one; how much their changes go with its own, at least; and days in common."""

CANDIDATES, OTHERS = 500, 25
"""Channels among which the most alike are looked for, evenly chosen where there are more; and of them those that say
what is expected of one that nobody is like."""

REFERENCE, FEWEST = 60, 7
"""Trusted days that a distance is counted from, and how many there have to be; the engine has learned by then."""

LATELY, LEAST_WEEKS = 3, 4
"""Weeks that say how far it is now, an odd number so that one which is back is not between; twice as many say how fast
that changes. And weeks that there have to be."""

SMALL, ABOVE = 4.0, 1.15
"""Usual distances that the axis of a picture goes to, at least; and how many times what lasts. A fault of a week or two
is no matter of calibration, and may be drawn at the edge."""

LEAST_DAYS = 2
"""Days with a distance that a week has, at least."""

TRUSTED = 0.75
"""Share of a day's readings with flag 1 from which on the day is a trusted one."""

MAD_TO_DEVIATION = 1.4826

NO_DAYS: Mapping[int, Sequence[int]] = {}


@dataclass(frozen=True)
class CalibrationRow:
    """A channel's distance from the network; null where it is not known.

    Attributes
    ----------
    now, rate
        How far it is from what is expected, the median of the last weeks; and by how much that changed in 30 days.
    times
        How many times as far that is as channels of this variable usually are.
    reach
        How far the axis of its picture goes to either side: a usual distance looks small on it.
    distance
        The median of each week.
    """

    sensor: str
    variable: str
    now: float | None
    rate: float | None
    times: float | None
    reach: float | None
    distance: list[float | None]


@dataclass(frozen=True)
class Calibration:
    """Distances from the network, the farthest first.

    Attributes
    ----------
    start
        The date on which the first week begins.
    cell_days, cells
        How many days are in a cell, and how many cells in a line.
    usual
        By variable: how far from the network a channel usually is in a week; null where that is not known.
    total, offset, next
        How many channels there are, with which the page begins, and where the next one would.
    rows
        The page.
    """

    start: str
    cell_days: int
    cells: int
    usual: dict[str, float | None]
    total: int
    offset: int
    next: int | None
    rows: list[CalibrationRow]


def calibration(
    reader: OutReader,
    *,
    variable: str | None = None,
    search: str = "",
    end: int | None = None,
    known: Maintenance | None = None,
    offset: int = 0,
    limit: int = 100,
) -> Calibration:
    """Return how far channels are from the network, the farthest first.

    Parameters
    ----------
    reader
        At what; what is provisional is left out.
    variable, search
        One of them, all where none is said; only sensors whose name has this in it.
    end
        Where the last week ends; the end of what is final by default.
    known
        What people know: from where on they took a level as right, distances are counted anew.
    offset, limit
        Which page.
    """
    final = reader.final()
    span = reader.span()
    if final is None or span is None or reader.archive is None:
        return Calibration("1970-01-01", WEEK, 0, {}, 0, offset, None, [])
    # Whole days: the last one may have only begun.
    stop = min(final, final if end is None else end) // DAY
    most = max(2 * WEEK, MOST_CELLS // max(len(reader.summaries), 1))
    days = min(stop - span[0] // DAY, USUAL_DAYS, most)
    # Of less than some weeks nothing can be learned: all of it is what distances are counted from.
    cells = days // WEEK if days >= LEAST_WEEKS * WEEK else 0
    first = stop - cells * WEEK
    lines, usual = _everybody(reader, first, stop, known or Maintenance()) if cells else ([], {})
    chosen = [
        line for line in lines if (variable is None or line.variable == variable) and matches(search, line.sensor)
    ]
    chosen.sort(key=lambda line: (-(line.times if line.times is not None else -1.0), line.sensor, line.variable))
    shown, following = page_of(chosen, offset, limit)
    return Calibration(
        start=str(np.datetime64(first, "D")),
        cell_days=WEEK,
        cells=cells,
        usual={name: numbers(np.array([one]))[0] for name, one in usual.items() if variable in (None, name)},
        total=len(chosen),
        offset=offset,
        next=following,
        rows=list(shown),
    )


def _everybody(
    reader: OutReader, first: int, stop: int, known: Maintenance
) -> tuple[list[CalibrationRow], dict[str, float]]:
    """Return every channel's line over some dates, the last one left out, and how far channels usually are."""
    begins = range(first // AT_ONCE * AT_ONCE, stop, AT_ONCE)
    spans = {begin: (max(begin, first), min(begin + AT_ONCE, stop)) for begin in begins}
    files = {begin: data_files(reader.folder, start * DAY, end * DAY) for begin, (start, end) in spans.items()}
    seen = {begin: (spans[begin], tuple(signature(file) for file in some)) for begin, some in files.items()}

    def block(begin: int) -> dict[ChannelName, FloatArray]:
        return reader.cached(("calibration", begin), seen[begin], lambda: _read(reader.folder, *spans[begin]))

    def made() -> tuple[list[CalibrationRow], dict[str, float]]:
        blocks = [block(begin) for begin in begins]
        lines: list[CalibrationRow] = []
        usual: dict[str, float] = {}
        for variable in reader.variables:
            names = sorted({name for one in blocks for name in one if name[1] == variable})
            if not names:
                continue
            table = np.full((3, len(names), stop - first), np.nan)
            place = {name: row for row, name in enumerate(names)}
            for one in blocks:
                for name, days in one.items():
                    if name[1] == variable:
                        table[:, place[name], days[0].astype(np.int64) - first] = days[1:]
            accepted = {place[name]: _accepted(known, name, first, stop) for name in names}
            apart = distances(table[0], table[1], table[2] >= TRUSTED, accepted)
            some, usual[variable] = _lines(names, weekly(apart))
            lines += some
        return lines, usual

    return reader.cached("calibration", (seen, known), made)


def _accepted(known: Maintenance, name: ChannelName, first: int, stop: int) -> list[int]:
    """Return the days, counted from the first, from which on people take a level as right."""
    days = {
        time // DAY - first
        for note in known.notes
        if note.action == "recalibrated" and note.concerns(name[0]) and note.variable in ("", name[1])
        for time in [note.right_from]
    }
    return sorted(day for day in days if 0 < day < stop - first)


def distances(
    read: FloatArray, cleaned: FloatArray, trusted: BoolArray, accepted: Mapping[int, Sequence[int]] = NO_DAYS
) -> FloatArray:
    """Return how far channels are from what those most like them say, by days.

    Parameters
    ----------
    read, cleaned
        Means of the days (channel, day), both less the network's mean; NaN where there is none.
    trusted
        Days whose readings were trusted.
    accepted
        By channel: the days from which on its level is right, and its distance is counted anew.
    """
    distance = np.full(read.shape, np.nan)
    # Two others at least, as the engine needs them.
    if len(read) < 3:
        return distance
    candidates = _some(np.arange(len(read)), CANDIDATES)
    alike = _likeness(cleaned, candidates)
    for row in range(len(read)):
        order = np.argsort(-alike[row], kind="stable")[:ALIKE]
        order = order[alike[row][order] > MOST_ALIKE]
        # Of one that nobody is like, the middle of the network says what is expected.
        others = candidates[order] if order.size > 1 else _some(candidates[candidates != row], OTHERS)
        apart = read[row] - cleaned[others]
        edges = [0, *accepted.get(row, ()), read.shape[1]]
        for begin, end in pairwise(edges):
            part = apart[:, begin:end]
            known = np.isfinite(read[row, begin:end])
            days = np.flatnonzero(known & trusted[row, begin:end])[:REFERENCE]
            days = days if days.size >= FEWEST else np.flatnonzero(known)[:REFERENCE]
            if days.size >= FEWEST:
                distance[row, begin:end] = _middle(part - _middle(part[:, days], axis=1)[:, None], axis=0)
    return distance


def _some(rows: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    """Return so many of them at most, evenly chosen."""
    return rows if rows.size <= most else rows[np.linspace(0, rows.size - 1, most).astype(np.intp)]


def weekly(apart: FloatArray) -> FloatArray:
    """Return the medians of weeks (channel, week) of distances by days; NaN where a week has hardly any."""
    weeks = apart.reshape(len(apart), -1, WEEK)
    return np.where(np.isfinite(weeks).sum(axis=2) >= LEAST_DAYS, _middle(weeks, axis=2), np.nan)


def _lines(names: list[ChannelName], weeks: FloatArray) -> tuple[list[CalibrationRow], float]:
    now = _middle(weeks[:, -LATELY:], axis=1)
    lately = weeks[:, -2 * LATELY :]
    rate = np.array([_slope(row) for row in lately]) * 30 / WEEK
    wander = MAD_TO_DEVIATION * _middle(np.abs(weeks - _middle(weeks, axis=1)[:, None]), axis=1)
    usual = float(_middle(wander[None], axis=1)[0])
    times = np.abs(now) / usual if usual > 0 else np.full(len(names), np.nan)
    reach = np.fmax(
        np.fmax(SMALL * usual, ABOVE * np.abs(now)), ABOVE * np.fmax.reduce(np.abs(_lasting(weeks)), axis=1)
    )
    columns = [numbers(column) for column in (now, rate, times, reach)]
    lines = [
        CalibrationRow(*name, columns[0][row], columns[1][row], columns[2][row], columns[3][row], numbers(weeks[row]))
        for row, name in enumerate(names)
    ]
    return lines, usual


def _lasting(weeks: FloatArray) -> FloatArray:
    """Return running medians of five weeks: what lasts for longer than two."""
    edge = np.full((len(weeks), 2), np.nan)
    around = np.lib.stride_tricks.sliding_window_view(np.hstack([edge, weeks, edge]), 5, axis=1)
    return _middle(around, axis=2)


def _slope(row: FloatArray) -> float:
    """Return the median of the slopes between every two weeks (Theil and Sen): one odd week does not tilt it."""
    known = np.flatnonzero(np.isfinite(row))
    if known.size < LATELY:
        return np.nan
    one, other = np.triu_indices(known.size, 1)
    return float(np.median((row[known[other]] - row[known[one]]) / (known[other] - known[one])))


def _likeness(cleaned: FloatArray, candidates: NDArray[np.intp]) -> FloatArray:
    """Return how changes of every channel go with those of the candidates: correlations, -1 with itself or few days."""
    change = np.diff(cleaned, axis=1)
    known = np.isfinite(change)
    change = np.where(known, change, 0.0)
    mine, theirs = known.astype(float), known[candidates].astype(float)
    count = mine @ theirs.T
    size = np.maximum(count, 1.0)
    sums, others = change @ theirs.T, mine @ change[candidates].T
    both = change @ change[candidates].T - sums * others / size
    spread = ((change**2) @ theirs.T - sums**2 / size) * (mine @ (change[candidates] ** 2).T - others**2 / size)
    alike = np.where((count >= ENOUGH) & (spread > 0), both / np.sqrt(np.where(spread > 0, spread, 1.0)), -1.0)
    alike[candidates, np.arange(candidates.size)] = -1.0
    return alike


def _middle(values: FloatArray, axis: int) -> FloatArray:
    """Return medians of what is known; NaN where nothing is."""
    known = np.isfinite(values)
    ordered = np.sort(np.where(known, values, np.inf), axis=axis)
    count = known.sum(axis=axis, keepdims=True)
    low, high = (np.take_along_axis(ordered, np.maximum(at, 0), axis) for at in ((count - 1) // 2, count // 2))
    return np.squeeze(np.where(count > 0, (low + high) / 2, np.nan), axis=axis)


def _read(folder: Path, first: int, stop: int) -> dict[ChannelName, FloatArray]:
    """Return the days of every channel (4, day).

    The dates, the means of the readings and of the cleaned values less the network's mean, and the share of readings
    that was trusted.
    """
    return read_days(folder, first * DAY, stop * DAY, lambda files: _query(files, first, stop) if files else {})


def _query(files: list[Path], first: int, stop: int) -> dict[ChannelName, FloatArray]:
    with duckdb.connect() as engine:
        source, variable = parquet_source(engine, files)
        # Of a slot in which a channel has no reading the network's mean must not count either: the difference is taken
        # slot by slot. A spike is no matter of calibration.
        table = engine.execute(
            f"""WITH part AS (SELECT sensor, {variable} AS variable, time, value, cleaned, flag, reason FROM {source}
                  WHERE time >= make_timestamp({first * DAY}) AND time < make_timestamp({stop * DAY})),
                network AS (SELECT variable, time, avg(cleaned) AS mean FROM part GROUP BY ALL)
            SELECT sensor, variable, time::DATE - DATE '1970-01-01' AS date,
              avg(value - mean) FILTER (reason IS DISTINCT FROM 'spike') AS read, avg(cleaned - mean) AS cleaned,
              count(*) FILTER (flag = 1) / greatest(count(value), 1) AS trusted
            FROM part JOIN network USING (variable, time) GROUP BY ALL ORDER BY sensor, variable, date"""
        ).fetchnumpy()
    names = list(zip(table["sensor"].tolist(), table["variable"].tolist(), strict=True))
    days = np.array(
        [np.ma.filled(table[name].astype(float), np.nan) for name in ("date", "read", "cleaned", "trusted")]
    )
    begins = [place for place, name in enumerate(names) if not place or name != names[place - 1]]
    ends = [*begins[1:], len(names)]
    return {names[begin]: days[:, begin:end] for begin, end in zip(begins, ends, strict=True)}
