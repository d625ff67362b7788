"""`KafkaSink` writes rows and the health of sensors to two topics of Kafka."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from sensormend.errors import ConfigError, RefusedError, SensormendError, one_line
from sensormend.stream.addresses import plain
from sensormend.stream.deliveries import Delivery, Kind, Sink
from sensormend.stream.kafka import KafkaCluster, import_kafka
from sensormend.stream.sinks.messages import ChangedHealth, health_message, json_bytes, row_messages, valid_text

__all__ = ["KafkaSink"]

CONFIRM_WITHIN = 20.0
"""Seconds for the cluster to confirm what waits; each confirmation begins them again."""


class KafkaSink(Sink):
    """Writes each row to a topic, and the health of a channel to another one, `TOPIC-health`.

    Both are JSON, and have the sensor as the key; the key of health is `SENSOR/VARIABLE` where the variable has a name,
    so that a compacted topic keeps the last state of every channel. Health is written when it has changed, and once
    after a restart. A delivery is done when all replicas have every record.

    Parameters
    ----------
    address
        `kafka://host:9092/topic`, as for a source.
    """

    kinds: Sequence[Kind] = ("final", "late", "provisional")

    def __init__(self, address: str) -> None:
        self._kafka = import_kafka()
        self._shown, cluster = plain(address), KafkaCluster.of(address)
        if len(cluster.topics) != 1:
            raise ConfigError(f"{self._shown}: what is published goes to one topic")
        self._topic = cluster.topics[0]
        self._settings = {
            **cluster.settings,
            "enable.idempotence": True,
            "linger.ms": 5,
            "message.timeout.ms": round(CONFIRM_WITHIN * 1000),
            "error_cb": lambda error: None,
        }
        self._producer: Any = None
        self._health = ChangedHealth()
        self._open()

    def write(self, delivery: Delivery) -> None:
        """Write a delivery and wait for the cluster."""
        records = list(self._rows(delivery))
        for health in self._health.of(delivery.health):
            key = f"{health.sensor}/{health.variable}" if health.variable else health.sensor
            records.append((f"{self._topic}-health", key, json_bytes(health_message(health))))
        try:
            self._produce(records)
        except BaseException:
            self.close()
            raise
        self._health.written()

    def _rows(self, delivery: Delivery) -> Iterator[tuple[str, str, bytes]]:
        if delivery.rows is not None:
            provisional = delivery.kind == "provisional"
            for sensor, _, message in row_messages(delivery.rows, provisional=provisional):
                yield self._topic, sensor, json_bytes(message)

    def _produce(self, records: Sequence[tuple[str, str, bytes]]) -> None:
        errors: list[Any] = []
        if self._producer is None:
            self._open()
        producer, confirmed = self._producer, 0

        def on_delivery(error: Any, record: Any) -> None:
            nonlocal confirmed
            confirmed += 1
            if error is not None and len(errors) < 10:
                errors.append(error)

        for topic, key, content in records:
            while True:
                try:
                    producer.produce(topic, content, valid_text(key).encode(), on_delivery=on_delivery)
                    break
                except BufferError:
                    producer.poll(0.1)  # the queue of the library is full
                except self._kafka.KafkaException as error:
                    kind = RefusedError if self._is_permanent(error.args[0]) else SensormendError
                    raise kind(f"{self._shown}: {one_line(error)}") from None
            producer.poll(0)
        seen, end = confirmed, time.monotonic() + CONFIRM_WITHIN
        while confirmed < len(records) and not errors:
            producer.poll(0.2)
            if confirmed > seen:
                seen, end = confirmed, time.monotonic() + CONFIRM_WITHIN
            elif time.monotonic() > end:
                raise SensormendError(f"{self._shown}: the cluster has not answered for {CONFIRM_WITHIN:g} s")
        if errors:
            kind = RefusedError if self._is_permanent(errors[0]) else SensormendError
            raise kind(f"{self._shown}: {errors[0].str()}")

    def _is_permanent(self, error: Any) -> bool:
        """Return whether the record causes the error."""
        codes = self._kafka.KafkaError
        return error.code() in (
            codes.MSG_SIZE_TOO_LARGE,
            codes.INVALID_MSG,
            codes.INVALID_RECORD,
            codes.TOPIC_EXCEPTION,
            codes.TOPIC_AUTHORIZATION_FAILED,
            codes.CLUSTER_AUTHORIZATION_FAILED,
        )

    def _open(self) -> None:
        try:
            self._producer = self._kafka.Producer(self._settings)
        except (self._kafka.KafkaException, ValueError) as error:
            raise ConfigError(f"{self._shown}: {one_line(error)}") from None

    def close(self) -> None:
        """Drop unconfirmed records, which are delivered again, and disconnect."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
            producer.flush(1.0)
