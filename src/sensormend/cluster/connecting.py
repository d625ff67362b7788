"""A cluster by its address: whether it answers, whether its workers are like us, and one line where they are not."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from time import monotonic, sleep
from typing import Any

from sensormend import __version__
from sensormend.errors import ConfigError, SensormendError

__all__ = [
    "ERRORS",
    "PATIENCE",
    "Client",
    "ask_workers",
    "check_workers",
    "connect",
    "connected",
    "first_line",
    "is_lost",
    "quiet",
    "workers_of",
]

Client = Any
"""A `distributed.Client`, which has no types of its own."""

PATIENCE = 5.0
"""Seconds until it is said that no cluster answers, or that it has no workers."""

LOGGERS = ("distributed", "tornado", "asyncio", "bokeh")

ERRORS = (OSError, TimeoutError, asyncio.TimeoutError, ValueError, TypeError, ImportError, RuntimeError)
"""What distributed raises where nobody answers, or what answers is nothing of its own."""


def connect(cluster: str | Client, *, timeout: float = PATIENCE) -> Client:
    """Return a client of a cluster: the one that is given, or one of its own for `tcp://host:port`.

    Parameters
    ----------
    cluster
        An address, or a client that is connected.
    timeout
        Seconds until nobody answers.

    Raises
    ------
    ConfigError
        dask.distributed is not installed, or this is no address.
    SensormendError
        No cluster answers.
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
            why = "" if isinstance(error, OSError | TimeoutError) else f" ({first_line(error)})"
            raise SensormendError(
                f"no cluster answers at {cluster}{why}; start one with: dask scheduler, and on every machine: "
                f"dask worker {cluster} --nthreads 1"
            ) from None


@contextmanager
def connected(cluster: str | Client, *, timeout: float = PATIENCE) -> Iterator[Client]:
    """Have a client whose workers are like us; one that was made here is closed at the end."""
    with quiet():
        client = connect(cluster, timeout=timeout)
        try:
            check_workers(client)
            yield client
        finally:
            if client is not cluster:
                # A scheduler that is gone must not keep us: nothing of ours is waiting there.
                with suppress(*ERRORS):
                    client.close(timeout=2)


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the tracebacks of distributed off the screen: what went wrong is said in one line of ours."""
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
    """Return the workers that there are now, and how many threads each has; none where the scheduler is gone."""
    if is_lost(client):
        return {}
    try:
        threads: Mapping[str, int] = client.sync(client.scheduler.ncores, callback_timeout=PATIENCE)
    except (*ERRORS, AttributeError):
        return {}
    return dict(threads)


def is_lost(client: Client) -> bool:
    """Say whether the scheduler has gone."""
    return bool(client.status != "running")


def check_workers(client: Client, *, timeout: float = PATIENCE) -> None:
    """Refuse a cluster without workers, or one whose workers have another sensormend or none.

    Parameters
    ----------
    client
        A connected one.
    timeout
        Seconds until there has to be a worker.
    """
    deadline = monotonic() + timeout
    while not workers_of(client):
        if is_lost(client) or monotonic() > deadline:
            raise SensormendError(
                f"the cluster at {client.scheduler.address} has no workers; start some with: "
                f"dask worker {client.scheduler.address} --nthreads 1"
            )
        sleep(0.1)

    # Not by its name, as what is in a module: workers without sensormend could not take it.
    def installed() -> str:
        try:
            import sensormend
        except ImportError as error:
            return f"! {error}"
        return str(sensormend.__version__)

    found = ask_workers(client, installed)
    lacking = [worker for worker, told in found.items() if told.startswith("!")]
    if lacking:
        why = found[lacking[0]][1:].strip()
        raise SensormendError(
            f"sensormend cannot be imported on {_counted(lacking, found)} ({why}); install it there: "
            f"pip install 'sensormend[cluster]=={__version__}'"
        )
    others = [worker for worker, told in found.items() if told != __version__]
    if others:
        (version, _), *_ = Counter(found[worker] for worker in others).most_common(1)
        raise SensormendError(
            f"sensormend is {version} on {_counted(others, found)} and {__version__} here; the same version has to be "
            "everywhere, else the same readings need not give the same rows"
        )


def ask_workers(client: Client, function: Any, *given: Any) -> dict[str, Any]:
    """Return what a function says on every worker; one line says so where a worker does not answer."""
    try:
        found: dict[str, Any] = client.run(function, *given, on_error="return")
    except Exception as error:
        raise SensormendError(f"the workers of {client.scheduler.address} do not answer: {first_line(error)}") from None
    for worker, told in found.items():
        if isinstance(told, BaseException):
            raise SensormendError(f"worker {worker} does not answer: {first_line(told)}")
    return found


def _counted(some: list[str], found: Mapping[str, Any]) -> str:
    return f"worker {some[0]}" if len(some) == 1 else f"{len(some)} of {len(found)} workers"


def first_line(error: BaseException) -> str:
    """Return what an error says, without the pages that distributed may add."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
