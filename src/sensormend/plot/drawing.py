"""`draw_series` draws one sensor over time, `draw_health` the health matrix of a network."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.pipeline.health import HEALTH, PLAIN_REASONS, by_trouble, carry_over_gaps, states
from sensormend.plot.canvas import BLUE, GREYS, HEALTH_COLOURS, INK, ORANGE, bare, blank, heading, save
from sensormend.recovery import BoolArray, FloatArray, Recovery

__all__ = [
    "CLEANED",
    "RAW",
    "SensorSeries",
    "dates",
    "draw_health",
    "draw_sensor",
    "draw_series",
    "health",
    "legend_above",
    "picture",
    "worst",
]

RAW, CLEANED, TRUTH = ORANGE, BLUE, "#1f2933"

MAX_LABELS = 30

SHADES = {
    "silent": ("#8a94a0", 0.16, "#56606b"),
    "suspect": ("#f0c419", 0.22, "#7a6000"),
    "duplicate": ("#f0c419", 0.22, "#7a6000"),
    "not evaluated": ("#8a94a0", 0.10, "#56606b"),
    "alone": ("#8a94a0", 0.10, "#56606b"),
}
"""Colour, opacity and ink of a shaded span by its label; all other labels are faults."""

FAULT_SHADE = (ORANGE, 0.10, "#a04000")
LETTER = 0.0066
"""Approximate width of a letter of a label, as a share of a picture eleven inches wide."""


@dataclass(frozen=True, eq=False)
class SensorSeries:
    """One sensor over time, slot by slot.

    Attributes
    ----------
    clock, step
        Start of every slot, and its length.
    raw, cleaned, lower, upper, truth
        NaN where there is no value; None for a line that does not exist.
    words
        The label that a slot is shaded with: a reason, `silent`, or empty.
    spikes
        Single wrong readings.
    """

    clock: NDArray[np.datetime64]
    step: np.timedelta64
    raw: FloatArray
    cleaned: FloatArray
    lower: FloatArray | None
    upper: FloatArray | None
    words: NDArray[Any]
    spikes: BoolArray
    truth: FloatArray | None = None


def health(readings: FloatArray, recovery: Recovery) -> NDArray[np.int8]:
    """Return one index into `HEALTH` per (sensor, day) of readings (sensor, slot, day)."""
    missing, judged = np.isnan(readings).sum(axis=1), recovery.evaluated
    wrong = recovery.faulty | (recovery.wrong & ~recovery.spikes).any(axis=1)
    return states(
        {
            "slots": np.full_like(missing, readings.shape[1]),
            "missing": missing,
            "spikes": recovery.spikes.sum(axis=1),
            "unjudged": (~judged).astype(int),
            # A day that was not judged has no other state.
            "suspect": (recovery.suspect & judged).astype(int),
            "faulty": (wrong & judged).astype(int),
        }
    )


def worst(readings: FloatArray, recovery: Recovery, days: int = 28) -> tuple[int, slice]:
    """Choose what to show: among the sensors flagged most, the span that shows most of their faults.

    A span that is faulty throughout has nothing to compare with, so half and half is best; each further reason
    counts as much as a fifth of that.
    """
    total = readings.shape[2]
    days = min(days, total)
    best, choice = -1.0, (0, slice(0, days))
    for sensor in np.argsort(-recovery.faulty.sum(axis=1), kind="stable")[:8]:
        for first in range(total - days + 1):
            window = slice(first, first + days)
            share = float(recovery.faulty[sensor, window].mean())
            reasons = set(recovery.reason[sensor, window][recovery.faulty[sensor, window]].tolist())
            silent = np.isnan(readings[sensor, :, window]).all(axis=0).any()
            merit = 4 * share * (1 - share) + 0.2 * len(reasons) + 0.2 * bool(silent)
            if merit > best:
                best, choice = merit, (int(sensor), window)
    return choice


def picture(
    path: Path | str,
    *,
    readings: FloatArray,
    recovery: Recovery,
    times: NDArray[np.datetime64],
    sensors: tuple[str, ...],
    truth: FloatArray | None = None,
    quantity: str = "value",
    unit: str = "",
    title: str = "",
) -> Path:
    """Write one picture, in the format of the path's ending: the worst sensor above the health of the network.

    Axes are (sensor, slot, day); those of `times`, the starts of the slots, (slot, day).
    """
    figure = blank(11, 7.6)
    sensor, days = worst(readings, recovery)
    grid = figure.add_gridspec(2, 1, height_ratios=(1.15, 1), hspace=0.06)
    above, below = figure.add_subplot(grid[0]), figure.add_subplot(grid[1])
    heading(figure, title)
    draw_sensor(above, readings, recovery, times, sensor, days, truth=truth, quantity=quantity, unit=unit)
    above.set_title(f"Sensor {sensors[sensor]}", loc="left", fontsize=11, color=INK, pad=38)
    draw_health(below, health(readings, recovery), times, sensors, mark=(sensor, days))
    return save(figure, path)


def draw_sensor(
    axes: Any,
    readings: FloatArray,
    recovery: Recovery,
    times: NDArray[np.datetime64],
    sensor: int,
    days: slice,
    *,
    truth: FloatArray | None = None,
    quantity: str = "value",
    unit: str = "",
) -> None:
    """Draw one sensor over time: raw, cleaned with its interval, the truth where known, faults shaded."""
    slots, raw = times.shape[0], _line(readings, sensor, days)
    reasons = np.array([PLAIN_REASONS.get(word, word) or "faulty" for word in recovery.reason[sensor, days].tolist()])
    wrong = _line(recovery.wrong & ~recovery.spikes, sensor, days).astype(bool)
    words = np.where(wrong, np.repeat(reasons, slots), "").astype(object)
    carry_over_gaps(words, np.isnan(raw))
    words[np.repeat(np.isnan(readings[sensor, :, days]).all(axis=0), slots)] = "silent"
    series = SensorSeries(
        clock=times[:, days].T.reshape(-1),
        step=np.timedelta64(24 * 60 // slots, "m"),
        raw=raw,
        cleaned=_line(recovery.cleaned, sensor, days),
        lower=None if recovery.lower is None else _line(recovery.lower, sensor, days),
        upper=None if recovery.upper is None else _line(recovery.upper, sensor, days),
        words=words,
        spikes=_line(recovery.spikes, sensor, days).astype(bool),
        truth=None if truth is None else _line(truth, sensor, days),
    )
    draw_series(axes, series, quantity=quantity, unit=unit)


def draw_series(axes: Any, series: SensorSeries, *, quantity: str = "value", unit: str = "") -> float:
    """Draw a series: raw, cleaned with its interval, the truth where known; slots with a label are shaded.

    Returns the height of the legend, which stands above the labels.
    """
    clock, raw, lower, upper = series.clock, series.raw, series.lower, series.upper
    known = (series.cleaned, lower, upper, series.truth)
    bottom, top = _limits([line for line in known if line is not None], raw)
    axes.set_ylim(bottom, top)
    axes.set_xlim(clock[0], clock[-1] + series.step)
    _shade(axes, series)

    axes.plot(clock, raw, color=RAW, lw=1.0, alpha=0.9, label="raw", zorder=3, marker=".", ms=1.8)
    _mark_outside(axes, clock, raw, bottom, top)
    spikes = series.spikes
    if spikes.any():
        axes.plot(
            clock[spikes], np.clip(raw[spikes], bottom, top), "o", ms=7, mfc="none", mec=RAW, mew=1.4,
            zorder=6, label="single wrong reading",
        )  # fmt: skip
    axes.plot(clock, series.cleaned, color=CLEANED, lw=1.6, label="cleaned", zorder=5, solid_capstyle="round")
    if lower is not None and upper is not None:
        axes.fill_between(clock, lower, upper, color=CLEANED, alpha=0.25, lw=0, zorder=2, label="its interval")
    if series.truth is not None:
        axes.plot(clock, series.truth, color=TRUTH, lw=0.9, ls=(0, (1, 1.4)), label="truth", zorder=6)
    axes.set_ylabel(f"{quantity}, {unit}" if unit else quantity, color=INK)
    dates(axes)
    bare(axes)
    axes.grid(axis="y", color=GREYS[3], lw=0.6, zorder=0)
    above = 1.125 if (series.words != "").any() else 1.02
    legend_above(axes, above)
    return above


def legend_above(axes: Any, above: float) -> None:
    """Put the legend above the axes, where it hides nothing: in one line, or two where the names are long."""
    labels = axes.get_legend_handles_labels()[1]
    wide = sum(len(label) + 7 for label in labels) * LETTER > 0.85
    axes.legend(
        loc="lower right", bbox_to_anchor=(1.0, above), ncols=-(-len(labels) // 2) if wide else len(labels),
        frameon=False, fontsize=9, handlelength=1.8, columnspacing=1.4, borderaxespad=0, labelcolor=INK,
    )  # fmt: skip


def draw_health(
    axes: Any,
    state: NDArray[np.int8],
    times: NDArray[np.datetime64],
    sensors: tuple[str, ...],
    *,
    mark: tuple[int, slice] | None = None,
    cell_days: int = 1,
    title: str = "Health of every sensor, day by day",
    max_labels: int = MAX_LABELS,
) -> None:
    """Draw the health matrix, sensors by days, those with most trouble on top; `mark` frames one span."""
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch, Rectangle

    order = by_trouble(state)
    # Matplotlib counts dates in days since 1970, as numpy does.
    first, last = (float(day.astype("datetime64[m]").astype(int)) / (24 * 60) for day in times[0, [0, -1]])
    last += cell_days
    cells = ListedColormap(list(HEALTH_COLOURS.values())).with_extremes(under="white")
    axes.imshow(
        state[order], cmap=cells, vmin=-0.5, vmax=len(HEALTH) - 0.5, aspect="auto", interpolation="nearest",
        extent=(first, last, len(sensors) - 0.5, -0.5), zorder=1,
    )  # fmt: skip
    axes.xaxis_date()
    if len(sensors) <= max_labels:
        for edge in np.arange(0.5, len(sensors) - 1):
            axes.axhline(edge, color="white", lw=0.8, zorder=2)
        axes.set_yticks(range(len(sensors)), [sensors[index] for index in order], fontsize=7)
    else:
        axes.set_yticks([])
        axes.set_ylabel(f"{len(sensors):,} sensors, most trouble on top", color=INK)
    if mark is not None:
        sensor, days = mark
        row = int(np.flatnonzero(order == sensor)[0])
        left, wide = first + (days.start or 0), len(range(*days.indices(state.shape[1])))
        frame = Rectangle((left, row - 0.5), wide, 1, fill=False, ec=INK, lw=1.6, zorder=4, clip_on=False)
        axes.add_patch(frame)
        if len(sensors) > max_labels:
            axes.set_yticks([row], [sensors[sensor]], fontsize=8)
    axes.set_title(title, loc="left", fontsize=11, color=INK, pad=8)
    present = [word for code, word in enumerate(HEALTH) if (state == code).any()]
    boxes = [Patch(fc=HEALTH_COLOURS[word], ec="#b8c0c8", lw=0.5, label=word) for word in present]
    axes.legend(
        handles=boxes, loc="lower right", bbox_to_anchor=(1.0, 1.015), ncols=len(boxes), frameon=False,
        fontsize=9, handlelength=1.1, handleheight=1.1, columnspacing=1.3, borderaxespad=0, labelcolor=INK,
    )  # fmt: skip
    dates(axes)
    bare(axes)
    axes.tick_params(axis="y", length=0)


def _line(values: FloatArray | BoolArray, sensor: int, days: slice) -> FloatArray:
    return np.asarray(values[sensor, :, days].T.reshape(-1), dtype=float)


def _limits(lines: list[FloatArray], raw: FloatArray) -> tuple[float, float]:
    """Return axis limits that show wrong readings, but do not flatten the right ones to a line."""
    known = np.concatenate(lines)
    known, read = known[np.isfinite(known)], raw[np.isfinite(raw)]
    if not known.size:
        known = read if read.size else np.zeros(1)
    low, high = float(known.min()), float(known.max())
    spread = max(high - low, 1e-9)
    bottom = max(low - 0.6 * spread, float(read.min()) if read.size else low)
    top = min(high + 0.6 * spread, float(read.max()) if read.size else high)
    margin = 0.05 * spread
    return min(low, bottom) - margin, max(high, top) + margin


def _shade(axes: Any, series: SensorSeries) -> None:
    """Shade the slots that have a label, and write it above each run of them where there is space."""
    words, clock, step = series.words, series.clock, series.step
    kind = np.where(words == "", 0, 1)
    for shade, word in enumerate(SHADES, start=2):
        kind[words == word] = shade
    edges = np.flatnonzero(np.diff(kind, prepend=-1, append=-1))
    span = float((clock[-1] + step - clock[0]) / np.timedelta64(1, "s"))
    runs = []
    for first, stop in pairwise(edges):
        if kind[first]:
            left, right = clock[first], clock[stop - 1] + step
            colour, alpha, ink = SHADES.get(str(words[first]), FAULT_SHADE)
            axes.axvspan(left, right, color=colour, alpha=alpha, lw=0, zorder=0)
            label = ", ".join(list(dict.fromkeys(words[first:stop].tolist()))[:2])
            runs.append((left, right, label, ink))
    taken: list[list[tuple[float, float]]] = [[], []]
    # The long ones first: where two labels do not fit, the longer span keeps its own.
    for left, right, label, ink in sorted(runs, key=lambda run: run[0] - run[1]):
        middle = left + (right - left) / 2
        place = float((middle - clock[0]) / np.timedelta64(1, "s")) / span
        reach = (place - LETTER * (len(label) + 1) / 2, place + LETTER * (len(label) + 1) / 2)
        free = (level for level in (0, 1) if all(reach[1] < low or reach[0] > high for low, high in taken[level]))
        level = next(free, None)
        if level is None:
            continue
        taken[level].append(reach)
        axes.annotate(
            label, (middle, 1.0), xycoords=("data", "axes fraction"), xytext=(0, 14 if level else 4),
            textcoords="offset points", ha="center", va="bottom", fontsize=8.5, color=ink, annotation_clip=False,
        )  # fmt: skip


def _mark_outside(axes: Any, clock: NDArray[np.datetime64], raw: FloatArray, bottom: float, top: float) -> None:
    """Mark readings past the edge with a small arrow, so that none is hidden."""
    for beyond, edge, arrow in ((raw > top, top, "^"), (raw < bottom, bottom, "v")):
        if beyond.any():
            axes.plot(clock[beyond], np.full(beyond.sum(), edge), arrow, ms=4, color=RAW, clip_on=False, zorder=7)


def dates(axes: Any) -> None:
    """Write dates below the axis, as fine as its span needs."""
    module: Any = import_module("matplotlib.dates")
    left, right = axes.get_xlim()
    form = "%d %b\n%H:%M" if right - left < 4 else "%d %b" if right - left < 400 else "%b %Y"
    # Even steps: with multiples of the month's days the labels of the 29th and the 1st would overlap.
    axes.xaxis.set_major_locator(module.AutoDateLocator(minticks=4, maxticks=9, interval_multiples=right - left < 4))
    axes.xaxis.set_major_formatter(module.DateFormatter(form))
