"""What is relied on of paho that is not public, and what is done where a version does not have it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from sensormend.stream import mqtt
from sensormend.stream.mqtt import Broker, Subscription, connect, is_fast
from servers import running_mosquitto


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    is_fast.cache_clear()
    yield
    is_fast.cache_clear()


def test_paho_has_what_is_relied_on() -> None:
    client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
    for name, parameters in {
        "_handle_publish": [], "_packet_handle": [], "loop_read": ["max_packets"], "loop_write": [], "loop_misc": [],
        "want_write": [], "socket": [], "ack": ["mid", "qos"],
    }.items():  # fmt: skip
        assert list(inspect.signature(getattr(client, name)).parameters) == parameters, name
    assert client._protocol == paho.MQTTv5
    assert client._in_packet["packet"] == bytearray()
    assert client._in_packet["command"] == 0
    assert is_fast()


@pytest.mark.parametrize("packet", [b"", b"\0", b"\0\5a", b"\0\1a\0"])
@pytest.mark.parametrize("protocol", [paho.MQTTv311, paho.MQTTv5])
def test_a_packet_that_is_too_short_is_an_error_of_the_protocol(protocol: int, packet: bytes) -> None:
    client = mqtt._FastClient(protocol=protocol)
    client._in_packet["command"], client._in_packet["packet"] = 0x32, bytearray(packet)
    assert client._packet_handle() == paho.MQTT_ERR_PROTOCOL
    assert not client.arrived


@pytest.mark.server
@pytest.mark.parametrize("lacking", ["method", "attribute", "key"])
def test_where_it_has_not_paho_is_used_as_it_is(monkeypatch: pytest.MonkeyPatch, lacking: str) -> None:
    if lacking == "method":  # paho calls it by another name
        monkeypatch.delattr(mqtt._FastClient, "_handle_publish")
    else:
        attribute = property(lambda client: {} if lacking == "key" else client._none, lambda client, given: None)
        monkeypatch.setattr(mqtt._FastClient, "_in_packet", attribute, raising=False)
    assert not is_fast()
    monkeypatch.undo()
    monkeypatch.setattr(mqtt, "is_fast", lambda: False)
    with running_mosquitto() as server:
        subscription = Subscription("plain", ["a/#"])
        for expected in ([1, 2, 3], [3]):
            reader = connect(Broker(server.address), subscription)
            if len(expected) == 3:
                writer = connect(Broker(server.address))
                writer.publish([(f"a/{number}", b"%d" % number, False) for number in (1, 2, 3)], within=5)
                writer.close()
            messages = reader.take()  # some come with the connection
            while len(messages) < len(expected) and reader.pump(5.0):
                messages += reader.take()
            assert [int(message.payload) for message in messages] == expected
            assert [message.topic for message in messages] == [f"a/{number}" for number in expected]
            reader.acknowledge([message.number for message in messages[:2]])
            reader.close()
