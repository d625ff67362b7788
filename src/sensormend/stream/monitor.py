"""`ChannelMonitor` tracks which channels report, are silent or faulty; `Silence` learns how long each may be silent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.errors import StateError
from sensormend.pipeline.channel_states import STATES, ChannelName
from sensormend.pipeline.cleaner import NEVER, CleanedPeriod
from sensormend.pipeline.faults import MAX_SLOTS_APART
from sensormend.pipeline.grid import Grid, is_fill
from sensormend.pipeline.health import Health
from sensormend.pipeline.maintenance import Maintenance
from sensormend.pipeline.options import EVERY
from sensormend.readings import Flag, NameIndex, Readings, Rows, grown
from sensormend.recovery import BoolArray
from sensormend.stream.alert_messages import one_per_incident
from sensormend.stream.alerts import Alerts, period_verdict
from sensormend.stream.deliveries import Alert

__all__ = ["ChannelMonitor", "Silence"]

REMEMBERED_PERIODS = 28
"""The number of periods with readings whose longest silence is stored for each channel: four weeks of days or more."""

PERIODS_PER_RANK = 9
"""The usual silence is the second longest of those stored, and one rank lower for each of this many periods: the fifth
of 28. A few outages do not make the next one usual; weekends, of which there are five in 28 working days, are usual."""

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
        size = int(channel.max(initial=-1)) + 1
        if size <= len(self):
            return
        self.last, self._closed = grown(self.last, size, NEVER), grown(self._closed, size, NEVER)
        self._age, self._oldest, self._count, self._history = (
            grown(old, size) for old in (self._age, self._oldest, self._count, self._history)
        )
        self.usual = grown(self.usual, size, self._typical)
        self._limit = grown(self._limit, size, self._find_limit(self._typical, self._typical))

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


class ChannelMonitor:
    """Tracks which channels report, are silent or faulty, and returns the alerts; sensors may be added later."""

    def __init__(
        self,
        grid: Grid,
        gone_after: int,
        sensors: NameIndex,
        variables: NameIndex,
        alerts: Alerts,
        fill: Mapping[str, Sequence[float]],
    ) -> None:
        self._fill = [fill.get(name, fill.get(EVERY, ())) for name in variables.all]
        self._grid, self._sensors, self._variables, self.alerts = grid, sensors, variables, alerts
        self.silence = Silence(grid.step, grid.period, gone_after)
        self._removed: BoolArray = np.zeros(0, dtype=bool)
        self._judged: BoolArray = np.zeros(0, dtype=bool)
        self._channel_names: Sequence[ChannelName] = ()

    def record(self, readings: Readings) -> None:
        """Record readings, slot by slot; one without a number, or with a fill value, does not end a silence."""
        empty = self._is_empty(readings)
        channel = self._channels(readings)
        self.silence.record(channel[~empty], readings.time[~empty])
        self.silence.record_empty(channel[empty], readings.time[empty])

    def learn(self, readings: Readings) -> None:
        """Learn the usual silences from the readings of a period that is over."""
        readings = readings.taken(~self._is_empty(readings))
        self.silence.close(self._channels(readings), readings.time)

    def _is_empty(self, readings: Readings) -> BoolArray:
        return ~np.isfinite(readings.value) | is_fill(readings, self._fill)

    def close(self, cleaned_period: CleanedPeriod) -> list[Alert]:
        """Apply a period that is over, and return its alerts."""
        grid, verdict = self._grid, period_verdict(cleaned_period, self._grid)
        self._note_judged(cleaned_period.rows)
        return self._incidents(
            self.alerts.close_period(cleaned_period.rows, grid, grid.period_start(cleaned_period.period), verdict)
        )

    def provisional(self, cleaned_period: CleanedPeriod, now: int) -> list[Alert]:
        """Apply an open period as of `now`, and return its alerts."""
        return self._incidents(
            self.alerts.apply_verdict(period_verdict(cleaned_period, self._grid), now, self._grid.step)
        )

    def check_silence(self, now: int, maintenance: Maintenance, counting: BoolArray | None = None) -> list[Alert]:
        """Check which channels are silent at the end of a slot, and return the alerts.

        `counting` are the sensors whose silence raises an alert; None for all.
        """
        ignored = self._with_note(now, maintenance)
        if counting is not None:
            counts = np.repeat(counting, len(self._variables))[: ignored.size]
            ignored[: counts.size] |= ~counts
        silent, last, gone = self.silence.check(now) & ~ignored, self.silence.last, self.silence.gone(now)
        usual = np.where(ignored, NEVER, self.silence.usual)
        self._removed = self._with_note(now, maintenance, "removed")
        return self._incidents(
            self.alerts.check_silence(self._names(), silent, last, now, usual, gone, self._removed, self._grid.step)
        )

    def is_silent(self, time: int, maintenance: Maintenance) -> BoolArray:
        """Return which channels are silent at a time, without a change of state."""
        return self.silence.is_silent(time) & ~self._with_note(time, maintenance)

    def health(self, most: int | None = None) -> list[Health]:
        """Return the health of every channel that is not removed, or of as many with the worst states."""
        names = self._names()
        return self.alerts.health(names, self.silence.last, *self._removed_and_judged(), most)

    @property
    def counts(self) -> dict[str, int]:
        """The number of sensors in each state; a sensor has the worst state of its variables."""
        names = self._names()
        removed, judged = self._removed_and_judged()
        states = self.alerts.states(names, judged)
        states[removed | (self.silence.last == NEVER)] = len(STATES)
        worst = np.full(len(self._sensors), len(STATES))
        np.minimum.at(worst, np.arange(len(names)) // len(self._variables), states)
        return dict(zip(STATES, np.bincount(worst, minlength=len(STATES)).tolist(), strict=False))

    def _removed_and_judged(self) -> tuple[BoolArray, BoolArray]:
        """Return which channels are removed, and which were ever judged."""
        return _resized(self._removed, len(self.silence)), _resized(self._judged, len(self.silence))

    def _note_judged(self, rows: Rows) -> None:
        """Remember the channels with a reading that was judged."""
        rows = rows.taken((rows.flag != Flag.NOT_EVALUATED) & (rows.flag != Flag.MISSING))
        channel = self._sensors.codes(rows.sensors, rows.sensor) * len(self._variables)
        channel += self._variables.codes(rows.variables, rows.variable)
        self._judged = _resized(self._judged, max(self._judged.size, int(channel.max(initial=-1)) + 1))
        self._judged[channel] = True

    def _incidents(self, alerts: list[Alert]) -> list[Alert]:
        return self.alerts.identify(one_per_incident(alerts, MAX_SLOTS_APART * self._grid.step))

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return settings and arrays for a state file, without the alerts."""
        settings, arrays = self.silence.state()
        return {**settings, "removed": np.flatnonzero(self._removed).tolist()}, {**arrays, "judged": self._judged}

    def restore(self, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Load a state."""
        self.silence.restore(settings, arrays)
        self._removed = np.zeros(len(self.silence), dtype=bool)
        self._removed[settings["removed"]] = True
        self._judged = arrays["judged"].copy()

    def _channels(self, readings: Readings) -> NDArray[np.int64]:
        return (readings.sensor * len(self._variables) + readings.variable).astype(np.int64, copy=False)

    def _names(self) -> Sequence[ChannelName]:
        """Return sensor and variable of every channel."""
        if len(self._channel_names) != len(self.silence):
            names = [(sensor, variable) for sensor in self._sensors.all for variable in self._variables.all]
            self._channel_names = names[: len(self.silence)]
        return self._channel_names

    def _with_note(self, now: int, maintenance: Maintenance, *actions: str) -> BoolArray:
        """Return which channels have a note now; only notes with one of `actions` if any are given."""
        notes = Maintenance(tuple(note for note in maintenance.notes if not actions or note.action in actions))
        cells = None
        if notes.notes:
            slot = np.array([now - self._grid.step])
            cells = notes.hidden(self._sensors.all, self._variables.all, slot, self._grid.step)
        count = len(self.silence)
        return np.zeros(count, dtype=bool) if cells is None else cells.reshape(-1)[:count]


def _resized(mask: BoolArray, size: int) -> BoolArray:
    """Return a mask of another size; what is new is False."""
    resized = np.zeros(size, dtype=bool)
    resized[: mask.size] = mask[:size]
    return resized
