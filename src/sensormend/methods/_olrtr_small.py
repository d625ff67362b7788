"""OLRTR on few rows: `Rows` as one block with as few calls as can be, where a call costs more than its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sensormend.methods import _olrtr_rows
from sensormend.methods._olrtr_modes import Solver
from sensormend.methods._olrtr_rows import Rows
from sensormend.methods._olrtr_sums import Sums
from sensormend.recovery import FloatArray

__all__ = ["SmallRows", "rows_of"]

SMALL_BYTES = 2 << 20
"""Of a minibatch that goes by as one block: 50 x 50 x 50 takes a quarter longer in several."""


class SmallRows(Rows):
    """Rows that fit into one block, and are too few to look for quiet ones among them."""

    _one_block = True

    def prepare(self, solvers: Sequence[Solver], *, depth: int = 0) -> FloatArray | None:
        """Take the other modes, and start; see `Rows.prepare`."""
        product = super().prepare(solvers, depth=depth)
        self._F = self._filled(self._B, self._gaps, out=np.empty_like(self._Z))
        self._C, self._after = self._scratch
        self._transposed, self._columns = self._L.T, (len(self._L), -1)
        self._one = self._modes[0].P if len(self._modes) == 1 else None
        self._factors = np.empty(0)
        return product

    def step(self, shared: FloatArray | None, mixing: FloatArray | None = None, limit: float = np.inf) -> Sums:
        """Do one iteration; see `Rows.step`."""
        F, C, Z, after, gaps = self._F, self._C, self._Z, self._after, self._gaps
        if self._history is not None:
            self._history.mix(Z.reshape(-1), mixing)
        if shared is None:
            np.copyto(C, F)
        elif self._one is None:
            self._residual(self._B, Z, gaps, self._L, shared.astype(self._dtype))
        else:
            np.matmul(Z, self._one.T, out=C)
            C += np.matmul(self._L, shared.astype(self._dtype, copy=False), out=after)
            np.subtract(F, C, out=C)
        flat, into = C.reshape(-1), after.reshape(-1)
        estimates = flat[gaps]
        flat[gaps] = 0
        fibers = C.reshape(-1, self._slots)
        norms = np.sqrt(np.einsum("ij,ij->i", fibers, fibers))
        # This is max(0, 1 - threshold / norm), without a 0 / 0 where a fiber of C is 0.
        self._factors = 1 - self._threshold / np.maximum(norms, self._threshold)
        fibers *= self._factors[:, None]
        np.subtract(F, C, out=after)
        into[gaps] = -estimates
        if self._fresh:
            change_E = float(flat @ flat)
            np.copyto(C, after)
        else:
            np.subtract(after, Z, out=C)
            moved = flat[gaps]
            flat[gaps] = 0
            change_E = float(flat @ flat)
            flat[gaps] = moved
        self._fresh, self._Z, self._after = False, after, Z
        # Nothing stops before E has settled, and until then the changes of R need not be known.
        change_R = self._change_of_coefficients(C) if change_E < limit else [np.inf] * len(self._modes)
        mixed = None
        if self._history is not None:
            mixed = self._history.after(
                after.reshape(-1), self._B.reshape(-1), np.flatnonzero(self._factors), self._slots
            )
        product = self._transposed @ after.reshape(self._columns)
        return Sums(product.astype(np.float64, copy=False), change_E, change_R, mixed)

    def _change_of_coefficients(self, change: Any) -> list[Any]:
        found: list[Any] = []
        for mode in self._modes:
            coefficients = mode.coefficients(change)
            whole = coefficients.reshape(-1)
            found.append(self._gram(mode, coefficients) if self._spectral else float(whole @ whole))
        return found

    def _wake_all(self) -> None:
        self._active = np.flatnonzero(self._factors)


def rows_of(readings: Any, *rows: Any, **settings: Any) -> Rows:
    """Return the rows of a part, as it suits their number."""
    few = readings.nbytes <= SMALL_BYTES and len(readings) < _olrtr_rows.QUIET_FROM
    return (SmallRows if few else Rows)(readings, *rows, **settings)
