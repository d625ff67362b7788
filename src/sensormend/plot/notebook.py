"""`course`, `health` and `beside` draw in a notebook the rows that `clean` returned."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from sensormend.archive.frames import is_frame, read_rows
from sensormend.errors import ConfigError, InputError
from sensormend.explain.context import USUAL_SPAN, CorrelatedSensor, TimeLike, correlated_sensors, microseconds
from sensormend.io.folder import Archive
from sensormend.pipeline.health import HEALTH, SPIKE, by_trouble, days_per_cell, shade_words, states_by_cell
from sensormend.pipeline.sentences import counted, readable
from sensormend.pipeline.units import axis_label
from sensormend.plot.style import Colours, bare, blank, dates_below, heading, styled
from sensormend.readings import DAY, HOUR, MEANINGS, REASONS, Flag, Rows
from sensormend.recovery import BoolArray, FloatArray

__all__ = ["beside", "course", "health"]

WIDTH = 11.0
"""The width of a figure in inches."""

MAX_NAMES = 45
"""With more sensors than this, their names cannot be read beside a health matrix."""

LETTER = 0.0066
"""Approximate width of a letter of a label, as a share of the width of a picture."""

UNSURE = ("suspect", "duplicate")
NOTHING_KNOWN = {"silent": 0.16, "not evaluated": 0.10, "alone": 0.10}
"""Labels of shaded spans that are not faults, the latter with the opacity of their grey."""

CORRELATED_COLOURS = ("#009e73", "#cc79a7", "#7b6fb0")
"""From Okabe and Ito's palette, as orange and blue; the last one is darker, to be visible as a thin line."""

USUAL_VIEW, LONGEST_VIEW = 4 * DAY, 14 * DAY
"""The span before and after a time, and the longest span for a fault: in a month of hourly readings no details can be
seen."""


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
        What `clean` returned, or the output folder that it wrote.
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
    own, name, quantity = _channel(rows, sensor, variable)
    first = own.time[0] if start is None else microseconds(start)
    stop = own.time[-1] + 1 if end is None else microseconds(end)
    shown = own.taken((own.time >= first) & (own.time < stop))
    if not len(shown):
        raise InputError(f"{name} has no rows in that time; they go from {_span(own)}")
    with _page(4.4, dark, ax) as (figure, colours):
        axes = figure.add_subplot() if ax is None else ax
        _draw_channel(axes, shown, colours, quantity, rows)
        if ax is None:
            heading(figure, f"Sensor {name}")
    return figure


def health(rows: Any, variable: str | None = None, *, ax: Any = None, dark: bool | None = None) -> Any:
    """Draw the health of all sensors, day by day, those with most trouble on top.

    A day is faulty or suspect where some of its readings are, silent where no reading came, filled where
    readings are missing or a single one is wrong, and blank where the sensor has no rows.

    Parameters
    ----------
    rows
        What `clean` returned, or the output folder that it wrote.
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
    highest = 5.5 if len(panels) < 3 else 3.0
    heights = [1.1 + min(0.165 * np.unique(panel.sensor).size, highest) for panel in panels]
    with _page(sum(heights) + 0.35, dark, ax) as (figure, colours):
        grid = [ax] if ax is not None else figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
        for axes, panel in zip(grid, panels, strict=True):
            _draw_health(axes, panel, colours)
        if ax is None:
            heading(figure, _balance(all_rows))
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
        What `clean` returned, or the output folder that it wrote.
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
    time, step = int(own.time[place]), own.usual_step
    # Rows per reading are not on the grid; they are compared by the nearest slot.
    all_rows, own = (
        replace(some, time=time + np.round((some.time - time) / step).astype(np.int64) * step)
        for some in (all_rows.taken(all_rows.variable == own.variable[0]), own)
    )
    fault = _fault(own, place)
    shown = own.taken(_in_view(own, time, fault, days))
    others = _correlated(all_rows, time, fault[0], name)
    times, first = np.unique(shown.time, return_index=True)
    with _page(6.6 if others else 4.4, dark) as (figure, colours):
        above = figure.add_subplot(2, 1, 1) if others else figure.add_subplot()
        legend_at = _draw_channel(above, shown, colours, quantity, rows)
        distances = []
        for colour, other in zip(CORRELATED_COLOURS, others, strict=False):
            predicted = _good(all_rows, other.sensor, times) + other.expected - other.value
            distances.append(shown.value[first] - predicted)
            label = _with_offset(other.sensor, other.expected - other.value)
            above.plot(_clock(times), predicted, color=colour, lw=1.1, zorder=4, label=label)
        heading(figure, _title(own, place, name))
        _legend_above(above, legend_at)
        if others:
            below = figure.add_subplot(2, 1, 2, sharex=above)
            _draw_distances(below, _clock(times), distances, [other.spread for other in others], above.get_ylim())
            _finish(below, colours)
            above.tick_params(labelbottom=False)
        else:
            message = "no other sensor that is like it has a good reading then"
            above.text(0.01, 0.04, message, color=colours.greys[0], fontsize=9, transform=above.transAxes)
        for axes in figure.axes:
            axes.axvline(_clock(time), color=colours.ink, lw=0.8, ls=(0, (3, 2)), zorder=7)
    return figure


@contextmanager
def _page(height: float, dark: bool | None, ax: Any = None) -> Iterator[tuple[Any, Colours]]:
    """Yield a figure and its colours: of the user's style only dark or light is applied.

    Axes that were given keep their figure, and its style.
    """
    with styled(bool(dark) if ax is not None else dark) as colours:
        if ax is not None:
            yield ax.figure, colours
            return
        figure = blank(WIDTH, height)
        yield figure, colours
        # A notebook cannot show a figure made without pyplot; it looks for this method first.
        figure._repr_png_ = partial(_png, figure)


def _png(figure: Any) -> bytes:
    file = BytesIO()
    figure.savefig(file, format="png", dpi=100, facecolor=figure.get_facecolor())
    return file.getvalue()


def _rows(source: Any) -> Rows:
    """Return the rows of a result, a frame or an output folder."""
    if isinstance(source, Rows):
        rows = source
    elif isinstance(source, str | Path):
        rows = Archive(source).rows()
    else:
        # A column called rows would be a Series.
        own = getattr(source, "rows", None)
        if not isinstance(own, Rows) and not is_frame(source):
            raise InputError(f"pictures are drawn of what clean() returned, not of {type(source).__name__}")
        rows = own if isinstance(own, Rows) else read_rows(source)
    if not len(rows):
        raise InputError("there are no rows to draw")
    return rows


def _metadata(source: Any) -> Mapping[str, Any]:
    """Return units and names: of a result, from run.json of an output folder, from the `attrs` of a pandas frame."""
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


def _draw_channel(axes: Any, shown: Rows, colours: Colours, quantity: str, source: Any) -> float:
    """Draw rows of one channel: raw, cleaned with its interval, faults shaded; return the height of the legend."""
    step = shown.usual_step
    own = shown.with_gaps(step)
    clock, raw, words, spikes = _clock(own.time), own.value, shade_words(own), own.reason == SPIKE
    bottom, top = _limits(np.concatenate([own.cleaned, own.lower, own.upper]), raw)
    axes.set(ylim=(bottom, top), xlim=(clock[0], clock[-1] + np.timedelta64(step, "us")))
    _shade(axes, clock, np.timedelta64(step, "us"), words, colours)
    axes.plot(clock, raw, color=colours.raw, lw=1.0, alpha=0.9, label="raw", zorder=3, marker=".", ms=1.8)
    # An arrow at the edge for readings beyond it, so that none is hidden.
    for beyond, edge, arrow in ((raw > top, top, "^"), (raw < bottom, bottom, "v")):
        if beyond.any():  # the layout would make space for an empty line at the origin
            at_edge = np.full(beyond.sum(), edge)
            axes.plot(clock[beyond], at_edge, arrow, ms=4, color=colours.raw, clip_on=False, zorder=7)
    spikes &= own.flag == Flag.FAIL
    if spikes.any():
        axes.plot(
            clock[spikes], np.clip(raw[spikes], bottom, top), "o", ms=7, mfc="none", mec=colours.raw, mew=1.4,
            zorder=6, label="single wrong reading",
        )  # fmt: skip
    axes.plot(clock, own.cleaned, color=colours.cleaned, lw=1.6, label="cleaned", zorder=5, solid_capstyle="round")
    axes.fill_between(clock, own.lower, own.upper, color=colours.cleaned, alpha=0.25, lw=0, zorder=2,
                      label="its interval")  # fmt: skip
    label, unit = axis_label(quantity, _metadata(source))
    axes.set_ylabel(f"{label}, {unit}" if unit else label)
    _finish(axes, colours)
    above = 1.125 if (words != "").any() else 1.02
    _legend_above(axes, above)
    return above


def _limits(known: FloatArray, raw: FloatArray) -> tuple[float, float]:
    """Return axis limits that show wrong readings, but do not flatten the right ones to a line."""
    known, read = known[np.isfinite(known)], raw[np.isfinite(raw)]
    if not known.size:
        known = read if read.size else np.zeros(1)
    low, high = float(known.min()), float(known.max())
    spread = max(high - low, 1e-9)
    bottom = max(low - 0.6 * spread, float(read.min(initial=low)))
    top = min(high + 0.6 * spread, float(read.max(initial=high)))
    return min(low, bottom) - 0.05 * spread, max(high, top) + 0.05 * spread


def _shade(axes: Any, clock: Any, step: np.timedelta64, words: Any, colours: Colours) -> None:
    """Shade the slots that have a label, and write it above each run of them where there is space."""
    kinds = [word if word in (*UNSURE, *NOTHING_KNOWN) else "fault" if word else "" for word in words.tolist()]
    edges = [0, *(place for place in range(1, len(kinds)) if kinds[place] != kinds[place - 1]), len(kinds)]
    runs = [(clock[first], clock[stop - 1] + step, first, stop) for first, stop in pairwise(edges) if kinds[first]]
    taken: list[list[tuple[float, float]]] = [[], []]
    # The long ones first: where two labels do not fit, the longer span keeps its own.
    for left, right, first, stop in sorted(runs, key=lambda run: run[0] - run[1]):
        fill, opacity, ink = colours.raw, 0.10, colours.fault_label
        if kinds[first] in UNSURE:
            fill, opacity, ink = colours.health[HEALTH.index("suspect")], 0.22, colours.doubt_label
        elif kinds[first] in NOTHING_KNOWN:
            fill, opacity, ink = colours.greys[1], NOTHING_KNOWN[kinds[first]], colours.greys[0]
        axes.axvspan(left, right, color=fill, alpha=opacity, lw=0, zorder=0)
        label = ", ".join(list(dict.fromkeys(words[first:stop].tolist()))[:2])
        middle = left + (right - left) / 2
        place, half = (middle - clock[0]) / (clock[-1] + step - clock[0]), LETTER * (len(label) + 1) / 2
        free = (
            level for level in (0, 1) if all(place + half < low or place - half > high for low, high in taken[level])
        )
        level = next(free, None)
        if level is not None:
            taken[level].append((place - half, place + half))
            axes.annotate(
                label, (middle, 1.0), xycoords=("data", "axes fraction"), xytext=(0, 14 if level else 4),
                textcoords="offset points", ha="center", va="bottom", fontsize=8.5, color=ink, annotation_clip=False,
            )  # fmt: skip


def _legend_above(axes: Any, above: float) -> None:
    """Put the legend above the axes, where it hides nothing: in one line, or two where the names are long."""
    labels = axes.get_legend_handles_labels()[1]
    wide = sum(len(label) + 7 for label in labels) * LETTER > 0.85
    axes.legend(
        loc="lower right", bbox_to_anchor=(1.0, above), ncols=-(-len(labels) // 2) if wide else len(labels),
        handlelength=1.8, columnspacing=1.4, borderaxespad=0,
    )  # fmt: skip


def _draw_health(axes: Any, panel: Rows, colours: Colours) -> None:
    """Draw the health matrix of one variable, sensors by days."""
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    first, last = int(panel.time.min()) // DAY, int(panel.time.max()) // DAY
    days = days_per_cell(first, last, panel.taken(panel.sensor == panel.sensor[0]).usual_step)
    channels, state = states_by_cell(panel, first, last, days)
    order, few = by_trouble(state), len(channels) <= MAX_NAMES
    names = [channels[row][0] for row in order]
    # Matplotlib counts dates in days since 1970, as we do.
    axes.imshow(
        state[order], cmap=ListedColormap(colours.health).with_extremes(under=colours.page), vmin=-0.5,
        vmax=len(HEALTH) - 0.5, aspect="auto", interpolation="nearest", zorder=1,
        extent=(first, first + days * state.shape[1], len(names) - 0.5, -0.5),
    )  # fmt: skip
    axes.xaxis_date()
    for edge in np.arange(0.5, len(names) - 1) if few else ():
        axes.axhline(edge, color=colours.page, lw=0.8, zorder=2)
    _finish(axes, colours, grid=False)
    axes.set_yticks(range(len(names)) if few else [], names if few else [], fontsize=7)
    axes.tick_params(axis="y", length=0)
    variable = panel.variables[int(panel.variable[0])]
    title = f"{variable[:1].upper()}{variable[1:]}: every sensor, " if variable else "Every sensor, "
    title += "day by day" if days == 1 else f"{days} days a cell"
    if not few:
        axes.set_ylabel(f"{len(names):,} sensors, most trouble on top")
        title += f"; worst are {', '.join(names[:5])}"
    axes.set_title(title, loc="left", fontsize=11, pad=8)
    boxes = [
        Patch(fc=colour, ec=colours.greys[2], lw=0.5, label=word)
        for code, (word, colour) in enumerate(zip(HEALTH, colours.health, strict=True))
        if (state == code).any()
    ]
    axes.legend(
        handles=boxes, loc="lower right", bbox_to_anchor=(1.0, 1.015), ncols=len(boxes), handlelength=1.1,
        handleheight=1.1, columnspacing=1.3, borderaxespad=0,
    )  # fmt: skip


def _draw_distances(
    axes: Any, clock: Any, distances: list[FloatArray], spreads: list[float], limits: tuple[float, float]
) -> None:
    for colour, distance, spread in zip(CORRELATED_COLOURS, distances, spreads, strict=False):
        axes.axhspan(-3 * spread, 3 * spread, color=colour, alpha=0.10, lw=0, zorder=0)
        axes.plot(clock, distance, color=colour, lw=1.2, marker=".", ms=2, zorder=3)
    known = np.concatenate([*distances, *(np.array([-3.3, 3.3]) * spread for spread in spreads)])
    # A reading far away would compress all others, as above.
    low, high = np.nanquantile(known, [0.01, 0.99])
    most, margin = limits[1] - limits[0], 0.08 * (high - low)
    axes.set_ylim(max(low - margin, -most), min(high + margin, most))
    axes.axhline(0, color=axes.spines["bottom"].get_edgecolor(), lw=0.8, zorder=1)
    axes.set_ylabel("distance from that")
    axes.set_title("How far it is from what each of them predicts; the bands are three times the usual",
                   loc="left", fontsize=9, pad=4)  # fmt: skip


def _finish(axes: Any, colours: Colours, *, grid: bool = True) -> None:
    """Remove the frame, and write dates below the axis, as fine as its span needs."""
    dates_below(axes, least=4, most=9)
    bare(axes, colour=colours.greys[2])
    if grid:
        axes.grid(axis="y", color=colours.greys[3], lw=0.6, zorder=0)


def _clock(time: Any) -> Any:
    """Return times as matplotlib takes them."""
    return np.asarray(time, dtype="datetime64[us]")


def _span(rows: Rows) -> str:
    return f"{readable(int(rows.time[0]))} to {readable(int(rows.time[-1]))}"


def _balance(rows: Rows) -> str:
    """Return counts of the network in one line."""
    total, missing = len(rows), int((rows.flag == Flag.MISSING).sum())
    wrong = int((rows.flag == Flag.FAIL).sum())
    days = (int(rows.time.max()) - int(rows.time.min())) // DAY + 1
    return (
        f"{counted(np.unique(rows.sensor).size, 'sensor')}, {counted(days, 'day')}: "
        f"{wrong / max(total - missing, 1):.1%} of the readings wrong, {missing / total:.1%} missing"
    )


def _place(own: Rows, time: int, name: str) -> int:
    """Return the index of the row whose slot contains a time."""
    place = int(np.searchsorted(own.time, time, side="right")) - 1
    if place < 0 or time > own.time[place] + max(own.usual_step, HOUR):
        raise InputError(f"{name} has no row at {readable(time)}; its rows go from {_span(own)}")
    return place


def _fault(own: Rows, place: int) -> tuple[int, int]:
    """Return the start and the end of a row's fault: after the last good reading before, until the next good one."""
    sound = np.isin(own.flag, (Flag.GOOD, Flag.NOT_EVALUATED))
    if sound[place]:
        return int(own.time[place]), int(own.time[place])
    before, after = np.flatnonzero(sound[:place]), np.flatnonzero(sound[place:])
    first = int(before[-1]) + 1 if before.size else 0
    last = place + int(after[0]) - 1 if after.size else len(own) - 1
    return int(own.time[first]), int(own.time[last])


def _in_view(own: Rows, moment: int, fault: tuple[int, int], days: float | None) -> BoolArray:
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


def _good(all_rows: Rows, sensor: str, times: Any) -> FloatArray:
    """Return the good readings of a sensor at sorted times, NaN where there is none."""
    own = all_rows.taken((all_rows.sensor == all_rows.sensors.index(sensor)) & (all_rows.flag == Flag.GOOD))
    own = own.taken(np.isin(own.time, times))
    value = np.full(times.size, np.nan)
    value[np.searchsorted(times, own.time)] = own.value
    return value


def _title(own: Rows, place: int, name: str) -> str:
    flag = Flag(int(own.flag[place]))
    reason = REASONS[int(own.reason[place])]
    words = f"flag {int(flag)} ({MEANINGS[flag].replace('_', ' ')}{f', {reason}' if reason else ''})"
    return f"Sensor {name} at {readable(int(own.time[place]))}: {words}"


def _with_offset(sensor: str, usual: float) -> str:
    size = f"{abs(usual):.2g}"
    return sensor if float(size) == 0 else f"{sensor} {'-' if usual < 0 else '+'} {size}"
