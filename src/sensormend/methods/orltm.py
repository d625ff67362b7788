"""The module provides ORLTM, online robust low-rank tensor modeling, as a reconstruction."""

from __future__ import annotations

import math

import numpy as np

from sensormend.methods.base import Arrays, Solved
from sensormend.methods.interpolation import from_series, interpolate_periods, no_last_values
from sensormend.methods.olrsc import LowRankRepresentation, relative, sweep
from sensormend.methods.robust_fit import soft, solve_positive
from sensormend.recovery import FloatArray
from sensormend.tensor import fold, unfold

__all__ = ["ORLTM"]


class ORLTM(LowRankRepresentation):
    """Online robust low-rank tensor modeling (Li and others 2019): a RECONSTRUCTION.

    Only the abstract of its paper could be read, and there is no public code. What is here is OLRSC in every mode of
    the minibatch, with outliers in single readings that all modes share. Its figures are those of this
    reconstruction, not of the authors' method.

    Parameters
    ----------
    rank
        The number of columns of every dictionary.
    lambda1
        The weight of the fit.
    lambda2
        The weight of the outliers; by default the root mean square of the minibatch over sqrt(I), I its longest axis.
    lambda3
        The weight of the dictionaries; by default sqrt(t / I) for each mode of length I and minibatch number t of a
        pass.
    fiber_axis
        The axis of the slots. Axis 0 is the sensors.
    tol
        The inner loop stops when the relative change of low-rank part and outliers is below this.
    max_iter
        The largest number of iterations of the inner loop.
    threshold
        A fiber is faulty when any |E| in it exceeds this.
    seed
        For the dictionaries at the start. None takes a fresh one each time.

    Notes
    -----
    The method knows no missing data: gaps are closed by straight lines in time first, period by period.

    OLRSC's 1 / sqrt(I) bounds a residual in the unit of the readings, and so suits readings of size 1. In larger ones
    it makes nearly every reading an outlier, and the low-rank part shrinks to nothing; hence the root mean square.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> readings = random.uniform(1, 2, (8, 1, 1)) * np.linspace(0, 1, 24)[:, None] * random.uniform(1, 2, 30)
    >>> readings[5, :, 20] = 9.0
    >>> result = ORLTM(rank=2, threshold=2, seed=0).recover(readings, passes=2)
    >>> [(int(sensor), int(day)) for sensor, day in np.argwhere(result.faulty)]
    [(5, 20)]
    """

    _per_pass = ("last", "t", "M")

    def _initial_arrays(self, shape: tuple[int, ...]) -> Arrays:
        random = np.random.default_rng(self.seed)
        arrays = {"t": np.zeros(()), "last": no_last_values(shape, self.fiber_axis)}
        for mode, length in enumerate(shape):
            arrays[f"D{mode}"] = random.standard_normal((length, self.rank))
            arrays |= {f"{name}{mode}": np.zeros((length, self.rank)) for name in "MB"}
            arrays[f"A{mode}"] = np.zeros((self.rank, self.rank))
        return arrays

    def _solve(self, readings: FloatArray, arrays: Arrays) -> Solved:
        filled, last = interpolate_periods(readings, arrays["last"], self.fiber_axis)
        Z = np.ascontiguousarray(from_series(filled, readings.shape, self.fiber_axis))
        if np.isnan(Z).any() or not Z.any():
            return Solved(np.zeros(Z.shape), np.zeros(Z.shape), 0, {**arrays, "last": last})
        dictionaries = [arrays[f"D{mode}"] for mode in range(Z.ndim)]
        X, E, coefficients, iterations = self._split(Z, dictionaries)
        learned = {"t": arrays["t"] + 1, "last": last}
        for mode, (D, V) in enumerate(zip(dictionaries, coefficients, strict=True)):
            unfolded, sound = unfold(Z, mode), unfold(Z - E, mode)
            lambda3 = self.lambda3 or math.sqrt(float(learned["t"]) / len(D))
            # M grows by Z U with U = (Z'Z + I / lambda3)^-1 Z'(D - M); this is the same with a smaller system.
            gram = unfolded @ unfolded.T
            M = arrays[f"M{mode}"]
            M = M + gram @ solve_positive(gram + np.eye(len(D)) / lambda3, D - M)
            A, B = arrays[f"A{mode}"] + V @ V.T, arrays[f"B{mode}"] + sound @ V.T
            swept = sweep(D, self.lambda1 * A, self.lambda1 * B + lambda3 * M, lambda3)
            learned |= {f"D{mode}": swept, f"M{mode}": M, f"A{mode}": A, f"B{mode}": B}
        return Solved(X, np.where(np.isnan(readings), 0.0, E), iterations, learned)

    def _split(
        self, Z: FloatArray, dictionaries: list[FloatArray]
    ) -> tuple[FloatArray, FloatArray, list[FloatArray], int]:
        """Take turns between the coefficients of every mode and the outliers; X, E, the coefficients, iterations."""
        modes = range(Z.ndim)
        lambda2 = self.lambda2 or math.sqrt(float(np.mean(Z * Z)) / max(Z.shape))
        limit = lambda2 / (Z.ndim * self.lambda1)
        ridge = np.eye(self.rank) / self.lambda1
        solvers = [solve_positive(D.T @ D + ridge, D.T) for D in dictionaries]
        E, X = np.zeros(Z.shape), np.zeros(Z.shape)
        V = [np.zeros(0)] * Z.ndim
        iterations = 0
        while iterations < self.max_iter:
            iterations += 1
            E_before, X_before = E, X
            V = [solvers[mode] @ unfold(Z - E, mode) for mode in modes]
            X = np.mean([fold(dictionaries[mode] @ V[mode], mode, Z.shape) for mode in modes], axis=0)
            E = soft(Z - X, limit)
            if relative(X - X_before, X_before) < self.tol and relative(E - E_before, E_before) < self.tol:
                break
        return X, E, V, iterations
