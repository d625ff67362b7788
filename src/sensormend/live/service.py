"""`watch`: from a source through the journal and the stream to OUT and the sinks, for years."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, TypeVar

from sensormend.errors import ConfigError, SensormendError
from sensormend.files import locked
from sensormend.io.metadata import iso
from sensormend.live.arrivals import Arrived, Source, clock
from sensormend.live.courier import Courier
from sensormend.live.deliveries import Alert, Delivery, Kind
from sensormend.live.events import Event, Late, Refused, Told
from sensormend.live.journal import End, Happening, Journal, Noted, Tick, follow
from sensormend.live.logs import Once, say
from sensormend.live.memory import Memory
from sensormend.live.metrics import NoMetrics
from sensormend.live.outbox import Outbox
from sensormend.live.output import Output
from sensormend.live.settings import Settings
from sensormend.maintenance import Maintenance
from sensormend.mending import NEVER
from sensormend.readings import SECOND, Rows

__all__ = ["Service", "Status"]

_Result = TypeVar("_Result")

_log = logging.getLogger("sensormend.live")

WAIT = 0.25
"""Seconds for which the source is asked at once: how soon a signal, or the end of a slot, is seen."""

CHECKPOINT, JOURNAL = 20.0, 64 << 20
"""Seconds between two checkpoints, and bytes of journal from which one is made at once: what a restart goes through
again at most."""

DESCRIBE, LOOK = 5.0, 5.0
"""Seconds between two writings of faults.csv and the like, and between two looks at maintenance.csv."""

SHARE = 1.0
"""Provisional results take at most half of the time: after each the stream goes on for as long."""

DRAIN = 10.0
"""Seconds in which sinks may take what waits for them when the service ends; the rest waits on disk."""

RETRY = 1.0
"""Seconds between two tries to write to a disk that is full."""


@dataclass(frozen=True)
class Status:
    """How it goes, for whoever looks on."""

    sensors: int
    readings: int
    rejected: int
    late: int
    periods: int
    reached: int | None
    faulty: int
    silent: int


class _Stopped(Exception):  # noqa: N818
    """Somebody wants it to end while it cannot go on."""


class Service:
    """Watch a source.

    Parameters
    ----------
    settings
        What the user says.
    source
        Opens the source, given where to go on and a name of its own.
    couriers
        Opens what takes results to sinks, given the outbox; by their names.
    metrics
        Told how it goes.
    seen
        Told of every event after it was written, and of nothing (None) now and then.

    Attributes
    ----------
    stream
        What is going on.
    """

    def __init__(
        self,
        settings: Settings,
        source: Callable[[Any, Memory], Source],
        *,
        couriers: dict[str, Callable[[Outbox], Courier]] | None = None,
        metrics: NoMetrics | None = None,
        seen: Callable[[Event | None], None] = lambda event: None,
    ) -> None:
        self.settings, self.out = settings, settings.out
        self._open_source, self._open_couriers, self._seen = source, couriers or {}, seen
        self.metrics = metrics or NoMetrics()
        self._memory = Memory(self.out)
        self._stopping = threading.Event()
        self._counts = dict.fromkeys(("events", "periods", "late", "rejected"), 0)
        self._mark: Any = None
        self._anchor = (NEVER, time.monotonic())
        self._saved = self._described = time.monotonic()
        self._looked = float("-inf")
        self._noted: tuple[int, int] | None = None
        self._news = self._closed = False
        self._shown, self._free_at = NEVER, 0.0
        self._full = Once(_log, "the disk cannot be written", "the disk can be written again")
        self._illegible = Once(
            _log, "the notes on maintenance cannot be read; what they said before holds", "they can be read again"
        )

    def stop(self) -> None:
        """End soon; nothing is closed, and nothing is lost."""
        self._stopping.set()

    def status(self) -> Status:
        """Return how it goes."""
        counts, reached = self.stream.alerts.counts, self.stream.watermark.time
        return Status(
            sensors=len(self.stream.sensors),
            readings=self.stream.readings,
            rejected=self._counts["rejected"],
            late=self._counts["late"],
            periods=self._counts["periods"],
            reached=None if reached == NEVER else reached,
            faulty=counts["faulty"],
            silent=counts["silent"],
        )

    def _reached(self) -> str | None:
        reached = self.stream.watermark.time
        return None if reached == NEVER else iso(reached)

    def run(self) -> None:
        """Watch until the source ends, or somebody wants it to."""
        self._memory.claim()
        refusal = f"another sensormend is watching into {self.out}: stop it first"
        with locked(self._memory.folder / "lock", refusal), ExitStack() as stack:
            self._memory.begin()
            try:
                self._watch(stack)
            except _Stopped:
                say(_log, logging.WARNING, "stopped while the disk was full; the journal has all that was acknowledged")

    def _watch(self, stack: ExitStack) -> None:
        settings, state = self.settings, self._memory.folder
        self.stream, told = self._memory.recall(settings)
        self._mark = told.get("mark")
        self._counts |= told.get("counts", {})
        tables = told.get("tables")
        self._output = Output(
            self.out, late_for=settings.late_for, keep=settings.keep, compact=settings.compact, told=tables
        )
        stack.callback(self._output.close)
        self._journal = Journal(state / "journal")
        stack.callback(self._journal.close)
        self._outbox = Outbox(state / "outbox", list(self._open_couriers), settings.backlog)
        stack.callback(self._outbox.close)
        self._couriers = [opened(self._outbox) for opened in self._open_couriers.values()]
        for courier in self._couriers:
            courier.start()
            stack.callback(courier.stop, DRAIN)
        self._catch_up(told.get("journal", 0))
        source = stack.enter_context(self._open_source(self._mark, self._memory))
        self._loop(source)
        self._describe()
        self._checkpoint()
        told = asdict(self.status()) | {"reached": self._reached()}
        say(_log, logging.INFO, "stopped" if self._stopping.is_set() else "the source has ended", **told)

    def _catch_up(self, start: int) -> None:
        """Go through what the journal has and no checkpoint knows."""
        count = 0
        for number, happening in self._journal.read(start):
            self._go_through(number, happening)
            count += 1
        if count:
            say(_log, logging.INFO, "went through the journal again", records=count)
        heard = self.stream.pace.heard
        since = 0.0 if heard is None else (clock() - heard) / SECOND
        self._anchor = (self.stream.watermark.time, time.monotonic() - max(since, 0.0))

    def _loop(self, source: Source) -> None:
        while not self._stopping.is_set():
            self._take_notes()
            arrived = self._insist(partial(source.read, WAIT))
            self.metrics.connected(source.connected)
            if arrived is None:
                self._happen(End())
                return
            if not arrived.empty:
                self._happen(arrived)
            elif self._silent(source):
                self._happen(Tick(self._time(source)))
            self._show(self._time(source), live=source.live)
            if self._news and time.monotonic() - self._described > DESCRIBE:
                self._describe()
            if self._due():
                self._checkpoint()
            self._tell()

    def _happen(self, happening: Happening) -> None:
        """Write it down, have it acknowledged, and do what follows."""
        number = self._insist(lambda: self._journal.write(happening))
        if isinstance(happening, Arrived):
            happening.acknowledge()
        self._go_through(number, happening)

    def _go_through(self, number: int, happening: Happening) -> None:
        reached = self.stream.watermark.time
        received = happening.received if isinstance(happening, Arrived) else 0
        began = time.monotonic()
        for event in follow(self.stream, happening):
            self._counts["events"] += 1
            seconds = time.monotonic() - began
            self._insist(partial(self._put, event, number, received, seconds))
            self._seen(event)
            began = time.monotonic()
        if isinstance(happening, Arrived):
            self._mark = self._mark if happening.mark is None else happening.mark
            self.metrics.came(len(happening.readings), self.stream.watermark.newest)
            if self.stream.watermark.time > reached:
                self._anchor = (self.stream.watermark.time, time.monotonic())

    def _put(self, event: Event, number: int, received: int, seconds: float) -> None:
        """Write down what follows from a record; it may be done again."""
        if isinstance(event, Refused):
            self._output.refuse(event.rejected, received)
            self._counts["rejected"] += len(event.rejected)
            for reason, count in Counter(one.reason for one in event.rejected).items():
                self.metrics.rejected(reason, count)
            return
        self._news = True
        if isinstance(event, Told):
            self._deliver("alert", event.alerts[0].at, event.alerts[0].at, alerts=event.alerts)
            for alert in event.alerts:
                say(_log, logging.INFO if alert.state == "well" else logging.WARNING, alert.sentence)
            return
        grid = self.stream.grid
        assert grid is not None
        if isinstance(event, Late):
            start = grid.start_of(event.period)
            rows = self._output.late(event, self.stream, number)
            if len(rows):
                self._deliver("late", start, start + grid.period, rows)
                self._counts["late"] += len(event.readings)
                self.metrics.late(len(event.readings))
            else:
                self.metrics.repeated(len(event.readings))
            return
        start, rows = grid.start_of(event.mended.period), event.mended.rows
        self._output.final(event, start, number)
        if len(rows):
            self._deliver("final", start, start + grid.period, rows)
        self._counts["periods"] += 1
        self._closed = True
        self.metrics.period(seconds)
        say(_log, logging.DEBUG, "period final", start=iso(start), rows=len(rows), seconds=round(seconds, 3))

    def _deliver(
        self, kind: Kind, start: int, end: int, rows: Rows | None = None, *, alerts: Sequence[Alert] = ()
    ) -> None:
        if self._couriers:
            health = self.stream.health() if kind == "final" else ()
            self._outbox.append(Delivery(kind, start, end, rows, health, alerts), self._counts["events"])

    def _insist(self, act: Callable[[], _Result]) -> _Result:
        """Do it when the disk lets us; nothing goes on before that."""
        while True:
            try:
                done = act()
            except (OSError, SensormendError) as error:
                # Those of our own kinds that say more are no matter of the disk.
                if isinstance(error, SensormendError) and type(error) is not SensormendError:
                    raise
                said = " ".join(str(error).split())
                self._full.begin(error=said)
                self.metrics.disk(said)
                self.metrics.beat()
                if self._stopping.wait(RETRY):
                    raise _Stopped from error
            else:
                self._full.end()
                self.metrics.disk(None)
                return done

    def _time(self, source: Source) -> int:
        """Return what time it is in the network: that of its readings, and from there on that of the clock."""
        time_of, at = self._anchor
        if time_of == NEVER or not (source.live and source.connected):
            return self.stream.watermark.time
        return max(self.stream.watermark.time, time_of + round((time.monotonic() - at) * SECOND))

    def _silent(self, source: Source) -> bool:
        """Say whether time has to go on by the clock: nobody has said a word for longer than is usual."""
        now, reached = self._time(source), self.stream.watermark.time
        silent = self.stream.grid is not None and now - self._anchor[0] > self.stream.patience
        return silent and self.stream.ended(now) > self.stream.ended(reached)

    def _show(self, now: int, *, live: bool) -> None:
        """Show provisional values when a slot has ended."""
        ended = self.stream.ended
        if now == NEVER or ended(now) <= ended(self._shown) or time.monotonic() < self._free_at:
            return
        began = time.monotonic()
        since, self._shown = self._shown, now
        rows = self.stream.peek(now)
        self._insist(lambda: self._output.provisional(rows, now))
        if rows is not None and self._couriers:
            new = rows.taken(ended(rows.time) >= ended(since))
            delivery = Delivery("provisional", int(rows.time.min()), now, new, self.stream.health())
            for courier in self._couriers:
                courier.offer(delivery)
        seconds = time.monotonic() - began
        self._free_at = time.monotonic() + max(SHARE * seconds, 0.0 if live else 1.0)
        self.metrics.estimated(seconds)

    def _due(self) -> bool:
        return (self._closed and time.monotonic() - self._saved > CHECKPOINT) or self._journal.size > JOURNAL

    def _checkpoint(self) -> None:
        self._insist(self._save)
        self._insist(lambda: self._output.tidy(self.stream))
        self._saved, self._closed = time.monotonic(), False

    def _save(self) -> None:
        self._output.sync()
        self._outbox.sync()
        told = {"journal": self._journal.next, "mark": self._mark, "counts": self._counts}
        self._memory.keep(self.stream, {**told, "tables": self._output.state()})
        self._journal.drop(self._journal.next)
        self._output.settle()

    def _describe(self) -> None:
        about = {**self.settings.told(), **{name: self._counts[name] for name in ("periods", "late", "rejected")}}
        self._insist(lambda: self._output.describe(self.stream, about))
        self._described, self._news = time.monotonic(), False

    def _take_notes(self) -> None:
        """Look whether people have written something new into maintenance.csv."""
        path, now = self.settings.options.maintenance, time.monotonic()
        if path is None or now - self._looked < LOOK:
            return
        first, self._looked = self._looked == float("-inf"), now
        try:
            found = path.stat()
            if (found.st_mtime_ns, found.st_size) == self._noted:
                return
            self._noted = (found.st_mtime_ns, found.st_size)
            maintenance = Maintenance.read(path)
        except (OSError, ConfigError) as error:
            if first:
                raise ConfigError(f"{path} cannot be read: {error}") from None
            self._illegible.begin(error=str(error))
            return
        self._illegible.end()
        if maintenance != self.stream.maintenance:
            self._happen(Noted(maintenance))

    def _tell(self) -> None:
        """Tell whoever looks on how it goes."""
        metrics, counts = self.metrics, self.stream.alerts.counts
        if self.stream.watermark.time != NEVER:
            metrics.watermark(self.stream.watermark.time)
        metrics.sensors(len(self.stream.sensors), counts["faulty"], counts["silent"])
        metrics.journal(self._journal.size)
        metrics.outbox(self._outbox.size)
        for courier in self._couriers:
            standing = courier.state()
            metrics.sink(standing.name, up=standing.up, backlog=standing.backlog, lost=standing.lost)
        metrics.beat()
        self._seen(None)
