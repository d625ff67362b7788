"""The fixtures of the tests of clusters: clusters, a table of several networks, and each network cleaned alone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusters import cluster, fresh_cluster
from network_tables import NAMES, simulated_networks, write_networks, write_one
from sensormend.archive.cleaning import clean_archive
from sensormend.readings import Readings

__all__ = ["cluster", "fresh_cluster"]


@pytest.fixture(autouse=True)
def _no_client_is_left() -> Iterator[None]:
    """Fail if a test leaves a client open: it would look for its scheduler later and log errors in another test."""
    yield
    client: Any = pytest.importorskip("distributed").Client
    left = [str(one) for one in client._instances if one.status not in ("closed", "newly-created")]
    assert not left, f"a client was not closed: {left}"


@pytest.fixture(scope="session")
def networks() -> dict[str, Readings]:
    return simulated_networks(NAMES)


@pytest.fixture(scope="session")
def table(networks: dict[str, Readings], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_networks(tmp_path_factory.mktemp("table") / "readings.csv", networks)


@pytest.fixture(scope="session")
def alone(networks: dict[str, Readings], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the OUT of each network, cleaned on its own."""
    folder = tmp_path_factory.mktemp("alone")
    for name, readings in networks.items():
        clean_archive(write_one(folder / f"{name}.csv", readings), folder / name)
    return folder
