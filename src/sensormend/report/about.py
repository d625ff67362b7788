"""`header_section` returns the head of the report with its key numbers; `provenance_section` how the data was made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sensormend.pipeline.sentences import counted, enumeration, how_long, how_often, percent
from sensormend.pipeline.times import in_words
from sensormend.readings import DAY, MEANINGS, Flag
from sensormend.report.markup import (
    LONGEST_NAME,
    Html,
    concat,
    escape,
    html_table,
    minute,
    quotation,
    shortened,
    span,
    tag,
    worded,
)
from sensormend.report.report_data import ReportData
from sensormend.views.overview import wrong_and_filled

__all__ = ["header_section", "provenance_section"]

MAX_NAMED = 6
"""The maximum number of variables that the head names."""

FLAG_WORDS = {
    Flag.GOOD: "the reading was trusted and not changed",
    Flag.NOT_EVALUATED: "it could not be judged, or was to be ignored",
    Flag.SUSPECT: "doubtful; the reading was kept",
    Flag.FAIL: "wrong; replaced by its correction or an estimate",
    Flag.MISSING: "no reading; filled by an estimate",
}

OPTIONS = (
    "step",
    "period",
    "fill",
    "valid",
    "tolerance",
    "gone_after",
    "interval",
    "one_pass",
    "per_reading",
    "grace",
    "seed",
)
"""Options that contain no path, no address and no name."""

DURATIONS = ("step", "period", "gone_after", "grace")

VERSIONS = ("sensormend", "python", "numpy", "scipy", "duckdb")


def header_section(data: ReportData, contents: list[tuple[str, str]]) -> Html:
    """Return the head of the page; `contents` has the name and the title of each section."""
    network = data.network
    variables = [name[:LONGEST_NAME] for name in network.variables if name]
    measured = f" · {enumeration(variables, MAX_NAMED)}" if variables else ""
    return tag(
        "header",
        tag("p", "Report on a sensor network", class_="over"),
        tag("h1", network.name[:120]),
        tag(
            "p",
            f"{span(data.start // DAY * DAY, -(-data.end // DAY) * DAY)}{measured} · times are UTC, or as they came "
            "without a zone",
            class_="span",
        ),
        tag("p", worded(network.sentence), class_="says"),
        tag(
            "ul",
            *(tag("li", tag("b", number), tag("span", meaning)) for number, meaning in _key_numbers(data)),
            class_="key-numbers",
        ),
        tag("nav", concat((tag("a", title, href=f"#{name}") for name, title in contents), " "), aria_label="Contents"),
    )


def _key_numbers(data: ReportData) -> list[tuple[str, str]]:
    counts = data.counts
    share, _ = wrong_and_filled(data.reader, data.start // DAY, (data.end - 1) // DAY)
    wrong = len({status.sensor for status in data.now.values() if status.needs_repair})
    sensors = data.network.sensors
    days = counted(-(-(data.end - data.start) // DAY), "day")
    return [
        (f"{sensors:,}", f"{'sensor' if sensors == 1 else 'sensors'} over {days}"),
        (f"{wrong:,}", "to be repaired: faulty or silent at the end"),
        (percent(share or 0.0), "of what was measured was wrong"),
        (percent(counts.flags[Flag.MISSING], counts.rows), "of all values never came"),
        (percent(counts.estimated, counts.rows), "of all values are estimates"),
    ]


def provenance_section(data: ReportData) -> Html:
    """Return the section."""
    counts, run = data.counts, data.reader.run
    rows = [[str(int(flag)), MEANINGS[flag].replace("_", " "), FLAG_WORDS[flag], f"{counts.flags[flag]:,}",
             percent(counts.flags[flag], counts.rows)] for flag in Flag]  # fmt: skip
    facts = [(name, value) for name, value in _facts(data, run) if value]
    return tag(
        "section",
        tag("h2", "How it was made"),
        tag("p", "sensormend learned how the sensors of this network move together, day by day, and compared each "
            "of them with the others and its own past. Raw readings are kept beside every cleaned value, unchanged."),
        html_table(("", ""), [[escape(name), value] for name, value in facts], wide=1),
        tag("h3", "QARTOD flags"),
        html_table(("flag", "", "meaning", "values", "of all"), rows, numbers=(3, 4), wide=2),
        *([tag("h3", "Notes"), tag("ul", *(tag("li", quotation(note)) for note in data.network.notes[:20]))]
          if data.network.notes else []),
        id="made",
    )  # fmt: skip


def _facts(data: ReportData, run: Mapping[str, Any]) -> list[tuple[str, Html]]:
    counts, period = data.counts, data.reader.period
    versions = _mapping(run.get("surroundings"))
    finished = run.get("finished") or run.get("updated")
    return [
        ("made by", escape(f"sensormend {run.get('command')}" if run.get("command") else "")),
        ("when", escape(f"{str(finished).replace('T', ' ').removesuffix('Z')[:16]} UTC" if finished else "")),
        ("from", escape(_source(run))),
        ("grid", escape(f"one value {how_often(data.step)}"
                       + (f", in periods of {how_long(period)}" if period else ""))),
        ("result", escape(f"{counts.rows:,} values of {counted(len({name for name, _ in counts.channels}), 'sensor')}, "
                         f"{minute(data.start)} to {minute(data.end)}")),
        ("options given", escape(_options(run))),
        ("intervals", escape(f"hold the truth in {100 * data.network.interval:g} % of all cases")),
        ("versions", escape(", ".join(f"{name} {versions[name]}" for name in VERSIONS if versions.get(name)))),
    ]  # fmt: skip


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _source(run: Mapping[str, Any]) -> str:
    readings, rejected, source = run.get("readings"), run.get("rejected"), run.get("source")
    parts = [counted(readings, "reading")] if isinstance(readings, int) else []
    entries = source if isinstance(source, list) else []
    files = [entry for entry in entries if isinstance(entry, list) and len(entry) == 3]
    if files:
        size = sum(entry[1] for entry in files if isinstance(entry[1], int))
        parts.append(f"{counted(len(files), 'file')}, {size / 1e6:,.1f} MB")
    if isinstance(rejected, int) and rejected:
        parts.append(f"{counted(rejected, 'row')} could not be read")
    return "; ".join(parts)


def _options(run: Mapping[str, Any]) -> str:
    # A watch has settings of its own, such as grace, beside `options`; the fill values there are the detected ones.
    options = {**run, "fill": None, **_mapping(run.get("options"))}
    return ", ".join(
        f"{name} = {_short(name, options[name])}" for name in OPTIONS if options.get(name) not in (None, False, "")
    )


def _short(name: str, value: Any) -> str:
    text = in_words(value) if name in DURATIONS and isinstance(value, int) else str(value)
    return shortened(text, 80)
