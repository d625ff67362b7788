"""Partitions divide the channels of a network; second moments are transferred when they change.

A partition *owns* channels, which are judged and estimated in it, and may have a *halo*: channels that other
partitions own and that its own are predicted from. Every channel is owned once. Channels of different variables do
not predict each other, so a partition holds one variable. A variable of up to `MAX_SINGLE` channels is one partition; a
larger one is cut in halves across the principal direction of its channels' profiles until no partition owns more
than `OWNED`. Cost and memory per channel then do not depend on how many there are.

A *profile* is a short vector per channel; the nearer two profiles, the more alike the channels. In the first period
it is what `first_profiles` returns, later a `sketch`.

References
----------
.. [1] D. Boley, "Principal Direction Divisive Partitioning", Data Mining and Knowledge Discovery 2, 1998.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sensormend.model.arrays import select
from sensormend.model.compiling import exact, exact_inner

__all__ = [
    "FEATURES", "HALO", "MAX_SINGLE", "OWNED", "Partitioning", "drop", "extend", "first_profiles", "partition",
    "profile_axes", "sketch", "transfer", "with_hosts",
]  # fmt: skip

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Singles = NDArray[np.float32]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

FEATURES = 16
"""Numbers in a profile."""

MAX_SINGLE = 96
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

MIN_DISTANCE = 1e-6
"""Share of the mean squared distance from the centre below which distances are not distinguished."""

MAX_DEVIATION = 8.0
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


def partition(
    profiles: Singles, group: Ints, *, max_single: int = MAX_SINGLE, owned: int = OWNED, halo: int = HALO
) -> Partitioning:
    """Divide channels into partitions of one variable each.

    `profiles` is (channel, feature), where what is not finite counts as zero; `group` has the variable of each channel.
    A variable of up to `max_single` channels is one partition without a halo. The partitions of a larger one own
    equally many channels, give or take one, and at most `owned`; their halos have `halo` channels, fewer where their
    district has fewer. Of channels that lie equally far along the direction in which they are cut, or are equally near
    to a partition, the lower number goes first.

    Examples
    --------
    >>> towns = np.array([[0.0], [3.0], [0.1], [3.1], [0.2], [3.3]], dtype=np.float32)
    >>> partition(towns, np.zeros(6, np.int32), max_single=3, owned=3, halo=1).members
    array([[0, 2, 4, 1],
           [1, 3, 5, 4]], dtype=int32)
    """
    _check(profiles, group)
    if owned < 1 or max_single < 1 or halo < 0:
        raise ValueError("a partition owns at least one channel, and its halo is not negative")
    channels = len(group)
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=np.nan))
    home = np.zeros(channels, np.int64)
    halo_parts, halo_channels = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    count = 0
    for start, stop in itertools.pairwise([*starts, channels]):
        numbers = order[start:stop]
        if stop - start <= max_single:
            home[numbers] = count
            count += 1
            continue
        finite = _finite(profiles if stop - start == channels else profiles[numbers])
        pieces = -(-(stop - start) // owned)
        ranked = np.arange(stop - start)
        edges = ranked.size * np.arange(pieces + 1) // pieces
        _bisect(finite, ranked, edges)
        home[numbers[ranked]] = count + np.repeat(np.arange(pieces), np.diff(edges))
        if halo:
            nearest = np.full((pieces, halo), -1, np.int64)
            _find_halos(finite, ranked, edges, _districts(pieces), nearest)
            piece, column = np.nonzero(nearest >= 0)
            halo_parts.append(count + piece)
            halo_channels.append(numbers[nearest[piece, column]])
        count += pieces
    joined_halos = np.concatenate(halo_channels)
    return _assembled(
        np.concatenate([home, *halo_parts]),
        np.arange(channels + joined_halos.size) >= channels,
        np.concatenate([np.arange(channels), joined_halos]),
        channels,
    )


def extend(
    partitioning: Partitioning,
    profiles: Singles,
    group: Ints,
    new_channels: Ints | Longs,
    *,
    max_single: int = MAX_SINGLE,
    owned: int = OWNED,
    halo: int = HALO,
) -> Partitioning:
    """Let channels join: each is owned by the partition of its variable that owns the channels nearest to it.

    `profiles` and `group` are those of all channels in the new numbering, `new_channels` the numbers of those that
    join; the others are the old channels in their old order. `max_single`, `owned` and `halo` are those of `partition`.

    How near a partition is, is the mean distance of the `NEAREST` nearest channels that it owns; of partitions that
    are equally near the first is taken. Halos stay as they are. The first channels of a variable become a partition of
    their own. Where a partition would own more than `MAX_GROWTH` times `owned` channels, or one that is the only one of
    its variable more than `max_single`, the network is partitioned again.

    Examples
    --------
    >>> towns = np.array([[0.0], [3.0], [0.1], [3.1], [3.2]], dtype=np.float32)
    >>> variable = np.zeros(5, np.int32)
    >>> before = partition(towns[:4], variable[:4], max_single=2, owned=2, halo=0)
    >>> extend(before, towns, variable, np.array([4]), max_single=2, owned=2, halo=0).members
    array([[ 0,  2, -1],
           [ 1,  3,  4]], dtype=int32)
    """
    _check(profiles, group)
    channels = len(group)
    is_new = np.zeros(channels, np.bool_)
    is_new[new_channels] = True
    old = np.flatnonzero(~is_new)
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
    for number in np.unique(group[is_new]):
        new = np.flatnonzero(is_new & (group == number))
        candidates = np.flatnonzero(variable == number)
        if candidates.size <= 1:
            # Nothing to choose from: its only partition, or the first.
            allowed[candidates] = max_single
            home[new] = candidates[0] if candidates.size else count
            if not candidates.size:
                allowed = np.append(allowed, max_single)
                count += 1
        else:
            members = np.where(partitioning.members[candidates] >= 0, old[partitioning.members[candidates]], -1)
            chosen = np.empty(new.size, np.int64)
            _choose_nearest(members, partitioning.owned[candidates], profiles, new, chosen)
            home[new] = candidates[chosen]
    has_grown = np.zeros(count, np.bool_)
    has_grown[home[is_new]] = True
    if np.any(has_grown & (np.bincount(home, minlength=count) > allowed)):
        return partition(profiles, group, max_single=max_single, owned=owned, halo=halo)
    part, column = np.nonzero(partitioning.members >= 0)
    in_halo = column >= partitioning.owned[part]
    part, column = part[in_halo], column[in_halo]
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
    >>> four = partition(np.zeros((4, 1), np.float32), np.zeros(4, np.int32))
    >>> drop(four, np.array([True, False, True, True])).members
    array([[0, 1, 2]], dtype=int32)
    """
    part, column = np.nonzero(partitioning.members >= 0)
    channel = partitioning.members[part, column]
    in_halo = column >= partitioning.owned[part]
    owns_any = np.bincount(partitioning.home[keep], minlength=partitioning.owned.size) > 0
    stays = keep[channel] & owns_any[part]
    part, in_halo, channel = part[stays], in_halo[stays], channel[stays]
    return _assembled((np.cumsum(owns_any) - 1)[part], in_halo, (np.cumsum(keep) - 1)[channel], int(keep.sum()))


def with_hosts(
    partitioning: Partitioning, profiles: Singles, variable: Ints, guests: Bools, known: Bools
) -> Partitioning:
    """Give the partitions of `guests` that have no halo one: the channels of the partition that is nearest to each.

    A guest is alone in its partition; `known` channels are those beside which it may be placed, (channel,).

    Examples
    --------
    >>> towns = np.array([[0.0], [3.0], [0.1], [3.1], [3.2]], dtype=np.float32)
    >>> before = partition(towns, np.array([0, 0, 0, 0, 1], np.int32), max_single=2, owned=2, halo=0)
    >>> is_guest = np.array([False, False, False, False, True])
    >>> with_hosts(before, towns, np.zeros(5, np.int32), is_guest, ~is_guest).members
    array([[ 0,  2, -1],
           [ 1,  3, -1],
           [ 4,  1,  3]], dtype=int32)
    """
    new = np.flatnonzero(guests & (partitioning.size[partitioning.home] == 1))
    if not new.size:
        return partitioning
    hosts = np.full(new.size, -1, np.int64)
    for number in np.unique(variable[new]):
        candidates = np.unique(partitioning.home[known & (variable == number)])
        of_variable = np.flatnonzero(variable[new] == number)
        if not candidates.size:
            continue
        chosen = np.zeros(of_variable.size, np.int64)
        if candidates.size > 1:
            members, owned = partitioning.members[candidates].astype(np.int64), partitioning.owned[candidates]
            _choose_nearest(members, owned, _finite(profiles), new[of_variable], chosen)
        hosts[of_variable] = candidates[chosen]
    new, hosts = new[hosts >= 0], hosts[hosts >= 0]
    width = partitioning.owned[hosts]
    beside = partitioning.members[
        np.repeat(hosts, width), np.arange(width.sum()) - np.repeat(np.cumsum(width) - width, width)
    ]
    part, column = np.nonzero(partitioning.members >= 0)
    in_halo = column >= partitioning.owned[part]
    return _assembled(
        np.concatenate([part, np.repeat(partitioning.home[new], width)]),
        np.concatenate([in_halo, np.ones(beside.size, np.bool_)]),
        np.concatenate([partitioning.members[part, column], beside]),
        guests.size,
    )


def transfer(
    old: Partitioning,
    moments: NDArray[Any],
    new: Partitioning,
    profiles: Singles,
    channel_map: Ints | Longs,
) -> NDArray[Any]:
    """Return the second moments of new partitions, (partition, member, member), in the precision of `moments`.

    `moments` are those of the `old` partitions; `profiles` are in the new numbering of channels, and `channel_map` has
    the old number of each, -1 where it has none.

    Most of the channels that a new partition owns come from one old partition; what is known in that one is taken
    over as it is. Other pairs that were together get the correlation they had where one or the other was owned, or
    the mean of both. Other pairs get the cosine of their profiles. Correlations put together like this may contradict
    each other: where a matrix is not positive definite with something to spare, what is negative is removed. The
    variances stay what they were. Where all members of a partition come from one old partition, so do all of its
    moments, bit by bit. Padding, and all moments of a channel without a variance, are zero.
    """
    pieces, width = new.members.shape
    out = np.zeros((pieces, width, width), moments.dtype)
    profiles = _finite(profiles)
    directions = profiles / np.maximum(np.sqrt(np.sum(profiles**2, axis=1, keepdims=True)), 1e-30)
    position = np.full(old.home.size, -1, np.int32)
    step = max(1, BLOCK // max(1, width * width))
    for begin in range(0, pieces, step):
        block = slice(begin, begin + step)
        members = new.members[block]
        numbers = np.where(members >= 0, channel_map[members], -1)
        value, is_known = np.zeros((len(numbers), width, width)), np.zeros((len(numbers), width, width), np.bool_)
        from_one = np.zeros(len(numbers), np.bool_)
        _gather_moments(
            old, moments, numbers, new.owned[block], new.size[block], position, value, is_known, from_one
        )  # fmt: skip
        variance = np.diagonal(value, axis1=1, axis2=2)
        variance = np.where(variance > 0, variance, 0.0)
        deviation = np.sqrt(variance)
        bound = deviation[:, :, None] * deviation[:, None, :]
        if not is_known.all():
            member_directions = directions[members]
            value = np.where(is_known, value, (member_directions @ member_directions.transpose(0, 2, 1)) * bound)
        rebuilt = np.flatnonzero(~(from_one & np.all(is_known | (bound == 0), axis=(1, 2))))
        value[rebuilt] = np.clip(value[rebuilt], -bound[rebuilt], bound[rebuilt])
        correlation = value[rebuilt] / np.where(bound[rebuilt] > 0, bound[rebuilt], 1.0)
        _diagonal(correlation)[:] = 1.0
        definite = np.ones(len(correlation), np.bool_)
        _test_positive_definite(correlation, definite)
        correlation, rebuilt = correlation[~definite], rebuilt[~definite]
        positive = _made_positive(correlation)
        for _ in range(1, ROUNDS):
            positive = _made_positive(np.where(is_known[rebuilt], correlation, positive))
        value[rebuilt] = positive * bound[rebuilt]
        _diagonal(value)[:] = variance
        out[block] = value
    return out


def first_profiles(deviation: NDArray[Any], group: Ints) -> Singles:
    """Describe channels by what of their first period is not common to all: (channel, `FEATURES`).

    `deviation` has the readings of the first period on the variables' scales, (channel, slot), NaN where missing, and
    `group` the variable of each channel. The common course, the mean of all channels of a variable in each slot, is
    subtracted; the rest is projected on its strongest `FEATURES` principal axes, the weakest first. Periods of fewer
    slots leave the first columns zero.

    Examples
    --------
    >>> first_profiles(np.array([[1.0, 2.0], [5.0, -1.0], [3.0, np.nan]]), np.zeros(3, np.int32))[:, -1]
    array([-2.5,  2.5,  0. ], dtype=float32)
    """
    channels, slots = deviation.shape
    variables, variable = np.unique(group, return_inverse=True)
    total, count = np.zeros((variables.size, slots)), np.zeros((variables.size, slots))
    step = max(1, BLOCK // max(1, slots))
    blocks = [slice(begin, begin + step) for begin in range(0, channels, step)]
    for block in blocks:
        for number in range(variables.size):
            readings = deviation[block][variable[block] == number]
            total[number] += np.where(np.isfinite(readings), readings, 0.0).sum(axis=0)
            count[number] += np.isfinite(readings).sum(axis=0)
    common = total / np.maximum(count, 1.0)
    # In a period that has just begun most slots are empty, and add nothing.
    filled = np.flatnonzero(count.any(axis=0))
    profiles = np.zeros((channels, FEATURES), np.float32)
    if not filled.size:
        return profiles
    if filled.size < slots:
        deviation, common = deviation[:, filled], common[:, filled]

    def uncommon(block: slice) -> Floats:
        rest: Floats = np.clip(deviation[block] - common[variable[block]], -MAX_DEVIATION, MAX_DEVIATION)
        return np.where(np.isfinite(rest), rest, 0.0)

    products = np.zeros((filled.size, filled.size))
    for block in blocks:
        products += uncommon(block).T @ uncommon(block)
    axes = np.linalg.eigh(products)[1][:, -FEATURES:]
    # An axis has no sign of its own: its largest share is positive.
    axes *= np.where(np.take_along_axis(axes, np.abs(axes).argmax(axis=0)[None], axis=0) < 0, -1.0, 1.0)
    for block in blocks:
        profiles[block, FEATURES - axes.shape[1] :] = uncommon(block) @ axes
    return profiles


def profile_axes(slots: int, period: int, seed: int = 0) -> Singles:
    """Return the random axes of one period's `sketch`, (slot, `FEATURES`)."""
    return np.random.default_rng([seed, period]).normal(size=(slots, FEATURES)).astype(np.float32)


@exact_inner
def sketch(profile: Singles, course: Singles, axes: Singles) -> None:
    """Take a channel's profile through a period: a decaying sum of its course on axes that are new every period.

    `profile` is changed. `course` has deviations in units of the channel's standard deviation, (slot,), of which what
    is not finite adds nothing; `axes` are this period's `profile_axes`. The angle between two such profiles follows
    from the correlation of the two channels.
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


def _assembled(part: Longs, in_halo: Bools, channel: Longs, channels: int) -> Partitioning:
    """Return partitions from one entry per member: its partition, whether it is in the halo, and its channel."""
    key = np.sort(((2 * part + in_halo) << 32) | channel)
    part, in_halo, channel = key >> 33, ((key >> 32) & 1).astype(np.bool_), key & 0xFFFFFFFF
    size = np.bincount(part)
    owned = np.bincount(part[~in_halo])
    column = np.arange(key.size) - (np.cumsum(size) - size)[part]
    members = np.full((size.size, size.max(initial=0)), -1, np.int32)
    members[part, column] = channel
    home, place = np.zeros(channels, np.int32), np.zeros(channels, np.int32)
    home[channel[~in_halo]] = part[~in_halo]
    place[channel[~in_halo]] = column[~in_halo]
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
    projection, work = np.empty(channels), np.empty(channels)
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
            projection[index] = total
        for index in range(start, stop):
            work[index - start] = projection[index]
        edge = select(work, stop - start, cut - 1)
        ties = cut
        for index in range(start, stop):
            ties -= projection[index] < edge
        below, above = start, 0
        for index in range(start, stop):
            lower = projection[index] < edge
            if projection[index] == edge and ties > 0:
                lower = True
                ties -= 1
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


@exact_inner
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
def _find_halos(profiles: Singles, order: Longs, edges: Longs, marks: Longs, nearest: Longs) -> None:
    """Write the channels of its district nearest to each partition, (partition, halo), -1 where there are no more.

    `order` has the channels partition after partition, between `edges`, and `marks` the partitions of each district;
    `nearest` is -1 before.

    A channel is as near as it is to the owned channel that it is nearest to, in units of that one's distance to its
    nearest channels, wherever these are. So an owned channel far from the others of its partition has its nearest
    channels in the halo as soon as those that have most of theirs in the partition.
    """
    channels, features = profiles.shape
    halo = nearest.shape[1]
    home = np.empty(channels, np.int64)
    for piece in range(edges.size - 1):
        home[order[edges[piece] : edges[piece + 1]]] = piece
    # The channels of every district in the order of their numbers, which decide between equals.
    by_district = np.empty(channels, np.int64)
    filled = edges[marks[:-1]].copy()
    for channel in range(channels):
        district = np.searchsorted(marks, home[channel], side="right") - 1
        by_district[filled[district]] = channel
        filled[district] += 1
    for district in range(marks.size - 1):
        low, high = marks[district], marks[district + 1]
        start, stop = edges[low], edges[high]
        width = stop - start
        numbers, pieces = by_district[start:stop], home[by_district[start:stop]]
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
        min_distance = MIN_DISTANCE * spread / width + 1e-30
        squared = np.empty(width, np.float32)
        relative, work = np.empty(width, np.float32), np.empty(width)
        for piece in range(low, high):
            relative[:] = np.inf
            for index in range(edges[piece], edges[piece + 1]):
                _squared_distances(profiles[order[index]], columns, squared)
                # The channel itself is the first of them.
                scale = np.float32(1.0 / (_smallest(squared, min(NEAREST + 1, width)) + min_distance))
                for place in range(width):
                    value = squared[place] * scale
                    relative[place] = value if value < relative[place] else relative[place]
            for place in range(width):
                if pieces[place] == piece:
                    relative[place] = np.inf
                work[place] = relative[place]
            wanted = min(halo, width - (edges[piece + 1] - edges[piece]))
            if wanted == 0:
                continue
            edge = select(work, width, wanted - 1)
            ties = wanted
            for place in range(width):
                ties -= relative[place] < edge
            column = 0
            for place in range(width):
                if relative[place] < edge or (relative[place] == edge and ties > 0):
                    ties -= relative[place] == edge
                    nearest[piece, column] = numbers[place]
                    column += 1


@exact_inner
def _squared_distances(point: Singles, columns: Singles, squared: Singles) -> None:
    """Write the squared distances of a point, (feature,), from others, (feature, point)."""
    squared[:] = np.float32(0.0)
    for feature in range(point.size):
        for place in range(squared.size):
            step = columns[feature, place] - point[feature]
            squared[place] += step * step


@exact_inner
def _smallest(values: Singles, count: int) -> float:
    """Return the `count`-th smallest value; `count` is small."""
    smallest = np.full(count, np.inf, np.float32)
    for value in values:
        if value < smallest[count - 1]:
            place = count - 1
            while place > 0 and smallest[place - 1] > value:
                smallest[place] = smallest[place - 1]
                place -= 1
            smallest[place] = value
    return float(smallest[count - 1])


@exact
def _choose_nearest(members: Longs, owned: Ints, profiles: Singles, new: Longs, chosen: Longs) -> None:
    """Write for every new channel which partition, (partition, member), owns the channels nearest to it."""
    pieces, features = members.shape[0], profiles.shape[1]
    centres = np.zeros((features, pieces), np.float32)
    for piece in range(pieces):
        for feature in range(features):
            total = 0.0
            for place in range(owned[piece]):
                total += profiles[members[piece, place], feature]
            centres[feature, piece] = total / owned[piece]
    squared = np.empty(pieces, np.float32)
    smallest = np.empty(NEAREST)
    for index in range(new.size):
        _squared_distances(profiles[new[index]], centres, squared)
        edge = _smallest(squared, min(CANDIDATES, pieces))
        best = np.inf
        for piece in range(pieces):
            if squared[piece] > edge:
                continue
            count = min(NEAREST, owned[piece])
            smallest[:] = np.inf
            for place in range(owned[piece]):
                value = 0.0
                for feature in range(features):
                    value += (profiles[members[piece, place], feature] - profiles[new[index], feature]) ** 2
                rank = count
                while rank > 0 and smallest[rank - 1] > value:
                    if rank < count:
                        smallest[rank] = smallest[rank - 1]
                    rank -= 1
                if rank < count:
                    smallest[rank] = value
            mean = 0.0
            for rank in range(count):
                mean += np.sqrt(smallest[rank]) / count
            if mean < best:
                best, chosen[index] = mean, piece


@exact
def _gather_moments(
    old: Partitioning, moments: NDArray[Any], numbers: Longs, owned: Ints, size: Ints, position: Ints, value: Floats,
    is_known: Bools, from_one: Bools,
) -> None:  # fmt: skip
    """Write the moments that old partitions have for new ones, which these are, and which all come from one.

    `numbers` are the old channel numbers of the new partitions' members, (partition, member), -1 where there are none;
    `position` is -1 for every old channel, before and after. What is written to is 0 before.
    """
    count, width = numbers.shape
    n_owned = np.zeros(old.owned.size, np.int32)
    in_source = np.empty(width, np.bool_)
    variance = np.empty(width)
    for index in range(count):
        # The old partition that owned most of those owned now; of equals the first.
        source, most = -1, 0
        for place in range(owned[index]):
            number = numbers[index, place]
            if number >= 0:
                n_owned[old.home[number]] += 1
        for place in range(owned[index]):
            number = numbers[index, place]
            if number >= 0:
                home = old.home[number]
                if n_owned[home] > most or (n_owned[home] == most and home < source):
                    source, most = home, n_owned[home]
        for place in range(owned[index]):
            if numbers[index, place] >= 0:
                n_owned[old.home[numbers[index, place]]] = 0
        in_source[:] = False
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
                    in_source[place] = True
                    variance[place] = moments[source, member, member]
        # Where each member was owned: its row there is the mean's one half, its column the other.
        for place in range(size[index]):
            number = numbers[index, place]
            if number < 0 or not variance[place] > 0:
                continue
            home, own = old.home[number], old.place[number]
            for member in range(old.size[home]):
                other = position[old.members[home, member]]
                if other < 0 or not variance[other] > 0 or (in_source[place] and in_source[other]):
                    continue
                scale = moments[home, own, own] * moments[home, member, member]
                if not scale > 0:
                    continue
                moment = moments[home, own, member] * np.sqrt(variance[place] * variance[other] / scale)
                if is_known[index, place, other]:
                    moment = (moment + value[index, place, other]) / 2
                value[index, place, other] = value[index, other, place] = moment
                is_known[index, place, other] = is_known[index, other, place] = True
        all_in_source = True
        for place in range(size[index]):
            all_in_source = all_in_source and in_source[place]
        from_one[index] = all_in_source
        if source >= 0:
            for member in range(old.size[source]):
                place = position[old.members[source, member]]
                if place < 0 or not variance[place] > 0:
                    continue
                for second in range(old.size[source]):
                    other = position[old.members[source, second]]
                    if other >= 0 and variance[other] > 0:
                        value[index, place, other] = moments[source, member, second]
                        is_known[index, place, other] = True
        for place in range(size[index]):
            value[index, place, place] = variance[place]
            is_known[index, place, place] = True
            if numbers[index, place] >= 0:
                position[numbers[index, place]] = -1


@exact
def _test_positive_definite(correlation: Floats, definite: Bools) -> None:
    """Write which matrices have no Cholesky factor whose squared diagonal is above `FLOOR`; the others stay True."""
    count, size, _ = correlation.shape
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


def _made_positive(correlation: Floats) -> Floats:
    """Return correlation matrices, (matrix, row, column), without what is negative in them, and with some to spare."""
    if not correlation.size:
        return correlation
    values, vectors = np.linalg.eigh(correlation)
    positive_part = (vectors * np.maximum(values, 0.0)[:, None, :]) @ vectors.transpose(0, 2, 1)
    removed = np.mean(_diagonal(positive_part) - 1.0, axis=1, keepdims=True)
    _diagonal(positive_part)[:] += FLOOR + np.maximum(removed, 0.0)
    scale = 1 / np.sqrt(_diagonal(positive_part))
    positive: Floats = positive_part * scale[:, :, None] * scale[:, None, :]
    return positive


def _diagonal(matrices: Floats) -> Floats:
    """Return the diagonals, (matrix, entry), to write to."""
    count, size, _ = matrices.shape
    return matrices.reshape(count, size * size)[:, :: size + 1]
