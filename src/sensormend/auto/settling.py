"""After the verdict: what every cell of some neighbourhoods is taken to be, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sensormend.auto import judge, timeline
from sensormend.auto.judging import COMPANY, WARM, Today, Verdict, related
from sensormend.auto.looks import Look
from sensormend.auto.memory import Model
from sensormend.auto.newborns import Newborns, first_look
from sensormend.auto.reasons import reasons
from sensormend.auto.settled import Settled, judgeable, recondition
from sensormend.auto.spikes import spikes
from sensormend.auto.stack import Stack
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
        """Return a period to be filled in, neighbourhood by neighbourhood."""
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
    """Fill in the result for the channels that these neighbourhoods judge."""
    stack = look.stack
    state = _open(model, look, today, verdict)
    _accept_levels(model, stack, today, verdict, state)
    result.spikes[stack.rows] = stack.flat(spikes(model, stack, today, state, tables))
    state.variance = state.view.variance()
    state.carried = _carry(model, stack, today, state, tables, learning=learning)
    _write_verdict(model, stack, today, verdict, state, result)
    _write_values(model, stack, today, state, result, tables)
    return state


def _carry(
    model: Model, stack: Stack, today: Today, state: Settled, tables: FloatArray, *, learning: bool
) -> timeline.Carried:
    rows, channels, trusted = stack.rows, model.channels, stack.flat(state.trusted)
    cells = ~trusted
    if learning and model.pools.period and model.pools.pairs.any():
        hidden = trusted & (stack.flat(state.known) & (channels.days[rows] > 3))[:, None]
        if len(model.hoods) > 4:
            # A fifth of the cells of a large network is plenty.
            order = stack.place % stack.members.shape[1]
            hidden &= (order[:, None] * 7 + np.arange(model.slots) + model.pools.period) % 5 == 0
        cells |= hidden
    return timeline.carry(
        stack.flat(state.residual),
        trusted,
        channels.last[rows],
        channels.age[rows],
        tables,
        today.variable[rows],
        cells,
    )


def _write_verdict(model: Model, stack: Stack, today: Today, verdict: Verdict, state: Settled, result: Period) -> None:
    rows = stack.rows
    observed, score = stack.flat(state.observed), stack.flat(state.score)
    odd = (stack.flat(state.newborns.oddness) > 1) & np.repeat(_mature(model, stack, state), stack.mine.sum(axis=1))
    evaluated = stack.flat(judgeable(model, stack, today, state)) | odd
    faulty = (stack.flat(state.flagged) | odd) & evaluated
    suspect = evaluated & ~faulty & (score > SUSPECT)
    alone = ~evaluated & (today.count[rows] > 0) & (model.channels.days[rows] >= WARM)
    named = np.full(rows.size, "", dtype="<U11")
    named[alone] = "alone"
    wrong = np.flatnonzero(faulty | suspect)
    if wrong.size:
        mine = rows[wrong]
        spread = np.sqrt(stack.flat(state.prior.diagonal(axis1=1, axis2=2))[wrong])
        residual, expected = (stack.flat(array)[wrong] for array in (state.residual, state.expected))
        found = reasons(residual, expected, observed[wrong], verdict.excess[mine], verdict.stuck[mine], spread)
        still = today.length[mine] >= np.maximum(0.9 * today.count[mine], judge.SHORTEST)
        named[wrong] = np.where(odd[wrong], np.where(still, "stuck", "implausible"), found)
    result.faulty[rows], result.suspect[rows], result.evaluated[rows] = faulty, suspect, evaluated
    result.score[rows] = np.where(evaluated, score, 0.0)
    result.reason[rows] = named
    result.spikes[rows] &= ~faulty[:, None]


def _write_values(model: Model, stack: Stack, today: Today, state: Settled, result: Period, tables: FloatArray) -> None:
    rows = stack.rows
    variable, raw = today.variable[rows], today.readings[rows]
    trusted, residual, observed = stack.flat(state.trusted), stack.flat(state.residual), stack.flat(state.observed)
    says = stack.flat(state.expected) + stack.flat(state.usual)
    carried = state.carried
    left = np.ones(says.shape)
    left[carried.row, carried.slot] = carried.open
    scaled = says + timeline.between(residual, trusted, tables, variable)
    gap = ~trusted[carried.row, carried.slot]
    at = carried.row[gap], carried.slot[gap]
    scaled[at] = says[at] + carried.residual[gap]
    _bound(stack, today, state, scaled)
    values = model.scales.backward(scaled, variable)
    good = observed & ~result.faulty[rows, None] & ~result.spikes[rows]
    result.low_rank[rows] = values
    np.copyto(values, raw, where=good)
    result.cleaned[rows] = result.lower[rows] = result.upper[rows] = values
    # A reading that is not good was not trusted either, so that what stands there now is the estimate.
    row, slot = np.nonzero(~good)
    whole = ~trusted.any(axis=1)
    width = model.pools.width[variable, whole.astype(np.intp)] * stack.flat(state.size * np.exp(state.event))
    doubt = _doubt(stack.flat(state.variance)[row, slot], model.channels.sharpness[rows][row])
    doubt[~stack.flat(state.known)[row]] = 1.0
    reach = width[row] * np.sqrt(left[row, slot] * doubt)
    for side, bound in ((-reach, result.lower), (reach, result.upper)):
        bound[rows[row], slot] = model.scales.backward((scaled[row, slot] + side)[:, None], variable[row])[:, 0]
    wrong = observed[row, slot]
    row, slot = row[wrong], slot[wrong]
    result.outliers[rows[row], slot] = raw[row, slot] - values[row, slot]


def _open(model: Model, look: Look, today: Today, verdict: Verdict) -> Settled:
    stack, channels, members = look.stack, model.channels, look.stack.members
    observed = today.observed[members] & stack.real[:, :, None]
    known = today.known[members] & stack.real
    flagged = verdict.flagged[members]
    trusted = observed & (known & ~flagged)[:, :, None]
    deviation, usual = today.deviations(members), model.usual_values(members)
    view = look.latest() or look.view(None, deviation, trusted)
    expected = judge.smoothed(view.expected, today.ripple[members][:, :, None])
    size = np.sqrt(channels.residual[members])
    newborns = Newborns.none(members.shape)
    for index in np.flatnonzero((known != stack.real).any(axis=1)).tolist():
        mine = members[index, : stack.size[index]]
        here = index, slice(mine.size)
        newborns.put(
            here,
            first_look(
                deviation[here],
                observed[here],
                known[here],
                expected[here],
                usual[here],
                size[here],
                today.variable[mine],
                channels.flagged[mine] == 1,
                channels.held[mine],
                channels.held_level[mine],
            ),
            (deviation, usual, expected, size),
        )
    trusted |= observed & newborns.born[:, :, None]
    return Settled(
        prior=look.prior(),
        observed=observed,
        known=known,
        related=related(model, stack),
        flagged=flagged,
        deviation=deviation,
        usual=usual,
        trusted=trusted,
        view=view,
        variance=np.empty(0),
        expected=expected,
        residual=(deviation - expected) * observed,
        size=size,
        event=np.minimum(verdict.event[members, 0], 1.5),
        newborns=newborns,
        shift=np.zeros(members.shape),
        score=np.maximum(verdict.score[members], newborns.oddness),
        carried=timeline.Carried.nothing(),
    )


def _accept_levels(model: Model, stack: Stack, today: Today, verdict: Verdict, state: Settled) -> None:
    """Take a distance that has lasted for the sensor's new level, where nothing else is wrong with it.

    The way back to the level that it had before needs no waiting.
    """
    hood, row = np.nonzero((state.flagged & state.known)[:, : stack.core] & stack.mine)
    if hood.size == 0:
        return
    channels, mine = model.channels, stack.members[hood, row]
    lasting = channels.held[mine] >= np.clip(channels.days[mine] / YOUTH, *ACCEPT)
    accepted = np.zeros(hood.size, dtype=bool)
    for level, open_to in ((channels.former[mine], channels.former[mine] != 0), (channels.held_level[mine], lasting)):
        asked = np.flatnonzero(open_to & ~accepted)
        if asked.size == 0:
            continue
        here, who, at = (hood[asked], row[asked]), mine[asked], level[asked]
        there = state.observed[here]
        found = judge.features(state.residual[here] - at[:, None], judge.Seen.of(there), today.floor[who])
        excess = judge.scores(found, today.middle[who], verdict.event[who], today.limit[who], there.sum(axis=1))
        sound = (excess.max(axis=1) < 1) & (verdict.stuck[who] < 1)
        here, at, there = (hood[asked[sound]], row[asked[sound]]), at[sound], there[sound]
        state.shift[here] = at
        state.deviation[here] -= there * at[:, None]
        state.usual[here] += at[:, None]
        state.flagged[here] = False
        state.trusted[here] = there
        state.score[here] = excess.max(axis=1)[sound]
        verdict.found[who[sound]] = found[sound]
        accepted[asked[sound]] = True
    if accepted.any():
        recondition(stack, today, state, np.unique(hood[accepted]), joined=True)


def _bound(stack: Stack, today: Today, state: Settled, estimate: FloatArray) -> None:
    """Keep whole fibers that are estimated near what was seen today, since far out nothing was ever learned.

    How far beyond the others a channel's usual values lie is allowed for.
    """
    seen = state.trusted.any(axis=2)
    whole = stack.flat(state.known & ~seen)
    if not whole.any():
        return
    variable = today.variable[stack.members]
    home, usual, size = np.nonzero(stack.mine)[0], stack.flat(state.usual), stack.flat(state.size)
    for which in np.unique(today.variable[stack.rows[whole]]).tolist():
        near = (variable == which) & seen
        mine = np.flatnonzero(whole & (today.variable[stack.rows] == which) & (near.sum(axis=1) >= 2 * COMPANY)[home])
        if mine.size == 0:
            continue
        hoods, place = np.unique(home[mine], return_inverse=True)
        there = state.trusted[hoods] & near[hoods][:, :, None]
        values, ways = (state.deviation + state.usual)[hoods], state.usual[hoods]
        asked = near[hoods][:, :, None]
        own, margin = usual[mine], size[mine]
        lowest, highest = (
            np.where(there, values, np.inf).min(axis=(1, 2)), np.where(there, values, -np.inf).max(axis=(1, 2))
        )  # fmt: skip
        low_way, high_way = (
            np.where(asked, ways, np.inf).min(axis=(1, 2)), np.where(asked, ways, -np.inf).max(axis=(1, 2))
        )  # fmt: skip
        low = lowest[place] - margin - np.maximum(low_way[place] - own.min(axis=1), 0.0)
        high = highest[place] + margin + np.maximum(own.max(axis=1) - high_way[place], 0.0)
        estimate[mine] = np.clip(estimate[mine], low[:, None], high[:, None])


def _mature(model: Model, stack: Stack, state: Settled) -> BoolArray:
    """Say where the others are known well enough to tell a new sensor that it is not where they are."""
    seasoned = (model.channels.days[stack.members] >= WARM) & stack.real
    return np.asarray((seasoned & state.related).sum(axis=1) >= 2 * COMPANY)


def _doubt(variance: FloatArray, usual: FloatArray) -> FloatArray:
    """Return how much less is known in a cell than usual, as a ratio of variances."""
    ratio = np.where(usual > 0, variance / np.where(usual > 0, usual, 1.0), 1.0)
    return np.asarray(np.clip(ratio, 0.5, 4.0))
