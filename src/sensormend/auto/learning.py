"""What a period teaches: each neighbourhood its own part, the shared parts once at the end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sensormend.auto import judge, network, timeline
from sensormend.auto.judging import Today, Verdict
from sensormend.auto.memory import SKETCH, Hood, Model
from sensormend.auto.settling import Settled
from sensormend.recovery import BoolArray, FloatArray

__all__ = ["Lessons", "learn"]

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
    """What the neighbourhoods found for the parts of the memory that they share."""

    taken: BoolArray
    products: FloatArray
    pairs: FloatArray
    daily: FloatArray
    ripple: FloatArray
    beyond: FloatArray
    hidden: FloatArray
    ratios: list[list[FloatArray]]
    stay: FloatArray
    axes: FloatArray

    @classmethod
    def new(cls, model: Model) -> Lessons:
        """Return lessons of which none is learned yet."""
        variables, slots = model.variables, model.slots
        return cls(
            taken=np.zeros(model.channels.days.size, dtype=bool),
            products=np.zeros((variables, slots)),
            pairs=np.zeros((variables, slots)),
            daily=np.zeros((variables, 2)),
            ripple=np.zeros((variables, 2)),
            beyond=np.zeros((variables, 2)),
            hidden=np.zeros(variables),
            ratios=[[] for _ in range(2 * variables)],
            stay=np.zeros(2),
            axes=np.random.default_rng([model.seed, model.pools.period]).normal(size=(slots, SKETCH)),
        )

    def apply(self, model: Model) -> None:
        """Fold them into the model; a new period begins."""
        pools = model.pools
        pools.products += (POOL_MEMORY - 1) * pools.products + self.products
        pools.pairs += (POOL_MEMORY - 1) * pools.pairs + self.pairs
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
        model.channels.days += self.taken
        lost = np.flatnonzero((model.channels.held >= START_OVER) & (model.channels.days > 0))
        if lost.size:
            model.channels.forget(lost)
        pools.period += 1


def learn(
    model: Model,
    hood: Hood,
    readings: FloatArray,
    today: Today,
    verdict: Verdict,
    state: Settled,
    tables: FloatArray,
    lessons: Lessons,
) -> None:
    """Learn from a neighbourhood's period; only the channels that it judges change beyond its own moments."""
    channels, core, n = model.channels, hood.members[: hood.core], hood.core
    born = state.newborns.born
    if model.pools.period and model.pools.pairs.any():
        _calibrate(model, hood, state, tables, lessons)
    weight = np.where(state.known, np.minimum(1.0, (DOUBTFUL / np.maximum(state.score, 1e-9)) ** 2), 1.0)
    full = _completed(state, weight)
    uncertainty = _uncertainty(model, hood, state, weight)
    network.learn_moments(hood, channels, full, uncertainty, born, state.prior)
    network.refresh(hood, channels, born)

    seen: BoolArray = np.asarray(state.observed[:n].any(axis=1))
    sound = state.known[:n] & seen & ~state.flagged[:n]
    taken = state.known[:n] | born[:n]
    rate = np.maximum(1 / (channels.days[core] + 1), 1 - LEVEL_MEMORY)[:, None]
    channels.mean[core] += state.shift[:n, None]
    channels.former[core] = np.where(state.shift[:n] != 0, -state.shift[:n], channels.former[core])
    value = state.usual[:n] + full[:n] - _borrowed(model, hood)[:, None] * state.expected[:n]
    channels.mean[core] += np.where(taken[:, None], rate * (value - channels.mean[core]), 0.0)
    _learn_residuals(model, hood, state, sound, lessons)
    rows = np.flatnonzero(state.known[:n] & seen & (channels.days[core] >= 2))
    if rows.size:
        found = verdict.found[core[rows]] - verdict.event[core[rows]]
        # A feature that too few readings left open is taken to be as usual.
        found = np.where(np.isfinite(found), found, today.middle[core[rows]])
        judge.learn_usual(channels, core[rows], found, ~state.flagged[:n][rows])
    before = channels.flagged[core] == 1
    wrong = state.flagged[:n] & state.known[:n]
    lessons.stay += [np.sum(before & wrong & (state.score[:n] > 1.3)), np.sum(before & seen & ~wrong)]
    _learn_habits(model, hood, readings, verdict, state, sound, seen)
    _remember(model, hood, state, sound | born[:n])
    spread = np.sqrt(np.maximum(hood.moments.diagonal()[:n], 1e-24))[:, None]
    channels.sketch[core] += -0.03 * channels.sketch[core] + (full[:n] / spread) @ lessons.axes
    lessons.taken[core] = taken


def _completed(state: Settled, weight: FloatArray) -> FloatArray:
    """Return the deviations to learn from: doubtful readings lean on what the network says."""
    leaning = state.view.expected + weight[:, None] * (state.deviation - state.view.expected)
    full = np.where(state.trusted & state.known[:, None], leaning, state.view.completed)
    # What nobody could judge must not blow up a sensor's variance and with it what is expected of it.
    bound = np.where(state.known, FARTHEST * np.sqrt(state.prior.diagonal()), np.inf)[:, None]
    full = np.clip(full, -bound, bound)
    born = state.newborns.born
    if born.any():
        full[born] = np.where(state.observed[born], state.deviation[born], state.expected[born])
    return full


def _borrowed(model: Model, hood: Hood) -> FloatArray:
    """Return how far a channel that joined older ones lives in weather that its own mean does not know yet.

    What the others say is unusual about today must not go into its usual values.
    """
    days = model.channels.days[hood.members]
    joined = days.max() > days[: hood.core] + 10
    return np.where(joined, np.clip(1 - days[: hood.core] * (1 - LEVEL_MEMORY), 0.0, 1.0), 0.0)


def _uncertainty(model: Model, hood: Hood, state: Settled, weight: FloatArray) -> FloatArray:
    """Return the covariance of what `_completed` does not know."""
    uncertainty = state.view.uncertainty.copy()
    born = state.newborns.born
    uncertainty[born] = 0.0
    uncertainty[:, born] = 0.0
    seen = state.trusted.mean(axis=1)
    residual = model.channels.residual[hood.members]
    open_share = np.where(born, (1 - seen) * state.size**2, (1 - weight) * seen * residual * state.known)
    return np.asarray(uncertainty + np.diag(open_share))


def _learn_residuals(model: Model, hood: Hood, state: Settled, sound: BoolArray, lessons: Lessons) -> None:
    """Learn how far each channel usually is from the network, and how that carries over in time."""
    channels, core, n = model.channels, hood.members[: hood.core], hood.core
    count = state.observed[:n].sum(axis=1)
    usable = state.observed[:n] & (state.trusted[:n] | ~state.known[:n, None])
    square = np.where(usable, state.residual[:n] ** 2, 0.0).sum(axis=1) / np.maximum(usable.sum(axis=1), 1)
    square /= np.exp(2 * state.event[:n])
    rate = np.maximum(1 / np.maximum(channels.days[core], 1), 0.03)
    capped = np.minimum(square, np.where(channels.residual[core] > 0, 9 * channels.residual[core], np.inf))
    born = state.newborns.born[:n]
    learned = np.where(
        sound, channels.residual[core] + rate * (capped - channels.residual[core]), channels.residual[core]
    )
    channels.residual[core] = np.where(born, state.size[:n] ** 2, learned)
    trusted = state.trusted[:n] & state.known[:n, None]
    sharp = np.where(trusted, state.view.variance[:n], 0.0).sum(axis=1) / np.maximum(trusted.sum(axis=1), 1)
    fresh = channels.sharpness[core] == 0
    moved = np.where(fresh, sharp, channels.sharpness[core] + 0.1 * (sharp - channels.sharpness[core]))
    channels.sharpness[core] = np.where(sound & (count > 0), moved, channels.sharpness[core])

    if model.pools.period > 1 and sound.any():
        unit = np.sqrt(np.maximum(channels.residual[core], 1e-24)) * np.exp(state.event[:n])
        there = trusted & sound[:, None]
        relative = np.where(there, np.clip(state.residual[:n] / unit[:, None], -4, 4), 0.0)
        variable = model.variable[core]
        slots = model.slots
        for which in range(model.variables):
            rows = variable == which
            products = relative[rows].T @ relative[rows]
            pairs = there[rows].T.astype(float) @ there[rows]
            for lag in range(slots):
                lessons.products[which, lag] += np.trace(products, offset=lag)
                lessons.pairs[which, lag] += np.trace(pairs, offset=lag)
        daily = np.where(there.any(axis=1), relative.sum(axis=1) / np.maximum(there.sum(axis=1), 1), np.nan)
        both = np.isfinite(daily) & np.isfinite(channels.daily[core])
        np.add.at(lessons.daily[:, 0], variable[both], (daily * channels.daily[core])[both])
        np.add.at(lessons.daily[:, 1], variable[both], 1.0)
        channels.daily[core] = daily
        bump = state.view.expected[:n] - judge.smoothed(state.view.expected[:n], np.ones((n, 1)))
        plain = state.deviation[:n] - state.view.expected[:n]
        part = np.where(there, -plain * bump, 0.0).sum(axis=1) / unit**2
        whole = np.where(there, bump**2, 0.0).sum(axis=1) / unit**2
        np.add.at(lessons.ripple[:, 0], variable, part)
        np.add.at(lessons.ripple[:, 1], variable, whole)


def _calibrate(model: Model, hood: Hood, state: Settled, tables: FloatArray, lessons: Lessons) -> None:
    """Hide trusted readings, one by one and whole fibers, and see how far the estimates are off."""
    channels, core, n = model.channels, hood.members[: hood.core], hood.core
    cells = state.trusted[:n] & (state.known[:n] & (channels.days[core] > 3))[:, None]
    if len(model.hoods) > 4:
        # A fifth of the cells of a large network is plenty.
        place = np.arange(n)[:, None] * 7 + np.arange(model.slots) + model.pools.period
        cells &= place % 5 == 0
    variable = model.variable[core]
    unit = (state.size[:n] * np.exp(state.event[:n]))[:, None]
    for which in range(model.variables):
        rows = np.flatnonzero(variable == which)
        mine = cells[rows]
        if not mine.any():
            continue
        residual, trusted = state.residual[rows], state.trusted[rows]
        last, age = channels.last[core[rows]], channels.age[core[rows]]
        lessons.hidden[which] += mine.sum()
        for kind, given in enumerate((trusted, np.zeros_like(trusted))):
            carried = timeline.carry(residual, given, last, age, tables[which], mine)
            error = np.abs(residual - carried.residual) / (unit[rows] * np.sqrt(carried.open) + 1e-300)
            lessons.beyond[which, kind] += np.sum(error[mine] > model.pools.width[which, kind])
            if model.pools.calibrated[which] == 0:
                lessons.ratios[2 * which + kind].append(error[mine])


def _learn_habits(
    model: Model,
    hood: Hood,
    readings: FloatArray,
    verdict: Verdict,
    state: Settled,
    sound: BoolArray,
    seen: BoolArray,
) -> None:
    """Learn how long a channel stands still, how fine it resolves, and since when it is wrong."""
    channels, core, n = model.channels, hood.members[: hood.core], hood.core
    length = np.maximum(verdict.length[core], 2)
    channels.run[core] += np.where(sound, 0.05 * (length - channels.run[core]), 0.0)
    ordered = np.sort(model.scales.forward(readings[core], model.variable[core]), axis=1)
    steps = np.diff(ordered, axis=1)
    finest = np.where(steps > 1e-9, steps, np.inf).min(axis=1, initial=np.inf)
    channels.step[core] = np.where(seen, np.minimum(channels.step[core] * 1.02, finest), channels.step[core])
    wrong = state.flagged[:n] & state.known[:n]
    level = state.residual[:n].sum(axis=1) / np.maximum(state.observed[:n].sum(axis=1), 1)
    held = channels.held[core]
    moved = np.where(held > 0, channels.held_level[core] + 0.3 * (level - channels.held_level[core]), level)
    channels.held_level[core] = np.where(wrong, moved, channels.held_level[core])
    channels.held[core] = np.where(wrong, held + 1, np.where(seen, 0.0, held))
    new = ~state.known[:n] & seen
    channels.held[core] = np.where(new, state.newborns.streak[:n] * ~state.newborns.born[:n], channels.held[core])
    channels.held_level[core] = np.where(new, state.newborns.anchor[:n], channels.held_level[core])
    odd = new & (state.newborns.oddness[:n] > 1)
    hint = HINT * np.clip((state.score[:n] - 0.5) / 0.5, 0.0, 1.0)
    channels.flagged[core] = np.where(seen, np.where(wrong | odd, 1.0, hint), channels.flagged[core])
    channels.away[core] = np.where(seen, 0.0, channels.away[core] + 1)


def _remember(model: Model, hood: Hood, state: Settled, keep: BoolArray) -> None:
    """Keep the two newest trusted residuals of each channel."""
    channels, core, n = model.channels, hood.members[: hood.core], hood.core
    slots = model.slots
    there = state.trusted[:n] & keep[:, None]
    slot = np.where(there, np.arange(slots), -1)
    newest = slot.max(axis=1)
    second = np.where(slot == newest[:, None], -1, slot).max(axis=1)
    age, last = channels.age[core] + slots, channels.last[core]
    rows = np.arange(n)
    one, two = newest >= 0, second >= 0
    age = np.where((one & ~two)[:, None], np.stack([age[:, 0], age[:, 0]], axis=1), age)
    last = np.where((one & ~two)[:, None], np.stack([last[:, 0], last[:, 0]], axis=1), last)
    age[one, 0], last[one, 0] = slots - newest[one], state.residual[rows[one], newest[one]]
    age[two, 1], last[two, 1] = slots - second[two], state.residual[rows[two], second[two]]
    age[age > timeline.AGE_LIMIT * slots] = np.inf
    channels.age[core], channels.last[core] = age, last
