from __future__ import annotations

import numpy as np

from sensormend.auto.memory import Hood
from sensormend.auto.stack import Stack


def hood(first: int, size: int, core: int) -> Hood:
    """A neighbourhood whose numbers say where they belong."""
    members = np.arange(first, first + size)
    moments = (members[:, None] * 100 + members).astype(np.float32)
    return Hood(members, core, moments, np.ones((size, min(size, 3)), dtype=np.float32))


HOODS = [hood(0, 5, 3), hood(10, 4, 4), hood(20, 2, 1)]


def test_neighbourhoods_are_padded_to_one_shape() -> None:
    stack = Stack.of(HOODS)
    assert stack.real.shape == (3, 5)
    assert stack.real.sum(axis=1).tolist() == stack.size.tolist() == [5, 4, 2]
    moments, dictionary = stack.moments(), stack.dictionary()
    assert dictionary.shape == (3, 5, 3)
    for index, one in enumerate(HOODS):
        size, columns = one.dictionary.shape
        np.testing.assert_array_equal(moments[index, :size, :size], one.moments)
        assert not moments[index, size:].any()
        assert not moments[index, :, size:].any()
        assert dictionary[index].sum() == size * columns


def test_a_part_of_a_stack_keeps_its_shape() -> None:
    part = Stack.of(HOODS).part(np.array([1, 2]))
    assert part.real.shape == (2, 5)
    assert part.size.tolist() == [4, 2]
    np.testing.assert_array_equal(part.moments(), Stack.of(HOODS).moments()[1:])
