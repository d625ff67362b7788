from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sensormend.auto.reasons import reasons

Floats = NDArray[np.float64]
HOURS = np.arange(24.0)
EXPECTED = 4 * np.sin(2 * np.pi * (HOURS - 9) / 24)


def named(residual: Floats, *, there: NDArray[np.bool_] | None = None, stuck: float = 0.0, rough: float = 0.0) -> str:
    """Name a fiber whose sensor usually varies by 3."""
    seen = np.ones(24, dtype=bool) if there is None else there
    excess = np.array([[2.0, 0.5, rough]])
    found = reasons(
        np.where(seen, residual, 0.0)[None], EXPECTED[None], seen[None], excess, np.array([stuck]), np.array([3.0])
    )
    return str(found[0])


@given(st.integers(0, 2**32 - 1), st.sampled_from([-1.0, 1.0]), st.sampled_from([0.3, 1.0]))
def test_each_fault_has_its_name(seed: int, sign: float, share: float) -> None:
    random = np.random.default_rng(seed)
    noise = random.normal(0, 0.3, 24)
    there = random.random(24) < share
    there[[0, 5, 9, 14, 19, 23]] = True
    assert named(sign * 6 + noise, there=there) == "offset"
    assert named(sign * (HOURS - 8) + noise, there=there) == "drifting"
    assert named(sign * EXPECTED + noise, there=there) == "gain"
    assert named(100 * sign + noise, there=there) == "implausible"
    assert named(sign * 6 + noise, there=there, stuck=1.5) == "stuck"


def test_noise_is_called_noisy() -> None:
    random = np.random.default_rng(0)
    for _ in range(30):
        assert named(random.normal(0, 6, 24), rough=3.0) == "noisy"


def test_scores_under_the_threshold_name_nothing() -> None:
    assert named(np.full(24, 6.0), stuck=0.9, rough=0.9) == "offset"


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_readings_are_named_all_the_same(count: int) -> None:
    there = np.arange(24) < count
    assert named(np.full(24, 6.0), there=there) in ("offset", "noisy")


def test_no_fibers() -> None:
    none = np.zeros((0, 24))
    assert reasons(none, none, none > 0, np.zeros((0, 3)), np.zeros(0), np.zeros(0)).shape == (0,)


def test_names_follow_no_unit() -> None:
    random = np.random.default_rng(3)
    residual = np.stack([6 + random.normal(size=24), HOURS - 8, EXPECTED, random.normal(0, 6, 24), np.full(24, 90.0)])
    there = np.ones((5, 24), dtype=bool)
    expected, excess = np.broadcast_to(EXPECTED, (5, 24)), np.tile([2.0, 0.5, 3.0], (5, 1))
    one = reasons(residual, expected, there, excess, np.zeros(5), np.full(5, 3.0))
    other = reasons(1000 * residual, 1000 * expected, there, excess, np.zeros(5), np.full(5, 3000.0))
    np.testing.assert_array_equal(one, other)
