"""`PublishedModel` and `BatchModel` run the published methods period by period, in the place of `NetworkModel`.

Each variable has a method of its own, since a method that compares variables would depend on their units; a minibatch
is (sensor, slot), as in the paper's experiments. A method has no opinion on single readings and knows no kinds: a
fiber that it flags is wrong as a whole, for the reason `outlier`.
"""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any, Protocol, Self

import numpy as np

from sensormend.errors import ConfigError, DivergenceError, StateError
from sensormend.files import read_state, write_state
from sensormend.methods import BATCH, method_class
from sensormend.pipeline.options import Options
from sensormend.recovery import BoolArray, FloatArray, Recovery

__all__ = ["COLD_START", "BatchModel", "PeriodModel", "PublishedModel", "method_sentence", "published_model"]

STATE_VERSION = 1

OUTLIER = "outlier"
"""The reason of a fiber that a method flags."""

COLD_START = 10
"""Periods with readings until a channel is judged: the paper leaves out the first ten minibatches of every method."""

RANK = 3
"""The rank of OLRTR: what its authors run on both of their networks."""

ALPHA_SHARE = 0.8
"""The norm of a fiber of the residual from which OLRTR flags it, as a share of the norm of a usual fiber. Its authors'
alpha of 330 on the NOAA temperatures (37 x 24) and of 370 on the Array of Things (52 x 24) are shares of 0.84 and 0.75
of the root mean square of their readings."""

THRESHOLD_SHARE = 0.0006
"""The outlier above which a fiber is faulty, as a share of the root mean square: the paper's 0.01 in these networks."""

MOST_CELLS = 20_000_000
"""Cells of one variable that a batch method takes: with 8 bytes and a dozen copies about 2 GB."""


class PeriodModel(Protocol):
    """What a `Cleaner` needs of a model; minibatches are (sensor, variable, slot)."""

    tolerance: Any

    @property
    def sensors(self) -> Sequence[Any]:
        """The labels of all sensors so far."""
        ...

    @property
    def periods(self) -> int:
        """The number of periods that it has learned from."""
        ...

    def update(self, minibatch: FloatArray, sensors: Sequence[Hashable] | None = None) -> Recovery:
        """Judge a period and learn from it."""
        ...

    def estimate(self, minibatch: FloatArray, sensors: Sequence[Hashable] | None = None) -> Recovery:
        """Return what `update` would, and learn nothing."""
        ...

    def accept(self, sensor: Hashable, variable: int | None = None) -> None:
        """Take the present level of a sensor as right."""
        ...

    def rewind(self) -> None:
        """Prepare for readings from earlier times."""
        ...

    def copy(self) -> PeriodModel:
        """Return an independent model that knows the same."""
        ...

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all that it knows to a file."""
        ...

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> PeriodModel:
        """Read it back."""
        ...


def published_model(options: Options, variables: int) -> PublishedModel | BatchModel:
    """Return the model of the method that the options name."""
    if options.method in BATCH:
        return BatchModel(options.method, variables)
    return PublishedModel(options.method, variables, rank=options.rank, alpha=options.alpha, seed=options.seed)


def method_sentence(options: Options) -> str:
    """Return the method and its settings in one line; empty for the default model.

    Examples
    --------
    >>> method_sentence(Options.of(method="olrtr", alpha=330))
    'method olrtr: rank 3, alpha 330'
    """
    if options.method == "network":
        return ""
    if options.method in BATCH:
        return f"method {options.method}: lambda from the shape of the data"
    model = PublishedModel(options.method, 0, rank=options.rank, alpha=options.alpha)
    passes = f", {options.passes} passes" if options.passes > 1 else ""
    if options.method != "olrtr":
        return f"method {options.method}: rank {model.rank}{passes}"
    alpha = f"{options.alpha:g}" if options.alpha else f"by the readings ({ALPHA_SHARE:g} of the norm of a usual fiber)"
    return f"method olrtr: rank {model.rank}, alpha {alpha}{passes}"


class PublishedModel:
    """A published online method, one for each variable.

    Sensors may join: their rows are appended, as at the start of the method. One that is gone has missing readings. A
    period on which the method diverges is not judged, and nothing is learned from it.

    Parameters
    ----------
    name
        One of `sensormend.methods.ONLINE`.
    variables
        The number of variables.
    rank
        The rank of the dictionaries; by default 3 for OLRTR, and for others that of their class.
    alpha
        OLRTR's alpha. By default it follows from the readings so far: for each period the median over the sensors of
        their mean square, and of these the mean.
    seed
        For the dictionaries at the start.

    Attributes
    ----------
    sensors
        The labels of all sensors so far.
    periods
        The number of periods that were learned from.
    diverged
        The number of times that a method diverged.
    """

    def __init__(
        self, name: str, variables: int, *, rank: int | None = None, alpha: float | None = None, seed: int = 0
    ) -> None:
        self.name, self.alpha, self.seed = name, alpha, seed
        self.given_rank = rank
        self.tolerance: Any = None
        self.sensors: tuple[Hashable, ...] = ()
        self.periods = self.diverged = 0
        self._methods: list[Any] = [None] * variables
        # By variable: the sum of the periods' mean squares, and their number.
        self._squares = np.zeros((2, variables))
        # By sensor and variable: the number of periods with readings.
        self._seen = np.zeros((0, variables), dtype=np.int64)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that the user gave; a state is continued with the same ones."""
        return {"name": self.name, "rank": self.given_rank, "alpha": self.alpha}

    @property
    def rank(self) -> int:
        """The rank of the dictionaries."""
        if self.given_rank is not None:
            return self.given_rank
        return RANK if self.name == "olrtr" else int(method_class(self.name)().rank)

    def update(self, minibatch: FloatArray, sensors: Sequence[Hashable] | None = None) -> Recovery:
        """Judge a period, (sensor, variable, slot), and learn from it."""
        twin = self.copy()
        recovery = twin._learn(minibatch, range(minibatch.shape[0]) if sensors is None else sensors)
        # Taken over as a whole: a call that fails has changed nothing.
        self.__dict__ = twin.__dict__
        return recovery

    def estimate(self, minibatch: FloatArray, sensors: Sequence[Hashable] | None = None) -> Recovery:
        """Return what `update` would, and learn nothing."""
        return self.copy().update(minibatch, sensors)

    def accept(self, sensor: Hashable, variable: int | None = None) -> None:
        """Do nothing: the methods know no level of a sensor that could be accepted."""

    def rewind(self) -> None:
        """Forget what belongs to one pass over the data."""
        for method in self._methods:
            if method is not None:
                method.begin_pass()

    def copy(self) -> PublishedModel:
        """Return an independent model that knows the same."""
        twin = copy.copy(self)
        # The state of a method is replaced, never changed.
        twin._methods = [copy.copy(method) for method in self._methods]
        twin._squares, twin._seen = self._squares.copy(), self._seen.copy()
        return twin

    def remarks(self, variables: Sequence[str]) -> list[str]:
        """Return what was finally used, and what failed, one line each."""
        remarks = []
        if self.name == "olrtr" and self.alpha is None:
            used = [
                f"{method.alpha:.4g}{f' for {name}' if name else ''}"
                for name, method in zip(variables, self._methods, strict=True)
                if method is not None
            ]
            if used:
                remarks.append(f"the alpha of olrtr was {', '.join(used)} at the end")
        if self.diverged:
            remarks.append(
                f"{self.name} diverged {self.diverged} times; these periods are not judged: give a lower --rank"
            )
        return remarks

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all that was learned to one `.npz` file."""
        headers, arrays = [], {"squares": self._squares, "seen": self._seen}
        for number, method in enumerate(self._methods):
            header, own = (None, {}) if method is None else method.state()
            headers.append(header)
            arrays |= {f"{number}_{key}": array for key, array in own.items()}
        settings = {
            **self.settings,
            "seed": self.seed,
            "sensors": list(self.sensors),
            "periods": self.periods,
            "diverged": self.diverged,
            "methods": headers,
        }
        write_state(path, method=type(self).__name__, version=STATE_VERSION, settings=settings, arrays=arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model back; it continues as if it had never stopped."""
        settings, arrays = read_state(path, method=cls.__name__, version=STATE_VERSION)
        try:
            headers = settings["methods"]
            model = cls(
                settings["name"], len(headers), rank=settings["rank"], alpha=settings["alpha"], seed=settings["seed"]
            )
            model.sensors, model.periods = tuple(settings["sensors"]), settings["periods"]
            model.diverged = settings["diverged"]
            model._squares, model._seen = arrays["squares"], arrays["seen"]
            kind = method_class(model.name)
            for number, header in enumerate(headers):
                prefix = f"{number}_"
                own = {key.removeprefix(prefix): part for key, part in arrays.items() if key.startswith(prefix)}
                model._methods[number] = None if header is None else kind.of_state(header, own)
            if model._seen.shape != (len(model.sensors), len(headers)) or model._squares.shape != (2, len(headers)):
                raise ValueError("other sensors or variables")
        except (KeyError, TypeError, ValueError, IndexError):
            raise StateError(f"{os.fspath(path)} is not a whole state of a published method") from None
        return model

    def _learn(self, minibatch: FloatArray, sensors: Sequence[Hashable]) -> Recovery:
        known = {label: row for row, label in enumerate(self.sensors)}
        new = [label for label in sensors if label not in known]
        if new:
            known |= {label: len(known) + place for place, label in enumerate(new)}
            self.sensors = (*self.sensors, *new)
            self._seen = np.pad(self._seen, ((0, len(new)), (0, 0)))
            for method in self._methods:
                if method is not None:
                    method.add_sensors(len(new))
        rows = np.array([known[label] for label in sensors], dtype=np.intp)
        full = np.full((len(self.sensors), *minibatch.shape[1:]), np.nan)
        full[rows] = minibatch
        parts = [self._solve(variable, full[:, variable]) for variable in range(full.shape[1])]
        judged = self._seen >= COLD_START
        self._seen = self._seen + np.isfinite(full).any(axis=2)
        self.periods += 1
        return _joined(full, parts, judged).of_sensors(rows)

    def _solve(self, variable: int, readings: FloatArray) -> Recovery | None:
        """Run the method of a variable on (sensor, slot); None if it has nothing to say."""
        with np.errstate(over="ignore"):
            square = np.square(readings)
        reporting = np.isfinite(square).any(axis=1)
        if not reporting.any():
            return None  # nothing to learn from, and nothing to estimate by
        self._squares[:, variable] += np.median(np.nanmean(square[reporting], axis=1)), 1.0
        method = self._methods[variable] = self._methods[variable] or self._new_method()
        total, count = self._squares[:, variable]
        size = math.sqrt(total / count) if count and math.isfinite(total) else 0.0
        if self.name == "olrtr" and self.alpha is None:
            method.alpha = max(_alpha(readings.shape, size), np.finfo(float).tiny)
        method.threshold = max(THRESHOLD_SHARE * size, np.finfo(float).tiny)
        try:
            recovery: Recovery = method.update(readings)
        except DivergenceError:
            self.diverged += 1
            return None
        if self.name == "olrtr":
            # E is what exceeds the limit of a fiber's norm; the score is the norm over the limit.
            norm = np.linalg.norm(recovery.outliers, axis=1) / method.fiber_limit(readings.shape)
            recovery = replace(recovery, score=np.where(recovery.faulty, 1 + norm, 0.0))
        return recovery

    def _new_method(self) -> Any:
        kind = method_class(self.name)
        return (
            kind(self.rank, self.alpha or 1.0, seed=self.seed)
            if self.name == "olrtr"
            else kind(self.rank, seed=self.seed)
        )


class BatchModel:
    """A published batch method, one for each variable, over an archive that is walked twice.

    The first walk collects the periods and judges nothing; `rewind` recovers the tensors; the second walk returns the
    results period by period.

    Parameters
    ----------
    name
        One of `sensormend.methods.BATCH`.
    variables
        The number of variables.
    """

    def __init__(self, name: str, variables: int) -> None:
        self.name, self._variables = name, variables
        self.tolerance: Any = None
        self.sensors: tuple[Hashable, ...] = ()
        self._collected: list[FloatArray] = []
        self._recovered: list[Recovery] | None = None
        self._next = 0

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that the user gave."""
        return {"name": self.name}

    @property
    def periods(self) -> int:
        """The number of periods that were collected or returned."""
        return len(self._collected) + self._next

    def update(self, minibatch: FloatArray, sensors: Sequence[Hashable] | None = None) -> Recovery:
        """Collect a period in the first walk; return its result in the second."""
        labels = tuple(range(minibatch.shape[0])) if sensors is None else tuple(sensors)
        known = {label: row for row, label in enumerate(self.sensors)}
        if self._recovered is not None:
            recovery = self._recovered[self._next]
            self._next += 1
            return recovery.of_sensors(np.array([known[label] for label in labels], dtype=np.intp))
        new = [label for label in labels if label not in known]
        self.sensors = (*self.sensors, *new)
        known |= {label: len(known) + place for place, label in enumerate(new)}
        cells = (len(self._collected) + 1) * len(self.sensors) * minibatch.shape[2]
        if cells > MOST_CELLS:
            raise ConfigError(
                f"{self.name} needs all readings at once, and these are more than {MOST_CELLS:,} cells; "
                "an online method takes them: --method olrtr"
            )
        full = np.full((len(self.sensors), *minibatch.shape[1:]), np.nan)
        full[[known[label] for label in labels]] = minibatch
        self._collected.append(full)
        return _joined(minibatch, [None] * self._variables, np.zeros(minibatch.shape[:2], dtype=bool))

    def estimate(self, minibatch: FloatArray, sensors: Sequence[Hashable] | None = None) -> Recovery:
        """Return a period that is not judged: a batch method has no result before the end."""
        return _joined(minibatch, [None] * self._variables, np.zeros(minibatch.shape[:2], dtype=bool))

    def accept(self, sensor: Hashable, variable: int | None = None) -> None:
        """Do nothing: the methods know no level of a sensor that could be accepted."""

    def rewind(self) -> None:
        """Recover the collected periods, (sensor, slot, period) for each variable."""
        if not self._collected:
            return
        count = len(self.sensors)
        tensor = np.stack(
            [np.pad(part, ((0, count - part.shape[0]), (0, 0), (0, 0)), constant_values=np.nan)
             for part in self._collected], axis=-1,
        )  # fmt: skip
        recoveries = [self._recover(tensor[:, variable]) for variable in range(self._variables)]
        judged = np.asarray(np.isfinite(tensor).any(axis=(2, 3)))
        self._recovered = [
            _joined(tensor[..., day], [part and _at(part, day) for part in recoveries], judged)
            for day in range(tensor.shape[-1])
        ]

    def _recover(self, tensor: FloatArray) -> Recovery | None:
        if not np.isfinite(tensor).any():
            return None
        size = math.sqrt(
            float(np.median(np.nanmean(np.square(tensor[np.isfinite(tensor).any(axis=(1, 2))]), axis=(1, 2))))
        )
        recovery: Recovery = method_class(self.name)(
            threshold=max(THRESHOLD_SHARE * size, np.finfo(float).tiny)
        ).recover(tensor)
        return recovery

    def remarks(self, variables: Sequence[str]) -> list[str]:
        """Return remarks on the run: none."""
        return []

    def copy(self) -> BatchModel:
        """Return an independent model that knows the same."""
        twin = copy.copy(self)
        twin._collected = list(self._collected)
        return twin

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the collected periods, and how many results were returned."""
        settings = {**self.settings, "variables": self._variables, "sensors": list(self.sensors), "next": self._next}
        settings["recovered"] = self._recovered is not None
        arrays = {str(number): part for number, part in enumerate(self._collected)}
        write_state(path, method=type(self).__name__, version=STATE_VERSION, settings=settings, arrays=arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model back; it recovers the collected periods once more."""
        settings, arrays = read_state(path, method=cls.__name__, version=STATE_VERSION)
        try:
            model = cls(settings["name"], settings["variables"])
            model.sensors = tuple(settings["sensors"])
            model._collected = [arrays[str(number)] for number in range(len(arrays))]
            if settings["recovered"]:
                model.rewind()
            model._next = settings["next"]
        except (KeyError, TypeError, ValueError, IndexError):
            raise StateError(f"{os.fspath(path)} is not a whole state of a published method") from None
        return model


def _alpha(shape: tuple[int, ...], size: float) -> float:
    """Return the alpha at which a fiber of `ALPHA_SHARE` of the usual norm is at the limit, lambda2 / N."""
    usual = size * math.sqrt(shape[1])
    return ALPHA_SHARE * len(shape) * math.sqrt(math.log(max(2, *shape) ** 2)) * usual


def _at(recovery: Recovery, day: int) -> Recovery:
    """Return one period of a recovery of several."""
    arrays: dict[str, Any] = {name: part[..., day] for name, part in vars(recovery).items() if hasattr(part, "ndim")}
    return replace(recovery, **arrays)


def _joined(readings: FloatArray, parts: Sequence[Recovery | None], judged: BoolArray) -> Recovery:
    """Join the recoveries of the variables, (sensor, slot) each, to one of (sensor, variable, slot).

    Channels that are not `judged` keep their readings, and have no estimates.
    """
    shape, observed = readings.shape, np.isfinite(readings)
    judged = judged & np.array([part is not None for part in parts], dtype=bool)
    expected, outliers = np.full(shape, np.nan), np.zeros(shape)
    faulty, score = np.zeros(shape[:2], dtype=bool), np.zeros(shape[:2])
    for variable, part in enumerate(parts):
        if part is not None:
            expected[:, variable], outliers[:, variable] = part.expected, part.outliers
            faulty[:, variable], score[:, variable] = part.faulty, part.score
    faulty, score = faulty & judged, np.where(judged, score, 0.0)
    expected, outliers = (
        np.where(judged[..., None], part, empty) for part, empty in ((expected, np.nan), (outliers, 0.0))
    )
    wrong = observed & faulty[..., None]
    return replace(
        Recovery.unjudged(readings),
        expected=expected,
        outliers=outliers,
        wrong=wrong,
        cleaned=np.where(observed & ~wrong, readings, expected),
        lower=None,
        upper=None,
        faulty=faulty,
        evaluated=judged,
        score=score,
        reason=np.where(faulty, OUTLIER, ""),
        iterations=sum(part.iterations for part in parts if part is not None),
    )
