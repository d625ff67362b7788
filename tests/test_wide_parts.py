from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sensormend.arrays import as_like, on_host
from sensormend.auto.memory import Hood
from sensormend.auto.wide.bisection import DISTRICT, borders, districts
from sensormend.auto.wide.inheritance import homes, positive
from sensormend.auto.wide.parts import PATTERNS, Parts, cut, joined, kept, of_hoods, recut
from sensormend.simulate import stream

SEEDS = st.integers(0, 2**32 - 1)
Floats = NDArray[np.float32]


def drawn(seed: int, channels: int, features: int = 4) -> Floats:
    random = np.random.default_rng(seed)
    return (random.normal(size=(channels, features)) * np.linspace(3, 1, features)).astype(np.float32)


def cores(parts: Parts) -> list[list[int]]:
    return [row[:core].tolist() for row, core in zip(on_host(parts.members), on_host(parts.core), strict=True)]


def halos(parts: Parts) -> list[list[int]]:
    told = zip(on_host(parts.members), on_host(parts.core), on_host(parts.size), strict=True)
    return [row[core:size].tolist() for row, core, size in told]


def taught(parts: Parts, courses: Floats) -> Parts:
    """Let parts know the second moments of these courses, (channel, time)."""
    members, size = on_host(parts.members), on_host(parts.size)
    there = (np.arange(members.shape[1]) < size[:, None])[:, :, None]
    seen = courses[members] * there
    moments = (seen @ seen.transpose(0, 2, 1) / courses.shape[1]).astype(np.float32)
    return Parts(parts.members, parts.core, parts.size, as_like(moments, parts.moments), parts.dictionary)


def check_form(parts: Parts, channels: int) -> None:
    """What is true of parts however they came about."""
    members, core, size = on_host(parts.members), on_host(parts.core), on_host(parts.size)
    judged = [channel for part in cores(parts) for channel in part]
    assert sorted(judged) == list(range(channels))
    for row, own, outside, count in zip(members, cores(parts), halos(parts), size, strict=True):
        assert own == sorted(own)
        assert len(set(own + outside)) == count
        assert (row[count:] == row[0]).all()
    assert (core <= size).all()
    padding = np.arange(members.shape[1]) >= size[:, None]
    assert not on_host(parts.moments)[padding].any()
    assert not on_host(parts.moments).transpose(0, 2, 1)[padding].any()
    assert not on_host(parts.dictionary)[padding].any()
    assert parts.dictionary.shape == (*members.shape, PATTERNS)


@given(SEEDS, st.integers(1, 400), st.integers(2, 15), st.integers(1, 15))
def test_everyone_is_judged_once_and_parts_are_equally_large(seed: int, channels: int, core: int, halo: int) -> None:
    profiles = drawn(seed, channels).round(seed % 3)
    parts = cut(profiles, core, halo)
    check_form(parts, channels)
    sizes = parts.core.tolist()
    if channels <= core + halo:
        assert sizes == [channels]
        return
    assert len(sizes) == -(-channels // core)
    assert max(sizes) - min(sizes) <= 1
    marks = districts(len(sizes))
    assert (np.diff(marks) <= DISTRICT).all()
    district = np.searchsorted(marks, np.arange(len(sizes)), side="right")
    home = homes(parts, channels)[0]
    for index, outside in enumerate(halos(parts)):
        assert (district[home[outside]] == district[index]).all()
        within = sum(sizes[i] for i in np.flatnonzero(district == district[index]))
        assert len(outside) == min(halo, within - sizes[index])


def distances(profiles: Floats, own: list[int], crowd: list[int]) -> Floats:
    """Return how far each of a crowd is from the nearest of a part's own, each of whom counts in its own yards."""
    apart = ((profiles[own][:, None] - profiles[crowd]) ** 2).sum(axis=2)
    return np.asarray((apart / np.sort(apart, axis=1)[:, min(4, len(crowd) - 1), None]).min(axis=0))


@given(SEEDS, st.integers(30, 120), st.integers(2, 12), st.integers(1, 12))
def test_the_halo_has_the_nearest(seed: int, channels: int, core: int, halo: int) -> None:
    profiles = drawn(seed, channels)
    parts = cut(profiles, core, halo)
    for own, outside in zip(cores(parts), halos(parts), strict=True):
        apart = distances(profiles, own, list(range(channels)))
        others = np.setdiff1d(np.arange(channels), own)
        nearest = np.sort(apart[others])[: len(outside)]
        np.testing.assert_allclose(np.sort(apart[outside]), nearest, rtol=1e-3, atol=1e-3)


def test_channels_that_equal_each_other_go_by_their_numbers() -> None:
    parts = cut(np.zeros((50, 3), dtype=np.float32), 8, 6)
    assert cores(parts) == [list(range(a, b)) for a, b in zip(borders(50, 7)[:-1], borders(50, 7)[1:], strict=True)]
    for own, outside in zip(cores(parts), halos(parts), strict=True):
        assert outside == [channel for channel in range(50) if channel not in own][:6]


def test_towns_far_apart_are_not_put_together() -> None:
    towns = np.repeat(np.arange(4), 10)
    profiles = (100 * np.eye(4)[towns] + np.random.default_rng(0).normal(size=(40, 4))).astype(np.float32)
    for own in cores(cut(profiles, 10, 5)):
        assert len(set(towns[own].tolist())) == 1


def test_how_the_channels_are_numbered_does_not_matter() -> None:
    profiles = drawn(3, 6000, 16)
    shuffle = np.random.default_rng(0).permutation(6000)
    plain, turned = cut(profiles, 40, 24), cut(profiles[shuffle], 40, 24)
    assert {frozenset(own) for own in cores(plain)} == {frozenset(shuffle[own].tolist()) for own in cores(turned)}
    assert {frozenset(out) for out in halos(plain)} == {frozenset(shuffle[out].tolist()) for out in halos(turned)}


def test_a_segment_larger_than_a_block_is_cut_as_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    profiles = drawn(4, 3000, 16)
    whole = cut(profiles)
    for module in ("bisection", "fences", "parts"):
        monkeypatch.setattr(f"sensormend.auto.wide.{module}.block_numbers", lambda _: 5000)
    blocks = cut(profiles)
    assert cores(whole) == cores(blocks)
    assert halos(whole) == halos(blocks)


def test_what_is_not_a_number_says_nothing() -> None:
    profiles = drawn(5, 300)
    zeros = profiles.copy()
    profiles[7], zeros[7] = np.nan, 0.0
    np.testing.assert_array_equal(cut(profiles).members, cut(zeros).members)


def sketches(channels: int, days: int) -> tuple[Floats, Floats]:
    """Return sketches of a simulated city's first days as AutoOLRTR has them, and the standardised courses."""
    network = stream(channels, seed=1, faults=False)
    course = np.concatenate([next(network).truth for _ in range(days)], axis=1)
    slots = course.shape[1] // days
    usual = course.reshape(channels, days, slots).mean(axis=1)
    course = course - np.tile(usual, (1, days))
    course /= course.std(axis=1, keepdims=True)
    axes = np.random.default_rng(0).normal(size=(course.shape[1], 16))
    return (course @ axes).astype(np.float32), course.astype(np.float32)


def test_a_district_has_most_of_whom_a_tree_over_all_would_find() -> None:
    profiles, _ = sketches(6000, 10)
    parts = cut(profiles, 40, 24)
    assert districts(len(parts.core)).size == 5
    shares, farther = [], []
    for own, outside in zip(cores(parts), halos(parts), strict=True):
        apart = distances(profiles, own, list(range(6000)))
        apart[own] = np.inf
        anywhere = np.argsort(apart, kind="stable")[:24]
        shares.append(np.isin(outside, anywhere).mean())
        farther.append(np.sqrt(apart[outside]).mean() / np.sqrt(apart[anywhere]).mean())
    # 77 %, and they are 6 % farther off.
    assert np.mean(shares) > 0.7
    assert np.mean(farther) < 1.1


def test_the_same_cut_keeps_the_moments_as_they_are() -> None:
    profiles = drawn(6, 5000, 16)
    courses = np.random.default_rng(0).normal(size=(5000, 80)).astype(np.float32) + profiles @ np.ones(
        (16, 80), np.float32
    )
    parts = taught(cut(profiles), courses)
    again = recut(parts, profiles, np.ones(5000, dtype=bool))
    np.testing.assert_array_equal(parts.members, again.members)
    np.testing.assert_array_equal(parts.moments, again.moments)


def correlations(parts: Parts) -> Any:
    moments = on_host(parts.moments).astype(float)
    spread = np.sqrt(np.maximum(moments.diagonal(axis1=1, axis2=2), 1e-24))
    return moments / spread[:, :, None] / spread[:, None, :]


def test_a_new_cut_takes_over_what_is_known_and_is_positive_definite() -> None:
    profiles, courses = sketches(3000, 12)
    early = (courses[:, :48] @ np.random.default_rng(5).normal(size=(48, 16))).astype(np.float32)
    old = taught(cut(early), courses)
    new = recut(old, profiles, np.ones(3000, dtype=bool))
    check_form(new, 3000)
    for moments, size in zip(new.moments.astype(float), new.size, strict=True):
        spread = np.sqrt(moments.diagonal()[:size])
        np.testing.assert_allclose(spread, courses[0].std(), rtol=0.01)
        assert np.linalg.eigvalsh(moments[:size, :size] / spread[:, None] / spread).min() > 1e-3
    np.testing.assert_allclose(new.moments, new.moments.transpose(0, 2, 1), atol=1e-5)
    true = correlations(taught(new, courses))
    alike = profiles / np.linalg.norm(profiles, axis=1, keepdims=True)
    alike = alike[new.members]
    met = np.zeros((len(old.core), 3000), dtype=bool)
    met[np.arange(len(old.core))[:, None], old.members] = True
    met = met[homes(old, 3000)[0]]
    met |= met.T
    pairs = met[new.members[:, :, None], new.members[:, None, :]] & (true != 0)
    off, guessed = correlations(new) - true, alike @ alike.transpose(0, 2, 1) - true
    # Whoever met is known better than a sketch can tell, although all must fit together.
    assert np.sqrt((off[pairs] ** 2).mean()) < 0.5 * np.sqrt((guessed[pairs] ** 2).mean())
    assert np.sqrt((off[true != 0] ** 2).mean()) < np.sqrt((guessed[true != 0] ** 2).mean())


def test_who_is_not_known_has_no_moments() -> None:
    profiles, courses = sketches(600, 6)
    old = taught(cut(profiles), courses)
    known = np.ones(640, dtype=bool)
    known[::7], known[600:] = False, False
    more = np.concatenate([profiles, drawn(1, 40, 16)])
    new = recut(old, more, known)
    check_form(new, 640)
    silent = ~known[new.members]
    assert not new.moments[silent].any()
    assert not new.moments.transpose(0, 2, 1)[silent].any()
    spoken = ~silent & (np.arange(new.members.shape[1]) < new.size[:, None])
    assert (new.moments.diagonal(axis1=1, axis2=2)[spoken] > 0).all()


@given(SEEDS, st.integers(2, 84))
@settings(max_examples=30)
def test_the_positive_part_is_that_of_the_eigenvalues(seed: int, size: int) -> None:
    random = np.random.default_rng(seed)
    factors = random.normal(size=(3, size, 3))
    mixed = factors @ factors.transpose(0, 2, 1) + 0.3 * np.eye(size)
    spread = np.sqrt(mixed.diagonal(axis1=1, axis2=2))
    noise = random.uniform(-0.2, 0.2, mixed.shape)
    mixed = np.clip(mixed / spread[:, :, None] / spread[:, None, :] + noise + noise.transpose(0, 2, 1), -1, 1)
    mixed[:, np.arange(size), np.arange(size)] = 1.0
    found = positive(mixed.astype(np.float32)).astype(float)
    values, vectors = np.linalg.eigh(mixed)
    right = (vectors * np.maximum(values, 0)[:, None, :]) @ vectors.transpose(0, 2, 1)
    right += (0.002 + np.maximum(-values, 0).mean(axis=1))[:, None, None] * np.eye(size)
    spread = np.sqrt(right.diagonal(axis1=1, axis2=2))
    np.testing.assert_allclose(found, right / spread[:, :, None] / spread[:, None, :], atol=2e-3)
    assert np.linalg.eigvalsh(found).min() > 5e-4


def test_newcomers_join_those_who_are_like_them() -> None:
    profiles, courses = sketches(2000, 6)
    old = taught(cut(profiles), courses)
    old.dictionary[:] = np.where(np.arange(64)[:, None] < old.size[:, None, None], old.members[:, :, None], 0)
    twins = np.array([3, 50, 51, 1999])
    everyone = np.concatenate([profiles, profiles[twins] + 0.01])
    new = joined(old, np.arange(2000, 2004), everyone)
    check_form(new, 2004)
    assert len(new.core) == len(old.core)
    middle = np.stack([profiles[own].mean(axis=0) for own in cores(old)])
    for number, twin in enumerate(twins.tolist(), start=2000):
        home = next(index for index, own in enumerate(cores(new)) if number in own)
        apart = np.linalg.norm(middle - everyone[number], axis=1)
        assert apart[home] == pytest.approx(apart.min(), rel=1e-4), twin
    for index, (row, size) in enumerate(zip(old.members, old.size, strict=True)):
        place = [new.members[index].tolist().index(channel) for channel in row[:size].tolist()]
        np.testing.assert_array_equal(new.moments[index][np.ix_(place, place)], old.moments[index, :size, :size])
        np.testing.assert_array_equal(new.dictionary[index, place], old.dictionary[index, :size])
        fresh = np.setdiff1d(np.arange(new.members.shape[1]), place)
        assert not new.moments[index, fresh].any()
        assert not new.dictionary[index, fresh].any()


def test_too_many_newcomers_have_the_network_cut_anew() -> None:
    profiles, courses = sketches(2000, 6)
    old = taught(cut(profiles, 40, 24), courses)
    everyone = np.concatenate([profiles, profiles[[3] * 30] + 0.01])
    new = joined(old, np.arange(2000, 2030), everyone, 40, 24)
    check_form(new, 2030)
    assert len(new.core) == 51
    assert new.core.max() <= 40
    variance = new.moments.diagonal(axis1=1, axis2=2)
    real = np.arange(64) < new.size[:, None]
    np.testing.assert_allclose(variance[real & (new.members < 2000)], 1, rtol=0.01)
    assert not variance[real & (new.members >= 2000)].any()


@given(SEEDS, st.integers(1, 300), st.floats(0.0, 1.0))
@settings(max_examples=40)
def test_who_is_gone_is_nowhere(seed: int, channels: int, share: float) -> None:
    random = np.random.default_rng(seed)
    profiles = drawn(seed, channels)
    old = taught(cut(profiles, 7, 5), random.normal(size=(channels, 9)).astype(np.float32))
    old.dictionary[:] = random.normal(size=old.dictionary.shape) * (
        np.arange(old.members.shape[1])[:, None] < old.size[:, None, None]
    )
    stays = random.random(channels) < share
    new = kept(old, stays)
    check_form(new, int(stays.sum()))
    names = np.flatnonzero(stays)
    at = 0
    for index, own in enumerate(cores(old)):
        if not stays[own].any():
            continue
        size = int(old.size[index])
        rows = np.flatnonzero(stays[old.members[index, :size]])
        left = int(new.size[at])
        np.testing.assert_array_equal(names[new.members[at, :left]], old.members[index, rows])
        np.testing.assert_array_equal(new.moments[at, :left, :left], old.moments[index][np.ix_(rows, rows)])
        np.testing.assert_array_equal(new.dictionary[at, :left], old.dictionary[index, rows])
        at += 1
    assert at == len(new.core)


def test_the_hoods_of_a_small_network_become_parts() -> None:
    random = np.random.default_rng(0)

    def hood(members: list[int], core: int, patterns: int) -> Hood:
        moments = random.normal(size=(len(members), len(members))).astype(np.float32)
        dictionary = random.normal(size=(len(members), patterns)).astype(np.float32)
        return Hood(np.array(members), core, moments, dictionary)

    hoods = [hood([0, 2, 5], 2, 3), hood([1, 3, 4, 5, 0], 3, 0), hood([5], 1, 1)]
    parts = of_hoods(hoods)
    check_form(parts, 6)
    for index, told in enumerate(hoods):
        size, patterns = told.dictionary.shape
        np.testing.assert_array_equal(parts.members[index, :size], told.members)
        np.testing.assert_array_equal(parts.moments[index, :size, :size], told.moments)
        for pattern in range(patterns):
            found = parts.dictionary[index, :size, pattern]
            np.testing.assert_array_equal(found, told.dictionary[:, patterns - 1 - pattern])
        assert not parts.dictionary[index, :, patterns:].any()
    assert parts.core.tolist() == [2, 3, 1]


def test_torch_says_the_same() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("array_api_compat")
    profiles, courses = sketches(3000, 6)
    early = (courses[:, :48] @ np.random.default_rng(5).normal(size=(48, 16))).astype(np.float32)
    old = taught(cut(early), courses)
    theirs = taught(cut(torch.as_tensor(early)), courses)
    known = np.arange(3000) % 50 > 0
    newcomers = np.arange(3000, 3006)
    everyone = np.concatenate([profiles, profiles[[1, 2, 3, 700, 800, 900]] + 0.01])
    stays = np.arange(3006) % 9 > 0

    def story(parts: Parts, put: Any) -> list[Parts]:
        new = recut(parts, put(profiles), put(known))
        more = joined(new, put(newcomers), put(everyone))
        return [parts, new, more, kept(more, put(stays))]

    for mine, tensors in zip(story(old, np.asarray), story(theirs, torch.as_tensor), strict=True):
        assert all(isinstance(value, torch.Tensor) for value in vars(tensors).values())
        assert tensors.moments.dtype == tensors.dictionary.dtype == torch.float32
        for name in ("members", "core", "size", "dictionary"):
            np.testing.assert_array_equal(getattr(mine, name), on_host(getattr(tensors, name)), err_msg=name)
        np.testing.assert_allclose(mine.moments, on_host(tensors.moments), atol=1e-4)
