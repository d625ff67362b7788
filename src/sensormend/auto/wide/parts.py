"""The neighbourhoods of a large network as a few arrays: cut, cut anew, joined and left.

Nothing here goes through parts one by one, and all of it runs where its arrays live, in NumPy or in torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sensormend.arrays import Array, as_like, is_tensor, namespace
from sensormend.auto.memory import Hood
from sensormend.auto.neighbourhoods import CORE, HALO
from sensormend.auto.network import RANKS
from sensormend.auto.wide.bisection import bisected, block_numbers, borders
from sensormend.auto.wide.fences import outsiders
from sensormend.auto.wide.inheritance import inherited

__all__ = ["PATTERNS", "Parts", "cut", "joined", "kept", "of_hoods", "recut", "visits"]

PATTERNS = RANKS[-1]

HEIGHT = 128
"""Parts that are visited together: enough that calling numpy costs little, and few enough for the cache."""

HEIGHT_ON_DEVICE = 32_768
"""The same on a device: enough that starting its kernels costs little, and few enough for its memory."""

CROWDED = 1.5
"""How far a part may outgrow its size before the network is cut anew."""


@dataclass(eq=False)
class Parts:
    """Parts of a network side by side.

    Attributes
    ----------
    members
        Channel numbers, (part, member): those that a part judges first, then those it listens to, both in ascending
        order. Padding repeats the part's first member.
    core, size
        How many members it judges, and how many are more than padding, (part,).
    moments
        Second moments, (part, member, member), zero for padding.
    dictionary
        Patterns, (part, member, pattern), the strongest first; orthonormal, but for channels that came or went since
        they were learned. Zero for padding and where nothing was learned yet.
    """

    members: Array
    core: Array
    size: Array
    moments: Array
    dictionary: Array


def cut(profiles: Array, core: int = CORE, halo: int = HALO) -> Parts:
    """Cut channels with these profiles, (channel, feature), into parts that nothing is known of.

    A part judges at most `core` of them, and none more than one more than another. It listens to the `halo` channels
    of its district that are nearest to any of its own. A network that is no larger than both is one part.

    Examples
    --------
    >>> towns = np.array([[0.0], [3.0], [0.1], [3.1], [0.2], [3.3]], dtype=np.float32)
    >>> cut(towns, core=3, halo=1).members
    array([[0, 2, 4, 1],
           [1, 3, 5, 4]])
    """
    return _cut(_sound(profiles), core, halo)[0]


def recut(parts: Parts, profiles: Array, known: Array, core: int = CORE, halo: int = HALO) -> Parts:
    """Cut a network anew; the moments of channels that are `known`, (channel,), are taken over.

    Channels that are in no part yet may be among the profiles; they are not known.
    """
    profiles = _sound(profiles)
    new, order = _cut(profiles, core, halo)
    new.moments = inherited(new, order, parts, profiles, known)
    return new


def joined(parts: Parts, newcomers: Array, profiles: Array, core: int = CORE, halo: int = HALO) -> Parts:
    """Let channels, (newcomer,) numbers in ascending order, be judged by the parts that are most like them.

    `profiles` has all channels, old and new. A part takes newcomers up to half more than `core`; when one would have
    to take more, the network is cut anew.
    """
    xp = namespace(profiles)
    profiles = _sound(profiles)
    chosen = _alike(parts, newcomers, profiles)
    pieces, width = parts.members.shape
    turn = xp.argsort(chosen, stable=True)
    chosen, newcomers = chosen[turn], newcomers[turn]
    begun = xp.searchsorted(chosen, xp.arange(pieces + 1, device=chosen.device))
    more = begun[1:] - begun[:-1]
    if bool(xp.any((parts.core + more > CROWDED * core) & (more > 0))):
        known = xp.ones(profiles.shape[0], dtype=xp.bool, device=profiles.device)
        known[newcomers] = False
        return recut(parts, profiles, known, core, halo)
    size = parts.size + more
    column = xp.arange(max(width, int(xp.max(size))), device=chosen.device)
    old = column - xp.where(column >= (parts.core + more)[:, None], more[:, None], 0)
    fresh = (column >= parts.core[:, None]) & (column < (parts.core + more)[:, None])
    taken = xp.where(fresh | (column >= size[:, None]), -1, old)
    everyone = xp.arange(pieces, device=chosen.device)
    members, moments, dictionary = _rearranged(parts, everyone, taken)
    seat = parts.core[chosen] + xp.arange(chosen.shape[0], device=chosen.device) - begun[chosen]
    members[chosen, seat] = newcomers
    return Parts(members, parts.core + more, size, moments, dictionary)


def kept(parts: Parts, kept_channels: Array) -> Parts:
    """Forget channels for good, all but `kept_channels`, (channel,) of bool; those behind them move up.

    A part that has nobody left to judge is gone, too.
    """
    xp = namespace(parts.members)
    column = xp.arange(parts.members.shape[1], device=parts.members.device)
    stays = kept_channels[parts.members] & (column < parts.size[:, None])
    core = xp.sum(xp.astype(stays & (column < parts.core[:, None]), xp.int64), axis=1)
    size = xp.sum(xp.astype(stays, xp.int64), axis=1)
    alive = xp.nonzero(core > 0)[0]
    core, size = core[alive], size[alive]
    width = int(xp.max(size)) if alive.shape[0] else 0
    turn = xp.argsort(xp.astype(~stays[alive], xp.int8), axis=1, stable=True)[:, :width]
    members, moments, dictionary = _rearranged(parts, alive, xp.where(column[:width] < size[:, None], turn, -1))
    number = xp.cumulative_sum(xp.astype(kept_channels, xp.int64)) - 1
    return Parts(number[members], core, size, moments, dictionary)


def of_hoods(hoods: Sequence[Hood]) -> Parts:
    """Return the neighbourhoods of a small network as parts, in NumPy."""
    width = max(hood.members.size for hood in hoods)
    pieces = len(hoods)
    parts = Parts(
        np.zeros((pieces, width), dtype=np.int64),
        np.array([hood.core for hood in hoods], dtype=np.int64),
        np.array([hood.members.size for hood in hoods], dtype=np.int64),
        np.zeros((pieces, width, width), dtype=np.float32),
        np.zeros((pieces, width, PATTERNS), dtype=np.float32),
    )
    for index, hood in enumerate(hoods):
        size, columns = hood.members.size, hood.dictionary.shape[1]
        parts.members[index] = hood.members[0]
        parts.members[index, :size] = hood.members
        parts.moments[index, :size, :size] = hood.moments
        # A hood has its strongest pattern last.
        parts.dictionary[index, :size, :columns] = hood.dictionary[:, ::-1]
    return parts


def visits(parts: Parts) -> Iterator[slice]:
    """Yield the parts that are visited together, one stretch after the other."""
    height, count = HEIGHT_ON_DEVICE if is_tensor(parts.moments) else HEIGHT, parts.members.shape[0]
    for first in range(0, count, height):
        yield slice(first, min(first + height, count))


def _sound(profiles: Array) -> Array:
    xp = namespace(profiles)
    return xp.where(xp.isfinite(profiles), profiles, 0.0)


def _cut(profiles: Array, core: int, halo: int) -> tuple[Parts, Array]:
    """Return new parts, and the channels part after part."""
    xp = namespace(profiles)
    channels = profiles.shape[0]
    alone = channels <= core + halo
    pieces = 1 if alone else -(-channels // core)
    edges = borders(channels, pieces)
    size = edges[1:] - edges[:-1]
    column = np.arange(size.max())
    place = np.where(column < size[:, None], column, 0) + edges[:-1, None]
    order = bisected(profiles, pieces)
    own = order[as_like(place, order)]
    cores = as_like(size, order)
    if alone:
        members, sizes = own, xp.asarray(cores, copy=True)
    else:
        members, sizes = _beside(own, cores, outsiders(profiles, order, own, halo))
    width = members.shape[1]
    moments = xp.zeros((pieces, width, width), dtype=xp.float32, device=profiles.device)
    dictionary = xp.zeros((pieces, width, PATTERNS), dtype=xp.float32, device=profiles.device)
    return Parts(members, cores, sizes, moments, dictionary), order


def _beside(own: Array, core: Array, halo: Array) -> tuple[Array, Array]:
    """Return members, those of the halo right behind the part's own, and how many they are."""
    xp = namespace(own)
    first = own[:, :1]
    beyond = xp.sum(xp.astype(halo != first, xp.int64), axis=1)
    column = xp.arange(own.shape[1] + halo.shape[1], device=own.device)
    whole = xp.concat([own, halo], axis=1)
    here = column < core[:, None]
    there = (column < (core + beyond)[:, None]) & ~here
    taken = xp.where(here, column, xp.where(there, column - core[:, None] + own.shape[1], 0))
    return xp.take_along_axis(whole, taken, axis=1), core + beyond


def _alike(parts: Parts, newcomers: Array, profiles: Array) -> Array:
    """Return for every newcomer the part whose own channels are, in the middle, most like it."""
    xp = namespace(profiles)
    width = int(xp.max(parts.core))
    mine = xp.arange(width, device=profiles.device) < parts.core[:, None]
    weight = xp.astype(mine, profiles.dtype) / xp.astype(parts.core, profiles.dtype)[:, None]
    middle = xp.zeros((parts.core.shape[0], profiles.shape[1]), dtype=profiles.dtype, device=profiles.device)
    high = max(1, block_numbers(profiles) // (width * profiles.shape[1]))
    for begin in range(0, middle.shape[0], high):
        block = slice(begin, begin + high)
        middle[block] = (weight[block, None, :] @ profiles[parts.members[block, :width]])[:, 0, :]
    far = xp.sum(middle * middle, axis=1)
    chosen = xp.zeros(newcomers.shape[0], dtype=xp.int64, device=profiles.device)
    high = max(1, block_numbers(profiles) // middle.shape[0])
    for begin in range(0, newcomers.shape[0], high):
        block = slice(begin, begin + high)
        apart = far - 2 * (profiles[newcomers[block]] @ xp.matrix_transpose(middle))
        chosen[block] = xp.argmin(apart, axis=1)
    return chosen


def _rearranged(parts: Parts, which: Array, taken: Array) -> tuple[Array, Array, Array]:
    """Return members, moments and dictionary of some parts with these members, (part, place); -1 is none."""
    xp = namespace(taken)
    pieces, width = taken.shape
    there = xp.astype(taken >= 0, parts.moments.dtype)
    place = xp.clip(taken, 0, None)
    # Padding repeats the first that is left.
    members = parts.members[which[:, None], xp.where(taken >= 0, taken, place[:, :1])]
    dictionary = parts.dictionary[which[:, None], place] * there[:, :, None]
    moments = xp.zeros((pieces, width, width), dtype=parts.moments.dtype, device=taken.device)
    high = max(1, block_numbers(moments) // max(1, 4 * width * width))
    for begin in range(0, pieces, high):
        block = slice(begin, begin + high)
        rows, columns = place[block, :, None], place[block, None, :]
        both = there[block, :, None] * there[block, None, :]
        moments[block] = parts.moments[which[block, None, None], rows, columns] * both
    return members, moments, dictionary
