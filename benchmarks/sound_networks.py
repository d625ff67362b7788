"""What `sensormend clean` makes of sound archives, simulated: `python benchmarks/sound_networks.py [KIND ...]`.

One Markdown table has a line for each kind of `archives.simulated`: the shares of readings with flags 4
and 3, the variable with most flags 4, estimates that cannot be, and the largest change of a total or mean. With
`--faults` a second run has plain faults put in: how many of them have half of their readings flagged.

    python benchmarks/sound_networks.py soil -- --one-pass     options after `--` go to `clean`
    python benchmarks/sound_networks.py --faults               also with plain faults
    python benchmarks/sound_networks.py --draw out/sound       also twenty flagged spans of each kind as a picture
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import duckdb
import pandas as pd

from archives.judging import (
    JudgedReadings,
    clean_readings,
    draw_faults,
    is_rain,
    judge,
    judge_faults,
    read_judged,
    write_readings,
)
from archives.panels import COLUMNS, ROWS, draw_panels
from archives.simulated import FAULTS, KINDS, sound_network, with_faults
from sensormend.bench.tables import markdown_table
from sensormend.errors import SensormendError
from sensormend.io.metadata import read_faults
from sensormend.readings import Flag

NOTHING = "-"


def main(words: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if words is None else words)
    place = words.index("--") if "--" in words else len(words)
    own, options = words[:place], words[place + 1 :]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"all by default; {', '.join(KINDS)}")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--days", type=int, help="at most so many days of each")
    parser.add_argument("--faults", action="store_true", help="also with plain faults put in")
    parser.add_argument(
        "--draw", type=Path, metavar="FOLDER", help="also twenty flagged spans of each kind as a picture"
    )
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="keep each archive and OUT in FOLDER")
    args = parser.parse_args(own)
    for kind in args.kinds:
        if kind not in KINDS:
            parser.error(f"no kind {kind!r}; there are {', '.join(KINDS)}")
    lines, of_faults, stopped = [], [], False
    for kind in args.kinds or KINDS:
        network = sound_network(kind, args.seed, args.days)
        sound, seconds = run(kind, network.readings, args, options)
        lines.append(line(kind, sound, seconds))
        print(" ".join(lines[-1].values()), file=sys.stderr, flush=True)
        stopped |= isinstance(sound, str)
        if args.faults:
            table = with_faults(network, args.seed)
            faulty, _ = run(f"{kind}_faults", table, args, options)
            if isinstance(faulty, str):
                lines[-1]["exit"], stopped = faulty, True
            else:
                of_faults.append(recalls(faulty, table).assign(kind=kind))
    print(markdown_table(lines))
    if of_faults:
        print(f"\nplain faults\n\n{markdown_table(summary(pd.concat(of_faults)))}")
    return 1 if stopped else 0


def run(name: str, table: Any, args: argparse.Namespace, options: Sequence[str]) -> tuple[JudgedReadings | str, float]:
    """Clean an archive; return its readings with their rows, or the message where it stopped, and the seconds."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.out or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        archive, readings, out = folder / f"{name}.parquet", folder / f"{name}_readings.parquet", folder / name
        duckdb.from_df(table).write_parquet(str(archive))
        write_readings(archive, readings)
        started = perf_counter()
        try:
            clean_readings(readings, out, [*options, "--overwrite"])
        except SensormendError as error:
            return str(error), perf_counter() - started
        seconds = perf_counter() - started
        judged = read_judged(archive, out)
        if args.draw:
            spans = draw_faults(judge_faults(judged, read_faults(out / "faults.csv")), COLUMNS * ROWS, args.seed)
            draw_panels(args.draw / f"{name}.png", f"{name}: {len(spans)} flagged spans", judged, spans)
    return judged, seconds


def line(kind: str, judged: JudgedReadings | str, seconds: float) -> dict[str, str]:
    """Return the line of the table of a kind."""
    if isinstance(judged, str):
        return {"kind": kind, "flag 4": "stopped", "exit": judged}
    scores = judge(judged)
    worst, change = scores.variables["flagged"].head(1), scores.changes.dropna()
    rain = change[[is_rain(variable) for _, variable in change.index]]
    return {
        "kind": kind,
        "what": KINDS[kind][0],
        "readings": f"{len(judged.rows):,}",
        "flag 4": f"{scores.flagged:.2%}",
        "flag 3": f"{scores.suspect:.2%}",
        "worst variable": "".join(f"{variable} {share:.1%}" for variable, share in worst.items()) or NOTHING,
        "impossible": f"{scores.impossible['count'].sum():,}",
        "largest change": "".join(f"{sensor} {name} {size:+.1%}" for (sensor, name), size in change[:1].items()),
        "of rain": f"{rain.iloc[0]:+.1%}" if len(rain) else NOTHING,
        "seconds": f"{seconds:.0f}",
        "exit": "0",
    }


def recalls(judged: JudgedReadings, table: Any) -> Any:
    """Return a line for each fault: what it is, how many readings it has, and the shares of them that are flagged."""
    faults = table[["time", "sensor", "variable", "fault"]].assign(
        time=table["time"].to_numpy().astype("datetime64[us]").astype("int64")
    )
    rows = judged.rows.astype({"sensor": str, "variable": str}).merge(faults, on=["time", "sensor", "variable"])
    wrong = rows["flag"].isin([Flag.FAIL, Flag.MISSING])
    rows = rows.assign(wrong=wrong, noticed=wrong | (rows["flag"] == Flag.SUSPECT))
    sound = rows[rows["fault"] == ""]
    groups = rows[rows["fault"] != ""].groupby(["fault", "sensor", "variable"])
    lines = groups.agg(readings=("wrong", "size"), wrong=("wrong", "mean"), noticed=("noticed", "mean")).reset_index()
    return lines.assign(sound=sound["wrong"].mean())


def summary(lines: Any) -> list[dict[str, str]]:
    """Return recall by kind of fault over all archives, and by archive."""
    result = []
    for column, names in (("fault", FAULTS), ("kind", list(dict.fromkeys(lines["kind"])))):
        for name in names:
            own = lines[lines[column] == name]
            result.append({
                "of": name,
                "faults": f"{len(own)}",
                "half of it with flag 4": f"{(own['wrong'] >= 0.5).mean():.2f}",
                "with flag 3 or 4": f"{(own['noticed'] >= 0.5).mean():.2f}",
                "mean share with flag 4": f"{own['wrong'].mean():.2f}",
                "other readings with flag 4": f"{own['sound'].mean():.2%}" if column == "kind" else NOTHING,
            })  # fmt: skip
    return result


if __name__ == "__main__":
    sys.exit(main())
