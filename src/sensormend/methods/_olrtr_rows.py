"""OLRTR on the rows of one part of a minibatch: all that is local to a sensor, in blocks that stay in the cache.

The rows are the first mode; fibers lie along the last axis. The first mode's products L_0'Z are summed outside, over
the parts; so are the norms. What comes from outside is small: the other modes, and R_0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_blas_funcs

from sensormend.methods._olrtr_history import History
from sensormend.methods._olrtr_modes import LocalMode, Solver
from sensormend.methods._olrtr_sums import Beginning, Ending, Lesson, Sums
from sensormend.methods._workspace import Workspace
from sensormend.recovery import FloatArray

__all__ = ["Rows"]

BLOCK_BYTES = 192 * 1024
"""Of one array in a block: with four or five of them a block stays in a second-level cache of 1 MB."""

QUIET_FROM = 4096
"""Fewer rows than this are not worth the search for quiet ones."""


class Rows:
    """The rows of one part, from the first look at the readings to what is learned from them.

    Parameters
    ----------
    readings
        C-ordered, NaN where missing; never written to.
    L, D
        The rows of the first mode's dictionary and of its D.
    threshold
        lambda2 / N: fibers of C up to this norm are no outliers.
    spectral
        Sum the Gram matrices of the change in R.
    space
        Memory to use again.
    """

    _one_block = False

    def __init__(
        self, readings: Any, L: Any, D: Any, *, threshold: float, spectral: bool = False, space: Workspace | None = None
    ) -> None:
        self._space = Workspace() if space is None else space
        self._readings, self._dictionary, self._D = readings, L, D
        self._threshold, self._spectral = threshold, spectral
        self._dtype, self._shape = readings.dtype, readings.shape
        self._slots, self._width = readings.shape[-1], math.prod(readings.shape[1:])
        per_block = max(1, BLOCK_BYTES // (self._width * readings.itemsize))
        blocks = 1 if self._one_block else -(-len(readings) // per_block)
        self._per_block = -(-len(readings) // blocks)
        self._gemm = get_blas_funcs("gemm", (np.empty((1, 1), self._dtype),))
        self._scratch = [np.empty((self._per_block, *readings.shape[1:]), self._dtype) for _ in range(2)]
        # All rows at first. Later only the busy ones; the quiet ones are sound and whole, so that Z = B there.
        self._B, self._L = readings, L
        self._rows: NDArray[np.intp] | None = None
        self._quiet: list[tuple[FloatArray, float]] = []
        self._quiet_product: Any = 0.0
        self._norms: FloatArray | None = None
        self._history: History | None = None

    def begin(self) -> Beginning:
        """Look at the readings once."""
        squares, found, marks = 0.0, [], [0]
        self._Z = self._space.take("Z", self._shape, self._dtype)
        for block in self._blocks(len(self._readings)):
            values = self._readings[block]
            gaps = np.flatnonzero(np.isnan(values.reshape(-1)))
            filled = self._filled(values, gaps, out=self._Z[block]).reshape(-1)
            squares += float(filled @ filled)
            found.append(gaps)
            marks.append(marks[-1] + len(gaps))
        # Places counted from the start of their block, and where each block's begin.
        self._gaps, self._marks = np.concatenate(found), np.array(marks)
        return Beginning(squares, np.asarray(self._dictionary.T @ self._dictionary, dtype=np.float64))

    def prepare(self, solvers: Sequence[Solver], *, depth: int = 0) -> FloatArray | None:
        """Take the other modes, and start: from E = 0 where `depth` steps are remembered, and then L_0'Z is returned.

        The published iterations start from R = 0 and E = 0, which no Z has both; their first step knows.
        """
        cast = _caster(self._dtype)
        self._modes = [LocalMode(self._shape, i + 1, solver, cast) for i, solver in enumerate(solvers)]
        self._fresh = depth == 0
        if self._fresh:
            return None
        product: Any = 0.0
        for block, gaps in self._blocks_and_gaps():
            Z = self._Z[block]
            if len(gaps):
                # A gap starts at the mean of its fiber, far nearer than 0.
                fibers = gaps // self._slots
                present = self._slots - np.bincount(fibers, minlength=Z.size // self._slots)
                means = Z.reshape(-1, self._slots).sum(axis=1) / np.maximum(present, 1)
                Z.reshape(-1)[gaps] = means[fibers]
            product = product + (self._L[block].T @ Z.reshape(len(Z), -1)).astype(np.float64)
        gaps = self._flat_gaps()
        self._history = History(gaps, self._Z.reshape(-1)[gaps], self._Z.size // self._slots, depth)
        return np.asarray(product)

    def step(self, shared: FloatArray | None, mixing: FloatArray | None = None, limit: float = math.inf) -> Sums:
        """Do one iteration; `shared` is R_0' / N of the Z so far, None for the first published one.

        With a change of E beyond `limit` nobody asks for that of R, and what stands for it is any number beyond.
        """
        if self._history is not None:
            self._history.mix(self._Z.reshape(-1), mixing)
        if shared is not None:
            self._set_quiet_aside(shared)
        now = None if shared is None else shared.astype(self._dtype)
        product, change_E = np.zeros((self._L.shape[1], self._width)), 0.0
        change_R: list[Any] = [0.0 for _ in self._modes]
        norms_seen, outliers = [], []
        for block, gaps in self._blocks_and_gaps():
            B, Z = self._B[block], self._Z[block]
            C = self._residual(B, Z, gaps, self._L[block], now)
            flat = C.reshape(-1)
            estimates = flat[gaps]
            flat[gaps] = 0
            fibers = C.reshape(-1, self._slots)
            norms = np.sqrt(np.einsum("ij,ij->i", fibers, fibers))
            norms_seen.append(norms)
            after = self._filled(B, gaps, out=self._scratch[1][: len(B)])
            # This is max(0, 1 - threshold / norm), without a 0 / 0 where a fiber of C is 0.
            factors = 1 - self._threshold / np.maximum(norms, self._threshold)
            active = np.flatnonzero(factors)
            if len(active) * 4 < len(norms):
                after.reshape(-1, self._slots)[active] -= fibers[active] * factors[active, None]
            else:
                fibers *= factors[:, None]
                after -= C
            after.reshape(-1)[gaps] = -estimates
            if self._fresh:
                change_E += float(np.square(norms * factors).sum())
                np.copyto(C, after)
            else:
                np.subtract(after, Z, out=C)
            for i, mode in enumerate(self._modes):
                coefficients = mode.coefficients(C)
                whole = coefficients.reshape(-1)
                change_R[i] = change_R[i] + (self._gram(mode, coefficients) if self._spectral else float(whole @ whole))
            if not self._fresh:
                flat[gaps] = 0
                change_E += float(flat @ flat)
            np.copyto(Z, after)
            product += self._L[block].T @ after.reshape(len(after), -1)
            active += block.start * (self._width // self._slots)
            outliers.append(active)
        self._fresh = False
        self._norms, self._reference, self._active = np.concatenate(norms_seen), shared, np.concatenate(outliers)
        mixed = None
        if self._history is not None:
            mixed = self._history.after(self._Z.reshape(-1), self._B.reshape(-1), self._active, self._slots)
        return Sums(product + self._quiet_product, change_E, change_R, mixed)

    def finish(self, lesson: Lesson, modes: int) -> Ending:
        """Write the result, and learn: once over the rows."""
        self._wake_all()
        shared, R = (lesson.R / modes).astype(self._dtype), lesson.R.astype(self._dtype)
        A_tilde, inverse = (matrix.astype(self._dtype) for matrix in (lesson.A_tilde, lesson.inverse))
        X, E, cleaned = (self._space.lend(name, self._shape, self._dtype) for name in ("X", "E", "cleaned"))
        L, D = (self._space.lend(name, self._dictionary.shape, self._dtype) for name in ("L", "D"))
        others: list[list[Any]] = [[0.0, 0.0] for _ in self._modes]
        sound = True
        for block, gaps in self._blocks_and_gaps():
            B, Z = self._B[block], self._Z[block]
            C = self._residual(B, Z, gaps, self._L[block], shared)
            all_R = [mode.coefficients(Z) for mode in self._modes]
            Z.reshape(-1)[gaps] = 0
            for learned, mode, coefficients in zip(others, self._modes, all_R, strict=True):
                learned[0] = learned[0] + self._gram(mode, coefficients)
                learned[1] = learned[1] + mode.contract(mode.seen(Z), coefficients).astype(np.float64)
            np.add(self._D[block], Z.reshape(len(Z), -1) @ R.T, out=D[block])
            residual = D[block] - self._dictionary[block] @ A_tilde
            np.add(self._dictionary[block], residual @ inverse, out=L[block])
            filled = self._filled(B, gaps, out=cleaned[block])
            estimate = np.subtract(filled, C, out=X[block])
            filled.reshape(-1)[gaps] = estimate.reshape(-1)[gaps]
            sound = sound and _is_finite(estimate) and _is_finite(L[block]) and _is_finite(D[block])
        E.fill(0)
        largest = np.zeros(self._shape[:-1], self._dtype)
        # Z is B less E where there is a reading, and was set to 0 where there is none.
        outliers = self._fibers(self._B)[self._active]
        outliers[np.isnan(outliers)] = 0
        outliers -= self._fibers(self._Z)[self._active]
        self._fibers(E)[self._active] = outliers
        largest.reshape(-1)[self._active] = np.abs(outliers).max(axis=1, initial=0)
        return Ending(X, E, cleaned, largest, L, D, [(A, part) for A, part in others], sound and _is_finite(outliers))

    def _residual(self, B: Any, Z: Any, gaps: Any, L: Any, shared: Any) -> Any:
        """B - X in the first scratch, with -X where missing; X is 0 for `shared` None."""
        C = self._filled(B, gaps)
        if shared is None:
            return C
        for mode in self._modes:
            if mode.last:
                self._subtract(C.reshape(-1, self._slots), mode.seen(Z), mode)
            elif mode.P is not None:
                C -= (mode.P @ mode.seen(Z)).reshape(C.shape)
            else:
                C -= (mode.share @ (mode.G @ mode.seen(Z))).reshape(C.shape)
        flat = C.reshape(len(C), -1)
        # In BLAS's own order of columns, so that C is added to in place.
        self._gemm(-1.0, shared.T, L.T, 1.0, flat.T, overwrite_c=True)
        return C

    def _subtract(self, C: Any, Z: Any, mode: LocalMode) -> None:
        if mode.P is not None:
            self._gemm(-1.0, mode.P, Z.T, 1.0, C.T, overwrite_c=True)
        else:
            self._gemm(-1.0, mode.share, (Z @ mode.G.T).T, 1.0, C.T, overwrite_c=True)

    def _fibers(self, tensor: Any) -> Any:
        return tensor.reshape(-1, self._slots)

    def _filled(self, values: Any, gaps: Any, out: Any = None) -> Any:
        """Copy a block with 0 where missing."""
        out = self._scratch[0][: len(values)] if out is None else out
        np.copyto(out, values)
        out.reshape(-1)[gaps] = 0
        return out

    def _gram(self, mode: LocalMode, coefficients: Any) -> FloatArray:
        gram: FloatArray = mode.contract(coefficients, coefficients).astype(np.float64)
        return gram

    # Quiet rows.

    def _set_quiet_aside(self, shared: FloatArray) -> None:
        """Leave out rows that are sound, whole, and too far from the threshold for R_0 to move them over it.

        In such a row Z is B and C moves with R_0 alone, by at most |l| |change of R_0 / N|, l its row of L_0. That
        holds as long as R_0 stays within a radius of where it was then; past it all rows are woken.
        """
        if any(np.linalg.norm(shared - reference) >= radius for reference, radius in self._quiet):
            self._wake_all()
            return
        again = self._history is not None and self._rows is not None
        if again or len(self._B) < QUIET_FROM or self._norms is None or self._reference is None:
            return
        largest = self._norms.reshape(len(self._B), -1).max(axis=1)
        # Convergence at the rate of one half moves R_0 by what it moved last, all in all.
        least = 3 * float(np.linalg.norm(shared - self._reference))
        quiet = largest < self._threshold * (1 - 1e-6)
        quiet[(self._flat_gaps() if self._history is None else self._history.cells) // self._width] = False
        if np.count_nonzero(quiet) * 4 < len(quiet):
            return
        lengths = np.sqrt(np.einsum("ij,ij->i", self._L, self._L))
        reach = (self._threshold - largest) / np.maximum(lengths, np.finfo(self._dtype).tiny)
        quiet &= reach > least
        if np.count_nonzero(quiet) * 4 < len(quiet):
            return
        self._quiet.append((self._reference, float(reach[quiet].min())))
        self._keep(~quiet)

    def _keep(self, busy: NDArray[np.bool_]) -> None:
        """Go on with the busy rows alone."""
        total: Any = 0.0
        for block in self._blocks(len(self._B)):
            quiet = np.flatnonzero(~busy[block])
            part = self._B[block].reshape(-1, self._width)[quiet]
            total = total + (self._L[block][quiet].T @ part).astype(np.float64)
        self._quiet_product = self._quiet_product + total
        if self._rows is None:
            # In the rows that are left out Z is B already.
            self._whole = (self._B, self._L, self._Z, self._gaps, self._marks)
        else:
            self._whole[2][self._rows] = self._Z
        rows, gaps, place = np.flatnonzero(busy), self._flat_gaps(), np.cumsum(busy) - 1
        self._rows = rows if self._rows is None else self._rows[rows]
        # Two sets by turns: rows may be left out of those that are left.
        turn = len(self._quiet) % 2
        self._B, self._L, self._Z = (
            self._space.rows(f"{name}{turn}", array, rows)
            for name, array in (("busy B", self._B), ("busy L", self._L), ("busy Z", self._Z))
        )
        gaps = place[gaps // self._width] * self._width + gaps % self._width
        edges = np.arange(-(-len(rows) // self._per_block) + 1) * (self._per_block * self._width)
        self._marks = np.searchsorted(gaps, edges)
        self._gaps = gaps - np.repeat(edges[:-1], np.diff(self._marks))
        if self._history is not None:
            self._history.move(place, self._width, lambda flags: flags.reshape(len(busy), -1)[rows].reshape(-1))
        self._norms = None

    def _wake_all(self) -> None:
        if self._rows is None:
            return
        rows, each = self._rows, self._width // self._slots
        self._B, self._L, Z, self._gaps, self._marks = self._whole
        Z[rows] = self._Z
        self._Z = Z
        self._active = rows[self._active // each] * each + self._active % each
        if self._history is not None:

            def spread(flags: NDArray[np.bool_]) -> NDArray[np.bool_]:
                whole = np.zeros((len(Z), each), dtype=bool)
                whole[rows] = flags.reshape(len(rows), each)
                return whole.reshape(-1)

            self._history.move(rows, self._width, spread)
        self._rows, self._quiet, self._quiet_product, self._norms = None, [], 0.0, None

    # Blocks.

    def _flat_gaps(self) -> NDArray[np.intp]:
        starts = np.arange(len(self._marks) - 1) * (self._per_block * self._width)
        flat: NDArray[np.intp] = self._gaps + np.repeat(starts, np.diff(self._marks))
        return flat

    def _blocks(self, rows: int) -> Iterator[slice]:
        for first in range(0, rows, self._per_block):
            yield slice(first, min(first + self._per_block, rows))

    def _blocks_and_gaps(self) -> Iterator[tuple[slice, NDArray[np.intp]]]:
        for number, block in enumerate(self._blocks(len(self._B))):
            yield block, self._gaps[self._marks[number] : self._marks[number + 1]]


def _caster(dtype: Any) -> Any:
    return lambda matrix: np.ascontiguousarray(matrix, dtype=dtype)


def _is_finite(values: Any) -> bool:
    flat = values.reshape(-1)
    # One product is enough unless it overflows.
    return math.isfinite(float(flat @ flat)) or bool(np.isfinite(values).all())
