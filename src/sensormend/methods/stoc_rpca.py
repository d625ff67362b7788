"""The module provides STOC-RPCA, stochastic robust principal component analysis."""

from __future__ import annotations

import math

import numpy as np

from sensormend.methods.base import ColumnMethod, SolvedColumn, check_count, check_positive
from sensormend.methods.robust_fit import robust_fit
from sensormend.recovery import FloatArray

__all__ = ["StocRPCA", "bounded_sweep"]

YEAR_OF_HOURS = 8760


class StocRPCA(ColumnMethod):
    """Stochastic robust PCA (Feng, Xu and Yan 2013): a matrix method with outliers in single readings.

    Each column z, the readings of all sensors at one time, is split into L r + e: r under a ridge, e under an
    l1 norm. The basis L follows from sums over the columns so far, by one sweep of block coordinate descent.

    Parameters
    ----------
    rank
        The number of columns of the basis.
    columns
        How many columns the run will have; the published weights, 1 / sqrt(max(sensors, columns)), need it. By
        default a year of hours.
    lambda1
        The weight of the ridge; by default the published one.
    lambda2
        The weight of the outliers; by default the published one.
    fiber_axis
        The axis of the slots. Axis 0 is the sensors, the rows of the matrix.
    tol
        The inner loop of a column stops when the change of r over the number of sensors is below this.
    max_iter
        The largest number of iterations of the inner loop.
    threshold
        A fiber is faulty when any |e| in it exceeds this.
    seed
        For the basis at the start. None takes a fresh one each time.

    Notes
    -----
    The method knows no missing data: gaps are closed by straight lines in time first, period by period.
    Weights that small leave nothing to the low-rank part: what the paper of OLRTR calls an unrealistic range.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> readings = random.uniform(1, 2, (8, 1, 1)) * random.uniform(0, 1, (1, 24, 30))
    >>> readings[5, :, 20] = 9.0
    >>> result = StocRPCA(rank=2, lambda1=0.1, lambda2=0.3, threshold=1, seed=0).recover(readings)
    >>> [(int(sensor), int(day)) for sensor, day in np.argwhere(result.faulty)]
    [(5, 20)]
    """

    _settings = ("columns", "lambda1", "lambda2", "tol", "max_iter")

    def __init__(
        self,
        rank: int = 10,
        *,
        columns: int = YEAR_OF_HOURS,
        lambda1: float | None = None,
        lambda2: float | None = None,
        fiber_axis: int = 1,
        tol: float = 1e-6,
        max_iter: int = 100,
        threshold: float = 0.01,
        seed: int | None = None,
    ) -> None:
        super().__init__(rank=rank, fiber_axis=fiber_axis, threshold=threshold, seed=seed)
        self.columns = check_count("columns", columns)
        self.lambda1 = None if lambda1 is None else check_positive("lambda1", lambda1)
        self.lambda2 = None if lambda2 is None else check_positive("lambda2", lambda2)
        self.tol = check_positive("tol", tol)
        self.max_iter = check_count("max_iter", max_iter)

    def _initial_columns(self, rows: int) -> dict[str, FloatArray]:
        L = np.random.default_rng(self.seed).random((rows, self.rank))
        return {"L": L, "A": np.zeros((self.rank, self.rank)), "B": np.zeros((rows, self.rank))}

    def _solve_column(self, column: FloatArray, arrays: dict[str, FloatArray]) -> SolvedColumn:
        weight = 1 / math.sqrt(max(column.size, self.columns))
        lambda1, lambda2 = self.lambda1 or weight, self.lambda2 or weight
        L = arrays["L"]
        r, e, iterations = robust_fit(column, L, lambda1, lambda2, tol=self.tol * column.size, max_iter=self.max_iter)
        arrays["A"] += np.outer(r, r)
        arrays["B"] += np.outer(column - e, r)
        arrays["L"] = bounded_sweep(L, arrays["A"], arrays["B"], lambda1 / self.columns)
        return arrays["L"] @ r, e, iterations


def bounded_sweep(L: FloatArray, A: FloatArray, B: FloatArray, weight: float) -> FloatArray:
    """Update the columns of a basis one after the other, each at most of length 1."""
    A_tilde = A + weight * np.eye(len(A))
    L = L.copy(order="F")
    for j in range(L.shape[1]):
        column = (B[:, j] - L @ A_tilde[:, j]) / A_tilde[j, j] + L[:, j]
        L[:, j] = column / max(math.sqrt(column @ column), 1.0)
    return L
