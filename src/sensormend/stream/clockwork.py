"""What time it is in the network."""

from __future__ import annotations

import time

from sensormend.pipeline.mender import NEVER
from sensormend.readings import SECOND
from sensormend.stream.arrivals import Source

__all__ = ["Clockwork"]


class Clockwork:
    """The time of the readings, and from there on that of the clock, for as long as we are in touch with who sends.

    While we are not, or were not even running, readings wait somewhere: time stands still until they have come, and
    nothing is closed over them. Only how long it takes is asked of this machine's clock, never what time it is.
    """

    def __init__(self) -> None:
        self._from, self._at = NEVER, time.monotonic()
        self._in_touch = False

    def moved(self, reached: int) -> None:
        """Note how far readings have come."""
        self._from, self._at = reached, time.monotonic()

    def look(self, source: Source, reached: int) -> None:
        """Note whether we are in touch; what waited meanwhile gets its time to come."""
        if source.connected and not self._in_touch:
            self.moved(reached)
        self._in_touch = source.connected

    def now(self, source: Source, reached: int) -> int:
        """Return what time it is."""
        if self._from == NEVER or not (source.live and source.connected):
            return reached
        return max(reached, self._from + self.waited)

    @property
    def waited(self) -> int:
        """How long no reading has let the time go on, in microseconds."""
        return round((time.monotonic() - self._at) * SECOND)
