"""What everything that writes files shares: one writer at a time, and a record of where results came from."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from pathlib import Path
from typing import IO, Any

from sensormend.errors import SensormendError

__all__ = ["locked", "now", "surroundings", "write_beside"]


@contextmanager
def locked(path: Path, refusal: str) -> Iterator[None]:
    """Take a folder for this process alone; the system lets go of it however the process ends."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise SensormendError(refusal) from None
        yield
    finally:
        os.close(handle)


@contextmanager
def write_beside(path: Path) -> Iterator[IO[str]]:
    """Open a text file that takes its place when it is whole, and leaves nothing behind when that fails."""
    beside = path.with_name(f"{path.name}.new")
    try:
        with beside.open("w", encoding="utf-8", newline="") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException as error:
        with suppress(OSError):
            beside.unlink()
        if isinstance(error, OSError):
            raise SensormendError(f"cannot write {path}: {error.strerror or error}") from error
        raise


def now() -> str:
    """Return the time, UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def surroundings() -> dict[str, Any]:
    """Return versions and the size of the machine; neither its name nor any path."""
    from sensormend import __version__

    names = ("numpy", "scipy", "duckdb", "matplotlib")
    return {
        "sensormend": __version__,
        "commit": _commit(),
        "python": platform.python_version(),
        **{name: _installed(name) for name in names},
        "system": platform.system(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "memory_gb": _memory(),
    }


def _installed(name: str) -> str | None:
    try:
        return installed(name)
    except PackageNotFoundError:
        return None


def _memory() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):
        return None


def _commit() -> str | None:
    """Return the commit of a checkout; an installed copy inside somebody else's has none."""
    here = Path(__file__).resolve()

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=here.parent, capture_output=True, text=True, check=True, timeout=20
        ).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", here.name)
        return git("describe", "--always", "--dirty", "--exclude=*")
    except (OSError, subprocess.SubprocessError):
        return None
