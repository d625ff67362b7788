"""The matrix methods: a tensor is unfolded along its sensors, and its columns come one after the other."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sensormend.methods.gaps import close_period, nobody_heard, time_line, time_line_back
from sensormend.methods.online import Arrays, PublishedOnline, Solved
from sensormend.recovery import FloatArray

__all__ = ["ColumnMethod", "SolvedColumn"]


@dataclass(frozen=True, eq=False)
class SolvedColumn:
    """One column: its low-rank part, its outliers, and how many iterations it took."""

    low_rank: FloatArray
    outliers: FloatArray
    iterations: int


class ColumnMethod(PublishedOnline):
    """A matrix method: one column per time (and variable), the sensors as rows, in the order of time.

    Several periods in one call are the same as several calls.
    """

    _interpolates: ClassVar[bool] = True
    _per_pass: ClassVar[tuple[str, ...]] = ("last",)

    @abstractmethod
    def _begin_rows(self, rows: int) -> dict[str, FloatArray]:
        """Return what is known before the first column."""

    @abstractmethod
    def _next(self, column: FloatArray, known: dict[str, FloatArray]) -> SolvedColumn:
        """Solve one column and write what it teaches into `known`."""

    def _unseen(self, column: FloatArray, known: dict[str, FloatArray]) -> SolvedColumn:
        """Say what a column without any reading is taken to be; nothing is known of it, so nothing is learned."""
        return SolvedColumn(np.zeros(column.size), np.zeros(column.size), 0)

    def _fixed(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape[: self.fiber_axis + 1]

    def _begin(self, shape: tuple[int, ...]) -> Arrays:
        known = self._begin_rows(shape[0])
        if self._interpolates:
            known["last"] = nobody_heard(shape, self.fiber_axis)
        return known

    def _solve(self, readings: FloatArray, known: Arrays) -> Solved:
        learning = {key: np.array(part) for key, part in known.items()}
        if self._interpolates:
            line, learning["last"] = close_period(readings, learning["last"], self.fiber_axis)
        else:
            line = time_line(readings, self.fiber_axis)
        X, E = np.zeros(line.shape), np.zeros(line.shape)
        iterations = 0
        for time in range(line.shape[2]):
            for variable in range(line.shape[1]):
                column = line[:, variable, time]
                solved = self._next(column, learning) if np.isfinite(column).any() else self._unseen(column, learning)
                X[:, variable, time], E[:, variable, time] = solved.low_rank, solved.outliers
                iterations += solved.iterations
        X, E = (time_line_back(part, readings.shape, self.fiber_axis) for part in (X, E))
        return Solved(X, np.where(np.isnan(readings), 0.0, E), iterations, learning)
