"""What follows from what arrived."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sensormend.live.arrivals import Rejected
from sensormend.live.deliveries import Alert
from sensormend.mending import Mended
from sensormend.readings import Readings

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
    """Something that cannot be done with what came; it is said, and the rest goes on."""

    error: str


Event = Final | Late | Told | Refused | Failed
