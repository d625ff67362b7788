"""An archive once more, as if it came now."""

from __future__ import annotations

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
from sensormend.readings import DAY, NOTHING, SECOND
from sensormend.stream.arrivals import Arrived, Source, clock
from sensormend.stream.sources.staged import CHUNK, Parts, rejected_of

__all__ = ["ReplaySource"]

BEAT = 0.1
"""Seconds between two parts of a replay that is paced, where its readings are closer than that."""


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
        self._parts = Parts(self._staging, mark or 0)
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
