"""Everything AutoOLRTR remembers, as plain arrays: per channel, per variable, and for the network."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sensormend.arrays import Array, as_like, namespace, on_host
from sensormend.auto.neighbourhoods import CORE, HALO, IntArray
from sensormend.auto.scales import Scales
from sensormend.recovery import BoolArray, FloatArray

if TYPE_CHECKING:
    from sensormend.auto.wide.parts import Parts

__all__ = ["FEATURES", "SKETCH", "Channels", "Hood", "Model", "Pools"]

FEATURES = 3
RESTING = 0.75
"""Share of a variable's readings that are equal from which it is at rest, but for few hours."""

SKETCH = 16


@dataclass(eq=False)
class Channels:
    """What is known of each channel (a sensor's variable); every array has the channels first.

    Attributes
    ----------
    days, away
        Periods learned from, and periods since the last reading.
    mean
        Usual value per slot.
    residual, sharpness
        Variance of the distance from the network: as seen, and as the model says.
    median, high, judged
        Running log quantiles (50 %, 90 %) of the features of its fibers, and how many went into them.
    last, age
        The two newest trusted residuals, and how many slots ago they were.
    daily
        Mean residual of the last period over its usual size; NaN where it was not judged sound.
    flagged, held, held_level, former
        How wrong the last fiber was (1: faulty), for how many periods that lasts, at what distance, and how far it
        is back to the level it had before the present one.
    run, step
        Usual longest stretch of equal readings, and the resolution on the variable's scale.
    sketch
        Its recent course on a few random axes: what moves alike lies close together.
    """

    days: FloatArray
    away: FloatArray
    mean: FloatArray
    residual: FloatArray
    sharpness: FloatArray
    median: FloatArray
    high: FloatArray
    judged: FloatArray
    last: FloatArray
    age: FloatArray
    daily: FloatArray
    flagged: FloatArray
    held: FloatArray
    held_level: FloatArray
    former: FloatArray
    run: FloatArray
    step: FloatArray
    sketch: NDArray[np.float32]

    @classmethod
    def new(cls, count: int, slots: int, like: Array | None = None) -> Channels:
        """Return `count` channels that nothing is known of, in the precision and the place of `like`."""
        shapes = {
            "mean": (slots,),
            "median": (FEATURES,),
            "high": (FEATURES,),
            "last": (2,),
            "age": (2,),
            "sketch": (SKETCH,),
        }
        fill = {"age": np.inf, "daily": np.nan, "run": 2.0, "step": np.inf}
        single = like is not None and like.dtype != np.float64
        kinds = {"sketch": np.float32}
        usual = np.float32 if single else np.float64
        arrays = {
            field.name: np.full(
                (count, *shapes.get(field.name, ())), fill.get(field.name, 0.0), kinds.get(field.name, usual)
            )
            for field in fields(cls)
        }
        return cls(**{name: as_like(array, like) for name, array in arrays.items()})

    def grown(self, count: int) -> Channels:
        """Return these channels with `count` unknown ones behind them."""
        more = Channels.new(count, self.mean.shape[1], self.mean)
        return self._map(lambda name, array: namespace(array).concat([array, getattr(more, name)]))

    def taken(self, rows: IntArray) -> Channels:
        """Return a copy of these rows."""
        return self._map(lambda _, array: array[rows])

    def apart(self, names: frozenset[str]) -> Channels:
        """Return these channels with these arrays of their own; the others are shared."""
        return self._map(lambda name, array: namespace(array).asarray(array, copy=True) if name in names else array)

    def moved(self, like: Array, *, single: bool) -> Channels:
        """Return these channels where `like` lives, in single precision where that is asked for."""
        kind = np.float32 if single else np.float64
        return self._map(
            lambda name, array: as_like(on_host(array).astype(np.float32 if name == "sketch" else kind), like)
        )

    def rewind(self) -> None:
        """Let go of what ties the next period to the last one; the way back to a former level stays open."""
        unknown = Channels.new(len(self.days), self.mean.shape[1], self.mean)
        for name in ("last", "age", "daily", "flagged", "held", "held_level"):
            getattr(self, name)[:] = getattr(unknown, name)

    def forget(self, rows: IntArray) -> None:
        """Make these channels unknown again, but for the doubt about them."""
        unknown = Channels.new(len(rows), self.mean.shape[1], self.mean)
        unknown.flagged[:] = 1.0
        for field in fields(self):
            getattr(self, field.name)[rows] = getattr(unknown, field.name)

    def _map(self, change: Any) -> Channels:
        return Channels(**{field.name: change(field.name, getattr(self, field.name)) for field in fields(self)})


@dataclass(eq=False)
class Pools:
    """What all channels of a variable share (variable first), and what the network shares.

    Attributes
    ----------
    products, pairs, daily
        Mean products of residuals at each lag within a period, and from one period to the next.
    ripple
        How much of the network's quick movement a channel does not share (numerator, denominator).
    width, calibrated
        Width of the interval in model standard deviations, for gaps and for whole fibers.
    rank, shrinkage
        Which rung of their ladders is in use.
    trials
        How much better the neighbouring rungs predicted hidden readings lately.
    stay
        Wrong fibers that were followed by a wrong one, and by a sound one.
    shown
        The least and the largest trusted reading so far, and of their periods the mean spread and the mean share
        that is equal to the median; NaN before any.
    period
        Periods seen.
    """

    products: FloatArray
    pairs: FloatArray
    daily: FloatArray
    ripple: FloatArray
    width: FloatArray
    calibrated: FloatArray
    trials: FloatArray
    stay: FloatArray
    shown: FloatArray
    rank: int = 0
    shrinkage: int = 5
    period: int = 0

    @classmethod
    def new(cls, variables: int, slots: int) -> Pools:
        """Return empty pools."""
        return cls(
            products=np.zeros((variables, slots)),
            pairs=np.zeros((variables, slots)),
            daily=np.zeros((variables, 2)),
            ripple=np.zeros((variables, 2)),
            width=np.full((variables, 2), 1.645),
            calibrated=np.zeros(variables),
            trials=np.zeros(4),
            stay=np.array([2.0, 4.0]),
            shown=np.full((variables, 4), np.nan),
        )


@dataclass(eq=False)
class Hood:
    """A neighbourhood: its members (those it judges first), their second moments and their dictionary.

    That of a small network has all channels in their order, and judges them all.
    """

    members: IntArray
    core: int
    moments: NDArray[np.float32]
    dictionary: NDArray[np.float32]


@dataclass(eq=False)
class Model:
    """All that is remembered, and the shape of what it is about.

    Attributes
    ----------
    channels, pools, hood, scales
        What is remembered; no neighbourhood before the first period.
    variables, slots
        The shape of a sensor's part of a minibatch.
    interval
        Nominal coverage of the interval.
    seed
        For the random axes of the sketches.
    core, halo
        How many channels a neighbourhood judges, and how many more it listens to.
    parts
        The neighbourhoods of a large network, in the place of `hood`.
    """

    channels: Channels
    pools: Pools
    hood: Hood | None
    scales: Scales
    variables: int
    slots: int
    interval: float
    seed: int
    core: int = CORE
    halo: int = HALO
    parts: Parts | None = None

    @classmethod
    def new(cls, variables: int, slots: int, interval: float, seed: int, hood: tuple[int, int]) -> Model:
        """Return a model that has seen nothing."""
        channels, pools = Channels.new(0, slots), Pools.new(variables, slots)
        return cls(channels, pools, None, Scales.unknown(variables), variables, slots, interval, seed, *hood)

    @property
    def variable(self) -> IntArray:
        """The variable of every channel."""
        return np.arange(len(self.channels.days)) % self.variables

    def usual_values(self, rows: NDArray[np.intp] | slice) -> FloatArray:
        """Return the usual value of each slot of these channels; a young channel's leans on its level."""
        mean, days = self.channels.mean[rows], self.channels.days[rows][..., None]
        level = mean.mean(axis=-1, keepdims=True)
        return np.asarray(level + days / (days + 5) * (mean - level))

    def resting(self) -> BoolArray:
        """Say of every variable whether nearly all readings are the same, as of rain."""
        return np.asarray(self.pools.shown[:, 3] > RESTING)

    def ripple(self) -> FloatArray:
        """Return for every channel how much of the network's quick movement it does not share."""
        part, whole = self.pools.ripple.T
        return np.asarray(np.clip(part / np.where(whole > 0, whole, 1.0), 0.0, 1.0)[self.variable])

    def pooled(self, values: FloatArray, otherwise: FloatArray | None = None) -> FloatArray:
        """Return for every channel the median over the judged channels of its variable.

        Where none was judged it is `otherwise`, or what `first_guess` says.
        """
        return self._medians(values, self.channels.judged > 0, otherwise)

    def own_guess(self) -> FloatArray:
        """Return the log features that each channel's residuals let expect; a fiber's mean is half its size."""
        size = 0.5 * np.log(self.channels.residual + 1e-300)
        return np.asarray(size[:, None] + np.array([0.0, -0.6, 0.0]))

    def first_guess(self) -> FloatArray:
        """Return the log features to expect of a variable before any fiber was judged."""
        nothing = np.zeros((self.channels.days.size, FEATURES))
        return self._medians(self.own_guess(), self.channels.days > 0, nothing)

    def _medians(self, values: FloatArray, counts: BoolArray, otherwise: FloatArray | None) -> FloatArray:
        """Return for every channel the median over those channels of its variable that count."""
        found = np.empty(values.shape)
        for which in range(self.variables):
            mine = slice(which, None, self.variables)
            ordered = values[mine][counts[mine]]
            if len(ordered):
                ordered.sort(axis=0)
                middle = len(ordered) // 2
                found[mine] = (ordered[middle] + ordered[len(ordered) - 1 - middle]) / 2
            else:
                found[mine] = (self.first_guess() if otherwise is None else otherwise)[mine]
        return found
