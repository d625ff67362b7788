"""`remarked` marks readings that were trusted until later ones showed that they are in a fault.

A fault that lasts is seen some days after it began, and is dated back then. In one pass, and live, rows that were
written stay as they are. `clean` without `one_pass` knows what followed: rows from the start of an offset or a drift up
to where it was first seen become wrong, and `cleaned` is the reading with the fault taken out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sensormend.flags import REASONS, Flag
from sensormend.maintenance import Maintenance
from sensormend.readings import CORRECTED, OBSERVED, Rows
from sensormend.recovery import BoolArray, FloatArray

__all__ = ["CORRECTABLE", "DatedBack", "overlapping", "remarked"]

CORRECTABLE = ("offset", "drifting")
"""Faults whose size at any time follows from what is known of them; of a gain or of noise it does not."""


@dataclass(frozen=True)
class DatedBack:
    """A fault that began before any row said so.

    Attributes
    ----------
    sensor, variable
        Whose.
    start, first
        Its first wrong reading, and the first that its rows show as wrong; microseconds since 1970, UTC.
    reason
        Its kind.
    size, at, rate
        Its size at a time, and by how much that grows in a microsecond.
    half
        Half the width of the interval of `cleaned` where it was first seen.
    """

    sensor: str
    variable: str
    start: int
    first: int
    reason: str
    size: float
    at: int
    rate: float
    half: float

    def size_at(self, time: NDArray[np.int64]) -> FloatArray:
        """Return its size at some times; a drift has not been on the other side before."""
        size = self.size - self.rate * (self.at - time)
        return np.where(np.sign(size) == np.sign(self.size), size, 0.0)


def overlapping(faults: Iterable[DatedBack], start: int, end: int) -> list[DatedBack]:
    """Return the faults that mark readings from `start` to before `end`."""
    return [fault for fault in faults if fault.start < end and fault.first > start]


def remarked(rows: Rows, faults: Sequence[DatedBack], maintenance: Maintenance, step: int) -> tuple[Rows, BoolArray]:
    """Return the rows with the readings marked that faults were dated back to, and which these are.

    Readings that were not judged stay as they are, and so do those that people know to be real.

    Parameters
    ----------
    rows
        Any, in any order.
    faults
        Those that were dated back.
    maintenance, step
        What people know, and the length of a slot, microseconds.
    """
    which = np.zeros(len(rows), dtype=bool)
    columns = {name: getattr(rows, name).copy() for name in ("flag", "reason", "origin", "cleaned", "lower", "upper")}
    kept = np.isin(rows.flag, (Flag.GOOD, Flag.SUSPECT)) & (rows.origin == OBSERVED) & np.isfinite(rows.value)
    for fault in faults:
        if fault.sensor not in rows.sensors or fault.variable not in rows.variables:
            continue
        here = kept & (rows.sensor == rows.sensors.index(fault.sensor))
        here &= (rows.variable == rows.variables.index(fault.variable)) & (rows.time >= fault.start)
        mine = np.flatnonzero(here & (rows.time < fault.first))
        if not mine.size:
            continue
        real = maintenance.real([fault.sensor], [fault.variable], np.unique(rows.time[mine]), step)
        if real is not None:
            mine = mine[~real[0, 0, np.unique(rows.time[mine], return_inverse=True)[1]]]
        cleaned = rows.value[mine] - fault.size_at(rows.time[mine])
        columns["flag"][mine], columns["reason"][mine] = Flag.FAIL, REASONS.index(fault.reason)
        columns["origin"][mine], columns["cleaned"][mine] = CORRECTED, cleaned
        columns["lower"][mine], columns["upper"][mine] = cleaned - fault.half, cleaned + fault.half
        which[mine], kept[mine] = True, False
    return Rows(
        rows.sensors, rows.variables, rows.sensor, rows.variable, rows.time, rows.value, rows.n, **columns
    ), which  # fmt: skip
