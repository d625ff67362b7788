"""`Silence` learns the usual silence of each channel, and returns which channels are silent for longer."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.errors import StateError
from sensormend.pipeline.cleaner import NEVER
from sensormend.recovery import BoolArray

__all__ = ["Silence"]

REMEMBERED_PERIODS = 28
"""Periods with readings of which each channel's longest silence is stored: four weeks of days or more."""

PERIODS_PER_RANK = 9
"""The usual silence is the second longest of those stored, and one rank lower for every so many periods: the fifth of
28. A few outages do not make the next one usual; weekends, of which there are five in 28 working days, are usual."""

MIN_PERIODS = 3
"""Periods until a channel's own silences count; until then the median of the others counts, or its own if longer."""

MAX_FACTOR = 2
"""A silence is reported when it is longer than the sum of the usual one, the second longest of those stored, of which
at most so many times the usual one counts, and one step: two to three times the usual silence.

`python benchmarks/silence.py` measures it, a year of 200 sensors of each kind on an hourly grid: false reports per
sensor-year (and in the first 60 days), and hours from the last reading to the report of a sensor that died:

    ==============================  =============  =====
    kind                            false (first)  hours
    ==============================  =============  =====
    every hour                           0.00 (0)      4
    every hour, 2 % lost                 0.00 (0)      6
    every hour, 30 % lost             0.03 (0.06)     11
    every hour, 50 % lost             0.11 (0.30)     16
    once a day, 10 % lost             0.83 (1.64)     74
    bursts, 4 to 8 hours apart           0.00 (0)     18
    every hour, sent every 6 hours       0.00 (0)     14
    7 to 19 h on weekdays               0.00 (24)    124
    by daylight, all year                0.00 (0)     36
    two outages a month             21.84 (22.08)      8
    ==============================  =============  =====

The outages are 24 in a sensor-year, six hours to two days; some run into each other. With the median in place of the
fifth of 28 the weekday sensor is reported on all 52 weekends of a year, rather than on its first four.
"""

STORED = ("last", "_closed", "_age", "_oldest", "_history", "_count")
"""The attributes of `Silence` in a state file, which has them without the underscore."""


class Silence:
    """The usual silence of each channel, and the channels that are silent for longer.

    All times are event time. A reading from a clock that is ahead counts as taken at most one step after the next
    check, so that it does not hide a silence for days.

    A silence is a gap between two readings, or the age of the newest reading at a check: a logger that measures every
    hour and sends every six hours is not silent in between.

    After a silence of `gone_after` a channel is gone; no longer silence is usual.

    Attributes
    ----------
    last
        The time of each channel's newest reading; `NEVER` where there is none.
    usual
        The usual silence of each channel; microseconds.

    Examples
    --------
    >>> from sensormend.readings import DAY, HOUR
    >>> silence = Silence(HOUR, DAY, 30 * DAY)
    >>> for day in range(4):
    ...     hours = day * DAY + HOUR * np.arange(24)
    ...     silence.record(np.zeros(24, dtype=np.int64), hours)
    ...     silence.close(np.zeros(24, dtype=np.int64), hours)
    >>> silence.check(4 * DAY + 2 * HOUR), silence.check(4 * DAY + 3 * HOUR)
    (array([False]), array([ True]))
    """

    def __init__(self, step: int, period: int, gone_after: int) -> None:
        self._step, self._period, self._gone_after = step, period, max(gone_after, 2 * step)
        self.last, self._closed, self._age, self._oldest, self._count, self.usual, self._limit = (
            np.empty(0, np.int64) for _ in range(7)
        )
        self._history: NDArray[np.float32] = np.empty((0, REMEMBERED_PERIODS), np.float32)
        self._typical = period

    def __len__(self) -> int:
        return int(self.last.size)

    def record(self, channel: NDArray[np.int64], time: NDArray[np.int64]) -> None:
        """Record readings in any order; those older than a channel's newest one change nothing."""
        self._grow(channel)
        newer = time > self.last[channel]
        channel, time = channel[newer], time[newer]
        self._oldest[channel] = np.maximum(self._oldest[channel], self._age[channel])
        self._age[channel] = 0
        np.maximum.at(self.last, channel, time)

    def record_empty(self, channel: NDArray[np.int64], time: NDArray[np.int64]) -> None:
        """Record readings without a number: the silence of a channel that never had one counts from the first."""
        if not channel.size:
            return
        self._grow(channel)
        never = self.last[channel] == NEVER
        first = np.full(len(self), np.iinfo(np.int64).max)
        np.minimum.at(first, channel[never], time[never])
        self.last = np.where(first < np.iinfo(np.int64).max, first, self.last)

    def next_change(self, now: int) -> int | None:
        """Return the earliest time after `now` at which another channel turns silent or gone; None if none does."""
        last, limit = self.last[self.last > NEVER], self._limit[self.last > NEVER]
        ends = np.concatenate([last + limit, last + self._gone_after])
        ends = ends[ends >= now]
        return int(ends.min()) + 1 if ends.size else None

    def close(self, channel: NDArray[np.int64], time: NDArray[np.int64]) -> None:
        """Learn from all readings of a period that is final, in any order."""
        if not channel.size:
            return
        self._grow(channel)
        first = int(time.min())
        span = int(time.max()) - first + 1
        # A sort of one combined key costs a tenth of a sort by channel and time.
        key = np.sort(channel.astype(np.int64) * span + (time - first))
        channel, time = key // span, key % span + first
        new = np.concatenate([[True], np.diff(channel) > 0])
        gap = np.diff(time, prepend=0)
        present = channel[new]
        closed = self._closed[present]
        gap[new] = np.where(closed > NEVER, time[new] - closed, 0)
        longest = np.maximum(np.maximum.reduceat(gap, np.flatnonzero(new)), self._oldest[present])
        self._oldest[present] = 0
        self._closed[present] = np.maximum(closed, time[np.concatenate([np.diff(channel) > 0, [True]])])
        present, longest = present[longest > 0], longest[longest > 0]
        self._history[present, self._count[present] % REMEMBERED_PERIODS] = longest
        self._count[present] += 1
        self._learn()

    def check(self, now: int) -> BoolArray:
        """Return which channels are silent; one without any reading is not."""
        np.minimum(self.last, now + self._step, out=self.last)
        np.maximum(self._age, np.where(self.last > NEVER, now - self.last, 0), out=self._age)
        return self.is_silent(now)

    def is_silent(self, now: int) -> BoolArray:
        """Return the same as `check`, without a change of state; `now` may be ahead of event time."""
        return np.asarray((self.last > NEVER) & (now - self.last > self._limit))

    def gone(self, now: int) -> BoolArray:
        """Return which channels have been silent for longer than `gone_after`."""
        return np.asarray((self.last > NEVER) & (now - self.last > self._gone_after))

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return settings and arrays for a state file."""
        arrays = {name.lstrip("_"): getattr(self, name).copy() for name in STORED}
        return {"grid": [self._step, self._period]}, arrays

    def restore(self, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Load a state."""
        if settings["grid"] != [self._step, self._period]:
            raise StateError("the usual silences were learned on another grid")
        for name in STORED:
            setattr(self, name, arrays[name.lstrip("_")].copy())
        self._learn()

    def _grow(self, channel: NDArray[np.int64]) -> None:
        more = int(channel.max(initial=-1)) + 1 - len(self)
        if more <= 0:
            return
        self.last, self._closed = (np.append(old, np.full(more, NEVER)) for old in (self.last, self._closed))
        self._age, self._oldest, self._count = (
            np.append(old, np.zeros(more, np.int64)) for old in (self._age, self._oldest, self._count)
        )
        self._history = np.concatenate([self._history, np.zeros((more, REMEMBERED_PERIODS), np.float32)])
        self.usual = np.append(self.usual, np.full(more, self._typical))
        self._limit = np.append(self._limit, np.full(more, self._find_limit(self._typical, self._typical)))

    def _learn(self) -> None:
        """Update the usual silences and the limits."""
        known = self._count >= MIN_PERIODS
        ordered = np.sort(self._history, axis=1)[:, ::-1].astype(np.int64)
        rank = np.where(known, 1 + np.minimum(self._count, REMEMBERED_PERIODS) // PERIODS_PER_RANK, 0)
        own = np.take_along_axis(ordered, rank[:, None], axis=1)[:, 0]
        self._typical = int(np.median(own[known])) if known.any() else self._period
        self.usual = np.where(known, own, np.maximum(own, self._typical))
        longer = np.clip(ordered[:, 1], self.usual, MAX_FACTOR * self.usual)
        self._limit = self._find_limit(self.usual, longer)

    def _find_limit(self, usual: Any, longer: Any) -> Any:
        return np.clip(usual + longer + self._step, 2 * self._step, self._gone_after)
