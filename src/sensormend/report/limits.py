"""What not to use the data for, as far as the data itself tells."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from sensormend.pipeline.sentences import counted, how_long, percent
from sensormend.readings import DAY, Flag
from sensormend.report.believed import believed
from sensormend.report.html import Html, joined, name_of, tag
from sensormend.report.material import Material
from sensormend.report.words import date, span, spread
from sensormend.views.digest import Name

__all__ = ["limits"]

MOST = 10
THIRD = 1 / 3


def limits(material: Material) -> Html:
    """Return the section."""
    found = [
        part
        for ask in (_stretches, _mostly_estimated, _believed, _nobody, _unjudged, _alone, _suspect, _smooth, _unknown,
                    _averaged, _provisional)
        for part in ask(material)
    ]  # fmt: skip
    unseen = (
        "A fault that all neighbours share looks like weather, and a small or very slow one stays within what is usual "
        "for its sensor: neither can be seen from the readings alone. What is called good here was not contradicted by "
        "the others; it was not measured against a reference."
    )
    return tag(
        "section",
        tag("h2", "What not to use the data for"),
        tag("ul", *found, class_="limits") if found else Html(""),
        tag("p", unseen, class_="note"),
        id="limits",
    )


def _limit(title: str, text: str, items: Sequence[str] = (), rest: int = 0) -> list[Html]:
    listed = [tag("li", item) for item in items]
    listed += [tag("li", f"and {rest:,} more")] if rest > 0 else []
    return [
        tag(
            "li",
            tag("p", tag("b", title)),
            tag("p", text),
            tag("ul", *listed, class_="many" if len(listed) > 4 else None) if listed else Html(""),
        )
    ]


def _stretches(material: Material) -> list[Html]:
    found = material.counts.stretches
    if not found:
        return []
    items = [
        joined(
            [
                name_of(one.sensor, one.variable),
                f": {span(one.start // DAY * DAY, -(-one.end // DAY) * DAY)} ({how_long(one.end - one.start)})",
            ]
        )
        for one in found[:MOST]
    ]
    total = sum(one.end - one.start for one in found)
    return _limit(
        "Sensors in times when all they have is estimates.",
        f"In {counted(len(found), 'stretch', 'stretches')} of a day and more, {how_long(total)} of sensor time in all, "
        "the values are what the others and its own past let expect. They complete a map or a mean; they say "
        "nothing about the sensor itself or its own spot.",
        items,
        len(found) - MOST,
    )


def _mostly_estimated(material: Material) -> list[Html]:
    found = [(one.estimated / one.rows, name) for name, one in material.counts.channels.items()
             if one.estimated > THIRD * one.rows]  # fmt: skip
    found.sort(key=lambda entry: (-entry[0], entry[1]))
    items = [joined([name_of(*name), f": {percent(share)}"]) for share, name in found[:MOST]]
    return _limit(
        "Statistics of sensors that are estimates by more than a third.",
        f"{material.many(len(found))} {'is' if len(found) == 1 else 'are'} so; their means, trends and extremes "
        "are those of their neighbours to a good part.",
        items,
        len(found) - MOST,
    ) if found else []  # fmt: skip


def _believed(material: Material) -> list[Html]:
    found = believed(material)
    items = [
        joined([name_of(one.fault.sensor, one.fault.variable), f": {spread(abs(one.level))} "
                f"{'above' if one.level > 0 else 'below'} the others from {date(one.fault.start)}, trusted at that "
                f"level from {date(one.fault.end)} on"])
        for one in found[:MOST]
    ]  # fmt: skip
    return _limit(
        "Absolute levels of sensors that kept an offset.",
        "A new level that lasts three to ten days is believed, since the sensor may have been moved or calibrated. "
        f"That happened {'once' if len(found) == 1 else f'{len(found)} times'}. If nobody "
        "was there, the values after it are off by as much.",
        items,
        len(found) - MOST,
    ) if found else []  # fmt: skip


def _nobody(material: Material) -> list[Html]:
    found = sorted(material.counts.nobody, key=lambda one: (one[0] - one[1], one))
    if not found:
        return []
    total = sum(end - begin for begin, end in found)
    items = [f"{span(begin, end)} ({how_long(end - begin)})" for begin, end in sorted(found[:MOST])]
    return _limit(
        "Times when nobody in the network reported.",
        f"There {'is' if len(found) == 1 else 'are'} {counted(len(found), 'such gap')}, {how_long(total)} in all. What "
        "stands there comes from the time around and from what is usual, not from any measurement; short events in it "
        "are lost.",
        items,
        len(found) - MOST,
    )


def _unjudged_on(material: Material, days: Sequence[int]) -> dict[Name, int]:
    """Count the readings of every channel that were not judged on some dates."""
    found: Counter[Name] = Counter()
    for first, last in _runs(sorted(days)):
        names, counts = material.look.digest.totals(first, last)
        found.update(dict(zip(names, counts["unjudged"].tolist(), strict=True)))
    return found


def _unjudged(material: Material) -> list[Html]:
    dates = material.counts.unjudged
    everybody = [day for day, (unjudged, heard) in dates.items() if unjudged > heard / 2]
    parts: list[Html] = []
    if everybody:
        runs = _runs(sorted(everybody))
        readings = sum(dates[day][0] for day in everybody)
        parts += _limit(
            "Dates on which most readings were not judged.",
            f"{counted(readings, 'reading')} of {counted(len(everybody), 'day')}, where the network was not known yet "
            "or people had said to leave it alone, taken as they came: faults were not looked for.",
            [span(first * DAY, last * DAY + DAY) for first, last in runs[:MOST]],
            len(runs) - MOST,
        )
    together = _unjudged_on(material, everybody)
    others = [(many, name) for name, one in material.counts.channels.items()
              if (many := one.unjudged - together.get(name, 0)) > 0]  # fmt: skip
    apart = sum(many for many, _ in others)
    if apart:
        others.sort(key=lambda entry: (-entry[0], entry[1]))
        items = [joined([name_of(*name), f": {counted(many, 'reading')}"]) for many, name in others[:MOST]]
        parts += _limit(
            "Readings that were not judged while the others were.",
            f"{counted(apart, 'reading')}: sensors that were new, or that people said to leave alone. They may be "
            "wrong.",
            items,
            len(others) - MOST,
        )
    return parts


def _runs(days: Sequence[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for day in days:
        found = [*found[:-1], (found[-1][0], day)] if found and found[-1][1] == day - 1 else [*found, (day, day)]
    return found


def _alone(material: Material) -> list[Html]:
    found = [
        (one.alone / max(one.heard, 1), one.alone, name) for name, one in material.counts.channels.items() if one.alone
    ]
    found.sort(key=lambda entry: (-entry[0], entry[2]))
    items = [joined([name_of(*name), f": {percent(share)} of its readings"]) for share, _, name in found[:MOST]]
    total = sum(many for _, many, _ in found)
    return _limit(
        "Sensors that stand alone.",
        f"{counted(total, 'reading')} of {material.many(len(found))} could not be judged: fewer than two others "
        "reported, or none is like it. Only single spikes were looked for, and gaps are filled from its own past.",
        items,
        len(found) - MOST,
    ) if found else []  # fmt: skip


def _suspect(material: Material) -> list[Html]:
    many = material.counts.flags[Flag.SUSPECT]
    return _limit(
        "Fine differences on doubtful days.",
        f"{counted(many, 'reading')} ({percent(many, material.counts.rows)}) with flag 3: doubtful, but not enough to "
        "be replaced. Leave them out where a wrong value would matter.",
    ) if many else []  # fmt: skip


def _smooth(material: Material) -> list[Html]:
    found = []
    for variable, (read, guessed) in material.counts.change.items():
        if math.isfinite(read) and math.isfinite(guessed) and guessed < 0.9 * read:
            of = [name_of(variable), ": "] if variable else []
            found.append(joined([*of, f"from one value to the next, readings change by {spread(read)} and estimates by "
                                 f"{spread(guessed)}, {percent(1 - guessed / read)} less"]))  # fmt: skip
    return _limit(
        "Extremes and quick changes of filled values.",
        "Estimates are smoother than readings; peaks, counts of exceedances and quick changes come out too small "
        "where they are used. Take rows with the origin “observed” for these.",
        found,
    ) if found else []  # fmt: skip


def _unknown(material: Material) -> list[Html]:
    many = material.counts.unknown
    return _limit(
        "Sums over all sensors without a look at empty values.",
        f"{counted(many, 'value')} {'is' if many == 1 else 'are'} empty even after mending: nothing was known yet.",
    ) if many else []  # fmt: skip


def _averaged(material: Material) -> list[Html]:
    heard = sum(one.heard for one in material.counts.channels.values())
    readings = material.look.run.get("readings")
    if not isinstance(readings, int) or not heard or readings < 1.5 * heard:
        return []
    return _limit(
        f"Anything shorter than {how_long(material.step)}.",
        f"About {readings / heard:.0f} readings were averaged to one value; what happens within it is gone.",
    )


def _provisional(material: Material) -> list[Html]:
    since = material.network.provisional_from
    return _limit(
        f"What came after {date(material.end - 1)}.",
        "The feed goes on; its latest values are provisional and not part of this report.",
    ) if since is not None else []  # fmt: skip
