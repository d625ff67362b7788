"""Decorators take the engine's loops from a library that was built with the package, else numba compiles them.

The library was compiled from the same functions, see `library`; where there is none, as in a checkout of the source,
numba compiles them on first use and caches the results on disk. With NUMBA_DISABLE_JIT=1 they run as plain Python.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from sensormend.model.library import load_library

__all__ = [
    "allocating", "announce_compilation", "compiled", "entry", "exact", "exact_inner", "fingerprint", "inlined",
    "is_compiled", "unroller",
]  # fmt: skip

_Function = TypeVar("_Function", bound=Callable[..., Any])

OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    # Sums may be reordered, so that they are computed several numbers at a time; NaN and infinity keep their meaning.
    "fastmath": {"contract", "reassoc", "nsz", "arcp"},
}


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function that compiled ones call; `function.py_func` is the same in plain Python.

    It neither makes arrays nor returns them: those that it is given are the caller's, and their references are not
    counted, which would take a fifth of the time.
    """
    return _inner(function, _nrt=False)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a function that `compiled` ones contain: the arrays it works on are not handed over in every call."""
    return _inner(function, _nrt=False, forceinline=True)


def allocating(function: Callable[..., Any]) -> Any:
    """Compile a function that compiled ones call, and that makes arrays or returns them."""
    return _inner(function)


def entry(function: Callable[..., Any]) -> Any:
    """Compile a function that Python calls; it returns nothing, and its results are in arrays that it is given."""
    return _jit(function, **OPTIONS) if LIBRARY is None else LIBRARY.function(function.__name__)


def exact(function: Callable[..., Any]) -> Any:
    """Do the same as `entry`, with sums in the order in which they are written."""
    return _jit(function, nogil=True) if LIBRARY is None else LIBRARY.function(function.__name__)


def exact_inner(function: _Function) -> _Function:
    """Compile a function that ones from `exact` call, and that may make arrays and return something."""
    return _jit(function, nogil=True) if LIBRARY is None else function


def unroller() -> Callable[[tuple[str, ...]], Iterable[str]]:
    """Return the function that a compiled loop over the fields of a record calls with their names."""
    if LIBRARY is not None:
        return iter
    from numba import literal_unroll

    unroll: Callable[[tuple[str, ...]], Iterable[str]] = literal_unroll
    return unroll


def is_compiled(function: Any) -> bool:
    """Return whether a function from `entry` needs no compiling: it is in the library, in memory or cached."""
    cache = _cache_file(function)
    return cache is None or bool(function.overloads or cache._load_index())


def announce_compilation(function: Any) -> None:
    """Write one line to stderr where a function from `entry` has to be compiled."""
    if not is_compiled(function):
        print("compiling the engine, once; this takes about a minute", file=sys.stderr, flush=True)


def _inner(function: Callable[..., Any], **options: Any) -> Any:
    if LIBRARY is not None:
        return function
    import numba

    # Without wrappers for callers from Python, which take half of the time to compile, and without a cache of its own:
    # the function is in that of its caller.
    settings: dict[str, Any] = {**OPTIONS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, **options}
    return numba.njit(**settings)(function)


def _jit(function: _Function, **options: Any) -> _Function:
    import numba

    try:
        done: _Function = numba.njit(cache=True, **options)(function)
    except RuntimeError:
        # Neither beside the source nor in the user's cache may anything be written: compiled again in every process.
        done = numba.njit(**options)(function)
    cache = _cache_file(done)
    if cache is not None:
        # By itself numba compiles again when the file of a function has changed, and not when what it calls has.
        cache._source_stamp = SOURCES
    return done


def _cache_file(function: Any) -> Any:
    """Return numba's cache of a function; None where it has none, as with NUMBA_DISABLE_JIT."""
    return getattr(getattr(function, "_cache", None), "_cache_file", None)


def fingerprint() -> str:
    """Return a digest of all modules with compiled functions."""
    sources = (file.read_bytes() for file in sorted(Path(__file__).parent.glob("*.py")))
    decorated = re.compile(rb"^@(compiled|inlined|allocating|entry|exact|exact_inner)\b", re.MULTILINE)
    return hashlib.sha256(b"\0".join(source for source in sources if decorated.search(source))).hexdigest()


SOURCES = fingerprint()
LIBRARY = load_library(SOURCES)
