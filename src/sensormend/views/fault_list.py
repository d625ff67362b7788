"""`fault_page` returns the faults of an OUT, filtered, sorted and in pages."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sensormend.io.metadata import FaultInterval
from sensormend.pipeline.sentences import readable, size_words, unsigned, who
from sensormend.readings import SECOND
from sensormend.views.channel_status import all_faults, is_open
from sensormend.views.reader import OutReader, matches, page_of, utc

__all__ = ["FaultEntry", "FaultPage", "Order", "Which", "fault_page", "how_sure", "select_faults"]

Order = Literal["worst", "from", "to", "sensor", "reason", "score", "length"]
Which = Literal["all", "open", "over"]

CERTAIN, LIKELY = 3.0, 1.5
"""Least scores, as multiples of the threshold, for these terms."""

SURE, PROBABLE = 0.95, 0.8
"""The same for the model's confidence in a fault, where it is known."""


@dataclass(frozen=True)
class FaultEntry:
    """A fault.

    Attributes
    ----------
    start, end, seconds
        Start of its first wrong slot, end of its last one, and the time between.
    open
        Whether it lasts until the end of the tables.
    reason, sentence
        The kind of fault, and a sentence.
    score, sure
        Its largest score, as a multiple of the threshold, and a term for its certainty; null and empty for a silent
        sensor, and no term for a single wrong reading.
    size, rate, confidence
        From the model: its effect on the readings, the change of that per period, and the probability that it is a
        fault; null where they are not known.
    count
        Number of single wrong readings that the line stands for.
    size_words
        The size of an offset, a drift or a gain as text: "+2.1, rising".
    """

    sensor: str
    variable: str
    start: str
    end: str
    open: bool
    seconds: float
    reason: str
    score: float | None
    sure: str
    sentence: str
    size: float | None = None
    rate: float | None = None
    confidence: float | None = None
    size_words: str = ""
    count: int = 1


@dataclass(frozen=True)
class FaultPage:
    """Some of the faults; `reasons` counts them under the other filters, `next` is where the next page begins."""

    total: int
    offset: int
    next: int | None
    reasons: dict[str, int]
    items: list[FaultEntry]


def fault_page(
    reader: OutReader,
    *,
    search: str = "",
    sensor: str | None = None,
    reason: str = "",
    variable: str | None = None,
    state: Which = "all",
    start: int | None = None,
    end: int | None = None,
    sort: Order = "worst",
    order: Literal["asc", "desc"] = "desc",
    fold: bool = True,
    offset: int = 0,
    limit: int = 50,
) -> FaultPage:
    """Return faults, by default open ones first, and of these the longest first.

    Parameters
    ----------
    reader
        The OUT.
    search
        Only those whose sensor or sentence contains this.
    sensor, reason, variable
        Only those of this sensor, kind or variable.
    state
        Only open ones, or only those that are over.
    start, end
        Only those that overlap this span.
    sort, order
        The order.
    fold
        Whether the single wrong readings of a channel are one line.
    offset, limit
        The page.
    """
    selected = select_faults(reader, search=search, sensor=sensor, variable=variable, state=state, start=start, end=end)
    reasons = Counter(fault.reason for fault in selected)
    selected = [fault for fault in selected if not reason or fault.reason == reason]
    until = reader.tables_end()
    lines = _folded(selected) if fold and reason != "spike" else [(fault,) for fault in selected]
    lines.sort(key=lambda line: (line[0].start, line[0].sensor, line[0].variable))
    lines.sort(key=lambda line: _key(sort, line, until), reverse=order == "desc")
    shown, following = page_of(lines, offset, limit)
    return FaultPage(
        total=len(lines),
        offset=offset,
        next=following,
        reasons=dict(sorted(reasons.items())),
        items=[_entry(line, until) for line in shown],
    )


def _folded(fault_page: Sequence[FaultInterval]) -> list[tuple[FaultInterval, ...]]:
    """Return the lines of the list: a fault each, but the single wrong readings of a channel together."""
    lines: list[tuple[FaultInterval, ...]] = []
    spikes: dict[tuple[str, str], list[FaultInterval]] = {}
    for fault in fault_page:
        if fault.reason == "spike":
            spikes.setdefault((fault.sensor, fault.variable), []).append(fault)
        else:
            lines.append((fault,))
    return lines + [tuple(sorted(mine, key=lambda fault: fault.start)) for mine in spikes.values()]


def select_faults(
    reader: OutReader,
    *,
    search: str = "",
    sensor: str | None = None,
    variable: str | None = None,
    state: Which = "all",
    start: int | None = None,
    end: int | None = None,
) -> list[FaultInterval]:
    """Return the faults that pass some filters."""
    until = reader.tables_end()
    return [
        fault
        for fault in all_faults(reader)
        if (sensor is None or fault.sensor == sensor)
        and (variable is None or fault.variable in ("", variable))
        and (state == "all" or is_open(fault, until) == (state == "open"))
        and (start is None or fault.end > start)
        and (end is None or fault.start < end)
        and matches(search, fault.sensor, fault.sentence)
    ]


def how_sure(score: float, reason: str = "", confidence: float = math.nan) -> str:
    """Return a term for the certainty of a fault, from the model's confidence or else from its score.

    A single wrong reading has none.

    Examples
    --------
    >>> how_sure(5.0), how_sure(1.1), how_sure(1.0, "spike"), how_sure(1.1, "offset", 0.97)
    ('certain', 'borderline', '', 'certain')
    """
    if not math.isfinite(score) or reason == "spike":
        return ""
    if math.isfinite(confidence):
        return "certain" if confidence >= SURE else "likely" if confidence >= PROBABLE else "borderline"
    return "certain" if score >= CERTAIN else "likely" if score >= LIKELY else "borderline"


def _entry(line: tuple[FaultInterval, ...], until: int | None) -> FaultEntry:
    fault, last = line[0], line[-1]
    return FaultEntry(
        sensor=fault.sensor,
        variable=fault.variable,
        start=utc(fault.start) or "",
        end=utc(last.end) or "",
        open=is_open(last, until),
        seconds=_length(line) / SECOND,
        count=len(line),
        reason=fault.reason,
        score=_finite(fault.score),
        sure=how_sure(fault.score, fault.reason, fault.confidence),
        sentence=fault.sentence if len(line) == 1 else _single_readings(line),
        size=_finite(fault.size),
        rate=_finite(fault.rate),
        confidence=_finite(fault.confidence),
        size_words=size_words(fault.reason, fault.size, fault.rate),
    )


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _length(line: tuple[FaultInterval, ...]) -> int:
    return sum(fault.end - fault.start for fault in line)


def _single_readings(line: tuple[FaultInterval, ...]) -> str:
    """Return one sentence on several single wrong readings of a channel.

    Examples
    --------
    >>> from sensormend.readings import HOUR
    >>> one = FaultInterval("a", "", 0, HOUR, "spike", 1.0, "a read 9.", 8.2, 0.0, 1.0)
    >>> _single_readings((one, one))
    'a has 2 single wrong readings, up to 8.2 off, the last one at 1970-01-01 00:00.'
    """
    sizes = [abs(fault.size) for fault in line if math.isfinite(fault.size)]
    off = f", up to {unsigned(max(sizes))} off" if sizes else ""
    name = who(line[0].sensor, line[0].variable)
    return f"{name} has {len(line):,} single wrong readings{off}, the last one at {readable(line[-1].start)}."


def _key(sort: Order, line: tuple[FaultInterval, ...], until: int | None) -> tuple[object, ...]:
    fault = line[0]
    return {
        "worst": (is_open(line[-1], until), _length(line)),
        "from": (fault.start,),
        "to": (line[-1].end,),
        "sensor": (fault.sensor, fault.variable),
        "reason": (fault.reason,),
        "score": (fault.score if math.isfinite(fault.score) else 0.0,),
        "length": (_length(line),),
    }[sort]
