"""What the members of a part have to do with each other, whoever reads today: their covariance, as in `network`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sensormend.arrays import Array, is_tensor, namespace
from sensormend.auto import judge
from sensormend.auto.memory import Model
from sensormend.auto.network import KIN_SPREAD_DAYS, KINSHIP, RANKS, SHRINKAGES
from sensormend.auto.wide.tools import alike, counted, diagonal, masked_median, pick, where_true

__all__ = ["FLATTEST", "Kin", "relate", "strangers"]

FLATTEST = 1e-12
"""Variance on a variable's scale under which nothing is told apart: its inverse squared must fit single precision."""


@dataclass(eq=False)
class Kin:
    """What the members of parts have to do with each other, (part, member, member), whoever reads today.

    `near` are everyone's closest relatives, (part, member, relative), -1 where there is none.
    """

    covariance: Array
    spread: Array
    near: Array

    def closest(self, part: Array, row: Array, asked: Array) -> Array:
        """Return the closest relatives of some members among those who are asked, (member, relative); -1 is none."""
        closeness = namespace(asked).abs(self.covariance[part, row]) / self.spread[part]
        closeness *= asked
        return _closest(closeness)


def relate(model: Model, parts: Any, which: slice, real: Array, days: Array) -> Kin:
    """Mix the parts' moments with their dictionaries at the present rungs."""
    moments = parts.moments[which]
    xp = namespace(moments)
    known = (days > 0) & real & ~strangers(model, parts, which, days)
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
    correlation *= 1 - share
    mixed += correlation
    if not bool(xp.all(known == real)):
        _with_newcomers(mixed, spread, known, real)
    diagonal(mixed)[:] = 1 + 1e-6
    near = _relatives(mixed, known)
    mixed *= spread[:, :, None]
    mixed *= spread[:, None, :]
    return Kin(mixed, spread, near)


def strangers(model: Model, parts: Any, which: slice, days: Array) -> Array:
    """Say who is known where it is judged, but was too odd for this part on its first day and is not learned here."""
    residual = pick(model.channels.residual, parts.members[which])
    return (days > 0) & (diagonal(parts.moments[which]) <= 0) & (residual > 1e3 * FLATTEST)


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
    count = xp.clip(counted(old), 1.0, None)[:, None]
    weight = alike(old, here)
    average = KINSHIP * (weight[:, None, :] @ here)[:, 0] / count * weight
    level = xp.clip(KINSHIP * xp.sum(average, axis=1, keepdims=True) / count, 0.0, 1.0)
    fresh = alike(new, here)
    here *= weight[:, :, None] * weight[:, None, :]
    here += fresh[:, :, None] * average[:, None, :] + average[:, :, None] * fresh[:, None, :]
    here += level[:, :, None] * fresh[:, :, None] * fresh[:, None, :]
    someone = xp.any(old, axis=1, keepdims=True)
    here *= someone[:, :, None]
    middle = masked_median(own, old)[:, None]
    mixed[which] = here
    spread[which] = xp.where(old, own, xp.where(someone & real[which], middle, 1.0))


def _relatives(correlation: Array, known: Array) -> Array:
    """Return everyone's most correlated known members, (part, member, relative); -1 where there is none."""
    xp = namespace(correlation)
    closeness = xp.abs(correlation)
    closeness *= known[:, None, :]
    diagonal(closeness)[:] = 0.0
    return _closest(closeness)


def _closest(closeness: Array) -> Array:
    """Return the places of the largest along the last axis, -1 where nothing is above 0; the input is overwritten."""
    xp, width = namespace(closeness), closeness.shape[-1]
    count = min(judge.RELATIVES, width - 1)
    if is_tensor(closeness):
        best, near = xp.topk(closeness, count, dim=-1)
        return xp.where(best > 0, near, -1)
    flat = closeness.reshape(-1, width)
    near, every = xp.empty((flat.shape[0], count), dtype=xp.int64), xp.arange(flat.shape[0])
    for place in range(count):
        nearest = flat.argmax(axis=1)
        near[:, place] = xp.where(flat[every, nearest] > 0, nearest, -1)
        flat[every, nearest] = 0.0
    return near.reshape(*closeness.shape[:-1], count)
