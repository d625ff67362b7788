"""`FolderSource` reads the files that appear in a folder."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from sensormend.errors import ConfigError, InputError, StorageError
from sensormend.files import write_beside
from sensormend.io.metadata import read_json
from sensormend.io.options import Options
from sensormend.io.sources import format_of
from sensormend.io.staging import Staging
from sensormend.pipeline.places import Position
from sensormend.readings import DAY, NOTHING, Readings
from sensormend.stream.arrivals import Arrived, Rejected, Source, clock
from sensormend.stream.formats.values import UNREADABLE
from sensormend.stream.logs import Once
from sensormend.stream.sources.replay_source import CHUNK, StagedParts, rejected_of

__all__ = [
    "UNREADABLE_NAME",
    "FileState",
    "FilesRead",
    "FolderSource",
    "files_below",
    "has_unreadable_name",
    "is_out",
    "is_readable",
]

_HALF = (".part", ".partial", ".tmp", ".temp", ".new", ".crdownload", ".swp", "~")
_NOT_THEIRS = (".", "_")
# It is there from the first moment of an OUT on; run.json comes with the first rows.
_WATCHED = os.path.join("state", "watch.json")

UNREADABLE_NAME = -1
"""The size given for a file or folder whose name is not UTF-8; it is not read."""

SETTLED = 2.0
"""Seconds without a change before a file is read: it may still be being written."""

LOOK, SHARE = 1.0, 0.1
"""Seconds between two looks into the folder, and the part of the time that looking may take: with very many files the
pause is longer."""

TOGETHER, TOGETHER_BYTES = 10_000, 4 << 30
"""Files that are read at once, at most. Their readings come in the order of time, across all of them: of a folder that
has a file for each sensor, no sensor may run ahead of the others."""

_log = logging.getLogger("sensormend.stream")


class FileState(NamedTuple):
    """A file as it is now: its name from the folder on, its size and its time of change."""

    name: str
    size: int
    mtime: int


def has_unreadable_name(name: str) -> bool:
    r"""Say whether a name is not UTF-8.

    Examples
    --------
    >>> has_unreadable_name("a.csv"), has_unreadable_name(os.fsdecode(b"a\xff.csv"))
    (False, True)
    """
    try:
        name.encode()
    except UnicodeEncodeError:
        return True
    return False


def files_below(root: Path, without: Path | None = None) -> Iterator[FileState]:
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
                if has_unreadable_name(name):
                    yield FileState(name, UNREADABLE_NAME, 0)
                else:
                    waiting.append(f"{name}/")
            elif not entry.name.lower().endswith(_HALF) and format_of(Path(entry.name)) is not None:
                file = _file(entry, name)
                if file is not None:
                    yield file


def is_out(folder: Path) -> bool:
    """Say whether a folder is one that `clean` or `watch` wrote."""
    if (folder / _WATCHED).exists():
        return True
    try:
        return read_json(folder / "run.json").get("command") in ("clean", "watch")
    except InputError:
        return False  # not written by sensormend


def is_readable(path: Path) -> bool:
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


def _file(entry: os.DirEntry[str], name: str) -> FileState | None:
    try:
        status = entry.stat()
    except OSError:
        return None  # gone meanwhile, or a link to nowhere
    if not stat.S_ISREG(status.st_mode) or not status.st_size:
        return None
    return (
        FileState(name, UNREADABLE_NAME, 0)
        if has_unreadable_name(name)
        else FileState(name, status.st_size, status.st_mtime_ns)
    )


class FilesRead:
    """The files that were read, numbered in that order; those that are gone are forgotten with a restart.

    Parameters
    ----------
    folder
        Where the list lies.
    root
        Where the files lie.
    count
        How many of them are done: what comes after them in the list is read again.
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
                    continue  # torn by a power cut: read again
                if number <= count and (root / file.name).exists():
                    self._files[file.name], numbers[file.name] = file, number
            with write_beside(self._path) as out:
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
        """Remember files that are read in several parts, by a key that marks may have in place of them."""
        with write_beside(self._begun) as out:
            json.dump({"key": key, "files": files}, out)

    def begun(self, key: str) -> list[FileState]:
        """Return the files of a key, or none."""
        try:
            noted = json.loads(self._begun.read_text(encoding="utf-8"))
            return [FileState(*file) for file in noted["files"]] if noted["key"] == key else []
        except (OSError, ValueError, TypeError, KeyError):
            return []


class FolderSource(Source):
    """Files of readings that appear in a folder and below it, read as `clean` reads them.

    What is new is read together, its readings day by day. A file that has grown is read again from its beginning; a
    reading that comes twice counts once. A file that cannot be read is rejected once; one without read permission is
    retried.

    Parameters
    ----------
    folder
        Where files appear.
    options
        Which column is what, where that cannot be recognised.
    work
        A folder of our own: the list of files that were read, and what is being read.
    mark
        Where to go on: how many files of that list are done, and how much of those after them.
    without
        A folder in which nothing is looked for: where the results go.
    """

    def __init__(
        self, folder: Path, options: Options | None, work: Path, *, mark: Any = None, without: Path | None = None
    ) -> None:
        if not folder.is_dir():
            raise ConfigError(f"there is no folder {folder}")
        if has_unreadable_name(str(folder)):
            raise ConfigError(f"{str(folder)!a}: a name that is not UTF-8 cannot be read; rename the folder")
        if is_out(folder):
            raise ConfigError(f"{folder} has results of sensormend in it, no readings; watch another folder")
        self._folder, self._options, self._work, self._without = folder, options or Options(), work, without
        mark = mark or {}
        self._done = FilesRead(work, folder, int(mark.get("files", 0)))
        self._group = self._done.begun(str(mark.get("begun", "")))
        self._given = int(mark.get("done", 0)) if self._group and self._key() == mark["begun"] else 0
        self._last: dict[str, FileState] = {}
        self._barred: set[str] = set()
        self._next = 0.0
        self._reading = False
        self._staging: Staging | None = None
        self._parts: StagedParts | None = None
        self._held: tuple[Readings, list[Position]] | None = None
        self._rejected: list[Rejected] = []
        self._gone = Once(_log, f"there is no folder {folder}", f"folder {folder} is there again")

    @property
    def connected(self) -> bool:  # type: ignore[override]
        """Whether the folder is there."""
        return not self._gone.on

    def read(self, wait: float) -> Arrived:
        """Return what has come; see `Source.read`."""
        end = time.monotonic() + wait
        while True:
            arrived = self._part()
            if arrived is not None:
                return arrived
            now = time.monotonic()
            if now >= self._next:
                self._look()
                if self._reading:
                    continue
                now = time.monotonic()
            if now >= end:
                return Arrived(NOTHING, clock())
            time.sleep(max(0.0, min(self._next, end) - now))

    def _part(self) -> Arrived | None:
        """Return the next part of what is being read. What fails on the way is done again; nothing is given twice."""
        if not self._reading:
            return None
        parts = self._parts if self._parts is not None else self._begin()
        if parts is None:
            return None
        if self._held is None:
            self._held = parts.take(min(parts.at + CHUNK, len(parts.day))) if parts.ahead() else (NOTHING, [])
        mark: dict[str, Any] = {"begun": self._key(), "done": parts.done}
        if not parts.ahead():
            self._done.add(self._group)
            self._let_go()
            mark = {}
        else:
            self._given = parts.done
        (readings, places), self._held = self._held, None
        rejected, self._rejected = self._rejected, []
        return Arrived(readings, clock(), rejected, places, {"files": self._done.count, **mark})

    def _look(self) -> None:
        """Begin to read what is new, or go on with what was begun."""
        began = time.monotonic()
        try:
            here = {file.name: file for file in files_below(self._folder, self._without)}
        except OSError as error:
            self._gone.begin(error=error.strerror)
            here = {}
        else:
            self._gone.end()
            if not (self._group and all(here.get(file.name) == file and self._may(file) for file in self._group)):
                self._group, self._given = self._new(list(here.values())), 0
        now = time.monotonic()
        self._next = now + max(LOOK, (now - began) * (1 / SHARE - 1))
        if here and self._group:
            self._reading = True
            if len(self._group) == TOGETHER:
                self._next = now  # there may be more

    def _new(self, here: Sequence[FileState]) -> list[FileState]:
        """Return the next files to be read: the oldest of the new ones."""
        now = time.time_ns()
        new = [file for file in here if file not in self._done]
        # One from the future is settled when it is the same twice.
        ready = [file for file in new if now - file.mtime > SETTLED * 1e9
                 or (file.mtime > now and self._last.get(file.name) == file)]  # fmt: skip
        self._last = {file.name: file for file in new}
        ready.sort(key=lambda file: (file.mtime, file.name))
        total = 0
        group: list[FileState] = []
        for file in ready:
            if not self._may(file):
                continue
            total += file.size
            if group and total > TOGETHER_BYTES:
                break
            group.append(file)
            if len(group) == TOGETHER:
                break
        return group

    def _may(self, file: FileState) -> bool:
        """Return whether a file may be read; missing permission is logged once."""
        if file.size == UNREADABLE_NAME or is_readable(self._folder / file.name):
            self._barred.discard(file.name)
            return True
        if file.name not in self._barred:
            self._barred.add(file.name)
            _log.warning("%s: not allowed to read it; tried again until it is", self._folder / file.name)
        return False

    def _begin(self) -> StagedParts | None:
        """Load the files that are to be read; None where one of them is gone meanwhile."""
        files = [file for file in self._group if file.size != UNREADABLE_NAME]
        rejected = [Rejected(_printable(file.name), UNREADABLE, "a name that is not UTF-8; rename it")
                for file in self._group if file.size == UNREADABLE_NAME]  # fmt: skip
        parts = StagedParts(None)
        if files:
            unread: dict[str, str] = {}
            self._clear()
            self._staging = Staging(self._work / "loading")
            try:
                self._staging.load([self._folder / file.name for file in files], self._options, unread=unread)
                self._staging.sort(0, DAY)
                parts = StagedParts(self._staging, self._given)
                nothing = ""
            except (InputError, ConfigError, FileNotFoundError) as error:
                if not all((self._folder / file.name).exists() for file in files):
                    self._let_go()
                    return None
                if isinstance(error, OSError):
                    raise
                nothing = " ".join(str(error).split())
            rejected += [Rejected(name, UNREADABLE, why[:300]) for name, why in unread.items()]
            rejected += rejected_of(self._staging)
            if nothing and not rejected:
                rejected = [Rejected(files[0].name, UNREADABLE, nothing[:300])]
            if len(self._staging.periods) > 1 or self._staging.readings > CHUNK:
                self._done.begin(self._key(), self._group)
        self._rejected = [] if self._given else self._named(rejected)
        self._parts = parts
        return parts

    def _let_go(self) -> None:
        """Be done with what was being read."""
        self._clear()
        self._reading, self._parts = False, None
        self._group, self._given = [], 0

    def _clear(self) -> None:
        if self._staging is not None:
            self._staging.close()
            self._staging = None
        shutil.rmtree(self._work / "loading", ignore_errors=True)

    def _key(self) -> str:
        """Return by what the files that are being read are known again; other options find other readings in them."""
        return hashlib.sha256(json.dumps([self._group, repr(self._options)]).encode()).hexdigest()[:16]

    def _named(self, rejected: Sequence[Rejected]) -> list[Rejected]:
        """Return what was rejected with the names of files as they are in the folder."""
        above = f"{self._folder}{os.sep}"
        return [Rejected(one.where.removeprefix(above), one.reason, one.text) for one in rejected]

    def close(self) -> None:
        """Let go of what is being read."""
        self._let_go()


def _printable(name: str) -> str:
    return os.fsencode(name).decode(errors="backslashreplace")
