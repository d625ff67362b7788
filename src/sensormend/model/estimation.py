"""What every cell is taken to be, and how sure that is; and what is returned of a period."""

from __future__ import annotations

import math

import numpy as np

from sensormend.model.compiling import compiled, entry, inlined
from sensormend.model.faults import (
    BEGIN,
    COUNT,
    DRIFT,
    ENDED,
    EPISODE,
    EPISODES,
    GAIN,
    KIND,
    LAST_WRONG,
    NONE,
    OFFSET,
    PHI,
    SLOTS,
    SOUND,
    START,
    STUCK,
    THETA1,
    USUALLY,
    WEEK,
    best_hypothesis,
    fault_size,
    lasts,
    power,
)
from sensormend.model.layout import (
    COMMON,
    COMPANY,
    CORRECTED,
    CORRECTION,
    DEVIATION,
    DISTANCE,
    DISTANT,
    DOUBTFUL,
    EVIDENCE,
    FAULTY,
    HIGH,
    LAST_RESIDUAL,
    LAST_TIME,
    LEFT_OPEN,
    LOW,
    MEAN,
    MISSING,
    OBSERVED,
    OPEN_VARIANCE,
    OWN_DISTANCE,
    POSSIBLE,
    PROBABILITY,
    RAW,
    RESIDUAL,
    RESOLUTION,
    SCALED,
    SLOW,
    SMOOTH,
    SPIKE,
    TOLERANCE,
    TRUSTED,
    TRUSTING,
    VARIANCE,
    WANDERS,
    WIDTH_FAR,
    WIDTH_GAP,
    WRONG,
    backward,
    slope,
)

__all__ = [
    "bridge",
    "complete",
    "correction_width",
    "interval_width",
    "settle",
    "smoothing_of_mean",
    "take_out_fault",
    "tolerate",
]


SURE = 2.75
"""Usual distances below which a fault that lasts makes its readings doubtful, and not wrong."""
SURE_ALONE = 30.0
"""Evidence from which an offset, a drift or a gain is wrong where only the channel's own past speaks."""


@inlined
def smoothing_of_mean(w, i, t, s):
    """Return by how much the mean of a slot changes where it is smoothed over the slots around it.

    Where nobody else speaks, the weather of some weeks is in the means, and would bend what is put into a gap.
    """
    total, weight = 0.0, 0.0
    for k in range(-2, 3):
        if 0 <= t + k < s:
            total += (3.0 - abs(k)) * w.cells[MEAN, i, t + k]
            weight += 3.0 - abs(k)
    return total / weight - w.cells[MEAN, i, t]


@inlined
def bridge(w, start, s, i, t, out):
    """Predict a residual from the trusted ones before and after it: the value, and the share of its variance left."""
    known, phi = w.known[i], w.q[i, PHI]
    level = known[SLOW]
    alone = w.others[0] < COMPANY
    here = smoothing_of_mean(w, i, t, s) if alone else 0.0
    before = after = 0.0
    near = far = 0.0
    u = t - 1
    while u >= 0 and not w.flags[TRUSTING, i, u]:
        u -= 1
    if u >= 0:
        near, before = power(phi, float(t - u)), w.cells[RESIDUAL, i, u] - level
        before -= smoothing_of_mean(w, i, u, s) if alone else 0.0
    elif known[LAST_TIME] >= 0.0:
        near, before = power(phi, start + t - known[LAST_TIME]), known[LAST_RESIDUAL] - level
    u = t + 1
    while u < s and not w.flags[TRUSTING, i, u]:
        u += 1
    if u < s:
        far, after = power(phi, float(u - t)), w.cells[RESIDUAL, i, u] - level
        after -= smoothing_of_mean(w, i, u, s) if alone else 0.0
    # No farther than the channel's own history allows: a reading that is trusted may still be wrong.
    most = 4.0 * math.sqrt(known[VARIANCE])
    before, after = max(-most, min(most, before)), max(-most, min(most, after))
    left = 1.0 - near * near * far * far
    out[0] = level + here + (near * (1.0 - far * far) * before + far * (1.0 - near * near) * after) / left
    out[1] = (1.0 - near * near) * (1.0 - far * far) / left


@compiled
def take_out_fault(w, network, period, p, s, i):
    """Write what the wrong readings of member i are with an offset, a drift or a gain taken out, and how sure that is.

    The size of a fault is known as well as the mean of n residuals with memory phi, whose variance is
    (1 + phi) / ((1 - phi) n) of theirs; that of a drift, at its ends, half as well. Over weeks the distance of the
    channel from others wanders, too, and that goes into the size.
    """
    beam, q, known = w.beams[i], w.q[i], w.known[i]
    mean = 0.0
    for t in range(s):
        mean += w.cells[MEAN, i, t] / s
    w.lasts[i] = w.unsure[i] = False
    for t in range(s):
        w.cells[LEFT_OPEN, i, t] = np.inf
    if i >= network.owned[p]:
        # Its own partition follows it; there are no hypotheses of it here.
        return
    best = best_hypothesis(beam)
    alone = w.others[0] < COMPANY
    usual = q[USUALLY] * q[USUALLY] if q[USUALLY] > 0.0 else known[WANDERS]
    for e in range(EPISODES + 1):
        if e == 0:
            first, last, kind = beam[best, START], beam[best, LAST_WRONG], int(beam[best, KIND])
            count = beam[best, COUNT]
            size, rate = fault_size(beam, best)
        else:
            at = ENDED + EPISODE * (e - 1)
            first, last, kind = beam[best, at], beam[best, at + 1], int(beam[best, at + 2])
            size, rate = beam[best, at + 3], beam[best, at + 4]
            if first <= NONE:
                continue
            count = last - first + 1.0
        if last < period.start or kind == SOUND:
            continue
        # Where only its own past speaks, weather may be another explanation, except of readings that stand still.
        w.unsure[i] = w.unsure[i] or (alone and kind != STUCK and w.figures[EVIDENCE, i] < SURE_ALONE)
        if not (kind == OFFSET or kind == DRIFT or (kind == GAIN and e == 0)):
            continue
        if e == 0 and lasts(beam, best, q):
            w.lasts[i] = True
            w.unsure[i] = w.unsure[i] or 0.0 < abs(known[OWN_DISTANCE]) < SURE * q[USUALLY]
        variance = known[VARIANCE] * min(1.0, (1.0 + q[PHI]) / ((1.0 - q[PHI]) * count))
        if kind != OFFSET:
            variance *= 4.0
        variance += usual * min(4.0, count / (WEEK * q[SLOTS]))
        if kind == GAIN:
            # A sensor that has lost its sensitivity says nothing.
            if size < 0.3:
                continue
            variance /= size * size
        for t in range(max(0, int(first) - period.start), min(s - 1, int(last) - period.start) + 1):
            if w.flags[FAULTY, i, t]:
                if kind == GAIN:
                    value = mean + (w.cells[SCALED, i, t] - mean - beam[best, THETA1]) / size
                    w.cells[CORRECTION, i, t] = value - w.cells[MEAN, i, t]
                else:
                    part = size - rate * (last - period.start - t) / q[SLOTS]
                    w.cells[CORRECTION, i, t] = w.cells[DEVIATION, i, t] - part
                w.cells[LEFT_OPEN, i, t] = variance


@inlined
def interval_width(w, i, t, share):
    """Return half the width of the interval of a cell whose residual is open to this share."""
    known = w.known[i]
    factor = known[WIDTH_GAP] + (known[WIDTH_FAR] - known[WIDTH_GAP]) * min(1.0, max(0.0, share))
    wide = math.sqrt(w.cells[OPEN_VARIANCE, i, t] * w.precision[i, i])
    return factor * math.sqrt(share * known[VARIANCE]) * min(wide, 4.0) * w.cells[COMMON, i, t]


@compiled
def correction_width(w, i, variance):
    """Return half the width of the interval of a correction that leaves this variance open."""
    return w.known[i, WIDTH_FAR] * math.sqrt(variance)


@compiled
def settle(w, network, period, p, s):
    """Write what every owned cell is taken to be."""
    for i in range(network.owned[p]):
        c = network.members[p, i]
        v = network.variables[network.variable[c]]
        distant = w.known[i, DISTANT] > 0.0
        if distant and period.kind[c] == SOUND:
            period.kind[c] = DRIFT
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
                period.code[c, t] = DOUBTFUL if w.cells[PROBABILITY, i, t] > POSSIBLE or distant else TRUSTED
                period.cleaned[c, t] = period.lower[c, t] = period.upper[c, t] = w.cells[RAW, i, t]
                continue
            period.code[c, t] = WRONG if w.flags[OBSERVED, i, t] else MISSING
            wide = interval_width(w, i, t, w.column[1])
            if w.flags[OBSERVED, i, t] and w.unsure[i] and w.others[0] >= COMPANY:
                period.code[c, t] = DOUBTFUL
                period.cleaned[c, t] = period.lower[c, t] = period.upper[c, t] = w.cells[RAW, i, t]
                continue
            of_correction = correction_width(w, i, w.cells[LEFT_OPEN, i, t])
            if w.flags[OBSERVED, i, t] and of_correction < wide:
                period.code[c, t] = CORRECTED
                y, wide = w.cells[MEAN, i, t] + w.cells[CORRECTION, i, t], of_correction
                value = max(least, min(high + margin, backward(y, v)))
            period.cleaned[c, t] = value
            period.lower[c, t] = max(least, min(value, backward(y - wide, v)))
            period.upper[c, t] = min(high + margin, max(value, backward(y + wide, v)))
        period.score[c] = w.figures[EVIDENCE, i] / -w.q[i, BEGIN]
        if period.kind[c] != STUCK:
            tolerate(w, period, v, i, c, s)


@compiled
def tolerate(w, period, v, i, c, s):
    """Trust the readings of spans that are no farther from the estimate than the probe is accurate, root mean square.

    Where nobody gave the accuracy, it is the step of the readings.
    """
    limit = v[TOLERANCE] if v[TOLERANCE] >= 0.0 else w.known[i, RESOLUTION]
    if limit > 1e29 or (
        w.known[i, DISTANT] > 0.0 and abs(w.known[i, DISTANCE]) * slope(w.cells[MEAN, i, 0], v) > limit
    ):
        return
    t = 0
    while t < s:
        if period.code[c, t] < DOUBTFUL:
            t += 1
            continue
        first, square, n = t, 0.0, 0
        while t < s and period.code[c, t] != TRUSTED:
            if period.code[c, t] >= DOUBTFUL:
                square += (w.cells[RAW, i, t] - period.low_rank[c, t]) ** 2
                n += 1
            t += 1
        if square > limit * limit * n:
            continue
        for u in range(first, t):
            if period.code[c, u] >= DOUBTFUL:
                w.flags[FAULTY, i, u] = False
                period.code[c, u] = TRUSTED
                period.cleaned[c, u] = period.lower[c, u] = period.upper[c, u] = w.cells[RAW, i, u]


@entry
def complete(
    begin, end, readings, code, low_rank, lower, upper, outliers, wrong, doubtful, spikes, corrected, heard, bad, unsure
):
    """Fill in the cells of channels `begin` to `end`, and count their readings: all, wrong ones, and doubtful ones.

    The interval of a doubtful reading reaches to the estimate: `lower` and `upper` are changed there.
    """
    slots = readings.shape[1]
    for c in range(begin, end):
        n = n_wrong = n_doubtful = 0
        for t in range(slots):
            x, estimate, verdict = readings[c, t], low_rank[c, t], code[c, t]
            observed, is_wrong, is_doubtful = math.isfinite(x), verdict >= WRONG, verdict == DOUBTFUL
            wrong[c, t], doubtful[c, t], spikes[c, t] = is_wrong, is_doubtful, verdict == SPIKE
            corrected[c, t] = verdict == CORRECTED
            outliers[c, t] = x - estimate if is_wrong else 0.0
            if is_doubtful:
                lower[c, t], upper[c, t] = min(x, estimate), max(x, estimate)
            n += observed
            n_wrong += is_wrong
            n_doubtful += is_doubtful
        heard[c], bad[c], unsure[c] = n, n_wrong, n_doubtful
