"""`channel_states` computes the one state that each channel has, `count_sensors` how many sensors are in it.

`final_states` applies it at the end of the tables; a live feed applies it to what it remembers of each channel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from sensormend.pipeline.faults import FaultInterval
from sensormend.recovery import BoolArray

__all__ = [
    "STATES",
    "WRONG",
    "ChannelName",
    "ChannelState",
    "FinalState",
    "PeriodCounts",
    "channel_states",
    "count_sensors",
    "final_states",
    "is_open",
    "open_faults",
    "sensor_states",
]


class ChannelState(StrEnum):
    """The states of a channel; it has one at a time.

    They are listed from the worst on: a sensor has the first of the states of its variables. It has ended where all of
    them have: that one variable of a weather station is measured no more says nothing of the others.
    """

    FAULTY = "faulty"
    SILENT = "silent"
    SUSPECT = "suspect"
    RECOVERING = "recovering"
    LEARNING = "learning"
    HEALTHY = "healthy"
    ENDED = "ended"


STATES = tuple(ChannelState)
"""The states in the order of the codes that `channel_states` returns."""

WRONG = (ChannelState.FAULTY, ChannelState.SILENT)
"""The states of a sensor that needs repair."""

ChannelName = tuple[str, str]
"""A channel: its sensor and its variable."""


def channel_states(
    *, ended: BoolArray, silent: BoolArray, faulty: BoolArray, doubtful: BoolArray, open_incident: BoolArray,
    judged: BoolArray,
) -> NDArray[np.int8]:  # fmt: skip
    """Return the state of each channel at one time, as an index into `STATES`.

    This is the only place that decides what state a channel has. The first of these that applies is its state:
    `ended`, `silent`, `faulty`, `suspect` (doubtful), `recovering` (its incident is open), `learning` (not judged yet),
    `healthy`. A fault may be open in a channel that is silent; that nothing comes from it is what one sees first.

    Parameters
    ----------
    ended
        No reading has come for so long that none is expected any more: for `gone_after` in a feed, and until the end of
        an archive whose other channels go on.
    silent
        No reading has come for longer than usual.
    faulty
        A fault is open that is sure, or has lasted for long enough to be reported.
    doubtful
        The newest reading is wrong or doubtful, without a fault that counts as `faulty`.
    open_incident
        A fault or a silence was reported, and that it is over was not: its readings are sound again, but not for long
        enough.
    judged
        At least one of its readings was judged by now.

    Examples
    --------
    >>> yes, no = np.array([True]), np.array([False])
    >>> verdicts = dict.fromkeys(("ended", "silent", "faulty", "doubtful", "open_incident"), no) | {"judged": yes}
    >>> def state(**given):
    ...     return str(STATES[channel_states(**verdicts | given)[0]])
    >>> state(), state(judged=no), state(open_incident=yes), state(open_incident=yes, faulty=yes)
    ('healthy', 'learning', 'recovering', 'faulty')
    >>> state(silent=yes, faulty=yes), state(silent=yes, ended=yes)
    ('silent', 'ended')
    """
    chosen = (
        (ended, ChannelState.ENDED),
        (silent, ChannelState.SILENT),
        (faulty, ChannelState.FAULTY),
        (doubtful, ChannelState.SUSPECT),
        (open_incident, ChannelState.RECOVERING),
        (~judged, ChannelState.LEARNING),
    )
    codes = [STATES.index(state) for _, state in chosen]
    code = np.select([mask for mask, _ in chosen], codes, STATES.index(ChannelState.HEALTHY))
    return np.asarray(code, dtype=np.int8)


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
    if fault.open is not None:
        return fault.open
    # Earlier versions wrote the end of the tables as the end of an open fault.
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
