"""The neighbourhood on its way from the verdict to the result: who is trusted, and what is expected then."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sensormend.auto import judge, timeline
from sensormend.auto.conditioning import Conditioned, bridge, condition
from sensormend.auto.judging import COMPANY, WARM, Today, others
from sensormend.auto.memory import Model
from sensormend.auto.newborns import Newborns
from sensormend.recovery import BoolArray, FloatArray

__all__ = ["Settled", "judgeable", "recondition"]


@dataclass(eq=False)
class Settled:
    """The neighbourhood after its period; arrays are (channel, ...), but for those of `view`, a stack of one.

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


def recondition(today: Today, state: Settled, *, joined: bool) -> None:
    """Ask the neighbourhood again, after what is trusted has changed; `joined` if members came or went with it."""
    known = state.known[:, None]
    trusted = (state.trusted & known)[None]
    precision = None if joined else state.view.precision
    state.view = condition(state.prior[None], state.deviation[None], trusted, precision=precision)
    bridge(state.view.expected, trusted)
    expected = judge.smoothed(state.view.expected[0], today.ripple[:, None])
    state.expected = np.where(known, expected, state.expected)
    state.residual = (state.deviation - state.expected) * state.observed


def judgeable(model: Model, today: Today, state: Settled) -> BoolArray:
    """Say whose fibers the others can judge."""
    company = others(model, np.asarray(state.trusted.any(axis=1))) >= COMPANY
    return np.asarray((model.channels.days >= WARM) & state.related & company & (today.count > 0))
