"""`ThreadedSource` is the base of sources that ask a server for readings, in a thread of their own."""

from __future__ import annotations

import logging
import queue
import threading
from abc import abstractmethod

from sensormend.errors import one_line
from sensormend.readings import NOTHING
from sensormend.stream.arrivals import Arrived, Source, clock
from sensormend.stream.logs import ConditionLog

__all__ = ["PAUSES", "ThreadedSource"]

PAUSES = (0.5, 30.0)
"""Seconds between two attempts after an error: the first pause, and the longest, up to which it doubles."""

MOST_WAITING = 2
"""Batches that are fetched before the service has taken them; more would only fill the memory."""

CLOSE_WITHIN = 5.0
"""Seconds for the thread to end when the source is closed."""

_log = logging.getLogger("sensormend.stream")


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
        """End the thread; what was fetched and not acknowledged is fetched again after the next start."""
        self._closing.set()
        if self._thread.is_alive():
            self._interrupt()
            self._thread.join(CLOSE_WITHIN)
        elif self._thread.ident is None:
            self._disconnect()
