"""One sensor over time: what came, what was made of it, and what was wrong."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.flags import Flag
from sensormend.health import shade_words
from sensormend.io.metadata import SensorSummary
from sensormend.readings import CORRECTED, DAY, ESTIMATED, SECOND, Rows
from sensormend.recovery import FloatArray
from sensormend.views.look import Look, numbers, utc

__all__ = ["MOST_DAYS", "Series", "Span", "series", "spans_of"]

USUAL_DAYS, MOST_DAYS = 30, 400
"""Days that are shown where nobody says which, and at most: a year of hours takes a third of a second to find among
2,000 sensors."""

MOST_SLOTS = 600_000
"""At most: 400 days of minutes. Of shorter slots it is fewer days."""

GONE = 31 * DAY
"""Without a word for longer than `clean` and `watch` wait for a sensor by default, it has left."""

WORST_LAST = (Flag.GOOD, Flag.NOT_EVALUATED, Flag.MISSING, Flag.SUSPECT, Flag.FAIL)
KINDS = {"silent": "silent", "suspect": "suspect", "duplicate": "suspect", "not evaluated": "not evaluated",
         "alone": "not evaluated"}  # fmt: skip


@dataclass(frozen=True)
class Span:
    """A stretch that is shaded: Unix seconds, the word that stands above it, and which kind it is of."""

    start: float
    end: float
    word: str
    kind: str


@dataclass(frozen=True)
class Series:
    """A channel over time, in columns; null where nothing is known.

    Attributes
    ----------
    start, end
        The span that is answered.
    first, last
        The first and the last time at which there is something to see of it, provisional or not.
    step, thinned
        Seconds of a slot, and how many slots are one point.
    time
        Unix seconds.
    value, low, high
        What came; where points are several slots its mean, and the lowest and the highest of them.
    cleaned, lower, upper
        What was made of it, and its interval.
    flag, estimated, corrected
        QARTOD's code, the worst of a point; 1 where `cleaned` is an estimate, and where it is a reading with its fault
        taken out.
    provisional_from
        The first time that is provisional.
    spans
        What was wrong.
    """

    sensor: str
    variable: str
    start: str | None
    end: str | None
    first: str | None
    last: str | None
    step: float
    thinned: int
    time: list[float]
    value: list[float | None]
    low: list[float | None]
    high: list[float | None]
    cleaned: list[float | None]
    lower: list[float | None]
    upper: list[float | None]
    flag: list[int]
    estimated: list[int]
    corrected: list[int]
    provisional_from: float | None
    spans: list[Span]


def series(
    look: Look,
    name: str,
    variable: str | None = None,
    start: int | None = None,
    end: int | None = None,
    points: int = 2000,
) -> Series:
    """Return a channel over time, in at most so many points.

    Parameters
    ----------
    look, name, variable
        Of what, of whom.
    start, end
        Times, `end` left out; the last days by default. No more than `MOST_DAYS` and `MOST_SLOTS`: what is earlier is
        left out.
    points
        Slots are put together where there are more.
    """
    look.known(name)
    variable = look.variable(variable, name)
    entry = next(one for one in look.summaries if (one.sensor, one.variable) == (name, variable))
    span = _own_span(look, entry)
    if span is None:
        begin = stop = 0
    else:
        stop = span[1] + look.step if end is None else min(end, span[1] + look.step)
        begin = stop - USUAL_DAYS * DAY if start is None else start
        begin = max(begin, span[0], stop - min(MOST_DAYS * DAY, MOST_SLOTS * look.step))
    rows, since = look.rows(name, begin, stop, variable)
    step = look.step
    rows = rows.with_holes(step)
    per_point = max(1, -(-len(rows) // points))
    columns = _thinned(rows, per_point)
    return Series(
        sensor=name,
        variable=variable,
        start=utc(begin) if span else None,
        end=utc(stop) if span else None,
        first=utc(span[0]) if span else None,
        last=utc(span[1]) if span else None,
        step=step / SECOND,
        thinned=per_point,
        provisional_from=None if since is None else since / SECOND,
        spans=_drawn(spans_of(rows, step), per_point * step / SECOND if per_point > 1 else 0.0),
        **columns,
    )


def _own_span(look: Look, entry: SensorSummary) -> tuple[int, int] | None:
    """Return the times of a channel's first and last row; one that has left ends soon after its last word."""
    span = look.span()
    if span is None:
        return None
    first = span[0] if entry.first is None else max(look.slot(entry.first), span[0])
    gone = entry.last is not None and span[1] - entry.last > GONE
    return first, min(span[1], (entry.last or 0) + DAY) if gone else span[1]


def spans_of(rows: Rows, step: int) -> list[Span]:
    """Return the stretches of one channel's rows that are shaded."""
    words = shade_words(rows)
    edges = [0, *(np.flatnonzero(words[1:] != words[:-1]) + 1).tolist(), len(words)] if len(words) else [0]
    return [
        Span(
            int(rows.time[begin]) / SECOND,
            (int(rows.time[end - 1]) + step) / SECOND,
            words[begin],
            KINDS.get(words[begin], "faulty"),
        )
        for begin, end in pairwise(edges)
        if words[begin]
    ]


def _drawn(spans: list[Span], apart: float) -> list[Span]:
    """Join those of one word that are nearer to each other than two points: there are no more than can be seen."""
    found: list[Span] = []
    last: dict[str, int] = {}
    for span in spans:
        place = last.get(span.word)
        if place is not None and span.start - found[place].end < apart:
            found[place] = replace(found[place], end=span.end)
        else:
            last[span.word] = len(found)
            found.append(span)
    return found


def _thinned(rows: Rows, per_point: int) -> dict[str, Any]:
    """Return the columns of a series."""
    begins = np.arange(0, len(rows), per_point)
    ranks = np.zeros(len(rows), np.int8)
    for rank, flag in enumerate(WORST_LAST, start=1):
        ranks[rows.flag == flag] = rank
    flags = np.array([0, *WORST_LAST])
    if not begins.size:
        worst = estimated = corrected = np.empty(0, np.int64)
    else:
        worst = flags[np.maximum.reduceat(ranks, begins)]
        estimated, corrected = (
            np.maximum.reduceat((rows.origin == origin).astype(np.int64), begins) for origin in (ESTIMATED, CORRECTED)
        )
    several = per_point > 1
    return {
        "time": [time / SECOND for time in rows.time[begins].tolist()],
        "value": numbers(_means(rows.value, begins)),
        "low": numbers(_extremes(rows.value, begins, np.fmin)) if several else [],
        "high": numbers(_extremes(rows.value, begins, np.fmax)) if several else [],
        "cleaned": numbers(_means(rows.cleaned, begins)),
        "lower": numbers(_means(rows.lower, begins)),
        "upper": numbers(_means(rows.upper, begins)),
        "flag": worst.tolist(),
        "estimated": estimated.tolist(),
        "corrected": corrected.tolist(),
    }


def _means(values: FloatArray, begins: NDArray[np.intp]) -> FloatArray:
    if begins.size in (0, values.size):
        return values
    known = np.isfinite(values)
    count = np.add.reduceat(known, begins, dtype=np.int64)
    total = np.add.reduceat(np.where(known, values, 0.0), begins)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _extremes(values: FloatArray, begins: NDArray[np.intp], which: np.ufunc) -> FloatArray:
    found: FloatArray = which.reduceat(values, begins)
    return found
