"""`coverage_section` states what was filled and with which intervals."""

from __future__ import annotations

import math
from statistics import NormalDist

from sensormend.pipeline.sentences import counted, how_often, percent
from sensormend.readings import Flag
from sensormend.report.markup import Html, channel_name, concat, html_table, rounded, tag
from sensormend.report.report_data import CAUSES, ReportData, RowCounts

__all__ = ["coverage_section"]

MAX_SHARES = 10
"""The number of sensors that are listed with their shares of estimates."""


def coverage_section(data: ReportData) -> Html:
    """Return the section."""
    counts = data.counts
    parts: list[str] = [tag("h2", "What was filled, and how sure that is"), _balance(data)]
    if counts.estimated:
        parts += [_causes(data), tag("h3", "How long the gaps are"), _gaps(counts),
                  tag("h3", "How sure the estimates are"), _sure(data),
                  tag("h3", "Whose values are estimates most often"), _shares(data)]  # fmt: skip
    return tag("section", *parts, id="filled")


def _balance(data: ReportData) -> Html:
    counts = data.counts
    read = counts.rows - counts.estimated - counts.corrected - counts.unknown
    parts = [
        f"There is one value per sensor{', variable' if data.several else ''} and "
        f"{how_often(data.step).removeprefix('every ')}: {counts.rows:,} in all. "
        f"{counted(read, 'is a reading as it', 'are readings as they')} came, not changed in any way "
        f"({percent(read, counts.rows)}); "
        f"{counted(counts.estimated, 'is an estimate', 'are estimates')} ({percent(counts.estimated, counts.rows)})"
        f"{', for the causes below' if counts.estimated else ''}.",
    ]
    if counts.corrected:
        parts.append(f" {counted(counts.corrected, 'is a wrong reading with its', 'are wrong readings with their')} "
                    f"fault taken out ({percent(counts.corrected, counts.rows)}).")  # fmt: skip
    suspect = counts.flags[Flag.SUSPECT]
    if suspect:
        parts.append(f" {counted(suspect, 'reading')} ({percent(suspect, counts.rows)}) seemed doubtful and "
                    f"{'was' if suspect == 1 else 'were'} kept")  # fmt: skip
        parts.append(f", {counts.duplicates:,} of them because two readings of one time differ."
                    if counts.duplicates else ".")  # fmt: skip
    if counts.unknown:
        parts.append(f" {counted(counts.unknown, 'value')} ({percent(counts.unknown, counts.rows)}) "
                    f"{'is' if counts.unknown == 1 else 'are'} empty: nothing was known yet.")  # fmt: skip
    return tag("p", *parts)


def _causes(data: ReportData) -> Html:
    counts = data.counts
    rows = []
    for cause, words in CAUSES.items():
        total = sum(values for (_, other), values in counts.causes.items() if other == cause)
        if total:
            row = [words, f"{total:,}", percent(total, counts.rows)]
            rows.append(row if data.several else [*row, _half(counts, data.reader.variables[0], cause)])
    header = ["why", "values", "of all"]
    return html_table(header if data.several else [*header, "usual interval"], rows, numbers=(1, 2, 3))


def _half(counts: RowCounts, variable: str, *causes: str, share: float = 0.5) -> str:
    half = counts.half_width(variable, *causes, share=share)
    return f"± {rounded(half)}" if math.isfinite(half) else "-"


def _gaps(counts: RowCounts) -> Html:
    lengths = counts.gap_table()
    total = sum(gaps for _, gaps, _ in lengths)
    rows = [
        [words, f"{gaps:,}", percent(gaps, total), f"{values:,}", percent(values, counts.estimated)]
        for words, gaps, values in lengths
    ]
    meaning = "A gap is a stretch of nothing but estimates, whatever its cause."
    header = ("length", "gaps", "of all gaps", "values in them", "of all estimates")
    return concat([tag("p", meaning), html_table(header, rows, numbers=(1, 2, 3, 4))])


def _sure(data: ReportData) -> Html:
    counts, share = data.counts, percent(data.network.interval)
    parts: list[str] = [
        tag("p", f"Each estimate has an interval that is meant to hold the truth in {share} of all cases. Half of the "
            "intervals are narrower than the usual one here, one in ten is wider than the wide one."),
    ]  # fmt: skip
    rows = []
    with_widths = {variable for variable, _ in counts.widths}
    variables = [name for name in data.reader.variables if name in with_widths]
    for variable in variables:
        over, among = counts.spread.get(variable, (math.nan, math.nan))
        rows.append([
            channel_name(variable or "all values"),
            _half(counts, variable),
            _half(counts, variable, share=0.9),
            f"± {rounded(among)}" if math.isfinite(among) else "-",
            f"± {rounded(over)}" if math.isfinite(over) else "-",
        ])  # fmt: skip
    header = ("", "usual interval", "wide interval", "sensors differ at one time", "readings vary over all")
    parts.append(html_table(header, rows, numbers=(1, 2, 3, 4)))
    parts.append(tag("p", "To compare: how far sensors are from their common mean at one time, and readings from the "
                     "mean of all, each as a standard deviation. An estimate is worth something where its interval is "
                     "narrower than these.", class_="note"))  # fmt: skip
    if not data.several and rows:
        parts.insert(1, _verdict(counts, variables[0], data.network.interval))
    return concat(parts)


def _verdict(counts: RowCounts, variable: str, share: float) -> Html:
    half, (_, among) = counts.half_width(variable), counts.spread.get(variable, (math.nan, math.nan))
    if not (math.isfinite(half) and math.isfinite(among) and half > 0 and among > 0):
        return Html("")
    # The interval of an estimate that is the mean of the other sensors.
    guess = NormalDist().inv_cdf((1 + share) / 2) * among
    better = (
        f"{guess / half:.1f} times narrower than" if half < 0.9 * guess
        else "about as wide as" if half < 1.1 * guess else "wider than"
    )  # fmt: skip
    return tag("p", f"In words: the truth is usually expected within {rounded(half)} of an estimate, with a certainty "
               f"of {percent(share)}. That is {better} the ± {rounded(guess)} that taking the mean of all other "
               "sensors would give.")  # fmt: skip


def _shares(data: ReportData) -> Html:
    channels = [(name, one) for name, one in data.counts.channels.items() if one.estimated]
    channels.sort(key=lambda entry: (-entry[1].estimated / entry[1].rows, entry[0]))
    rows = [
        [
            channel_name(*name),
            percent(one.estimated, one.rows),
            f"{one.estimated:,} of {one.rows:,}",
        ]
        for name, one in channels[:MAX_SHARES]
    ]
    rest = len(channels) - MAX_SHARES
    more = [tag("p", f"{rest:,} more have some, fewer than these.", class_="note")] if rest > 0 else []
    return concat([html_table(("sensor", "estimated", "values"), rows, numbers=(1, 2), wide=0), *more])
