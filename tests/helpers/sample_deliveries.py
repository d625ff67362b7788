"""Deliveries for tests, and a sink that records them and fails where a test wants it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from row_tables import network
from sensormend.stream.deliveries import Alert, Delivery, Sink

__all__ = ["RecordingSink", "alert", "final"]


def final(number: int, padding: int = 0) -> Delivery:
    """Return a delivery with a start of its own and `padding` rows."""
    return Delivery("final", number, number + 1, network().taken(slice(0, padding)) if padding else None)


def alert(number: int = 0, sensor: str = "s1", state: str = "faulty") -> Delivery:
    """Return an alert about one sensor."""
    one = Alert(sensor, "", "healthy", state, "stuck", 0, 3_600_000_000, f"{sensor} is stuck since midnight")
    return Delivery("alert", number, number + 1, alerts=[one])


class RecordingSink(Sink):
    """Records what it is given; `failing` makes it fail, a cleared `open` makes it hang."""

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
