"""`draw_panels` draws faults of a real archive, one panel each, for a person to look at."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from sensormend.bench.real import JudgedFault, JudgedReadings
from sensormend.pipeline.sentences import how_long
from sensormend.plot.style import BLUE, GREYS, INK, bare, blank, heading, save
from sensormend.readings import DAY, Flag, IntArray
from sensormend.recovery import FloatArray

__all__ = ["COLUMNS", "ROWS", "correlated_channels", "draw_panels"]

COLUMNS, ROWS = 5, 4
WIDTH, HEIGHT = 12.5, 8.6
"""Inches; 2,000 pixels wide."""

BESIDE = 2 * DAY
"""What is drawn on either side of a fault: as much as it lasts, and at least this."""

CORRELATED = 3
"""Channels of the same variable that are drawn in grey."""

FEW_COMMON = 50
"""Channels with fewer common slots than this are not compared."""

REACH = 1.0
"""How far a panel reaches beyond the middle 98 % of its cleaned values and of the fault's readings, in spans of these:
what is farther off is drawn at its edge, so that readings of -9999 do not make the rest a flat line."""

GAP = 10
"""Lines are broken where nothing was read for more than this many steps."""

RED, DOUBTFUL = "#c1121f", "#f0a202"

LEGEND = (
    "dark: raw; red: flag 4; orange: flag 3; blue: cleaned; grey: correlated channels, shifted to the same level; "
    "black marks: wrong labels; shaded: the fault"
)


def draw_panels(path: Path, title: str, readings: JudgedReadings, faults: Sequence[JudgedFault]) -> Path:
    """Draw up to `COLUMNS` x `ROWS` faults, with the readings before and after each; `LEGEND` explains the colours."""
    figure = blank(WIDTH, HEIGHT)
    heading(figure, title)
    figure.supxlabel(LEGEND, x=0.008, ha="left", fontsize=7.5, color=INK)
    grid = figure.subplots(ROWS, COLUMNS, squeeze=False).ravel()
    for axes, fault in zip(grid, faults, strict=False):
        _panel(axes, readings, fault)
    for axes in grid[len(faults) :]:
        axes.set_visible(False)
    return save(figure, path)


def correlated_channels(readings: JudgedReadings, channel: int, count: int = CORRELATED) -> list[int]:
    """Return the channels of the same variable whose readings are correlated most with those of a channel.

    Flagged readings of either are left out, since a fault would hide what the channels have in common.
    """
    spans = [span for *_, span in readings.by_channel()]
    variable = readings.channels[channel][1]
    others = [place for place, (_, name) in enumerate(readings.channels) if name == variable and place != channel]
    own_slots, own = _sound(readings, spans[channel])
    correlations = []
    for other in others:
        slots, values = _sound(readings, spans[other])
        _, mine, theirs = np.intersect1d(own_slots, slots, assume_unique=True, return_indices=True)
        a, b = own[mine], values[theirs]
        if len(a) >= FEW_COMMON and a.std() > 0 and b.std() > 0:
            correlations.append((float(np.corrcoef(a, b)[0, 1]), other))
    return [other for _, other in sorted(correlations, reverse=True)[:count]]


def _sound(readings: JudgedReadings, span: slice) -> tuple[IntArray, FloatArray]:
    """Return the slots of a channel in which a reading is not flagged, each once, with the first such reading."""
    chosen = np.isin(readings.flag[span], (Flag.GOOD, Flag.NOT_EVALUATED))
    slots, first = np.unique(readings.slot[span][chosen], return_index=True)
    return slots, readings.value[span][chosen][first]


def _panel(axes: Any, readings: JudgedReadings, judged: JudgedFault) -> None:
    fault, spans = judged.fault, [span for *_, span in readings.by_channel()]
    beside = max(fault.end - fault.start, BESIDE)
    start = max(fault.start - beside, int(readings.time.min()))
    end = min(fault.end + beside, int(readings.time.max()) + 1)

    def within(channel: int) -> slice:
        span = spans[channel]
        first, last = np.searchsorted(readings.time[span], (start, end)).tolist()
        return slice(span.start + first, span.start + last)

    own = within(judged.channel)
    time, flag = readings.time[own], readings.flag[own]
    value, cleaned = readings.value[own], readings.cleaned[own]
    low, high = _limits(value, cleaned, readings.value[judged.place][readings.flag[judged.place] != Flag.MISSING])
    clock, shown = _clock(time), np.clip(value, low, high)
    axes.axvspan(_clock(fault.start), _clock(fault.end), color="#fbeaea", lw=0)
    for other in correlated_channels(readings, judged.channel):
        place = within(other)
        if place.stop > place.start:
            shifted = readings.value[place] + _shift(readings, own, place)
            axes.plot(*_broken(readings.time[place], shifted, readings.step), color=GREYS[2], lw=0.5)
    axes.plot(*_broken(time, shown, readings.step), color=INK, lw=0.7)
    axes.plot(*_broken(time, cleaned, readings.step), color=BLUE, lw=0.7)
    for which, colour in ((Flag.SUSPECT, DOUBTFUL), (Flag.FAIL, RED)):
        axes.plot(clock[flag == which], shown[flag == which], ".", color=colour, ms=2.4, mew=0)
    wrong = readings.wrong[own]
    bottom = axes.get_xaxis_transform()
    axes.plot(clock[wrong], np.full(wrong.sum(), 0.02), "|", color="black", ms=4, mew=0.7, transform=bottom)
    pad = 0.06 * (high - low)
    axes.set_ylim(low - pad, high + pad)
    axes.set_xlim(_clock(start), _clock(end))
    confidence = "none" if np.isnan(fault.confidence) else f"{fault.confidence:.2f}"
    size = "-" if np.isnan(fault.size) else f"{fault.size:.3g}"
    sensor, variable = readings.channels[judged.channel]
    described = f"{how_long(fault.end - fault.start)}, size {size}, confidence {confidence}"
    axes.set_title(f"{sensor} {variable}: {fault.reason}\n{described}", loc="left", fontsize=6.5, color=INK, pad=3)
    _dates(axes)


def _shift(readings: JudgedReadings, own: slice, other: slice) -> float:
    """Return what brings another channel to the level of one: their median difference where neither is flagged."""
    (own_slots, values), (slots, others) = _sound(readings, own), _sound(readings, other)
    _, mine, theirs = np.intersect1d(own_slots, slots, assume_unique=True, return_indices=True)
    if mine.size:
        return float(np.median(values[mine] - others[theirs]))
    return float(np.median(readings.value[own]) - np.median(readings.value[other]))


def _limits(value: FloatArray, cleaned: FloatArray, faulty: FloatArray) -> tuple[float, float]:
    """Return the lower and the upper edge of a panel: `value` is all raw readings, `faulty` those of the fault."""
    parts = [part for part in (cleaned[np.isfinite(cleaned)], faulty) if part.size] or [value]
    middle = [np.quantile(part, (0.01, 0.99)) for part in parts]
    low, high = float(np.min(middle)), float(np.max(middle))
    reach, all_values = REACH * (high - low) or np.inf, np.concatenate([value, *parts])
    low, high = max(low - reach, float(all_values.min())), min(high + reach, float(all_values.max()))
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _broken(time: IntArray, values: FloatArray, step: int) -> tuple[Any, FloatArray]:
    """Return the times and values of a line, with a NaN in every long gap."""
    gaps = np.flatnonzero(np.diff(time) > GAP * step) + 1
    return _clock(np.insert(time, gaps, time[gaps - 1] + step)), np.insert(values, gaps, np.nan)


def _clock(time: IntArray | int) -> Any:
    return np.asarray(time).astype("datetime64[us]")


def _dates(axes: Any) -> None:
    dates: Any = import_module("matplotlib.dates")
    ticks = dates.AutoDateLocator(minticks=2, maxticks=5)
    axes.xaxis.set_major_locator(ticks)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(ticks))
    bare(axes, sides=("bottom", "left"))
    axes.tick_params(labelsize=5.5, length=2, pad=1.5)
    axes.xaxis.get_offset_text().set(fontsize=5.5, color=INK)
