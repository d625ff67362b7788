"""`place` assigns readings to the slots of a `Grid` and averages the readings of each slot."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from sensormend.errors import ConfigError
from sensormend.pipeline.circular import in_turn
from sensormend.pipeline.times import duration, in_words
from sensormend.readings import DAY, SECOND, Readings
from sensormend.recovery import BoolArray, FloatArray
from sensormend.tensor import LARGEST

__all__ = ["ANCHOR", "Grid", "Placed", "is_fill", "place"]

_Number = TypeVar("_Number", int, NDArray[np.int64])

ANCHOR = 4 * DAY
"""Periods are counted from a Monday, 5 January 1970, so that weeks begin on one."""


@dataclass(frozen=True)
class Grid:
    """Slots and periods on the time axis, in microseconds.

    Attributes
    ----------
    step, period
        The length of a slot, and that of the cycle.
    early
        How much before the start of its slot a reading may be taken: clocks around the full hour jitter to both sides
        of it.
    cut
        The offset of the periods from `ANCHOR`: whole slots, less than a period.
    """

    step: int
    period: int
    early: int = 0
    cut: int = 0

    def __post_init__(self) -> None:
        if self.step < 1 or self.period < self.step or self.period % self.step:
            raise ConfigError(
                f"a period of {in_words(self.period)} is not a whole number of steps of {in_words(self.step)}"
            )

    @classmethod
    def of_run(cls, run: Mapping[str, Any]) -> Self | None:
        """Return the grid in the content of run.json; None if it has none.

        Examples
        --------
        >>> Grid.of_run({"grid": Grid(900_000_000, DAY, early=60_000_000).record()})
        Grid(step=900000000, period=86400000000, early=60000000, cut=0)
        """
        try:
            grid = run["grid"]
            early, cut = (round(float(grid.get(name, 0)) * SECOND) for name in ("early_seconds", "cut_seconds"))
            return cls(duration(grid["step"]), duration(grid["period"]), early, cut)
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError, ConfigError):
            return None

    def record(self) -> dict[str, Any]:
        """Return the grid as run.json has it."""
        return {
            "step": in_words(self.step),
            "period": in_words(self.period),
            "early_seconds": self.early / SECOND,
            "cut_seconds": self.cut / SECOND,
        }

    @property
    def origin(self) -> int:
        """The start of period 0."""
        return ANCHOR + self.cut

    @property
    def slots(self) -> int:
        """The number of slots in a period."""
        return self.period // self.step

    def find_period(self, time: _Number) -> _Number:
        """Return the numbers of the periods of some times."""
        return (time + (self.early - self.origin)) // self.period

    def find_slot(self, time: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of the slots within their periods."""
        return (time + (self.early - self.origin)) % self.period // self.step

    def slot_start(self, time: _Number) -> _Number:
        """Return the starts of the slots that contain some times."""
        return self.slots_until(time) * self.step + ANCHOR

    def slots_until(self, time: _Number) -> _Number:
        """Return the number of slots, counted over all periods, that have ended by a time."""
        return (time + (self.early - ANCHOR)) // self.step

    def period_start(self, period: int) -> int:
        """Return the start of a period."""
        return period * self.period + self.origin

    def slot_times(self, period: int) -> NDArray[np.int64]:
        """Return the starts of a period's slots."""
        return self.period_start(period) + np.arange(self.slots, dtype=np.int64) * self.step


@dataclass(frozen=True, eq=False)
class Placed:
    """A period's readings on the grid: (channel, slot), a channel being one variable of one sensor.

    Attributes
    ----------
    value, n
        The mean and the number of the slot's readings; NaN and 0 where there is no number. Readings within the limits
        count, else those beyond them, else fill values.
    filled
        The slot has readings, but no number.
    coded
        All numbers of the slot are fill values; `value` is their mean.
    contradictory
        Two readings of one time differ; the last one counts.
    implausible
        All readings of the slot but fill values are beyond the limits; `value` is their mean.
    cell, no_number, fill, beyond, repeated
        For each reading: its cell, counted through, and whether it is not a number, a fill value, beyond the
        limits or too large for the model, or repeated later.
    """

    value: FloatArray
    n: NDArray[np.int32]
    filled: BoolArray
    coded: BoolArray
    contradictory: BoolArray
    implausible: BoolArray
    cell: NDArray[np.int64]
    no_number: BoolArray
    fill: BoolArray
    beyond: BoolArray
    repeated: BoolArray

    def without(self, impossible: BoolArray) -> Placed:
        """Return the period with more cells, counted through, whose readings are implausible."""
        impossible = impossible & (self.n > 0).ravel() & ~self.coded.ravel()
        if not impossible.any():
            return self
        implausible = self.implausible | impossible.reshape(self.implausible.shape)
        return replace(self, implausible=implausible, beyond=self.beyond | (impossible[self.cell] & ~self.fill))


def place(
    grid: Grid,
    readings: Readings,
    channel: NDArray[np.int64],
    channels: int,
    fill: Sequence[Sequence[float]],
    valid: Sequence[tuple[float, float]],
    circular: Mapping[int, float] | None = None,
    slots: int | None = None,
) -> Placed:
    """Assign readings of one period to slots; `fill` and `valid` are by the readings' variables.

    `circular` has the variables that are directions in degrees, and the starts of their turns. All readings lie in the
    first `slots` of the period, by default in any.
    """
    shape = channels, slots or grid.slots
    value, time = readings.value, readings.time
    cell = channel * shape[1] + grid.find_slot(time)
    missing, code = ~np.isfinite(value), is_fill(readings, fill)
    beyond = ~missing & ~code & (np.abs(value) > LARGEST)
    low, high = np.array(valid, dtype=np.float64).reshape(-1, 2).T
    if (low > -np.inf).any() or (high < np.inf).any():
        own_low, own_high = low[readings.variable], high[readings.variable]
        beyond |= ~missing & ~code & ((value < own_low) | (value > own_high))
    cells = channels * shape[1]
    repeated, contradictory = np.zeros(value.size, dtype=bool), np.zeros(cells, dtype=bool)
    order: NDArray[np.intp] | slice = slice(None)
    if (np.bincount(cell, minlength=1) > 1).any():
        # Readings are summed in order of time, so that the sums do not depend on the order of arrival.
        order = np.lexsort((np.arange(value.size), time, cell))
        repeated[order], clash = _repetitions(cell[order], time[order], value[order], (missing | code)[order])
        contradictory[cell[order][clash]] = True
        if code.any():
            repeated[order] |= _repetitions(cell[order], time[order], value[order], ~code[order])[0]
    counted = ~(missing | repeated)

    def means(chosen: BoolArray) -> tuple[FloatArray, NDArray[np.int64]]:
        return _means(cell[order], value[order], (counted & chosen)[order], cells)

    mean, count = means(~beyond & ~code)
    implausible = coded = np.zeros(cells, dtype=bool)
    if beyond.any():
        beyond_mean, beyond_count = means(beyond)
        implausible = (count == 0) & (beyond_count > 0)
        mean, count = np.where(implausible, beyond_mean, mean), np.where(implausible, beyond_count, count)
    if code.any():
        code_mean, code_count = means(code)
        coded = (count == 0) & (code_count > 0)
        mean, count = np.where(coded, code_mean, mean), np.where(coded, code_count, count)
    without_number = np.bincount(cell[missing], minlength=cells) > 0
    for variable, start in (circular or {}).items():
        own = counted & ~code & (readings.variable == variable) & (count[cell] > 1) & (beyond == implausible[cell])
        if own.any():
            _replace_by_direction(mean, cell[own], value[own], start)
    return Placed(
        value=mean.reshape(shape),
        n=count.astype(np.int32).reshape(shape),
        filled=(without_number & (count == 0)).reshape(shape),
        coded=coded.reshape(shape),
        contradictory=contradictory.reshape(shape),
        implausible=implausible.reshape(shape),
        cell=cell,
        no_number=missing,
        fill=code,
        beyond=beyond,
        repeated=repeated,
    )


def is_fill(readings: Readings, fill: Sequence[Sequence[float]]) -> BoolArray:
    """Return which readings are fill values; `fill` has those of each variable."""
    matches = np.zeros(readings.value.size, dtype=bool)
    every = _all_codes(tuple(map(tuple, fill)))
    if not every.size:
        return matches
    # No fill value is as large as what this replaces.
    value = np.where(np.abs(readings.value) <= LARGEST, readings.value, LARGEST)
    # Hardly any reading is near one of them: which variable has which is looked up for these alone. The tolerance is
    # larger, so that none is missed where two of them are near each other.
    index = np.searchsorted(every, value - 2 * PRECISION * np.abs(value))
    nearest = every[np.minimum(index, every.size - 1)]
    near = np.flatnonzero(np.abs(value - nearest) <= 4 * PRECISION * np.abs(nearest))
    value, of = value[near], readings.variable[near]
    for variable in np.unique(of).tolist() if len(fill) > 1 else [0] if near.size else []:
        codes = _sorted_codes(tuple(fill[variable]))
        own = of == variable if len(fill) > 1 else slice(None)
        if codes.size:
            matches[near[own]] = _is_one_of(value[own], codes)
    return matches


PRECISION = 1e-6
"""The share of a fill value by which it may be off after a conversion to single precision."""


@lru_cache(maxsize=1000)
def _sorted_codes(codes: tuple[float, ...]) -> FloatArray:
    return np.unique(np.array(codes, dtype=np.float64))


@lru_cache(maxsize=1000)
def _all_codes(fill: tuple[tuple[float, ...], ...]) -> FloatArray:
    return _sorted_codes(tuple(code for codes in fill for code in codes))


def _is_one_of(value: FloatArray, codes: FloatArray) -> BoolArray:
    """Return which values are codes, which are sorted, also after a conversion to single precision."""
    index = np.searchsorted(codes, value - PRECISION * np.abs(value))
    nearest = codes[np.minimum(index, codes.size - 1)]
    return np.asarray(np.abs(value - nearest) <= PRECISION * np.abs(nearest))


def _repetitions(
    cell: NDArray[np.int64], time: NDArray[np.int64], value: FloatArray, no_number: BoolArray
) -> tuple[BoolArray, BoolArray]:
    """Return which readings are repeated later, and which of those with another value; all sorted by cell and time.

    A number takes precedence over a reading without one, whichever came last.
    """
    number = np.flatnonzero(~no_number)
    same = np.zeros(number.size, dtype=bool)
    same[:-1] = (np.diff(cell[number]) == 0) & (np.diff(time[number]) == 0)
    differs = np.zeros(number.size, dtype=bool)
    differs[:-1] = same[:-1] & (np.diff(value[number]) != 0)
    repeated, clash = np.zeros(cell.size, dtype=bool), np.zeros(cell.size, dtype=bool)
    repeated[number], clash[number] = same, differs
    return repeated, clash


def _replace_by_direction(mean: FloatArray, cell: NDArray[np.int64], angle: FloatArray, start: float) -> None:
    """Replace the means of cells by the directions of the mean vectors; those of opposite directions stay."""
    vector = np.zeros(mean.size, dtype=complex)
    np.add.at(vector, cell, np.exp(1j * np.radians(angle)))
    cells = np.unique(cell)
    cells = cells[np.abs(vector[cells]) > 1e-9]
    mean[cells] = in_turn(np.angle(vector[cells], deg=True), start)


def _means(
    cell: NDArray[np.int64], value: FloatArray, chosen: BoolArray, cells: int
) -> tuple[FloatArray, NDArray[np.int64]]:
    """Return the mean and the number of the chosen values of each cell; NaN where there is none."""
    cell = cell[chosen]
    sums = np.bincount(cell, weights=value[chosen], minlength=cells).astype(np.float64, copy=False)
    count = np.bincount(cell, minlength=cells).astype(np.int64, copy=False)
    # The sum of two numbers near the largest one is infinite; their mean is not.
    mean = np.clip(sums / np.maximum(count, 1), -sys.float_info.max, sys.float_info.max)
    return np.where(count > 0, mean, np.nan), count
