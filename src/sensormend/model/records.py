"""Records are the rows of the engine's arrays: what is known of a channel, of a variable, and of a hypothesis.

Every class declares the fields of a structured dtype. Compiled functions and plain Python read them as attributes.
"""

from __future__ import annotations

from typing import Any, get_type_hints

import numpy as np

from sensormend.model.compiling import compiled, unroller

__all__ = [
    "CHANNEL", "DRIFT", "EPISODES", "ESTABLISHED", "GAIN", "HYPOTHESIS", "KIND_IMPLAUSIBLE", "KIND_SPIKE", "NOISE",
    "NOT_JUDGED", "OFFSET", "PARAMETERS", "REPORT", "SOUND", "STUCK", "SURE", "UNSURE", "VARIABLE", "WORKING_CHANNEL",
    "Channel", "Ended", "Episode", "Hypothesis", "Parameters", "Record", "Variable", "copy_channel",
]  # fmt: skip

SOUND, OFFSET, DRIFT, GAIN, NOISE, STUCK, KIND_IMPLAUSIBLE, KIND_SPIKE = range(8)
"""Kinds of faults. The last two are only reported: sizes beyond anything usual, and one or two readings."""

NOT_JUDGED, UNSURE, SURE, ESTABLISHED = range(4)
"""Whether a fault may be the channel's own wander: not judged yet; it may; it is none; and its jump shows that."""

EPISODES = 3
"""Episodes that ended, of each hypothesis."""


class Record(np.void):
    """A row of a structured array; its fields are attributes."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except ValueError:
            raise AttributeError(f"{type(self).__name__} has no field {name}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


class Channel(Record):
    """What is known of a channel. What is per period is on its variable's scale; sums and means forget."""

    last_time: int  # slot of the last trusted reading; -1 before there is one
    stands_still: int  # whether its last reading is one at which sound sensors do, reached from nearby
    last_value: float  # that reading, in its own unit; NaN before there is one
    last_residual: float
    slow_level: float  # b: what its residual varies about
    variance: float  # of its residual about that
    covariance: float  # of that with the slot before
    sigma: float  # scale of its innovations
    wander_square: float  # mean square of a period's mean residual
    tail: float  # innovations beyond four scales
    tail_count: float  # innovations
    calm: float  # 20 % quantile of the log of a period's root mean square residual, of all readings; NaN at first
    moderate: float  # 50 % quantile of that
    rough: float  # 80 % quantile of that
    usual_log_ratio: float  # of a fault over a sound period: 90 % quantile
    readings: float  # trusted ones
    repeats: float  # trusted ones that repeated the one before
    run_readings: float  # trusted ones after one that was itself a repeat
    runs: float  # of these, those that repeated it once more
    lately_repeated: float  # share of repeats in the last periods in which not all did
    longest_run: float  # of equal trusted readings
    rest_value: float  # at which it rests, if it does
    at_rest: float  # readings there
    resolution: float  # smallest step, in the unit of the readings; infinite where it is not known
    own_low: float  # range of its readings, but for what one period alone has shown; low > high while it is not known
    own_high: float
    first_low: float  # the range that one period alone has shown
    first_high: float
    width_gap: float  # of the interval in a gap, in standard deviations
    width_far: float  # the same far from any trusted reading
    support: float  # the number of others that its slow weights rest on
    onset: float  # period in which the fault that is open, or what makes the channel doubtful, began
    fault_size: float  # of the fault that is open, if that is an offset or a drift, or 0
    fault_square: float  # mean square of what that size leaves
    own_distance: float  # change of its readings since the fault began
    ratio: float  # of that change to its limit, smoothed
    doubt: float  # the same, or less where the others changed in the same way
    distance: float  # the change that the others do not explain and that is farthest beyond what is usual
    lasting: float  # size of a fault that begins with the next period, or 0
    age: np.int32  # periods in which it was observed
    level_age: np.int32  # the same since its level started over
    run_length: np.int32  # readings in a row that are equal up to now
    rest_votes: np.int16  # by how many the repeats of the value at which it rests outnumber all others
    bad_periods: np.int8  # of its first periods, those in which most readings were wrong
    comoving: np.int8  # periods one after the other in which a new channel that is far from the others moved with them
    open_kind: np.int8  # of the fault that is open, or SOUND
    judgement: np.int8  # of that fault: NOT_JUDGED, UNSURE, SURE or ESTABLISHED
    has_ended: np.bool_  # a fault of it ended with the last period
    is_distant: np.bool_  # a change of a channel without a fault makes it doubtful


class Variable(Record):
    """What is known of a variable."""

    centre: float  # c0 of its scale
    width: float  # of its scale; 0 before it has one
    bend: float  # c of asinh(x / c); 0 where its scale is linear
    low: float  # least of its trusted readings
    high: float  # most of them
    ripple: float  # k: share of the ripple of predictions that is removed
    shrinkage: float  # s of correlations
    trial_up: float  # how much worse more of it predicted lately
    trial_down: float  # the same of less
    tolerance: float  # the accuracy of its probes in the unit of the readings, if it is given
    volatility: float  # of its median channel
    plateau_low: float  # lowest reading at which a sound sensor may stand still for long
    plateau_high: float  # highest of them; below the lowest where there are none
    has_tolerance: np.bool_


class Ended(Record):
    """An episode of a hypothesis that ended."""

    first: int  # wrong slot
    last: int
    kind: int  # SOUND where there is no episode
    fault_size: float
    rate: float  # per period


class Hypothesis(Record):
    """A history of a channel: sound, or in a fault since some reading, with episodes that ended, the latest first."""

    logl: float  # log-likelihood over the best one's; NONE where there is no hypothesis
    kind: int
    start: int  # slot of its first wrong reading
    last_wrong: int  # slot of the last one
    count: int  # readings in the fault
    last_r: float  # the last residual
    last_t: int  # its slot
    level: float  # b
    theta1: float
    theta2: float
    p11: float  # covariance of theta
    p12: float
    p22: float
    h1: float  # what theta was multiplied by at the last reading
    h2: float
    squares: float  # sum of the squared residuals of noise
    sound_r: float  # the last residual before the fault
    sound_t: int  # its slot
    ended: Any  # (EPISODES,) of `Ended`


class Parameters(Record):
    """Parameters of a channel's hypotheses."""

    phi: float  # memory from slot to slot
    tau: float  # standard deviation of an offset
    drift_sd: float  # of a drift per period
    noise_sd: float  # from which its residuals are noise
    log_prior: float  # log probability that a fault of one kind begins
    wander: float  # size below which an offset is the channel's own wander
    freedom: float  # degrees of freedom of its innovations
    t_constant: float  # of the log of their density
    usual_distance: float  # how far its distance from others usually wanders over a week; 0 where that is not known yet
    least_gain: float  # how far from 1 a gain is that is wrong
    slots: int  # of a period
    only_stuck: np.bool_  # it rests at one value most of the time: it can have nothing but stuck readings


class Episode(Record):
    """An episode as it is reported."""

    channel: int
    first: int  # wrong slot
    last: int
    kind: int
    fault_size: float  # in the unit of the readings
    rate: float  # per period
    confidence: float  # that its owners would confirm it
    is_open: np.bool_
    readings: int  # wrong ones in this period
    probability: float  # of a fault by the readings alone


def _dtype(record: type[Record], real: type[np.floating[Any]] = np.float64, **arrays: Any) -> np.dtype[Any]:
    """Return the dtype of a record with its numbers that are not whole in this precision; `arrays` are its arrays."""
    types = {float: real, int: np.int64}
    fields = [
        (name, *arrays[name]) if name in arrays else (name, types.get(kind, kind))
        for name, kind in get_type_hints(record).items()
    ]
    return np.dtype((record, np.dtype(fields, align=True)))


CHANNEL, WORKING_CHANNEL = _dtype(Channel, np.float32), _dtype(Channel)
"""As they are kept, and in double precision while they are computed with."""
VARIABLE = _dtype(Variable)
HYPOTHESIS = _dtype(Hypothesis, ended=(_dtype(Ended), EPISODES))
PARAMETERS = _dtype(Parameters)
REPORT = _dtype(Episode)

_CHANNEL_FIELDS = tuple(CHANNEL.names or ())

_unrolled = unroller()


@compiled
def copy_channel(source, target):
    """Copy what is known of a channel, also from one precision to the other."""
    for name in _unrolled(_CHANNEL_FIELDS):
        target[name] = source[name]
