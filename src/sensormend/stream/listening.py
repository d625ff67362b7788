"""`Listening` says who is heard, who is silent or faulty, and what is told; `Pace` how often the network is heard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.io.options import EVERY
from sensormend.pipeline.grid import Grid, no_number
from sensormend.pipeline.health import Health
from sensormend.pipeline.maintenance import Maintenance
from sensormend.pipeline.mender import NEVER, Mended
from sensormend.readings import Readings
from sensormend.recovery import BoolArray
from sensormend.stream.alerts import TOGETHER, Alerts
from sensormend.stream.deliveries import Alert
from sensormend.stream.silence import Silence
from sensormend.stream.telling import together
from sensormend.stream.verdict import verdict_of
from sensormend.stream.window import Names

__all__ = ["Listening", "Pace"]

WAITS, KNOWN = 14, 3
"""Periods of which the longest wait for the network's next readings is kept, and how many it takes to know it."""


class Listening:
    """Which channels are heard; a channel is one variable of one sensor.

    Parameters
    ----------
    grid, gone_after
        The grid, and how long a sensor may be silent before it is gone.
    sensors, variables
        Their names; more sensors may come.
    alerts
        Who is what.
    fill
        Values of each variable that are no numbers.
    """

    def __init__(
        self,
        grid: Grid,
        gone_after: int,
        sensors: Names,
        variables: Names,
        alerts: Alerts,
        fill: Mapping[str, Sequence[float]] | None = None,
    ) -> None:
        fill = fill or {}
        self._fill = [fill.get(name, fill.get(EVERY, ())) for name in variables.all]
        self._grid, self._sensors, self._variables, self.alerts = grid, sensors, variables, alerts
        self.silence = Silence(grid.step, grid.period, gone_after)
        self._removed: BoolArray = np.zeros(0, dtype=bool)
        self._named: Sequence[tuple[str, str]] = ()

    def heard(self, readings: Readings) -> None:
        """Take note of readings, those of a slot after those of the slots before it; one without a number is none."""
        number = ~no_number(readings, self._fill)
        channel = self._channels(readings)
        self.silence.heard(channel[number], readings.time[number])
        self.silence.known(channel[~number], readings.time[~number])

    def close(self, readings: Readings) -> None:
        """Learn what silence is usual from the readings of a period that is over."""
        readings = readings.taken(~no_number(readings, self._fill))
        self.silence.close(self._channels(readings), readings.time)

    def judged(self, mended: Mended) -> list[Alert]:
        """Take in a period that is over, and return who has changed."""
        grid, verdict = self._grid, verdict_of(mended, self._grid)
        start = grid.start_of(mended.period)
        return self._incidents(
            self.alerts.period(mended.rows, grid.slots, start, start + grid.period, verdict, grid.step)
        )

    def provisional(self, mended: Mended, now: int) -> list[Alert]:
        """Take in a period that is not over, as far as it has come by `now`, and return who has changed."""
        return self._incidents(self.alerts.verdict(verdict_of(mended, self._grid), now, self._grid.step))

    def listen(self, now: int, maintenance: Maintenance, counting: BoolArray | None = None) -> list[Alert]:
        """Look who is silent at the end of a slot, and return who has changed.

        Parameters
        ----------
        now
            The end of the slot.
        maintenance
            What people know.
        counting
            The sensors whose silence is news; None for all.
        """
        noted = self._noted(now, maintenance)
        if counting is not None:
            news = np.repeat(counting, len(self._variables))[: noted.size]
            noted[: news.size] |= ~news
        silent, last, gone = self.silence.silent(now) & ~noted, self.silence.last, self.silence.gone(now)
        usual = np.where(noted, NEVER, self.silence.usual)
        self._removed = self._noted(now, maintenance, "removed")
        return self._incidents(
            self.alerts.silence(self._names(), silent, last, now, usual, gone, self._removed, self._grid.step)
        )

    def is_silent(self, time: int, maintenance: Maintenance) -> BoolArray:
        """Say which channels are silent at a time, and remember nothing."""
        return self.silence.is_silent(time) & ~self._noted(time, maintenance)

    def health(self) -> list[Health]:
        """Say how every channel is that was not removed."""
        names = self._names()
        removed = np.zeros(len(names), dtype=bool)
        removed[: self._removed.size] = self._removed[: len(names)]
        return self.alerts.health(names, self.silence.last, removed)

    def _incidents(self, alerts: list[Alert]) -> list[Alert]:
        return together(alerts, TOGETHER * self._grid.step)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return all of it but the alerts, as a state file holds it."""
        settings, arrays = self.silence.state()
        return {**settings, "removed": np.flatnonzero(self._removed).tolist()}, arrays

    def restore(self, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Go on from a state."""
        self.silence.restore(settings, arrays)
        self._removed = np.zeros(len(self.silence), dtype=bool)
        self._removed[settings.get("removed", [])] = True

    def _channels(self, readings: Readings) -> NDArray[np.int64]:
        return (readings.sensor * len(self._variables) + readings.variable).astype(np.int64, copy=False)

    def _names(self) -> Sequence[tuple[str, str]]:
        """Return whose the channels are."""
        if len(self._named) != len(self.silence):
            names = [(sensor, variable) for sensor in self._sensors.all for variable in self._variables.all]
            self._named = names[: len(self.silence)]
        return self._named

    def _noted(self, now: int, maintenance: Maintenance, *actions: str) -> BoolArray:
        """Say which channels people do not want to hear of, or only those that they noted one of these actions for."""
        notes = Maintenance(tuple(note for note in maintenance.notes if not actions or note.action in actions))
        cells = None
        if notes.notes:
            slot = np.array([now - self._grid.step])
            cells = notes.hidden(self._sensors.all, self._variables.all, slot, self._grid.step)
        count = len(self.silence)
        return np.zeros(count, dtype=bool) if cells is None else cells.reshape(-1)[:count]


class Pace:
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
