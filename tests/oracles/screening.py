"""Spikes and roughness by their definitions: every run of slots is tried, one channel at a time."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sensormend.model.screening import (
    DEVICES_BESIDE,
    SAME,
    SHARE_BESIDE,
    SPIKE_HEIGHT,
    SPIKE_PART,
    SPIKE_READINGS,
    SPIKE_ROUGHNESS,
    VARIABLES_BESIDE,
)

__all__ = ["is_handled", "roughness_of_channel", "spikes_of_channel"]

Floats = NDArray[np.float32]


def _reading(readings: Floats, last: float, slots: range) -> float:
    """Return the first reading in some slots, of which -1 is that before the first; NaN where there is none."""
    for slot in slots:
        if -1 <= slot < len(readings):
            reading = last if slot < 0 else float(readings[slot])
            if math.isfinite(reading):
                return reading
    return math.nan


def _beside(readings: Floats, last: float, begin: int, end: int) -> tuple[float, float]:
    """Return the reading before the slots from `begin` to `end` - 1, and the one after them, two slots away at most."""
    before = _reading(readings, last, range(begin - 1, begin - 3, -1))
    return before, _reading(readings, last, range(end, end + 2))


def is_handled(clear: NDArray[np.bool_], observed: NDArray[np.bool_], device: int, variable: int, slot: int) -> bool:
    """Return whether a device was handled in a slot, as far as one of its variables can tell from all others."""
    count, variables, slots = clear.shape
    if sum(bool(clear[device, other, slot]) for other in range(variables) if other != variable) >= VARIABLES_BESIDE:
        return True
    others = [other for other in range(count) if other != device]
    n_clear = sum(any(clear[other, v, slot] for v in range(variables)) for other in others)
    n_reports = sum(any(observed[other, v, slot] for v in range(variables)) for other in others)
    return slots > SPIKE_PART and n_clear >= DEVICES_BESIDE and n_clear >= SHARE_BESIDE * n_reports


def spikes_of_channel(readings: Floats, last: float, roughness: float, spread: float, part: float = 1.0) -> list[int]:
    """Return the slots of the readings that are spikes."""
    if roughness <= 0 or spread <= 0:
        return []
    limit = part * max(SPIKE_HEIGHT * math.sqrt(roughness * spread), SPIKE_ROUGHNESS * roughness)
    spikes = set()
    for begin in range(len(readings)):
        longest = min(max(1, len(readings) // SPIKE_PART), SPIKE_READINGS)
        for end in range(begin + 1, min(len(readings), begin + longest) + 1):
            run = [slot for slot in range(begin, end) if math.isfinite(readings[slot])]
            before, after = _beside(readings, last, begin, end)
            if begin not in run or end - 1 not in run or not math.isfinite(before + after):
                continue
            above = min(float(readings[slot]) for slot in run) - max(before, after)
            below = min(before, after) - max(float(readings[slot]) for slot in run)
            height = max(above, below)
            if height > limit and abs(before - after) < 0.5 * height:
                spikes |= {*run}
    return sorted(spikes)


def roughness_of_channel(readings: Floats, last: float, usual: float) -> float:
    """Return the mean distance of readings from the middle of those beside them, NaN where there is none."""
    distances = []
    for slot, reading in enumerate(readings):
        before, after = _beside(readings, last, slot, slot + 1)
        distance = abs(float(reading) - 0.5 * (before + after))
        if distance > SAME:
            distances.append(min(distance, 3 * usual) if usual > 0 else distance)
    return sum(distances) / len(distances) if distances else math.nan
