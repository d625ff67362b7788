"""`Maintenance` holds the users' notes on sensors: what to ignore, what was recalibrated, what was real."""

from __future__ import annotations

import csv
import io
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sensormend.errors import ConfigError
from sensormend.files import beside, harmless, original, read_table, sync
from sensormend.pipeline.times import iso, time_of
from sensormend.readings import NameIndex
from sensormend.recovery import BoolArray

__all__ = ["ACTIONS", "ALL", "EVER", "Maintenance", "Note", "as_time", "write_note", "write_notes"]

ACTIONS = ("ignore", "recalibrated", "real", "removed")
COLUMNS = ("sensor", "from", "to", "action", "variable")
COMMENT = "comment"
EVER = int(np.iinfo(np.int64).max // 4)
"""The end of a note without an end; its negative is the start of one without a start."""

ALL = "*"
"""The name in a note that stands for every sensor."""


@dataclass(frozen=True)
class Note:
    """One line of `maintenance.csv`: a sensor (`*` for all), a variable (empty for all), a span, and an action."""

    sensor: str
    start: int
    end: int
    action: str
    variable: str = ""

    def concerns(self, sensor: str) -> bool:
        """Return whether the note applies to a sensor."""
        return self.sensor in (sensor, ALL)

    @property
    def right_from(self) -> int:
        """The time from which the level of a recalibrated sensor is right."""
        return self.end if self.end < EVER else self.start


@dataclass(frozen=True)
class Maintenance:
    """The notes of `maintenance.csv`.

    `ignore` hides the readings of the span from the model and leaves them unjudged; `real` accepts them whatever the
    model's verdict; `recalibrated` ignores the span, and the level is right from its end on, or from `from` where it
    has no end; `removed` declares the sensor absent in the span: its readings are ignored, and it is neither silent
    nor gone.
    """

    notes: tuple[Note, ...] = ()

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Maintenance:
        """Read a CSV file with the columns sensor, from, to, action and optionally variable.

        Other columns, empty lines, and lines that begin with # and have no action are ignored.
        """
        table = read_table(path, dict.fromkeys(("sensor", "from", "to", "action"), ()))
        return cls(tuple(_note(cells, where) for where, cells in table if not _is_comment(cells)))

    def recalibrations(self, sensor: str, variable: str, period_end: int) -> int:
        """Return how often a sensor was recalibrated before the end of a period."""
        times = {
            note.right_from
            for note in self.notes
            if note.action == "recalibrated" and note.concerns(sensor) and note.variable in ("", variable)
        }
        return sum(time < period_end for time in times)

    def hidden(
        self, sensors: Sequence[str], variables: Sequence[str], times: NDArray[np.int64], step: int
    ) -> BoolArray | None:
        """Return the cells (sensor, variable, slot) that the model must not see; None for no such cell."""
        start, end = int(times[0]), int(times[-1]) + step
        notes = [note for note in self.notes if note.action in ("ignore", "removed")]
        for note in self.notes:
            if note.action == "recalibrated" and note.start < end:
                # Readings before a recalibration within the period have the level before it.
                first = min(start, note.start) if start <= note.right_from < end else note.start
                notes.append(Note(note.sensor, first, note.right_from, "ignore", note.variable))
        return _cells(notes, sensors, variables, times, step)

    def noted(
        self, action: str, sensors: Sequence[str], variables: Sequence[str], times: NDArray[np.int64], step: int
    ) -> BoolArray | None:
        """Return the cells (sensor, variable, slot) in a note with an action; None for no such cell."""
        return _cells([note for note in self.notes if note.action == action], sensors, variables, times, step)

    def unnoted(self, sensor: str, variable: str, time: int, step: int) -> int:
        """Return the start of the first slot at or after `time` without a note."""
        notes = [
            note
            for note in self.notes
            if note.action in ("ignore", "real", "removed")
            and note.concerns(sensor)
            and note.variable in ("", variable)
        ]
        for note in sorted(notes, key=lambda note: note.start):
            if note.start < time + step and note.end > time:
                time -= (time - note.end) // step * step
        return time


def write_note(path: str | os.PathLike[str], note: Note) -> bool:
    """Add a note to a file as `write_notes` does; return False where the file has it already."""
    return write_notes(path, {note: ""}) == 1


def write_notes(path: str | os.PathLike[str], notes: Mapping[Note, str]) -> int:
    """Add notes with their comments to a file, which is created where there is none; return how many are new.

    The content of the file is unchanged, except for the header where the notes need the columns variable or comment
    and they are lacking. The file is replaced as a whole or not at all.

    Raises
    ------
    ConfigError
        The file cannot be read, or a note cannot be written so that it is read again as it is.
    """
    # A symbolic link is kept.
    path = Path(path).resolve()
    before = Maintenance.read(path).notes if path.exists() else ()
    new_notes = {note: comment for note, comment in notes.items() if note not in before}
    if not new_notes:
        return 0
    text = _text_of(path) or f"{','.join(COLUMNS)}\n"
    newline = "\r\n" if "\r\n" in text else "\n"
    header = text.splitlines()[0]
    columns = [name.strip().lower() for name in next(csv.reader([header.removeprefix("\ufeff")]))]
    needed = {
        "variable": any(note.variable for note in new_notes),
        COMMENT: any(new_notes.values()),
    }
    more = [name for name, is_needed in needed.items() if is_needed and name not in columns]
    text = f"{','.join([header, *more])}{text[len(header) :]}"
    columns += more
    text += "" if text.endswith(("\n", "\r")) else newline
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator=newline)
    for note, comment in new_notes.items():
        start, end = ("" if abs(time) >= EVER else iso(time) for time in (note.start, note.end))
        cells = dict(
            zip(COLUMNS, (harmless(note.sensor), start, end, note.action, harmless(note.variable)), strict=True)
        )
        cells[COMMENT] = harmless(" ".join(comment.split()))
        writer.writerow([cells.get(name, "") for name in columns])
    with beside(path) as new:
        new.write_text(text + lines.getvalue(), encoding="utf-8", newline="")
        if Maintenance.read(new).notes != (*before, *new_notes):
            names = ", ".join(dict.fromkeys(repr(note.sensor) for note in new_notes))
            raise ConfigError(f"{path.name}: a note on {names} cannot be added; write it by hand")
        if path.exists():
            shutil.copymode(path, new)
        sync(new)
    return len(new_notes)


def _text_of(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None


def _is_comment(cells: Mapping[str, str]) -> bool:
    """Return whether a line is a comment; a line of a sensor whose name begins with # has an action."""
    first = next(iter(cells.values()))
    return (first.startswith("#") or not any(cells.values())) and cells["action"].lower() not in ACTIONS


def _cells(
    notes: Sequence[Note], sensors: Sequence[str], variables: Sequence[str], times: NDArray[np.int64], step: int
) -> BoolArray | None:
    notes = [note for note in notes if note.start < times[-1] + step and note.end > times[0]]
    if not notes:
        return None
    cells = np.zeros((len(sensors), len(variables), times.size), dtype=bool)
    index = NameIndex(sensors)
    for note in notes:
        rows = slice(None) if note.sensor == ALL else index.code(note.sensor)
        if rows != -1:
            chosen = np.array([note.variable in ("", variable) for variable in variables])
            cells[rows] |= chosen[:, None] & (times + step > note.start) & (times < note.end)
    return cells


def _note(cells: Mapping[str, str], where: str) -> Note:
    action = cells["action"].lower()
    if action not in ACTIONS:
        raise ConfigError(f"{where}: an action is {', '.join(ACTIONS)}; got {cells['action']!r}")
    if not cells["sensor"]:
        raise ConfigError(f"{where}: no sensor; * stands for all of them")
    start = as_time(cells["from"], f"{where}, from") if cells["from"] else -EVER
    end = as_time(cells["to"], f"{where}, to") if cells["to"] else EVER
    if end <= start:
        raise ConfigError(f"{where}: to is not after from")
    if action == "recalibrated" and start == -EVER and end == EVER:
        raise ConfigError(f"{where}: recalibrated needs a time, from or to")
    # A name may have been copied from a table of sensormend.
    return Note(original(cells["sensor"]), start, end, action, original(cells.get("variable", "")))


def as_time(text: str, where: str) -> int:
    """Return the time in a text; `where` is its place in a file, for a message."""
    try:
        return time_of(text)
    except ValueError:
        raise ConfigError(f"{where}: a time is written like 2020-03-01 or 2020-03-01T06:00; got {text!r}") from None
