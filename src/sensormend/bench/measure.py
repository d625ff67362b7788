"""`measured` measures the seconds and the memory of a run; `workers` starts processes with one BLAS thread each."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from sensormend.errors import SensormendError

__all__ = ["Measured", "measured", "workers"]

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
RESET_PEAK = "5"
"""Writing this to clear_refs resets the peak resident size; see proc(5)."""


@dataclass
class Measured:
    """Set when the block ends: seconds, and peak megabytes above those at its start, NaN where unknown.

    `processor` is processor time in seconds.
    """

    seconds: float = float("nan")
    processor: float = float("nan")
    peak_mb: float = float("nan")


@contextmanager
def measured() -> Iterator[Measured]:
    """Measure a block; the peak of memory on Linux only."""
    result = Measured()
    _give_back()
    before = _resident("VmRSS") if _forget_peak() else float("nan")
    started, processor_started = perf_counter(), process_time()
    try:
        yield result
    finally:
        result.seconds, result.processor = perf_counter() - started, process_time() - processor_started
        result.peak_mb = max(0.0, _resident("VmHWM") - before) if before == before else before


def _give_back() -> None:
    """Return free memory of the allocator to the system; it would hide as much of the next peak."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it, musl does not
        if trim is not None:
            trim(0)


def _forget_peak() -> bool:
    try:
        CLEAR.write_text(RESET_PEAK, encoding="ascii")
    except OSError:
        return False
    return STATUS.is_file()


def _resident(field: str) -> float:
    for line in STATUS.read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    return float("nan")


# The products are small: a second BLAS thread gains nothing, and takes the core of another process.
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
LOOK_AFTER_PARENT = 0.5
"""Seconds between two checks that the parent is alive."""


@contextmanager
def workers(processes: int) -> Iterator[ProcessPoolExecutor]:
    """Yield a pool of processes that end soon after the block, also after an error."""
    # Spawned processes on every system: a fork would inherit running BLAS threads.
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    pool = ProcessPoolExecutor(processes, mp_context=context, initializer=_begin, initargs=(stop,))
    try:
        yield pool
    except BrokenProcessPool:
        raise SensormendError(
            "a process of the bench was killed from outside, perhaps for lack of memory; the same command continues"
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
    """Leave Ctrl-C to the parent, and end with it: a process must not outlive a killed parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def watch() -> None:
        while not stop.wait(LOOK_AFTER_PARENT) and (parent is None or parent.is_alive()):
            pass
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
