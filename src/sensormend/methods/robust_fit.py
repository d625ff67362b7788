"""The module splits a column into L r + e, r under a ridge and e under an l1 norm, as several methods need."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import lapack

from sensormend.recovery import FloatArray

__all__ = ["alternating_fit", "robust_fit", "soft", "solve_positive"]

Settled = Callable[[FloatArray, FloatArray], bool]
FULL_STEP = 1e-9
"""A step this close to a full one is one, but for rounding."""


def soft(values: FloatArray, limit: float) -> FloatArray:
    """Shrink every value towards 0 by `limit`.

    Examples
    --------
    >>> soft(np.array([-3.0, 0.5, 2.0]), 1.0)
    array([-2.,  0.,  1.])
    """
    return values - _clipped(values, limit)


def alternating_fit(
    z: FloatArray, L: FloatArray, weight: float, limit: float, *, settled: Settled, max_iter: int
) -> tuple[FloatArray, FloatArray, int]:
    """Go towards the same minimum as `robust_fit` as the papers do: r for a given e, e for a given r, by turns.

    Where a paper stops early, that is a part of what its method yields. `settled` is called with the step and the
    value before it, for r and for e, and says whether both are small enough.
    """
    P = solve_positive(L.T @ L + weight * np.eye(L.shape[1]), L.T)
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

    `alternating_fit` needs thousands of turns to get there when the weight is small. With e put in, what is left is a
    Huber regression with a ridge: convex, and quadratic between kinks. Newton steps with an exact line search reach
    the same point in a handful of iterations.
    """
    r = np.zeros(L.shape[1])
    d = np.array(z)
    ridge = weight * np.eye(L.shape[1])
    iterations = 0
    while iterations < max_iter:
        iterations += 1
        inner = np.abs(d) <= limit
        inner_rows = L[inner]
        gradient = weight * r - L.T @ _clipped(d, limit)
        step = solve_positive(inner_rows.T @ inner_rows + ridge, -gradient)
        length = _line_search(d, -(L @ step), float(gradient @ step), weight * float(step @ step), limit)
        r = r + length * step
        d = z - L @ r
        # A full step that crosses no kink ends at the minimum.
        arrived = length == 1.0 and bool(np.array_equal(np.abs(d) <= limit, inner))
        if arrived or length * length * (step @ step) <= tol * tol:
            break
    return r, soft(d, limit), iterations


def _line_search(d: FloatArray, along: FloatArray, slope: float, curvature: float, limit: float) -> float:
    """Return how far to go: where the slope, which starts at `slope` and is linear between kinks, is 0.

    The residual goes from d along `along`. The curvature is that of the ridge, and that of every entry while its
    residual is within the limit.
    """
    moving = along != 0
    d, along = d[moving], along[moving]
    bends = along * along
    enters = np.where(along > 0, -limit - d, limit - d) / along
    leaves = enters + 2 * limit / np.abs(along)
    times, change = np.concatenate((enters, leaves)), np.concatenate((bends, -bends))
    order = np.argsort(times)
    times, change = times[order], change[order]
    is_later = times > 0
    first_curvature = curvature + max(float(change[~is_later].sum()), 0.0)
    times, change = times[is_later], change[is_later]
    curvatures = np.maximum(np.concatenate(([first_curvature], first_curvature + np.cumsum(change))), curvature)
    spans = times.copy()
    spans[1:] -= times[:-1]
    slopes = slope + np.cumsum(curvatures[:-1] * spans)
    piece = int(np.searchsorted(slopes, 0.0))
    start, start_slope = (float(times[piece - 1]), float(slopes[piece - 1])) if piece else (0.0, slope)
    length = start - start_slope / float(curvatures[piece]) if curvatures[piece] > 0 else start
    return 1.0 if abs(length - 1.0) < FULL_STEP else length


def solve_positive(A: FloatArray, b: FloatArray) -> FloatArray:
    """Solve A x = b for a positive definite A; the smallest of the best x where rounding has made A singular."""
    _, x, info = lapack.dposv(A, b)
    return np.asarray(x if info == 0 else np.linalg.lstsq(A, b)[0])


def _clipped(values: FloatArray, limit: float) -> FloatArray:
    clipped: FloatArray = np.minimum(np.maximum(values, -limit), limit)
    return clipped
