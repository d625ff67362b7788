"""`Cleaner` turns readings into rows, period by period, for archives, frames and live feeds alike."""

from __future__ import annotations

import copy
import os
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Protocol, TypeGuard

import numpy as np
from numpy.typing import NDArray

from sensormend.errors import ConfigError, InputError, StateError
from sensormend.files import read_state, write_state, written_by
from sensormend.model.network_model import DIRECTION_PERIODS, NetworkModel
from sensormend.pipeline.bounds import JUDGED, AcceptedRange, clipped
from sensormend.pipeline.circular import components, in_degrees
from sensormend.pipeline.grid import Grid, Placed, place
from sensormend.pipeline.maintenance import FIXED, Maintenance
from sensormend.pipeline.options import EVERY, Options
from sensormend.pipeline.physical import physical_limits, plateau
from sensormend.pipeline.published import BatchModel, PeriodModel, PublishedModel, published_model
from sensormend.pipeline.sentences import readable
from sensormend.pipeline.stillness import Movements
from sensormend.pipeline.survey import Survey
from sensormend.pipeline.verdicts import Mark, Verdicts, flag_cells, judge, with_stuck
from sensormend.readings import NOTHING, OBSERVED, REASONS, NameIndex, Readings, Rows
from sensormend.recovery import BoolArray, Fault, FloatArray, Recovery

__all__ = [
    "NEVER",
    "STATE_VERSION",
    "WARM_UP",
    "CleanedPeriod",
    "Cleaner",
    "InMemory",
    "ModelPeriods",
    "PeriodSource",
    "cleaner_for",
    "walk",
]

STATE_VERSION = 8
"""States of another version are refused."""

NEVER = np.iinfo(np.int64).min // 4
ESTIMATED_PERIODS = 2
"""Periods since its last reading after which a channel that the others do not explain has no estimates."""
MOST_JUMPS = 1000
"""Jumps in time that are stored: an episode that began before the oldest of them is dated to that one."""


@dataclass
class ModelPeriods:
    """The periods of the grid that the model was given, in the order in which it counts them.

    Attributes
    ----------
    count
        Their number.
    jumps
        (number in the model, number on the grid) of each period that does not follow the one before it. Where time goes
        back, as when the first weeks are learned twice, only the periods since then are known.

    Examples
    --------
    >>> periods = ModelPeriods()
    >>> for period in (100, 101, 102, 100, 101, 107):
    ...     periods.add(period)
    >>> periods.jumps, [periods.find_period(number) for number in range(6)]
    ([(3, 100), (5, 107)], [None, None, None, 100, 101, 107])
    """

    count: int = 0
    jumps: list[tuple[int, int]] = field(default_factory=list)

    def add(self, period: int) -> None:
        """Count a period that the model was given."""
        last = self.find_period(self.count - 1)
        if last is None or period <= last:
            self.jumps = [(self.count, period)]
        elif period != last + 1:
            self.jumps = [*self.jumps[1 - MOST_JUMPS :], (self.count, period)]
        self.count += 1

    def find_period(self, number: int) -> int | None:
        """Return the grid's number of the model's period; None for one from before time went back."""
        before = bisect_right(self.jumps, number, key=lambda jump: jump[0])
        if not before:
            return None
        first, period = self.jumps[before - 1]
        return period + number - first


@dataclass(frozen=True, eq=False)
class CleanedPeriod:
    """A period after cleaning; arrays are (channel, slot) or (channel), channels as in `rows`, slot by slot.

    Of one that is not over there may be its first slots only.

    Attributes
    ----------
    rows
        One per channel and slot, channel by channel.
    network
        The model's estimate of each cell from the other channels.
    score
        The score of each fiber; 1 is at the threshold.
    resolution
        The smallest change between two readings of each channel so far; NaN where none is known.
    faults
        The episodes that touch the period, or are now known to have ended before it, in order of start. `sensor` is an
        index into the names of the rows, `start` and `end` are the start of the first wrong slot and the end of the
        last one, microseconds since 1970, UTC.
    readings
        A row per reading and per empty slot, with the option `per_reading`.
    circular
        The numbers of the variables that are directions in degrees.
    problem
        What the model could not take in this period, in words; empty where it took all.
    """

    period: int
    rows: Rows
    network: FloatArray
    score: FloatArray
    resolution: FloatArray
    faults: tuple[Fault, ...] = ()
    readings: Rows | None = None
    circular: tuple[int, ...] = ()
    problem: str = ""

    @property
    def output(self) -> Rows:
        """The rows to be written: per reading with the option `per_reading`, else per slot."""
        return self.rows if self.readings is None else self.readings


class Cleaner:
    """Clean readings period by period: put them on the grid, judge them, fill the gaps, and learn.

    Parameters
    ----------
    grid
        Slots and periods.
    variables
        The names of all variables.
    fill, valid
        Fill values and limits per variable; the empty name stands for every variable.
    tolerance
        The accuracy of the probes, per variable likewise.
    circular
        The variables that are directions in degrees, each with the start of its turn, 0 or -180. The model gets their
        cosine and sine.
    unjudged
        The variables that are not judged, each with the names of the sensors of which this is so, none for all.
    maintenance
        The users' notes.
    gone_after
        The silence, in microseconds, after which a sensor gets no more rows.
    interval, seed, references
        As for `NetworkModel`.
    per_reading
        Make rows for every reading too.
    model
        The model to continue with; a new one by default.

    Examples
    --------
    >>> from sensormend.readings import DAY, HOUR
    >>> random, hours = np.random.default_rng(0), np.arange(24, dtype=np.int64)
    >>> sensor = np.repeat(np.arange(6), 24)
    >>> cleaner = Cleaner(Grid(HOUR, DAY))
    >>> for day in range(8):
    ...     weather = 5 * random.normal() + 3 * np.sin(hours / 24 * 2 * np.pi)
    ...     value = np.tile(weather, 6) + sensor + 0.1 * random.normal(size=144)
    ...     time = np.tile(day * DAY + hours * HOUR, 6)
    ...     (mended,) = cleaner.push(Readings("abcdef", ("",), sensor, 0 * sensor, time, value))
    >>> len(mended.rows), set(mended.rows.flag.tolist())
    (144, {1})
    """

    def __init__(
        self,
        grid: Grid,
        variables: Sequence[str] = (EVERY,),
        *,
        fill: Mapping[str, Sequence[float]] | None = None,
        valid: Mapping[str, tuple[float, float]] | None = None,
        tolerance: Mapping[str, float] | None = None,
        circular: Mapping[str, float] | None = None,
        unjudged: Mapping[str, Sequence[str]] | None = None,
        maintenance: Maintenance | None = None,
        gone_after: int = Options.gone_after,
        interval: float = 0.9,
        seed: int = 0,
        references: Sequence[str] = (),
        per_reading: bool = False,
        model: PeriodModel | None = None,
    ) -> None:
        if not variables or len(set(variables)) < len(variables):
            raise ConfigError(f"variables are one or more different names; got {list(variables)}")
        self.grid, self.variables = grid, tuple(variables)

        def by_variable(values: Mapping[str, Any] | None, default: Any) -> list[Any]:
            values = values or {}
            return [values.get(name, values.get(EVERY, default)) for name in self.variables]

        self._fill, self._valid = by_variable(fill, ()), by_variable(valid, (-np.inf, np.inf))
        turns = circular or {}
        self._circular = tuple(number for number, name in enumerate(self.variables) if name in turns)
        self._turns = tuple(turns[self.variables[number]] for number in self._circular)
        # Of a direction the model knows the cosine, in its place, and the sine, after all variables.
        limits = by_variable(tolerance, None)
        for number in self._circular:
            limits[number] = None if limits[number] is None else float(np.radians(limits[number]))
        self._tolerance = [*limits, *(limits[number] for number in self._circular)]
        self.maintenance = maintenance or Maintenance()
        self._silent_periods = max(1, gone_after // grid.period)
        self._per_reading = per_reading
        self.model: PeriodModel = model or NetworkModel(
            fiber_axis=2, interval=interval, seed=seed, tolerance=self._tolerance, references=references,
            plateaus=[*map(plateau, self.variables), *(None for _ in self._circular)],
        )  # fmt: skip
        self._references = tuple(references)
        self._index = NameIndex()
        self.period: int | None = None
        # By sensor and variable: the last period with a reading.
        self._last_period = np.full((0, len(self.variables)), NEVER, dtype=np.int64)
        # By sensor and variable: the smallest change between two readings; infinite where none is known.
        self._resolution = np.full((0, len(self.variables)), np.inf)
        self._accepted = AcceptedRange.of(len(self.variables))
        self._movements = Movements.of(len(self.variables))
        # Shared by all copies, as the model is, and advanced by the copy that lets it learn.
        self._model_periods = ModelPeriods()
        # By sensor and variable: the number of recalibrations that the model has taken in.
        self._recalibrations: dict[tuple[str, int], int] = {}
        self._unjudged = {name: tuple(sensors) for name, sensors in (unjudged or {}).items()}
        # By variable: the period from which it passes through, since it turned out to be a direction.
        self._unjudged_from: dict[int, int] = {}
        # By sensor and variable name: the times of the first and the last reading, where they are known beforehand.
        self.spans: Mapping[tuple[str, str], tuple[int, int]] = {}
        self._span_of_rows = np.zeros((2, 0, len(self.variables)), dtype=np.int64)
        # By what the model could not take: in how many periods, the first of them, and the error.
        self._problems: dict[str, tuple[int, int, str]] = {}

    @property
    def sensors(self) -> tuple[str, ...]:
        """The sensors so far, in the order of the model's rows."""
        return self._index.all

    def push(self, readings: Readings, period: int | None = None) -> list[CleanedPeriod]:
        """Clean all readings of one period, later than all before it; empty periods in between are cleaned first.

        There may be no readings if the number of the `period` is given.
        """
        period = self._find_period(readings, period)
        if self.period is not None and period <= self.period:
            raise InputError("these readings belong to a period that is over; push periods in their order")
        return [*self.catch_up(period), self._clean(period, readings, self.grid.slots)]

    def catch_up(self, period: int) -> list[CleanedPeriod]:
        """Clean the empty periods between the last one and this one."""
        silent = range(period, period) if self.period is None else range(self.period + 1, period)
        # After this many silent periods every sensor is gone and has no rows.
        return [self._clean(missed, NOTHING, self.grid.slots) for missed in silent[: self._silent_periods]]

    def peek(self, readings: Readings, period: int, until: int | None = None) -> CleanedPeriod:
        """Return what `push` would for the readings so far of a period that is not over, without learning.

        With `until`, only the slots that begin before it have rows; no reading is from a later one.
        """
        self._find_period(readings, period)
        slots = self.grid.slots
        if until is not None:
            slots = max(1, min(slots, -((self.grid.period_start(period) - until) // self.grid.step)))
        # New sensors are numbered, by name, when the period is over; until then they are in the copy only.
        twin = copy.copy(self)
        twin._index, twin._unjudged_from = self._index.copy(), dict(self._unjudged_from)
        return twin._clean(period, readings, slots, learning=False)

    def training_periods(self, periods: Sequence[int], *, one_pass: bool, passes: int = 1) -> list[Sequence[int]]:
        """Return the periods of each walk that only trains the model, before the one whose results count.

        The first weeks of an archive are learned twice, unless it is to be met in `one_pass`. A published online method
        walks the whole archive `passes` times, a batch method twice: it collects the readings first.
        """
        if isinstance(self.model, BatchModel):
            return [periods]
        if isinstance(self.model, PublishedModel):
            return [periods] * (passes - 1)
        return [] if one_pass else [[period for period in periods if period < periods[0] + WARM_UP]]

    def fresh_copy(self) -> Cleaner:
        """Return a cleaner with the same settings and the same model, but without sensors and periods."""
        twin = copy.copy(self)
        twin._index, twin.period = NameIndex(), None
        twin._last_period, twin._resolution = self._last_period[:0], self._resolution[:0]
        twin._span_of_rows = self._span_of_rows[:, :0]
        twin._unjudged_from, twin._problems = dict(self._unjudged_from), dict(self._problems)
        return twin

    @property
    def circular(self) -> dict[str, float]:
        """The variables that are directions, each with the start of its turn."""
        return {self.variables[number]: start for number, start in zip(self._circular, self._turns, strict=True)}

    @property
    def limits(self) -> dict[str, tuple[float, float]]:
        """The range of the accepted readings of each variable."""
        low, high = self._accepted.variable_limits
        return dict(zip(self.variables, zip(low.tolist(), high.tolist(), strict=True), strict=True))

    def find_limits(self, sensor: str, variable: str) -> tuple[float, float]:
        """Return the range to which estimates and corrections of a channel are bounded."""
        return self._find_limits(self._accepted.limits, sensor, variable)

    def find_correction_limits(self, sensor: str, variable: str) -> tuple[float, float]:
        """Return the range to which corrections move no reading of a channel from inside."""
        return self._find_limits(self._accepted.correction_limits, sensor, variable)

    def _find_limits(self, limits: tuple[FloatArray, FloatArray], sensor: str, variable: str) -> tuple[float, float]:
        channel = self._index[sensor], self.variables.index(variable)
        return float(limits[0][channel]), float(limits[1][channel])

    @property
    def withheld(self) -> dict[str, int]:
        """The number of estimates and corrections that were withheld, by variable."""
        counts = zip(self.variables, self._accepted.withheld.tolist(), strict=True)
        return {variable: count for variable, count in counts if count}

    def remarks(self) -> list[str]:
        """Return remarks on estimates that were withheld, and on variables that are not judged any more."""
        remarks = []
        if self.withheld:
            counts = (f"{count:,} of {variable}" if variable else f"{count:,}"
                      for variable, count in self.withheld.items())  # fmt: skip
            remarks.append(f"estimates withheld, since they lay far outside all readings: {', '.join(counts)}")
        for variable, period in zip(self.variables, self._accepted.unjudged_from.tolist(), strict=True):
            if period < JUDGED:
                words = f"{variable} is not judged" if variable else "the readings are not judged"
                since = readable(self.grid.period_start(period))
                remarks.append(f"{words} from {since} on: most of the estimates were withheld")
        absent = sorted(set(self._references).difference(self.sensors))
        remarks += [f"reference names {name}, of which there is no reading" for name in absent]
        if isinstance(self.model, PublishedModel | BatchModel):
            remarks += self.model.remarks(self.variables)
        return remarks + self.unjudged_remarks()

    def unjudged_remarks(self) -> list[str]:
        """Return remarks on what passed through."""
        remarks = []
        for number, period in self._unjudged_from.items():
            name = self.variables[number]
            since = f" from {readable(self.grid.period_start(period))} on" if period > NEVER else ""
            words = f"{name} is not judged" if name else "the readings are not judged"
            remarks.append(f"{words}{since}: they look like directions in degrees; name or unit should say so")
        for name, (count, period, error) in self._problems.items():
            periods = "a period" if count == 1 else f"{count:,} periods"
            remarks.append(
                f"{name} is not judged in {periods} from {readable(self.grid.period_start(period))}: {error}"
            )
        return remarks

    def second_pass(self, trainer: Cleaner) -> None:
        """Prepare for the readings that the `trainer`, a fresh copy of this one, has learned from."""
        self.model.rewind()
        self._accepted = trainer._accepted.for_second_pass()
        self._movements = trainer._movements.for_second_pass()
        self._unjudged_from = dict.fromkeys(trainer._unjudged_from, NEVER)

    def load_model(self, path: str | os.PathLike[str]) -> None:
        """Read the model of a state; refuse that of another method or of other settings."""
        own, kind = self.model, type(self.model)
        writer = written_by(path)
        if writer and writer != kind.__name__:
            raise ConfigError(f"the state in {Path(path).parent} is of another method; it needs another OUT")
        model = kind.load(path)
        if isinstance(own, PublishedModel | BatchModel) and isinstance(model, PublishedModel | BatchModel):
            for name, value in own.settings.items():
                if model.settings.get(name) != value:
                    name = "method" if name == "name" else name
                    raise ConfigError(f"the state in {Path(path).parent} has another {name}; that needs another OUT")
        self.model = model

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the cleaner's state, without the model, which `model.save` writes to its own file."""
        settings = {
            "grid": list(astuple(self.grid)),
            "variables": list(self.variables),
            "sensors": list(self.sensors),
            "period": self.period,
            "given": [self._model_periods.count, self._model_periods.jumps],
            "recalibrations": [[*channel, count] for channel, count in self._recalibrations.items()],
            "circular": self.circular,
            "unjudged": {name: list(sensors) for name, sensors in self._unjudged.items()},
            "unjudged_from": [list(entry) for entry in self._unjudged_from.items()],
            "problems": [[name, *entry] for name, entry in self._problems.items()],
        }
        accepted = {f"accepted_{part.name}": getattr(self._accepted, part.name) for part in fields(AcceptedRange)}
        movements = {f"movements_{name}": array for name, array in vars(self._movements).items()}
        arrays = {"last_period": self._last_period, "resolution": self._resolution, **accepted, **movements}
        write_state(path, method="Cleaner", version=STATE_VERSION, settings=settings, arrays=arrays)

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Restore the state of the cleaner that wrote `path`; `model` must be the one that was saved with it."""
        settings, arrays = read_state(path, method="Cleaner", version=STATE_VERSION)
        try:
            grid, variables = Grid(*settings["grid"]), tuple(settings["variables"])
            sensors, period, last_period = tuple(settings["sensors"]), settings["period"], arrays["last_period"]
            count, jumps = settings["given"]
            model_periods = ModelPeriods(count, [(number, on_grid) for number, on_grid in jumps])
            recalibrations = {(name, variable): count for name, variable, count in settings["recalibrations"]}
            circular, unjudged_from = settings["circular"], dict(settings["unjudged_from"])
            problems = {name: (count, first, error) for name, count, first, error in settings["problems"]}
            unjudged = {name: tuple(sensors) for name, sensors in settings["unjudged"].items()}
            resolution = arrays["resolution"]
            accepted = AcceptedRange(**{part.name: arrays[f"accepted_{part.name}"] for part in fields(AcceptedRange)})
            movements = Movements(**{part.name: arrays[f"movements_{part.name}"] for part in fields(Movements)})
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"{Path(path).name} is not a sensormend state file, or it is broken") from error
        if (grid, variables, circular) != (self.grid, self.variables, self.circular):
            raise StateError(f"{Path(path).name} was written with another grid or other variables")
        self._index, self.period, self._last_period = NameIndex(sensors), period, last_period
        self._model_periods, self._recalibrations = model_periods, recalibrations
        self._accepted, self._resolution, self._movements = accepted, resolution, movements
        self._unjudged, self._unjudged_from, self._problems = unjudged, unjudged_from, problems
        if any(limit is not None for limit in self._tolerance):
            self.model.tolerance = self._tolerance
        if isinstance(self.model, NetworkModel):
            self.model.references = self._references

    def _find_period(self, readings: Readings, period: int | None) -> int:
        """Return the period of the readings; refuse readings of several."""
        if not len(readings):
            if period is None:
                raise InputError("a period is pushed with its readings; there is none")
            return period
        ends = np.array([readings.time.min(), readings.time.max()])
        first, last = self.grid.find_period(ends).tolist()
        if first != last or period not in (None, first):
            raise InputError("readings of several periods in one push; give each period's readings on their own")
        return int(first)

    def _clean(self, period: int, readings: Readings, slots: int, *, learning: bool = True) -> CleanedPeriod:
        """Return the first `slots` of a period, of which all its readings are, cleaned."""
        grid, times = self.grid, self.grid.slot_times(period)[:slots]
        rows = self._find_rows(readings)
        variable = self._find_variables(readings)
        last_period = np.full((len(self.sensors), len(self.variables)), NEVER, dtype=np.int64)
        last_period[: self._last_period.shape[0]] = self._last_period
        last_period[rows, variable] = period
        listed = last_period > period - 1 - self._silent_periods
        span = self._span_rows() if self.spans else None
        if span is not None:
            # A series that has ended gets no rows.
            listed &= (grid.find_period(span[0]) <= period) & (period <= grid.find_period(span[1]))
        removed = self.maintenance.noted("removed", self.sensors, self.variables, times, grid.step)
        if removed is not None:
            # A removed sensor has no rows, except for periods in which it reports readings, which are not judged.
            listed &= ~removed.all(axis=2) | (last_period == period)
        sensors = np.flatnonzero(listed.any(axis=1))
        shape = (sensors.size, len(self.variables), slots)
        place_of = np.zeros(len(self.sensors), dtype=np.int64)
        place_of[sensors] = np.arange(sensors.size)
        channel = place_of[rows] * len(self.variables) + variable
        readings = Readings(self.sensors, self.variables, rows, variable, readings.time, readings.value)
        placed = place(
            grid, readings, channel, shape[0] * shape[1], self._fill, self._valid,
            dict(zip(self._circular, self._turns, strict=True)), slots,
        )  # fmt: skip
        all_names = self.sensors
        names = [all_names[row] for row in sensors.tolist()]
        hidden = self.maintenance.hidden(names, self.variables, times, grid.step)
        real = self.maintenance.noted("real", names, self.variables, times, grid.step)
        movements, still = self._movements, np.zeros(shape[:2], dtype=bool)
        if _is_network(self.model) and names:
            impossible = self._accepted.impossible(placed.value.reshape(shape), sensors)
            if self._references:
                impossible[np.isin(names, self._references)] = False
            impossible[self._without_level(names)] = False
            placed = placed.without(impossible.reshape(-1))
        seen = np.isfinite(placed.value) & ~placed.implausible & ~placed.coded
        seen = seen.reshape(shape) if hidden is None else seen.reshape(shape) & ~hidden
        if _is_network(self.model) and names:
            moving = np.where(seen, placed.value.reshape(shape), np.nan)
            moving[:, self._circular] = np.nan
            still, movements = movements.find_still(moving, sensors, self._accepted.variable_limits, self.variables)
            still[np.isin(names, self._references)] = False
            still &= ~self._without_level(names)
        stuck = seen & still[..., None] if real is None else seen & still[..., None] & ~real
        seen &= ~stuck
        number = self._model_periods.count
        given = np.where(seen, placed.value.reshape(shape), np.nan)
        returning = np.zeros(shape[:2], dtype=bool)
        if _is_network(self.model) and names:
            returning = self._accepted.returning(given, sensors)
        recovery, problem = self._recover(given, names, period, learning, returning)
        all_resolutions = np.full(last_period.shape, np.inf)
        all_resolutions[: self._resolution.shape[0]] = self._resolution
        smallest = _smallest_change(np.where(placed.coded, np.nan, placed.value)).reshape(shape[:2])
        all_resolutions[sensors] = np.fmin(all_resolutions[sensors], smallest)
        resolution = np.where(np.isfinite(all_resolutions[sensors]), all_resolutions[sensors], np.nan)
        if recovery.faults:
            recovery = with_stuck(
                recovery, given, labels=names, first_slot=number * grid.slots, resolution=resolution
            )  # fmt: skip
        cells = judge(
            recovery, placed, seen, hidden, real, stuck, labels=names, first_slot=number * grid.slots,
            resolution=resolution,
        )  # fmt: skip
        if span is not None:
            first, last = span[:, sensors, :, None] + grid.early
            cells = cells.without_estimates((times <= first - grid.step) | (times > last))
        if _is_network(self.model) and names:
            # What others do not explain is known for hours or a day after its last reading, and not for weeks.
            silent = period - last_period[sensors] > ESTIMATED_PERIODS
            silent &= ~self.model.explained(names)[:, : len(self.variables)]
            # Of a channel that stood still from the start, nobody knows what it should read.
            without = np.broadcast_to(silent[..., None], shape)
            if still.any():
                unknown = still & ~movements.is_lively(sensors)
                without = without | (unknown[..., None] & ~np.isfinite(given))
            cells = cells.without_estimates(without)
        network, faults = recovery.expected, recovery.faults
        accepted = self._accepted.without(returning, sensors)
        if names:
            value, judged = placed.value.reshape(shape), accepted.unjudged_from > period
            # A direction has no range: its estimates are not bounded.
            ranged = value.copy() if self._circular else value
            ranged[:, self._circular] = np.nan
            comoving: BoolArray | bool = True
            counting: BoolArray | bool = True
            if _is_network(self.model):
                comoving = self.model.comoving(names)[:, : len(self.variables)]
                counting = self.model.counting(names)[:, : len(self.variables)]
            accepted = accepted.extended(ranged, cells, sensors, comoving, counting)
            cells, accepted = accepted.applied(
                cells, value, seen, listed[sensors], period, sensors, intervals=recovery.lower is not None
            )
            network = clipped(network, *(end[sensors, :, None] for end in accepted.limits))
            faults = tuple(fault for fault in faults if judged[fault.variable])
        listed = listed[sensors].ravel()
        rows_by_slot = _slot_rows(self, times, sensors, listed, placed, cells)
        self._last_period, self._resolution = last_period, all_resolutions
        self.period, self._accepted, self._movements = period, accepted, movements
        return CleanedPeriod(
            period,
            rows_by_slot,
            network.reshape(-1, slots)[listed],
            recovery.score.ravel()[listed],
            resolution.ravel()[listed],
            self._dated(faults, names, sensors, number, period),
            _reading_rows(rows_by_slot, readings, placed, listed, hidden, real) if self._per_reading else None,
            self._circular,
            problem,
        )

    def _span_rows(self) -> NDArray[np.int64]:
        """Return the first and the last time of every channel, (2, sensor, variable); all times where it has none."""
        if self._span_of_rows.shape[1] != len(self.sensors):
            spans = [[self.spans.get((sensor, variable), (NEVER, -NEVER)) for variable in self.variables]
                     for sensor in self.sensors]  # fmt: skip
            self._span_of_rows = np.moveaxis(np.array(spans, dtype=np.int64).reshape(-1, len(self.variables), 2), 2, 0)
        return self._span_of_rows

    def _recover(
        self, minibatch: FloatArray, names: list[str], period: int, learning: bool, returning: BoolArray
    ) -> tuple[Recovery, str]:
        """Run the model on a period with or without learning; return also what it could not take, in words.

        Of the `returning` channels, (sensor, variable), the level is accepted.
        """
        if not names:
            return Recovery.unjudged(minibatch), ""
        if (missing := self.grid.slots - minibatch.shape[2]) > 0:
            # The model has whole periods.
            whole = np.pad(minibatch, ((0, 0), (0, 0), (0, missing)), constant_values=np.nan)
            of_whole, problem = self._recover(whole, names, period, learning, returning)
            return of_whole.of_slots(minibatch.shape[2]), problem
        unjudged = self._without_level(names)
        unjudged[:, self._new_directions(minibatch, names, period)] = True
        recalibrated = self._new_recalibrations(names, period)
        accepted = [*recalibrated, *((names[row], variable) for row, variable in np.argwhere(returning).tolist())]
        # A peek changes nothing, including the accepted levels.
        model = self.model.copy() if accepted and not learning else self.model
        modelled = set(model.sensors) if accepted else set()
        for name, variable in accepted:
            if name in modelled:
                for component in self._find_components(variable):
                    model.accept(name, component)
        first_slot, problem = self._model_periods.count * self.grid.slots, ""
        given = components(np.where(unjudged[..., None], np.nan, minibatch), self._circular)
        recovery: Recovery | None
        try:
            recovery = (model.update if learning else model.estimate)(given, sensors=names)
        except (ArithmeticError, ValueError) as error:
            if not learning:
                raise
            recovery, refused, who = self._recover_rest(given, names)
            unjudged[refused] = True
            problem = f"{who} is not judged: {error}"
            count, first, _ = self._problems.get(who, (0, period, ""))
            self._problems[who] = count + 1, first, str(error)
        if recovery is None:
            return Recovery.unjudged(minibatch), problem
        if learning:
            self._model_periods.add(period)
            self._recalibrations.update(recalibrated)
        recovery = in_degrees(recovery, minibatch, self._circular, self._turns, names, first_slot)
        return _passed_through(recovery, minibatch, unjudged, names), problem

    def _without_level(self, names: Sequence[str]) -> BoolArray:
        """Return which channels of the sensors are not judged from the start, (sensor, variable)."""
        unjudged = np.zeros((len(names), len(self.variables)), dtype=bool)
        for number, variable in enumerate(self.variables):
            if variable in self._unjudged:
                sensors = self._unjudged[variable]
                unjudged[:, number] = np.isin(names, sensors) if sensors else True
        return unjudged

    def _find_components(self, variable: int) -> list[int]:
        """Return the model's variables that stand for a variable."""
        sine = [len(self.variables) + place for place, number in enumerate(self._circular) if number == variable]
        return [variable, *sine]

    def _new_directions(self, minibatch: FloatArray, names: list[str], period: int) -> list[int]:
        """Return the variables that pass through, with those that this period shows to be directions."""
        if self.model.periods <= DIRECTION_PERIODS:
            from sensormend.model.scales import looks_circular

            counting = np.ones(minibatch.shape[:2], dtype=bool)
            if _is_network(self.model) and self.model.periods:
                # Sensors that join decide nothing for the others.
                counting = self.model.counting(names)
            for number in range(len(self.variables)):
                known = number in self._circular or number in self._unjudged_from
                if not known and looks_circular(minibatch[counting[:, number], number]):
                    self._unjudged_from[number] = period
        return [number for number, since in self._unjudged_from.items() if since <= period]

    def _recover_rest(self, given: FloatArray, names: list[str]) -> tuple[Recovery | None, tuple[Any, ...], str]:
        """Let the model learn from a period that it refuses, without the one variable or sensor that it cannot take.

        Return the recovery, the fibers that it lacks, and their name; None where no single one is the cause.
        """

        def without(model: PeriodModel, hidden: Any) -> Recovery:
            rest = given.copy()
            rest[hidden] = np.nan
            return model.update(rest, sensors=names)

        def takes(hidden: Any) -> bool:
            try:
                without(self.model.copy(), hidden)
            except (ArithmeticError, ValueError):
                return False
            return True

        if takes((slice(0),)):
            # It takes the same readings now: none of them is the cause.
            return None, (), "the network"
        for variable, name in enumerate(self.variables if len(self.variables) > 1 else ()):
            columns = (slice(None), self._find_components(variable))
            if takes(columns):
                return without(self.model, columns), (slice(None), variable), name
        rows = np.arange(len(names))
        # Half of the suspects is left out at a time, as long as the model takes the others.
        while rows.size > 1:
            halves = np.array_split(rows, 2)
            rows = next((half for half in halves if takes(half)), rows[:0])
        if rows.size and takes(rows):
            return without(self.model, rows), (rows,), names[int(rows[0])]
        return None, (), "the network"

    def _new_recalibrations(self, names: list[str], period: int) -> dict[tuple[str, int], int]:
        """Return the channels whose number of recalibrations by the end of a period differs from the model's.

        There are fewer where time went back, or where a note was removed; the level differs then, too.
        """
        if not self._recalibrations and not any(note.action in FIXED for note in self.maintenance.notes):
            return {}
        end = self.grid.period_start(period + 1)
        counts = {
            (name, number): self.maintenance.recalibrations(name, variable, end)
            for name in names
            for number, variable in enumerate(self.variables)
        }
        return {channel: count for channel, count in counts.items() if count != self._recalibrations.get(channel, 0)}

    def _dated(
        self, faults: Sequence[Fault], names: list[str], sensors: NDArray[np.intp], number: int, period: int
    ) -> tuple[Fault, ...]:
        """Return the model's faults in its period `number`, which is `period` on the grid, as `CleanedPeriod` has them.

        Those of sensors that are gone, and those that ended before time went back, are left out.
        """
        row_of = dict(zip(names, sensors.tolist(), strict=True)) if faults else {}
        dated = []
        for fault in faults:
            row = row_of.get(str(fault.sensor))
            end = None if fault.end is None else self._find_time(fault.end, number, period)
            if row is None or (fault.end is not None and end is None):
                continue
            start = self._find_time(fault.start, number, period)
            start = self.grid.period_start(self._model_periods.jumps[0][1]) if start is None else start
            end = None if end is None else end + self.grid.step
            # Readings that are noted as real or to be ignored belong to no fault.
            start = self.maintenance.unnoted(self.sensors[row], self.variables[fault.variable], start, self.grid.step)
            if start < (self.grid.period_start(period + 1) if end is None else end):
                dated.append(replace(fault, sensor=row, start=start, end=end))
        return tuple(sorted(dated, key=lambda one: (one.start, one.id)))

    def _find_time(self, slot: int, number: int, period: int) -> int | None:
        """Return the time of a slot in the model's count; None for one from before time went back."""
        own, slot = divmod(slot, self.grid.slots)
        # The present period may be a peek, which is not in `ModelPeriods`.
        on_grid = period if own == number else self._model_periods.find_period(own)
        return None if on_grid is None else self.grid.period_start(on_grid) + slot * self.grid.step

    def _find_rows(self, readings: Readings) -> NDArray[np.int64]:
        """Return the row of every reading's sensor; new sensors are appended in order of name."""
        new = self._index.missing(readings.sensors, readings.sensor)
        self._index.add(sorted(readings.sensors[code] for code in new))
        return self._index.codes(readings.sensors, readings.sensor)

    def _find_variables(self, readings: Readings) -> NDArray[np.int64]:
        if tuple(readings.variables) == self.variables or not len(readings):
            return readings.variable.astype(np.int64)
        unknown = [name for name in readings.variables if name not in self.variables]
        if unknown:
            raise InputError(f"variable {unknown[0]!r} was not there from the start; there are {list(self.variables)}")
        return NameIndex(self.variables).codes(readings.variables, readings.variable)


def _passed_through(recovery: Recovery, minibatch: FloatArray, unjudged: BoolArray, names: Sequence[str]) -> Recovery:
    """Return a recovery with the readings of some fibers, (sensor, variable), as they came."""
    if not unjudged.any():
        return recovery
    plain = Recovery.unjudged(minibatch)
    columns: dict[str, Any] = {}
    for part in fields(Recovery):
        own = getattr(recovery, part.name)
        if isinstance(own, np.ndarray):
            mask = unjudged if own.ndim == unjudged.ndim else unjudged[..., None]
            columns[part.name] = np.where(mask, getattr(plain, part.name), own)
    row_of = {name: row for row, name in enumerate(names)}
    judged = ((row_of.get(str(fault.sensor)), fault) for fault in recovery.faults)
    faults = tuple(fault for row, fault in judged if row is None or not unjudged[row, fault.variable])
    return replace(recovery, **columns, faults=faults)


LEAST_CHANGE = 1e-9
"""The share of a reading below which a change is an error of rounding."""


def _is_network(model: PeriodModel) -> TypeGuard[NetworkModel]:
    """Return whether a model is the default one, which knows which channels move together."""
    return isinstance(model, NetworkModel)


def _smallest_change(value: FloatArray) -> FloatArray:
    """Return the smallest change between two readings of each channel, (channel, slot), that follow each other."""
    with np.errstate(invalid="ignore"):
        change = np.abs(np.diff(value, axis=1))
        moves = change > LEAST_CHANGE * np.abs(value[:, 1:])
    # Differences of decimal fractions are not exact: a size of one step is not below the step.
    smallest: FloatArray = (1 - 1e-6) * np.where(moves, change, np.inf).min(axis=1, initial=np.inf)
    return smallest


def _slot_rows(
    cleaner: Cleaner, times: NDArray[np.int64], sensors: NDArray[np.intp], listed: BoolArray, placed: Placed,
    cells: Verdicts,
) -> Rows:  # fmt: skip
    """Return the rows of the listed channels, one channel after the other."""
    count, slots = int(listed.sum()), times.size
    channel = np.flatnonzero(listed)
    sensor, variable = sensors[channel // len(cleaner.variables)], channel % len(cleaner.variables)

    def flat(array: NDArray[Any]) -> NDArray[Any]:
        array = array.reshape(-1, slots)
        return array.reshape(-1) if count == listed.size else array[channel].reshape(-1)

    verdicts: dict[str, Any] = {
        name: flat(getattr(cells, name)) for name in ("cleaned", "lower", "upper", "flag", "reason", "origin")
    }
    return Rows(
        sensors=cleaner.sensors,
        variables=cleaner.variables,
        sensor=np.repeat(sensor.astype(np.int32), slots),
        variable=np.repeat(variable.astype(np.int16), slots),
        time=np.tile(times, count),
        value=flat(placed.value),
        n=flat(placed.n),
        **verdicts,
    )


def _reading_rows(
    slots: Rows,
    readings: Readings,
    placed: Placed,
    listed: BoolArray,
    hidden: BoolArray | None,
    real: BoolArray | None,
) -> Rows:
    """Return a row per reading with the verdict of its slot, and a row per empty slot.

    The limits do not apply in cells that are noted as `hidden` or `real`.
    """
    beyond = placed.beyond
    for cells in (hidden, real):
        if cells is not None:
            beyond = beyond & ~cells.ravel()[placed.cell]
    per_channel = len(slots) // max(int(listed.sum()), 1)
    first = np.full(listed.size, -1, dtype=np.int64)
    first[listed] = np.arange(int(listed.sum())) * per_channel
    row = first[placed.cell // per_channel] + placed.cell % per_channel
    empty = np.ones(len(slots), dtype=bool)
    empty[row] = False
    source = np.concatenate([row, np.flatnonzero(empty)])
    order = np.lexsort((np.concatenate([readings.time, slots.time[empty]]), source))
    value = np.where(placed.no_number, np.nan, readings.value)
    # Fill values beside numbers of the same slot; a slot of fill values alone has its own verdict.
    code = placed.fill & (slots.reason[row] != REASONS.index("fill"))
    for cells in (hidden, real):
        if cells is not None:
            code = code & ~cells.ravel()[placed.cell]
    clash = placed.repeated & (value != slots.value[row]) & (slots.reason[row] == REASONS.index("duplicate"))
    marks = {Mark.CONTRADICTORY: clash, Mark.IMPLAUSIBLE: beyond, Mark.FILL: code, Mark.FILL_ONLY: placed.no_number}
    flag, reason = flag_cells(slots.flag[row], slots.reason[row], marks)
    trusted = (slots.origin[row] == OBSERVED) & ~placed.no_number & ~beyond & ~code & ~placed.repeated
    own = {
        "time": readings.time,
        "value": value,
        "n": ~placed.no_number,
        **{name: np.where(trusted, value, getattr(slots, name)[row]) for name in ("cleaned", "lower", "upper")},
        "flag": flag,
        "reason": reason,
    }
    rows = slots.taken(source)
    for name, column in own.items():
        getattr(rows, name)[: len(readings)] = column
    return rows.taken(order)


def cleaner_for(survey: Survey, variables: Sequence[str], options: Options) -> Cleaner:
    """Return a cleaner for the findings of a survey and the user's options."""
    options.refuse_unknown(variables)
    return Cleaner(
        survey.grid,
        variables,
        fill=survey.fill,
        valid={
            name: options.find_valid(name) if options.limits_given(name) else physical_limits(name)
            for name in variables
        },
        tolerance=options.tolerance,
        circular=survey.circular,
        unjudged={name: channels.sensors for name, channels in survey.unjudged.items()},
        maintenance=Maintenance.read(options.maintenance) if options.maintenance else None,
        gone_after=options.gone_after,
        interval=options.interval,
        seed=options.seed,
        references=options.reference,
        per_reading=options.per_reading,
        model=None if options.method == "network" else published_model(options, len(variables)),
    )


WARM_UP = 28
"""Periods that are learned twice. On simulated networks the error over them falls by a twelfth (PM2.5) to nine tenths
(benchmarks/first_weeks.py); a second pass without learning is not better."""


class PeriodSource(Protocol):
    """Readings that can be read period by period."""

    @property
    def periods(self) -> Sequence[int]:
        """The periods that have readings, in order."""
        ...

    def read(self, period: int) -> Readings:
        """Return the readings of one period."""
        ...


class InMemory:
    """A `PeriodSource` of readings in memory; within a period they keep their order."""

    def __init__(self, readings: Readings, grid: Grid) -> None:
        period = grid.find_period(readings.time)
        order = np.argsort(period, kind="stable")
        periods, starts = np.unique(period[order], return_index=True)
        self.periods: Sequence[int] = periods.tolist()
        self._parts = dict(zip(self.periods, np.split(order, starts[1:]), strict=True))
        self._readings = readings

    def read(self, period: int) -> Readings:
        """Return the readings of one period."""
        return self._readings.taken(self._parts[period])


def walk(source: PeriodSource, cleaner: Cleaner, *, one_pass: bool = False, passes: int = 1) -> Iterator[CleanedPeriod]:
    """Clean all periods that the cleaner has not seen yet.

    Before the first of them, another cleaner goes through the periods of `Cleaner.training_periods`, and all
    are cleaned with the model that it trained. With `one_pass` there is no second pass, as in a live feed.
    """
    if cleaner.period is None:
        for periods in cleaner.training_periods(source.periods, one_pass=one_pass, passes=passes):
            trainer = cleaner.fresh_copy()
            for period in periods:
                trainer.push(source.read(period))
            cleaner.second_pass(trainer)
    for period in source.periods:
        if cleaner.period is None or period > cleaner.period:
            yield from cleaner.push(source.read(period))
