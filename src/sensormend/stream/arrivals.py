"""What a source brings: readings, what it had to refuse, and where it would go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sensormend.files import Closing
from sensormend.pipeline.maintenance import Maintenance
from sensormend.pipeline.places import Position
from sensormend.readings import SECOND, Readings

__all__ = ["Arrived", "End", "Input", "MaintenanceChanged", "Rejected", "Source", "Tick", "clock"]


def clock() -> int:
    """Return the time, microseconds since 1970, UTC."""
    return time.time_ns() * SECOND // 1_000_000_000


@dataclass(frozen=True)
class Rejected:
    """Something that came and is no reading.

    Attributes
    ----------
    where
        A topic, a file and its row, a line of standard input.
    reason
        One of a few fixed phrases: they are counted by it.
    text
        What came, cut short.
    """

    where: str
    reason: str
    text: str = ""


@dataclass(frozen=True, eq=False)
class Arrived:
    """What came since the source was last asked.

    Attributes
    ----------
    readings
        In the order in which they came. `sensors` is the same object as the last time while there is no new name.
    received
        When, by this machine's clock.
    rejected
        What came and is no reading.
    positions
        Where sensors say they are, for those that say so for the first time or have moved.
    mark
        Where a source that can be read again would go on after this, as JSON has it; None for one that cannot.
    acknowledge
        To be called when all of it is on disk: the sender may forget it.
    """

    readings: Readings
    received: int
    rejected: Sequence[Rejected] = ()
    positions: Sequence[Position] = ()
    mark: Any = None
    acknowledge: Callable[[], None] = lambda: None

    @property
    def empty(self) -> bool:
        """Whether nothing came at all."""
        return not (self.readings.time.size or self.rejected or self.positions or self.mark is not None)


@dataclass(frozen=True)
class Tick:
    """Event time went on to `time` without a reading."""

    time: int


@dataclass(frozen=True)
class End:
    """The source has ended."""


@dataclass(frozen=True)
class MaintenanceChanged:
    """People changed their notes on maintenance."""

    maintenance: Maintenance


Input = Arrived | Tick | End | MaintenanceChanged


class Source(Closing):
    """Where readings come from: two methods, `read` and `close`.

    Attributes
    ----------
    live
        Its readings follow the clock: periods in which nobody says a word are closed by it. False for a replay.
    connected
        Whether it is in touch with whoever sends.
    """

    live = True
    connected = True

    def read(self, wait: float) -> Arrived | None:
        """Return what has come, after at most `wait` seconds, an empty `Arrived` where nothing has; None at the end."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of everything; what was not acknowledged stays with the sender."""
