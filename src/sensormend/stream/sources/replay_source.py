"""`ReplaySource` replays an archive as if it came now; `StagedParts` returns staged readings part by part."""

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
from sensormend.files import atomic_write, is_stream
from sensormend.io.sources import find
from sensormend.io.staging import Staging
from sensormend.pipeline.options import Options
from sensormend.pipeline.places import Position
from sensormend.readings import DAY, NOTHING, SECOND, Readings
from sensormend.stream.arrivals import Arrived, Rejected, Source, clock

__all__ = ["CHUNK", "ReplaySource", "StagedParts", "list_rejected"]

CHUNK = 50_000
"""The maximum number of readings that are returned at once: some seconds of work, after which a signal is handled."""

MOST_REJECTED = 1_000
"""The number of rejections of one load that are listed individually; one entry counts the others."""

PACED_INTERVAL = 0.1
"""The minimum number of seconds between two parts of a paced replay."""


class StagedParts:
    """The readings of a staging that is sorted by days, each day in order of time, part by part.

    A method that fails changes nothing and can be called again.

    Parameters
    ----------
    staging
        None for no readings.
    skip
        The number of readings that were returned before.

    Attributes
    ----------
    done
        The number of readings returned so far, with the skipped ones.
    day, offset
        The readings of the present day, and the number of them that were returned.
    """

    def __init__(self, staging: Staging | None, skip: int = 0) -> None:
        self._staging, self._skip = staging, skip
        self._positions: dict[int, list[Position]] = {}
        if staging is not None:
            for sensor, since, latitude, longitude in staging.locations:
                position = Position(staging.sensors[sensor], since, latitude, longitude)
                self._positions.setdefault(since // DAY, []).append(position)
        self._number = self._next = 0
        self.done = self.offset = 0
        self.day = NOTHING

    def advance(self) -> bool:
        """Continue with the next day where the present one is done; return False at the end."""
        while self.offset >= len(self.day):
            if self._staging is None or self._next >= len(self._staging.periods):
                return False
            number = int(self._staging.periods[self._next])
            readings = self._staging.read(number)
            self.day = readings.taken(np.argsort(readings.time, kind="stable"))
            self._number, self._next = number, self._next + 1
            self.offset = min(self._skip, len(self.day))
            self._skip -= self.offset
            self.done += self.offset
        return True

    def take(self, count: int) -> tuple[Readings, list[Position]]:
        """Return at most so many readings of the day, and the positions of sensors from that day on."""
        part = self.day.taken(slice(self.offset, self.offset + count))
        self.done += len(part)
        self.offset += len(part)
        return part, self._positions.pop(self._number, [])


def list_rejected(staging: Staging) -> list[Rejected]:
    """Return the rows that are not valid readings."""
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
    """An archive in order of time.

    Parameters
    ----------
    source, options
        As for `clean`.
    folder
        The folder for the sorted readings; those of an interrupted replay of the same archive are used again.
    mark
        The number of readings that are done.
    speed
        Seconds of the archive per second; None for as fast as possible.
    paced_from
        The time from which the speed applies; the readings before it come at once.
    """

    live = False

    def __init__(
        self,
        source: str,
        options: Options | None,
        folder: Path,
        *,
        mark: int | None = None,
        speed: float | None = None,
        paced_from: int | None = None,
    ) -> None:
        if speed is not None and not speed > 0:
            raise ConfigError(f"speed is a number above 0; got {speed}")
        self._speed, self._paced_from = speed, paced_from
        self._staging = _open_staging(source, options or Options(), folder)
        self._parts = StagedParts(self._staging, mark or 0)
        self._rejected = [] if mark else list_rejected(self._staging)
        self._start: tuple[float, int] | None = None

    def read(self, wait: float) -> Arrived | None:
        """Return the next readings; see `Source.read`."""
        if not self._parts.advance():
            return None
        count = CHUNK if self._speed is None else min(CHUNK, self._due(wait, self._speed))
        if count <= 0:
            return Arrived(NOTHING, clock())
        readings, positions = self._parts.take(count)
        rejected, self._rejected = self._rejected, []
        return Arrived(readings, clock(), rejected, positions, self._parts.done)

    def _due(self, wait: float, speed: float) -> int:
        """Wait for the next reading, and return the number of readings that are due by now."""
        times = self._parts.day.time[self._parts.offset :]
        if self._paced_from is not None and times[0] < self._paced_from:
            return int(np.searchsorted(times, self._paced_from))
        if self._start is None:
            self._start = (time.monotonic(), int(times[0]))
        start, first = self._start
        pause = start + (int(times[0]) - first) / SECOND / speed - time.monotonic()
        # A little longer, so that readings that are close together come at once.
        if pause > 0:
            time.sleep(min(pause + PACED_INTERVAL, wait))
        now = first + (time.monotonic() - start) * speed * SECOND
        return int(np.searchsorted(times, now, side="right"))

    def close(self) -> None:
        """Close the sorted readings, which stay on disk."""
        self._staging.close()


def _open_staging(source: str, options: Options, folder: Path) -> Staging:
    """Load the readings of an archive, unless that is done, and sort them by day."""
    fingerprint = _fingerprint(source, options)
    record = folder / "replay.json"
    staging = Staging(folder)
    try:
        try:
            is_loaded = fingerprint is not None and json.loads(record.read_text(encoding="utf-8")) == fingerprint
            staging = Staging.open(folder) if is_loaded else staging
        except (OSError, ValueError, StateError):
            is_loaded = False
        if not is_loaded:
            shutil.rmtree(folder, ignore_errors=True)
            staging.load(source, options)
            with atomic_write(record) as file:
                json.dump(fingerprint, file)
        staging.sort(0, DAY)
    except BaseException:
        staging.close()
        raise
    return staging


def _fingerprint(source: str, options: Options) -> Any:
    """Return what identifies an archive; None for one that can be read only once."""
    if source == "-" or is_stream(Path(source)) or "://" in source:
        return None
    files = [[file.shown, os.stat(file.path).st_size, os.stat(file.path).st_mtime_ns] for file in find(source, Path())]
    return [hashlib.sha256(json.dumps([files, repr(options)]).encode()).hexdigest()]
