"""`judge` assigns a flag, a reason and an origin to every cell; `flag_cells` sets every flag, here and elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sensormend.pipeline.grid import Placed
from sensormend.readings import CORRECTED, ESTIMATED, NO_ORIGIN, OBSERVED, REASONS, Flag
from sensormend.recovery import BoolArray, Fault, FloatArray, Recovery

__all__ = ["Mark", "Verdicts", "flag_cells", "judge", "with_stuck"]


class Mark(Enum):
    """What may be known about a cell, from the mildest to the strongest, with its flag and its reason.

    A reason of None is the kind of fault, or another reason, that the caller gives.
    """

    NOT_JUDGED = (Flag.NOT_EVALUATED, None)
    DOUBTFUL = (Flag.SUSPECT, None)
    CONTRADICTORY = (Flag.SUSPECT, "duplicate")
    WRONG = (Flag.FAIL, None)
    SPIKE = (Flag.FAIL, "spike")
    STUCK = (Flag.FAIL, "stuck")
    IMPLAUSIBLE = (Flag.FAIL, "implausible")
    FILL = (Flag.FAIL, "fill")
    IGNORED = (Flag.NOT_EVALUATED, "")
    REAL = (Flag.GOOD, "")
    MISSING = (Flag.MISSING, "")
    FILL_ONLY = (Flag.MISSING, "fill")
    SILENT = (Flag.MISSING, "silent")


def flag_cells(
    flag: ArrayLike, reason: ArrayLike, marks: Mapping[Mark, BoolArray | None], kind: ArrayLike = 0
) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """Return flags and reasons, as indices into `REASONS`; of several marks of a cell the strongest holds.

    Parameters
    ----------
    flag, reason
        Those of the cells without a mark.
    marks
        The cells with each mark; None stands for no cell.
    kind
        The reasons for the marks that have none of their own.

    Examples
    --------
    >>> wrong, silent = np.array([True, True, False]), np.array([False, True, False])
    >>> flag, reason = flag_cells(np.ones(3), np.zeros(3), {Mark.SILENT: silent, Mark.WRONG: wrong}, kind=3)
    >>> flag.tolist(), [REASONS[code] for code in reason]
    ([4, 9, 1], ['drift', 'silent', ''])
    """
    flags, reasons = np.array(flag, dtype=np.int8), np.array(reason, dtype=np.int8)
    kinds = np.broadcast_to(np.asarray(kind, dtype=np.int8), flags.shape)
    for mark in Mark:
        cells = marks.get(mark)
        if cells is None or not cells.any():
            continue
        code, word = mark.value
        flags[cells] = code
        reasons[cells] = kinds[cells] if word is None else REASONS.index(word)
    return flags, reasons


_Span = tuple[Fault, int, slice]
"""A fault, its sensor's row, and its slots in a period."""

CODE = {reason: code for code, reason in enumerate(REASONS)}

CONSTANT_READINGS, CONSTANT_STEPS = 3, 4
"""The minimum number of equal readings that are called stuck, while the others imply a change of at least this multiple
of the smallest one that the channel has shown: readings of a coarse sensor repeat when nothing changes."""


@dataclass(frozen=True, eq=False)
class Verdicts:
    """The verdict on every cell, (sensor, variable, slot), in the columns of `Rows`."""

    flag: NDArray[np.int8]
    reason: NDArray[np.int8]
    origin: NDArray[np.int8]
    cleaned: FloatArray
    lower: FloatArray
    upper: FloatArray

    def without_estimates(self, outside: BoolArray) -> Verdicts:
        """Return the verdicts with nothing in the cells outside the time of a series, which have no reading."""
        if not outside.any():
            return self
        cleaned, lower, upper = (np.where(outside, np.nan, column) for column in (self.cleaned, self.lower, self.upper))
        origin = np.where(outside, NO_ORIGIN, self.origin).astype(np.int8)
        return Verdicts(self.flag, self.reason, origin, cleaned, lower, upper)


def judge(
    recovery: Recovery,
    placed: Placed,
    seen: BoolArray,
    hidden: BoolArray | None = None,
    real: BoolArray | None = None,
    stuck: BoolArray | None = None,
    *,
    labels: Sequence[str | int] = (),
    first_slot: int = 0,
    resolution: FloatArray | None = None,
) -> Verdicts:
    """Return the verdict on every cell of one period, (sensor, variable, slot).

    The model was given the `seen` readings. Those noted to be ignored are `hidden`, those of channels that stand still
    are `stuck`; None stands for no such reading.
    `labels` are the sensors in the model's faults, `first_slot` is the number of the period's first slot in its count.
    `resolution`, by sensor and variable, is NaN where it is not known: a reading that is off by less is doubtful only.
    """
    shape = seen.shape
    value, present, filled = placed.value.reshape(shape), placed.n.reshape(shape) > 0, placed.filled.reshape(shape)
    coded, implausible, contradictory = (
        placed.coded.reshape(shape),
        placed.implausible.reshape(shape),
        placed.contradictory.reshape(shape),
    )
    # A period without a number is silence, too.
    silent = ~present.any(axis=2, keepdims=True)
    evaluated = np.broadcast_to(recovery.evaluated[..., None], shape)
    fiber_reason = np.zeros(shape, dtype=np.int8)
    for word in {*recovery.reason.ravel().tolist()} & CODE.keys():
        fiber_reason[recovery.reason == word] = CODE[word]
    alone = fiber_reason == CODE["alone"]
    wrong, doubtful = recovery.wrong & seen, recovery.doubtful & seen
    spans = list(_spans(recovery.faults, labels, first_slot, shape[2]))
    if resolution is not None:
        negligible = _negligible(spans, resolution, shape) & wrong & ~recovery.spikes
        wrong, doubtful = wrong & ~negligible, doubtful | negligible
    kind = _kinds(spans, shape)
    # A reading outside all episodes has the reason of its fiber; `alone` is not a fault.
    kind = np.where(kind > 0, kind, np.where(alone, 0, fiber_reason))
    trusted = seen & ~wrong
    cleaned, lower, upper = recovery.cleaned, recovery.lower, recovery.upper
    if lower is None or upper is None:
        # A method without intervals: a reading that is trusted has its own, an estimate has none.
        lower = upper = np.where(trusted, value, np.nan)
    if resolution is not None and negligible.any():
        lower, upper = (np.where(negligible, function(column, value), column)
                        for function, column in ((np.fmin, lower), (np.fmax, upper)))  # fmt: skip
        cleaned = np.where(negligible, value, cleaned)
    if real is not None:
        real = real & present
        trusted |= real
        cleaned, lower, upper = (np.where(real, value, column) for column in (cleaned, lower, upper))
    marks = {
        Mark.DOUBTFUL: doubtful,
        Mark.CONTRADICTORY: contradictory,
        Mark.WRONG: wrong,
        Mark.SPIKE: recovery.spikes & wrong,
        Mark.STUCK: stuck,
        Mark.IMPLAUSIBLE: implausible,
        Mark.FILL: coded,
        Mark.IGNORED: hidden,
        Mark.REAL: real,
        Mark.MISSING: ~present,
        Mark.FILL_ONLY: filled,
        Mark.SILENT: np.broadcast_to(silent, shape),
    }
    unmarked = np.where(evaluated, Flag.GOOD, Flag.NOT_EVALUATED), np.where(~evaluated & alone, CODE["alone"], 0)
    flag, reason = flag_cells(*unmarked, marks, kind)
    origin = np.where(recovery.corrected & wrong, CORRECTED, ESTIMATED)
    origin = np.where(np.isnan(cleaned), NO_ORIGIN, np.where(trusted, OBSERVED, origin)).astype(np.int8)
    return Verdicts(flag, reason, origin, cleaned, lower, upper)


def with_stuck(
    recovery: Recovery,
    value: FloatArray,
    *,
    labels: Sequence[str | int],
    first_slot: int,
    resolution: FloatArray,
) -> Recovery:
    """Return a recovery whose faults are called stuck where all wrong readings are equal and the others change.

    A model of levels may call such readings an offset, or a gain of about zero. To a person the sensor is stuck, and
    rows, faults.csv and alerts say so.
    """
    faults = {fault.id: fault for fault in recovery.faults}
    for fault, row, span in _spans(recovery.faults, labels, first_slot, value.shape[2]):
        if fault.kind in ("stuck", "implausible", "spike"):
            continue
        cells = (row, fault.variable, span)
        wrong = recovery.wrong[cells] & ~recovery.spikes[cells]
        own, implied = value[cells][wrong], recovery.expected[cells][wrong]
        implied = implied[np.isfinite(implied)]
        if own.size < CONSTANT_READINGS or np.ptp(own) or not implied.size:
            continue
        if np.ptp(implied) >= CONSTANT_STEPS * resolution[row, fault.variable]:
            faults[fault.id] = replace(fault, kind="stuck", size=float(own[0]), rate=0.0)
    return replace(recovery, faults=tuple(faults.values()))


def _kinds(spans: Sequence[_Span], shape: tuple[int, ...]) -> NDArray[np.int8]:
    """Return the kind of the episode that covers each cell, of several the latest; 0 where there is none."""
    kinds = np.zeros(shape, dtype=np.int8)
    for fault, row, span in spans:
        kinds[row, fault.variable, span] = CODE[fault.kind]
    return kinds


def _negligible(spans: Sequence[_Span], resolution: FloatArray, shape: tuple[int, ...]) -> BoolArray:
    """Return the cells of offsets and drifts that are smaller than the resolution of their channel."""
    cells = np.zeros(shape, dtype=bool)
    for fault, row, span in spans:
        small = fault.kind in ("offset", "drift") and abs(fault.size) < resolution[row, fault.variable]
        cells[row, fault.variable, span] = small
    return cells


def _spans(faults: Sequence[Fault], labels: Sequence[str | int], first_slot: int, slots: int) -> Iterator[_Span]:
    """Yield the faults that touch a period in order of start, each with its sensor's row and its slots."""
    row_of = {label: row for row, label in enumerate(labels)} if faults else {}
    for fault in sorted(faults, key=lambda fault: fault.start):
        row = row_of.get(fault.sensor)
        begin, end = max(fault.start - first_slot, 0), slots if fault.end is None else fault.end + 1 - first_slot
        if row is not None and end > begin:
            yield fault, row, slice(begin, end)
