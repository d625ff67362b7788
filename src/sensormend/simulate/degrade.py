"""`degrade` puts known faults into sound readings, so that the result of a method can be scored.

The kinds and sizes are those of `docs/faults.md`: the unit of size is the data's standard deviation over 11.5, which
is about a degree for temperature. A fault that a method reports is a `sensormend.recovery.Fault`; one that was put in
is an `InjectedFault`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.recovery import BoolArray, FloatArray

__all__ = ["KINDS", "Case", "Degraded", "InjectedFault", "by_day", "degrade", "in_time"]

KINDS = ("stuck", "offset", "drift", "noise", "gain")
LONGEST_RUN = 7
"""The longest duration of a fault, in days."""
SHORTEST_FAULT = 3
"""The shortest duration of a fault of an `hourly` case, in slots."""
EARLIEST, LASTING_DAYS, SOUND_AFTER = 60, 90, 20
"""For a `lasting` case: the days before its fault begins, the days that it lasts, and the least days after it."""
UNIT = 11.5
"""The standard deviation of the temperatures on which the sizes of the faults were set, in deg C."""


@dataclass(frozen=True)
class Case:
    """A way to degrade sound readings.

    Attributes
    ----------
    fault
        `none`, `uniform`, one of `KINDS`, or `mix`: one of them for each fault.
    share
        The share of faulty sensor-days; where `hourly`, of wrong readings; where `lasting`, of sensors with a fault.
    observed, outages
        The share of the readings that are present; whether the others are missing for whole days.
    hourly
        Faults begin at any slot and last from 3 slots to 7 days, log-uniform, a day or more apart, instead of 1 to 7
        whole days.
    lasting
        Where above 0, every fault begins at a random slot after day 60, lasts 90 days, ends 20 days or more before the
        data does, and a sensor has one at most. The number is its size in units: of an `offset`, the growth in
        a day of a `drift`, which begins at 0.
    """

    fault: str = "mix"
    share: float = 0.05
    observed: float = 0.9
    outages: bool = False
    hourly: bool = False
    lasting: float = 0.0

    def __post_init__(self) -> None:
        if self.fault not in ("none", "uniform", "mix", *KINDS):
            raise ValueError(f"unknown fault {self.fault!r}; known: none, uniform, mix, {', '.join(KINDS)}")
        if self.hourly and self.fault in ("none", "uniform"):
            raise ValueError(f"fault {self.fault!r} cannot be hourly; mix, {', '.join(KINDS)} can")
        if self.lasting and (self.hourly or self.fault not in ("offset", "drift")):
            raise ValueError(f"a fault that is lasting is a bias or a drift, and not hourly; not {self.fault!r}")


@dataclass(frozen=True)
class InjectedFault:
    """One fault that was put in, from slot `start` to before slot `stop`, counted from the first slot of all."""

    sensor: int
    kind: str
    start: int
    stop: int

    @property
    def length(self) -> int:
        """The duration in slots."""
        return self.stop - self.start


@dataclass(frozen=True, eq=False)
class Degraded:
    """Degraded readings (NaN is missing) and the truth; axes (sensor, slot, day).

    Attributes
    ----------
    readings, truth
        The degraded readings, and the sound ones.
    wrong
        The slots inside a fault, with a reading or not.
    faulty, kind
        Of each (sensor, day): whether a third or more of its slots are wrong, and the kind of the fault with most of
        them, empty if there is none.
    faults
        The faults by sensor and start, where they are listed.
    """

    readings: FloatArray
    truth: FloatArray
    wrong: BoolArray
    faulty: BoolArray
    kind: NDArray[np.str_]
    faults: tuple[InjectedFault, ...]

    @classmethod
    def by_day(cls, readings: FloatArray, truth: FloatArray, kind: NDArray[np.str_]) -> Degraded:
        """Return readings that are wrong for whole days, those that have a kind; the faults are not listed."""
        faulty = kind != ""
        wrong = np.repeat(faulty[:, None], readings.shape[1], axis=1)
        return cls(readings, truth, wrong, faulty, kind, ())

    def of_sensors(self, rows: NDArray[np.intp]) -> Degraded:
        """Return the part of some sensors, given as rows of axis 0, renumbered."""
        faults = tuple(
            replace(fault, sensor=number)
            for number, row in enumerate(rows)
            for fault in self.faults
            if fault.sensor == row
        )
        readings, truth, wrong = self.readings[rows], self.truth[rows], self.wrong[rows]
        return Degraded(readings, truth, wrong, self.faulty[rows], self.kind[rows], faults)


def degrade(truth: FloatArray, case: Case, seed: int) -> Degraded:
    """Degrade `truth` (sensor, slot, day) according to `case`; the same seed gives the same readings."""
    random = np.random.default_rng(seed)
    truth = np.asarray(truth, dtype=float)
    sensors, slots, days = truth.shape
    if case.fault == "uniform":
        readings, faults = _uniform(truth, case.share, random)
    else:
        spans: list[tuple[int, int, int]] = []
        if case.lasting:
            spans = _lasting_spans(sensors, days, slots, case.share, random)
        elif case.hourly:
            spans = _hourly_spans(sensors, days, slots, case.share, random)
        elif case.fault != "none":
            runs = _runs(sensors, days, case.share, random)
            spans = [(sensor, first * slots, last * slots) for sensor, first, last in runs]
        readings, faults = _faults_in(truth, spans, case, random)
    _hide(readings, case, random)
    faults = sorted(faults, key=lambda fault: (fault.sensor, fault.start))
    kinds = (*KINDS, "uniform")
    series = np.zeros((sensors, days * slots), dtype=np.int8)
    for fault in faults:
        series[fault.sensor, fault.start : fault.stop] = 1 + kinds.index(fault.kind)
    code = by_day(series, truth.shape)
    counts = np.stack([(code == number).sum(axis=1) for number in range(1, 1 + len(kinds))])
    kind = np.where(counts.any(axis=0), np.array(kinds)[counts.argmax(axis=0)], "")
    return Degraded(readings, truth, code > 0, 3 * counts.sum(axis=0) >= slots, kind, tuple(faults))


def in_time(cells: NDArray[Any]) -> NDArray[Any]:
    """Return (sensor, slot, day) cells as series, (sensor, slot of all days)."""
    return np.moveaxis(cells, 1, 2).reshape(cells.shape[0], -1)


def by_day(series: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Return series, (sensor, slot of all days), in the shape (sensor, slot, day)."""
    sensors, slots, days = shape
    return np.ascontiguousarray(np.moveaxis(series.reshape(sensors, days, slots), 1, 2))


def _uniform(truth: FloatArray, share: float, random: np.random.Generator) -> tuple[FloatArray, list[InjectedFault]]:
    """Degrade as the paper does: every reading of a faulty fiber is drawn from a wide uniform distribution."""
    sensors, slots, days = truth.shape
    low, high = float(np.nanmin(truth)), float(np.nanmax(truth))
    chosen = random.random((sensors, days)) < share
    drawn = random.uniform(low - 0.4 * abs(low), high + 0.4 * abs(high), truth.shape)
    faults = [
        InjectedFault(int(sensor), "uniform", int(day) * slots, int(day + 1) * slots)
        for sensor, day in np.argwhere(chosen)
    ]
    return np.where(chosen[:, None, :], drawn, truth), faults


def _faults_in(
    truth: FloatArray, spans: list[tuple[int, int, int]], case: Case, random: np.random.Generator
) -> tuple[FloatArray, list[InjectedFault]]:
    """Put a fault into each span (sensor, start, stop) of slots."""
    kinds, series = KINDS if case.fault == "mix" else (case.fault,), in_time(truth).copy()
    unit, overall, faults = float(np.nanstd(truth)) / UNIT, float(np.nanmean(truth)), []
    for sensor, start, stop in spans:
        kind = str(random.choice(kinds))
        if case.lasting:
            growth = np.arange(stop - start) / truth.shape[1] if kind == "drift" else 1.0
            series[sensor, start:stop] += random.choice((-1.0, 1.0)) * case.lasting * unit * growth
        else:
            series[sensor, start:stop] = _broken(series[sensor, start:stop], kind, unit, overall, random)
        faults.append(InjectedFault(sensor, kind, start, stop))
    return by_day(series, truth.shape), faults


def _runs(sensors: int, days: int, share: float, random: np.random.Generator) -> list[tuple[int, int, int]]:
    """Draw disjoint runs of 1 to 7 days until they cover `share` of the sensor-days."""
    taken = np.zeros((sensors, days), dtype=bool)
    runs = []
    while taken.sum() < share * taken.size:
        sensor = int(random.integers(sensors))
        first = int(random.integers(days))
        last = min(days, first + int(random.integers(1, LONGEST_RUN + 1)))
        # One sound day on either side: two adjacent faults would be a fault of no known kind.
        if taken[sensor, max(0, first - 1) : last + 1].any():
            continue
        taken[sensor, first:last] = True
        runs.append((sensor, first, last))
    return runs


def _hourly_spans(
    sensors: int, days: int, slots: int, share: float, random: np.random.Generator
) -> list[tuple[int, int, int]]:
    """Draw spans of 3 slots to 7 days, log-uniform, at any slot, until `share` of the readings are in one."""
    taken = np.zeros((sensors, days * slots), dtype=bool)
    shortest, longest = np.log(SHORTEST_FAULT), np.log(LONGEST_RUN * slots)
    spans = []
    while taken.sum() < share * taken.size:
        sensor, length = int(random.integers(sensors)), round(float(np.exp(random.uniform(shortest, longest))))
        if length > days * slots:
            continue
        start = int(random.integers(days * slots - length + 1))
        stop = start + length
        if taken[sensor, max(0, start - slots) : stop + slots].any():
            continue
        taken[sensor, start:stop] = True
        spans.append((sensor, start, stop))
    return spans


def _lasting_spans(
    sensors: int, days: int, slots: int, share: float, random: np.random.Generator
) -> list[tuple[int, int, int]]:
    """Draw one span of 90 days at any slot for `share` of the sensors, and for one of them at least."""
    latest = days - SOUND_AFTER - LASTING_DAYS
    if latest < EARLIEST:
        needed = EARLIEST + LASTING_DAYS + SOUND_AFTER
        raise ValueError(f"faults that last {LASTING_DAYS} days need {needed} days of data, not {days}")
    chosen = random.choice(sensors, max(1, round(share * sensors)), replace=False)
    starts = random.integers(EARLIEST * slots, latest * slots, chosen.size, endpoint=True)
    return [
        (int(sensor), int(start), int(start) + LASTING_DAYS * slots)
        for sensor, start in zip(chosen, starts, strict=True)
    ]


def _broken(series: FloatArray, kind: str, unit: float, overall: float, random: np.random.Generator) -> FloatArray:
    """Return what a sensor with this fault reports in place of `series`, one slot after the other."""
    sign = random.choice((-1.0, 1.0))
    if kind == "stuck":
        return np.full_like(series, series[0])
    if kind == "offset":
        return np.asarray(series + sign * random.uniform(5, 10) * unit)
    if kind == "drift":
        return np.asarray(series + sign * np.linspace(2, 15, series.size) * unit)
    if kind == "noise":
        return np.asarray(series + random.normal(0, 6 * unit, series.size))
    return np.asarray(overall + random.uniform(-1, 0.3) * (series - overall))


def _hide(readings: FloatArray, case: Case, random: np.random.Generator) -> None:
    sensors, _, days = readings.shape
    if case.outages:
        for sensor, first, last in _runs(sensors, days, 1 - case.observed, random):
            readings[sensor, :, first:last] = np.nan
    else:
        readings[random.random(readings.shape) >= case.observed] = np.nan
