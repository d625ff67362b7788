"""What people know about a sensor: the lines of maintenance.csv that are about it, and one more."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sensormend.errors import ConfigError
from sensormend.io.metadata import time_of
from sensormend.pipeline.maintenance import ACTIONS, EVER, Maintenance, Note, write_note
from sensormend.views.look import Look, utc

__all__ = ["NoteEntry", "Notes", "known_of", "noted", "notes"]


@dataclass(frozen=True)
class NoteEntry:
    """A line: a sensor (`*` for all), a variable (empty for all), `ignore`, `recalibrated` or `real`, and a span.

    The ends of the span are null where it has none.
    """

    sensor: str
    variable: str
    action: str
    start: str | None
    end: str | None


@dataclass(frozen=True)
class Notes:
    """What people know.

    Attributes
    ----------
    editable
        Whether notes can be added here.
    file
        What the file is called that has them; empty where none is known.
    applies
        From when on a new one is heeded, in words.
    items
        Those about a sensor, in the order of the file.
    """

    editable: bool
    file: str
    applies: str
    items: list[NoteEntry]


def notes(look: Look, file: Path | None, sensor: str) -> Notes:
    """Return what is known about a sensor; nothing where no file is known."""
    look.known(sensor)
    entries = [
        NoteEntry(note.sensor, note.variable, note.action, _utc(note.start), _utc(note.end))
        for note in known_of(file).notes
        if note.concerns(sensor)
    ]
    applies = "from the period on that is open now" if look.live else "from the next run of clean on"
    return Notes(file is not None, file.name if file is not None else "", applies, entries)


def known_of(file: Path | None) -> Maintenance:
    """Return what a file says; nothing where there is none yet."""
    return Maintenance.read(file) if file is not None and file.exists() else Maintenance()


def noted(look: Look, file: Path, sensor: str, variable: str | None, action: str, start: str | None,
          end: str | None) -> Notes:  # fmt: skip
    """Add a note on a sensor of this network, and return what is known about it then.

    Parameters
    ----------
    look, file
        The network, and where notes are kept.
    sensor, variable
        Whom it is about; all variables where none is said.
    action, start, end
        What to do, and from when to when; a time that is None is open.
    """
    look.known(sensor)
    # Where there is but one, without a name or with it, nobody has to say which.
    named = look.variable(variable, sensor) if variable is not None and len(look.variables) > 1 else ""
    if action not in ACTIONS:
        raise ConfigError(f"an action is {', '.join(ACTIONS)}; got {action[:40]!r}")
    begin, stop = (-EVER if start is None else time_of(start)), (EVER if end is None else time_of(end))
    if stop <= begin:
        raise ConfigError("to is not after from")
    if action == "recalibrated" and start is None and end is None:
        raise ConfigError("recalibrated needs a time, from or to")
    write_note(file, Note(sensor, begin, stop, action, named))
    return notes(look, file, sensor)


def _utc(time: int) -> str | None:
    return None if abs(time) >= EVER else utc(time)
