"""Rows of measured runs, gathered for a figure: what ended, its mean and spread, and what ran off."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sensormend.bench.styles import in_order

__all__ = ["Line", "Rows", "diverged", "diverged_note", "gather", "number", "values"]

Rows = Sequence[Mapping[str, Any]]
"""One flat row per run: `method`, `setting`, `x`, `trial`, `status`, and figures that may be None or NaN."""


class Line(NamedTuple):
    """Mean and standard deviation of one figure over the trials, at every x; NaN where there is none."""

    x: np.ndarray[tuple[int], np.dtype[np.float64]]
    mean: np.ndarray[tuple[int], np.dtype[np.float64]]
    spread: np.ndarray[tuple[int], np.dtype[np.float64]]


def number(row: Mapping[str, Any], *columns: str) -> float:
    """Return the first of these columns that the row has a number in, else NaN."""
    for column in columns:
        value = row.get(column)
        if value is not None and np.isfinite(value):
            return float(value)
    return float("nan")


def values(rows: Iterable[Mapping[str, Any]], column: str) -> list[float]:
    """Return what the runs that ended well measured."""
    told = [number(row, column) for row in rows if row.get("status", "done") != "diverged"]
    return [value for value in told if np.isfinite(value)]


def gather(rows: Rows, column: str, *, at: Callable[[Mapping[str, Any]], float] = lambda row: number(row, "x")) -> Line:
    """Gather one method's rows into a line; an x at which every run failed stays, as a gap."""
    places = sorted({place for row in rows if np.isfinite(place := at(row))})
    means, spreads = [], []
    for place in places:
        told = values([row for row in rows if at(row) == place], column)
        means.append(float(np.mean(told)) if told else np.nan)
        spreads.append(float(np.std(told, ddof=1)) if len(told) > 1 else np.nan)
    return Line(np.array(places), np.array(means), np.array(spreads))


def diverged(rows: Rows) -> dict[str, tuple[int, int]]:
    """Return how many runs of how many diverged, for the methods of which any did; a run may have many rows."""
    runs: dict[str, dict[tuple[object, ...], bool]] = {}
    for row in rows:
        run = tuple(row.get(name) for name in ("setting", "x", "trial"))
        own = runs.setdefault(row["method"], {})
        own[run] = own.get(run, False) or row.get("status") == "diverged"
    return {method: (sum(own.values()), len(own)) for method, own in runs.items() if any(own.values())}


def diverged_note(rows: Rows) -> str:
    """Say in one sentence what diverged; nothing where nothing did."""
    lost = diverged(rows)
    named = [f"{method} ({lost[method][0]} of {lost[method][1]} runs)" for method in in_order(lost)]
    return f"Diverged, not drawn: {', '.join(named)}." if named else ""
