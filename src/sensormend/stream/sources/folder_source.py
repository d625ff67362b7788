"""`FolderSource` reads the files that appear in a folder."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from sensormend.errors import ConfigError, InputError, StorageError, one_line
from sensormend.files import atomic_write
from sensormend.io.metadata import read_json
from sensormend.io.sources import find_format
from sensormend.io.staging import Staging
from sensormend.pipeline.options import Options
from sensormend.pipeline.places import Position
from sensormend.readings import DAY, NOTHING, Readings
from sensormend.stream.arrivals import Arrived, Rejected, Source, clock
from sensormend.stream.formats.values import UNREADABLE
from sensormend.stream.logs import ConditionLog
from sensormend.stream.sources.replay_source import CHUNK, StagedParts, list_rejected

__all__ = ["UNREADABLE_NAME", "FileState", "FilesRead", "FolderSource", "files_below"]

_INCOMPLETE = (".part", ".partial", ".tmp", ".temp", ".new", ".crdownload", ".swp", "~")
_HIDDEN = (".", "_")
# An output folder has this file from the beginning; run.json is written with the first rows.
_WATCH_STATE = os.path.join("state", "watch.json")

UNREADABLE_NAME = -1
"""The size given for a file or folder whose name is not UTF-8; it is not read."""

SETTLING = 2.0
"""Seconds without a change before a file is read: it may not be complete yet."""

SCAN_INTERVAL, SCAN_SHARE = 1.0, 0.1
"""Seconds between two scans of the folder, and the most of the time that scans may take: with very many files the
interval is longer."""

MOST_FILES, MOST_BYTES = 10_000, 4 << 30
"""The maximum number of files, and bytes, that are read together. Their readings are sorted by time across all of them:
in a folder with a file per sensor, no sensor must be read before the others."""

_log = logging.getLogger("sensormend.stream")


class FileState(NamedTuple):
    """The state of a file: its path within the folder, its size and its time of change."""

    name: str
    size: int
    mtime: int


def files_below(root: Path, without: Path | None = None) -> Iterator[FileState]:
    """Yield the files of readings below a folder, and files and folders whose names are not UTF-8.

    Hidden, empty and incomplete files are left out, and folders that are hidden, unreadable, written by sensormend, or
    the folder `without`. If the root itself cannot be read, that is an OSError.
    """
    excluded = None if without is None else os.path.realpath(without)
    top = os.path.realpath(root)
    folders = [""]
    while folders:
        folder = folders.pop()
        try:
            entries = list(os.scandir(os.path.join(root, folder)))
        except OSError:
            if not folder:
                raise
            continue
        for entry in entries:
            name = folder + entry.name
            if entry.name.startswith(_HIDDEN):
                continue
            if entry.is_dir(follow_symlinks=False):
                if _is_ours(entry) or os.path.join(top, name) == excluded:
                    continue
                if _is_utf8(name):
                    folders.append(f"{name}/")
                else:
                    yield FileState(name, UNREADABLE_NAME, 0)
            elif not entry.name.lower().endswith(_INCOMPLETE) and find_format(Path(entry.name)) is not None:
                try:
                    status = entry.stat()
                except OSError:
                    continue  # removed meanwhile, or a broken link
                if stat.S_ISREG(status.st_mode) and status.st_size:
                    state = (status.st_size, status.st_mtime_ns) if _is_utf8(name) else (UNREADABLE_NAME, 0)
                    yield FileState(name, *state)


def _is_utf8(name: str) -> bool:
    r"""Return whether a name is UTF-8; other bytes are decoded to lone surrogates.

    Examples
    --------
    >>> _is_utf8("a.csv"), _is_utf8(os.fsdecode(b"a\xff.csv"))
    (True, False)
    """
    return re.search("[\ud800-\udfff]", name) is None


def _is_ours(folder: os.DirEntry[str]) -> bool:
    return folder.name.endswith((".meta", ".partial")) or any(
        os.path.exists(os.path.join(folder.path, name)) for name in ("run.json", _WATCH_STATE)
    )


def _is_out(folder: Path) -> bool:
    """Return whether a folder is the output folder of `clean` or `watch`."""
    if (folder / _WATCH_STATE).exists():
        return True
    try:
        return read_json(folder / "run.json").get("command") in ("clean", "watch")
    except InputError:
        return False  # not written by sensormend


class FilesRead:
    """The list, in `folder`, of the files of `root` that were read, numbered in that order.

    Files after the first `count` are read again; files that no longer exist are removed from the list at a restart.
    """

    def __init__(self, folder: Path, root: Path, count: int) -> None:
        self._path = folder / "files.jsonl"
        self._begun = folder / "begun.json"
        self.count = count
        self._files: dict[str, FileState] = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            numbers: dict[str, int] = {}
            for line in self._path.read_text(encoding="utf-8").splitlines() if self._path.exists() else ():
                try:
                    number, *state = json.loads(line)
                    file = FileState(*state)
                except (ValueError, TypeError):
                    continue  # incomplete after a power cut: the file is read again
                if number <= count and (root / file.name).exists():
                    self._files[file.name], numbers[file.name] = file, number
            with atomic_write(self._path) as out:
                for name, file in self._files.items():
                    out.write(json.dumps([numbers[name], *file]) + "\n")
        except OSError as error:
            raise StorageError(f"{folder}: cannot be written: {error.strerror}") from None

    def __contains__(self, file: FileState) -> bool:
        return self._files.get(file.name) == file

    def add(self, files: Sequence[FileState]) -> None:
        """Record files as read, on disk first; if that fails nothing changes."""
        size = self._path.stat().st_size
        try:
            with self._path.open("a", encoding="utf-8") as out:
                for number, file in enumerate(files, start=self.count + 1):
                    out.write(json.dumps([number, *file]) + "\n")
                out.flush()
                os.fsync(out.fileno())
        except OSError:
            with suppress(OSError):
                os.truncate(self._path, size)
            raise
        self.count += len(files)
        self._files.update({file.name: file for file in files})

    def begin(self, key: str, files: Sequence[FileState]) -> None:
        """Record files that are read in several parts under a key, which marks have in place of the files."""
        with atomic_write(self._begun) as out:
            json.dump({"key": key, "files": files}, out)

    def begun(self, key: str) -> list[FileState]:
        """Return the files of a key, or none."""
        try:
            record = json.loads(self._begun.read_text(encoding="utf-8"))
            return [FileState(*file) for file in record["files"]] if record["key"] == key else []
        except (OSError, ValueError, TypeError, KeyError):
            return []


class FolderSource(Source):
    """Files of readings that appear in a folder and below it, read as `clean` reads them.

    New files are read together, their readings day by day. A file that has grown is read again from its beginning; a
    reading that comes twice counts once. A file that cannot be read is rejected once; one without read permission is
    retried.

    Parameters
    ----------
    folder
        The watched folder.
    options
        As for `clean`.
    work
        A folder for the list of files that were read, and for temporary files.
    mark
        The number of files in that list that are done, and of readings of those after them.
    without
        A folder that is not read: OUT.
    """

    def __init__(
        self, folder: Path, options: Options | None, work: Path, *, mark: Any = None, without: Path | None = None
    ) -> None:
        if not folder.is_dir():
            raise ConfigError(f"there is no folder {folder}")
        if not _is_utf8(str(folder)):
            raise ConfigError(f"{str(folder)!a}: a name that is not UTF-8 cannot be read; rename the folder")
        if _is_out(folder):
            raise ConfigError(f"{folder} has results of sensormend in it, no readings; watch another folder")
        self._folder, self._options, self._work, self._without = folder, options or Options(), work, without
        mark = mark or {}
        self._files_read = FilesRead(work, folder, int(mark.get("files", 0)))
        self._group = self._files_read.begun(str(mark.get("begun", "")))
        self._returned = int(mark.get("done", 0)) if self._group and self._key() == mark["begun"] else 0
        self._unread: dict[str, FileState] = {}
        self._denied: set[str] = set()
        self._next_scan = 0.0
        self._reading = False
        self._staging: Staging | None = None
        self._parts: StagedParts | None = None
        self._taken: tuple[Readings, list[Position]] | None = None
        self._rejected: list[Rejected] = []
        self._missing = ConditionLog(_log, f"there is no folder {folder}", f"folder {folder} is there again")

    @property
    def connected(self) -> bool:  # type: ignore[override]
        """Whether the folder exists."""
        return not self._missing.active

    def read(self, wait: float) -> Arrived:
        """Return the new inputs; see `Source.read`."""
        end = time.monotonic() + wait
        while True:
            arrived = self._next_part()
            if arrived is not None:
                return arrived
            now = time.monotonic()
            if now >= self._next_scan:
                self._scan()
                if self._reading:
                    continue
                now = time.monotonic()
            if now >= end:
                return Arrived(NOTHING, clock())
            time.sleep(max(0.0, min(self._next_scan, end) - now))

    def _next_part(self) -> Arrived | None:
        """Return the next part of the group. After an error it can be called again, and returns nothing twice."""
        if not self._reading:
            return None
        parts = self._parts if self._parts is not None else self._load()
        if parts is None:
            return None
        if self._taken is None:
            self._taken = parts.take(CHUNK) if parts.advance() else (NOTHING, [])
        mark: dict[str, Any] = {"begun": self._key(), "done": parts.done}
        if not parts.advance():
            self._files_read.add(self._group)
            self._end_group()
            mark = {}
        else:
            self._returned = parts.done
        (readings, positions), self._taken = self._taken, None
        rejected, self._rejected = self._rejected, []
        return Arrived(readings, clock(), rejected, positions, {"files": self._files_read.count, **mark})

    def _scan(self) -> None:
        """Choose the files to read next, or continue with those that were begun."""
        start = time.monotonic()
        try:
            files = {file.name: file for file in files_below(self._folder, self._without)}
        except OSError as error:
            self._missing.begin(error=error.strerror)
            files = {}
        else:
            self._missing.end()
            unchanged = all(files.get(file.name) == file and self._is_permitted(file) for file in self._group)
            if not self._group or not unchanged:
                self._group, self._returned = self._new_group(files.values()), 0
        now = time.monotonic()
        self._next_scan = now + max(SCAN_INTERVAL, (now - start) * (1 / SCAN_SHARE - 1))
        if files and self._group:
            self._reading = True
            if len(self._group) == MOST_FILES:
                self._next_scan = now  # there may be more

    def _new_group(self, files: Iterable[FileState]) -> list[FileState]:
        """Return the next files to read: the oldest of the new ones."""
        now = time.time_ns()
        unread = {file.name: file for file in files if file not in self._files_read}
        # A file with a time in the future is read when two scans show it unchanged.
        settled = [file for file in unread.values() if now - file.mtime > SETTLING * 1e9
                   or (file.mtime > now and self._unread.get(file.name) == file)]  # fmt: skip
        self._unread = unread
        total = 0
        group: list[FileState] = []
        for file in sorted(settled, key=lambda file: (file.mtime, file.name)):
            if not self._is_permitted(file):
                continue
            total += file.size
            if group and total > MOST_BYTES:
                break
            group.append(file)
            if len(group) == MOST_FILES:
                break
        return group

    def _is_permitted(self, file: FileState) -> bool:
        """Return whether a file may be read; missing permission is logged once."""
        path = self._folder / file.name
        try:
            if file.size != UNREADABLE_NAME:
                path.open("rb").close()
        except PermissionError:
            if file.name not in self._denied:
                self._denied.add(file.name)
                _log.warning("%s: not allowed to read it; tried again until it is", path)
            return False
        except OSError:
            pass  # another error is reported when the file is read
        self._denied.discard(file.name)
        return True

    def _load(self) -> StagedParts | None:
        """Load the files of the group; return None if one of them was removed meanwhile."""
        files = [file for file in self._group if file.size != UNREADABLE_NAME]
        rejected = [
            Rejected(_printable(file.name), UNREADABLE, "a name that is not UTF-8; rename it")
            for file in self._group
            if file.size == UNREADABLE_NAME
        ]
        parts = StagedParts(None)
        if files:
            unread: dict[str, str] = {}
            self._close_staging()
            self._staging = Staging(self._work / "loading")
            failure = ""
            try:
                self._staging.load([self._folder / file.name for file in files], self._options, unread=unread)
                self._staging.sort(0, DAY)
                parts = StagedParts(self._staging, self._returned)
            except (InputError, ConfigError, FileNotFoundError) as error:
                if not all((self._folder / file.name).exists() for file in files):
                    self._end_group()
                    return None
                if isinstance(error, OSError):
                    raise
                failure = one_line(error)
            rejected += [Rejected(name, UNREADABLE, reason[:300]) for name, reason in unread.items()]
            rejected += list_rejected(self._staging)
            if failure and not rejected:
                rejected = [Rejected(files[0].name, UNREADABLE, failure[:300])]
            if len(self._staging.periods) > 1 or self._staging.readings > CHUNK:
                self._files_read.begin(self._key(), self._group)
        prefix = f"{self._folder}{os.sep}"
        rejected = [replace(entry, where=entry.where.removeprefix(prefix)) for entry in rejected]
        self._rejected = [] if self._returned else rejected
        self._parts = parts
        return parts

    def _key(self) -> str:
        """Return what identifies the group; with other options its files hold other readings."""
        return hashlib.sha256(json.dumps([self._group, repr(self._options)]).encode()).hexdigest()[:16]

    def _close_staging(self) -> None:
        if self._staging is not None:
            self._staging.close()
            self._staging = None
        shutil.rmtree(self._work / "loading", ignore_errors=True)

    def _end_group(self) -> None:
        self._close_staging()
        self._reading, self._parts = False, None
        self._group, self._returned = [], 0

    def close(self) -> None:
        """Close and remove the temporary files."""
        self._end_group()


def _printable(name: str) -> str:
    return os.fsencode(name).decode(errors="backslashreplace")
