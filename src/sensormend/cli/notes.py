"""`sensormend notes` adds a table of the owners, with flags and visits, to maintenance.csv."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console

from sensormend.pipeline.options import split_names

__all__ = ["notes"]


def notes(
    table: Path,
    maintenance: Path,
    /,
    *,
    sensor: Annotated[str | None, Parameter(show_default=False)] = None,
    wrong: Annotated[str | None, Parameter(show_default=False)] = None,
    good: Annotated[str | None, Parameter(show_default=False)] = None,
) -> None:
    """Add what the owners wrote down, flagged spans and maintenance, to maintenance.csv.

    TABLE is a CSV file with the columns from and to, and as far as it has them sensor, variable, flag and comment.
    Spans that are flagged as wrong are ignored, those flagged as good are real; a comment may say that the sensor was
    calibrated or removed.

    Parameters
    ----------
    table
        The owners' table.
    maintenance
        The file for --maintenance; it is created, or what is new is added.
    sensor
        The sensor, where the table has no column of them; all sensors by default.
    wrong
        The flags that say that readings are wrong, with commas between; 4,bad,fail,wrong by default.
    good
        The flags that say that readings are true; 1,good,pass,ok by default.
    """
    from sensormend.pipeline.maintenance import GOOD, WRONG, read_notes, write_notes
    from sensormend.pipeline.sentences import counted

    read = read_notes(
        table,
        sensor,
        wrong=WRONG if wrong is None else split_names(wrong),
        good=GOOD if good is None else split_names(good),
    )
    new = write_notes(maintenance, read.notes)
    actions = Counter(note.action for note in read.notes)
    counts = ", ".join(f"{count:,} {action}" for action, count in actions.most_common()) or "none"
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"{counted(len(read.notes), 'note')} ({counts}), {new:,} new in {maintenance}", markup=False)
    if read.passed:
        flags = ", ".join(f"{flag or 'empty'} ({count:,})" for flag, count in read.passed.items())
        console.print(f"passed over, by flag: {flags}; --wrong and --good name what they mean", markup=False)
