"""`draw_panels` draws faults of a real archive, one panel each, for a person to look at."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from archives.judging import JudgedFault, JudgedReadings
from sensormend.pipeline.sentences import how_long
from sensormend.plot.style import BLUE, GREYS, INK, bare, blank, dates_below, heading, save
from sensormend.readings import DAY, Flag

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


def correlated_channels(readings: JudgedReadings, name: tuple[str, str], count: int = CORRELATED) -> list[str]:
    """Return the sensors whose readings of the same variable are correlated most with those of a channel.

    Flagged readings of either are left out, since a fault would hide what the channels have in common.
    """
    table = _sound(readings.rows[readings.rows["variable"] == name[1]])
    if name[0] not in table:
        return []
    correlation = table.apply(lambda other: table[name[0]].corr(other, min_periods=FEW_COMMON)).drop(name[0])
    return list(correlation.dropna().nlargest(count).index)


def _sound(rows: Any) -> Any:
    """Return the readings that are not flagged as a table of slots and sensors; of several in a slot the first."""
    sound = rows[rows["flag"].isin([Flag.GOOD, Flag.NOT_EVALUATED])].drop_duplicates(["channel", "slot"])
    return sound.astype({"sensor": str}).pivot(index="slot", columns="sensor", values="value")


def _panel(axes: Any, readings: JudgedReadings, judged: JudgedFault) -> None:
    fault, rows, (sensor, variable) = judged.fault, readings.rows, judged.name
    beside, (first, last) = max(fault.end - fault.start, BESIDE), rows["time"].agg(["min", "max"])
    start, end = max(fault.start - beside, int(first)), min(fault.end + beside, int(last) + 1)
    shown = rows[(rows["variable"] == variable) & (rows["time"] >= start) & (rows["time"] < end)]
    by_sensor, sound = dict(iter(shown.groupby("sensor", observed=True))), _sound(shown)
    own, wrong = by_sensor[sensor], readings.wrong[shown.index]
    faulty = rows.iloc[judged.place]
    low, high = _limits(own["value"], own["cleaned"].dropna(), faulty.loc[faulty["flag"] != Flag.MISSING, "value"])
    clock, value = _clock(own["time"]), own["value"].clip(low, high)
    axes.axvspan(_clock(fault.start), _clock(fault.end), color="#fbeaea", lw=0)
    for other in correlated_channels(readings, judged.name):
        if other in by_sensor:
            # Shifted to the same level, by the median difference where neither is flagged.
            shift = (sound[sensor] - sound[other]).median() if {sensor, other} <= {*sound} else np.nan
            if np.isnan(shift):
                shift = own["value"].median() - by_sensor[other]["value"].median()
            _line(axes, by_sensor[other]["time"], by_sensor[other]["value"] + shift, readings.step, GREYS[2], 0.5)
    _line(axes, own["time"], value, readings.step, INK, 0.7)
    _line(axes, own["time"], own["cleaned"], readings.step, BLUE, 0.7)
    for which, colour in ((Flag.SUSPECT, DOUBTFUL), (Flag.FAIL, RED)):
        axes.plot(clock[own["flag"] == which], value[own["flag"] == which], ".", color=colour, ms=2.4, mew=0)
    marks = clock[wrong[own.index]]
    bottom = axes.get_xaxis_transform()
    axes.plot(marks, np.full(len(marks), 0.02), "|", color="black", ms=4, mew=0.7, transform=bottom)
    pad = 0.06 * (high - low)
    axes.set_ylim(low - pad, high + pad)
    axes.set_xlim(_clock(start), _clock(end))
    confidence = "none" if np.isnan(fault.confidence) else f"{fault.confidence:.2f}"
    size = "-" if np.isnan(fault.size) else f"{fault.size:.3g}"
    described = f"{how_long(fault.end - fault.start)}, size {size}, confidence {confidence}"
    axes.set_title(f"{sensor} {variable}: {fault.reason}\n{described}", loc="left", fontsize=6.5, color=INK, pad=3)
    dates_below(axes, least=2, most=5)
    bare(axes, sides=("bottom", "left"))
    axes.tick_params(labelsize=5.5, length=2, pad=1.5)
    axes.xaxis.get_offset_text().set(fontsize=5.5, color=INK)


def _limits(value: Any, cleaned: Any, faulty: Any) -> tuple[float, float]:
    """Return the lower and the upper edge of a panel: `value` is all raw readings, `faulty` those of the fault."""
    parts = [part for part in (cleaned, faulty) if len(part)] or [value]
    middle = [np.quantile(part, (0.01, 0.99)) for part in parts]
    low, high = float(np.min(middle)), float(np.max(middle))
    reach, all_values = REACH * (high - low) or np.inf, pd.concat([value, *parts])
    low, high = max(low - reach, float(all_values.min())), min(high + reach, float(all_values.max()))
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _line(axes: Any, time: Any, values: Any, step: int, colour: str, width: float) -> None:
    """Draw a line that is broken in every long gap."""
    values = values.where(~(time.diff() > GAP * step))
    axes.plot(_clock(time), values, color=colour, lw=width)


def _clock(time: Any) -> Any:
    return np.asarray(time).astype("datetime64[us]")
