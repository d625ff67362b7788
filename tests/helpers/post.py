"""Deliveries for tests, and sinks that do as they are told."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from row_tables import network
from sensormend.stream.deliveries import Alert, Delivery, Sink

__all__ = ["Notebook", "alert", "final", "until"]


def final(number: int, padding: int = 0) -> Delivery:
    """Return a delivery that can be told from others, with so many rows."""
    return Delivery("final", number, number + 1, network().taken(slice(0, padding)) if padding else None)


def alert(number: int = 0, sensor: str = "s1", state: str = "faulty") -> Delivery:
    """Return an alert about one sensor."""
    one = Alert(sensor, "", "well", state, "stuck", 0, 3_600_000_000, f"{sensor} is stuck since midnight")
    return Delivery("alert", number, number + 1, alerts=[one])


def until(true: Callable[[], bool], seconds: float = 10) -> None:
    """Wait for something to become true; fail when it does not."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "that did not happen in time"
        time.sleep(0.005)


class Notebook(Sink):
    """Notes what it is given; fails, refuses or hangs where it is told to."""

    def __init__(self, kinds: Sequence[str] = ("final", "late", "provisional", "alert")) -> None:
        self.kinds = kinds  # type: ignore[assignment]
        self.seen: list[tuple[str, int]] = []
        self.tries = 0
        self.closed = False
        self.failing: Callable[[Delivery], Exception | None] = lambda delivery: None
        self.open = threading.Event()
        self.open.set()

    def write(self, delivery: Delivery) -> None:
        self.tries += 1
        self.open.wait()
        failure = self.failing(delivery)
        if failure is not None:
            raise failure
        self.seen.append((delivery.kind, delivery.start))

    def close(self) -> None:
        self.closed = True
