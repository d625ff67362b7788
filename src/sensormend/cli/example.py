"""`sensormend example` writes a file of readings to try `sensormend clean` on."""

from __future__ import annotations

import shlex
from pathlib import Path

from rich.markup import escape

from sensormend.cli.bench import wide_console

__all__ = ["example"]


def example(file: Path, /, *, sensors: int = 20, days: int = 90, seed: int = 0) -> None:
    """Write a file of readings to try `sensormend clean` on: a simulated city with the defects of a real network.

    Parameters
    ----------
    file
        The CSV file to write; it must not exist yet.
    sensors
        The number of sensors.
    days
        The number of days of hourly readings.
    seed
        Another seed is another city.
    """
    from sensormend.simulate.network import write_example

    rows = write_example(file, sensors=sensors, days=days, seed=seed)
    console, name = wide_console(), escape(shlex.quote(str(file)))
    console.print(f"{rows:,} rows of {sensors} sensors over {days} days, with faults, gaps and repetitions, in {name}.")
    console.print(f"Next, type: [bold]sensormend clean {name} mended[/]", soft_wrap=True)
