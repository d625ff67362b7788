"""`StagedFaults` puts the three faults of every demo into a network: a drift, an accepted level, and a jump."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from sensormend.simulate.degrade import InjectedFault
from sensormend.simulate.network import Day, name_sensors

__all__ = ["StagedFaults"]

DRIFTS_FROM, SHIFTED_FROM, ACCEPTED_FROM = 40, 50, 72
"""The days from which a sensor drifts, another is shifted, and the new level of that is accepted."""

DRIFT, SHIFT, JUMP = 0.25, 4.0, 12.0
"""The drift per day, the shift and the jump, in quarters of the standard deviation of a day's readings."""

JUMPS_AT = 8
"""The hour of the jump on the first day that is replayed hour by hour."""

LEAST_SENSORS = 10
"""The least number of sensors of a network with staged faults."""


@dataclass(eq=False)
class StagedFaults:
    """Puts the three faults into the days of a simulated network, in place of other faults of these sensors.

    Attributes
    ----------
    sensors
        The number of sensors; the last three have the faults.
    live_from
        The first day that is replayed hour by hour.
    """

    sensors: int
    live_from: int
    _unit: float = 0.0
    _spread: list[float] = field(default_factory=list)

    @property
    def drifting(self) -> str:
        """The sensor that drifts."""
        return name_sensors(self.sensors)[-1]

    @property
    def accepted(self) -> str:
        """The sensor that is shifted, and whose new level is accepted."""
        return name_sensors(self.sensors)[-2]

    @property
    def jumping(self) -> str:
        """The sensor that jumps on the first live day."""
        return name_sensors(self.sensors)[-3]

    def __call__(self, number: int, day: Day) -> Day:
        """Return a day with its part of the faults."""
        if self.sensors < LEAST_SENSORS:
            return day
        if number < DRIFTS_FROM:
            self._spread.append(float(np.nanstd(day.truth)))
            self._unit = float(np.mean(self._spread)) / 4
            return day
        slots = day.truth.shape[1]
        hours = np.arange(slots) * 24 / slots
        drift = DRIFT * (number - DRIFTS_FROM + hours / 24)
        day = self._with(day, self.sensors - 1, "drift", drift, starts=number == DRIFTS_FROM, number=number)
        if number >= SHIFTED_FROM:
            day = self._with(day, self.sensors - 2, "offset", np.full(slots, SHIFT), starts=number == SHIFTED_FROM,
                             number=number, right=number >= ACCEPTED_FROM)  # fmt: skip
        if number >= self.live_from:
            jump = np.where((number > self.live_from) | (hours >= JUMPS_AT), JUMP, 0.0)
            day = self._with(day, self.sensors - 3, "offset", jump, starts=number == self.live_from, number=number)
        return day

    def _with(
        self, day: Day, sensor: int, kind: str, shift: np.ndarray[tuple[int, ...], np.dtype[np.float64]], *,
        starts: bool, number: int, right: bool = False,
    ) -> Day:  # fmt: skip
        """Return a day with a shift added to one sensor's truth; where it is `right`, it becomes the new truth."""
        readings, truth, wrong = day.readings.copy(), day.truth.copy(), day.wrong.copy()
        spikes, kinds = day.spikes.copy(), day.kind.copy()
        moved = truth[sensor] + shift * self._unit
        readings[sensor] = np.where(np.isfinite(readings[sensor]), moved, np.nan)
        if right:
            truth[sensor] = moved
        wrong[sensor], spikes[sensor] = (shift != 0) & (not right), False
        kinds[sensor] = kind if wrong[sensor].any() else ""
        started = tuple(fault for fault in day.started if fault.sensor != sensor)
        if starts:
            slots = truth.shape[1]
            first = number * slots + int(np.flatnonzero(shift)[0])
            last = ACCEPTED_FROM * slots if sensor == self.sensors - 2 else np.iinfo(np.int32).max
            started += (InjectedFault(sensor, kind, first, int(last)),)
        return replace(day, readings=readings, truth=truth, wrong=wrong, spikes=spikes, kind=kinds, started=started)
