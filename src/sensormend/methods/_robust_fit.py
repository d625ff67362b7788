"""A column split into L r + e, r under a ridge and e under an l1 norm: the inner problem of several methods."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import lapack

from sensormend.recovery import FloatArray

__all__ = ["Settled", "robust_fit", "soft", "take_turns"]

Settled = Callable[[FloatArray, FloatArray], bool]


def soft(values: FloatArray, limit: float) -> FloatArray:
    """Shrink every value towards 0 by `limit`.

    Examples
    --------
    >>> soft(np.array([-3.0, 0.5, 2.0]), 1.0)
    array([-2.,  0.,  1.])
    """
    return values - _clipped(values, limit)


def take_turns(
    z: FloatArray, L: FloatArray, weight: float, limit: float, *, settled: Settled, max_iter: int
) -> tuple[FloatArray, FloatArray, int]:
    """Go towards the same minimum as `robust_fit` as the papers do: r for a given e, e for a given r, by turns.

    Where a paper stops early, that is a part of what its method yields. `settled` is told the step and what was there
    before it, for r and for e, and says whether both are small enough.
    """
    P = lapack.dposv(L.T @ L + weight * np.eye(L.shape[1]), L.T)[1]
    r, e = np.zeros(L.shape[1]), np.zeros(z.size)
    iterations = 0
    while iterations < max_iter:
        iterations += 1
        r_before, e_before = r, e
        r = P @ (z - e)
        e = soft(z - L @ r, limit)
        if settled(r - r_before, r_before) and settled(e - e_before, e_before):
            break
    return r, e, iterations


def robust_fit(
    z: FloatArray, L: FloatArray, weight: float, limit: float, *, tol: float, max_iter: int
) -> tuple[FloatArray, FloatArray, int]:
    """Minimise |z - L r - e|^2 / 2 + weight |r|^2 / 2 + limit |e|_1; r, e and the number of iterations.

    `take_turns` needs thousands of turns to get there when the weight is small. With e put in, what is left is a Huber
    regression with a ridge: convex, and quadratic between kinks. Newton steps with an exact line search reach the same
    point in a handful of iterations.
    """
    r = np.zeros(L.shape[1])
    d = np.array(z)
    ridge = weight * np.eye(L.shape[1])
    iterations = 0
    while iterations < max_iter:
        iterations += 1
        inner = L[np.abs(d) <= limit]
        gradient = weight * r - L.T @ _clipped(d, limit)
        step = lapack.dposv(inner.T @ inner + ridge, -gradient)[1]
        along = -(L @ step)
        length = _line_search(d, along, r, step, weight, limit)
        r = r + length * step
        d = z - L @ r
        if length * length * (step @ step) <= tol * tol:
            break
    return r, soft(d, limit), iterations


def _line_search(
    d: FloatArray, along: FloatArray, r: FloatArray, step: FloatArray, weight: float, limit: float
) -> float:
    """Return how far to go along `step`: where the slope, piecewise linear between kinks, is 0."""

    def slope(length: float) -> float:
        return float(_clipped(d + length * along, limit) @ along + weight * ((r + length * step) @ step))

    moving = along != 0
    kinks = np.concatenate([(sign * limit - d[moving]) / along[moving] for sign in (-1.0, 1.0)])
    kinks = np.sort(kinks[kinks > 0])
    low, high = 0, kinks.size
    while low < high:
        middle = (low + high) // 2
        if slope(kinks[middle]) < 0:
            low = middle + 1
        else:
            high = middle
    left = float(kinks[low - 1]) if low else 0.0
    right = float(kinks[low]) if low < kinks.size else left + 1.0
    at_left, at_right = slope(left), slope(right)
    # Without curvature left there is nothing to gain by going on.
    return left - at_left * (right - left) / (at_right - at_left) if at_right > at_left else left


def _clipped(values: FloatArray, limit: float) -> FloatArray:
    clipped: FloatArray = np.minimum(np.maximum(values, -limit), limit)
    return clipped
