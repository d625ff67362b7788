"""What the trusted readings of a neighbourhood say about each of its members.

Everything here is the Gaussian conditional mean, written so that one matrix inverse serves a whole period:
members without a trusted reading are left out of the inverse, and the few readings that are missing from the
others are solved for slot by slot. Neighbourhoods come in stacks, (neighbourhood, member, slot).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from sensormend.recovery import BoolArray, FloatArray

__all__ = ["Conditioned", "bridge", "condition"]

STEPS = (1, 2, 4, 8)
"""Gaps in a slot up to which slots are solved together, padded to the one with the most; from there on it doubles."""

FEW = 250
"""Slots with gaps under which only the last of these steps is worth a round of its own."""


@dataclass(eq=False)
class Conditioned:
    """The members of neighbourhoods given their trusted readings; arrays are (neighbourhood, member, slot).

    Attributes
    ----------
    expected
        What the others say: leave-one-out at a trusted reading, the conditional mean elsewhere.
    completed
        The trusted reading where there is one, `expected` elsewhere.
    pull
        How strongly the precision matrix pulls at each reading, `precision @ completed`.
    precision
        Inverse covariance of the members that were present; zero rows and columns for the others.
    sharpness
        The inverse of the variance of `expected`, (neighbourhood, slot, member), for the members that were present.
    """

    expected: FloatArray
    completed: FloatArray
    pull: FloatArray
    precision: FloatArray
    sharpness: FloatArray
    covariance: FloatArray
    gaps: tuple[_Gaps, ...]
    absent: _Absent | None

    def variance(self) -> FloatArray:
        """Return the variance of `expected`, by the model."""
        found: FloatArray = np.ascontiguousarray(1 / self.sharpness.transpose(0, 2, 1))
        if self.absent:
            self.absent.write(found, self.absent.variance(self.covariance, self.gaps, self.sharpness.shape[1]))
        return found

    def uncertainty(self) -> FloatArray:
        """Return the mean over the slots of the conditional covariance of `completed`, (..., member, member)."""
        stack, slots, members = self.sharpness.shape
        total = np.zeros(stack * members * members)
        for gaps in self.gaps:
            total += gaps.summed(members, total.size)
        total /= slots
        mean = total.reshape(stack, members, members)
        if self.absent:
            self.absent.open(self.covariance, mean)
        return mean


def bridge(expected: FloatArray, trusted: BoolArray) -> None:
    """Lead what is expected straight across slots in which nobody of a neighbourhood has a trusted reading.

    Without this everyone is expected at their usual values there, whatever the hours before and after are like.
    """
    bare: BoolArray = np.asarray(~trusted.any(axis=1))
    some = bare.any(axis=1)
    if not some.any():
        return
    for index in np.flatnonzero(some & ~bare.all(axis=1)).tolist():
        known, gap = np.flatnonzero(~bare[index]), np.flatnonzero(bare[index])
        after = np.searchsorted(known, gap)
        left, right = known[np.maximum(after - 1, 0)], known[np.minimum(after, known.size - 1)]
        weight = np.where(right > left, (gap - left) / np.maximum(right - left, 1), 0.0)
        course = expected[index]
        course[:, gap] = course[:, left] + weight * (course[:, right] - course[:, left])


def condition(
    covariance: FloatArray,
    deviation: FloatArray,
    trusted: BoolArray,
    real: BoolArray | None = None,
    precision: FloatArray | None = None,
) -> Conditioned:
    """Condition every cell on the trusted readings of the other members in the same slot.

    Nothing is said of members that are not `real`. The `precision` of an earlier look can be handed in where the
    same members were present.
    """
    slots = deviation.shape[2]
    present: BoolArray = np.asarray(trusted.any(axis=2))
    everyone = bool(present.all())
    W = _precision(covariance, present, everyone=everyone) if precision is None else precision
    own = _diagonal(W) if everyone else _diagonal(W) + ~present
    completed = deviation * trusted
    missing = ~trusted if everyone else present[:, :, None] & ~trusted
    sharpness = np.repeat(own[:, None, :], slots, axis=1)
    gaps = _find(W, missing)
    if gaps:
        pull = W @ completed
        for part in gaps:
            part.fill(completed, pull)
            part.blunt(sharpness)
    pull = W @ completed
    expected = np.empty(completed.shape)
    np.divide(pull, sharpness.transpose(0, 2, 1), out=expected)
    np.subtract(completed, expected, out=expected)
    absent = None
    if not everyone:
        away = ~present if real is None else real & ~present
        if away.any():
            absent = _Absent.of(covariance, W, present, away)
            found = absent.weights @ completed
            absent.write(completed, found)
            absent.write(expected, found)
    return Conditioned(expected, completed, pull, W, sharpness, covariance, gaps, absent)


def _diagonal(matrices: FloatArray) -> FloatArray:
    """Return the diagonals to write to, (matrix, entry)."""
    stack, members, _ = matrices.shape
    return matrices.reshape(stack, -1)[:, :: members + 1]


def _precision(covariance: FloatArray, present: BoolArray, *, everyone: bool) -> FloatArray:
    """Invert the covariance of those who are there; zero rows and columns for the others."""
    if everyone:
        return _inverse(covariance.copy(), covariance, present)
    # Rows and columns of their own for those who are not there: they take no part in the inverse.
    alone = covariance * (present[:, :, None] & present[:, None, :])
    diagonal = _diagonal(alone)
    diagonal += ~present
    W = _inverse(alone, covariance, present)
    diagonal = _diagonal(W)
    diagonal *= present
    return W


def _inverse(matrices: FloatArray, covariance: FloatArray, present: BoolArray) -> FloatArray:
    """Invert symmetric matrices that should be positive definite, in place.

    Where one is not, its nearest one that is is inverted instead.
    """
    broken = []
    for index, matrix in enumerate(matrices):
        factor, failed = lapack.dpotrf(matrix.T, lower=1, clean=0, overwrite_a=1)
        if not failed:
            _, failed = lapack.dpotri(factor, lower=1, overwrite_c=1)
        if failed:
            broken.append(index)
    members = matrices.shape[1]
    inverted = np.where(_lower(members), matrices.transpose(0, 2, 1), matrices)
    for index in broken:
        here = np.ix_(present[index], present[index])
        values, vectors = np.linalg.eigh(covariance[index][here])
        inverted[index] = np.eye(members)
        inverted[index][here] = (vectors / np.maximum(values, 1e-6 * values[-1] + 1e-300)) @ vectors.T
    return inverted


@lru_cache(maxsize=64)
def _lower(members: int) -> BoolArray:
    return np.tri(members, dtype=bool)


@dataclass(frozen=True, eq=False)
class _Gaps:
    """The gaps of some slots with about as many of them: whose they are, and what is not known of them.

    `pair` is (neighbourhood, slot) in one number, and `rows`, (pair, gap), are numbers over all members of the stack;
    `members` the same within the neighbourhood. They are padded to the slot with the most gaps, and `real` says which
    are not padding, None where all are. `reach` is how the members' precision reaches the gaps, (pair, gap, member),
    and `covariance` what the gaps have among each other, (pair, gap, gap), zero for padding.
    """

    pair: NDArray[np.intp]
    rows: NDArray[np.intp]
    members: NDArray[np.intp]
    real: BoolArray | None
    slots: int
    reach: FloatArray
    covariance: FloatArray

    @classmethod
    def of(
        cls, W: FloatArray, pair: NDArray[np.intp], rows: NDArray[np.intp], real: BoolArray | None, slots: int
    ) -> _Gaps:
        """Invert W_mm in every one of these slots."""
        width = W.shape[1]
        members = rows % width
        reach = W.reshape(-1, width)[rows]
        if rows.shape[1] == 1:
            own = W.reshape(-1)[rows * width + members]
            return cls(pair, rows, members, real, slots, reach, (1 / own)[:, :, None])
        blocks = W.reshape(-1)[(rows * width)[:, :, None] + members[:, None, :]]
        if real is None:
            covariance = np.asarray(np.linalg.inv(blocks), dtype=float)
        else:
            both = real[:, :, None] & real[:, None, :]
            blocks *= both
            diagonal = _diagonal(blocks)
            diagonal += ~real
            covariance = np.asarray(np.linalg.inv(blocks), dtype=float)
            covariance *= both
        return cls(pair, rows, members, real, slots, reach, covariance)

    def fill(self, values: FloatArray, pull: FloatArray) -> None:
        """Solve W_mm x_m = -W_mo x_o; `pull` is W x with the gaps left out."""
        cells = self.rows * self.slots + (self.pair % self.slots)[:, None]
        found = -(self.covariance @ pull.reshape(-1)[cells][:, :, None])[:, :, 0]
        self._write(values, cells, found)

    def blunt(self, sharpness: FloatArray) -> None:
        """Take from the members' sharpness, (..., slot, member), what they would know by the gaps."""
        width = sharpness.shape[2]
        through = self.covariance @ self.reach
        through *= self.reach
        flat = sharpness.reshape(-1, width)
        before = flat[self.pair]
        flat[self.pair] = np.maximum(before - through.sum(axis=1), 1e-9 * before)
        variance = self.covariance.diagonal(axis1=1, axis2=2)
        if self.real is not None:
            variance = variance + ~self.real
        self._write(sharpness, self.pair[:, None] * width + self.members, 1 / variance)

    def _write(self, into: FloatArray, cells: NDArray[np.intp], values: FloatArray) -> None:
        flat = into.reshape(-1)
        if self.real is None:
            flat[cells] = values
        else:
            flat[cells[self.real]] = values[self.real]

    def summed(self, width: int, size: int) -> FloatArray:
        """Return the sum over the slots of the gaps' covariance, among members and flat."""
        pairs = (self.rows * width)[:, :, None] + self.members[:, None, :]
        return np.asarray(np.bincount(pairs.ravel(), self.covariance.ravel(), size), dtype=float)

    def seen_by(self, weights: FloatArray) -> FloatArray:
        """Return the variance that the gaps bring into these combinations of the members, (pair, combination)."""
        _, count, width = weights.shape
        base = (self.pair // self.slots)[:, None] * count + np.arange(count)
        reach = weights.reshape(-1)[(base * width)[:, :, None] + self.members[:, None, :]]
        return np.asarray(((reach @ self.covariance) * reach).sum(axis=2))


def _find(W: FloatArray, missing: BoolArray) -> tuple[_Gaps, ...]:
    """Gather the gaps, slots with few of them apart from those with many."""
    stack, members, slots = missing.shape
    cells = np.flatnonzero(missing)
    if cells.size == 0:
        return ()
    row, slot = np.divmod(cells, slots)
    pair = row // members * slots + slot
    row = row[np.argsort(pair, kind="stable")]
    count = np.bincount(pair, minlength=stack * slots)
    first = np.cumsum(count) - count
    pairs = np.flatnonzero(count)
    many = count[pairs]
    most = int(many.max())
    steps = list(STEPS if pairs.size >= FEW else STEPS[-1:])
    while steps[-1] < most:
        steps.append(2 * steps[-1])
    found = []
    low = 0
    for step in steps:
        chosen = pairs[(many > low) & (many <= step)]
        low = step
        if chosen.size:
            length = count[chosen]
            width = np.arange(int(length.max()))
            real = width < length[:, None]
            # Padding repeats the last one.
            rows = row[first[chosen, None] + np.minimum(width, length[:, None] - 1)]
            found.append(_Gaps.of(W, chosen, rows, None if real.all() else real, slots))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class _Absent:
    """Members without any trusted reading: what they get from the others.

    `where` are their numbers over all members of the stack, and `place` where each is in the padded (neighbourhood,
    absent); `rows` are the members there. `across` is their covariance with those who are there, `weights` what they
    take from each.
    """

    where: NDArray[np.intp]
    place: NDArray[np.intp]
    rows: NDArray[np.intp]
    across: FloatArray
    weights: FloatArray

    @classmethod
    def of(cls, covariance: FloatArray, W: FloatArray, present: BoolArray, away: BoolArray) -> _Absent:
        """Look from these members at those who are there."""
        stack, members = away.shape
        where = np.flatnonzero(away)
        hood = where // members
        count = np.bincount(hood, minlength=stack)
        most = int(count.max())
        place = np.arange(where.size) + (most * np.arange(stack) - (np.cumsum(count) - count))[hood]
        rows = np.repeat(np.arange(stack) * members, most)
        rows[place] = where
        across = covariance.reshape(-1, members)[rows].reshape(stack, most, members)
        across *= present[:, None, :]
        return cls(where, place, rows.reshape(stack, most), across, across @ W)

    def write(self, into: FloatArray, values: FloatArray) -> None:
        """Write values, (neighbourhood, absent, ...), to the rows of those who are not there."""
        width = into.shape[2]
        into.reshape(-1, width)[self.where] = values.reshape(-1, width)[self.place]

    def remaining(self, covariance: FloatArray) -> FloatArray:
        """Return the covariance among them that those who are there leave open."""
        members = covariance.shape[1]
        among = covariance.reshape(-1)[(self.rows * members)[:, :, None] + (self.rows % members)[:, None, :]]
        return np.asarray(among - self.weights @ self.across.transpose(0, 2, 1))

    def variance(self, covariance: FloatArray, gaps: tuple[_Gaps, ...], slots: int) -> FloatArray:
        """Return what is left open of each of them in each slot."""
        left = np.maximum(_diagonal(self.remaining(covariance)), 0)
        found = np.repeat(left[:, :, None], slots, axis=2)
        for part in gaps:
            found[part.pair // slots, :, part.pair % slots] += part.seen_by(self.weights)
        return found

    def open(self, covariance: FloatArray, mean: FloatArray) -> None:
        """Add what is not known of them to the mean covariance of the gaps."""
        members, most = mean.shape[1], self.rows.shape[1]
        through = self.weights @ mean
        left = self.remaining(covariance) + through @ self.weights.transpose(0, 2, 1)
        self.write(mean, through)
        hood, row = np.divmod(self.where, members)
        mean[hood, :, row] = through.reshape(-1, members)[self.place]
        one, other = np.nonzero(hood[:, None] == hood)
        mean[hood[one], row[one], row[other]] = left.reshape(-1, most)[self.place[one], self.place[other] % most]
