"""`Delivery` is what goes out to sinks: rows, how each sensor is, and alerts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sensormend.files import Closing
from sensormend.pipeline.health import Health
from sensormend.readings import Rows

__all__ = ["FLOOD", "STATES", "Alert", "Delivery", "Kind", "Sink", "SinkState"]

STATES = ("well", "faulty", "silent", "gone")
"""What a sensor can be, as alerts see it; that it is gone is told to nobody, since that it is silent was."""

FLOOD = "flood"
"""The state of an alert that is about no sensor: names that were never heard before come in a flood."""

Kind = Literal["final", "late", "provisional", "alert"]


@dataclass(frozen=True)
class Alert:
    """A sensor, or several at the same time, turned faulty, silent, or well again; or strangers flood the network.

    Attributes
    ----------
    sensor, sensors
        Who; of several the first one by name, and all of them. Empty for a flood.
    before, state
        What it was told to be before, and what it is; of `STATES`, or `FLOOD`.
    since
        From when on it is so: the start of the first of the periods that told, or the last reading of a silent one.
    at
        When that was found: the end of the period, or of the slot.
    sentence
        For a person.
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
    """One thing to deliver.

    Attributes
    ----------
    kind
        `final` for a period that is over, `late` for rows of an earlier one that were corrected, `provisional` for the
        slots that have ended of periods that are not over, `alert`.
    start, end
        The span that it is about; microseconds since 1970, UTC.
    rows
        None where there are none.
    health
        Of every sensor, where `kind` is `final` or `provisional`.
    alerts
        Where `kind` is `alert`.
    """

    kind: Kind
    start: int
    end: int
    rows: Rows | None = None
    health: Sequence[Health] = ()
    alerts: Sequence[Alert] = ()


class Sink(Closing):
    """Where results go: two methods, `write` and `close`.

    Attributes
    ----------
    kinds
        What it has a use for; it is not asked about the rest.
    """

    kinds: Sequence[Kind] = ("final", "late", "provisional", "alert")

    def write(self, delivery: Delivery) -> None:
        """Deliver it, or raise; it may be delivered again.

        Raises
        ------
        RefusedError
            Whoever is there will not take it, however often it is tried.
        Exception
            Any other: it is tried again later.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Let go of everything."""


@dataclass(frozen=True)
class SinkState:
    """How it stands with a sink.

    Attributes
    ----------
    up
        Whether the last try went well, this one does not last too long, and there will be more; True before the first.
    busy
        Seconds since which it is at one delivery: a sink that hangs.
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
