"""The module provides what the methods share: their protocols, checks of settings, and the online base classes."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sensormend.errors import ConfigError, DivergenceError, ShapeError, StateError
from sensormend.files import read_state, write_state
from sensormend.methods.interpolation import as_series, from_series, interpolate_periods, no_last_values
from sensormend.recovery import FloatArray, Recovery
from sensormend.tensor import as_labels, as_readings, check_fiber_axis

__all__ = [
    "Arrays",
    "ColumnMethod",
    "Method",
    "OnlineMethod",
    "PublishedOnline",
    "Solved",
    "SolvedColumn",
    "check_count",
    "check_positive",
    "check_seed",
    "published_recovery",
]

Arrays = Mapping[str, FloatArray]
SolvedColumn = tuple[FloatArray, FloatArray, int]
"""The low-rank part of a column, its outliers, and how many iterations it took."""
STATE_VERSION = 2


@runtime_checkable
class Method(Protocol):
    """Recovers a whole tensor; online ones walk its last axis, `passes` times."""

    def recover(self, tensor: ArrayLike) -> Recovery:
        """Recover the whole tensor, NaN where nothing was observed."""
        ...


@runtime_checkable
class OnlineMethod(Method, Protocol):
    """Learns from one minibatch after the other, in bounded memory."""

    def update(self, minibatch: ArrayLike, sensors: Sequence[Hashable] | None = None) -> Recovery:
        """Recover one minibatch and learn from it."""
        ...


def check_count(name: str, value: object) -> int:
    """Return a whole number of 1 or more, or refuse it in one line."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ConfigError(f"{name} must be a whole number of 1 or more; got {value!r}")
    return int(value)


def check_positive(name: str, value: object) -> float:
    """Return a finite number above 0, or refuse it in one line."""
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value <= 0:  # type: ignore[arg-type,operator]
        raise ConfigError(f"{name} must be a finite number above 0; got {value!r}")
    return float(value)  # type: ignore[arg-type]


def check_seed(seed: object) -> int:
    """Return a seed; a fresh one for None, so that a model can always be saved and repeated."""
    if seed is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ConfigError(f"seed must be a whole number of 0 or more, or None; got {seed!r}")
    return int(seed)


def published_recovery(
    readings: FloatArray,
    expected: FloatArray,
    outliers: FloatArray,
    *,
    fiber_axis: int,
    threshold: float,
    iterations: int,
) -> Recovery:
    """Fill in a `Recovery` for a method that yields a low-rank part and outliers, and has no other opinion.

    A fiber is faulty when any |outlier| in it exceeds `threshold`.
    """
    largest = np.abs(outliers).max(axis=fiber_axis)
    faulty, observed = largest > threshold, ~np.isnan(readings)
    wrong = observed & np.expand_dims(faulty, fiber_axis)
    return replace(
        Recovery.unjudged(readings, fiber_axis),
        expected=expected,
        outliers=outliers,
        wrong=wrong,
        cleaned=np.where(observed & ~wrong, readings, expected),
        lower=None,
        upper=None,
        faulty=faulty,
        evaluated=np.ones(faulty.shape, dtype=bool),
        score=largest / threshold,
        iterations=iterations,
    )


@dataclass(frozen=True, eq=False)
class Solved:
    """One minibatch as a method solved it, and the arrays of its state after that."""

    X: FloatArray
    E: FloatArray
    iterations: int
    arrays: Arrays


@dataclass(frozen=True, eq=False)
class _ModelState:
    """All that was learned. Replaced as a whole, never changed, so that a failed call leaves it as it was."""

    shape: tuple[int, ...]
    arrays: Arrays
    labels: tuple[str | int, ...] | None


class PublishedOnline(ABC):
    """A published online method: `_initial_arrays` and `_solve` are its own, the rest is here.

    All minibatches have one shape, as far as `_fixed` says. Labels, where given, must name the same sensors each
    time; their order is free. When the numbers run off to infinity, `update` raises `DivergenceError` and the state
    stays as it was.
    """

    _settings: ClassVar[tuple[str, ...]] = ()
    """The names of the method's own settings."""
    _per_pass: ClassVar[tuple[str, ...]] = ()
    """The arrays that start afresh with every pass over the data, without the number of the mode."""
    _divergence: ClassVar[str] = "the dictionary ran off to infinity; use a lower rank"
    _after_sensors: ClassVar[bool] = True
    """Whether the slots must lie on another axis than the first."""

    def __init__(self, *, rank: int, fiber_axis: int, threshold: float, seed: int | None) -> None:
        self.rank = check_count("rank", rank)
        self.fiber_axis = check_fiber_axis(fiber_axis, after_sensors=self._after_sensors)
        self.threshold = check_positive("threshold", threshold)
        self.seed = check_seed(seed)
        self._state: _ModelState | None = None

    @abstractmethod
    def _initial_arrays(self, shape: tuple[int, ...]) -> Arrays:
        """Return the arrays of the state before the first minibatch of this shape."""

    @abstractmethod
    def _solve(self, readings: FloatArray, arrays: Arrays) -> Solved:
        """Solve one minibatch, NaN where missing, and learn from it; `arrays` is never written to."""

    def _fixed(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the part of a minibatch's shape that must be the same in every call."""
        return shape

    def update(self, minibatch: ArrayLike, sensors: Sequence[Hashable] | None = None) -> Recovery:
        """Recover one minibatch, (sensor, slot) or with any further axes, and learn from it."""
        name = type(self).__name__
        readings = as_readings(minibatch, fiber_axis=self.fiber_axis)
        shape = self._fixed(readings.shape)
        state = self._state or _ModelState(shape, self._initial_arrays(shape), None)
        if shape != state.shape:
            raise ShapeError(f"{name} cannot add sensors or change shape, {state.shape} so far; got {readings.shape}")
        rows, labels = self._rows(sensors, state)
        if rows is not None:
            readings = readings[np.argsort(rows)]
        with np.errstate(all="ignore"):
            solved = self._solve(readings, state.arrays)
        if not _is_finite(solved):
            raise DivergenceError(self._divergence)
        # Where nothing was learned yet and nothing came, nothing is estimated.
        unknown = self._state is None and bool(np.isnan(readings).all())
        if not unknown:
            self._state = _ModelState(state.shape, solved.arrays, labels)
        recovery = published_recovery(
            readings,
            np.full(readings.shape, np.nan) if unknown else solved.X,
            solved.E,
            fiber_axis=self.fiber_axis,
            threshold=self.threshold,
            iterations=solved.iterations,
        )
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

    def add_sensors(self, count: int) -> None:
        """Add sensors at the end of axis 0; what was learned of the others stays. No paper has this.

        A method that has learned nothing yet takes its shape from its first minibatch.
        """
        if self._state is not None and count > 0:
            shape = (self._state.shape[0] + count, *self._state.shape[1:])
            arrays = self._with_sensors(self._state.arrays, self._initial_arrays(shape))
            self._state = _ModelState(shape, arrays, None)

    def _with_sensors(self, arrays: Arrays, initial: Arrays) -> Arrays:
        """Return the arrays of more sensors: as at the start, and for the first of them as they were."""
        grown = {key: np.array(part) for key, part in initial.items()}
        for key, part in arrays.items():
            grown[key][tuple(map(slice, part.shape))] = part
        return grown

    def begin_pass(self) -> None:
        """Forget what belongs to one pass over the data, as `_per_pass` says."""
        if self._state is not None:
            initial = self._initial_arrays(self._state.shape)
            fresh = {key: part for key, part in initial.items() if key.rstrip("0123456789") in self._per_pass}
            self._state = replace(self._state, arrays={**self._state.arrays, **fresh})

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the settings and everything learned, for a state file."""
        header: dict[str, Any] = {"settings": self._saved_settings()}
        if self._state is None:
            return header, {}
        return header | {"shape": self._state.shape, "labels": self._state.labels}, dict(self._state.arrays)

    @classmethod
    def of_state(cls, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return the method of a `state`; a broken one is a `KeyError`, `TypeError`, `ValueError` or `IndexError`."""
        model = cls(**header["settings"])
        if "shape" in header:
            shape = tuple(check_count("shape", length) for length in header["shape"])
            labels = None if header["labels"] is None else as_labels(header["labels"], shape[0])
            model._state = _ModelState(shape, _checked(arrays, model._initial_arrays(shape)), labels)
        return model

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the settings and everything learned to a `.npz` file."""
        header, arrays = self.state()
        write_state(path, method=type(self).__name__, version=STATE_VERSION, settings=header, arrays=arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model back; it continues as if it had never stopped."""
        header, arrays = read_state(path, method=cls.__name__, version=STATE_VERSION)
        try:
            return cls.of_state(header, arrays)
        except (KeyError, TypeError, ValueError, IndexError):
            raise StateError(f"{os.fspath(path)} is not a whole {cls.__name__} state") from None

    def _saved_settings(self) -> dict[str, Any]:
        names = ("rank", "fiber_axis", "threshold", "seed", *self._settings)
        return {name: getattr(self, name) for name in names}

    def _repeat(self, tensor: ArrayLike, passes: int, walk: Callable[[FloatArray], Recovery]) -> Recovery:
        """Walk a tensor `passes` times; a walk that fails leaves the model as it was before the first."""
        passes = check_count("passes", passes)
        readings = as_readings(tensor, fiber_axis=self.fiber_axis)
        before = self._state
        try:
            for _ in range(passes):
                self.begin_pass()
                recovery = walk(readings)
        except BaseException:
            self._state = before
            raise
        return recovery

    def _walk(self, readings: FloatArray) -> Recovery:
        if readings.ndim == max(2, self.fiber_axis + 1):
            return self.update(readings)
        return Recovery.stack([self.update(readings[..., day]) for day in range(readings.shape[-1])])

    def _rows(
        self, sensors: Sequence[Hashable] | None, state: _ModelState
    ) -> tuple[list[int] | None, tuple[str | int, ...] | None]:
        """Return where each sensor's row lies in the state (None: as given), and the labels in that order."""
        name = type(self).__name__
        if sensors is None:
            return None, state.labels
        if self.fiber_axis == 0:
            raise ShapeError("with fiber_axis=0 the first axis is the slots: there are no sensors to label")
        labels = as_labels(sensors, state.shape[0])
        if state.labels is None or labels == state.labels:
            return None, labels
        if set(labels) != set(state.labels):
            raise ShapeError(f"the labels name other sensors than before, and {name} cannot add or drop sensors")
        position = {label: row for row, label in enumerate(state.labels)}
        return [position[label] for label in labels], state.labels


class ColumnMethod(PublishedOnline):
    """A matrix method: one column per time (and variable), the sensors as rows, in the order of time.

    Several periods in one call are the same as several calls.
    """

    _interpolates: ClassVar[bool] = True
    _per_pass: ClassVar[tuple[str, ...]] = ("last",)

    @abstractmethod
    def _initial_columns(self, rows: int) -> dict[str, FloatArray]:
        """Return the arrays of the state before the first column."""

    @abstractmethod
    def _solve_column(self, column: FloatArray, arrays: dict[str, FloatArray]) -> SolvedColumn:
        """Solve one column and write what it teaches into `arrays`."""

    def _empty_column(self, column: FloatArray, arrays: dict[str, FloatArray]) -> SolvedColumn:
        """Estimate a column without any reading; nothing is learned from it."""
        return np.zeros(column.size), np.zeros(column.size), 0

    def _fixed(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape[: self.fiber_axis + 1]

    def _initial_arrays(self, shape: tuple[int, ...]) -> Arrays:
        arrays = self._initial_columns(shape[0])
        if self._interpolates:
            arrays["last"] = no_last_values(shape, self.fiber_axis)
        return arrays

    def _solve(self, readings: FloatArray, arrays: Arrays) -> Solved:
        learned = {key: np.array(part) for key, part in arrays.items()}
        if self._interpolates:
            series, learned["last"] = interpolate_periods(readings, learned["last"], self.fiber_axis)
        else:
            series = as_series(readings, self.fiber_axis)
        X, E = np.zeros(series.shape), np.zeros(series.shape)
        iterations = 0
        for time in range(series.shape[2]):
            for variable in range(series.shape[1]):
                column = series[:, variable, time]
                solve = self._solve_column if np.isfinite(column).any() else self._empty_column
                X[:, variable, time], E[:, variable, time], count = solve(column, learned)
                iterations += count
        X, E = (from_series(part, readings.shape, self.fiber_axis) for part in (X, E))
        return Solved(X, np.where(np.isnan(readings), 0.0, E), iterations, learned)


def _is_finite(solved: Solved) -> bool:
    """Return whether all numbers are finite; `last` alone may have NaN, for a sensor that never reported."""
    parts = [solved.X, solved.E, *(part for key, part in solved.arrays.items() if key != "last")]
    return all(bool(np.isfinite(part).all()) for part in parts)


def _checked(arrays: Mapping[str, NDArray[Any]], initial: Arrays) -> Arrays:
    """Return the arrays of a state file, checked against those of a fresh model of the same shape."""
    if initial.keys() != arrays.keys():
        raise ValueError("not the arrays of this method")
    for key, part in arrays.items():
        broken = np.isinf(part) if key == "last" else ~np.isfinite(part)
        if part.dtype != np.float64 or part.shape != initial[key].shape or broken.any():
            raise ValueError(f"{key} does not fit")
    return arrays
