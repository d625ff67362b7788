"""One part of a network that is spread over workers: its rows, as the worker that has them keeps them."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.errors import SensormendError, ShapeError
from sensormend.methods._olrtr import Beginning, Ending, Lesson, Sums
from sensormend.methods._olrtr_modes import Solver
from sensormend.methods._olrtr_rows import Rows, Workspace
from sensormend.methods._olrtr_verdict import in_precision, slots_last, told
from sensormend.methods.base import published_recovery
from sensormend.recovery import FloatArray, Recovery
from sensormend.state import read_state, write_state
from sensormend.tensor import as_readings

__all__ = [
    "Begun",
    "Drawn",
    "Given",
    "LostPartError",
    "Part",
    "Terms",
    "Written",
    "call",
    "call_all",
    "drawn",
    "drop",
    "hold",
    "replay",
]

STATE_VERSION = 1


class LostPartError(SensormendError):
    """The worker has no such part: it is not the process that had it."""


@dataclass(frozen=True)
class Terms:
    """What every part has to know of the model."""

    fiber_axis: int
    threshold: float
    outlier_norm: float
    """lambda2 / N."""
    spectral: bool
    single: bool
    shape: tuple[int, ...]
    """Of a part's rows."""


@dataclass(frozen=True)
class Drawn:
    """Rows of a dictionary that are drawn, as one machine draws them: the first of them, and how many."""

    seed: int
    first: int
    rows: int
    rank: int

    def rows_of_part(self) -> tuple[FloatArray, FloatArray]:
        """Return L and D."""
        L = drawn(self.seed, self.first * self.rank, (self.rows, self.rank))
        return L, np.zeros(L.shape)


@dataclass(frozen=True, eq=False)
class Given:
    """Rows that are sent."""

    L: FloatArray
    D: FloatArray

    def rows_of_part(self) -> tuple[FloatArray, FloatArray]:
        """Return L and D."""
        return self.L, self.D


@dataclass(frozen=True)
class Written:
    """Rows of a checkpoint."""

    path: str

    def rows_of_part(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return L and D."""
        _, arrays = read_state(self.path, method="ClusterOLRTR rows", version=STATE_VERSION)
        return arrays["L"], arrays["D"]


@dataclass(frozen=True, eq=False)
class Begun:
    """The first look at a part's readings: what is summed, L_0'Z to start from, and whether there are any."""

    beginning: Beginning
    start: FloatArray | None
    seen: bool


class Part:
    """The rows of one part from period to period. What a period teaches counts when its result is told."""

    def __init__(self, terms: Terms, rows: Drawn | Given | Written) -> None:
        self._terms = terms
        dtype = np.float32 if terms.single else np.float64
        self._L, self._D = (np.ascontiguousarray(part, dtype=dtype) for part in rows.rows_of_part())
        self._space = Workspace()
        self._ending: Ending | None = None
        self.lock = threading.Lock()
        """One call at a time: who was interrupted and calls again may find its last call still at work."""
        self.turn = ""
        """The minibatch that it is at; none when its result was told."""

    def begin(self, minibatch: Any, solvers: Sequence[Solver], depth: int) -> Begun:
        """Take a minibatch's rows, and the other modes."""
        terms = self._terms
        readings = as_readings(minibatch, fiber_axis=terms.fiber_axis, keep_single=True)
        self._readings = in_precision(readings, single=terms.single)
        if self._readings.shape != terms.shape:
            raise ShapeError(f"a part has rows of shape {terms.shape}; got {self._readings.shape}")
        self._ending = None
        self._rows = Rows(
            slots_last(self._readings, terms.fiber_axis), self._L, self._D,
            threshold=terms.outlier_norm, spectral=terms.spectral, space=self._space,
        )  # fmt: skip
        with np.errstate(all="ignore"):
            beginning = self._rows.begin()
            start = self._rows.prepare(solvers, depth=depth)
        return Begun(beginning, start, beginning.squares > 0 or not bool(np.isnan(self._readings).all()))

    def step(self, shared: FloatArray | None, mixing: FloatArray | None, limit: float) -> Sums:
        """Do one iteration."""
        with np.errstate(all="ignore"):
            return self._rows.step(shared, mixing, limit)

    def finish(self, lesson: Lesson, modes: int) -> tuple[list[tuple[FloatArray, FloatArray]], bool]:
        """Learn, and say what the other modes learn from it; and whether all is finite."""
        with np.errstate(all="ignore"):
            self._ending = self._rows.finish(lesson, modes)
        return self._ending.others, self._ending.sound

    def tell(self, iterations: int) -> Recovery:
        """Keep what was learned, and give the result."""
        assert self._ending is not None
        ending, terms, readings = self._ending, self._terms, self._readings
        self._L, self._D, self._ending = ending.L, ending.D, None
        self.turn = ""
        del self._rows, self._readings
        return told(
            readings, ending, fiber_axis=terms.fiber_axis, threshold=terms.threshold, iterations=iterations
        )  # fmt: skip

    def tell_nothing(self, value: float) -> Recovery:
        """Give the result of a minibatch that teaches nothing: one value everywhere."""
        readings, terms = self._readings, self._terms
        return published_recovery(
            readings, np.full_like(readings, value), np.zeros_like(readings),
            fiber_axis=terms.fiber_axis, threshold=terms.threshold, iterations=0,
        )  # fmt: skip

    def rows(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return L and D."""
        return self._L, self._D

    def write(self, path: str) -> None:
        """Write L and D, beside and renamed."""
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        arrays = {"L": self._L, "D": self._D}
        write_state(path, method="ClusterOLRTR rows", version=STATE_VERSION, settings={}, arrays=arrays)


_HELD: dict[tuple[str, int], Part] = {}
"""The parts that this process has, by the model's token and their number."""


def hold(token: str, number: int, terms: Terms, rows: Drawn | Given | Written) -> int:
    """Make a part here, and return which process that is."""
    _HELD[token, number] = Part(terms, rows)
    return os.getpid()


def call(token: str, number: int, turn: str | None, name: str, *given: Any) -> Any:
    """Call a part that is here; with a turn only for the minibatch that it is at, or begins."""
    part = _HELD.get((token, number))
    if part is None:
        raise LostPartError(f"part {number} is not here")
    with part.lock:
        if name == "begin":
            part.turn = turn or ""
        elif turn is not None and part.turn != turn:
            raise LostPartError(f"part {number} is not at this minibatch any more")
        method: Callable[..., Any] = getattr(part, name)
        return method(*given)


async def call_all(token: str, turn: str | None, name: str, given: Mapping[int, tuple[Any, ...]]) -> dict[int, Any]:
    """Call those of these parts that are here, at the same time; what they raise is returned.

    Not as tasks of the scheduler: what is awaited here comes back in a quarter of the time.
    """
    here = [number for number in given if (token, number) in _HELD]
    calls = (asyncio.to_thread(call, token, number, turn, name, *given[number]) for number in here)
    return dict(zip(here, await asyncio.gather(*calls, return_exceptions=True), strict=True))


def replay(token: str, number: int, turn: str, calls: Sequence[tuple[str, tuple[Any, ...]]]) -> None:
    """Repeat calls, for what they leave behind."""
    for name, given in calls:
        call(token, number, turn, name, *given)


def drop(token: str) -> None:
    """Let go of a model's parts."""
    for key in [key for key in _HELD if key[0] == token]:
        del _HELD[key]


def drawn(seed: int, skipped: int, shape: tuple[int, ...]) -> FloatArray:
    """Draw from U(0, 1) what `default_rng(seed)` gives after so many numbers."""
    bits = np.random.PCG64(seed)
    bits.advance(skipped)
    return np.random.Generator(bits).random(shape)
