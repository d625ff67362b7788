"""`watch`: from a source through the journal and the stream to OUT and the sinks, for years."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from sensormend.errors import SensormendError
from sensormend.files import locked
from sensormend.io.metadata import iso
from sensormend.pipeline.mender import NEVER
from sensormend.readings import Rows
from sensormend.stream.addresses import plain
from sensormend.stream.admitting import RARE, UNKNOWN
from sensormend.stream.arrivals import Arrived, Source
from sensormend.stream.clockwork import Clockwork
from sensormend.stream.courier import Courier, stop_all
from sensormend.stream.deliveries import Alert, Delivery, Kind
from sensormend.stream.events import Event, Failed, Late, Refused, Told
from sensormend.stream.formats.refused import TOO_MANY_NAMES
from sensormend.stream.insisting import Insisting, StoppedError
from sensormend.stream.journal import End, Happening, Journal, Noted, Tick, follow
from sensormend.stream.logs import Once, say
from sensormend.stream.memory import Memory
from sensormend.stream.metrics import NoMetrics
from sensormend.stream.notes import Notes
from sensormend.stream.outbox import Outbox
from sensormend.stream.output import Output
from sensormend.stream.settings import Settings
from sensormend.stream.status import Status

__all__ = ["Service"]

_log = logging.getLogger("sensormend.stream")

WAIT = 0.25
"""Seconds for which the source is asked at once: how soon a signal, or the end of a slot, is seen."""

CHECKPOINT, JOURNAL = 20.0, 64 << 20
"""Seconds between two checkpoints, and bytes of journal from which one is made at once: what a restart goes through
again at most."""

DESCRIBE, OFTEN = 5.0, 10.0
"""Seconds between two writings of faults.csv and the like; at least so many times as long as one takes."""

GATHER = 1.0
"""Seconds for which late readings are gathered: a day of 1,000 sensors takes a tenth of one, for any number of them."""

SHARE = 1.0
"""Provisional results take at most half of the time: after each the stream goes on for as long."""

DRAIN = 10.0
"""Seconds in which sinks may take what waits for them when the service ends; the rest waits on disk."""

HINTS = {
    UNKNOWN: {"hint": "variables names all that will come, before the first start, or the one that --from has"},
    RARE: {"hint": "variables names all that will come, before the first start"},
    TOO_MANY_NAMES: {"hint": "the pattern may take something else for the sensor; coordinates names those that are"},
}
"""What is said beside a reason for which something can be done."""

COMPLAINTS = 100
"""Different things that are said once; there are fewer, unless somebody makes them up."""


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
        self._counts = dict.fromkeys(("periods", "late", "rejected"), 0)
        # Where to go on holds for the source that said so, and for no other one.
        self._whose, self._mark = plain(settings.source), None
        self._clockwork, self._notes = Clockwork(), Notes(settings.options.maintenance)
        self._saved = time.monotonic()
        self._describe_at = 0.0
        self._late_since: float | None = None
        self._news = self._closed = False
        self._shown, self._free_at = NEVER, 0.0
        self._insist = Insisting(self._stopping, self.metrics, self._memory.folder)
        self._untidy = Once(_log, "files of old dates cannot be put in order", "they are in order again")
        self._complaints: set[str] = set()

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
            gone=counts["gone"],
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
            except StoppedError as why:
                say(_log, logging.WARNING, f"stopped {why}; the journal has all that was acknowledged")

    def _watch(self, stack: ExitStack) -> None:
        settings, state = self.settings, self._memory.folder
        self.stream, told = self._memory.recall(settings)
        self._mark = self._ours(told.get("mark"))
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
        stack.callback(stop_all, self._couriers, DRAIN)
        for courier in self._couriers:
            courier.start()
        self._catch_up(told.get("journal", 0))
        source = stack.enter_context(self._open_source(self._mark, self._memory))
        say(_log, logging.INFO, "watching", source=self._whose, out=self.out, sinks=len(self._couriers))
        self._describe()
        self._loop(source)
        self._settle_late()
        self._describe()
        self._checkpoint()
        told = asdict(self.status()) | {"reached": self._reached()}
        say(_log, logging.INFO, "stopped" if self._stopping.is_set() else "the source has ended", **told)
        stop_all(self._couriers, DRAIN)
        for standing in (courier.state() for courier in self._couriers):
            if standing.backlog:
                say(_log, logging.WARNING, f"{standing.name}: {standing.backlog} wait for it until the next start")

    def _catch_up(self, start: int) -> None:
        """Go through what the journal has and no checkpoint knows."""
        count = 0
        for number, happening in self._journal.read(start):
            if self._stopping.is_set():
                raise StoppedError("while it went through the journal again")
            self._go_through(number, happening)
            self.metrics.beat()
            count += 1
        if count:
            say(_log, logging.INFO, "went through the journal again", records=count)

    def _loop(self, source: Source) -> None:
        while not self._stopping.is_set():
            self._take_notes()
            arrived = self._insist(partial(source.read, WAIT))
            self._clockwork.look(source, self.stream.watermark.readings)
            self.metrics.connected(source.connected)
            if arrived is None:
                self._happen(End())
                return
            if not arrived.empty:
                self._happen(arrived)
            elif self._silent(source):
                self._happen(Tick(self._time(source)))
            if self._late_since is not None and time.monotonic() - self._late_since > GATHER:
                self._settle_late()
            self._show(self._time(source), live=source.live)
            if self._news and time.monotonic() > self._describe_at:
                self._describe()
            if self._due():
                self._checkpoint()
            self._tell()

    def _happen(self, happening: Happening) -> None:
        """Write it down, have it acknowledged, and do what follows."""
        if isinstance(happening, Arrived) and happening.mark is not None:
            happening = replace(happening, mark=[self._whose, happening.mark])
        number = self._insist(lambda: self._journal.write(happening))
        if isinstance(happening, Arrived):
            happening.acknowledge()
        self._go_through(number, happening)

    def _ours(self, mark: Any) -> Any:
        """Return where to go on, if it was our source that said so."""
        return mark[1] if mark and mark[0] == self._whose else None

    def _go_through(self, number: int, happening: Happening) -> None:
        reached = self.stream.watermark.readings
        received = happening.received if isinstance(happening, Arrived) else 0
        began = time.monotonic()
        for index, event in enumerate(follow(self.stream, happening)):
            # Where other settings make something else of the journal after a crash, no later record's numbers move.
            place = number << 20 | index
            seconds = time.monotonic() - began
            self._insist(partial(self._put, event, number, place, received, seconds))
            self._seen(event)
            self.metrics.beat()
            began = time.monotonic()
        if isinstance(happening, Arrived):
            self._mark = self._mark if happening.mark is None else self._ours(happening.mark)
            self.metrics.came(len(happening.readings), self.stream.watermark.newest)
            if self.stream.watermark.readings > reached:
                self._clockwork.moved(self.stream.watermark.readings)

    def _put(self, event: Event, number: int, place: int, received: int, seconds: float) -> None:
        """Write down what follows from a record; it may be done again."""
        if isinstance(event, Refused):
            self._output.refuse(event.rejected, received)
            self._counts["rejected"] += len(event.rejected)
            for reason, count in Counter(one.reason for one in event.rejected).items():
                self.metrics.rejected(reason, count)
                first = next(one for one in event.rejected if one.reason == reason)
                self._complain(f"refused: {reason}", where=first.where, what=first.text, **HINTS.get(reason, {}))
            return
        if isinstance(event, Failed):
            self._complain(event.error, **event.about)
            return
        if isinstance(event, Late):
            self._output.hold(event, number, place)
            self._late_since = self._late_since or time.monotonic()
            return
        # Deliveries keep the order of their numbers.
        self._correct()
        self._news = True
        if isinstance(event, Told):
            self._deliver(place, "alert", event.alerts[0].at, event.alerts[0].at, alerts=event.alerts)
            for alert in event.alerts:
                say(_log, logging.INFO if alert.state == "well" else logging.WARNING, alert.sentence)
            return
        assert self.stream.grid is not None
        start, rows = self.stream.grid.start_of(event.mended.period), event.mended.rows
        self._output.final(event, start, number)
        if len(rows):
            self._deliver(place, "final", start, start + self.stream.grid.period, rows)
        self._counts["periods"] += 1
        self._closed = True
        self.metrics.period(seconds)
        say(_log, logging.DEBUG, "period final", start=iso(start), rows=len(rows), seconds=round(seconds, 3))

    def _settle_late(self) -> None:
        self._insist(self._correct)

    def _correct(self) -> None:
        """Correct the rows of late readings that were held back."""
        if self._late_since is None:
            return
        grid = self.stream.grid
        assert grid is not None
        for place, period, rows, count, again in self._output.late(self.stream):
            if len(rows):
                start = grid.start_of(period)
                self._deliver(place, "late", start, start + grid.period, rows)
            self._counts["late"] += count
            self._news = True
            self.metrics.late(count)
            self.metrics.repeated(again)
        self._late_since = None

    def _complain(self, text: str, **fields: object) -> None:
        """Say something once; it is counted, and would be said for every reading."""
        if text not in self._complaints and len(self._complaints) < COMPLAINTS:
            self._complaints.add(text)
            say(_log, logging.WARNING, text, **fields)

    def _deliver(
        self, place: int, kind: Kind, start: int, end: int, rows: Rows | None = None, alerts: Sequence[Alert] = ()
    ) -> None:
        if self._couriers:
            health = self.stream.health() if kind == "final" else ()
            self._outbox.append(Delivery(kind, start, end, rows, health, alerts), place)

    def _time(self, source: Source) -> int:
        return self._clockwork.now(source, self.stream.watermark.time)

    def _silent(self, source: Source) -> bool:
        """Say whether time has to go on by the clock: nobody has said a word for longer than is usual."""
        if self.stream.grid is None or self._clockwork.waited <= self.stream.patience:
            return False
        return self.stream.ended(self._time(source)) > self.stream.ended(self.stream.watermark.time)

    def _show(self, now: int, *, live: bool) -> None:
        """Show provisional values when a slot has ended."""
        ended = self.stream.ended
        if now == NEVER or ended(now) <= ended(self._shown) or time.monotonic() < self._free_at:
            return
        began = time.monotonic()
        since, self._shown = self._shown, now
        try:
            rows = self.stream.peek(now)
        except (ArithmeticError, ValueError) as error:
            # What the model cannot take now is said again when the period is over; until then there is nothing to show.
            self._complain(f"no provisional values: {error}")
            rows = None
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
        self._settle_late()
        self._insist(self._save)
        self._saved, self._closed = time.monotonic(), False
        try:
            self._output.tidy(self.stream)
        except (OSError, SensormendError) as error:
            # What is old can wait.
            self._untidy.begin(error=error)
        else:
            self._untidy.end()

    def _save(self) -> None:
        self._output.sync()
        self._outbox.sync()
        mark = None if self._mark is None else [self._whose, self._mark]
        told = {"journal": self._journal.next, "mark": mark, "counts": self._counts}
        self._output.turn()
        self._memory.keep(self.stream, {**told, "tables": self._output.state()})
        self._journal.drop(self._journal.next)

    def _describe(self) -> None:
        about = {**self.settings.told(), **self._counts}
        began = time.monotonic()
        self._insist(lambda: self._output.describe(self.stream, about))
        self._describe_at = time.monotonic() + max(DESCRIBE, OFTEN * (time.monotonic() - began))
        self._news = False

    def _take_notes(self) -> None:
        news = self._notes.news()
        if news is not None and news != self.stream.maintenance:
            self._happen(Noted(news))

    def _tell(self) -> None:
        """Tell whoever looks on how it goes."""
        metrics, counts = self.metrics, self.stream.alerts.counts
        if self.stream.watermark.time != NEVER:
            metrics.watermark(self.stream.watermark.time)
        metrics.sensors(len(self.stream.sensors), counts["faulty"], counts["silent"], counts["gone"])
        metrics.strangers(self.stream.strangers.count)
        metrics.journal(self._journal.size)
        metrics.outbox(self._outbox.size)
        for courier in self._couriers:
            standing = courier.state()
            metrics.sink(standing.name, up=standing.up, backlog=standing.backlog, lost=standing.lost)
        metrics.beat()
        self._seen(None)
