"""The sensors of a network, and one of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from sensormend.io.metadata import SensorSummary
from sensormend.pipeline.health import PLAIN_REASONS
from sensormend.pipeline.sentences import how_long
from sensormend.readings import SECOND
from sensormend.views.look import Look, utc
from sensormend.views.now import NOTHING, RANKS, WRONG, Standing, standings
from sensormend.views.paging import matches, page_of

__all__ = ["Order", "SensorEntry", "SensorPage", "SensorView", "place_of", "sensor", "sensors"]

Order = Literal["trouble", "name", "heard", "faulty", "missing"]


@dataclass(frozen=True)
class SensorEntry:
    """A channel: how it is now, and its figures as sensors.csv has them; null where something is not known.

    Attributes
    ----------
    state, reason, since
        How it is now, why, and from when on, where something is wrong.
    heard
        When its last reading was taken.
    readings, share_missing, share_faulty, usual_error
        How many it sent; which shares of its slots were empty, and of its readings wrong; its usual distance from
        what the others say.
    """

    sensor: str
    variable: str
    state: str
    reason: str
    since: str | None
    heard: str | None
    readings: int
    share_missing: float | None
    share_faulty: float | None
    usual_error: float | None
    latitude: float | None
    longitude: float | None
    first: str | None
    last: str | None


@dataclass(frozen=True)
class SensorPage:
    """Some of the channels; `next` is where the next page begins."""

    total: int
    offset: int
    next: int | None
    items: list[SensorEntry]


@dataclass(frozen=True)
class SensorView(SensorEntry):
    """One channel, with the variables of its sensor, how many faults it had, and how it is in a sentence."""

    variables: list[str]
    faults: int
    sentence: str


def sensors(
    look: Look,
    *,
    search: str = "",
    state: str = "",
    variable: str | None = None,
    sort: Order = "trouble",
    offset: int = 0,
    limit: int = 200,
) -> SensorPage:
    """Return channels, those with most trouble first by default."""
    found = standings(look)
    chosen = [
        (entry, found[entry.sensor, entry.variable])
        for entry in look.summaries
        if (variable is None or entry.variable == variable) and matches(search, entry.sensor)
    ]
    chosen = [pair for pair in chosen if not state or pair[1].state == state]
    chosen.sort(key=lambda pair: _key(sort, *pair))
    shown, following = page_of(chosen, offset, limit)
    return SensorPage(len(chosen), offset, following, [SensorEntry(**_figures(*pair)) for pair in shown])


def sensor(look: Look, name: str, variable: str | None = None) -> SensorView:
    """Return one channel."""
    look.known(name)
    variable = look.variable(variable, name)
    entry = next(one for one in look.summaries if (one.sensor, one.variable) == (name, variable))
    standing = standings(look)[name, variable]
    count = sum(fault.sensor == name and fault.variable in ("", variable) for fault in look.faults)
    return SensorView(
        **_figures(entry, standing),
        variables=list(look.channels[name]),
        faults=count,
        sentence=_sentence(look, standing, count),
    )


def place_of(entry: SensorSummary) -> tuple[float, float] | None:
    """Return latitude and longitude; None where they are not known."""
    place = (entry.latitude, entry.longitude)
    return place if all(map(math.isfinite, place)) else None


def _figures(entry: SensorSummary, standing: Standing) -> dict[str, Any]:
    place = place_of(entry) or (None, None)
    return {
        "sensor": entry.sensor,
        "variable": entry.variable,
        "state": standing.state,
        "reason": standing.reason,
        "since": utc(standing.since),
        "heard": utc(standing.heard),
        "readings": entry.readings,
        "share_missing": _known(entry.share_missing),
        "share_faulty": _known(entry.share_faulty),
        "usual_error": _known(entry.usual_error),
        "latitude": place[0],
        "longitude": place[1],
        "first": utc(entry.first),
        "last": utc(entry.last),
    }


def _key(sort: Order, entry: SensorSummary, standing: Standing) -> tuple[object, ...]:
    name = (entry.sensor, entry.variable)
    faulty, missing = _known(entry.share_faulty) or 0.0, _known(entry.share_missing) or 0.0
    return {
        "trouble": (RANKS.index(standing.state), -faulty, -missing, name),
        "name": (name,),
        "heard": (standing.heard is not None, standing.heard or 0, name),
        "faulty": (-faulty, name),
        "missing": (-missing, name),
    }[sort]


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _sentence(look: Look, standing: Standing, faults: int) -> str:
    """Say how a channel is."""
    span = look.span()
    now = span[1] + look.step if span else None
    since = f" for {how_long(max(now - standing.since, SECOND))}" if now is not None and standing.since else ""
    reason = PLAIN_REASONS.get(standing.reason, standing.reason)
    told = {
        "faulty": f"Faulty{since}{f': {reason}' if reason else ''}",
        "silent": f"Silent{since}",
        "gone": f"Gone{since}",
        "suspect": "Suspect on its last day",
        "not evaluated": "Cannot be judged yet",
        NOTHING: "Not part of the network any more",
    }.get(standing.state, "Sound")
    if standing.state in WRONG and not faults:
        return f"{told}. {standing.sentence}"
    history = f"{faults:,} fault{'s' if faults > 1 else ''} so far" if faults else "no fault so far"
    return f"{told}; {history}."
