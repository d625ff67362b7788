"""The neighbourhood in one period: what it begins it with, and what was found of it last."""

from __future__ import annotations

from sensormend.auto.conditioning import Conditioned, bridge, condition
from sensormend.auto.memory import Model
from sensormend.auto.network import Outlook
from sensormend.auto.stack import Stack
from sensormend.recovery import BoolArray, FloatArray

__all__ = ["Look"]


class Look:
    """A neighbourhood as a stack of one, and its covariance at the present rungs, which is not to be written to."""

    def __init__(self, model: Model, copies: BoolArray | None = None) -> None:
        assert model.hood is not None
        self.stack = Stack.of([model.hood])
        self.outlook = Outlook.of(self.stack, model.channels.days[None], copies)
        self.prior: FloatArray = self.outlook.covariance(model.pools.rank, model.pools.shrinkage)[0]
        self.latest: Conditioned | None = None

    def view(self, deviation: FloatArray, trusted: BoolArray) -> Conditioned:
        """Condition on what is trusted, (channel, slot), and remember it."""
        found = condition(self.prior[None], deviation[None], trusted[None])
        bridge(found.expected, trusted[None])
        self.latest = found
        return found
