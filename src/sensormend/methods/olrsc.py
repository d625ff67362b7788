"""The module provides OLRSC, online low-rank subspace clustering."""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import blas

from sensormend.methods.base import ColumnMethod, PublishedOnline, SolvedColumn, check_count, check_positive
from sensormend.methods.robust_fit import alternating_fit
from sensormend.recovery import FloatArray

__all__ = ["OLRSC", "LowRankRepresentation", "relative", "sweep"]


class LowRankRepresentation(PublishedOnline):
    """The settings of low-rank representation made online, which ORLTM shares."""

    _settings = ("lambda1", "lambda2", "lambda3", "tol", "max_iter")

    def __init__(
        self,
        rank: int = 10,
        *,
        lambda1: float = 1.0,
        lambda2: float | None = None,
        lambda3: float | None = None,
        fiber_axis: int = 1,
        tol: float = 1e-3,
        max_iter: int = 1000,
        threshold: float = 0.01,
        seed: int | None = None,
    ) -> None:
        super().__init__(rank=rank, fiber_axis=fiber_axis, threshold=threshold, seed=seed)
        self.lambda1 = check_positive("lambda1", lambda1)
        self.lambda2 = None if lambda2 is None else check_positive("lambda2", lambda2)
        self.lambda3 = None if lambda3 is None else check_positive("lambda3", lambda3)
        self.tol = check_positive("tol", tol)
        self.max_iter = check_count("max_iter", max_iter)


class OLRSC(LowRankRepresentation, ColumnMethod):
    """Online low-rank subspace clustering (Shen, Li and Xu 2016): a matrix method with outliers in single readings.

    Low-rank representation made online: each column z is D v + e, and the dictionary D is held near combinations of
    the columns themselves, of which only their sum M is kept.

    Parameters
    ----------
    rank
        The number of columns of the dictionary.
    lambda1
        The weight of the fit.
    lambda2
        The weight of the outliers; by default 1 / sqrt(p) for p sensors.
    lambda3
        The weight of the dictionary; by default sqrt(t / p) for column number t of a pass.
    fiber_axis
        The axis of the slots. Axis 0 is the sensors, the rows of the matrix.
    tol
        The inner loop of a column stops when the relative change of v and e is below this.
    max_iter
        The largest number of iterations of the inner loop.
    threshold
        A fiber is faulty when any |e| in it exceeds this.
    seed
        For the dictionary at the start. None takes a fresh one each time.

    Notes
    -----
    The method knows no missing data: gaps are closed by straight lines in time first, period by period. Its paper
    walks the data twice: `recover(tensor, passes=2)`; M and t start afresh each time, as in its authors' code.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> readings = random.uniform(1, 2, (8, 1, 1)) * random.uniform(0, 1, (1, 24, 30))
    >>> readings[5, :, 20] = 9.0
    >>> result = OLRSC(rank=2, threshold=1, seed=0).recover(readings, passes=2)
    >>> [(int(sensor), int(day)) for sensor, day in np.argwhere(result.faulty)]
    [(5, 20)]
    """

    _per_pass = ("last", "t", "M")

    def _initial_columns(self, rows: int) -> dict[str, FloatArray]:
        D = np.random.default_rng(self.seed).standard_normal((rows, self.rank))
        square, tall = (self.rank, self.rank), (rows, self.rank)
        return {"D": D, "M": np.zeros(tall), "A": np.zeros(square), "B": np.zeros(tall), "t": np.zeros(())}

    def _solve_column(self, column: FloatArray, arrays: dict[str, FloatArray]) -> SolvedColumn:
        arrays["t"] += 1
        lambda1, rows = self.lambda1, column.size
        limit = (self.lambda2 or 1 / math.sqrt(rows)) / lambda1
        lambda3 = self.lambda3 or math.sqrt(float(arrays["t"]) / rows)
        D = arrays["D"]
        v, e, iterations = alternating_fit(
            column,
            D,
            1 / lambda1,
            limit,
            settled=lambda step, old: relative(step, old) < self.tol,
            max_iter=self.max_iter,
        )
        u = (D - arrays["M"]).T @ column / (column @ column + 1 / lambda3)
        arrays["M"] += np.outer(column, u)
        arrays["A"] += np.outer(v, v)
        arrays["B"] += np.outer(column - e, v)
        arrays["D"] = sweep(D, lambda1 * arrays["A"], lambda1 * arrays["B"] + lambda3 * arrays["M"], lambda3)
        return D @ v, e, iterations


def sweep(D: FloatArray, A: FloatArray, B: FloatArray, weight: float) -> FloatArray:
    """Update the columns of a dictionary in place, one after the other, for A + weight I.

    Each reads new columns on its left and old ones on its right: that is one triangular system.
    """
    A_hat = A + weight * np.eye(len(A))
    swept: FloatArray = D + blas.dtrsm(1.0, A_hat, B - D @ A_hat, side=1)
    return swept


def relative(step: FloatArray, old: FloatArray) -> float:
    """Return the size of a step relative to the value before it, or as it is where that was 0."""
    return math.sqrt(np.vdot(step, step)) / (math.sqrt(np.vdot(old, old)) or 1.0)
