"""What lies in a folder that is watched."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from sensormend.errors import InputError
from sensormend.io.metadata import read_json
from sensormend.io.sources import format_of

__all__ = ["STRANGE", "Seen", "below", "is_out", "is_strange", "may_read"]

_HALF = (".part", ".partial", ".tmp", ".temp", ".new", ".crdownload", ".swp", "~")
_NOT_THEIRS = (".", "_")
# It is there from the first moment of an OUT on; run.json comes with the first rows.
_WATCHED = os.path.join("state", "watch.json")

STRANGE = -1
"""The size of what has a name that is not UTF-8: nobody looks into it."""


class Seen(NamedTuple):
    """A file as it is now: its name from the folder on, its size and its time of change."""

    name: str
    size: int
    mtime: int


def is_strange(name: str) -> bool:
    r"""Say whether a name is not UTF-8.

    Examples
    --------
    >>> is_strange("a.csv"), is_strange(os.fsdecode(b"a\xff.csv"))
    (False, True)
    """
    try:
        name.encode()
    except UnicodeEncodeError:
        return True
    return False


def below(root: Path, without: Path | None = None) -> Iterator[Seen]:
    """Give the files of readings below a folder, and what cannot be read because of its name.

    Files that are hidden, empty or half written are left out, and folders that are hidden or that we wrote.

    Parameters
    ----------
    root
        The folder; an OSError where it cannot be read. Those below it that cannot be read are passed over.
    without
        A folder that is left out, wherever it lies.
    """
    leave = None if without is None else os.path.realpath(without)
    top = os.path.realpath(root)
    waiting = [""]
    while waiting:
        above = waiting.pop()
        try:
            entries = list(os.scandir(os.path.join(root, above)))
        except OSError:
            if not above:
                raise
            continue
        for entry in entries:
            name = above + entry.name
            if entry.name.startswith(_NOT_THEIRS):
                continue
            if entry.is_dir(follow_symlinks=False):
                if _is_ours(entry) or os.path.join(top, name) == leave:
                    continue
                if is_strange(name):
                    yield Seen(name, STRANGE, 0)
                else:
                    waiting.append(f"{name}/")
            elif not entry.name.lower().endswith(_HALF) and format_of(Path(entry.name)) is not None:
                found = _file(entry, name)
                if found is not None:
                    yield found


def is_out(folder: Path) -> bool:
    """Say whether a folder is one that `clean` or `watch` wrote."""
    if (folder / _WATCHED).exists():
        return True
    try:
        return read_json(folder / "run.json").get("command") in ("clean", "watch")
    except InputError:
        return False  # somebody else's


def may_read(path: Path) -> bool:
    """Say whether we are allowed to read a file; one that is broken, or gone, we are."""
    try:
        path.open("rb").close()
    except PermissionError:
        return False
    except OSError:
        pass
    return True


def _is_ours(folder: os.DirEntry[str]) -> bool:
    ours = ("run.json", _WATCHED)
    return folder.name.endswith((".meta", ".partial")) or any(
        os.path.exists(os.path.join(folder.path, name)) for name in ours
    )


def _file(entry: os.DirEntry[str], name: str) -> Seen | None:
    try:
        status = entry.stat()
    except OSError:
        return None  # gone meanwhile, or a link to nowhere
    if not stat.S_ISREG(status.st_mode) or not status.st_size:
        return None
    return Seen(name, STRANGE, 0) if is_strange(name) else Seen(name, status.st_size, status.st_mtime_ns)
