"""`Service` runs `watch`: it takes readings from a source through the store and the stream to OUT and the sinks."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from sensormend.errors import ConfigError, SensormendError
from sensormend.files import locked
from sensormend.pipeline.cleaner import NEVER
from sensormend.pipeline.maintenance import Maintenance
from sensormend.pipeline.published import method_sentence
from sensormend.pipeline.times import iso
from sensormend.pipeline.units import likely_unit
from sensormend.readings import Readings, Rows
from sensormend.stream.addresses import plain
from sensormend.stream.admission import NOT_KNOWN, RARE, UNKNOWN
from sensormend.stream.arrivals import (
    Arrived,
    Damage,
    DamageNoticed,
    End,
    Input,
    MaintenanceChanged,
    Source,
    Tick,
    clock,
)
from sensormend.stream.codec import input_from_bytes, input_to_bytes
from sensormend.stream.deliveries import DAMAGE, Alert, Delivery, Kind, identified
from sensormend.stream.delivery_worker import DeliveryWorker, stop_all
from sensormend.stream.event_time import EventClock
from sensormend.stream.feed_summary import FeedSummary
from sensormend.stream.formats.values import NOT_DECODED, TOO_MANY_NAMES
from sensormend.stream.integrity import inspect
from sensormend.stream.logs import ConditionLog, say
from sensormend.stream.metrics import MOST_CHANNELS, Metrics, MetricsServer
from sensormend.stream.output import Output
from sensormend.stream.retrying import DiskRetry, StoppedError
from sensormend.stream.service_state import STORE, ServiceState
from sensormend.stream.settings import Settings
from sensormend.stream.sinks import open_workers
from sensormend.stream.sinks.messages import SEVERITIES
from sensormend.stream.sources import check_source, open_source
from sensormend.stream.store import Store
from sensormend.stream.stream import AlertsRaised, Event, LateReadings, PeriodFinal, Problem, ReadingsRejected

__all__ = ["Service", "Status", "open_service"]

_log = logging.getLogger("sensormend.stream")

SOURCE_WAIT = 0.25
"""The longest wait for the source in seconds, which delays the handling of a signal or of the end of a slot."""

CHECKPOINT_INTERVAL, MOST_INPUTS = 20.0, 64 << 20
"""Seconds between two checkpoints, and bytes of inputs that trigger one at once: they limit what a restart replays."""

TABLES_INTERVAL, TABLES_FACTOR = 5.0, 10.0
"""Seconds between two writes of faults.csv and the other tables, and at least the duration of a write times this; also
between two updates of the metrics."""

LATE_DELAY = 1.0
"""Seconds for which late readings are collected: a day of 1,000 sensors takes 0.1 s, for any number of readings."""

PROVISIONAL_FACTOR = 1.0
"""Pause after provisional results, as a multiple of their duration: they take at most half of the time."""

VERIFIED_BYTES = 256 << 20
"""Bytes of the newest rows whose checksums are compared at the start, in about a second; `sensormend check` compares
all."""

DRAIN_TIME = 10.0
"""Seconds for sinks to take what waits when the service ends; the rest waits on disk."""

MAINTENANCE_INTERVAL = 5.0
"""Seconds between two checks of the notes on maintenance."""

HINTS = {
    UNKNOWN: {"hint": "variables names all that will come, before the first start, or the one that --from has"},
    NOT_KNOWN: {"hint": "known names those that are admitted"},
    RARE: {"hint": "variables names all that will come, before the first start"},
    NOT_DECODED: {"hint": "give the devices a payload formatter, which decodes what they send, in the network server"},
    TOO_MANY_NAMES: {"hint": "the pattern may take something else for the sensor; coordinates names those that are"},
}
"""Hints on how to avoid a refusal, by reason."""

SUMMARY_AFTER, SUMMARY_READINGS = 10.0, 10_000
"""Seconds after the first reading, or number of readings, after which the interpretation of the feed is logged."""

MOST_WARNINGS = 100
"""The maximum number of different warnings that are logged once; the limit bounds the memory if texts come from
messages."""


@dataclass(frozen=True)
class Status:
    """Counts of a service so far; `reached` is its event time, None before the first reading."""

    sensors: int
    readings: int
    rejected: int
    late: int
    periods: int
    reached: int | None
    faulty: int
    silent: int
    ended: int


class Service:
    """Watch a source.

    Parameters
    ----------
    source
        Opens the source, given its mark and the state of the service.
    workers
        Functions that open the workers for sinks, given the store, by name.
    units
        Where the units of variables are put as they become known, for the sinks.
    on_event
        Called with every event after it was written, and with None after each pass of the loop.
    """

    def __init__(
        self,
        settings: Settings,
        source: Callable[[Any, ServiceState], Source],
        *,
        workers: dict[str, Callable[[Store], DeliveryWorker]] | None = None,
        metrics: Metrics | None = None,
        units: dict[str, str] | None = None,
        on_event: Callable[[Event | None], None] = lambda event: None,
    ) -> None:
        self.settings, self.out = settings, settings.out
        self._open_source, self._open_workers, self._on_event = source, workers or {}, on_event
        self.metrics, self.units = metrics or Metrics(), {} if units is None else units
        self._state = ServiceState(self.out)
        self._stopping = threading.Event()
        self._counts = dict.fromkeys(("periods", "late", "rejected"), 0)
        # A mark is valid only for the source that gave it.
        self._source_name, self._mark = plain(settings.source), None
        self._clock, self._maintenance = EventClock(), _MaintenanceFile(settings.options.maintenance)
        self._saved = time.monotonic()
        self._describe_at = self._measure_at = 0.0
        self._late_since: float | None = None
        self._changed = self._period_closed = False
        self._shown_until, self._show_at = NEVER, 0.0
        self._retry = DiskRetry(self._stopping, self.metrics, self._state.folder)
        self._tidying = ConditionLog(_log, "files of old dates cannot be put in order", "they are in order again")
        self._warned: set[str] = set()
        # The first readings, until it is logged what they are taken for; None from then on.
        self._first: list[Readings] | None = []
        self._first_at, self._first_count = 0.0, 0

    def stop(self) -> None:
        """End `run` soon; open periods stay open, and nothing is lost."""
        self._stopping.set()

    def status(self) -> Status:
        """Return the counts so far."""
        reached, states = self.stream.watermark.time, self.stream.counts
        return Status(
            sensors=len(self.stream.sensors),
            readings=self.stream.readings,
            reached=None if reached == NEVER else reached,
            **self._counts,
            **{state: states[state] for state in ("faulty", "silent", "ended")},
        )

    def run(self) -> None:
        """Watch until the source ends, or `stop` is called."""
        self._state.claim()
        refusal = f"another sensormend is watching into {self.out}: stop it first"
        with locked(self._state.folder / "lock", refusal), ExitStack() as stack:
            self._state.new_stream(self.settings)
            try:
                self._watch(stack)
            except StoppedError as why:
                say(_log, logging.WARNING, f"stopped {why}; all that was acknowledged is stored")

    def _watch(self, stack: ExitStack) -> None:
        settings, path = self.settings, self._state.folder / STORE
        self._store = stack.enter_context(self._retry(partial(Store, path, list(self._open_workers), settings.backlog)))
        inspection = inspect(self.out, self._store, VERIFIED_BYTES)
        self._state.begin(again="state/watch.json" in inspection.unsound)
        self._name = self._state.name
        self.stream, saved = self._state.load(settings, self._store)
        self._mark = self._mark_of_source(saved.get("mark"))
        self._counts |= saved.get("counts", {})
        self._lost, self._damage = saved.get("lost", 0), saved.get("damage", [])
        self._newest = saved.get("newest")
        self.units |= saved.get("units", {})
        self._output = Output(
            self.out,
            late_for=settings.late_for,
            keep=settings.keep,
            compact=settings.compact,
            lengths=saved.get("tables") or (None if inspection.damage else {}),
            manifest=inspection.manifest,
            unsound=inspection.unsound,
            rewritten=self._store.rewritten,
            rewriting=self._store.note_rewritten,
        )
        stack.callback(self._output.close)
        self._workers = [open_worker(self._store) for open_worker in self._open_workers.values()]
        stack.callback(stop_all, self._workers, DRAIN_TIME)
        for worker in self._workers:
            worker.start()
        repeated = self._replay(saved.get("next_input", 0))
        self._lost = max(self._lost, self._store.acknowledged.record.get("readings", 0) - self.stream.readings)
        self._report([damage for damage in inspection.damage if damage not in repeated])
        source = stack.enter_context(self._open_source(self._mark, self._state))
        if sentence := method_sentence(settings.options):
            say(_log, logging.INFO, sentence)
        say(_log, logging.INFO, "watching", source=self._source_name, out=self.out, sinks=len(self._workers))
        self._describe()
        self._loop(source)
        self._update_metrics()
        self._retry(self._correct_late)
        self._describe()
        self._checkpoint()
        status = self.status()
        fields = asdict(status) | {"reached": None if status.reached is None else iso(status.reached)}
        say(_log, logging.INFO, "stopped" if self._stopping.is_set() else "the source has ended", **fields)
        stop_all(self._workers, DRAIN_TIME)
        for state in (worker.state() for worker in self._workers):
            if state.backlog:
                say(_log, logging.WARNING, f"{state.name}: {state.backlog} wait for it until the next start")

    def _replay(self, start: int) -> list[Damage]:
        """Apply the inputs since the checkpoint; return the damage that they report."""
        count, damage = 0, list[Damage]()
        for number, before, content in self._store.inputs(start):
            if self._stopping.is_set():
                raise StoppedError("while it replayed the journal")
            # More readings came before it than there are.
            self._lost = max(self._lost, before - self.stream.readings)
            item = input_from_bytes(content)
            self._apply(number, item)
            self.metrics.beat()
            count += 1
            if isinstance(item, DamageNoticed):
                damage += item.damage
        if count:
            say(_log, logging.INFO, "replayed the journal", records=count)
        return damage

    def _report(self, damage: Sequence[Damage]) -> None:
        """Report what was missing or damaged: in the log, by an alert, a metric and run.json."""
        for one in damage:
            say(_log, logging.ERROR, one.sentence)
        if damage:
            self._take(DamageNoticed(tuple(damage), clock()))
            self._checkpoint()

    def _loop(self, source: Source) -> None:
        while not self._stopping.is_set():
            maintenance = self._maintenance.changed()
            if maintenance is not None and maintenance != self.stream.maintenance:
                self._take(MaintenanceChanged(maintenance))
            arrived = self._retry(partial(source.read, SOURCE_WAIT))
            self._clock.check(source, self.stream.watermark.readings)
            self.metrics.connected = self._clock.connected
            self._summarise(source, arrived)
            if arrived is None:
                self._take(End())
                return
            if not arrived.empty:
                self._learn_units(source)
                self._take(arrived)
            elif self._silent():
                self._take(Tick(self._now()))
            if self._late_since is not None and time.monotonic() - self._late_since > LATE_DELAY:
                self._retry(self._correct_late)
            self._show_provisional(self._now(), live=source.live)
            if self._changed and time.monotonic() > self._describe_at:
                self._describe()
            due = self._period_closed and time.monotonic() - self._saved > CHECKPOINT_INTERVAL
            if due or self._store.inbox_size > MOST_INPUTS:
                self._checkpoint()
            self.metrics.beat()
            if time.monotonic() >= self._measure_at:
                self._update_metrics()
            self._on_event(None)

    def _learn_units(self, source: Source) -> None:
        """Take over the units of messages, and those that follow from the first readings; the first one counts."""
        usual = self.stream.survey.usual if self.stream.cleaner is not None else {}
        likely = {variable: likely_unit(variable, known) for variable, known in usual.items()}
        for variable, unit in (*source.units.items(), *likely.items()):
            if unit:
                self.units.setdefault(variable, unit)

    def _summarise(self, source: Source, arrived: Arrived | None) -> None:
        """Log once what the feed is taken for, after its first readings."""
        if self._first is None:
            return
        if arrived is not None and len(arrived.readings):
            self._first_at = self._first_at if self._first else time.monotonic()
            self._first.append(arrived.readings)
            self._first_count += len(arrived.readings)
        enough = self._first_count >= SUMMARY_READINGS
        if not self._first or not (enough or arrived is None or time.monotonic() - self._first_at > SUMMARY_AFTER):
            return
        parts, self._first = self._first, None
        summary = FeedSummary.of(Readings.concatenate(parts), self.settings.options, live=True, units=source.units)
        for what, choice, hint in summary.lines():
            say(_log, logging.INFO, f"{what}: {choice}", **({"hint": hint} if hint else {}))

    def _take(self, item: Input) -> None:
        """Store an input, acknowledge it, and apply it."""
        if isinstance(item, Arrived) and item.mark is not None:
            item = replace(item, mark=[self._source_name, item.mark])
        number, before, count = self._store.next_input, self.stream.readings + self._lost, 0
        if isinstance(item, Arrived):
            self._newest, count = item.newest(self._newest), item.readings.time.size
        known = {"name": self._name, "readings": before + count, "newest": self._newest}
        self._retry(partial(self._store.put, number, input_to_bytes(item), before=before, **known))
        if isinstance(item, Arrived):
            item.acknowledge()
        self._apply(number, item)

    def _mark_of_source(self, mark: Any) -> Any:
        """Return the mark if it is of this source, else None."""
        return mark[1] if mark and mark[0] == self._source_name else None

    def _apply(self, number: int, item: Input) -> None:
        """Pass an input to the stream, and handle the events that follow."""
        watermark = self.stream.watermark
        reached = watermark.readings
        received = item.received if isinstance(item, Arrived) else 0
        started = time.monotonic()
        for index, event in enumerate(self._events(item)):
            # If other settings give other events in a replay after a crash, the numbers of later records do not move.
            place = number << 20 | index
            seconds = time.monotonic() - started
            self._retry(partial(self._handle, event, number, place, received, seconds))
            self._on_event(event)
            self.metrics.beat()
            started = time.monotonic()
        if isinstance(item, Arrived):
            self._mark = self._mark if item.mark is None else self._mark_of_source(item.mark)
            self.metrics.readings += item.readings.time.size
            self.metrics.newest = watermark.newest
            if watermark.readings > reached:
                self._clock.moved(watermark.readings)

    def _events(self, item: Input) -> Iterator[Event]:
        if isinstance(item, Arrived):
            return self.stream.take(item)
        if isinstance(item, Tick):
            return self.stream.tick(item.time)
        if isinstance(item, End):
            return self.stream.end()
        if isinstance(item, DamageNoticed):
            return iter([AlertsRaised([self._damage_alert(item)])])
        self.stream.set_maintenance(item.maintenance)
        return iter(())

    def _damage_alert(self, item: DamageNoticed) -> Alert:
        """Record damage, and return its alert."""
        self._damage += [{"noticed": iso(item.at), **damage.fields()} for damage in item.damage]
        first, *others = (damage.sentence for damage in item.damage)
        sentence = f"something in the output folder is missing or damaged: {first}"
        return identified(Alert("", "", "healthy", DAMAGE, "", item.at, item.at, sentence, lines=tuple(others)))

    def _handle(self, event: Event, number: int, place: int, received: int, seconds: float) -> None:
        """Write and deliver an event of a record; it may be repeated."""
        if isinstance(event, ReadingsRejected):
            self._reject(event, received)
            return
        if isinstance(event, Problem):
            self._warn_once(event.error, **event.details)
            return
        if isinstance(event, LateReadings):
            self._output.collect(event, number, place)
            self._late_since = self._late_since or time.monotonic()
            return
        # Deliveries keep the order of their numbers.
        self._correct_late()
        self._changed = True
        if isinstance(event, AlertsRaised):
            self._deliver(place, "alert", event.alerts[0].at, event.alerts[0].at, alerts=event.alerts)
            for alert in (alert for alert in event.alerts if alert.state != DAMAGE):
                say(_log, logging.INFO if SEVERITIES[alert.state] == "info" else logging.WARNING, alert.sentence)
            return
        self._finish(event, number, place, seconds)

    def _reject(self, event: ReadingsRejected, received: int) -> None:
        self._output.reject(event.rejected, received)
        self._counts["rejected"] += len(event.rejected)
        for reason, count in Counter(rejected.reason for rejected in event.rejected).items():
            self.metrics.reject(reason, count)
            first = next(rejected for rejected in event.rejected if rejected.reason == reason)
            self._warn_once(f"refused: {reason}", where=first.where, what=first.text, **HINTS.get(reason, {}))

    def _finish(self, event: PeriodFinal, number: int, place: int, seconds: float) -> None:
        assert self.stream.grid is not None
        start, rows = self.stream.grid.period_start(event.cleaned_period.period), event.cleaned_period.rows
        self._output.finish(event, start, number)
        if len(rows):
            self._deliver(place, "final", start, start + self.stream.grid.period, rows)
        self._counts["periods"] += 1
        self._period_closed = True
        self.metrics.periods += 1
        self.metrics.update.observe(seconds)
        say(_log, logging.DEBUG, "period final", start=iso(start), rows=len(rows), seconds=round(seconds, 3))

    def _correct_late(self) -> None:
        """Correct the rows of the late readings collected so far."""
        if self._late_since is None:
            return
        grid = self.stream.grid
        assert grid is not None
        for correction in self._output.correct_late(self.stream):
            if len(correction.rows):
                start = grid.period_start(correction.period)
                self._deliver(correction.place, "late", start, start + grid.period, correction.rows)
            self._counts["late"] += correction.new
            self._changed = True
            self.metrics.late += correction.new
            self.metrics.repeated += correction.repeated
        self._late_since = None

    def _warn_once(self, text: str, **fields: object) -> None:
        """Log a warning once that could recur with every reading."""
        if text not in self._warned and len(self._warned) < MOST_WARNINGS:
            self._warned.add(text)
            say(_log, logging.WARNING, text, **fields)

    def _deliver(
        self, place: int, kind: Kind, start: int, end: int, rows: Rows | None = None, alerts: Sequence[Alert] = ()
    ) -> None:
        if self._workers:
            health = self.stream.health() if kind == "final" else ()
            self._store.append(Delivery(kind, start, end, rows, health, alerts), place)

    def _now(self) -> int:
        return self._clock.now(self.stream.watermark.time)

    def _silent(self) -> bool:
        """Return whether the clock has to advance event time: no reading has come for longer than usual."""
        if self.stream.grid is None or self._clock.waited <= self.stream.longest_wait:
            return False
        return self.stream.slots_until(self._now()) > self.stream.slots_until(self.stream.watermark.time)

    def _show_provisional(self, now: int, *, live: bool) -> None:
        """Write and deliver provisional values when a slot has ended."""
        slots_until = self.stream.slots_until
        if now == NEVER or slots_until(now) <= slots_until(self._shown_until) or time.monotonic() < self._show_at:
            return
        started = time.monotonic()
        since, self._shown_until = self._shown_until, now
        try:
            rows = self.stream.peek(now)
        except (ArithmeticError, ValueError) as error:
            # If the model cannot take these readings, the end of the period logs it again; until then nothing is shown.
            self._warn_once(f"no provisional values: {error}")
            rows = None
        self._retry(partial(self._output.provisional, rows, now))
        if rows is not None and self._workers:
            new = rows.taken(slots_until(rows.time) >= slots_until(since))
            delivery = Delivery("provisional", int(rows.time.min()), now, new, self.stream.health())
            for worker in self._workers:
                worker.offer(delivery)
        seconds = time.monotonic() - started
        self._show_at = time.monotonic() + max(PROVISIONAL_FACTOR * seconds, 0.0 if live else 1.0)
        self.metrics.estimate.observe(seconds)

    def _checkpoint(self) -> None:
        self._retry(self._correct_late)
        self._retry(self._save)
        self._saved, self._period_closed = time.monotonic(), False
        try:
            self._output.tidy(self.stream)
        except (OSError, SensormendError) as error:
            # Old dates can wait for the next checkpoint.
            self._tidying.begin(error=error)
        else:
            self._tidying.end()

    def _save(self) -> None:
        stream, total = self.stream, self.stream.readings + self._lost
        self._output.sync(stream)
        final = None if stream.grid is None or stream.closed is None else stream.grid.period_start(stream.closed + 1)
        checkpoint = {"number": self._store.next_input, "readings": total, "open": len(stream.buffer), "final": final,
                      "newest": self._newest}  # fmt: skip
        service = {
            "mark": None if self._mark is None else [self._source_name, self._mark],
            "counts": self._counts,
            "tables": self._output.state(),
            "total": total,
            "lost": self._lost,
            "newest": self._newest,
            "units": self.units,
            "damage": self._damage,
            "manifest": self._output.manifest.to_dict(),
        }
        self._state.save(stream, service, self._store, name=self._name, readings=total, checkpoint=checkpoint)

    def _describe(self) -> None:
        started, damage = time.monotonic(), {"damage": self._damage} if self._damage else {}
        settings = {**self.settings.to_dict(), **self._counts, **damage}
        self._retry(partial(self._output.describe, self.stream, settings, self.units))
        self._describe_at = time.monotonic() + max(TABLES_INTERVAL, TABLES_FACTOR * (time.monotonic() - started))
        self._changed = False

    def _update_metrics(self) -> None:
        metrics, stream, started = self.metrics, self.stream, time.monotonic()
        if stream.watermark.time != NEVER:
            metrics.watermark = stream.watermark.time
        metrics.sensors = {"known": len(stream.sensors), "unknown_sensors": stream.admission.unknown, **stream.counts}
        metrics.channels = stream.health(MOST_CHANNELS)
        metrics.damaged = len(self._damage)
        metrics.readings_gone = sum(damage["readings"] for damage in self._damage)
        metrics.journal_bytes, metrics.backlog_bytes = self._store.inbox_size, self._store.size
        metrics.sinks = {state.name: state for state in (worker.state() for worker in self._workers)}
        self._measure_at = time.monotonic() + max(SOURCE_WAIT, TABLES_FACTOR * (time.monotonic() - started))


class _MaintenanceFile:
    """maintenance.csv, read again when it changes; only at the start is it an error that it cannot be read."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self._read_at = 0.0
        self._unreadable = ConditionLog(
            _log, "the notes on maintenance cannot be read; the earlier ones hold", "they can be read again"
        )
        self._unread: Maintenance | None = Maintenance() if path is None else self._read(path)

    def changed(self) -> Maintenance | None:
        """Return the notes if they may have changed since the last call, else None."""
        maintenance, self._unread = self._unread, None
        if maintenance is None and self._path is not None and time.monotonic() >= self._read_at:
            try:
                maintenance = self._read(self._path)
            except ConfigError as error:
                self._unreadable.begin(error=error)
            else:
                self._unreadable.end()
        return maintenance

    def _read(self, path: Path) -> Maintenance | None:
        self._read_at = time.monotonic() + MAINTENANCE_INTERVAL
        try:
            status = path.stat()
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
        stamp = (status.st_mtime_ns, status.st_size)
        if stamp == self._stamp:
            return None
        maintenance = Maintenance.read(path)
        self._stamp = stamp
        return maintenance


@contextmanager
def open_service(
    settings: Settings, dashboard: Callable[[Settings], AbstractContextManager[None]] | None = None
) -> Iterator[Service]:
    """Yield a service that is ready to run, with the source, the sinks and the metrics of its settings.

    `dashboard` opens the dashboard of the settings, after all settings have been checked.
    """
    check_source(settings.source)
    ServiceState(settings.out).check()
    units: dict[str, str] = {}
    workers = open_workers(settings, units)
    with ExitStack() as stack:
        metrics = Metrics(settings.out)
        metrics.connected = False  # until the source is open
        _serve_metrics(metrics, settings, stack)
        if dashboard is not None:
            stack.enter_context(dashboard(settings))
        yield Service(settings, partial(_open_source, settings), workers=workers, metrics=metrics, units=units)


def _open_source(settings: Settings, mark: Any, state: ServiceState) -> Source:
    # The broker identifies the session by this name, also from another machine; two OUTs never share one.
    mqtt = replace(settings.mqtt, client_id=settings.mqtt.client_id or state.name)
    source = open_source(
        settings.source,
        settings.options,
        work=state.folder,
        mark=mark,
        mqtt=mqtt,
        former=state.topics,
        speed=settings.speed,
        without=settings.out,
        form=settings.format,
    )
    state.topics = list(dict.fromkeys([*state.topics, *mqtt.topics]))
    return source


def _serve_metrics(metrics: Metrics, settings: Settings, stack: ExitStack) -> None:
    """Serve metrics if the settings ask for it; at the default port a failure is only logged."""
    if settings.metrics is None:
        return
    try:
        server = stack.enter_context(MetricsServer(metrics, *settings.metrics))
    except SensormendError as error:
        if settings.metrics != Settings.metrics:
            raise
        say(_log, logging.WARNING, f"no metrics are served: {error}")
        return
    say(_log, logging.INFO, f"metrics at http://{settings.metrics[0]}:{server.port}/metrics")
