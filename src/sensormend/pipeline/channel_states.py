"""`final_states` returns the state of each channel at the end of the tables, `count_sensors` how many are in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from sensormend.pipeline.faults import FaultInterval
from sensormend.pipeline.health import STATES, ChannelState, channel_states

__all__ = [
    "WRONG",
    "ChannelName",
    "FinalState",
    "PeriodCounts",
    "count_sensors",
    "final_states",
    "is_open",
    "open_faults",
    "sensor_states",
]

WRONG = (ChannelState.FAULTY, ChannelState.SILENT)
"""The states of a sensor that needs repair."""

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
class FinalState:
    """The state of a channel at the end of the tables; the reason and since when, where it has an open fault."""

    state: ChannelState
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


def final_states(
    last: Mapping[ChannelName, PeriodCounts], faults: Iterable[FaultInterval], end: int | None
) -> dict[ChannelName, FinalState]:
    """Return the state of every channel at the end of the tables, from the flags of its last period and its open fault.

    A fault alone does not make a channel faulty: some of its last readings are wrong as well.

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
    >>> [str(final_states({("a", ""): counts}, [offset], 10)["a", ""].state) for counts in rows.values()]
    ['faulty', 'suspect', 'recovering']
    """
    listed = open_faults(faults, end)
    faults_now = [listed.get((sensor, "")) or listed.get((sensor, variable)) for sensor, variable in last]
    counts = np.array([[own.slots, own.missing, own.wrong, own.suspect, own.unjudged] for own in last.values()])
    slots, missing, wrong, suspect, unjudged = counts.reshape(-1, 5).T
    is_open_now = np.array([fault is not None for fault in faults_now], dtype=bool)
    silence = np.array([fault is not None and fault.reason == "silent" for fault in faults_now], dtype=bool)
    codes = channel_states(
        ended=slots == 0,
        silent=(missing == slots) | silence,
        faulty=is_open_now & (wrong > 0),
        doubtful=suspect > 0,
        open_incident=is_open_now,
        judged=unjudged < slots - missing,
    )
    return {
        name: _with_reason(STATES[code], fault)
        for name, code, fault in zip(last, codes.tolist(), faults_now, strict=True)
    }


def _with_reason(state: ChannelState, fault: FaultInterval | None) -> FinalState:
    """Return a state with the reason of the open fault and the start of its incident, where it is due to that fault."""
    if state is ChannelState.SILENT:
        return FinalState(state, "silent", fault.start if fault is not None and fault.reason == "silent" else None)
    if fault is None or state in (ChannelState.ENDED, ChannelState.LEARNING, ChannelState.HEALTHY):
        return FinalState(state)
    return FinalState(state, fault.reason, fault.start if fault.incident is None else fault.incident)


def sensor_states(states: Mapping[ChannelName, str]) -> dict[str, str]:
    """Return the state of every sensor: that of the worst of its channels.

    Examples
    --------
    >>> sensor_states({("a", "temp"): "healthy", ("a", "rh"): "silent", ("b", "temp"): "healthy", ("b", "rh"): "ended"})
    {'a': 'silent', 'b': 'healthy'}
    """
    worst: dict[str, str] = {}
    for (sensor, _), state in states.items():
        worst[sensor] = min(worst.get(sensor, state), state, key=_RANK.__getitem__)
    return worst


def count_sensors(states: Mapping[ChannelName, str]) -> dict[str, int]:
    """Return the number of sensors in each of `STATES`."""
    counts = Counter(sensor_states(states).values())
    return {str(state): counts[state] for state in STATES}


_RANK = {str(state): rank for rank, state in enumerate(STATES)}
