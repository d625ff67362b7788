"""The engine takes partitions through a period: it predicts, judges, predicts without what is wrong, and learns."""

from __future__ import annotations

import math

import numpy as np

from sensormend.model.cold_start import cold_start, restart_levels
from sensormend.model.compiling import compiled, entry, inlined
from sensormend.model.detection import ROUNDS, detect_wrong, mark_wrong, set_parameters
from sensormend.model.estimation import (
    IMPLAUSIBLE_SPREADS,
    OWNERS_WEIGHT,
    TRUE_WEIGHT,
    confirmed_share,
    estimate_cells,
    write_corrections,
)
from sensormend.model.hypotheses import BEAM, PER_KIND, best_hypothesis, fault_size
from sensormend.model.learning import centre_corrections, learn_channel, learn_moments, learn_ripple, try_shrinkage
from sensormend.model.prediction import invert, predict, prediction_covariance
from sensormend.model.scales import forward, is_on_plateau, slope
from sensormend.model.wander import learn_weights

from sensormend.model.arrays import (  # isort: skip
    DEVIATION, DOUBTFUL, FAULTY, MEAN, MISSING, OBSERVED, PREDICTOR, PREDICTS, PROBABILITY, RANGE_PERIODS, RAW,
    REFERENCE_COUNT, REPEAT, RESTING, SCALED, SMOOTH, SPIKE, UNCERTAIN, WRONG, Followed, is_alone, level_error, median,
    rests, workspace,
)  # fmt: skip
from sensormend.model.records import (  # isort: skip
    DRIFT, EPISODES, GAIN, HYPOTHESIS, KIND_IMPLAUSIBLE, KIND_SPIKE, REPORT, SOUND, STUCK, copy_channel,
)  # fmt: skip

__all__ = ["NOT_FOLLOWED", "run_block", "run_partitions"]

NOT_FOLLOWED = Followed(
    0, np.empty((0, 0, 0), np.int32), np.empty(0, np.int64), np.empty((0, BEAM), HYPOTHESIS), np.zeros(1, np.int64)
)
"""What is kept of a period that is learned from."""
GROSS_ERROR = 12.0
"""Standard deviations from the others' median deviation beyond which a reading predicts no other until it is judged."""
TRIAL_PARTITIONS = 4
"""Partitions in which another shrinkage is tried."""
DEAD_RUNS, DEAD_READINGS, DEAD_ODDS = 3.0, 20.0, -3.0
"""Runs of equal readings that a dead channel's is longer than, in multiples of the longest sound one and in readings,
and the log probability of a sound repeat in them."""
USUAL_RUNS, MAX_REPEATED = 5.0, 0.8
"""Mean lengths of a run, by the share of readings that were repeated lately, that a sound run is no longer than; and
the most that this share is taken to be."""
PLATEAU_PERIODS = 7.0
"""Periods for which a sound channel may stand still where its variable does by nature."""
STEP = 0.25
"""The part of a variable's range by which a sound channel steps to the end of what it can measure, or beyond what was
seen before; a broken one jumps there."""
LEAP = 0.5
"""The part of the way that a lone channel goes in a period which a sound one goes at most from one reading to the next,
where it leaves what was seen before: soil that gets wet .39, a brook in flood .22, a sonde that is moved .94."""
NEAR = 0.15
"""Widths of a variable's scale within which a value is at an end of its range."""
FEW_MEMBERS = 5
"""Known others from which what is usual for them counts more than the past of the channel."""
MAX_UNEXPLAINED = 0.3
"""The residual's standard deviation over the channel's own up to which the others explain it."""
FORGET_BELOW = 8.0
"""Between periods, hypotheses are forgotten that are less likely than the best by this much, in log: in a large network
they would take more memory than all else, and a fault that continues can begin again."""
FOLLOW_WITHIN = 6.0
"""A channel is followed by hypotheses while one of a fault is within so much of the best, in log."""
WRONG_CONFIDENCE = 0.51
"""Least confidence of a fault that has wrong readings: it is likelier than not."""
DISTANT_CONFIDENCE = 0.25
"""Of a fault that shows in a channel's distance from the others alone: owners confirm 23 of 100."""
DOUBTFUL_CONFIDENCE = 0.3
"""Of a fault whose readings are doubtful at most."""


@inlined
def _rests_like_others(network, p, m, c):
    """Return whether a channel rests where a fifth of the others rest, too: a stuck one is the only one."""
    if network.stats[c].rest_votes < RESTING:
        return False
    n_alike = 0
    for j in range(m):
        channel = network.members[p, j]
        if (
            channel != c
            and network.stats[channel].rest_votes >= RESTING
            and network.stats[channel].rest_value == network.stats[c].rest_value
        ):
            n_alike += 1
    return 5 * n_alike >= m - 1


@inlined
def _is_at_limit(x, before, v):
    """Return whether a reading is the least or the most that its variable has shown, and was reached from nearby.

    That is the end of what its sensor can measure: a dead one jumps there.
    """
    if np.float32(x) != np.float32(v.low) and np.float32(x) != np.float32(v.high):
        return False
    low, high = forward(v.low, v), forward(v.high, v)
    return abs(forward(x, v) - forward(before, v)) < STEP * (high - low)


@inlined
def _is_dead(w, network, p, m, s, i):
    """Return whether a member repeats one reading for a period or more, and for longer than sound ones do.

    A run is compared with the longest of this channel and of the median member, and with how long others are at the
    same value in this period. At an end of the variable's range where a fifth of the others are, too, it is natural: a
    floor, a ceiling, a freezing point or a detection limit. The longest run of one channel of many counts up to a
    multiple of the others': it may have been dead before.
    """
    stats = w.stats[i]
    last, run = stats.last_value, stats.run_length
    for t in range(s):
        if w.flags[OBSERVED, i, t]:
            if np.float32(w.cells[RAW, i, t]) != np.float32(last):
                last, run = w.cells[RAW, i, t], 1
            else:
                run += 1
    if run < max(float(s), DEAD_READINGS):
        return False
    v = network.variables[network.variable[network.members[p, i]]]
    level = forward(last, v)
    is_at_end = level < forward(v.low, v) + NEAR or level > forward(v.high, v) - NEAR
    n = n_seen = n_resting = 0
    longest = longest_of_others = 0.0
    for j in range(m):
        if j == i:
            continue
        c = network.members[p, j]
        if network.stats[c].age >= 3:
            w.algebra.column[n] = network.stats[c].longest_run
            n += 1
        n_same = n_other = 0
        for t in range(s):
            if w.flags[OBSERVED, j, t]:
                n_same += np.float32(w.cells[RAW, j, t]) == np.float32(last)
                n_other += np.float32(w.cells[RAW, j, t]) != np.float32(last)
        n_seen += n_same + n_other > 0
        n_resting += n_same > 0 and 10 * n_same >= n_same + n_other
        if n_same > 0 and n_other > 0:
            longest = max(longest, float(n_same))
            longest_of_others = max(longest_of_others, network.stats[c].longest_run)
    if n == 0 or (is_at_end and n_resting > 0 and 5 * n_resting >= n_seen):
        return False
    usual, own = median(w.algebra.column, n), stats.longest_run
    if n < FEW_MEMBERS:
        # Of a channel that moves by less than a step at a time, such as a river in a drought, long runs are usual.
        lately = USUAL_RUNS / (1.0 - min(MAX_REPEATED, stats.lately_repeated))
        longest = max(longest, longest_of_others, lately)
    else:
        own = min(own, DEAD_RUNS * max(usual, 1.0))
    return run >= DEAD_RUNS * max(own, usual, longest)


@inlined
def _stands_still(w, s, i):
    """Return how many readings member i has in this period, 0 where they are not all equal."""
    n, value = 0, np.nan
    for t in range(s):
        if w.flags[OBSERVED, i, t]:
            if n > 0 and np.float32(w.cells[RAW, i, t]) != np.float32(value):
                return 0
            n, value = n + 1, w.cells[RAW, i, t]
    return n


@inlined
def _has_set_points(w, m, s):
    """Return whether a fifth of many members stand still for this period, each at its own value."""
    n_still = n_seen = 0
    for i in range(m):
        n_still += _stands_still(w, s, i) > 1
        for t in range(s):
            if w.flags[OBSERVED, i, t]:
                n_seen += 1
                break
    return m > FEW_MEMBERS and 5 * n_still >= n_seen


@inlined
def _equal_after(w, s, i, t):
    """Return how many readings of member i after slot t are equal to the one in it, up to the first that is not."""
    n = 0
    for u in range(t + 1, s):
        if w.flags[OBSERVED, i, u]:
            if np.float32(w.cells[RAW, i, u]) != np.float32(w.cells[RAW, i, t]):
                break
            n += 1
    return n


@compiled
def _load_partition(w, network, period, p):
    """Load the readings of a partition and what is known of its members; return how many were never observed."""
    m, s = network.size[p], period.readings.shape[1]
    n_new = n = 0
    for i in range(m):
        c = network.members[p, i]
        if network.stats[c].age >= 3:
            w.scratch.vector[n] = (network.stats[c].repeats + 0.5) / (network.stats[c].readings + 10.0)
            n += 1
    # A channel that repeats itself far more often than the others may have been stuck from the start.
    max_rate = max(0.3, 4.0 * median(w.scratch.vector, n)) if n else 1.0
    # Members lie anywhere in memory: all are fetched before anything is computed, so that fetches overlap.
    for i in range(m):
        c = network.members[p, i]
        copy_channel(network.stats[c], w.stats[i])
        for t in range(s):
            w.cells[RAW, i, t] = period.readings[c, t]
            w.cells[MEAN, i, t] = network.mean[c, t]
    for i in range(m):
        c = network.members[p, i]
        v = network.variables[network.variable[c]]
        for t in range(s):
            x = w.cells[RAW, i, t]
            w.flags[OBSERVED, i, t] = math.isfinite(x)
            w.cells[REPEAT, i, t] = 1.0
            w.cells[SCALED, i, t] = forward(x, v) if math.isfinite(x) else 0.0
    has_set_points = _has_set_points(w, m, s)
    for i in range(m):
        c = network.members[p, i]
        last = w.stats[i].last_value
        repeated = False
        rests_alike = _rests_like_others(network, p, m, c)
        v = network.variables[network.variable[c]]
        intermittent = rests_alike and rests(w.stats[i], v)
        is_set = has_set_points and _stands_still(w, s, i) > 1
        repeating = not intermittent and not is_set and w.stats[i].age >= 3
        w.member.dead[i] = not intermittent and not is_set and _is_dead(w, network, p, m, s, i)
        log_repeat = math.log(min(max_rate, (w.stats[i].repeats + 0.5) / (w.stats[i].readings + 10.0)))
        lately = min(MAX_REPEATED, w.stats[i].lately_repeated) if m <= FEW_MEMBERS else 0.0
        log_lately = math.log(max(lately, 1e-9))
        log_run = math.log(min(max(max_rate, 0.5), (w.stats[i].runs + 0.5) / (w.stats[i].run_readings + 4.0)))
        # Where the others do not tell that it should move, a run is stuck when it is longer than any before, and then
        # from where it begins; without others, what is usual of it is doubtful.
        is_explained = w.stats[i].variance < MAX_UNEXPLAINED * MAX_UNEXPLAINED * network.moments[p, i, i]
        usual_run = w.member.usual_run[i] = 0.0 if is_explained else 1.5 * w.stats[i].longest_run
        run, whole = w.stats[i].run_length, 0
        # A run at the limit that is not a fault so far goes on.
        few = m <= FEW_MEMBERS
        is_sound = w.stats[i].open_kind == SOUND
        at_limit = few and is_sound and _is_at_limit(last, last, v)
        on_plateau = is_sound and w.stats[i].stands_still
        for t in range(s):
            if w.flags[OBSERVED, i, t]:
                x = w.cells[RAW, i, t]
                repeats = np.float32(x) == np.float32(last)
                run = run + 1 if repeats else 1
                if whole == 0 or not repeats:
                    whole = run + _equal_after(w, s, i, t)
                if not repeats:
                    at_limit = few and _is_at_limit(x, last, v)
                    on_plateau = is_on_plateau(x, last, w.stats[i], v)
                is_natural = at_limit or (on_plateau and run <= PLATEAU_PERIODS * s)
                # Many quantities rest at one value, their least or their most: no rain, fog. That is not repeating.
                if (
                    repeats
                    and repeating
                    and whole > usual_run
                    and not is_natural
                    and not (rests_alike and np.float32(x) == np.float32(w.stats[i].rest_value))
                ):
                    w.cells[REPEAT, i, t] = max(log_lately, log_repeat, log_run if repeated else log_repeat)
                if repeats and w.member.dead[i] and not is_natural:
                    w.cells[REPEAT, i, t] = DEAD_ODDS
                repeated = repeats
                last = x
        if w.stats[i].age == 0:
            n_new += 1
    return n_new


@compiled
def _bound_predictors(w, network, p, m, s):
    """Set deviations, and those that predict: bounded, and without readings that are far off until they are judged."""
    min_limit = np.inf
    for t in range(s):
        w.scratch.rows[0, t], w.scratch.rows[1, t], w.scratch.rows[2, t] = np.inf, -np.inf, 0.0
    for i in range(m):
        w.scratch.other[i] = GROSS_ERROR * math.sqrt(network.moments[p, i, i])
        min_limit = min(min_limit, w.scratch.other[i])
        for t in range(s):
            d = w.cells[SCALED, i, t] - w.cells[MEAN, i, t] if w.flags[OBSERVED, i, t] else 0.0
            w.cells[DEVIATION, i, t] = w.cells[PREDICTOR, i, t] = d
            w.flags[PREDICTS, i, t] = w.flags[OBSERVED, i, t] and not w.member.implausible[i]
            if w.flags[OBSERVED, i, t]:
                w.scratch.rows[0, t], w.scratch.rows[1, t] = min(w.scratch.rows[0, t], d), max(w.scratch.rows[1, t], d)
                w.scratch.rows[2, t] += 1.0
    for t in range(s):
        if w.scratch.rows[2, t] > 2.0 and w.scratch.rows[1, t] - w.scratch.rows[0, t] <= min_limit:
            # All lie closer together than any may lie from their median.
            continue
        n = 0
        for i in range(m):
            if w.flags[OBSERVED, i, t]:
                w.scratch.vector[n] = w.cells[DEVIATION, i, t]
                n += 1
        centre = median(w.scratch.vector, n) if n > 2 else 0.0
        for i in range(m):
            d, limit = w.cells[DEVIATION, i, t], w.scratch.other[i]
            w.cells[PREDICTOR, i, t] = max(centre - limit, min(centre + limit, d))
            w.flags[PREDICTS, i, t] = w.flags[PREDICTS, i, t] and abs(d - centre) <= limit
            if network.reference[network.members[p, i]]:
                w.cells[PREDICTOR, i, t], w.flags[PREDICTS, i, t] = d, w.flags[OBSERVED, i, t]


@compiled
def _run_partition(w, network, period, p, learning):
    """Take one partition through a period; return how many rounds of judging it took."""
    m, s = network.size[p], period.readings.shape[1]
    v = network.variables[network.variable[network.members[p, 0]]]
    for i in range(m):
        w.member.implausible[i] = False
    if _load_partition(w, network, period, p):
        cold_start(w, network, p, m, s)
    _bound_predictors(w, network, p, m, s)
    shrinkage = v.shrinkage
    prediction_covariance(network.moments[p], m, shrinkage, w.precision)
    while not invert(w.precision, m, w.algebra.square):
        shrinkage = min(1.0, 4.0 * shrinkage + 0.02)
        prediction_covariance(network.moments[p], m, shrinkage, w.precision)
    for i in range(m):
        w.member.variance[i] = network.moments[p, i, i]
        for j in range(m):
            w.covariance[i, j] = network.moments[p, i, j]
    n_observed = 0
    for i in range(m):
        for t in range(s):
            if w.flags[OBSERVED, i, t]:
                n_observed += REFERENCE_COUNT if network.reference[network.members[p, i]] else 1
                break
    w.others[0] = n_observed - 1
    set_parameters(w, network, p, m, s)
    if restart_levels(w, network, p, m, s):
        _bound_predictors(w, network, p, m, s)
    rounds = detect_wrong(w, network, period, p, m, s)
    for i in range(m):
        # Once more, with the last predictions: nothing within the resolution is wrong.
        mark_wrong(w, network, p, m, s, i)
        if w.member.implausible[i]:
            period.estimates.kind[network.members[p, i]] = KIND_IMPLAUSIBLE
            for t in range(s):
                w.flags[FAULTY, i, t] = w.flags[OBSERVED, i, t]
    for i in range(m):
        for t in range(s):
            trusted = w.flags[OBSERVED, i, t] and not w.flags[FAULTY, i, t]
            if trusted != w.flags[PREDICTS, i, t]:
                w.flags[PREDICTS, i, t] = trusted
                w.stale[t] = True
    predict(w, network, p, m, s)
    for i in range(m):
        write_corrections(w, network, period, p, s, i)
        # What is beyond anything that was seen before is wrong. Where a channel is alone, there is nothing better than
        # its own readings to estimate and to learn from, and snow or a flood that comes step by step is no error.
        low, high = -np.inf, np.inf
        if v.high > v.low:
            low, high = v.low - (v.high - v.low), v.high + (v.high - v.low)
        before = w.stats[i].last_value
        was_inside, was_trusted = low <= before <= high, w.stats[i].last_time == period.start - 1
        # A fault that is open and was inside may have jumped out and come back for a while.
        follows = is_alone(w) and (was_inside if w.stats[i].open_kind == SOUND else not was_inside and was_trusted)
        # A gauge may begin in a drought, or in ice.
        is_young = is_alone(w) and w.stats[i].age < RANGE_PERIODS
        way = 0.0
        for t in range(s):
            if w.flags[OBSERVED, i, t] and math.isfinite(before):
                way = max(way, abs(forward(w.cells[RAW, i, t], v) - forward(before, v)))
        for t in range(s):
            if not w.flags[OBSERVED, i, t]:
                continue
            x = w.cells[RAW, i, t]
            # What it has reached counts for its range; once it has jumped, nothing follows.
            reached = forward(max(v.high, before), v) - forward(min(v.low, before), v)
            follows = follows and abs(forward(x, v) - forward(before, v)) < max(STEP * reached, LEAP * way)
            is_possible = follows or is_young or low <= x <= high
            if w.flags[UNCERTAIN, i, t]:
                w.flags[UNCERTAIN, i, t] = is_possible
                if is_alone(w) and is_possible:
                    w.flags[PREDICTS, i, t], w.flags[UNCERTAIN, i, t] = True, False
            before = x
    estimate_cells(w, network, period, p, s)
    if learning:
        for i in range(m):
            if w.member.lasts[i]:
                centre_corrections(w, s, i)
        for i in range(network.owned[p]):
            learn_channel(w, network, period, p, s, i)
            if w.stats[i].age > 0:
                learn_weights(w, network, p, m, i)
        learn_ripple(w, network, period, p, s)
        if p < TRIAL_PARTITIONS:
            try_shrinkage(w, network, period, p, m, s)
        learn_moments(w, network, p, m, s)
    return rounds


@inlined
def _append_hypotheses(w, network, period, p, i, rows, used):
    """Append the hypotheses of owned member i to `rows`, which is long enough; return how many are used."""
    c = network.members[p, i]
    beam = w.beams[i]
    followed = False
    for b in range(PER_KIND, BEAM):
        followed = followed or beam[b].logl > -FOLLOW_WITHIN
    restarts = period.learned.count[c] < 0
    period.learned.count[c] = 0
    if restarts or not followed:
        return used
    for b in range(BEAM):
        if beam[b].logl < -FORGET_BELOW:
            continue
        rows[used] = beam[b]
        used += 1
        period.learned.count[c] += 1
    return used


@inlined
def _append_episodes(w, network, period, p, i, episodes, used, s):
    """Append the episodes of owned member i that touch this period to `episodes`, which is long enough."""
    c = network.members[p, i]
    beam = w.beams[i]
    best = best_hypothesis(beam)
    n_before = used
    for e in range(EPISODES + 1):
        if e == 0:
            if beam[best].kind == SOUND:
                continue
            first, last, kind, is_open = beam[best].start, beam[best].last_wrong, beam[best].kind, True
            size, rate = fault_size(beam, best)
        else:
            ended = beam[best].ended[e - 1]
            first, last, kind, is_open = ended.first, ended.last, ended.kind, False
            size, rate = ended.fault_size, ended.rate
            if kind == SOUND or last < period.start:
                continue
        # From its first to its last reading that is wrong, in this period; earlier ones are as they were reported.
        begin, end = max(0, first - period.start), min(s - 1, last - period.start)
        confidence, n_wrong, n_certain, first_wrong, last_wrong = 0.0, 0, 0, -1, -1
        value = 0.0
        for t in range(begin, end + 1):
            if w.flags[FAULTY, i, t]:
                n_certain += period.estimates.code[c, t] >= WRONG
                confidence = max(confidence, w.cells[PROBABILITY, i, t])
                n_wrong += 1
                first_wrong = t if first_wrong < 0 else first_wrong
                last_wrong = t
                value = w.cells[RAW, i, t]
        if n_wrong == 0 and (not is_open or first >= period.start):
            continue
        v = network.variables[network.variable[c]]
        unit = slope(w.cells[MEAN, i, s // 2] + w.cells[SMOOTH, i, s // 2], v)
        spread = math.sqrt(w.member.variance[i])
        eta = level_error(w.stats[i], w.member.variance[i], s)
        hypothesis, weight = kind, TRUE_WEIGHT
        if not is_open and n_wrong <= 2 and last - first <= 1:
            kind = KIND_SPIKE
            for t in range(begin, end + 1):
                if w.flags[FAULTY, i, t] and period.estimates.code[c, t] >= WRONG:
                    period.estimates.code[c, t] = SPIKE
        elif kind != STUCK and kind != GAIN and abs(size) > IMPLAUSIBLE_SPREADS * spread:
            kind = KIND_IMPLAUSIBLE
        else:
            # What the others say decides whether it is wrong; owners confirm what they see, however many say it.
            weight = OWNERS_WEIGHT
        share = confirmed_share(hypothesis, size, spread, w.stats[i].support, eta, weight)
        if kind == STUCK:
            size, rate = value, 0.0
        elif kind != GAIN:
            size, rate = size * unit, rate * unit
        row = episodes[used]
        row.channel, row.kind, row.fault_size, row.rate, row.is_open = c, kind, size, rate, is_open
        row.first = first if first < period.start else period.start + first_wrong
        row.last = period.start + last_wrong if n_wrong else last
        row.readings = n_wrong
        row.probability = confidence if n_wrong else 1.0
        row.confidence = max(WRONG_CONFIDENCE, share * row.probability)
        if n_certain == 0:
            row.probability = min(row.probability, DOUBTFUL_CONFIDENCE)
            row.confidence = min(row.confidence, DOUBTFUL_CONFIDENCE)
        used += 1
    if used == n_before and w.stats[i].is_distant:
        # No reading shows it by itself; all of them together are farther from the others than usual.
        last, n_wrong = -1, 0
        for t in range(s):
            if period.estimates.code[c, t] == DOUBTFUL:
                last = t
                n_wrong += 1
        if n_wrong > 0:
            row = episodes[used]
            row.channel, row.kind, row.rate, row.is_open, row.confidence = c, DRIFT, 0.0, True, DISTANT_CONFIDENCE
            row.probability = DISTANT_CONFIDENCE
            v = network.variables[network.variable[c]]
            row.fault_size = w.stats[i].distance * slope(w.cells[MEAN, i, s // 2], v)
            row.first, row.last = min(int(w.stats[i].onset * s), period.start), period.start + last
            row.readings = n_wrong
            used += 1
    return used


@inlined
def _was_never_observed(network, period, p):
    """Write that nothing is known of a partition whose only channel has no reading yet; return whether that is so."""
    c, out = network.members[p, 0], period.estimates
    if network.seen[c]:
        return False
    out.score[c] = 0.0
    for t in range(period.readings.shape[1]):
        out.code[c, t] = MISSING
        out.expected[c, t] = out.cleaned[c, t] = out.lower[c, t] = out.upper[c, t] = np.nan
    if period.learned.stats.shape[0]:
        period.learned.stats[c] = network.stats[c]
    for t in range(period.learned.mean.shape[0] and period.readings.shape[1]):
        period.learned.mean[c, t] = network.mean[c, t]
    return True


@entry
def run_partitions(network, period, begin, end, learning, w, rows, episodes, used):
    """Take partitions `begin` to `end` through a period.

    Write the hypotheses to be followed from here on, channel by channel, the episodes, and into `used` how many of
    either there are, and the rounds.
    """
    used[:] = 0
    for p in range(begin, end):
        if _was_never_observed(network, period, p):
            continue
        used[2] = max(used[2], _run_partition(w, network, period, p, learning))
        for i in range(network.owned[p]):
            used[0] = _append_hypotheses(w, network, period, p, i, rows, used[0])
            used[1] = _append_episodes(w, network, period, p, i, episodes, used[1], period.readings.shape[1])


def run_block(network, period, begin, end, learning):
    """Take partitions `begin` to `end` through a period.

    Return the bytes of the hypotheses to be followed from here on, (row, byte), channel by channel, the fields of the
    episodes, the rounds, and what is kept for the next estimate of the same period. NumPy copies records field by
    field, which takes twenty times as long as their bytes.
    """
    w = workspace(network.members.shape[1], period.readings.shape[1])
    # As many as there can be: of memory that is not written to, nothing is used.
    owned = int(network.owned[begin:end].sum())
    rows = np.empty((owned * BEAM, HYPOTHESIS.itemsize), np.uint8)
    episodes = np.empty(owned * (EPISODES + 1), REPORT)
    used = np.empty(3, np.int64)
    saved = NOT_FOLLOWED
    if not learning:
        most = owned * ROUNDS
        beams = np.empty((most, BEAM * HYPOTHESIS.itemsize), np.uint8)
        row = np.full((end - begin, int(network.owned.max()), ROUNDS), -1, np.int32)
        saved = Followed(
            period.saved.slot, row, np.empty(most, np.int64), beams.view(HYPOTHESIS), np.zeros(1, np.int64)
        )
    period = period._replace(saved=saved)
    run_partitions(network, period, begin, end, learning, w, rows.view(HYPOTHESIS)[:, 0], episodes, used)
    if not learning:
        count = int(saved.used[0])
        saved = saved._replace(digest=saved.digest[:count].copy(), beams=beams[:count].copy().view(HYPOTHESIS))
    return rows[: used[0]].copy(), episodes[: used[1]].tolist(), int(used[2]), saved
