"""How the service is, for machines: figures for Prometheus, and whether it is well."""

from __future__ import annotations

import platform
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sensormend.errors import SensormendError
from sensormend.readings import SECOND

if TYPE_CHECKING:
    from sensormend.stream.page import Page

__all__ = ["Metrics", "NoMetrics"]

QUIET = 60.0
"""Seconds without a word from the service's loop after which it is not well. It comes round several times a second; the
longest single thing it does, a period of some thousand sensors, takes a few seconds."""

REASONS = 40
"""How many reasons for a refusal are told apart; there are fewer. Were one ever made of what came, no stranger could
fill the memory, here or in Prometheus, with them."""

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class NoMetrics:
    """What the service tells while it runs, told to nobody: for where figures are not wanted."""

    def came(self, readings: int, newest: int | None = None) -> None:
        """Count readings that came; `newest` is when the newest of all was taken, microseconds since 1970, UTC."""

    def rejected(self, reason: str, count: int = 1) -> None:
        """Count what came and is no reading."""

    def late(self, count: int) -> None:
        """Count readings of periods that are final."""

    def repeated(self, count: int) -> None:
        """Count readings that had come before."""

    def period(self, seconds: float) -> None:
        """Count a period that became final, and the seconds that it took."""

    def estimated(self, seconds: float) -> None:
        """Count provisional values, and the seconds that they took."""

    def watermark(self, moment: int) -> None:
        """Tell the time by the readings; microseconds since 1970, UTC."""

    def sensors(self, known: int, faulty: int, silent: int, gone: int = 0) -> None:
        """Tell how many sensors there are, and how they are."""

    def strangers(self, count: int) -> None:
        """Tell how many sensors have reported on too few periods to be known."""

    def journal(self, size: int) -> None:
        """Tell how large the journal is."""

    def outbox(self, size: int) -> None:
        """Tell how large it is what waits for sinks."""

    def sink(self, name: str, *, up: bool, backlog: int, lost: int) -> None:
        """Tell whether a sink is up, how many deliveries wait for it, and how many it will never get."""

    def connected(self, yes: bool) -> None:
        """Tell whether the source is in touch with whoever sends."""

    def disk(self, error: str | None) -> None:
        """Tell why nothing can be written; None when it can."""

    def beat(self) -> None:
        """Tell that the service's loop has come round."""


class Metrics(NoMetrics):
    """What the service tells while it runs, as Prometheus reads it. Any thread may tell and ask.

    Parameters
    ----------
    folder
        The OUT, whose disk is watched.
    clock
        Seconds since 1970.
    steady
        Seconds since some time, whatever people do to the clock.

    Examples
    --------
    >>> metrics = Metrics()
    >>> metrics.came(250)
    >>> metrics.sink("broker", up=False, backlog=3, lost=0)
    >>> [line for line in metrics.text().splitlines() if line.startswith("sensormend_backlog{")]
    ['sensormend_backlog{sink="broker"} 3.0']
    >>> metrics.health()
    (True, {'status': 'degraded', 'reasons': ['sink broker is down, 3 deliveries wait']})
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        try:
            import prometheus_client as client
        except ImportError:
            raise SensormendError("metrics need prometheus-client: pip install 'sensormend[live]'") from None
        from sensormend import __version__

        self.registry = client.CollectorRegistry()
        self._steady = steady
        self._heard, self._connected = steady(), True
        self._full: str | None = None
        self._sinks: dict[str, tuple[bool, int]] = {}
        self._reasons: set[str] = set()
        self._newest: int | None = None

        def make(kind: Any, name: str, told: str, labels: tuple[str, ...] = (), **more: Any) -> Any:
            return kind(f"sensormend_{name}", told, labels, registry=self.registry, **more)

        counter, gauge, histogram = client.Counter, client.Gauge, client.Histogram
        self._readings = make(counter, "readings", "Readings that came")
        self._rejected = make(counter, "rejected", "What came and was refused", ("reason",))
        self._late = make(counter, "late", "Readings that came after their period was final")
        self._repeated = make(counter, "repeated", "Readings of final periods that had come before")
        self._update = make(histogram, "update_seconds", "To make a period final", buckets=BUCKETS)
        self._periods = make(counter, "periods", "Periods that became final")
        self._estimate = make(histogram, "estimate_seconds", "To make provisional values", buckets=BUCKETS)
        lag = make(gauge, "lag_seconds", "Since the newest reading was taken")
        lag.set_function(lambda: clock() - self._newest / SECOND if self._newest is not None else float("nan"))
        self._watermark = make(gauge, "watermark_seconds", "The time by the readings, since 1970")
        self._sensors = {
            "known": make(gauge, "sensors", "Sensors that are there"),
            "faulty": make(gauge, "faulty_sensors", "Sensors that are faulty"),
            "silent": make(gauge, "silent_sensors", "Sensors that are silent"),
            "gone": make(gauge, "gone_sensors", "Sensors that are gone, and were not removed"),
        }
        self._strangers = make(gauge, "strangers", "Sensors that have reported on fewer than three periods")
        self._journal = make(gauge, "journal_bytes", "The journal's size")
        self._outbox = make(gauge, "backlog_bytes", "The size of what waits for sinks")
        self._up = make(gauge, "sink_up", "Whether a sink takes what it is given", ("sink",))
        self._backlog = make(gauge, "backlog", "Deliveries that wait for a sink", ("sink",))
        self._lost = make(gauge, "lost", "Deliveries that a sink will never get", ("sink",))
        self._touch = make(gauge, "connected", "Whether the source is in touch with whoever sends")
        self._touch.set(1)
        if folder is not None:
            free = make(gauge, "disk_free_bytes", "What is free on the disk of OUT")
            free.set_function(lambda: _free(folder))
        told = make(client.Info, "build", "What runs")
        told.info({"version": __version__, "python": platform.python_version()})
        client.ProcessCollector(registry=self.registry)

    def came(self, readings: int, newest: int | None = None) -> None:
        """Count readings that came; `newest` is when the newest of all was taken, microseconds since 1970, UTC."""
        self._readings.inc(readings)
        self._newest = self._newest if newest is None else newest

    def rejected(self, reason: str, count: int = 1) -> None:
        """Count what came and is no reading."""
        if reason not in self._reasons:
            reason = reason if len(self._reasons) < REASONS else "other"
            self._reasons.add(reason)
        self._rejected.labels(reason).inc(count)

    def late(self, count: int) -> None:
        """Count readings of periods that are final."""
        self._late.inc(count)

    def repeated(self, count: int) -> None:
        """Count readings that had come before."""
        self._repeated.inc(count)

    def period(self, seconds: float) -> None:
        """Count a period that became final, and the seconds that it took."""
        self._periods.inc()
        self._update.observe(seconds)

    def estimated(self, seconds: float) -> None:
        """Count provisional values, and the seconds that they took."""
        self._estimate.observe(seconds)

    def watermark(self, moment: int) -> None:
        """Tell the time by the readings; microseconds since 1970, UTC."""
        self._watermark.set(moment / SECOND)

    def sensors(self, known: int, faulty: int, silent: int, gone: int = 0) -> None:
        """Tell how many sensors there are, and how they are."""
        for name, count in (("known", known), ("faulty", faulty), ("silent", silent), ("gone", gone)):
            self._sensors[name].set(count)

    def strangers(self, count: int) -> None:
        """Tell how many sensors have reported on too few periods to be known."""
        self._strangers.set(count)

    def journal(self, size: int) -> None:
        """Tell how large the journal is."""
        self._journal.set(size)

    def outbox(self, size: int) -> None:
        """Tell how large it is what waits for sinks."""
        self._outbox.set(size)

    def sink(self, name: str, *, up: bool, backlog: int, lost: int) -> None:
        """Tell whether a sink is up, how many deliveries wait for it, and how many it will never get."""
        self._sinks[name] = (up, backlog)
        self._up.labels(name).set(up)
        self._backlog.labels(name).set(backlog)
        self._lost.labels(name).set(lost)

    def connected(self, yes: bool) -> None:
        """Tell whether the source is in touch with whoever sends."""
        self._connected = yes
        self._touch.set(yes)

    def disk(self, error: str | None) -> None:
        """Tell why nothing can be written; None when it can."""
        self._full = error

    def beat(self) -> None:
        """Tell that the service's loop has come round."""
        self._heard = self._steady()

    def text(self) -> str:
        """Return all figures as Prometheus reads them."""
        from prometheus_client import generate_latest

        return generate_latest(self.registry).decode()

    def health(self) -> tuple[bool, dict[str, Any]]:
        """Return whether the service does its work, and what it is to be said of that."""
        quiet, failing = self._steady() - self._heard, []
        if quiet > QUIET:
            failing.append(f"the service has not been heard for {quiet:.0f} s")
        if not self._connected:
            failing.append("the source is not connected")
        if self._full is not None:
            failing.append(self._full)
        down = [
            f"sink {name} is down, {backlog} {'delivery waits' if backlog == 1 else 'deliveries wait'}"
            for name, (up, backlog) in list(self._sinks.items())
            if not up
        ]
        status = "failing" if failing else "degraded" if down else "ok"
        return not failing, {"status": status, "reasons": failing + down}

    def serve(self, host: str = "127.0.0.1", port: int = 9464) -> Page:
        """Show the figures at `/metrics` and the health at `/healthz` until the page is closed."""
        from sensormend.stream.page import Page

        return Page(self, host, port)


def _free(folder: Path) -> float:
    try:
        return float(shutil.disk_usage(folder).free)
    except OSError:
        return float("nan")
