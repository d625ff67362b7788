"""Some parts of a network in one period: what they read, and the yardsticks to judge it by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sensormend.arrays import Array, as_like, namespace, on_host
from sensormend.auto import judge
from sensormend.auto.judging import EASE
from sensormend.auto.memory import FEATURES, Channels, Model
from sensormend.auto.scales import FARTHEST
from sensormend.auto.wide.tools import (
    alike,
    constant,
    counted,
    diagonal,
    masked_median,
    ordered,
    pick,
    single,
    where_true,
)

__all__ = ["Common", "Sight", "Standstill", "backward", "features", "forward", "longest_run", "see"]

BINS, LOWEST, PER_UNIT = 4096, -48.0, 64.0
"""Bins in which logarithms are counted to find their median: from e^-48 to e^16, 1.6 % each."""


@dataclass(frozen=True, eq=False)
class Common:
    """What all channels share in a period: medians over the network, (variable, feature), scales and shares."""

    usual: Array
    width: Array
    ripple: Array
    centre: Array
    scale: Array
    bend: Array
    bent: bool
    ease: float

    @classmethod
    def of(cls, model: Model) -> Common:
        """Take them from a model; medians over a million channels are counted out in bins."""
        channels = model.channels
        like = channels.median
        judged = channels.judged > 0
        usual = _medians(model, channels.median, judged)
        guess = _medians(model, _own_guess(channels.residual), channels.days > 0)
        usual = np.where(np.isfinite(usual), usual, np.where(np.isfinite(guess), guess, 0.0))
        widths = _medians(model, channels.high - channels.median, judged)
        widths = np.clip(np.where(np.isfinite(widths), widths, 0.5), *judge.SPREAD)
        part, whole = model.pools.ripple.T
        ripple = np.clip(part / np.where(whole > 0, whole, 1.0), 0.0, 1.0)
        scales = model.scales
        put = {
            "usual": usual,
            "width": widths,
            "ripple": ripple,
            "centre": scales.centre,
            "scale": np.where(scales.width > 0, scales.width, 1.0),
            "bend": scales.bend,
        }
        stay = float(model.pools.stay[0] / model.pools.stay.sum())
        arrays = {name: as_like(values, like) for name, values in put.items()}
        for name in ("usual", "width", "ripple"):
            arrays[name] = alike(arrays[name], like)
        return cls(**arrays, bent=bool((scales.bend > 0).any()), ease=EASE * stay)


def _own_guess(residual: Array) -> Array:
    """Return the log features that residuals of this variance let expect; see `Model.own_guess`."""
    xp = namespace(residual)
    size = 0.5 * xp.log(residual + 1e-30)
    return xp.stack([size, size - 0.6, size], axis=-1)


def _medians(model: Model, values: Array, counts: Array) -> Any:
    """Return the medians per variable, (variable, feature), of logarithms; NaN where nothing counts."""
    xp, variables = namespace(values), model.variables
    found = np.full((variables, FEATURES), np.nan)
    place = xp.asarray(xp.clip((values - LOWEST) * PER_UNIT, 0, BINS - 1), dtype=xp.int64)
    for variable in range(variables):
        mine = place[variable::variables][counts[variable::variables]]
        if mine.shape[0] == 0:
            continue
        for feature in range(FEATURES):
            histogram = np.asarray(on_host(xp.bincount(mine[:, feature], minlength=BINS)), dtype=float)
            below = np.concatenate([[0.0], np.cumsum(histogram)])
            half = below[-1] / 2
            bin_ = min(int(np.searchsorted(below, half, side="right")) - 1, BINS - 1)
            inside = (half - below[bin_]) / max(histogram[bin_], 1.0)
            found[variable, feature] = LOWEST + (bin_ + inside) / PER_UNIT
    return found


def forward(readings: Array, common: Common, variable: Array | None) -> Array:
    """Put readings (..., slot) on their variables' scales, in the model's precision; what is missing stays so."""
    xp = namespace(readings)
    centre, scale, bend = _scales(common, variable)
    if common.bent:
        curved = xp.asinh(readings / xp.where(bend > 0, bend, 1.0))
        readings = xp.where(bend > 0, curved, readings)
    # What overflows here is infinitely far, and brought back.
    with np.errstate(over="ignore"):
        scaled = alike((readings - centre) / scale, common.usual)
    return xp.clip(scaled, -FARTHEST, FARTHEST)


def backward(scaled: Array, common: Common, variable: Array | None) -> Array:
    """Undo `forward`, in the precision of the scales."""
    xp = namespace(scaled)
    centre, scale, bend = _scales(common, variable)
    plain = scaled * scale + centre
    if not common.bent:
        return plain
    curved = bend * xp.sinh(xp.clip(plain, 0.0, 700.0))
    return xp.where(bend > 0, curved, plain)


def _scales(common: Common, variable: Array | None) -> tuple[Array, Array, Array]:
    if variable is None:
        return common.centre[0], common.scale[0], common.bend[0]
    return common.centre[variable][..., None], common.scale[variable][..., None], common.bend[variable][..., None]


@dataclass(eq=False)
class Sight:
    """Some parts in a period; arrays are (part, member) or (part, member, slot), those that a part judges first.

    `variable` is None where there is one. `fewest` are the known members that read in the slot of a part, (part,), in
    which the fewest do. `gone` and `gone_steps` are huge where there is no reading, and 0 elsewhere: added to what is
    put in order, they make it come last.
    """

    xp: Any
    common: Common
    members: Array
    real: Array
    mine: Array
    core: int
    variable: Array | None
    raw: Array
    observed: Array
    known: Array
    usual: Array
    deviation: Array
    gone: Array
    gone_steps: Array
    count: Array
    pairs: Array
    length: Array
    still: Standstill
    days: Array
    variance: Array
    step: Array
    floor: Array
    middle: Array
    limit: Array
    active: Array
    doubt: Array
    ripple: Array
    fewest: Array

    @property
    def parts(self) -> int:
        """How many parts there are."""
        return int(self.members.shape[0])

    def of(self, name: str, channels: Channels) -> Array:
        """Return what is remembered of every member."""
        return pick(getattr(channels, name), self.members)

    def features(self, residual: Array, which: Array | None = None) -> Array:
        """Return the log features of residuals that are 0 where there is no reading, (part, member, feature)."""
        chosen = [self.gone, self.gone_steps, self.count, self.pairs, self.floor]
        if which is not None:
            chosen = [pick(array, which) for array in chosen]
        return features(residual, *chosen)


HUGE = 1e30


def features(residual: Array, gone: Array, gone_steps: Array, count: Array, pairs: Array, floor: Array) -> Array:
    """Return log size, level and roughness, (..., feature), as `judge.features` does; NaN with too few readings."""
    xp, slots = namespace(residual), residual.shape[-1]
    steps = residual[..., 1:] - residual[..., :-1]
    steps *= steps
    steps += gone_steps
    rough = _trimmed(steps, pairs, slots - 1, 0, 2)
    squares = residual * residual
    squares += gone
    size = _trimmed(squares, count, slots, 0, 1)
    level = _trimmed(residual + gone, count, slots, 1, 1)
    found = xp.stack([size, level * level + 0.1 * size, rough], axis=-1)
    found += (floor * floor + 1e-30)[..., None]
    found = 0.5 * xp.log(found)
    few = xp.stack([count < 1, count < 3, pairs < 3], axis=-1)
    if bool(xp.any(few)):
        found[few] = xp.nan
    return found


def _trimmed(values: Array, count: Array, slots: int, below: int, above: int) -> Array:
    table = constant(f"kept {below} {above}", judge.trimming(slots, below, above), values)
    xp = namespace(values)
    return xp.einsum("...s,...s->...", ordered(values), pick(table, xp.asarray(count, dtype=xp.int64)))


def see(model: Model, parts: Any, which: slice, readings: Array, common: Common) -> Sight:
    """Look at some parts of a period, (channel, slot)."""
    xp, channels = namespace(readings), model.channels
    members = parts.members[which]
    place = xp.arange(members.shape[1], device=members.device)
    real = place < parts.size[which][:, None]
    mine = place < parts.core[which][:, None]
    core = int(xp.max(parts.core[which]))
    variable = None if model.variables == 1 else members % model.variables
    raw = pick(readings, members)
    observed = xp.isfinite(raw)
    observed &= real[..., None]
    days = pick(channels.days, members)
    known = (days > 0) & real
    mean = pick(channels.mean, members)
    level = counted(mean)[..., None] / mean.shape[-1]
    trust = days / (days + 5)
    usual = mean - level
    usual *= trust[..., None]
    usual += level
    deviation = forward(raw, common, variable)
    deviation -= usual * known[..., None]
    missing = ~observed
    deviation[missing] = 0.0
    count = counted(observed)
    steps = observed[..., 1:] & observed[..., :-1]
    pairs = counted(steps)
    variance = xp.asarray(diagonal(parts.moments[which]), copy=True)
    spread = xp.sqrt(xp.clip(variance, 0.0, None))
    step = pick(channels.step, members)
    step = xp.where(xp.isfinite(step), step, 0.0)
    if model.resting().any():
        resting = as_like(model.resting(), members)[members % model.variables]
        others = masked_median(spread, resting & real)[:, None]
        away = judge.AWAKE * xp.maximum(spread, others)
        away = xp.maximum(away, judge.second_of_others(xp.max(xp.abs(deviation), axis=-1) * (known & resting)))
        step = xp.where(resting, xp.maximum(step, away), step)
    floor = xp.maximum(0.5 * step, 0.01 * spread)
    judged, median, high = (pick(getattr(channels, name), members) for name in ("judged", "median", "high"))
    usual_of, width_of = (
        (array[0] if variable is None else array[variable]) for array in (common.usual, common.width)
    )  # fmt: skip
    trusted = (judged / (judged + judge.LEAN))[..., None]
    middle = usual_of + trusted * (median - usual_of)
    young = (judged < judge.YOUNG) & (days > 0)
    if bool(xp.any(young)):
        guess = _own_guess(pick(channels.residual, members))
        middle = xp.where(young[..., None], xp.maximum(middle, guess), middle)
    narrow, wide = (constant(f"spread {i}", judge.SPREAD[i], median) for i in range(2))
    own = xp.minimum(xp.maximum(high - median, narrow), wide)
    doubt = pick(channels.flagged, members)
    limit = width_of + (judge.OWN * (judged / (judged + 10)))[..., None] * (own - width_of)
    limit = limit * constant("limits", judge.LIMITS, median) * (1 - common.ease * doubt)[..., None]
    length, still = _lengths(raw, observed, count, pairs)
    ripple = common.ripple[0] if variable is None else common.ripple[variable][..., None]
    return Sight(
        xp=xp,
        common=common,
        members=members,
        real=real,
        mine=mine,
        core=core,
        variable=variable,
        raw=raw,
        observed=observed,
        known=known,
        usual=usual,
        deviation=deviation,
        gone=single(missing) * HUGE,
        gone_steps=single(~steps) * HUGE,
        count=count,
        pairs=pairs,
        length=length,
        still=still,
        days=days,
        variance=variance,
        step=step,
        floor=floor,
        middle=middle,
        limit=limit,
        active=(judged > 2) & real,
        doubt=doubt,
        ripple=ripple,
        fewest=xp.min((single(known)[:, None, :] @ single(observed))[:, 0], axis=-1),
    )


def _lengths(raw: Array, observed: Array, count: Array, pairs: Array) -> tuple[Array, Standstill]:
    """Return the longest stretch of equal readings of each fiber, gaps passed over, and those that are long."""
    slots = raw.shape[-1]
    length = single(count > 0)
    if slots > 1:
        same = raw[..., 1:] == raw[..., :-1]
        # As many stretches of two, three and four as there are lengths below; where is not asked yet.
        for _ in range(judge.SHORTEST - 1):
            length += counted(same) > 0
            same = same[..., 1:] & same[..., :-1]
            if same.shape[-1] == 0:
                break
    # A stretch may go on behind a gap.
    behind = (count < slots) & ((length >= judge.SHORTEST - 1) | (length * (count - pairs) >= 2 * judge.SHORTEST))
    fiber = where_true(((length >= judge.SHORTEST) | behind).reshape(-1))
    exact, first, last = longest_run(raw.reshape(-1, slots)[fiber], observed.reshape(-1, slots)[fiber])
    length.reshape(-1)[fiber] = single(exact)
    long = exact >= judge.SHORTEST
    return length, Standstill(fiber[long], first[long], last[long])


@dataclass(frozen=True, eq=False)
class Standstill:
    """Fibers, in one number over all parts, with a long stretch of equal readings, and its first and last slot."""

    fiber: Array
    first: Array
    last: Array


def longest_run(values: Array, there: Array) -> tuple[Array, Array, Array]:
    """Return the length, the first and the last slot of each fiber's longest stretch of equal readings."""
    xp, slots = namespace(values), values.shape[1]
    # By slot, so that what is looked at together lies together.
    values, there = (xp.asarray(array.mT, copy=True, order="C") if xp is np else array.mT for array in (values, there))
    run, start, best, first, last = (xp.zeros_like(there[0], dtype=xp.int64) for _ in range(5))
    before = xp.full_like(values[0], xp.nan)
    for slot in range(slots):
        here, value = there[slot], values[slot]
        starts = here & (value != before)
        run += here
        run[starts], start[starts] = 1, slot
        better = here & (run > best)
        best[better], first[better], last[better] = run[better], start[better], slot
        before = xp.where(here, value, before)
    return best, first, last
