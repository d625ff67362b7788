"""One network too large for a machine: its sensors are spread over the workers of a Dask cluster."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import numpy as np
from numpy.typing import ArrayLike

from sensormend.cluster.connecting import Client, check_workers, connect, quiet, workers_of
from sensormend.cluster.holding import Parts
from sensormend.cluster.joining import joined, lazily_joined, summed
from sensormend.cluster.row_parts import Begun, Drawn, Given, Terms, Written, drawn
from sensormend.cluster.spreading import probe
from sensormend.errors import ConfigError, DivergenceError, ShapeError, StateError
from sensormend.methods._olrtr import Rules, Statistics, Sums, first_lesson, learned, solve
from sensormend.methods._olrtr_modes import RAN_OFF, Solver, inverse_of
from sensormend.methods.olrtr import OLRTR
from sensormend.methods.settings import check_count
from sensormend.recovery import FloatArray, Recovery
from sensormend.state import read_state, write_state

__all__ = ["ClusterOLRTR"]

STATE_VERSION = 1
HEAD = "model.npz"
ROWS = re.compile(r"rows-\d+-[0-9a-f]{8}-\d+\.npz")
"""Files of ours beside it: the period, a name of the checkpoint's own, the part."""


@dataclass(frozen=True, eq=False)
class _Solved:
    """How a minibatch was solved: the call by which the parts tell it, and what is known then."""

    told: tuple[str, Any]
    iterations: int
    A: FloatArray
    others: list[Statistics]
    learned: bool


class ClusterOLRTR:
    """OLRTR on one network whose sensors are spread over a cluster.

    Every part of the sensors, with its rows of the first mode's dictionary and its readings, stays with one worker.
    What is sent and summed in an iteration is small: L_0'Z, R_0 and a few norms. The result equals that of `OLRTR`
    but for the order of summation, with the same number of iterations.

    Parameters
    ----------
    cluster
        The scheduler's address, tcp://host:port, or a `distributed.Client`.
    rank, alpha, settings
        Those of `OLRTR`; `fiber_axis` is 1 or more, since axis 0, the sensors, is what is spread.
    checkpoint
        A folder that all workers can write to. With it a worker that dies is made up for: its part is read back on
        another one, and told again what it was told since, so that the result is the same to the last bit.
    every
        Periods from one checkpoint to the next.
    parts
        Into how many parts a NumPy minibatch is cut; as many as there are worker threads where not told. Those of a
        Dask array are its chunks along the sensors, in the first minibatch.

    Notes
    -----
    An iteration is one round trip from here to all workers and back: 5 to 10 ms beside the work itself, measured with
    two workers on one machine. A period has three round trips more. `solver="accelerated"` needs fewer.

    The arrays of a result are as the minibatch was: NumPy for NumPy, and Dask arrays that lie with the workers for a
    Dask array. Those of a worker that dies after `update` has returned are lost, though not what was learned; who asks
    for them waits in vain, so do so with a `timeout`.
    """

    def __init__(
        self,
        cluster: str | Client,
        rank: int,
        alpha: float | None = None,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        every: int = 1,
        parts: int | None = None,
        **settings: Any,
    ) -> None:
        self._model = OLRTR(rank, alpha, **settings)
        if self._model.fiber_axis == 0:
            raise ConfigError("fiber_axis must be 1 or more: axis 0, the sensors, is what is spread over the cluster")
        self._folder = None if checkpoint is None else Path(checkpoint).resolve()
        self._every = check_count("every", every)
        self._cut = None if parts is None else check_count("parts", parts)
        self._own = isinstance(cluster, str)
        self._parts: Parts | None = None
        self._rows: tuple[int, ...] = ()
        self._shape: tuple[int, ...] = ()
        self._A = np.zeros((rank, rank))
        self._others: list[Statistics] = []
        self._periods = 0
        self._learned = False
        self._closed = False
        with quiet():
            self._client = connect(cluster)
            try:
                check_workers(self._client)
            except BaseException:
                self.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def client(self) -> Client:
        """The client that it talks through: `client.compute(result.cleaned)` computes there."""
        return self._client

    @property
    def periods(self) -> int:
        """How many minibatches it has seen."""
        return self._periods

    @property
    def restored(self) -> int:
        """How many parts were made again because their worker died."""
        return 0 if self._parts is None else self._parts.restored

    def update(self, minibatch: Any) -> Recovery:
        """Recover one minibatch, a NumPy array or a Dask array chunked along the sensors, and learn from it."""
        if self._closed:
            raise ConfigError("this model was closed, and its workers have forgotten it; load its last checkpoint")
        with quiet():
            return self._update(minibatch)

    def checkpoint(self, folder: str | os.PathLike[str] | None = None) -> None:
        """Write everything to a folder, every part by its worker; the one given to the model where none is named.

        A reader sees the old checkpoint or the new one: the rows lie beside, and `model.npz` names them.
        """
        where = self._folder if folder is None else Path(folder).resolve()
        if where is None or self._parts is None:
            raise ConfigError("there is nothing to write yet" if where else "name a folder for the checkpoint")
        # Never those that the last model.npz there names, whoever wrote it: it is to be whole until the new one is.
        own = uuid4().hex[:8]
        names = [f"rows-{self._periods}-{own}-{number}.npz" for number in range(len(self._rows))]
        where.mkdir(parents=True, exist_ok=True)
        with quiet():
            self._parts.call_each("write", [(str(where / name),) for name in names])
        settings = {"settings": self._model._saved_settings(), "shape": self._shape, "rows": self._rows,
                    "periods": self._periods, "learned": self._learned, "names": names}  # fmt: skip
        arrays = {"A0": self._A} | {
            f"{part}{i}": getattr(mode, part) for i, mode in enumerate(self._others, 1) for part in "LAD"
        }
        write_state(where / HEAD, method="ClusterOLRTR", version=STATE_VERSION, settings=settings, arrays=arrays)
        for old in where.glob("rows-*.npz"):
            if ROWS.fullmatch(old.name) and old.name not in names:
                with suppress(OSError):
                    old.unlink()
        if where == self._folder:
            self._parts.checkpointed([str(where / name) for name in names])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one state file that `OLRTR.load` and `load` read; all rows of the dictionary pass through here."""
        state: dict[str, Any] = {"settings": self._model._saved_settings()}
        arrays: dict[str, Any] = {}
        if self._parts is not None and self._learned:
            with quiet():
                rows = self._parts.call("rows")
            L, D = (np.concatenate([part[which] for part in rows]).astype(np.float64) for which in (0, 1))
            modes = [Statistics(L, self._A, D), *self._others]
            modes.insert(self._model.fiber_axis, modes.pop())
            state |= {"shape": self._shape, "labels": None}
            arrays |= self._model._as_arrays(modes)
        write_state(path, method="OLRTR", version=2, settings=state, arrays=arrays)

    @classmethod
    def load(
        cls,
        cluster: str | Client,
        path: str | os.PathLike[str],
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        every: int = 1,
        parts: int | None = None,
    ) -> Self:
        """Go on from the folder of a checkpoint, or from a state file of `OLRTR`."""
        where = Path(path).resolve()
        folder = where.is_dir()
        if folder:
            state, arrays = read_state(where / HEAD, method="ClusterOLRTR", version=STATE_VERSION)
            given = state["settings"]
        else:
            one = OLRTR.load(where)
            given = one._saved_settings()
        model = cls(cluster, checkpoint=checkpoint, every=every, parts=parts, **given)
        try:
            if folder:
                model._go_on(where, state, arrays)
            elif one._learned is not None:
                model._take_over(one)
        except BaseException:
            model.close()
            raise
        return model

    def close(self) -> None:
        """Have the workers let go of the parts, and leave the cluster."""
        self._closed = True
        with quiet():
            if self._parts is not None:
                self._parts.close()
                self._parts = None
            if self._own:
                with suppress(Exception):
                    self._client.close(timeout=2)

    def _go_on(self, where: Path, state: Mapping[str, Any], arrays: Mapping[str, FloatArray]) -> None:
        try:
            self._shape, self._rows = tuple(state["shape"]), tuple(state["rows"])
            self._periods, self._learned = int(state["periods"]), bool(state["learned"])
            self._A = arrays["A0"]
            self._others = [Statistics(*(arrays[f"{part}{i}"] for part in "LAD")) for i in range(1, len(self._shape))]
            written = [Written(str(where / name)) for name in state["names"]]
        except (KeyError, TypeError, ValueError):
            raise StateError(f"{where.name} is not a whole checkpoint of ClusterOLRTR") from None
        self._spread(written)

    def _update(self, minibatch: Any) -> Recovery:
        spread = hasattr(minibatch, "dask") and hasattr(minibatch, "chunks")
        chunks = self._chunks_of_dask(minibatch) if spread else self._chunks_of_array(minibatch)
        assert self._parts is not None
        try:
            solved = self._solve(chunks)
            if spread:
                futures = self._parts.futures(*solved.told)
                homes = [self._parts.home(part) for part in range(len(futures))]
                shapes = [(rows, *self._shape[1:]) for rows in self._rows]
                recovery = lazily_joined(
                    self._client, futures, homes, shapes, fiber_axis=self._model.fiber_axis,
                    single=self._model.precision == "single", iterations=solved.iterations,
                )  # fmt: skip
            else:
                recovery = joined(self._parts.call(*solved.told))
        except BaseException:
            self._parts.forget()
            raise
        self._A, self._others, self._learned = solved.A, solved.others, solved.learned
        self._parts.learned()
        self._periods += 1
        if self._folder is not None and self._periods % self._every == 0:
            self.checkpoint()
        return recovery

    def _solve(self, chunks: Sequence[Any]) -> _Solved:
        """Solve a minibatch; what was learned counts when the parts have told their results."""
        parts, rules, count = self._parts, self._model._rules(), len(self._shape)
        assert parts is not None
        solvers = [Solver.of(mode.L, rules.lambda1, count) for mode in self._others]
        begun: list[Begun] = parts.begin(chunks, solvers, rules.depth(self._shape))
        beginning = summed([one.beginning for one in begun])
        if beginning.squares == 0:
            unknown = not self._learned and not any(one.seen for one in begun)
            told = ("tell_nothing", np.nan if unknown else 0.0)
            return _Solved(told, 0, self._A, self._others, self._learned or not unknown)
        starts = [one.start for one in begun]
        start = None if starts[0] is None else summed(starts)

        def step(shared: FloatArray | None, mixing: FloatArray | None, limit: float) -> Sums:
            sums: Sums = summed(parts.call("step", shared, mixing, limit))
            return sums

        with np.errstate(all="ignore"):
            inverse = inverse_of(beginning.gram, rules.lambda1)
            found = solve(step, start, inverse, beginning.squares, count, rules)
            A, lesson = first_lesson(self._A, found, rules)
            ends = parts.call("finish", lesson, count)
            others = [
                learned(mode, summed([end[0][i][0] for end in ends]), summed([end[0][i][1] for end in ends]), rules)
                for i, mode in enumerate(self._others)
            ]
        small = [A, *(part for mode in others for part in (mode.L, mode.A, mode.D))]
        if not (all(end[1] for end in ends) and all(np.isfinite(part).all() for part in small)):
            raise DivergenceError(RAN_OFF)
        return _Solved(("tell", found.iterations), found.iterations, A, others, True)

    # What comes in and goes out.

    def _chunks_of_array(self, minibatch: ArrayLike) -> list[Any]:
        array = np.ma.filled(minibatch, np.nan) if isinstance(minibatch, np.ma.MaskedArray) else np.asarray(minibatch)
        if self._parts is None:
            self._check_axes(array.shape)
            threads = sum(workers_of(self._client).values())
            count = min(len(array), self._cut or max(1, threads))
            self._begin(array.shape, [len(rows) for rows in np.array_split(np.arange(len(array)), count)])
        self._check_shape(array.shape)
        edges = np.cumsum((0, *self._rows))
        # A copy: what a part that dies is told again must not have changed.
        return [np.array(array[first:last]) for first, last in pairwise(edges)]

    def _chunks_of_dask(self, minibatch: Any) -> list[Any]:
        shape = tuple(minibatch.shape)
        if any(math.isnan(length) for length in shape):
            raise ShapeError("a Dask array of readings needs known chunks: call compute_chunk_sizes() first")
        if self._parts is None:
            self._check_axes(shape)
            self._begin(shape, list(minibatch.chunks[0]))
        self._check_shape(shape)
        aligned = minibatch.rechunk({0: self._rows, **dict.fromkeys(range(1, len(shape)), -1)})
        return list(aligned.to_delayed().reshape(-1))

    def _check_axes(self, shape: tuple[int, ...]) -> None:
        needed = max(2, self._model.fiber_axis + 1)
        if len(shape) < needed or 0 in shape:
            raise ShapeError(f"readings need {needed} axes or more, and a cell along each; got shape {shape}")

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        if shape != self._shape:
            raise ShapeError(f"ClusterOLRTR cannot add sensors or change shape, {self._shape} so far; got {shape}")

    # The start.

    def _begin(self, shape: tuple[int, ...], rows: Sequence[int]) -> None:
        model, rank = self._model, self._model.rank
        given = model._initial
        if given is not None and tuple(len(L) for L in given) != shape:
            lengths = [len(L) for L in given]
            raise ConfigError(f"dictionaries with {lengths} rows do not fit minibatches of shape {shape}")
        self._shape, self._rows = shape, tuple(int(count) for count in rows)
        edges = np.cumsum((0, *self._rows))
        origin: list[Drawn | Given | Written] = []
        for first, last in pairwise(edges.tolist()):
            if given is None:
                origin.append(Drawn(model.seed, first, last - first, rank))
            else:
                origin.append(Given(given[0][first:last], np.zeros((last - first, rank))))
        dictionaries, skipped = [], shape[0] * rank
        for axis in range(1, len(shape)):
            count = (shape[axis], rank)
            dictionaries.append(drawn(model.seed, skipped, count) if given is None else np.array(given[axis]))
            skipped += math.prod(count)
        modes = [Statistics(L, np.zeros((rank, rank)), np.zeros(L.shape)) for L in dictionaries]
        self._others = self._slots_last(modes)
        self._spread(origin)

    def _take_over(self, one: OLRTR) -> None:
        """Spread what a model of one machine knows."""
        assert one._learned is not None
        if one._learned.labels is not None:
            raise StateError("the state names its sensors, and ClusterOLRTR goes by their order; use OLRTR")
        known, self._shape = one._learned.arrays, one._learned.shape
        threads = sum(workers_of(self._client).values())
        count = min(self._shape[0], self._cut or max(1, threads))
        self._rows = tuple(len(rows) for rows in np.array_split(np.arange(self._shape[0]), count))
        edges = np.cumsum((0, *self._rows))
        self._A, self._learned = known["A0"], True
        modes = [Statistics(*(known[f"{part}{i}"] for part in "LAD")) for i in range(1, len(self._shape))]
        self._others = self._slots_last(modes)
        self._spread([
            Given(known["L0"][first:last], known["D0"][first:last])
            for first, last in pairwise(edges)
        ])  # fmt: skip

    def _slots_last(self, modes: list[Statistics]) -> list[Statistics]:
        modes.append(modes.pop(self._model.fiber_axis - 1))
        return modes

    def _spread(self, origin: Sequence[Drawn | Given | Written]) -> None:
        rules: Rules = self._model._rules()
        terms = [
            Terms(
                self._model.fiber_axis, self._model.threshold, self._model._lambda2(self._shape) / len(self._shape),
                rules.jacobi, self._model.precision == "single", (rows, *self._shape[1:]),
            )
            for rows in self._rows
        ]  # fmt: skip
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            probe(self._client, self._folder, "the folder of checkpoints")
        self._parts = Parts(self._client, terms, origin)
        self._parts.restorable = self._folder is not None
