"""What the members of a part say about each other: the Gaussian conditional mean, as in `conditioning`.

Members without a trusted reading are taken out of the inverse covariance all at once, and the few cells that others
lack are solved for slot by slot, those with about as many gaps side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sensormend.arrays import Array, namespace
from sensormend.auto.memory import Model
from sensormend.auto.network import KIN_SPREAD_DAYS, KINSHIP, RANKS, SHRINKAGES
from sensormend.auto.wide.tools import diagonal, inverse, masked_median, pick, single, where_true

__all__ = ["Company", "View", "look", "meet", "relook"]

STEPS = (1, 2, 4, 8, 16, 32)
"""Gaps in a slot up to which slots are solved together."""

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
    diagonal(mixed)[:] = 1 + 1e-6
    near, valid = _relatives(mixed, known)
    precision = inverse(mixed)
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


def look(precision: Array, deviation: Array, trusted: Array) -> View:
    """Condition every cell on the trusted readings of the other members in the same slot."""
    xp, slots = namespace(deviation), deviation.shape[-1]
    absent = ~xp.any(trusted, axis=-1)
    completed = deviation * trusted
    W, variance, left = _without(precision, absent)
    own = diagonal(W) + absent
    pull = W @ completed
    expected = completed - pull / own[..., None]
    sharpness = xp.empty_like(completed)
    sharpness[...] = own[..., None]
    view = View(expected, completed, pull, W, sharpness, absent, variance)
    gap = ~(trusted | absent[..., None])
    part, row, slot = xp.nonzero(gap)
    if part.shape[0]:
        _fill_gaps(view, own, part, row, slot, part * slots + slot)
    for rows, reach, there in left:
        found = -(reach @ completed[rows[:, 0] // absent.shape[1]])
        flat = rows[there]
        completed.reshape(-1, slots)[flat] = expected.reshape(-1, slots)[flat] = found[there]
    _bridge(expected, trusted)
    return view


def _without(precision: Array, absent: Array) -> tuple[Array, Array, list[tuple[Array, Array, Array]]]:
    """Take the absent out of the inverse; return it, the variance of each of them, and what leads to their values.

    The last is, for parts with about as many, their places among all members, (part, absent), how they follow from those
    who are there, (part, absent, member), and which of the places are more than padding.
    """
    xp, width = namespace(precision), absent.shape[1]
    W = xp.asarray(precision, copy=True)
    variance = xp.zeros(absent.shape, dtype=W.dtype, device=W.device)
    left: list[tuple[Array, Array, Array]] = []
    place = where_true(absent.reshape(-1))
    for rows, there in _together(place // width, place, absent.shape[0], FEW):
        weight = single(there)
        part, member = rows[:, 0] // width, rows % width
        across = W.reshape(-1, width)[rows] * weight[..., None]
        among = xp.take_along_axis(across, member[:, None, :], axis=2) * weight[:, None, :]
        diagonal(among)[:] += 1 - weight
        open_ = xp.linalg.inv(among)
        reach = open_ @ across
        W[part] -= across.mT @ reach
        present = single(~absent[part])
        variance.reshape(-1)[rows[there]] = diagonal(open_)[there]
        left.append((rows, reach * present[:, None, :], there))
    part, member = place // width, place % width
    W[part, member] = 0.0
    W[part, :, member] = 0.0
    return W, variance, left


def _together(group: Array, place: Array, groups: int, steps: tuple[int, ...]) -> list[tuple[Array, Array]]:
    """Lay out places by their group, (group, place), groups with about as many together; padding repeats the first.

    Places come in the order of their groups. The second of each pair says which are more than padding.
    """
    xp = namespace(place)
    if place.shape[0] == 0:
        return []
    count = xp.bincount(group, minlength=groups)
    begun = xp.cumsum(count, axis=0) - count
    most, low, found = int(xp.max(count)), 0, []
    for high in (*steps, most):
        if low >= most:
            break
        which = where_true((count > low) & (count <= high))
        low = max(low, high)
        if which.shape[0] == 0:
            continue
        many = count[which][:, None]
        column = xp.arange(min(high, most), device=place.device)
        there = column < many
        found.append((place[begun[which][:, None] + column * there], there))
    return found


def _fill_gaps(view: View, own: Array, part: Array, row: Array, slot: Array, pair: Array) -> None:
    """Fill cells so that the precision pulls at none of them; what others would know by them is taken from those."""
    xp, (parts, width, slots) = namespace(own), view.completed.shape
    order = xp.argsort(pair, stable=True)
    # A place is a member and a slot in one number.
    place = ((part * width + row) * slots + slot)[order]
    for cells, there in _together(pair[order], place, parts * slots, STEPS):
        weight = single(there)
        member = cells // slots
        home, column = member[:, 0] // width, cells[:, 0] % slots
        reach = view.precision.reshape(-1, width)[member] * weight[..., None]
        if cells.shape[1] == 1:
            open_ = 1 / own.reshape(-1)[member][..., None]
        else:
            among = xp.take_along_axis(reach, (member % width)[:, None, :], axis=2) * weight[:, None, :]
            diagonal(among)[:] += 1 - weight
            open_ = xp.linalg.inv(among)
        through = open_ @ reach
        found = -(open_ @ (view.pull.reshape(-1)[cells] * weight)[..., None])
        pull = view.pull[home, :, column] + (reach.mT @ found)[..., 0]
        sharp = own[home]
        sharp = xp.maximum(sharp - xp.einsum("pkm,pkm->pm", through, reach), 1e-6 * sharp)
        view.pull[home, :, column], view.sharpness[home, :, column] = pull, sharp
        view.expected[home, :, column] = view.completed[home, :, column] - pull / sharp
        flat, values = cells[there], found[..., 0][there]
        for into in (view.completed, view.expected):
            into.reshape(-1)[flat] = values
        view.pull.reshape(-1)[flat] = 0.0
        view.sharpness.reshape(-1)[flat] = 1 / diagonal(open_)[there]


def relook(view: View, deviation: Array, trusted: Array, part: Array, slot: Array) -> None:
    """Look at some slots of some parts again, after single readings in them are trusted no longer."""
    xp, slots = namespace(deviation), deviation.shape[-1]
    pair = xp.unique_values(part * slots + slot)
    home, column = pair // slots, pair % slots
    seen = trusted[home, :, column]
    values = deviation[home, :, column] * seen
    absent = view.absent[home]
    # Those who are absent are as they were but for what the lost readings said of them, which is little.
    before = view.completed[home, :, column]
    own = diagonal(view.precision) + view.absent
    pull = (view.precision[home] @ values[..., None])[..., 0]
    level = own[home]
    view.completed[home, :, column] = xp.where(absent, before, values)
    view.pull[home, :, column], view.sharpness[home, :, column] = pull, level
    view.expected[home, :, column] = xp.where(absent, view.expected[home, :, column], values - pull / level)
    line, row = xp.nonzero(~seen & ~absent)
    if line.shape[0]:
        _fill_gaps(view, own, home[line], row, column[line], pair[line])


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
