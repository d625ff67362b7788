"""The paper's simulation: low-rank minibatches with corrupted fibers."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np

from sensormend.bench.contestants import auto
from sensormend.bench.tables import Bar, Figures, mean_and_spread
from sensormend.errors import ConfigError
from sensormend.faults import Degraded
from sensormend.methods.base import OnlineMethod
from sensormend.methods.olrtr import OLRTR
from sensormend.recovery import Recovery
from sensormend.simulate import paper_tensor

__all__ = ["SETTINGS", "figures", "judge", "run"]

LEARNING, JUDGED = 10, 2
SETTINGS: dict[str, tuple[float, float, Bar]] = {
    "90 % observed, 5 % faulty": (0.9, 0.05, Bar(high=0.01)),
    "50 % observed, 5 % faulty": (0.5, 0.05, Bar(high=0.03)),
    "100 % observed, 30 % faulty": (1.0, 0.3, Bar(high=0.03)),
}
"""Share observed, share of faulty fibers, and what the relative error should reach."""

# The paper's rule in its simulations: rank as it is, alpha 3, a fiber is faulty where any |E| exceeds 1.
ONLINE: dict[str, Callable[[int, int], OnlineMethod]] = {
    "AutoOLRTR": lambda rank, seed: auto(seed),
    "AutoOLRTR large path": lambda rank, seed: auto(seed, large=True),
    "OLRTR": lambda rank, seed: OLRTR(rank, 3, threshold=1, seed=seed),
}


def judge(recovery: Recovery, part: Degraded) -> tuple[float, float]:
    """Return the relative error of `low_rank` on truly sound fibers (Frobenius), and F1."""
    sound = np.broadcast_to(~part.faulty[:, None, :], part.truth.shape)
    lost = np.linalg.norm((recovery.low_rank - part.truth)[sound])
    hits = np.sum(recovery.faulty & part.faulty)
    return float(lost / np.linalg.norm(part.truth[sound])), float(
        2 * hits / (recovery.faulty.sum() + part.faulty.sum())
    )


def run(method: str, setting: str, seed: int, *, size: int = 50, rank: int = 5) -> dict[str, float]:
    """Learn from ten minibatches, then judge two more."""
    if method not in ONLINE:
        raise ConfigError(f"no method {method!r} in this bench; known: {', '.join(ONLINE)}")
    observed, share, _ = SETTINGS[setting]
    model = ONLINE[method](rank, seed)
    parts = paper_tensor(size, rank, minibatches=LEARNING + JUDGED, observed=observed, share=share, seed=seed)
    judged = []
    started = perf_counter()
    for number, part in enumerate(parts):
        recovery = model.update(part.readings)
        if number >= LEARNING:
            judged.append(judge(recovery, part))
    seconds = perf_counter() - started
    return {"re": mean_and_spread([re for re, _ in judged])[0],
            "f1": mean_and_spread([f1 for _, f1 in judged])[0], "seconds": seconds}  # fmt: skip


def figures(results: list[tuple[str, str, dict[str, float]]]) -> Figures:
    """Lay out relative error and F1, AutoOLRTR beside its bar."""
    pairs = list(dict.fromkeys((method, setting) for method, setting, _ in results))
    cells = []
    for method, setting in pairs:
        runs = [found for of, at, found in results if (of, at) == (method, setting)]
        bars = {"re": SETTINGS[setting][2], "f1": Bar(low=0.99)} if method.startswith("Auto") else {}
        cells.append([(*mean_and_spread([r[name] for r in runs]), bars.get(name)) for name in ("re", "f1", "seconds")])
    return Figures(
        title="The paper's simulation",
        note=(
            f"Relative error of low_rank on truly sound fibers (Frobenius), and F1, in the {JUDGED} "
            f"minibatches after the first {LEARNING}; seconds for all of them."
        ),
        labels=("method", "setting"),
        rows=pairs,
        columns=("RE", "F1", "seconds"),
        cells=cells,
    )
