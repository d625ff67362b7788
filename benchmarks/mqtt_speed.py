"""Messages per second from a real broker, beside a bare paho subscriber, in one run: `python benchmarks/mqtt_speed.py`.

A persistent session of each contestant is filled first and drained then, so that no publisher is in the way. All
have QoS 1, MQTT 5, and the same number in flight; the bare subscriber is also measured with 3.1.1, with which paho is
faster and the broker says how many are in flight. `sensormend` is all that happens to a message until its period is
over: it is decoded, in the store with an fsync for each group, acknowledged, and sorted in by the stream.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from sensormend.pipeline.options import Options
from sensormend.stream.arrivals import Arrived, Source
from sensormend.stream.codec import input_to_bytes
from sensormend.stream.settings import MqttSettings
from sensormend.stream.sources.mqtt_source import MqttSource
from sensormend.stream.store import Store
from sensormend.stream.stream import Stream

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "helpers"))
from servers import Mosquitto, running_mosquitto

Take = Callable[[Arrived], None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=20_000, help="of one reading each")
    parser.add_argument("--batches", type=int, default=400, help="messages of many readings")
    parser.add_argument("--batch", type=int, default=500, help="readings of such a message")
    parser.add_argument("--in-flight", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    with running_mosquitto() as broker, tempfile.TemporaryDirectory() as folder:
        store, stream = Store(Path(folder, "store.sqlite")), Stream(Options.of(step="1h", period="200d"))

        def keep(arrived: Arrived) -> None:
            known = {"before": stream.readings, "readings": stream.readings + len(arrived.readings)}
            store.put(store.next_input, input_to_bytes(arrived), **known)
            for event in stream.take(arrived):
                raise AssertionError(event)

        ways: dict[str, Callable[[int], float]] = {
            "paho, MQTT 5": lambda count: bare(broker, "five", args.in_flight, count, paho.MQTTv5),
            "paho, MQTT 3.1.1": lambda count: bare(broker, "three", args.in_flight, count, paho.MQTTv311),
            "sensormend": lambda count: driven(broker, "ours", args.in_flight, count, keep),
        }
        singles = [json.dumps(reading(number)) for number in range(args.messages)]
        rates_of = rounds(broker, ways, singles, args.messages, args.rounds, args.in_flight)
        print(f"{args.messages:,} messages of one reading, QoS 1, {args.in_flight:,} in flight; messages per second,")
        print(f"median of {args.rounds} rounds (lowest ... highest)")
        for name, rates in rates_of.items():
            print(f"  {name:18} {statistics.median(rates):9,.0f}  ({min(rates):,.0f} ... {max(rates):,.0f})")
        for name in list(ways)[:2]:
            ratio = statistics.median(a / b for a, b in zip(rates_of["sensormend"], rates_of[name], strict=True))
            print(f"  sensormend / {name}: {ratio:.2f}")
        batches = [
            json.dumps([reading(start + number) for number in range(args.batch)])
            for start in range(0, args.batches * args.batch, args.batch)
        ]
        only = {"sensormend": ways["sensormend"]}
        rates = rounds(broker, only, batches, args.batches * args.batch, args.rounds, args.in_flight)["sensormend"]
        print(
            f"{args.batches:,} messages of {args.batch:,} readings: {statistics.median(rates):,.0f} readings per second"
        )


def reading(number: int) -> dict[str, Any]:
    return {"sensor": f"s{number % 200:03d}", "time": 1_577_836_800 + number, "value": round(20 + number % 97 / 7, 3)}


def rounds(
    broker: Mosquitto, ways: dict[str, Callable[[int], float]], messages: list[str], count: int, times: int, most: int
) -> dict[str, list[float]]:
    """Return the rates of all contestants, who take turns at being first."""
    rates_of: dict[str, list[float]] = {name: [] for name in ways}
    names = list(ways)
    for name in names:
        ways[name](0)  # makes its session
    for turn in range(times):
        publish(broker, messages, most)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            rates_of[name].append(ways[name](count))
    return rates_of


def publish(broker: Mosquitto, messages: list[str], most: int) -> None:
    client = paho.Client(CallbackAPIVersion.VERSION2)
    client.max_inflight_messages_set(most)
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    sent = [client.publish(f"city/{number % 200}", message, qos=1) for number, message in enumerate(messages)]
    for message in sent:
        message.wait_for_publish(120)
    client.disconnect()
    client.loop_stop()


def bare(broker: Mosquitto, name: str, in_flight: int, count: int, protocol: Any) -> float:
    """Take messages as paho's manual shows it, and do nothing with them."""
    five = protocol == paho.MQTTv5
    more: dict[str, Any] = {} if five else {"clean_session": False}
    client = paho.Client(CallbackAPIVersion.VERSION2, client_id=name, protocol=protocol, **more)
    subscribed = threading.Event()
    came = 0

    def on_message(client: Any, userdata: Any, message: Any) -> None:
        nonlocal came
        came += 1

    client.on_connect = lambda *details: client.subscribe("city/#", 1)  # type: ignore[assignment]
    client.on_subscribe = lambda *details: subscribed.set()
    client.on_message = on_message
    start = time.perf_counter()
    if five:
        asked: Any = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        asked.SessionExpiryInterval, asked.ReceiveMaximum = 3600, in_flight
        client.connect("127.0.0.1", broker.port, clean_start=False, properties=asked)
    else:
        client.connect("127.0.0.1", broker.port)
    while came < count or not subscribed.is_set():
        client.loop(1.0)
    seconds = time.perf_counter() - start
    client.disconnect()
    return count / seconds


def driven(broker: Mosquitto, name: str, in_flight: int, count: int, take: Take) -> float:
    """Drain our own source into whatever takes what came; it is acknowledged after that."""
    start = time.perf_counter()
    with MqttSource(broker.address, MqttSettings(topics=("city/#",), client_id=name, in_flight=in_flight)) as source:
        drain(source, count, take)
        return count / (time.perf_counter() - start)


def drain(source: Source, count: int, take: Take) -> None:
    came = 0
    while came < count:
        arrived = source.read(1.0)
        assert arrived is not None
        if len(arrived.readings):
            take(arrived)
            arrived.acknowledge()
            came += len(arrived.readings)


if __name__ == "__main__":
    main()
