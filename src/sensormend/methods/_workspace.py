"""Memory that a model uses again."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Workspace"]

WORTH_KEEPING = 1 << 20
"""Bytes of an array that is handed out from which on it is worth to ask whether one is free."""


class Workspace:
    """Large arrays that a model uses again in every minibatch: fresh memory costs as much as iterations do."""

    def __init__(self) -> None:
        self._kept: dict[str, NDArray[Any]] = {}
        self._lent: dict[str, list[NDArray[Any]]] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return an array of any content; what was taken by this name before is gone."""
        size, kept = math.prod(shape), self._kept.get(name)
        if kept is None or kept.size < size or kept.dtype != dtype:
            self._kept.pop(name, None)
            kept = self._kept[name] = np.empty(size, dtype)
        return kept[:size].reshape(shape)

    def lend(self, name: str, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return an array to hand out, of any content: one that was handed out before, if nobody has it any more."""
        size = math.prod(shape)
        if size * np.dtype(dtype).itemsize < WORTH_KEEPING:
            return np.empty(shape, dtype)
        lent = self._lent.setdefault(name, [])
        for kept in lent:
            # Whatever shows any of it holds on to it: without such, there are our list, `kept` and the question itself.
            if kept.size == size and kept.dtype == dtype and sys.getrefcount(kept) == 3:
                return kept.reshape(shape)
        fresh = np.empty(size, dtype)
        self._lent[name] = [*lent[-1:], fresh]
        return fresh.reshape(shape)

    def rows(self, name: str, array: Any, rows: NDArray[np.intp]) -> Any:
        """Return some rows of an array in memory of this name."""
        into = self.take(name, (len(rows), *array.shape[1:]), array.dtype)
        return np.take(array, rows, axis=0, out=into, mode="clip")  # "raise" would go by way of a copy
