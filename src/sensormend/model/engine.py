"""One period of a partition: predict every cell from the others, judge, predict again without what is wrong, learn."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from sensormend.model.compiling import compiled, entry
from sensormend.model.covariance import (
    add_conditional_covariance,
    invert,
    leave_one_out,
    prediction_covariance,
)
from sensormend.model.faults import (
    BEAM, BEGIN, CONSTANT, DRIFT, ENDED, EPISODE, EPISODES, FIELDS, FREEDOM, GAIN, KEEP, KIND, LAST_R, LAST_T, LAST_WRONG, LEVEL,
    LOGL, LOST, NONE, NOISY, OFFSET, PARAMETERS, PHI, SLOPE, SLOTS, SOUND, START, STUCK, TAU, WANDER, best_hypothesis, fault_size,
    follow, followed_level, log_t, power, sound_only, t_constant, wrong_probability,
)  # fmt: skip

MISSING, TRUSTED, DOUBTFUL, WRONG, SPIKE = range(5)
"""What becomes of a cell."""

(
    AGE, VARIANCE, COVARIANCE, SIGMA, WANDERS, REPEATS, READINGS, RESOLUTION, LAST_VALUE, LAST_RESIDUAL, LAST_TIME, SLOW,
    USUAL, WIDTH_GAP, WIDTH_FAR, REST, VOTES, TAIL, TAIL_COUNT, RUNS, RUN_READINGS, BAD, AT_REST,
) = range(23)  # fmt: skip
"""What is known of a channel, a number each: the periods in which it was heard; the residual's variance about its slow
level, its covariance with the slot before, the scale of its innovations, the mean square of a period's mean residual; how
many readings repeated the one before, of how many; the smallest step in the unit of the readings; the last reading, its
residual and slot; the slow level of the residual; the usual
evidence for a fault; the widths of the interval in a gap and far from any trusted reading; and the value at which it rests,
if repeats of one value outnumber those of all others by some votes; how many innovations were beyond four times their
scale, of how many; how many readings repeated one that had repeated itself, of how many; in how many of its first periods most
readings were wrong; and how many readings were at the value at which it rests."""
KNOWN = 23

(CENTRE, WIDTH, BEND, LOW, HIGH, RIPPLE, SHRINKAGE, TRIAL_UP, TRIAL_DOWN) = range(9)
"""What is known of a variable: its scale, the least and the most that it has shown, how much of the ripple of predictions
is taken away, the shrinkage of correlations, and how more and less of it did lately."""
KNOWN_OF_VARIABLE = 9

(CHANNEL, FIRST, LAST, KIND_OF, SIZE, RATE, CONFIDENCE, OPEN, READINGS_IN) = range(9)
REPORT = 9
"""An episode as it is reported."""

FIRST_SHRINKAGE, SHRINKAGE_STEP = 0.01, 2.0
"""The shrinkage of correlations at the start, and the factor by which another one is tried."""
TRIED = 4
"""Partitions in which that is done."""
FIRST_WIDTH = 1.65
RELATIVES = 8
ROUNDS = 12
MEMORY = 0.98
"""Weight of the past per period: about 50 periods."""
GROSS = 12.0
"""Standard deviations from the others' median deviation beyond which a reading predicts nobody until it is judged."""
PENALTY = 11.0
"""Log odds against a fault of one kind that begins at one reading."""
PENALTY_MOST = 26.0
PENALTY_ALONE = 34.0
PENALTY_BASE, RESTLESS = 9.0, 2.0
KIND_IMPLAUSIBLE, KIND_SPIKE = 6, 7

LIKELY, POSSIBLE = 0.5, 0.2
"""Probabilities from which a reading is wrong, and doubtful."""
RESTING = 5.0
"""Votes from which a channel is taken to rest at a value."""

TAIL_USUAL, TAIL_PRIOR = 0.013, 800.0
"""The share of innovations beyond four times their scale that a new channel is taken to have, and after how many readings its
own share counts as much."""

FIRST_PERIODS = 20.0
"""Periods in which a channel may start over."""

NOTABLE, REPEATING = 4.5, 6.0
"""Scales that an innovation must be off, or log odds of repeats, for a closer look at a channel."""

FAR = 5.0
"""Standard deviations of its residual from which a halo member predicts nobody."""

COMPANY = 2
"""Other members that must be heard in a period for a channel to be judged."""

SETTLED = 6.0
"""A channel is followed by hypotheses while one of a fault is within so much of the best, in log."""


class Network(NamedTuple):
    """What is known: of channels, variables and partitions, and the hypotheses that are followed."""

    mean: Any           # (channel, slot)
    known: Any          # (channel, KNOWN)
    variable: Any       # (channel,)
    variables: Any      # (variable, KNOWN_OF_VARIABLE)
    members: Any        # (partition, member) channels, owned ones first
    owned: Any          # (partition,)
    size: Any           # (partition,)
    moments: Any        # (partition, member, member)
    hypotheses: Any     # (row, FIELDS)
    first: Any          # (channel,) first row of a channel's hypotheses
    count: Any          # (channel,) how many


class Period(NamedTuple):
    """A period's readings and what is made of them, (channel, slot); `learned` is the next `known`."""

    start: int
    interval: float
    readings: Any
    low_rank: Any
    lower: Any
    upper: Any
    code: Any
    score: Any
    learned: Any
    mean: Any           # the next `mean`
    count: Any
    ripple: Any         # (partition, 2): sums for the regression of residuals on the ripple of predictions
    kind: Any           # (channel,) of the most likely fault, whether it is likely or not
    trial: Any          # (partition,) how another shrinkage does


(
    RAW, SCALED, MEAN, DEVIATION, EXPECTED, SMOOTH, OPEN_VARIANCE, RESIDUAL, SCALE, JUDGED, PROBABILITY, REPEAT, COMMON,
) = range(13)  # fmt: skip
"""Cells of a partition, (member, slot): readings as they came and on their variable's scale; the member's mean; deviation from
it; what the others say of the deviation, as it is and smoothed, and the variance that this leaves open; deviation minus
prediction; the scale of a sound innovation; the residual that was judged last; the probability of being wrong; and of
repeating the reading before, in log, 1 where it does not; how restless the relatives are."""

OBSERVED, TRUSTING, FAULTY, ASIDE = range(4)
"""Cells that have a reading; that predict others; that are judged wrong; that are set aside."""

RANK, EVIDENCE = range(2)


class Work(NamedTuple):
    """Memory for one partition at a time."""

    cells: Any          # (13, member, slot)
    flags: Any          # (4, member, slot)
    figures: Any        # (2, member)
    known: Any          # (member, KNOWN)
    q: Any              # (member, PARAMETERS)
    precision: Any      # (member, member)
    covariance: Any
    square: Any
    block: Any
    column: Any
    vector: Any
    vector2: Any
    index: Any
    relatives: Any
    beams: Any          # (member, BEAM, FIELDS)
    fresh: Any
    judged: Any         # (member,)
    dirty: Any          # (slot,) predictions are out of date
    others: Any         # (1,) other members that were heard


@compiled
def workspace(m, s):
    """Allocate memory for partitions of up to m members and s slots."""
    return Work(
        np.empty((13, m, s)), np.empty((4, m, s), np.bool_), np.empty((2, m)), np.empty((m, KNOWN)),
        np.empty((m, PARAMETERS)), np.empty((m, m)), np.empty((m, m)), np.empty((m + 1, m)), np.empty((m + 1, m + 2)),
        np.empty(m + 4), np.empty(max(m, s)), np.empty(max(m, s)), np.empty(m + 2, np.int64),
        np.empty((m, RELATIVES), np.int64), np.empty((m, BEAM, FIELDS)), np.empty((BEAM, FIELDS)),
        np.empty(m, np.bool_), np.empty(s, np.bool_), np.empty(1, np.int64),
    )  # fmt: skip


@compiled
def forward(x, variable):
    """Put a reading on its variable's scale."""
    if variable[BEND] > 0.0:
        x = math.asinh(x / variable[BEND])
    return max(-1e6, min(1e6, (x - variable[CENTRE]) / (variable[WIDTH] if variable[WIDTH] > 0.0 else 1.0)))


@compiled
def backward(y, variable):
    """Undo `forward`; a quantity that is never negative does not become so."""
    x = y * (variable[WIDTH] if variable[WIDTH] > 0.0 else 1.0) + variable[CENTRE]
    if variable[BEND] > 0.0:
        return variable[BEND] * math.sinh(max(0.0, min(700.0, x)))
    return x


@compiled
def slope(y, variable):
    """Return by how much a reading changes per unit of its scale."""
    if variable[BEND] > 0.0:
        return variable[BEND] * variable[WIDTH] * math.cosh(max(0.0, min(700.0, y * variable[WIDTH] + variable[CENTRE])))
    return variable[WIDTH] if variable[WIDTH] > 0.0 else 1.0


@compiled
def median(values, n):
    """Return the median of the first n values, which are sorted by it."""
    step = n // 2
    while step > 0:
        for i in range(step, n):
            value, j = values[i], i
            while j >= step and values[j - step] > value:
                values[j] = values[j - step]
                j -= step
            values[j] = value
        step //= 2
    if n % 2:
        return values[n // 2]
    return 0.5 * (values[n // 2 - 1] + values[n // 2])


@compiled
def rests_like_others(network, p, m, c):
    """Say whether a channel rests at a value at which a fifth of the others rest, too; one that is stuck does so alone."""
    if network.known[c, VOTES] < RESTING:
        return False
    alike = 0
    for j in range(m):
        other = network.members[p, j]
        if other != c and network.known[other, VOTES] >= RESTING and network.known[other, REST] == network.known[c, REST]:
            alike += 1
    return 5 * alike >= m - 1


@compiled
def load(w, network, period, p):
    """Fetch the readings of a partition and what is known of its members; return how many have never been heard."""
    m, s = network.size[p], period.readings.shape[1]
    new = n = 0
    for i in range(m):
        c = network.members[p, i]
        if network.known[c, AGE] >= 3.0:
            w.vector[n] = (network.known[c, REPEATS] + 0.5) / (network.known[c, READINGS] + 10.0)
            n += 1
    # Who repeats itself far more often than the others may have been stuck from the start.
    most = max(0.3, 4.0 * median(w.vector, n)) if n else 1.0
    for i in range(m):
        c = network.members[p, i]
        v = network.variables[network.variable[c]]
        for f in range(KNOWN):
            w.known[i, f] = network.known[c, f]
        last = w.known[i, LAST_VALUE]
        repeat = math.log(min(most, (w.known[i, REPEATS] + 0.5) / (w.known[i, READINGS] + 10.0)))
        again = math.log(min(max(most, 0.5), (w.known[i, RUNS] + 0.5) / (w.known[i, RUN_READINGS] + 4.0)))
        running = False
        rests = rests_like_others(network, p, m, c)
        for t in range(s):
            x = period.readings[c, t]
            w.cells[RAW, i, t] = x
            w.cells[MEAN, i, t] = network.mean[c, t]
            w.flags[OBSERVED, i, t] = math.isfinite(x)
            w.cells[REPEAT, i, t] = 1.0
            w.cells[SCALED, i, t] = 0.0
            if w.flags[OBSERVED, i, t]:
                w.cells[SCALED, i, t] = forward(x, v)
                # Many quantities rest at one value, their least or their most: no rain, fog. That is not repeating.
                resting = rests and np.float32(x) == np.float32(w.known[i, REST])
                same = np.float32(x) == np.float32(last)
                if same and not resting and w.known[i, AGE] >= 3.0:
                    w.cells[REPEAT, i, t] = max(repeat, again) if running else repeat
                running = same
                last = x
        if w.known[i, AGE] == 0.0:
            new += 1
    return new


@compiled
def cold_start(w, network, p, m, s):
    """Place members that have never been heard: their level, the course of the others, and how they may be related."""
    moments = network.moments[p]
    old = 0
    for i in range(m):
        if w.known[i, AGE] > 0.0:
            old += 1
    if old == 0:
        return cold_network(w, moments, m, s)
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
    for i in range(m):
        if w.known[i, AGE] > 0.0:
            continue
        n = 0
        for t in range(s):
            if w.flags[OBSERVED, i, t]:
                w.vector[n] = w.cells[SCALED, i, t] - w.cells[SCALE, 0, t] - w.cells[SCALE, 1, t]
                n += 1
        level = median(w.vector, n) if n else middle
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


@compiled
def predict(w, network, p, m, s):
    """Predict the cells of all slots that are marked dirty, and smooth the predictions in time."""
    for t in range(s):
        if w.dirty[t]:
            leave_one_out(
                w.precision, m, w.cells[DEVIATION], w.flags[TRUSTING], t, w.cells[EXPECTED], w.cells[OPEN_VARIANCE], w.square, w.block, w.column, w.index
            )
            w.dirty[t] = False
    lead_across(w, m, s)
    share = network.variables[network.variable[network.members[p, 0]], RIPPLE]
    for i in range(m):
        for t in range(s):
            smooth = w.cells[EXPECTED, i, t]
            if 0 < t < s - 1:
                smooth -= share * (smooth - 0.5 * (w.cells[EXPECTED, i, t - 1] + w.cells[EXPECTED, i, t + 1]))
            w.cells[SMOOTH, i, t] = smooth
            w.cells[RESIDUAL, i, t] = w.cells[DEVIATION, i, t] - smooth


@compiled
def find_relatives(w, m, i):
    """Write the relatives of channel i, those with the largest correlations, to `relatives`."""
    count = min(RELATIVES, m - 1)
    for j in range(m):
        w.column[j] = abs(w.covariance[i, j]) / math.sqrt(w.covariance[j, j] + 1e-30)
    w.column[i] = -1.0
    for k in range(count):
        best = 0
        for j in range(m):
            if w.column[j] > w.column[best]:
                best = j
        w.relatives[i, k] = best
        w.column[best] = -1.0


@compiled
def residual_without(w, i, t, j):
    """Return the residual of channel i in slot t when channel j does not predict it."""
    if not w.flags[TRUSTING, j, t]:
        return w.cells[RESIDUAL, i, t]
    own, other, both = 1.0 / w.cells[OPEN_VARIANCE, i, t], 1.0 / w.cells[OPEN_VARIANCE, j, t], w.precision[i, j]
    left = max(own - both * both / other, 0.05 * own)
    return (own * w.cells[RESIDUAL, i, t] - both * w.cells[RESIDUAL, j, t]) / left


@compiled
def common_mode(w, start, m, s, j, out):
    """Write how restless the relatives of channel j are in each slot: the root mean square of their innovations."""
    count = min(RELATIVES, m - 1)
    if w.relatives[j, 0] < 0:
        find_relatives(w, m, j)
    for t in range(s):
        total, n = 0.0, 0
        for k in range(count):
            i = w.relatives[j, k]
            if not w.flags[TRUSTING, i, t]:
                continue
            level, sigma = w.known[i, SLOW], w.known[i, SIGMA]
            phi = w.q[i, PHI]
            now = residual_without(w, i, t, j) - level
            if t > 0 and w.flags[TRUSTING, i, t - 1]:
                z = (now - phi * (residual_without(w, i, t - 1, j) - level)) / sigma
            elif t == 0 and w.known[i, LAST_TIME] == start - 1:
                z = (now - phi * (w.known[i, LAST_RESIDUAL] - level)) / sigma
            else:
                z = now / math.sqrt(w.known[i, VARIANCE] + sigma * sigma)
            total += min(z * z, 64.0)
            n += 1
        w.vector[t] = total / n if n else 1.0
    for t in range(s):
        total, n = w.vector[t], 1.0
        if t > 0:
            total += w.vector[t - 1]
            n += 1.0
        if t < s - 1:
            total += w.vector[t + 1]
            n += 1.0
        out[t] = max(1.0, min(6.0, math.sqrt(total / n)))


@compiled
def sound_until(w, start, end, i):
    """Follow channel i as if it were sound up to slot `end`: its last residual and slot, and its level, into `column`."""
    phi = w.q[i, PHI]
    last, time, level = w.known[i, LAST_RESIDUAL], w.known[i, LAST_TIME], w.known[i, SLOW]
    for t in range(end):
        if w.flags[OBSERVED, i, t]:
            decay = power(phi, start + t - time) if time >= 0.0 else 0.0
            miss = w.cells[RESIDUAL, i, t] - level - decay * (last - level)
            last, time = w.cells[RESIDUAL, i, t], float(start + t)
            level = followed_level(level, miss, w.cells[SCALE, i, t], w.q[i])
    w.column[0], w.column[1], w.column[2] = last, time, level


@compiled
def sound_likelihood(w, start, begin, s, i):
    """Return the log-likelihood of channel i from slot `begin` on if it is sound; `column` says what was before."""
    phi, free, constant = w.q[i, PHI], w.q[i, FREEDOM], w.q[i, CONSTANT]
    last, time, level = w.column[0], w.column[1], w.column[2]
    total = 0.0
    for t in range(begin, s):
        if w.flags[OBSERVED, i, t]:
            decay = power(phi, start + t - time) if time >= 0.0 else 0.0
            spread = w.cells[SCALE, i, t] * math.sqrt((1.0 - decay * decay) / (1.0 - phi * phi))
            miss = w.cells[RESIDUAL, i, t] - level - decay * (last - level)
            total += log_t(miss / spread, free) + constant - math.log(spread)
            last, time = w.cells[RESIDUAL, i, t], float(start + t)
            level = followed_level(level, miss, w.cells[SCALE, i, t], w.q[i])
    return total


@compiled
def first_doubt(w, start, s, i):
    """Return the first slot at which channel i may not be sound, and whether any reading asks for a closer look."""
    phi = w.q[i, PHI]
    last, time, level = w.known[i, LAST_RESIDUAL], w.known[i, LAST_TIME], w.known[i, SLOW]
    variance = w.known[i, VARIANCE]
    first, notable, run = s, False, 0.0
    for t in range(s):
        if not w.flags[OBSERVED, i, t]:
            continue
        decay = power(phi, start + t - time) if time >= 0.0 else 0.0
        r, scale = w.cells[RESIDUAL, i, t], w.cells[SCALE, i, t]
        miss = r - level - decay * (last - level)
        if decay != phi:
            miss /= math.sqrt((1.0 - decay * decay) / (1.0 - phi * phi))
        far = abs(miss) / scale
        if abs(r - level) > 3.0 * math.sqrt(variance + scale * scale):
            far = max(far, NOTABLE)
        if w.cells[REPEAT, i, t] <= 0.0:
            run -= min(w.cells[REPEAT, i, t] + log_t(far, w.q[i, FREEDOM]), 0.0)
            notable = notable or run >= REPEATING
            first = min(first, t)
        else:
            run = 0.0
        if far > 1.5:
            first = min(first, t)
        if far >= NOTABLE:
            notable = True
        last, time = r, float(start + t)
    return first, notable


@compiled
def freedom(share):
    """Return the degrees of freedom of Student's t, 3 to 10, of which this share lies beyond 4."""
    # 2.8, 1.6, 1.0, 0.7, 0.4, 0.25 % for 3, 4, 5, 6, 8, 10: close to a power of the share.
    return max(3.0, min(10.0, 3.0 * (0.028 / max(share, 1e-6)) ** 0.5))


@compiled
def parameters(w, network, p, m, s):
    """Set what the judge needs to know of every member."""
    for i in range(m):
        known, q = w.known[i], w.q[i]
        q[PHI] = max(0.0, min(0.97, known[COVARIANCE] / max(known[VARIANCE], 1e-30)))
        spread = math.sqrt(network.moments[p, i, i])
        q[TAU] = max(0.7 * spread, 5.0 * math.sqrt(known[VARIANCE]))
        q[SLOPE] = 2.0 * q[TAU]
        q[NOISY] = 2.5 * math.sqrt(known[VARIANCE])
        q[BEGIN] = -max(PENALTY, min(PENALTY_MOST, PENALTY_BASE + RESTLESS * known[USUAL]))
        if w.others[0] < COMPANY:
            # Only its own past speaks.
            q[BEGIN] = -PENALTY_ALONE
        q[WANDER] = max(3.0 * math.sqrt(known[WANDERS]), 2.0 * math.sqrt(known[VARIANCE]))
        q[SLOTS] = s
        q[FREEDOM] = freedom((known[TAIL] + TAIL_PRIOR * TAIL_USUAL) / (known[TAIL_COUNT] + TAIL_PRIOR))
        q[CONSTANT] = t_constant(q[FREEDOM])


@compiled
def set_scale(w, network, p, s, i):
    """Set the scale of member i's sound innovations."""
    v = network.variables[network.variable[network.members[p, i]]]
    known = w.known[i]
    young = 1.0 + 3.0 / (1.0 + known[AGE]) + 7.0 / (1.0 + known[AGE]) ** 2
    least = max(known[SIGMA], 0.003 * math.sqrt(network.moments[p, i, i]))
    # A step of the resolution is no surprise.
    step = 0.4 * known[RESOLUTION] if known[RESOLUTION] < 1e29 else 0.0
    linear = step / slope(0.0, v)
    # A quantity that rests most of the time, like rain: when and how much it moves is not for others to say.
    intermittent = known[AT_REST] > 0.8 * known[READINGS] and known[VOTES] >= RESTING
    rest = forward(known[REST], v) if intermittent else 0.0
    most = max(100.0, 10.0 * (forward(v[HIGH], v) - forward(v[LOW], v))) if v[HIGH] >= v[LOW] else 100.0
    for t in range(s):
        own = linear if v[BEND] == 0.0 else step / slope(w.cells[MEAN, i, t] + w.cells[SMOOTH, i, t], v)
        wide = math.sqrt(w.cells[OPEN_VARIANCE, i, t] * w.precision[i, i])
        if intermittent:
            moved = abs(w.cells[MEAN, i, t] + w.cells[SMOOTH, i, t] - rest)
            for u in range(max(0, t - 1), t + 1):
                if w.flags[OBSERVED, i, u]:
                    moved = max(moved, abs(w.cells[SCALED, i, u] - rest))
            own = max(own, min(moved, most))
        w.cells[SCALE, i, t] = w.cells[COMMON, i, t] * young * max(least, own) * wide


@compiled
def restlessness(w, start, m, s):
    """Write how restless the partition is in each slot, at least 1, to the last row of `vector2`."""
    for t in range(s):
        total, n = 0.0, 0
        for i in range(m):
            if w.flags[TRUSTING, i, t]:
                z = (w.cells[RESIDUAL, i, t] - w.known[i, SLOW]) ** 2 / (w.known[i, VARIANCE] + 1e-30)
                total += min(z, 16.0)
                n += 1
        w.vector2[t] = max(1.0, min(4.0, math.sqrt(total / n))) if n else 1.0


@compiled
def doubt_halo(w, network, period, s, i, c):
    """Mark the readings of a halo member that are far off, or all of them while a fault of it is open."""
    is_open = False
    for r in range(network.count[c]):
        row = network.first[c] + r
        is_open = is_open or (network.hypotheses[row, LOGL] == 0.0 and int(network.hypotheses[row, KIND]) != SOUND)
    for t in range(s):
        limit = FAR * math.sqrt(w.known[i, VARIANCE] + w.cells[SCALE, i, t] ** 2)
        if is_open or abs(w.cells[RESIDUAL, i, t] - w.known[i, SLOW]) > limit:
            w.cells[PROBABILITY, i, t] = 1.0


@compiled
def covers(beam, b, time):
    """Say whether a slot lies in a fault of hypothesis b."""
    if int(beam[b, KIND]) != SOUND and beam[b, START] <= time <= beam[b, LAST_WRONG]:
        return True
    for e in range(EPISODES):
        at = ENDED + EPISODE * e
        if beam[b, at] > NONE and beam[b, at] <= time <= beam[b, at + 1]:
            return True
    return False


@compiled
def only_what_is_explained(w, period, s, i, c):
    """Let readings that are likely wrong, but in no fault of the best hypothesis, be doubtful; note the likeliest fault."""
    beam = w.beams[i]
    best = best_hypothesis(beam)
    for t in range(s):
        if w.cells[PROBABILITY, i, t] > LIKELY and not covers(beam, best, float(period.start + t)):
            w.cells[PROBABILITY, i, t] = LIKELY
    logl = NONE
    for b in range(BEAM):
        kind = int(beam[b, KIND])
        if kind == SOUND and beam[b, ENDED] > NONE and beam[b, ENDED + 1] >= period.start:
            kind = int(beam[b, ENDED + 2])
        if kind != SOUND and beam[b, LOGL] > logl:
            logl = beam[b, LOGL]
            period.kind[c] = kind


@compiled
def judge(w, network, period, p, m, s, i):
    """Judge the readings of member i: the probability that each is wrong, and the evidence that any is."""
    c = network.members[p, i]
    known, rows = w.known[i], network.count[c]
    w.figures[EVIDENCE, i] = 0.0
    for t in range(s):
        w.cells[COMMON, i, t] = 1.0
        w.cells[PROBABILITY, i, t] = 0.0
        w.cells[JUDGED, i, t] = w.cells[RESIDUAL, i, t]
    set_scale(w, network, p, s, i)
    first, notable = first_doubt(w, period.start, s, i)
    if i >= network.owned[p]:
        # Its own partition judges it; here it only matters whether it can be predicted from.
        doubt_halo(w, network, period, s, i, c)
        return
    if notable or rows > 0:
        # Restless relatives may excuse it.
        common_mode(w, period.start, m, s, i, w.cells[COMMON, i])
        set_scale(w, network, p, s, i)
        first, notable = first_doubt(w, period.start, s, i)
    else:
        for t in range(s):
            w.cells[COMMON, i, t] = w.vector2[t]
        set_scale(w, network, p, s, i)
    beam = w.beams[i]
    if rows == 0:
        sound_until(w, period.start, first if notable else s, i)
        # Before its first residual, a sound channel's is at its level and long ago.
        time = w.column[1] if w.column[1] >= 0.0 else period.start - 1000.0
        sound_only(beam, w.column[0], time, w.column[2])
        if not notable:
            return
    else:
        first = 0
        for b in range(BEAM):
            beam[b, LOGL] = NONE
        for r in range(rows):
            row = network.first[c] + r
            base = int(network.hypotheses[row, KIND]) * KEEP
            while beam[base, LOGL] > NONE:
                base += 1
            for f in range(FIELDS):
                beam[base, f] = network.hypotheses[row, f]
    pure = sound_likelihood(w, period.start, first, s, i) if rows == 0 else NONE
    # What the network expects, as a deviation from the channel's mean, without ripple: a wrong gain multiplies it.
    total = 0.0
    for t in range(s):
        total += w.cells[MEAN, i, t]
    for t in range(s):
        begin, end = max(0, t - 3), min(s - 1, t + 3)
        value = 0.0
        for u in range(begin, end + 1):
            value += w.cells[MEAN, i, u] + w.cells[SMOOTH, i, u]
        w.vector[t] = value / (end - begin + 1) - total / s
    best = follow(
        beam, w.fresh, period.start, first, w.flags[OBSERVED, i], w.cells[RESIDUAL, i], w.vector, w.cells[REPEAT, i],
        w.cells[SCALE, i], w.q[i],
    )  # fmt: skip
    wrong_probability(beam, period.start, w.cells[PROBABILITY, i])
    only_what_is_explained(w, period, s, i, c)
    # The evidence: of the best hypothesis with a fault in this period over a sound period, less the prior.
    fault, sound = NONE, pure
    for b in range(BEAM):
        ended = beam[b, ENDED] > NONE and beam[b, ENDED + 1] >= period.start
        if int(beam[b, KIND]) != SOUND or ended:
            fault = max(fault, beam[b, LOGL])
        elif rows > 0 and beam[b, LOGL] > NONE:
            sound = max(sound, beam[b, LOGL] + best)
    if fault > NONE:
        w.figures[EVIDENCE, i] = max(0.0, best + fault - max(sound, best - LOST) - w.q[i, BEGIN])


@compiled
def find_wrong(w, network, period, p, m, s):
    """Judge all members in rounds, the worst set aside first and the rest predicted again without them."""
    for i in range(m):
        w.judged[i] = False
        w.relatives[i, 0] = -1
        for t in range(s):
            w.flags[ASIDE, i, t] = False
            w.flags[FAULTY, i, t] = False
    for t in range(s):
        w.dirty[t] = True
    for turn in range(ROUNDS):
        predict(w, network, p, m, s)
        restlessness(w, period.start, m, s)
        for i in range(m):
            stale = not w.judged[i]
            if not stale:
                limit = 0.6 * w.known[i, SIGMA]
                for t in range(s):
                    if w.flags[OBSERVED, i, t] and abs(w.cells[RESIDUAL, i, t] - w.cells[JUDGED, i, t]) > limit:
                        stale = True
                        break
            if stale:
                w.judged[i] = True
                judge(w, network, period, p, m, s, i)
                decide(w, network, p, s, i)
        changed = False
        for i in range(m):
            # Only what is not set aside yet, by how far it lies from what is expected.
            w.figures[RANK, i] = 0.0
            total, n, fewer = 0.0, 0, False
            for t in range(s):
                if w.flags[FAULTY, i, t] and not w.flags[ASIDE, i, t]:
                    total += w.cells[RESIDUAL, i, t] * w.cells[RESIDUAL, i, t] / w.cells[OPEN_VARIANCE, i, t]
                    n += 1
                elif w.flags[ASIDE, i, t] and not w.flags[FAULTY, i, t] and turn < ROUNDS // 2:
                    fewer = True
            if n:
                w.figures[RANK, i] = max(total / n, 1e-12)
            if fewer:
                for t in range(s):
                    if w.flags[ASIDE, i, t] and not w.flags[FAULTY, i, t]:
                        w.flags[ASIDE, i, t] = False
                        w.flags[TRUSTING, i, t] = w.flags[OBSERVED, i, t]
                        w.dirty[t] = True
                        changed = True
        for i in range(m):
            if w.figures[RANK, i] == 0.0 or outranked(w, m, s, i):
                continue
            for t in range(s):
                if w.flags[FAULTY, i, t] and not w.flags[ASIDE, i, t]:
                    w.flags[ASIDE, i, t] = True
                    if w.flags[TRUSTING, i, t]:
                        w.flags[TRUSTING, i, t] = False
                        w.dirty[t] = True
                    changed = True
        # Readings that were too far off to predict anybody, and are not wrong, do so from now on.
        if turn == 0:
            for i in range(m):
                for t in range(s):
                    if w.flags[OBSERVED, i, t] and not w.flags[TRUSTING, i, t] and not w.flags[FAULTY, i, t]:
                        w.flags[TRUSTING, i, t] = True
                        w.dirty[t] = True
                        changed = True
        if not changed:
            return turn + 1
    predict(w, network, p, m, s)
    return ROUNDS


@compiled
def outranked(w, m, s, i):
    """Say whether a related member that is wrong in a common slot is farther off than member i."""
    for j in range(m):
        if w.figures[RANK, j] <= w.figures[RANK, i] or j == i:
            continue
        if w.precision[i, j] ** 2 < 0.01 * w.precision[i, i] * w.precision[j, j]:
            continue
        for t in range(s):
            if w.flags[FAULTY, i, t] and w.flags[FAULTY, j, t]:
                return True
    return False


@compiled
def decide(w, network, p, s, i):
    """Mark the wrong readings of member i: those of the best hypothesis' episodes, unless all are within the resolution."""
    for t in range(s):
        w.flags[FAULTY, i, t] = w.flags[OBSERVED, i, t] and w.cells[PROBABILITY, i, t] > LIKELY
    known = w.known[i]
    if known[RESOLUTION] > 1e29:
        return
    v = network.variables[network.variable[network.members[p, i]]]
    t = 0
    while t < s:
        if not w.flags[FAULTY, i, t]:
            t += 1
            continue
        last, beyond = t, False
        while last < s and (w.flags[FAULTY, i, last] or not w.flags[OBSERVED, i, last]):
            if w.flags[FAULTY, i, last]:
                step = known[RESOLUTION] / slope(w.cells[MEAN, i, last] + w.cells[SMOOTH, i, last], v)
                beyond = beyond or abs(w.cells[RESIDUAL, i, last]) > step
            last += 1
        if not beyond:
            for u in range(t, last):
                w.flags[FAULTY, i, u] = False
        t = last


@compiled
def bridge(w, start, s, i, t, out):
    """Predict the residual of member i in slot t from its trusted ones before and after: value and share of variance."""
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
    left = 1.0 - near * near * far * far
    out[0] = level + (near * (1.0 - far * far) * before + far * (1.0 - near * near) * after) / left
    out[1] = (1.0 - near * near) * (1.0 - far * far) / left


@compiled
def settle(w, network, period, p, m, s, learning):
    """Write what every owned cell is taken to be, and what its channel is known to be like from now on."""
    for i in range(network.owned[p]):
        c = network.members[p, i]
        v = network.variables[network.variable[c]]
        known = w.known[i]
        spread = math.sqrt(network.moments[p, i, i])
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
        if learning:
            learn_channel(w, network, period, p, s, i)


@compiled
def interval_width(w, i, t, share):
    """Return half the width of the interval of a cell whose residual is open to this share."""
    known = w.known[i]
    factor = known[WIDTH_GAP] + (known[WIDTH_FAR] - known[WIDTH_GAP]) * min(1.0, max(0.0, share))
    wide = math.sqrt(w.cells[OPEN_VARIANCE, i, t] * w.precision[i, i])
    return factor * math.sqrt(share * known[VARIANCE]) * min(wide, 4.0) * w.cells[COMMON, i, t]


@compiled
def learn_mean(w, network, period, p, s, i, rate):
    """Move the mean of member i towards its trusted readings, and where it has none towards what the others say."""
    c = network.members[p, i]
    limit = 6.0 * math.sqrt(network.moments[p, i, i])
    for t in range(s):
        d = w.cells[DEVIATION, i, t] if w.flags[TRUSTING, i, t] else w.cells[SMOOTH, i, t]
        period.mean[c, t] = w.cells[MEAN, i, t] + rate * max(-limit, min(limit, d))


@compiled
def forget_channel(known):
    """Make a channel one that has never been heard."""
    for f in range(KNOWN):
        known[f] = 0.0
    known[RESOLUTION] = 1e30
    known[LAST_VALUE] = np.nan
    known[LAST_TIME] = -1.0
    known[WIDTH_GAP] = known[WIDTH_FAR] = FIRST_WIDTH


@compiled
def learn_channel(w, network, period, p, s, i):
    """Write what member i is known to be like after this period."""
    c = network.members[p, i]
    known, new = w.known[i], period.learned[c]
    for f in range(KNOWN):
        new[f] = known[f]
    heard = pairs = hidden = 0
    first = second = innovation = mean = 0.0
    limit, phi, level = 4.0 * math.sqrt(known[VARIANCE]), w.q[i, PHI], known[SLOW]
    last_r, last_t = known[LAST_RESIDUAL], known[LAST_TIME]
    last_x = known[LAST_VALUE]
    repeats = runs = run_count = rested = 0
    running = False
    smallest = known[RESOLUTION]
    gap_out = far_out = tail = 0.0
    count = 0
    for t in range(s):
        if w.flags[OBSERVED, i, t]:
            heard += 1
        if not w.flags[TRUSTING, i, t]:
            continue
        count += 1
        r = max(-limit, min(limit, w.cells[RESIDUAL, i, t] - level))
        mean += r
        if last_t == period.start + t - 1:
            before = max(-limit, min(limit, last_r - level))
            first += r * r
            second += r * before
            wide = math.sqrt(w.cells[OPEN_VARIANCE, i, t] * w.precision[i, i])
            step = (w.cells[RESIDUAL, i, t] - level - phi * (last_r - level)) / (w.cells[COMMON, i, t] * max(wide, 1.0))
            innovation += min(abs(step), 4.0 * known[SIGMA])
            if abs(w.cells[RESIDUAL, i, t] - level - phi * (last_r - level)) > 4.0 * w.cells[SCALE, i, t]:
                tail += 1.0
            pairs += 1
        same = np.float32(w.cells[RAW, i, t]) == np.float32(last_x)
        rested += 1 if np.float32(w.cells[RAW, i, t]) == np.float32(new[REST]) else 0
        if running:
            run_count += 1
            runs += 1 if same else 0
        running = same
        if same:
            if np.float32(last_x) == np.float32(new[REST]):
                new[VOTES] = min(new[VOTES] + 1.0, 10.0 * RESTING)
            elif new[VOTES] > 0.0:
                new[VOTES] -= 1.0
            else:
                new[REST], new[VOTES] = last_x, 1.0
        if w.cells[REPEAT, i, t] <= 0.0:
            repeats += 1
        elif math.isfinite(last_x):
            step = abs(w.cells[RAW, i, t] - last_x)
            if step > 0.0:
                smallest = min(smallest, step)
        if s <= 6 or (t + period.start // s) % 3 == 0:
            # Every third reading is hidden.
            hidden += 1
            bridge(w, period.start, s, i, t, w.column)
            if abs(w.cells[RESIDUAL, i, t] - w.column[0]) > interval_width(w, i, t, w.column[1]):
                gap_out += 1.0
            if abs(w.cells[RESIDUAL, i, t] - level) > interval_width(w, i, t, 1.0):
                far_out += 1.0
        last_r, last_t, last_x = w.cells[RESIDUAL, i, t], float(period.start + t), w.cells[RAW, i, t]
    if heard == 0:
        learn_mean(w, network, period, p, s, i, 1.0 - MEMORY if known[AGE] > 0.0 else 0.0)
        return
    rate = max(1.0 / (known[AGE] + 2.0), 1.0 - MEMORY)
    new[AGE] = known[AGE] + 1.0
    learn_mean(w, network, period, p, s, i, rate)
    if pairs >= 3 or pairs == s - 1 or (pairs > 0 and pairs == count):
        new[VARIANCE] += rate * (first / pairs - known[VARIANCE])
        new[COVARIANCE] += rate * (second / pairs - known[COVARIANCE])
        new[TAIL] = MEMORY * known[TAIL] + tail
        new[TAIL_COUNT] = MEMORY * known[TAIL_COUNT] + pairs
        new[SIGMA] += rate * (1.15 * innovation / pairs - known[SIGMA])
    if count:
        mean /= count
        new[WANDERS] += rate * (min(mean * mean, 9.0 * known[WANDERS]) - known[WANDERS])
        new[REPEATS] = MEMORY * known[REPEATS] + repeats
        new[READINGS] = MEMORY * known[READINGS] + count
        new[AT_REST] = MEMORY * known[AT_REST] + rested
        new[RUNS] = MEMORY * known[RUNS] + runs
        new[RUN_READINGS] = MEMORY * known[RUN_READINGS] + run_count
        new[RESOLUTION] = smallest
    if hidden:
        # One step towards the width that the nominal share of hidden readings is inside of.
        outside = 1.0 - period.interval
        pace = max(0.05, 0.5 / (1.0 + known[AGE]))
        new[WIDTH_GAP] *= math.exp(pace * (gap_out / hidden - outside) * 2.0)
        new[WIDTH_FAR] *= math.exp(pace * (far_out / hidden - outside) * 2.0)
    best = w.beams[i, best_hypothesis(w.beams[i])]
    new[LAST_RESIDUAL], new[LAST_TIME], new[SLOW] = best[LAST_R], best[LAST_T], best[LEVEL]
    if int(best[KIND]) != SOUND:
        new[LAST_RESIDUAL], new[LAST_TIME] = last_r, last_t
    for t in range(s):
        if w.flags[OBSERVED, i, t]:
            new[LAST_VALUE] = w.cells[RAW, i, t]
    # Whoever is wrong for most of its first periods was placed by wrong readings: it starts over.
    if known[AGE] < FIRST_PERIODS:
        new[BAD] = known[BAD] + (1.0 if 2 * count < heard else 0.0)
        level = int(best[KIND]) == OFFSET or int(best[KIND]) == DRIFT
        if 2.0 * new[BAD] > new[AGE] and (level or known[AGE] == 0.0):
            forget_channel(new)
            period.count[c] = -1
            return
    pace = 0.1 * max(known[USUAL], 4.0) * max(rate * 5.0, 0.2)
    new[USUAL] += pace * (0.9 if w.figures[EVIDENCE, i] > known[USUAL] else -0.1)
    new[USUAL] = max(new[USUAL], 0.0)


@compiled
def learn_ripple(w, network, period, p, s):
    """Sum up what the regression of trusted deviations' residuals on the ripple of their predictions needs."""
    product = square = 0.0
    for i in range(network.owned[p]):
        limit = 3.0 * math.sqrt(w.known[i, VARIANCE])
        weight = 1.0 / (w.known[i, VARIANCE] + 1e-12)
        for t in range(1, s - 1):
            if w.flags[TRUSTING, i, t]:
                ripple = w.cells[EXPECTED, i, t] - 0.5 * (w.cells[EXPECTED, i, t - 1] + w.cells[EXPECTED, i, t + 1])
                r = max(-limit, min(limit, w.cells[DEVIATION, i, t] - w.cells[EXPECTED, i, t]))
                ripple = max(-limit, min(limit, ripple))
                product -= weight * r * ripple
                square += weight * ripple * ripple
    period.ripple[p, 0], period.ripple[p, 1] = product, square


@compiled
def try_shrinkage(w, network, period, p, m, s):
    """Compare another shrinkage on this period's trusted readings, each hidden in turn: mean log square error, theirs less ours."""
    ours = log_error(w, m, s)
    v = network.variables[network.variable[network.members[p, 0]]]
    up = (period.start // s) % 2 == 0
    shrinkage = min(v[SHRINKAGE] * SHRINKAGE_STEP, 0.9) if up else v[SHRINKAGE] / SHRINKAGE_STEP
    period.trial[p] = 0.0
    for i in range(m):
        for j in range(m):
            w.covariance[i, j] = w.precision[i, j]
    prediction_covariance(network.moments[p], m, shrinkage, w.precision)
    if invert(w.precision, m, w.square):
        for t in range(s):
            leave_one_out(
                w.precision, m, w.cells[DEVIATION], w.flags[TRUSTING], t, w.cells[EXPECTED], w.cells[JUDGED], w.square,
                w.block, w.column, w.index,
            )  # fmt: skip
        period.trial[p] = log_error(w, m, s) - ours
    for i in range(m):
        for j in range(m):
            w.precision[i, j] = w.covariance[i, j]


@compiled
def log_error(w, m, s):
    """Return the mean over members of the log mean square error of their trusted readings' predictions."""
    total, members = 0.0, 0
    for i in range(m):
        square, n = 0.0, 0
        for t in range(s):
            if w.flags[TRUSTING, i, t]:
                square += (w.cells[DEVIATION, i, t] - w.cells[EXPECTED, i, t]) ** 2
                n += 1
        if n:
            total += math.log(square / n + 1e-10)
            members += 1
    return total / members if members else 0.0


@compiled
def learn_moments(w, network, p, m, s):
    """Fold the period's deviations, completed where nothing is trusted, into the second moments."""
    moments = network.moments[p]
    for i in range(m):
        limit = 6.0 * math.sqrt(moments[i, i])
        for t in range(s):
            d = w.cells[DEVIATION, i, t] if w.flags[TRUSTING, i, t] else w.cells[SMOOTH, i, t]
            w.cells[SCALED, i, t] = max(-limit, min(limit, d))
    for i in range(m):
        for j in range(i + 1):
            total = 0.0
            for t in range(s):
                total += w.cells[SCALED, i, t] * w.cells[SCALED, j, t]
            w.covariance[i, j] = w.covariance[j, i] = total / s
    for t in range(s):
        add_conditional_covariance(w.precision, m, w.flags[TRUSTING], t, 1.0 / s, w.covariance, w.block, w.index)
    for i in range(m):
        w.vector[i] = max(1.0 / (w.known[i, AGE] + 2.0), 1.0 - MEMORY)
    for i in range(m):
        for j in range(m):
            past = math.sqrt((1.0 - w.vector[i]) * (1.0 - w.vector[j]))
            present = math.sqrt(w.vector[i] * w.vector[j])
            moments[i, j] = past * moments[i, j] + present * w.covariance[i, j]
        moments[i, i] = max(moments[i, i], 1e-12)


@compiled
def run_partition(w, network, period, p, learning):
    """Take one partition through a period; return how many rounds it took."""
    m, s = network.size[p], period.readings.shape[1]
    v = network.variables[network.variable[network.members[p, 0]]]
    if load(w, network, period, p):
        cold_start(w, network, p, m, s)
    for t in range(s):
        n = 0
        for i in range(m):
            w.cells[DEVIATION, i, t] = w.cells[SCALED, i, t] - w.cells[MEAN, i, t] if w.flags[OBSERVED, i, t] else 0.0
            if w.flags[OBSERVED, i, t]:
                w.vector[n] = w.cells[DEVIATION, i, t]
                n += 1
        middle = median(w.vector, n) if n > 2 else 0.0
        for i in range(m):
            far = abs(w.cells[DEVIATION, i, t] - middle) > GROSS * math.sqrt(network.moments[p, i, i])
            w.flags[TRUSTING, i, t] = w.flags[OBSERVED, i, t] and not far
    shrinkage = v[SHRINKAGE]
    prediction_covariance(network.moments[p], m, shrinkage, w.precision)
    while not invert(w.precision, m, w.square):
        shrinkage = min(1.0, 4.0 * shrinkage + 0.02)
        prediction_covariance(network.moments[p], m, shrinkage, w.precision)
    for i in range(m):
        for j in range(m):
            w.covariance[i, j] = network.moments[p, i, j]
    heard = 0
    for i in range(m):
        for t in range(s):
            if w.flags[OBSERVED, i, t]:
                heard += 1
                break
    w.others[0] = heard - 1
    parameters(w, network, p, m, s)
    rounds = find_wrong(w, network, period, p, m, s)
    for i in range(m):
        for t in range(s):
            trusted = w.flags[OBSERVED, i, t] and not w.flags[FAULTY, i, t]
            if trusted != w.flags[TRUSTING, i, t]:
                w.flags[TRUSTING, i, t] = trusted
                w.dirty[t] = True
    predict(w, network, p, m, s)
    settle(w, network, period, p, m, s, learning)
    if learning:
        learn_ripple(w, network, period, p, s)
        if p < TRIED:
            try_shrinkage(w, network, period, p, m, s)
        learn_moments(w, network, p, m, s)
    return rounds


@compiled
def enlarged(rows):
    """Return a copy of `rows` with twice the room."""
    larger = np.empty((2 * rows.shape[0], rows.shape[1]))
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            larger[i, j] = rows[i, j]
    return larger


@compiled
def keep_hypotheses(w, network, period, p, i, rows, used):
    """Append the hypotheses of owned member i to `rows`; return the rows, perhaps moved, and how many are used."""
    c = network.members[p, i]
    beam = w.beams[i]
    doubt = False
    for b in range(KEEP, BEAM):
        doubt = doubt or beam[b, LOGL] > -SETTLED
    starts_over = period.count[c] < 0
    period.count[c] = 0
    if starts_over or not doubt:
        return rows, used
    for b in range(BEAM):
        if beam[b, LOGL] == NONE:
            continue
        if used == rows.shape[0]:
            rows = enlarged(rows)
        for f in range(FIELDS):
            rows[used, f] = beam[b, f]
        used += 1
        period.count[c] += 1
    return rows, used


@compiled
def report(w, network, period, p, i, found, used, s):
    """Append the episodes of owned member i that touch this period to `found`."""
    c = network.members[p, i]
    beam = w.beams[i]
    best = best_hypothesis(beam)
    for e in range(EPISODES + 1):
        if e == 0:
            if int(beam[best, KIND]) == SOUND:
                continue
            first, last, kind, is_open = beam[best, START], beam[best, LAST_WRONG], beam[best, KIND], 1.0
            size, rate = fault_size(beam, best)
        else:
            at = ENDED + EPISODE * (e - 1)
            first, last, kind, is_open = beam[best, at], beam[best, at + 1], beam[best, at + 2], 0.0
            size, rate = beam[best, at + 3], beam[best, at + 4]
            if first <= NONE or last < period.start:
                continue
        # From its first to its last reading that is wrong, in this period; earlier ones are as they were reported.
        begin, end = max(0, int(first) - period.start), min(s - 1, int(last) - period.start)
        confidence, n, head, tail = 0.0, 0, -1, -1
        value = 0.0
        for t in range(begin, end + 1):
            if w.flags[FAULTY, i, t]:
                confidence = max(confidence, w.cells[PROBABILITY, i, t])
                n += 1
                head = t if head < 0 else head
                tail = t
                value = w.cells[RAW, i, t]
        if n == 0 and (is_open == 0.0 or first >= period.start):
            continue
        v = network.variables[network.variable[c]]
        unit = slope(w.cells[MEAN, i, s // 2] + w.cells[SMOOTH, i, s // 2], v)
        spread = math.sqrt(network.moments[p, i, i])
        if is_open == 0.0 and n <= 2 and last - first <= 1.0:
            kind = KIND_SPIKE
            for t in range(begin, end + 1):
                if w.flags[FAULTY, i, t]:
                    period.code[c, t] = SPIKE
        elif int(kind) != STUCK and int(kind) != GAIN and abs(size) > 8.0 * spread:
            kind = KIND_IMPLAUSIBLE
        if int(kind) == STUCK:
            size, rate = value, 0.0
        elif int(kind) != GAIN:
            size, rate = size * unit, rate * unit
        if used == found.shape[0]:
            found = enlarged(found)
        row = found[used]
        row[CHANNEL], row[KIND_OF], row[SIZE], row[RATE], row[OPEN] = c, kind, size, rate, is_open
        row[FIRST] = first if first < period.start else period.start + head
        row[LAST] = period.start + tail if n else last
        row[READINGS_IN] = n
        row[CONFIDENCE] = confidence if n else 1.0
        used += 1
    return found, used


@entry
def run_block(network, period, begin, end, learning):
    """Take partitions `begin` to `end` through a period.

    Return the hypotheses to be followed from here on, channel by channel, the episodes that were found, and the rounds.
    """
    s = period.readings.shape[1]
    w = workspace(network.members.shape[1], s)
    rows, used = np.empty((16, FIELDS)), 0
    found, faults = np.empty((16, REPORT)), 0
    rounds = 0
    for p in range(begin, end):
        rounds = max(rounds, run_partition(w, network, period, p, learning))
        for i in range(network.owned[p]):
            rows, used = keep_hypotheses(w, network, period, p, i, rows, used)
            found, faults = report(w, network, period, p, i, found, faults, s)
    return rows[:used], found[:faults], rounds


@entry
def learn_shown(network, period):
    """Widen what each variable has shown by this period's trusted readings."""
    n, s = period.readings.shape
    for c in range(n):
        v = network.variables[network.variable[c]]
        for t in range(s):
            if period.code[c, t] == TRUSTED:
                v[LOW] = min(v[LOW], period.readings[c, t])
                v[HIGH] = max(v[HIGH], period.readings[c, t])
