"""`carried` says which variables a new feed has: those that enough messages or sensors carry."""

from __future__ import annotations

from collections.abc import Container, Sequence

import numpy as np
from numpy.typing import NDArray

from sensormend.readings import IntArray
from sensormend.recovery import BoolArray

__all__ = ["MOST", "carried"]

ENOUGH = 3
"""Sensors that carry a variable, or times at which it comes, until it is one; fewer where none has so many. Every
variable costs cells of every sensor: one message must not make them."""

MOST = 100
"""Variables that nobody has named: those that most sensors carry, and of these those with most readings. Twenty
sensors with 900 variables took 287 s for a period; `python benchmarks/limits.py variables` measures what these take."""


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
    best = order[(enough & ~said)[order]][:MOST]
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
