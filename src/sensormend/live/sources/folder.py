"""A folder in which files appear."""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sensormend.errors import ConfigError, InputError, SensormendError
from sensormend.files import write_beside
from sensormend.io.sources import format_of
from sensormend.io.staging import Staging
from sensormend.live.arrivals import NOTHING, Arrived, Rejected, Source, clock
from sensormend.live.formats.refused import UNREADABLE
from sensormend.live.logs import Once
from sensormend.live.sources.staged import CHUNK, days_of, places_of, rejected_of
from sensormend.options import Options
from sensormend.readings import DAY

__all__ = ["FolderSource"]

SETTLED = 2.0
"""Seconds for which a file must have stayed as it is: whoever writes it may not be done."""

LOOK = 1.0
"""Seconds between two looks into the folder."""

TOGETHER, TOGETHER_BYTES = 50, 64 << 20
"""Files that are read at once, at most: a load costs a tenth of a second, whatever is in it."""

_HALF = (".part", ".partial", ".tmp", ".temp", ".new", ".crdownload", ".swp", "~")
_log = logging.getLogger("sensormend.live")


class _File(NamedTuple):
    name: str
    size: int
    mtime: int


class FolderSource(Source):
    """Files of readings that appear in a folder and below it, read as `clean` reads them.

    They come in the order of their times of change, then of their names. A file that has grown is read again from its
    beginning; a reading that comes twice is one. A file that cannot be read is told about once.

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
    """

    def __init__(self, folder: Path, options: Options | None, work: Path, *, mark: Any = None) -> None:
        if not folder.is_dir():
            raise ConfigError(f"there is no folder {folder}")
        self._folder, self._options, self._work = folder, options or Options(), work
        mark = mark or {}
        self._seen = _Seen(work, folder, int(mark.get("files", 0)))
        self._begun = ([_File(*told) for told in mark.get("begun", ())], int(mark.get("done", 0)))
        self._last: dict[str, tuple[int, int]] = {}
        self._next = 0.0
        self._parts: Iterator[Arrived] | None = None
        self._gone = Once(_log, f"there is no folder {folder}", f"folder {folder} is there again")

    @property
    def connected(self) -> bool:  # type: ignore[override]
        """Whether the folder is there."""
        return not self._gone.on

    def read(self, wait: float) -> Arrived:
        """Return what has come; see `Source.read`."""
        end = time.monotonic() + wait
        while True:
            if self._parts is not None:
                arrived = next(self._parts, None)
                if arrived is not None:
                    return arrived
                self._parts = None
            now = time.monotonic()
            if now >= self._next:
                files = self._look()
                if files:
                    self._parts = self._taken(files)
                    continue
                self._next = now + LOOK
            if now >= end:
                return Arrived(NOTHING, clock())
            time.sleep(max(0.0, min(self._next, end) - now))

    def _look(self) -> list[_File]:
        """Return the next files to be read: those that were begun, or the oldest of the new ones."""
        if not self._folder.is_dir():
            self._gone.begin()
            return []
        self._gone.end()
        here = {file.name: file for file in self._files()}
        if self._begun[0] and all(here.get(file.name) == file for file in self._begun[0]):
            return self._begun[0]
        self._begun = ([], 0)
        now = time.time_ns()
        new = [file for file in here.values() if self._seen.files.get(file.name) != (file.size, file.mtime)]
        # One from the future is settled when it is the same twice.
        ready = [file for file in new if now - file.mtime > SETTLED * 1e9
                 or (file.mtime > now and self._last.get(file.name) == (file.size, file.mtime))]  # fmt: skip
        self._last = {file.name: (file.size, file.mtime) for file in new}
        ready.sort(key=lambda file: (file.mtime, file.name))
        total = 0
        group: list[_File] = []
        for file in ready[:TOGETHER]:
            total += file.size
            if group and total > TOGETHER_BYTES:
                break
            group.append(file)
        return group

    def _files(self) -> Iterator[_File]:
        for where, inner, names in os.walk(self._folder):
            inner[:] = [name for name in inner if _is_theirs(Path(where) / name)]
            for name in names:
                path = Path(where) / name
                if name.startswith((".", "_")) or name.lower().endswith(_HALF) or format_of(path) is None:
                    continue
                try:
                    status = path.stat()
                    path.name.encode()
                except (OSError, UnicodeEncodeError):
                    continue
                if status.st_size and not path.is_dir():
                    yield _File(path.relative_to(self._folder).as_posix(), status.st_size, status.st_mtime_ns)

    def _taken(self, files: Sequence[_File]) -> Iterator[Arrived]:
        """Give the readings of some files in parts; where one of them cannot be read, of each by itself."""
        begun, skip = self._begun
        self._begun = ([], 0)
        shutil.rmtree(self._work / "loading", ignore_errors=True)
        with Staging(self._work / "loading") as staging:
            try:
                staging.load([self._folder / file.name for file in files], self._options)
                staging.sort(0, DAY)
                broken = ""
            except (InputError, ConfigError) as error:
                broken = " ".join(str(error).split())
            if not broken:
                yield from self._parts_of(staging, files, skip if list(files) == begun else 0)
        if broken and len(files) > 1:
            for file in files:
                yield from self._taken([file])
        elif broken and (self._folder / files[0].name).exists():
            self._seen.add(files)
            told = [Rejected(files[0].name, UNREADABLE, broken[:300])]
            yield Arrived(NOTHING, clock(), told, mark={"files": self._seen.count})

    def _parts_of(self, staging: Staging, files: Sequence[_File], skip: int) -> Iterator[Arrived]:
        rejected: Sequence[Rejected] = () if skip else self._named(rejected_of(staging))
        places, done = places_of(staging), 0
        for day, readings in days_of(staging):
            for start in range(0, len(readings), CHUNK):
                part = readings.taken(slice(start, start + CHUNK))
                done += len(part)
                if done <= skip:
                    continue
                part = part.taken(slice(max(len(part) - (done - skip), 0), None))
                if done == staging.readings:
                    self._seen.add(files)
                    mark: dict[str, Any] = {"files": self._seen.count}
                else:
                    mark = {"files": self._seen.count, "begun": [list(file) for file in files], "done": done}
                yield Arrived(part, clock(), rejected, places.pop(day, []), mark)
                rejected = ()

    def _named(self, rejected: list[Rejected]) -> list[Rejected]:
        """Return what was rejected with the names of files as they are in the folder."""
        above = f"{self._folder}{os.sep}"
        return [Rejected(one.where.removeprefix(above), one.reason, one.text) for one in rejected]

    def close(self) -> None:
        """Let go of what is being read."""
        if self._parts is not None:
            self._parts.close()  # type: ignore[attr-defined]
        shutil.rmtree(self._work / "loading", ignore_errors=True)


def _is_theirs(folder: Path) -> bool:
    """Say whether a folder may hold readings: neither hidden nor something that we wrote ourselves."""
    ours = folder.name.startswith((".", "_")) or folder.name.endswith((".meta", ".partial"))
    return not ours and not (folder / "run.json").exists()


class _Seen:
    """The files that were read, numbered in that order, on disk; those that are gone are forgotten with a restart.

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
        self.count = count
        self.files: dict[str, tuple[int, int]] = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            numbers: dict[str, int] = {}
            for line in self._path.read_text(encoding="utf-8").splitlines() if self._path.exists() else ():
                try:
                    number, name, size, mtime = json.loads(line)
                except ValueError:
                    continue  # torn by a power cut: read again
                if number <= count and (root / name).exists():
                    self.files[name], numbers[name] = (size, mtime), number
            with write_beside(self._path) as file:
                for name, told in self.files.items():
                    file.write(json.dumps([numbers[name], name, *told]) + "\n")
        except OSError as error:
            raise SensormendError(f"{folder}: cannot be written: {error.strerror}") from None

    def add(self, files: Sequence[_File]) -> None:
        """Remember files, on disk before anybody hears of them."""
        with self._path.open("a", encoding="utf-8") as out:
            for file in files:
                self.count += 1
                self.files[file.name] = (file.size, file.mtime)
                out.write(json.dumps([self.count, file.name, file.size, file.mtime]) + "\n")
            out.flush()
            os.fsync(out.fileno())
