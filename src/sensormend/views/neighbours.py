"""`neighbours` returns the sensors most correlated with one, `explanation` why one of its readings has its flag."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sensormend.errors import InputError
from sensormend.explain.context import correlated_sensors, reading_context
from sensormend.explain.paragraph import comparison, paragraph, verdict
from sensormend.pipeline.places import Position
from sensormend.pipeline.sentences import contradiction_sentence, who
from sensormend.pipeline.times import parse_time
from sensormend.pipeline.units import axis_label, split_unit
from sensormend.readings import DAY
from sensormend.views.channel_status import channel_statuses
from sensormend.views.fault_list import open_incident, select_faults
from sensormend.views.reader import OutReader, numbers, utc
from sensormend.views.sensors import what_to_do

__all__ = ["ComparedSensor", "Explanation", "Neighbour", "Neighbours", "candidates", "explanation", "neighbours"]

MAX_COMPARED, MAX_SHOWN = 500, 5
"""The number of sensors that are compared, the nearest ones if positions are known; and the number that is returned."""

NAMED = 3
"""The number of sensors that the sentence names."""

MAX_DAYS, MIN_DAYS, MAX_ROWS = 30, 3, 1_000_000
"""The maximum and minimum number of days over which series are compared, and the maximum number of rows read for
that."""


@dataclass(frozen=True)
class Neighbour:
    """A sensor that is correlated with another one.

    Attributes
    ----------
    likeness
        The correlation of the two series, each without its daily cycle.
    usual, spread
        The usual difference from its readings to those of the other, and the spread of that difference.
    kilometres
        Its distance; null where that is not known.
    """

    sensor: str
    likeness: float
    usual: float
    spread: float
    kilometres: float | None


@dataclass(frozen=True)
class Neighbours:
    """The sensors most correlated with one, the best first.

    Attributes
    ----------
    start, end
        The span over which they were compared, before the sensor's fault where it has one; null without rows.
    sentence
        How far the sensor is off by the best of them, since when, and what to do; empty unless it is shifted now.
    """

    sensor: str
    variable: str
    start: str | None
    end: str | None
    items: list[Neighbour]
    sentence: str = ""


def neighbours(reader: OutReader, name: str, variable: str | None = None, at: int | None = None) -> Neighbours:
    """Return the sensors most correlated with one in the days before a time, by default its last reading.

    Where the sensor has a fault then, the days before the fault are compared: in it no good reading is left.
    """
    variable, span = reader.variable(variable, name), reader.span()
    if span is None:
        return Neighbours(name, variable, None, None, [])
    if at is None:
        # A sensor may have ended long before the others.
        status = channel_statuses(reader).get((name, variable))
        at = (span[1] if status is None or status.heard is None else status.heard) + reader.step
    end = min(max(at, span[0]), span[1] + reader.step)
    sensors = candidates(reader, name, variable)
    per_day = max(1, DAY // reader.step)
    days = min(max(MAX_ROWS // (per_day * len(sensors)), MIN_DAYS), MAX_DAYS)
    end = _before_faults(reader, name, variable, end, span[0])
    start = max(end - days * DAY, span[0])
    past, _ = reader.rows(sensors, start, end, variable)
    positions, items = _positions(reader), []
    for other in correlated_sensors(past, past, name, MAX_SHOWN) if len(past) else ():
        usual, spread = numbers(np.array([other.expected - other.value, other.spread]))
        kilometres = None
        if {name, other.sensor} <= positions.keys():
            kilometres = round(positions[name].metres_from(positions[other.sensor]) / 1000, 3)
        items.append(Neighbour(other.sensor, round(other.likeness, 4), usual or 0.0, spread or 0.0, kilometres))
    return Neighbours(name, variable, utc(start), utc(end), items, _contradiction(reader, name, variable, items))


def _contradiction(reader: OutReader, name: str, variable: str, items: Sequence[Neighbour]) -> str:
    """Return the sentence of a channel whose open fault has a size in its unit."""
    fault, status = open_incident(reader, name, variable), channel_statuses(reader).get((name, variable))
    if not items or status is None or not status.needs_repair or fault is None or fault.size is None:
        return ""
    if fault.reason not in ("offset", "drift"):
        return ""
    growth = (fault.rate or 0.0) * DAY / (reader.period or DAY)
    others, unit = [one.sensor for one in items[:NAMED]], axis_label(variable, reader.run)[1]
    sentence = contradiction_sentence(
        who(name, split_unit(variable)[0]), fault.size, growth, unit, others, parse_time(fault.start)
    )
    return f"{sentence} {what_to_do(status)}"


def _before_faults(reader: OutReader, name: str, variable: str, end: int, first: int) -> int:
    """Return the last time up to `end` that follows some days without a fault; `end` itself where there is none."""
    faults = select_faults(reader, sensor=name, variable=variable, end=end)
    before = end
    for fault in sorted((one for one in faults if one.reason != "spike"), key=lambda one: -one.end):
        if fault.end > before - MIN_DAYS * DAY:
            before = min(before, fault.start)
    return before if before - first >= MIN_DAYS * DAY else end


def candidates(reader: OutReader, name: str, variable: str) -> list[str]:
    """Return the sensors to compare one with, itself included: all of a small network, else the nearest."""
    names = [entry.sensor for entry in reader.summaries if entry.variable == variable and entry.sensor != name]
    positions = _positions(reader)
    if len(names) >= MAX_COMPARED and name in positions:
        names.sort(key=lambda other: positions[name].metres_from(positions[other]) if other in positions else np.inf)
    return [name, *names[: MAX_COMPARED - 1]]


def _positions(reader: OutReader) -> dict[str, Position]:
    return {sensor: Position(sensor, 0, *place) for sensor, place in reader.places.items()}


@dataclass(frozen=True)
class ComparedSensor:
    """A correlated sensor at the time of a reading.

    Attributes
    ----------
    read, implied
        Its own reading, and what that implies for the sensor in question: with the usual difference added.
    off, usual
        The distance of the reading in question from that, null where there is none; and how far it usually is.
    """

    sensor: str
    read: float
    implied: float
    off: float | None
    usual: float


@dataclass(frozen=True)
class Explanation:
    """Why a reading has its flag.

    Attributes
    ----------
    time
        The start of its slot.
    text
        All of it, in one paragraph.
    verdict, comparison, compared
        The same in parts: the verdict, whether the correlated sensors contradict the reading, and what they read.
    """

    sensor: str
    variable: str
    time: str
    text: str
    verdict: str
    comparison: str
    compared: list[ComparedSensor]


def explanation(reader: OutReader, name: str, time: int, variable: str | None = None) -> Explanation:
    """Return why the reading of a sensor in the slot of a time has its flag."""
    variable = reader.variable(variable, name)
    final = reader.final()
    if reader.archive is None or final is None or time >= final:
        raise InputError("nothing is final at that time yet; a reading is explained when its period is over")
    names = set(reader.archive.names)
    among = [other for other in candidates(reader, name, variable) if other in names]
    context = reading_context(reader.archive, reader.archive.check_sensor(name), time, variable, among)
    columns = [(one.value, one.expected, context.row.value - one.expected, one.spread) for one in context.correlated]
    compared = [
        ComparedSensor(other.sensor, read or 0.0, implied or 0.0, off, usual or 0.0)
        for other, (read, implied, off, usual) in zip(
            context.correlated, (numbers(np.array(column)) for column in columns), strict=True
        )
    ]
    return Explanation(
        name, variable, utc(context.row.time) or "", paragraph(context), verdict(context), comparison(context), compared
    )
