"""What a run costs: seconds, and the most memory it held at once."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time

__all__ = ["Measured", "measured"]

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
RESET_PEAK = "5"
"""What tells the kernel to forget the highest resident size so far, see proc(5)."""


@dataclass
class Measured:
    """Filled when the block ends: seconds, and megabytes above what the process had when it began, else NaN.

    `processor` is seconds too, less those in which other processes had the core.
    """

    seconds: float = float("nan")
    processor: float = float("nan")
    peak_mb: float = float("nan")


@contextmanager
def measured() -> Iterator[Measured]:
    """Measure a block; the peak of memory on Linux only."""
    found = Measured()
    _give_back()
    before = _resident("VmRSS") if _forget_peak() else float("nan")
    started, began = perf_counter(), process_time()
    try:
        yield found
    finally:
        found.seconds, found.processor = perf_counter() - started, process_time() - began
        found.peak_mb = max(0.0, _resident("VmHWM") - before) if before == before else before


def _give_back() -> None:
    """Return what earlier runs left in the allocator, which would hide as much of the next peak."""
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
