"""A minibatch on its way in: what is known of it before the model has seen it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sensormend.arrays import Array, as_like, is_tensor, namespace, on_host
from sensormend.auto.settling import Period
from sensormend.recovery import BoolArray, FloatArray

__all__ = ["Door", "began_late", "some_sensors", "untouched"]

LOOKED_AT = 20_000
"""Sensors of a large network that tell the scale of a variable, and whether it is a direction."""


@dataclass(frozen=True, eq=False)
class Door:
    """A minibatch as it came in, made ready for the model: (period, channel, slot) and whose rows these are.

    `channels` is how many the model has with them, and `like` the torch tensor that came, if one did.
    """

    readings: Array
    labels: Sequence[str | int]
    labelled: bool
    shape: tuple[int, ...]
    periods: int | None
    channels: int
    wide: bool
    like: Array | None


def some_sensors(readings: Array) -> FloatArray:
    """Return readings on the host, (sensor, ...): all of them, or of a large network those of some sensors."""
    return on_host(readings[:: max(1, len(readings) // LOOKED_AT)]).astype(np.float64, copy=False)


def untouched(readings: Array) -> Period:
    """Return a period of which nothing is made, where the readings are."""
    period = Period.untouched(on_host(readings))
    if not is_tensor(readings):
        return period
    moved = {name: as_like(value, readings) for name, value in vars(period).items() if name not in ("reason", "rounds")}
    return replace(period, **moved)


def began_late(readings: Array) -> bool:
    """Say whether a period's readings, (channel, slot), begin in its second half.

    A feed that is switched on in the evening has a few hours of its first day, and a model that took these for a day
    would be wrong about everything the next morning. A network that never has more is met again in the next period.
    """
    xp = namespace(readings)
    seen: BoolArray = on_host(xp.any(xp.isfinite(readings), axis=0))
    return seen.size >= 4 and bool(seen.any()) and not seen[: seen.size // 2].any()
