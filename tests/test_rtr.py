from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import naive
from sensormend import RTR, ConfigError
from sensormend.methods.rtr import default_lam
from sensormend.simulate.degrade import Case, degrade
from sensormend.simulate.scores import score
from test_olrtr import low_rank_tensor

Floats = NDArray[np.float64]


@pytest.mark.parametrize("missing", [0.0, 0.15])
@pytest.mark.parametrize(
    ("shape", "fiber_axis"),
    [((9, 7), 0), ((9, 7), 1), ((6, 5, 7), 0), ((6, 5, 7), 1), ((6, 5, 7), 2), ((4, 3, 5, 2), 2)],
)
def test_equals_the_oracle(shape: tuple[int, ...], fiber_axis: int, missing: float) -> None:
    tensor = low_rank_tensor(shape, 2, missing)
    X, E, iterations = naive.rtr(tensor, 1.5, fiber_axis=fiber_axis, tol=1e-7, max_iter=200)
    result = RTR(1.5, fiber_axis=fiber_axis, max_iter=200).recover(tensor)
    np.testing.assert_allclose(result.low_rank, X, rtol=0, atol=1e-9)
    np.testing.assert_allclose(result.outliers, E, rtol=0, atol=1e-9)
    assert result.iterations == iterations
    assert np.abs(E).max() > 0
    assert np.abs(X).max() > 0


@pytest.mark.parametrize(
    ("settings", "says"),
    [({"lam": 0}, "lam"), ({"lam": -1.0}, "lam"), ({"fiber_axis": 1.5}, "fiber_axis"), ({"tol": 0}, "tol"),
     ({"max_iter": 0}, "max_iter"), ({"threshold": -1}, "threshold")],
)  # fmt: skip
def test_wrong_settings_get_one_clear_line(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        RTR(**settings)


def test_the_default_lambda_finds_the_papers_faults(noaa: Floats) -> None:
    case = degrade(noaa[..., :60], Case("uniform"), seed=5)
    result = RTR().recover(case.readings)
    scores = score(result, case)
    assert scores.f1 > 0.9
    assert scores.missing < 1.2


def test_the_default_lambda_is_that_of_the_simulations_for_a_cube() -> None:
    assert default_lam(np.zeros((50, 50, 50), dtype=bool)) == pytest.approx(1 / (0.03 * 50), rel=0.01)


def test_fibers_without_a_reading_do_not_change_the_default_lambda() -> None:
    missing = np.zeros((24, 10, 30), dtype=bool)
    silent = np.concatenate([missing, np.ones((24, 5, 30), dtype=bool)], axis=1)
    assert default_lam(silent) == default_lam(missing)
