"""`network_overview` describes the present state of a network in numbers and in one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sensormend.pipeline.channel_states import count_sensors
from sensormend.pipeline.sentences import (
    how_far_judged,
    learning_sentence,
    percent,
    readable,
    states_in_words,
    without_number,
)
from sensormend.pipeline.times import parse_time
from sensormend.pipeline.units import axis_label
from sensormend.readings import DAY, SECOND, Flag
from sensormend.views.channel_status import all_faults, channel_statuses, last_heard
from sensormend.views.reader import OutReader, utc

__all__ = ["NetworkOverview", "network_overview", "wrong_and_filled"]

Shares = tuple[float | None, float | None]

FILLED_DAYS = 30
"""Span of `wrong` and `filled` in a feed: long enough to be steady, short enough to describe the present."""


@dataclass(frozen=True)
class NetworkOverview:
    """The present state of a network.

    Attributes
    ----------
    name, sentence
        Its name, and its state in one sentence.
    sensors
        Number of its sensors, also of those that have ended.
    states
        Number of sensors in each of `STATES`; a sensor counts as its worst variable.
    faults
        Number of faults.
    wrong, filled, filled_days
        The shares of wrong readings and of estimates in an archive, or in the last days of a feed, and the number of
        these days.
    variables, units
        Names of the variables; a single empty one where it has none. And their units, as far as they are known.
    first, last
        The times of the first and the last row, provisional ones too.
    heard
        The time of the last reading; in a period that ends later, rows follow it.
    step, period
        Seconds of a slot and of a period; the period is null where it is not known.
    interval
        Nominal coverage of the intervals of estimates.
    command
        The command that wrote it: watch or clean.
    live, reached, updated
        Whether a watch is writing now, the event time that it has reached, and when it last wrote.
    provisional_from
        Time of the first provisional value.
    places, owner_flags
        Whether coordinates of sensors are known, and whether flags came with the readings.
    notes
        Notes from the survey of the readings.
    version
        Increases with every change.
    """

    name: str
    sentence: str
    sensors: int
    states: dict[str, int]
    faults: int
    wrong: float | None
    filled: float | None
    filled_days: int
    variables: list[str]
    units: dict[str, str]
    first: str | None
    last: str | None
    heard: str | None
    step: float
    period: float | None
    interval: float
    command: str
    live: bool
    reached: str | None
    updated: str | None
    provisional_from: str | None
    places: bool
    owner_flags: bool
    notes: list[str]
    version: int


def network_overview(reader: OutReader) -> NetworkOverview:
    """Return the present state of a network."""
    run, span, provisional = reader.run, reader.span(), reader.provisional
    states = count_sensors({name: status.state for name, status in channel_statuses(reader).items()})
    days = _days(reader)
    wrong, filled = (None, None) if days is None else wrong_and_filled(reader, *days)
    final = reader.final()
    later = provisional.rows.time if provisional is not None else np.empty(0, np.int64)
    later = later if final is None else later[later >= final]
    times = [time for time in (final, provisional.reached if provisional else None) if time is not None]
    reached = max(times, default=None)
    return NetworkOverview(
        name=reader.name,
        sentence=_learning(reader, states, reached)
        or f"{_judged(reader)} {_sentence(states, reader.live, days, (wrong, filled))}".lstrip()
        if reader.folder.is_dir()
        else f"{reader.name} does not exist any more.",
        sensors=sum(states.values()),
        states=states,
        faults=len(all_faults(reader)),
        wrong=wrong,
        filled=filled,
        filled_days=0 if days is None else days[1] - days[0] + 1,
        variables=list(reader.variables),
        units={name: unit for name in reader.variables if (unit := axis_label(name, run)[1])},
        first=utc(span[0]) if span else None,
        last=utc(span[1]) if span else None,
        heard=utc(last_heard(reader)),
        step=reader.step / SECOND,
        period=None if reader.period is None else reader.period / SECOND,
        interval=_interval(run),
        command=str(run.get("command", "")),
        live=reader.live,
        reached=utc(reached),
        updated=_time(run.get("updated") or run.get("finished")),
        provisional_from=utc(int(later.min())) if later.size else None,
        places=bool(reader.places),
        owner_flags=bool(run.get("owner_flags")),
        notes=[str(note) for note in _listed(run.get("notes"))],
        version=reader.version,
    )


def _judged(reader: OutReader) -> str:
    """Return a sentence on how much of the final rows was judged."""
    flags = reader.run.get("flags")
    try:
        counts = {int(flag): int(count) for flag, count in flags.items()} if isinstance(flags, dict) else {}
    except (TypeError, ValueError):
        counts = {}
    span, final = reader.span(), reader.final()
    if not counts and span is not None and final is not None:
        _, totals = reader.daily_counts.totals(span[0] // DAY, (final - 1) // DAY)
        slots = {name: int(count.sum()) for name, count in totals.items()}
        wrong, suspect, unjudged = slots["faulty"] + slots["spikes"], slots["suspect"], slots["unjudged"]
        good = slots["slots"] - slots["missing"] - wrong - suspect - unjudged
        counts = {Flag.GOOD: good, Flag.NOT_EVALUATED: unjudged, Flag.SUSPECT: suspect, Flag.FAIL: wrong}
    return how_far_judged(counts, *without_number(reader.summaries))


def wrong_and_filled(reader: OutReader, first: int, last: int) -> tuple[float | None, float | None]:
    """Return which share of the readings is wrong, and of the values estimated, between two dates; None for none."""
    _, totals = reader.daily_counts.totals(first, last)
    count = {name: int(by_day.sum()) for name, by_day in totals.items()}
    read = count["slots"] - count["missing"]
    wrong = round((count["faulty"] + count["spikes"]) / read, 6) if read else None
    return wrong, (round(count["estimated"] / count["slots"], 6) if count["slots"] else None)


def _days(reader: OutReader) -> tuple[int, int] | None:
    """Return the first and the last date that shares are of: all of an archive, the last ones of a feed."""
    span, final = reader.span(), reader.final()
    if span is None or final is None:
        return None
    first, last = span[0] // DAY, (final - 1) // DAY
    return (max(first, last - FILLED_DAYS + 1) if reader.live else first), last


def _learning(reader: OutReader, states: Mapping[str, int], reached: int | None) -> str:
    """Return how far a feed has learned that is too young for any verdict; empty for others."""
    span, total = reader.span(), sum(states.values())
    if not reader.live or span is None or reached is None or not total or states["learning"] < total:
        return ""
    from sensormend.model.network_model import LEARNING_PERIODS

    period = reader.period or DAY
    begin = span[0] // period * period
    done, first = (reached - begin) // period, begin + LEARNING_PERIODS * period
    return learning_sentence(done, LEARNING_PERIODS, first, daily=period == DAY) if done < LEARNING_PERIODS else ""


def _sentence(states: dict[str, int], live: bool, days: tuple[int, int] | None, shares: Shares) -> str:
    """Return the state of the network in words, and for an archive what was wrong from its first to its last day."""
    words, (wrong, filled) = states_in_words(states), shares
    if filled is None or days is None:
        return words
    share, count = percent(filled), days[1] - days[0] + 1
    if not live:
        first, last = (readable(date * DAY).split()[0] for date in days)
        span = f"From {first} to {last}" if count > 1 else f"On {first}"
        was = f"{percent(wrong)} of the readings were wrong and " if wrong is not None else ""
        return f"{words} {span}, {was}{share} of the values are estimates."
    span = f"the last {count} days" if count > 1 else "the last day"
    return f"{words} {share[0].upper()}{share[1:]} of the values of {span} are estimates."


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _interval(run: dict[str, Any]) -> float:
    options = run.get("options")
    share = options.get("interval") if isinstance(options, dict) else None
    return float(share) if isinstance(share, int | float) else 0.9


def _time(text: object) -> str | None:
    try:
        return utc(parse_time(str(text))) if text else None
    except ValueError:
        return None
