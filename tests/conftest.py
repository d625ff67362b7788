"""The tests share where the real data lies, how hypothesis runs, and what a test is marked with."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from numpy.typing import NDArray
from scipy.io import loadmat

from servers import lacking, marks

settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=25, database=None)
settings.load_profile("repeatable")

ROOT = Path(__file__).resolve().parents[1]

BRINGS = {
    "broker": "server", "server": "server",
    "chromium": "browser",
    "cluster": "processes", "fresh_cluster": "processes", "slow_cluster": "processes",
}  # fmt: skip
"""Fixtures that mark the tests that use them; a test that starts such things without one is marked where it stands."""

_left_out = pytest.StashKey[int]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests by what they use, before `-m` chooses among them."""
    for item in items:
        for mark in {BRINGS[name] for name in getattr(item, "fixturenames", ()) if name in BRINGS}:
            item.add_marker(mark)


def pytest_runtest_setup(item: pytest.Item) -> None:
    marks.clear()
    marks.update(mark.name for mark in item.iter_markers())


def pytest_deselected(items: list[pytest.Item]) -> None:
    if items:
        config = items[0].config
        config.stash[_left_out] = config.stash.get(_left_out, 0) + len(items)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send the count to the main process, where this one is a worker."""
    output: dict[str, object] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["left_out"] = session.config.stash.get(_left_out, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Store the count of a worker: all workers have left out the same tests."""
    node.config.stash[_left_out] = getattr(node, "workeroutput", {}).get("left_out", 0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    left_out, marks_wanted = config.stash.get(_left_out, 0), config.option.markexpr
    if left_out and marks_wanted:
        terminalreporter.write_line(f"{left_out} tests were left out (-m {marks_wanted!r}); `make test-all` runs them.")


@pytest.fixture(scope="session")
def data() -> Path:
    """Return the folder of real data: `$SENSORMEND_DATA`, or `../shared/data` beside the repository.

    `SENSORMEND_DATA=none` says that there is none, so that these tests are skipped with `CI=true` as well.
    """
    if os.environ.get("SENSORMEND_DATA") == "none":
        pytest.skip("SENSORMEND_DATA is none: no real data")
    folder = Path(os.environ.get("SENSORMEND_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        lacking("the real data is not here; set SENSORMEND_DATA to its folder")
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
