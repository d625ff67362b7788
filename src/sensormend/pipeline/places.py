"""`Places` holds the positions of sensors; a sensor that moves becomes a new one."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np

from sensormend.errors import ConfigError
from sensormend.files import read_table
from sensormend.pipeline.maintenance import as_time
from sensormend.readings import DAY, NameIndex, Readings

__all__ = ["Places", "Position"]

MOVED = 150.0
"""Metres from its position beyond which a sensor becomes a new one: a cheap GPS varies by tens of metres, and so do
coordinates read off a map."""

STAY = DAY
"""The time that a sensor must stay at a position to have moved there."""

EARTH = 6_371_000.0


@dataclass(frozen=True)
class Position:
    """A position of a sensor, with the time from which it holds."""

    sensor: str
    time: int
    latitude: float
    longitude: float

    def metres_from(self, position: Position) -> float:
        """Return the distance on the ground in metres."""
        north = math.radians(self.latitude - position.latitude)
        east = math.radians((self.longitude - position.longitude + 180) % 360 - 180)
        east *= math.cos(math.radians((self.latitude + position.latitude) / 2))
        return EARTH * math.hypot(north, east)


@dataclass(eq=False)
class Places:
    """The positions of all sensors; sensor `a` becomes `a@2` at its first move, then `a@3`, and `a` again on return."""

    stays: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    coordinates: dict[str, tuple[float, float]] = field(default_factory=dict)
    _names: Sequence[str] = ()
    _renamed: NameIndex = field(default_factory=NameIndex)

    @classmethod
    def of(cls, positions: Iterable[Position], taken: Iterable[str] = ()) -> Places:
        """Derive the moves of the sensors from their positions, each of which holds until the next one.

        A position of 0, 0 is ignored, since a receiver without a fix reports it. Names that are `taken` are not given.
        """
        by_sensor: dict[str, list[Position]] = {}
        for place in sorted(positions, key=lambda place: (place.sensor, place.time)):
            if abs(place.latitude) <= 90 and abs(place.longitude) <= 360 and (place.latitude or place.longitude):
                by_sensor.setdefault(place.sensor, []).append(place)
        names = {*taken, *by_sensor}
        places = cls()
        for sensor, course in by_sensor.items():
            named: list[tuple[Position, str]] = []
            for place in _stays(course):
                name = next((name for earlier, name in named if place.metres_from(earlier) <= MOVED), None)
                if name is None:
                    numbers = (f"{sensor}@{number}" for number in count(2))
                    name = next(free for free in numbers if free not in names) if named else sensor
                    names.add(name)
                    named.append((place, name))
                    places.coordinates[name] = (place.latitude, place.longitude)
                places.stays.setdefault(sensor, []).append((place.time, name))
        return places

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Places:
        """Read a CSV file with the columns sensor, latitude, longitude and, where sensors move, from."""
        positions = []
        for where, cells in read_table(path, {"sensor": ("station",), "latitude": ("lat",), "longitude": ("lon",)}):
            start = as_time(cells["from"], f"{where}, from") if cells.get("from") else 0
            try:
                place = float(cells["latitude"]), float(cells["longitude"])
            except ValueError:
                got = f"{cells['latitude']!r}, {cells['longitude']!r}"
                raise ConfigError(f"{where}: latitude and longitude are degrees; got {got}") from None
            positions.append(Position(cells["sensor"], start, *place))
        return cls.of(positions)

    @property
    def moved(self) -> list[str]:
        """The sensors that moved."""
        return [sensor for sensor, stays in self.stays.items() if len(stays) > 1]

    def rename_moved(self, readings: Readings) -> Readings:
        """Return the readings with those of moved sensors under their new names."""
        moved = self.moved
        if not moved:
            return readings
        if readings.sensors is not self._names:
            self._names = readings.sensors
            new_names = (name for moving in moved for _, name in self.stays[moving])
            self._renamed = NameIndex([*readings.sensors, *new_names])
        sensor = readings.sensor.astype(np.int64, copy=True)
        for moving in moved:
            rows = np.flatnonzero(readings.sensor == self._renamed.code(moving))
            for start, name in self.stays[moving][1:]:
                sensor[rows[readings.time[rows] >= start]] = self._renamed[name]
        return replace(readings, sensors=self._renamed.all, sensor=sensor)


def _stays(course: Sequence[Position]) -> list[Position]:
    """Return the positions at which a sensor stayed; one for less than a day is a bad fix or part of a move."""
    stays = [course[0]]
    for number, place in enumerate(course[1:], start=1):
        if place.metres_from(stays[-1]) <= MOVED:
            continue
        until = next((later.time for later in course[number:] if later.metres_from(place) > MOVED), None)
        if until is None or until - place.time >= STAY:
            stays.append(place)
    return stays
