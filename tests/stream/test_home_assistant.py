"""What Home Assistant discovers at a real broker: an entity for the problem, one for the value, and when both end."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from row_tables import YEAR_2019, network
from sensormend.errors import ConfigError
from sensormend.pipeline.health import Health
from sensormend.pipeline.options import Options
from sensormend.readings import DAY, HOUR
from sensormend.stream.deliveries import Alert, Delivery, Kind
from sensormend.stream.settings import Settings
from sensormend.stream.sinks import open_sink
from servers import Mosquitto, running_mosquitto
from waiting import wait_until
from watch_process import GRID, WatchProcess

paho = pytest.importorskip("paho.mqtt.client")

OPTIONS = Options.of(units={"temp": "°C", "ph": ""})


@pytest.fixture(scope="module")
def broker() -> Iterator[Mosquitto]:
    with running_mosquitto() as running:
        yield running


@contextmanager
def retained(broker: Mosquitto, *topics: str) -> Iterator[dict[str, Any]]:
    """Give the last message of each topic, as a client that comes later has it."""
    messages: dict[str, Any] = {}
    ready = threading.Event()
    client = paho.Client(paho.CallbackAPIVersion.VERSION2)

    def note(client: Any, userdata: Any, message: Any) -> None:
        text = message.payload.decode()
        messages[message.topic] = json.loads(text) if text[:1] == "{" else text

    client.on_message = note
    client.on_subscribe = lambda *_: ready.set()
    client.connect("127.0.0.1", broker.port)
    client.subscribe([(topic, 1) for topic in topics])
    client.loop_start()
    try:
        assert ready.wait(10)
        yield messages
    finally:
        client.disconnect()
        client.loop_stop()


def settings(address: str, folder: Path) -> Settings:
    return Settings("-", folder, OPTIONS, sinks=(address,), home_assistant=True)


def some(kind: Kind = "final", **parts: Any) -> Delivery:
    return Delivery(kind, YEAR_2019, YEAR_2019 + DAY, **parts)


def test_each_channel_is_discovered_once_with_two_entities(broker: Mosquitto, tmp_path: Path) -> None:
    address = f"{broker.address}/ha"
    health = [Health("roof/1", "temp", "healthy", "", 0, HOUR), Health("roof/1", "ph", "faulty", "stuck", DAY, HOUR)]
    with retained(broker, "homeassistant/#", "ha/#") as messages:
        with open_sink(address, settings(address, tmp_path)) as sink:
            assert "alert" in sink.kinds
            sink.write(some(health=health))
            wait_until(lambda: len([topic for topic in messages if topic.startswith("homeassistant/")]) == 4)
        configs = {topic: message for topic, message in messages.items() if topic.startswith("homeassistant/")}
        assert len(configs) == 4
        assert all(topic.split("/")[2].isidentifier() for topic in configs)
        by_name = {(topic.split("/")[1], message["name"]): message for topic, message in configs.items()}
        problem, value = by_name["binary_sensor", "temp problem"], by_name["sensor", "temp cleaned"]
        assert (problem["device_class"], problem["state_topic"]) == ("problem", "ha/health/roof%2F1/temp")
        assert problem["json_attributes_topic"] == "ha/problem/roof%2F1/temp"
        assert "'faulty', 'silent', 'ended'" in problem["value_template"]
        assert (value["unit_of_measurement"], value["device_class"]) == ("°C", "temperature")
        assert (value["state_topic"], value["state_class"]) == ("ha/latest/roof%2F1/temp", "measurement")
        assert "unit_of_measurement" not in by_name["sensor", "ph cleaned"]
        # All entities of a sensor are of one device, and each has a name of its own.
        assert len({json.dumps(message["device"]) for message in configs.values()}) == 1
        assert len({message["unique_id"] for message in configs.values()}) == 4
        assert {message["availability_topic"] for message in configs.values()} == {"ha/status"}
        wait_until(lambda: messages["ha/status"] == "offline")  # it was closed
    with retained(broker, "homeassistant/#") as configured:
        wait_until(lambda: len(configured) == 4)
    assert configured == configs


def test_the_sentence_of_an_alert_is_an_attribute_until_the_state_changes(broker: Mosquitto, tmp_path: Path) -> None:
    address = f"{broker.address}/words"
    well = Health("a", "temp", "healthy", "", 0, HOUR)
    faulty = replace(well, state="faulty", reason="drift", since=DAY)
    alert = Alert("a", "temp", "healthy", "faulty", "drift", DAY, 2 * DAY, "a temp turned faulty: it reads 6 high")

    def sentence() -> str:
        with retained(broker, "words/problem/#") as messages:
            wait_until(lambda: len(messages) == 1)
        (attributes,) = messages.values()
        return str(attributes["sentence"])

    with open_sink(address, settings(address, tmp_path)) as sink:
        sink.write(some(health=[well]))
        assert sentence() == "a temp is healthy since 1970-01-01 00:00"
        sink.write(some("alert", alerts=[alert]))
        sink.write(some("provisional", health=[faulty]))
        assert sentence() == alert.sentence
    # A restart has not lost it.
    with open_sink(address, settings(address, tmp_path)) as sink:
        sink.write(some(health=[faulty]))
        assert sentence() == alert.sentence
        sink.write(some(health=[replace(well, state="recovering", since=3 * DAY)]))
        assert sentence() == "a temp is recovering since 1970-01-04 00:00"


def test_the_value_is_the_newest_row_and_never_an_older_one(broker: Mosquitto, tmp_path: Path) -> None:
    address = f"{broker.address}/value"
    rows = network(2, 2, ("temp", "ph"))
    first, second = (rows.taken(rows.time // DAY == day) for day in np.unique(rows.time // DAY))
    early = second.taken(second.time < second.time.min() + 3 * HOUR)
    nothing = replace(
        early.taken(early.time == early.time.max()), cleaned=np.full(4, np.nan), time=early.time[:4] + DAY
    )
    with retained(broker, "value/latest/#") as messages, open_sink(address, settings(address, tmp_path)) as sink:
        sink.write(some("provisional", rows=early))
        wait_until(lambda: len(messages) == 4)
        assert {message["time"] for message in messages.values()} == {"2019-01-02T02:00:00Z"}
        sink.write(some(rows=first))
        with retained(broker, "value/latest/#") as stored:
            wait_until(lambda: len(stored) == 4)
        assert {message["time"] for message in stored.values()} == {"2019-01-02T02:00:00Z"}
        sink.write(some(rows=second))
        wait_until(lambda: messages["value/latest/s1/ph"]["time"] == "2019-01-02T23:00:00Z")
        last = second.taken(second.time == second.time.max())
        assert sorted(message["cleaned"] for message in messages.values()) == sorted(last.cleaned.tolist())
        sink.write(some("provisional", rows=nothing))
        wait_until(lambda: messages["value/latest/s1/ph"]["cleaned"] is None)


def test_it_is_for_a_broker(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="home_assistant is for results at a broker"):
        Settings.of(source="-", out=tmp_path / "out", home_assistant=True, sinks=["postgresql://host/db"])
    with pytest.raises(ConfigError, match="would read what is published"):
        Settings.of(source="mqtt://host/ha/latest/#", out=tmp_path / "out", sinks=["mqtt://host/ha"])


@pytest.mark.processes
def test_a_service_that_is_killed_is_unavailable_and_then_back(broker: Mosquitto, tmp_path: Path) -> None:
    words = (f"{broker.address}/city/{{sensor}}/{{variable}}", tmp_path / "out", *GRID, "--home-assistant",
             "--sink", f"{broker.address}/house1")  # fmt: skip
    client = paho.Client(paho.CallbackAPIVersion.VERSION2)
    client.connect("127.0.0.1", broker.port)
    client.loop_start()

    def send(hours: range) -> None:
        for hour in hours:
            for sensor in ("a", "b", "c"):
                time = (YEAR_2019 + hour * HOUR) // 1_000_000
                payload = json.dumps({"time": time, "value": 20 + np.sin(hour / 4)})
                client.publish(f"city/{sensor}/temp", payload, qos=1).wait_for_publish(10)

    with retained(broker, "house1/#", "homeassistant/#") as messages:
        with WatchProcess(*words) as running:
            running.connected()
            send(range(30))
            wait_until(lambda: "house1/latest/c/temp" in messages)
            assert messages["house1/status"] == "online"
            wait_until(
                lambda: {m["device"]["name"] for topic, m in list(messages.items()) if "config" in topic} >= {*"abc"}
            )
            running.kill()
            wait_until(lambda: messages["house1/status"] == "offline")
        with WatchProcess(*words) as running:
            running.connected()
            send(range(30, 33))
            wait_until(lambda: messages["house1/status"] == "online")
            assert running.stop() == 0
            wait_until(lambda: messages["house1/status"] == "offline")
            assert not running.lines_with("Traceback")
    client.disconnect()
    client.loop_stop()
