"""Channels that are seen for the first time: what can be said of them before anything was learned."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sensormend.auto.judge import within_steps
from sensormend.auto.neighbourhoods import IntArray
from sensormend.auto.vouching import first_vouched
from sensormend.recovery import BoolArray, FloatArray

__all__ = ["Newborns", "first_look"]

FAR = 5.0
"""How many times the usual distance from the common course makes a first day too odd to start from."""


ENOUGH = 4
"""Readings from which the first distance from the others is believed to be the usual one."""

UNSURE = 0.5
"""Distance from the others, on the variable's scale, where too few were seen often enough to say what is usual."""

COARSEST = 4.0
"""How many times the movement of the others a sensor's step may be: one that jumps farther is no coarse sensor."""

FOLLOWS = 3
"""Periods in a row for which a sensor far from the others must move with them to be taken for sound."""


@dataclass(frozen=True, eq=False)
class Newborns:
    """A neighbourhood with its new members put in their place.

    Attributes
    ----------
    born, oddness
        New members with readings to start from, and how far past that (1) the readings of the others are.
    streak, anchor
        For how many periods an odd one has moved with the rest all the same, and at what level.
    deviation, usual, expected, size
        As for the others: the rows of the new members are filled in.
    """

    born: BoolArray
    oddness: FloatArray
    streak: FloatArray
    anchor: FloatArray
    deviation: FloatArray
    usual: FloatArray
    expected: FloatArray
    size: FloatArray

    @classmethod
    def none(cls, deviation: FloatArray, usual: FloatArray, expected: FloatArray, size: FloatArray) -> Newborns:
        """Return that nobody is new."""
        nobody, nothing = np.zeros(size.shape, dtype=bool), np.zeros(size.shape)
        return cls(nobody, nothing, nothing, nothing, deviation, usual, expected, size)


def first_look(
    deviation: FloatArray,
    observed: BoolArray,
    known: BoolArray,
    expected: FloatArray,
    usual: FloatArray,
    size: FloatArray,
    variable: IntArray,
    doubted: BoolArray,
    streak: FloatArray,
    anchor: FloatArray,
) -> Newborns:
    """Place new members: at their own level, with the daily course and today's movement of the others.

    The rows of new members in `deviation` are readings on the variable's scale, since they have no usual yet. One
    without any reading is placed at the middle of its variable's levels, NaN where that has none.
    """
    deviation, usual, expected, size = deviation.copy(), usual.copy(), expected.copy(), size.copy()
    streak, anchor = streak.copy(), anchor.copy()
    oddness = np.zeros(known.size)
    count, slots = observed.sum(axis=1), observed.shape[1]
    for which in np.unique(variable[~known]):
        mine = variable == which
        new, old = mine & ~known, mine & known
        seen = new & observed.any(axis=1)
        if old.any():
            course = (usual[old] - usual[old].mean(axis=1, keepdims=True)).mean(axis=0)
        else:
            course = np.zeros(usual.shape[1])
            expected[new] = _common(deviation[seen], observed[seen])
        placed = np.where(observed, deviation - expected - course, np.nan)
        level = np.full(known.size, np.nan)
        if seen.any():
            level[seen] = np.nanmedian(placed[seen], axis=1)
        levels = np.concatenate([usual[old].mean(axis=1), level[seen]])
        middle = np.median(levels) if levels.size else np.nan
        level = np.where(new & ~seen, middle, level)
        distance = placed[seen] - level[seen, None]
        rms = np.sqrt(np.nanmean(distance**2, axis=1)) if seen.any() else np.empty(0)
        sizes = np.concatenate([size[old], rms[count[seen] >= min(ENOUGH, slots)]])
        typical = float(np.median(sizes)) if sizes.size >= 4 else UNSURE
        if old.any():
            # Nothing more is known of a new member than what is common to all: so far are the old ones from that.
            typical = max(typical, _distance(deviation[old], observed[old]))
        off = np.abs(level[seen] - middle)
        usual_off = np.median(np.abs(levels - middle)) if levels.size else 0.0
        if levels.size >= 4:
            typical = max(typical, 1e-12)
            by_course, by_level = first_vouched(deviation[seen], observed[seen], level[seen], rms, off)
            wild, away = rms / (FAR * typical), off / (12 * usual_off + FAR * typical)
            far, excused = np.maximum(wild, away), np.maximum(wild * ~by_course, away * ~by_level)
            # Far away but moving with the rest is a place of its own; far away and still is no place at all.
            moves = np.nanstd(np.where(observed[seen], expected[seen] + course, np.nan), axis=1)
            coarse = _coarse(deviation[seen], observed[seen], distance, moves)
            far, excused = np.where(coarse, away, far), np.where(coarse, away * ~by_level, excused)
            follows = (rms < 0.6 * moves) & (moves > 1.5 * typical) & (2 * count[seen] > slots)
            near = (streak[seen] == 0) | (np.abs(level[seen] - anchor[seen]) < 2 * typical)
            streak[seen] = np.where(follows & near, streak[seen] + 1, 0.0)
            anchor[seen] = level[seen]
            # Once doubted, it takes more than a day on which the others are far apart or do not move.
            values = np.where(observed[seen], deviation[seen], np.nan)
            still = np.nanmax(values, axis=1) == np.nanmin(values, axis=1)
            stubborn = still | ((moves > 1.5 * typical) & (rms > 0.8 * moves) & ~coarse)
            far = np.where(doubted[seen], np.maximum(2 * far, 1.1 * stubborn), excused)
            oddness[seen] = np.where(streak[seen] >= FOLLOWS, 0.0, far)
        size[seen] = np.where(count[seen] >= ENOUGH, np.maximum(rms, 1e-12), np.maximum(rms, typical))
        size[new & ~seen] = np.sqrt(typical**2 + (1.5 * usual_off) ** 2)
        # Where its own level cannot be trusted, the middle of the others' stands in for it.
        stand_in = np.where(oddness > 1, middle, level)
        usual[new] = course + stand_in[new, None]
        size[oddness > 1] = np.sqrt(typical**2 + (1.5 * usual_off) ** 2)
        deviation[new] = np.where(observed[new], deviation[new] - usual[new], 0.0)
    born = ~known & (count > 0) & (oddness <= 1)
    return Newborns(born, oddness, streak, anchor, deviation, usual, expected, size)


def _coarse(values: FloatArray, there: BoolArray, distance: FloatArray, moves: FloatArray) -> BoolArray:
    """Say who differs from the common course, (fiber, slot), by its own step at most, if the others move as far."""
    ordered = np.sort(np.where(there, values, np.nan), axis=1)
    steps = np.diff(ordered, axis=1)
    step = np.min(np.where(steps > 1e-9, steps, np.inf), axis=1, initial=np.inf)
    step = np.where(step <= COARSEST * moves, step, 0.0)
    return within_steps(np.where(there, distance, 0.0), there, step)


def _distance(values: FloatArray, there: BoolArray) -> float:
    """Return the usual distance of a fiber from the median of all."""
    seen = np.where(there, values, np.nan)[there.any(axis=1)][:, there.any(axis=0)]
    if seen.shape[0] < 3:
        return 0.0
    apart = seen - np.nanmedian(seen, axis=0)
    return float(np.median(np.sqrt(np.nanmean(apart**2, axis=1))))


def _common(values: FloatArray, there: BoolArray) -> FloatArray:
    """Return the movement that most fibers share, zero where nobody was seen."""
    if values.shape[0] == 0:
        return np.zeros(values.shape[1])
    seen = np.where(there, values, np.nan)
    centred = seen - np.nanmedian(seen, axis=1, keepdims=True)
    anyone = there.any(axis=0)
    common = np.zeros(values.shape[1])
    common[anyone] = np.nanmedian(centred[:, anyone], axis=0)
    return common
