"""The two protocols that every method keeps, and the verdict that the published ones share."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from sensormend.recovery import FloatArray, Recovery

__all__ = ["Method", "OnlineMethod", "published_recovery"]


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
    readings: FloatArray,
    low_rank: FloatArray,
    outliers: FloatArray,
    *,
    fiber_axis: int,
    threshold: float,
    iterations: int,
) -> Recovery:
    """Fill in a `Recovery` for a method that yields a low-rank part and outliers, and has no other opinion.

    A fiber is faulty when any |outlier| in it exceeds `threshold`.
    """
    largest = np.max(np.abs(outliers), axis=fiber_axis)
    faulty = largest > threshold
    trusted = ~np.isnan(readings) & ~np.expand_dims(faulty, fiber_axis)
    return Recovery(
        low_rank=low_rank,
        outliers=outliers,
        spikes=np.zeros(readings.shape, dtype=bool),
        cleaned=np.where(trusted, readings, low_rank),
        lower=None,
        upper=None,
        faulty=faulty,
        suspect=np.zeros(faulty.shape, dtype=bool),
        evaluated=np.ones(faulty.shape, dtype=bool),
        score=largest / threshold,
        reason=np.full(faulty.shape, "", dtype="<U11"),
        iterations=iterations,
    )
