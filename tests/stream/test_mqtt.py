"""One connection to a real broker: what it holds, what it acknowledges, and how it ends."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sensormend.stream import mqtt
from sensormend.stream.mqtt import Broker, Message, MqttConnection, Subscription, connect
from servers import Mosquitto, running_mosquitto

pytestmark = pytest.mark.server


@pytest.fixture
def broker() -> Iterator[Mosquitto]:
    with running_mosquitto() as server:
        yield server


def publish(broker: Mosquitto, numbers: range) -> None:
    writer = connect(Broker(broker.address))
    writer.publish([(f"a/{number}", b"%d" % number, False) for number in numbers], within=5)
    writer.close()


def taken(connection: MqttConnection, count: int) -> list[Message]:
    """Take messages until there are so many, without an acknowledgement."""
    messages: list[Message] = []
    end = time.monotonic() + 10
    while len(messages) < count and time.monotonic() < end:
        messages += connection.take(0.5)
    return messages


def test_only_what_was_not_acknowledged_comes_again(broker: Mosquitto) -> None:
    subscription = Subscription("lasting", ["a/#"])
    connect(Broker(broker.address), subscription).close()
    publish(broker, range(1, 4))
    for expected in ([1, 2, 3], [3]):
        reader = connect(Broker(broker.address), subscription)
        messages = taken(reader, len(expected))
        assert [int(message.payload) for message in messages] == expected
        assert [message.topic for message in messages] == [f"a/{number}" for number in expected]
        reader.acknowledge(messages[:2])
        reader.close()


@pytest.mark.parametrize("modern", [True, False], ids=["5", "3.1.1"])
def test_no_more_is_held_than_the_limit_and_none_is_lost(
    broker: Mosquitto, monkeypatch: pytest.MonkeyPatch, modern: bool
) -> None:
    monkeypatch.setattr(mqtt, "MOST_MESSAGES", 10)
    subscription = Subscription("full", ["a/#"], in_flight=1000)
    connect(Broker(broker.address, modern=modern), subscription).close()
    publish(broker, range(300))
    for _ in range(2):
        # Closed while its thread waits for room, and with unread data: the acknowledgements still arrive.
        reader = connect(Broker(broker.address, modern=modern), subscription)
        time.sleep(0.2)
        first = reader.take(1.0)
        assert len(first) == 10
        reader.acknowledge(first)
        began = time.monotonic()
        reader.close()
        assert time.monotonic() - began < 2.5
    reader = connect(Broker(broker.address, modern=modern), subscription)
    numbers: list[int] = []
    while len(numbers) < 280 and (group := reader.take(2.0)):
        assert len(group) <= 10
        numbers += [int(message.payload) for message in group]
        reader.acknowledge(group)
    reader.close()
    assert numbers == list(range(20, 300))


def test_a_message_wakes_who_waits_and_so_does_the_end(broker: Mosquitto) -> None:
    reader = connect(Broker(broker.address), Subscription("waiting", ["a/#"]))
    began = time.monotonic()
    threading.Timer(0.2, publish, (broker, range(1))).start()
    assert [message.payload for message in reader.take(20.0)] == [b"0"]
    threading.Timer(0.2, broker.stop).start()
    assert reader.take(20.0) == []
    assert time.monotonic() - began < 10
    assert not reader.alive
    assert reader.ended
    reader.acknowledge([Message(1, "a", b"", False)])  # too late: nothing happens
    reader.close()


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="this system does not list open files")
def test_connections_leave_no_socket_open(broker: Mosquitto) -> None:
    """Also while Python does not look for objects that hold each other: a service reconnects for years."""
    reads, writes = Subscription("sockets", ["a/#"]), Broker(broker.address)
    gc.disable()
    try:
        before = descriptors()
        for _ in range(5):
            for connection in (connect(writes), connect(writes, reads)):
                connection.close()
                connection.close()
        del connection
        broker.stop()
        for _ in range(5):
            with pytest.raises(OSError, match="refused"):
                connect(writes, reads)
        assert descriptors() <= before
    finally:
        gc.enable()


def test_a_broker_that_stops_reading_does_not_keep_us(broker: Mosquitto, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mqtt, "CLOSE_WITHIN", 0.3)
    reader = connect(Broker(broker.address), Subscription("stopped", ["a/#"]))
    broker.pause()
    try:
        began = time.monotonic()
        reader.close()
        assert time.monotonic() - began < 5
    finally:
        broker.resume()
