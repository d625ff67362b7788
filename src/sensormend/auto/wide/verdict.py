"""Who is wrong today, part by part: the worst are set aside until the rest agrees; see `judging`.

A part judges all of its members for itself, those of its neighbours too, so that nothing has to be known of another
part while a period goes through.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sensormend.arrays import Array, namespace
from sensormend.auto import judge
from sensormend.auto.copies import copied, tell_apart
from sensormend.auto.judging import COMPANY, ROUNDS, UNRELATED, WARM
from sensormend.auto.memory import Model
from sensormend.auto.vouching import BESIDE, VOUCHERS
from sensormend.auto.wide.company import Company, View, look, meet, set_aside
from sensormend.auto.wide.kin import Kin, relate
from sensormend.auto.wide.parts import Parts
from sensormend.auto.wide.sight import HUGE, Sight, features
from sensormend.auto.wide.tools import (
    alike,
    constant,
    counted,
    largest,
    masked_median,
    ordered,
    pick,
    single,
    where_true,
)

__all__ = ["Verdict", "judge_parts", "others", "past", "scores", "smoothed"]


MOST = 1.4
"""How unusual a day can be at most, as the logarithm of how much larger residuals are."""

AT_ONCE = 3
"""Members of a part that are set aside one by one; for more of them it is looked at anew."""


@dataclass(eq=False)
class Verdict:
    """Who is flagged in each part, and what that rests on; (part, member, ...). See `judging.Verdict`."""

    flagged: Array
    judged: Array
    related: Array
    score: Array
    found: Array
    event: Array
    excess: Array
    stuck: Array
    within: Array
    view: View
    rounds: int


def judge_parts(model: Model, parts: Parts, which: slice, sight: Sight) -> tuple[Company, Verdict]:
    """Flag fibers until nobody else is past the threshold; whoever is no longer past it comes back once."""
    xp = sight.xp
    seen = (sight.count > 0) & sight.known
    judged = seen & (others(model, sight, seen) >= COMPANY)
    residual = sight.of("residual", model.channels)
    skill = 1 - residual / xp.clip(sight.variance, 1e-30, None)
    related = (skill >= UNRELATED) | (sight.days < WARM)
    bar = xp.where(judged, xp.where(sight.days < WARM, 2.0, 1.0), xp.inf)
    kin = relate(model, parts, which, sight.real, sight.days)
    copies = copied(sight.raw, sight.observed & sight.known[..., None], sight.deviation + sight.usual)
    if copies is not None:
        tell_apart(kin.covariance, copies)
    flagged = _screen(model, sight, kin, seen)
    company = meet(kin, ~seen | flagged)
    returned = xp.zeros_like(flagged)
    still = _Still(model, sight)
    verdict = _first(sight, company, flagged, judged, related, still, bar)
    while verdict.rounds < ROUNDS:
        verdict.rounds += 1
        over = ~verdict.flagged & (verdict.score > bar)
        calm = ~xp.any(over, axis=1, keepdims=True)
        worst = xp.max(verdict.score * over, axis=1, keepdims=True)
        changed = over & (verdict.score >= xp.sqrt(worst))
        # Nobody speaks for those whom the others cannot judge: what was far from everyone stays aside.
        back = calm & verdict.flagged & judged & (verdict.score <= bar) & ~returned
        returned |= back
        verdict.flagged ^= changed | back
        stale = where_true(xp.any(changed | back, axis=1))
        if stale.shape[0] == 0:
            break
        again = where_true(xp.any(back & company.absent, axis=1))
        if again.shape[0]:
            company.readmit(~seen | verdict.flagged, again)
        # Where nobody else may be left in a slot, it has to be led across.
        bare = counted(verdict.flagged) >= sight.fewest
        anew = xp.any(back, axis=1) | (counted(changed) > AT_ONCE) | bare
        _look_again(sight, company, verdict, where_true(anew), changed & ~anew[:, None])
        # Who alone is wrong, and far beyond all others, has nothing to do with how these look.
        alone = ~anew & (counted(changed) == 1) & ~xp.any((verdict.score > 0.5 * bar) & ~verdict.flagged, axis=1)
        stale = stale[~alone[stale]]
        if stale.shape[0]:
            _again(sight, company, verdict, stale, still, bar)
    verdict.event = _events_of_all(sight, company, verdict.found, verdict.view.absent)
    verdict.excess = scores(sight, verdict.found, verdict.event)
    verdict.score = _excused(xp.maximum(largest(verdict.excess), verdict.stuck), verdict.within) * judged
    return company, verdict


def others(model: Model, sight: Sight, present: Array) -> Array:
    """Return for every member how many other sensors of its part are present."""
    xp = sight.xp
    if model.variables == 1:
        return counted(present)[:, None] - single(present)
    sensor = sight.members // model.variables
    same = single((sensor[:, :, None] == sensor[:, None, :]) & present[:, None, :])
    mates = xp.sum(same, axis=2)
    distinct = xp.sum(present / xp.clip(mates, 1.0, None), axis=1, keepdims=True)
    return xp.asarray(xp.round(distinct - single(mates > 0)), dtype=xp.int64)


def smoothed(expected: Array, share: Array) -> Array:
    """Take away a share of what differs from the mean of the two neighbouring slots; see `judge.smoothed`."""
    xp = namespace(expected)
    if share.ndim == 0:
        slots = expected.shape[-1]
        bumps = constant("bumps", judge.bumps(np.eye(slots)), expected)
        return expected @ (constant("slots", np.eye(slots), expected) - share * bumps)
    before = xp.concat([expected[..., :1], expected[..., :-1]], axis=-1)
    before += xp.concat([expected[..., 1:], expected[..., -1:]], axis=-1)
    before *= 0.5
    before -= expected
    before *= share
    before += expected
    return before


def scores(sight: Sight, found: Array, event: Array | float, which: Array | None = None) -> Array:
    """Return how far each feature is past its threshold; 1 is at it. Few readings make a wider one."""
    count, middle, limit = sight.count, sight.middle, sight.limit
    if which is not None:
        count, middle, limit = (pick(array, which) for array in (count, middle, limit))
    return past(found, event, count, middle, limit)


def past(found: Array, event: Array | float, count: Array, middle: Array, limit: Array) -> Array:
    """Return how far log features are past their thresholds; 1 is at it."""
    xp = namespace(found)
    few = 0.5 * xp.log1p(3 / xp.clip(count, 1.0, None))
    over = found - middle - event - few[..., None] - limit
    return xp.exp(xp.where(xp.isfinite(over), xp.clip(over, None, 20.0), -20.0))


def _screen(model: Model, sight: Sight, kin: Kin, seen: Array) -> Array:
    """Set aside what is far from everyone before anyone is predicted from it; it may come back later.

    Each variable has its own weather, and those who measure one may be few in a part.
    """
    xp = sight.xp
    spread = xp.sqrt(xp.clip(sight.variance, 1e-24, None))
    scaled = sight.deviation / spread[..., None]
    kinds = [seen]
    if sight.variable is not None:
        kinds = [seen & (sight.variable == kind) for kind in range(model.variables)]
    distance = sum((_far(sight, scaled, some) for some in kinds), start=xp.zeros_like(spread))
    flagged = distance > 0
    part, row = xp.nonzero(flagged)
    if part.shape[0]:
        sensor = sight.members // model.variables
        asked = seen[part] & (sensor[part] != sensor[part, row][:, None])
        near = kin.closest(part, row, asked)
        here, place = part[:, None], xp.clip(near, 0, None)
        side = xp.sign(kin.covariance[here, row[:, None], place])[..., None]
        apart = xp.abs(scaled[part, row][:, None] - side * scaled[here, place])
        both = sight.observed[part, row][:, None] & sight.observed[here, place]
        beside = (near >= 0) & (masked_median(apart, both) < BESIDE * distance[part, row][:, None])
        flagged[part, row] = counted(beside) < VOUCHERS
    return flagged


def _far(sight: Sight, scaled: Array, seen: Array) -> Array:
    """Return how far from all others those are who are far from them; 0 for the others."""
    xp = sight.xp
    there = sight.observed & seen[..., None]
    across = masked_median(scaled.mT, there.mT)
    typical = masked_median(xp.abs(scaled - xp.where(xp.isfinite(across), across, 0.0)[:, None, :]), there)
    typical = xp.where(seen, typical, 0.0)
    many = xp.sum(seen, axis=1, dtype=xp.int64)
    lying = ordered(xp.where(seen, typical, HUGE))
    place = 0.3 * single(xp.clip(many - 1, 0, None))
    low = xp.asarray(place, dtype=xp.int64)[:, None]
    high = xp.minimum(low + 1, xp.clip(many - 1, 0, None)[:, None])
    below, above = xp.take_along_axis(lying, low, axis=1), xp.take_along_axis(lying, high, axis=1)
    usual = xp.where((many > 0)[:, None], below + (place[:, None] - single(low)) * (above - below), 0.0)
    far = seen & (typical > 6 * usual) & (typical > 1.5)
    allowed = (many >= 4) & (single(xp.sum(far, axis=1, dtype=xp.int64)) <= 0.6 * single(many))
    return xp.where(far & allowed[:, None], typical, 0.0)


class _Still:
    """Fibers that stand still for long, and between which slots: few do."""

    def __init__(self, model: Model, sight: Sight) -> None:
        xp, slots, still = sight.xp, sight.raw.shape[-1], sight.still
        known = sight.known.reshape(-1)[still.fiber]
        self.fiber, first, last = still.fiber[known], still.first[known], still.last[known]
        self.size = int(self.fiber.shape[0])
        self._shape = sight.length.shape
        there = sight.observed.reshape(-1, slots)[self.fiber]
        slot = xp.arange(slots, device=there.device)
        self._inside = single(there & (slot >= first[:, None]) & (slot <= last[:, None]))
        self._usual = sight.usual.reshape(-1, slots)[self.fiber]
        run = sight.of("run", model.channels).reshape(-1)[self.fiber]
        floor, middle = sight.floor.reshape(-1)[self.fiber], sight.middle[..., 0].reshape(-1)[self.fiber]
        size = xp.maximum(xp.exp(middle), 2 * floor)
        weight = single(sight.length.reshape(-1)[self.fiber]) / (4 * xp.clip(run, 1.0, None)) / judge.STUCK
        self._weight = weight / xp.clip(size, 1e-30, None)

    def scores(self, view: View, share: Array) -> Array:
        """Score how the network moved meanwhile, by what the parts expect, (part, member)."""
        xp, slots = namespace(view.expected), view.expected.shape[-1]
        found = xp.zeros(self._shape, dtype=view.expected.dtype, device=view.expected.device)
        if self.size:
            own = share if share.ndim == 0 else share.reshape(-1, 1)[self.fiber]
            course = smoothed(view.expected.reshape(-1, slots)[self.fiber], own) + self._usual
            count = xp.clip(xp.sum(self._inside, axis=1), 1.0, None)
            mean = xp.sum(course * self._inside, axis=1) / count
            moved = xp.sum((course - mean[:, None]) ** 2 * self._inside, axis=1) / count
            found.reshape(-1)[self.fiber] = xp.sqrt(moved) * self._weight
        return found


def _first(
    sight: Sight, company: Company, flagged: Array, judged: Array, related: Array, still: _Still, bar: Array
) -> Verdict:
    xp = sight.xp
    trusted = sight.observed & (sight.known & ~flagged)[..., None]
    view = look(company, None, sight.deviation, trusted)
    expected = smoothed(view.expected, sight.ripple)
    residual = sight.deviation - expected
    residual *= sight.observed
    found = sight.features(residual)
    within = _within(residual, sight.step, sight.count)
    stuck = _excused(still.scores(view, sight.ripple), within)
    excess = scores(sight, found, 0.0)
    score = _excused(xp.maximum(largest(excess), stuck), within)
    verdict = Verdict(flagged, judged, related, score, found, xp.zeros_like(found), excess, stuck, within, view, 0)
    _excuse(sight, company, verdict, bar, None)
    return verdict


def _within(residual: Array, step: Array, count: Array) -> Array:
    """Say which fibers differ from what is expected by their sensor's step at most; see `judge.within_steps`."""
    beyond = namespace(residual).abs(residual) > (judge.ROUNDING * step)[..., None]
    return (step > 0) & (8 * counted(beyond) <= count)


def _excused(score: Array, within: Array) -> Array:
    """Keep the scores of fibers that differ by their own step at most well below the threshold."""
    xp = namespace(score)
    return xp.where(within, xp.clip(score, None, judge.EXCUSED), score)


def _look_again(sight: Sight, company: Company, verdict: Verdict, anew: Array, changed: Array) -> None:
    """See what is expected now: in some parts from the beginning, in others without those who were flagged."""
    xp = sight.xp
    if anew.shape[0]:
        there = pick(sight.known & ~verdict.flagged, anew)
        trusted = pick(sight.observed, anew) & there[..., None]
        verdict.view.put(anew, look(company, anew, pick(sight.deviation, anew), trusted))
    part, row = xp.nonzero(changed)
    while part.shape[0]:
        first = xp.concat([part[:1] >= 0, part[1:] != part[:-1]])
        set_aside(company, verdict.view, part[first], row[first])
        part, row = part[~first], row[~first]


def _again(sight: Sight, company: Company, verdict: Verdict, which: Array, still: _Still, bar: Array) -> None:
    """Score these parts once more, given who is flagged now."""
    xp = sight.xp
    share = sight.ripple if sight.variable is None else pick(sight.ripple, which)
    residual = pick(sight.deviation, which) - smoothed(pick(verdict.view.expected, which), share)
    residual *= pick(sight.observed, which)
    found = sight.features(residual, which)
    verdict.found[which] = found
    within = _within(residual, pick(sight.step, which), pick(sight.count, which))
    verdict.within[which] = within
    if still.size:
        # Of fibers in other parts nothing has changed, and few are asked at all.
        verdict.stuck = _excused(still.scores(verdict.view, sight.ripple), verdict.within)
    excess = scores(sight, found, 0.0, which)
    verdict.score[which] = _excused(xp.maximum(largest(excess), pick(verdict.stuck, which)), within)
    _excuse(sight, company, verdict, bar, which)


def _excuse(sight: Sight, company: Company, verdict: Verdict, bar: Array, which: Array | None) -> None:
    """Ask the relatives of those who are past the bar, or flagged, whether this is a day for large residuals."""
    xp, width = sight.xp, sight.members.shape[1]
    score, flagged = verdict.score, verdict.flagged
    if which is not None:
        score, flagged, bar = (pick(array, which) for array in (score, flagged, bar))
    # No day is so unusual that it excuses more than that.
    open_ = score < 1.01 * np.exp(MOST) * bar
    asked = where_true((open_ & ((score > bar) | flagged) & xp.isfinite(bar)).reshape(-1))
    if asked.shape[0] == 0:
        return
    part, row = asked // width, asked % width
    home = part if which is None else which[part]
    event = _events(sight, company, verdict.view, home, row)
    count, middle, limit = (array[home, row] for array in (sight.count, sight.middle, sight.limit))
    excess = past(verdict.found[home, row], event, count, middle, limit)
    score = xp.maximum(largest(excess), verdict.stuck[home, row])
    verdict.score[home, row] = _excused(score, verdict.within[home, row])


def _events(sight: Sight, company: Company, view: View, part: Array, row: Array) -> Array:
    """Return how unusual the residuals of some members' closest relatives are today, without the member itself.

    A log factor of 0 or more per feature, as `judge.events` has it.
    """
    xp = sight.xp
    near = company.near[part, row]
    valid, near, here = near >= 0, xp.clip(near, 0, None), part[:, None]
    own = view.precision[part, row, row]
    sharp = view.precision[here, near, near]
    valid = valid & sight.active[here, near] & (sharp > 0)
    own, sharp = xp.clip(own, 1e-30, None), xp.clip(sharp, 1e-30, None)
    link = view.precision[here, row[:, None], near]
    bound = link / own[:, None]
    left = view.pull[here, near]
    left -= bound[..., None] * view.pull[part, row][:, None, :]
    left /= xp.maximum(sharp - link * bound, 1e-6 * sharp)[..., None]
    values = view.completed[here, near]
    share = sight.ripple if sight.variable is None else sight.ripple[here, near]
    residual = values - smoothed(values - left, share)
    residual *= sight.observed[here, near]
    floor, count, pairs = (array[here, near] for array in (sight.floor, sight.count, sight.pairs))
    found = features(residual, sight.gone[here, near], sight.gone_steps[here, near], count, pairs, floor)
    return _agreed(found - sight.middle[here, near], valid)


def _events_of_all(sight: Sight, company: Company, found: Array, absent: Array) -> Array:
    """Return the same of everyone, now that it is settled who is flagged: their relatives' own features will do."""
    xp = sight.xp
    over = found - sight.middle
    good = (sight.active & ~absent)[..., None] & xp.isfinite(over)
    over = xp.where(good, xp.clip(over, -1.0, MOST), 0.0)
    # Who is whose relative as a matrix, since products are the fastest sums.
    kin = xp.zeros_like(company.precision)
    part, row, _ = xp.nonzero(company.near >= 0)
    kin[part, row, company.near[company.near >= 0]] = 1.0
    heard = kin @ alike(good, kin)
    mean = (kin @ over) / xp.clip(heard, 1.0, None)
    return xp.where(heard >= 2, xp.clip(mean, 0.0, None), 0.0)


def _agreed(over: Array, valid: Array) -> Array:
    xp = namespace(over)
    good = valid[..., None] & xp.isfinite(over)
    over = xp.where(good, xp.clip(over, -1.0, MOST), 0.0)
    heard = xp.sum(good, axis=-2, dtype=xp.int64)
    mean = xp.sum(over, axis=-2) / xp.clip(single(heard), 1.0, None)
    return xp.where(heard >= 2, xp.clip(mean, 0.0, None), 0.0)
