"""What the tests share: where the real data lies, and how hypothesis runs."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from numpy.typing import NDArray
from scipy.io import loadmat

settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=25, database=None)
settings.load_profile("repeatable")

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def data() -> Path:
    """Return the folder of real data: `$SENSORMEND_DATA`, or `../shared/data` beside the repository."""
    folder = Path(os.environ.get("SENSORMEND_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        said = "the real data is not here; set SENSORMEND_DATA to its folder"
        if os.environ.get("CI") == "true":
            pytest.fail(said)
        pytest.skip(said)
    return folder


@pytest.fixture(scope="session")
def noaa(data: Path) -> NDArray[np.float64]:
    """Return a year of temperatures, (sensor, slot, day) = 37 x 24 x 364, complete."""
    return _by_day(loadmat(data / "noaa_TEM.mat")["Obs2"])


@pytest.fixture(scope="session")
def aot(data: Path) -> NDArray[np.float64]:
    """Return a year of raw city temperatures, (sensor, slot, day) = 52 x 24 x 365, 16 % missing."""
    return _by_day(loadmat(data / "aot_12M.mat")["Obs2"])


def _by_day(hourly: NDArray[np.float64]) -> NDArray[np.float64]:
    days = np.moveaxis(hourly.reshape(len(hourly), -1, 24), 1, 2)
    # Shared by the whole session: a test that writes to it must fail, not spoil the next one.
    days.flags.writeable = False
    return days
