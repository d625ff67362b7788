"""Wander is how far a sound channel moves away from what the others say, over any span of time, measured out of sample.

The level L of a channel is a period's mean reading on its variable's scale, completed where nothing is trusted. Over a
span of T periods the others say that it changes by dP, with slow weights w of the other members of its partition, and
what it does beyond that is dR:

    dP = sum_k w_k (L_k(now) - L_k(T ago)),        dR = L(now) - L(T ago) - dP

How large dR is for sound channels is a structure function: its root mean square, S(T), in units of how far the network
moves, sqrt(dP^2 + m_T^2) with m_T the variable's mean |dP|, since predictions are worse the farther the network goes.
It is learned at spans of 1, 2, 4 ... 128 periods on levels that came after the weights, of each channel and of its
variable. A channel whose past has few independent spans knows little: the limit is that of Student's t,

    limit(T) = t(Z + Z' / support, n) S(T) sqrt(1 + 3 / support) sqrt(dP^2 + m_T^2),

n being the number of independent spans that S(T) is from, and support that of the others that the prediction rests on.

A change of a channel beyond the limit of its span is wrong, below a part of it the new level, and doubtful between.
Levels are kept as means over 1, 2, 4 ... 32 periods, eight of each, so that memory is bounded and the level of T
periods ago is known to within about T / 4.
"""

from __future__ import annotations

import math

import numpy as np

from sensormend.model.arrays import (  # isort: skip
    DOUBTFUL, MIN_OTHERS, REFERENCE_COUNT, WELL_EXPLAINED, WRONG, is_counted, level_error, median, rests,
)  # fmt: skip
from sensormend.model.compiling import allocating, compiled, entry
from sensormend.model.hypotheses import WEEK
from sensormend.model.scales import forward, slope

from sensormend.model.records import (  # isort: skip
    SURE, DRIFT, ESTABLISHED, GAIN, NOISE, NOT_JUDGED, OFFSET, SOUND, STUCK, UNSURE,
)  # fmt: skip

__all__ = [
    "LAGS",
    "RING",
    "SCALES",
    "gain_limit",
    "learn_weights",
    "move_weights",
    "student",
    "transfer_weights",
    "update_wander",
    "usual_wander",
]

SCALES, RING = 6, 8
"""Levels are kept as means over 2^0 ... 2^5 periods, the last eight of each: 224 periods back."""
LAGS = 8
"""Spans of 2^0 ... 2^7 periods, at which wander is learned."""
FIRST_LAG = 3
"""The first of these over which the change of a channel without a fault is judged: about a week."""
LONGEST = 7 * 2 ** (SCALES - 1)
"""Periods: the longest span whose beginning is still known."""
ALL = 2.0**30
"""Periods: as long as the history."""
FOLLOWED_FROM = 25.0
"""Periods after which slow changes of a channel are judged: with weights of ten periods, twice as many false faults."""
YOUNG = 100.0
"""Periods, over the number of others that its prediction rests on, before which a fault that lasts must not have begun
for it to be wrong."""
MIN_SPAN = 0.25
"""Periods from which the change of a channel with a fault is judged."""
WEIGHT_RATE = 0.01
"""Rate per period at which the slow weights follow."""
RATIO_SMOOTHING, STILL_WRONG = 0.25, 0.7
"""Of the ratio of a change to its limit, per period; and the ratio down to which a fault that was wrong stays so."""
OWN_SMOOTHING = 0.12
"""Of the change of wrong readings, per period."""
PRIOR, PRIOR_SPANS = 0.5, 4.0
"""S(T) before anything is known, and the number of spans that this counts as. Networks have .01 (pressure) to 1 (river
chemistry)."""
FEW_OTHERS = 3.0
"""Over the number of others that a prediction rests on, by how much the square of S(T) is more than was learned: twice
with one other, 1.4 times S(T) with three, 1.14 with ten."""
POOLED_SPANS = 4.0
"""Independent spans of its own past that count as much as those of all channels of its variable."""
Z, Z_SUPPORT = 2.3, 3.0
"""Standard deviations that the limit is of a normal variable: the first, and the second over the number of others that
a prediction rests on. Their errors have more in common the fewer they are."""
OWN_RANGE = 10.0
"""Over the square of the number of others, by how much more the limit is where the channel was at that level before:
3.5 times with two others, 1.6 with four, 1.1 with ten."""
MAX_SPREAD = 0.7
"""S(T) up to which the others explain a channel over a span: beyond it a change is doubtful at most."""
RETURN_SHARE = 0.2
"""The share of how far it was from the others within which a channel has come back to them."""
REFUTED_SHARE = 0.1
"""The share of its range by which a channel would be farther from the others than it is, for a fault to be none."""
REFUTED_CHANGE, REFUTED_SUPPORT = 0.5, 3.0
"""The share of the change of its estimate, beside those that predict it, below which a channel reads as before; and the
support from which these say so."""
BEGIN_FROM, STILL_DISTANT = 1.5, 0.8
"""Limits from which a slow change is a fault, and down to which one that made a channel doubtful does so."""
ACCEPTED_SHARE, COMMON_SHARE = 0.25, 0.6
"""The share of the limit below which the change of a fault is the new level, and from which it counts as one that
others share."""
ROUGH_DOUBT = 3.0
"""Limits below which noise or a gain of more than a week may be the season's, and any fault of a young channel."""
LONG_SUPPORT = 15.0
"""Over the square of the number of others that its prediction rests on, by how many limits more a fault must be off
after a week, or where it sets in slowly: three times as far with 2.7, 1.15 times with ten. Of faults of more than a
week in real archives of few sensors most were none."""
SLOW_SUPPORT = 6.0
"""The number of others below which what did not begin with a jump is doubtful at most after a week: of such faults in
real archives, most of them rivers and reservoirs, one in six was one."""
FIRST_WEEK, FIRST_WEEK_SUPPORT = 0.4, 22.0
"""The part of the limit that a fault needs in its first week, and what is added over the square of the number of
others, up to 1: 0.6 with ten others, all of it with up to six. Many others tell a fault before the wander does."""
JUMP = 2.0
"""Periods within which a jump that is farther off than that is established, and stays wrong after a week."""
SAME_TIME = 0.1
"""Periods between the beginnings of two faults within which they began together."""
MONTH = 30
"""Periods after which a fault that began when its channel was young, or without others, is the new level."""
MIN_MOVE = 0.1
"""Of a channel's standard deviation, what the limit is at least. Barometers agree better for weeks, and then do not."""
MIN_WEIGHT = 0.02
"""Slow weight from which another channel's fault may be what moves a channel."""
MAX_SQUARE = 4.0
"""Mean squares beyond which one span does not count more: a fault that is not detected must not become usual."""
DISTANT_RATE = 0.1
"""How much slower a channel that is doubtful is learned from."""
SAMPLED = 2000
"""Channels of a variable whose median is taken, in a large network."""


@compiled
def student(z, n):
    """Return the quantile of Student's t with n degrees of freedom that z is of a normal variable.

    Wallace's approximation (1959), within a tenth from 3 degrees of freedom on up to 3.3, from 6 on up to 5.3.
    """
    n = max(n, 2.0)
    return math.sqrt(n * (math.exp(min(z * z * (n - 5.0 / 6.0) / (n - 2.0 / 3.0 + 0.1 / n) ** 2, 50.0)) - 1.0))


@compiled
def learn_weights(w, network, p, m, i):
    """Move the slow weights of owned member i towards those of its prediction, -W_ij / W_ii."""
    rate = max(WEIGHT_RATE, 1.0 / (w.stats[i].age + 1.0))
    row = network.weights[p, i]
    for j in range(m):
        if j != i:
            row[j] += rate * (-w.precision[i, j] / w.precision[i, i] - row[j])


@compiled
def _few_others(support):
    """Return by how many times a slow fault must be farther off where its prediction rests on few others."""
    return 1.0 + LONG_SUPPORT / (support * support)


@compiled
def _spread(square, pooled, age, span, out):
    """Write S(T) of a channel, of how many independent spans it is known, and m_T.

    `square` has its mean squares by lag, `pooled` those of its variable: (lag, 3), m_T, mean square and spans. A span
    longer than any that was seen is extrapolated by the growth over the last ones.
    """
    lag, seen = 0, 0
    while lag < LAGS - 1 and 2.0 ** (lag + 1) <= span:
        lag += 1
    while seen < lag and pooled[seen + 1, 2] >= 4.0:
        seen += 1
    own_spans = max(min(age, 200.0) / 2.0**seen - 1.0, 0.0)
    spans = pooled[seen, 2]
    # Networks differ by orders of magnitude, so what is known and what is not are averaged by their logarithms.
    known = spans * math.log(max(pooled[seen, 1], 1e-12))
    common = math.exp((known + 2.0 * PRIOR_SPANS * math.log(PRIOR)) / (spans + PRIOR_SPANS))
    mean_square = (own_spans * square[seen] + POOLED_SPANS * common) / (own_spans + POOLED_SPANS)
    growth = 1.0
    if lag > seen:
        exponent = 0.3
        if seen >= 2 and pooled[seen - 2, 1] > 0.0:
            exponent = 0.25 * math.log(max(pooled[seen, 1], 1e-12) / pooled[seen - 2, 1]) / math.log(2.0)
            exponent = max(0.1, min(0.6, exponent))
        growth = (span / 2.0**seen) ** exponent
    out[0] = math.sqrt(mean_square) * growth
    out[1] = 1.0 + own_spans + POOLED_SPANS * spans / (spans + 2.0 * PRIOR_SPANS)
    out[2] = pooled[seen, 0]


@compiled
def usual_wander(square, pooled, age, span, scratch):
    """Return how far a channel usually wanders over a span while the network moves as it usually does."""
    _spread(square, pooled, age, span, scratch)
    return scratch[0] * scratch[2]


@compiled
def gain_limit(square, pooled, age, support, scratch):
    """Return how far from 1 the gain of a channel is that cannot be what the others fail to say of its movement."""
    _spread(square, pooled, age, 1.0, scratch)
    spread = scratch[0] * math.sqrt(1.0 + FEW_OTHERS / support)
    return student(Z + Z_SUPPORT / support, scratch[1]) * spread


@compiled
def _push_level(history, level, n, is_first):
    """Add the level of period n to a channel's history; all of it is the first level at first."""
    if is_first:
        for k in range(SCALES):
            for b in range(RING):
                history[k, b] = level
        return
    history[0, n % RING] = level
    k = 1
    while k < SCALES and (n + 1) % 2**k == 0:
        b = (n + 1) // 2 ** (k - 1)
        history[k, ((n + 1) // 2**k - 1) % RING] = 0.5 * (
            history[k - 1, (b - 1) % RING] + history[k - 1, (b - 2) % RING]
        )
        k += 1


@compiled
def _scale_of(span):
    """Return the scale of the history that has the level of so many periods ago."""
    k = 0
    while k < SCALES - 1 and span > 7 * 2**k:
        k += 1
    return k


@compiled
def _change(history, n, span, k):
    """Return by how much a channel's level has changed over a span that ends with period n."""
    width = min(2**k, RING)
    now = 0.0
    for back in range(width):
        now += history[0, (n - back) % RING]
    before = history[k, ((n - span + 1) // 2**k - 1) % RING]
    return now / width - before


@compiled
def _own_level(network, period, c, begin):
    """Return the level of a channel's readings from a slot on as they are, right or wrong; NaN where there are none."""
    s = period.readings.shape[1]
    v = network.variables[network.variable[c]]
    total, mean, n = 0.0, 0.0, 0
    for t in range(s):
        mean += network.mean[c, t] / s
        if t >= begin and math.isfinite(period.readings[c, t]):
            total += forward(period.readings[c, t], v) - network.mean[c, t]
            n += 1
    return mean + total / n if n else np.nan


@compiled
def _restart_level(network, period, wander, c, n):
    """Restart the level of a channel without others to compare it with after a week, if such readings were ever seen.

    After a month it is restarted anyway. Otherwise one fault that was none would stand for good, its estimate further
    behind the season every day. A channel that is stuck keeps its fault.
    """
    stats, s = period.learned.stats[c], period.readings.shape[1]
    now = float(period.start // s)
    n_observed = n_bad = 0
    for t in range(s):
        n_observed += math.isfinite(period.readings[c, t])
        n_bad += period.estimates.code[c, t] >= DOUBTFUL
    if 2 * n_bad < n_observed or n_observed == 0 or period.estimates.kind[c] == STUCK:
        stats.onset = now + 1.0
        return
    v = network.variables[network.variable[c]]
    low, high = forward(v.low, v), forward(v.high, v)
    margin = 0.25 * (high - low)
    level = _own_level(network, period, c, 0)
    lasted = now + 1.0 - stats.onset
    if lasted > MONTH or (lasted > WEEK and low - margin < level < high + margin):
        mean = 0.0
        for t in range(s):
            mean += period.learned.mean[c, t] / s
        _close_fault(period, wander, c, n, ALL, level - mean)


@compiled
def _shift_history(history, n, span, size):
    """Add to the levels of a span that ends with period n."""
    for k in range(SCALES):
        width = 2**k
        last = (n + 1) // width - 1
        for back in range(RING):
            begin = (last - back) * width
            share = min(1.0, max(0.0, (begin + width - (n + 1 - span)) / width))
            history[k, (last - back) % RING] += share * size


@compiled
def _close_fault(period, wander, c, n, span, size):
    """Take the level of a channel as right from now on: the size of its fault goes into its mean, and into its history.

    What it did since was usual for it, so its residual may vary as it did, and it takes more to begin a fault. The
    levels of the span over which it had the fault were completed without it; over a longer span the level starts over,
    and a change that is not usual is not seen again.
    """
    stats = period.learned.stats[c]
    stats.has_ended = True
    for t in range(period.learned.mean.shape[1]):
        period.learned.mean[c, t] += size
    _shift_history(wander.history[c], n, span, size)
    stats.last_residual -= size
    stats.slow_level, stats.judgement = 0.0, NOT_JUDGED
    if stats.fault_square > stats.variance:
        factor = min(stats.fault_square / max(stats.variance, 1e-30), 16.0)
        stats.variance *= factor
        stats.sigma *= math.sqrt(factor)
    stats.usual_log_ratio += 1.0


def transfer_weights(old, weights, new, numbers):
    """Return the slow weights of new partitions, and which channels have lost some.

    `numbers` has the old number of each channel, -1 where it has none.
    """
    count, width = new.members.shape
    out, lost = np.zeros((count, new.owned.max(), width), np.float32), np.zeros(len(numbers), np.bool_)
    move_weights(old, weights, new, numbers, out, lost)
    return out, lost


@entry
def move_weights(old, weights, new, numbers, out, lost):
    """Write the slow weights of new partitions into `out`, which is 0, and which channels have lost some."""
    members, owned, size = new.members, new.owned, new.size
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


@compiled
def _predicted_change(network, wander, p, i, n, span, k):
    """Return dP, the change of owned member i that the others say; one without a history says that there is none."""
    total = 0.0
    for j in range(network.size[p]):
        history = wander.history[network.members[p, j]]
        weight = network.weights[p, i, j]
        if weight != 0.0 and j != i and math.isfinite(history[0, 0]):
            total += weight * _change(history, n, span, k)
    return total


@compiled
def _move(network, wander, p, j, n, span, k):
    """Return the change of member j over a span as others see it: one without a history says that there is none."""
    history = wander.history[network.members[p, j]]
    return _change(history, n, span, k) if math.isfinite(history[0, 0]) else 0.0


@compiled
def _write_moves(network, wander, p, j, n, moves):
    """Write how member j has changed over every span over which slow changes are judged, (lag, member)."""
    for lag in range(FIRST_LAG, LAGS):
        moves[lag, j] = _move(network, wander, p, j, n, 2**lag, _scale_of(2**lag))


@compiled
def _predicted_move(network, moves, p, i):
    """Return dP as `_predicted_change` does, from the changes of all members over the span."""
    weights, total = network.weights[p, i], 0.0
    for j in range(i):
        total += weights[j] * moves[j]
    for j in range(i + 1, network.size[p]):
        total += weights[j] * moves[j]
    return total


@compiled
def _predicted_by_readings(network, wander, own, p, i, n, span, k):
    """Return dP as the readings of the others say it, right or wrong; their levels where they have none."""
    total = 0.0
    for j in range(network.size[p]):
        c = network.members[p, j]
        weight = network.weights[p, i, j]
        if weight != 0.0 and j != i and math.isfinite(wander.history[c, 0, 0]):
            before = wander.history[c, k, ((n - span + 1) // 2**k - 1) % RING]
            now = own[c] if math.isfinite(own[c]) else wander.history[c, 0, n % RING]
            total += weight * (now - before)
    return total


@compiled
def _limit(network, period, wander, p, i, span, predicted, out):
    """Return the change of a channel over a span from which it is wrong, dP being given.

    Few others cannot say much, however well they did so far.
    """
    c = network.members[p, i]
    v, stats = network.variables[network.variable[c]], period.learned.stats[c]
    pooled = wander.pooled[network.variable[c]]
    _spread(wander.square[c], pooled, stats.level_age, span, out)
    movement = math.sqrt(predicted * predicted + out[2] * out[2])
    spread = out[0] * math.sqrt(1.0 + FEW_OTHERS / stats.support)
    limit = student(Z + Z_SUPPORT / stats.support, out[1]) * spread * movement
    # Nothing is a fault that is smaller than the step of the readings, the tolerance, or what a usual reading is off.
    step = stats.resolution if math.isfinite(stats.resolution) else 0.0
    least = max(step, v.tolerance) / slope(wander.history[c, 0, 0], v)
    least = max(least, MIN_MOVE * math.sqrt(network.moments[p, i, i]), math.sqrt(stats.variance))
    return max(limit, least)


@allocating
def _calibrate(network, period, wander, n, is_sound):
    """Learn the wander of sound channels at every lag that is due: each is sampled about four times within its span."""
    out, counts = np.zeros((wander.pooled.shape[0], 3)), np.zeros(wander.pooled.shape[0], np.int64)
    values = np.empty((wander.pooled.shape[0], min(SAMPLED, len(is_sound))))
    moves = np.empty(network.members.shape[1])
    for lag in range(LAGS):
        span = 2**lag
        every = max(1, span // 4)
        if n % every != 0 or n <= span:
            continue
        k = _scale_of(span)
        out[:] = 0.0
        counts[:] = 0
        for p in range(len(network.owned)):
            for j in range(network.size[p]):
                moves[j] = _move(network, wander, p, j, n, span, k)
            for i in range(network.owned[p]):
                c = network.members[p, i]
                if not is_sound[c] or period.learned.stats[c].level_age <= span + 2**k or network.size[p] <= MIN_OTHERS:
                    continue
                number = network.variable[c]
                predicted = _predicted_move(network, moves, p, i)
                m = wander.pooled[number, lag, 0]
                residual = moves[i] - predicted
                rho = residual * residual / (predicted * predicted + m * m + 1e-20) if m > 0.0 else -1.0
                if is_counted(network.standing[c]):
                    out[number, 0] += abs(predicted)
                    out[number, 1] += 1.0
                if rho >= 0.0:
                    usual = wander.pooled[number, lag, 1]
                    if wander.pooled[number, lag, 2] >= 4.0:
                        rho = min(rho, MAX_SQUARE * max(usual, wander.square[c, lag]))
                    age = max(period.learned.stats[c].level_age - span, 1.0)
                    rate = max(every / 200.0, every / (age + every))
                    if period.learned.stats[c].is_distant:
                        rate *= DISTANT_RATE
                    wander.square[c, lag] += rate * (rho - wander.square[c, lag])
                    if not is_counted(network.standing[c]):
                        continue
                    out[number, 2] += 1.0
                    if counts[number] < SAMPLED:
                        values[number, counts[number]] = wander.square[c, lag]
                        counts[number] += 1
        for number in range(wander.pooled.shape[0]):
            row = wander.pooled[number, lag]
            if out[number, 1] > 0.0:
                mean = out[number, 0] / out[number, 1]
                rate = max(every / 200.0, every / (n - span + every))
                row[0] = mean if row[0] == 0.0 else row[0] + rate * (mean - row[0])
            if out[number, 2] > 0.0:
                # Channels of one network do not wander independently: they count half.
                spans = 0.5 * out[number, 2] * every / span
                row[1] = median(values[number], counts[number])
                row[2] = min(row[2] + spans, 0.5 * out[number, 2] * 200.0 / span)


@entry
def update_wander(network, period, wander, n):
    """Update the history of all channels after period n, learn how they wander, and judge their changes."""
    count, s = period.readings.shape
    stats = period.learned.stats
    now = float(period.start // s)
    is_sound, ratio, size = np.zeros(count, np.bool_), np.zeros(count), np.zeros(count)
    onset, own = np.zeros(count), np.full(count, np.nan)
    scratch = np.zeros(3 + network.members.shape[1])
    moves = np.empty((LAGS, network.members.shape[1]))
    for c in range(count):
        n_observed = n_wrong = 0
        for t in range(s):
            n_observed += 1 if math.isfinite(period.readings[c, t]) else 0
            n_wrong += 1 if period.estimates.code[c, t] >= WRONG else 0
        is_sound[c] = n_observed > 0 and 2 * n_wrong < n_observed and stats[c].open_kind == SOUND
        stats[c].lasting, stats[c].has_ended = 0.0, False
        if stats[c].age > 0:
            own[c] = _own_level(network, period, c, max(0, int((stats[c].onset - now) * s)))
            is_first = stats[c].level_age <= 1 or math.isnan(wander.history[c, 0, 0])
            _push_level(wander.history[c], period.learned.level[c], n, is_first)
    _calibrate(network, period, wander, n, is_sound)
    for p in range(len(network.owned)):
        n_others, least_support = -1, 1.0
        for i in range(network.size[p]):
            c = network.members[p, i]
            if math.isfinite(own[c]):
                n_others += REFERENCE_COUNT if network.reference[c] else 1
                least_support = REFERENCE_COUNT if network.reference[c] else least_support
            _write_moves(network, wander, p, i, n, moves)
        middle = _middle(network, own, p, scratch)
        for i in range(network.owned[p]):
            c = network.members[p, i]
            if stats[c].age == 0 or network.reference[c]:
                continue
            if is_sound[c] and not stats[c].is_distant:
                _widen(wander.extremes[c], own[c], own[c] - middle)
            total = square = 0.0
            for j in range(network.size[p]):
                if j != i:
                    total += abs(network.weights[p, i, j])
                    square += network.weights[p, i, j] ** 2
            # Others that are not needed while a nearer one is there could stand in for it.
            support = max(total * total / square, math.sqrt(max(n_others, 0)), least_support) if square > 0.0 else 1.0
            # Where a prediction is the small difference of large parts, what is wrong with each of them is enlarged.
            support /= max(1.0, square)
            eta = level_error(stats[c], network.moments[p, i, i], s)
            stats[c].support = max(1.0, support * min(1.0, WELL_EXPLAINED / max(eta, 1e-6)))
            if n_others < MIN_OTHERS:
                _restart_level(network, period, wander, c, n)
            elif stats[c].open_kind != SOUND and stats[c].open_kind != STUCK:
                _judge_fault(network, period, wander, own, middle, p, i, n, n_others, ratio, scratch)
                size[c] = stats[c].own_distance
            else:
                _judge_sound(
                    network, period, wander, own, p, i, n, n_others, is_sound[c], ratio, size, onset, moves, scratch
                )
            if stats[c].has_ended:
                # Its history has changed.
                _write_moves(network, wander, p, i, n, moves)
        _accept_common(network, period, wander, own, p, n, n_others + 1, ratio, size, now)
    _begin_faults(network, period, ratio, size, onset)


@compiled
def _judge_fault(network, period, wander, own, middle, p, i, n, n_others, ratio, scratch):
    """Judge the change of a channel since its fault began, and take it as the new level where it is small.

    Write the ratio of the change to its limit.
    """
    c = network.members[p, i]
    stats, s = period.learned.stats[c], period.readings.shape[1]
    v = network.variables[network.variable[c]]
    now, kind = float(period.start // s), stats.open_kind
    n_observed = n_bad = 0
    for t in range(s):
        n_observed += 1 if math.isfinite(period.readings[c, t]) else 0
        n_bad += 1 if period.estimates.code[c, t] >= DOUBTFUL else 0
    lasted = now + 1.0 - stats.onset
    if lasted < MIN_SPAN or math.isnan(own[c]) or (lasted >= 1.0 and 2 * n_bad < n_observed):
        return
    span = int(max(1.0, min(math.ceil(lasted), float(LONGEST))))
    k = _scale_of(span)
    place = ((n - span + 1) // 2**k - 1) % RING
    before = wander.history[c, k, place]
    predicted = _predicted_change(network, wander, p, i, n, span, k)
    change = own[c] - before - predicted
    is_new = network.stats[c].open_kind == SOUND
    rate = 1.0 if is_new else max(OWN_SMOOTHING, 1.0 / span)
    stats.own_distance += rate * (change - stats.own_distance)
    noise = stats.fault_square if kind == NOISE or kind == GAIN else 0.0
    limit = _limit(network, period, wander, p, i, span, predicted, scratch)
    is_explained = scratch[0] < MAX_SPREAD
    value = math.sqrt(stats.own_distance * stats.own_distance + noise) / limit
    # The others may have changed in the same way, and be held for wrong as well.
    predicted = _predicted_by_readings(network, wander, own, p, i, n, span, k)
    limit = _limit(network, period, wander, p, i, span, predicted, scratch)
    doubt = min(value, math.sqrt((own[c] - before - predicted) ** 2 + noise) / limit)
    rate = 1.0 if is_new else max(RATIO_SMOOTHING, 1.0 / span)
    stats.ratio += rate * (value - stats.ratio)
    stats.doubt += rate * (doubt - stats.doubt)
    ratio[c] = stats.doubt
    least = 1.0 if stats.judgement == NOT_JUDGED or stats.judgement == UNSURE else STILL_WRONG
    if wander.extremes[c, 0] <= own[c] <= wander.extremes[c, 1]:
        # It was at such levels before: few others cannot tell that it should not be.
        least *= 1.0 + OWN_RANGE / (n_others * n_others)
    if lasted <= JUMP and stats.doubt > _few_others(stats.support):
        stats.judgement = ESTABLISHED
    is_established = stats.judgement == ESTABLISHED
    if lasted > WEEK and not is_established:
        least *= _few_others(stats.support)
    elif lasted <= WEEK:
        least *= min(1.0, FIRST_WEEK + FIRST_WEEK_SUPPORT / (stats.support * stats.support))
    low, high = forward(v.low, v), forward(v.high, v)
    margin = 0.25 * (high - low)
    is_rough = (
        (kind == NOISE or kind == GAIN) and lasted > WEEK and stats.doubt < ROUGH_DOUBT and noise < margin * margin
    )
    # What it was like before is hardly known.
    is_young = span >= 2 and stats.level_age - span < YOUNG / stats.support and stats.doubt < ROUGH_DOUBT
    is_slow = lasted > WEEK and not is_established and stats.support < SLOW_SUPPORT
    is_level = kind == OFFSET or kind == DRIFT
    is_as_before = is_level and _is_as_before(
        network, period, wander, own, p, i, k, place, own[c] - period.learned.level[c]
    )
    if stats.doubt < least or not is_explained or is_rough or is_young or is_slow or is_as_before:
        stats.judgement = UNSURE
    else:
        stats.judgement = ESTABLISHED if is_established else SURE
    if not low - margin <= own[c] <= high + margin:
        # No variable is where none of its readings was.
        return
    # How rough a channel is changes with the seasons.
    if (span >= 2 and stats.ratio < ACCEPTED_SHARE) or (is_rough and lasted > 2.0 * WEEK):
        _close_fault(period, wander, c, n, span, stats.fault_size)
        ratio[c] = 0.0
    elif (ratio[c] > 1.0 and is_level and _has_returned(network, own, p, i, stats.own_distance, scratch)) or (
        (is_young and span > MONTH)
        or (lasted > WEEK and _is_refuted(wander.extremes[c], own[c] - middle, period.learned.level[c] - middle))
        or (lasted > WEEK and is_as_before)
    ):
        _close_fault(period, wander, c, n, ALL, own[c] - period.learned.level[c])
        ratio[c] = 0.0


@compiled
def _middle(network, own, p, scratch):
    """Return the median level of the members of a partition as they read, NaN of less than four."""
    m = 0
    for j in range(network.size[p]):
        if math.isfinite(own[network.members[p, j]]):
            scratch[3 + m] = own[network.members[p, j]]
            m += 1
    return median(scratch[3:], m) if m >= 4 else np.nan


@compiled
def _widen(extremes, level, distance):
    """Widen the ranges of a sound channel's level and of its distance from the middle of its partition."""
    extremes[0], extremes[1] = min(extremes[0], level), max(extremes[1], level)
    if math.isfinite(distance):
        extremes[2], extremes[3] = min(extremes[2], distance), max(extremes[3], distance)


@compiled
def _is_refuted(extremes, distance, expected):
    """Return whether a channel would be farther from the middle of its partition than it ever was if it had a fault.

    And farther than it is. Then it is its estimate that left the others.
    """
    reach = extremes[3] - extremes[2]
    outside = max(0.0, extremes[2] - distance, distance - extremes[3])
    expected_outside = max(0.0, extremes[2] - expected, expected - extremes[3])
    return reach > 0.0 and expected_outside > outside + REFUTED_SHARE * reach


@compiled
def _is_as_before(network, period, wander, own, p, i, k, before, size):
    """Return whether a channel reads as it did beside most of those that predict it, and would not without a fault.

    Each of them is asked by itself, and counts by its weight: that needs no slopes that may have changed with the
    season, and a few of them may be wrong. Slopes from many others are known better. `before` is the place of the
    levels from before a fault of this size in the histories of means of 2^k periods.
    """
    c = network.members[p, i]
    support, level = period.learned.stats[c].support, wander.history[c, k, before]
    if support < REFUTED_SUPPORT or math.isnan(level):
        return False
    share = REFUTED_CHANGE * min(1.0, (SLOW_SUPPORT / support) ** 2)
    total = alike = 0.0
    for j in range(network.size[p]):
        other = network.members[p, j]
        weight = network.weights[p, i, j]
        moved = own[other] - wander.history[other, k, before]
        if j != i and weight > 0.0 and math.isfinite(moved):
            total += weight
            apart = own[c] - level - moved
            alike += weight if abs(apart) < share * abs(apart - size) else 0.0
    return 2.0 * alike > total


@compiled
def _has_returned(network, own, p, i, change, scratch):
    """Return whether a change brings a channel that was far from all others to where they are.

    It was wrong before, perhaps from its start, and is not any more.
    """
    c = network.members[p, i]
    m = 0
    for j in range(network.size[p]):
        other = network.members[p, j]
        if other != c and math.isfinite(own[other]):
            scratch[3 + m] = own[other]
            m += 1
    if m < 3:
        return False
    middle = median(scratch[3:], m)
    for j in range(m):
        scratch[3 + j] = abs(scratch[3 + j] - middle)
    reach = 1.4826 * median(scratch[3:], m) + math.sqrt(network.moments[p, i, i])
    expected = abs(own[c] - change - middle)
    return expected > student(3.0, m - 1.0) * reach and abs(own[c] - middle) < RETURN_SHARE * expected


@compiled
def _judge_sound(network, period, wander, own, p, i, n, n_others, is_sound, ratio, size, onset, moves, scratch):
    """Judge the change of a channel without a fault over every span.

    Write the largest ratio of a change to its limit, the change, and the period in which it began.
    """
    c = network.members[p, i]
    stats, s = period.learned.stats[c], period.readings.shape[1]
    now = float(period.start // s)
    stats.judgement = NOT_JUDGED
    if not is_sound or rests(stats, network.variables[network.variable[c]]) or stats.level_age < FOLLOWED_FROM:
        stats.is_distant = False
        return
    level = wander.history[c, 0, n % RING]
    best, change, begun = 0.0, 0.0, 0.0
    last, last_moved, is_explained = 0.0, 0.0, True
    for lag in range(FIRST_LAG, LAGS):
        span = 2**lag
        k = _scale_of(span)
        if stats.level_age <= span + 2**k:
            break
        predicted, moved = _predicted_move(network, moves[lag], p, i), moves[lag, i]
        value = abs(moved - predicted) / _limit(network, period, wander, p, i, span, predicted, scratch)
        is_explained = is_explained and scratch[0] < MAX_SPREAD
        if value > 0.5:
            by_readings = _predicted_by_readings(network, wander, own, p, i, n, span, k)
            limit = _limit(network, period, wander, p, i, span, by_readings, scratch)
            value = min(value, abs(moved - by_readings) / limit)
            place = ((n - span + 1) // 2**k - 1) % RING
            if _is_as_before(network, period, wander, own, p, i, k, place, moved - predicted):
                value = 0.0
        moved -= predicted
        # It shows against an older level too: otherwise the level that it is compared with was wrong.
        if moved * last_moved > 0.0:
            both = min(value, last)
            if both > best or both > BEGIN_FROM:
                # Of those beyond the limit the longest shows most of what sets in slowly.
                change, begun = last_moved, now + 1.0 - span // 2
            best = max(best, both)
        last, last_moved = value, moved
    if wander.extremes[c, 0] <= level <= wander.extremes[c, 1]:
        best /= 1.0 + OWN_RANGE / (n_others * n_others)
    ratio[c], size[c], onset[c] = best if is_explained else min(best, 1.0), change, begun
    stats.distance = change
    is_distant = best > (STILL_DISTANT if stats.is_distant else 1.0)
    if is_distant and not stats.is_distant:
        stats.onset = begun
    stats.is_distant = is_distant


@compiled
def _accept_common(network, period, wander, own, p, n, n_observed, ratio, size, now):
    """Take the levels of channels as right where a third of a partition changes the same way: that is the network.

    So is a jump that a third of what predicts a channel made in the same period: their device was moved.
    """
    stats = period.learned.stats
    n_up = n_down = 0
    for i in range(network.owned[p]):
        c = network.members[p, i]
        if ratio[c] > COMMON_SHARE:
            n_up += size[c] > 0.0
            n_down += size[c] < 0.0
    if n_observed < 3:
        return
    for i in range(network.owned[p]):
        c = network.members[p, i]
        alike = n_up if size[c] > 0.0 else n_down
        kind = stats[c].open_kind
        is_common = ratio[c] > COMMON_SHARE and alike >= 2 and 3 * alike >= n_observed
        v = network.variables[network.variable[c]]
        # No variable is where none of its readings was.
        is_inside = forward(v.low, v) <= own[c] <= forward(v.high, v)
        is_moved = is_inside and (kind == OFFSET or kind == DRIFT) and _jumped_together(network, stats, p, i)
        if is_common or is_moved:
            if (kind == OFFSET or kind == DRIFT or kind == GAIN) and now + 1.0 - stats[c].onset >= 2.0:
                _close_fault(period, wander, c, n, ALL, stats[c].fault_size)
            stats[c].is_distant, ratio[c] = False, 0.0


@compiled
def _jumped_together(network, stats, p, i):
    """Return whether a third of what predicts a channel has an offset or a drift since the same time, to its side."""
    c = network.members[p, i]
    total = together = 0.0
    for j in range(network.size[p]):
        other = network.members[p, j]
        if j == i:
            continue
        weight, kind = abs(network.weights[p, i, j]), stats[other].open_kind
        total += weight
        is_alike = (kind == OFFSET or kind == DRIFT) and stats[other].fault_size * stats[c].fault_size > 0.0
        if is_alike and abs(stats[other].onset - stats[c].onset) < SAME_TIME:
            together += weight
    return total > 0.0 and 3.0 * together > total


@allocating
def _begin_faults(network, period, ratio, size, onset):
    """Note a fault of every sound channel beyond its limit, unless another that it is compared with is farther."""
    s = period.readings.shape[1]
    stats, members, weights = period.learned.stats, network.members, network.weights
    for p in range(len(network.owned)):
        for i in range(network.owned[p]):
            c = members[p, i]
            if ratio[c] <= BEGIN_FROM * _few_others(stats[c].support) or stats[c].open_kind != SOUND:
                continue
            is_farthest = True
            for j in range(network.size[p]):
                other = members[p, j]
                if ratio[other] <= ratio[c] or abs(weights[p, i, j]) < MIN_WEIGHT:
                    continue
                # What is wrong with one that has a fault does not predict any more, but what is left of it may.
                is_followed = stats[other].open_kind != SOUND
                if not is_followed or 3.0 * abs(weights[p, i, j] * size[other]) > abs(size[c]):
                    is_farthest = False
            if not is_farthest:
                continue
            # The mean is set back, so that the residual shows all of the change.
            shift = size[c] - stats[c].slow_level
            for t in range(s):
                period.learned.mean[c, t] -= shift
            stats[c].lasting = stats[c].own_distance = size[c]
            stats[c].onset = onset[c]
            stats[c].is_distant, stats[c].judgement = False, SURE
            stats[c].last_residual += shift
            stats[c].slow_level = 0.0
