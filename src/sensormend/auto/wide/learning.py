"""What a period teaches some parts, and what they have to say for the parts of the memory that all share."""

from __future__ import annotations

import numpy as np

from sensormend.arrays import Array, namespace, on_host
from sensormend.auto import judge, timeline
from sensormend.auto.learning import DOUBTFUL, FARTHEST, HINT, LEVEL_MEMORY, Lessons
from sensormend.auto.memory import Channels, Model
from sensormend.auto.network import HASTE, KIN_DAYS, MEMORY
from sensormend.auto.wide.company import Company
from sensormend.auto.wide.kin import FLATTEST
from sensormend.auto.wide.parts import PATTERNS, Parts
from sensormend.auto.wide.settled import Settled
from sensormend.auto.wide.sight import Sight, forward
from sensormend.auto.wide.tools import alike, constant, counted, diagonal, ordered, pick, single, where_true
from sensormend.auto.wide.verdict import Verdict

__all__ = ["learn", "turn"]

TURNS = 4
"""Periods in which every part's dictionary is turned once, after the first ones, and in which the resolution of its
channels is looked at: they follow what moves slowly."""


class _Core:
    """The fibers that these parts judge, (part, row), and the memory that they write to."""

    def __init__(self, model: Model, after: Channels, sight: Sight) -> None:
        self.before, self.after, self.core = model.channels, after, sight.core
        self.mine = sight.mine[:, : sight.core]
        self.members = sight.members[:, : sight.core]
        self.rows = self.members[self.mine]

    def old(self, name: str) -> Array:
        """Return what was remembered of them this morning."""
        return pick(getattr(self.before, name), self.members)

    def write(self, name: str, values: Array) -> None:
        """Remember this of them from now on."""
        array = getattr(self.after, name)
        array[self.rows] = alike(values[self.mine], array)

    def of(self, array: Array) -> Array:
        """Return their part of (part, member, ...)."""
        return array[:, : self.core]


def learn(
    model: Model,
    parts: Parts,
    which: slice,
    after: Channels,
    sight: Sight,
    company: Company,
    verdict: Verdict,
    state: Settled,
    lessons: Lessons,
    axes: Array,
) -> None:
    """Learn from a period of some parts; of the channels only those that they judge change."""
    xp = sight.xp
    core = _Core(model, after, sight)
    _calibrate(model, sight, state, lessons)
    weight = xp.where(sight.known, xp.clip((DOUBTFUL / xp.clip(state.score, 1e-9, None)) ** 2, None, 1.0), 1.0)
    full = _completed(sight, company, state, weight)
    moments = _learn_moments(parts, which, sight, company, state, full, weight)
    turn(model, parts, which, moments)

    known, flagged, shift = core.of(sight.known), core.of(state.flagged), core.of(state.shift)
    seen = core.of(sight.count) > 0
    sound, fresh = known & seen & ~flagged, core.of(state.born)
    taken = known | fresh
    days, whole = core.of(sight.days), core.of(full)
    rate = xp.maximum(1 / (days + 1), xp.full_like(days, 1 - LEVEL_MEMORY)) * taken
    mean = core.old("mean") + shift[..., None]
    core.write("former", xp.where(shift != 0, -shift, core.old("former")))
    value = core.of(state.usual) + whole
    value -= _borrowed(sight, core)[..., None] * core.of(state.expected)
    # Nothing at all may be expected of one that nobody was seen with yet.
    core.write("mean", xp.where(taken[..., None], mean + rate[..., None] * (value - mean), mean))
    _learn_residuals(model, sight, verdict, state, core, sound, lessons)
    rests = core.of(verdict.within & (sight.length >= sight.count))
    _learn_usual(sight, verdict, core, known & seen & (days >= 2) & ~rests, ~flagged)
    _learn_habits(model, sight, state, core, sound, seen, lessons)
    _remember(model, state, core, sound | fresh)
    spread = xp.sqrt(xp.clip(core.of(diagonal(moments)), FLATTEST, None))
    core.write("sketch", 0.97 * core.old("sketch") + (whole * (taken / spread)[..., None]) @ axes)
    core.write("days", days + taken)


def _completed(sight: Sight, company: Company, state: Settled, weight: Array) -> Array:
    """Return the deviations to learn from: doubtful readings lean on what the network says."""
    xp = sight.xp
    full = xp.asarray(state.view.completed, copy=True)
    part, row = xp.nonzero(weight < 1)
    if part.shape[0]:
        plain = state.view.expected[part, row]
        leaning = plain + weight[part, row][:, None] * (state.deviation[part, row] - plain)
        full[part, row] = xp.where(state.trusted[part, row], leaning, full[part, row])
    bound = xp.where(sight.known, FARTHEST * company.spread, 1e30)[..., None]
    full = xp.maximum(xp.minimum(full, bound), -bound)
    part, row = xp.nonzero(state.born)
    if part.shape[0]:
        there = sight.observed[part, row]
        full[part, row] = xp.where(there, state.deviation[part, row], state.expected[part, row])
    return full


def _learn_moments(
    parts: Parts, which: slice, sight: Sight, company: Company, state: Settled, full: Array, weight: Array
) -> Array:
    """Fold the completed deviations and what is not known of them into the second moments; see `network`."""
    xp, slots = sight.xp, full.shape[-1]
    days = sight.days * sight.real
    before = parts.moments[which]
    born = state.born
    if bool(xp.any(born)):
        joined = born & xp.any(sight.known, axis=1, keepdims=True)
        here = where_true(xp.any(joined, axis=1))
        if here.shape[0]:
            new = joined[here]
            before[here] = xp.where(new[:, :, None] | new[:, None, :], company.covariance[here], before[here])
    base = xp.maximum(1 / (xp.max(days, axis=1) + 1), xp.full_like(days[:, 0], 1 - MEMORY))[:, None]
    rate = xp.minimum(xp.maximum(1 / (days + KIN_DAYS), base), xp.clip(HASTE * base, None, 1.0))
    rate *= sight.known | born
    past, present = xp.sqrt(1 - rate), xp.sqrt(rate)
    full = full * (present / slots**0.5)[..., None]
    today = full @ full.mT
    diagonal(today)[:] += present**2 * _doubt(sight, state, weight)
    before *= past[:, :, None]
    before *= past[:, None, :]
    before += today
    return before


def _doubt(sight: Sight, state: Settled, weight: Array) -> Array:
    """Return the mean variance of what `_completed` does not know, (part, member)."""
    xp, view = sight.xp, state.view
    seen = counted(state.trusted) / state.trusted.shape[-1]
    square = state.size**2
    # What gaps have in common is left out; each for itself is what the inverse says.
    own = xp.where(view.absent, state.open, (1 - seen) / (diagonal(view.precision) + view.absent))
    doubted = own * sight.known + (1 - weight) * seen * square * sight.known
    return xp.where(state.born, (1 - seen) * square, doubted)


def turn(model: Model, parts: Parts, which: slice, moments: Array) -> None:
    """Turn the dictionaries towards the strongest patterns: one step of subspace iteration, some parts at a time."""
    xp, period = namespace(moments), model.pools.period
    first = which.start or 0
    count = moments.shape[0]
    number = first + xp.arange(count, device=moments.device)
    dictionary = parts.dictionary[which]
    blank = ~xp.any((dictionary != 0).reshape(count, -1), axis=1)
    chosen = where_true(blank | (number % TURNS == period % TURNS) | (period < 2 * TURNS))
    if chosen.shape[0] == 0:
        return
    own = moments[chosen]
    unit = 1 / xp.sqrt(xp.clip(diagonal(own), 1e-24, None))
    unit = unit * (diagonal(own) > 0)
    own = own * unit[:, :, None]
    own *= unit[:, None, :]
    start = constant("patterns", np.random.default_rng(0).normal(size=(own.shape[1], PATTERNS)), own)
    basis = dictionary[chosen]
    empty = blank[chosen]
    if bool(xp.any(empty)):
        basis = xp.where(empty[:, None, None], start, basis)
        for _ in range(3):
            basis = _orthonormal(own @ basis)
    basis = _orthonormal(own @ basis + 1e-4 * basis)
    inner = basis.mT @ (own @ basis)
    _, turn = xp.linalg.eigh((inner + inner.mT) / 2)
    dictionary[chosen] = basis @ xp.flip(turn, axis=-1)


def _orthonormal(columns: Array) -> Array:
    """Return an orthonormal basis of the columns, the first ones' directions kept; 0 where they have none."""
    xp = namespace(columns)
    columns = columns / xp.clip(xp.sqrt(xp.sum(columns * columns, axis=1, keepdims=True)), 1e-30, None)
    for _ in range(2):
        inner = columns.mT @ columns
        diagonal(inner)[:] += 1e-6
        factor = xp.linalg.cholesky(inner)
        columns = xp.linalg.solve(factor, columns.mT).mT
    return columns


def _borrowed(sight: Sight, core: _Core) -> Array:
    """Return how far a channel that joined older ones lives in weather that its own mean does not know yet."""
    xp, days = sight.xp, sight.days
    joined = xp.max(days * sight.real, axis=1, keepdims=True) > days + 10
    return core.of(joined * xp.clip(1 - days * (1 - LEVEL_MEMORY), 0.0, 1.0))


def _learn_residuals(
    model: Model, sight: Sight, verdict: Verdict, state: Settled, core: _Core, sound: Array, lessons: Lessons
) -> None:
    """Learn how far each channel usually is from the network, and how that carries over in time."""
    xp, days = sight.xp, core.of(sight.days)
    known, residual, event = core.of(sight.known), core.of(state.residual), core.of(state.event)
    trusted = core.of(state.trusted) & known[..., None]
    usable = core.of(sight.observed) & (trusted | ~known[..., None])
    inside = residual * usable
    many = xp.clip(counted(usable), 1.0, None)
    square = xp.einsum("hms,hms->hm", inside, inside) / many / xp.exp(2 * event)
    before = core.old("residual")
    rate = xp.clip(1 / xp.clip(days, 1.0, None), 0.03, None)
    nothing = 1e-4 * core.of(sight.variance)
    capped = xp.minimum(square, xp.where(before > 0, xp.maximum(9 * before, nothing), xp.inf))
    learned = xp.where(sound, before + rate * (capped - before), before)
    after = xp.where(core.of(state.born), core.of(state.size) ** 2, learned)
    core.write("residual", after)
    there = alike(trusted, residual)
    cells = counted(there)
    sharp = counted(there / core.of(state.view.sharpness)) / xp.clip(cells, 1.0, None)
    past = core.old("sharpness")
    moved = xp.where(past == 0, sharp, past + 0.1 * (sharp - past))
    core.write("sharpness", xp.where(sound, moved, past))
    if model.pools.period <= 1:
        return
    unit = xp.sqrt(xp.clip(after, 1e-24, None)) * xp.exp(event)
    there *= (sound & core.mine)[..., None]
    relative = xp.clip(residual * there / unit[..., None], -4.0, 4.0)
    cells = counted(there)
    daily = xp.where(cells > 0, counted(relative) / xp.clip(cells, 1.0, None), xp.nan)
    product = daily * core.old("daily")
    both = xp.isfinite(product)
    product = xp.where(both, product, 0.0)
    core.write("daily", daily)
    plain = core.of(state.view.expected)
    bump = (plain @ constant("bumps", judge.bumps(np.eye(model.slots)), plain)) * there
    away = plain - core.of(state.deviation)
    part = xp.einsum("hms,hms->hm", bump, away) / unit**2
    whole = xp.einsum("hms,hms->hm", bump, bump) / unit**2
    slots = residual.shape[-1]
    for kind in range(model.variables):
        mine = core.mine if sight.variable is None else core.mine & (core.of(sight.variable) == kind)
        if sight.variable is None:
            flat, cell = relative.reshape(-1, slots), there.reshape(-1, slots)
        else:
            flat, cell = relative[mine], there[mine]
        lessons.products[kind] += on_host(flat.mT @ flat)
        lessons.pairs[kind] += on_host(cell.mT @ cell)
        sums = xp.stack([xp.sum(values * mine) for values in (product, single(both), part, whole)])
        found = on_host(sums)
        lessons.daily[kind] += found[:2]
        lessons.ripple[kind] += found[2:]


def _calibrate(model: Model, sight: Sight, state: Settled, lessons: Lessons) -> None:
    """See how far the estimates of trusted readings are off that were hidden, one by one and as whole fibers."""
    cells, variables = state.cells, model.variables
    at = cells.part[cells.hidden], cells.row[cells.hidden], cells.slot[cells.hidden]
    if at[0].shape[0] == 0:
        return
    xp = sight.xp
    unit = (state.size * xp.exp(state.event))[at[:2]]
    actual = state.residual[at]
    whose = np.zeros(at[0].shape[0], dtype=np.intp) if sight.variable is None else on_host(sight.variable[at[:2]])
    lessons.hidden += np.bincount(whose, minlength=variables)
    for kind, found in enumerate((cells.carried, cells.past)):
        estimate, left = found.residual[cells.hidden], found.open[cells.hidden]
        error = on_host(xp.abs(actual - estimate) / (unit * xp.sqrt(left) + 1e-30))
        lessons.beyond[:, kind] += np.bincount(whose, error > model.pools.width[whose, kind], variables)
        for which in np.flatnonzero(model.pools.calibrated == 0):
            lessons.ratios[2 * which + kind].append(error[whose == which])


def _learn_usual(sight: Sight, verdict: Verdict, core: _Core, asked: Array, sound: Array) -> None:
    """Move the running quantiles towards what the fibers showed; see `judge.learn_usual`."""
    xp = sight.xp
    found = core.of(verdict.found) - core.of(verdict.event)
    found = xp.where(xp.isfinite(found), found, core.of(sight.middle))
    seen, median, high = core.old("judged"), core.old("median"), core.old("high")
    asked = asked & (sound | (seen > 0))
    new = (seen == 0)[..., None]
    narrow, wide = (constant(f"spread {i}", judge.SPREAD[i], median) for i in range(2))
    width = xp.minimum(xp.maximum(high - median, narrow), wide)
    step = xp.where(sound, xp.clip(1 / (seen + 1), 0.025, None), 0.025)[..., None] * width
    moved = median + (3.0 * (found > median) - 1.5) * step
    raised = (single(found > high) - 0.1) * 3.5 * step
    raised *= xp.where(sound, 1.0, judge.WRONG_DAYS)[..., None]
    middle = xp.where(new, found, moved)
    top = xp.maximum(xp.where(new, found + 0.5, high + raised), middle + 0.1)
    change = asked[..., None]
    core.write("median", xp.where(change, middle, median))
    core.write("high", xp.where(change, top, high))
    core.write("judged", seen + (asked & sound))


def _learn_habits(
    model: Model, sight: Sight, state: Settled, core: _Core, sound: Array, seen: Array, lessons: Lessons
) -> None:
    """Learn how long a channel stands still, how fine it resolves, and since when it is wrong."""
    xp = sight.xp
    known, score, length = core.of(sight.known), core.of(state.score), core.of(sight.length)
    wrong = core.of(state.flagged) & known
    doubt = core.of(sight.doubt)
    before = (doubt == 1) & core.mine
    stays = xp.stack([xp.sum(before & wrong & (score > 1.3)), xp.sum(before & seen & ~wrong)])
    lessons.stay += on_host(stays)
    run = core.old("run")
    core.write("run", run + 0.05 * sound * (xp.clip(length, 2.0, None) - run))
    if model.pools.period < TURNS or model.pools.period % TURNS == 0:
        _learn_step(sight, core, seen)
    level = counted(core.of(state.residual)) / xp.clip(core.of(sight.count), 1.0, None)
    held, at = core.old("held"), core.old("held_level")
    at = xp.where(wrong, xp.where(held > 0, at + 0.3 * (level - at), level), at)
    held = xp.where(wrong, held + 1, xp.where(seen, 0.0, held))
    new = ~known & seen
    core.write("held", xp.where(new, core.of(state.streak * ~state.born), held))
    core.write("held_level", xp.where(new, core.of(state.anchor), at))
    odd = new & (core.of(state.oddness) > 1)
    hint = HINT * xp.clip((score - 0.5) / 0.5, 0.0, 1.0)
    core.write("flagged", xp.where(seen, xp.where(wrong | odd, 1.0, hint), doubt))
    core.write("away", xp.where(seen, 0.0, core.old("away") + 1))


def _learn_step(sight: Sight, core: _Core, seen: Array) -> None:
    """Learn how fine a channel resolves; that hardly changes, and is looked at now and then."""
    xp = sight.xp
    if sight.raw.shape[-1] < 2:
        return
    variable = None if sight.variable is None else core.of(sight.variable)
    values = ordered(forward(core.of(sight.raw), sight.common, variable))
    apart = values[..., 1:] - values[..., :-1]
    finest = xp.min(xp.where(apart > 1e-6, apart, xp.inf), axis=-1)
    step = core.old("step")
    core.write("step", xp.where(seen, xp.minimum(step * 1.02**TURNS, finest), step))


def _remember(model: Model, state: Settled, core: _Core, keep: Array) -> None:
    """Keep the two newest trusted residuals of each channel."""
    xp, slots = namespace(keep), model.slots
    there = core.of(state.trusted) & keep[..., None]
    place = xp.arange(slots, device=keep.device)
    ranked = xp.where(there, place, -1)
    newest = xp.max(ranked, axis=-1)
    second = xp.max(xp.where(ranked == newest[..., None], -1, ranked), axis=-1)
    one, two = newest >= 0, second >= 0
    residual = core.of(state.residual)
    last = [
        xp.take_along_axis(residual, xp.clip(which, 0, None)[..., None], axis=-1)[..., 0] for which in (newest, second)
    ]
    age, old = core.old("age") + slots, core.old("last")
    first_age, first = xp.where(one, single(slots - newest), age[..., 0]), xp.where(one, last[0], old[..., 0])
    second_age = xp.where(two, single(slots - second), xp.where(one, age[..., 0], age[..., 1]))
    second_last = xp.where(two, last[1], xp.where(one, old[..., 0], old[..., 1]))
    age = xp.stack([first_age, second_age], axis=-1)
    core.write("age", xp.where(age > timeline.AGE_LIMIT * slots, xp.inf, age))
    core.write("last", xp.stack([first, second_last], axis=-1))
