"""Learning updates means, second moments and what is known of each channel by the trusted readings of a period.

Second moments with missing readings are completed by their conditional mean and covariance, as in the E step of
expectation-maximisation, one period after the other.

References
----------
.. [1] R. J. A. Little and D. B. Rubin, "Statistical Analysis with Missing Data", Wiley, 2002, chapter 11.
.. [2] O. Cappé and E. Moulines, "On-line Expectation-Maximization Algorithm for Latent Data Models", Journal of the
   Royal Statistical Society B 71, 2009.
.. [3] L. Tierney, "A Space-Efficient Recursive Procedure for Estimating a Quantile of an Unknown Distribution", SIAM
   Journal on Scientific and Statistical Computing 4, 1983.
.. [4] J. Schäfer and K. Strimmer, "A Shrinkage Approach to Large-Scale Covariance Matrix Estimation", Statistical
   Applications in Genetics and Molecular Biology 4, 2005: correlations shrunk towards 0.
"""

from __future__ import annotations

import math

import numpy as np

from sensormend.model.compiling import compiled, entry, inlined
from sensormend.model.estimation import find_trusted, interpolate_residual, interval_width
from sensormend.model.hypotheses import WEEK, best_hypothesis, fault_size
from sensormend.model.partition import sketch
from sensormend.model.prediction import (
    add_conditional_covariance,
    invert,
    leave_one_out,
    prediction_covariance,
    take_alike,
)  # fmt: skip
from sensormend.model.records import DRIFT, GAIN, OFFSET, SOUND, STUCK, copy_channel
from sensormend.model.scales import forward, is_on_plateau, slope

from sensormend.model.arrays import (  # isort: skip
    ADMITTED, COMMON_MODE, CORRECTION, CORRECTION_VARIANCE, DEVIATION, DOUBTFUL, EXPECTED, FAULTY, FIRST_VOLATILITY,
    JOINING, JUDGED, LEVEL_MEMORY, MEAN, MEMORY, MIN_VOLATILITY, NEW_CHANNEL, OBSERVED, PREDICTION_VARIANCE, PREDICTOR,
    PREDICTS, QUANTILE_WIDTH, RAW, REPEAT, RESIDUAL, RESTING, SCALE, SCALED, SMOOTH, TRUSTED, is_alone, is_counted,
    select,
)  # fmt: skip

__all__ = [
    "centre_corrections", "learn_channel", "learn_moments", "learn_profiles", "learn_range", "learn_ripple",
    "try_shrinkage",
]  # fmt: skip

SHRINKAGE_STEP = 2.0
"""The factor by which another shrinkage is tried."""
EXTREMES = 4
"""One in so many channels of a variable may have a range that is not the variable's."""
MIN_STEPS = 5
"""Steps in a period from which the smallest is a channel's resolution; a dead channel has a large one now and then."""
COARSER = 1.1
"""The factor by which a channel's resolution may grow in a period: a logger that reports fewer digits than before is
known after weeks, while a calm week without small steps changes little."""

LATELY, LATELY_READINGS = 0.3, 6
"""Rate per period of the share of readings that were repeated lately, and the readings that a period has for it."""
RUN_MEMORY = 0.995
"""Weight per period of the longest run of equal readings: half after 140 periods."""
QUANTILE_RATE = 0.03
"""The least rate per period at which quantiles of roughness follow: about 40 periods."""
BEYOND = 3.0
"""Widths between the quantiles of roughness, above the moderate one, beyond which a period is not what was seen yet."""
FIRST_PERIODS = 20.0
"""Periods in which a channel may start over."""


@compiled
def _completed_deviation(w, i, t):
    """Return the deviation to learn from: a trusted reading's, one without its lasting fault, or its prediction."""
    if w.flags[PREDICTS, i, t]:
        return w.cells[DEVIATION, i, t]
    if w.member.lasts[i] and w.cells[CORRECTION_VARIANCE, i, t] < np.inf:
        return w.cells[CORRECTION, i, t]
    return w.cells[SMOOTH, i, t]


@compiled
def centre_corrections(w, s, i):
    """Move the corrections of a fault that lasts to the predicted level, since their own is what is wrong."""
    total, n = 0.0, 0
    for t in range(s):
        if w.cells[CORRECTION_VARIANCE, i, t] < np.inf:
            total += w.cells[CORRECTION, i, t] - w.cells[SMOOTH, i, t]
            n += 1
    for t in range(s):
        if w.cells[CORRECTION_VARIANCE, i, t] < np.inf:
            w.cells[CORRECTION, i, t] -= total / n


@inlined
def _learn_mean(w, network, period, p, s, i, rate):
    """Move the mean of member i towards its trusted readings, and where it has none towards its prediction.

    That of a channel which joined others moves no faster than theirs with what they say: it would follow the weather,
    and seem to have less of it than they.
    """
    c = network.members[p, i]
    joined = network.standing[c] == JOINING or network.standing[c] == ADMITTED
    own_rate = max(rate - (1.0 - MEMORY), 0.0) if joined else 0.0
    rate -= own_rate
    limit = 6.0 * math.sqrt(network.moments[p, i, i])
    level = total = 0.0
    for t in range(s):
        total += max(-limit, min(limit, _completed_deviation(w, i, t))) / s
        level += w.cells[MEAN, i, t] / s
    period.learned.level[c] = level + total
    level_rate = max(rate, 1.0 - LEVEL_MEMORY) - rate if rate > 0.0 else 0.0
    for t in range(s):
        d = _completed_deviation(w, i, t)
        own = own_rate * max(-limit, min(limit, d - w.cells[SMOOTH, i, t]))
        period.learned.mean[c, t] = w.cells[MEAN, i, t] + rate * max(-limit, min(limit, d)) + level_rate * total + own


@inlined
def _learn_volatility(w, network, p, s, i, new, rate):
    """Move the quantiles of the log of a period's root mean square residual by one step each, up or down.

    All readings count, right or wrong: a channel whose rough periods are taken for faults would seem calm otherwise.
    What is far beyond them teaches no faster than in an old channel: they would follow a fault of the first weeks.
    """
    v = network.variables[network.variable[network.members[p, i]]]
    square, n = 0.0, 0
    for t in range(s):
        if w.flags[OBSERVED, i, t]:
            square += w.cells[RESIDUAL, i, t] ** 2
            n += 1
    if 4 * n < s:
        return
    step = 0.3 * new.resolution / slope(w.cells[MEAN, i, 0], v) if math.isfinite(new.resolution) else 0.0
    value = 0.5 * math.log(max(square / n, step * step, 1e-12))
    if math.isnan(new.moderate):
        half = 0.5 * QUANTILE_WIDTH * FIRST_VOLATILITY
        new.calm, new.moderate, new.rough = value - half, value, value + half
        return
    width = max(new.rough - new.calm, MIN_VOLATILITY * QUANTILE_WIDTH)
    is_beyond = value > new.moderate + BEYOND * width
    pace = 2.0 * (QUANTILE_RATE if is_beyond else max(rate, QUANTILE_RATE)) * width
    new.calm += pace * (0.2 - (1.0 if value < new.calm else 0.0))
    new.moderate += pace * (0.5 - (1.0 if value < new.moderate else 0.0))
    new.rough += pace * (0.8 - (1.0 if value < new.rough else 0.0))


@inlined
def learn_channel(w, network, period, p, s, i):
    """Write what is known of member i after this period."""
    c = network.members[p, i]
    stats, new = w.stats[i], period.learned.stats[c]
    copy_channel(stats, new)
    n_observed = n_pairs = n_hidden = 0
    first = second = innovation = mean = 0.0
    limit, phi, level = 4.0 * math.sqrt(stats.variance), w.parameters[i].phi, stats.slow_level
    last_r, last_t = stats.last_residual, stats.last_time
    last_x = stats.last_value
    n_repeats = n_runs = n_after_repeat = n_at_rest = n_equal = 0
    repeated = False
    smallest, n_steps = np.inf, 0
    n_gap_out = n_far_out = n_tail = 0.0
    n_trusted = 0
    find_trusted(w.flags[PREDICTS, i], w.before, w.after)
    for t in range(s):
        if w.flags[OBSERVED, i, t]:
            n_observed += 1
        if not w.flags[PREDICTS, i, t]:
            continue
        n_trusted += 1
        r = max(-limit, min(limit, w.cells[RESIDUAL, i, t] - level))
        mean += r
        if last_t == period.start + t - 1:
            before = max(-limit, min(limit, last_r - level))
            first += r * r
            second += r * before
            widening = math.sqrt(w.cells[PREDICTION_VARIANCE, i, t] * w.precision[i, i])
            step = (w.cells[RESIDUAL, i, t] - level - phi * (last_r - level)) / (
                w.cells[COMMON_MODE, i, t] * max(widening, 1.0)
            )
            innovation += min(abs(step), 4.0 * stats.sigma)
            if abs(w.cells[RESIDUAL, i, t] - level - phi * (last_r - level)) > 4.0 * w.cells[SCALE, i, t]:
                n_tail += 1.0
            n_pairs += 1
        repeats = np.float32(w.cells[RAW, i, t]) == np.float32(last_x)
        n_equal += repeats
        n_at_rest += 1 if np.float32(w.cells[RAW, i, t]) == np.float32(new.rest_value) else 0
        if repeated:
            n_after_repeat += 1
            n_runs += 1 if repeats else 0
        repeated = repeats
        if repeats:
            if np.float32(last_x) == np.float32(new.rest_value):
                new.rest_votes = min(new.rest_votes + 1, 10 * RESTING)
            elif new.rest_votes > 0:
                new.rest_votes -= 1
            else:
                new.rest_value, new.rest_votes = last_x, 1
        if w.cells[REPEAT, i, t] <= 0.0:
            n_repeats += 1
        elif math.isfinite(last_x) and not repeats:
            # The last reading of the period before is in single precision: equal readings may have a difference.
            smallest = min(smallest, abs(w.cells[RAW, i, t] - last_x))
            n_steps += 1
        if s <= 6 or (t + period.start // s) % 3 == 0:
            # Every third reading is hidden.
            n_hidden += 1
            interpolate_residual(w, period.start, s, i, t, w.algebra.column)
            if abs(w.cells[RESIDUAL, i, t] - w.algebra.column[0]) > interval_width(w, i, t, w.algebra.column[1]):
                n_gap_out += 1.0
            if abs(w.cells[RESIDUAL, i, t] - level) > interval_width(w, i, t, 1.0):
                n_far_out += 1.0
        last_r, last_t, last_x = w.cells[RESIDUAL, i, t], period.start + t, w.cells[RAW, i, t]
    if w.member.implausible[i]:
        # It is new once more in the next period.
        period.learned.stats[c] = NEW_CHANNEL[0]
        new.comoving = stats.comoving
        period.learned.count[c] = -1
        for t in range(s):
            period.learned.mean[c, t] = 0.0
        period.learned.level[c] = 0.0
        return
    if n_observed == 0:
        _learn_mean(w, network, period, p, s, i, 1.0 - MEMORY if stats.age > 0 else 0.0)
        return
    rate = max(1.0 / (stats.age + 2.0), 1.0 - MEMORY)
    new.age, new.level_age = stats.age + 1, stats.level_age + 1
    _learn_mean(w, network, period, p, s, i, rate)
    if not w.member.lasts[i]:
        _learn_volatility(w, network, p, s, i, new, rate)
    if n_pairs >= 3 or (n_pairs > 0 and (n_pairs == s - 1 or n_pairs == n_trusted)):
        new.variance += rate * (first / n_pairs - stats.variance)
        new.covariance += rate * (second / n_pairs - stats.covariance)
        new.tail = MEMORY * stats.tail + n_tail
        new.tail_count = MEMORY * stats.tail_count + n_pairs
        new.sigma += rate * (1.15 * innovation / n_pairs - stats.sigma)
    if n_trusted:
        mean /= n_trusted
        new.wander_square += rate * (min(mean * mean, 9.0 * stats.wander_square) - stats.wander_square)
        new.repeats = MEMORY * stats.repeats + n_repeats
        new.readings = MEMORY * stats.readings + n_trusted
        new.at_rest = MEMORY * stats.at_rest + n_at_rest
        new.runs = MEMORY * stats.runs + n_runs
        if n_trusted >= LATELY_READINGS and 0 < n_equal < n_trusted - 1:
            new.lately_repeated += LATELY * (n_equal / n_trusted - stats.lately_repeated)
        new.run_readings = MEMORY * stats.run_readings + n_after_repeat
        if n_steps >= MIN_STEPS:
            new.resolution = min(smallest, COARSER * stats.resolution)
    if n_hidden:
        # One step towards the width that the nominal share of hidden readings is inside of.
        outside = 1.0 - period.interval
        pace = max(0.05, 0.5 / (1.0 + stats.age))
        new.width_gap *= math.exp(pace * (n_gap_out / n_hidden - outside) * 2.0)
        new.width_far *= math.exp(pace * (n_far_out / n_hidden - outside) * 2.0)
    row = best_hypothesis(w.beams[i])
    best = w.beams[i, row]
    new.fault_size = new.fault_square = 0.0
    if best.kind == OFFSET or best.kind == DRIFT:
        new.fault_size, _ = fault_size(w.beams[i], row)
    new.open_kind = best.kind
    if best.kind != SOUND and best.kind != STUCK:
        new.onset = best.start / s
        n_faulty = 0
        for t in range(s):
            if w.flags[FAULTY, i, t]:
                new.fault_square += (w.cells[RESIDUAL, i, t] - new.fault_size) ** 2
                n_faulty += 1
        new.fault_square /= max(n_faulty, 1)
    new.last_residual, new.last_time, new.slow_level = best.last_r, best.last_t, best.level
    if best.kind != SOUND:
        new.last_residual, new.last_time = last_r, last_t
    was_sound = stats.open_kind != STUCK
    v = network.variables[network.variable[c]]
    new.longest_run *= RUN_MEMORY
    for t in range(s):
        if w.flags[OBSERVED, i, t]:
            x = w.cells[RAW, i, t]
            if np.float32(x) == np.float32(new.last_value):
                new.run_length += 1
            else:
                # A run counts when it is over: one that goes on must not become usual by itself. Where the variable
                # stands still by nature, a run says nothing about other readings.
                if was_sound and not v.plateau_low <= new.last_value <= v.plateau_high:
                    longest = min(new.run_length, max(2.0 * new.longest_run, 0.5 * s))
                    new.longest_run = max(new.longest_run, longest)
                new.run_length = 1
                new.stands_still = is_on_plateau(x, new.last_value, stats, v)
            was_sound = w.flags[PREDICTS, i, t]
            new.last_value = x
    if best.kind == GAIN and 1.0 + best.theta2 > 1.0 and best.count > WEEK * s and not is_alone(w):
        # No sensor becomes more sensitive: what was learned of it was wrong, as of one that was indoors at first.
        # Without others to compare with it is the season.
        period.learned.stats[c] = NEW_CHANNEL[0]
        period.learned.count[c] = -1
        return
    # A channel that is wrong for most of its first periods was placed by wrong readings: it starts over.
    if stats.age < FIRST_PERIODS:
        new.bad_periods = stats.bad_periods + (1 if 2 * n_trusted < n_observed else 0)
        misplaced = best.kind == OFFSET or best.kind == DRIFT or best.kind == GAIN
        if 2.0 * new.bad_periods > new.age and (misplaced or stats.age == 0):
            period.learned.stats[c] = NEW_CHANNEL[0]
            period.learned.count[c] = -1
            return
    pace = 0.1 * max(stats.usual_log_ratio, 4.0) * max(rate * 5.0, 0.2)
    if w.member.log_ratio[i] > -w.parameters[i].log_prior:
        # A period with a fault counts less, but it counts: the penalty of a restless channel can still grow.
        pace *= 0.3
    new.usual_log_ratio += pace * (0.9 if w.member.log_ratio[i] > stats.usual_log_ratio else -0.1)
    new.usual_log_ratio = max(new.usual_log_ratio, 0.0)


@compiled
def learn_ripple(w, network, period, p, s):
    """Sum up products for the regression of trusted residuals on the ripple of their predictions."""
    product = square = 0.0
    for i in range(network.owned[p]):
        limit = 3.0 * math.sqrt(w.stats[i].variance)
        weight = 1.0 / (w.stats[i].variance + 1e-12)
        for t in range(1, s - 1):
            if w.flags[PREDICTS, i, t]:
                ripple = w.cells[EXPECTED, i, t] - 0.5 * (w.cells[EXPECTED, i, t - 1] + w.cells[EXPECTED, i, t + 1])
                r = max(-limit, min(limit, w.cells[DEVIATION, i, t] - w.cells[EXPECTED, i, t]))
                ripple = max(-limit, min(limit, ripple))
                product -= weight * r * ripple
                square += weight * ripple * ripple
    period.learned.ripple[p, 0], period.learned.ripple[p, 1] = product, square


@compiled
def try_shrinkage(w, network, period, p, m, s):
    """Compare another shrinkage on this period's trusted readings, each hidden in turn, by the log error."""
    current = _log_error(w, m, s)
    v = network.variables[network.variable[network.members[p, 0]]]
    up = (period.start // s) % 2 == 0
    shrinkage = min(v.shrinkage * SHRINKAGE_STEP, 0.9) if up else v.shrinkage / SHRINKAGE_STEP
    period.learned.trial[p] = 0.0
    for i in range(m):
        for j in range(m):
            w.covariance[i, j] = w.precision[i, j]
    prediction_covariance(network.moments[p], m, shrinkage, w.precision)
    if invert(w.precision, m, w.algebra.square):
        for t in range(s):
            w.stale[t] = True
        for t in range(s):
            if w.stale[t]:
                n = take_alike(w.flags[PREDICTS], m, w.stale, t, s, w.slots)
                leave_one_out(
                    w.precision, m, w.cells[PREDICTOR], w.flags[PREDICTS], w.slots, n, w.cells[EXPECTED],
                    w.cells[JUDGED], w.algebra,
                )  # fmt: skip
        period.learned.trial[p] = _log_error(w, m, s) - current
    for i in range(m):
        for j in range(m):
            w.precision[i, j] = w.covariance[i, j]


@compiled
def _log_error(w, m, s):
    """Return the mean over members of the log mean square error of their trusted readings' predictions."""
    total, members = 0.0, 0
    for i in range(m):
        square, n = 0.0, 0
        for t in range(s):
            if w.flags[PREDICTS, i, t]:
                square += (w.cells[DEVIATION, i, t] - w.cells[EXPECTED, i, t]) ** 2
                n += 1
        if n:
            total += math.log(square / n + 1e-10)
            members += 1
    return total / members if members else 0.0


@compiled
def learn_moments(w, network, p, m, s):
    """Add the period's deviations d, completed where nothing is trusted, to the second moments S.

    With p_i the rate of member i, C the conditional covariance W_UU^-1 of what was completed, and s slots,

        S_ij <- sqrt((1 - p_i) (1 - p_j)) S_ij + sqrt(p_i p_j) (sum_t d_i d_j + C_ij) / s

    The variance of what has a range is at most a quarter of its square (Popoviciu, 1935): without that bound, completed
    cells of a channel that reports garbage feed on themselves, and reach 1e13 after some months. Before the range is
    known it is the whole square.
    """
    moments = network.moments[p]
    for i in range(m):
        limit = 6.0 * math.sqrt(moments[i, i])
        for t in range(s):
            d = _completed_deviation(w, i, t)
            w.cells[SCALED, i, t] = max(-limit, min(limit, d))
    for i in range(m):
        for j in range(i + 1):
            total = 0.0
            for t in range(s):
                total += w.cells[SCALED, i, t] * w.cells[SCALED, j, t]
            w.covariance[i, j] = w.covariance[j, i] = total / s
    for t in range(s):
        w.stale[t] = False
        for i in range(m):
            w.stale[t] = w.stale[t] or not w.flags[PREDICTS, i, t]
    for t in range(s):
        if w.stale[t]:
            n = take_alike(w.flags[PREDICTS], m, w.stale, t, s, w.slots)
            add_conditional_covariance(w.precision, m, w.flags[PREDICTS], t, 1.0 / s, n, w.covariance, w.algebra)
    for i in range(m):
        w.scratch.vector[i] = max(1.0 / (w.stats[i].age + 2.0), 1.0 - MEMORY)
    for i in range(m):
        for j in range(m):
            past = math.sqrt((1.0 - w.scratch.vector[i]) * (1.0 - w.scratch.vector[j]))
            present = math.sqrt(w.scratch.vector[i] * w.scratch.vector[j])
            moments[i, j] = past * moments[i, j] + present * w.covariance[i, j]
        moments[i, i] = max(moments[i, i], 1e-12)
    v = network.variables[network.variable[network.members[p, 0]]]
    if v.high > v.low:
        square = (forward(v.high, v) - forward(v.low, v)) ** 2
        for i in range(m):
            largest = square if w.stats[i].age < FIRST_PERIODS else 0.25 * square
            if moments[i, i] > largest:
                scale = math.sqrt(largest / moments[i, i])
                for j in range(m):
                    moments[i, j] *= scale
                    moments[j, i] *= scale


@entry
def learn_range(network, period, away):
    """Widen the ranges of channels by this period's readings that are kept; count periods without them in `away`.

    One freak reading that is kept does not widen the range of a channel, nor do those of one period: the second largest
    and second smallest of two periods count. The range of a variable is that of its channels without a quarter of them
    on either side.
    """
    channels, s = period.readings.shape
    for c in range(channels):
        n = 0
        low = second_low = np.inf
        high = second_high = -np.inf
        stats = period.learned.stats[c]
        for t in range(s):
            x = period.readings[c, t]
            n += math.isfinite(x)
            if period.estimates.code[c, t] == TRUSTED or period.estimates.code[c, t] == DOUBTFUL:
                second_low, low = min(second_low, max(low, x)), min(low, x)
                second_high, high = max(second_high, min(high, x)), max(high, x)
        away[c] = 0 if n else away[c] + 1
        if math.isfinite(low) and not math.isfinite(second_low):
            second_low, second_high = low, high
        if math.isfinite(second_low):
            # What two periods have shown.
            stats.own_low = min(stats.own_low, max(stats.first_low, second_low))
            stats.own_high = max(stats.own_high, min(stats.first_high, second_high))
            stats.first_low, stats.first_high = min(stats.first_low, second_low), max(stats.first_high, second_high)
    values = np.empty(channels)
    for number in range(len(network.variables)):
        v = network.variables[number]
        for side in range(2):
            n = 0
            for c in range(number, channels, len(network.variables)):
                if not is_counted(network.standing[c]):
                    continue
                stats = period.learned.stats[c]
                value = stats.own_low if side == 0 else -stats.own_high
                if not math.isfinite(value):
                    value = stats.first_low if side == 0 else -stats.first_high
                if math.isfinite(value):
                    values[n] = value
                    n += 1
            if n:
                value = select(values, n, n // EXTREMES)
                if side == 0:
                    v.low = value
                else:
                    v.high = -value


@entry
def learn_profiles(begin, end, network, period, axes, profiles):
    """Add the course of their trusted readings to the profiles of channels `begin` to `end`."""
    s = axes.shape[0]
    course = np.empty(s, np.float32)
    for c in range(begin, end):
        v = network.variables[network.variable[c]]
        n, square = 0, 0.0
        for t in range(s):
            course[t] = np.nan
            if period.estimates.code[c, t] == TRUSTED:
                d = forward(period.readings[c, t], v) - network.mean[c, t]
                course[t] = d
                square += d * d
                n += 1
        spread = math.sqrt(square / max(n, 1) + 1e-12)
        for t in range(s):
            course[t] /= spread
        sketch(profiles[c], course, axes)
