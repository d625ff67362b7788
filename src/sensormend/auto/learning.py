"""What a period teaches: each neighbourhood its own part, the shared parts once at the end."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.arrays import as_like, on_host
from sensormend.auto import judge, network, timeline
from sensormend.auto.judging import Today, Verdict
from sensormend.auto.memory import SKETCH, Channels, Model
from sensormend.auto.neighbourhoods import IntArray
from sensormend.auto.settled import Settled
from sensormend.auto.stack import Stack
from sensormend.recovery import BoolArray, FloatArray

__all__ = ["OVER_THE_FENCE", "Lessons", "Taught", "learn", "sketch_axes"]

LEVEL_MEMORY = 0.96
"""Weight of the past in the usual value of a slot: the level follows a season, a week of faults does not move it."""

START_OVER = 15
"""Periods after which a sensor that is still wrong is taken for a new one: either it makes sense as such, or it is as
odd as a new sensor can be. What was learned of it before may be what is wrong."""

POOL_MEMORY = 0.97
FARTHEST = 6.0
"""Standard deviations of a sensor's own variation beyond which a day teaches no more."""

HINT = 0.5
"""How much of the ease after a wrong period a fiber gets that was just short of wrong: F1 on NOAA's mix 0.922 without,
0.928 with half, 0.916 with all of it."""

OVER_THE_FENCE = frozenset({"days", "mean", "residual", "flagged", "held", "held_level", "last", "age"})
"""What a neighbourhood reads of channels that another one judges, and has to read as it was in the morning."""

DOUBTFUL = 0.6
"""Score from which less is learned from a fiber: a fault missed on its first day must not teach how to hide."""


@dataclass(eq=False)
class Lessons:
    """What the neighbourhoods found for the parts of the memory that they share.

    `products` and `pairs` are (variable, slot, slot) until they are applied.
    """

    products: FloatArray
    pairs: FloatArray
    daily: FloatArray
    ripple: FloatArray
    beyond: FloatArray
    hidden: FloatArray
    ratios: list[list[FloatArray]]
    stay: FloatArray

    @classmethod
    def new(cls, model: Model) -> Lessons:
        """Return lessons of which none is learned yet."""
        variables, slots = model.variables, model.slots
        return cls(
            products=np.zeros((variables, slots, slots)),
            pairs=np.zeros((variables, slots, slots)),
            daily=np.zeros((variables, 2)),
            ripple=np.zeros((variables, 2)),
            beyond=np.zeros((variables, 2)),
            hidden=np.zeros(variables),
            ratios=[[] for _ in range(2 * variables)],
            stay=np.zeros(2),
        )

    def apply(self, model: Model) -> None:
        """Fold them into the model; a new period begins."""
        pools = model.pools
        pools.products += (POOL_MEMORY - 1) * pools.products + _by_lag(self.products)
        pools.pairs += (POOL_MEMORY - 1) * pools.pairs + _by_lag(self.pairs)
        pools.daily += (POOL_MEMORY - 1) * pools.daily + self.daily
        pools.ripple += (POOL_MEMORY - 1) * pools.ripple + self.ripple
        pools.stay += -0.01 * pools.stay + self.stay
        for which in np.flatnonzero(self.hidden > 20):
            if pools.calibrated[which] == 0:
                for kind in range(2):
                    found = np.concatenate(self.ratios[2 * which + kind])
                    pools.width[which, kind] = np.quantile(found, model.interval)
            else:
                step = max(0.3, 3 / (pools.calibrated[which] + 1))
                missed = self.beyond[which] / self.hidden[which]
                pools.width[which] *= np.exp(step * (missed - (1 - model.interval)))
            pools.calibrated[which] += 1
        channels = model.channels
        lost = np.flatnonzero(on_host((channels.held >= START_OVER) & (channels.days > 0)))
        if lost.size:
            channels.forget(as_like(lost, channels.held))
        pools.period += 1


def _by_lag(products: FloatArray) -> FloatArray:
    """Sum products of slots with slots, (variable, slot, slot), over all pairs that are as far apart."""
    slots = products.shape[1]
    lag = _lags(slots)
    return np.stack([np.bincount(lag, table.ravel(), slots + 1)[:slots] for table in products])


@lru_cache(maxsize=8)
def _lags(slots: int) -> IntArray:
    """Return how far apart the slots of each pair are; those the other way round are counted with none."""
    lag = np.arange(slots) - np.arange(slots)[:, None]
    return np.where(lag < 0, slots, lag).ravel()


@dataclass(frozen=True, eq=False)
class Taught:
    """What a period has for the channels that a stack judges, one row per fiber: settled, and what goes into memory.

    `channels` is the memory that is written to: what others read of a channel today stays as it was in the morning, so
    that no neighbourhood's turn depends on another's.
    """

    model: Model
    channels: Channels
    today: Today
    verdict: Verdict
    stack: Stack
    state: Settled
    tables: FloatArray
    lessons: Lessons

    @property
    def rows(self) -> IntArray:
        """The channels."""
        return self.stack.rows

    def flat(self, name: str) -> NDArray[Any]:
        """Return a part of what was settled."""
        return self.stack.flat(getattr(self.state, name))


def learn(period: Taught, axes: FloatArray) -> None:
    """Learn from a period of some neighbourhoods; only the channels that they judge change beyond their own moments.

    `axes` are today's for the sketches.
    """
    model, channels, stack, state, rows = period.model, period.channels, period.stack, period.state, period.rows
    born = state.newborns.born
    _calibrate(period)
    uncertainty = state.view.uncertainty()
    weight = np.where(state.known, np.minimum(1.0, (DOUBTFUL / np.maximum(state.score, 1e-9)) ** 2), 1.0)
    full = _completed(state, weight)
    _add_doubt(uncertainty, state, weight)
    moments = network.learn_moments(stack, model.channels, full, uncertainty, born, state.prior)
    network.refresh(stack, moments, state.known | born)

    known, flagged, shift = period.flat("known"), period.flat("flagged"), period.flat("shift")
    seen: BoolArray = np.asarray(period.today.count[rows] > 0)
    sound, fresh = known & seen & ~flagged, stack.flat(born)
    taken = known | fresh
    whole = stack.flat(full)
    days = channels.days[rows]
    rate = np.maximum(1 / (days + 1), 1 - LEVEL_MEMORY) * taken
    mean = channels.mean[rows] + shift[:, None]
    channels.former[rows] = np.where(shift != 0, -shift, channels.former[rows])
    value = period.flat("usual") + whole
    borrowed = _borrowed(model, stack)
    if borrowed.any():
        value -= borrowed[:, None] * period.flat("expected")
    channels.mean[rows] = np.where(taken[:, None], mean + rate[:, None] * (value - mean), mean)
    _learn_residuals(period, sound)
    asked = np.flatnonzero(known & seen & (days >= 2))
    if asked.size:
        mine = rows[asked]
        found = period.verdict.found[mine] - period.verdict.event[mine]
        # A feature that too few readings left open is taken to be as usual.
        found = np.where(np.isfinite(found), found, period.today.middle[mine])
        judge.learn_usual(channels, mine, found, ~flagged[asked])
    _learn_habits(period, sound, seen)
    _remember(period, sound | fresh)
    spread = np.sqrt(np.maximum(stack.flat(moments.diagonal(axis1=1, axis2=2)), 1e-24))[:, None]
    channels.sketch[rows] += -0.03 * channels.sketch[rows] + (whole / spread) @ axes
    channels.days[rows] += taken


def _completed(state: Settled, weight: FloatArray) -> FloatArray:
    """Return the deviations to learn from: doubtful readings lean on what the network says."""
    full = state.view.completed.copy()
    hood, row = np.nonzero(weight < 1)
    if hood.size:
        plain = state.view.expected[hood, row]
        leaning = plain + weight[hood, row, None] * (state.deviation[hood, row] - plain)
        full[hood, row] = np.where(state.trusted[hood, row], leaning, full[hood, row])
    # What nobody could judge must not blow up a sensor's variance and with it what is expected of it.
    bound = np.where(state.known, FARTHEST * np.sqrt(state.prior.diagonal(axis1=1, axis2=2)), np.inf)[:, :, None]
    np.minimum(full, bound, out=full)
    np.maximum(full, -bound, out=full)
    born = state.newborns.born
    if born.any():
        full[born] = np.where(state.observed[born], state.deviation[born], state.expected[born])
    return full


def _borrowed(model: Model, stack: Stack) -> FloatArray:
    """Return how far a channel that joined older ones lives in weather that its own mean does not know yet.

    What the others say is unusual about today must not go into its usual values.
    """
    days = model.channels.days[stack.members]
    joined = (days * stack.real).max(axis=1, keepdims=True) > days + 10
    return stack.flat(joined * np.clip(1 - days * (1 - LEVEL_MEMORY), 0.0, 1.0))


def _add_doubt(uncertainty: FloatArray, state: Settled, weight: FloatArray) -> None:
    """Make the uncertainty that of what `_completed` does not know."""
    born = state.newborns.born
    if born.any():
        uncertainty[born] = 0.0
        uncertainty.transpose(0, 2, 1)[born] = 0.0
    seen = state.trusted.mean(axis=2)
    square = state.size**2
    diagonal = uncertainty.reshape(len(uncertainty), -1)[:, :: uncertainty.shape[1] + 1]
    diagonal += np.where(born, (1 - seen) * square, (1 - weight) * seen * square * state.known)


def _learn_residuals(period: Taught, sound: BoolArray) -> None:
    """Learn how far each channel usually is from the network, and how that carries over in time."""
    channels, rows, lessons = period.channels, period.rows, period.lessons
    observed, known, residual = period.flat("observed"), period.flat("known"), period.flat("residual")
    trusted = period.flat("trusted") & known[:, None]
    usable = observed & (trusted | ~known[:, None])
    event = period.flat("event")
    square = np.einsum("fs,fs->f", residual**2, usable) / np.maximum(usable.sum(axis=1), 1)
    square /= np.exp(2 * event)
    before = channels.residual[rows]
    rate = np.maximum(1 / np.maximum(channels.days[rows], 1), 0.03)
    # A hundredth of a sensor's own variation is next to nothing: one that began alone must not stay there.
    nothing = 1e-4 * period.stack.flat(period.state.prior.diagonal(axis1=1, axis2=2))
    capped = np.minimum(square, np.where(before > 0, np.maximum(9 * before, nothing), np.inf))
    learned = np.where(sound, before + rate * (capped - before), before)
    born = period.stack.flat(period.state.newborns.born)
    after = np.where(born, period.flat("size") ** 2, learned)
    channels.residual[rows] = after
    count = trusted.sum(axis=1)
    sharp = np.einsum("fs,fs->f", period.flat("variance"), trusted) / np.maximum(count, 1)
    past = channels.sharpness[rows]
    moved = np.where(past == 0, sharp, past + 0.1 * (sharp - past))
    channels.sharpness[rows] = np.where(sound, moved, past)

    if period.model.pools.period > 1 and sound.any():
        unit = np.sqrt(np.maximum(after, 1e-24)) * np.exp(event)
        there = (trusted & sound[:, None]).astype(float)
        relative = residual * (there / unit[:, None])
        np.minimum(np.maximum(relative, -4, out=relative), 4, out=relative)
        variable, variables = period.today.variable[rows], period.model.variables
        for which in range(variables):
            mine = slice(None) if variables == 1 else variable == which
            lessons.products[which] += relative[mine].T @ relative[mine]
            lessons.pairs[which] += there[mine].T @ there[mine]
        cells = there.sum(axis=1)
        daily = np.where(cells > 0, relative.sum(axis=1) / np.maximum(cells, 1), np.nan)
        product = daily * channels.daily[rows]
        both = np.isfinite(product)
        lessons.daily[:, 0] += np.bincount(variable[both], product[both], variables)
        lessons.daily[:, 1] += np.bincount(variable[both], minlength=variables)
        channels.daily[rows] = daily
        plain = period.stack.flat(period.state.view.expected)
        bump = judge.bumps(plain) * there
        away = plain - period.flat("deviation")
        part, whole = (np.einsum("fs,fs->f", bump, other) / unit**2 for other in (away, bump))
        lessons.ripple[:, 0] += np.bincount(variable, part, variables)
        lessons.ripple[:, 1] += np.bincount(variable, whole, variables)


def _calibrate(period: Taught) -> None:
    """See how far the estimates of trusted readings are off that were hidden, one by one and as whole fibers."""
    model, lessons, rows, variables = period.model, period.lessons, period.rows, period.model.variables
    channels, residual, carried = model.channels, period.flat("residual"), period.state.carried
    hidden = period.flat("trusted")[carried.row, carried.slot]
    row, slot = carried.row[hidden], carried.slot[hidden]
    if row.size == 0:
        return
    variable = period.today.variable[rows]
    unit = (period.flat("size") * np.exp(period.flat("event")))[row]
    actual, whose = residual[row, slot], variable[row]
    lessons.hidden += np.bincount(whose, minlength=variables)
    past = timeline.carry_to(
        row, slot, residual, None, channels.last[rows], channels.age[rows], period.tables, variable
    )
    found = (carried.residual[hidden], carried.open[hidden]), (past.residual, past.open)
    for kind, (estimate, left) in enumerate(found):
        error = np.abs(actual - estimate) / (unit * np.sqrt(left) + 1e-300)
        lessons.beyond[:, kind] += np.bincount(whose, error > model.pools.width[whose, kind], variables)
        for which in np.flatnonzero(model.pools.calibrated == 0):
            lessons.ratios[2 * which + kind].append(error[whose == which])


def _learn_habits(period: Taught, sound: BoolArray, seen: BoolArray) -> None:
    """Learn how long a channel stands still, how fine it resolves, and since when it is wrong."""
    channels, rows, today, newborns = period.channels, period.rows, period.today, period.state.newborns
    known, score = period.flat("known"), period.flat("score")
    flat = period.stack.flat
    wrong = period.flat("flagged") & known
    before = channels.flagged[rows] == 1
    period.lessons.stay += [np.sum(before & wrong & (score > 1.3)), np.sum(before & seen & ~wrong)]
    run = channels.run[rows]
    channels.run[rows] = run + np.where(sound, 0.05 * (np.maximum(today.length[rows], 2) - run), 0.0)
    ordered = period.model.scales.forward(today.readings[rows], today.variable[rows])
    ordered.sort(axis=1)
    steps = ordered[:, 1:] - ordered[:, :-1]
    finest = np.where(steps > 1e-9, steps, np.inf).min(axis=1, initial=np.inf)
    step = channels.step[rows]
    channels.step[rows] = np.where(seen, np.minimum(step * 1.02, finest), step)
    level = period.flat("residual").sum(axis=1) / np.maximum(today.count[rows], 1)
    held, at = channels.held[rows], channels.held_level[rows]
    at = np.where(wrong, np.where(held > 0, at + 0.3 * (level - at), level), at)
    held = np.where(wrong, held + 1, np.where(seen, 0.0, held))
    new = ~known & seen
    channels.held[rows] = np.where(new, flat(newborns.streak * ~newborns.born), held)
    channels.held_level[rows] = np.where(new, flat(newborns.anchor), at)
    odd = new & (flat(newborns.oddness) > 1)
    hint = HINT * np.clip((score - 0.5) / 0.5, 0.0, 1.0)
    channels.flagged[rows] = np.where(seen, np.where(wrong | odd, 1.0, hint), channels.flagged[rows])
    channels.away[rows] = np.where(seen, 0.0, channels.away[rows] + 1)


def _remember(period: Taught, keep: BoolArray) -> None:
    """Keep the two newest trusted residuals of each channel."""
    channels, rows, slots = period.channels, period.rows, period.model.slots
    there = period.flat("trusted") & keep[:, None]
    slot = there * np.arange(1, slots + 1) - 1
    every = np.arange(rows.size)
    newest = slot.argmax(axis=1)
    one = there[every, newest]
    slot[every, newest] = -1
    second = slot.argmax(axis=1)
    two = one & (slot[every, second] >= 0)
    age, last = channels.age[rows] + slots, channels.last[rows]
    single = one & ~two
    age[single, 1], last[single, 1] = age[single, 0], last[single, 0]
    residual = period.flat("residual")
    age[one, 0], last[one, 0] = slots - newest[one], residual[every[one], newest[one]]
    age[two, 1], last[two, 1] = slots - second[two], residual[every[two], second[two]]
    age[age > timeline.AGE_LIMIT * slots] = np.inf
    channels.age[rows], channels.last[rows] = age, last


def sketch_axes(model: Model) -> FloatArray:
    """Return the random axes of a period, (slot, axis), on which channels are compared."""
    return np.random.default_rng([model.seed, model.pools.period]).normal(size=(model.slots, SKETCH))
