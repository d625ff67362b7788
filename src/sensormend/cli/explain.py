"""`sensormend explain` prints why a reading has its flag."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

__all__ = ["explain"]


def explain(out: Path, sensor: str, time: str, *, variable: str | None = None) -> None:
    """Explain in one paragraph why a reading has its flag.

    Parameters
    ----------
    out
        The OUT of `clean` or `watch`: a folder, or a single file.
    sensor
        The sensor's name.
    time
        A time within the slot, in UTC: 2019-07-14T15:00.
    variable
        The variable, where there are several.
    """
    from sensormend.explain.paragraph import explain as explanation_of

    Console(highlight=False).print(explanation_of(out, sensor, time, variable), markup=False)
