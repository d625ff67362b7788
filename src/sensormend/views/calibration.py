"""`calibration` returns the weekly distance of every channel from the network, which shows drifts early.

The prediction for a channel comes from the channels most correlated with it, each with its usual difference taken out:

    d_i(t) = median over j of [ (y_i(t) - c_j(t)) - usual_ij ],   usual_ij = median over reference days of (y_i - c_j)

with y the raw readings and c the cleaned values, both as means of a day. The reference is a channel's own first trusted
days, so that a distance is how far it has moved since. Correlations are those of the day-to-day changes of cleaned
values, so that two slow drifts are not correlated.
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
from sensormend.pipeline.channel_states import ChannelName
from sensormend.pipeline.maintenance import FIXED, Maintenance
from sensormend.readings import DAY
from sensormend.recovery import BoolArray, FloatArray
from sensormend.views.daily_counts import parquet_source, read_days
from sensormend.views.reader import OutReader, matches, numbers, page_of

__all__ = ["WEEK", "Calibration", "CalibrationRow", "calibration", "distances", "weekly"]

WEEK = 7
"""Days of a cell: long enough to average over weather, short enough to show a drift early."""

MAX_DAYS, MAX_CELLS = 371, 8_000_000
"""The maximum number of days, 53 weeks, and of channels times days; with more channels, fewer days are read."""

DAYS_AT_ONCE = 31
"""Days that are read by one query and cached while their files do not change."""

PREDICTORS, MIN_CORRELATION, MIN_COMMON_DAYS = 5, 0.2, 14
"""The number of channels that predict one, the minimum correlation of their changes with its own, and the minimum
number of common days."""

MAX_CANDIDATES, MAX_UNCORRELATED = 500, 25
"""The number of channels among which correlated ones are searched, evenly chosen if there are more; and the number of
these that predict a channel without correlated ones."""

REFERENCE_DAYS, MIN_REFERENCE_DAYS = 60, 7
"""The number of trusted days that are the reference, and the minimum number of them; by then the engine has learned."""

RECENT_WEEKS, MIN_WEEKS = 3, 4
"""The number of weeks whose median is the present distance, which is odd so that the median is one of them; twice as
many give the rate of change. Also the minimum number of weeks."""

MIN_EXTENT, MARGIN = 4.0, 1.15
"""The minimum extent of the axis of a picture in usual distances, and as a multiple of the lasting distances. A fault
of a week or two is irrelevant for calibration, and may be drawn at the edge."""

MIN_DAYS = 2
"""The minimum number of days of a week that have a distance."""

MIN_TRUSTED = 0.75
"""The minimum share of a day's readings with flag 1 for the day to be trusted."""

MAD_TO_DEVIATION = 1.4826

NO_DAYS: Mapping[int, Sequence[int]] = {}


@dataclass(frozen=True)
class CalibrationRow:
    """A channel's distance from the network; null where it is not known.

    Attributes
    ----------
    now, rate
        The distance from the prediction, the median of the last weeks; and its change in 30 days.
    times
        That distance divided by the usual distance of channels of this variable.
    reach
        Extent of the axis of its picture to either side, chosen so that a usual distance looks small.
    distance
        The median distance of each week.
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
    """Distances from the network, the largest first.

    Attributes
    ----------
    start
        The start of the first week.
    cell_days, cells
        Days of a cell, and cells of a row.
    usual
        By variable: the usual distance of a channel in a week; null where it is not known.
    total, offset, next
        Number of channels, the offset of this page, and that of the next one.
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
    notes: Maintenance | None = None,
    offset: int = 0,
    limit: int = 100,
) -> Calibration:
    """Return the distances of channels from the network, the largest first; provisional rows are left out.

    The last week ends at `end`, by default with the final rows. Distances start anew where a level was accepted in the
    maintenance `notes`.
    """
    final, span = reader.final(), reader.span()
    if final is None or span is None:
        return Calibration("1970-01-01", WEEK, 0, {}, 0, offset, None, [])
    # Whole days: the last one may be incomplete.
    stop = min(final, final if end is None else end) // DAY
    most = max(2 * WEEK, MAX_CELLS // max(len(reader.summaries), 1))
    days = min(stop - span[0] // DAY, MAX_DAYS, most)
    # In a few weeks there is only the reference, and no distance from it.
    cells = days // WEEK if days >= MIN_WEEKS * WEEK else 0
    first = stop - cells * WEEK
    rows, usual = _all_rows(reader, first, stop, notes or Maintenance()) if cells else ([], {})
    chosen = [row for row in rows if variable in (None, row.variable) and matches(search, row.sensor)]
    chosen.sort(key=lambda row: (-(row.times if row.times is not None else -1.0), row.sensor, row.variable))
    shown, next_offset = page_of(chosen, offset, limit)
    return Calibration(
        start=str(np.datetime64(first, "D")),
        cell_days=WEEK,
        cells=cells,
        usual={name: numbers(np.array([size]))[0] for name, size in usual.items() if variable in (None, name)},
        total=len(chosen),
        offset=offset,
        next=next_offset,
        rows=list(shown),
    )


def _all_rows(
    reader: OutReader, first: int, stop: int, notes: Maintenance
) -> tuple[list[CalibrationRow], dict[str, float]]:
    """Return every channel's row over some dates, the last one excluded, and the usual distances."""
    begins = range(first // DAYS_AT_ONCE * DAYS_AT_ONCE, stop, DAYS_AT_ONCE)
    spans = [(max(begin, first), min(begin + DAYS_AT_ONCE, stop)) for begin in begins]
    files = [data_files(reader.folder, start * DAY, end * DAY) for start, end in spans]
    seen = [(span, tuple(map(signature, some))) for span, some in zip(spans, files, strict=True)]

    def block(number: int) -> dict[ChannelName, FloatArray]:
        key = ("calibration", begins[number])
        return reader.cached(key, seen[number], lambda: _read(reader.folder, *spans[number]))

    def compute() -> tuple[list[CalibrationRow], dict[str, float]]:
        blocks = [block(number) for number in range(len(begins))]
        rows: list[CalibrationRow] = []
        usual: dict[str, float] = {}
        for variable in reader.variables:
            names = sorted({name for days_of in blocks for name in days_of if name[1] == variable})
            if not names:
                continue
            table = np.full((3, len(names), stop - first), np.nan)
            place = {name: row for row, name in enumerate(names)}
            for days_of in blocks:
                for name in days_of.keys() & place.keys():
                    dates, *columns = days_of[name]
                    table[:, place[name], dates.astype(np.int64) - first] = columns
            accepted = {place[name]: _accepted(notes, name, first, stop) for name in names}
            distance = distances(table[0], table[1], table[2] >= MIN_TRUSTED, accepted)
            of_variable, usual[variable] = _rows_of(names, weekly(distance))
            rows += of_variable
        return rows, usual

    return reader.cached("calibration", (seen, notes), compute)


def _accepted(notes: Maintenance, name: ChannelName, first: int, stop: int) -> list[int]:
    """Return the days, counted from the first, on which a level was accepted."""
    days = {
        note.right_from // DAY - first
        for note in notes.notes
        if note.action in FIXED and note.concerns(name[0]) and note.variable in ("", name[1])
    }
    return sorted(day for day in days if 0 < day < stop - first)


def distances(
    read: FloatArray, cleaned: FloatArray, trusted: BoolArray, accepted: Mapping[int, Sequence[int]] = NO_DAYS
) -> FloatArray:
    """Return the distances of channels from the predictions by their correlated channels, by day.

    `read` and `cleaned` are daily means (channel, day) minus the network's mean, NaN where there is none; `trusted` is
    whether the readings of a day were trusted; `accepted` has the days on which the level of a channel was accepted,
    where its distance starts anew.
    """
    distance = np.full(read.shape, np.nan)
    # At least two others, as in the engine.
    if len(read) < 3:
        return distance
    candidates = _sample(np.arange(len(read)), MAX_CANDIDATES)
    correlation = _correlations(cleaned, candidates)
    for row in range(len(read)):
        order = np.argsort(-correlation[row], kind="stable")[:PREDICTORS]
        order = order[correlation[row][order] > MIN_CORRELATION]
        # A channel without correlated ones is predicted by the median of the network.
        others = candidates[order] if order.size > 1 else _sample(candidates[candidates != row], MAX_UNCORRELATED)
        difference = read[row] - cleaned[others]
        edges = [0, *accepted.get(row, ()), read.shape[1]]
        for begin, end in pairwise(edges):
            part = difference[:, begin:end]
            known = np.isfinite(read[row, begin:end])
            days = np.flatnonzero(known & trusted[row, begin:end])[:REFERENCE_DAYS]
            days = days if days.size >= MIN_REFERENCE_DAYS else np.flatnonzero(known)[:REFERENCE_DAYS]
            if days.size >= MIN_REFERENCE_DAYS:
                distance[row, begin:end] = _median(part - _median(part[:, days], axis=1)[:, None], axis=0)
    return distance


def _sample(rows: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    """Return at most `most` of the rows, evenly chosen."""
    return rows if rows.size <= most else rows[np.linspace(0, rows.size - 1, most).astype(np.intp)]


def weekly(distance: FloatArray) -> FloatArray:
    """Return weekly medians (channel, week) of daily distances; NaN where a week has too few."""
    weeks = distance.reshape(len(distance), -1, WEEK)
    return np.where(np.isfinite(weeks).sum(axis=2) >= MIN_DAYS, _median(weeks, axis=2), np.nan)


def _rows_of(names: list[ChannelName], weeks: FloatArray) -> tuple[list[CalibrationRow], float]:
    now = _median(weeks[:, -RECENT_WEEKS:], axis=1)
    rate = np.array([_slope(row) for row in weeks[:, -2 * RECENT_WEEKS :]]) * 30 / WEEK
    wander = MAD_TO_DEVIATION * _median(np.abs(weeks - _median(weeks, axis=1)[:, None]), axis=1)
    usual = float(_median(wander[None], axis=1)[0])
    times = np.abs(now) / usual if usual > 0 else np.full(len(names), np.nan)
    largest = np.fmax(np.abs(now), np.fmax.reduce(np.abs(_lasting(weeks)), axis=1))
    reach = np.fmax(MIN_EXTENT * usual, MARGIN * largest)
    columns = zip(*map(numbers, (now, rate, times, reach)), map(numbers, weeks), strict=True)
    return [CalibrationRow(*name, *row) for name, row in zip(names, columns, strict=True)], usual


def _lasting(weeks: FloatArray) -> FloatArray:
    """Return running medians of five weeks, which keep what lasts for longer than two."""
    edge = np.full((len(weeks), 2), np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(np.hstack([edge, weeks, edge]), 5, axis=1)
    return _median(windows, axis=2)


def _slope(row: FloatArray) -> float:
    """Return the Theil-Sen slope, the median over all pairs of weeks, which is robust to single weeks."""
    known = np.flatnonzero(np.isfinite(row))
    if known.size < RECENT_WEEKS:
        return np.nan
    first, second = (known[index] for index in np.triu_indices(known.size, 1))
    return float(np.median((row[second] - row[first]) / (second - first)))


def _correlations(cleaned: FloatArray, candidates: NDArray[np.intp]) -> FloatArray:
    """Return correlations of the changes of channels and candidates; -1 with itself or with few common days."""
    change = np.diff(cleaned, axis=1)
    known = np.isfinite(change)
    change = np.where(known, change, 0.0)
    row_known, known = known.astype(float), known[candidates].astype(float)
    count = row_known @ known.T
    size = np.maximum(count, 1.0)
    row_sum, total = change @ known.T, row_known @ change[candidates].T
    covariance = change @ change[candidates].T - row_sum * total / size
    squares = ((change**2) @ known.T - row_sum**2 / size) * (row_known @ (change[candidates] ** 2).T - total**2 / size)
    usable = (count >= MIN_COMMON_DAYS) & (squares > 0)
    correlation = np.where(usable, covariance / np.sqrt(np.where(squares > 0, squares, 1.0)), -1.0)
    correlation[candidates, np.arange(candidates.size)] = -1.0
    return correlation


def _median(values: FloatArray, axis: int) -> FloatArray:
    """Return medians that ignore NaN; NaN where all are."""
    known = np.isfinite(values)
    ordered = np.sort(np.where(known, values, np.inf), axis=axis)
    count = known.sum(axis=axis, keepdims=True)
    low, high = (np.take_along_axis(ordered, np.maximum(at, 0), axis) for at in ((count - 1) // 2, count // 2))
    return np.squeeze(np.where(count > 0, (low + high) / 2, np.nan), axis=axis)


def _read(folder: Path, first: int, stop: int) -> dict[ChannelName, FloatArray]:
    """Return the days of every channel (4, day).

    Rows: the dates, the means of the readings and of the cleaned values minus the network's mean, and the share of
    readings that were trusted.
    """
    return read_days(folder, first * DAY, stop * DAY, lambda files: _query(files, first, stop) if files else {})


def _query(files: list[Path], first: int, stop: int) -> dict[ChannelName, FloatArray]:
    with duckdb.connect() as engine:
        source, variable = parquet_source(engine, files)
        # The difference is taken slot by slot: where a channel has no reading the network's mean must not count either.
        # A spike does not concern calibration.
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
    return {names[begin]: days[:, begin:end] for begin, end in pairwise([*begins, len(names)])}
