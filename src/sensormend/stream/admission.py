"""`Admission` decides which readings a stream takes, by time, by variable and by the number of unknown sensors."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.pipeline.cleaner import NEVER
from sensormend.pipeline.sentences import who
from sensormend.pipeline.times import iso
from sensormend.readings import IntArray, NameIndex, Readings, grown
from sensormend.recovery import BoolArray
from sensormend.stream.arrivals import Rejected
from sensormend.stream.deliveries import FLOOD, Alert, identified
from sensormend.stream.formats.values import TOO_MANY_NAMES

__all__ = [
    "FUTURE", "MOST_VARIABLES", "NOT_KNOWN", "OLD", "RARE", "TOO_MANY", "TOO_MANY_LATE", "UNKNOWN", "Admission",
    "Admitted", "common_variables", "rejections",
]  # fmt: skip

FUTURE = "a time in the future"
OLD = "a time too long ago"
UNKNOWN = "a variable that was not there from the start"
NOT_KNOWN = "a sensor that is not known"
RARE = "a variable that too few messages carry"
TOO_MANY = "more readings than a sensor can have in a period"
TOO_MANY_LATE = "more late readings than a period can take"

MIN_CARRIERS = 3
"""The number of sensors that have to report a variable, or of times at which it has to occur, until it is accepted;
fewer if no variable has that many. Every variable adds cells to every sensor, so a single message must not add one."""

MOST_VARIABLES = 100
"""The maximum number of variables that are accepted without being named in the options: those of most sensors, then of
most readings. Twenty sensors with 900 variables took 287 s for a period; `python benchmarks/limits.py variables`
measures it."""

MOST_REJECTED = 1_000
"""The number of readings of one arrival that are listed individually for each reason; one entry counts the others."""

KNOWN_AFTER = 3
"""The number of periods in which a sensor has to report until it counts as known. An unknown sensor has rows like any
other; where unknown sensors outnumber the known ones, they do not affect event time, and their silence raises no
alert."""

MOST_UNKNOWN = 1_000
"""The maximum number of unknown sensors at a time, or the number of known ones where that is larger. `python
benchmarks/limits.py names` measures their cost."""

MOST_FIRST = 100_000
"""The maximum number of unknown sensors while none is known."""

MOST_NAMES = 1_000_000
"""The maximum number of names that are remembered; after that no unknown sensor is admitted."""


@dataclass(frozen=True, eq=False)
class Admitted:
    """The readings that a stream takes, the rejected ones with reasons, and the alert of a flood of names."""

    readings: Readings
    rejected: Sequence[Rejected] = ()
    alerts: Sequence[Alert] = ()


class Admission:
    """Counts for each sensor in how many periods it has reported; a sensor is known after `KNOWN_AFTER`.

    An unknown sensor without a reading for a whole period no longer counts against the limit. A known sensor, one that
    has reported before, and one that is named by an archive or a table of places are never refused.

    Examples
    --------
    >>> admission = Admission()
    >>> for period in range(3):
    ...     admission.record(np.array([0]), period)
    >>> admission.record(np.array([1]), 2)
    >>> admission.known.tolist(), admission.unknown
    ([True, False], 1)
    """

    def __init__(self, named: Container[str] = ()) -> None:
        self._named = named
        self._periods = np.empty(0, dtype=np.int64)
        self._last = np.empty(0, dtype=np.int64)
        self._present = NEVER
        self._flooded_in = NEVER

    @property
    def known(self) -> BoolArray:
        """Which sensors are known."""
        return self._periods >= KNOWN_AFTER

    @property
    def unknown(self) -> int:
        """How many unknown sensors have reported in this period or in the one before it."""
        return int(np.sum((self._periods < KNOWN_AFTER) & (self._last >= self._present - 1)))

    @property
    def counting(self) -> BoolArray | None:
        """Which sensors count for event time and silence; None for all, unless unknown ones outnumber the known.

        Unknown sensors count here even if they have not reported for long.
        """
        known = self.known
        return known if 0 < 2 * known.sum() < known.size else None

    def admit(
        self,
        readings: Readings,
        names: NameIndex,
        variables: Sequence[str],
        *,
        oldest: int,
        latest: int,
        received: int,
        admits: Callable[[str], bool] = lambda sensor: True,
    ) -> Admitted:
        """Return the accepted readings, and the rejected ones.

        Parameters
        ----------
        readings, received
            The readings as they came, and the time of arrival.
        names
            The sensors that have reported before.
        variables
            The known variables; empty where any may come.
        oldest, latest
            The range of accepted times.
        admits
            Tells whether a sensor is one of those that the user admits.
        """
        future, old = readings.time > latest, readings.time < oldest
        unknown = np.zeros_like(old)
        unknown_names = [bool(variables) and name not in variables for name in readings.variables]
        if any(unknown_names):
            unknown = np.array(unknown_names)[readings.variable] & ~future & ~old
        rejected: list[Rejected] = []
        passed = [code for code in np.unique(readings.sensor).tolist() if not admits(readings.sensors[code])]
        strange = np.isin(readings.sensor, passed)
        future, old, unknown = future & ~strange, old & ~strange, unknown & ~strange
        wrong = strange | future | old | unknown
        if wrong.any():
            for mask, reason in ((strange, NOT_KNOWN), (future, FUTURE), (old, OLD), (unknown, UNKNOWN)):
                rejected += rejections(readings.taken(mask), reason)
            readings = readings.taken(~wrong)
        too_many = self.too_many(readings, names)
        if not too_many.size:
            return Admitted(readings, rejected)
        refused = np.isin(readings.sensor, too_many)
        rejected += rejections(readings.taken(refused), TOO_MANY_NAMES)
        alerts = self.flood_alert([readings.sensors[code] for code in too_many.tolist()], received)
        return Admitted(readings.taken(~refused), rejected, alerts)

    def too_many(self, readings: Readings, names: NameIndex) -> NDArray[np.int64]:
        """Return the indices in `readings.sensors` of the new names that exceed the limit."""
        new = [code for code in names.missing(readings.sensors, readings.sensor)
               if readings.sensors[code] not in self._named]  # fmt: skip
        if not new:
            return np.empty(0, dtype=np.int64)
        known = int(self.known.sum())
        free = min((max(MOST_UNKNOWN, known) if known else MOST_FIRST) - self.unknown, MOST_NAMES - len(names))
        return np.array(new[max(free, 0) :], dtype=np.int64)

    def flood_alert(self, refused: Sequence[str], at: int) -> list[Alert]:
        """Return one alert of refused names; the next one only after a whole period without refused names."""
        before, self._flooded_in = self._flooded_in, self._present
        if before >= self._present - 1 and before != NEVER:
            return []
        sentence = (
            f"{len(refused):,} unknown sensor names came at once, the first is {refused[0]!r}: "
            "readings of more unknown sensors than are admitted are refused, those of known sensors are not"
        )
        return [identified(Alert("", "", "healthy", FLOOD, TOO_MANY_NAMES, at, at, sentence))]

    def record(self, sensor: NDArray[np.int64], period: int) -> None:
        """Record which sensors have reported, by their numbers, in the period of the current event time."""
        self._present = max(self._present, period)
        if not sensor.size:
            return
        if (size := int(sensor.max()) + 1) > self._periods.size:
            self._periods, self._last = grown(self._periods, size), grown(self._last, size, NEVER)
        reporting = np.unique(sensor)
        new = reporting[self._last[reporting] < self._present]
        self._periods[new] = np.minimum(self._periods[new] + 1, KNOWN_AFTER)
        self._last[new] = self._present

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return settings and arrays for a state file."""
        settings = {"present": self._present, "refused_in": self._flooded_in}
        return settings, {"periods": self._periods, "last": self._last}

    def restore(self, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Load a state."""
        self._present, self._flooded_in = settings["present"], settings["refused_in"]
        self._periods, self._last = arrays["periods"].copy(), arrays["last"].copy()


def rejections(readings: Readings, reason: str) -> list[Rejected]:
    """Return readings as a list of rejections with this reason."""
    more, readings = len(readings) - MOST_REJECTED, readings.taken(slice(0, MOST_REJECTED))
    others = [Rejected("", reason, f"and {more:,} more at the same time")] if more > 0 else []
    columns = (readings.sensor, readings.variable, readings.time, readings.value)
    return [
        Rejected(who(readings.sensors[sensor], readings.variables[variable]), reason, f"{iso(time)} {value:.12g}")
        for sensor, variable, time, value in zip(*(column.tolist() for column in columns), strict=True)
    ] + others


def common_variables(readings: Readings, named: Container[str] = ()) -> BoolArray:
    """Return for every variable whether enough readings carry it, or the user has named it.

    Examples
    --------
    >>> sensor, variable = np.array([0, 1, 2, 0, 1, 2, 1]), np.array([0, 0, 0, 0, 0, 0, 1])
    >>> time, value = np.array([0, 0, 0, 1, 1, 1, 1]), np.zeros(7)
    >>> common_variables(Readings("abc", ("temp", "typo"), sensor, variable, time, value)).tolist()
    [True, False]
    """
    count = len(readings.variables)
    sensors, times = (_distinct(readings.variable, column, count) for column in (readings.sensor, readings.time))
    sizes = np.bincount(readings.variable, minlength=count)
    enough: BoolArray = (sensors >= min(MIN_CARRIERS, sensors.max(initial=0))) & (sensors > 1)
    enough |= times >= max(min(MIN_CARRIERS, times.max(initial=0)), 1)
    accepted = np.array([name in named for name in readings.variables], dtype=bool)
    order = np.lexsort((np.arange(count), -sizes, -sensors))
    accepted[order[(enough & ~accepted)[order]][:MOST_VARIABLES]] = True
    return accepted


def _distinct(variable: IntArray, column: NDArray[np.integer], count: int) -> NDArray[np.int64]:
    """Return how many different values of a column come with each variable."""
    order = np.lexsort((column, variable))
    variable, column = variable[order], column[order]
    first = np.ones(variable.size, dtype=bool)
    first[1:] = (np.diff(variable) != 0) | (np.diff(column) != 0)
    return np.bincount(variable[first], minlength=count)
