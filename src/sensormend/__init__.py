"""sensormend mends the data of a sensor network while it streams in."""

from sensormend.errors import (
    ConfigError,
    DivergenceError,
    InputError,
    SensormendError,
    ShapeError,
    StateError,
    ValueRangeError,
)
from sensormend.methods.auto import AutoOLRTR
from sensormend.methods.olrtr import OLRTR
from sensormend.methods.rtr import RTR
from sensormend.recovery import Recovery

__all__ = [
    "OLRTR",
    "RTR",
    "AutoOLRTR",
    "ConfigError",
    "DivergenceError",
    "InputError",
    "Recovery",
    "SensormendError",
    "ShapeError",
    "StateError",
    "ValueRangeError",
]

__version__ = "0.1.0"
