"""`SeenRange` knows what each variable has shown so far, and refuses results that cannot be true."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sensormend.errors import ResultError
from sensormend.io.metadata import iso
from sensormend.pipeline.sentences import who
from sensormend.pipeline.verdicts import Cells
from sensormend.readings import OBSERVED
from sensormend.recovery import BoolArray, FloatArray

__all__ = ["SeenRange"]

FAR = 1.0
"""Widths of what a variable has shown by which an estimate or a correction may lie outside of it. The engine's own
bounds leave it 0.05, and no estimate of the networks in `tests/pipeline/test_seen_range.py`, which have gaps, offsets,
sensors that join and spikes, lies farther outside."""


@dataclass(frozen=True, eq=False)
class SeenRange:
    """The lowest and the highest reading of every variable, spikes not counted.

    Attributes
    ----------
    low, high
        By variable; infinite where nothing was seen, NaN where that is not known: the model had seen other readings
        before, or a state of before did not say.
    judged
        By variable, whether a reading was ever judged to be right: from then on every channel has an estimate.
    """

    low: FloatArray
    high: FloatArray
    judged: BoolArray

    @classmethod
    def of(cls, variables: int, *, known: bool = True) -> SeenRange:
        """Return that of variables of which nothing was seen, or of which it is not known what was."""
        low, high = (np.inf, -np.inf) if known else (np.nan, np.nan)
        return cls(np.full(variables, low), np.full(variables, high), np.zeros(variables, dtype=bool))

    def wider(self, value: FloatArray, seen: BoolArray, good: BoolArray) -> SeenRange:
        """Return what was seen with these readings, (sensor, variable, slot), some of which were judged to be right."""
        low = np.where(seen, value, np.inf).min(axis=(0, 2), initial=np.inf)
        high = np.where(seen, value, -np.inf).max(axis=(0, 2), initial=-np.inf)
        judged = self.judged | (good & seen).any(axis=(0, 2))
        return SeenRange(np.minimum(self.low, low), np.maximum(self.high, high), judged)

    def check(
        self,
        before: SeenRange,
        cells: Cells,
        listed: BoolArray,
        sensors: Sequence[str],
        variables: Sequence[str],
        times: NDArray[np.int64],
    ) -> None:
        """Refuse cells whose value is not finite, or far outside of everything that was seen.

        Parameters
        ----------
        before
            What was seen before this period.
        cells
            What the rows are made of, (sensor, variable, slot).
        listed
            The channels that have rows, (sensor, variable).
        sensors, variables, times
            What the axes are.

        Raises
        ------
        ResultError
            For the first such cell.
        """
        low, high = self.low[:, None], self.high[:, None]
        with np.errstate(invalid="ignore"):
            width = FAR * (high - low)
            # Of what has shown a single value nobody knows how far it moves; NaN compares as neither.
            far = (width > 0) & ((cells.cleaned < low - width) | (cells.cleaned > high + width))
        none = np.isnan(cells.cleaned) & before.judged[:, None]
        there = ~np.isnan(cells.cleaned)
        endless = np.isinf(cells.cleaned) | (there & ~(np.isfinite(cells.lower) & np.isfinite(cells.upper)))
        wrong = (far | none | endless) & (cells.origin != OBSERVED) & listed[..., None]
        if not wrong.any():
            return
        place = np.unravel_index(int(wrong.argmax()), wrong.shape)
        row, variable, slot = (int(index) for index in place)
        name = who(sensors[row], variables[variable])
        value, span = float(cells.cleaned[place]), f"{self.low[variable]:.6g} to {self.high[variable]:.6g}"
        interval = f", {cells.lower[place]:.6g} to {cells.upper[place]:.6g}" if not far[place] else ""
        raise ResultError(
            f"{name} at {iso(int(times[slot]))}: a result that cannot be true ({value:.6g}{interval}; "
            f"seen so far: {span}). Nothing of this period was written, and the last checkpoint is as it was. "
            "This is a fault of sensormend: report it with this line, run.json, the folder state and the readings of "
            "that period"
        )
