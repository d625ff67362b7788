"""The network on its map at one telling moment: what came, beside what was made of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sensormend.pipeline.health import SPIKE
from sensormend.pipeline.sentences import counted
from sensormend.readings import DAY, Flag, Rows
from sensormend.recovery import BoolArray, FloatArray
from sensormend.report.html import Html, joined, name_of, tag
from sensormend.report.material import Material
from sensormend.report.svg import short, svg, text, value_ticks
from sensormend.report.words import moment, spread
from sensormend.views.atlas import Atlas, atlas

__all__ = ["ground", "telling_moment"]

# ColorBrewer's RdYlBu, the other way round: light in the middle and coloured, never black, at both ends.
STOPS = ("#313695", "#4575b4", "#74add1", "#abd9e9", "#e0f3f8", "#ffffbf", "#fee090", "#fdae61", "#f46d43", "#d73027",
         "#a50026")  # fmt: skip
SHADES = 32
WIDTH, TALLEST = 460.0, 560.0
MOST_NAMES, LETTER = 12, 7.0


@dataclass(frozen=True, eq=False)
class _Scene:
    """A moment on the map: for every sensor of the atlas what came, what was made of it, and whether it was faulty."""

    value: FloatArray
    cleaned: FloatArray
    faulty: BoolArray
    low: float
    high: float


def ground(material: Material) -> Html | None:
    """Return the section; None where nobody knows where the sensors stand."""
    if not material.network.places:
        return None
    drawn = [part for variable in material.variables if (part := _maps(material, atlas(material.look), variable))]
    return tag("section", tag("h2", "On the map"), *drawn, _hatch(), id="map") if drawn else None


def telling_moment(material: Material, variable: str) -> tuple[int, int, Rows] | None:
    """Return the latest time at which most sensors were faulty, how many these were, and the rows of its day.

    Where none ever was it is the latest time with most readings, of the last date.
    """
    archive = material.look.archive
    assert archive is not None
    first, last = material.start // DAY, (material.end - 1) // DAY
    change = np.zeros(last - first + 2, np.int64)
    for fault in material.look.faults:
        if fault.variable == variable and fault.reason not in ("silent", "spike"):
            change[min(max(fault.start // DAY - first, 0), last - first)] += 1
            change[min(max(-(-fault.end // DAY) - first, 0), last - first + 1)] -= 1
    wrong = np.cumsum(change)[:-1]
    date = first + int(wrong.size - 1 - wrong[::-1].argmax()) if wrong.any() else last
    rows = archive.rows(None, date * DAY, date * DAY + DAY, variable)
    if not len(rows):
        return None
    times, slot = np.unique(rows.time, return_inverse=True)
    heard = np.bincount(slot, weights=rows.n > 0)
    faulty = np.bincount(slot, weights=_faulty(rows) & (rows.n > 0))
    # Of hours that have equally many, the one at which the wrong ones are farthest off shows most.
    apart = np.where(_faulty(rows) & np.isfinite(rows.value) & np.isfinite(rows.cleaned), rows.value - rows.cleaned, 0)
    far = np.bincount(slot, weights=np.abs(apart))
    best = int(np.lexsort((times, far, heard, faulty))[-1])
    return int(times[best]), int(faulty[best]), rows


def _faulty(rows: Rows) -> BoolArray:
    return np.asarray((rows.flag == Flag.FAIL) & (rows.reason != SPIKE))


def _maps(material: Material, ground_plan: Atlas, variable: str) -> Html | None:
    told = telling_moment(material, variable)
    if told is None:
        return None
    time, faulty, rows = told
    scene = _scene(ground_plan, rows.taken(rows.time == time))
    if scene is None:
        return None
    who = [site.sensor for site, wrong in zip(ground_plan.sensors, scene.faulty, strict=True) if wrong]
    why = (
        f"the latest time at which most sensors were faulty at once: {faulty}"
        if faulty
        else "no sensor was ever faulty, so this is the last day"
    )
    parts: list[str] = [tag("h3", name_of(variable))] if material.several else []
    parts.append(tag("p", f"{moment(time)} UTC, {why}. Every sensor has the area that is nearest to it."))
    panels = [
        tag("figure", _panel(ground_plan, scene, scene.value, who, "what came", names=True),
            tag("figcaption", "Raw: what came")),
        tag("figure", _panel(ground_plan, scene, scene.cleaned, who, "what was made of it", names=False),
            tag("figcaption", "Mended: what was made of it")),
    ]  # fmt: skip
    parts += [tag("div", *panels, class_="pair"), _bar(scene)]
    more = f" and {len(who) - MOST_NAMES:,} more." if len(who) > MOST_NAMES else "."
    named = joined(["Ringed as faulty: ", joined(map(name_of, who[:MOST_NAMES]), ", "), more]) if who else Html("")
    blank = bool((~np.isfinite(scene.value)).any())
    parts.append(tag("p", named, " Hatched: no reading." if blank else "",
                     " Readings past the colour bar have the colour of its end.", class_="note"))  # fmt: skip
    if ground_plan.total > len(ground_plan.sensors):
        shown = f"{len(ground_plan.sensors):,} of {counted(ground_plan.total, 'sensor')} are shown."
        parts.append(tag("p", shown, class_="note"))
    return joined(parts)


def _scene(ground_plan: Atlas, rows: Rows) -> _Scene | None:
    place = {rows.sensors[code]: row for row, code in enumerate(rows.sensor.tolist())}
    taken = np.array([place.get(site.sensor, -1) for site in ground_plan.sensors])
    there = taken >= 0
    if not there.any():
        return None
    value, cleaned = (np.where(there, column[taken], np.nan) for column in (rows.value, rows.cleaned))
    known = cleaned[np.isfinite(cleaned)]
    if not known.size:
        return None
    low, high = float(known.min()), float(known.max())
    low, high = (low, high) if high > low else (low - 0.5, high + 0.5)
    return _Scene(value, cleaned, np.asarray(there & _faulty(rows)[taken]), low, high)


def _panel(
    ground_plan: Atlas, scene: _Scene, values: FloatArray, who: list[str], says: str, *, names: bool
) -> Html:  # fmt: skip
    wide = min(WIDTH, TALLEST / ground_plan.height)
    size = np.array([wide, wide])
    by_shade: dict[str, list[str]] = {}
    total, heard = np.zeros(len(ground_plan.cells)), np.zeros(len(ground_plan.cells))
    cell = np.array([site.cell for site in ground_plan.sensors])
    known = np.isfinite(values)
    np.add.at(total, cell[known], values[known])
    np.add.at(heard, cell[known], 1)
    for corners, summed, many in zip(ground_plan.cells, total.tolist(), heard.tolist(), strict=True):
        fill = _shade((summed / many - scene.low) / (scene.high - scene.low)) if many else ""
        by_shade.setdefault(fill, []).append(_polygon(np.reshape(corners, (-1, 2)) * size))
    hatched = by_shade.pop("", [])
    drawn: list[str] = [tag("path", d="".join(parts), fill=fill, class_="cell") for fill, parts in by_shade.items()]
    if hatched:
        drawn += [tag("path", d="".join(hatched), class_="under"), tag("path", d="".join(hatched), fill="url(#hatch)")]
    # Dots of thousands must leave something of the cells.
    dot = 3 if len(ground_plan.sensors) <= 300 else 2 if len(ground_plan.sensors) <= 1000 else 1.2
    at = np.array([[site.x, site.y] for site in ground_plan.sensors]) * size
    drawn.append(
        tag(
            "path",
            d="".join(f"M{short(x)} {short(y)}h0" for x, y in at.tolist()),
            class_="dots",
            stroke_width=short(dot),
        )
    )
    for x, y in at[scene.faulty].tolist():
        drawn += [tag("circle", cx=short(x), cy=short(y), r=6, class_=kind) for kind in ("halo", "ring")]
    if names and len(who) <= MOST_NAMES:
        for (x, y), name in zip(at[scene.faulty].tolist(), who, strict=True):
            right = x > wide / 2
            letters = int((x if right else wide - x) / LETTER)
            # The line below the map has all of it.
            cut = name if len(name) <= letters else name[: letters - 1] + "…"
            drawn.append(text(x - 10 if right else x + 10, y + 4, cut, at="end" if right else "start", class_="on-map"))
    drawn += _ruler(ground_plan.kilometres, wide, wide * ground_plan.height) if names else []
    return svg(wide, wide * ground_plan.height, *drawn, says=f"Map of {says}", widest=wide)


def _hatch() -> Html:
    """Return what fills the cells without a reading, for all maps."""
    lines = tag("path", d="M-1 1l2-2M0 6l6-6M5 7l2-2", class_="hatch")
    pattern = tag("pattern", lines, id="hatch", width=6, height=6, patternUnits="userSpaceOnUse")
    return tag("svg", tag("defs", pattern), class_="unseen", aria_hidden="true")


def _ruler(kilometres: float, wide: float, tall: float) -> list[str]:
    """Return a line that says how far is how long."""
    if not kilometres > 0:
        return []
    power = 10.0 ** math.floor(math.log10(kilometres / 4))
    length = max(power * factor for factor in (1, 2, 5) if power * factor <= kilometres / 4)
    end = 12 + length / kilometres * wide
    said = f"{length:g} km" if length >= 1 else f"{1000 * length:g} m"
    line = f"M12 {short(tall - 16)}v5H{short(end)}v-5"
    return [tag("path", d=line, class_="ruler-halo"), tag("path", d=line, class_="ruler"),
            text(end + 6, tall - 10, said, class_="on-map")]  # fmt: skip


def _polygon(corners: FloatArray) -> str:
    """Return a polygon, in whole steps from corner to corner so that neighbours share their edges."""
    tenths = np.round(corners * 10).astype(np.int64)
    steps = "".join(f"l{short(x / 10)} {short(y / 10)}" for x, y in np.diff(tenths, axis=0).tolist())
    return f"M{short(tenths[0, 0] / 10)} {short(tenths[0, 1] / 10)}{steps}z"


def _shade(place: float) -> str:
    """Return the colour at a place between 0 and 1, one of some."""
    step = round(min(max(place, 0.0), 1.0) * (SHADES - 1)) / (SHADES - 1) * (len(STOPS) - 1)
    left = min(int(step), len(STOPS) - 2)
    pair = [[int(stop[k : k + 2], 16) for k in (1, 3, 5)] for stop in STOPS[left : left + 2]]
    return "#" + "".join(f"{round(a + (b - a) * (step - left)):02x}" for a, b in zip(*pair, strict=True))


def _bar(scene: _Scene) -> Html:
    """Return the colour bar."""
    left, wide = 20.0, 320.0
    drawn: list[str] = [
        tag("rect", x=short(left + wide * k / SHADES), y=0, width=short(wide / SHADES + 0.3), height=10,
            fill=_shade(k / (SHADES - 1)))
        for k in range(SHADES)
    ]  # fmt: skip
    for tick in value_ticks(scene.low, scene.high):
        x = left + wide * (tick - scene.low) / (scene.high - scene.low)
        drawn += [tag("path", d=f"M{short(x)} 10v4", class_="tick"), text(x, 25, f"{tick:g}", at="middle")]
    says = f"Colours from {spread(scene.low)} to {spread(scene.high)}"
    return tag("div", svg(360, 30, *drawn, says=says), class_="colours")
