"""`DeliveryWorker` takes deliveries from the store to one sink."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from sensormend.errors import RefusedError, one_line
from sensormend.stream.deliveries import Delivery, Sink, SinkState
from sensormend.stream.store import Store

__all__ = ["PAUSES", "DeliveryWorker", "stop_all"]

PAUSES = (0.5, 30.0)
"""Seconds between two attempts: the first pause, and the longest, up to which it is doubled. A broker that restarts is
back within a second or two; one that is down for a day need not be tried more than twice a minute."""

HANGING = 60.0
"""Seconds for one delivery after which a sink counts as down. The timeouts of all sinks are shorter, except for a large
delivery to a slow server."""

REFUSALS = 6
"""The number of times that a delivery is refused, over at least a quarter of a minute, before a later one is tried."""

_log = logging.getLogger("sensormend.stream")


class DeliveryWorker:
    """Takes deliveries from the store to one sink, in order, each at least once.

    A failure of the sink is logged once, and the delivery is retried after pauses that grow; when the sink has taken
    what had waited, that is logged too. A delivery that the sink refuses (`RefusedError`) is retried like any other. It
    is given up, counted as lost and logged only when the sink takes a later one. While all are refused, nothing is
    given up. The service never waits for a worker.

    Parameters
    ----------
    name
        Its name in the store, which is logged and so has no secrets.
    sink
        Used in one thread only, which closes it at the end.
    store
        What it takes them from.
    pauses
        The first pause and the longest, in seconds.
    """

    def __init__(self, name: str, sink: Sink, store: Store, pauses: tuple[float, float] = PAUSES) -> None:
        self.name = name
        self._sink = sink
        self._store = store
        self._pauses = pauses
        self._changed = threading.Condition()
        self._provisional: tuple[int, Delivery] | None = None
        self._deadline: float | None = None
        self._delivered = 0
        self._down_since: float | None = None
        self._started: float | None = None
        self._hung: float | None = None
        self._pause = pauses[0]
        self._refusals = 0
        self._final = -1
        self._return: _Return | None = None
        self._thread = threading.Thread(target=self._run, name=f"delivery to {name}", daemon=True)
        store.listen(self._wake)

    @property
    def _backlog(self) -> int:
        return self._store.backlog(self.name)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def offer(self, provisional: Delivery) -> None:
        """Deliver this when nothing else waits; it replaces an earlier one that was not delivered yet."""
        with self._changed:
            self._provisional = (self._store.next, provisional)
            self._changed.notify()

    def state(self) -> SinkState:
        """Return the state of the sink; a sink that hangs is logged here, once."""
        started = self._started
        busy = 0.0 if started is None else time.monotonic() - started
        if busy > HANGING and self._hung != started:
            self._hung = started
            _log.warning("%s: hangs: it has been at one delivery for %.0f s; others wait on disk", self.name, busy)
        # Only `stop_all` is known to end the thread; if anything else does, the state has to report it.
        dead = self._thread.ident is not None and not self._thread.is_alive() and self._deadline is None
        up = self._down_since is None and busy <= HANGING and not dead
        return SinkState(self.name, up, self._backlog, self._store.lost(self.name))

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify()

    def _run(self) -> None:
        try:
            while self._step():
                pass
        finally:
            try:
                self._sink.close()
            except Exception as error:
                _log.debug("%s: closing it failed: %s", self.name, error)

    def _step(self) -> bool:
        """Deliver what waits, then wait for more; return whether to continue."""
        try:
            if self._finished():
                return False
            tried = self._deliver_waiting()
            if (self._down_since is None or not tried) and not self._finished():
                self._deliver_provisional()
        except Exception as error:
            # Not a failure of the sink, but for example of the disk of the store, which may recover like a sink. In any
            # case what waits stays on disk, and a worker that ended would deliver nothing until the next start.
            _log.debug("%s: failed before delivery", self.name, exc_info=True)
            self._log_failure(error)
            if self._deadline is not None:
                return False
        self._pause_or_wait()
        return True

    def _pause_or_wait(self) -> None:
        """Wait for something to deliver; after a failure wait for the end of the pause."""
        with self._changed:
            if self._down_since is not None:
                self._changed.wait_for(lambda: self._deadline is not None, self._pause)
                self._pause = min(2 * self._pause, self._pauses[1])
            else:
                self._changed.wait_for(lambda: self._deadline is not None or self._provisional or self._backlog)

    def _finished(self) -> bool:
        """Return whether to end: after `stop_all`, when nothing is left, the sink is down, or the time is up."""
        deadline = self._deadline
        if deadline is None:
            return False
        return self._down_since is not None or time.monotonic() > deadline or not self._backlog

    def _deliver_waiting(self) -> bool:
        """Deliver until nothing waits or one fails; return whether anything was tried."""
        tried = False
        refused = 0
        for place, delivery in self._store.waiting(self.name):
            if self._deadline is not None and time.monotonic() > self._deadline:
                break
            if delivery.kind not in self._sink.kinds:
                if not refused:
                    self._store.delivered(self.name, place)
                continue
            tried = True
            failure = self._write(delivery)
            if failure is None:
                if refused:
                    count = self._store.give_up(self.name, place)
                    _log.error("%s: %d deliveries are given up and lost to it: it refuses them, and took a later one",
                               self.name, count)  # fmt: skip
                if delivery.kind == "final":
                    self._final = place
                self._store.delivered(self.name, place)
                self._delivered += 1
                self._refusals = 0
                self._log_return()
                continue
            if not isinstance(failure, RefusedError):
                break
            # The first is tried each time, followed by one more later delivery each time that it is refused again.
            self._refusals += refused == 0
            refused += 1
            if refused > self._refusals - REFUSALS + 1:
                break
        return tried

    def _deliver_provisional(self) -> None:
        with self._changed:
            offered = self._provisional
        if offered is None or self._backlog:
            return
        next_place, delivery = offered
        # A final delivery must not be followed by an older provisional one.
        wanted = delivery.kind in self._sink.kinds and self._final < next_place
        if wanted and self._write(delivery) is not None:
            return
        self._log_return()
        with self._changed:
            if self._provisional is offered:
                self._provisional = None

    def _write(self, delivery: Delivery) -> Exception | None:
        """Write a delivery to the sink, and return the error if it fails."""
        self._started = time.monotonic()
        try:
            self._sink.write(delivery)
        except Exception as error:
            self._log_failure(error)
            return error
        finally:
            self._started = None
        if self._down_since is not None:
            self._return = _Return(time.monotonic() - self._down_since, self._store.next, self._delivered)
            self._down_since = None
        return None

    def _log_failure(self, failure: Exception) -> None:
        if self._down_since is not None:
            _log.debug("%s: still cannot deliver: %s", self.name, one_line(failure))
            return
        self._down_since = time.monotonic()
        self._return = None
        self._pause = self._pauses[0]
        _log.warning(
            "%s: cannot deliver: %s; deliveries wait on disk (each further try is logged at level debug)",
            self.name,
            one_line(failure),
        )

    def _log_return(self) -> None:
        """Log that the sink is back once it has what waited."""
        returned = self._return
        if returned is not None and self._store.next - self._backlog >= returned.until:
            count = self._delivered - returned.before
            _log.info("%s: back after %.0f s, and has the %d deliveries that waited", self.name, returned.away, count)
            self._return = None


def stop_all(workers: Sequence[DeliveryWorker], timeout: float) -> bool:
    """Deliver what waits, for at most `timeout` seconds, end the workers, and return whether nothing is left.

    A sink that is down is not waited for: what is left is delivered after the next start.
    """
    deadline = time.monotonic() + timeout
    for worker in workers:
        with worker._changed:
            worker._deadline = deadline
            worker._changed.notify()
    for worker in workers:
        if worker._thread.ident is not None:
            worker._thread.join(max(0.0, deadline - time.monotonic()))
    return not any(worker._backlog for worker in workers)


@dataclass(frozen=True)
class _Return:
    """A sink is back: seconds it was down, the end of what waited then, and the deliveries it had taken before."""

    away: float
    until: int
    before: int
