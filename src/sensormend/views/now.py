"""How every sensor is now: as the alerts of a watch see it, else as its last day was."""

from __future__ import annotations

from dataclasses import dataclass

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
    final = look.final()
    faults = {(fault.sensor, fault.variable): fault for fault in look.faults if going_on(fault, final)}
    found = {}
    for entry in look.summaries:
        name = (entry.sensor, entry.variable)
        told = look.health.get(name)
        state, reason, since = last.get(name, NOTHING), "", None
        fault = faults.get(name) or faults.get((entry.sensor, ""))
        if fault is not None and state in ("faulty", "silent"):
            reason, since = fault.reason, fault.start
        if told is not None and told.state != "well":
            state, reason, since = told.state, told.reason, told.since
        heard = max((time for time in (entry.last, told.heard if told else None) if time is not None), default=None)
        found[name] = Standing(*name, state, reason, since, heard)
    return found


def going_on(fault: FaultInterval, final: int | None) -> bool:
    """Say whether a fault lasts until the end of what is final."""
    return final is not None and fault.end >= final and fault.reason != "spike"


def _last_states(look: Look) -> dict[Name, str]:
    """Return how every channel was on the last date that is final; one whose gaps were filled is sound."""
    final = look.final()
    if final is None:
        return {}
    date = (final - 1) // DAY
    names, states = look.digest.states(date, date)
    words = {NO_ROWS: NOTHING, **{code: "sound" if word == "filled" else word for code, word in enumerate(HEALTH)}}
    return {name: words[state] for name, state in zip(names, states[:, 0].tolist(), strict=True)}
