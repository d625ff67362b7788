"""Pictures of what `clean` made of readings: one sensor, the whole network, and why one was called wrong.

For notebooks and scripts; needs the extra `plot`. Each takes what `clean()` returned, a pandas or polars frame, or the
OUT that `sensormend clean` wrote, and returns a matplotlib figure; `figure.savefig("course.png")` keeps it. They are
light or dark as matplotlib's style is, or as `dark` says.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.canvas import GREYS, INK, bare, blank, darken, heading, is_dark
from sensormend.cleaning import Cleaned
from sensormend.errors import ConfigError, InputError
from sensormend.explain import BEFORE, Moment, moment_of
from sensormend.flags import MEANINGS, REASONS, Flag
from sensormend.frames import is_frame, rows_of
from sensormend.io.folder import Archive
from sensormend.io.metadata import iso
from sensormend.plots import (
    HEALTH,
    NO_ROWS,
    PLAIN_REASONS,
    Course,
    dates,
    draw_course,
    draw_health,
    legend_above,
    most_trouble,
)
from sensormend.readings import DAY, HOUR, Rows
from sensormend.recovery import FloatArray
from sensormend.witnesses import Witness, witnesses

__all__ = ["beside", "course", "health"]

WIDTH = 11.0
MOST_CELLS = 750
"""Columns of a health matrix: more than pixels can show become several days each."""

MOST_NAMES = 45
RELATIVES = ("#009e73", "#cc79a7", "#7b6fb0")
"""With orange and blue from Okabe and Ito's palette, too; the last one is darker, to be seen as a thin line."""

USUAL_VIEW, LONGEST_VIEW = 4 * DAY, 14 * DAY
"""Before and after a moment: four days show a course, more than a month of hours shows none."""

WORDS = {code: PLAIN_REASONS.get(word, word) for code, word in enumerate(REASONS)}
SPIKE, DUPLICATE, SILENT, ALONE = (REASONS.index(word) for word in ("spike", "duplicate", "silent", "alone"))


def course(
    rows: Any,
    sensor: str,
    start: Moment | None = None,
    end: Moment | None = None,
    variable: str | None = None,
    *,
    dark: bool | None = None,
) -> Any:
    """Draw one sensor over time: what it read, what it was made of with its interval, and what was wrong with it when.

    Parameters
    ----------
    rows
        What `clean` returned, or the OUT that it wrote.
    sensor, variable
        Whose course; the variable only where there are several.
    start, end
        From when to when, UTC; all of it by default.
    dark
        For a dark page; by default as matplotlib's style is.
    """
    with _page(WIDTH, 4.4, dark) as (figure, finish):
        own, name, what = _channel(rows, sensor, variable)
        shown = _between(own, start, end, name)
        axes = figure.add_subplot()
        draw_course(axes, _course(shown), quantity=what or "value")
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
    table = _table(rows)
    panels = [table.taken(table.variable == code) for code in np.unique(table.variable)]
    states = [_states(panel) for panel in panels]
    many = [len(names) for names, *_ in states]
    heights = [1.1 + min(0.165 * count, 5.5 if len(panels) < 3 else 3.0) for count in many]
    with _page(WIDTH, sum(heights) + 0.35, dark) as (figure, finish):
        grid = figure.add_gridspec(len(panels), 1, height_ratios=heights)
        for place, (panel, (names, state, times, days)) in enumerate(zip(panels, states, strict=True)):
            axes = figure.add_subplot(grid[place])
            what = table.variables[int(panel.variable[0])]
            often = "day by day" if days == 1 else f"{days} days a cell"
            title = f"{what[:1].upper()}{what[1:]}: every sensor, {often}" if what else f"Every sensor, {often}"
            if len(names) > MOST_NAMES:
                title += f"; worst are {', '.join(names[row] for row in most_trouble(state)[:5])}"
            draw_health(axes, state, times, names, cell_days=days, title=title, most_labels=MOST_NAMES)
            _years(axes, panel)
        heading(figure, _balance(table))
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
    """Draw a sensor beside its three closest relatives around a moment: why it was called wrong, or was not.

    Above: the sensor, and what each relative lets expect of it, which is the relative's own reading plus the usual
    difference of the two. Below: how far the sensor is from that; the bands are three times what is usual.

    Parameters
    ----------
    rows
        What `clean` returned, or the OUT that it wrote.
    sensor, variable
        Who; the variable only where there are several.
    time
        When, UTC.
    days
        How many days before and after it are shown; by default four, or more to have all of the fault in view.
    dark
        For a dark page; by default as matplotlib's style is.
    """
    table = _table(rows)
    own, name, what = _channel(table, sensor, variable)
    moment = moment_of(time)
    place = int(np.searchsorted(own.time, moment, side="right")) - 1
    if place < 0 or moment > own.time[place] + max(_step(own), HOUR):
        raise InputError(f"{name} has no row at {_when(moment)}; its rows go from {_span(own)}")
    moment = int(own.time[place])
    everybody = table.taken(table.variable == own.variable[0])
    # Rows per reading have times of their own; they are compared by the slot that they are nearest to.
    step = _step(own)
    slot = moment + np.round((everybody.time - moment) / step).astype(np.int64) * step
    everybody = replace(everybody, time=slot)
    own = replace(own, time=moment + np.round((own.time - moment) / step).astype(np.int64) * step)
    fault = _fault(own, place)
    relatives = _relatives(everybody, moment, fault[0], name)
    near = own.taken(_in_view(own, moment, fault, days))
    with _page(WIDTH, 6.6 if relatives else 4.4, dark) as (figure, finish):
        panels = figure.add_gridspec(2 if relatives else 1, 1, height_ratios=(1.6, 1) if relatives else (1,))
        above = figure.add_subplot(panels[0])
        room = draw_course(above, _course(near), quantity=what or "value")
        for colour, relative in zip(RELATIVES, relatives, strict=False):
            clock, value = _good(everybody, relative.sensor, near)
            usual = relative.says - relative.value
            above.plot(clock, value + usual, color=colour, lw=1.1, zorder=4, label=_signed(relative.sensor, usual))
        above.axvline(_clock(moment), color=INK, lw=0.8, ls=(0, (3, 2)), zorder=7)
        heading(figure, _said(own, place, name))
        legend_above(above, room)
        if relatives:
            below = figure.add_subplot(panels[1], sharex=above)
            _draw_distances(below, everybody, near, relatives, above.get_ylim())
            below.axvline(_clock(moment), color=INK, lw=0.8, ls=(0, (3, 2)), zorder=7)
            above.tick_params(labelbottom=False)
            _years(below, near)
        else:
            said = "no other sensor that is like it has a good reading then"
            above.text(0.01, 0.04, said, color=GREYS[0], fontsize=9, transform=above.transAxes)
            _years(above, near)
        finish()
    return figure


# A figure ------------------------------------------------------------------------------------------------------------


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


# Rows ----------------------------------------------------------------------------------------------------------------


def _table(source: Any) -> Rows:
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


def _channel(source: Any, sensor: str, variable: str | None) -> tuple[Rows, str, str]:
    """Return the rows of one variable of one sensor, in order of time, and the two names."""
    if isinstance(source, str | Path):
        archive = Archive(source)
        source = archive.rows(archive.known(str(sensor)))
    rows, name = _table(source), str(sensor)
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


def _between(own: Rows, start: Moment | None, end: Moment | None, name: str) -> Rows:
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


def _clock(time: Any) -> Any:
    return np.asarray(time, dtype="datetime64[us]")


def _step(own: Rows) -> int:
    apart = np.diff(own.time)
    apart = apart[apart > 0]
    return int(np.median(apart)) if apart.size else HOUR


def _course(own: Rows) -> Course:
    """Return rows of one channel as a course, with a hole where rows are missing."""
    step = _step(own)
    holes = np.flatnonzero(np.diff(own.time) > 1.5 * step) + 1

    def with_holes(column: NDArray[Any], nothing: Any) -> NDArray[Any]:
        return np.insert(column, holes, nothing)

    numbers = (with_holes(line, np.nan) for line in (own.value, own.cleaned, own.lower, own.upper))
    raw, cleaned, lower, upper = numbers
    return Course(
        clock=_clock(np.insert(own.time, holes, own.time[holes - 1] + step)),
        step=np.timedelta64(step, "us"),
        raw=raw,
        cleaned=cleaned,
        lower=lower,
        upper=upper,
        words=with_holes(_words(own), ""),
        spikes=with_holes((own.flag == Flag.FAIL) & (own.reason == SPIKE), False),
    )


def _words(own: Rows) -> NDArray[Any]:
    """Return what each row is shaded for."""
    words = np.full(len(own), "", dtype=object)
    wrong = (own.flag == Flag.FAIL) & (own.reason != SPIKE)
    words[wrong] = [WORDS[code] or "faulty" for code in own.reason[wrong].tolist()]
    words[own.flag == Flag.SUSPECT] = "suspect"
    words[(own.flag == Flag.SUSPECT) & (own.reason == DUPLICATE)] = "duplicate"
    words[own.flag == Flag.NOT_EVALUATED] = "not evaluated"
    words[(own.flag == Flag.NOT_EVALUATED) & (own.reason == ALONE)] = "alone"
    missing = own.flag == Flag.MISSING
    # A reading that is missing amid faulty ones belongs to their fault.
    here = np.flatnonzero(~missing)
    if here.size:
        before = here[np.clip(np.searchsorted(here, np.arange(len(own)), side="right") - 1, 0, None)]
        after = here[np.clip(np.searchsorted(here, np.arange(len(own))), None, here.size - 1)]
        amid = missing & (words[before] == words[after])
        words[amid] = words[before][amid]
    words[missing & (own.reason == SILENT)] = "silent"
    return words


# Health --------------------------------------------------------------------------------------------------------------


def _states(rows: Rows) -> tuple[tuple[str, ...], NDArray[np.int8], NDArray[np.datetime64], int]:
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

    spike = (rows.flag == Flag.FAIL) & (rows.reason == SPIKE)
    here, missing = count(rows.flag > 0), count(rows.flag == Flag.MISSING)
    unjudged, faulty = count(rows.flag == Flag.NOT_EVALUATED), count((rows.flag == Flag.FAIL) & ~spike)
    state = np.where(here > 0, HEALTH.index("sound"), NO_ROWS).astype(np.int8)
    state[(missing > 0) | (count(spike) > 0)] = HEALTH.index("filled")
    state[unjudged > 0] = HEALTH.index("not evaluated")
    state[count(rows.flag == Flag.SUSPECT) > 0] = HEALTH.index("suspect")
    state[faulty > 0] = HEALTH.index("faulty")
    state[(here > 0) & (missing == here)] = HEALTH.index("silent")
    begins = (first + days * np.arange(cells)).astype("datetime64[D]").astype("datetime64[m]")
    return tuple(rows.sensors[code] for code in codes), state, begins[None, :], days


def _balance(rows: Rows) -> str:
    """Say in one line how the network is."""
    total, missing = len(rows), int((rows.flag == Flag.MISSING).sum())
    wrong = int((rows.flag == Flag.FAIL).sum())
    sensors = np.unique(rows.sensor).size
    days = (int(rows.time.max()) - int(rows.time.min())) // DAY + 1
    return (
        f"{sensors:,} sensor{'s' if sensors > 1 else ''}, {days:,} day{'s' if days > 1 else ''}: "
        f"{wrong / max(total - missing, 1):.1%} of the readings wrong, {missing / total:.1%} missing"
    )


# Relatives -----------------------------------------------------------------------------------------------------------


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
    return _clock(times), value


def _draw_distances(
    axes: Any, everybody: Rows, near: Rows, relatives: Sequence[Witness], limits: tuple[float, float]
) -> None:
    _, own = np.unique(near.time, return_index=True)
    values: list[FloatArray] = []
    for colour, relative in zip(RELATIVES, relatives, strict=False):
        clock, other = _good(everybody, relative.sensor, near)
        distance = near.value[own] - other - (relative.says - relative.value)
        axes.axhspan(-3 * relative.spread, 3 * relative.spread, color=colour, alpha=0.10, lw=0, zorder=0)
        axes.plot(clock, distance, color=colour, lw=1.2, marker=".", ms=2, zorder=3)
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


def _said(own: Rows, place: int, name: str) -> str:
    flag = Flag(int(own.flag[place]))
    reason = WORDS[int(own.reason[place])]
    said = f"flag {int(flag)} ({MEANINGS[flag].replace('_', ' ')}{f', {reason}' if reason else ''})"
    return f"Sensor {name} at {_when(int(own.time[place]))}: {said}"


def _signed(sensor: str, usual: float) -> str:
    size = f"{abs(usual):.2g}"
    return sensor if float(size) == 0 else f"{sensor} {'-' if usual < 0 else '+'} {size}"
