"""Partitions divide the channels of a network; second moments are transferred when they change.

A partition *owns* channels, which are judged and estimated in it, and may have a *halo*: channels that other
partitions own and that its own are predicted from. Every channel is owned once. Channels of different variables do
not predict each other, so a partition holds one variable. A variable of up to `WHOLE` channels is one partition; a
larger one is cut in halves across the principal direction of its channels' profiles until no partition owns more
than `OWNED`. Cost and memory per channel then do not depend on how many there are.

A *profile* is a short vector per channel; the nearer two profiles, the more alike the channels. In the first period
it is what `first_profiles` returns, later a `sketch`.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sensormend.model.arrays import select
from sensormend.model.compiling import exact

__all__ = [
    "FEATURES", "HALO", "OWNED", "WHOLE", "Partitioning", "drop", "extend", "first_profiles", "partition",
    "profile_axes", "single", "sketch", "transfer",
]  # fmt: skip

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Singles = NDArray[np.float32]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

FEATURES = 16
"""Numbers in a profile."""

WHOLE = 96
"""Channels of a variable up to which it is one partition."""

OWNED = 40
"""Channels a partition owns at most when it is cut: with the halo the covariance is 64 wide and stays in the cache."""

HALO = 24
"""Channels in a halo. NOAA: the 16 nearest channels predict within 2 % of all 36; with 16 a simulated network of 300
barometers loses 0.02 to 0.07 of F1."""

MAX_GROWTH = 1.5
"""How far a partition may outgrow `OWNED` by channels that join before the network is partitioned again."""

DISTRICT = 64
"""Partitions in a district at most. A halo is chosen within the district: the cost is then linear in channels."""

NEAREST = 4
"""Nearest channels of a channel. Its distances are measured relative to that of the last of them."""

CANDIDATES = 8
"""Partitions with the nearest centres among which a channel that joins is placed by its distance to their channels."""

SQUARINGS = 7
"""How often a covariance is squared for its principal direction: of two whose strengths differ by 3 % the weaker is
left with a fiftieth of its share."""

LEAST = 1e-6
"""Share of the mean squared distance from the centre below which distances are not distinguished."""

FARTHEST = 8.0
"""Deviation from the common course, on the variable's scale, beyond which a first reading counts no more."""

DECAY = 0.97
"""What is left of a sketch after a period: about a month is remembered."""

FLOOR = 2e-3
"""What is added to the diagonal of correlations that were made positive, besides the mean of what was removed: what
is negative came from correlations that contradict each other, and as much of the rest did. Predictions from them are
as good as with eigenvalues cut off at 0.001; with 0.005 they are up to 7 % worse, and with all correlations shrunk
until they are positive definite, up to a third."""

ROUNDS = 2
"""How often what is negative is removed; in between, pairs with a known correlation have it put back. Predictions get
better by 4 to 12 % where they are hard, and worse by 1 to 4 % where all channels are nearly the same (pressure); a
third round gains at most 2 % and loses 6."""

BLOCK = 2**20
"""Numbers worked on in one go in NumPy: what a processor's cache holds."""


class Partitioning(NamedTuple):
    """Which partition owns each channel, and what each partition is made of.

    Attributes
    ----------
    members
        Channel numbers, (partition, member): first the owned, then the halo, both in ascending order, then -1.
        It is as wide as the largest partition.
    owned, size
        How many channels each partition owns, and how many members it has, (partition,).
    home, place
        The partition that owns each channel, and which of its members the channel is, (channel,).
    """

    members: Ints
    owned: Ints
    size: Ints
    home: Ints
    place: Ints


def single(n: int) -> Partitioning:
    """Return one partition that owns `n` channels; none where there are no channels.

    Examples
    --------
    >>> single(3).members
    array([[0, 1, 2]], dtype=int32)
    """
    return _assembled(np.zeros(n, np.int64), np.zeros(n, np.bool_), np.arange(n), n)


def partition(
    profiles: Singles, group: Ints, *, whole: int = WHOLE, owned: int = OWNED, halo: int = HALO
) -> Partitioning:
    """Divide channels into partitions of one variable each.

    The partitions of a variable own equally many channels, give or take one. Of channels that lie equally far along
    the direction in which they are cut, or are equally near to a partition, the lower number goes first.

    Parameters
    ----------
    profiles
        (channel, feature). What is not finite counts as zero.
    group
        The variable of each channel, (channel,).
    whole
        Channels of a variable up to which it is one partition without a halo.
    owned
        Channels a partition owns at most where a variable is cut.
    halo
        Channels in the halo of a partition of a variable that is cut; fewer where its district has fewer.

    Examples
    --------
    >>> towns = np.array([[0.0], [3.0], [0.1], [3.1], [0.2], [3.3]], dtype=np.float32)
    >>> partition(towns, np.zeros(6, np.int32), whole=3, owned=3, halo=1).members
    array([[0, 2, 4, 1],
           [1, 3, 5, 4]], dtype=int32)
    """
    _check(profiles, group)
    if owned < 1 or whole < 1 or halo < 0:
        raise ValueError("a partition owns at least one channel, and its halo is not negative")
    channels = len(group)
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=np.nan))
    home = np.zeros(channels, np.int64)
    parts, outside = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    count = 0
    for start, stop in itertools.pairwise([*starts, channels]):
        numbers = order[start:stop]
        if stop - start <= whole:
            home[numbers] = count
            count += 1
            continue
        finite = _finite(profiles if stop - start == channels else profiles[numbers])
        pieces = -(-(stop - start) // owned)
        turn = np.arange(stop - start)
        edges = turn.size * np.arange(pieces + 1) // pieces
        _bisect(finite, turn, edges)
        home[numbers[turn]] = count + np.repeat(np.arange(pieces), np.diff(edges))
        if halo:
            nearest = _halos(finite, turn, edges, _districts(pieces), halo)
            piece, column = np.nonzero(nearest >= 0)
            parts.append(count + piece)
            outside.append(numbers[nearest[piece, column]])
        count += pieces
    beyond = np.concatenate(outside)
    return _assembled(
        np.concatenate([home, *parts]),
        np.arange(channels + beyond.size) >= channels,
        np.concatenate([np.arange(channels), beyond]),
        channels,
    )


def extend(
    partitioning: Partitioning,
    profiles: Singles,
    group: Ints,
    new_channels: Ints | Longs,
    *,
    whole: int = WHOLE,
    owned: int = OWNED,
    halo: int = HALO,
) -> Partitioning:
    """Let channels join: each is owned by the partition of its variable that owns the channels nearest to it.

    How near a partition is, is the mean distance of the `NEAREST` nearest channels that it owns; of partitions that
    are equally near the first is taken. Halos stay as they are. The first channels of a variable become a partition of
    their own. Where a partition would own more than `MAX_GROWTH` times `owned` channels, or one that is the only one of
    its variable more than `whole`, the network is partitioned again.

    Parameters
    ----------
    profiles, group
        Those of all channels, in the new numbering.
    new_channels
        The new numbers of the channels that join. The others are the old channels in their old order.
    whole, owned, halo
        As in `partition`.

    Examples
    --------
    >>> towns = np.array([[0.0], [3.0], [0.1], [3.1], [3.2]], dtype=np.float32)
    >>> variable = np.zeros(5, np.int32)
    >>> before = partition(towns[:4], variable[:4], whole=2, owned=2, halo=0)
    >>> extend(before, towns, variable, np.array([4]), whole=2, owned=2, halo=0).members
    array([[ 0,  2, -1],
           [ 1,  3,  4]], dtype=int32)
    """
    _check(profiles, group)
    channels = len(group)
    joins = np.zeros(channels, np.bool_)
    joins[new_channels] = True
    old = np.flatnonzero(~joins)
    if old.size != partitioning.home.size:
        raise ValueError(f"{old.size} channels do not join, but {partitioning.home.size} are partitioned")
    profiles = _finite(profiles)
    pieces = partitioning.owned.size
    variable = np.full(pieces, -1, group.dtype)
    variable[partitioning.home] = group[old]
    home = np.full(channels, -1, np.int64)
    home[old] = partitioning.home
    allowed = np.full(pieces, int(MAX_GROWTH * owned))
    count = pieces
    for one in np.unique(group[joins]):
        new = np.flatnonzero(joins & (group == one))
        of_it = np.flatnonzero(variable == one)
        if of_it.size <= 1:
            # Nothing to choose from: its only partition, or the first.
            allowed[of_it] = whole
            home[new] = of_it[0] if of_it.size else count
            if not of_it.size:
                allowed = np.append(allowed, whole)
                count += 1
        else:
            members = np.where(partitioning.members[of_it] >= 0, old[partitioning.members[of_it]], -1)
            home[new] = of_it[_nearest(members, partitioning.owned[of_it], profiles, new)]
    grown = np.zeros(count, np.bool_)
    grown[home[joins]] = True
    if np.any(grown & (np.bincount(home, minlength=count) > allowed)):
        return partition(profiles, group, whole=whole, owned=owned, halo=halo)
    part, column = np.nonzero(partitioning.members >= 0)
    outside = column >= partitioning.owned[part]
    part, column = part[outside], column[outside]
    return _assembled(
        np.concatenate([home, part]),
        np.arange(channels + part.size) >= channels,
        np.concatenate([np.arange(channels), old[partitioning.members[part, column]]]),
        channels,
    )


def drop(partitioning: Partitioning, keep: Bools) -> Partitioning:
    """Take out all channels but those `keep`, (channel,); they are renumbered in their order.

    Halos lose members and get no new ones. A partition that owns no channel any more is removed.

    Examples
    --------
    >>> drop(single(4), np.array([True, False, True, True])).members
    array([[0, 1, 2]], dtype=int32)
    """
    part, column = np.nonzero(partitioning.members >= 0)
    channel = partitioning.members[part, column]
    outside = column >= partitioning.owned[part]
    owns = np.bincount(partitioning.home[keep], minlength=partitioning.owned.size) > 0
    stays = keep[channel] & owns[part]
    part, outside, channel = part[stays], outside[stays], channel[stays]
    return _assembled((np.cumsum(owns) - 1)[part], outside, (np.cumsum(keep) - 1)[channel], int(keep.sum()))


def transfer(
    old: Partitioning,
    moments: NDArray[Any],
    new: Partitioning,
    spread: NDArray[Any],
    profiles: Singles,
    channel_map: Ints | Longs,
) -> NDArray[Any]:
    """Return the second moments of new partitions, (partition, member, member), in the precision of `moments`.

    Most of the channels that a new partition owns come from one old partition; what is known in that one is taken
    over as it is. Other pairs that were together get the correlation they had where one or the other was owned, or
    the mean of both. Other pairs get the cosine of their profiles. Correlations put together like this may contradict
    each other: where a matrix is not positive definite with something to spare, what is negative is removed. The
    variances stay what they were. Where all members of a partition come from one old partition, so do all of its
    moments, bit by bit. Padding is zero.

    Parameters
    ----------
    old, moments
        The partitions before, and their second moments.
    new
        The partitions now.
    spread
        The standard deviation of a channel, (channel,) in the new numbering, for those that have no variance yet. Where
        it is zero, so are the moments of that channel.
    likeness
        Profiles, (channel, feature) in the new numbering.
    channel_map
        The old number of each channel, (channel,), -1 where it has none.
    """
    pieces, width = new.members.shape
    out = np.zeros((pieces, width, width), moments.dtype)
    profiles = _finite(profiles)
    directions = profiles / np.maximum(np.sqrt(np.sum(profiles**2, axis=1, keepdims=True)), 1e-30)
    position = np.full(old.home.size, -1, np.int32)
    high = max(1, BLOCK // max(1, width * width))
    for begin in range(0, pieces, high):
        block = slice(begin, begin + high)
        members = new.members[block]
        real = members >= 0
        numbers = np.where(real, channel_map[members], -1)
        value, known, same = _gather_moments(old, moments, numbers, new.owned[block], new.size[block], position)
        variance = np.diagonal(value, axis1=1, axis2=2)
        fallback = np.where(real, np.asarray(spread, np.float64)[members], 0.0)
        variance = np.where(variance > 0, variance, fallback**2)
        deviation = np.sqrt(variance)
        bound = deviation[:, :, None] * deviation[:, None, :]
        if not known.all():
            of_members = directions[members]
            value = np.where(known, value, (of_members @ of_members.transpose(0, 2, 1)) * bound)
        mixed = np.flatnonzero(~(same & np.all(known | (bound == 0), axis=(1, 2))))
        value[mixed] = np.clip(value[mixed], -bound[mixed], bound[mixed])
        correlation = value[mixed] / np.where(bound[mixed] > 0, bound[mixed], 1.0)
        _diagonal(correlation)[:] = 1.0
        wrong = ~_are_positive_definite(correlation)
        correlation, mixed = correlation[wrong], mixed[wrong]
        positive = _made_positive(correlation)
        for _ in range(1, ROUNDS):
            positive = _made_positive(np.where(known[mixed], correlation, positive))
        value[mixed] = positive * bound[mixed]
        _diagonal(value)[:] = variance
        out[block] = value
    return out


def first_profiles(deviation: NDArray[Any], group: Ints | None = None) -> Singles:
    """Describe channels by what of their first period is not common to all: (channel, `FEATURES`).

    The common course, the mean of all channels in each slot, is subtracted; what is left is projected on its strongest
    `FEATURES` principal axes, the weakest first. Periods of fewer slots leave the first columns zero.

    Parameters
    ----------
    deviation
        Readings of the first period on the variables' scales, (channel, slot); NaN is missing.
    group
        The variable of each channel, (channel,); each variable has its own common course. One variable if not given.

    Examples
    --------
    >>> first_profiles(np.array([[1.0, 2.0], [5.0, -1.0], [3.0, np.nan]]))[:, -1]
    array([-2.5,  2.5,  0. ], dtype=float32)
    """
    channels, slots = deviation.shape
    variables, variable = np.unique(np.zeros(channels, np.int32) if group is None else group, return_inverse=True)
    total, seen = np.zeros((variables.size, slots)), np.zeros((variables.size, slots))
    high = max(1, BLOCK // max(1, slots))
    blocks = [slice(begin, begin + high) for begin in range(0, channels, high)]
    for block in blocks:
        for one in range(variables.size):
            readings = deviation[block][variable[block] == one]
            total[one] += np.where(np.isfinite(readings), readings, 0.0).sum(axis=0)
            seen[one] += np.isfinite(readings).sum(axis=0)
    common = total / np.maximum(seen, 1.0)

    def own(block: slice) -> Floats:
        beyond: Floats = np.clip(deviation[block] - common[variable[block]], -FARTHEST, FARTHEST)
        return np.where(np.isfinite(beyond), beyond, 0.0)

    products = np.zeros((slots, slots))
    for block in blocks:
        products += own(block).T @ own(block)
    axes = np.linalg.eigh(products)[1][:, -FEATURES:]
    # An axis has no sign of its own: its largest share is positive.
    axes *= np.where(np.take_along_axis(axes, np.abs(axes).argmax(axis=0)[None], axis=0) < 0, -1.0, 1.0)
    profiles = np.zeros((channels, FEATURES), np.float32)
    for block in blocks:
        profiles[block, FEATURES - axes.shape[1] :] = own(block) @ axes
    return profiles


def profile_axes(slots: int, period: int, seed: int = 0) -> Singles:
    """Return the random axes of one period's `sketch`, (slot, `FEATURES`)."""
    return np.random.default_rng([seed, period]).normal(size=(slots, FEATURES)).astype(np.float32)


@exact
def sketch(profile: Singles, course: Singles, axes: Singles) -> None:
    """Take a channel's profile through a period: a decaying sum of its course on axes that are new every period.

    The angle between two such profiles follows from the correlation of the two channels.

    Parameters
    ----------
    profile
        That before the period, (`FEATURES`,); it is changed.
    course
        Deviations in units of the channel's standard deviation, (slot,). What is not finite adds nothing.
    axes
        Those of this period, see `profile_axes`.
    """
    for feature in range(profile.size):
        profile[feature] *= DECAY
    for slot in range(course.size):
        if np.isfinite(course[slot]):
            for feature in range(profile.size):
                profile[feature] += course[slot] * axes[slot, feature]


def _check(profiles: Singles, group: Ints) -> None:
    if profiles.ndim != 2 or group.shape != profiles.shape[:1]:
        raise ValueError(f"profiles {profiles.shape} and group {group.shape} are not of the same channels")


def _finite(profiles: Singles) -> Singles:
    if profiles.dtype == np.float32 and np.isfinite(profiles).all():
        return np.ascontiguousarray(profiles)
    return np.where(np.isfinite(profiles), profiles, 0.0).astype(np.float32)


def _assembled(part: Longs, outside: Bools, channel: Longs, channels: int) -> Partitioning:
    """Return partitions from one entry per member: its partition, whether it is in the halo, and its channel."""
    key = np.sort(((2 * part + outside) << 32) | channel)
    part, outside, channel = key >> 33, ((key >> 32) & 1).astype(np.bool_), key & 0xFFFFFFFF
    size = np.bincount(part)
    owned = np.bincount(part[~outside])
    column = np.arange(key.size) - (np.cumsum(size) - size)[part]
    members = np.full((size.size, size.max(initial=0)), -1, np.int32)
    members[part, column] = channel
    home, place = np.zeros(channels, np.int32), np.zeros(channels, np.int32)
    home[channel[~outside]] = part[~outside]
    place[channel[~outside]] = column[~outside]
    return Partitioning(members, owned.astype(np.int32), size.astype(np.int32), home, place)


def _districts(pieces: int) -> Longs:
    """Return at which partition each district begins, and the end: the first level of the tree that has them small."""
    marks = np.array([0, pieces])
    while np.diff(marks).max() > DISTRICT:
        marks = np.unique(np.concatenate([marks, (marks[:-1] + marks[1:]) // 2]))
    return marks


@exact
def _bisect(profiles: Singles, order: Longs, edges: Longs) -> None:
    """Reorder ascending channel numbers so that those between any two `edges` are alike.

    The channels between two edges, cut in halves again and again. Within a half the numbers stay ascending.
    """
    channels, features = profiles.shape
    along, work = np.empty(channels), np.empty(channels)
    upper = np.empty(channels, np.int64)
    mean, centred = np.empty(features), np.empty(features)
    # Depth first: as many are open as the tree is deep.
    first, last = np.empty(128, np.int64), np.empty(128, np.int64)
    first[0], last[0] = 0, edges.size - 1
    waiting = 1
    while waiting:
        waiting -= 1
        begin, end = first[waiting], last[waiting]
        if end - begin < 2:
            continue
        middle = (begin + end) // 2
        start, stop, cut = edges[begin], edges[end], edges[middle] - edges[begin]
        mean[:] = 0.0
        for index in range(start, stop):
            for feature in range(features):
                mean[feature] += profiles[order[index], feature]
        for feature in range(features):
            mean[feature] /= stop - start
        products = np.zeros((features, features))
        for index in range(start, stop):
            for feature in range(features):
                centred[feature] = profiles[order[index], feature] - mean[feature]
            for row in range(features):
                for column in range(features):
                    products[row, column] += centred[row] * centred[column]
        direction = _principal(products)
        for index in range(start, stop):
            total = 0.0
            for feature in range(features):
                total += (profiles[order[index], feature] - mean[feature]) * direction[feature]
            along[index] = total
        for index in range(start, stop):
            work[index - start] = along[index]
        edge = select(work, stop - start, cut - 1)
        level = cut
        for index in range(start, stop):
            level -= along[index] < edge
        below, above = start, 0
        for index in range(start, stop):
            lower = along[index] < edge
            if along[index] == edge and level > 0:
                lower = True
                level -= 1
            if lower:
                order[below] = order[index]
                below += 1
            else:
                upper[above] = order[index]
                above += 1
        for index in range(above):
            order[below + index] = upper[index]
        first[waiting], last[waiting] = middle, end
        first[waiting + 1], last[waiting + 1] = begin, middle
        waiting += 2


@exact
def _principal(products: Floats) -> Floats:
    """Return the principal direction of a matrix, zero where it is zero.

    Squaring has no sign to choose and no order of equal strengths, so that other rounding comes to the same.
    """
    features = products.shape[0]
    for _ in range(SQUARINGS):
        trace = 0.0
        for row in range(features):
            trace += products[row, row]
        products = products / max(trace, 1e-30)
        square = np.zeros_like(products)
        for row in range(features):
            for inner in range(features):
                for column in range(features):
                    square[row, column] += products[row, inner] * products[inner, column]
        products = square
    widest = 0
    for row in range(features):
        if products[row, row] > products[widest, widest]:
            widest = row
    direction: Floats = products[widest].copy()
    return direction


@exact
def _halos(profiles: Singles, order: Longs, edges: Longs, marks: Longs, halo: int) -> Longs:
    """Return the channels of its district nearest to each partition, (partition, halo), -1 where there are no more.

    `order` has the channels partition after partition, between `edges`, and `marks` the partitions of each district.

    A channel is as near as it is to the owned channel that it is nearest to, in units of that one's distance to its
    nearest channels, wherever these are. So an owned channel far from the others of its partition has its nearest
    channels in the halo as soon as those that have most of theirs in the partition.
    """
    channels, features = profiles.shape
    home = np.empty(channels, np.int64)
    for piece in range(edges.size - 1):
        home[order[edges[piece] : edges[piece + 1]]] = piece
    # The channels of every district in the order of their numbers, which decide between equals.
    inside = np.empty(channels, np.int64)
    filled = edges[marks[:-1]].copy()
    for channel in range(channels):
        district = np.searchsorted(marks, home[channel], side="right") - 1
        inside[filled[district]] = channel
        filled[district] += 1
    nearest = np.full((edges.size - 1, halo), -1, np.int64)
    for district in range(marks.size - 1):
        low, high = marks[district], marks[district + 1]
        start, stop = edges[low], edges[high]
        width = stop - start
        numbers, pieces = inside[start:stop], home[inside[start:stop]]
        columns = np.empty((features, width), np.float32)
        spread = 0.0
        for feature in range(features):
            total = 0.0
            for place in range(width):
                columns[feature, place] = profiles[numbers[place], feature]
                total += columns[feature, place]
            total /= width
            for place in range(width):
                spread += (columns[feature, place] - total) ** 2
        least = LEAST * spread / width + 1e-30
        apart = np.empty(width, np.float32)
        relative, work = np.empty(width, np.float32), np.empty(width)
        for piece in range(low, high):
            relative[:] = np.inf
            for index in range(edges[piece], edges[piece + 1]):
                _squared_distances(profiles[order[index]], columns, apart)
                # The channel itself is the first of them.
                scale = np.float32(1.0 / (_smallest(apart, min(NEAREST + 1, width)) + least))
                for place in range(width):
                    value = apart[place] * scale
                    relative[place] = value if value < relative[place] else relative[place]
            for place in range(width):
                if pieces[place] == piece:
                    relative[place] = np.inf
                work[place] = relative[place]
            wanted = min(halo, width - (edges[piece + 1] - edges[piece]))
            if wanted == 0:
                continue
            edge = select(work, width, wanted - 1)
            level = wanted
            for place in range(width):
                level -= relative[place] < edge
            column = 0
            for place in range(width):
                if relative[place] < edge or (relative[place] == edge and level > 0):
                    level -= relative[place] == edge
                    nearest[piece, column] = numbers[place]
                    column += 1
    return nearest


@exact
def _squared_distances(point: Singles, columns: Singles, apart: Singles) -> None:
    """Write the squared distances of a point, (feature,), from others, (feature, point)."""
    apart[:] = np.float32(0.0)
    for feature in range(point.size):
        for place in range(apart.size):
            step = columns[feature, place] - point[feature]
            apart[place] += step * step


@exact
def _smallest(values: Singles, count: int) -> float:
    """Return the `count`-th smallest value; `count` is small."""
    least = np.full(count, np.inf, np.float32)
    for value in values:
        if value < least[count - 1]:
            place = count - 1
            while place > 0 and least[place - 1] > value:
                least[place] = least[place - 1]
                place -= 1
            least[place] = value
    return float(least[count - 1])


@exact
def _nearest(members: Longs, owned: Ints, profiles: Singles, new: Longs) -> Longs:
    """Return for every new channel which partition, (partition, member), owns the channels nearest to it."""
    pieces, features = members.shape[0], profiles.shape[1]
    centres = np.zeros((features, pieces), np.float32)
    for piece in range(pieces):
        for feature in range(features):
            total = 0.0
            for place in range(owned[piece]):
                total += profiles[members[piece, place], feature]
            centres[feature, piece] = total / owned[piece]
    apart = np.empty(pieces, np.float32)
    least = np.empty(NEAREST)
    chosen = np.empty(new.size, np.int64)
    for index in range(new.size):
        _squared_distances(profiles[new[index]], centres, apart)
        edge = _smallest(apart, min(CANDIDATES, pieces))
        best = np.inf
        for piece in range(pieces):
            if apart[piece] > edge:
                continue
            count = min(NEAREST, owned[piece])
            least[:] = np.inf
            for place in range(owned[piece]):
                value = 0.0
                for feature in range(features):
                    value += (profiles[members[piece, place], feature] - profiles[new[index], feature]) ** 2
                rank = count
                while rank > 0 and least[rank - 1] > value:
                    if rank < count:
                        least[rank] = least[rank - 1]
                    rank -= 1
                if rank < count:
                    least[rank] = value
            mean = 0.0
            for rank in range(count):
                mean += np.sqrt(least[rank]) / count
            if mean < best:
                best, chosen[index] = mean, piece
    return chosen


@exact
def _gather_moments(
    old: Partitioning, moments: NDArray[Any], numbers: Longs, owned: Ints, size: Ints, position: Ints
) -> tuple[Floats, Bools, Bools]:
    """Return the moments that old partitions have for new ones, which these are, and which all come from one.

    Parameters
    ----------
    numbers
        The old channel numbers of some new partitions' members, (partition, member), -1 where there are none.
    owned, size
        Of the new partitions.
    position
        -1 for every old channel; so again afterwards.
    """
    count, width = numbers.shape
    value = np.zeros((count, width, width))
    known = np.zeros((count, width, width), np.bool_)
    same = np.zeros(count, np.bool_)
    tally = np.zeros(old.owned.size, np.int32)
    inside = np.empty(width, np.bool_)
    variance = np.empty(width)
    for index in range(count):
        # The old partition that owned most of those owned now; of equals the first.
        source, most = -1, 0
        for place in range(owned[index]):
            number = numbers[index, place]
            if number >= 0:
                tally[old.home[number]] += 1
        for place in range(owned[index]):
            number = numbers[index, place]
            if number >= 0:
                home = old.home[number]
                if tally[home] > most or (tally[home] == most and home < source):
                    source, most = home, tally[home]
        for place in range(owned[index]):
            if numbers[index, place] >= 0:
                tally[old.home[numbers[index, place]]] = 0
        inside[:] = False
        variance[:] = 0.0
        for place in range(size[index]):
            number = numbers[index, place]
            if number >= 0:
                position[number] = place
                variance[place] = moments[old.home[number], old.place[number], old.place[number]]
        if source >= 0:
            for member in range(old.size[source]):
                place = position[old.members[source, member]]
                if place >= 0:
                    inside[place] = True
                    variance[place] = moments[source, member, member]
        # Where each member was owned: its row there is the mean's one half, its column the other.
        for place in range(size[index]):
            number = numbers[index, place]
            if number < 0 or not variance[place] > 0:
                continue
            home, own = old.home[number], old.place[number]
            for member in range(old.size[home]):
                other = position[old.members[home, member]]
                if other < 0 or not variance[other] > 0 or (inside[place] and inside[other]):
                    continue
                scale = moments[home, own, own] * moments[home, member, member]
                if not scale > 0:
                    continue
                moment = moments[home, own, member] * np.sqrt(variance[place] * variance[other] / scale)
                if known[index, place, other]:
                    moment = (moment + value[index, place, other]) / 2
                value[index, place, other] = value[index, other, place] = moment
                known[index, place, other] = known[index, other, place] = True
        whole = True
        for place in range(size[index]):
            whole = whole and inside[place]
        same[index] = whole
        if source >= 0:
            for member in range(old.size[source]):
                place = position[old.members[source, member]]
                if place < 0 or not variance[place] > 0:
                    continue
                for beside in range(old.size[source]):
                    other = position[old.members[source, beside]]
                    if other >= 0 and variance[other] > 0:
                        value[index, place, other] = moments[source, member, beside]
                        known[index, place, other] = True
        for place in range(size[index]):
            value[index, place, place] = variance[place]
            known[index, place, place] = True
            if numbers[index, place] >= 0:
                position[numbers[index, place]] = -1
    return value, known, same


@exact
def _are_positive_definite(correlation: Floats) -> Bools:
    """Return which matrices have a Cholesky factor whose squared diagonal is above `FLOOR`."""
    count, size, _ = correlation.shape
    definite = np.ones(count, np.bool_)
    factor = np.zeros((size, size))
    for index in range(count):
        for row in range(size):
            for column in range(row + 1):
                total = correlation[index, row, column]
                for inner in range(column):
                    total -= factor[row, inner] * factor[column, inner]
                if column < row:
                    factor[row, column] = total / factor[column, column]
                elif total > FLOOR:
                    factor[row, row] = np.sqrt(total)
                else:
                    definite[index] = False
            if not definite[index]:
                break
    return definite


def _made_positive(correlation: Floats) -> Floats:
    """Return correlation matrices, (matrix, row, column), without what is negative in them, and with some to spare."""
    if not correlation.size:
        return correlation
    values, vectors = np.linalg.eigh(correlation)
    half = (vectors * np.maximum(values, 0.0)[:, None, :]) @ vectors.transpose(0, 2, 1)
    taken = np.mean(_diagonal(half) - 1.0, axis=1, keepdims=True)
    _diagonal(half)[:] += FLOOR + np.maximum(taken, 0.0)
    share = 1 / np.sqrt(_diagonal(half))
    positive: Floats = half * share[:, :, None] * share[:, None, :]
    return positive


def _diagonal(matrices: Floats) -> Floats:
    """Return the diagonals, (matrix, entry), to write to."""
    count, size, _ = matrices.shape
    return matrices.reshape(count, size * size)[:, :: size + 1]
