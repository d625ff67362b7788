from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.linalg import toeplitz

import naive
from sensormend.auto import timeline

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
SEEDS = st.integers(0, 2**32 - 1)


class Dense(NamedTuple):
    residual: Floats
    open: Floats


def decaying(scale: float, size: int) -> Floats:
    return np.asarray(np.exp(-np.arange(size) / scale))


def remembered(random: np.random.Generator, channels: int) -> tuple[Floats, Floats]:
    """The two newest residuals of the past and their ages; some have one, some none."""
    age = np.cumsum(random.integers(1, 30, (channels, 2)).astype(float), axis=1)
    how_many = random.integers(0, 3, channels)
    age[np.arange(2) >= how_many[:, None]] = np.inf
    return np.where(np.isfinite(age), random.normal(size=(channels, 2)), 0.0), age


def carry(residual: Floats, trusted: Bools | None, last: Floats, age: Floats, table: Floats, cells: Bools) -> Dense:
    """Carry over the residuals of one variable, laid out as they came."""
    whose = np.zeros(len(residual), dtype=np.intp)
    found = timeline.carry(residual, trusted, last, age, table[None], whose, cells)
    estimate, remaining = np.zeros(residual.shape), np.ones(residual.shape)
    estimate[found.row, found.slot], remaining[found.row, found.slot] = found.residual, found.open
    return Dense(estimate, remaining)


@given(SEEDS, st.integers(1, 5), st.integers(1, 12), st.sampled_from([0.0, 0.3, 0.7, 1.0]))
def test_carry_is_kriging_from_the_nearest(seed: int, channels: int, slots: int, share: float) -> None:
    random = np.random.default_rng(seed)
    residual = random.normal(size=(channels, slots))
    trusted = random.random((channels, slots)) < share
    cells = random.random((channels, slots)) < 0.7
    last, age = remembered(random, channels)
    table = decaying(random.uniform(0.5, 20), 40)
    found = carry(residual, trusted, last, age, table, cells)
    estimate, remaining = naive.carried(residual, trusted, last, age, table, cells, timeline.NEAREST)
    np.testing.assert_allclose(found.residual, estimate, atol=1e-9)
    np.testing.assert_allclose(found.open, remaining, atol=1e-9)


@given(SEEDS, st.integers(1, 5), st.integers(1, 12))
def test_whole_fibers_are_carried_from_the_past_alone(seed: int, channels: int, slots: int) -> None:
    random = np.random.default_rng(seed)
    residual, cells = random.normal(size=(channels, slots)), random.random((channels, slots)) < 0.7
    last, age = remembered(random, channels)
    table = decaying(random.uniform(0.5, 20), 40)
    one = carry(residual, None, last, age, table, cells)
    other = carry(residual, np.zeros_like(cells), last, age, table, cells)
    np.testing.assert_allclose(one.residual, other.residual, atol=1e-12)
    np.testing.assert_allclose(one.open, other.open, atol=1e-12)


@given(SEEDS)
def test_every_variable_is_carried_by_its_own_correlation(seed: int) -> None:
    random = np.random.default_rng(seed)
    residual, trusted = random.normal(size=(4, 8)), random.random((4, 8)) < 0.6
    last, age = remembered(random, 4)
    tables = np.stack([decaying(2, 300), decaying(20, 300)])
    variable = np.array([0, 1, 1, 0])
    found = timeline.carry(residual, trusted, last, age, tables, variable, ~trusted)
    near = timeline.between(residual, trusted, tables, variable)
    for row, which in enumerate(variable):
        mine = slice(row, row + 1)
        alone = carry(residual[mine], trusted[mine], last[mine], age[mine], tables[which], ~trusted[mine])
        np.testing.assert_allclose(found.residual[found.row == row], alone.residual[~trusted[mine]])
        beside = timeline.between(residual[mine], trusted[mine], tables[which][None], np.zeros(1, dtype=np.intp))
        np.testing.assert_allclose(near[mine], beside)


@given(SEEDS)
def test_carry_never_looks_at_the_cell_itself(seed: int) -> None:
    random = np.random.default_rng(seed)
    residual = random.normal(size=(3, 8))
    trusted = random.random((3, 8)) < 0.8
    last, age = remembered(random, 3)
    cells = np.zeros((3, 8), dtype=bool)
    cells[1, 4] = True
    table = decaying(5, 400)
    one = carry(residual, trusted, last, age, table, cells)
    residual[1, 4] = 1e6
    trusted[1, 4] = True
    other = carry(residual, trusted, last, age, table, cells)
    assert one.residual[1, 4] == other.residual[1, 4]
    assert (one.residual[~cells] == 0).all()
    assert (one.open[~cells] == 1).all()


def test_nothing_to_carry_from() -> None:
    nobody, never = np.zeros((2, 5), dtype=bool), np.full((2, 2), np.inf)
    everywhere = np.ones((2, 5), dtype=bool)
    found = carry(np.ones((2, 5)), nobody, np.zeros((2, 2)), never, decaying(3, 300), everywhere)
    assert not found.residual.any()
    assert (found.open == 1).all()
    nowhere = carry(np.ones((2, 5)), everywhere, np.zeros((2, 2)), never, decaying(3, 300), nobody)
    assert not nowhere.residual.any()


def test_carry_over_no_channels() -> None:
    none = np.zeros((0, 5))
    found = carry(none, none > 0, np.zeros((0, 2)), np.zeros((0, 2)), decaying(3, 300), none > 0)
    assert found.residual.shape == (0, 5)


def test_a_lasting_distance_fills_a_gap() -> None:
    residual = np.array([[2.0, 2.0, 0.0, 0.0, 2.0, 2.0]])
    trusted = residual > 0
    never = np.full((1, 2), np.inf)
    found = carry(residual, trusted, np.zeros((1, 2)), never, decaying(1000, 300), ~trusted)
    np.testing.assert_allclose(found.residual[~trusted], 2.0, rtol=0.01)
    assert (found.open[~trusted] < 0.01).all()


def test_the_farther_the_gap_the_less_is_known() -> None:
    last, age = np.array([[3.0, 3.0]]), np.array([[1.0, 2.0]])
    nobody = np.zeros((1, 12), dtype=bool)
    found = carry(np.zeros((1, 12)), nobody, last, age, decaying(4, 600), ~nobody)
    assert (np.diff(found.residual[0]) < 0).all()
    assert (np.diff(found.open[0]) > 0).all()


@given(SEEDS, st.integers(1, 5), st.integers(1, 12), st.sampled_from([0.0, 0.5, 1.0]))
def test_between_is_kriging_from_both_sides(seed: int, channels: int, slots: int, share: float) -> None:
    random = np.random.default_rng(seed)
    residual = random.normal(size=(channels, slots))
    trusted = random.random((channels, slots)) < share
    table = decaying(random.uniform(0.5, 20), 40)
    found = timeline.between(residual, trusted, table[None], np.zeros(channels, dtype=np.intp))
    np.testing.assert_allclose(found, naive.beside(residual, trusted, table), atol=1e-9)


def sums(wanted: Floats, slots: int, count: float = 200.0) -> tuple[Floats, Floats]:
    """Products and pairs as a network of `count` fibers leaves them at each lag."""
    pairs = count * (slots - np.arange(slots))
    return wanted[:slots] * pairs, np.asarray(pairs, dtype=float)


@pytest.mark.parametrize("scale", [1.5, 6.0, 30.0, 100.0])
def test_a_known_correlation_is_found_again(scale: float) -> None:
    wanted = 0.8 * decaying(scale, 24 * timeline.AGE_LIMIT + 1)
    wanted[0] = 1.0
    products, pairs = sums(wanted, 24)
    daily = np.array([wanted[24], 1.0])
    found = timeline.correlation(products, pairs, daily, 24)
    np.testing.assert_allclose(found[:25], wanted[:25], atol=0.05)


@given(SEEDS, st.sampled_from([1, 2, 7, 24]))
def test_the_correlation_is_valid_whatever_was_summed(seed: int, slots: int) -> None:
    random = np.random.default_rng(seed)
    products, pairs = sums(random.uniform(-1, 1, slots), slots)
    products[0] = abs(products[0])
    pairs[random.random(slots) < 0.2] = 0
    table = timeline.correlation(products, pairs, random.uniform(-1, 1, 2), slots)
    assert table.shape == (timeline.AGE_LIMIT * slots + 1,)
    assert table[0] == 1
    assert ((table >= 0) & (table <= 1)).all()
    assert (np.diff(table) <= 1e-12).all()
    assert np.linalg.eigvalsh(toeplitz(table[: 3 * slots])).min() > -1e-9


def test_without_any_sums_nothing_is_alike() -> None:
    table = timeline.correlation(np.zeros(24), np.zeros(24), np.zeros(2), 24)
    assert table[0] == 1
    assert not table[1:].any()
