"""The published methods line by line: slow, plainly right, the oracles of `sensormend.methods`.

Nothing here imports sensormend. Names are the papers': B the minibatch, X the low-rank part, E the outliers, O the
compensation of what is missing, L, R, A, D per mode. Where a paper's text leaves something open, the comment says what
was chosen. Where a method knows no missing data, `interpolated` closes the gaps first. Periods have their slots last.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Grasta",
    "Last",
    "Matrix",
    "Olrsc",
    "OlrtrState",
    "Orltm",
    "Ostd",
    "StocRpca",
    "alternating_fit",
    "bcd",
    "fold",
    "in_place",
    "interpolated",
    "interpolated_line",
    "olrtr_lambda2",
    "olrtr_minibatch",
    "rtr",
    "trpca",
    "unfold",
    "walk",
]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Last = dict[tuple[int, ...], float]
Matrix = tuple[Floats, Floats]
"""The low-rank part and the outliers."""


def unfold(tensor: Floats, mode: int) -> Floats:
    """Fill the unfolding column by column: one column per fiber along `mode`, the last axis fastest."""
    return np.stack([tensor[fiber] for fiber in fibers(tensor.shape, mode)], axis=1)


def fold(matrix: Floats, mode: int, shape: tuple[int, ...]) -> Floats:
    tensor = np.empty(shape)
    for column, fiber in enumerate(fibers(shape, mode)):
        tensor[fiber] = matrix[:, column]
    return tensor


def fibers(shape: tuple[int, ...], axis: int) -> list[tuple[int | slice, ...]]:
    """Index every fiber along `axis`."""
    others = [range(length) for number, length in enumerate(shape) if number != axis]
    return [(*at[:axis], slice(None), *at[axis:]) for at in itertools.product(*others)]


def shrink_fibers(C: Floats, threshold: float, fiber_axis: int) -> Floats:
    """E_j = C_j max(0, 1 - threshold / |C_j|); a fiber of zeros stays one."""
    E = np.zeros(C.shape)
    for fiber in fibers(C.shape, fiber_axis):
        norm = math.sqrt(sum(value**2 for value in C[fiber]))
        if norm > 0:
            E[fiber] = C[fiber] * max(0.0, 1 - threshold / norm)
    return E


def olrtr_lambda2(alpha: float, shape: tuple[int, ...]) -> float:
    return alpha / math.sqrt(math.log(max(shape) ** 2))


class OlrtrState:
    """What OLRTR carries from one minibatch to the next."""

    def __init__(self, dictionaries: list[Floats]) -> None:
        rank = dictionaries[0].shape[1]
        self.L = [np.array(L) for L in dictionaries]
        self.A = [np.zeros((rank, rank)) for _ in dictionaries]
        self.D = [np.zeros(L.shape) for L in dictionaries]


def olrtr_minibatch(
    state: OlrtrState,
    readings: Floats,
    *,
    lambda1: float,
    lambda2: float,
    fiber_axis: int,
    tol: float,
    max_iter: int,
    dictionary_update: str,
) -> tuple[Floats, Floats, int]:
    """Run one minibatch through algorithms 1 and 2 (4 and 5 where readings are missing), and algorithm 3.

    Returns X, E and the number of iterations; `state` is changed in place.
    """
    missing = np.isnan(readings)
    B = np.where(missing, 0.0, readings)
    norm = float(np.linalg.norm(B))
    if norm == 0:
        # The paper's stopping rule divides by |B|. Nothing but zeros, or nothing at all, teaches nothing.
        return np.zeros(B.shape), np.zeros(B.shape), 0
    R, E, iterations = _solve_sample(state.L, B, missing, norm, lambda1, lambda2, fiber_axis, tol, max_iter,
                                     spectral=dictionary_update == "jacobi")  # fmt: skip
    X = _mean_of_folds(state.L, R, B.shape)
    for i in range(B.ndim):
        state.A[i] = state.A[i] + R[i].T @ R[i]
        state.D[i] = state.D[i] + unfold(B - E, i) @ R[i]
        state.L[i] = _update_basis(state.L[i], state.A[i], state.D[i], lambda1, dictionary_update)
    return X, E, iterations


def _solve_sample(
    L: list[Floats],
    B: Floats,
    missing: Bools,
    norm: float,
    lambda1: float,
    lambda2: float,
    fiber_axis: int,
    tol: float,
    max_iter: int,
    *,
    spectral: bool,
) -> tuple[list[Floats], Floats, int]:
    """Algorithm 5; with nothing missing O stays 0 and it is algorithm 2."""
    N, rank = B.ndim, L[0].shape[1]
    R = [np.zeros((B.size // B.shape[i], rank)) for i in range(N)]
    E, O = np.zeros(B.shape), np.zeros(B.shape)  # noqa: E741
    iterations = 0
    while iterations < max_iter:
        iterations += 1
        E_before, R_before = E, R
        C = B - O - _mean_of_folds(L, R, B.shape)
        E = shrink_fibers(C, lambda2 / N, fiber_axis)
        R = []
        for i in range(N):
            inverse = np.linalg.inv(L[i].T @ L[i] + lambda1 * np.eye(rank))
            R.append((inverse @ L[i].T @ unfold(B - E - O, i)).T)
        O = np.where(missing, B - E - _mean_of_folds(L, R, B.shape), 0.0)  # noqa: E741
        # The paper takes the Frobenius norm of the change in R; its authors' code the spectral norm.
        changes = [float(np.linalg.norm(R[i] - R_before[i], 2 if spectral else "fro")) for i in range(N)]
        changes.append(float(np.linalg.norm(E - E_before)))
        if max(changes) / norm < tol:
            break
    return R, E, iterations


def _mean_of_folds(L: list[Floats], R: list[Floats], shape: tuple[int, ...]) -> Floats:
    total = np.zeros(shape)
    for i in range(len(shape)):
        total = total + fold(L[i] @ R[i].T, i, shape)
    return total / len(shape)


def _update_basis(L: Floats, A: Floats, D: Floats, lambda1: float, how: str) -> Floats:
    """Algorithm 3, with a~_j in the product as its objective needs; Jacobi reads the old L throughout."""
    A_tilde = A + lambda1 * np.eye(A.shape[0])
    L_new = np.array(L)
    for j in range(A.shape[0]):
        read = L if how == "jacobi" else L_new
        L_new[:, j] = (D[:, j] - read @ A_tilde[:, j]) / A_tilde[j, j] + L[:, j]
    return L_new


def rtr(readings: Floats, lam: float, *, fiber_axis: int, tol: float, max_iter: int) -> tuple[Floats, Floats, int]:
    """Robust tensor recovery by ADMM (Hu & Work 2020): X, E and the number of iterations."""
    missing = np.isnan(readings)
    D = np.where(missing, 0.0, readings)
    D = np.moveaxis(D, fiber_axis, 0)
    missing = np.moveaxis(missing, fiber_axis, 0)
    N = D.ndim
    norm = float(np.linalg.norm(D))
    X, E, O = np.zeros(D.shape), np.zeros(D.shape), np.zeros(D.shape)  # noqa: E741
    if norm == 0:
        return np.moveaxis(X, 0, fiber_axis), np.moveaxis(E, 0, fiber_axis), 0
    s = float(np.linalg.norm(unfold(D, 0), 2))
    Y = [D / max(s, float(np.abs(D).max()) / lam) for _ in range(N)]
    mu, mu_max = 1 / s, 1e7 / s
    iterations = 0
    while iterations < max_iter:
        iterations += 1
        Y_mean = sum(Y, np.zeros(D.shape)) / N
        C = D - X + Y_mean / mu - O
        E = shrink_fibers(C, lam / (N * mu), 0)
        X_i = []
        for i in range(N):
            U, sigma, Vt = np.linalg.svd(unfold(D - E + Y[i] / mu - O, i), full_matrices=False)
            X_i.append(fold(U @ np.diag(np.maximum(sigma - 1 / mu, 0)) @ Vt, i, D.shape))
        X = sum(X_i, np.zeros(D.shape)) / N
        O = np.where(missing, D - X - E + Y_mean / mu, 0.0)  # noqa: E741
        for i in range(N):
            Y[i] = Y[i] + mu * (D - X_i[i] - E - O)
        mu = min(mu * 1.5, mu_max)
        if np.linalg.norm(D - X_i[-1] - E - O) / norm < tol:
            break
    return np.moveaxis(X, 0, fiber_axis), np.moveaxis(E, 0, fiber_axis), iterations


def soft(values: Floats, limit: float) -> Floats:
    return np.sign(values) * np.maximum(np.abs(values) - limit, 0)


def interpolated_line(values: list[float], before: float | None) -> list[float] | None:
    """Close the gaps of one line; `before` is the value one slot before the first. None where nothing is known."""
    points = [(float(slot), value) for slot, value in enumerate(values) if not math.isnan(value)]
    if before is not None:
        points.insert(0, (-1.0, before))
    if not points:
        return None
    line = []
    for slot in range(len(values)):
        left = [pair for pair in points if pair[0] <= slot]
        right = [pair for pair in points if pair[0] >= slot]
        if not left:
            line.append(right[0][1])
        elif not right or left[-1] == right[0]:
            line.append(left[-1][1])
        else:
            (start, low), (stop, high) = left[-1], right[0]
            line.append(low + (high - low) * (slot - start) / (stop - start))
    return line


def interpolated(period: Floats, last: Last) -> Floats:
    """Close the gaps of one period, slots last, and carry the last values on in `last`."""
    closed = np.full(period.shape, math.nan)
    silent = []
    for row in np.ndindex(period.shape[:-1]):
        line = interpolated_line([float(value) for value in period[row]], last.get(row))
        if line is None:
            silent.append(row)
        else:
            closed[row] = line
            last[row] = line[-1]
    reporting = [row for row in np.ndindex(period.shape[:-1]) if row not in silent]
    for row in silent:
        for slot in range(period.shape[-1]):
            if reporting:
                closed[(*row, slot)] = sum(closed[(*other, slot)] for other in reporting) / len(reporting)
    return closed


def walk(periods: list[Floats], column: Callable[[Floats], Matrix], *, interpolate: bool = True) -> list[Matrix]:
    """Hand a matrix method one column after the other: slot by slot, in each the variables in turn."""
    last: Last = {}
    results = []
    for period in periods:
        full = interpolated(period, last) if interpolate else period
        X, E = np.zeros(period.shape), np.zeros(period.shape)
        for slot in range(period.shape[-1]):
            for variable in np.ndindex(period.shape[1:-1]):
                at = (slice(None), *variable, slot)
                if not interpolate or not np.isnan(full[at]).all():
                    X[at], E[at] = column(full[at])
        results.append((X, np.where(np.isnan(period), 0.0, E)))
    return results


def alternating_fit(
    z: Floats, L: Floats, weight: float, limit: float, small: Callable[[Floats, Floats, Floats, Floats], bool], cap: int
) -> tuple[Floats, Floats, int]:
    """Take turns between r and e until `small` is true of the steps and the values before: r, e, iterations."""
    P = np.linalg.inv(L.T @ L + weight * np.eye(L.shape[1])) @ L.T
    r, e = np.zeros(L.shape[1]), np.zeros(len(z))
    for turn in range(1, cap + 1):
        r_before, e_before = r, e
        r = P @ (z - e)
        e = soft(z - L @ r, limit)
        if small(r - r_before, e - e_before, r_before, e_before):
            return r, e, turn
    return r, e, cap


def bcd(L: Floats, A: Floats, B: Floats, weight: float) -> Floats:
    """One sweep of block coordinate descent, every column at most of length 1."""
    A_tilde = A + weight * np.eye(len(A))
    L = np.array(L)
    for j in range(len(A)):
        column = (B[:, j] - L @ A_tilde[:, j]) / A_tilde[j, j] + L[:, j]
        L[:, j] = column / max(float(np.linalg.norm(column)), 1.0)
    return L


def in_place(D: Floats, A: Floats, B: Floats) -> Floats:
    """One sweep over the columns of a dictionary, each reading what the ones before it became."""
    D = np.array(D)
    for j in range(len(A)):
        D[:, j] = D[:, j] - (D @ A[:, j] - B[:, j]) / A[j, j]
    return D


@dataclass
class StocRpca:
    """STOC-RPCA. The output takes the basis after its update, as the published code does."""

    L: Floats
    n: int
    lambda1: float
    lambda2: float
    stop: float = 1e-13
    A: Floats = field(init=False)
    B: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.A, self.B = np.zeros((self.L.shape[1],) * 2), np.zeros(self.L.shape)

    def column(self, z: Floats) -> Matrix:
        r, e, _ = alternating_fit(
            z,
            self.L,
            self.lambda1,
            self.lambda2,
            lambda dr, de, _r, _e: max(np.abs(dr).max(), np.abs(de).max()) < self.stop,
            10**6,
        )
        self.A = self.A + np.outer(r, r)
        self.B = self.B + np.outer(z - e, r)
        self.L = bcd(self.L, self.A, self.B, self.lambda1 / self.n)
        return self.L @ r, e


@dataclass
class Ostd:
    """OSTD: the frame unfolded along every mode, each unfolding a vector for STOC-RPCA, and the mean of them all."""

    rank: int
    lambda1: float
    lambda2: float
    cap: int = 50
    states: list[tuple[Floats, Floats, Floats]] = field(default_factory=list)

    def minibatch(self, Z: Floats) -> tuple[Floats, Floats, int]:
        X, E, iterations = np.zeros(Z.shape), np.zeros(Z.shape), 0
        states = []
        for mode in range(Z.ndim):
            matrix = unfold(Z, mode)
            z = matrix.T.reshape(-1)
            if self.states:
                L, A, B = self.states[mode]
            else:
                # Nothing but the frame itself, in every column.
                L = np.array([z for _ in range(self.rank)]).T
                A, B = np.zeros((self.rank, self.rank)), np.zeros((len(z), self.rank))

            def small(dr: Floats, de: Floats, _r: Floats, _e: Floats, size: int = len(z)) -> bool:
                return max(float(np.linalg.norm(dr)), float(np.linalg.norm(de))) / size < 1e-6

            r, e, iterations = alternating_fit(z, L, self.lambda1, self.lambda2, small, self.cap)
            A, B = A + np.outer(r, r), B + np.outer(z - e, r)
            L = bcd(L, A, B, self.lambda1)
            states.append((L, A, B))
            X = X + fold((L @ r).reshape(matrix.T.shape).T, mode, Z.shape) / Z.ndim
            E = E + fold(e.reshape(matrix.T.shape).T, mode, Z.shape) / Z.ndim
        self.states = states
        return X, E, iterations


def _relative(step: Floats, before: Floats) -> float:
    """The relative change; where nothing was before, the change itself."""
    size = float(np.linalg.norm(before))
    return float(np.linalg.norm(step)) / (size if size > 0 else 1.0)


@dataclass
class Olrsc:
    """OLRSC; `begin_pass` begins another epoch, in which M and t start afresh and D, A, B stay."""

    D: Floats
    lambda1: float = 1.0
    t: int = 0
    A: Floats = field(init=False)
    B: Floats = field(init=False)
    M: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.A, self.B = np.zeros((self.D.shape[1],) * 2), np.zeros(self.D.shape)
        self.begin_pass()

    def begin_pass(self) -> None:
        self.t, self.M = 0, np.zeros(self.D.shape)

    def column(self, z: Floats) -> Matrix:
        p, rank = self.D.shape
        self.t += 1
        lambda2, lambda3 = 1 / math.sqrt(p), math.sqrt(self.t) / math.sqrt(p)
        v, e, _ = alternating_fit(
            z,
            self.D,
            1 / self.lambda1,
            lambda2 / self.lambda1,
            lambda dv, de, v, e: max(_relative(dv, v), _relative(de, e)) < 1e-3,
            1000,
        )
        X = self.D @ v
        u = (self.D - self.M).T @ z / (np.linalg.norm(z) ** 2 + 1 / lambda3)
        self.M = self.M + np.outer(z, u)
        self.A = self.A + np.outer(v, v)
        self.B = self.B + np.outer(z - e, v)
        A_hat = self.lambda1 * self.A + lambda3 * np.eye(rank)
        B_hat = self.lambda1 * self.B + lambda3 * self.M
        self.D = in_place(self.D, A_hat, B_hat)
        return X, e


@dataclass
class Orltm:
    """ORLTM as reconstructed: OLRSC in every mode, with one E for all of them."""

    D: list[Floats]
    lambda1: float = 1.0
    t: int = 0
    A: list[Floats] = field(init=False)
    B: list[Floats] = field(init=False)
    M: list[Floats] = field(init=False)

    def __post_init__(self) -> None:
        self.A = [np.zeros((D.shape[1],) * 2) for D in self.D]
        self.B = [np.zeros(D.shape) for D in self.D]
        self.begin_pass()

    def begin_pass(self) -> None:
        self.t, self.M = 0, [np.zeros(D.shape) for D in self.D]

    def minibatch(self, Z: Floats) -> tuple[Floats, Floats, int]:
        self.t += 1
        N, rank = Z.ndim, self.D[0].shape[1]
        lambda2 = float(np.linalg.norm(Z)) / math.sqrt(Z.size * max(Z.shape))
        X, E, V = np.zeros(Z.shape), np.zeros(Z.shape), [np.zeros(0)] * N
        iterations = 0
        while iterations < 1000:
            iterations += 1
            X_before, E_before = X, E
            for n, D in enumerate(self.D):
                V[n] = unfold(Z - E, n).T @ D @ np.linalg.inv(D.T @ D + np.eye(rank) / self.lambda1)
            X = sum((fold(D @ V[n].T, n, Z.shape) for n, D in enumerate(self.D)), np.zeros(Z.shape)) / N
            E = soft(Z - X, lambda2 / (N * self.lambda1))
            if max(_relative(X - X_before, X_before), _relative(E - E_before, E_before)) < 1e-3:
                break
        for n, D in enumerate(self.D):
            Z_n, lambda3 = unfold(Z, n), math.sqrt(self.t) / math.sqrt(len(D))
            U = np.linalg.inv(Z_n.T @ Z_n + np.eye(Z_n.shape[1]) / lambda3) @ Z_n.T @ (D - self.M[n])
            self.M[n] = self.M[n] + Z_n @ U
            self.A[n] = self.A[n] + V[n].T @ V[n]
            self.B[n] = self.B[n] + unfold(Z - E, n) @ V[n]
            A_hat = self.lambda1 * self.A[n] + lambda3 * np.eye(rank)
            self.D[n] = in_place(D, A_hat, self.lambda1 * self.B[n] + lambda3 * self.M[n])
        return X, E, iterations


@dataclass
class Grasta:
    """GRASTA. The output takes the subspace after its turn.

    Directions of which the observed rows see less than `faint` are not fitted, and a column with no more readings than
    the rank does not turn the subspace. One without any is as the last that had some.
    """

    U: Floats
    faint: float
    mu: float = 1.0
    level: int = 0
    scale: float | None = None
    before: Floats | None = None
    latest: Floats | None = None

    def column(self, column: Floats) -> Matrix:
        seen = [row for row in range(len(column)) if not math.isnan(column[row])]
        if not seen:
            latest = np.zeros(self.U.shape[1]) if self.latest is None else self.latest
            return self.U @ latest, np.zeros(len(column))
        v, observed = column[seen], self.U[seen]
        w, s, y = self._admm(observed, v)
        self.latest = w
        E = np.zeros(len(column))
        E[seen] = s
        if len(seen) > self.U.shape[1]:
            scattered = np.zeros(len(column))
            scattered[seen] = y
            self._turn(scattered - self.U @ (observed.T @ y), w)
        return self.U @ w, E

    def _admm(self, U: Floats, v: Floats) -> tuple[Floats, Floats, Floats]:
        w, s, y = np.zeros(U.shape[1]), np.zeros(len(v)), np.zeros(len(v))
        if np.linalg.norm(v) == 0:
            return w, s, y
        largest = float(np.linalg.norm(U, 2))
        inverse = np.linalg.pinv(U, rcond=self.faint / largest) if largest > self.faint else 0 * U.T
        m = 1.25 / float(np.linalg.norm(v))
        cap = 60
        for below, times in reversed([(4, 1), (7, 2), (10, 4), (14, 8)]):
            if self.level < below:
                cap = min(5 * times, 60)
        for _ in range(cap):
            w = inverse @ (v - s - y / m)
            s = soft(v - U @ w - y / m, 1 / m)
            h = U @ w + s - v
            y = y + m * h
            m = m * 1.8
            if np.linalg.norm(h) < 1e-6:
                break
        return w, s, y

    def _turn(self, g: Floats, w: Floats) -> None:
        gradient = np.outer(g, w)
        sG = float(np.linalg.norm(g) * np.linalg.norm(w))
        if sG == 0:
            return
        if self.scale is None:
            self.scale = 0.5 * math.pi * (1 + 1.0) / sG
        ip = 0.0
        if self.before is not None:
            ip = float(np.sum(gradient * self.before) / np.linalg.norm(gradient) / np.linalg.norm(self.before))
        self.before = gradient
        self.mu = max(self.mu + (-1 + 2 / (1 + math.exp(ip / 0.1))), 1.0)
        t = min(self.scale * 2.0**-self.level * sG / (1 + self.mu), math.pi / 3)
        if self.mu <= 1.0:
            self.level = self.level - 1 if self.level > 1 else self.level
            self.mu = 3.0
        elif self.mu > 15.0:
            self.level += 1
            self.mu = 7.0
        a, b = w / np.linalg.norm(w), g / np.linalg.norm(g)
        self.U = self.U + np.outer((math.cos(t) - 1) * (self.U @ a) - math.sin(t) * b, a)


def trpca(X: Floats, lam: float, *, tol: float = 1e-8, max_iter: int = 500) -> tuple[Floats, Floats, int]:
    """TRPCA of an n1 x n2 x n3 tensor without gaps: L, S and the number of iterations."""
    L, S, Y = np.zeros(X.shape), np.zeros(X.shape), np.zeros(X.shape)
    m = 1e-4
    for iteration in range(1, max_iter + 1):
        L_before, S_before = L, S
        turned = np.fft.fft(X - S - Y / m, axis=2)
        for k in range(X.shape[2]):
            U, sigma, Vh = np.linalg.svd(turned[:, :, k], full_matrices=False)
            turned[:, :, k] = U @ np.diag(np.maximum(sigma - 1 / m, 0)) @ Vh
        L = np.fft.ifft(turned, axis=2).real
        S = soft(X - L - Y / m, lam / m)
        Y = Y + m * (L + S - X)
        m = min(1.1 * m, 1e10)
        changes = [np.abs(L - L_before).max(), np.abs(S - S_before).max(), np.abs(L + S - X).max()]
        if max(changes) < tol:
            return L, S, iteration
    return L, S, max_iter
