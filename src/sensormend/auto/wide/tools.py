"""Small things that NumPy and torch say differently."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from scipy.linalg import lapack

from sensormend.arrays import Array, as_like, is_tensor, namespace

__all__ = [
    "alike",
    "constant",
    "counted",
    "diagonal",
    "inverse",
    "largest",
    "masked_median",
    "ordered",
    "pick",
    "single",
    "where_true",
]

HALVED = 32
"""Members above which matrices are inverted by halves: 36 us instead of 57 for 64 members."""

SHARP = 100.0
"""One over the share of a member's variance that the others leave open, from which single precision does not do."""

RIDGE = 1e-4
"""What is added to the diagonal of a correlation matrix that rounding has made indefinite, and four times as much until
it is positive definite."""

TRIES = 12
"""How often: the last ridge outweighs all correlations."""


def single(array: Array) -> Array:
    """Return it in single precision."""
    return array.float() if is_tensor(array) else array.astype(np.float32, copy=False)


def alike(array: Array, like: Array) -> Array:
    """Return it in the precision of `like`."""
    return array.to(like.dtype) if is_tensor(array) else array.astype(like.dtype, copy=False)


def pick(array: Array, rows: Array) -> Array:
    """Return the rows of the first axis."""
    return array[rows] if is_tensor(array) else array.take(rows, axis=0)


def counted(mask: Array) -> Array:
    """Return the sums along the last axis, of what is true in single precision; in NumPy a product is the fastest."""
    weight = single(mask) if str(mask.dtype).endswith("bool") else mask
    return weight.sum(dim=-1) if is_tensor(weight) else weight @ constant("ones", np.ones(weight.shape[-1]), weight)


def largest(values: Array) -> Array:
    """Return the largest along a last axis that is short: one pass each is faster than going along it."""
    xp = namespace(values)
    found = values[..., 0]
    for place in range(1, values.shape[-1]):
        found = xp.maximum(found, values[..., place])
    return found


def where_true(mask: Array) -> Array:
    """Return the places of a flat mask that are true."""
    return namespace(mask).nonzero(mask)[0]


def ordered(values: Array) -> Array:
    """Return values from the smallest to the largest along the last axis; the input may be overwritten."""
    if is_tensor(values):
        return values.sort(dim=-1).values
    values.sort(axis=-1)
    return values


def diagonal(matrices: Array) -> Array:
    """Return the diagonals, (matrix, entry), to write to."""
    size = matrices.shape[-1]
    return matrices.reshape(matrices.shape[0], size * size)[:, :: size + 1]


def masked_median(values: Array, mask: Array) -> Array:
    """Return the median of the values in the mask along the last axis; NaN where there is none."""
    xp = namespace(values)
    inside = ordered(xp.where(mask, values, xp.inf))
    count = xp.sum(xp.asarray(mask, dtype=xp.int64), axis=-1)[..., None]
    last = xp.clip(count - 1, 0, None)
    low, high = last // 2, (last + 1) // 2
    middle = (xp.take_along_axis(inside, low, axis=-1) + xp.take_along_axis(inside, high, axis=-1)) / 2
    return xp.where(count > 0, middle, xp.nan)[..., 0]


def inverse(matrices: Array) -> Array:
    """Invert correlation matrices, (matrix, row, column), that should be positive definite.

    Where members nearly equal each other nothing is left of single precision, and double precision is taken. A matrix
    that is not positive definite gets a ridge.
    """
    xp = namespace(matrices)
    found = _inverse(xp.asarray(matrices, copy=True))
    if str(matrices.dtype).endswith("float32"):
        # Not below: NaN marks those that failed.
        spoilt = where_true(~(xp.max(diagonal(found), axis=1) < SHARP))
        found[spoilt] = alike(_inverse(xp.asarray(matrices[spoilt], dtype=xp.float64, copy=True)), found)
    for power in range(TRIES):
        bad = where_true(~xp.isfinite(xp.max(diagonal(found), axis=1)))
        if bad.shape[0] == 0:
            break
        ridged = xp.asarray(matrices[bad], dtype=xp.float64)
        diagonal(ridged)[:] += RIDGE * 4.0**power
        found[bad] = alike(_inverse(ridged), found)
    return found


def _inverse(matrices: Array) -> Array:
    """Invert symmetric matrices, which are overwritten; NaN where one is not positive definite."""
    if is_tensor(matrices):
        xp = namespace(matrices)
        factor, failed = xp.linalg.cholesky_ex(matrices)
        # On a processor torch refuses all when one is singular.
        factor[failed > 0] = xp.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device)
        found = xp.cholesky_inverse(factor)
        found[failed > 0] = xp.nan
        return found
    if matrices.shape[1] > HALVED:
        return _by_halves(matrices)
    single_ = matrices.dtype == np.float32
    factorise, invert = (lapack.spotrf, lapack.spotri) if single_ else (lapack.dpotrf, lapack.dpotri)
    for matrix in matrices:
        factor, failed = factorise(matrix.T, lower=1, clean=0, overwrite_a=1)
        if failed or invert(factor, lower=1, overwrite_c=1)[1]:
            matrix[...] = np.nan
    matrices *= _upper(matrices.shape[1])
    return matrices + matrices.transpose(0, 2, 1)


def _by_halves(matrices: Array) -> Array:
    """Invert by the inverses of half the size: batched products go faster than LAPACK on small matrices."""
    half = matrices.shape[1] // 2
    across = np.ascontiguousarray(matrices[:, half:, :half])
    first = _inverse(np.ascontiguousarray(matrices[:, :half, :half]))
    reach = across @ first
    second = _inverse(matrices[:, half:, half:] - reach @ across.transpose(0, 2, 1))
    both = second @ reach
    found = np.empty_like(matrices)
    found[:, :half, :half] = first + reach.transpose(0, 2, 1) @ both
    found[:, half:, :half] = -both
    found[:, :half, half:] = -both.transpose(0, 2, 1)
    found[:, half:, half:] = second
    return found


@lru_cache(maxsize=8)
def _upper(size: int) -> Any:
    """Return what makes a triangle half of a symmetric matrix."""
    return np.triu(np.ones((size, size), dtype=np.float32), 1) + 0.5 * np.eye(size, dtype=np.float32)


_constants: dict[tuple[object, ...], Array] = {}


def constant(name: str, values: Any, like: Array) -> Array:
    """Return a small table of numbers where `like` lives, in its precision; it is put there once."""
    key = (name, values.shape, str(like.dtype), str(like.device) if is_tensor(like) else "host")
    if key not in _constants:
        _constants[key] = alike(as_like(np.asarray(values, dtype=np.float64), like), like)
    return _constants[key]
