"""`series` returns one channel over time: readings, cleaned values, intervals, flags and the spans of its faults."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.io.metadata import csv_lines
from sensormend.pipeline.faults import FaultInterval, SensorSummary
from sensormend.pipeline.health import shade_words
from sensormend.pipeline.owner_flags import says_wrong, wrong_flags
from sensormend.pipeline.sentences import size_words
from sensormend.pipeline.times import iso
from sensormend.readings import CORRECTED, DAY, ESTIMATED, ORIGINS, REASONS, SECOND, Flag, Rows
from sensormend.recovery import FloatArray
from sensormend.views.fault_list import select_faults
from sensormend.views.reader import OutReader, numbers, utc

__all__ = ["MAX_DAYS", "Lasting", "Series", "Span", "row_lines", "series"]

USUAL_DAYS, MAX_DAYS = 30, 400
"""The default and the maximum number of days: finding a year of hourly rows among 2,000 sensors takes a third of a
second."""

ROWS_HEADER = ("time", "value", "n", "cleaned", "lower", "upper", "flag", "reason", "origin")

MAX_SLOTS = 600_000
"""The maximum number of slots: 400 days of minutes; with shorter slots fewer days."""

GONE_AFTER = 31 * DAY
"""A sensor that is silent for longer than the default wait of `clean` and `watch` has ended."""

MIN_LASTING = 7 * DAY
"""A fault with a size that lasts longer than this is drawn as a line, with its size."""

MIN_POINTS = 6
"""The minimum number of points in a period: with fewer, the lowest and the highest value of each point jump between day
and night."""

WORST_LAST = (Flag.GOOD, Flag.NOT_EVALUATED, Flag.MISSING, Flag.SUSPECT, Flag.FAIL)
KINDS = {"silent": "silent", "suspect": "suspect", "duplicate": "suspect", "not evaluated": "not evaluated",
         "alone": "not evaluated"}  # fmt: skip


@dataclass(frozen=True)
class Span:
    """A span that is shaded: Unix seconds, the label above it, and its kind.

    A fault is shaded from its first wrong reading to its last. Spans of one kind do not overlap.
    """

    start: float
    end: float
    word: str
    kind: str


@dataclass(frozen=True)
class Lasting:
    """A fault that lasts, drawn as a line: Unix seconds, its label, and its size as text ("+2.1, rising")."""

    start: float
    end: float
    word: str
    size: str


@dataclass(frozen=True)
class Series:
    """A channel over time, in columns; null where nothing is known.

    Attributes
    ----------
    start, end
        The span that is returned.
    requested
        The start that was requested, where the limit of days and slots has made the span shorter; else null.
    first, last
        The first and the last time of its rows, provisional ones included.
    step, thinned
        Seconds of a slot, and slots of a point.
    time
        Unix seconds.
    value, low, high
        The readings; where points are several slots their mean, and the lowest and the highest of them.
    cleaned, lower, upper
        The cleaned values and their interval; where points are several slots the mean, the lowest and the highest.
    cleaned_low, cleaned_high
        Where points are several slots, the lowest and the highest of the cleaned values.
    residual
        The reading minus the cleaned value, as the mean of a point.
    flag, estimated, corrected
        QARTOD's code, the worst of a point; 1 where `cleaned` is an estimate, and where it is a reading with its fault
        taken out.
    provisional_from
        The first time that is provisional.
    spans, lasting
        Spans to shade; and the faults that last.
    owner
        Spans whose readings are wrong by the flags that came with them.
    """

    sensor: str
    variable: str
    start: str | None
    end: str | None
    requested: str | None
    first: str | None
    last: str | None
    step: float
    thinned: int
    time: list[float]
    value: list[float | None]
    low: list[float | None]
    high: list[float | None]
    cleaned: list[float | None]
    cleaned_low: list[float | None]
    cleaned_high: list[float | None]
    lower: list[float | None]
    upper: list[float | None]
    residual: list[float | None]
    flag: list[int]
    estimated: list[int]
    corrected: list[int]
    provisional_from: float | None
    spans: list[Span]
    lasting: list[Lasting]
    owner: list[Span]


def series(
    reader: OutReader,
    name: str,
    variable: str | None = None,
    start: int | None = None,
    end: int | None = None,
    points: int = 2000,
) -> Series:
    """Return a channel over time, in at most `points` points: where there are more slots they are aggregated.

    The span is the last days by default, and at most `MAX_DAYS` and `MAX_SLOTS` before its `end`, which is excluded.
    """
    variable = reader.variable(variable, name)
    entry = next(one for one in reader.summaries if (one.sensor, one.variable) == (name, variable))
    span = _own_span(reader, entry)
    if span is None:
        begin = stop = wanted = 0
    else:
        stop = span[1] + reader.step if end is None else min(end, span[1] + reader.step)
        begin = stop - USUAL_DAYS * DAY if start is None else start
        wanted = max(begin, span[0])
        begin = max(wanted, stop - min(MAX_DAYS * DAY, MAX_SLOTS * reader.step))
    step = reader.step
    rows, since = reader.rows([name], begin, stop, variable)
    rows = rows.with_gaps(step)
    per_point = _slots_of_a_point(len(rows), points, max(1, (reader.period or DAY) // step))
    faults = select_faults(reader, sensor=name, variable=variable, start=begin, end=stop) if span else []
    faults = [fault for fault in faults if fault.reason not in ("", "spike", "silent", "fill")]
    joined = partial(_joined, max_gap=per_point * step / SECOND if per_point > 1 else 0.0)
    return Series(
        sensor=name,
        variable=variable,
        start=utc(begin) if span else None,
        end=utc(stop) if span else None,
        requested=utc(wanted) if wanted < begin else None,
        first=utc(span[0]) if span else None,
        last=utc(span[1]) if span else None,
        step=step / SECOND,
        thinned=per_point,
        provisional_from=None if since is None else since / SECOND,
        spans=joined(_spans(rows, step, faults, begin, stop)),
        owner=joined(_owner(rows, step, wrong_flags(reader.run))),
        lasting=_lasting(faults, begin, stop),
        **_thinned(rows, per_point),
    )


def row_lines(reader: OutReader, name: str, variable: str | None, start: int | None, end: int | None, most: int) -> str:
    """Return the rows of a channel from `start` to before `end` as CSV, the first `most` of them."""
    variable = reader.variable(variable, name)
    entry = next(one for one in reader.summaries if (one.sensor, one.variable) == (name, variable))
    span = _own_span(reader, entry) or (0, -1)
    begin = span[0] if start is None else max(start, span[0])
    stop = span[1] + reader.step if end is None else min(end, span[1] + reader.step)
    rows, _ = reader.rows([name], begin, max(min(stop, begin + most * reader.step), begin), variable)
    owners = [()] * len(rows) if rows.owner is None else [(rows.owner_flags[code],) for code in rows.owner]
    header = ROWS_HEADER if rows.owner is None else (*ROWS_HEADER, "owner_flag")
    lines = (
        (iso(int(rows.time[row])), float(rows.value[row]), int(rows.n[row]), float(rows.cleaned[row]),
         float(rows.lower[row]), float(rows.upper[row]), int(rows.flag[row]), REASONS[rows.reason[row]],
         ORIGINS[rows.origin[row]], *owners[row])
        for row in range(min(len(rows), most))
    )  # fmt: skip
    return csv_lines(header, [header]) + csv_lines(header, lines)


def _slots_of_a_point(slots: int, points: int, per_period: int) -> int:
    """Return the slots of a point: whole periods where a period would have only a few points.

    Examples
    --------
    >>> [_slots_of_a_point(days * 24, 1200, 24) for days in (40, 90, 365, 4000)]
    [1, 2, 24, 96]
    """
    size = max(1, -(-slots // points))
    return size if size * MIN_POINTS <= per_period or size == 1 else -(-size // per_period) * per_period


def _own_span(reader: OutReader, entry: SensorSummary) -> tuple[int, int] | None:
    """Return the times of a channel's first and last row; one that has left ends soon after its last reading."""
    span = reader.span()
    if span is None:
        return None
    first = span[0] if entry.first is None else max(reader.slot(entry.first), span[0])
    gone = entry.last is not None and span[1] - entry.last > GONE_AFTER
    return first, min(span[1], (entry.last or 0) + DAY) if gone else span[1]


def _spans(rows: Rows, step: int, faults: list[FaultInterval], begin: int, stop: int) -> list[Span]:
    """Return the spans to shade: faults from the first to the last reading, and spans that only flags show."""
    flagged = _flagged(rows, step)
    listed: dict[str, list[Span]] = {"faulty": [], "suspect": []}
    for fault in faults:
        kind = "suspect" if _is_doubtful(fault, rows) else "faulty"
        span = Span(max(fault.start, begin) / SECOND, min(fault.end, stop) / SECOND, fault.reason, kind)
        listed[kind].append(span)
    # Faults that are open, or not in the tables yet, are completed from the flags.
    wrong = _merged(listed["faulty"], [span for span in flagged if span.kind == "faulty"])
    doubtful = [part for span in _merged(listed["suspect"], []) for part in _outside(span, wrong)]
    others = [
        part
        for span in flagged
        if span.kind != "faulty"
        # Silence is shown within a fault too.
        for part in ([span] if span.kind == "silent" else _outside(span, [*wrong, *doubtful]))
    ]
    return sorted([*wrong, *doubtful, *others], key=lambda span: (span.start, span.end))


def _is_doubtful(fault: FaultInterval, rows: Rows) -> bool:
    """Return whether a fault is only suspected: by its confidence, or since no reading in sight has flag 4."""
    flags = rows.flag[(rows.time >= fault.start) & (rows.time < fault.end)]
    return fault.doubtful or bool((flags == Flag.SUSPECT).any() and not (flags == Flag.FAIL).any())


def _merged(listed: list[Span], flagged: list[Span]) -> list[Span]:
    """Merge spans that overlap or adjoin, with the labels of all, that of the longest first.

    Labels of listed faults go before those of the flags.
    """
    groups: list[list[Span]] = []
    end = -np.inf
    for span in sorted([*listed, *flagged], key=lambda span: span.start):
        if span.start > end:
            groups.append([])
        groups[-1].append(span)
        end = max(end, span.end)
    ids, merged = set(map(id, listed)), []
    for group in groups:
        lengths: dict[str, float] = {}
        for span in [span for span in group if id(span) in ids] or group:
            lengths[span.word] = lengths.get(span.word, 0.0) + span.end - span.start
        words = ", ".join(sorted(lengths, key=lambda word: -lengths[word]))
        merged.append(Span(group[0].start, max(span.end for span in group), words, group[0].kind))
    return merged


def _outside(span: Span, faults: list[Span]) -> list[Span]:
    """Return the parts of a span outside of faults."""
    parts = [span]
    for fault in faults:
        if fault.start < span.end and fault.end > span.start:
            parts = [
                replace(part, start=start, end=end)
                for part in parts
                for start, end in ((part.start, min(part.end, fault.start)), (max(part.start, fault.end), part.end))
                if start < end
            ]
    return parts


def _lasting(faults: list[FaultInterval], begin: int, stop: int) -> list[Lasting]:
    """Return the faults that last and have a size; overlapping ones of one kind are merged, with the newest size."""
    lasting: list[FaultInterval] = []
    for fault in sorted(faults, key=lambda fault: fault.start):
        if fault.end - fault.start < MIN_LASTING or not size_words(fault.reason, fault.size, fault.rate):
            continue
        before = next((one for one in lasting if one.reason == fault.reason and one.end >= fault.start), None)
        if before is None:
            lasting.append(fault)
        elif fault.end >= before.end:
            lasting[lasting.index(before)] = replace(fault, start=before.start)
    return [
        Lasting(max(fault.start, begin) / SECOND, min(fault.end, stop) / SECOND, fault.reason,
                size_words(fault.reason, fault.size, fault.rate))
        for fault in lasting
    ]  # fmt: skip


def _flagged(rows: Rows, step: int) -> list[Span]:
    """Return the spans of one channel's rows with a flag."""
    return [replace(span, kind=KINDS.get(span.word, "faulty")) for span in _runs(shade_words(rows), rows.time, step)]


def _runs(words: NDArray[Any], times: NDArray[np.int64], step: int) -> list[Span]:
    """Return the spans of consecutive rows with the same word, without those of an empty one."""
    edges = [0, *(np.flatnonzero(words[1:] != words[:-1]) + 1).tolist(), len(words)] if len(words) else [0]
    return [
        Span(int(times[begin]) / SECOND, (int(times[end - 1]) + step) / SECOND, words[begin], "")
        for begin, end in pairwise(edges)
        if words[begin]
    ]


def _owner(rows: Rows, step: int, wrong: Collection[str]) -> list[Span]:
    """Return the spans of one channel's rows that are wrong by the flags that came with them."""
    if rows.owner is None:
        return []
    words = np.array([word if says_wrong(word, wrong) else "" for word in rows.owner_flags], dtype=object)
    return [replace(span, kind="owner") for span in _runs(words[rows.owner], rows.time, step)]


def _joined(spans: list[Span], max_gap: float) -> list[Span]:
    """Join spans of one label that are less than two points apart, which limits their number to what can be seen."""
    joined: list[Span] = []
    last: dict[str, int] = {}
    for span in spans:
        place = last.get(span.word)
        if place is not None and span.start - joined[place].end < max_gap:
            joined[place] = replace(joined[place], end=span.end)
        else:
            last[span.word] = len(joined)
            joined.append(span)
    return joined


def _thinned(rows: Rows, per_point: int) -> dict[str, Any]:
    """Return the columns of a series."""
    begins = np.arange(0, len(rows), per_point)
    ranks = np.zeros(len(rows), np.int8)
    for rank, flag in enumerate(WORST_LAST, start=1):
        ranks[rows.flag == flag] = rank
    worst = np.array([0, *WORST_LAST])[np.maximum.reduceat(ranks, begins)]
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
        "cleaned_low": numbers(_extremes(rows.cleaned, begins, np.fmin)) if several else [],
        "cleaned_high": numbers(_extremes(rows.cleaned, begins, np.fmax)) if several else [],
        "lower": numbers(_extremes(rows.lower, begins, np.fmin) if several else rows.lower),
        "upper": numbers(_extremes(rows.upper, begins, np.fmax) if several else rows.upper),
        "residual": numbers(_means(rows.value - rows.cleaned, begins)),
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
    extremes: FloatArray = which.reduceat(values, begins)
    return extremes
