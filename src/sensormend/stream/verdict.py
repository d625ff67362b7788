"""`verdict_of` says which channels have an open fault by the readings of one period, as far as they have come."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sensormend.pipeline.grid import Grid
from sensormend.pipeline.mender import Mended
from sensormend.readings import REASONS, Flag
from sensormend.stream.telling import Evidence, evidence

__all__ = ["SURE", "Name", "OpenFault", "Verdict", "verdict_of"]

Name = tuple[str, str]
"""Sensor and variable of a channel."""

SURE = 0.95
"""The confidence from which on a fault is sure, as `Fault.confidence` has it."""

SPIKE = REASONS.index("spike")


@dataclass(frozen=True)
class OpenFault:
    """A fault of a channel that is open.

    Attributes
    ----------
    start
        Its first wrong slot, microseconds since 1970, UTC.
    readings
        How many readings of it there are; of slots before the period each counts as one.
    confidence
        The probability that it is a fault.
    figures
        What its readings of this period add up to.
    """

    start: int
    readings: int
    confidence: float
    figures: Evidence

    @property
    def sure(self) -> bool:
        """Whether it is sure enough to tell somebody."""
        return self.confidence >= SURE


@dataclass(frozen=True)
class Verdict:
    """What the readings of a period say.

    Attributes
    ----------
    faults
        The surest open fault of each channel that has one; a spike is none.
    odd
        Channels whose newest reading is wrong or doubtful.
    """

    faults: dict[Name, OpenFault] = field(default_factory=dict)
    odd: frozenset[Name] = frozenset()


def verdict_of(mended: Mended, grid: Grid) -> Verdict:
    """Return the verdict of a period, over or not."""
    rows, slots = mended.rows, grid.slots
    if not len(rows):
        return Verdict()
    flag, here = rows.flag.reshape(-1, slots), rows.n.reshape(-1, slots) > 0
    wrong = here & (flag == Flag.FAIL) & (rows.reason.reshape(-1, slots) != SPIKE)
    sensor, variable = rows.sensor[::slots].astype(np.int64), rows.variable[::slots].astype(np.int64)
    newest = slots - 1 - here[:, ::-1].argmax(axis=1)
    every = np.arange(sensor.size)
    doubtful = (flag == Flag.SUSPECT)[every, newest]
    odd = np.flatnonzero(here.any(axis=1) & (wrong[every, newest] | doubtful)).tolist()

    def named(row: int) -> Name:
        return rows.sensors[int(sensor[row])], rows.variables[int(variable[row])]

    channel = sensor * len(rows.variables) + variable
    first, times = grid.start_of(mended.period), grid.times_of(mended.period)
    faults: dict[Name, OpenFault] = {}
    for episode in mended.faults:
        fault = episode.fault
        mine = episode.sensor * len(rows.variables) + fault.variable
        row = min(int(np.searchsorted(channel, mine)), channel.size - 1)
        if episode.end is not None or fault.kind == "spike" or channel[row] != mine:
            continue
        its = wrong[row] & (times >= episode.start)
        name = named(row)
        if not its.any() or (name in faults and faults[name].confidence >= fault.confidence):
            continue
        figures = evidence(rows, slice(row * slots, (row + 1) * slots), its)
        figures.reasons, figures.size, figures.rate = {fault.kind: figures.count}, fault.size, fault.rate
        readings = figures.count + max(0, (first - episode.start) // grid.step)
        faults[name] = OpenFault(episode.start, readings, fault.confidence, figures)
    return Verdict(faults, frozenset(map(named, odd)))
