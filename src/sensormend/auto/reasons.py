"""Why a fiber is wrong, in one word of the design's list."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sensormend.recovery import BoolArray, FloatArray

__all__ = ["reasons"]


def reasons(
    residual: FloatArray,
    expected: FloatArray,
    there: BoolArray,
    excess: FloatArray,
    stuck: FloatArray,
    spread: FloatArray,
) -> NDArray[np.str_]:
    """Name what is wrong with each fiber, (fiber, slot) arrays in and one word per fiber out.

    The residual is described by its mean, by a straight line and by a multiple of what the network expected
    (which a wrong gain leaves); the simplest description that explains most of it names the fault. `excess` are
    the scores of size, level and roughness, `spread` is the channel's usual deviation.
    """
    count = np.maximum(there.sum(axis=1), 1)
    square = np.where(there, residual**2, 0.0).sum(axis=1) / count + 1e-300
    level = np.where(there, residual, 0.0).sum(axis=1) / count
    slots = np.broadcast_to(np.arange(residual.shape[1], dtype=float), residual.shape)
    sloped = _explained(residual, slots, there)
    gained = _explained(residual, expected, there)
    offset = level**2 / square
    size = np.sqrt(square)
    named = np.full(residual.shape[0], "noisy", dtype="<U11")
    named[offset > 0.5] = "offset"
    rest = 1 - offset
    named[(rest * sloped > 0.25) & (sloped > 0.6)] = "drifting"
    named[(rest * gained > 0.25) & (gained > 0.6) & (gained > sloped)] = "gain"
    named[(excess[:, 2] > 1) & (excess[:, 2] >= excess[:, 1]) & (offset < 0.5)] = "noisy"
    named[size > 8 * spread] = "implausible"
    named[stuck > 1] = "stuck"
    return named


def _explained(residual: FloatArray, pattern: FloatArray, there: BoolArray) -> FloatArray:
    """Share of the residual's variation that a multiple of the pattern explains."""
    count = np.maximum(there.sum(axis=1, keepdims=True), 1)
    centred = np.where(there, residual - np.where(there, residual, 0.0).sum(axis=1, keepdims=True) / count, 0.0)
    shape = np.where(there, pattern - np.where(there, pattern, 0.0).sum(axis=1, keepdims=True) / count, 0.0)
    product = (centred * shape).sum(axis=1)
    return np.asarray(product**2 / ((centred**2).sum(axis=1) * (shape**2).sum(axis=1) + 1e-300))
