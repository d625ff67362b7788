"""`Alerts` keeps the state of every channel and raises one alert per incident; `Muting` holds back muted ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, astuple, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.errors import ConfigError
from sensormend.pipeline.channel_states import STATES, ChannelName, ChannelState, channel_states
from sensormend.pipeline.cleaner import NEVER, CleanedPeriod
from sensormend.pipeline.faults import MAX_SLOTS_APART, ReadingSums
from sensormend.pipeline.grid import Grid
from sensormend.pipeline.health import Health
from sensormend.pipeline.maintenance import Maintenance
from sensormend.pipeline.sentences import counted, how_long, readable, who
from sensormend.readings import DAY, HOUR, REASONS, Flag, Rows
from sensormend.recovery import BoolArray
from sensormend.stream.alert_messages import (
    WITHDRAWN,
    OpenFault,
    faulty_sentence,
    healthy_sentence,
    one_per_sensor,
    silent_sentence,
    sum_readings,
    withdrawn_sentence,
)
from sensormend.stream.deliveries import Alert, AlertedChannel, identified

__all__ = [
    "Alerts",
    "ChannelRecord",
    "Muting",
    "PeriodVerdict",
    "period_verdict",
]

SPIKE, FILL, IMPLAUSIBLE = (REASONS.index(reason) for reason in ("spike", "fill", "implausible"))

FAULTY_SHARE = 0.5
"""The fraction of faulty readings from which a period is faulty: a sensor that breaks at noon is faulty that day."""

CHECKS_TO_RESUME = 2
"""The number of checks with a new reading after which a silent sensor counts as reporting again, whether its readings
are right or wrong. The alert that it is healthy again follows when it has reported for as long as it was silent, at
least one period and at most `well_after`, and its newest reading is neither wrong nor doubtful: a sensor that dies
slowly, with a few readings a day, is one incident."""

RELAPSE_PERIODS = 7
"""The number of periods after the end of an incident within which a new one is a relapse. A relapse ends after this
many periods without a fault or silence, and after twice, three times, ... as many for each further relapse."""

MAX_RELAPSES = 4
"""The number of consecutive relapses after which the number of periods does not grow any further."""

MIN_JOINING_READINGS = 2
"""The minimum number of readings of a sure fault that joins the alert of another one that began at the same time."""


@dataclass
class ChannelRecord:
    """What is remembered of one channel that is, or recently was, not healthy.

    An incident begins with an alert and ends with the alert that the channel is healthy again. The state may change
    within an incident; there is at most one alert for each state.

    Attributes
    ----------
    faulty, reason, since
        Whether it is faulty, the reason, and the start of being faulty or not.
    provisional
        Whether it is faulty by a verdict on an open period.
    streak, streak_start
        Periods in a row that contradict `faulty`, and the start of the first of them.
    doubtful
        Whether most readings of its last judged period were doubtful while it was faulty: neither wrong nor sound.
    fault
        The fault of the faulty periods among them; None if there is none.
    silent_since
        The start of the silence; None while it reports.
    gone
        Whether it has been silent for longer than `gone_after`.
    reports, newest, resumed
        The number of checks with a new reading during the silence, the newest reading at the last of them, and the
        first of these readings.
    last_silence
        The start of the last silence that is over.
    alerted
        The states of the alerts of the open incident; empty if none is open.
    incident
        The id of the open or the last incident.
    fault_end
        The end of the last slot with a wrong reading, or of the last doubtful period, of its fault.
    ended, relapses
        The end of the last incident, and the number of relapses in a row.
    times, last_fault, first_at
        The number of faults since the incident before all these relapses began, the number of the last of them in the
        model, -1 for none, and the start of the first.
    """

    since: int
    faulty: bool = False
    reason: str = ""
    provisional: bool = False
    streak: int = 0
    streak_start: int = 0
    doubtful: bool = False
    fault: OpenFault | None = None
    silent_since: int | None = None
    gone: bool = False
    reports: int = 0
    newest: int = NEVER
    resumed: int = 0
    last_silence: int = 0
    alerted: list[str] = field(default_factory=list)
    incident: str = ""
    fault_end: int = 0
    ended: int = NEVER
    relapses: int = 0
    times: int = 0
    last_fault: int = -1
    first_at: int = 0

    @property
    def wrong(self) -> bool:
        """Whether its fault is open by its last judged period; sound periods since then mean that it recovers."""
        return self.faulty and not self.streak and not self.doubtful

    @property
    def alerted_state(self) -> str:
        """The state of its last alert."""
        return self.alerted[-1] if self.alerted else ChannelState.HEALTHY

    @property
    def sound_since(self) -> int:
        """The end of its fault, by the sound periods since then."""
        return min(self.fault_end or self.streak_start, self.streak_start)

    def find_since(self, state: ChannelState) -> int:
        """Return the start of its state."""
        if self.silent_since is not None:
            return self.silent_since
        return self.sound_since if state is ChannelState.RECOVERING and self.faulty and self.streak else self.since

    def count_faults(self, numbers: Sequence[int]) -> None:
        """Count the faults among these that are new; a fault of several periods is one."""
        new = [number for number in numbers if number > self.last_fault]
        self.times, self.last_fault = self.times + len(new), max([*new, self.last_fault])

    def end_fault(self) -> None:
        """Mark it as not faulty."""
        self.faulty, self.reason, self.fault, self.streak, self.doubtful = False, "", None, 0, False


@dataclass(frozen=True)
class PeriodVerdict:
    """The faulty channels by the readings of one period so far.

    Attributes
    ----------
    faults
        The surest open fault of each channel that has one; spikes do not count.
    questionable
        Channels whose newest reading is wrong or doubtful.
    episodes
        The numbers of all faults of each channel with wrong readings in the period, also of those that are over.
    """

    faults: dict[ChannelName, OpenFault] = field(default_factory=dict)
    questionable: frozenset[ChannelName] = frozenset()
    episodes: dict[ChannelName, list[int]] = field(default_factory=dict)


def period_verdict(cleaned_period: CleanedPeriod, grid: Grid) -> PeriodVerdict:
    """Return the verdict of a period, which may be open: then it has the slots so far."""
    rows = cleaned_period.rows
    if not len(rows):
        return PeriodVerdict()
    slots = int(rows.time[-1] - rows.time[0]) // grid.step + 1
    flag, present, wrong = _by_channel(rows, slots)
    sensor, variable = rows.sensor[::slots].astype(np.int64), rows.variable[::slots].astype(np.int64)
    newest = np.arange(sensor.size), slots - 1 - present[:, ::-1].argmax(axis=1)
    questionable = present.any(axis=1) & (wrong[newest] | (flag[newest] == Flag.SUSPECT))
    channels = sensor * len(rows.variables) + variable
    start, times = grid.period_start(cleaned_period.period), grid.slot_times(cleaned_period.period)[:slots]
    faults: dict[ChannelName, OpenFault] = {}
    episodes: dict[ChannelName, list[int]] = {}
    for fault in cleaned_period.faults:
        channel = int(fault.sensor) * len(rows.variables) + fault.variable
        row = min(int(np.searchsorted(channels, channel)), channels.size - 1)
        if fault.kind == "spike" or channels[row] != channel:
            continue
        mask = wrong[row] & (times >= fault.start)
        if fault.end is not None:
            mask &= times < fault.end
        name = _channel_name(rows, slots, row)
        if mask.any():
            episodes.setdefault(name, []).append(fault.id)
        if fault.end is not None or not mask.any() or (name in faults and faults[name].confidence >= fault.probability):
            continue
        summed = sum_readings(rows, slice(row * slots, (row + 1) * slots), mask)
        summed.reasons, summed.size, summed.rate = {fault.kind: summed.readings}, fault.size, fault.rate
        summed.start, summed.confidence = fault.start, fault.probability
        summed.readings += max(0, (start - fault.start) // grid.step)
        faults[name] = summed
    # The model never sees impossible readings; that they are wrong is sure.
    impossible = wrong & (rows.reason.reshape(-1, slots) == IMPLAUSIBLE)
    for row in np.flatnonzero(present.any(axis=1) & impossible[newest]).tolist():
        if (name := _channel_name(rows, slots, row)) not in faults:
            run = impossible[row] & ((present[row] & ~impossible[row])[::-1].cumsum()[::-1] == 0)
            faults[name] = sum_readings(rows, slice(row * slots, (row + 1) * slots), run)
            faults[name].confidence = 1.0
    names = (_channel_name(rows, slots, row) for row in np.flatnonzero(questionable).tolist())
    return PeriodVerdict(faults, frozenset(names), episodes)


def _by_channel(rows: Rows, slots: int) -> tuple[NDArray[np.int8], BoolArray, BoolArray]:
    """Return by channel and slot the flags, where a reading is, and where it is wrong and not a spike."""
    flag, reason = rows.flag.reshape(-1, slots), rows.reason.reshape(-1, slots)
    # A fill value says nothing about the sensor; its silence is noticed elsewhere.
    present = (rows.n.reshape(-1, slots) > 0) & (reason != FILL)
    return flag, present, present & (flag == Flag.FAIL) & (reason != SPIKE)


def _channel_name(rows: Rows, slots: int, row: int) -> ChannelName:
    first = row * slots
    return rows.sensors[int(rows.sensor[first])], rows.variables[int(rows.variable[first])]


class Alerts:
    """The state of every channel, and the alerts when it changes.

    Parameters
    ----------
    after
        Faulty periods in a row until a fault that is not sure is reported; periods in which the sensor cannot be
        judged do not count.
    well_after
        Sound periods in a row until a faulty sensor is healthy again.
    min_duration, min_readings
        The duration and the number of readings after which a sure fault is reported: the options `stood` and
        `stood_readings`.

    Examples
    --------
    >>> alerts, no = Alerts(), np.array([False])
    >>> def check(silent, last, now):
    ...     last, usual = np.array([last * HOUR]), np.array([HOUR])
    ...     return alerts.check_silence([("S12", "")], np.array([silent]), last, now * HOUR, usual, no, no, HOUR)
    >>> check(False, 8, 9)
    []
    >>> [alert.sentence for alert in check(True, 9, 13)]
    ['S12 turned silent: no reading since 1970-01-01 09:00; it usually reports at least every hour']
    >>> check(True, 9, 14)
    []
    """

    def __init__(self, *, after: int = 2, well_after: int = 2, min_duration: int = HOUR, min_readings: int = 3) -> None:
        if after < 1 or well_after < 1:
            raise ConfigError("alerts come after one period or more: after and well_after are at least 1")
        if min_readings < 1:
            raise ConfigError("alerts come after one reading or more: stood_readings is at least 1")
        self._after, self._well_after = after, well_after
        self.min_duration, self._min_readings = min_duration, min_readings
        self._channels: dict[ChannelName, ChannelRecord] = {}
        # The channels of the last `PeriodVerdict.questionable`, and since when each of them is.
        self._questionable: dict[ChannelName, int] = {}
        self._start: int | None = None
        self._period = DAY
        self._names: Sequence[ChannelName] = ()
        self._places: dict[ChannelName, int] = {}

    @property
    def waiting(self) -> bool:
        """Whether a state may change by time alone: a sensor reports again, and may become healthy."""
        return any(channel.alerted and channel.silent_since is None for channel in self._channels.values())

    def apply_verdict(self, verdict: PeriodVerdict, now: int, step: int) -> list[Alert]:
        """Apply the verdict of an open period and return its alerts; `step` is the length of a slot."""
        self._begin(now)
        self._questionable = {name: self._questionable.get(name, now) for name in verdict.questionable}
        alerts = []
        for name, fault in self._due_faults(verdict, now, step).items():
            channel = self._channel(name, now)
            channel.provisional |= not channel.faulty
            alerts.append(self._turn_faulty(name, channel, fault, now))
        return _sorted(alerts)

    def close_period(self, rows: Rows, grid: Grid, start: int, verdict: PeriodVerdict) -> list[Alert]:
        """Apply the rows of a final period, by channel and slot, and its verdict; return the alerts."""
        self._begin(start)
        self._period, slots, end = grid.period, grid.slots, start + grid.period
        if not len(rows):
            return []
        self._questionable = {name: self._questionable.get(name, end) for name in verdict.questionable}
        flag, present, wrong = _by_channel(rows, slots)
        any_wrong = np.asarray(wrong.any(axis=1))
        faulty = any_wrong & (wrong.sum(axis=1) >= FAULTY_SHARE * present.sum(axis=1))
        judged = ((flag == Flag.GOOD) | (flag == Flag.SUSPECT)).any(axis=1)
        doubtful = (present & (flag == Flag.SUSPECT)).sum(axis=1) >= FAULTY_SHARE * present.sum(axis=1)
        sure = self._due_faults(verdict, end, grid.step)
        alerts: list[Alert | None] = []
        for name, fault in sure.items():
            alerts.append(self._turn_faulty(name, self._channel(name, start), fault, end))
        for row in np.flatnonzero(faulty).tolist():
            name = _channel_name(rows, slots, row)
            if name not in sure:
                fault = sum_readings(rows, slice(row * slots, (row + 1) * slots), wrong[row])
                alerts.append(self._apply_faulty_period(name, fault, start, end))
        if self._channels:
            for row in np.flatnonzero(judged & ~faulty).tolist():
                channel = self._channels.get(name := _channel_name(rows, slots, row))
                if channel is None or name in sure:
                    continue
                if channel.provisional and not any_wrong[row]:
                    # While its newest reading is doubtful, the next period decides.
                    if name not in verdict.questionable:
                        alerts.append(self._withdraw(name, channel, end))
                elif channel.faulty and any_wrong[row]:
                    channel.streak, channel.doubtful = 0, False
                elif channel.faulty and doubtful[row]:
                    channel.doubtful, channel.fault_end = True, end
                else:
                    alerts.append(self._apply_sound_period(name, start, end))
        for row in np.flatnonzero(any_wrong).tolist():
            channel = self._channels.get(_channel_name(rows, slots, row))
            if channel is not None:
                channel.provisional = False
                channel.fault_end = start + (int(np.flatnonzero(wrong[row])[-1]) + 1) * grid.step
                if channel.alerted:
                    channel.count_faults(verdict.episodes.get(_channel_name(rows, slots, row), ()))
        return _sorted(alerts)

    def check_silence(
        self,
        names: Sequence[ChannelName],
        silent: BoolArray,
        last: NDArray[np.int64],
        now: int,
        usual: NDArray[np.int64],
        gone: BoolArray,
        removed: BoolArray,
        step: int,
    ) -> list[Alert]:
        """Apply the silent channels of `Silence`; a sensor all of whose variables turn silent at once has one alert.

        Parameters
        ----------
        names
            Sensor and variable of every channel; channels keep their places, new ones come at the end.
        silent, last
            Which channels are silent, and the time of each channel's last reading.
        now
            Event time.
        usual
            The usual silence of each channel; `NEVER` for one that raises no alert. A channel without a reading for
            longer than that, whose last reading is as old as that of a channel that turns silent, turns silent too.
        gone
            Which channels have been silent for so long that they are gone.
        removed
            Which channels the notes on maintenance remove: they raise no alert.
        step
            The length of a slot.
        """
        self._begin(now)
        self._index(names)
        for place in np.flatnonzero(removed).tolist():
            self._channels.pop(names[place], None)
        silent = silent & ~removed
        before = self._mask(name for name, channel in self._channels.items() if channel.silent_since is not None)
        turning = silent & ~before
        if turning.any():
            turning |= _overdue(turning, last, now, usual, step) & ~before & ~removed
        alerts = [
            self._turn_silent(names[place], int(last[place]), now, int(usual[place]))
            for place in np.flatnonzero(turning).tolist()
        ]
        for place in np.flatnonzero(before).tolist():
            alerts.append(self._check_resumed(names[place], bool(silent[place]), int(last[place]), now))
            channel = self._channels[names[place]]
            if channel.silent_since is not None:
                # A channel that is gone stays so when it delivers old readings.
                channel.gone |= bool(gone[place])
        for name, channel in self._channels.items():
            if channel.alerted and channel.silent_since is None and not channel.faulty:
                alerts.append(self._check_recovered(name, channel, now))
        absent = self._mask(name for name, channel in self._channels.items() if channel.gone)
        return one_per_sensor(_sorted(alerts), names, np.where(absent, NEVER, last))

    def states(self, names: Sequence[ChannelName], judged: BoolArray) -> NDArray[np.int8]:
        """Return the state of every channel, as an index into `STATES`; `judged` is for `channel_states`."""
        self._index(names)
        channels = self._channels.items()
        return channel_states(
            ended=self._mask(name for name, channel in channels if channel.gone),
            silent=self._mask(name for name, channel in channels if channel.silent_since is not None),
            faulty=self._mask(name for name, channel in channels if channel.wrong),
            doubtful=self._mask(name for name, channel in channels if channel.doubtful)
            | self._mask(name for name in self._questionable if name in self._places),
            open_incident=self._mask(name for name, channel in channels if channel.faulty or channel.alerted),
            judged=judged,
        )

    def health(
        self, names: Sequence[ChannelName], last: NDArray[np.int64], removed: BoolArray, judged: BoolArray,
        most: int | None = None,
    ) -> list[Health]:  # fmt: skip
        """Return the health of every channel that has reported and is not removed; arguments as in `check_silence`.

        With `most` only of so many, those with the worst states.
        """
        entries: list[Health] = []
        states, places = self.states(names, judged), np.flatnonzero(~removed)
        if most is not None:
            places = places[np.argsort(states[places], kind="stable")]
        for place in places.tolist():
            if len(entries) == most:
                break
            name, newest = names[place], int(last[place])
            channel = self._channels.get(name)
            if channel is None and newest == NEVER:
                continue
            state, since = STATES[states[place]], self._start or 0
            if channel is not None:
                since = channel.find_since(state)
            if state is ChannelState.SUSPECT and (channel is None or not channel.faulty):
                since = self._questionable[name]
            reason = channel.reason if channel is not None and state is ChannelState.FAULTY else ""
            entries.append(Health(*name, state.value, reason, since, None if newest == NEVER else newest))
        return entries

    def identify(self, alerts: Sequence[Alert]) -> list[Alert]:
        """Return alerts with the ids of their incidents, and remember these for the alerts that follow."""
        result = [identified(alert) for alert in alerts]
        for alert in result:
            for entry in alert.channels:
                channel = self._channels.get((entry.sensor, entry.variable))
                if channel is not None:
                    channel.incident = alert.id
        return result

    def state(self) -> dict[str, Any]:
        """Return the state as JSON."""
        return {
            "start": self._start,
            "period": self._period,
            "channels": [[*name, asdict(channel)] for name, channel in self._channels.items()],
            "questionable": [[*name, since] for name, since in sorted(self._questionable.items())],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Load a state."""
        self._start, self._period = state["start"], state["period"]
        self._questionable = {(sensor, variable): since for sensor, variable, since in state["questionable"]}
        self._channels = {}
        for sensor, variable, values in state["channels"]:
            fault = values["fault"] and OpenFault(**{**values["fault"], "sums": ReadingSums(**values["fault"]["sums"])})
            self._channels[sensor, variable] = ChannelRecord(**{**values, "fault": fault})

    def _begin(self, time: int) -> None:
        self._start = time if self._start is None else self._start

    def _channel(self, name: ChannelName, time: int) -> ChannelRecord:
        return self._channels.setdefault(name, ChannelRecord(self._start or time))

    def _index(self, names: Sequence[ChannelName]) -> None:
        """Index the names if they are new, and drop the channels that are no longer among them."""
        if names is self._names:
            return
        self._names, self._places = names, {name: place for place, name in enumerate(names)}
        self._channels = {name: channel for name, channel in self._channels.items() if name in self._places}

    def _mask(self, names: Iterable[ChannelName]) -> BoolArray:
        mask = np.zeros(len(self._names), dtype=bool)
        mask[[self._places[name] for name in names]] = True
        return mask

    def _due_faults(self, verdict: PeriodVerdict, now: int, step: int) -> dict[ChannelName, OpenFault]:
        """Return the sure faults that have lasted long enough, and those that began with one of them."""
        sure = [(name, fault) for name, fault in verdict.faults.items() if fault.sure]
        due = {
            name: fault
            for name, fault in sure
            if fault.readings >= self._min_readings and now - fault.start >= self.min_duration
        }
        # A fault that has been reported already brings no other one into an alert.
        reported = {name for name, channel in self._channels.items() if "faulty" in channel.alerted}
        starts = [fault.start for name, fault in due.items() if name not in reported]
        joining = {
            name: fault
            for name, fault in sure
            if name not in due
            and fault.readings >= min(MIN_JOINING_READINGS, self._min_readings)
            and any(abs(fault.start - start) <= MAX_SLOTS_APART * step for start in starts)
        }
        return due | joining

    def _turn_faulty(self, name: ChannelName, channel: ChannelRecord, fault: OpenFault, now: int) -> Alert | None:
        """Mark a channel as faulty, and return the alert if it is due."""
        channel.streak, channel.doubtful, channel.fault, channel.reason = 0, False, fault, fault.reason
        if not channel.faulty:
            channel.faulty, channel.since = True, fault.start
        if channel.silent_since is not None and not channel.reports:
            return None
        channel.silent_since, channel.gone, channel.reports = None, False, 0
        if "faulty" in channel.alerted:
            return None
        before = channel.alerted_state
        self._record_alert(channel, "faulty", now)
        again = before == "silent"
        text = faulty_sentence(who(*name), fault, channel.since, now, again=again) + self._relapse_note(channel)
        return _faulty_alert(name, channel, fault, before, now, text)

    def _record_alert(self, channel: ChannelRecord, state: str, now: int) -> None:
        """Record an alert in the incident of a channel, which may begin with it."""
        if not channel.alerted:
            relapse = channel.ended != NEVER and now - channel.ended <= RELAPSE_PERIODS * self._period
            channel.relapses = channel.relapses + 1 if relapse else 0
            channel.incident = ""
            if not relapse:
                channel.times, channel.first_at = 0, channel.since if state == "faulty" else now
        channel.alerted.append(state)

    def _sound_periods_needed(self, channel: ChannelRecord) -> int:
        """Return the number of sound periods until a relapsed channel is healthy again; 0 for others."""
        return RELAPSE_PERIODS * min(channel.relapses, MAX_RELAPSES)

    def _relapse_note(self, channel: ChannelRecord) -> str:
        """Return the addition to the sentence of a relapse."""
        if not channel.relapses:
            return ""
        needed = how_long(self._sound_periods_needed(channel) * self._period)
        # The fault that begins now is counted when its period is over.
        times = channel.times + (channel.alerted[-1] == "faulty")
        since = f" ({counted(times, 'fault')} since {readable(channel.first_at)})" if times > 1 else ""
        return f"; it comes and goes{since}, and counts as healthy again after {needed} without a fault or silence"

    def _apply_faulty_period(self, name: ChannelName, fault: OpenFault, start: int, end: int) -> Alert | None:
        """Apply a faulty period to a channel that has no sure fault."""
        channel = self._channel(name, start)
        if channel.fault is None:
            fault.start = max(fault.start, start)
            channel.streak_start, channel.fault = start, fault
        else:
            channel.fault.add(fault)
        if channel.faulty:
            channel.streak, channel.doubtful, channel.reason = 0, False, channel.fault.reason
            return None
        channel.streak += 1
        if channel.streak < self._after:
            return None
        return self._turn_faulty(name, channel, channel.fault, end)

    def _withdraw(self, name: ChannelName, channel: ChannelRecord, end: int) -> Alert | None:
        """Withdraw the provisional fault of a period that has none when it is final."""
        reason, before = channel.reason, channel.alerted_state
        channel.end_fault()
        channel.provisional = False
        if "faulty" not in channel.alerted:
            return None
        channel.alerted.remove("faulty")
        if channel.alerted or channel.silent_since is not None:
            return None
        text = withdrawn_sentence(who(*name), reason, channel.since)
        return Alert(*name, before, ChannelState.HEALTHY, WITHDRAWN, channel.since, end, text, channel.incident)

    def _apply_sound_period(self, name: ChannelName, start: int, end: int) -> Alert | None:
        """Apply a sound period to a channel that was not healthy."""
        channel = self._channels[name]
        if not channel.faulty:
            channel.streak, channel.streak_start, channel.fault, channel.fault_end = 0, 0, None, 0
            if channel == ChannelRecord(self._start or start):
                del self._channels[name]
            return None
        channel.streak_start = start if channel.streak == 0 else channel.streak_start
        channel.streak, channel.doubtful = channel.streak + 1, False
        if channel.streak < max(self._well_after, self._sound_periods_needed(channel)):
            return None
        fault_start, reason = channel.since, channel.reason
        channel.end_fault()
        channel.since = channel.sound_since
        if channel.silent_since is not None:
            return None
        before = channel.alerted_state
        channel.alerted, channel.ended = [], end
        begin = channel.first_at if channel.times > 1 else fault_start
        text = healthy_sentence(who(*name), "faulty", reason, begin, channel.since, channel.times)
        return Alert(*name, before, ChannelState.HEALTHY, "", channel.since, end, text, channel.incident)

    def _turn_silent(self, name: ChannelName, last: int, now: int, usual: int) -> Alert | None:
        channel = self._channel(name, now)
        channel.silent_since, channel.reports, channel.newest = last, 0, last
        if channel.alerted:
            return None
        self._record_alert(channel, "silent", now)
        text = silent_sentence(who(*name), last, usual) + self._relapse_note(channel)
        return Alert(*name, ChannelState.HEALTHY, "silent", "", last, now, text)

    def _check_resumed(self, name: ChannelName, silent: bool, last: int, now: int) -> Alert | None:
        """Check whether a silent channel reports again."""
        channel = self._channels[name]
        if silent:
            channel.reports, channel.newest = 0, max(last, channel.newest)
            return None
        if last > channel.newest:
            channel.resumed = last if channel.reports == 0 else channel.resumed
            channel.reports, channel.newest = channel.reports + 1, last
        if channel.reports < CHECKS_TO_RESUME:
            return None
        silent_since = channel.silent_since
        assert silent_since is not None
        channel.silent_since, channel.gone, channel.reports = None, False, 0
        if not channel.faulty or channel.fault is None:
            channel.since, channel.last_silence = channel.resumed, silent_since
            return None
        if "faulty" in channel.alerted:
            return None
        before = channel.alerted_state
        self._record_alert(channel, "faulty", now)
        text = faulty_sentence(who(*name), channel.fault, channel.since, now, again=True)
        return _faulty_alert(name, channel, channel.fault, before, now, text)

    def _check_recovered(self, name: ChannelName, channel: ChannelRecord, now: int) -> Alert | None:
        """Check whether a channel that was silent in the open incident and reports again is healthy again."""
        silent_since = channel.last_silence
        needed = min(max(channel.since - silent_since, self._period), self._well_after * self._period)
        needed = max(needed, self._sound_periods_needed(channel) * self._period)
        if now - channel.since < needed or name in self._questionable:
            return None
        before = channel.alerted_state
        channel.alerted, channel.ended = [], now
        text = healthy_sentence(who(*name), "silent", "", silent_since, channel.since)
        return Alert(*name, before, ChannelState.HEALTHY, "", channel.since, now, text, channel.incident)


def _overdue(turning: BoolArray, last: NDArray[np.int64], now: int, usual: NDArray[np.int64], step: int) -> BoolArray:
    """Return the channels that are silent for longer than usual, since about the last reading of one of `turning`."""
    times = np.unique(last[turning])
    after = np.minimum(np.searchsorted(times, last), times.size - 1)
    near = np.minimum(np.abs(times[after] - last), np.abs(times[np.maximum(after - 1, 0)] - last))
    return np.asarray((last > NEVER) & (usual > NEVER) & (now - last > usual) & (near <= MAX_SLOTS_APART * step))


def _faulty_alert(
    name: ChannelName, channel: ChannelRecord, fault: OpenFault, before: str, now: int, text: str
) -> Alert:
    """Return the alert that a channel is faulty, with its newest wrong reading."""
    value = fault.sums.last_value if math.isfinite(fault.sums.last_value) else None
    # Six digits: an estimate has no more.
    expected = float(f"{fault.last_expected:.6g}") if math.isfinite(fault.last_expected) else None
    entry = AlertedChannel(*name, channel.reason, channel.since, value, expected)
    return Alert(*name, before, "faulty", channel.reason, channel.since, now, text, channel.incident, (entry,))


def _sorted(alerts: Sequence[Alert | None]) -> list[Alert]:
    raised = (alert for alert in alerts if alert is not None)
    return sorted(raised, key=lambda alert: (alert.sensor, alert.variable))


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
