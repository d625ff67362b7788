"""`map_section` draws the network on its map at one time, raw and cleaned."""

from __future__ import annotations

import math

import numpy as np

from sensormend.pipeline.health import FILL, SPIKE
from sensormend.pipeline.sentences import counted
from sensormend.plot.canvas import MAP_COLOURS
from sensormend.plot.maps import group_means, value_range
from sensormend.readings import DAY, Flag
from sensormend.recovery import BoolArray, FloatArray
from sensormend.report.markup import Html, channel_name, concat, minute, rounded, shortened, tag
from sensormend.report.report_data import ReportData
from sensormend.report.svg import short, svg, text, value_ticks
from sensormend.views.atlas import Atlas, atlas, moment

__all__ = ["map_section", "telling_moment"]

SHADES = 32
WIDTH, MAX_HEIGHT = 460.0, 560.0
MAX_NAMES, LETTER = 12, 7.0


def map_section(data: ReportData) -> Html | None:
    """Return the section; None where positions are not known."""
    if not data.network.places:
        return None
    drawn = [part for variable in data.variables if (part := _maps(data, atlas(data.reader), variable))]
    return tag("section", tag("h2", "On the map"), *drawn, _hatch(), id="map") if drawn else None


def telling_moment(data: ReportData, variable: str) -> tuple[int, int] | None:
    """Return the latest time at which most sensors were faulty, and their number.

    Without any fault it is the latest time of the last date with most readings.
    """
    archive = data.reader.archive
    assert archive is not None
    first, last = data.start // DAY, (data.end - 1) // DAY
    change = np.zeros(last - first + 2, np.int64)
    for fault in data.reader.faults:
        if fault.variable == variable and fault.reason not in ("silent", "spike"):
            change[min(max(fault.start // DAY - first, 0), last - first)] += 1
            change[min(max(-(-fault.end // DAY) - first, 0), last - first + 1)] -= 1
    wrong = np.cumsum(change)[:-1]
    date = first + int(wrong.size - 1 - wrong[::-1].argmax()) if wrong.any() else last
    rows = archive.rows(None, date * DAY, date * DAY + DAY, variable)
    if not len(rows):
        return None
    times, slot = np.unique(rows.time, return_inverse=True)
    wrong_rows = (rows.flag == Flag.FAIL) & (rows.reason != SPIKE) & (rows.reason != FILL)
    readings = np.bincount(slot, weights=rows.n > 0)
    faulty = np.bincount(slot, weights=wrong_rows & (rows.n > 0))
    # Of times with equally many, the one at which the wrong readings are farthest off.
    distance = np.where(wrong_rows, np.nan_to_num(np.abs(rows.value - rows.cleaned)), 0)
    best = int(np.lexsort((times, np.bincount(slot, weights=distance), readings, faulty))[-1])
    return int(times[best]), int(faulty[best])


def _maps(data: ReportData, plan: Atlas, variable: str) -> Html | None:
    telling = telling_moment(data, variable)
    if telling is None:
        return None
    time, count = telling
    values = moment(data.reader, time, variable)
    raw, cleaned = (np.array(column, dtype=float) for column in (values.value, values.cleaned))
    if not np.isfinite(cleaned).any():
        return None
    faulty, limits = np.array(values.state) == "faulty", value_range(cleaned)
    names = [site.sensor for site, wrong in zip(plan.sensors, faulty, strict=True) if wrong]
    why = (
        f"the latest time at which most sensors were faulty at once: {count}"
        if count
        else "no sensor was ever faulty, so this is the last day"
    )
    parts: list[str] = [tag("h3", channel_name(variable))] if data.several else []
    parts.append(tag("p", f"{minute(time)} UTC, {why}. Every sensor has the area that is nearest to it."))
    panels = [
        tag("figure", _panel(plan, raw, faulty, limits, "what came", names),
            tag("figcaption", "Raw: what came")),
        tag("figure", _panel(plan, cleaned, faulty, limits, "what was made of it"),
            tag("figcaption", "CleanedPeriod: what was made of it")),
    ]  # fmt: skip
    parts += [tag("div", *panels, class_="pair"), _bar(*limits)]
    ringed: list[str] = []
    if names:
        more = f" and {len(names) - MAX_NAMES:,} more." if len(names) > MAX_NAMES else "."
        ringed = ["Ringed as faulty: ", concat(map(channel_name, names[:MAX_NAMES]), ", "), more]
    parts.append(tag("p", *ringed, " Hatched: no reading." if not np.isfinite(raw).all() else "",
                     " Readings past the colour bar have the colour of its end.", class_="note"))  # fmt: skip
    if plan.total > len(plan.sensors):
        shown = f"{len(plan.sensors):,} of {counted(plan.total, 'sensor')} are shown."
        parts.append(tag("p", shown, class_="note"))
    return concat(parts)


def _panel(
    plan: Atlas, values: FloatArray, faulty: BoolArray, limits: tuple[float, float], description: str,
    names: list[str] | None = None,
) -> Html:  # fmt: skip
    """Return one map; with the `names` of the faulty sensors it has them, where there are few, and a scale bar."""
    wide = min(WIDTH, MAX_HEIGHT / plan.height)
    size = np.array([wide, wide])
    by_shade: dict[str, list[str]] = {}
    low, high = limits
    cell = np.array([site.cell for site in plan.sensors], np.intp)
    means = group_means(cell, len(plan.cells), values)
    for corners, mean in zip(plan.cells, means.tolist(), strict=True):
        fill = _shade((mean - low) / (high - low)) if math.isfinite(mean) else ""
        by_shade.setdefault(fill, []).append(_polygon(np.reshape(corners, (-1, 2)) * size))
    hatched = by_shade.pop("", [])
    drawn: list[str] = [tag("path", d="".join(parts), fill=fill, class_="cell") for fill, parts in by_shade.items()]
    if hatched:
        drawn += [tag("path", d="".join(hatched), class_="under"), tag("path", d="".join(hatched), fill="url(#hatch)")]
    # Dots of thousands of sensors must not cover the cells.
    dot = 3 if len(plan.sensors) <= 300 else 2 if len(plan.sensors) <= 1000 else 1.2
    at = np.array([[site.x, site.y] for site in plan.sensors]) * size
    drawn.append(
        tag(
            "path",
            d="".join(f"M{short(x)} {short(y)}h0" for x, y in at.tolist()),
            class_="dots",
            stroke_width=short(dot),
        )
    )
    for x, y in at[faulty].tolist():
        drawn += [tag("circle", cx=short(x), cy=short(y), r=6, class_=kind) for kind in ("halo", "ring")]
    if names and len(names) <= MAX_NAMES:
        for (x, y), name in zip(at[faulty].tolist(), names, strict=True):
            right = x > wide / 2
            letters = int((x if right else wide - x) / LETTER)
            # The line below the map has the full names.
            x, anchor = (x - 10, "end") if right else (x + 10, "start")
            drawn.append(text(x, y + 4, shortened(name, letters), at=anchor, class_="on-map"))
    drawn += [] if names is None else _ruler(plan.kilometres, wide, wide * plan.height)
    return svg(wide, wide * plan.height, *drawn, description=f"Map of {description}", widest=wide)


def _hatch() -> Html:
    """Return the pattern of cells without a reading, for all maps."""
    lines = tag("path", d="M-1 1l2-2M0 6l6-6M5 7l2-2", class_="hatch")
    pattern = tag("pattern", lines, id="hatch", width=6, height=6, patternUnits="userSpaceOnUse")
    return tag("svg", tag("defs", pattern), class_="unseen", aria_hidden="true")


def _ruler(kilometres: float, wide: float, tall: float) -> list[str]:
    """Return the scale bar."""
    if not kilometres > 0:
        return []
    power = 10.0 ** math.floor(math.log10(kilometres / 4))
    length = max(power * factor for factor in (1, 2, 5) if power * factor <= kilometres / 4)
    end = 12 + length / kilometres * wide
    label = f"{length:g} km" if length >= 1 else f"{1000 * length:g} m"
    line = f"M12 {short(tall - 16)}v5H{short(end)}v-5"
    return [tag("path", d=line, class_="ruler-halo"), tag("path", d=line, class_="ruler"),
            text(end + 6, tall - 10, label, class_="on-map")]  # fmt: skip


def _polygon(corners: FloatArray) -> str:
    """Return a polygon, in whole steps from corner to corner so that neighbours share their edges."""
    tenths = np.round(corners * 10).astype(np.int64)
    steps = "".join(f"l{short(x / 10)} {short(y / 10)}" for x, y in np.diff(tenths, axis=0).tolist())
    return f"M{short(tenths[0, 0] / 10)} {short(tenths[0, 1] / 10)}{steps}z"


def _shade(place: float) -> str:
    """Return the colour at a position between 0 and 1, one of a few steps."""
    step = round(min(max(place, 0.0), 1.0) * (SHADES - 1)) / (SHADES - 1) * (len(MAP_COLOURS) - 1)
    left = min(int(step), len(MAP_COLOURS) - 2)
    pair = [[int(stop[k : k + 2], 16) for k in (1, 3, 5)] for stop in MAP_COLOURS[left : left + 2]]
    return "#" + "".join(f"{round(a + (b - a) * (step - left)):02x}" for a, b in zip(*pair, strict=True))


def _bar(low: float, high: float) -> Html:
    """Return the colour bar."""
    left, wide = 20.0, 320.0
    drawn: list[str] = [
        tag("rect", x=short(left + wide * k / SHADES), y=0, width=short(wide / SHADES + 0.3), height=10,
            fill=_shade(k / (SHADES - 1)))
        for k in range(SHADES)
    ]  # fmt: skip
    for tick in value_ticks(low, high):
        x = left + wide * (tick - low) / (high - low)
        drawn += [tag("path", d=f"M{short(x)} 10v4", class_="tick"), text(x, 25, f"{tick:g}", at="middle")]
    description = f"Colours from {rounded(low)} to {rounded(high)}"
    return tag("div", svg(360, 30, *drawn, description=description), class_="colours")
