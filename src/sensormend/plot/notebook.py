"""`course`, `health` and `beside` draw in a notebook the rows that `clean` returned."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.archive.frames import is_frame, rows_of
from sensormend.errors import ConfigError, InputError
from sensormend.explain.context import USUAL_SPAN, TimeLike, microseconds
from sensormend.explain.correlated import CorrelatedSensor, correlated_sensors
from sensormend.io.folder import Archive
from sensormend.pipeline.health import PLAIN_REASONS, SPIKE, by_trouble, days_per_cell, shade_words, states_by_cell
from sensormend.pipeline.sentences import counted
from sensormend.pipeline.times import iso
from sensormend.pipeline.units import axis_label
from sensormend.plot.canvas import GREYS, INK, bare, blank, darken, heading, is_dark
from sensormend.plot.drawing import SensorSeries, dates, draw_health, draw_series, legend_above
from sensormend.readings import DAY, HOUR, MEANINGS, REASONS, Flag, Rows
from sensormend.recovery import FloatArray

__all__ = ["beside", "course", "health"]

WIDTH = 11.0
MAX_NAMES = 45
CORRELATED_COLOURS = ("#009e73", "#cc79a7", "#7b6fb0")
"""From Okabe and Ito's palette, as orange and blue; the last one is darker, to be visible as a thin line."""

USUAL_VIEW, LONGEST_VIEW = 4 * DAY, 14 * DAY
"""Span before and after a time, and the longest for a fault: in a month of hours no course can be seen."""


def course(
    rows: Any,
    sensor: str,
    start: TimeLike | None = None,
    end: TimeLike | None = None,
    variable: str | None = None,
    *,
    ax: Any = None,
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
        The span to draw, UTC; all of it by default.
    variable
        Required where the sensor has several.
    ax
        The axes to draw on; by default those of a new figure.
    dark
        Colours for a dark page; by default those of matplotlib's style.
    """
    with _page(WIDTH, 4.4, dark, ax) as (figure, finish):
        own, name, quantity = _channel(rows, sensor, variable)
        first = own.time[0] if start is None else microseconds(start)
        stop = own.time[-1] + 1 if end is None else microseconds(end)
        shown = own.taken((own.time >= first) & (own.time < stop))
        if not len(shown):
            raise InputError(f"{name} has no rows in that time; they go from {_span(own)}")
        axes = figure.add_subplot() if ax is None else ax
        label, unit = axis_label(quantity, _metadata(rows))
        draw_series(axes, _series(shown), quantity=label, unit=unit)
        if ax is None:
            heading(figure, f"Sensor {name}")
        _years(axes, shown)
        finish()
    return figure


def health(rows: Any, variable: str | None = None, *, ax: Any = None, dark: bool | None = None) -> Any:
    """Draw the health of all sensors, day by day, those with most trouble on top.

    A day is faulty or suspect where some of its readings are, silent where no reading came, filled where
    readings are missing or a single one is wrong, and blank where the sensor has no rows.

    Parameters
    ----------
    rows
        What `clean` returned, or the OUT that it wrote.
    variable
        By default all variables are drawn, one below the other.
    ax
        The axes to draw one variable on; by default those of a new figure.
    dark
        Colours for a dark page; by default those of matplotlib's style.
    """
    all_rows = _rows(rows)
    if variable is not None:
        if variable not in all_rows.variables:
            raise InputError(f"there is no variable {variable!r}; there is {', '.join(all_rows.variables)}")
        all_rows = all_rows.taken(all_rows.variable == all_rows.variables.index(variable))
    panels = [all_rows.taken(all_rows.variable == code) for code in np.unique(all_rows.variable)]
    if ax is not None and len(panels) > 1:
        raise ConfigError(
            f"one pair of axes shows one variable; choose it with variable=: {', '.join(all_rows.variables)}"
        )
    states = [_states(panel) for panel in panels]
    heights = [1.1 + min(0.165 * len(names), 5.5 if len(panels) < 3 else 3.0) for names, *_ in states]
    with _page(WIDTH, sum(heights) + 0.35, dark, ax) as (figure, finish):
        grid = None if ax is not None else figure.add_gridspec(len(panels), 1, height_ratios=heights)
        for place, (panel, (names, state, times, days)) in enumerate(zip(panels, states, strict=True)):
            axes = ax if grid is None else figure.add_subplot(grid[place])
            name = all_rows.variables[int(panel.variable[0])]
            often = "day by day" if days == 1 else f"{days} days a cell"
            title = f"{name[:1].upper()}{name[1:]}: every sensor, {often}" if name else f"Every sensor, {often}"
            if len(names) > MAX_NAMES:
                title += f"; worst are {', '.join(names[row] for row in by_trouble(state)[:5])}"
            draw_health(axes, state, times, names, cell_days=days, title=title, max_labels=MAX_NAMES)
            _years(axes, panel)
        if ax is None:
            heading(figure, _balance(all_rows))
        finish()
    return figure


def beside(
    rows: Any,
    sensor: str,
    time: TimeLike,
    variable: str | None = None,
    *,
    days: float | None = None,
    dark: bool | None = None,
) -> Any:
    """Draw a sensor beside its three most correlated sensors around a time, to show why it was judged wrong or right.

    Above: the sensor, and the value that each of the others predicts, which is its reading plus the usual difference of
    the two. Below: the distance of the sensor from these; the bands are three standard deviations.

    Parameters
    ----------
    rows
        What `clean` returned, or the OUT that it wrote.
    sensor
        The name of the sensor.
    time
        The time, UTC.
    variable
        Required where the sensor has several.
    days
        Days to show before and after it; by default four, or more to show all of the fault.
    dark
        Colours for a dark page; by default those of matplotlib's style.
    """
    all_rows = _rows(rows)
    own, name, quantity = _channel(all_rows, sensor, variable)
    place = _place(own, microseconds(time), name)
    time, step = int(own.time[place]), _step(own)
    # Rows per reading are not on the grid; they are compared by the nearest slot.
    all_rows, own = (
        replace(some, time=time + np.round((some.time - time) / step).astype(np.int64) * step)
        for some in (all_rows.taken(all_rows.variable == own.variable[0]), own)
    )
    fault = _fault(own, place)
    shown = own.taken(_in_view(own, time, fault, days))
    others = _correlated(all_rows, time, fault[0], name)
    clock, values = _clock(np.unique(shown.time)), [_good(all_rows, other.sensor, shown) for other in others]
    with _page(WIDTH, 6.6 if others else 4.4, dark) as (figure, finish):
        panels = figure.add_gridspec(2 if others else 1, 1, height_ratios=(1.6, 1) if others else (1,))
        above = figure.add_subplot(panels[0])
        label, unit = axis_label(quantity, _metadata(rows))
        legend_at = draw_series(above, _series(shown), quantity=label, unit=unit)
        for colour, other, value in zip(CORRELATED_COLOURS, others, values, strict=False):
            usual = other.expected - other.value
            above.plot(clock, value + usual, color=colour, lw=1.1, zorder=4, label=_with_offset(other.sensor, usual))
        heading(figure, _title(own, place, name))
        legend_above(above, legend_at)
        lowest = above
        if others:
            lowest = figure.add_subplot(panels[1], sharex=above)
            distances = [shown.value[np.unique(shown.time, return_index=True)[1]] - value - other.expected + other.value
                         for other, value in zip(others, values, strict=True)]  # fmt: skip
            _draw_distances(lowest, clock, distances, [other.spread for other in others], above.get_ylim())
            above.tick_params(labelbottom=False)
        else:
            message = "no other sensor that is like it has a good reading then"
            above.text(0.01, 0.04, message, color=GREYS[0], fontsize=9, transform=above.transAxes)
        for axes in {above, lowest}:
            axes.axvline(_clock(time), color=INK, lw=0.8, ls=(0, (3, 2)), zorder=7)
        _years(lowest, shown)
        finish()
    return figure


def _rows(source: Any) -> Rows:
    """Return the rows of a frame or an OUT."""
    if isinstance(source, Rows):
        rows = source
    elif isinstance(source, str | Path):
        rows = Archive(source).rows()
    else:
        # A column called rows would be a Series.
        own = getattr(source, "rows", None)
        if not isinstance(own, Rows) and not is_frame(source):
            raise InputError(f"pictures are drawn of what clean() returned, not of {type(source).__name__}")
        rows = own if isinstance(own, Rows) else rows_of(source)
    if not len(rows):
        raise InputError("there are no rows to draw")
    return rows


def _metadata(source: Any) -> Mapping[str, Any]:
    """Return units and names: of a result, from run.json of an OUT, from the `attrs` of a pandas frame."""
    if isinstance(source, str | Path):
        return Archive(source).run()
    records = (getattr(source, name, None) for name in ("run", "attrs"))
    return next((record for record in records if isinstance(record, Mapping)), {})


def _channel(source: Any, sensor: str, variable: str | None) -> tuple[Rows, str, str]:
    """Return the rows of one variable of one sensor, in order of time, and the two names."""
    if isinstance(source, str | Path):
        archive = Archive(source)
        source = archive.rows(archive.check_sensor(str(sensor)))
    rows, name = _rows(source), str(sensor)
    if name not in rows.sensors:
        like = difflib.get_close_matches(name, rows.sensors, n=3, cutoff=0.5) or rows.sensors[:5]
        raise InputError(f"there is no sensor {name!r}; there are for example {', '.join(like)}")
    own = rows.taken(rows.sensor == rows.sensors.index(name))
    variables = [rows.variables[code] for code in np.unique(own.variable)]
    if variable is None and len(variables) > 1:
        raise ConfigError(f"{name} measures {', '.join(variables)}: say which with variable=")
    variable = variables[0] if variable is None else variable
    if variable not in variables:
        raise InputError(f"{name} has no variable {variable!r}; there is {', '.join(variables)}")
    own = own.taken(own.variable == rows.variables.index(variable))
    return own.taken(np.argsort(own.time, kind="stable")), name, variable


def _span(rows: Rows) -> str:
    return f"{_when(int(rows.time[0]))} to {_when(int(rows.time[-1]))}"


def _when(time: int) -> str:
    return iso(time).replace("T", " ")[:16]


def _clock(time: Any) -> Any:
    """Return times as matplotlib takes them."""
    return np.asarray(time, dtype="datetime64[us]")


def _step(own: Rows) -> int:
    intervals = np.diff(own.time)
    intervals = intervals[intervals > 0]
    return int(np.median(intervals)) if intervals.size else HOUR


def _series(own: Rows) -> SensorSeries:
    """Return rows of one channel as a series, with NaN where rows are missing."""
    step = _step(own)
    own = own.with_gaps(step)
    return SensorSeries(
        clock=_clock(own.time),
        step=np.timedelta64(step, "us"),
        raw=own.value,
        cleaned=own.cleaned,
        lower=own.lower,
        upper=own.upper,
        words=shade_words(own),
        spikes=(own.flag == Flag.FAIL) & (own.reason == SPIKE),
    )


def _states(rows: Rows) -> tuple[tuple[str, ...], NDArray[np.int8], NDArray[np.datetime64], int]:
    """Return the sensors, their health (sensor, cell), the starts of the cells, and the days of a cell."""
    first, last = int(rows.time.min()) // DAY, int(rows.time.max()) // DAY
    days = days_per_cell(first, last, _step(rows.taken(rows.sensor == rows.sensor[0])))
    names, state = states_by_cell(rows, first, last, days)
    begins = (first + days * np.arange(state.shape[1])).astype("datetime64[D]").astype("datetime64[m]")
    return tuple(sensor for sensor, _ in names), state, begins[None, :], days


def _balance(rows: Rows) -> str:
    """Return counts of the network in one line."""
    total, missing = len(rows), int((rows.flag == Flag.MISSING).sum())
    wrong = int((rows.flag == Flag.FAIL).sum())
    sensors = np.unique(rows.sensor).size
    days = (int(rows.time.max()) - int(rows.time.min())) // DAY + 1
    return (
        f"{counted(sensors, 'sensor')}, {counted(days, 'day')}: "
        f"{wrong / max(total - missing, 1):.1%} of the readings wrong, {missing / total:.1%} missing"
    )


def _place(own: Rows, time: int, name: str) -> int:
    """Return the index of the row whose slot contains a time."""
    place = int(np.searchsorted(own.time, time, side="right")) - 1
    if place < 0 or time > own.time[place] + max(_step(own), HOUR):
        raise InputError(f"{name} has no row at {_when(time)}; its rows go from {_span(own)}")
    return place


def _fault(own: Rows, place: int) -> tuple[int, int]:
    """Return the start and the end of a row's fault: after the last good reading before, until the next good one."""
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


def _correlated(all_rows: Rows, moment: int, fault_start: int, name: str) -> list[CorrelatedSensor]:
    """Return the sensors most correlated with one before its fault; over all rows where that span is too short."""
    at_moment = all_rows.taken(all_rows.time == moment)
    past = all_rows.taken((all_rows.time >= fault_start - USUAL_SPAN) & (all_rows.time < fault_start))
    return correlated_sensors(past, at_moment, name) or correlated_sensors(all_rows, at_moment, name)


def _good(all_rows: Rows, sensor: str, shown: Rows) -> FloatArray:
    """Return the good readings of a sensor at the times of some rows, NaN at the others."""
    own = all_rows.taken((all_rows.sensor == all_rows.sensors.index(sensor)) & (all_rows.flag == Flag.GOOD))
    times = np.unique(shown.time)
    value = np.full(times.size, np.nan)
    at = np.searchsorted(times, own.time)
    known = (at < times.size) & (times[np.minimum(at, times.size - 1)] == own.time)
    value[at[known]] = own.value[known]
    return value


def _title(own: Rows, place: int, name: str) -> str:
    flag = Flag(int(own.flag[place]))
    reason = PLAIN_REASONS.get(word := REASONS[int(own.reason[place])], word)
    words = f"flag {int(flag)} ({MEANINGS[flag].replace('_', ' ')}{f', {reason}' if reason else ''})"
    return f"Sensor {name} at {_when(int(own.time[place]))}: {words}"


@contextmanager
def _page(width: float, height: float, dark: bool | None, ax: Any = None) -> Iterator[tuple[Any, Callable[[], None]]]:
    """Yield a figure and the function that finishes it; of the user's style only dark or light is applied.

    Axes that were given keep their figure, and its style.
    """
    if ax is not None:
        yield ax.figure, lambda: None
        return
    figure = blank(width, height)
    style: Any = import_module("matplotlib.style")
    wanted = is_dark() if dark is None else dark

    def finish() -> None:
        if wanted:
            darken(figure)
        # A notebook cannot show a figure made without pyplot; it looks for this method first.
        figure._repr_png_ = partial(_png, figure)

    with style.context("default"):
        yield figure, finish


def _png(figure: Any) -> bytes:
    file = BytesIO()
    figure.savefig(file, format="png", dpi=100, facecolor=figure.get_facecolor())
    return file.getvalue()


def _years(axes: Any, rows: Rows) -> None:
    """Label the axis with the years of its dates."""
    first, last = (np.datetime64(int(time), "us").astype("datetime64[Y]") for time in (rows.time[0], rows.time.max()))
    axes.set_xlabel(str(first) if first == last else f"{first} to {last}", color=GREYS[0], fontsize=9, loc="right")


def _draw_distances(
    axes: Any, clock: Any, distances: list[FloatArray], spreads: list[float], limits: tuple[float, float]
) -> None:
    for colour, distance, spread in zip(CORRELATED_COLOURS, distances, spreads, strict=False):
        axes.axhspan(-3 * spread, 3 * spread, color=colour, alpha=0.10, lw=0, zorder=0)
        axes.plot(clock, distance, color=colour, lw=1.2, marker=".", ms=2, zorder=3)
    known = np.concatenate([*distances, *(np.array([-3.3, 3.3]) * spread for spread in spreads)])
    known = known[np.isfinite(known)]
    # A reading far away would compress all others, as above.
    low, high = np.quantile(known, [0.01, 0.99])
    most, margin = limits[1] - limits[0], 0.08 * (high - low)
    axes.set_ylim(max(low - margin, -most), min(high + margin, most))
    axes.axhline(0, color=GREYS[2], lw=0.8, zorder=1)
    axes.set_ylabel("distance from that", color=INK)
    axes.set_title("How far it is from what each of them predicts; the bands are three times the usual",
                   loc="left", fontsize=9, color=GREYS[0], pad=4)  # fmt: skip
    dates(axes)
    bare(axes)
    axes.grid(axis="y", color=GREYS[3], lw=0.6, zorder=0)


def _with_offset(sensor: str, usual: float) -> str:
    size = f"{abs(usual):.2g}"
    return sensor if float(size) == 0 else f"{sensor} {'-' if usual < 0 else '+'} {size}"
