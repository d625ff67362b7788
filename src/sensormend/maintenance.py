"""What people know about their sensors: when to look away, when one was set right, when the odd was real."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sensormend.errors import ConfigError
from sensormend.readings import SECOND
from sensormend.recovery import BoolArray

__all__ = ["ACTIONS", "ALL", "Maintenance", "Note", "as_time"]

ACTIONS = ("ignore", "recalibrated", "real")
EVER = np.iinfo(np.int64).max // 4
ALL = "*"
"""Stands for every sensor."""


@dataclass(frozen=True)
class Note:
    """One line of `maintenance.csv`: a sensor (`*` for all), a variable (empty for all), a span, and what to do."""

    sensor: str
    start: int
    end: int
    action: str
    variable: str = ""

    def concerns(self, sensor: str) -> bool:
        """Say whether it is about this sensor."""
        return self.sensor in (sensor, ALL)


@dataclass(frozen=True)
class Maintenance:
    """The notes that people keep.

    `ignore` hides the readings of the span from the model and leaves them unjudged; `real` lets them pass whatever the
    model says; `recalibrated` ignores the span and starts the sensor over at its end, or at `from` where it has none.
    """

    notes: tuple[Note, ...] = ()

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Maintenance:
        """Read a CSV file with the columns sensor, from, to, action and, where it is about one only, variable."""
        path = Path(path)
        try:
            with path.open(newline="", encoding="utf-8-sig") as file:
                table = csv.DictReader(file)
                columns = [name.strip().lower() for name in table.fieldnames or ()]
                table.fieldnames = columns
                lacking = [name for name in ("sensor", "from", "to", "action") if name not in columns]
                if lacking:
                    raise ConfigError(
                        f"{path} has the columns {', '.join(columns) or 'none'}; {' and '.join(lacking)} are lacking"
                    )
                return cls(tuple(_note(row, f"{path}, row {number}") for number, row in enumerate(table, start=2)))
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise ConfigError(f"{path} cannot be read: {error}") from None

    def generation(self, sensor: str, period_end: int) -> int:
        """Return how often a sensor was recalibrated before the end of a period."""
        found = {_fresh(note) for note in self.notes if note.action == "recalibrated" and note.concerns(sensor)}
        return sum(fresh < period_end for fresh in found)

    def hidden(
        self, sensors: Sequence[str], variables: Sequence[str], times: NDArray[np.int64], step: int
    ) -> BoolArray | None:
        """Return the cells (sensor, variable, slot) that the model must not see; None for no such cell."""
        start, end = int(times[0]), int(times[-1]) + step
        spans = [note for note in self.notes if note.action == "ignore"]
        for note in self.notes:
            if note.action == "recalibrated" and note.start < end:
                # What a sensor said before it was set right, in the period in which it was, belongs to the old one.
                old = start if start <= _fresh(note) < end else note.start
                spans.append(Note(note.sensor, min(old, note.start), _fresh(note), "ignore", note.variable))
        return _cells(spans, sensors, variables, times, step)

    def real(
        self, sensors: Sequence[str], variables: Sequence[str], times: NDArray[np.int64], step: int
    ) -> BoolArray | None:
        """Return the cells that are true whatever they look like; None for no such cell."""
        return _cells([note for note in self.notes if note.action == "real"], sensors, variables, times, step)


def _fresh(note: Note) -> int:
    return note.end if note.end < EVER else note.start


def _cells(
    notes: Sequence[Note], sensors: Sequence[str], variables: Sequence[str], times: NDArray[np.int64], step: int
) -> BoolArray | None:
    notes = [note for note in notes if note.start < times[-1] + step and note.end > times[0]]
    if not notes:
        return None
    cells = np.zeros((len(sensors), len(variables), times.size), dtype=bool)
    place = {sensor: row for row, sensor in enumerate(sensors)}
    for note in notes:
        rows = slice(None) if note.sensor == ALL else place.get(note.sensor)
        if rows is None:
            continue
        mine = [note.variable in ("", variable) for variable in variables]
        slots = (times + step > note.start) & (times < note.end)
        cells[rows] |= np.array(mine)[:, None] & slots
    return cells


def _note(row: Mapping[str, str | None], where: str) -> Note:
    cells = {key: (value or "").strip() for key, value in row.items() if isinstance(value, str | None) and key}
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
    return Note(cells["sensor"], start, end, action, cells.get("variable", ""))


def as_time(text: str, where: str) -> int:
    """Return an ISO date or time in microseconds since 1970; without an offset it is taken as UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{where}: a time is written like 2020-03-01 or 2020-03-01T06:00; got {text!r}") from None
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86400 + since.seconds) * SECOND + since.microseconds
