"""What an experiment is: runs to do, one run, and what to show of them."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

from sensormend.bench.tables import Figures
from sensormend.errors import ConfigError
from sensormend.simulate.scores import DROPPED

__all__ = ["TRIALS", "Experiment", "Job", "Plan", "Row", "labelled"]

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
        told = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "weight"}
        return json.dumps(told | {"options": _without_folders(self.options)}, sort_keys=True)

    def option(self, name: str, otherwise: Any = None) -> Any:
        """Return one of the options."""
        return dict(self.options).get(name, otherwise)

    def row(self) -> Row:
        """Return the columns that say which run this is."""
        names = ("experiment", "setting", "x", "trial", "seed")
        return {name: getattr(self, name) for name in names} | {"method": labelled(self.method)}


@dataclass(frozen=True)
class Plan:
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

    def told(self) -> dict[str, Any]:
        """Return it as JSON has it; `from_told` is the way back."""
        return {field.name: getattr(self, field.name) for field in fields(self)} | {
            "options": _without_folders(self.options)
        }

    @classmethod
    def from_told(cls, told: Mapping[str, Any]) -> Plan:
        """Make a plan of what `told` gave."""
        known = {field.name for field in fields(cls)} - {"options"}
        options = tuple(sorted((name, _frozen(value)) for name, value in told.get("options", {}).items()))
        return cls(**{name: told[name] for name in known if name in told}, options=options)

    def words(self) -> list[str]:
        """Return the arguments that ask for this plan; of a file its name only."""
        told: dict[str, Any] = {name: getattr(self, name) for name in ("trials", "seed", "minibatches")}
        told |= {"methods": self.methods, "quick": self.quick, **dict(self.options)}
        told.pop("digest", None)
        words: list[str] = []
        for name, value in told.items():
            default = getattr(Plan(), name, None)
            if value == default or value is None or value is False or value in ("", ()):
                continue
            words.append(f"--{name}")
            if value is not True:
                words.append(",".join(map(str, value)) if isinstance(value, tuple) else Path(str(value)).name)
        return words


def _without_folders(options: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    """Return options as they are kept: of a file its name, which together with its digest says enough."""
    told = dict(options)
    return told | {"data": Path(told["data"]).name} if "digest" in told else told


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


class Experiment(ABC):
    """One experiment: one file, one subcommand, one entry of the page."""

    name: ClassVar[str]
    title: ClassVar[str]
    caption: ClassVar[str] = ""
    """What its pictures show, in words; for those who cannot see them too."""

    def stem(self, plan: Plan) -> str:
        """Return the name of its files."""
        return self.name

    def heading(self, plan: Plan) -> str:
        """Return the title of its charts and tables: which network where there may be several, and if it was quick."""
        data = plan.option("data")
        return self.title + (f" on {Path(data).name}" if data else "") + (" (quick run)" if plan.quick else "")

    def prepare(self, plan: Plan) -> None:  # noqa: B027, most have nothing to prepare
        """Find the data, once, before anything runs; SensormendError where there is none."""

    @abstractmethod
    def jobs(self, plan: Plan) -> list[Job]:
        """Return the runs that a plan asks for, in the order of the tables."""

    @abstractmethod
    def run(self, job: Job) -> list[Row]:
        """Do one run; rows without what `Job.row` says of it."""

    @abstractmethod
    def tables(self, rows: Sequence[Row], plan: Plan) -> list[Figures]:
        """Lay out the rows of a plan."""

    def charts(self, rows: Sequence[Row], plan: Plan, folder: Path) -> list[Path]:
        """Draw the rows of a plan into a folder and return the pictures, PNG and SVG."""
        return []
