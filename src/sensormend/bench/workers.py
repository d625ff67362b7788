"""Processes for the runs: fresh ones with one BLAS thread each, that end with the process that began them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any

from sensormend.errors import SensormendError

__all__ = ["workers"]

# The products are small: a second BLAS thread gains nothing, and takes the core of the process beside it.
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
LOOK_AFTER_PARENT = 0.5
"""Seconds between two looks whether the parent is alive."""


@contextmanager
def workers(processes: int) -> Iterator[ProcessPoolExecutor]:
    """Give a pool of processes; whatever happens, none outlives the block for long."""
    # Fresh processes, on every system: a fork would inherit BLAS threads that are there already.
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    pool = ProcessPoolExecutor(processes, mp_context=context, initializer=_begin, initargs=(stop,))
    try:
        yield pool
    except BrokenProcessPool:
        raise SensormendError(
            "a process of the bench was ended from outside, perhaps for want of memory; the same call goes on"
        ) from None
    except BaseException:
        stop.set()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _begin(stop: Any) -> None:
    """Leave Ctrl-C to the parent, and end with it: a run that was killed must not go on without anybody."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def watch() -> None:
        while not stop.wait(LOOK_AFTER_PARENT) and (parent is None or parent.is_alive()):
            pass
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
