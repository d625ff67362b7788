"""From the rows of many runs to the tables: what every figure is called, and what it means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sensormend.bench.contestants import line_up
from sensormend.bench.experiment import Plan, Row, labelled
from sensormend.bench.tables import Bar, Cell, Figures, mean_and_spread
from sensormend.simulate.scores import DROPPED

__all__ = [
    "COLUMNS",
    "COST",
    "ERRORS",
    "RE",
    "RELATIVE_ERROR",
    "RE_CODE",
    "RE_TEXT",
    "about",
    "by_method",
    "detection",
    "pivot",
    "runs_only",
    "runs_told",
]

COLUMNS: dict[str, str] = {
    "f1": "F1",
    "f1_best": "F1 (oracle)",
    "precision": "precision",
    "recall": "recall",
    "re": "RE",
    "re_text": "RE (text)",
    "re_code": "RE (code)",
    "re_cleaned": "RE of cleaned",
    "missing": "missing",
    "faulty": "faulty",
    "repaired": "repaired",
    "trusted": "trusted",
    "false_alarms": "false alarms, %",
    "coverage_missing": "coverage, missing",
    "coverage_repaired": "coverage, repaired",
    "reading_f1": "F1 by reading",
    "sound_flagged": "sound flagged, %",
    "sound_wrong": "sound judged wrong, %",
    "after_flagged": "flagged after, %",
    "false_lasting": "false lasting",
    "raw": "raw",
    "detected_short": "found, < 12 h",
    "detected_middle": "found, 12-48 h",
    "detected_long": "found, > 48 h",
    "faults": "faults",
    "within_3": "within 3 h",
    "within_6": "within 6 h",
    "within_24": "within 24 h",
    "never": "never",
    "correlation": "correlation",
    "lowest": "lowest",
    "highest": "highest",
    "seconds": "seconds",
    "peak_mb": "peak MB",
}
"""What the columns of a row are called in every table."""

RE = "RE: relative error of the low-rank part, the truly faulty fibers zeroed, Frobenius norm."
RE_TEXT = (
    "RE (text): as the paper's text has it, the estimate zeroed on the fibers that the method found and the truth on "
    "the truly faulty ones, Frobenius norm."
)
RE_CODE = (
    "RE (code): as the authors' code has it, the truly faulty fibers zeroed, spectral norm of the first unfolding."
)
RELATIVE_ERROR = f"{RE} {RE_TEXT} {RE_CODE}"
ERRORS = (
    "missing, faulty, repaired, trusted: root mean square error of the cleaned values at missing readings of sound "
    "fibers, in all truly faulty fibers, in those of them that were found, and at the readings of sound fibers."
)
COST = "seconds and peak MB: of one run, memory above what the process had before, with what it returns."

KINDS = ("raw", "ours", "online", "batch", "plain")


def detection(threshold: float) -> str:
    """Say by which rule a fiber counts as found."""
    return (
        f"F1: a fiber counts as found where any |E| in it exceeds {threshold:g}, the paper's rule; AutoOLRTR and the "
        "plain rules give their own verdict. F1 (oracle): at the threshold that is best for each run, chosen with the "
        "truth in hand, which nobody has."
    )


def runs_only(rows: Sequence[Row], plan: Plan) -> str:
    """Say over how many runs the figures are means."""
    trials = len({row["trial"] for row in rows})
    told = "A quick run on less data, for a look only. " if plan.quick else ""
    return told + (f"Mean ± standard deviation over {trials} trials." if trials > 1 else "One trial.")


def runs_told(rows: Sequence[Row], plan: Plan, *, minibatches: int | None = None) -> str:
    """Say over how many runs the figures are means, how long they were, and what is left out."""
    told = runs_only(rows, plan)
    if minibatches is None:
        return f"{told} The first {DROPPED} days are left out."
    return f"{told} {minibatches} minibatches, the paper has 100; the first {DROPPED} are left out, as in the paper."


def about(rows: Sequence[Row], where: str) -> str:
    """Say what a reader has to know about the methods, those with the same to say together."""
    here = {row["method"] for row in rows}
    said: dict[str, list[str]] = {}
    for contestant in line_up(where).values():
        for note in contestant.note.split("; ") if labelled(contestant.name) in here and contestant.note else ():
            said.setdefault(note, []).append(contestant.name)
    return " ".join(f"{', '.join(names)}: {note}." for note, names in said.items())


def by_method(
    rows: Sequence[Row], columns: Sequence[str], *, also: Mapping[str, str] | None = None,
    bars: Mapping[Any, Mapping[str, Bar]] | None = None, paper: Mapping[Any, Mapping[str, float]] | None = None,
    title: str, note: str, aside: bool = False,
) -> Figures:  # fmt: skip
    """Lay out one line per method, and per value of the columns in `also` (column to title).

    `bars` and `paper` have what stands beside, by (method, *also).
    """
    also = also or {}
    groups = _groups(rows, ("method", *also))
    cells = [
        [
            _cell(group, name, bar=(bars or {}).get(which, {}).get(name),
                  paper=(paper or {}).get(which, {}).get(name, float("nan")), tells=number == 0)
            for number, name in enumerate(columns)
        ]
        for which, group in groups.items()
    ]  # fmt: skip
    return Figures(
        title=title,
        note=note,
        labels=("kind", "method", *also.values()),
        rows=[(group[0]["kind"], *which) for which, group in groups.items()],
        columns=tuple(COLUMNS[name] for name in columns),
        cells=cells,
        aside=aside,
    )


def pivot(
    rows: Sequence[Row], column: str, *, axis: str, title: str, note: str, at: str = "x",
    also: Mapping[str, str] | None = None, bars: Mapping[tuple[str, float], Bar] | None = None, aside: bool = False,
) -> Figures:  # fmt: skip
    """Lay out one figure: a line per method and per value of `also`, a column per value of the column `at`.

    `axis` is what that is called; bars by (method, value). A run that diverged has no value, and counts in all.
    """
    also = also or {}
    values = sorted({row[at] for row in rows if row[at] is not None})
    groups = _groups(rows, ("method", *also))
    cells = [
        [
            _cell([row for row in group if row[at] in (value, None)], column, bar=(bars or {}).get((which[0], value)))
            for value in values
        ]
        for which, group in groups.items()
    ]
    return Figures(
        title=title,
        note=note,
        labels=("kind", "method", *also.values()),
        rows=[(group[0]["kind"], *which) for which, group in groups.items()],
        columns=tuple(f"{value:g}" for value in values),
        cells=cells,
        axis=axis,
        figure=COLUMNS[column],
        aside=aside,
    )


def _groups(rows: Sequence[Row], names: Sequence[str]) -> dict[tuple[str, ...], list[Row]]:
    """Group rows by what some columns say; ours, online, batch and plain methods apart, else in their order."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in sorted(rows, key=lambda row: KINDS.index(row["kind"])):
        groups.setdefault(tuple(str(row[name]) for name in names), []).append(row)
    return groups


def _cell(
    rows: Sequence[Row], column: str, *, bar: Bar | None = None, paper: float = float("nan"), tells: bool = True
) -> Cell:
    """Gather one figure; `tells` whether this cell says how many runs diverged, which one in a line does."""
    done = [row for row in rows if row["status"] == "done"]
    values = [float("nan") if row.get(column) is None else float(row[column]) for row in done]
    diverged = len(rows) - len(done) if tells else 0
    return Cell(*mean_and_spread(values), bar=bar, paper=paper, runs=len(rows), diverged=diverged)
