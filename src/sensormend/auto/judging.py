"""Who is wrong today: fibers are set aside, the worst first, until the rest agrees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sensormend.auto import judge
from sensormend.auto.conditioning import Conditioned
from sensormend.auto.look import Look
from sensormend.auto.memory import Model
from sensormend.auto.neighbourhoods import IntArray
from sensormend.auto.vouching import BESIDE, VOUCHERS
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


@dataclass(eq=False)
class Today:
    """One period as the model sees it: deviations from the usual on the variables' scales, and the yardsticks.

    A channel without usual values yet has its readings on the variable's scale for its deviations. They are 0 where
    there is no reading. `judged` are the readings of channels that are known.
    """

    readings: FloatArray
    observed: BoolArray
    judged: BoolArray
    deviation: FloatArray
    variable: IntArray
    known: BoolArray
    step: FloatArray
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
        scaled = model.scales.forward(readings, variable)
        scaled -= model.usual_values(slice(None)) * known[:, None]
        # In single precision, as a large network has them.
        deviation = np.where(observed, scaled, 0.0).astype(np.float32).astype(float)
        length, still = judge.longest_run(readings, observed)
        spread = np.sqrt(np.maximum(_own_variance(model), 0.0))
        step = np.where(np.isfinite(channels.step), channels.step, 0.0)
        for which in np.flatnonzero(model.resting()).tolist():
            mine = variable == which
            away = judge.AWAKE * np.maximum(spread[mine], np.median(spread[mine]))
            away = np.maximum(away, judge.second_of_others(np.abs(deviation[mine]).max(axis=1) * known[mine]))
            step[mine] = np.maximum(step[mine], away)
        widths = model.pooled(channels.high - channels.median, np.full(channels.high.shape, 0.5))
        widths = np.minimum(np.maximum(widths, judge.SPREAD[0]), judge.SPREAD[1])
        stay = model.pools.stay[0] / model.pools.stay.sum()
        return cls(
            readings=readings,
            observed=observed,
            judged=observed & known[:, None],
            deviation=deviation,
            variable=variable,
            known=known,
            step=step,
            # A hundredth of a sensor's own variation is nothing that its neighbours could vouch for.
            floor=np.maximum(0.5 * step, 0.01 * spread),
            middle=judge.usual(channels, model.pooled(channels.median), model.own_guess()),
            limit=judge.limits(channels, widths, EASE * stay * channels.flagged),
            ripple=model.ripple(),
            count=np.asarray(observed.sum(axis=1)),
            length=length,
            still=still,
        )


@dataclass(eq=False)
class Verdict:
    """Who is flagged and what that rests on, per channel; `within` are those that differ by their own step at most."""

    flagged: BoolArray
    score: FloatArray
    found: FloatArray
    event: FloatArray
    excess: FloatArray
    stuck: FloatArray
    within: BoolArray
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
            within=np.zeros(count, dtype=bool),
        )


def judge_period(model: Model, today: Today, look: Look) -> Verdict:
    """Flag fibers until nobody else is past the threshold; whoever is no longer past it comes back once."""
    verdict = Verdict.open(today.known.size)
    # Those who turn out to be unrelated are not called faulty, but what is unusual even for them is not learned.
    present: BoolArray = np.asarray(today.judged.any(axis=1))
    judged: BoolArray = np.asarray(present & (others(model, present) >= COMPANY))
    if not judged.any():
        return verdict
    _screen(model, look.prior, today, verdict)
    bar = np.where(model.channels.days < WARM, 2.0, 1.0)
    bar[~judged] = np.inf
    returned = np.zeros(judged.size, dtype=bool)
    changed = judged
    while changed.any():
        view = _assess(model, look, today, verdict, bar)
        if verdict.rounds == ROUNDS:
            break
        verdict.rounds += 1
        over = ~verdict.flagged & (verdict.score > bar)
        if over.any():
            # The worst first: what they did to their neighbours goes with them.
            changed = over & (verdict.score >= np.sqrt(verdict.score[over].max()))
            verdict.flagged |= changed
        else:
            # Nobody speaks for those whom the others cannot judge: what was far from everyone stays aside.
            changed = verdict.flagged & judged & (verdict.score <= bar) & ~returned
            returned |= changed
            verdict.flagged &= ~changed
    _conclude(model, view, look, today, verdict)
    verdict.score[~judged] = 0.0
    return verdict


def others(model: Model, present: BoolArray) -> NDArray[np.intp]:
    """Return for every channel how many other sensors are present."""
    there = present.reshape(-1, model.variables).any(axis=1)
    return np.asarray(there.sum() - np.repeat(there, model.variables))


def _own_variance(model: Model) -> FloatArray:
    """Return how much every channel varies by itself."""
    assert model.hood is not None
    return model.hood.moments.diagonal().astype(float)


def related(model: Model) -> BoolArray:
    """Say of which channels the others explain enough to judge them; the young have the benefit of the doubt."""
    skill = 1 - model.channels.residual / np.maximum(_own_variance(model), 1e-300)
    return np.asarray((skill >= UNRELATED) | (model.channels.days < WARM))


def _screen(model: Model, prior: FloatArray, today: Today, verdict: Verdict) -> None:
    """Set aside what is far from everyone before anyone is predicted from it; it may come back later."""
    assert model.hood is not None
    there = today.judged
    rows = there.any(axis=1)
    spread = np.sqrt(np.maximum(model.hood.moments.diagonal(), 1e-24))
    scaled = np.where(there, today.deviation / spread[:, None], np.nan)
    middle = _quantile(np.sort(scaled.T, axis=1), there.sum(axis=0), 0.5)
    typical = _typical(scaled - middle)
    count = rows.sum()
    # Not the median: on a bad day half of the fibers may be wrong.
    low = _quantile(np.sort(np.where(rows, typical, np.nan)), count, 0.3)
    far = np.flatnonzero(rows & (typical > 6 * low) & (typical > 1.5))
    if far.size and count >= 4 and far.size <= 0.6 * count:
        stranger = np.arange(rows.size) // model.variables != far[:, None] // model.variables
        near, valid = judge.relatives(prior, rows & stranger, far, min(judge.RELATIVES, rows.size - 1))
        side = np.sign(prior[far[:, None], near])[..., None]
        beside = valid & (_typical(scaled[far, None] - side * scaled[near]) < BESIDE * typical[far, None])
        verdict.flagged[far[beside.sum(axis=1) < VOUCHERS]] = True


def _typical(apart: FloatArray) -> FloatArray:
    """Return the median distance along the last axis, NaN passed over; infinite where there is nothing else."""
    count = np.isfinite(apart).sum(axis=-1)
    return np.where(count > 0, _quantile(np.sort(np.abs(apart), axis=-1), count, 0.5), np.inf)


def _quantile(ordered: FloatArray, count: NDArray[np.intp], share: float) -> FloatArray:
    """Return a quantile of the first `count` numbers along the last axis, which are in order; 0 where there is none."""
    last = np.maximum(count, 1) - 1
    place = share * last
    low = place.astype(np.intp)
    flat, start = ordered.reshape(-1), np.arange(0, ordered.size, ordered.shape[-1]).reshape(count.shape)
    below, above = flat[start + low], flat[start + np.minimum(low + 1, last)]
    return np.where(count > 0, below + (place - low) * (above - below), 0.0)


def _assess(model: Model, look: Look, today: Today, verdict: Verdict, bar: FloatArray) -> Conditioned:
    """Score all fibers, given who is flagged so far; return what the others say of them.

    An event only ever excuses a fiber. So whoever is not flagged and below the bar without asking for events is left
    at that, until all is over.
    """
    trusted = today.judged & ~verdict.flagged[:, None]
    view = look.view(today.deviation, trusted)
    expected = judge.smoothed(view.expected[0], today.ripple[:, None])
    seen = judge.Seen.of(today.judged)
    residual = (today.deviation - expected) * seen.there
    found = judge.features(residual, seen, today.floor)
    within = judge.within_steps(residual, seen.there, today.step)
    event = np.zeros(found.shape)
    excess = judge.scores(found, today.middle, event, today.limit, seen.count)
    most = np.where(within, judge.EXCUSED, np.inf)
    stuck = np.minimum(_stuck(model, today, expected), most)
    score = np.minimum(np.maximum(excess.max(axis=1), stuck), most)
    asked = np.flatnonzero((score > bar) | (verdict.flagged & np.isfinite(bar)))
    if asked.size:
        event[asked] = _events(model, today, view, look.prior, trusted, asked)
        excess[asked] = judge.scores(
            found[asked], today.middle[asked], event[asked], today.limit[asked], seen.count[asked]
        )
        score[asked] = np.minimum(np.maximum(excess[asked].max(axis=1), stuck[asked]), most[asked])
    verdict.found, verdict.event, verdict.excess = found, event, excess
    verdict.stuck, verdict.score, verdict.within = stuck, score, within
    return view


def _conclude(model: Model, view: Conditioned, look: Look, today: Today, verdict: Verdict) -> None:
    """Ask for the events of everyone, now that it is settled who is flagged."""
    trusted = today.judged & ~verdict.flagged[:, None]
    verdict.event = _events(model, today, view, look.prior, trusted, np.arange(today.known.size))
    verdict.excess = judge.scores(verdict.found, today.middle, verdict.event, today.limit, today.count)
    verdict.score = np.maximum(verdict.excess.max(axis=1), verdict.stuck)
    verdict.score = np.minimum(verdict.score, np.where(verdict.within, judge.EXCUSED, np.inf))


def _events(
    model: Model, today: Today, view: Conditioned, prior: FloatArray, trusted: BoolArray, asked: IntArray
) -> FloatArray:
    """Return what is unusual today for the relatives of these channels."""
    active = model.channels.judged > 2
    return judge.events(view, trusted, prior, today.middle, today.floor, active, today.ripple, asked)


def _stuck(model: Model, today: Today, expected: FloatArray) -> FloatArray:
    """Score how fibers stand still, given what is expected of them; few do at all."""
    score = np.zeros(today.length.size)
    long = np.flatnonzero(today.length >= judge.SHORTEST)
    if long.size:
        score[long] = judge.stuck_scores(
            expected[long] + model.usual_values(long),
            today.still[long],
            today.length[long],
            model.channels.run[long],
            np.maximum(np.exp(today.middle[long, 0]), 2 * today.floor[long]),
        )
    return score
