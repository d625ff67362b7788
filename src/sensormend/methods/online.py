"""What the published online methods share: one door in, one walk over the periods, one kind of state file."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sensormend.errors import DivergenceError, ShapeError, StateError
from sensormend.files import read_state, write_state
from sensormend.methods.base import published_recovery
from sensormend.methods.settings import check_count, check_positive, check_seed
from sensormend.recovery import FloatArray, Recovery
from sensormend.tensor import Array, as_labels, as_readings, check_fiber_axis, namespace, on_host

__all__ = ["Arrays", "PublishedOnline", "Solved"]

Arrays = Mapping[str, Array]
STATE_VERSION = 2
RAN_OFF = "the dictionary ran off to infinity; use a lower rank"


@dataclass(frozen=True, eq=False)
class Solved:
    """One minibatch as a method solved it, and what the method knows then; None: it had nothing to teach."""

    X: Array
    E: Array
    iterations: int
    arrays: Arrays | None


@dataclass(frozen=True, eq=False)
class _Learned:
    """All that was learned. Replaced as a whole, never changed, so that a failed call leaves it as it was."""

    shape: tuple[int, ...]
    arrays: Arrays
    labels: tuple[str | int, ...] | None


class PublishedOnline(ABC):
    """A published online method: `_begin` and `_solve` are its own, the rest is here.

    All minibatches have one shape, as far as `_fixed` says. Labels, where given, must name the same sensors each
    time; their order is free. When the numbers run off to infinity, `update` raises `DivergenceError` and the state
    stays as it was.
    """

    _settings: ClassVar[tuple[str, ...]] = ()
    """The names of the method's own settings."""
    _per_pass: ClassVar[tuple[str, ...]] = ()
    """The arrays that start afresh with every pass over the data, without the number of the mode."""
    _ran_off: ClassVar[str] = RAN_OFF
    _after_sensors: ClassVar[bool] = True
    """Whether the slots must lie on another axis than the first."""

    def __init__(self, *, rank: int, fiber_axis: int, threshold: float, seed: int | None) -> None:
        self.rank = check_count("rank", rank)
        self.fiber_axis = check_fiber_axis(fiber_axis, after_sensors=self._after_sensors)
        self.threshold = check_positive("threshold", threshold)
        self.seed = check_seed(seed)
        self._learned: _Learned | None = None

    @abstractmethod
    def _begin(self, shape: tuple[int, ...]) -> Arrays:
        """Return what is known before the first minibatch of this shape."""

    @abstractmethod
    def _solve(self, readings: Array, known: Arrays) -> Solved:
        """Solve one minibatch, NaN where missing, and learn from it."""

    def _taken(self, minibatch: ArrayLike) -> Array:
        """Return readings as the method computes with them, or refuse them."""
        return as_readings(minibatch, fiber_axis=self.fiber_axis)

    def _is_sound(self, solved: Solved) -> bool:
        """Whether nothing ran off; `last` alone may hold NaN, for a sensor that was never heard."""
        parts = [solved.X, solved.E, *(part for key, part in (solved.arrays or {}).items() if key != "last")]
        return all(bool(np.isfinite(part).all()) for part in parts)

    def _recovery(self, readings: Array, solved: Solved, *, unknown: bool) -> Recovery:
        """Tell what was found; where nothing is known at all, nothing is estimated."""
        X = namespace(solved.X).full_like(solved.X, np.nan) if unknown else solved.X
        return published_recovery(
            readings, X, solved.E, fiber_axis=self.fiber_axis, threshold=self.threshold, iterations=solved.iterations
        )

    def _fixed(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the part of a minibatch's shape that must be the same in every call."""
        return shape

    def update(self, minibatch: ArrayLike, sensors: Sequence[Hashable] | None = None) -> Recovery:
        """Recover one minibatch, (sensor, slot) or with any further axes, and learn from it."""
        name = type(self).__name__
        readings = self._taken(minibatch)
        shape = self._fixed(tuple(readings.shape))
        learned = self._learned or _Learned(shape, self._begin(shape), None)
        if shape != learned.shape:
            raise ShapeError(f"{name} cannot add sensors or change shape, {learned.shape} so far; got {readings.shape}")
        rows, labels = self._rows(sensors, learned)
        if rows is not None:
            readings = readings[np.argsort(rows)]
        with np.errstate(all="ignore"):
            solved = self._solve(readings, learned.arrays)
        if not self._is_sound(solved):
            raise DivergenceError(self._ran_off)
        # NaN alone differs from itself, in an array and in a tensor.
        unknown = self._learned is None and bool((readings != readings).all())
        if not unknown:
            known = learned.arrays if solved.arrays is None else solved.arrays
            self._learned = _Learned(learned.shape, known, labels)
        recovery = self._recovery(readings, solved, unknown=unknown)
        return recovery if rows is None else recovery.of_sensors(np.array(rows))

    def recover(self, tensor: ArrayLike, passes: int = 1) -> Recovery:
        """Recover a whole tensor by walking its last axis, and learn from it.

        Parameters
        ----------
        tensor
            Readings with the periods as the last axis; without such an axis the tensor is one minibatch.
        passes
            How often to walk the tensor; the result is that of the last time.
        """
        return self._repeat(tensor, passes, self._walk)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the settings and everything learned to a `.npz` file."""
        state: dict[str, Any] = {"settings": self._saved_settings()}
        arrays: dict[str, NDArray[Any]] = {}
        if self._learned is not None:
            state |= {"shape": self._learned.shape, "labels": self._learned.labels}
            arrays |= {key: np.asarray(on_host(part), np.float64) for key, part in self._learned.arrays.items()}
        write_state(path, method=type(self).__name__, version=STATE_VERSION, settings=state, arrays=arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model back; it goes on as if it had never stopped."""
        state, arrays = read_state(path, method=cls.__name__, version=STATE_VERSION)
        try:
            model = cls(**state["settings"])
            if "shape" in state:
                shape = tuple(check_count("shape", length) for length in state["shape"])
                labels = None if state["labels"] is None else as_labels(state["labels"], shape[0])
                model._learned = _Learned(shape, _like(model._begin(shape), arrays), labels)
        except (KeyError, TypeError, ValueError, IndexError):
            raise StateError(f"{os.fspath(path)} is not a whole {cls.__name__} state") from None
        return model

    def _saved_settings(self) -> dict[str, Any]:
        names = ("rank", "fiber_axis", "threshold", "seed", *self._settings)
        return {name: getattr(self, name) for name in names}

    def _repeat(self, tensor: ArrayLike, passes: int, walk: Callable[[FloatArray], Recovery]) -> Recovery:
        """Walk a tensor `passes` times; a walk that fails leaves the model as it was before the first."""
        passes = check_count("passes", passes)
        readings = as_readings(tensor, fiber_axis=self.fiber_axis)
        before = self._learned
        try:
            for _ in range(passes):
                self._start_over()
                recovery = walk(readings)
        except BaseException:
            self._learned = before
            raise
        return recovery

    def _walk(self, readings: FloatArray) -> Recovery:
        if readings.ndim == max(2, self.fiber_axis + 1):
            return self.update(readings)
        return Recovery.stack([self.update(readings[..., day]) for day in range(readings.shape[-1])])

    def _start_over(self) -> None:
        """Forget what belongs to one pass over the data, as `_per_pass` says."""
        if self._learned is not None:
            fresh = self._begin(self._learned.shape)
            again = {key: part for key, part in fresh.items() if key.rstrip("0123456789") in self._per_pass}
            self._learned = replace(self._learned, arrays={**self._learned.arrays, **again})

    def _rows(
        self, sensors: Sequence[Hashable] | None, learned: _Learned
    ) -> tuple[list[int] | None, tuple[str | int, ...] | None]:
        """Where each sensor's row lies in what is known (None: as given), and the labels in that order."""
        name = type(self).__name__
        if sensors is None:
            return None, learned.labels
        if self.fiber_axis == 0:
            raise ShapeError("with fiber_axis=0 the first axis is the slots: there are no sensors to label")
        labels = as_labels(sensors, learned.shape[0])
        if learned.labels is None or labels == learned.labels:
            return None, labels
        if set(labels) != set(learned.labels):
            raise ShapeError(f"the labels name other sensors than before, and {name} cannot add or drop sensors")
        position = {label: row for row, label in enumerate(learned.labels)}
        return [position[label] for label in labels], learned.labels


def _like(fresh: Arrays, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """Check the arrays of a state file against those of a fresh model of the same shape."""
    if fresh.keys() != arrays.keys():
        raise ValueError("not the arrays of this method")
    for key, part in arrays.items():
        broken = np.isinf(part) if key == "last" else ~np.isfinite(part)
        if part.dtype != np.float64 or part.shape != fresh[key].shape or broken.any():
            raise ValueError(f"{key} does not fit")
    return arrays
