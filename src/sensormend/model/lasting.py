"""Faults that set in slowly and last: each channel's distance from a few others, against a reference that hardly moves.

The means follow the seasons within weeks, and with them a sensor that drifts. So every channel has a slow reference,
ref, of its level L (a period's mean reading on its variable's scale, completed where nothing is trusted), and slow
weights w of the few channels that say most of it. Its distance from them,

    R = (L - ref) - sum_k w_k (L_k - ref_k),

hardly moves with the seasons, and shows an offset or a drift whole. It is smoothed over about eight periods; how far it
usually wanders, over this channel's past and that of a median one, is the scale on which it is judged. Where it is
beyond that, a fault begins: the mean is set back by what it followed of the distance, and the judge goes on from there.
"""

from __future__ import annotations

import math

import numpy as np

from sensormend.model.compiling import compiled, entry
from sensormend.model.layout import (
    AGE,
    DISTANCE,
    DISTANCE_SQUARE,
    DISTANCE_USUAL,
    LAST_RESIDUAL,
    LASTING,
    LEVEL_AGE,
    ONSET,
    REFERENCE,
    RELATED,
    SLOW,
    TYPICAL,
    WRONG,
)

__all__ = ["follow_distances", "learn_weights", "usual_distance"]

RELATED_FROM = 10.0
"""Periods after which the channels that a channel's level is compared with are chosen."""
JUDGED_FROM = 25.0
"""Periods after which its distance from them is judged."""
SMOOTHING = 0.12
"""Of the distance, per period."""
SLOW_RATE = 0.005
"""Rate per period at which references, and what is known of usual distances, move: about 200 periods."""
WEIGHT_RATE = 0.01
"""Rate per period at which the weights follow."""
DELAY = 0.05
"""Rate per period at which the usual distance follows what it is: a drift must not become usual while it is judged."""
POOLED = 60.0
"""Periods of its own past that count as much as the median channel's."""
SLOW_LIMIT = 4.75
"""Usual distances from which a fault begins. On sound networks of several years, simulated and real, one per ten
sensor-years or fewer are beyond it."""


@compiled
def learn_weights(w, network, new, p, m, i):
    """Choose the channels that say most of member i, or follow their weights."""
    c = network.members[p, i]
    related, weights = network.related, network.weights
    total = 0.0
    for j in range(m):
        w.column[j] = 0.0 if j == i else -w.precision[i, j] / w.precision[i, i]
        total += w.column[j]
    count = min(RELATED, m - 1)
    there = 0
    for k in range(count):
        w.index[k] = -1
        for j in range(m):
            if related[c, k] == network.members[p, j]:
                w.index[k] = j
                there += 1
                break
    chosen = there == count
    if not chosen:
        if related[c, 0] != -1:
            # Others than before: the distance goes on from where it is.
            new[ONSET] = -1.0
        for k in range(count):
            best = -1
            for j in range(m):
                taken = j == i
                for before in range(k):
                    taken = taken or w.index[before] == j
                if not taken and (best < 0 or abs(w.column[j]) > abs(w.column[best])):
                    best = j
            w.index[k] = best
    part = 0.0
    for k in range(count):
        part += w.column[w.index[k]]
    # The few stand for all of them.
    factor = max(0.5, min(2.0, total / part)) if part > 0.1 * abs(total) and total > 0.0 else 1.0
    rate = WEIGHT_RATE if chosen else 1.0
    for k in range(count):
        related[c, k] = network.members[p, w.index[k]]
        weights[c, k] += rate * (factor * w.column[w.index[k]] - weights[c, k])


@compiled
def usual_distance(known, typical):
    """Return the usual distance of a channel, `typical` being the mean square of a median one."""
    own = min(known[AGE], 1.0 / SLOW_RATE)
    return math.sqrt((POOLED * typical + own * known[DISTANCE_USUAL]) / (POOLED + own))


@compiled
def _distance(known, level, related, weights, c):
    """Return the distance of a channel from those that it is compared with."""
    total = level[c] - known[c, REFERENCE]
    for k in range(RELATED):
        other = related[c, k]
        if other >= 0:
            total -= weights[c, k] * (level[other] - known[other, REFERENCE])
    return total


@entry
def follow_distances(network, period):
    """Follow the distances of all channels after a period; note where a fault begins that lasts."""
    n, s = period.readings.shape
    known, related, weights = period.learned, network.related, network.weights
    distance = np.zeros(n)
    for c in range(n):
        if known[c, AGE] >= RELATED_FROM and related[c, 0] >= 0:
            distance[c] = _distance(known, period.level, related, weights, c)
    beyond = np.zeros(n)
    end = float(period.start + s)
    for c in range(n):
        typical = network.variables[network.variable[c], TYPICAL]
        age = known[c, AGE]
        known[c, LASTING] = 0.0
        if age < RELATED_FROM or related[c, 0] < 0:
            continue
        if known[c, ONSET] < 0.0:
            known[c, REFERENCE] += distance[c] - known[c, DISTANCE]
            known[c, ONSET] = end
            continue
        if known[c, LEVEL_AGE] < RELATED_FROM:
            # Its level started over lately: its reference is the mean of what it has been since.
            known[c, REFERENCE] += distance[c] / max(known[c, LEVEL_AGE], 1.0)
            known[c, DISTANCE], known[c, ONSET] = 0.0, end
            continue
        observed = wrong = 0
        for t in range(s):
            observed += 1 if math.isfinite(period.readings[c, t]) else 0
            wrong += 1 if period.code[c, t] >= WRONG else 0
        if 2 * wrong >= observed:
            # What is wrong, or silent, is estimated: its level says nothing of its own.
            known[c, DISTANCE] *= 1.0 - SMOOTHING
            known[c, ONSET] = end
            continue
        rate = max(SMOOTHING, 1.0 / (age - RELATED_FROM + 1.0))
        known[c, DISTANCE] += rate * (distance[c] - known[c, DISTANCE])
        square = known[c, DISTANCE] ** 2
        if age >= 2.0 * RELATED_FROM:
            square = min(square, 4.5 * (known[c, DISTANCE_SQUARE] + typical))
        rate = max(SLOW_RATE, 1.0 / (age - RELATED_FROM + 1.0))
        known[c, DISTANCE_SQUARE] += rate * (square - known[c, DISTANCE_SQUARE])
        rate = max(DELAY, rate)
        known[c, DISTANCE_USUAL] += rate * (known[c, DISTANCE_SQUARE] - known[c, DISTANCE_USUAL])
        usual = usual_distance(known[c], typical)
        if abs(known[c, DISTANCE]) < usual:
            known[c, ONSET] = end
        if age >= JUDGED_FROM and usual > 0.0:
            beyond[c] = abs(known[c, DISTANCE]) / usual
    begun = np.zeros(n)
    for c in range(n):
        worst = beyond[c] > SLOW_LIMIT
        for k in range(RELATED):
            # One that is wrong moves the distance of those that are compared with it.
            other = related[c, k]
            worst = worst and (other < 0 or beyond[other] < beyond[c])
        if worst:
            begun[c] = known[c, DISTANCE]
    for c in range(n):
        if begun[c] != 0.0:
            # The mean is set back to where the distance shows whole.
            back = begun[c] - known[c, SLOW]
            for t in range(s):
                period.mean[c, t] -= back
            known[c, LASTING] = begun[c]
            known[c, LAST_RESIDUAL] += back
            known[c, SLOW] = known[c, DISTANCE] = 0.0
            continue
        for k in range(RELATED):
            other = related[c, k]
            if other >= 0:
                known[c, DISTANCE] += weights[c, k] * begun[other]
    for c in range(n):
        if known[c, AGE] > 0.0:
            rate = max(SLOW_RATE, 1.0 / known[c, AGE])
            known[c, REFERENCE] += rate * (period.level[c] - known[c, REFERENCE])
