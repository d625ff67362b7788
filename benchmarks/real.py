"""What `sensormend clean` makes of real archives: `python benchmarks/real.py [NAME ...] [-- OPTIONS OF CLEAN]`.

The archives are `$SENSORMEND_DATA/real/*.parquet`, by default `../shared/data/real` beside the repository. One Markdown
table has a line for each, and the details follow. Where the owners of an archive labelled it, flags 4 and 3 are shares
of the readings that they left as they are, else of all readings. `archives.judging` explains the other columns.

    python benchmarks/real.py oddwater -- --one-pass       options after `--` go to `clean`
    python benchmarks/real.py --calibration                how often a fault of a given confidence is confirmed
    python benchmarks/real.py --draw out/real              twenty faults of each archive as a picture
    python benchmarks/real.py --forms logan2019            the same readings as other tables: which flags differ
    python benchmarks/real.py --parts                      one or two sensors of each, and every sixth reading
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from archives.forms import FIRST_DAYS, compare_forms
from archives.judging import (
    ArchiveScores,
    JudgedFault,
    JudgedReadings,
    calibration,
    clean_readings,
    draw_faults,
    find_archives,
    is_rain,
    judge,
    judge_faults,
    read_judged,
    write_readings,
)
from archives.panels import COLUMNS, ROWS, draw_panels
from archives.parts import write_parts
from sensormend.bench.tables import markdown_table
from sensormend.errors import InputError, SensormendError
from sensormend.io.metadata import read_faults
from sensormend.readings import SECOND

MUCH = 0.05
"""A series whose total changes by more than this is counted in the details."""

NOTHING = "-"


@dataclass(frozen=True)
class ArchiveRun:
    """An archive that was cleaned: its scores, its faults, and how long it took."""

    name: str
    scores: ArchiveScores
    faults: list[JudgedFault]
    step: int
    seconds: float


def main(words: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if words is None else words)
    place = words.index("--") if "--" in words else len(words)
    own, options = words[:place], words[place + 1 :]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="archives; all by default")
    parser.add_argument("--calibration", action="store_true", help="also faults by confidence, of labelled archives")
    parser.add_argument("--draw", type=Path, metavar="FOLDER", help="also a picture of twenty faults of each archive")
    parser.add_argument("--seed", type=int, default=0, help="of the faults that are drawn")
    parser.add_argument("--forms", metavar="NAME", help="only compare forms of the table of one archive")
    parser.add_argument("--parts", action="store_true", help="parts of the archives instead of the whole")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="keep each OUT, new, as FOLDER/NAME")
    parser.add_argument("--mended", type=Path, metavar="FOLDER", help="a FOLDER of --out; nothing is cleaned then")
    args = parser.parse_args(own)
    try:
        archives = find_archives([args.forms] if args.forms else args.names)
    except SensormendError as error:
        print(error, file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    if args.forms:
        return show_forms(archives[args.forms], options)
    with tempfile.TemporaryDirectory() as folder:
        if args.parts:
            parts = [write_parts(archive, Path(folder)) for archive in archives.values()]
            archives = {name: part for own in parts for name, part in own.items()}
        return judge_archives(archives, args, options)


def judge_archives(archives: dict[str, Path], args: argparse.Namespace, options: Sequence[str]) -> int:
    """Clean and judge archives and print what was found; return 1 if one of them stopped."""
    runs, stopped, lines = [], [], []
    for name, archive in archives.items():
        try:
            runs.append(run(name, archive, args, options))
            lines.append(line(runs[-1]))
        except SensormendError as error:
            stopped.append(f"{name} stopped: {error}")
            lines.append({"archive": name, "flag 4": "stopped"})
            print(stopped[-1], file=sys.stderr, flush=True)
    print(markdown_table(lines))
    for one in runs:
        print(f"\n{one.name}, step {one.step / SECOND:.0f} s\n")
        print("\n".join(f"- {text}" for text in details(one.scores)))
    if args.calibration:
        show_calibration(runs)
    for text in stopped:
        print(f"\n{text}")
    return 1 if stopped else 0


def run(name: str, archive: Path, args: argparse.Namespace, options: Sequence[str]) -> ArchiveRun:
    """Clean an archive, or take its OUT of an earlier run, and judge it."""
    with folder_of(args.out) as folder:
        out, seconds = folder / name, np.nan
        if args.mended:
            out = args.mended / name
            if not out.is_dir():
                raise SensormendError(f"{out} is not here: clean it with --out {args.mended}")
        else:
            seconds = cleaned(archive, out, [*options, "--overwrite"])
        readings = read_judged(archive, out)
        faults = judge_faults(readings, read_faults(out / "faults.csv"))
    if args.draw:
        draw(args.draw / f"{name}.png", name, readings, draw_faults(faults, COLUMNS * ROWS, args.seed))
    return ArchiveRun(name, judge(readings), faults, readings.step, seconds)


@contextmanager
def folder_of(out: Path | None) -> Iterator[Path]:
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        yield out
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def cleaned(archive: Path, out: Path, options: Sequence[str]) -> float:
    """Clean the readings of an archive without their labels, and return the seconds it took."""
    with tempfile.TemporaryDirectory() as folder:
        readings = Path(folder) / "readings.parquet"
        write_readings(archive, readings)
        started = perf_counter()
        clean_readings(readings, out, options)
        return perf_counter() - started


def draw(path: Path, name: str, readings: JudgedReadings, faults: Sequence[JudgedFault]) -> None:
    title = f"{name}: {len(faults)} faults, drawn in proportion to their flagged readings"
    print(f"{draw_panels(path, title, readings, faults)}", file=sys.stderr, flush=True)


def line(one: ArchiveRun) -> dict[str, str]:
    """Return the line of the table of an archive."""
    scores, agreement = one.scores, one.scores.agreement
    worst, change = scores.variables["flagged"].head(1), scores.changes.dropna()
    rain = change[[is_rain(variable) for _, variable in change.index]]
    distance = scores.distances
    return {
        "archive": one.name,
        "flag 4": f"{scores.flagged:.2%}",
        "flag 3": f"{scores.suspect:.2%}",
        "worst variable": "".join(f"{variable} {share:.1%}" for variable, share in worst.items()) or NOTHING,
        "precision": f"{agreement.precision:.2f}" if agreement else NOTHING,
        "recall": f"{agreement.recall:.2f}" if agreement else NOTHING,
        "of bad": f"{agreement.recall_of['bad']:.2f}" if agreement and "bad" in agreement.recall_of else NOTHING,
        "events: precision": f"{agreement.event_precision:.2f}" if agreement else NOTHING,
        "events: recall": f"{agreement.event_recall:.2f}" if agreement else NOTHING,
        "impossible": f"{scores.impossible['count'].sum():,}",
        "largest change": changed(change[:1]) or NOTHING,
        "of rain": f"{rain.iloc[0]:+.1%}" if len(rain) else NOTHING,
        "distance": f"{distance['raw'].iloc[0]:.4f} -> {distance['cleaned'].iloc[0]:.4f}" if len(distance) else NOTHING,
        "seconds": NOTHING if np.isnan(one.seconds) else f"{one.seconds:.0f}",
    }


def changed(series: Any) -> str:
    return ", ".join(f"{sensor} {variable} {change:+.1%}" for (sensor, variable), change in series.items())


def details(scores: ArchiveScores) -> Iterator[str]:
    """Yield what the table has no column for."""
    agreement = scores.agreement
    if agreement:
        both = agreement.precision + agreement.recall
        f1 = 2 * agreement.precision * agreement.recall / both if both else 0.0
        labels = ", ".join(f"{name} {recall:.2f}" for name, recall in agreement.recall_of.items())
        yield (
            f"by reading: precision {agreement.precision:.2f}, recall {agreement.recall:.2f} ({labels}), F1 {f1:.2f}; "
            f"{agreement.labelled:.1%} have wrong labels"
        )
        yield (
            f"by event: precision {agreement.event_precision:.2f} of {agreement.flagged_events:,}, "
            f"recall {agreement.event_recall:.2f} of {agreement.labelled_events:,}"
        )
    shares = ", ".join(f"{own.Index} {own.flagged:.1%} and {own.suspect:.1%}" for own in scores.variables.itertuples())
    yield f"{'good' if agreement else 'all'} readings with flag 4 and 3 by variable: {shares}"
    if len(scores.reasons):
        total = scores.reasons.sum()
        reasons = ", ".join(f"{reason or NOTHING} {count / total:.0%}" for reason, count in scores.reasons[:4].items())
        channels = ", ".join(
            f"{' '.join(own.Index)} ({own.flagged:.0%} of {own.readings:,})" for own in scores.channels[:4].itertuples()
        )
        yield f"those with flag 4 by reason: {reasons}; most in {channels}"
    for own in scores.true_events.itertuples():
        yield f"{own.flagged:.1%} of the {own.readings:,} readings with the label {own.Index!r} are flagged"
    for own in scores.impossible.itertuples():
        yield f"impossible estimates of {own.Index}: {own.count:,}, {own.lowest:.4g} to {own.highest:.4g}"
    sizes = scores.changes.abs()
    if sizes.notna().any():
        yield (
            f"total or mean of a series: changed by {sizes.median():.2%} in the median, "
            f"by more than {MUCH:.0%} in {(sizes > MUCH).mean():.0%} of them; {changed(scores.changes[:3])}"
        )
    for own in scores.distances.itertuples():
        yield (
            f"distance from the owners' values over the spread, {own.Index} ({own.readings:,}): "
            f"{own.raw:.4f} raw, {own.cleaned:.4f} cleaned"
        )
    if len(scores.distances_by_variable):
        yield "the same by variable: " + ", ".join(
            f"{own.Index} {own.raw:.4f} -> {own.cleaned:.4f}" for own in scores.distances_by_variable.itertuples()
        )


def show_calibration(runs: Sequence[ArchiveRun]) -> None:
    """Print faults by confidence: of all labelled archives together, and of each."""
    labelled = [one for one in runs if one.scores.agreement]
    groups = [("all", [fault for one in labelled for fault in one.faults])]
    groups += [(one.name, one.faults) for one in labelled]
    lines = [
        {
            "archive": name,
            "confidence": "none" if np.isnan(entry.low) else f"{entry.low:g} to {entry.high:g}",
            "mean": NOTHING if np.isnan(entry.confidence) else f"{entry.confidence:.3f}",
            "faults": f"{entry.faults:,}",
            "confirmed": f"{entry.confirmed:.2f}",
            "readings": f"{entry.readings:,}",
            "confirmed by readings": f"{entry.confirmed_readings:.2f}",
        }
        for name, faults in groups
        for entry in calibration(faults).itertuples()
    ]
    print(f"\ncalibration\n\n{markdown_table(lines) if lines else 'no faults in labelled archives'}")


def show_forms(archive: Path, options: Sequence[str]) -> int:
    """Print for every form how many flags differ from those of the long table."""
    with tempfile.TemporaryDirectory() as folder:
        results = list(compare_forms(archive, Path(folder), options))
    lines = [
        {
            "form": one.form,
            "rows": f"{one.rows:,}",
            "common": f"{one.common:,}",
            "differ": (one.trouble and "stopped") or f"{one.differing:.4%}",
            f"after {FIRST_DAYS} days": (one.trouble and "stopped") or f"{one.differing_later:.4%}",
        }
        for one in results
    ]
    print(markdown_table(lines))
    stopped = [f"{one.form} stopped: {one.trouble}" for one in results if one.trouble]
    for text in stopped:
        print(text, file=sys.stderr)
    return 1 if stopped else 0


if __name__ == "__main__":
    sys.exit(main())
