"""`Experiment` lists its runs, performs one, and returns tables of the rows of all of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

from sensormend.bench.contestants import line_up
from sensormend.bench.tables import Bar, Cell, ResultTable, mean_and_spread
from sensormend.errors import ConfigError
from sensormend.simulate.scores import DROPPED

__all__ = [
    "COLUMNS",
    "COST",
    "ERRORS",
    "RE",
    "RELATIVE_ERROR",
    "RE_CODE",
    "RE_TEXT",
    "TRIALS",
    "Experiment",
    "Job",
    "Row",
    "RunPlan",
    "about",
    "by_method",
    "detection",
    "labelled",
    "pivot",
    "runs_note",
    "runs_only",
]

Row = dict[str, Any]
"""One measured run, flat: text, integers, and numbers that are NaN where there is no value."""

TRIALS = 5


LABELS = {"ORLTM": "ORLTM (reconstruction)"}
"""Methods that must not be shown by their bare name: of ORLTM only the abstract is public."""


def labelled(method: str) -> str:
    """Return a method's name for tables, figures and files."""
    return LABELS.get(method, method)


@dataclass(frozen=True)
class Job:
    """One run: a method at one setting of one experiment with one seed.

    Attributes
    ----------
    options
        Further parameters of the run, as sorted pairs of a name and a number, a text or a list.
    weight
        Approximate duration in microseconds, for the time left.
    """

    experiment: str
    method: str
    setting: str
    x: float
    trial: int
    seed: int
    options: tuple[tuple[str, Any], ...] = ()
    weight: float = 1.0

    @property
    def key(self) -> str:
        """Return the key of this run, which is the same at any time and on any machine."""
        plain = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "weight"}
        return json.dumps(plain | {"options": _without_folders(self.options)}, sort_keys=True)

    def option(self, name: str, otherwise: Any = None) -> Any:
        """Return one of the options."""
        return dict(self.options).get(name, otherwise)

    def row(self) -> Row:
        """Return the columns that identify the run."""
        names = ("experiment", "setting", "x", "trial", "seed")
        return {name: getattr(self, name) for name in names} | {"method": labelled(self.method)}


@dataclass(frozen=True)
class RunPlan:
    """The parameters of a bench.

    Attributes
    ----------
    trials, seed
        Number of trials, and the first seed; None is five, or one in a quick run.
    methods
        Comma-separated names, or all.
    quick
        Whether sizes are smaller, for a first look.
    minibatches
        Number in the simulations; None is the default of the experiment.
    options
        Options of single experiments, as sorted pairs.
    """

    trials: int | None = None
    seed: int = 0
    methods: str = "all"
    quick: bool = False
    minibatches: int | None = None
    options: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        if self.trials is not None and self.trials < 1:
            raise ConfigError(f"--trials must be 1 or more, not {self.trials}")
        if self.seed < 0:
            raise ConfigError(f"--seed must be 0 or more, not {self.seed}")
        if self.minibatches is not None and self.minibatches <= DROPPED:
            raise ConfigError(
                f"the first {DROPPED} minibatches are for learning: --minibatches must be more, not {self.minibatches}"
            )

    @property
    def repeats(self) -> int:
        """Return how many trials there are."""
        return self.trials if self.trials is not None else 1 if self.quick else TRIALS

    @property
    def seeds(self) -> list[tuple[int, int]]:
        """Return (trial, seed) of every trial."""
        return [(trial, self.seed + trial) for trial in range(self.repeats)]

    def option(self, name: str, otherwise: Any = None) -> Any:
        """Return one of the options."""
        return dict(self.options).get(name, otherwise)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan for JSON; `from_dict` is the inverse."""
        return {field.name: getattr(self, field.name) for field in fields(self)} | {
            "options": _without_folders(self.options)
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> RunPlan:
        """Return the plan of `to_dict`."""
        names = {field.name for field in fields(cls)} - {"options"}
        options = {name: tuple(value) if isinstance(value, list) else value
                   for name, value in record.get("options", {}).items()}  # fmt: skip
        return cls(**{name: record[name] for name in names if name in record}, options=tuple(sorted(options.items())))

    def words(self) -> list[str]:
        """Return the command-line arguments of this plan; of a file its name only."""
        record: dict[str, Any] = {name: getattr(self, name) for name in ("trials", "seed", "minibatches")}
        record |= {"methods": self.methods, "quick": self.quick, **dict(self.options)}
        record.pop("digest", None)
        words: list[str] = []
        for name, value in record.items():
            default = getattr(RunPlan(), name, None)
            if value == default or value is None or value is False or value in ("", ()):
                continue
            words.append(f"--{name}")
            if value is not True:
                words.append(",".join(map(str, value)) if isinstance(value, tuple) else Path(str(value)).name)
        return words


def _without_folders(options: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    """Return options as they are stored: of a file its name only, since its digest is stored too."""
    chosen = dict(options)
    return chosen | {"data": Path(chosen["data"]).name} if "digest" in chosen else chosen


class Experiment:
    """One experiment: one file, one subcommand, one entry of the page.

    One that only draws pictures has no `jobs`, and so no `run` and no `tables`.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    caption: ClassVar[str] = ""
    """What its pictures show; also their alternative text."""

    def stem(self, plan: RunPlan) -> str:
        """Return the name of its files."""
        return self.name

    def heading(self, plan: RunPlan) -> str:
        """Return the title of its charts and tables, with the network where it is an option, and (quick run)."""
        data = plan.option("data")
        return self.title + (f" on {Path(data).name}" if data else "") + (" (quick run)" if plan.quick else "")

    def prepare(self, plan: RunPlan) -> None:
        """Locate the data, once, before the first run; raise SensormendError where there is none."""

    def jobs(self, plan: RunPlan) -> list[Job]:
        """Return the runs of a plan, in the order of the tables."""
        return []

    def run(self, job: Job) -> list[Row]:
        """Perform one run; return its rows without the columns of `Job.row`."""
        raise NotImplementedError

    def tables(self, rows: Sequence[Row], plan: RunPlan) -> list[ResultTable]:
        """Return the tables of the rows of a plan."""
        return []

    def charts(self, rows: Sequence[Row], plan: RunPlan, folder: Path) -> list[Path]:
        """Draw the rows of a plan into a folder and return the pictures, PNG and SVG."""
        return []


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
"""Titles of columns in every table."""

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
    """Return a note on the rule by which a fiber counts as found."""
    return (
        f"F1: a fiber counts as found where any |E| in it exceeds {threshold:g}, the paper's rule; NetworkModel and "
        "the plain rules give their own verdict. F1 (oracle): at the threshold that is best for each run, chosen with "
        "the truth, which is not known in practice."
    )


def runs_only(rows: Sequence[Row], plan: RunPlan) -> str:
    """Return a note on the number of runs."""
    trials = len({row["trial"] for row in rows})
    note = "A quick run on less data, for a look only. " if plan.quick else ""
    return note + (f"Mean ± standard deviation over {trials} trials." if trials > 1 else "One trial.")


def runs_note(rows: Sequence[Row], plan: RunPlan, *, minibatches: int | None = None) -> str:
    """Return a note on the number of runs, their length, and what is left out."""
    note = runs_only(rows, plan)
    if minibatches is None:
        return f"{note} The first {DROPPED} days are left out."
    return f"{note} {minibatches} minibatches, the paper has 100; the first {DROPPED} are left out, as in the paper."


def about(rows: Sequence[Row], where: str) -> str:
    """Return the notes on the methods, those with the same note together."""
    methods = {row["method"] for row in rows}
    names_of_note: dict[str, list[str]] = {}
    for contestant in line_up(where).values():
        for note in contestant.note.split("; ") if labelled(contestant.name) in methods and contestant.note else ():
            names_of_note.setdefault(note, []).append(contestant.name)
    return " ".join(f"{', '.join(names)}: {note}." for note, names in names_of_note.items())


def by_method(
    rows: Sequence[Row], columns: Sequence[str], *, also: Mapping[str, str] | None = None,
    bars: Mapping[Any, Mapping[str, Bar]] | None = None, paper: Mapping[Any, Mapping[str, float]] | None = None,
    title: str, note: str, aside: bool = False,
) -> ResultTable:  # fmt: skip
    """Return a table with one line per method, and per value of the columns in `also` (column to title).

    `bars` and `paper` have targets and the paper's values, by (method, *also).
    """
    also = also or {}
    groups = _groups(rows, ("method", *also))
    cells = [
        [
            _cell(group, name, bar=(bars or {}).get(key, {}).get(name),
                  paper=(paper or {}).get(key, {}).get(name, float("nan")), with_diverged=number == 0)
            for number, name in enumerate(columns)
        ]
        for key, group in groups.items()
    ]  # fmt: skip
    labels, titles = ("kind", "method", *also.values()), tuple(COLUMNS[name] for name in columns)
    return ResultTable(title, note, labels, _labels(groups), titles, cells, aside=aside)


def pivot(
    rows: Sequence[Row], column: str, *, axis: str, title: str, note: str, at: str = "x",
    also: Mapping[str, str] | None = None, bars: Mapping[tuple[str, float], Bar] | None = None, aside: bool = False,
) -> ResultTable:  # fmt: skip
    """Return a table of one metric: a line per method and per value of `also`, a column per value of the column `at`.

    `axis` is the title of `at`; bars are by (method, value). A run that diverged has no value, but is counted.
    """
    also = also or {}
    values = sorted({row[at] for row in rows if row[at] is not None})
    groups = _groups(rows, ("method", *also))
    cells = [
        [
            _cell([row for row in group if row[at] in (value, None)], column, bar=(bars or {}).get((key[0], value)))
            for value in values
        ]
        for key, group in groups.items()
    ]
    labels, titles = ("kind", "method", *also.values()), tuple(f"{value:g}" for value in values)
    return ResultTable(title, note, labels, _labels(groups), titles, cells, axis, COLUMNS[column], aside)


def _labels(groups: Mapping[tuple[str, ...], list[Row]]) -> list[tuple[str, ...]]:
    return [(group[0]["kind"], *key) for key, group in groups.items()]


def _groups(rows: Sequence[Row], names: Sequence[str]) -> dict[tuple[str, ...], list[Row]]:
    """Group rows by some columns; NetworkModel, online, batch and plain methods in this order, else as they come."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in sorted(rows, key=lambda row: KINDS.index(row["kind"])):
        groups.setdefault(tuple(str(row[name]) for name in names), []).append(row)
    return groups


def _cell(
    rows: Sequence[Row], column: str, *, bar: Bar | None = None, paper: float = float("nan"), with_diverged: bool = True
) -> Cell:
    """Return one cell; it shows the number of diverged runs if `with_diverged`, which one cell of a line does."""
    done = [row for row in rows if row["status"] == "done"]
    values = [float("nan") if row.get(column) is None else float(row[column]) for row in done]
    diverged = len(rows) - len(done) if with_diverged else 0
    return Cell(*mean_and_spread(values), bar=bar, paper=paper, runs=len(rows), diverged=diverged)
