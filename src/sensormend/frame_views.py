"""What there is to see in rows: one sensor's course, everybody's health, a moment beside its closest relatives."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.cleaning import Cleaned
from sensormend.errors import ConfigError, InputError
from sensormend.evidence import BEFORE, Moment, moment_of
from sensormend.flags import MEANINGS, REASONS, Flag
from sensormend.frames import is_frame, rows_of
from sensormend.health import COUNTS, PLAIN_REASONS, SPIKE, counted_as, shade_words, states
from sensormend.io.folder import Archive
from sensormend.io.metadata import iso
from sensormend.plots import Course
from sensormend.readings import DAY, HOUR, Rows
from sensormend.recovery import FloatArray
from sensormend.sentences import counted
from sensormend.witnesses import Witness, witnesses

__all__ = [
    "Relative",
    "Surroundings",
    "balance",
    "between",
    "channel",
    "clock",
    "course_of",
    "described_by",
    "states_of",
    "surroundings",
    "table",
]

MOST_CELLS = 750
"""Columns of a health matrix: more than pixels can show become several days each."""

USUAL_VIEW, LONGEST_VIEW = 4 * DAY, 14 * DAY
"""Before and after a moment: four days show a course, more than a month of hours shows none."""


def table(source: Any) -> Rows:
    """Return the rows of whatever a person has."""
    if isinstance(source, Rows):
        rows = source
    elif isinstance(source, str | Path):
        rows = Archive(source).rows()
    else:
        source = source.rows if isinstance(source, Cleaned) else source
        if not is_frame(source):
            raise InputError(f"pictures are drawn of a frame that clean() returned, not of {type(source).__name__}")
        rows = rows_of(source)
    if not len(rows):
        raise InputError("there are no rows to draw")
    return rows


def described_by(source: Any) -> Mapping[str, Any]:
    """Return what is known of units and names: an OUT has them in run.json, a pandas frame in its `attrs`."""
    if isinstance(source, str | Path):
        return Archive(source).run()
    attrs = getattr(source.rows if isinstance(source, Cleaned) else source, "attrs", None)
    return attrs if isinstance(attrs, Mapping) else {}


def channel(source: Any, sensor: str, variable: str | None) -> tuple[Rows, str, str]:
    """Return the rows of one variable of one sensor, in order of time, and the two names."""
    if isinstance(source, str | Path):
        archive = Archive(source)
        source = archive.rows(archive.known(str(sensor)))
    rows, name = table(source), str(sensor)
    if name not in rows.sensors:
        like = difflib.get_close_matches(name, rows.sensors, n=3, cutoff=0.5) or rows.sensors[:5]
        raise InputError(f"there is no sensor {name!r}; there are for example {', '.join(like)}")
    mine = rows.taken(rows.sensor == rows.sensors.index(name))
    measured = [rows.variables[code] for code in np.unique(mine.variable)]
    if variable is None and len(measured) > 1:
        raise ConfigError(f"{name} measures {', '.join(measured)}: say which with variable=")
    if variable is not None and variable not in measured:
        raise InputError(f"{name} has no variable {variable!r}; there is {', '.join(measured)}")
    what = measured[0] if variable is None else variable
    mine = mine.taken(mine.variable == rows.variables.index(what))
    return mine.taken(np.argsort(mine.time, kind="stable")), name, what


def between(own: Rows, start: Moment | None, end: Moment | None, name: str) -> Rows:
    """Return the rows of some time, or of all of it."""
    first = own.time[0] if start is None else moment_of(start)
    stop = own.time[-1] + 1 if end is None else moment_of(end)
    shown = own.taken((own.time >= first) & (own.time < stop))
    if not len(shown):
        raise InputError(f"{name} has no rows in that time; they go from {_span(own)}")
    return shown


def _span(rows: Rows) -> str:
    return f"{_when(int(rows.time[0]))} to {_when(int(rows.time[-1]))}, UTC"


def _when(time: int) -> str:
    return iso(time).replace("T", " ")[:16]


def clock(time: Any) -> Any:
    """Return times as matplotlib takes them."""
    return np.asarray(time, dtype="datetime64[us]")


def _step(own: Rows) -> int:
    apart = np.diff(own.time)
    apart = apart[apart > 0]
    return int(np.median(apart)) if apart.size else HOUR


def course_of(own: Rows) -> Course:
    """Return rows of one channel as a course, with a hole where rows are missing."""
    step = _step(own)
    own = own.with_holes(step)
    return Course(
        clock=clock(own.time),
        step=np.timedelta64(step, "us"),
        raw=own.value,
        cleaned=own.cleaned,
        lower=own.lower,
        upper=own.upper,
        words=shade_words(own),
        spikes=(own.flag == Flag.FAIL) & (own.reason == SPIKE),
    )


def states_of(rows: Rows) -> tuple[tuple[str, ...], NDArray[np.int8], NDArray[np.datetime64], int]:
    """Return the sensors, their health (sensor, cell), the beginnings of the cells, and how many days these are."""
    day = rows.time // DAY
    first, last = int(day.min()), int(day.max())
    usual = _step(rows.taken(rows.sensor == rows.sensor[0]))
    days = max(-(-usual // DAY), -(-(last - first + 1) // MOST_CELLS), 1)
    codes, sensor = np.unique(rows.sensor, return_inverse=True)
    cells = (last - first) // days + 1
    shape = (codes.size, cells)
    cell = sensor * cells + (day - first) // days

    def count(chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
        found: NDArray[np.int64] = np.bincount(cell[chosen], minlength=codes.size * cells).reshape(shape)
        return found

    seen = counted_as(rows)
    state = states({name: count(seen[name]) for name in COUNTS})
    begins = (first + days * np.arange(cells)).astype("datetime64[D]").astype("datetime64[m]")
    return tuple(rows.sensors[code] for code in codes), state, begins[None, :], days


def balance(rows: Rows) -> str:
    """Say in one line how the network is."""
    total, missing = len(rows), int((rows.flag == Flag.MISSING).sum())
    wrong = int((rows.flag == Flag.FAIL).sum())
    sensors = np.unique(rows.sensor).size
    days = (int(rows.time.max()) - int(rows.time.min())) // DAY + 1
    return (
        f"{counted(sensors, 'sensor')}, {counted(days, 'day')}: "
        f"{wrong / max(total - missing, 1):.1%} of the readings wrong, {missing / total:.1%} missing"
    )


@dataclass(frozen=True, eq=False)
class Relative:
    """A sensor that is like another, around a moment.

    Attributes
    ----------
    sensor
        Its name.
    usual, spread
        What has to be added to its readings to have the other's, and how far off that usually is.
    clock, value
        Its good readings at the times of the other, NaN where there is none.
    """

    sensor: str
    usual: float
    spread: float
    clock: Any
    value: FloatArray


@dataclass(frozen=True, eq=False)
class Surroundings:
    """A moment of a sensor, with what is around it.

    Attributes
    ----------
    said
        Who, when, and with which flag.
    variable
        What is measured.
    moment
        When.
    near
        The rows of the sensor that are in view.
    relatives
        Those most like it.
    """

    said: str
    variable: str
    moment: int
    near: Rows
    relatives: tuple[Relative, ...]


def surroundings(source: Any, sensor: str, time: Moment, variable: str | None, days: float | None) -> Surroundings:
    """Return what is around a moment of a sensor: some days before and after, or all of its fault."""
    rows = table(source)
    own, name, what = channel(rows, sensor, variable)
    moment = moment_of(time)
    place = int(np.searchsorted(own.time, moment, side="right")) - 1
    if place < 0 or moment > own.time[place] + max(_step(own), HOUR):
        raise InputError(f"{name} has no row at {_when(moment)}; its rows go from {_span(own)}")
    moment = int(own.time[place])
    everybody = rows.taken(rows.variable == own.variable[0])
    # Rows per reading have times of their own; they are compared by the slot that they are nearest to.
    step = _step(own)
    slot = moment + np.round((everybody.time - moment) / step).astype(np.int64) * step
    everybody = replace(everybody, time=slot)
    own = replace(own, time=moment + np.round((own.time - moment) / step).astype(np.int64) * step)
    fault = _fault(own, place)
    near = own.taken(_in_view(own, moment, fault, days))
    relatives = tuple(
        Relative(found.sensor, found.says - found.value, found.spread, *_good(everybody, found.sensor, near))
        for found in _relatives(everybody, moment, fault[0], name)
    )
    return Surroundings(_said(own, place, name), what, moment, near, relatives)


def _fault(own: Rows, place: int) -> tuple[int, int]:
    """Return from when to when a row's fault lasts: the time since the last good reading, and until the next."""
    moment = int(own.time[place])
    if own.flag[place] in (Flag.GOOD, Flag.NOT_EVALUATED):
        return moment, moment
    sound = np.flatnonzero(np.isin(own.flag, (Flag.GOOD, Flag.NOT_EVALUATED)))
    before, after = sound[sound < place], sound[sound > place]
    first = before[-1] + 1 if before.size else 0
    last = after[0] - 1 if after.size else len(own) - 1
    return int(own.time[first]), int(own.time[last])


def _in_view(own: Rows, moment: int, fault: tuple[int, int], days: float | None) -> NDArray[np.bool_]:
    if days is not None:
        begin, end = moment - round(days * DAY), moment + round(days * DAY)
    else:
        begin = max(min(moment - USUAL_VIEW, fault[0] - 2 * DAY), moment - LONGEST_VIEW)
        end = min(max(moment + USUAL_VIEW, fault[1] + DAY), moment + LONGEST_VIEW)
    return np.asarray((own.time >= begin) & (own.time <= end))


def _relatives(everybody: Rows, moment: int, until: int, name: str) -> list[Witness]:
    """Return those most like a sensor before its fault began; where that is too short a time, in all that there is."""
    then = everybody.taken(everybody.time == moment)
    past = everybody.taken((everybody.time >= until - BEFORE) & (everybody.time < until))
    return witnesses(past, then, name) or witnesses(everybody, then, name)


def _good(everybody: Rows, sensor: str, near: Rows) -> tuple[Any, FloatArray]:
    """Return the good readings of a relative at the times of some rows, NaN at the others."""
    mine = everybody.taken((everybody.sensor == everybody.sensors.index(sensor)) & (everybody.flag == Flag.GOOD))
    times, value = np.unique(near.time), np.full(np.unique(near.time).size, np.nan)
    at = np.searchsorted(times, mine.time)
    here = (at < times.size) & (times[np.minimum(at, times.size - 1)] == mine.time)
    value[at[here]] = mine.value[here]
    return clock(times), value


def _said(own: Rows, place: int, name: str) -> str:
    flag = Flag(int(own.flag[place]))
    reason = PLAIN_REASONS.get(word := REASONS[int(own.reason[place])], word)
    said = f"flag {int(flag)} ({MEANINGS[flag].replace('_', ' ')}{f', {reason}' if reason else ''})"
    return f"Sensor {name} at {_when(int(own.time[place]))}: {said}"
