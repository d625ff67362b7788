"""`sensormend explain`: prints why a reading has its flag."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

__all__ = ["explain"]


def explain(out: Path, sensor: str, time: str, *, variable: str | None = None) -> None:
    """Say in one paragraph why a reading has its flag.

    Parameters
    ----------
    out
        What `clean` or `watch` wrote: a folder, or a single file.
    sensor
        The sensor's name.
    time
        When, in UTC: 2019-07-14T15:00. Any time within the slot will do.
    variable
        What was measured, where there are several things.
    """
    from sensormend.explain.paragraph import explain as explanation_of

    Console(highlight=False).print(explanation_of(out, sensor, time, variable), markup=False)
