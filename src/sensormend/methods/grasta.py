"""The module provides GRASTA, Grassmannian robust adaptive subspace tracking."""

from __future__ import annotations

import math

import numpy as np

from sensormend.methods.base import Arrays, ColumnMethod, SolvedColumn, check_positive
from sensormend.methods.robust_fit import soft
from sensormend.recovery import FloatArray

__all__ = ["GRASTA", "initial_arrays", "track_column"]

MIN_MU, MAX_MU = 1.0, 15.0
ITER_MIN, ITER_MAX = 5, 60
LEVELS = ((4, 1), (7, 2), (10, 4), (14, 8))
"""Up to which level how many times ITER_MIN iterations are made: the less a subspace moves, the more."""
PENALTY_GROWTH = 1.8
SIGMOID_WIDTH = 0.1
LARGEST_ANGLE = math.pi / 3
FAINT = 0.03
"""A direction of the subspace of which the sensors that reported see less than this share is not fitted."""


class GRASTA(ColumnMethod):
    """Grassmannian robust adaptive subspace tracking (He, Balzano and Lui 2011): a matrix method for partial readings.

    A subspace of the sensors turns a little with every column, along the gradient of the l1 norm of the residual at the
    sensors that reported. Gaps need no filling.

    Parameters
    ----------
    rank
        The dimension of the subspace. Close to the number of sensors that report it becomes unstable.
    fiber_axis
        The axis of the slots. Axis 0 is the sensors, the rows of the matrix.
    tol
        When the inner loop of a column stops: the norm of what its constraint is off by.
    threshold
        A fiber is faulty when any |s| in it exceeds this.
    seed
        For the subspace at the start. None takes a fresh one each time.

    Notes
    -----
    Where a column has no more readings than the rank, its coefficients are the smallest that fit, and the subspace
    does not turn: any step from such a column would be arbitrary. The published code gives NaN there. A column without
    any reading is taken to be as the last one that had some.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> readings = random.uniform(1, 2, (8, 1, 1)) * random.uniform(0, 1, (1, 24, 30))
    >>> readings[5, :, 20] = 9.0
    >>> readings[2, 7, 25] = np.nan
    >>> result = GRASTA(rank=1, threshold=5, seed=0).recover(readings)
    >>> [(int(sensor), int(day)) for sensor, day in np.argwhere(result.faulty) if day >= 10]
    [(5, 20)]
    """

    _settings = ("tol",)
    _interpolates = False
    _per_pass = ()

    def __init__(
        self,
        rank: int = 5,
        *,
        fiber_axis: int = 1,
        tol: float = 1e-6,
        threshold: float = 0.01,
        seed: int | None = None,
    ) -> None:
        super().__init__(rank=rank, fiber_axis=fiber_axis, threshold=threshold, seed=seed)
        self.tol = check_positive("tol", tol)

    def _initial_columns(self, rows: int) -> dict[str, FloatArray]:
        return initial_arrays(rows, self.rank, self.seed)

    def _with_sensors(self, arrays: Arrays, initial: Arrays) -> Arrays:
        """Return the arrays of more sensors: rows of zeros keep the columns of U orthonormal."""
        if arrays["U"].shape[1] < initial["U"].shape[1]:
            return initial  # there were fewer sensors than the rank: it starts over
        missing = initial["U"].shape[0] - arrays["U"].shape[0]
        return {**arrays, "U": np.pad(arrays["U"], ((0, missing), (0, 0))), "g": np.pad(arrays["g"], (0, missing))}

    def _solve_column(self, column: FloatArray, arrays: dict[str, FloatArray]) -> SolvedColumn:
        return track_column(column, arrays, tol=self.tol)

    def _empty_column(self, column: FloatArray, arrays: dict[str, FloatArray]) -> SolvedColumn:
        return arrays["U"] @ arrays["latest"], np.zeros(column.size), 0


def initial_arrays(rows: int, rank: int, seed: int) -> dict[str, FloatArray]:
    """Draw a subspace U; g w' is the gradient before, and mu, level and scale are the adaptive step."""
    rank = min(rank, rows)
    U = np.linalg.qr(np.random.default_rng(seed).standard_normal((rows, rank)))[0]
    return {
        "U": U,
        "g": np.zeros(rows),
        "w": np.zeros(rank),
        "latest": np.zeros(rank),
        "mu": np.array(MIN_MU),
        "level": np.zeros(()),
        "scale": np.zeros(()),
    }


def track_column(column: FloatArray, arrays: dict[str, FloatArray], *, tol: float) -> SolvedColumn:
    """Fit a column by the subspace at the sensors that reported, and turn the subspace; `arrays` is written to."""
    observed = np.flatnonzero(~np.isnan(column))
    U = arrays["U"]
    U_observed, v = U[observed], column[observed]
    w, s, y, iterations = _fit(U_observed, v, tol=tol, max_iter=_iteration_limit(float(arrays["level"])))
    arrays["latest"] = w
    outliers = np.zeros(column.size)
    outliers[observed] = s
    if observed.size > U.shape[1]:
        g = -(U @ (U_observed.T @ y))
        g[observed] += y
        _rotate(arrays, g, w)
    return arrays["U"] @ w, outliers, iterations


def _rotate(arrays: dict[str, FloatArray], g: FloatArray, w: FloatArray) -> None:
    """Turn the subspace along the gradient g w', by a step that adapts to whether gradients agree."""
    size_g, size_w = math.sqrt(g @ g), math.sqrt(w @ w)
    steepness = size_g * size_w
    if not steepness > 0:
        return
    before = math.sqrt(arrays["g"] @ arrays["g"]) * math.sqrt(arrays["w"] @ arrays["w"])
    agreement = float((g @ arrays["g"]) * (w @ arrays["w"]) / (steepness * before)) if before else 0.0
    if not arrays["scale"]:
        arrays["scale"] = np.array(0.5 * math.pi * (1 + MIN_MU) / steepness)
    level = float(arrays["level"])
    mu = max(float(arrays["mu"]) + 2 / (1 + math.exp(agreement / SIGMOID_WIDTH)) - 1, MIN_MU)
    angle = min(float(arrays["scale"]) * 2.0**-level * steepness / (1 + mu), LARGEST_ANGLE)
    if mu <= MIN_MU:
        level, mu = (level - 1 if level > 1 else level), MIN_MU + 2
    elif mu > MAX_MU:
        level, mu = level + 1, (MAX_MU - 1) / 2
    a, b = w / size_w, g / size_g
    arrays["U"] += np.outer((math.cos(angle) - 1) * (arrays["U"] @ a) - math.sin(angle) * b, a)
    arrays["g"], arrays["w"] = g, w
    arrays["mu"], arrays["level"] = np.array(mu), np.array(level)


def _iteration_limit(level: float) -> int:
    for below, times in LEVELS:
        if level < below:
            return min(ITER_MIN * times, ITER_MAX)
    return ITER_MAX


def _fit(U: FloatArray, v: FloatArray, *, tol: float, max_iter: int) -> tuple[FloatArray, FloatArray, FloatArray, int]:
    """Fit v by U w + s with a small l1 norm of s, by ADMM; w, s, the dual y and the number of iterations."""
    size = math.sqrt(v @ v)
    w, s, y = np.zeros(U.shape[1]), np.zeros(v.size), np.zeros(v.size)
    if size == 0:
        return w, s, y, 0
    P = _pseudo_inverse(U)
    penalty = 1.25 / size
    iterations = 0
    while iterations < max_iter:
        iterations += 1
        w = P @ (v - s - y / penalty)
        fit = U @ w
        s = soft(v - fit - y / penalty, 1 / penalty)
        h = fit + s - v
        y = y + penalty * h
        penalty *= PENALTY_GROWTH
        if math.sqrt(h @ h) < tol:
            break
    return w, s, y, iterations


def _pseudo_inverse(U: FloatArray) -> FloatArray:
    """(U'U)^-1 U', without the directions that the sensors that reported hardly see.

    A direction that lies almost wholly in the sensors that are missing would get a huge coefficient.
    """
    left, sigma, right = np.linalg.svd(U, full_matrices=False)
    large = sigma > FAINT
    inverse: FloatArray = (right[large].T / sigma[large]) @ left[:, large].T
    return inverse
