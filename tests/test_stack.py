from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from networks import ManyParts, walk
from sensormend.auto import looks
from sensormend.auto.memory import Hood
from sensormend.auto.stack import Stack, stacked
from sensormend.simulate import city


def hood(first: int, size: int, core: int) -> Hood:
    """A neighbourhood whose numbers say where they belong."""
    members = np.arange(first, first + size)
    moments = (members[:, None] * 100 + members).astype(np.float32)
    return Hood(members, core, moments, np.ones((size, min(size, 3)), dtype=np.float32))


HOODS = [hood(0, 5, 3), hood(10, 4, 4), hood(20, 2, 1)]


def test_neighbourhoods_are_padded_to_one_shape() -> None:
    stack = Stack.of(HOODS, np.arange(3))
    assert stack.members.shape == (3, 5)
    assert stack.core == 4
    assert stack.real.sum(axis=1).tolist() == [5, 4, 2]
    assert stack.rows.tolist() == [0, 1, 2, 10, 11, 12, 13, 20]
    np.testing.assert_array_equal(stack.members.ravel()[stack.place], stack.rows)
    np.testing.assert_array_equal(stack.flat(stack.members), stack.rows)
    moments = stack.moments()
    for index, one in enumerate(HOODS):
        size = one.members.size
        np.testing.assert_array_equal(moments[index, :size, :size], one.moments)
        assert not moments[index, size:].any()
        assert not moments[index, :, size:].any()
    assert stack.dictionary().shape == (3, 5, 3)


def test_a_part_of_a_stack_keeps_its_shape() -> None:
    part = Stack.of(HOODS, np.arange(3)).part(np.array([1, 2]))
    assert part.members.shape == (2, 5)
    assert part.index.tolist() == [1, 2]
    assert part.rows.tolist() == [10, 11, 12, 13, 20]


@pytest.mark.parametrize("high", [1, 2, 3, 50])
def test_all_neighbourhoods_are_in_one_stack_or_another(high: int) -> None:
    stacks = stacked(HOODS, high)
    assert np.concatenate([stack.index for stack in stacks]).tolist() == [0, 1, 2]
    assert max(len(stack.hoods) for stack in stacks) <= high


def spoilt() -> NDArray[np.float64]:
    """A city in which a neighbourhood lost half of its sensors for an afternoon, and some came late."""
    readings = city(70, 20, seed=11).readings
    readings[:25, 12:20, 9] = np.nan
    readings[60:, :, :8] = np.nan
    return readings


@pytest.mark.parametrize(("kept", "high"), [(64, 16), (0, 16), (0, 3), (0, 1)])
def test_it_does_not_matter_how_neighbourhoods_are_stacked(
    kept: int, high: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = spoilt()
    monkeypatch.setattr(looks, "KEPT", 4)
    monkeypatch.setattr(looks, "HIGH", 2)
    wanted = walk(ManyParts(), readings)
    monkeypatch.setattr(looks, "KEPT", kept)
    monkeypatch.setattr(looks, "HIGH", high)
    found = walk(ManyParts(), readings)
    for name in ("faulty", "suspect", "evaluated", "reason", "spikes"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name), err_msg=name)
    for name in ("low_rank", "cleaned", "lower", "upper", "score"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=1e-5, atol=1e-6, err_msg=name)
