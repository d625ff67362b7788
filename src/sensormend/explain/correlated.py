"""`correlated_sensors` finds the sensors whose readings are most correlated with those of one sensor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sensormend.readings import DAY, Flag, Rows
from sensormend.recovery import FloatArray

__all__ = ["ENOUGH", "CorrelatedSensor", "correlated_sensors"]

ENOUGH = 24
"""The minimum number of common good readings for a correlation: a day of hours."""

ALIKE = 0.5
"""Correlation below which a sensor is not used."""

MAD_TO_DEVIATION = 1.4826
"""Factor from the median absolute deviation to the standard deviation of normal noise."""


@dataclass(frozen=True)
class CorrelatedSensor:
    """A correlated sensor and what it predicts for a reading.

    Attributes
    ----------
    sensor
        Its name.
    likeness
        Correlation of the two series, each without its daily cycle.
    value
        Its own reading.
    expected
        The predicted reading: its own value plus the usual difference.
    spread
        Robust standard deviation of that difference.
    """

    sensor: str
    likeness: float
    value: float
    expected: float
    spread: float

    def contradicts(self, value: float) -> bool:
        """Return whether a reading differs from the prediction by more than three standard deviations."""
        return abs(value - self.expected) > 3 * self.spread


def correlated_sensors(past: Rows, present: Rows, sensor: str, most: int = 3) -> list[CorrelatedSensor]:
    """Return the sensors most correlated with one, the best first, that have a good reading at the time in question.

    Correlations are computed over `past`, rows of one variable of all sensors; `present` are rows of the time in
    question.
    """
    if sensor not in past.sensors:
        return []
    courses, slots = _courses(past)
    row = past.sensors.index(sensor)
    likeness = _likeness(_without_cycle(courses, slots), row)
    good = present.taken((present.flag == Flag.GOOD) & np.isfinite(present.value))
    values = {present.sensors[code]: float(value) for code, value in zip(good.sensor, good.value, strict=True)}
    correlated: list[CorrelatedSensor] = []
    for candidate in np.argsort(-likeness, kind="stable"):
        name = past.sensors[candidate]
        if not likeness[candidate] > ALIKE or len(correlated) == most:
            break
        if name == sensor or name not in values:
            continue
        difference = courses[row] - courses[candidate]
        difference = difference[np.isfinite(difference)]
        usual = float(np.median(difference))
        spread = MAD_TO_DEVIATION * float(np.median(np.abs(difference - usual)))
        correlated.append(
            CorrelatedSensor(name, float(likeness[candidate]), values[name], values[name] + usual, spread)
        )
    return correlated


def _courses(rows: Rows) -> tuple[FloatArray, NDArray[np.intp]]:
    """Return the good readings as (sensor, time), NaN where there is none, and the time of day of each column."""
    times, column = np.unique(rows.time, return_inverse=True)
    courses = np.full((len(rows.sensors), times.size), np.nan)
    good = rows.flag == Flag.GOOD
    courses[rows.sensor[good], column[good]] = rows.value[good]
    return courses, np.unique(times % DAY, return_inverse=True)[1]


def _without_cycle(courses: FloatArray, slots: NDArray[np.intp]) -> FloatArray:
    """Subtract the mean daily cycle of each sensor: at noon all are warm, related or not."""
    observed = np.isfinite(courses)
    order = np.argsort(slots, kind="stable")
    edges = np.flatnonzero(np.diff(slots[order], prepend=-1))
    total, count = (
        np.add.reduceat(array[:, order], edges, axis=1)
        for array in (np.where(observed, courses, 0.0), observed.astype(float))
    )
    # A time of day with few readings has no reliable mean; the mean of the sensor is used.
    overall = total.sum(axis=1, keepdims=True) / np.maximum(count.sum(axis=1, keepdims=True), 1)
    usual = np.where(count >= 5, total / np.maximum(count, 1), overall)
    return courses - usual[:, slots]


def _likeness(courses: FloatArray, row: int) -> FloatArray:
    """Return the correlation of the series in a row with all others over common times; -1 where these are few."""
    common = np.isfinite(courses) & np.isfinite(courses[row])
    count = common.sum(axis=1)
    size = np.maximum(count, 1)[:, None]

    def centred(values: FloatArray) -> FloatArray:
        values = np.where(common, values, 0.0)
        return np.where(common, values - values.sum(axis=1, keepdims=True) / size, 0.0)

    own, all_centred = centred(courses[row]), centred(courses)
    scale = np.sqrt((own**2).sum(axis=1) * (all_centred**2).sum(axis=1))
    covariance = (own * all_centred).sum(axis=1)
    return np.where((count >= ENOUGH) & (scale > 0), covariance / np.where(scale > 0, scale, 1.0), -1.0)
