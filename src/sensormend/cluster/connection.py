"""`connected` gives a client of a Dask cluster, and `check_workers` refuses a cluster that cannot do the work."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from sensormend import __version__
from sensormend.errors import ConfigError, SensormendError
from sensormend.io.sql import first_line

__all__ = ["Client", "check_workers", "connected"]

Client = Any
"""A `distributed.Client`; the package has no type annotations."""

ANSWER_TIMEOUT = 5.0
"""Seconds until a cluster that does not answer, or has no workers, is reported."""

NOT_CONNECTED = (OSError, TimeoutError, ValueError, TypeError, ImportError, RuntimeError, AttributeError)
"""The errors of distributed where no server answers, or one that is not a scheduler."""


@contextmanager
def connected(cluster: str | Client, *, timeout: float = ANSWER_TIMEOUT) -> Iterator[Client]:
    """Yield a client of a cluster, the given one or a new one for `tcp://host:port`, which is closed at the end.

    Until then distributed logs nothing: errors are reported in one line by sensormend.
    """
    try:
        import distributed
    except ImportError:
        raise ConfigError("a cluster needs dask.distributed: pip install 'sensormend[cluster]'") from None
    if isinstance(cluster, str) and not cluster.partition("://")[2]:
        raise ConfigError(f"a cluster is the address of its scheduler, like tcp://10.0.0.1:8786; got {cluster!r}")
    # Each logger of distributed has a level of its own.
    names = [name for name in logging.root.manager.loggerDict if name.startswith(("distributed", "tornado", "asyncio"))]
    levels = {logger: logger.level for logger in map(logging.getLogger, names)}
    for logger in levels:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        client = cluster if not isinstance(cluster, str) else _connect(distributed.Client, cluster, timeout)
        try:
            yield client
        finally:
            if client is not cluster:
                # A lost scheduler must not delay the exit: no result is pending there.
                with suppress(*NOT_CONNECTED):
                    client.close(timeout=2)
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)


def _connect(create: Any, address: str, timeout: float) -> Client:
    try:
        return create(address, timeout=timeout, set_as_default=False)
    except NOT_CONNECTED as error:
        reason = "" if isinstance(error, OSError) else f" ({first_line(error)})"
    # What is left of the client closes itself when it is collected. It needs a lock for that which the next client
    # holds while it starts: collected there, it would wait for good.
    gc.collect()
    raise SensormendError(
        f"no cluster answers at {address}{reason}; start one with: dask scheduler, and on every machine: "
        f"dask worker {address} --nthreads 1"
    )


def check_workers(client: Client, folder: Path, *, timeout: float = ANSWER_TIMEOUT) -> None:
    """Refuse a cluster without workers, or with one that has another sensormend or cannot read the output folder."""
    address = client.scheduler.address
    try:
        client.wait_for_workers(1, timeout=timeout)
    except NOT_CONNECTED:
        raise SensormendError(
            f"the cluster at {address} has no workers; start some with: dask worker {address} --nthreads 1"
        ) from None

    # A nested function is pickled by value: workers without sensormend could not import it by name.
    def find_version(path: str) -> str:
        open(path).close()
        import sensormend

        return sensormend.__version__

    # No worker has looked for this name before: a network file system has not remembered that it does not exist.
    with NamedTemporaryFile(dir=folder, prefix="probe-") as probe:
        answers = client.run(find_version, probe.name, on_error="return")
    for worker, answer in answers.items():
        if answer != __version__:
            problem = first_line(answer) if isinstance(answer, Exception) else f"it has sensormend {answer}"
            raise SensormendError(
                f"worker {worker} cannot take part: {problem}; all need sensormend {__version__} and access to "
                f"{folder} on a shared file system"
            )
