"""Hypotheses about a channel's sound spans and faults explain its residuals, reading by reading.

A hypothesis is a history of the channel up to now: sound, or in a fault of one kind since some reading, with up to
three episodes that ended lately. All of them see every reading, and each is weighted by how well it predicted them.
With r the residual, b its slow level and phi its memory from slot to slot, a sound channel has

    r_t = b + phi (r_{t-1} - b) + innovation,        innovation ~ sigma_t * Student's t

and a fault adds theta1 h1_t + theta2 h2_t to r: an offset h = (1, 0), a drift (1, periods since its start), a gain
(1, what the network expects). Their parameters follow by recursive least squares on the innovations, in which one that
is far off counts less, by (df + 1) / (df + z^2); the first reading may be of any size. A noisy channel's
residuals are independent with an unknown variance; one that is stuck repeats its reading, which a sound one does with
a probability that is learned. A fault begins with a prior probability, and ends with one that falls as 1 / its length:
durations are log-uniform. A sensor that is in a fault may get stuck, and that fault ends without a sound reading. Of
every kind the three most likely hypotheses stay. They are the rows of a `beam`, with the fields of `Hypothesis`; q are
the `Parameters` of the channel.

References
----------
.. [1] Y. Bar-Shalom, X. R. Li and T. Kirubarajan, "Estimation with Applications to Tracking and Navigation", Wiley,
   2001, chapter 11: mixtures of histories, interacting multiple models, and the pruning of unlikely ones.
.. [2] R. P. Adams and D. J. C. MacKay, "Bayesian Online Changepoint Detection", arXiv:0710.3742, 2007: the weight of
   a history from its predictions and a hazard of change.
.. [3] K. L. Lange, R. J. A. Little and J. M. G. Taylor, "Robust Statistical Modeling Using the t Distribution", Journal
   of the American Statistical Association 84, 1989: the weight (df + 1) / (df + z^2).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from sensormend.model.compiling import compiled, inlined
from sensormend.model.records import DRIFT, EPISODES, GAIN, NOISE, OFFSET, SOUND, STUCK

__all__ = [
    "BEAM", "ChannelInput", "Reading", "advance", "begin_lasting", "best_hypothesis", "digest_of_series",
    "digest_of_start", "fault_size", "follow", "lasts", "log_t", "power", "sound_only", "t_constant", "updated_level",
    "wrong_probability",
]  # fmt: skip

PER_KIND = 3
BEAM = (STUCK + 1) * PER_KIND

NONE = -1.0e30
"""The log-likelihood of a row without a hypothesis."""
PRUNE_BELOW = 48.0
"""A hypothesis that is less likely than the best by this much, in log, is dropped."""

CAUCHY = -math.log(math.pi)
END_HAZARD = 0.25
"""Durations between three readings and a week, log-uniform, have the hazard 1 / (4 length)."""
LEVEL_RATE = 0.015
"""How fast a sound channel's level follows what its residual missed."""
TABLE_LENGTH = 1024
"""Readings from which a fault's hazard, and the constant of its noise's density, are taken to be what they are then."""
LOG_END = np.array([math.log(END_HAZARD / max(count, 2)) for count in range(TABLE_LENGTH)])
LOG_STAY = np.array([math.log1p(-END_HAZARD / max(count, 2)) for count in range(TABLE_LENGTH)])
NOISE_CONSTANT = np.array(
    [math.lgamma(n / 2 + 1) - math.lgamma(n / 2 + 0.5) - 0.5 * math.log((n + 1) * math.pi) for n in range(TABLE_LENGTH)]
)
"""By readings so far: log probabilities of ending and continuing; constant of Student's t with one degree more."""

MONTH, WEEK = 30.0, 7.0
"""Periods over which the size of a fault may change by the usual distance, and from which on a fault lasts."""
LASTING_ODDS = 15.0
"""Log odds that a fault which the channel's slow distance shows is real."""
GAIN_MEAN, GAIN_SD = -1.0, 0.5
"""What a wrong gain adds to 1: most such sensors have lost their sensitivity."""
KIND_PENALTY = np.array([0.0, 0.0, 0.0, 3.0, 0.0, 2.0])
"""Log odds by which a gain and a stuck sensor are rarer than other kinds: calm weather, and water that freezes or
melts, look like them."""
DIGEST_FACTOR, DIGEST_MASK = 6364136223846793005, 2**62 - 1
"""Of a linear congruential generator (Knuth's MMIX), in 62 bits: two different histories have the same digest once in
10^18."""
SMALL_GAIN = 0.6
"""A gain nearer to 1 than this is no fault: the network's own prediction may be so far off."""


class ChannelInput(NamedTuple):
    """A period of one channel as its hypotheses see it, (slot,)."""

    observed: Any
    residual: Any
    expected: Any  # what the network expects, as a deviation from the channel's mean: a gain multiplies it
    repeated: Any  # log probability that a sound channel repeats its reading, above 0 where it did not
    scale: Any  # of a sound innovation


class Reading(NamedTuple):
    """One reading of a `ChannelInput` at slot `time`, and what all hypotheses need for it.

    `decay` is phi^g, with g the slots since the reading before, which all hypotheses have seen; `spread` the scale of
    an innovation over as many slots, and `peak` the log of its density where that is largest.
    """

    time: Any
    residual: Any
    expected: Any
    repeated: Any
    scale: Any
    decay: Any
    spread: Any
    peak: Any


@compiled
def power(phi, gap):
    """Return phi to the power of a whole number of slots, most often one."""
    return phi if gap == 1 else phi ** float(gap)


@compiled
def log_t(z, df):
    """Log density of Student's t, without its constant."""
    # Not `log1p`, which takes three times as long: what it is more exact by does not count among log-likelihoods.
    return -0.5 * (df + 1.0) * math.log(1.0 + z * z / df)


@compiled
def t_constant(df):
    """Return the constant of the log density of Student's t."""
    return math.lgamma(0.5 * (df + 1.0)) - math.lgamma(0.5 * df) - 0.5 * math.log(df * math.pi)


@compiled
def sound_only(beam, residual, time, level):
    """Start with one hypothesis: sound, with this last residual."""
    for b in range(BEAM):
        beam[b].logl = NONE
    sound = beam[0]
    sound.logl = sound.theta1 = sound.theta2 = sound.p11 = sound.p12 = sound.p22 = sound.h1 = sound.h2 = 0.0
    sound.squares = sound.sound_r = 0.0
    sound.kind, sound.start, sound.last_wrong, sound.count, sound.sound_t = SOUND, time, 0, 0, 0
    sound.last_r = residual
    sound.last_t = time
    sound.level = level
    for e in range(EPISODES):
        ended = sound.ended[e]
        ended.first, ended.last, ended.kind, ended.fault_size, ended.rate = 0, 0, SOUND, 0.0, 0.0


@compiled
def begin_lasting(beam, size, onset, time, q):
    """Add to a beam of one sound hypothesis those of a fault that has reached this size since slot `onset`."""
    periods = max(1.0, (time - onset) / q.slots)
    for kind in (OFFSET, DRIFT):
        b = kind * PER_KIND
        beam[b] = beam[0]
        beam[b].kind, beam[b].start, beam[b].count = kind, onset, time - onset
        beam[b].sound_t = onset
        beam[b].last_wrong = time - 1
        beam[b].level = beam[b].p12 = 0.0
        beam[b].h1 = 1.0
        if kind == OFFSET:
            beam[b].theta1, beam[b].p11 = size, 0.25 * size * size
        else:
            beam[b].h2 = (beam[b].last_t - onset) / q.slots
            beam[b].p11 = 0.25 * size * size
            beam[b].theta2, beam[b].p22 = size / periods, (size / periods) ** 2
    beam[0].logl = -LASTING_ODDS


@inlined
def _row_for(beam, kind, logl):
    """Return the row for a hypothesis of this kind: a free one, or the least likely one's; -1 if that is likelier."""
    lowest, row = logl, -1
    for b in range(kind * PER_KIND, kind * PER_KIND + PER_KIND):
        if beam[b].logl == NONE:
            return b
        if beam[b].logl < lowest:
            lowest, row = beam[b].logl, b
    return row


@inlined
def _copy(beam, b, fresh, row, logl, residual, time):
    fresh[row] = beam[b]
    fresh[row].logl = logl
    fresh[row].last_r = residual
    fresh[row].last_t = time


@compiled
def updated_level(level, error, scale, q):
    """Return the slow level b of a sound channel after an innovation, within plus or minus its wander."""
    level += LEVEL_RATE * max(-3.0 * scale, min(3.0 * scale, error))
    return max(-q.wander, min(q.wander, level))


@inlined
def _innovation(beam, b, reading):
    """Return r_t - b - phi^g (r_{t-g} - b) of a channel that is sound, with b its slow level."""
    level = beam[b].level
    return reading.residual - level - reading.decay * (beam[b].last_r - level)


@inlined
def _continue_sound(beam, fresh, b, reading, q):
    """Continue a sound channel; return the log-likelihood, as all that write a hypothesis do."""
    level = beam[b].level
    error = _innovation(beam, b, reading)
    logl = beam[b].logl + log_t(error / reading.spread, q.freedom) + reading.peak
    row = _row_for(fresh, SOUND, logl)
    if row >= 0:
        _copy(beam, b, fresh, row, logl, reading.residual, reading.time)
        fresh[row].level = updated_level(level, error, reading.scale, q)
    return logl


@compiled
def fault_size(beam, b):
    """Return the size of an open fault, and its rate per period."""
    kind = beam[b].kind
    if kind == NOISE:
        return math.sqrt(beam[b].squares / max(beam[b].count, 1.0)), 0.0
    if kind == GAIN:
        return 1.0 + beam[b].theta2, 0.0
    if kind == DRIFT:
        return beam[b].theta1 + beam[b].h2 * beam[b].theta2, beam[b].theta2
    return beam[b].theta1, 0.0


@compiled
def lasts(beam, b, q):
    """Return whether a hypothesis is one of an offset or a drift that has lasted for more than a week."""
    kind = beam[b].kind
    return q.usual_distance > 0.0 and (kind == OFFSET or kind == DRIFT) and beam[b].count > WEEK * q.slots


@inlined
def _append_episode(beam, row, kind):
    """Note the fault of a hypothesis among the episodes that ended."""
    size, rate = fault_size(beam, row)
    ended = beam[row].ended
    for e in range(EPISODES - 1, 0, -1):
        ended[e] = ended[e - 1]
    ended[0].first = beam[row].start
    ended[0].last = beam[row].last_wrong
    ended[0].kind = kind
    ended[0].fault_size, ended[0].rate = size, rate


@inlined
def _end_fault(beam, fresh, b, reading, q, limit):
    """End a fault with the reading before; this one is sound."""
    phi, kind, level = q.phi, beam[b].kind, beam[b].level
    logl = beam[b].logl + LOG_END[min(beam[b].count, TABLE_LENGTH - 1)]
    # No density is above the peak: most are pruned before theirs is computed.
    if logl + reading.peak <= limit or _row_for(fresh, SOUND, logl + reading.peak) < 0:
        return NONE
    if kind == NOISE or kind == STUCK:
        decay = power(phi, reading.time - beam[b].sound_t)
        centre = level + decay * (beam[b].sound_r - level)
        width = reading.scale * math.sqrt((1.0 - decay * decay) / (1.0 - phi * phi))
    else:
        h1, h2 = beam[b].h1, beam[b].h2
        excess = beam[b].last_r - level - h1 * beam[b].theta1 - h2 * beam[b].theta2
        centre = level + reading.decay * excess
        size_variance = h1 * h1 * beam[b].p11 + 2.0 * h1 * h2 * beam[b].p12 + h2 * h2 * beam[b].p22
        width = math.sqrt(reading.spread * reading.spread + reading.decay * reading.decay * size_variance)
    logl += log_t((reading.residual - centre) / width, q.freedom) + q.t_constant - math.log(width)
    row = _row_for(fresh, SOUND, logl)
    if row < 0:
        return NONE
    _copy(beam, b, fresh, row, logl, reading.residual, reading.time)
    _append_episode(fresh, row, kind)
    fresh[row].kind = SOUND
    fresh[row].start = reading.time
    return logl


@compiled
def _repeat_ratio(beam, b, reading, q):
    """Return the log probability ratio of a repeated reading: stuck, where it is 1, over sound.

    `repeated` is the log probability that a sound channel repeats its reading, above 0 where it did not. It
    does so with a probability that falls as its residual becomes unlikely. The sound model counts densities, so its
    density is what the ratio is taken to.
    """
    z = _innovation(beam, b, reading) / reading.spread
    fit = log_t(z, q.freedom)
    return fit + reading.peak - min(reading.repeated + fit, 0.0)


@inlined
def _continue_fault(beam, fresh, b, reading, q, limit):
    """Continue a fault with this reading."""
    kind, count = beam[b].kind, beam[b].count
    logl = beam[b].logl + LOG_STAY[min(count, TABLE_LENGTH - 1)]
    if kind == STUCK:
        if reading.repeated > 0.0:
            return NONE
        logl += _repeat_ratio(beam, b, reading, q)
        row = _row_for(fresh, kind, logl)
        if row < 0:
            return NONE
        _copy(beam, b, fresh, row, logl, reading.residual, reading.time)
    elif kind == NOISE:
        freedom = 1.0 + count
        width = math.sqrt((q.tau * q.tau + beam[b].squares) / freedom)
        logl += (
            log_t(reading.residual / width, freedom) + NOISE_CONSTANT[min(count, TABLE_LENGTH - 1)] - math.log(width)
        )
        row = _row_for(fresh, kind, logl)
        if row < 0:
            return NONE
        _copy(beam, b, fresh, row, logl, reading.residual, reading.time)
        fresh[row].squares += reading.residual * reading.residual
    elif logl + reading.peak <= limit:
        return NONE
    else:
        h2 = 0.0
        if kind == DRIFT:
            h2 = (reading.time - beam[b].start) / q.slots
        elif kind == GAIN:
            h2 = reading.expected
        g1, g2 = 1.0 - reading.decay * beam[b].h1, h2 - reading.decay * beam[b].h2
        # What lasts may change its size as far as distances usually wander.
        elapsed = reading.time - beam[b].last_t
        p11 = beam[b].p11 + q.usual_distance * q.usual_distance * elapsed / (MONTH * q.slots)
        p1 = p11 * g1 + beam[b].p12 * g2
        p2 = beam[b].p12 * g1 + beam[b].p22 * g2
        total = reading.spread * reading.spread + g1 * p1 + g2 * p2
        error = _innovation(beam, b, reading) - g1 * beam[b].theta1 - g2 * beam[b].theta2
        z2 = error * error / total
        logl += -0.5 * (q.freedom + 1.0) * math.log(1.0 + z2 / q.freedom) + q.t_constant - 0.5 * math.log(total)
        row = _row_for(fresh, kind, logl)
        if row < 0:
            return NONE
        _copy(beam, b, fresh, row, logl, reading.residual, reading.time)
        weight = min(1.0, (q.freedom + 1.0) / (q.freedom + z2)) / total
        fresh[row].theta1 += weight * p1 * error
        fresh[row].theta2 += weight * p2 * error
        fresh[row].p11 = p11 - weight * p1 * p1
        fresh[row].p12 -= weight * p1 * p2
        fresh[row].p22 -= weight * p2 * p2
        fresh[row].h2 = h2
    fresh[row].last_wrong = reading.time
    fresh[row].count = count + 1
    return logl


@inlined
def _begin_fault(beam, fresh, b, kind, reading, q, limit):
    """Begin a fault of this kind with this reading, which may be anywhere: its density is Cauchy's, TAU wide."""
    tau = q.tau
    if (kind == GAIN and q.least_gain > 1.0) or (kind != STUCK and q.only_stuck):
        return
    logl = beam[b].logl + q.log_prior - KIND_PENALTY[kind]
    g2 = mean2 = p22 = 0.0
    error = _innovation(beam, b, reading)
    if kind == STUCK:
        if reading.repeated > 0.0:
            return
        logl += _repeat_ratio(beam, b, reading, q)
    elif kind == NOISE:
        logl += CAUCHY - math.log(tau + reading.residual * reading.residual / tau)
    else:
        if kind == GAIN:
            g2, mean2, p22 = reading.expected, GAIN_MEAN, GAIN_SD * GAIN_SD
        elif kind == DRIFT:
            p22 = q.drift_sd * q.drift_sd
        error -= mean2 * g2
        total = reading.spread * reading.spread + tau * tau + g2 * g2 * p22
        logl += CAUCHY - math.log((1.0 + error * error / total) * math.sqrt(total))
    if logl <= limit:
        return
    row = _row_for(fresh, kind, logl)
    if row < 0:
        return
    _copy(beam, b, fresh, row, logl, reading.residual, reading.time)
    fresh[row].kind = kind
    fresh[row].start = reading.time
    fresh[row].sound_r = beam[b].last_r
    fresh[row].sound_t = beam[b].last_t
    fresh[row].last_wrong = reading.time
    fresh[row].count = 1
    fresh[row].squares = reading.residual * reading.residual
    fresh[row].h1, fresh[row].h2 = 1.0, g2
    if kind == NOISE or kind == STUCK:
        fresh[row].theta1 = fresh[row].theta2 = 0.0
        fresh[row].p11 = fresh[row].p12 = fresh[row].p22 = 0.0
        return
    # A reading farther off than TAU has a size of its own order.
    p11 = max(tau * tau, error * error)
    total = reading.spread * reading.spread + p11 + g2 * g2 * p22
    k1, k2 = p11 / total, g2 * p22 / total
    fresh[row].theta1, fresh[row].theta2 = k1 * error, mean2 + k2 * error
    fresh[row].p11 = p11 - k1 * p11
    fresh[row].p12 = -k1 * g2 * p22
    fresh[row].p22 = p22 - k2 * g2 * p22


@inlined
def _get_stuck(beam, fresh, b, reading, q, limit):
    """End the fault of a hypothesis with the reading before, and let the sensor be stuck from this one on."""
    kind = beam[b].kind
    logl = beam[b].logl + LOG_END[min(beam[b].count, TABLE_LENGTH - 1)] + q.log_prior - KIND_PENALTY[STUCK]
    logl += _repeat_ratio(beam, b, reading, q)
    row = _row_for(fresh, STUCK, logl) if logl > limit else -1
    if row < 0:
        return
    # A sound reading after it follows from the last one before the first of the two faults.
    _copy(beam, b, fresh, row, logl, reading.residual, reading.time)
    _append_episode(fresh, row, kind)
    fresh[row].kind = STUCK
    fresh[row].start = fresh[row].last_wrong = reading.time
    fresh[row].count = 1
    fresh[row].theta1 = fresh[row].theta2 = fresh[row].p11 = fresh[row].p12 = fresh[row].p22 = 0.0


@compiled
def _within_wander(beam, q):
    """Turn faults whose size is within the channel's own wander back into sound spans."""
    for b in range(OFFSET * PER_KIND, (NOISE + 1) * PER_KIND):
        if beam[b].logl == NONE or beam[b].count < 6:
            continue
        kind = beam[b].kind
        if kind == NOISE:
            size = 0.0
            is_small = beam[b].squares < q.noise_sd * q.noise_sd * beam[b].count
        elif kind == GAIN:
            size = 0.0
            is_small = abs(beam[b].theta2) < q.least_gain and beam[b].p22 < 0.04
            if is_small and abs(beam[b].theta1) >= q.wander:
                # An offset, which has hypotheses of its own.
                beam[b].logl = NONE
                continue
        else:
            size, _ = fault_size(beam, b)
            is_small = abs(size) < q.wander
        if is_small:
            logl = beam[b].logl
            beam[b].logl = NONE
            row = _row_for(beam, SOUND, logl)
            if row >= 0:
                _copy(beam, b, beam, row, logl, beam[b].last_r, beam[b].last_t)
                if kind == DRIFT and abs(beam[row].theta1) > q.wander:
                    # It was a fault that ended by itself.
                    _append_episode(beam, row, kind)
                beam[row].kind = SOUND
                beam[row].start = beam[b].last_t
                beam[row].level = max(-q.wander, min(q.wander, beam[row].level + size))


@compiled
def _step(beam, fresh, time, series, t, q):
    """Advance all hypotheses by one reading, from `beam` into `fresh`."""
    best, sound, likeliest = NONE, -1, 0
    for b in range(BEAM):
        fresh[b].logl = NONE
        if beam[b].logl > best:
            best, likeliest = beam[b].logl, b
        if b < PER_KIND and beam[b].logl > NONE and (sound < 0 or beam[b].logl > beam[sound].logl):
            sound = b
    phi = q.phi
    decay = power(phi, time - beam[likeliest].last_t)
    scale = series.scale[t]
    spread = scale if decay == phi else scale * math.sqrt((1.0 - decay * decay) / (1.0 - phi * phi))
    peak = q.t_constant - math.log(spread)
    reading = Reading(
        time, series.residual[t], series.expected[t], series.repeated[t], scale, decay, spread, peak
    )  # fmt: skip
    reach = min(PRUNE_BELOW, 3.0 - q.log_prior)
    limit = best - reach
    # What is pruned at the next reading is not written at all.
    best = NONE
    for b in range(PER_KIND):
        if beam[b].logl > limit:
            best = max(best, _continue_sound(beam, fresh, b, reading, q))
    for b in range(PER_KIND, BEAM):
        if beam[b].logl > limit:
            if beam[b].logl + LOG_END[min(beam[b].count, TABLE_LENGTH - 1)] > limit:
                best = max(best, _end_fault(beam, fresh, b, reading, q, best - reach))
            best = max(best, _continue_fault(beam, fresh, b, reading, q, best - reach))
    if reading.repeated <= 0.0 and SOUND < beam[likeliest].kind < STUCK:
        _get_stuck(beam, fresh, likeliest, reading, q, best - reach)
    # A fault begins with a reading that is not where a sound channel's would be, or repeats.
    if (
        sound >= 0
        and beam[sound].logl > limit
        and (reading.repeated <= 0.0 or abs(_innovation(beam, sound, reading)) > 1.5 * reading.scale)
    ):
        for kind in range(OFFSET, STUCK + 1):
            _begin_fault(beam, fresh, sound, kind, reading, q, best - reach)


@compiled
def advance(beam, fresh, start, begin, end, series, q):
    """Take the hypotheses in `beam` through the slots `begin` to before `end` of a period that begins at slot `start`.

    `fresh` is as large as `beam`.
    """
    swapped = False
    for t in range(begin, end):
        if not series.observed[t]:
            continue
        if swapped:
            _step(fresh, beam, start + t, series, t, q)
            _within_wander(beam, q)
        else:
            _step(beam, fresh, start + t, series, t, q)
            _within_wander(fresh, q)
        swapped = not swapped
    if swapped:
        for b in range(BEAM):
            beam[b].logl = fresh[b].logl
            if fresh[b].logl > NONE:
                beam[b] = fresh[b]


@compiled
def follow(beam, fresh, start, begin, series, q):
    """Follow the hypotheses in `beam` through a period that begins at slot `start`, from its slot `begin` on.

    Return the log-likelihood of the best one, those of `beam` having been relative to its best.
    """
    advance(beam, fresh, start, begin, series.observed.shape[0], series, q)
    best = NONE
    for b in range(BEAM):
        best = max(best, beam[b].logl)
    for b in range(BEAM):
        if beam[b].logl < best - PRUNE_BELOW:
            beam[b].logl = NONE
        else:
            beam[b].logl -= best
    return best


@compiled
def _mixed(digest, value, number):
    """Return a digest of what it is of and one number more, of which `number` has the bits."""
    number.real[0] = value
    bits = int(number.bits[0])
    return (int(digest) * DIGEST_FACTOR + (bits ^ (bits >> 32))) & DIGEST_MASK


@compiled
def digest_of_start(beam, start, begin, q, number):
    """Return a digest of hypotheses before slot `begin` of a period, and of the parameters with which they go on."""
    digest = _mixed(_mixed(0, float(start), number), float(begin), number)
    for value in (
        q.phi, q.tau, q.drift_sd, q.noise_sd, q.log_prior, q.wander, q.freedom, q.usual_distance, q.least_gain,
    ):  # fmt: skip
        digest = _mixed(digest, value, number)
    for b in range(BEAM):
        row = beam[b]
        if row.logl > NONE:
            for value in (
                float(b), row.logl, float(row.kind), float(row.start), float(row.last_wrong), float(row.count),
                row.last_r, float(row.last_t), row.level, row.theta1, row.theta2, row.squares,
            ):  # fmt: skip
                digest = _mixed(digest, value, number)
    return digest


@compiled
def digest_of_series(digest, series, begin, end, number):
    """Return a digest of what it is of and the slots `begin` to before `end` of a channel."""
    for t in range(begin, end):
        if series.observed[t]:
            digest = _mixed(digest, float(t), number)
            digest = _mixed(digest, series.residual[t], number)
            digest = _mixed(digest, series.expected[t], number)
            digest = _mixed(digest, series.repeated[t], number)
            digest = _mixed(digest, series.scale[t], number)
    return digest


@compiled
def best_hypothesis(beam):
    """Return the row of the most likely hypothesis."""
    best, row = NONE, 0
    for b in range(BEAM):
        if beam[b].logl > best:
            best, row = beam[b].logl, b
    return row


@compiled
def _add_span(share, weight, first, last, start):
    for t in range(max(0, first - start), min(share.shape[0], last - start + 1)):
        share[t] += weight


@compiled
def wrong_probability(beam, start, share):
    """Write the probability that each slot from `start` on is in a fault into `share`."""
    total = 0.0
    for t in range(share.shape[0]):
        share[t] = 0.0
    for b in range(BEAM):
        if beam[b].logl == NONE:
            continue
        weight = math.exp(beam[b].logl)
        total += weight
        if beam[b].kind != SOUND:
            _add_span(share, weight, beam[b].start, beam[b].last_wrong, start)
        for e in range(EPISODES):
            ended = beam[b].ended[e]
            if ended.kind != SOUND:
                _add_span(share, weight, ended.first, ended.last, start)
    for t in range(share.shape[0]):
        share[t] /= total
