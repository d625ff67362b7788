"""How the data was made: what was run on what, and what the flags mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sensormend.io.options import in_words
from sensormend.pipeline.sentences import counted, how_long, how_often, percent
from sensormend.readings import MEANINGS, Flag
from sensormend.report.html import Html, plain, quoted, table, tag
from sensormend.report.material import Material
from sensormend.report.words import moment

__all__ = ["making"]

FLAG_WORDS = {
    Flag.GOOD: "the reading was trusted and not changed",
    Flag.NOT_EVALUATED: "nobody could judge it, or it was to be left alone",
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
"""What people said that is no path, no address and no name."""

DURATIONS = ("step", "period", "gone_after", "grace")

VERSIONS = ("sensormend", "python", "numpy", "scipy", "duckdb")


def making(material: Material) -> Html:
    """Return the section."""
    counts, run = material.counts, material.look.run
    rows = [[str(int(flag)), MEANINGS[flag].replace("_", " "), FLAG_WORDS[flag], f"{counts.flags[flag]:,}",
             percent(counts.flags[flag], counts.rows)] for flag in Flag]  # fmt: skip
    facts = [(name, said) for name, said in _facts(material, run) if said]
    return tag(
        "section",
        tag("h2", "How it was made"),
        tag("p", "sensormend learned how the sensors of this network move together, day by day, and held each of them "
            "against the others and its own past. Raw readings are kept beside every mended value; none was changed."),
        table(("", ""), [[plain(name), said] for name, said in facts], wide=1),
        tag("h3", "QARTOD flags"),
        table(("flag", "", "meaning", "values", "of all"), rows, numbers=(3, 4), wide=2),
        *([tag("h3", "Notes"), tag("ul", *(tag("li", quoted(note)) for note in material.network.notes[:20]))]
          if material.network.notes else []),
        id="made",
    )  # fmt: skip


def _facts(material: Material, run: Mapping[str, Any]) -> list[tuple[str, Html]]:
    counts = material.counts
    versions = _mapping(run.get("surroundings"))
    readings = run.get("readings")
    rejected = run.get("rejected")
    made = run.get("finished") or run.get("updated")
    period = material.look.period
    return [
        ("made by", plain(f"sensormend {run.get('command')}" if run.get("command") else "")),
        ("when", plain(f"{str(made).replace('T', ' ').removesuffix('Z')[:16]} UTC" if made else "")),
        ("from", plain(_source(run, readings, rejected))),
        ("grid", plain(f"one value {how_often(material.step)}"
                       + (f", in periods of {how_long(period)}" if period else ""))),
        ("result", plain(f"{counts.rows:,} values of {counted(len({name for name, _ in counts.channels}), 'sensor')}, "
                         f"{moment(material.start)} to {moment(material.end)} UTC")),
        ("said by people", plain(_options(run))),
        ("intervals", plain(f"hold the truth in {100 * material.network.interval:g} % of all cases")),
        ("versions", plain(", ".join(f"{name} {versions[name]}" for name in VERSIONS if versions.get(name)))),
    ]  # fmt: skip


def _mapping(given: Any) -> Mapping[str, Any]:
    return given if isinstance(given, Mapping) else {}


def _source(run: Mapping[str, Any], readings: Any, rejected: Any) -> str:
    said = [counted(readings, "reading")] if isinstance(readings, int) else []
    source = run.get("source")
    files = (
        [entry for entry in source if isinstance(entry, list) and len(entry) == 3] if isinstance(source, list) else []
    )
    if files:
        size = sum(entry[1] for entry in files if isinstance(entry[1], int))
        said.append(f"{counted(len(files), 'file')}, {size / 1e6:,.1f} MB")
    if isinstance(rejected, int) and rejected:
        said.append(f"{counted(rejected, 'row')} could not be read")
    return "; ".join(said)


def _options(run: Mapping[str, Any]) -> str:
    # What a watch was told stands beside what it found: the fill values there are those that were found.
    options = _mapping(run["options"]) if "options" in run else {**run, "fill": None}
    return ", ".join(
        f"{name} = {_short(name, options[name])}" for name in OPTIONS if options.get(name) not in (None, False, "")
    )


def _short(name: str, value: Any) -> str:
    said = in_words(value) if name in DURATIONS and isinstance(value, int) else str(value)
    return said if len(said) <= 80 else said[:79] + "…"
