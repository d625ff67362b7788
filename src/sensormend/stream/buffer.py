"""`PeriodBuffer` holds the readings of open periods; `NameIndex` numbers the names in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.readings import IntArray, Readings
from sensormend.recovery import BoolArray

__all__ = ["NameIndex", "PeriodBuffer"]


class NameIndex:
    """Names of sensors or variables, each with a number that never changes."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        self._code_of = {name: code for code, name in enumerate(names)}
        self._names: Sequence[str] = ()
        self._codes = np.empty(0, dtype=np.int64)
        self.all: tuple[str, ...] = tuple(names)

    def __len__(self) -> int:
        return len(self.all)

    def __contains__(self, name: object) -> bool:
        return name in self._code_of

    def missing(self, names: Sequence[str], used: IntArray) -> list[int]:
        """Return the indices of the `names` that are used and not in the index, in the order of their use."""
        self._look_up(names)
        return list(dict.fromkeys(used[self._codes[used] < 0].tolist()))

    def codes(self, names: Sequence[str], used: IntArray) -> NDArray[np.int64]:
        """Return the numbers of the names that `used` refers to by indices in `names`; new names are added."""
        self._look_up(names)
        codes = self._codes[used]
        if codes.size and codes.min() < 0:
            for code in dict.fromkeys(used[codes < 0].tolist()):
                self._code_of.setdefault(names[code], len(self._code_of))
            # Never changed in place: a caller that holds the tuple compares by identity to detect new names.
            self.all = tuple(self._code_of)
            self._names = ()
            self._look_up(names)
            codes = self._codes[used]
        return codes

    def _look_up(self, names: Sequence[str]) -> None:
        if names is not self._names:
            self._names = names
            self._codes = np.array([self._code_of.get(name, -1) for name in names], dtype=np.int64)


class PeriodBuffer:
    """The readings of open periods, in order of arrival."""

    COLUMNS = (("sensor", np.int64), ("variable", np.int64), ("time", np.int64), ("value", np.float64))

    def __init__(self) -> None:
        self._size = 0
        self._columns: dict[str, NDArray[Any]] = {name: np.empty(0, dtype) for name, dtype in self.COLUMNS}
        self._counts = np.zeros(0, dtype=np.int64)

    def __len__(self) -> int:
        return self._size

    def column(self, name: str) -> NDArray[Any]:
        """Return one column."""
        return self._columns[name][: self._size]

    def full(self, sensor: IntArray, most: int) -> BoolArray:
        """Return for each of these sensors whether it has at least `most` readings."""
        self._grow(sensor)
        return np.asarray(self._counts[sensor] >= most)

    def add(self, readings: Readings) -> None:
        """Append readings."""
        start, self._size = self._size, self._size + readings.time.size
        for name, dtype in self.COLUMNS:
            old = self._columns[name]
            if old.size < self._size:
                larger = np.empty(max(2 * old.size, self._size, 1024), dtype=dtype)
                larger[:start] = old[:start]
                self._columns[name] = old = larger
            old[start : self._size] = getattr(readings, name)
        self._grow(readings.sensor)
        np.add.at(self._counts, readings.sensor, 1)

    def _grow(self, sensor: IntArray) -> None:
        more = int(sensor.max(initial=-1)) + 1 - self._counts.size
        if more > 0:
            self._counts = np.concatenate([self._counts, np.zeros(more, dtype=np.int64)])

    def readings(self, chosen: NDArray[np.bool_] | slice, sensors: Sequence[str], variables: Sequence[str]) -> Readings:
        """Return some of the readings."""
        return Readings(sensors, variables, **{name: self.column(name)[chosen] for name, _ in self.COLUMNS})

    def keep(self, chosen: NDArray[np.bool_]) -> None:
        """Drop all but these."""
        self._set({name: self.column(name)[chosen] for name, _ in self.COLUMNS})

    def renumber(self, variable: NDArray[np.int64]) -> None:
        """Replace the number of every variable by the entry of `variable` at that number."""
        self._columns["variable"][: self._size] = variable[self.column("variable")]

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the arrays for a state file."""
        return {f"window_{name}": self.column(name) for name, _ in self.COLUMNS}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Load a state."""
        self._set({name: arrays[f"window_{name}"] for name, _ in self.COLUMNS})

    def _set(self, columns: dict[str, NDArray[Any]]) -> None:
        self._columns, self._size = columns, columns["time"].size
        self._counts = np.bincount(columns["sensor"])
