"""`Strangers` knows which sensors have reported for long enough to count, and how many others are taken."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.pipeline.mender import NEVER
from sensormend.readings import Readings
from sensormend.recovery import BoolArray
from sensormend.stream.deliveries import FLOOD, Alert
from sensormend.stream.formats.refused import TOO_MANY_NAMES
from sensormend.stream.window import Names

__all__ = ["Strangers"]

SEVERAL = 3
"""Periods in which a sensor has reported when it is known. Until then it is a stranger: it has its rows like any other,
but strangers who outnumber the known sensors hold up nobody's time, and their silence is no news."""

MOST_STRANGERS = 1_000
"""Strangers at a time, or as many as there are known sensors where these are more. `python benchmarks/limits.py names`
measures what they cost."""

FIRST = 100_000
"""Strangers while nobody is known."""

MOST = 1_000_000
"""Names that are remembered at all: with these no stranger is let in any more."""


class Strangers:
    """For each sensor, in how many periods it has reported; a sensor is known after `SEVERAL`.

    A stranger who says nothing for a whole period leaves its place to another one. A known sensor, and one that has
    reported before, is never refused.

    Parameters
    ----------
    named
        Sensors that somebody has named, in an archive or in a table of places: these are no strangers.

    Examples
    --------
    >>> strangers, names = Strangers(), Names()
    >>> names.codes(("a", "b"), np.array([0, 1]))
    array([0, 1])
    >>> for period in range(3):
    ...     strangers.heard(np.array([0]), period)
    >>> strangers.heard(np.array([1]), 2)
    >>> strangers.known.tolist(), strangers.count
    ([True, False], 1)
    """

    def __init__(self, named: Container[str] = ()) -> None:
        self._named = named
        self._periods = np.empty(0, dtype=np.int64)
        self._last = np.empty(0, dtype=np.int64)
        self._present = NEVER
        self._refused_in = NEVER

    @property
    def known(self) -> BoolArray:
        """Which sensors are known."""
        return self._periods >= SEVERAL

    @property
    def count(self) -> int:
        """How many strangers have reported in this period or in the one before it."""
        return int(np.sum((self._periods < SEVERAL) & (self._last >= self._present - 1)))

    @property
    def counting(self) -> BoolArray | None:
        """Which sensors the network's time and silence are about; None for all, as long as strangers are the fewer.

        Those that have said nothing for long are strangers, too.
        """
        known = self.known
        return known if 0 < 2 * known.sum() < known.size else None

    def refused(self, readings: Readings, names: Names) -> NDArray[np.int64]:
        """Return those of `readings.sensors` that are one too many, as they count there.

        Parameters
        ----------
        readings
            What came.
        names
            The sensors that have reported before.
        """
        new = [code for code in names.lacking(readings.sensors, readings.sensor)
               if readings.sensors[code] not in self._named]  # fmt: skip
        if not new:
            return np.empty(0, dtype=np.int64)
        known = int(self.known.sum())
        left = min((max(MOST_STRANGERS, known) if known else FIRST) - self.count, MOST - len(names))
        return np.array(new[max(left, 0) :], dtype=np.int64)

    def flood(self, refused: Sequence[str], at: int) -> list[Alert]:
        """Return what is told of strangers who were refused: one alert, and another when periods have passed without.

        Parameters
        ----------
        refused
            Their names.
        at
            When they came.
        """
        before, self._refused_in = self._refused_in, self._present
        if before >= self._present - 1 and before != NEVER:
            return []
        sentence = (
            f"{len(refused):,} names that were never heard before came at once, {refused[0]!r} the first of them: "
            "readings of more strangers than are taken are refused, those of known sensors are not"
        )
        return [Alert("", "", "well", FLOOD, TOO_MANY_NAMES, at, at, sentence)]

    def heard(self, sensor: NDArray[np.int64], period: int) -> None:
        """Take note of who has reported, by the numbers that they keep, and of the period that the time is in."""
        self._present = max(self._present, period)
        if not sensor.size:
            return
        more = int(sensor.max()) + 1 - self._periods.size
        if more > 0:
            self._periods = np.concatenate([self._periods, np.zeros(more, dtype=np.int64)])
            self._last = np.concatenate([self._last, np.full(more, NEVER)])
        heard = np.unique(sensor)
        new = heard[self._last[heard] < self._present]
        self._periods[new] = np.minimum(self._periods[new] + 1, SEVERAL)
        self._last[new] = self._present

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return all of it as a state file holds it."""
        settings = {"present": self._present, "refused_in": self._refused_in}
        return settings, {"periods": self._periods, "last": self._last}

    def restore(self, settings: dict[str, Any] | None, arrays: dict[str, NDArray[Any]], count: int) -> None:
        """Go on from a state; in one from before there were strangers all of its `count` sensors are known."""
        if settings is None:
            self._periods, self._last = np.full(count, SEVERAL), np.full(count, NEVER)
            return
        self._present, self._refused_in = settings["present"], settings["refused_in"]
        self._periods, self._last = arrays["periods"].copy(), arrays["last"].copy()
