"""`repairs_section` returns the part on what to repair, in which the script shows the page's own lists."""

from __future__ import annotations

from collections.abc import Sequence

from sensormend.pipeline.sentences import fault_sentence, how_far_judged
from sensormend.readings import Flag
from sensormend.report.markup import Html, channel_name, concat, date, minute, quotation, tag
from sensormend.report.report_data import ReportData
from sensormend.views.attention import Attention
from sensormend.views.channel_status import last_heard
from sensormend.views.fault_list import (
    CERTAIN_CONFIDENCE,
    CERTAIN_SCORE,
    LIKELY_CONFIDENCE,
    LIKELY_SCORE,
    FaultPage,
)

__all__ = ["repairs_section"]

MAX_ENDED = 10
"""The maximum number of sensors that are listed because they ended."""


def repairs_section(data: ReportData, attention: Attention, faults: FaultPage) -> Html:
    """Return the section; without JavaScript it has the sentences of the two lists."""
    flags = data.counts.flags
    judged = flags[Flag.GOOD] + flags[Flag.SUSPECT] + flags[Flag.FAIL]
    sentences = dict.fromkeys([*(one.sentence for one in attention.items), *(one.sentence for one in faults.items)])
    return tag(
        "section",
        tag("h2", "What to repair"),
        tag("h3", f"Wrong at the end, {minute(_end(data))}"),
        tag("div", id="attention"),
        _ended(data.ended()),
        tag("p", fault_sentence(data.faults) if judged else how_far_judged(flags)),
        tag("div", class_="view view-faults", id="longest"),
        tag("p", "How sure: ", tag("b", "certain"), f" is a probability of {CERTAIN_CONFIDENCE:g} and more, "
            f"or, where there is none, {CERTAIN_SCORE:g} times past the limit and more, ", tag("b", "likely"),
            f" {LIKELY_CONFIDENCE:g}, or {LIKELY_SCORE:g} times, and more, ", tag("b", "borderline"),
            " less. Silence needs no judgement.", class_="note"),
        tag("noscript", tag("ul", *(tag("li", quotation(sentence)) for sentence in sentences))),
        id="repair",
    )  # fmt: skip


def _end(data: ReportData) -> int:
    """Return the end of the last reading; rows without one may follow it until the period is over."""
    heard = last_heard(data.reader)
    return data.end if heard is None else min(data.end, data.reader.slot(heard) + data.reader.step)


def _ended(ended: Sequence[tuple[str, int]]) -> Html:
    if not ended:
        return Html("")
    entries = [concat([channel_name(sensor), f" on {date(last)}"]) for sensor, last in ended[:MAX_ENDED]]
    rest = f" and {len(ended) - MAX_ENDED:,} more" if len(ended) > MAX_ENDED else ""
    return tag("p", "Ended before the others, with the last reading: ", concat(entries, ", "), f"{rest}.")
