"""Windows of a channel for `follow`, and the stories that it ends with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oracles import kernels
from oracles.hypotheses import Case, Channel, Episode, Floats, Story
from sensormend.model import faults

__all__ = ["Row", "beam_of", "followed", "parameters", "rows_of"]


@dataclass(frozen=True)
class Row:
    """A hypothesis as a story: whether its last episode is open, its log-likelihood, level, and sizes of episodes."""

    story: Story
    is_open: bool
    log_likelihood: float
    level: float
    sizes: tuple[tuple[float, float], ...]


def parameters(channel: Channel) -> Floats:
    """Return the parameters of a channel as the engine has them."""
    q = np.zeros(faults.PARAMETERS)
    q[faults.PHI], q[faults.TAU], q[faults.SLOPE] = channel.phi, channel.tau, channel.slope
    q[faults.NOISY], q[faults.BEGIN], q[faults.WANDER] = channel.noisy, channel.begin, channel.wander
    q[faults.SLOTS], q[faults.FREEDOM], q[faults.USUALLY] = channel.slots, channel.freedom, channel.usually
    q[faults.CONSTANT] = faults.t_constant.py_func(channel.freedom)
    return q


def beam_of(case: Case) -> Floats:
    """Return the hypotheses before the window: sound."""
    beam = np.full((faults.BEAM, faults.FIELDS), np.nan)
    kernels.sound_only(beam, case.last, float(case.last_time), case.level)
    return beam


def followed(case: Case, beam: Floats | None = None) -> tuple[Floats, float]:
    """Follow a window; return the hypotheses after it and the log-likelihood of the best."""
    beam = beam_of(case) if beam is None else beam
    best = kernels.follow(
        beam, np.full_like(beam, np.nan), case.start, 0, case.observed, case.residual, case.expected, case.repeated,
        case.scale, parameters(case.channel),
    )  # fmt: skip
    return beam, float(best)


def rows_of(case: Case, beam: Floats, best: float) -> list[Row]:
    """Return the hypotheses of a beam, most likely first."""
    number = {case.start + slot: reading for reading, slot in enumerate(case.slots)}
    rows = []
    for b in np.argsort(-beam[:, faults.LOGL], kind="stable"):
        row = beam[b]
        if row[faults.LOGL] == faults.NONE:
            continue
        episodes, sizes = [], []
        for at in range(faults.ENDED, faults.FIELDS, faults.EPISODE):
            if row[at] > faults.NONE:
                first, last, kind, size, rate = row[at : at + faults.EPISODE]
                episodes.append(Episode(faults.KINDS[int(kind)], number[int(first)], number[int(last)]))
                sizes.append((float(size), float(rate)))
        episodes.reverse()
        sizes.reverse()
        is_open = int(row[faults.KIND]) != faults.SOUND
        if is_open:
            first, last = number[int(row[faults.START])], number[int(row[faults.LAST_WRONG])]
            episodes.append(Episode(faults.KINDS[int(row[faults.KIND])], first, last))
            size, rate = kernels.fault_size(beam, b)
            sizes.append((float(size), float(rate)))
        log_likelihood = best + float(row[faults.LOGL])
        rows.append(Row(tuple(episodes), is_open, log_likelihood, float(row[faults.LEVEL]), tuple(sizes)))
    return rows
