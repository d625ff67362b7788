from __future__ import annotations

from pathlib import Path

import numpy as np

from checks import state
from method_cases import Floats, relative_error
from sensormend.methods import ORLTM


def test_it_says_that_it_is_a_reconstruction() -> None:
    assert "RECONSTRUCTION" in (ORLTM.__doc__ or "")


def test_a_day_of_zeros_is_what_the_next_gap_starts_from(tmp_path: Path) -> None:
    tensor = np.full((4, 6, 3), 5.0)
    tensor[..., 1] = 0.0
    tensor[2, :2, 2] = np.nan
    model = ORLTM(1, seed=0)
    for day in range(2):
        model.update(tensor[..., day])
    np.testing.assert_array_equal(state(model, tmp_path)["last"], np.zeros((4, 1)))


def test_the_outliers_weight_goes_with_the_size_of_the_readings() -> None:
    """In a unit a thousand times smaller the first minibatch is split alike: nothing but the unit has changed."""
    day = np.random.default_rng(0).normal(20, 5, (6, 8))
    result, small = (ORLTM(2, seed=0).update(scale * day) for scale in (1.0, 1e-3))
    np.testing.assert_allclose(small.outliers, 1e-3 * result.outliers, rtol=0, atol=1e-9)
    np.testing.assert_allclose(small.expected, 1e-3 * result.expected, rtol=0, atol=1e-9)


def test_its_error_on_noaa_is_below_the_papers(noaa: Floats) -> None:
    assert relative_error(ORLTM(20, seed=0), noaa[..., :120], 0) < 0.157
