"""Prediction of every cell from the trusted others, one linear system per cell."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["conditional_covariance", "interpolated", "leave_one_out", "shrunk"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def shrunk(moments: Floats, shrinkage: float) -> Floats:
    """Return second moments with correlations shrunk towards 0."""
    covariance = (1 - shrinkage) * moments
    np.fill_diagonal(covariance, np.diag(moments) * (1 + 1e-6))
    return covariance


def leave_one_out(covariance: Floats, deviation: Floats, trusted: Bools) -> tuple[Floats, Floats]:
    """Regress each channel on the trusted others: its expected deviation, and the variance that this leaves.

    With S the covariance and T the trusted channels but j: x_j = S_jT S_TT^-1 d_T, v_j = S_jj - S_jT S_TT^-1 S_Tj.
    """
    n = len(deviation)
    expected, variance = np.zeros(n), np.zeros(n)
    for j in range(n):
        others = [i for i in range(n) if trusted[i] and i != j]
        weights = np.linalg.solve(covariance[np.ix_(others, others)], covariance[others, j])
        expected[j] = weights @ deviation[others]
        variance[j] = covariance[j, j] - weights @ covariance[others, j]
    return expected, variance


def conditional_covariance(covariance: Floats, trusted: Bools) -> Floats:
    """Return the covariance of the channels that are not trusted, given those that are; 0 for trusted ones."""
    T, U = np.flatnonzero(trusted), np.flatnonzero(~trusted)
    between = covariance[np.ix_(T, U)]
    full = np.zeros_like(covariance)
    full[np.ix_(U, U)] = covariance[np.ix_(U, U)] - between.T @ np.linalg.solve(covariance[np.ix_(T, T)], between)
    return full


def interpolated(expected: Floats, trusted: Bools) -> Floats:
    """Interpolate predictions, (channel, slot), over slots without trusted readings; constant at the ends."""
    slots = np.flatnonzero(trusted.any(axis=0))
    if slots.size == 0:
        return expected.copy()
    return np.stack([np.interp(np.arange(expected.shape[1]), slots, line[slots]) for line in expected])
