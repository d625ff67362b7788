"""How OLRTR takes readings in and tells what it found: arrays and tensors, double and single precision."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from sensormend.arrays import Array, as_like, is_tensor, namespace, on_host
from sensormend.errors import ValueRangeError
from sensormend.methods._olrtr_sums import Ending
from sensormend.recovery import Recovery

__all__ = ["in_precision", "like", "placed", "slots_last", "told"]

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
    xp = namespace(readings)
    faulty = ending.largest > threshold
    if is_tensor(readings):
        cleaned = xp.where(faulty[..., None], ending.X, ending.cleaned)
    else:
        cleaned = ending.cleaned
        cleaned[faulty] = ending.X[faulty]
    X, E = ending.X, ending.E
    if fiber_axis != X.ndim - 1:
        X, E, cleaned = (xp.moveaxis(part, -1, fiber_axis) for part in (X, E, cleaned))
    return Recovery(
        low_rank=X,
        outliers=E,
        spikes=xp.zeros_like(X, dtype=bool) if not is_tensor(X) else xp.zeros_like(X, dtype=xp.bool),
        cleaned=cleaned,
        lower=None,
        upper=None,
        faulty=faulty,
        suspect=xp.zeros_like(faulty),
        evaluated=xp.ones_like(faulty),
        score=ending.largest / threshold,
        reason=np.zeros(tuple(faulty.shape), dtype="<U11"),
        iterations=iterations,
    )


def like(recovery: Recovery, readings: Array) -> Recovery:
    """Return a recovery made on the host with its arrays where the readings are; `reason` stays."""
    if not is_tensor(readings):
        return recovery
    values: dict[str, Any] = {field.name: getattr(recovery, field.name) for field in fields(Recovery)}
    moved = {name: _moved(part, readings) for name, part in values.items()
             if isinstance(part, np.ndarray) and name != "reason"}  # fmt: skip
    return Recovery(**(values | moved))


def _moved(part: Any, readings: Array) -> Array:
    """Return an array where the readings are; numbers in their dtype, verdicts as they are."""
    tensor = as_like(part, readings)
    return tensor.to(readings.dtype) if part.dtype.kind == "f" else tensor
