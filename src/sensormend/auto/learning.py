"""What a period teaches: the neighbourhood and its channels first, what all channels share at the end."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sensormend.arrays import as_like, on_host
from sensormend.auto import judge, network, timeline
from sensormend.auto.judging import Today, Verdict
from sensormend.auto.memory import SKETCH, Model
from sensormend.auto.neighbourhoods import IntArray
from sensormend.auto.settled import Settled
from sensormend.recovery import BoolArray, FloatArray

__all__ = ["Lessons", "Taught", "learn", "sketch_axes"]

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

DOUBTFUL = 0.6
"""Score from which less is learned from a fiber: a fault missed on its first day must not teach how to hide."""


@dataclass(eq=False)
class Lessons:
    """What was found for the parts of the memory that all channels share.

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
    """A period that is settled, and where what it teaches goes."""

    model: Model
    today: Today
    verdict: Verdict
    state: Settled
    tables: FloatArray
    lessons: Lessons


def learn(period: Taught, axes: FloatArray) -> None:
    """Learn from a period; `axes` are today's for the sketches."""
    model, today, state = period.model, period.today, period.state
    channels, hood, born = model.channels, model.hood, state.newborns.born
    assert hood is not None
    _calibrate(period)
    uncertainty = state.view.uncertainty()[0]
    weight = np.where(state.known, np.minimum(1.0, (DOUBTFUL / np.maximum(state.score, 1e-9)) ** 2), 1.0)
    full = _completed(state, weight)
    _add_doubt(uncertainty, state, weight)
    days = channels.days
    network.learn_moments(hood, days, full, uncertainty, born, state.prior)
    taken = state.known | born
    network.refresh(hood, taken)

    seen: BoolArray = np.asarray(today.count > 0)
    sound = state.known & seen & ~state.flagged
    rate = np.maximum(1 / (days + 1), 1 - LEVEL_MEMORY) * taken
    mean = channels.mean + state.shift[:, None]
    channels.former[:] = np.where(state.shift != 0, -state.shift, channels.former)
    value = state.usual + full
    borrowed = _borrowed(days)
    if borrowed.any():
        value -= borrowed[:, None] * state.expected
    channels.mean[:] = np.where(taken[:, None], mean + rate[:, None] * (value - mean), mean)
    _learn_residuals(period, sound)
    # A sensor at rest says nothing of how far it is off at other times.
    rests = period.verdict.within & (today.length >= today.count)
    asked = np.flatnonzero(state.known & seen & (days >= 2) & ~rests)
    if asked.size:
        found = period.verdict.found[asked] - period.verdict.event[asked]
        # A feature that too few readings left open is taken to be as usual.
        found = np.where(np.isfinite(found), found, today.middle[asked])
        judge.learn_usual(channels, asked, found, ~state.flagged[asked])
    _learn_habits(period, sound, seen)
    _remember(period, sound | born)
    spread = np.sqrt(np.maximum(hood.moments.diagonal(), 1e-24))[:, None]
    channels.sketch += -0.03 * channels.sketch + (full / spread) @ axes
    channels.days += taken


def _completed(state: Settled, weight: FloatArray) -> FloatArray:
    """Return the deviations to learn from: doubtful readings lean on what the network says."""
    full: FloatArray = state.view.completed[0].copy()
    row = np.flatnonzero(weight < 1)
    if row.size:
        plain = state.view.expected[0, row]
        leaning = plain + weight[row, None] * (state.deviation[row] - plain)
        full[row] = np.where(state.trusted[row], leaning, full[row])
    # What nobody could judge must not blow up a sensor's variance and with it what is expected of it.
    bound = np.where(state.known, FARTHEST * np.sqrt(state.prior.diagonal()), np.inf)[:, None]
    np.minimum(full, bound, out=full)
    np.maximum(full, -bound, out=full)
    born = state.newborns.born
    if born.any():
        full[born] = np.where(state.observed[born], state.deviation[born], state.expected[born])
    return full


def _borrowed(days: FloatArray) -> FloatArray:
    """Return how far a channel that joined older ones lives in weather that its own mean does not know yet.

    What the others say is unusual about today must not go into its usual values.
    """
    joined: BoolArray = np.asarray(days.max() > days + 10)
    return np.asarray(np.where(joined, np.clip(1 - days * (1 - LEVEL_MEMORY), 0.0, 1.0), 0.0), dtype=float)


def _add_doubt(uncertainty: FloatArray, state: Settled, weight: FloatArray) -> None:
    """Make the uncertainty that of what `_completed` does not know."""
    born = state.newborns.born
    if born.any():
        uncertainty[born] = 0.0
        uncertainty[:, born] = 0.0
    seen = state.trusted.mean(axis=1)
    square = state.size**2
    diagonal = uncertainty.reshape(-1)[:: len(uncertainty) + 1]
    diagonal += np.where(born, (1 - seen) * square, (1 - weight) * seen * square * state.known)


def _learn_residuals(period: Taught, sound: BoolArray) -> None:
    """Learn how far each channel usually is from the network, and how that carries over in time."""
    model, today, state, lessons = period.model, period.today, period.state, period.lessons
    channels, known, residual = model.channels, state.known[:, None], state.residual
    trusted = state.trusted & known
    usable = state.observed & (trusted | ~known)
    square = np.einsum("fs,fs->f", residual**2, usable) / np.maximum(usable.sum(axis=1), 1)
    square /= np.exp(2 * state.event)
    before = channels.residual
    rate = np.maximum(1 / np.maximum(channels.days, 1), 0.03)
    # A hundredth of a sensor's own variation is next to nothing: one that began alone must not stay there.
    nothing = 1e-4 * state.prior.diagonal()
    capped = np.minimum(square, np.where(before > 0, np.maximum(9 * before, nothing), np.inf))
    learned = np.where(sound, before + rate * (capped - before), before)
    after = np.where(state.newborns.born, state.size**2, learned)
    channels.residual[:] = after
    count = trusted.sum(axis=1)
    sharp = np.einsum("fs,fs->f", state.variance, trusted) / np.maximum(count, 1)
    past = channels.sharpness
    moved = np.where(past == 0, sharp, past + 0.1 * (sharp - past))
    channels.sharpness[:] = np.where(sound, moved, past)

    if model.pools.period > 1 and sound.any():
        unit = np.sqrt(np.maximum(after, 1e-24)) * np.exp(state.event)
        there = (trusted & sound[:, None]).astype(float)
        relative = residual * (there / unit[:, None])
        np.minimum(np.maximum(relative, -4, out=relative), 4, out=relative)
        variable, variables = today.variable, model.variables
        for which in range(variables):
            mine = slice(None) if variables == 1 else variable == which
            lessons.products[which] += relative[mine].T @ relative[mine]
            lessons.pairs[which] += there[mine].T @ there[mine]
        cells = there.sum(axis=1)
        daily = np.where(cells > 0, relative.sum(axis=1) / np.maximum(cells, 1), np.nan)
        product = daily * channels.daily
        both = np.isfinite(product)
        lessons.daily[:, 0] += np.bincount(variable[both], product[both], variables)
        lessons.daily[:, 1] += np.bincount(variable[both], minlength=variables)
        channels.daily[:] = daily
        plain = state.view.expected[0]
        bump = judge.bumps(plain) * there
        away = plain - state.deviation
        part, whole = (np.einsum("fs,fs->f", bump, other) / unit**2 for other in (away, bump))
        lessons.ripple[:, 0] += np.bincount(variable, part, variables)
        lessons.ripple[:, 1] += np.bincount(variable, whole, variables)


def _calibrate(period: Taught) -> None:
    """See how far the estimates of trusted readings are off that were hidden, one by one and as whole fibers."""
    model, state, lessons, variables = period.model, period.state, period.lessons, period.model.variables
    channels, carried, variable = model.channels, state.carried, period.today.variable
    hidden = state.trusted[carried.row, carried.slot]
    row, slot = carried.row[hidden], carried.slot[hidden]
    if row.size == 0:
        return
    unit = (state.size * np.exp(state.event))[row]
    actual, whose = state.residual[row, slot], variable[row]
    lessons.hidden += np.bincount(whose, minlength=variables)
    past = timeline.carry_to(row, slot, state.residual, None, channels.last, channels.age, period.tables, variable)
    found = (carried.residual[hidden], carried.open[hidden]), (past.residual, past.open)
    for kind, (estimate, left) in enumerate(found):
        error = np.abs(actual - estimate) / (unit * np.sqrt(left) + 1e-300)
        lessons.beyond[:, kind] += np.bincount(whose, error > model.pools.width[whose, kind], variables)
        for which in np.flatnonzero(model.pools.calibrated == 0):
            lessons.ratios[2 * which + kind].append(error[whose == which])


def _learn_habits(period: Taught, sound: BoolArray, seen: BoolArray) -> None:
    """Learn how long a channel stands still, how fine it resolves, and since when it is wrong."""
    channels, today, state = period.model.channels, period.today, period.state
    known, score, newborns = state.known, state.score, state.newborns
    wrong = state.flagged & known
    before = channels.flagged == 1
    period.lessons.stay += [np.sum(before & wrong & (score > 1.3)), np.sum(before & seen & ~wrong)]
    channels.run += np.where(sound, 0.05 * (np.maximum(today.length, 2) - channels.run), 0.0)
    ordered = period.model.scales.forward(today.readings, today.variable)
    ordered.sort(axis=1)
    steps = ordered[:, 1:] - ordered[:, :-1]
    finest = np.where(steps > 1e-9, steps, np.inf).min(axis=1, initial=np.inf)
    channels.step[:] = np.where(seen, np.minimum(channels.step * 1.02, finest), channels.step)
    level = state.residual.sum(axis=1) / np.maximum(today.count, 1)
    held, at = channels.held, channels.held_level
    at = np.where(wrong, np.where(held > 0, at + 0.3 * (level - at), level), at)
    held = np.where(wrong, held + 1, np.where(seen, 0.0, held))
    new = ~known & seen
    channels.held[:] = np.where(new, newborns.streak * ~newborns.born, held)
    channels.held_level[:] = np.where(new, newborns.anchor, at)
    odd = new & (newborns.oddness > 1)
    hint = HINT * np.clip((score - 0.5) / 0.5, 0.0, 1.0)
    channels.flagged[:] = np.where(seen, np.where(wrong | odd, 1.0, hint), channels.flagged)
    channels.away[:] = np.where(seen, 0.0, channels.away + 1)


def _remember(period: Taught, keep: BoolArray) -> None:
    """Keep the two newest trusted residuals of each channel."""
    channels, slots, residual = period.model.channels, period.model.slots, period.state.residual
    there = period.state.trusted & keep[:, None]
    slot = there * np.arange(1, slots + 1) - 1
    every = np.arange(len(slot))
    newest = slot.argmax(axis=1)
    one = there[every, newest]
    slot[every, newest] = -1
    second = slot.argmax(axis=1)
    two = one & (slot[every, second] >= 0)
    age, last = channels.age, channels.last
    age += slots
    single = one & ~two
    age[single, 1], last[single, 1] = age[single, 0], last[single, 0]
    age[one, 0], last[one, 0] = slots - newest[one], residual[every[one], newest[one]]
    age[two, 1], last[two, 1] = slots - second[two], residual[every[two], second[two]]
    age[age > timeline.AGE_LIMIT * slots] = np.inf


def sketch_axes(model: Model) -> FloatArray:
    """Return the random axes of a period, (slot, axis), on which channels are compared."""
    return np.random.default_rng([model.seed, model.pools.period]).normal(size=(model.slots, SKETCH))
