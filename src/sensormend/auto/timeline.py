"""A sensor's own neighbourhood in time: how its distance from the network carries over to the next slots.

The residual (reading minus what the other sensors say) is correlated in time. Its correlation is a sum of
decaying exponentials and bells with weights that are not negative, so it is a valid correlation at every lag,
also at lags longer than a period, and a gap is filled by the best linear combination of the two trusted
residuals before it and the two after it. For a sensor that the network cannot predict the residual is the
reading itself, and this is interpolation in time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from sensormend.auto.neighbourhoods import IntArray
from sensormend.recovery import BoolArray, FloatArray

__all__ = ["AGE_LIMIT", "Carried", "between", "carry", "correlation"]

AGE_LIMIT = 40
"""Residuals older than this many periods say nothing more."""

NEAREST = 2
"""Trusted residuals used on either side of a gap; a third changes the NOAA errors by less than 0.5 %."""


@dataclass(frozen=True, eq=False)
class Carried:
    """What neighbouring residuals say about a cell, and the share of the variance that they leave open."""

    residual: FloatArray
    open: FloatArray


def correlation(products: FloatArray, pairs: FloatArray, daily: FloatArray, slots: int) -> FloatArray:
    """Fit the correlation at lags 0 ... `AGE_LIMIT` periods to sums of products at lags 0, 1, ... and over a day."""
    lags = np.arange(AGE_LIMIT * slots + 1, dtype=float)
    if pairs[0] <= 0 or products[0] <= 0:
        return np.asarray(lags == 0, dtype=float)
    known = np.flatnonzero(pairs > 0)
    values = products[known] / pairs[known]
    values = values / values[0]
    kernels = [np.exp(-lags / scale) for scale in slots * 2.0 ** np.arange(-5, 6) if scale > 0.3]
    kernels += [np.exp(-((lags / scale) ** 2)) for scale in slots / np.array([12.0, 6.0, 3.0])]
    kernels.append((lags == 0).astype(float))
    basis = np.stack(kernels, axis=1)
    # Lag 0 is known best, and neighbours in time are what most gaps are filled from.
    weight = np.sqrt(pairs[known] / pairs[0]) / np.sqrt(1 + known)
    rows = np.vstack([basis[known] * weight[:, None], basis[slots] * 1.0, np.ones(len(kernels)) * 100])
    over_a_day = np.clip(daily[0] / daily[1], 0, 1) if daily[1] > 0 else 0.0
    aims = np.concatenate([values * weight, [over_a_day], [100.0]])
    weights, _ = nnls(rows, aims)
    fitted = basis @ weights
    return np.asarray(fitted / fitted[0])


def carry(
    residual: FloatArray,
    trusted: BoolArray,
    last: FloatArray,
    age: FloatArray,
    table: FloatArray,
    cells: BoolArray,
) -> Carried:
    """Estimate the residual at `cells` from the nearest trusted ones before and after, never from itself.

    `last` and `age` are the newest trusted residuals of the past and how many slots before the period's first
    slot they lie; infinite where there is none.
    """
    channels, slots = residual.shape
    row, slot = np.nonzero(cells)
    estimate, remaining = np.zeros((channels, slots)), np.ones((channels, slots))
    if row.size == 0:
        return Carried(estimate, remaining)
    values = np.concatenate([last[:, ::-1], np.where(trusted, residual, 0.0)], axis=1)
    known = np.isfinite(age[:, ::-1])
    times = np.concatenate(
        [np.where(known, -age[:, ::-1], 0.0), np.broadcast_to(np.arange(slots), (channels, slots))], axis=1
    )
    usable = np.concatenate([known, trusted], axis=1)
    position = _nearest(usable, row, slot + NEAREST)
    there = position >= 0
    moments = np.where(there, times[row[:, None], np.maximum(position, 0)], 0.0)
    parts = np.where(there, values[row[:, None], np.maximum(position, 0)], 0.0)
    weights, left = _combine(np.abs(moments - slot[:, None]), moments, there, table)
    estimate[row, slot] = (weights * parts).sum(axis=1)
    remaining[row, slot] = left
    return Carried(estimate, remaining)


def between(residual: FloatArray, trusted: BoolArray, table: FloatArray) -> FloatArray:
    """Estimate every residual from the trusted ones in the two slots beside it: `carry` without far neighbours."""
    empty = np.zeros((residual.shape[0], 1))
    values = np.concatenate([empty, np.where(trusted, residual, 0.0), empty], axis=1)
    there = np.concatenate([empty, trusted, empty], axis=1)
    both = there[:, 2:] * there[:, :-2]
    weight = np.where(both > 0, table[1] / (1 + table[2]), table[1])
    return np.asarray(weight * (values[:, 2:] + values[:, :-2]))


def _nearest(usable: BoolArray, row: IntArray, here: IntArray) -> NDArray[np.intp]:
    """Columns of the nearest usable cells: before, before that, after, after that; -1 for none."""
    columns = usable.shape[1]
    index = np.arange(columns)
    fibers = np.arange(usable.shape[0])[:, None]
    last = np.maximum.accumulate(np.where(usable, index, -1), axis=1)
    first = np.minimum.accumulate(np.where(usable, index, columns)[:, ::-1], axis=1)[:, ::-1]
    # before[., c] is the last usable column under c, after[., c] the first one at c or above it.
    before = np.concatenate([np.full_like(fibers, -1), last], axis=1)
    after = np.concatenate([first, np.full_like(fibers, columns)], axis=1)
    one = before[row, here]
    two = np.where(one >= 0, before[row, np.maximum(one, 0)], -1)
    next_one = after[row, here + 1]
    next_two = after[row, np.minimum(next_one + 1, columns)]
    following = np.stack([next_one, next_two], axis=1)
    return np.concatenate([np.stack([one, two], axis=1), np.where(following < columns, following, -1)], axis=1)


def _combine(
    lags: FloatArray, moments: FloatArray, there: BoolArray, table: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Best linear weights for residuals at these lags, and the share of variance they leave open."""
    limit = table.size - 1
    reach = np.where(there, table[np.minimum(lags, limit).astype(np.intp)], 0.0)
    apart = np.abs(moments[:, :, None] - moments[:, None, :])
    among = table[np.minimum(apart, limit).astype(np.intp)] * (there[:, :, None] & there[:, None, :])
    diagonal = np.arange(lags.shape[1])
    among[:, diagonal, diagonal] = 1 + 1e-6
    weights = np.asarray(np.linalg.solve(among, reach[:, :, None])[:, :, 0], dtype=float)
    return weights, np.clip(1 - (weights * reach).sum(axis=1), 1e-6, 1.0)
