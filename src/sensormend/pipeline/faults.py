"""`FaultInterval` and `SensorSummary` are the lines of faults.csv and sensors.csv; `FaultSums` adds up a fault."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

__all__ = ["FaultInterval", "FaultSums", "SensorSummary"]


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


@dataclass(kw_only=True)
class FaultSums(ABC):
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

    @property
    @abstractmethod
    def reason(self) -> str:
        """The kind of the fault."""

    @property
    @abstractmethod
    def size(self) -> float:
        """The model's size of the fault; NaN where it is not known."""

    @property
    @abstractmethod
    def rate(self) -> float:
        """The growth of the size in a period."""

    def add_sums(self, later: FaultSums) -> None:
        """Add the sums of later readings."""
        self.count, self.value = self.count + later.count, self.value + later.value
        self.distance, self.square = self.distance + later.distance, self.square + later.square
        self.farthest = max(self.farthest, later.farthest, key=abs)
        self.first_value = later.first_value if math.isnan(self.first_value) else self.first_value
        self.last_value = self.last_value if math.isnan(later.last_value) else later.last_value
