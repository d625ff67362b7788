from __future__ import annotations

import numpy as np

from method_cases import readings
from sensormend.methods import TRPCA


def test_an_even_and_an_odd_number_of_periods_are_summed_back_exactly() -> None:
    for periods in (1, 2, 3, 6, 7):
        tensor = readings((5, 4, 8), 4, missing=0.0)[..., :periods]
        result = TRPCA().recover(tensor)
        np.testing.assert_allclose(result.expected + result.outliers, tensor, rtol=0, atol=1e-7)


def test_the_number_of_iterations_is_limited() -> None:
    assert TRPCA(max_iter=9).recover(readings((6, 5, 7), 0)).iterations == 9
