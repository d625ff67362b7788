"""Named tuples declare the arrays that the compiled functions share, with order statistics of them.

Those functions have short names in common: p is a partition, m its members, of which i and j are two, s the slots of a
period, of which t is one, c a channel and v the row of its variable; w is the `Work` of one partition.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sensormend.model.compiling import compiled, inlined
from sensormend.model.hypotheses import BEAM
from sensormend.model.records import CHANNEL, HYPOTHESIS, PARAMETERS, WORKING_CHANNEL

__all__ = [
    "Algebra", "Estimates", "Followed", "Learned", "Members", "Network", "Number", "Period", "Scratch", "Verdicts",
    "Wander", "Work", "is_alone", "is_counted", "is_intermittent", "level_error", "median", "rests", "select",
    "volatility", "workspace",
]  # fmt: skip

MISSING, TRUSTED, DOUBTFUL, WRONG, SPIKE, CORRECTED = range(6)
"""Verdicts about a cell; CORRECTED is a wrong reading of which `Estimates.cleaned` is the reading without its fault,
and not the estimate."""

(
    RAW, SCALED, MEAN, DEVIATION, EXPECTED, SMOOTH, PREDICTION_VARIANCE, RESIDUAL, SCALE, JUDGED, PROBABILITY, REPEAT,
    COMMON_MODE, PREDICTOR, CORRECTION, CORRECTION_VARIANCE,
) = range(16)  # fmt: skip
"""Cells of a partition, (member, slot).

RAW, SCALED: the reading x, and y on its variable's scale. MEAN: the running mean u; DEVIATION: d = y - u. EXPECTED,
SMOOTH: its prediction e, as it is and without ripple; PREDICTION_VARIANCE: its variance v. RESIDUAL: r = d - SMOOTH;
SCALE: of a sound innovation; JUDGED: the residual that was judged last; PROBABILITY: of being wrong. REPEAT: log
probability of repeating the reading before, 1 where it does not. COMMON_MODE: the common-mode factor. PREDICTOR: the
deviation as it predicts others, bounded. CORRECTION: the deviation without its fault, and CORRECTION_VARIANCE its
variance, infinite where there is no correction."""

OBSERVED, PREDICTS, FAULTY, EXCLUDED, UNCERTAIN = range(5)
"""Cells that have a reading; that predict others; that are judged wrong; that are excluded from prediction for it; that
are judged wrong by a fault that may be none, so that the reading is kept."""

KNOWN, JOINING, APART, ADMITTED = range(4)
"""What a channel is in the network of its variable, see `joining`: known from its start, on trial, in a network apart,
or known since it was admitted."""

FIRST_SHRINKAGE = 0.01
"""The shrinkage of correlations at the start."""
FIRST_WIDTH = 1.65
"""The width of an interval at the start, in standard deviations."""
FIRST_VOLATILITY = 0.5
"""Of a channel or a variable before anything is known of it."""
MIN_VOLATILITY = 0.15
"""What a volatility is at least."""
WELL_EXPLAINED, MAX_MEMORY = 0.15, 0.97
"""Up to this eta the others tell a channel's level well, see `level_error`; and the most of the residual's memory."""
QUANTILE_WIDTH = 1.683
"""Standard deviations of a normal variable between its 20 and 80 % quantiles."""
NEIGHBOURS = 8
"""Most correlated channels, from which a channel's common-mode factor is computed."""
MEMORY = 0.98
"""Weight of the past per period: about 50 periods. NOAA hardly cares between 0.96 and 0.98."""
LEVEL_MEMORY = 0.95
"""The same for the mean of a period: about 20 periods, so that moments hold the weather and not the season."""
RESTING = 5
"""Votes from which a channel is taken to rest at a value."""
OWN_PERIODS, RANGE_PERIODS = 10.0, 30.0
"""Periods after which the range of a channel's own readings bounds its predictions and estimates, and after which it is
known."""
MIN_OTHERS = 2
"""Other members that must be observed in a period for a channel to be judged by them."""
REFERENCE_COUNT = 10
"""Others that a reference sensor counts for."""
WRONG_PROBABILITY, DOUBTFUL_PROBABILITY = 0.5, 0.2
"""Probabilities from which a reading is wrong, and doubtful."""


def _new_channel() -> NDArray[np.void]:
    channel = np.zeros(1, CHANNEL)
    known = {"last_time": -1, "resolution": np.inf, "width_gap": FIRST_WIDTH, "width_far": FIRST_WIDTH, "support": 1}
    known |= dict.fromkeys(("last_value", "calm", "moderate", "rough"), np.nan)
    known |= {"own_low": np.inf, "first_low": np.inf, "own_high": -np.inf, "first_high": -np.inf}
    for name, value in known.items():
        channel[name] = value
    return channel


NEW_CHANNEL = _new_channel()
"""What is known of a channel that has never been observed, (1,)."""


class Wander(NamedTuple):
    """How far channels wander from what the others say: see `wander`."""

    history: Any  # (channel, SCALES, RING) levels
    square: Any  # (channel, LAGS) mean square of a change over what the network moves
    extremes: Any  # (channel, 4) the range of its level, and of its distance from the middle of its partition
    pooled: Any  # (variable, LAGS, 3): the mean movement, that mean square, the independent spans it is from


class Network(NamedTuple):
    """What is known of channels, variables and partitions before a period, and the hypotheses that are followed."""

    mean: Any  # (channel, slot)
    stats: Any  # (channel,) of `Channel`
    variable: Any  # (channel,)
    variables: Any  # (variable,) of `Variable`
    members: Any  # (partition, member) channels, owned ones first
    owned: Any  # (partition,)
    size: Any  # (partition,)
    moments: Any  # (partition, member, member)
    hypotheses: Any  # (row,) of `Hypothesis`
    first: Any  # (channel,) first row of a channel's hypotheses
    count: Any  # (channel,) how many
    weights: Any  # (partition, owned member, member) slow weights of the others in the prediction of a level
    seen: Any  # (channel,) it had a reading at some time
    wander: Wander
    spike_limit: Any  # (channel,) height from which a short fault shows in the channel's own series, see `screening`
    standing: Any  # (channel,) KNOWN, JOINING, APART or ADMITTED
    reference: Any  # (channel,) it judges others and is never judged


class Estimates(NamedTuple):
    """What is made of a period's readings, (channel, slot) but for `score` and `kind`."""

    expected: Any
    cleaned: Any  # the reading where it is trusted, else the estimate or a correction; `lower`, `upper` are of this
    lower: Any
    upper: Any
    code: Any
    score: Any  # (channel,)
    kind: Any  # (channel,) of the most likely fault, whether it is likely or not


class Learned(NamedTuple):
    """What is learned from a period; without learning, `stats`, `mean` and `level` are empty."""

    stats: Any  # the next `Network.stats`
    mean: Any  # the next `Network.mean`
    count: Any  # the next `Network.count`
    level: Any  # (channel,) mean of the period, completed where nothing is trusted
    ripple: Any  # (partition, 2): sums for the regression of residuals on the ripple of predictions
    trial: Any  # (partition,) how another shrinkage does


class Followed(NamedTuple):
    """The hypotheses of the channels of some partitions within a period that is not over, for its next estimate.

    They are taken up there by a channel whose digest of all that they followed from is the same.
    """

    slot: int  # up to which they have followed
    row: Any  # (partition, owned member, round) of the rest, -1 where there is none
    digest: Any  # (row,)
    beams: Any  # (row, BEAM) of `Hypothesis`
    used: Any  # (1,) rows that are used


class Period(NamedTuple):
    """A period: its first slot, the nominal coverage of intervals, its readings, and what follows from them."""

    start: int
    interval: float
    readings: Any  # (channel, slot)
    estimates: Estimates
    learned: Learned
    known: Followed  # by the last estimate of the same period
    saved: Followed  # for the next one; without rows where there is none


class Verdicts(NamedTuple):
    """Verdicts of a period: cells, (channel, slot), and counts of readings, (channel,)."""

    outliers: Any
    wrong: Any
    doubtful: Any
    spikes: Any
    corrected: Any
    n_observed: Any
    n_wrong: Any
    n_doubtful: Any


class Members(NamedTuple):
    """What holds for each member of a partition in this period, (member,)."""

    variance: Any  # of its deviations, before this period
    usual_run: Any  # equal readings that are usual where the others do not tell that it should move, else 0
    rank: Any  # how far its wrong readings are off; the worst are excluded first
    log_ratio: Any  # log-likelihood of a fault over a sound period
    judged: Any  # its residuals have not moved since it was judged
    implausible: Any  # new, far from the others, and does not move with them
    dead: Any  # repeats one reading for longer than any sound one did
    lasts: Any  # in an offset or a drift for more than a week
    restarts: Any  # its level starts over, and it has readings that show where


class Algebra(NamedTuple):
    """Memory for the linear algebra of one partition."""

    square: Any  # (member + 1, member)
    block: Any  # (member + 1, member + 2)
    column: Any  # (member + 4,)
    index: Any  # (member + 2,)


class Number(NamedTuple):
    """Memory for one number, which can be read as its bits."""

    real: Any  # (1,)
    bits: Any  # (1,) the same memory as a whole number


class Scratch(NamedTuple):
    """Memory for what is needed for a moment."""

    vector: Any  # (the larger of members and slots,)
    other: Any  # the same once more
    rows: Any  # (NEIGHBOURS, slot)
    beam: Any  # (BEAM,) of `Hypothesis`
    number: Number


class Work(NamedTuple):
    """Memory for one partition at a time."""

    cells: Any  # (16, member, slot)
    flags: Any  # (5, member, slot)
    stats: Any  # (member,) of `Channel`, in double precision
    parameters: Any  # (member,) of `Parameters`
    member: Members
    precision: Any  # (member, member) W, the inverse of the covariance that predicts
    covariance: Any  # (member, member)
    neighbours: Any  # (member, NEIGHBOURS) most correlated members, -1 first where they are not computed yet
    beams: Any  # (member, BEAM) of `Hypothesis`
    stale: Any  # (slot,) predictions are out of date
    others: Any  # (1,) other members that were observed
    algebra: Algebra
    scratch: Scratch
    slots: Any  # (slot,) some slots with the same trusted members
    before: Any  # (slot,) the trusted slot of a member before each, -1 where there is none
    after: Any  # (slot,) the same after it, the number of slots where there is none


def workspace(m, s):
    """Allocate memory for partitions of up to m members and s slots."""
    member = Members(
        np.empty(m), np.empty(m), np.empty(m), np.empty(m), np.empty(m, np.bool_), np.empty(m, np.bool_),
        np.empty(m, np.bool_), np.empty(m, np.bool_), np.empty(m, np.bool_),
    )  # fmt: skip
    algebra = Algebra(np.empty((m + 1, m)), np.empty((m + 1, m + 2)), np.empty(m + 4), np.empty(m + 2, np.int64))
    number = np.zeros(1)
    scratch = Scratch(
        np.empty(max(m, s)), np.empty(max(m, s)), np.empty((NEIGHBOURS, s)), np.empty(BEAM, HYPOTHESIS),
        Number(number, number.view(np.int64)),
    )  # fmt: skip
    return Work(
        np.empty((16, m, s)), np.empty((5, m, s), np.bool_), np.empty(m, WORKING_CHANNEL), np.empty(m, PARAMETERS),
        member, np.empty((m, m)), np.empty((m, m)), np.empty((m, NEIGHBOURS), np.int64),
        np.empty((m, BEAM), HYPOTHESIS), np.empty(s, np.bool_), np.empty(1, np.int64), algebra, scratch,
        np.empty(s, np.int64), np.empty(s, np.int64), np.empty(s, np.int64),
    )  # fmt: skip


@compiled
def is_counted(standing):
    """Return whether a channel counts for its variable: not one that joins, or is apart."""
    return standing == KNOWN or standing == ADMITTED


@compiled
def is_intermittent(votes, at_rest, readings, value, low):
    """Return whether a channel is at its resting value most of the time, as rain is; of numbers, or of arrays.

    Where its variable is never below that value, a fifth of its readings are enough: it rains on most days somewhere.
    """
    share = 0.8 - 0.6 * (value <= low)
    return (votes >= RESTING) & (at_rest > share * readings)


@inlined
def rests(stats, v):
    """Return whether a channel of variable v is at its resting value most of the time."""
    return is_intermittent(stats.rest_votes, stats.at_rest, stats.readings, stats.rest_value, v.low)


@inlined
def is_alone(w):
    """Return whether too few other members are observed: a channel is judged by its own past alone then."""
    return w.others[0] < MIN_OTHERS


@compiled
def volatility(stats, v):
    """Return the standard deviation of the log of a period's root mean square residual, of a channel and its variable.

    How rough a residual is changes from period to period: in a network of thermometers by a half, in a stratified lake
    by a factor of three. A fault has to be farther off than a rough period of a sound channel. The quantiles that it
    is from do not move for faults in less than a fifth of the periods. The geometric mean with the volatility of the
    variable is taken since a channel's own is known from about 40 periods.
    """
    own = (stats.rough - stats.calm) / QUANTILE_WIDTH
    if not own > 0.0:
        own = v.volatility
    return math.sqrt(max(own, MIN_VOLATILITY) * max(v.volatility, MIN_VOLATILITY))


@compiled
def level_error(stats, variance, s):
    """Return eta, the standard error of the mean residual of s slots over the standard deviation of a channel.

    The residual has the memory phi. It says how well the others tell the level of a period: .03 to .10 in a network of
    thermometers, .1 to .2 in air quality, .2 and more in rivers and on ice.
    """
    phi = max(0.0, min(MAX_MEMORY, stats.covariance / max(stats.variance, 1e-30)))
    return math.sqrt(stats.variance / max(variance, 1e-30) * min(1.0, (1.0 + phi) / ((1.0 - phi) * s)))


@compiled
def select(values, n, k):
    """Return which of the first n values is at place k when they are sorted.

    They are reordered: those before it are no larger. Quickselect: np.partition takes six seconds longer to compile.
    Only the part in which place k lies is divided further, and sorted when it is short. Pivots are pseudorandom, so
    that no pattern in the values makes it slow.
    """
    left, right, chance = 0, n - 1, 1
    while right - left > 8:
        chance = (chance * 1103515245 + 12345) % 2147483648
        pivot = values[left + chance % (right - left + 1)]
        i, j = left, right
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if k <= j:
            right = j
        elif k >= i:
            left = i
        else:
            return values[k]
    for i in range(left + 1, right + 1):
        value, j = values[i], i
        while j > left and values[j - 1] > value:
            values[j] = values[j - 1]
            j -= 1
        values[j] = value
    return values[k]


@compiled
def median(values, n):
    """Return the median of the first n values, which are reordered."""
    k = n // 2
    upper = select(values, n, k)
    if n % 2:
        return upper
    lower = values[0]
    for i in range(1, k):
        lower = max(lower, values[i])
    return 0.5 * (lower + upper)
