"""`repairs_section` lists what to repair."""

from __future__ import annotations

from collections.abc import Sequence

from sensormend.pipeline.sentences import (
    ADVICE,
    fault_sentence,
    how_far_judged,
    how_long,
    little_judged,
    percent,
)
from sensormend.readings import Flag
from sensormend.report.markup import Html, channel_name, concat, date, html_table, minute, quotation, reason_words, tag
from sensormend.report.report_data import ChannelFaults, ReportData
from sensormend.views.channel_status import ChannelStatus
from sensormend.views.fault_list import (
    CERTAIN_CONFIDENCE,
    CERTAIN_SCORE,
    LIKELY_CONFIDENCE,
    LIKELY_SCORE,
    how_sure,
)

__all__ = ["repairs_section"]

MAX_OPEN, MAX_TROUBLES = 100, 10
"""Most rows of the tables."""


def repairs_section(data: ReportData) -> Html:
    """Return the section."""
    return tag(
        "section",
        tag("h2", "What to repair"),
        tag("h3", f"Wrong at the end, {minute(data.end)}"),
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
    summary = f"{fault_sentence(data.faults)}{more}"
    return concat([tag("p", summary), html_table(header, rows, numbers=(3,), wide=5)])
