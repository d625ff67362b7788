"""`mend_on_workers` mends networks on a Dask cluster, whose workers may come and go; `clean_part` mends one of them."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic, sleep
from typing import Any
from uuid import uuid4

import sensormend
from sensormend import __version__
from sensormend.cluster.splitting import NetworkPart
from sensormend.errors import ConfigError, DivergenceError, InputError, SensormendError, StateError, one_line
from sensormend.files import beside, locked
from sensormend.io.metadata import read_faults, read_json
from sensormend.io.options import Options, duration
from sensormend.io.sql import reason_of
from sensormend.pipeline.archive import clean_archive
from sensormend.pipeline.checkpoint import Checkpoint

__all__ = [
    "Client",
    "NetworkTask",
    "NetworksProgress",
    "Outcome",
    "RunStoppedError",
    "attempts_of",
    "check_workers",
    "clean_part",
    "connect",
    "connected",
    "is_lost",
    "mend_here",
    "mend_on_workers",
    "outcome_of",
    "probe",
    "quiet",
    "repeated_attempts",
    "workers_of",
]

Client = Any
"""A `distributed.Client`; the package has no type annotations."""

ANSWER_TIMEOUT = 5.0
"""Seconds until a cluster that does not answer, or has no workers, is reported."""

LOGGERS = ("distributed", "tornado", "asyncio", "bokeh")

ERRORS = (OSError, TimeoutError, asyncio.TimeoutError, ValueError, TypeError, ImportError, RuntimeError)
"""The errors of distributed where no server answers, or one that is no scheduler."""

LOCK_TIMEOUT = 120.0
"""Seconds to wait for the lock of a network that another worker held: a network file system may need a minute and a
half to detect that the holder of a lock is dead."""

CHECK_INTERVAL = 1.0
"""Seconds between two checks of a worker whether its result is still wanted."""

VISIBLE_WITHIN = 90.0
"""Seconds after which a file that a worker renamed must be visible here on a network file system."""

NOT_WANTED = "the result of this network is no longer wanted"

NOT_WHOLE_PERIODS = ("spike", "silent")
"""Reasons of faults that are not counted in sensor-days."""

TASKS_PER_THREAD = 2
"""Tasks per thread that the scheduler holds at a time: the present one and the next. Thousands of waiting tasks
would slow every step of the scheduler, and would all be assigned before a later worker joins."""

MOST_DEATHS = 4
"""The number of workers that die on a network in the same state until it is given up."""

NO_WORKERS = 60.0
"""Seconds without any worker until the run stops; a nanny needs a few to restart one."""

RESUME_HINT = "what is done is kept, the same call with --resume goes on"

LOST_RESULT = ("FutureCancelledError", "FuturesCancelledError", "CancelledError", "TimeoutError", "CommClosedError")
"""The errors of distributed for a lost result; the network is submitted again."""

Results = Iterator[tuple[str, str | None]]
"""Networks as they end, each with the reason why it could not be mended, or None."""

NetworksProgress = Callable[[int, float, int | None], None]
"""Called with the numbers of finished networks, of mended readings, and of workers."""


def connect(cluster: str | Client, *, timeout: float = ANSWER_TIMEOUT) -> Client:
    """Return a client of a cluster: the given one, or a new one for `tcp://host:port`.

    Raises
    ------
    ConfigError
        dask.distributed is not installed, or `cluster` is no address.
    SensormendError
        No cluster answers within `timeout` seconds.
    """
    try:
        import distributed
    except ImportError:
        raise ConfigError("a cluster needs dask.distributed: pip install 'sensormend[cluster]'") from None
    if not isinstance(cluster, str):
        return cluster
    if "://" not in cluster or not cluster.partition("://")[2]:
        raise ConfigError(f"a cluster is the address of its scheduler, like tcp://10.0.0.1:8786; got {cluster!r}")
    with quiet():
        try:
            client: Client = distributed.Client
            return client(cluster, timeout=timeout, set_as_default=False)
        except ERRORS as error:
            reason = "" if isinstance(error, OSError | TimeoutError) else f" ({reason_of(error)})"
            raise SensormendError(
                f"no cluster answers at {cluster}{reason}; start one with: dask scheduler, and on every machine: "
                f"dask worker {cluster} --nthreads 1"
            ) from None


@contextmanager
def connected(cluster: str | Client, *, timeout: float = ANSWER_TIMEOUT) -> Iterator[Client]:
    """Yield a client whose workers have the same sensormend; a client created here is closed at the end."""
    with quiet():
        client = connect(cluster, timeout=timeout)
        try:
            check_workers(client)
            yield client
        finally:
            if client is not cluster:
                # A lost scheduler must not delay the exit: no result is pending there.
                with suppress(*ERRORS):
                    client.close(timeout=2)


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress the tracebacks that distributed logs: errors are reported in one line by sensormend."""
    with suppress(ImportError):
        import distributed  # noqa: F401 - it sets up its loggers, each with a level of its own
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] in LOGGERS]
    before = {logger: logger.level for logger in map(logging.getLogger, {*names, *LOGGERS})}
    for logger in before:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in before.items():
            logger.setLevel(level)


def workers_of(client: Client) -> dict[str, int]:
    """Return the threads of each present worker; empty where the scheduler is lost."""
    if is_lost(client):
        return {}
    try:
        threads: Mapping[str, int] = client.sync(client.scheduler.ncores, callback_timeout=ANSWER_TIMEOUT)
    except (*ERRORS, AttributeError):
        return {}
    return dict(threads)


def is_lost(client: Client) -> bool:
    """Return whether the connection to the scheduler is lost."""
    return bool(client.status != "running")


def check_workers(client: Client, *, timeout: float = ANSWER_TIMEOUT) -> None:
    """Refuse a cluster without workers for `timeout` seconds, or whose workers have another sensormend or none."""
    deadline = monotonic() + timeout
    while not workers_of(client):
        if is_lost(client) or monotonic() > deadline:
            raise SensormendError(
                f"the cluster at {client.scheduler.address} has no workers; start some with: "
                f"dask worker {client.scheduler.address} --nthreads 1"
            )
        sleep(0.1)

    # A nested function is pickled by value: workers without sensormend could not import it by name.
    def installed() -> str:
        try:
            import sensormend
        except ImportError as error:
            return f"! {error}"
        return str(sensormend.__version__)

    versions = _ask_workers(client, installed)
    without = [worker for worker, version in versions.items() if version.startswith("!")]
    if without:
        reason = versions[without[0]][1:].strip()
        raise SensormendError(
            f"sensormend cannot be imported on {_counted(without, versions)} ({reason}); install it there: "
            f"pip install 'sensormend[cluster]=={__version__}'"
        )
    different = [worker for worker, version in versions.items() if version != __version__]
    if different:
        (version, _), *_ = Counter(versions[worker] for worker in different).most_common(1)
        raise SensormendError(
            f"sensormend is {version} on {_counted(different, versions)} and {__version__} here; the same version has "
            "to be everywhere, else the same readings need not give the same rows"
        )


def _ask_workers(client: Client, function: Any, *arguments: Any) -> dict[str, Any]:
    """Return the results of a function on every worker; raise a one-line error where a worker does not answer."""
    try:
        answers: dict[str, Any] = client.run(function, *arguments, on_error="return")
    except Exception as error:
        raise SensormendError(f"the workers of {client.scheduler.address} do not answer: {reason_of(error)}") from None
    for worker, answer in answers.items():
        if isinstance(answer, BaseException):
            raise SensormendError(f"worker {worker} does not answer: {reason_of(answer)}")
    return answers


def _counted(workers: list[str], all_workers: Mapping[str, Any]) -> str:
    return f"worker {workers[0]}" if len(workers) == 1 else f"{len(workers)} of {len(all_workers)} workers"


class RunStoppedError(SensormendError):
    """An error that stops the whole run, since the readings of one network did not cause it."""


@dataclass(frozen=True)
class NetworkTask:
    """The task of a worker: to mend one network.

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
    token
        A file that exists as long as the run wants the result.
    version
        The run's version of sensormend; a worker that joined later may have another one.
    """

    work: Path
    part: NetworkPart
    options: Options
    record: dict[str, Any]
    token: Path
    version: str = __version__

    @property
    def source(self) -> Path:
        """The file of its readings."""
        return self.work / "staging" / "parts" / f"{self.part.folder}.parquet"

    @property
    def out(self) -> Path:
        """Its OUT."""
        return self.work / self.part.folder

    @property
    def partial(self) -> Path:
        """Its OUT while it is incomplete."""
        return self.work / f"{self.part.folder}.partial"

    @property
    def attempts(self) -> Path:
        """The file with a line for each attempt."""
        return self.work / "staging" / "attempts" / self.part.folder

    @property
    def done(self) -> bool:
        """Whether its OUT is complete."""
        return (self.out / "run.json").exists()


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


def clean_part(task: NetworkTask, progress: Callable[[float], None] = lambda done: None) -> str | None:
    """Mend a network, or resume it; return the reason in one line where its readings cannot be mended.

    Raises
    ------
    RunStoppedError
        The failure has another cause: the disk, this worker.
    """
    if task.done:
        return None
    if not task.source.exists():
        raise RunStoppedError(
            f"{task.source} cannot be seen from every worker: OUT has to lie on a file system that they share"
        )
    if task.version != sensormend.__version__:
        raise RunStoppedError(
            f"a worker with sensormend {sensormend.__version__} has joined, and {task.version} is here"
        )
    claim = _Claim(task)
    with claim.held():
        # The worker that held the lock before may have completed the network.
        return None if task.done else _mend_part(task, claim, progress)


def _mend_part(task: NetworkTask, claim: _Claim, progress: Callable[[float], None]) -> str | None:
    with suppress(OSError), task.attempts.open("a", encoding="utf-8") as lines:
        place = Checkpoint(task.partial / "state").place
        lines.write(f"{place.name if place else 'nothing'}\n")

    def stages(name: str, readings: int) -> Callable[[float], None]:
        def report(done: float) -> None:
            claim.check()
            if name == "mending":
                progress(done)

        return report

    def mend(*, resume: bool) -> None:
        clean_archive(task.source, task.out, task.options, resume=resume, stages=stages, part=task.record)

    resumed = Checkpoint(task.partial / "state").job is not None
    if not resumed:
        # A worker was killed before it wrote its first state, or returned after the files were removed.
        shutil.rmtree(task.partial, ignore_errors=True)
    try:
        try:
            mend(resume=resumed)
        except (StateError, InputError, ConfigError):
            if not resumed:
                raise
            # A state that cannot be resumed, since it is broken or OUT was moved, is started anew.
            shutil.rmtree(task.partial)
            mend(resume=False)
    except (InputError, ConfigError, DivergenceError) as error:
        return one_line(error)
    except (SensormendError, OSError, MemoryError) as error:
        raise RunStoppedError(f"network {task.part.network!r}: {one_line(error)}") from None
    except Exception as error:
        return f"{type(error).__name__}: {one_line(error)}"
    return None


def outcome_of(task: NetworkTask, failed: str | None = None) -> Outcome:
    """Return the outcome of a network, from the files that it wrote."""
    part, attempts = task.part, len(attempts_of(task))
    if failed is not None:
        return Outcome(part.network, part.folder, 0, 0, 0, 0, 0.0, attempts, failed)
    deadline = monotonic() + VISIBLE_WITHIN
    while not task.done:
        if monotonic() > deadline:
            raise SensormendError(f"network {part.network!r} is done, but {task.out} is not visible here")
        sleep(0.1)
    run = read_json(task.out / "run.json")
    period = duration(run["grid"]["period"])
    wrong = {
        (fault.sensor, fault.variable, day)
        for fault in read_faults(task.out / "faults.csv")
        if fault.reason not in NOT_WHOLE_PERIODS and not fault.doubtful
        for day in range(fault.start // period, -(-fault.end // period))
    }
    return Outcome(
        part.network, part.folder, run["sensors"], run["periods"], len(wrong), run["filled"], run["seconds"], attempts,
        "done",
    )  # fmt: skip


def attempts_of(task: NetworkTask) -> list[str]:
    """Return the state from which each attempt at a network started."""
    try:
        return task.attempts.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def repeated_attempts(task: NetworkTask) -> int:
    """Return the number of latest attempts in a row that started from the same state."""
    states = attempts_of(task)
    return next((count for count, state in enumerate(reversed(states)) if state != states[-1]), len(states))


class _Claim:
    """The claim of a worker on a network, which ends with the run or when another worker claims the network.

    A lost scheduler cannot stop its workers, so that each of them checks its claim while it works.
    """

    def __init__(self, task: NetworkTask) -> None:
        self._task, self._checked = task, monotonic()
        self._path, self._name = task.attempts.with_suffix(".claim"), uuid4().hex

    @contextmanager
    def held(self) -> Iterator[None]:
        """Claim the network and hold its lock; a worker that held it before sees the new claim and stops.

        The lock is not in the network's own work folder, which is removed when the network is done.
        """
        if not os.path.exists(self._task.token):
            raise RunStoppedError(NOT_WANTED)  # a task of an ended run must not claim the network
        try:
            with beside(self._path) as new:
                new.write_text(self._name, encoding="utf-8")
        except SensormendError as error:
            raise RunStoppedError(str(error)) from None
        deadline = monotonic() + LOCK_TIMEOUT
        with ExitStack() as stack:
            while True:
                try:
                    refusal = f"another worker is still at network {self._task.part.network!r}"
                    stack.enter_context(locked(self._path.with_suffix(".lock"), refusal))
                    break
                except SensormendError as error:
                    self.check()
                    if monotonic() > deadline:
                        raise RunStoppedError(str(error)) from None
                    sleep(0.2)
            yield

    def check(self) -> None:
        """Raise `RunStoppedError` where the claim has ended."""
        if monotonic() - self._checked > CHECK_INTERVAL:
            self._checked = monotonic()
            if not os.path.exists(self._task.token) or self._is_replaced():
                raise RunStoppedError(NOT_WANTED)

    def _is_replaced(self) -> bool:
        try:
            return self._path.read_text(encoding="utf-8") != self._name
        except OSError:
            return False


def mend_here(tasks: Sequence[NetworkTask], progress: NetworksProgress) -> Results:
    """Mend networks one after the other in this process, and yield each with its reason of failure or None."""
    readings = 0
    for done, task in enumerate(tasks):

        def report(share: float, done: int = done, before: int = readings, count: int = task.part.readings) -> None:
            progress(done, before + share * count, None)

        report(0.0)
        try:
            yield task.part.network, clean_part(task, report)
        except RunStoppedError as error:
            raise SensormendError(f"{error}; {RESUME_HINT}") from None
        readings += task.part.readings
    progress(len(tasks), readings, None)


def mend_on_workers(client: Client, tasks: Sequence[NetworkTask], progress: NetworksProgress) -> Results:
    """Mend networks on the workers, and yield each with its reason of failure or None."""
    from distributed import KilledWorker

    # The largest first, so that the run does not end with one large network on a single worker.
    waiting = deque(sorted(tasks, key=lambda task: -task.part.readings))
    finished: SimpleQueue[Any] = SimpleQueue()
    submitted: dict[Any, NetworkTask] = {}
    done = readings = 0
    killed: Counter[str] = Counter()
    workers = _Workers(client)
    try:
        while waiting or submitted:
            threads = workers.threads()
            progress(done, readings, len(threads))
            while waiting and len(submitted) < TASKS_PER_THREAD * sum(threads.values()):
                task = waiting.popleft()
                future = client.submit(clean_part, task, key=f"clean-{task.part.folder}-{uuid4().hex}", pure=False)
                submitted[future] = task
                future.add_done_callback(finished.put)
            try:
                future = finished.get(timeout=0.2)
            except Empty:
                continue
            task = submitted.pop(future)
            try:
                # A worker that dies with its result does no harm: the next attempt finds the network done.
                failed = future.result(timeout=NO_WORKERS)
            except RunStoppedError as error:
                raise SensormendError(f"{error}; {RESUME_HINT}") from None
            except KilledWorker:
                killed[task.part.network] += 1
                # A worker that dies before it notes its attempt is counted here only.
                deaths = repeated_attempts(task) or killed[task.part.network]
                if deaths < MOST_DEATHS:
                    waiting.appendleft(task)
                    continue
                failed = f"its worker died {deaths} times in the same place; too little memory?"
            except Exception as error:
                workers.check()
                if type(error).__name__ not in LOST_RESULT:
                    reason = f"network {task.part.network!r}: {reason_of(error)}"
                    raise SensormendError(f"{reason}; {RESUME_HINT}") from None
                waiting.appendleft(task)
                continue
            done += 1
            readings += task.part.readings
            yield task.part.network, failed
        progress(done, readings, len(workers.threads()))
    finally:
        with suppress(*ERRORS):
            if submitted and not is_lost(client):
                client.cancel(list(submitted))


class _Workers:
    """The present workers, updated from time to time, since they come and go."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._address = client.scheduler.address
        self._threads: dict[str, int] = {}
        self._updated = self._last_seen = 0.0

    def threads(self) -> dict[str, int]:
        """Return the threads of each worker; stop the run after a time without any."""
        self.check()
        if monotonic() - self._updated > 1:
            self._threads, self._updated = workers_of(self._client), monotonic()
            if self._threads or not self._last_seen:
                self._last_seen = self._updated
            elif self._updated - self._last_seen > NO_WORKERS:
                raise SensormendError(f"the cluster at {self._address} has no workers any more; {RESUME_HINT}")
        return self._threads

    def check(self) -> None:
        """Stop the run where the scheduler is lost."""
        if is_lost(self._client):
            raise SensormendError(f"the scheduler at {self._address} is lost; {RESUME_HINT}")


def probe(client: Client, folder: Path) -> None:
    """Refuse workers that do not see a folder of OUT, or see another one at its path."""
    token = uuid4().hex
    question = folder / f"probe-{token}"
    question.write_text(token)
    try:
        answers = _ask_workers(client, _answer_probe, str(question), token)
        blind = [worker for worker, answer in answers.items() if answer is None]
        deadline = monotonic() + 5
        for worker, answer in answers.items():
            # A network file system shows a new file with a delay.
            while answer is not None and not (folder / answer).exists() and monotonic() < deadline:
                sleep(0.1)
            if answer is not None and not (folder / answer).exists():
                blind.append(worker)
        if blind:
            raise SensormendError(
                f"{len(blind)} of {len(answers)} workers do not see {folder} (worker {blind[0]}): OUT has to lie "
                "on a file system that all of them share, at the same path"
            )
    finally:
        for file in folder.glob(f"probe-{token}*"):
            file.unlink(missing_ok=True)


def _answer_probe(question: str, token: str) -> str | None:
    """Write an answer beside a probe, and return its name; None where the probe is not visible."""
    file = Path(question)
    answer = file.with_name(f"{file.name}-{uuid4().hex}")
    for _ in range(20):
        with suppress(OSError):
            if file.read_text() == token:
                answer.write_text(token)
                return answer.name
        sleep(0.1)
    return None
