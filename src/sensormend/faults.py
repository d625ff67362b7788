"""Known faults for known truth: what broken sensors do, put into sound readings.

The kinds and sizes are those of `docs/faults.md`: sizes are in units of the data's standard deviation over
11.5, so that on temperature they read as degrees and on anything else they are as large in proportion.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sensormend.recovery import BoolArray, FloatArray

__all__ = ["KINDS", "Case", "Degraded", "InjectedFault", "degrade"]

KINDS = ("stuck", "bias", "drift", "noise", "scale")
LONGEST_RUN = 7
UNIT = 11.5
"""The standard deviation of the temperatures on which the sizes of the faults were set, in deg C."""


@dataclass(frozen=True)
class Case:
    """How sound readings are spoilt: a kind of fault, its share, and what is missing."""

    fault: str = "mix"
    share: float = 0.05
    observed: float = 0.9
    outages: bool = False

    def __post_init__(self) -> None:
        if self.fault not in ("none", "uniform", "mix", *KINDS):
            raise ValueError(f"unknown fault {self.fault!r}; known: none, uniform, mix, {', '.join(KINDS)}")


@dataclass(frozen=True)
class InjectedFault:
    """One fault that was put in, from slot `start` to before slot `stop`, counted from the very first."""

    sensor: int
    kind: str
    start: int
    stop: int


@dataclass(frozen=True, eq=False)
class Degraded:
    """Spoilt readings (NaN is missing) with the truth beside them; axes (sensor, slot, day)."""

    readings: FloatArray
    truth: FloatArray
    faulty: BoolArray
    kind: np.ndarray[tuple[int, ...], np.dtype[np.str_]]


def degrade(truth: FloatArray, case: Case, seed: int) -> Degraded:
    """Spoil `truth` (sensor, slot, day) as `case` says; the same seed gives the same readings."""
    random = np.random.default_rng(seed)
    readings = np.array(truth, dtype=float)
    sensors, _, days = readings.shape
    kind = np.full((sensors, days), "", dtype="<U8")
    if case.fault == "uniform":
        _uniform(readings, kind, case.share, random)
    elif case.fault != "none":
        kinds = KINDS if case.fault == "mix" else (case.fault,)
        unit = float(np.nanstd(truth)) / UNIT
        overall = float(np.nanmean(truth))
        for sensor, first, last in _runs(sensors, days, case.share, random):
            chosen = str(random.choice(kinds))
            span = readings[sensor, :, first:last]
            readings[sensor, :, first:last] = _broken(span, chosen, unit, overall, random)
            kind[sensor, first:last] = chosen
    _hide(readings, case, random)
    return Degraded(readings, np.asarray(truth, dtype=float), kind != "", kind)


def _uniform(
    readings: FloatArray,
    kind: np.ndarray[tuple[int, ...], np.dtype[np.str_]],
    share: float,
    random: np.random.Generator,
) -> None:
    """Spoil as the paper does: every reading of the fiber is drawn anew, far and wide."""
    low, high = float(np.nanmin(readings)), float(np.nanmax(readings))
    chosen = random.random(kind.shape) < share
    drawn = random.uniform(low - 0.4 * abs(low), high + 0.4 * abs(high), readings.shape)
    np.copyto(readings, drawn, where=chosen[:, None, :])
    kind[chosen] = "uniform"


def _runs(sensors: int, days: int, share: float, random: np.random.Generator) -> list[tuple[int, int, int]]:
    """Draw runs of 1 to 7 days, disjoint, until `share` of the sensor-days are taken."""
    taken = np.zeros((sensors, days), dtype=bool)
    runs = []
    while taken.sum() < share * taken.size:
        sensor = int(random.integers(sensors))
        first = int(random.integers(days))
        last = min(days, first + int(random.integers(1, LONGEST_RUN + 1)))
        # One sound day on either side: two faults that touch would be a fault of no known kind.
        if taken[sensor, max(0, first - 1) : last + 1].any():
            continue
        taken[sensor, first:last] = True
        runs.append((sensor, first, last))
    return runs


def _broken(span: FloatArray, kind: str, unit: float, overall: float, random: np.random.Generator) -> FloatArray:
    """Return what a sensor with this fault reports in place of `span` (slot, day)."""
    line = span.T.reshape(-1)
    sign = random.choice((-1.0, 1.0))
    if kind == "stuck":
        broken = np.full_like(line, line[0])
    elif kind == "bias":
        broken = line + sign * random.uniform(5, 10) * unit
    elif kind == "drift":
        broken = line + sign * np.linspace(2, 15, line.size) * unit
    elif kind == "noise":
        broken = line + random.normal(0, 6 * unit, line.size)
    else:
        broken = overall + random.uniform(-1, 0.3) * (line - overall)
    return broken.reshape(span.T.shape).T


def _hide(readings: FloatArray, case: Case, random: np.random.Generator) -> None:
    sensors, _, days = readings.shape
    if case.outages:
        for sensor, first, last in _runs(sensors, days, 1 - case.observed, random):
            readings[sensor, :, first:last] = np.nan
    else:
        readings[random.random(readings.shape) >= case.observed] = np.nan
