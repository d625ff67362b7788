"""The package provides the published methods, one per file, and `method_class` by the names of `--method`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sensormend.methods.grasta import GRASTA
    from sensormend.methods.olrsc import OLRSC
    from sensormend.methods.olrtr import OLRTR
    from sensormend.methods.orltm import ORLTM
    from sensormend.methods.ostd import OSTD
    from sensormend.methods.rtr import RTR
    from sensormend.methods.stoc_rpca import StocRPCA
    from sensormend.methods.trpca import TRPCA

__all__ = [
    "BATCH",
    "GRASTA",
    "OLRSC",
    "OLRTR",
    "ONLINE",
    "ORLTM",
    "OSTD",
    "RTR",
    "TRPCA",
    "StocRPCA",
    "method_class",
]

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


def __getattr__(name: str) -> Any:
    names = {kind: method for method, (_, kind) in {**ONLINE, **BATCH}.items()}
    if name not in names:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return method_class(names[name])


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
