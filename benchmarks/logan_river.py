"""What `sensormend clean` finds in the Logan River beside what its technicians did: `python benchmarks/logan_river.py`.

The options are the TOML of docs/logan-river.md. Everything goes to `--out`: the mended archive, the tables as
Markdown and CSV, `intervals.csv` (every fault interval beside the labels and beside what a person saw in it), and with
`--pictures` one picture per variable. `--doc` puts tables and pictures into the document, between its marks.

What a label is stands in the document too. In short: a reading whose `_cor` is NULL has not been decided on and counts
for nothing; else it was `deleted` (-9999), `replaced` (a code in `_qual`), `shifted` (no code, but changed by more than
`TOLERANCE`; a stage beside its usual datum), or `left`.
"""

from __future__ import annotations

import argparse
import csv
import os
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from sensormend.archive.cleaning import clean_archive
from sensormend.pipeline.options import Options
from sensormend.pipeline.times import iso, parse_time
from sensormend.plot.style import BLUE, GREYS, INK, ORANGE, bare, blank, heading, save

HERE = Path(__file__).resolve().parent
DOCUMENT = HERE.parent / "docs" / "logan-river.md"
SEEN = HERE / "logan_river_seen.csv"
SITES = ("FranklinBasin", "TonyGrove", "WaterLab", "MainStreet", "Mendon", "BlackSmithFork")
"""Down the river; the last is a tributary."""
VARIABLES = ("temp", "cond", "ph", "do", "turb", "stage")
TOLERANCE = {"temp": 0.1, "cond": 5.0, "ph": 0.1, "do": 0.1, "turb": 1.0, "stage": 1.0}
"""Changes that are no label: about what such a probe promises (deg C, uS/cm, pH, mg/l, NTU, cm). The printed line of
half and twice of it shows how much it matters."""
DELETED = -9999.0
UNDECIDED, LEFT, SHIFTED, REPLACED, GONE = range(5)
SUSPECT, FAIL, NOT_EVALUATED = 3, 4, 2
DAY, STEP = 86_400_000_000, 900_000_000
QUARTER = 0.25
VERDICTS = {
    "confirmed": "confirmed by the technicians",
    "wrong": "not labelled, but plainly wrong",
    "river": "false alarm: the river",
    "sound": "false alarm: a sound reading",
    "undecided": "undecidable",
    "ends": "silent: the file ends",
    "new": "not looked at yet",
}

Array = NDArray[Any]


@dataclass(frozen=True)
class Series:
    """One site and variable: what was read, what the technicians made of it, what sensormend said."""

    sensor: str
    variable: str
    time: Array
    raw: Array
    corrected: Array
    code: Array
    flag: Array
    cleaned: Array

    @cached_property
    def datum(self) -> float:
        """What is added to every reading alike: a stage counts from the probe, `_cor` from a mark on the bank."""
        changed = (self.corrected - self.raw)[~np.isnan(self.corrected) & (self.corrected != DELETED)]
        return float(np.nanmedian(changed)) if self.variable == "stage" and len(changed) else 0.0

    @cached_property
    def change(self) -> Array:
        """How far a reading was moved, its datum apart; NaN where it was deleted or not decided on."""
        return np.where(self.corrected == DELETED, np.nan, self.corrected - self.raw - self.datum)

    def labels(self, times: float = 1.0) -> Array:
        """Return what was done to every reading, with `times` the tolerance."""
        label = np.where(np.abs(self.change) > times * TOLERANCE[self.variable], SHIFTED, LEFT)
        label[~np.isnan(self.code)] = REPLACED
        label[self.corrected == DELETED] = GONE
        # Where nothing was read there is nothing to judge, for either side.
        label[np.isnan(self.corrected) | np.isnan(self.raw)] = UNDECIDED
        return label

    @cached_property
    def label(self) -> Array:
        """What was done to every reading."""
        return self.labels()

    def days(self, of: Array, share: float) -> Array:
        """Return which decided days have more than `share` of their decided readings in `of`."""
        decided = self.label != UNDECIDED
        day = self.time[decided] // DAY
        _, place = np.unique(day, return_inverse=True)
        return np.bincount(place, of[decided]) > share * np.bincount(place)


@dataclass(frozen=True)
class Interval:
    """A line of faults.csv beside the labels and beside what a person saw."""

    sensor: str
    variable: str
    start: int
    end: int
    reason: str
    readings: int
    shares: dict[str, float]
    change: float
    verdict: str
    seen: str


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("SENSORMEND_DATA", "../shared/data")))
    parser.add_argument("--out", type=Path, default=Path("out/logan_river"))
    parser.add_argument("--mended", type=Path, help="an OUT of an earlier run; nothing is cleaned then")
    parser.add_argument("--pictures", action="store_true", help="one picture per variable, all sites, into --out")
    parser.add_argument("--ice", action="store_true", help="clean twice more, with less ice at Tony Grove")
    parser.add_argument("--doc", action="store_true", help=f"put tables and pictures into {DOCUMENT.name}")
    args = parser.parse_args()
    source = args.data / "logan_river"
    if not source.is_dir():
        print(f"{source} is not here: set SENSORMEND_DATA to the folder that has logan_river", file=sys.stderr)
        return 1
    args.out.mkdir(parents=True, exist_ok=True)
    mended = args.mended or cleaned(source, args.out)
    river = [read(source, mended, f"{site}2020", variable) for site in SITES for variable in VARIABLES]
    faults = intervals(mended, river)
    tables = {
        "days": by_day(river),
        "variants": by_variant(river),
        "labels": by_label(river),
        "readings": by_reading(river),
    }
    tables |= {"events": by_event(river), "verdicts": by_verdict(faults)}
    text = {name: markdown(table) for name, table in tables.items()}
    text |= {"list": markdown(listed(faults)), "facts": facts(river, faults)}
    if args.ice:
        stage = next(one for one in river if named(one) == ("TonyGrove", "stage"))
        text["ice"] = "\n".join(iced(source, args.out, stage, day) for day in ICE)
    for name, body in text.items():
        print(f"\n{name}\n\n{body}")
    (args.out / "logan_river.md").write_text("\n\n".join(text.values()) + "\n", encoding="utf-8")
    for name, table in tables.items():
        write(args.out / f"{name}.csv", table)
    write(args.out / "intervals.csv", in_full(faults))
    if args.pictures:
        for variable in VARIABLES:
            picture(args.out / f"{variable}.png", [one for one in river if one.variable == variable])
    if args.doc:
        DOCUMENT.write_text(marked(DOCUMENT.read_text(encoding="utf-8"), text), encoding="utf-8")
        for name, title, views in PICTURES:
            chosen = [(one, *view[2:]) for view in views for one in river if named(one) == view[:2]]
            zoomed(DOCUMENT.parent / f"logan-{name}.png", title, chosen)
    return 0


def cleaned(source: Path, out: Path) -> Path:
    match = re.search(r"```toml\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    if match is None:
        raise SystemExit(f"{DOCUMENT} shows no TOML")
    config = out / "river.toml"
    config.write_text(match[1], encoding="utf-8")
    report = clean_archive(source, out / "mended", Options.from_toml(config), overwrite=True)
    print(f"{report.readings:,} readings in {report.seconds:.1f} s")
    return report.out


ICE = ("2020-02-19T00:00", "2020-03-09T00:00")
"""Where four days of ice begin: as they were, and moved to where the river was calm."""


def iced(source: Path, out: Path, stage: Series, moment: str) -> str:
    """Say what is flagged of four days of ice at Tony Grove when they are all the ice there is."""
    first, start, length = parse_time(ICE[0]), parse_time(moment), 4 * DAY
    values, ice = stage.raw.copy(), (stage.time >= first) & (stage.time < first + length)
    values[stage.corrected == DELETED] = np.nan
    span = (stage.time >= start) & (stage.time < start + length)
    usual = float(np.nanmedian(values))
    values[span] = stage.raw[ice] + (0 if start == first else np.nan_to_num(values[span] - usual))
    folder = out / f"ice-{moment[:10]}"
    folder.mkdir(exist_ok=True)
    for file in source.glob("*.csv"):
        lines = file.read_text(encoding="utf-8").splitlines()
        if file.stem == stage.sensor:
            place = lines[0].split(",").index("stage")
            for row, value in enumerate(values.tolist(), 1):
                cells = lines[row].split(",")
                cells[place] = "NULL" if np.isnan(value) else f"{value:.2f}"
                lines[row] = ",".join(cells)
        (folder / file.name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    mended = clean_archive(folder, out / f"mended-{folder.name}", Options.from_toml(out / "river.toml"), overwrite=True)
    flag = read(folder, mended.out, stage.sensor, "stage").flag
    moved = flag[stage.time >= parse_time("2020-03-21T13:00")]
    return (
        f"- Four days of ice from {moment[:10]}, {int((~np.isnan(values[span])).sum())} readings up to "
        f"{np.nanmax(values[span]) - usual:.0f} cm high, and no other ice: {int((flag[span] == FAIL).sum())} have "
        f"flag 4, {int((flag[span] == SUSPECT).sum())} flag 3; of {len(moved)} after the step of 21 March, "
        f"{int((moved == FAIL).sum())} and {int((moved == SUSPECT).sum())}."
    )


def read(source: Path, mended: Path, sensor: str, variable: str) -> Series:
    """Return one series; a fill value in the raw column is no reading."""
    file, rows = str(source / f"{sensor}.csv"), str(mended / "data" / "*" / "*.parquet")
    table = duckdb.execute(
        f"""select epoch_us(c.datetime) as time, nullif(c."{variable}", {DELETED})::double as raw,
                   c."{variable}_cor"::double as corrected, c."{variable}_qual"::double as code,
                   r.flag::double as flag, r.cleaned::double as cleaned
            from read_csv(?, nullstr = 'NULL', sample_size = -1) c
            left join read_parquet(?) r on r.time = c.datetime and r.sensor = ? and r.variable = ?
            order by c.datetime""",
        [file, rows, sensor, variable],
    ).fetchnumpy()
    columns = {name: np.ma.filled(np.ma.asarray(table[name]).astype(float), np.nan) for name in table if name != "time"}
    return Series(sensor, variable, np.asarray(table["time"], dtype=np.int64), **columns)


def share(part: float, whole: float) -> str:
    return f"{part / whole:.2f}" if whole else "-"


def scored(river: Sequence[Series], worst: int, least: float) -> tuple[int, int, int]:
    """Return how many decided days are flagged, labelled, and both."""
    flagged = np.concatenate([one.days(np.isin(one.flag, range(worst, FAIL + 1)), least) for one in river])
    labelled = np.concatenate([one.days(one.label > LEFT, least) for one in river])
    return int(flagged.sum()), int(labelled.sum()), int((flagged & labelled).sum())


def groups(river: Sequence[Series]) -> list[tuple[str, list[Series]]]:
    parts = [(variable, [one for one in river if one.variable == variable]) for variable in VARIABLES]
    return [*parts, ("all", list(river))]


def by_day(river: Sequence[Series]) -> list[dict[str, str]]:
    """Return precision and recall of days: flagged, labelled when any of their readings is."""
    table = []
    for variable, chosen in groups(river):
        decided = sum(len(one.days(one.label > LEFT, 0)) for one in chosen)
        unseen = sum(int(one.days(one.flag == NOT_EVALUATED, 0.5).sum()) for one in chosen)
        flagged, labelled, both = scored(chosen, FAIL, 0.0)
        counts = {
            "days decided": decided,
            "not evaluated": unseen,
            "labelled": labelled,
            "flagged": flagged,
            "both": both,
        }
        line = {"variable": variable, **{name: f"{count}" for name, count in counts.items()}}
        table.append(line | {"precision": share(both, flagged), "recall": share(both, labelled)})
    return table


def by_variant(river: Sequence[Series]) -> list[dict[str, str]]:
    """Return the same with other words for flagged; with a quarter, a quarter of the readings must be labelled too."""
    variants = (
        ("any 4", FAIL, 0.0),
        ("a quarter 4", FAIL, QUARTER),
        ("any 3 or 4", SUSPECT, 0.0),
        ("a quarter 3 or 4", SUSPECT, QUARTER),
    )
    table = []
    for variable, chosen in groups(river):
        line = {"variable": variable}
        for title, worst, least in variants:
            flagged, labelled, both = scored(chosen, worst, least)
            line[title] = f"{share(both, flagged)}, {share(both, labelled)} ({flagged}, {labelled})"
        table.append(line)
    return table


def by_label(river: Sequence[Series]) -> list[dict[str, str]]:
    """Return recall by what was done: days on which that is the gravest thing."""
    table = []
    for variable, chosen in groups(river):
        line = {"variable": variable}
        for name, kind in (("deleted", GONE), ("replaced", REPLACED), ("shifted", SHIFTED)):
            days = flagged_days = unseen = 0
            for one in chosen:
                gravest = one.days(one.label == kind, 0) & ~one.days(one.label > kind, 0)
                days += int(gravest.sum())
                flagged_days += int((gravest & one.days(one.flag == FAIL, 0)).sum())
                unseen += int((gravest & one.days(one.flag == NOT_EVALUATED, 0.5)).sum())
            line |= {f"{name}": f"{days}", f"{name}: flagged": f"{flagged_days}", f"{name}: not evaluated": f"{unseen}"}
        table.append(line)
    return table


def by_reading(river: Sequence[Series]) -> list[dict[str, str]]:
    table = []
    for variable, chosen in groups(river):
        decided = np.concatenate([one.label != UNDECIDED for one in chosen])
        labelled = np.concatenate([one.label > LEFT for one in chosen])[decided]
        flag = np.concatenate([one.flag for one in chosen])[decided]
        flagged, judged = flag == FAIL, flag != NOT_EVALUATED
        table.append(
            {
                "variable": variable,
                "decided": f"{len(flag):,}",
                "labelled": f"{labelled.sum():,}",
                "flagged": f"{flagged.sum():,}",
                "both": f"{(flagged & labelled).sum():,}",
                "agree": f"{100 * np.mean(flagged == labelled):.1f} %" if len(flag) else "-",
                "agree, of those evaluated": f"{100 * np.mean((flagged == labelled)[judged]):.1f} %"
                if judged.any()
                else "-",
                "labelled, but not evaluated": f"{(labelled & ~judged).sum():,}",
            }
        )
    return table


def by_event(river: Sequence[Series]) -> list[dict[str, str]]:
    """Return the long faults that people see, labelled or not, and how much of each was flagged."""
    table = []
    for event in events():
        one = next(one for one in river if (one.sensor, one.variable) == (event["sensor"], event["variable"]))
        start, end = parse_time(event["from"]), parse_time(event["to"])
        if event["verdict"] not in ("wrong", "confirmed") or end - start < DAY:
            continue
        inside = (one.time >= start) & (one.time < end) & ~np.isnan(one.raw)
        days = {int(day) for day in one.time[inside] // DAY}
        hit = {int(day) for day in one.time[inside & (one.flag == FAIL)] // DAY}
        table.append(
            {
                "site": plain(one.sensor),
                "variable": one.variable,
                "from": event["from"][:10],
                "days": f"{len(days)}",
                "days flagged": f"{len(hit)}",
                "what is seen": event["seen"],
            }
        )
    return table


def events() -> list[dict[str, str]]:
    with SEEN.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def intervals(mended: Path, river: Sequence[Series]) -> list[Interval]:
    """Return every line of faults.csv beside the labels, and beside what was seen at that time in that series."""
    known, lookup = events(), {(one.sensor, one.variable): one for one in river}
    intervals_read = []
    with (mended / "faults.csv").open(encoding="utf-8") as file:
        for line in csv.DictReader(file):
            # A site that is silent as a whole is one line, of no variable.
            one = lookup[line["sensor"], line["variable"] or VARIABLES[0]]
            start, end = parse_time(line["from"]), parse_time(line["to"])
            inside = (one.time >= start) & (one.time < end) & ~np.isnan(one.raw)
            label = one.label[inside]
            shares = {name: float(np.mean(label == kind)) if len(label) else 0.0 for name, kind in KINDS.items()}
            moved = one.change[inside & (one.label > LEFT) & ~np.isnan(one.change)]
            verdict, seen = judged(line, start, end, shares, known)
            change = float(np.median(moved)) if len(moved) else np.nan
            intervals_read.append(
                Interval(
                    one.sensor, line["variable"], start, end, line["reason"], len(label), shares, change, verdict, seen
                )
            )
    return intervals_read


KINDS = {"deleted": GONE, "replaced": REPLACED, "shifted": SHIFTED, "left": LEFT, "undecided": UNDECIDED}


def judged(
    line: dict[str, str], start: int, end: int, shares: dict[str, float], known: Sequence[dict[str, str]]
) -> tuple[str, str]:
    """Return the verdict on an interval: a person's where one was given, else what the labels say by themselves."""
    if line["reason"] == "silent":
        return "ends", ""
    common = [
        (min(end, parse_time(event["to"])) - max(start, parse_time(event["from"])), event)
        for event in known
        if (event["sensor"], event["variable"]) == (line["sensor"], line["variable"])
    ]
    most, event = max(common, key=lambda pair: pair[0], default=(0, {}))
    if most > 0:
        return event["verdict"], event["seen"]
    labelled = shares["deleted"] + shares["replaced"] + shares["shifted"]
    if labelled >= QUARTER:
        return "confirmed", "by the labels alone"
    return "new", "by the labels alone, sound" if shares["left"] == 1 else ""


def by_verdict(faults: Sequence[Interval]) -> list[dict[str, str]]:
    table = []
    for verdict, words in VERDICTS.items():
        chosen = [one for one in faults if one.verdict == verdict]
        counts = Counter(one.variable for one in chosen)
        slots = sum(one.readings if verdict != "ends" else (one.end - one.start) // STEP for one in chosen)
        line = {"verdict": words, "intervals": f"{len(chosen)}", "days in all": f"{slots * STEP / DAY:.1f}"}
        table.append(line | {variable: f"{counts[variable]}" for variable in VARIABLES})
    return [line for line in table if line["intervals"] != "0" or line["verdict"] != VERDICTS["new"]]


def listed(faults: Sequence[Interval]) -> list[dict[str, str]]:
    """Return the list for people: silence apart."""
    return [
        {
            "site": plain(one.sensor),
            "variable": one.variable,
            "from": iso(one.start)[5:16].replace("T", " "),
            "lasts": lasting(one.end - one.start),
            "reason": one.reason,
            "deleted, replaced, shifted": "-" if one.shares["undecided"] == 1 else f"{100 * touched(one):.0f} %",
            "verdict": VERDICTS[one.verdict],
            "what is seen": one.seen,
        }
        for one in faults
        if one.verdict != "ends"
    ]


def in_full(faults: Sequence[Interval]) -> list[dict[str, str]]:
    return [
        {
            "sensor": one.sensor,
            "variable": one.variable,
            "from": iso(one.start),
            "to": iso(one.end),
            "reason": one.reason,
            "readings": f"{one.readings}",
            **{name: f"{value:.4f}" for name, value in one.shares.items()},
            "typical_change": "" if np.isnan(one.change) else f"{one.change:.4g}",
            "verdict": VERDICTS[one.verdict],
            "seen": one.seen,
        }
        for one in faults
    ]


def touched(one: Interval) -> float:
    return one.shares["deleted"] + one.shares["replaced"] + one.shares["shifted"]


def lasting(length: int) -> str:
    if length % DAY == 0:
        return f"{length // DAY} d"
    return f"{length / STEP * 15:.0f} min"


def plain(sensor: str) -> str:
    return sensor.removesuffix("2020")


def named(one: Series) -> tuple[str, str]:
    return plain(one.sensor), one.variable


def facts(river: Sequence[Series], faults: Sequence[Interval]) -> str:
    """Say in lines what no table says."""
    everything = sum(int((~np.isnan(one.raw)).sum()) for one in river)
    decided = sum(int((one.label != UNDECIDED).sum()) for one in river)
    days = sum(len(np.unique(one.time // DAY)) for one in river)
    judged_days = sum(len(one.days(one.label > LEFT, 0)) for one in river)
    lines = [
        f"- {everything:,} raw readings on {days:,} days of one site and variable; the technicians decided on "
        f"{decided:,} readings ({100 * decided / everything:.0f} %), on {judged_days:,} of the days."
    ]
    for times in (0.5, 1.0, 2.0):
        count = sum(int(one.days(one.labels(times) > LEFT, 0).sum()) for one in river)
        lines.append(f"- With {times:g} times the tolerance {count} days are labelled.")
    for scope, chosen in (
        ("January to March, while all six sites run", [until(one, "2020-04-01T00:00") for one in river]),
        ("Franklin Basin alone, April and May", [since(one, "2020-04-01T00:00") for one in river]),
    ):
        flagged, labelled, both = scored(chosen, FAIL, 0.0)
        lines.append(
            f"- {scope}: {flagged} flagged days, {labelled} labelled, {both} both: precision {share(both, flagged)}, "
            f"recall {share(both, labelled)}; the flagged days are of {together(chosen)} series."
        )
    stage = next(one for one in river if named(one) == ("TonyGrove", "stage"))
    others = [until(one, "2020-04-01T00:00") for one in river if one is not stage]
    flagged, labelled, both = scored(others, FAIL, 0.0)
    lines.append(
        f"- January to March without the stage of Tony Grove: precision {share(both, flagged)}, "
        f"recall {share(both, labelled)} ({labelled} labelled days)."
    )
    turb = next(one for one in river if named(one) == ("FranklinBasin", "turb"))
    lone = np.zeros(len(turb.raw), dtype=bool)
    lone[1:-1] = turb.raw[1:-1] > 2 * np.maximum(turb.raw[:-2], turb.raw[2:])
    lines.append(
        f"- Franklin Basin turb: of {lone.sum()} lone readings of more than twice those before and after, the "
        f"technicians deleted or replaced {(lone & (turb.label >= REPLACED)).sum()}."
    )
    for word, start, end in (("before", "04-01", "04-09"), ("in", "04-09", "04-19"), ("after", "04-20", "05-01")):
        oxygen = part_of(river, "FranklinBasin", "do", f"2020-{start}T00:00", f"2020-{end}T00:00").raw
        off = np.abs(oxygen[1:-1] - (oxygen[:-2] + oxygen[2:]) / 2)
        lines.append(
            f"- Franklin Basin do, {word} the noisy days of April: 95 % of the readings are within "
            f"{np.nanquantile(off, 0.95):.3f} of the mean of those before and after."
        )
    lines.append(calibrated(river))
    coldest = min(
        (float(np.min(one.cleaned[one.flag == FAIL], initial=np.inf)), one.sensor)
        for one in river
        if one.variable == "temp"
    )
    lines.append(
        f"- The coldest temperature put in the place of a flagged one: {coldest[0]:.2f}, at {plain(coldest[1])}."
    )
    stood = part_of(river, "TonyGrove", "stage", "2020-01-01T00:00", "2020-04-01T00:00")
    lines.append(
        f"- Tony Grove stage: readings deleted on {int(stood.days(stood.label == GONE, 0).sum())} of "
        f"{len(np.unique(stood.time // DAY))} days, "
        f"{int((stood.days(stood.label == GONE, 0) & stood.days(stood.flag == FAIL, 0)).sum())} of them flagged."
    )
    april = parse_time("2020-04-01T00:00")
    for scope, chosen_faults in (
        ("January to March", [one for one in faults if one.start < april]),
        ("Franklin Basin alone, April and May", [one for one in faults if one.start >= april]),
    ):
        counts = Counter(one.verdict for one in chosen_faults)
        lines.append(
            f"- Intervals by looking, {scope}: {counts['confirmed'] + counts['wrong']} faults, "
            f"{counts['river'] + counts['sound']} false alarms, {counts['undecided']} undecidable."
        )
    summary = Counter(np.concatenate([one.flag[~np.isnan(one.flag)] for one in river]).astype(int).tolist())
    lines.append(
        f"- Flags of all readings: {', '.join(f'{flag}: {count:,}' for flag, count in sorted(summary.items()))}."
    )
    for one in river:
        errors = one.cleaned - one.corrected + one.datum
        hit = (one.label == REPLACED) & (one.flag == FAIL)
        if hit.any():
            ours, theirs = np.median(np.abs(errors[hit])), np.median(np.abs(one.change[hit]))
            lines.append(
                f"- {plain(one.sensor)} {one.variable}: {hit.sum()} replaced readings were flagged; raw differs from "
                f"the technicians' value by {theirs:.3g} (median), cleaned by {ours:.3g}."
            )
    return "\n".join(lines)


def together(river: Sequence[Series]) -> int:
    """Return in how many series there are flagged days: days of one fault are no independent hits."""
    return sum(bool(one.days(one.flag == FAIL, 0).any()) for one in river if (one.label != UNDECIDED).any())


def calibrated(river: Sequence[Series]) -> str:
    """Say whether the other sites show the step of oxygen that the technicians' drift ends with on 11 February."""
    daily = {plain(one.sensor): by_mean(one) for one in river if one.variable == "do"}
    ours = daily.pop("MainStreet")
    before, after, fitted = slice(31, 41), slice(42, 52), slice(42, 91)
    steps, scatters = [], []
    for others in (*([other] for other in daily.values()), list(daily.values())):
        columns = np.column_stack([*(other[:91] for other in others), np.ones(91)])
        weights = np.linalg.lstsq(columns[fitted], ours[fitted], rcond=None)[0]
        rest = ours[:91] - columns @ weights
        steps.append(float(rest[after].mean() - rest[before].mean()))
        scatters.append(float(rest[fitted].std()))
    implied = part_of(river, "MainStreet", "do", "2020-02-01T00:00", "2020-02-11T10:59").change[-1]
    return (
        "- Main Street do less what other sites make of it (a regression over 12 February to 31 March), the ten days "
        f"after 11 February less the ten days before: {steps[-1]:+.2f} mg/l with all five, where days scatter by "
        f"{scatters[-1]:.2f}; {min(steps[:-1]):+.2f} to {max(steps[:-1]):+.2f} with each alone, where they scatter by "
        f"{min(scatters[:-1]):.2f} to {max(scatters[:-1]):.2f}. The technicians' correction implies {implied:+.2f}."
    )


def by_mean(one: Series) -> Array:
    """Return the mean of every day from 1 January on."""
    day = (one.time - parse_time("2020-01-01T00:00")) // DAY
    return np.bincount(day, np.nan_to_num(one.raw)) / np.bincount(day, ~np.isnan(one.raw))


def part_of(river: Sequence[Series], site: str, variable: str, start: str, end: str) -> Series:
    one = next(one for one in river if named(one) == (site, variable))
    return part(one, (one.time >= parse_time(start)) & (one.time < parse_time(end)))


def until(one: Series, moment: str) -> Series:
    return part(one, one.time < parse_time(moment))


def since(one: Series, moment: str) -> Series:
    return part(one, one.time >= parse_time(moment))


def part(one: Series, chosen: Array) -> Series:
    """Return a part whose datum is that of the whole."""
    columns = (one.raw, one.corrected, one.code, one.flag, one.cleaned)
    selection = Series(one.sensor, one.variable, one.time[chosen], *(column[chosen] for column in columns))
    selection.__dict__["datum"] = one.datum
    return selection


def markdown(table: Sequence[dict[str, str]]) -> str:
    names = list(table[0])
    numbers = [all(re.match(r"[-\d]", line[name]) for line in table) for name in names]
    lines = ["| " + " | ".join(names) + " |", "|" + "|".join("---:" if number else "---" for number in numbers) + "|"]
    return "\n".join(lines + ["| " + " | ".join(line[name] for name in names) + " |" for line in table])


def write(path: Path, table: Sequence[dict[str, str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]))
        writer.writeheader()
        writer.writerows(table)


def marked(page: str, text: dict[str, str]) -> str:
    """Return the page with what stands between `<!-- logan NAME -->` and `<!-- /logan -->` filled anew."""
    return re.sub(
        r"<!-- logan (\w+) -->\n.*?<!-- /logan -->",
        lambda match: f"<!-- logan {match[1]} -->\n{text[match[1]]}\n<!-- /logan -->" if match[1] in text else match[0],
        page,
        flags=re.DOTALL,
    )


PICTURES: tuple[tuple[str, str, tuple[tuple[Any, ...], ...]], ...] = (
    (
        "stage",
        "Stage (cm) at three sites",
        (
            ("Mendon", "stage", "2020-03-01T00:00", "2020-04-01T00:00"),
            ("TonyGrove", "stage", "2020-01-01T00:00", "2020-04-01T00:00"),
            ("FranklinBasin", "stage", "2020-02-01T00:00", "2020-05-02T00:00"),
        ),
    ),
    (
        "unlabelled",
        "Faults without a label",
        (
            ("FranklinBasin", "do", "2020-04-05T00:00", "2020-04-25T00:00"),
            ("Mendon", "turb", "2020-03-01T00:00", "2020-03-28T00:00"),
            ("TonyGrove", "turb", "2020-01-01T00:00", "2020-04-01T00:00"),
        ),
    ),
)


def zoomed(path: Path, title: str, views: Sequence[tuple[Series, str, str]]) -> None:
    figure = blank(8.0, 1.9 * len(views) + 0.4)
    heading(figure, title)
    for axes, (one, start, end) in zip(np.atleast_1d(figure.subplots(len(views), 1)), views, strict=True):
        draw(axes, part(one, (one.time >= parse_time(start)) & (one.time < parse_time(end))))
    figure.axes[0].legend(fontsize=7, ncols=6, frameon=False, loc="lower left", bbox_to_anchor=(0.18, 0.98))
    save(figure, path)


def picture(path: Path, river: Sequence[Series]) -> None:
    figure = blank(14.0, 2.2 * len(river))
    for axes, one in zip(figure.subplots(len(river), 1), river, strict=True):
        draw(axes, one)
    figure.axes[0].legend(fontsize=7, ncols=6, frameon=False, loc="lower left", bbox_to_anchor=(0.18, 0.98))
    save(figure, path)


def draw(axes: Any, one: Series) -> None:
    """Draw one series: raw, what the technicians made of it, and the flags."""
    clock = one.time.astype("datetime64[us]")
    alone = one.flag == NOT_EVALUATED
    axes.fill_between(
        clock, 0, 1, where=alone, transform=axes.get_xaxis_transform(), color=GREYS[3], lw=0, label="not evaluated"
    )
    axes.plot(clock, one.raw, color=INK, lw=0.7, label="raw")
    corrected = np.where(one.corrected == DELETED, np.nan, one.corrected) - one.datum
    axes.plot(clock, np.where(one.label >= SHIFTED, corrected, np.nan), color="#009e73", lw=1.2, label="corrected")
    gone = one.label >= REPLACED
    axes.plot(clock[gone], one.raw[gone], ".", color=BLUE, ms=2.5, label="deleted or replaced")
    for flag, color, word in ((FAIL, ORANGE, "flag 4"), (SUSPECT, "#e69f00", "flag 3")):
        bad = one.flag == flag
        axes.plot(clock[bad], one.raw[bad], "o", mfc="none", mec=color, mew=0.6, ms=4, label=word)
    low, high = np.nanquantile(one.raw, [0.003, 0.997])
    axes.set_ylim(low - 0.15 * (high - low), high + 0.15 * (high - low))
    axes.set_title(f"{plain(one.sensor)} {one.variable}", loc="left", fontsize=9, color=INK)
    dates: Any = import_module("matplotlib.dates")
    ticks = dates.AutoDateLocator(maxticks=8)
    axes.xaxis.set_major_locator(ticks)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(ticks, show_offset=False))
    bare(axes, sides=("bottom", "left"))
    axes.tick_params(labelsize=7)


if __name__ == "__main__":
    sys.exit(main())
