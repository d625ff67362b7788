"""`FaultInterval` and `SensorSummary` are the lines of faults.csv and sensors.csv."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["FaultInterval", "SensorSummary"]


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

    `state` is that of the channel at the end of the tables, one of `sensormend.pipeline.channel_states.STATES`.
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
