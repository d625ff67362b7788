"""`limits_section` states what not to use the data for, as far as the data shows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sensormend.pipeline.channel_states import ChannelName, is_open
from sensormend.pipeline.faults import FaultInterval
from sensormend.pipeline.sentences import counted, how_long, percent
from sensormend.readings import DAY, Flag, Rows
from sensormend.recovery import BoolArray, FloatArray
from sensormend.report.markup import Html, channel_name, concat, date, rounded, span, tag
from sensormend.report.report_data import ReportData
from sensormend.views.voronoi import group_means

__all__ = ["AcceptedOffset", "accepted_offsets", "limits_section"]

SHORTEST_OFFSET, MAX_CHECKED = 2 * DAY, 40
"""The shortest fault after which a new level is searched for, by comparing the means of the days before and after its
end; and the maximum number of faults for which this is done, the longest first, since each needs the rows of two
days."""

MAX_LISTED = 10


@dataclass(frozen=True)
class AcceptedOffset:
    """An offset that a sensor kept when its fault was over; `level` is its distance from the prediction."""

    fault: FaultInterval
    level: float


def accepted_offsets(data: ReportData) -> list[AcceptedOffset]:
    """Return the offsets after which a sensor kept its new level and was trusted.

    When a fault ends because the level is accepted, the cleaned values jump from the estimate to the reading, by about
    the offset, while those of the others do not; when it ends because the sensor returned, they do not jump.
    """
    faults = [
        fault
        for fault in data.reader.faults
        if fault.reason in ("offset", "drift")
        and fault.end - fault.start >= SHORTEST_OFFSET
        and not is_open(fault, data.end)
    ]
    faults = sorted(faults, key=lambda fault: (fault.start - fault.end, fault.sensor))[:MAX_CHECKED]
    levels = [(fault, _accepted_level(data, fault)) for fault in faults]
    return [AcceptedOffset(fault, level) for fault, level in levels if level is not None]


def _accepted_level(data: ReportData, fault: FaultInterval) -> float | None:
    archive = data.reader.archive
    assert archive is not None
    rows = archive.rows(None, fault.end - DAY, fault.end + DAY, fault.variable)
    if fault.sensor not in rows.sensors:
        return None
    own = rows.sensor == rows.sensors.index(fault.sensor)
    before, after = rows.time < fault.end, rows.time >= fault.end
    level = _mean((rows.value - rows.cleaned)[own & before & (rows.flag == Flag.FAIL)])
    # Only trusted readings: an estimate after the fault has no information on the sensor.
    jump = _mean(rows.cleaned[own & after & (rows.flag == Flag.GOOD)]) - _mean(rows.cleaned[own & before])
    others = _changes(rows, ~own, before, after)
    if not others.size or not np.isfinite(level) or not np.isfinite(jump):
        return None
    lasting = jump - float(np.median(others))
    usual = float(np.median(np.abs(others - np.median(others))))
    # A product: the level is 0 where readings that are as expected belong to a fault, as in a dry spell.
    return level if lasting * level > 0.5 * level**2 and abs(lasting) > 3 * usual else None


def _mean(values: FloatArray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else float("nan")


def _changes(rows: Rows, others: BoolArray, before: BoolArray, after: BoolArray) -> FloatArray:
    """Return the change of the cleaned values of each of the others from one day to the next."""
    first, second = (
        group_means(rows.sensor[others & day], len(rows.sensors), rows.cleaned[others & day]) for day in (before, after)
    )
    change = second - first
    return np.asarray(change[np.isfinite(change)])


def limits_section(data: ReportData) -> Html:
    """Return the section."""
    items = [
        part
        for limits in (_estimated_spans, _mostly_estimated, _accepted_levels, _empty_spans, _unjudged, _alone, _suspect,
                       _smooth, _unknown, _averaged, _provisional)
        for part in limits(data)
    ]  # fmt: skip
    unseen = (
        "A fault that all neighbours share looks like weather, and a small or very slow one stays within what is usual "
        "for its sensor: neither can be seen from the readings alone. What is called good here was not contradicted by "
        "the others; it was not measured against a reference."
    )
    return tag(
        "section",
        tag("h2", "What not to use the data for"),
        tag("ul", *items, class_="limits") if items else Html(""),
        tag("p", unseen, class_="note"),
        id="limits",
    )


def _limit(title: str, text: str, items: Sequence[str] | None = None) -> list[Html]:
    """Return one limit, with the first of its items; nothing where a limit that has items has none."""
    if items is not None and not items:
        return []
    items = items or ()
    listed = [tag("li", item) for item in items[:MAX_LISTED]]
    listed += [tag("li", f"and {len(items) - MAX_LISTED:,} more")] if len(items) > MAX_LISTED else []
    return [
        tag(
            "li",
            tag("p", tag("b", title)),
            tag("p", text),
            tag("ul", *listed, class_="many" if len(listed) > 4 else None) if listed else Html(""),
        )
    ]


def _estimated_spans(data: ReportData) -> list[Html]:
    spans = data.counts.estimated_spans
    items = [
        concat([channel_name(one.sensor, one.variable),
                f": {span(one.start // DAY * DAY, -(-one.end // DAY) * DAY)} ({how_long(one.end - one.start)})"])
        for one in spans
    ]  # fmt: skip
    total = sum(one.end - one.start for one in spans)
    return _limit(
        "Sensors in times when all they have is estimates.",
        f"In {counted(len(spans), 'stretch', 'stretches')} of a day and more, {how_long(total)} of sensor time in all, "
        "the values are predicted from the others and its own past. They complete a map or a mean; they have "
        "no information on the sensor itself or its own place.",
        items,
    )


def _mostly_estimated(data: ReportData) -> list[Html]:
    channels = [(one.estimated / one.rows, name) for name, one in data.counts.channels.items()
             if one.estimated > one.rows / 3]  # fmt: skip
    channels.sort(key=lambda entry: (-entry[0], entry[1]))
    items = [concat([channel_name(*name), f": {percent(share)}"]) for share, name in channels]
    return _limit(
        "Statistics of sensors that are estimates by more than a third.",
        f"{data.number_of(len(channels))} {'is' if len(channels) == 1 else 'are'} so; their means, trends and extremes "
        "are those of their neighbours to a good part.",
        items,
    )


def _accepted_levels(data: ReportData) -> list[Html]:
    offsets = accepted_offsets(data)
    items = [
        concat([channel_name(one.fault.sensor, one.fault.variable), f": {rounded(abs(one.level))} "
                f"{'above' if one.level > 0 else 'below'} the others from {date(one.fault.start)}, trusted at that "
                f"level from {date(one.fault.end)} on"])
        for one in offsets
    ]  # fmt: skip
    return _limit(
        "Absolute levels of sensors that kept an offset.",
        "A fault that lasts stays reported while it is larger than the sensor's usual wander over such a time; "
        "then its level is the new one, as it is at once where maintenance.csv has the sensor as recalibrated. That "
        f"happened {'once' if len(offsets) == 1 else f'{len(offsets)} times'}. If the sensor was neither moved nor "
        "recalibrated, the values after it are off by as much.",
        items,
    )


def _empty_spans(data: ReportData) -> list[Html]:
    gaps = sorted(data.counts.empty_spans, key=lambda gap: (gap[0] - gap[1], gap))
    total = sum(end - begin for begin, end in gaps)
    items = [
        f"{span(begin, end)} ({how_long(end - begin)})"
        for begin, end in [*sorted(gaps[:MAX_LISTED]), *gaps[MAX_LISTED:]]
    ]
    return _limit(
        "Times when no sensor of the network reported.",
        f"There {'is' if len(gaps) == 1 else 'are'} {counted(len(gaps), 'such gap')}, {how_long(total)} in all. What "
        "stands there comes from the time around and from what is usual, not from any measurement; short events in it "
        "are lost.",
        items,
    )


def _unjudged(data: ReportData) -> list[Html]:
    dates = data.counts.unjudged
    days = sorted(day for day, (unjudged, readings) in dates.items() if unjudged > readings / 2)
    parts: list[Html] = []
    if days:
        parts += _limit(
            "Dates on which most readings were not judged.",
            f"{counted(sum(dates[day][0] for day in days), 'reading')} of {counted(len(days), 'day')}, where the "
            "network was not known yet or was to be ignored, taken as they came: faults were not looked for.",
            [span(first * DAY, last * DAY + DAY) for first, last in _runs(days)],
        )
    on_days: Counter[ChannelName] = Counter()
    for first, last in _runs(days):
        names, counts = data.reader.daily_counts.totals(first, last)
        on_days.update(dict(zip(names, counts["unjudged"].tolist(), strict=True)))
    others = [(count, name) for name, channel in data.counts.channels.items()
              if (count := channel.unjudged - on_days[name]) > 0]  # fmt: skip
    if others:
        others.sort(key=lambda entry: (-entry[0], entry[1]))
        total = sum(count for count, _ in others)
        parts += _limit(
            "Readings that were not judged while the others were.",
            f"{counted(total, 'reading')}: sensors that were new, or that were to be ignored. They may be wrong.",
            [concat([channel_name(*name), f": {counted(count, 'reading')}"]) for count, name in others],
        )
    return parts


def _runs(days: Sequence[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for day in days:
        runs = [*runs[:-1], (runs[-1][0], day)] if runs and runs[-1][1] == day - 1 else [*runs, (day, day)]
    return runs


def _alone(data: ReportData) -> list[Html]:
    channels = [
        (one.alone / max(one.readings, 1), one.alone, name) for name, one in data.counts.channels.items() if one.alone
    ]
    channels.sort(key=lambda entry: (-entry[0], entry[2]))
    items = [concat([channel_name(*name), f": {percent(share)} of its readings"]) for share, _, name in channels]
    total = sum(count for _, count, _ in channels)
    return _limit(
        "Sensors that stand alone.",
        f"{counted(total, 'reading')} of {data.number_of(len(channels))} could not be judged: fewer than two others "
        "reported, or none is like it. Only single spikes were looked for, and gaps are filled from its own past.",
        items,
    )


def _suspect(data: ReportData) -> list[Html]:
    count = data.counts.flags[Flag.SUSPECT]
    return _limit(
        "Fine differences on doubtful days.",
        f"{counted(count, 'reading')} ({percent(count, data.counts.rows)}) with flag 3: doubtful, but not enough to "
        "be replaced. Leave them out where a wrong value would matter.",
    ) if count else []  # fmt: skip


def _smooth(data: ReportData) -> list[Html]:
    items = []
    for variable, (read, estimated) in data.counts.change.items():
        # Not so where one of them is NaN.
        if estimated < 0.9 * read:
            name = [channel_name(variable), ": "] if variable else []
            items.append(concat([*name, f"from one value to the next, readings change by {rounded(read)} and estimates "
                                 f"by {rounded(estimated)}, {percent(1 - estimated / read)} less"]))  # fmt: skip
    return _limit(
        "Extremes and quick changes of filled values.",
        "Estimates are smoother than readings; peaks, counts of exceedances and quick changes come out too small "
        "where they are used. Take rows with the origin “observed” for these.",
        items,
    )


def _unknown(data: ReportData) -> list[Html]:
    count = data.counts.unknown
    return _limit(
        "Sums over all sensors without a look at empty values.",
        f"{counted(count, 'value')} {'is' if count == 1 else 'are'} empty even after cleaning: nothing was known yet.",
    ) if count else []  # fmt: skip


def _averaged(data: ReportData) -> list[Html]:
    values = sum(channel.readings for channel in data.counts.channels.values())
    readings = data.reader.run.get("readings")
    if not isinstance(readings, int) or not values or readings < 1.5 * values:
        return []
    return _limit(
        f"Anything shorter than {how_long(data.step)}.",
        f"About {readings / values:.0f} readings were averaged to one value; what happens within it is gone.",
    )


def _provisional(data: ReportData) -> list[Html]:
    return _limit(
        f"What came after {date(data.end - 1)}.",
        "The feed goes on; its latest values are provisional and not part of this report.",
    ) if data.network.provisional_from is not None else []  # fmt: skip
