"""`sensormend bench` has one command for each experiment, and one for all of them.

Modules that are slow to import are imported when a command runs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import cyclopts
from cyclopts import Parameter
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from sensormend.errors import ConfigError, SensormendError

if TYPE_CHECKING:
    from sensormend.bench.experiment import RunPlan
    from sensormend.bench.runner import RunProgress

__all__ = ["Common", "bench", "everything", "faults", "wide_console"]

bench = cyclopts.App(name="bench", help="The paper's tables and figures, every method in them, and the fault bench.")

# Tables go to stdout and keep their width when it is a file or a pipe; progress goes to stderr.
WIDTH_WITHOUT_TERMINAL = 160
OUT = Path("out/bench")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Common:
    """Options of every experiment.

    Parameters
    ----------
    trials
        Repetitions of each run, with other seeds; 5, in a quick run 1.
    seed
        The first seed.
    methods
        Comma-separated, like NetworkModel,OLRTR,RTR; or all.
    out
        The folder for results, tables, figures and index.md. Existing results are not computed again.
    quick
        A small run of everything.
    jobs
        The number of processes; times are measured best with 1.
    minibatches
        Their number in a simulation; 20, the paper has 100.
    fresh
        Compute existing results again.
    """

    trials: int | None = None
    seed: int = 0
    methods: str = "all"
    out: Path = OUT
    quick: Annotated[bool, Parameter(negative="")] = False
    jobs: int = 1
    minibatches: int | None = None
    fresh: Annotated[bool, Parameter(negative="")] = False


def _command(name: str, about: str) -> None:
    """Add the command of one experiment without options of its own."""

    def command(*, common: Common | None = None) -> None:
        _run([name], common)

    bench.command(command, name=name, help=about)


for _name, _about in {
    "size": "Vary the size of the tensor from 10 to 50 cubed.",
    "corruption": "Vary the share of faulty fibers from 0 to 0.5.",
    "magnitude": "Vary the magnitude of the faults.",
    "observation": "Vary the share of observed readings from 1 to 0.5.",
    "convergence": "Show how fast OLRTR and NetworkModel learn from minibatches of 1, 10 and 50 periods.",
    "noaa": "Clean a year of NOAA temperatures, spoilt as in the paper, 100 % and 90 % observed.",
    "aot": "Clean the Array of Things and compare it with a reference station.",
    "growth": "Measure time and memory of RTR, OLRTR and NetworkModel as the tensor gets longer.",
}.items():
    _command(_name, _about)


@bench.command
def faults(
    *,
    common: Common | None = None,
    data: str = "noaa",
    cases: str = "all",
    sensors: int | None = None,
    days: int | None = None,
    slots: int = 24,
    unscored: str = "",
) -> None:
    """Put known faults into sound readings and measure how well methods find and repair them.

    Parameters
    ----------
    data
        noaa, aot, a simulated network (city, dense, copies, skewed, zeros, pressure, sparse) or a file.
    cases
        Comma-separated: all (the five of whole days, hours-90 and latency), lasting (offsets and drifts of 90 days),
        small (1, 2, 3, 5 or 8 sensors), kinds (each kind of fault alone), outages (each kind alone, with outages),
        everything, or their names.
    sensors, days, slots
        The size of a simulated network; of any other data the first days, 364 by default.
    unscored
        Comma-separated numbers of sensors, from 0, that are in the network but not in the scores. The truth of noaa's
        sensor 27 is broken for weeks: 12 deg C below all others for six days, with jumps of 10 deg C in an hour.
    """
    try:
        hidden = tuple(int(part) for part in unscored.split(",") if part.strip())
    except ValueError:
        raise ConfigError(f"--unscored takes numbers of sensors, like 3,27; got {unscored!r}") from None
    options: dict[str, Any] = {"data": data, "cases": cases, "sensors": sensors, "days": days, "slots": slots}
    if Path(data).is_file():
        # A changed file under the same name is another experiment.
        options["digest"] = sha256(Path(data).read_bytes()).hexdigest()[:12]
    defaults = {"data": "noaa", "cases": "all", "slots": 24}
    _run(["faults"], common, unscored=hidden, **{k: v for k, v in options.items() if v != defaults.get(k)})


@bench.command(name="all")
def everything(*, common: Common | None = None) -> None:
    """Run every experiment; those whose data is missing are skipped and named."""
    from sensormend.bench.runner import EXPERIMENTS

    _run(list(EXPERIMENTS), common)


def _run(names: list[str], common: Common | None, **options: Any) -> None:
    """Run experiments with the given options, print their tables, and the folder of the results."""
    from sensormend.bench.experiment import RunPlan
    from sensormend.bench.runner import EXPERIMENTS, run

    common = Common() if common is None else common
    if common.jobs < 1:
        raise ConfigError(f"--jobs must be 1 or more, not {common.jobs}")
    # Options that are not given are left out, so that a plan does not depend on whether a default was typed.
    changed = tuple(sorted((name, value) for name, value in options.items() if value not in (None, False, ())))
    plan = RunPlan(common.trials, common.seed, common.methods, common.quick, common.minibatches, changed)
    names = _runnable(names, plan)
    console, problems = wide_console(), dict[str, SensormendError]()
    with _progress() as progress:
        done = run([(EXPERIMENTS[name], plan) for name in names], common.out, processes=common.jobs, fresh=common.fresh,
                   progress=progress, complain=problems.__setitem__ if len(names) > 1 else None)  # fmt: skip
    for experiment in done:
        for table in (table for table in experiment.tables if not table.aside):
            console.print(table.screen(), "")
    for experiment in done:
        written = ", ".join(str(path) for path in experiment.written)
        console.print(f"Written: {written}", soft_wrap=True, highlight=False, markup=False)
    if problems:
        raise SensormendError(f"{', '.join(problems)} left out: {next(iter(problems.values()))}")


def _runnable(names: list[str], plan: RunPlan) -> list[str]:
    """Drop experiments in which none of the chosen methods runs, unless that would drop all of them."""
    from sensormend.bench.runner import EXPERIMENTS

    runnable, runs, refused = [], 0, None
    for name in names:
        try:
            runs += len(EXPERIMENTS[name].jobs(plan))
            runnable.append(name)
        except ConfigError as error:
            refused = error
    if refused is not None and not runs:
        raise refused
    return runnable


def wide_console() -> Console:
    """Return the console for tables: as wide as the terminal, or wide where there is none."""
    return Console(width=None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL)


@contextmanager
def _progress() -> Iterator[Callable[[RunProgress], None]]:
    """Show the progress on stderr."""
    columns = (TextColumn("{task.fields[runs]}"), BarColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    progress = Progress(*columns, console=Console(stderr=True))
    task = progress.add_task("", total=1.0, runs="")

    def update(tick: RunProgress) -> None:
        # Started with the first run, so that a wrong call prints its one line only.
        progress.start()
        progress.update(task, completed=tick.share, description=tick.doing, runs=f"{tick.done}/{tick.runs} runs")

    try:
        yield update
    finally:
        if progress.live.is_started:
            progress.stop()
