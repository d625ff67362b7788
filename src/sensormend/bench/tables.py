"""`ResultTable` is a table for the screen, Markdown, CSV and the page, with the paper's values beside ours."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from rich.markup import escape
from rich.table import Table

from sensormend.errors import SensormendError

__all__ = ["AOT", "CLAIMS", "NOAA", "Bar", "Cell", "ResultTable", "mean_and_spread", "pandas_module", "write_tables"]

NOTHING = "-"


@dataclass(frozen=True)
class Bar:
    """The target of a metric: at least `low`, at most `high`."""

    low: float = -np.inf
    high: float = np.inf

    def met(self, value: float) -> bool:
        """Return whether a value reaches it."""
        return self.low <= value <= self.high

    def __str__(self) -> str:
        if np.isfinite(self.low) and np.isfinite(self.high):
            return f"{self.low:.4g} to {self.high:.4g}"
        return f">= {self.low:g}" if np.isfinite(self.low) else f"<= {self.high:g}"


def mean_and_spread(values: Sequence[float]) -> tuple[float, float]:
    """Return mean and sample standard deviation of the finite values; NaN where there are too few."""
    finite = np.array([value for value in values if np.isfinite(value)])
    if not finite.size:
        return float("nan"), float("nan")
    return float(finite.mean()), float(finite.std(ddof=1)) if finite.size > 1 else float("nan")


@dataclass(frozen=True)
class Cell:
    """One metric: its mean and spread over `runs`, of which some diverged; its target, and the paper's value."""

    mean: float = float("nan")
    spread: float = float("nan")
    bar: Bar | None = None
    paper: float = float("nan")
    runs: int = 0
    diverged: int = 0

    @property
    def difference(self) -> float:
        """Return the mean minus the paper's value."""
        return self.mean - self.paper

    @property
    def value(self) -> str:
        """Return the mean as text, or the number of diverged runs where there is none."""
        if np.isfinite(self.mean) or not self.diverged:
            return _number(self.mean)
        return f"diverged in {self.diverged} of {self.runs}"

    @property
    def beside(self) -> str:
        """Return the spread, the number of diverged runs where others did not, and the target."""
        if not np.isfinite(self.mean):
            return ""
        parts = [f"± {_number(self.spread, like=self.mean)}"] if np.isfinite(self.spread) else []
        parts += [f"(diverged in {self.diverged} of {self.runs})"] if self.diverged else []
        if self.bar is not None:
            parts.append(f"({self.bar})" if self.bar.met(self.mean) else f"(**misses {self.bar}**)")
        return " ".join(parts)


@dataclass(frozen=True)
class ResultTable:
    """A table of metrics: `cells[row][column]`.

    Attributes
    ----------
    labels, rows
        Titles of the first columns, and their content.
    columns
        Titles of the metrics; with an `axis`, its values, and every cell is the metric `figure` there.
    aside
        Whether it is secondary: in the files and folded up on the page, not on the screen.
    """

    title: str
    note: str
    labels: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    columns: tuple[str, ...]
    cells: Sequence[Sequence[Cell]]
    axis: str = ""
    figure: str = ""
    aside: bool = False

    @property
    def headers(self) -> list[str]:
        """Return the titles of all columns, the paper's beside ours where there are any."""
        beside = self._with_paper()
        names = [
            [name, "paper", "difference"] if printed else [name]
            for name, printed in zip(self.columns, beside, strict=True)
        ]
        return [*self.labels, *(name for group in names for name in group)]

    def line(self, row: int) -> list[Cell]:
        """Return a row's cells, one for each title after the labels."""
        shown = []
        for cell, printed in zip(self.cells[row], self._with_paper(), strict=True):
            shown += [cell, Cell(cell.paper), Cell(cell.difference)] if printed else [cell]
        return shown

    def texts(self) -> list[list[str]]:
        """Return the text of every row: its labels, then each value with what stands beside it."""
        return [
            [*row, *(f"{cell.value} {cell.beside}".strip() for cell in self.line(number))]
            for number, row in enumerate(self.rows)
        ]

    def screen(self) -> Table:
        """Return it for a terminal; where it is too wide, cells are folded."""
        table = Table(title=self.title, caption=self.note, title_justify="left", caption_justify="left")
        for number, name in enumerate(self.headers):
            table.add_column(name, justify="left" if number < len(self.labels) else "right", overflow="fold")
        for row in self.texts():
            table.add_row(*map(escape, row))
        return table

    def markdown(self) -> str:
        """Return it as Markdown."""
        lines = [self.headers, ["---"] * len(self.headers), *self.texts()]
        piped = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
        return "\n".join([f"### {self.title}", "", *piped, "", self.note, ""])

    def html(self) -> str:
        """Return it as a table of HTML, with its note."""
        frame = pandas_module().DataFrame(self.texts(), columns=self.headers)
        return f"{frame.to_html(index=False, border=0)}\n<p>{html.escape(self.note)}</p>\n"

    def records(self) -> list[dict[str, str]]:
        """Return one record for each value, for CSV."""
        lines = []
        for row, cells in zip(self.rows, self.cells, strict=True):
            for column, cell in zip(self.columns, cells, strict=True):
                if not np.isfinite(cell.mean) and not cell.diverged:
                    continue
                record = dict(zip(self.labels, row, strict=True))
                record |= {self.axis: column, "figure": self.figure} if self.axis else {"figure": column}
                record |= {"mean": f"{cell.mean:.6g}", "spread": f"{cell.spread:.3g}"}
                record |= {"runs": str(cell.runs), "diverged": str(cell.diverged)}
                if cell.bar is not None:
                    record |= {"bar": str(cell.bar), "met": str(cell.bar.met(cell.mean)).lower()}
                if np.isfinite(cell.paper):
                    record |= {"paper": f"{cell.paper:g}", "difference": f"{cell.difference:.6g}"}
                lines.append(record)
        return lines

    def _with_paper(self) -> list[bool]:
        return [any(np.isfinite(row[column].paper) for row in self.cells) for column in range(len(self.columns))]


def write_tables(tables: Sequence[ResultTable], folder: Path, name: str) -> list[Path]:
    """Write `name.md` with every table, and `name.csv` with every value in them."""
    markdown, comma = folder / f"{name}.md", folder / f"{name}.csv"
    records = pandas_module().DataFrame([record for table in tables for record in table.records()])
    metrics = ["figure", "mean", "spread", "runs", "diverged", "bar", "met", "paper", "difference"]
    columns = [column for column in records.columns if column not in metrics] + metrics
    try:
        folder.mkdir(parents=True, exist_ok=True)
        markdown.write_text("\n".join(table.markdown() for table in tables), encoding="utf-8")
        records.reindex(columns=columns).to_csv(comma, index=False)
    except OSError as error:
        raise SensormendError(f"cannot write the tables to {folder}: {error}") from error
    return [markdown, comma]


def pandas_module() -> Any:
    """Return pandas, or raise an error that says how to install it."""
    try:
        return import_module("pandas")
    except ImportError:
        raise SensormendError("the tables and charts of results need pandas: pip install 'sensormend[bench]'") from None


def _number(value: float, like: float | None = None) -> str:
    """Format a number with its significant digits, or in the format of `like`."""
    size = abs(value if like is None else like)
    if not np.isfinite(value):
        return NOTHING
    if value and (size >= 1e5 or size < 5e-4):
        return f"{value:.1e}"
    return f"{value:.1f}" if size >= 100 else f"{value:.3f}"


_FULL, _PARTIAL = "100 %", "90 %"

_TABLE = {
    "ORLTM": ((0.157, 0.834), (0.192, 0.309)),
    "StocRPCA": ((0.644, 0.867), (0.644, 0.820)),
    "OSTD": ((0.327, 0.294), (0.394, 0.179)),
    "OLRSC": ((0.158, 0.800), (0.352, 0.199)),
    "GRASTA r20": ((0.085, 0.100), (0.096, 0.099)),
    "OLRTR r20": ((0.053, 0.974), (0.120, 0.953)),
    "RTR": ((0.029, 0.984), (0.030, 0.984)),
    "TRPCA": ((0.012, 0.877), (0.078, 0.188)),
}

NOAA: dict[tuple[str, str], tuple[float, float]] = {
    (method, setting): scores
    for method, both in _TABLE.items()
    for setting, scores in zip((_FULL, _PARTIAL), both, strict=True)
}
"""RE and F1 by method and observation ratio; the paper says rank 20 of every method."""

AOT: dict[str, tuple[float, float, float]] = {
    "raw": (0.836, -30, 43),
    "StocRPCA": (0.978, -1, 2),
    "OSTD": (0.909, -22, 72),
    "OLRSC": (0.854, -10, 20),
    "ORLTM": (0.862, -37, 90),
    "OLRTR": (0.968, -28, 43),
    "RTR": (0.980, -30, 43),
    "TRPCA": (0.841, -29, 42),
}
"""Correlation with the reference station, lowest and highest value in deg C; its GRASTA gave NaN."""

CLAIMS = {
    "size": "The paper: only RTR recovers exactly, and its time rises sharply with the size; OLRTR is second.",
    "corruption": "The paper: OLRTR's RE stays under 0.2 up to half of the fibers, other online methods exceed 0.5.",
    "magnitude": "The paper: RE hardly depends on the magnitude; no method detects faults that are small enough.",
    "observation": "The paper: only OLRTR and RTR keep an F1 of 1; GRASTA is steady down to 0.75 and then drops.",
    "convergence": "The paper: OLRTR converges after 10 minibatches for I3 = 10 and 50, after about 30 for I3 = 1.",
}
"""Statements of the paper on its figures, whose numbers are not printed."""
