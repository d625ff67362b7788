"""What parts of a network take over from those before: the second moments of every pair of channels that met."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sensormend.arrays import Array, as_like, namespace
from sensormend.auto.wide.bisection import block_numbers, borders, districts

if TYPE_CHECKING:
    from sensormend.auto.wide.parts import Parts

__all__ = ["homes", "inherited", "positive"]

LEAST = 1e-24
"""Variance below which a channel does not vary."""

FLOOR = 2e-3
"""What is added to the diagonal of correlations that were made positive, besides the mean of what was taken out: what
is negative came from correlations that contradict each other, and as much of the rest did. Predictions from them are
as good as with eigenvalues cut off at 0.001; with 0.005 they are up to 7 % worse, and with all correlations shrunk
until they fit, up to a third."""

SIGN = (
    (8.42563, -24.52129, 17.84338),
    (4.20759, -3.06228, 0.55747),
    (4.18399, -3.04635, 0.55571),
    (4.08801, -2.98129, 0.54853),
    (3.73846, -2.74073, 0.52204),
    (2.86848, -2.10730, 0.45301),
    (2.02556, -1.39326, 0.37906),
    (1.86174, -1.22245, 0.36073),
)
"""Factors of x, x^3 and x^5. Each polynomial is the one nearest to 1 where the one before, which began with 0.0001
... 1, may have arrived."""

ROUNDS = 2
"""How often what is negative is taken out; in between, pairs that met have their correlation put back, and those known
by their likeness alone stay a little weaker. Predictions get better by 4 to 12 % where they are hard, and worse by 1 to
4 % where all channels are nearly the same (pressure); a third round gains at most 2 % and loses 6."""


def homes(parts: Parts, channels: int) -> tuple[Array, Array]:
    """Return in which part each channel is judged, -1 where in none, and which member it is there."""
    xp = namespace(parts.members)
    pieces, width = parts.members.shape
    column = xp.arange(width, device=parts.members.device)
    # The last place is for what is not judged.
    where = xp.where(column < parts.core[:, None], parts.members, channels)
    home = xp.full(channels + 1, -1, dtype=xp.int64, device=parts.members.device)
    place = xp.zeros_like(home)
    home[where] = xp.broadcast_to(xp.arange(pieces, device=where.device)[:, None], where.shape)
    place[where] = xp.broadcast_to(column, where.shape)
    return home[:channels], place[:channels]


def inherited(new: Parts, order: Array, old: Parts, profiles: Array, known: Array) -> Array:
    """Return the moments of new parts, (part, member, member).

    Most of a new part's own channels come from one old part; what that one knew is taken over as it is. Other pairs
    have the correlation that the old parts found in which one or the other is judged, and those who never met the
    likeness of their profiles.

    Parameters
    ----------
    order
        The channels, new part after new part.
    """
    xp = namespace(profiles)
    channels = profiles.shape[0]
    pieces, width = new.members.shape
    marks, edges = districts(pieces), borders(channels, pieces)
    crowd = int(np.diff(edges[marks]).max())
    home, place = homes(old, channels)
    rank = xp.zeros(channels, dtype=xp.int64, device=order.device)
    rank[order] = xp.arange(channels, device=order.device)
    column = xp.arange(old.members.shape[1], device=order.device)
    ranks = xp.where(column < old.size[:, None], rank[old.members], -1)
    estate = _Estate(old, home, place, ranks, xp.sqrt(xp.clip(xp.linalg.diagonal(old.moments), LEAST, None)))
    start = np.repeat(edges[marks[:-1]], np.diff(marks))
    found = xp.zeros((pieces, width, width), dtype=old.moments.dtype, device=order.device)
    high = max(1, block_numbers(profiles) // (16 * width * old.members.shape[1]))
    for begin in range(0, pieces, high):
        block = slice(begin, begin + high)
        members = new.members[block]
        real = xp.arange(width, device=order.device) < new.size[block, None]
        first = as_like(start[block, None], order)
        seats = _seats(rank[members] - first, real, crowd)
        likeness = profiles[members]
        likeness = likeness / xp.clip(xp.sqrt(xp.sum(likeness**2, axis=2, keepdims=True)), 1e-30, None)
        likeness = likeness @ xp.matrix_transpose(likeness)
        found[block] = estate.shared(members, new.core[block], seats, first, likeness, real & known[members])
    return found


def _seats(places: Array, real: Array, crowd: int) -> Array:
    """Return which member of a part each channel of its district is, (part, channel of the district).

    It is the number of members where it is none, as in the last column, which stands for other districts.
    """
    xp = namespace(places)
    pieces, width = places.shape
    seats = xp.full((pieces, crowd + 1), width, dtype=xp.int64, device=places.device)
    row = xp.arange(pieces, device=places.device)[:, None]
    seats[row, xp.where(real, places, crowd)] = xp.broadcast_to(xp.arange(width, device=places.device), places.shape)
    seats[:, crowd] = width
    return seats


class _Estate:
    """What is left by the old parts: their moments, where each channel was at home, and their members' spread."""

    def __init__(self, old: Parts, home: Array, place: Array, ranks: Array, spread: Array) -> None:
        self._old, self._home, self._place, self._ranks, self._spread = old, home, place, ranks, spread

    def shared(self, members: Array, core: Array, seats: Array, first: Array, likeness: Array, known: Array) -> Array:
        """Return the moments of some new parts."""
        xp = namespace(members)
        width = members.shape[1]
        home, place = self._home[members], self._place[members]
        met = self._met(home, place, seats, first)
        other = xp.matrix_transpose(met)
        here, there = ~xp.isnan(met), ~xp.isnan(other)
        both = xp.where(here, met, 0.0) + xp.where(there, other, 0.0)
        count = xp.astype(here, xp.int8) + xp.astype(there, xp.int8)
        correlation = xp.where(count > 0, both / xp.clip(count, 1, None), likeness)
        whole, stayed, inside = self._from_one(_most(home, core), seats, first, width)
        diagonal = xp.linalg.diagonal(whole)
        own = xp.where(home >= 0, self._spread[xp.clip(home, 0, None), place], LEAST**0.5)
        spread = xp.where(inside, xp.sqrt(xp.clip(diagonal, LEAST, None)), own)
        bound = spread[:, :, None] * spread[:, None, :]
        moments = xp.where(stayed, whole, correlation * bound)
        moments = xp.minimum(xp.maximum(moments, -bound), bound)
        moments = xp.where(known[:, :, None] & known[:, None, :], moments, 0.0)
        _diagonal(moments)[:] = _diagonal(bound)
        kept = xp.all(xp.all(stayed | ~known[:, :, None] | ~known[:, None, :], axis=2), axis=1)
        correlation = moments / bound
        sound = positive(correlation)
        for _ in range(1, ROUNDS):
            sound = positive(xp.where((count > 0) | stayed, correlation, sound))
        moments = xp.where(kept[:, None, None], moments, sound * bound)
        variance = xp.where(inside, diagonal, own**2)
        _diagonal(moments)[:] = xp.where(known, xp.clip(variance, LEAST, None), 0.0)
        return moments

    def _met(self, home: Array, place: Array, seats: Array, first: Array) -> Array:
        """Return the correlation of each member with the others as found where it is at home; NaN where it was not."""
        xp = namespace(home)
        pieces, width = home.shape
        host = xp.clip(home, 0, None)
        away = self._ranks[host] - first[:, :, None]
        away = xp.where((away >= 0) & (away < seats.shape[1]) & (home >= 0)[:, :, None], away, seats.shape[1] - 1)
        row = xp.arange(pieces, device=home.device)[:, None, None]
        seat = seats[row, away]
        spread = self._spread[host]
        mine = xp.take_along_axis(spread, place[:, :, None], axis=2)
        correlation = self._old.moments[host, place] / (spread * mine)
        met = xp.full((pieces, width, width + 1), xp.nan, dtype=correlation.dtype, device=home.device)
        met[row, xp.arange(width, device=home.device)[:, None], seat] = correlation
        return met[:, :, :width]

    def _from_one(self, host: Array, seats: Array, first: Array, width: int) -> tuple[Array, Array, Array]:
        """Return the moments of those pairs that one old part has, which pairs these are, and whom it has."""
        xp = namespace(host)
        away = self._ranks[host] - first
        away = xp.where((away >= 0) & (away < seats.shape[1]), away, seats.shape[1] - 1)
        row = xp.arange(host.shape[0], device=host.device)[:, None]
        column = xp.arange(away.shape[1], device=host.device)
        place = xp.full((host.shape[0], width + 1), -1, dtype=xp.int64, device=host.device)
        place[row, seats[row, away]] = xp.broadcast_to(column, away.shape)
        place = place[:, :width]
        inside = place >= 0
        place = xp.clip(place, 0, None)
        whole = self._old.moments[host[:, None, None], place[:, :, None], place[:, None, :]]
        return whole, inside[:, :, None] & inside[:, None, :], inside


def _most(home: Array, core: Array) -> Array:
    """Return where most of the channels that each part judges were at home; of equals the first."""
    xp = namespace(home)
    judged = (xp.arange(home.shape[1], device=home.device) < core[:, None]) & (home >= 0)
    alike = (home[:, :, None] == home[:, None, :]) & judged[:, :, None] & judged[:, None, :]
    most = xp.argmax(xp.sum(xp.astype(alike, xp.int32), axis=2), axis=1)
    return xp.clip(xp.take_along_axis(home, most[:, None], axis=1)[:, 0], 0, None)


def positive(correlation: Array) -> Array:
    """Return correlation matrices, (matrix, row, column), without what is negative in them, and with some to spare.

    The positive part of R is (R + R sign R) / 2, and the sign of a matrix needs nothing but products: a polynomial of
    polynomials that is 1 above, and -1 below, a ten-thousandth of the largest row's sum. What lies between is smaller
    than the floor. That is half the price of eigenvalues on a processor, and little on a GPU.
    """
    xp = namespace(correlation)
    largest = xp.max(xp.sum(xp.abs(correlation), axis=2), axis=1)
    sign = correlation / largest[:, None, None]
    for first, third, fifth in SIGN:
        square = sign @ sign
        bent = square * fifth
        _diagonal(bent)[:] += third
        bent = square @ bent
        _diagonal(bent)[:] += first
        sign = bent @ sign
    half = correlation @ sign
    half = (half + xp.matrix_transpose(half)) / 4 + correlation / 2
    taken = xp.mean(_diagonal(half) - _diagonal(correlation), axis=1, keepdims=True)
    _diagonal(half)[:] += FLOOR + xp.clip(taken, 0.0, None)
    share = 1 / xp.sqrt(_diagonal(half))
    return half * share[:, :, None] * share[:, None, :]


def _diagonal(matrices: Array) -> Array:
    """Return the diagonals, (matrix, entry), to write to."""
    count, size, _ = matrices.shape
    return matrices.reshape(count, size * size)[:, :: size + 1]
