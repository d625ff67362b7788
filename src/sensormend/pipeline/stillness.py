"""`Movements` follows how far channels move, and finds those that stand all but still while the others move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from sensormend.pipeline.physical import plateau
from sensormend.recovery import BoolArray, FloatArray

__all__ = ["Movements"]

DECAY = 0.6
"""The share of its largest movement that a channel keeps from period to period: after a week without any, that is
below `STILL`."""

STILL = 0.03
"""A channel stands still that moves less than this share of what the median channel does, and of what it usually does
itself, and lies apart from all that move: deep soil is always slow, and may lie apart after rain. Of the faults of real
archives that have no confidence, which are these and values beyond limits, owners confirm 98 in 100."""

GAP = 10.0
"""It lies apart if it moves this much less than the second calmest of those that move. Between the surface and the
bottom of a lake movements lie a hundred apart, but those in between close to each other."""

MANY = 8
"""The least number of known channels of a variable from which one that stands still can be told from weather."""

KNOWN = 7
"""Periods with readings after which a channel is known."""

LIVELY = 30
"""Periods with movement after which a channel is known to move. One that never moved may be buried deeper, or measure
something else: it is broken where what it reads is not what the others read."""

IDLE = 0.2
"""A variable is intermittent, as rain is, if its median channel does not move at all in more than this share of its
periods; it is not judged."""

RATE = 1 / 30
"""The least rate at which that share is learned, and the usual movement."""

NEAR_END, SAME = 0.15, 0.02
"""The parts of the range of a variable that are an end of it, and within which readings are at the same level: where a
fifth of the others are there too, it is a floor, a ceiling or a detection limit."""

BESIDE = 0.2
"""That fifth."""


@dataclass(frozen=True, eq=False)
class Movements:
    """How far channels move in a period, by sensor and variable.

    The movement of a period is the interquartile range of its readings, and the change of their median since the
    period before; spikes do not count. A sensor whose element is broken or disconnected reports noise of its
    electronics, which no test for equal readings finds, and which soon looks usual to a model of its past.

    Attributes
    ----------
    level
        The median of the last period with readings; NaN where there is none.
    movement
        The largest movement so far, those of earlier periods reduced by `DECAY` for each one since.
    idle
        The running share of the periods without any movement.
    usual
        The logarithm of the usual movement: the running mean over periods in which the channel did not stand still.
    periods, moved
        The number of periods with readings, and of those in which it did not stand still.
    """

    level: FloatArray
    movement: FloatArray
    idle: FloatArray
    usual: FloatArray
    periods: NDArray[np.int64]
    moved: NDArray[np.int64]

    @classmethod
    def of(cls, variables: int) -> Movements:
        """Return the movements of variables without sensors."""
        shape = (0, variables)
        return cls(*np.zeros((4, *shape)), *np.zeros((2, *shape), dtype=np.int64))

    def with_sensors(self, sensors: int) -> Movements:
        """Return the movements with sensors added that have no readings yet, up to this number of them."""
        missing = sensors - len(self.level)
        if missing <= 0:
            return self
        longer = {name: np.pad(array, ((0, missing), (0, 0))) for name, array in vars(self).items()}
        longer["level"][-missing:] = np.nan
        return Movements(**longer)

    def for_second_pass(self) -> Movements:
        """Return the movements for a second pass over the same readings: how far channels move is known from the first.

        The level belongs to the last period of that pass.
        """
        return replace(self, level=np.full_like(self.level, np.nan))

    def find_still(
        self,
        value: FloatArray,
        sensors: NDArray[np.intp],
        limits: tuple[FloatArray, FloatArray],
        names: Sequence[str],
    ) -> tuple[BoolArray, Movements]:
        """Return the channels, (sensor, variable), that stand still in a period, and the movements with this period.

        Parameters
        ----------
        value
            The readings of the period, (sensor, variable, slot), NaN where there is none.
        sensors
            The rows of these sensors.
        limits
            The lower and the upper end of the range of every variable.
        names
            The names of the variables.
        """
        if len(value) < MANY:
            return np.zeros(value.shape[:2], dtype=bool), self
        known = self.with_sensors(int(sensors.max(initial=-1)) + 1)
        count = np.isfinite(value).sum(axis=2)
        reports = count > 0
        ordered = np.sort(value, axis=2)
        rows, columns = np.ogrid[: reports.shape[0], : reports.shape[1]]

        def quantile(share: float, step: int) -> FloatArray:
            # NaN comes last; `step` rounds towards the outside.
            place = np.maximum(step * np.floor(step * share * (count - 1)), 0).astype(np.intp)
            ends: FloatArray = ordered[rows, columns, place]
            return ends

        median = (quantile(0.5, 1) + quantile(0.5, -1)) / 2
        change = np.abs(median - known.level[sensors])
        moved = quantile(0.75, -1) - quantile(0.25, 1) + np.where(np.isfinite(change), change, 0.0)
        movement = np.where(reports, np.fmax(moved, DECAY * known.movement[sensors]), known.movement[sensors])
        idle = known.idle[sensors] + np.where(reports, RATE * ((moved == 0) - known.idle[sensors]), 0.0)
        periods = known.periods[sensors] + reports
        still = np.zeros(reports.shape, dtype=bool)
        lively = np.zeros(reports.shape, dtype=bool)
        present = reports & (periods >= KNOWN)
        judged = (np.count_nonzero(present, axis=0) >= MANY) & (_medians(idle, present)[1] <= IDLE)
        lowest, _, above = _medians(movement, present)
        # Nothing lies apart where the calmest channel is in reach of the median one: usually, so that is quick.
        is_one = judged & (lowest > 0) & (GAP * lowest >= above)
        lively[:, is_one] = present[:, is_one]
        for number in np.flatnonzero(judged & ~is_one).tolist():
            name = names[number]
            still[:, number], lively[:, number] = _stands_still(movement[:, number], present[:, number])
            if still[:, number].any():
                ends = limits[0][number], limits[1][number]
                own = movement[:, number] < STILL * np.exp(known.usual[sensors, number])
                was_lively = own & (known.moved[sensors, number] >= LIVELY)
                still[:, number] &= _is_broken(median[:, number], was_lively, reports[:, number], ends, name)
        counts = lively & reports & (moved > 0)
        rate = np.maximum(1 / (known.moved[sensors] + 1), RATE)
        with np.errstate(divide="ignore", invalid="ignore"):
            usual = known.usual[sensors] + np.where(counts, rate * (np.log(moved) - known.usual[sensors]), 0.0)
        new = {
            "level": np.where(reports, median, known.level[sensors]),
            "movement": movement,
            "idle": idle,
            "usual": usual,
            "periods": periods,
            "moved": known.moved[sensors] + counts,
        }
        for part in fields(Movements):
            array = getattr(known, part.name).copy()
            array[sensors] = new[part.name]
            new[part.name] = array
        return still, Movements(**new)

    def is_lively(self, sensors: NDArray[np.intp]) -> BoolArray:
        """Return which channels, (sensor, variable), are known to move."""
        lively: BoolArray = self.with_sensors(int(sensors.max(initial=-1)) + 1).moved[sensors] >= LIVELY
        return lively


def _medians(values: FloatArray, present: BoolArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the least, the median, and the next value above it of the present channels of every variable."""
    ordered = np.sort(np.where(present, values, np.nan), axis=0)
    count, columns = np.maximum(np.count_nonzero(present, axis=0), 1), np.arange(present.shape[1])
    below, middle, above = (ordered[np.minimum(place, len(ordered) - 1), columns]
                            for place in ((count - 1) // 2, count // 2, count - count // 2))  # fmt: skip
    return ordered[0], (below + middle) / 2, above


def _stands_still(movement: FloatArray, present: BoolArray) -> tuple[BoolArray, BoolArray]:
    """Return which channels of a variable stand still, and which move: the median one, and all in reach below it."""
    ordered = np.sort(movement[present])[::-1]
    middle = ordered.size // 2
    if not ordered[middle] > 0:
        return np.zeros(movement.shape, dtype=bool), np.zeros(movement.shape, dtype=bool)
    apart = GAP * ordered[middle + 1 :] < ordered[middle - 1 : -2]
    calmest = ordered[middle + np.argmax(apart)] if apart.any() else ordered[-1]
    still: BoolArray = present & (movement < calmest) & (movement < STILL * ordered[middle])
    return still, present & (movement >= calmest)


def _is_broken(
    level: FloatArray, lively: BoolArray, reports: BoolArray, ends: tuple[float, float], name: str
) -> BoolArray:
    """Return which channels of a variable would be broken if they stood still at their level."""
    low, high = ends
    nowhere = np.zeros(level.shape, dtype=bool)
    if not (np.isfinite(low) and np.isfinite(high) and high > low):
        return nowhere
    width = high - low
    with np.errstate(invalid="ignore"):
        at_end = (level < low + NEAR_END * width) | (level > high - NEAR_END * width)
        beyond = (level < low + SAME * width) | (level > high - SAME * width)
        # Columns of a table without variables may measure different things.
        broken = lively | (beyond if name else nowhere)
        rests = plateau(name)
        if rests is not None:
            broken &= ~((level >= rests[0]) & (level <= rests[1]))
        for place in np.flatnonzero(broken & at_end):
            others = np.abs(np.delete(level[reports], np.count_nonzero(reports[:place])) - level[place])
            broken[place] = np.mean(others < SAME * width) < BESIDE
    return broken
