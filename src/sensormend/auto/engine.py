"""One period through the model: look, judge, fill, learn."""

from __future__ import annotations

import numpy as np

from sensormend.arrays import as_like
from sensormend.auto import network, timeline
from sensormend.auto.judging import Today, Verdict, judge_period
from sensormend.auto.learning import OVER_THE_FENCE, Lessons, Taught, learn, sketch_axes
from sensormend.auto.looks import SAMPLE, Look, looks
from sensormend.auto.memory import Model
from sensormend.auto.settling import Period, settle
from sensormend.auto.stack import Stack
from sensormend.recovery import FloatArray

__all__ = ["bend", "run"]


def bend(model: Model) -> None:
    """Take variables that turned out to have a long tail to their own scale, and all that was learned with them."""
    scales = model.scales.bent(model.pools.period)
    if scales is None:
        return
    place = model.channels.mean
    channels, variable = model.channels.moved(None, single=False), model.variable
    level = channels.mean.mean(axis=1, keepdims=True)
    near = 1e-3
    low, high = (model.scales.backward(level + side, variable) for side in (-near, near))
    stretch = ((scales.forward(high, variable) - scales.forward(low, variable)) / (2 * near))[:, 0]
    stretch = np.where(channels.days > 0, np.maximum(stretch, 1e-12), 1.0)
    channels.mean = scales.forward(model.scales.backward(channels.mean, variable), variable)
    channels.residual *= stretch**2
    channels.sharpness *= stretch**2
    channels.step *= stretch
    channels.held_level *= stretch
    channels.former *= stretch
    channels.last *= stretch[:, None]
    channels.median += np.log(stretch)[:, None]
    channels.high += np.log(stretch)[:, None]
    for hood in model.hoods:
        stretched = hood.moments * (stretch[hood.members][:, None] * stretch[hood.members])
        hood.moments = stretched.astype(np.float32)
    if model.parts is not None:
        own = as_like(stretch.astype(np.float32), place)[model.parts.members]
        model.parts.moments *= own[:, :, None] * own[:, None, :]
    model.channels = channels.moved(place, single=model.parts is not None)
    model.scales = scales


def run(model: Model, readings: FloatArray, *, learning: bool) -> Period:
    """Take one period, (channel, slot), through the model; with `learning` off nothing in it changes."""
    today = Today.of(model, readings)
    through = looks(model)
    verdict = judge_period(model, today, through)
    result = Period.blank(readings.shape[0], readings.shape[1], verdict.rounds)
    pools = model.pools
    tables = np.stack(
        [
            timeline.correlation(pools.products[which], pools.pairs[which], pools.daily[which], model.slots)
            for which in range(model.variables)
        ]
    )
    if not learning:
        for look in through:
            settle(model, look, today, verdict, result, tables, learning=False)
            look.forget()
        return result
    step = _try_rungs(model, today, verdict, through)
    lessons, axes, after = Lessons.new(model), sketch_axes(model), model.channels.apart(OVER_THE_FENCE)
    for look in through:
        state = settle(model, look, today, verdict, result, tables, learning=True)
        learn(Taught(model, after, today, verdict, look.stack, state, tables, lessons), axes)
        # What one stack needed is gone before the next one begins.
        del state
        look.forget()
    model.channels = after
    lessons.apply(model)
    pools.rank, pools.shrinkage = pools.rank + step[0], pools.shrinkage + step[1]
    return result


def _try_rungs(model: Model, today: Today, verdict: Verdict, through: list[Look]) -> tuple[int, int]:
    hoods = np.arange(len(model.hoods))
    if hoods.size > SAMPLE:
        hoods = np.sort((model.pools.period * SAMPLE + hoods[:SAMPLE]) % hoods.size)
    stack = Stack.of(model.hoods, hoods)
    trusted = today.judged_readings(stack) & ~verdict.flagged[stack.members][:, :, None]
    asked = trusted.any(axis=2).sum(axis=1) > 3
    if not asked.any():
        return 0, 0
    if not asked.all():
        stack, trusted, hoods = stack.part(np.flatnonzero(asked)), trusted[asked], hoods[asked]
    whole, view = hoods.size == len(model.hoods), through[0].latest()
    outlook = through[0].outlook() if whole else network.Outlook.of(stack, model.channels.days[stack.members])
    # What the present rungs make of it is known where one stack has all neighbourhoods.
    expected = view.expected[hoods, : stack.members.shape[1]] if view and len(through) == 1 else None
    sample = network.Sample(stack, outlook, today.deviations(stack.members), trusted, expected)
    return network.try_rungs(model.pools, sample)
