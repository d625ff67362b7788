"""Judging the readings of a partition: who needs a closer look, who is wrong, the worst set aside first."""

from __future__ import annotations

import math

from sensormend.model.compiling import compiled, inlined
from sensormend.model.faults import (
    BEAM,
    BEGIN,
    CONSTANT,
    ENDED,
    EPISODE,
    EPISODES,
    FIELDS,
    FREEDOM,
    KEEP,
    KIND,
    LAST_WRONG,
    LOGL,
    LOST,
    NOISY,
    NONE,
    PHI,
    SLOPE,
    SLOTS,
    SOUND,
    START,
    TAU,
    USUALLY,
    WANDER,
    begin_lasting,
    best_hypothesis,
    follow,
    followed_level,
    lasts,
    log_t,
    power,
    sound_only,
    t_constant,
    wrong_probability,
)
from sensormend.model.lasting import JUDGED_FROM, RELATED_FROM, usual_distance
from sensormend.model.layout import (
    AGE,
    ASIDE,
    AT_REST,
    BEND,
    COMMON,
    COMPANY,
    COVARIANCE,
    EVIDENCE,
    FAULTY,
    HIGH,
    JUDGED,
    LAST_RESIDUAL,
    LAST_TIME,
    LAST_VALUE,
    LASTING,
    LEVEL_AGE,
    LIKELY,
    LOW,
    MEAN,
    OBSERVED,
    ONSET,
    OPEN_VARIANCE,
    PROBABILITY,
    RANK,
    READINGS,
    RELATIVES,
    REPEAT,
    RESIDUAL,
    RESOLUTION,
    REST,
    RESTING,
    SCALE,
    SCALED,
    SIGMA,
    SLOW,
    SMOOTH,
    TAIL,
    TAIL_COUNT,
    TRUSTING,
    TYPICAL,
    USUAL,
    VARIANCE,
    VOTES,
    WANDERS,
    forward,
    median,
    slope,
)
from sensormend.model.prediction import (
    predict,
)

__all__ = [
    "common_mode",
    "covers",
    "decide",
    "doubt_halo",
    "find_relatives",
    "find_wrong",
    "first_doubt",
    "freedom",
    "judge",
    "only_what_is_explained",
    "outranked",
    "parameters",
    "restlessness",
    "set_scale",
    "sound_likelihood",
    "sound_until",
]

ROUNDS = 12
"""How often a partition is judged at most; two to three times is usual."""
PENALTY, PENALTY_MOST, PENALTY_ALONE = 11.0, 26.0, 11.0
"""Log odds against a fault of one kind that begins at one reading: at least, at most, and where only the channel's own
past speaks."""
ALONE_PERIODS, ALONE_READINGS = 10.0, 60.0
"""Periods, and readings, after which the odds against a fault of such a channel are still twice these."""
ALONE_FREEDOM = 7.0
"""Least degrees of freedom of its innovations: jumps are all that its own past can tell of."""
PENALTY_BASE, RESTLESS = 9.0, 2.0
"""In between they are the base and this many times the channel's usual evidence."""
TAIL_USUAL, TAIL_PRIOR = 0.013, 800.0
"""The share of innovations beyond four scales that a new channel is taken to have, and after how many readings its own
share counts as much."""
NOTABLE, REPEATING = 4.5, 6.0
"""Scales that an innovation must be off, or log odds of repeats, for a closer look at a channel."""
FAR = 5.0
"""Standard deviations of its residual from which a halo member predicts nobody."""
FEW_RELATIVES, ENOUGH_RELATIVES = 3, 10.0
"""Members up to which nobody's restlessness excuses another's, and other members from which it does whole. F1 by
reading of 2, 3, 5 and 8 sensors of NOAA was .51, .62, .69 and .81 without (`bench faults --cases small`), and is .59,
.71, .75 and .83."""
RESTLESS_MOST = 6.0
"""What the root mean square of some restless relatives is bounded by."""
HALF = 0.455
"""The median of a squared normal number."""


@inlined
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


@inlined
def common_mode(w, start, m, s, j, out):
    """Write how restless the relatives of channel j are in each slot, at least 1.

    That is the root mean square of the trusted ones' innovations, up to `RESTLESS_MOST`, or what the median over all of
    them tells, right or wrong: where most are far off, it is the network that moves, and not a fault of each. The fewer
    there are, the less they say: what they do without channel j is hardly known.
    """
    if m <= FEW_RELATIVES:
        for t in range(s):
            out[t] = 1.0
        return
    count = min(RELATIVES, m - 1)
    if w.relatives[j, 0] < 0:
        find_relatives(w, m, j)
    for t in range(s):
        out[t] = 0.0
        w.vector[t] = 0.0
    for k in range(count):
        i = w.relatives[j, k]
        level, sigma, phi, both = w.known[i, SLOW], w.known[i, SIGMA], w.q[i, PHI], w.precision[i, j]
        wide = math.sqrt(w.known[i, VARIANCE] + sigma * sigma)
        known_before = w.known[i, LAST_TIME] == start - 1
        before, moved_before = w.known[i, LAST_RESIDUAL] - level, 0.0
        for t in range(s):
            # Its residual without channel j, and by how much that moved it.
            moved, left = 0.0, 1.0
            if w.flags[TRUSTING, j, t]:
                moved = both * w.cells[RESIDUAL, j, t] * w.cells[OPEN_VARIANCE, i, t]
                left = max(1.0 - both * both * w.cells[OPEN_VARIANCE, i, t] * w.cells[OPEN_VARIANCE, j, t], 0.05)
            w.near[k, t] = -1.0
            if w.flags[OBSERVED, i, t]:
                now = (w.cells[RESIDUAL, i, t] - moved) / left - level
                # Without channel j it is that much less certain.
                z = math.sqrt(left) * ((now - phi * before) / sigma if known_before else now / wide)
                # What channel j did to it is taken out only as well as that is known.
                doubt = 0.25 * max(abs(moved), abs(moved_before)) / sigma
                w.near[k, t] = max(0.0, abs(z) - doubt) ** 2
                before = now
                if w.flags[TRUSTING, i, t]:
                    w.vector[t] += min(z * z, 64.0)
                    out[t] += 1.0
            known_before = w.flags[OBSERVED, i, t]
            moved_before = moved
    for t in range(s):
        trusted = min(w.vector[t] / out[t], RESTLESS_MOST * RESTLESS_MOST) if out[t] > 0.0 else 1.0
        n = beyond = 0
        for k in range(count):
            if w.near[k, t] >= 0.0:
                w.column[n] = w.near[k, t]
                n += 1
                beyond += 1 if w.near[k, t] > 4.0 * HALF else 0
        # The median counts where it is beyond what half of them must be beyond, too.
        common = min(median(w.column, n) / HALF, 1e4) if n >= 4 and 2 * beyond >= n else 1.0
        w.vector[t] = max(trusted, common) if common > 4.0 else trusted
    for t in range(s):
        total, n = w.vector[t], 1.0
        if t > 0:
            total += w.vector[t - 1]
            n += 1.0
        if t < s - 1:
            total += w.vector[t + 1]
            n += 1.0
        out[t] = 1.0 + min(1.0, (m - 1.0) / ENOUGH_RELATIVES) * max(0.0, math.sqrt(total / n) - 1.0)


@inlined
def sound_until(w, start, end, i):
    """Follow channel i as if it were sound up to slot `end`; its last residual, slot and level go into `column`."""
    phi = w.q[i, PHI]
    last, time, level = w.known[i, LAST_RESIDUAL], w.known[i, LAST_TIME], w.known[i, SLOW]
    for t in range(end):
        if w.flags[OBSERVED, i, t]:
            decay = power(phi, start + t - time) if time >= 0.0 else 0.0
            miss = w.cells[RESIDUAL, i, t] - level - decay * (last - level)
            last, time = w.cells[RESIDUAL, i, t], float(start + t)
            level = followed_level(level, miss, w.cells[SCALE, i, t], w.q[i])
    w.column[0], w.column[1], w.column[2] = last, time, level


@inlined
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


@inlined
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
        if (r - level) ** 2 > 9.0 * (variance + scale * scale):
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
            young = ALONE_PERIODS / (1.0 + known[AGE]) + ALONE_READINGS / (1.0 + known[AGE] * s)
            q[BEGIN] = -PENALTY_ALONE * (1.0 + young)
        # A period's mean residual wanders at least as far as its memory lets it.
        held = min(2.0, 3.3 * math.sqrt((1.0 + q[PHI]) / ((1.0 - q[PHI]) * s)))
        q[WANDER] = max(3.0 * math.sqrt(known[WANDERS]), held * math.sqrt(known[VARIANCE]))
        q[SLOTS] = s
        q[FREEDOM] = freedom((known[TAIL] + TAIL_PRIOR * TAIL_USUAL) / (known[TAIL_COUNT] + TAIL_PRIOR))
        if w.others[0] < COMPANY:
            q[FREEDOM] = max(q[FREEDOM], ALONE_FREEDOM)
        q[CONSTANT] = t_constant(q[FREEDOM])
        typical = network.variables[network.variable[network.members[p, i]], TYPICAL]
        # Where the level started over lately, its distance is not known either.
        followed = known[AGE] >= JUDGED_FROM and known[LEVEL_AGE] >= RELATED_FROM
        q[USUALLY] = usual_distance(known, typical, network.moments[p, i, i]) if followed else 0.0


@inlined
def set_scale(w, network, p, s, i):
    """Set the scale of member i's sound innovations, where its relatives are not restless."""
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
    before = abs(forward(known[LAST_VALUE], v) - rest) if intermittent and math.isfinite(known[LAST_VALUE]) else 0.0
    if v[BEND] == 0.0 and not intermittent:
        least = young * max(least, linear) * math.sqrt(w.precision[i, i])
        for t in range(s):
            w.cells[SCALE, i, t] = least * math.sqrt(w.cells[OPEN_VARIANCE, i, t])
        return
    most = max(100.0, 10.0 * (forward(v[HIGH], v) - forward(v[LOW], v))) if v[HIGH] >= v[LOW] else 100.0
    for t in range(s):
        own = linear if v[BEND] == 0.0 else step / slope(w.cells[MEAN, i, t] + w.cells[SMOOTH, i, t], v)
        wide = math.sqrt(w.cells[OPEN_VARIANCE, i, t] * w.precision[i, i])
        if intermittent:
            moved = abs(w.cells[MEAN, i, t] + w.cells[SMOOTH, i, t] - rest)
            moved = max(moved, before)
            if w.flags[OBSERVED, i, t]:
                before = abs(w.cells[SCALED, i, t] - rest)
                moved = max(moved, before)
            own = max(own, min(moved, most))
        w.cells[SCALE, i, t] = young * max(least, own) * wide


@compiled
def restlessness(w, start, m, s):
    """Write how restless the partition is in each slot, at least 1, to the last row of `vector2`."""
    for t in range(s):
        w.near[0, t] = w.near[1, t] = 0.0
    for i in range(m):
        level, weight = w.known[i, SLOW], 1.0 / (w.known[i, VARIANCE] + 1e-30)
        for t in range(s):
            z = (w.cells[RESIDUAL, i, t] - level) ** 2 * weight
            if w.flags[TRUSTING, i, t]:
                w.near[0, t] += min(z, 16.0)
                w.near[1, t] += 1.0
    for t in range(s):
        n = w.near[1, t]
        w.vector2[t] = max(1.0, min(4.0, math.sqrt(w.near[0, t] / n))) if n > 0.0 else 1.0


@inlined
def doubt_halo(w, network, period, s, i, c):
    """Mark the readings of a halo member that are far off, or all of them while a fault of it is open."""
    is_open = False
    for r in range(network.count[c]):
        row = network.first[c] + r
        is_open = is_open or (network.hypotheses[row, LOGL] == 0.0 and int(network.hypotheses[row, KIND]) != SOUND)
    variance, level = w.known[i, VARIANCE], w.known[i, SLOW]
    for t in range(s):
        limit = FAR * FAR * (variance + w.cells[SCALE, i, t] ** 2)
        if is_open or (w.cells[RESIDUAL, i, t] - level) ** 2 > limit:
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


@inlined
def only_what_is_explained(w, period, s, i, c):
    """Let readings that are in no fault of the best hypothesis be doubtful at most; note the likeliest fault."""
    beam = w.beams[i]
    best = best_hypothesis(beam)
    for t in range(s):
        if w.cells[PROBABILITY, i, t] > LIKELY and not covers(beam, best, float(period.start + t)):
            w.cells[PROBABILITY, i, t] = LIKELY
    logl = NONE
    for b in range(BEAM):
        if beam[b, LOGL] == NONE:
            continue
        kind = int(beam[b, KIND])
        if kind == SOUND and beam[b, ENDED] > NONE and beam[b, ENDED + 1] >= period.start:
            kind = int(beam[b, ENDED + 2])
        if kind != SOUND and beam[b, LOGL] > logl:
            logl = beam[b, LOGL]
            period.kind[c] = kind


@inlined
def judge(w, network, period, p, m, s, i):
    """Judge the readings of member i: the probability that each is wrong, and the evidence that any is."""
    c = network.members[p, i]
    lasting = w.known[i, LASTING]
    rows = network.count[c] if lasting == 0.0 else 0
    w.figures[EVIDENCE, i] = 0.0
    for t in range(s):
        w.cells[COMMON, i, t] = 1.0
        w.cells[PROBABILITY, i, t] = 0.0
        w.cells[JUDGED, i, t] = w.cells[RESIDUAL, i, t]
    set_scale(w, network, p, s, i)
    if i >= network.owned[p]:
        # Its own partition judges it; here it only matters whether it can be predicted from.
        doubt_halo(w, network, period, s, i, c)
        return
    first, notable = first_doubt(w, period.start, s, i)
    looked = notable or rows > 0 or lasting != 0.0
    if looked:
        # Restless relatives may excuse it.
        common_mode(w, period.start, m, s, i, w.cells[COMMON, i])
    else:
        for t in range(s):
            w.cells[COMMON, i, t] = w.vector2[t]
    for t in range(s):
        w.cells[SCALE, i, t] *= w.cells[COMMON, i, t]
    if looked:
        first, notable = first_doubt(w, period.start, s, i)
    beam = w.beams[i]
    if math.isinf(lasting):
        # The fault that was open is over.
        lasting = 0.0
    if lasting != 0.0:
        first = 0
        sound_only(beam, w.known[i, LAST_RESIDUAL], max(w.known[i, LAST_TIME], period.start - 1000.0), 0.0)
        begin_lasting(beam, lasting, w.known[i, ONSET], float(period.start), w.q[i])
    elif rows == 0:
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
    if lasting != 0.0 or lasts(beam, best_hypothesis(beam), w.q[i]):
        # What lasts ends when the slow distance is back where it was, or at once.
        w.q[i, WANDER] = 0.0
    pure = sound_likelihood(w, period.start, first, s, i) if rows == 0 and lasting == 0.0 else NONE
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
        if beam[b, LOGL] == NONE:
            continue
        ended = beam[b, ENDED] > NONE and beam[b, ENDED + 1] >= period.start
        if int(beam[b, KIND]) != SOUND or ended:
            fault = max(fault, beam[b, LOGL])
        elif rows > 0 or lasting != 0.0:
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
            more = fewer = 0
            for t in range(s):
                more += w.flags[FAULTY, i, t] and not w.flags[ASIDE, i, t]
                fewer += w.flags[ASIDE, i, t] and not w.flags[FAULTY, i, t]
            if more:
                total = 0.0
                for t in range(s):
                    if w.flags[FAULTY, i, t] and not w.flags[ASIDE, i, t]:
                        total += w.cells[RESIDUAL, i, t] * w.cells[RESIDUAL, i, t] / w.cells[OPEN_VARIANCE, i, t]
                w.figures[RANK, i] = max(total / more, 1e-12)
            if fewer and turn < ROUNDS // 2:
                changed = True
                for t in range(s):
                    if w.flags[ASIDE, i, t] and not w.flags[FAULTY, i, t]:
                        w.flags[ASIDE, i, t] = False
                        w.flags[TRUSTING, i, t] = w.flags[OBSERVED, i, t]
                        w.dirty[t] = True
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
                    if (
                        w.flags[OBSERVED, i, t]
                        and not w.flags[TRUSTING, i, t]
                        and not (w.flags[FAULTY, i, t] or w.odd[i])
                    ):
                        w.flags[TRUSTING, i, t] = True
                        w.dirty[t] = True
                        changed = True
        if not changed:
            return turn + 1
        for i in range(m):
            # Relatives that were set aside excuse nobody any more.
            if w.figures[EVIDENCE, i] > 0.0:
                w.judged[i] = False
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


@inlined
def decide(w, network, p, s, i):
    """Mark the wrong readings of member i, unless all of an episode's are within the resolution."""
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
