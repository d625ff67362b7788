"""After the verdict: what every cell of a neighbourhood is taken to be, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sensormend.auto import judge, network, timeline
from sensormend.auto.conditioning import Conditioned, condition
from sensormend.auto.judging import COMPANY, WARM, Today, Verdict, related
from sensormend.auto.memory import Hood, Model
from sensormend.auto.newborns import Newborns, first_look
from sensormend.auto.reasons import reasons
from sensormend.recovery import BoolArray, FloatArray

__all__ = ["Period", "Settled", "settle"]

SUSPECT = 0.75
"""Score from which a fiber is called suspect."""

YOUTH = 5.0
"""The share of a channel's known periods after which a lasting level is accepted is one over this."""

ACCEPT = (3.0, 10.0)
"""Periods after which a sensor that keeps its new distance from the network has a new level: a fifth of the periods
known, within these. A tenth takes faults of young sensors for levels (repaired 1.74 instead of 1.33 on NOAA's mix)."""

SPIKE = 7.0
"""Standard deviations from the network and from its own neighbours in time that make a single reading a spike."""


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


@dataclass(eq=False)
class Settled:
    """A neighbourhood after its period; arrays are over its members, those it judges first."""

    prior: FloatArray
    observed: BoolArray
    known: BoolArray
    flagged: BoolArray
    deviation: FloatArray
    usual: FloatArray
    trusted: BoolArray
    view: Conditioned
    expected: FloatArray
    residual: FloatArray
    size: FloatArray
    event: FloatArray
    newborns: Newborns
    shift: FloatArray
    score: FloatArray
    carried: timeline.Carried


def settle(
    model: Model,
    hood: Hood,
    readings: FloatArray,
    today: Today,
    verdict: Verdict,
    result: Period,
    tables: FloatArray,
) -> Settled:
    """Fill in the result for the channels that this neighbourhood judges."""
    prior = network.covariance(hood, model.channels, model.pools.rank, model.pools.shrinkage)
    state = _open(model, hood, today, verdict, prior)
    _accept_levels(model, hood, today, verdict, state)
    core, n = hood.members[: hood.core], hood.core
    result.spikes[core] = _spikes(model, hood, state, tables)[:n]
    _write_verdict(model, hood, verdict, state, result)
    state.carried = _carry(model, hood, state, tables, ~state.trusted[:n])
    _write_values(model, hood, readings, state, result, tables)
    return state


def _write_verdict(model: Model, hood: Hood, verdict: Verdict, state: Settled, result: Period) -> None:
    core, n = hood.members[: hood.core], hood.core
    observed, score = state.observed[:n], state.score[:n]
    odd = (state.newborns.oddness[:n] > 1) & _mature(model, hood)
    evaluated = _evaluated(model, hood, state)[:n] | odd
    faulty = (state.flagged[:n] | odd) & evaluated
    suspect = evaluated & ~faulty & (score > SUSPECT)
    spread = np.sqrt(state.prior.diagonal()[:n])
    named = reasons(state.residual[:n], state.expected[:n], observed, verdict.excess[core], verdict.stuck[core], spread)
    still = verdict.length[core] >= np.maximum(0.9 * observed.sum(axis=1), 4)
    named[odd] = np.where(still, "stuck", "implausible")[odd]
    alone = ~evaluated & observed.any(axis=1) & (model.channels.days[core] >= WARM)
    result.faulty[core], result.suspect[core], result.evaluated[core] = faulty, suspect, evaluated
    result.score[core] = np.where(evaluated, score, 0.0)
    result.reason[core] = np.where(faulty | suspect, named, np.where(alone, "alone", ""))
    result.spikes[core] &= ~faulty[:, None]


def _write_values(
    model: Model, hood: Hood, readings: FloatArray, state: Settled, result: Period, tables: FloatArray
) -> None:
    core, n = hood.members[: hood.core], hood.core
    variable, trusted, raw = model.variable[core], state.trusted[:n], readings[core]
    network_says = state.expected[:n] + state.usual[:n]
    estimate = _bounded(model, hood, state, network_says + state.carried.residual)
    beside = network_says + _beside(model, hood, state, tables)
    whole = ~trusted.any(axis=1)
    width = model.pools.width[variable, whole.astype(np.intp)] * state.size[:n] * np.exp(state.event[:n])
    reach = width[:, None] * np.sqrt(state.carried.open * _doubt(model, hood, state)[:n])
    good = state.observed[:n] & ~result.faulty[core, None] & ~result.spikes[core]
    filled, low, high, seen = (
        model.scales.backward(scaled, variable) for scaled in (estimate, estimate - reach, estimate + reach, beside)
    )
    result.low_rank[core] = np.where(trusted, seen, filled)
    result.cleaned[core] = np.where(good, raw, filled)
    result.lower[core] = np.where(good, raw, low)
    result.upper[core] = np.where(good, raw, high)
    result.outliers[core] = np.where(state.observed[:n] & ~good, raw - filled, 0.0)


def _open(model: Model, hood: Hood, today: Today, verdict: Verdict, prior: FloatArray) -> Settled:
    members = hood.members
    known, observed = today.known[members], today.observed[members]
    flagged = verdict.flagged[members]
    trusted = observed & (known & ~flagged)[:, None]
    deviation, usual = today.deviations(members), model.usual_values(members)
    view = condition(prior, deviation, trusted)
    expected = judge.smoothed(view.expected, today.ripple[members, None])
    size = np.sqrt(model.channels.residual[members])
    newborns = Newborns.none(members.size)
    if not known.all():
        newborns = first_look(
            deviation,
            observed,
            known,
            expected,
            usual,
            size,
            model.variable[members],
            model.channels.flagged[members] == 1,
            model.channels.held[members],
            model.channels.held_level[members],
        )
        deviation, usual, expected, size = (
            newborns.deviation,
            newborns.usual,
            newborns.expected,
            newborns.size,
        )
        trusted = trusted | (observed & newborns.born[:, None])
    residual = np.where(observed, deviation - expected, 0.0)
    return Settled(
        prior=prior,
        observed=observed,
        known=known,
        flagged=flagged,
        deviation=deviation,
        usual=usual,
        trusted=trusted,
        view=view,
        expected=expected,
        residual=residual,
        size=size,
        event=np.minimum(verdict.event[members, 0], 1.5),
        newborns=newborns,
        shift=np.zeros(members.size),
        score=np.maximum(verdict.score[members], newborns.oddness),
        carried=timeline.Carried(residual, residual),
    )


def _accept_levels(model: Model, hood: Hood, today: Today, verdict: Verdict, state: Settled) -> None:
    """Take a distance that has lasted for the sensor's new level, where nothing else is wrong with it.

    The way back to the level that it had before needs no waiting.
    """
    channels, core, n = model.channels, hood.members[: hood.core], hood.core
    flagged = state.flagged[:n] & state.known[:n]
    lasting = channels.held[core] >= np.clip(channels.days[core] / YOUTH, *ACCEPT)
    accepted = False
    for level, open_to in ((channels.former[core], channels.former[core] != 0), (channels.held_level[core], lasting)):
        rows = np.flatnonzero(flagged & open_to & (state.shift[:n] == 0))
        if rows.size == 0:
            continue
        mine, there = core[rows], state.observed[rows]
        found = judge.features(state.residual[rows] - level[rows, None], there, today.floor[mine])
        excess = judge.scores(found, today.middle[mine], verdict.event[mine], today.limit[mine], there.sum(axis=1))
        sound = (excess.max(axis=1) < 1) & (verdict.stuck[mine] < 1)
        rows, mine = rows[sound], mine[sound]
        state.shift[rows] = level[rows]
        state.deviation[rows] -= np.where(state.observed[rows], level[rows, None], 0.0)
        state.usual[rows] += level[rows, None]
        state.flagged[rows] = verdict.flagged[mine] = False
        state.trusted[rows] = state.observed[rows]
        state.score[rows] = excess.max(axis=1)[sound]
        verdict.found[mine] = found[sound]
        accepted |= rows.size > 0
    if accepted:
        _recondition(model, hood, state)


def _recondition(model: Model, hood: Hood, state: Settled) -> None:
    state.view = condition(state.prior, state.deviation, state.trusted & state.known[:, None])
    expected = judge.smoothed(state.view.expected, model.ripple()[hood.members, None])
    state.expected = np.where(state.known[:, None], expected, state.expected)
    state.residual = np.where(state.observed, state.deviation - state.expected, 0.0)


def _spikes(model: Model, hood: Hood, state: Settled, tables: FloatArray) -> BoolArray:
    """Find single readings far from the network and from their own neighbours in time; the worst of a slot first."""
    spikes = np.zeros(state.observed.shape, dtype=bool)
    settled = (~state.flagged & _evaluated(model, hood, state))[:, None]
    unit = np.maximum(state.size * np.exp(state.event), 1e-300)[:, None]
    for _ in range(3):
        large = state.trusted & settled & (np.abs(state.residual) > SPIKE * unit)
        if not large.any():
            break
        carried = _carry(model, hood, state, tables, large)
        over = np.where(large, np.abs(state.residual - carried.residual) / (unit * np.sqrt(carried.open)), 0.0)
        worst = (over > SPIKE) & (over == over.max(axis=0))
        if not worst.any():
            break
        spikes |= worst
        state.trusted &= ~worst
        _recondition(model, hood, state)
    return spikes


def _bounded(model: Model, hood: Hood, state: Settled, estimate: FloatArray) -> FloatArray:
    """Keep whole fibers that are estimated near what was seen today, since far out nothing was ever learned.

    How far beyond the others a channel's usual values lie is allowed for.
    """
    n = hood.core
    whole = state.known[:n] & ~state.trusted[:n].any(axis=1)
    variable = model.variable[hood.members]
    for which in np.unique(variable[:n][whole]):
        mine = whole & (variable[:n] == which)
        others = (variable == which) & state.trusted.any(axis=1)
        if others.sum() < 2 * COMPANY:
            continue
        seen = (state.deviation + state.usual)[others][state.trusted[others]]
        usual, own = state.usual[others], state.usual[:n][mine]
        margin = state.size[:n][mine, None]
        low = seen.min() - margin - np.maximum(usual.min() - own.min(axis=1), 0.0)[:, None]
        high = seen.max() + margin + np.maximum(own.max(axis=1) - usual.max(), 0.0)[:, None]
        estimate[mine] = np.clip(estimate[mine], low, high)
    return estimate


def _evaluated(model: Model, hood: Hood, state: Settled) -> BoolArray:
    """Say whose fibers the others can judge."""
    present = state.trusted.any(axis=1)
    company = present.sum() - present >= COMPANY
    seasoned = model.channels.days[hood.members] >= WARM
    return np.asarray(seasoned & related(model, hood) & company & state.observed.any(axis=1))


def _mature(model: Model, hood: Hood) -> bool:
    """Say whether the others are known well enough to tell a new sensor that it is not where they are."""
    seasoned = model.channels.days[hood.members] >= WARM
    return int(np.sum(seasoned & related(model, hood))) >= 2 * COMPANY


def _carry(model: Model, hood: Hood, state: Settled, tables: FloatArray, cells: BoolArray) -> timeline.Carried:
    """Carry residuals over in time, for the first rows of the neighbourhood that `cells` has."""
    rows = hood.members[: cells.shape[0]]
    count = rows.size
    estimate, remaining = np.zeros(cells.shape), np.ones(cells.shape)
    for which in range(model.variables):
        mine = np.flatnonzero(model.variable[rows] == which)
        if not cells[mine].any():
            continue
        channels = rows[mine]
        part = timeline.carry(
            state.residual[:count][mine],
            state.trusted[:count][mine],
            model.channels.last[channels],
            model.channels.age[channels],
            tables[which],
            cells[mine],
        )
        estimate[mine], remaining[mine] = part.residual, part.open
    return timeline.Carried(estimate, remaining)


def _beside(model: Model, hood: Hood, state: Settled, tables: FloatArray) -> FloatArray:
    """Return what the slots beside a trusted reading add to what the network says of it."""
    n = hood.core
    variable = model.variable[hood.members[:n]]
    found = np.zeros((n, model.slots))
    for which in range(model.variables):
        rows = variable == which
        found[rows] = timeline.between(state.residual[:n][rows], state.trusted[:n][rows], tables[which])
    return found


def _doubt(model: Model, hood: Hood, state: Settled) -> FloatArray:
    """Return how much less is known in a cell than usual, as a ratio of variances."""
    usual = model.channels.sharpness[hood.members][:, None]
    ratio = np.where(usual > 0, state.view.variance / np.where(usual > 0, usual, 1.0), 1.0)
    return np.where(state.known[:, None], np.clip(ratio, 0.5, 4.0), 1.0)
