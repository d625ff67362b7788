"""Members that are seen for the first time, in many parts at once; see `newborns`."""

from __future__ import annotations

from dataclasses import dataclass

from sensormend.arrays import Array, namespace
from sensormend.auto.judge import ROUNDING
from sensormend.auto.newborns import COARSEST, ENOUGH, FAR, FOLLOWS, UNSURE
from sensormend.auto.vouching import first_vouched
from sensormend.auto.wide.tools import alike, counted, masked_median, ordered, single

__all__ = ["Newcomers", "first_look"]


@dataclass(frozen=True, eq=False)
class Newcomers:
    """Parts with their new members put in their place; (part, member, ...) as in `newborns.Newborns`."""

    born: Array
    oddness: Array
    streak: Array
    anchor: Array
    deviation: Array
    usual: Array
    expected: Array
    size: Array


def first_look(
    deviation: Array,
    observed: Array,
    real: Array,
    known: Array,
    expected: Array,
    usual: Array,
    size: Array,
    variable: Array | None,
    variables: int,
    doubted: Array,
    streak: Array,
    anchor: Array,
) -> Newcomers:
    """Place new members: at their own level, with the daily course and today's movement of the others."""
    xp = namespace(deviation)
    deviation, usual, expected, size, streak, anchor = (
        xp.asarray(array, copy=True) for array in (deviation, usual, expected, size, streak, anchor)
    )
    oddness = xp.zeros_like(size)
    count, slots = xp.sum(observed, axis=-1, dtype=xp.int64), observed.shape[-1]
    for which in range(variables):
        mine = real if variable is None else real & (variable == which)
        new, old = mine & ~known, mine & known
        if not bool(xp.any(new)):
            continue
        seen = new & (count > 0)
        some, many = xp.any(old, axis=1), xp.sum(old, axis=1, dtype=usual.dtype)
        weight = alike(old, usual) / xp.clip(many, 1.0, None)[:, None]
        # A variable that was never read has no usual values yet, and would spoil the sum.
        shape = xp.where(old[..., None], usual - xp.mean(usual, axis=-1, keepdims=True), 0.0)
        course = (weight[:, None, :] @ shape)[:, 0]
        shared = xp.where(some[:, None], 0.0, _common(deviation, observed & seen[..., None]))
        expected = xp.where((new & ~some[:, None])[..., None], shared[:, None, :], expected)
        placed = deviation - expected - course[:, None, :]
        level = masked_median(placed, observed)
        own_level = xp.mean(usual, axis=-1)
        levels, there = xp.where(old, own_level, level), old | seen
        middle = masked_median(levels, there)
        level = xp.where(new & ~seen, middle[:, None], level)
        distance = xp.where(observed, placed - level[..., None], 0.0)
        rms = xp.sqrt(xp.sum(distance * distance, axis=-1) / xp.clip(single(count), 1.0, None))
        sure = old | (seen & (count >= min(ENOUGH, slots)))
        typical = masked_median(xp.where(old, size, rms), sure)
        typical = xp.where(xp.sum(sure, axis=1, dtype=xp.int64) >= 4, typical, UNSURE)
        apart = _distance(deviation, observed & old[..., None], old & (count > 0))
        typical = xp.where(some, xp.maximum(typical, apart), typical)
        off = xp.abs(level - middle[:, None])
        usual_off = masked_median(xp.abs(levels - middle[:, None]), there)
        typical, usual_off = (xp.where(xp.isfinite(value), value, 1.0) for value in (typical, usual_off))
        typical = xp.clip(typical, 1e-12, None)[:, None]
        usual_off = usual_off[:, None]
        company = (xp.sum(there, axis=1, dtype=xp.int64) >= 4)[:, None] & seen
        by_course, by_level = first_vouched(deviation, observed & seen[..., None], level, rms, off)
        wild, away = rms / (FAR * typical), off / (12 * usual_off + FAR * typical)
        far, excused = xp.maximum(wild, away), xp.maximum(wild * ~by_course, away * ~by_level)
        moves = _spread(expected + course[:, None, :], observed, count)
        coarse = _coarse(deviation, observed, distance, moves)
        far, excused = xp.where(coarse, away, far), xp.where(coarse, away * ~by_level, excused)
        follows = (rms < 0.6 * moves) & (moves > 1.5 * typical) & (2 * count > slots)
        near = (streak == 0) | (xp.abs(level - anchor) < 2 * typical)
        streak = xp.where(company, xp.where(follows & near, streak + 1, 0.0), streak)
        anchor = xp.where(company, level, anchor)
        highest = xp.max(xp.where(observed, deviation, -xp.inf), axis=-1)
        lowest = xp.min(xp.where(observed, deviation, xp.inf), axis=-1)
        stubborn = (highest == lowest) | ((moves > 1.5 * typical) & (rms > 0.8 * moves) & ~coarse)
        far = xp.where(doubted, xp.maximum(2 * far, 1.1 * stubborn), excused)
        odd = xp.where(company, xp.where(streak >= FOLLOWS, 0.0, far), 0.0)
        oddness = xp.where(seen, odd, oddness)
        typical_size = xp.where(count >= ENOUGH, xp.clip(rms, 1e-6, None), xp.maximum(rms, typical))
        unsure = xp.sqrt(typical**2 + (1.5 * usual_off) ** 2)
        size = xp.where(seen & (odd <= 1), typical_size, xp.where(new, unsure, size))
        stand_in = xp.where(odd > 1, middle[:, None], level)
        found = course[:, None, :] + stand_in[..., None]
        usual = xp.where(new[..., None], found, usual)
        deviation = xp.where(new[..., None], xp.where(observed, deviation - found, 0.0), deviation)
    born = real & ~known & (count > 0) & (oddness <= 1)
    return Newcomers(born, oddness, streak, anchor, deviation, usual, expected, size)


def _common(values: Array, there: Array) -> Array:
    """Return the movement that most fibers of a part share, (part, slot); 0 where nobody was seen."""
    xp = namespace(values)
    level = masked_median(values, there)
    centred = values - xp.where(xp.isfinite(level), level, 0.0)[..., None]
    middle = masked_median(centred.mT, there.mT)
    return xp.where(xp.isfinite(middle), middle, 0.0)


def _coarse(values: Array, there: Array, distance: Array, moves: Array) -> Array:
    """Say who differs from the common course by its own step at most; see `newborns._coarse`."""
    xp = namespace(values)
    if values.shape[-1] < 2:
        return xp.zeros_like(moves) > 0
    inside = ordered(xp.where(there, values, xp.nan))
    steps = inside[..., 1:] - inside[..., :-1]
    step = xp.min(xp.where(steps > 1e-6, steps, xp.inf), axis=-1)
    step = xp.where(step <= COARSEST * moves, step, 0.0)
    beyond = (xp.abs(distance) > (ROUNDING * step)[..., None]) & there
    return (step > 0) & (8 * counted(beyond) <= counted(there))


def _distance(values: Array, there: Array, rows: Array) -> Array:
    """Return the usual distance of a part's fibers from the median of all of them, (part,)."""
    xp = namespace(values)
    middle = masked_median(values.mT, there.mT)
    apart = xp.where(there, values - xp.where(xp.isfinite(middle), middle, 0.0)[:, None, :], 0.0)
    count = xp.clip(xp.sum(there, axis=-1, dtype=xp.float32), 1.0, None)
    typical = masked_median(xp.sqrt(xp.sum(apart * apart, axis=-1) / count), rows)
    return xp.where(xp.sum(rows, axis=1, dtype=xp.int64) >= 3, typical, 0.0)


def _spread(values: Array, there: Array, count: Array) -> Array:
    xp = namespace(values)
    many = xp.clip(single(count), 1.0, None)
    mean = xp.sum(xp.where(there, values, 0.0), axis=-1) / many
    apart = xp.where(there, values - mean[..., None], 0.0)
    return xp.sqrt(xp.sum(apart * apart, axis=-1) / many)
