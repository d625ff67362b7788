"""Sensors that report what another one reports: they do not speak for each other.

A copy predicts its original without any error, until one of the two is silent; by what is usual then, the other one
would be wrong. So two that are equal today are taken to have in common only what the others know of them.
"""

from __future__ import annotations

from sensormend.arrays import Array, namespace
from sensormend.auto.wide.tools import alike, diagonal, inverse, where_true

__all__ = ["copied", "tell_apart"]

TOGETHER = 4
"""Slots in which both were seen: fewer are equal by chance."""

NEAR = 1e-4
"""Mean square distance, as a share of the readings' variance, under which two are looked at number by number."""


def copied(readings: Array, observed: Array) -> Array | None:
    """Say who reports exactly the same as whom, (part, member, member), where it moves; None where nobody does.

    Readings are (part, member, slot).
    """
    xp = namespace(readings)
    there = alike(observed, readings)
    count = xp.clip(xp.sum(there, axis=(1, 2), keepdims=True), 1.0, None)
    filled = xp.where(observed, readings, 0.0)
    filled = xp.where(observed, filled - xp.sum(filled, axis=(1, 2), keepdims=True) / count, 0.0)
    square = filled * filled
    both = there @ there.mT
    apart = square @ there.mT
    apart = apart + apart.mT - 2 * (filled @ filled.mT)
    variance = xp.sum(square, axis=(1, 2), keepdims=True) / count
    near = (both >= TOGETHER) & (apart <= NEAR * variance * both)
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
    """Let copies, (part, member, member), have in common what the others know of them, and nothing more."""
    xp, members = namespace(covariance), covariance.shape[1]
    which = where_true(xp.any(copies.reshape(copies.shape[0], -1), axis=1))
    pairs, own = copies[which], covariance[which]
    spread = xp.sqrt(diagonal(own))
    place = xp.arange(members, device=getattr(covariance, "device", None))
    # One of each group stands for it: the first.
    first = xp.min(xp.where(pairs, place, members), axis=2)
    first = xp.minimum(first, place)
    alone = first < place
    unit = xp.where(alone, 0.0, 1 / spread)
    correlation = own * unit[:, :, None] * unit[:, None, :]
    diagonal(correlation)[:] = 1 + 1e-6
    left = xp.clip(1 / diagonal(inverse(correlation)), 0.0, 1.0)
    left = xp.take_along_axis(left, first, axis=1)
    shared = 1 - (left[:, :, None] + left[:, None, :]) / 2
    covariance[which] = xp.where(pairs, shared * spread[:, :, None] * spread[:, None, :], own)
