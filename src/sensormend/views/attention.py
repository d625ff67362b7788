"""`attention` lists the sensors that need repair, the most urgent first."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from sensormend.pipeline.channel_states import ChannelName, is_open, open_faults
from sensormend.pipeline.faults import FaultInterval
from sensormend.pipeline.maintenance import Maintenance, Note
from sensormend.pipeline.sentences import ADVICE, DEVICE_ADVICE, readable, size_words
from sensormend.readings import DAY, SECOND
from sensormend.views.channel_status import ChannelStatus, all_faults, channel_statuses
from sensormend.views.fault_list import (
    folded,
    how_sure,
    incident_sentence,
    incidents,
    is_lasting,
    line_sentence,
    variables_of,
)
from sensormend.views.reader import OutReader, page_of, utc

__all__ = ["Attention", "AttentionEntry", "attention"]

NO_NOTES = Maintenance()

SIZED = ("offset", "drift", "noise")
"""Kinds whose size is a distance from the estimate, which can be compared with the usual error of the channel."""


@dataclass(frozen=True)
class AttentionEntry:
    """A sensor that needs repair.

    Attributes
    ----------
    variable, others
        The most urgent of its channels that need repair, and the variables of those that need it for another reason.
    state, reason, since, seconds
        The state of that channel, its reason, since when and for how long.
    size_words, sure, sentence
        The size of its fault, a term for its certainty, and a sentence.
    advice
        What to do about it.
    known
        Who acknowledged it and what they wrote; empty if nobody did. Those that are known come last.
    urgency
        The size of the fault in usual errors of the channel times its length in days. The score stands for the size
        where the kind has none, and 1 for a silence.
    count
        The number of faults: more than one where short ones come and go, which is one incident, or where several
        variables failed together.
    together
        The other variables that failed with this one: then the sentence is on all of them.
    """

    sensor: str
    variable: str
    others: list[str]
    state: str
    reason: str
    since: str | None
    seconds: float
    size_words: str
    sure: str
    sentence: str
    advice: str
    urgency: float
    count: int = 1
    known: str = ""
    together: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Attention:
    """Sensors that need repair: all that are faulty or silent, and those of a live feed that have ended."""

    total: int
    offset: int
    next: int | None
    items: list[AttentionEntry]


def attention(reader: OutReader, *, notes: Maintenance = NO_NOTES, offset: int = 0, limit: int = 5) -> Attention:
    """Return the sensors that need repair, the most urgent first and those that somebody knows of last."""
    end = reader.tables_end() or 0
    listed = all_faults(reader)
    lines = incidents(listed)
    runs = {fault: line for line in lines for fault in line}
    devices = {fault: line for line in folded(reader, listed) if len(variables_of(line)) > 1 for fault in line}
    faults = {name: runs[fault] for name, fault in open_faults(listed, end).items()}
    # A channel stays faulty for a while after its last wrong reading.
    newest = {
        (line[-1].sensor, line[-1].variable): line for line in lines if line[-1].reason not in ("silent", "spike")
    }
    usual = {(entry.sensor, entry.variable): entry.usual_error for entry in reader.summaries}
    by_sensor: dict[str, list[AttentionEntry]] = {}
    for name, status in channel_statuses(reader).items():
        if status.needs_repair:
            incident = faults.get((status.sensor, "")) or faults.get(name, ())
            if status.state in ("silent", "ended") and incident and incident[-1].reason != "silent":
                # Its fault is open as well; that nothing comes from it is reported first.
                incident = ()
            last = newest.get(name, ())
            if not incident and status.state == "faulty" and last and last[-1].end > (status.since or end):
                incident = last
            entry = _entry(name, status, incident, usual[name], end, notes)
            if incident and not incident[-1].variable:
                # A silence of the whole sensor.
                entry = replace(entry, variable="")
            elif device := devices.get(incident[-1]) if incident else None:
                entry = _of_device(entry, device, end, line_sentence(reader, device))
            by_sensor.setdefault(status.sensor, []).append(entry)
    entries = []
    for own in by_sensor.values():
        first, *rest = sorted(own, key=lambda entry: (entry.known != "", -entry.urgency, entry.variable))
        others = [entry.variable for entry in rest if entry.variable not in ("", *first.together)]
        entries.append(replace(first, others=others))
    entries.sort(key=lambda entry: (entry.known != "", -entry.urgency, entry.sensor))
    shown, next_offset = page_of(entries, offset, limit)
    return Attention(len(entries), offset, next_offset, list(shown))


def _entry(
    name: ChannelName,
    status: ChannelStatus,
    incident: tuple[FaultInterval, ...],
    usual: float,
    end: int,
    notes: Maintenance,
) -> AttentionEntry:
    """Return the entry of a channel; its incident is its open fault, after others where short ones come and go."""
    fault = incident[-1] if incident else None
    begin = end if status.since is None else status.since
    known = notes.acknowledgement(*name, begin, end)
    lasted = max((end if fault is None else fault.end) - begin, 0)
    wrong = sum(fault.end - fault.start for fault in incident) if len(incident) > 1 else lasted
    size, rate, score = (fault.size, fault.rate, fault.score) if fault is not None else (math.nan, math.nan, math.nan)
    times = abs(size) / usual if status.reason in SIZED and usual > 0 else score
    return AttentionEntry(
        *name,
        others=[],
        state=status.state,
        reason=status.reason,
        since=utc(status.since),
        seconds=lasted / SECOND,
        size_words=size_words(status.reason, size, rate) if len(incident) <= 1 else "",
        sure=how_sure(score, status.reason, fault.confidence if fault is not None else math.nan),
        sentence=_sentence(incident, end) if incident else status.sentence,
        advice=ADVICE.get(status.reason, ""),
        urgency=round((times if math.isfinite(times) else 1.0) * wrong / DAY, 3),
        count=max(len(incident), 1),
        known="" if known is None else _known(known),
    )


def _of_device(entry: AttentionEntry, line: tuple[FaultInterval, ...], end: int, sentence: str) -> AttentionEntry:
    """Return the entry of a channel whose fault is one of its device."""
    begin, until = line[0].start, max(fault.end for fault in line)
    together = [name for name in variables_of(line) if name != entry.variable]
    if not is_lasting(line, end):
        return entry
    return replace(
        entry, since=utc(begin), seconds=(until - begin) / SECOND, size_words="", sentence=sentence, count=len(line),
        advice=entry.advice if entry.state == "silent" else DEVICE_ADVICE, together=together,
    )  # fmt: skip


def _sentence(incident: tuple[FaultInterval, ...], end: int) -> str:
    """Return the sentence on an incident; a sensor whose fault is over counts as faulty until it was sound for long."""
    words = incident_sentence(incident)
    if is_open(incident[-1], end):
        return words
    return f"{words} It was over at {readable(incident[-1].end)}, not long enough ago to count as healthy."


def _known(note: Note) -> str:
    """Return who acknowledged a fault, with their words."""
    who = f"acknowledged by {note.by}" if note.by else "acknowledged"
    return f"{who}: {note.comment}" if note.comment else who
