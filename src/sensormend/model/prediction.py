"""Leave-one-out prediction estimates every cell of a partition from the other members, under a shrunk covariance.

    P = W_TT - W_TU W_UU^-1 W_UT

    e_j = d_j - (P d_T)_j / P_jj,          variance v_j = 1 / P_jj              for j in T
    e_U = -W_UU^-1 W_UT d_T,               variance v_j = (W_UU^-1)_jj          for j in U

with W the precision, d the deviations, T the members whose readings are trusted in a slot and U all others.

This is simple kriging with a covariance that is learned rather than a function of distance, and its leave-one-out
errors from one inverse.

References
----------
.. [1] O. Dubrule, "Cross Validation of Kriging in a Unique Neighborhood", Mathematical Geology 15, 1983.
.. [2] N. Cressie, "Statistics for Spatial Data", Wiley, 1993.
.. [3] O. Ledoit and M. Wolf, "A Well-Conditioned Estimator for Large-Dimensional Covariance Matrices", Journal of
   Multivariate Analysis 88, 2004.
"""

from __future__ import annotations

import math

from sensormend.model.compiling import compiled, inlined
from sensormend.model.scales import forward

from sensormend.model.arrays import (  # isort: skip
    DEVIATION, EXPECTED, MEAN, OBSERVED, OWN_PERIODS, PREDICTION_VARIANCE, PREDICTOR, PREDICTS, RESIDUAL, SCALED,
    SMOOTH,
)  # fmt: skip

__all__ = [
    "add_conditional_covariance", "interpolate_gaps", "invert", "leave_one_out", "predict", "prediction_covariance",
    "take_alike",
]  # fmt: skip

END = 0.02
"""The part of a range that is either end of it."""


@compiled
def prediction_covariance(moments, n, shrinkage, out):
    """Write the covariance that predicts into `out`: second moments, correlations shrunk towards 0 by `shrinkage`."""
    for i in range(n):
        for j in range(n):
            out[i, j] = (1.0 - shrinkage) * moments[i, j]
        out[i, i] = moments[i, i] * (1.0 + 1e-6)


@compiled
def _cholesky(a, n):
    """Factor the leading n x n of `a` in place (lower triangle); return whether it was positive definite."""
    for j in range(n):
        total = a[j, j]
        for k in range(j):
            total -= a[j, k] * a[j, k]
        if not total > 0.0:
            return False
        pivot = math.sqrt(total)
        a[j, j] = pivot
        scale = 1.0 / pivot
        # Four rows at a time: each number of row j is fetched once for all of them.
        i = j + 1
        while i + 3 < n:
            first, second, third, fourth = a[i, j], a[i + 1, j], a[i + 2, j], a[i + 3, j]
            for k in range(j):
                factor = a[j, k]
                first -= a[i, k] * factor
                second -= a[i + 1, k] * factor
                third -= a[i + 2, k] * factor
                fourth -= a[i + 3, k] * factor
            a[i, j], a[i + 1, j], a[i + 2, j], a[i + 3, j] = (
                first * scale,
                second * scale,
                third * scale,
                fourth * scale,
            )
            i += 4
        while i < n:
            total = a[i, j]
            for k in range(j):
                total -= a[i, k] * a[j, k]
            a[i, j] = total * scale
            i += 1
    return True


@compiled
def invert(a, n, work):
    """Replace the leading n x n of the positive definite `a` by its inverse; return whether that was possible."""
    if not _cholesky(a, n):
        return False
    # work = L^-1, row by row; then a = work' work. Four rows are added at a time; what is above the diagonal is zero.
    for i in range(n):
        scale = 1.0 / a[i, i]
        for k in range(n):
            work[i, k] = 0.0
        k = 0
        while k + 3 < i:
            first, second, third, fourth = a[i, k], a[i, k + 1], a[i, k + 2], a[i, k + 3]
            for j in range(k + 4):
                work[i, j] -= (
                    first * work[k, j] + second * work[k + 1, j] + third * work[k + 2, j] + fourth * work[k + 3, j]
                )
            k += 4
        while k < i:
            factor = a[i, k]
            for j in range(k + 1):
                work[i, j] -= factor * work[k, j]
            k += 1
        for j in range(i):
            work[i, j] *= scale
        work[i, i] = scale
    for i in range(n):
        for j in range(n):
            a[i, j] = 0.0
    k = 0
    while k < n:
        if k + 3 < n:
            for i in range(k + 4):
                first, second, third, fourth = work[k, i], work[k + 1, i], work[k + 2, i], work[k + 3, i]
                for j in range(i + 1):
                    a[i, j] += (
                        first * work[k, j] + second * work[k + 1, j] + third * work[k + 2, j] + fourth * work[k + 3, j]
                    )
            k += 4
        else:
            for i in range(k + 1):
                factor = work[k, i]
                for j in range(i + 1):
                    a[i, j] += factor * work[k, j]
            k += 1
    for i in range(n):
        for j in range(i + 1, n):
            a[i, j] = a[j, i]
    return True


@compiled
def take_alike(trusted, n, stale, first, s, slots):
    """Write the stale slots from `first` to before the next one with other trusted members, and return how many.

    They are stale no more.
    """
    count = 0
    for t in range(first, s):
        if not stale[t]:
            continue
        for j in range(n):
            if trusted[j, t] != trusted[j, first]:
                return count
        slots[count] = t
        count += 1
        stale[t] = False
    return count


@compiled
def leave_one_out(precision, n, deviation, trusted, slots, n_slots, expected, variance, algebra):
    """Predict all n channels of some slots from the trusted readings of the others: write e and its variance v.

    In all of these slots the same channels are trusted: what does not depend on the readings is computed once.
    """
    work, block, column, index = algebra.square, algebra.block, algebra.column, algebra.index
    count = 0
    for j in range(n):
        if not trusted[j, slots[0]]:
            index[count] = j
            count += 1
    # work = L^-1 W_U, (count, n), with L the Cholesky factor of W_UU: L_ab is column index[a] of row b. As each row is
    # computed, it is removed from the diagonal of P, which is in a row of `work` that is free.
    for j in range(n):
        work[n, j] = precision[j, j]
    for a in range(count):
        u = index[a]
        for j in range(n):
            work[a, j] = precision[u, j]
        for b in range(a):
            factor = work[b, u]
            for j in range(n):
                work[a, j] -= factor * work[b, j]
        if not work[a, u] > 0.0:
            for k in range(n_slots):
                for j in range(n):
                    expected[j, slots[k]] = 0.0
                    variance[j, slots[k]] = 1.0 / precision[j, j]
            return
        scale = block[1, a] = 1.0 / math.sqrt(work[a, u])
        for j in range(n):
            value = work[a, j] * scale
            work[a, j] = value
            work[n, j] -= value * value
    for j in range(n):
        work[n, j] = max(work[n, j], 1e-12 * precision[j, j])
    # The diagonal of W_UU^-1 = L'^-1 L^-1.
    for a in range(count):
        # Column a of L^-1 by forward substitution; the sum of its squares is the variance.
        total = 0.0
        for b in range(a, count):
            value = 1.0 if b == a else 0.0
            for c in range(a, b):
                value -= work[c, index[b]] * column[c]
            value /= work[b, index[b]]
            column[b] = value
            total += value * value
        variance[index[a], slots[0]] = total
    for k in range(n_slots):
        slot = slots[k]
        # z = W d, then without what the rows of `work` explain of it.
        for j in range(n):
            column[j] = 0.0
        i = 0
        while i < n:
            d = deviation[i, slot] if trusted[i, slot] else 0.0
            if i + 3 < n:
                second = deviation[i + 1, slot] if trusted[i + 1, slot] else 0.0
                third = deviation[i + 2, slot] if trusted[i + 2, slot] else 0.0
                fourth = deviation[i + 3, slot] if trusted[i + 3, slot] else 0.0
                for j in range(n):
                    column[j] += (
                        precision[i, j] * d
                        + precision[i + 1, j] * second
                        + precision[i + 2, j] * third
                        + precision[i + 3, j] * fourth
                    )
                i += 4
            else:
                for j in range(n):
                    column[j] += precision[i, j] * d
                i += 1
        for a in range(count):
            factor = column[index[a]] * block[1, a]
            block[0, a] = factor
            for j in range(n):
                column[j] -= factor * work[a, j]
        for j in range(n):
            if trusted[j, slot]:
                expected[j, slot] = deviation[j, slot] - column[j] / work[n, j]
                variance[j, slot] = 1.0 / work[n, j]
        # x_U = -L'^-1 (L^-1 z_U).
        for a in range(count - 1, -1, -1):
            total = block[0, a]
            for b in range(a + 1, count):
                total -= work[a, index[b]] * block[0, b]
            block[0, a] = total / work[a, index[a]]
            expected[index[a], slot] = -block[0, a]
            variance[index[a], slot] = variance[index[a], slots[0]]


@compiled
def add_conditional_covariance(precision, n, trusted, slot, weight, times, out, algebra):
    """Add `weight` times the covariance W_UU^-1 of the channels that are not trusted in a slot to `out`.

    Do so as many times as there are slots with the same channels, one by one: the sum is rounded as without others.
    """
    block, index = algebra.block, algebra.index
    count = 0
    for j in range(n):
        if not trusted[j, slot]:
            index[count] = j
            count += 1
    if count == 0:
        return
    for a in range(count):
        for b in range(a + 1):
            block[a, b] = precision[index[a], index[b]]
    if not _cholesky(block, count):
        return
    # Column by column of L^-1, stored above the diagonal of `block`, one column to the right.
    for a in range(count):
        for b in range(a, count):
            value = 1.0 if b == a else 0.0
            for c in range(a, b):
                value -= block[b, c] * block[a, c + 1]
            block[a, b + 1] = value / block[b, b]
    for a in range(count):
        for b in range(a + 1):
            total = 0.0
            for c in range(a, count):
                total += block[a, c + 1] * block[b, c + 1]
            value = weight * total
            for _ in range(times):
                out[index[a], index[b]] += value
            if a != b:
                out[index[b], index[a]] = out[index[a], index[b]]


@inlined
def _none_trusted(w, m, t):
    """Return whether no reading of a slot is trusted to predict others."""
    trusted = 0
    for i in range(m):
        trusted += w.flags[PREDICTS, i, t]
    return trusted == 0


@compiled
def interpolate_gaps(w, m, s):
    """Interpolate predictions linearly over slots without trusted readings, from the last one with any to the next."""
    last = -1
    for t in range(s + 1):
        if t < s and _none_trusted(w, m, t):
            continue
        if t - last > 1 and (last >= 0 or t < s):
            for i in range(m):
                before = w.cells[EXPECTED, i, last] if last >= 0 else w.cells[EXPECTED, i, t]
                after = w.cells[EXPECTED, i, t] if t < s else before
                for u in range(last + 1, t):
                    w.cells[EXPECTED, i, u] = before + (after - before) * (u - last) / (t - last)
        last = t


@inlined
def _censor(w, v, s, i):
    """Bound the predictions of member i's readings to what it and its variable have shown, and to the reading.

    Water does not get colder than ice, and no hygrometer shows more than 100 %: the others say that a channel is at
    the end of its range, and not how far beyond [1]_.

    References
    ----------
    .. [1] J. Tobin, "Estimation of Relationships for Limited Dependent Variables", Econometrica 26, 1958.
    """
    stats = w.stats[i]
    if stats.age < OWN_PERIODS or not (v.high > v.low and stats.own_high > stats.own_low):
        return
    low, high = forward(min(v.low, stats.own_low), v), forward(max(v.high, stats.own_high), v)
    margin = END * (high - low)
    for t in range(s):
        if w.flags[OBSERVED, i, t]:
            x, y = w.cells[SCALED, i, t], w.cells[MEAN, i, t] + w.cells[SMOOTH, i, t]
            if (y < low and x < low + margin) or (y > high and x > high - margin):
                w.cells[SMOOTH, i, t] = max(min(low, x), min(max(high, x), y)) - w.cells[MEAN, i, t]


@compiled
def predict(w, network, p, m, s):
    """Predict the cells of all slots whose predictions are stale, and remove a share k of the ripple.

    e_t <- e_t - k (e_t - (e_t-1 + e_t+1) / 2)
    """
    for t in range(s):
        if w.stale[t] and _none_trusted(w, m, t):
            # An unfinished period has many such slots, and what follows would cost most in them.
            for i in range(m):
                w.cells[EXPECTED, i, t], w.cells[PREDICTION_VARIANCE, i, t] = 0.0, network.moments[p, i, i]
            w.stale[t] = False
    for t in range(s):
        if w.stale[t]:
            n = take_alike(w.flags[PREDICTS], m, w.stale, t, s, w.slots)
            leave_one_out(
                w.precision, m, w.cells[PREDICTOR], w.flags[PREDICTS], w.slots, n, w.cells[EXPECTED],
                w.cells[PREDICTION_VARIANCE], w.algebra,
            )  # fmt: skip
    interpolate_gaps(w, m, s)
    share = network.variables[network.variable[network.members[p, 0]]].ripple
    for i in range(m):
        w.cells[SMOOTH, i, 0], w.cells[SMOOTH, i, s - 1] = w.cells[EXPECTED, i, 0], w.cells[EXPECTED, i, s - 1]
        for t in range(1, s - 1):
            smooth = w.cells[EXPECTED, i, t]
            ripple = smooth - 0.5 * (w.cells[EXPECTED, i, t - 1] + w.cells[EXPECTED, i, t + 1])
            w.cells[SMOOTH, i, t] = smooth - share * ripple
        _censor(w, network.variables[network.variable[network.members[p, i]]], s, i)
        for t in range(s):
            w.cells[RESIDUAL, i, t] = w.cells[DEVIATION, i, t] - w.cells[SMOOTH, i, t]
