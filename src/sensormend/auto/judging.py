"""Who is wrong today: fibers are set aside, the worst first, until the rest agrees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sensormend.auto import judge
from sensormend.auto.conditioning import Conditioned
from sensormend.auto.looks import Look, touched
from sensormend.auto.memory import Model
from sensormend.auto.neighbourhoods import IntArray
from sensormend.auto.stack import Stack
from sensormend.recovery import BoolArray, FloatArray

__all__ = ["COMPANY", "WARM", "Today", "Verdict", "judge_period", "others", "related"]

WARM = 5
"""Periods a channel is learned before it is judged."""

UNRELATED = 0.2
"""Share of a channel's variance that the others must explain before they may judge it."""

COMPANY = 2
"""Other sensors with readings that it takes to judge one; its own other variables share its fate and its weather."""

EASE = 0.7
"""How much lower the limits are for a sensor that was wrong the period before, if wrong fibers always came in runs."""

ROUNDS = 12

BLOCK = 4096
"""Fibers that are looked at in one go where nothing else bounds the memory that takes."""


@dataclass(eq=False)
class Today:
    """One period as the model sees it: deviations from the usual on the variables' scales, and the yardsticks.

    Deviations are kept in single precision: for a large network they are one more array of the size of its readings.
    """

    readings: FloatArray
    observed: BoolArray
    deviation: NDArray[np.float32]
    variable: IntArray
    known: BoolArray
    floor: FloatArray
    middle: FloatArray
    limit: FloatArray
    ripple: FloatArray
    count: IntArray
    length: IntArray
    still: BoolArray

    @classmethod
    def of(cls, model: Model, readings: FloatArray) -> Today:
        """Look at readings (channel, slot) with a model's eyes."""
        channels, variable = model.channels, model.variable
        observed = np.isfinite(readings)
        known = channels.days > 0
        deviation = np.empty(readings.shape, dtype=np.float32)
        length, still = np.empty(known.size, dtype=np.intp), np.empty(readings.shape, dtype=bool)
        for start in range(0, known.size, BLOCK):
            rows = slice(start, start + BLOCK)
            scaled = model.scales.forward(readings[rows], variable[rows])
            scaled -= model.usual_values(rows) * known[rows, None]
            deviation[rows] = np.where(observed[rows], scaled, 0.0)
            length[rows], still[rows] = judge.longest_run(readings[rows], observed[rows])
        spread = np.zeros(known.size)
        for hood in model.hoods:
            spread[hood.members[: hood.core]] = hood.moments.diagonal()[: hood.core]
        spread = np.sqrt(np.maximum(spread, 0.0))
        step = np.where(np.isfinite(channels.step), channels.step, 0.0)
        widths = model.pooled(channels.high - channels.median, np.full(channels.high.shape, 0.5))
        widths = np.minimum(np.maximum(widths, judge.SPREAD[0]), judge.SPREAD[1])
        stay = model.pools.stay[0] / model.pools.stay.sum()
        return cls(
            readings=readings,
            observed=observed,
            deviation=deviation,
            variable=variable,
            known=known,
            # A hundredth of a sensor's own variation is nothing that its neighbours could vouch for.
            floor=np.maximum(0.5 * step, 0.01 * spread),
            middle=judge.usual(channels, model.pooled(channels.median), model.own_guess()),
            limit=judge.limits(channels, widths, EASE * stay * channels.flagged),
            ripple=model.ripple(),
            count=np.asarray(observed.sum(axis=1)),
            length=length,
            still=still,
        )

    def deviations(self, rows: NDArray[np.intp]) -> FloatArray:
        """Return how far these channels' readings are from their usual values, 0 where there is none.

        A channel without usual values yet has its readings on the variable's scale instead.
        """
        return self.deviation[rows].astype(float)

    def judged_readings(self, stack: Stack) -> BoolArray:
        """Say where members that are known have readings, (neighbourhood, member, slot)."""
        return np.asarray(self.observed[stack.members] & (self.known[stack.members] & stack.real)[:, :, None])


@dataclass(eq=False)
class Verdict:
    """Who is flagged and what that rests on, per channel."""

    flagged: BoolArray
    score: FloatArray
    found: FloatArray
    event: FloatArray
    excess: FloatArray
    stuck: FloatArray
    rounds: int = 0

    @classmethod
    def open(cls, count: int) -> Verdict:
        """Return that nothing is known against anyone."""
        return cls(
            flagged=np.zeros(count, dtype=bool),
            score=np.zeros(count),
            found=np.full((count, 3), np.nan),
            event=np.zeros((count, 3)),
            excess=np.zeros((count, 3)),
            stuck=np.zeros(count),
        )


def judge_period(model: Model, today: Today, looks: list[Look]) -> Verdict:
    """Flag fibers until nobody else is past the threshold; whoever is no longer past it comes back once."""
    verdict = Verdict.open(today.known.size)
    judged = _judgeable(model, [look.stack for look in looks], today)
    if not judged.any():
        return verdict
    for look in looks:
        _screen(look.stack, today, verdict)
    bar = np.where(model.channels.days < WARM, 2.0, 1.0)
    bar[~judged] = np.inf
    returned = np.zeros(judged.size, dtype=bool)
    stale: list[tuple[Look, IntArray | None]] = [(look, None) for look in looks]
    while stale:
        for look, which in stale:
            _assess(model, look, which, today, verdict, bar)
        if verdict.rounds == ROUNDS:
            break
        verdict.rounds += 1
        over = ~verdict.flagged & (verdict.score > bar)
        if over.any():
            # The worst first: what they did to their neighbours goes with them.
            changed = over & (verdict.score >= np.sqrt(_worst(looks, verdict.score, over)))
            verdict.flagged |= changed
        else:
            # Nobody speaks for those whom the others cannot judge: what was far from everyone stays aside.
            changed = verdict.flagged & judged & (verdict.score <= bar) & ~returned
            returned |= changed
            verdict.flagged &= ~changed
        stale = [(look, which) for look in looks if (which := touched(look, changed)) is None or which.size]
    for look in looks:
        _conclude(model, look, today, verdict)
    verdict.score[~judged] = 0.0
    return verdict


def _judgeable(model: Model, stacks: list[Stack], today: Today) -> BoolArray:
    """Say whose fibers are compared with the others': those that have readings and company.

    Those who turn out to be unrelated are not called faulty, but what is unusual even for them is not learned.
    """
    judgeable = np.zeros(today.known.size, dtype=bool)
    seen = (today.count > 0) & today.known
    for stack in stacks:
        company = seen[stack.members] & stack.real
        judgeable[stack.rows] = stack.flat(company & (others(model, stack, company) >= COMPANY))
    return judgeable


def others(model: Model, stack: Stack, present: BoolArray) -> NDArray[np.intp]:
    """Return for every member how many other sensors of its neighbourhood are present."""
    if model.variables == 1:
        return np.asarray(present.sum(axis=1, keepdims=True) - present)
    sensor, count = stack.members // model.variables, np.zeros(present.shape, dtype=np.intp)
    for row, whose, there in zip(count, sensor, present, strict=True):
        seen = np.unique(whose[there])
        row[:] = seen.size - np.isin(whose, seen)
    return count


def related(model: Model, stack: Stack) -> BoolArray:
    """Say of which members the others explain enough to judge them; the young have the benefit of the doubt."""
    variance = np.ones(stack.members.shape)
    for row, hood in zip(variance, stack.hoods, strict=True):
        row[: hood.members.size] = hood.moments.diagonal()
    skill = 1 - model.channels.residual[stack.members] / np.maximum(variance, 1e-300)
    return np.asarray((skill >= UNRELATED) | (model.channels.days[stack.members] < WARM))


def _worst(looks: list[Look], score: FloatArray, over: BoolArray) -> FloatArray:
    """Return for every candidate the worst score among the candidates of its neighbourhood."""
    worst = np.ones_like(score)
    candidates = np.where(over, score, 0.0)
    for stack in [look.stack for look in looks]:
        most = (candidates[stack.members] * stack.real).max(axis=1)
        worst[stack.rows] = np.repeat(np.where(most > 0, most, 1.0), stack.mine.sum(axis=1))
    return worst


def _screen(stack: Stack, today: Today, verdict: Verdict) -> None:
    """Set aside what is far from everyone before anyone is predicted from it; it may come back later."""
    core = stack.members[:, : stack.core]
    there = today.observed[core] & (today.known[core] & stack.mine)[:, :, None]
    rows = there.any(axis=2)
    spread = np.ones(core.shape)
    for row, hood in zip(spread, stack.hoods, strict=True):
        row[: hood.core] = np.sqrt(np.maximum(hood.moments.diagonal()[: hood.core], 1e-24))
    scaled = np.where(there, today.deviations(core) / spread[:, :, None], np.nan)
    middle = _quantile(np.sort(scaled.transpose(0, 2, 1), axis=2), there.sum(axis=1), 0.5)
    scaled -= middle[:, None, :]
    np.abs(scaled, out=scaled)
    scaled.sort(axis=2)
    typical = _quantile(scaled, there.sum(axis=2), 0.5)
    count = rows.sum(axis=1)
    # Not the median: on a bad day half of the fibers may be wrong.
    low = _quantile(np.sort(np.where(rows, typical, np.nan), axis=1), count, 0.3)
    far = rows & (typical > 6 * low[:, None]) & (typical > 1.5)
    far &= ((count >= 4) & (far.sum(axis=1) <= 0.6 * count))[:, None]
    verdict.flagged[core[far]] = True


def _quantile(ordered: FloatArray, count: NDArray[np.intp], share: float) -> FloatArray:
    """Return a quantile of the first `count` numbers along the last axis, which are in order; 0 where there is none."""
    last = np.maximum(count, 1) - 1
    place = share * last
    low = place.astype(np.intp)
    flat, start = ordered.reshape(-1), np.arange(0, ordered.size, ordered.shape[-1]).reshape(count.shape)
    below, above = flat[start + low], flat[start + np.minimum(low + 1, last)]
    return np.where(count > 0, below + (place - low) * (above - below), 0.0)


def _assess(model: Model, look: Look, which: IntArray | None, today: Today, verdict: Verdict, bar: FloatArray) -> None:
    """Score the fibers of some neighbourhoods, given who is flagged so far.

    An event only ever excuses a fiber. So where the neighbourhoods' views are kept, whoever is not flagged and below
    the bar without asking for events is left at that, until all is over.
    """
    stack = look.part(which)
    members, rows = stack.members, stack.rows
    there = today.judged_readings(stack)
    flagged = verdict.flagged[members]
    trusted = there & ~flagged[:, :, None]
    deviation = today.deviations(members)
    view = look.view(which, deviation, trusted)
    expected = judge.smoothed(stack.flat(view.expected), today.ripple[rows, None])
    seen = judge.Seen.of(stack.flat(there))
    found = judge.features((stack.flat(deviation) - expected) * seen.there, seen, today.floor[rows])
    event = np.zeros(found.shape)
    excess = judge.scores(found, today.middle[rows], event, today.limit[rows], seen.count)
    stuck = _stuck(model, today, rows, expected)
    score = np.maximum(excess.max(axis=1), stuck)
    asked = np.arange(rows.size)
    if look.kept:
        asked = np.flatnonzero((score > bar[rows]) | (verdict.flagged[rows] & np.isfinite(bar[rows])))
    if asked.size:
        event[asked] = _events(model, stack, today, view, look.prior(which), trusted, asked)
        mine = rows[asked]
        excess[asked] = judge.scores(
            found[asked], today.middle[mine], event[asked], today.limit[mine], seen.count[asked]
        )
        score[asked] = np.maximum(excess[asked].max(axis=1), stuck[asked])
    verdict.found[rows], verdict.event[rows], verdict.excess[rows] = found, event, excess
    verdict.stuck[rows], verdict.score[rows] = stuck, score


def _conclude(model: Model, look: Look, today: Today, verdict: Verdict) -> None:
    """Ask for the events of everyone, now that it is settled who is flagged."""
    view = look.latest()
    if view is None:
        return
    stack, rows = look.stack, look.stack.rows
    there = today.judged_readings(stack)
    trusted = there & ~verdict.flagged[stack.members][:, :, None]
    event = _events(model, stack, today, view, look.prior(), trusted, np.arange(rows.size))
    excess = judge.scores(verdict.found[rows], today.middle[rows], event, today.limit[rows], today.count[rows])
    verdict.event[rows], verdict.excess[rows] = event, excess
    verdict.score[rows] = np.maximum(excess.max(axis=1), verdict.stuck[rows])


def _events(
    model: Model,
    stack: Stack,
    today: Today,
    view: Conditioned,
    prior: FloatArray,
    trusted: BoolArray,
    asked: IntArray,
) -> FloatArray:
    """Return what is unusual today for the relatives of these of the fibers that are judged here."""
    whose = stack.members.ravel()
    return judge.events(
        view,
        trusted.reshape(whose.size, -1),
        prior,
        today.middle[whose],
        today.floor[whose],
        model.channels.judged[whose] > 2,
        today.ripple[whose],
        stack.place[asked],
    )


def _stuck(model: Model, today: Today, rows: IntArray, expected: FloatArray) -> FloatArray:
    """Score how these fibers stand still, given what is expected of them; few do at all."""
    score = np.zeros(rows.size)
    long = np.flatnonzero(today.length[rows] >= judge.SHORTEST)
    if long.size:
        mine = rows[long]
        score[long] = judge.stuck_scores(
            expected[long] + model.usual_values(mine),
            today.still[mine],
            today.length[mine],
            model.channels.run[mine],
            np.maximum(np.exp(today.middle[mine, 0]), 2 * today.floor[mine]),
        )
    return score
