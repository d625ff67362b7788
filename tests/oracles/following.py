"""Windows of a channel for `follow`, and the histories that it ends with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracles import kernels
from oracles.hypotheses import Case, Channel, Episode, History
from sensormend.model import hypotheses
from sensormend.model.network_model import FAULT_KINDS
from sensormend.model.records import HYPOTHESIS, PARAMETERS, SOUND

__all__ = ["Beam", "Row", "beam_of", "followed", "parameters", "rows_of"]

Beam = NDArray[np.void]


@dataclass(frozen=True)
class Row:
    """A hypothesis as a history: whether its last episode is open, its log-likelihood, level, and sizes of episodes."""

    history: History
    is_open: bool
    log_likelihood: float
    level: float
    sizes: tuple[tuple[float, float], ...]


def parameters(channel: Channel) -> Beam:
    """Return the parameters of a channel as the engine has them, (1,)."""
    q = np.zeros(1, PARAMETERS)
    for name, value in vars(channel).items():
        q[name] = value
    q["t_constant"] = hypotheses.t_constant.py_func(channel.freedom)
    return q


def unwritten() -> Beam:
    """Return memory for hypotheses in which every number is NaN or -1."""
    return np.full((hypotheses.BEAM, HYPOTHESIS.itemsize), 255, np.uint8).view(HYPOTHESIS)[:, 0]


def beam_of(case: Case) -> Beam:
    """Return the hypotheses before the window: sound."""
    beam = unwritten()
    kernels.sound_only(beam, case.last, case.last_time, case.level)
    return beam


def followed(case: Case, beam: Beam | None = None) -> tuple[Beam, float]:
    """Follow a window; return the hypotheses after it and the log-likelihood of the best."""
    beam = beam_of(case) if beam is None else beam
    series = hypotheses.ChannelInput(case.observed, case.residual, case.expected, case.repeated, case.scale)
    best = kernels.follow(beam, unwritten(), case.start, 0, series, parameters(case.channel)[0])
    return beam, float(best)


def rows_of(case: Case, beam: Beam, best: float) -> list[Row]:
    """Return the hypotheses of a beam, most likely first."""
    number = {case.start + slot: reading for reading, slot in enumerate(case.slots)}
    rows = []
    for b in np.argsort(-beam["logl"], kind="stable"):
        row = beam[b]
        if row.logl == hypotheses.NONE:
            continue
        episodes, sizes = [], []
        for ended in row.ended[::-1]:
            if ended.kind != SOUND:
                episodes.append(Episode(FAULT_KINDS[ended.kind], number[int(ended.first)], number[int(ended.last)]))
                sizes.append((float(ended.fault_size), float(ended.rate)))
        is_open = bool(row.kind != SOUND)
        if is_open:
            first, last = number[int(row.start)], number[int(row.last_wrong)]
            episodes.append(Episode(FAULT_KINDS[row.kind], first, last))
            size, rate = kernels.fault_size(beam, b)
            sizes.append((float(size), float(rate)))
        log_likelihood = best + float(row.logl)
        rows.append(Row(tuple(episodes), is_open, log_likelihood, float(row.level), tuple(sizes)))
    return rows
