"""What all that takes alerts shares: one at a time, and none twice because another one failed."""

from __future__ import annotations

from collections.abc import Sequence

from sensormend.errors import RefusedError
from sensormend.stream.deliveries import Alert, Delivery, Kind, Sink

__all__ = ["AlertSink"]

REMEMBERED = 100
"""Deliveries that were sent in part, of which it is known what was sent. More would have to wait at the same time."""

Key = tuple[int, int, tuple[Alert, ...]]


class AlertSink(Sink):
    """Takes alerts one by one; a class of its own says how one is sent."""

    kinds: Sequence[Kind] = ("alert",)

    def __init__(self) -> None:
        self._begun: dict[Key, set[int]] = {}

    def write(self, delivery: Delivery) -> None:
        """Send the alerts of a delivery; one that is tried again goes on with those that were not sent.

        One that is refused does not keep back those after it: the whole delivery is refused at the end.
        """
        key = (delivery.start, delivery.end, tuple(delivery.alerts))
        sent = self._begun.pop(key, set())
        refused: RefusedError | None = None
        try:
            for number, alert in enumerate(delivery.alerts):
                if number in sent:
                    continue
                try:
                    self.send(alert)
                except RefusedError as error:
                    refused = refused or error
                else:
                    sent.add(number)
            if refused is not None:
                raise refused
        finally:
            if 0 < len(sent) < len(delivery.alerts):
                self._remember(key, sent)

    def send(self, alert: Alert) -> None:
        """Send one alert, or raise."""
        raise NotImplementedError

    def _remember(self, key: Key, sent: set[int]) -> None:
        while len(self._begun) >= REMEMBERED:
            del self._begun[next(iter(self._begun))]
        self._begun[key] = sent
