"""A simulated city that publishes its readings, for whoever wants to see a feed without having one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sensormend.live.arrivals import Arrived, Source
from sensormend.readings import DAY, SECOND, Readings
from sensormend.recovery import FloatArray
from sensormend.simulate import FIRST_DAY, Day, names_of, stream
from sensormend.weather import CLIMATES

__all__ = ["City"]

FIRST = int(FIRST_DAY.astype("datetime64[us]").astype(np.int64))


class City(Source):
    """A city that publishes as fast as it is read, some hours at a time, with all that goes wrong in one.

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

    Attributes
    ----------
    drawn
        The days of which something was published, with their truth.
    quantity
        What is measured.

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
    ) -> None:
        self.drawn: list[Day] = []
        self.quantity = (CLIMATES[climate] if climate in CLIMATES else CLIMATES["city"]).quantity
        self._names = names_of(sensors)
        self._slots, self._at_once = slots, max(1, slots * hours // 24)
        # The first day is drawn here, so that what cannot be simulated is refused at once.
        self._days = stream(sensors, slots=slots, seed=seed, climate=climate)
        self._next = self._drawn_next()
        self._left = days
        self._pieces: Iterator[Arrived] = iter(())

    def read(self, wait: float) -> Arrived | None:
        """Return the readings of the next hours."""
        arrived = next(self._pieces, None)
        if arrived is None:
            if self._left is not None and len(self.drawn) >= self._left:
                return None
            self.drawn.append(self._next)
            self._pieces = self._published(self._next.readings, FIRST + (len(self.drawn) - 1) * DAY)
            self._next = self._drawn_next()
            arrived = next(self._pieces)
        return arrived

    def _drawn_next(self) -> Day:
        return next(self._days)

    def _published(self, values: FloatArray, start: int) -> Iterator[Arrived]:
        """Give a day's readings in the order in which they are taken."""
        step = DAY // self._slots
        for slot in range(0, self._slots, self._at_once):
            part = values[:, slot : slot + self._at_once].T
            taken, sensor = np.nonzero(np.isfinite(part))
            time: NDArray[np.int64] = start + (slot + taken.astype(np.int64)) * step
            nothing = np.zeros(sensor.size, np.int16)
            readings = Readings(self._names, ("",), sensor.astype(np.int32), nothing, time, part[taken, sensor])
            # Its clock is the city's own: nothing of it lies in our future.
            yield Arrived(readings, start + (slot + self._at_once) * step + SECOND)
