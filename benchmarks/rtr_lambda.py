"""Where RTR's default lambda stands: multiples of it on networks and on the paper's simulated tensors.

`python benchmarks/rtr_lambda.py [quick]`; the real data lies in `$SENSORMEND_DATA`. It takes minutes on one
core; `quick` leaves out the networks of a year, `fresh` has the cases that took no part in the choice.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np

from sensormend.bench.data import load_network, load_reference
from sensormend.methods import RTR
from sensormend.methods.rtr import default_lam
from sensormend.recovery import FloatArray, Recovery
from sensormend.simulate.degrade import Case, Degraded, degrade
from sensormend.simulate.network import paper_tensor
from sensormend.simulate.scores import score

MULTIPLES = (0.35, 0.5, 0.7, 1.0, 1.4, 2.0)


def cases(quick: bool) -> Iterator[tuple[str, Degraded]]:
    noaa = load_network("noaa")
    for fault, days in (("uniform", 364), ("mix", 364), ("uniform", 90), ("mix", 30)):
        if days < 364 or not quick:
            yield f"NOAA {days} days, {fault}", degrade(noaa[..., :days], Case(fault), seed=0)
    for size, rank, share, observed in (
        (30, 3, 0.1, 0.9),
        (50, 3, 0.05, 0.9),
        (50, 3, 0.3, 0.9),
        (50, 5, 0.05, 0.5),
    ):
        minibatch = next(paper_tensor(size, rank, minibatches=1, observed=observed, share=share, seed=0))
        yield f"cube of {size}, rank {rank}, {share:.0%} faulty, {observed:.0%} observed", minibatch
    yield "matrix, 100 x 24, rank 2", _tensor((100, 24), seed=0)
    yield "matrix, 60 x 60, rank 2", _tensor((60, 60), seed=0)
    yield "four axes, 12 each, rank 2", _tensor((12, 12, 12, 12), seed=0)


def fresh_cases() -> Iterator[tuple[str, Degraded]]:
    noaa, city = load_network("noaa"), load_network("city", sensors=60, days=120, seed=11)
    for fault in ("uniform", "mix"):
        yield f"NOAA, the last 180 days, {fault}", degrade(noaa[..., 180:360], Case(fault), seed=7)
        yield f"city of 60, {fault}", degrade(city, Case(fault), seed=3)
    yield "cube of 40, rank 4, 15% faulty", next(paper_tensor(40, 4, minibatches=1, share=0.15, seed=9))
    yield "matrix, 80 x 48, rank 2", _tensor((80, 48), seed=5)
    yield "four axes, 10 x 14 x 9 x 11, rank 2", _tensor((10, 14, 9, 11), seed=5)


def _tensor(shape: tuple[int, ...], seed: int) -> Degraded:
    """Like the paper's tensors, with any number of axes."""
    random = np.random.default_rng(seed)
    truth: FloatArray = random.normal(1, 1, (2,) * len(shape))
    for length in shape:
        factor = np.linalg.qr(random.normal(0, 1, (length, 2)))[0]
        truth = np.tensordot(truth, factor, axes=([0], [1]))
    faulty = random.random((shape[0], *shape[2:])) < 0.05
    readings = np.where(faulty[:, None], random.uniform(-2, 2, shape), truth)
    readings[random.random(shape) < 0.1] = np.nan
    return Degraded.by_day(readings, truth, np.where(faulty, "uniform", ""))


def formatted_scores(name: str, result: Recovery, case: Degraded) -> str:
    if name.startswith(("NOAA", "city")):
        scores = score(result, case)
        return f"{scores.f1:.2f} {scores.missing:.2f}"
    hits = int(np.sum(result.faulty & case.faulty))
    f1 = 2 * hits / max(1, int(result.faulty.sum() + case.faulty.sum()))
    sound = np.broadcast_to(~case.faulty[:, None], case.truth.shape)
    error = np.linalg.norm((result.expected - case.truth)[sound]) / np.linalg.norm(case.truth[sound])
    return f"{f1:.2f} {error:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("which", nargs="?", choices=("quick", "fresh"))
    which = parser.parse_args().which
    fresh, quick = which == "fresh", which is not None
    print(" | ".join(("case", "lambda", *(f"x {multiple}" for multiple in MULTIPLES))))
    for name, case in fresh_cases() if fresh else cases(quick):
        lam = default_lam(np.moveaxis(np.isnan(case.readings), 1, 0))
        row = [formatted_scores(name, RTR(lam * multiple).recover(case.readings), case) for multiple in MULTIPLES]
        print(" | ".join((name, f"{lam:.2f}", *row)), flush=True)
    if not quick:
        aot, station = load_network("aot"), np.moveaxis(load_reference(), -1, 0).ravel()
        lam = default_lam(np.moveaxis(np.isnan(aot), 1, 0))
        row = []
        for multiple in MULTIPLES:
            result = RTR(lam * multiple).recover(aot)
            lines = np.moveaxis(result.expected, 2, 1).reshape(len(aot), -1)
            r = np.mean([np.corrcoef(line, station)[0, 1] for line in lines])
            row.append(f"{result.faulty.mean():.1%} {r:.3f}")
        print(" | ".join(("Array of Things, a year", f"{lam:.2f}", *row)), flush=True)


if __name__ == "__main__":
    main()
