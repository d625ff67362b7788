"""What goes between the rows of OLRTR's parts and the place where they are summed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sensormend.methods._olrtr_history import Mixed
from sensormend.recovery import FloatArray

__all__ = ["Beginning", "Ending", "Lesson", "Sums"]


@dataclass(frozen=True, eq=False)
class Beginning:
    """What a part says of its readings: |B|^2 and L_0'L_0."""

    squares: float
    gram: FloatArray

    def __add__(self, other: Beginning) -> Beginning:
        return Beginning(self.squares + other.squares, self.gram + other.gram)


@dataclass(frozen=True, eq=False)
class Sums:
    """What one iteration adds up over the parts.

    `product` is L_0'Z; `E` the squared norm of the change in E; `R` that of the change in each other R, or its Gram
    matrix where the spectral norm is asked for; `mixed` the scalar products that the acceleration needs.
    """

    product: FloatArray
    E: float
    R: list[Any]
    mixed: Mixed | None = None

    def __add__(self, other: Sums) -> Sums:
        mixed = self.mixed + other.mixed if self.mixed is not None and other.mixed is not None else None
        return Sums(
            self.product + other.product, self.E + other.E,
            [mine + theirs for mine, theirs in zip(self.R, other.R, strict=True)], mixed,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Lesson:
    """What ends a minibatch: R_0' (r x columns), the first mode's A + lambda1 I, and what a sweep multiplies by."""

    R: FloatArray
    A_tilde: FloatArray
    inverse: FloatArray


@dataclass(frozen=True, eq=False)
class Ending:
    """One part's rows of the result and of the first mode, and what the other modes learn: (A, D) to be added."""

    X: Any
    E: Any
    cleaned: Any
    largest: Any
    L: Any
    D: Any
    others: list[tuple[FloatArray, FloatArray]]
    sound: bool
