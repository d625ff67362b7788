"""What files hold, as `clean` reads them, in parts."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from sensormend.io.staging import Staging
from sensormend.pipeline.places import Position
from sensormend.readings import DAY, NOTHING, Readings
from sensormend.stream.arrivals import Rejected

__all__ = ["CHUNK", "Parts", "places_of", "rejected_of"]

CHUNK = 50_000
"""Readings that come at once, at most: some seconds of work, after which a signal is seen."""

MOST_REJECTED = 1_000
"""Of one load that are told one by one; what is more is told in one."""


class Parts:
    """The readings of a staging that is sorted by days, each day's in the order of their times, part by part.

    Where a method fails nothing has changed: it may be called again.

    Parameters
    ----------
    staging
        None for no readings.
    skip
        How many of them were given before.

    Attributes
    ----------
    done
        How many were given.
    day, at
        The readings of the day that it is, and how many of them were given.
    """

    def __init__(self, staging: Staging | None, skip: int = 0) -> None:
        self._staging, self._skip = staging, skip
        self._places = places_of(staging) if staging is not None else {}
        self._number = self._next = 0
        self.done = self.at = 0
        self.day = NOTHING

    def ahead(self) -> bool:
        """Go on to the next day that has readings left; False at the end."""
        while self.at >= len(self.day):
            if self._staging is None or self._next >= len(self._staging.periods):
                return False
            number = int(self._staging.periods[self._next])
            readings = self._staging.read(number)
            self.day = readings.taken(np.argsort(readings.time, kind="stable"))
            self._number, self._next = number, self._next + 1
            self.at = min(self._skip, len(self.day))
            self._skip -= self.at
            self.done += self.at
        return True

    def take(self, until: int) -> tuple[Readings, list[Position]]:
        """Return the readings of the day up to there, and where sensors say they are from that day on."""
        part = self.day.taken(slice(self.at, until))
        self.done += len(part)
        self.at += len(part)
        return part, self._places.pop(self._number, [])


def places_of(staging: Staging) -> dict[int, list[Position]]:
    """Return where sensors say they are, by the day from which on."""
    found: dict[int, list[Position]] = {}
    for sensor, since, latitude, longitude in staging.locations:
        place = Position(staging.sensors[sensor], since, latitude, longitude)
        found.setdefault(since // DAY, []).append(place)
    return found


def rejected_of(staging: Staging) -> list[Rejected]:
    """Return what could not be read."""
    if not staging.rejected:
        return []
    path: Path = staging.folder / "rejected.csv"
    staging.write_rejected(path)
    found: list[Rejected] = []
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if len(found) == MOST_REJECTED:
                more = f"and {staging.rejected - MOST_REJECTED:,} more rows"
                found.append(Rejected(row["file"], row["reason"], more))
                break
            found.append(Rejected(f"{row['file']}, row {row['row']}", row["reason"], row["line"][:120]))
    return found
