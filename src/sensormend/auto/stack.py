"""Neighbourhoods side by side: what is done to one is done to many in one go.

A neighbourhood is small, and most of what a period of it would cost alone is calling numpy. So neighbourhoods are
padded to one shape and go through a period some at a time; a small network is a stack of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sensormend.auto.memory import Hood
from sensormend.auto.neighbourhoods import IntArray
from sensormend.recovery import BoolArray

__all__ = ["HIGH", "Stack", "stacked"]

HIGH = 16
"""Neighbourhoods of a large network in a stack: a bound on memory, and enough that calling numpy costs little; with 50
a reading costs a fifth less."""

_Kind = TypeVar("_Kind", bound=np.generic)


@dataclass(frozen=True, eq=False)
class Stack:
    """Some neighbourhoods, (neighbourhood, member), those that each of them judges first.

    Attributes
    ----------
    hoods, index
        The neighbourhoods, and where they are among the model's.
    members, real
        Their channels, and which of these are more than padding.
    size, core
        How many members each of them has, and how many the one has that judges most.
    mine, rows, place
        Which of the first `core` members a neighbourhood judges, these channels in a row, and where they are among
        all members in a row.
    """

    hoods: tuple[Hood, ...]
    index: IntArray
    members: NDArray[np.intp]
    real: BoolArray
    size: IntArray
    core: int
    mine: BoolArray
    rows: IntArray
    place: IntArray

    @classmethod
    def of(cls, hoods: Sequence[Hood], index: IntArray) -> Stack:
        """Stack those of these neighbourhoods that `index` names."""
        chosen = tuple(hoods[which] for which in index.tolist())
        size = np.array([hood.members.size for hood in chosen])
        cores = np.array([hood.core for hood in chosen])
        core = int(cores.max())
        if (size == size[0]).all():
            members = np.stack([hood.members for hood in chosen])
        else:
            # Padding has to be a channel that is there; whose it is does not matter.
            members = np.zeros((size.size, size.max()), dtype=np.intp)
            for row, hood in zip(members, chosen, strict=True):
                row[: hood.members.size] = hood.members
        mine = np.arange(core) < cores[:, None]
        real = np.arange(members.shape[1]) < size[:, None]
        return cls._made(chosen, index, members, real, size, core, mine)

    @classmethod
    def _made(
        cls,
        hoods: tuple[Hood, ...],
        index: IntArray,
        members: NDArray[np.intp],
        real: BoolArray,
        size: IntArray,
        core: int,
        mine: BoolArray,
    ) -> Stack:
        hood, row = np.nonzero(mine)
        place = hood * members.shape[1] + row
        return cls(hoods, index, members, real, size, core, mine, members.ravel()[place], place)

    def flat(self, values: NDArray[_Kind]) -> NDArray[_Kind]:
        """Return the part of (neighbourhood, member, ...) that is judged here, (fiber, ...)."""
        judged = values[:, : self.core]
        if self.rows.size == self.mine.size:
            return judged.reshape(self.rows.size, *values.shape[2:])
        return np.asarray(judged[self.mine])

    def moments(self) -> NDArray[np.float32]:
        """Return their second moments, zero for padding."""
        width = self.members.shape[1]
        return self._padded([hood.moments for hood in self.hoods], width)

    def dictionary(self) -> NDArray[np.float32]:
        """Return their dictionaries, zero for padding."""
        return self._padded([hood.dictionary for hood in self.hoods], max(h.dictionary.shape[1] for h in self.hoods))

    def part(self, which: IntArray) -> Stack:
        """Return some of these neighbourhoods, in the same shape."""
        return Stack._made(
            tuple(self.hoods[place] for place in which.tolist()),
            self.index[which],
            self.members[which],
            self.real[which],
            self.size[which],
            self.core,
            self.mine[which],
        )

    def _padded(self, parts: list[NDArray[np.float32]], width: int) -> NDArray[np.float32]:
        shape = (self.members.shape[1], width)
        if all(part.shape == shape for part in parts):
            return np.stack(parts)
        padded = np.zeros((len(parts), *shape), dtype=np.float32)
        for room, part in zip(padded, parts, strict=True):
            room[: part.shape[0], : part.shape[1]] = part
        return padded


def stacked(hoods: Sequence[Hood], high: int = HIGH) -> list[Stack]:
    """Stack all neighbourhoods, some at a time and about as many each time."""
    count = -(-len(hoods) // high)
    return [Stack.of(hoods, part) for part in np.array_split(np.arange(len(hoods)), count)]
