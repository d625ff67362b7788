"""How well a recovery did, against a truth that was known all along."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from sensormend.faults import Degraded
from sensormend.recovery import FloatArray, Recovery

__all__ = ["DROPPED_DAYS", "Scores", "score"]

DROPPED_DAYS = 10
"""Online methods start cold; the paper leaves out the first ten minibatches, and so does every table here."""


@dataclass(frozen=True)
class Scores:
    """One run's figures. Errors are root mean squares in the unit of the data; shares are of 1."""

    f1: float
    precision: float
    recall: float
    false_alarms: float
    missing: float
    repaired: float
    trusted: float
    re: float
    coverage_missing: float
    coverage_repaired: float


def score(recovery: Recovery, case: Degraded, *, dropped: int = DROPPED_DAYS, unscored: Sequence[int] = ()) -> Scores:
    """Score a recovery of (sensor, slot, day) readings.

    The first `dropped` days are left out, and so are the sensors `unscored`, whose truth is known to be none.
    """
    if unscored:
        rows = np.setdiff1d(np.arange(case.truth.shape[0]), unscored)
        case = Degraded(*(getattr(case, field.name)[rows] for field in fields(Degraded)))
        recovery = recovery.of_sensors(rows)
    days = slice(dropped, None)
    readings, truth = case.readings[..., days], case.truth[..., days]
    cleaned = recovery.cleaned[..., days]
    there = np.isfinite(readings)
    judged = there.any(axis=1)
    faulty, flagged = case.faulty[:, days], recovery.faulty[:, days]

    hits = int(np.sum(faulty & flagged & judged))
    false = int(np.sum(~faulty & flagged & judged))
    missed = int(np.sum(faulty & ~flagged & judged))
    sound_cells = np.broadcast_to(~faulty[:, None, :], readings.shape)
    found_cells = np.broadcast_to((faulty & flagged & judged)[:, None, :], readings.shape)
    known = np.isfinite(truth)
    missing, sound = ~there & sound_cells & known, there & sound_cells & known
    found = found_cells & known
    norm = np.sqrt(np.nansum(truth[sound_cells] ** 2))
    lost = np.sqrt(np.nansum((cleaned - truth)[sound_cells] ** 2))

    def coverage(cells: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> float:
        if recovery.lower is None or recovery.upper is None or not cells.any():
            return float("nan")
        inside = (recovery.lower[..., days] <= truth) & (truth <= recovery.upper[..., days])
        return float(inside[cells].mean())

    return Scores(
        f1=_ratio(2 * hits, 2 * hits + false + missed),
        precision=_ratio(hits, hits + false),
        recall=_ratio(hits, hits + missed),
        false_alarms=_ratio(false, int(np.sum(~faulty & judged))),
        missing=_rms((cleaned - truth)[missing]),
        repaired=_rms((cleaned - truth)[found]),
        trusted=_rms((cleaned - truth)[sound]),
        re=float(lost / norm) if norm else float("nan"),
        coverage_missing=coverage(missing),
        coverage_repaired=coverage(found),
    )


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")


def _rms(errors: FloatArray) -> float:
    return float(np.sqrt(np.mean(errors**2))) if errors.size else float("nan")
