"""`Experiment` lists its runs, performs one, and returns tables of the rows of all of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

from sensormend.bench.contestants import line_up
from sensormend.bench.tables import Frame, ResultTable
from sensormend.errors import ConfigError
from sensormend.simulate.scores import DROPPED

__all__ = [
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
    "detection",
    "labelled",
    "runs_note",
    "runs_only",
]

Row = dict[str, Any]
"""One measured run, flat: text, integers and numbers."""

TRIALS = 5


LABELS = {"ORLTM": "ORLTM (reconstruction)"}
"""Methods that must not be shown under their bare names: only the abstract of ORLTM is public."""


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
    """One experiment: one file and one subcommand."""

    name: ClassVar[str]
    title: ClassVar[str]
    caption: ClassVar[str] = ""
    """What its pictures show; also their alternative text."""

    def stem(self, plan: RunPlan) -> str:
        """Return the name of its files."""
        return self.name

    def heading(self, plan: RunPlan) -> str:
        """Return the title of its charts and tables, with the network if that is an option, and "(quick run)"."""
        data = plan.option("data")
        return self.title + (f" on {Path(data).name}" if data else "") + (" (quick run)" if plan.quick else "")

    def prepare(self, plan: RunPlan) -> None:
        """Locate the data, once, before the first run; raise SensormendError where there is none."""

    def jobs(self, plan: RunPlan) -> list[Job]:
        """Return the runs of a plan, in the order of the tables."""
        return []

    def trials(
        self, plan: RunPlan, method: str, setting: str, x: float, options: Mapping[str, Any], weight: float
    ) -> list[Job]:
        """Return a run of a method at a setting for each seed of a plan."""
        chosen = tuple(sorted(options.items()))
        return [Job(self.name, method, setting, x, trial, seed, chosen, weight) for trial, seed in plan.seeds]

    def run(self, job: Job) -> list[Row]:
        """Perform one run; return its rows without the columns of `Job.row`."""
        raise NotImplementedError

    def tables(self, rows: Frame, plan: RunPlan) -> list[ResultTable]:
        """Return the tables of the rows of a plan."""
        return []

    def charts(self, rows: Frame, plan: RunPlan, folder: Path) -> list[Path]:
        """Draw the rows of a plan into a folder and return the pictures, PNG and SVG."""
        return []


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


def detection(threshold: float) -> str:
    """Return a note on the rule by which a fiber counts as found."""
    return (
        f"F1: a fiber counts as found where any |E| in it exceeds {threshold:g}, the paper's rule; NetworkModel and "
        "the plain rules give their own verdict. F1 (oracle): at the threshold that is best for each run, chosen with "
        "the truth, which is not known in practice."
    )


def runs_only(rows: Frame, plan: RunPlan) -> str:
    """Return a note on the number of runs."""
    trials = rows["trial"].nunique()
    note = "A quick run on less data, for a look only. " if plan.quick else ""
    return note + (f"Mean ± standard deviation over {trials} trials." if trials > 1 else "One trial.")


def runs_note(rows: Frame, plan: RunPlan, *, minibatches: int | None = None) -> str:
    """Return a note on the number of runs, their length, and what is left out."""
    note = runs_only(rows, plan)
    if minibatches is None:
        return f"{note} The first {DROPPED} days are left out."
    return f"{note} {minibatches} minibatches, the paper has 100; the first {DROPPED} are left out, as in the paper."


def about(rows: Frame, where: str) -> str:
    """Return the notes on the methods, those with the same note together."""
    methods = set(rows["method"])
    names_of_note: dict[str, list[str]] = {}
    for contestant in line_up(where).values():
        for note in contestant.note.split("; ") if labelled(contestant.name) in methods and contestant.note else ():
            names_of_note.setdefault(note, []).append(contestant.name)
    return " ".join(f"{', '.join(names)}: {note}." for note, names in names_of_note.items())
