"""A failed connection to a cluster is reported in one line with its cause."""

import logging
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from clusters import Cluster
from sensormend import __version__
from sensormend.cluster.connection import check_workers, connected
from sensormend.errors import ConfigError, SensormendError


def test_a_client_is_closed_by_whoever_made_it(cluster: Cluster, tmp_path: Path) -> None:
    with connected(cluster.address) as client:
        check_workers(client, tmp_path)
        assert list(tmp_path.iterdir()) == []
        with connected(client) as same:
            assert same is client
        assert client.status == "running"
    assert client.status == "closed"


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "tcp://no-such-host.invalid:8786", "tcp://127.0.0.1:x",
                                     "smoke://127.0.0.1:5"])  # fmt: skip
def test_nobody_there_is_one_line_within_seconds(address: str, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("distributed")
    began = time.monotonic()
    with (
        pytest.raises(SensormendError, match=f"no cluster answers at {address}") as caught,
        connected(address, timeout=2),
    ):
        pass
    assert "\n" not in str(caught.value)
    assert time.monotonic() - began < 8
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("address", ["localhost:8786", "tcp://", ""])
def test_what_is_no_address_is_refused(address: str) -> None:
    pytest.importorskip("distributed")
    with pytest.raises(ConfigError, match="like tcp://10"), connected(address):
        pass


def test_without_dask_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ConfigError, match=r"pip install 'sensormend\[cluster\]'"), connected("tcp://127.0.0.1:1"):
        pass


def test_workers_that_differ_are_refused(fresh_cluster: Cluster, tmp_path: Path) -> None:
    import distributed

    made: Any = distributed.Client

    def change(version: str | None) -> None:
        import sys

        import sensormend

        if version is None:
            sys.modules["sensormend"] = None  # type: ignore[assignment]
        else:
            sensormend.__version__ = version

    first, second = fresh_cluster.wait_for_workers(2).values()
    with made(fresh_cluster.address, set_as_default=False) as given, connected(given) as client:
        client.run(change, "0.0.1", workers=[first])
        with pytest.raises(
            SensormendError, match=f"worker {first} .* has sensormend 0.0.1; all need sensormend {__version__}"
        ) as caught:
            check_workers(client, tmp_path)
        assert "\n" not in str(caught.value)
        client.run(change, __version__, workers=[first])
        client.run(change, None, workers=[second])
        with pytest.raises(
            SensormendError, match=f"worker {second} cannot take part: import of sensormend halted"
        ) as caught:
            check_workers(client, tmp_path)
        assert "\n" not in str(caught.value)
        for name in list(fresh_cluster.workers):
            fresh_cluster.kill_worker(name)
        end = time.monotonic() + 10
        while client.nthreads() and time.monotonic() < end:
            time.sleep(0.05)
        with pytest.raises(SensormendError, match="has no workers; start some with: dask worker"):
            check_workers(client, tmp_path, timeout=1)
        assert list(tmp_path.iterdir()) == []


def test_distributed_logs_nothing_while_it_is_connected(cluster: Cluster) -> None:
    before = logging.getLogger("distributed").level
    with connected(cluster.address):
        for name in ("distributed.core", "distributed.client", "tornado.application"):
            assert not logging.getLogger(name).isEnabledFor(logging.CRITICAL), name
    assert logging.getLogger("distributed").level == before
