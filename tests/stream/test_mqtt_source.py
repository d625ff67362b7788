"""A real broker: nothing lost, nothing acknowledged too early, and nothing that stops us."""

from __future__ import annotations

import json
import logging
import random
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from malformed import malformed_message
from sensormend.errors import ConfigError, SensormendError
from sensormend.stream.arrivals import Arrived, Source
from sensormend.stream.formats import values as why
from sensormend.stream.settings import MqttSettings
from sensormend.stream.sources import open_source
from sensormend.stream.sources.mqtt_source import MqttSource
from servers import Mosquitto, running_mosquitto


@pytest.fixture
def broker() -> Iterator[Mosquitto]:
    with running_mosquitto() as server:
        yield server


def settings(name: str, *topics: str, **more: object) -> MqttSettings:
    return MqttSettings(topics=topics or (f"{name}/#",), client_id=name, **more)  # type: ignore[arg-type]


@contextmanager
def publisher(broker: Mosquitto) -> Iterator[Callable[..., None]]:
    """Give what publishes a message at QoS 1."""
    client = paho.Client(CallbackAPIVersion.VERSION2)
    client.max_inflight_messages_set(1000)
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    sent = []

    def publish(topic: str, payload: bytes | str, retain: bool = False) -> None:
        sent.append(client.publish(topic, payload, qos=1, retain=retain))

    try:
        yield publish
        for message in sent:
            message.wait_for_publish(30)
    finally:
        client.disconnect()
        client.loop_stop()


def is_connected(source: Source) -> bool:
    """Say whether it is connected; unlike an attribute, this may change under mypy's eyes."""
    return source.connected


def drained(source: MqttSource, enough: Callable[[list[Arrived]], bool], within: float = 20.0) -> list[Arrived]:
    """Read and acknowledge until there is enough."""
    arrivals: list[Arrived] = []
    end = time.monotonic() + within
    while not enough(arrivals) and time.monotonic() < end:
        arrived = source.read(0.2)
        if not arrived.empty:
            arrivals.append(arrived)
            arrived.acknowledge()
    return arrivals


def values(arrivals: list[Arrived]) -> list[float]:
    return [float(value) for arrived in arrivals for value in arrived.readings.value]


def test_messages_come_and_are_not_sent_again(broker: Mosquitto) -> None:
    with MqttSource(broker.address, settings("plain")) as source, publisher(broker) as publish:
        assert is_connected(source)
        for number in range(3000):
            publish(f"plain/s{number % 7}", f"{number}")
        arrivals = drained(source, lambda arrivals: len(values(arrivals)) >= 3000)
    assert values(arrivals) == list(range(3000))
    assert arrivals[-1].readings.sensors == tuple(f"s{number}" for number in range(7))
    assert all(len(arrived.readings) <= 5000 for arrived in arrivals)
    with MqttSource(broker.address, settings("plain")) as source:
        assert source.read(0.3).empty


def test_what_was_not_acknowledged_comes_again(broker: Mosquitto) -> None:
    with MqttSource(broker.address, settings("again")) as source, publisher(broker) as publish:
        for number in range(10):
            publish("again/a", f"{number}")
        time.sleep(0.3)
        assert values([source.read(1.0)]) == list(range(10))
    with publisher(broker) as publish:
        publish("again/a", "10")  # while nobody is there
    with MqttSource(broker.address, settings("again")) as source:
        assert values(drained(source, lambda arrivals: len(values(arrivals)) >= 11)) == list(range(11))


def test_what_waited_for_us_comes_at_once_however_much_it_is(broker: Mosquitto) -> None:
    MqttSource(broker.address, settings("much")).close()
    message = json.dumps([{"sensor": f"s{n % 9}", "time": 1577836800 + n, "value": n} for n in range(2000)])
    with publisher(broker) as publish:
        for _ in range(150):  # 15 MB: more than is taken at once, before the subscription is answered
            publish("much/list", message)
    began = time.monotonic()
    with MqttSource(broker.address, settings("much")) as source:
        first = source.read(5.0)
        assert time.monotonic() - began < 4.0
        assert 0 < len(first.readings) < 200_000
        first.acknowledge()
        arrivals = drained(source, lambda arrivals: len(values(arrivals)) + len(first.readings) >= 300_000)
    assert len(values(arrivals)) + len(first.readings) == 300_000


def test_no_more_than_in_flight_comes_before_it_is_acknowledged(broker: Mosquitto) -> None:
    with MqttSource(broker.address, settings("few", in_flight=5)) as source, publisher(broker) as publish:
        for number in range(20):
            publish("few/a", f"{number}")
        time.sleep(0.3)
        first = source.read(1.0)
        assert len(first.readings) == 5
        assert source.read(0.2).empty
        # From another thread while this one is waiting.
        threading.Timer(0.2, first.acknowledge).start()
        began = time.monotonic()
        assert values([source.read(10.0)])[0] == 5
        assert time.monotonic() - began < 5


def test_reading_waits_no_longer_than_it_may(broker: Mosquitto) -> None:
    with MqttSource(broker.address, settings("quiet")) as source:
        began = time.monotonic()
        assert source.read(0.2).empty
        assert 0.15 < time.monotonic() - began < 1.0


def test_retained_messages(broker: Mosquitto) -> None:
    now = int(time.time())
    with publisher(broker) as publish:
        publish("kept/a", json.dumps({"time": now, "value": 1}), True)
        publish("kept/b", json.dumps({"time": now - 100_000, "value": 2}), True)
        publish("kept/c", "3", True)
    with MqttSource(broker.address, settings("kept")) as source:
        arrivals = drained(source, lambda arrivals: sum(len(a.readings) + len(a.rejected) for a in arrivals) >= 3)
    assert values(arrivals) == [1.0]
    assert {(r.where, r.reason) for a in arrivals for r in a.rejected} == {
        ("kept/b", why.RETAINED_OLD),
        ("kept/c", why.RETAINED_TIMELESS),
    }


def test_a_pattern_names_sensor_and_variable(broker: Mosquitto) -> None:
    with_pattern = settings("names", "names/+/+", pattern=("names/{sensor}/{variable}",))
    with MqttSource(broker.address, with_pattern) as source, publisher(broker) as publish:
        publish("names/7/temp", "21.5")
        (arrived,) = drained(source, bool)
    assert (arrived.readings.sensors, arrived.readings.variables) == (("7",), ("temp",))


def test_topics_that_are_not_wanted_any_more_stay_out(broker: Mosquitto) -> None:
    """The broker keeps a session's subscriptions, whatever its owner says the next time."""
    with MqttSource(broker.address, settings("turn", "old/#")), publisher(broker):
        pass
    with (
        MqttSource(broker.address, settings("turn", "new/#"), former=["old/#", "new/#"]) as source,
        publisher(broker) as publish,
    ):
        for topic, value in (("old/a", 1), ("new/a", 2), ("old/a", 3), ("new/a", 4)):
            publish(topic, str(value))
        assert values(drained(source, lambda arrivals: len(values(arrivals)) >= 2)) == [2.0, 4.0]


@pytest.mark.server
def test_broker_restarted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "sensormend.stream")
    with running_mosquitto(persistent=True) as broker, MqttSource(broker.address, settings("back")) as source:
        with publisher(broker) as publish:
            for number in range(100):
                publish("back/a", f"{number}")
        unacknowledged: list[Arrived] = []
        while len(values(unacknowledged)) < 100:
            unacknowledged.append(source.read(2.0))
        broker.stop()
        assert source.read(0.3).empty
        assert not is_connected(source)
        for arrived in unacknowledged:
            arrived.acknowledge()  # too late: the connection is gone, it will come again
        time.sleep(0.3)
        broker.start()
        with publisher(broker) as publish:
            publish("back/a", "100")
        arrivals = drained(source, lambda arrivals: len(set(values(arrivals))) >= 101)
        assert set(values(arrivals)) == set(range(101))
        assert is_connected(source)
    messages = [record.getMessage() for record in caplog.records if record.name == "sensormend.stream"]
    about_the_broker = [text.split()[0] for text in messages if not text.startswith("messages are")]
    assert about_the_broker == ["no", "connected"]


@pytest.mark.server
def test_a_broker_that_is_killed_again_and_again_loses_nothing() -> None:
    with running_mosquitto(persistent=True) as broker, MqttSource(broker.address, settings("killed")) as source:
        received: set[float] = set()
        for kill in range(3):
            with publisher(broker) as publish:
                for number in range(100 * kill, 100 * (kill + 1)):
                    publish("killed/a", f"{number}")
            time.sleep(2.5)  # it writes its messages to disk every second or two
            pending: list[Arrived] = []
            end = time.monotonic() + 20
            while not set(range(100 * kill, 100 * (kill + 1))) <= set(values(pending)) and time.monotonic() < end:
                pending.append(source.read(0.5))
            for arrived in pending[::2]:
                arrived.acknowledge()
            received.update(values(pending))
            broker.stop(kill=True)
            broker.start()
        assert received == set(range(300))


@pytest.mark.server
def test_a_broker_that_is_not_there_yet_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    with running_mosquitto() as broker:
        broker.stop()
        with MqttSource(broker.address, settings("early")) as source:
            assert not is_connected(source)
            assert source.read(0.1).empty
            broker.start()
            drained(source, lambda _: is_connected(source))
            assert is_connected(source)
    assert sum("no connection" in record.getMessage() for record in caplog.records) == 1


@pytest.mark.server
def test_tls_with_user_and_password(tmp_path: Path) -> None:
    with running_mosquitto({"city": "s:e@c/ret"}, tls=True) as broker:
        who = {"user": "city", "password": "s:e@c/ret"}
        with MqttSource(broker.address, settings("safe", ca=broker.ca, **who)) as source:
            messages = json.dumps([{"sensor": "a", "time": 1577836800 + n, "value": n} for n in range(50_000)])
            client = paho.Client(CallbackAPIVersion.VERSION2)
            client.username_pw_set("city", "s:e@c/ret")
            client.tls_set(str(broker.ca))
            client.connect("localhost", broker.port)
            client.loop_start()
            for number in range(2000):
                client.publish("safe/b", f"{number}", qos=1)
            client.publish("safe/list", messages, qos=1)
            arrivals = drained(source, lambda arrivals: len(values(arrivals)) >= 52_000)
            client.disconnect()
            client.loop_stop()
            assert len(values(arrivals)) == 52_000
            assert all(arrived.acknowledge for arrived in arrivals)
        # In the address, as a user would write it.
        with MqttSource(
            broker.address.replace("//", "//city:s%3Ae%40c%2Fret@"), settings("safe2", ca=broker.ca)
        ) as other:
            assert other.connected
        for wrong in ({"user": "city", "password": "wrong"}, {}):
            with pytest.raises(ConfigError, match=r"not authori[sz]ed.*look at user, password") as raised:
                MqttSource(broker.address, settings("no", ca=broker.ca, **wrong))
            assert "wrong" not in str(raised.value).replace("wrong password", "")
        with pytest.raises(ConfigError, match=r"certificate is not trusted.*name its CA"):
            MqttSource(broker.address, settings("no", **who))
        with pytest.raises(ConfigError, match="holds no certificates"):
            MqttSource(broker.address, settings("no", ca=tmp_path / "none.crt", **who))


@pytest.mark.parametrize("answer", [b"\x20\x02\x00\x01", b""], ids=["refuses", "hangs up"])
def test_a_broker_that_speaks_only_3_1_1(broker: Mosquitto, answer: bytes) -> None:
    with old_broker(broker.port, answer) as port:
        name = f"old{len(answer)}"
        with MqttSource(f"mqtt://127.0.0.1:{port}", settings(name)) as source, publisher(broker) as publish:
            for number in range(50):
                publish(f"{name}/a", f"{number}")
            arrivals = drained(source, lambda arrivals: len(values(arrivals)) >= 50)
            assert values(arrivals) == list(range(50))


def test_without_the_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "paho.mqtt.enums", None)
    for module in ("mqtt", "sources.mqtt_source"):
        monkeypatch.delitem(sys.modules, f"sensormend.stream.{module}", raising=False)
    with pytest.raises(SensormendError, match=r"sensormend\[live\]"):
        open_source("mqtt://localhost", work=tmp_path)


@contextmanager
def old_broker(port: int, answer: bytes) -> Iterator[int]:
    """Forward connections to a broker, except for those with MQTT 5, which get an answer and are closed."""
    listener = socket.create_server(("127.0.0.1", 0))

    def forward(one: socket.socket, other: socket.socket) -> None:
        try:
            while part := one.recv(65536):
                other.sendall(part)
        except OSError:
            pass
        finally:
            one.close()
            other.close()

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            first = client.recv(65536)
            level = first[first.index(b"MQTT") + 4]
            if level == 5:
                client.sendall(answer)
                client.close()
                continue
            inner = socket.create_connection(("127.0.0.1", port))
            inner.sendall(first)
            for pair in ((client, inner), (inner, client)):
                threading.Thread(target=forward, args=pair, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield int(listener.getsockname()[1])
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def resident() -> int:
    """Return the pages of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1])


def test_20_000_malformed_messages_with_good_ones_among_them(broker: Mosquitto) -> None:
    chance = random.Random(5)
    bad, good, huge = 20_000, 2_000, 3
    messages: list[tuple[str, bytes]] = [("fuzz/bad", malformed_message(chance)) for _ in range(bad - huge)]
    messages += [("fuzz/bad", b"[" + b"1," * (9 << 20) + b"1]")] * huge
    messages += [(f"fuzz/s{number % 20}", f"{number}".encode()) for number in range(good)]
    chance.shuffle(messages)
    with MqttSource(broker.address, settings("fuzz")) as source:
        rejected: Counter[str] = Counter()
        accepted: list[float] = []
        used: list[int] = []
        sensors: set[str] = set()
        with publisher(broker) as publish:
            for start in range(0, len(messages), 500):
                part = messages[start : start + 500]
                for topic, payload in part:
                    publish(topic, payload)
                count = 0
                while count < len(part):
                    arrived = source.read(5.0)
                    assert not arrived.empty
                    arrived.acknowledge()
                    accepted += arrived.readings.value.tolist()
                    sensors |= set(arrived.readings.sensors)
                    assert all(entry.where == "fuzz/bad" for entry in arrived.rejected)
                    rejected.update(entry.reason for entry in arrived.rejected)
                    count += len(arrived.readings) + len(arrived.rejected)
                used.append(resident())
    assert sorted(accepted) == list(range(good))
    assert sensors == {f"s{number}" for number in range(20)}
    assert sum(rejected.values()) == bad
    assert set(rejected) >= {why.NOT_UTF8, why.NOT_JSON, why.TOO_DEEP, why.TOO_LARGE, why.NOT_A_TIME, why.NOT_A_NUMBER,
                             why.BAD_NAME, why.NO_READING}  # fmt: skip
    # The middle of the last quarter beside that of the second: the huge ones come and go.
    quarter = len(used) // 4
    assert sorted(used[-quarter:])[quarter // 2] < 1.1 * sorted(used[quarter : 2 * quarter])[quarter // 2]
