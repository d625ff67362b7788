"""The module provides RTR, robust tensor recovery, the batch method that OLRTR goes back to."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg

from sensormend.methods.base import check_count, check_positive, published_recovery
from sensormend.recovery import BoolArray, FloatArray, Recovery
from sensormend.tensor import as_readings, check_fiber_axis, fiber_norms, fold, unfold

__all__ = ["RTR", "default_lam"]

PENALTY_GROWTH, LARGEST_PENALTY = 1.5, 1e7
"""The penalty of the ADMM grows by this factor each iteration, up to this many times its start."""
GRAM_LIMIT = 1e-5
"""Squares lose singular values below about 1e-8 of the largest. While the limit is well above that they are as good as
a singular value decomposition, and several times faster."""
LAM_SINGLE, LAM_DECAY, LAM_LARGEST = 3.0, 0.07, 0.75
"""The default lambda's constants, chosen with `benchmarks/rtr_lambda.py`: see the table in `RTR`."""


class RTR:
    """Robust tensor recovery (Hu and Work 2020): a whole tensor at once, the ceiling of the online methods.

    Splits the tensor into a part whose unfoldings all have small nuclear norms and outliers that fill whole
    fibers, by ADMM.

    Parameters
    ----------
    lam
        The weight of the outliers; less of it makes more fibers outliers. By default it follows from the
        data: 3 / (1 + 0.07 sqrt(I sqrt(F))) for I slots and F fibers with at least one reading, and no more
        than 0.75 N for N axes.
    fiber_axis
        The axis of the slots. Fibers lie along it. Axis 0 is the sensors.
    tol
        The iteration stops when the residual relative to the data is below this.
    max_iter
        The largest number of iterations.
    threshold
        A fiber is faulty when any |E| in it exceeds this.

    Notes
    -----
    A lone outlier costs at most N times its norm in the nuclear norms of N unfoldings, so from `lam` = N on
    nothing is an outlier; and the more faulty fibers there are, the more cheaply they hide in the low-rank
    part together, so `lam` must shrink with the size of the tensor. That gives the form of the default. Its
    constants were chosen by hand on the cases of this table, starting from the authors' 1 / (0.03 I) for a
    cube of 50, so the table shows what they were fitted to. Columns are multiples of the default
    (`python benchmarks/rtr_lambda.py`, one seed; 5 % faulty and 90 % observed unless said otherwise). In
    each, F1 of the faulty fibers, then RMSE in deg C at missing entries (NOAA) or RE on sound fibers; for the
    Array of Things the share of fibers flagged, then the correlation with the reference station.

    ========================= ====== =========== =========== =========== =========== ===========
    case                      lam    x 0.5       x 0.7       default     x 1.4       x 2
    ========================= ====== =========== =========== =========== =========== ===========
    NOAA 364 days, uniform    0.64   0.46 0.95   0.88 0.92   0.99 0.97   0.99 1.88   0.22 2.44
    NOAA 364 days, mix        0.64   0.45 0.88   0.72 0.85   0.51 0.87   0.32 0.91   0.04 0.94
    NOAA 90 days, uniform     0.83   0.33 1.13   0.77 1.07   0.94 1.04   1.00 1.33   0.30 2.09
    NOAA 30 days, mix         1.01   0.23 1.29   0.55 1.09   0.65 1.03   0.19 1.07   0.00 1.09
    cube of 30, 10 % faulty   0.97   0.90 0.071  0.99 0.006  1.00 0.002  1.00 0.008  0.95 0.245
    cube of 50                0.67   1.00 0.000  1.00 0.000  1.00 0.000  1.00 0.000  1.00 0.000
    cube of 50, 30 % faulty   0.67   0.95 0.122  1.00 0.020  1.00 0.022  0.97 0.412  0.00 0.471
    cube of 50, 50 % observed 0.67   0.36 0.195  0.97 0.011  1.00 0.000  1.00 0.000  1.00 0.081
    matrix 100 x 24           1.44   1.00 0.000  1.00 0.000  1.00 0.000  1.00 0.000  0.00 0.000
    matrix 60 x 60            1.20   0.50 0.114  1.00 0.000  1.00 0.000  1.00 0.000  1.00 0.000
    four axes of 12           1.17   1.00 0.000  1.00 0.000  1.00 0.051  0.98 0.297  0.00 0.317
    Array of Things           0.62   8.8% 0.981  1.2% 0.978  0.2% 0.977  0.0% 0.976  0.0% 0.976
    ========================= ====== =========== =========== =========== =========== ===========

    On cases that had no part in the choice (`rtr_lambda.py fresh`: other seeds, days and shapes, and a
    simulated city) the default is near the best multiple for uniform faults, the cube and the matrix. It is
    too large for the fault mix, where 0.7 times the default finds more (F1 0.80 for 0.60 on 180 days of NOAA,
    0.91 for 0.61 in the city), and a little too large for four axes.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> readings = np.einsum("ia,ja,ka->ijk", *(random.normal(0, 1, (n, 2)) for n in (12, 10, 15)))
    >>> truth = readings.copy()
    >>> readings[3, :, 8] = random.uniform(-5, 5, 10)
    >>> readings[6, 2, 1] = np.nan
    >>> result = RTR().recover(readings)
    >>> [(int(sensor), int(day)) for sensor, day in np.argwhere(result.faulty)]
    [(3, 8)]
    >>> bool(np.allclose(result.cleaned[6], truth[6], atol=1e-3))
    True
    """

    def __init__(
        self,
        lam: float | None = None,
        *,
        fiber_axis: int = 1,
        tol: float = 1e-7,
        max_iter: int = 1000,
        threshold: float = 0.01,
    ) -> None:
        self.lam = None if lam is None else check_positive("lam", lam)
        self.fiber_axis = check_fiber_axis(fiber_axis, after_sensors=False)
        self.tol = check_positive("tol", tol)
        self.max_iter = check_count("max_iter", max_iter)
        self.threshold = check_positive("threshold", threshold)

    def recover(self, tensor: ArrayLike) -> Recovery:
        """Recover the whole tensor, NaN where nothing was observed.

        Where nothing was observed at all, the estimate is NaN too.
        """
        readings = as_readings(tensor, fiber_axis=self.fiber_axis)
        missing = np.moveaxis(np.isnan(readings), self.fiber_axis, 0)
        D = np.where(missing, 0.0, np.moveaxis(readings, self.fiber_axis, 0))
        lam = default_lam(missing) if self.lam is None else self.lam
        X, E, iterations = _solve(D, missing, lam, tol=self.tol, max_iter=self.max_iter)
        return published_recovery(
            readings,
            np.moveaxis(X, 0, self.fiber_axis),
            np.moveaxis(E, 0, self.fiber_axis),
            fiber_axis=self.fiber_axis,
            threshold=self.threshold,
            iterations=iterations,
        )


def default_lam(missing: BoolArray) -> float:
    """Choose lambda for a tensor with its slots along the first axis and these readings missing."""
    fibers = max(1, int(np.sum(~missing.all(axis=0))))
    decay = LAM_DECAY * math.sqrt(len(missing) * math.sqrt(fibers))
    return min(LAM_LARGEST * missing.ndim, LAM_SINGLE / (1 + decay))


def _solve(
    D: FloatArray, missing: BoolArray, lam: float, *, tol: float, max_iter: int
) -> tuple[FloatArray, FloatArray, int]:
    """Solve by ADMM, fibers along the first axis; X, E and the number of iterations."""
    X, E, O = np.zeros(D.shape), np.zeros(D.shape), np.zeros(D.shape)  # noqa: E741
    norm = float(np.linalg.norm(D))
    if norm == 0:
        return np.where(missing.all(), np.nan, X), E, 0
    N = D.ndim
    scale = float(np.linalg.norm(unfold(D, 0), 2))
    Y = [D / max(scale, float(np.abs(D).max()) / lam) for _ in range(N)]
    Y_mean = Y[0]
    penalty = 1 / scale
    iterations = 0
    while iterations < max_iter:
        iterations += 1
        C = D - X + Y_mean / penalty - O
        limit = lam / (N * penalty)
        E = C * (1 - limit / np.maximum(fiber_norms(C, 0), limit))
        rest = D - E - O
        parts = [_shrink_singular(rest + Y[i] / penalty, i, 1 / penalty) for i in range(N)]
        X = sum(parts[1:], parts[0]) / N
        np.copyto(O, D - X - E + Y_mean / penalty, where=missing)
        rest = D - E - O
        Y = [Y_i + penalty * (rest - part) for Y_i, part in zip(Y, parts, strict=True)]
        Y_mean = sum(Y[1:], Y[0]) / N
        penalty = min(penalty * PENALTY_GROWTH, LARGEST_PENALTY / scale)
        if float(np.linalg.norm(rest - parts[-1])) / norm < tol:
            break
    return X, E, iterations


def _shrink_singular(tensor: FloatArray, mode: int, limit: float) -> FloatArray:
    """Shrink the singular values of one unfolding by `limit`."""
    matrix = unfold(tensor, mode)
    rows, columns = matrix.shape
    squares, vectors = linalg.eigh(matrix @ matrix.T if rows <= columns else matrix.T @ matrix, check_finite=False)
    sigma = np.sqrt(np.maximum(squares, 0.0))
    if limit > GRAM_LIMIT * sigma[-1]:
        large = sigma > limit
        basis = vectors[:, large]
        shares = basis * (1 - limit / sigma[large])
        shrunk = shares @ (basis.T @ matrix) if rows <= columns else (matrix @ basis) @ shares.T
    else:
        U, sigma, Vt = linalg.svd(matrix, full_matrices=False, check_finite=False)
        rank = int(np.sum(sigma > limit))
        shrunk = (U[:, :rank] * (sigma[:rank] - limit)) @ Vt[:rank]
    return fold(shrunk, mode, tensor.shape)
