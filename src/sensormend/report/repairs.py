"""`repairs_section` lists what to repair; `worst_section` and `calibration_section` draw the sensors concerned."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import numpy as np

from sensormend.pipeline.faults import FaultInterval
from sensormend.pipeline.sentences import (
    ADVICE,
    faults_in_words,
    how_far_judged,
    how_long,
    little_judged,
    number,
    percent,
    signed,
)
from sensormend.pipeline.times import iso
from sensormend.readings import DAY, SECOND, Flag
from sensormend.recovery import BoolArray, FloatArray
from sensormend.report.markup import (
    Html,
    channel_name,
    concat,
    date,
    html_table,
    minute,
    quotation,
    reason_words,
    span,
    tag,
)
from sensormend.report.report_data import ChannelFaults, ReportData
from sensormend.report.svg import Scale, band, line, rect_path, short, svg, text, time_ticks, value_ticks
from sensormend.views.calibration import Calibration, CalibrationRow, calibration
from sensormend.views.channel_status import ChannelStatus
from sensormend.views.fault_list import (
    CERTAIN_CONFIDENCE,
    CERTAIN_SCORE,
    LIKELY_CONFIDENCE,
    LIKELY_SCORE,
    how_sure,
)
from sensormend.views.series import Series, axis, series

__all__ = ["calibration_section", "repairs_section", "telling_span", "worst_section"]

MAX_OPEN, MAX_TROUBLES, MAX_WORST, MAX_CALIBRATED = 100, 10, 6, 10
"""Most rows of the tables, and most charts."""

CHART_WIDTH, CHART_HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 960.0, 210.0, 46.0, 8.0, 26.0, 22.0
SPARKLINE_WIDTH, SPARKLINE_HEIGHT = 420.0, 34.0
POINTS = 1000

SLOTS, SHORTEST, LONGEST = 28 * 24, 14 * DAY, 365 * DAY
"""Span of a chart: four weeks of hours, at least two weeks and at most a year."""

AROUND = 1.4
"""A longer fault is shown whole, in a chart of this multiple of its length."""

LETTER, LONGEST_COMMAND = 6.2, 250
"""Width of a letter in pixels; and the longest command that is shown."""

FAR_TIMES = 4.0
"""Multiple of the usual distance above which a sensor is reported."""


def repairs_section(data: ReportData) -> Html:
    """Return the section."""
    return tag(
        "section",
        tag("h2", "What to repair"),
        tag("h3", f"Wrong at the end, {minute(data.end)} UTC"),
        _open_table(data, data.wrong_now()),
        _ended(data.ended()),
        tag("h3", "Most trouble in all that time"),
        _worst_table(data, data.troubles),
        id="repair",
    )


def _open_table(data: ReportData, wrong: Sequence[ChannelStatus]) -> Html:
    if not wrong:
        return tag("p", _nothing_judged(data) or "Nothing: no sensor was faulty or silent at the end.")
    rows = []
    for status in wrong[:MAX_OPEN]:
        fault = data.open_fault(status)
        since = status.since if status.since is not None else fault.start if fault is not None else status.heard
        reason = status.reason or ("silent" if status.state == "silent" else fault.reason if fault is not None else "")
        happened = quotation(fault.sentence if fault is not None else status.sentence)
        sure = how_sure(fault.score, confidence=fault.confidence) if fault is not None else ""
        rows.append([
            channel_name(status.sensor, status.variable),
            tag("span", date(since), class_="whole") if since is not None else "unknown",
            reason_words(reason),
            tag("span", sure or "-", class_="whole"),
            concat([happened, " ", tag("span", ADVICE.get(reason, ""), class_="quiet")]),
        ])  # fmt: skip
    parts = [html_table(("sensor", "since", "reason", "how sure", "what happened, and what to do"), rows, wide=4)]
    if len(wrong) > MAX_OPEN:
        parts.append(tag("p", f"{len(wrong) - MAX_OPEN:,} more are in faults.csv.", class_="note"))
    parts.append(tag("p", "How sure: ", tag("b", "certain"), f" is a probability of {CERTAIN_CONFIDENCE:g} and more, "
                     f"or, where there is none, {CERTAIN_SCORE:g} times past the limit and more, ", tag("b", "likely"),
                     f" {LIKELY_CONFIDENCE:g}, or {LIKELY_SCORE:g} times, and more, ", tag("b", "borderline"),
                     " less. Silence needs no judgement.", class_="note"))  # fmt: skip
    return concat(parts)


def _nothing_judged(data: ReportData) -> str:
    """Return a sentence where nothing was judged, since a list without faults has no meaning then."""
    flags = data.counts.flags
    return "" if flags[Flag.GOOD] + flags[Flag.SUSPECT] + flags[Flag.FAIL] else how_far_judged(flags)


def _ended(ended: Sequence[tuple[str, int]]) -> Html:
    if not ended:
        return Html("")
    entries = [concat([channel_name(sensor), f" on {date(last)}"]) for sensor, last in ended[:MAX_TROUBLES]]
    rest = f" and {len(ended) - MAX_TROUBLES:,} more" if len(ended) > MAX_TROUBLES else ""
    return tag("p", "Ended before the others, with the last reading: ", concat(entries, ", "), f"{rest}.")


def _worst_table(data: ReportData, troubles: Sequence[ChannelFaults]) -> Html:
    if not troubles:
        flags = data.counts.flags
        little = _nothing_judged(data) or (how_far_judged(flags) if little_judged(flags) else "")
        return tag("p", little or "Nothing wrong was found, in no sensor and at no time.")
    rows = []
    for trouble in troubles[:MAX_TROUBLES]:
        channel = data.counts.channels.get((trouble.sensor, trouble.variable))
        longest = trouble.longest
        wrong = ", ".join(reason_words(reason) for reason, _ in trouble.reasons.most_common() if reason != "silent")
        rows.append([
            channel_name(trouble.sensor, trouble.variable),
            tag("span", how_long(trouble.faulty) if trouble.faulty else "-", class_="whole"),
            tag("span", how_long(trouble.silent) if trouble.silent else "-", class_="whole"),
            percent(channel.estimated, channel.rows) if channel else "-",
            wrong or "silent",
            concat([f"{date(longest.start)}: ", quotation(longest.sentence)]),
        ])  # fmt: skip
    header = ("sensor", "faulty for", "silent for", "estimated", "reasons", "the longest of it")
    rest = len(troubles) - MAX_TROUBLES
    more = f" These are the {MAX_TROUBLES} worst; faults.csv lists all of it." if rest > 0 else ""
    summary = f"There are {faults_in_words(data.faults)}.{more}"
    return concat([tag("p", summary), html_table(header, rows, numbers=(3,), wide=5)])


def worst_section(data: ReportData) -> Html | None:
    """Return the section; None where nothing was ever wrong."""
    shown = data.troubles[:MAX_WORST]
    if not shown:
        return None
    worst = [(one, *_series_of(data, one)) for one in shown]
    named = {
        "raw": "what came",
        "mended": "what was made of it",
        "corrected": "a reading with its fault taken out",
        "interval": f"where the truth is expected, {percent(data.network.interval)} of the time",
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
        *(_worst(data, *one) for one in worst),
        id="worst",
    )  # fmt: skip


def _key(kind: str, meaning: str) -> Html:
    drawn = tag("path", d="M0 0h13v8h-13z" if kind == "interval" else "M0 4h13", class_=kind)
    return tag("li", tag("svg", drawn, viewBox="0 0 13 8", aria_hidden="true"), meaning)


def telling_span(faults: Sequence[FaultInterval], start: int, end: int, length: int) -> tuple[int, int]:
    """Return the span, no longer than `length`, that shows most of some faults.

    A span that is wrong throughout has nothing to compare with, so a half is best; each further reason counts as much
    as a tenth of it.
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


def _series_of(data: ReportData, trouble: ChannelFaults) -> tuple[Series, int, int]:
    """Return a channel in the weeks that show most of its faults, and the span of these."""
    length = int(np.clip(SLOTS * data.step, SHORTEST, LONGEST))
    longest = trouble.longest
    shown_length = min(int(AROUND * (longest.end - longest.start)), LONGEST)
    # Of a fault that lasts, the start matters.
    faults = [longest] if shown_length > length else trouble.faults
    begin, end = telling_span(faults, data.start, data.end, max(length, shown_length))
    # Whole days, so that the ticks are dates.
    begin, end = max(begin // DAY * DAY, data.start), min(-(-end // DAY) * DAY, data.end)
    return series(data.reader, trouble.sensor, trouble.variable, begin, end, POINTS), begin, end


def _worst(data: ReportData, trouble: ChannelFaults, shown: Series, begin: int, end: int) -> Html:
    longest = trouble.longest
    middle = (longest.start + longest.end) // 2 // data.step * data.step
    typed = f"sensormend explain {shlex.quote(data.reader.name)} {shlex.quote(trouble.sensor)} {iso(middle)[:16]}"
    typed += f" --variable {shlex.quote(trouble.variable)}" if trouble.variable else ""
    # A truncated command would not run.
    why = [" Why, with all numbers: ", tag("code", typed)] if len(typed) <= LONGEST_COMMAND else []
    channel = data.counts.channels.get((trouble.sensor, trouble.variable))
    estimated = ""
    if channel:
        duration = how_long(channel.estimated * data.step) if channel.estimated else "nothing"
        estimated = f" In all, {duration} of its values are estimates"
        if channel.corrected:
            estimated += f", {how_long(channel.corrected * data.step)} are readings with their fault taken out"
        estimated += "."
    return tag(
        "div",
        tag("h3", channel_name(trouble.sensor, trouble.variable)),
        tag("p", quotation(longest.sentence.removesuffix(".")), f" ({span(longest.start, longest.end)}).", estimated),
        tag("figure", tag("div", _chart(shown, begin, end), class_="scroll"), _cut(shown)),
        tag("p", ADVICE.get(longest.reason, ""), *why, class_="note"),
        class_="worst",
    )


def _array(values: Sequence[float | None]) -> FloatArray:
    return np.array(values, dtype=float)


def _chart(shown: Series, begin: int, end: int) -> Html:
    low, high = _limits(shown)
    across = Scale(begin / SECOND, end / SECOND, LEFT, CHART_WIDTH - RIGHT)
    down = Scale(low, high, CHART_HEIGHT - BOTTOM, TOP)
    # A value stands for its whole slot; it is drawn in the middle of it.
    slot = shown.step * shown.thinned
    x = across.at(_array(shown.time) + slot / 2)
    half = (across.place(slot) - across.place(0.0)) / 2
    corrected = np.array(shown.corrected, dtype=bool)
    replaced = corrected | np.array(shown.estimated, dtype=bool)
    bottom = CHART_HEIGHT - BOTTOM
    drawn: list[str] = []
    for tick in value_ticks(low, high, 5):
        y = down.place(tick)
        drawn += [tag("path", d=f"M{short(LEFT)} {short(y)}H{short(CHART_WIDTH - RIGHT)}", class_="axis"),
                  text(LEFT - 6, y + 4, f"{tick:g}", at="end", class_="soft")]  # fmt: skip
    for time, word in time_ticks(begin, end, 10):
        place = across.place(time / SECOND)
        drawn += [tag("path", d=f"M{short(place)} {short(bottom)}v4", class_="tick"),
                  text(place + 2, CHART_HEIGHT - 7, word, class_="soft")]  # fmt: skip
    drawn += _shades(shown, across, bottom)

    def places(values: Sequence[float | None], where: BoolArray | None = None) -> FloatArray:
        known = _array(values) if where is None else np.where(where, _array(values), np.nan)
        return down.at(np.clip(known, low, high))

    def area(below: Sequence[float | None], above: Sequence[float | None], where: BoolArray, kind: str) -> Html:
        return tag("path", d=band(x, places(below, where), places(above, where), half), class_=kind)

    everywhere = np.ones(len(x), dtype=bool)
    drawn.append(area(shown.lower, shown.upper, replaced, "interval"))
    if shown.thinned > 1:
        drawn += [
            area(shown.low, shown.high, everywhere, "reach raw"),
            area(shown.cleaned_low, shown.cleaned_high, _and_adjacent(~corrected), "reach mended"),
            area(shown.cleaned_low, shown.cleaned_high, corrected, "reach corrected"),
        ]
    else:
        # Where a reading was trusted both lines coincide, and only the upper one is drawn.
        drawn += [
            tag("path", d=line(x, places(shown.value)), class_="raw"),
            tag("path", d=line(x, places(shown.cleaned, _and_adjacent(~corrected))), class_="mended"),
            tag("path", d=line(x, places(shown.cleaned, corrected)), class_="corrected"),
        ]
    return svg(CHART_WIDTH, CHART_HEIGHT, *drawn, description=f"Readings of {shown.sensor[:80]}, raw and mended")


def _and_adjacent(where: BoolArray) -> BoolArray:
    """Extend each run by one on both sides, so that one line begins where the other ends."""
    wide = where.copy()
    wide[1:] |= where[:-1]
    wide[:-1] |= where[1:]
    return wide


def _values_read(shown: Series) -> FloatArray:
    return _array([*shown.low, *shown.high] or shown.value)


def _cut(shown: Series) -> Html:
    """Return a caption where readings lie outside of the picture."""
    raw = _values_read(shown)
    low, high = _limits(shown)
    if not ((raw < low) | (raw > high)).any():
        return Html("")
    return tag("figcaption", f"Readings reach from {number(float(np.nanmin(raw)))} to {number(float(np.nanmax(raw)))}; "
               "those outside of the picture are drawn at its edge.")  # fmt: skip


def _limits(shown: Series) -> tuple[float, float]:
    low, high = axis(_values_read(shown), _array([*shown.cleaned, *shown.lower, *shown.upper]))
    margin = 0.05 * (high - low) or 0.5
    return low - margin, high + margin


def _shades(shown: Series, across: Scale, bottom: float) -> list[str]:
    """Return the shaded spans and the lines of faults that last, with their labels where these fit."""
    kinds = {"faulty": ("shade", "warn"), "suspect": ("shade doubt", "doubt")}
    drawn: list[str] = []
    words: list[tuple[float, str, str]] = []
    for fault in shown.lasting:
        left, right = max(across.place(fault.start), across.start), min(across.place(fault.end), across.end)
        drawn.append(tag("path", d=f"M{short(left)} {short(TOP - 1)}H{short(right)}", class_="lasting"))
        words.append((left, f"{fault.word} {fault.size}", "warn"))
    for shaded in shown.spans:
        left, right = max(across.place(shaded.start), across.start), min(across.place(shaded.end), across.end)
        if right - left < 0.2:
            continue
        shade, ink = kinds.get(shaded.kind, ("shade none", "soft"))
        drawn.append(tag("path", d=rect_path(left, TOP, right - left, bottom - TOP), class_=shade))
        if not any(
            one.word in shaded.word and one.start < shaded.end and one.end > shaded.start for one in shown.lasting
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


def calibration_section(data: ReportData) -> Html | None:
    """Return the section; None where there are too few weeks or sensors."""
    distances = calibration(data.reader, end=data.end, limit=MAX_CALIBRATED)
    known = [one for one in distances.rows if one.times is not None]
    if not known:
        return None
    first = int(np.datetime64(distances.start, "D").astype(np.int64)) * DAY
    last = first + distances.cells * distances.cell_days * DAY
    count = sum(one.times is not None and one.times >= FAR_TIMES for one in known)
    sensors = data.number_of(count) if count < MAX_CALIBRATED else f"{MAX_CALIBRATED} and more"
    verdict = (
        f"{sensors} {'is' if count == 1 else 'are'} further from what the network expects than {FAR_TIMES:g} times "
        "what is usual: look there first."
        if count
        else "No sensor is much further from what the network expects than is usual."
    )
    rows = [
        [channel_name(one.sensor, one.variable), signed(one.now or 0.0), _rate(one, distances),
         _sparkline(one, distances)]
        for one in known
    ]  # fmt: skip
    more = f" These are the {len(known)} farthest of {distances.total:,}." if distances.total > len(known) else ""
    return tag(
        "section",
        tag("h2", "Calibration"),
        tag("p", "How far each sensor reads from what the network expects of it, a point for every week from "
            f"{date(first)} to {date(last - DAY)}, the farthest first. Zero is where it was in its first trusted "
            f"weeks; the grey band is how far sensors usually are. {verdict}{more}"),
        html_table(("sensor", "now", "in 30 days", "week by week"), rows, numbers=(1, 2), wide=3),
        id="calibration",
    )  # fmt: skip


def _rate(row: CalibrationRow, distances: Calibration) -> str:
    if row.rate is None:
        return "-"
    # A change smaller than the usual distance is not a drift.
    return "steady" if abs(row.rate) < (distances.usual[row.variable] or 0.0) else signed(row.rate)


def _sparkline(row: CalibrationRow, distances: Calibration) -> Html:
    reach, usual = row.reach or 1.0, distances.usual[row.variable] or 0.0
    across = Scale(0.0, float(distances.cells), 0.0, SPARKLINE_WIDTH)
    down = Scale(-reach, reach, SPARKLINE_HEIGHT - 1, 1.0)
    top, bottom = down.place(usual), down.place(-usual)
    kind = "far" if row.times is not None and row.times >= FAR_TIMES else "mended"
    return svg(
        SPARKLINE_WIDTH,
        SPARKLINE_HEIGHT,
        tag("path", d=rect_path(0.0, top, SPARKLINE_WIDTH, bottom - top), class_="usual"),
        tag("path", d=f"M0 {short(down.place(0.0))}H{short(SPARKLINE_WIDTH)}", class_="tick"),
        tag(
            "path",
            d=line(across.at(np.arange(0.5, distances.cells)), down.at(np.clip(_array(row.distance), -reach, reach))),
            class_=kind,
        ),
        description=f"Distance of {row.sensor[:80]} from the network, week by week",
    )
