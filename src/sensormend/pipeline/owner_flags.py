"""`with_owner_flags` keeps the flags that came with readings beside ours, slot by slot; `says_wrong` reads them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.pipeline.grid import Grid
from sensormend.readings import NameIndex, Readings, Rows, recoded

__all__ = ["APART", "WRONG", "only_faults", "says_wrong", "with_owner_flags", "words", "wrong_flags"]

WRONG = ("4", "255", "bad", "fail", "wrong", "<-3>")
"""Flags that say that a reading is wrong, in lower case: those of QARTOD and IOC, of SaQC, words, and that of NERRS."""

GOOD = frozenset(("1", "0", "good", "ok", "pass", "passed", "valid", "approved", "a", "g", "p", "v", "<0>", "<1>"))
"""Flags that say that a reading is good, in lower case."""

APART = "; "
"""What stands between the flags of a slot whose readings have different ones."""


def says_wrong(flag: str, wrong: Collection[str] = WRONG) -> bool:
    """Return whether a flag, or one of a slot's flags, is one of those that say that a reading is wrong.

    A code in brackets, as NERRS has it, stands for the flag; without the brackets only where they are not WRONG.

    Examples
    --------
    >>> [says_wrong(flag) for flag in ("4", "1; 4", "<-3> [SBO] (CAF)", "Bad", "4.0", "<4>", "14", "")]
    [True, True, True, True, True, False, False, False]
    >>> says_wrong("<1> [CDF]", ["1"])
    True
    """
    return any(not _spellings(part, wrong).isdisjoint(wrong) for part in flag.split(APART.strip()))


def only_faults(flags: Iterable[str]) -> bool:
    """Return whether owners flag only what is odd, so that a reading without a flag is a good one.

    Examples
    --------
    >>> only_faults(["bad", "corrected"]), only_faults(["1", "4"]), only_faults([])
    (True, False, False)
    """
    spellings = [_spellings(part, WRONG) for flag in flags for part in flag.split(APART.strip())]
    return bool(spellings) and all(GOOD.isdisjoint(spelled) for spelled in spellings)


def words(flags: Iterable[object]) -> Collection[str]:
    """Return flags as `says_wrong` takes them."""
    return {str(flag).strip().lower() for flag in flags} - {""}


def wrong_flags(run: Mapping[str, Any]) -> Collection[str]:
    """Return the flags that say that a reading is wrong: by run.json those that were given to `clean`, else WRONG."""
    options = run.get("options")
    given = options.get("owner_wrong") if isinstance(options, dict) else None
    return words(given) if isinstance(given, list | tuple) and given else WRONG


def _spellings(flag: str, wrong: Collection[str]) -> set[str]:
    flag = flag.strip().lower()
    spellings = {flag, re.sub(r"^([+-]?\d+)\.0*$", r"\1", flag)}
    if bracketed := re.match(r"<([^>]*)>", flag):
        spellings |= {bracketed[0]} if wrong is WRONG else {bracketed[0], bracketed[1].strip()}
    return spellings


def with_owner_flags(rows: Rows, flagged: Readings, flags: Sequence[str], grid: Grid | None) -> Rows:
    """Return rows with the flags of the readings in their slots; without a grid, of the readings at their times.

    Parameters
    ----------
    flagged
        The readings with a flag, whose values are indices of `flags`.
    flags
        The flags, of which the first one is empty.
    """
    named = recoded(flagged, rows)
    time = named.time if grid is None else grid.slot_start(named.time)
    times, rank = np.unique(np.concatenate([rows.time, time]), return_inverse=True)
    width = len(named.variables) * times.size

    def keys(table: Rows | Readings, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        return table.sensor.astype(np.int64) * width + table.variable.astype(np.int64) * times.size + ranks

    own, code = keys(named, rank[len(rows) :]), named.value.astype(np.int64)
    order = np.lexsort((code, own))
    own, code = own[order], code[order]
    different = np.ones(own.size, dtype=bool)
    different[1:] = (np.diff(own) != 0) | (np.diff(code) != 0)
    own, code = own[different], code[different]
    cells, first, count = np.unique(own, return_index=True, return_counts=True)
    index, flag = NameIndex(flags), code[first]
    for cell in np.flatnonzero(count > 1).tolist():
        joined = APART.join(flags[entry] for entry in code[first[cell] : first[cell] + count[cell]])
        index.add([joined])
        flag[cell] = index[joined]
    wanted = keys(rows, rank[: len(rows)])
    place = np.searchsorted(cells, wanted)
    matched = place < cells.size
    matched[matched] = cells[place[matched]] == wanted[matched]
    owner = np.zeros(len(rows), dtype=np.int32)
    owner[matched] = flag[place[matched]]
    return replace(rows, owner=owner, owner_flags=index.all)
