"""`flag_cells` turns what is known about cells or rows into flags and reasons; every flag is set by it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sensormend.readings import REASONS, Flag
from sensormend.recovery import BoolArray

__all__ = ["Mark", "flag_cells"]


class Mark(Enum):
    """What may be known about a cell, from the mildest to the strongest, with its flag and its reason.

    A reason of None is the kind of fault, or another reason, that the caller gives.
    """

    NOT_JUDGED = (Flag.NOT_EVALUATED, None)
    DOUBTFUL = (Flag.SUSPECT, None)
    CONTRADICTORY = (Flag.SUSPECT, "duplicate")
    WRONG = (Flag.FAIL, None)
    SPIKE = (Flag.FAIL, "spike")
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
