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

from sensormend.errors import RefusedError, StateError, StorageError
from sensormend.files import Closing
from sensormend.stream.codec import delivery_from_bytes, delivery_to_bytes
from sensormend.stream.deliveries import Delivery, Sink, SinkState

__all__ = ["LIMIT", "PAUSES", "DeliveryQueue", "DeliveryWorker", "stop_all"]

LIMIT = 1 << 30
"""Bytes that wait at most. A day of 1,000 sensors with 24 slots takes 1.4 MB: a sink may be away for two years."""

SPARE = 8 << 20
"""Bytes of the file that may lie free when nothing waits; where it is more, the file is made small again."""

PART = 1 << 28
"""Bytes of a delivery in one row: SQLite takes no more than a billion, and a day of a million sensors has more."""

FORM = 1
"""The version of the tables; a file that has another one is set aside."""

PAUSES = (0.5, 30.0)
"""Seconds between two tries: the first, and the longest, to which it doubles. A broker that restarts is back within a
second or two; one that is away for a day need not be asked more often than twice a minute."""

HANGING = 60.0
"""Seconds at one delivery after which a sink counts as down. Every sink of ours gives up by itself before that, but for
a large delivery to a slow server."""

REFUSALS = 6
"""How often a delivery is refused, within a quarter of a minute at the least, before a later one is tried."""

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
    """How far a sink has come: the place of the next delivery for it, and how many it will never get."""

    next: int
    lost: int


class DeliveryQueue(Closing):
    """Deliveries in order, once for all sinks, and for each sink how far it has come: an SQLite database.

    What every sink has is dropped. Where more than `limit` waits, the oldest goes, and is lost to the sinks that did
    not have it yet: that is said once, and counted. A sink that is named for the first time begins with what comes from
    then on; one that was left out for a while goes on where it was, with what is still in the queue. A file that is
    damaged is set aside, beside a new one.

    Parameters
    ----------
    path
        The file of the database.
    names
        The sinks.
    limit
        Bytes that wait at most.

    Raises
    ------
    StorageError
        Here and in `append`: the disk is full, or the file is gone; the queue is as it was.

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
        self._complained: set[str] = set()
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
        former = path.with_name("outbox")  # of version 0.1
        if any(file.stat().st_size for file in former.glob("*.log")):
            _log.warning("undelivered messages of an older version are in %s, and are not delivered", former)
        for name in names:
            if count := self.give_up(name, self._first):
                _log.warning("%s: %d deliveries from before are not there any more, and lost to it", name, count)

    def _opened(self) -> sqlite3.Connection:
        """Open the file; one that is damaged is renamed first, and a new one made."""
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
        self._first, self._next, self.size = row
        newest = self._database.execute("SELECT number FROM deliveries WHERE place = ?", [self._next - 1]).fetchone()
        self._newest: int = newest[0] if newest else -1
        with self._database as database:
            new = [(name, self._next) for name in names]
            database.executemany("INSERT OR IGNORE INTO sinks VALUES (?, ?, 0)", new)
        known = {name: _Progress(*rest) for name, *rest in self._database.execute("SELECT * FROM sinks")}
        self._progress = {name: known[name] for name in names}

    @property
    def next(self) -> int:
        """The place that the next delivery will have."""
        return self._next

    def append(self, delivery: Delivery, number: int) -> None:
        """Put a delivery in; when this returns it would outlast a power cut.

        Parameters
        ----------
        number
            Which one it is of all that were ever made. One that is in the queue, or was, is passed over.
        """
        if number <= self._newest:
            return
        content = delivery_to_bytes(delivery)
        with self._lock:
            self._check_place()
            size, dropped = self._surplus(self.size + len(content) - self.limit)
            try:
                with self._database as database:
                    parts = [content[start : start + PART] for start in range(0, len(content), PART)]
                    rows = [(self._next, index, number, zlib.crc32(part), part) for index, part in enumerate(parts)]
                    database.executemany("INSERT INTO deliveries VALUES (?, ?, ?, ?, ?)", rows)
                    database.execute("DELETE FROM deliveries WHERE place < ?", [self._first + dropped])
            except sqlite3.Error as error:
                raise _storage_error(self.path, error) from error
            self._next, self._newest = self._next + 1, number
            self.size += len(content) - size
            self._first += dropped
        for name in self._progress:
            if dropped and self.give_up(name, self._first) and name not in self._complained:
                self._complained.add(name)
                _log.warning(
                    "%s: more than %d MB wait for it; the oldest are dropped and lost to it", name, self.limit >> 20
                )
        for listener in self._listeners:
            listener()

    def _surplus(self, excess: int) -> tuple[int, int]:
        """Return the size and the count of the oldest deliveries that have to go."""
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
        place, end = self._progress[name].next, self._next
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
                # One behind others that are refused is passed over when its turn comes.
                if place - 1 == self._progress[name].next:
                    count = self.give_up(name, place)
                    _log.error("%s: %d deliveries that waited for it are lost: %s", name, count, error)
                continue
            yield place - 1, delivery

    def delivered(self, name: str, place: int) -> None:
        """Note that a sink has everything up to this place."""
        with self._lock:
            progress = self._progress[name]
            if place < progress.next:
                # It was dropped, and counted as lost, while it was on its way.
                self._move(name, progress.next, progress.lost - 1)
            else:
                self._move(name, place + 1, progress.lost)
            if progress.next >= self._next:
                self._complained.discard(name)

    def give_up(self, name: str, before: int) -> int:
        """Count what is before this place as lost to a sink, and return how much that is."""
        with self._lock:
            progress = self._progress[name]
            count = max(0, before - progress.next)
            if count:
                self._move(name, progress.next + count, progress.lost + count)
        return count

    def backlog(self, name: str) -> int:
        """Return how many deliveries wait for a sink."""
        return max(0, self._next - self._progress[name].next)

    def lost(self, name: str) -> int:
        """Return how many deliveries a sink will never get."""
        return self._progress[name].lost

    def listen(self, listener: Callable[[], None]) -> None:
        """Have this called after each delivery that is put in."""
        self._listeners.append(listener)

    def close(self) -> None:
        """Let go of the file; what waits stays."""
        with self._lock, suppress(sqlite3.Error):
            self._database.close()

    def _move(self, name: str, to: int, lost: int) -> None:
        """Note how far a sink has come, and drop what every sink has; the newest stays, for its number.

        What cannot be written is noted with the next move: after a crash before that the sink gets a few again.
        """
        progress = self._progress[name]
        progress.next, progress.lost = to, lost
        behind = min(self._next - 1, *(other.next for other in self._progress.values()))
        try:
            with self._database as database:
                database.execute("UPDATE sinks SET next = ?, lost = ? WHERE name = ?", [to, lost, name])
                if behind > self._first:
                    between = "FROM deliveries WHERE place < ?"
                    (size,) = database.execute(f"SELECT SUM(LENGTH(content)) {between}", [behind]).fetchone()
                    database.execute(f"DELETE {between}", [behind])
            if behind > self._first:
                self._first, self.size = behind, self.size - size
                self._shrink()
        except sqlite3.Error as error:
            # Closed, where a sink took very long; or the disk is full.
            _log.debug("%s cannot be written: %s", self.path, error)

    def _shrink(self) -> None:
        """Give back the room of a long backlog when it is gone."""
        if self._first < self._next - 1:
            return
        (free,) = self._database.execute("PRAGMA freelist_count").fetchone()
        (page,) = self._database.execute("PRAGMA page_size").fetchone()
        if free * page > SPARE:
            self._database.execute("VACUUM")
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def _check_place(self) -> None:
        """Refuse to write where nobody would read: a file can be deleted, or moved, while it is open."""
        try:
            if not os.path.samestat(self.path.stat(), self._file):
                raise FileNotFoundError(errno.ENOENT, "it is not the file that was opened", str(self.path))
        except OSError as error:
            raise _storage_error(self.path, error) from error


def _connect(path: Path) -> sqlite3.Connection:
    """Open a database of which every commit outlasts a power cut; a `StateError` where it is not whole, or not ours.

    Exclusive: no other process has a use for it, and there is no memory to be shared in a file beside it, for which a
    full disk would have no room.
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
    """Return what went wrong with the file: a disk that may be written again later, or a file that is damaged."""
    if isinstance(error, sqlite3.Error) and _is_damage(error):
        return StateError(f"{path} is damaged ({error}): start again, and it is set aside")
    return StorageError(f"{path} cannot be written: {error}")


class DeliveryWorker:
    """Takes deliveries from the queue to one sink, in order, each at least once.

    When the sink fails that is said once, and it is tried again after pauses that grow; when it is back and has what
    had waited, that is said too. A delivery that the sink refuses (`RefusedError`) is tried again like any other. It is
    given up only when a later one passes: then it was the delivery, which is counted as lost, and that is said. While
    all are refused it is the sink, and nothing is given up. The service never waits for any of it.

    Parameters
    ----------
    name
        As the queue knows it; without secrets, since it is said.
    sink
        Used in one thread only, which closes it at the end.
    queue
        Where deliveries wait.
    pauses
        The first pause and the longest.
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
        """Begin."""
        self._thread.start()

    def offer(self, provisional: Delivery) -> None:
        """Have this delivered when nothing else waits; it takes the place of one that was not delivered yet."""
        with self._changed:
            self._provisional = (self._queue.next, provisional)
            self._changed.notify()

    def state(self) -> SinkState:
        """Return how it stands; that a sink hangs is said here, once, by who asks."""
        began = self._started
        busy = 0.0 if began is None else time.monotonic() - began
        error = self._error
        if busy > HANGING:
            error = error or f"it has been at one delivery for {busy:.0f} s"
            if self._hung != began:
                self._hung = began
                _log.warning("%s: hangs: it has been at one delivery for %.0f s; others wait on disk", self.name, busy)
        # Nothing that we know of ends it but `stop`: then nobody would be told that nothing is delivered any more.
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

    def stop(self, timeout: float) -> bool:
        """Deliver what waits, for at most so many seconds, and say whether nothing is left.

        A sink that is down is not waited for: what is left is delivered after the next start.
        """
        return stop_all([self], timeout)

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
        """Deliver what there is and wait for more; say whether there is anything left to do."""
        try:
            if self._finished():
                return False
            tried = self._deliver_waiting()
            if (self._down_since is None or not tried) and not self._finished():
                self._deliver_provisional()
        except Exception as error:
            # No failure of the sink's: the disk under the queue, say, which may be back later like any sink. Whatever
            # it is, what waits stays on disk, and a worker that ends would deliver nothing for years.
            _log.debug("%s: failed on the way to it", self.name, exc_info=True)
            self._log_failure(error)
            if self._deadline is not None:
                return False
        self._pause_or_wait()
        return True

    def _pause_or_wait(self) -> None:
        """Wait for something to deliver; after a failure for the pause to be over."""
        with self._changed:
            if self._down_since is not None:
                self._changed.wait_for(lambda: self._deadline is not None, self._pause)
                self._pause = min(2 * self._pause, self._pauses[1])
            else:
                self._changed.wait_for(lambda: self._deadline is not None or self._provisional or self._backlog)

    def _finished(self) -> bool:
        """Say whether to end: when asked to, and nothing is left, or the sink is down, or the time is up."""
        deadline = self._deadline
        if deadline is None:
            return False
        return self._down_since is not None or time.monotonic() > deadline or not self._backlog

    def _deliver_waiting(self) -> bool:
        """Deliver until nothing waits or one fails; say whether anything was tried."""
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
            # The first is tried each time; one more of those after it each time that it is refused again.
            self._refusals += refused == 0
            refused += 1
            if refused > self._refusals - REFUSALS + 1:
                break
        return tried

    def _deliver_provisional(self) -> None:
        with self._changed:
            waiting = self._provisional
        if waiting is None or self._backlog:
            return
        before, delivery = waiting
        # What became final since is not to be followed by what was thought of it before.
        wanted = delivery.kind in self._sink.kinds and self._final < before
        if wanted and self._write(delivery) is not None:
            return
        self._log_return()
        with self._changed:
            if self._provisional is waiting:
                self._provisional = None

    def _write(self, delivery: Delivery) -> Exception | None:
        """Try it, and return what went wrong."""
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
        self._error = " ".join(str(failure).split()) or type(failure).__name__
        if self._down_since is not None:
            _log.debug("%s: still cannot deliver: %s", self.name, self._error)
            return
        self._down_since = time.monotonic()
        self._return = None
        self._pause = self._pauses[0]
        wait = "deliveries wait on disk (each further try is logged at level debug)"
        _log.warning("%s: cannot deliver: %s; %s", self.name, self._error, wait)

    def _log_return(self) -> None:
        """Say that the sink is back, when it has what waited."""
        returned = self._return
        if returned is not None and self._queue.next - self._backlog >= returned.until:
            count = self._delivered - returned.before
            _log.info("%s: back after %.0f s, and has the %d deliveries that waited", self.name, returned.away, count)
            self._return = None


def stop_all(workers: Sequence[DeliveryWorker], timeout: float) -> bool:
    """Stop workers together, as `DeliveryWorker.stop` stops one: it takes no longer for many than for one."""
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
    """A sink is back: after how long, what waited for it then, and how many it had taken before."""

    away: float
    until: int
    before: int
