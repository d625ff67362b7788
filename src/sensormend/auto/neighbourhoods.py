"""Which sensors are judged together.

A small network is one neighbourhood. A large one is cut into equal parts along the directions in which its
sensors differ most, and each part looks over its fence at the sensors outside that are most like its own, so
that a sensor at an edge has its relatives too. Cost and memory per sensor do not depend on how many there are.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from sensormend.recovery import FloatArray

__all__ = ["CORE", "HALO", "IntArray", "partition"]

CORE = 48
"""Sensors that a neighbourhood judges. With the halo the inverse is 64 wide: small enough for the cache."""

HALO = 16
"""Sensors from outside that it listens to. NOAA: 16 best relatives predict within 2 % of all 36."""

IntArray = np.ndarray[tuple[int], np.dtype[np.intp]]


def partition(profiles: FloatArray, core: int, halo: int) -> list[tuple[IntArray, IntArray]]:
    """Split channels with these profiles (channel, feature) into (core, halo) pairs."""
    channels = profiles.shape[0]
    if channels <= core + halo:
        return [(np.arange(channels), np.empty(0, dtype=np.intp))]
    parts = _bisect(profiles, np.arange(channels), core)
    tree = cKDTree(profiles)
    return [(part, _halo(tree, profiles, part, halo)) for part in parts]


def _bisect(profiles: FloatArray, members: IntArray, core: int) -> list[IntArray]:
    if members.size <= core:
        return [np.sort(members)]
    pieces = -(-members.size // core)
    centred = profiles[members] - profiles[members].mean(axis=0)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    order = members[np.argsort(centred @ vectors[:, -1], kind="stable")]
    cut = members.size * (pieces // 2) // pieces
    return _bisect(profiles, order[:cut], core) + _bisect(profiles, order[cut:], core)


def _halo(tree: cKDTree, profiles: FloatArray, part: IntArray, halo: int) -> IntArray:
    """Return the outsiders nearest to any member of the part."""
    reach = min(profiles.shape[0], 2 * halo)
    found = tree.query(profiles[part], k=reach)
    distance, near = np.asarray(found[0]), np.asarray(found[1])
    outside = ~np.isin(near, part)
    near, distance = near[outside], distance[outside]
    order = np.argsort(distance, kind="stable")
    _, first = np.unique(near[order], return_index=True)
    return np.sort(near[order][np.sort(first)][:halo])
