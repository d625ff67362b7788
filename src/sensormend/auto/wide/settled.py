"""Parts on the way from the verdict to the result; see `settled`."""

from __future__ import annotations

from dataclasses import dataclass

from sensormend.arrays import Array
from sensormend.auto.judging import COMPANY, WARM
from sensormend.auto.memory import Model
from sensormend.auto.wide.company import View
from sensormend.auto.wide.sight import Sight
from sensormend.auto.wide.timeline import Carried
from sensormend.auto.wide.tools import pick
from sensormend.auto.wide.verdict import others, smoothed

__all__ = ["Cells", "Settled", "follow", "judgeable"]


@dataclass(eq=False)
class Cells:
    """Cells of fibers that a part judges which are estimated: those not trusted, and the hidden ones."""

    part: Array
    row: Array
    slot: Array
    hidden: Array
    carried: Carried
    past: Carried


@dataclass(eq=False)
class Settled:
    """Parts after their period, (part, member, ...); see `settled.Settled`.

    `open` is the variance that those who are there leave of those who are not.
    """

    known: Array
    related: Array
    flagged: Array
    deviation: Array
    usual: Array
    trusted: Array
    view: View
    expected: Array
    residual: Array
    size: Array
    event: Array
    shift: Array
    score: Array
    born: Array
    oddness: Array
    streak: Array
    anchor: Array
    spikes: Array
    open: Array
    cells: Cells


def judgeable(model: Model, sight: Sight, state: Settled) -> Array:
    """Say whose fibers the others can judge; see `settled.judgeable`."""
    xp = sight.xp
    present = xp.any(state.trusted, axis=-1)
    company = others(model, sight, present) >= COMPANY
    return (sight.days >= WARM) & state.related & company & (sight.count > 0) & sight.real


def follow(sight: Sight, state: Settled, which: Array) -> None:
    """Let what is expected in these parts be what their view says now."""
    share = sight.ripple if sight.variable is None else pick(sight.ripple, which)
    known = pick(sight.known, which)[..., None]
    said = smoothed(pick(state.view.expected, which), share)
    expected = sight.xp.where(known, said, pick(state.expected, which))
    state.expected[which] = expected
    state.residual[which] = (pick(state.deviation, which) - expected) * pick(sight.observed, which)
