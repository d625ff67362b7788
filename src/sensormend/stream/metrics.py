"""`Metrics` holds the metrics of the service; `MetricsServer` serves them to Prometheus, and the health as JSON."""

from __future__ import annotations

import json
import platform
import shutil
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from sensormend.errors import ConfigError, SensormendError
from sensormend.pipeline.channel_states import ChannelState
from sensormend.pipeline.health import Health
from sensormend.readings import SECOND
from sensormend.stream.deliveries import SinkState
from sensormend.stream.http_server import HttpServer, RequestHandler
from sensormend.stream.sinks.messages import valid_text

__all__ = ["MOST_CHANNELS", "Metrics", "MetricsServer"]

MAX_SILENCE = 60.0
"""Seconds without a heartbeat of the service's loop after which the health fails. The loop runs several times a second;
its longest step, a period of some thousand sensors, takes a few seconds."""

MOST_REASONS = 40
"""The maximum number of reasons for a refusal that are counted separately; there are fewer. The limit bounds the
memory, here and in Prometheus, should a reason ever contain text of a message."""

MOST_CHANNELS = 200
"""The maximum number of channels that have gauges of their own, three each: Prometheus keeps every series that it ever
saw."""

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class _Histogram:
    """The number of durations in each bucket."""

    def __init__(self) -> None:
        self.counts, self.total = [0] * (len(BUCKETS) + 1), 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.total += seconds

    def buckets(self) -> list[tuple[str, int]]:
        return list(zip([*map(str, BUCKETS), "+Inf"], accumulate(self.counts), strict=True))


class Metrics:
    """Plain numbers that the service sets as it runs, and any thread may read; `folder` is for the free disk space.

    Attributes
    ----------
    readings, rejected, late, repeated, periods
        Counts since the start: readings, refusals by reason, late readings, repetitions among them, final periods.
    update, estimate
        The durations of final periods and provisional values.
    newest, watermark
        The time of the newest reading, and event time; microseconds since 1970, UTC.
    sensors
        How many are `known`, how many have each state of `ChannelState`, and how many are `unknown_sensors`, which have
        reported in too few periods.
    channels
        The health of `MOST_CHANNELS` channels, those with the worst states.
    sinks
        The state of each sink, by name.
    damaged, readings_gone
        How much was missing or damaged in OUT when the service was started, ever, and the readings that went with it.
    connected, disk_error
        Whether the source is connected, and why nothing can be written; None when it can.

    Examples
    --------
    >>> metrics = Metrics()
    >>> metrics.sinks["broker"] = SinkState("broker", False, 3, 0)
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
        self._folder, self._clock, self._steady = folder, clock, steady
        self.readings = self.late = self.repeated = self.periods = 0
        self.rejected = Counter[str]()
        self.update, self.estimate = _Histogram(), _Histogram()
        self.newest: int | None = None
        self.watermark: int | None = None
        self.sensors = dict.fromkeys(("known", *ChannelState, "unknown_sensors"), 0)
        self.channels: Sequence[Health] = ()
        self.journal_bytes = self.backlog_bytes = 0
        self.damaged = self.readings_gone = 0
        self.sinks: dict[str, SinkState] = {}
        self.connected = True
        self.disk_error: str | None = None
        self._beat = steady()

    def reject(self, reason: str, count: int) -> None:
        """Count refusals."""
        separate = reason in self.rejected or len(self.rejected) < MOST_REASONS
        self.rejected[reason if separate else "other"] += count

    def beat(self) -> None:
        """Record a heartbeat of the service's loop."""
        self._beat = self._steady()

    def health(self) -> tuple[bool, dict[str, Any]]:
        """Return whether the service works, and a report with the reasons why it does not."""
        silence, failing = self._steady() - self._beat, []
        if silence > MAX_SILENCE:
            failing.append(f"the service has had no heartbeat for {silence:.0f} s")
        if not self.connected:
            failing.append("the source is not connected")
        if self.disk_error is not None:
            failing.append(self.disk_error)
        down = [
            f"sink {sink.name} is down, {sink.backlog} {'delivery waits' if sink.backlog == 1 else 'deliveries wait'}"
            for sink in list(self.sinks.values())
            if not sink.up
        ]
        status = "failing" if failing else "degraded" if down else "ok"
        return not failing, {"status": status, "reasons": failing + down}

    def registry(self) -> Any:
        """Return the registry of prometheus-client with all metrics and those of the process."""
        try:
            import prometheus_client as client
        except ImportError:
            raise SensormendError("metrics need prometheus-client: pip install 'sensormend[live]'") from None
        registry = client.CollectorRegistry()
        registry.register(self)
        client.ProcessCollector(registry=registry)
        return registry

    def collect(self) -> Iterator[Any]:
        """Yield all metrics; prometheus-client calls this at each scrape."""
        from prometheus_client import core

        from sensormend import __version__

        def family(kind: Any, name: str, text: str, **more: Any) -> Any:
            return kind(f"sensormend_{name}", text, **more)

        for name, text, count in (
            ("readings", "Readings that came", self.readings),
            ("late", "Readings that came after their period was final", self.late),
            ("repeated", "Readings of final periods that had come before", self.repeated),
            ("periods", "Periods that became final", self.periods),
        ):
            yield family(core.CounterMetricFamily, name, text, value=count)
        rejected = family(core.CounterMetricFamily, "rejected", "What came and was refused", labels=["reason"])
        for reason, count in list(self.rejected.items()):
            rejected.add_metric([reason], count)
        yield rejected
        for name, text, histogram in (
            ("update_seconds", "To make a period final", self.update),
            ("estimate_seconds", "To make provisional values", self.estimate),
        ):
            buckets = histogram.buckets()
            yield family(core.HistogramMetricFamily, name, text, buckets=buckets, sum_value=histogram.total)
        gauges: list[tuple[str, str, float]] = [
            ("lag_seconds", "Since the newest reading was taken",
             float("nan") if self.newest is None else self._clock() - self.newest / SECOND),
            ("watermark_seconds", "The time by the readings, since 1970", (self.watermark or 0) / SECOND),
            ("sensors", "Sensors that have reported", self.sensors["known"]),
            *((f"{state}_sensors", f"Sensors whose state is {state}", self.sensors[state]) for state in ChannelState),
            ("unknown_sensors", "Sensors with readings in fewer than three periods", self.sensors["unknown_sensors"]),
            ("journal_bytes", "The journal's size", self.journal_bytes),
            ("backlog_bytes", "The size of what waits for sinks", self.backlog_bytes),
            ("damaged", "What was missing or damaged in OUT at the starts", self.damaged),
            ("readings_gone", "Acknowledged readings that went with it", self.readings_gone),
            ("connected", "Whether the source is connected", self.connected),
        ]  # fmt: skip
        if self._folder is not None:
            gauges.append(("disk_free_bytes", "Free space on the disk of OUT", _free(self._folder)))
        for name, text, value in gauges:
            yield family(core.GaugeMetricFamily, name, text, value=value)
        for name, text, attribute in (
            ("sink_up", "Whether a sink takes deliveries", "up"),
            ("backlog", "Deliveries that wait for a sink", "backlog"),
            ("lost", "Deliveries that a sink will never get", "lost"),
        ):
            gauge = family(core.GaugeMetricFamily, name, text, labels=["sink"])
            for sink in list(self.sinks.values()):
                gauge.add_metric([sink.name], getattr(sink, attribute))
            yield gauge
        now, channels = (
            self._clock(),
            {(valid_text(one.sensor), valid_text(one.variable)): one for one in self.channels},
        )
        state, since, age = (
            family(core.GaugeMetricFamily, f"channel_{name}", text, labels=["sensor", "variable", *more])
            for name, text, more in (
                ("state", "1 for the state that a channel has", ["state"]),
                ("state_seconds", "For how long a channel has had its state", []),
                ("age_seconds", "Since the newest reading of a channel was taken", []),
            )
        )
        for names, one in channels.items():
            state.add_metric([*names, one.state], 1)
            since.add_metric(names, now - one.since / SECOND)
            age.add_metric(names, float("nan") if one.heard is None else now - one.heard / SECOND)
        yield from (state, since, age)
        build = {"version": __version__, "python": platform.python_version()}
        yield family(core.InfoMetricFamily, "build", "Versions of sensormend and Python", value=build)


def _free(folder: Path) -> float:
    try:
        return float(shutil.disk_usage(folder).free)
    except OSError:
        return float("nan")


class MetricsServer(HttpServer):
    """Serves `/metrics` for Prometheus and `/healthz` for monitoring.

    `/healthz` answers 200 while the service works, and 503 while its loop has no heartbeat, the source is not
    connected, or the disk is full. A sink that is down is listed, but does not cause a 503: its backlog is on disk.
    Port 0 takes a free one.
    """

    def __init__(self, metrics: Metrics, host: str = "127.0.0.1", port: int = 9464) -> None:
        registry = metrics.registry()
        try:
            super().__init__(host, port, _MetricsHandler, "metrics", metrics=metrics, registry=registry)
        except OSError as error:
            raise ConfigError(f"metrics cannot be shown at {host}:{port}: {error}; choose another place") from None


class _MetricsHandler(RequestHandler):
    metrics: Metrics
    registry: Any

    def do_GET(self) -> None:  # noqa: N802
        path = self.path.partition("?")[0]
        if path == "/metrics":
            from prometheus_client.exposition import choose_encoder

            encoder, kind = choose_encoder(self.headers.get("Accept", ""))
            self._answer(200, kind, encoder(self.registry))
        elif path == "/healthz":
            well, report = self.metrics.health()
            self._answer(200 if well else 503, "application/json", json.dumps(report).encode() + b"\n")
        else:
            self._answer(404, "text/plain; charset=utf-8", b"there is /metrics and /healthz\n")

    do_HEAD = do_GET  # noqa: N815

    def _refuse(self) -> None:
        self.close_connection = True
        self._answer(405, "text/plain; charset=utf-8", b"GET or HEAD\n", {"Allow": "GET, HEAD"})

    do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = _refuse  # noqa: N815

    def _answer(self, status: int, kind: str, body: bytes, more: Mapping[str, str] | None = None) -> None:
        self.answer(status, {"Content-Type": kind, "Cache-Control": "no-store", **(more or {})}, body)
