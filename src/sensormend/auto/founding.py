"""Making neighbourhoods, and keeping them when sensors join or go."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sensormend.auto.memory import SKETCH, Hood, Model
from sensormend.auto.neighbourhoods import IntArray, partition
from sensormend.recovery import BoolArray, FloatArray

__all__ = ["drop", "found", "refound"]

REFOUND = (7, 30, 100)
"""Periods after which a large network is cut anew, when its sensors are better known."""

CROWDED = 1.5
"""How far a neighbourhood may outgrow its size before the network is cut anew."""


def found(model: Model, readings: FloatArray) -> None:
    """Make or mend the neighbourhoods so that every channel has one before a period goes through."""
    count = model.channels.days.size
    placed = sum(hood.core for hood in model.hoods)
    small = count <= model.core + model.halo
    if count > placed:
        newcomers = np.arange(placed, count)
        if small:
            model.hoods = [_widened(model.hoods[0] if model.hoods else _empty(), newcomers)]
        elif placed <= model.core + model.halo:
            model.hoods = _cut(model, _profiles(model.scales.forward(readings, model.variable)))
        else:
            _join(model, newcomers, readings)


def refound(model: Model) -> None:
    """Cut a large network anew when its sensors are better known or its neighbourhoods have outgrown their size."""
    crowded = any(hood.core > CROWDED * model.core for hood in model.hoods)
    if len(model.hoods) > 1 and (crowded or model.pools.period in REFOUND):
        model.hoods = _cut(model, model.channels.sketch.astype(float))


def drop(model: Model, kept: BoolArray) -> None:
    """Forget channels for good."""
    place = np.cumsum(kept) - 1
    model.channels = model.channels.taken(np.flatnonzero(kept))
    hoods = []
    for hood in model.hoods:
        inside = kept[hood.members]
        rows = np.flatnonzero(inside)
        if inside[: hood.core].any():
            hoods.append(
                Hood(
                    place[hood.members[rows]],
                    int(inside[: hood.core].sum()),
                    hood.moments[np.ix_(rows, rows)],
                    hood.dictionary[rows],
                )
            )
    model.hoods = hoods


def _blank(rows: int, columns: int) -> NDArray[np.float32]:
    return np.zeros((rows, columns), dtype=np.float32)


def _empty() -> Hood:
    return Hood(np.empty(0, dtype=np.intp), 0, _blank(0, 0), _blank(0, 0))


def _widened(hood: Hood, newcomers: IntArray) -> Hood:
    """Return a neighbourhood that judges these, too; what it knows of the others is kept."""
    own, rest = hood.members[: hood.core], hood.members[hood.core :]
    members = np.concatenate([own, newcomers, rest])
    place = np.concatenate([np.arange(own.size), np.arange(own.size + newcomers.size, members.size)])
    moments = _blank(members.size, members.size)
    moments[np.ix_(place, place)] = hood.moments
    dictionary = _blank(members.size, hood.dictionary.shape[1])
    dictionary[place] = hood.dictionary
    return Hood(members, own.size + newcomers.size, moments, dictionary)


def _profiles(scaled: FloatArray) -> FloatArray:
    """Describe channels by what of their first period is not common to all, in few numbers."""
    seen = np.isfinite(scaled)
    common = np.where(seen, scaled, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    centred = np.clip(np.where(seen, scaled - common, 0.0), -8, 8)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    return np.asarray(centred @ vectors[:, -SKETCH:])


def _join(model: Model, newcomers: IntArray, readings: FloatArray) -> None:
    """Put newcomers into the neighbourhoods whose readings of this period are most like theirs."""
    scaled = model.scales.forward(readings, model.variable)
    seen = np.isfinite(scaled)
    filled = np.where(seen, scaled, 0.0)
    sums = np.stack([filled[hood.members[: hood.core]].sum(axis=0) for hood in model.hoods])
    counts = np.stack([seen[hood.members[: hood.core]].sum(axis=0) for hood in model.hoods])
    courses = sums / np.maximum(counts, 1)
    chosen: dict[int, list[int]] = {}
    for channel in newcomers.tolist():
        apart = np.where(seen[channel] & (counts > 0), np.abs(courses - filled[channel]), 0.0).sum(axis=1)
        chosen.setdefault(int(np.argmin(apart)), []).append(channel)
    for index, channels in chosen.items():
        model.hoods[index] = _widened(model.hoods[index], np.array(channels))


def _cut(model: Model, profiles: FloatArray) -> list[Hood]:
    """Cut the network into neighbourhoods; what the old ones knew of two sensors is taken over."""
    hoods = []
    homes = np.zeros(profiles.shape[0], dtype=np.intp)
    for index, hood in enumerate(model.hoods):
        homes[hood.members[: hood.core]] = index
    for core, halo in partition(profiles, model.core, model.halo):
        members = np.concatenate([core, halo])
        moments = _moments(model, members, homes) if model.hoods else _blank(members.size, members.size)
        hoods.append(Hood(members, core.size, moments, _blank(members.size, 0)))
    return hoods


def _moments(model: Model, members: IntArray, homes: IntArray) -> NDArray[np.float32]:
    """Gather second moments from the old neighbourhoods; pairs that none of them knew follow from the sketches."""
    size = members.size
    known = model.channels.days[members] > 0
    variance = np.zeros(size)
    pairs = np.full((size, size), np.nan)
    for home in np.unique(homes[members]):
        old = model.hoods[home]
        common, here, there = np.intersect1d(members, old.members, return_indices=True)
        pairs[np.ix_(here, here)] = old.moments[np.ix_(there, there)]
        own = np.isin(common, old.members[: old.core])
        variance[here[own]] = old.moments.diagonal()[there[own]]
    spread = np.sqrt(np.maximum(variance, 1e-24))
    sketch = model.channels.sketch[members]
    sketch = sketch / np.maximum(np.linalg.norm(sketch, axis=1, keepdims=True), 1e-30)
    likely = sketch @ sketch.T * spread[:, None] * spread
    filled = np.where(np.isfinite(pairs), pairs, likely)
    correlation = np.clip(filled / spread[:, None] / spread, -1, 1)
    correlation[~known] = 0.0
    correlation[:, ~known] = 0.0
    np.fill_diagonal(correlation, 1.0)
    values, vectors = np.linalg.eigh(correlation)
    correlation = (vectors * np.maximum(values, 1e-3)) @ vectors.T
    scale = spread / np.sqrt(correlation.diagonal())
    return np.asarray(correlation * scale[:, None] * scale, dtype=np.float32)
