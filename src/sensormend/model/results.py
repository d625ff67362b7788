"""What is returned of a period, in one pass over its cells."""

from __future__ import annotations

import math

from sensormend.model.compiling import entry
from sensormend.model.layout import CORRECTED, DOUBTFUL, SPIKE, WRONG

__all__ = ["complete"]


@entry
def complete(
    begin, end, readings, code, low_rank, lower, upper, outliers, wrong, doubtful, spikes, corrected, heard, bad, unsure
):
    """Fill in the cells of channels `begin` to `end`, and count their readings: all, wrong ones, and doubtful ones.

    The interval of a doubtful reading reaches to the estimate: `lower` and `upper` are changed there.
    """
    slots = readings.shape[1]
    for c in range(begin, end):
        n = n_wrong = n_doubtful = 0
        for t in range(slots):
            x, estimate, verdict = readings[c, t], low_rank[c, t], code[c, t]
            observed, is_wrong, is_doubtful = math.isfinite(x), verdict >= WRONG, verdict == DOUBTFUL
            wrong[c, t], doubtful[c, t], spikes[c, t] = is_wrong, is_doubtful, verdict == SPIKE
            corrected[c, t] = verdict == CORRECTED
            outliers[c, t] = x - estimate if is_wrong else 0.0
            if is_doubtful:
                lower[c, t], upper[c, t] = min(x, estimate), max(x, estimate)
            n += observed
            n_wrong += is_wrong
            n_doubtful += is_doubtful
        heard[c], bad[c], unsure[c] = n, n_wrong, n_doubtful
