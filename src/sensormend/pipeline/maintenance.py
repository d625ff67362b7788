"""`Maintenance` holds the users' notes on sensors; `read_notes` makes notes of tables that owners kept elsewhere."""

from __future__ import annotations

import csv
import io
import os
import re
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sensormend.errors import ConfigError
from sensormend.files import harmless, open_text, original, read_table, replacing, sync
from sensormend.pipeline.times import iso, parse_time
from sensormend.readings import NameIndex
from sensormend.recovery import BoolArray

__all__ = [
    "ACTIONS",
    "ALL",
    "EVER",
    "FIXED",
    "GOOD",
    "WRONG",
    "Maintenance",
    "Note",
    "OwnerNotes",
    "as_time",
    "check_note",
    "read_notes",
    "remove_note",
    "write_note",
    "write_notes",
]


FIXED = ("recalibrated", "cleaned", "replaced", "moved")
"""Actions after which the level of a sensor is right."""

ACTIONS = ("ignore", "real", "removed", *FIXED, "acknowledged", "muted", "comment")
COLUMNS = ("sensor", "from", "to", "action", "variable", "by", "at", "comment")
USUAL = 5
"""The first columns, which a new file has; the others are added when a note needs them."""

EVER = int(np.iinfo(np.int64).max // 4)
"""The end of a note without an end; its negative is the start of one without a start."""

ALL = "*"
"""The name in a note that stands for every sensor."""


@dataclass(frozen=True)
class Note:
    """One line of `maintenance.csv`: a sensor (`*` for all), a variable (empty for all), a span, and an action.

    `by` is who wrote it and `at` when, None if that is not known; `comment` is their words.
    """

    sensor: str
    start: int
    end: int
    action: str
    variable: str = ""
    by: str = ""
    at: int | None = None
    comment: str = ""

    def concerns(self, sensor: str) -> bool:
        """Return whether the note applies to a sensor."""
        return self.sensor in (sensor, ALL)

    @property
    def right_from(self) -> int:
        """The time from which the level of a sensor that was fixed is right."""
        return self.end if self.end < EVER else self.start


@dataclass(frozen=True)
class Maintenance:
    """The notes of `maintenance.csv`.

    `ignore` hides the readings of the span from the model and leaves them unjudged; `real` accepts them whatever the
    model's verdict; the actions of `FIXED` ignore the span, and the level is right from its end on, or from `from`
    where it has no end; `removed` declares the sensor absent in the span: its readings are ignored, and it is neither
    silent nor gone. The others change no verdict: `acknowledged` says that somebody knows of a fault, `muted` holds its
    alerts back until the end of the span, and `comment` has only words.
    """

    notes: tuple[Note, ...] = ()

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Maintenance:
        """Read a CSV file with the columns sensor, from, to, action and optionally variable, by, at and comment.

        Other columns, empty lines, and lines that begin with # and have no action are ignored.
        """
        table = read_table(path, dict.fromkeys(("sensor", "from", "to", "action"), ()))
        return cls(tuple(_note(cells, where) for where, cells in table if not _is_comment(cells)))

    def recalibrations(self, sensor: str, variable: str, period_end: int) -> int:
        """Return how often a sensor was recalibrated before the end of a period."""
        times = {
            note.right_from
            for note in self.notes
            if note.action in FIXED and note.concerns(sensor) and note.variable in ("", variable)
        }
        return sum(time < period_end for time in times)

    def hidden(
        self, sensors: Sequence[str], variables: Sequence[str], times: NDArray[np.int64], step: int
    ) -> BoolArray | None:
        """Return the cells (sensor, variable, slot) that the model must not see; None for no such cell."""
        start, end = int(times[0]), int(times[-1]) + step
        notes = [note for note in self.notes if note.action in ("ignore", "removed")]
        for note in self.notes:
            if note.action in FIXED and note.start < end:
                # Readings before a recalibration within the period have the level before it.
                first = min(start, note.start) if start <= note.right_from < end else note.start
                notes.append(Note(note.sensor, first, note.right_from, "ignore", note.variable))
        return _cells(notes, sensors, variables, times, step)

    def noted(
        self, action: str, sensors: Sequence[str], variables: Sequence[str], times: NDArray[np.int64], step: int
    ) -> BoolArray | None:
        """Return the cells (sensor, variable, slot) in a note with an action; None for no such cell."""
        return _cells([note for note in self.notes if note.action == action], sensors, variables, times, step)

    def is_muted(self, sensor: str, variable: str, time: int) -> bool:
        """Return whether the alerts of a channel are held back at a time."""
        return any(
            note.action == "muted" and note.start <= time < note.end
            and note.concerns(sensor) and note.variable in ("", variable)
            for note in self.notes
        )  # fmt: skip

    def acknowledgement(self, sensor: str, variable: str, start: int, end: int) -> Note | None:
        """Return the newest note that acknowledges a fault of a channel from `start` to `end`; None without one.

        It begins in the fault, or has no beginning and was written after that of the fault.
        """
        known = [
            note
            for note in self.notes
            if note.action == "acknowledged" and note.concerns(sensor) and note.variable in ("", variable)
            and (start <= note.start <= end or (note.start == -EVER and note.at is not None and note.at >= start))
        ]  # fmt: skip
        return known[-1] if known else None

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
    """Add a note to a file as `write_notes` does; return False if the file has it already."""
    return write_notes(path, [note]) == 1


def write_notes(path: str | os.PathLike[str], notes: Sequence[Note]) -> int:
    """Add notes to a file, which is created where there is none; return how many are new.

    A note that differs from one of the file only in when it was written is not new. The content of the file is
    unchanged, except for the header where the notes need columns that are lacking. The file is replaced as a whole or
    not at all.

    Raises
    ------
    ConfigError
        The file cannot be read, or a note cannot be written so that it is read again as it is.
    """
    # A symbolic link is kept.
    path = Path(path).resolve()
    before = Maintenance.read(path).notes if path.exists() else ()
    known = {replace(note, at=None) for note in before}
    first = {replace(note, at=None): note for note in reversed(notes)}
    new_notes = [first[key] for key in dict.fromkeys(replace(note, at=None) for note in notes) if key not in known]
    if not new_notes:
        return 0
    text = _read_text(path) or f"{','.join(COLUMNS[:USUAL])}\n"
    newline = "\r\n" if "\r\n" in text else "\n"
    header = text.splitlines()[0]
    columns = [name.strip().lower() for name in next(csv.reader([header.removeprefix("\ufeff")]))]
    lines = [_format_note(note) for note in new_notes]
    new_columns = [name for name in COLUMNS[USUAL - 1 :] if name not in columns and any(cells[name] for cells in lines)]
    columns += new_columns
    text = "".join([header, *(f",{name}" for name in new_columns), text[len(header) :]])
    text += "" if text.endswith(("\n", "\r")) else newline
    written = io.StringIO()
    writer = csv.writer(written, lineterminator=newline)
    writer.writerows([cells.get(name, "") for name in columns] for cells in lines)
    names = ", ".join(dict.fromkeys(repr(note.sensor) for note in new_notes))
    _replace(path, text + written.getvalue(), (*before, *new_notes), f"a note on {names} cannot be added")
    return len(new_notes)


def _format_note(note: Note) -> dict[str, str]:
    """Return the cells of a note by their columns, as `_note` reads them."""
    start, end = ("" if abs(time) >= EVER else iso(time) for time in (note.start, note.end))
    at = "" if note.at is None else iso(note.at)
    cells = (harmless(note.sensor), start, end, note.action, *map(harmless, (note.variable, note.by)), at,
             harmless(note.comment))  # fmt: skip
    return dict(zip(COLUMNS, cells, strict=True))


def remove_note(path: str | os.PathLike[str], note: Note) -> bool:
    """Remove a note from a file, whose other lines stay as they are; return False if the file does not have it."""
    path = Path(path).resolve()
    notes = list(Maintenance.read(path).notes) if path.exists() else []
    if note not in notes:
        return False
    lines = _read_text(path).splitlines(keepends=True)
    reader = csv.reader(lines)
    columns = [name.strip().lower().removeprefix("\ufeff") for name in next(reader)]
    begin, place = reader.line_num, slice(0)
    for row in reader:
        cells = {name: cell.strip() for name, cell in zip(columns, [*row, *[""] * len(columns)], strict=False)}
        if row and not _is_comment(cells) and _note(cells, path.name) == note:
            place = slice(begin, reader.line_num)
        begin = reader.line_num
    # The last of equal notes: the newest.
    del notes[len(notes) - 1 - notes[::-1].index(note)], lines[place]
    _replace(path, "".join(lines), tuple(notes), f"the note on {note.sensor!r} cannot be removed")
    return True


def _replace(path: Path, text: str, notes: tuple[Note, ...], problem: str) -> None:
    """Replace a file by a text that is read as some notes; raise ConfigError if it cannot be."""
    with replacing(path) as new:
        new.write_text(text, encoding="utf-8", newline="")
        if Maintenance.read(new).notes != notes:
            raise ConfigError(f"{path.name}: {problem}; do it by hand")
        if path.exists():
            shutil.copymode(path, new)
        sync(new)


def _read_text(path: Path) -> str:
    try:
        with open_text(path) as file:
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
    at = as_time(cells["at"], f"{where}, at") if cells.get("at") else None
    # A name may have been copied from a table of sensormend.
    variable, by, comment = (original(cells.get(name, "")) for name in ("variable", "by", "comment"))
    note = Note(original(cells["sensor"]), start, end, action, variable, by, at, comment)
    check_note(note, where)
    return note


def check_note(note: Note, where: str = "") -> None:
    """Raise ConfigError for a note that says nothing; `where` is its place in a file."""
    if note.end <= note.start:
        problem = "to is not after from"
    elif note.action in FIXED and note.start == -EVER and note.end == EVER:
        problem = f"{note.action} needs a time, from or to"
    elif note.action == "muted" and note.end == EVER:
        problem = "muted needs a time, to"
    elif note.action == "comment" and not note.comment:
        problem = "a comment needs words"
    else:
        return
    raise ConfigError(f"{where}: {problem}" if where else problem)


def as_time(text: str, where: str) -> int:
    """Return the time in a text; `where` is its place in a file, for a message."""
    try:
        return parse_time(text)
    except ValueError:
        raise ConfigError(f"{where}: a time is written like 2020-03-01 or 2020-03-01T06:00; got {text!r}") from None


GOOD, WRONG = ("1", "good", "pass", "ok"), ("4", "bad", "fail", "wrong")
"""Flags of spans whose readings are true, and of those whose readings are wrong, in lower case."""

NEEDED = {
    "from": ("start", "begin", "starttime", "start_time", "start time", "start_date", "date_from", "from_date"),
    "to": ("end", "until", "stop", "endtime", "end_time", "end time", "end_date", "date_to", "to_date"),
}
"""The required columns and their other names."""

OPTIONAL = {
    "sensor": ("sensor", "station", "site", "device", "logger", "name"),
    "variable": ("variable", "parameter", "param", "quantity", "property"),
    "flag": ("flag", "quality", "qc", "qc_flag", "code", "flag_code"),
    "comment": ("comment", "comments", "remark", "remarks", "note", "notes", "description", "reason"),
}
"""The columns that a table may have, and the names for each."""

CALIBRATED = re.compile(r"\b(re-?)?calibrat", re.IGNORECASE)
REMOVED = re.compile(r"\b(removed|dismantled|decommissioned|uninstalled|retired)\b", re.IGNORECASE)


@dataclass(frozen=True)
class OwnerNotes:
    """The notes of a table.

    Attributes
    ----------
    notes
        The notes with the owner's comments, each once.
    passed
        The flags that say neither good nor wrong, and in how many lines.
    """

    notes: Sequence[Note]
    passed: Mapping[str, int]


def read_notes(
    path: str | os.PathLike[str],
    sensor: str | None = None,
    *,
    wrong: Sequence[str] = WRONG,
    good: Sequence[str] = GOOD,
) -> OwnerNotes:
    """Return the notes of a CSV table with the columns from and to, and perhaps sensor, variable, flag and comment.

    Parameters
    ----------
    sensor
        The sensor of a table without such a column; None for all sensors.
    wrong, good
        The flags of spans whose readings are wrong, and of those whose readings are true.
    """
    comments: dict[Note, str] = {}
    passed: Counter[str] = Counter()
    wrong, good = ([flag.strip().lower() for flag in flags] for flags in (wrong, good))
    for where, row in read_table(path, NEEDED):
        if not any(row.values()) or next(iter(row.values())).startswith("#"):
            continue
        cells = {name: next((row[other] for other in names if other in row), None) for name, names in OPTIONAL.items()}
        comment, written = " ".join((cells["comment"] or "").split()), row.get("action") or cells["flag"]
        action = _action(written, comment, wrong, good)
        if action is None:
            passed[written or ""] += 1
            continue
        name = cells["sensor"] or sensor or ("" if cells["sensor"] == "" else ALL)
        if not name:
            raise ConfigError(f"{where}: no sensor; * stands for all of them")
        start = as_time(row["from"], f"{where}, from") if row["from"] else -EVER
        end = as_time(row["to"], f"{where}, to") if row["to"] else EVER
        if start == end and action in FIXED:
            end = EVER  # a moment, from which the level is right
        if start == -EVER and end == EVER:
            raise ConfigError(f"{where}: neither from nor to has a time")
        note = Note(name, start, end, action, cells["variable"] or "")
        check_note(replace(note, comment=comment), where)
        comments[note] = comments.get(note) or comment
    return OwnerNotes([replace(note, comment=comment) for note, comment in comments.items()], passed)


def _action(written: str | None, comment: str, wrong: Sequence[str], good: Sequence[str]) -> str | None:
    """Return the action of a line by its flag, None in a table without flags, and its comment.

    Examples
    --------
    >>> [_action(flag, text, WRONG, GOOD) for flag, text in (("4", ""), ("Good", ""), ("3", ""), (None, "Calibrated"))]
    ['ignore', 'real', None, 'recalibrated']
    """
    flag = None if written is None else written.lower()
    if flag in ACTIONS:
        return flag
    if flag in good:
        return "real"
    if flag is not None and flag not in wrong:
        return None
    if CALIBRATED.search(comment):
        return "recalibrated"
    return "removed" if REMOVED.search(comment) else "ignore"
