"""sensormend mends the data of a sensor network while it streams in."""

from sensormend.cleaning import clean
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
from sensormend.methods.grasta import GRASTA
from sensormend.methods.olrsc import OLRSC
from sensormend.methods.olrtr import OLRTR
from sensormend.methods.orltm import ORLTM
from sensormend.methods.ostd import OSTD
from sensormend.methods.rtr import RTR
from sensormend.methods.stoc_rpca import StocRPCA
from sensormend.methods.trpca import TRPCA
from sensormend.recovery import Fault, Recovery

__all__ = [
    "GRASTA",
    "OLRSC",
    "OLRTR",
    "ORLTM",
    "OSTD",
    "RTR",
    "TRPCA",
    "AutoOLRTR",
    "ConfigError",
    "DivergenceError",
    "Fault",
    "InputError",
    "Recovery",
    "SensormendError",
    "ShapeError",
    "StateError",
    "StocRPCA",
    "ValueRangeError",
    "clean",
]

__version__ = "0.1.0"
