"""`line_up` returns the methods that the benches compare, with their authors' settings, and two plain rules."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.ndimage import median_filter

from sensormend.bench.measure import measured
from sensormend.errors import ConfigError
from sensormend.methods.base import Method, OnlineMethod
from sensormend.methods.grasta import GRASTA
from sensormend.methods.interpolation import as_series, from_series, interpolate
from sensormend.methods.olrsc import OLRSC
from sensormend.methods.olrtr import OLRTR
from sensormend.methods.orltm import ORLTM
from sensormend.methods.ostd import OSTD
from sensormend.methods.rtr import RTR
from sensormend.methods.stoc_rpca import StocRPCA
from sensormend.methods.trpca import TRPCA
from sensormend.model.network_model import NetworkModel
from sensormend.recovery import BoolArray, FloatArray, Recovery
from sensormend.tensor import as_readings

__all__ = ["BuddyCheck", "Contestant", "RollingMedian", "chosen", "line_up", "measure_contestant",
           "run_contestant"]  # fmt: skip

AS_NORMAL = 1.4826
"""Factor from the median absolute deviation to the standard deviation of normal numbers."""
SIGMAS = 3.0
HALF_DAY = 0.5
"""A fiber is faulty when half of its readings are beyond the limit."""


class RollingMedian:
    """Compare each reading with the median of the readings around it; fill gaps by linear interpolation.

    A reading farther than three (robust) standard deviations of that sensor's distances from its rolling median is an
    outlier; a fiber half of whose readings are outliers is faulty. Each sensor is judged alone, so that a fault that
    lasts longer than the window of so many `slots`, an offset or a stuck value, moves the median and is not detected.
    """

    def __init__(self, slots: int = 25) -> None:
        self.slots = slots

    def recover(self, tensor: ArrayLike) -> Recovery:
        """Judge the whole tensor (sensor, slot, day), then interpolate."""
        readings = as_readings(tensor, min_axes=3)
        line = as_series(readings, 1)[:, 0]
        closed = interpolate(line)
        distance = np.abs(line - median_filter(closed, size=(1, self.slots), mode="nearest"))
        excess = distance / _limit(distance)
        return _verdict(readings, excess, lambda wrong: interpolate(np.where(wrong, np.nan, line)))


class BuddyCheck:
    """Compare each reading with an estimate from the most correlated sensors; fill gaps with that estimate.

    The number of a sensor's `buddies` is given; they are those most correlated with it over the whole time. Their
    estimate is the median of their readings, each shifted by its usual distance. A reading farther from it than three
    (robust) standard deviations is an outlier; a fiber half of whose readings are outliers is faulty.
    """

    def __init__(self, buddies: int = 5) -> None:
        self.buddies = buddies

    def recover(self, tensor: ArrayLike) -> Recovery:
        """Judge the whole tensor (sensor, slot, day), then fill from the buddies, or by interpolation without any."""
        readings = as_readings(tensor, min_axes=3)
        line = as_series(readings, 1)[:, 0]
        estimate = self._estimate(line)
        distance = np.abs(line - estimate)
        excess = distance / _limit(distance)
        return _verdict(readings, excess, lambda wrong: np.where(wrong | np.isnan(line), estimate, line))

    def _estimate(self, line: FloatArray) -> FloatArray:
        closed = interpolate(line)
        # Rank correlation is robust to a few outliers.
        ranked = closed.argsort(axis=1).argsort(axis=1)
        with np.errstate(invalid="ignore"):
            alike = np.corrcoef(ranked) if line.shape[1] > 1 else np.zeros((len(line), len(line)))
        alike = np.nan_to_num(np.atleast_2d(alike))
        np.fill_diagonal(alike, -np.inf)
        estimate = closed.copy()
        for sensor in range(len(line)):
            best = np.argsort(-alike[sensor])[: min(self.buddies, len(line) - 1)]
            if best.size:
                shift = np.median(closed[sensor] - closed[best], axis=1, keepdims=True)
                estimate[sensor] = np.median(closed[best] + shift, axis=0)
        return estimate


def _limit(distance: FloatArray) -> FloatArray:
    """Return three robust standard deviations of every sensor's distances, (sensor, 1)."""
    known = np.where(np.isnan(distance).all(axis=1, keepdims=True), 0.0, distance)
    usual = np.nanmedian(known, axis=1, keepdims=True)
    limit: FloatArray = np.maximum(SIGMAS * AS_NORMAL * usual, 1e-9)
    return limit


def _verdict(readings: FloatArray, excess: FloatArray, fill: Callable[[BoolArray], FloatArray]) -> Recovery:
    """Return a `Recovery` from the excess of each reading over its limit; `fill` replaces the readings judged wrong."""
    by_slot = from_series(excess[:, None], readings.shape, 1)
    observed = np.isfinite(readings)
    evaluated: BoolArray = np.any(observed, axis=1)
    score = np.nanquantile(np.where(evaluated[:, None], by_slot, 0.0), HALF_DAY, axis=1)
    faulty = score > 1
    beyond = observed & (np.nan_to_num(by_slot) > 1)
    wrong = observed & (beyond | faulty[:, None])
    flat = np.moveaxis(wrong, 1, -1).reshape(len(wrong), -1)
    estimate = from_series(fill(flat)[:, None], readings.shape, 1)
    return replace(
        Recovery.unjudged(readings, 1),
        expected=estimate,
        outliers=np.where(wrong, readings - estimate, 0.0),
        wrong=wrong,
        spikes=beyond & ~faulty[:, None],
        cleaned=np.where(observed & ~wrong, readings, estimate),
        lower=None,
        upper=None,
        faulty=faulty,
        evaluated=evaluated,
        score=score,
        iterations=1,
    )


NOAA_COLUMNS, AOT_COLUMNS = 8736, 8760
MINIBATCHES = 20
"""STOC-RPCA's weights depend on the number of columns: in the simulations this multiple of size squared."""
CLOSED = "gaps are closed by straight lines first"


@dataclass(frozen=True)
class Contestant:
    """A method with its settings; one row of the tables.

    Attributes
    ----------
    make
        Returns a new model for a seed.
    kind
        ours (NetworkModel), online, batch or plain (a simple rule).
    passes
        Number of passes over the data in its paper.
    note
        A note for the tables.
    cost
        Approximate microseconds per reading, for the time left.
    zeros
        Whether missing readings are passed as zeros.
    """

    name: str
    make: Callable[[int], Method]
    kind: str
    cost: float
    passes: int = 1
    note: str = ""
    zeros: bool = False

    @property
    def online(self) -> bool:
        """Return whether it takes minibatches in order."""
        return self.kind in ("ours", "online")


def line_up(where: str, rank: int = 3, size: int = 50) -> dict[str, Contestant]:
    """Return the contestants of `noaa`, `aot`, `faults` or `simulated` (of this rank and size), by name."""
    if where == "simulated":
        published = _simulated(rank, size)
    elif where == "aot":
        published = _aot()
    elif where in ("noaa", "faults"):
        published = _noaa(all_settings=where == "noaa")
    else:
        raise ValueError(f"no line-up for {where!r}")
    ours = Contestant("NetworkModel", lambda seed: NetworkModel(seed=seed), "ours", 14)
    plain = [
        Contestant("rolling median", lambda seed: RollingMedian(), "plain", 0.5, note="25 h, 3 sigma, straight lines"),
        Contestant(
            "buddy check", lambda seed: BuddyCheck(), "plain", 0.5, note="the 5 most correlated sensors, 3 sigma"
        ),
    ]
    return {contestant.name: contestant for contestant in (ours, *published, *plain)}


def chosen(names: str, where: str) -> list[str]:
    """Return the contestants that a comma-separated list names.

    A name stands for all its settings (`OLRTR` for each rank), `all` for every contestant.
    """
    all_names = list(line_up(where))
    chosen_names: list[str] = []
    for name in (part.strip() for part in names.split(",")):
        matches = [known for known in all_names if name in ("all", known) or known.startswith(f"{name} ")]
        if not matches:
            raise ConfigError(f"no method {name!r}; known: all, {', '.join(all_names)}")
        chosen_names += [match for match in matches if match not in chosen_names]
    return chosen_names


def run_contestant(
    contestant: Contestant, minibatches: Sequence[FloatArray], seed: int, *, passes: int | None = None
) -> Recovery:
    """Run a contestant over consecutive minibatches, (sensor, slot) or (sensor, slot, period), and join the results.

    A batch method gets them joined. Two passes go forward twice; three go forward, backward with the slots reversed
    too, and forward again, a period at a time, as OLRTR's authors do on the Array of Things. NetworkModel always goes
    forward, since it models how readings follow each other in time.
    """
    if contestant.zeros:
        minibatches = [np.nan_to_num(part) for part in minibatches]
    single = minibatches[0].ndim == 2
    joined = (np.stack if single else np.concatenate)(list(minibatches), axis=-1)
    model = contestant.make(seed)
    turns = contestant.passes if passes is None else passes
    if not isinstance(model, OnlineMethod):
        return model.recover(joined)
    if turns == 1:
        results = [model.update(part) for part in minibatches]
        return Recovery.stack(results) if single else Recovery.concatenate(results)
    for turn in range(turns):
        back = turn % 2 == 1 and turn < turns - 1 and contestant.kind != "ours"
        recovery = model.recover(joined[:, ::-1, ::-1] if back else joined)
    return recovery


def measure_contestant(
    contestant: Contestant, minibatches: Sequence[FloatArray], seed: int, *, passes: int | None = None
) -> tuple[Recovery, dict[str, float]]:
    """Run a contestant as `run_contestant` does; return also the columns of its cost."""
    with measured() as cost:
        recovery = run_contestant(contestant, minibatches, seed, passes=passes)
    return recovery, {"seconds": cost.seconds, "peak_mb": cost.peak_mb}


def _noaa(*, all_settings: bool) -> list[Contestant]:
    # Rank 3 is what OLRTR's authors run, rank 20 what their paper says of all methods; OSTD's own paper has rank 10.
    usual = [
        Contestant("OLRTR r20", lambda seed: OLRTR(20, 70, seed=seed), "online", 20, note="the paper's settings"),
        Contestant("OLRTR r3", lambda seed: OLRTR(3, 330, tol=1e-3, max_iter=10, seed=seed), "online", 2,
                   note="the authors' settings"),
    ]  # fmt: skip
    jacobi = [
        Contestant("OLRTR r20 Jacobi", lambda seed: OLRTR(20, 70, dictionary_update="jacobi", seed=seed), "online", 20,
                   note="the paper's settings with the sweep of the authors' code"),
        Contestant("OLRTR r3 Jacobi",
                   lambda seed: OLRTR(3, 330, tol=1e-3, max_iter=10, dictionary_update="jacobi", seed=seed),
                   "online", 2, note="the authors' settings and sweep"),
    ]  # fmt: skip
    online = [
        Contestant("ORLTM", lambda seed: ORLTM(20, seed=seed), "online", 60, note=f"a reconstruction; {CLOSED}"),
        Contestant("StocRPCA", lambda seed: StocRPCA(20, columns=NOAA_COLUMNS, seed=seed), "online", 25, note=CLOSED),
        Contestant("OSTD", lambda seed: OSTD(10, seed=seed), "online", 4, note=CLOSED),
        Contestant("OLRSC", lambda seed: OLRSC(20, seed=seed), "online", 30, note=CLOSED),
        Contestant("OLRSC 2 epochs", lambda seed: OLRSC(20, seed=seed), "online", 30, 2, f"as its paper; {CLOSED}"),
        Contestant("GRASTA r5", lambda seed: GRASTA(5, seed=seed), "online", 15),
        Contestant("GRASTA r20", lambda seed: GRASTA(20, seed=seed), "online", 20),
    ]
    batch = [
        Contestant("RTR", lambda seed: RTR(), "batch", 30, note="lambda from the data's shape"),
        Contestant("TRPCA", lambda seed: TRPCA(), "batch", 30, note=CLOSED),
    ]
    if not all_settings:
        twice = ("OLRSC 2 epochs", "GRASTA r20")
        return [*usual, *(contestant for contestant in online if contestant.name not in twice), *batch]
    ostd = next(contestant for contestant in online if contestant.name == "OSTD")
    zeros = replace(ostd, name="OSTD gaps as 0", note="handed 0 for a gap", zeros=True)
    fixed = Contestant("RTR 0.75", lambda seed: RTR(0.75), "batch", 30, note="lambda 0.75")
    return [*usual, *jacobi, *online, zeros, batch[0], fixed, batch[1]]


def _aot() -> list[Contestant]:
    three = "three passes"
    return [
        Contestant("OLRTR", lambda seed: OLRTR(3, 370, tol=1e-3, max_iter=50, seed=seed), "online", 5, 3, three),
        Contestant("ORLTM", lambda seed: ORLTM(3, seed=seed), "online", 60, 3, f"a reconstruction; {three}; {CLOSED}"),
        Contestant("StocRPCA", lambda seed: StocRPCA(3, columns=AOT_COLUMNS, seed=seed), "online", 25, 3,
                   f"{three}; {CLOSED}"),
        Contestant("OSTD", lambda seed: OSTD(10, seed=seed), "online", 4, 3, f"{three}; {CLOSED}"),
        Contestant("OLRSC", lambda seed: OLRSC(3, seed=seed), "online", 30, 3, f"{three}; {CLOSED}"),
        Contestant("GRASTA", lambda seed: GRASTA(3, seed=seed), "online", 15, 3, three),
        Contestant("RTR", lambda seed: RTR(), "batch", 30, note="lambda from the data's shape"),
        Contestant("TRPCA", lambda seed: TRPCA(), "batch", 30, note=CLOSED),

    ]  # fmt: skip


def _simulated(rank: int, size: int) -> list[Contestant]:
    # The paper's rule in its simulations: the true rank, alpha 3, a fiber is faulty where any |E| exceeds 1.
    limit = 1.0
    # Small tensors need more than the default finds, and more than the 1 / (0.03 size) of RTR's authors. Tuned on one
    # draw of 15 minibatches for each of 10, 20, 30 and 50: this is near the best of them all.
    lam = 2 / math.sqrt(size)
    return [
        Contestant("OLRTR", lambda seed: OLRTR(rank, 3, threshold=limit, seed=seed), "online", 0.3),
        Contestant("ORLTM", lambda seed: ORLTM(rank, threshold=limit, seed=seed), "online", 1,
                   note=f"a reconstruction; {CLOSED}"),
        Contestant("StocRPCA", lambda seed: StocRPCA(rank, columns=MINIBATCHES * size**2, threshold=limit, seed=seed),
                   "online", 12, note=CLOSED),
        Contestant("OSTD", lambda seed: OSTD(rank, threshold=limit, seed=seed), "online", 0.8, note=CLOSED),
        Contestant("OLRSC", lambda seed: OLRSC(rank, threshold=limit, seed=seed), "online", 6, note=CLOSED),
        Contestant("GRASTA", lambda seed: GRASTA(rank, threshold=limit, seed=seed), "online", 8),
        Contestant("RTR", lambda seed: RTR(lam, threshold=limit), "batch", 8, note="lambda 2 / sqrt(I), tuned"),
        Contestant("TRPCA", lambda seed: TRPCA(threshold=limit), "batch", 60, note=CLOSED),

    ]  # fmt: skip
