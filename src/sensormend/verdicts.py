"""From what the model and the grid found to one flag, one reason and one origin for every cell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sensormend.flags import REASONS, Flag
from sensormend.grid import Placed
from sensormend.recovery import BoolArray, FloatArray, Recovery

__all__ = ["Cells", "judge"]

CODE = {reason: code for code, reason in enumerate(REASONS)}


@dataclass(frozen=True, eq=False)
class Cells:
    """The verdict on every cell, (sensor, variable, slot); the columns of `Rows`."""

    flag: NDArray[np.int8]
    reason: NDArray[np.int8]
    origin: NDArray[np.int8]
    cleaned: FloatArray
    lower: FloatArray
    upper: FloatArray


def judge(
    recovery: Recovery, placed: Placed, seen: BoolArray, hidden: BoolArray | None, real: BoolArray | None
) -> Cells:
    """Give every cell its verdict.

    Parameters
    ----------
    recovery, placed
        What the model says, and what came.
    seen
        The readings that the model was shown.
    hidden, real
        Readings that people want to be left alone, and that they know to be true; None for no such reading.
    """
    shape = seen.shape
    value, here, filled = placed.value.reshape(shape), placed.n.reshape(shape) > 0, placed.filled.reshape(shape)
    implausible, contradictory = placed.implausible.reshape(shape), placed.contradictory.reshape(shape)
    why, faulty = _codes(recovery.reason)[..., None], recovery.faulty[..., None]
    silent = ~(here | filled).any(axis=2, keepdims=True)
    flag = np.where(recovery.evaluated[..., None], Flag.GOOD, Flag.NOT_EVALUATED).astype(np.int8)
    flag, reason = np.broadcast_to(flag, shape).copy(), np.broadcast_to(why, shape).copy()

    def say(cells: BoolArray, code: Flag, word: str) -> None:
        if cells.any():
            flag[cells], reason[cells] = code, CODE[word]

    # From the mildest to the strongest: what is said later stands.
    flag[np.broadcast_to(recovery.suspect[..., None], shape)] = Flag.SUSPECT
    say(contradictory, Flag.SUSPECT, "duplicate")
    say(recovery.spikes, Flag.FAIL, "spike")
    wrong = np.broadcast_to(faulty, shape)
    flag[wrong] = Flag.FAIL
    reason[wrong] = np.broadcast_to(why, shape)[wrong]
    trusted = seen & ~wrong & ~recovery.spikes
    cleaned, lower, upper = recovery.cleaned, recovery.lower, recovery.upper
    assert lower is not None
    assert upper is not None
    say(implausible, Flag.FAIL, "implausible")
    if hidden is not None:
        say(hidden, Flag.NOT_EVALUATED, "")
    if real is not None:
        real = real & here
        say(real, Flag.GOOD, "")
        trusted |= real
        cleaned, lower, upper = (np.where(real, value, old) for old in (cleaned, lower, upper))
    say(~here, Flag.MISSING, "")
    say(filled, Flag.MISSING, "fill")
    say(np.broadcast_to(silent, shape), Flag.MISSING, "silent")
    origin = np.where(np.isnan(cleaned), 0, np.where(trusted, 1, 2)).astype(np.int8)
    return Cells(flag, reason, origin, cleaned, lower, upper)


def _codes(reason: NDArray[np.str_]) -> NDArray[np.int8]:
    codes = np.zeros(reason.shape, dtype=np.int8)
    for word, code in CODE.items():
        if word:
            codes[reason == word] = code
    return codes
