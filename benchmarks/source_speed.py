"""Readings per second, until decoded, from PostgreSQL, Kafka and HTTP: `python benchmarks/source_speed.py`.

PostgreSQL is a real server, Kafka the cluster that librdkafka runs inside a client. A table and a topic are filled
first and read then; batches of line protocol are sent by one sender that waits for each answer.
"""

from __future__ import annotations

import argparse
import http.client
import json
import sys
import threading
import time
from pathlib import Path

from confluent_kafka import Producer

from sensormend.stream.arrivals import Source
from sensormend.stream.sources.influx_source import InfluxSource
from sensormend.stream.sources.kafka_source import KafkaSource
from sensormend.stream.sources.postgres_source import PostgresSource

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "helpers"))
import servers
from servers import running_postgres

SENSORS = 1_000
START = 1_704_067_200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--readings", type=int, default=200_000)
    parser.add_argument("--batch", type=int, default=1_000, help="lines of a batch over HTTP")
    args = parser.parse_args()
    servers.marks.add("server")
    for name, measure in (("a table", table), ("a topic", topic)):
        print(f"{name:24}{measure(args.readings):>12,.0f} readings per second")
    print(f"{'line protocol':24}{lines(args.readings, args.batch):>12,.0f} readings per second")


def drained(source: Source, count: int) -> float:
    """Return the readings per second until so many have come."""
    begin, seen = time.perf_counter(), 0
    while seen < count:
        arrived = source.read(0.25)
        assert arrived is not None
        seen += len(arrived.readings)
        arrived.acknowledge()
    return seen / (time.perf_counter() - begin)


def table(count: int) -> float:
    import psycopg

    with running_postgres() as address:
        with psycopg.connect(address, autocommit=True) as server:
            server.execute("CREATE TABLE feed (id bigserial PRIMARY KEY, sensor text, time timestamptz, value float8)")
            server.execute(
                "INSERT INTO feed (sensor, time, value) SELECT 's' || i %% %s::int, "
                "to_timestamp(%s + i / %s::int * 600), i FROM generate_series(0, %s::int - 1) i",
                [SENSORS, START, SENSORS, count],
            )
        with PostgresSource(f"{address}?table=feed") as source:
            return drained(source, count)


def topic(count: int) -> float:
    holder = Producer({"bootstrap.servers": "none", "test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = holder.list_topics(timeout=10).brokers.values()
    producer = Producer({"bootstrap.servers": f"{broker.host}:{broker.port}", "log_level": 0, "linger.ms": 50})
    for number in range(count):
        moment = START + number // SENSORS * 600
        message = json.dumps({"sensor": f"s{number % SENSORS}", "time": moment, "value": number})
        while True:
            try:
                producer.produce("feed", message, f"s{number % SENSORS}", timestamp=moment * 1000)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush(60)
    with KafkaSource(f"kafka://{broker.host}:{broker.port}/feed") as source:
        return drained(source, count)


def lines(count: int, batch: int) -> float:
    with InfluxSource("influx://127.0.0.1:0") as source:

        def send() -> None:
            for start in range(0, count, batch):
                body = "\n".join(
                    f"weather,sensor=s{number % SENSORS} value={number} {START + number // SENSORS * 600}"
                    for number in range(start, start + batch)
                )
                connection = http.client.HTTPConnection("127.0.0.1", source.port, timeout=30)
                connection.request("POST", "/write?precision=s", body)
                assert connection.getresponse().status == 204
                connection.close()

        thread = threading.Thread(target=send)
        thread.start()
        rate = drained(source, count)
        thread.join()
        return rate


if __name__ == "__main__":
    main()
