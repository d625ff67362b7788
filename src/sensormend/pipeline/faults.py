"""`FaultInterval` and `SensorSummary` are the lines of faults.csv and sensors.csv; `ReadingSums` adds up a fault.

`with_incidents` assigns faults to incidents.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from sensormend.pipeline.bounds import clipped
from sensormend.pipeline.circular import distances
from sensormend.readings import DAY, HOUR
from sensormend.recovery import BoolArray, FloatArray
from sensormend.tensor import LARGEST

__all__ = [
    "MAX_SLOTS_APART",
    "FaultInterval",
    "IncidentEnds",
    "ReadingSums",
    "SensorSummary",
    "distances_from",
    "with_incidents",
]

SHORT, APART = 12 * HOUR, 2 * DAY
"""The longest duration of a short fault, and the time between two short faults of a channel below which they are one
incident: something comes and goes, such as a loose contact, and is repaired once."""

MAX_SLOTS_APART = 2
"""The maximum number of slots between the starts of two faults, or silences, that are one incident of a device or of
several sensors."""

IncidentEnds = dict[tuple[str, str], tuple[int, int]]
"""By sensor and variable: the end of the last short fault, and its incident."""


@dataclass(frozen=True)
class FaultInterval:
    """A line of faults.csv: a fault with its names and times as users read it, and a sentence that describes it.

    Attributes
    ----------
    start, end
        From the start of its first wrong slot to the end of its last, microseconds UTC; while it is open, to the end
        of the last reading of its channel, and a silence to that of all.
    score
        The highest score of its periods; 1 is at the threshold.
    size, rate, confidence
        As in the model's `Fault`; NaN for a fault that is not an episode of the model.
    incident
        The start of the first fault of its incident, which is what a person repairs: a fault by itself, or a run of
        short ones. With sensor and variable it names the incident. None if that is not known yet.
    open
        Whether it lasts until the end of the tables; None in a table of an earlier version. A single wrong reading
        does not.
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
    incident: int | None = None
    open: bool | None = None

    @property
    def doubtful(self) -> bool:
        """Whether its confidence is low enough that there may be no fault."""
        return self.confidence <= 0.5


def with_incidents(faults: Iterable[FaultInterval], ends: IncidentEnds | None = None) -> list[FaultInterval]:
    """Return faults, which are in order of their starts, with their incidents.

    A later fault never changes the incident of an earlier one, so that lines of faults.csv stay as they were written.
    `ends` has the last short faults before these, and is kept up to date.

    Examples
    --------
    >>> def fault(start, hours, reason="noise"):
    ...     return FaultInterval("a", "", start * HOUR, (start + hours) * HOUR, reason, 1.0, "")
    >>> run = [fault(5, 2), fault(20, 1, "spike"), fault(70, 13), fault(67, 1), fault(300, 1)]
    >>> [fault.incident // HOUR for fault in with_incidents(run)]
    [5, 5, 70, 5, 300]
    """
    ends = {} if ends is None else ends
    numbered = []
    for fault in faults:
        incident = fault.start
        if fault.reason not in ("silent", "fill") and fault.end - fault.start <= SHORT:
            name = (fault.sensor, fault.variable)
            before = ends.get(name)
            if before is not None and fault.start - before[0] < APART:
                incident = before[1]
            ends[name] = (fault.end, incident)
        numbered.append(replace(fault, incident=incident))
    return numbered


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


def distances_from(value: FloatArray, estimate: FloatArray, circular: BoolArray | bool = False) -> FloatArray:
    """Return how far readings are from their estimates; 0 where one of the two is not known."""
    known = np.isfinite(value) & np.isfinite(estimate)
    return clipped(np.where(known, distances(value, estimate, circular), 0.0), -LARGEST, LARGEST)
