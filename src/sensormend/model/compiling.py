"""The compiler of the engine's loops: numba, with results cached on disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

__all__ = ["compiled", "entry"]

F = TypeVar("F", bound=Callable[..., Any])

OPTIONS: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    # Sums may be reordered, so that they are computed several numbers at a time; NaN and infinity keep their meaning.
    "fastmath": {"contract", "reassoc", "nsz", "arcp"},
}


def compiled(function: F) -> F:
    """Compile a function that compiled ones call; `function.py_func` is the same in plain Python."""
    # Without wrappers for callers from Python, which take half of the time to compile.
    done: F = numba.njit(**OPTIONS, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)
    return done


def entry(function: F) -> F:
    """Compile a function that Python calls."""
    done: F = numba.njit(**OPTIONS)(function)
    return done
