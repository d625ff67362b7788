"""What the paper prints, to stand beside our figures."""

from __future__ import annotations

__all__ = ["AOT", "CLAIMS", "NOAA"]

_FULL, _PARTIAL = "100 %", "90 %"

_TABLE = {
    "ORLTM": ((0.157, 0.834), (0.192, 0.309)),
    "StocRPCA": ((0.644, 0.867), (0.644, 0.820)),
    "OSTD": ((0.327, 0.294), (0.394, 0.179)),
    "OLRSC": ((0.158, 0.800), (0.352, 0.199)),
    "GRASTA r20": ((0.085, 0.100), (0.096, 0.099)),
    "OLRTR r20": ((0.053, 0.974), (0.120, 0.953)),
    "RTR": ((0.029, 0.984), (0.030, 0.984)),
    "TRPCA": ((0.012, 0.877), (0.078, 0.188)),
}

NOAA: dict[tuple[str, str], tuple[float, float]] = {
    (method, setting): figures
    for method, both in _TABLE.items()
    for setting, figures in zip((_FULL, _PARTIAL), both, strict=True)
}
"""RE and F1 by method and observation ratio; the paper says rank 20 of every method."""

AOT: dict[str, tuple[float, float, float]] = {
    "raw": (0.836, -30, 43),
    "StocRPCA": (0.978, -1, 2),
    "OSTD": (0.909, -22, 72),
    "OLRSC": (0.854, -10, 20),
    "ORLTM": (0.862, -37, 90),
    "OLRTR": (0.968, -28, 43),
    "RTR": (0.980, -30, 43),
    "TRPCA": (0.841, -29, 42),
}
"""Correlation with the reference station, lowest and highest value in deg C; its GRASTA gave NaN."""

CLAIMS = {
    "size": "The paper: only RTR recovers exactly, and its time rises sharply with the size; OLRTR is second.",
    "corruption": "The paper: OLRTR's RE stays under 0.2 up to half of the fibers, other online methods exceed 0.5.",
    "magnitude": "The paper: RE hardly depends on the magnitude; nobody detects faults that are small enough.",
    "observation": "The paper: only OLRTR and RTR keep an F1 of 1; GRASTA is steady down to 0.75 and then drops.",
    "convergence": "The paper: OLRTR converges after 10 minibatches for I3 = 10 and 50, after about 30 for I3 = 1.",
}
"""What the text says of its figures, whose numbers are not printed."""
