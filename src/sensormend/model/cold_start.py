"""A cold start initialises members whose level is not known: new ones, and those whose level starts over."""

from __future__ import annotations

import math

import numpy as np

from sensormend.model.arrays import MEAN, OBSERVED, PREDICTS, RESIDUAL, SCALE, SCALED, median
from sensormend.model.compiling import compiled
from sensormend.model.estimation import MAX_UNEXPLAINED
from sensormend.model.prediction import predict
from sensormend.model.wander import student

__all__ = ["cold_start", "restart_levels"]

IMPLAUSIBLE_FROM = 2.5
"""A new member is implausible from so many times the others' spread, of their levels and of one about its mean; more
where they are few."""
COMOVING_PERIODS = 3.0
"""Periods one after the other in which it must move with them to be accepted."""
COMOVING_READINGS = 6
"""Readings from which it is judged whether a new member moves with the others."""


@compiled
def _moves_with_others(w, s, i, reach):
    """Return 1 where a new member moves with the others, by 0.4 of what they do or more, 0 where not, -1 if unclear."""
    n, sum_own, sum_common, sum_product, sum_square = 0, 0.0, 0.0, 0.0, 0.0
    for t in range(s):
        if w.flags[OBSERVED, i, t]:
            common = w.cells[SCALE, 0, t] + w.cells[SCALE, 1, t]
            n += 1
            sum_own += w.cells[SCALED, i, t]
            sum_common += common
            sum_product += w.cells[SCALED, i, t] * common
            sum_square += common * common
    spread = n * sum_square - sum_common * sum_common
    if n < COMOVING_READINGS or spread <= (0.25 * reach * n) ** 2:
        return -1
    return 1 if n * sum_product - sum_own * sum_common > 0.4 * spread else 0


@compiled
def _is_implausible(w, s, i, offset, reach, n_known):
    """Return whether a new member is far from the others and has not moved with them for long enough.

    How far levels lie apart is known of `n_known` members: of few of them it says little, and those that do not report
    say nothing of the present season.
    """
    if _n_observed(w, s, i) == 0 or n_known < 3:
        return False
    if abs(offset) <= student(IMPLAUSIBLE_FROM, n_known - 1.0) * reach:
        return False
    along = _moves_with_others(w, s, i, reach)
    if along >= 0:
        w.stats[i].comoving = (w.stats[i].comoving + 1) * along
    return w.stats[i].comoving < COMOVING_PERIODS


@compiled
def _n_observed(w, s, i):
    """Return how many readings a member has in this period."""
    n = 0
    for t in range(s):
        n += w.flags[OBSERVED, i, t]
    return n


@compiled
def cold_start(w, network, p, m, s):
    """Initialise members that were never observed: level, mean course, variance, and correlations with the others."""
    moments = network.moments[p]
    n_old = 0
    for i in range(m):
        if w.stats[i].age > 0:
            n_old += 1
    if n_old == 0:
        _cold_start_all(w, moments, m, s)
        return
    sums = w.member.rank
    for i in range(m):
        total = 0.0
        for t in range(s):
            total += w.cells[MEAN, i, t]
        sums[i] = total
    # The usual course of the known members, and how unusual this period is for them.
    for t in range(s):
        n = k = 0
        for i in range(m):
            if w.stats[i].age > 0:
                w.scratch.vector[n] = w.cells[MEAN, i, t] - sums[i] / s
                n += 1
                if w.flags[OBSERVED, i, t]:
                    w.scratch.other[k] = w.cells[SCALED, i, t] - w.cells[MEAN, i, t]
                    k += 1
        w.cells[SCALE, 0, t] = median(w.scratch.vector, n)
        w.cells[SCALE, 1, t] = median(w.scratch.other, k) if k else 0.0
    n = 0
    for i in range(m):
        if w.stats[i].age > 0:
            w.scratch.vector[n] = sums[i] / s
            n += 1
    middle = median(w.scratch.vector, n)
    for k in range(n):
        w.scratch.vector[k] = abs(w.scratch.vector[k] - middle)
    reach = 1.4826 * median(w.scratch.vector, n)
    n = 0
    for i in range(m):
        if w.stats[i].age > 0:
            w.scratch.vector[n] = moments[i, i]
            n += 1
    variance = median(w.scratch.vector, n)
    reach += math.sqrt(variance)
    n_explained = n_present = 0
    for i in range(m):
        n_present += w.stats[i].age > 0 and _n_observed(w, s, i) > 0
        n_explained += w.stats[i].age > 0 and w.stats[i].variance < MAX_UNEXPLAINED * moments[i, i]
    for i in range(m):
        if w.stats[i].age > 0:
            continue
        n = 0
        for t in range(s):
            if w.flags[OBSERVED, i, t]:
                w.scratch.vector[n] = w.cells[SCALED, i, t] - w.cells[SCALE, 0, t] - w.cells[SCALE, 1, t]
                n += 1
        level = median(w.scratch.vector, n) if n else middle
        is_reference = network.reference[network.members[p, i]]
        # Where known ones do not move together either, as snow on glaciers, levels may lie anywhere.
        is_judged = not is_reference and 2 * n_explained >= n_old
        w.member.implausible[i] = is_judged and _is_implausible(w, s, i, level - middle, reach, min(n_old, n_present))
        if w.member.implausible[i]:
            # Its own level is worth nothing: it is estimated like any other.
            level = middle
        for t in range(s):
            w.cells[MEAN, i, t] = level + w.cells[SCALE, 0, t]
    # An average member's variance and correlations, a bit weaker.
    for statistic in (
        w.stats["variance"], w.stats["covariance"], w.stats["sigma"], w.stats["wander_square"], w.stats["width_gap"],
        w.stats["width_far"],
    ):  # fmt: skip
        n = 0
        for i in range(m):
            if w.stats[i].age > 0:
                w.scratch.vector[n] = statistic[i]
                n += 1
        typical = median(w.scratch.vector, n)
        for i in range(m):
            if w.stats[i].age == 0:
                statistic[i] = typical
    for i in range(m):
        total, n = 0.0, 0
        for j in range(m):
            if j != i and w.stats[j].age > 0 and w.stats[i].age > 0:
                total += moments[i, j] / math.sqrt(moments[i, i] * moments[j, j] + 1e-30)
                n += 1
        w.scratch.other[i] = max(0.0, min(1.0, 0.9 * total / n)) if n else 0.5
    n, total = 0, 0.0
    for i in range(m):
        if w.stats[i].age > 0:
            total += w.scratch.other[i]
            n += 1
    mean_correlation = total / n
    for i in range(m):
        for j in range(m):
            if w.stats[i].age > 0 and w.stats[j].age > 0:
                continue
            if i == j:
                moments[i, i] = variance
                continue
            sd_i = math.sqrt(moments[i, i]) if w.stats[i].age > 0 else math.sqrt(variance)
            sd_j = math.sqrt(moments[j, j]) if w.stats[j].age > 0 else math.sqrt(variance)
            correlation = (
                w.scratch.other[i]
                if w.stats[i].age > 0
                else w.scratch.other[j]
                if w.stats[j].age > 0
                else mean_correlation
            )
            moments[i, j] = 0.9 * correlation * sd_i * sd_j


@compiled
def _cold_start_all(w, moments, m, s):
    """Initialise a partition of which no member is known."""
    medians = w.member.rank
    for i in range(m):
        n = 0
        for t in range(s):
            if w.flags[OBSERVED, i, t]:
                w.scratch.vector[n] = w.cells[SCALED, i, t]
                n += 1
        medians[i] = median(w.scratch.vector, n) if n else np.nan
    for t in range(s):
        n = 0
        for i in range(m):
            if w.flags[OBSERVED, i, t]:
                w.scratch.vector[n] = w.cells[SCALED, i, t] - medians[i]
                n += 1
        w.cells[SCALE, 0, t] = median(w.scratch.vector, n) if n else 0.0
    n = 0
    for i in range(m):
        if math.isfinite(medians[i]):
            w.scratch.vector[n] = medians[i]
            n += 1
    middle = median(w.scratch.vector, n) if n else 0.0
    n_cells = 0
    for i in range(m):
        n = 0
        for t in range(s):
            if w.flags[OBSERVED, i, t]:
                w.scratch.other[n] = w.cells[SCALED, i, t] - w.cells[SCALE, 0, t]
                n += 1
        n_cells += n
        level = median(w.scratch.other, n) if n else middle
        for t in range(s):
            w.cells[MEAN, i, t] = level + w.cells[SCALE, 0, t]
        n = 0
        for t in range(s):
            if w.flags[OBSERVED, i, t]:
                w.scratch.other[n] = abs(w.cells[SCALED, i, t] - w.cells[MEAN, i, t])
                n += 1
        medians[i] = median(w.scratch.other, n) if n else np.nan
    n = 0
    for i in range(m):
        if math.isfinite(medians[i]):
            w.scratch.vector[n] = medians[i]
            n += 1
    spread = 1.4826 * median(w.scratch.vector, n) if n else 1.0
    n_observed = max(n, 1)
    # Of few members, the common course hides how they vary.
    course = 0.0
    for t in range(s):
        course += w.cells[SCALE, 0, t] ** 2 / s
    variance = max(4.0 * spread * spread + course / (n_observed * n_observed), 1e-4)
    if n_cells < 4 * n_observed:
        # A level of a reading or two fits them by itself: how far the levels lie apart is all that is known.
        n = 0
        for i in range(m):
            total = 0.0
            for t in range(s):
                total += w.cells[MEAN, i, t] - w.cells[SCALE, 0, t]
            w.scratch.vector[n] = abs(total / s - middle)
            n += 1
        level_spread = 1.4826 * median(w.scratch.vector, n)
        variance = max(variance, 0.25 * level_spread * level_spread)
    for i in range(m):
        for j in range(m):
            moments[i, j] = 0.8 * variance
        moments[i, i] = variance
        w.stats[i].variance = 0.2 * variance
        w.stats[i].covariance = 0.14 * variance
        w.stats[i].sigma = math.sqrt(0.2 * variance)
        w.stats[i].wander_square = 0.2 * variance


@compiled
def restart_levels(w, network, p, m, s):
    """Set the level of members that start over to where their readings are; return whether there are any.

    How they move with the others is known, so their level is off by the median of their residuals. Where that is
    within their usual wander, the level stays: it is known better from before.
    """
    n_restarts = 0
    for i in range(m):
        w.member.restarts[i] = False
        if w.stats[i].age > 0 and w.stats[i].level_age == 0:
            for t in range(s):
                w.member.restarts[i] = w.member.restarts[i] or w.flags[OBSERVED, i, t]
                w.flags[PREDICTS, i, t] = False
            n_restarts += w.member.restarts[i]
    if n_restarts == 0:
        return False
    for t in range(s):
        w.stale[t] = True
    predict(w, network, p, m, s)
    for i in range(m):
        if not w.member.restarts[i]:
            continue
        n = 0
        for t in range(s):
            if w.flags[OBSERVED, i, t]:
                w.scratch.vector[n] = w.cells[RESIDUAL, i, t]
                n += 1
        offset = median(w.scratch.vector, n)
        stats = w.stats[i]
        if abs(offset - stats.slow_level) <= w.parameters[i].wander:
            continue
        for t in range(s):
            w.cells[MEAN, i, t] += offset
        stats.slow_level = stats.last_residual = stats.distance = 0.0
        stats.last_time = -1
    return True
