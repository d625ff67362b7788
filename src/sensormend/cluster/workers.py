"""`clean_here` and `clean_on_workers` clean networks; on a cluster, Dask gives what a dead worker had to another."""

from __future__ import annotations

import gc
import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile
from time import monotonic, sleep
from typing import Any

import sensormend
from sensormend import __version__
from sensormend.archive.checkpoint import Checkpoint
from sensormend.archive.cleaning import clean_archive
from sensormend.cluster.splitting import NetworkPart
from sensormend.errors import ConfigError, DivergenceError, InputError, SensormendError, StateError, one_line
from sensormend.files import locked
from sensormend.io.metadata import read_faults, read_json
from sensormend.io.sql import first_line
from sensormend.pipeline.options import Options
from sensormend.pipeline.times import duration

__all__ = ["Client", "NetworkTask", "Outcome", "Progress", "check_workers", "clean_here", "clean_on_workers",
           "clean_part", "connected", "quiet"]  # fmt: skip

Client = Any
"""A `distributed.Client`; the package has no type annotations."""

ANSWER_TIMEOUT = 5.0
"""Seconds until a cluster that does not answer, or has no workers, is reported."""

NO_WORKERS = 60.0
"""Seconds without any worker until the run stops; a nanny needs a few to restart one."""

POLL = 0.2
"""Seconds between two looks at what the workers have finished, or at a lock."""

NOT_CONNECTED = (OSError, TimeoutError, ValueError, TypeError, ImportError, RuntimeError)
"""The errors of distributed where no server answers, or one that is not a scheduler."""

NOT_WHOLE_PERIODS = ("spike", "silent")
"""Reasons of faults that are not counted in sensor-days."""

Progress = Callable[[int, float, int | None], None]
"""Called with the numbers of finished networks, of cleaned readings, and of workers."""


@dataclass(frozen=True)
class Outcome:
    """A line of networks.csv: `outcome` is `done`, or the reason why not in one line."""

    network: str
    folder: str
    sensors: int
    periods: int
    faulty_sensor_days: int
    filled: int
    seconds: float
    attempts: int
    outcome: str


@dataclass(frozen=True)
class NetworkTask:
    """The task to clean one network.

    Attributes
    ----------
    work
        The folder of the run, an absolute path that is the same for every worker.
    part
        The network.
    options
        As for `clean`.
    record
        The source of the readings, for run.json of the network.
    version
        The run's version of sensormend; a worker that joined later may have another one.
    """

    work: Path
    part: NetworkPart
    options: Options
    record: dict[str, Any]
    version: str = __version__

    @property
    def source(self) -> Path:
        """The file of its readings."""
        return self.work / "staging" / "parts" / f"{self.part.folder}.parquet"

    @property
    def out(self) -> Path:
        """Its output folder."""
        return self.work / self.part.folder

    @property
    def partial(self) -> Path:
        """Its output folder while it is incomplete."""
        return self.work / f"{self.part.folder}.partial"

    @property
    def attempts(self) -> Path:
        """A file with an empty line for every attempt."""
        return self.source.with_suffix(".attempts")

    def outcome(self, failed: str = "") -> Outcome:
        """Return the outcome, from the files of its output folder, or with the reason why there are none."""
        part, attempts = self.part, self.attempts.stat().st_size if self.attempts.exists() else 0
        if failed:
            return Outcome(part.network, part.folder, 0, 0, 0, 0, 0.0, attempts, failed)
        run = read_json(self.out / "run.json")
        period = duration(run["grid"]["period"])
        wrong = {
            (fault.sensor, fault.variable, day)
            for fault in read_faults(self.out / "faults.csv")
            if fault.reason not in NOT_WHOLE_PERIODS and not fault.doubtful
            for day in range(fault.start // period, -(-fault.end // period))
        }
        return Outcome(
            part.network, part.folder, run["sensors"], run["periods"], len(wrong), run["filled"], run["seconds"],
            attempts, "done",
        )  # fmt: skip


def clean_here(tasks: Sequence[NetworkTask], progress: Progress) -> Iterator[Outcome]:
    """Clean networks one after the other in this process."""
    readings = 0
    for done, task in enumerate(tasks):

        def report(share: float, done: int = done, before: int = readings, count: int = task.part.readings) -> None:
            progress(done, before + share * count, None)

        report(0.0)
        yield clean_part(task, report)
        readings += task.part.readings
    progress(len(tasks), readings, None)


def clean_on_workers(client: Client, tasks: Sequence[NetworkTask], progress: Progress) -> Iterator[Outcome]:
    """Clean networks on the workers; Dask gives those of a worker that died to another one."""
    # The largest first, so that the run does not end with one large network on a single worker.
    waiting = {client.submit(_clean_on_worker, task, priority=task.part.readings, pure=False): task for task in tasks}
    readings, last_seen = 0, monotonic()
    try:
        while True:
            for future in [future for future in waiting if future.done()]:
                outcome = _fetch(client, future, waiting[future])
                if outcome is not None:
                    readings += waiting.pop(future).part.readings
                    yield outcome
            workers = _count_workers(client)
            progress(len(tasks) - len(waiting), readings, workers)
            if not waiting:
                return
            last_seen = monotonic() if workers else last_seen
            if monotonic() - last_seen > NO_WORKERS:
                raise SensormendError(f"the cluster at {client.scheduler.address} has no workers any more")
            sleep(POLL)
    finally:
        with suppress(*NOT_CONNECTED):
            if client.status == "running":
                client.cancel(list(waiting))


def clean_part(task: NetworkTask, progress: Callable[[float], None] = lambda done: None) -> Outcome:
    """Clean a network, or resume it, unless that is done; wait while another worker is still at it.

    Errors are raised where the readings are not the cause: the disk, the worker.
    """
    try:
        if task.version != sensormend.__version__:
            joined = f"a worker with sensormend {sensormend.__version__} has joined"
            raise SensormendError(f"{joined}, and {task.version} here")
        if not task.source.exists():
            raise SensormendError(
                f"{task.source} is not visible on every worker: OUT has to lie on a shared file system"
            )
        with _locked(task, progress):
            if not (task.out / "run.json").exists():
                _attempt(task, progress)
    except (InputError, ConfigError, DivergenceError) as error:
        return task.outcome(one_line(error))
    except (SensormendError, OSError, MemoryError, ImportError) as error:
        raise _stopped(task, error) from None
    except Exception as error:
        return task.outcome(f"{type(error).__name__}: {one_line(error)}")
    return task.outcome()


def _attempt(task: NetworkTask, progress: Callable[[float], None]) -> None:
    def stages(name: str, readings: int) -> Callable[[float], None]:
        return progress if name == "cleaning" else lambda done: progress(0.0)

    clean = partial(clean_archive, task.source, task.out, task.options, stages=stages, part=task.record)
    with task.attempts.open("a", encoding="utf-8") as lines:
        lines.write("\n")
    if Checkpoint(task.partial / "state").job is not None:
        # A state that cannot be resumed, since it is broken or OUT was moved, is started anew.
        with suppress(StateError, InputError, ConfigError):
            clean(resume=True)
            return
    shutil.rmtree(task.partial, ignore_errors=True)
    clean(resume=False)


@contextmanager
def _locked(task: NetworkTask, progress: Callable[[float], None]) -> Iterator[None]:
    """Hold the lock of a network: Dask may have given up a worker that still runs.

    The lock is not in the network's own work folder, which is removed when the network is done.
    """
    with ExitStack() as stack:
        while True:
            with suppress(SensormendError):
                stack.enter_context(locked(task.source.with_suffix(".lock"), "another worker is at this network"))
                break
            progress(0.0)
            sleep(POLL)
        yield


def _clean_on_worker(task: NetworkTask) -> Outcome:
    """Clean a network on a worker; stop where Dask has cancelled the task, since the run has ended."""
    from distributed import get_worker

    worker = get_worker()
    state = worker.state.tasks[worker.get_current_task()]

    def progress(done: float) -> None:
        if state.state == "cancelled":
            raise SensormendError("the result of this network is no longer wanted")

    return clean_part(task, progress)


def _fetch(client: Client, future: Any, task: NetworkTask) -> Outcome | None:
    """Return the outcome of a task that has ended; None if its worker died with it, so that it starts again."""
    from distributed import CancelledError, KilledWorker

    if future.status == "cancelled":
        raise SensormendError(f"the scheduler at {client.scheduler.address} is lost")
    error = future.exception(timeout=ANSWER_TIMEOUT) if future.status == "error" else None
    if isinstance(error, KilledWorker):
        return task.outcome(f"its worker died {error.allowed_failures + 1} times; too little memory?")
    if error is not None:
        raise error if isinstance(error, SensormendError) else _stopped(task, error)
    try:
        outcome: Outcome = future.result(timeout=ANSWER_TIMEOUT)
    except (CancelledError, *NOT_CONNECTED):
        return None
    return outcome


def _stopped(task: NetworkTask, error: BaseException) -> SensormendError:
    return SensormendError(f"network {task.part.network!r}: {one_line(error)}")


def _count_workers(client: Client) -> int:
    """Return the number of workers; 0 where the scheduler is lost."""
    try:
        return len(client.sync(client.scheduler.ncores, callback_timeout=ANSWER_TIMEOUT))
    except (*NOT_CONNECTED, AttributeError):
        return 0


@contextmanager
def connected(cluster: str | Client, *, timeout: float = ANSWER_TIMEOUT) -> Iterator[Client]:
    """Yield a client of a cluster, the given one or a new one for `tcp://host:port`, which is closed at the end.

    Raises
    ------
    ConfigError
        dask.distributed is not installed, or `cluster` is not an address.
    SensormendError
        No cluster answers within `timeout` seconds.
    """
    try:
        import distributed
    except ImportError:
        raise ConfigError("a cluster needs dask.distributed: pip install 'sensormend[cluster]'") from None
    if isinstance(cluster, str) and not cluster.partition("://")[2]:
        raise ConfigError(f"a cluster is the address of its scheduler, like tcp://10.0.0.1:8786; got {cluster!r}")
    with quiet():
        if not isinstance(cluster, str):
            yield cluster
            return
        create: Any = distributed.Client
        client, reason = None, ""
        try:
            client = create(cluster, timeout=timeout, set_as_default=False)
        except NOT_CONNECTED as error:
            reason = "" if isinstance(error, OSError) else f" ({first_line(error)})"
        if client is None:
            # What is left of the client closes itself when it is collected. It needs a lock for that which the next
            # client holds while it starts: collected there, it would wait for good.
            gc.collect()
            raise SensormendError(
                f"no cluster answers at {cluster}{reason}; start one with: dask scheduler, and on every machine: "
                f"dask worker {cluster} --nthreads 1"
            )
        try:
            yield client
        finally:
            # A lost scheduler must not delay the exit: no result is pending there.
            with suppress(*NOT_CONNECTED):
                client.close(timeout=2)


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress the tracebacks that distributed logs: errors are reported in one line by sensormend."""
    # The loggers of distributed have levels of their own, so that the one of their parent is not enough.
    names = [name for name in logging.root.manager.loggerDict if name.startswith(("distributed", "tornado", "asyncio"))]
    before = {logger: logger.level for logger in map(logging.getLogger, names)}
    for logger in before:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in before.items():
            logger.setLevel(level)


def check_workers(client: Client, folder: Path, *, timeout: float = ANSWER_TIMEOUT) -> None:
    """Refuse a cluster without workers, or with one that has another sensormend or cannot read the output folder."""
    address = client.scheduler.address
    try:
        client.wait_for_workers(1, timeout=timeout)
    except (*NOT_CONNECTED, AttributeError):
        raise SensormendError(
            f"the cluster at {address} has no workers; start some with: dask worker {address} --nthreads 1"
        ) from None

    # A nested function is pickled by value: workers without sensormend could not import it by name.
    def version_of_worker(path: str) -> str:
        open(path).close()
        import sensormend

        return sensormend.__version__

    # No worker has looked for this name before: a network file system has not remembered that it does not exist.
    with NamedTemporaryFile(dir=folder, prefix="probe-") as probe:
        answers = client.run(version_of_worker, probe.name, on_error="return")
    for worker, version in answers.items():
        if isinstance(version, FileNotFoundError | PermissionError):
            raise SensormendError(
                f"worker {worker} does not see {folder}: OUT has to lie on a file system that all workers share, "
                "at the same path"
            )
        if isinstance(version, ImportError):
            version = f"missing ({version})"
        if isinstance(version, BaseException):
            raise SensormendError(f"worker {worker} does not answer: {first_line(version)}")
        if version != __version__:
            raise SensormendError(
                f"sensormend is {version} on worker {worker} and {__version__} here; install the same version "
                f"everywhere: pip install 'sensormend[cluster]=={__version__}'"
            )
