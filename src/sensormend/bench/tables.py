"""`ResultTable` is a table of metrics for the screen, Markdown and CSV; `summarize` makes one of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from rich.markup import escape
from rich.table import Table

from sensormend.errors import SensormendError

__all__ = [
    "AOT",
    "CLAIMS",
    "KINDS",
    "METRICS",
    "NOAA",
    "Bar",
    "Frame",
    "ResultTable",
    "markdown_table",
    "number",
    "pandas_module",
    "summarize",
    "write_tables",
]  # fmt: skip

Frame = Any
"""A `pandas.DataFrame`."""

KINDS = ("raw", "ours", "online", "batch", "plain")
"""Kinds of methods in the order of tables and legends."""

METRICS: dict[str, str] = {
    "f1": "F1",
    "f1_best": "F1 (oracle)",
    "precision": "precision",
    "recall": "recall",
    "re": "RE",
    "re_text": "RE (text)",
    "re_code": "RE (code)",
    "re_cleaned": "RE of cleaned",
    "missing": "missing",
    "faulty": "faulty",
    "repaired": "repaired",
    "trusted": "trusted",
    "false_alarms": "false alarms, %",
    "coverage_missing": "coverage, missing",
    "coverage_repaired": "coverage, repaired",
    "reading_f1": "F1 by reading",
    "sound_flagged": "sound flagged, %",
    "sound_wrong": "sound judged wrong, %",
    "after_flagged": "flagged after, %",
    "false_lasting": "false lasting",
    "raw": "raw",
    "detected_short": "found, < 12 h",
    "detected_middle": "found, 12-48 h",
    "detected_long": "found, > 48 h",
    "faults": "faults",
    "within_3": "within 3 h",
    "within_6": "within 6 h",
    "within_24": "within 24 h",
    "never": "never",
    "correlation": "correlation",
    "lowest": "lowest",
    "highest": "highest",
    "seconds": "seconds",
    "peak_mb": "peak MB",
}
"""Titles of the metrics in every table."""


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


@dataclass(frozen=True)
class ResultTable:
    """A table of metrics.

    Attributes
    ----------
    cells
        One line per value: the labels of its row, the `column`, `mean` and `spread` over `runs`, of which some
        `diverged`, its `bar` (None without a target), and the value in the `paper`.
    labels
        Titles of the first columns.
    axis, figure
        Title of `column`, and the metric of every cell; empty if the columns are metrics.
    aside
        Whether it is secondary: in the files, not on the screen.
    """

    title: str
    note: str
    cells: Frame
    labels: tuple[str, ...]
    axis: str = ""
    figure: str = ""
    aside: bool = False

    def wide(self) -> Frame:
        """Return the text of every row: its labels, then each value with what stands beside it."""
        cells = self.cells.assign(text=[_text(cell) for cell in self.cells.itertuples()]).set_index(list(self.labels))
        wide = pandas_module().DataFrame(index=cells.index.unique())
        for column in cells["column"].cat.categories:
            own = cells[cells["column"] == column].reindex(wide.index)
            wide[column] = own["text"].fillna("-")
            if own["paper"].notna().any():
                wide[f"{column}, paper"] = own["paper"].map(number)
                wide[f"{column}, difference"] = (own["mean"] - own["paper"]).map(number)
        return wide.reset_index()

    def screen(self) -> Table:
        """Return it for a terminal; where it is too wide, cells are folded."""
        wide = self.wide()
        table = Table(title=self.title, caption=self.note, title_justify="left", caption_justify="left")
        for name in wide.columns:
            table.add_column(name, justify="left" if name in self.labels else "right", overflow="fold")
        for row in wide.to_numpy():
            table.add_row(*map(escape, row))
        return table

    def markdown(self) -> str:
        """Return it as Markdown."""
        wide = self.wide()
        lines = [list(wide.columns), ["---"] * wide.shape[1], *wide.to_numpy().tolist()]
        piped = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
        return "\n".join([f"### {self.title}", "", *piped, "", self.note, ""])

    def records(self) -> Frame:
        """Return a line for each value, for CSV; none for a metric without one."""
        cells = self.cells[self.cells["mean"].notna() | (self.cells["diverged"] > 0)]
        bars = list(zip(cells["bar"], cells["mean"], strict=True))
        return cells[list(self.labels)].assign(
            **({self.axis: cells["column"], "figure": self.figure} if self.axis else {"figure": cells["column"]}),
            mean=cells["mean"].map("{:.6g}".format), spread=cells["spread"].map("{:.3g}".format),
            runs=cells["runs"], diverged=cells["diverged"],
            bar=[str(bar) if bar else "" for bar, _ in bars],
            met=[str(bar.met(mean)).lower() if bar else "" for bar, mean in bars],
            paper=cells["paper"], difference=cells["mean"] - cells["paper"],
        )  # fmt: skip


def summarize(
    rows: Frame, metrics: Sequence[str], *, title: str, note: str, also: Mapping[str, str] | None = None,
    at: str = "", axis: str = "", bars: Mapping[Any, Bar] | None = None, paper: Mapping[Any, float] | None = None,
    aside: bool = False,
) -> ResultTable:  # fmt: skip
    """Return a table with one line per method, and per value of the columns in `also` (column to title).

    Its columns are metrics, or, with `at`, the values of that column of the rows, for one metric; `axis` is the title.
    `bars` and `paper` have targets and the paper's values, by (method, *also, metric or value). A run that diverged
    has no value; it is counted once in a line, or in every column of `at`.
    """
    pandas, also = pandas_module(), also or {}
    by = ["kind", "method", *also]
    if at:
        lost, places = rows[rows[at].isna()], sorted(rows[at].dropna().unique())
        rows = pandas.concat([rows.dropna(subset=at), *(lost.assign(**{at: place}) for place in places)])
    rows = rows.sort_values("kind", key=lambda kinds: kinds.map(KINDS.index), kind="stable")
    long = rows.melt([*by, "status", *([at] if at else [])], list(metrics), "figure")
    value, column = pandas.to_numeric(long["value"]), at or "figure"
    long["value"] = value.where((long["status"] == "done") & np.isfinite(value))
    long["lost"] = long["status"] == "diverged"
    groups = long.groupby([*by, column], sort=False)
    cells = groups["value"].agg(mean="mean", spread="std", runs="size").assign(diverged=groups["lost"].sum())
    cells = cells.reset_index()
    keys = list(cells[[*by[1:], column]].itertuples(index=False, name=None))
    cells["bar"] = [(bars or {}).get(key) for key in keys]
    cells["paper"] = [(paper or {}).get(key, np.nan) for key in keys]
    names = {place: f"{place:g}" for place in places} if at else {name: METRICS[name] for name in metrics}
    cells["column"] = pandas.Categorical(cells[column].map(names), categories=list(names.values()))
    if not at:
        cells["diverged"] = cells["diverged"].where(cells[column] == metrics[0], 0)
    titles = {"kind": "kind", "method": "method", **also}
    cells = cells.drop(columns=column).rename(columns=titles).astype(dict.fromkeys(titles.values(), str))
    return ResultTable(title, note, cells, tuple(titles.values()), axis, METRICS[metrics[0]] if at else "", aside)


def write_tables(tables: Sequence[ResultTable], folder: Path, name: str) -> list[Path]:
    """Write `name.md` with every table, and `name.csv` with every value in them."""
    markdown, comma = folder / f"{name}.md", folder / f"{name}.csv"
    records = pandas_module().concat([table.records() for table in tables])
    metrics = ["figure", "mean", "spread", "runs", "diverged", "bar", "met", "paper", "difference"]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        markdown.write_text("\n".join(table.markdown() for table in tables), encoding="utf-8")
        records[[*records.columns.difference(metrics, sort=False), *metrics]].to_csv(
            comma, index=False, float_format="%.6g"
        )
    except OSError as error:
        raise SensormendError(f"cannot write the tables to {folder}: {error}") from error
    return [markdown, comma]


def pandas_module() -> Any:
    """Return pandas, or raise an error that says how to install it."""
    try:
        return import_module("pandas")
    except ImportError:
        raise SensormendError("the tables and charts of results need pandas: pip install 'sensormend[bench]'") from None


def number(value: float, like: float | None = None) -> str:
    """Format a number with its significant digits, or in the format of `like`."""
    size = abs(value if like is None else like)
    if not np.isfinite(value):
        return "-"
    if value and (size >= 1e5 or size < 5e-4):
        return f"{value:.1e}"
    return f"{value:.1f}" if size >= 100 else f"{value:.3f}"


def _text(cell: Any) -> str:
    """Return mean and spread, the number of diverged runs, and the target."""
    diverged = f"diverged in {cell.diverged} of {cell.runs}"
    if not np.isfinite(cell.mean):
        return diverged if cell.diverged else "-"
    parts = [number(cell.mean)]
    parts += [f"± {number(cell.spread, like=cell.mean)}"] if np.isfinite(cell.spread) else []
    parts += [f"({diverged})"] if cell.diverged else []
    if cell.bar is not None:
        parts.append(f"({cell.bar})" if cell.bar.met(cell.mean) else f"(**misses {cell.bar}**)")
    return " ".join(parts)


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


def markdown_table(lines: Sequence[Mapping[str, str]], absent: str = "-") -> str:
    """Return lines as a Markdown table; `absent` stands for cells that a line lacks."""
    names = list(dict.fromkeys(name for line in lines for name in line))
    rows = [names, ["---"] * len(names), *([line.get(name, absent) for name in names] for line in lines)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in rows)
