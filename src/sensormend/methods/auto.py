"""AutoOLRTR: online robust recovery that needs no tuning, the default of sensormend."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sensormend.arrays import Array, as_like, is_tensor, namespace, on_host
from sensormend.auto import archive, engine, founding
from sensormend.auto.door import Door, began_late, some_sensors, untouched
from sensormend.auto.memory import Model
from sensormend.auto.neighbourhoods import CORE, HALO, IntArray
from sensormend.auto.network import RANKS
from sensormend.auto.scales import looks_circular
from sensormend.auto.settling import Period
from sensormend.auto.wide import engine as wide_engine
from sensormend.auto.wide import founding as wide_founding
from sensormend.errors import ConfigError, ShapeError, ValueRangeError
from sensormend.recovery import Recovery
from sensormend.state import read_state, write_state
from sensormend.tensor import as_labels, as_readings, check_fiber_axis

__all__ = ["AutoOLRTR"]

STATE_VERSION = 3
"""1 knows no large networks, 2 has several variables in one model; a network is written as the first that will do."""

WATCHED = 30
"""Periods in which directions are looked for; a steady wind shows what it is only when it turns through north."""

FORGET = 180
"""Periods after which a sensor that is no longer heard of is forgotten; by then the memory of the others has been
renewed more than three times."""


class AutoOLRTR:
    """Mend the readings of a sensor network period by period, with nothing to tune.

    The model keeps, for every neighbourhood of sensors, the second moments of its readings and a dictionary of
    their strongest patterns, under forgetting. Every reading is predicted from the other sensors; what the
    sensor's own distance from that prediction was in the slots before and after is carried over to gaps. A
    fiber (one sensor's slots of one period) that lies farther from the prediction than is usual for that sensor,
    on a day that is not unusual for its relatives, is faulty; it is left out, and the rest is looked at again.

    Several variables are judged apart: each is predicted by the same variable at other sensors, as if there were no
    other.

    Parameters
    ----------
    fiber_axis
        The axis of the slots. Axis 0 is the sensors, axes between them are variables, an axis after it is
        consecutive periods: k periods in one call are the same as k calls.
    interval
        Nominal coverage of `lower` ... `upper`.
    seed
        For the random axes by which the sensors of a large network are compared.

    Notes
    -----
    Trusted readings are returned untouched. A fiber is not `evaluated` in its first five periods, without
    readings, or when too few or unrelated sensors leave no judgement (`reason` is then `alone`). A new sensor
    that is nowhere near the others and does not move with them is faulty from the start.

    A level that lasts is accepted after at most ten periods; a sensor that is wrong for fifteen starts over as a
    new one. With labels, sensors may join, leave and come back; one not heard of for 180 periods is forgotten.

    Examples
    --------
    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> hours = np.arange(24)
    >>> model = AutoOLRTR()
    >>> for day in range(30):
    ...     weather = 10 + 3 * random.normal() + 5 * np.sin((hours - 9) / 24 * 2 * np.pi)
    ...     readings = weather + np.arange(8)[:, None] + 0.3 * random.normal(size=(8, 24))
    ...     if day == 29:
    ...         readings[2] += 6
    ...         readings[5, 10:14] = np.nan
    ...     result = model.update(readings)
    >>> result.faulty
    array([False, False,  True, False, False, False, False, False])
    >>> str(result.reason[2])
    'offset'
    >>> bool(np.abs(result.cleaned[5, 10:14] - (weather[10:14] + 5)).max() < 1)
    True
    """

    _neighbourhood = (CORE, HALO)
    _wide: int | None = None

    def __init__(self, *, fiber_axis: int = 1, interval: float = 0.9, seed: int = 0) -> None:
        self.fiber_axis = check_fiber_axis(fiber_axis)
        if isinstance(interval, bool) or not isinstance(interval, int | float) or not 0 < interval < 1:
            raise ConfigError(f"interval is a share between 0 and 1; got {interval!r}")
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
            raise ConfigError(f"seed is a whole number, 0 or more; got {seed!r}")
        self.interval, self.seed = float(interval), int(seed)
        self._model: Model | None = None
        self._each: list[AutoOLRTR] = []
        self._remembers = False
        self._shape: tuple[int, ...] = ()
        self._labels: Sequence[str | int] = []
        self._labelled = False
        self._waited = False

    @property
    def sensors(self) -> tuple[str | int, ...]:
        """The sensors that the model knows, in the order in which it met them."""
        return self._each[0].sensors if self._each else tuple(self._labels)

    @property
    def periods(self) -> int:
        """How many periods the model has learned from."""
        if self._each:
            return max(part.periods for part in self._each)
        return self._model.pools.period if self._model else 0

    @property
    def rank(self) -> int:
        """How many patterns of the sensors' dictionary are in use; of several variables, the most of any."""
        if self._each:
            return max(part.rank for part in self._each)
        return RANKS[self._model.pools.rank] if self._model else RANKS[0]

    def update(self, minibatch: ArrayLike, sensors: Sequence[Hashable] | None = None) -> Recovery:
        """Mend one or several periods and learn from them.

        Parameters
        ----------
        minibatch
            Readings, NaN where there is none.
        sensors
            Labels of axis 0, text or whole numbers. Without them the sensors must be the same in every call.
        """
        door = self._enter(minibatch, sensors)
        if _variables(door.shape, self.fiber_axis) > 1:
            return self._update_each(minibatch, sensors, door)
        if self._model is None:
            slots = door.shape[self.fiber_axis]
            self._model = Model.new(1, slots, self.interval, self.seed, self._neighbourhood)
            self._shape, self._labelled = door.shape[1 : self.fiber_axis + 1], door.labelled
        model = self._model
        rows = self._place(door)
        results = []
        run = wide_engine.run if door.wide else engine.run
        for readings in door.readings:
            if door.wide:
                # Before this period's results are there: it takes much memory.
                wide_founding.refound(model)
            full = self._spread(readings, rows)
            if self.periods == 0 and not self._waited and began_late(full):
                self._waited = True
                self._found(full, wide=door.wide)
                results.append(untouched(full))
                continue
            some = some_sensors(full.reshape(len(self._labels), model.variables, model.slots))
            model.scales.learn(some)
            self._found(full, wide=door.wide)
            results.append(run(model, full, learning=True))
            model.scales.collect(some, model.pools.period)
            engine.bend(model)
        recovery = self._leave(results, rows, door)
        self._forget()
        return recovery

    def estimate(self, minibatch: ArrayLike, sensors: Sequence[Hashable] | None = None) -> Recovery:
        """Answer like `update`, for a period that is not over yet, and learn nothing."""
        door = self._enter(minibatch, sensors)
        if self._each:
            parts = self._apart(minibatch, door.shape)
            return self._joined(
                [model.estimate(part, sensors) for model, part in zip(self._each, parts, strict=True)], door.shape
            )
        unknown = door.labelled and set(door.labels) - set(self._labels)
        if self._model is None or self.periods == 0 or unknown:
            return self.copy().update(minibatch, sensors)
        rows = self._place(door)
        model = self._model
        if door.wide and wide_founding.due(model):
            # The next update would begin with that.
            twin = self.copy()
            twin._place(door)
            assert twin._model is not None
            model = twin._model
            wide_founding.refound(model)
        run = wide_engine.run if door.wide else engine.run
        results = [run(model, self._spread(part, rows), learning=False) for part in door.readings]
        return self._leave(results, rows, door)

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
        """Prepare for readings from earlier times: what is known stays, what was going on just now is over.

        The first period may still find sensors at the level that they had before the present one; call `arrive` after
        it, so that later on no level is taken back without waiting.
        """
        for part in self._each:
            part.rewind()
        if self._model is not None:
            self._model.channels.rewind()

    def arrive(self) -> None:
        """Let go of the levels that sensors had before; see `rewind`."""
        for part in self._each:
            part.arrive()
        if self._model is not None:
            self._model.channels.former[:] = 0.0

    def copy(self) -> AutoOLRTR:
        """Return a model that knows the same and goes its own way."""
        twin = type(self)(fiber_axis=self.fiber_axis, interval=self.interval, seed=self.seed)
        if self._model is not None:
            twin._model = archive.unpack(*archive.pack(self._model))
        twin._shape, twin._labels, twin._labelled = self._shape, self._labels, self._labelled
        twin._waited, twin._remembers = self._waited, self._remembers
        twin._each = [part.copy() for part in self._each]
        return twin

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all that the model knows to one `.npz` file, beside and then renamed."""
        settings, arrays = self._packed()
        version = 3 if self._each else 2 if self._model is not None and self._model.parts is not None else 1
        write_state(path, method="AutoOLRTR", version=version, settings=settings, arrays=arrays)

    def _packed(self) -> tuple[dict[str, object], dict[str, NDArray[Any]]]:
        """Return all that the model knows, as settings and arrays; those of a variable have its number in front."""
        wide = self._model is not None and self._model.parts is not None
        settings: dict[str, object] = {
            "fiber_axis": self.fiber_axis,
            "interval": self.interval,
            "seed": self.seed,
            "shape": list(self._shape),
            "labels": len(self._labels) if wide and not self._labelled else list(self._labels),
            "labelled": self._labelled,
            "waited": self._waited,
        }
        arrays: dict[str, NDArray[Any]] = {}
        if self._model is not None:
            settings["model"], arrays = archive.pack(self._model)
        if self._each:
            packed = [part._packed() for part in self._each]
            settings["each"] = [own for own, _ in packed]
            arrays = {f"{which}:{name}": array for which, (_, own) in enumerate(packed) for name, array in own.items()}
        return settings, arrays

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> AutoOLRTR:
        """Read a model back; it goes on as if it had never stopped."""
        settings, arrays = read_state(path, method="AutoOLRTR", version=STATE_VERSION)
        with archive.checked(path):
            return cls._unpacked(settings, arrays)

    @classmethod
    def _unpacked(cls, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> AutoOLRTR:
        model = cls(fiber_axis=settings["fiber_axis"], interval=settings["interval"], seed=settings["seed"])
        model._shape = tuple(settings["shape"])
        labels = settings["labels"]
        model._labels = range(labels) if isinstance(labels, int) else list(labels)
        model._labelled = settings["labelled"]
        model._waited = settings.get("waited", False)
        for which, own in enumerate(settings.get("each", [])):
            start = f"{which}:"
            named = {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}
            model._each.append(cls._unpacked(own, named))
        if "model" in settings:
            found = archive.unpack(settings["model"], arrays)
            if found.variables == 1:
                model._model = found
            else:
                # Earlier versions have all variables in one model.
                for own_model in archive.apart(found):
                    part = model._part()
                    part._model, part._shape = own_model, model._shape[-1:]
                    part._labels, part._labelled, part._waited = model._labels, model._labelled, model._waited
                    model._each.append(part)
                model._labels = []
        for part in model._each:
            part._remembers = True
        return model

    def _part(self) -> AutoOLRTR:
        """Return a model for one of several variables."""
        part = type(self)(fiber_axis=1, interval=self.interval, seed=self.seed)
        part._remembers = True
        return part

    def _update_each(self, minibatch: ArrayLike, sensors: Sequence[Hashable] | None, door: Door) -> Recovery:
        """Let every variable's own model mend its part of a minibatch."""
        parts = self._apart(minibatch, door.shape)
        if not self._each:
            self._each = [self._part() for _ in parts]
            self._shape, self._labelled = door.shape[1 : self.fiber_axis + 1], door.labelled
        results = [model.update(part, sensors) for model, part in zip(self._each, parts, strict=True)]
        if self._labelled:
            away = np.min([part._away() for part in self._each], axis=0)
            for part in self._each:
                part._drop(away <= FORGET)
        return self._joined(results, door.shape)

    def _apart(self, minibatch: ArrayLike, shape: tuple[int, ...]) -> list[Array]:
        """Return the part of each variable of a minibatch, (sensor, slot) or (sensor, slot, period)."""
        axis = self.fiber_axis
        readings: Array = as_readings(minibatch, fiber_axis=axis, max_axes=axis + 2, keep_single=True)
        whole = readings.reshape(shape[0], _variables(shape, axis), *shape[axis:])
        return [whole[:, which] for which in range(whole.shape[1])]

    def _joined(self, results: list[Recovery], shape: tuple[int, ...]) -> Recovery:
        """Return the recoveries of the variables as one, in the shape of the minibatch."""
        axis = self.fiber_axis
        fields: dict[str, Any] = {}
        for field in dataclasses.fields(Recovery):
            values = [getattr(result, field.name) for result in results]
            if field.name == "iterations":
                fields[field.name] = sum(values)
                continue
            cells = values[0].ndim == len(shape) - axis + 1
            joined = namespace(values[0]).stack(values, axis=1)
            fields[field.name] = joined.reshape(shape if cells else shape[:axis] + shape[axis + 1 :])
        return Recovery(**fields)

    def _enter(self, minibatch: ArrayLike, sensors: Sequence[Hashable] | None) -> Door:
        """Check a minibatch against what the model knows; nothing is changed."""
        axis = self.fiber_axis
        readings: Array = as_readings(minibatch, fiber_axis=axis, max_axes=axis + 2, keep_single=True)
        shape = tuple(readings.shape)
        begun = self._model is not None or bool(self._each)
        known = self._each[0]._labels if self._each else self._labels
        if begun and shape[1 : axis + 1] != self._shape:
            raise ShapeError(
                f"a sensor's part of a minibatch was {self._shape} (variables and slots); got {shape[1 : axis + 1]}"
            )
        labels: Sequence[str | int]
        if sensors is not None:
            labels = as_labels(sensors, shape[0])
            if begun and not self._labelled:
                raise ShapeError("the first minibatch had no labels; give labels from the first call on, or never")
        else:
            labels = range(shape[0])
            if begun and self._labelled:
                raise ShapeError("the first minibatch had labels; sensors= is needed in every call then")
            if begun and shape[0] != len(known):
                raise ShapeError(f"{len(known)} sensors before, {shape[0]} now; give sensors= labels when they change")
        together = len(set(labels) | set(known)) if sensors is not None else len(labels)
        channels = together * int(np.prod(shape[1:axis], dtype=int))
        wide = self._is_wide(channels)
        like = readings if is_tensor(readings) else None
        if not wide:
            readings = on_host(readings).astype(np.float64, copy=False)
        periods = shape[axis + 1] if readings.ndim == axis + 2 else None
        xp = namespace(readings)
        parts = readings[..., None] if periods is None else readings
        parts = xp.moveaxis(parts, -1, 0).reshape(periods or 1, -1, shape[axis])
        if self.periods <= WATCHED:
            self._refuse_directions(parts, shape)
        return Door(parts, labels, sensors is not None, shape, periods, channels, wide, like)

    def _is_wide(self, channels: int) -> bool:
        """Say whether so many channels make the network more than one neighbourhood; once it is, it stays so."""
        if self._model is not None and self._model.parts is not None:
            return True
        return channels > (sum(self._neighbourhood) if self._wide is None else self._wide)

    def _refuse_directions(self, parts: Array, shape: tuple[int, ...]) -> None:
        variables = _variables(shape, self.fiber_axis)
        for variable in range(variables):
            some = [some_sensors(part.reshape(shape[0], variables, -1)[:, variable]) for part in parts]
            if looks_circular(np.concatenate(some)):
                name = f"variable {variable} looks" if variables > 1 else "these readings look"
                raise ValueRangeError(
                    f"{name} like directions in degrees, which have no mean; mend their sine and cosine instead"
                )

    def _place(self, door: Door) -> IntArray | None:
        """Return the rows of the model that belong to the minibatch's sensors, None for all of them in order.

        New rows are made for new sensors.
        """
        model = self._model
        assert model is not None
        if door.wide:
            wide_founding.move(model, door.readings, door.channels)
        if not door.labelled:
            if not self._labels:
                self._labels = door.labels
                model.channels = model.channels.grown(len(door.labels) * model.variables)
            return None
        known = {label: index for index, label in enumerate(self._labels)}
        new = [label for label in door.labels if label not in known]
        if new:
            known.update({label: len(self._labels) + index for index, label in enumerate(new)})
            self._labels = [*self._labels, *new]
            model.channels = model.channels.grown(len(new) * model.variables)
        sensors = np.array([known[label] for label in door.labels], dtype=np.intp)
        if sensors.size == len(self._labels) and bool((np.diff(sensors) == 1).all()):
            return None
        return (sensors[:, None] * model.variables + np.arange(model.variables)).ravel()

    def _found(self, readings: Array, *, wide: bool) -> None:
        """Give every channel its neighbourhood before a period goes through."""
        assert self._model is not None
        if wide:
            wide_founding.found(self._model, readings)
        else:
            founding.found(self._model)

    def _spread(self, readings: Array, rows: IntArray | None) -> Array:
        """Lay a period's readings out on the model's channels, NaN for sensors that were not there."""
        assert self._model is not None
        if rows is None:
            return readings
        xp = namespace(readings)
        shape = (len(self._model.channels.days), readings.shape[1])
        full = xp.full(shape, xp.nan, dtype=readings.dtype, device=readings.device)
        full[as_like(rows, readings)] = readings
        return full

    def _leave(self, results: list[Period], rows: IntArray | None, door: Door) -> Recovery:
        """Give the periods back in the shape in which they came, and to where they came from."""
        whole = door.shape[: self.fiber_axis + 1]
        pick: Any = slice(None) if rows is None else rows
        fiber = whole[:-1]

        def shaped(name: str, shape: tuple[int, ...]) -> Array:
            arrays = [getattr(result, name) for result in results]
            if is_tensor(arrays[0]) and rows is not None:
                arrays = [array[as_like(rows, array)].reshape(shape) for array in arrays]
            else:
                arrays = [array[pick].reshape(shape) for array in arrays]
            joined = arrays[0] if door.periods is None else namespace(arrays[0]).stack(arrays, axis=-1)
            if door.like is None or is_tensor(joined) or name == "reason":
                return joined
            given = as_like(joined, door.like)
            return given.to(door.like.dtype) if given.is_floating_point() else given

        def cells(name: str) -> Array:
            return shaped(name, whole)

        def fibers(name: str) -> Array:
            return shaped(name, fiber)

        spikes, faulty = cells("spikes"), fibers("faulty")
        xp = namespace(spikes)
        observed = as_like(~on_host(namespace(door.readings).isnan(door.readings)), spikes)
        observed = observed.reshape(-1, *whole)
        observed = observed[0] if door.periods is None else xp.moveaxis(observed, 0, -1)
        wrong = observed & (xp.expand_dims(faulty, axis=self.fiber_axis) | spikes)
        suspect = fibers("suspect")
        doubtful = observed & xp.expand_dims(suspect, axis=self.fiber_axis) & ~wrong
        return Recovery(
            low_rank=cells("low_rank"),
            outliers=cells("outliers"),
            wrong=wrong,
            doubtful=doubtful,
            spikes=spikes,
            cleaned=cells("cleaned"),
            lower=cells("lower"),
            upper=cells("upper"),
            faulty=faulty,
            suspect=suspect,
            evaluated=fibers("evaluated"),
            score=fibers("score"),
            reason=fibers("reason"),
            faults=(),
            iterations=sum(result.rounds for result in results),
        )

    def _forget(self) -> None:
        """Let go of sensors that have not been heard of for long; of one with several variables all go together."""
        if self._labelled and self._model is not None and not self._remembers:
            self._drop(self._away() <= FORGET)

    def _away(self) -> NDArray[Any]:
        """Return for how many periods each sensor has not been heard of."""
        assert self._model is not None
        return np.asarray(on_host(self._model.channels.away).reshape(len(self._labels), -1).min(axis=1))

    def _drop(self, kept: NDArray[np.bool_]) -> None:
        """Forget all sensors but these."""
        if kept.all():
            return
        assert self._model is not None
        drop = founding.drop if self._model.parts is None else wide_founding.drop
        drop(self._model, np.repeat(kept, self._model.variables))
        self._labels = [label for label, stays in zip(self._labels, kept, strict=True) if stays]


def _variables(shape: tuple[int, ...], axis: int) -> int:
    """Return how many variables a minibatch of this shape has."""
    return int(np.prod(shape[1:axis], dtype=int))
