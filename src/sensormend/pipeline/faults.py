"""`FaultInterval` and `SensorSummary` are the lines of faults.csv and sensors.csv; `ReadingSums` adds up a fault."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sensormend.pipeline.bounds import clipped
from sensormend.pipeline.circular import distances
from sensormend.recovery import FloatArray
from sensormend.tensor import LARGEST

__all__ = ["FaultInterval", "ReadingSums", "SensorSummary", "distances_from"]


@dataclass(frozen=True)
class FaultInterval:
    """A line of faults.csv: a fault with its names and times as users read it, and a sentence that describes it.

    Attributes
    ----------
    start, end
        From the start of its first wrong slot to the end of its last, microseconds UTC; while it is open, to the end
        of the data.
    score
        The highest score of its periods; 1 is at the threshold.
    size, rate, confidence
        As in the model's `Fault`; NaN for what is no episode of the model.
    """

    sensor: str
    variable: str
    start: int
    end: int
    reason: str
    score: float
    sentence: str
    size: float = math.nan
    rate: float = math.nan
    confidence: float = math.nan

    @property
    def doubtful(self) -> bool:
        """Whether its confidence is low enough that it may be no fault."""
        return self.confidence <= 0.5


@dataclass(frozen=True)
class SensorSummary:
    """A line of sensors.csv; unknown values are NaN, and None for a sensor without readings.

    `state` is that of the channel at the end of the tables, one of `sensormend.pipeline.health.STATES`.
    """

    sensor: str
    variable: str
    readings: int
    share_missing: float
    share_faulty: float
    usual_error: float
    latitude: float
    longitude: float
    first: int | None
    last: int | None
    last_value: float = math.nan
    state: str = "learning"


@dataclass
class ReadingSums:
    """Sums over the readings of a fault, which are added up period by period.

    Attributes
    ----------
    count, value, distance, square, farthest
        The number of its readings, their sum, the sum of their distances from the estimates, of the squares of these,
        and the largest distance.
    first_value, last_value
        The first and the last of them; NaN where there is none.
    """

    count: int = 0
    value: float = 0.0
    distance: float = 0.0
    square: float = 0.0
    farthest: float = 0.0
    first_value: float = math.nan
    last_value: float = math.nan

    @classmethod
    def of(cls, value: FloatArray, distance: FloatArray) -> ReadingSums:
        """Return the sums of readings, NaN where there is none, with their distances from the estimates."""
        value = value[np.isfinite(value)]
        return cls(
            count=value.size,
            # The squares of larger ones are infinite.
            value=float(clipped(value, -LARGEST, LARGEST).sum()),
            distance=float(distance.sum()),
            square=float((distance**2).sum()),
            farthest=float(distance[np.abs(distance).argmax()]),
            first_value=float(value[0]) if value.size else math.nan,
            last_value=float(value[-1]) if value.size else math.nan,
        )

    def add(self, later: ReadingSums) -> None:
        """Add the sums of later readings."""
        self.count, self.value = self.count + later.count, self.value + later.value
        self.distance, self.square = self.distance + later.distance, self.square + later.square
        self.farthest = max(self.farthest, later.farthest, key=abs)
        self.first_value = later.first_value if math.isnan(self.first_value) else self.first_value
        self.last_value = self.last_value if math.isnan(later.last_value) else later.last_value


def distances_from(value: FloatArray, estimate: FloatArray, circular: bool = False) -> FloatArray:
    """Return how far readings are from their estimates; 0 where one of the two is not known."""
    known = np.isfinite(value) & np.isfinite(estimate)
    return clipped(np.where(known, distances(value, estimate, np.asarray(circular)), 0.0), -LARGEST, LARGEST)
