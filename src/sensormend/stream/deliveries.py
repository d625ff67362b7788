"""`Delivery` holds what is sent to sinks: rows, the health of each sensor, and alerts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sensormend.files import Closing
from sensormend.pipeline.health import Health
from sensormend.readings import Rows

__all__ = ["FLOOD", "Alert", "Delivery", "Kind", "Sink", "SinkState"]

FLOOD = "flood"
"""The state of an alert about a flood of unknown sensor names; it concerns no known sensor."""

Kind = Literal["final", "late", "provisional", "alert"]


@dataclass(frozen=True)
class Alert:
    """One or several sensors turned faulty, silent or healthy again, or a flood of unknown sensors began.

    Attributes
    ----------
    sensor, sensors
        The first sensor by name, and all of them. Empty for a flood.
    before, state
        The state that was reported before, and the new one: `faulty`, `silent`, `healthy`, or `FLOOD`.
    since
        The start of the state: that of the first period with it, or the last reading of a silent sensor.
    at
        The time of the decision: the end of the period, or of the slot.
    sentence
        The alert in words.
    """

    sensor: str
    variable: str
    before: str
    state: str
    reason: str
    since: int
    at: int
    sentence: str
    sensors: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "sensors", tuple(self.sensors) or (self.sensor,))


@dataclass(frozen=True, eq=False)
class Delivery:
    """One delivery to sinks.

    Attributes
    ----------
    kind
        `final` for a period that is over, `late` for corrected rows of an earlier period, `provisional` for the ended
        slots of open periods, `alert` for alerts.
    start, end
        Its time span; microseconds since 1970, UTC.
    rows
        None where there are none.
    health
        The health of every sensor, where `kind` is `final` or `provisional`.
    alerts
        The alerts, where `kind` is `alert`.
    """

    kind: Kind
    start: int
    end: int
    rows: Rows | None = None
    health: Sequence[Health] = ()
    alerts: Sequence[Alert] = ()


class Sink(Closing):
    """The base class of sinks, with two methods: `write` and `close`.

    Attributes
    ----------
    kinds
        The kinds of deliveries that it gets.
    """

    kinds: Sequence[Kind] = ("final", "late", "provisional", "alert")

    def write(self, delivery: Delivery) -> None:
        """Deliver it, or raise; it may be delivered again.

        Raises
        ------
        RefusedError
            The receiver refuses this delivery permanently.
        Exception
            Any other error; the delivery is retried later.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Release all resources."""


@dataclass(frozen=True)
class SinkState:
    """The state of a sink.

    Attributes
    ----------
    up
        Whether the last attempt succeeded, the current one is not hanging and the worker runs; True before the first.
    busy
        Seconds since the start of the delivery in progress; 0 if there is none.
    backlog, delivered, lost
        Deliveries that wait, that it took since this process began, and that it will never get.
    error
        Why it is down; empty otherwise.
    """

    name: str
    up: bool
    busy: float
    backlog: int
    delivered: int
    lost: int
    error: str
