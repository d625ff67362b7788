"""What can go wrong, drawn once.

::

    SensormendError              everything sensormend raises on purpose
    ├── InputError (ValueError)    the readings are not what a method can take
    │   ├── ShapeError               wrong axes, or a sensor axis that changed without labels
    │   └── ValueRangeError          text, complex numbers, infinities, a circular quantity
    ├── ConfigError (ValueError)   a wrong or missing setting: rank, alpha, interval
    ├── StateError (ValueError)    a state file that is not ours, broken, or of a later version
    ├── DivergenceError (ArithmeticError)   a method ran off to infinity, as published ones can
    ├── StorageError               a file cannot be written or removed: a full disk, a folder that is gone
    ├── ResultError                a result that cannot be true: a fault of sensormend, not of the readings
    └── RefusedError               a sink is there, and says that it will not take this delivery

After any of them a model's state is what it was before the call.
"""

__all__ = [
    "ConfigError",
    "DivergenceError",
    "InputError",
    "RefusedError",
    "ResultError",
    "SensormendError",
    "ShapeError",
    "StateError",
    "StorageError",
    "ValueRangeError",
]


class SensormendError(Exception):
    """Everything sensormend raises on purpose; its text is one line for a person."""


class InputError(SensormendError, ValueError):
    """The readings are not what a method can take."""


class ShapeError(InputError):
    """Wrong number of axes, or a sensor axis that changed without labels."""


class ValueRangeError(InputError):
    """Text, complex numbers, infinities or a circular quantity where plain readings are needed."""


class ConfigError(SensormendError, ValueError):
    """A wrong or missing setting."""


class StateError(SensormendError, ValueError):
    """A state file that is not ours, is broken, or comes from a later version."""


class DivergenceError(SensormendError, ArithmeticError):
    """A method ran off to infinity on this minibatch."""


class StorageError(SensormendError):
    """A file cannot be written or removed; the same may be done again when there is space."""


class ResultError(SensormendError):
    """A result that cannot be true; the run stops before it is written."""


class RefusedError(SensormendError):
    """A sink is there and will not take this delivery, however often it is tried."""
