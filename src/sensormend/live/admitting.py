"""Which readings can be: those with a time and of a variable that are possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sensormend.io.metadata import iso
from sensormend.live.arrivals import Rejected
from sensormend.readings import Readings

__all__ = ["FUTURE", "OLD", "RARE", "TOO_MANY", "TOO_MANY_LATE", "UNKNOWN", "admitted", "rejected", "renamed"]

FUTURE = "a time in the future"
OLD = "a time too long ago"
UNKNOWN = "a variable that was not there from the start"
RARE = "a variable that too few messages carry"
TOO_MANY = "more readings than a sensor can have in a period"
TOO_MANY_LATE = "more late readings than a period can take"

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
        Rejected(
            f"{readings.sensors[sensor]} {readings.variables[variable]}".strip(), reason, f"{iso(time)} {value:.12g}"
        )
        for sensor, variable, time, value in zip(
            readings.sensor.tolist(),
            readings.variable.tolist(),
            readings.time.tolist(),
            readings.value.tolist(),
            strict=True,
        )
    ] + rest
