"""Sensors that report what another one reports: they do not speak for each other.

A copy predicts its original without any error, until one of the two is silent; by what is usual then, the other one
would be wrong. So two that are equal today are taken to have in common only what the others know of them.
"""

from __future__ import annotations

from typing import Any

from sensormend.arrays import Array, is_tensor, namespace
from sensormend.auto.wide.tools import alike, diagonal, inverse, where_true

__all__ = ["copied", "tell_apart"]

TOGETHER = 4
"""Slots in which both were seen: fewer are equal by chance."""

TRIES = 6
"""How often less is taken from what copies have in common, half as much each time, until correlations are possible."""

LEAST = 1e-7
"""The smallest strength of any pattern in correlations that are possible; that of one with rounding is above it."""

NEAR = 1e-4
"""Mean square distance, on the variable's scale, under which two are looked at number by number."""


def copied(readings: Array, observed: Array, scaled: Array) -> Array | None:
    """Say who reports exactly the same as whom, (part, member, member), where it moves; None where nobody does.

    Readings are (part, member, slot), and `scaled` are the same on their variable's scale.
    """
    xp = namespace(readings)
    there = alike(observed, scaled)
    filled = xp.where(observed, scaled, 0.0)
    both = there @ there.mT
    apart = (filled * filled) @ there.mT
    apart = apart + apart.mT - 2 * (filled @ filled.mT)
    near = (both >= TOGETHER) & (apart <= NEAR * both)
    diagonal(near)[:] = False
    part, one, other = xp.nonzero(near)
    if part.shape[0] == 0:
        return None
    common = observed[part, one] & observed[part, other]
    first, second = readings[part, one], readings[part, other]
    same = ~xp.any((first != second) & common, axis=1)
    low = xp.min(xp.where(common, first, xp.inf), axis=1)
    high = xp.max(xp.where(common, first, -xp.inf), axis=1)
    same &= high > low
    near[part, one, other] = same
    return near if bool(xp.any(same)) else None


def tell_apart(covariance: Array, copies: Array) -> None:
    """Let copies, (part, member, member), have in common what the others know of them, and nothing more.

    The first of a group of copies stands for all of it: what is known of it and the others is taken to hold for each.
    """
    xp, members = namespace(covariance), covariance.shape[1]
    which = where_true(xp.any(copies.reshape(copies.shape[0], -1), axis=1))
    first = _groups(copies[which])
    own = covariance[which]
    spread = xp.sqrt(diagonal(own))
    correlation = own / (spread[:, :, None] * spread[:, None, :])
    place = xp.arange(members, **_there(covariance))
    # Whoever another one stands for is left out.
    stands = alike(first == place, correlation)
    among = correlation * stands[:, :, None] * stands[:, None, :]
    diagonal(among)[:] = 1 + 1e-6
    left = xp.take_along_axis(xp.clip(1 / diagonal(inverse(among)), 0.0, 1.0), first, axis=1)
    rows = xp.take_along_axis(correlation, xp.broadcast_to(first[:, :, None], correlation.shape), axis=1)
    equal = xp.take_along_axis(rows, xp.broadcast_to(first[:, None, :], correlation.shape), axis=2)
    together = alike(first[:, :, None] == first[:, None, :], correlation)
    diagonal(together)[:] = 0.0
    share = xp.ones_like(left[:, 0])
    for _ in range(TRIES):
        found = equal - (share[:, None] * left)[:, :, None] * together
        bad = ~(xp.min(xp.linalg.eigvalsh(found), axis=1) > LEAST)
        if not bool(xp.any(bad)):
            break
        share = xp.where(bad, 0.5 * share, share)
    else:
        found = xp.where(bad[:, None, None], correlation, found)
    covariance[which] = found * spread[:, :, None] * spread[:, None, :]


def _groups(copies: Array) -> Array:
    """Return for every member the first of those that are its copies, or copies of these, (part, member)."""
    xp, members = namespace(copies), copies.shape[1]
    place = xp.arange(members, **_there(copies))
    first = xp.broadcast_to(place, copies.shape[:2])
    while True:
        found = xp.minimum(first, xp.min(xp.where(copies, first[:, None, :], members), axis=2))
        if bool(xp.all(found == first)):
            return found
        first = found


def _there(array: Array) -> dict[str, Any]:
    """Return where arrays are to be made, for those that may be elsewhere."""
    return {"device": array.device} if is_tensor(array) else {}
