"""An OUT as one looks at it: its small files as they are now, its rows where they are asked for."""

from __future__ import annotations

import math
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import numpy as np

from sensormend.closing import Closing
from sensormend.errors import ConfigError, InputError
from sensormend.files import is_locked, signature
from sensormend.io.arrow import read_arrow
from sensormend.io.folder import Archive, data_files
from sensormend.io.metadata import FaultInterval, SensorSummary, iso, read_faults, read_json, read_sensors, time_of
from sensormend.live.deliveries import Health
from sensormend.options import duration
from sensormend.readings import DAY, HOUR, Rows
from sensormend.recovery import FloatArray
from sensormend.views.digest import Digest
from sensormend.views.unfolding import unfold

__all__ = ["Look", "Provisional", "listed", "utc"]

_X = TypeVar("_X")

FILES = {
    "run": "run.json",
    "faults": "faults.csv",
    "sensors": "sensors.csv",
    "alerts": "state/alerts.json",
    "provisional": "state/provisional.arrow",
}
"""What can be news, and the file that tells it."""

EVERY = 0.4
"""Seconds between two looks at whether something has changed."""

REMEMBERED = 500
"""Small results that are kept."""


@dataclass(frozen=True, eq=False)
class Provisional:
    """What is known of periods that are not over; `reached` is the time of the network."""

    rows: Rows
    reached: int | None


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
            unfold(archive, self.folder)
            archive = Archive(self.folder)
        self._archive = archive

    def close(self) -> None:
        """Let go of everything."""
        self.digest.close()
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
            newest = max((entry.name for entry in os.scandir(data)), default="") if data.is_dir() else ""
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
        known = self.kept("sensors", read_sensors)
        return known if known or self.provisional is None else _newcomers(self.provisional.rows)

    @property
    def health(self) -> dict[tuple[str, str], Health]:
        """How a watch's alerts see each channel; empty for what `clean` wrote."""
        return self.kept("alerts", _health)

    @property
    def provisional(self) -> Provisional | None:
        """What is known of periods that are not over; None where nothing is."""
        return self.kept("provisional", _provisional)

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

    def final(self) -> int | None:
        """Return the end of the last slot that is final; None where none is."""
        span = self._final_span()
        return None if span is None else span[1] + self.step

    def rows(self, sensor: str | list[str] | None, start: int, end: int, variable: str) -> tuple[Rows, int | None]:
        """Return rows in order of time, and the time from which on they are provisional; None where none are.

        Parameters
        ----------
        sensor
            One, several, or everybody.
        start, end, variable
            As for `Archive.rows`.
        """
        parts = []
        if self.archive is not None:
            names = self.archive.names
            wanted = sensor if sensor is None else [one for one in ([sensor] if isinstance(sensor, str) else sensor)
                                                    if one in names]  # fmt: skip
            if wanted is None or wanted:
                parts.append(self.archive.rows(wanted, start, end, variable))
        later, since = self._later(sensor, start, end, variable)
        if since is None:
            return (parts[0] if parts else later), None
        return (_joined(parts[0], later) if parts and len(parts[0]) else later), since

    def _later(self, sensor: str | list[str] | None, start: int, end: int, variable: str) -> tuple[Rows, int | None]:
        """Return rows that are not final."""
        if self.provisional is None:
            return _NO_ROWS, None
        rows, final = self.provisional.rows, self.final()
        taken = (rows.time >= max(start, start if final is None else final)) & (rows.time < end)
        taken &= rows.variable == rows.variables.index(variable) if variable in rows.variables else False
        if sensor is not None:
            wanted = {sensor} if isinstance(sensor, str) else set(sensor)
            taken &= np.isin(rows.sensor, [code for code, name in enumerate(rows.sensors) if name in wanted])
        if not taken.any():
            return _NO_ROWS, None
        rows = rows.taken(np.flatnonzero(taken)[np.argsort(rows.time[taken], kind="stable")])
        return rows, int(rows.time[0])

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
        later = None if (self.final() or 0) > day + DAY else signature(self.folder / FILES["provisional"])
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


_NO_ROWS = Rows(
    (), ("",), np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0),
    np.empty(0, np.int32), np.empty(0), np.empty(0), np.empty(0), np.empty(0, np.int8), np.empty(0, np.int8),
    np.empty(0, np.int8),
)  # fmt: skip


def utc(time: int | None) -> str | None:
    """Write a time as the pages have it: ISO 8601 with a Z.

    Examples
    --------
    >>> utc(1_546_300_800_000_000)
    '2019-01-01T00:00:00Z'
    """
    return None if time is None else f"{iso(time)}Z"


def listed(values: FloatArray) -> list[float | None]:
    """Return numbers as JSON has them: None for those that are none.

    Examples
    --------
    >>> listed(np.array([1.23456789, np.nan]))
    [1.234568, None]
    """
    return [value if math.isfinite(value) else None for value in np.round(values, 6).tolist()]


def _joined(mine: Rows, later: Rows) -> Rows:
    """Join rows whose names are counted differently."""
    sensors = tuple(dict.fromkeys((*mine.sensors, *later.sensors)))
    variables = tuple(dict.fromkeys((*mine.variables, *later.variables)))
    parts = []
    for rows in (mine, later):
        sensor = np.array([sensors.index(name) for name in rows.sensors], np.int32)[rows.sensor]
        variable = np.array([variables.index(name) for name in rows.variables], np.int32)[rows.variable]
        columns = {name: getattr(rows, name) for name in
                   ("time", "value", "n", "cleaned", "lower", "upper", "flag", "reason", "origin")}  # fmt: skip
        parts.append(Rows(sensors, variables, sensor, variable, **columns))
    return Rows.concatenate(parts)


def _health(path: Path) -> dict[tuple[str, str], Health]:
    told = [Health(**entry) for entry in read_json(path).get("sensors", ())]
    return {(one.sensor, one.variable): one for one in told}


def _provisional(path: Path) -> Provisional | None:
    if not path.exists():
        return None
    rows, told = read_arrow(path)
    return Provisional(rows, time_of(told["reached"]) if "reached" in told else None)


def _newcomers(rows: Rows) -> list[SensorSummary]:
    """Return sensors of which nothing is final yet."""
    nan = float("nan")
    return [
        SensorSummary(rows.sensors[sensor], rows.variables[variable], 0, nan, nan, nan, nan, nan, None, None)
        for sensor, variable in sorted(set(zip(rows.sensor.tolist(), rows.variable.tolist(), strict=True)))
    ]
