"""Is a fiber sound? Measured against what is usual for that sensor, on a day like this one.

A fiber's features are compared with their running median and 90 % quantile for that channel, after division by
how unusual the day is among the channel's closest relatives (a front moves them all). The threshold is the
median times the ratio of the two quantiles to a power, so that a sensor with heavy tails gets a wide one and a
steady sensor a narrow one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sensormend.arrays import Array, namespace
from sensormend.auto.conditioning import Conditioned
from sensormend.auto.memory import Channels
from sensormend.auto.neighbourhoods import IntArray
from sensormend.recovery import BoolArray, FloatArray

__all__ = [
    "Seen",
    "bumps",
    "events",
    "features",
    "learn_usual",
    "limits",
    "longest_run",
    "relatives",
    "scores",
    "second_of_others",
    "smoothed",
    "stuck_scores",
    "trimming",
    "usual",
    "within_steps",
]

LIMITS = np.array([3.0, 2.8, 3.6])
"""How many times log(q90/q50) above the log of the median the size, the level and the roughness of a residual may
lie. For normal residuals these are about four standard deviations; docs/auto.md has what other limits reach."""

SPREAD = (np.array([0.25, 0.4, 0.25]), np.array([0.75, 1.0, 0.75]))
"""The narrowest and the widest log(q90/q50) that is believed."""

OWN = 0.5
"""How far a channel's own spread is trusted over the network's, once it has been seen often."""

WRONG_DAYS = 0.3
"""Weight of wrong days in the upper quantile: enough that a false flag does not lock itself in, little enough
that a third of all days wrong does not make faults usual."""

RELATIVES = 4
"""Closest relatives asked whether this is a day for large residuals. NOAA: 4 explain them best, 12 a bit worse."""

LEAN = 3.0
"""Days of its own after which a channel's medians count as much as the network's."""

YOUNG = 10
"""Judged days under which a channel is young."""

STUCK = 1.5
"""Network movement, in usual residuals, that makes a stretch four times as long as usual count as stuck."""

ROUNDING = 1.001
"""What a step is multiplied by before distances are compared with it, which are not exact."""

AWAKE = 6.0
"""How many times its own spread a sensor of a variable that is at rest most of the time, as rain is, may be off: what
was learned at rest says little of the other hours."""

EXCUSED = 0.5
"""The highest score of a fiber that differs by its own step at most."""

SHORTEST = 4
"""Equal readings in a row from which a fiber may be called stuck."""


@dataclass(frozen=True, eq=False)
class Seen:
    """Which readings of some fibers count, (fiber, slot), which steps from slot to slot, and how many of each."""

    there: BoolArray
    steps: BoolArray
    count: IntArray
    pairs: IntArray

    @classmethod
    def of(cls, there: BoolArray) -> Seen:
        """Count what is there."""
        steps = there[:, 1:] & there[:, :-1]
        return cls(there, steps, np.asarray(there.sum(axis=1)), np.asarray(steps.sum(axis=1)))


def features(residual: FloatArray, seen: Seen, floor: FloatArray) -> FloatArray:
    """Log of size, level and roughness of each fiber's residual, (fiber, feature); NaN with too few readings.

    The largest eighth of the squares is left out of each mean, since single wrong readings are spikes and not
    faults of the fiber. `floor` is the size below which a residual means nothing.
    """
    slots = residual.shape[1]
    steps = residual[:, 1:] - residual[:, :-1]
    squares = _mean(residual**2, seen.there, trimming(slots, 0, 1)[seen.count])
    level = _mean(residual, seen.there, trimming(slots, 1, 1)[seen.count])
    found = np.empty((residual.shape[0], 3))
    found[:, 0] = squares
    # A mean that happens to be near zero is luck, not precision.
    found[:, 1] = level**2 + 0.1 * squares
    # A spike makes two steps.
    found[:, 2] = _mean(steps**2, seen.steps, trimming(slots - 1, 0, 2)[seen.pairs])
    found += (floor**2 + 1e-300)[:, None]
    np.log(found, out=found)
    found *= 0.5
    if seen.pairs.min(initial=3) < 3:
        found[seen.count < 1, 0] = found[seen.count < 3, 1] = found[seen.pairs < 3, 2] = np.nan
    return found


@lru_cache(maxsize=32)
def trimming(slots: int, below: int, above: int) -> FloatArray:
    """Return the weights of a mean over n numbers in order without some eighths at either end, (n, place)."""
    count = np.arange(slots + 1)[:, None]
    place, cut = np.arange(slots), count // 8
    inside = (place >= below * cut) & (place < count - above * cut)
    return np.asarray(inside / np.maximum(inside.sum(axis=1, keepdims=True), 1))


def _mean(values: FloatArray, there: BoolArray, weights: FloatArray) -> FloatArray:
    """Return the weighted mean of each row's values from the smallest to the largest."""
    # Not infinite: what is not there comes last and has no weight.
    ordered = np.where(there, values, 1e300)
    ordered.sort(axis=1)
    return np.asarray(np.einsum("fs,fs->f", ordered, weights))


def within_steps(residual: FloatArray, there: BoolArray, step: FloatArray) -> BoolArray:
    """Say which fibers, (fiber, slot), differ from what is expected by no more than their sensor's step.

    Up to an eighth of the readings may, since single ones are spikes and not faults of the fiber.
    """
    beyond = (np.abs(residual) > ROUNDING * step[:, None]) & there
    return np.asarray((step > 0) & (8 * beyond.sum(axis=1) <= there.sum(axis=1)))


def second_of_others(values: Array) -> Array:
    """Return for each number, (..., number), the second largest of the others; 0 where there are too few."""
    xp = namespace(values)
    if values.shape[-1] < 3:
        return xp.zeros_like(values)
    ordered = xp.sort(values, axis=-1)
    return xp.where(values >= ordered[..., -2:-1], ordered[..., -3:-2], ordered[..., -2:-1])


def usual(channels: Channels, pooled: FloatArray, guess: FloatArray) -> FloatArray:
    """Return each channel's log medians; a young channel's lean on the network's `pooled` ones.

    A young one that the network predicts worse than the rest is measured by that: `guess` is from its residuals.
    """
    trust = (channels.judged / (channels.judged + LEAN))[:, None]
    leaning = pooled + trust * (channels.median - pooled)
    young = (channels.judged < YOUNG) & (channels.days > 0)
    return np.where(young[:, None], np.maximum(leaning, guess), leaning)


def limits(channels: Channels, pooled: FloatArray, ease: FloatArray) -> FloatArray:
    """Return how far the log features may lie above the usual; `ease` (channel) lowers it after a wrong day."""
    own = np.minimum(np.maximum(channels.high - channels.median, SPREAD[0]), SPREAD[1])
    trust = OWN * (channels.judged / (channels.judged + 10))[:, None]
    return np.asarray(LIMITS * (pooled + trust * (own - pooled)) * (1 - ease)[:, None])


def scores(found: FloatArray, middle: FloatArray, event: FloatArray, limit: FloatArray, count: IntArray) -> FloatArray:
    """Return how far each feature is past its threshold; 1 is at it. Few readings make a wider one."""
    few = 0.5 * np.log1p(3 / np.maximum(count, 1))
    over = found - middle - event - few[:, None] - limit
    return np.asarray(np.exp(np.where(np.isfinite(over), np.minimum(over, 20.0), -20.0)))


def events(
    view: Conditioned,
    trusted: BoolArray,
    covariance: FloatArray,
    middle: FloatArray,
    floor: FloatArray,
    active: BoolArray,
    ripple: FloatArray,
    asked: IntArray,
) -> FloatArray:
    """Return how unusual the residuals of some members' closest relatives are today, as a log factor >= 0.

    The relatives' residuals are taken without the member itself, so that its own fault is not an event. `view` is of
    a stack of one; `asked` says for which of its members to answer. Only `active` members that were present are asked.
    """
    size, slots = view.expected.shape[1:]
    count = min(RELATIVES, size - 1)
    if count < 2:
        return np.zeros((asked.size, middle.shape[1]))
    precision, pull = view.precision[0], view.pull[0]
    own = precision.diagonal()
    near, valid = relatives(covariance, active & (own > 0), asked, count)
    own = np.maximum(own, 1e-300)
    link = precision[asked[:, None], near]
    bound = link / own[asked, None]
    sharp = own[near]
    left = pull[near]
    left -= bound[:, :, None] * pull[asked, None, :]
    left /= np.maximum(sharp - link * bound, 1e-9 * sharp)[:, :, None]
    whose = near.ravel()
    residual = left.reshape(-1, slots)
    share = ripple[whose]
    if share.any():
        values = view.completed[0, whose]
        residual = values - smoothed(values - residual, share[:, None])
    over = features(residual, Seen.of(trusted[whose]), floor[whose])
    over -= middle[whose]
    np.minimum(np.maximum(over, -1.0, out=over), 1.4, out=over)
    over = over.reshape(asked.size, count, -1)
    good = valid[:, :, None] & np.isfinite(over)
    over[~good] = 0.0
    heard = good.sum(axis=1)
    mean = over.sum(axis=1) / np.maximum(heard, 1)
    return np.where(heard >= 2, np.maximum(mean, 0.0), 0.0)


def relatives(
    covariance: FloatArray, active: BoolArray, asked: IntArray, count: int
) -> tuple[NDArray[np.intp], BoolArray]:
    """Return who are the most correlated active members of each member that is asked for, and which of them are any.

    `active` are members, or (asked, member) where not everyone is asked of everyone.
    """
    closeness = np.abs(covariance[asked])
    closeness /= np.sqrt(covariance.diagonal())
    place = np.arange(asked.size)
    closeness[~np.broadcast_to(active, closeness.shape)] = -1.0
    closeness[place, asked] = -1.0
    near = np.argpartition(closeness, -count, axis=1)[:, -count:]
    return near, closeness[place[:, None], near] > 0


def smoothed(expected: FloatArray, share: FloatArray) -> FloatArray:
    """Take away a share of what differs from the mean of the two neighbouring slots."""
    found = bumps(expected)
    found *= -share
    found += expected
    return found


def bumps(expected: FloatArray) -> FloatArray:
    """Return what differs from the mean of the two neighbouring slots."""
    return np.asarray(expected @ _bumps(expected.shape[-1]))


@lru_cache(maxsize=8)
def _bumps(slots: int) -> FloatArray:
    place = np.arange(slots)
    matrix = np.eye(slots)
    for beside in (np.maximum(place - 1, 0), np.minimum(place + 1, slots - 1)):
        np.add.at(matrix, (beside, place), -0.5)
    return matrix


def longest_run(values: FloatArray, there: BoolArray) -> tuple[IntArray, BoolArray]:
    """Length of the longest stretch of equal readings in each fiber, and its cells; gaps are passed over."""
    fibers, slots = values.shape
    starts = there.copy()
    starts[:, 1:] &= values[:, 1:] != values[:, :-1]
    broken = np.flatnonzero(~there.all(axis=1))
    if broken.size:
        # The reading before may be some slots away.
        column = np.where(there[broken], np.arange(slots), 0)
        newest = np.maximum.accumulate(column, axis=1)
        before = np.take_along_axis(values[broken], newest, axis=1)[:, :-1]
        starts[broken, 1:] = there[broken, 1:] & (values[broken, 1:] != before)
    label = np.cumsum(starts, axis=1)
    label += (slots + 1) * np.arange(fibers)[:, None]
    lengths = np.bincount(label[there], minlength=fibers * (slots + 1)).reshape(fibers, slots + 1)
    longest = lengths.argmax(axis=1)
    best = np.take_along_axis(lengths, longest[:, None], axis=1)[:, 0]
    longest += (slots + 1) * np.arange(fibers)
    return best, (label == longest[:, None]) & there


def stuck_scores(
    expected: FloatArray, inside: BoolArray, length: IntArray, run: FloatArray, size: FloatArray
) -> FloatArray:
    """Score constancy: how far the network moved while a reading stood still, for how long, against the usual."""
    count = np.maximum(inside.sum(axis=1), 1)
    mean = np.where(inside, expected, 0.0).sum(axis=1) / count
    moved = np.sqrt(np.where(inside, (expected - mean[:, None]) ** 2, 0.0).sum(axis=1) / count)
    found = moved / np.maximum(size, 1e-300) * (length / (4 * np.maximum(run, 1.0))) / STUCK
    return np.where(length >= SHORTEST, found, 0.0)


def learn_usual(channels: Channels, rows: IntArray, found: FloatArray, sound: BoolArray) -> None:
    """Move the running quantiles of these channels towards what their fibers showed; wrong ones move them slowly."""
    begun = sound | (channels.judged[rows] > 0)
    rows, found, sound = rows[begun], found[begun], sound[begun]
    seen = channels.judged[rows]
    new = (seen == 0)[:, None]
    median, high = channels.median[rows], channels.high[rows]
    width = np.minimum(np.maximum(high - median, SPREAD[0]), SPREAD[1])
    step = np.where(sound, np.maximum(1 / (seen + 1), 0.025), 0.025)[:, None] * width
    moved = median + np.where(found > median, 1.5, -1.5) * step
    raised = np.where(found > high, 0.9, -0.1) * 3.5 * step * np.where(sound, 1.0, WRONG_DAYS)[:, None]
    channels.median[rows] = np.where(new, found, moved)
    channels.high[rows] = np.maximum(np.where(new, found + 0.5, high + raised), channels.median[rows] + 0.1)
    channels.judged[rows] = seen + sound
