"""The two protocols that every method keeps, and the verdict that the published ones share."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from sensormend.recovery import Recovery
from sensormend.tensor import Array, namespace

__all__ = ["Method", "OnlineMethod", "judged_recovery", "published_recovery"]


@runtime_checkable
class Method(Protocol):
    """Recovers a whole tensor; online ones walk its last axis, `passes` times."""

    def recover(self, tensor: ArrayLike) -> Recovery:
        """Recover the whole tensor, NaN where nothing was observed."""
        ...


@runtime_checkable
class OnlineMethod(Method, Protocol):
    """Learns from one minibatch after the other, in bounded memory."""

    def update(self, minibatch: ArrayLike, sensors: Sequence[Hashable] | None = None) -> Recovery:
        """Recover one minibatch and learn from it."""
        ...


def published_recovery(
    readings: Array,
    low_rank: Array,
    outliers: Array,
    *,
    fiber_axis: int,
    threshold: float,
    iterations: int,
) -> Recovery:
    """Fill in a `Recovery` for a method that yields a low-rank part and outliers, and has no other opinion.

    A fiber is faulty when any |outlier| in it exceeds `threshold`.
    """
    xp = namespace(readings)
    largest = xp.max(xp.abs(outliers), axis=fiber_axis)
    observed, faulty = ~xp.isnan(readings), xp.expand_dims(largest > threshold, axis=fiber_axis)
    cleaned = xp.where(observed & ~faulty, readings, low_rank)
    wrong = observed & faulty
    return judged_recovery(low_rank, outliers, wrong, cleaned, largest, threshold=threshold, iterations=iterations)


def judged_recovery(
    low_rank: Array, outliers: Array, wrong: Array, cleaned: Array, largest: Array, *, threshold: float, iterations: int
) -> Recovery:
    """Fill in a `Recovery` whose cells are known, from the largest |outlier| of every fiber."""
    xp, faulty = namespace(low_rank), largest > threshold
    return Recovery(
        low_rank=low_rank,
        outliers=outliers,
        wrong=wrong,
        doubtful=xp.zeros_like(low_rank, dtype=xp.bool),
        spikes=xp.zeros_like(low_rank, dtype=xp.bool),
        corrected=xp.zeros_like(low_rank, dtype=xp.bool),
        cleaned=cleaned,
        lower=None,
        upper=None,
        faulty=faulty,
        suspect=xp.zeros_like(faulty),
        evaluated=xp.ones_like(faulty),
        score=largest / threshold,
        reason=np.zeros(tuple(faulty.shape), dtype="<U11"),
        faults=(),
        iterations=iterations,
    )
