"""One period of a small network through the model: look, judge, fill, learn."""

from __future__ import annotations

import numpy as np

from sensormend.arrays import as_like
from sensormend.auto import network, timeline
from sensormend.auto.copies import copied
from sensormend.auto.judging import Today, Verdict, judge_period
from sensormend.auto.learning import Lessons, Taught, learn, sketch_axes
from sensormend.auto.look import Look
from sensormend.auto.memory import Model
from sensormend.auto.settling import Period, settle
from sensormend.auto.shown import keep_within
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
    if model.hood is not None:
        model.hood.moments = (model.hood.moments * (stretch[:, None] * stretch)).astype(np.float32)
    if model.parts is not None:
        own = as_like(stretch.astype(np.float32), place)[model.parts.members]
        model.parts.moments *= own[:, :, None] * own[:, None, :]
    model.channels = channels.moved(place, single=model.parts is not None)
    model.scales = scales


def run(model: Model, readings: FloatArray, *, learning: bool) -> Period:
    """Take one period, (channel, slot), through the model; with `learning` off nothing in it changes."""
    pools, today = model.pools, Today.of(model, readings)
    scaled = model.scales.forward(readings, today.variable)
    look = Look(model, copied(readings[None], today.judged[None], scaled[None]))
    verdict = judge_period(model, today, look)
    tables = np.stack(
        [
            timeline.correlation(pools.products[which], pools.pairs[which], pools.daily[which], model.slots)
            for which in range(model.variables)
        ]
    )
    step = _try_rungs(model, today, verdict, look) if learning else (0, 0)
    result = Period.blank(readings.shape[0], readings.shape[1], verdict.rounds)
    state = settle(model, look, today, verdict, result, tables, learning=learning)
    keep_within(model, readings, result, learning=learning)
    if learning:
        lessons = Lessons.new(model)
        learn(Taught(model, today, verdict, state, tables, lessons), sketch_axes(model))
        lessons.apply(model)
        pools.rank, pools.shrinkage = pools.rank + step[0], pools.shrinkage + step[1]
    return result


def _try_rungs(model: Model, today: Today, verdict: Verdict, look: Look) -> tuple[int, int]:
    trusted = today.judged & ~verdict.flagged[:, None]
    if trusted.any(axis=1).sum() <= 3:
        return 0, 0
    # What the present rungs make of it is known where anybody was judged.
    expected = look.latest.expected if look.latest else None
    sample = network.Sample(look.stack, look.outlook, today.deviation[None], trusted[None], expected)
    return network.try_rungs(model.pools, sample)
