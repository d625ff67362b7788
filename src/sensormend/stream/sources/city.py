"""`City` simulates a city that publishes its readings, for demonstrations without a real feed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np

from sensormend.errors import ConfigError
from sensormend.pipeline.places import Position
from sensormend.readings import DAY, HOUR, NOTHING, SECOND, Readings
from sensormend.simulate.network import FIRST_DAY, Day, names_of, stations_of, stream
from sensormend.simulate.weather import CLIMATES
from sensormend.stream.arrivals import Arrived, Source

__all__ = ["City"]

FIRST = int(FIRST_DAY.astype("datetime64[us]").astype(np.int64))


class City(Source):
    """A simulated city that publishes readings of some hours at a time, with all defects of a real network.

    It publishes as fast as it is read, or from some day on at `pace`; the readings are the same.

    Parameters
    ----------
    sensors, seed, climate
        As for `simulate.stream`.
    days
        The number of days; None for no end.
    hours
        The hours that are published at once.
    pace
        Simulated hours per second after the first `at_once` days, published hour by hour; None for no pace.
    at_once
        The number of days without a pace.
    change
        Called with the number of each day and the day, in order; returns the day that is published.

    Attributes
    ----------
    drawn
        The days published so far, with their truth.
    quantity
        The measured quantity.
    paced
        Whether the days with a pace have begun.

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
        hours: int = 6,
        pace: float | None = None,
        at_once: int = 0,
        change: Callable[[int, Day], Day] = lambda number, day: day,
    ) -> None:
        if pace is not None and not pace > 0:
            raise ConfigError(f"a city's pace is above 0, not {pace:g}")
        self.drawn: list[Day] = []
        self.paced = False
        # The first day is drawn here, so that wrong arguments are refused at once.
        self._days = stream(sensors, seed=seed, climate=climate)
        self._tomorrow = next(self._days)
        self.quantity = CLIMATES[climate].quantity
        self._names = names_of(sensors)
        self._degrees = stations_of(sensors, seed=seed, climate=climate).degrees()
        self._reported = np.zeros(sensors, dtype=bool)
        self._count, self._hours, self._pace, self._at_once = days, hours, pace, at_once
        self._change = change
        self._due: float | None = None
        self._today: Iterator[Arrived] = iter(())

    def read(self, wait: float) -> Arrived | None:
        """Return the readings of the next hours; see `Source.read`."""
        if self._due is not None:
            pause = self._due - time.monotonic()
            time.sleep(min(max(pause, 0.0), wait))
            if pause > wait:
                return Arrived(NOTHING, FIRST)
        arrived = next(self._today, None)
        if arrived is None:
            number = len(self.drawn)
            if number == self._count:
                return None
            self.paced = self._pace is not None and number >= self._at_once
            self.drawn.append(self._change(number, self._tomorrow))
            self._today = self._published(self.drawn[-1], FIRST + number * DAY, 1 if self.paced else self._hours)
            self._tomorrow = next(self._days)
            arrived = next(self._today)
        if self.paced:
            assert self._pace is not None
            now = time.monotonic()
            # After a long halt, for example of a closed laptop, the missed hours are not made up for.
            self._due = max(now - 1, now if self._due is None else self._due) + 1 / self._pace
        return arrived

    def _published(self, day: Day, start: int, hours: int) -> Iterator[Arrived]:
        """Yield the readings of a day, some hours at a time, in order of time."""
        for hour in range(0, 24, hours):
            part = day.readings[:, hour : hour + hours].T
            offset, sensor = np.nonzero(np.isfinite(part))
            time = start + (hour + offset.astype(np.int64)) * HOUR
            variable = np.zeros(sensor.size, np.int16)
            readings = Readings(self._names, ("",), sensor.astype(np.int32), variable, time, part[offset, sensor])
            # The city has a clock of its own, so that no reading is from the future.
            received = start + (hour + hours) * HOUR + SECOND
            yield Arrived(readings, received, positions=self._new_positions(readings))

    def _new_positions(self, readings: Readings) -> list[Position]:
        """Return the positions of the sensors that report for the first time."""
        sensors, first = np.unique(readings.sensor, return_index=True)
        new = ~self._reported[sensors]
        self._reported[sensors] = True
        return [
            Position(self._names[sensor], int(readings.time[row]), *map(float, self._degrees[sensor]))
            for sensor, row in zip(sensors[new], first[new], strict=True)
        ]
