"""`Experiment` says which runs to do, does one, and lays out the rows of all of them in tables."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
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
"""One measured run, flat: text, whole numbers, and numbers that are NaN where there is nothing to say."""

TRIALS = 5


LABELS = {"ORLTM": "ORLTM (reconstruction)"}
"""Methods that must not be shown by their bare name: of ORLTM only the abstract is public."""


def labelled(method: str) -> str:
    """Return a method's name as every table, figure and file has it."""
    return LABELS.get(method, method)


@dataclass(frozen=True)
class Job:
    """One run: a method at one setting of one experiment with one seed.

    Attributes
    ----------
    options
        What else the run needs, as sorted pairs of a name and a number, a text or a list.
    weight
        How long it should take, in microseconds, roughly; for the time left.
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
        """Return what tells this run from every other, the same tomorrow and on another machine."""
        plain = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "weight"}
        return json.dumps(plain | {"options": _without_folders(self.options)}, sort_keys=True)

    def option(self, name: str, otherwise: Any = None) -> Any:
        """Return one of the options."""
        return dict(self.options).get(name, otherwise)

    def row(self) -> Row:
        """Return the columns that say which run this is."""
        names = ("experiment", "setting", "x", "trial", "seed")
        return {name: getattr(self, name) for name in names} | {"method": labelled(self.method)}


@dataclass(frozen=True)
class RunPlan:
    """What was asked for.

    Attributes
    ----------
    trials, seed
        How often, and the first seed; None is five times, once in a quick run.
    methods
        Comma-separated names, or all.
    quick
        Smaller sizes, for a look.
    minibatches
        How many in the simulations; None is what the experiment says.
    options
        What only one experiment takes, as sorted pairs.
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
        """Return it as JSON has it; `from_dict` is the way back."""
        return {field.name: getattr(self, field.name) for field in fields(self)} | {
            "options": _without_folders(self.options)
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> RunPlan:
        """Make a plan of what `told` gave."""
        known = {field.name for field in fields(cls)} - {"options"}
        options = tuple(sorted((name, _frozen(value)) for name, value in record.get("options", {}).items()))
        return cls(**{name: record[name] for name in known if name in record}, options=options)

    def words(self) -> list[str]:
        """Return the arguments that ask for this plan; of a file its name only."""
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
    """Return options as they are kept: of a file its name, which together with its digest says enough."""
    chosen = dict(options)
    return chosen | {"data": Path(chosen["data"]).name} if "digest" in chosen else chosen


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


class Experiment(ABC):
    """One experiment: one file, one subcommand, one entry of the page."""

    name: ClassVar[str]
    title: ClassVar[str]
    caption: ClassVar[str] = ""
    """What its pictures show, in words; for those who cannot see them too."""

    def stem(self, plan: RunPlan) -> str:
        """Return the name of its files."""
        return self.name

    def heading(self, plan: RunPlan) -> str:
        """Return the title of its charts and tables: which network where there may be several, and if it was quick."""
        data = plan.option("data")
        return self.title + (f" on {Path(data).name}" if data else "") + (" (quick run)" if plan.quick else "")

    def prepare(self, plan: RunPlan) -> None:  # noqa: B027, most have nothing to prepare
        """Find the data, once, before anything runs; SensormendError where there is none."""

    @abstractmethod
    def jobs(self, plan: RunPlan) -> list[Job]:
        """Return the runs that a plan asks for, in the order of the tables."""

    @abstractmethod
    def run(self, job: Job) -> list[Row]:
        """Do one run; rows without what `Job.row` says of it."""

    @abstractmethod
    def tables(self, rows: Sequence[Row], plan: RunPlan) -> list[ResultTable]:
        """Lay out the rows of a plan."""

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


def runs_only(rows: Sequence[Row], plan: RunPlan) -> str:
    """Say over how many runs the figures are means."""
    trials = len({row["trial"] for row in rows})
    note = "A quick run on less data, for a look only. " if plan.quick else ""
    return note + (f"Mean ± standard deviation over {trials} trials." if trials > 1 else "One trial.")


def runs_note(rows: Sequence[Row], plan: RunPlan, *, minibatches: int | None = None) -> str:
    """Say over how many runs the figures are means, how long they were, and what is left out."""
    note = runs_only(rows, plan)
    if minibatches is None:
        return f"{note} The first {DROPPED} days are left out."
    return f"{note} {minibatches} minibatches, the paper has 100; the first {DROPPED} are left out, as in the paper."


def about(rows: Sequence[Row], where: str) -> str:
    """Say what a reader has to know about the methods, those with the same to say together."""
    here = {row["method"] for row in rows}
    names_of_note: dict[str, list[str]] = {}
    for contestant in line_up(where).values():
        for note in contestant.note.split("; ") if labelled(contestant.name) in here and contestant.note else ():
            names_of_note.setdefault(note, []).append(contestant.name)
    return " ".join(f"{', '.join(names)}: {note}." for note, names in names_of_note.items())


def by_method(
    rows: Sequence[Row], columns: Sequence[str], *, also: Mapping[str, str] | None = None,
    bars: Mapping[Any, Mapping[str, Bar]] | None = None, paper: Mapping[Any, Mapping[str, float]] | None = None,
    title: str, note: str, aside: bool = False,
) -> ResultTable:  # fmt: skip
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
    return ResultTable(
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
) -> ResultTable:  # fmt: skip
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
    return ResultTable(
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
