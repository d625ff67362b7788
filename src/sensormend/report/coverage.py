"""`matrix_section` draws the health matrix; `coverage_section` states what was filled and with which intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import NormalDist

import numpy as np

from sensormend.pipeline.health import ABSENT, LETTERS, SEVERITY
from sensormend.pipeline.sentences import counted, how_often, percent, who
from sensormend.plot.canvas import HEALTH_COLOURS, NIGHT
from sensormend.readings import DAY, Flag
from sensormend.report.markup import NIGHT_STATES, Html, channel_name, concat, html_table, rounded, shortened, span, tag
from sensormend.report.report_data import CAUSES, ReportData, RowCounts
from sensormend.report.svg import Scale, as_uri, palette_png, rect_path, short, svg, text, time_ticks
from sensormend.views.matrix import MatrixRow

__all__ = ["coverage_section", "matrix_section"]

MAX_LABELLED, MAX_WORST = 60, 40
"""Most lines with names; of more, the worst have names, and all are shown in a small picture."""

STATE_WORDS = {
    "healthy": "every reading good",
    "filled": "gaps or single wrong values, filled",
    "suspect": "doubtful, kept as it came",
    "faulty": "wrong, replaced by corrections or estimates",
    "silent": "nothing came, all of it estimated",
    "not evaluated": "could not be judged",
}
WIDTH, SUMMARY_WIDTH, ROW_HEIGHT, TOP = 960.0, 165.0, 13.0, 22.0
LONGEST_LABEL, LETTER = 60, 6.1
MAX_PIXELS = 500
"""Pixels of the picture of all lines; where there are more, several are merged."""

MAX_SHARES = 10


def matrix_section(data: ReportData) -> Html:
    """Return the section."""
    lines = data.matrix.rows
    cell = data.matrix.cell_days
    days = "day" if cell == 1 else f"{cell} days"
    parts: list[str] = [
        tag("h2", "How every sensor was on every day"),
        tag("p", f"One line per sensor{' and variable' if data.several else ''}, one mark for every {days}, "
            "those with most trouble at the end and over all come first."),
        _legend(lines),
    ]  # fmt: skip
    if len(lines) > MAX_LABELLED:
        parts += [tag("h3", f"All {len(lines):,}"), _picture(data), tag("h3", f"The worst {MAX_WORST} of them")]
    shown = lines if len(lines) <= MAX_LABELLED else lines[:MAX_WORST]
    parts.append(_labelled(data, shown))
    return tag("section", *parts, id="health")


def _legend(lines: Sequence[MatrixRow]) -> Html:
    shown = set().union(*(line.cells for line in lines))
    keys = [
        tag("li", tag("svg", tag("path", d="M0 0h13v8h-13z", class_=state.replace(" ", "-")), viewBox="0 0 13 8",
                      aria_hidden="true"), tag("b", state), f": {STATE_WORDS[state]}")
        for letter, state in LETTERS.items() if letter in shown and state != ABSENT
    ]  # fmt: skip
    if "." in shown:
        keys.append(tag("li", tag("b", "blank"), ": not there yet, or not any more"))
    return tag("ul", *keys, class_="key")


def _picture(data: ReportData) -> Html:
    """Return all lines as an image with one pixel per cell."""
    code = np.zeros(256, np.uint8)
    code[[ord(letter) for letter in SEVERITY]] = range(len(SEVERITY))
    lines = data.matrix.rows
    cells = code[np.frombuffer("".join(line.cells for line in lines).encode("ascii"), np.uint8)]
    per_pixel = -(-len(lines) // MAX_PIXELS)
    # A line that no pixel shows would be lost, and with it a fault.
    cells = np.maximum.reduceat(cells.reshape(len(lines), -1), np.arange(0, len(lines), per_pixel))
    light, dark = (
        as_uri(palette_png(cells, [page, *(colours[LETTERS[letter]] for letter in SEVERITY[1:])]))
        for page, colours in (("#ffffff", HEALTH_COLOURS), (NIGHT["#ffffff"], NIGHT_STATES))
    )
    description = f"{counted(cells.shape[0], 'line')} of {counted(cells.shape[1], 'mark')}, one colour for each state"
    height = cells.shape[0] * max(1, 300 // cells.shape[0])
    picture = tag(
        "picture",
        tag("source", srcset=dark, media="screen and (prefers-color-scheme: dark)"),
        tag("img", src=light, alt=description, width=cells.shape[1], height=height, class_="pixels",
            style=f"height:{height}px"),
    )  # fmt: skip
    shown = span(data.start // DAY * DAY, -(-data.end // DAY) * DAY)
    each = f" Each line of it is {per_pixel} sensors, and shows the worst of them." if per_pixel > 1 else ""
    caption = f"From left to right: {shown}. From top to bottom: most trouble to least.{each}"
    return tag("figure", picture, tag("figcaption", caption))


def _labelled(data: ReportData, lines: Sequence[MatrixRow]) -> Html:
    """Return lines with names and totals."""
    cells, first = data.matrix.cells, int(np.datetime64(data.matrix.start, "D").astype(np.int64)) * DAY
    length = data.matrix.cell_days * DAY
    labels = [_label(one) for one in lines]
    left = LETTER * max(map(len, labels)) + 10
    scale = Scale(0, cells, left, WIDTH - SUMMARY_WIDTH)
    height = TOP + ROW_HEIGHT * len(lines) + 4
    paths: dict[str, list[str]] = {}
    drawn: list[str] = []
    for row, (line, label) in enumerate(zip(lines, labels, strict=True)):
        y = TOP + ROW_HEIGHT * row
        for letter, begin, end in _runs(line.cells):
            if LETTERS[letter] != ABSENT:
                place = scale.place(begin)
                paths.setdefault(LETTERS[letter], []).append(
                    rect_path(place, y, scale.place(end) - place, ROW_HEIGHT - 2)
                )
        full_name = who(line.sensor, line.variable)[:200]
        drawn.append(
            tag(
                "text",
                tag("title", full_name),
                label,
                x=short(left - 8),
                y=short(y + ROW_HEIGHT - 4),
                text_anchor="end",
            )
        )
        drawn.append(
            text(WIDTH - SUMMARY_WIDTH + 8, y + ROW_HEIGHT - 4, _summary(line, data.matrix.cell_days), class_="soft")
        )
    ticks = []
    for time, word in time_ticks(first, first + cells * length):
        x = scale.place((time - first) / length)
        ticks += [tag("path", d=f"M{short(x)} {short(TOP - 5)}V{short(height - 4)}", class_="axis"),
                  text(x + 3, TOP - 8, word, class_="soft")]  # fmt: skip
    areas = [tag("path", d="".join(parts), class_=state.replace(" ", "-")) for state, parts in paths.items()]
    picture = svg(
        WIDTH, height, *ticks, *areas, *drawn, description=f"Health of {counted(len(lines), 'sensor')} by days"
    )
    return tag("figure", tag("div", picture, class_="scroll"))


def _label(line: MatrixRow) -> str:
    """Return the name of a line, cut where it is too long; the variable is cut less."""
    variable = line.variable[: LONGEST_LABEL // 2]
    return f"{shortened(line.sensor, LONGEST_LABEL - len(variable))} {variable}".strip()


def _summary(line: MatrixRow, days: int) -> str:
    counts = [
        (line.cells.count(letter) * days, word) for letter, word in (("x", "faulty"), ("o", "silent"), ("u", "suspect"))
    ]
    parts = [f"{count} {word}" for count, word in counts if count]
    if not parts:
        return "no day wrong"
    first, _, word = parts[0].partition(" ")
    return ", ".join([f"{first} {'day' if first == '1' else 'days'} {word}", *parts[1:2]])


def _runs(cells: str) -> list[tuple[str, int, int]]:
    codes = np.frombuffer(cells.encode("ascii"), np.uint8)
    edges = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(cells)] if cells else [0]
    return [(cells[begin], begin, end) for begin, end in pairwise(edges)]


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
            _bar(one.estimated / one.rows),
        ]
        for name, one in channels[:MAX_SHARES]
    ]
    rest = len(channels) - MAX_SHARES
    more = [tag("p", f"{rest:,} more have some, fewer than these.", class_="note")] if rest > 0 else []
    return concat([html_table(("sensor", "estimated", "values", ""), rows, numbers=(1, 2), wide=3), *more])


def _bar(share: float) -> Html:
    drawn = [
        tag("rect", width=100, height=6, class_="healthy"),
        tag("rect", width=short(100 * share), height=6, fill="var(--mended)"),
    ]
    return tag("svg", *drawn, viewBox="0 0 100 6", preserveAspectRatio="none", class_="bar", aria_hidden="true")
