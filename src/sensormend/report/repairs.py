"""What to repair: what is wrong now, and who was wrong for longest."""

from __future__ import annotations

from collections.abc import Sequence

from sensormend.io.metadata import FaultInterval
from sensormend.pipeline.sentences import counted, how_far_judged, how_long, little_judged, percent
from sensormend.readings import Flag
from sensormend.report.html import Html, joined, name_of, quoted, table, tag
from sensormend.report.material import Material, Trouble
from sensormend.report.words import ADVICE, date, moment, reason_words
from sensormend.views.faults import CERTAIN, LIKELY, PROBABLE, SURE, how_sure
from sensormend.views.now import Standing

__all__ = ["repairs"]

MOST_OPEN, MOST_TROUBLES = 100, 10


def repairs(material: Material) -> Html:
    """Return the section."""
    return tag(
        "section",
        tag("h2", "What to repair"),
        tag("h3", f"Wrong at the end, {moment(material.end)} UTC"),
        _open(material, material.wrong_now()),
        _gone(material.gone()),
        tag("h3", "Most trouble in all that time"),
        _worst(material, material.troubles),
        id="repair",
    )


def _open(material: Material, wrong: Sequence[Standing]) -> Html:
    if not wrong:
        return tag("p", _nothing_judged(material) or "Nothing: no sensor was faulty, silent or gone at the end.")
    rows = []
    for one in wrong[:MOST_OPEN]:
        fault = material.open_fault(one)
        since = one.since if one.since is not None else fault.start if fault is not None else one.heard
        reason = one.reason or ("silent" if one.state == "silent" else fault.reason if fault is not None else "")
        said = quoted(fault.sentence if fault is not None else one.sentence)
        rows.append([
            name_of(one.sensor, one.variable),
            tag("span", date(since), class_="whole") if since is not None else "unknown",
            reason_words(reason),
            tag("span", _how_sure(fault), class_="whole"),
            joined([said, " ", tag("span", ADVICE.get(reason, ""), class_="quiet")]),
        ])  # fmt: skip
    parts = [table(("sensor", "since", "reason", "how sure", "what happened, and what to do"), rows, wide=4)]
    if len(wrong) > MOST_OPEN:
        parts.append(tag("p", f"{len(wrong) - MOST_OPEN:,} more are in faults.csv.", class_="note"))
    parts.append(tag("p", "How sure: ", tag("b", "certain"), f" is a probability of {SURE:g} and more, or, where "
                     f"there is none, {CERTAIN:g} times past the limit and more, ", tag("b", "likely"),
                     f" {PROBABLE:g}, or {LIKELY:g} times, and more, ", tag("b", "borderline"), " less. Silence "
                     "needs no judgement.", class_="note"))  # fmt: skip
    return joined(parts)


def _nothing_judged(material: Material) -> str:
    """Say so where nothing was judged: that nothing wrong is known says nothing then."""
    flags = material.counts.flags
    return "" if flags[Flag.GOOD] + flags[Flag.SUSPECT] + flags[Flag.FAIL] else how_far_judged(flags)


def _how_sure(fault: FaultInterval | None) -> str:
    return (how_sure(fault.score, confidence=fault.confidence) if fault is not None else "") or "-"


def _gone(gone: Sequence[tuple[str, int]]) -> Html:
    if not gone:
        return Html("")
    said = [joined([name_of(sensor), f" on {date(heard)}"]) for sensor, heard in gone[:MOST_TROUBLES]]
    rest = f" and {len(gone) - MOST_TROUBLES:,} more" if len(gone) > MOST_TROUBLES else ""
    return tag("p", "Not part of the network any more at the end, and last heard: ", joined(said, ", "), f"{rest}.")


def _worst(material: Material, troubles: Sequence[Trouble]) -> Html:
    if not troubles:
        flags = material.counts.flags
        little = _nothing_judged(material) or (how_far_judged(flags) if little_judged(flags) else "")
        return tag("p", little or "Nothing wrong was found, in no sensor and at no time.")
    rows = []
    for one in troubles[:MOST_TROUBLES]:
        channel = material.counts.channels.get((one.sensor, one.variable))
        longest = one.longest
        wrong = ", ".join(reason_words(reason) for reason, _ in one.reasons.most_common() if reason != "silent")
        rows.append([
            name_of(one.sensor, one.variable),
            tag("span", how_long(one.faulty) if one.faulty else "-", class_="whole"),
            tag("span", how_long(one.silent) if one.silent else "-", class_="whole"),
            percent(channel.estimated, channel.rows) if channel else "-",
            wrong or "silent",
            joined([f"{date(longest.start)}: ", quoted(longest.sentence)]),
        ])  # fmt: skip
    header = ("sensor", "faulty for", "silent for", "estimated", "reasons", "the longest of it")
    rest = len(troubles) - MOST_TROUBLES
    more = f" These are the {MOST_TROUBLES} worst; faults.csv lists all of it." if rest > 0 else ""
    series = ", one variable of one sensor each," if material.several else ""
    said = f"{counted(len(material.look.faults), 'fault')} of {material.many(len(troubles))}{series} in all.{more}"
    return joined([tag("p", said), table(header, rows, numbers=(3,), wide=5)])
