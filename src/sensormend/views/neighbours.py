"""The sensors whose course is most like that of one: who can speak for or against it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sensormend.explain.correlated import witnesses
from sensormend.pipeline.places import Position
from sensormend.readings import DAY
from sensormend.views.look import Look, numbers
from sensormend.views.sensors import place_of

__all__ = ["Neighbour", "Neighbours", "among", "neighbours"]

MOST, SHOWN = 500, 5
"""Sensors that are compared, the nearest where places are known; and how many of them are told."""

LONGEST, SHORTEST, ROWS = 30, 3, 1_000_000
"""Days over which courses are compared, and rows that are read for it at most."""


@dataclass(frozen=True)
class Neighbour:
    """A sensor like another one.

    Attributes
    ----------
    likeness
        The correlation of the two courses, each without its daily cycle.
    usual, spread
        What has to be added to its readings to have those of the other, and how far off that usually is.
    kilometres
        How far away it is; null where that is not known.
    """

    sensor: str
    likeness: float
    usual: float
    spread: float
    kilometres: float | None


@dataclass(frozen=True)
class Neighbours:
    """The sensors most like one, the best first."""

    sensor: str
    variable: str
    items: list[Neighbour]


def neighbours(look: Look, name: str, variable: str | None = None, at: int | None = None) -> Neighbours:
    """Return who is most like a sensor in the days before a time; before the end where none is said."""
    look.known(name)
    variable, span = look.variable(variable, name), look.span()
    if span is None:
        return Neighbours(name, variable, [])
    end = span[1] + look.step if at is None else min(max(at, span[0]), span[1] + look.step)
    others = among(look, name, variable)
    per_day = max(1, DAY // look.step)
    days = min(max(ROWS // (per_day * len(others)), SHORTEST), LONGEST)
    past, _ = look.rows(others, end - days * DAY, end, variable)
    if not len(past):
        return Neighbours(name, variable, [])
    found = witnesses(past, past, name, SHOWN)
    here = _positions(look)
    return Neighbours(
        name,
        variable,
        [
            Neighbour(
                one.sensor,
                round(one.likeness, 4),
                *_told(one.says - one.value, one.spread),
                round(here[name].metres_from(here[one.sensor]) / 1000, 3)
                if {name, one.sensor} <= here.keys()
                else None,
            )
            for one in found
        ],
    )


def among(look: Look, name: str, variable: str) -> list[str]:
    """Return whom to compare a sensor with, itself included: all of a small network, else the nearest."""
    names = [entry.sensor for entry in look.summaries if entry.variable == variable and entry.sensor != name]
    here = _positions(look)
    if len(names) >= MOST and name in here:
        names.sort(key=lambda other: here[name].metres_from(here[other]) if other in here else np.inf)
    return [name, *names[: MOST - 1]]


def _told(usual: float, spread: float) -> tuple[float, float]:
    shown = numbers(np.array([usual, spread]))
    return shown[0] or 0.0, shown[1] or 0.0


def _positions(look: Look) -> dict[str, Position]:
    places = ((entry.sensor, place_of(entry)) for entry in look.summaries)
    return {sensor: Position(sensor, 0, *place) for sensor, place in places if place is not None}
