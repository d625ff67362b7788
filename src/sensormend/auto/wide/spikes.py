"""Single readings that are wrong in a sound fiber, in many parts at once; see `spikes`."""

from __future__ import annotations

import numpy as np

from sensormend.arrays import Array, namespace
from sensormend.auto.judge import ROUNDING
from sensormend.auto.judging import WARM
from sensormend.auto.memory import Model
from sensormend.auto.spikes import FEW, RARE, SPIKE
from sensormend.auto.wide.company import Company, relook
from sensormend.auto.wide.settled import Settled, follow, judgeable
from sensormend.auto.wide.sight import Sight
from sensormend.auto.wide.timeline import carry
from sensormend.auto.wide.tools import counted, where_true

__all__ = ["find_spikes"]

SPIKE_ROUNDS = 2
"""How often spikes are looked for; one goes at a time per slot of a part."""


def find_spikes(model: Model, sight: Sight, company: Company, state: Settled, tables: Array) -> None:
    """Find single readings far from the network and from their own neighbours in time; the worst of a slot first."""
    xp, channels, (parts, width, slots) = sight.xp, model.channels, sight.observed.shape
    settled = ~state.flagged & sight.real & (sight.days >= WARM)
    unit = xp.clip(state.size * xp.exp(state.event), 1e-30, None)
    limit = xp.where(settled, xp.maximum(SPIKE * unit, ROUNDING * sight.step), xp.inf)
    judged = judgeable(model, sight, state)
    for _ in range(SPIKE_ROUNDS):
        large = (xp.abs(state.residual) > limit[..., None]) & state.trusted
        if not bool(xp.any(large)):
            return
        many = counted(large)
        fiber = where_true((many > 0).reshape(-1))
        part, row = fiber // width, fiber % width
        cells = large[part, row]
        rare = (RARE * many[part, row] <= sight.count[part, row])[:, None] & (_around(cells) <= FEW)
        cells &= judged[part, row][:, None] | rare
        line, slot = xp.nonzero(cells)
        if line.shape[0] == 0:
            return
        home, who = part[line], row[line]
        channel = sight.members[home, who]
        residual = state.residual[home, who]
        carried = carry(
            slot,
            residual,
            state.trusted[home, who],
            channels.last[channel],
            channels.age[channel],
            tables,
            None if sight.variable is None else sight.variable[home, who],
        )
        own = xp.take_along_axis(residual, slot[:, None], axis=1)[:, 0]
        over = xp.abs(own - carried.residual) / (unit[home, who] * xp.sqrt(carried.open))
        dense = _dense(over, line, slot, cells)
        beside = _beside(dense)[line, slot]
        worst = _worst_of_slot(over, home * slots + slot, parts * slots)
        found = (over > SPIKE) & (over >= worst[home * slots + slot]) & (over >= beside)
        if not bool(xp.any(found)):
            return
        home, who, slot = home[found], who[found], slot[found]
        state.spikes[home, who, slot] = True
        state.trusted[home, who, slot] = False
        relook(company, state.view, state.deviation, state.trusted & sight.known[..., None], home, slot)
        follow(sight, state, xp.unique_values(home))


def _around(large: Array) -> Array:
    """Return how many readings stand out in the slots around each."""
    xp, slots = namespace(large), large.shape[1]
    padded = xp.zeros((large.shape[0], slots + 4), dtype=xp.int64, device=large.device)
    padded[:, 2:-2] = xp.asarray(large, dtype=xp.int64)
    return padded[:, :-4] + padded[:, 1:-3] + padded[:, 2:-2] + padded[:, 3:-1] + padded[:, 4:]


def _dense(over: Array, line: Array, slot: Array, cells: Array) -> Array:
    values = namespace(over).zeros(cells.shape, dtype=over.dtype, device=over.device)
    values[line, slot] = over
    return values


def _beside(dense: Array) -> Array:
    """Return the largest of the numbers that a fiber has in the two slots on either side of each."""
    xp, slots = namespace(dense), dense.shape[1]
    padded = xp.zeros((dense.shape[0], slots + 4), dtype=dense.dtype, device=dense.device)
    padded[:, 2:-2] = dense
    near = xp.maximum(padded[:, 1:-3], padded[:, 3:-1])
    return xp.maximum(near, xp.maximum(padded[:, :-4], padded[:, 4:]))


def _worst_of_slot(over: Array, place: Array, size: int) -> Array:
    xp = namespace(over)
    if xp is np:
        worst = np.zeros(size, dtype=over.dtype)
        np.maximum.at(worst, place, over)
        return worst
    return xp.zeros(size, dtype=over.dtype, device=over.device).scatter_reduce(0, place, over, "amax")
