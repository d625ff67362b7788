"""Anderson acceleration in two halves: the cells of one part, and the small system where all parts are summed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.recovery import FloatArray

__all__ = ["Anderson", "Changes", "History", "Mixed", "as_mixed", "depth_for"]

DEPTH = 5
"""Steps that are remembered. On NOAA at rank 20 ten of them save one iteration in twelve, at twice the memory."""

DEPTH_OF_LARGE = 3
"""The same for a minibatch of more than `LARGE` cells: few iterations are needed there, and memory is dear."""

LARGE = 1_000_000

WORSE = 4.0
"""A squared residual so many times the least one seen means that the past misleads: it is forgotten."""


@dataclass(frozen=True, eq=False)
class Mixed:
    """Scalar products: the residual with itself, its newest change with each, and each change with the residual."""

    residual: float
    newest: FloatArray
    against: FloatArray

    def __add__(self, other: Mixed) -> Mixed:
        residual = self.residual + other.residual
        return Mixed(residual, self.newest + other.newest, self.against + other.against)


class Changes:
    """The last steps of a part: the change of the residual, and that of what the step reached.

    Vectors are flat. Those of earlier steps may be shorter: cells that joined later had not moved.
    """

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._kept: list[tuple[Any, Any]] = []
        self._reached: Any = None
        self._residual: Any = None

    def take_in(self, before: Any, reached: Any) -> list[Any]:
        """Add a step from `before` to `reached`, and return what `Mixed` is made of, as numbers or 0-d tensors."""
        residual = reached - before
        if self._residual is not None:
            known = len(self._residual)
            # A cell that has just joined starts from `before`: it has moved by its residual.
            bent, moved = residual + 0, residual + 0
            bent[:known] -= self._residual
            moved[:known] = reached[:known] - self._reached
            self._kept.append((bent, moved))
            del self._kept[: -self._depth]
        self._reached, self._residual = reached, residual
        newest = [_dot(self._kept[-1][0], change) for change, _ in self._kept]
        return [_dot(residual, residual), *newest, *(_dot(change, residual) for change, _ in self._kept)]

    def mixed(self, mixing: FloatArray | None) -> Any:
        """Return where to go on from; None: from what was reached, without the past."""
        if mixing is None:
            self._kept.clear()
            return self._reached
        onward = self._reached + 0
        for weight, (_, moved) in zip(mixing, self._kept, strict=True):
            onward[: len(moved)] -= float(weight) * moved
        return onward


class History:
    """The cells of a part that can move, and how they did: those of gaps, and of fibers that were an outlier once.

    Everywhere else Z is B. A cell that joins has not moved before.
    """

    def __init__(self, gaps: NDArray[np.intp], values: Any, fibers: int, depth: int) -> None:
        self.cells = gaps
        self._joined = np.zeros(fibers, dtype=bool)
        self._before = values
        self._changes = Changes(depth)
        self._stepped = False

    def mix(self, Z: Any, mixing: FloatArray | None) -> None:
        """Set the cells of Z to where the next step starts."""
        if self._stepped:
            self._before = self._changes.mixed(mixing)
            if mixing is not None:
                Z[self.cells] = self._before

    def after(self, Z: Any, B: Any, gaps: NDArray[np.intp], active: NDArray[np.intp], slots: int) -> Mixed:
        """Take in one step's Z, with the fibers that are outliers in it."""
        new = active[~self._joined[active]]
        if len(new):
            self._joined[new] = True
            cells = (new[:, None] * slots + np.arange(slots)).reshape(-1)
            cells = cells[np.isin(cells, gaps, assume_unique=True, invert=True)]
            self.cells = np.concatenate([self.cells, cells])
            self._before = np.concatenate([self._before, B[cells]])
        self._stepped = True
        return as_mixed(self._changes.take_in(self._before, Z[self.cells]))

    def move(self, place: NDArray[np.intp], width: int, joined: Any) -> None:
        """Follow rows to where they are now: row i is at place[i]. `joined` moves a flag of every fiber likewise."""
        self.cells = place[self.cells // width] * width + self.cells % width
        self._joined = joined(self._joined)


def depth_for(cells: int) -> int:
    """Return how many steps to remember for a minibatch of so many cells."""
    return DEPTH if cells <= LARGE else DEPTH_OF_LARGE


class Anderson:
    """The small system: which mixture of the last steps has the least residual. L_0'Z is mixed along, it is linear."""

    def __init__(self) -> None:
        self._gram = np.empty((0, 0))
        self._moved: list[FloatArray] = []
        self._product: FloatArray | None = None
        self._least = np.inf

    def onward(self, product: FloatArray, mixed: Mixed) -> tuple[FloatArray, FloatArray | None]:
        """Return L_0'Z of where to go on from, and the mixing that the parts apply to get there."""
        if self._product is not None:
            self._moved = [*self._moved, product - self._product][-len(mixed.newest) :]
        self._product = product
        kept = len(mixed.newest)
        gram = np.zeros((kept, kept))
        if kept:
            gram[:-1, :-1] = self._gram[len(self._gram) - kept + 1 :, len(self._gram) - kept + 1 :]
            gram[-1], gram[:, -1] = mixed.newest, mixed.newest
        self._gram = gram
        if kept == 0 or not mixed.residual < WORSE * self._least:
            self._least = min(self._least, mixed.residual) if kept == 0 else mixed.residual
            self._moved, self._gram = [], np.empty((0, 0))
            return product, None
        self._least = min(self._least, mixed.residual)
        scale = np.sqrt(np.maximum(np.diag(gram), np.finfo(float).tiny))
        mixing = np.linalg.lstsq(gram / np.outer(scale, scale), mixed.against / scale, rcond=1e-12)[0] / scale
        onward = product - sum(weight * moved for weight, moved in zip(mixing, self._moved, strict=True))
        return onward, mixing


def as_mixed(numbers: list[Any]) -> Mixed:
    """Sort out what `Changes.take_in` returned."""
    values = [float(number) for number in numbers]
    kept = len(values) // 2
    return Mixed(values[0], np.array(values[1 : 1 + kept]), np.array(values[1 + kept :]))


def _dot(one: Any, other: Any) -> Any:
    shared = min(len(one), len(other))
    return one[:shared] @ other[:shared]
