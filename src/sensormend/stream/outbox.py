"""What is to be delivered, on disk until every sink has it."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import struct
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from sensormend.errors import StateError
from sensormend.files import sync
from sensormend.stream.codec import delivery_from_bytes, delivery_to_bytes
from sensormend.stream.deliveries import Delivery
from sensormend.stream.journal import WriteAheadLog

__all__ = ["LIMIT", "Outbox"]

LIMIT = 1 << 30
"""Bytes that wait at most. A day of 1,000 sensors with 24 slots takes 1.4 MB: a sink may be away for two years."""

SEGMENT = 8 << 20
"""Bytes per file, the least that is dropped at once."""

NUMBER = struct.Struct("<Q")
LINE = 51

_said = logging.getLogger("sensormend.stream")


class Outbox:
    """Deliveries in order, once for all sinks, and for each sink how far it has come.

    What every sink has is dropped. Where more than `limit` waits, the oldest goes, and is lost to the sinks that did
    not have it yet: that is said once, and counted. A sink that is named for the first time begins with what comes from
    then on; one that was left out for a while goes on where it was, with what is still there.

    Parameters
    ----------
    folder
        Made where it is missing.
    names
        The sinks.
    limit
        Bytes that wait at most.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     box = Outbox(Path(folder), ["broker"])
    ...     box.append(Delivery("final", 0, 1), 0)
    ...     box.append(Delivery("final", 0, 1), 0)  # made again after a restart
    ...     print(box.backlog("broker"))
    ...     for place, delivery in box.waiting("broker"):
    ...         box.delivered("broker", place)
    ...     print(box.backlog("broker"))
    ...     box.close()
    1
    0
    """

    def __init__(self, folder: str | os.PathLike[str], names: Sequence[str], limit: int = LIMIT) -> None:
        self.folder = Path(folder)
        self.limit = limit
        self._log = WriteAheadLog(self.folder, segment=max(1, min(SEGMENT, limit // 8)))
        self._lock = threading.Lock()
        self._listeners: list[Callable[[], None]] = []
        self._complained: set[str] = set()
        self._closed = False
        newest = list(self._log.read(self._log.next - 1))
        self._newest = NUMBER.unpack_from(newest[0][1])[0] if newest else -1
        self._cursors = {
            name: _Cursor(self.folder / _file_name(name), self._log.first, self._log.next) for name in names
        }
        for name in names:
            if count := self.give_up(name, self._log.first):
                _said.warning("%s: %d deliveries from before are not there any more, and lost to it", name, count)
        self._drop()

    @property
    def next(self) -> int:
        """The place that the next delivery will have."""
        return self._log.next

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return self._log.size

    def append(self, delivery: Delivery, number: int) -> None:
        """Put a delivery in.

        Parameters
        ----------
        number
            Which one it is of all that were ever made. One that is in the box, or was, is passed over.

        Raises
        ------
        OSError
            The disk is full; the box is as it was.
        """
        if number <= self._newest:
            return
        self._log.append(NUMBER.pack(number) + delivery_to_bytes(delivery))
        self._newest = number
        if self._log.size > self.limit:
            self._make_room()
        for listener in self._listeners:
            listener()

    def sync(self) -> None:
        """Return when everything in the box would outlast a power cut."""
        self._log.sync()

    def waiting(self, name: str) -> Iterator[tuple[int, Delivery]]:
        """Yield places and deliveries that a sink does not have yet, oldest first, as of now."""
        try:
            for place, content in self._log.read(self._cursors[name].next):
                yield place, delivery_from_bytes(content[NUMBER.size :])
        except StateError as error:
            self._pass_over(name, error)

    def delivered(self, name: str, place: int) -> None:
        """Note that a sink has everything up to this place."""
        with self._lock:
            cursor = self._cursors[name]
            if place < cursor.next:
                # It was dropped, and counted as lost, while it was on its way.
                cursor.move(cursor.next, lost=cursor.lost - 1)
            else:
                cursor.move(place + 1, lost=cursor.lost)
            if cursor.next >= self._log.next:
                self._complained.discard(name)
        self._drop()

    def give_up(self, name: str, before: int) -> int:
        """Count what is before this place as lost to a sink, and return how much that is."""
        with self._lock:
            cursor = self._cursors[name]
            count = max(0, before - cursor.next)
            cursor.move(cursor.next + count, lost=cursor.lost + count)
        self._drop()
        return count

    def backlog(self, name: str) -> int:
        """Return how many deliveries wait for a sink."""
        return max(0, self._log.next - self._cursors[name].next)

    def lost(self, name: str) -> int:
        """Return how many deliveries a sink will never get."""
        return self._cursors[name].lost

    def listen(self, listener: Callable[[], None]) -> None:
        """Have this called after each delivery that is put in."""
        self._listeners.append(listener)

    def close(self) -> None:
        """Let go of the files; what waits stays."""
        self._closed = True
        self._log.close()
        with self._lock:
            for cursor in self._cursors.values():
                cursor.close()

    def _drop(self) -> None:
        """Drop what every sink has; the newest stays, for its number."""
        if self._closed:
            return  # A sink that took very long: what it has is not written down any more.
        behind = min((cursor.next for cursor in self._cursors.values()), default=self._log.next)
        behind = min(behind, self._log.next - 1)
        if len(starts := self._log.starts) > 1 and starts[1] <= behind:
            # A cursor that a power cut turned back must still find what it points to.
            with self._lock:
                for cursor in self._cursors.values():
                    cursor.sync()
            self._log.drop(behind)

    def _make_room(self) -> None:
        while self._log.size > self.limit and len(starts := self._log.starts) > 1:
            for name in self._cursors:
                if self.give_up(name, starts[1]) and name not in self._complained:
                    self._complained.add(name)
                    _said.warning(
                        "%s: more than %d MB wait for it; the oldest are dropped and lost to it", name, self.limit >> 20
                    )
            self._log.drop(starts[1])

    def _pass_over(self, name: str, error: StateError) -> None:
        """Go on with the next file of the log, as one that is broken would stop a sink for ever."""
        here = self._cursors[name].next
        count = self.give_up(name, next((start for start in self._log.starts if start > here), self._log.next))
        _said.error("%s: %d deliveries that waited for it are lost: %s", name, count, error)


class _Cursor:
    """How far a sink has come, in a file that is written in place: two lines in turn, of which one is always whole."""

    def __init__(self, path: Path, oldest: int, newest: int) -> None:
        # One that was spoilt: rather everything again than something not at all.
        start = oldest if path.exists() else newest
        content = path.read_bytes() if path.exists() else b""
        known = [_line(content[start : start + LINE]) for start in (0, LINE)]
        whole = [entry for entry in known if entry is not None]
        self.next, self.lost = max(whole, default=(start, 0))
        self._turn = known.index((self.next, self.lost)) if whole else 1
        self._file = path.open("r+b" if path.exists() else "w+b", buffering=0)
        if not whole:
            self.move(self.next, lost=0)
            # Without its file it would be taken for a new sink, and lose what waits for it.
            self.sync()
            sync(path.parent)

    def move(self, to: int, *, lost: int) -> None:
        """Note it. A kill does not undo that; a power cut may, and the sink gets a few deliveries again."""
        self.next, self.lost, self._turn = to, lost, 1 - self._turn
        if self._file.closed:
            return  # A sink that took very long.
        said = b"%020d %020d" % (to, lost)
        line = b"%s %08x\n" % (said, zlib.crc32(said))
        try:
            self._file.seek(self._turn * LINE)
            self._file.write(line)
        except OSError as error:
            _said.debug("%s cannot be written: %s", self._file.name, error)

    def sync(self) -> None:
        """Return when a power cut would not undo it."""
        if not self._file.closed:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Make it safe, and let go of it."""
        self.sync()
        self._file.close()


def _line(line: bytes) -> tuple[int, int] | None:
    said, _, crc = line.rpartition(b" ")
    if re.fullmatch(rb"\d{20} \d{20}", said) is None or crc != b"%08x\n" % zlib.crc32(said):
        return None
    to, lost = said.split()
    return int(to), int(lost)


def _file_name(name: str) -> str:
    """Return a name for a file: what people can read of it, and what tells it from others."""
    readable = re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-.")[:60]
    return f"{readable}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}.cursor"
