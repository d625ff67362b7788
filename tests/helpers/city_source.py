"""`CitySource` is a simulated city that publishes its readings as they are read."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np

from sensormend.pipeline.places import Position
from sensormend.readings import DAY, HOUR, NOTHING, SECOND, Readings
from sensormend.simulate.network import FIRST_DAY, name_sensors, place_stations, stream
from sensormend.stream.arrivals import Arrived, Source

__all__ = ["CitySource"]

FIRST = int(FIRST_DAY.astype("datetime64[us]").astype(np.int64))


class CitySource(Source):
    """A simulated city that publishes some hours at a time, in the memory of one day.

    Parameters
    ----------
    days
        The number of days; None for no end.
    hours
        The hours that are published at once.
    at_once, pace
        After so many days it publishes hour by hour, so many hours per second.
    names
        The names of the sensors.

    Attributes
    ----------
    day
        The number of days begun so far.
    """

    live = False

    def __init__(
        self,
        sensors: int,
        *,
        days: int | None = None,
        seed: int = 0,
        hours: int = 6,
        at_once: int | None = None,
        pace: float = 1e9,
        names: Sequence[str] | None = None,
    ) -> None:
        self.day = 0
        self._sensors, self._days, self._seed, self._hours = sensors, days, seed, hours
        self._at_once, self._pace, self._names = at_once, pace, tuple(names or name_sensors(sensors))
        self._due = time.monotonic()
        self._parts = self._published()

    @property
    def paced(self) -> bool:
        """Whether the days with a pace have begun."""
        return self._at_once is not None and self.day > self._at_once

    def read(self, wait: float) -> Arrived | None:
        """Return the readings of the next hours; see `Source.read`."""
        if self.paced:
            pause = self._due - time.monotonic()
            time.sleep(min(max(pause, 0.0), wait))
            if pause > wait:
                return Arrived(NOTHING, FIRST)
            self._due = time.monotonic() + 1 / self._pace
        return next(self._parts, None)

    def _published(self) -> Iterator[Arrived]:
        degrees = place_stations(self._sensors, seed=self._seed).degrees().tolist()
        positions = [Position(name, FIRST, *place) for name, place in zip(self._names, degrees, strict=True)]
        for number, day in enumerate(stream(self._sensors, seed=self._seed)):
            if number == self._days:
                return
            self.day, start = number + 1, FIRST + number * DAY
            hours = 1 if self.paced else self._hours
            for hour in range(0, 24, hours):
                part = day.readings[:, hour : hour + hours].T
                offset, sensor = np.nonzero(np.isfinite(part))
                times = start + (hour + offset.astype(np.int64)) * HOUR
                readings = Readings(
                    self._names, ("",), sensor.astype(np.int32), np.zeros(sensor.size, np.int16), times,
                    part[offset, sensor],
                )  # fmt: skip
                yield Arrived(readings, start + (hour + hours) * HOUR + SECOND, positions=positions)
                positions = []
