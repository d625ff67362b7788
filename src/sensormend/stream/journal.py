"""`WriteAheadLog` stores numbered records on disk, which are appended, read in order, and dropped from the front."""

from __future__ import annotations

import errno
import os
import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from sensormend.errors import StateError
from sensormend.files import Closing, sync

__all__ = ["HEAD", "WriteAheadLog", "stored_records"]

MAGIC = b"\xffSM\xfe"
"""The first bytes of a record. No UTF-8 text has them, so that text in a payload is not mistaken for a record."""

HEAD = struct.Struct("<4sIQQI")
"""Magic, length of the payload, number, number of records on disk by then, crc32 of all that and of the payload."""


def _pack_record(payload: bytes, number: int, synced: int) -> bytes:
    """Return a record; `synced` is the number of records that are known to be on disk.

    A broken record that a later one counts as on disk was not torn by a kill or a power cut.
    """
    head = HEAD.pack(MAGIC, len(payload), number, synced, 0)[:-4]
    return b"".join((head, zlib.crc32(payload, zlib.crc32(head)).to_bytes(4, "little"), payload))


@dataclass
class _Run:
    """Whole records of a file that follow each other: their numbers, and where they begin and end in the file."""

    first: int
    next: int
    start: int
    end: int


def _scan(path: Path, first: int, expected: int) -> list[_Run]:
    """Return the whole records of a file; records before the number `expected` were on disk.

    A broken record that had been on disk is left out. One that had not been, and all after it, were torn by a kill or a
    power cut, which may destroy any part of what was not synced yet.
    """
    runs: list[_Run] = []
    number, offset, content = first, 0, memoryview(path.read_bytes())
    while True:
        run = _Run(number, number, offset, offset)
        while (length := _payload_length(content[offset : offset + HEAD.size], number)) is not None:
            end = offset + HEAD.size + length
            if not _is_intact(content[offset : offset + HEAD.size], content[offset + HEAD.size : end]):
                break
            number, offset = number + 1, end
        if number > run.first:
            run.next, run.end = number, offset
            runs.append(run)
        following = _next_whole(content, number, offset) if offset < len(content) else None
        if following is None or number >= max(expected, following[2]):
            return runs
        number, offset, _ = following


def _next_whole(content: memoryview, number: int, offset: int) -> tuple[int, int, int] | None:
    """Return the next whole record after a broken one: number, offset, and the records that were on disk before it."""
    for match in re.finditer(re.escape(MAGIC), content[offset + 1 :]):
        start = offset + 1 + match.start()
        head = content[start : start + HEAD.size]
        if len(head) < HEAD.size:
            break
        _, length, later, synced, _ = HEAD.unpack(head)
        likely = number < later < number + len(content) and synced <= later
        if likely and _is_intact(head, content[start + HEAD.size : start + HEAD.size + length]):
            return later, start, synced
    return None


def stored_records(folder: Path, start: int, expected: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield numbers and whole records of a log from `start`, and change nothing."""
    for path in _paths(folder):
        for run in _scan(path, int(path.stem), expected):
            yield from _read_run(path, run, start)


def _read_run(path: Path, run: _Run, start: int) -> Iterator[tuple[int, bytes]]:
    if start >= run.next:
        return
    try:
        opened = path.open("rb")
    except FileNotFoundError:
        raise StateError(f"{path} is gone, with records that are needed") from None
    with opened:
        opened.seek(run.start)
        for number in range(run.first, run.next):
            offset, head = opened.tell(), opened.read(HEAD.size)
            length = _payload_length(head, number)
            if length is None:
                raise _broken_record(path, offset)
            if number < start:
                opened.seek(length, os.SEEK_CUR)
                continue
            payload = opened.read(length)
            if not _is_intact(head, payload):
                raise _broken_record(path, offset)
            yield number, payload


def _paths(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{'[0-9]' * 20}.log"))


def _payload_length(head: bytes | memoryview, number: int) -> int | None:
    """Return the length of the payload; None if this is not the head of the record with this number."""
    if len(head) < HEAD.size:
        return None
    magic, length, own, _, _ = HEAD.unpack(head)
    return int(length) if magic == MAGIC and own == number else None


def _is_intact(head: bytes | memoryview, payload: bytes | memoryview) -> bool:
    """Return whether the payload matches the head."""
    _, length, _, _, crc = HEAD.unpack(head)
    return bool(len(payload) == length and zlib.crc32(payload, zlib.crc32(head[:-4])) == crc)


def _broken_record(path: Path, offset: int) -> StateError:
    """Return the error for a broken record that had been on disk."""
    return StateError(f"{path} is broken at byte {offset}: what was written there is not what is there now")


class WriteAheadLog(Closing):
    """Numbered records in a folder, in files of a bounded size that are named by their first record.

    A partial record that a kill or a power cut left at the end is cut off when the log is opened; everything before the
    last `sync` is complete. A record that had been on disk and is broken or gone is left out: numbers are lacking then.
    After `segment` bytes a new file is begun; `torn` is the number of bytes that were cut off.

    Parameters
    ----------
    expected
        The number of the next record as far as it is known otherwise: numbers below it are not given again.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, WriteAheadLog(Path(folder)) as log:
    ...     log.append(b"one"), log.append(b"two")
    ...     log.sync()
    ...     list(log.read(1))
    ...     log.drop(2)
    ...     log.first, log.next
    (0, 1)
    [(1, b'two')]
    (2, 2)
    """

    def __init__(self, folder: str | os.PathLike[str], *, segment: int = 64 << 20, expected: int = 0) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._segment = segment
        self._failed: OSError | None = None
        self._files = [_File(path, expected) for path in _paths(self.folder)]
        self.torn, self.next = 0, expected
        if self._files:
            last = self._files[-1]
            end, self.next = last.runs[-1].end if last.runs else 0, max(last.next, expected)
            self._handle = last.path.open("r+b", buffering=0)
            self.torn, last.size = last.size - end, end
            self._handle.truncate(end)
            os.fsync(self._handle.fileno())
            sync(self.folder)
        if not self._files or self._files[-1].next < self.next:
            self._synced = self.next
            self._begin()
        self._synced = self.next

    @property
    def first(self) -> int:
        """The number of the oldest stored record; `next` if there is none."""
        return self._files[0].first

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(file.size for file in self._files)

    def append(self, payload: bytes) -> int:
        """Add a record and return its number. It survives the end of this process, and a power cut only after `sync`.

        Raises
        ------
        OSError
            The disk is full, or the file is gone, for example. The log is unchanged, and `append` may be called again.
        """
        self._refuse_failed()
        self._refuse_moved()
        if self._files[-1].size >= self._segment:
            self._begin()
        file, number = self._files[-1], self.next
        written = _pack_record(payload, number, self._synced)
        try:
            self._handle.seek(file.size)
            rest = memoryview(written)
            while rest:
                rest = rest[self._handle.write(rest) :]
        except BaseException:
            # If this fails too, the next record overwrites it, or the next opening cuts it off.
            with suppress(OSError):
                self._handle.truncate(file.size)
            raise
        file.add(number, len(written))
        self.next = number + 1
        return number

    def sync(self) -> None:
        """Write everything appended to disk, so that it survives a power cut.

        Raises
        ------
        OSError
            The disk failed. It is unknown which records since the last `sync` are on it, and another fsync would
            succeed without writing them: every further call is a `StateError` until the log is opened again.
        """
        self._refuse_failed()
        if self._synced == self.next:
            return
        try:
            os.fsync(self._handle.fileno())
        except OSError as error:
            self._failed = error
            raise
        # Records in a file that was deleted or moved are lost.
        self._refuse_moved()
        self._synced = self.next

    def write(self, payload: bytes) -> int:
        """Call `append`, then `sync`; return the number of the record."""
        number = self.append(payload)
        self.sync()
        return number

    def read(self, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield numbers and records from `start`, or from the oldest stored, to the newest as of now."""
        for path, run in [(file.path, replace(run)) for file in self._files for run in file.runs]:
            yield from _read_run(path, run, start)

    def drop(self, before: int) -> None:
        """Remove the files whose records all have lower numbers than `before`."""
        if self._failed is None and before >= self.next and self._files[-1].first < self.next:
            self._begin()
        while len(self._files) > 1 and self._files[1].first <= before:
            self._files.pop(0).path.unlink(missing_ok=True)
            sync(self.folder)

    def close(self) -> None:
        """Close the files, after a `sync` unless the disk has failed."""
        if self._handle.closed:
            return
        try:
            if self._failed is None:
                with suppress(FileNotFoundError):  # the file is gone with its records
                    self.sync()
        finally:
            self._handle.close()

    def _refuse_failed(self) -> None:
        if self._failed is not None:
            reason = self._failed.strerror or self._failed
            raise StateError(f"the disk under {self.folder} failed ({reason}): start again, with what is on it")

    def _refuse_moved(self) -> None:
        """Refuse to write to a file that was deleted or moved while it was open."""
        path = self._files[-1].path
        try:
            same = os.path.samestat(path.stat(), os.fstat(self._handle.fileno()))
        except NotADirectoryError:
            same = False
        if not same:
            raise FileNotFoundError(errno.ENOENT, "it is not the file that was opened", str(path))

    def _begin(self) -> None:
        """Begin a new file, after a `sync` of the one before: only the last file can be torn."""
        path = self.folder / f"{self.next:020d}.log"
        old = getattr(self, "_handle", None)
        if old is not None:
            self.sync()
        handle = path.open("wb", buffering=0)
        try:
            sync(self.folder)
        except OSError:
            handle.close()
            path.unlink(missing_ok=True)
            raise
        self._handle = handle
        self._files.append(_File(path, 0))
        if old is not None:
            old.close()


class _File:
    """One file of a log: its first record, its size, and its whole records."""

    def __init__(self, path: Path, expected: int) -> None:
        self.path = path
        self.first = int(path.stem)
        self.size = path.stat().st_size
        self.runs = _scan(path, self.first, expected)

    @property
    def next(self) -> int:
        """The number after that of its last whole record."""
        return self.runs[-1].next if self.runs else self.first

    def add(self, number: int, size: int) -> None:
        """Note a record that was appended."""
        if not self.runs:
            self.runs.append(_Run(number, number, self.size, self.size))
        self.size += size
        self.runs[-1].next, self.runs[-1].end = number + 1, self.size
