"""Readings of many messages on their way into columns."""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sensormend.pipeline.places import MOVED, Position
from sensormend.readings import DAY, Readings
from sensormend.stream.arrivals import Rejected
from sensormend.stream.formats.moments import number
from sensormend.stream.formats.names import Names
from sensormend.stream.formats.refused import BAD_NAME, NO_READING, NO_SENSOR, RETAINED_OLD, RETAINED_TIMELESS, Refused

__all__ = ["Decoded", "Gathering"]

MOST_SENSORS, MOST_VARIABLES = 100_000, 1_000
"""Names that are remembered from one `take` to the next; where there are more, all are forgotten. Whoever invents names
must not fill the memory, and nobody is refused here for it: who is a sensor is seen in `stream.strangers`."""

MOST_REFUSED = 1_000
"""Of one message that are told one by one; what is more is told in one."""

SHOWN = 120
"""Letters of what was refused that are kept."""


class Decoded(NamedTuple):
    """What some messages held."""

    readings: Readings
    rejected: list[Rejected]
    positions: list[Position]


class Gathering:
    """Collects readings, what was refused, and places."""

    def __init__(self) -> None:
        self._forget()
        self._clear()
        self.begin(0, "", False)

    def _forget(self) -> None:
        self.sensors, self.variables = Names(NO_SENSOR), Names(BAD_NAME, empty=True)
        self._last: dict[str, Position] = {}

    def _clear(self) -> None:
        self._sensor: list[int] = []
        self._variable: list[int] = []
        self._time: list[int] = []
        self._value: list[float] = []
        self._parts: list[tuple[NDArray[Any], ...]] = []
        self._count = 0
        self._rejected: list[Rejected] = []
        self._positions: list[Position] = []

    def __len__(self) -> int:
        return self._count + len(self._time)

    def begin(self, received: int, where: str, retained: bool) -> None:
        """Say of what message all that follows is."""
        self.received, self.retained = received, retained
        self._where, self._refused = where, 0
        self._before = len(self)

    def end(self, told: Any) -> None:
        """Say that the message is over; one of which nothing was kept and nothing refused has nothing in it."""
        if not self._refused and len(self) == self._before:
            self.refuse(NO_READING, told)
        if self._refused > MOST_REFUSED:
            more = f"and {self._refused - MOST_REFUSED:,} more in this message"
            self._rejected.append(Rejected(self._where, NO_READING, more))

    def refuse(self, reason: str, told: Any) -> None:
        """Note what is no reading."""
        self._refused += 1
        if self._refused <= MOST_REFUSED:
            self._rejected.append(Rejected(self._where, reason, _shown(told)))

    def keep(self, sensor: Any, variable: Any, time: int | None, value: float) -> None:
        """Take a reading, or refuse it; names are remembered only where all of it is right."""
        if self.retained and (time is None or time < self.received - DAY):
            raise Refused(RETAINED_TIMELESS if time is None else RETAINED_OLD)
        try:
            code, of = self.sensors.codes[sensor], self.variables.codes[variable]
        except (KeyError, TypeError):
            if sensor is None or sensor == "":
                raise Refused(NO_SENSOR) from None
            name = self.variables.checked(variable, "")
            code = self.sensors.code(sensor)
            of = self.variables.code(name)
        self._sensor.append(code)
        self._variable.append(of)
        self._time.append(self.received if time is None else time)
        self._value.append(value)

    def add(self, sensor: NDArray[Any], variable: NDArray[Any], time: NDArray[Any], value: NDArray[Any]) -> None:
        """Take many readings."""
        self._settle()
        self._parts.append((sensor, variable, time, value))
        self._count += time.size

    def place(self, sensor: Any, time: int | None, latitude: Any, longitude: Any) -> None:
        """Note where a sensor says it is, if it has not said so before and has readings."""
        try:
            name, north, east = self.sensors.checked(sensor), number(latitude), number(longitude)
        except Refused:
            return
        # 0, 0 and NaN: a receiver that does not know where it is.
        if not (abs(north) <= 90 and abs(east) <= 360) or not (north or east) or name not in self.sensors.codes:
            return
        here = Position(name, self.received if time is None else time, north, east)
        last = self._last.get(name)
        if last is None or here.metres_from(last) > MOVED:
            self._last[name] = here
            self._positions.append(here)

    def take(self) -> Decoded:
        """Return what there is, and begin anew."""
        self._settle()
        parts = self._parts
        columns = parts[0] if len(parts) == 1 else [np.concatenate(column) for column in zip(*parts, strict=True)]
        sensor, variable, time, value = columns
        value[~np.isfinite(value)] = math.nan
        readings = Readings(self.sensors.listed, self.variables.listed or ("",), sensor, variable, time, value)
        taken = Decoded(readings, self._rejected, self._positions)
        self._clear()
        if len(self.sensors.codes) > MOST_SENSORS or len(self.variables.codes) > MOST_VARIABLES:
            self._forget()
        return taken

    def _settle(self) -> None:
        """Make arrays of what was collected one by one."""
        if self._time or not self._parts:
            sensor, variable = np.array(self._sensor, np.int32), np.array(self._variable, np.int32)
            self._parts.append((sensor, variable, np.array(self._time, np.int64), np.array(self._value, np.float64)))
            self._count += len(self._time)
            self._sensor, self._variable, self._time, self._value = [], [], [], []


def _shown(told: Any) -> str:
    """Return the beginning of what came, as text that any file can hold."""
    if isinstance(told, bytes):
        return told[: 4 * SHOWN].decode(errors="replace")[:SHOWN]
    try:
        return json.dumps(told)[:SHOWN]
    except (ValueError, RecursionError):
        return ""
