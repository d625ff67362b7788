"""`PeriodBuffer` holds the readings of open periods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.readings import IntArray, Readings
from sensormend.recovery import BoolArray

__all__ = ["PeriodBuffer"]


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
