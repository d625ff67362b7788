"""The worst sensors, each with a picture of the time that shows most of what went wrong."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence

import numpy as np

from sensormend.io.metadata import FaultInterval, iso
from sensormend.readings import DAY, SECOND
from sensormend.recovery import FloatArray
from sensormend.report.html import Html, name_of, quoted, tag
from sensormend.report.material import Material, Trouble
from sensormend.report.svg import Scale, band, line, rect_path, short, svg, text, time_ticks, value_ticks
from sensormend.report.words import ADVICE, lasting, span
from sensormend.sentences import number, percent
from sensormend.views.series import Series, Span, series

__all__ = ["courses", "stretch_of"]

MOST = 6
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 960.0, 250.0, 46.0, 8.0, 26.0, 22.0
SLOTS, SHORTEST, LONGEST = 28 * 24, 14 * DAY, 365 * DAY
"""In a picture: four weeks of hours, but not less than two weeks nor more than a year."""

POINTS = 1000
LETTER, LONGEST_COMMAND = 6.2, 250
"""About so wide is one; a command that is longer is not shown."""

BEYOND = 2.5
"""Raw values farther outside than so many times the range of the mended ones are cut: one of -9999 would hide all."""


def courses(material: Material) -> Html | None:
    """Return the section; None where nothing was ever wrong."""
    shown = material.troubles[:MOST]
    if not shown:
        return None
    key = [_key("raw", "what came"), _key("mended", "what was made of it"),
           _key("interval", f"where the truth is expected, {percent(material.network.interval)} of the time"),
           tag("li", "shaded: what was found wrong, and why")]  # fmt: skip
    return tag(
        "section",
        tag("h2", "The worst of them"),
        tag("p", f"{'The sensor that was' if len(shown) == 1 else f'The {len(shown)} sensors that were'} wrong for "
            "longest, each in the weeks that show most. Times are UTC."),
        tag("ul", *key, class_="key"),
        *(_worst(material, one) for one in shown),
        id="worst",
    )  # fmt: skip


def _key(kind: str, says: str) -> Html:
    drawn = tag("path", d="M0 0h13v8h-13z" if kind == "interval" else "M0 4h13", class_=kind)
    return tag("li", tag("svg", drawn, viewBox="0 0 13 8", aria_hidden="true"), says)


def stretch_of(faults: Sequence[FaultInterval], start: int, end: int, length: int) -> tuple[int, int]:
    """Return the span, no longer than `length`, that shows most of some faults.

    Of a stretch that is wrong throughout nothing can be learned, so a half is best; each further reason counts as
    much as a tenth of it.
    """
    length = min(length, end - start)
    longest = sorted(faults, key=lambda fault: fault.start - fault.end)[:100]
    best, choice = -1.0, start
    for lead in longest:
        begin = min(max(lead.start - length // 5, start), end - length)
        inside = [fault for fault in longest if fault.end > begin and fault.start < begin + length]
        wrong = sum(min(fault.end, begin + length) - max(fault.start, begin) for fault in inside) / length
        score = min(wrong, 1 - wrong, 0.5) + 0.1 * len({fault.reason for fault in inside})
        if score > best:
            best, choice = score, begin
    return choice, choice + length


def _worst(material: Material, one: Trouble) -> Html:
    longest = one.longest
    begin, end = stretch_of(
        one.faults, material.start, material.end, int(np.clip(SLOTS * material.step, SHORTEST, LONGEST))
    )
    # Whole days, so that the marks below the picture are dates.
    begin, end = max(begin // DAY * DAY, material.start), min(-(-end // DAY) * DAY, material.end)
    seen = series(material.look, one.sensor, one.variable, begin, end, POINTS)
    middle = (longest.start + longest.end) // 2 // material.step * material.step
    typed = f"sensormend explain {shlex.quote(material.look.name)} {shlex.quote(one.sensor)} {iso(middle)[:16]}"
    typed += f" --variable {shlex.quote(one.variable)}" if one.variable else ""
    # A command that is cut would not run.
    why = [" Why, with all numbers: ", tag("code", typed)] if len(typed) <= LONGEST_COMMAND else []
    channel = material.counts.channels.get((one.sensor, one.variable))
    estimated = f" In all, {lasting(channel.estimated, material.step)} of its values are estimates" if channel else ""
    if channel and channel.corrected:
        estimated += f", {lasting(channel.corrected, material.step)} are readings with their fault taken out"
    estimated += "." if estimated else ""
    return tag(
        "div",
        tag("h3", name_of(one.sensor, one.variable)),
        tag("p", quoted(longest.sentence.removesuffix(".")), f" ({span(longest.start, longest.end)}).", estimated),
        tag("figure", tag("div", _picture(seen, begin, end), class_="scroll"), _cut(seen)),
        tag("p", ADVICE.get(longest.reason, ""), *why, class_="note"),
        class_="worst",
    )


def _array(values: Sequence[float | None]) -> FloatArray:
    return np.array([np.nan if value is None else value for value in values], dtype=float)


def _picture(seen: Series, begin: int, end: int) -> Html:
    raw, cleaned, lower, upper = map(_array, (seen.value, seen.cleaned, seen.lower, seen.upper))
    thick = bool(seen.low)
    least, most = (_array(seen.low), _array(seen.high)) if thick else (raw, raw)
    low, high = _limits(least, most, np.concatenate([cleaned, lower, upper]))
    across = Scale(begin / SECOND, end / SECOND, LEFT, WIDTH - RIGHT)
    down = Scale(low, high, HEIGHT - BOTTOM, TOP)
    # A value stands for its whole slot; it is drawn in the middle of it.
    slot = seen.step * seen.thinned
    x = across.at(_array(seen.time) + slot / 2)
    half = (across.place(slot) - across.place(0.0)) / 2
    replaced = np.array(seen.estimated, dtype=bool) | np.array(seen.corrected, dtype=bool)
    unsure = [np.where(replaced, edge, np.nan) for edge in (lower, upper)]
    top, bottom = TOP, HEIGHT - BOTTOM
    drawn: list[str] = []
    for tick in value_ticks(low, high, 5):
        y = down.place(tick)
        drawn += [tag("path", d=f"M{short(LEFT)} {short(y)}H{short(WIDTH - RIGHT)}", class_="axis"),
                  text(LEFT - 6, y + 4, f"{tick:g}", at="end", class_="soft")]  # fmt: skip
    for time, word in time_ticks(begin, end, 10):
        place = across.place(time / SECOND)
        drawn += [tag("path", d=f"M{short(place)} {short(bottom)}v4", class_="tick"),
                  text(place + 2, HEIGHT - 7, word, class_="soft")]  # fmt: skip
    drawn += _shades(seen.spans, across, top, bottom)
    sides = [down.at(np.clip(edge, low, high)) for edge in unsure]
    drawn.append(tag("path", d=band(x, sides[0], sides[1], half), class_="interval"))
    ends = [down.at(np.clip(edge, low, high)) for edge in (least, most)]
    drawn.append(
        tag("path", d=band(x, ends[0], ends[1], half), class_="reach")
        if thick
        else tag("path", d=line(x, ends[0]), class_="raw")
    )
    # Where a reading was trusted both lines are one, and the upper one is drawn.
    drawn.append(tag("path", d=line(x, down.at(np.clip(cleaned, low, high))), class_="mended"))
    return svg(WIDTH, HEIGHT, *drawn, says=f"Readings of {seen.sensor[:80]}, raw and mended")


def _cut(seen: Series) -> Html:
    """Say whether readings lie outside of the picture."""
    raw = _array([*seen.low, *seen.high] or seen.value)
    low, high = _limits(raw, raw, _array([*seen.cleaned, *seen.lower, *seen.upper]))
    if not ((raw < low) | (raw > high)).any():
        return Html("")
    return tag("figcaption", f"Readings reach from {number(float(np.nanmin(raw)))} to {number(float(np.nanmax(raw)))}; "
               "those outside of the picture are drawn at its edge.")  # fmt: skip


def _limits(least: FloatArray, most: FloatArray, mended: FloatArray) -> tuple[float, float]:
    known = mended[np.isfinite(mended)]
    if not known.size:
        known = np.concatenate([least, most])
        known = known[np.isfinite(known)]
    if not known.size:
        return 0.0, 1.0
    low, high = float(known.min()), float(known.max())
    room = BEYOND * max(high - low, 1e-9 * max(abs(low), abs(high)), 1e-12)
    if np.isfinite(least).any():
        low, high = (
            min(low, max(float(np.nanmin(least)), low - room)),
            max(high, min(float(np.nanmax(most)), high + room)),
        )
    margin = 0.05 * (high - low) or 0.5
    return low - margin, high + margin


def _shades(spans: Sequence[Span], across: Scale, top: float, bottom: float) -> list[str]:
    """Return the shaded stretches, with their words where there is room for them."""
    kinds = {"faulty": ("shade", "warn"), "suspect": ("shade doubt", "doubt")}
    drawn: list[str] = []
    free = 0.0
    for group in _touching(spans):
        left = max(across.place(group[0].start), across.start)
        right = min(across.place(group[-1].end), across.end)
        if right - left < 0.2:
            continue
        shade, ink = kinds.get(group[0].kind, ("shade none", "soft"))
        drawn.append(tag("path", d=rect_path(left, top, right - left, bottom - top), class_=shade))
        lengths: Counter[str] = Counter()
        for found in group:
            lengths[found.word] += int(found.end - found.start)
        words = [word for word, _ in lengths.most_common()]
        # What it was for longest first; what else it was where there is room.
        while len(words) > 1 and LETTER * len(", ".join(words)) > right - left:
            words.pop()
        wide = LETTER * len(", ".join(words))
        if left >= free and left + wide <= across.end:
            drawn.append(text(left + 1, top - 5, ", ".join(words), class_=ink))
            free = left + wide + 8
    return drawn


def _touching(spans: Sequence[Span]) -> list[list[Span]]:
    """Put stretches of one kind that follow each other together."""
    groups: list[list[Span]] = []
    for found in spans:
        if groups and groups[-1][-1].kind == found.kind and groups[-1][-1].end >= found.start:
            groups[-1].append(found)
        else:
            groups.append([found])
    return groups
