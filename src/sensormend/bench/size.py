"""The paper's first simulation: how the methods fare as the tensor grows."""

from __future__ import annotations

from sensormend.bench.simulation import Setting, Sweep

__all__ = ["Size"]

SIZES, QUICK_SIZES = (10, 20, 30, 40, 50), (10, 20)


class Size(Sweep):
    """Minibatches of I cubed, rank a tenth of I."""

    name = "size"
    title = "Size of the tensor"
    axis = "I"
    around = "Minibatches of I x I x I, rank 0.1 I, 10 % of the fibers faulty, 90 % observed."
    caption = "Relative error, F1 score and computation time of every method against the size I of the tensor."

    def settings(self, *, quick: bool) -> list[Setting]:
        """Return I = 10 to 50."""
        return [
            Setting(size, size, round(0.1 * size), observed=0.9, share=0.1)
            for size in (QUICK_SIZES if quick else SIZES)
        ]
