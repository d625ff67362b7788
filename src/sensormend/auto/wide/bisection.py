"""Cutting many channels in halves, again and again, all segments of a level at once.

How large the parts are, and where the tree is cut, follows from the number of channels alone; so all of that is known
on the host before the first number is looked at, and nothing has to be fetched from a device on the way.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sensormend.arrays import Array, as_like, is_tensor, namespace

__all__ = ["DISTRICT", "bisected", "block_numbers", "borders", "districts"]

DISTRICT = 64
"""Parts in a district at most: parts look over their fences only within their own."""

SQUARINGS = 7
"""How often a covariance is squared for its principal direction: of two whose strengths differ by 3 % the weaker is
left with a fiftieth of its share."""

Ints = NDArray[np.int64]


def block_numbers(array: Array) -> int:
    """Return how many numbers are worked on in one go: what a processor's cache holds, or a small part of a GPU."""
    return 2**28 if is_tensor(array) and array.device.type != "cpu" else 2**20


def borders(channels: int, pieces: int) -> Ints:
    """Return where each piece of the ordered channels begins, and the end; sizes differ by at most one."""
    return np.arange(pieces + 1, dtype=np.int64) * channels // pieces


def districts(pieces: int) -> Ints:
    """Return at which piece each district begins, and the end: the first level of the tree that has them small."""
    marks = np.array([0, pieces], dtype=np.int64)
    while np.diff(marks).max() > DISTRICT:
        marks = _halves(marks)
    return marks


def _halves(marks: Ints) -> Ints:
    return np.unique(np.concatenate([marks, (marks[:-1] + marks[1:]) // 2]))


def bisected(profiles: Array, pieces: int) -> Array:
    """Order the channels so that pieces of them, between `borders`, are alike: (channel,) numbers.

    Each segment is cut across its principal direction. Of channels that lie equally far along it the lower number
    goes first; within a piece they are in the order of their numbers.
    """
    xp = namespace(profiles)
    channels = profiles.shape[0]
    edges = borders(channels, pieces)
    # The last place is for what is only padding.
    order = xp.arange(channels + 1, device=profiles.device)
    marks = np.array([0, pieces], dtype=np.int64)
    while marks.size <= pieces:
        open_ = np.diff(marks) > 1
        middle = (marks[:-1] + marks[1:])[open_] // 2
        start, stop = edges[marks[:-1][open_]], edges[marks[1:][open_]]
        _halve(profiles, order, start, stop - start, edges[middle] - start)
        marks = _halves(marks)
    return order[:channels]


def _halve(profiles: Array, order: Array, start: Ints, length: Ints, cut: Ints) -> None:
    """Reorder each segment so that its first `cut` channels lie on one side; the order within a side stays."""
    xp = namespace(profiles)
    width = int(length.max())
    column = xp.arange(width, device=profiles.device)
    high = max(1, block_numbers(profiles) // (width * profiles.shape[1]))
    for begin in range(0, start.size, high):
        starts, lengths, cuts = (as_like(array[begin : begin + high, None], order) for array in (start, length, cut))
        rows = order[starts + xp.minimum(column, lengths - 1)]
        real = column < lengths
        along = xp.where(real, _along(profiles, rows, real, lengths), xp.inf)
        edge = xp.take_along_axis(xp.sort(along, axis=1), cuts, axis=1)
        lower, level = along < edge, along == edge
        lower |= level & (_counted(level) <= cuts - xp.sum(lower, axis=1, keepdims=True))
        before = _counted(lower)
        place = starts + xp.where(lower, before - 1, cuts + column - before)
        order[xp.where(real, place, profiles.shape[0])] = rows


def _counted(flags: Array) -> Array:
    xp = namespace(flags)
    return xp.cumulative_sum(xp.astype(flags, xp.int64), axis=-1)


def _along(profiles: Array, rows: Array, real: Array, lengths: Array) -> Array:
    """Return how far each channel of some segments, (segment, channel), lies along its segment's main direction."""
    xp = namespace(profiles)
    segments, width = rows.shape
    step = max(1, block_numbers(profiles) // (segments * profiles.shape[1]))
    blocks = [slice(begin, min(begin + step, width)) for begin in range(0, width, step)]
    shift = 0.0
    sums = products = xp.zeros(1, dtype=profiles.dtype, device=profiles.device)
    for block in blocks:
        mask = xp.astype(real[:, block], profiles.dtype)[:, None, :]
        taken = profiles[rows[:, block]]
        if block.start == 0:
            shift = (mask @ taken) / xp.sum(mask, axis=2, keepdims=True)
        centred = (taken - shift) * xp.matrix_transpose(mask)
        sums = sums + xp.matmul(mask, centred)
        products = products + xp.matrix_transpose(centred) @ centred
    spread = products - xp.matrix_transpose(sums) * sums / xp.astype(lengths, profiles.dtype)[:, :, None]
    direction = _principal(spread)
    if len(blocks) == 1:
        return (centred @ direction)[:, :, 0]
    return xp.concat([((profiles[rows[:, block]] - shift) @ direction)[:, :, 0] for block in blocks], axis=1)


def _principal(spread: Array) -> Array:
    """Return the principal direction of each matrix, (segment, feature, 1).

    Squaring has no sign to choose and no order of equal strengths, so that another library, and other rounding, come
    to the same.
    """
    xp = namespace(spread)
    for _ in range(SQUARINGS):
        trace = xp.sum(xp.linalg.diagonal(spread), axis=1)
        spread = spread / xp.clip(trace, 1e-30, None)[:, None, None]
        spread = spread @ spread
    widest = xp.argmax(xp.linalg.diagonal(spread), axis=1)
    return xp.take_along_axis(spread, xp.broadcast_to(widest[:, None, None], (*spread.shape[:2], 1)), axis=2)
