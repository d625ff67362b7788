"""Whom the parts of a large network listen to: the channels of their district that are nearest to any of their own.

Near is measured by how far a channel's closest relatives are from it, wherever these are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sensormend.arrays import Array, as_like, is_tensor, namespace
from sensormend.auto.judge import RELATIVES
from sensormend.auto.wide.bisection import block_numbers, borders, districts

__all__ = ["outsiders"]

Ints = NDArray[np.int64]

LEAST = 1e-6
"""Share of the mean distance below which channels are not told apart."""


def outsiders(profiles: Array, order: Array, own: Array, halo: int) -> Array:
    """Return for every part the `halo` nearest channels outside of it, (part, halo), in the order of their numbers.

    Where a district has fewer, the part's first channel fills the rest.

    Parameters
    ----------
    order
        The channels, part after part.
    own
        The channels of each part, (part, channel), padded with its first.
    """
    xp = namespace(profiles)
    pieces, widest = own.shape
    channels, features = profiles.shape
    marks, edges = districts(pieces), borders(channels, pieces)
    start, stop = edges[marks[:-1]], edges[marks[1:]]
    width, many = int((stop - start).max()), int(np.diff(marks).max())
    home = xp.zeros(channels, dtype=xp.int64, device=order.device)
    home[order] = as_like(np.repeat(np.arange(pieces), np.diff(edges)), order)
    found = xp.zeros((pieces, halo), dtype=xp.int64, device=order.device)
    room = block_numbers(profiles)
    high = max(1, room // (many * widest * width))
    across = min(many, max(1, room // (widest * width)))
    for begin in range(0, start.size, high):
        chosen = slice(begin, begin + high)
        crowd, real = _crowds(order, start[chosen], stop[chosen], width)
        middle = xp.mean(profiles[crowd], axis=1, keepdims=True)
        there = profiles[crowd] - middle
        far = xp.sum(there * there, axis=2)
        least = (LEAST * xp.mean(far, axis=1) + 1e-30)[:, None, None, None]
        # One product gives |x|^2 - 2 x y.
        there = xp.matrix_transpose(xp.concat([-2 * there, xp.ones_like(there[:, :, :1])], axis=2))
        lives = home[crowd]
        for first in range(0, many, across):
            wanted = marks[:-1][chosen, None] + np.arange(first, min(first + across, many))
            # A district with one part fewer has its last one looked at twice.
            parts = as_like(np.minimum(wanted, marks[1:][chosen, None] - 1), order)
            here = profiles[own[parts]].reshape(parts.shape[0], -1, features) - middle
            here = xp.concat([here, xp.sum(here * here, axis=2, keepdims=True)], axis=2)
            apart = (here @ there).reshape(*parts.shape, widest, width) + xp.where(real, far, xp.inf)[:, None, None, :]
            apart = xp.clip(apart, 0.0, None)
            # A channel far from the others of its part asks for its like as loudly as those who have theirs in it.
            reach = _smallest(apart.reshape(-1, width), min(RELATIVES + 1, width)).reshape(*parts.shape, widest, 1)
            apart = xp.min(apart / (xp.where(xp.isfinite(reach), reach, 1.0) + least), axis=2)
            apart[lives[:, None, :] == parts[:, :, None]] = xp.inf
            which = parts.reshape(-1)
            found[which] = _nearest(apart.reshape(which.shape[0], width), crowd, own[which, 0], halo)
    return found


def _crowds(order: Array, start: Ints, stop: Ints, width: int) -> tuple[Array, Array]:
    """Return the channels of some districts in the order of their numbers, and which of them are more than padding."""
    xp = namespace(order)
    starts, lengths = as_like(start[:, None], order), as_like((stop - start)[:, None], order)
    column = xp.arange(width, device=order.device)
    channels = order.shape[0]
    crowd = xp.where(column < lengths, order[starts + xp.minimum(column, lengths - 1)], channels)
    crowd = xp.sort(crowd, axis=1)
    return xp.clip(crowd, None, channels - 1), crowd < channels


def _nearest(apart: Array, crowd: Array, otherwise: Array, halo: int) -> Array:
    """Return whom each row of distances, (part, channel of its district), has nearest; the lower number of equals."""
    xp = namespace(apart)
    width = apart.shape[1]
    edge = _smallest(apart, min(halo, width))
    near, level = apart < edge, (apart == edge) & xp.isfinite(apart)
    count = xp.cumulative_sum(xp.astype(level, xp.int32), axis=1)
    near |= level & (count <= halo - xp.sum(near, axis=1, keepdims=True))
    row, column = xp.nonzero(near)
    counts = xp.sum(xp.astype(near, xp.int64), axis=1)
    rank = xp.arange(row.shape[0], device=row.device) - (xp.cumulative_sum(counts) - counts)[row]
    found = xp.tile(otherwise[:, None], (1, halo))
    found[row, rank] = crowd[row // (apart.shape[0] // crowd.shape[0]), column]
    return found


def _smallest(values: Array, count: int) -> Array:
    """Return the `count`-th smallest number of each row, as a column."""
    if is_tensor(values):
        return values.kthvalue(count, dim=1, keepdim=True).values
    return np.partition(values, count - 1, axis=1)[:, count - 1 : count]
