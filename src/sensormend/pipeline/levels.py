"""`without_level` recognises counters and states: a meter that only grows, an on and off, a set point, a constant.

What such a variable reads next does not follow from what it read before, nor from other sensors: a counter that begins
anew is not an offset, and a pump that stays on is not stuck.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sensormend.readings import DAY, Readings
from sensormend.recovery import FloatArray

__all__ = ["CONSTANT", "COUNTER", "STATE", "WithoutLevel", "without_level"]

COUNTER, STATE, CONSTANT = "counter", "state", "constant"

SPAN = 10 * DAY
"""The time that a channel must show: a battery only falls and a room has two whole degrees for days."""

LEAST_MOVES, FALLS = 50, 0.01
"""Changes of a counter, and the share of them that may be falls."""
RESETS, LOWEST = 0.2, 0.02
"""The share of the changes of a counter that may begin it anew, and how near to its lowest value that is, in ranges:
totals of a day or a year."""

LEAST_READINGS, LEAST_CHANGES = 500, 4
"""Readings and changes of a state."""
MOST_VALUES, MOST_CHANGES = 16, 0.2
"""Different values of a state, and the share of its readings that may be changes."""
JUMPS = 0.5
"""The share of its changes that pass over a value between: a quantity in coarse steps goes through all of them."""
FEW_VALUES, FEW_CHANGES = 3, 0.1
"""Off, low and high have no values between: with so many values, and so few changes, that is not asked."""
RESTING = 0.8
"""Where one value has more than this share of the readings, as of rain, the engine knows that the channel rests."""

MOST_CHANNELS = 0.8
"""The share of the known channels of a variable from which all of it is one: the sample may not have all sensors."""


@dataclass(frozen=True)
class WithoutLevel:
    """The counters and states of a variable: the names of these `sensors`, or none where all of them are.

    Attributes
    ----------
    kinds
        `COUNTER`, `STATE`, or both; or `CONSTANT`, where no channel of the variable ever changes.
    """

    kinds: tuple[str, ...]
    sensors: tuple[str, ...] = ()


def without_level(own: Readings) -> WithoutLevel | None:
    """Return the counters and states among the channels of one variable, from readings sorted by sensor and time.

    Examples
    --------
    >>> from sensormend.readings import HOUR
    >>> hours = np.arange(24 * 30, dtype=np.int64)
    >>> def reads(value):
    ...     return without_level(Readings(("a",), ("x",), 0 * hours, 0 * hours, HOUR * hours, value))
    >>> reads((3.7 * hours) % 1000)
    WithoutLevel(kinds=('counter',), sensors=())
    >>> reads(18.0 + 3.5 * (hours % 24 > 6))
    WithoutLevel(kinds=('state',), sensors=())
    >>> reads(np.round(9 * np.sin(hours / 4)))
    """
    edges = np.flatnonzero(np.diff(own.sensor)) + 1
    kinds: dict[str, str] = {}
    moves = False
    for sensor, time, value in zip(*(np.split(column, edges) for column in (own.sensor, own.time, own.value)),
                                   strict=True):  # fmt: skip
        known = np.isfinite(value)
        value, time = value[known], time[known]
        moves |= bool(value.size) and value.min() < value.max()
        if value.size and time[-1] - time[0] >= SPAN and value.min() < value.max():
            kinds[own.sensors[int(sensor[0])]] = COUNTER if _is_counter(value) else STATE if _is_state(value) else ""
    if len(own) >= LEAST_READINGS and not moves:
        return WithoutLevel((CONSTANT,))
    chosen = tuple(name for name, kind in kinds.items() if kind)
    if not chosen:
        return None
    words = tuple(sorted({kinds[name] for name in chosen}))
    return WithoutLevel(words, () if len(chosen) >= MOST_CHANNELS * len(kinds) else chosen)


def _is_counter(value: FloatArray) -> bool:
    """Return whether a channel only grows, but for the times at which it begins anew."""
    change = np.diff(value)
    falls, rises = change < 0, change[change > 0]
    moves = int(falls.sum()) + rises.size
    if moves < LEAST_MOVES or not rises.size:
        return False
    # A reset ends near the lowest value, and from far above what it rises by.
    low, high = value.min(), value.max()
    resets = falls & (value[1:] <= low + LOWEST * (high - low)) & (change < -5 * np.median(rises))
    return bool(resets.sum() <= RESETS * moves and (falls & ~resets).sum() <= FALLS * moves)


def _is_state(value: FloatArray) -> bool:
    """Return whether a channel holds one of a few values and then switches to another, not to the next one."""
    distinct, place, count = np.unique(value, return_inverse=True, return_counts=True)
    change = np.diff(place)
    changes = int((change != 0).sum())
    if value.size < LEAST_READINGS or changes < LEAST_CHANGES or count.max() > RESTING * value.size:
        return False
    if distinct.size <= FEW_VALUES and changes <= FEW_CHANGES * value.size:
        return True
    passed = int((np.abs(change) > 1).sum())
    held = changes <= MOST_CHANGES * value.size
    return bool(distinct.size <= MOST_VALUES and held and passed >= JUMPS * changes)
