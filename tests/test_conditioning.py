from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import naive
from sensormend.auto.conditioning import Conditioned, condition

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
SEEDS = st.integers(0, 2**32 - 1)


def drawn(seed: int, members: int, slots: int, share: float) -> tuple[Floats, Floats, Bools]:
    """A covariance, deviations on very different scales, and what is trusted of them."""
    random = np.random.default_rng(seed)
    factors = random.normal(size=(members, 3))
    unit = 10 ** random.uniform(-2, 2, members)
    covariance = (factors @ factors.T + np.diag(random.uniform(0.1, 1, members))) * unit[:, None] * unit
    deviation = random.normal(size=(members, slots)) * unit[:, None]
    return covariance, deviation, random.random((members, slots)) < share


@dataclass
class One:
    """What is said of the one neighbourhood of a stack."""

    expected: Floats
    variance: Floats
    completed: Floats
    uncertainty: Floats
    pull: Floats
    precision: Floats


def alone(found: Conditioned, index: int = 0, members: int | None = None) -> One:
    row, square = (index, slice(members)), (index, slice(members), slice(members))
    return One(
        found.expected[row],
        found.variance()[row],
        found.completed[row],
        found.uncertainty()[square],
        found.pull[row],
        found.precision[square],
    )


def conditioned(covariance: Floats, deviation: Floats, trusted: Bools) -> One:
    return alone(condition(covariance[None], deviation[None], trusted[None]))


def against_the_oracle(covariance: Floats, deviation: Floats, trusted: Bools) -> One:
    found = conditioned(covariance, deviation, trusted)
    unit = np.sqrt(covariance.diagonal())
    expected, variance, completed, uncertainty = naive.conditioned(covariance, deviation, trusted)
    np.testing.assert_allclose(found.expected / unit[:, None], expected / unit[:, None], atol=1e-8)
    np.testing.assert_allclose(found.completed / unit[:, None], completed / unit[:, None], atol=1e-8)
    np.testing.assert_allclose(found.variance / unit[:, None] ** 2, variance / unit[:, None] ** 2, atol=1e-8)
    scaled = found.uncertainty / unit[:, None] / unit
    np.testing.assert_allclose(scaled, uncertainty / unit[:, None] / unit, atol=1e-8)
    return found


@given(SEEDS, st.integers(1, 7), st.integers(1, 6), st.sampled_from([0.5, 0.8, 1.0]))
def test_members_with_gaps(seed: int, members: int, slots: int, share: float) -> None:
    covariance, deviation, trusted = drawn(seed, members, slots, share)
    # Everyone is there at least once: without that see the next two.
    trusted[np.arange(members), np.arange(members) % slots] = True
    found = against_the_oracle(covariance, deviation, trusted)
    np.testing.assert_array_equal(found.completed[trusted], deviation[trusted])


@given(SEEDS, st.integers(1, 7), st.integers(1, 6))
def test_members_that_are_absent(seed: int, members: int, slots: int) -> None:
    covariance, deviation, trusted = drawn(seed, members, slots, 1.0)
    trusted &= (np.random.default_rng(seed).random(members) < 0.6)[:, None]
    against_the_oracle(covariance, deviation, trusted)


@given(SEEDS, st.integers(2, 7), st.integers(1, 6))
def test_absent_members_beside_gaps(seed: int, members: int, slots: int) -> None:
    covariance, deviation, trusted = drawn(seed, members, slots, 0.7)
    trusted[0] = False
    against_the_oracle(covariance, deviation, trusted)


def test_nobody_is_there() -> None:
    covariance, deviation, _ = drawn(0, 4, 3, 1.0)
    found = against_the_oracle(covariance, deviation, np.zeros((4, 3), dtype=bool))
    np.testing.assert_array_equal(found.uncertainty, covariance)
    assert not found.precision.any()


def test_a_single_member_is_known_only_by_itself() -> None:
    covariance, deviation, _ = drawn(1, 1, 5, 1.0)
    trusted = np.array([[True, False, True, False, False]])
    found = against_the_oracle(covariance, deviation, trusted)
    np.testing.assert_allclose(found.expected, 0.0, atol=1e-12)


@given(SEEDS)
def test_precision_and_pull_say_what_the_expectation_rests_on(seed: int) -> None:
    covariance, deviation, trusted = drawn(seed, 6, 5, 0.8)
    trusted[2] = False
    trusted[[0, 1, 3, 4, 5], [0, 1, 3, 4, 0]] = True
    found = conditioned(covariance, deviation, trusted)
    here = [0, 1, 3, 4, 5]
    unit = np.sqrt(covariance.diagonal())
    inverse = np.linalg.inv(covariance[np.ix_(here, here)])
    np.testing.assert_allclose(
        (found.precision * unit[:, None] * unit)[np.ix_(here, here)],
        inverse * unit[here][:, None] * unit[here],
        rtol=1e-8,
        atol=1e-8,
    )
    assert not found.precision[2].any()
    assert not found.precision[:, 2].any()
    np.testing.assert_allclose(found.pull * unit[:, None], found.precision @ found.completed * unit[:, None], atol=1e-8)


@given(SEEDS, st.integers(2, 6))
def test_a_covariance_that_is_none_gives_numbers_all_the_same(seed: int, members: int) -> None:
    """Sensors that equal each other, and moments that lost their definiteness to rounding."""
    random = np.random.default_rng(seed)
    twins = np.ones((members, members))
    broken = twins - 1e-3 * np.diag(random.random(members))
    deviation = random.normal(size=(1, 4)) + 0 * random.normal(size=(members, 4))
    for covariance in (twins, broken):
        found = conditioned(covariance, deviation, random.random((members, 4)) < 0.8)
        for value in (found.expected, found.variance, found.completed, found.uncertainty):
            assert np.isfinite(value).all()
        assert (found.variance >= 0).all()


def test_the_input_is_not_written_to() -> None:
    covariance, deviation, trusted = drawn(3, 5, 4, 0.7)
    before = covariance.copy(), deviation.copy(), trusted.copy()
    conditioned(covariance, deviation, trusted)
    for one, other in zip(before, (covariance, deviation, trusted), strict=True):
        np.testing.assert_array_equal(one, other)


@given(SEEDS, st.lists(st.integers(1, 14), min_size=1, max_size=5), st.sampled_from([1, 5, 30]))
def test_a_stack_says_of_each_neighbourhood_what_it_would_say_alone(seed: int, sizes: list[int], slots: int) -> None:
    """Neighbourhoods of several sizes padded to one, with few gaps and many; one has lost its definiteness."""
    random = np.random.default_rng(seed)
    width = max(sizes)
    covariance, deviation = np.ones((len(sizes), width, width)), random.normal(size=(len(sizes), width, slots))
    trusted = np.zeros(deviation.shape, dtype=bool)
    drawings = []
    for index, size in enumerate(sizes):
        one, values, there = drawn(seed + index, size, slots, random.choice([0.3, 0.9, 0.98, 1.0]))
        if index == 2:
            one = np.ones((size, size)) - 1e-3 * np.diag(random.random(size))
        there &= (random.random(size) < 0.9)[:, None]
        drawings.append((one, values, there))
        covariance[index, :size, :size], deviation[index, :size], trusted[index, :size] = one, values, there
    found = condition(covariance, deviation, trusted, np.arange(width) < np.array(sizes)[:, None])
    for index, (one, values, there) in enumerate(drawings):
        wanted, got = conditioned(one, values, there), alone(found, index, sizes[index])
        for field in fields(One):
            np.testing.assert_allclose(getattr(got, field.name), getattr(wanted, field.name), rtol=1e-6, atol=1e-8)
