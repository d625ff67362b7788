"""Results at a real broker."""

from __future__ import annotations

import json
import logging
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from row_tables import YEAR_2019, network
from sample_deliveries import alert
from sensormend.errors import ConfigError, RefusedError, SensormendError
from sensormend.pipeline.health import Health
from sensormend.readings import DAY, Rows
from sensormend.stream.deliveries import Delivery, Kind
from sensormend.stream.delivery_worker import DeliveryWorker, stop_all
from sensormend.stream.settings import Settings
from sensormend.stream.sinks import mqtt_sink as mqtt
from sensormend.stream.sinks import open_alert, open_sink, open_workers
from sensormend.stream.sinks.messages import alert_message
from sensormend.stream.sinks.mqtt_sink import topic_level
from sensormend.stream.store import Store
from servers import Mosquitto, running_mosquitto
from waiting import wait_until

paho = pytest.importorskip("paho.mqtt.client")


class Listener:
    """Another client, which notes what it gets."""

    def __init__(self, broker: Mosquitto, topic: str, name: str) -> None:
        self.received: list[tuple[str, Any, bool]] = []
        ready = threading.Event()
        # With a name the broker keeps what comes while it is away.
        self._client = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id=name, clean_session=not name)
        self._client.on_message = self._add
        self._client.on_subscribe = lambda *_: ready.set()
        self._client.connect("127.0.0.1", broker.port)
        self._client.subscribe(topic, qos=1)
        self._client.loop_start()
        assert ready.wait(10)

    def _add(self, client: Any, userdata: Any, message: Any) -> None:
        self.received.append((message.topic, json.loads(message.payload), bool(message.retain)))

    def topics(self) -> list[str]:
        return [topic for topic, _, _ in self.received]

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


@contextmanager
def listening(broker: Mosquitto, topic: str, name: str = "") -> Iterator[Listener]:
    listener = Listener(broker, topic, name)
    try:
        yield listener
    finally:
        listener.close()


@pytest.fixture(scope="module")
def broker() -> Iterator[Mosquitto]:
    with running_mosquitto() as running:
        yield running


def some(rows: Rows | None = None, kind: Kind = "final", health: list[Health] | None = None) -> Delivery:
    return Delivery(kind, YEAR_2019, YEAR_2019 + DAY, rows, health or [])


def test_each_row_is_a_message_under_its_sensor(broker: Mosquitto) -> None:
    rows = network(1, 2, ("", "pm"))
    spoilt = replace(rows, value=np.where(np.arange(len(rows)) == 0, np.inf, rows.value))
    with listening(broker, "plain/#") as listener, open_sink(f"{broker.address}/plain") as sink:
        sink.write(some(spoilt))
        sink.write(some(rows.taken(slice(0, 1)), "provisional"))
        wait_until(lambda: len(listener.received) == len(rows) + 1)
    assert set(listener.topics()) == {f"plain/cleaned/s{k}{v}" for k in (0, 1) for v in ("", "/pm")}
    assert not any(retained for *_, retained in listener.received)
    first, *_, last = [message for topic, message, _ in listener.received]
    assert first == {
        "sensor": "s0", "variable": "", "time": "2019-01-01T00:00:00Z", "value": None, "n": int(rows.n[0]),
        "cleaned": rows.cleaned[0], "lower": rows.lower[0], "upper": rows.upper[0], "flag": int(rows.flag[0]),
        "reason": "", "origin": "observed" if rows.n[0] else "estimated", "provisional": False,
    }  # fmt: skip
    assert last["provisional"] is True
    # In the order of the rows, channel by channel.
    times = [message["time"] for topic, message, _ in listener.received[:-1] if topic == "plain/cleaned/s1/pm"]
    assert times == sorted(times)
    assert len(times) == 24


def test_how_a_sensor_is_is_retained_and_told_when_it_changes(broker: Mosquitto) -> None:
    well = Health("a", "", "healthy", "", 0, 5)
    other = Health("b", "t", "silent", "", 0, None)
    with listening(broker, "h/#") as listener:
        with open_sink(f"{broker.address}/h") as sink:
            sink.write(some(health=[well, other]))
            sink.write(some(kind="provisional", health=[replace(well, heard=9), other]))
            sink.write(some(health=[replace(well, state="faulty", reason="stuck", since=DAY), other]))
            wait_until(lambda: len(listener.received) == 3)
        # One that starts anew tells all of it once.
        with open_sink(f"{broker.address}/h") as sink:
            sink.write(some(health=[other]))
            wait_until(lambda: len(listener.received) == 4)
    assert listener.topics() == ["h/health/a", "h/health/b/t", "h/health/a", "h/health/b/t"]
    with listening(broker, "h/#") as late:
        wait_until(lambda: len(late.received) == 2)
    latest = {topic: (message, retained) for topic, message, retained in late.received}
    assert latest["h/health/a"] == (
        {"sensor": "a", "variable": "", "state": "faulty", "reason": "stuck", "since": "1970-01-02T00:00:00Z",
         "heard": "1970-01-01T00:00:00.000005Z"},
        True,
    )  # fmt: skip


def test_names_of_all_kinds_become_levels(broker: Mosquitto) -> None:
    names = ["a/b", "+", "#", "100 %", "nul\0", "Straße 5", "half\ud800", "", "new\nline"]
    rows = replace(network(1, 1).taken(np.zeros(len(names), np.intp)), sensors=tuple(names))
    rows = replace(rows, sensor=np.arange(len(names), dtype=np.int32))
    with listening(broker, "names/#") as listener, open_sink(f"{broker.address}/names/") as sink:
        sink.write(some(rows))
        wait_until(lambda: len(listener.received) == len(names))
    levels = [topic.removeprefix("names/cleaned/") for topic in listener.topics()]
    assert levels == ["a%2Fb", "%2B", "%23", "100 %25", "nul%00", "Straße 5", "half%ED%A0%80", "", "new%0Aline"]
    assert levels == [topic_level(name) for name in names]
    assert [message["sensor"] for _, message, _ in listener.received][:6] == [*names[:4], "nul\0", names[5]]


def test_what_no_broker_could_take_is_refused_and_blocks_nothing(broker: Mosquitto, tmp_path: Path) -> None:
    rows = network(1, 1).taken(slice(0, 1))
    endless = replace(rows, sensors=("x" * 70_000,))
    with open_sink(f"{broker.address}/long") as sink, pytest.raises(RefusedError, match=r"topic is too long") as failed:
        sink.write(some(endless))
    assert len(str(failed.value)) < 200
    queue = Store(tmp_path / "queue", ["broker"])
    with listening(broker, "long/#") as listener:
        worker = DeliveryWorker("broker", open_sink(f"{broker.address}/long"), queue, (0.01, 0.02))
        worker.start()
        queue.append(some(endless), 0)
        queue.append(some(rows), 1)
        wait_until(lambda: len(listener.received) == 1)
        wait_until(lambda: worker.state().lost == 1)
        assert stop_all([worker], 5)
    queue.close()
    assert listener.topics() == ["long/cleaned/s0"]


def test_alerts_go_to_one_topic_and_are_not_kept(broker: Mosquitto) -> None:
    with listening(broker, "city/alerts") as listener, open_alert(f"{broker.address}/city/alerts") as sink:
        assert list(sink.kinds) == ["alert"]
        sink.write(alert())
        wait_until(lambda: len(listener.received) == 1)
    ((topic, message, is_retained),) = listener.received
    assert (topic, message, is_retained) == ("city/alerts", alert_message(alert().alerts[0]), False)
    with listening(broker, "city/alerts") as late:
        pass
    assert late.received == []


@pytest.mark.server
def test_a_broker_that_restarts_gets_everything_in_order(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "sensormend.stream")
    rows = network(1, 1)
    with running_mosquitto(persistent=True) as broker, listening(broker, "sensormend/#", "known") as listener:
        queue = Store(tmp_path / "queue", ["broker"])
        worker = DeliveryWorker("broker", open_sink(broker.address), queue, (0.05, 0.1))
        worker.start()
        queue.append(some(rows.taken(slice(0, 1))), 0)
        wait_until(lambda: len(listener.received) == 1)
        broker.stop()
        for hour in range(1, 6):
            queue.append(some(rows.taken(slice(hour, hour + 1))), hour)
        wait_until(lambda: not worker.state().up)
        assert queue.backlog("broker") == 5
        broker.start()
        wait_until(lambda: len(listener.received) == 6)
        assert stop_all([worker], 5)
        queue.close()
    assert [message["time"] for _, message, _ in listener.received] == [
        f"2019-01-01T{hour:02d}:00:00Z" for hour in range(6)
    ]
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


@pytest.mark.server
def test_users_passwords_and_certificates(tmp_path: Path) -> None:
    with running_mosquitto({"me": "hush@/ü"}, tls=True) as broker:
        rows = network(1, 1)
        good = broker.address.replace("//", "//me:hush%40%2F%C3%BC@")
        settings = Settings(
            f"{broker.address}/#", tmp_path, mqtt=replace(Settings("-", tmp_path).mqtt, ca=broker.ca, user="me",
                                                          password="hush@/ü"),
        )  # fmt: skip
        with open_sink(good, settings) as sink:
            sink.write(some(rows))
        # Those of the source, as it is the same broker.
        with open_sink(f"{broker.address}/there", settings) as sink:
            sink.write(some(rows))
        elsewhere = replace(settings, source="mqtts://other/#")
        wrong = broker.address.replace("//", "//me:shout@")
        for address, sink_settings in ((broker.address, elsewhere), (wrong, settings)):
            with (
                open_sink(address, sink_settings) as sink,
                pytest.raises(SensormendError, match=r"(?i)not authorized") as failed,
            ):
                sink.write(some(rows))
            assert "shout" not in str(failed.value)
        with open_sink(good) as sink, pytest.raises(SensormendError, match=r"(?i)certificate"):
            sink.write(some(rows))
        with open_sink(good.replace("mqtts", "mqtt")) as sink, pytest.raises(SensormendError):
            sink.write(some(rows))


@pytest.mark.server
def test_where_we_may_not_publish_is_a_refusal_and_not_silence() -> None:
    """Before MQTT 5 a broker confirmed such a message, and threw it away."""
    with running_mosquitto(allowed="mended/#") as broker:
        with open_alert(f"{broker.address}/elsewhere") as sink, pytest.raises(RefusedError, match="does not take it"):
            sink.write(alert())
        with open_alert(f"{broker.address}/mended/alerts") as sink:
            sink.write(alert())


def test_a_broker_that_says_nothing_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mqtt, "ANSWER_WITHIN", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"mqtt://127.0.0.1:{mute.getsockname()[1]}"
        with open_sink(address) as sink, pytest.raises(SensormendError, match="has not answered"):
            sink.write(some(network(1, 1)))


def test_no_broker_at_all_is_one_line() -> None:
    with open_sink("mqtt://me:hush@127.0.0.1:1/x") as sink, pytest.raises(SensormendError) as failed:
        sink.write(some(network(1, 1)))
    assert str(failed.value).startswith("mqtt://me@127.0.0.1:1/x: ")


@pytest.mark.parametrize(
    "address", ["mqtt://host/a/#", "mqtt://host/+/b", "mqtt:///x", "mqtt://host:port/x", "ftp://x"]
)
def test_a_wrong_address_is_told_at_once(address: str) -> None:
    with pytest.raises(ConfigError):
        open_sink(address)
    with pytest.raises(ConfigError):
        open_alert(address)


def test_without_paho_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "paho.mqtt.enums", None)
    for module in ("mqtt", "sinks.mqtt_sink"):
        monkeypatch.delitem(sys.modules, f"sensormend.stream.{module}", raising=False)
    with pytest.raises(SensormendError, match=r"pip install 'sensormend\[live\]'"):
        open_sink("mqtt://host/x")


def test_workers_have_names_that_differ_and_show_no_secret(tmp_path: Path) -> None:
    to = ("https://hooks.example.org/T1/hush", "https://hooks.example.org/T2/hush", "command: true hush")
    settings = Settings("-", tmp_path, sinks=("mqtt://me:hush@host/x",), alerts=replace(
        Settings("-", tmp_path).alerts, to=(*to, "mqtt://me:hush@host/x")))  # fmt: skip
    names = list(open_workers(settings))
    assert len(names) == 5
    assert not any("hush" in name for name in names)
    assert names[0] == "mqtt://me@host/x"
    assert names[-1] == "alerts to mqtt://me@host/x"
    fewer = replace(settings, alerts=replace(settings.alerts, to=to[1::-1]))
    assert set(open_workers(fewer)) == {names[0], *names[1:3]}
