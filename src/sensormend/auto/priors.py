"""The neighbourhoods of a period with the covariances that they begin it with."""

from __future__ import annotations

import numpy as np

from sensormend.auto.memory import Model
from sensormend.auto.network import Outlook
from sensormend.auto.stack import Stack, stacked
from sensormend.recovery import FloatArray

__all__ = ["KEPT", "Priors"]

KEPT = 128
"""Neighbourhoods up to which their covariances are kept through a period, 4 MB; beyond, they are made when needed."""


class Priors:
    """All neighbourhoods in stacks, and the covariance of each at the present rungs."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.stacks = stacked(model.hoods)
        self._kept: dict[int, FloatArray] = {}

    def of(self, stack: Stack) -> FloatArray:
        """Return the covariances of a stack; they are not to be written to."""
        if len(self._model.hoods) > KEPT:
            return self._made(stack)
        if any(index not in self._kept for index in stack.index.tolist()):
            for index, size, prior in zip(stack.index.tolist(), stack.size.tolist(), self._made(stack), strict=True):
                self._kept[index] = prior[:size, :size]
        kept = [self._kept[index] for index in stack.index.tolist()]
        width = stack.members.shape[1]
        if all(len(prior) == width for prior in kept):
            return kept[0][None] if len(kept) == 1 else np.stack(kept)
        padded = np.tile(np.eye(width), (len(kept), 1, 1))
        for room, prior in zip(padded, kept, strict=True):
            room[: len(prior), : len(prior)] = prior
        return padded

    def _made(self, stack: Stack) -> FloatArray:
        pools = self._model.pools
        return Outlook.of(stack, self._model.channels).covariance(pools.rank, pools.shrinkage)
