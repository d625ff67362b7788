from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import naive
from sensormend.auto.neighbourhoods import partition

SEEDS = st.integers(0, 2**32 - 1)


@given(SEEDS, st.integers(1, 90), st.integers(2, 15), st.integers(1, 15))
def test_everyone_is_judged_once_and_listens_to_outsiders(seed: int, channels: int, core: int, halo: int) -> None:
    random = np.random.default_rng(seed)
    profiles = random.normal(size=(channels, 4)).round(random.integers(0, 3))
    parts = partition(profiles, core, halo)
    judged = np.concatenate([part for part, _ in parts])
    np.testing.assert_array_equal(np.sort(judged), np.arange(channels))
    if channels <= core + halo:
        assert len(parts) == 1
        return
    assert len(parts) == -(-channels // core)
    for part, outside in parts:
        assert 0 < len(part) <= core
        assert len(outside) <= halo
        assert not set(part.tolist()) & set(outside.tolist())
        assert len(set(outside.tolist())) == len(outside)


@given(SEEDS, st.integers(30, 90), st.integers(2, 12))
def test_a_halo_as_large_as_the_core_has_the_nearest(seed: int, channels: int, core: int) -> None:
    profiles = np.random.default_rng(seed).normal(size=(channels, 3))
    for part, outside in partition(profiles, core, core):
        inner = part.tolist()
        found = sorted(min(float(np.linalg.norm(profiles[o] - profiles[i])) for i in inner) for o in outside.tolist())
        np.testing.assert_allclose(found, naive.nearest_outsiders(profiles, inner, core), rtol=1e-12)


def test_no_part_is_much_smaller_than_the_others() -> None:
    profiles = np.random.default_rng(0).normal(size=(1001, 5))
    sizes = [len(part) for part, _ in partition(profiles, 40, 24)]
    assert min(sizes) >= 30
    assert max(sizes) <= 40


def test_what_is_far_apart_is_not_put_together() -> None:
    random = np.random.default_rng(0)
    towns = np.repeat(np.arange(4), 10)
    profiles = 100.0 * np.eye(4)[towns] + random.normal(size=(40, 4))
    for part, _ in partition(profiles, 10, 5):
        assert len(set(towns[part].tolist())) == 1


def test_sensors_that_equal_each_other_are_cut_all_the_same() -> None:
    parts = partition(np.zeros((50, 3)), 8, 6)
    assert sorted(np.concatenate([part for part, _ in parts]).tolist()) == list(range(50))
    assert all(len(part) <= 8 and len(outside) <= 6 for part, outside in parts)
