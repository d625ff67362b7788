"""Detection judges the readings of a partition: it screens channels, and follows those that stand out by hypotheses.

A wrong reading spoils the predictions of the channels around it. So all members are judged in rounds, of which each
excludes the worst readings and predicts the rest again without them.
"""

from __future__ import annotations

import math

import numpy as np

from sensormend.model.compiling import compiled, inlined
from sensormend.model.prediction import predict
from sensormend.model.records import DRIFT, EPISODES, OFFSET, SOUND, STUCK
from sensormend.model.scales import forward, slope
from sensormend.model.wander import FOLLOWED_FROM, gain_limit, usual_wander

from sensormend.model.arrays import (  # isort: skip
    COMMON_MODE, DEVIATION, EXCLUDED, FAULTY, JUDGED, MEAN, NEIGHBOURS, OBSERVED, OWN_PERIODS, PREDICTION_VARIANCE,
    PREDICTS, PROBABILITY, RAW, REPEAT, RESIDUAL, SCALE, SCALED, SMOOTH, WRONG_PROBABILITY, is_alone, median,
    rests, volatility,
)  # fmt: skip
from sensormend.model.hypotheses import (  # isort: skip
    BEAM, ChannelInput, NONE, PER_KIND, PRUNE_BELOW, SMALL_GAIN, advance, begin_lasting, best_hypothesis,
    digest_of_series, digest_of_start, fault_size, follow, lasts, log_t, power, sound_only, t_constant, updated_level,
    wrong_probability,
)  # fmt: skip

__all__ = ["ROUNDS", "detect_wrong", "mark_wrong", "set_parameters"]

ROUNDS = 12
"""How often a partition is judged at most; two to three times is usual."""
PENALTY, PENALTY_MAX, PENALTY_ALONE = 11.0, 26.0, 11.0
"""Log odds against a fault of one kind that begins at one reading: at least, at most, and where a channel is judged
by its own past alone."""
ALONE_PERIODS, ALONE_READINGS = 10.0, 60.0
"""Periods, and readings, after which the odds against a fault of such a channel are still twice these."""
ALONE_FREEDOM = 7.0
"""Least degrees of freedom of its innovations: its own past shows nothing but jumps."""
PENALTY_BASE, PENALTY_SLOPE = 9.0, 2.0
"""In between they are the base and this many times the channel's usual log ratio."""
TAIL_USUAL, TAIL_PRIOR = 0.013, 800.0
"""The share of innovations beyond four scales that a new channel is taken to have, and after how many readings its own
share counts as much."""
SCREEN_INNOVATION, SCREEN_REPEATS = 4.5, 6.0
"""Scales that an innovation must be off, or log odds of repeats, for a channel to be followed by hypotheses."""
HALO_LIMIT = 5.0
"""Standard deviations of its residual from which a halo member predicts no other."""
FEW_MEMBERS, ENOUGH_OTHERS = 3, 10.0
"""Members up to which the common-mode factor is 1, and other members from which it counts in full. F1 by
reading of 2, 3, 5 and 8 sensors of NOAA was .51, .62, .69 and .81 without (`bench faults --cases small`), and is .59,
.71, .75 and .83."""
NOISE_Z = 1.5
"""Standard deviations of the log of a period's root mean square residual from which it is noise."""
COMMON_MODE_MAX = 6.0
"""What the root mean square over the trusted neighbours is bounded by."""
CLOSE, ALIKE, LEAST_ALIKE, MOST_ASKED = 0.5, 1 / 3, 2, 4
"""Another member can tell a fault if the standard deviation of its difference is less than this share of the fault; it
reads alike if its difference is less than this share; so many that do outweigh fewer that do not; and so many of the
closest ones are asked: on a mast, sensors of other places are all alike different."""
MEDIAN_SQUARE = 0.455
"""The median of a squared normal number."""


@inlined
def _find_neighbours(w, m, i):
    """Write the neighbours of member i, those with the largest correlations."""
    count = min(NEIGHBOURS, m - 1)
    for j in range(m):
        w.algebra.column[j] = abs(w.covariance[i, j]) / math.sqrt(w.covariance[j, j] + 1e-30)
    w.algebra.column[i] = -1.0
    for k in range(count):
        nearest = 0
        for j in range(m):
            if w.algebra.column[j] > w.algebra.column[nearest]:
                nearest = j
        w.neighbours[i, k] = nearest
        w.algebra.column[nearest] = -1.0


@inlined
def _common_mode(w, start, m, s, j, out):
    """Write the common-mode factor of member j in each slot, at least 1, from the innovations of its neighbours.

    It is the root mean square over the trusted neighbours, up to `COMMON_MODE_MAX`, or follows from the median over
    all of them, right or wrong: where most are far off, it is the network that moves, and not a fault of each. The
    fewer members there are, the less of it counts, since what they do without member j is hardly known. Without j,
    with P's entries for both,

        r_i without j = (P_ii r_i - P_ij r_j) / (P_ii - P_ij^2 / P_jj),      P_ii = 1 / v_i,  P_ij taken from W
    """
    if m <= FEW_MEMBERS:
        for t in range(s):
            out[t] = 1.0
        return
    count = min(NEIGHBOURS, m - 1)
    if w.neighbours[j, 0] < 0:
        _find_neighbours(w, m, j)
    # Most slots of an unfinished period have no reading; the factor is 1 from the second one after the last reading on.
    end = 0
    for k in range(count):
        t = s
        while t > end and not w.flags[OBSERVED, w.neighbours[j, k], t - 1]:
            t -= 1
        end = max(end, t)
    end = min(end + 2, s)
    for t in range(end, s):
        out[t] = 1.0
    for t in range(end):
        out[t] = 0.0
        w.scratch.vector[t] = 0.0
    for k in range(count):
        i = w.neighbours[j, k]
        level, sigma, phi, w_ij = w.stats[i].slow_level, w.stats[i].sigma, w.parameters[i].phi, w.precision[i, j]
        deviation = math.sqrt(w.stats[i].variance + sigma * sigma)
        follows = w.stats[i].last_time == start - 1
        before, shift_before = w.stats[i].last_residual - level, 0.0
        for t in range(end):
            # Its residual without member j, and by how much j moves it.
            shift, remaining = 0.0, 1.0
            if w.flags[PREDICTS, j, t]:
                shift = w_ij * w.cells[RESIDUAL, j, t] * w.cells[PREDICTION_VARIANCE, i, t]
                remaining = max(
                    1.0 - w_ij * w_ij * w.cells[PREDICTION_VARIANCE, i, t] * w.cells[PREDICTION_VARIANCE, j, t], 0.05
                )
            w.scratch.rows[k, t] = -1.0
            if w.flags[OBSERVED, i, t]:
                r = (w.cells[RESIDUAL, i, t] - shift) / remaining - level
                # Without member j it is that much less certain.
                z = math.sqrt(remaining) * ((r - phi * before) / sigma if follows else r / deviation)
                # The effect of j is removed only as well as it is known.
                uncertainty = 0.25 * max(abs(shift), abs(shift_before)) / sigma
                w.scratch.rows[k, t] = max(0.0, abs(z) - uncertainty) ** 2
                before = r
                if w.flags[PREDICTS, i, t]:
                    w.scratch.vector[t] += min(z * z, 64.0)
                    out[t] += 1.0
            follows = w.flags[OBSERVED, i, t]
            shift_before = shift
    for t in range(end):
        mean_square = min(w.scratch.vector[t] / out[t], COMMON_MODE_MAX * COMMON_MODE_MAX) if out[t] > 0.0 else 1.0
        n = n_far = 0
        for k in range(count):
            if w.scratch.rows[k, t] >= 0.0:
                w.algebra.column[n] = w.scratch.rows[k, t]
                n += 1
                n_far += 1 if w.scratch.rows[k, t] > 4.0 * MEDIAN_SQUARE else 0
        # The median counts where at least half of them are that far off, too.
        median_square = min(median(w.algebra.column, n) / MEDIAN_SQUARE, 1e4) if n >= 4 and 2 * n_far >= n else 1.0
        w.scratch.vector[t] = max(mean_square, median_square) if median_square > 4.0 else mean_square
    for t in range(end):
        total, n = w.scratch.vector[t], 1.0
        if t > 0:
            total += w.scratch.vector[t - 1]
            n += 1.0
        if t < end - 1:
            total += w.scratch.vector[t + 1]
            n += 1.0
        out[t] = 1.0 + min(1.0, (m - 1.0) / ENOUGH_OTHERS) * max(0.0, math.sqrt(total / n) - 1.0)


@inlined
def _follow_sound(w, start, end, i):
    """Follow member i as if it were sound up to slot `end`; return its last residual, its slot, and its level."""
    phi = w.parameters[i].phi
    last, time, level = w.stats[i].last_residual, w.stats[i].last_time, w.stats[i].slow_level
    for t in range(end):
        if w.flags[OBSERVED, i, t]:
            decay = power(phi, start + t - time) if time >= 0 else 0.0
            error = w.cells[RESIDUAL, i, t] - level - decay * (last - level)
            last, time = w.cells[RESIDUAL, i, t], start + t
            level = updated_level(level, error, w.cells[SCALE, i, t], w.parameters[i])
    return last, time, level


@inlined
def _sound_likelihood(w, start, begin, s, i, past):
    """Return the log-likelihood of member i from slot `begin` on if it is sound, `past` being what came before."""
    phi, free, constant = w.parameters[i].phi, w.parameters[i].freedom, w.parameters[i].t_constant
    last, time, level = past
    total = 0.0
    for t in range(begin, s):
        if w.flags[OBSERVED, i, t]:
            decay = power(phi, start + t - time) if time >= 0 else 0.0
            spread = w.cells[SCALE, i, t] * math.sqrt((1.0 - decay * decay) / (1.0 - phi * phi))
            error = w.cells[RESIDUAL, i, t] - level - decay * (last - level)
            total += log_t(error / spread, free) + constant - math.log(spread)
            last, time = w.cells[RESIDUAL, i, t], start + t
            level = updated_level(level, error, w.cells[SCALE, i, t], w.parameters[i])
    return total


@inlined
def _screen(w, start, s, i):
    """Return the first slot at which member i may not be sound, and whether it has to be followed by hypotheses."""
    phi = w.parameters[i].phi
    last, time, level = w.stats[i].last_residual, w.stats[i].last_time, w.stats[i].slow_level
    variance = w.stats[i].variance
    first, notable, run_odds = s, False, 0.0
    for t in range(s):
        if not w.flags[OBSERVED, i, t]:
            continue
        decay = power(phi, start + t - time) if time >= 0 else 0.0
        r, scale = w.cells[RESIDUAL, i, t], w.cells[SCALE, i, t]
        error = r - level - decay * (last - level)
        if decay != phi:
            error /= math.sqrt((1.0 - decay * decay) / (1.0 - phi * phi))
        z = abs(error) / scale
        if (r - level) ** 2 > 9.0 * (variance + scale * scale):
            z = max(z, SCREEN_INNOVATION)
        if w.cells[REPEAT, i, t] <= 0.0:
            run_odds -= min(w.cells[REPEAT, i, t] + log_t(z, w.parameters[i].freedom), 0.0)
            notable = notable or run_odds >= SCREEN_REPEATS
            first = min(first, t)
        else:
            run_odds = 0.0
        if z > 1.5:
            first = min(first, t)
        if z >= SCREEN_INNOVATION:
            notable = True
        last, time = r, start + t
    return first, notable


@compiled
def _degrees_of_freedom(share):
    """Return the degrees of freedom of Student's t, 3 to 10, of which this share lies beyond 4."""
    # 2.8, 1.6, 1.0, 0.7, 0.4, 0.25 % for 3, 4, 5, 6, 8, 10: close to a power of the share.
    return max(3.0, min(10.0, 3.0 * (0.028 / max(share, 1e-6)) ** 0.5))


@compiled
def set_parameters(w, network, p, m, s):
    """Set the parameters of every member's hypotheses."""
    for i in range(m):
        stats, q = w.stats[i], w.parameters[i]
        q.phi = max(0.0, min(0.97, stats.covariance / max(stats.variance, 1e-30)))
        spread = math.sqrt(network.moments[p, i, i])
        q.tau = max(0.7 * spread, 5.0 * math.sqrt(stats.variance))
        q.drift_sd = 2.0 * q.tau
        # How rough a period is varies, from channel to channel in its own way.
        v = network.variables[network.variable[network.members[p, i]]]
        q.noise_sd = math.exp(max(0.9, NOISE_Z * volatility(stats, v))) * math.sqrt(stats.variance)
        c = network.members[p, i]
        pooled = network.wander.pooled[network.variable[c]]
        # A wrong gain is one that is farther from 1 than the movement of the channel is from what the others say of it.
        q.least_gain = max(
            SMALL_GAIN, gain_limit(network.wander.square[c], pooled, stats.level_age, stats.support, w.algebra.column)
        )
        q.only_stuck = rests(stats, v)
        q.log_prior = -max(PENALTY, min(PENALTY_MAX, PENALTY_BASE + PENALTY_SLOPE * stats.usual_log_ratio))
        if is_alone(w):
            # It is judged by its own past alone.
            extra = ALONE_PERIODS / (1.0 + stats.age) + ALONE_READINGS / (1.0 + stats.age * s)
            q.log_prior = -PENALTY_ALONE * (1.0 + extra)
        # A period's mean residual wanders at least as far as its memory allows.
        factor = min(2.0, 3.3 * math.sqrt((1.0 + q.phi) / ((1.0 - q.phi) * s)))
        q.wander = max(3.0 * math.sqrt(stats.wander_square), factor * math.sqrt(stats.variance))
        q.slots = s
        q.freedom = _degrees_of_freedom((stats.tail + TAIL_PRIOR * TAIL_USUAL) / (stats.tail_count + TAIL_PRIOR))
        if is_alone(w):
            q.freedom = max(q.freedom, ALONE_FREEDOM)
        q.t_constant = t_constant(q.freedom)
        # Where the level started over lately, how it wanders is not known either.
        q.usual_distance = (
            usual_wander(network.wander.square[c], pooled, stats.level_age, 8.0, w.algebra.column)
            if stats.level_age >= FOLLOWED_FROM
            else 0.0
        )


@inlined
def _set_scale(w, network, p, s, i):
    """Set the scale of member i's sound innovations, without the common-mode factor."""
    v = network.variables[network.variable[network.members[p, i]]]
    stats = w.stats[i]
    young = 1.0 + 3.0 / (1.0 + stats.age) + 7.0 / (1.0 + stats.age) ** 2
    min_scale = max(stats.sigma, 0.003 * math.sqrt(network.moments[p, i, i]))
    # A step of the resolution is no surprise.
    step = 0.4 * stats.resolution if math.isfinite(stats.resolution) else 0.0
    linear = step / slope(0.0, v)
    # A quantity that rests most of the time, like rain: others do not predict when and how much it moves.
    intermittent = rests(stats, v)
    rest_level = forward(stats.rest_value, v) if intermittent else 0.0
    last_distance = (
        abs(forward(stats.last_value, v) - rest_level) if intermittent and math.isfinite(stats.last_value) else 0.0
    )
    if v.bend == 0.0 and not intermittent:
        min_scale = young * max(min_scale, linear) * math.sqrt(w.precision[i, i])
        for t in range(s):
            w.cells[SCALE, i, t] = min_scale * math.sqrt(w.cells[PREDICTION_VARIANCE, i, t])
        return
    max_distance = max(100.0, 10.0 * (forward(v.high, v) - forward(v.low, v))) if v.high >= v.low else 100.0
    for t in range(s):
        floor = linear if v.bend == 0.0 else step / slope(w.cells[MEAN, i, t] + w.cells[SMOOTH, i, t], v)
        widening = math.sqrt(w.cells[PREDICTION_VARIANCE, i, t] * w.precision[i, i])
        if intermittent:
            distance = abs(w.cells[MEAN, i, t] + w.cells[SMOOTH, i, t] - rest_level)
            distance = max(distance, last_distance)
            if w.flags[OBSERVED, i, t]:
                last_distance = abs(w.cells[SCALED, i, t] - rest_level)
                distance = max(distance, last_distance)
            floor = max(floor, min(distance, max_distance))
        w.cells[SCALE, i, t] = young * max(min_scale, floor) * widening


@compiled
def _partition_common_mode(w, m, s):
    """Write the common-mode factor of all members together in each slot, at least 1, to `scratch.other`."""
    for t in range(s):
        w.scratch.rows[0, t] = w.scratch.rows[1, t] = 0.0
    for i in range(m):
        level, weight = w.stats[i].slow_level, 1.0 / (w.stats[i].variance + 1e-30)
        for t in range(s):
            z = (w.cells[RESIDUAL, i, t] - level) ** 2 * weight
            if w.flags[PREDICTS, i, t]:
                w.scratch.rows[0, t] += min(z, 16.0)
                w.scratch.rows[1, t] += 1.0
    for t in range(s):
        n = w.scratch.rows[1, t]
        w.scratch.other[t] = max(1.0, min(4.0, math.sqrt(w.scratch.rows[0, t] / n))) if n > 0.0 else 1.0


@inlined
def _screen_halo(w, network, period, s, i, c):
    """Mark the readings of a halo member that are far off, or all of them while a fault of it is open."""
    is_open = False
    for number in range(network.count[c]):
        row = network.first[c] + number
        is_open = is_open or (network.hypotheses[row].logl == 0.0 and network.hypotheses[row].kind != SOUND)
    variance, level = w.stats[i].variance, w.stats[i].slow_level
    for t in range(s):
        limit = HALO_LIMIT * HALO_LIMIT * (variance + w.cells[SCALE, i, t] ** 2)
        if is_open or (w.cells[RESIDUAL, i, t] - level) ** 2 > limit:
            w.cells[PROBABILITY, i, t] = 1.0


@compiled
def _covers(beam, b, time):
    """Return whether a slot lies in a fault of hypothesis b."""
    if beam[b].kind != SOUND and beam[b].start <= time <= beam[b].last_wrong:
        return True
    for e in range(EPISODES):
        ended = beam[b].ended[e]
        if ended.kind != SOUND and ended.first <= time <= ended.last:
            return True
    return False


@inlined
def _limit_to_best_hypothesis(w, period, s, i, c):
    """Make readings in no fault of the best hypothesis doubtful at most; note the kind of the likeliest fault."""
    beam = w.beams[i]
    best = best_hypothesis(beam)
    for t in range(s):
        if w.cells[PROBABILITY, i, t] > WRONG_PROBABILITY and not _covers(beam, best, period.start + t):
            w.cells[PROBABILITY, i, t] = WRONG_PROBABILITY
    logl = NONE
    for b in range(BEAM):
        if beam[b].logl == NONE:
            continue
        kind = beam[b].kind
        if kind == SOUND and beam[b].ended[0].kind != SOUND and beam[b].ended[0].last >= period.start:
            kind = beam[b].ended[0].kind
        if kind != SOUND and beam[b].logl > logl:
            logl = beam[b].logl
            period.estimates.kind[c] = kind


@compiled
def _others_agree(w, network, period, p, m, s, i):
    """Return whether member i reads what those read that are close enough to it to tell its fault.

    What predicts it may have left all of them, as where one place has weather of its own: two sensors or more that
    go the same way, while fewer do not, are no coincidence. A copy of its readings says nothing.
    """
    square, n = 0.0, 0
    for t in range(s):
        if w.cells[PROBABILITY, i, t] > WRONG_PROBABILITY:
            square += w.cells[RESIDUAL, i, t] ** 2
            n += 1
    if n == 0 or w.member.dead[i] or w.stats[i].age < OWN_PERIODS:
        return False
    best = w.beams[i, best_hypothesis(w.beams[i])]
    if best.kind == STUCK:
        return False
    for e in range(EPISODES):
        if best.ended[e].kind == STUCK and best.ended[e].last >= period.start:
            return False
    # What began long ago has a size of its own.
    size, _ = fault_size(w.beams[i], best_hypothesis(w.beams[i]))
    is_level = best.kind == OFFSET or best.kind == DRIFT
    square = max(square / n, size * size if is_level else 0.0)
    for j in range(m):
        w.algebra.column[j] = network.moments[p, i, i] + network.moments[p, j, j] - 2.0 * network.moments[p, i, j]
        if w.stats[j].age < OWN_PERIODS or w.member.dead[j]:
            w.algebra.column[j] = np.inf
    w.algebra.column[i] = np.inf
    n_alike = n_apart = 0
    while n_alike + n_apart < MOST_ASKED:
        j = 0
        for k in range(m):
            if w.algebra.column[k] < w.algebra.column[j]:
                j = k
        if not w.algebra.column[j] < CLOSE * CLOSE * square:
            break
        w.algebra.column[j] = np.inf
        total, n_both, is_copy = 0.0, 0, True
        for t in range(s):
            if w.cells[PROBABILITY, i, t] > WRONG_PROBABILITY and w.flags[OBSERVED, j, t]:
                total += (w.cells[DEVIATION, i, t] - w.cells[DEVIATION, j, t]) ** 2
                is_copy = is_copy and w.cells[RAW, i, t] == w.cells[RAW, j, t]
                n_both += 1
        if not is_copy and 2 * n_both >= n:
            n_alike += total < ALIKE * ALIKE * square * n_both
            n_apart += total >= ALIKE * ALIKE * square * n_both
    return n_alike >= LEAST_ALIKE and n_alike > n_apart


@inlined
def _follow_saved(w, period, p, i, round_number, begin, series):
    """Follow member i up to where that is kept for the next estimate of the same period, and return that slot.

    What the last estimate kept is taken up where all that it followed from is the same now.
    """
    known, saved, beam, q = period.known, period.saved, w.beams[i], w.parameters[i]
    row = -1
    if known.row.shape[0] and i < known.row.shape[1]:
        row = known.row[p % known.row.shape[0], i, round_number]
    known_slot = known.slot if row >= 0 and begin < known.slot <= saved.slot else begin
    digest = digest_of_start(beam, period.start, begin, q, w.scratch.number)
    digest = digest_of_series(digest, series, begin, known_slot, w.scratch.number)
    first = begin
    if known_slot > begin and digest == known.digest[row]:
        for b in range(BEAM):
            beam[b] = known.beams[row, b]
        first = known_slot
    if saved.slot <= begin:
        return first
    advance(beam, w.scratch.beam, period.start, first, saved.slot, series, q)
    row = saved.used[0]
    saved.digest[row] = digest_of_series(digest, series, known_slot, saved.slot, w.scratch.number)
    for b in range(BEAM):
        saved.beams[row, b] = beam[b]
    saved.row[p % saved.row.shape[0], i, round_number] = row
    saved.used[0] += 1
    return saved.slot


@inlined
def _judge(w, network, period, p, m, s, i, round_number):
    """Judge the readings of member i: the probability that each is wrong, and the log ratio of a fault.

    It is sound, whatever its hypotheses say, if others that are close to it read the same.
    """
    is_reference = network.reference[network.members[p, i]]
    _follow_hypotheses(w, network, period, p, m, s, i, is_reference, round_number)
    if i < network.owned[p] and _others_agree(w, network, period, p, m, s, i):
        period.estimates.kind[network.members[p, i]] = SOUND
        _follow_hypotheses(w, network, period, p, m, s, i, True, round_number)


@compiled
def _follow_hypotheses(w, network, period, p, m, s, i, is_sound, round_number):
    """Follow the hypotheses about member i through a period; only that it is sound if that is known."""
    c = network.members[p, i]
    lasting, has_ended = w.stats[i].lasting, w.stats[i].has_ended
    n_rows = network.count[c] if lasting == 0.0 and not has_ended else 0
    w.member.log_ratio[i] = 0.0
    for t in range(s):
        w.cells[COMMON_MODE, i, t] = 1.0
        w.cells[PROBABILITY, i, t] = 0.0
        w.cells[JUDGED, i, t] = w.cells[RESIDUAL, i, t]
    _set_scale(w, network, p, s, i)
    if i >= network.owned[p]:
        # It is judged where it is owned; here it only matters whether it may predict others.
        if not is_sound:
            _screen_halo(w, network, period, s, i, c)
        return
    first, notable = _screen(w, period.start, s, i)
    if is_sound:
        n_rows, lasting, has_ended, notable = 0, 0.0, False, False
    followed = notable or n_rows > 0 or lasting != 0.0 or has_ended
    if followed:
        # A common mode of its neighbours may explain it.
        _common_mode(w, period.start, m, s, i, w.cells[COMMON_MODE, i])
    else:
        for t in range(s):
            w.cells[COMMON_MODE, i, t] = w.scratch.other[t]
    for t in range(s):
        w.cells[SCALE, i, t] *= w.cells[COMMON_MODE, i, t]
    if followed:
        first, notable = _screen(w, period.start, s, i)
    beam = w.beams[i]
    past = w.stats[i].last_residual, w.stats[i].last_time, w.stats[i].slow_level
    if lasting != 0.0:
        first = 0
        sound_only(beam, w.stats[i].last_residual, max(w.stats[i].last_time, period.start - 1000), 0.0)
        begin_lasting(beam, lasting, int(w.stats[i].onset * s), period.start, w.parameters[i])
    elif n_rows == 0:
        past = _follow_sound(w, period.start, first if notable else s, i)
        last, time, level = past
        # Before its first residual, a sound channel's is at its level and long ago.
        sound_only(beam, last, time if time >= 0 else period.start - 1000, level)
        if not notable:
            return
    else:
        first = 0
        for b in range(BEAM):
            beam[b].logl = NONE
        for number in range(n_rows):
            row = network.first[c] + number
            base = network.hypotheses[row].kind * PER_KIND
            while beam[base].logl > NONE:
                base += 1
            beam[base] = network.hypotheses[row]
    if lasting != 0.0 or lasts(beam, best_hypothesis(beam), w.parameters[i]):
        # What lasts ends when the slow distance is back where it was, or with a jump.
        w.parameters[i].wander = 0.0
    sound_logl = _sound_likelihood(w, period.start, first, s, i, past) if n_rows == 0 and lasting == 0.0 else NONE
    # What the network expects, as a deviation from the channel's mean, without ripple: a wrong gain multiplies it.
    total = 0.0
    for t in range(s):
        total += w.cells[MEAN, i, t]
    for t in range(first, s):
        if not w.flags[OBSERVED, i, t]:
            continue
        begin, end = max(0, t - 3), min(s - 1, t + 3)
        value = 0.0
        for u in range(begin, end + 1):
            value += w.cells[MEAN, i, u] + w.cells[SMOOTH, i, u]
        w.scratch.vector[t] = value / (end - begin + 1) - total / s
    series = ChannelInput(
        w.flags[OBSERVED, i], w.cells[RESIDUAL, i], w.scratch.vector, w.cells[REPEAT, i], w.cells[SCALE, i]
    )  # fmt: skip
    if period.saved.row.shape[0]:
        first = _follow_saved(w, period, p, i, round_number, first, series)
    best = follow(beam, w.scratch.beam, period.start, first, series, w.parameters[i])
    wrong_probability(beam, period.start, w.cells[PROBABILITY, i])
    _limit_to_best_hypothesis(w, period, s, i, c)
    # The log ratio: of the best hypothesis with a fault in this period over a sound period, less the prior.
    best_fault, best_sound = NONE, sound_logl
    for b in range(BEAM):
        if beam[b].logl == NONE:
            continue
        ended = beam[b].ended[0].kind != SOUND and beam[b].ended[0].last >= period.start
        if beam[b].kind != SOUND or ended:
            best_fault = max(best_fault, beam[b].logl)
        elif n_rows > 0 or lasting != 0.0:
            best_sound = max(best_sound, beam[b].logl + best)
    if best_fault > NONE:
        w.member.log_ratio[i] = max(
            0.0, best + best_fault - max(best_sound, best - PRUNE_BELOW) - w.parameters[i].log_prior
        )


@compiled
def detect_wrong(w, network, period, p, m, s):
    """Judge all members in rounds: the worst readings are excluded first, and the rest is predicted again."""
    for i in range(m):
        w.member.judged[i] = False
        w.neighbours[i, 0] = -1
        for t in range(s):
            w.flags[EXCLUDED, i, t] = False
            w.flags[FAULTY, i, t] = False
    for t in range(s):
        w.stale[t] = True
    for round_number in range(ROUNDS):
        predict(w, network, p, m, s)
        _partition_common_mode(w, m, s)
        for i in range(m):
            is_stale = not w.member.judged[i]
            if not is_stale:
                limit = 0.6 * w.stats[i].sigma
                for t in range(s):
                    if w.flags[OBSERVED, i, t] and abs(w.cells[RESIDUAL, i, t] - w.cells[JUDGED, i, t]) > limit:
                        is_stale = True
                        break
            if is_stale:
                w.member.judged[i] = True
                _judge(w, network, period, p, m, s, i, round_number)
                mark_wrong(w, network, p, m, s, i)
        changed = False
        for i in range(m):
            # By how far the wrong readings that are not excluded yet lie from their predictions: the mean of r^2 / v.
            w.member.rank[i] = 0.0
            n_added = n_removed = 0
            for t in range(s):
                n_added += w.flags[FAULTY, i, t] and not w.flags[EXCLUDED, i, t]
                n_removed += w.flags[EXCLUDED, i, t] and not w.flags[FAULTY, i, t]
            if n_added:
                total = 0.0
                for t in range(s):
                    if w.flags[FAULTY, i, t] and not w.flags[EXCLUDED, i, t]:
                        total += w.cells[RESIDUAL, i, t] * w.cells[RESIDUAL, i, t] / w.cells[PREDICTION_VARIANCE, i, t]
                w.member.rank[i] = max(total / n_added, 1e-12)
            if n_removed and round_number < ROUNDS // 2:
                changed = True
                for t in range(s):
                    if w.flags[EXCLUDED, i, t] and not w.flags[FAULTY, i, t]:
                        w.flags[EXCLUDED, i, t] = False
                        w.flags[PREDICTS, i, t] = w.flags[OBSERVED, i, t]
                        w.stale[t] = True
        for i in range(m):
            if w.member.rank[i] == 0.0 or _outranked(w, m, s, i):
                continue
            for t in range(s):
                if w.flags[FAULTY, i, t] and not w.flags[EXCLUDED, i, t]:
                    w.flags[EXCLUDED, i, t] = True
                    if w.flags[PREDICTS, i, t]:
                        w.flags[PREDICTS, i, t] = False
                        w.stale[t] = True
                    changed = True
        # Readings that were too far off to predict others, and are not wrong, do so from now on.
        if round_number == 0:
            for i in range(m):
                for t in range(s):
                    if (
                        w.flags[OBSERVED, i, t]
                        and not w.flags[PREDICTS, i, t]
                        and not (w.flags[FAULTY, i, t] or w.member.implausible[i])
                    ):
                        w.flags[PREDICTS, i, t] = True
                        w.stale[t] = True
                        changed = True
        if not changed:
            return round_number + 1
        for i in range(m):
            # Neighbours that are excluded now do not count as a common mode any more.
            if w.member.log_ratio[i] > 0.0:
                w.member.judged[i] = False
    predict(w, network, p, m, s)
    return ROUNDS


@compiled
def _outranked(w, m, s, i):
    """Return whether a related member that is wrong in a common slot is farther off than member i."""
    for j in range(m):
        if w.member.rank[j] <= w.member.rank[i] or j == i:
            continue
        if w.precision[i, j] ** 2 < 0.01 * w.precision[i, i] * w.precision[j, j]:
            continue
        for t in range(s):
            if w.flags[FAULTY, i, t] and w.flags[FAULTY, j, t]:
                return True
    return False


@inlined
def mark_wrong(w, network, p, m, s, i):
    """Mark the wrong readings of member i, unless all of an episode's are within the resolution.

    That of a channel which hardly ever changes, as deep soil, is taken to be that of the others.
    """
    for t in range(s):
        w.flags[FAULTY, i, t] = w.flags[OBSERVED, i, t] and w.cells[PROBABILITY, i, t] > WRONG_PROBABILITY
    resolution = w.stats[i].resolution
    if math.isinf(resolution):
        n = 0
        for j in range(m):
            if math.isfinite(w.stats[j].resolution):
                w.algebra.column[n] = w.stats[j].resolution
                n += 1
        if n == 0:
            return
        resolution = median(w.algebra.column, n)
    v = network.variables[network.variable[network.members[p, i]]]
    t = 0
    while t < s:
        if not w.flags[FAULTY, i, t]:
            t += 1
            continue
        last, exceeds = t, False
        while last < s and (w.flags[FAULTY, i, last] or not w.flags[OBSERVED, i, last]):
            if w.flags[FAULTY, i, last]:
                step = resolution / slope(w.cells[MEAN, i, last] + w.cells[SMOOTH, i, last], v)
                exceeds = exceeds or abs(w.cells[RESIDUAL, i, last]) > step
            last += 1
        if not exceeds:
            for u in range(t, last):
                w.flags[FAULTY, i, u] = False
        t = last
