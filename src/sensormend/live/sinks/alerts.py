"""What all that takes alerts shares: one at a time, and none twice because a later one failed."""

from __future__ import annotations

from collections.abc import Sequence

from sensormend.live.deliveries import Alert, Delivery, Kind, Sink

__all__ = ["AlertSink"]


class AlertSink(Sink):
    """Takes alerts one by one; a class of its own says how one is sent."""

    kinds: Sequence[Kind] = ("alert",)

    def __init__(self) -> None:
        self._begun: tuple[Sequence[Alert], int] = ((), 0)

    def write(self, delivery: Delivery) -> None:
        """Send the alerts of a delivery; one that is tried again goes on where it failed."""
        alerts, done = self._begun
        if list(alerts) != list(delivery.alerts):
            done = 0
        for number, alert in enumerate(delivery.alerts[done:], start=done):
            self._begun = (delivery.alerts, number)
            self.send(alert)
        self._begun = ((), 0)

    def send(self, alert: Alert) -> None:
        """Send one alert, or raise."""
        raise NotImplementedError
