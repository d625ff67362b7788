"""Single readings that are wrong in a sound fiber."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sensormend.auto import timeline
from sensormend.auto.judge import ROUNDING
from sensormend.auto.judging import WARM, Today
from sensormend.auto.memory import Model
from sensormend.auto.settled import Settled, judgeable, recondition
from sensormend.recovery import BoolArray, FloatArray

__all__ = ["spikes"]

SPIKE = 7.0
"""Standard deviations from the network and from its own neighbours in time that make a single reading a spike."""

SPIKE_ROUNDS = 8
"""How often spikes are looked for: one goes at a time per slot, and a probe out of the water spoils all it measures."""

BESIDE = 2
"""Slots on each side in which a worse one goes first: a reading is judged by its neighbours in time."""

FEW, RARE = 2, 8
"""Where nobody else can judge, at most so many readings of that stretch may stand out, since the crest of a wave is
wider, and at most one in so many of the fiber."""


def spikes(model: Model, today: Today, state: Settled, tables: FloatArray) -> BoolArray:
    """Find single readings far from the network and from their own neighbours in time; the worst of a slot first.

    The hours before and after tell a spike also where no other sensor can, but nothing of a wave or an odd day.
    """
    channels, wrong = model.channels, np.zeros(state.observed.shape, dtype=bool)
    settled = ~state.flagged & (channels.days >= WARM)
    judged = judgeable(model, today, state)
    unit = np.maximum(state.size * np.exp(state.event), 1e-300)
    limit = np.where(settled, np.maximum(SPIKE * unit, ROUNDING * today.step), np.inf)
    for _ in range(SPIKE_ROUNDS):
        large = np.abs(state.residual) > limit[:, None]
        large &= state.trusted
        if not large.any():
            break
        rare = RARE * large.sum(axis=1) <= today.count
        large &= judged[:, None] | (rare[:, None] & (_around(large) <= FEW))
        row = np.flatnonzero(large.any(axis=1))
        if row.size == 0:
            break
        cells, residual = large[row], state.residual[row]
        carried = timeline.carry(
            residual,
            state.trusted[row],
            channels.last[row],
            channels.age[row],
            tables,
            today.variable[row],
            cells,
        )
        over = np.abs(residual[carried.row, carried.slot] - carried.residual)
        over /= unit[row][carried.row] * np.sqrt(carried.open)
        worst = np.zeros(model.slots)
        np.maximum.at(worst, carried.slot, over)
        found = (over > SPIKE) & (over == worst[carried.slot]) & (over >= _beside(over, carried, cells.shape))
        if not found.any():
            break
        at = row[carried.row[found]], carried.slot[found]
        wrong[at] = True
        state.trusted[at] = False
        silenced = not state.trusted[at[0]].any(axis=1).all()
        recondition(today, state, joined=silenced)
    return wrong


def _around(large: BoolArray) -> NDArray[np.intp]:
    """Return how many readings stand out in the slots around each."""
    padded = np.pad(large.astype(np.intp), ((0, 0), (BESIDE, BESIDE)))
    return np.asarray(sum(padded[:, step : step + large.shape[1]] for step in range(2 * BESIDE + 1)))


def _beside(over: FloatArray, carried: timeline.Carried, shape: tuple[int, ...]) -> FloatArray:
    """Return the largest of the numbers that a fiber has in the slots beside each: a spike spoils its neighbours."""
    dense = np.zeros((shape[0], shape[1] + 2 * BESIDE))
    dense[carried.row, carried.slot + BESIDE] = over
    around = [dense[carried.row, carried.slot + BESIDE + step] for step in range(-BESIDE, BESIDE + 1) if step]
    return np.asarray(np.max(around, axis=0))
