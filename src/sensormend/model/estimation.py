"""What every cell is taken to be, and how sure that is."""

from __future__ import annotations

import math

import numpy as np

from sensormend.model.compiling import compiled, inlined
from sensormend.model.faults import (
    BEGIN,
    PHI,
    power,
)
from sensormend.model.layout import (
    COMMON,
    DOUBTFUL,
    EVIDENCE,
    HIGH,
    LAST_RESIDUAL,
    LAST_TIME,
    LOW,
    MEAN,
    MISSING,
    OBSERVED,
    OPEN_VARIANCE,
    POSSIBLE,
    PROBABILITY,
    RAW,
    RESIDUAL,
    SLOW,
    SMOOTH,
    TRUSTED,
    TRUSTING,
    VARIANCE,
    WIDTH_FAR,
    WIDTH_GAP,
    WRONG,
    backward,
)

__all__ = [
    "bridge",
    "interval_width",
    "settle",
]


@inlined
def bridge(w, start, s, i, t, out):
    """Predict a residual from the trusted ones before and after it: the value, and the share of its variance left."""
    known, phi = w.known[i], w.q[i, PHI]
    level = known[SLOW]
    before = after = 0.0
    near = far = 0.0
    u = t - 1
    while u >= 0 and not w.flags[TRUSTING, i, u]:
        u -= 1
    if u >= 0:
        near, before = power(phi, float(t - u)), w.cells[RESIDUAL, i, u] - level
    elif known[LAST_TIME] >= 0.0:
        near, before = power(phi, start + t - known[LAST_TIME]), known[LAST_RESIDUAL] - level
    u = t + 1
    while u < s and not w.flags[TRUSTING, i, u]:
        u += 1
    if u < s:
        far, after = power(phi, float(u - t)), w.cells[RESIDUAL, i, u] - level
    # No farther than the channel's own history allows: a reading that is trusted may still be wrong.
    most = 4.0 * math.sqrt(known[VARIANCE])
    before, after = max(-most, min(most, before)), max(-most, min(most, after))
    left = 1.0 - near * near * far * far
    out[0] = level + (near * (1.0 - far * far) * before + far * (1.0 - near * near) * after) / left
    out[1] = (1.0 - near * near) * (1.0 - far * far) / left


@inlined
def interval_width(w, i, t, share):
    """Return half the width of the interval of a cell whose residual is open to this share."""
    known = w.known[i]
    factor = known[WIDTH_GAP] + (known[WIDTH_FAR] - known[WIDTH_GAP]) * min(1.0, max(0.0, share))
    wide = math.sqrt(w.cells[OPEN_VARIANCE, i, t] * w.precision[i, i])
    return factor * math.sqrt(share * known[VARIANCE]) * min(wide, 4.0) * w.cells[COMMON, i, t]


@compiled
def settle(w, network, period, p, s):
    """Write what every owned cell is taken to be."""
    for i in range(network.owned[p]):
        c = network.members[p, i]
        v = network.variables[network.variable[c]]
        low, high = v[LOW], v[HIGH]
        for t in range(s):
            if w.flags[TRUSTING, i, t]:
                low, high = min(low, w.cells[RAW, i, t]), max(high, w.cells[RAW, i, t])
        margin = 0.05 * (high - low) if high > low else 0.0
        least = low - margin if low < 0.0 else max(low - margin, 0.0)
        for t in range(s):
            trusted = w.flags[TRUSTING, i, t]
            y = w.cells[MEAN, i, t] + w.cells[SMOOTH, i, t]
            if not trusted:
                bridge(w, period.start, s, i, t, w.column)
                y += w.column[0]
            value = max(least, min(high + margin, backward(y, v))) if high >= low else np.nan
            period.low_rank[c, t] = value
            if trusted:
                period.code[c, t] = DOUBTFUL if w.cells[PROBABILITY, i, t] > POSSIBLE else TRUSTED
                period.lower[c, t] = period.upper[c, t] = w.cells[RAW, i, t]
                continue
            period.code[c, t] = WRONG if w.flags[OBSERVED, i, t] else MISSING
            wide = interval_width(w, i, t, w.column[1])
            period.lower[c, t] = max(least, min(value, backward(y - wide, v)))
            period.upper[c, t] = min(high + margin, max(value, backward(y + wide, v)))
        period.score[c] = w.figures[EVIDENCE, i] / -w.q[i, BEGIN]
