"""What the trusted readings of a neighbourhood say about each of its members.

Everything here is the Gaussian conditional mean, written so that one matrix inverse serves a whole period:
members without a trusted reading are left out of the inverse, and the few readings that are missing from the
others are solved for slot by slot.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from sensormend.recovery import BoolArray, FloatArray

__all__ = ["Conditioned", "condition"]


@dataclass(frozen=True, eq=False)
class Conditioned:
    """The members of a neighbourhood given its trusted readings; arrays are (member, slot).

    Attributes
    ----------
    expected
        What the others say: leave-one-out at a trusted reading, the conditional mean elsewhere.
    variance
        The variance of that, by the model.
    completed
        The trusted reading where there is one, `expected` elsewhere.
    uncertainty
        The mean over the slots of the conditional covariance of `completed`.
    pull
        How strongly the precision matrix pulls at each reading, `precision @ completed`.
    precision
        Inverse covariance of the members that were present; zero rows and columns for the others.
    """

    expected: FloatArray
    variance: FloatArray
    completed: FloatArray
    uncertainty: FloatArray
    pull: FloatArray
    precision: FloatArray


def condition(covariance: FloatArray, deviation: FloatArray, trusted: BoolArray) -> Conditioned:
    """Condition every cell on the trusted readings of the other members in the same slot."""
    members, slots = deviation.shape
    present = trusted.any(axis=1)
    here, away = np.flatnonzero(present), np.flatnonzero(~present)
    completed = np.where(trusted, deviation, 0.0)
    expected = np.zeros((members, slots))
    variance = np.repeat(covariance.diagonal()[:, None], slots, axis=1)
    uncertainty = np.zeros((members, members))
    precision = np.zeros((members, members))
    pull = np.zeros((members, slots))
    if here.size == 0:
        return Conditioned(expected, variance, completed, covariance.copy(), pull, precision)

    W = _inverse(covariance[np.ix_(here, here)])
    values, missing = completed[here], ~trusted[here]
    sharpness = np.repeat(W.diagonal()[:, None], slots, axis=1)
    gaps = _Gaps.solve(W, values, missing) if missing.any() else None
    if gaps:
        values = gaps.values
        sharpness = np.maximum(sharpness - gaps.seen_by(W), 1e-9 * sharpness)
        uncertainty[np.ix_(here, here)] = gaps.mean
    tension = W @ values
    expected[here] = np.where(missing, values, values - tension / sharpness)
    variance[here] = np.where(missing, gaps.variance, 1 / sharpness) if gaps else 1 / sharpness
    completed[here] = values
    if away.size:
        across = covariance[np.ix_(away, here)]
        weights = across @ W
        completed[away] = expected[away] = weights @ values
        remaining = covariance[np.ix_(away, away)] - weights @ across.T
        variance[away] = np.maximum(remaining.diagonal(), 0)[:, None]
        if gaps:
            variance[away] += gaps.seen_by(weights)
            through = weights @ gaps.mean
            remaining = remaining + through @ weights.T
            uncertainty[np.ix_(away, here)] = through
            uncertainty[np.ix_(here, away)] = through.T
        uncertainty[np.ix_(away, away)] = remaining
    pull[here] = tension
    precision[np.ix_(here, here)] = W
    return Conditioned(expected, variance, completed, uncertainty, pull, precision)


def _inverse(covariance: FloatArray) -> FloatArray:
    """Invert a symmetric matrix that should be positive definite; where it is not, its nearest one that is."""
    factor, failed = lapack.dpotrf(covariance, lower=1)
    if not failed:
        inverted, failed = lapack.dpotri(factor, lower=1)
    if failed:
        values, vectors = np.linalg.eigh(covariance)
        return np.asarray((vectors / np.maximum(values, 1e-6 * values[-1] + 1e-300)) @ vectors.T)
    inverted = np.tril(inverted)
    return np.asarray(inverted + np.tril(inverted, -1).T)


@dataclass(frozen=True, eq=False)
class _Gaps:
    """The gaps of the members that are present: the values completed, and what is not known of them.

    `covariance` is (slot, gap, gap), padded to the slot with the most gaps; `rows` says whose gap each is and `real`
    which are not padding. `mean` is the covariance among members, averaged over the slots.
    """

    values: FloatArray
    variance: FloatArray
    mean: FloatArray
    covariance: FloatArray
    rows: NDArray[np.intp]
    real: BoolArray

    @classmethod
    def solve(cls, W: FloatArray, values: FloatArray, missing: BoolArray) -> _Gaps:
        """Solve W_mm x_m = -W_mo x_o in every slot at once."""
        members, slots = values.shape
        most = int(missing.sum(axis=0).max())
        rows = np.argsort(~missing, axis=0, kind="stable")[:most].T
        real = np.take_along_axis(missing, rows.T, axis=0).T
        both = real[:, :, None] & real[:, None, :]
        blocks = W[rows[:, :, None], rows[:, None, :]] * both
        diagonal = np.arange(most)
        blocks[:, diagonal, diagonal] += ~real
        covariance = np.asarray(np.linalg.inv(blocks) * both, dtype=float)
        pull = np.take_along_axis(W @ values, rows.T, axis=0).T
        found = -(covariance @ pull[:, :, None])[:, :, 0]
        slot, place = np.nonzero(real)
        row = rows[slot, place]
        filled, variance = values.copy(), np.zeros((members, slots))
        filled[row, slot] = found[slot, place]
        variance[row, slot] = covariance[slot, place, place]
        pairs = (rows[:, :, None] * members + rows[:, None, :]).ravel()
        total = np.asarray(np.bincount(pairs, weights=covariance.ravel(), minlength=members * members), dtype=float)
        return cls(filled, variance, total.reshape(members, members) / slots, covariance, rows, real)

    def seen_by(self, weights: FloatArray) -> FloatArray:
        """Return the variance that the gaps bring into these combinations of the members, (combination, slot)."""
        reach = weights[:, self.rows].transpose(1, 0, 2) * self.real[:, None, :]
        return np.asarray(((reach @ self.covariance) * reach).sum(axis=2).T)
