"""Who is heard, who is silent, and who is told: the sensors one by one, and the network as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.grid import ANCHOR, Grid
from sensormend.live.alerts import Alerts
from sensormend.live.deliveries import Alert, Health
from sensormend.live.silence import Silence
from sensormend.live.window import Names
from sensormend.maintenance import Maintenance
from sensormend.mending import NEVER, Mended
from sensormend.readings import Readings
from sensormend.recovery import BoolArray

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
    """

    def __init__(self, grid: Grid, gone_after: int, sensors: Names, variables: Names, alerts: Alerts) -> None:
        self._grid, self._sensors, self._variables, self.alerts = grid, sensors, variables, alerts
        self.silence = Silence(grid.step, grid.period, gone_after)
        self._slot = NEVER
        self._named: Sequence[tuple[str, str]] = ()

    def heard(self, readings: Readings) -> None:
        """Take note of readings as they come."""
        self.silence.heard(self._channels(readings), readings.time)

    def close(self, readings: Readings) -> None:
        """Learn what silence is usual from the readings of a period that is over."""
        self.silence.close(self._channels(readings), readings.time)

    def judged(self, mended: Mended) -> list[Alert]:
        """Take in a period that is over, and return who has changed."""
        start = self._grid.start_of(mended.period)
        return self.alerts.period(mended.rows, self._grid.slots, start, start + self._grid.period)

    def listen(self, time: int, maintenance: Maintenance) -> list[Alert]:
        """Look who is silent at the end of every slot, and return who has changed."""
        slot = self._grid.slots_until(time)
        if slot <= self._slot:
            return []
        self._slot = slot
        now = slot * self._grid.step + ANCHOR - self._grid.early
        silent = self.silence.silent(now) & ~self._left_alone(now, maintenance)
        last, usual, gone = self.silence.last, self.silence.usual, self.silence.gone(now)
        return self.alerts.silence(self._names(), silent, last, now, usual, gone)

    def is_silent(self, time: int, maintenance: Maintenance) -> BoolArray:
        """Say which channels are silent at a time, and remember nothing."""
        return self.silence.is_silent(time) & ~self._left_alone(time, maintenance)

    def health(self) -> list[Health]:
        """Say how every channel is that is not gone."""
        return self.alerts.health(self._names(), self.silence.last)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return all of it but the alerts, as a state file holds it."""
        settings, arrays = self.silence.state()
        return {"slot": self._slot, **settings}, arrays

    def restore(self, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Go on from a state."""
        self._slot = settings["slot"]
        self.silence.restore(settings, arrays)

    def _channels(self, readings: Readings) -> NDArray[np.int64]:
        return (readings.sensor * len(self._variables) + readings.variable).astype(np.int64, copy=False)

    def _names(self) -> Sequence[tuple[str, str]]:
        """Return whose the channels are."""
        if len(self._named) != len(self.silence):
            names = [(sensor, variable) for sensor in self._sensors.all for variable in self._variables.all]
            self._named = names[: len(self.silence)]
        return self._named

    def _left_alone(self, now: int, maintenance: Maintenance) -> BoolArray:
        """Say which channels people do not want to hear of."""
        hidden = None
        if maintenance.notes:
            slot = np.array([now - self._grid.step])
            hidden = maintenance.hidden(self._sensors.all, self._variables.all, slot, self._grid.step)
        count = len(self.silence)
        return np.zeros(count, dtype=bool) if hidden is None else hidden.reshape(-1)[:count]


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
