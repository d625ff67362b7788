"""Why a reading has its flag, in one paragraph with its numbers and the sensors that contradict it."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np

from sensormend.errors import ConfigError, InputError
from sensormend.flags import MEANINGS, REASONS, Flag
from sensormend.grid import ANCHOR
from sensormend.io.folder import Archive
from sensormend.io.metadata import FaultInterval, iso, time_of
from sensormend.options import EVERY, duration
from sensormend.readings import DAY, HOUR, SECOND, Rows
from sensormend.sentences import how_long
from sensormend.witnesses import ENOUGH, Witness, witnesses

__all__ = ["BEFORE", "Moment", "explain", "moment_of"]

BEFORE = 30 * DAY
"""What counts as a sensor's usual behaviour: long enough for some weather, short enough for the season."""

FEW = 4
"""Fill values that are worth naming; the list of those that are known everywhere is longer."""


Moment = str | int | datetime | np.datetime64
"""A time as people have it: ISO text, microseconds since 1970, or a datetime; UTC where no zone is said."""


def explain(out: str | os.PathLike[str], sensor: str, time: Moment, variable: str | None = None) -> str:
    """Say in one paragraph why the reading of a sensor at a time has its flag.

    Parameters
    ----------
    out
        What `clean` or `watch` wrote.
    sensor
        Its name.
    time
        A time within the slot: ISO text, microseconds since 1970, or a datetime; UTC where no zone is said.
    variable
        Needed where the sensor measures several.
    """
    archive = Archive(out)
    case = _look_up(archive, archive.known(sensor), moment_of(time), variable)
    told = [
        *_opening(case),
        *_verdict(case),
        *_estimate(case),
        *_interval(case),
        *_testimony(case),
    ]
    return " ".join(told)


@dataclass(frozen=True, eq=False)
class _Row:
    """One row, in plain numbers."""

    time: int
    value: float
    n: int
    cleaned: float
    lower: float
    upper: float
    flag: Flag
    reason: str
    estimated: bool

    @classmethod
    def of(cls, rows: Rows, k: int) -> _Row:
        numbers = {name: float(getattr(rows, name)[k]) for name in ("value", "cleaned", "lower", "upper")}
        return cls(
            time=int(rows.time[k]),
            n=int(rows.n[k]),
            flag=Flag(int(rows.flag[k])),
            reason=REASONS[rows.reason[k]],
            estimated=int(rows.origin[k]) == 2,
            **numbers,
        )


@dataclass(frozen=True, eq=False)
class _Case:
    """All that is known of one reading: its row, those around it, and those of the time it is compared with."""

    sensor: str
    variable: str
    row: _Row
    place: int
    own: Rows
    fault: FaultInterval | None
    others: tuple[Witness, ...]
    courses: dict[str, Rows]
    usual: Rows
    run: dict[str, Any]

    @property
    def who(self) -> str:
        return f"{self.sensor} ({self.variable})" if self.variable else self.sensor

    def number(self, value: float) -> str:
        """Write a number with one digit more than is uncertain."""
        sizes = [self.row.upper - self.row.lower, *(witness.spread for witness in self.others)]
        sizes = [size for size in sizes if math.isfinite(size) and size > 0]
        size = min(sizes) if sizes else abs(value) / 100 or 1.0
        return f"{value:.{min(max(1 - math.floor(math.log10(size)), 0), 6)}f}"


def moment_of(time: Moment) -> int:
    """Return a time in microseconds since 1970, UTC."""
    if isinstance(time, int):
        return time
    return time_of(time if isinstance(time, str) else time.isoformat() if isinstance(time, datetime) else str(time))


def _when(time: int) -> str:
    text = iso(time).replace("T", " ")
    return text.removesuffix(":00") if text.count(":") == 2 else text


# Looking it up -------------------------------------------------------------------------------------------------------


def _look_up(archive: Archive, sensor: str, time: int, variable: str | None) -> _Case:
    variable = _variable(archive, sensor, variable)
    run = archive.run()
    time = _slot_of(time, run)
    # A day after, too: a spike is told by what came next.
    own = _in_slots(archive.rows(sensor, time - BEFORE - DAY, time + DAY, variable), run)
    earlier = np.flatnonzero(own.time <= time)
    if not earlier.size or time >= own.time[earlier[-1]] + _step(run, own):
        raise InputError(_nothing_there(archive, sensor, variable, time, own))
    place = int(earlier[-1])
    row = _Row.of(own, place)
    fault = next(
        (fault for fault in archive.faults()
         if fault.sensor == sensor and fault.variable == variable and fault.start <= row.time < fault.end),
        None,
    )  # fmt: skip
    # What is usual is asked of the time before the fault: a month into it, nothing good is left to compare.
    until = min(row.time, fault.start) if fault else row.time
    past = _in_slots(archive.rows(start=until - BEFORE, end=until, variable=variable), run)
    step = _step(run, own)
    then = _in_slots(archive.rows(start=row.time - step, end=row.time + step, variable=variable), run)
    then = then.taken(then.time == row.time)
    others = tuple(witnesses(past, then, sensor))
    usual = _only(past, sensor)
    names = [witness.sensor for witness in others]
    near = _in_slots(archive.rows(names, row.time - DAY, row.time + DAY, variable), run) if names else None
    courses = {name: _only(near, name) for name in names} if near is not None else {}
    return _Case(sensor, variable, row, place, own, fault, others, courses, usual, run)


def _variable(archive: Archive, sensor: str, variable: str | None) -> str:
    known = sorted({entry.variable for entry in archive.sensors() if entry.sensor == sensor})
    known = known or sorted(archive.rows(sensor).variables)
    if variable is None and len(known) > 1:
        raise ConfigError(f"{sensor} measures {', '.join(known)}: say which with --variable")
    if variable is not None and variable not in known:
        raise InputError(f"{sensor} has no variable {variable!r}; there is {', '.join(known) or 'none'}")
    return known[0] if variable is None else variable


def _step(run: dict[str, Any], own: Rows) -> int:
    """Return how long a slot is: as the run says, else as the rows are apart."""
    try:
        return duration(run["grid"]["step"])
    except (KeyError, TypeError, ConfigError):
        steps = np.diff(np.unique(own.time))
        return int(np.median(steps)) if steps.size else HOUR


def _in_slots(rows: Rows, run: dict[str, Any]) -> Rows:
    """Return rows with the times of their slots, also where every reading has a row with its own."""
    return replace(rows, time=_slot_of(rows.time, run)) if run.get("options", {}).get("per_reading") else rows


def _slot_of(time: Any, run: dict[str, Any]) -> Any:
    """Return the starts of the slots in which times lie, where the run says what a slot is."""
    try:
        step, early = duration(run["grid"]["step"]), round(run["grid"]["early_seconds"] * SECOND)
    except (KeyError, TypeError, ConfigError):
        return time
    return (time + early - ANCHOR) // step * step + ANCHOR


def _nothing_there(archive: Archive, sensor: str, variable: str, time: int, own: Rows) -> str:
    said = f"{sensor} has no row at {_when(time)}"
    if own.time.size and own.time[0] <= time <= own.time[-1]:
        near = own.time[np.searchsorted(own.time, time) - 1 :][:2]
        return f"{said}; the nearest are at {' and '.join(_when(int(each)) for each in near)}"
    spans = [(entry.first, entry.last) for entry in archive.sensors()
             if (entry.sensor, entry.variable) == (sensor, variable)]  # fmt: skip
    first, last = spans[0] if spans else (None, None)
    span = (first, last) if first is not None and last is not None else archive.span()
    return said if span is None else f"{said}; its readings go from {_when(span[0])} to {_when(span[1])}, UTC"


def _only(rows: Rows, sensor: str) -> Rows:
    return rows.taken(rows.sensor == rows.sensors.index(sensor)) if sensor in rows.sensors else rows.taken(slice(0))


# Saying it -----------------------------------------------------------------------------------------------------------


def _opening(case: _Case) -> list[str]:
    row = case.row
    flag = f"flag {int(row.flag)} ({MEANINGS[row.flag].replace('_', ' ')}{f', {row.reason}' if row.reason else ''})"
    if math.isnan(row.value):
        return [f"{case.who} has no value at {_when(row.time)} UTC: {flag}."]
    mean = f", the mean of {row.n} readings" if row.n > 1 else ""
    return [f"{case.who} read {case.number(row.value)} at {_when(row.time)} UTC{mean}: {flag}."]


def _verdict(case: _Case) -> list[str]:
    """Say what the reason means, with the numbers that belong to it."""
    row = case.row
    if row.flag == Flag.GOOD:
        return ["Nothing speaks against it, and it is trusted as it is."]
    if row.flag == Flag.MISSING:
        return [_missing(case)]
    if row.flag == Flag.NOT_EVALUATED:
        return [_not_evaluated(case)]
    told = {
        "duplicate": "Several readings with different values came for the same time; the last one was kept.",
        "late": "It came after its period was closed, and took no part in the judgement.",
        "alone": "Too few other sensors are related to it to judge it.",
        "offset": "It keeps a distance from what the others let expect.",
        "drifting": "It moves away from what the others let expect, further and further.",
    }
    special = {"stuck": _stuck, "spike": _spike, "noisy": _noisy, "gain": _gain, "implausible": _implausible}
    said = special[row.reason](case) if row.reason in special else told.get(row.reason, "")
    mild = "The whole period is in doubt, but not past the threshold, and so it is kept." if _is_mild(case) else ""
    return [text for text in (said, mild) if text]


def _is_mild(case: _Case) -> bool:
    return case.row.flag == Flag.SUSPECT and case.row.reason != "duplicate" and not case.row.estimated


def _missing(case: _Case) -> str:
    if case.row.reason == "silent":
        heard = np.flatnonzero((case.own.n > 0) & (case.own.time < case.row.time))
        last = f"; its last reading before is from {_when(int(case.own.time[heard[-1]]))}" if heard.size else ""
        return f"The sensor sent nothing in that whole period{last}."
    if case.row.reason == "fill":
        values = _per_variable(case.run.get("fill"), case.variable)
        known = f" ({', '.join(f'{value:g}' for value in values)})" if 0 < len(values) <= FEW else ""
        return f"What came was no number, or a value that stands for one that is missing{known}."
    return "No reading came for it, though others of the same period did."


def _per_variable(said: Any, variable: str) -> list[float]:
    """Return the numbers that run.json has for a variable, or for all of them."""
    found = said.get(variable, said.get(EVERY)) if isinstance(said, dict) else None
    return [float(value) for value in found] if isinstance(found, list) else []


def _not_evaluated(case: _Case) -> str:
    if case.row.reason == "alone":
        return "Too few other sensors are related to it to judge it, so it is kept as it is."
    heard = case.own.time[case.own.n > 0]
    young = heard.size and case.row.time - heard[0] < BEFORE - DAY
    since = f" (the first reading is from {_when(int(heard[0]))})" if young else ""
    return f"It was not judged: the model did not know the sensor well yet{since}, or people said to leave it alone."


def _stuck(case: _Case) -> str:
    heard = np.flatnonzero(case.own.n > 0)
    values, here = case.own.value[heard], int(np.searchsorted(heard, case.place))
    same = values == case.row.value
    before = int(np.argmin(np.append(same[:here][::-1], False)))
    after = int(np.argmin(np.append(same[here:], False)))
    run = heard[here - before : here + after]
    moved = _moved(case, int(case.own.time[run[0]]), int(case.own.time[run[-1]])) if run.size else ""
    if run.size < 3:
        return f"It hardly moves{_moved(case, case.row.time - DAY // 2, case.row.time + DAY // 2)}."
    return (
        f"It stands still: {run.size} readings in a row, from {_when(int(case.own.time[run[0]]))} to "
        f"{_when(int(case.own.time[run[-1]]))}, are {case.number(case.row.value)}{moved}."
    )


def _moved(case: _Case, start: int, end: int) -> str:
    """Say how far the others moved meanwhile."""
    told = []
    for name, rows in case.courses.items():
        values = rows.value[(rows.flag == Flag.GOOD) & (rows.time >= start) & (rows.time <= end)]
        if values.size > 1:
            told.append(f"{name} by {case.number(float(np.ptp(values)))}")
    return f"; meanwhile the others moved, {_joined(told)}" if told else ""


def _spike(case: _Case) -> str:
    good = (case.own.flag == Flag.GOOD) & (np.abs(case.own.time - case.row.time) <= DAY)
    before, after = np.flatnonzero(good[: case.place]), np.flatnonzero(good[case.place + 1 :]) + case.place + 1
    near = [("before it", before[-1:]), ("after it", after[:1])]
    told = [f"{case.number(float(case.own.value[k[0]]))} {when}" for when, k in near if k.size]
    return f"It alone stands out of its hours: the sensor read {_joined(told)}." if told else "It alone stands out."


def _noisy(case: _Case) -> str:
    day = (np.abs(case.own.time - case.row.time) <= DAY // 2) & (case.own.n > 0)
    jumps = np.abs(np.diff(case.own.value[day]))
    usual = np.abs(np.diff(case.usual.value[case.usual.flag == Flag.GOOD]))
    if not jumps.size or not usual.size:
        return "It scatters more than it should."
    return (
        f"It scatters: from one reading to the next it jumped by {case.number(float(jumps.mean()))} on average in the "
        f"day around, where {case.number(float(usual.mean()))} is usual for it."
    )


def _gain(case: _Case) -> str:
    day = (np.abs(case.own.time - case.row.time) <= DAY // 2) & (case.own.n > 0) & np.isfinite(case.own.cleaned)
    if day.sum() < 2:
        return "Its swings are not those that the others let expect."
    read, expected = (float(np.ptp(column[day])) for column in (case.own.value, case.own.cleaned))
    return f"In the day around it swung by {case.number(read)} where {case.number(expected)} was to be expected."


def _implausible(case: _Case) -> str:
    options = case.run.get("options")
    limits = _per_variable(options.get("valid") if isinstance(options, dict) else None, case.variable)
    if len(limits) == 2 and not limits[0] <= case.row.value <= limits[1]:
        return f"It is outside the limits given, {limits[0]:g} to {limits[1]:g}."
    return "It is so far from everything the network reads that it cannot be."


def _estimate(case: _Case) -> list[str]:
    row = case.row
    if math.isnan(row.cleaned):
        return ["There is no estimate: nothing is known of it yet."]
    if not row.estimated:
        return []
    interval = f" ({case.number(row.lower)} to {case.number(row.upper)})" if row.upper > row.lower else ""
    if math.isnan(row.value):
        return [f"The network's estimate in its place is {case.number(row.cleaned)}{interval}."]
    off = row.value - row.cleaned
    side = "above" if off > 0 else "below"
    return [
        f"That is {case.number(abs(off))} {side} the network's estimate, {case.number(row.cleaned)}{interval}, "
        "which stands in its place."
    ]


def _interval(case: _Case) -> list[str]:
    fault = case.fault
    if fault is None:
        return []
    score = f", score {fault.score:.1f} where 1 is the threshold" if fault.score > 0 else ""
    told = (
        f"It belongs to a fault ({fault.reason}{score}) of {how_long(fault.end - fault.start)}, "
        f"from {_when(fault.start)} to {_when(fault.end)}"
    )
    return [f"{told}: {fault.sentence}" if fault.sentence else f"{told}."]


def _testimony(case: _Case) -> list[str]:
    """Say what those most like it read, and whether that fits."""
    value = case.row.value
    if not case.others:
        known = int((case.usual.flag == Flag.GOOD).sum()) >= ENOUGH
        return ["No other sensor that is like it had a good reading then." if known
                else "There are too few good readings before it to say which sensors are like it."]  # fmt: skip
    told = []
    for witness in case.others:
        text = f"{witness.sensor} read {case.number(witness.value)}, which lets expect {case.number(witness.says)} here"
        if math.isfinite(value):
            text += f", {case.number(abs(value - witness.says))} off where {case.number(witness.spread)} is usual"
        told.append(f"{text} (correlation {witness.likeness:.2f})")
    several, span = len(case.others) > 1, "before the fault" if case.fault else "before"
    like = f"The sensor{'s' if several else ''} most like it over the 30 days {span}"
    return [f"{like}{_stand(case, several)}: {'; '.join(told)}."]


def _stand(case: _Case, several: bool) -> str:
    """Say which side the others are on."""
    value, many = case.row.value, len(case.others)
    if math.isnan(value):
        return ""
    against = sum(witness.contradicts(value) for witness in case.others)
    if against == many:
        return " contradict it" if several else " contradicts it"
    if against:
        return f" are divided, {against} of {many} against it"
    if case.row.flag in (Flag.FAIL, Flag.SUSPECT):
        # A sensor that stands still is right twice a day.
        return f" d{'o' if several else 'oes'} not contradict this one reading by itself"
    return " agree with it" if several else " agrees with it"


def _joined(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
