"""Slow distances of channels from the others show offsets and drifts that set in slowly and last.

The means follow the seasons within weeks, and with them a sensor that drifts. So every channel has a slow reference,
ref, of its level L (a period's mean reading on its variable's scale, completed where nothing is trusted), and slow
weights w of the other members of its partition. Its distance from them,

    R = (L - ref) - sum_k w_k (L_k - ref_k),

hardly moves with the seasons, and shows all of an offset or a drift. It is smoothed over about eight periods; how far
it usually wanders, over this channel's past and that of a median one, is the scale on which it is judged. Where it is
beyond that, a fault begins: the mean is set back by what it followed of the distance, and hypotheses of the fault
continue from there.
"""

from __future__ import annotations

import math

import numpy as np

from sensormend.model.compiling import allocating, compiled, entry
from sensormend.model.hypotheses import STUCK, WEEK
from sensormend.model.scales import forward

from sensormend.model.arrays import (  # isort: skip
    AGE, DISTANCE, DISTANCE_SQUARE, DISTANCE_TWICE, DISTANCE_USUAL, DISTANT, DOUBTFUL, FAULT_SIZE, HIGH, LASTING,
    LAST_RESIDUAL, LEVEL_AGE, LOW, MIN_OTHERS, ONSET, OWN_DISTANCE, REFERENCE, SLOW_LEVEL, TYPICAL, WRONG,
)  # fmt: skip

__all__ = ["learn_weights", "transfer_weights", "update_distances", "usual_distance"]

FOLLOWED_FROM = 25.0
"""Periods after which a channel's distance from the others is followed."""
JUDGED_FROM = 45.0
"""Periods after which it is judged."""
SMOOTHING = 0.12
"""Of the distance, per period."""
SLOW_RATE = 0.005
"""Rate per period at which references, and what is known of usual distances, move: about 200 periods."""
WEIGHT_RATE = 0.01
"""Rate per period at which the weights follow."""
DELAY = 0.05
"""Rate per period at which the usual distance follows what it is: a drift must not become usual while it is judged."""
OWN_SMOOTHING = 0.3
"""Of the distance of wrong readings, per period."""
END_DISTANCE = 2.0
"""Usual distances below which a fault that lasts is over."""
RETURN_FROM, RETURN_SHARE = 1.25, 0.75
"""Usual distances from which a channel was wrong before, if an offset brings it nearer than this share of them."""
OVERSHOOT_FROM, OVERSHOOT_SHARE = 2.0, 1.1
"""The same, for a return that overshoots: the reference has followed some of a fault that was not detected."""
MAX_SQUARE = 4.5
"""Mean squares, its own and the median channel's, beyond which a distance does not widen what is usual."""
MIN_WEIGHT = 0.02
"""Slow weight from which another channel's fault may be what moves a distance."""
DOUBTFUL_FROM, DOUBTFUL_UNTIL = 4.0, 2.75
"""Usual distances from which a channel is doubtful, and until which it stays so."""
MIN_USUAL = 0.022
"""Of a channel's standard deviation, what its usual distance is at least. Barometers agree better for weeks, and then
do not."""
POOLED_PERIODS = 60.0
"""Periods of its own past that count as much as the median channel's."""
SLOW_LIMIT = 5.0
"""Usual distances from which a fault begins. On sound networks of several years, simulated and real, one per ten
sensor-years or fewer are beyond it."""


@compiled
def learn_weights(w, network, p, m, i):
    """Move the slow weights of owned member i towards those of its prediction, -W_ij / W_ii."""
    rate = max(WEIGHT_RATE, 1.0 / (w.stats[i, AGE] + 1.0))
    row = network.weights[p, i]
    for j in range(m):
        if j != i:
            row[j] += rate * (-w.precision[i, j] / w.precision[i, i] - row[j])


@compiled
def usual_distance(stats, typical, variance):
    """Return the usual distance of a channel, `typical` being the mean square of a median one.

    It is no less than a small share of how far the channel moves, whose `variance` is given.
    """
    periods = min(stats[AGE], 1.0 / SLOW_RATE)
    square = (POOLED_PERIODS * typical + periods * stats[DISTANCE_USUAL]) / (POOLED_PERIODS + periods)
    return math.sqrt(max(square, MIN_USUAL * MIN_USUAL * variance))


@compiled
def _own_level(network, period, c):
    """Return the level of a channel's readings as they are, right or wrong."""
    s = period.readings.shape[1]
    v = network.variables[network.variable[c]]
    total, mean, n = 0.0, 0.0, 0
    for t in range(s):
        mean += network.mean[c, t] / s
        if math.isfinite(period.readings[c, t]):
            total += forward(period.readings[c, t], v) - network.mean[c, t]
            n += 1
    return mean + total / n


@compiled
def _restart_level(network, period, c):
    """Restart the level of a channel without others to compare it with after a week, if such readings were ever seen.

    Otherwise one fault that was none would stand for good, its estimate further behind the season every day. A channel
    that is stuck keeps its fault.
    """
    stats, s = period.learned.stats[c], period.readings.shape[1]
    end = float(period.start + s)
    n_observed = n_bad = 0
    for t in range(s):
        n_observed += math.isfinite(period.readings[c, t])
        n_bad += period.estimates.code[c, t] >= DOUBTFUL
    if 2 * n_bad < n_observed or n_observed == 0 or period.estimates.kind[c] == STUCK:
        stats[ONSET] = end
        return
    v = network.variables[network.variable[c]]
    low, high = forward(v[LOW], v), forward(v[HIGH], v)
    margin = 0.25 * (high - low)
    level = _own_level(network, period, c)
    if end - stats[ONSET] > WEEK * s and low - margin < level < high + margin:
        mean = 0.0
        for t in range(s):
            mean += period.learned.mean[c, t] / s
        stats[FAULT_SIZE] = level - mean
        _close_fault(period, c)


@compiled
def _close_fault(period, c):
    """End an offset or a drift with this period: its size goes into the mean."""
    stats = period.learned.stats[c]
    stats[LASTING] = np.inf
    for t in range(period.learned.mean.shape[1]):
        period.learned.mean[c, t] += stats[FAULT_SIZE]
    stats[LAST_RESIDUAL] -= stats[FAULT_SIZE]
    stats[SLOW_LEVEL] = 0.0


@entry
def transfer_weights(old, weights, new, numbers):
    """Return the slow weights of new partitions, and which channels have lost some.

    `numbers` has the old number of each channel, -1 where it has none.
    """
    members, owned, size = new.members, new.owned, new.size
    max_owned = 0
    for p in range(len(owned)):
        max_owned = max(max_owned, owned[p])
    out = np.zeros((members.shape[0], max_owned, members.shape[1]), np.float32)
    lost = np.zeros(len(numbers), np.bool_)
    position = np.full(len(old.home), -1, np.int32)
    for p in range(len(owned)):
        for i in range(owned[p]):
            c = members[p, i]
            old_number = numbers[c]
            if old_number < 0:
                continue
            home, row = old.home[old_number], old.place[old_number]
            for j in range(old.size[home]):
                position[old.members[home, j]] = j
            remaining = 0.0
            for j in range(old.size[home]):
                remaining += abs(weights[home, row, j])
            for j in range(size[p]):
                old_other = numbers[members[p, j]]
                if old_other >= 0 and position[old_other] >= 0:
                    out[p, i, j] = weights[home, row, position[old_other]]
                    remaining -= abs(out[p, i, j])
            lost[c] = remaining > 0.01
            for j in range(old.size[home]):
                position[old.members[home, j]] = -1
    return out, lost


@entry
def update_distances(network, period):
    """Update the distances of all channels after a period; note where a fault begins that lasts, or ends."""
    n = len(period.readings)
    stats = period.learned.stats
    distance = _distances(network, period)
    ratio = np.zeros(n)
    for p in range(len(network.owned)):
        for i in range(network.owned[p]):
            c = network.members[p, i]
            stats[c, LASTING] = 0.0
            if network.size[p] <= MIN_OTHERS:
                _restart_level(network, period, c)
            elif stats[c, AGE] >= FOLLOWED_FROM:
                ratio[c] = _update_distance(network, period, c, distance[c], network.moments[p, i, i])
    _begin_faults(network, period, ratio)
    for c in range(n):
        if stats[c, AGE] > 0.0:
            rate = max(SLOW_RATE, 1.0 / stats[c, AGE])
            stats[c, REFERENCE] += rate * (period.learned.level[c] - stats[c, REFERENCE])


@allocating
def _distances(network, period):
    """Return the distance of every channel from the others in this period."""
    stats, n = period.learned.stats, len(period.readings)
    shift, distance = np.zeros(n), np.zeros(n)
    for c in range(n):
        if stats[c, AGE] > 0.0:
            shift[c] = period.learned.level[c] - stats[c, REFERENCE]
    for p in range(len(network.owned)):
        for i in range(network.owned[p]):
            total = shift[network.members[p, i]]
            for j in range(network.size[p]):
                total -= network.weights[p, i, j] * shift[network.members[p, j]]
            distance[network.members[p, i]] = total
    return distance


@compiled
def _update_distance(network, period, c, distance, variance):
    """Update the distance of one channel; return how many usual ones it is, 0 where that is not judged."""
    stats, s = period.learned.stats[c], period.readings.shape[1]
    end = float(period.start + s)
    if stats[ONSET] < 0.0:
        stats[REFERENCE] += distance - stats[DISTANCE]
        stats[ONSET] = end
        return 0.0
    if stats[LEVEL_AGE] < FOLLOWED_FROM:
        # Its level started over lately: its reference is the mean of what it has been since.
        stats[REFERENCE] += distance / max(stats[LEVEL_AGE], 1.0)
        stats[DISTANCE] = stats[DISTANCE_TWICE] = 0.0
        stats[ONSET] = end
        return 0.0
    n_observed = n_wrong = 0
    for t in range(s):
        n_observed += 1 if math.isfinite(period.readings[c, t]) else 0
        n_wrong += 1 if period.estimates.code[c, t] >= WRONG else 0
    typical = network.variables[network.variable[c], TYPICAL]
    if stats[FAULT_SIZE] != 0.0 and n_observed > 0:
        # Where it began or ended in this period, the level is neither its own nor what it was.
        _update_fault(network, period, c, distance, usual_distance(stats, typical, variance), 2 * n_wrong >= n_observed)
        return 0.0
    if 2 * n_wrong >= n_observed:
        # What is wrong, or silent, is estimated: its level holds nothing of its own.
        return 0.0
    age = stats[AGE]
    rate = max(SMOOTHING, 1.0 / (age - FOLLOWED_FROM + 1.0))
    stats[DISTANCE] += rate * (distance - stats[DISTANCE])
    stats[DISTANCE_TWICE] += rate * (stats[DISTANCE] - stats[DISTANCE_TWICE])
    square = stats[DISTANCE] ** 2
    if age >= JUDGED_FROM:
        square = min(square, MAX_SQUARE * (stats[DISTANCE_SQUARE] + typical))
    rate = max(SLOW_RATE, 1.0 / (age - FOLLOWED_FROM + 1.0))
    stats[DISTANCE_SQUARE] += rate * (square - stats[DISTANCE_SQUARE])
    stats[DISTANCE_USUAL] += max(DELAY, rate) * (stats[DISTANCE_SQUARE] - stats[DISTANCE_USUAL])
    usual = usual_distance(stats, typical, variance)
    if abs(stats[DISTANCE]) < usual:
        stats[ONSET] = end
    if age < JUDGED_FROM or usual <= 0.0:
        return 0.0
    ratio = abs(stats[DISTANCE]) / usual
    stats[DISTANT] = 1.0 if ratio > (DOUBTFUL_UNTIL if stats[DISTANT] > 0.0 else DOUBTFUL_FROM) else 0.0
    return ratio


@compiled
def _update_fault(network, period, c, distance, usual, mostly_wrong):
    """Update the distance of a channel with an offset or a drift, and end that where it is back.

    `mostly_wrong` is whether most of the period's readings are in it.
    """
    stats, s = period.learned.stats[c], period.readings.shape[1]
    continued = network.stats[c, FAULT_SIZE] != 0.0 or network.stats[c, LASTING] != 0.0
    if not continued:
        stats[ONSET] = float(period.start)
    if not mostly_wrong:
        return
    lasted = float(period.start + s) - stats[ONSET]
    own = distance + _own_level(network, period, c) - period.learned.level[c]
    if lasted <= 2.0 * s:
        stats[OWN_DISTANCE] = own
    stats[OWN_DISTANCE] += OWN_SMOOTHING * (own - stats[OWN_DISTANCE])
    size, size_before = abs(stats[OWN_DISTANCE]), abs(stats[DISTANCE])
    ended = lasted > WEEK * s and size < END_DISTANCE * usual
    # It was wrong before, without being detected.
    returned = size_before > RETURN_FROM * usual and size < RETURN_SHARE * size_before
    returned = returned or (size_before > OVERSHOOT_FROM * usual and size < OVERSHOOT_SHARE * size_before)
    if stats[AGE] >= JUDGED_FROM and continued and (ended or returned):
        _close_fault(period, c)
        stats[DISTANCE] = stats[DISTANCE_TWICE] = stats[OWN_DISTANCE]


@allocating
def _begin_faults(network, period, ratio):
    """Note a fault of every channel that is too many usual distances away, and farther than those it is compared with.

    One that is wrong moves the distance of those that are compared with it: these are set right.
    """
    n, s = period.readings.shape
    stats, members, weights = period.learned.stats, network.members, network.weights
    size = np.zeros(n)
    smoothed = np.zeros((n, 2))
    for p in range(len(network.owned)):
        for i in range(network.owned[p]):
            c = members[p, i]
            if ratio[c] <= SLOW_LIMIT:
                continue
            is_farthest = True
            for j in range(network.size[p]):
                is_farthest = is_farthest and (ratio[members[p, j]] <= ratio[c] or abs(weights[p, i, j]) < MIN_WEIGHT)
            if is_farthest:
                # What is smoothed lags behind a drift; smoothed twice, by twice as much.
                smoothed[c, 0], smoothed[c, 1] = stats[c, DISTANCE], stats[c, DISTANCE_TWICE]
                size[c] = 2.0 * stats[c, DISTANCE] - stats[c, DISTANCE_TWICE]
    for p in range(len(network.owned)):
        for i in range(network.owned[p]):
            c = members[p, i]
            if size[c] == 0.0:
                for j in range(network.size[p]):
                    other = members[p, j]
                    if size[other] != 0.0:
                        stats[c, DISTANCE] += weights[p, i, j] * smoothed[other, 0]
                        stats[c, DISTANCE_TWICE] += weights[p, i, j] * smoothed[other, 1]
                continue
            # The mean is set back, so that the residual shows all of the distance.
            shift = size[c] - stats[c, SLOW_LEVEL]
            for t in range(s):
                period.learned.mean[c, t] -= shift
            stats[c, LASTING] = stats[c, OWN_DISTANCE] = size[c]
            stats[c, DISTANT] = 0.0
            stats[c, LAST_RESIDUAL] += shift
            stats[c, SLOW_LEVEL] = stats[c, DISTANCE] = stats[c, DISTANCE_TWICE] = 0.0
