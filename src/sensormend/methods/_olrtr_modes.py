"""The modes of OLRTR: what a dictionary knows, and products along one axis of a block of rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import lapack

from sensormend.errors import DivergenceError
from sensormend.recovery import FloatArray

__all__ = ["RAN_OFF", "LocalMode", "Solver", "Statistics", "gathered", "inverse_of", "sweeping", "swept"]

RAN_OFF = 'the dictionaries ran off to infinity; use dictionary_update="column" or a lower rank'

FEW = 256
"""Rows that are summed in single precision."""


@dataclass(frozen=True, eq=False)
class Statistics:
    """What one mode carries from one minibatch to the next: L (I x r), A (r x r) and D (I x r)."""

    L: Any
    A: FloatArray
    D: Any


@dataclass(frozen=True, eq=False)
class Solver:
    """One small mode, ready for a minibatch: R' = G Z and its share of X is P Z, or `share` R' where that is less."""

    G: FloatArray
    P: FloatArray | None
    share: FloatArray

    @classmethod
    def of(cls, L: FloatArray, lambda1: float, modes: int) -> Solver:
        length, rank = L.shape
        G = inverse_of(L.T @ L, lambda1) @ L.T
        share = L / modes
        # One product of I x I, or two of I x r: thin ones run at half the speed.
        return cls(G, share @ G if length <= 4 * rank else None, share)


class LocalMode:
    """Products along one mode other than the first, for blocks of rows that lie in C order.

    A block is seen as (before, I, after), without `after` in the last mode, where it is 1.
    """

    def __init__(self, shape: tuple[int, ...], mode: int, solver: Solver, cast: Any) -> None:
        self.mode, self.shape = mode, shape
        self.last = mode == len(shape) - 1
        self.G, self.share = cast(solver.G), cast(solver.share)
        self.P = None if solver.P is None else cast(solver.P)

    def seen(self, block: Any, length: int | None = None) -> Any:
        """View a block of rows as this mode sees it; `length` in place of I."""
        length = self.shape[self.mode] if length is None else length
        if self.last:
            return block.reshape(-1, length)
        return block.reshape(-1, length, math.prod(self.shape[self.mode + 1 :]))

    def coefficients(self, block: Any) -> Any:
        """Return R' of a block."""
        seen = self.seen(block)
        return seen @ self.G.T if self.last else self.G @ seen

    def share_of(self, block: Any, out: Any) -> Any:
        """Write this mode's share of X of a block to `out`, and return that."""
        left, right = (self.share, self.coefficients(block)) if self.P is None else (self.P, self.seen(block))
        if self.last:
            left, right = right, left.T
        np.matmul(left, right, out=self.seen(out))
        return out

    def contract(self, left: Any, right: Any) -> Any:
        """Sum left x right, seen by this mode, over every axis but its own."""
        if self.last:
            return gathered(left, right)
        return (left @ right.swapaxes(1, 2)).sum(0)


def gathered(left: Any, right: Any) -> Any:
    """Return left' right. In single precision NumPy sums few rows at a time, and then in double."""
    if left.dtype != np.float32 or len(left) <= FEW:
        return left.T @ right
    whole = len(left) - len(left) % FEW
    pieces = [array[:whole].reshape(-1, FEW, array.shape[1]) for array in (left, right)]
    return (pieces[0].swapaxes(1, 2) @ pieces[1]).sum(axis=0, dtype=np.float64) + left[whole:].T @ right[whole:]


def inverse_of(gram: FloatArray, lambda1: float) -> FloatArray:
    """(L'L + lambda1 I)^-1."""
    ridge = np.eye(len(gram))
    _, solved, info = lapack.dposv(gram + lambda1 * ridge, ridge)
    if info != 0 or not np.isfinite(solved).all():
        raise DivergenceError(RAN_OFF)
    inverse: FloatArray = solved
    return inverse


def swept(L: FloatArray, A_tilde: FloatArray, D: FloatArray, inverse: FloatArray) -> FloatArray:
    """Sweep once over the columns of L (algorithm 3); `inverse` is that of `sweeping`."""
    moved: FloatArray = L + (D - L @ A_tilde) @ inverse
    return moved


def sweeping(A_tilde: FloatArray, *, jacobi: bool) -> FloatArray:
    """Return what a sweep multiplies its residual D - L A~ by.

    A sweep in place reads new columns on the left and old ones on the right of the one it updates: that is one
    triangular system, step triu(A~) = residual. Jacobi reads the old ones throughout.
    """
    inverse: FloatArray
    if jacobi:
        inverse = np.diag(1 / np.diag(A_tilde))
    else:
        inverse, _ = lapack.dtrtri(A_tilde)
        inverse = np.triu(inverse)
    return inverse
