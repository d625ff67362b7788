"""sensormend finds the sensors of a network that report wrong values, and fills what is missing or wrong."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sensormend.errors import (
    ConfigError,
    DivergenceError,
    InputError,
    MissingError,
    RefusedError,
    SensormendError,
    ShapeError,
    StateError,
    StorageError,
    ValueRangeError,
)

if TYPE_CHECKING:
    from sensormend.methods.olrtr import OLRTR
    from sensormend.model.network_model import NetworkModel
    from sensormend.result import Result, clean

__all__ = [
    "OLRTR",
    "ConfigError",
    "DivergenceError",
    "InputError",
    "MissingError",
    "NetworkModel",
    "RefusedError",
    "Result",
    "SensormendError",
    "ShapeError",
    "StateError",
    "StorageError",
    "ValueRangeError",
    "clean",
]

__version__ = "0.1.0"

# Imported on first access: together they take half a second, and `sensormend --version` needs none of them.
_MODULES = {
    "NetworkModel": "model.network_model",
    "OLRTR": "methods.olrtr",
    "Result": "result",
    "clean": "result",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
