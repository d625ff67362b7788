"""Making the neighbourhood of a small network, and keeping it when sensors join or go."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sensormend.auto.memory import Hood, Model
from sensormend.recovery import BoolArray

__all__ = ["drop", "found"]


def found(model: Model) -> None:
    """Make or widen the neighbourhood so that every channel is in it before a period goes through."""
    count, hood = model.channels.days.size, model.hood
    placed = hood.core if hood else 0
    if count > placed:
        moments = _blank(count, count)
        dictionary = _blank(count, hood.dictionary.shape[1] if hood else 0)
        if hood:
            moments[:placed, :placed], dictionary[:placed] = hood.moments, hood.dictionary
        model.hood = Hood(np.arange(count), count, moments, dictionary)


def drop(model: Model, kept: BoolArray) -> None:
    """Forget channels for good."""
    rows = np.flatnonzero(kept)
    model.channels = model.channels.taken(rows)
    hood = model.hood
    assert hood is not None
    model.hood = None
    if rows.size:
        model.hood = Hood(np.arange(rows.size), rows.size, hood.moments[np.ix_(rows, rows)], hood.dictionary[rows])


def _blank(rows: int, columns: int) -> NDArray[np.float32]:
    return np.zeros((rows, columns), dtype=np.float32)
