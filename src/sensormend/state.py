"""State files: `.npz` with a versioned JSON header, never a pickle, written beside and renamed."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.errors import StateError

__all__ = ["read_state", "write_state"]

FORMAT = "sensormend-state"


def write_state(
    path: str | os.PathLike[str],
    *,
    method: str,
    version: int,
    settings: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
) -> None:
    """Write a method's state; a reader sees the old file or the new one, never half of one."""
    target = Path(path)
    beside = target.with_name(target.name + ".new")
    header = {"format": FORMAT, "method": method, "version": version, "settings": dict(settings)}
    try:
        with beside.open("wb") as file:
            # np.savez's own parameters have names too: its stub has to be told that these are all arrays.
            contents: dict[str, Any] = {"header": np.array(json.dumps(header)), **arrays}
            np.savez(file, allow_pickle=False, **contents)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def read_state(
    path: str | os.PathLike[str], *, method: str, version: int, oldest: int = 1
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read back the settings and the arrays of a state file.

    Raises
    ------
    StateError
        No such file, a file that is not a state of `method`, a broken one, or one of a later version.
    """
    name = Path(path).name
    try:
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
        header = json.loads(str(arrays.pop("header")))
        found, written, settings = header["method"], header["version"], header["settings"]
        ours = header["format"] == FORMAT and isinstance(written, int) and isinstance(settings, dict)
    except FileNotFoundError:
        raise StateError(f"there is no state file {name}") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile):
        raise StateError(f"{name} is not a sensormend state file, or it is broken") from None
    if not ours:
        raise StateError(f"{name} is not a sensormend state file, or it is broken")
    if found != method:
        raise StateError(f"{name} holds the state of {found}, not of {method}")
    if written > version:
        raise StateError(f"{name} was written by a later sensormend (state version {written}); update first")
    if written < oldest:
        raise StateError(f"{name} was written by an earlier sensormend (state version {written}); start a new model")
    return settings, arrays
