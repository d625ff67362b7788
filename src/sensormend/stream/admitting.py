"""Which readings can be, those with a time and of a variable that are possible; and which variables a new feed has."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sensormend.io.metadata import iso
from sensormend.pipeline.sentences import who
from sensormend.readings import IntArray, Readings
from sensormend.recovery import BoolArray
from sensormend.stream.arrivals import Rejected

__all__ = [
    "FUTURE", "MOST_VARIABLES", "OLD", "RARE", "TOO_MANY", "TOO_MANY_LATE", "UNKNOWN", "admitted", "carried",
    "rejected", "renamed",
]  # fmt: skip

FUTURE = "a time in the future"
OLD = "a time too long ago"
UNKNOWN = "a variable that was not there from the start"
RARE = "a variable that too few messages carry"
TOO_MANY = "more readings than a sensor can have in a period"
TOO_MANY_LATE = "more late readings than a period can take"

ENOUGH = 3
"""Sensors that carry a variable, or times at which it comes, until it is one; fewer where none has so many. Every
variable costs cells of every sensor: one message must not make them."""

MOST_VARIABLES = 100
"""Variables that nobody has named: those that most sensors carry, and of these those with most readings. Twenty
sensors with 900 variables took 287 s for a period; `python benchmarks/limits.py variables` measures what these take."""

MOST_REJECTED = 1_000
"""Readings of one arrival, for each reason, that are told one by one; what is more is told in one."""


def admitted(
    readings: Readings, oldest: int, latest: int, variables: Sequence[str], refused: list[Rejected]
) -> Readings:
    """Return the readings that can be, and add to `refused` why the others cannot.

    Parameters
    ----------
    readings
        As they came.
    oldest, latest
        The first and the last time that is possible.
    variables
        Those that are known; none where any may come.
    refused
        Is added to.
    """
    future, old = readings.time > latest, readings.time < oldest
    unknown = np.zeros(len(readings), dtype=bool)
    strange = [bool(variables) and name not in variables for name in readings.variables]
    if any(strange):
        unknown = np.array(strange)[readings.variable] & ~future & ~old
    wrong = future | old | unknown
    if not wrong.any():
        return readings
    for mask, reason in ((future, FUTURE), (old, OLD), (unknown, UNKNOWN)):
        refused += rejected(readings.taken(mask), reason)
    return readings.taken(~wrong)


def renamed(readings: Readings, only: str | None, said: Sequence[str]) -> Readings:
    """Give the one thing that an archive has, perhaps without a name, its name there, where the feed's is said."""
    if only is None or len(said) != 1 or said[0] == only:
        return readings
    return replace(readings, variables=[only if name == said[0] else name for name in readings.variables])


def rejected(readings: Readings, reason: str) -> list[Rejected]:
    """Say of every reading that it is refused, and why."""
    more, readings = len(readings) - MOST_REJECTED, readings.taken(slice(0, MOST_REJECTED))
    rest = [Rejected("", reason, f"and {more:,} more at the same time")] if more > 0 else []
    return [
        Rejected(who(readings.sensors[sensor], readings.variables[variable]), reason, f"{iso(time)} {value:.12g}")
        for sensor, variable, time, value in zip(
            readings.sensor.tolist(),
            readings.variable.tolist(),
            readings.time.tolist(),
            readings.value.tolist(),
            strict=True,
        )
    ] + rest


def carried(
    sensor: IntArray, variable: IntArray, time: NDArray[np.int64], names: Sequence[str], named: Container[str] = ()
) -> BoolArray:
    """Say of every variable whether the readings so far make it one.

    Parameters
    ----------
    sensor, variable, time
        The readings; `variable` counts in `names`.
    names
        The variables.
    named
        Those that the user has named: they are variables whatever comes.

    Examples
    --------
    >>> sensor, variable = np.array([0, 1, 2, 0, 1, 2, 1]), np.array([0, 0, 0, 0, 0, 0, 1])
    >>> carried(sensor, variable, np.array([0, 0, 0, 1, 1, 1, 1]), ("temp", "typo")).tolist()
    [True, False]
    """
    count = len(names)
    sensors, times = (_different(variable, of, count) for of in (sensor, time))
    readings = np.bincount(variable, minlength=count)
    enough: BoolArray = (sensors >= min(ENOUGH, sensors.max(initial=0))) & (sensors > 1)
    enough |= times >= max(min(ENOUGH, times.max(initial=0)), 1)
    said = np.array([name in named for name in names], dtype=bool)
    order = np.lexsort((np.arange(count), -readings, -sensors))
    best = order[(enough & ~said)[order]][:MOST_VARIABLES]
    enough[:] = said
    enough[best] = True
    return enough


def _different(variable: IntArray, of: NDArray[np.integer], count: int) -> NDArray[np.int64]:
    """Return how many different values of `of` come with each variable."""
    if not variable.size:
        return np.zeros(count, dtype=np.int64)
    order = np.lexsort((of, variable))
    variable, of = variable[order], of[order]
    first = np.ones(variable.size, dtype=bool)
    first[1:] = (np.diff(variable) != 0) | (np.diff(of) != 0)
    return np.bincount(variable[first], minlength=count)
