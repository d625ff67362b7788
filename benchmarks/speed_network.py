"""Whole networks on one core: readings per second, peak memory, and how near to the machine that is.

The periods are those of a simulated city with its faults and gaps, written to files once and read back by a process
for each method. Memory is the difference between two such processes: one only reads the periods, the other mends them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from sensormend.model.partition import HALO, OWNED
from speed_machine import RANK, SLOTS
from speed_simulate import simulate_in_a_process
from speed_walk import Task, Walked, walk_in_a_process

__all__ = ["CUT", "PERIODS", "Contender", "Network", "contenders", "made"]

PERIODS = 12
CUT = 7
"""The period after which NetworkModel cuts its network anew, as the next one begins."""

WARM = 4
"""Periods after which OLRTR's dictionaries have settled, and NetworkModel judges."""

OLRTR_PERIODS = 9

LIMIT = 150.0
"""Seconds of processor time after which no further period of a run is begun."""

AUTHORS_ALPHA = 330.0
FIBER_LIMIT = 20.0
"""OLRTR's lambda2: a residual of 10 over a sensor's 24 readings, 2 degrees in each, makes it faulty."""


@dataclass(frozen=True)
class Contender:
    """A method as it is measured: its name in the tables, what it is run as, and in which precision it multiplies."""

    name: str
    task: Task
    multiplies_in: str = "float64"

    def typical(self, done: int) -> slice:
        """Return which of the periods count.

        For NetworkModel those after the first new cut, where a run gets so far, else those before it but for the first.
        """
        if self.task.method != "NetworkModel":
            return slice(min(WARM, done - 1), done)
        return slice(CUT + 1, done) if done > CUT + 1 else slice(min(2, done - 1), min(done, CUT - 1))


@dataclass(frozen=True)
class Network:
    """Periods in a folder, what it took to make one (None: they were there), and what merely reading them holds."""

    sensors: int
    folder: Path
    seconds_to_make: float | None
    held: dict[str, int] = field(default_factory=dict)

    def measure(self, contender: Contender, machine: dict[str, Any]) -> dict[str, Any]:
        """Run a contender over the periods."""
        dtype = contender.task.dtype
        if dtype not in self.held:
            self.held[dtype] = walk_in_a_process(self.folder, Task("nothing", dtype=dtype)).peak
        walked = walk_in_a_process(self.folder, contender.task)
        typical = contender.typical(len(walked.seconds))
        seconds, readings = median(walked.seconds[typical]), self.sensors * SLOTS
        taken = walked.peak - self.held[dtype]
        cut = walked.seconds[CUT] if len(walked.seconds) > CUT and contender.task.method == "NetworkModel" else None
        return {
            "sensors": self.sensors,
            "method": contender.name,
            "periods": len(walked.seconds),
            "timed": [typical.start + 1, typical.stop],
            "seconds": seconds,
            "readings_per_second": readings / seconds,
            "ns": 1e9 * seconds / readings,
            "cut_seconds": cut,
            "minibatch_mib": walked.read / 2**20,
            "peak_mib": taken / 2**20,
            "minibatches": taken / walked.read,
            "outputs": walked.returned / walked.read,
            "all_seconds": walked.seconds,
            "all_iterations": walked.iterations,
            "faulty": walked.faulty[-1],
            **_shares(contender, walked, typical, self.sensors, machine),
        }


@contextmanager
def made(sensors: int, periods: int = PERIODS, *, keep: Path | None = None) -> Iterator[Network]:
    """Simulate a network into a temporary folder, or into one under `keep`, where it is found again."""
    with TemporaryDirectory() as passing:
        folder = Path(passing) if keep is None else keep / f"{sensors}x{SLOTS}"
        complete = len(list(folder.glob("*.npy"))) == periods
        yield Network(sensors, folder, None if complete else simulate_in_a_process(folder, sensors, periods))


def contenders() -> list[Contender]:
    """Return NetworkModel, and OLRTR of rank 10 with the limit above and with that of its authors."""
    contestants = [Contender("NetworkModel", Task("NetworkModel", limit=LIMIT), "float32")]
    for name, weight in (("", {"lambda2": FIBER_LIMIT}), (f", alpha {AUTHORS_ALPHA:g}", {"alpha": AUTHORS_ALPHA})):
        task = Task("OLRTR", {"rank": RANK, "seed": 0, **weight}, periods=OLRTR_PERIODS, limit=LIMIT)
        contestants.append(Contender(f"OLRTR rank {RANK}{name}", task))
    return contestants


def _shares(
    contender: Contender, walked: Walked, typical: slice, sensors: int, machine: dict[str, Any]
) -> dict[str, Any]:
    """Say how near to the machine a period is: to moving its bytes at full speed, and to its bare products.

    - `bandwidth`: the readings in and everything that is returned out, once, against the copy.
    - `bandwidth_iterations` (OLRTR): besides, in each iteration, a read of B and of Z, a write of Z, and a read of the
      sensors' dictionary: the least that a loop could do with.
    - `products`: the flops of the products that the mathematics needs, against a bare product of their shape.

    Both count every row in every iteration, as the algorithm has it.
    """
    once, seconds = walked.read + walked.returned, median(walked.seconds[typical])
    shares: dict[str, Any] = {"bytes_once": once, "bandwidth": once / seconds / machine["copy"]}
    if contender.task.method == "OLRTR":
        iterations = median(walked.iterations[typical])
        moved = once + iterations * (3 + RANK / SLOTS) * walked.read
        # Two modes: coefficients and their part of X in each iteration; then D of both; L_0'L_0, A_1 and the sweep.
        flops = sensors * (8 * SLOTS * RANK * iterations + 4 * SLOTS * RANK + 8 * RANK**2)
        rate = machine["products"][f"tall {contender.multiplies_in}"]
        shares |= {"iterations": iterations, "bandwidth_iterations": moved / seconds / machine["copy"]}
    else:
        # A part of the network: its members' inverse covariance, their predictions of each other, and what is learned.
        members = OWNED + HALO
        flops = sensors / OWNED * (2 * members**3 + 4 * members**2 * SLOTS)
        rate = machine["products"][f"batched {contender.multiplies_in}"]
    return shares | {"flops": flops, "products": flops / seconds / rate}
