"""One sink, served in a thread of its own: what waits on disk first, then what is provisional."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from sensormend.errors import RefusedError
from sensormend.stream.deliveries import Delivery, Sink, Standing
from sensormend.stream.outbox import Outbox

__all__ = ["PAUSES", "Courier", "stop_all"]

PAUSES = (0.5, 30.0)
"""Seconds between two tries: the first, and the longest, to which it doubles. A broker that restarts is back within a
second or two; one that is away for a day need not be asked more often than twice a minute."""

HANGING = 60.0
"""Seconds at one delivery after which a sink counts as down. Every sink of ours gives up by itself before that, but for
a large delivery to a slow server."""

REFUSALS = 6
"""How often a delivery is refused, within a quarter of a minute at the least, before a later one is tried."""

_said = logging.getLogger("sensormend.stream")


class Courier:
    """Takes deliveries from the outbox to one sink, in order, each at least once.

    When the sink fails that is said once, and it is tried again after pauses that grow; when it is back and has what
    had waited, that is said too. A delivery that the sink refuses (`RefusedError`) is tried again like any other. It is
    given up only when a later one passes: then it was the delivery, which is counted as lost, and that is said. While
    all are refused it is the sink, and nothing is given up. The service never waits for any of it.

    Parameters
    ----------
    name
        As the outbox knows it; without secrets, since it is said.
    sink
        Used in one thread only, which closes it at the end.
    outbox
        Where deliveries wait.
    pauses
        The first pause and the longest.

    Examples
    --------
    >>> import tempfile
    >>> class Printer(Sink):
    ...     def write(self, delivery):
    ...         print(delivery.kind, delivery.start)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     box = Outbox(folder, ["printer"])
    ...     courier = Courier("printer", Printer(), box)
    ...     courier.start()
    ...     box.append(Delivery("final", 7, 8), 0)
    ...     courier.stop(5)
    ...     box.close()
    final 7
    True
    """

    def __init__(self, name: str, sink: Sink, outbox: Outbox, pauses: tuple[float, float] = PAUSES) -> None:
        self.name = name
        self._sink = sink
        self._outbox = outbox
        self._pauses = pauses
        self._news = threading.Condition()
        self._provisional: tuple[int, Delivery] | None = None
        self._deadline: float | None = None
        self._delivered = 0
        self._error = ""
        self._down_since: float | None = None
        self._started_one: float | None = None
        self._hung: float | None = None
        self._pause = pauses[0]
        self._refusals = 0
        self._final = -1
        self._back: _Back | None = None
        self._thread = threading.Thread(target=self._run, name=f"courier {name}", daemon=True)
        outbox.listen(self._wake)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def offer(self, provisional: Delivery) -> None:
        """Have this delivered when nothing else waits; it takes the place of one that was not delivered yet."""
        with self._news:
            self._provisional = (self._outbox.next, provisional)
            self._news.notify()

    def state(self) -> Standing:
        """Return how it stands; that a sink hangs is said here, once, by who asks."""
        began = self._started_one
        busy = 0.0 if began is None else time.monotonic() - began
        error = self._error
        if busy > HANGING:
            error = error or f"it has been at one delivery for {busy:.0f} s"
            if self._hung != began:
                self._hung = began
                _said.warning("%s: hangs: it has been at one delivery for %.0f s; others wait on disk", self.name, busy)
        # Nothing that we know of ends it but `stop`: then nobody would be told that nothing is delivered any more.
        dead = self._thread.ident is not None and not self._thread.is_alive() and self._deadline is None
        if dead:
            error = "nothing more is delivered until sensormend is started again"
        return Standing(
            self.name,
            self._down_since is None and busy <= HANGING and not dead,
            busy,
            self._outbox.backlog(self.name),
            self._delivered,
            self._outbox.lost(self.name),
            error,
        )

    def stop(self, timeout: float) -> bool:
        """Deliver what waits, for at most so many seconds, and say whether nothing is left.

        A sink that is down is not waited for: what is left is delivered after the next start.
        """
        return stop_all([self], timeout)

    def _end_by(self, deadline: float) -> None:
        with self._news:
            self._deadline = deadline
            self._news.notify()

    def _ended(self, deadline: float) -> bool:
        if self._thread.ident is not None:
            self._thread.join(max(0.0, deadline - time.monotonic()))
        return self._outbox.backlog(self.name) == 0

    def _wake(self) -> None:
        with self._news:
            self._news.notify()

    def _run(self) -> None:
        try:
            while self._go_on():
                pass
        finally:
            try:
                self._sink.close()
            except Exception as error:
                _said.debug("%s: closing it failed: %s", self.name, error)

    def _go_on(self) -> bool:
        """Deliver what there is and wait for more; say whether there is anything left to do."""
        try:
            if self._over():
                return False
            tried = self._deliver_what_waits()
            if (self._down_since is None or not tried) and not self._over():
                self._deliver_provisional()
        except Exception as error:
            # No failure of the sink's: the disk under the outbox, say, which may be back later like any sink. Whatever
            # it is, what waits stays on disk, and a courier that ends would deliver nothing for years.
            _said.debug("%s: failed on the way to it", self.name, exc_info=True)
            self._note(error)
            if self._deadline is not None:
                return False
        self._rest()
        return True

    def _rest(self) -> None:
        """Wait for something to deliver; after a failure for the pause to be over."""
        with self._news:
            if self._down_since is not None:
                self._news.wait_for(lambda: self._deadline is not None, self._pause)
                self._pause = min(2 * self._pause, self._pauses[1])
            else:
                self._news.wait_for(
                    lambda: (
                        self._deadline is not None
                        or self._provisional is not None
                        or self._outbox.backlog(self.name) > 0
                    )
                )

    def _over(self) -> bool:
        """Say whether to end: when asked to, and nothing is left, or the sink is down, or the time is up."""
        deadline = self._deadline
        if deadline is None:
            return False
        return self._down_since is not None or time.monotonic() > deadline or not self._outbox.backlog(self.name)

    def _deliver_what_waits(self) -> bool:
        """Deliver until nothing waits or one fails; say whether anything was tried."""
        tried = False
        refused = 0
        for place, delivery in self._outbox.waiting(self.name):
            if self._deadline is not None and time.monotonic() > self._deadline:
                break
            if delivery.kind not in self._sink.kinds:
                if not refused:
                    self._outbox.delivered(self.name, place)
                continue
            tried = True
            failure = self._write(delivery)
            if failure is None:
                if refused:
                    self._give_up(place)
                if delivery.kind == "final":
                    self._final = place
                self._outbox.delivered(self.name, place)
                self._delivered += 1
                self._refusals = 0
                self._say_back()
                continue
            if not isinstance(failure, RefusedError):
                break
            # The first is tried each time; one more of those after it each time that it is refused again.
            self._refusals += refused == 0
            refused += 1
            if refused > self._refusals - REFUSALS + 1:
                break
        return tried

    def _deliver_provisional(self) -> None:
        with self._news:
            waiting = self._provisional
        if waiting is None or self._outbox.backlog(self.name):
            return
        before, delivery = waiting
        # What became final since is not to be followed by what was thought of it before.
        wanted = delivery.kind in self._sink.kinds and self._final < before
        if wanted and self._write(delivery) is not None:
            return
        self._say_back()
        with self._news:
            if self._provisional is waiting:
                self._provisional = None

    def _write(self, delivery: Delivery) -> Exception | None:
        """Try it, and return what went wrong."""
        self._started_one = time.monotonic()
        try:
            self._sink.write(delivery)
        except Exception as error:
            self._note(error)
            return error
        finally:
            self._started_one = None
        if self._down_since is not None:
            self._back = _Back(time.monotonic() - self._down_since, self._outbox.next, self._delivered)
            self._down_since, self._error = None, ""
        return None

    def _note(self, failure: Exception) -> None:
        self._error = " ".join(str(failure).split()) or type(failure).__name__
        if self._down_since is not None:
            _said.debug("%s: still cannot deliver: %s", self.name, self._error)
            return
        self._down_since = time.monotonic()
        self._back = None
        self._pause = self._pauses[0]
        _said.warning(
            "%s: cannot deliver: %s; deliveries wait on disk (each further try is logged at level debug)",
            self.name,
            self._error,
        )

    def _say_back(self) -> None:
        """Say that the sink is back, when it has what waited."""
        back = self._back
        if back is not None and self._outbox.next - self._outbox.backlog(self.name) >= back.until:
            count = self._delivered - back.before
            _said.info("%s: back after %.0f s, and has the %d deliveries that waited", self.name, back.away, count)
            self._back = None

    def _give_up(self, place: int) -> None:
        count = self._outbox.give_up(self.name, place)
        _said.error(
            "%s: %d deliveries are given up and lost to it: it refuses them, and took a later one", self.name, count
        )


def stop_all(couriers: Sequence[Courier], timeout: float) -> bool:
    """Stop couriers together, as `Courier.stop` stops one: it takes no longer for many than for one."""
    deadline = time.monotonic() + timeout
    for courier in couriers:
        courier._end_by(deadline)
    ended = [courier._ended(deadline) for courier in couriers]
    return all(ended)


@dataclass(frozen=True)
class _Back:
    """A sink is back: after how long, what waited for it then, and how many it had taken before."""

    away: float
    until: int
    before: int
