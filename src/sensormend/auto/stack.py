"""Neighbourhoods side by side, padded to one shape: what is done to one is done to some in one go.

A small network is a stack of one; the rungs of a large one are tried on a stack of a few of its parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sensormend.auto.memory import Hood
from sensormend.auto.neighbourhoods import IntArray
from sensormend.recovery import BoolArray

__all__ = ["Stack"]


@dataclass(frozen=True, eq=False)
class Stack:
    """Some neighbourhoods, and the shape that they have together.

    Attributes
    ----------
    hoods, size
        The neighbourhoods, and how many members each of them has.
    real
        Which members are more than padding, (neighbourhood, member).
    """

    hoods: tuple[Hood, ...]
    size: IntArray
    real: BoolArray

    @classmethod
    def of(cls, hoods: Sequence[Hood]) -> Stack:
        """Stack these neighbourhoods."""
        size = np.array([hood.members.size for hood in hoods])
        return cls(tuple(hoods), size, np.arange(size.max()) < size[:, None])

    def moments(self) -> NDArray[np.float32]:
        """Return their second moments, zero for padding."""
        return self._padded([hood.moments for hood in self.hoods], self.real.shape[1])

    def dictionary(self) -> NDArray[np.float32]:
        """Return their dictionaries, zero for padding."""
        return self._padded([hood.dictionary for hood in self.hoods], max(h.dictionary.shape[1] for h in self.hoods))

    def part(self, which: IntArray) -> Stack:
        """Return some of these neighbourhoods, in the same shape."""
        return Stack(tuple(self.hoods[place] for place in which.tolist()), self.size[which], self.real[which])

    def _padded(self, parts: list[NDArray[np.float32]], width: int) -> NDArray[np.float32]:
        shape = (self.real.shape[1], width)
        if all(part.shape == shape for part in parts):
            return np.stack(parts)
        padded = np.zeros((len(parts), *shape), dtype=np.float32)
        for room, part in zip(padded, parts, strict=True):
            room[: part.shape[0], : part.shape[1]] = part
        return padded
