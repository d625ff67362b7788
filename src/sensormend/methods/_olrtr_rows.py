"""OLRTR on the rows of one part of a minibatch: all that is local to a sensor, in blocks that stay in the cache.

The rows are the first mode; fibers lie along the last axis. The first mode's products L_0'Z are summed outside, over
the parts; so are the norms. What comes from outside is small: the other modes, and R_0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sensormend.methods._olrtr import Beginning, Ending, Lesson, Sums
from sensormend.methods._olrtr_history import History
from sensormend.methods._olrtr_modes import LocalMode, Solver, gathered
from sensormend.recovery import FloatArray

__all__ = ["Rows", "Workspace"]

BLOCK_BYTES = 192 * 1024
"""Of one array in a block: with four or five of them a block stays in a second-level cache of 1 MB."""

ONE_BLOCK_BYTES = 2 << 20
"""Of a minibatch that goes by as one block: 50 x 50 x 50 takes a quarter longer in several."""

QUIET_FROM = 4096
"""Fewer rows than this are not worth the search for quiet ones."""


class Workspace:
    """Large arrays that a model uses again in every minibatch, and never hands out: fresh memory costs time."""

    def __init__(self) -> None:
        self._kept: dict[str, NDArray[Any]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave the memory behind when a model is copied or sent."""
        return Workspace, ()

    def take(self, name: str, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return an array of any content; what was taken by this name before is gone."""
        size, kept = math.prod(shape), self._kept.get(name)
        if kept is None or kept.size < size or kept.dtype != dtype:
            self._kept.pop(name, None)
            kept = self._kept[name] = np.empty(size, dtype)
        return kept[:size].reshape(shape)

    def rows(self, name: str, array: Any, rows: NDArray[np.intp]) -> Any:
        """Return some rows of an array in memory of this name."""
        into = self.take(name, (len(rows), *array.shape[1:]), array.dtype)
        return np.take(array, rows, axis=0, out=into, mode="clip")  # "raise" would go by way of a copy


class _Block(NamedTuple):
    """Rows that go by together: views of the arrays, scratch of their size, and where their gaps and fibers are.

    B has 0 where missing; `gaps` counts from the start of the block.
    """

    rows: slice
    fibers: slice
    gaps: NDArray[np.intp]
    B: Any
    Z: Any
    L: Any
    C: Any
    after: Any


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

    def __init__(
        self, readings: Any, L: Any, D: Any, *, threshold: float, spectral: bool = False, space: Workspace | None = None
    ) -> None:
        self._space = Workspace() if space is None else space
        self._readings, self._dictionary, self._D = readings, L, D
        self._threshold, self._spectral = threshold, spectral
        self._dtype, self._shape = readings.dtype, readings.shape
        self._slots, self._width = readings.shape[-1], math.prod(readings.shape[1:])
        fitting = max(1, BLOCK_BYTES // (self._width * readings.itemsize))
        blocks = 1 if readings.nbytes <= ONE_BLOCK_BYTES else -(-len(readings) // fitting)
        self._per_block = -(-len(readings) // blocks)
        self._scratch = [np.empty((self._per_block, self._width), self._dtype) for _ in range(2)]
        self._rows: NDArray[np.intp] | None = None
        self._quiet: list[tuple[FloatArray, float]] = []
        self._quiet_product: Any = 0.0
        self._reference: FloatArray | None = None
        self._history: History | None = None

    def begin(self) -> Beginning:
        """Look at the readings once."""
        squares, found = 0.0, []
        # The readings with 0 where missing; in the end the estimates are put there, and it is handed out.
        B = np.empty((len(self._readings), self._width), self._dtype)
        Z = self._space.take("Z", B.shape, self._dtype)
        for first in range(0, len(B), self._per_block):
            part = slice(first, first + self._per_block)
            filled = B[part].reshape(-1)
            filled[:] = self._readings[part].reshape(-1)
            gaps = np.flatnonzero(np.isnan(filled))
            filled[gaps] = 0
            squares += float(filled @ filled)
            np.copyto(Z[part], B[part])
            found.append(gaps + first * self._width)
        # All rows at first. Later only the busy ones; the quiet ones are sound and whole, so that Z = B there.
        self._B, self._Z, self._L, self._gaps = B, Z, self._dictionary, np.concatenate(found)
        self._cut()
        return Beginning(squares, np.asarray(gathered(self._L, self._L), dtype=np.float64))

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
        for block in self._blocks:
            if len(block.gaps):
                # A gap starts at the mean of its fiber, far nearer than 0.
                fibers, Z = block.gaps // self._slots, block.Z.reshape(-1, self._slots)
                present = self._slots - np.bincount(fibers, minlength=len(Z))
                means = Z.sum(axis=1) / np.maximum(present, 1)
                block.Z.reshape(-1)[block.gaps] = means[fibers]
            product = product + self._product(block, block.Z)
        self._history = History(self._gaps, self._Z.reshape(-1)[self._gaps], self._Z.size // self._slots, depth)
        return np.asarray(product)

    def step(self, shared: FloatArray | None, mixing: FloatArray | None = None, limit: float = math.inf) -> Sums:
        """Do one iteration; `shared` is R_0' / N of the Z so far, None for the first published one.

        Nothing stops before the change of E is below `limit`; until then that of R is not asked for, and is told as
        infinite.
        """
        if self._history is not None:
            self._history.mix(self._Z.reshape(-1), mixing)
        if shared is not None:
            self._set_quiet_aside(shared)
        now = None if shared is None else shared.astype(self._dtype, copy=False)
        product, change_E = self._quiet_product, 0.0
        change_R: list[Any] = [0.0] * len(self._modes)
        self._norms = np.empty(self._Z.size // self._slots, self._dtype)
        for block in self._blocks:
            gaps, B, Z, C, after = block.gaps, block.B, block.Z, block.C, block.after
            self._residual(block, now)
            flat, fibers = C.reshape(-1), C.reshape(-1, self._slots)
            estimates = -flat[gaps]
            flat[gaps] = 0
            norms = np.sqrt(np.einsum("ij,ij->i", fibers, fibers), out=self._norms[block.fibers])
            # This is max(0, 1 - threshold / norm), without a 0 / 0 where a fiber of C is 0.
            fibers *= (1 - self._threshold / np.maximum(norms, self._threshold))[:, None]
            np.subtract(B, C, out=after)
            after.reshape(-1)[gaps] = estimates
            if self._fresh:
                change_E += float(flat @ flat)
                change = after
            else:
                change = np.subtract(after, Z, out=C)
                moved = flat[gaps]
                flat[gaps] = 0
                change_E += float(flat @ flat)
                flat[gaps] = moved
            change_R = (
                [known + self._square(mode, change) for known, mode in zip(change_R, self._modes, strict=True)]
                if change_E < limit
                else [math.inf] * len(self._modes)
            )
            product = product + self._product(block, after)
            np.copyto(Z, after)
        self._fresh, self._reference, mixed = False, shared, None
        if self._history is not None:
            Z, B = self._Z.reshape(-1), self._B.reshape(-1)
            mixed = self._history.after(Z, B, self._gaps, self._active(), self._slots)
        return Sums(product, change_E, change_R, mixed)

    def finish(self, lesson: Lesson, modes: int) -> Ending:
        """Write the result, and learn: once over the rows."""
        active = self._active() if self._rows is None else self._fibers_of(self._rows, self._active())
        self._wake_all()
        shared, R = (lesson.R / modes).astype(self._dtype), lesson.R.astype(self._dtype)
        A_tilde, inverse = (matrix.astype(self._dtype) for matrix in (lesson.A_tilde, lesson.inverse))
        X, E = np.empty(self._B.shape, self._dtype), np.zeros(self._B.shape, self._dtype)
        L, D = np.empty(self._L.shape, self._dtype), np.empty(self._L.shape, self._dtype)
        others: list[list[Any]] = [[0.0, 0.0] for _ in self._modes]
        sound = True
        for block in self._blocks:
            gaps, B, Z = block.gaps, block.B, block.Z
            estimate = np.subtract(B, self._residual(block, shared), out=X[block.rows])
            all_R = [mode.coefficients(Z) for mode in self._modes]
            Z.reshape(-1)[gaps] = 0
            for learned, mode, coefficients in zip(others, self._modes, all_R, strict=True):
                learned[0] = learned[0] + self._gram(mode, coefficients)
                learned[1] = learned[1] + mode.contract(mode.seen(Z), coefficients).astype(np.float64)
            new_L, new_D = L[block.rows], D[block.rows]
            np.add(self._D[block.rows], Z @ R.T, out=new_D)
            np.add(block.L, (new_D - block.L @ A_tilde) @ inverse, out=new_L)
            sound = sound and _is_finite(estimate) and _is_finite(new_L) and _is_finite(new_D)
        # Z is B less E where there is a reading, and was set to 0, as B, where there is none.
        outliers = self._fibers(self._B)[active] - self._fibers(self._Z)[active]
        self._fibers(E)[active] = outliers
        largest = np.zeros(self._shape[:-1], self._dtype)
        largest.reshape(-1)[active] = np.abs(outliers).max(axis=1, initial=0)
        self._B.reshape(-1)[self._gaps] = X.reshape(-1)[self._gaps]
        X, E, cleaned = (array.reshape(self._shape) for array in (X, E, self._B))
        return Ending(X, E, cleaned, largest, L, D, [(A, part) for A, part in others], sound and _is_finite(outliers))

    def _residual(self, block: _Block, shared: Any) -> Any:
        """B - X in the block's C, with -X where missing; X is 0 for `shared` None."""
        C = block.C
        if shared is None:
            np.copyto(C, block.B)
            return C
        np.matmul(block.L, shared, out=C)
        for mode in self._modes:
            C += mode.share_of(block.Z, out=block.after)
        return np.subtract(block.B, C, out=C)

    def _product(self, block: _Block, values: Any) -> FloatArray:
        product: FloatArray = gathered(block.L, values).astype(np.float64, copy=False)
        return product

    def _square(self, mode: LocalMode, change: Any) -> Any:
        coefficients = mode.coefficients(change)
        whole = coefficients.reshape(-1)
        return self._gram(mode, coefficients) if self._spectral else float(whole @ whole)

    def _gram(self, mode: LocalMode, coefficients: Any) -> FloatArray:
        gram: FloatArray = mode.contract(coefficients, coefficients).astype(np.float64)
        return gram

    def _fibers(self, tensor: Any) -> Any:
        return tensor.reshape(-1, self._slots)

    def _active(self) -> NDArray[np.intp]:
        """Return the fibers that are outliers, counted over the rows that are not left out."""
        return np.flatnonzero(self._norms > self._threshold)

    def _fibers_of(self, rows: NDArray[np.intp], fibers: NDArray[np.intp]) -> NDArray[np.intp]:
        """Count fibers of these rows over all rows."""
        each = self._width // self._slots
        counted: NDArray[np.intp] = rows[fibers // each] * each + fibers % each
        return counted

    def _cut(self) -> None:
        """Cut the rows that are not left out into blocks."""
        per_block, each, self._blocks = self._per_block, self._width // self._slots, []
        starts = np.arange(0, len(self._B), per_block)
        marks = [*np.searchsorted(self._gaps, starts * self._width), len(self._gaps)]
        for number, first in enumerate(starts.tolist()):
            rows = slice(first, min(first + per_block, len(self._B)))
            length = rows.stop - first
            self._blocks.append(
                _Block(
                    rows, slice(first * each, rows.stop * each),
                    self._gaps[marks[number] : marks[number + 1]] - first * self._width,
                    self._B[rows], self._Z[rows], self._L[rows], *(scratch[:length] for scratch in self._scratch),
                )
            )  # fmt: skip

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
        if again or len(self._B) < QUIET_FROM or self._reference is None:
            return
        largest = self._norms.reshape(len(self._B), -1).max(axis=1)
        # Convergence at the rate of one half moves R_0 by what it moved last, all in all.
        least = 3 * float(np.linalg.norm(shared - self._reference))
        quiet = largest < self._threshold * (1 - 1e-6)
        quiet[(self._gaps if self._history is None else self._history.cells) // self._width] = False
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
        for block in self._blocks:
            quiet = np.flatnonzero(~busy[block.rows])
            part = block.B[quiet]
            self._quiet_product = self._quiet_product + gathered(block.L[quiet], part).astype(np.float64, copy=False)
        if self._rows is None:
            # In the rows that are left out Z is B already.
            self._whole = (self._B, self._L, self._Z, self._gaps)
        else:
            self._whole[2][self._rows] = self._Z
        rows, place = np.flatnonzero(busy), np.cumsum(busy) - 1
        self._rows = rows if self._rows is None else self._rows[rows]
        # Two sets by turns: rows may be left out of those that are left.
        turn = len(self._quiet) % 2
        self._B, self._L, self._Z = (
            self._space.rows(f"{name}{turn}", array, rows)
            for name, array in (("busy B", self._B), ("busy L", self._L), ("busy Z", self._Z))
        )
        self._gaps = place[self._gaps // self._width] * self._width + self._gaps % self._width
        self._cut()
        if self._history is not None:
            self._history.move(place, self._width, lambda flags: flags.reshape(len(busy), -1)[rows].reshape(-1))

    def _wake_all(self) -> None:
        if self._rows is None:
            return
        rows = self._rows
        self._B, self._L, Z, self._gaps = self._whole
        Z[rows] = self._Z
        self._Z = Z
        if self._history is not None:

            def spread(flags: NDArray[np.bool_]) -> NDArray[np.bool_]:
                each = self._width // self._slots
                whole = np.zeros((len(Z), each), dtype=bool)
                whole[rows] = flags.reshape(len(rows), each)
                return whole.reshape(-1)

            self._history.move(rows, self._width, spread)
        self._rows, self._quiet, self._quiet_product = None, [], 0.0
        self._cut()


def _caster(dtype: Any) -> Any:
    return lambda matrix: np.ascontiguousarray(matrix, dtype=dtype)


def _is_finite(values: Any) -> bool:
    flat = values.reshape(-1)
    # One product is enough unless it overflows.
    return math.isfinite(float(flat @ flat)) or bool(np.isfinite(values).all())
