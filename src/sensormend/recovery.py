"""What every method returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["BoolArray", "FloatArray", "Recovery"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Recovery:
    """One minibatch, split into what the network agrees on and what it does not.

    Arrays with the shape of the input: `low_rank`, `outliers`, `spikes`, `cleaned`, `lower`, `upper`.
    With the shape of the input less its slot axis: `faulty`, `suspect`, `evaluated`, `score`, `reason`.

    Attributes
    ----------
    low_rank
        The model's estimate of every cell.
    outliers
        The method's E; for AutoOLRTR reading minus estimate where a reading was judged wrong, else 0.
    spikes
        Single wrong readings in a sound fiber.
    cleaned
        The reading where it is trusted, the estimate elsewhere; NaN only where nothing is known yet at all.
    lower, upper
        The interval of `cleaned`; both equal the reading where it is trusted. None for methods without one.
    faulty, suspect
        The verdict on each fiber.
    evaluated
        False while the model cannot judge.
    score
        How far past the threshold; 1 is at it.
    reason
        Why, in one of the words of the design; empty where there is nothing to say.
    iterations
        How many inner iterations the minibatch took.
    """

    low_rank: FloatArray
    outliers: FloatArray
    spikes: BoolArray
    cleaned: FloatArray
    lower: FloatArray | None
    upper: FloatArray | None
    faulty: BoolArray
    suspect: BoolArray
    evaluated: BoolArray
    score: FloatArray
    reason: NDArray[np.str_]
    iterations: int

    def of_sensors(self, rows: NDArray[np.intp]) -> Recovery:
        """Return the part of these sensors, rows of axis 0."""
        return _join([self], lambda arrays: arrays[0][rows])

    @staticmethod
    def stack(parts: Sequence[Recovery]) -> Recovery:
        """Join the recoveries of consecutive single periods along a new last axis."""
        return _join(parts, lambda arrays: np.stack(arrays, axis=-1))

    @staticmethod
    def concatenate(parts: Sequence[Recovery]) -> Recovery:
        """Join the recoveries of consecutive minibatches along their last axis, the periods."""
        return _join(parts, lambda arrays: np.concatenate(arrays, axis=-1))

    def first(self, periods: int) -> Recovery:
        """Keep the first `periods` along the last axis."""
        return _join([self], lambda arrays: arrays[0][..., :periods])


def _join(parts: Sequence[Recovery], join: Callable[[list[Any]], Any]) -> Recovery:
    values: dict[str, Any] = {"iterations": sum(part.iterations for part in parts)}
    for field in fields(Recovery):
        if field.name != "iterations":
            arrays = [getattr(part, field.name) for part in parts]
            values[field.name] = None if arrays[0] is None else join(arrays)
    return Recovery(**values)
