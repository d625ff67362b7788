"""What the members of a part say about each other: the Gaussian conditional mean, as in `conditioning`.

Members without a trusted reading are taken out of the inverse covariance all at once; the few cells that others lack
are found by conjugate gradients, for all slots of all parts side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sensormend.arrays import Array, namespace
from sensormend.auto.memory import Model
from sensormend.auto.network import KIN_SPREAD_DAYS, KINSHIP, RANKS, SHRINKAGES
from sensormend.auto.wide.tools import diagonal, inverse, masked_median, pick, single, where_true

__all__ = ["Company", "View", "look", "meet"]

STEPS = (1, 2, 3, 6)
"""Conjugate gradient steps for parts with up to 1, 2 or 3 gaps in a slot, which that solves exactly, and for others."""

FLATTEST = 1e-12
"""Variance on a variable's scale under which nothing is told apart: its inverse squared must fit single precision."""

FEW = (3, 8, 20)
"""Absent members up to which parts are handled together."""


@dataclass(eq=False)
class Company:
    """The parts' correlation, spread and inverse covariance before anyone is left out; (part, member, member)."""

    correlation: Array
    spread: Array
    precision: Array
    near: Array
    valid: Array


@dataclass(eq=False)
class View:
    """Members given the trusted readings of the others, (part, member, slot).

    Attributes
    ----------
    expected
        What the others say: leave-one-out at a trusted reading, the conditional mean elsewhere.
    completed
        The trusted reading where there is one, `expected` elsewhere.
    pull, precision
        The inverse covariance of those present, and that times `completed`.
    sharpness
        The inverse of the variance of `expected` of those present.
    absent, variance
        Who has no trusted reading, and the variance of what is expected of them, (part, member).
    """

    expected: Array
    completed: Array
    pull: Array
    precision: Array
    sharpness: Array
    absent: Array
    variance: Array

    def put(self, which: Array, found: View) -> None:
        """Let what was found of these parts now stand for what was found before."""
        for name in ("expected", "completed", "pull", "precision", "sharpness", "absent", "variance"):
            getattr(self, name)[which] = getattr(found, name)


def meet(model: Model, parts: Any, which: slice, real: Array, days: Array) -> Company:
    """Mix the parts' moments with their dictionaries at the present rungs, and invert."""
    moments = parts.moments[which]
    xp = namespace(moments)
    known = (days > 0) & real
    variance = xp.clip(diagonal(moments), FLATTEST, None)
    spread = xp.sqrt(variance)
    _steady(spread, days, real)
    unit = 1 / xp.sqrt(variance)
    correlation = moments * unit[:, :, None]
    correlation *= unit[:, None, :]
    correlation = xp.clip(correlation, -0.9999, 0.9999)
    diagonal(correlation)[:] = 1.0
    share = SHRINKAGES[model.pools.shrinkage]
    mixed = _patterned(parts.dictionary[which], correlation, RANKS[model.pools.rank])
    mixed *= share
    mixed += (1 - share) * correlation
    if not bool(xp.all(known == real)):
        _with_newcomers(mixed, spread, known, real)
    diagonal(mixed)[:] = 1 + 1e-5
    near, valid = _relatives(mixed, known)
    precision = inverse(xp.asarray(mixed, copy=True))
    unit = 1 / spread
    precision *= unit[:, :, None]
    precision *= unit[:, None, :]
    return Company(mixed, spread, precision, near, valid)


def _patterned(dictionary: Array, correlation: Array, rank: int) -> Array:
    """Return what the `rank` strongest patterns explain of the correlation, at most all of a member."""
    xp = namespace(dictionary)
    strongest = dictionary[:, :, :rank]
    inner = strongest.mT @ (correlation @ strongest)
    explained = xp.einsum("hmk,hmk->hm", strongest @ inner, strongest)
    unit = xp.sqrt((1 - 1e-6) / xp.clip(explained, 1 - 1e-6, None))
    strongest = strongest * unit[:, :, None]
    return (strongest @ inner) @ strongest.mT


def _steady(spread: Array, days: Array, real: Array) -> None:
    """Let the spread of channels that joined older ones lean on theirs; see `network._steady`."""
    xp = namespace(spread)
    if float(xp.max(days)) <= float(xp.min(xp.where(real, days, xp.inf))) + KIN_SPREAD_DAYS:
        return
    oldest = xp.max(days * real, axis=1, keepdims=True)
    joined = real & (oldest > days + KIN_SPREAD_DAYS)
    mixed = where_true(xp.any(joined, axis=1))
    if mixed.shape[0] == 0:
        return
    joined, own = joined[mixed], spread[mixed]
    trust = days[mixed] / (days[mixed] + KIN_SPREAD_DAYS)
    others = masked_median(own, ~joined & real[mixed])[:, None]
    spread[mixed] = xp.where(joined, others ** (1 - trust) * own**trust, own)


def _with_newcomers(mixed: Array, spread: Array, known: Array, real: Array) -> None:
    """Give members that were never seen the correlations of an average member; see `network.newborn_rows`."""
    xp = namespace(mixed)
    which = where_true(xp.any(known != real, axis=1))
    old, new = known[which], (real & ~known)[which]
    here, own = mixed[which], spread[which]
    count = xp.clip(xp.sum(old, axis=1, dtype=xp.float32), 1.0, None)[:, None]
    weight = single(old)
    average = KINSHIP * (weight[:, None, :] @ here)[:, 0] / count * weight
    level = xp.clip(KINSHIP * xp.sum(average, axis=1, keepdims=True) / count, 0.0, 1.0)
    fresh = single(new)
    here *= weight[:, :, None] * weight[:, None, :]
    here += fresh[:, :, None] * average[:, None, :] + average[:, :, None] * fresh[:, None, :]
    here += level[:, :, None] * fresh[:, :, None] * fresh[:, None, :]
    someone = xp.any(old, axis=1, keepdims=True)
    here *= someone[:, :, None]
    middle = masked_median(own, old)[:, None]
    mixed[which] = here
    spread[which] = xp.where(old, own, xp.where(someone & real[which], middle, 1.0))


def _relatives(correlation: Array, known: Array, count: int = 4) -> tuple[Array, Array]:
    """Return everyone's most correlated known members, (part, member, relative), and which of them are any."""
    xp = namespace(correlation)
    closeness = xp.abs(correlation) * known[:, None, :]
    diagonal(closeness)[:] = -1.0
    count = min(count, closeness.shape[1] - 1)
    if xp.__name__ != "numpy":
        best, near = xp.topk(closeness, count, dim=-1)
        return near, best > 0
    near, valid = [], []
    flat = closeness.reshape(-1, closeness.shape[-1])
    every = xp.arange(flat.shape[0])
    for _ in range(count):
        nearest = flat.argmax(axis=1)
        valid.append(flat[every, nearest] > 0)
        near.append(nearest)
        flat[every, nearest] = -1.0
    shape = (*closeness.shape[:2], count)
    return xp.stack(near, axis=-1).reshape(shape), xp.stack(valid, axis=-1).reshape(shape)


def look(precision: Array, deviation: Array, trusted: Array, real: Array) -> View:
    """Condition every cell on the trusted readings of the other members in the same slot."""
    xp = namespace(deviation)
    absent = ~xp.any(trusted, axis=-1)
    completed = deviation * trusted
    W, variance, fill = _without(precision, absent, completed)
    own = xp.clip(diagonal(W) * ~absent, 0.0, None) + absent
    gap = ~(trusted | absent[..., None])
    sharpness = own[..., None] + xp.zeros_like(completed)
    pull = W @ completed
    many = xp.max(xp.sum(gap, axis=1, dtype=xp.int64), axis=1)
    low = 0
    for steps in STEPS:
        which = where_true((many > low) & (many <= steps) if steps != STEPS[-1] else many > low)
        low = steps
        if which.shape[0]:
            _fill_gaps(which, steps, W, own, gap, completed, pull, sharpness)
    expected = completed - pull / sharpness
    fill(completed)
    away = absent[..., None] * completed
    expected *= ~absent[..., None]
    expected += away
    _bridge(expected, trusted)
    return View(expected, completed, pull, W, sharpness, absent, variance)


def _bridge(expected: Array, trusted: Array) -> None:
    """Lead what is expected straight across slots in which nobody of a part has a trusted reading; see `bridge`."""
    xp, slots = namespace(expected), expected.shape[-1]
    lit = xp.any(trusted, axis=1)
    which = where_true(~xp.all(lit, axis=1) & xp.any(lit, axis=1))
    if which.shape[0] == 0:
        return
    lit = lit[which]
    left, right = [], []
    newest = xp.full_like(which, -1)
    for slot in range(slots):
        newest = xp.where(lit[:, slot], slot, newest)
        left.append(newest)
    newest = xp.full_like(which, slots)
    for slot in reversed(range(slots)):
        newest = xp.where(lit[:, slot], slot, newest)
        right.append(newest)
    before, after = xp.stack(left, axis=1), xp.stack(right[::-1], axis=1)
    before = xp.where(before < 0, after, before)
    after = xp.where(after >= slots, before, after)
    place = xp.arange(slots, device=expected.device)
    weight = single(place - before) / single(xp.clip(after - before, 1, None))
    weight = xp.where(after > before, weight, 0.0)[:, None, :]
    course = expected[which]
    index = xp.zeros_like(course, dtype=xp.int64)
    low, high = (xp.take_along_axis(course, index + side[:, None, :], axis=2) for side in (before, after))
    expected[which] = low + weight * (high - low)


def _fill_gaps(
    which: Array, steps: int, W: Array, own: Array, gap: Array, completed: Array, pull: Array, sharpness: Array
) -> None:
    """Fill the gaps of some parts, and take from the members' sharpness what they would know by them."""
    xp = namespace(W)
    whole = which.shape[0] == W.shape[0]
    here, level, weight = (array if whole else pick(array, which) for array in (W, own, gap))
    weight = single(weight)
    values, tension = (array if whole else pick(array, which) for array in (completed, pull))
    _solve_gaps(here, level, weight, values, tension, steps)
    less = (here * here) @ (weight / level[..., None])
    less *= weight - 1
    less += level[..., None]
    sharp = xp.maximum(less, 0.05 * level[..., None])
    if whole:
        sharpness[...] = sharp
    else:
        completed[which], pull[which], sharpness[which] = values, tension, sharp


def _solve_gaps(W: Array, own: Array, gap: Array, completed: Array, pull: Array, steps: int) -> None:
    """Fill the gaps so that the precision pulls at none of them; `pull` is W @ completed before and after."""
    xp = namespace(W)
    unit = gap / own[..., None]
    residual = pull * gap
    preconditioned = residual * unit
    direction = xp.asarray(preconditioned, copy=True)
    power = xp.einsum("hms,hms->hs", residual, preconditioned)
    for step in range(steps):
        image = W @ direction
        curvature = xp.einsum("hms,hms->hs", direction, image)
        length = (power / xp.clip(curvature, 1e-30, None))[:, None, :]
        completed -= length * direction
        pull -= length * image
        if step == steps - 1:
            break
        residual -= length * (image * gap)
        preconditioned = residual * unit
        before, power = power, xp.einsum("hms,hms->hs", residual, preconditioned)
        direction *= (power / xp.clip(before, 1e-30, None))[:, None, :]
        direction += preconditioned


def _without(precision: Array, absent: Array, completed: Array) -> tuple[Array, Array, Any]:
    """Take the absent out of the inverse; return it, the variance of each of them, and how to fill them in later."""
    xp = namespace(precision)
    W = xp.asarray(precision, copy=True)
    variance = xp.zeros_like(absent, dtype=W.dtype)
    count = xp.sum(absent, axis=1, dtype=xp.int64)
    most = int(xp.max(count))
    later: list[tuple[Array, Array, Array, Array, Array]] = []
    low = 0
    for high in (*FEW, absent.shape[1]):
        width = min(high, most)
        if width <= low:
            break
        which = where_true((count > low) & (count <= high))
        low = high
        if which.shape[0] == 0:
            continue
        gone = absent[which]
        # Those who are absent come first; padding is members who are there, with a weight of 0.
        rows = xp.argsort(single(~gone), axis=1, stable=True)[:, :width]
        weight = single(xp.take_along_axis(gone, rows, axis=1))
        across = xp.take_along_axis(W[which], rows[:, :, None], axis=1) * weight[:, :, None]
        among = xp.take_along_axis(across, rows[:, None, :], axis=2) * weight[:, None, :]
        diagonal(among)[:] += 1 - weight
        open_ = xp.linalg.inv(among)
        reach = open_ @ across
        here = W[which]
        here -= across.mT @ reach
        there = single(~gone)
        here *= there[:, :, None] * there[:, None, :]
        W[which] = here
        spread = xp.zeros_like(there)
        _add_at(spread, rows, diagonal(open_) * weight)
        variance[which] = spread
        later.append((which, rows, weight, reach, there))

    def fill(values: Array) -> None:
        for which, rows, weight, reach, there in later:
            here = values[which]
            found = -(reach * there[:, None, :]) @ here
            found *= weight[:, :, None]
            for place in range(rows.shape[1]):
                _add_row(here, rows[:, place], found[:, place])
            values[which] = here

    return W, variance, fill


def _add_at(into: Array, rows: Array, values: Array) -> None:
    every = namespace(into).arange(into.shape[0], device=into.device)
    for place in range(rows.shape[1]):
        into[every, rows[:, place]] += values[:, place]


def _add_row(into: Array, rows: Array, values: Array) -> None:
    every = namespace(into).arange(into.shape[0], device=into.device)
    into[every, rows] += values
