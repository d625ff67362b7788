"""`standings` says how every channel is now: as a watch's alerts have it, else by the faults and rows of the end."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sensormend.io.metadata import FaultInterval
from sensormend.pipeline.health import HEALTH, NO_ROWS, PLAIN_REASONS
from sensormend.pipeline.sentences import how_long, number
from sensormend.readings import DAY
from sensormend.views.digest import Name
from sensormend.views.look import Look

__all__ = ["NOTHING", "RANKS", "WRONG", "Standing", "going_on", "repair_list", "standings"]

NOTHING = "nothing"
"""The state of a sensor that has no rows there: not yet, or people have removed it."""

WRONG = ("faulty", "silent", "gone")
"""The states of a sensor that is to be repaired."""

RANKS = (*WRONG, "suspect", "not evaluated", "sound", NOTHING)
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
    heard, value
        When its last reading was taken, None for one that was never heard; and what it read, NaN where that is not
        known.
    sentence
        What is wrong with it, for a person; empty where nothing is.
    """

    sensor: str
    variable: str
    state: str
    reason: str
    since: int | None
    heard: int | None
    value: float = math.nan
    sentence: str = ""


def standings(look: Look) -> dict[Name, Standing]:
    """Return how every channel is."""
    last = _last_states(look)
    until, lately, health = look.told(), _heard_lately(look), look.health
    faults = {(fault.sensor, fault.variable): fault for fault in look.faults if going_on(fault, until)}
    removed = _removed(look)
    found = {}
    for entry in look.summaries:
        name = (entry.sensor, entry.variable)
        alert = health.get(name)
        state, reason, since = last.get(name, NOTHING), "", None
        # A fault goes on while its sensor is silent; that it is silent is said first.
        fault = faults.get((entry.sensor, "")) or faults.get(name)
        if state in ("faulty", "silent"):
            # The date was; whether it still is by its end is what faults tell.
            state = "sound"
        if fault is not None and state != NOTHING:
            reason, since = fault.reason, fault.start
            state = "silent" if reason == "silent" else "suspect" if fault.doubtful else "faulty"
        if alert is not None and alert.state in WRONG:
            # What a watch tells is what the page says, at the same time.
            since = since if state == alert.state and since is not None else alert.since
            state, reason = alert.state, alert.reason or alert.state
        elif alert is not None and state == "silent":
            state, reason, since = "sound", "", None
        elif alert is not None and state == "faulty":
            # A fault that is not sure enough to be told, or has not stood for long enough.
            state = "suspect"
        elif not health and state == NOTHING and entry.last is not None and not removed & {name, (entry.sensor, "")}:
            state, reason, since = "gone", "gone", entry.last
        times = (entry.last, alert.heard if alert else None, lately.get(name))
        heard = max((time for time in times if time is not None), default=None)
        value = entry.last_value if heard == entry.last else math.nan
        text = _sentence(name, state, reason, since, heard, value, until) if state in WRONG else ""
        found[name] = Standing(*name, state, reason, since, heard, value, text)
    return found


def repair_list(look: Look) -> list[FaultInterval]:
    """Return all faults: those of faults.csv, and what is wrong now and has no line there, being too new, or gone."""
    faults, until = list(look.faults), look.told()
    if until is None:
        return faults
    listed = {(fault.sensor, fault.variable) for fault in faults if going_on(fault, until)}
    ends: dict[Name, int] = {}
    for fault in look.faults:
        ends[fault.sensor, fault.variable] = max(fault.end, ends.get((fault.sensor, fault.variable), fault.end))
    for name, one in standings(look).items():
        # A faulty sensor is one until it is told to be well, also when its fault is over.
        over = one.state == "faulty" and name in ends and ends[name] > (one.since or 0)
        if one.state in WRONG and not over and not listed & {name, (one.sensor, "")}:
            since = until if one.since is None else one.since
            faults.append(FaultInterval(*name, since, max(until, since), one.reason, math.nan, one.sentence))
    return faults


def _sentence(
    name: Name, state: str, reason: str, since: int | None, heard: int | None, value: float, until: int | None
) -> str:
    who = " ".join(name).strip()
    when = "" if heard is None else f" at {np.datetime64(heard, 'us').astype('datetime64[m]')}".replace("T", " ")
    read = f", when it read {number(value)}" if when and math.isfinite(value) else ""
    last = f"its last reading was{when}{read}" if when else "no number ever came from it"
    if state == "gone":
        return f"{who} is gone: {last}. It stays on this list until maintenance.csv has it as removed."
    if state == "silent":
        return f"{who} is silent: {last}."
    lasted = f" for {how_long(until - since)}" if until is not None and since is not None and until > since else ""
    why = PLAIN_REASONS.get(reason, reason)
    return f"{who} is faulty{lasted}{f': {why}' if why not in ('', 'faulty') else ''}; its period is not over."


def _removed(look: Look) -> set[Name]:
    """Return the channels that people have removed, as a run of `clean` was told; no variable stands for all."""
    removed = look.run.get("removed")
    pairs = removed if isinstance(removed, list) else []
    return {(str(pair[0]), str(pair[1])) for pair in pairs if isinstance(pair, list) and len(pair) == 2}


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
