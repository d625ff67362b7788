"""Event time is taken from readings by `Watermark`, and carried on between them by `EventClock` and `NetworkPace`."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.pipeline.mender import NEVER
from sensormend.readings import SECOND
from sensormend.stream.arrivals import Source

__all__ = ["EventClock", "NetworkPace", "Watermark"]

WAITS, KNOWN = 14, 3
"""Periods of which the longest wait for the network's next readings is kept, and how many it takes to know it."""


class EventClock:
    """The time of the readings, carried on by this machine's clock while the source is connected.

    While it is not, or the service was not even running, readings wait somewhere: time stands still until they have
    come, and nothing is closed over them. Only durations are asked of this machine's clock, never what time it is.

    Attributes
    ----------
    connected
        Whether the source was connected at the last check.
    """

    def __init__(self) -> None:
        self._from, self._at = NEVER, time.monotonic()
        self._live = self.connected = False

    def moved(self, reached: int) -> None:
        """Note how far readings have come."""
        self._from, self._at = reached, time.monotonic()

    def check(self, source: Source, reached: int) -> None:
        """Note whether the source is connected; what waited meanwhile gets its time to come."""
        connected, self._live = source.connected, source.live
        if connected and not self.connected:
            self.moved(reached)
        self.connected = connected

    def now(self, reached: int) -> int:
        """Return what time it is."""
        if self._from == NEVER or not (self._live and self.connected):
            return reached
        return max(reached, self._from + self.waited)

    @property
    def waited(self) -> int:
        """How long no reading has let the time go on, in microseconds."""
        return round((time.monotonic() - self._at) * SECOND)


class Watermark:
    """How far the network's time has come, by its readings; one wrong clock does not move it.

    It is the newest time that a quarter of the sensors, and at least two, have reached. Sensors that are ahead of all
    others by two periods are believed when nobody else has said a word since: the others are dead, not behind.

    Parameters
    ----------
    leap
        A period: how far ahead is too far to be the same day.
    gone_after
        Sensors that are so far behind do not count.

    Attributes
    ----------
    time, readings
        How far it has come, and how far by readings alone; microseconds since 1970, UTC.
    newest
        The newest time of all, believed or not.
    fixed
        It does not go back: something was closed by it. Before that a first sensor whose clock is ahead is outvoted.
    """

    def __init__(self, leap: int, gone_after: int) -> None:
        self.leap, self.gone_after = leap, gone_after
        self.time, self.readings, self.newest, self.fixed = NEVER, NEVER, NEVER, False
        self._newest = np.empty(0, dtype=np.int64)
        self._turn = np.empty(0, dtype=np.int64)
        self._turns = 0
        self._ahead_since: int | None = None

    def see(
        self, sensor: NDArray[np.int64], time: NDArray[np.int64], counting: NDArray[np.bool_] | None = None
    ) -> None:
        """Take note of readings.

        Parameters
        ----------
        sensor, time
            Whose they are, and of when.
        counting
            Of which sensors a quarter has to be there; None for all of them.
        """
        if not sensor.size:
            return
        more = int(sensor.max()) + 1 - self._newest.size
        if more > 0:
            self._newest = np.concatenate([self._newest, np.full(more, NEVER)])
            self._turn = np.concatenate([self._turn, np.full(more, -1)])
        self._turns += 1
        np.maximum.at(self._newest, sensor, time)
        self.newest = max(self.newest, int(time.max()))
        self._turn[sensor] = self._turns
        reached = self._reached(counting)
        self.readings = max(self.readings, reached) if self.fixed else reached
        self.time = max(self.time, reached) if self.fixed else reached

    def move(self, time: int) -> None:
        """Say that the time has come without a reading: the clock says so."""
        self.time = max(self.time, time)

    def _reached(self, counting: NDArray[np.bool_] | None) -> int:
        top = self.newest
        newest = self._newest if counting is None else self._newest[: counting.size][counting[: self._newest.size]]
        newest = newest[newest > max(self.time - self.gone_after, NEVER)]
        if not newest.size:
            return top
        needed = min(newest.size, max(2, -(-newest.size // 4)))
        reached = int(np.partition(newest, newest.size - needed)[newest.size - needed])
        if top - reached <= self.leap:
            self._ahead_since = None
        elif self._ahead_since is None:
            self._ahead_since = self._turns
        elif top - reached > 2 * self.leap and not (self._turn[self._newest <= reached] > self._ahead_since).any():
            return top
        return reached

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return all of it as a state file holds it."""
        settings = {
            "time": self.time,
            "readings": self.readings,
            "fixed": self.fixed,
            "turns": self._turns,
            "ahead_since": self._ahead_since,
        }
        return settings, {"newest": self._newest, "turn": self._turn}

    def restore(self, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Go on from a state."""
        self.time, self.readings = settings["time"], settings["readings"]
        self.fixed, self._turns = settings["fixed"], settings["turns"]
        self._ahead_since = settings["ahead_since"]
        self._newest, self._turn = arrays["newest"], arrays["turn"]
        self.newest = int(self._newest.max(initial=NEVER))


class NetworkPace:
    """How often the network as a whole is heard, by the clock: from when on it is silent rather than slow.

    Attributes
    ----------
    heard
        When readings last let the time go on, by the clock; None before the first.
    """

    def __init__(self) -> None:
        self.heard: int | None = None
        self._wait, self._waits = 0, list[int]()

    def moved(self, received: int) -> None:
        """Take note of readings that let the time go on."""
        self._wait = max(self._wait, received - (self.heard or received))
        self.heard = received

    def close(self) -> None:
        """Learn from the longest wait of a period that is over."""
        if self._wait:
            self._waits, self._wait = [*self._waits[1 - WAITS :], self._wait], 0

    def patience(self, step: int, period: int) -> int:
        """Return how long it may be silent before time goes on without it.

        Twice what is usual for it, and two steps more: readings that come once a day do not make their sensors silent.
        """
        if len(self._waits) < KNOWN:
            return period + 2 * step
        return 2 * sorted(self._waits)[len(self._waits) // 2] + 2 * step

    def state(self) -> list[Any]:
        """Return all of it as JSON has it."""
        return [self.heard, self._wait, self._waits]

    def restore(self, state: list[Any]) -> None:
        """Go on from a state."""
        self.heard, self._wait, self._waits = state
