"""`Readings` and `Rows` hold the input and the output as columns; `NameIndex` numbers their sensors and variables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sensormend.recovery import FloatArray

__all__ = [
    "COLUMNS",
    "CORRECTED",
    "DAY",
    "DTYPES",
    "ESTIMATED",
    "HOUR",
    "MEANINGS",
    "MINUTE",
    "NOTHING",
    "NO_ORIGIN",
    "OBSERVED",
    "ORIGINS",
    "REASONS",
    "SECOND",
    "Flag",
    "IntArray",
    "NameIndex",
    "Readings",
    "Rows",
    "find_spans",
    "grown",
    "join",
    "recoded",
]


class Flag(IntEnum):
    """QARTOD's primary flags."""

    GOOD = 1
    NOT_EVALUATED = 2
    SUSPECT = 3
    FAIL = 4
    MISSING = 9


MEANINGS = {flag: flag.name.lower() for flag in Flag}
"""The flags in CF's `flag_meanings`."""

REASONS = (
    "",
    "stuck",
    "noise",
    "drift",
    "offset",
    "gain",
    "implausible",
    "spike",
    "fill",
    "duplicate",
    "late",
    "silent",
    "alone",
    "outlier",
)
"""The reasons; `Rows.reason` is an index. New ones are appended, since files store the text but states the index."""

IntArray = NDArray[np.integer]

SECOND = 1_000_000
"""Times are integers, microseconds since 1970, UTC; durations are integers, microseconds."""

MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86400 * SECOND

DTYPES: dict[str, np.dtype[Any]] = {
    **dict.fromkeys(("sensor", "variable"), np.dtype(np.int32)),
    "time": np.dtype(np.int64),
    "value": np.dtype(np.float64),
    "n": np.dtype(np.int32),
    **dict.fromkeys(("cleaned", "lower", "upper"), np.dtype(np.float64)),
    **dict.fromkeys(("flag", "reason", "origin"), np.dtype(np.int8)),
}
"""The types of the columns of `Rows`."""

COLUMNS = tuple(DTYPES)

ORIGINS = ("", "observed", "estimated", "corrected")
"""The origin of a cleaned value: the reading, a prediction from others, or the reading with its fault taken out.
`Rows.origin` is an index, 0 where there is none; new ones are appended, since states and journals store the index."""

NO_ORIGIN, OBSERVED, ESTIMATED, CORRECTED = range(4)
"""Indices into `ORIGINS`."""


@dataclass(frozen=True, eq=False)
class Readings:
    """Readings as columns, in order of arrival.

    Attributes
    ----------
    sensors, variables
        The names. A network with one unnamed variable has `("",)`.
    sensor, variable
        Indices into the names.
    time
        Microseconds since 1970, UTC.
    value
        NaN for a reading without a number: empty, NULL, inf.
    """

    sensors: Sequence[str]
    variables: Sequence[str]
    sensor: IntArray
    variable: IntArray
    time: NDArray[np.int64]
    value: FloatArray

    def __len__(self) -> int:
        return int(self.time.size)

    @staticmethod
    def concatenate(parts: Sequence[Readings]) -> Readings:
        """Join readings; the names are those of the last part, which begin with those of all parts before it."""
        if not parts:
            return NOTHING
        joined = (np.concatenate([getattr(part, name) for part in parts])
                  for name in ("sensor", "variable", "time", "value"))  # fmt: skip
        return Readings(parts[-1].sensors, parts[-1].variables, *joined)

    def taken(self, rows: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Readings:
        """Return a part of them."""
        return Readings(
            self.sensors, self.variables, self.sensor[rows], self.variable[rows], self.time[rows], self.value[rows]
        )


NOTHING = Readings((), ("",), np.empty(0, np.int32), np.empty(0, np.int16), np.empty(0, np.int64), np.empty(0))
"""No reading."""


def find_spans(readings: Readings) -> dict[tuple[str, str], tuple[int, int]]:
    """Return the times of the first and the last reading of every channel, by sensor and variable.

    Examples
    --------
    >>> find_spans(Readings("ab", ("",), *np.array([[0, 1, 0], [0, 0, 0], [7, 8, 9]]), np.zeros(3)))
    {('a', ''): (7, 9), ('b', ''): (8, 8)}
    """
    channel = readings.sensor.astype(np.int64) * len(readings.variables) + readings.variable
    order = np.lexsort((readings.time, channel))
    channels, start = np.unique(channel[order], return_index=True)
    first, last = readings.time[order][start], readings.time[order][np.append(start[1:], order.size) - 1]
    sensor, variable = np.divmod(channels, len(readings.variables))
    names = zip(sensor.tolist(), variable.tolist(), first.tolist(), last.tolist(), strict=True)
    return {(readings.sensors[row], readings.variables[column]): (begin, end) for row, column, begin, end in names}


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a result: one per sensor, variable and slot, or per reading.

    Attributes
    ----------
    sensors, variables
        The names, into which `sensor` and `variable` are indices.
    time
        Start of the slot, microseconds since 1970, UTC.
    value, n
        The mean of the slot's `n` readings; NaN and 0 where there is none, or only fill values.
    cleaned, lower, upper
        The value where it is trusted, else its correction or the estimate; and its interval.
    flag
        QARTOD's code for `value`.
    reason
        Index into `sensormend.readings.REASONS`.
    origin
        Index into `ORIGINS`.
    owner, owner_flags
        Index into `owner_flags`, the flags that came with the readings, of which the first one is empty; None where
        none came.
    """

    sensors: Sequence[str]
    variables: Sequence[str]
    sensor: IntArray
    variable: IntArray
    time: NDArray[np.int64]
    value: FloatArray
    n: NDArray[np.int32]
    cleaned: FloatArray
    lower: FloatArray
    upper: FloatArray
    flag: NDArray[np.int8]
    reason: NDArray[np.int8]
    origin: NDArray[np.int8]
    owner: IntArray | None = None
    owner_flags: Sequence[str] = ("",)

    def __len__(self) -> int:
        return int(self.time.size)

    @staticmethod
    def concatenate(parts: Sequence[Rows]) -> Rows:
        """Join rows; the names are those of the last part, which begin with those of all parts before it."""
        last = parts[-1]
        joined: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in COLUMNS}
        if all(part.owner is None for part in parts):
            return Rows(last.sensors, last.variables, **joined)
        words = NameIndex(("",))
        owner = [words.codes(part.owner_flags, np.zeros(len(part), np.int32) if part.owner is None else part.owner)
                 for part in parts]  # fmt: skip
        return Rows(last.sensors, last.variables, **joined, owner=np.concatenate(owner), owner_flags=words.all)

    def taken(self, rows: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Rows:
        """Return a part of them."""
        owner = None if self.owner is None else self.owner[rows]
        return replace(self, **{name: getattr(self, name)[rows] for name in COLUMNS}, owner=owner)

    def channels(self) -> Iterator[tuple[str, str, NDArray[np.intp]]]:
        """Yield the sensor, the variable and the indices of the rows of each channel, in order of time."""
        channel = self.sensor.astype(np.int64) * len(self.variables) + self.variable
        order = np.lexsort((self.time, channel))
        for own in np.split(order, np.flatnonzero(np.diff(channel[order])) + 1):
            if own.size:
                yield self.sensors[int(self.sensor[own[0]])], self.variables[int(self.variable[own[0]])], own

    @property
    def usual_step(self) -> int:
        """The median distance of two times; an hour where there is one only."""
        steps = np.diff(np.unique(self.time))
        return int(np.median(steps)) if steps.size else HOUR

    def with_gaps(self, step: int) -> Rows:
        """Return rows of one channel with an empty row in each gap, so that plots draw no line across it."""
        gaps = np.flatnonzero(np.diff(self.time) > 1.5 * step) + 1
        if not gaps.size:
            return self
        empty: dict[str, Any] = {name: np.nan if dtype.kind == "f" else 0 for name, dtype in DTYPES.items()}
        empty |= {"sensor": self.sensor[0], "variable": self.variable[0], "time": self.time[gaps - 1] + step}
        columns: dict[str, Any] = {name: np.insert(getattr(self, name), gaps, empty[name]) for name in COLUMNS}
        return replace(self, **columns, owner=None if self.owner is None else np.insert(self.owner, gaps, 0))


class NameIndex:
    """Names of sensors or variables, each with a number that never changes.

    Attributes
    ----------
    all
        The names in the order of their numbers. New names make a new tuple: a holder of the old one detects them by
        identity.

    Examples
    --------
    >>> index = NameIndex(["a", "b"])
    >>> index.codes(["c", "b"], np.array([1, 0, 1])).tolist(), index.all
    ([1, 2, 1], ('a', 'b', 'c'))
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._code_of: dict[str, int] = {}
        self._names: Sequence[str] = ()
        self._codes = np.empty(0, dtype=np.int64)
        self.all: tuple[str, ...] = ()
        self.add(names)

    def __len__(self) -> int:
        return len(self.all)

    def __contains__(self, name: object) -> bool:
        return name in self._code_of

    def __getitem__(self, name: str) -> int:
        return self._code_of[name]

    def code(self, name: str) -> int:
        """Return the number of a name; -1 for one that is not in the index."""
        return self._code_of.get(name, -1)

    def add(self, names: Iterable[str]) -> None:
        """Append the names that are not in the index."""
        before = len(self._code_of)
        for name in names:
            self._code_of.setdefault(name, len(self._code_of))
        if len(self._code_of) > before:
            self.all, self._names = tuple(self._code_of), ()

    def missing(self, names: Sequence[str], used: IntArray) -> list[int]:
        """Return the indices of the `names` that are used and not in the index, in the order of their use."""
        self._look_up(names)
        return list(dict.fromkeys(used[self._codes[used] < 0].tolist()))

    def codes(self, names: Sequence[str], used: IntArray) -> NDArray[np.int64]:
        """Return the numbers of the names that `used` refers to by indices in `names`; new names are added."""
        self._look_up(names)
        codes = self._codes[used]
        if codes.size and codes.min() < 0:
            self.add(names[code] for code in self.missing(names, used))
            self._look_up(names)
            codes = self._codes[used]
        return codes

    def copy(self) -> NameIndex:
        """Return an index of the same names; those that are added to it are not in this one."""
        twin = NameIndex()
        twin._code_of, twin.all = dict(self._code_of), self.all
        # These are replaced, never changed.
        twin._names, twin._codes = self._names, self._codes
        return twin

    def _look_up(self, names: Sequence[str]) -> None:
        if names is not self._names:
            self._names = names
            self._codes = np.array([self.code(name) for name in names], dtype=np.int64)


_Table = TypeVar("_Table", Readings, Rows)


def recoded(table: _Table, known: Readings | Rows) -> _Table:
    """Return a table with the names of another one, new ones appended, and its columns renumbered for them."""
    sensors, variables = NameIndex(known.sensors), NameIndex(known.variables)
    sensor = sensors.codes(table.sensors, table.sensor).astype(np.int32)
    variable = variables.codes(table.variables, table.variable).astype(np.int32)
    return replace(table, sensors=sensors.all, variables=variables.all, sensor=sensor, variable=variable)


def join(parts: Sequence[_Table]) -> _Table:
    """Join tables with different names, which are appended in the order of the parts."""
    joined = [parts[0]]
    for part in parts[1:]:
        joined.append(recoded(part, joined[-1]))
    return type(parts[0]).concatenate(joined)


def grown(array: NDArray[Any], size: int, fill: float = 0) -> NDArray[Any]:
    """Return an array of at least this size: itself, or with new entries of `fill` at its end.

    Examples
    --------
    >>> grown(np.arange(2), 3, -1).tolist(), grown(np.arange(2), 1).tolist()
    ([0, 1, -1], [0, 1])
    """
    more = size - len(array)
    return array if more <= 0 else np.concatenate([array, np.full((more, *array.shape[1:]), fill, array.dtype)])
