"""`reading_context` collects the rows around one reading, its fault, and the sensors correlated with it.

`correlated_sensors` finds these.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.errors import ConfigError, MissingError
from sensormend.io.folder import Archive
from sensormend.pipeline.faults import FaultInterval
from sensormend.pipeline.grid import Grid
from sensormend.pipeline.sentences import who
from sensormend.pipeline.times import iso, parse_time
from sensormend.readings import CORRECTED, DAY, ESTIMATED, REASONS, Flag, Rows
from sensormend.recovery import FloatArray

__all__ = ["ENOUGH", "USUAL_SPAN", "CorrelatedSensor", "ReadingContext", "ReadingRow", "TimeLike", "correlated_sensors",
           "microseconds", "reading_context", "time_text"]  # fmt: skip

USUAL_SPAN = 30 * DAY
"""Span that defines a sensor's usual behaviour: long enough for changes of weather, short enough for one season."""

ENOUGH = 24
"""The minimum number of common good readings for a correlation: a day of hours."""

ALIKE = 0.5
"""Correlation below which a sensor is not used."""

MAD_TO_DEVIATION = 1.4826
"""Factor from the median absolute deviation to the standard deviation of normal noise."""

TimeLike = str | int | datetime | np.datetime64
"""A time: ISO text, microseconds since 1970, or a datetime; UTC if no zone is given."""


@dataclass(frozen=True, eq=False)
class ReadingRow:
    """One row as Python numbers.

    Its cleaned value is an estimate where `estimated`, and the reading with its fault taken out where `corrected`.
    """

    time: int
    value: float
    n: int
    cleaned: float
    lower: float
    upper: float
    flag: Flag
    reason: str
    estimated: bool
    corrected: bool

    @classmethod
    def of(cls, rows: Rows, index: int) -> ReadingRow:
        """Return one of the rows."""
        numbers = {name: float(getattr(rows, name)[index]) for name in ("value", "cleaned", "lower", "upper")}
        return cls(
            time=int(rows.time[index]),
            n=int(rows.n[index]),
            flag=Flag(int(rows.flag[index])),
            reason=REASONS[rows.reason[index]],
            estimated=int(rows.origin[index]) == ESTIMATED,
            corrected=int(rows.origin[index]) == CORRECTED,
            **numbers,
        )


@dataclass(frozen=True)
class CorrelatedSensor:
    """A correlated sensor and what it predicts for a reading.

    Attributes
    ----------
    sensor
        Its name.
    likeness
        Correlation of the two series, each without its daily cycle.
    value
        Its own reading.
    expected
        The predicted reading: its own value plus the usual difference.
    spread
        Robust standard deviation of that difference.
    """

    sensor: str
    likeness: float
    value: float
    expected: float
    spread: float

    def contradicts(self, value: float) -> bool:
        """Return whether a reading differs from the prediction by more than three standard deviations."""
        return abs(value - self.expected) > 3 * self.spread


@dataclass(frozen=True, eq=False)
class ReadingContext:
    """One reading with its row, the rows around it, and the rows that it is compared with.

    Attributes
    ----------
    sensor, variable
        The channel of the reading.
    row
        The row of the reading.
    own, place
        Rows of the sensor from a month before to a day after, and the index of the reading among them.
    fault
        The fault that the reading belongs to; None without one.
    correlated, courses
        The most correlated sensors, and their rows from a day before to a day after, by name.
    usual
        Rows of the sensor in the month before, or before its fault.
    run
        The content of run.json.
    """

    sensor: str
    variable: str
    row: ReadingRow
    place: int
    own: Rows
    fault: FaultInterval | None
    correlated: tuple[CorrelatedSensor, ...]
    courses: dict[str, Rows]
    usual: Rows
    run: dict[str, Any]

    @property
    def who(self) -> str:
        """Return the name of the sensor, with its variable where that has a name."""
        return who(self.sensor, self.variable)

    def number(self, value: float) -> str:
        """Format a number with one digit more than is uncertain."""
        sizes = [self.row.upper - self.row.lower, *(other.spread for other in self.correlated)]
        sizes = [size for size in sizes if math.isfinite(size) and size > 0]
        size = min(sizes) if sizes else abs(value) / 100 or 1.0
        text = f"{value:.{min(max(1 - math.floor(math.log10(size)), 0), 6)}f}"
        return text if float(text) else text.removeprefix("-")

    def reading(self, value: float) -> str:
        """Format a reading, as it came where that has fewer digits."""
        text, short = self.number(value), f"{value:.12g}"
        return short if len(short) < len(text) and "e" not in short else text


def microseconds(time: TimeLike) -> int:
    """Return a time in microseconds since 1970, UTC."""
    if isinstance(time, int):
        return time
    return parse_time(time if isinstance(time, str) else time.isoformat() if isinstance(time, datetime) else str(time))


def time_text(time: int) -> str:
    """Format a time, without seconds if it is a whole minute."""
    text = iso(time).replace("T", " ")
    return text.removesuffix(":00") if text.count(":") == 2 else text


def reading_context(
    archive: Archive, sensor: str, time: int, variable: str | None, among: Sequence[str] | None = None
) -> ReadingContext:
    """Return the context of the reading of a sensor in the slot that contains a time.

    It is compared with the sensors `among`, by default with all. Raises `MissingError` or `ConfigError` where there is
    no such sensor, variable or row; the message names what there is.
    """
    variable = _variable(archive, sensor, variable)
    run = archive.run()
    time = _find_slots(time, run)
    # One day after it is included: a spike is recognised by the readings that follow.
    own = _in_slots(archive.rows(sensor, time - USUAL_SPAN - DAY, time + DAY, variable), run)
    earlier = np.flatnonzero(own.time <= time)
    if not earlier.size or time >= own.time[earlier[-1]] + _step(run, own):
        raise MissingError(_no_row_message(archive, sensor, variable, time, own))
    place = int(earlier[-1])
    row = ReadingRow.of(own, place)
    fault = _find_fault(archive.faults(), sensor, variable, row)
    # Usual behaviour is taken from before the fault: a month into it, no good reading is left to compare with.
    until = min(row.time, fault.start) if fault else row.time
    past = _in_slots(archive.rows(among, until - USUAL_SPAN, until, variable), run)
    step = _step(run, own)
    present = _in_slots(archive.rows(among, row.time - step, row.time + step, variable), run)
    present = present.taken(present.time == row.time)
    correlated = tuple(correlated_sensors(past, present, sensor))
    usual = _only(past, sensor)
    names = [other.sensor for other in correlated]
    courses = {}
    if names:
        near = _in_slots(archive.rows(names, row.time - DAY, row.time + DAY, variable), run)
        courses = {name: _only(near, name) for name in names}
    return ReadingContext(sensor, variable, row, place, own, fault, correlated, courses, usual, run)


def _find_fault(faults: Sequence[FaultInterval], sensor: str, variable: str, row: ReadingRow) -> FaultInterval | None:
    """Return the fault that a row belongs to; of several at its time the one with its reason, else the latest."""
    covering = [
        fault
        for fault in faults
        if fault.sensor == sensor and fault.variable in ("", variable) and fault.start <= row.time < fault.end
    ]
    return max(covering, key=lambda fault: (fault.reason == row.reason, fault.start), default=None)


def _variable(archive: Archive, sensor: str, variable: str | None) -> str:
    variables = sorted({entry.variable for entry in archive.sensors() if entry.sensor == sensor})
    variables = variables or sorted(archive.rows(sensor).variables)
    if variable is None and len(variables) > 1:
        raise ConfigError(f"{sensor} measures {', '.join(variables)}: say which with --variable")
    if variable is not None and variable not in variables:
        raise ConfigError(f"{sensor} has no variable {variable!r}; there is {', '.join(variables) or 'none'}")
    return variables[0] if variable is None else variable


def _step(run: dict[str, Any], own: Rows) -> int:
    """Return the length of a slot: from run.json, else from the distance of the rows."""
    grid = Grid.of_run(run)
    return own.usual_step if grid is None else grid.step


def _in_slots(rows: Rows, run: dict[str, Any]) -> Rows:
    """Return rows with the start of their slot as time, also where there is one row per reading."""
    options = run.get("options")
    per_reading = isinstance(options, dict) and options.get("per_reading")
    return replace(rows, time=_find_slots(rows.time, run)) if per_reading else rows


def _find_slots(time: Any, run: dict[str, Any]) -> Any:
    """Return the starts of the slots that contain times; the times themselves where run.json has no slot length."""
    grid = Grid.of_run(run)
    return time if grid is None else grid.slot_start(time)


def _no_row_message(archive: Archive, sensor: str, variable: str, time: int, own: Rows) -> str:
    missing = f"{sensor} has no row at {time_text(time)}"
    if own.time.size and own.time[0] <= time <= own.time[-1]:
        nearest = own.time[np.searchsorted(own.time, time) - 1 :][:2]
        return f"{missing}; the nearest are at {' and '.join(map(time_text, nearest.tolist()))}"
    span = archive.span()
    for entry in archive.sensors():
        if (entry.sensor, entry.variable) == (sensor, variable) and entry.first is not None and entry.last is not None:
            span = entry.first, entry.last
    if span is None:
        return missing
    return f"{missing}; its readings go from {time_text(span[0])} to {time_text(span[1])}"


def _only(rows: Rows, sensor: str) -> Rows:
    return rows.taken(rows.sensor == rows.sensors.index(sensor)) if sensor in rows.sensors else rows.taken(slice(0))


def correlated_sensors(past: Rows, present: Rows, sensor: str, most: int = 3) -> list[CorrelatedSensor]:
    """Return the sensors most correlated with one, the best first, that have a good reading at the time in question.

    Correlations are computed over `past`, rows of one variable of all sensors; `present` are rows of the time in
    question.
    """
    if sensor not in past.sensors:
        return []
    courses, slots = _courses(past)
    row = past.sensors.index(sensor)
    likeness = _likeness(_without_cycle(courses, slots), row)
    good = present.taken((present.flag == Flag.GOOD) & np.isfinite(present.value))
    values = {present.sensors[code]: float(value) for code, value in zip(good.sensor, good.value, strict=True)}
    correlated: list[CorrelatedSensor] = []
    for candidate in np.argsort(-likeness, kind="stable"):
        name = past.sensors[candidate]
        if not likeness[candidate] > ALIKE or len(correlated) == most:
            break
        if name == sensor or name not in values:
            continue
        difference = courses[row] - courses[candidate]
        difference = difference[np.isfinite(difference)]
        usual = float(np.median(difference))
        spread = MAD_TO_DEVIATION * float(np.median(np.abs(difference - usual)))
        correlated.append(
            CorrelatedSensor(name, float(likeness[candidate]), values[name], values[name] + usual, spread)
        )
    return correlated


def _courses(rows: Rows) -> tuple[FloatArray, NDArray[np.intp]]:
    """Return the good readings as (sensor, time), NaN where there is none, and the time of day of each column."""
    times, column = np.unique(rows.time, return_inverse=True)
    courses = np.full((len(rows.sensors), times.size), np.nan)
    good = rows.flag == Flag.GOOD
    courses[rows.sensor[good], column[good]] = rows.value[good]
    return courses, np.unique(times % DAY, return_inverse=True)[1]


def _without_cycle(courses: FloatArray, slots: NDArray[np.intp]) -> FloatArray:
    """Subtract the mean daily cycle of each sensor: at noon all are warm, related or not."""
    observed = np.isfinite(courses)
    order = np.argsort(slots, kind="stable")
    edges = np.flatnonzero(np.diff(slots[order], prepend=-1))
    total, count = (
        np.add.reduceat(array[:, order], edges, axis=1)
        for array in (np.where(observed, courses, 0.0), observed.astype(float))
    )
    # A time of day with few readings has no reliable mean; the mean of the sensor is used.
    overall = total.sum(axis=1, keepdims=True) / np.maximum(count.sum(axis=1, keepdims=True), 1)
    usual = np.where(count >= 5, total / np.maximum(count, 1), overall)
    return courses - usual[:, slots]


def _likeness(courses: FloatArray, row: int) -> FloatArray:
    """Return the correlation of the series in a row with all others over common times; -1 where these are few."""
    common = np.isfinite(courses) & np.isfinite(courses[row])
    count = common.sum(axis=1)
    size = np.maximum(count, 1)[:, None]

    def centred(values: FloatArray) -> FloatArray:
        values = np.where(common, values, 0.0)
        return np.where(common, values - values.sum(axis=1, keepdims=True) / size, 0.0)

    own, all_centred = centred(courses[row]), centred(courses)
    scale = np.sqrt((own**2).sum(axis=1) * (all_centred**2).sum(axis=1))
    covariance = (own * all_centred).sum(axis=1)
    return np.where((count >= ENOUGH) & (scale > 0), covariance / np.where(scale > 0, scale, 1.0), -1.0)
