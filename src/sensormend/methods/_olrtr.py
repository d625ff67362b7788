"""OLRTR's kernel: arrays in, arrays out. Fibers lie along the last axis; `olrtr.py` sees to that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from sensormend.errors import DivergenceError
from sensormend.recovery import FloatArray

__all__ = ["Sample", "Statistics", "learn", "solve_sample"]


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

    The tensor is seen as (before, I, after). Coefficients are kept as (before, r, after), and as (before, r)
    for the last mode, where `after` is 1 and a stack of matrix-vector products would be slow.
    """

    def __init__(self, shape: tuple[int, ...], mode: int) -> None:
        before = int(np.prod(shape[:mode], dtype=int))
        self.last = mode == len(shape) - 1
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
        elif len(left) == 1:
            product = left[0] @ right[0].T
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
    R = [np.zeros(1)] * B.ndim
    # W is B - O. Where readings are missing, O is chosen so that W = E + X there; elsewhere O is 0.
    W = B if missing is None else B.copy()
    X, E, E_before, Z, scratch = (np.zeros(B.shape) for _ in range(5))
    limit = tol * float(np.linalg.norm(B))
    iterations = 0
    while iterations < max_iter:
        iterations += 1
        E, E_before = E_before, E
        C = np.subtract(W, X, out=scratch)
        norms = np.sqrt(np.einsum("...j,...j->...", C, C))
        np.multiply(C, (1 - threshold / np.maximum(norms, threshold))[..., None], out=E)
        np.subtract(W, E, out=Z)
        R_before, R = R, [m.apply(G, Z.reshape(m.seen)) for m, G in zip(modes, solvers, strict=True)]
        for i, (mode, share) in enumerate(zip(modes, shares, strict=True)):
            mode.apply(share, R[i], out=(scratch if i else X).reshape(mode.seen))
            if i:
                X += scratch
        if missing is not None:
            W.reshape(-1)[missing] = E.reshape(-1)[missing] + X.reshape(-1)[missing]
        change = np.subtract(E, E_before, out=scratch).reshape(-1)
        if change @ change < limit**2 and all(
            _small(mode, r - r_before, limit, spectral)
            for mode, r, r_before in zip(modes, R, R_before, strict=True)
        ):
            break
    return Sample(X, E, R, iterations)


def learn(
    statistics: Sequence[Statistics], B: FloatArray, sample: Sample, *, lambda1: float, jacobi: bool
) -> list[Statistics]:
    """Add a solved minibatch to A and D, and sweep once over the columns of L (algorithm 3)."""
    sound = B - sample.E
    learned = []
    for i, (old, R) in enumerate(zip(statistics, sample.R, strict=True)):
        mode = _Mode(B.shape, i)
        A = old.A + mode.contract(R, R)
        D = old.D + mode.contract(sound.reshape(mode.seen), R)
        A_tilde = A + lambda1 * np.eye(len(A))
        if jacobi:
            L = old.L + (D - old.L @ A_tilde) / np.diag(A_tilde)
        else:
            # Columns updated one by one in place read new columns on their left and old ones on their right:
            # that is one triangular system, L triu(A~) = D - L_old tril(A~, -1).
            L = blas.dtrsm(1.0, np.triu(A_tilde), D - old.L @ np.tril(A_tilde, -1), side=1)
        learned.append(Statistics(np.ascontiguousarray(L), A, D))
    return learned


def _solver(L: FloatArray, lambda1: float) -> FloatArray:
    """(L'L + lambda1 I)^-1 L'."""
    _, solved, info = lapack.dposv(L.T @ L + lambda1 * np.eye(L.shape[1]), L.T)
    if info != 0 or not np.isfinite(solved).all():
        raise DivergenceError("the dictionaries ran off to infinity; use a lower rank or smaller readings")
    return np.ascontiguousarray(solved)


def _small(mode: _Mode, change: FloatArray, limit: float, spectral: bool) -> bool:
    """Whether the norm of a change in R is below `limit`."""
    flat = change.reshape(-1)
    frobenius = float(flat @ flat)
    # The spectral norm is at most the Frobenius norm: most minibatches are decided without it.
    if frobenius < limit**2 or not spectral:
        return frobenius < limit**2
    return bool(np.linalg.eigvalsh(mode.contract(change, change))[-1] < limit**2)
