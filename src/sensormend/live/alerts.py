"""Who turned faulty, silent, or well again: told once, when it is certain enough. Who is gone is not told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.errors import ConfigError
from sensormend.flags import REASONS, Flag
from sensormend.live.channel import Channel
from sensormend.live.deliveries import Alert, Health
from sensormend.live.telling import Evidence, evidence, faulty_sentence, joined, silent_sentence, well_sentence, who
from sensormend.mending import NEVER
from sensormend.readings import DAY, Rows
from sensormend.recovery import BoolArray

__all__ = ["Alerts"]

Name = tuple[str, str]

SPIKE = REASONS.index("spike")
HALF = 0.5
"""A period is faulty when so much of a channel's readings in it are: one that breaks at noon is faulty that day."""

HEARD = 2
"""A silent sensor is back when it was heard in so many checks. It is twice as many for each time that it fell silent
again within a week of periods: one that dies slowly, with two readings a day, is reported as silent once."""

MOST_HEARD = 64
RELAPSE = 7


class Alerts:
    """The state of every channel, and what is worth telling when it changes.

    Parameters
    ----------
    after
        Faulty periods in a row until a sensor is reported; periods in which it cannot be judged do not count.
    well_after
        Sound periods in a row until it is well again.

    Examples
    --------
    >>> from sensormend.readings import HOUR
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

    def __init__(self, *, after: int = 2, well_after: int = 2) -> None:
        if after < 1 or well_after < 1:
            raise ConfigError("alerts come after one period or more: after and well_after are at least 1")
        self._after, self._well_after = after, well_after
        self._channels: dict[Name, Channel] = {}
        self._gone: set[Name] = set()
        self._began: int | None = None
        self._period = DAY
        self._names: Sequence[Name] = ()
        self._places: dict[Name, int] = {}

    @property
    def counts(self) -> dict[str, int]:
        """How many channels are faulty and how many silent."""
        states = Counter(channel.state for channel in self._channels.values())
        return {"faulty": states["faulty"], "silent": states["silent"]}

    def period(self, rows: Rows, slots: int, start: int, end: int) -> list[Alert]:
        """Take in a period that is final, channel by channel and slot by slot."""
        self._begin(start)
        self._period = end - start
        if not len(rows):
            return []
        flag, reason = rows.flag.reshape(-1, slots), rows.reason.reshape(-1, slots)
        here = rows.n.reshape(-1, slots) > 0
        wrong = here & (flag == Flag.FAIL) & (reason != SPIKE)
        faulty = wrong.any(axis=1) & (wrong.sum(axis=1) >= HALF * here.sum(axis=1))
        sound = ((flag == Flag.GOOD) | (flag == Flag.SUSPECT)).any(axis=1) & ~faulty
        sensor, variable = rows.sensor[::slots], rows.variable[::slots]

        def named(row: int) -> Name:
            return rows.sensors[int(sensor[row])], rows.variables[int(variable[row])]

        found: list[Alert | None] = [
            self._fault(named(row), evidence(rows, slice(row * slots, (row + 1) * slots), wrong[row]), start, end)
            for row in np.flatnonzero(faulty).tolist()
        ]
        if self._channels:
            rested = map(named, np.flatnonzero(sound).tolist())
            found += [self._rest(name, start, end) for name in rested if name in self._channels]
        return _sorted(found)

    def silence(
        self,
        names: Sequence[Name],
        silent: BoolArray,
        last: NDArray[np.int64],
        now: int,
        usual: NDArray[np.int64] | None = None,
        gone: BoolArray | None = None,
    ) -> list[Alert]:
        """Take in who is silent, by `Silence`; a sensor all of whose variables fall silent at once is told once.

        One that is gone is nothing any more, and nobody is told; but of one that was heard until now it is told first
        that it is silent. It begins as well when it is heard again.

        Parameters
        ----------
        names
            Sensor and variable of every channel; channels keep their places, new ones come at the end.
        silent, last
            Who is silent, and when each channel was heard at last.
        now
            Event time.
        usual
            What silence is usual for each channel, for the sentence.
        gone
            Who has been silent for so long that nobody waits for it any more.
        """
        self._begin(now)
        self._know(names)
        was = self._marked(name for name, channel in self._channels.items() if channel.silent is not None)
        away = self._marked(self._gone)
        falls = silent & ~was & ~away
        # Readings from long ago do not bring one back that is still silent.
        leaves = (away & silent) | (np.zeros_like(away) if gone is None else gone & ~falls)
        self._leave(np.flatnonzero(leaves & ~away).tolist())
        self._come(np.flatnonzero(away & ~leaves).tolist(), last)
        fallen = np.flatnonzero(falls).tolist()
        others = len({names[place][0] for place in fallen}) - 1
        found: list[Alert | None] = []
        for place in fallen:
            length = None if usual is None else int(usual[place])
            found.append(self._fall(names[place], int(last[place]), now, length, others))
        found += [
            self._listen(names[place], bool(silent[place]), int(last[place]), now)
            for place in np.flatnonzero(was & ~leaves).tolist()
        ]
        return joined(_sorted(found), names, np.where(leaves, NEVER, last))

    def health(self, names: Sequence[Name], last: NDArray[np.int64]) -> list[Health]:
        """Return how every channel that was ever heard and is not gone is; `last` as in `silence`."""
        began, told = self._began or 0, []
        for name, heard in zip(names, last.tolist(), strict=True):
            if name in self._gone:
                continue
            channel = self._channels.get(name)
            if channel is None:
                if heard != NEVER:
                    told.append(Health(*name, "well", "", began, heard))
                continue
            reason = channel.reason if channel.state == "faulty" else ""
            since = channel.since if channel.silent is None else channel.silent
            told.append(Health(*name, channel.state, reason, since, None if heard == NEVER else heard))
        return told

    def state(self) -> dict[str, Any]:
        """Return all of it as JSON has it."""
        channels = [[*name, asdict(channel)] for name, channel in self._channels.items()]
        gone = [list(name) for name in sorted(self._gone)]
        return {"began": self._began, "period": self._period, "channels": channels, "gone": gone}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        self._began, self._period = state["began"], state["period"]
        # A state from before anybody was gone has them as silent: they leave at the next check.
        self._gone = {(sensor, variable) for sensor, variable in state.get("gone", ())}
        self._channels = {}
        for sensor, variable, told in state["channels"]:
            found = told["found"] and Evidence(**told["found"])
            self._channels[sensor, variable] = Channel(**{**told, "found": found})

    def _begin(self, time: int) -> None:
        self._began = time if self._began is None else self._began

    def _know(self, names: Sequence[Name]) -> None:
        """Find the places of the names where there are others, and forget who is not among them any more."""
        if names is self._names and len(self._places) == len(names):
            return
        self._names, self._places = names, {name: place for place, name in enumerate(names)}
        self._channels = {name: channel for name, channel in self._channels.items() if name in self._places}
        self._gone = {name for name in self._gone if name in self._places}

    def _marked(self, names: Iterable[Name]) -> BoolArray:
        marked = np.zeros(len(self._names), dtype=bool)
        marked[[self._places[name] for name in names]] = True
        return marked

    def _leave(self, places: Sequence[int]) -> None:
        for place in places:
            self._gone.add(self._names[place])
            self._channels.pop(self._names[place], None)

    def _come(self, places: Sequence[int], last: NDArray[np.int64]) -> None:
        for place in places:
            self._gone.discard(self._names[place])
            self._channels[self._names[place]] = Channel(int(last[place]))

    def _fault(self, name: Name, found: Evidence, start: int, end: int) -> Alert | None:
        if name in self._gone:
            return None
        channel = self._channels.setdefault(name, Channel(self._began or start))
        if channel.found is None:
            channel.first, channel.found = start, found
        else:
            channel.found.takes(found)
        if channel.faulty:
            channel.told, channel.reason = 0, channel.found.reason
            return None
        channel.told += 1
        if channel.told < self._after:
            return None
        channel.faulty, channel.told, channel.since = True, 0, channel.first
        channel.reason = channel.found.reason
        if channel.silent is not None:
            return None
        text = faulty_sentence(who(*name), channel.found, channel.since)
        return Alert(*name, "well", "faulty", channel.reason, channel.since, end, text)

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
        if channel.told < self._well_after:
            return None
        begun, reason = channel.since, channel.reason
        channel.faulty, channel.reason, channel.found, channel.told, channel.since = False, "", None, 0, channel.first
        if channel.silent is not None:
            return None
        text = well_sentence(who(*name), "faulty", reason, begun, channel.since)
        return Alert(*name, "faulty", "well", "", channel.since, end, text)

    def _fall(self, name: Name, last: int, now: int, usual: int | None, others: int) -> Alert:
        channel = self._channels.setdefault(name, Channel(self._began or now))
        before = channel.state
        soon = channel.back != NEVER and now - channel.back < RELAPSE * self._period
        channel.relapses = channel.relapses + 1 if soon else 0
        channel.silent, channel.heard, channel.seen = last, 0, last
        text = silent_sentence(who(*name), last, usual, others)
        return Alert(*name, before, "silent", "", last, now, text)

    def _listen(self, name: Name, silent: bool, last: int, now: int) -> Alert | None:
        """Look whether a silent channel is back."""
        channel = self._channels[name]
        begun = channel.silent
        assert begun is not None
        if silent:
            channel.heard, channel.seen = 0, max(last, channel.seen)
            return None
        if last > channel.seen:
            channel.at = last if channel.heard == 0 else channel.at
            channel.heard, channel.seen = channel.heard + 1, last
        if channel.heard < min(HEARD << channel.relapses, MOST_HEARD):
            return None
        channel.silent, channel.back, channel.heard = None, now, 0
        if channel.faulty and channel.found is not None:
            text = faulty_sentence(who(*name), channel.found, channel.since, again=True)
            return Alert(*name, "silent", "faulty", channel.reason, channel.since, now, text)
        channel.since = channel.at
        text = well_sentence(who(*name), "silent", "", begun, channel.at)
        return Alert(*name, "silent", "well", "", channel.at, now, text)


def _sorted(found: Sequence[Alert | None]) -> list[Alert]:
    told = (alert for alert in found if alert is not None)
    return sorted(told, key=lambda alert: (alert.sensor, alert.variable))
