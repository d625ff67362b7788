"""Readings that the tests of the published methods share, and how a recovery is held against an oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracles.methods import Matrix
from sensormend.methods.base import Method
from sensormend.recovery import Recovery
from sensormend.simulate.degrade import Case, degrade
from sensormend.simulate.scores import DROPPED, paper_scores

__all__ = ["SHAPES", "Floats", "compare", "low_rank_tensor", "periods", "readings", "relative_error"]

Floats = NDArray[np.float64]
SHAPES: list[tuple[tuple[int, ...], int]] = [((6, 5, 7), 1), ((4, 2, 5, 6), 2), ((7, 1, 9), 1)]
"""Shapes of whole tensors, periods last, with their slot axis: the second has two variables."""


def low_rank_tensor(shape: tuple[int, ...], seed: int, missing: float = 0.15, faulty: float = 0.1) -> Floats:
    """Rank two, a tenth of the fibers along axis 1 (0 if there is only one) spoilt, some entries missing."""
    random = np.random.default_rng(seed)
    tensor: Floats = random.normal(1, 1, (2,) * len(shape))
    for length in shape:
        tensor = np.tensordot(tensor, random.normal(0, 1, (2, length)), axes=([0], [0]))
    spoilt = random.random((shape[0], 1, *shape[2:])) < faulty
    tensor = np.where(spoilt, random.uniform(-9, 9, shape), tensor)
    tensor[random.random(shape) < missing] = np.nan
    return tensor


def readings(shape: tuple[int, ...], seed: int, missing: float = 0.15) -> Floats:
    """Draw low-rank readings with faults and gaps; where there is one variable, one sensor begins late.

    Another is silent for one period.
    """
    tensor = low_rank_tensor(shape, seed, missing)
    if missing:
        tensor[1, ..., 3] = np.nan
        if len(shape) == 3:
            tensor[2, ..., :2] = np.nan
    return tensor


def periods(tensor: Floats) -> list[Floats]:
    return [tensor[..., period] for period in range(tensor.shape[-1])]


def compare(recovery: Recovery, expected: list[Matrix] | list[Any], atol: float = 1e-8) -> None:
    """Assert that low-rank part and outliers are those of the oracle, and that these are worth comparing."""
    X, E = (np.stack([parts[which] for parts in expected], axis=-1) for which in (0, 1))
    assert np.abs(X).max() > 0.1
    assert np.abs(E).max() > 0.1
    np.testing.assert_allclose(recovery.expected, X, rtol=0, atol=atol)
    np.testing.assert_allclose(recovery.outliers, E, rtol=0, atol=atol)


def relative_error(model: Method, truth: Floats, seed: int) -> float:
    """Return the RE (Frobenius, truly faulty fibers left out) among the paper's faults, with nothing missing."""
    case = degrade(truth, Case("uniform", observed=1.0), seed)
    return paper_scores(model.recover(case.readings), case, dropped=DROPPED)["re"]
