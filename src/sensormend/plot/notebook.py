"""What there is to see in rows: one sensor's course, everybody's health, a moment beside its closest relatives."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.errors import ConfigError, InputError
from sensormend.explain.context import BEFORE, Moment, moment_of
from sensormend.explain.correlated import Witness, witnesses
from sensormend.io.folder import Archive
from sensormend.io.metadata import iso
from sensormend.io.units import axis_label
from sensormend.pipeline.frames import Cleaned, is_frame, rows_of
from sensormend.pipeline.health import COUNTS, PLAIN_REASONS, SPIKE, counted_as, shade_words, states
from sensormend.pipeline.sentences import counted
from sensormend.plot.canvas import GREYS, INK, bare, blank, darken, heading, is_dark
from sensormend.plot.drawing import Course, dates, draw_course, draw_health, legend_above, most_trouble
from sensormend.readings import DAY, HOUR, MEANINGS, REASONS, Flag, Rows
from sensormend.recovery import FloatArray

__all__ = [
    "Relative",
    "Surroundings",
    "balance",
    "beside",
    "between",
    "channel",
    "clock",
    "course",
    "course_of",
    "described_by",
    "health",
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


WIDTH = 11.0
MOST_NAMES = 45
RELATIVES = ("#009e73", "#cc79a7", "#7b6fb0")
"""With orange and blue from Okabe and Ito's palette, too; the last one is darker, to be seen as a thin line."""


def course(
    rows: Any,
    sensor: str,
    start: Moment | None = None,
    end: Moment | None = None,
    variable: str | None = None,
    *,
    dark: bool | None = None,
) -> Any:
    """Draw one sensor over time: its readings, the cleaned values with their interval, and its faults.

    Parameters
    ----------
    rows
        What `clean` returned, or the OUT that it wrote.
    sensor
        The name of the sensor.
    start, end
        From when to when, UTC; all of it by default.
    variable
        Which variable, where there are several.
    dark
        For a dark page; by default as matplotlib's style is.
    """
    with _page(WIDTH, 4.4, dark) as (figure, finish):
        own, name, what = channel(rows, sensor, variable)
        shown = between(own, start, end, name)
        axes = figure.add_subplot()
        quantity, unit = axis_label(what, described_by(rows))
        draw_course(axes, course_of(shown), quantity=quantity, unit=unit)
        heading(figure, f"Sensor {name}")
        _years(axes, shown)
        finish()
    return figure


def health(rows: Any, *, dark: bool | None = None) -> Any:
    """Draw the health of all sensors, day by day, those with most trouble on top.

    A day is faulty or suspect where some of its readings are, silent where nothing came, filled where something is
    missing or a single reading was wrong, and left blank where the sensor has no rows: not there yet, or gone.

    Parameters
    ----------
    rows
        What `clean` returned, or the OUT that it wrote.
    dark
        For a dark page; by default as matplotlib's style is.
    """
    everybody = table(rows)
    panels = [everybody.taken(everybody.variable == code) for code in np.unique(everybody.variable)]
    states = [states_of(panel) for panel in panels]
    many = [len(names) for names, *_ in states]
    heights = [1.1 + min(0.165 * count, 5.5 if len(panels) < 3 else 3.0) for count in many]
    with _page(WIDTH, sum(heights) + 0.35, dark) as (figure, finish):
        grid = figure.add_gridspec(len(panels), 1, height_ratios=heights)
        for place, (panel, (names, state, times, days)) in enumerate(zip(panels, states, strict=True)):
            axes = figure.add_subplot(grid[place])
            what = everybody.variables[int(panel.variable[0])]
            often = "day by day" if days == 1 else f"{days} days a cell"
            title = f"{what[:1].upper()}{what[1:]}: every sensor, {often}" if what else f"Every sensor, {often}"
            if len(names) > MOST_NAMES:
                title += f"; worst are {', '.join(names[row] for row in most_trouble(state)[:5])}"
            draw_health(axes, state, times, names, cell_days=days, title=title, most_labels=MOST_NAMES)
            _years(axes, panel)
        heading(figure, balance(everybody))
        finish()
    return figure


def beside(
    rows: Any,
    sensor: str,
    time: Moment,
    variable: str | None = None,
    *,
    days: float | None = None,
    dark: bool | None = None,
) -> Any:
    """Draw a sensor beside its three most correlated sensors around a moment: why it was judged wrong, or was not.

    Above: the sensor, and what each of the others lets expect of it, which is its own reading plus the usual difference
    of the two. Below: how far the sensor is from that; the bands are three times what is usual.

    Parameters
    ----------
    rows
        What `clean` returned, or the OUT that it wrote.
    sensor
        The name of the sensor.
    time
        When, UTC.
    variable
        Which variable, where there are several.
    days
        How many days before and after it are shown; by default four, or more to have all of the fault in view.
    dark
        For a dark page; by default as matplotlib's style is.
    """
    around = surroundings(rows, sensor, time, variable, days)
    near, relatives, moment = around.near, around.relatives, clock(around.moment)
    with _page(WIDTH, 6.6 if relatives else 4.4, dark) as (figure, finish):
        panels = figure.add_gridspec(2 if relatives else 1, 1, height_ratios=(1.6, 1) if relatives else (1,))
        above = figure.add_subplot(panels[0])
        quantity, unit = axis_label(around.variable, described_by(rows))
        room = draw_course(above, course_of(near), quantity=quantity, unit=unit)
        for colour, relative in zip(RELATIVES, relatives, strict=False):
            label, expected = _signed(relative.sensor, relative.usual), relative.value + relative.usual
            above.plot(relative.clock, expected, color=colour, lw=1.1, zorder=4, label=label)
        above.axvline(moment, color=INK, lw=0.8, ls=(0, (3, 2)), zorder=7)
        heading(figure, around.said)
        legend_above(above, room)
        if relatives:
            below = figure.add_subplot(panels[1], sharex=above)
            _draw_distances(below, around, above.get_ylim())
            below.axvline(moment, color=INK, lw=0.8, ls=(0, (3, 2)), zorder=7)
            above.tick_params(labelbottom=False)
            _years(below, near)
        else:
            said = "no other sensor that is like it has a good reading then"
            above.text(0.01, 0.04, said, color=GREYS[0], fontsize=9, transform=above.transAxes)
            _years(above, near)
        finish()
    return figure


@contextmanager
def _page(width: float, height: float, dark: bool | None) -> Iterator[tuple[Any, Callable[[], None]]]:
    """Give an empty figure, and what makes it ready to be shown; a style of the user's changes nothing else of it."""
    figure = blank(width, height)
    style: Any = import_module("matplotlib.style")
    wanted = is_dark() if dark is None else dark

    def finish() -> None:
        if wanted:
            darken(figure)
        # Without pyplot a notebook does not know how to show a figure; this it asks for first.
        figure._repr_png_ = partial(_png, figure)

    with style.context("default"):
        yield figure, finish


def _png(figure: Any) -> bytes:
    file = BytesIO()
    figure.savefig(file, format="png", dpi=100, facecolor=figure.get_facecolor())
    return file.getvalue()


def _years(axes: Any, rows: Rows) -> None:
    """Say of which year the dates below are."""
    first, last = (np.datetime64(int(time), "us").astype("datetime64[Y]") for time in (rows.time[0], rows.time.max()))
    axes.set_xlabel(str(first) if first == last else f"{first} to {last}", color=GREYS[0], fontsize=9, loc="right")


def _draw_distances(axes: Any, around: Surroundings, limits: tuple[float, float]) -> None:
    near = around.near
    _, own = np.unique(near.time, return_index=True)
    values: list[FloatArray] = []
    for colour, relative in zip(RELATIVES, around.relatives, strict=False):
        distance = near.value[own] - relative.value - relative.usual
        axes.axhspan(-3 * relative.spread, 3 * relative.spread, color=colour, alpha=0.10, lw=0, zorder=0)
        axes.plot(relative.clock, distance, color=colour, lw=1.2, marker=".", ms=2, zorder=3)
        values += [distance, np.array([-3.3, 3.3]) * relative.spread]
    told = np.concatenate(values)
    told = told[np.isfinite(told)]
    # A reading that is far beyond would press all others together, as above.
    low, high = np.quantile(told, [0.01, 0.99])
    most, margin = limits[1] - limits[0], 0.08 * (high - low)
    axes.set_ylim(max(low - margin, -most), min(high + margin, most))
    axes.axhline(0, color=GREYS[2], lw=0.8, zorder=1)
    axes.set_ylabel("distance from that", color=INK)
    axes.set_title("How far it is from what each of them lets expect; the bands are three times the usual",
                   loc="left", fontsize=9, color=GREYS[0], pad=4)  # fmt: skip
    dates(axes)
    bare(axes)
    axes.grid(axis="y", color=GREYS[3], lw=0.6, zorder=0)


def _signed(sensor: str, usual: float) -> str:
    size = f"{abs(usual):.2g}"
    return sensor if float(size) == 0 else f"{sensor} {'-' if usual < 0 else '+'} {size}"
