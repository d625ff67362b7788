"""`Alerts` keeps the state of every channel and raises one alert per incident; `ChannelMonitor` feeds it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.errors import ConfigError
from sensormend.io.options import EVERY
from sensormend.pipeline.grid import Grid, no_number
from sensormend.pipeline.health import Health
from sensormend.pipeline.maintenance import Maintenance
from sensormend.pipeline.mender import NEVER, Mended
from sensormend.pipeline.sentences import how_long, who
from sensormend.readings import DAY, HOUR, REASONS, Flag, Readings, Rows
from sensormend.recovery import BoolArray
from sensormend.stream.alert_messages import (
    TAKEN_BACK,
    Evidence,
    add_up,
    faulty_sentence,
    one_per_incident,
    one_per_sensor,
    silent_sentence,
    taken_back_sentence,
    well_sentence,
)
from sensormend.stream.buffer import NameIndex
from sensormend.stream.deliveries import Alert
from sensormend.stream.silence import Silence

__all__ = [
    "SURE",
    "Alerts",
    "ChannelMonitor",
    "ChannelName",
    "ChannelState",
    "OpenFault",
    "PeriodVerdict",
    "period_verdict",
]

ChannelName = tuple[str, str]
"""Sensor and variable of a channel."""

SURE = 0.95
"""The `Fault.confidence` from which a fault is sure."""

SPIKE = REASONS.index("spike")

HALF = 0.5
"""The fraction of faulty readings from which a period is faulty: a sensor that breaks at noon is faulty that day."""

HEARD = 2
"""Checks with a new reading after which a silent sensor reports again, if its newest reading is neither wrong nor
doubtful. The alert that it is well again follows when it has reported for as long as it was silent, at least one period
and at most `well_after`: a sensor that dies slowly, with a few readings a day, is one incident."""

RELAPSE = 7
"""Periods since the end of the last incident within which a new one is a relapse. A relapse ends after as many periods
without a fault or silence, and after twice, three times, ... as many for every further relapse."""

MOST_RELAPSES = 4

TOGETHER = 2
"""Most slots between the failures, or silences, of two sensors of one incident."""

WORST = ("faulty", "silent", "gone", "well")
"""States from worst to best; a sensor has the worst state of its variables."""

FEWEST = 2
"""Fewest readings of a sure fault that joins the alert of another one that began at the same time."""

STORED_AS = {"streak": "told", "evidence": "found"}
"""The names of two fields of `ChannelState` in state files."""


@dataclass
class ChannelState:
    """The state of one channel that is, or recently was, not well.

    An incident begins with an alert and ends with the alert that the channel is well again. The state may change within
    an incident; there is at most one alert for each state.

    Attributes
    ----------
    faulty, reason, since
        Whether it is faulty, the reason, and the start of being faulty or not.
    provisional
        Whether it is faulty by a verdict on an open period.
    streak, first
        Periods in a row that contradict `faulty`, and the start of the first of them.
    evidence
        The sums over the faulty periods among them; None where there is none.
    silent
        The start of the silence; None while it reports.
    gone
        Whether it has been silent for longer than `gone_after`.
    heard, seen, at
        The number of checks with a new reading during the silence, the newest reading at the last of them, and the
        first of these readings.
    fell
        The start of the last silence that is over.
    alerted
        The states of the alerts of the open incident; empty where none is open.
    back, relapses
        The end of the last incident, and the number of relapses in a row.
    """

    since: int
    faulty: bool = False
    reason: str = ""
    provisional: bool = False
    streak: int = 0
    first: int = 0
    evidence: Evidence | None = None
    silent: int | None = None
    gone: bool = False
    heard: int = 0
    seen: int = NEVER
    at: int = 0
    fell: int = 0
    alerted: list[str] = field(default_factory=list)
    back: int = NEVER
    relapses: int = 0

    @property
    def state(self) -> str:
        """Its state, of `STATES`; silence takes precedence."""
        if self.silent is not None:
            return "gone" if self.gone else "silent"
        return "faulty" if self.faulty else "well"

    @property
    def alerted_state(self) -> str:
        """The state of its last alert."""
        return self.alerted[-1] if self.alerted else "well"


@dataclass(frozen=True)
class OpenFault:
    """An open fault of a channel.

    Attributes
    ----------
    start
        Its first wrong slot, microseconds since 1970, UTC.
    readings
        The number of its readings; each slot before the period counts as one.
    confidence
        The probability that it is a fault.
    evidence
        The sums over its readings in this period.
    """

    start: int
    readings: int
    confidence: float
    evidence: Evidence

    @property
    def sure(self) -> bool:
        """Whether it is sure enough for an alert."""
        return self.confidence >= SURE


@dataclass(frozen=True)
class PeriodVerdict:
    """The faulty channels by the readings of one period so far.

    Attributes
    ----------
    faults
        The surest open fault of each channel that has one; spikes do not count.
    odd
        Channels whose newest reading is wrong or doubtful.
    """

    faults: dict[ChannelName, OpenFault] = field(default_factory=dict)
    odd: frozenset[ChannelName] = frozenset()


def period_verdict(mended: Mended, grid: Grid) -> PeriodVerdict:
    """Return the verdict of a period, which may be open."""
    rows, slots = mended.rows, grid.slots
    if not len(rows):
        return PeriodVerdict()
    flag, here, wrong = _by_channel(rows, slots)
    sensor, variable = rows.sensor[::slots].astype(np.int64), rows.variable[::slots].astype(np.int64)
    newest = slots - 1 - here[:, ::-1].argmax(axis=1)
    every = np.arange(sensor.size)
    doubtful = (flag == Flag.SUSPECT)[every, newest]
    odd = np.flatnonzero(here.any(axis=1) & (wrong[every, newest] | doubtful)).tolist()
    channel = sensor * len(rows.variables) + variable
    first, times = grid.start_of(mended.period), grid.times_of(mended.period)
    faults: dict[ChannelName, OpenFault] = {}
    for episode in mended.faults:
        fault = episode.fault
        mine = episode.sensor * len(rows.variables) + fault.variable
        row = min(int(np.searchsorted(channel, mine)), channel.size - 1)
        if episode.end is not None or fault.kind == "spike" or channel[row] != mine:
            continue
        its = wrong[row] & (times >= episode.start)
        name = _channel_name(rows, slots, row)
        if not its.any() or (name in faults and faults[name].confidence >= fault.confidence):
            continue
        sums = add_up(rows, slice(row * slots, (row + 1) * slots), its)
        sums.reasons, sums.size, sums.rate = {fault.kind: sums.count}, fault.size, fault.rate
        readings = sums.count + max(0, (first - episode.start) // grid.step)
        faults[name] = OpenFault(episode.start, readings, fault.confidence, sums)
    return PeriodVerdict(faults, frozenset(_channel_name(rows, slots, row) for row in odd))


def _by_channel(rows: Rows, slots: int) -> tuple[NDArray[np.int8], BoolArray, BoolArray]:
    """Return by channel and slot the flags, where a reading is, and where it is wrong and not a spike."""
    flag, here = rows.flag.reshape(-1, slots), rows.n.reshape(-1, slots) > 0
    return flag, here, here & (flag == Flag.FAIL) & (rows.reason.reshape(-1, slots) != SPIKE)


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
        Sound periods in a row until a faulty sensor is well again.
    stood, stood_readings
        The duration and the number of readings after which a sure fault is reported.

    Examples
    --------
    >>> alerts, yard = Alerts(), [("S12", "")]
    >>> def ask(silent, last, now):
    ...     return alerts.silence(yard, np.array([silent]), np.array([last * HOUR]), now * HOUR)
    >>> ask(False, 8, 9)
    []
    >>> [alert.sentence for alert in ask(True, 9, 13)]
    ['S12 turned silent: no reading since 1970-01-01 09:00']
    >>> ask(True, 9, 14)
    []
    """

    def __init__(self, *, after: int = 2, well_after: int = 2, stood: int = HOUR, stood_readings: int = 3) -> None:
        if after < 1 or well_after < 1:
            raise ConfigError("alerts come after one period or more: after and well_after are at least 1")
        if stood_readings < 1:
            raise ConfigError("alerts come after one reading or more: stood_readings is at least 1")
        self._after, self._well_after = after, well_after
        self.stood, self._stood_readings = stood, stood_readings
        self._channels: dict[ChannelName, ChannelState] = {}
        self._odd: frozenset[ChannelName] = frozenset()
        self._began: int | None = None
        self._period = DAY
        self._names: Sequence[ChannelName] = ()
        self._places: dict[ChannelName, int] = {}

    @property
    def counts(self) -> dict[str, int]:
        """The number of sensors that are faulty, silent and gone; each counts as its worst variable."""
        worst: dict[str, str] = {}
        for (sensor, _), channel in self._channels.items():
            state = channel.state
            worst[sensor] = min(worst.get(sensor, state), state, key=WORST.index)
        states = Counter(worst.values())
        return {state: states[state] for state in WORST[:-1]}

    @property
    def waiting(self) -> bool:
        """Whether a state may change by time alone: a sensor reports again, and may become well."""
        return any(channel.alerted and channel.silent is None for channel in self._channels.values())

    def verdict(self, verdict: PeriodVerdict, now: int, step: int) -> list[Alert]:
        """Apply the verdict of an open period and return its alerts; `step` is the length of a slot."""
        self._begin(now)
        self._odd = verdict.odd
        alerts = []
        for name, fault in self._standing(verdict, now, step):
            channel = self._channel(name, now)
            channel.provisional |= not channel.faulty
            alerts.append(self._fail(name, channel, fault.evidence, fault.start, now))
        return _sorted(alerts)

    def period(
        self, rows: Rows, slots: int, start: int, end: int, verdict: PeriodVerdict | None = None, step: int = HOUR
    ) -> list[Alert]:
        """Apply the rows of a final period, by channel and slot, and its verdict; return the alerts."""
        self._begin(start)
        self._period = end - start
        if not len(rows):
            return []
        verdict = verdict or PeriodVerdict()
        self._odd = verdict.odd
        flag, here, wrong = _by_channel(rows, slots)
        faulty = wrong.any(axis=1) & (wrong.sum(axis=1) >= HALF * here.sum(axis=1))
        judged = ((flag == Flag.GOOD) | (flag == Flag.SUSPECT)).any(axis=1)
        sure = dict(self._standing(verdict, end, step))
        alerts: list[Alert | None] = []
        for name, fault in sure.items():
            alerts.append(self._fail(name, self._channel(name, start), fault.evidence, fault.start, end))
        for row in np.flatnonzero(faulty).tolist():
            name = _channel_name(rows, slots, row)
            if name not in sure:
                sums = add_up(rows, slice(row * slots, (row + 1) * slots), wrong[row])
                alerts.append(self._fault(name, sums, start, end))
        if self._channels:
            for row in np.flatnonzero(judged & ~faulty).tolist():
                channel = self._channels.get(name := _channel_name(rows, slots, row))
                if channel is None or name in sure:
                    continue
                if channel.provisional and not wrong[row].any():
                    # While its newest reading is doubtful, the next period decides.
                    if name not in verdict.odd:
                        alerts.append(self._take_back(name, channel, end))
                elif channel.faulty and wrong[row].any():
                    channel.streak = 0
                else:
                    alerts.append(self._rest(name, start, end))
        for row in np.flatnonzero(wrong.any(axis=1)).tolist():
            channel = self._channels.get(_channel_name(rows, slots, row))
            if channel is not None:
                channel.provisional = False
        return _sorted(alerts)

    def silence(
        self,
        names: Sequence[ChannelName],
        silent: BoolArray,
        last: NDArray[np.int64],
        now: int,
        usual: NDArray[np.int64] | None = None,
        gone: BoolArray | None = None,
        removed: BoolArray | None = None,
        step: int = HOUR,
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
        self._know(names)
        if removed is not None:
            for place in np.flatnonzero(removed).tolist():
                self._channels.pop(names[place], None)
            silent = silent & ~removed
        was = self._marked(name for name, channel in self._channels.items() if channel.silent is not None)
        falls = silent & ~was
        if usual is not None and falls.any():
            falls = falls | (
                _overdue(falls, last, now, usual, step) & ~was & ~(removed if removed is not None else was)
            )
        alerts: list[Alert | None] = []
        for place in np.flatnonzero(falls).tolist():
            length = None if usual is None else int(usual[place])
            alerts.append(self._fall(names[place], int(last[place]), now, length))
        for place in np.flatnonzero(was).tolist():
            alerts.append(self._hear(names[place], bool(silent[place]), int(last[place]), now))
            channel = self._channels[names[place]]
            if gone is not None and channel.silent is not None:
                # A channel that is gone stays so when it delivers old readings.
                channel.gone |= bool(gone[place])
        for name, channel in self._channels.items():
            if channel.alerted and channel.silent is None and not channel.faulty:
                alerts.append(self._recover(name, channel, now))
        left = self._marked(name for name, channel in self._channels.items() if channel.gone)
        return one_per_sensor(_sorted(alerts), names, np.where(left, NEVER, last))

    def health(
        self, names: Sequence[ChannelName], last: NDArray[np.int64], removed: BoolArray | None = None
    ) -> list[Health]:
        """Return the health of every channel that has reported and is not removed; arguments as in `silence`."""
        began, states = self._began or 0, []
        for place, (name, heard) in enumerate(zip(names, last.tolist(), strict=True)):
            if removed is not None and removed[place]:
                continue
            channel = self._channels.get(name)
            if channel is None:
                if heard != NEVER:
                    states.append(Health(*name, "well", "", began, heard))
                continue
            reason = channel.reason if channel.state == "faulty" else ""
            since = channel.since if channel.silent is None else channel.silent
            states.append(Health(*name, channel.state, reason, since, None if heard == NEVER else heard))
        return states

    def state(self) -> dict[str, Any]:
        """Return the state as JSON."""
        channels = [
            [*name, {STORED_AS.get(key, key): value for key, value in asdict(channel).items()}]
            for name, channel in self._channels.items()
        ]
        odd = [list(name) for name in sorted(self._odd)]
        return {"began": self._began, "period": self._period, "channels": channels, "odd": odd}

    def restore(self, state: dict[str, Any]) -> None:
        """Load a state, or an old one without incidents."""
        self._began, self._period = state["began"], state["period"]
        self._odd = frozenset((sensor, variable) for sensor, variable in state.get("odd", ()))
        known = {STORED_AS.get(entry.name, entry.name): entry.name for entry in fields(ChannelState)}
        self._channels = {}
        for sensor, variable, values in state["channels"]:
            channel = ChannelState(**{known[key]: value for key, value in values.items() if key in known})
            channel.evidence = values["found"] and Evidence(**values["found"])
            self._channels[sensor, variable] = channel
            if "alerted" not in values and channel.state != "well":
                channel.alerted = [channel.state]
        for sensor, variable in state.get("gone", ()):
            # The next check sets the start of the silence.
            self._channels[sensor, variable] = ChannelState(0, silent=NEVER, gone=True, alerted=["silent"])

    def _begin(self, time: int) -> None:
        self._began = time if self._began is None else self._began

    def _channel(self, name: ChannelName, time: int) -> ChannelState:
        return self._channels.setdefault(name, ChannelState(self._began or time))

    def _know(self, names: Sequence[ChannelName]) -> None:
        """Index the names if they are new, and drop the channels that are no longer among them."""
        if names is self._names and len(self._places) == len(names):
            return
        self._names, self._places = names, {name: place for place, name in enumerate(names)}
        self._channels = {name: channel for name, channel in self._channels.items() if name in self._places}

    def _marked(self, names: Iterable[ChannelName]) -> BoolArray:
        marked = np.zeros(len(self._names), dtype=bool)
        marked[[self._places[name] for name in names]] = True
        return marked

    def _standing(self, verdict: PeriodVerdict, now: int, step: int) -> list[tuple[ChannelName, OpenFault]]:
        """Return the sure faults that have lasted long enough, and those that began with one of them."""
        sure = [(name, fault) for name, fault in verdict.faults.items() if fault.sure]
        standing = [
            (name, fault)
            for name, fault in sure
            if fault.readings >= self._stood_readings and now - fault.start >= self.stood
        ]
        # A fault that has been reported already brings no other one into an alert.
        new = [fault.start for name, fault in standing if "faulty" not in self._alerted(name)]
        chosen = {name for name, _ in standing}
        return standing + [
            (name, fault)
            for name, fault in sure
            if name not in chosen
            and fault.readings >= min(FEWEST, self._stood_readings)
            and any(abs(fault.start - start) <= TOGETHER * step for start in new)
        ]

    def _alerted(self, name: ChannelName) -> list[str]:
        channel = self._channels.get(name)
        return [] if channel is None else channel.alerted

    def _fail(self, name: ChannelName, channel: ChannelState, evidence: Evidence, since: int, at: int) -> Alert | None:
        """Mark a channel as faulty, and return the alert if it is due."""
        channel.streak, channel.evidence, channel.reason = 0, evidence, evidence.reason
        if not channel.faulty:
            channel.faulty, channel.since = True, since
        if "faulty" in channel.alerted or (channel.silent is not None and not channel.heard):
            return None
        again = channel.silent is not None
        channel.silent, channel.gone, channel.heard = None, False, 0
        before = channel.alerted_state
        self._open(channel, "faulty", at)
        text = faulty_sentence(who(*name), evidence, channel.since, at, again=again) + self._comes_and_goes(channel)
        return Alert(*name, before, "faulty", channel.reason, channel.since, at, text)

    def _open(self, channel: ChannelState, state: str, now: int) -> None:
        """Record an alert in the incident of a channel, which may begin with it."""
        if not channel.alerted:
            soon = channel.back != NEVER and now - channel.back <= RELAPSE * self._period
            channel.relapses = channel.relapses + 1 if soon else 0
        channel.alerted.append(state)

    def _close(self, channel: ChannelState, now: int) -> None:
        channel.alerted, channel.back = [], now

    def _quiet(self, channel: ChannelState) -> int:
        """Return the number of sound periods until a relapsed channel is well again; 0 for others."""
        return RELAPSE * min(channel.relapses, MOST_RELAPSES)

    def _comes_and_goes(self, channel: ChannelState) -> str:
        """Return the addition to the sentence of a relapse."""
        if not channel.relapses:
            return ""
        quiet = how_long(self._quiet(channel) * self._period)
        return f"; it comes and goes, and counts as well again when nothing was the matter for {quiet}"

    def _fault(self, name: ChannelName, evidence: Evidence, start: int, end: int) -> Alert | None:
        """Apply a faulty period to a channel that has no sure fault."""
        channel = self._channel(name, start)
        if channel.evidence is None:
            channel.first, channel.evidence = start, evidence
        else:
            channel.evidence.add(evidence)
        if channel.faulty:
            channel.streak, channel.reason = 0, channel.evidence.reason
            return None
        channel.streak += 1
        if channel.streak < self._after:
            return None
        return self._fail(name, channel, channel.evidence, channel.first, end)

    def _take_back(self, name: ChannelName, channel: ChannelState, end: int) -> Alert | None:
        """Withdraw the provisional fault of a period that has none when it is final."""
        since, reason = channel.since, channel.reason
        before = channel.alerted_state
        channel.faulty, channel.reason, channel.evidence, channel.streak, channel.since = False, "", None, 0, since
        channel.provisional = False
        if "faulty" not in channel.alerted:
            return None
        channel.alerted.remove("faulty")
        if channel.alerted or channel.silent is not None:
            return None
        text = taken_back_sentence(who(*name), reason, since)
        return Alert(*name, before, "well", TAKEN_BACK, since, end, text)

    def _rest(self, name: ChannelName, start: int, end: int) -> Alert | None:
        """Apply a sound period to a channel that was not well."""
        channel = self._channels[name]
        if not channel.faulty:
            channel.streak, channel.first, channel.evidence = 0, 0, None
            if channel == ChannelState(self._began or start):
                del self._channels[name]
            return None
        channel.first = start if channel.streak == 0 else channel.first
        channel.streak += 1
        if channel.streak < max(self._well_after, self._quiet(channel)):
            return None
        begun, reason = channel.since, channel.reason
        channel.faulty, channel.reason, channel.evidence, channel.streak, channel.since = (
            False,
            "",
            None,
            0,
            channel.first,
        )
        if channel.silent is not None:
            return None
        before = channel.alerted_state
        self._close(channel, end)
        text = well_sentence(who(*name), "faulty", reason, begun, channel.since)
        return Alert(*name, before, "well", "", channel.since, end, text)

    def _fall(self, name: ChannelName, last: int, now: int, usual: int | None) -> Alert | None:
        channel = self._channel(name, now)
        channel.silent, channel.heard, channel.seen = last, 0, last
        if channel.alerted:
            return None
        self._open(channel, "silent", now)
        text = silent_sentence(who(*name), last, usual) + self._comes_and_goes(channel)
        return Alert(*name, "well", "silent", "", last, now, text)

    def _hear(self, name: ChannelName, silent: bool, last: int, now: int) -> Alert | None:
        """Check whether a silent channel reports again."""
        channel = self._channels[name]
        assert channel.silent is not None
        channel.silent = max(channel.silent, last) if channel.silent == NEVER else channel.silent
        if silent:
            channel.heard, channel.seen = 0, max(last, channel.seen)
            return None
        if last > channel.seen:
            channel.at = last if channel.heard == 0 else channel.at
            channel.heard, channel.seen = channel.heard + 1, last
        if channel.heard < HEARD or name in self._odd:
            return None
        begun, channel.silent, channel.gone, channel.heard = channel.silent, None, False, 0
        if not channel.faulty or channel.evidence is None:
            channel.since, channel.fell = channel.at, begun
            return None
        if "faulty" in channel.alerted:
            return None
        before = channel.alerted_state
        self._open(channel, "faulty", now)
        text = faulty_sentence(who(*name), channel.evidence, channel.since, now, again=True)
        return Alert(*name, before, "faulty", channel.reason, channel.since, now, text)

    def _recover(self, name: ChannelName, channel: ChannelState, now: int) -> Alert | None:
        """Check whether a channel that was silent in the open incident and reports again is well again."""
        begun = channel.fell
        needed = min(max(channel.since - begun, self._period), self._well_after * self._period)
        if now - channel.since < max(needed, self._quiet(channel) * self._period) or name in self._odd:
            return None
        before = channel.alerted_state
        self._close(channel, now)
        text = well_sentence(who(*name), "silent", "", begun, channel.since)
        return Alert(*name, before, "well", "", channel.since, now, text)


def _overdue(falls: BoolArray, last: NDArray[np.int64], now: int, usual: NDArray[np.int64], step: int) -> BoolArray:
    """Return the channels that are silent for longer than usual, since about the last reading of one of `falls`."""
    times = np.unique(last[falls])
    after = np.minimum(np.searchsorted(times, last), times.size - 1)
    near = np.minimum(np.abs(times[after] - last), np.abs(times[np.maximum(after - 1, 0)] - last))
    return np.asarray((last > NEVER) & (usual > NEVER) & (now - last > usual) & (near <= TOGETHER * step))


def _sorted(alerts: Sequence[Alert | None]) -> list[Alert]:
    given = (alert for alert in alerts if alert is not None)
    return sorted(given, key=lambda alert: (alert.sensor, alert.variable))


class ChannelMonitor:
    """Tracks which channels report, are silent or faulty, and returns the alerts; a channel is a variable of a sensor.

    Parameters
    ----------
    grid, gone_after
        The grid, and the silence after which a sensor is gone.
    sensors, variables
        Their names; sensors may be added later.
    alerts
        The state of every channel.
    fill
        The fill values of each variable.
    """

    def __init__(
        self,
        grid: Grid,
        gone_after: int,
        sensors: NameIndex,
        variables: NameIndex,
        alerts: Alerts,
        fill: Mapping[str, Sequence[float]] | None = None,
    ) -> None:
        fill = fill or {}
        self._fill = [fill.get(name, fill.get(EVERY, ())) for name in variables.all]
        self._grid, self._sensors, self._variables, self.alerts = grid, sensors, variables, alerts
        self.silence = Silence(grid.step, grid.period, gone_after)
        self._removed: BoolArray = np.zeros(0, dtype=bool)
        self._named: Sequence[tuple[str, str]] = ()

    def heard(self, readings: Readings) -> None:
        """Record readings, slot by slot; a reading without a number does not end a silence."""
        number = ~no_number(readings, self._fill)
        channel = self._channels(readings)
        self.silence.heard(channel[number], readings.time[number])
        self.silence.announced(channel[~number], readings.time[~number])

    def learn(self, readings: Readings) -> None:
        """Learn the usual silences from the readings of a period that is over."""
        readings = readings.taken(~no_number(readings, self._fill))
        self.silence.close(self._channels(readings), readings.time)

    def close(self, mended: Mended) -> list[Alert]:
        """Apply a period that is over, and return its alerts."""
        grid, verdict = self._grid, period_verdict(mended, self._grid)
        start = grid.start_of(mended.period)
        return self._incidents(
            self.alerts.period(mended.rows, grid.slots, start, start + grid.period, verdict, grid.step)
        )

    def provisional(self, mended: Mended, now: int) -> list[Alert]:
        """Apply an open period as of `now`, and return its alerts."""
        return self._incidents(self.alerts.verdict(period_verdict(mended, self._grid), now, self._grid.step))

    def check_silence(self, now: int, maintenance: Maintenance, counting: BoolArray | None = None) -> list[Alert]:
        """Check which channels are silent at the end of a slot, and return the alerts.

        Parameters
        ----------
        now
            The end of the slot.
        maintenance
            The notes on maintenance.
        counting
            The sensors whose silence raises an alert; None for all.
        """
        noted = self._noted(now, maintenance)
        if counting is not None:
            news = np.repeat(counting, len(self._variables))[: noted.size]
            noted[: news.size] |= ~news
        silent, last, gone = self.silence.silent(now) & ~noted, self.silence.last, self.silence.gone(now)
        usual = np.where(noted, NEVER, self.silence.usual)
        self._removed = self._noted(now, maintenance, "removed")
        return self._incidents(
            self.alerts.silence(self._names(), silent, last, now, usual, gone, self._removed, self._grid.step)
        )

    def is_silent(self, time: int, maintenance: Maintenance) -> BoolArray:
        """Return which channels are silent at a time, without a change of state."""
        return self.silence.is_silent(time) & ~self._noted(time, maintenance)

    def health(self) -> list[Health]:
        """Return the health of every channel that is not removed."""
        names = self._names()
        removed = np.zeros(len(names), dtype=bool)
        removed[: self._removed.size] = self._removed[: len(names)]
        return self.alerts.health(names, self.silence.last, removed)

    def _incidents(self, alerts: list[Alert]) -> list[Alert]:
        return one_per_incident(alerts, TOGETHER * self._grid.step)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return settings and arrays for a state file, without the alerts."""
        settings, arrays = self.silence.state()
        return {**settings, "removed": np.flatnonzero(self._removed).tolist()}, arrays

    def restore(self, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Load a state."""
        self.silence.restore(settings, arrays)
        self._removed = np.zeros(len(self.silence), dtype=bool)
        self._removed[settings.get("removed", [])] = True

    def _channels(self, readings: Readings) -> NDArray[np.int64]:
        return (readings.sensor * len(self._variables) + readings.variable).astype(np.int64, copy=False)

    def _names(self) -> Sequence[tuple[str, str]]:
        """Return sensor and variable of every channel."""
        if len(self._named) != len(self.silence):
            names = [(sensor, variable) for sensor in self._sensors.all for variable in self._variables.all]
            self._named = names[: len(self.silence)]
        return self._named

    def _noted(self, now: int, maintenance: Maintenance, *actions: str) -> BoolArray:
        """Return which channels have a note now; only notes with one of `actions` if any are given."""
        notes = Maintenance(tuple(note for note in maintenance.notes if not actions or note.action in actions))
        cells = None
        if notes.notes:
            slot = np.array([now - self._grid.step])
            cells = notes.hidden(self._sensors.all, self._variables.all, slot, self._grid.step)
        count = len(self.silence)
        return np.zeros(count, dtype=bool) if cells is None else cells.reshape(-1)[:count]
