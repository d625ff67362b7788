"""Screening finds spikes that need no hypothesis: readings that jump out of their own series and soon jump back.

To the engine they are missing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.recovery import BoolArray

__all__ = [
    "find_handled",
    "find_spikes",
    "follow_habits",
    "follow_spread",
    "is_habitual",
    "median_of",
    "roughness_of",
    "runs",
    "spike_limits",
]

SPIKE_HEIGHT = 5.0
"""Geometric means of a channel's roughness and its variable's spread that a spike is high at least.

It has to be rare for the channel and visible on a chart of the variable; people mark what is both.
"""
SPIKE_ROUGHNESS = 10.0
"""Roughnesses of its channel that a spike is high at least; more than the above only where a channel is all noise."""
SPIKE_PART = 24
"""The part of a period that a spike lasts at most, of a day an hour; one slot in any case."""
SPIKE_READINGS = 6
"""The number of readings that it has at most: in an hour of minutes an appliance runs, or a shower passes."""
CLEAR, JOINT = 2.0, 0.4
"""Limits beyond which a spike is clear; and the part of its limit that a spike needs where other channels have clear
ones: whoever lifts a device out of the water lifts all of it."""
VARIABLES_BESIDE, DEVICES_BESIDE, SHARE_BESIDE = 2, 3, 0.2
"""Other variables of the device with clear spikes in the same slot, or other devices and the share of those that
report, from which this is so."""
WEATHER = 3
"""Channels of a variable that have one in the same slot from which it is weather, where slots are longer than an hour:
brooks are in flood for a day."""
MEMORY = 0.995
"""Weight of the past per period in roughness and spread: most of a year, since a chart shows seasons. With 0.98 a third
more spikes of a reservoir are none."""
HABITUAL_DAYS, SAME_HOURS = 0.4, 0.6
"""The share of the periods with a spike, and the concentration of these on the same hours (the mean resultant length
of their times, Mardia and Jupp, "Directional Statistics", 2000), beyond which it is a habit: a battery that is charged
every noon, clouds before the sun. No labelled channel has spikes on more than .31 of the days."""
HABITUAL_READINGS = 0.04
"""The share of the readings that are spikes beyond which a channel has heavy tails: quotients of small numbers have .06
to .08, and no labelled channel more than .02."""
HABIT_PERIODS = 60
"""Periods after which the habits of a channel are known: within a month, the tide is high at the same hours."""
JUMPS = 16_384
"""Jumps that are looked at together."""
SAME = 1e-5
"""The distance, on a variable's scale, below which two readings are the same."""


def _beside(scaled: NDArray[np.float32], last: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the readings before and after each one, at most two slots away; `last` is that before the first."""
    missing = np.full((len(scaled), 2), np.nan, np.float32)
    padded = np.concatenate([missing[:, :1], last[:, None], scaled, missing], axis=1)
    before = np.where(np.isfinite(padded[:, 1:-3]), padded[:, 1:-3], padded[:, :-4])
    after = np.where(np.isfinite(padded[:, 3:-1]), padded[:, 3:-1], padded[:, 4:])
    return before, after


def spike_limits(roughness: NDArray[np.float32], spread: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return how high a spike of each channel is at least; infinite where roughness or spread are not known, 0."""
    limits: NDArray[np.float32] = np.maximum(SPIKE_HEIGHT * np.sqrt(roughness * spread), SPIKE_ROUGHNESS * roughness)
    limits[(roughness <= 0) | (spread <= 0)] = np.inf
    return limits


def find_spikes(
    scaled: NDArray[np.float32],
    last: NDArray[np.float32],
    roughness: NDArray[np.float32],
    spread: NDArray[np.float32],
    part: float = 1.0,
) -> BoolArray:
    """Return which readings on their variable's scale, (channel, slot), are spikes.

    A spike is a run of readings, all of them on one side of the reading before and of the one after it and farther from
    both than the channel's limit, while these two agree to within half of that height. The limit is a `part` of
    the one that follows from the channel's usual roughness and the spread of its variable; where one of these is 0, it
    is not known, and there are no spikes.
    """
    before, after = _beside(scaled, last)
    limits = part * spike_limits(roughness, spread)
    spikes = np.zeros(scaled.shape, np.bool_)
    lengths = np.arange(min(max(1, scaled.shape[1] // SPIKE_PART), SPIKE_READINGS))
    with np.errstate(invalid="ignore"):
        jump = scaled - before
        jumps = np.argwhere(np.abs(jump) > limits[:, None])
        for first in range(0, len(jumps), JUMPS):
            channel, begin = jumps[first : first + JUMPS, :1], jumps[first : first + JUMPS, 1:]
            slots = np.minimum(begin + lengths, scaled.shape[1] - 1)
            # From each jump on, (jump, slot): how far readings are from the one before it, to the side of the jump.
            side, base = np.sign(jump[channel, begin]), before[channel, begin]
            away = side * (scaled[channel, slots] - base)
            back = side * (after[channel, slots] - base)
            height = np.fmin.accumulate(away, axis=1) - np.maximum(back, 0)
            ends = np.isfinite(away) & (height > limits[channel]) & (np.abs(back) < 0.5 * height)
            # A spike reaches from its jump to the last slot after which the channel is back.
            inside = np.logical_or.accumulate(ends[:, ::-1], axis=1)[:, ::-1]
            spikes[np.broadcast_to(channel, slots.shape)[inside], slots[inside]] = True
    return spikes & np.isfinite(scaled)


def find_handled(clear: BoolArray, observed: BoolArray) -> BoolArray:
    """Return in which slots each channel's device was most likely handled: lifted, cleaned or exchanged.

    `clear` has the clear spikes and `observed` the readings, (device, variable, slot). Either two other variables of
    the device have one, or, where slots are so short that weather does not come and go within one, three other devices
    and a fifth of those that report.
    """
    devices, reports = clear.any(axis=1), observed.any(axis=1)
    beside = clear.sum(axis=1, keepdims=True) - clear
    handled: BoolArray = beside >= VARIABLES_BESIDE
    if clear.shape[2] > SPIKE_PART:
        others = devices.sum(axis=0) - devices
        many = np.maximum(DEVICES_BESIDE, SHARE_BESIDE * (reports.sum(axis=0) - reports))
        handled |= (others >= many)[:, None]
    return handled


def follow_habits(
    habits: NDArray[np.float32], spikes: BoolArray, observed: BoolArray, rate: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return the habits of channels after a period with these spikes and readings, (channel, slot).

    `habits`, (channel, 4), has running means over the periods with readings: of the share of the readings that are
    spikes, of whether there is one, and of the cosine and sine of the time of day of those of a period.
    """
    seen = observed.sum(axis=1)
    moved = habits * (1 - np.where(seen > 0, rate, 0)).astype(np.float32)[:, None]
    rows = np.flatnonzero(spikes.any(axis=1))
    slots, angle = spikes[rows], 2 * np.pi * np.arange(spikes.shape[1]) / spikes.shape[1]
    count = slots.sum(axis=1)
    today = [count / seen[rows], count > 0, slots @ np.cos(angle) / count, slots @ np.sin(angle) / count]
    moved[rows] += rate[rows, None] * np.stack(today, axis=1).astype(np.float32)
    return moved


def is_habitual(habits: NDArray[np.float32]) -> BoolArray:
    """Return which channels jump and jump back as a habit: none of that is a spike."""
    share, days, cosine, sine = habits.T
    at_hours = np.hypot(cosine, sine) > SAME_HOURS * days
    habitual: BoolArray = (share > HABITUAL_READINGS) | ((days > HABITUAL_DAYS) & at_hours)
    return habitual


def roughness_of(
    scaled: NDArray[np.float32], last: NDArray[np.float32], usual: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return the mean distance of the readings of each channel from the middle of those beside them.

    Readings in the middle do not count: they say how coarse a channel's steps are, and not how smooth it is. No other
    counts for more than three times the usual distance. NaN where none counts.
    """
    before, after = _beside(scaled, last)
    distance = np.abs(scaled - 0.5 * (before + after))
    capped = np.where(usual[:, None] > 0, np.minimum(distance, 3 * usual[:, None]), distance)
    counted = distance > SAME
    count = counted.sum(axis=1)
    total = np.where(counted, capped, 0.0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan).astype(np.float32)


def follow_spread(usual: NDArray[np.float32], scaled: NDArray[np.float32], rate: float) -> NDArray[np.float32]:
    """Return the mean and standard deviation of a variable's readings after a period's, (channel, slot).

    `usual` has them before it, 0 where they are not known. Readings farther than three standard deviations from the
    mean count as if they were there.
    """
    values = scaled[np.isfinite(scaled)]
    if not values.size:
        return usual
    if usual[1] <= 0:
        return np.array([values.mean(), values.std()], np.float32)
    mean, deviation = usual.astype(float)
    values = np.minimum(np.maximum(values, mean - 3 * deviation), mean + 3 * deviation)
    # Not `mean` and `var`: for a few hundred numbers what surrounds their sums takes longer than these.
    today = np.add.reduce(values) / values.size
    moved = float(today) - mean
    distance = values - today
    variance = (1 - rate) * (deviation**2 + rate * moved**2) + rate * (float(np.add.reduce(distance**2)) / values.size)
    return np.array([mean + rate * moved, np.sqrt(variance)], np.float32)


def median_of(values: NDArray[np.float32]) -> Any:
    """Return the median of one or more numbers, in a tenth of the time that `np.median` takes for some hundred."""
    ordered, middle = np.sort(values), len(values) // 2
    return ordered[middle] if len(values) % 2 else (ordered[middle - 1] + ordered[middle]) / np.float32(2)


def runs(spikes: BoolArray) -> list[tuple[int, int, int]]:
    """Return the channel, the first slot and that after the last one of each run of spikes, (channel, slot)."""
    if not spikes.any():
        return []
    padded = np.pad(spikes, ((0, 0), (1, 1))).view(np.int8)
    edges = np.diff(padded, axis=1)
    channels, begins = np.nonzero(edges == 1)
    return list(zip(channels.tolist(), begins.tolist(), np.nonzero(edges == -1)[1].tolist(), strict=True))
