"""Put the figures of `sensormend bench` into the documents: `python benchmarks/fill_docs.py OUT README.md docs/*.md`.

A document says which figures it wants between two marks, and what stands there is replaced:

    <!-- table noaa.csv | observed=90 % | F1; F1:paper; faulty -->
    <!-- /table -->

First the file in OUT, then what the rows must say (any number of conditions), then the columns: figures, with `:paper`
for the paper's, `:difference` for ours less the paper's and `:spread` for the standard deviation. `by AXIS` in place of
columns lays out one figure against the values of a column; `rows=LABEL` says what the rows are called where it is not
the method; `rows=method+passes` names them by both. Rows of methods that are not in the file stay as they are, so that
`sensormend bench noaa --methods NetworkModel` is enough after a change of the engine.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
from pathlib import Path

MARKED = re.compile(r"<!-- table ([^>]*?) -->\n(.*?)<!-- /table -->", re.DOTALL)
WORDS = {
    "uniform-90": "readings drawn at random, 90 % observed",
    "uniform-100": "the same, all observed",
    "mix-90": "stuck, offset, drift, noise, gain; 90 % observed",
    "mix-outages": "the same, silent for days",
    "none-90": "no faults put in",
    "hours-90": "faults of hours to days, 90 % observed",
}

Record = dict[str, str]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="the folder that sensormend bench wrote")
    parser.add_argument("documents", type=Path, nargs="+")
    args = parser.parse_args()
    for document in args.documents:
        page = document.read_text(encoding="utf-8")
        document.write_text(filled(page, args.out), encoding="utf-8")
    return 0


def filled(page: str, out: Path) -> str:
    """Return the page with every table whose figures are in `out` filled anew."""

    def fill(match: re.Match[str]) -> str:
        name, *parts = [part.strip() for part in match[1].split("|")]
        if not (out / name).is_file():
            return match[0]
        with (out / name).open(encoding="utf-8") as file:
            text = table(list(csv.DictReader(file)), parts)
        if all("method" in part for part in parts if part.startswith("rows=")):
            text = merged(match[2], text)
        return f"<!-- table {match[1]} -->\n{text}\n<!-- /table -->"

    return MARKED.sub(fill, page)


def merged(before: str, after: str) -> str:
    """Return an earlier table with the rows of a new one; the new one alone where it lacks a column of the earlier."""
    old, new = ([line.strip("| ").split(" | ") for line in text.splitlines()] for text in (before, after))
    if not old or not set(old[0]) <= set(new[0]):
        return after
    places = [new[0].index(name) for name in old[0]]
    rows = {row[0]: row for row in old[2:]} | {row[0]: [row[place] for place in places] for row in new[2:]}
    lines = ["| " + " | ".join(row) + " |" for row in (old[0], *rows.values())]
    return "\n".join([lines[0], before.splitlines()[1], *lines[1:]])


def table(records: list[Record], parts: list[str]) -> str:
    """Lay out the means as Markdown."""
    *conditions, columns = parts
    rows = "method"
    for condition in conditions:
        name, _, wanted = condition.partition("=")
        if name == "rows":
            rows = wanted
        else:
            records = [record for record in records if record.get(name) == wanted]
    records = [{**record, rows: ", ".join(record[label] for label in rows.split("+"))} for record in records]
    if not records:
        raise SystemExit(f"no figures for {' | '.join(parts)}")
    if columns.startswith("by "):
        axis = columns.removeprefix("by ")
        names = list(dict.fromkeys(record[axis] for record in records))
        cell_of = {(record[rows], record[axis]): value(record, "mean") for record in records}
    else:
        names = [name.strip() for name in columns.split(";")]
        cell_of = {}
        for record in records:
            for field in ("mean", "paper", "difference", "spread"):
                title = record["figure"] if field == "mean" else f"{record['figure']}:{field}"
                cell_of[record[rows], title] = value(record, field)
    lines = ["| " + " | ".join([rows.replace("+", ", "), *(name.replace(":", ", ") for name in names)]) + " |"]
    lines.append("|---" + "|---:" * len(names) + "|")
    for label in dict.fromkeys(record[rows] for record in records):
        cells = [cell_of.get((label, name), "-") for name in names]
        if any(cell != "-" for cell in cells):
            lines.append("| " + " | ".join([WORDS.get(label, label), *cells]) + " |")
    return "\n".join(lines)


def value(record: Record, field: str) -> str:
    """Return one figure as people write it."""
    if field == "mean" and record["mean"] == "nan":
        return f"diverged, {record['diverged']} of {record['runs']}" if record["diverged"] not in ("", "0") else "-"
    if record[field] in ("", "nan"):
        return "-"
    number = float(record[field])
    sign = "+" if field == "difference" else ""
    if number and abs(number) < 5e-4:
        return f"{number:{sign}.0e}"
    return f"{number:{sign}.3f}" if abs(number) < 10 else f"{number:{sign}.1f}"


if __name__ == "__main__":
    sys.exit(main())
