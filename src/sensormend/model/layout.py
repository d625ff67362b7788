"""The arrays of the engine: what is known, what a period brings, and memory for one partition at a time."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from sensormend.model.compiling import allocating, compiled
from sensormend.model.faults import (
    BEAM,
    FIELDS,
    PARAMETERS,
)

__all__ = [
    "Network",
    "Period",
    "Work",
    "backward",
    "forget_channel",
    "forward",
    "median",
    "select",
    "slope",
    "workspace",
]

MISSING, TRUSTED, DOUBTFUL, WRONG, SPIKE, CORRECTED = range(6)
"""What becomes of a cell; CORRECTED is a wrong reading of which `Period.cleaned` is the reading with its fault taken
out, and not the estimate."""

KIND_IMPLAUSIBLE, KIND_SPIKE = 6, 7
"""Kinds of faults that are only reported: sizes beyond anything usual, and one or two readings."""

(
    AGE, VARIANCE, COVARIANCE, SIGMA, WANDERS, REPEATS, READINGS, RESOLUTION, LAST_VALUE, LAST_RESIDUAL, LAST_TIME,
    SLOW, USUAL, WIDTH_GAP, WIDTH_FAR, REST, VOTES, TAIL, TAIL_COUNT, RUNS, RUN_READINGS, BAD, AT_REST, REFERENCE,
    DISTANCE, DISTANCE_SQUARE, DISTANCE_USUAL, ONSET, LASTING, FAULT_SIZE, OWN_DISTANCE, DISTANT, LEVEL_AGE, ALONG,
    DISTANCE_BEFORE,
) = range(35)  # fmt: skip
"""What is known of a channel, a number each.

AGE: periods in which it was heard. VARIANCE: of its residual about its slow level SLOW; COVARIANCE: with the slot
before; SIGMA: scale of its innovations; WANDERS: mean square of a period's mean residual. REPEATS of READINGS repeated
the one before, RUNS of RUN_READINGS one that had repeated itself. RESOLUTION: smallest step, in the unit of the
readings. LAST_VALUE, LAST_RESIDUAL, LAST_TIME: the last trusted reading. USUAL: evidence for a fault in a usual period.
WIDTH_GAP, WIDTH_FAR: of the interval in a gap, and far from any trusted reading. REST: the value at which it rests, by
VOTES more repeats than of all others; AT_REST: readings there. TAIL of TAIL_COUNT innovations were beyond four scales.
BAD: of its first periods, those in which most readings were wrong. REFERENCE: its slow level; DISTANCE: from the others
that it is compared with, smoothed, since slot ONSET beyond its usual size; DISTANCE_BEFORE: the same, smoothed once
more, which tells how it moves; DISTANCE_SQUARE: its mean square, DISTANCE_USUAL: what that was some weeks ago; LASTING:
the size of a fault that begins with the next period, infinite where one ends before it, or 0. FAULT_SIZE: of an offset
or a drift that is open, or 0; OWN_DISTANCE: meanwhile, that of the readings as they are. DISTANT: 1 while its distance
makes it doubtful. LEVEL_AGE: periods in which it was heard since its level started over. ALONG: periods one after the
other in which a new channel that is far from the others moved with them."""
KNOWN = 35

(CENTRE, WIDTH, BEND, LOW, HIGH, RIPPLE, SHRINKAGE, TRIAL_UP, TRIAL_DOWN, TYPICAL, TOLERANCE) = range(11)
"""What is known of a variable: its scale, the least and the most that it has shown, how much of the ripple of
predictions is taken away, the shrinkage of correlations, how more and less of it did lately, the median over its
channels of DISTANCE_USUAL, and the accuracy of its probes in the unit of the readings, -1 where nobody gave it."""
KNOWN_OF_VARIABLE = 11

(CHANNEL, FIRST, LAST, KIND_OF, SIZE, RATE, CONFIDENCE, OPEN, READINGS_IN) = range(9)
REPORT = 9
"""An episode as it is reported."""

(
    RAW, SCALED, MEAN, DEVIATION, EXPECTED, SMOOTH, OPEN_VARIANCE, RESIDUAL, SCALE, JUDGED, PROBABILITY, REPEAT, COMMON,
    PREDICTOR, CORRECTION, LEFT_OPEN,
) = range(16)  # fmt: skip
"""Cells of a partition, (member, slot).

RAW, SCALED: the reading, and on its variable's scale. MEAN, DEVIATION: the member's mean, and the distance from it.
EXPECTED, SMOOTH: what the others say of the deviation, as it is and without ripple; OPEN_VARIANCE: what that leaves
open. RESIDUAL: deviation minus SMOOTH; SCALE: of a sound innovation; JUDGED: the residual that was judged last;
PROBABILITY: of being wrong. REPEAT: log probability of repeating the reading before, 1 where it does not. COMMON: how
restless the relatives are. PREDICTOR: the deviation as it predicts others, bounded. CORRECTION: the
deviation with its fault taken out, and LEFT_OPEN the variance that this leaves open, infinite where it cannot be taken
out."""

OBSERVED, TRUSTING, FAULTY, ASIDE = range(4)
"""Cells that have a reading; that predict others; that are judged wrong; that are set aside."""

RANK, EVIDENCE = range(2)

FIRST_SHRINKAGE = 0.01
"""The shrinkage of correlations at the start."""
FIRST_WIDTH = 1.65
"""The width of an interval at the start, in standard deviations."""
RELATIVES = 8
"""Channels whose restlessness excuses another's."""
MEMORY = 0.98
"""Weight of the past per period: about 50 periods. NOAA hardly cares between 0.96 and 0.98."""
LEVEL_MEMORY = 0.95
"""The same for the mean of a period: about 20 periods, so that moments hold the weather and not the season."""
RESTING = 5.0
"""Votes from which a channel is taken to rest at a value."""
COMPANY = 2
"""Other members that must be heard for the network to speak."""
LIKELY, POSSIBLE = 0.5, 0.2
"""Probabilities from which a reading is wrong, and doubtful."""


class Network(NamedTuple):
    """What is known: of channels, variables and partitions, and the hypotheses that are followed."""

    mean: Any  # (channel, slot)
    known: Any  # (channel, KNOWN)
    variable: Any  # (channel,)
    variables: Any  # (variable, KNOWN_OF_VARIABLE)
    members: Any  # (partition, member) channels, owned ones first
    owned: Any  # (partition,)
    size: Any  # (partition,)
    moments: Any  # (partition, member, member)
    hypotheses: Any  # (row, FIELDS)
    first: Any  # (channel,) first row of a channel's hypotheses
    count: Any  # (channel,) how many
    weights: Any  # (partition, owned member, member) slow weights of the others in what is expected of a level


class Period(NamedTuple):
    """A period's readings and what is made of them, (channel, slot); `learned` is the next `known`."""

    start: int
    interval: float
    readings: Any
    low_rank: Any
    cleaned: Any  # the reading where it is trusted, else the estimate or a correction; `lower`, `upper` are of this
    lower: Any
    upper: Any
    code: Any
    score: Any
    learned: Any
    mean: Any  # the next `mean`
    count: Any
    ripple: Any  # (partition, 2): sums for the regression of residuals on the ripple of predictions
    kind: Any  # (channel,) of the most likely fault, whether it is likely or not
    trial: Any  # (partition,) how another shrinkage does
    level: Any  # (channel,) mean of the period, completed where nothing is trusted


class Work(NamedTuple):
    """Memory for one partition at a time."""

    cells: Any  # (16, member, slot)
    flags: Any  # (4, member, slot)
    figures: Any  # (2, member)
    known: Any  # (member, KNOWN)
    q: Any  # (member, PARAMETERS)
    precision: Any  # (member, member)
    covariance: Any
    square: Any
    block: Any
    column: Any
    vector: Any
    vector2: Any
    index: Any
    relatives: Any
    beams: Any  # (member, BEAM, FIELDS)
    fresh: Any
    judged: Any  # (member,)
    dirty: Any  # (slot,) predictions are out of date
    others: Any  # (1,) other members that were heard
    odd: Any  # (member,) new, far from the others, and does not move with them
    lasts: Any  # (member,) in an offset or a drift for more than a week
    unsure: Any  # (member,) its wrong readings are doubtful
    near: Any  # (RELATIVES, slot) of a few members or figures at a time
    placed: Any  # (member,) its level starts over, and its readings say where it is


@allocating
def workspace(m, s):
    """Allocate memory for partitions of up to m members and s slots."""
    return Work(
        np.empty((16, m, s)), np.empty((4, m, s), np.bool_), np.empty((2, m)), np.empty((m, KNOWN)),
        np.empty((m, PARAMETERS)), np.empty((m, m)), np.empty((m, m)), np.empty((m + 1, m)), np.empty((m + 1, m + 2)),
        np.empty(m + 4), np.empty(max(m, s)), np.empty(max(m, s)), np.empty(m + 2, np.int64),
        np.empty((m, RELATIVES), np.int64), np.empty((m, BEAM, FIELDS)), np.empty((BEAM, FIELDS)),
        np.empty(m, np.bool_), np.empty(s, np.bool_), np.empty(1, np.int64), np.empty(m, np.bool_),
        np.empty(m, np.bool_), np.empty(m, np.bool_),
        np.empty((RELATIVES, s)), np.empty(m, np.bool_),
    )  # fmt: skip


@compiled
def forward(x, variable):
    """Put a reading on its variable's scale."""
    if variable[BEND] > 0.0:
        x = math.asinh(x / variable[BEND])
    return max(-1e6, min(1e6, (x - variable[CENTRE]) / (variable[WIDTH] if variable[WIDTH] > 0.0 else 1.0)))


@compiled
def backward(y, variable):
    """Undo `forward`; a quantity that is never negative does not become so."""
    x = y * (variable[WIDTH] if variable[WIDTH] > 0.0 else 1.0) + variable[CENTRE]
    if variable[BEND] > 0.0:
        return variable[BEND] * math.sinh(max(0.0, min(700.0, x)))
    return x


@compiled
def slope(y, variable):
    """Return by how much a reading changes per unit of its scale."""
    if variable[BEND] > 0.0:
        return (
            variable[BEND] * variable[WIDTH] * math.cosh(max(0.0, min(700.0, y * variable[WIDTH] + variable[CENTRE])))
        )
    return variable[WIDTH] if variable[WIDTH] > 0.0 else 1.0


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


@compiled
def forget_channel(known):
    """Make a channel one that has never been heard."""
    for f in range(KNOWN):
        known[f] = 0.0
    known[RESOLUTION] = 1e30
    known[LAST_VALUE] = np.nan
    known[LAST_TIME] = -1.0
    known[WIDTH_GAP] = known[WIDTH_FAR] = FIRST_WIDTH
