"""OLRTR's kernel, the small half: what is summed over the parts of a minibatch, and when the iterations stop."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sensormend.methods._olrtr_history import Anderson, Mixed, depth_for
from sensormend.methods._olrtr_modes import RAN_OFF, Solver, Statistics, inverse_of, sweeping, swept
from sensormend.recovery import FloatArray

__all__ = [
    "RAN_OFF",
    "Answer",
    "Beginning",
    "Ending",
    "Lesson",
    "Rules",
    "Solution",
    "Statistics",
    "Sums",
    "first_lesson",
    "learned",
    "solve",
    "solve_rows",
]


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


Step = Callable[[FloatArray | None, FloatArray | None, float], Sums]


@dataclass(frozen=True)
class Rules:
    """How a minibatch is solved: the settings of `OLRTR` that the kernel needs."""

    lambda1: float
    tol: float
    max_iter: int
    jacobi: bool
    accelerated: bool

    def depth(self, shape: Sequence[int]) -> int:
        """Return how many steps the acceleration remembers for minibatches of this shape."""
        return depth_for(math.prod(shape)) if self.accelerated else 0


@dataclass(frozen=True, eq=False)
class Solution:
    """What the iterations end with: R_0' (r x columns), and how many there were."""

    R: FloatArray
    iterations: int


@dataclass(frozen=True, eq=False)
class Answer:
    """One minibatch, solved and learned from."""

    ending: Ending
    modes: list[Statistics]
    iterations: int


def solve(
    step: Step, start: FloatArray | None, inverse: FloatArray, squares: float, modes: int, rules: Rules
) -> Solution:
    """Iterate until E and every R have settled.

    Parameters
    ----------
    step
        Does one iteration on all rows, from R_0' / N and the mixing of the acceleration, and sums it up.
    start
        L_0'Z to start from; None for the published start, R = 0 and E = 0.
    inverse
        (L_0'L_0 + lambda1 I)^-1.
    squares
        |B|^2.
    """
    limit = rules.tol**2 * squares
    anderson = Anderson() if rules.accelerated else None
    R = None if start is None else inverse @ start
    mixing: FloatArray | None = None
    iterations = 0
    while True:
        iterations += 1
        sums = step(None if R is None else R / modes, mixing, limit)
        R_before, R = R, inverse @ sums.product
        if iterations == rules.max_iter or _settled(sums, R if R_before is None else R - R_before, limit, rules.jacobi):
            return Solution(R, iterations)
        if anderson is not None and sums.mixed is not None:
            onward, mixing = anderson.onward(sums.product, sums.mixed)
            R = inverse @ onward


def first_lesson(A: FloatArray, found: Solution, rules: Rules) -> tuple[FloatArray, Lesson]:
    """Return the first mode's new A, and what its rows need to learn."""
    A = A + found.R @ found.R.T
    A_tilde = A + rules.lambda1 * np.eye(len(A))
    return A, Lesson(found.R, A_tilde, sweeping(A_tilde, jacobi=rules.jacobi))


def learned(mode: Statistics, A: FloatArray, D: FloatArray, rules: Rules) -> Statistics:
    """Add to A and D of a small mode, and sweep over its dictionary."""
    A, D = mode.A + A, mode.D + D
    A_tilde = A + rules.lambda1 * np.eye(len(A))
    return Statistics(swept(mode.L, A_tilde, D, sweeping(A_tilde, jacobi=rules.jacobi)), A, D)


def solve_rows(rows: Any, old: Sequence[Statistics], shape: Sequence[int], rules: Rules) -> Answer | None:
    """Solve a minibatch that lies in one part, and learn from it; with nothing to teach, None comes back."""
    beginning = rows.begin()
    if beginning.squares == 0:
        return None
    count = len(old)
    solvers = [Solver.of(mode.L, rules.lambda1, count) for mode in old[1:]]
    inverse = inverse_of(beginning.gram, rules.lambda1)
    start = rows.prepare(solvers, depth=rules.depth(shape))
    found = solve(rows.step, start, inverse, beginning.squares, count, rules)
    A, lesson = first_lesson(old[0].A, found, rules)
    ending = rows.finish(lesson, count)
    others = [learned(mode, more[0], more[1], rules) for mode, more in zip(old[1:], ending.others, strict=True)]
    return Answer(ending, [Statistics(ending.L, A, ending.D), *others], found.iterations)


def _settled(sums: Sums, change: FloatArray, limit: float, spectral: bool) -> bool:
    """Whether the squared norm of the change in E and in every R is below `limit`."""
    first = change @ change.T if spectral else float(np.vdot(change, change))
    return all(_is_small(part, limit) for part in (sums.E, first, *sums.R))


def _is_small(part: Any, limit: float) -> bool:
    if isinstance(part, float):
        return part < limit
    if not np.isfinite(part).all():
        return False
    # The spectral norm is at most the Frobenius norm, so that most minibatches are decided without it.
    return bool(np.trace(part) < limit or np.linalg.eigvalsh(part)[-1] < limit)
