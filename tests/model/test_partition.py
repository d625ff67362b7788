"""Partitions against slow and plain ways to the same, and what is true of them however they came about."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sensormend.model import partition as module
from sensormend.model.arrays import select
from sensormend.model.partition import (
    FEATURES,
    NEAREST,
    Partitioning,
    drop,
    extend,
    first_profiles,
    partition,
    profile_axes,
    sketch,
    transfer,
)

SEEDS = st.integers(0, 2**32 - 1)
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ints = NDArray[np.int32]


def drawn(seed: int, channels: int, features: int = 4) -> Singles:
    """Profiles, coarse for two seeds of three so that many are equal."""
    random = np.random.default_rng(seed)
    profiles = random.normal(size=(channels, features)) * np.linspace(3, 1, features)
    return profiles.round(seed % 3).astype(np.float32)


def variables(seed: int, channels: int, count: int) -> Ints:
    """The variables of channels: unequally many, and their numbers not without gaps."""
    share = np.arange(1, count + 1) / np.arange(1, count + 1).sum()
    return (3 * np.random.default_rng(seed).choice(count, channels, p=share)).astype(np.int32)


def single(n: int) -> Partitioning:
    """Return one partition that owns `n` channels; none where there are no channels."""
    return partition(np.zeros((n, 1), np.float32), np.zeros(n, np.int32))


def owned_by(partitioning: Partitioning) -> list[list[int]]:
    rows = zip(partitioning.members, partitioning.owned, strict=True)
    return [row[:count].tolist() for row, count in rows]


def halos(partitioning: Partitioning) -> list[list[int]]:
    rows = zip(partitioning.members, partitioning.owned, partitioning.size, strict=True)
    return [row[count:size].tolist() for row, count, size in rows]


def check_form(partitioning: Partitioning, group: Ints) -> None:
    """What is true of partitions however they came about."""
    for name, array in partitioning._asdict().items():
        assert array.dtype == np.int32, name
    channels = group.size
    own, outside = owned_by(partitioning), halos(partitioning)
    assert sorted(channel for part in own for channel in part) == list(range(channels))
    assert partitioning.members.shape == (len(own), partitioning.size.max(initial=0))
    for index, (inner, outer) in enumerate(zip(own, outside, strict=True)):
        assert inner
        assert inner == sorted(inner)
        assert outer == sorted(outer)
        assert len(set(inner + outer)) == len(inner + outer) == partitioning.size[index]
        assert len(set(group[inner + outer].tolist())) == 1
        assert (partitioning.members[index, partitioning.size[index] :] == -1).all()
        assert partitioning.home[inner].tolist() == [index] * len(inner)
        assert partitioning.place[inner].tolist() == list(range(len(inner)))


def equal(one: Partitioning, other: Partitioning) -> bool:
    return all(np.array_equal(array, matching) for array, matching in zip(one, other, strict=True))


# ------------------------------------------------------------------------------------------------- plain ways to it


def plain_bisection(profiles: Floats, numbers: list[int], pieces: int, edges: list[int]) -> list[list[int]]:
    if pieces == 1:
        return [numbers]
    half = pieces // 2
    cut = edges[half] - edges[0]
    centred = profiles[numbers] - profiles[numbers].mean(axis=0)
    direction = np.linalg.eigh(centred.T @ centred)[1][:, -1]
    direction *= np.sign(direction[np.abs(direction).argmax()])
    along = (centred @ direction).round(9)
    ranked = [number for _, number in sorted(zip(along.tolist(), numbers, strict=True))]
    lower = plain_bisection(profiles, sorted(ranked[:cut]), half, edges[: half + 1])
    return lower + plain_bisection(profiles, sorted(ranked[cut:]), pieces - half, edges[half:])


def plain_nearness(profiles: Floats, own: list[int], district: list[int]) -> list[tuple[float, int]]:
    """How near every channel of the district is to those of a partition, in units of their distance to the nearest."""
    inside = profiles[district]
    least = 1e-6 * np.mean(np.sum((inside - inside.mean(axis=0)) ** 2, axis=1)) + 1e-30
    nearness = []
    for channel in sorted(set(district) - set(own)):
        near = np.inf
        for owner in own:
            apart = np.sum((inside - profiles[owner]) ** 2, axis=1)
            reach = np.sort(apart)[min(NEAREST, apart.size - 1)]
            near = min(near, np.sum((profiles[channel] - profiles[owner]) ** 2) / (reach + least))
        nearness.append((float(near), channel))
    return sorted(nearness)


def check_halo(profiles: Singles, own: list[int], outer: list[int], district: list[int], halo: int) -> None:
    """The nearest are in the halo; single precision may exchange those that are equally near."""
    nearness = plain_nearness(profiles.astype(float), own, district)
    assert len(outer) == min(halo, len(nearness))
    farthest = max(near for near, channel in nearness if channel in outer)
    assert farthest == pytest.approx(nearness[len(outer) - 1][0], rel=1e-4, abs=1e-9)
    assert {channel for near, channel in nearness if near < farthest * (1 - 1e-3) - 1e-9} <= set(outer)


def plain_joined(partitioning: Partitioning, profiles: Floats, pieces: list[int], channel: int) -> int:
    def apart(index: int) -> float:
        own = owned_by(partitioning)[index]
        away = np.sqrt(np.sum((profiles[own] - profiles[channel]) ** 2, axis=1))
        return float(np.sort(away)[:NEAREST].mean())

    return min(pieces, key=lambda index: (apart(index), index))


# --------------------------------------------------------------------------------------------------------- partition


@given(SEEDS, st.integers(0, 400), st.integers(1, 4), st.integers(1, 15), st.integers(0, 15), st.integers(1, 30))
def test_every_channel_is_owned_once_and_by_partitions_of_its_variable(
    seed: int, channels: int, count: int, owned: int, halo: int, max_single: int
) -> None:
    profiles, group = drawn(seed, channels), variables(seed, channels, count)
    made = partition(profiles, group, max_single=max_single, owned=owned, halo=halo)
    check_form(made, group)
    variable = np.array([group[own[0]] for own in owned_by(made)])
    assert (np.diff(variable) >= 0).all()
    for one in np.unique(group):
        sizes = made.owned[variable == one]
        total = int((group == one).sum())
        if total <= max_single:
            assert sizes.tolist() == [total]
            continue
        assert sizes.max() <= owned
        assert sizes.max() - sizes.min() <= 1
        for inner, outer in zip(owned_by(made), halos(made), strict=True):
            if group[inner[0]] == one and sizes.size <= module.DISTRICT:
                assert len(outer) == min(halo, total - len(inner))
    assert equal(made, partition(profiles, group, max_single=max_single, owned=owned, halo=halo))


@given(SEEDS, st.integers(1, 120), st.integers(1, 12))
def test_channels_are_cut_across_the_principal_direction(seed: int, channels: int, owned: int) -> None:
    # Distinct strengths: seven squarings leave no doubt which direction is the principal one.
    profiles = np.random.default_rng(seed).normal(size=(channels, 3)) * [30, 3, 0.3]
    profiles = profiles.astype(np.float32).astype(float)
    made = partition(profiles.astype(np.float32), np.zeros(channels, np.int32), max_single=1, owned=owned, halo=0)
    pieces = -(-channels // owned)
    edges = [channels * index // pieces for index in range(pieces + 1)]
    if owned >= 8:  # of fewer channels chance makes the strengths nearly equal
        assert owned_by(made) == plain_bisection(profiles, list(range(channels)), pieces, edges)
    first = plain_bisection(profiles, list(range(channels)), min(pieces, 2), [0, edges[pieces // 2], channels])
    if channels >= 20 and pieces >= 2:
        assert np.flatnonzero(made.home < pieces // 2).tolist() == first[0]


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.integers(20, 90), st.integers(2, 12), st.integers(1, 12))
def test_halos_are_the_nearest_channels_outside(seed: int, channels: int, owned: int, halo: int) -> None:
    profiles = drawn(seed, channels).round(2)
    made = partition(profiles, np.zeros(channels, np.int32), max_single=1, owned=owned, halo=halo)
    for inner, outer in zip(owned_by(made), halos(made), strict=True):
        if len(inner) < channels:
            check_halo(profiles, inner, outer, list(range(channels)), halo)


@given(SEEDS, st.integers(1, 300), st.floats(0, 1))
def test_selection_finds_what_sorting_finds(seed: int, count: int, share: float) -> None:
    values = np.random.default_rng(seed).normal(size=count + 5).round(seed % 3)
    values[:count][seed % 7 :: 7] = np.inf
    place = int(share * (count - 1))
    expected = np.sort(values[:count])[place]
    assert select.py_func(values, count, place) == expected
    assert (np.sort(values[:place]) <= expected).all()


def test_ties_go_to_the_lower_number() -> None:
    profiles = np.zeros((12, 3), np.float32)
    made = partition(profiles, np.zeros(12, np.int32), max_single=4, owned=4, halo=3)
    assert owned_by(made) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert halos(made) == [[4, 5, 6], [0, 1, 2], [0, 1, 2]]


def test_halos_stay_within_their_district(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DISTRICT", 4)
    profiles = drawn(3, 200)
    made = partition(profiles, np.zeros(200, np.int32), max_single=10, owned=10, halo=12)
    marks = module._districts(20)
    assert np.diff(marks).max() <= 4
    district = np.searchsorted(marks, np.arange(20), side="right")
    for index, outer in enumerate(halos(made)):
        assert (district[made.home[outer]] == district[index]).all()
        inside = np.flatnonzero(district[made.home] == district[index]).tolist()
        check_halo(profiles, owned_by(made)[index], outer, inside, 12)


def test_channels_apart_from_their_partition_have_their_nearest_in_the_halo() -> None:
    random = np.random.default_rng(0)
    # Eight loose channels in the middle of the direction in which the dense ones are cut: four go to either side.
    dense = np.stack([np.linspace(-100, 100, 88), random.normal(size=88) * 0.01], axis=1)
    loose = np.stack([np.linspace(-2, 2, 8), random.uniform(50, 60, 8)], axis=1)
    profiles = np.concatenate([dense, loose]).astype(np.float32)
    made = partition(profiles, np.zeros(96, np.int32), max_single=48, owned=48, halo=8)
    for inner, outer in zip(owned_by(made), halos(made), strict=True):
        assert sum(channel >= 88 for channel in inner) == 4
        assert set(range(88, 96)) <= set(inner + outer)


def test_small_networks_are_one_partition_per_variable() -> None:
    assert single(5).members.tolist() == [list(range(5))]
    assert equal(single(5), partition(drawn(0, 5), np.zeros(5, np.int32)))
    made = partition(drawn(0, 6), np.array([1, 0, 1, 0, 1, 1], np.int32))
    assert made.members.tolist() == [[1, 3, -1, -1], [0, 2, 4, 5]]
    assert made.home.tolist() == [1, 0, 1, 0, 1, 1]
    assert made.place.tolist() == [0, 0, 1, 1, 2, 3]
    assert single(0).members.shape == (0, 0)


def test_profiles_may_have_gaps() -> None:
    profiles = drawn(2, 200)
    gappy = profiles.copy()
    gappy[::7] = np.nan
    profiles[::7] = 0
    group = np.zeros(200, np.int32)
    assert equal(partition(gappy, group), partition(profiles, group))


@pytest.mark.parametrize("wrong", [{"owned": 0}, {"halo": -1}, {"max_single": 0}])
def test_partitions_that_cannot_be_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least one"):
        partition(drawn(0, 9), np.zeros(9, np.int32), **wrong)
    with pytest.raises(ValueError, match="same channels"):
        partition(drawn(0, 9), np.zeros(8, np.int32))


# ---------------------------------------------------------------------------------------------------- extend and drop


@settings(deadline=None)
@given(SEEDS, st.integers(1, 150), st.integers(1, 30), st.integers(1, 3))
def test_channels_join_the_partition_with_the_nearest(seed: int, channels: int, new: int, count: int) -> None:
    total = channels + new
    profiles, group = drawn(seed, total).round(4), variables(seed, total, count)
    profiles += np.random.default_rng(seed).normal(size=profiles.shape).astype(np.float32) * 1e-3
    joins = np.sort(np.random.default_rng(seed).choice(total, new, replace=False))
    old = np.setdiff1d(np.arange(total), joins)
    sizes = {"max_single": 30, "owned": 10, "halo": 6}
    before = partition(profiles[old], group[old], **sizes)
    after = extend(before, profiles, group, joins, **sizes)
    check_form(after, group)
    if equal(after, partition(profiles, group, **sizes)):
        return
    alone = np.bincount(group[after.members[:, 0]]) == 1
    assert (after.owned <= np.where(alone[group[after.members[:, 0]]], 30, 15)).all()
    assert (after.home[old] == before.home).all()
    for index, outer in enumerate(halos(before)):
        assert halos(after)[index] == old[outer].tolist()
    members = np.where(before.members >= 0, old[before.members], -1).astype(np.int32)
    renumbered = Partitioning(members, before.owned, before.size, before.home, before.place)
    for channel in joins:
        pieces = np.flatnonzero(group[renumbered.members[:, 0]] == group[channel]).tolist()
        if pieces and len(pieces) <= module.CANDIDATES:
            assert after.home[channel] == plain_joined(renumbered, profiles.astype(float), pieces, channel)


def test_a_partition_that_outgrows_itself_means_a_new_cut() -> None:
    profiles, group = drawn(2, 160), np.zeros(160, np.int32)
    before = partition(profiles[:90], group[:90])
    assert before.owned.tolist() == [90]
    assert extend(before, profiles[:96], group[:96], np.arange(90, 96)).owned.tolist() == [96]
    after = extend(before, profiles[:97], group[:97], np.arange(90, 97))
    assert equal(after, partition(profiles[:97], group[:97]))
    cut = partition(profiles[:120], group[:120])
    assert cut.owned.tolist() == [40] * 3
    close = np.concatenate([profiles[:120], np.repeat(profiles[:1], 40, axis=0)])
    assert sorted(extend(cut, close[:140], group[:140], np.arange(120, 140)).owned) == [40, 40, 60]
    assert equal(extend(cut, close[:141], group[:141], np.arange(120, 141)), partition(close[:141], group[:141]))


def test_the_first_channels_of_a_variable_are_a_partition() -> None:
    group = np.array([0, 1, 0, 1, 2], np.int32)
    after = extend(single(2), drawn(0, 5), group, np.array([1, 3, 4]))
    assert owned_by(after) == [[0, 2], [1, 3], [4]]
    check_form(after, group)
    with pytest.raises(ValueError, match="3 channels do not join"):
        extend(single(2), drawn(0, 5), group, np.array([1, 3]))


def test_many_partitions_are_searched_by_their_centres_first() -> None:
    profiles, group = drawn(2, 2100).round(3), np.zeros(2100, np.int32)
    before = partition(profiles[:2000], group[:2000])
    after = extend(before, profiles, group, np.arange(2000, 2100))
    check_form(after, group)
    pieces = list(range(before.owned.size))
    plain = [plain_joined(before, profiles.astype(float), pieces, channel) for channel in range(2000, 2020)]
    assert np.mean(after.home[2000:2020] == plain) > 0.8


@given(SEEDS, st.integers(1, 200), st.integers(1, 3), st.floats(0, 1))
def test_channels_that_go_leave_the_others_where_they_were(seed: int, channels: int, count: int, share: float) -> None:
    profiles, group = drawn(seed, channels), variables(seed, channels, count)
    before = partition(profiles, group, max_single=20, owned=10, halo=6)
    keep = np.random.default_rng(seed).random(channels) < share
    after = drop(before, keep)
    check_form(after, group[keep])
    number = np.cumsum(keep) - 1
    rows = [(own, outer) for own, outer in zip(owned_by(before), halos(before), strict=True) if keep[own].any()]
    assert owned_by(after) == [number[[one for one in own if keep[one]]].tolist() for own, _ in rows]
    assert halos(after) == [number[[one for one in outer if keep[one]]].tolist() for _, outer in rows]


# ----------------------------------------------------------------------------------------------------------- transfer


def second_moments(partitioning: Partitioning, courses: Floats) -> Floats:
    """The second moments of these courses, (channel, time), in each partition."""
    real = partitioning.members >= 0
    seen = courses[partitioning.members] * real[:, :, None]
    return np.asarray(seen @ seen.transpose(0, 2, 1) / courses.shape[1])


def network(seed: int, channels: int, features: int = 6) -> tuple[Singles, Floats]:
    """Profiles and courses whose correlations they tell, roughly."""
    random = np.random.default_rng(seed)
    profiles = random.normal(size=(channels, features)) * np.linspace(2, 0.5, features)
    courses = profiles @ random.normal(size=(features, 300)) + 0.7 * random.normal(size=(channels, 300))
    return profiles.astype(np.float32), courses * random.uniform(0.5, 5, channels)[:, None]


def check_moments(moments: Floats, partitioning: Partitioning, deviation: Floats) -> None:
    """Moments are symmetric and positive definite, but for padding and channels that never varied, which are zero."""
    assert np.array_equal(moments, moments.transpose(0, 2, 1))
    for matrix, members in zip(moments, partitioning.members, strict=True):
        varied = np.where(members >= 0, deviation[members], 0.0) > 0
        assert not matrix[~varied].any()
        own = np.sqrt(matrix.diagonal()[varied])
        assert np.linalg.eigvalsh(matrix[np.ix_(varied, varied)] / np.outer(own, own)).min(initial=1.0) > 1e-4


def plain_transfer(
    old: Partitioning, moments: Floats, members: list[int], owned: int, old_numbers: list[int]
) -> dict[tuple[int, int], float]:
    """The moments of pairs of a new partition that were together, all channels having the same variance everywhere."""
    homes = [int(old.home[old_numbers[channel]]) for channel in members[:owned] if old_numbers[channel] >= 0]
    source = min(homes, key=lambda home: (-homes.count(home), home)) if homes else -1
    result = {}
    for one in members:
        for other in members:
            pair = old_numbers[one], old_numbers[other]
            if min(pair) < 0:
                continue
            places = [source] if set(pair) <= set(old.members[source].tolist()) else old.home[list(pair)].tolist()
            places = [place for place in places if set(pair) <= set(old.members[place].tolist())]
            where = [[old.members[place].tolist().index(channel) for channel in pair] for place in places]
            together = [moments[place][tuple(index)] for place, index in zip(places, where, strict=True)]
            if together:
                result[one, other] = float(np.mean(together))
    return result


@settings(max_examples=20, deadline=None)
@given(SEEDS, st.integers(60, 150))
def test_pairs_that_were_together_keep_their_moments(seed: int, channels: int) -> None:
    """Whatever each pair's moments are, as long as the new matrices come out positive definite by themselves."""
    random = np.random.default_rng(seed)
    profiles = random.normal(size=(channels, 200)).astype(np.float32)
    group = np.zeros(channels, np.int32)
    old = partition(drawn(seed, channels), group, max_single=20, owned=12, halo=8)
    real = old.members >= 0
    moments = random.uniform(-0.04, 0.04, (*real.shape, real.shape[1]))
    moments = (moments + moments.transpose(0, 2, 1)) * real[:, :, None] * real[:, None, :]
    deviation = random.uniform(0.5, 5, channels)
    scale = deviation[old.members] * real
    moments *= scale[:, :, None] * scale[:, None, :]
    index = np.arange(real.shape[1])
    moments[:, index, index] = scale**2
    # A tenth goes, a tenth comes.
    stays = np.flatnonzero(random.random(channels) < 0.9)
    numbers = np.full(channels, -1)
    numbers[: stays.size] = stays
    random.shuffle(numbers)
    new = partition(drawn(seed + 1, channels), group, max_single=20, owned=12, halo=8)
    result = transfer(old, moments, new, profiles, numbers)
    own = np.where(numbers >= 0, deviation[numbers], 0.0)
    check_moments(result, new, own)
    unit = profiles.astype(float) / np.linalg.norm(profiles.astype(float), axis=1, keepdims=True)
    for part, matrix in enumerate(result):
        members = new.members[part, : new.size[part]].tolist()
        expected = (unit[members] @ unit[members].T) * np.outer(own[members], own[members])
        together = plain_transfer(old, moments, members, int(new.owned[part]), numbers.tolist())
        for (one, other), moment in together.items():
            expected[members.index(one), members.index(other)] = moment
        assert matrix[: len(members), : len(members)] == pytest.approx(expected, rel=1e-5, abs=1e-5)


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.integers(30, 200), st.integers(1, 2))
def test_moments_are_positive_definite_and_variances_stay(seed: int, channels: int, count: int) -> None:
    profiles, courses = network(seed, channels)
    group = variables(seed, channels, count)
    random = np.random.default_rng(seed)
    numbers = np.where(random.random(channels) < 0.9, np.arange(channels), -1)
    old = partition(random.normal(size=profiles.shape).astype(np.float32), group, max_single=30, owned=12, halo=8)
    new = partition(profiles, group, max_single=30, owned=12, halo=8)
    moments = second_moments(old, courses)
    result = transfer(old, moments.astype(np.float32), new, profiles, numbers)
    assert result.dtype == np.float32
    variance = np.where(numbers >= 0, np.mean(courses**2, axis=1), 0.0)
    check_moments(result.astype(float), new, np.sqrt(variance))
    real = new.members >= 0
    assert np.diagonal(result, axis1=1, axis2=2)[real] == pytest.approx(variance[new.members][real], rel=1e-5)


@given(SEEDS, st.integers(1, 120))
def test_partitions_that_stay_keep_their_moments_bit_by_bit(seed: int, channels: int) -> None:
    profiles, courses = network(seed, channels)
    # Fewer times than members: not positive definite, and left as it is.
    courses = courses[:, :5]
    old = partition(profiles, np.zeros(channels, np.int32), max_single=30, owned=12, halo=8)
    moments = second_moments(old, courses)
    numbers = np.arange(channels)
    assert np.array_equal(transfer(old, moments, old, profiles, numbers), moments)
    keep = np.random.default_rng(seed).random(channels) < 0.8
    left = drop(old, keep)
    result = transfer(old, moments, left, profiles[keep], numbers[keep])
    alive = [own for own in range(old.owned.size) if keep[old.members[own, : old.owned[own]]].any()]
    for matrix, size, index in zip(result, left.size, alive, strict=True):
        stays = keep[old.members[index]] & (old.members[index] >= 0)
        assert np.array_equal(matrix[:size, :size], moments[index][np.ix_(stays, stays)])


def test_channels_that_never_varied() -> None:
    moments = np.diag([1.0, 0.0, 4.0])[None]
    moments[0, 0, 2] = moments[0, 2, 0] = 1.0
    profiles = np.array([[1.0, 0], [1, 1], [0, 1]], np.float32)
    assert np.array_equal(transfer(single(3), moments, single(3), profiles, np.arange(3)), moments)


def test_pairs_that_were_never_together_are_predicted_from_by_their_likeness() -> None:
    """What new partitions leave open of their channels' variance with what was taken over, and at best."""
    profiles, courses = network(5, 160)
    group = np.zeros(160, np.int32)
    first = first_profiles(courses[:, :24] / courses.std(axis=1, keepdims=True), group)
    old = partition(first, group, owned=20, halo=10)
    new = partition(profiles, group, owned=20, halo=10)
    moments = transfer(old, second_moments(old, courses), new, profiles, np.arange(160))

    def left_open(matrices: Floats) -> float:
        total = 0.0
        for members, size, matrix in zip(new.members, new.size, matrices, strict=True):
            weight = np.linalg.inv(matrix[:size, :size])
            residual = (weight @ courses[members[:size]]) / weight.diagonal()[:, None]
            total += float(np.mean(residual**2 / np.var(courses[members[:size]], axis=1, keepdims=True)))
        return total / new.size.size

    best = left_open(second_moments(new, courses))
    assert best < left_open(moments) < 4 * best < 0.4


# ----------------------------------------------------------------------------------------------------------- profiles


@given(SEEDS, st.integers(2, 60), st.integers(1, 40))
def test_first_profiles_have_the_distances_of_what_is_not_common(seed: int, channels: int, slots: int) -> None:
    random = np.random.default_rng(seed)
    inner = min(slots, FEATURES)
    deviation = random.normal(size=(channels, inner)) @ random.normal(size=(inner, slots)) * 0.2 + 3
    deviation[random.random(deviation.shape) < (0.1 if slots <= FEATURES else 0)] = np.nan
    profiles = first_profiles(deviation, np.zeros(channels, np.int32))
    assert profiles.shape == (channels, FEATURES)
    assert profiles.dtype == np.float32
    seen = np.isfinite(deviation)
    common = np.where(seen, deviation, 0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    beyond = np.where(seen, np.clip(deviation - common, -8, 8), 0)
    if np.abs(deviation[seen] - np.broadcast_to(common, seen.shape)[seen]).max(initial=0) < 8:
        assert profiles @ profiles.T == pytest.approx(beyond @ beyond.T, abs=1e-3, rel=1e-4)


def test_every_variable_has_its_own_common_course(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(1)
    deviation = random.normal(size=(50, 12))
    group = variables(1, 50, 3)
    shifted = deviation + 2.0 * group[:, None]
    expected = first_profiles(deviation, group)
    assert first_profiles(shifted, group) == pytest.approx(expected, abs=1e-5)
    monkeypatch.setattr(module, "BLOCK", 100)
    assert first_profiles(deviation, group) == pytest.approx(expected, abs=1e-5)


def test_empty_slots_of_a_first_period_change_no_profile() -> None:
    random = np.random.default_rng(2)
    deviation, group = random.normal(size=(50, 30)).cumsum(axis=1) / 5, variables(2, 50, 2)
    begun = np.full((50, 480), np.nan)
    begun[:, :30] = deviation
    assert np.array_equal(first_profiles(begun, group), first_profiles(deviation, group))
    assert not first_profiles(np.full((3, 24), np.nan), np.zeros(3, np.int32)).any()


def test_sketches_tell_correlations() -> None:
    random = np.random.default_rng(0)
    common = random.normal(size=(400, 24))
    profiles = np.zeros((3, FEATURES), np.float32)
    total = np.zeros((3, 3))
    for period in range(400):
        own = random.normal(size=(3, 24))
        course = np.stack([common[period], 0.8 * common[period] + 0.6 * own[1], own[2]])
        for profile, one in zip(profiles, course.astype(np.float32), strict=True):
            sketch(profile, one, profile_axes(24, period))
        unit = profiles / np.linalg.norm(profiles, axis=1, keepdims=True)
        total += (unit @ unit.T) / 400
    assert total == pytest.approx(np.array([[1, 0.8, 0], [0.8, 1, 0], [0, 0, 1]]), abs=0.1)
    before = profiles.copy()
    sketch(profiles[0], np.full(24, np.nan, np.float32), profile_axes(24, 0))
    assert profiles[0] == pytest.approx(0.97 * before[0])
    assert np.array_equal(profile_axes(24, 7, seed=3), profile_axes(24, 7, seed=3))
    assert not np.array_equal(profile_axes(24, 7, seed=3), profile_axes(24, 8, seed=3))
