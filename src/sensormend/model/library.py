"""The library has the engine's functions as machine code, compiled when the package was built; it needs no numba.

`hatch_build.py` writes the folder `built`: a shared library for each kind of processor, and `engine.json` with the
types of every function's arguments and a digest of the sources. A function takes one table of integers: the size of an
object's header, then an entry for every argument, named tuples field by field. An array is the address of its object,
of which the library reads what NumPy's C interface does; a float is its bits.
"""

from __future__ import annotations

import ctypes
import json
import os
import struct
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["BUILT", "PROCESSORS", "Library", "flatten", "load_library", "type_code"]

BUILT = Path(__file__).parent / "built"

PROCESSORS: dict[str, frozenset[str]] = {
    "x86-64-v3": frozenset({"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"}),
    "generic": frozenset(),
}
"""Kinds of processors, the fastest first, and what /proc/cpuinfo says of them."""

SWITCHES = ("NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK")
"""Environment variables that ask for other code than the library has."""


class Library:
    """Functions of a shared library."""

    def __init__(self, path: Path, signatures: dict[str, str]) -> None:
        # Python's lock is released during calls.
        self._code = ctypes.CDLL(str(path))
        self._signatures = signatures

    def function(self, name: str) -> Callable[..., None]:
        """Return a function to be called with the arguments that it was written for."""
        code, expected = self._code[name], self._signatures[name]
        code.argtypes, code.restype = [ctypes.c_void_p], ctypes.c_int

        def call(*arguments: Any) -> None:
            table, types = array("q", [object.__basicsize__]), list[str]()
            flatten(arguments, table, types)
            if "".join(types) != expected:
                raise TypeError(f"{name} takes {expected}; got {''.join(types)}")
            if code(table.buffer_info()[0]) != 0:
                raise RuntimeError(f"{name} failed")

        return call


def flatten(arguments: tuple[Any, ...], table: array[int], types: list[str]) -> None:
    """Append arguments to the table of a call, and to `types` what they are."""
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            if not argument.flags.c_contiguous:
                raise TypeError("an array is not contiguous")
            table.append(id(argument))
            dtype = argument.dtype
            types.append(f"{dtype.char if dtype.names is None else type_code(dtype)}{argument.ndim}")
        elif isinstance(argument, tuple):
            flatten(argument, table, types)
        elif isinstance(argument, bool | np.bool_):
            table.append(int(argument))
            types.append("b")
        elif isinstance(argument, float):
            table.append(struct.unpack("q", struct.pack("d", argument))[0])
            types.append("f")
        else:
            table.append(int(argument))
            types.append("i")


def type_code(dtype: np.dtype[Any]) -> str:
    """Return what a signature has for an array of this type: a letter, and how many bytes a record has."""
    return dtype.char if dtype.names is None else f"{dtype.char}{dtype.itemsize}"


def load_library(sources: str) -> Library | None:
    """Return the library for this processor; None where there is none that was built from these sources."""
    if any(os.environ.get(switch, "0") not in ("", "0") for switch in SWITCHES):
        return None
    try:
        record = json.loads((BUILT / "engine.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    if record["sources"] != sources:
        return None
    able = _flags()
    paths = [BUILT / f"engine-{name}.so" for name, needed in PROCESSORS.items() if needed <= able]
    path = next((path for path in paths if path.exists()), None)
    return None if path is None else Library(path, record["signatures"])


def _flags() -> frozenset[str]:
    """Return what the processor can do, as Linux says it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return frozenset()
    words = next((line.partition(":")[2] for line in lines if line.startswith("flags")), "")
    return frozenset(words.split())
