"""What files hold, as `clean` reads them, in parts."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sensormend.io.staging import Staging
from sensormend.live.arrivals import Rejected
from sensormend.places import Position
from sensormend.readings import DAY, Readings

__all__ = ["CHUNK", "days_of", "places_of", "rejected_of"]

CHUNK = 200_000
"""Readings that come at once, at most."""

MOST_REJECTED = 1_000
"""Of one load that are told one by one; what is more is told in one."""


def days_of(staging: Staging) -> Iterator[tuple[int, Readings]]:
    """Give the days of a staging that is sorted by days, each with its readings in the order of their times."""
    for day in staging.periods:
        readings = staging.read(int(day))
        yield int(day), readings.taken(np.argsort(readings.time, kind="stable"))


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
