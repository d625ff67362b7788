"""Put the figures of the last `sensormend bench faults` into README.md: `python benchmarks/readme_table.py`."""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- table:faults -->", "<!-- /table:faults -->"
CASES = {
    "uniform-90": "readings drawn at random, 90 % observed",
    "uniform-100": "the same, all observed",
    "mix-90": "stuck, offset, drift, noise, gain; 90 % observed",
    "mix-outages": "the same, silent for days",
    "none-90": "no faults put in",
}
COLUMNS = {"F1": 3, "missing": 2, "repaired": 2, "trusted": 2, "false alarms, %": 2, "coverage, missing": 2,
           "coverage, repaired": 2}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figures", type=Path, default=ROOT / "out/bench/faults_noaa.csv")
    parser.add_argument("--readme", type=Path, default=ROOT / "README.md")
    parser.add_argument("--method", default="AutoOLRTR")
    told = parser.parse_args()
    with told.figures.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["method"] == told.method]
    page = told.readme.read_text(encoding="utf-8")
    told.readme.write_text(filled(page, table(rows)), encoding="utf-8")
    return 0


def table(rows: list[dict[str, str]]) -> str:
    """Lay out the means as Markdown, one line per case."""
    found = {(row["case"], row["figure"]): float(row["mean"]) for row in rows}
    lines = ["| faults | " + " | ".join(COLUMNS) + " |", "|---" + "|---:" * len(COLUMNS) + "|"]
    for case, words in CASES.items():
        cells = [
            f"{found[case, name]:.{digits}f}" if (case, name) in found else "-" for name, digits in COLUMNS.items()
        ]
        lines.append(f"| {words} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def filled(page: str, content: str) -> str:
    """Return the page with `content` between its marks."""
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n{content}\n{END}{after}"


if __name__ == "__main__":
    sys.exit(main())
