from __future__ import annotations

import math

import numpy as np

from method_cases import compare, periods, readings
from oracles.methods import Ostd
from sensormend.methods import OSTD


def test_the_turns_are_limited() -> None:
    tensor = 30 * readings((6, 5, 4), 0, missing=0.0)
    weight = 1 / math.sqrt(30)
    for cap in (50, 7):
        oracle = Ostd(3, weight, 10 * weight, cap)
        frames = [oracle.minibatch(period) for period in periods(tensor)]
        result = OSTD(3, max_iter=cap).recover(tensor)
        assert result.iterations == sum(turns for _, _, turns in frames)
        assert max(turns for _, _, turns in frames) == cap
        compare(result, frames, atol=1e-6)


def test_a_frame_of_zeros_does_not_become_the_basis() -> None:
    tensor = readings((6, 5, 4), 0, missing=0.0)
    late = np.concatenate([np.zeros((6, 5, 2)), tensor], axis=-1)
    model = OSTD(2)
    np.testing.assert_array_equal(model.recover(late).expected[..., 2:], OSTD(2).recover(tensor).expected)
