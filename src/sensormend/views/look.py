"""An OUT as one looks at it: its small files as they are now, its rows where they are asked for."""

from __future__ import annotations

import math
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import numpy as np

from sensormend.errors import ConfigError, InputError
from sensormend.files import Closing, is_locked, signature
from sensormend.io.folder import Archive, data_files
from sensormend.io.metadata import FaultInterval, SensorSummary, iso, read_faults, read_json, read_sensors, time_of
from sensormend.io.options import duration
from sensormend.pipeline.grid import ANCHOR
from sensormend.pipeline.health import Health
from sensormend.readings import DAY, HOUR, SECOND, Rows
from sensormend.recovery import FloatArray
from sensormend.views.digest import Digest
from sensormend.views.provisional import NO_ROWS, Provisional, introduced, joined, read_provisional
from sensormend.views.unfolding import unfold

__all__ = ["Look", "numbers", "utc"]

_X = TypeVar("_X")

FILES = {
    "run": "run.json",
    "faults": "faults.csv",
    "sensors": "sensors.csv",
    "alerts": "state/alerts.json",
    "provisional": "state/provisional.parquet",
}
"""What can be news, and the file that tells it."""

EVERY = 0.4
"""Seconds between two looks at whether something has changed."""

REMEMBERED = 500
"""Small results that are kept."""


class Look(Closing):
    """An OUT, finished or growing; what was read is kept while its file stays as it is.

    May be asked from several threads.

    Parameters
    ----------
    path
        What `clean` or `watch` wrote. That of a watch may have no rows yet.

    Attributes
    ----------
    path, name
        Where it is and what it is called.
    version
        Grows with everything that changes, as `refresh` sees it.
    folder
        Where the rows are, by date: the OUT, or for a single file a folder for as long as this is open.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        self.name, self.folder = self.path.name, self.path
        self._scratch: TemporaryDirectory[str] | None = None
        self._archive: Archive | None = None
        self._kept: dict[str, tuple[object, Any]] = {}
        self._made: OrderedDict[object, tuple[object, Any]] = OrderedDict()
        self._lock = threading.RLock()
        self._seen: dict[str, object] = {}
        self._changed: dict[str, int] = {}
        self._again = 0.0
        self.version = 0
        if not (self.path / "state" / "watch.json").exists():
            self._open(Archive(path))
        self.digest = Digest(self.folder)
        self.refresh()

    def _open(self, archive: Archive) -> None:
        if archive.path.is_file():
            self._scratch = TemporaryDirectory(prefix="sensormend-")
            self.folder = Path(self._scratch.name)
            with archive:
                unfold(archive, self.folder)
            archive = Archive(self.folder)
        self._archive = archive

    def close(self) -> None:
        """Let go of everything."""
        self.digest.close()
        if self._archive is not None:
            self._archive.close()
        if self._scratch is not None:
            self._scratch.cleanup()

    @property
    def archive(self) -> Archive | None:
        """The rows; None while a watch has not finished its first period."""
        with self._lock:
            if self._archive is None and (self.folder / "data").is_dir():
                self._archive = Archive(self.folder)
            return self._archive

    def refresh(self) -> None:
        """See what has changed; at most some times in a second, however often it is asked."""
        with self._lock:
            if time.monotonic() < self._again:
                return
            self._again = time.monotonic() + EVERY
            now: dict[str, object] = {name: signature(self.folder / file) for name, file in FILES.items()}
            data = self.folder / "data"
            try:
                newest = max(os.listdir(data), default="")
            except OSError:
                newest = ""
            now["rows"] = (signature(data), signature(data / newest) if newest else None)
            now["live"] = self.live
            found = [name for name, seen in now.items() if self._seen.get(name, self) != seen]
            if found:
                self.version += 1
                self._changed |= dict.fromkeys(found, self.version)
            self._seen = now

    def since(self, version: int) -> list[str]:
        """Return what has changed after a version: rows, provisional, faults, sensors, alerts, run, live."""
        with self._lock:
            return [name for name, changed in self._changed.items() if changed > version]

    @property
    def live(self) -> bool:
        """Whether a watch is writing to it now."""
        return is_locked(self.folder / "state" / "lock")

    @property
    def run(self) -> dict[str, Any]:
        """What run.json says."""
        return self.kept("run", read_json)

    @property
    def faults(self) -> list[FaultInterval]:
        """What faults.csv says."""
        return self.kept("faults", read_faults)

    @property
    def summaries(self) -> list[SensorSummary]:
        """What sensors.csv says; and who is known but provisionally."""
        known, provisional = self.kept("sensors", read_sensors), self.provisional
        if provisional is None:
            return known
        return self.remembered("summaries", (known, provisional), lambda: introduced(known, provisional.rows))

    @property
    def health(self) -> dict[tuple[str, str], Health]:
        """How a watch's alerts see each channel; empty for what `clean` wrote."""
        return self.kept("alerts", _health)

    @property
    def provisional(self) -> Provisional | None:
        """What is known of periods that are not over; None where nothing is."""
        return self.kept("provisional", read_provisional)

    @property
    def step(self) -> int:
        """How long a slot is."""
        return self._grid("step", HOUR)

    @property
    def period(self) -> int | None:
        """How long a period is; None where nobody says so."""
        return self._grid("period", 0) or None

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of what is measured; one of them, empty, where it has no name."""
        told = {entry.variable: None for entry in self.summaries}
        return tuple(told) or ("",)

    def variable(self, said: str | None, sensor: str | None = None) -> str:
        """Return the name of a variable; the first one, or the first of a sensor, where none is said."""
        known = self.variables if sensor is None else self.channels.get(sensor, ())
        if said is None:
            return known[0] if known else ""
        if said not in known:
            raise InputError(f"there is no variable {said!r}; there is {', '.join(map(repr, known[:10]))}")
        return said

    @property
    def channels(self) -> dict[str, tuple[str, ...]]:
        """The variables of every sensor."""
        entries = self.summaries

        def gathered() -> dict[str, tuple[str, ...]]:
            found: dict[str, tuple[str, ...]] = {}
            for entry in entries:
                found[entry.sensor] = (*found.get(entry.sensor, ()), entry.variable)
            return found

        return self.remembered("channels", entries, gathered)

    def known(self, sensor: str) -> str:
        """Return the name of a sensor, or refuse one that is not there."""
        if sensor not in self.channels:
            raise InputError(f"there is no sensor {sensor[:80]!r}")
        return sensor

    def span(self) -> tuple[int, int] | None:
        """Return the first and the last time of all rows, provisional ones too; None where there is none."""
        spans = [self._final_span()]
        if self.provisional is not None and len(self.provisional.rows):
            spans.append((int(self.provisional.rows.time.min()), int(self.provisional.rows.time.max())))
        known = [span for span in spans if span is not None]
        return (min(first for first, _ in known), max(last for _, last in known)) if known else None

    def slot(self, time: int) -> int:
        """Return the beginning of the slot that a time lies in."""
        try:
            early = round(float(self.run["grid"]["early_seconds"]) * SECOND)
        except (KeyError, TypeError, ValueError):
            early = 0
        return (time + early - ANCHOR) // self.step * self.step + ANCHOR

    def final(self) -> int | None:
        """Return the end of the last slot that is final; None where none is."""
        span = self._final_span()
        return None if span is None else self.slot(span[1]) + self.step

    def told(self) -> int | None:
        """Return until when the tables tell: those of a watch may be behind its rows; None where nothing is final."""
        final = self.final()
        try:
            return final if final is None else min(final, time_of(self.run["closed"]))
        except (KeyError, TypeError, AttributeError, InputError):
            return final

    def rows(self, sensor: str | list[str] | None, start: int, end: int, variable: str) -> tuple[Rows, int | None]:
        """Return rows in order of time, and the time from which on they are provisional; None where none are.

        Parameters
        ----------
        sensor
            One, several, or everybody.
        start, end, variable
            As for `Archive.rows`.
        """
        # Asked for first: what becomes final meanwhile is in both, and not in neither.
        provisional, found = self.provisional, NO_ROWS
        if self.archive is not None:
            names = set(self.archive.names)
            wanted = sensor if sensor is None else [one for one in ([sensor] if isinstance(sensor, str) else sensor)
                                                    if one in names]  # fmt: skip
            if wanted is None or wanted:
                found = self.archive.rows(wanted, start, end, variable)
        if provisional is None:
            return found, None
        over = [start, self.final() or start, int(found.time[-1]) + 1 if len(found) else start]
        later = provisional.taken(sensor, max(over), end, variable)
        if not len(later):
            return found, None
        return (joined(found, later) if len(found) else later), int(later.time[0])

    def _final_span(self) -> tuple[int, int] | None:
        if self.archive is None:
            return None
        archive = self.archive
        with self._lock:
            seen = self._seen.get("rows")
            entry = self._kept.get("span")
            if entry is None or entry[0] != seen:
                entry = self._kept["span"] = (seen, archive.span())
        span: tuple[int, int] | None = entry[1]
        return span

    def _grid(self, name: str, otherwise: int) -> int:
        try:
            return duration(self.run["grid"][name])
        except (KeyError, TypeError, ConfigError):
            return otherwise

    def written(self, day: int) -> object:
        """Return what changes when the rows of a day do."""
        files = data_files(self.folder, day, day + DAY)
        final = self.final()
        later = None if final is not None and final > day + DAY else signature(self.folder / FILES["provisional"])
        return tuple(signature(file) for file in files), later

    def remembered(self, key: object, seen: object, make: Callable[[], _X]) -> _X:
        """Return what was made when the same was seen, else make it; some hundred of them are kept."""
        with self._lock:
            entry = self._made.get(key)
            if entry is not None and entry[0] == seen:
                self._made.move_to_end(key)
                old: _X = entry[1]
                return old
        found = make()
        with self._lock:
            self._made[key] = (seen, found)
            while len(self._made) > REMEMBERED:
                self._made.popitem(last=False)
        return found

    def kept(self, name: str, read: Callable[[Path], _X]) -> _X:
        """Return what a file says, read again when it has changed."""
        path = self.folder / FILES[name]
        with self._lock:
            now, entry = signature(path), self._kept.get(name)
            if entry is None or entry[0] != now:
                entry = self._kept[name] = (now, read(path))
        found: _X = entry[1]
        return found


def utc(time: int | None) -> str | None:
    """Write a time as the pages have it: ISO 8601 with a Z.

    Examples
    --------
    >>> utc(1_546_300_800_000_000)
    '2019-01-01T00:00:00Z'
    """
    return None if time is None else f"{iso(time)}Z"


def numbers(values: FloatArray) -> list[float | None]:
    """Return numbers as JSON has them: None for those that are none.

    Examples
    --------
    >>> numbers(np.array([1.23456789, np.nan]))
    [1.234568, None]
    >>> numbers(np.array([1.23456789e-8]))
    [1.23457e-08]
    """
    # Six digits after the point, and of small numbers as many that tell something.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        digits = np.clip(5 - np.floor(np.log10(np.abs(values))), 6, 300)
        rounded = np.round(values * 10.0**digits) / 10.0**digits
    rounded = np.where(np.isfinite(rounded), rounded, values)
    return [value if math.isfinite(value) else None for value in rounded.tolist()]


def _health(path: Path) -> dict[tuple[str, str], Health]:
    try:
        told = [Health(**entry) for entry in read_json(path).get("sensors", ())]
        if not all(isinstance(time, int) for one in told for time in (one.since, one.heard or 0)):
            raise TypeError("a time that is none")
        return {(one.sensor, one.variable): one for one in told}
    except TypeError:
        raise InputError(f"cannot read {path}: it is not one that sensormend wrote") from None
