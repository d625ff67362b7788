"""Screening finds spikes that need no hypothesis: single readings that stand out of their own series.

To the engine they are missing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sensormend.recovery import BoolArray

__all__ = ["find_spikes", "roughness_of"]

SPIKE_FROM = 25.0
"""Mean distances of a reading from the middle of those beside it from which it is a spike."""
SPIKE_STEPS = 8.0
"""Steps of the readings that a spike has at least."""
MOST_SPIKES = 24
"""Slots for each spike of a channel in a period, and two more: a channel with more of them is noisy."""


def _beside(scaled: NDArray[np.float32], last: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the readings before and after each one, at most two slots away; `last` is that before the first."""
    missing = np.full((len(scaled), 2), np.nan, np.float32)
    padded = np.concatenate([missing[:, :1], last[:, None], scaled, missing], axis=1)
    before = np.where(np.isfinite(padded[:, 1:-3]), padded[:, 1:-3], padded[:, :-4])
    after = np.where(np.isfinite(padded[:, 3:-1]), padded[:, 3:-1], padded[:, 4:])
    return before, after


def find_spikes(
    scaled: NDArray[np.float32], last: NDArray[np.float32], roughness: NDArray[np.float32], step: NDArray[np.float32]
) -> BoolArray:
    """Return which readings of a variable on its scale, (channel, slot), stand out from both that are beside them.

    Those beside it agree with each other, and it is farther from both than `SPIKE_FROM` times the channel's usual
    roughness, which is 0 where it is not known, and than some of its steps. Where two or more, and a third, of the
    channels with readings stand out in a slot to the same side, that is weather.
    """
    before, after = _beside(scaled, last)
    with np.errstate(invalid="ignore"):
        up, down = scaled - np.fmax(before, after), np.fmin(before, after) - scaled
        height = np.where(np.isfinite(before) & np.isfinite(after), np.maximum(up, down), np.nan)
        limit = np.where(roughness > 0, np.maximum(SPIKE_FROM * roughness, SPIKE_STEPS * step), np.inf)[:, None]
        spikes = (height > limit) & (np.abs(before - after) < 0.5 * height)
        if not spikes.any():
            return np.asarray(spikes)
        observed = np.isfinite(scaled).sum(axis=0)
        for side in (up, down):
            alike = (side > 0.5 * limit).sum(axis=0)
            spikes &= ~((side > 0) & (alike >= 2) & (3 * alike >= observed))
    spikes[spikes.sum(axis=1) > 2 + scaled.shape[1] // MOST_SPIKES] = False
    return np.asarray(spikes)


def roughness_of(
    scaled: NDArray[np.float32], last: NDArray[np.float32], usual: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return the mean distance of the readings of each channel from the middle of those beside them.

    None counts for more than three times the usual one; NaN where there is none.
    """
    before, after = _beside(scaled, last)
    distance = np.abs(scaled - 0.5 * (before + after))
    capped = np.where(usual[:, None] > 0, np.minimum(distance, 3 * usual[:, None]), distance)
    known = np.isfinite(capped)
    count = known.sum(axis=1)
    total = np.where(known, capped, 0.0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan).astype(np.float32)
