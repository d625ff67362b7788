"""`channel_statuses` returns the state of every channel now, from a watch's alerts or from the last faults and rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from sensormend.io.metadata import FaultInterval
from sensormend.pipeline.health import ABSENT, HEALTH, NO_ROWS, PLAIN_REASONS
from sensormend.pipeline.sentences import how_long, number, readable, who
from sensormend.readings import DAY
from sensormend.views.daily_counts import ChannelName
from sensormend.views.reader import OutReader

__all__ = ["RANKS", "WRONG", "ChannelStatus", "all_faults", "channel_statuses", "is_open"]

WRONG = ("faulty", "silent", "gone")
"""The states of a sensor that needs repair."""

RANKS = (*WRONG, "suspect", "not evaluated", "sound", "ended", ABSENT)
"""The states of a sensor, the worst first."""


@dataclass(frozen=True)
class ChannelStatus:
    """The state of a channel now.

    Attributes
    ----------
    state
        One of `RANKS`.
    reason, since
        The reason, and since when, where something is wrong.
    heard, value
        The time of its last reading, None where it never reported; and its value, NaN where that is not known.
    sentence
        A sentence on what is wrong with it; empty where nothing is.
    """

    sensor: str
    variable: str
    state: str
    reason: str
    since: int | None
    heard: int | None
    value: float = math.nan
    sentence: str = ""


def channel_statuses(reader: OutReader) -> dict[ChannelName, ChannelStatus]:
    """Return the state of every channel."""
    last = _last_states(reader)
    tables_end, last_read, health = reader.tables_end(), _last_provisional(reader), reader.health
    faults = {(fault.sensor, fault.variable): fault for fault in reader.faults if is_open(fault, tables_end)}
    removed = _removed(reader)
    statuses = {}
    for entry in reader.summaries:
        name = (entry.sensor, entry.variable)
        alert = health.get(name)
        state, reason, since = last.get(name, ABSENT), "", None
        # A fault stays open while its sensor is silent; the silence is reported first.
        fault = faults.get((entry.sensor, "")) or faults.get(name)
        if state in ("faulty", "silent"):
            # The date as a whole was; whether it still is at its end follows from the open faults.
            state = "sound"
        if fault is not None and state != ABSENT:
            reason, since = fault.reason, fault.start
            state = "silent" if reason in ("silent", "fill") else "suspect" if fault.doubtful else "faulty"
        if alert is not None and alert.state in WRONG:
            # The page shows what a watch has sent as an alert, at the same time.
            since = since if state == alert.state and since is not None else alert.since
            state, reason = alert.state, alert.reason or alert.state
        elif alert is not None and state == "silent":
            state, reason, since = "sound", "", None
        elif alert is not None and state == "faulty":
            # A fault that is not certain enough for an alert, or has not lasted long enough.
            state = "suspect"
        elif not health and state == ABSENT and entry.last is not None and not removed & {name, (entry.sensor, "")}:
            # An archive does not tell whether a series that ended before the others was meant to go on.
            ended = reader.run.get("command") == "clean"
            state, reason, since = ("ended", "", entry.last) if ended else ("gone", "gone", entry.last)
        times = (entry.last, alert.heard if alert else None, last_read.get(name))
        heard = max((time for time in times if time is not None), default=None)
        value = entry.last_value if heard == entry.last else math.nan
        status = ChannelStatus(*name, state, reason, since, heard, value)
        statuses[name] = replace(status, sentence=_sentence(status, tables_end)) if state in WRONG else status
    return statuses


def all_faults(reader: OutReader) -> list[FaultInterval]:
    """Return all faults: those of faults.csv, and those that are open now and too new to have a line there, or gone."""
    faults, tables_end = list(reader.faults), reader.tables_end()
    if tables_end is None:
        return faults
    listed = {(fault.sensor, fault.variable) for fault in faults if is_open(fault, tables_end)}
    ends: dict[ChannelName, int] = {}
    for fault in reader.faults:
        name = fault.sensor, fault.variable
        ends[name] = max(fault.end, ends.get(name, fault.end))
    for name, status in channel_statuses(reader).items():
        # A sensor stays faulty until an alert reports its recovery, also when its fault is over.
        over = status.state == "faulty" and name in ends and ends[name] > (status.since or 0)
        if status.state in WRONG and not over and not listed & {name, (status.sensor, "")}:
            since = tables_end if status.since is None else status.since
            faults.append(FaultInterval(*name, since, max(tables_end, since), status.reason, math.nan, status.sentence))
    return faults


def _sentence(status: ChannelStatus, end: int | None) -> str:
    """Return what is wrong with a channel at the end of the tables."""
    name, since = who(status.sensor, status.variable), status.since
    last = "no number ever came from it"
    if status.heard is not None:
        last = f"its last reading was at {readable(status.heard)}"
        last += f", when it read {number(status.value)}" if math.isfinite(status.value) else ""
    if status.state == "gone":
        return f"{name} is gone: {last}. It stays on this list until maintenance.csv has it as removed."
    if status.state == "silent":
        return f"{name} is silent: {last}."
    lasted = f" for {how_long(end - since)}" if end is not None and since is not None and end > since else ""
    why = PLAIN_REASONS.get(status.reason, status.reason)
    return f"{name} is faulty{lasted}{f': {why}' if why not in ('', 'faulty') else ''}; its period is not over."


def _removed(reader: OutReader) -> set[ChannelName]:
    """Return the channels with `removed` in the maintenance notes of `clean`; an empty variable stands for all."""
    removed = reader.run.get("removed")
    pairs = removed if isinstance(removed, list) else []
    return {(str(pair[0]), str(pair[1])) for pair in pairs if isinstance(pair, list) and len(pair) == 2}


def is_open(fault: FaultInterval, end: int | None) -> bool:
    """Return whether a fault lasts until the end of the tables."""
    return end is not None and fault.end >= end and fault.reason != "spike"


def _last_provisional(reader: OutReader) -> dict[ChannelName, int]:
    """Return the times of the last readings of channels in a period that is not over."""
    provisional = reader.provisional
    if provisional is None:
        return {}
    rows = provisional.rows

    def last_times() -> dict[ChannelName, int]:
        read = rows.taken(rows.n > 0)
        read = read.taken(np.argsort(read.time, kind="stable"))
        codes = zip(read.sensor.tolist(), read.variable.tolist(), read.time.tolist(), strict=True)
        return {(rows.sensors[sensor], rows.variables[variable]): time for sensor, variable, time in codes}

    return reader.cached("heard", provisional, last_times)


def _last_states(reader: OutReader) -> dict[ChannelName, str]:
    """Return the state of every channel in the last final period, at least a date; `filled` counts as sound."""
    final = reader.final()
    if final is None:
        return {}
    date, days = (final - 1) // DAY, -(-max(reader.period or DAY, reader.step) // DAY)
    names, states = reader.daily_counts.states(date - days + 1, date, days)
    words = {NO_ROWS: ABSENT, **{code: "sound" if word == "filled" else word for code, word in enumerate(HEALTH)}}
    return {name: words[state] for name, state in zip(names, states[:, 0].tolist(), strict=True)}
