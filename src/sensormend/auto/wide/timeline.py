"""What a sensor's own residuals before and after a cell say about it; see `sensormend.auto.timeline`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sensormend.arrays import Array, namespace
from sensormend.auto.wide.tools import pick, single

__all__ = ["Carried", "between", "carry", "carry_past"]

NONE = 1e6
"""A place that is none: farther than any slot."""


@dataclass(frozen=True, eq=False)
class Carried:
    """What neighbouring residuals say about some cells, (cell,), and the share of the variance they leave open."""

    residual: Array
    open: Array


def carry(
    slot: Array, residual: Array, trusted: Array, last: Array, age: Array, tables: Array, variable: Array | None
) -> Carried:
    """Estimate residuals at cells from the two trusted ones before and the two after, never from itself.

    Everything is given per cell: its slot, its fiber's residuals and where they are trusted, (cell, slot), and the two
    newest residuals of the past with their ages.
    """
    xp, slots = namespace(residual), residual.shape[1]
    place = single(xp.arange(slots, device=residual.device))
    here = single(slot)[:, None]
    past = xp.isfinite(age)
    ages = -xp.where(past, age, 0.0)
    times, values, there = [], [], []
    for side, sign in ((trusted & (place < here), 1.0), (trusted & (place > here), -1.0)):
        ranked = xp.where(side, sign * place, -NONE)
        for _ in range(2):
            best = xp.argmax(ranked, axis=1)[:, None]
            there.append(xp.take_along_axis(ranked, best, axis=1)[:, 0] > -NONE)
            times.append(single(best[:, 0]))
            values.append(xp.take_along_axis(residual, best, axis=1)[:, 0])
            ranked = _without(ranked, best)
    # The past steps in where the period itself has nothing before the cell.
    one, two = there[0], there[1]
    earlier = [xp.where(one, pair[:, 0], pair[:, 1]) for pair in (ages, last, past)]
    times[:2] = xp.where(one, times[0], ages[:, 0]), xp.where(two, times[1], earlier[0])
    values[:2] = xp.where(one, values[0], last[:, 0]), xp.where(two, values[1], earlier[1])
    there[:2] = one | past[:, 0], two | earlier[2]
    return _combined(single(slot), times, there, values, _own(tables, variable))


def carry_past(slot: Array, last: Array, age: Array, tables: Array, variable: Array | None) -> Carried:
    """Estimate residuals at cells from the two newest ones of the past alone."""
    xp = namespace(last)
    past = xp.isfinite(age)
    ages = -xp.where(past, age, 0.0)
    times, there, values = ([array[:, 0], array[:, 1]] for array in (ages, past, last))
    return _combined(single(slot), times, there, values, _own(tables, variable))


def _own(tables: Array, variable: Array | None) -> Array:
    """Return the tables of the cells' variables: one for all, or one each."""
    return tables[:1] if variable is None else tables[variable]


def _without(ranked: Array, best: Array) -> Array:
    xp = namespace(ranked)
    if xp is np:
        np.put_along_axis(ranked, best, -NONE, axis=1)
        return ranked
    return ranked.scatter(1, best, -NONE)


def _combined(slot: Array, times: list[Array], there: list[Array], parts: list[Array], tables: Array) -> Carried:
    """Solve the few equations of each cell by elimination: A = L D L', L z = reach; see `timeline._combine`."""
    xp, shared = namespace(slot), tables.shape[0] == 1

    def alike(one: Array, other: Array, seen: Array) -> Array:
        lag = xp.asarray(xp.clip(xp.abs(one - other), None, tables.shape[-1] - 1), dtype=xp.int64)
        found = pick(tables[0], lag) if shared else xp.take_along_axis(tables, lag[:, None], axis=1)[:, 0]
        return found * seen

    lower: list[list[Array]] = []
    sharp: list[Array] = []
    solved: list[Array] = []
    left = xp.ones_like(slot)
    for i in range(len(times)):
        row: list[Array] = []
        among: list[Array] = []
        rest = xp.full_like(slot, 1 + 1e-5)
        aim = alike(times[i], slot, there[i])
        for j in range(i):
            scaled = alike(times[i], times[j], there[i] & there[j])
            for k in range(j):
                scaled = scaled - row[k] * lower[j][k]
            part = scaled / sharp[j]
            rest = rest - part * scaled
            aim = aim - part * solved[j]
            row.append(scaled)
            among.append(part)
        lower.append(among)
        sharp.append(rest)
        solved.append(aim)
        left = left - aim * aim / rest
    weights = [aim / rest for aim, rest in zip(solved, sharp, strict=True)]
    for i in reversed(range(len(times))):
        for j in range(i):
            weights[j] = weights[j] - lower[i][j] * weights[i]
    carried = xp.zeros_like(slot)
    for weight, part, seen in zip(weights, parts, there, strict=True):
        carried += weight * xp.where(seen, part, 0.0)
    return Carried(carried, xp.clip(left, 1e-6, 1.0))


def between(residual: Array, trusted: Array, tables: Array, variable: Array | None) -> Array:
    """Estimate every residual, (..., slot), from the trusted ones in the two slots beside it."""
    xp = namespace(residual)
    values = residual * trusted
    nothing = xp.zeros_like(values[..., :1])
    total = xp.concat([nothing, values[..., :-1]], axis=-1)
    total += xp.concat([values[..., 1:], nothing], axis=-1)
    one, two = tables[:, 1], tables[:, 1] / (1 + tables[:, 2])
    alone, both_sides = (
        (table[0] if variable is None else table[variable][..., None]) for table in (one, two)
    )  # fmt: skip
    both = single(trusted[..., 2:] & trusted[..., :-2])
    total *= alone
    ratio = both_sides / xp.where(alone != 0, alone, 1.0)
    total[..., 1:-1] *= 1 + both * (ratio - 1)
    return total
