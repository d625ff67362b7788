"""GRASTA, Grassmannian robust adaptive subspace tracking."""

from __future__ import annotations

import math

import numpy as np

from sensormend.methods._robust_fit import soft
from sensormend.methods.columns import ColumnMethod, SolvedColumn
from sensormend.methods.settings import check_positive
from sensormend.recovery import FloatArray

__all__ = ["GRASTA"]

MIN_MU, MAX_MU = 1.0, 15.0
ITER_MIN, ITER_MAX = 5, 60
LEVELS = ((4, 1), (7, 2), (10, 4), (14, 8))
"""Up to which level how many times ITER_MIN iterations are enough: a subspace that stands still is looked at longer."""
STIFFENING = 1.8
STEEP = 0.1
LARGEST_TURN = math.pi / 3
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
    >>> result = GRASTA(rank=1, threshold=3, seed=0).recover(readings)
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

    def _begin_rows(self, rows: int) -> dict[str, FloatArray]:
        rank = min(self.rank, rows)
        U = np.linalg.qr(np.random.default_rng(self.seed).standard_normal((rows, rank)))[0]
        return {
            "U": U,
            "g": np.zeros(rows),
            "w": np.zeros(rank),
            "latest": np.zeros(rank),
            "mu": np.array(MIN_MU),
            "level": np.zeros(()),
            "scale": np.zeros(()),
        }

    def _next(self, column: FloatArray, known: dict[str, FloatArray]) -> SolvedColumn:
        there = np.flatnonzero(~np.isnan(column))
        U = known["U"]
        seen, v = U[there], column[there]
        w, s, y, iterations = _fit(seen, v, tol=self.tol, max_iter=_patience(float(known["level"])))
        known["latest"] = w
        outliers = np.zeros(column.size)
        outliers[there] = s
        if there.size > U.shape[1]:
            g = -(U @ (seen.T @ y))
            g[there] += y
            self._turn(known, g, w)
        return SolvedColumn(known["U"] @ w, outliers, iterations)

    def _unseen(self, column: FloatArray, known: dict[str, FloatArray]) -> SolvedColumn:
        return SolvedColumn(known["U"] @ known["latest"], np.zeros(column.size), 0)

    @staticmethod
    def _turn(known: dict[str, FloatArray], g: FloatArray, w: FloatArray) -> None:
        """Turn the subspace along the gradient g w', by a step that adapts to whether gradients agree."""
        size_g, size_w = math.sqrt(g @ g), math.sqrt(w @ w)
        steepness = size_g * size_w
        if not steepness > 0:
            return
        before = math.sqrt(known["g"] @ known["g"]) * math.sqrt(known["w"] @ known["w"])
        agreement = float((g @ known["g"]) * (w @ known["w"]) / (steepness * before)) if before else 0.0
        if not known["scale"]:
            known["scale"] = np.array(0.5 * math.pi * (1 + MIN_MU) / steepness)
        level = float(known["level"])
        mu = max(float(known["mu"]) + 2 / (1 + math.exp(agreement / STEEP)) - 1, MIN_MU)
        turn = min(float(known["scale"]) * 2.0**-level * steepness / (1 + mu), LARGEST_TURN)
        if mu <= MIN_MU:
            level, mu = (level - 1 if level > 1 else level), MIN_MU + 2
        elif mu > MAX_MU:
            level, mu = level + 1, (MAX_MU - 1) / 2
        a, b = w / size_w, g / size_g
        known["U"] += np.outer((math.cos(turn) - 1) * (known["U"] @ a) - math.sin(turn) * b, a)
        known["g"], known["w"] = g, w
        known["mu"], known["level"] = np.array(mu), np.array(level)


def _patience(level: float) -> int:
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
        penalty *= STIFFENING
        if math.sqrt(h @ h) < tol:
            break
    return w, s, y, iterations


def _pseudo_inverse(U: FloatArray) -> FloatArray:
    """(U'U)^-1 U', without the directions that the sensors that reported hardly see.

    A direction that lies almost wholly in the sensors that are missing would get a huge coefficient.
    """
    left, sigma, right = np.linalg.svd(U, full_matrices=False)
    kept = sigma > FAINT
    inverse: FloatArray = (right[kept].T / sigma[kept]) @ left[:, kept].T
    return inverse
