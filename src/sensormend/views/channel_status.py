"""`channel_statuses` returns the state of every channel now, and `all_faults` the faults; every view counts these."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from sensormend.pipeline.channel_states import (
    WRONG,
    ChannelName,
    ChannelState,
    FinalState,
    PeriodCounts,
    final_states,
    is_open,
)
from sensormend.pipeline.faults import FaultInterval, ReadingSums, distances_from
from sensormend.pipeline.health import Health
from sensormend.pipeline.sentences import comma, how_long, number, readable, what_it_does, who
from sensormend.readings import DAY, Flag
from sensormend.views.reader import OutReader

__all__ = ["ChannelStatus", "all_faults", "channel_statuses", "last_heard"]

FOREVER = 2**62
"""Later than any time."""

UNREMARKABLE = ("healthy", "learning")
"""States that have no reason and no start."""


@dataclass(frozen=True)
class ChannelStatus:
    """The state of a channel now.

    Attributes
    ----------
    state
        One of `STATES`.
    reason, since
        The reason, and since when, where something is wrong.
    heard, value
        The time of its last reading, None where it never reported; and its value, NaN where that is not known.
    needs_repair
        Whether it is faulty or silent, or has ended in a live feed and is not `removed` in maintenance.csv.
    sentence
        A sentence on what is wrong with it; empty where it needs no repair.
    """

    sensor: str
    variable: str
    state: str
    reason: str
    since: int | None
    heard: int | None
    value: float = math.nan
    needs_repair: bool = False
    sentence: str = ""


def channel_statuses(reader: OutReader) -> dict[ChannelName, ChannelStatus]:
    """Return the state of every channel: at the end of the tables, and for a watch as its alerts have it."""
    seen = (reader.summaries, reader.faults, reader.health, reader.provisional, reader.tables_end(), reader.rows_seen)
    return reader.cached("statuses", seen, lambda: _statuses(reader))


def last_heard(reader: OutReader) -> int | None:
    """Return the time of the last reading of all channels; None if none ever came."""
    times = [status.heard for status in channel_statuses(reader).values() if status.heard is not None]
    return max(times, default=None)


def _statuses(reader: OutReader) -> dict[ChannelName, ChannelStatus]:
    tables_end, last_read, health = reader.tables_end(), _last_provisional(reader), reader.health
    last = _last_period(reader, tables_end)
    listed = {
        (entry.sensor, entry.variable): last.get((entry.sensor, entry.variable), PeriodCounts())
        for entry in reader.summaries
        # The others are known only from a period that is not over.
        if not math.isnan(entry.share_missing) or (entry.sensor, entry.variable) in last
    }
    final = final_states(listed, reader.faults, tables_end)
    statuses = {}
    for entry in reader.summaries:
        name = (entry.sensor, entry.variable)
        alert = health.get(name)
        now = final.get(name, FinalState(ChannelState.LEARNING))
        now = now if alert is None else _alerted(alert, now)
        times = (entry.last, alert.heard if alert else None, last_read.get(name))
        heard = max((time for time in times if time is not None), default=None)
        value = entry.last_value if heard == entry.last else math.nan
        repair = now.state in WRONG or (now.state == "ended" and alert is not None)
        status = ChannelStatus(*name, str(now.state), now.reason, now.since, heard, value, needs_repair=repair)
        statuses[name] = replace(status, sentence=_sentence(reader, status, tables_end)) if repair else status
    return statuses


def _alerted(alert: Health, final: FinalState) -> FinalState:
    """Return the state of a channel of a watch: the page shows what its alerts say, at the same time."""
    state = ChannelState(alert.state)
    same = final.state == state
    reason = alert.reason or (final.reason if same else "")
    since = final.since if same and final.since is not None else alert.since
    return FinalState(state) if state in UNREMARKABLE else FinalState(state, reason or alert.state, since)


def all_faults(reader: OutReader) -> list[FaultInterval]:
    """Return all faults: the lines of faults.csv, and of a watch also those that are too new to have a line there."""
    faults, tables_end = list(reader.faults), reader.tables_end()
    if tables_end is None or not reader.health:
        return faults
    listed = {(fault.sensor, fault.variable) for fault in faults if is_open(fault, tables_end)}
    # The line on a silence ends when its sensor counts as ended; the sensor stays on the list until it is removed.
    silences = {(fault.sensor, fault.variable): fault for fault in faults if fault.reason == "silent"}
    ends: dict[ChannelName, int] = {}
    for fault in reader.faults:
        name = fault.sensor, fault.variable
        ends[name] = max(fault.end, ends.get(name, fault.end))
    for name, status in channel_statuses(reader).items():
        # A sensor stays faulty until an alert reports its recovery, also when its fault is over.
        over = status.state == "faulty" and name in ends and ends[name] > (status.since or 0)
        names = {name, (status.sensor, "")}
        if status.needs_repair and not over and not listed & names:
            if status.state == "ended" and (whose := names & silences.keys()):
                line = silences[max(whose)]
                # The value is that of one variable.
                whole = (
                    status
                    if line.variable or len(reader.variables) == 1
                    else replace(status, variable="", value=math.nan)
                )
                sentence = _sentence(reader, whole, tables_end)
                faults[faults.index(line)] = replace(line, end=max(tables_end, line.end), sentence=sentence, open=True)
                listed.add((line.sensor, line.variable))
                continue
            since = tables_end if status.since is None else status.since
            reason = "silent" if status.state == "ended" else status.reason
            new = FaultInterval(*name, since, max(tables_end, since), reason, math.nan, status.sentence, open=True)
            faults.append(new)
    return faults


def _sentence(reader: OutReader, status: ChannelStatus, end: int | None) -> str:
    """Return what is wrong with a channel at the end of the tables."""
    name, since = who(status.sensor, status.variable), status.since
    last = "no number ever came from it"
    if status.heard is not None:
        last = f"its last reading was at {readable(status.heard)}"
        last += f", when it read {number(status.value)}" if math.isfinite(status.value) else ""
    if status.state == "ended":
        return f"{name} has ended: {last}. It stays on this list until maintenance.csv has it as removed."
    if status.state == "silent":
        return f"{name} is silent: {last}."
    if does := _what_it_does(reader, status):
        return f"{name} {does}{comma(does)} since {readable(since or 0)}; its period is not over."
    lasted = f" for {how_long(end - since)}" if end is not None and since is not None and end > since else ""
    why = f": {status.reason}" if status.reason not in ("", "faulty") else ""
    return f"{name} is faulty{lasted}{why}; its period is not over."


def _what_it_does(reader: OutReader, status: ChannelStatus) -> str:
    """Return what a channel does by its wrong readings of a period that is not over; empty if there is none."""
    if reader.provisional is None or status.since is None or not status.reason:
        return ""
    rows = reader.provisional.taken([status.sensor], status.since, FOREVER, status.variable)
    rows = rows.taken(np.flatnonzero((rows.flag == Flag.FAIL) & np.isfinite(rows.value)))
    if not len(rows):
        return ""
    sums = ReadingSums.of(rows.value, distances_from(rows.value, rows.cleaned))
    if not sums.square:
        return ""
    span = int(rows.time[-1]) + reader.step - status.since
    return what_it_does(status.reason, math.nan, 0.0, sums, span, over=False)


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


def _last_period(reader: OutReader, end: int | None) -> dict[ChannelName, PeriodCounts]:
    """Return the counts of the channels in the last period of the tables."""
    return {} if end is None else reader.daily_counts.between(end - (reader.period or DAY), end)
