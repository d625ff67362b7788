"""What is kept of levels in rings, and how far channels wander, is what all levels that there ever were say."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as distributions

from oracles import kernels
from oracles import wander as oracle
from sensormend.model import wander
from sensormend.model.arrays import JOINING, KNOWN, Wander
from sensormend.model.records import CHANNEL, VARIABLE, WORKING_CHANNEL

SEEDS = st.integers(0, 2**32 - 1)
CLOSE = 1e-9
"""In the test the rings are in double precision."""


class Learned(NamedTuple):
    """The part of `Learned` that learning how channels wander needs."""

    stats: Any


class Period(NamedTuple):
    """The part of `Period` that it needs."""

    learned: Learned


class Network(NamedTuple):
    """The part of `Network` that it needs."""

    members: Any
    owned: Any
    size: Any
    weights: Any
    variable: Any
    variables: Any
    moments: Any
    standing: Any


def drawn_network(random: np.random.Generator) -> tuple[Network, oracle.Network]:
    """Draw a network of two variables, each a partition of two to five channels, some of them joining."""
    sizes = random.integers(2, 6, 2)
    variable = np.repeat(np.arange(2), sizes)
    channels, width = len(variable), int(sizes.max())
    members, weights = np.full((2, width), -1), np.zeros((2, width, width))
    plain = np.zeros((channels, channels))
    for number in range(2):
        own = np.flatnonzero(variable == number)
        members[number, : len(own)] = own
        drawn = random.normal(0.3, 0.3, (len(own), len(own))) * (random.random((len(own), len(own))) < 0.8)
        weights[number, : len(own), : len(own)] = drawn
        plain[np.ix_(own, own)] = drawn
    standing = np.where(random.random(channels) < 0.2, JOINING, KNOWN).astype(np.uint8)
    variables = np.zeros(2, VARIABLE)
    network = Network(members, sizes, sizes, weights, variable, variables, np.ones((2, width, width)), standing)
    return network, oracle.Network(variable, plain, standing == KNOWN)


def rings(channels: int) -> Wander:
    """Return what is kept of channels without a history."""
    history = np.full((channels, wander.SCALES, wander.RING), np.nan)
    square, pooled = np.zeros((channels, wander.LAGS)), np.zeros((2, wander.LAGS, 3))
    return Wander(history, square, np.zeros((channels, 4)), pooled)


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.integers(1, 330))
def test_what_is_learned_is_what_all_levels_say(seed: int, periods: int) -> None:
    random = np.random.default_rng(seed)
    network, plain = drawn_network(random)
    channels = len(network.variable)
    ring, slow = rings(channels), oracle.Wanderings(plain, periods)
    stats = np.zeros(channels, CHANNEL)
    level = random.normal(size=channels)
    begins = np.where(random.random(channels) < 0.2, random.integers(0, periods, channels), 0)
    for n in range(periods):
        level += random.normal(0, 0.1, channels) + random.normal(0, 0.3)
        for c in range(channels):
            if n < begins[c]:
                continue
            is_first = n == begins[c] or random.random() < 0.002
            stats[c].level_age = 1 if is_first else stats[c].level_age + 1
            kernels.push_level(ring.history[c], level[c], n, is_first)
            slow.add(c, n, level[c], is_first=is_first)
            if random.random() < 0.01:
                # A fault that turns out to be none, or a level that is taken.
                span, size = int(random.choice([1, 3, 10, 50, 250, 2000])), random.normal()
                kernels.shift_history(ring.history[c], n, span, size)
                slow.shift(c, n, span, size)
        stats["is_distant"] = random.random(channels) < 0.1
        is_sound = random.random(channels) < 0.9
        kernels.calibrate(network, Period(Learned(stats)), ring, n, is_sound)
        slow.learn(n, is_sound, stats["level_age"], stats["is_distant"])
    np.testing.assert_allclose(ring.square, slow.square, rtol=CLOSE, atol=CLOSE)
    pooled = np.stack([slow.movement, slow.mean_square, slow.spans], axis=-1)
    np.testing.assert_allclose(ring.pooled, pooled, rtol=CLOSE, atol=CLOSE)
    for c in np.flatnonzero(stats["level_age"]).tolist():
        ((p, i),) = np.argwhere(network.members == c).tolist()
        for span in random.integers(1, wander.LONGEST + 1, 10).tolist():
            scale = kernels.scale_of(span)
            change = kernels.change(ring.history[c], periods - 1, span, scale)
            assert change == pytest.approx(slow.change(c, periods - 1, span), rel=CLOSE, abs=CLOSE)
            moved = kernels.predicted_change(network, ring, p, i, periods - 1, span, scale)
            assert moved == pytest.approx(slow.predicted(c, periods - 1, span), rel=CLOSE, abs=CLOSE)


@given(SEEDS, st.integers(0, 1000), st.integers(1, wander.LONGEST), st.floats(1, 30), st.floats(-10, 10))
def test_the_limit_of_a_change(seed: int, age: int, span: int, support: float, moved: float) -> None:
    random = np.random.default_rng(seed)
    network, _ = drawn_network(random)
    ring = rings(len(network.variable))
    ring.square[0] = 10 ** random.uniform(-4, 1, wander.LAGS)
    ring.pooled[0, :, 0] = 10 ** random.uniform(-2, 1, wander.LAGS)
    ring.pooled[0, :, 1] = 10 ** random.uniform(-4, 1, wander.LAGS) * (random.random(wander.LAGS) < 0.9)
    ring.pooled[0, :, 2] = random.choice([0, 3, 4, 100], wander.LAGS, p=[0.1, 0.1, 0.1, 0.7])
    stats, variables = np.zeros(len(ring.square), WORKING_CHANNEL), np.zeros(2, VARIABLE)
    stats[0].level_age, stats[0].support = age, support
    stats[0].resolution, stats[0].variance = random.choice([np.inf, 0.5]), random.choice([0, 0.3])
    variables["tolerance"] = random.choice([0, 0.8])
    network = network._replace(variables=variables, moments=network.moments * random.choice([0, 1, 100]))
    scratch = np.full(3, np.nan)
    value = kernels.limit(network, Period(Learned(stats)), ring, 0, 0, span, moved, scratch)
    one = stats[0]
    step = one.resolution if np.isfinite(one.resolution) else 0
    least = max(step, variables["tolerance"][0], wander.MIN_MOVE * network.moments[0, 0, 0] ** 0.5, one.variance**0.5)
    expected = oracle.limit(ring.square[0], ring.pooled[0], age, span, float(one.support), moved, float(least))
    assert value == pytest.approx(expected, rel=CLOSE)
    np.testing.assert_allclose(scratch, oracle.structure(ring.square[0], ring.pooled[0], age, span), rtol=CLOSE)


@given(st.floats(0, 3.3), st.floats(3, 200), st.floats(0, 5.3), st.floats(6, 200))
def test_the_quantile_of_students_t_is_right_within_a_tenth(
    z: float, freedom: float, large_z: float, enough_freedom: float
) -> None:
    assert_close(z, freedom)
    assert_close(large_z, enough_freedom)


def assert_close(z: float, freedom: float) -> None:
    exact = distributions.t.isf(distributions.norm.sf(z), freedom)
    assert oracle.student(z, freedom) == pytest.approx(exact, rel=0.1, abs=1e-9)
