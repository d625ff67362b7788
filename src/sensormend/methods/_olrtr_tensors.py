"""OLRTR on the rows of a torch tensor: the same steps as `_olrtr_rows`, whole arrays at a time on their device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sensormend.methods._olrtr import Beginning, Ending, Lesson, Sums
from sensormend.methods._olrtr_history import Changes, as_mixed
from sensormend.methods._olrtr_modes import LocalMode, Solver
from sensormend.recovery import FloatArray
from sensormend.tensor import Array, as_like, namespace, on_host

__all__ = ["TensorRows"]


class TensorRows:
    """The rows of a minibatch on a device; see `Rows`. What is fetched in a step is fetched at once, at its end."""

    def __init__(self, readings: Array, L: Array, D: Array, *, threshold: float, spectral: bool = False) -> None:
        self._xp = namespace(readings)
        self._readings, self._L, self._D = readings, L, D
        self._threshold, self._spectral = threshold, spectral
        self._slots, self._width = readings.shape[-1], math.prod(readings.shape[1:])
        self._changes: Changes | None = None
        self._starting = True

    def begin(self) -> Beginning:
        """Look at the readings once."""
        xp = self._xp
        self._missing = xp.isnan(self._readings)
        self._B = xp.where(self._missing, xp.zeros_like(self._readings), self._readings)
        self._gappy = bool(xp.any(self._missing))
        flat = self._B.reshape(-1)
        squares, gram = self._fetched([flat @ flat, self._L.T @ self._L])
        return Beginning(float(squares), gram)

    def prepare(self, solvers: Sequence[Solver], *, depth: int = 0) -> FloatArray | None:
        """Take the other modes, and start; see `Rows.prepare`."""
        self._modes = [LocalMode(self._B.shape, i + 1, solver, self._placed) for i, solver in enumerate(solvers)]
        self._Z = self._B
        self._fresh = depth == 0
        if self._fresh:
            return None
        self._changes = Changes(depth)
        if self._gappy:
            xp = self._xp
            present = self._slots - xp.sum(self._missing, axis=-1, dtype=self._B.dtype, keepdims=True)
            means = xp.sum(self._B, axis=-1, keepdims=True) / xp.clip(present, 1, None)
            self._Z = xp.where(self._missing, means, self._B)
        product: FloatArray = self._fetched([self._L.T @ self._rows_of(self._Z)])[0]
        return product

    def step(self, shared: FloatArray | None, mixing: FloatArray | None = None, limit: float = math.inf) -> Sums:
        """Do one iteration; see `Rows.step`."""
        xp, sums = self._xp, []
        if self._changes is not None and not self._starting:
            self._Z = self._changes.mixed(mixing).reshape(self._B.shape)
        C = self._B if shared is None else self._residual(self._placed(shared))
        after = self._B
        if self._gappy:
            after = xp.where(self._missing, -C, after)
            C = xp.where(self._missing, xp.zeros_like(C), C)
        norms = xp.sqrt(xp.sum(C * C, axis=-1, keepdims=True))
        E = C * (1 - self._threshold / xp.clip(norms, self._threshold, None))
        after = after - E
        change = after if self._fresh else after - self._Z
        for mode in self._modes:
            coefficients = mode.coefficients(change)
            whole = coefficients.reshape(-1)
            sums.append(mode.contract(coefficients, coefficients) if self._spectral else whole @ whole)
        if self._fresh:
            change = E
        elif self._gappy:
            change = xp.where(self._missing, xp.zeros_like(change), change)
        sums += [change.reshape(-1) @ change.reshape(-1), self._L.T @ self._rows_of(after)]
        mixed = [] if self._changes is None else self._changes.take_in(self._Z.reshape(-1), after.reshape(-1))
        self._Z, self._fresh, self._starting = after, False, False
        told = self._fetched([*sums, *mixed])
        count = len(self._modes)
        R = [part if self._spectral else float(part) for part in told[:count]]
        numbers = told[count + 2 :]
        return Sums(told[count + 1], float(told[count]), R, as_mixed(numbers) if numbers else None)

    def finish(self, lesson: Lesson, modes: int) -> Ending:
        """Write the result, and learn; see `Rows.finish`."""
        xp = self._xp
        R, A_tilde, inverse = (self._placed(part) for part in (lesson.R, lesson.A_tilde, lesson.inverse))
        X = self._B - self._residual(self._placed(lesson.R / modes))
        zero = xp.zeros_like(X)
        known = xp.where(self._missing, zero, self._Z) if self._gappy else self._Z
        learned = []
        for mode in self._modes:
            coefficients = mode.coefficients(self._Z)
            learned += [mode.contract(coefficients, coefficients), mode.contract(mode.seen(known), coefficients)]
        D = self._D + self._rows_of(known) @ R.T
        L = self._L + (D - self._L @ A_tilde) @ inverse
        E = self._B - known
        cleaned = xp.where(self._missing, X, self._B) if self._gappy else self._B
        sound = xp.all(xp.isfinite(X)) & xp.all(xp.isfinite(L)) & xp.all(xp.isfinite(D)) & xp.all(xp.isfinite(E))
        told = self._fetched([sound, *learned])
        others = list(zip(told[1::2], told[2::2], strict=True))
        return Ending(X, E, cleaned, xp.max(xp.abs(E), axis=-1), L, D, others, bool(told[0]))

    def _residual(self, shared: Array) -> Array:
        """B - X, which is -X where missing."""
        X = (self._L @ shared).reshape(self._B.shape)
        for mode in self._modes:
            seen = mode.seen(self._Z)
            if mode.P is not None:
                X += (seen @ mode.P.T if mode.last else mode.P @ seen).reshape(X.shape)
            else:
                R = mode.coefficients(self._Z)
                X += (R @ mode.share.T if mode.last else mode.share @ R).reshape(X.shape)
        return self._B - X

    def _rows_of(self, tensor: Array) -> Array:
        return tensor.reshape(-1, self._width)

    def _placed(self, matrix: FloatArray) -> Array:
        return self._xp.astype(as_like(matrix, self._readings), self._readings.dtype)

    def _fetched(self, parts: list[Array]) -> list[Any]:
        """Fetch small tensors in one go, as float64."""
        flat = on_host(self._xp.concat([self._xp.astype(part, self._B.dtype).reshape(-1) for part in parts]))
        ends = np.cumsum([part.numel() for part in parts])
        split = np.split(flat.astype(np.float64), ends[:-1])
        return [piece.reshape(tuple(part.shape)) for piece, part in zip(split, parts, strict=True)]
