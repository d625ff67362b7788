"""One period through the model: look, judge, fill, learn."""

from __future__ import annotations

import numpy as np

from sensormend.auto import network, timeline
from sensormend.auto.judging import Today, Verdict, judge_period
from sensormend.auto.learning import Lessons, learn
from sensormend.auto.memory import Model
from sensormend.auto.settling import Period, settle
from sensormend.recovery import FloatArray

__all__ = ["bend", "run"]

SAMPLE = 4
"""Neighbourhoods on which rank and shrinkage are tried in a period."""


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
    verdict = judge_period(model, readings, today)
    result = Period.blank(readings.shape[0], readings.shape[1], verdict.rounds)
    pools = model.pools
    tables = np.stack(
        [
            timeline.correlation(pools.products[which], pools.pairs[which], pools.daily[which], model.slots)
            for which in range(model.variables)
        ]
    )
    if not learning:
        for hood in model.hoods:
            settle(model, hood, readings, today, verdict, result, tables)
        return result
    step = _try_rungs(model, today, verdict)
    lessons = Lessons.new(model)
    for hood in model.hoods:
        state = settle(model, hood, readings, today, verdict, result, tables)
        learn(model, hood, readings, today, verdict, state, tables, lessons)
    lessons.apply(model)
    pools.rank, pools.shrinkage = pools.rank + step[0], pools.shrinkage + step[1]
    return result


def _try_rungs(model: Model, today: Today, verdict: Verdict) -> tuple[int, int]:
    start = model.pools.period * SAMPLE
    chosen = {(start + index) % len(model.hoods) for index in range(min(SAMPLE, len(model.hoods)))}
    samples = []
    for index in sorted(chosen):
        members = model.hoods[index].members
        trusted = today.observed[members] & (today.known & ~verdict.flagged)[members, None]
        samples.append((model.hoods[index], today.deviations(members), trusted))
    samples = [sample for sample in samples if sample[2].any(axis=1).sum() > 3]
    return network.try_rungs(model.pools, samples, model.channels) if samples else (0, 0)
