"""OLRTR's kernel: arrays in, arrays out. Fibers lie along the last axis; `olrtr.py` sees to that."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from sensormend.errors import DivergenceError
from sensormend.recovery import FloatArray

__all__ = ["RAN_OFF", "Sample", "Statistics", "learn", "solve_sample"]

RAN_OFF = 'the dictionaries ran off to infinity; use dictionary_update="column" or a lower rank'


@dataclass(frozen=True, eq=False)
class Statistics:
    """What one mode carries from one minibatch to the next: L (I x r), A (r x r) and D (I x r)."""

    L: FloatArray
    A: FloatArray
    D: FloatArray


@dataclass(frozen=True, eq=False)
class Sample:
    """One solved minibatch: X, E, the coefficients of each mode, and how many iterations it took."""

    X: FloatArray
    E: FloatArray
    R: list[FloatArray]
    iterations: int


class _Mode:
    """Products along one mode of a C-ordered tensor, without laying out its unfolding.

    The tensor is seen as (before, I, after), without `before` in the first mode and without `after` in the
    last, where they are 1. Coefficients have r in the place of I.
    """

    def __init__(self, shape: tuple[int, ...], mode: int) -> None:
        self.last = mode == len(shape) - 1
        self.seen: tuple[int, ...]
        if mode == 0:
            self.seen = (shape[0], -1)
        else:
            before = math.prod(shape[:mode])
            self.seen = (before, shape[mode]) if self.last else (before, shape[mode], -1)

    def apply(self, matrix: FloatArray, tensor: FloatArray, out: FloatArray | None = None) -> FloatArray:
        product: FloatArray
        product = np.matmul(tensor, matrix.T, out=out) if self.last else np.matmul(matrix, tensor, out=out)
        return product

    def contract(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """Sum left x right over every axis but the mode's own."""
        product: FloatArray
        if self.last:
            product = left.T @ right
        elif left.ndim == 2:
            product = left @ right.T
        else:
            product = np.matmul(left, right.swapaxes(1, 2)).sum(axis=0)
        return product


def solve_sample(
    B: FloatArray,
    missing: NDArray[np.intp] | None,
    dictionaries: Sequence[FloatArray],
    *,
    lambda1: float,
    threshold: float,
    tol: float,
    max_iter: int,
    spectral: bool,
) -> Sample:
    """Find E and R for one minibatch with the dictionaries fixed (algorithms 2 and 5 of the paper).

    Parameters
    ----------
    B
        The minibatch, C-ordered, 0 where missing, not all 0.
    missing
        Flat positions of what is missing, None where nothing is.
    threshold
        lambda2 / N: fibers of C up to this norm are no outliers.
    spectral
        Stop on the spectral norm of the change in R, as the authors' code does, not on the Frobenius norm.
    """
    modes = [_Mode(B.shape, i) for i in range(B.ndim)]
    solvers = [_solver(L, lambda1) for L in dictionaries]
    shares = [L / B.ndim for L in dictionaries]
    R: list[FloatArray] = []
    # W is B - O. Where readings are missing, O is chosen so that W = E + X there; elsewhere O is 0.
    W = B if missing is None else B.copy()
    X, E, E_before, Z, scratch = (np.zeros(B.shape) for _ in range(5))
    Z_seen, X_seen = [Z.reshape(mode.seen) for mode in modes], X.reshape(modes[0].seen)
    scratch_seen, change = [scratch.reshape(mode.seen) for mode in modes], scratch.reshape(-1)
    W_flat, X_flat = W.reshape(-1), X.reshape(-1)
    limit = (tol * float(np.linalg.norm(B))) ** 2
    iterations = 0
    while iterations < max_iter:
        iterations += 1
        E, E_before = E_before, E
        C = np.subtract(W, X, out=scratch)
        norms = np.sqrt(np.einsum("...j,...j->...", C, C))
        # This is max(0, 1 - threshold / norm), without a 0 / 0 where a fiber of C is 0.
        np.multiply(C, (1 - threshold / np.maximum(norms, threshold))[..., None], out=E)
        np.subtract(W, E, out=Z)
        R_before, R = R, [m.apply(G, seen) for m, G, seen in zip(modes, solvers, Z_seen, strict=True)]
        modes[0].apply(shares[0], R[0], out=X_seen)
        for i in range(1, B.ndim):
            modes[i].apply(shares[i], R[i], out=scratch_seen[i])
            X += scratch
        if missing is not None:
            W_flat[missing] = E.reshape(-1)[missing] + X_flat[missing]
        np.subtract(E, E_before, out=scratch)
        if change @ change < limit and _settled(modes, R, R_before, limit, spectral):
            break
    return Sample(X, E, R, iterations)


def learn(
    statistics: Sequence[Statistics], B: FloatArray, sample: Sample, *, lambda1: float, jacobi: bool
) -> list[Statistics]:
    """Add a solved minibatch to A and D, and sweep once over the columns of L (algorithm 3)."""
    sound = B - sample.E
    ridge = lambda1 * np.eye(len(statistics[0].A))
    learned = []
    for i, (old, R) in enumerate(zip(statistics, sample.R, strict=True)):
        mode = _Mode(B.shape, i)
        A = old.A + mode.contract(R, R)
        D = old.D + mode.contract(sound.reshape(mode.seen), R)
        A_tilde = A + ridge
        residual = D - old.L @ A_tilde
        # A sweep in place reads new columns on the left and old ones on the right of the one it updates:
        # that is one triangular system, step triu(A~) = residual. dtrsm reads the upper triangle only.
        step = residual / np.diag(A_tilde) if jacobi else blas.dtrsm(1.0, A_tilde, residual, side=1)
        learned.append(Statistics(old.L + step, A, D))
    return learned


def _solver(L: FloatArray, lambda1: float) -> FloatArray:
    """(L'L + lambda1 I)^-1 L'."""
    _, solved, info = lapack.dposv(L.T @ L + lambda1 * np.eye(L.shape[1]), L.T)
    if info != 0 or not np.isfinite(solved).all():
        raise DivergenceError(RAN_OFF)
    return np.ascontiguousarray(solved)


def _settled(modes: list[_Mode], R: list[FloatArray], R_before: list[FloatArray], limit: float, spectral: bool) -> bool:
    """Whether the squared norm of the change in every R is below `limit`."""
    for i, mode in enumerate(modes):
        change = R[i] - R_before[i] if R_before else R[i]
        flat = change.reshape(-1)
        large = bool(flat @ flat >= limit)
        # The spectral norm is at most the Frobenius norm, so that most minibatches are decided without it.
        if large and spectral:
            large = bool(np.linalg.eigvalsh(mode.contract(change, change))[-1] >= limit)
        if large:
            return False
    return True
