"""Who stands beside others that nobody calls faulty: a region may have weather of its own."""

from __future__ import annotations

from sensormend.arrays import Array, namespace

__all__ = ["BESIDE", "VOUCHERS", "first_vouched"]

VOUCHERS = 2
"""Others beside a sensor that vouch for it, however far it is from the rest."""

BESIDE = 0.5
"""How near that is: this share of its distance from everyone, and on a first day of its own movement, too."""

TOGETHER = 4
"""Slots in which two must have been seen before one vouches for the other."""

STILL = 1e-3
"""Movement, on the variable's scale, below which nobody moves."""


def first_vouched(values: Array, there: Array, level: Array, rms: Array, off: Array) -> tuple[Array, Array]:
    """Say for whom others vouch on a first day: for its movement, and for its level; both (..., member).

    Only who moves can agree with others: sensors that stand still vouch for nobody.

    Parameters
    ----------
    values, there
        Readings on their variable's scale, (..., member, slot), and which of them there are.
    level
        Where each member is, (..., member).
    rms, off
        How far its movement is from the common one, and its level from the middle.
    """
    xp = namespace(values)
    mask = xp.where(there, xp.ones_like(values), 0.0)
    many = xp.sum(mask, axis=-1, keepdims=True)
    moved = mask * (values - xp.sum(values * mask, axis=-1, keepdims=True) / xp.clip(many, 1.0, None))
    power = moved * moved
    own, common = power @ mask.mT, mask @ mask.mT
    apart = own + own.mT - 2 * (moved @ moved.mT)
    themselves = xp.eye(values.shape[-2], dtype=xp.bool, device=mask.device)
    agree = (apart < BESIDE**2 * own) & (own > STILL**2 * common) & (common >= TOGETHER) & ~themselves
    course = agree & (apart < BESIDE**2 * common * (rms * rms)[..., None])
    place = agree & (xp.abs(level[..., None] - level[..., None, :]) < BESIDE * off[..., None])
    moves, stays = (xp.sum(beside, axis=-1, dtype=xp.int64) >= VOUCHERS for beside in (course, place))
    return moves, stays
