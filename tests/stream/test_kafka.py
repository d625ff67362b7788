"""Topics of Kafka as source and sink, at a cluster that librdkafka runs inside a client."""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from row_tables import YEAR_2019, network
from sensormend.errors import ConfigError, RefusedError, SensormendError
from sensormend.pipeline.health import Health
from sensormend.readings import DAY, HOUR
from sensormend.stream.arrivals import Arrived
from sensormend.stream.deliveries import Delivery, Kind
from sensormend.stream.settings import Settings
from sensormend.stream.sinks import kafka_sink, open_sink
from sensormend.stream.sources import kafka_source, open_source
from sensormend.stream.sources.kafka_source import KafkaSource
from servers import free_port
from staged_readings import as_list
from torture import END, ReferenceArchive, assert_same_as_archive, feed, messages_of, wait_for_end
from watch_process import GRID, ForkServer, WatchProcess

kafka = pytest.importorskip("confluent_kafka")

pytestmark = pytest.mark.server

LATER = 1_714_565_640_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """Give the address of a cluster of one broker; a topic has four partitions."""
    holder = kafka.Producer({"bootstrap.servers": "none", "test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = holder.list_topics(timeout=10).brokers.values()
    yield f"{broker.host}:{broker.port}"
    holder.flush(1)


def send(cluster: str, topic: str, *records: tuple[str | None, Any, int]) -> None:
    """Send records of key, value and time in milliseconds."""
    producer = kafka.Producer({"bootstrap.servers": cluster, "log_level": 0})
    for key, value, moment in records:
        while True:
            try:
                producer.produce(topic, value if isinstance(value, bytes) else json.dumps(value), key, timestamp=moment)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(20) == 0


def read_all(source: KafkaSource, count: int, on: Callable[[Arrived], None] = lambda arrived: None) -> list[Arrived]:
    """Read until so many readings and rejections have come."""
    arrivals: list[Arrived] = []
    seen, end = 0, time.monotonic() + 20
    while seen < count and time.monotonic() < end:
        arrived = source.read(0.2)
        if not arrived.empty:
            arrivals.append(arrived)
            on(arrived)
            seen += len(arrived.readings) + len(arrived.rejected)
    assert seen == count
    return arrivals


def values_of(arrivals: list[Arrived]) -> list[float]:
    return [value for arrived in arrivals for value in arrived.readings.value.tolist()]


def records_of(cluster: str, topic: str, count: int) -> list[Any]:
    """Return the first records of a topic."""
    reader = kafka.Consumer(
        {
            "bootstrap.servers": cluster,
            "group.id": f"test-{time.time_ns()}",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    reader.subscribe([topic])
    records: list[Any] = []
    end = time.monotonic() + 20
    while len(records) < count and time.monotonic() < end:
        record = reader.poll(0.2)
        if record is not None and record.error() is None:
            records.append(record)
    reader.close()
    assert len(records) == count
    return records


def test_records_are_messages_with_their_key_as_the_topic(cluster: str) -> None:
    send(
        cluster,
        "kinds",
        ("S1", {"sensor": "S9", "time": "2024-05-01T12:00:00Z", "value": 1}, LATER),
        ("city/S1", b"2.5", LATER + 1),
        (None, b"3.5", LATER + 2),
        ("S1", b"nonsense", LATER + 3),
        ("S2", [{"sensor": "a", "temp": 4}, {"sensor": "b", "temp": 5}], LATER + 4),
    )
    with open_source(f"kafka://{cluster}/kinds?group=kinds", work=Path("nowhere")) as source:
        assert isinstance(source, KafkaSource)
        arrivals = read_all(source, 6)
    entries = [entry for arrived in arrivals for entry in as_list(arrived.readings)]
    assert entries == [
        ("S9", "", 1_714_564_800_000_000, 1.0),
        ("S1", "", (LATER + 1) * 1000, 2.5),
        ("a", "temp", (LATER + 4) * 1000, 4.0),
        ("b", "temp", (LATER + 4) * 1000, 5.0),
    ]
    rejected = [one for arrived in arrivals for one in arrived.rejected]
    assert sorted(one.reason for one in rejected) == ["neither JSON nor a number", "no sensor"]
    assert all(one.where.startswith("kinds, partition ") for one in rejected)


def test_a_backlog_comes_in_the_order_of_its_times(cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_source, "MOST_BUFFERED", 50)
    count = 4000
    # Each sensor is in one partition, and all have the same times.
    send(
        cluster,
        "backlog",
        *((sensor, str(n).encode(), LATER + 1000 * n) for n in range(count // 8) for sensor in "abcdefgh"),
    )
    with KafkaSource(f"kafka://{cluster}/backlog?group=backlog") as source:
        arrivals = read_all(source, count)
    times = np.concatenate([arrived.readings.time for arrived in arrivals])
    assert (np.maximum.accumulate(times) - times).max() == 0
    assert sorted(values_of(arrivals)) == sorted(float(n) for n in range(count // 8) for _ in range(8))


def test_what_is_not_acknowledged_comes_again(cluster: str) -> None:
    send(cluster, "again", *(("a", str(n).encode(), LATER + n) for n in range(10)))
    address = f"kafka://{cluster}/again?group=again"
    with KafkaSource(address) as source:
        (arrived, *_) = read_all(source, 10)
    with KafkaSource(address) as source:
        assert values_of(read_all(source, 10, lambda arrived: arrived.acknowledge())) == [float(n) for n in range(10)]
        time.sleep(0.5)
        send(cluster, "again", ("a", b"10", LATER + 10))
    with KafkaSource(address) as source:
        assert values_of(read_all(source, 1)) == [10.0]
    # What OUT has is more than what was committed, and counts.
    with KafkaSource(address.replace("group=again", "group=other"), mark=arrived.mark) as source:
        assert values_of(read_all(source, 1)) == [10.0]


def test_a_probe_commits_nothing(cluster: str) -> None:
    send(cluster, "probed", ("a", b"1", LATER))
    for _ in range(2):
        with KafkaSource(f"kafka://{cluster}/probed?group=probed", lasting=False) as source:
            read_all(source, 1, lambda arrived: arrived.acknowledge())


def test_several_topics_and_one_that_comes_later(cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    send(cluster, "water", ("a", b"1", LATER))
    monkeypatch.setattr(kafka_source, "CHECK_INTERVAL", 0.3)
    with KafkaSource(f"kafka://{cluster}/water,snow?group=several") as source:
        assert values_of(read_all(source, 1)) == [1.0]
        send(cluster, "snow", ("b", b"7", LATER))
        assert values_of(read_all(source, 1)) == [7.0]
        # A deletion is no message.
        producer = kafka.Producer({"bootstrap.servers": cluster, "log_level": 0})
        producer.produce("water", None, "a")
        producer.flush(10)
        send(cluster, "water", ("a", b"2", LATER))
        assert values_of(read_all(source, 1)) == [2.0]


def test_a_cluster_that_is_not_there() -> None:
    started = time.monotonic()
    kafka_source.CONNECT_WITHIN, before = 1.0, kafka_source.CONNECT_WITHIN
    try:
        with KafkaSource(f"kafka://127.0.0.1:{free_port()}/x") as source:
            assert not source.connected
            assert source.read(0.1).empty
    finally:
        kafka_source.CONNECT_WITHIN = before
    assert time.monotonic() - started < 10


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("kafka://host", "topics of Kafka are like"),
        ("kafka:///topic", "topics of Kafka are like"),
        ("kafka://host/a/b", "topics of Kafka are like"),
        ("kafka://host/topic?colour=red", "there is no 'colour'"),
        ("kafka://me:hush@host/topic?mechanism=MAGIC", "MAGIC"),
        ("kafka://host/topic?password_file=/nowhere", "password_file cannot be read"),
        ("kafkas://host/topic?ca=/nowhere", "nowhere"),
    ],
)
def test_wrong_addresses(address: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as failed:
        KafkaSource(address)
    assert "hush" not in str(failed.value)
    with pytest.raises(ConfigError, match=why):
        open_sink(address)


def test_a_topic_is_not_its_own_source() -> None:
    with pytest.raises(ConfigError, match="would read what is written"):
        Settings.of(source="kafka://one,two/a,b", out="out", sinks=["kafka://two:9092/b"])
    shown = Settings.of(source="kafka://me:hush@one/a", out="out", sinks=["kafka://me:hush@one/b"], format="ttn")
    assert "hush" not in json.dumps(shown.to_dict())


def some(kind: Kind = "final", **parts: Any) -> Delivery:
    return Delivery(kind, YEAR_2019, YEAR_2019 + DAY, **parts)


def test_rows_and_health_are_records(cluster: str) -> None:
    rows = network(1, 2, ("pm", ""))
    well = Health("a", "t", "healthy", "", 0, HOUR)
    with open_sink(f"kafka://{cluster}/mended") as sink:
        sink.write(some(rows=rows, health=[well, Health("half\ud800", "", "silent", "", DAY, None)]))
        sink.write(some("provisional", health=[replace(well, heard=2 * HOUR)]))
        sink.write(some("provisional", rows=rows.taken(slice(0, 1)), health=[replace(well, state="faulty")]))
    records = records_of(cluster, "mended", len(rows) + 1)
    messages = [json.loads(record.value()) for record in records]
    assert all(record.key().decode() == message["sensor"] for record, message in zip(records, messages, strict=True))
    assert sum(message["provisional"] for message in messages) == 1
    stored = {(m["sensor"], m["variable"], m["time"]): m["cleaned"] for m in messages if not m["provisional"]}
    assert len(stored) == len(rows)
    # The records of a sensor are in their order.
    times = [m["time"] for m in messages if (m["sensor"], m["variable"]) == ("s1", "pm") and not m["provisional"]]
    assert times == sorted(times)
    states = [
        (record.key().decode(), json.loads(record.value())["state"])
        for record in records_of(cluster, "mended-health", 3)
    ]
    assert sorted(states) == [("a/t", "faulty"), ("a/t", "healthy"), ("half\ufffd", "silent")]


def test_a_record_that_is_too_large_is_refused(cluster: str) -> None:
    row = network(1, 1).taken(slice(0, 1))
    with open_sink(f"kafka://{cluster}/large") as sink:
        with pytest.raises(RefusedError):
            sink.write(some(rows=replace(row, sensors=("x" * 2_000_000,))))
        sink.write(some(rows=row))
    assert len(records_of(cluster, "large", 1)) == 1


def test_a_cluster_that_is_away_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_sink, "CONFIRM_WITHIN", 1.0)
    with open_sink(f"kafka://me:hush@127.0.0.1:{free_port()}/x") as sink, pytest.raises(SensormendError) as failed:
        sink.write(some(rows=network(1, 1)))
    assert not isinstance(failed.value, RefusedError)
    assert "hush" not in str(failed.value)


SENSORS, DAYS, KILLS = 8, 16, 12


@pytest.mark.processes
def test_killed_at_random_moments(cluster: str, tmp_path: Path) -> None:
    """Every record is in OUT exactly once: the rows are those of the archive, bit by bit."""
    reference = ReferenceArchive(feed(SENSORS, DAYS), tmp_path, DAYS)
    messages = list(messages_of(reference.readings))
    chance, out, log = random.Random(6), tmp_path / "out", tmp_path / "log"
    words = (f"kafka://{cluster}/killed", out, *GRID)
    with ForkServer() as processes:
        parts = np.array_split(np.arange(len(messages)), KILLS)
        for part in parts:
            moments = reference.readings.time[part] // 1000
            records = zip((messages[place] for place in part), moments.tolist(), strict=True)
            send(cluster, "killed", *((topic, payload.encode(), moment) for (topic, payload), moment in records))
            number = processes.watch(*words, log=log, checkpoint=0.15)
            time.sleep(chance.uniform(0.3, 1.5))
            assert processes.kill(number), log.read_text()
        send(cluster, "killed", ("city/end", END.encode(), LATER * 2))
        with WatchProcess(*words) as last:
            last.connected()
            wait_for_end(out)
            assert last.stop() == 0
            assert not last.lines_with("Traceback")
    assert (out / "rejected.csv").read_text().count(END) == 1
    assert_same_as_archive(out, reference)


def test_without_confluent_kafka_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    for opened in (KafkaSource, open_sink):
        with pytest.raises(SensormendError, match=r"pip install 'sensormend\[kafka\]'"):
            opened("kafka://host/x")
