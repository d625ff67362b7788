"""`ReplaySource` reads an archive once more, as if it came now; `StagedParts` gives staged readings part by part."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np

from sensormend.errors import ConfigError, StateError
from sensormend.files import write_beside
from sensormend.io.options import Options
from sensormend.io.sources import find, is_stream
from sensormend.io.staging import Staging
from sensormend.pipeline.places import Position
from sensormend.readings import DAY, NOTHING, SECOND, Readings
from sensormend.stream.arrivals import Arrived, Rejected, Source, clock

__all__ = ["CHUNK", "ReplaySource", "StagedParts", "positions_of", "rejected_of"]

CHUNK = 50_000
"""Readings that come at once, at most: some seconds of work, after which a signal is seen."""

MOST_REJECTED = 1_000
"""Rejections of one load that are listed one by one; one entry counts the others."""

BEAT = 0.1
"""Seconds between two parts of a replay that is paced, where its readings are closer than that."""


class StagedParts:
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
        self._places = positions_of(staging) if staging is not None else {}
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


def positions_of(staging: Staging) -> dict[int, list[Position]]:
    """Return where sensors say they are, by the day from which on."""
    positions: dict[int, list[Position]] = {}
    for sensor, since, latitude, longitude in staging.locations:
        place = Position(staging.sensors[sensor], since, latitude, longitude)
        positions.setdefault(since // DAY, []).append(place)
    return positions


def rejected_of(staging: Staging) -> list[Rejected]:
    """Return what could not be read."""
    if not staging.rejected:
        return []
    path: Path = staging.folder / "rejected.csv"
    staging.write_rejected(path)
    rejected: list[Rejected] = []
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if len(rejected) == MOST_REJECTED:
                more = f"and {staging.rejected - MOST_REJECTED:,} more rows"
                rejected.append(Rejected(row["file"], row["reason"], more))
                break
            rejected.append(Rejected(f"{row['file']}, row {row['row']}", row["reason"], row["line"][:120]))
    return rejected


class ReplaySource(Source):
    """An archive in the order of its times.

    Parameters
    ----------
    source
        Whatever `clean` reads.
    options
        Which column is what, where that cannot be recognised.
    folder
        For the sorted readings; what an interrupted replay left there is used again if it is of the same archive.
    mark
        How many readings are done.
    speed
        Seconds of the archive per second of the clock; None for as fast as they are taken.
    """

    live = False

    def __init__(
        self, source: str, options: Options | None, folder: Path, *, mark: int | None = None, speed: float | None = None
    ) -> None:
        if speed is not None and not speed > 0:
            raise ConfigError(f"speed is a number above 0; got {speed}")
        self._speed = speed
        self._staging = _staged(source, options or Options(), folder)
        self._parts = StagedParts(self._staging, mark or 0)
        self._rejected = [] if mark else rejected_of(self._staging)
        self._began: tuple[float, int] | None = None

    def read(self, wait: float) -> Arrived | None:
        """Return the next readings; see `Source.read`."""
        parts = self._parts
        if not parts.ahead():
            return None
        until = min(parts.at + CHUNK, len(parts.day))
        if self._speed is not None:
            until = min(until, self._due(wait, self._speed))
            if until <= parts.at:
                return Arrived(NOTHING, clock())
        part, places = parts.take(until)
        rejected, self._rejected = self._rejected, []
        return Arrived(part, clock(), rejected, places, parts.done)

    def _due(self, wait: float, speed: float) -> int:
        """Wait for the next readings, and return where those end that are due by now."""
        next_time = int(self._parts.day.time[self._parts.at])
        if self._began is None:
            self._began = (time.monotonic(), next_time)
        begin, first = self._began
        pause = begin + (next_time - first) / SECOND / speed - time.monotonic()
        # A little more than it takes: readings of a whole beat come together.
        if pause > 0:
            time.sleep(min(pause + BEAT, wait))
        now = first + (time.monotonic() - begin) * speed * SECOND
        return int(np.searchsorted(self._parts.day.time, now, side="right"))

    def close(self) -> None:
        """Let go of the sorted readings; they stay where they are."""
        self._staging.close()


def _staged(source: str, options: Options, folder: Path) -> Staging:
    """Sort the readings of an archive by day, or find them sorted."""
    job = _fingerprint(source, options)
    note = folder / "replay.json"
    try:
        if job is not None and json.loads(note.read_text(encoding="utf-8")) == job:
            return Staging.open(folder)
    except (OSError, ValueError, StateError):
        pass
    shutil.rmtree(folder, ignore_errors=True)
    staging = Staging(folder)
    try:
        staging.load(source, options)
        staging.sort(0, DAY)
        with write_beside(note) as file:
            json.dump(job, file)
    except BaseException:
        staging.close()
        raise
    return staging


def _fingerprint(source: str, options: Options) -> Any:
    """Return by what an archive is known again; None for what can be read only once."""
    if source == "-" or is_stream(Path(source)) or "://" in source:
        return None
    files = [[file.shown, os.stat(file.path).st_size, os.stat(file.path).st_mtime_ns] for file in find(source, Path())]
    return [hashlib.sha256(json.dumps([files, repr(options)]).encode()).hexdigest()]
