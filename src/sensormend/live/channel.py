"""What is known of one channel, one variable of one sensor, for alerts."""

from __future__ import annotations

from dataclasses import dataclass

from sensormend.live.telling import Evidence
from sensormend.mending import NEVER

__all__ = ["Channel"]


@dataclass
class Channel:
    """What is known of one channel that is not simply well.

    Attributes
    ----------
    faulty, reason, since
        Whether it is, why, and from when on it is or is not.
    told
        Periods in a row that spoke against what it is, and `first`, the start of the first of them.
    found
        What the faulty ones of them told; None where there is none.
    silent
        Since when it is silent; None while it is heard.
    heard, seen, at
        In how many checks it was heard since, the newest reading at the last of them, and the first one heard.
    back, relapses
        When it came back at last, and how often it soon fell silent again.
    """

    since: int
    faulty: bool = False
    reason: str = ""
    told: int = 0
    first: int = 0
    found: Evidence | None = None
    silent: int | None = None
    heard: int = 0
    seen: int = NEVER
    at: int = 0
    back: int = NEVER
    relapses: int = 0

    @property
    def state(self) -> str:
        """What it is, of `STATES`; silence goes before all."""
        return "silent" if self.silent is not None else "faulty" if self.faulty else "well"
