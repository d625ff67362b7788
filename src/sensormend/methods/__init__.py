"""The package provides the published methods, one per file, and `method_class` by the names of `--method`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["BATCH", "ONLINE", "method_class"]

ONLINE = {
    "olrtr": ("olrtr", "OLRTR"),
    "stocrpca": ("stoc_rpca", "StocRPCA"),
    "ostd": ("ostd", "OSTD"),
    "olrsc": ("olrsc", "OLRSC"),
    "orltm": ("orltm", "ORLTM"),
    "grasta": ("grasta", "GRASTA"),
}
"""The module and the class of each method that learns from one minibatch after the other, by its name."""

BATCH = {"rtr": ("rtr", "RTR"), "trpca": ("trpca", "TRPCA")}
"""The same of the methods that need the whole tensor at once."""


def method_class(name: str) -> Any:
    """Return the class of a method, imported only now.

    Examples
    --------
    >>> method_class("olrtr").__name__
    'OLRTR'
    """
    module, kind = {**ONLINE, **BATCH}[name]
    return getattr(import_module(f"sensormend.methods.{module}"), kind)
