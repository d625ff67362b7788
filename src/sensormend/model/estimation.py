"""Estimation gives every cell a value and an interval, and corrects wrong readings where that is surer."""

from __future__ import annotations

import math

import numpy as np

from sensormend.model.compiling import compiled, entry, inlined
from sensormend.model.hypotheses import WEEK, best_hypothesis, fault_size, lasts, power
from sensormend.model.scales import backward, forward, slope

from sensormend.model.arrays import (  # isort: skip
    COMMON_MODE, CORRECTED, CORRECTION, CORRECTION_VARIANCE, DEVIATION, DOUBTFUL, DOUBTFUL_PROBABILITY, FAULTY, MEAN,
    MISSING, OBSERVED, OWN_PERIODS, PREDICTION_VARIANCE, PREDICTS, PROBABILITY, RANGE_PERIODS, RAW, RESIDUAL, SCALED,
    SMOOTH, SPIKE, TRUSTED, UNCERTAIN, WELL_EXPLAINED, WRONG, is_alone, level_error, volatility,
)  # fmt: skip
from sensormend.model.records import (  # isort: skip
    DRIFT, EPISODES, GAIN, NOISE, NOT_JUDGED, OFFSET, SOUND, STUCK, UNSURE,
)  # fmt: skip

__all__ = [
    "confirmed_share", "decode", "estimate_cells", "find_trusted", "interpolate_residual", "interval_width",
    "write_corrections",
]  # fmt: skip

WRONG_FROM = 1.2
"""Standard deviations of the change of a sound residual over its span from which an offset or a drift is wrong, and not
only doubtful."""
VOLATILITY_Z, VOLATILITY_SUPPORT, VOLATILITY_MANY = 1.0, 15.0, 5.0
"""Volatilities of a residual beyond a moderate period from which a fault is wrong: the first, and the second over the
number of others that a prediction rests on, over its square where they are more than the third."""
MAX_UNEXPLAINED = 0.25
"""The share of a channel's variance that is left in its residual from which the others say little of it."""
SLOW_SHARE = 0.6
"""The part of these that an offset or a drift of more than a week needs: its size is known from many periods."""
IMPLAUSIBLE_SPREADS = 8.0
"""Standard deviations of a channel beyond which a fault is implausible: rough periods are not that rough."""
WIDE = 1.5
"""Ranges of its variable that the range of a channel is no wider than, for its estimates to be bounded by it."""
CONFIRMED, CONFIRMED_SIZE = -2.06, 1.65
"""Log odds that owners confirm a fault of one standard deviation of its channel, and how they grow with the logarithm
of its size: a logistic regression on 1,600 faults of five archives, which holds for each when it is left out."""
CONFIRMED_GAIN, CONFIRMED_STUCK = -0.4, 0.9
"""The same of a gain, and the share of stuck readings that they confirm."""
TRUE_WEIGHT, OWNERS_WEIGHT, MANY = 3.0, 1.0, 3.0
"""How these log odds grow with the logarithm of the support, from the third on: of known faults in a network of 37
thermometers, where the support is 12, nine in ten of what is found is one; owners confirm fewer than they could."""
TODAY_SHARE = 0.1
"""The share of the range of a channel by which the trusted readings of a period widen it once it is known."""


@inlined
def _mean_smoothing(w, i, t, s):
    """Return by how much the mean of a slot changes when it is smoothed over the slots around it.

    Where there are no others, the weather of some weeks is in the means, and would bend what is put into a gap.
    """
    total, weight = 0.0, 0.0
    for k in range(-2, 3):
        if 0 <= t + k < s:
            total += (3.0 - abs(k)) * w.cells[MEAN, i, t + k]
            weight += 3.0 - abs(k)
    return total / weight - w.cells[MEAN, i, t]


@compiled
def find_trusted(trusted, before, after):
    """Write the trusted slots of a member before and after every slot."""
    s = len(trusted)
    last = -1
    for t in range(s):
        before[t] = last
        if trusted[t]:
            last = t
    last = s
    for t in range(s - 1, -1, -1):
        after[t] = last
        if trusted[t]:
            last = t


@inlined
def interpolate_residual(w, start, s, i, t, out):
    """Write a residual, interpolated between the trusted ones before and after it, and the share of variance left.

    Which these are, `find_trusted` has written.

    With a = phi^(slots since the one before), z = phi^(slots to the one after), 0 where there is none, and b the level,

        r = b + (a (1 - z^2) (r_before - b) + z (1 - a^2) (r_after - b)) / (1 - a^2 z^2)
        share = (1 - a^2) (1 - z^2) / (1 - a^2 z^2)
    """
    stats, phi = w.stats[i], w.parameters[i].phi
    level = stats.slow_level
    alone = is_alone(w)
    smoothing = _mean_smoothing(w, i, t, s) if alone else 0.0
    before = after = 0.0
    a = z = 0.0
    u = w.before[t]
    if u >= 0:
        a, before = power(phi, t - u), w.cells[RESIDUAL, i, u] - level
        before -= _mean_smoothing(w, i, u, s) if alone else 0.0
    elif stats.last_time >= 0:
        a, before = power(phi, start + t - stats.last_time), stats.last_residual - level
    u = w.after[t]
    if u < s:
        z, after = power(phi, u - t), w.cells[RESIDUAL, i, u] - level
        after -= _mean_smoothing(w, i, u, s) if alone else 0.0
    # No farther than the channel's own history allows: a reading that is trusted may still be wrong.
    limit = 4.0 * math.sqrt(stats.variance)
    before, after = max(-limit, min(limit, before)), max(-limit, min(limit, after))
    denominator = 1.0 - a * a * z * z
    out[0] = level + smoothing + (a * (1.0 - z * z) * before + z * (1.0 - a * a) * after) / denominator
    out[1] = (1.0 - a * a) * (1.0 - z * z) / denominator


@inlined
def _rests_on_wrong(w, network, p, period, s, i, first, last):
    """Return whether a third of what predicts a member in an episode is held for wrong itself: that may be no fault."""
    begin, end = max(0, first - period.start), min(s - 1, last - period.start)
    total = wrong = 0.0
    for j in range(network.size[p]):
        if j == i:
            continue
        n = n_wrong = 0
        for t in range(begin, end + 1):
            n += w.flags[OBSERVED, j, t]
            n_wrong += w.flags[FAULTY, j, t]
        if n:
            weight = abs(w.precision[i, j])
            total += weight
            wrong += weight * n_wrong / n
    return 3.0 * wrong > total and total > 0.0


@inlined
def _height(w, v, s, i, begin, end):
    """Return how far the wrong readings of slots `begin` to `end` lie from the sound ones before and after them.

    It is the farthest of them that counts, and of the two distances the shorter; 0 for one that lies between the two.
    """
    before, after = w.stats[i].last_value, np.nan
    for t in range(begin):
        if w.flags[OBSERVED, i, t] and not w.flags[FAULTY, i, t]:
            before = w.cells[RAW, i, t]
    for t in range(s - 1, end, -1):
        if w.flags[OBSERVED, i, t] and not w.flags[FAULTY, i, t]:
            after = w.cells[RAW, i, t]
    up, down = forward(before, v), forward(after, v)
    if math.isnan(up) or math.isnan(down):
        up = down = down if math.isnan(up) else up
    height = 0.0
    for t in range(begin, end + 1):
        if w.flags[FAULTY, i, t]:
            x = w.cells[SCALED, i, t]
            height = max(height, x - max(up, down), min(up, down) - x)
    return height


@inlined
def _is_usual_roughness(w, network, period, p, s, i, first, last, part):
    """Return whether the wrong residuals of an episode are no larger than a rough period's of a sound channel."""
    v = network.variables[network.variable[network.members[p, i]]]
    square, n = 0.0, 0
    for t in range(max(0, first - period.start), min(s - 1, last - period.start) + 1):
        if w.flags[FAULTY, i, t]:
            square += w.cells[RESIDUAL, i, t] ** 2
            n += 1
    if n == 0 or math.isnan(w.stats[i].moderate):
        return False
    support = w.stats[i].support
    z = part * (VOLATILITY_Z + VOLATILITY_SUPPORT * min(1.0, VOLATILITY_MANY / support) / support)
    return 0.5 * math.log(square / n + 1e-12) - w.stats[i].moderate < z * volatility(w.stats[i], v)


@compiled
def confirmed_share(kind, size, spread, support, eta, weight):
    """Return the share of faults of a kind and a size that are confirmed, `spread` being a channel's deviation.

    What is seen on a chart of the channel is marked; where many others predict it, or tell its level well, less shows
    as well. How much less is the `weight` of that: of what is true, or of what owners confirm.
    """
    if kind == STUCK:
        return CONFIRMED_STUCK
    odds = weight * math.log(max(1.0, support / MANY) * max(1.0, WELL_EXPLAINED / max(eta, 1e-6)))
    odds += CONFIRMED_GAIN if kind == GAIN else CONFIRMED + CONFIRMED_SIZE * math.log(abs(size) / spread + 1e-6)
    return 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, odds))))


@compiled
def _may_be_sound(w, network, period, p, s, i, e, kind, first, last, size, rate):
    """Return whether an episode, of which 0 is the open one, may be what a sound channel does: it is doubtful then.

    A sound residual of variance s^2 and memory phi changes over T slots with the variance 2 s^2 (1 - phi^T).
    """
    stats, q = w.stats[i], w.parameters[i]
    length = last - first + 1
    if kind == STUCK:
        return False
    spread = math.sqrt(network.moments[p, i, i])
    farthest = size if kind == GAIN else max(abs(size), abs(size - rate * length / s))
    eta = level_error(stats, network.moments[p, i, i], s)
    if confirmed_share(kind, farthest, spread, stats.support, eta, TRUE_WEIGHT) < 0.5:
        return True
    is_short = e > 0 and length <= max(2.0, s / 8.0)
    # What is wrong for hours where others do not tell what a channel should do shows in its own series.
    c = network.members[p, i]
    begin, end = max(0, first - period.start), min(s - 1, last - period.start)
    is_low = _height(w, network.variables[network.variable[c]], s, i, begin, end) < network.spike_limit[c]
    if is_alone(w):
        # Without others to compare with, weather is another explanation, but of what is over within a few readings.
        return not is_short or is_low
    if stats.variance > MAX_UNEXPLAINED * network.moments[p, i, i]:
        # The others say little of this channel.
        return not is_short or is_low
    if _rests_on_wrong(w, network, p, period, s, i, first, last):
        return True
    is_judged = first < period.start and stats.judgement != NOT_JUDGED and abs(first - stats.onset * s) < 0.1 * s
    if is_judged and stats.judgement == UNSURE:
        # Its change since it began was judged when the last period was over.
        return True
    is_far = kind != GAIN and abs(size) > IMPLAUSIBLE_SPREADS * spread
    is_slow = (kind == OFFSET or kind == DRIFT) and length > WEEK * s
    part = SLOW_SHARE if is_slow else 1.0
    if not is_far and _is_usual_roughness(w, network, period, p, s, i, first, last, part):
        return True
    if is_judged:
        return False
    if kind == NOISE or kind == GAIN or (e > 0 and length <= 2.0):
        return False
    change = math.sqrt(2.0 * stats.variance * (1.0 - power(q.phi, length)))
    return farthest < WRONG_FROM * change


@inlined
def _doubt_usual_run(w, i, begin, end):
    """Make readings of a run doubtful up to the length that was usual so far: only those beyond it are wrong."""
    run, last = w.stats[i].run_length, w.stats[i].last_value
    for t in range(end + 1):
        if w.flags[OBSERVED, i, t]:
            run = run + 1 if np.float32(w.cells[RAW, i, t]) == np.float32(last) else 1
            last = w.cells[RAW, i, t]
            if t >= begin and run <= w.member.usual_run[i]:
                w.flags[UNCERTAIN, i, t] = w.flags[FAULTY, i, t]


@compiled
def write_corrections(w, network, period, p, s, i):
    """Write the corrections of member i's readings in an offset, a drift or a gain, and their variance.

    The size of a fault is known as well as the mean of n residuals with memory phi, whose variance is
    (1 + phi) / ((1 - phi) n) of theirs; that of a drift, at its ends, half as well. Over weeks the distance of the
    channel from others wanders, too, and that goes into the size.
    """
    beam, q, stats = w.beams[i], w.parameters[i], w.stats[i]
    mean = 0.0
    for t in range(s):
        mean += w.cells[MEAN, i, t] / s
    w.member.lasts[i] = False
    for t in range(s):
        w.cells[CORRECTION_VARIANCE, i, t] = np.inf
        w.flags[UNCERTAIN, i, t] = False
    if i >= network.owned[p]:
        # It is followed where it is owned; there are no hypotheses of it here.
        return
    best = best_hypothesis(beam)
    distance_variance = q.usual_distance * q.usual_distance if q.usual_distance > 0.0 else stats.wander_square
    for e in range(EPISODES + 1):
        if e == 0:
            first, last, kind = beam[best].start, beam[best].last_wrong, beam[best].kind
            count = beam[best].count
            size, rate = fault_size(beam, best)
        else:
            ended = beam[best].ended[e - 1]
            first, last, kind = ended.first, ended.last, ended.kind
            size, rate = ended.fault_size, ended.rate
            if kind == SOUND:
                continue
            count = last - first + 1
        if last < period.start or kind == SOUND:
            continue
        begin, end = max(0, first - period.start), min(s - 1, last - period.start)
        if kind == STUCK and is_alone(w) and not w.member.dead[i]:
            _doubt_usual_run(w, i, begin, end)
        elif _may_be_sound(w, network, period, p, s, i, e, kind, first, last, size, rate):
            for t in range(begin, end + 1):
                w.flags[UNCERTAIN, i, t] = w.flags[FAULTY, i, t]
        if not (kind == OFFSET or kind == DRIFT or (kind == GAIN and e == 0)):
            continue
        if e == 0 and lasts(beam, best, q):
            w.member.lasts[i] = True
        variance = stats.variance * min(1.0, (1.0 + q.phi) / ((1.0 - q.phi) * count))
        if kind != OFFSET:
            variance *= 4.0
        variance += distance_variance * min(4.0, count / (WEEK * q.slots))
        if kind == GAIN:
            # Nothing can be corrected of a sensor that has lost its sensitivity.
            if size < 0.3:
                continue
            variance /= size * size
        for t in range(begin, end + 1):
            if w.flags[FAULTY, i, t]:
                if kind == GAIN:
                    value = mean + (w.cells[SCALED, i, t] - mean - beam[best].theta1) / size
                    w.cells[CORRECTION, i, t] = value - w.cells[MEAN, i, t]
                else:
                    size_then = size - rate * (last - period.start - t) / q.slots
                    w.cells[CORRECTION, i, t] = w.cells[DEVIATION, i, t] - size_then
                w.cells[CORRECTION_VARIANCE, i, t] = variance


@inlined
def interval_width(w, i, t, share):
    """Return half the width of the interval of a cell of whose residual this share of the variance is left."""
    stats = w.stats[i]
    factor = stats.width_gap + (stats.width_far - stats.width_gap) * min(1.0, max(0.0, share))
    widening = math.sqrt(w.cells[PREDICTION_VARIANCE, i, t] * w.precision[i, i])
    return factor * math.sqrt(share * stats.variance) * min(widening, 4.0) * w.cells[COMMON_MODE, i, t]


@inlined
def _interpolate_doubtful(w, s, i, t, out):
    """Write the residual of a gap beside a doubtful reading, which is kept, and return whether it is one.

    A gap in a fault that may be none is filled as the readings before and after it are.
    """
    before, after = t - 1, t + 1
    while before >= 0 and not (w.flags[PREDICTS, i, before] or w.flags[UNCERTAIN, i, before]):
        before -= 1
    while after < s and not (w.flags[PREDICTS, i, after] or w.flags[UNCERTAIN, i, after]):
        after += 1
    is_before = before >= 0 and w.flags[UNCERTAIN, i, before]
    is_after = after < s and w.flags[UNCERTAIN, i, after]
    if not (is_before or is_after):
        return False
    before, after = (after if before < 0 else before), (before if after == s else after)
    share = (t - before) / (after - before) if after > before else 0.0
    out[0] = (1.0 - share) * w.cells[RESIDUAL, i, before] + share * w.cells[RESIDUAL, i, after]
    return True


@inlined
def _accept_reading(out, c, t, x, code):
    """Take a reading as it is, trusted or doubtful."""
    out.code[c, t] = code
    out.cleaned[c, t] = out.lower[c, t] = out.upper[c, t] = x


@compiled
def estimate_cells(w, network, period, p, s):
    """Write the estimate, the cleaned value, its interval and the verdict of every owned cell."""
    out = period.estimates
    for i in range(network.owned[p]):
        c = network.members[p, i]
        v = network.variables[network.variable[c]]
        distant = w.stats[i].is_distant
        if distant and out.kind[c] == SOUND:
            out.kind[c] = DRIFT
        low, high = v.low, v.high
        if w.stats[i].age >= OWN_PERIODS and w.stats[i].own_high > w.stats[i].own_low:
            # No farther than the channel was itself, and a quarter of that.
            margin = 0.25 * (w.stats[i].own_high - w.stats[i].own_low)
            own_low, own_high = w.stats[i].own_low, w.stats[i].own_high
            if own_high - own_low < WIDE * (high - low) or high <= low:
                # A channel may lie apart from the others; one whose range is much wider is not to be believed.
                low, high = min(low, own_low), max(high, own_high)
                low, high = max(low, own_low - margin), min(high, own_high + margin)
        # What is trusted today widens that; of a channel that is known well only by a part, since it may be wrong.
        least, most = -np.inf, np.inf
        if high > low and w.stats[i].age >= RANGE_PERIODS and w.stats[i].readings > 0.5 * RANGE_PERIODS * s:
            least, most = low - TODAY_SHARE * (high - low), high + TODAY_SHARE * (high - low)
        for t in range(s):
            if w.flags[PREDICTS, i, t]:
                low = min(low, max(least, w.cells[RAW, i, t]))
                high = max(high, min(most, w.cells[RAW, i, t]))
        find_trusted(w.flags[PREDICTS, i], w.before, w.after)
        has_doubtful = False
        for t in range(s):
            has_doubtful = has_doubtful or w.flags[UNCERTAIN, i, t]
        for t in range(s):
            trusted = w.flags[PREDICTS, i, t]
            y = w.cells[MEAN, i, t] + w.cells[SMOOTH, i, t]
            if not trusted:
                interpolate_residual(w, period.start, s, i, t, w.algebra.column)
                y += w.algebra.column[0]
            value = max(low, min(high, backward(y, v))) if high >= low else np.nan
            out.expected[c, t] = value
            if trusted:
                code = DOUBTFUL if w.cells[PROBABILITY, i, t] > DOUBTFUL_PROBABILITY or distant else TRUSTED
                _accept_reading(out, c, t, w.cells[RAW, i, t], code)
                continue
            out.code[c, t] = WRONG if w.flags[OBSERVED, i, t] else MISSING
            width = interval_width(w, i, t, w.algebra.column[1])
            if w.flags[UNCERTAIN, i, t]:
                _accept_reading(out, c, t, w.cells[RAW, i, t], DOUBTFUL)
                continue
            correction_width = w.stats[i].width_far * math.sqrt(w.cells[CORRECTION_VARIANCE, i, t])
            if w.flags[OBSERVED, i, t] and correction_width < width:
                out.code[c, t] = CORRECTED
                y, width = w.cells[MEAN, i, t] + w.cells[CORRECTION, i, t], correction_width
                value = max(low, min(high, backward(y, v)))
            elif has_doubtful and not w.flags[OBSERVED, i, t] and _interpolate_doubtful(w, s, i, t, w.algebra.column):
                doubtful = w.cells[MEAN, i, t] + w.cells[SMOOTH, i, t] + w.algebra.column[0]
                if low <= backward(doubtful, v) <= high:
                    y, value = doubtful, backward(doubtful, v)
            out.cleaned[c, t] = value
            out.lower[c, t] = max(low, min(value, backward(y - width, v)))
            out.upper[c, t] = min(high, max(value, backward(y + width, v)))
        out.score[c] = w.member.log_ratio[i] / -w.parameters[i].log_prior
        # A channel that is stuck where the others would have it looks like one that stands still with them.
        is_explained = w.stats[i].variance < MAX_UNEXPLAINED * network.moments[p, i, i] and not is_alone(w)
        if out.kind[c] != STUCK or (is_explained and not w.member.dead[i]):
            _apply_tolerance(w, out, v, i, c, s)


@compiled
def _apply_tolerance(w, out, v, i, c, s):
    """Trust the readings of spans that are no farther from the estimate than the probe is accurate, root mean square.

    Where the accuracy is not given, it is a step of the readings, and the half by which the estimate may be off since
    it comes from readings that are rounded, too.
    """
    limit = v.tolerance if v.has_tolerance else 1.5 * w.stats[i].resolution
    if math.isinf(limit) or (
        w.stats[i].is_distant and abs(w.stats[i].distance) * slope(w.cells[MEAN, i, 0], v) > limit
    ):
        return
    t = 0
    while t < s:
        if out.code[c, t] < DOUBTFUL:
            t += 1
            continue
        first, square, n = t, 0.0, 0
        while t < s and out.code[c, t] != TRUSTED:
            if out.code[c, t] >= DOUBTFUL:
                square += (w.cells[RAW, i, t] - out.expected[c, t]) ** 2
                n += 1
            t += 1
        if square > limit * limit * n:
            continue
        for u in range(first, t):
            if out.code[c, u] >= DOUBTFUL:
                w.flags[FAULTY, i, u] = False
                _accept_reading(out, c, u, w.cells[RAW, i, u], TRUSTED)


@entry
def decode(begin, end, readings, estimates, verdicts):
    """Write the verdicts of channels `begin` to `end` that their codes stand for, and count their readings.

    The interval of a doubtful reading reaches to the estimate: `lower` and `upper` are changed there.
    """
    for c in range(begin, end):
        n = n_wrong = n_doubtful = 0
        for t in range(readings.shape[1]):
            x, estimate, code = readings[c, t], estimates.expected[c, t], estimates.code[c, t]
            observed, is_wrong, is_doubtful = math.isfinite(x), code >= WRONG, code == DOUBTFUL
            verdicts.wrong[c, t], verdicts.doubtful[c, t] = is_wrong, is_doubtful
            verdicts.spikes[c, t], verdicts.corrected[c, t] = code == SPIKE, code == CORRECTED
            verdicts.outliers[c, t] = x - estimate if is_wrong else 0.0
            if is_doubtful:
                estimates.lower[c, t], estimates.upper[c, t] = min(x, estimate), max(x, estimate)
            n += observed
            n_wrong += is_wrong
            n_doubtful += is_doubtful
        verdicts.n_observed[c], verdicts.n_wrong[c], verdicts.n_doubtful[c] = n, n_wrong, n_doubtful
