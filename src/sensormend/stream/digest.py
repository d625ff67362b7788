"""`Digest` sums up the alerts of a day in one message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sensormend.pipeline.channel_states import ChannelState
from sensormend.pipeline.health import Health
from sensormend.pipeline.sentences import counted, readable, who
from sensormend.readings import DAY, MINUTE
from sensormend.stream.deliveries import DIGEST, Alert, AlertedChannel, identified

__all__ = ["Digest"]

MOST_LINES = 40
"""The maximum number of lines about each of what is new, over and open; the rest is counted."""

OPEN = (ChannelState.FAULTY, ChannelState.SILENT, ChannelState.SUSPECT, ChannelState.RECOVERING)
"""The states that a digest lists as open. It only counts sensors that have ended."""


class Digest:
    """Collects the alerts since the last message, and writes the next one.

    Parameters
    ----------
    minute
        The time of day of the message, in minutes since midnight, UTC; None for no messages.
    """

    def __init__(self, minute: int | None = None) -> None:
        self._minute = minute
        self._new: list[str] = []
        self._over: list[str] = []

    def record(self, alerts: Sequence[Alert]) -> None:
        """Collect alerts."""
        if self._minute is not None:
            self._new += [alert.sentence for alert in alerts if alert.state in ("faulty", "silent")]
            self._over += [alert.sentence for alert in alerts if alert.state == "healthy"]

    def times(self, after: int, until: int) -> range:
        """Return the times at which a message is due, after `after` and not after `until`."""
        if self._minute is None:
            return range(0)
        offset = self._minute * MINUTE
        first = (after - offset) // DAY + 1
        return range(first * DAY + offset, until + 1, DAY)

    def message(self, at: int, health: Sequence[Health], counts: Mapping[str, int]) -> Alert:
        """Return the message of a time, and begin the next one."""
        entries = sorted((entry for entry in health if entry.state in OPEN), key=lambda entry: OPEN.index(entry.state))
        lines = [
            *_section("New", self._new),
            *_section("Over", self._over),
            *_section("Open", [_open_line(entry) for entry in entries]),
        ]
        self._new, self._over = [], []
        channels = [AlertedChannel(entry.sensor, entry.variable, entry.reason, entry.since) for entry in entries]
        sentence = _summary(counts)
        return identified(
            Alert("", "", "healthy", DIGEST, "", at - DAY, at, sentence, "", tuple(channels), tuple(lines))
        )

    def state(self) -> dict[str, Any]:
        """Return the state as JSON."""
        return {"new": self._new, "over": self._over}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Load a state."""
        self._new, self._over = list(state["new"]), list(state["over"])


def _summary(counts: Mapping[str, int]) -> str:
    """Return how many sensors have which state.

    Examples
    --------
    >>> _summary({"healthy": 45, "faulty": 4, "silent": 1, "ended": 0})
    '45 of 50 sensors are healthy, 4 are faulty, 1 is silent'
    """
    total = sum(counts.values())
    others = [
        f"{count:,} {'is' if count == 1 else 'are'} {state}"
        for state, count in counts.items()
        if count and state != "healthy"
    ]
    healthy = f"{counts.get('healthy', 0):,} of {counted(total, 'sensor')} are healthy"
    return ", ".join([healthy, *others])


def _section(title: str, lines: Sequence[str]) -> list[str]:
    if not lines:
        return []
    more = len(lines) - MOST_LINES
    shown = [f"- {line}" for line in lines[:MOST_LINES]]
    return [f"{title} ({len(lines):,}):", *shown, *([f"- and {more:,} more"] if more > 0 else [])]


def _open_line(entry: Health) -> str:
    reason = f" ({entry.reason})" if entry.reason else ""
    return f"{who(entry.sensor, entry.variable)} is {entry.state}{reason} since {readable(entry.since)}"
