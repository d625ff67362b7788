"""AutoOLRTR (first cut of the API while the engine is measured)."""

from __future__ import annotations

import numpy as np

from sensormend.auto import engine
from sensormend.auto.memory import Model
from sensormend.auto.neighbourhoods import CORE, HALO
from sensormend.recovery import Recovery


class AutoOLRTR:
    _neighbourhood = (CORE, HALO)

    def __init__(self, *, fiber_axis=1, interval=0.9, seed=0):
        self.interval = interval
        self.model = None

    def recover(self, tensor):
        return Recovery.stack([self.update(tensor[..., d]) for d in range(tensor.shape[-1])])

    def update(self, x):
        x = np.asarray(x, float)
        C, T = x.shape
        if self.model is None:
            self.model = Model.new(1, T, self.interval, *self._neighbourhood)
            self.model.channels = self.model.channels.grown(C)
        m = self.model
        m.scales.learn(x[:, None, :])
        m.scales.collect(x[:, None, :],m.pools.period)
        engine.bend(m)
        engine.found(m, x)
        r = engine.run(m, x, learning=True)
        return Recovery(r.low_rank, r.outliers, r.spikes, r.cleaned, r.lower, r.upper, r.faulty, r.suspect, r.evaluated, r.score, r.reason, r.rounds)
