"""One of many networks, wherever it is mended: from its part of the readings to its OUT, or on from a checkpoint."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from uuid import uuid4

import sensormend
from sensormend import __version__
from sensormend.cluster.splitting import Part
from sensormend.errors import ConfigError, DivergenceError, InputError, SensormendError, StateError
from sensormend.files import beside, locked
from sensormend.io.metadata import read_faults, read_json
from sensormend.io.options import Options, duration
from sensormend.pipeline.archive import clean_archive
from sensormend.pipeline.checkpoint import Checkpoint

__all__ = ["Order", "Outcome", "StoppedError", "attempts_of", "clean_part", "fruitless", "outcome_of"]

LOCKED = 120.0
"""Seconds to wait for whoever is still at a network and was given up: a file system of another machine may need a
minute and a half to see that a holder of a lock is dead."""

LOOK = 1.0
"""Seconds between two looks whether the run that gave the order is still there."""

UNSEEN = 90.0
"""Seconds until what a worker has renamed on a file system of another machine has to be seen here."""

NOBODY = "nobody waits for this network any more"

UNTOLD = ("spike", "silent")
"""Faults that are not of whole periods."""


class StoppedError(SensormendError):
    """What stops the whole run, since it is not the fault of one network's readings."""


@dataclass(frozen=True)
class Order:
    """What a worker needs to mend a network.

    Attributes
    ----------
    work
        The folder of the run, by its whole path: the same one for every worker.
    part
        Which network.
    options
        As `clean` takes them.
    told
        What run.json of the network says of where its readings are from.
    token
        A file that is there as long as somebody wants this done.
    version
        The sensormend that gives the order: who has another one came later, and was not asked.
    """

    work: Path
    part: Part
    options: Options
    told: dict[str, Any]
    token: Path
    version: str = __version__

    @property
    def source(self) -> Path:
        """Where its readings are."""
        return self.work / "staging" / "parts" / f"{self.part.folder}.parquet"

    @property
    def out(self) -> Path:
        """Where its OUT goes."""
        return self.work / self.part.folder

    @property
    def partial(self) -> Path:
        """Where its OUT is while it is not whole."""
        return self.work / f"{self.part.folder}.partial"


@dataclass(frozen=True)
class Outcome:
    """A line of networks.csv: `outcome` is `done`, or one line that says why not."""

    network: str
    folder: str
    sensors: int
    periods: int
    faulty_sensor_days: int
    filled: int
    seconds: float
    attempts: int
    outcome: str


def clean_part(order: Order, tell: Callable[[float], None] = lambda done: None) -> str | None:
    """Mend a network, or go on with it; return why that cannot be, in one line, where its readings are at fault.

    Parameters
    ----------
    order
        What is to be done.
    tell
        Told how much of it is done, 0 to 1.

    Raises
    ------
    StoppedError
        Something else is wrong: the disk, this worker.
    """
    if _is_done(order):
        return None
    if not order.source.exists():
        raise StoppedError(
            f"{order.source} cannot be seen from every worker: OUT has to lie on a file system that they share"
        )
    if order.version != sensormend.__version__:
        raise StoppedError(f"a worker with sensormend {sensormend.__version__} has joined, and {order.version} is here")
    wanted = _Wanted(order)
    with _alone(order, wanted):
        # Whoever had it before may have come to its end.
        return None if _is_done(order) else _mend(order, wanted, tell)


def _mend(order: Order, wanted: _Wanted, tell: Callable[[float], None]) -> str | None:
    _note_attempt(order)

    def stages(name: str, readings: int) -> Callable[[float], None]:
        def told(done: float) -> None:
            wanted.check()
            if name == "mending":
                tell(done)

        return told

    def mend(*, resume: bool) -> None:
        clean_archive(order.source, order.out, order.options, resume=resume, stages=stages, part=order.told)

    resumed = Checkpoint(order.partial / "state").job is not None
    if not resumed:
        # Somebody was killed before it said what it does, or came back after all of it was cleared away.
        shutil.rmtree(order.partial, ignore_errors=True)
    try:
        try:
            mend(resume=resumed)
        except (StateError, InputError, ConfigError):
            if not resumed:
                raise
            # What cannot be gone on with, since it is broken or OUT has another path now, is begun again.
            shutil.rmtree(order.partial)
            mend(resume=False)
    except (InputError, ConfigError, DivergenceError) as error:
        return _one_line(error)
    except (SensormendError, OSError, MemoryError) as error:
        raise StoppedError(f"network {order.part.network!r}: {_one_line(error)}") from None
    except Exception as error:
        return f"{type(error).__name__}: {_one_line(error)}"
    return None


def outcome_of(order: Order, failed: str | None = None) -> Outcome:
    """Return what became of a network, from what it left."""
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
        if fault.reason not in UNTOLD and not fault.doubtful
        for day in range(fault.start // period, -(-fault.end // period))
    }
    return Outcome(
        part.network, part.folder, run["sensors"], run["periods"], len(wrong), run["filled"], run["seconds"], attempts,
        "done",
    )  # fmt: skip


def attempts_of(order: Order) -> list[str]:
    """Return from where a network was begun, every time: the newest state that there was then."""
    try:
        return _attempts(order).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def fruitless(order: Order) -> int:
    """Return how often in a row a network was begun from the same state, and nothing came of it."""
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
    """Have a network to oneself: who had it before was given up, is told so, and lets go; who is killed does at once.

    The lock is not the one in the network's own work folder, which goes away when the network is done.
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
                    raise StoppedError(str(error)) from None
                sleep(0.2)
        yield


class _Wanted:
    """Whether somebody still waits for the result: a scheduler that is gone cannot tell its workers to stop.

    Nobody does when the run's token is gone, or when another worker has claimed the network since.
    """

    def __init__(self, order: Order) -> None:
        self._token, self._looked = order.token, monotonic()
        self.claim, self._name = _attempts(order).with_suffix(".claim"), uuid4().hex

    def put_down_claim(self) -> None:
        """Claim the network; an order that was left over by another run must not take it from this one."""
        if not os.path.exists(self._token):
            raise StoppedError(NOBODY)
        try:
            with beside(self.claim) as new:
                new.write_text(self._name, encoding="utf-8")
        except SensormendError as error:
            raise StoppedError(str(error)) from None

    def check(self) -> None:
        """Stop where nobody does."""
        if monotonic() - self._looked > LOOK:
            self._looked = monotonic()
            if not os.path.exists(self._token) or self._is_claimed():
                raise StoppedError(NOBODY)

    def _is_claimed(self) -> bool:
        try:
            return self.claim.read_text(encoding="utf-8") != self._name
        except OSError:
            return False


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
