"""What the machine itself can do on one core: bytes per second from and to memory, and bare matrix products.

The rates are the best of several turns, as is usual for such figures: they are what the methods are measured by, and a
machine that is busy for a moment must not make them look better.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.model.partition import HALO, OWNED

__all__ = ["MEMBERS", "RANK", "SLOTS", "TALL", "measure_machine", "pin_to_one_core"]

SLOTS, RANK = 24, 10
LARGE = 2**26
"""Bytes of an array that no cache holds, several times over."""

BLOCK = 2**14
"""Numbers of a block that stays in the nearest cache while it is multiplied and added to."""

TALL, PARTS, MEMBERS = 1_000_000, 8_000, OWNED + HALO
TURNS = 7


def pin_to_one_core() -> int | None:
    """Keep this process and those it starts to one core; return which, None where the system cannot."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return core


def measure_machine() -> dict[str, Any]:
    """Return bytes per second of a copy and of a triad, and flops per second of the products that the methods need."""
    products: dict[str, float] = {}
    for dtype in (np.float32, np.float64):
        products[f"tall {np.dtype(dtype).name}"] = _tall(dtype)
        products[f"batched {np.dtype(dtype).name}"] = _batched(dtype)
    return {"copy": _copy(), "triad": _triad(), "products": products}


def best(work: Callable[[], object], turns: int = TURNS) -> float:
    """Return the shortest of several turns, in seconds of processor time."""
    work()
    times = []
    for _ in range(turns):
        start = process_time()
        work()
        times.append(process_time() - start)
    return max(min(times), 1e-9)


def _copy() -> float:
    source, target = np.ones(4 * LARGE // 8), np.zeros(4 * LARGE // 8)
    return 2 * source.nbytes / best(lambda: np.copyto(target, source))


def _triad() -> float:
    """Measure a = b + s c: two arrays read, one written, in blocks, so that what is between stays in the cache."""
    target, left, right = (np.full(2 * LARGE // 8, value) for value in (0.0, 1.0, 2.0))

    def work() -> None:
        for start in range(0, target.size, BLOCK):
            part = slice(start, start + BLOCK)
            np.multiply(right[part], 3.0, out=target[part])
            target[part] += left[part]

    return 3 * target.nbytes / best(work)


def _random(*shape: int, dtype: type) -> NDArray[Any]:
    return np.random.default_rng(0).random(shape, dtype=np.float32).astype(dtype)


def _tall(dtype: type) -> float:
    left, right = _random(TALL, RANK, dtype=dtype), _random(RANK, SLOTS, dtype=dtype)
    into: NDArray[Any] = np.empty((TALL, SLOTS), dtype=dtype)
    return 2 * TALL * RANK * SLOTS / best(lambda: np.matmul(left, right, out=into))


def _batched(dtype: type) -> float:
    left, right = _random(PARTS, MEMBERS, MEMBERS, dtype=dtype), _random(PARTS, MEMBERS, SLOTS, dtype=dtype)
    into: NDArray[Any] = np.empty((PARTS, MEMBERS, SLOTS), dtype=dtype)
    return 2 * PARTS * MEMBERS * MEMBERS * SLOTS / best(lambda: np.matmul(left, right, out=into))
