"""A sensor's own neighbourhood in time: how its distance from the network carries over to the next slots.

The residual (reading minus what the other sensors say) is correlated in time. Its correlation is a sum of
decaying exponentials and bells with weights that are not negative, so it is a valid correlation at every lag,
also at lags longer than a period, and a gap is filled by the best linear combination of the two trusted
residuals before it and the two after it. For a sensor that the network cannot predict the residual is the
reading itself, and this is interpolation in time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from sensormend.auto.neighbourhoods import IntArray
from sensormend.recovery import BoolArray, FloatArray

__all__ = ["AGE_LIMIT", "Carried", "between", "carry", "carry_to", "correlation"]

AGE_LIMIT = 40
"""Residuals older than this many periods say nothing more."""

NEAREST = 2
"""Trusted residuals used on either side of a gap; a third changes the NOAA errors by less than 0.5 %."""


@dataclass(frozen=True, eq=False)
class Carried:
    """What neighbouring residuals say about some cells, and the share of the variance that they leave open.

    `row` and `slot` say which cells; all are in one row.
    """

    row: NDArray[np.intp]
    slot: NDArray[np.intp]
    residual: FloatArray
    open: FloatArray

    @classmethod
    def nothing(cls) -> Carried:
        """Return that no cell is asked for."""
        return cls(np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp), np.empty(0), np.empty(0))


@lru_cache(maxsize=8)
def _kernels(slots: int) -> FloatArray:
    """Return what the correlation is a sum of, (lag, kernel)."""
    lags = np.arange(AGE_LIMIT * slots + 1, dtype=float)
    kernels = [np.exp(-lags / scale) for scale in slots * 2.0 ** np.arange(-5, 6) if scale > 0.3]
    kernels += [np.exp(-((lags / scale) ** 2)) for scale in slots / np.array([12.0, 6.0, 3.0])]
    kernels.append((lags == 0).astype(float))
    return np.stack(kernels, axis=1)


def correlation(products: FloatArray, pairs: FloatArray, daily: FloatArray, slots: int) -> FloatArray:
    """Fit the correlation at lags 0 ... `AGE_LIMIT` periods to sums of products at lags 0, 1, ... and over a day."""
    if pairs[0] <= 0 or products[0] <= 0:
        return np.asarray(np.arange(AGE_LIMIT * slots + 1) == 0, dtype=float)
    known = np.flatnonzero(pairs > 0)
    values = products[known] / pairs[known]
    values = values / values[0]
    basis = _kernels(slots)
    # Lag 0 is known best, and neighbours in time are what most gaps are filled from.
    weight = np.sqrt(pairs[known] / pairs[0]) / np.sqrt(1 + known)
    rows = np.vstack([basis[known] * weight[:, None], basis[slots] * 1.0, np.ones(basis.shape[1]) * 100])
    over_a_day = np.clip(daily[0] / daily[1], 0, 1) if daily[1] > 0 else 0.0
    aims = np.concatenate([values * weight, [over_a_day], [100.0]])
    weights, _ = nnls(rows, aims)
    fitted = basis @ weights
    return np.asarray(fitted / fitted[0])


def carry(
    residual: FloatArray,
    trusted: BoolArray | None,
    last: FloatArray,
    age: FloatArray,
    tables: FloatArray,
    variable: IntArray,
    cells: BoolArray,
) -> Carried:
    """Estimate the residual at `cells` from the nearest trusted ones before and after, never from itself.

    `last` and `age` are the newest trusted residuals of the past and how many slots before the period's first
    slot they lie; infinite where there is none. Without `trusted` they are all there is. `tables` are the
    correlations of each variable.
    """
    row, slot = np.nonzero(cells)
    return carry_to(row, slot, residual, trusted, last, age, tables, variable) if row.size else Carried.nothing()


def carry_to(
    row: NDArray[np.intp],
    slot: NDArray[np.intp],
    residual: FloatArray,
    trusted: BoolArray | None,
    last: FloatArray,
    age: FloatArray,
    tables: FloatArray,
    variable: IntArray,
) -> Carried:
    """Do as `carry` does, at cells that are named one by one."""
    remembered = np.isfinite(age)
    then = np.where(remembered, -age, 0.0).astype(np.intp)
    if trusted is None:
        there, times, parts = remembered.T[:, row], then.T[:, row], last.T[:, row]
    else:
        usable = np.concatenate([remembered[:, ::-1], trusted], axis=1)
        position = _nearest(usable, row, slot + NEAREST)
        there = position >= 0
        position += row * usable.shape[1]
        times = np.concatenate([then[:, ::-1], np.broadcast_to(np.arange(trusted.shape[1]), trusted.shape)], axis=1)
        values = np.concatenate([last[:, ::-1], residual], axis=1)
        # Where there is none, whatever stands there gets no weight.
        position[~there] = 0
        times, parts = times.ravel()[position], values.ravel()[position]
    weights, left = _combine(times, slot, there, tables, variable[row])
    # What is not there has weight 0, and whatever stands in its place is a number.
    carried = sum(weight * part for weight, part in zip(weights, parts, strict=True))
    return Carried(row, slot, np.asarray(carried), left)


def between(residual: FloatArray, trusted: BoolArray, tables: FloatArray, variable: IntArray) -> FloatArray:
    """Estimate every residual from the trusted ones in the two slots beside it: `carry` without far neighbours."""
    values = residual * trusted
    total = np.zeros(residual.shape)
    total[:, 1:] += values[:, :-1]
    total[:, :-1] += values[:, 1:]
    both = np.zeros(residual.shape, dtype=bool)
    both[:, 1:-1] = trusted[:, 2:] & trusted[:, :-2]
    one, two = tables[variable, 1][:, None], (tables[:, 1] / (1 + tables[:, 2]))[variable][:, None]
    total *= np.where(both, two, one)
    return total


def _nearest(usable: BoolArray, row: IntArray, here: IntArray) -> NDArray[np.intp]:
    """Columns of the nearest usable cells: before, before that, after, after that; -1 for none."""
    columns = usable.shape[1]
    index = np.arange(columns)
    # before[., c] is the last usable column under c, after[., c] the first one at c or above it.
    before = np.full((usable.shape[0], columns + 1), -1)
    np.maximum.accumulate(np.where(usable, index, -1), axis=1, out=before[:, 1:])
    after = np.full((usable.shape[0], columns + 2), columns)
    np.minimum.accumulate(np.where(usable, index, columns)[:, ::-1], axis=1, out=after[:, columns - 1 :: -1])
    found = np.empty((2 * NEAREST, row.size), dtype=np.intp)
    down, up = row * (columns + 1), row * (columns + 2)
    found[0] = before.ravel()[down + here]
    # Column 0 has nothing before it, and that is what one without any is sent to.
    found[1] = before.ravel()[down + np.maximum(found[0], 0)]
    found[2] = after.ravel()[up + here + 1]
    found[3] = after.ravel()[up + found[2] + 1]
    np.copyto(found[2:], -1, where=found[2:] >= columns)
    return found


def _combine(
    times: NDArray[np.intp], slot: NDArray[np.intp], there: BoolArray, tables: FloatArray, variable: IntArray
) -> tuple[list[FloatArray], FloatArray]:
    """Best linear weights for residuals at these times, (residual, cell), and the share of variance they leave open.

    The few equations of a cell are solved for all cells in one go, by elimination: A = L D L', L z = reach.
    """
    count, alike = len(times), _alike(times, slot, there, tables, variable)
    lower: list[list[FloatArray]] = []
    sharp: list[FloatArray] = []
    solved: list[FloatArray] = []
    left = np.ones(slot.size)
    for i in range(count):
        row: list[FloatArray] = []
        rest = np.full(slot.size, 1 + 1e-6)
        aim, *among = alike[i * (i + 1) // 2 : (i + 1) * (i + 2) // 2]
        for j, scaled in enumerate(among):
            for k in range(j):
                scaled -= row[k] * lower[j][k]
            part = scaled / sharp[j]
            rest -= part * scaled
            aim -= part * solved[j]
            row.append(scaled)
            among[j] = part
        lower.append(among)
        sharp.append(rest)
        solved.append(aim)
        left -= aim * aim / rest
    weights = [aim / rest for aim, rest in zip(solved, sharp, strict=True)]
    for i in reversed(range(count)):
        for j in range(i):
            weights[j] -= lower[i][j] * weights[i]
    np.maximum(left, 1e-6, out=left)
    return weights, np.minimum(left, 1.0, out=left)


def _alike(
    times: NDArray[np.intp], slot: NDArray[np.intp], there: BoolArray, tables: FloatArray, variable: IntArray
) -> FloatArray:
    """Return how alike each residual and the cell are, then each residual and those before it, (pair, cell)."""
    one, other = _couples(len(times))
    nodes = np.concatenate([slot[None], times])
    lag = nodes[one] - nodes[other]
    np.abs(lag, out=lag)
    np.minimum(lag, tables.shape[1] - 1, out=lag)
    if len(tables) > 1:
        lag += variable * tables.shape[1]
    found: FloatArray = tables.ravel()[lag]
    if not there.all():
        seen = np.concatenate([np.ones((1, slot.size), dtype=bool), there])
        found *= seen[one] & seen[other]
    return found


@lru_cache(maxsize=4)
def _couples(count: int) -> tuple[IntArray, IntArray]:
    """Return the pairs (1, 0), (2, 0), (2, 1), (3, 0) ...: 0 is the cell, the others its residuals."""
    one, other = np.tril_indices(count, 0)
    return one + 1, other
