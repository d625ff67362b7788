"""What was filled, and how sure that is."""

from __future__ import annotations

import math
from statistics import NormalDist

from sensormend.pipeline.sentences import counted, how_often, percent
from sensormend.readings import Flag
from sensormend.report.counting import CAUSES, Counts
from sensormend.report.html import Html, joined, name_of, table, tag
from sensormend.report.material import Material
from sensormend.report.svg import short
from sensormend.report.words import spread

__all__ = ["filling"]

MOST = 10


def filling(material: Material) -> Html:
    """Return the section."""
    counts = material.counts
    parts: list[str] = [tag("h2", "What was filled, and how sure that is"), _balance(material)]
    if counts.estimated:
        parts += [_causes(material), tag("h3", "How long the gaps are"), _gaps(counts),
                  tag("h3", "How sure the estimates are"), _sure(material),
                  tag("h3", "Whose values are estimates most often"), _shares(material)]  # fmt: skip
    return tag("section", *parts, id="filled")


def _balance(material: Material) -> Html:
    counts = material.counts
    read = counts.rows - counts.estimated - counts.corrected - counts.unknown
    said = [
        f"There is one value per sensor{', variable' if material.several else ''} and "
        f"{how_often(material.step).removeprefix('every ')}: {counts.rows:,} in all. "
        f"{counted(read, 'is a reading as it', 'are readings as they')} came, not changed in any way "
        f"({percent(read, counts.rows)}); "
        f"{counted(counts.estimated, 'is an estimate', 'are estimates')} ({percent(counts.estimated, counts.rows)})"
        f"{', for the causes below' if counts.estimated else ''}.",
    ]
    if counts.corrected:
        said.append(f" {counted(counts.corrected, 'is a wrong reading with its', 'are wrong readings with their')} "
                    f"fault taken out ({percent(counts.corrected, counts.rows)}).")  # fmt: skip
    suspect = counts.flags[Flag.SUSPECT]
    if suspect:
        said.append(f" {counted(suspect, 'reading')} ({percent(suspect, counts.rows)}) seemed doubtful and "
                    f"{'was' if suspect == 1 else 'were'} kept")  # fmt: skip
        said.append(f", {counts.duplicates:,} of them because two readings of one time differ."
                    if counts.duplicates else ".")  # fmt: skip
    if counts.unknown:
        said.append(f" {counted(counts.unknown, 'value')} ({percent(counts.unknown, counts.rows)}) "
                    f"{'is' if counts.unknown == 1 else 'are'} empty: nothing was known yet.")  # fmt: skip
    return tag("p", *said)


def _causes(material: Material) -> Html:
    counts = material.counts
    rows = []
    for cause, words in CAUSES.items():
        many = sum(values for (_, found), values in counts.causes.items() if found == cause)
        if many:
            row = [words, f"{many:,}", percent(many, counts.rows)]
            rows.append(row if material.several else [*row, _half(counts, material.look.variables[0], cause)])
    header = ["why", "values", "of all"]
    return table(header if material.several else [*header, "usual interval"], rows, numbers=(1, 2, 3))


def _half(counts: Counts, variable: str, *causes: str, share: float = 0.5) -> str:
    half = counts.half_width(variable, *causes, share=share)
    return f"± {spread(half)}" if math.isfinite(half) else "-"


def _gaps(counts: Counts) -> Html:
    found = counts.gap_table()
    gaps = sum(many for _, many, _ in found)
    rows = [
        [words, f"{many:,}", percent(many, gaps), f"{values:,}", percent(values, counts.estimated)]
        for words, many, values in found
    ]
    said = "A gap is a stretch of nothing but estimates, whatever its cause."
    header = ("length", "gaps", "of all gaps", "values in them", "of all estimates")
    return joined([tag("p", said), table(header, rows, numbers=(1, 2, 3, 4))])


def _sure(material: Material) -> Html:
    counts, share = material.counts, percent(material.network.interval)
    parts: list[str] = [
        tag("p", f"Each estimate has an interval that is meant to hold the truth in {share} of all cases. Half of the "
            "intervals are narrower than the usual one here, one in ten is wider than the wide one."),
    ]  # fmt: skip
    rows = []
    variables = [name for name in material.look.variables if any(of == name for of, _ in counts.widths)]
    for variable in variables:
        over, among = counts.spread.get(variable, (math.nan, math.nan))
        rows.append([
            name_of(variable or "all values"),
            _half(counts, variable),
            _half(counts, variable, share=0.9),
            f"± {spread(among)}" if math.isfinite(among) else "-",
            f"± {spread(over)}" if math.isfinite(over) else "-",
        ])  # fmt: skip
    header = ("", "usual interval", "wide interval", "sensors differ at one time", "readings vary over all")
    parts.append(table(header, rows, numbers=(1, 2, 3, 4)))
    parts.append(tag("p", "To compare: how far sensors are from their common mean at one time, and readings from the "
                     "mean of all, each as a standard deviation. An estimate is worth something where its interval is "
                     "narrower than these.", class_="note"))  # fmt: skip
    if not material.several and rows:
        parts.insert(1, _verdict(counts, variables[0], material.network.interval))
    return joined(parts)


def _verdict(counts: Counts, variable: str, share: float) -> Html:
    half, (_, among) = counts.half_width(variable), counts.spread.get(variable, (math.nan, math.nan))
    if not (math.isfinite(half) and math.isfinite(among) and half > 0 and among > 0):
        return Html("")
    # What the interval would be for somebody who knew the mean of the others and nothing of the sensor itself.
    guess = NormalDist().inv_cdf((1 + share) / 2) * among
    better = (
        f"{guess / half:.1f} times narrower than" if half < 0.9 * guess
        else "about as wide as" if half < 1.1 * guess else "wider than"
    )  # fmt: skip
    return tag("p", f"In words: the truth is usually expected within {spread(half)} of an estimate, with a certainty "
               f"of {percent(share)}. That is {better} the ± {spread(guess)} that taking the mean of all other sensors "
               "would give.")  # fmt: skip


def _shares(material: Material) -> Html:
    found = [(name, one) for name, one in material.counts.channels.items() if one.estimated]
    found.sort(key=lambda entry: (-entry[1].estimated / entry[1].rows, entry[0]))
    rows = [
        [
            name_of(*name),
            percent(one.estimated, one.rows),
            f"{one.estimated:,} of {one.rows:,}",
            _bar(one.estimated / one.rows),
        ]
        for name, one in found[:MOST]
    ]
    rest = len(found) - MOST
    said = [tag("p", f"{rest:,} more have some, fewer than these.", class_="note")] if rest > 0 else []
    return joined([table(("sensor", "estimated", "values", ""), rows, numbers=(1, 2), wide=3), *said])


def _bar(share: float) -> Html:
    drawn = [
        tag("rect", width=100, height=6, class_="sound"),
        tag("rect", width=short(100 * share), height=6, fill="var(--mended)"),
    ]
    return tag("svg", *drawn, viewBox="0 0 100 6", preserveAspectRatio="none", class_="bar", aria_hidden="true")
