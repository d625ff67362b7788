"""What follows from what arrived."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sensormend.pipeline.mender import Mended
from sensormend.readings import Readings
from sensormend.stream.arrivals import Rejected
from sensormend.stream.deliveries import Alert

__all__ = ["Event", "Failed", "Final", "Late", "Refused", "Told"]


@dataclass(frozen=True, eq=False)
class Final:
    """A period is over: its rows, and the readings that made them."""

    mended: Mended
    readings: Readings


@dataclass(frozen=True, eq=False)
class Late:
    """Readings of one period that came after it was over."""

    period: int
    readings: Readings


@dataclass(frozen=True, eq=False)
class Told:
    """Sensors turned faulty, silent, or well again."""

    alerts: Sequence[Alert]


@dataclass(frozen=True, eq=False)
class Refused:
    """What came and cannot be used."""

    rejected: Sequence[Rejected]


@dataclass(frozen=True)
class Failed:
    """Something that cannot be done with what came; it is said once, and the rest goes on.

    Attributes
    ----------
    error, about
        What is the matter, and what it is about this time.
    """

    error: str
    about: Mapping[str, object] = field(default_factory=dict)


Event = Final | Late | Told | Refused | Failed
