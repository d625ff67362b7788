"""Which channels stand still while the others move, one channel after the other, from all its readings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

import numpy as np
from numpy.typing import NDArray

from sensormend.pipeline import stillness as at

__all__ = ["Channel", "still_channels"]

Floats = NDArray[np.float64]


class Channel:
    """The readings of one channel, period by period."""

    def __init__(self) -> None:
        self.days: list[list[float]] = []
        self.moved, self.usual = 0, 0.0

    def add(self, readings: Floats) -> None:
        """Add a period's readings."""
        self.days.append(sorted(x for x in readings.tolist() if math.isfinite(x)))

    @property
    def movements(self) -> list[float]:
        """The movement of every period with readings."""
        days = [day for day in self.days if day]
        movements = []
        for number, day in enumerate(days):
            last = len(day) - 1
            middle = day[math.ceil(0.75 * last)] - day[math.floor(0.25 * last)]
            movements.append(middle + (abs(median(day) - median(days[number - 1])) if number else 0.0))
        return movements

    @property
    def movement(self) -> float:
        """The largest of them, older ones reduced."""
        return max(at.DECAY**age * moved for age, moved in enumerate(reversed(self.movements)))

    @property
    def idle(self) -> float:
        """The running share of periods without any movement."""
        share = 0.0
        for moved in self.movements:
            share += at.RATE * ((moved == 0) - share)
        return share


def still_channels(channels: Sequence[Channel], low: float, high: float, named: bool) -> list[bool]:
    """Return which channels of a variable stand still in the last period that was added."""
    known = [one for one in channels if one.days[-1] and len(one.movements) >= at.KNOWN]
    if len(known) < at.MANY or median(one.idle for one in known) > at.IDLE:
        return [False] * len(channels)
    ordered = sorted((one.movement for one in known), reverse=True)
    middle = len(ordered) // 2
    if ordered[middle] <= 0:
        return [False] * len(channels)
    calmest = middle
    while calmest + 1 < len(ordered) and at.GAP * ordered[calmest + 1] >= ordered[calmest - 1]:
        calmest += 1
    levels = [median(one.days[-1]) if one.days[-1] else math.nan for one in channels]
    verdicts = []
    for number, one in enumerate(channels):
        is_known = one in known
        moves = is_known and one.movement >= ordered[calmest]
        still = is_known and not moves and one.movement < at.STILL * ordered[middle]
        level = levels[number]
        if still:
            others = [other for place, other in enumerate(levels) if place != number and math.isfinite(other)]
            same = at.SAME * (high - low)
            at_end = level < low + at.NEAR_END * (high - low) or level > high - at.NEAR_END * (high - low)
            shared = sum(abs(other - level) < same for other in others) >= at.BESIDE * len(others)
            unusual = one.movement < at.STILL * math.exp(one.usual)
            still = (one.moved >= at.LIVELY and unusual) or (named and (level < low + same or level > high - same))
            still = still and not (at_end and shared)
        verdicts.append(still)
        if moves and one.movements[-1] > 0:
            one.usual += max(1 / (one.moved + 1), at.RATE) * (math.log(one.movements[-1]) - one.usual)
            one.moved += 1
    return verdicts
