"""Offsets that lasted until they were believed: what is after them may be off as well."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sensormend.io.metadata import FaultInterval
from sensormend.readings import DAY, Rows
from sensormend.recovery import BoolArray, FloatArray
from sensormend.report.material import Material

__all__ = ["Believed", "believed"]

SHORTEST, MOST = 2 * DAY, 40
"""A new level is believed after three to ten days; the first of these may be suspect rather than faulty."""


@dataclass(frozen=True)
class Believed:
    """An offset that a sensor kept when its fault was over; `level` is how far it was from what the others say."""

    fault: FaultInterval
    level: float


def believed(material: Material) -> list[Believed]:
    """Return the offsets after which a sensor went on at its new level, and was trusted.

    When a fault ends because the level is believed, the mended values jump from the estimate to the reading, by about
    the offset, while those of the others do not; when it ends because the sensor came back, they do not jump.
    """
    faults = [
        fault
        for fault in material.look.faults
        if fault.reason in ("offset", "drifting") and fault.end - fault.start >= SHORTEST and fault.end < material.end
    ]
    faults = sorted(faults, key=lambda fault: (fault.start - fault.end, fault.sensor))[:MOST]
    found = [(fault, _kept_level(material, fault)) for fault in faults]
    return [Believed(fault, level) for fault, level in found if level is not None]


def _kept_level(material: Material, fault: FaultInterval) -> float | None:
    archive = material.look.archive
    assert archive is not None
    rows = archive.rows(None, fault.end - DAY, fault.end + DAY, fault.variable)
    if fault.sensor not in rows.sensors:
        return None
    mine = rows.sensor == rows.sensors.index(fault.sensor)
    before, after = rows.time < fault.end, rows.time >= fault.end
    level = _mean((rows.value - rows.cleaned)[mine & before & (rows.flag == 4)])
    # Only readings that were trusted: an estimate after the fault says nothing of the sensor.
    jump = _mean(rows.cleaned[mine & after & (rows.flag == 1)]) - _mean(rows.cleaned[mine & before])
    others = _changes(rows, ~mine, before, after)
    if not others.size or not np.isfinite(level) or not np.isfinite(jump):
        return None
    kept = jump - float(np.median(others))
    usual = float(np.median(np.abs(others - np.median(others))))
    return level if kept / level > 0.5 and abs(kept) > 3 * usual else None


def _mean(values: FloatArray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else float("nan")


def _changes(rows: Rows, others: BoolArray, before: BoolArray, after: BoolArray) -> FloatArray:
    """Return how far the mended values of each of the others moved from one day to the next."""
    size = len(rows.sensors)
    means = []
    for when in (before, after):
        chosen = others & when & np.isfinite(rows.cleaned)
        many = np.bincount(rows.sensor[chosen], minlength=size)
        total = np.bincount(rows.sensor[chosen], weights=rows.cleaned[chosen], minlength=size)
        means.append(np.divide(total, many, out=np.full(size, np.nan), where=many > 0))
    moved = means[1] - means[0]
    return np.asarray(moved[np.isfinite(moved)])
