"""One table, three ways to read it: on the screen, as Markdown, as CSV."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.table import Table

from sensormend.errors import SensormendError

__all__ = ["Bar", "Figures", "mean_and_spread"]


@dataclass(frozen=True)
class Bar:
    """What a figure should reach: at least `low`, at most `high`."""

    low: float = -np.inf
    high: float = np.inf

    def met(self, value: float) -> bool:
        """Say whether a figure reaches it."""
        return self.low <= value <= self.high

    def __str__(self) -> str:
        if np.isfinite(self.low) and np.isfinite(self.high):
            return f"{self.low:.4g} to {self.high:.4g}"
        return f">= {self.low:g}" if np.isfinite(self.low) else f"<= {self.high:g}"


def mean_and_spread(values: Sequence[float]) -> tuple[float, float]:
    """Return mean and sample standard deviation of the finite values; NaN where too few say."""
    finite = np.array([value for value in values if np.isfinite(value)])
    if not finite.size:
        return float("nan"), float("nan")
    return float(finite.mean()), float(finite.std(ddof=1)) if finite.size > 1 else float("nan")


@dataclass(frozen=True)
class Figures:
    """A table of figures: `cells[row][column]` is (mean, spread, bar or None), NaN where there is none."""

    title: str
    note: str
    labels: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    columns: tuple[str, ...]
    cells: list[list[tuple[float, float, Bar | None]]]

    def screen(self) -> Table:
        """Lay it out for a terminal: below each figure its spread and its bar; a miss is bold."""
        table = Table(title=self.title, caption=self.note, title_justify="left", caption_justify="left")
        for label in self.labels:
            table.add_column(label)
        for column in self.columns:
            table.add_column(column, justify="right")
        for row, cells in zip(self.rows, self.cells, strict=True):
            table.add_row(*row, *(_screen_cell(*cell) for cell in cells))
        return table

    def write(self, folder: Path, name: str) -> list[Path]:
        """Write `name.md` and `name.csv` into a folder."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            markdown, comma = folder / f"{name}.md", folder / f"{name}.csv"
            markdown.write_text(self._markdown(), encoding="utf-8")
            with comma.open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow([*self.labels, "figure", "mean", "spread", "bar", "met"])
                for row, cells in zip(self.rows, self.cells, strict=True):
                    for column, (mean, spread, bar) in zip(self.columns, cells, strict=True):
                        if np.isfinite(mean):
                            told = ("", "") if bar is None else (str(bar), str(bar.met(mean)).lower())
                            writer.writerow([*row, column, f"{mean:.6g}", f"{spread:.3g}", *told])
        except OSError as error:
            raise SensormendError(f"cannot write the tables to {folder}: {error}") from error
        return [markdown, comma]

    def _markdown(self) -> str:
        names = (*self.labels, *self.columns)
        lines = [f"### {self.title}", "", "| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
        for row, cells in zip(self.rows, self.cells, strict=True):
            told = [_plain_cell(*cell[:2]) + _markdown_bar(cell[0], cell[2]) for cell in cells]
            lines.append("| " + " | ".join((*row, *told)) + " |")
        return "\n".join([*lines, "", self.note, ""])


def _plain_cell(mean: float, spread: float) -> str:
    if not np.isfinite(mean):
        return "-"
    return f"{mean:.3f}" if not np.isfinite(spread) else f"{mean:.3f} ± {spread:.3f}"


def _screen_cell(mean: float, spread: float, bar: Bar | None) -> str:
    if not np.isfinite(mean):
        return "-"
    text = f"{mean:.3f}"
    if bar is not None:
        text = f"[{'green' if bar.met(mean) else 'bold red'}]{text}[/]"
    beside = [f"± {spread:.3f}"] if np.isfinite(spread) else []
    return "\n".join([text, *(f"[dim]{line}[/]" for line in [*beside, *([str(bar)] if bar else [])])])


def _markdown_bar(mean: float, bar: Bar | None) -> str:
    if bar is None or not np.isfinite(mean):
        return ""
    return f" ({bar})" if bar.met(mean) else f" (**misses {bar}**)"
