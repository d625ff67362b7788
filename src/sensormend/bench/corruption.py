"""The paper's second simulation: how the methods fare as more fibers are faulty."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from sensormend.bench.simulation import FULL_SIZE, QUICK_SIZE, Setting, Sweep
from sensormend.bench.tables import Bar

__all__ = ["Corruption"]


class Corruption(Sweep):
    """None to half of the fibers faulty."""

    name = "corruption"
    title = "Share of faulty fibers"
    axis = "corruption ratio"
    around = "Minibatches of {cube}, rank {rank}, all observed, faults from U(-2, 2)."
    caption = "Relative error, F1 score and computation time of every method against the share of faulty fibers."
    bars: ClassVar[Mapping[str, Mapping[float, Bar]]] = {"re": {0.3: Bar(high=0.03)}, "f1": {0.3: Bar(low=0.99)}}

    def settings(self, *, quick: bool) -> list[Setting]:
        """Return 0 to 0.5."""
        shares = (0.1, 0.4) if quick else (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
        return [Setting(share, *(QUICK_SIZE if quick else FULL_SIZE), share=share) for share in shares]
