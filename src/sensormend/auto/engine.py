"""One period through the model: look, judge, fill, learn."""

from __future__ import annotations

import numpy as np

from sensormend.auto import network, timeline
from sensormend.auto.judging import Today, Verdict, judge_period
from sensormend.auto.learning import Lessons, Taught, learn, sketch_axes
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
    channels, variable = model.channels, model.variable
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
    lessons, axes, after = Lessons.new(model), sketch_axes(model), model.channels.taken(slice(None))
    for look in through:
        state = settle(model, look, today, verdict, result, tables, learning=True)
        learn(Taught(model, after, today, verdict, look.stack, state, tables, lessons), axes)
        look.forget()
    model.channels = after
    lessons.apply(model)
    pools.rank, pools.shrinkage = pools.rank + step[0], pools.shrinkage + step[1]
    return result


def _try_rungs(model: Model, today: Today, verdict: Verdict, through: list[Look]) -> tuple[int, int]:
    if len(model.hoods) <= SAMPLE:
        look = through[0]
    else:
        chosen = (model.pools.period * SAMPLE + np.arange(SAMPLE)) % len(model.hoods)
        look = Look(model, Stack.of(model.hoods, np.sort(chosen)), kept=False)
    stack, view = look.stack, look.latest()
    trusted = today.judged_readings(stack) & ~verdict.flagged[stack.members][:, :, None]
    asked = np.flatnonzero(trusted.any(axis=2).sum(axis=1) > 3)
    if asked.size == 0:
        return 0, 0
    outlook, expected = look.outlook(), view.expected if view else None
    if asked.size < len(stack.hoods):
        stack, trusted, expected = stack.part(asked), trusted[asked], None
        outlook = network.Outlook.of(stack, model.channels)
    sample = network.Sample(stack, outlook, today.deviations(stack.members), trusted, expected)
    return network.try_rungs(model.pools, sample)
