"""Windows of a channel for `follow`, and the histories that it ends with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oracles import kernels
from oracles.hypotheses import Case, Channel, Episode, Floats, History
from sensormend.model import hypotheses

__all__ = ["Row", "beam_of", "followed", "parameters", "rows_of"]


@dataclass(frozen=True)
class Row:
    """A hypothesis as a history: whether its last episode is open, its log-likelihood, level, and sizes of episodes."""

    history: History
    is_open: bool
    log_likelihood: float
    level: float
    sizes: tuple[tuple[float, float], ...]


def parameters(channel: Channel) -> Floats:
    """Return the parameters of a channel as the engine has them."""
    q = np.zeros(hypotheses.PARAMETERS)
    for name, value in vars(channel).items():
        q[getattr(hypotheses, name.upper())] = value
    q[hypotheses.T_CONSTANT] = hypotheses.t_constant.py_func(channel.freedom)
    return q


def beam_of(case: Case) -> Floats:
    """Return the hypotheses before the window: sound."""
    beam = np.full((hypotheses.BEAM, hypotheses.FIELDS), np.nan)
    kernels.sound_only(beam, case.last, float(case.last_time), case.level)
    return beam


def followed(case: Case, beam: Floats | None = None) -> tuple[Floats, float]:
    """Follow a window; return the hypotheses after it and the log-likelihood of the best."""
    beam = beam_of(case) if beam is None else beam
    series = hypotheses.ChannelInput(case.observed, case.residual, case.expected, case.repeated, case.scale)
    best = kernels.follow(beam, np.full_like(beam, np.nan), case.start, 0, series, parameters(case.channel))
    return beam, float(best)


def rows_of(case: Case, beam: Floats, best: float) -> list[Row]:
    """Return the hypotheses of a beam, most likely first."""
    number = {case.start + slot: reading for reading, slot in enumerate(case.slots)}
    rows = []
    for b in np.argsort(-beam[:, hypotheses.LOGL], kind="stable"):
        row = beam[b]
        if row[hypotheses.LOGL] == hypotheses.NONE:
            continue
        episodes, sizes = [], []
        for at in range(hypotheses.ENDED, hypotheses.FIELDS, hypotheses.EPISODE):
            if row[at] > hypotheses.NONE:
                first, last, kind, size, rate = row[at : at + hypotheses.EPISODE]
                episodes.append(Episode(hypotheses.KINDS[int(kind)], number[int(first)], number[int(last)]))
                sizes.append((float(size), float(rate)))
        episodes.reverse()
        sizes.reverse()
        is_open = int(row[hypotheses.KIND]) != hypotheses.SOUND
        if is_open:
            first, last = number[int(row[hypotheses.START])], number[int(row[hypotheses.LAST_WRONG])]
            episodes.append(Episode(hypotheses.KINDS[int(row[hypotheses.KIND])], first, last))
            size, rate = kernels.fault_size(beam, b)
            sizes.append((float(size), float(rate)))
        log_likelihood = best + float(row[hypotheses.LOGL])
        rows.append(Row(tuple(episodes), is_open, log_likelihood, float(row[hypotheses.LEVEL]), tuple(sizes)))
    return rows
