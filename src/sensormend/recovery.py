"""`Recovery` is the result of every method; its faults are of the class `Fault`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["BoolArray", "Fault", "FloatArray", "Recovery"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class Fault:
    """One episode in which a channel reports wrong values, as a method reports it: its start and end are slots.

    Attributes
    ----------
    id
        A number that stays the same while the fault lasts, also when its start is dated back.
    sensor
        The sensor's label, or its row where there are no labels.
    variable
        The variable's number, 0 where there is one only.
    kind
        `stuck`, `noise`, `drift`, `offset`, `gain`, `implausible` or `spike`.
    start, end
        Its first and last wrong reading, in slots since the first slot the model was given; `end` is None while it is
        open.
    size
        The offset in the variable's unit; for a drift the offset at its last reading, for a gain the factor, for noise
        its standard deviation, for a stuck sensor the value.
    rate
        The growth of the size in a period; 0 for all kinds but `drift`.
    confidence
        The share of such faults that owners of real archives confirm, by kind, size, and what the others know.
    probability
        The probability of a fault by the readings alone, if channels are as the model takes them to be.
    """

    id: int
    sensor: str | int
    variable: int
    kind: str
    start: int
    end: int | None
    size: float
    rate: float
    confidence: float
    probability: float = 1.0


@dataclass(frozen=True, eq=False)
class Recovery:
    """One minibatch, split into a low-rank part and outliers, with verdicts.

    Arrays with the shape of the input: `expected`, `outliers`, `wrong`, `doubtful`, `spikes`, `corrected`, `cleaned`,
    `lower`, `upper`.
    With the shape of the input less its slot axis: `faulty`, `suspect`, `evaluated`, `score`, `reason`.

    Attributes
    ----------
    expected
        The model's estimate of every cell.
    outliers
        The method's E; for NetworkModel reading minus estimate where a reading was judged wrong, else 0.
    wrong
        The reading is judged wrong. For a method that judges fibers: the readings of the faulty ones.
    doubtful
        The reading is suspect, and not wrong: it is kept, and its interval reaches to the estimate.
    spikes
        Wrong readings of faults that are one or two readings long; a subset of `wrong`.
    corrected
        Wrong readings whose `cleaned` is a correction: the reading with its fault's offset, drift or gain taken out; a
        subset of `wrong`, without `spikes`.
    cleaned
        The reading where it is trusted; where it is wrong its correction or the estimate, whichever is surer; the
        estimate where the reading is missing; NaN only where there is no estimate yet.
    lower, upper
        The interval of `cleaned`; both equal the reading where it is trusted. None for methods without one.
    faulty, suspect
        The verdict on each fiber: a third or more of its readings are wrong; it has doubtful ones and is not faulty.
    evaluated
        Whether anything in the fiber could be judged.
    score
        The strongest evidence in the fiber over its threshold; 1 is at it.
    reason
        The kind of fault that most of its wrong readings have; empty if there is none.
    faults
        The episodes that touch these periods, in order of start; empty for a method without episodes.
    iterations
        The number of inner iterations for the minibatch.
    """

    expected: FloatArray
    outliers: FloatArray
    wrong: BoolArray
    doubtful: BoolArray
    spikes: BoolArray
    corrected: BoolArray
    cleaned: FloatArray
    lower: FloatArray | None
    upper: FloatArray | None
    faulty: BoolArray
    suspect: BoolArray
    evaluated: BoolArray
    score: FloatArray
    reason: NDArray[np.str_]
    faults: tuple[Fault, ...]
    iterations: int

    def of_sensors(self, rows: NDArray[np.intp]) -> Recovery:
        """Return the part of some sensors, given as rows of axis 0."""
        return _join([self], lambda arrays: arrays[0][rows])

    @staticmethod
    def stack(parts: Sequence[Recovery]) -> Recovery:
        """Join the recoveries of consecutive single periods along a new last axis."""
        return _join(parts, lambda arrays: np.stack(arrays, axis=-1))

    @staticmethod
    def concatenate(parts: Sequence[Recovery]) -> Recovery:
        """Join the recoveries of consecutive minibatches along their last axis, the periods."""
        return _join(parts, lambda arrays: np.concatenate(arrays, axis=-1))

    @classmethod
    def unjudged(cls, readings: FloatArray, fiber_axis: int = 2) -> Recovery:
        """Return the recovery of readings that were not judged: the readings as they came."""
        cells = np.zeros(readings.shape, dtype=bool)
        fibers: BoolArray = np.any(cells, axis=fiber_axis)
        return cls(
            expected=readings,
            outliers=np.zeros(readings.shape),
            wrong=cells,
            doubtful=cells,
            spikes=cells,
            corrected=cells,
            cleaned=readings,
            lower=readings,
            upper=readings,
            faulty=fibers,
            suspect=fibers,
            evaluated=fibers,
            score=np.zeros(fibers.shape),
            reason=np.full(fibers.shape, "", dtype="<U11"),
            faults=(),
            iterations=0,
        )

    def of_slots(self, slots: int) -> Recovery:
        """Return the part of the first slots of one period; what holds of its fibers is of the whole of it."""
        shape = self.expected.shape
        return _join([self], lambda arrays: arrays[0][..., :slots] if arrays[0].shape == shape else arrays[0])

    def first(self, periods: int) -> Recovery:
        """Keep the first `periods` along the last axis."""
        return _join([self], lambda arrays: arrays[0][..., :periods])


def _join(parts: Sequence[Recovery], join: Callable[[list[Any]], Any]) -> Recovery:
    # An open episode is reported again with each part; the last report is kept.
    latest = {fault.id: fault for part in parts for fault in part.faults}
    faults = tuple(sorted(latest.values(), key=lambda fault: (fault.start, fault.id)))
    values: dict[str, Any] = {"iterations": sum(part.iterations for part in parts), "faults": faults}
    for field in fields(Recovery):
        if field.name not in values:
            arrays = [getattr(part, field.name) for part in parts]
            values[field.name] = None if arrays[0] is None else join(arrays)
    return Recovery(**values)
