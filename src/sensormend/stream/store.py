"""`Store` keeps the inputs, the deliveries and the checkpoint of a service in one SQLite file."""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
import sqlite3
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sensormend.errors import StateError, StorageError
from sensormend.files import Closing, set_aside, sync
from sensormend.stream.codec import delivery_from_bytes, delivery_to_bytes
from sensormend.stream.deliveries import Delivery

__all__ = ["LIMIT", "Acknowledged", "Store", "copied"]

LIMIT = 1 << 30
"""The maximum number of bytes that wait for sinks. A day of 1,000 hourly sensors takes 1.4 MB: a sink may be down for
two years."""

SPARE = 128 << 20
"""Free bytes in the file, when nothing waits, above which it is compacted: inputs need up to half of it again."""

MOST_LOG = 4 << 20
"""Bytes of SQLite's log after which it is written into the file and emptied."""

PART_BITS, PART = 12, 1 << 28
"""Most bytes in one row: SQLite takes no more than a billion, and a day of a million sensors has more. A content of
several rows has its number, times 4096, and those after that for ids."""

FORM = 3
"""The version of the tables."""

CONTENTS = ("inbox", "outbox", "checkpoint")
"""The tables with a number, a checksum and a content; `Store` says what `note` is in each."""

_TABLES = f"""
    BEGIN;
    {
    "".join(
        f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, note INTEGER, crc INTEGER, content BLOB);" for name in CONTENTS
    )
}
    CREATE TABLE sinks (name TEXT PRIMARY KEY, next INTEGER, lost INTEGER, crc INTEGER);
    CREATE TABLE rewritten (name TEXT PRIMARY KEY);
    PRAGMA user_version = {FORM};
    COMMIT;
"""

_log = logging.getLogger("sensormend.stream")


@dataclass
class _Progress:
    """The place of the next delivery for a sink, and the number of deliveries that it will never get."""

    next: int
    lost: int


class Store(Closing):
    """An SQLite database; every change is a transaction, and survives a power cut when the method returns.

    What arrived is in `inbox` until a checkpoint has it. Deliveries are in `outbox`, once for all sinks, until every
    sink has them, beside the progress of each sink. Where more than `limit` bytes wait, the oldest deliveries are
    dropped and lost to the sinks that did not have them yet: that is logged once, and counted. A new sink begins with
    the next delivery; one that was left out for a while continues where it was, with what is still in the outbox.

    A content that is not what was written is left out when the store is opened. From a damaged file what can be read is
    copied to a new one, and the damaged file is renamed. SQLite takes the end of a damaged log for a write that was
    never committed: the file `acknowledged` beside it shows what is lacking.

    Parameters
    ----------
    path
        The file.
    names
        The sinks.
    limit
        Most bytes that wait for sinks.
    quiet
        Whether it is not logged that a damaged file is set aside.

    Attributes
    ----------
    next_input
        The number of the next input.
    next
        The place of the next delivery.
    inbox_size, size
        The bytes of the inputs, and those that wait for sinks.
    rewritten
        The files of the checkpoint's manifest that were written again since.
    acknowledged
        What was acknowledged.
    gone
        Whether the file was not there, although something was acknowledged.
    problem, unsound
        Why the file was set aside; how many entries of each table, and of `acknowledged`, were damaged or lacking.

    Raises
    ------
    StorageError
        Here and in every change: the disk is full, or the file is gone; nothing is changed.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, Store(Path(folder, "store.sqlite"), ["broker"]) as store:
    ...     store.put(store.next_input, b"one", before=0)
    ...     store.put(store.next_input, b"two", before=1)
    ...     store.append(Delivery("final", 0, 1), 0)
    ...     store.append(Delivery("final", 0, 1), 0)  # made again after a restart
    ...     print(store.backlog("broker"))
    ...     store.save(b"all", 1)
    ...     print(list(store.inputs()), store.checkpoint)
    1
    [(1, 1, b'two')] (1, b'all')
    """

    def __init__(self, path: Path, names: Sequence[str] = (), limit: int = LIMIT, *, quiet: bool = False) -> None:
        self.path, self.limit, self._quiet = path, limit, quiet
        self.problem, self.unsound = "", dict.fromkeys((*CONTENTS, "sinks"), 0)
        self._lock = threading.RLock()
        self._listeners: list[Callable[[], None]] = []
        self._overflowing: set[str] = set()
        with ExitStack() as stack:
            try:
                self.acknowledged = stack.enter_context(Acknowledged(path.with_name("acknowledged")))
                self.gone = bool(self.acknowledged.record) and not path.exists()
                self._database = stack.enter_context(closing(self._opened()))
                self._file = path.stat()
                self._leave_out_unsound()
                self._load(names)
            except (sqlite3.Error, OSError) as error:
                raise _storage_error(path, error) from error
            self.unsound["acknowledged"] = int(not self.acknowledged.record and self.next_input > 0)
            if not self.acknowledged.record:
                # Before the first input: a kill between an input and its record is not a record that is gone.
                self._record()
            self._closing = stack.pop_all()
        for name in names:
            if count := self.give_up(name, self._first):
                _log.warning("%s: %d earlier deliveries are no longer in the store, and lost to it", name, count)

    def _opened(self) -> sqlite3.Connection:
        """Open the file; a damaged one is renamed, and replaced by one with what can be read of it."""
        try:
            return _connect(self.path)
        except _DamagedError as error:
            self.problem = str(error)
        new, aside = Path(f"{self.path}.new"), set_aside(self.path)
        new.unlink(missing_ok=True)
        with closing(_connect(new)) as database:
            _salvage(self.path, database)
        for old, name in ((f"{self.path}-wal", f"{aside}-wal"), (self.path, aside), (new, self.path)):
            with suppress(FileNotFoundError):
                os.replace(old, name)
        sync(self.path.parent)
        if not self._quiet:
            _log.error("%s is damaged (%s) and set aside, in %s", self.path, self.problem, aside)
        return _connect(self.path)

    def _leave_out_unsound(self) -> None:
        """Drop contents that do not match their checksums; a delivery is emptied, and counted as lost at its turn."""
        for table in CONTENTS:
            unsound, numbers = set[int](), list[int]()
            for row in self._database.execute(f"SELECT id, note, crc, content FROM {table} ORDER BY id"):
                numbers.append(row[0] >> PART_BITS)
                if not _is_sound(*row):
                    unsound.add(numbers[-1])
            if table == "outbox" and numbers:
                unsound |= {*range(numbers[0], numbers[-1])} - {*numbers}
            self.unsound[table] = len(unsound)
            with self._database as database:
                for number in unsound:
                    ids = [number << PART_BITS, (number + 1) << PART_BITS]
                    note = database.execute(f"SELECT MAX(note) FROM {table} WHERE id >= ? AND id < ?", ids).fetchone()
                    database.execute(f"DELETE FROM {table} WHERE id >= ? AND id < ?", ids)
                    if table == "outbox":
                        _insert(database, table, number, note[0] or 0, b"")

    def _load(self, names: Sequence[str]) -> None:
        self._first, self.next, self.size, self._newest = self._extent("outbox")
        _, after, self.inbox_size, _ = self._extent("inbox")
        saved, *_ = self._extent("checkpoint")
        self.next_input = max(after, saved, int(self.acknowledged.record.get("number", 0)))
        self.rewritten = {name for (name,) in self._database.execute("SELECT name FROM rewritten")}
        known = {name: (entry, crc) for name, *entry, crc in self._database.execute("SELECT * FROM sinks").fetchall()}
        sound = {name: _Progress(*entry) for name, (entry, crc) in known.items() if _crc(name, *entry) == crc}
        self.unsound["sinks"] = len(known) - len(sound)
        # Where its progress is lost, a sink gets again what is left.
        new = _Progress(self._first if self.problem or self.unsound["sinks"] else self.next, 0)
        self._progress = {name: sound.get(name) or replace(new) for name in names}
        with self._database as database:
            for name, progress in {**dict.fromkeys(known, new), **sound, **self._progress}.items():
                if name not in sound:
                    _put_progress(database, name, progress)

    def _extent(self, table: str) -> tuple[int, int, int, int]:
        """Return the first number in a table, the one after the last, the bytes of all, and the highest note."""
        columns = "MIN(id), MAX(id), SUM(LENGTH(content)), MAX(note)"
        first, last, size, note = self._database.execute(f"SELECT {columns} FROM {table}").fetchone()
        return (0, 0, 0, -1) if first is None else (first >> PART_BITS, (last >> PART_BITS) + 1, size, note)

    def put(self, number: int, content: bytes, *, before: int, **acknowledged: Any) -> None:
        """Add an input with this number, which may be repeated after an error.

        Parameters
        ----------
        before
            The number of readings that were acknowledged before it.
        acknowledged
            What is recorded beside the store when it is on disk.
        """
        with self._changing() as database:
            _insert(database, "inbox", number, before, content)
        self.inbox_size += len(content) if number >= self.next_input else 0
        self.next_input = max(self.next_input, number + 1)
        self._record(**acknowledged)

    def inputs(self, start: int = 0) -> Iterator[tuple[int, int, bytes]]:
        """Yield number, number of readings before it, and content of the inputs from `start` on."""
        while (row := self._next("inbox", start, self.next_input)) is not None:
            yield row
            start = row[0] + 1

    @property
    def checkpoint(self) -> tuple[int, bytes] | None:
        """The number of the first input that the checkpoint does not have, and its content; None before the first."""
        row = self._next("checkpoint", 0, self.next_input + 1)
        return None if row is None else (row[0], row[2])

    def save(self, content: bytes, number: int, **acknowledged: Any) -> None:
        """Replace the checkpoint by one that has all inputs before `number`; these are dropped."""
        with self._changing() as database:
            database.execute("DELETE FROM checkpoint")
            _insert(database, "checkpoint", number, 0, content)
            database.execute("DELETE FROM inbox WHERE id < ?", [number << PART_BITS])
            database.execute("DELETE FROM rewritten")
            _, _, size, _ = self._extent("inbox")
        self.inbox_size = size
        self.rewritten.clear()
        self._empty_log()
        self._record(**acknowledged)
        self.acknowledged.sync()

    def note_rewritten(self, name: str) -> None:
        """Note that a file of the checkpoint's manifest is about to be written again."""
        if name not in self.rewritten:
            with self._changing() as database:
                database.execute("INSERT INTO rewritten VALUES (?)", [name])
            self.rewritten.add(name)

    def append(self, delivery: Delivery, number: int) -> None:
        """Add a delivery.

        Parameters
        ----------
        number
            Its number among all deliveries ever made. One that is or was in the outbox is skipped.
        """
        if number <= self._newest:
            return
        content = delivery_to_bytes(delivery)
        with self._lock:
            with self._changing() as database:
                size, dropped = self._surplus(self.size + len(content) - self.limit)
                _insert(database, "outbox", self.next, number, content)
                database.execute("DELETE FROM outbox WHERE id < ?", [(self._first + dropped) << PART_BITS])
            self.next, self._newest = self.next + 1, number
            self.size += len(content) - size
            self._first += dropped
        for name in self._progress:
            if dropped and self.give_up(name, self._first) and name not in self._overflowing:
                self._overflowing.add(name)
                _log.warning(
                    "%s: more than %d MB wait for it; the oldest are dropped and lost to it", name, self.limit >> 20
                )
        for listener in self._listeners:
            listener()

    def _surplus(self, excess: int) -> tuple[int, int]:
        """Return the size and the count of the oldest deliveries that have to be dropped."""
        size = count = 0
        if excess > 0:
            lengths = f"SELECT SUM(LENGTH(content)) FROM outbox GROUP BY id >> {PART_BITS} ORDER BY id"
            for (length,) in self._database.execute(lengths).fetchall():
                if size >= excess:
                    break
                size, count = size + length, count + 1
        return size, count

    def waiting(self, name: str) -> Iterator[tuple[int, Delivery]]:
        """Yield places and deliveries that a sink does not have yet, oldest first, as of now."""
        place, end = self._progress[name].next, self.next
        while (row := self._next("outbox", max(place, self._progress[name].next), end)) is not None:
            place, _, content = row
            try:
                delivery = delivery_from_bytes(content)
            except StateError as error:
                # A damaged delivery after others that are refused is given up when it is the next one.
                if place == self._progress[name].next:
                    count = self.give_up(name, place + 1)
                    _log.error("%s: %d deliveries that waited for it are lost: %s", name, count, error)
            else:
                yield place, delivery
            place += 1

    def delivered(self, name: str, place: int) -> None:
        """Record that a sink has everything up to this place."""
        with self._lock:
            progress = self._progress[name]
            if place < progress.next:
                # It was dropped, and counted as lost, while it was being delivered.
                self._move(name, progress.next, progress.lost - 1)
            else:
                self._move(name, place + 1, progress.lost)
            if progress.next >= self.next:
                self._overflowing.discard(name)

    def give_up(self, name: str, before: int) -> int:
        """Count the deliveries before this place as lost to a sink, and return their number."""
        with self._lock:
            progress = self._progress[name]
            count = max(0, before - progress.next)
            if count:
                self._move(name, progress.next + count, progress.lost + count)
        return count

    def backlog(self, name: str) -> int:
        """Return the number of deliveries that wait for a sink."""
        return max(0, self.next - self._progress[name].next)

    def lost(self, name: str) -> int:
        """Return the number of deliveries that a sink will never get."""
        return self._progress[name].lost

    def listen(self, listener: Callable[[], None]) -> None:
        """Register a function that is called after each `append`."""
        self._listeners.append(listener)

    def close(self) -> None:
        """Close the files; their contents stay."""
        with self._lock, suppress(sqlite3.Error):
            self._closing.close()

    def _move(self, name: str, to: int, lost: int) -> None:
        """Record the progress of a sink, and drop what every sink has; the newest delivery stays, for its number.

        Progress that cannot be written is written with the next move: after a crash before that the sink gets a few
        deliveries again.
        """
        progress = self._progress[name]
        progress.next, progress.lost = to, lost
        oldest = min(self.next - 1, *(progress.next for progress in self._progress.values()))
        try:
            with self._database as database:
                _put_progress(database, name, progress)
                if oldest > self._first:
                    older = "FROM outbox WHERE id < ?", [oldest << PART_BITS]
                    (size,) = database.execute(f"SELECT SUM(LENGTH(content)) {older[0]}", older[1]).fetchone()
                    database.execute(f"DELETE {older[0]}", older[1])
            if oldest > self._first:
                self._first, self.size = oldest, self.size - size
                self._shrink()
        except sqlite3.Error as error:
            # The store was closed while a sink took very long, or the disk is full.
            _log.debug("%s cannot be written: %s", self.path, error)

    def _shrink(self) -> None:
        """Free the disk space of a long backlog that has been delivered."""
        if self._first < self.next - 1:
            return
        (free,) = self._database.execute("PRAGMA freelist_count").fetchone()
        (page,) = self._database.execute("PRAGMA page_size").fetchone()
        if free * page > SPARE:
            self._database.execute("VACUUM")
            self._empty_log()

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        """Commit what the block does, or nothing of it."""
        with self._lock:
            self._check_place()
            try:
                with self._database as database:
                    yield database
                log = Path(f"{self.path}-wal")
                if log.exists() and log.stat().st_size > MOST_LOG:
                    self._empty_log()
            except sqlite3.Error as error:
                raise _storage_error(self.path, error) from error
            # What was written to a file that was deleted or moved meanwhile is lost.
            self._check_place()

    def _empty_log(self) -> None:
        """Write SQLite's log into the file: as long as the log is not empty, its damage goes back in time.

        Not in parts, as SQLite does it: a log that is damaged when some of it is in the file gives a mixture of both.
        """
        with self._lock, suppress(sqlite3.Error):
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def _next(self, table: str, start: int, end: int) -> tuple[int, int, bytes] | None:
        """Return the first content with a number from `start` to before `end`, with its number and note."""
        bounds = [start << PART_BITS, end << PART_BITS]
        try:
            with self._lock:
                query = f"SELECT MIN(id) FROM {table} WHERE id >= ? AND id < ?"
                (first,) = self._database.execute(query, bounds).fetchone()
                if first is None:
                    return None
                number = first >> PART_BITS
                query = f"SELECT note, content FROM {table} WHERE id >= ? AND id < ? ORDER BY id"
                rows = self._database.execute(query, [first, (number + 1) << PART_BITS]).fetchall()
        except sqlite3.Error as error:
            raise _storage_error(self.path, error) from error
        return number, rows[0][0], rows[0][1] if len(rows) == 1 else b"".join(content for _, content in rows)

    def _record(self, **acknowledged: Any) -> None:
        waiting = max(map(self.backlog, self._progress), default=0)
        known = {**self.acknowledged.record, "number": self.next_input, "deliveries": self.next, "waiting": waiting}
        try:
            self.acknowledged.write({**known, **acknowledged})
        except OSError as error:
            raise _storage_error(self.acknowledged.path, error) from error

    def _check_place(self) -> None:
        """Refuse to write to a file that was deleted or moved while it was open."""
        try:
            if not os.path.samestat(self.path.stat(), self._file):
                raise FileNotFoundError(errno.ENOENT, "it is not the file that was opened", str(self.path))
        except OSError as error:
            raise _storage_error(self.path, error) from error


@contextmanager
def copied(path: Path) -> Iterator[Store]:
    """Yield a copy of a store, which may be repaired while the files stay as they are."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            for source in (path, Path(f"{path}-wal"), path.with_name("acknowledged")):
                with suppress(FileNotFoundError):
                    shutil.copy(source, folder)
        except OSError as error:
            raise StorageError(f"{path} cannot be copied to {folder}: {error.strerror or error}") from error
        with Store(Path(folder, path.name), quiet=True) as store:
            yield store


def _insert(database: sqlite3.Connection, table: str, number: int, note: int, content: bytes) -> None:
    parts = [memoryview(content)[start : start + PART] for start in range(0, max(len(content), 1), PART)]
    rows = [(id_, note, _crc(id_, note, content=part), part) for id_, part in enumerate(parts, number << PART_BITS)]
    database.executemany(f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?, ?)", rows)


def _put_progress(database: sqlite3.Connection, name: str, progress: _Progress) -> None:
    entry = (name, progress.next, progress.lost)
    changed = "ON CONFLICT (name) DO UPDATE SET next = excluded.next, lost = excluded.lost, crc = excluded.crc"
    database.execute(f"INSERT INTO sinks VALUES (?, ?, ?, ?) {changed}", [*entry, _crc(*entry)])


def _crc(*entries: object, content: bytes | memoryview = b"") -> int:
    return zlib.crc32(content, zlib.crc32(repr(entries).encode()))


def _is_sound(id_: Any, note: Any, crc: Any, content: Any) -> bool:
    return isinstance(content, bytes) and _crc(id_, note, content=content) == crc


def _salvage(path: Path, new: sqlite3.Connection) -> None:
    """Copy what can be read from a damaged file: from the front, and from the back as far as that goes."""
    with closing(sqlite3.connect(path)) as old:
        list(_readable(old, "PRAGMA locking_mode = EXCLUSIVE"))
        for table in (*CONTENTS, "sinks", "rewritten"):
            columns = new.execute(f"SELECT * FROM {table}").description
            insert = f"INSERT OR IGNORE INTO {table} VALUES ({', '.join('?' * len(columns))})"
            for order in ("ASC", "DESC"):
                with new:
                    new.executemany(insert, _readable(old, f"SELECT * FROM {table} ORDER BY rowid {order}"))


def _readable(database: sqlite3.Connection, query: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a query as far as they can be read."""
    with suppress(sqlite3.Error):
        yield from database.execute(query)


class _DamagedError(StateError):
    """The file is damaged."""


def _connect(path: Path) -> sqlite3.Connection:
    """Open a database whose commits survive a power cut.

    The lock is exclusive: no other process uses it, and SQLite needs no file for shared memory, which a full disk could
    not hold.
    """
    database = sqlite3.connect(path, check_same_thread=False, timeout=0)
    try:
        database.execute("PRAGMA locking_mode = EXCLUSIVE").fetchone()
        (mode,) = database.execute("PRAGMA journal_mode = WAL").fetchone()
        database.execute("PRAGMA synchronous = FULL")
        database.execute("PRAGMA wal_autocheckpoint = 0").fetchone()
        (form,) = database.execute("PRAGMA user_version").fetchone()
        if form == 0:
            database.executescript(_TABLES)
        elif form != FORM:
            raise StateError(
                f"{path.name} has form {form}, this version of sensormend reads form {FORM}; watch into another OUT"
            )
        (state,) = database.execute("PRAGMA integrity_check(1)").fetchone()
        if state != "ok" or mode != "wal":
            raise _DamagedError(f"its mode is {mode}" if state == "ok" else " ".join(state.split()))
    except BaseException as error:
        database.close()
        if isinstance(error, sqlite3.Error) and _is_damage(error):
            raise _DamagedError(str(error)) from error
        raise
    return database


def _is_damage(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorname", "").startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB"))


def _storage_error(path: Path, error: Exception) -> StorageError | StateError:
    """Return the error for a damaged file, or for a disk that may be written again later."""
    if isinstance(error, sqlite3.Error) and _is_damage(error):
        return StateError(f"{path} is damaged ({error}): start again, and it is set aside")
    if getattr(error, "sqlite_errorname", "") == "SQLITE_FULL":
        return StorageError(f"{path} cannot be written: {os.strerror(errno.ENOSPC)}")
    return StorageError(f"{path} cannot be written: {error}")


SLOT = 1024
"""Bytes of a record. There are two, which are written alternately: a torn write leaves the other one intact."""


class Acknowledged(Closing):
    """A small file with the newest record of what was acknowledged; after a power cut it may have an older one.

    Attributes
    ----------
    record
        What was written last; empty before the first record.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "acknowledged")
    ...     with Acknowledged(path) as file:
    ...         file.write({"number": 7})
    ...         file.write({"number": 8})
    ...     Acknowledged.read(path)["number"]
    8
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.record = self.read(path)
        self._turn = int(self.record.pop("turn", 0))
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o644)
        if not self.record:
            sync(path.parent)

    @staticmethod
    def read(path: Path) -> dict[str, Any]:
        """Return the newest record of a file, with its `turn`; empty if none is intact."""
        newest: dict[str, Any] = {}
        try:
            content = path.read_bytes()
        except OSError:
            return newest
        for start in (0, SLOT):
            crc, _, text = content[start : start + SLOT].rstrip(b" \0").partition(b" ")
            with suppress(ValueError, KeyError, TypeError):
                if int(crc, 16) == zlib.crc32(text):
                    newest = max(newest, json.loads(text), key=lambda record: int(record.get("turn", 0)))
        return newest

    def write(self, record: Mapping[str, Any]) -> None:
        """Write a record; it survives the end of this process, and a power cut after `sync`."""
        turn = self._turn + 1
        text = json.dumps({**record, "turn": turn}, separators=(",", ":")).encode("ascii")
        content = (b"%08x %s" % (zlib.crc32(text), text)).ljust(SLOT)
        assert len(content) == SLOT
        # After a failure the same place is written again: the other one has the newest whole record.
        os.lseek(self._handle, turn % 2 * SLOT, os.SEEK_SET)
        while content:
            content = content[os.write(self._handle, content) :]
        self._turn, self.record = turn, dict(record)

    def sync(self) -> None:
        """Wait until it is on disk."""
        os.fsync(self._handle)

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)
