"""Mends the periods in a folder in a process of its own: `python benchmarks/speed_walk.py FOLDER TASK`.

It says how long each period took and how much memory it held at most. The parent starts it with one BLAS thread, on
one core.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

import sensormend
from sensormend import OLRTR
from sensormend.recovery import Recovery

__all__ = ["Task", "Walked", "walk_in_a_process"]

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
NetworkModel = getattr(sensormend, "NetworkModel", None) or sensormend.AutoOLRTR
"""The engine of this checkout, or of one from before it had this name."""
FORGET_PEAK = "5"
"""What makes Linux forget the highest resident size so far, see proc(5)."""


@dataclass(frozen=True)
class Task:
    """Which method to run and how.

    Attributes
    ----------
    method
        NetworkModel, OLRTR, or nothing: then the periods are only read.
    settings
        Its keyword arguments.
    dtype
        Of the readings as they are handed over.
    periods
        How many at most.
    limit
        Seconds of processor time after which no further period is begun.
    """

    method: str
    settings: dict[str, Any] = field(default_factory=dict)
    dtype: str = "float64"
    periods: int = 1000
    limit: float = float("inf")


@dataclass(frozen=True)
class Walked:
    """What was measured, a value per period: processor and wall seconds, peak of memory, iterations, share faulty.

    `read` and `returned` are the bytes of one period's readings and of what is returned for it.
    """

    seconds: list[float]
    wall: list[float]
    peaks: list[int]
    iterations: list[int]
    faulty: list[float]
    read: int
    returned: int

    @property
    def peak(self) -> int:
        """Return the most memory held at once, in bytes, the interpreter and the libraries included."""
        return max(self.peaks)


def walk_in_a_process(folder: Path, task: Task, environment: dict[str, str] | None = None) -> Walked:
    """Run the task over the folder's periods in a fresh process, with more in its environment where that is given."""
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    ended = subprocess.run(
        [sys.executable, __file__, str(folder), json.dumps(asdict(task))],
        env={**os.environ, **threads, **(environment or {})}, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    return Walked(**json.loads(ended.stdout))


def walk(folder: Path, task: Task) -> Walked:
    """Read one period after the other, mend it, and let go of the result before the next, as who writes it out."""
    model = _model(task)
    readings: Any = None
    result: Any = None
    walked = Walked([], [], [], [], [], 0, 0)
    returned = 0
    for file in sorted(folder.glob("*.npy"))[: task.periods]:
        if sum(walked.seconds) > task.limit:
            break
        readings = result = None
        readings = np.load(file).astype(task.dtype, copy=False)
        _forget_peak()
        start, started = process_time(), perf_counter()
        result = readings if model is None else model.update(readings)
        walked.seconds.append(process_time() - start)
        walked.wall.append(perf_counter() - started)
        walked.peaks.append(_high_water())
        if isinstance(result, Recovery):
            returned = sum(getattr(getattr(result, field.name), "nbytes", 0) for field in fields(Recovery))
            walked.iterations.append(result.iterations)
            walked.faulty.append(float(result.faulty.mean()))
    return Walked(**{**asdict(walked), "read": readings.nbytes, "returned": returned})


def _model(task: Task) -> Any:
    if task.method == "nothing":
        return None
    return NetworkModel(**task.settings) if task.method == "NetworkModel" else OLRTR(**task.settings)


def _forget_peak() -> None:
    try:
        CLEAR.write_text(FORGET_PEAK, encoding="ascii")
    except OSError:
        return  # then every period has the peak of all so far


def _high_water() -> int:
    """Return this process's peak of resident memory in bytes."""
    # Linux hands ru_maxrss on from the process that started this one; VmHWM is ours alone.
    if STATUS.exists():
        line = next(line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asdict(walk(Path(sys.argv[1]), Task(**json.loads(sys.argv[2]))))))
