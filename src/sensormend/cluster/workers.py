"""`spread` mends networks on the workers of a Dask cluster, which may come and go; `clean_part` mends one of them."""

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
from sensormend.pipeline.archive import clean_archive
from sensormend.pipeline.checkpoint import Checkpoint

__all__ = [
    "Client",
    "NetworksProgress",
    "Order",
    "Outcome",
    "RunStoppedError",
    "attempts_of",
    "check_workers",
    "clean_part",
    "connect",
    "connected",
    "fruitless",
    "in_turn",
    "is_lost",
    "outcome_of",
    "probe",
    "quiet",
    "spread",
    "workers_of",
]

Client = Any
"""A `distributed.Client`; the package has no type annotations."""

PATIENCE = 5.0
"""Seconds until a cluster that does not answer, or has no workers, is reported."""

LOGGERS = ("distributed", "tornado", "asyncio", "bokeh")

ERRORS = (OSError, TimeoutError, asyncio.TimeoutError, ValueError, TypeError, ImportError, RuntimeError)
"""The errors of distributed where no server answers, or one that is no scheduler."""


def connect(cluster: str | Client, *, timeout: float = PATIENCE) -> Client:
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
            made: Client = distributed.Client
            return made(cluster, timeout=timeout, set_as_default=False)
        except ERRORS as error:
            why = "" if isinstance(error, OSError | TimeoutError) else f" ({_first_line(error)})"
            raise SensormendError(
                f"no cluster answers at {cluster}{why}; start one with: dask scheduler, and on every machine: "
                f"dask worker {cluster} --nthreads 1"
            ) from None


@contextmanager
def connected(cluster: str | Client, *, timeout: float = PATIENCE) -> Iterator[Client]:
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
        threads: Mapping[str, int] = client.sync(client.scheduler.ncores, callback_timeout=PATIENCE)
    except (*ERRORS, AttributeError):
        return {}
    return dict(threads)


def is_lost(client: Client) -> bool:
    """Return whether the connection to the scheduler is lost."""
    return bool(client.status != "running")


def check_workers(client: Client, *, timeout: float = PATIENCE) -> None:
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
    lacking = [worker for worker, version in versions.items() if version.startswith("!")]
    if lacking:
        why = versions[lacking[0]][1:].strip()
        raise SensormendError(
            f"sensormend cannot be imported on {_counted(lacking, versions)} ({why}); install it there: "
            f"pip install 'sensormend[cluster]=={__version__}'"
        )
    others = [worker for worker, version in versions.items() if version != __version__]
    if others:
        (version, _), *_ = Counter(versions[worker] for worker in others).most_common(1)
        raise SensormendError(
            f"sensormend is {version} on {_counted(others, versions)} and {__version__} here; the same version has to "
            "be everywhere, else the same readings need not give the same rows"
        )


def _ask_workers(client: Client, function: Any, *given: Any) -> dict[str, Any]:
    """Return the results of a function on every worker; raise a one-line error where a worker does not answer."""
    try:
        answers: dict[str, Any] = client.run(function, *given, on_error="return")
    except Exception as error:
        raise SensormendError(
            f"the workers of {client.scheduler.address} do not answer: {_first_line(error)}"
        ) from None
    for worker, answer in answers.items():
        if isinstance(answer, BaseException):
            raise SensormendError(f"worker {worker} does not answer: {_first_line(answer)}")
    return answers


def _counted(some: list[str], workers: Mapping[str, Any]) -> str:
    return f"worker {some[0]}" if len(some) == 1 else f"{len(some)} of {len(workers)} workers"


def _first_line(error: BaseException) -> str:
    """Return the first line of an error; distributed may add pages to it."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


LOCKED = 120.0
"""Seconds to wait for the lock of a network that another worker held: a network file system may need a minute and a
half to detect that the holder of a lock is dead."""

LOOK = 1.0
"""Seconds between two checks whether the run that gave the order still exists."""

UNSEEN = 90.0
"""Seconds after which a file that a worker renamed must be visible here on a network file system."""

NOBODY = "the result of this network is no longer wanted"

NOT_WHOLE_PERIODS = ("spike", "silent")
"""Reasons of faults that are not counted in sensor-days."""


class RunStoppedError(SensormendError):
    """An error that stops the whole run, since the readings of one network did not cause it."""


@dataclass(frozen=True)
class Order:
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


def clean_part(order: Order, progress: Callable[[float], None] = lambda done: None) -> str | None:
    """Mend a network, or resume it; return the reason in one line where its readings cannot be mended.

    Raises
    ------
    RunStoppedError
        The failure has another cause: the disk, this worker.
    """
    if _is_done(order):
        return None
    if not order.source.exists():
        raise RunStoppedError(
            f"{order.source} cannot be seen from every worker: OUT has to lie on a file system that they share"
        )
    if order.version != sensormend.__version__:
        raise RunStoppedError(
            f"a worker with sensormend {sensormend.__version__} has joined, and {order.version} is here"
        )
    wanted = _Wanted(order)
    with _alone(order, wanted):
        # The worker that held the lock before may have completed the network.
        return None if _is_done(order) else _mend_order(order, wanted, progress)


def _mend_order(order: Order, wanted: _Wanted, progress: Callable[[float], None]) -> str | None:
    _note_attempt(order)

    def stages(name: str, readings: int) -> Callable[[float], None]:
        def report(done: float) -> None:
            wanted.check()
            if name == "mending":
                progress(done)

        return report

    def mend(*, resume: bool) -> None:
        clean_archive(order.source, order.out, order.options, resume=resume, stages=stages, part=order.record)

    resumed = Checkpoint(order.partial / "state").job is not None
    if not resumed:
        # A worker was killed before it wrote its first state, or returned after the files were removed.
        shutil.rmtree(order.partial, ignore_errors=True)
    try:
        try:
            mend(resume=resumed)
        except (StateError, InputError, ConfigError):
            if not resumed:
                raise
            # A state that cannot be resumed, since it is broken or OUT was moved, is started anew.
            shutil.rmtree(order.partial)
            mend(resume=False)
    except (InputError, ConfigError, DivergenceError) as error:
        return one_line(error)
    except (SensormendError, OSError, MemoryError) as error:
        raise RunStoppedError(f"network {order.part.network!r}: {one_line(error)}") from None
    except Exception as error:
        return f"{type(error).__name__}: {one_line(error)}"
    return None


def outcome_of(order: Order, failed: str | None = None) -> Outcome:
    """Return the outcome of a network, from the files that it wrote."""
    part, attempts = order.part, len(attempts_of(order))
    if failed is not None:
        return Outcome(part.network, part.folder, 0, 0, 0, 0, 0.0, attempts, failed)
    deadline = monotonic() + UNSEEN
    while not _is_done(order):
        if monotonic() > deadline:
            raise SensormendError(f"network {part.network!r} is done, but {order.out} is not to be seen from here")
        sleep(0.1)
    run = read_json(order.out / "run.json")
    period = duration(run["grid"]["period"])
    wrong = {
        (fault.sensor, fault.variable, day)
        for fault in read_faults(order.out / "faults.csv")
        if fault.reason not in NOT_WHOLE_PERIODS and not fault.doubtful
        for day in range(fault.start // period, -(-fault.end // period))
    }
    return Outcome(
        part.network, part.folder, run["sensors"], run["periods"], len(wrong), run["filled"], run["seconds"], attempts,
        "done",
    )  # fmt: skip


def attempts_of(order: Order) -> list[str]:
    """Return the state from which each attempt at a network started."""
    try:
        return _attempts(order).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def fruitless(order: Order) -> int:
    """Return the number of latest attempts in a row that started from the same state."""
    begun = attempts_of(order)
    return next((count for count, state in enumerate(reversed(begun)) if state != begun[-1]), len(begun))


def _is_done(order: Order) -> bool:
    return (order.out / "run.json").exists()


def _attempts(order: Order) -> Path:
    return order.work / "staging" / "attempts" / order.part.folder


def _note_attempt(order: Order) -> None:
    file = _attempts(order)
    with suppress(OSError), file.open("a", encoding="utf-8") as lines:
        place = Checkpoint(order.partial / "state").place
        lines.write(f"{place.name if place else 'nothing'}\n")


@contextmanager
def _alone(order: Order, wanted: _Wanted) -> Iterator[None]:
    """Hold the lock of a network; a worker that held it before sees the new claim and stops.

    The lock is not in the network's own work folder, which is removed when the network is done.
    """
    wanted.put_down_claim()
    deadline = monotonic() + LOCKED
    with ExitStack() as stack:
        while True:
            try:
                refusal = f"another worker is still at network {order.part.network!r}"
                stack.enter_context(locked(wanted.claim.with_suffix(".lock"), refusal))
                break
            except SensormendError as error:
                wanted.check()
                if monotonic() > deadline:
                    raise RunStoppedError(str(error)) from None
                sleep(0.2)
        yield


class _Wanted:
    """Checks whether the run still wants the result, since a lost scheduler cannot stop its workers.

    It does not when its token is removed, or when another worker has claimed the network since.
    """

    def __init__(self, order: Order) -> None:
        self._token, self._looked = order.token, monotonic()
        self.claim, self._name = _attempts(order).with_suffix(".claim"), uuid4().hex

    def put_down_claim(self) -> None:
        """Claim the network, unless the token of the run is removed: an order of an ended run must not claim it."""
        if not os.path.exists(self._token):
            raise RunStoppedError(NOBODY)
        try:
            with beside(self.claim) as new:
                new.write_text(self._name, encoding="utf-8")
        except SensormendError as error:
            raise RunStoppedError(str(error)) from None

    def check(self) -> None:
        """Raise `RunStoppedError` where the result is no longer wanted."""
        if monotonic() - self._looked > LOOK:
            self._looked = monotonic()
            if not os.path.exists(self._token) or self._is_claimed():
                raise RunStoppedError(NOBODY)

    def _is_claimed(self) -> bool:
        try:
            return self.claim.read_text(encoding="utf-8") != self._name
        except OSError:
            return False


AHEAD = 2
"""Networks per thread that the scheduler holds at a time: the present one and the next. Thousands of waiting tasks
would slow every step of the scheduler, and would all be assigned before a later worker joins."""

FRUITLESS = 4
"""The number of workers that may die on a network in the same state before it is given up."""

NO_WORKERS = 60.0
"""Seconds without any worker until the run stops; a nanny needs a few to restart one."""

GO_ON = "what is done is kept, the same call with --resume goes on"

PASSING = ("FutureCancelledError", "FuturesCancelledError", "CancelledError", "TimeoutError", "CommClosedError")
"""The errors of distributed for a lost result; the network is submitted again."""

Ended = Iterator[tuple[str, str | None]]
"""Networks as they end, each with the reason why it could not be mended, or None."""

NetworksProgress = Callable[[int, float, int | None], None]
"""Called with the numbers of finished networks, of mended readings, and of workers."""


def in_turn(orders: Sequence[Order], progress: NetworksProgress) -> Ended:
    """Mend networks one after the other in this process, and yield each with its reason of failure or None."""
    readings = 0
    for done, order in enumerate(orders):

        def report(share: float, done: int = done, before: int = readings, own: int = order.part.readings) -> None:
            progress(done, before + share * own, None)

        report(0.0)
        try:
            yield order.part.network, clean_part(order, report)
        except RunStoppedError as error:
            raise SensormendError(f"{error}; {GO_ON}") from None
        readings += order.part.readings
    progress(len(orders), readings, None)


def spread(client: Client, orders: Sequence[Order], progress: NetworksProgress) -> Ended:
    """Mend networks on the workers, and yield each with its reason of failure or None."""
    from distributed import KilledWorker

    # The largest first, so that the run does not end with one large network on a single worker.
    waiting = deque(sorted(orders, key=lambda order: -order.part.readings))
    landed: SimpleQueue[Any] = SimpleQueue()
    flying: dict[Any, Order] = {}
    done = readings = 0
    killed: Counter[str] = Counter()
    workers = _Workers(client)
    try:
        while waiting or flying:
            threads = workers.threads()
            progress(done, readings, len(threads))
            while waiting and len(flying) < AHEAD * sum(threads.values()):
                order = waiting.popleft()
                future = client.submit(clean_part, order, key=f"clean-{order.part.folder}-{uuid4().hex}", pure=False)
                flying[future] = order
                future.add_done_callback(landed.put)
            try:
                future = landed.get(timeout=0.2)
            except Empty:
                continue
            order = flying.pop(future)
            try:
                # A worker that dies with its result does no harm: the next attempt finds the network done.
                failed = future.result(timeout=NO_WORKERS)
            except RunStoppedError as error:
                raise SensormendError(f"{error}; {GO_ON}") from None
            except KilledWorker:
                killed[order.part.network] += 1
                # A worker that dies before it notes its attempt is counted here only.
                died = fruitless(order) or killed[order.part.network]
                if died < FRUITLESS:
                    waiting.appendleft(order)
                    continue
                failed = f"its worker died {died} times in the same place; too little memory?"
            except Exception as error:
                workers.check()
                if type(error).__name__ not in PASSING:
                    raise SensormendError(f"network {order.part.network!r}: {_first_line(error)}; {GO_ON}") from None
                waiting.appendleft(order)
                continue
            done += 1
            readings += order.part.readings
            yield order.part.network, failed
        progress(done, readings, len(workers.threads()))
    finally:
        with suppress(*ERRORS):
            if flying and not is_lost(client):
                client.cancel(list(flying))


class _Workers:
    """The present workers, updated from time to time, since they come and go."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._address = client.scheduler.address
        self._known: dict[str, int] = {}
        self._asked = self._seen = 0.0

    def threads(self) -> dict[str, int]:
        """Return the threads of each worker; stop the run after a time without any."""
        self.check()
        if monotonic() - self._asked > 1:
            self._known, self._asked = workers_of(self._client), monotonic()
            if self._known or not self._seen:
                self._seen = self._asked
            elif self._asked - self._seen > NO_WORKERS:
                raise SensormendError(f"the cluster at {self._address} has no workers any more; {GO_ON}")
        return self._known

    def check(self) -> None:
        """Stop the run where the scheduler is lost."""
        if is_lost(self._client):
            raise SensormendError(f"the scheduler at {self._address} is lost; {GO_ON}")


def probe(client: Client, folder: Path, what: str) -> None:
    """Refuse workers that do not see a folder, or another one at its path; `what` is its name in messages."""
    token = uuid4().hex
    asked = folder / f"probe-{token}"
    asked.write_text(token)
    try:
        answers = _ask_workers(client, _see, str(asked), token)
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
                f"{len(blind)} of {len(answers)} workers do not see {folder} (worker {blind[0]}): {what} has to lie "
                "on a file system that all of them share, at the same path"
            )
    finally:
        for file in folder.glob(f"probe-{token}*"):
            file.unlink(missing_ok=True)


def _see(asked: str, token: str) -> str | None:
    """Write an answer beside a probe, and return its name; None where the probe is not visible."""
    file = Path(asked)
    answer = file.with_name(f"{file.name}-{uuid4().hex}")
    for _ in range(20):
        with suppress(OSError):
            if file.read_text() == token:
                answer.write_text(token)
                return answer.name
        sleep(0.1)
    return None
