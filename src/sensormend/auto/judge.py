"""Is a fiber sound? Measured against what is usual for that sensor, on a day like this one.

A fiber's features are compared with their running median and 90 % quantile for that channel, after division by
how unusual the day is among the channel's closest relatives (a front moves them all). The threshold is the
median times the ratio of the two quantiles to a power, so that a sensor with heavy tails gets a wide one and a
steady sensor a narrow one.
"""

from __future__ import annotations

import numpy as np

from sensormend.auto.conditioning import Conditioned
from sensormend.auto.memory import Channels
from sensormend.auto.neighbourhoods import IntArray
from sensormend.recovery import BoolArray, FloatArray

__all__ = [
    "events",
    "features",
    "learn_usual",
    "limits",
    "longest_run",
    "scores",
    "smoothed",
    "stuck_scores",
    "usual",
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


def features(residual: FloatArray, there: BoolArray, floor: FloatArray) -> FloatArray:
    """Log of size, level and roughness of each fiber's residual, (fiber, feature); NaN with too few readings.

    The largest eighth of the squares is left out of each mean, since single wrong readings are spikes and not
    faults of the fiber. `floor` is the size below which a residual means nothing.
    """
    count = there.sum(axis=1)
    squares = _trimmed_mean(residual**2, there, 1)
    ordered = np.sort(np.where(there, residual, np.inf), axis=1)
    cut = count // 8
    place = np.arange(residual.shape[1])
    middle = (place >= cut[:, None]) & (place < (count - cut)[:, None])
    level = np.where(middle, ordered, 0.0).sum(axis=1) / np.maximum(middle.sum(axis=1), 1)
    both = there[:, 1:] & there[:, :-1]
    # A spike makes two steps.
    steps = _trimmed_mean(np.diff(residual, axis=1) ** 2, both, 2)
    # A mean that happens to be near zero is luck, not precision.
    found = np.stack([squares, level**2 + 0.1 * squares, steps], axis=1)
    logs = 0.5 * np.log(found + (floor**2)[:, None] + 1e-300)
    few = np.stack([count < 1, count < 3, both.sum(axis=1) < 3], axis=1)
    return np.where(few, np.nan, logs)


def _trimmed_mean(values: FloatArray, there: BoolArray, eighths: int) -> FloatArray:
    """Return the mean of each row's values without its largest few eighths."""
    count = there.sum(axis=1)
    keep = count - eighths * (count // 8)
    ordered = np.sort(np.where(there, values, np.inf), axis=1)
    kept = np.arange(values.shape[1]) < keep[:, None]
    return np.asarray(np.where(kept, ordered, 0.0).sum(axis=1) / np.maximum(keep, 1))


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
    own = np.clip(channels.high - channels.median, *SPREAD)
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
    kinship: FloatArray,
    middle: FloatArray,
    floor: FloatArray,
    active: BoolArray,
    core: int,
    ripple: FloatArray,
) -> FloatArray:
    """Return how unusual the residuals of each core member's closest relatives are today, as a log factor >= 0.

    The relatives' residuals are taken without the member itself, so that its own fault is not an event.
    """
    size = kinship.shape[0]
    count = min(RELATIVES, size - 1)
    if count < 2:
        return np.zeros((core, middle.shape[1]))
    closeness = np.abs(kinship[:core]).copy()
    closeness[:, ~active] = -1
    closeness[np.arange(core), np.arange(core)] = -1
    near = np.argpartition(-closeness, count - 1, axis=1)[:, :count]
    valid = np.take_along_axis(closeness, near, axis=1) > 0
    own = np.maximum(view.precision.diagonal(), 1e-300)
    link = view.precision[np.arange(core)[:, None], near]
    left = view.pull[near] - (link / own[:core, None])[:, :, None] * view.pull[:core, None, :]
    sharp = np.maximum(own[near] - link**2 / own[:core, None], 1e-9 * own[near])
    values = view.completed[near]
    slots = values.shape[2]
    expected = (values - left / sharp[:, :, None]).reshape(core * count, slots)
    residual = values.reshape(core * count, slots) - smoothed(expected, ripple[near].reshape(-1, 1))
    found = features(residual, trusted[near].reshape(core * count, slots), floor[near].ravel())
    over = np.clip(found.reshape(core, count, -1) - middle[near], -1.0, 1.4)
    good = valid[:, :, None] & np.isfinite(over)
    asked = good.sum(axis=1)
    mean = np.where(good, over, 0.0).sum(axis=1) / np.maximum(asked, 1)
    return np.where(asked >= 2, np.maximum(mean, 0.0), 0.0)


def smoothed(expected: FloatArray, share: FloatArray) -> FloatArray:
    """Take away a share of what differs from the mean of the two neighbouring slots."""
    padded = np.concatenate([expected[:, :1], expected, expected[:, -1:]], axis=1)
    return np.asarray(expected - share * (expected - 0.5 * (padded[:, 2:] + padded[:, :-2])))


def longest_run(values: FloatArray, there: BoolArray) -> tuple[IntArray, BoolArray]:
    """Length of the longest stretch of equal readings in each fiber, and its cells; gaps are passed over."""
    fibers, slots = values.shape
    length = np.zeros(fibers, dtype=np.intp)
    best = np.zeros(fibers, dtype=np.intp)
    label = np.zeros(fibers, dtype=np.intp)
    best_label = np.zeros(fibers, dtype=np.intp)
    labels = np.zeros((fibers, slots), dtype=np.intp)
    held = np.full(fibers, np.nan)
    for slot in range(slots):
        seen = there[:, slot]
        same = seen & (values[:, slot] == held)
        label += seen & ~same
        length = np.where(seen, np.where(same, length + 1, 1), length)
        held = np.where(seen, values[:, slot], held)
        labels[:, slot] = np.where(seen, label, 0)
        longer = length > best
        best = np.where(longer, length, best)
        best_label = np.where(longer, label, best_label)
    return best, (labels == best_label[:, None]) & there


def stuck_scores(
    expected: FloatArray, inside: BoolArray, length: IntArray, run: FloatArray, size: FloatArray
) -> FloatArray:
    """Score constancy: how far the network moved while a reading stood still, for how long, against the usual."""
    count = np.maximum(inside.sum(axis=1), 1)
    mean = np.where(inside, expected, 0.0).sum(axis=1) / count
    moved = np.sqrt(np.where(inside, (expected - mean[:, None]) ** 2, 0.0).sum(axis=1) / count)
    found = moved / np.maximum(size, 1e-300) * (length / (4 * np.maximum(run, 1.0))) / STUCK
    return np.where(length >= 4, found, 0.0)


def learn_usual(channels: Channels, rows: IntArray, found: FloatArray, sound: BoolArray) -> None:
    """Move the running quantiles of these channels towards what their fibers showed; wrong ones move them slowly."""
    begun = sound | (channels.judged[rows] > 0)
    rows, found, sound = rows[begun], found[begun], sound[begun]
    seen = channels.judged[rows]
    new = (seen == 0)[:, None]
    median, high = channels.median[rows], channels.high[rows]
    width = np.clip(high - median, *SPREAD)
    step = np.where(sound, np.maximum(1 / (seen + 1), 0.025), 0.025)[:, None] * width
    moved = median + np.where(found > median, 1.5, -1.5) * step
    raised = np.where(found > high, 0.9, -0.1) * 3.5 * step * np.where(sound, 1.0, WRONG_DAYS)[:, None]
    channels.median[rows] = np.where(new, found, moved)
    channels.high[rows] = np.maximum(np.where(new, found + 0.5, high + raised), channels.median[rows] + 0.1)
    channels.judged[rows] = seen + sound
