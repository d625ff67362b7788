"""`Watermark` derives event time from readings; `EventClock` and `NetworkPace` advance it between readings."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.pipeline.cleaner import NEVER
from sensormend.readings import SECOND, grown
from sensormend.stream.arrivals import Source

__all__ = ["EventClock", "NetworkPace", "Watermark"]

STORED_WAITS, MIN_WAITS = 14, 3
"""The number of periods whose longest wait for the next readings is stored, and the number from which their median is
used."""


class EventClock:
    """Event time, advanced by this machine's clock while the source is connected.

    While the source is not connected, or the service did not run, readings wait at the sender: event time stands still
    until they have come, so that their periods stay open. Only durations of this machine's clock are used, never its
    time.

    Attributes
    ----------
    connected
        Whether the source was connected at the last check.
    """

    def __init__(self) -> None:
        self._event_time, self._moved_at = NEVER, time.monotonic()
        self._live = self.connected = False

    def moved(self, reached: int) -> None:
        """Record the event time that readings have reached."""
        self._event_time, self._moved_at = reached, time.monotonic()

    def check(self, source: Source, reached: int) -> None:
        """Record whether the source is connected; after a reconnection the clock starts again at `reached`."""
        connected, self._live = source.connected, source.live
        if connected and not self.connected:
            self.moved(reached)
        self.connected = connected

    def now(self, reached: int) -> int:
        """Return the current event time."""
        if self._event_time == NEVER or not (self._live and self.connected):
            return reached
        return max(reached, self._event_time + self.waited)

    @property
    def waited(self) -> int:
        """Microseconds since a reading last advanced event time."""
        return round((time.monotonic() - self._moved_at) * SECOND)


class Watermark:
    """The event time of the network by its readings; one wrong clock does not move it.

    It is the newest time that a quarter of the sensors, and at least two, have reached. Sensors that are ahead of all
    others by two periods are believed when no other sensor has reported since: the others are dead, not behind.

    Parameters
    ----------
    leap
        The length of a period; sensors that are further ahead than that are not believed at once.
    gone_after
        Sensors that are further behind than that do not count.

    Attributes
    ----------
    time, readings
        Event time, and event time by readings alone; microseconds since 1970, UTC.
    newest
        The newest time of all readings, believed or not.
    fixed
        Whether it never decreases, since a period was closed by it. Before that it decreases when the first sensor
        turns out to have a clock that is ahead.
    """

    def __init__(self, leap: int, gone_after: int) -> None:
        self.leap, self.gone_after = leap, gone_after
        self.time, self.readings, self.newest, self.fixed = NEVER, NEVER, NEVER, False
        self._newest = np.empty(0, dtype=np.int64)
        self._last_update = np.empty(0, dtype=np.int64)
        self._updates = 0
        self._leap_since: int | None = None

    def update(
        self,
        sensor: NDArray[np.int64],
        time: NDArray[np.int64],
        counting: NDArray[np.bool_] | None = None,
        *,
        continued: bool = False,
    ) -> None:
        """Update event time by readings.

        Parameters
        ----------
        counting
            The sensors of which a quarter has to reach a time; all by default.
        continued
            They arrived together with the readings of the last call.
        """
        if not sensor.size:
            return
        if (size := int(sensor.max()) + 1) > self._newest.size:
            self._newest, self._last_update = grown(self._newest, size, NEVER), grown(self._last_update, size, -1)
        self._updates += not continued
        np.maximum.at(self._newest, sensor, time)
        self.newest = max(self.newest, int(time.max()))
        self._last_update[sensor] = self._updates
        reached = self._reached(counting)
        self.readings = max(self.readings, reached) if self.fixed else reached
        self.time = max(self.time, reached) if self.fixed else reached

    def move(self, time: int) -> None:
        """Advance event time without a reading."""
        self.time = max(self.time, time)

    def count_until(
        self,
        limit: int,
        sensor: NDArray[np.int64],
        time: NDArray[np.int64],
        counting: NDArray[np.bool_] | None = None,
    ) -> int:
        """Return how many of these readings it takes until event time reaches a limit; all of them if it does not.

        Examples
        --------
        >>> mark = Watermark(leap=10, gone_after=100)
        >>> mark.update(np.arange(4), np.zeros(4, np.int64))
        >>> mark.count_until(5, np.array([1, 1, 2, 3]), np.array([6, 7, 8, 9]))
        3
        """
        if not time.size or int(time.max()) < limit:
            return int(time.size)
        newest = grown(self._newest, int(sensor.max()) + 1, NEVER)
        counts = np.ones(newest.size, dtype=bool)
        if counting is not None:
            counts[:] = False
            counts[: counting.size] = counting[: counts.size]
        present = newest > self._oldest_present
        ahead = counts & present & (newest >= limit)

        def first_times(chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
            """Return after each reading how many sensors have one that is chosen."""
            where = np.flatnonzero(chosen)
            _, first = np.unique(sensor[where], return_index=True)
            steps = np.zeros(time.size, dtype=np.int64)
            steps[where[first]] = 1
            return np.cumsum(steps)

        others = counts[sensor]
        members = int((counts & present).sum()) + first_times(others & ~present[sensor] & (time > self._oldest_present))
        reached = int(ahead.sum()) + first_times(others & ~ahead[sensor] & (time >= limit))
        needed = np.minimum(members, np.maximum(2, -(-members // 4)))
        over = np.flatnonzero((reached >= needed) & (members > 0))
        return int(over[0]) + 1 if over.size else int(time.size)

    @property
    def _oldest_present(self) -> int:
        """The time after which a sensor must have reported to count; it changes with the period only."""
        return max(self.time // self.leap * self.leap - self.gone_after, NEVER)

    def _reached(self, counting: NDArray[np.bool_] | None) -> int:
        newest = self._newest if counting is None else self._newest[: counting.size][counting[: self._newest.size]]
        newest = newest[newest > self._oldest_present]
        if not newest.size:
            return self.newest
        needed = min(newest.size, max(2, -(-newest.size // 4)))
        reached = int(np.partition(newest, newest.size - needed)[newest.size - needed])
        lead = self.newest - reached
        if lead <= self.leap:
            self._leap_since = None
        elif self._leap_since is None:
            self._leap_since = self._updates
        elif (
            lead > 2 * self.leap
            and self._updates > self._leap_since
            and not (self._last_update[self._newest <= reached] > self._leap_since).any()
        ):
            return self.newest
        return reached

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return settings and arrays for a state file."""
        settings = {
            "time": self.time,
            "readings": self.readings,
            "fixed": self.fixed,
            "turns": self._updates,
            "ahead_since": self._leap_since,
        }
        return settings, {"newest": self._newest, "turn": self._last_update}

    def restore(self, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Load a state."""
        self.time, self.readings = settings["time"], settings["readings"]
        self.fixed, self._updates = settings["fixed"], settings["turns"]
        self._leap_since = settings["ahead_since"]
        self._newest, self._last_update = arrays["newest"], arrays["turn"]
        self.newest = int(self._newest.max(initial=NEVER))


class NetworkPace:
    """The usual wait, by the clock, for the next readings of the whole network; a longer wait is a silence."""

    def __init__(self) -> None:
        self._last_arrival: int | None = None
        self._wait, self._waits = 0, list[int]()

    def moved(self, received: int) -> None:
        """Record the arrival of readings that advanced event time."""
        self._wait = max(self._wait, received - (self._last_arrival or received))
        self._last_arrival = received

    def close(self) -> None:
        """Learn from the longest wait of a period that is over."""
        if self._wait:
            self._waits, self._wait = [*self._waits[1 - STORED_WAITS :], self._wait], 0

    def longest_wait(self, step: int, period: int) -> int:
        """Return how long the network may be silent before the clock advances event time.

        It is twice the usual wait and two steps: sensors whose readings come once a day are not silent in between.
        """
        if len(self._waits) < MIN_WAITS:
            return period + 2 * step
        return 2 * sorted(self._waits)[len(self._waits) // 2] + 2 * step

    def state(self) -> list[Any]:
        """Return the state as JSON."""
        return [self._last_arrival, self._wait, self._waits]

    def restore(self, state: list[Any]) -> None:
        """Load a state."""
        self._last_arrival, self._wait, self._waits = state
