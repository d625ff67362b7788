"""The module provides OLRTR, online robust tensor recovery, as published."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import lapack

from sensormend.errors import ConfigError, DivergenceError
from sensormend.methods.base import Arrays, PublishedOnline, Solved, check_count, check_positive
from sensormend.recovery import FloatArray, Recovery

__all__ = ["OLRTR"]

DIVERGED = 'the dictionaries ran off to infinity; use dictionary_update="column" or a lower rank'


class OLRTR(PublishedOnline):
    """Online robust tensor recovery (Hu, Qu, Wang and Work), exactly as published.

    Each minibatch B is split into a low-rank part X and outliers E that fill whole fibers. Every axis of the
    minibatch is a mode, and a small dictionary per mode carries what was learned to the next minibatch. The
    fixed point, the number of iterations and the result are those of the paper's algorithms 1 to 5.

    Parameters
    ----------
    rank
        The number of columns of every dictionary.
    alpha
        Sets lambda2 = alpha / sqrt(log(I_m^2)), I_m the longest axis of a minibatch. Give it or `lambda2`.
    lambda1
        The weight of the ridge on dictionaries and coefficients.
    lambda2
        The weight of the outliers: a fiber of the residual is one when its norm exceeds lambda2 / N.
    fiber_axis
        The axis of the slots. Fibers lie along it. Axis 0 is the sensors.
    tol
        The inner loop stops when the change of E and R relative to B is below this.
    max_iter
        The largest number of iterations of the inner loop.
    dictionary_update
        "column" sweeps over the columns in place, as the paper prints it. "jacobi" reads the old columns
        throughout and stops on a spectral norm, as the authors' code does; it exists to equal their outputs
        and can diverge.
    dictionaries
        What to start from, one (I_i, rank) array per mode; drawn from U(0, 1) where not given.
    threshold
        A fiber is faulty when any |E| in it exceeds this.
    seed
        For the dictionaries that are drawn. None takes a fresh one each time.

    Notes
    -----
    The iterates are those of a proximal gradient method with step 1 on a strictly convex problem: its fixed point is
    the only one. NOAA takes 5 or 6 iterations at rank 3 (tol 1e-3) and 38 to 72 at rank 20; the paper's 50 x 50 x 50
    take 8 to 11.

    All minibatches have one shape. Labels, where given, must name the same sensors each time; their order is
    free.

    A minibatch without a reading other than 0 teaches nothing: the paper's stopping rule divides by |B|, and
    its column sweep would erase a fresh dictionary. The low-rank part is then 0, or NaN where nothing was
    read and nothing had been learned.

    When the dictionaries run off to infinity, `update` raises `DivergenceError` and the state stays finite.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> cycle = 20 + 5 * np.sin(np.arange(24) / 24 * 2 * np.pi)
    >>> readings = cycle[:, None] * random.uniform(0.9, 1.1, (8, 1, 30))
    >>> readings[5, :, 20] = random.uniform(0, 90, 24)
    >>> readings[2, 7, 25] = np.nan
    >>> result = OLRTR(rank=2, alpha=50, seed=0).recover(readings)
    >>> [(int(sensor), int(day)) for sensor, day in np.argwhere(result.faulty) if day >= 10]  # a cold start
    [(5, 20)]
    >>> bool(np.isnan(result.cleaned).any())
    False
    """

    _settings = ("alpha", "lambda1", "lambda2", "tol", "max_iter", "dictionary_update")
    _divergence = DIVERGED
    _after_sensors = False

    def __init__(
        self,
        rank: int,
        alpha: float | None = None,
        *,
        lambda1: float = 0.01,
        lambda2: float | None = None,
        fiber_axis: int = 1,
        tol: float = 1e-4,
        max_iter: int = 500,
        dictionary_update: str = "column",
        dictionaries: Sequence[ArrayLike] | None = None,
        threshold: float = 0.01,
        seed: int | None = None,
    ) -> None:
        super().__init__(rank=rank, fiber_axis=fiber_axis, threshold=threshold, seed=seed)
        if (alpha is None) == (lambda2 is None):
            raise ConfigError("give either alpha or lambda2, and not both")
        self.alpha = None if alpha is None else check_positive("alpha", alpha)
        self.lambda2 = None if lambda2 is None else check_positive("lambda2", lambda2)
        self.lambda1 = check_positive("lambda1", lambda1)
        self.tol = check_positive("tol", tol)
        self.max_iter = check_count("max_iter", max_iter)
        if dictionary_update not in ("column", "jacobi"):
            raise ConfigError(f"dictionary_update must be one of column, jacobi; got {dictionary_update!r}")
        self.dictionary_update = dictionary_update
        self._initial = None if dictionaries is None else self._check_dictionaries(dictionaries)

    @property
    def dictionaries(self) -> list[FloatArray] | None:
        """A copy of the dictionaries as they are, one per axis of a minibatch; None before there are any."""
        if self._state is None:
            return None if self._initial is None else [L.copy() for L in self._initial]
        return [self._state.arrays[f"L{i}"].copy() for i in range(len(self._state.shape))]

    def recover(self, tensor: ArrayLike, passes: int = 1, *, periods: int = 1) -> Recovery:
        """Recover a whole tensor by walking its last axis, and learn from it.

        Parameters
        ----------
        tensor
            Readings with the periods as the last axis; without such an axis the tensor is one minibatch.
        passes
            How often to walk the tensor; the result is that of the last time.
        periods
            How many periods make a minibatch. One gives minibatches without the last axis, (sensor, slot);
            more give (sensor, slot, periods), whose last axis is a mode too. Where the last minibatch is
            shorter, the periods it lacks are missing readings: the mode's dictionary has a row for each.
        """
        periods = check_count("periods", periods)
        return self._repeat(tensor, passes, lambda readings: self._walk_by(readings, periods))

    def _walk_by(self, readings: FloatArray, periods: int) -> Recovery:
        if periods == 1 or readings.ndim == max(2, self.fiber_axis + 1):
            return self._walk(readings)
        length = readings.shape[-1]
        parts = []
        for first in range(0, length, periods):
            chunk = readings[..., first : first + periods]
            lacking = periods - chunk.shape[-1]
            padding = [(0, 0)] * (readings.ndim - 1) + [(0, lacking)]
            parts.append(self.update(np.pad(chunk, padding, constant_values=np.nan)))
        return Recovery.concatenate(parts).first(length)

    def _saved_settings(self) -> dict[str, Any]:
        initial = None if self._initial is None else [L.tolist() for L in self._initial]
        return {**super()._saved_settings(), "dictionaries": initial}

    def _initial_arrays(self, shape: tuple[int, ...]) -> Arrays:
        if self._initial is None:
            random = np.random.default_rng(self.seed)
            dictionaries = [random.random((length, self.rank)) for length in shape]
        elif tuple(len(L) for L in self._initial) != shape:
            rows = [len(L) for L in self._initial]
            raise ConfigError(f"dictionaries with {rows} rows do not fit minibatches of shape {shape}")
        else:
            dictionaries = self._initial
        arrays: dict[str, FloatArray] = {}
        for i, L in enumerate(dictionaries):
            arrays |= {f"L{i}": L.copy(), f"A{i}": np.zeros((self.rank, self.rank)), f"D{i}": np.zeros(L.shape)}
        return arrays

    def _solve(self, readings: FloatArray, arrays: Arrays) -> Solved:
        """Split a minibatch (algorithm 2 with algorithm 5 for missing readings), and learn from it (algorithm 3)."""
        B = np.array(readings, order="C")
        missing = np.flatnonzero(np.isnan(B))
        B.reshape(-1)[missing] = 0
        size = float(np.vdot(B, B))
        if size == 0:
            return Solved(np.zeros(B.shape), np.zeros(B.shape), 0, arrays)
        modes = [_Mode(arrays[f"L{i}"], B.shape, i, self.lambda1) for i in range(B.ndim)]
        X, E, Z, iterations = self._split(B, missing, modes, limit=self.tol**2 * size)
        coefficients = [mode.coefficients(Z) for mode in modes]
        # As the paper prints it, D sums B - E, with zeros where a reading is missing.
        Z.reshape(-1)[missing] = 0
        learned: dict[str, FloatArray] = {}
        for i, (mode, R) in enumerate(zip(modes, coefficients, strict=True)):
            A, D = arrays[f"A{i}"] + mode.contract(R, R), arrays[f"D{i}"] + mode.contract(mode.view(Z), R)
            learned |= {f"L{i}": self._swept(mode.L, A, D), f"A{i}": A, f"D{i}": D}
        return Solved(X, E, iterations, learned)

    def _split(
        self, B: FloatArray, missing: NDArray[np.intp], modes: Sequence[_Mode], *, limit: float
    ) -> tuple[FloatArray, FloatArray, FloatArray, int]:
        """Iterate until the squared changes of E and of every R are below `limit`.

        Returns X, E, the completed minibatch Z = B - E - O that X was fitted to, and the number of iterations. O is
        -X where a reading is missing and 0 elsewhere, so that Z is the X before it there.
        """
        threshold, axis = self.fiber_limit(B.shape), self.fiber_axis
        as_fibers = (math.prod(B.shape[:axis]), B.shape[axis], math.prod(B.shape[axis + 1 :]))
        X, E, Z, E_before, Z_before = (np.zeros(B.shape) for _ in range(5))
        iterations = 0
        while True:
            iterations += 1
            # Fresh memory in every iteration would take a third of the time of a large minibatch.
            E, E_before, Z, Z_before = E_before, E, Z_before, Z
            np.subtract(B, X, out=E)
            E.reshape(-1)[missing] = 0
            fibers = E.reshape(as_fibers)
            norms = np.sqrt(np.einsum("bsa,bsa->ba", fibers, fibers))
            # This is max(0, 1 - threshold / norm), without a 0 / 0 where a fiber of the residual is 0.
            fibers *= (1 - threshold / np.maximum(norms, threshold))[:, None]
            np.subtract(B, E, out=Z)
            Z.reshape(-1)[missing] = X.reshape(-1)[missing]
            change = np.subtract(E, E_before, out=E_before)
            settled = float(np.vdot(change, change)) < limit and self._is_settled(modes, Z - Z_before, limit)
            X = modes[0].low_rank(Z)
            for mode in modes[1:]:
                X += mode.low_rank(Z)
            if settled or iterations == self.max_iter:
                return X, E, Z, iterations

    def _is_settled(self, modes: Sequence[_Mode], change: FloatArray, limit: float) -> bool:
        """Return whether every mode's squared change in R is below `limit`: as published, in the Frobenius norm."""
        if self.dictionary_update == "column":
            return all(float(np.vdot(R, R)) < limit for R in (mode.coefficients(change) for mode in modes))
        return all(_spectral_below(mode.contract(R, R), limit) for mode in modes for R in [mode.coefficients(change)])

    def _swept(self, L: FloatArray, A: FloatArray, D: FloatArray) -> FloatArray:
        """Sweep once over the columns of a dictionary: l_j += (d_j - L a~_j) / a~_jj with A~ = A + lambda1 I.

        In place, a column reads new ones on its left and old ones on its right: that is one triangular system,
        step triu(A~) = D - L A~. Jacobi reads the old ones throughout.
        """
        A_tilde = A + self.lambda1 * np.eye(len(A))
        residual = D - L @ A_tilde
        if self.dictionary_update == "jacobi":
            return L + residual / np.diag(A_tilde)
        inverse, _ = lapack.dtrtri(A_tilde)
        swept: FloatArray = L + residual @ np.triu(inverse)
        return swept

    def fiber_limit(self, shape: tuple[int, ...]) -> float:
        """Return lambda2 / N, the norm from which on a fiber of the residual of a minibatch is an outlier."""
        return self._lambda2(shape) / len(shape)

    def _lambda2(self, shape: tuple[int, ...]) -> float:
        if self.lambda2 is not None:
            return self.lambda2
        assert self.alpha is not None
        # The formula has no value for a single cell; 2 is the smallest length that it holds for.
        return self.alpha / math.sqrt(math.log(max(2, *shape) ** 2))

    def _check_dictionaries(self, dictionaries: Sequence[ArrayLike]) -> list[FloatArray]:
        try:
            arrays = [np.asarray(L) for L in dictionaries]
        except (TypeError, ValueError):
            arrays = [np.array("ragged")]
        if any(L.dtype.kind not in "iuf" for L in arrays):
            raise ConfigError("dictionaries must be arrays of real numbers, one per mode")
        checked = [np.array(L, dtype=np.float64) for L in arrays]
        for L in checked:
            if L.ndim != 2 or L.shape[1] != self.rank or not np.isfinite(L).all():
                raise ConfigError(f"a dictionary must be finite, (length, {self.rank}); got shape {L.shape}")
        return checked


class _Mode:
    """The products along one axis of a minibatch of N axes, which is viewed as (before, I, after).

    The last axis has nothing after it, and is viewed as (before, I).
    """

    def __init__(self, L: FloatArray, shape: tuple[int, ...], axis: int, lambda1: float) -> None:
        length, rank = L.shape
        self.L = L
        self._last = axis == len(shape) - 1
        self._viewed = (-1, length) if self._last else (math.prod(shape[:axis]), length, math.prod(shape[axis + 1 :]))
        # R' = G Z, and the mode's part of X is L R' / N.
        self._G = _inverse(L.T @ L + lambda1 * np.eye(rank)) @ L.T
        self._share = L / len(shape)
        # That is one product of I x I or two of I x r; thin ones run at half the speed.
        self._projection = self._share @ self._G if length <= 4 * rank else None

    def view(self, tensor: FloatArray) -> FloatArray:
        """View a tensor as this mode's products need it."""
        return tensor.reshape(self._viewed)

    def coefficients(self, Z: FloatArray) -> FloatArray:
        """Return R' of a completed minibatch."""
        return self._multiplied(self._G, self.view(Z))

    def low_rank(self, Z: FloatArray) -> FloatArray:
        """Return this mode's part of X."""
        if self._projection is not None:
            return self._multiplied(self._projection, self.view(Z)).reshape(Z.shape)
        return self._multiplied(self._share, self.coefficients(Z)).reshape(Z.shape)

    def contract(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """Sum left x right, both viewed by this mode, over every axis but its own."""
        product: FloatArray = left.T @ right if self._last else (left @ right.swapaxes(1, 2)).sum(0)
        return product

    def _multiplied(self, matrix: FloatArray, viewed: FloatArray) -> FloatArray:
        product: FloatArray = viewed @ matrix.T if self._last else matrix @ viewed
        return product


def _inverse(gram: FloatArray) -> FloatArray:
    _, inverse, info = lapack.dposv(gram, np.eye(len(gram)))
    if info != 0 or not np.isfinite(inverse).all():
        raise DivergenceError(DIVERGED)
    return np.asarray(inverse)


def _spectral_below(gram: FloatArray, limit: float) -> bool:
    """Return whether the squared spectral norm of R is below `limit`, from R R'."""
    if not np.isfinite(gram).all():
        return False
    # The spectral norm is at most the Frobenius norm, so that most minibatches are decided without it.
    return bool(np.trace(gram) < limit or np.linalg.eigvalsh(gram)[-1] < limit)
