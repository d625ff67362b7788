"""sensormend finds the sensors of a network that report wrong values, and fills what is missing or wrong."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sensormend.errors import (
    ConfigError,
    DivergenceError,
    InputError,
    SensormendError,
    ShapeError,
    StateError,
    ValueRangeError,
)

if TYPE_CHECKING:
    from sensormend.archive.frames import clean
    from sensormend.methods.grasta import GRASTA
    from sensormend.methods.olrsc import OLRSC
    from sensormend.methods.olrtr import OLRTR
    from sensormend.methods.orltm import ORLTM
    from sensormend.methods.ostd import OSTD
    from sensormend.methods.rtr import RTR
    from sensormend.methods.stoc_rpca import StocRPCA
    from sensormend.methods.trpca import TRPCA
    from sensormend.model.network_model import NetworkModel
    from sensormend.recovery import Fault, Recovery

__all__ = [
    "GRASTA",
    "OLRSC",
    "OLRTR",
    "ORLTM",
    "OSTD",
    "RTR",
    "TRPCA",
    "ConfigError",
    "DivergenceError",
    "Fault",
    "InputError",
    "NetworkModel",
    "Recovery",
    "SensormendError",
    "ShapeError",
    "StateError",
    "StocRPCA",
    "ValueRangeError",
    "clean",
]

__version__ = "0.1.0"

# Imported on first access: together they take half a second, and `sensormend --version` needs none of them.
_MODULES = {
    "NetworkModel": "model.network_model",
    "Fault": "recovery",
    "GRASTA": "methods.grasta",
    "OLRSC": "methods.olrsc",
    "OLRTR": "methods.olrtr",
    "ORLTM": "methods.orltm",
    "OSTD": "methods.ostd",
    "RTR": "methods.rtr",
    "Recovery": "recovery",
    "StocRPCA": "methods.stoc_rpca",
    "TRPCA": "methods.trpca",
    "clean": "archive.frames",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
