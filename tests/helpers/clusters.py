"""A real cluster for the tests: a scheduler and workers, each a process of its own, that can be killed."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from servers import free_port, lacking, require_mark

__all__ = ["Cluster", "cluster", "fresh_cluster", "running_cluster"]

ROOT = Path(__file__).resolve().parents[2]


class Cluster:
    """A scheduler on a port of its own, and its workers.

    The workers have no nanny: a killed worker stays dead, and another one has to take its work. The process that is
    killed is the one that works.

    Attributes
    ----------
    address
        The address of the scheduler, which does not change when it is started again.
    settings
        Environment variables of its processes, in addition to ours.
    workers
        The processes by name.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.address = f"tcp://127.0.0.1:{free_port()}"
        self._scheduler: subprocess.Popen[bytes] | None = None
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self._made = 0
        self.settings: dict[str, str] = {}

    def start_scheduler(self) -> None:
        """Start the scheduler, and wait until it listens."""
        host, port = self.address.removeprefix("tcp://").split(":")
        self._scheduler = self._start("scheduler", "--host", host, "--port", port, "--no-dashboard", "--no-show")
        end = time.monotonic() + 30
        while True:
            try:
                socket.create_connection((host, int(port)), 1).close()
                return
            except OSError:
                if self._scheduler.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(self._log("scheduler")) from None
                time.sleep(0.02)

    def kill_scheduler(self) -> None:
        """Kill the scheduler with SIGKILL; its workers end without it."""
        if self._scheduler is not None:
            _kill(self._scheduler)
            self._scheduler = None

    def start_worker(self, *preload: str) -> str:
        """Start a worker with one thread, and return its name; `preload` is Python that it runs first."""
        self._made += 1
        name = f"worker-{self._made}"
        words = ["--name", name, "--nthreads", "1", "--no-nanny", "--no-dashboard", "--memory-limit", "0",
                 "--death-timeout", "20", "--local-directory", str(self._folder / name)]  # fmt: skip
        for number, source in enumerate(preload):
            file = self._folder / f"{name}_preload_{number}.py"
            file.write_text(source)
            words += ["--preload", str(file)]
        self.workers[name] = self._start("worker", self.address, *words, log=name)
        return name

    def kill_worker(self, name: str) -> None:
        """Kill a worker with SIGKILL."""
        _kill(self.workers.pop(name))

    def repair(self, workers: int, *preload: str) -> None:
        """Start what was killed, until there are this many workers again."""
        if self._scheduler is None:
            # The other workers have lost their scheduler and are about to end.
            self.stop()
            self.start_scheduler()
        while len(self.workers) < workers:
            self.start_worker(*preload)
        self.wait_for_workers(workers)

    def stop(self) -> None:
        """Kill all processes."""
        for name in list(self.workers):
            self.kill_worker(name)
        self.kill_scheduler()

    def wait_for_workers(self, count: int, seconds: float = 30) -> dict[str, str]:
        """Wait for this many workers, and return their addresses by name."""
        import distributed

        made: Any = distributed.Client
        try:
            client = made(self.address, set_as_default=False, timeout=20)
        except AssertionError:
            # Its thread has to start within ten seconds, which can be too short on a busy machine.
            client = made(self.address, set_as_default=False, timeout=20)
        with client:
            try:
                client.wait_for_workers(count, timeout=seconds)
            except TimeoutError:
                raise RuntimeError("\n".join(map(self._log, self.workers))) from None
            known = client.scheduler_info(n_workers=-1)["workers"]
        return {worker["name"]: address for address, worker in known.items()}

    def _start(self, kind: str, *words: str, log: str | None = None) -> subprocess.Popen[bytes]:
        # One thread for the products of each process: the workers share the cores already.
        threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests" / "helpers"), os.environ.get("PYTHONPATH", "")])
        surroundings = {**os.environ, **threads, "PYTHONPATH": path.rstrip(os.pathsep), **self.settings}
        with (self._folder / f"{log or kind}.log").open("ab") as file:
            return subprocess.Popen(
                [sys.executable, "-m", "dask", kind, *words], env=surroundings, stdout=file, stderr=file,
                cwd=self._folder,
            )  # fmt: skip

    def _log(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text()


@contextmanager
def running_cluster(workers: int = 2, *preload: str, **settings: str) -> Iterator[Cluster]:
    """Start a scheduler and workers on this machine; skip where dask is not installed.

    Parameters
    ----------
    workers
        The number of workers.
    preload
        Python code that they run first.
    settings
        Environment variables of the processes.
    """
    require_mark("processes")
    try:
        import distributed  # noqa: F401
    except ImportError:
        lacking("dask.distributed is not installed: pip install 'sensormend[cluster]'")
    folder = Path(tempfile.mkdtemp(prefix="sensormend-cluster-"))
    made = Cluster(folder)
    made.settings = settings
    try:
        made.start_scheduler()
        for _ in range(workers):
            made.start_worker(*preload)
        if workers:
            made.wait_for_workers(workers)
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Provide one cluster of two workers for the tests of a file, which must not kill any part of it."""
    with running_cluster() as made:
        yield made


@pytest.fixture
def fresh_cluster() -> Iterator[Cluster]:
    """Provide a cluster of two workers for one test, which may kill any part of it."""
    with running_cluster() as made:
        yield made


def _kill(process: subprocess.Popen[Any]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait(20)
