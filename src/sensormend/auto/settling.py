"""After the verdict: what every cell is taken to be, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sensormend.auto import judge, timeline
from sensormend.auto.judging import COMPANY, WARM, Today, Verdict, related
from sensormend.auto.look import Look
from sensormend.auto.memory import Model
from sensormend.auto.newborns import Newborns, first_look
from sensormend.auto.reasons import reasons
from sensormend.auto.settled import Settled, judgeable, recondition
from sensormend.auto.spikes import spikes
from sensormend.recovery import BoolArray, FloatArray

__all__ = ["Period", "settle"]

SUSPECT = 0.75
"""Score from which a fiber is called suspect."""

YOUTH = 5.0
"""The share of a channel's known periods after which a lasting level is accepted is one over this."""

ACCEPT = (3.0, 10.0)
"""Periods after which a sensor that keeps its new distance from the network has a new level: a fifth of the periods
known, within these. A tenth takes faults of young sensors for levels (repaired 1.74 instead of 1.33 on NOAA's mix)."""


@dataclass(frozen=True, eq=False)
class Period:
    """What one period gave, on the scale of the readings: (channel, slot), and (channel) for the fibers."""

    low_rank: FloatArray
    cleaned: FloatArray
    lower: FloatArray
    upper: FloatArray
    outliers: FloatArray
    spikes: BoolArray
    faulty: BoolArray
    suspect: BoolArray
    evaluated: BoolArray
    score: FloatArray
    reason: NDArray[np.str_]
    rounds: int

    @classmethod
    def blank(cls, channels: int, slots: int, rounds: int) -> Period:
        """Return a period to be filled in."""
        low_rank, cleaned, lower, upper = (np.full((channels, slots), np.nan) for _ in range(4))
        return cls(
            low_rank,
            cleaned,
            lower,
            upper,
            np.zeros((channels, slots)),
            np.zeros((channels, slots), dtype=bool),
            np.zeros(channels, dtype=bool),
            np.zeros(channels, dtype=bool),
            np.zeros(channels, dtype=bool),
            np.zeros(channels),
            np.full(channels, "", dtype="<U11"),
            rounds,
        )

    @classmethod
    def untouched(cls, readings: FloatArray) -> Period:
        """Return a period of which nothing is made."""
        period = cls.blank(readings.shape[0], readings.shape[1], 0)
        for name in ("low_rank", "cleaned", "lower", "upper"):
            getattr(period, name)[:] = readings
        return period


def settle(
    model: Model,
    look: Look,
    today: Today,
    verdict: Verdict,
    result: Period,
    tables: FloatArray,
    *,
    learning: bool,
) -> Settled:
    """Fill in the result."""
    state = _open(model, look, today, verdict)
    _accept_levels(model, today, verdict, state)
    result.spikes[:] = spikes(model, today, state, tables)
    state.variance = state.view.variance()[0]
    state.carried = _carry(model, today, state, tables, learning=learning)
    _write_verdict(model, today, verdict, state, result)
    _write_values(model, today, state, result, tables)
    return state


def _carry(model: Model, today: Today, state: Settled, tables: FloatArray, *, learning: bool) -> timeline.Carried:
    channels, cells = model.channels, ~state.trusted
    if learning and model.pools.period and model.pools.pairs.any():
        cells |= state.trusted & (state.known & (channels.days > 3))[:, None]
    return timeline.carry(state.residual, state.trusted, channels.last, channels.age, tables, today.variable, cells)


def _write_verdict(model: Model, today: Today, verdict: Verdict, state: Settled, result: Period) -> None:
    seasoned = model.channels.days >= WARM
    # Only where the others are known well enough can they tell a new sensor that it is not where they are.
    mature = (seasoned & state.related).sum() >= 2 * COMPANY
    odd = (state.newborns.oddness > 1) & mature
    evaluated = judgeable(model, today, state) | odd
    faulty = (state.flagged | odd) & evaluated
    suspect = evaluated & ~faulty & (state.score > SUSPECT)
    result.reason[~evaluated & (today.count > 0) & seasoned] = "alone"
    wrong = np.flatnonzero(faulty | suspect)
    if wrong.size:
        spread = np.sqrt(state.prior.diagonal()[wrong])
        residual, expected = state.residual[wrong], state.expected[wrong]
        found = reasons(residual, expected, state.observed[wrong], verdict.excess[wrong], verdict.stuck[wrong], spread)
        still = today.length[wrong] >= np.maximum(0.9 * today.count[wrong], judge.SHORTEST)
        result.reason[wrong] = np.where(odd[wrong], np.where(still, "stuck", "implausible"), found)
    result.faulty[:], result.suspect[:], result.evaluated[:] = faulty, suspect, evaluated
    result.score[:] = np.where(evaluated, state.score, 0.0)
    result.spikes[faulty] = False


def _write_values(model: Model, today: Today, state: Settled, result: Period, tables: FloatArray) -> None:
    variable, raw, carried = today.variable, today.readings, state.carried
    says = state.expected + state.usual
    left = np.ones(says.shape)
    left[carried.row, carried.slot] = carried.open
    scaled = says + timeline.between(state.residual, state.trusted, tables, variable)
    gap = ~state.trusted[carried.row, carried.slot]
    at = carried.row[gap], carried.slot[gap]
    scaled[at] = says[at] + carried.residual[gap]
    _bound(today, state, scaled)
    values = model.scales.backward(scaled, variable)
    good = state.observed & ~result.faulty[:, None] & ~result.spikes
    result.low_rank[:] = values
    np.copyto(values, raw, where=good)
    result.cleaned[:] = result.lower[:] = result.upper[:] = values
    # A reading that is not good was not trusted either, so that what stands there now is the estimate.
    row, slot = np.nonzero(~good)
    whole = ~state.trusted.any(axis=1)
    width = model.pools.width[variable, whole.astype(np.intp)] * (state.size * np.exp(state.event))
    doubt = _doubt(state.variance[row, slot], model.channels.sharpness[row])
    doubt[~state.known[row]] = 1.0
    reach = width[row] * np.sqrt(left[row, slot] * doubt)
    for side, bound in ((-reach, result.lower), (reach, result.upper)):
        bound[row, slot] = model.scales.backward((scaled[row, slot] + side)[:, None], variable[row])[:, 0]
    wrong = state.observed[row, slot]
    row, slot = row[wrong], slot[wrong]
    result.outliers[row, slot] = raw[row, slot] - values[row, slot]


def _open(model: Model, look: Look, today: Today, verdict: Verdict) -> Settled:
    channels, observed, known = model.channels, today.observed, today.known
    trusted = today.judged & ~verdict.flagged[:, None]
    view = look.latest or look.view(today.deviation, trusted)
    parts = (
        today.deviation.copy(),
        model.usual_values(slice(None)),
        judge.smoothed(view.expected[0], today.ripple[:, None]),
        np.sqrt(channels.residual),
    )
    if known.all():
        newborns = Newborns.none(*parts)
    else:
        deviation, usual, expected, size = parts
        newborns = first_look(
            deviation,
            observed,
            known,
            expected,
            usual,
            size,
            today.variable,
            channels.flagged == 1,
            channels.held,
            channels.held_level,
        )
    trusted |= observed & newborns.born[:, None]
    return Settled(
        prior=look.prior,
        observed=observed,
        known=known,
        related=related(model),
        flagged=verdict.flagged.copy(),
        deviation=newborns.deviation,
        usual=newborns.usual,
        trusted=trusted,
        view=view,
        variance=np.empty(0),
        expected=newborns.expected,
        residual=(newborns.deviation - newborns.expected) * observed,
        size=newborns.size,
        event=np.minimum(verdict.event[:, 0], 1.5),
        newborns=newborns,
        shift=np.zeros(known.size),
        score=np.maximum(verdict.score, newborns.oddness),
        carried=timeline.Carried.nothing(),
    )


def _accept_levels(model: Model, today: Today, verdict: Verdict, state: Settled) -> None:
    """Take a distance that has lasted for the sensor's new level, where nothing else is wrong with it.

    The way back to the level that it had before needs no waiting.
    """
    channels, wrong = model.channels, state.flagged & state.known
    lasting = channels.held >= np.clip(channels.days / YOUTH, *ACCEPT)
    accepted = np.zeros(wrong.size, dtype=bool)
    for level, open_to in ((channels.former, channels.former != 0), (channels.held_level, lasting)):
        asked = np.flatnonzero(wrong & open_to & ~accepted)
        if asked.size == 0:
            continue
        there = state.observed[asked]
        found = judge.features(state.residual[asked] - level[asked, None], judge.Seen.of(there), today.floor[asked])
        excess = judge.scores(found, today.middle[asked], verdict.event[asked], today.limit[asked], there.sum(axis=1))
        sound = (excess.max(axis=1) < 1) & (verdict.stuck[asked] < 1)
        here, there = asked[sound], there[sound]
        state.shift[here] = level[here]
        state.deviation[here] -= there * level[here, None]
        state.usual[here] += level[here, None]
        state.flagged[here] = False
        state.trusted[here] = there
        state.score[here] = excess.max(axis=1)[sound]
        verdict.found[here] = found[sound]
        accepted[here] = True
    if accepted.any():
        recondition(today, state, joined=True)


def _bound(today: Today, state: Settled, estimate: FloatArray) -> None:
    """Keep whole fibers that are estimated near what was seen today, since far out nothing was ever learned.

    How far beyond the others a channel's usual values lie is allowed for.
    """
    seen = state.trusted.any(axis=1)
    whole = state.known & ~seen
    for which in np.unique(today.variable[whole]).tolist():
        near = (today.variable == which) & seen
        if near.sum() < 2 * COMPANY:
            continue
        mine = np.flatnonzero(whole & (today.variable == which))
        ways, own, margin = state.usual[near], state.usual[mine], state.size[mine]
        values = (state.deviation[near] + ways)[state.trusted[near]]
        low = values.min() - margin - np.maximum(ways.min() - own.min(axis=1), 0.0)
        high = values.max() + margin + np.maximum(own.max(axis=1) - ways.max(), 0.0)
        estimate[mine] = np.clip(estimate[mine], low[:, None], high[:, None])


def _doubt(variance: FloatArray, usual: FloatArray) -> FloatArray:
    """Return how much less is known in a cell than usual, as a ratio of variances."""
    ratio = np.where(usual > 0, variance / np.where(usual > 0, usual, 1.0), 1.0)
    return np.asarray(np.clip(ratio, 0.5, 4.0))
