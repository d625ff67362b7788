"""`read_notes` makes notes on maintenance of a table in which owners wrote down flags and visits."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sensormend.errors import ConfigError
from sensormend.files import read_table
from sensormend.pipeline.maintenance import ACTIONS, ALL, EVER, FIXED, Note, as_time, check_note

__all__ = ["GOOD", "WRONG", "OwnerNotes", "read_notes"]

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
