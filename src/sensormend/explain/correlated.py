"""`correlated_sensors` finds the sensors whose readings go most with those of one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sensormend.readings import DAY, Flag, Rows
from sensormend.recovery import FloatArray

__all__ = ["ENOUGH", "CorrelatedSensor", "correlated_sensors"]

ENOUGH = 24
"""Good readings in common, at least, to call two sensors alike: a day of hours."""

ALIKE = 0.5
"""Correlation below which a sensor has nothing to say."""

MAD_TO_DEVIATION = 1.4826
"""From the median of absolute deviations to a standard deviation, for normal noise."""


@dataclass(frozen=True)
class CorrelatedSensor:
    """What another sensor says of a reading.

    Attributes
    ----------
    sensor
        Who.
    likeness
        Correlation of the two courses, each without its daily cycle.
    value
        What it read itself.
    expected
        What the reading should then have been: its own value plus the usual difference.
    spread
        How much that difference usually varies, a robust standard deviation.
    """

    sensor: str
    likeness: float
    value: float
    expected: float
    spread: float

    def contradicts(self, value: float) -> bool:
        """Say whether a reading is further off than three times what is usual."""
        return abs(value - self.expected) > 3 * self.spread


def correlated_sensors(past: Rows, then: Rows, sensor: str, most: int = 3) -> list[CorrelatedSensor]:
    """Return the sensors most like one, the best first, that had a good reading at the time in question.

    Parameters
    ----------
    past
        Rows of one variable of everybody, from the days that likeness is judged by.
    then
        Those of the time in question.
    sensor
        Whose reading it is about.
    most
        How many to return.
    """
    if sensor not in past.sensors:
        return []
    courses, slots = _courses(past)
    mine = courses[past.sensors.index(sensor)]
    likeness = _likeness(_without_cycle(courses, slots), past.sensors.index(sensor))
    good = (then.flag == Flag.GOOD) & np.isfinite(then.value)
    values = {then.sensors[code]: float(value) for code, value in zip(then.sensor[good], then.value[good], strict=True)}
    correlated: list[CorrelatedSensor] = []
    for other in np.argsort(-likeness, kind="stable"):
        name = past.sensors[other]
        if not likeness[other] > ALIKE or len(correlated) == most:
            break
        if name == sensor or name not in values:
            continue
        difference = mine - courses[other]
        difference = difference[np.isfinite(difference)]
        usual = float(np.median(difference))
        spread = MAD_TO_DEVIATION * float(np.median(np.abs(difference - usual)))
        correlated.append(CorrelatedSensor(name, float(likeness[other]), values[name], values[name] + usual, spread))
    return correlated


def _courses(rows: Rows) -> tuple[FloatArray, NDArray[np.intp]]:
    """Return the good readings as (sensor, time), NaN where there is none, and the time of day of each column."""
    times, column = np.unique(rows.time, return_inverse=True)
    courses = np.full((len(rows.sensors), times.size), np.nan)
    good = rows.flag == Flag.GOOD
    courses[rows.sensor[good], column[good]] = rows.value[good]
    return courses, np.unique(times % DAY, return_inverse=True)[1]


def _without_cycle(courses: FloatArray, slots: NDArray[np.intp]) -> FloatArray:
    """Take the mean course of the day off each sensor: at noon all are warm, related or not."""
    known = np.isfinite(courses)
    order = np.argsort(slots, kind="stable")
    edges = np.flatnonzero(np.diff(slots[order], prepend=-1))
    total, count = (
        np.add.reduceat(array[:, order], edges, axis=1)
        for array in (np.where(known, courses, 0.0), known.astype(float))
    )
    # A time of day with hardly any readings has no mean of its own; the sensor's own does for it.
    overall = total.sum(axis=1, keepdims=True) / np.maximum(count.sum(axis=1, keepdims=True), 1)
    usual = np.where(count >= 5, total / np.maximum(count, 1), overall)
    return courses - usual[:, slots]


def _likeness(courses: FloatArray, mine: int) -> FloatArray:
    """Return the correlation of one course with all others, over the times that both have; NaN where these are few."""
    both = np.isfinite(courses) & np.isfinite(courses[mine])
    count = both.sum(axis=1)
    own, others = np.where(both, courses[mine], 0.0), np.where(both, courses, 0.0)
    size = np.maximum(count, 1)[:, None]
    own = np.where(both, own - own.sum(axis=1, keepdims=True) / size, 0.0)
    others = np.where(both, others - others.sum(axis=1, keepdims=True) / size, 0.0)
    scale = np.sqrt((own**2).sum(axis=1) * (others**2).sum(axis=1))
    return np.where((count >= ENOUGH) & (scale > 0), (own * others).sum(axis=1) / np.where(scale > 0, scale, 1.0), -1.0)
