"""What the members of a part say about each other: the Gaussian conditional mean, as in `conditioning`.

Members without a reading are left out of the inverse covariance, those who are set aside later are taken out of it,
and the few cells that others lack are found by conjugate gradients, for all slots of all parts side by side.
"""

from __future__ import annotations

from dataclasses import dataclass

from sensormend.arrays import Array, namespace
from sensormend.auto.wide.kin import Kin
from sensormend.auto.wide.tools import alike, counted, diagonal, inverse, pick, where_true

__all__ = ["Company", "View", "left_open", "look", "meet", "relook", "set_aside"]

STEPS, MORE_STEPS, MANY = 2, 6, 0.05
"""Conjugate gradient steps for gaps: so many in a slot, or fewer, are solved exactly. More steps for parts in which
more than this share of the cells is missing."""

FEW = (2, 8)
"""Members that are set aside up to which parts are handled together."""


@dataclass(eq=False)
class Company(Kin):
    """Members of parts who are together today.

    `precision` is the inverse of the covariance of those who are not `absent`, with zero rows and columns for these.
    """

    absent: Array
    precision: Array

    def readmit(self, absent: Array, which: Array) -> None:
        """Invert again for parts in which someone who was absent comes back."""
        self.absent[which] = absent[which]
        self.precision[which] = _precision(self.covariance[which], self.spread[which], absent[which])


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
    absent, gap
        Who has no trusted reading, (part, member), and which readings the others lack, 1 or 0.
    """

    expected: Array
    completed: Array
    pull: Array
    precision: Array
    sharpness: Array
    absent: Array
    gap: Array

    def put(self, which: Array, found: View) -> None:
        """Let what was found of these parts now stand for what was found before."""
        for name in ("expected", "completed", "pull", "precision", "sharpness", "absent", "gap"):
            getattr(self, name)[which] = getattr(found, name)


def meet(kin: Kin, absent: Array) -> Company:
    """Invert the covariance without the absent."""
    return Company(kin.covariance, kin.spread, kin.near, absent, _precision(kin.covariance, kin.spread, absent))


def _precision(covariance: Array, spread: Array, absent: Array) -> Array:
    """Invert the covariance of those who are there; zero rows and columns for the others."""
    unit = ~absent / spread
    correlation = covariance * unit[:, :, None]
    correlation *= unit[:, None, :]
    diagonal(correlation)[:] = 1 + 1e-6
    found = inverse(correlation)
    found *= unit[:, :, None]
    found *= unit[:, None, :]
    return found


def look(company: Company, which: Array | None, deviation: Array, trusted: Array) -> View:
    """Condition every cell of some parts, or of all, on the trusted readings of the other members in the same slot."""
    xp = namespace(deviation)
    absent = ~xp.any(trusted, axis=-1)
    given = (company.covariance, company.precision, company.absent)
    covariance, precision, left_out = given if which is None else (pick(array, which) for array in given)
    W = _without(precision, absent & ~left_out)
    own = diagonal(W) + absent
    completed = deviation * trusted
    gap = alike(~(trusted | absent[..., None]), completed)
    pull = W @ completed
    sharpness = _filled(W, own[..., None], gap, completed, pull, STEPS)
    thin = where_true(counted(counted(gap)) > MANY * gap.shape[1] * gap.shape[2])
    if thin.shape[0]:
        _fill_more(thin, W, own, gap, completed, pull)
    expected = completed - pull / sharpness
    _follow(expected, completed, covariance, pull, absent)
    _bridge(expected, trusted)
    return View(expected, completed, pull, W, sharpness, absent, gap)


def _filled(W: Array, own: Array, gap: Array, completed: Array, pull: Array, steps: int) -> Array:
    """Fill the gaps so that the precision pulls at none of them, and return the sharpness of what is expected then.

    `pull` is W @ completed before and after. What others would know by a gap is taken from their sharpness, each gap
    for itself.
    """
    xp = namespace(W)
    unit = gap / own
    residual = pull * gap
    direction = residual * unit
    power = xp.einsum("hms,hms->hs", residual, direction)
    for step in range(steps):
        image = W @ direction
        length = (power / xp.clip(xp.einsum("hms,hms->hs", direction, image), 1e-30, None))[:, None, :]
        completed -= length * direction
        image *= length
        pull -= image
        if step == steps - 1:
            break
        residual = pull * gap
        preconditioned = residual * unit
        before, power = power, xp.einsum("hms,hms->hs", residual, preconditioned)
        direction *= (power / xp.clip(before, 1e-30, None))[:, None, :]
        direction += preconditioned
    less = (W * W) @ unit
    less *= gap - 1
    less += own
    return xp.maximum(less, 0.05 * own)


def _fill_more(which: Array, W: Array, own: Array, gap: Array, completed: Array, pull: Array) -> None:
    """Take more steps for parts with many gaps."""
    values, tension = completed[which], pull[which]
    _filled(W[which], own[which][..., None], gap[which], values, tension, MORE_STEPS)
    completed[which], pull[which] = values, tension


def _without(precision: Array, absent: Array) -> Array:
    """Take some members out of the inverse: zero rows and columns for them."""
    xp, width = namespace(precision), absent.shape[1]
    place = where_true(absent.reshape(-1))
    W = xp.asarray(precision, copy=True)
    if place.shape[0] == 0:
        return W
    for rows, there in _together(place // width, place, absent.shape[0]):
        weight = alike(there, W)
        part = rows[:, 0] // width
        across = W.reshape(-1, width)[rows] * weight[..., None]
        if rows.shape[1] == 1:
            reach = across / xp.take_along_axis(across, (rows % width)[:, None, :], axis=2)
        else:
            among = xp.take_along_axis(across, (rows % width)[:, None, :], axis=2) * weight[:, None, :]
            diagonal(among)[:] += 1 - weight
            reach = xp.linalg.inv(among) @ across
        W[part] -= across.mT @ reach
    part, member = place // width, place % width
    W[part, member] = 0.0
    W[part, :, member] = 0.0
    return W


def _together(group: Array, place: Array, groups: int) -> list[tuple[Array, Array]]:
    """Lay out places by their group, (group, place), groups with about as many together; padding repeats the first.

    Places come in the order of their groups. The second of each pair says which are more than padding.
    """
    xp = namespace(place)
    count = xp.bincount(group, minlength=groups)
    begun = xp.cumsum(count, axis=0) - count
    most, low, found = int(xp.max(count)), 0, []
    for high in (*FEW, most):
        if low >= most:
            break
        which = where_true((count > low) & (count <= high))
        low = max(low, high)
        if which.shape[0] == 0:
            continue
        column = xp.arange(min(high, most), device=place.device)
        there = column < count[which][:, None]
        found.append((place[begun[which][:, None] + column * there], there))
    return found


def left_open(company: Company, view: View) -> Array:
    """Return the variance that those who are there leave of those who are not, (part, member); 0 for the others."""
    xp, width = namespace(view.expected), view.absent.shape[1]
    found = xp.zeros_like(company.spread)
    place = where_true(view.absent.reshape(-1))
    if place.shape[0]:
        for rows, there in _together(place // width, place, found.shape[0]):
            # What is left is a small difference.
            given = (company.covariance.reshape(-1, width)[rows], view.precision[rows[:, 0] // width])
            across, precision = (xp.asarray(array, dtype=xp.float64) for array in given)
            known = xp.einsum("pkm,pkm->pk", across @ precision, across)
            own = diagonal(company.covariance).reshape(-1)[rows]
            found.reshape(-1)[rows[there]] = alike(xp.clip(own - known, 0.0, None), found)[there]
    return found


def relook(company: Company, view: View, deviation: Array, trusted: Array, part: Array, slot: Array) -> None:
    """Look at some slots of some parts again, after single readings in them are trusted no longer."""
    xp, slots = namespace(deviation), deviation.shape[-1]
    pair = xp.unique_values(part * slots + slot)
    home, column = pair // slots, pair % slots
    W, absent = view.precision[home], view.absent[home]
    own = (diagonal(W) + absent)[..., None]
    seen = trusted[home, :, column]
    completed = (deviation[home, :, column] * seen)[..., None]
    pull = W @ completed
    gap = alike(~(seen | absent), completed)[..., None]
    sharpness = _filled(W, own, gap, completed, pull, MORE_STEPS)
    across = (company.covariance[home] @ pull) * absent[..., None]
    completed += across
    expected = xp.where(absent[..., None], across, completed - pull / sharpness)
    for name, values in (("completed", completed), ("pull", pull), ("sharpness", sharpness), ("expected", expected)):
        getattr(view, name)[home, :, column] = values[..., 0]
    which = xp.unique_values(home)
    course = view.expected[which]
    _bridge(course, trusted[which])
    view.expected[which] = course


def set_aside(company: Company, view: View, which: Array, member: Array) -> None:
    """Take one more member of each of these parts out of what the others are conditioned on.

    They lose what it said of them, which is one outer product: no need to begin anew.
    """
    xp = namespace(view.expected)
    every = xp.arange(which.shape[0], device=which.device)
    W, pull, gap, completed = (getattr(view, name)[which] for name in ("precision", "pull", "gap", "completed"))
    line = W[every, member]
    share = line / line[every, member][:, None]
    W -= share[:, :, None] * line[:, None, :]
    pull -= share[..., None] * pull[every, member][:, None, :]
    W[every, member], W[every, :, member], pull[every, member], gap[every, member] = 0.0, 0.0, 0.0, 0.0
    view.absent[which, member] = True
    absent = view.absent[which]
    sharpness = _filled(W, (diagonal(W) + absent)[..., None], gap, completed, pull, 1)
    expected = completed - pull / sharpness
    _follow(expected, completed, company.covariance[which], pull, absent)
    for name, values in (
        ("precision", W), ("pull", pull), ("gap", gap), ("completed", completed), ("sharpness", sharpness),
        ("expected", expected),
    ):  # fmt: skip
        getattr(view, name)[which] = values


def _follow(expected: Array, completed: Array, covariance: Array, pull: Array, absent: Array) -> None:
    """Let the absent follow those who are there."""
    far = absent[..., None]
    across = covariance @ pull
    across *= far
    for values in (expected, completed):
        values *= ~far
        values += across


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
    weight = alike(place - before, expected) / alike(xp.clip(after - before, 1, None), expected)
    weight = xp.where(after > before, weight, 0.0)[:, None, :]
    course = expected[which]
    index = xp.zeros_like(course, dtype=xp.int64)
    low, high = (xp.take_along_axis(course, index + side[:, None, :], axis=2) for side in (before, after))
    expected[which] = low + weight * (high - low)
