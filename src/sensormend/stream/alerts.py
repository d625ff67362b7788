"""`Alerts` keeps the state of every channel and says what is worth an alert when it changes: one for each incident."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.errors import ConfigError
from sensormend.pipeline.health import Health
from sensormend.pipeline.mender import NEVER
from sensormend.pipeline.sentences import how_long, who
from sensormend.readings import DAY, HOUR, REASONS, Flag, Rows
from sensormend.recovery import BoolArray
from sensormend.stream.channel import Channel
from sensormend.stream.deliveries import Alert
from sensormend.stream.telling import (
    TAKEN_BACK,
    Evidence,
    evidence,
    faulty_sentence,
    joined,
    silent_sentence,
    taken_back_sentence,
    well_sentence,
)
from sensormend.stream.verdict import Name, OpenFault, Verdict

__all__ = ["Alerts"]

SPIKE = REASONS.index("spike")
HALF = 0.5
"""A period is faulty when so much of a channel's readings in it are: one that breaks at noon is faulty that day."""

HEARD = 2
"""A silent sensor is heard again when it was in so many checks, and its newest reading is neither wrong nor doubtful.
That it is well again is told when it has been heard for as long as it was silent, a period at least and `well_after` at
most: one that dies slowly, with a few readings a day, is one incident."""

RELAPSE = 7
"""An incident that begins so many periods after the one before it, or sooner, is a relapse: the sensor comes and goes.
It ends when nothing was the matter for as long, and twice, three times, ... as long for every further relapse."""

MOST_RELAPSES = 4

TOGETHER = 2
"""Slots. Sensors that fail, or fall silent, so closely one after the other are one incident."""

WORST = ("faulty", "silent", "gone", "well")
"""Of several variables a sensor is what is first here."""

FEWEST = 2
"""Readings of a sure fault that is told along with another one that began at the same time."""


class Alerts:
    """The state of every channel, and what is worth telling when it changes.

    Parameters
    ----------
    after
        Faulty periods in a row until a sensor is reported whose fault is not sure; periods in which it cannot be judged
        do not count.
    well_after
        Sound periods in a row until it is well again.
    stood, stood_readings
        For how long, and in how many readings, a sure fault has to stand until it is reported.

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
        self._channels: dict[Name, Channel] = {}
        self._odd: frozenset[Name] = frozenset()
        self._began: int | None = None
        self._period = DAY
        self._names: Sequence[Name] = ()
        self._places: dict[Name, int] = {}

    @property
    def counts(self) -> dict[str, int]:
        """How many sensors are faulty, how many silent, and how many gone; each counts as its worst variable."""
        worst: dict[str, str] = {}
        for (sensor, _), channel in self._channels.items():
            state = channel.state
            worst[sensor] = min(worst.get(sensor, state), state, key=WORST.index)
        states = Counter(worst.values())
        return {state: states[state] for state in WORST[:-1]}

    @property
    def waiting(self) -> bool:
        """Whether time alone may change something: a sensor is heard again, and may be well again at some time."""
        return any(channel.alerted and channel.silent is None for channel in self._channels.values())

    def verdict(self, verdict: Verdict, now: int, step: int) -> list[Alert]:
        """Take in what the readings of a period say that is not over; `step` is the length of a slot."""
        self._begin(now)
        self._odd = verdict.odd
        alerts = []
        for name, fault in self._standing(verdict, now, step):
            channel = self._channel(name, now)
            channel.provisional |= not channel.faulty
            alerts.append(self._fail(name, channel, fault.figures, fault.start, now))
        return _sorted(alerts)

    def period(
        self, rows: Rows, slots: int, start: int, end: int, verdict: Verdict | None = None, step: int = HOUR
    ) -> list[Alert]:
        """Take in a period that is final, channel by channel and slot by slot, and its verdict."""
        self._begin(start)
        self._period = end - start
        if not len(rows):
            return []
        verdict = verdict or Verdict()
        self._odd = verdict.odd
        flag, reason = rows.flag.reshape(-1, slots), rows.reason.reshape(-1, slots)
        here = rows.n.reshape(-1, slots) > 0
        wrong = here & (flag == Flag.FAIL) & (reason != SPIKE)
        faulty = wrong.any(axis=1) & (wrong.sum(axis=1) >= HALF * here.sum(axis=1))
        judged = ((flag == Flag.GOOD) | (flag == Flag.SUSPECT)).any(axis=1)
        sensor, variable = rows.sensor[::slots], rows.variable[::slots]

        def named(row: int) -> Name:
            return rows.sensors[int(sensor[row])], rows.variables[int(variable[row])]

        def figures(row: int) -> Evidence:
            return evidence(rows, slice(row * slots, (row + 1) * slots), wrong[row])

        sure = dict(self._standing(verdict, end, step))
        alerts: list[Alert | None] = []
        for name, fault in sure.items():
            alerts.append(self._fail(name, self._channel(name, start), fault.figures, fault.start, end))
        for row in np.flatnonzero(faulty).tolist():
            name = named(row)
            if name not in sure:
                alerts.append(self._fault(name, figures(row), start, end))
        if self._channels:
            for row in np.flatnonzero(judged & ~faulty).tolist():
                channel = self._channels.get(name := named(row))
                if channel is None or name in sure:
                    continue
                if channel.provisional and not wrong[row].any():
                    # While its newest reading is doubtful, the next period has the last word.
                    if name not in verdict.odd:
                        alerts.append(self._take_back(name, channel, end))
                elif channel.faulty and wrong[row].any():
                    channel.told = 0
                else:
                    alerts.append(self._rest(name, start, end))
        for row in np.flatnonzero(wrong.any(axis=1)).tolist():
            channel = self._channels.get(named(row))
            if channel is not None:
                channel.provisional = False
        return _sorted(alerts)

    def silence(
        self,
        names: Sequence[Name],
        silent: BoolArray,
        last: NDArray[np.int64],
        now: int,
        usual: NDArray[np.int64] | None = None,
        gone: BoolArray | None = None,
        removed: BoolArray | None = None,
        step: int = HOUR,
    ) -> list[Alert]:
        """Take in who is silent, by `Silence`; a sensor all of whose variables fall silent at once is told once.

        Parameters
        ----------
        names
            Sensor and variable of every channel; channels keep their places, new ones come at the end.
        silent, last
            Who is silent, and when each channel was heard at last.
        now
            Event time.
        usual
            What silence is usual for each channel; `NEVER` for one of which nobody wants to hear. One that has not been
            heard for longer than that, since the time at which another fell silent, falls silent with it.
        gone
            Who has been silent for so long that it is gone; of one that was heard until now it is told first that it
            is silent.
        removed
            Who was taken away by people: nothing is said of it.
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
            alerts.append(self._listen(names[place], bool(silent[place]), int(last[place]), now))
            channel = self._channels[names[place]]
            if gone is not None and channel.silent is not None:
                # Readings from long ago do not bring one back.
                channel.gone |= bool(gone[place])
        for name, channel in self._channels.items():
            if channel.alerted and channel.silent is None and not channel.faulty:
                alerts.append(self._recover(name, channel, now))
        left = self._marked(name for name, channel in self._channels.items() if channel.gone)
        return joined(_sorted(alerts), names, np.where(left, NEVER, last))

    def health(self, names: Sequence[Name], last: NDArray[np.int64], removed: BoolArray | None = None) -> list[Health]:
        """Return how every channel is that was ever heard and is not removed; arguments as in `silence`."""
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
        """Return all of it as JSON has it."""
        channels = [[*name, asdict(channel)] for name, channel in self._channels.items()]
        odd = [list(name) for name in sorted(self._odd)]
        return {"began": self._began, "period": self._period, "channels": channels, "odd": odd}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state; from one of before, in which no incident was known, too."""
        self._began, self._period = state["began"], state["period"]
        self._odd = frozenset((sensor, variable) for sensor, variable in state.get("odd", ()))
        known = {entry.name for entry in fields(Channel)}
        self._channels = {}
        for sensor, variable, values in state["channels"]:
            found = values["found"] and Evidence(**values["found"])
            kept = {key: value for key, value in values.items() if key in known}
            channel = self._channels[sensor, variable] = Channel(**{**kept, "found": found})
            if "alerted" not in values and channel.state != "well":
                channel.alerted = [channel.state]
        for sensor, variable in state.get("gone", ()):
            # Since when it is silent the next check knows.
            self._channels[sensor, variable] = Channel(0, silent=NEVER, gone=True, alerted=["silent"])

    def _begin(self, time: int) -> None:
        self._began = time if self._began is None else self._began

    def _channel(self, name: Name, time: int) -> Channel:
        return self._channels.setdefault(name, Channel(self._began or time))

    def _know(self, names: Sequence[Name]) -> None:
        """Find the places of the names where there are others, and forget who is not among them any more."""
        if names is self._names and len(self._places) == len(names):
            return
        self._names, self._places = names, {name: place for place, name in enumerate(names)}
        self._channels = {name: channel for name, channel in self._channels.items() if name in self._places}

    def _marked(self, names: Iterable[Name]) -> BoolArray:
        marked = np.zeros(len(self._names), dtype=bool)
        marked[[self._places[name] for name in names]] = True
        return marked

    def _standing(self, verdict: Verdict, now: int, step: int) -> list[tuple[Name, OpenFault]]:
        """Return the sure faults that have stood for long enough, and those that began with one of them."""
        sure = [(name, fault) for name, fault in verdict.faults.items() if fault.sure]
        standing = [
            (name, fault)
            for name, fault in sure
            if fault.readings >= self._stood_readings and now - fault.start >= self.stood
        ]
        # One that was told before takes nobody along.
        new = [fault.start for name, fault in standing if "faulty" not in self._alerted(name)]
        chosen = {name for name, _ in standing}
        return standing + [
            (name, fault)
            for name, fault in sure
            if name not in chosen
            and fault.readings >= min(FEWEST, self._stood_readings)
            and any(abs(fault.start - start) <= TOGETHER * step for start in new)
        ]

    def _alerted(self, name: Name) -> list[str]:
        channel = self._channels.get(name)
        return [] if channel is None else channel.alerted

    def _fail(self, name: Name, channel: Channel, figures: Evidence, since: int, at: int) -> Alert | None:
        """Take a channel for faulty, and return what is to be told of it."""
        channel.told, channel.found, channel.reason = 0, figures, figures.reason
        if not channel.faulty:
            channel.faulty, channel.since = True, since
        if "faulty" in channel.alerted or (channel.silent is not None and not channel.heard):
            return None
        again = channel.silent is not None
        channel.silent, channel.gone, channel.heard = None, False, 0
        before = channel.state_told
        self._open(channel, "faulty", at)
        text = faulty_sentence(who(*name), figures, channel.since, at, again=again) + self._comes_and_goes(channel)
        return Alert(*name, before, "faulty", channel.reason, channel.since, at, text)

    def _open(self, channel: Channel, state: str, now: int) -> None:
        """Tell a state in an incident, which may begin with it."""
        if not channel.alerted:
            soon = channel.back != NEVER and now - channel.back <= RELAPSE * self._period
            channel.relapses = channel.relapses + 1 if soon else 0
        channel.alerted.append(state)

    def _close(self, channel: Channel, now: int) -> None:
        channel.alerted, channel.back = [], now

    def _quiet(self, channel: Channel) -> int:
        """Return for how many periods nothing may be the matter until a relapsed channel is well; 0 for others."""
        return RELAPSE * min(channel.relapses, MOST_RELAPSES)

    def _comes_and_goes(self, channel: Channel) -> str:
        """Say that an incident is not the first one, and when the next word of it will come."""
        if not channel.relapses:
            return ""
        quiet = how_long(self._quiet(channel) * self._period)
        return f"; it comes and goes, and is told to be well when nothing was the matter for {quiet}"

    def _fault(self, name: Name, figures: Evidence, start: int, end: int) -> Alert | None:
        """Take in a faulty period of a channel that has no sure fault."""
        channel = self._channel(name, start)
        if channel.found is None:
            channel.first, channel.found = start, figures
        else:
            channel.found.takes(figures)
        if channel.faulty:
            channel.told, channel.reason = 0, channel.found.reason
            return None
        channel.told += 1
        if channel.told < self._after:
            return None
        return self._fail(name, channel, channel.found, channel.first, end)

    def _take_back(self, name: Name, channel: Channel, end: int) -> Alert | None:
        """End an alert of a period that turned out to have no fault."""
        since, reason = channel.since, channel.reason
        before = channel.state_told
        channel.faulty, channel.reason, channel.found, channel.told, channel.since = False, "", None, 0, since
        channel.provisional = False
        if "faulty" not in channel.alerted:
            return None
        channel.alerted.remove("faulty")
        if channel.alerted or channel.silent is not None:
            return None
        text = taken_back_sentence(who(*name), reason, since)
        return Alert(*name, before, "well", TAKEN_BACK, since, end, text)

    def _rest(self, name: Name, start: int, end: int) -> Alert | None:
        """Take in a sound period of a channel that was not simply well."""
        channel = self._channels[name]
        if not channel.faulty:
            channel.told, channel.first, channel.found = 0, 0, None
            if channel == Channel(self._began or start):
                del self._channels[name]
            return None
        channel.first = start if channel.told == 0 else channel.first
        channel.told += 1
        if channel.told < max(self._well_after, self._quiet(channel)):
            return None
        begun, reason = channel.since, channel.reason
        channel.faulty, channel.reason, channel.found, channel.told, channel.since = False, "", None, 0, channel.first
        if channel.silent is not None:
            return None
        before = channel.state_told
        self._close(channel, end)
        text = well_sentence(who(*name), "faulty", reason, begun, channel.since)
        return Alert(*name, before, "well", "", channel.since, end, text)

    def _fall(self, name: Name, last: int, now: int, usual: int | None) -> Alert | None:
        channel = self._channel(name, now)
        channel.silent, channel.heard, channel.seen = last, 0, last
        if channel.alerted:
            return None
        self._open(channel, "silent", now)
        text = silent_sentence(who(*name), last, usual) + self._comes_and_goes(channel)
        return Alert(*name, "well", "silent", "", last, now, text)

    def _listen(self, name: Name, silent: bool, last: int, now: int) -> Alert | None:
        """Look whether a silent channel is heard again."""
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
        if not channel.faulty or channel.found is None:
            channel.since, channel.fell = channel.at, begun
            return None
        if "faulty" in channel.alerted:
            return None
        before = channel.state_told
        self._open(channel, "faulty", now)
        text = faulty_sentence(who(*name), channel.found, channel.since, now, again=True)
        return Alert(*name, before, "faulty", channel.reason, channel.since, now, text)

    def _recover(self, name: Name, channel: Channel, now: int) -> Alert | None:
        """Look whether a channel that is heard, and was silent in an incident that is open, is well again."""
        begun = channel.fell
        needed = min(max(channel.since - begun, self._period), self._well_after * self._period)
        if now - channel.since < max(needed, self._quiet(channel) * self._period) or name in self._odd:
            return None
        before = channel.state_told
        self._close(channel, now)
        text = well_sentence(who(*name), "silent", "", begun, channel.since)
        return Alert(*name, before, "well", "", channel.since, now, text)


def _overdue(falls: BoolArray, last: NDArray[np.int64], now: int, usual: NDArray[np.int64], step: int) -> BoolArray:
    """Return who is silent for longer than usual since the time at which one of `falls` was last heard."""
    times = np.unique(last[falls])
    after = np.minimum(np.searchsorted(times, last), times.size - 1)
    near = np.minimum(np.abs(times[after] - last), np.abs(times[np.maximum(after - 1, 0)] - last))
    return np.asarray((last > NEVER) & (usual > NEVER) & (now - last > usual) & (near <= TOGETHER * step))


def _sorted(alerts: Sequence[Alert | None]) -> list[Alert]:
    given = (alert for alert in alerts if alert is not None)
    return sorted(given, key=lambda alert: (alert.sensor, alert.variable))
