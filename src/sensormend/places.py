"""Where sensors stand, and what becomes of one that moves: a new sensor."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from sensormend.errors import ConfigError
from sensormend.maintenance import as_time
from sensormend.readings import Readings

__all__ = ["Places", "Position"]

MOVED = 150.0
"""Metres from where it stood that make a sensor another one: a cheap GPS wanders by tens of metres, and so does whoever
reads coordinates off a map."""

EARTH = 6_371_000.0


@dataclass(frozen=True)
class Position:
    """A sensor was seen here, first at this time."""

    sensor: str
    time: int
    latitude: float
    longitude: float

    def metres_from(self, other: Position) -> float:
        """Return the distance on the ground."""
        north = math.radians(self.latitude - other.latitude)
        east = math.radians((self.longitude - other.longitude + 180) % 360 - 180)
        east *= math.cos(math.radians((self.latitude + other.latitude) / 2))
        return EARTH * math.hypot(north, east)


@dataclass(eq=False)
class Places:
    """The places of all sensors; after its first move sensor `a` is `a@2`, then `a@3`."""

    stays: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    coordinates: dict[str, tuple[float, float]] = field(default_factory=dict)
    _names: Sequence[str] = ()
    _renamed: Sequence[str] = ()

    @classmethod
    def of(cls, positions: Iterable[Position]) -> Places:
        """Follow the sensors through their positions."""
        places = cls()
        anchors: dict[str, Position] = {}
        for seen in sorted(positions, key=lambda seen: (seen.sensor, seen.time)):
            if not (abs(seen.latitude) <= 90 and abs(seen.longitude) <= 360):
                continue
            before = anchors.get(seen.sensor)
            if before is not None and seen.metres_from(before) <= MOVED:
                continue
            stays = places.stays.setdefault(seen.sensor, [])
            name = f"{seen.sensor}@{len(stays) + 1}" if stays else seen.sensor
            stays.append((seen.time, name))
            places.coordinates[name] = (seen.latitude, seen.longitude)
            anchors[seen.sensor] = seen
        return places

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Places:
        """Read a CSV file with the columns sensor, latitude, longitude and, where sensors move, from."""
        path = Path(path)
        try:
            with path.open(newline="", encoding="utf-8-sig") as file:
                table = csv.DictReader(file)
                names = {_plain(name): name for name in table.fieldnames or ()}
                columns = [names.get(key) or names.get(short) for key, short in
                           (("sensor", "station"), ("latitude", "lat"), ("longitude", "lon"))]  # fmt: skip
                if None in columns:
                    raise ConfigError(
                        f"{path} has the columns {', '.join(names) or 'none'}; sensor, latitude, longitude are needed"
                    )
                since = names.get("from")
                positions = []
                for number, row in enumerate(table, start=2):
                    sensor, latitude, longitude = (str(row[str(column)] or "").strip() for column in columns)
                    where = f"{path}, row {number}"
                    start = as_time(row[since], f"{where}, from") if since and row[since] else 0
                    try:
                        positions.append(Position(sensor, start, float(latitude), float(longitude)))
                    except ValueError:
                        raise ConfigError(
                            f"{where}: latitude and longitude are degrees; got {latitude!r}, {longitude!r}"
                        ) from None
                return cls.of(positions)
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise ConfigError(f"{path} cannot be read: {error}") from None

    @property
    def moved(self) -> list[str]:
        """The sensors that did not stay where they were."""
        return [sensor for sensor, stays in self.stays.items() if len(stays) > 1]

    def settle(self, readings: Readings) -> Readings:
        """Give the readings of sensors that moved to the sensors that they became."""
        moved = self.moved
        if not moved:
            return readings
        if readings.sensors is not self._names:
            self._names = readings.sensors
            self._renamed = [*readings.sensors, *(name for one in moved for _, name in self.stays[one][1:])]
        sensor = readings.sensor.astype(np.int64, copy=True)
        code_of = {name: code for code, name in enumerate(self._renamed)}
        for one in moved:
            mine = np.flatnonzero(readings.sensor == code_of.get(one, -1))
            for start, name in self.stays[one][1:]:
                sensor[mine[readings.time[mine] >= start]] = code_of[name]
        return Readings(self._renamed, readings.variables, sensor, readings.variable, readings.time, readings.value)


def _plain(name: str) -> str:
    return name.strip().lower()
