"""`sensor_page` and `sensor_view` describe channels; `sensor_notes` returns the maintenance notes on a sensor."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sensormend.errors import ConfigError, InputError
from sensormend.pipeline.channel_states import STATES
from sensormend.pipeline.faults import SensorSummary
from sensormend.pipeline.health import FILL
from sensormend.pipeline.maintenance import ACTIONS, EVER, Maintenance, Note, check_note, remove_note, write_note
from sensormend.pipeline.sentences import ADVICE, counted, how_long, readable
from sensormend.pipeline.times import parse_time
from sensormend.pipeline.units import axis_label
from sensormend.readings import SECOND, Flag
from sensormend.views.channel_status import ChannelStatus, all_faults, channel_statuses
from sensormend.views.fault_list import FaultEntry, open_incident
from sensormend.views.reader import OutReader, finite, matches, page_of, utc

__all__ = [
    "NoteEntry",
    "Order",
    "SensorEntry",
    "SensorNotes",
    "SensorPage",
    "SensorView",
    "add_note",
    "read_maintenance",
    "sensor_notes",
    "sensor_page",
    "sensor_view",
    "telling_reading",
    "undo_note",
    "what_to_do",
]

MAX_SEARCHED = 10_000
"""The maximum number of slots of a fault that are searched for its worst reading."""

Order = Literal["trouble", "name", "heard", "faulty", "missing"]


@dataclass(frozen=True)
class SensorEntry:
    """A channel: its state now, and its metrics of sensors.csv; null where something is not known.

    Attributes
    ----------
    state, reason, since
        Its state now; the reason and since when, where something is wrong.
    heard
        The time of its last reading.
    readings, share_missing, share_faulty, usual_error
        Number of its readings; share of its slots without one, and of its readings that are wrong; its usual distance
        from the prediction by the others.
    """

    sensor: str
    variable: str
    state: str
    reason: str
    since: str | None
    heard: str | None
    readings: int
    share_missing: float | None
    share_faulty: float | None
    usual_error: float | None
    latitude: float | None
    longitude: float | None
    first: str | None
    last: str | None


@dataclass(frozen=True)
class SensorPage:
    """A page of channels; `next` is the offset of the next page."""

    total: int
    offset: int
    next: int | None
    items: list[SensorEntry]


@dataclass(frozen=True)
class SensorView(SensorEntry):
    """One channel, with the variables of its sensor.

    Attributes
    ----------
    faults
        The number of its faults.
    sentence
        What is wrong with it and what to do, or its state.
    fault
        Its open fault, or the run of short ones that this belongs to; null where none is open.
    worst
        The time of its wrong reading that is farthest off, which is explained first; null where there is none.
    label, unit
        The name of its variable for people, and its unit, empty if it is not known.
    """

    variables: list[str]
    faults: int
    sentence: str
    fault: FaultEntry | None
    worst: str | None
    label: str
    unit: str


def sensor_page(
    reader: OutReader,
    *,
    search: str = "",
    state: str = "",
    variable: str | None = None,
    sort: Order = "trouble",
    offset: int = 0,
    limit: int = 200,
) -> SensorPage:
    """Return a page of channels, by default those with most faults first."""
    statuses = channel_statuses(reader)
    chosen = [
        (entry, status)
        for entry in reader.summaries
        if variable in (None, entry.variable) and matches(search, entry.sensor)
        if (status := statuses[entry.sensor, entry.variable]).state == state or not state
    ]
    chosen.sort(key=lambda pair: _sort_key(sort, *pair))
    shown, next_offset = page_of(chosen, offset, limit)
    return SensorPage(len(chosen), offset, next_offset, [SensorEntry(**_columns(*pair)) for pair in shown])


def sensor_view(reader: OutReader, name: str, variable: str | None = None) -> SensorView:
    """Return one channel."""
    variable = reader.variable(variable, name)
    entry = next(one for one in reader.summaries if (one.sensor, one.variable) == (name, variable))
    status = channel_statuses(reader)[name, variable]
    faults = [one for one in all_faults(reader) if one.sensor == name and one.variable in ("", variable)]
    is_listed = status.needs_repair or status.state in ("suspect", "recovering")
    fault = open_incident(reader, name, variable) if is_listed else None
    label, unit = axis_label(variable, reader.run)
    return SensorView(
        **_columns(entry, status),
        variables=list(reader.channels[name]),
        faults=len(faults),
        sentence=_sentence(reader, status, len(faults))
        if fault is None
        else f"{fault.sentence} {what_to_do(status, fault.sure)}".strip(),
        fault=fault,
        worst=None
        if fault is None
        else utc(telling_reading(reader, name, variable, parse_time(fault.start), parse_time(fault.end))),
        label=label,
        unit=unit,
    )


def telling_reading(reader: OutReader, name: str, variable: str, start: int, end: int) -> int | None:
    """Return the time of the wrong reading of a span that is farthest off, None if there is none.

    Of a long span the newest part counts; where no reading is wrong, a doubtful one counts.
    """
    rows, _ = reader.rows([name], max(start, end - MAX_SEARCHED * reader.step), end, variable)
    rows = rows.taken((rows.time < (reader.final() or 0)) & (rows.n > 0) & (rows.reason != FILL))
    for flag in (Flag.FAIL, Flag.SUSPECT):
        own = rows.taken(rows.flag == flag)
        if len(own):
            # Only its interval says what a doubtful reading should be.
            off = np.abs(own.value - own.cleaned) + np.nan_to_num(own.upper - own.lower)
            return int(own.time[np.nan_to_num(off).argmax()])
    return None


def what_to_do(status: ChannelStatus, sure: str = "") -> str:
    """Return what to do about a fault; one that is only suspected is looked at first.

    A channel whose fault is certain is suspect where its last readings could be right again.
    """
    if status.state == "recovering":
        return "Its last readings are good again."
    if status.state == "suspect":
        newest = "Its last readings are only doubtful" if sure == "certain" else "It is suspect, not certain"
        return f"{newest}: compare it with its neighbours."
    return ADVICE.get(status.reason, "")


def _columns(entry: SensorSummary, status: ChannelStatus) -> dict[str, Any]:
    placed = math.isfinite(entry.latitude) and math.isfinite(entry.longitude)
    return {
        "sensor": entry.sensor,
        "variable": entry.variable,
        "state": status.state,
        "reason": status.reason,
        "since": utc(status.since),
        "heard": utc(status.heard),
        "readings": entry.readings,
        "share_missing": finite(entry.share_missing),
        "share_faulty": finite(entry.share_faulty),
        "usual_error": finite(entry.usual_error),
        "latitude": entry.latitude if placed else None,
        "longitude": entry.longitude if placed else None,
        "first": utc(entry.first),
        "last": utc(entry.last),
    }


def _sort_key(sort: Order, entry: SensorSummary, status: ChannelStatus) -> tuple[object, ...]:
    name = (entry.sensor, entry.variable)
    faulty, missing = finite(entry.share_faulty) or 0.0, finite(entry.share_missing) or 0.0
    return {
        "trouble": (STATES.index(status.state), -faulty, -missing, name),
        "name": (name,),
        "heard": (status.heard is not None, status.heard or 0, name),
        "faulty": (-faulty, name),
        "missing": (-missing, name),
    }[sort]


def _sentence(reader: OutReader, status: ChannelStatus, faults: int) -> str:
    """Return the state of a channel in a sentence."""
    span = reader.span()
    now = span[1] + reader.step if span else None
    since = f" for {how_long(max(now - status.since, SECOND))}" if now is not None and status.since else ""
    reason, ended = status.reason, status.heard if status.since is None else status.since
    state = {
        "faulty": f"Faulty{since}{f': {reason}' if reason else ''}",
        "silent": f"Silent{since}",
        "suspect": f"Suspect{since}{f': {reason}' if reason else ''}",
        "recovering": f"Recovering: {reason}",
        "learning": "Still learning: it cannot be judged yet",
        "ended": "Ended" if ended is None else f"Ended on {readable(ended)}",
    }.get(status.state, "Healthy")
    if status.needs_repair and not faults:
        return f"{state}. {status.sentence}"
    so_far = "" if status.state == "ended" or not reader.live else " so far"
    return f"{state}; {counted(faults, 'fault') if faults else 'no fault'}{so_far}."


@dataclass(frozen=True)
class NoteEntry:
    """A line: a sensor (`*` for all), a variable (empty for all), an action of `ACTIONS`, and a span.

    The ends of the span are null where it has none. `by` is who wrote it and `at` when, empty and null where that is
    not known; `comment` is their words.
    """

    sensor: str
    variable: str
    action: str
    start: str | None
    end: str | None
    by: str = ""
    at: str | None = None
    comment: str = ""


@dataclass(frozen=True)
class SensorNotes:
    """The maintenance notes on a sensor.

    Attributes
    ----------
    editable
        Whether notes can be added here.
    file
        The name of the file; empty if there is none.
    applies
        From when on a new note applies, as text.
    items
        The notes on the sensor, in the order of the file.
    """

    editable: bool
    file: str
    applies: str
    items: list[NoteEntry]


def sensor_notes(reader: OutReader, file: Path | None, sensor: str) -> SensorNotes:
    """Return the maintenance notes on a sensor; none where there is no file."""
    reader.known(sensor)
    entries = [
        NoteEntry(
            note.sensor,
            note.variable,
            note.action,
            _open_end(note.start),
            _open_end(note.end),
            note.by,
            utc(note.at),
            note.comment,
        )
        for note in read_maintenance(file).notes
        if note.concerns(sensor)
    ]
    applies = "from the period on that is open now" if reader.live else "from the next run of clean on"
    return SensorNotes(file is not None, file.name if file is not None else "", applies, entries)


def read_maintenance(file: Path | None) -> Maintenance:
    """Return the notes of a file; none where it does not exist yet."""
    return Maintenance.read(file) if file is not None and file.exists() else Maintenance()


def add_note(reader: OutReader, file: Path, entry: NoteEntry) -> SensorNotes:
    """Add a note on a sensor of this network to a file, and return its notes; a span without an end is open.

    It is on all variables where that of the entry is empty.
    """
    write_note(file, _note_of(reader, entry))
    return sensor_notes(reader, file, entry.sensor)


def undo_note(reader: OutReader, file: Path, entry: NoteEntry) -> SensorNotes:
    """Remove a note on a sensor from a file, and return the others; raise InputError where the file lacks it."""
    if not remove_note(file, _note_of(reader, entry)):
        raise InputError(f"{file.name} has no such note")
    return sensor_notes(reader, file, entry.sensor)


def _note_of(reader: OutReader, entry: NoteEntry) -> Note:
    reader.known(entry.sensor)
    # With a single variable the name may be left out.
    named = reader.variable(entry.variable, entry.sensor) if entry.variable and len(reader.variables) > 1 else ""
    if entry.action not in ACTIONS:
        raise ConfigError(f"an action is {', '.join(ACTIONS)}; got {entry.action[:40]!r}")
    begin = -EVER if entry.start is None else parse_time(entry.start)
    stop = EVER if entry.end is None else parse_time(entry.end)
    by, comment = (" ".join(text.split()) for text in (entry.by, entry.comment))
    at = None if entry.at is None else parse_time(entry.at)
    note = Note(entry.sensor, begin, stop, entry.action, named, by, at, comment)
    check_note(note)
    return note


def _open_end(time: int) -> str | None:
    return None if abs(time) >= EVER else utc(time)
