"""The Array of Things in Chicago: real faults without labels, judged by a reference station nearby."""

from __future__ import annotations

from time import perf_counter

import numpy as np

from sensormend.bench.contestants import CONTESTANTS
from sensormend.bench.data import load_network, load_reference
from sensormend.bench.tables import Bar, Figures
from sensormend.methods.base import Method
from sensormend.methods.olrtr import OLRTR
from sensormend.recovery import FloatArray

__all__ = ["correlation", "figures", "raw_rows", "run"]

Row = tuple[tuple[str, ...], list[float]]


def correlation(estimate: FloatArray, reference: FloatArray) -> float:
    """Return the mean over sensors of the correlation with the reference, where both are known."""
    rows = []
    for sensor in estimate:
        both = np.isfinite(sensor) & np.isfinite(reference)
        if both.sum() > 2 and np.std(sensor[both]) > 0:
            rows.append(float(np.corrcoef(sensor[both], reference[both])[0, 1]))
    return float(np.mean(rows)) if rows else float("nan")


def raw_rows() -> list[Row]:
    """Describe the readings as they came, missing ones left out, and taken as 0 as the paper does."""
    readings, reference = load_network("aot"), load_reference()
    low, high = float(np.nanmin(readings)), float(np.nanmax(readings))
    zeros = correlation(np.nan_to_num(readings), reference)
    return [
        (("raw", "readings"), [correlation(readings, reference), low, high, float("nan")]),
        (("raw", "missing as 0"), [zeros, low, high, float("nan")]),
    ]


def run(method: str, seed: int = 0) -> list[Row]:
    """Run one method over the year in one pass; for both of its outputs correlation, range and seconds."""
    readings, reference = load_network("aot"), load_reference()
    started = perf_counter()
    recovery = _contestant(method, seed).recover(readings)
    seconds = perf_counter() - started
    rows: list[Row] = []
    for name, values in (("low_rank", recovery.low_rank), ("cleaned", recovery.cleaned)):
        ends = [float(np.nanmin(values)), float(np.nanmax(values))]
        rows.append(((method, name), [correlation(values, reference), *ends, seconds]))
    return rows


def _contestant(method: str, seed: int) -> Method:
    if method == "OLRTR r3":  # its authors tuned it anew for this network
        return OLRTR(3, 370, tol=1e-3, max_iter=50, seed=seed)
    return CONTESTANTS[method](seed)


def figures(raw: list[Row], rows: list[Row]) -> Figures:
    """Lay out correlation and range; AutoOLRTR beside its bar."""
    low, high = raw[0][1][1:3]
    bars = [Bar(low=0.978), Bar(low - 2, low + 2), Bar(high - 2, high + 2), None]
    nothing: list[Bar | None] = [None] * 4
    return Figures(
        title="Array of Things, one pass",
        note="Mean over sensors of the correlation with the reference station, and the range in deg C.",
        labels=("method", "output"),
        rows=[labels for labels, _ in [*raw, *rows]],
        columns=("correlation", "lowest", "highest", "seconds"),
        cells=[
            [
                (value, float("nan"), bar)
                for value, bar in zip(values, bars if labels[0].startswith("Auto") else nothing, strict=True)
            ]
            for labels, values in [*raw, *rows]
        ],
    )
