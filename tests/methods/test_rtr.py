from __future__ import annotations

import numpy as np
import pytest

from method_cases import Floats
from sensormend.methods import RTR
from sensormend.methods.rtr import default_lam
from sensormend.simulate.degrade import Case, degrade
from sensormend.simulate.scores import score


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
