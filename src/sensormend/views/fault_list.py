"""`fault_page` returns the faults of an output folder, filtered, sorted and in pages."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from sensormend.pipeline.channel_states import is_open
from sensormend.pipeline.faults import MAX_SLOTS_APART, FaultInterval
from sensormend.pipeline.sentences import enumeration, how_long, readable, size_words, unsigned, who
from sensormend.pipeline.units import split_unit
from sensormend.readings import SECOND
from sensormend.views.channel_status import all_faults
from sensormend.views.reader import OutReader, finite, matches, page_of, utc

__all__ = [
    "FaultEntry",
    "FaultPage",
    "Order",
    "Which",
    "device_sentence",
    "fault_page",
    "folded",
    "how_sure",
    "incident_sentence",
    "incidents",
    "is_lasting",
    "line_sentence",
    "open_incident",
    "select_faults",
    "variables_of",
]

Order = Literal["worst", "sure", "from", "to", "sensor", "reason", "score", "length"]
Which = Literal["all", "open", "over"]

MOST_NAMED = 5
"""The maximum number of variables that a sentence names."""

LENGTHS = 2
"""Faults that are over count as one fault of their device unless one of them lasts more than this many times as long as
another."""

LEAST_RUN = 3
"""The number of faults from which the sentence of an incident mentions a loose contact: two may be chance."""

CONTACT_KINDS = frozenset({"spike", "noise", "stuck", "implausible", "offset"})
"""Kinds of faults that a loose contact causes."""

CERTAIN_SCORE, LIKELY_SCORE = 3.0, 1.5
"""The minimum scores for these terms, as multiples of the threshold."""

CERTAIN_CONFIDENCE, LIKELY_CONFIDENCE = 0.95, 0.8
"""The minimum confidences for these terms, where the model gives one."""


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
        Number of faults that the line stands for: single wrong readings, a run of short faults, or faults of several
        variables that failed together.
    size_words
        The size of an offset, a drift or a gain as text: "+2.1, rising".
    incident
        The start of the first fault of its incident, as in faults.csv.
    others
        The other variables of the sensor that failed with this one: as silent, or as wrong, from nearly the same time
        on.
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
    incident: str | None = None
    others: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class FaultPage:
    """Some of the faults.

    Attributes
    ----------
    total
        Number of faults, each single wrong reading counted.
    reasons
        Number of faults of each reason under the other filters.
    lines, offset, next
        Number of lines, the offset of this page among them, and that of the next one.
    """

    total: int
    lines: int
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
    """Return faults, by default open ones first, and of these the longest first, lengths weighted with the confidence.

    Open faults that are only doubtful come first of a watch alone. Sorted by `sure`, wrong readings that are no silence
    and not borderline come first, the longest of them first. Those of a `search` contain it in the name of the
    sensor or in their sentence; those of a span from `start` to `end` overlap it. With `fold` the faults of an incident
    are one line, also those of variables of a device that failed together, and so are all single wrong readings of a
    channel.
    """
    selected = select_faults(reader, search=search, sensor=sensor, variable=variable, state=state, start=start, end=end)
    reasons = Counter(fault.reason for fault in selected)
    selected = [fault for fault in selected if not reason or fault.reason == reason]
    tables_end, finished = reader.tables_end(), reader.run.get("command") == "clean"
    lines = folded(reader, selected) if fold and reason != "spike" else [(fault,) for fault in selected]
    lines.sort(key=lambda line: (line[0].start, line[0].sensor, line[0].variable))
    lines.sort(key=lambda line: _sort_key(sort, line, tables_end, finished=finished), reverse=order == "desc")
    shown, next_offset = page_of(lines, offset, limit)
    return FaultPage(
        total=len(selected),
        lines=len(lines),
        offset=offset,
        next=next_offset,
        reasons=dict(sorted(reasons.items())),
        items=[_entry(reader, line) for line in shown],
    )


def incidents(faults: Iterable[FaultInterval]) -> list[tuple[FaultInterval, ...]]:
    """Return the faults of each incident, in order of start."""
    groups: dict[tuple[str, str, int, bool], list[FaultInterval]] = {}
    for fault in sorted(faults, key=lambda fault: fault.start):
        # A silence that begins with a fault is another incident.
        key = (
            fault.sensor,
            fault.variable,
            fault.start if fault.incident is None else fault.incident,
            fault.reason == "silent",
        )
        groups.setdefault(key, []).append(fault)
    return list(map(tuple, groups.values()))


def folded(reader: OutReader, faults: Iterable[FaultInterval]) -> list[tuple[FaultInterval, ...]]:
    """Return the lines of the list: an incident each, but all single wrong readings of a channel.

    Incidents of several variables of a sensor that are those of its device are one line, too.
    """
    spikes: dict[tuple[str, str], list[FaultInterval]] = {}
    lines: list[tuple[FaultInterval, ...]] = []
    for incident in incidents(faults):
        first = incident[0]
        if all(fault.reason == "spike" for fault in incident):
            spikes.setdefault((first.sensor, first.variable), []).extend(incident)
        else:
            lines.append(incident)
    return [*_by_device(lines, MAX_SLOTS_APART * reader.step, reader.tables_end()), *map(tuple, spikes.values())]


def _by_device(
    lines: Iterable[tuple[FaultInterval, ...]], apart: int, tables_end: int | None
) -> list[tuple[FaultInterval, ...]]:
    """Return incidents, of which those that are one of the device are joined.

    They are of different variables, begin within some time, and are open; or they are over, and none of them lasted for
    twice as long as the first. Silence, fill values and wrong readings are three.
    """
    groups: dict[tuple[str, str, bool], list[list[tuple[FaultInterval, ...]]]] = {}
    for line in sorted(lines, key=lambda line: (line[0].start, line[0].variable)):
        first, lasts = line[0], is_open(line[-1], tables_end)
        kind = first.reason if first.reason in ("silent", "fill") else ""
        of_kind = groups.setdefault((first.sensor, kind, lasts), [])
        for group in reversed(of_kind):
            leader = group[0]
            if first.start - leader[0].start > apart:
                of_kind.append([line])
                break
            shorter, longer = sorted(one[-1].end - one[0].start for one in (leader, line))
            known = {one[0].variable for one in group}
            if first.variable and not known & {"", first.variable} and (lasts or longer <= LENGTHS * shorter):
                group.append(line)
                break
        else:
            of_kind.append([line])
    return [tuple(fault for line in group for fault in line) for of_kind in groups.values() for group in of_kind]


def open_incident(reader: OutReader, sensor: str, variable: str) -> FaultEntry | None:
    """Return the incident of a channel that lasts until the end of the tables, of several the newest; None for none."""
    tables_end = reader.tables_end()
    own = incidents(select_faults(reader, sensor=sensor, variable=variable))
    lasting = [line for line in own if any(is_open(fault, tables_end) for fault in line)]
    # Its last line is the open one; a silence beside it is another incident.
    return _entry(reader, lasting[-1]) if lasting else None


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
    tables_end = reader.tables_end()
    return [
        fault
        for fault in all_faults(reader)
        if (sensor is None or fault.sensor == sensor)
        and (variable is None or fault.variable in ("", variable))
        and (state == "all" or is_open(fault, tables_end) == (state == "open"))
        and (start is None or fault.end > start)
        and (end is None or fault.start < end)
        and matches(search, fault.sensor, fault.sentence)
    ]


def how_sure(score: float, reason: str = "", confidence: float = math.nan) -> str:
    """Return a term for the certainty of a fault, from the model's confidence or else from its score.

    A single wrong reading has none; an impossible one that the model did not judge is certain.

    Examples
    --------
    >>> how_sure(5.0), how_sure(1.1), how_sure(1.0, "spike"), how_sure(1.1, "offset", 0.97)
    ('certain', 'borderline', '', 'certain')
    >>> how_sure(1.0, "implausible")
    'certain'
    """
    if not math.isfinite(score) or reason == "spike":
        return ""
    if reason == "implausible" and not math.isfinite(confidence):
        return "certain"
    if math.isfinite(confidence):
        certain, likely = confidence >= CERTAIN_CONFIDENCE, confidence >= LIKELY_CONFIDENCE
    else:
        certain, likely = score >= CERTAIN_SCORE, score >= LIKELY_SCORE
    return "certain" if certain else "likely" if likely else "borderline"


def _entry(reader: OutReader, line: tuple[FaultInterval, ...]) -> FaultEntry:
    spikes, tables_end = all(fault.reason == "spike" for fault in line), reader.tables_end()
    is_one = spikes or len(line) == 1
    # The worst of a run stands for all of it, but its size is its own.
    fault, last = line[0] if spikes else max(line, key=_score), max(line, key=lambda fault: fault.end)
    return FaultEntry(
        sensor=fault.sensor,
        variable=fault.variable,
        start=utc(line[0].start) or "",
        end=utc(last.end) or "",
        open=is_lasting(line, tables_end),
        seconds=_length(line) / SECOND,
        count=len(line),
        reason=fault.reason,
        score=finite(fault.score),
        sure=how_sure(fault.score, fault.reason, fault.confidence),
        sentence=line_sentence(reader, line),
        size=finite(fault.size) if is_one else None,
        rate=finite(fault.rate) if is_one else None,
        confidence=finite(fault.confidence),
        size_words=size_words(fault.reason, fault.size, fault.rate) if is_one else "",
        incident=utc(line[0].start if line[0].incident is None else line[0].incident),
        others=[name for name in variables_of(line) if name != fault.variable],
    )


def is_lasting(line: Iterable[FaultInterval], tables_end: int | None) -> bool:
    """Return whether one of the faults of a line lasts until the end of the tables."""
    return any(is_open(fault, tables_end) for fault in line)


def variables_of(line: Iterable[FaultInterval]) -> list[str]:
    """Return the variables of a line, of which it has several where a device failed."""
    return sorted({fault.variable for fault in line})


def line_sentence(reader: OutReader, line: tuple[FaultInterval, ...]) -> str:
    """Return one sentence on a line of the list."""
    if len(line) > 1 and all(fault.reason == "spike" for fault in line):
        return _single_readings(line)
    if len(variables_of(line)) > 1:
        total = len(reader.channels.get(line[0].sensor, ()))
        return device_sentence(line, total, is_open=is_lasting(line, reader.tables_end()))
    return incident_sentence(line)


def device_sentence(line: tuple[FaultInterval, ...], variables: int, *, is_open: bool) -> str:
    """Return one sentence on variables that failed together, of a sensor with so many `variables`.

    Examples
    --------
    >>> from sensormend.readings import DAY
    >>> def fault(variable, reason):
    ...     return FaultInterval("a", variable, 0, 2 * DAY, reason, 1.0, "", confidence=1.0)
    >>> device_sentence((fault("rh", "silent"), fault("temp (°C)", "silent")), 3, is_open=True)
    'rh and temp of a have sent nothing since 1970-01-01 00:00.'
    >>> device_sentence((fault("rh", "offset"), fault("temp (°C)", "gain")), 3, is_open=True)
    'rh and temp of a are wrong together since 1970-01-01 00:00 (offset, gain).'
    >>> device_sentence((fault("rh", "stuck"), fault("temp", "stuck"), fault("wind", "stuck")), 3, is_open=False)
    'All 3 variables of a were wrong together for 2 days (stuck).'
    """
    first, names = line[0], variables_of(line)
    several = variables == len(names) > 2
    subject = (
        f"All {variables} variables" if several else enumeration([split_unit(name)[0] for name in names], MOST_NAMED)
    )
    subject = f"{subject} of {first.sensor}"
    lengths = {fault.end - fault.start for fault in line}
    nothing = {"silent": "nothing", "fill": "fill values only"}.get(first.reason, "")
    lasted = f"for {'up to ' if nothing and len(lengths) > 1 else ''}{how_long(_length(line))}"
    lasted = f"since {readable(first.start)}" if is_open else lasted
    if nothing:
        return f"{subject} {'have sent' if is_open else 'sent'} {nothing} {lasted}."
    kinds = ", ".join(dict.fromkeys(fault.reason for fault in line if fault.reason != "spike"))
    is_are = "are" if is_open else "were"
    wrong = "doubtful" if all(fault.doubtful for fault in line) else "wrong"
    return f"{subject} {is_are} {wrong} together {lasted} ({kinds})."


def _score(fault: FaultInterval) -> float:
    return fault.score if math.isfinite(fault.score) else 0.0


def _probable_length(line: Iterable[FaultInterval]) -> float:
    """Return `_length` with each fault weighted by its confidence, where that is known."""
    lengths: dict[str, float] = {}
    for fault in line:
        weight = fault.confidence if math.isfinite(fault.confidence) else 1.0
        lengths[fault.variable] = lengths.get(fault.variable, 0.0) + weight * (fault.end - fault.start)
    return max(lengths.values())


def _is_sure(line: Iterable[FaultInterval]) -> bool:
    """Return whether a line is of wrong readings, and not borderline."""
    worst = max(line, key=_score)
    return worst.reason != "silent" and how_sure(worst.score, worst.reason, worst.confidence) != "borderline"


def _length(line: Iterable[FaultInterval]) -> int:
    """Return for how long a line was wrong: of several variables, that which was so for longest."""
    lengths: Counter[str] = Counter()
    for fault in line:
        lengths[fault.variable] += fault.end - fault.start
    return max(lengths.values())


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


def incident_sentence(line: tuple[FaultInterval, ...]) -> str:
    """Return one sentence on an incident, a run of short faults of a channel.

    Examples
    --------
    >>> from sensormend.readings import DAY, HOUR
    >>> def fault(day, reason, confidence=1.0):
    ...     return FaultInterval("a", "", day * DAY, day * DAY + HOUR, reason, 1.0, "", confidence=confidence)
    >>> incident_sentence((fault(0, "noise"), fault(1, "offset"), fault(2, "noise")))
    'a was wrong 3 times in 2 days, for 3 hours in all (noise, offset): a loose contact looks like this.'
    >>> incident_sentence((fault(0, "drift", 0.3), fault(1, "drift", 0.3)))
    'a was doubtful twice in 25 hours, for 2 hours in all (drift).'
    """
    if len(line) == 1:
        return line[0].sentence
    name = who(line[0].sensor, line[0].variable)
    kinds = dict.fromkeys(fault.reason for fault in line)
    doubtful = all(fault.doubtful for fault in line)
    contact = len(line) >= LEAST_RUN and not doubtful and CONTACT_KINDS.issuperset(kinds)
    times = "twice" if len(line) == 2 else f"{len(line):,} times"
    end = ": a loose contact looks like this." if contact else "."
    return (
        f"{name} was {'doubtful' if doubtful else 'wrong'} {times} in {how_long(line[-1].end - line[0].start)}, for "
        f"{how_long(_length(line))} in all ({', '.join(kinds)}){end}"
    )


def _sort_key(
    sort: Order, line: tuple[FaultInterval, ...], tables_end: int | None, *, finished: bool
) -> tuple[object, ...]:
    fault = line[0]
    urgent = is_lasting((one for one in line if not (finished and one.doubtful)), tables_end)
    return {
        "worst": (urgent, _probable_length(line)),
        "sure": (_is_sure(line), _length(line)),
        "from": (fault.start,),
        "to": (max(one.end for one in line),),
        "sensor": (fault.sensor, fault.variable),
        "reason": (fault.reason,),
        "score": (max(map(_score, line)),),
        "length": (_length(line),),
    }[sort]
