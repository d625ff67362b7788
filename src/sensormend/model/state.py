"""The state holds all that a model knows, as plain arrays; it grows, takes periods, and is packed for a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from sensormend.model import arrays as at
from sensormend.model import engine, estimation, learning, screening, wander
from sensormend.model.compiling import announce_compilation
from sensormend.model.joining import (
    AGREED_PERIODS,
    MOST_COMPARED,
    MOST_ON_TRIAL,
    START_PERIODS,
    WRONG_SHARE,
    alike,
    complete_moments,
    departure,
    moved_score,
)
from sensormend.model.records import CHANNEL, HYPOTHESIS, KIND_SPIKE, SOUND, VARIABLE
from sensormend.model.scales import SHAPE_PERIODS, find_bend, find_scale, neighbouring_pairs
from sensormend.recovery import FloatArray

from sensormend.model.partition import (  # isort: skip
    FEATURES, MAX_SINGLE, Partitioning, drop, extend, first_profiles, partition, profile_axes, transfer, with_hosts,
)  # fmt: skip

__all__ = ["CHANNELS", "EpisodeRow", "Result", "State", "in_spans"]

REPARTITION = 7
"""Periods after which a large network is partitioned again, once: its channels are better known then."""

SPIKE_PERIODS = 5
"""Periods of a channel after which readings that stand out are spikes."""
NOISY_SHARE = 1 / 8
"""Share of a period's slots beyond which spikes are noise, where the others explain a channel: the engine sees it."""
SPIKE_CONFIDENCE = 0.75
"""That such a spike is one."""
JOINT_CONFIDENCE = 0.95
"""The same where other channels have clear ones in the same slots."""

ALIKE = 4.0
"""The factor by which the variance of a channel that moves with the others is larger or smaller than the median one, at
most. A barometer on a mountain moves as those in the valley do; a thermocouple that is broken at 60 deg C moves with
the weather, but leaves 0.05 to 0.3 of its variance, which is a quarter of theirs."""

KNOWN_PERIODS = 10
"""Periods of a channel after which its volatility counts for that of its variable."""

BLOCK = 64
"""Partitions that one thread takes at a time."""

ABSENT_PERIODS = 30
"""Periods of silence after which the level of a channel starts over: soil that came back after a winter was wrong for
months."""
FOLLOWED_PART = 48
"""Part of a period's slots, before its last readings, that each estimate follows again: readings that come late by
half an hour change nothing before them."""

CHANNELS = 16_384
"""Channels that one thread takes at a time where they are taken one by one."""

SAMPLED_SENSORS = 20_000
"""Sensors of a large network by which the scale of a variable is set."""

OF_FAULT = ("lasting", "has_ended", "judgement", "open_kind")
"""What is known of the fault of a channel that is open, or that ended with the last period, besides its size."""

PER_CHANNEL = (
    "mean",
    "stats",
    "first",
    "count",
    "away",
    "profiles",
    "seen",
    "history",
    "square",
    "extremes",
    "roughness",
    "habits",
    "standing",
    "agreed",
    "distance",
    "reference",
)
"""Arrays of a state that have a row per channel."""

_Returned = TypeVar("_Returned")


def in_spans(count: int, step: int, function: Callable[[int, int], _Returned]) -> list[_Returned]:
    """Call a function for spans of at most `step` out of `count`, in `SENSORMEND_THREADS` threads."""
    spans = [(begin, min(begin + step, count)) for begin in range(0, count, step)]
    threads = max(1, int(os.environ.get("SENSORMEND_THREADS", "1")))
    if threads == 1 or len(spans) == 1:
        return [function(*span) for span in spans]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda span: function(*span), spans))


class EpisodeRow(NamedTuple):
    """An episode of a period, with the fields of a `records.Episode`."""

    channel: int
    first: int
    last: int
    kind: int
    size: float
    rate: float
    confidence: float
    is_open: bool
    readings: int
    probability: float


@dataclass(frozen=True, eq=False)
class Result:
    """What a period comes to: estimates on the model's channels, the episodes that touch it, and the rounds it took.

    `followed` is what the next estimate of the same period may take up.
    """

    estimates: at.Estimates
    episodes: list[EpisodeRow]
    rounds: int
    followed: tuple[at.Followed, ...] = ()


@dataclass(eq=False)
class State:
    """What is known of channels, variables and partitions; channels are (sensor, variable), row by row."""

    variables: int
    slots: int
    interval: float
    seed: int
    clock: int = 0
    """Periods that were given."""
    periods: int = 0
    """Periods that were learned from."""
    mean: NDArray[np.float32] = field(init=False)
    stats: NDArray[np.void] = field(init=False)
    variable_stats: NDArray[np.void] = field(init=False)
    moments: NDArray[np.float32] = field(init=False)
    hypotheses: NDArray[np.void] = field(init=False)
    first: NDArray[np.int64] = field(init=False)
    count: NDArray[np.int32] = field(init=False)
    away: NDArray[np.int32] = field(init=False)
    seen: NDArray[np.bool_] = field(init=False)
    history: NDArray[np.float32] = field(init=False)
    square: NDArray[np.float32] = field(init=False)
    extremes: NDArray[np.float32] = field(init=False)
    roughness: NDArray[np.float32] = field(init=False)
    habits: NDArray[np.float32] = field(init=False)
    """How often, and at what time of day, channels have what looks like a spike, (channel, 4)."""
    standing: NDArray[np.uint8] = field(init=False)
    agreed: NDArray[np.int16] = field(init=False)
    """Scores of channels that join: of periods in which they agreed with known ones, and moved as other new ones."""
    distance: NDArray[np.float32] = field(init=False)
    """Of channels that join: how far they were from the course of known ones in their last period; NaN at first."""
    reference: NDArray[np.bool_] = field(init=False)
    pooled: FloatArray = field(init=False)
    spread: NDArray[np.float32] = field(init=False)
    """Mean and standard deviation of every variable's readings, on its scale; 0 where they are not known."""
    profiles: NDArray[np.float32] = field(init=False)
    weights: NDArray[np.float32] = field(init=False)
    sample: FloatArray = field(init=False)
    partitions: Partitioning | None = None

    def __post_init__(self) -> None:
        self.mean = np.zeros((0, self.slots), np.float32)
        self.stats = np.zeros(0, CHANNEL)
        self.variable_stats = np.zeros(self.variables, VARIABLE)
        self.set_plateaus([None] * self.variables)
        self.variable_stats["low"], self.variable_stats["high"] = np.inf, -np.inf
        self.variable_stats["shrinkage"] = at.FIRST_SHRINKAGE
        self.variable_stats["volatility"] = at.FIRST_VOLATILITY
        self.moments = np.zeros((0, 0, 0), np.float32)
        self.hypotheses = np.zeros(0, HYPOTHESIS)
        self.first, self.count = np.zeros(0, np.int64), np.zeros(0, np.int32)
        self.away = np.zeros(0, np.int32)
        self.seen = np.zeros(0, np.bool_)
        self.history = np.zeros((0, wander.SCALES, wander.RING), np.float32)
        self.square = np.zeros((0, wander.LAGS), np.float32)
        self.extremes = np.zeros((0, 4), np.float32)
        self.roughness, self.habits = np.zeros(0, np.float32), np.zeros((0, 4), np.float32)
        self.standing, self.agreed = np.zeros(0, np.uint8), np.zeros((0, 2), np.int16)
        self.distance, self.reference = np.zeros(0, np.float32), np.zeros(0, np.bool_)
        self.pooled = np.zeros((self.variables, wander.LAGS, 3))
        self.spread = np.zeros((self.variables, 2), np.float32)
        self.profiles = np.zeros((0, FEATURES), np.float32)
        self.weights = np.zeros((0, 0, 0), np.float32)
        self.sample = np.empty((self.variables, 0, 2))

    @property
    def channels(self) -> int:
        """How many channels there are."""
        return len(self.mean)

    @property
    def variable(self) -> NDArray[np.int32]:
        """The variable of every channel."""
        # In a tenth of the time that `np.tile` takes for a small network.
        variable = np.empty((self.channels // self.variables, self.variables), np.int32)
        variable[:] = np.arange(self.variables)
        return variable.reshape(-1)

    @property
    def group(self) -> NDArray[np.int32]:
        """What may be in one partition: known channels of a variable, and those of it that are apart.

        A channel that was never observed, or that joins, is on its own.
        """
        together = self.variable + self.variables * (self.standing == at.APART)
        own = 2 * self.variables + np.arange(self.channels)
        return np.where(self.seen & (self.standing != at.JOINING), together, own).astype(np.int32)

    @property
    def counts(self) -> NDArray[np.bool_]:
        """Which channels count for their variables: all but those that join, or are apart."""
        return np.asarray((self.standing == at.KNOWN) | (self.standing == at.ADMITTED))

    @property
    def is_large(self) -> bool:
        """Whether a variable has too many channels for a single partition."""
        return bool((np.bincount(self.group[self.seen], minlength=1) > MAX_SINGLE).any())

    def has_unseen(self, readings: FloatArray) -> bool:
        """Return whether a channel has readings, (channel, slot), that never had any before."""
        return bool(np.isfinite(readings[~self.seen]).any())

    def set_tolerance(self, limits: Sequence[float | None]) -> None:
        """Set the accuracy of the probes of every variable; None where it is the step of the readings."""
        self.variable_stats["has_tolerance"] = [limit is not None for limit in limits]
        self.variable_stats["tolerance"] = [limit or 0.0 for limit in limits]

    def set_plateaus(self, plateaus: Sequence[tuple[float, float] | None]) -> None:
        """Set between which readings the channels of every variable may stand still; None where there are none."""
        nowhere = (np.inf, -np.inf)
        self.variable_stats["plateau_low"] = [(ends or nowhere)[0] for ends in plateaus]
        self.variable_stats["plateau_high"] = [(ends or nowhere)[1] for ends in plateaus]

    def set_references(self, reference: NDArray[np.bool_]) -> None:
        """Set which channels are never judged; what was held against them is dropped."""
        self.reference = reference
        for name in ("is_distant", "fault_size", *OF_FAULT):
            self.stats[name][reference] = 0

    def grow(self, sensors: int) -> None:
        """Add sensors that were never observed, one or more."""
        channels = self.channels
        for name in PER_CHANNEL:
            array = getattr(self, name)
            new = np.zeros((sensors * self.variables, *array.shape[1:]), array.dtype)
            setattr(self, name, np.concatenate([array, new]))
        self.distance[channels:] = np.nan
        self._start_over(np.arange(channels, self.channels))

    def _start_over(self, channels: NDArray[np.intp]) -> None:
        """Forget all that is known of channels."""
        if not channels.size:
            return
        self.stats[channels], self.mean[channels] = at.NEW_CHANNEL[0], 0
        self.history[channels], self.square[channels] = np.nan, 0
        self.extremes[channels] = np.inf, -np.inf, np.inf, -np.inf
        self._drop_hypotheses(channels)

    def observed_periods(self) -> FloatArray:
        """Return in how many periods each channel was observed."""
        return self.stats["age"].astype(float)

    def check(self, sensors: int) -> None:
        """Raise ValueError where arrays that were read from a file do not belong together."""
        channels = sensors * self.variables
        empty = State(self.variables, self.slots, self.interval, self.seed)
        expected = {name: (channels, *getattr(empty, name).shape[1:]) for name in PER_CHANNEL}
        expected |= {"hypotheses": (int(self.count.sum()),), "variable_stats": empty.variable_stats.shape}
        expected |= {"sample": (self.variables, self.sample.shape[1], 2), "pooled": empty.pooled.shape}
        expected |= {"spread": empty.spread.shape}
        shapes = {name: getattr(self, name).shape for name in expected}
        if self.partitions is not None:
            pieces, width = self.partitions.members.shape
            expected |= {"home": (channels,), "place": (channels,), "owned": (pieces,), "size": (pieces,)}
            shapes |= {name: array.shape for name, array in self.partitions._asdict().items() if name != "members"}
            expected |= {"moments": (pieces, width, width)}
            expected |= {"weights": (pieces, int(self.partitions.owned.max()), width)}
            shapes |= {"moments": self.moments.shape, "weights": self.weights.shape}
        if shapes != expected:
            raise ValueError("the arrays do not fit")

    def drop(self, keep: NDArray[np.bool_]) -> None:
        """Forget sensors for good."""
        channels = np.repeat(keep, self.variables)
        if self.partitions is not None:
            numbers = np.flatnonzero(channels)
            lost = self._transfer(drop(self.partitions, channels), self.profiles[numbers], numbers)
            self._forget_history(numbers[lost])
        followed = np.flatnonzero(channels & (self.count > 0))
        rows = [self.hypotheses[self.first[c] : self.first[c] + self.count[c]] for c in followed]
        self.hypotheses = np.concatenate([self.hypotheses[:0], *rows])
        for name in PER_CHANNEL:
            setattr(self, name, getattr(self, name)[channels])
        self.first = np.cumsum(self.count, dtype=np.int64) - self.count

    def rewind(self) -> None:
        """Drop what ties the next period to the last one."""
        self.stats["last_time"] = -1
        self.stats["last_residual"] = 0
        self.stats["last_value"] = np.nan
        # Means and correlations stay, so that no level has to be set again.
        self._forget_history(np.arange(self.channels))
        self.count[:], self.first[:] = 0, 0
        self.hypotheses = self.hypotheses[:0]

    def _forget_history(self, channels: NDArray[Any]) -> None:
        """Forget what the levels of channels were, and what followed from that: those to come are compared anew."""
        self.history[channels] = np.nan
        for name in ("distance", "is_distant", "fault_size", "own_distance", *OF_FAULT):
            self.stats[name][channels] = 0
        self.stats["level_age"][channels] = np.minimum(self.stats["level_age"][channels], 1)

    def accept(self, channels: Sequence[int]) -> None:
        """Restart the levels of channels: where they are now is right, and the next readings show it better.

        An offset or a drift that is open goes into the mean and the reference. What else is known of the channel, and
        how it moves with others, stays.
        """
        for c in channels:
            stats = self.stats[c]
            # A fault that ended went into the mean when the period was over.
            self.mean[c] += 0 if stats["has_ended"] else stats["lasting"] or stats["fault_size"]
            for name in ("distance", "is_distant", "fault_size", "own_distance", "level_age", *OF_FAULT):
                stats[name] = 0
            stats["onset"] = self.clock
        self._drop_hypotheses(np.asarray(channels, dtype=np.intp))

    def _drop_hypotheses(self, channels: NDArray[np.intp]) -> None:
        """Follow channels as sound ones from here on."""
        keep = np.ones(len(self.hypotheses), dtype=bool)
        for c in channels[self.count[channels] > 0].tolist():
            keep[self.first[c] : self.first[c] + self.count[c]] = False
        self.first = np.append(0, np.cumsum(keep))[self.first].astype(np.int64)
        self.count[channels] = 0
        self.hypotheses = self.hypotheses[keep]

    def prepare(self, readings: FloatArray) -> None:
        """Set the scales of variables that are read for the first time, and assign every channel to a partition."""
        by_variable = readings.reshape(-1, self.variables, self.slots)
        for number in np.flatnonzero(self.variable_stats["width"] == 0).tolist():
            values = by_variable[:: max(1, len(by_variable) // SAMPLED_SENSORS), number]
            values = values[np.isfinite(values)]
            if values.size and values.min() < values.max():
                row = self.variable_stats[number]
                row["centre"], row["width"] = find_scale(values)
        old = 0 if self.partitions is None else self.partitions.home.size
        joining = ~self.seen & np.isfinite(readings).any(axis=1)
        if joining.any():
            oldest = np.where(self.counts, self.stats["age"], 0).reshape(-1, self.variables).max(axis=0)
            is_late = oldest[self.variable] > START_PERIODS
            late = np.flatnonzero(joining & is_late & ~self.reference)
            self.standing[late] = at.JOINING
            self.standing[late[max(0, MOST_ON_TRIAL - int((self.standing == at.JOINING)[~joining].sum())) :]] = at.APART
        self.seen |= joining
        joining[old:] = True
        if not joining.any():
            return
        group = self.group
        profiles = np.zeros((self.channels, FEATURES), np.float32)
        if self.is_large:
            # Channels are compared by this period's readings.
            profiles = first_profiles(self._scaled(readings), group)
        if self.partitions is None:
            self.partitions = partition(profiles, group)
            width = self.partitions.members.shape[1]
            self.moments = np.zeros((len(self.partitions.members), width, width), np.float32)
            self.weights = np.zeros((len(self.partitions.members), int(self.partitions.owned.max()), width), np.float32)
            return
        staying = self.partitions if not joining[:old].any() else drop(self.partitions, ~joining[:old])
        extended = extend(staying, profiles, group, np.flatnonzero(joining))
        numbers = np.where(joining, -1, np.arange(self.channels))
        self._forget_history(self._place(extended, profiles, numbers))

    def _place(self, new: Partitioning, profiles: NDArray[np.float32], numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Transfer to new partitions, in which channels that join have known ones beside them."""
        is_joining = self.standing == at.JOINING
        hosted = with_hosts(new, profiles, self.variable, is_joining, self.seen & self.counts)
        return self._transfer(hosted, profiles, numbers)

    def _transfer(
        self, new: Partitioning, profiles: NDArray[np.float32], numbers: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Move to new partitions with moments and slow weights; return the channels whose distance starts over.

        `numbers` has the old number of each channel, -1 where it has none.
        """
        assert self.partitions is not None
        self.moments = transfer(self.partitions, self.moments, new, profiles, numbers)
        self.weights, lost = wander.transfer_weights(self.partitions, self.weights, new, numbers)
        self.partitions = new
        return np.asarray(lost)

    def repartition_due(self) -> bool:
        """Return whether the next period begins with partitioning the network again."""
        return self.partitions is not None and self.is_large and self.periods == REPARTITION

    def repartition(self) -> None:
        """Partition a large network again when its channels are better known."""
        if self.repartition_due():
            self._place(partition(self.profiles, self.group), self.profiles, np.arange(self.channels))

    def _admit(self, readings: FloatArray, estimates: at.Estimates) -> None:
        """Compare channels that join with known ones, and with each other; place those that did not change for long."""
        joining = np.flatnonzero(self.standing == at.JOINING)
        if not joining.size:
            return
        parts, variable = self.partitions, self.variable
        assert parts is not None
        scaled = self._scaled(readings).astype(float)
        seen = np.isfinite(scaled)
        wrong = (seen & (estimates.code >= at.WRONG))[joining].sum(axis=1)
        agreed = wrong <= WRONG_SHARE * seen[joining].sum(axis=1)
        beside = {c: parts.members[parts.home[c], 1 : parts.size[parts.home[c]]] for c in joining.tolist()}
        own_variance = self._own_variance()
        for place, (c, known) in enumerate(beside.items()):
            usual = float(np.median(own_variance[known])) if known.size else 0.0
            ratio, distance = departure(
                scaled[c], scaled[known], self.mean[known].mean(axis=1), usual, float(self.distance[c])
            )  # fmt: skip
            agreed[place] &= ratio <= 1 and bool(self.stats["age"][c] > 0)
            if not np.isnan(distance):
                self.distance[c] = distance
            if not np.isnan(ratio):
                self.agreed[c, :1] = moved_score(self.agreed[c, :1], agreed[place : place + 1])
        for number in np.unique(variable[joining]).tolist():
            new = joining[variable[joining] == number][:MOST_COMPARED]
            apart = np.flatnonzero((self.standing == at.APART) & (variable == number))[:MOST_COMPARED]
            known = np.unique(np.concatenate([beside[c] for c in new.tolist()]))[:MOST_COMPARED]
            is_alike = alike(scaled[np.append(new, apart)], scaled[known])[: len(new)] & ~agreed[np.isin(joining, new)]
            self.agreed[new, 1] = moved_score(self.agreed[new, 1], is_alike)
        admitted = joining[(self.agreed[joining, 0] >= AGREED_PERIODS) | self.reference[joining]]
        apart = np.setdiff1d(joining[self.agreed[joining, 1] >= AGREED_PERIODS], admitted)
        if not admitted.size + apart.size:
            return
        self.standing[admitted], self.standing[apart] = at.ADMITTED, at.APART
        moved = np.zeros(self.channels, np.bool_)
        moved[admitted] = moved[apart] = True
        profiles = np.zeros((self.channels, FEATURES), np.float32)
        if self.is_large:
            profiles = first_profiles(scaled, self.group)
            for c in admitted.tolist():
                # It goes where those are that it was predicted from.
                profiles[c] = profiles[beside[c]].mean(axis=0) if beside[c].size else profiles[c]
        numbers = np.arange(self.channels)
        numbers[apart] = -1
        self._start_over(apart)
        moments = self.moments
        extended = extend(drop(parts, ~moved), profiles, self.group, np.flatnonzero(moved))
        self._forget_history(self._place(extended, profiles, numbers))
        complete_moments(parts, moments, extended, admitted, self.moments)

    def run(self, readings: FloatArray, *, learning: bool, followed: tuple[at.Followed, ...] = ()) -> Result:
        """Take one period, (channel, slot), through the model; with `learning` off nothing in it changes.

        `followed` is what the last estimate of the same period has left, which saves following its readings again.
        """
        assert self.partitions is not None
        announce_compilation(engine.run_partitions)
        shape = readings.shape
        parts = self.partitions
        spikes, habitual, handled = self._spikes(readings, learning=learning)
        raw, readings = readings, np.where(spikes | habitual, np.nan, readings)
        # The moments of channels that are not known, or not any more, are set before anything is judged.
        copied = not learning and bool((self.stats["age"] == 0).any())
        moments = self.moments.copy() if copied else self.moments
        network = at.Network(
            self.mean, self._with_restarts(readings), self.variable, self.variable_stats, parts.members, parts.owned,
            parts.size, moments, self.hypotheses, self.first, self.count, self.weights, self.seen,
            at.Wander(self.history, self.square, self.extremes, self.pooled),
            screening.spike_limits(self.roughness, self.spread[self.variable, 1]), self.standing, self.reference,
        )  # fmt: skip
        estimates = at.Estimates(
            expected=np.empty(shape), cleaned=np.empty(shape), lower=np.empty(shape), upper=np.empty(shape),
            code=np.empty(shape, np.uint8), score=np.empty(shape[0]), kind=np.zeros(shape[0], np.uint8),
        )  # fmt: skip
        learned = at.Learned(
            stats=np.empty_like(self.stats if learning else self.stats[:0]),
            mean=np.empty_like(self.mean) if learning else self.mean[:0],
            count=np.zeros(shape[0], np.int32),
            level=np.zeros(shape[0] if learning else 0, np.float32),
            ripple=np.zeros((len(parts.members), 2)),
            trial=np.zeros(len(parts.members)),
        )
        # The next slot's readings change what is predicted in the slots before it.
        reached = np.flatnonzero(np.isfinite(readings).any(axis=0)).max(initial=0) - max(3, self.slots // FOLLOWED_PART)
        saved = engine.NOT_FOLLOWED._replace(slot=max(0, int(reached)))
        period = at.Period(self.clock * self.slots, self.interval, readings, estimates, learned, saved, saved)

        def run_block(begin: int, end: int) -> Any:
            number = begin // BLOCK
            known = followed[number] if number < len(followed) else engine.NOT_FOLLOWED
            return engine.run_block(network, period._replace(known=known), begin, end, learning)

        blocks = in_spans(len(parts.members), BLOCK, run_block)
        episodes = [EpisodeRow(*row) for block in blocks for row in block[1]]
        estimates.code[spikes], estimates.code[habitual] = at.SPIKE, at.TRUSTED
        for values in (estimates.cleaned, estimates.lower, estimates.upper):
            values[habitual] = raw[habitual]
        episodes += [
            EpisodeRow(
                c, period.start + begin, period.start + end - 1, KIND_SPIKE,
                float(np.mean(raw[c, begin:end] - estimates.expected[c, begin:end])), 0.0,
                JOINT_CONFIDENCE if handled[c, begin:end].any() else SPIKE_CONFIDENCE, False, end - begin, 1.0,
            )
            for c, begin, end in screening.runs(spikes)
        ]  # fmt: skip
        result = Result(estimates, episodes, max(block[2] for block in blocks), tuple(block[3] for block in blocks))
        if learning:
            self._learn(network, period)
            # What was known before is freed first: both would be the peak of memory.
            del network, period, learned
            self.hypotheses = np.concatenate([block[0] for block in blocks]).view(HYPOTHESIS)[:, 0]
            self._admit(readings, estimates)
            if self.periods in SHAPE_PERIODS:
                self._bend_scales()
        return result

    def _with_restarts(self, readings: FloatArray) -> NDArray[np.void]:
        """Return what is known of channels before a period: the level of one that was silent for a month starts over.

        It was estimated from the others, whose seasons were never compared with its own. A fault that is open stays so,
        and where most of a variable were away together, all are as far from where they were.
        """
        absent = self.clock * self.slots - self.stats["last_time"] > ABSENT_PERIODS * self.slots
        was_sound = (self.stats["open_kind"] == SOUND) & (self.stats["last_time"] >= 0) & (self.stats["age"] > 0)
        if not (absent & was_sound).any():
            return self.stats
        reports, variable = np.isfinite(readings).any(axis=1), self.variable
        returning, present = (
            np.bincount(variable[which & reports], minlength=self.variables) for which in (absent, ~absent)
        )
        rows = np.flatnonzero(absent & was_sound & reports & (returning < present)[variable])
        if not rows.size:
            return self.stats
        stats = self.stats.copy()
        for name in ("distance", "is_distant", "fault_size", "own_distance", "level_age"):
            stats[name][rows] = 0
        stats["onset"][rows] = self.clock
        return stats

    def _spikes(
        self, readings: FloatArray, *, learning: bool
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which readings are spikes, which only look so, and when devices were handled; learn how rough all are.

        What only looks like a spike is a habit of its channel, as far as that has no fault: it is trusted unseen.
        """
        names, low = ("rest_votes", "at_rest", "readings", "rest_value"), self.variable_stats["low"][self.variable]
        is_intermittent = getattr(at.is_intermittent, "py_func", at.is_intermittent)
        rests = is_intermittent(*(self.stats[name] for name in names), low)
        scaled = self._scaled(readings)
        last = self._scaled(self.stats["last_value"][:, None].astype(float))[:, 0]
        usual = np.where((self.stats["age"] >= SPIKE_PERIODS) & ~rests, self.roughness, 0).astype(np.float32)
        spread = self.spread[self.variable, 1]

        def find(channels: Any, part: float) -> NDArray[np.bool_]:
            return screening.find_spikes(scaled[channels], last[channels], usual[channels], spread[channels], part)

        spikes = np.concatenate(
            in_spans(self.channels, CHANNELS, lambda begin, end: find(slice(begin, end), 1.0)),
        )
        spikes[self._unexplained_below(engine.MAX_UNEXPLAINED**2) & (spikes.sum(axis=1) > NOISY_SHARE * self.slots)] = (
            False
        )
        likely, age = spikes.copy(), self.stats["age"]
        has_habit = screening.is_habitual(self.habits) & (age >= screening.HABIT_PERIODS)
        spikes[has_habit] = False
        if self.slots < screening.SPIKE_PART and spikes.any():
            # Within hours weather comes and goes: what several channels show at once is no error of theirs.
            high = find(slice(None), screening.JOINT).reshape(-1, self.variables, self.slots)
            spikes &= (high.sum(axis=0) < screening.WEATHER)[self.variable]
        handled = np.zeros(readings.shape, np.bool_)
        rows = np.flatnonzero(spikes.any(axis=1))
        if rows.size >= min(screening.VARIABLES_BESIDE, screening.DEVICES_BESIDE):
            clear = np.zeros(readings.shape, np.bool_)
            clear[rows] = find(rows, screening.CLEAR) & self.counts[rows, None]
            by_device = (-1, self.variables, self.slots)
            observed = np.isfinite(scaled).reshape(by_device)
            handled = screening.find_handled(clear.reshape(by_device), observed).reshape(readings.shape)
            rows = np.flatnonzero(handled.any(axis=1))
            for row, begin, end in screening.runs(find(rows, screening.JOINT)):
                spikes[rows[row], begin:end] |= handled[rows[row], begin:end].any()
        spikes[self.reference] = False
        habitual = likely & ~spikes & (has_habit & (self.stats["open_kind"] == SOUND))[:, None]
        if learning:
            scaled[spikes | habitual] = np.nan
            today = screening.roughness_of(scaled, last, self.roughness)
            slow = np.maximum(1 / (age.astype(np.float32) + 2), 1 - screening.MEMORY)
            self.habits = screening.follow_habits(self.habits, likely, np.isfinite(readings), slow)
            rate = np.where(self.roughness > 0, slow, 1)
            moved = self.roughness + rate * (today - self.roughness)
            self.roughness = np.where(np.isfinite(moved), moved, self.roughness).astype(np.float32)
            counts = self.counts
            counts_all = bool(counts.all())
            for number in range(self.variables):
                channels = slice(number, None, self.variables)
                slowest = float(rate[channels][np.isfinite(today[channels])].min(initial=1))
                counted = scaled[channels] if counts_all else scaled[channels][counts[channels]]
                self.spread[number] = screening.follow_spread(self.spread[number], counted, slowest)
        return spikes, habitual, handled

    def comoving(self) -> NDArray[np.bool_]:
        """Return which channels move with the others, and about as much as they do; those hardly known count."""
        moves, variance = self._unexplained_below(engine.MAX_UNEXPLAINED**2), self._own_variance()
        known = self.stats["age"] >= at.OWN_PERIODS
        counts = known & self.counts
        for number in range(self.variables):
            channels = slice(number, None, self.variables)
            counted = counts[channels]
            if counted.any():
                usual = screening.median_of(variance[channels][counted])
                moves[channels] &= (variance[channels] <= ALIKE * usual) & (ALIKE * variance[channels] >= usual)
        return np.asarray(moves | ~known)

    def explained(self) -> NDArray[np.bool_]:
        """Return which channels the others explain well enough to say where they are; those hardly known count."""
        return self._unexplained_below(estimation.MAX_UNEXPLAINED) | (self.stats["age"] < at.OWN_PERIODS)

    def _own_variance(self) -> NDArray[np.float32]:
        """Return the variance of every channel's deviations; 0 where nothing is known."""
        if self.partitions is None:
            return np.zeros(self.channels, np.float32)
        return self.moments[self.partitions.home, self.partitions.place, self.partitions.place]

    def _unexplained_below(self, share: float) -> NDArray[np.bool_]:
        """Return the channels of whose variance less than a share is left in their residuals."""
        return np.asarray(self.stats["variance"] < share * self._own_variance())

    def _learn(self, network: at.Network, period: at.Period) -> None:
        readings = period.readings
        if self.periods <= SHAPE_PERIODS[-1]:
            by_variable = np.where(self.counts[:, None], readings, np.nan).reshape(-1, self.variables, self.slots)
            pairs = np.stack([neighbouring_pairs(by_variable[:, number]) for number in range(self.variables)])
            self.sample = np.concatenate([self.sample, pairs], axis=1)
        learning.learn_range(network, period, self.away)
        # Of one or two readings what two periods have shown may be the wrong way round.
        low, high = self.variable_stats["low"], self.variable_stats["high"]
        if (swapped := np.isfinite(low) & (low > high)).any():
            low[swapped], high[swapped] = high[swapped], low[swapped]
        wander.update_wander(network, period, network.wander, self.periods)
        self._learn_predictions(network, period)
        self._pool_volatility(period.learned.stats)
        if self.is_large:
            axes = profile_axes(self.slots, self.periods, self.seed)
            in_spans(
                self.channels, CHANNELS,
                lambda begin, end: learning.learn_profiles(begin, end, network, period, axes, self.profiles),
            )  # fmt: skip
        self.stats, self.mean, self.count = period.learned.stats, period.learned.mean, period.learned.count
        # The rows lie in the order of the partitions, and within one in that of its owned channels.
        owned = np.arange(network.members.shape[1]) < network.owned[:, None]
        order = network.members[owned]
        self.first = np.empty(len(order), np.int64)
        self.first[order] = np.cumsum(self.count[order]) - self.count[order]
        self.periods += 1
        if self.periods > SHAPE_PERIODS[-1]:
            self.sample = self.sample[:, :0]

    def _learn_predictions(self, network: at.Network, period: at.Period) -> None:
        """Learn the shrinkage, and the share k of the ripple to remove: the regression of residuals on it."""
        variable = network.variable[network.members[:, 0]]
        variable = np.where(self.counts[network.members[:, 0]], variable, -1)
        tried = np.arange(len(variable)) < engine.TRIAL_PARTITIONS
        step = learning.SHRINKAGE_STEP
        which, factor = ("trial_up", step) if self.clock % 2 == 0 else ("trial_down", 1 / step)
        for number, row in enumerate(self.variable_stats):
            trial = period.learned.trial[tried & (variable == number)]
            if trial.size:
                row[which] = 0.9 * row[which] + float(trial.mean())
                # Another shrinkage is taken when it predicted hidden readings better by 1 % over about ten trials.
                if row[which] < -0.02:
                    row["shrinkage"] = np.clip(row["shrinkage"] * factor, 1e-4, 0.9)
                    row["trial_up"] = row["trial_down"] = 0.0
            product, square = period.learned.ripple[variable == number].sum(axis=0)
            if square > 0:
                rate = max(1 / (self.periods + 5), 0.02)
                row["ripple"] += rate * (min(max(float(product / square), 0.0), 1.0) - row["ripple"])

    def _pool_volatility(self, stats: NDArray[np.void]) -> None:
        """Set the volatility of every variable to that of its median channel."""
        known = np.flatnonzero((stats["age"] >= KNOWN_PERIODS) & self.counts)
        width = (stats["rough"][known] - stats["calm"][known]) / at.QUANTILE_WIDTH
        variable = known % self.variables
        for number, row in enumerate(self.variable_stats):
            of_variable = width[variable == number][:SAMPLED_SENSORS]
            of_variable = of_variable[~np.isnan(of_variable)]
            if np.isfinite(of_variable).any():
                row["volatility"] = float(screening.median_of(of_variable))

    def _scaled(self, readings: FloatArray) -> NDArray[np.float32]:
        """Put readings on their variables' scales."""
        out = np.empty(readings.shape, np.float32)
        centre, width, bend = (self.variable_stats[name][:, None] for name in ("centre", "width", "bend"))
        width = np.where(width > 0, width, 1.0)
        step = max(1, CHANNELS // self.variables) * self.variables
        for begin in range(0, len(readings), step):
            part = readings[begin : begin + step].reshape(-1, self.variables, readings.shape[1])
            if (bend > 0).any():
                part = part.copy()
                for number in np.flatnonzero(bend > 0).tolist():
                    part[:, number] = np.arcsinh(part[:, number] / bend[number])
            scaled = np.minimum(np.maximum((part - centre) / width, -1e6), 1e6)
            out[begin : begin + step] = scaled.reshape(-1, readings.shape[1])
        return out

    def _bend_scales(self) -> None:
        """Move variables that have a long tail to the asinh scale, with all that was learned of them."""
        for number, row in enumerate(self.variable_stats):
            if row["bend"] > 0 or row["width"] == 0:
                continue
            bend = find_bend(self.sample[number])
            if bend == 0:
                continue
            values = self.sample[number, :, 0]
            values = values[np.isfinite(values)]
            channels = slice(number, None, self.variables)
            level = self.mean[channels].astype(float) * row["width"] + row["centre"]
            middle = level.mean(axis=1)
            centre, width = find_scale(values, bend)
            # The slope of the new scale over the old one, at each channel's level.
            stretch = row["width"] / (width * np.sqrt(bend**2 + middle**2))
            row["centre"], row["width"], row["bend"] = centre, width, bend
            self.mean[channels] = (np.arcsinh(level / bend) - centre) / width
            stats = self.stats[channels]
            for name in ("sigma", "last_residual", "slow_level"):
                stats[name] *= stretch
            for name in ("variance", "covariance", "wander_square"):
                stats[name] *= stretch**2
            self._forget_history(np.arange(self.channels)[channels])
            self.pooled[number] = 0
            self.extremes[channels] = np.inf, -np.inf, np.inf, -np.inf
            self.roughness[channels] = 0
            self.spread[number] = 0
            self._drop_hypotheses(np.arange(self.channels)[channels])
            assert self.partitions is not None
            factor = np.ones(self.channels)
            factor[channels] = stretch
            own = np.where(self.partitions.members >= 0, factor[self.partitions.members], 1.0).astype(np.float32)
            self.moments *= own[:, :, None] * own[:, None, :]

    def pack(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return settings and arrays, for a file or a copy."""
        settings: dict[str, Any] = {}
        arrays: dict[str, NDArray[Any]] = {}
        for part in fields(self):
            value = getattr(self, part.name)
            if isinstance(value, np.ndarray):
                arrays[part.name] = value
            elif part.name != "partitions":
                settings[part.name] = value
        if self.partitions is not None:
            arrays |= {f"partitions_{name}": value for name, value in self.partitions._asdict().items()}
        return settings, arrays

    @classmethod
    def unpack(cls, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> State:
        """Undo `pack`; the arrays are copied."""
        state = cls(**settings)
        parts = {name: value.copy() for name, value in arrays.items() if name.startswith("partitions_")}
        if parts:
            state.partitions = Partitioning(
                **{name.removeprefix("partitions_"): value for name, value in parts.items()}
            )
        for part in fields(cls):
            if not part.init:
                array, own = arrays[part.name].copy(), getattr(state, part.name).dtype
                if own.names and array.dtype != own:
                    raise ValueError("other fields")
                # A file has the fields of a record, and not its class.
                setattr(state, part.name, array.view(own) if own.names else array)
        return state
