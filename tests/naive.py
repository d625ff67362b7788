"""The paper's algorithms and AutoOLRTR's kernels line by line: slow, plainly right, the oracle for everything faster.

Nothing here imports sensormend. In the first part names are the paper's: B the minibatch, X the low-rank part, E the
outliers, O the compensation of what is missing, L, R, A, D per mode. Where the paper's text leaves something open,
the comment says what was chosen.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "OnlineState",
    "beside",
    "carried",
    "conditioned",
    "features",
    "fibers",
    "fold",
    "given",
    "longest_run",
    "olrtr_lambda2",
    "olrtr_minibatch",
    "place_readings",
    "rtr",
    "unfold",
]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


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


class OnlineState:
    """What OLRTR carries from one minibatch to the next."""

    def __init__(self, dictionaries: list[Floats]) -> None:
        rank = dictionaries[0].shape[1]
        self.L = [np.array(L) for L in dictionaries]
        self.A = [np.zeros((rank, rank)) for _ in dictionaries]
        self.D = [np.zeros(L.shape) for L in dictionaries]


def olrtr_minibatch(
    state: OnlineState,
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


def given(covariance: Floats, seen: list[int], values: Floats) -> tuple[Floats, Floats]:
    """Mean and covariance of a centred Gaussian, all of it, once the members `seen` have these values."""
    members = range(len(covariance))
    if not seen:
        return np.zeros(len(covariance)), np.array(covariance)
    inside = np.linalg.inv(np.array([[covariance[a, b] for b in seen] for a in seen]))
    across = np.array([[covariance[a, b] for b in seen] for a in members])
    return across @ inside @ values, covariance - across @ inside @ across.T


def conditioned(covariance: Floats, deviation: Floats, trusted: Bools) -> tuple[Floats, Floats, Floats, Floats]:
    """Predict every cell from the trusted readings of the others in its slot, one submatrix at a time.

    Returns what is expected, its variance, the completed deviations, and the mean over the slots of the covariance
    of the completed.
    """
    members, slots = deviation.shape
    expected, variance, completed = np.zeros((members, slots)), np.zeros((members, slots)), np.zeros((members, slots))
    uncertainty = np.zeros((members, members))
    for slot in range(slots):
        seen = [member for member in range(members) if trusted[member, slot]]
        mean, spread = given(covariance, seen, deviation[seen, slot])
        # What was read is known: only rounding is left of its variance.
        uncertain = [member for member in range(members) if member not in seen]
        for one in uncertain:
            for two in uncertain:
                uncertainty[one, two] += spread[one, two] / slots
        for member in range(members):
            others = [other for other in seen if other != member]
            mean_of_rest, spread_of_rest = given(covariance, others, deviation[others, slot])
            expected[member, slot] = mean_of_rest[member]
            variance[member, slot] = spread_of_rest[member, member]
            completed[member, slot] = deviation[member, slot] if member in seen else mean[member]
    return expected, variance, completed, uncertainty


def carried(
    residual: Floats, trusted: Bools, last: Floats, age: Floats, table: Floats, cells: Bools, nearest: int
) -> tuple[Floats, Floats]:
    """Kriging in time: each cell from the `nearest` trusted residuals before it and after it, itself left out."""
    channels, slots = residual.shape
    estimate, remaining = np.zeros((channels, slots)), np.ones((channels, slots))
    for channel in range(channels):
        known = [(-age[channel, n], last[channel, n]) for n in range(age.shape[1]) if math.isfinite(age[channel, n])]
        known += [(float(slot), residual[channel, slot]) for slot in range(slots) if trusted[channel, slot]]
        for slot in range(slots):
            if not cells[channel, slot]:
                continue
            before = sorted((pair for pair in known if pair[0] < slot), key=lambda pair: -pair[0])[:nearest]
            after = sorted((pair for pair in known if pair[0] > slot), key=lambda pair: pair[0])[:nearest]
            times, values = [time for time, _ in before + after], [value for _, value in before + after]
            estimate[channel, slot], remaining[channel, slot] = _krige(times, values, slot, table)
    return estimate, remaining


def _krige(times: list[float], values: list[float], slot: float, table: Floats) -> tuple[float, float]:
    """Best linear combination of unit-variance values, and the share of variance it leaves."""
    if not times:
        return 0.0, 1.0

    def alike(lag: float) -> float:
        return float(table[min(int(abs(lag)), len(table) - 1)])

    among = np.array([[alike(one - two) + 1e-6 * (one == two) for two in times] for one in times])
    reach = np.array([alike(time - slot) for time in times])
    weights = np.linalg.solve(among, reach)
    return float(weights @ values), float(min(max(1 - weights @ reach, 1e-6), 1.0))


def beside(residual: Floats, trusted: Bools, table: Floats) -> Floats:
    """Kriging from the two slots beside each cell alone."""
    channels, slots = residual.shape
    estimate = np.zeros((channels, slots))
    for channel in range(channels):
        for slot in range(slots):
            near = [at for at in (slot - 1, slot + 1) if 0 <= at < slots and trusted[channel, at]]
            if near:
                among = np.array([[table[abs(one - two)] for two in near] for one in near])
                weights = np.linalg.solve(among, np.array([table[abs(at - slot)] for at in near]))
                estimate[channel, slot] = sum(w * residual[channel, at] for w, at in zip(weights, near, strict=True))
    return estimate


def longest_run(values: Floats, there: Bools) -> tuple[list[int], Bools]:
    """Longest stretch of equal readings of each fiber, the first of several; gaps do not end a stretch."""
    inside = np.zeros(values.shape, dtype=bool)
    lengths = []
    for fiber in range(len(values)):
        seen = [slot for slot in range(values.shape[1]) if there[fiber, slot]]
        best: list[int] = []
        for first in range(len(seen)):
            stretch = [seen[first]]
            while (
                first + len(stretch) < len(seen)
                and values[fiber, seen[first + len(stretch)]] == values[fiber, seen[first]]
            ):
                stretch.append(seen[first + len(stretch)])
            if len(stretch) > len(best):
                best = stretch
        inside[fiber, best] = True
        lengths.append(len(best))
    return lengths, inside


def features(residual: Floats, there: Bools, floor: Floats) -> Floats:
    """Log of size, level and roughness of each fiber, an eighth of the readings trimmed; NaN with too few.

    A reading has a step on either side, so twice as many of these are.
    """
    found = np.full((len(residual), 3), math.nan)
    for fiber in range(len(residual)):
        slots = [slot for slot in range(residual.shape[1]) if there[fiber, slot]]
        readings = sorted(float(residual[fiber, slot]) for slot in slots)
        steps = [residual[fiber, slot + 1] - residual[fiber, slot] for slot in slots if slot + 1 in slots]
        size = _mean(_without_largest([value**2 for value in readings], 1))
        cut = len(readings) // 8
        level = _mean(readings[cut : len(readings) - cut])
        rough = _mean(_without_largest([float(step) ** 2 for step in steps], 2))
        for which, (square, enough) in enumerate(
            [(size, len(readings) >= 1), (level**2 + 0.1 * size, len(readings) >= 3), (rough, len(steps) >= 3)]
        ):
            if enough:
                found[fiber, which] = 0.5 * math.log(square + floor[fiber] ** 2 + 1e-300)
    return found


def _without_largest(squares: list[float], eighths: int) -> list[float]:
    return sorted(squares)[: len(squares) - eighths * (len(squares) // 8)]


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def place_readings(
    readings: list[tuple[int, int, float]],
    *,
    channels: int,
    step: int,
    slots: int,
    start: int,
    fill: tuple[float, ...] = (),
    valid: tuple[float, float] = (-np.inf, np.inf),
) -> tuple[Floats, NDArray[np.int64], NDArray[np.object_]]:
    """Put (channel, time, value) into slots, one reading after the other: value, n, and what else is to be said.

    Said is a set per cell of `filled`, `contradictory` and `implausible`.
    """
    latest: dict[tuple[int, int], float | None] = {}
    value, count = np.full((channels, slots), np.nan), np.zeros((channels, slots), dtype=np.int64)
    said = np.frompyfunc(lambda _: set(), 1, 1)(np.zeros((channels, slots)))
    for channel, time, number in readings:
        cell = channel, (time - start) // step
        none = not np.isfinite(number) or number in fill
        before = latest.get((channel, time))
        if none:
            latest.setdefault((channel, time), None)
            continue
        if before is not None and before != number:
            said[cell].add("contradictory")
        latest[channel, time] = number
    for channel in range(channels):
        for slot in range(slots):
            inside = [number for (mine, time), number in sorted(latest.items(), key=lambda entry: entry[0])
                      if mine == channel and (time - start) // step == slot]  # fmt: skip
            numbers = [number for number in inside if number is not None]
            sound = [number for number in numbers if valid[0] <= number <= valid[1]]
            if numbers and not sound:
                said[channel, slot].add("implausible")
            if inside and not numbers:
                said[channel, slot].add("filled")
            counted = sound or numbers
            if counted:
                value[channel, slot], count[channel, slot] = sum(counted) / len(counted), len(counted)
    return value, count, said
