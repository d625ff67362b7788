"""One period of a large network through the model: each part is visited once, and is done then.

What `sensormend.auto.engine` does for a small network, here for any number of parts at once, on NumPy arrays or torch
tensors. Parts know nothing of each other but what they shared this morning, so that the period's cost is that of one
visit each, and what is in use at a time fits the processor's cache.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sensormend.arrays import Array, as_like, namespace, on_host
from sensormend.auto import network, timeline
from sensormend.auto.copies import copied
from sensormend.auto.learning import Lessons, sketch_axes
from sensormend.auto.memory import Hood, Model
from sensormend.auto.settling import Period
from sensormend.auto.shown import keep_within
from sensormend.auto.stack import Stack
from sensormend.auto.wide.learning import learn
from sensormend.auto.wide.parts import visits
from sensormend.auto.wide.settling import settle
from sensormend.auto.wide.sight import Common, Sight, see
from sensormend.auto.wide.tools import alike
from sensormend.auto.wide.verdict import Verdict, judge_parts

__all__ = ["run"]

SAMPLE = 4
"""Parts on which rank and shrinkage are tried in a period."""

FENCE = frozenset(
    {"days", "mean", "residual", "flagged", "held", "held_level", "last", "age"}
    | {"median", "high", "judged", "step", "run"}
)
"""What a part reads of channels that another one judges, and has to read as it was in the morning."""


def run(model: Model, readings: Array, *, learning: bool) -> Period:
    """Take one period, (channel, slot), through the model; with `learning` off nothing in it changes."""
    parts = model.parts
    assert parts is not None
    pools, count = model.pools, parts.members.shape[0]
    found = [
        timeline.correlation(pools.products[which], pools.pairs[which], pools.daily[which], model.slots)
        for which in range(model.variables)
    ]
    like = model.channels.mean
    tables = alike(as_like(np.stack(found), readings), like)
    common = Common.of(model)
    result = _blank(readings)
    rounds = 0
    if learning:
        lessons, after = Lessons.new(model), model.channels.apart(FENCE)
        axes = alike(as_like(sketch_axes(model), readings), like)
        step, sample = (0, 0), pools.period * SAMPLE % (-(-count // SAMPLE) * SAMPLE)
    for which in visits(parts):
        sight = see(model, parts, which, readings, common)
        company, verdict = judge_parts(model, parts, which, sight)
        state = settle(model, sight, company, verdict, result, tables, learning=learning)
        if learning:
            if which.start <= sample < which.stop:
                tried = np.arange(sample, min(sample + SAMPLE, which.stop)) - which.start
                step = _try_rungs(model, sight, verdict, tried, which.start)
            learn(model, parts, which, after, sight, company, verdict, state, lessons, axes)
        rounds = max(rounds, verdict.rounds)
    keep_within(model, readings, result, learning=learning)
    if learning:
        model.channels = after
        lessons.apply(model)
        pools.rank, pools.shrinkage = pools.rank + step[0], pools.shrinkage + step[1]
    return replace(result, rounds=rounds)


def _blank(readings: Array) -> Period:
    """Return a period to be filled in, every part its own rows."""
    xp, channels = namespace(readings), readings.shape[0]
    low_rank, cleaned, lower, upper = (xp.empty_like(readings) for _ in range(4))
    no: Any = xp.zeros_like(readings[:, 0], dtype=bool if xp is np else xp.bool)
    return Period(
        low_rank,
        cleaned,
        lower,
        upper,
        xp.zeros_like(readings),
        xp.zeros_like(readings, dtype=no.dtype),
        no,
        xp.zeros_like(no),
        xp.zeros_like(no),
        xp.zeros_like(readings[:, 0]),
        np.full(channels, "", dtype="<U11"),
        0,
    )


def _try_rungs(model: Model, sight: Sight, verdict: Verdict, which: Array, first: int) -> tuple[int, int]:
    """Try the rungs beside the present ones on these of the parts in sight, as for a small network."""
    parts = model.parts
    assert parts is not None
    hoods = []
    for index in which:
        members, moments, dictionary = (
            on_host(array[first + index]) for array in (parts.members, parts.moments, parts.dictionary)
        )
        size, core = int(parts.size[first + index]), int(parts.core[first + index])
        # The small network's dictionaries have their strongest pattern last.
        columns = dictionary[:size, ::-1] if dictionary.any() else np.zeros((size, 0), dtype=np.float32)
        hoods.append(Hood(members[:size], core, moments[:size, :size], np.ascontiguousarray(columns)))
    stack = Stack.of(hoods)
    width = stack.real.shape[1]
    some = slice(int(which[0]), int(which[-1]) + 1)
    trusted = sight.observed & (sight.known & ~verdict.flagged)[..., None]
    days, deviation, trusted = (on_host(array[some, :width]) for array in (sight.days, sight.deviation, trusted))
    asked = np.flatnonzero(trusted.any(axis=2).sum(axis=1) > 3)
    if asked.size == 0:
        return 0, 0
    given = (sight.raw, sight.observed & sight.known[..., None], sight.deviation + sight.usual)
    raw, judged, scaled = (on_host(array[some, :width])[asked] for array in given)
    stack = stack.part(asked)
    outlook = network.Outlook.of(stack, days[asked].astype(float), copied(raw, judged, scaled))
    sample = network.Sample(stack, outlook, deviation[asked].astype(float), trusted[asked], None)
    return network.try_rungs(model.pools, sample)
