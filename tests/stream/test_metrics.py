import http.client
import json
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from sensormend.errors import ConfigError, SensormendError
from sensormend.pipeline.health import Health
from sensormend.readings import SECOND
from sensormend.stream.deliveries import SinkState
from sensormend.stream.metrics import MAX_SILENCE, MOST_REASONS, Metrics, MetricsServer


class Clock:
    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def steady() -> Clock:
    return Clock(1000.0)


@pytest.fixture
def metrics(tmp_path: Path, steady: Clock) -> Metrics:
    return Metrics(tmp_path, clock=Clock(1_700_000_000.0), steady=steady)


@pytest.fixture
def page(metrics: Metrics) -> Iterator[MetricsServer]:
    with MetricsServer(metrics, port=0) as page:
        yield page


def ask(page: MetricsServer, path: str, method: str = "GET") -> tuple[int, dict[str, str], bytes]:
    line = http.client.HTTPConnection("127.0.0.1", page.port, timeout=5)
    try:
        line.request(method, path)
        answer = line.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        line.close()


def values_of(metrics: Metrics) -> dict[str, float]:
    lines = (line.rsplit(" ", 1) for line in _exposed(metrics).splitlines() if not line.startswith("#"))
    return {name: float(value) for name, value in lines}


def sink(name: str, *, up: bool, backlog: int, lost: int = 0) -> SinkState:
    return SinkState(name, up, backlog, lost)


def test_what_is_counted_is_shown(metrics: Metrics) -> None:
    metrics.readings, metrics.newest = 15, 1_699_999_990 * SECOND
    metrics.reject("not JSON", 3)
    metrics.reject("not JSON", 1)
    metrics.late, metrics.repeated, metrics.periods = 2, 4, 1
    metrics.update.observe(0.3)
    metrics.estimate.observe(0.002)
    metrics.watermark = 1_699_999_000 * SECOND
    metrics.sensors |= {"known": 50, "faulty": 3, "silent": 2, "healthy": 45}
    metrics.journal_bytes, metrics.backlog_bytes = 4096, 77
    metrics.damaged, metrics.readings_gone = 2, 192
    metrics.sinks["postgres"] = sink("postgres", up=False, backlog=7, lost=1)
    metrics.connected = False
    reported = values_of(metrics)
    wanted = {
        "readings_total": 15, "lag_seconds": 10, 'rejected_total{reason="not JSON"}': 4, "late_total": 2,
        "repeated_total": 4, "periods_total": 1, "update_seconds_sum": 0.3, 'update_seconds_bucket{le="0.25"}': 0,
        'update_seconds_bucket{le="0.5"}': 1, "estimate_seconds_count": 1, "watermark_seconds": 1_699_999_000,
        "sensors": 50, "faulty_sensors": 3, "silent_sensors": 2, "journal_bytes": 4096, "backlog_bytes": 77,
        "damaged": 2, "readings_gone": 192,
        'sink_up{sink="postgres"}': 0, 'backlog{sink="postgres"}': 7, 'lost{sink="postgres"}': 1, "connected": 0,
    }  # fmt: skip
    assert {name: reported[f"sensormend_{name}"] for name in wanted} == wanted
    assert reported["sensormend_disk_free_bytes"] > 0
    assert reported["process_resident_memory_bytes"] > 1e6
    assert any(name.startswith("sensormend_build_info{") and 'version="' in name for name in reported)


def test_without_a_reading_the_lag_is_not_a_number(metrics: Metrics) -> None:
    assert values_of(metrics)["sensormend_lag_seconds"] != values_of(metrics)["sensormend_lag_seconds"]


def test_two_services_in_one_process_have_their_own_metrics() -> None:
    one, other = Metrics(), Metrics()
    one.readings += 1
    assert values_of(other)["sensormend_readings_total"] == 0


def test_reasons_of_any_number_are_bounded(metrics: Metrics) -> None:
    for number in range(1000):
        metrics.reject(f"made of what came: {number}", 1)
    metrics.reject("made of what came: 0", 1)
    prefix = "sensormend_rejected_total"
    reported = {name: value for name, value in values_of(metrics).items() if name.startswith(prefix)}
    assert len(reported) == MOST_REASONS + 1
    assert sum(reported.values()) == 1001
    assert reported['sensormend_rejected_total{reason="made of what came: 0"}'] == 2


def test_channels_have_gauges_whatever_their_names(metrics: Metrics) -> None:
    now = 1_700_000_000
    hostile = 'a"b\\c\nd{}\0\ud800'
    metrics.channels = [
        Health("roof", "temp", "faulty", "stuck", (now - 7200) * SECOND, (now - 60) * SECOND),
        Health(hostile, "", "silent", "", (now - 60) * SECOND, None),
        # The same name once what cannot be written is replaced.
        Health(hostile.replace("\0", "\ufffd"), "", "healthy", "", 0, None),
    ]
    families = {family.name: family for family in text_string_to_metric_families(_exposed(metrics))}
    names = ("state", "state_seconds", "age_seconds")
    state, since, age = (families[f"sensormend_channel_{name}"].samples for name in names)
    assert state[0].labels == {"sensor": "roof", "variable": "temp", "state": "faulty"}
    assert (state[0].value, since[0].value, age[0].value) == (1, 7200, 60)
    assert since[1].labels == {"sensor": 'a"b\\c\nd{}\ufffd\ufffd', "variable": ""}
    assert age[1].value != age[1].value
    assert len(state) == len(since) == len(age) == 2


def _exposed(metrics: Metrics) -> str:
    return generate_latest(metrics.registry()).decode()


def test_prometheus_is_served(page: MetricsServer, metrics: Metrics) -> None:
    metrics.readings += 3
    status, headers, body = ask(page, "/metrics")
    assert (status, headers["Content-Type"].partition(";")[0]) == (200, "text/plain")
    assert b"sensormend_readings_total 3.0\n" in body
    assert ask(page, "/metrics?name[]=x")[0] == 200


def test_health_is_200_or_503_with_its_reasons(page: MetricsServer, metrics: Metrics, steady: Clock) -> None:
    def reported() -> tuple[int, str, list[str]]:
        status, headers, body = ask(page, "/healthz")
        assert headers["Content-Type"] == "application/json"
        text = json.loads(body)
        return status, text["status"], text["reasons"]

    assert reported() == (200, "ok", [])
    metrics.sinks["broker"] = sink("broker", up=False, backlog=1)
    assert reported() == (200, "degraded", ["sink broker is down, 1 delivery waits"])
    metrics.connected = False
    assert reported() == (503, "failing", ["the source is not connected", "sink broker is down, 1 delivery waits"])
    metrics.connected = True
    metrics.sinks["broker"] = sink("broker", up=True, backlog=0)
    metrics.disk_error = "the disk is full"
    assert reported() == (503, "failing", ["the disk is full"])
    metrics.disk_error = None
    steady.now += MAX_SILENCE + 5
    assert reported() == (503, "failing", ["the service has had no heartbeat for 65 s"])
    metrics.beat()
    assert reported() == (200, "ok", [])


def test_only_that_and_only_get_and_head(page: MetricsServer, capfd: pytest.CaptureFixture[str]) -> None:
    status, headers, body = ask(page, "/metrics", "HEAD")
    assert (status, body) == (200, b"")
    assert int(headers["Content-Length"]) > 100
    assert [ask(page, path)[0] for path in ("/", "/metrics/", "/../etc/passwd", "/healthz2")] == [404] * 4
    status, headers, _ = ask(page, "/metrics", "POST")
    assert (status, headers["Allow"]) == (405, "GET, HEAD")
    with socket.create_connection(("127.0.0.1", page.port)) as line:
        line.sendall(b"\x16\x03\x01 what\r\n\r\n")
        line.recv(1000)
    assert capfd.readouterr() == ("", "")


def test_an_idle_connection_does_not_block_others(page: MetricsServer) -> None:
    with socket.create_connection(("127.0.0.1", page.port)):
        start = time.monotonic()
        assert ask(page, "/healthz")[0] == 200
        assert time.monotonic() - start < 2


def test_connections_have_an_end(metrics: Metrics, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three who send a letter now and then, and a fourth for whom there is no room while they do."""
    monkeypatch.setattr("sensormend.stream.http_server.MOST_CONNECTIONS", 3)
    monkeypatch.setattr("sensormend.stream.http_server.CONNECTION_TIME", 2.0)
    with MetricsServer(metrics, port=0) as page, ExitStack() as stack:
        slow = [stack.enter_context(socket.create_connection(("127.0.0.1", page.port))) for _ in range(3)]
        for one in slow:
            one.sendall(b"G")
        fourth = stack.enter_context(socket.create_connection(("127.0.0.1", page.port), timeout=10))
        assert fourth.recv(1) == b""
        for one in slow:
            one.settimeout(30)
            assert one.recv(1) == b""
        assert ask(page, "/healthz")[0] == 200


def test_a_taken_port_is_one_line(page: MetricsServer, metrics: Metrics) -> None:
    with pytest.raises(ConfigError, match=rf"^metrics cannot be shown at 127.0.0.1:{page.port}: .* in use; choose"):
        MetricsServer(metrics, port=page.port)
    with pytest.raises(ConfigError, match=r"cannot be shown at 127.0.0.1:70000"):
        MetricsServer(metrics, port=70000)


def test_closed_it_is_gone_at_once(metrics: Metrics) -> None:
    page, before = MetricsServer(metrics, port=0), threading.active_count()
    page.close()
    assert threading.active_count() == before - 1
    with pytest.raises(OSError, match="refused"):
        ask(page, "/healthz")


def test_without_prometheus_client_the_error_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(SensormendError, match=r"pip install 'sensormend\[live\]'"):
        MetricsServer(Metrics(), port=0)
