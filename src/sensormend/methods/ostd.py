"""The module provides OSTD, online stochastic tensor decomposition."""

from __future__ import annotations

import math

import numpy as np

from sensormend.methods.base import Arrays, PublishedOnline, Solved, check_count, check_positive
from sensormend.methods.interpolation import from_series, interpolate_periods, no_last_values
from sensormend.methods.robust_fit import alternating_fit
from sensormend.methods.stoc_rpca import bounded_sweep
from sensormend.recovery import FloatArray

__all__ = ["OSTD"]


class OSTD(PublishedOnline):
    """Online stochastic tensor decomposition (Sobral and others 2015), made for background subtraction in video.

    A whole minibatch is one frame, and STOC-RPCA runs on it as one long vector.

    Parameters
    ----------
    rank
        The number of columns of the basis.
    lambda1
        The weight of the ridge; by default 1 / sqrt(cells of a minibatch).
    lambda2
        The weight of the outliers; by default 10 / sqrt(cells of a minibatch).
    fiber_axis
        The axis of the slots. Axis 0 is the sensors.
    tol
        The inner loop stops when the change of r and e over the number of cells is below this.
    max_iter
        The largest number of iterations of the inner loop.
    threshold
        A fiber is faulty when any |e| in it exceeds this.
    seed
        Not used: the first frame is the basis at the start. It is here so that every online method takes one.

    Notes
    -----
    The paper unfolds the frame along each mode, turns each unfolding into a vector, and takes the mean of what comes
    out. These vectors have the same entries in another order, and nothing in the method depends on the order: all
    modes yield the same, so one is computed.

    The published inner loop has no limit on its turns. Run to its end (`max_iter=5000`), the relative error on the
    NOAA temperatures is a tenth larger.

    The method knows no missing data: gaps are closed by straight lines in time first, period by period.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> readings = random.uniform(1, 2, (8, 1, 1)) * np.linspace(0, 1, 24)[:, None] * random.uniform(1, 2, 30)
    >>> readings[5, :, 20] = 9.0
    >>> result = OSTD(rank=2, threshold=4).recover(readings)
    >>> [(int(sensor), int(day)) for sensor, day in np.argwhere(result.faulty)]
    [(5, 20)]
    """

    _settings = ("lambda1", "lambda2", "tol", "max_iter")
    _per_pass = ("last",)

    def __init__(
        self,
        rank: int = 10,
        *,
        lambda1: float | None = None,
        lambda2: float | None = None,
        fiber_axis: int = 1,
        tol: float = 1e-6,
        max_iter: int = 50,
        threshold: float = 0.01,
        seed: int | None = None,
    ) -> None:
        super().__init__(rank=rank, fiber_axis=fiber_axis, threshold=threshold, seed=seed)
        self.lambda1 = None if lambda1 is None else check_positive("lambda1", lambda1)
        self.lambda2 = None if lambda2 is None else check_positive("lambda2", lambda2)
        self.tol = check_positive("tol", tol)
        self.max_iter = check_count("max_iter", max_iter)

    def _initial_arrays(self, shape: tuple[int, ...]) -> Arrays:
        cells = math.prod(shape)
        return {
            "L": np.zeros((cells, self.rank)),
            "A": np.zeros((self.rank, self.rank)),
            "B": np.zeros((cells, self.rank)),
            "last": no_last_values(shape, self.fiber_axis),
        }

    def _solve(self, readings: FloatArray, arrays: Arrays) -> Solved:
        filled, last = interpolate_periods(readings, arrays["last"], self.fiber_axis)
        z = filled.reshape(-1)
        if np.isnan(z).any() or not z.any():
            return Solved(np.zeros(readings.shape), np.zeros(readings.shape), 0, {**arrays, "last": last})
        lambda1 = self.lambda1 or 1 / math.sqrt(z.size)
        L = arrays["L"] if arrays["L"].any() else np.repeat(z[:, None], self.rank, axis=1)
        limit, small = self.lambda2 or 10 * lambda1, self.tol * z.size
        r, e, iterations = alternating_fit(
            z, L, lambda1, limit, settled=lambda step, _: math.sqrt(step @ step) < small, max_iter=self.max_iter
        )
        A, B = arrays["A"] + np.outer(r, r), arrays["B"] + np.outer(z - e, r)
        L_new = bounded_sweep(L, A, B, lambda1)
        X, E = (from_series(part, readings.shape, self.fiber_axis) for part in (L_new @ r, e))
        learned = {"L": L_new, "A": A, "B": B, "last": last}
        return Solved(X, np.where(np.isnan(readings), 0.0, E), iterations, learned)
