"""`City` simulates a city that publishes its readings, for demonstrations without a real feed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from sensormend.errors import ConfigError
from sensormend.pipeline.places import Position
from sensormend.readings import DAY, NOTHING, SECOND, Readings
from sensormend.simulate.network import FIRST_DAY, Day, names_of, stations_of, stream
from sensormend.simulate.weather import CLIMATES
from sensormend.stream.arrivals import Arrived, Source

__all__ = ["City"]

FIRST = int(FIRST_DAY.astype("datetime64[us]").astype(np.int64))


class City(Source):
    """A city that publishes some hours at a time, with all that goes wrong in one.

    It publishes as fast as it is read, or from some day on at `pace`; the readings are the same.

    Parameters
    ----------
    sensors, seed, climate
        As for `simulate.stream`.
    days
        How long it publishes; None for ever.
    slots
        Readings of a sensor in a day.
    hours
        How many hours come at once.
    pace
        Hours of its time in a second, after its first days, which then come slot by slot; None for no pace.
    at_once
        How many days come without a pace.
    change
        Is given every day, with its number, in order, and returns what is published in its place.

    Attributes
    ----------
    drawn
        The days of which something was published, with their truth.
    quantity
        What is measured.
    paced
        Whether it has come to the days that have a pace.

    Examples
    --------
    >>> city = City(12, days=1, hours=6)
    >>> [len(arrived.readings) for arrived in iter(lambda: city.read(0.1), None)]
    [70, 72, 71, 69]
    """

    live = False

    def __init__(
        self,
        sensors: int,
        *,
        days: int | None = None,
        seed: int = 0,
        climate: str = "city",
        slots: int = 24,
        hours: int = 6,
        pace: float | None = None,
        at_once: int = 0,
        change: Callable[[int, Day], Day] | None = None,
    ) -> None:
        if pace is not None and not pace > 0:
            raise ConfigError(f"a city's pace is above 0, not {pace:g}")
        self.drawn: list[Day] = []
        self.paced = False
        self.quantity = (CLIMATES[climate] if climate in CLIMATES else CLIMATES["city"]).quantity
        self._names = names_of(sensors)
        self._slots, self._together = slots, max(1, slots * hours // 24)
        # The first day is drawn here, so that what cannot be simulated is refused at once.
        self._days = stream(sensors, slots=slots, seed=seed, climate=climate)
        self._next = next(self._days)
        self._degrees = stations_of(sensors, seed=seed, climate=climate).degrees()
        self._heard = np.zeros(sensors, dtype=bool)
        self._left, self._pace, self._at_once = days, pace, at_once
        self._change = change
        self._due: float | None = None
        self._pieces: Iterator[Arrived] = iter(())

    def read(self, wait: float) -> Arrived | None:
        """Return the readings of the next hours; see `Source.read`."""
        if self._due is not None:
            pause = self._due - time.monotonic()
            time.sleep(min(max(pause, 0.0), wait))
            if pause > wait:
                return Arrived(NOTHING, FIRST)
        arrived = next(self._pieces, None)
        if arrived is None:
            if self._left is not None and len(self.drawn) >= self._left:
                return None
            day = len(self.drawn)
            self.paced = self._pace is not None and day >= self._at_once
            drawn = self._next if self._change is None else self._change(day, self._next)
            self._pieces = self._published(drawn, FIRST + day * DAY, 1 if self.paced else self._together)
            self.drawn.append(drawn)
            self._next = next(self._days)
            arrived = next(self._pieces)
        if self.paced:
            assert self._pace is not None
            now = time.monotonic()
            # After a long halt, of a laptop that was shut, it does not run after its time.
            self._due = max(now - 1, now if self._due is None else self._due) + 24 / self._slots / self._pace
        return arrived

    def _published(self, day: Day, start: int, together: int) -> Iterator[Arrived]:
        """Give a day's readings in the order in which they are taken."""
        step = DAY // self._slots
        for slot in range(0, self._slots, together):
            part = day.readings[:, slot : slot + together].T
            taken, sensor = np.nonzero(np.isfinite(part))
            time: NDArray[np.int64] = start + (slot + taken.astype(np.int64)) * step
            nothing = np.zeros(sensor.size, np.int16)
            readings = Readings(self._names, ("",), sensor.astype(np.int32), nothing, time, part[taken, sensor])
            # Its clock is the city's own: nothing of it lies in our future.
            yield Arrived(readings, start + (slot + together) * step + SECOND, positions=self._introduced(readings))

    def _introduced(self, readings: Readings) -> list[Position]:
        """Return the positions of the sensors that report for the first time."""
        sensors, first = np.unique(readings.sensor, return_index=True)
        new = ~self._heard[sensors]
        self._heard[sensors] = True
        return [
            Position(self._names[sensor], int(readings.time[row]), *map(float, self._degrees[sensor]))
            for sensor, row in zip(sensors[new], first[new], strict=True)
        ]
