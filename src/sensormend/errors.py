"""The module defines the exceptions of sensormend.

::

    SensormendError              everything sensormend raises on purpose
    ├── InputError (ValueError)    the readings are not what a method can take
    │   ├── MissingError             a path or row that does not exist, or nothing that can be read
    │   ├── ShapeError               wrong axes, or a sensor axis that changed without labels
    │   └── ValueRangeError          text, complex numbers, infinities, a circular quantity
    ├── ConfigError (ValueError)   a wrong or missing setting: rank, alpha, interval
    ├── StateError (ValueError)    a state file that is foreign, broken, or of a version that cannot be read
    ├── DivergenceError (ArithmeticError)   a method diverged, as published ones can
    ├── StorageError               a file cannot be written or removed: a full disk, a folder that is gone
    └── RefusedError               a sink is reachable and refuses this delivery

After any of them a model's state is what it was before the call.
"""

import re
from urllib.parse import unquote

__all__ = [
    "ConfigError",
    "DivergenceError",
    "InputError",
    "MissingError",
    "RefusedError",
    "SensormendError",
    "ShapeError",
    "StateError",
    "StorageError",
    "ValueRangeError",
    "one_line",
    "shown",
]


class SensormendError(Exception):
    """The base class of all errors that sensormend raises on purpose; the message is one line."""


class InputError(SensormendError, ValueError):
    """The readings are not what a method can take."""


class MissingError(InputError):
    """A path or a row that does not exist, or a path that holds nothing that can be read: a wrong call."""


class ShapeError(InputError):
    """Wrong number of axes, or a sensor axis that changed without labels."""


class ValueRangeError(InputError):
    """Text, complex numbers, infinities or a circular quantity where plain readings are needed."""


class ConfigError(SensormendError, ValueError):
    """A wrong or missing setting."""


class StateError(SensormendError, ValueError):
    """A state file that is foreign, broken, or of a version that cannot be read."""


class DivergenceError(SensormendError, ArithmeticError):
    """A method diverged on this minibatch."""


class StorageError(SensormendError):
    """A file cannot be written or removed; the operation can be repeated when there is space."""


class RefusedError(SensormendError):
    """A sink is reachable and refuses this delivery, so that repeating it is useless."""


def one_line(error: BaseException) -> str:
    """Return the message of an error in one line, or its type where there is no message."""
    return " ".join(str(error).split()) or type(error).__name__


def shown(address: str) -> str:
    """Return an address without its password.

    Examples
    --------
    >>> shown("postgresql://me:secret@host/db?sslpassword=secret&table=rows")
    'postgresql://me@host/db?sslpassword=...&table=rows'
    """
    # Up to the last @: a password that is not percent-encoded may contain @ and /.
    plain = re.sub(r"(//[^@:]*):.*@", r"\1@", address, flags=re.DOTALL)

    def without(pair: re.Match[str]) -> str:
        return f"{pair[1]}=..." if _SECRET.search(unquote(pair[1])) else pair[0]

    return re.sub(r"([?&][^=&#]*)=[^&#]*", without, plain)


_SECRET = re.compile(r"password|passwd|pwd|secret|token", re.IGNORECASE)
