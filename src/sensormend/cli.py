"""The command line: thin, the work is done elsewhere.

Exit codes: 0 done, 2 a wrong call, 1 anything else; a failure is one line on stderr that says what to do.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Annotated

import cyclopts
import numpy as np
from cyclopts import Parameter
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from sensormend import __version__
from sensormend.errors import ConfigError, SensormendError

__all__ = ["aot", "app", "demo", "faults", "main", "simulated"]

app = cyclopts.App(
    name="sensormend",
    help="Mends the data of a sensor network while it streams in.",
    version=__version__,
)
bench = cyclopts.App(name="bench", help="Compare methods on known faults and on the paper's data.")
app.command(bench)

# Tables go to stdout and keep their width when it is a file or a pipe; progress goes to stderr.
WIDTH_WITHOUT_TERMINAL = 160


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    try:
        command, bound, _ = app.parse_args(
            list(sys.argv[1:] if argv is None else argv), exit_on_error=False, print_error=False
        )
        command(*bound.args, **bound.kwargs)
    except (cyclopts.CycloptsError, ConfigError) as error:
        return _fail(2, f"{_one_line(error)} (see sensormend --help)")
    except SensormendError as error:
        return _fail(1, _one_line(error))
    except KeyboardInterrupt:
        return _fail(1, "stopped; nothing more was written")
    except BrokenPipeError:
        # Whoever read our output has gone; Python would complain once more when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        return _fail(1, _one_line(error))
    except Exception as error:
        if os.environ.get("SENSORMEND_DEBUG"):
            raise
        kind = type(error).__name__
        return _fail(1, f"{kind}: {_one_line(error)} (set SENSORMEND_DEBUG=1 for the details, and report it)")
    return 0


@app.command
def demo(
    *,
    seed: int = 0,
    days: int = 120,
    sensors: int = 50,
    climate: str = "city",
    out: Path = Path("demo"),
) -> None:
    """Simulate a city, break it, clean it day by day, and show what was found.

    Parameters
    ----------
    seed
        Another seed is another city.
    days
        How long to watch it.
    sensors
        How many sensors it has.
    climate
        What they measure: city (temperature), dense, skewed (PM2.5), zeros, pressure or sparse.
    out
        The folder for the picture.
    """
    from sensormend import demo as show
    from sensormend.bench.scores import DROPPED_DAYS, score
    from sensormend.plots import picture
    from sensormend.simulate import city

    if days <= DROPPED_DAYS:
        raise ConfigError(f"the first {DROPPED_DAYS} days are for learning: --days must be more, not {days}")
    started = perf_counter()
    screen = _screen()
    network = city(sensors, days, seed=seed, climate=climate)
    screen.print(
        f"{sensors} sensors, {days} days of {network.climate.quantity}; "
        f"{np.isnan(network.readings).mean():.1%} of the readings lost, {len(network.faults)} faults and "
        f"{network.spikes.sum()} single wrong readings put in."
    )
    sys.stdout.flush()
    with _progress() as progress:
        task = progress.add_task("cleaning, day by day", total=days)
        recovery = show.clean_by_day(network, each_day=lambda: progress.advance(task))
    scores = score(recovery, network.degraded())
    screen.print(show.faults_table(show.faults_found(network, recovery), scores))
    screen.print()
    screen.print(show.errors_table(network, recovery, scores))
    path = picture(
        out / "demo.png",
        readings=network.readings,
        recovery=recovery,
        times=network.times,
        sensors=network.sensors,
        truth=network.truth,
        quantity=network.climate.quantity,
        unit=network.climate.unit,
        title=f"A simulated network of {sensors} sensors, cleaned day by day, told nothing",
    )
    screen.print(f"\nPicture: [bold]{path}[/] ({perf_counter() - started:.0f} s in all)", soft_wrap=True)


@bench.command
def faults(
    *,
    data: str = "noaa",
    cases: str = "all",
    methods: str = "AutoOLRTR",
    seeds: int = 5,
    first_seed: int = 0,
    large: Annotated[bool, Parameter(negative="")] = False,
    sensors: int | None = None,
    days: int = 364,
    slots: int = 24,
    unscored: str = "",
    jobs: int = 1,
    out: Path = Path("out/bench"),
) -> None:
    """Put known faults into sound readings and see who finds and repairs them.

    Parameters
    ----------
    data
        noaa, aot, a simulated network (city, dense, skewed, zeros, pressure, sparse) or a file.
    cases
        Comma-separated: all (the five), kinds (each kind of fault alone), or their names.
    methods
        Comma-separated: AutoOLRTR, OLRTR, RTR.
    seeds
        How many seeds.
    first_seed
        The first of them.
    large
        Run AutoOLRTR on the path that it takes in large networks.
    sensors, days, slots
        The size of a simulated network.
    unscored
        Comma-separated numbers of sensors, from 0, that are in the network but not in the scores. The truth of noaa's
        sensor 27 is broken for weeks: 12 deg C below all others for six days, with jumps of 10 deg C in an hour.
    jobs
        How many processes.
    out
        The folder for the tables, as Markdown and CSV.
    """
    from sensormend.bench import faults as experiment

    names = _contestants(methods, large=large)
    if seeds < 1 or jobs < 1:
        raise ConfigError("--seeds and --jobs must be 1 or more")
    try:
        hidden = tuple(int(part) for part in unscored.split(",") if part.strip())
    except ValueError:
        raise ConfigError(f"--unscored takes numbers of sensors, like 3,27; got {unscored!r}") from None
    todo = [
        experiment.Job(data, case, method, seed, sensors, days, slots, hidden)
        for method in names
        for case in experiment.chosen_cases(cases)
        for seed in range(first_seed, first_seed + seeds)
    ]
    results = []
    with _progress() as progress:
        task = progress.add_task(f"faults on {data}", total=len(todo))
        for job, scores in experiment.run_jobs(todo, processes=jobs):
            results.append((job, scores))
            progress.update(task, advance=1, description=f"{job.method}, {job.case}")
    kind = ("_large" if large else "") + "".join(f"_without_{number}" for number in hidden)
    _show(experiment.figures(results), out, f"faults_{Path(data).stem}{kind}")


@bench.command
def aot(
    *,
    methods: str = "AutoOLRTR",
    large: Annotated[bool, Parameter(negative="")] = False,
    out: Path = Path("out/bench"),
) -> None:
    """Clean the Array of Things in one pass and compare it with a reference station.

    Parameters
    ----------
    methods
        Comma-separated: AutoOLRTR, OLRTR, RTR.
    large
        Run AutoOLRTR on the path that it takes in large networks.
    out
        The folder for the tables, as Markdown and CSV.
    """
    from sensormend.bench import aot as experiment

    names = _contestants(methods, large=large)
    raw = experiment.raw_rows()
    rows = []
    with _progress() as progress:
        for name in progress.track(names, description="Array of Things"):
            rows += experiment.run(name)
    _show(experiment.figures(raw, rows), out, "aot")


@bench.command
def simulated(
    *,
    methods: str = "AutoOLRTR",
    seeds: int = 3,
    size: int = 50,
    rank: int = 5,
    large: Annotated[bool, Parameter(negative="")] = False,
    out: Path = Path("out/bench"),
) -> None:
    """Run the paper's simulation: low-rank minibatches with corrupted fibers.

    Parameters
    ----------
    methods
        Comma-separated: AutoOLRTR, OLRTR.
    seeds
        How many seeds.
    size, rank
        Of the minibatches, size x size x size.
    large
        Run AutoOLRTR on the path that it takes in large networks.
    out
        The folder for the tables, as Markdown and CSV.
    """
    from sensormend.bench import simulated as experiment

    if seeds < 1:
        raise ConfigError("--seeds must be 1 or more")
    names = [part.strip() for part in methods.split(",")]
    names = [f"{name} large path" if large and name == "AutoOLRTR" else name for name in names]
    todo = [(name, at, seed) for name in names for at in experiment.SETTINGS for seed in range(seeds)]
    results = []
    with _progress() as progress:
        for name, at, seed in progress.track(todo, description="simulated"):
            results.append((name, at, experiment.run(name, at, seed, size=size, rank=rank)))
    _show(experiment.figures(results), out, "simulated")


def _contestants(methods: str, *, large: bool) -> list[str]:
    from sensormend.bench.contestants import chosen

    return [f"{name} large path" if large and name == "AutoOLRTR" else name for name in chosen(methods)]


def _show(figures: object, out: Path, name: str) -> None:
    from sensormend.bench.tables import Figures

    assert isinstance(figures, Figures)
    screen = _screen()
    screen.print(figures.screen())
    written = figures.write(out, name)
    screen.print("Tables: " + ", ".join(str(path) for path in written), soft_wrap=True)


def _screen() -> Console:
    return Console(width=None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL)


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _fail(code: int, message: str) -> int:
    sys.stderr.write(f"sensormend: {message}\n")
    return code
