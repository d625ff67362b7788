"""Predicting the cells of a partition from its other members, and placing members that were never heard."""

from __future__ import annotations

import math

import numpy as np

from sensormend.model.compiling import compiled, inlined
from sensormend.model.covariance import (
    leave_one_out,
)
from sensormend.model.faults import (
    WANDER,
)
from sensormend.model.layout import (
    AGE,
    ALONG,
    COVARIANCE,
    DEVIATION,
    DISTANCE,
    DISTANCE_BEFORE,
    EXPECTED,
    LAST_RESIDUAL,
    LAST_TIME,
    LEVEL_AGE,
    MEAN,
    OBSERVED,
    OPEN_VARIANCE,
    PREDICTOR,
    RANK,
    REFERENCE,
    RESIDUAL,
    RIPPLE,
    SCALE,
    SCALED,
    SIGMA,
    SLOW,
    SMOOTH,
    TRUSTING,
    VARIANCE,
    WANDERS,
    WIDTH_FAR,
    WIDTH_GAP,
    median,
)

__all__ = [
    "cold_network",
    "cold_start",
    "is_odd",
    "lead_across",
    "moves_along",
    "n_observed",
    "nobody_speaks",
    "place_levels",
    "predict",
]

ODD = 2.0
"""A new member is odd from so many times the others' spread, of their levels and of one about its mean."""
LONG_ENOUGH = 3.0
"""Periods one after the other in which it must move with them to be taken as one of them."""
MOVES = 6
"""Readings from which it is judged whether a new member moves with the others."""


@compiled
def moves_along(w, s, i, reach):
    """Return 1 where a new member moves with the others, by 0.4 of what they do or more, 0 where not, -1 if unclear."""
    n, own, other, both, square = 0, 0.0, 0.0, 0.0, 0.0
    for t in range(s):
        if w.flags[OBSERVED, i, t]:
            common = w.cells[SCALE, 0, t] + w.cells[SCALE, 1, t]
            n += 1
            own += w.cells[SCALED, i, t]
            other += common
            both += w.cells[SCALED, i, t] * common
            square += common * common
    spread = n * square - other * other
    if n < MOVES or spread <= (0.25 * reach * n) ** 2:
        return -1
    return 1 if n * both - own * other > 0.4 * spread else 0


@compiled
def is_odd(w, s, i, off, reach):
    """Return whether a new member is to be held back: far from the others, without having moved with them for long."""
    if n_observed(w, s, i) == 0 or abs(off) <= ODD * reach:
        return False
    along = moves_along(w, s, i, reach)
    if along >= 0:
        w.known[i, ALONG] = (w.known[i, ALONG] + 1.0) * along
    return w.known[i, ALONG] < LONG_ENOUGH


@compiled
def n_observed(w, s, i):
    """Return how many readings a member has in this period."""
    n = 0
    for t in range(s):
        n += w.flags[OBSERVED, i, t]
    return n


@compiled
def cold_start(w, network, p, m, s):
    """Place members that have never been heard: their level, the course of the others, and how they may be related."""
    moments = network.moments[p]
    old = 0
    for i in range(m):
        if w.known[i, AGE] > 0.0:
            old += 1
    if old == 0:
        cold_network(w, moments, m, s)
        return
    # The usual course of those that are known, and how unusual this period is for them.
    for t in range(s):
        n = k = 0
        for i in range(m):
            if w.known[i, AGE] > 0.0:
                total = 0.0
                for u in range(s):
                    total += w.cells[MEAN, i, u]
                w.vector[n] = w.cells[MEAN, i, t] - total / s
                n += 1
                if w.flags[OBSERVED, i, t]:
                    w.vector2[k] = w.cells[SCALED, i, t] - w.cells[MEAN, i, t]
                    k += 1
        w.cells[SCALE, 0, t] = median(w.vector, n)
        w.cells[SCALE, 1, t] = median(w.vector2, k) if k else 0.0
    n = 0
    for i in range(m):
        if w.known[i, AGE] > 0.0:
            total = 0.0
            for t in range(s):
                total += w.cells[MEAN, i, t]
            w.vector[n] = total / s
            n += 1
    middle = median(w.vector, n)
    for k in range(n):
        w.vector[k] = abs(w.vector[k] - middle)
    reach = 1.4826 * median(w.vector, n)
    n = 0
    for i in range(m):
        if w.known[i, AGE] > 0.0:
            w.vector[n] = moments[i, i]
            n += 1
    reach += math.sqrt(median(w.vector, n))
    for i in range(m):
        if w.known[i, AGE] > 0.0:
            continue
        n = 0
        for t in range(s):
            if w.flags[OBSERVED, i, t]:
                w.vector[n] = w.cells[SCALED, i, t] - w.cells[SCALE, 0, t] - w.cells[SCALE, 1, t]
                n += 1
        level = median(w.vector, n) if n else middle
        w.odd[i] = is_odd(w, s, i, level - middle, reach)
        if w.odd[i]:
            # Its own level says nothing: it is estimated like any other.
            level = middle
        for t in range(s):
            w.cells[MEAN, i, t] = level + w.cells[SCALE, 0, t]
    # An average member's variance and correlations, a bit weaker.
    for f in (VARIANCE, COVARIANCE, SIGMA, WANDERS, WIDTH_GAP, WIDTH_FAR):
        n = 0
        for i in range(m):
            if w.known[i, AGE] > 0.0:
                w.vector[n] = w.known[i, f]
                n += 1
        typical = median(w.vector, n)
        for i in range(m):
            if w.known[i, AGE] == 0.0:
                w.known[i, f] = typical
    n = 0
    for i in range(m):
        if w.known[i, AGE] > 0.0:
            w.vector[n] = moments[i, i]
            n += 1
    variance = median(w.vector, n)
    for i in range(m):
        total, n = 0.0, 0
        for j in range(m):
            if j != i and w.known[j, AGE] > 0.0 and w.known[i, AGE] > 0.0:
                total += moments[i, j] / math.sqrt(moments[i, i] * moments[j, j] + 1e-30)
                n += 1
        w.vector2[i] = max(0.0, min(1.0, 0.9 * total / n)) if n else 0.5
    n, total = 0, 0.0
    for i in range(m):
        if w.known[i, AGE] > 0.0:
            total += w.vector2[i]
            n += 1
    common = total / n
    for i in range(m):
        for j in range(m):
            if w.known[i, AGE] > 0.0 and w.known[j, AGE] > 0.0:
                continue
            if i == j:
                moments[i, i] = variance
                continue
            a = math.sqrt(moments[i, i]) if w.known[i, AGE] > 0.0 else math.sqrt(variance)
            b = math.sqrt(moments[j, j]) if w.known[j, AGE] > 0.0 else math.sqrt(variance)
            share = w.vector2[i] if w.known[i, AGE] > 0.0 else w.vector2[j] if w.known[j, AGE] > 0.0 else common
            moments[i, j] = 0.9 * share * a * b


@compiled
def cold_network(w, moments, m, s):
    """Start a partition of which nobody is known."""
    for i in range(m):
        n = 0
        for t in range(s):
            if w.flags[OBSERVED, i, t]:
                w.vector[n] = w.cells[SCALED, i, t]
                n += 1
        w.figures[RANK, i] = median(w.vector, n) if n else np.nan
    for t in range(s):
        n = 0
        for i in range(m):
            if w.flags[OBSERVED, i, t]:
                w.vector[n] = w.cells[SCALED, i, t] - w.figures[RANK, i]
                n += 1
        w.cells[SCALE, 0, t] = median(w.vector, n) if n else 0.0
    n = 0
    for i in range(m):
        if math.isfinite(w.figures[RANK, i]):
            w.vector[n] = w.figures[RANK, i]
            n += 1
    middle = median(w.vector, n) if n else 0.0
    cells = 0
    for i in range(m):
        n = 0
        for t in range(s):
            if w.flags[OBSERVED, i, t]:
                w.vector2[n] = w.cells[SCALED, i, t] - w.cells[SCALE, 0, t]
                n += 1
        cells += n
        level = median(w.vector2, n) if n else middle
        for t in range(s):
            w.cells[MEAN, i, t] = level + w.cells[SCALE, 0, t]
        n = 0
        for t in range(s):
            if w.flags[OBSERVED, i, t]:
                w.vector2[n] = abs(w.cells[SCALED, i, t] - w.cells[MEAN, i, t])
                n += 1
        w.figures[RANK, i] = median(w.vector2, n) if n else np.nan
    n = 0
    for i in range(m):
        if math.isfinite(w.figures[RANK, i]):
            w.vector[n] = w.figures[RANK, i]
            n += 1
    spread = 1.4826 * median(w.vector, n) if n else 1.0
    heard = max(n, 1)
    # Of few members, the common course hides how they vary.
    course = 0.0
    for t in range(s):
        course += w.cells[SCALE, 0, t] ** 2 / s
    variance = max(4.0 * spread * spread + course / (heard * heard), 1e-4)
    if cells < 4 * heard:
        # A level of a reading or two fits them by itself: how far the levels lie apart is all that is known.
        n = 0
        for i in range(m):
            total = 0.0
            for t in range(s):
                total += w.cells[MEAN, i, t] - w.cells[SCALE, 0, t]
            w.vector[n] = abs(total / s - middle)
            n += 1
        apart = 1.4826 * median(w.vector, n)
        variance = max(variance, 0.25 * apart * apart)
    for i in range(m):
        for j in range(m):
            moments[i, j] = 0.8 * variance
        moments[i, i] = variance
        w.known[i, VARIANCE] = 0.2 * variance
        w.known[i, COVARIANCE] = 0.14 * variance
        w.known[i, SIGMA] = math.sqrt(0.2 * variance)
        w.known[i, WANDERS] = 0.2 * variance


@compiled
def lead_across(w, m, s):
    """Lead predictions straight across slots in which nobody is trusted, from the last one with any to the next."""
    last = -1
    for t in range(s + 1):
        heard = False
        if t < s:
            for i in range(m):
                if w.flags[TRUSTING, i, t]:
                    heard = True
                    break
            if not heard:
                continue
        if t - last > 1 and (last >= 0 or t < s):
            for i in range(m):
                before = w.cells[EXPECTED, i, last] if last >= 0 else w.cells[EXPECTED, i, t]
                after = w.cells[EXPECTED, i, t] if t < s else before
                for u in range(last + 1, t):
                    w.cells[EXPECTED, i, u] = before + (after - before) * (u - last) / (t - last)
        last = t


@inlined
def nobody_speaks(w, m, t):
    """Return whether no reading of a slot predicts others."""
    speaking = 0
    for i in range(m):
        speaking += w.flags[TRUSTING, i, t]
    return speaking == 0


@compiled
def predict(w, network, p, m, s):
    """Predict the cells of all slots that are marked dirty, and smooth the predictions in time."""
    for t in range(s):
        if w.dirty[t] and nobody_speaks(w, m, t):
            # A period that is not over has many such slots, and what follows would cost most in them.
            for i in range(m):
                w.cells[EXPECTED, i, t], w.cells[OPEN_VARIANCE, i, t] = 0.0, network.moments[p, i, i]
            w.dirty[t] = False
        if w.dirty[t]:
            leave_one_out(
                w.precision,
                m,
                w.cells[PREDICTOR],
                w.flags[TRUSTING],
                t,
                w.cells[EXPECTED],
                w.cells[OPEN_VARIANCE],
                w.square,
                w.block,
                w.column,
                w.index,
            )
            w.dirty[t] = False
    lead_across(w, m, s)
    share = network.variables[network.variable[network.members[p, 0]], RIPPLE]
    for i in range(m):
        w.cells[SMOOTH, i, 0], w.cells[SMOOTH, i, s - 1] = w.cells[EXPECTED, i, 0], w.cells[EXPECTED, i, s - 1]
        for t in range(1, s - 1):
            smooth = w.cells[EXPECTED, i, t]
            ripple = smooth - 0.5 * (w.cells[EXPECTED, i, t - 1] + w.cells[EXPECTED, i, t + 1])
            w.cells[SMOOTH, i, t] = smooth - share * ripple
        for t in range(s):
            w.cells[RESIDUAL, i, t] = w.cells[DEVIATION, i, t] - w.cells[SMOOTH, i, t]


@compiled
def place_levels(w, network, p, m, s):
    """Place members whose level starts over by what the others say of their readings; return whether there are any.

    How they move with the others is known, so the median of their residuals is by how far they are off. Where that is
    within their usual wander, the level stays: it is known better from before.
    """
    waiting = 0
    for i in range(m):
        w.placed[i] = False
        if w.known[i, AGE] > 0.0 and w.known[i, LEVEL_AGE] == 0.0:
            for t in range(s):
                w.placed[i] = w.placed[i] or w.flags[OBSERVED, i, t]
                w.flags[TRUSTING, i, t] = False
            waiting += w.placed[i]
    if waiting == 0:
        return False
    for t in range(s):
        w.dirty[t] = True
    predict(w, network, p, m, s)
    for i in range(m):
        if not w.placed[i]:
            continue
        n = 0
        for t in range(s):
            if w.flags[OBSERVED, i, t]:
                w.vector[n] = w.cells[RESIDUAL, i, t]
                n += 1
        off = median(w.vector, n)
        known = w.known[i]
        if abs(off - known[SLOW]) <= w.q[i, WANDER]:
            continue
        for t in range(s):
            w.cells[MEAN, i, t] += off
        known[REFERENCE] += off - known[SLOW]
        known[SLOW] = known[LAST_RESIDUAL] = known[DISTANCE] = known[DISTANCE_BEFORE] = 0.0
        known[LAST_TIME] = -1.0
    return True
