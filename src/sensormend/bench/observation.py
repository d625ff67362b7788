"""The paper's fourth simulation: how the methods fare as less is observed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from sensormend.bench.simulation import FULL_SIZE, QUICK_SIZE, Setting, Sweep
from sensormend.bench.tables import Bar

__all__ = ["Observation"]


class Observation(Sweep):
    """All to half of the readings observed."""

    name = "observation"
    title = "Share of observed readings"
    axis = "observation ratio"
    around = "Minibatches of {cube}, rank {rank}, 5 % of the fibers faulty, from U(-2, 2)."
    caption = "Relative error, F1 score and computation time of every method against the share of observed readings."
    bars: ClassVar[Mapping[str, Mapping[float, Bar]]] = {
        "re": {0.9: Bar(high=0.01), 0.5: Bar(high=0.03)},
        "f1": {0.9: Bar(low=0.99), 0.5: Bar(low=0.99)},
    }

    def settings(self, *, quick: bool) -> list[Setting]:
        """Return 1 down to 0.5."""
        shares = (0.9, 0.5) if quick else (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)
        return [Setting(share, *(QUICK_SIZE if quick else FULL_SIZE), observed=share) for share in shares]
