"""The paper's third simulation: how large a fault must be to be found."""

from __future__ import annotations

from sensormend.bench.simulation import FULL_SIZE, QUICK_SIZE, Setting, Sweep

__all__ = ["Magnitude"]


class Magnitude(Sweep):
    """Faults from U(-m, m): at the small end they are as small as the readings themselves, or smaller."""

    name = "magnitude"
    title = "Magnitude of the faults"
    axis = "magnitude"
    log_x = True
    around = "Minibatches of {cube}, rank {rank}, all observed, 5 % of the fibers faulty, from U(-m, m)."
    caption = "Relative error, F1 score and computation time of every method against the magnitude of the faults."

    def settings(self, *, quick: bool) -> list[Setting]:
        """Return m = 0.02 to 10; the readings have a standard deviation of about 0.02 and the paper's m is 2."""
        sizes = (0.1, 2.0) if quick else (0.02, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
        return [Setting(m, *(QUICK_SIZE if quick else FULL_SIZE), magnitude=m) for m in sizes]
