"""`Muting` holds back the alerts of muted channels, and releases those of what is still wrong when that is over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from typing import Any

from sensormend.pipeline.maintenance import Maintenance
from sensormend.stream.deliveries import Alert

__all__ = ["Muting"]


class Muting:
    """The alerts that are held back, by the name of their incident.

    An alert is held back while all of its channels are muted in maintenance.csv. Where the incident is over by then,
    nobody hears of it; else its alert is raised when the mute ends.
    """

    def __init__(self) -> None:
        self._held: dict[str, Alert] = {}

    def raised(self, alerts: Sequence[Alert], maintenance: Maintenance) -> list[Alert]:
        """Return those of new alerts that are not held back."""
        passed = []
        for alert in alerts:
            over = alert.state == "healthy"
            held = self._held.pop(alert.id, None) if alert.id else None
            if held is not None and over:
                continue
            if not over and alert.id and _is_muted(alert, maintenance, alert.at):
                self._held[alert.id] = alert
            else:
                passed.append(alert)
        return passed

    def released(self, now: int, maintenance: Maintenance) -> list[Alert]:
        """Return the alerts that are not held back any more at a time."""
        released = [alert for alert in self._held.values() if not _is_muted(alert, maintenance, now)]
        for alert in released:
            del self._held[alert.id]
        return released

    def state(self) -> list[Any]:
        """Return the state as JSON values."""
        return [astuple(alert) for alert in self._held.values()]

    def restore(self, state: Sequence[Sequence[Any]]) -> None:
        """Load a state."""
        self._held = {alert.id: alert for alert in (Alert(*fields) for fields in state)}


def _is_muted(alert: Alert, maintenance: Maintenance, time: int) -> bool:
    return bool(alert.channels) and all(
        maintenance.is_muted(channel.sensor, channel.variable, time) for channel in alert.channels
    )
