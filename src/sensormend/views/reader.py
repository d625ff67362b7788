"""`OutReader` reads the tables and rows of an output folder, finished or growing, and notices what changes."""

from __future__ import annotations

import math
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import duckdb
import numpy as np

from sensormend.errors import InputError, StorageError
from sensormend.files import Closing, is_locked, signature
from sensormend.io.folder import Archive, data_files, file_metadata, file_rows
from sensormend.io.metadata import read_faults, read_json, read_sensors
from sensormend.io.sql import first_line, literal
from sensormend.io.writing import RowWriter
from sensormend.pipeline.channel_states import ChannelState
from sensormend.pipeline.faults import FaultInterval, SensorSummary
from sensormend.pipeline.grid import Grid
from sensormend.pipeline.health import Health
from sensormend.pipeline.times import parse_time, utc
from sensormend.readings import DAY, HOUR, Rows, join
from sensormend.recovery import FloatArray
from sensormend.views.daily_counts import DailyCounts

__all__ = ["OutReader", "ProvisionalRows", "finite", "matches", "numbers", "page_of", "utc"]

_X = TypeVar("_X")

FILES = {
    "run": "run.json",
    "faults": "faults.csv",
    "sensors": "sensors.csv",
    "alerts": "state/alerts.json",
    "provisional": "state/provisional.parquet",
}
"""What can change, and the file that shows it."""

REFRESH_SECONDS = 0.4
"""Seconds between two checks for changes."""

MAX_CACHED = 500
"""Number of cached results."""

DAYS_AT_ONCE = 30 * DAY
"""Days of a NetCDF file read at once, so that a year of many sensors does not have to fit in memory."""

_EMPTY_ROWS = Rows(
    (), ("",), np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0),
    np.empty(0, np.int32), np.empty(0), np.empty(0), np.empty(0), np.empty(0, np.int8), np.empty(0, np.int8),
    np.empty(0, np.int8),
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class ProvisionalRows:
    """Rows of periods that are not over; `reached` is the event time that the watch has reached."""

    rows: Rows
    reached: int | None

    def taken(self, sensors: list[str] | None, start: int, end: int, variable: str) -> Rows:
        """Return rows in order of time, of some sensors or of all."""
        rows = self.rows
        chosen = (rows.time >= start) & (rows.time < end)
        chosen &= rows.variable == rows.variables.index(variable) if variable in rows.variables else False
        if sensors is not None:
            wanted = set(sensors)
            chosen &= np.isin(rows.sensor, [code for code, name in enumerate(rows.sensors) if name in wanted])
        return rows.taken(np.flatnonzero(chosen)[np.argsort(rows.time[chosen], kind="stable")])


class OutReader(Closing):
    """An output folder, finished or growing; what was read is cached while its file does not change.

    Its methods may be called from several threads. The output folder of a watch may have no rows yet.

    Attributes
    ----------
    version
        Increases with every change that `refresh` finds.
    folder
        The folder with the rows by date: the output folder, or for a single file a temporary folder.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        self.folder = self.path
        self._scratch: TemporaryDirectory[str] | None = None
        self._archive: Archive | None = None
        self._cache: OrderedDict[object, tuple[object, Any]] = OrderedDict()
        self._lock = threading.RLock()
        self._seen: dict[str, object] = {}
        self._changed: dict[str, int] = {}
        self._next_refresh = 0.0
        self.version = 0
        if not (self.path / "state" / "watch.json").exists():
            self._archive = Archive(path)
        if self._archive is not None and self._archive.path.is_file():
            self._scratch = TemporaryDirectory(prefix="sensormend-")
            self.folder = Path(self._scratch.name)
            with self._archive:
                _unfold(self._archive, self.folder)
            self._archive = Archive(self.folder)
        self.daily_counts = DailyCounts(self.folder)
        self.refresh()

    def close(self) -> None:
        """Close all files and delete the temporary folder."""
        self.daily_counts.close()
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
        """Check for changes; further calls within a fraction of a second do nothing."""
        with self._lock:
            if time.monotonic() < self._next_refresh:
                return
            self._next_refresh = time.monotonic() + REFRESH_SECONDS
            now: dict[str, object] = {name: signature(self.folder / file) for name, file in FILES.items()}
            data = self.folder / "data"
            try:
                newest = max(os.listdir(data), default="")
            except OSError:
                newest = ""
            now["rows"] = (signature(data), signature(data / newest) if newest else None)
            now["live"] = self.live
            changed = [name for name, seen in now.items() if self._seen.get(name, self) != seen]
            if changed:
                self.version += 1
                self._changed |= dict.fromkeys(changed, self.version)
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
        """The content of run.json."""
        return self.from_file("run", read_json)

    @property
    def name(self) -> str:
        """What the network is called: by its title, or as the output is; of several networks of one title by both."""
        options = self.run.get("options")
        options = options if isinstance(options, dict) else {}
        title = options.get("title")
        if not isinstance(title, str) or not title:
            return self.path.name
        return f"{title}, {self.path.name}" if options.get("networks") else title

    @property
    def faults(self) -> list[FaultInterval]:
        """The lines of faults.csv."""
        return self.from_file("faults", read_faults)

    @property
    def summaries(self) -> list[SensorSummary]:
        """The lines of sensors.csv, and sensors that only have provisional rows."""
        listed, provisional = self.from_file("sensors", read_sensors), self.provisional
        if provisional is None:
            return listed
        return self.cached("summaries", (listed, provisional), lambda: _with_new_channels(listed, provisional.rows))

    @property
    def health(self) -> dict[tuple[str, str], Health]:
        """The state of each channel in a watch's alerts; empty for an output folder of `clean`."""
        return self.from_file("alerts", _read_health)

    @property
    def provisional(self) -> ProvisionalRows | None:
        """Rows of periods that are not over; None if there are none."""
        return self.from_file("provisional", _read_provisional)

    @property
    def step(self) -> int:
        """The length of a slot."""
        return self._grid.step

    @property
    def period(self) -> int | None:
        """The length of a period; None if it is not known."""
        grid = Grid.of_run(self.run)
        return None if grid is None else grid.period

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables; a single empty one where it has no name."""
        return tuple(dict.fromkeys(entry.variable for entry in self.summaries)) or ("",)

    def variable(self, name: str | None, sensor: str | None = None) -> str:
        """Return a variable of the network, or of a sensor; the first one where `name` is None."""
        names = self.variables if sensor is None else self.channels[self.known(sensor)]
        if name is None:
            return names[0]
        if name not in names:
            raise InputError(f"there is no variable {name!r}; there is {', '.join(map(repr, names[:10]))}")
        return name

    @property
    def channels(self) -> dict[str, tuple[str, ...]]:
        """The variables of every sensor."""
        entries = self.summaries

        def by_sensor() -> dict[str, tuple[str, ...]]:
            variables: dict[str, tuple[str, ...]] = {}
            for entry in entries:
                variables[entry.sensor] = (*variables.get(entry.sensor, ()), entry.variable)
            return variables

        return self.cached("channels", entries, by_sensor)

    @property
    def places(self) -> dict[str, tuple[float, float]]:
        """Latitude and longitude of every sensor whose position is known."""
        return {
            entry.sensor: (entry.latitude, entry.longitude)
            for entry in self.summaries
            if math.isfinite(entry.latitude) and math.isfinite(entry.longitude)
        }

    def known(self, sensor: str) -> str:
        """Return the name of a sensor; raise InputError where there is none of that name."""
        if sensor not in self.channels:
            raise InputError(f"there is no sensor {sensor[:80]!r}")
        return sensor

    def span(self) -> tuple[int, int] | None:
        """Return the first and the last time of all rows, provisional ones too; None if there is none."""
        times = [*(self._final_span() or ())]
        if self.provisional is not None and len(self.provisional.rows):
            times += [int(self.provisional.rows.time.min()), int(self.provisional.rows.time.max())]
        return (min(times), max(times)) if times else None

    def slot(self, time: int) -> int:
        """Return the start of the slot that contains a time."""
        return self._grid.slot_start(time)

    def final(self) -> int | None:
        """Return the end of the last slot that is final; None if none is."""
        span = self._final_span()
        return None if span is None else self.slot(span[1]) + self.step

    def tables_end(self) -> int | None:
        """Return the end of the tables, which may be behind the rows of a watch; None if nothing is final."""
        final = self.final()
        try:
            return final if final is None else min(final, parse_time(self.run["closed"]))
        except (KeyError, TypeError, AttributeError, InputError):
            return final

    def rows(self, sensors: list[str] | None, start: int, end: int, variable: str) -> tuple[Rows, int | None]:
        """Return rows in order of time, of some sensors or of all, and the time of the first provisional row if any."""
        # Provisional rows are read first: what becomes final meanwhile is then in both, not in neither.
        provisional, archive, final = self.provisional, self.archive, _EMPTY_ROWS
        if archive is not None:
            names = set(archive.names)
            wanted = None if sensors is None else [name for name in sensors if name in names]
            if wanted is None or wanted:
                final = archive.rows(wanted, start, end, variable)
        if provisional is None:
            return final, None
        final_end = max(start, self.final() or start, int(final.time[-1]) + 1 if len(final) else start)
        later = provisional.taken(sensors, final_end, end, variable)
        if not len(later):
            return final, None
        return (join([final, later]) if len(final) else later), int(later.time[0])

    @property
    def rows_seen(self) -> object:
        """A value that changes when final rows are added."""
        return self._seen.get("rows")

    def _final_span(self) -> tuple[int, int] | None:
        archive = self.archive
        return None if archive is None else self.cached("span", self.rows_seen, archive.span)

    @property
    def _grid(self) -> Grid:
        return Grid.of_run(self.run) or Grid(HOUR, DAY)

    def written(self, day: int) -> object:
        """Return a value that changes when the rows of a day do."""
        files = data_files(self.folder, day, day + DAY)
        final = self.final()
        later = None if final is not None and final > day + DAY else signature(self.folder / FILES["provisional"])
        return tuple(map(signature, files)), later

    def cached(self, key: object, seen: object, compute: Callable[[], _X]) -> _X:
        """Return the cached result for `key` if `seen` is the same as then, else compute it."""
        with self._lock:
            entry = self._cache.get(key)
            if entry is not None and entry[0] == seen:
                self._cache.move_to_end(key)
                cached: _X = entry[1]
                return cached
        result = compute()
        with self._lock:
            self._cache[key] = (seen, result)
            if len(self._cache) > MAX_CACHED:
                self._cache.popitem(last=False)
        return result

    def from_file(self, name: str, read: Callable[[Path], _X]) -> _X:
        """Return `read` of a file, cached until the file changes."""
        path = self.folder / FILES[name]
        return self.cached(("file", name), signature(path), lambda: read(path))


def numbers(values: FloatArray) -> list[float | None]:
    """Return numbers for JSON: None for those that are not finite.

    Examples
    --------
    >>> numbers(np.array([1.23456789, np.nan]))
    [1.234568, None]
    >>> numbers(np.array([1.23456789e-8]))
    [1.23457e-08]
    """
    # Six decimals, and six significant digits of small numbers.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        digits = np.clip(5 - np.floor(np.log10(np.abs(values))), 6, 300)
        rounded = np.round(values * 10.0**digits) / 10.0**digits
    rounded = np.where(np.isfinite(rounded), rounded, values)
    return [value if math.isfinite(value) else None for value in rounded.tolist()]


def finite(value: float) -> float | None:
    """Return a number for JSON: None if it is not finite."""
    return value if math.isfinite(value) else None


def _read_health(path: Path) -> dict[tuple[str, str], Health]:
    try:
        entries = [Health(**entry) for entry in read_json(path).get("sensors", ())]
        if not all(isinstance(time, int) for entry in entries for time in (entry.since, entry.heard or 0)):
            raise TypeError("a time is not an integer")
        return {(entry.sensor, entry.variable): replace(entry, state=ChannelState(entry.state).value)
                for entry in entries}  # fmt: skip
    except (TypeError, ValueError):
        raise InputError(f"cannot read {path}: it is not one that sensormend wrote") from None


def page_of(items: Sequence[_X], offset: int, limit: int) -> tuple[Sequence[_X], int | None]:
    """Return one page of the items, and the offset of the next page; None if there is none.

    Examples
    --------
    >>> page_of("abcde", 2, 2)
    ('cd', 4)
    """
    end = offset + limit
    return items[offset:end], end if end < len(items) else None


def matches(search: str, *texts: str) -> bool:
    """Return whether one of the texts contains `search`, ignoring case."""
    wanted = search.strip().casefold()
    return not wanted or any(wanted in text.casefold() for text in texts)


def _read_provisional(path: Path) -> ProvisionalRows | None:
    """Read the provisional rows of a watch; None if there is no such file."""
    while (written := signature(path)) is not None:
        try:
            reached, rows = file_metadata(path).get("reached"), file_rows(path)
        except InputError:
            if signature(path) == written:
                raise
            continue
        # The watch may have written it again in between: then the two do not belong together.
        if signature(path) == written:
            return ProvisionalRows(rows, None if reached is None else parse_time(reached))
    return None


def _with_new_channels(listed: list[SensorSummary], rows: Rows) -> list[SensorSummary]:
    """Return the listed sensors, then those that have only provisional rows."""
    nan, names = math.nan, {(entry.sensor, entry.variable) for entry in listed}
    codes = sorted(set(zip(rows.sensor.tolist(), rows.variable.tolist(), strict=True)))
    channels = [(rows.sensors[sensor], rows.variables[variable]) for sensor, variable in codes]
    new = [SensorSummary(*name, 0, nan, nan, nan, nan, nan, None, None) for name in channels if name not in names]
    return [*listed, *new]


def _unfold(archive: Archive, folder: Path) -> None:
    """Write the rows of a single output file into `data/date=.../` of a folder, and link its other files."""
    (folder / "data").mkdir()
    for name in ("faults.csv", "sensors.csv", "run.json"):
        if (archive.meta / name).exists():
            os.symlink(archive.meta / name, folder / name)
    if archive.path.name.lower().endswith(".nc"):
        _unfold_netcdf(archive, folder)
        return
    with archive.table() as (engine, columns):
        if not columns:
            return
        try:
            engine.execute(
                f"COPY (SELECT *, strftime(time, '%Y-%m-%d') AS date FROM source) TO {literal(folder / 'data')} "
                "(FORMAT parquet, PARTITION_BY (date), OVERWRITE_OR_IGNORE)"
            )
        except duckdb.IOException as error:
            raise StorageError(f"cannot write {archive.path.name} by date: {first_line(error)}") from error


def _unfold_netcdf(archive: Archive, folder: Path) -> None:
    span = archive.span()
    if span is None:
        raise InputError(f"there are no rows in {archive.path.name}")
    with RowWriter(folder) as writer:
        for start in range(span[0] // DAY * DAY, span[1] + 1, DAYS_AT_ONCE):
            writer.write(archive.rows(start=start, end=start + DAYS_AT_ONCE))
