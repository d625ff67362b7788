"""The module provides TRPCA, tensor robust principal component analysis with the tensor nuclear norm."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import fft

from sensormend.methods.base import check_count, check_positive, published_recovery
from sensormend.methods.interpolation import as_series, from_series, interpolate
from sensormend.methods.robust_fit import soft
from sensormend.recovery import FloatArray, Recovery
from sensormend.tensor import as_readings, check_fiber_axis

__all__ = ["TRPCA"]

FIRST_PENALTY, PENALTY_GROWTH, LARGEST_PENALTY = 1e-4, 1.1, 1e10
"""The penalty of the ADMM: its start, its growth in each iteration, and its end."""


class TRPCA:
    """Tensor robust PCA (Lu and others 2019): a whole tensor at once, outliers in single readings.

    Splits the tensor into a part of small tensor nuclear norm (after a Fourier transform along the last axis, the
    nuclear norms of its slices) and sparse outliers, by ADMM.

    Parameters
    ----------
    lam
        The weight of the outliers; by default 1 / sqrt(max(n1, n2) n3) for an n1 x n2 x n3 tensor.
    fiber_axis
        The axis of the slots. Axis 0 is the sensors.
    tol
        The iteration stops when the largest change of any entry is below this.
    max_iter
        The largest number of iterations.
    threshold
        A fiber is faulty when any |S| in it exceeds this.

    Notes
    -----
    The method knows no missing data: gaps are closed by straight lines in time first. It takes three axes: those
    between the sensors and the last one are joined, and a tensor without periods has a last axis of length 1.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> readings = random.uniform(1, 2, (8, 1, 1)) * random.uniform(0, 1, (1, 24, 30))
    >>> readings[5, :, 20] = 9.0
    >>> result = TRPCA(threshold=2).recover(readings)
    >>> [(int(sensor), int(day)) for sensor, day in np.argwhere(result.faulty)]
    [(5, 20)]
    """

    def __init__(
        self,
        lam: float | None = None,
        *,
        fiber_axis: int = 1,
        tol: float = 1e-8,
        max_iter: int = 500,
        threshold: float = 0.01,
    ) -> None:
        self.lam = None if lam is None else check_positive("lam", lam)
        self.fiber_axis = check_fiber_axis(fiber_axis)
        self.tol = check_positive("tol", tol)
        self.max_iter = check_count("max_iter", max_iter)
        self.threshold = check_positive("threshold", threshold)

    def recover(self, tensor: ArrayLike) -> Recovery:
        """Recover the whole tensor, NaN where nothing was observed.

        Where nothing was observed at all, the estimate is NaN too.
        """
        readings = as_readings(tensor, fiber_axis=self.fiber_axis)
        filled = interpolate(as_series(readings, self.fiber_axis))
        full = from_series(filled, readings.shape, self.fiber_axis)
        if np.isnan(full).any():
            L, S, iterations = np.full(full.shape, np.nan), np.zeros(full.shape), 0
        else:
            periods = readings.shape[-1] if readings.ndim > max(2, self.fiber_axis + 1) else 1
            X = full.reshape(readings.shape[0], -1, periods)
            lam = self.lam or 1 / math.sqrt(max(X.shape[:2]) * periods)
            L, S, iterations = _solve(X, lam, tol=self.tol, max_iter=self.max_iter)
        return published_recovery(
            readings,
            L.reshape(readings.shape),
            np.where(np.isnan(readings), 0.0, S.reshape(readings.shape)),
            fiber_axis=self.fiber_axis,
            threshold=self.threshold,
            iterations=iterations,
        )


def _solve(X: FloatArray, lam: float, *, tol: float, max_iter: int) -> tuple[FloatArray, FloatArray, int]:
    """Solve by ADMM; L, S and the number of iterations."""
    L, S, Y = np.zeros(X.shape), np.zeros(X.shape), np.zeros(X.shape)
    penalty, iterations = FIRST_PENALTY, 0
    while iterations < max_iter:
        iterations += 1
        L_before, S_before = L, S
        L = _shrink_slices(X - S - Y / penalty, 1 / penalty)
        S = soft(X - L - Y / penalty, lam / penalty)
        gap = L + S - X
        Y += penalty * gap
        penalty = min(PENALTY_GROWTH * penalty, LARGEST_PENALTY)
        if max(float(np.abs(part).max()) for part in (L - L_before, S - S_before, gap)) < tol:
            break
    return L, S, iterations


def _shrink_slices(tensor: FloatArray, limit: float) -> FloatArray:
    """Shrink the singular values of every slice after a Fourier transform along the last axis.

    The transform of real numbers mirrors itself, so half of the slices say it all.
    """
    slices: NDArray[np.complex128] = np.moveaxis(fft.rfft(tensor, axis=2), 2, 0)
    shrunk = np.zeros_like(slices)
    # No singular value exceeds the norm of its slice: most slices of smooth data have nothing left to keep.
    large = np.linalg.norm(slices, axis=(1, 2)) > limit
    if large.any():
        U, sigma, Vh = np.linalg.svd(slices[large], full_matrices=False)
        rank = int(np.sum(sigma > limit, axis=1).max())
        shrunk[large] = (U[..., :rank] * np.maximum(sigma[:, None, :rank] - limit, 0)) @ Vh[:, :rank]
    back: FloatArray = fft.irfft(np.moveaxis(shrunk, 0, 2), n=tensor.shape[2], axis=2)
    return back
