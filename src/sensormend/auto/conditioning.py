"""What the trusted readings of a neighbourhood say about each of its members.

Everything here is the Gaussian conditional mean, written so that one matrix inverse serves a whole period:
members without a trusted reading are left out of the inverse, and the few readings that are missing from the
others are solved for slot by slot. Neighbourhoods come in stacks, (neighbourhood, member, slot).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from sensormend.recovery import BoolArray, FloatArray

__all__ = ["Conditioned", "condition"]

STEPS = (2, 8)
"""Gaps in a slot up to which slots are solved together, padded to the one with the most; from there on it doubles."""

FEW = 64
"""Slots with gaps under which the first of these steps is not worth a round of its own."""


@dataclass(frozen=True, eq=False)
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
        The inverse of the variance of `expected` at a trusted reading.
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
        found = 1 / self.sharpness
        for gaps in self.gaps:
            gaps.write(found, gaps.covariance.diagonal(axis1=1, axis2=2))
        if self.absent:
            self.absent.write(found, self.absent.variance(self.covariance, self.gaps, found.shape[2]))
        return found

    def uncertainty(self) -> FloatArray:
        """Return the mean over the slots of the conditional covariance of `completed`, (..., member, member)."""
        stack, members, slots = self.expected.shape
        total = np.zeros(stack * members * members)
        for gaps in self.gaps:
            total += gaps.summed(members, total.size)
        mean = (total / slots).reshape(stack, members, members)
        return self.absent.open(self.covariance, mean) if self.absent else mean


def condition(
    covariance: FloatArray, deviation: FloatArray, trusted: BoolArray, real: BoolArray | None = None
) -> Conditioned:
    """Condition every cell on the trusted readings of the other members in the same slot.

    Nothing is said of members that are not `real`.
    """
    present: BoolArray = np.asarray(trusted.any(axis=2))
    everyone = bool(present.all())
    if everyone:
        W = _inverse(covariance.copy(), covariance, present)
        own = W.diagonal(axis1=1, axis2=2)
    else:
        # Rows and columns of their own for those who are not there: they take no part in the inverse.
        W = covariance * (present[:, :, None] & present[:, None, :])
        diagonal = _diagonal(W)
        diagonal += ~present
        W = _inverse(W, covariance, present)
        diagonal = _diagonal(W)
        diagonal *= present
        own = diagonal + ~present
    completed = deviation * trusted
    missing = ~trusted if everyone else present[:, :, None] & ~trusted
    gaps = _find(W, missing) if missing.any() else ()
    sharpness = np.repeat(own[:, :, None], deviation.shape[2], axis=2)
    if gaps:
        pull = W @ completed
        for part in gaps:
            part.fill(completed, pull)
            part.blunt(sharpness)
    pull = W @ completed
    expected = completed - pull / sharpness
    for part in gaps:
        part.copy(expected, completed)
    absent = None
    if not everyone:
        away = ~present if real is None else real & ~present
        if away.any():
            absent = _Absent.of(covariance, W, present, away)
            absent.write(completed, absent.weights @ completed)
            absent.copy(expected, completed)
    return Conditioned(expected, completed, pull, W, sharpness, covariance, gaps, absent)


def _diagonal(matrices: FloatArray) -> FloatArray:
    """Return the diagonals to write to, (matrix, entry)."""
    stack, members, _ = matrices.shape
    return matrices.reshape(stack, -1)[:, :: members + 1]


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
    inverted = np.where(np.tri(members, dtype=bool), matrices.transpose(0, 2, 1), matrices)
    for index in broken:
        here = np.ix_(present[index], present[index])
        values, vectors = np.linalg.eigh(covariance[index][here])
        inverted[index] = np.eye(members)
        inverted[index][here] = (vectors / np.maximum(values, 1e-6 * values[-1] + 1e-300)) @ vectors.T
    return inverted


@dataclass(frozen=True, eq=False)
class _Gaps:
    """The gaps of some slots with about as many of them: whose they are, and what is not known of them.

    `hood` and `slot` are (pair); `rows`, (pair, gap), is padded to the slot with the most gaps, and `real` says which
    are not padding. `reach` is how the members' precision reaches the gaps, (pair, gap, member), and `covariance`
    what the gaps have among each other, (pair, gap, gap).
    """

    hood: NDArray[np.intp]
    slot: NDArray[np.intp]
    rows: NDArray[np.intp]
    real: BoolArray
    reach: FloatArray
    covariance: FloatArray

    @classmethod
    def of(
        cls, W: FloatArray, hood: NDArray[np.intp], slot: NDArray[np.intp], rows: NDArray[np.intp], real: BoolArray
    ) -> _Gaps:
        """Invert W_mm in every one of these slots."""
        reach = W[hood[:, None], rows]
        if not real.all():
            reach *= real[:, :, None]
        blocks = np.take_along_axis(reach, rows[:, None, :], axis=2)
        most = rows.shape[1]
        if most == 1:
            return cls(hood, slot, rows, real, reach, 1 / blocks)
        if real.all():
            return cls(hood, slot, rows, real, reach, np.asarray(np.linalg.inv(blocks), dtype=float))
        blocks *= real[:, None, :]
        diagonal = _diagonal(blocks)
        diagonal += ~real
        covariance = np.asarray(np.linalg.inv(blocks), dtype=float)
        diagonal = _diagonal(covariance)
        diagonal *= real
        return cls(hood, slot, rows, real, reach, covariance)

    def fill(self, values: FloatArray, pull: FloatArray) -> None:
        """Solve W_mm x_m = -W_mo x_o; `pull` is W x with the gaps left out."""
        there = pull[self.hood[:, None], self.rows, self.slot[:, None]]
        self.write(values, -(self.covariance @ there[:, :, None])[:, :, 0])

    def blunt(self, sharpness: FloatArray) -> None:
        """Take from the members' sharpness what they would know by the gaps."""
        through = np.einsum("pgm,pgm->pm", self.covariance @ self.reach, self.reach)
        before = sharpness[self.hood, :, self.slot]
        sharpness[self.hood, :, self.slot] = np.maximum(before - through, 1e-9 * before)

    def write(self, into: FloatArray, values: FloatArray) -> None:
        """Write values, (pair, gap), to where the gaps are."""
        pair, place = np.nonzero(self.real)
        into[self.hood[pair], self.rows[pair, place], self.slot[pair]] = values[pair, place]

    def copy(self, into: FloatArray, source: FloatArray) -> None:
        """Copy what stands in the gaps."""
        pair, place = np.nonzero(self.real)
        here = self.hood[pair], self.rows[pair, place], self.slot[pair]
        into[here] = source[here]

    def summed(self, members: int, size: int) -> FloatArray:
        """Return the sum over the slots of the gaps' covariance, among members and flat."""
        base = self.hood[:, None] * members + self.rows
        pairs = base[:, :, None] * members + self.rows[:, None, :]
        return np.asarray(np.bincount(pairs.ravel(), self.covariance.ravel(), size), dtype=float)

    def seen_by(self, weights: FloatArray) -> FloatArray:
        """Return the variance that the gaps bring into these combinations of the members, (pair, combination)."""
        reach = np.take_along_axis(weights[self.hood], self.rows[:, None, :], axis=2)
        if not self.real.all():
            reach *= self.real[:, None, :]
        return np.asarray(np.einsum("pag,pag->pa", reach @ self.covariance, reach))


def _find(W: FloatArray, missing: BoolArray) -> tuple[_Gaps, ...]:
    """Gather the gaps, slots with few of them apart from those with many."""
    slots = missing.shape[2]
    hood, row, slot = np.nonzero(missing)
    pair = hood * slots + slot
    order = np.argsort(pair, kind="stable")
    row, pair = row[order], pair[order]
    count = np.bincount(pair, minlength=missing.shape[0] * slots)
    first = np.cumsum(count) - count
    pairs = np.flatnonzero(count)
    many = count[pairs]
    most = int(many.max())
    steps = [step for step in STEPS if pairs.size >= FEW or step > STEPS[0]]
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
            rows = row[np.minimum(first[chosen, None] + width, row.size - 1)]
            found.append(_Gaps.of(W, chosen // slots, chosen % slots, rows, real))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class _Absent:
    """Members without any trusted reading: what they get from the others.

    `hood`, `row` and `place` say for each of them where it is in the stack and where in `rows`, (neighbourhood,
    absent), which is padded. `across` is their covariance with those who are there, `weights` what they take from each.
    """

    hood: NDArray[np.intp]
    row: NDArray[np.intp]
    place: NDArray[np.intp]
    rows: NDArray[np.intp]
    across: FloatArray
    weights: FloatArray

    @classmethod
    def of(cls, covariance: FloatArray, W: FloatArray, present: BoolArray, away: BoolArray) -> _Absent:
        """Look from these members at those who are there."""
        hood, row = np.nonzero(away)
        count = away.sum(axis=1)
        place = np.arange(hood.size) - (np.cumsum(count) - count)[hood]
        rows = np.zeros((away.shape[0], int(count.max())), dtype=np.intp)
        rows[hood, place] = row
        across = np.take_along_axis(covariance, rows[:, :, None], axis=1) * present[:, None, :]
        return cls(hood, row, place, rows, across, across @ W)

    def write(self, into: FloatArray, values: FloatArray) -> None:
        """Write values, (neighbourhood, absent, ...), to the rows of those who are not there."""
        into[self.hood, self.row] = values[self.hood, self.place]

    def copy(self, into: FloatArray, source: FloatArray) -> None:
        """Copy what stands in their rows."""
        into[self.hood, self.row] = source[self.hood, self.row]

    def remaining(self, covariance: FloatArray) -> FloatArray:
        """Return the covariance among them that those who are there leave open."""
        among = np.take_along_axis(covariance, self.rows[:, :, None], axis=1)
        among = np.take_along_axis(among, self.rows[:, None, :], axis=2)
        return np.asarray(among - self.weights @ self.across.transpose(0, 2, 1))

    def variance(self, covariance: FloatArray, gaps: tuple[_Gaps, ...], slots: int) -> FloatArray:
        """Return what is left open of each of them in each slot."""
        left = np.maximum(self.remaining(covariance).diagonal(axis1=1, axis2=2), 0)
        found = np.repeat(left[:, :, None], slots, axis=2)
        for part in gaps:
            found[part.hood, :, part.slot] += part.seen_by(self.weights)
        return found

    def open(self, covariance: FloatArray, mean: FloatArray) -> FloatArray:
        """Add what is not known of them to the mean covariance of the gaps."""
        through = self.weights @ mean
        left = self.remaining(covariance) + through @ self.weights.transpose(0, 2, 1)
        self.write(mean, through)
        mean[self.hood, :, self.row] = through[self.hood, self.place]
        one, other = (self.hood[:, None] == self.hood).nonzero()
        mean[self.hood[one], self.row[one], self.row[other]] = left[self.hood[one], self.place[one], self.place[other]]
        return mean
