"""NetworkModel cleans a network online and needs no tuning; it is the default method of sensormend."""

from __future__ import annotations

import copy
import itertools
import os
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sensormend.errors import ConfigError, InputError, ShapeError, StateError, ValueRangeError
from sensormend.files import read_state, write_state
from sensormend.recovery import BoolArray, Fault, FloatArray, Recovery
from sensormend.tensor import as_labels, as_readings, check_fiber_axis

if TYPE_CHECKING:
    from sensormend.model.arrays import Followed
    from sensormend.model.state import Result, State

__all__ = ["NetworkModel"]

STATE_VERSION = 11
"""States of engines that have columns in place of records are refused."""

DIRECTION_PERIODS = 30
"""Periods in which directions are looked for; a steady wind shows what it is only when it turns through north."""

FORGET_PERIODS = 180
"""Periods after which a sensor without readings is forgotten; by then the memory of the others has been
renewed more than three times."""

FORGET_FAULTY_PERIODS = 1800
"""The same for a sensor with an open offset, drift or gain: when it comes back it still has its fault."""

LASTING_KINDS = ("offset", "drift", "gain")

LEARNING_PERIODS = 5
"""Periods in which a channel must have been observed before it counts as evaluated."""

FAULT_KINDS = ("", "offset", "drift", "gain", "noise", "stuck", "implausible", "spike")
"""As the engine numbers them."""

SAMPLED_SENSORS = 20_000
"""Sensors of a large network by which directions are recognised."""


@dataclass(frozen=True, eq=False)
class _Minibatch:
    """A validated minibatch: readings (period, channel, slot) in double or single precision, and their sensors."""

    readings: NDArray[Any]
    labels: Sequence[str | int]
    labelled: bool
    shape: tuple[int, ...]
    periods: int | None


class NetworkModel:
    """Clean the readings of a sensor network period by period, with nothing to tune.

    The model keeps, for every partition of the network, the second moments of its channels under forgetting. Every
    reading is predicted from the other channels; what remains, the residual, is explained by the most likely history of
    sound spans and faults (offset, drift, gain, noise, stuck), followed reading by reading. Readings inside a fault
    are wrong; they are left out, and the rest is predicted again.

    Parameters
    ----------
    fiber_axis
        The axis of the slots. Axis 0 is the sensors, axes between them are variables, an axis after it is
        consecutive periods: k periods in one call are the same as k calls.
    interval
        Nominal coverage of `lower` ... `upper`.
    seed
        For the random axes by which the channels of a large network are compared.
    tolerance
        The accuracy of the probes in the unit of the readings, one number or one per variable: nothing below it is
        flagged. By default the step of each channel's readings.
    references
        The labels of reference sensors, rows where there are no labels: they judge others, each like ten of them, and
        are never judged.
    plateaus
        For each variable the lowest and the highest reading at which a sound sensor may stand still for long, as a
        thermometer in freezing water does at 0 deg C; None where there are none.

    Notes
    -----
    Trusted readings are returned untouched. A fiber is not `evaluated` in its channel's first five periods or without
    readings. Variables are judged apart. With labels, sensors may join, leave and come back; one without readings for
    180 periods (1,800 with an open offset, drift or gain) is forgotten. A channel that joins after the first seven
    periods predicts no other until it has agreed with known ones for five.

    Threads over the partitions of a large network: the environment variable `SENSORMEND_THREADS`, one by default; the
    results are the same with any number.

    Examples
    --------
    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> hours = np.arange(24)
    >>> model = NetworkModel()
    >>> for day in range(30):
    ...     weather = 10 + 3 * random.normal() + 5 * np.sin((hours - 9) / 24 * 2 * np.pi)
    ...     readings = weather + np.arange(8)[:, None] + 0.3 * random.normal(size=(8, 24))
    ...     if day == 29:
    ...         readings[2, 12:] += 6
    ...         readings[5, 10:14] = np.nan
    ...     result = model.update(readings)
    >>> result.faulty
    array([False, False,  True, False, False, False, False, False])
    >>> [(fault.kind, fault.start - 29 * 24, fault.end) for fault in result.faults]
    [('offset', 12, None)]
    >>> bool(np.abs(result.cleaned[5, 10:14] - (weather[10:14] + 5)).max() < 1)
    True
    """

    def __init__(
        self,
        *,
        fiber_axis: int = 1,
        interval: float = 0.9,
        seed: int = 0,
        tolerance: float | Sequence[float | None] | None = None,
        references: Sequence[Hashable] = (),
        plateaus: Sequence[tuple[float, float] | None] | None = None,
    ) -> None:
        self.fiber_axis = check_fiber_axis(fiber_axis)
        if isinstance(interval, bool) or not isinstance(interval, int | float) or not 0 < interval < 1:
            raise ConfigError(f"interval is a share between 0 and 1; got {interval!r}")
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
            raise ConfigError(f"seed is a whole number, 0 or more; got {seed!r}")
        self.interval, self.seed = float(interval), int(seed)
        self._tolerance = _checked_tolerance(tolerance)
        self._references = frozenset(as_labels(references, len(references)))
        self._plateaus = None if plateaus is None else [ends and (float(ends[0]), float(ends[1])) for ends in plateaus]
        self._state: State | None = None
        self._shape: tuple[int, ...] = ()
        self._labels: Sequence[str | int] = []
        self._labelled = False
        self._waited = False
        self._open: dict[int, tuple[Fault, int]] = {}
        # By channel: the fault that is open, and its last wrong slot so far.
        self._next_id = 0
        self._followed: tuple[Followed, ...] = ()
        # What the last estimate has left for the next one of the same period.

    @property
    def sensors(self) -> tuple[str | int, ...]:
        """The sensors that the model knows, in the order in which they joined."""
        return tuple(self._labels)

    @property
    def tolerance(self) -> float | tuple[float | None, ...] | None:
        """The accuracy of the probes; it may be set at any time."""
        return self._tolerance

    @tolerance.setter
    def tolerance(self, tolerance: float | Sequence[float | None] | None) -> None:
        self._tolerance = _checked_tolerance(tolerance)
        if self._state is not None:
            self._state.set_tolerance(self._tolerances(self._state.variables))

    @property
    def references(self) -> frozenset[str | int]:
        """The labels of reference sensors, of which there need be no reading; they may be set at any time."""
        return self._references

    @references.setter
    def references(self, references: Sequence[Hashable]) -> None:
        self._references = frozenset(as_labels(references, len(references)))
        self._mark_references()

    def _mark_references(self) -> None:
        """Tell the state which of its channels are never judged."""
        if self._state is not None:
            marked = np.array([label in self._references for label in self._labels], np.bool_)
            self._state.set_references(np.repeat(marked, self._state.variables))

    @property
    def periods(self) -> int:
        """How many periods the model has learned from."""
        return self._state.periods if self._state else 0

    def update(self, minibatch: ArrayLike, sensors: Sequence[Hashable] | None = None) -> Recovery:
        """Clean one or several periods and learn from them.

        Parameters
        ----------
        minibatch
            Readings, NaN where there is none.
        sensors
            Labels of axis 0, text or whole numbers. Without them the sensors must be the same in every call.
        """
        batch = self._validated(minibatch, sensors)
        if self._state is None:
            from sensormend.model.state import State

            variables = int(np.prod(batch.shape[1 : self.fiber_axis], dtype=int))
            limits = self._tolerances(variables)
            self._state = State(variables, batch.shape[self.fiber_axis], self.interval, self.seed)
            self._state.set_tolerance(limits)
            if self._plateaus is not None:
                if len(self._plateaus) != variables:
                    raise ShapeError(f"there are {len(self._plateaus)} plateaus for {variables} variables")
                self._state.set_plateaus(self._plateaus)
            self._shape, self._labelled = batch.shape[1 : self.fiber_axis + 1], batch.labelled
        state = self._state
        rows = self._rows(batch)
        parts = []
        for readings in batch.readings:
            full = self._laid_out(readings, rows)
            if state.periods == 0 and not self._waited and _is_too_little(full):
                self._waited = True
                state.clock += 1
                parts.append(self._untouched(full, batch, rows))
                continue
            state.prepare(full)
            state.repartition()
            age = state.observed_periods()
            result = state.run(full, learning=True)
            faults, self._open, self._next_id = self._episodes(result)
            parts.append(self._recovery(full, result, age, faults, batch, rows))
            state.clock += 1
        self._followed = ()
        self._forget()
        return parts[0] if batch.periods is None else Recovery.stack(parts)

    def estimate(self, minibatch: ArrayLike, sensors: Sequence[Hashable] | None = None) -> Recovery:
        """Answer like `update`, for a period that is not over yet, and learn nothing."""
        batch = self._validated(minibatch, sensors)
        state = self._state
        if state is None or state.periods == 0:
            return self.copy().update(minibatch, sensors)
        changes = state.repartition_due() or (batch.labelled and bool(set(batch.labels) - set(self._labels)))
        if not changes:
            rows = self._rows(batch)
            changes = any(state.has_unseen(self._laid_out(readings, rows)) for readings in batch.readings)
        if changes and len(batch.readings) > 1:
            return self.copy().update(minibatch, sensors)
        # Sensors join, and partitions change, in a copy, which does not learn either.
        model = self.copy() if changes else self
        model._followed = self._followed
        recovery = model._estimated(batch, prepared=not changes)
        self._followed = model._followed
        return recovery

    def _estimated(self, batch: _Minibatch, *, prepared: bool) -> Recovery:
        """Return the answer for a minibatch; unless it is `prepared` for it, the model changes as before an update."""
        state, rows = self._state, self._rows(batch)
        assert state is not None
        parts = []
        for readings in batch.readings:
            full = self._laid_out(readings, rows)
            if not prepared:
                state.prepare(full)
                state.repartition()
            result = state.run(full, learning=False, followed=self._followed)
            self._followed = result.followed
            faults, _, _ = self._episodes(result)
            parts.append(self._recovery(full, result, state.observed_periods(), faults, batch, rows))
        return parts[0] if batch.periods is None else Recovery.stack(parts)

    def comoving(self, sensors: Sequence[Hashable]) -> BoolArray:
        """Return which channels, (sensor, variable), move with the other sensors, and about as much as they do.

        Sensors that are hardly known, or not at all, are taken to do so.
        """
        return self._of_sensors(None if self._state is None else self._state.comoving(), sensors)

    def explained(self, sensors: Sequence[Hashable]) -> BoolArray:
        """Return which channels, (sensor, variable), the other sensors explain: most of how they vary.

        Sensors that are hardly known, or not at all, are taken to be explained.
        """
        return self._of_sensors(None if self._state is None else self._state.explained(), sensors)

    def counting(self, sensors: Sequence[Hashable]) -> BoolArray:
        """Return which channels, (sensor, variable), count for their variable: not those that join, or are apart.

        Sensors that are not known do so if they came now.
        """
        return self._of_sensors(None if self._state is None else self._state.counts, sensors, self._is_young)

    @property
    def _is_young(self) -> bool:
        """Whether sensors that come now are known at once."""
        from sensormend.model.joining import START_PERIODS

        return self.periods <= START_PERIODS

    def _of_sensors(self, which: BoolArray | None, sensors: Sequence[Hashable], unknown: bool = True) -> BoolArray:
        """Return what holds of the channels of sensors, (sensor, variable), and of those that are not known."""
        variables = 1 if self._state is None else self._state.variables
        known = np.ones((0, variables), np.bool_) if which is None else which.reshape(-1, variables)
        if len(known) and list(sensors) == self._labels:
            return known
        # The last row is for sensors that were forgotten.
        by_sensor = np.append(known, np.full((1, variables), unknown), axis=0)
        positions = {label: index for index, label in enumerate(self._labels)} if len(known) else {}
        return by_sensor[[positions.get(label, -1) for label in as_labels(sensors, len(sensors))]]

    def recover(self, tensor: ArrayLike, passes: int = 1) -> Recovery:
        """Walk the last axis of a whole tensor, period by period, and return the last pass.

        A tensor without an axis of periods is one period.
        """
        if isinstance(passes, bool) or not isinstance(passes, int | np.integer) or passes < 1:
            raise ConfigError(f"passes is a whole number, 1 or more; got {passes!r}")
        for _ in range(passes):
            recovery = self.update(tensor)
        return recovery

    def rewind(self) -> None:
        """Prepare for readings from earlier times: what is known stays, what is open is dropped."""
        if self._state is not None:
            self._state.rewind()
        self._open = {}

    def accept(self, sensor: Hashable, variable: int | None = None) -> None:
        """Take the present level of a sensor as right from now on, as when it was recalibrated or moved.

        A fault that is open ends with its last wrong reading. The level starts over: the readings of the next period
        say where it is. How the sensor moves with the others, its noise and its resolution stay known.

        Parameters
        ----------
        sensor
            Its label, or its row where there are no labels.
        variable
            The number of the variable; None for all of them.

        Raises
        ------
        InputError
            There is no such sensor, or no such variable.
        """
        state = self._state
        try:
            index = self._labels.index(as_labels([sensor], 1)[0])
        except (ValueError, ShapeError):
            raise InputError(
                f"no sensor {sensor!r} to accept: the model knows {len(self._labels)} sensors, see its `sensors`"
            ) from None
        assert state is not None
        if variable is None:
            variables = list(range(state.variables))
        elif isinstance(variable, bool) or not isinstance(variable, int | np.integer):
            raise InputError(f"a variable is its number, 0 to {state.variables - 1}; got {variable!r}")
        elif not 0 <= variable < state.variables:
            raise InputError(f"no variable {variable}: they have the numbers 0 to {state.variables - 1}")
        else:
            variables = [int(variable)]
        state.accept([index * state.variables + number for number in variables])

    def copy(self) -> NetworkModel:
        """Return an independent model that knows the same."""
        twin = copy.copy(self)
        twin._followed = ()
        if self._state is not None:
            twin._state = type(self._state).unpack(*self._state.pack())
        return twin

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all that the model knows to one `.npz` file, beside and then renamed."""
        settings: dict[str, object] = {
            "fiber_axis": self.fiber_axis,
            "interval": self.interval,
            "seed": self.seed,
            "tolerance": self.tolerance,
            "references": sorted(self.references, key=str),
            "plateaus": self._plateaus,
            "shape": list(self._shape),
            "labels": list(self._labels) if self._labelled else len(self._labels),
            "labelled": self._labelled,
            "waited": self._waited,
            "open": [[channel, vars(fault), last] for channel, (fault, last) in self._open.items()],
            "next_id": self._next_id,
        }
        arrays: dict[str, NDArray[Any]] = {}
        if self._state is not None:
            settings["state"], arrays = self._state.pack()
        write_state(path, method="NetworkModel", version=STATE_VERSION, settings=settings, arrays=arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> NetworkModel:
        """Read a model back; it continues as if it had never stopped."""
        settings, arrays = read_state(path, method="NetworkModel", version=STATE_VERSION, oldest=STATE_VERSION)
        try:
            model = cls(
                fiber_axis=settings["fiber_axis"],
                interval=settings["interval"],
                seed=settings["seed"],
                tolerance=settings["tolerance"],
                references=settings["references"],
                plateaus=settings["plateaus"],
            )
            model._shape = tuple(settings["shape"])
            labels = settings["labels"]
            model._labels = range(labels) if isinstance(labels, int) else list(labels)
            model._labelled, model._waited = settings["labelled"], settings["waited"]
            model._open = {int(channel): (Fault(**fault), int(last)) for channel, fault, last in settings["open"]}
            model._next_id = int(settings["next_id"])
            if "state" in settings:
                from sensormend.model.state import State

                model._state = State.unpack(settings["state"], arrays)
                model._state.check(len(model._labels))
        except (KeyError, TypeError, ValueError, IndexError):
            raise StateError(f"{os.fspath(path)} is not a whole NetworkModel state") from None
        return model

    def _validated(self, minibatch: ArrayLike, sensors: Sequence[Hashable] | None) -> _Minibatch:
        """Check a minibatch against what the model knows; nothing is changed."""
        axis = self.fiber_axis
        readings = as_readings(minibatch, fiber_axis=axis, max_axes=axis + 2, keep_single=True)
        shape = readings.shape
        if self._state is not None and shape[1 : axis + 1] != self._shape:
            raise ShapeError(
                f"a sensor's part of a minibatch was {self._shape} (variables and slots); got {shape[1 : axis + 1]}"
            )
        labels: Sequence[str | int]
        if sensors is not None:
            labels = as_labels(sensors, shape[0])
            if self._state is not None and not self._labelled:
                raise ShapeError("the first minibatch had no labels; give labels from the first call on, or never")
        else:
            labels = range(shape[0])
            if self._state is not None and self._labelled:
                raise ShapeError("the first minibatch had labels; sensors= is needed in every call then")
            if self._state is not None and shape[0] != len(self._labels):
                raise ShapeError(
                    f"{len(self._labels)} sensors before, {shape[0]} now; give sensors= labels when they change"
                )
        periods = shape[axis + 1] if readings.ndim == axis + 2 else None
        parts = readings[..., None] if periods is None else readings
        parts = np.moveaxis(parts, -1, 0).reshape(periods or 1, -1, shape[axis])
        if self.periods <= DIRECTION_PERIODS:
            # Sensors that join decide nothing for the others.
            joined = bool(labels) and sensors is not None and self.periods > 0
            counting = self.counting(labels).any(axis=1) if joined else np.ones(shape[0], np.bool_)
            self._refuse_directions(parts.reshape(len(parts), shape[0], -1, shape[axis])[:, counting])
        return _Minibatch(parts, labels, sensors is not None, shape, periods)

    def _tolerances(self, variables: int) -> list[float | None]:
        """Return the accuracy of the probes of every variable, None where it is taken from the readings."""
        tolerance = self.tolerance
        if isinstance(tolerance, tuple):
            if len(tolerance) != variables:
                raise ShapeError(f"tolerance has {len(tolerance)} numbers; there are {variables} variables")
            return list(tolerance)
        return [tolerance] * variables

    def _refuse_directions(self, parts: NDArray[Any]) -> None:
        """Refuse readings, (period, sensor, variable, slot), that look like directions."""
        from sensormend.model.scales import looks_circular

        _, sensors, variables, slots = parts.shape
        for variable in range(variables):
            sampled = parts[:, :: max(1, sensors // SAMPLED_SENSORS), variable]
            if looks_circular(sampled.reshape(-1, slots)):
                name = f"variable {variable} looks" if variables > 1 else "these readings look"
                raise ValueRangeError(
                    f"{name} like directions in degrees, which have no mean; clean their sine and cosine instead"
                )

    def _rows(self, batch: _Minibatch) -> NDArray[np.intp] | None:
        """Return the model's channels that belong to the minibatch's sensors, None for all of them in order.

        New channels are made for new sensors.
        """
        state = self._state
        assert state is not None
        if not batch.labelled:
            if not self._labels:
                self._labels = batch.labels
                state.grow(len(batch.labels))
                self._mark_references()
            return None
        if list(batch.labels) == self._labels:
            return None
        positions = {label: index for index, label in enumerate(self._labels)}
        new = [label for label in batch.labels if label not in positions]
        if new:
            positions.update({label: len(self._labels) + index for index, label in enumerate(new)})
            self._labels = [*self._labels, *new]
            state.grow(len(new))
            self._mark_references()
        sensors = np.array([positions[label] for label in batch.labels], dtype=np.intp)
        if sensors.size == len(self._labels) and bool((np.diff(sensors) == 1).all()):
            return None
        return (sensors[:, None] * state.variables + np.arange(state.variables)).ravel()

    def _laid_out(self, readings: NDArray[Any], rows: NDArray[np.intp] | None) -> FloatArray:
        """Lay a period's readings out on the model's channels, NaN for absent sensors."""
        assert self._state is not None
        if rows is None:
            return np.ascontiguousarray(readings, dtype=np.float64)
        full = np.full((self._state.channels, readings.shape[1]), np.nan)
        full[rows] = readings
        return full

    def _episodes(self, result: Result) -> tuple[list[Fault], dict[int, tuple[Fault, int]], int]:
        """Return the episodes of a period, those that are open after it by channel, and the next free number.

        An episode that touches one that was open before is the same, even if its start was dated back.
        """
        assert self._state is not None
        variables, start = self._state.variables, self._state.clock * self._state.slots
        faults, still_open, number = [], {}, self._next_id
        ongoing = dict(self._open)
        for episode in result.episodes:
            channel = episode.channel
            before = ongoing.pop(channel, None) if episode.first < start else None
            fault = Fault(
                id=number if before is None else before[0].id,
                sensor=self._labels[channel // variables],
                variable=channel % variables,
                kind=FAULT_KINDS[episode.kind],
                start=episode.first,
                end=None if episode.is_open else episode.last,
                size=episode.size,
                rate=episode.rate,
                # Readings that were wrong when it was surer stay so.
                confidence=episode.confidence if before is None else max(episode.confidence, before[0].confidence),
                probability=episode.probability if before is None else max(episode.probability, before[0].probability),
            )
            number += before is None
            faults.append(fault)
            if episode.is_open:
                still_open[channel] = fault, episode.last
        # What was open, and is not any more, ended before this period.
        faults += [replace(fault, end=last) for fault, last in ongoing.values()]
        faults.sort(key=lambda fault: (fault.start, fault.id))
        return faults, still_open, number

    def _recovery(
        self, readings: FloatArray, result: Result, age: FloatArray, faults: list[Fault], batch: _Minibatch,
        rows: NDArray[np.intp] | None,
    ) -> Recovery:  # fmt: skip
        """Return the recovery of one period, in the minibatch's order and the shape of one period."""
        from sensormend.model.arrays import Verdicts
        from sensormend.model.estimation import decode
        from sensormend.model.state import CHANNELS, in_spans

        estimates, shape = result.estimates, readings.shape
        verdicts = Verdicts(
            np.empty(shape), *(np.empty(shape, np.bool_) for _ in range(4)),
            *(np.empty(shape[0], np.int32) for _ in range(3)),
        )  # fmt: skip
        in_spans(shape[0], CHANNELS, lambda begin, end: decode(begin, end, readings, estimates, verdicts))
        n_wrong, n_doubtful = verdicts.n_wrong, verdicts.n_doubtful
        faulty = (n_wrong > 0) & (3 * n_wrong >= verdicts.n_observed)
        evaluated = (age >= LEARNING_PERIODS) & (verdicts.n_observed > 0)
        reason = np.zeros(shape[0], dtype="<U11")
        for episode in sorted(result.episodes, key=lambda episode: episode.readings):
            if episode.readings > 0:
                reason[episode.channel] = FAULT_KINDS[episode.kind]
        unnamed = np.flatnonzero((n_doubtful > 0) | (n_wrong > 0))
        unnamed = unnamed[reason[unnamed] == ""]
        reason[unnamed] = np.array(FAULT_KINDS)[estimates.kind[unnamed]]
        period, pick = batch.shape[: self.fiber_axis + 1], slice(None) if rows is None else rows

        def cells(array: NDArray[Any]) -> NDArray[Any]:
            return array[pick].reshape(period)

        def fibers(array: NDArray[Any]) -> NDArray[Any]:
            return array[pick].reshape(period[:-1])

        return Recovery(
            expected=cells(estimates.expected),
            outliers=cells(verdicts.outliers),
            wrong=cells(verdicts.wrong),
            doubtful=cells(verdicts.doubtful),
            spikes=cells(verdicts.spikes),
            corrected=cells(verdicts.corrected),
            cleaned=cells(estimates.cleaned),
            lower=cells(estimates.lower),
            upper=cells(estimates.upper),
            faulty=fibers(faulty),
            suspect=fibers((n_doubtful > 0) & ~faulty),
            evaluated=fibers(evaluated),
            score=fibers(estimates.score),
            reason=fibers(reason),
            faults=tuple(faults),
            iterations=result.rounds,
        )

    def _untouched(self, readings: FloatArray, batch: _Minibatch, rows: NDArray[np.intp] | None) -> Recovery:
        """Return a period of which nothing is made."""
        from sensormend.model.arrays import Estimates
        from sensormend.model.state import Result

        channels = len(readings)
        estimates = Estimates(
            readings, readings.copy(), readings.copy(), readings.copy(), np.isfinite(readings).astype(np.uint8),
            np.zeros(channels), np.zeros(channels, np.uint8),
        )  # fmt: skip
        return self._recovery(readings, Result(estimates, [], 0), np.zeros(channels), [], batch, rows)

    def _forget(self) -> None:
        """Drop sensors that have had no readings for long."""
        state = self._state
        if not self._labelled or state is None:
            return
        away = state.away.reshape(len(self._labels), -1).min(axis=1)
        keep = away <= FORGET_PERIODS
        for channel, (fault, _) in self._open.items():
            # Silence ends nothing.
            sensor = channel // state.variables
            keep[sensor] |= fault.kind in LASTING_KINDS and away[sensor] <= FORGET_FAULTY_PERIODS
        if keep.all():
            return
        stays = np.repeat(keep, state.variables)
        numbers = np.cumsum(stays) - 1
        self._open = {int(numbers[c]): fault for c, fault in self._open.items() if stays[c]}
        state.drop(keep)
        self._labels = list(itertools.compress(self._labels, keep))


def _checked_tolerance(tolerance: Any) -> float | tuple[float | None, ...] | None:
    """Return the tolerance, a number or None, or a tuple of them for the variables."""
    if tolerance is None:
        return None
    if isinstance(tolerance, Sequence) and not isinstance(tolerance, str) and len(tolerance):
        numbers = [_checked_tolerance(one) for one in tolerance]
        if not any(isinstance(one, tuple) for one in numbers):
            return tuple(one for one in numbers if not isinstance(one, tuple))
    elif isinstance(tolerance, int | float | np.number) and not isinstance(tolerance, bool) and 0 <= tolerance < np.inf:
        return float(tolerance)
    raise ConfigError(f"tolerance is a number, 0 or more, or one for each variable; got {tolerance!r}")


def _is_too_little(readings: FloatArray) -> bool:
    """Return whether a first period's readings, (channel, slot), begin in its second half, or are one or two a channel.

    A feed that is switched on in the evening has a few hours of its first day, and a model that took these for a day
    would be wrong about everything the next day. A network that never has more starts with its second period.
    """
    observed: BoolArray = np.isfinite(readings)
    slots, channels = np.asarray(observed.any(axis=0)), np.asarray(observed.any(axis=1))
    if slots.size < 4 or not slots.any():
        return False
    return not bool(slots[: slots.size // 2].any()) or bool(observed.sum() < 0.15 * channels.sum() * slots.size)
