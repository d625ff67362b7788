"""OLRTR, online robust tensor recovery, as published."""

from __future__ import annotations

import math
import os
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sensormend.errors import ConfigError, DivergenceError, ShapeError, StateError
from sensormend.methods._olrtr import RAN_OFF, Statistics, learn, solve_sample
from sensormend.methods.base import published_recovery
from sensormend.methods.settings import check_choice, check_count, check_positive, check_seed
from sensormend.recovery import FloatArray, Recovery
from sensormend.state import read_state, write_state
from sensormend.tensor import as_labels, as_readings, check_fiber_axis

__all__ = ["OLRTR"]

STATE_VERSION = 1


@dataclass(frozen=True, eq=False)
class _Learned:
    """All that was learned. Replaced as a whole, never changed, so that a failed call leaves it as it was."""

    shape: tuple[int, ...]
    modes: list[Statistics]
    labels: tuple[str | int, ...] | None


class OLRTR:
    """Online robust tensor recovery (Hu, Qu, Wang and Work), exactly as published.

    Each minibatch B is split into a low-rank part X and outliers E that fill whole fibers. Every axis of the
    minibatch is a mode, and a small dictionary per mode carries what was learned to the next minibatch. The
    fixed point, the number of iterations and the result are those of the paper's algorithms 1 to 5.

    Parameters
    ----------
    rank
        The number of columns of every dictionary.
    alpha
        Sets lambda2 = alpha / sqrt(log(I_m^2)), I_m the longest axis of a minibatch. Give it or `lambda2`.
    lambda1
        The weight of the ridge on dictionaries and coefficients.
    lambda2
        The weight of the outliers: a fiber of the residual is one when its norm exceeds lambda2 / N.
    fiber_axis
        The axis of the slots. Fibers lie along it. Axis 0 is the sensors.
    tol, max_iter
        When the inner loop stops: the change of E and R relative to B, and the number of iterations.
    dictionary_update
        "column" sweeps over the columns in place, as the paper prints it. "jacobi" reads the old columns
        throughout and stops on a spectral norm, as the authors' code does; it exists to equal their outputs
        and can diverge.
    dictionaries
        What to start from, one (I_i, rank) array per mode; drawn from U(0, 1) where not given.
    threshold
        A fiber is faulty when any |E| in it exceeds this.
    seed
        For the dictionaries that are drawn. None takes a fresh one each time.

    Notes
    -----
    All minibatches have one shape. Labels, where given, must name the same sensors each time; their order is
    free.

    A minibatch without a reading other than 0 teaches nothing: the paper's stopping rule divides by |B|, and
    its column sweep would erase a fresh dictionary. The low-rank part is then 0, or NaN where nothing was
    read and nothing had been learned.

    When the dictionaries run off to infinity, `update` raises `DivergenceError` and the state stays finite.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> cycle = 20 + 5 * np.sin(np.arange(24) / 24 * 2 * np.pi)
    >>> readings = cycle[:, None] * random.uniform(0.9, 1.1, (8, 1, 30))
    >>> readings[5, :, 20] = random.uniform(0, 90, 24)
    >>> readings[2, 7, 25] = np.nan
    >>> result = OLRTR(rank=2, alpha=50, seed=0).recover(readings)
    >>> [(int(sensor), int(day)) for sensor, day in np.argwhere(result.faulty) if day >= 10]  # a cold start
    [(5, 20)]
    >>> bool(np.isnan(result.cleaned).any())
    False
    """

    def __init__(
        self,
        rank: int,
        alpha: float | None = None,
        *,
        lambda1: float = 0.01,
        lambda2: float | None = None,
        fiber_axis: int = 1,
        tol: float = 1e-4,
        max_iter: int = 500,
        dictionary_update: str = "column",
        dictionaries: Sequence[ArrayLike] | None = None,
        threshold: float = 0.01,
        seed: int | None = None,
    ) -> None:
        self.rank = check_count("rank", rank)
        if (alpha is None) == (lambda2 is None):
            raise ConfigError("give either alpha or lambda2, and not both")
        self.alpha = None if alpha is None else check_positive("alpha", alpha)
        self.lambda2 = None if lambda2 is None else check_positive("lambda2", lambda2)
        self.lambda1 = check_positive("lambda1", lambda1)
        self.fiber_axis = check_fiber_axis(fiber_axis)
        self.tol = check_positive("tol", tol)
        self.max_iter = check_count("max_iter", max_iter)
        self.dictionary_update = check_choice("dictionary_update", dictionary_update, ("column", "jacobi"))
        self.threshold = check_positive("threshold", threshold)
        self.seed = check_seed(seed)
        self._initial = None if dictionaries is None else self._check_dictionaries(dictionaries)
        self._learned: _Learned | None = None

    @property
    def dictionaries(self) -> list[FloatArray] | None:
        """A copy of the dictionaries as they are, one per axis of a minibatch; None before there are any."""
        if self._learned is None:
            return None if self._initial is None else [L.copy() for L in self._initial]
        return [mode.L.copy() for mode in self._in_order(self._learned.modes, back=True)]

    def update(self, minibatch: ArrayLike, sensors: Sequence[Hashable] | None = None) -> Recovery:
        """Recover one minibatch, (sensor, slot) or with any further axes, and learn from it."""
        readings = as_readings(minibatch, fiber_axis=self.fiber_axis)
        learned = self._learned or self._begin(readings.shape)
        if readings.shape != learned.shape:
            raise ShapeError(f"OLRTR cannot add sensors or change shape, {learned.shape} so far; got {readings.shape}")
        rows, labels = self._rows(sensors, learned)
        recovery, modes = self._solve(readings if rows is None else readings[np.argsort(rows)], learned.modes)
        X, E, iterations = recovery
        if rows is not None:
            X, E = X[rows], E[rows]
        if self._learned is None and np.isnan(readings).all():
            X = np.full(X.shape, np.nan)
        else:
            self._learned = _Learned(learned.shape, modes or learned.modes, labels)
        return published_recovery(
            readings, X, E, fiber_axis=self.fiber_axis, threshold=self.threshold, iterations=iterations
        )

    def recover(self, tensor: ArrayLike, passes: int = 1, *, periods: int = 1) -> Recovery:
        """Recover a whole tensor by walking its last axis, and learn from it.

        Parameters
        ----------
        tensor
            Readings with the periods as the last axis; without such an axis the tensor is one minibatch.
        passes
            How often to walk the tensor; the result is that of the last time.
        periods
            How many periods make a minibatch. One gives minibatches without the last axis, (sensor, slot);
            more give (sensor, slot, periods), whose last axis is a mode too. Where the last minibatch is
            shorter, the periods it lacks are missing readings: the mode's dictionary has a row for each.
        """
        passes, periods = check_count("passes", passes), check_count("periods", periods)
        readings = as_readings(tensor, fiber_axis=self.fiber_axis)
        before = self._learned
        try:
            for _ in range(passes):
                recovery = self._walk(readings, periods)
        except BaseException:
            self._learned = before
            raise
        return recovery

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the settings and everything learned to a `.npz` file."""
        names = ("rank", "alpha", "lambda1", "lambda2", "fiber_axis", "tol", "max_iter", "dictionary_update")
        settings: dict[str, Any] = {name: getattr(self, name) for name in (*names, "threshold", "seed")}
        arrays: dict[str, NDArray[Any]] = {f"initial{i}": L for i, L in enumerate(self._initial or [])}
        labels = None
        if self._learned is not None:
            labels = self._learned.labels
            for i, mode in enumerate(self._learned.modes):
                arrays |= {f"L{i}": mode.L, f"A{i}": mode.A, f"D{i}": mode.D}
        state = {"settings": settings, "labels": labels}
        write_state(path, method="OLRTR", version=STATE_VERSION, settings=state, arrays=arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model back; it goes on as if it had never stopped."""
        state, arrays = read_state(path, method="OLRTR", version=STATE_VERSION)
        try:
            initial = [arrays[f"initial{i}"] for i in range(sum(key.startswith("initial") for key in arrays))]
            model = cls(**state["settings"], dictionaries=initial or None)
            modes = [
                _mode(*(arrays[f"{part}{i}"] for part in "LAD"), rank=model.rank)
                for i in range(sum(key.startswith("L") for key in arrays))
            ]
            if modes:
                shape = tuple(len(mode.L) for mode in model._in_order(modes, back=True))
                labels = None if state["labels"] is None else as_labels(state["labels"], shape[0])
                model._learned = _Learned(shape, modes, labels)
        except (KeyError, TypeError, ValueError, IndexError):
            raise StateError(f"{os.fspath(path)} is not a whole OLRTR state") from None
        return model

    def _walk(self, readings: FloatArray, periods: int) -> Recovery:
        if readings.ndim == max(2, self.fiber_axis + 1):
            return self.update(readings)
        length = readings.shape[-1]
        if periods == 1:
            return Recovery.stack([self.update(readings[..., day]) for day in range(length)])
        parts = []
        for first in range(0, length, periods):
            chunk = readings[..., first : first + periods]
            lacking = periods - chunk.shape[-1]
            padding = [(0, 0)] * (readings.ndim - 1) + [(0, lacking)]
            parts.append(self.update(np.pad(chunk, padding, constant_values=np.nan)))
        return Recovery.concatenate(parts).first(length)

    def _begin(self, shape: tuple[int, ...]) -> _Learned:
        if self._initial is None:
            random = np.random.default_rng(self.seed)
            dictionaries = [random.random((length, self.rank)) for length in shape]
        elif tuple(len(L) for L in self._initial) != shape:
            rows = [len(L) for L in self._initial]
            raise ConfigError(f"dictionaries with {rows} rows do not fit minibatches of shape {shape}")
        else:
            dictionaries = self._initial
        square = np.zeros((self.rank, self.rank))
        modes = [Statistics(np.array(L), square, np.zeros(L.shape)) for L in dictionaries]
        return _Learned(shape, self._in_order(modes), None)

    def _solve(
        self, readings: FloatArray, modes: list[Statistics]
    ) -> tuple[tuple[FloatArray, FloatArray, int], list[Statistics] | None]:
        """Solve one minibatch; None in place of the new statistics where it has nothing to teach."""
        B = np.array(np.moveaxis(readings, self.fiber_axis, -1), order="C")
        missing = np.flatnonzero(np.isnan(B))
        B.reshape(-1)[missing] = 0.0
        if not B.any():
            return (np.zeros(readings.shape), np.zeros(readings.shape), 0), None
        jacobi = self.dictionary_update == "jacobi"
        with np.errstate(all="ignore"):
            sample = solve_sample(
                B,
                missing if missing.size else None,
                [mode.L for mode in modes],
                lambda1=self.lambda1,
                threshold=self._lambda2(B.shape) / B.ndim,
                tol=self.tol,
                max_iter=self.max_iter,
                spectral=jacobi,
            )
            learned = learn(modes, B, sample, lambda1=self.lambda1, jacobi=jacobi)
        finite = (np.isfinite(part).all() for mode in learned for part in (mode.L, mode.A, mode.D))
        if not (np.isfinite(sample.X).all() and all(finite)):
            raise DivergenceError(RAN_OFF)
        X, E = (np.moveaxis(part, -1, self.fiber_axis) for part in (sample.X, sample.E))
        return (X, E, sample.iterations), learned

    def _lambda2(self, shape: tuple[int, ...]) -> float:
        if self.lambda2 is not None:
            return self.lambda2
        assert self.alpha is not None
        # The formula has no value for a single cell; 2 is the smallest length that it holds for.
        return self.alpha / math.sqrt(math.log(max(2, *shape) ** 2))

    def _rows(
        self, sensors: Sequence[Hashable] | None, learned: _Learned
    ) -> tuple[list[int] | None, tuple[str | int, ...] | None]:
        """Where each sensor's row lies in the dictionaries (None: as given), and the labels in that order."""
        if sensors is None:
            return None, learned.labels
        if self.fiber_axis == 0:
            raise ShapeError("with fiber_axis=0 the first axis is the slots: there are no sensors to label")
        labels = as_labels(sensors, learned.shape[0])
        if learned.labels is None or labels == learned.labels:
            return None, labels
        if set(labels) != set(learned.labels):
            raise ShapeError("the labels name other sensors than before, and OLRTR cannot add or drop sensors")
        position = {label: row for row, label in enumerate(learned.labels)}
        return [position[label] for label in labels], learned.labels

    def _in_order(self, modes: Sequence[Statistics], *, back: bool = False) -> list[Statistics]:
        """Put the slots' mode last, where the kernel wants it, or back where the caller has it."""
        ordered = list(modes)
        if back:
            ordered.insert(self.fiber_axis, ordered.pop())
        else:
            ordered.append(ordered.pop(self.fiber_axis))
        return ordered

    def _check_dictionaries(self, dictionaries: Sequence[ArrayLike]) -> list[FloatArray]:
        try:
            given = [np.asarray(L) for L in dictionaries]
        except (TypeError, ValueError):
            given = [np.array("ragged")]
        if any(L.dtype.kind not in "iuf" for L in given):
            raise ConfigError("dictionaries must be arrays of real numbers, one per mode")
        checked = [np.array(L, dtype=np.float64) for L in given]
        for L in checked:
            if L.ndim != 2 or L.shape[1] != self.rank or not np.isfinite(L).all():
                raise ConfigError(f"a dictionary must be finite, (length, {self.rank}); got shape {L.shape}")
        return checked


def _mode(L: NDArray[Any], A: NDArray[Any], D: NDArray[Any], *, rank: int) -> Statistics:
    """Check one mode of a state file."""
    fits = L.shape == D.shape == (len(L), rank) and A.shape == (rank, rank)
    if not fits or not all(part.dtype == np.float64 and np.isfinite(part).all() for part in (L, A, D)):
        raise ValueError("not the statistics of a mode")
    return Statistics(L, A, D)
