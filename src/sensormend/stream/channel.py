"""What is known of one channel, one variable of one sensor, for alerts."""

from __future__ import annotations

from dataclasses import dataclass, field

from sensormend.pipeline.mender import NEVER
from sensormend.stream.telling import Evidence

__all__ = ["Channel"]


@dataclass
class Channel:
    """What is known of one channel that is not simply well.

    An incident begins with an alert and ends when the channel is told to be well again. What it is may change within
    one; each state is told once.

    Attributes
    ----------
    faulty, reason, since
        Whether it is, why, and from when on it is or is not.
    provisional
        Whether it is faulty by a verdict on a period that is not over.
    told
        Periods in a row that spoke against what it is, and `first`, the start of the first of them.
    found
        What the faulty ones of them told; None where there is none.
    silent
        Since when it is silent; None while it is heard.
    gone
        Whether it has been silent for longer than any silence lasts.
    heard, seen, at
        In how many checks it was heard since, the newest reading at the last of them, and the first one heard.
    fell
        Since when it was silent before it was heard again at last.
    alerted
        The states that were told in the incident that is open; empty where none is.
    back, relapses
        When the last incident ended, and how many have begun, one soon after the other, since there was a quiet time.
    """

    since: int
    faulty: bool = False
    reason: str = ""
    provisional: bool = False
    told: int = 0
    first: int = 0
    found: Evidence | None = None
    silent: int | None = None
    gone: bool = False
    heard: int = 0
    seen: int = NEVER
    at: int = 0
    fell: int = 0
    alerted: list[str] = field(default_factory=list)
    back: int = NEVER
    relapses: int = 0

    @property
    def state(self) -> str:
        """What it is, of `STATES`; silence goes before all."""
        if self.silent is not None:
            return "gone" if self.gone else "silent"
        return "faulty" if self.faulty else "well"

    @property
    def state_told(self) -> str:
        """What it was last told to be."""
        return self.alerted[-1] if self.alerted else "well"
