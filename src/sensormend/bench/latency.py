"""The latency bench asks a model after every slot, and counts the hours from a fault's first reading to an alarm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from sensormend.recovery import BoolArray, Recovery
from sensormend.simulate.faults import Degraded

__all__ = ["FIRST_DAY", "EstimatingModel", "LatencyScores", "alarms_by_slot", "delays", "latency_scores"]

FIRST_DAY = 30
"""The day from which a model is asked after every slot; until then it learns."""
SHORTEST = 6.0
"""Hours that a fault must last to be counted."""


class EstimatingModel(Protocol):
    """A model that can be asked about a period that is not over."""

    def update(self, minibatch: ArrayLike) -> Recovery:
        """Recover one period and learn from it."""
        ...

    def estimate(self, minibatch: ArrayLike) -> Recovery:
        """Recover one period and learn nothing."""
        ...


@dataclass(frozen=True)
class LatencyScores:
    """How soon faults of 6 h and more raise an alarm.

    Attributes
    ----------
    faults
        How many there are, from the first asked day on, with at least one reading.
    within_3, within_6, within_24
        The share that raised an alarm within so many hours of its first reading, which itself is hour 0.
    never
        The share that raised none before it ended.
    false_alarms
        The share of the sensor-slots outside faults that have an alarm.
    """

    faults: int
    within_3: float
    within_6: float
    within_24: float
    never: float
    false_alarms: float


def alarms_by_slot(model: EstimatingModel, case: Degraded, *, first: int = FIRST_DAY) -> BoolArray:
    """Return the sensors that have an alarm after each slot: (sensor, slot, day), False before day `first`.

    After every slot `estimate` is asked with the day so far, the later slots NaN. A sensor has an alarm where a fault
    of it is open, or where its newest reading of that day is judged wrong.
    """
    sensors, slots, days = case.readings.shape
    alarms = np.zeros((sensors, slots, days), dtype=bool)
    for day in range(days):
        readings = case.readings[..., day]
        if day >= first:
            observed = np.isfinite(readings)
            for slot in range(slots):
                so_far = np.where(np.arange(slots) <= slot, readings, np.nan)
                alarms[:, slot, day] = _alarms(model.estimate(so_far), observed[:, : slot + 1])
        model.update(readings)
    return alarms


def _alarms(recovery: Recovery, observed: BoolArray) -> BoolArray:
    """Return which sensors have an alarm in the recovery of a day so far; `observed` is (sensor, slot so far)."""
    sensors, slots = observed.shape
    newest = slots - 1 - np.argmax(observed[:, ::-1], axis=1)
    alarms: BoolArray = observed.any(axis=1) & recovery.wrong[np.arange(sensors), newest]
    alarms[[int(fault.sensor) for fault in recovery.faults if fault.end is None]] = True
    return alarms


def delays(alarms: BoolArray, case: Degraded, *, first: int = FIRST_DAY) -> list[float]:
    """Return the hours from the first reading of each fault to its first alarm, infinite where it raised none.

    Faults count that begin on day `first` or later, last 6 h or more, and have a reading. An alarm after the end of a
    fault is a false one.
    """
    sensors, slots, days = case.readings.shape
    observed, raised = (
        np.moveaxis(cells, 1, 2).reshape(sensors, days * slots) for cells in (np.isfinite(case.readings), alarms)
    )
    hours = 24 / slots
    counted = []
    for fault in case.faults:
        here = np.flatnonzero(observed[fault.sensor, fault.start : fault.stop])
        if fault.start < first * slots or hours * fault.length < SHORTEST or not here.size:
            continue
        alarm = np.flatnonzero(raised[fault.sensor, fault.start + here[0] : fault.stop])
        counted.append(hours * float(alarm[0]) if alarm.size else float("inf"))
    return counted


def latency_scores(
    alarms: BoolArray, case: Degraded, *, first: int = FIRST_DAY, unscored: Sequence[int] = ()
) -> LatencyScores:
    """Score the alarms of `alarms_by_slot`, without the sensors `unscored`."""
    rows = np.setdiff1d(np.arange(alarms.shape[0]), unscored)
    alarms, case = alarms[rows], case.of_sensors(rows)
    hours = np.array(delays(alarms, case, first=first))
    sound = ~case.wrong[..., first:]

    def share(of: BoolArray) -> float:
        return float(of.mean()) if of.size else float("nan")

    return LatencyScores(
        faults=hours.size,
        within_3=share(hours <= 3),
        within_6=share(hours <= 6),
        within_24=share(hours <= 24),
        never=share(np.isinf(hours)),
        false_alarms=share(alarms[..., first:][sound]),
    )
