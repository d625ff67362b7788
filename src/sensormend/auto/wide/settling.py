"""After the verdict: what every cell of some parts is taken to be, and how sure that is; see `settling`."""

from __future__ import annotations

import numpy as np

from sensormend.arrays import Array, as_like, namespace, on_host
from sensormend.auto import judge
from sensormend.auto.judging import COMPANY, WARM
from sensormend.auto.memory import Model
from sensormend.auto.reasons import reasons
from sensormend.auto.settling import ACCEPT, SUSPECT, YOUTH, Period
from sensormend.auto.wide.company import Company, left_open, look
from sensormend.auto.wide.newcomers import first_look
from sensormend.auto.wide.settled import Cells, Settled, follow, judgeable
from sensormend.auto.wide.sight import HUGE, Sight, backward, features
from sensormend.auto.wide.spikes import find_spikes
from sensormend.auto.wide.timeline import Carried, between, carry, carry_past
from sensormend.auto.wide.tools import alike, counted, largest, pick, where_true
from sensormend.auto.wide.verdict import Verdict, past, smoothed

__all__ = ["settle"]

HIDDEN = 80
"""One trusted reading in so many is hidden to see how far the estimates are off."""


def settle(
    model: Model, sight: Sight, company: Company, verdict: Verdict, result: Period, tables: Array, *, learning: bool
) -> Settled:
    """Fill in the result for the channels that these parts judge."""
    state = _open(model, sight, verdict)
    _accept_levels(model, sight, company, verdict, state)
    find_spikes(model, sight, company, state, tables)
    state.open = left_open(company, state.view)
    state.cells = _carry(model, sight, state, tables, learning=learning)
    faulty = _write_verdict(model, sight, verdict, state, result)
    _write_values(model, sight, state, result, tables, faulty)
    return state


def _open(model: Model, sight: Sight, verdict: Verdict) -> Settled:
    xp, channels, view = sight.xp, model.channels, verdict.view
    expected = smoothed(view.expected, sight.ripple)
    size = xp.sqrt(sight.of("residual", channels))
    nothing = xp.zeros_like(size)
    state = Settled(
        known=sight.known,
        related=verdict.related,
        flagged=verdict.flagged,
        deviation=sight.deviation,
        usual=sight.usual,
        trusted=sight.observed & (sight.known & ~verdict.flagged)[..., None],
        view=view,
        expected=expected,
        residual=expected,
        size=size,
        event=xp.clip(verdict.event[..., 0], None, 1.5),
        shift=nothing,
        score=verdict.score,
        born=xp.zeros_like(sight.known),
        oddness=nothing,
        streak=nothing,
        anchor=nothing,
        spikes=xp.zeros_like(sight.observed),
        open=nothing,
        cells=None,  # type: ignore[arg-type]
    )
    new = where_true(xp.any(sight.known != sight.real, axis=1))
    if new.shape[0]:
        _place_newcomers(model, sight, state, new)
    state.residual = state.deviation - state.expected
    state.residual *= sight.observed
    return state


def _place_newcomers(model: Model, sight: Sight, state: Settled, which: Array) -> None:
    xp, channels = sight.xp, model.channels
    held, level = sight.of("held", channels), sight.of("held_level", channels)
    given = (state.deviation, sight.observed, sight.real, sight.known, state.expected, state.usual, state.size)
    deviation, observed, real, known, expected, usual, size = (pick(array, which) for array in given)
    found = first_look(
        deviation,
        observed,
        real,
        known,
        expected,
        usual,
        size,
        None if sight.variable is None else pick(sight.variable, which),
        model.variables,
        pick(sight.doubt, which) == 1,
        pick(held, which),
        pick(level, which),
    )
    for name in ("born", "oddness", "streak", "anchor", "deviation", "usual", "expected", "size"):
        changed = xp.asarray(getattr(state, name), copy=True)
        changed[which] = getattr(found, name)
        setattr(state, name, changed)
    state.trusted = state.trusted | (sight.observed & state.born[..., None])
    state.score = xp.maximum(state.score, state.oddness)


def _recondition(sight: Sight, company: Company, state: Settled, which: Array) -> None:
    """Ask these parts again, after what is trusted has changed."""
    trusted = pick(state.trusted & sight.known[..., None], which)
    state.view.put(which, look(company, which, pick(state.deviation, which), trusted))
    follow(sight, state, which)


def _accept_levels(model: Model, sight: Sight, company: Company, verdict: Verdict, state: Settled) -> None:
    """Take a distance that has lasted for the sensor's new level, where nothing else is wrong with it."""
    xp, channels, width = sight.xp, model.channels, sight.members.shape[1]
    asked = where_true((state.flagged & state.known & sight.mine).reshape(-1))
    if asked.shape[0] == 0:
        return
    part, row = asked // width, asked % width
    who = sight.members[part, row]
    former, level = channels.former[who], channels.held_level[who]
    lasting = channels.held[who] >= xp.clip(channels.days[who] / YOUTH, *ACCEPT)
    accepted = xp.zeros_like(lasting)
    state.shift = xp.zeros_like(state.shift)
    state.deviation, state.usual = (xp.asarray(array, copy=True) for array in (state.deviation, state.usual))
    for distance, open_to in ((former, former != 0), (level, lasting)):
        here = where_true(open_to & ~accepted)
        if here.shape[0] == 0:
            continue
        at = part[here], row[here]
        residual = (state.residual[at] - distance[here][:, None]) * sight.observed[at]
        given = (array[at] for array in (sight.gone, sight.gone_steps, sight.count, sight.pairs, sight.floor))
        found = features(residual, *given)
        excess = past(found, verdict.event[at], sight.count[at], sight.middle[at], sight.limit[at])
        excess = largest(excess)
        sound = (excess < 1) & (verdict.stuck[at] < 1)
        good = here[sound]
        at, there = (part[good], row[good]), sight.observed[part[good], row[good]]
        state.shift[at] = distance[good]
        state.deviation[at] -= there * distance[good][:, None]
        state.usual[at] += distance[good][:, None]
        state.flagged[at] = False
        state.trusted[at] = there
        state.score[at] = excess[sound]
        verdict.found[at] = found[sound]
        accepted[good] = True
    if bool(xp.any(accepted)):
        which = xp.unique_values(part[accepted])
        company.readmit(company.absent & ~xp.any(state.trusted & sight.known[..., None], axis=-1), which)
        _recondition(sight, company, state, which)


def _carry(model: Model, sight: Sight, state: Settled, tables: Array, *, learning: bool) -> Cells:
    xp, channels, core = sight.xp, model.channels, sight.core
    trusted, mine = state.trusted[:, :core], sight.mine[:, :core, None]
    cells = ~trusted & mine
    hidden = None
    if learning and model.pools.period and model.pools.pairs.any():
        old = (state.known & (sight.days > 3))[:, :core, None]
        number = sight.members[:, :core, None] * 7 + xp.arange(model.slots, device=trusted.device) + model.pools.period
        hidden = trusted & mine & old & (number % HIDDEN == 0)
        cells |= hidden
    part, row, slot = xp.nonzero(cells)
    was_hidden = hidden[part, row, slot] if hidden is not None else xp.zeros_like(part) > 0
    whole = ~xp.any(trusted, axis=-1)[part, row]
    last, age = (getattr(channels, name)[sight.members[part, row]] for name in ("last", "age"))
    variable = None if sight.variable is None else sight.variable[part, row]
    # Of whole fibers the past is all there is, and so it is taken to be of the hidden cells, too, to see how far off.
    past = carry_past(slot, last, age, tables, variable)
    near = where_true(~whole)
    carried = carry(
        slot[near],
        state.residual[part[near], row[near]],
        state.trusted[part[near], row[near]],
        last[near],
        age[near],
        tables,
        None if variable is None else variable[near],
    )
    both = Carried(xp.asarray(past.residual, copy=True), xp.asarray(past.open, copy=True))
    both.residual[near], both.open[near] = carried.residual, carried.open
    return Cells(part, row, slot, was_hidden, both, past)


def _write_verdict(model: Model, sight: Sight, verdict: Verdict, state: Settled, result: Period) -> Array:
    """Write who is faulty, and return it."""
    xp, core, mine = sight.xp, sight.core, sight.mine[:, : sight.core]
    rows = sight.members[:, :core][mine]
    seasoned = (sight.days >= WARM) & sight.real & verdict.related
    mature = xp.sum(seasoned, axis=1, keepdims=True, dtype=xp.int64) >= 2 * COMPANY
    odd = (state.oddness > 1) & mature
    evaluated = judgeable(model, sight, state) | odd
    faulty = (state.flagged | odd) & evaluated
    suspect = evaluated & ~faulty & (state.score > SUSPECT)
    alone = ~evaluated & (sight.count > 0) & (sight.days >= WARM)
    for name, values in (
        ("faulty", faulty), ("suspect", suspect), ("evaluated", evaluated), ("score", state.score * evaluated)
    ):  # fmt: skip
        array = getattr(result, name)
        array[rows] = alike(values[:, :core][mine], array)
    state.spikes = state.spikes & ~faulty[..., None]
    _name_reasons(sight, verdict, state, result, (faulty | suspect) & sight.mine, odd)
    named = on_host(sight.members[alone & sight.mine])
    result.reason[named] = "alone"
    return faulty


def _name_reasons(sight: Sight, verdict: Verdict, state: Settled, result: Period, wrong: Array, odd: Array) -> None:
    """Name what is wrong with the few that are; their words are on the host."""
    part, row = sight.xp.nonzero(wrong)
    if part.shape[0] == 0:
        return
    given = (state.residual, state.expected, sight.observed, verdict.excess, verdict.stuck, sight.variance)
    residual, expected, there, excess, stuck, variance = (on_host(array[part, row]) for array in given)
    length, count, new, who = (on_host(array[part, row]) for array in (sight.length, sight.count, odd, sight.members))
    named = reasons(residual, expected, there, excess, stuck, np.sqrt(np.maximum(variance, 0.0)))
    still = length >= np.maximum(0.9 * count, judge.SHORTEST)
    result.reason[who] = np.where(new, np.where(still, "stuck", "implausible"), named)


def _write_values(model: Model, sight: Sight, state: Settled, result: Period, tables: Array, faulty: Array) -> None:
    xp, core, cells = sight.xp, sight.core, state.cells
    mine = sight.mine[:, :core]
    rows = sight.members[:, :core][mine]
    variable = None if sight.variable is None else sight.variable[:, :core]
    says = state.expected[:, :core] + state.usual[:, :core]
    scaled = says + between(state.residual[:, :core], state.trusted[:, :core], tables, variable)
    gap = ~cells.hidden
    at = cells.part[gap], cells.row[gap], cells.slot[gap]
    scaled[at] = says[at] + cells.carried.residual[gap]
    _bound(sight, state, scaled)
    values = xp.asarray(backward(scaled, sight.common, variable), dtype=result.low_rank.dtype)
    result.low_rank[rows] = values[mine]
    raw = sight.raw[:, :core]
    good = sight.observed[:, :core] & ~faulty[:, :core, None] & ~state.spikes[:, :core]
    cleaned = xp.where(good, raw, values)
    cleaned = cleaned[mine]
    for name in ("cleaned", "lower", "upper"):
        getattr(result, name)[rows] = cleaned
    result.spikes[rows] = state.spikes[:, :core][mine]
    part, row, slot = xp.nonzero(~good & mine[..., None])
    if part.shape[0] == 0:
        return
    left = xp.ones_like(scaled)
    left[cells.part, cells.row, cells.slot] = cells.carried.open
    who = sight.members[part, row]
    kind = xp.asarray(~xp.any(state.trusted[part, row], axis=-1), dtype=xp.int64)
    whose = 0 if variable is None else variable[part, row]
    width = _widths(model, scaled)[whose, kind]
    width = width * state.size[part, row] * xp.exp(state.event[part, row])
    usual = model.channels.sharpness[who]
    variance = xp.where(
        state.view.absent[part, row], state.open[part, row],
        1 / xp.clip(state.view.sharpness[part, row, slot], 1e-30, None),
    )  # fmt: skip
    doubt = xp.where(usual > 0, variance / xp.where(usual > 0, usual, 1.0), 1.0)
    doubt = xp.where(state.known[part, row], xp.clip(doubt, 0.5, 4.0), 1.0)
    reach = width * xp.sqrt(left[part, row, slot] * doubt)
    centre = scaled[part, row, slot]
    own = None if variable is None else whose
    for sign, bound in ((-1, result.lower), (1, result.upper)):
        edge = backward((centre + sign * reach)[:, None], sight.common, own)[:, 0]
        bound[who, slot] = xp.asarray(edge, dtype=bound.dtype)
    wrong = sight.observed[part, row, slot]
    at = part[wrong], row[wrong], slot[wrong]
    result.outliers[who[wrong], slot[wrong]] = raw[at] - values[at]


def _widths(model: Model, like: Array) -> Array:
    return alike(as_like(model.pools.width, like), like)


def _bound(sight: Sight, state: Settled, estimate: Array) -> None:
    """Keep whole fibers that are estimated near what was seen today; see `settling._bound`."""
    xp, core = sight.xp, sight.core
    seen = xp.any(state.trusted, axis=-1)
    whole = (state.known & ~seen & sight.mine)[:, :core]
    which = where_true(xp.any(whole, axis=1))
    if which.shape[0] == 0:
        return
    usual, trusted, seen = pick(state.usual, which), pick(state.trusted, which), pick(seen, which)
    values = pick(state.deviation, which) + usual
    variable = None if sight.variable is None else pick(sight.variable, which)
    part, row = xp.nonzero(pick(whole, which))
    home = which[part]
    own, margin, found = usual[part, row], state.size[home, row], estimate[home, row]
    for kind in range(1 if variable is None else int(sight.common.centre.shape[0])):
        near = seen if variable is None else seen & (variable == kind)
        mine = (counted(near) >= 2 * COMPANY)[part]
        if variable is not None:
            mine = mine & (variable[part, row] == kind)
        lowest, highest = _range(values, trusted & near[..., None])
        low_way, high_way = _range(usual, near[..., None])
        low = lowest[part] - margin - xp.clip(low_way[part] - xp.min(own, axis=-1), 0.0, None)
        high = highest[part] + margin + xp.clip(xp.max(own, axis=-1) - high_way[part], 0.0, None)
        bounded = xp.minimum(xp.maximum(found, low[:, None]), high[:, None])
        found = xp.where(mine[:, None], bounded, found)
    estimate[home, row] = found


def _range(values: Array, there: Array) -> tuple[Array, Array]:
    """Return the least and the largest of a part's values, (part,)."""
    xp, parts = namespace(values), values.shape[0]
    low = xp.min(xp.where(there, values, HUGE).reshape(parts, -1), axis=1)
    high = xp.max(xp.where(there, values, -HUGE).reshape(parts, -1), axis=1)
    return low, high
