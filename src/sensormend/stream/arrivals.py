"""`Source` is the base class of sources; `Arrived`, `Tick`, `End` and others are the inputs of a stream.

`PeriodBuffer` holds the readings of open periods.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.files import Closing
from sensormend.pipeline.maintenance import Maintenance
from sensormend.pipeline.places import Position
from sensormend.pipeline.times import iso
from sensormend.readings import DAY, SECOND, IntArray, Readings, grown
from sensormend.recovery import BoolArray

__all__ = [
    "Arrived",
    "Damage",
    "DamageNoticed",
    "End",
    "Input",
    "MaintenanceChanged",
    "PeriodBuffer",
    "Rejected",
    "Source",
    "Tick",
    "clock",
]


def clock() -> int:
    """Return the current time, microseconds since 1970, UTC."""
    return time.time_ns() * SECOND // 1_000_000_000


@dataclass(frozen=True)
class Rejected:
    """An input that is not a valid reading.

    Attributes
    ----------
    where
        A topic, a file and its row, a line of standard input.
    reason
        One of a few fixed phrases, by which rejections are counted.
    text
        The beginning of the input.
    """

    where: str
    reason: str
    text: str = ""


@dataclass(frozen=True, eq=False)
class Arrived:
    """The inputs since the last `Source.read`.

    Attributes
    ----------
    readings
        In order of arrival. `sensors` is the same object as the last time while there is no new name.
    received
        The time of arrival by this machine's clock.
    rejected
        Inputs that are not valid readings.
    positions
        Reported positions of sensors that report one for the first time or have moved.
    mark
        The position, as JSON, from which a source that can be read again continues; None for one that cannot.
    acknowledge
        To be called when everything is on disk; the sender may then delete it.
    """

    readings: Readings
    received: int
    rejected: Sequence[Rejected] = ()
    positions: Sequence[Position] = ()
    mark: Any = None
    acknowledge: Callable[[], None] = lambda: None

    @property
    def empty(self) -> bool:
        """Whether it holds no readings, rejections, positions or mark."""
        return not (self.readings.time.size or self.rejected or self.positions or self.mark is not None)

    def newest(self, before: int | None) -> int | None:
        """Return the newest time of its readings and `before`, without those that are more than a day in the future."""
        times = self.readings.time[self.readings.time <= self.received + DAY]
        if not times.size:
            return before
        return int(times.max()) if before is None else max(before, int(times.max()))


@dataclass(frozen=True)
class Tick:
    """Event time advanced to `time` without a reading."""

    time: int


@dataclass(frozen=True)
class End:
    """The source has ended."""


@dataclass(frozen=True)
class MaintenanceChanged:
    """The notes on maintenance have changed."""

    maintenance: Maintenance


@dataclass(frozen=True)
class Damage:
    """Something in an output folder that is missing, or is not what was written.

    Attributes
    ----------
    file
        Its path in the folder.
    problem
        What is wrong with it, and what that means, in words.
    readings
        The number of acknowledged readings that are gone.
    start, end
        The span of what is gone; None if it is not known.
    """

    file: str
    problem: str
    readings: int = 0
    start: int | None = None
    end: int | None = None

    @property
    def sentence(self) -> str:
        """The damage in one line."""
        gone = ""
        if self.readings:
            gone = f"; {self.readings:,} acknowledged readings are gone"
        if self.start is not None and self.end is not None:
            gone += f", from {iso(self.start)} to {iso(self.end)}"
        return f"{self.file} {self.problem}{gone}"

    def fields(self) -> dict[str, Any]:
        """Return it for run.json."""
        entry = asdict(self)
        start, end = entry.pop("start"), entry.pop("end")
        return {**entry, "from": None if start is None else iso(start), "to": None if end is None else iso(end)}


@dataclass(frozen=True)
class DamageNoticed:
    """Something was missing or damaged when the service was started, at a time of this machine's clock."""

    damage: tuple[Damage, ...]
    at: int


Input = Arrived | Tick | End | MaintenanceChanged | DamageNoticed


class Source(Closing):
    """The base class of sources, with two methods: `read` and `close`.

    Attributes
    ----------
    live
        Whether its readings follow the clock, which then closes periods without readings. False for a replay.
    connected
        Whether it is connected to the sender.
    units
        The units of variables, as far as messages have them.
    """

    live = True
    connected = True
    units: Mapping[str, str] = MappingProxyType({})

    def read(self, wait: float) -> Arrived | None:
        """Return the new inputs after at most `wait` seconds, an empty `Arrived` if there are none; None at the end."""
        raise NotImplementedError

    def close(self) -> None:
        """Release all resources; what was not acknowledged stays with the sender."""


class PeriodBuffer:
    """The readings of open periods, in order of arrival."""

    COLUMNS = (("sensor", np.int64), ("variable", np.int64), ("time", np.int64), ("value", np.float64))

    def __init__(self) -> None:
        self._size = 0
        self._columns: dict[str, NDArray[Any]] = {name: np.empty(0, dtype) for name, dtype in self.COLUMNS}
        self._counts = np.zeros(0, dtype=np.int64)

    def __len__(self) -> int:
        return self._size

    def column(self, name: str) -> NDArray[Any]:
        """Return one column."""
        return self._columns[name][: self._size]

    def full(self, sensor: IntArray, most: int) -> BoolArray:
        """Return for each of these sensors whether it has at least `most` readings."""
        self._grow(sensor)
        return np.asarray(self._counts[sensor] >= most)

    def add(self, readings: Readings) -> None:
        """Append readings."""
        start, self._size = self._size, self._size + readings.time.size
        for name, dtype in self.COLUMNS:
            old = self._columns[name]
            if old.size < self._size:
                larger = np.empty(max(2 * old.size, self._size, 1024), dtype=dtype)
                larger[:start] = old[:start]
                self._columns[name] = old = larger
            old[start : self._size] = getattr(readings, name)
        self._grow(readings.sensor)
        np.add.at(self._counts, readings.sensor, 1)

    def _grow(self, sensor: IntArray) -> None:
        if (size := int(sensor.max(initial=-1)) + 1) > self._counts.size:
            self._counts = grown(self._counts, size)

    def readings(self, chosen: NDArray[np.bool_] | slice, sensors: Sequence[str], variables: Sequence[str]) -> Readings:
        """Return some of the readings."""
        return Readings(sensors, variables, **{name: self.column(name)[chosen] for name, _ in self.COLUMNS})

    def keep(self, chosen: NDArray[np.bool_]) -> None:
        """Drop all but these."""
        self._set({name: self.column(name)[chosen] for name, _ in self.COLUMNS})

    def renumber(self, variable: NDArray[np.int64]) -> None:
        """Replace the number of every variable by the entry of `variable` at that number."""
        self._columns["variable"][: self._size] = variable[self.column("variable")]

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the arrays for a state file."""
        return {f"window_{name}": self.column(name) for name, _ in self.COLUMNS}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Load a state."""
        self._set({name: arrays[f"window_{name}"] for name, _ in self.COLUMNS})

    def _set(self, columns: dict[str, NDArray[Any]]) -> None:
        self._columns, self._size = columns, columns["time"].size
        self._counts = np.bincount(columns["sensor"])
