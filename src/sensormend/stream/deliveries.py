"""`Delivery` holds what is sent to sinks: rows, the health of each sensor, and alerts."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sensormend.files import Closing
from sensormend.pipeline.health import Health
from sensormend.readings import Rows

__all__ = [
    "DAMAGE",
    "DIGEST",
    "FLOOD",
    "Alert",
    "AlertedChannel",
    "Delivery",
    "Kind",
    "Sink",
    "SinkState",
    "identified",
]

FLOOD = "flood"
"""The state of an alert about a flood of unknown sensor names; it concerns no known sensor."""

DAMAGE = "damage"
"""The state of an alert about an output folder in which something is missing or damaged; it concerns no sensor."""

DIGEST = "digest"
"""The state of the daily message that sums up what is open, new and over."""

Kind = Literal["final", "late", "provisional", "alert"]


@dataclass(frozen=True)
class AlertedChannel:
    """One channel of an alert.

    Attributes
    ----------
    reason, since
        The kind of its fault, empty for other states, and the start of its state.
    value, expected
        The newest wrong reading, and what it should have been; None if that is not known.
    """

    sensor: str
    variable: str
    reason: str
    since: int
    value: float | None = None
    expected: float | None = None


@dataclass(frozen=True)
class Alert:
    """One or several sensors turned faulty, silent or healthy again; or a flood of unknown sensors, or a digest.

    Attributes
    ----------
    sensor, variable
        The first sensor by name, empty for a flood or a digest, and the variable, empty if there are several.
    before, state
        The state that was reported before, and the new one: `faulty`, `silent`, `healthy`, `FLOOD`, `DAMAGE` or
        `DIGEST`.
    since
        The start of the state: that of the first period with it, or the last reading of a silent sensor.
    at
        The time of the decision: the end of the period, or of the slot.
    sentence
        The alert in words.
    id
        The name of the incident, the same in all its alerts; empty until `identified` has set it.
    channels
        All channels of the alert.
    lines
        The further lines of a digest.
    """

    sensor: str
    variable: str
    before: str
    state: str
    reason: str
    since: int
    at: int
    sentence: str
    id: str = ""
    channels: tuple[AlertedChannel, ...] = ()
    lines: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # From a file they come as lists.
        channels = tuple(part if isinstance(part, AlertedChannel) else AlertedChannel(*part) for part in self.channels)
        if not channels and self.sensor:
            channels = (AlertedChannel(self.sensor, self.variable, self.reason, self.since),)
        object.__setattr__(self, "channels", channels)
        object.__setattr__(self, "lines", tuple(self.lines))

    @property
    def sensors(self) -> tuple[str, ...]:
        """All sensors of the alert."""
        return tuple(dict.fromkeys(channel.sensor for channel in self.channels))


def identified(alert: Alert) -> Alert:
    """Return the alert with an id if it has none; the same alert has the same id, also after a restart."""
    if alert.id:
        return alert
    parts = (alert.state, alert.sensor, alert.variable, alert.since, alert.at)
    text = "\0".join(map(str, parts)).encode("utf-8", "surrogatepass")
    return replace(alert, id=hashlib.sha256(text).hexdigest()[:16])


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
        None if there are none.
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
    backlog, lost
        Deliveries that wait, and that it will never get.
    """

    name: str
    up: bool
    backlog: int
    lost: int
