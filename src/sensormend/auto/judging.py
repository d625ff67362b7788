"""Who is wrong today: fibers are set aside, the worst first, until the rest agrees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sensormend.auto import judge, network
from sensormend.auto.conditioning import condition
from sensormend.auto.memory import Hood, Model
from sensormend.auto.neighbourhoods import IntArray
from sensormend.recovery import BoolArray, FloatArray

__all__ = ["COMPANY", "WARM", "Today", "Verdict", "judge_period", "related"]

WARM = 5
"""Periods a channel is learned before it is judged."""

UNRELATED = 0.2
"""Share of a channel's variance that the others must explain before they may judge it."""

COMPANY = 2
"""Other channels with readings that it takes to judge one."""

EASE = 0.7
"""How much lower the limits are for a sensor that was wrong the period before, if wrong fibers always came in runs."""

ROUNDS = 12


@dataclass(eq=False)
class Today:
    """One period as the model sees it: deviations from the usual on the variables' scales, and the yardsticks.

    Deviations are kept in single precision: for a large network they are one more array of the size of its readings.
    """

    observed: BoolArray
    deviation: NDArray[np.float32]
    known: BoolArray
    floor: FloatArray
    middle: FloatArray
    limit: FloatArray
    ripple: FloatArray

    @classmethod
    def of(cls, model: Model, readings: FloatArray) -> Today:
        """Look at readings (channel, slot) with a model's eyes."""
        channels = model.channels
        observed = np.isfinite(readings)
        known = channels.days > 0
        deviation = np.zeros(readings.shape, dtype=np.float32)
        spread = np.zeros(known.size)
        for hood in model.hoods:
            core = hood.members[: hood.core]
            scaled = model.scales.forward(readings[core], model.variable[core])
            scaled -= np.where(known[core, None], model.usual_values(core), 0.0)
            deviation[core] = np.where(observed[core], scaled, 0.0)
            spread[hood.members[: hood.core]] = np.sqrt(np.maximum(hood.moments.diagonal()[: hood.core], 0))
        step = np.where(np.isfinite(channels.step), channels.step, 0.0)
        widths = np.clip(
            model.pooled(channels.high - channels.median, np.full(channels.high.shape, 0.5)), *judge.SPREAD
        )
        stay = model.pools.stay[0] / model.pools.stay.sum()
        return cls(
            observed=observed,
            deviation=deviation,
            known=known,
            # A hundredth of a sensor's own variation is nothing that its neighbours could vouch for.
            floor=np.maximum(0.5 * step, 0.01 * spread),
            middle=judge.usual(channels, model.pooled(channels.median, model.first_guess()), model.own_guess()),
            limit=judge.limits(channels, widths, EASE * stay * channels.flagged),
            ripple=model.ripple(),
        )

    def deviations(self, rows: IntArray) -> FloatArray:
        """Return how far these channels' readings are from their usual values, 0 where there is none.

        A channel without usual values yet has its readings on the variable's scale instead.
        """
        return self.deviation[rows].astype(float)


@dataclass(eq=False)
class Verdict:
    """Who is flagged and what that rests on, per channel."""

    flagged: BoolArray
    score: FloatArray
    found: FloatArray
    event: FloatArray
    excess: FloatArray
    stuck: FloatArray
    length: IntArray
    inside: BoolArray
    rounds: int = 0


def judge_period(model: Model, readings: FloatArray, today: Today) -> Verdict:
    """Flag fibers until nobody else is past the threshold; whoever is no longer past it comes back once."""
    count = today.known.size
    length, inside = judge.longest_run(readings, today.observed)
    verdict = Verdict(
        flagged=np.zeros(count, dtype=bool),
        score=np.zeros(count),
        found=np.full((count, 3), np.nan),
        event=np.zeros((count, 3)),
        excess=np.zeros((count, 3)),
        stuck=np.zeros(count),
        length=length,
        inside=inside,
    )
    judged = _judgeable(model, today)
    if not judged.any():
        return verdict
    for hood in model.hoods:
        _screen(hood, today, verdict)
    bar = np.where(model.channels.days < WARM, 2.0, 1.0)
    returned = np.zeros(count, dtype=bool)
    stale = model.hoods
    while verdict.rounds < ROUNDS:
        verdict.rounds += 1
        for hood in stale:
            _assess(model, hood, today, verdict)
        verdict.score[~judged] = 0.0
        over = judged & ~verdict.flagged & (verdict.score > bar)
        if over.any():
            # The worst first: what they did to their neighbours goes with them.
            changed = over & (verdict.score >= np.sqrt(_worst(model.hoods, verdict.score, over)))
            verdict.flagged |= changed
        else:
            # Nobody speaks for those whom the others cannot judge: what was far from everyone stays aside.
            changed = verdict.flagged & judged & (verdict.score <= bar) & ~returned
            if not changed.any():
                break
            returned |= changed
            verdict.flagged &= ~changed
        stale = [hood for hood in model.hoods if changed[hood.members].any()]
    return verdict


def _judgeable(model: Model, today: Today) -> BoolArray:
    """Say whose fibers are compared with the others': those that have readings and company.

    Those who turn out to be unrelated are not called faulty, but what is unusual even for them is not learned.
    """
    judgeable = np.zeros(today.known.size, dtype=bool)
    for hood in model.hoods:
        core = hood.members[: hood.core]
        seen = today.observed[hood.members].any(axis=1) & today.known[hood.members]
        company = seen.sum() - seen[: hood.core] >= COMPANY
        judgeable[core] = seen[: hood.core] & company
    return judgeable


def related(model: Model, hood: Hood) -> BoolArray:
    """Say of which members the others explain enough to judge them; the young have the benefit of the doubt."""
    variance = np.maximum(hood.moments.diagonal().astype(float), 1e-300)
    skill = 1 - model.channels.residual[hood.members] / variance
    return np.asarray((skill >= UNRELATED) | (model.channels.days[hood.members] < WARM))


def _worst(hoods: list[Hood], score: FloatArray, over: BoolArray) -> FloatArray:
    """Return for every candidate the worst score among the candidates of its neighbourhood."""
    worst = np.ones_like(score)
    for hood in hoods:
        rows = hood.members[over[hood.members]]
        if rows.size:
            worst[hood.members[: hood.core]] = score[rows].max()
    return worst


def _screen(hood: Hood, today: Today, verdict: Verdict) -> None:
    """Set aside what is far from everyone before anyone is predicted from it; it may come back later."""
    core = hood.members[: hood.core]
    there = today.observed[core] & today.known[core, None]
    rows = there.any(axis=1)
    if rows.sum() < 4:
        return
    spread = np.sqrt(np.maximum(hood.moments.diagonal()[: hood.core], 1e-24))
    scaled = np.where(there, today.deviations(core) / spread[:, None], np.nan)[rows]
    scaled = scaled[:, np.isfinite(scaled).any(axis=0)]
    typical = np.nanmedian(np.abs(scaled - np.nanmedian(scaled, axis=0)), axis=1)
    # Not the median: on a bad day half of the fibers may be wrong.
    far = (typical > 6 * np.quantile(typical, 0.3)) & (typical > 1.5)
    if far.mean() <= 0.6:
        verdict.flagged[core[rows][far]] = True


def _assess(model: Model, hood: Hood, today: Today, verdict: Verdict) -> None:
    """Score the fibers of a neighbourhood, given who is flagged so far."""
    members, core = hood.members, hood.members[: hood.core]
    there = today.observed[members] & today.known[members, None]
    trusted = there & ~verdict.flagged[members, None]
    prior = network.covariance(hood, model.channels, model.pools.rank, model.pools.shrinkage)
    deviation = today.deviations(members)
    view = condition(prior, deviation, trusted)
    expected = judge.smoothed(view.expected, today.ripple[members, None])[: hood.core]
    residual = np.where(there[: hood.core], deviation[: hood.core] - expected, 0.0)
    found = judge.features(residual, there[: hood.core], today.floor[core])
    spread = np.sqrt(prior.diagonal())
    event = judge.events(
        view,
        trusted,
        prior / spread[:, None] / spread,
        today.middle[members],
        today.floor[members],
        trusted.any(axis=1) & (model.channels.judged[members] > 2),
        hood.core,
        today.ripple[members],
    )
    count = there[: hood.core].sum(axis=1)
    excess = judge.scores(found, today.middle[core], event, today.limit[core], count)
    size = np.maximum(np.exp(today.middle[core, 0]), 2 * today.floor[core])
    stuck = judge.stuck_scores(
        expected + model.usual_values(core),
        verdict.inside[core],
        verdict.length[core],
        model.channels.run[core],
        size,
    )
    verdict.found[core], verdict.event[core], verdict.excess[core], verdict.stuck[core] = (
        found,
        event,
        excess,
        stuck,
    )
    verdict.score[core] = np.maximum(excess.max(axis=1), stuck)
