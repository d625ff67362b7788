"""The worst sensors, each with a picture of the time that shows most of what went wrong."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import numpy as np

from sensormend.io.metadata import FaultInterval, iso
from sensormend.pipeline.sentences import number, percent
from sensormend.readings import DAY, SECOND
from sensormend.recovery import BoolArray, FloatArray
from sensormend.report.html import Html, name_of, quoted, tag
from sensormend.report.material import Material, Trouble
from sensormend.report.svg import Scale, band, line, rect_path, short, svg, text, time_ticks, value_ticks
from sensormend.report.words import ADVICE, lasting, span
from sensormend.views.series import Series, axis, series

__all__ = ["courses", "stretch_of"]

MOST = 6
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 960.0, 210.0, 46.0, 8.0, 26.0, 22.0
SLOTS, SHORTEST, LONGEST = 28 * 24, 14 * DAY, 365 * DAY
"""In a picture: four weeks of hours, but not less than two weeks nor more than a year."""

AROUND = 1.4
"""A fault that does not fit is shown whole, with so many times its length."""

POINTS = 1000
LETTER, LONGEST_COMMAND = 6.2, 250
"""About so wide is one; a command that is longer is not shown."""


def courses(material: Material) -> Html | None:
    """Return the section; None where nothing was ever wrong."""
    shown = material.troubles[:MOST]
    if not shown:
        return None
    worst = [(one, *_seen(material, one)) for one in shown]
    named = {
        "raw": "what came",
        "mended": "what was made of it",
        "corrected": "a reading with its fault taken out",
        "interval": f"where the truth is expected, {percent(material.network.interval)} of the time",
        "lasting": "a fault that lasts, with its size",
    }
    drawn = {kind for _, seen, _, _ in worst for kind in ("corrected", "lasting") if any(getattr(seen, kind))}
    key = [_key(kind, says) for kind, says in named.items() if kind in drawn or kind not in ("corrected", "lasting")]
    key.append(tag("li", "shaded: what was found wrong, and why"))
    return tag(
        "section",
        tag("h2", "The worst of them"),
        tag("p", f"{'The sensor that was' if len(shown) == 1 else f'The {len(shown)} sensors that were'} wrong for "
            "longest, each in the weeks that show most. Times are UTC."),
        tag("ul", *key, class_="key"),
        *(_worst(material, *one) for one in worst),
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


def _seen(material: Material, one: Trouble) -> tuple[Series, int, int]:
    """Return a channel in the weeks that show most, and from when to when these are."""
    length = int(np.clip(SLOTS * material.step, SHORTEST, LONGEST))
    longest = one.longest
    whole = min(int(AROUND * (longest.end - longest.start)), LONGEST)
    # Of one that lasts, where it began is what matters.
    faults = [longest] if whole > length else one.faults
    begin, end = stretch_of(faults, material.start, material.end, max(length, whole))
    # Whole days, so that the marks below the picture are dates.
    begin, end = max(begin // DAY * DAY, material.start), min(-(-end // DAY) * DAY, material.end)
    return series(material.look, one.sensor, one.variable, begin, end, POINTS), begin, end


def _worst(material: Material, one: Trouble, seen: Series, begin: int, end: int) -> Html:
    longest = one.longest
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
    low, high = _limits(seen)
    across = Scale(begin / SECOND, end / SECOND, LEFT, WIDTH - RIGHT)
    down = Scale(low, high, HEIGHT - BOTTOM, TOP)
    # A value stands for its whole slot; it is drawn in the middle of it.
    slot = seen.step * seen.thinned
    x = across.at(_array(seen.time) + slot / 2)
    half = (across.place(slot) - across.place(0.0)) / 2
    corrected = np.array(seen.corrected, dtype=bool)
    replaced = corrected | np.array(seen.estimated, dtype=bool)
    bottom = HEIGHT - BOTTOM
    drawn: list[str] = []
    for tick in value_ticks(low, high, 5):
        y = down.place(tick)
        drawn += [tag("path", d=f"M{short(LEFT)} {short(y)}H{short(WIDTH - RIGHT)}", class_="axis"),
                  text(LEFT - 6, y + 4, f"{tick:g}", at="end", class_="soft")]  # fmt: skip
    for time, word in time_ticks(begin, end, 10):
        place = across.place(time / SECOND)
        drawn += [tag("path", d=f"M{short(place)} {short(bottom)}v4", class_="tick"),
                  text(place + 2, HEIGHT - 7, word, class_="soft")]  # fmt: skip
    drawn += _shades(seen, across, bottom)

    def places(values: Sequence[float | None], where: BoolArray | None = None) -> FloatArray:
        known = _array(values) if where is None else np.where(where, _array(values), np.nan)
        return down.at(np.clip(known, low, high))

    def area(below: Sequence[float | None], above: Sequence[float | None], where: BoolArray, kind: str) -> Html:
        return tag("path", d=band(x, places(below, where), places(above, where), half), class_=kind)

    everywhere = np.ones(len(x), dtype=bool)
    drawn.append(area(seen.lower, seen.upper, replaced, "interval"))
    if seen.thinned > 1:
        drawn += [
            area(seen.low, seen.high, everywhere, "reach raw"),
            area(seen.cleaned_low, seen.cleaned_high, _and_beside(~corrected), "reach mended"),
            area(seen.cleaned_low, seen.cleaned_high, corrected, "reach corrected"),
        ]
    else:
        # Where a reading was trusted both lines are one, and the upper one is drawn.
        drawn += [
            tag("path", d=line(x, places(seen.value)), class_="raw"),
            tag("path", d=line(x, places(seen.cleaned, _and_beside(~corrected))), class_="mended"),
            tag("path", d=line(x, places(seen.cleaned, corrected)), class_="corrected"),
        ]
    return svg(WIDTH, HEIGHT, *drawn, says=f"Readings of {seen.sensor[:80]}, raw and mended")


def _and_beside(where: BoolArray) -> BoolArray:
    """Return these and those beside them, so that one line begins where the other ends."""
    wide = where.copy()
    wide[1:] |= where[:-1]
    wide[:-1] |= where[1:]
    return wide


def _read(seen: Series) -> FloatArray:
    return _array([*seen.low, *seen.high] or seen.value)


def _cut(seen: Series) -> Html:
    """Say whether readings lie outside of the picture."""
    raw = _read(seen)
    low, high = _limits(seen)
    if not ((raw < low) | (raw > high)).any():
        return Html("")
    return tag("figcaption", f"Readings reach from {number(float(np.nanmin(raw)))} to {number(float(np.nanmax(raw)))}; "
               "those outside of the picture are drawn at its edge.")  # fmt: skip


def _limits(seen: Series) -> tuple[float, float]:
    low, high = axis(_read(seen), _array([*seen.cleaned, *seen.lower, *seen.upper]))
    margin = 0.05 * (high - low) or 0.5
    return low - margin, high + margin


def _shades(seen: Series, across: Scale, bottom: float) -> list[str]:
    """Return the shaded stretches and the lines of faults that last, with their words where there is room for them."""
    kinds = {"faulty": ("shade", "warn"), "suspect": ("shade doubt", "doubt")}
    drawn: list[str] = []
    words: list[tuple[float, str, str]] = []
    for fault in seen.lasting:
        left, right = max(across.place(fault.start), across.start), min(across.place(fault.end), across.end)
        drawn.append(tag("path", d=f"M{short(left)} {short(TOP - 1)}H{short(right)}", class_="lasting"))
        words.append((left, f"{fault.word} {fault.size}", "warn"))
    for shaded in seen.spans:
        left, right = max(across.place(shaded.start), across.start), min(across.place(shaded.end), across.end)
        if right - left < 0.2:
            continue
        shade, ink = kinds.get(shaded.kind, ("shade none", "soft"))
        drawn.append(tag("path", d=rect_path(left, TOP, right - left, bottom - TOP), class_=shade))
        if not any(
            one.word in shaded.word and one.start < shaded.end and one.end > shaded.start for one in seen.lasting
        ):
            words.append((left, shaded.word, ink))
    taken: list[tuple[float, float]] = []
    # Those of the lines come first.
    for left, word, ink in words:
        begin = min(left, across.end - LETTER * len(word))
        end = begin + LETTER * len(word) + 8
        if all(end <= other or begin >= past for other, past in taken):
            drawn.append(text(begin + 1, TOP - 5, word, class_=ink))
            taken.append((begin, end))
    return drawn
