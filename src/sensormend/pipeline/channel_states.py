"""`channel_states` returns the state of each channel at the end of the tables, `count_sensors` how many are in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sensormend.pipeline.faults import FaultInterval

__all__ = [
    "STATES",
    "WRONG",
    "ChannelName",
    "ChannelState",
    "PeriodCounts",
    "channel_states",
    "count_sensors",
    "is_open",
    "open_faults",
    "sensor_states",
]

WRONG = ("faulty", "silent")
"""The states of a sensor that needs repair."""

STATES = (*WRONG, "suspect", "recovering", "learning", "healthy", "ended")
"""The states of a channel, the worst first; a sensor has that of its worst channel."""

ChannelName = tuple[str, str]
"""A channel: its sensor and its variable."""


@dataclass(frozen=True)
class PeriodCounts:
    """Numbers of rows of one channel in one period: all; missing, wrong but no spike, suspect and not evaluated."""

    slots: int = 0
    missing: int = 0
    wrong: int = 0
    suspect: int = 0
    unjudged: int = 0


@dataclass(frozen=True)
class ChannelState:
    """The state of a channel, one of `STATES`; the reason and since when, where it has an open fault."""

    state: str
    reason: str = ""
    since: int | None = None


def is_open(fault: FaultInterval, end: int | None) -> bool:
    """Return whether a fault lasts until the end of the tables."""
    return end is not None and fault.end >= end and fault.reason != "spike"


def open_faults(faults: Iterable[FaultInterval], end: int | None) -> dict[ChannelName, FaultInterval]:
    """Return the open fault of each channel that has one; a silence of a whole sensor has no variable.

    A fault stays open while its sensor is silent; the silence is reported first.
    """
    faults = sorted(
        (fault for fault in faults if is_open(fault, end)), key=lambda fault: (fault.reason == "silent", fault.start)
    )
    return {(fault.sensor, fault.variable): fault for fault in faults}


def channel_states(
    last: Mapping[ChannelName, PeriodCounts], faults: Iterable[FaultInterval], end: int | None
) -> dict[ChannelName, ChannelState]:
    """Return the state of every channel at the end of the tables.

    Parameters
    ----------
    last
        The rows of the channels in the last period; those without rows count as ended.
    faults
        The lines of faults.csv.
    end
        The end of the last period.

    Examples
    --------
    >>> offset = FaultInterval("a", "", 0, 10, "offset", 2.0, "a reads 2 high.")
    >>> rows = {"wrong": PeriodCounts(24, wrong=9), "doubtful": PeriodCounts(24, suspect=9), "good": PeriodCounts(24)}
    >>> [channel_states({("a", ""): counts}, [offset], 10)["a", ""].state for counts in rows.values()]
    ['faulty', 'suspect', 'recovering']
    """
    listed = open_faults(faults, end)
    return {name: _state(counts, listed.get((name[0], "")) or listed.get(name)) for name, counts in last.items()}


def _state(counts: PeriodCounts, fault: FaultInterval | None) -> ChannelState:
    """Return the state that the flags of the last period show; a fault alone does not make a channel faulty."""
    reason, since = (fault.reason, fault.start) if fault is not None else ("", None)
    if not counts.slots:
        return ChannelState("ended")
    if counts.missing == counts.slots or reason == "silent":
        return ChannelState("silent", "silent", since if reason == "silent" else None)
    if fault is not None and counts.wrong:
        return ChannelState("faulty", reason, since)
    if counts.suspect:
        return ChannelState("suspect", reason, since)
    if counts.unjudged == counts.slots - counts.missing:
        return ChannelState("learning")
    return ChannelState("healthy") if fault is None else ChannelState("recovering", reason, since)


def sensor_states(states: Mapping[ChannelName, str]) -> dict[str, str]:
    """Return the state of every sensor: that of the worst of its channels.

    Examples
    --------
    >>> sensor_states({("a", "temp"): "healthy", ("a", "rh"): "silent", ("b", "temp"): "learning"})
    {'a': 'silent', 'b': 'learning'}
    """
    worst: dict[str, str] = {}
    for (sensor, _), state in states.items():
        worst[sensor] = min(worst.get(sensor, state), state, key=STATES.index)
    return worst


def count_sensors(states: Mapping[ChannelName, str]) -> dict[str, int]:
    """Return the number of sensors in each of `STATES`."""
    counts = Counter(sensor_states(states).values())
    return {state: counts[state] for state in STATES}
