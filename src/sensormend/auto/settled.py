"""Neighbourhoods on the way from the verdict to the result: who is trusted, and what is expected then."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sensormend.auto import judge, timeline
from sensormend.auto.conditioning import Conditioned, bridge, condition
from sensormend.auto.judging import COMPANY, WARM, Today, others
from sensormend.auto.memory import Model
from sensormend.auto.neighbourhoods import IntArray
from sensormend.auto.newborns import Newborns
from sensormend.auto.stack import Stack
from sensormend.recovery import BoolArray, FloatArray

__all__ = ["Settled", "judgeable", "recondition"]


@dataclass(eq=False)
class Settled:
    """Neighbourhoods after their period; arrays are (neighbourhood, member, ...), those that are judged first.

    `expected` is what the view says, smoothed, and knows newborns. `carried` has the cells that are not trusted, and
    those trusted ones that are hidden to see how far the estimates would be off.
    """

    prior: FloatArray
    observed: BoolArray
    known: BoolArray
    related: BoolArray
    flagged: BoolArray
    deviation: FloatArray
    usual: FloatArray
    trusted: BoolArray
    view: Conditioned
    variance: FloatArray
    expected: FloatArray
    residual: FloatArray
    size: FloatArray
    event: FloatArray
    newborns: Newborns
    shift: FloatArray
    score: FloatArray
    carried: timeline.Carried


def recondition(stack: Stack, today: Today, state: Settled, which: IntArray, *, joined: bool) -> None:
    """Ask these neighbourhoods again, after what is trusted has changed; `joined` if members came or went with it."""
    known = state.known[which][:, :, None]
    view = condition(
        state.prior[which],
        state.deviation[which],
        state.trusted[which] & known,
        stack.real[which],
        None if joined else state.view.precision[which],
    )
    bridge(view.expected, state.trusted[which] & known)
    state.view.put(which, view)
    expected = judge.smoothed(view.expected, today.ripple[stack.members[which]][:, :, None])
    state.expected[which] = np.where(known, expected, state.expected[which])
    state.residual[which] = (state.deviation[which] - state.expected[which]) * state.observed[which]


def judgeable(model: Model, stack: Stack, today: Today, state: Settled) -> BoolArray:
    """Say whose fibers the others can judge."""
    present: BoolArray = np.asarray(state.trusted.any(axis=2))
    company = others(model, stack, present) >= COMPANY
    seasoned = model.channels.days[stack.members] >= WARM
    return np.asarray(seasoned & state.related & company & (today.count[stack.members] > 0) & stack.real)
