"""How OLRTR takes readings in and tells what it found: arrays and tensors, double and single precision."""

from __future__ import annotations

import numpy as np

from sensormend.errors import ValueRangeError
from sensormend.methods._olrtr import Ending
from sensormend.methods.base import judged_recovery
from sensormend.recovery import Recovery
from sensormend.tensor import Array, as_like, is_tensor, namespace, on_host

__all__ = ["in_precision", "placed", "slots_last", "told"]

LARGEST_SINGLE = 1e15
"""Single precision ends at 3e38, and readings are squared and summed."""


def in_precision(readings: Array, *, single: bool) -> Array:
    """Return readings in the precision to compute in, or refuse those that single precision cannot square.

    A tensor has its own.
    """
    if is_tensor(readings):
        single = readings.dtype == namespace(readings).float32
    if single:
        smallest, largest = _range_of(readings)
        if not -LARGEST_SINGLE <= smallest <= largest <= LARGEST_SINGLE:
            raise ValueRangeError(f"readings must not exceed {LARGEST_SINGLE:g} in single precision; use another unit")
    if is_tensor(readings):
        return readings
    return readings.astype(np.float32 if single else np.float64, copy=False)


def _range_of(readings: Array) -> tuple[float, float]:
    """Return the smallest and the largest reading, or 0."""
    if is_tensor(readings):
        ends = namespace(readings).nan_to_num(readings).aminmax()
        return float(ends.min), float(ends.max)
    smallest, largest = (end.reduce(readings, axis=None, initial=0.0) for end in (np.fmin, np.fmax))
    return float(smallest), float(largest)


def placed(matrix: Array, readings: Array) -> Array:
    """Return a matrix where the readings are and in their dtype."""
    if is_tensor(readings):
        if not is_tensor(matrix):
            matrix = as_like(matrix, readings)
        return matrix.to(device=readings.device, dtype=readings.dtype)
    return np.ascontiguousarray(on_host(matrix), dtype=readings.dtype)


def slots_last(readings: Array, fiber_axis: int) -> Array:
    """Return readings with the slots as the last axis, in C order."""
    moved = namespace(readings).moveaxis(readings, fiber_axis, -1)
    return moved.contiguous() if is_tensor(moved) else np.ascontiguousarray(moved)


def told(readings: Array, ending: Ending, *, fiber_axis: int, threshold: float, iterations: int) -> Recovery:
    """Fill in a `Recovery`. `ending.cleaned` has the estimate where nothing was read; faulty fibers get it here."""
    xp, faulty = namespace(readings), ending.largest > threshold
    X, E, cleaned = ending.X, ending.E, ending.cleaned
    cleaned[faulty] = X[faulty]
    if fiber_axis != X.ndim - 1:
        X, E, cleaned = (xp.moveaxis(part, -1, fiber_axis) for part in (X, E, cleaned))
    wrong = ~xp.isnan(readings) & xp.expand_dims(faulty, axis=fiber_axis)
    return judged_recovery(X, E, wrong, cleaned, ending.largest, threshold=threshold, iterations=iterations)
