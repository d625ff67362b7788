"""`sensormend compare` prints how the flags of an OUT agree with labels that people made."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table

from sensormend.pipeline.options import split_names

__all__ = ["compare"]

WIDTH = 120
"""Columns of the table, where the output is not a terminal."""


def compare(
    out: Path, labels: Path | None = None, /, *,
    wrong: Annotated[str | None, Parameter(show_default=False, allow_leading_hyphen=True)] = None,
) -> None:  # fmt: skip
    """Compare the flags of an OUT with labels: precision, recall and the share of good readings with flag 4.

    LABELS is a CSV file of spans in which a sensor is wrong (sensor, from, to; all other readings are good), or of
    readings (sensor, time, flag; only these are compared), with a column variable where there are several. Without it
    the flags that came with the readings, `owner_flag` in the rows, are compared.

    Parameters
    ----------
    out
        The OUT of `clean` or `watch`: a folder, or a single file.
    labels
        The labels. Times without an offset are UTC; `to` is the first time that is good again, an empty one the end;
        the sensor `*` is every one.
    wrong
        The flags of readings that say that one is wrong, with commas between; by default what was given to `clean`,
        else those of QARTOD, IOC, SaQC and NERRS.
    """
    from sensormend.views.comparison import compare as compared

    table = Table("variable", "readings", "wrong", "flagged", "precision", "recall", "good flagged", "suspect",
                  "not judged", box=None, padding=(0, 2))  # fmt: skip
    for line in compared(out, labels, split_names(wrong or "")):
        counts = (f"{count:,}" for count in (line.readings, line.labelled, line.flagged))
        scores = (_share(line.precision), _share(line.recall), _share(line.good_flagged, "{:.2%}"))
        table.add_row(line.variable or "value", *counts, *scores, f"{line.doubtful:,}", f"{line.unjudged:,}")
    console = Console(highlight=False)
    console.width = max(console.width, WIDTH)
    console.print(table)


def _share(value: float, form: str = "{:.3f}") -> str:
    return "-" if math.isnan(value) else form.format(value)
