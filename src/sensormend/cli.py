"""The command line: thin, the work is done elsewhere.

Exit codes: 0 done, 2 a wrong call, 1 anything else; a failure is one line on stderr that says what to do.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

import cyclopts
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from sensormend import __version__
from sensormend.bench.commands import bench, screen
from sensormend.clean_command import clean, explain
from sensormend.errors import ConfigError, SensormendError
from sensormend.said import STDIN

__all__ = ["app", "demo", "example", "main"]

app = cyclopts.App(
    name="sensormend",
    help="Mends the data of a sensor network while it streams in.",
    version=__version__,
)
app.command(clean, usage="Usage: sensormend clean READINGS... OUT [OPTIONS]\n")
app.command(explain)
app.command(bench)


STOPPED = {
    "bench": "what is done is kept, the same call goes on",
    "clean": "what is done is kept, the same call with --resume goes on",
}
"""What became of a command's work when somebody pressed Ctrl-C."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    words = [STDIN if word == "-" else word for word in (sys.argv[1:] if argv is None else argv)]
    try:
        command, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
        command(*bound.args, **bound.kwargs)
    except (cyclopts.CycloptsError, ConfigError) as error:
        return _fail(2, f"{_one_line(error)} (see sensormend --help)")
    except SensormendError as error:
        return _fail(1, _one_line(error))
    except KeyboardInterrupt:
        return _fail(1, f"stopped; {STOPPED.get(words[0] if words else '', 'nothing more was written')}")
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
    import numpy as np

    from sensormend import demo as show
    from sensormend.bench.scores import DROPPED, score
    from sensormend.plots import picture
    from sensormend.simulate import city

    if days <= DROPPED:
        raise ConfigError(f"the first {DROPPED} days are for learning: --days must be more, not {days}")
    started = perf_counter()
    page = screen()
    network = city(sensors, days, seed=seed, climate=climate)
    page.print(
        f"{sensors} sensors, {days} days of {network.climate.quantity}; "
        f"{np.isnan(network.readings).mean():.1%} of the readings lost, {len(network.faults)} faults and "
        f"{network.spikes.sum()} single wrong readings put in."
    )
    sys.stdout.flush()
    with _progress() as progress:
        task = progress.add_task("cleaning, day by day", total=days)
        recovery = show.clean_by_day(network, each_day=lambda: progress.advance(task))
    scores = score(recovery, network.degraded())
    page.print(show.faults_table(show.faults_found(network, recovery), scores))
    page.print()
    page.print(show.errors_table(network, recovery, scores))
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
    page.print(f"\nPicture: [bold]{path}[/] ({perf_counter() - started:.0f} s in all)", soft_wrap=True)


@app.command
def example(file: Path, /, *, sensors: int = 20, days: int = 90, seed: int = 0) -> None:
    """Write a file of readings to try `sensormend clean` on: a simulated city with all that goes wrong in a real one.

    Parameters
    ----------
    file
        The CSV file to write; it must not be there yet.
    sensors
        How many sensors it has.
    days
        How many days, hour by hour.
    seed
        Another seed is another city.
    """
    import shlex

    from sensormend.example import write_example

    rows = write_example(file, sensors=sensors, days=days, seed=seed)
    page, name = screen(), shlex.quote(str(file))
    page.print(f"{rows:,} rows of {sensors} sensors over {days} days, with faults, gaps and repetitions, in {name}.")
    page.print(f"Next, type: [bold]sensormend clean {name} mended[/]", soft_wrap=True)


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
