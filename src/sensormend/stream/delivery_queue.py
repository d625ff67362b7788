"""`DeliveryQueue` keeps deliveries on disk until every sink has them; a `DeliveryWorker` takes them to one sink."""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sensormend.errors import RefusedError, StateError, StorageError, one_line
from sensormend.files import Closing
from sensormend.stream.codec import delivery_from_bytes, delivery_to_bytes
from sensormend.stream.deliveries import Delivery, Sink, SinkState

__all__ = ["LIMIT", "PAUSES", "DeliveryQueue", "DeliveryWorker", "stop_all"]

LIMIT = 1 << 30
"""Most bytes that wait. A day of 1,000 sensors with 24 slots takes 1.4 MB: a sink may be down for two years."""

SPARE = 8 << 20
"""Free bytes in the file, when nothing waits, above which it is compacted."""

PART = 1 << 28
"""Most bytes of a delivery in one row: SQLite takes no more than a billion, and a day of a million sensors has more."""

FORM = 1
"""The version of the tables; a file with another version is set aside."""

PAUSES = (0.5, 30.0)
"""Seconds between two attempts: the first pause, and the longest, up to which it doubles. A broker that restarts is
back within a second or two; one that is down for a day need not be tried more often than twice a minute."""

HANGING = 60.0
"""Seconds for one delivery after which a sink counts as down. The timeouts of all sinks are shorter, except for a large
delivery to a slow server."""

REFUSALS = 6
"""Refusals of a delivery, over at least a quarter of a minute, before a later one is tried."""

_TABLES = f"""
    BEGIN;
    CREATE TABLE deliveries (
        place INTEGER, part INTEGER, number INTEGER, crc INTEGER, content BLOB, PRIMARY KEY (place, part)
    );
    CREATE TABLE sinks (name TEXT PRIMARY KEY, next INTEGER, lost INTEGER);
    PRAGMA user_version = {FORM};
    COMMIT;
"""

_NEXT = """
    SELECT place, crc, content FROM deliveries
    WHERE place = (SELECT MIN(place) FROM deliveries WHERE place >= ? AND place < ?) ORDER BY part
"""

_log = logging.getLogger("sensormend.stream")


@dataclass
class _Progress:
    """The place of the next delivery for a sink, and the number of deliveries that it will never get."""

    next: int
    lost: int


class DeliveryQueue(Closing):
    """An SQLite database with the deliveries in order, once for all sinks, and the progress of each sink.

    A delivery that every sink has is dropped. Where more than `limit` bytes wait, the oldest deliveries are dropped and
    lost to the sinks that did not have them yet: that is logged once, and counted. A new sink begins with the next
    delivery; one that was left out for a while continues where it was, with what is still in the queue. A damaged file
    is renamed and replaced by a new one.

    Parameters
    ----------
    path
        The file of the database.
    names
        The sinks.
    limit
        Most bytes that wait.

    Attributes
    ----------
    next
        The place of the next delivery.
    size
        The bytes that wait.

    Raises
    ------
    StorageError
        Here and in `append`: the disk is full, or the file is gone; the queue is unchanged.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, DeliveryQueue(Path(folder, "queue"), ["broker"]) as queue:
    ...     queue.append(Delivery("final", 0, 1), 0)
    ...     queue.append(Delivery("final", 0, 1), 0)  # made again after a restart
    ...     print(queue.backlog("broker"))
    ...     for place, delivery in queue.waiting("broker"):
    ...         queue.delivered("broker", place)
    ...     print(queue.backlog("broker"))
    1
    0
    """

    def __init__(self, path: Path, names: Sequence[str], limit: int = LIMIT) -> None:
        self.path, self.limit = path, limit
        self._lock = threading.RLock()
        self._listeners: list[Callable[[], None]] = []
        self._overflowing: set[str] = set()
        try:
            self._database = self._opened()
        except sqlite3.Error as error:
            raise _storage_error(path, error) from error
        try:
            self._file = path.stat()
            self._load(names)
        except (sqlite3.Error, OSError) as error:
            self.close()
            raise _storage_error(path, error) from error
        for name in names:
            if count := self.give_up(name, self._first):
                _log.warning("%s: %d earlier deliveries are no longer in the queue, and lost to it", name, count)

    def _opened(self) -> sqlite3.Connection:
        """Open the file; a damaged one is renamed and replaced by a new one."""
        try:
            return _connect(self.path)
        except StateError as error:
            number = 1
            while (aside := Path(f"{self.path}.damaged-{number}")).exists():
                number += 1
            for ending in ("-wal", ""):
                with suppress(FileNotFoundError):
                    os.replace(f"{self.path}{ending}", f"{aside}{ending}")
            _log.error("%s is damaged (%s): what waited for sinks is set aside, in %s", self.path, error, aside)
            return _connect(self.path)

    def _load(self, names: Sequence[str]) -> None:
        extent = "COALESCE(MIN(place), 0), COALESCE(MAX(place) + 1, 0), COALESCE(SUM(LENGTH(content)), 0)"
        row: tuple[int, int, int] = self._database.execute(f"SELECT {extent} FROM deliveries").fetchone()
        self._first, self.next, self.size = row
        newest = self._database.execute("SELECT number FROM deliveries WHERE place = ?", [self.next - 1]).fetchone()
        self._newest: int = newest[0] if newest else -1
        with self._database as database:
            new = [(name, self.next) for name in names]
            database.executemany("INSERT OR IGNORE INTO sinks VALUES (?, ?, 0)", new)
        rows = {name: _Progress(*progress) for name, *progress in self._database.execute("SELECT * FROM sinks")}
        self._progress = {name: rows[name] for name in names}

    def append(self, delivery: Delivery, number: int) -> None:
        """Add a delivery durably: it survives a power cut from the return on.

        Parameters
        ----------
        number
            Its number among all deliveries ever made. One that is or was in the queue is skipped.
        """
        if number <= self._newest:
            return
        content = delivery_to_bytes(delivery)
        with self._lock:
            self._check_place()
            try:
                size, dropped = self._surplus(self.size + len(content) - self.limit)
                with self._database as database:
                    parts = [content[start : start + PART] for start in range(0, len(content), PART)]
                    rows = [(self.next, index, number, zlib.crc32(part), part) for index, part in enumerate(parts)]
                    database.executemany("INSERT INTO deliveries VALUES (?, ?, ?, ?, ?)", rows)
                    database.execute("DELETE FROM deliveries WHERE place < ?", [self._first + dropped])
            except sqlite3.Error as error:
                raise _storage_error(self.path, error) from error
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
            lengths = "SELECT SUM(LENGTH(content)) FROM deliveries GROUP BY place ORDER BY place"
            for (length,) in self._database.execute(lengths):
                if size >= excess:
                    break
                size, count = size + length, count + 1
        return size, count

    def waiting(self, name: str) -> Iterator[tuple[int, Delivery]]:
        """Yield places and deliveries that a sink does not have yet, oldest first, as of now."""
        place, end = self._progress[name].next, self.next
        while True:
            try:
                with self._lock:
                    rows = self._database.execute(_NEXT, [max(place, self._progress[name].next), end]).fetchall()
            except sqlite3.Error as error:
                raise _storage_error(self.path, error) from error
            if not rows:
                return
            place = rows[0][0] + 1
            try:
                if any(zlib.crc32(part) != crc for _, crc, part in rows):
                    raise StateError(f"{self.path} is damaged: what was written there is not what is there now")
                delivery = delivery_from_bytes(b"".join(part for _, _, part in rows))
            except StateError as error:
                # A damaged delivery after others that are refused is given up when it is the next one.
                if place - 1 == self._progress[name].next:
                    count = self.give_up(name, place)
                    _log.error("%s: %d deliveries that waited for it are lost: %s", name, count, error)
                continue
            yield place - 1, delivery

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

    def empty_damaged(self) -> None:
        """Empty the deliveries that are not what was written; at their turn they are skipped, and counted as lost."""
        with self._lock:
            with self._database as database:
                parts = database.execute("SELECT place, crc, content FROM deliveries")
                damaged = {place for place, crc, content in parts if zlib.crc32(content) != crc}
                empty = "UPDATE deliveries SET crc = 0, content = x'' WHERE place = ?"
                database.executemany(empty, [(place,) for place in damaged])
            self._load(list(self._progress))

    def listen(self, listener: Callable[[], None]) -> None:
        """Register a function that is called after each `append`."""
        self._listeners.append(listener)

    def close(self) -> None:
        """Close the file; the deliveries that wait stay in it."""
        with self._lock, suppress(sqlite3.Error):
            self._database.close()

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
                database.execute("UPDATE sinks SET next = ?, lost = ? WHERE name = ?", [to, lost, name])
                if oldest > self._first:
                    older = "FROM deliveries WHERE place < ?"
                    (size,) = database.execute(f"SELECT SUM(LENGTH(content)) {older}", [oldest]).fetchone()
                    database.execute(f"DELETE {older}", [oldest])
            if oldest > self._first:
                self._first, self.size = oldest, self.size - size
                self._shrink()
        except sqlite3.Error as error:
            # The queue was closed while a sink took very long, or the disk is full.
            _log.debug("%s cannot be written: %s", self.path, error)

    def _shrink(self) -> None:
        """Free the disk space of a long backlog that has been delivered."""
        if self._first < self.next - 1:
            return
        (free,) = self._database.execute("PRAGMA freelist_count").fetchone()
        (page,) = self._database.execute("PRAGMA page_size").fetchone()
        if free * page > SPARE:
            self._database.execute("VACUUM")
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def _check_place(self) -> None:
        """Refuse to write to a file that was deleted or moved while it was open."""
        try:
            if not os.path.samestat(self.path.stat(), self._file):
                raise FileNotFoundError(errno.ENOENT, "it is not the file that was opened", str(self.path))
        except OSError as error:
            raise _storage_error(self.path, error) from error


def _connect(path: Path) -> sqlite3.Connection:
    """Open a database whose commits survive a power cut; raise a `StateError` if it is damaged or of another version.

    The lock is exclusive: no other process uses it, and SQLite needs no file for shared memory, which a full disk could
    not hold.
    """
    database = sqlite3.connect(path, check_same_thread=False, timeout=0)
    try:
        for pragma in ("locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = FULL"):
            database.execute(f"PRAGMA {pragma}").fetchone()
        (form,) = database.execute("PRAGMA user_version").fetchone()
        if form == 0:
            database.executescript(_TABLES)
        elif form != FORM:
            raise StateError(f"its form is {form}, this version of sensormend reads form {FORM}")
        (state,) = database.execute("PRAGMA quick_check(1)").fetchone()
        if state != "ok":
            raise StateError(" ".join(state.split()))
    except BaseException as error:
        database.close()
        if isinstance(error, sqlite3.Error) and _is_damage(error):
            raise StateError(str(error)) from error
        raise
    return database


def _is_damage(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorname", "").startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB"))


def _storage_error(path: Path, error: Exception) -> StorageError | StateError:
    """Return the error for a damaged file, or for a disk that may be written again later."""
    if isinstance(error, sqlite3.Error) and _is_damage(error):
        return StateError(f"{path} is damaged ({error}): start again, and it is set aside")
    return StorageError(f"{path} cannot be written: {error}")


class DeliveryWorker:
    """Takes deliveries from the queue to one sink, in order, each at least once.

    A failure of the sink is logged once, and the delivery is retried after pauses that grow; when the sink has taken
    what had waited, that is logged too. A delivery that the sink refuses (`RefusedError`) is retried like any other. It
    is given up, counted as lost and logged only when the sink takes a later one. While all are refused, nothing is
    given up. The service never waits for a worker.

    Parameters
    ----------
    name
        Its name in the queue, which is logged and so has no secrets.
    sink
        Used in one thread only, which closes it at the end.
    queue
        The queue of deliveries.
    pauses
        The first pause and the longest, in seconds.
    """

    def __init__(self, name: str, sink: Sink, queue: DeliveryQueue, pauses: tuple[float, float] = PAUSES) -> None:
        self.name = name
        self._sink = sink
        self._queue = queue
        self._pauses = pauses
        self._changed = threading.Condition()
        self._provisional: tuple[int, Delivery] | None = None
        self._deadline: float | None = None
        self._delivered = 0
        self._error = ""
        self._down_since: float | None = None
        self._started: float | None = None
        self._hung: float | None = None
        self._pause = pauses[0]
        self._refusals = 0
        self._final = -1
        self._return: _Return | None = None
        self._thread = threading.Thread(target=self._run, name=f"delivery to {name}", daemon=True)
        queue.listen(self._wake)

    @property
    def _backlog(self) -> int:
        return self._queue.backlog(self.name)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def offer(self, provisional: Delivery) -> None:
        """Deliver this when nothing else waits; it replaces an earlier one that was not delivered yet."""
        with self._changed:
            self._provisional = (self._queue.next, provisional)
            self._changed.notify()

    def state(self) -> SinkState:
        """Return the state of the sink; a sink that hangs is logged here, once."""
        started = self._started
        busy = 0.0 if started is None else time.monotonic() - started
        error = self._error
        if busy > HANGING:
            error = error or f"it has been at one delivery for {busy:.0f} s"
            if self._hung != started:
                self._hung = started
                _log.warning("%s: hangs: it has been at one delivery for %.0f s; others wait on disk", self.name, busy)
        # Only `stop_all` is known to end the thread; if anything else does, the state has to report it.
        dead = self._thread.ident is not None and not self._thread.is_alive() and self._deadline is None
        if dead:
            error = "nothing more is delivered until sensormend is started again"
        return SinkState(
            self.name,
            self._down_since is None and busy <= HANGING and not dead,
            busy,
            self._backlog,
            self._delivered,
            self._queue.lost(self.name),
            error,
        )

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify()

    def _run(self) -> None:
        try:
            while self._step():
                pass
        finally:
            try:
                self._sink.close()
            except Exception as error:
                _log.debug("%s: closing it failed: %s", self.name, error)

    def _step(self) -> bool:
        """Deliver what waits, then wait for more; return whether to continue."""
        try:
            if self._finished():
                return False
            tried = self._deliver_waiting()
            if (self._down_since is None or not tried) and not self._finished():
                self._deliver_provisional()
        except Exception as error:
            # Not a failure of the sink, but for example of the disk of the queue, which may recover like a sink. In any
            # case what waits stays on disk, and a worker that ended would deliver nothing until the next start.
            _log.debug("%s: failed before delivery", self.name, exc_info=True)
            self._log_failure(error)
            if self._deadline is not None:
                return False
        self._pause_or_wait()
        return True

    def _pause_or_wait(self) -> None:
        """Wait for something to deliver; after a failure wait for the end of the pause."""
        with self._changed:
            if self._down_since is not None:
                self._changed.wait_for(lambda: self._deadline is not None, self._pause)
                self._pause = min(2 * self._pause, self._pauses[1])
            else:
                self._changed.wait_for(lambda: self._deadline is not None or self._provisional or self._backlog)

    def _finished(self) -> bool:
        """Return whether to end: after `stop_all`, when nothing is left, the sink is down, or the time is up."""
        deadline = self._deadline
        if deadline is None:
            return False
        return self._down_since is not None or time.monotonic() > deadline or not self._backlog

    def _deliver_waiting(self) -> bool:
        """Deliver until nothing waits or one fails; return whether anything was tried."""
        tried = False
        refused = 0
        for place, delivery in self._queue.waiting(self.name):
            if self._deadline is not None and time.monotonic() > self._deadline:
                break
            if delivery.kind not in self._sink.kinds:
                if not refused:
                    self._queue.delivered(self.name, place)
                continue
            tried = True
            failure = self._write(delivery)
            if failure is None:
                if refused:
                    count = self._queue.give_up(self.name, place)
                    _log.error("%s: %d deliveries are given up and lost to it: it refuses them, and took a later one",
                               self.name, count)  # fmt: skip
                if delivery.kind == "final":
                    self._final = place
                self._queue.delivered(self.name, place)
                self._delivered += 1
                self._refusals = 0
                self._log_return()
                continue
            if not isinstance(failure, RefusedError):
                break
            # The first is tried each time, followed by one more later delivery each time that it is refused again.
            self._refusals += refused == 0
            refused += 1
            if refused > self._refusals - REFUSALS + 1:
                break
        return tried

    def _deliver_provisional(self) -> None:
        with self._changed:
            offered = self._provisional
        if offered is None or self._backlog:
            return
        next_place, delivery = offered
        # A final delivery must not be followed by an older provisional one.
        wanted = delivery.kind in self._sink.kinds and self._final < next_place
        if wanted and self._write(delivery) is not None:
            return
        self._log_return()
        with self._changed:
            if self._provisional is offered:
                self._provisional = None

    def _write(self, delivery: Delivery) -> Exception | None:
        """Write a delivery to the sink, and return the error if it fails."""
        self._started = time.monotonic()
        try:
            self._sink.write(delivery)
        except Exception as error:
            self._log_failure(error)
            return error
        finally:
            self._started = None
        if self._down_since is not None:
            self._return = _Return(time.monotonic() - self._down_since, self._queue.next, self._delivered)
            self._down_since, self._error = None, ""
        return None

    def _log_failure(self, failure: Exception) -> None:
        self._error = one_line(failure)
        if self._down_since is not None:
            _log.debug("%s: still cannot deliver: %s", self.name, self._error)
            return
        self._down_since = time.monotonic()
        self._return = None
        self._pause = self._pauses[0]
        _log.warning(
            "%s: cannot deliver: %s; deliveries wait on disk (each further try is logged at level debug)",
            self.name,
            self._error,
        )

    def _log_return(self) -> None:
        """Log that the sink is back once it has what waited."""
        returned = self._return
        if returned is not None and self._queue.next - self._backlog >= returned.until:
            count = self._delivered - returned.before
            _log.info("%s: back after %.0f s, and has the %d deliveries that waited", self.name, returned.away, count)
            self._return = None


def stop_all(workers: Sequence[DeliveryWorker], timeout: float) -> bool:
    """Deliver what waits, for at most `timeout` seconds, end the workers, and return whether nothing is left.

    A sink that is down is not waited for: what is left is delivered after the next start.
    """
    deadline = time.monotonic() + timeout
    for worker in workers:
        with worker._changed:
            worker._deadline = deadline
            worker._changed.notify()
    for worker in workers:
        if worker._thread.ident is not None:
            worker._thread.join(max(0.0, deadline - time.monotonic()))
    return not any(worker._backlog for worker in workers)


@dataclass(frozen=True)
class _Return:
    """A sink is back: seconds it was down, the end of what waited then, and the deliveries it had taken before."""

    away: float
    until: int
    before: int
