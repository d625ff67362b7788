"""The neighbourhoods of a period, with what they begin it with and what has been found of them so far."""

from __future__ import annotations

import numpy as np

from sensormend.auto.conditioning import Conditioned, bridge, condition
from sensormend.auto.memory import Model
from sensormend.auto.neighbourhoods import IntArray
from sensormend.auto.network import Outlook
from sensormend.auto.stack import HIGH, Stack, stacked
from sensormend.recovery import BoolArray, FloatArray

__all__ = ["KEPT", "SAMPLE", "TALL", "Look", "looks", "touched"]

SAMPLE = 4
"""Neighbourhoods on which rank and shrinkage are tried in a period."""

KEPT = 256
"""Neighbourhoods up to which all that was found of them is kept through a period, 130 kB each; beyond, it is found
anew where it is needed. 10,000 sensors: a reading costs two thirds of what it does otherwise."""

TALL = 32
"""Neighbourhoods in a stack where they are kept: the fewer stacks, the less is spent on calling numpy."""


class Look:
    """A stack of neighbourhoods in one period."""

    def __init__(self, model: Model, stack: Stack, *, kept: bool) -> None:
        self._model, self.stack, self.kept = model, stack, kept
        self._outlook: Outlook | None = None
        self._prior: FloatArray | None = None
        self._view: Conditioned | None = None

    def part(self, which: IntArray | None) -> Stack:
        """Return some of the neighbourhoods, or all of them."""
        return self.stack if which is None else self.stack.part(which)

    def prior(self, which: IntArray | None = None) -> FloatArray:
        """Return the covariances at the present rungs; they are not to be written to."""
        if not self.kept:
            return self._made(self.part(which))
        if self._prior is None:
            self._prior = self._made(self.stack)
        return self._prior if which is None else self._prior[which]

    def view(self, which: IntArray | None, deviation: FloatArray, trusted: BoolArray) -> Conditioned:
        """Condition on what is trusted, and remember it."""
        found = condition(self.prior(which), deviation, trusted, self.part(which).real)
        bridge(found.expected, trusted)
        if self.kept and which is None:
            self._view = found
        elif self._view is not None and which is not None:
            self._view.put(which, found)
        return found

    def latest(self) -> Conditioned | None:
        """Return what was found of all of them last, if that is known."""
        return self._view

    def forget(self) -> None:
        """Let go of what was kept, once the period is over for these neighbourhoods."""
        self._outlook = self._prior = self._view = None

    def outlook(self) -> Outlook:
        """Return what the covariances are made of."""
        return self._outlook or Outlook.of(self.stack, self._model.channels.days[self.stack.members])

    def _made(self, stack: Stack) -> FloatArray:
        pools = self._model.pools
        outlook = Outlook.of(stack, self._model.channels.days[stack.members])
        if len(self._model.hoods) <= SAMPLE:
            self._outlook = outlook
        return outlook.covariance(pools.rank, pools.shrinkage)


def looks(model: Model) -> list[Look]:
    """Stack all neighbourhoods for a period."""
    kept = len(model.hoods) <= KEPT
    return [Look(model, stack, kept=kept) for stack in stacked(model.hoods, TALL if kept else HIGH)]


def touched(look: Look, changed: BoolArray) -> IntArray | None:
    """Return in which neighbourhoods someone changed; None for all."""
    found = (changed[look.stack.members] & look.stack.real).any(axis=1)
    return None if found.all() else np.flatnonzero(found)
