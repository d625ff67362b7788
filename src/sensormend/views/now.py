"""How every sensor is now: by the faults that go on and by its last day; who is silent, a watch knows sooner."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sensormend.health import HEALTH, NO_ROWS
from sensormend.io.metadata import FaultInterval
from sensormend.readings import DAY
from sensormend.views.digest import Name
from sensormend.views.look import Look

__all__ = ["NOTHING", "RANKS", "Standing", "going_on", "standings"]

NOTHING = "nothing"
"""The state of a sensor that has no rows there: not yet, or not any more."""

RANKS = ("faulty", "silent", "suspect", "not evaluated", "sound", NOTHING)
"""What a sensor can be now, the worst first."""


@dataclass(frozen=True)
class Standing:
    """How a channel is now.

    Attributes
    ----------
    state
        One of `RANKS`.
    reason, since
        Why, and from when on, where something is wrong.
    heard
        When its last reading was taken; None for one that was never heard.
    """

    sensor: str
    variable: str
    state: str
    reason: str
    since: int | None
    heard: int | None


def standings(look: Look) -> dict[Name, Standing]:
    """Return how every channel is."""
    last = _last_states(look)
    until, lately, health = look.told(), _heard_lately(look), look.health
    faults = {(fault.sensor, fault.variable): fault for fault in look.faults if going_on(fault, until)}
    found = {}
    for entry in look.summaries:
        name = (entry.sensor, entry.variable)
        told = health.get(name)
        state, reason, since = last.get(name, NOTHING), "", None
        # A fault goes on while its sensor is silent; that it is silent is said first.
        fault = faults.get((entry.sensor, "")) or faults.get(name)
        if state in ("faulty", "silent"):
            # The date was; whether it still is by its end is what faults tell.
            state = "sound"
        if fault is not None and state != NOTHING:
            state, reason, since = "silent" if fault.reason == "silent" else "faulty", fault.reason, fault.start
        # A watch knows who is silent before the period is over. Who was faulty stays so to its alerts for some days
        # more; a page that says so beside readings that are sound would contradict itself.
        if told is not None and told.state == "silent":
            since = since if state == "silent" else told.since
            state, reason = "silent", "silent"
        elif told is not None and state == "silent":
            state, reason, since = "sound", "", None
        times = (entry.last, told.heard if told else None, lately.get(name))
        heard = max((time for time in times if time is not None), default=None)
        found[name] = Standing(*name, state, reason, since, heard)
    return found


def going_on(fault: FaultInterval, until: int | None) -> bool:
    """Say whether a fault lasts until the end of what the tables tell."""
    return until is not None and fault.end >= until and fault.reason != "spike"


def _heard_lately(look: Look) -> dict[Name, int]:
    """Return when channels were last heard in a period that is not over."""
    provisional = look.provisional
    if provisional is None:
        return {}
    rows = provisional.rows

    def found() -> dict[Name, int]:
        here = np.flatnonzero(rows.n > 0)
        here = here[np.argsort(rows.time[here], kind="stable")]
        codes = zip(rows.sensor[here].tolist(), rows.variable[here].tolist(), rows.time[here].tolist(), strict=True)
        return {(rows.sensors[sensor], rows.variables[variable]): time for sensor, variable, time in codes}

    return look.remembered("heard", provisional, found)


def _last_states(look: Look) -> dict[Name, str]:
    """Return how every channel was in the last period that is final, a date at least; where gaps were filled, sound."""
    final = look.final()
    if final is None:
        return {}
    date, days = (final - 1) // DAY, -(-max(look.period or DAY, look.step) // DAY)
    names, states = look.digest.states(date - days + 1, date, days)
    words = {NO_ROWS: NOTHING, **{code: "sound" if word == "filled" else word for code, word in enumerate(HEALTH)}}
    return {name: words[state] for name, state in zip(names, states[:, 0].tolist(), strict=True)}
