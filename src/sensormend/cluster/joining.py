"""What the parts of one network say, put together again: sums, and results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sensormend.cluster.connecting import Client
from sensormend.recovery import Recovery

__all__ = ["joined", "lazily_joined", "summed"]

PER_CELL = ("low_rank", "outliers", "wrong", "doubtful", "spikes", "corrected", "cleaned")
FIELDS = (*PER_CELL, "faulty", "suspect", "evaluated", "score", "reason")
KINDS = {"reason": "<U11"} | dict.fromkeys(
    ("wrong", "doubtful", "spikes", "corrected", "faulty", "suspect", "evaluated"), bool
)
"""Types of arrays that are not numbers of the method."""


def summed(parts: Sequence[Any]) -> Any:
    """Add up in the order of the parts, so that the sum does not depend on who was first."""
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def joined(parts: Sequence[Recovery]) -> Recovery:
    """Return one result of those of all parts."""
    values: dict[str, Any] = {"lower": None, "upper": None, "faults": (), "iterations": parts[0].iterations}
    for name in FIELDS:
        values[name] = np.concatenate([getattr(part, name) for part in parts])
    return Recovery(**values)


def lazily_joined(
    client: Client,
    futures: Sequence[Any],
    homes: Sequence[str],
    shapes: Sequence[tuple[int, ...]],
    *,
    fiber_axis: int,
    single: bool,
    iterations: int,
) -> Recovery:
    """Return one result of Dask arrays whose blocks stay with the workers.

    Parameters
    ----------
    client
        Of their cluster.
    futures, homes, shapes
        Of each part: its result, the worker that has it, and the shape of its readings.
    fiber_axis, single, iterations
        The slots, whether numbers are float32, and how often was iterated.
    """
    from dask import array

    dask_array: Any = array  # which has no types
    number = np.float32 if single else np.float64
    values: dict[str, Any] = {"lower": None, "upper": None, "faults": (), "iterations": iterations}
    for name in FIELDS:
        blocks = []
        for future, home, cells in zip(futures, homes, shapes, strict=True):
            shape = cells if name in PER_CELL else cells[:fiber_axis] + cells[fiber_axis + 1 :]
            one = client.submit(getattr, future, name, workers=[home], pure=False)
            blocks.append(dask_array.from_delayed(one, shape, dtype=KINDS.get(name, number)))
        values[name] = dask_array.concatenate(blocks)
    return Recovery(**values)
