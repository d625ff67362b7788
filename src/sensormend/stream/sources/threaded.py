"""`ThreadedSource` is the base of sources that ask a server for readings, in a thread of their own."""

from __future__ import annotations

import logging
import queue
import threading
import time
from abc import abstractmethod

from sensormend.errors import one_line
from sensormend.readings import NOTHING, SECOND
from sensormend.stream.arrivals import Arrived, Source, clock
from sensormend.stream.logs import ConditionLog

__all__ = ["PAUSES", "Lookback", "ThreadedSource"]

PAUSES = (0.5, 30.0)
"""Seconds between two attempts after an error: the first pause, and the longest, up to which it is doubled."""

MOST_WAITING = 2
"""The number of batches that are fetched in advance; more would only fill the memory."""

LOOKBACKS = 20
"""The number of times that the lookback is read again during a time of its length: with ten minutes, a late row waits
for half a minute."""

MOST_SEEN = 1_000_000
"""The maximum number of entries of the lookback that are remembered, 100 bytes each; beyond that they are sent again,
but counted once."""

CLOSE_WITHIN = 5.0
"""Seconds for the thread to end when the source is closed."""

_log = logging.getLogger("sensormend.stream")


class Lookback:
    """Tells new entries from those that were seen, where the last part of a list is read again and again.

    What is read in order of time lacks what comes late, or with a time that was there. A walk through the list begins
    with `begin` and ends with `end`.

    Parameters
    ----------
    length
        The length of the last part, in microseconds.

    Attributes
    ----------
    active
        Whether this walk begins the whole length back, rather than after the last entry.
    """

    def __init__(self, length: int) -> None:
        self.length, self.active = length, False
        self._next = 0.0
        self._seen: set[int] = set()
        self._walk: set[int] = set()

    def begin(self) -> None:
        """Begin a walk."""
        self.active, self._walk = time.monotonic() >= self._next, set()

    def is_new(self, *entry: object) -> bool:
        """Return whether an entry of this walk was not seen before."""
        key = hash(entry)
        if len(self._walk) < MOST_SEEN:
            self._walk.add(key)
        return key not in self._seen

    def end(self) -> None:
        """End a walk that has reached the end of the list."""
        if self.active:
            self._seen = self._walk
            self._next = time.monotonic() + max(self.length / SECOND / LOOKBACKS, 1.0)
        elif len(self._seen) < MOST_SEEN:
            self._seen |= self._walk

    def restart(self) -> None:
        """Let the next walk begin the whole length back: the last one may have been incomplete."""
        self._next = 0.0


class ThreadedSource(Source):
    """Fetches batches in a thread, since a slow or absent server must not stop the service.

    A subclass has `_fetch` and `_disconnect`, which run in the thread, and calls `_begin` when it is ready. After any
    error it disconnects, waits, and fetches again from where the last batch ended.
    """

    def __init__(self, shown: str) -> None:
        self._batches: queue.Queue[Arrived] = queue.Queue(MOST_WAITING)
        self._closing = threading.Event()
        self._outage = ConditionLog(_log, f"no connection to {shown}", f"connected to {shown} again")
        self._thread = threading.Thread(target=self._run, name="sensormend-source", daemon=True)

    @abstractmethod
    def _fetch(self) -> Arrived | None:
        """Connect where that is needed, and return a batch; None if there is nothing after a short wait."""

    @abstractmethod
    def _disconnect(self) -> None:
        """Close the connection, if there is one."""

    def _interrupt(self) -> None:
        """End a wait of `_fetch`, from another thread; by default it waits for a moment only."""

    def _begin(self) -> None:
        self._thread.start()

    def read(self, wait: float) -> Arrived:
        """Return the new inputs; see `Source.read`."""
        try:
            return self._batches.get(timeout=wait) if wait > 0 else self._batches.get_nowait()
        except queue.Empty:
            return Arrived(NOTHING, clock())

    def _run(self) -> None:
        pause = PAUSES[0]
        while not self._closing.is_set():
            try:
                arrived = self._fetch()
            except Exception as error:  # whatever it is, it is tried again
                self._disconnect()
                if self._closing.is_set():
                    break
                self.connected = False
                self._outage.begin(error=one_line(error))
                self._closing.wait(pause)
                pause = min(2 * pause, PAUSES[1])
                continue
            self.connected, pause = True, PAUSES[0]
            self._outage.end()
            while arrived is not None and not self._closing.is_set():
                try:
                    self._batches.put(arrived, timeout=0.25)
                except queue.Full:
                    continue
                arrived = None
        self._disconnect()

    def close(self) -> None:
        """End the thread; batches that were not acknowledged are fetched again after the next start."""
        self._closing.set()
        if self._thread.is_alive():
            self._interrupt()
            self._thread.join(CLOSE_WITHIN)
        elif self._thread.ident is None:
            self._disconnect()
