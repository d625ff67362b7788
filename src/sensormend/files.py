"""`atomic_write`, `write_state`, `locked` and others keep files complete for concurrent readers and after a kill."""

from __future__ import annotations

import csv
import json
import os
import platform
import re
import stat
import subprocess
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
from numpy.typing import NDArray

from sensormend.errors import ConfigError, SensormendError, StateError, StorageError

__all__ = [
    "Closing",
    "StateFiles",
    "atomic_write",
    "harmless",
    "is_locked",
    "is_stream",
    "locked",
    "now",
    "open_text",
    "original",
    "read_state",
    "read_table",
    "replacing",
    "set_aside",
    "signature",
    "surroundings",
    "sync",
    "write_state",
    "written_by",
]


class Closing:
    """A context manager that calls `close` at the end of its `with` block."""

    def close(self) -> None:
        """Release all resources."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def harmless(text: str) -> str:
    """Return a text for a cell that no spreadsheet takes for a formula: names come from whoever sends a reading.

    A text that begins with `=`, `+`, `-`, `@`, a tab or a carriage return gets a single quote in front, as OWASP
    advises, and so does one that looks as if it had one already.

    Examples
    --------
    >>> harmless("=1+1"), harmless("'=1+1"), harmless("roof")
    ("'=1+1", "''=1+1", 'roof')
    """
    return f"'{text}" if _FORMULA.match(text) else text


def original(text: str) -> str:
    """Return the text that `harmless` was given.

    Examples
    --------
    >>> original("'=1+1"), original("''=1+1"), original("'roof'")
    ('=1+1', "'=1+1", "'roof'")
    """
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


_FORMULA = re.compile("'*[=+@\t\r-]")


@contextmanager
def locked(path: Path, refusal: str) -> Iterator[None]:
    """Lock a folder for this process; the system releases the lock when the process ends."""
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


def is_locked(path: Path) -> bool:
    """Return whether a process has locked a folder, without blocking it; False on systems that cannot report it."""
    try:
        inode = f":{path.stat().st_ino}"
        return any(words[5].endswith(inode) for words in map(str.split, Path("/proc/locks").read_text().splitlines())
                   if len(words) > 5 and words[1] == "FLOCK")  # fmt: skip
    except OSError:
        return False


def signature(path: Path) -> tuple[int, int, int] | None:
    """Return a value that changes whenever a file is rewritten; None if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside a file, which replaces the file at the end, or is removed after an error."""
    new = path.with_name(f"{path.name}.new")
    try:
        yield new
        os.replace(new, path)
    except BaseException as error:
        with suppress(OSError):
            new.unlink()
        if isinstance(error, OSError):
            raise StorageError(f"cannot write {path}: {error.strerror or error}") from error
        raise


@contextmanager
def atomic_write(path: Path) -> Iterator[IO[str]]:
    """Open a temporary text file, which replaces `path` at the end, or is removed after an error."""
    with replacing(path) as new, new.open("w", encoding="utf-8", newline="") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def set_aside(path: Path) -> Path:
    """Return a name beside a damaged file that no file has yet."""
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    return aside


def sync(path: Path) -> None:
    """Wait until a file, or the entries of a folder, are on disk and survive a power cut."""
    if os.name == "nt" and path.is_dir():
        return  # a folder cannot be opened there, and needs no syncing
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


FORMAT = "sensormend-state"

_UNREADABLE = (
    OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, NotImplementedError, RuntimeError, zlib.error,
    zipfile.BadZipFile,
)  # fmt: skip
"""The errors of a damaged `.npz` file."""


class _StateBytes:
    """The content of a state file that is stored elsewhere; functions on state files accept it in place of a path."""

    def __init__(self, name: str, content: bytes = b"") -> None:
        self.file, self._name = BytesIO(content), name

    def __fspath__(self) -> str:
        return self._name


class StateFiles(dict[str, _StateBytes]):
    """State files in memory by name; `/` gives one, as it does for a folder.

    Examples
    --------
    >>> place = StateFiles("OUT/state")
    >>> write_state(place / "sum.npz", method="Sum", version=1, settings={"total": 7}, arrays={})
    >>> read_state(place / "sum.npz", method="Sum", version=1), list(place)
    (({'total': 7}, {}), ['sum.npz'])
    """

    def __init__(self, folder: str, contents: Mapping[str, bytes] | None = None) -> None:
        self._folder = folder
        super().__init__({name: _StateBytes(f"{folder}/{name}", own) for name, own in (contents or {}).items()})

    def __truediv__(self, name: str) -> _StateBytes:
        return self.setdefault(name, _StateBytes(f"{self._folder}/{name}"))

    def __str__(self) -> str:
        return self._folder


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    if isinstance(path, _StateBytes):
        path.file.seek(0)
        yield path.file
    else:
        with Path(path).open("rb") as file:
            yield file


def write_state(
    path: str | os.PathLike[str],
    *,
    method: str,
    version: int,
    settings: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
) -> None:
    """Write a method's state; a reader sees the old file or the new one, never half of one."""
    header = {"format": FORMAT, "method": method, "version": version, "settings": dict(settings)}
    # The stub of np.savez has named parameters of other types; the keywords here are all arrays.
    contents: dict[str, Any] = {"header": np.array(json.dumps(header)), **arrays}
    if isinstance(path, _StateBytes):
        np.savez(path.file, allow_pickle=False, **contents)
        return
    target = Path(path)
    new = target.with_name(target.name + ".new")
    try:
        with new.open("wb") as file:
            np.savez(file, allow_pickle=False, **contents)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, target)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def read_state(
    path: str | os.PathLike[str], *, method: str, version: int, oldest: int | None = None
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read back the settings and the arrays of a state file.

    Raises
    ------
    StateError
        No such file, a file that is not a state of `method`, a broken one, or one of another version.
    """
    name = Path(path).name
    try:
        with _opened(path) as file, np.load(file, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
        header = json.loads(str(arrays.pop("header")))
        writer, written, settings = header["method"], header["version"], header["settings"]
        if header["format"] != FORMAT or not isinstance(written, int) or not isinstance(settings, dict):
            raise ValueError("another header")
    except FileNotFoundError:
        raise StateError(f"there is no state file {name}") from None
    except _UNREADABLE:
        raise StateError(f"{name} is not a sensormend state file, or it is broken") from None
    if writer != method:
        raise StateError(f"{name} holds the state of {writer}, not of {method}")
    if written > version:
        raise StateError(f"{name} was written by a later sensormend (state version {written}); update first")
    if written < (version if oldest is None else oldest):
        raise StateError(f"{name} was written by an earlier sensormend (state version {written}); start a new model")
    return settings, arrays


def written_by(path: str | os.PathLike[str]) -> str:
    """Return the name of the method that wrote a state file; empty where it cannot be read."""
    try:
        with _opened(path) as file, np.load(file, allow_pickle=False) as archive:
            return str(json.loads(str(archive["header"]))["method"])
    except _UNREADABLE:
        return ""


def is_stream(path: Path) -> bool:
    """Return whether a path is a pipe that a shell has opened, `<(...)`, which can be read only once."""
    opened = os.fspath(path).startswith(("/dev/fd/", "/proc/self/fd/"))
    return opened and path.exists() and stat.S_ISFIFO(path.stat().st_mode)


def open_text(path: Path, encoding: str = "utf-8") -> IO[str]:
    """Open a text file to be read, with its own line ends; a pipe or a device, which may never end, is an `OSError`."""
    kind = stat.S_IFMT(path.stat().st_mode)
    if kind not in (stat.S_IFREG, stat.S_IFDIR) and not is_stream(path):
        raise OSError("it is not a regular file but a pipe or a device, which may never end")
    return path.open(encoding=encoding, newline="")


def read_table(
    path: str | os.PathLike[str], needed: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the rows of a small CSV file of the user: the place of each row, for messages, and its cells by column.

    `needed` are the required columns, each with its alternative names; case and blanks are ignored.
    """
    path = Path(path)
    standard = {alternative: name for name, alternatives in needed.items() for alternative in alternatives}
    try:
        with open_text(path, "utf-8-sig") as file:
            table = csv.DictReader(file)
            header = [name.strip().lower() for name in table.fieldnames or ()]
            table.fieldnames = [name if standard.get(name, name) in header else standard[name] for name in header]
            lacking = [name for name in needed if name not in table.fieldnames]
            if lacking:
                verb = "is" if len(lacking) == 1 else "are"
                raise ConfigError(
                    f"{path} has the columns {', '.join(header) or 'none'}; {' and '.join(lacking)} {verb} lacking"
                )
            for number, row in enumerate(table, start=2):
                yield f"{path}, row {number}", {name: (row[name] or "").strip() for name in table.fieldnames}
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = "it is not text in UTF-8" if isinstance(error, UnicodeDecodeError) else error
        raise ConfigError(f"{path} cannot be read: {getattr(error, 'strerror', None) or why}") from None


def now() -> str:
    """Return the present time, UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def surroundings() -> dict[str, Any]:
    """Return versions and the size of the machine, without its name and any path."""
    from sensormend import __version__

    return {
        "sensormend": __version__,
        "commit": _commit(),
        "python": platform.python_version(),
        **{name: _installed(name) for name in ("numpy", "scipy", "duckdb", "matplotlib")},
        "system": platform.system(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "memory_gb": _memory(),
    }


@cache
def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _memory() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):
        return None


@cache
def _commit() -> str | None:
    """Return the commit of a checkout of sensormend; None for a copy installed inside another repository."""
    module = Path(__file__).resolve()

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=module.parent, capture_output=True, text=True, check=True, timeout=20
        ).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", module.name)
        return git("describe", "--always", "--dirty", "--exclude=*")
    except (OSError, subprocess.SubprocessError):
        return None
