"""`KafkaSource` reads topics of Kafka, in the order of the records' times across partitions."""

from __future__ import annotations

import logging
import socket
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sensormend.errors import ConfigError, one_line
from sensormend.pipeline.options import Options
from sensormend.readings import NOTHING
from sensormend.stream.addresses import plain
from sensormend.stream.arrivals import Arrived, Source, clock
from sensormend.stream.formats.decoding import Decoder
from sensormend.stream.kafka import KafkaCluster, import_kafka
from sensormend.stream.logs import ConditionLog, say

__all__ = ["KafkaSource"]

MOST_AT_ONCE = 5_000
"""The number of records that are taken at once."""

MOST_BUFFERED = 2_000
"""The number of records of a partition that wait for those of others; beyond it the partition is paused until a quarter
of them is left."""

WAIT_FOR_PARTITION = 5.0
"""Seconds for which records wait for a partition about which nothing is known; it may have no leader."""

CHECK_INTERVAL, CHECK_WITHIN, CONNECT_WITHIN = 5.0, 1.0, 10.0
"""Seconds between two checks whether a lost cluster or topic is back, for the check, and for the first connection."""

PARTITIONS_INTERVAL = 60.0
"""Seconds between two checks for new partitions."""

MOST_PROBLEMS = 100
"""The maximum number of different errors that are logged."""

Place = tuple[str, int]
"""A topic and a partition."""

_log = logging.getLogger("sensormend.stream")


class KafkaSource(Source):
    """The records of topics, `kafka://host:9092/topic`.

    A record is a message as of a broker of MQTT: its key, where it has one, stands for the topic there, whose last
    level is the sensor of a message that names none. A reading without a time has that of its record. Offsets are
    committed when the batch is on disk; OUT has them as well, and goes on from there, so that each record counts once.
    All partitions are read by this source, which therefore joins no group: after a crash nobody waits for its session.

    Where a backlog is read, records of several partitions come in the order of their times, so that the readings of
    one partition are not late for those of another.

    Parameters
    ----------
    mark
        The next offset of each partition that is on disk.
    group
        The consumer group whose offsets are committed, where the address has none.
    lasting
        Whether offsets are committed.
    """

    def __init__(
        self,
        address: str,
        options: Options | None = None,
        *,
        mark: Mapping[str, Mapping[str, int]] | None = None,
        group: str | None = None,
        form: str | None = None,
        lasting: bool = True,
    ) -> None:
        self._lasting = lasting
        self._kafka = import_kafka()
        self._shown = plain(address)
        cluster = KafkaCluster.of(address)
        self.decoder = Decoder(options, form=form)
        self.units = self.decoder.units
        self._offsets: dict[Place, int] = {
            (topic, int(partition)): offset
            for topic, partitions in (mark or {}).items()
            for partition, offset in partitions.items()
        }
        self._buffers: dict[Place, deque[Any]] = {}
        self._newest: dict[Place, int] = {}
        self._ended: set[Place] = set()
        self._paused: set[Place] = set()
        self._incomplete_since: float | None = None
        self._check_at = 0.0
        self._denied = ""
        self._problems: set[str] = set()
        self._outage = ConditionLog(_log, f"no connection to {self._shown}", f"connected to {self._shown} again")
        settings = {
            **cluster.settings,
            "group.id": cluster.group or group or f"sensormend-{socket.gethostname()}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            # While the disk is full nothing is taken; this is what the library may hold of each partition.
            "queued.max.messages.kbytes": 4096,
            "auto.offset.reset": "earliest",
            # A check waits behind the request for records, which a broker without new ones holds for so long.
            "fetch.wait.max.ms": 100,
            "error_cb": self._on_error,
        }
        self._topics = cluster.topics
        try:
            self._consumer = self._kafka.Consumer(settings)
        except (self._kafka.KafkaException, ValueError) as error:
            raise ConfigError(f"{self._shown}: {one_line(error)}") from None
        self._check(CONNECT_WITHIN)
        if self._denied:
            self.close()
            raise ConfigError(f"{self._shown}: {self._denied}")

    def read(self, wait: float) -> Arrived:
        """Return the new inputs; see `Source.read`."""
        end = time.monotonic() + wait
        if time.monotonic() >= self._check_at:
            self._check(CHECK_WITHIN)
        while True:
            remaining = max(end - time.monotonic(), 0.0)
            first = self._consumer.poll(remaining)
            if first is not None:
                self._add([first, *self._consumer.consume(MOST_AT_ONCE, 0)])
            records = self._ready()
            if records:
                return self._decoded(records)
            if time.monotonic() >= end:
                return Arrived(NOTHING, clock())

    def _add(self, records: Iterable[Any]) -> None:
        """Sort records into the buffers of their partitions."""
        for record in records:
            place: Place = (record.topic(), record.partition())
            error = record.error()
            if error is None:
                self._recovered()
                if place in self._buffers:
                    self._buffers[place].append(record)
                    self._newest[place] = max(self._newest.get(place, 0), record.timestamp()[1])
                    self._ended.discard(place)
            elif error.code() == self._kafka.KafkaError._PARTITION_EOF:
                self._recovered()
                self._ended.add(place)
            else:
                self._problem(error)
        full = [place for place, buffer in self._buffers.items() if len(buffer) > MOST_BUFFERED]
        self._pause([place for place in full if place not in self._paused], paused=True)

    def _ready(self) -> list[Any]:
        """Return, in the order of their times, the records that no record of another partition can precede."""
        waiting = [place for place, buffer in self._buffers.items() if buffer]
        if not waiting:
            self._incomplete_since = None
            return []
        open_places = [place for place in self._buffers if place not in self._ended]
        unknown = [place for place in open_places if not self._buffers[place]]
        if unknown:
            self._incomplete_since = self._incomplete_since or time.monotonic()
            if time.monotonic() - self._incomplete_since < WAIT_FOR_PARTITION:
                return []
            open_places = [place for place in open_places if place not in unknown]
        else:
            self._incomplete_since = None
        until = min((self._newest[place] for place in open_places), default=None)
        records: list[Any] = []
        for place in waiting:
            buffer = self._buffers[place]
            while buffer and (until is None or buffer[0].timestamp()[1] <= until):
                records.append(buffer.popleft())
        low = [place for place in self._paused if len(self._buffers.get(place, ())) < MOST_BUFFERED // 4]
        self._pause(low, paused=False)
        records.sort(key=lambda record: record.timestamp()[1])
        return records

    def _pause(self, places: Sequence[Place], *, paused: bool) -> None:
        if not places:
            return
        partitions = [self._kafka.TopicPartition(*place) for place in places]
        if paused:
            self._consumer.pause(partitions)
            self._paused.update(places)
        else:
            self._consumer.resume(partitions)
            self._paused.difference_update(places)

    def _decoded(self, records: Sequence[Any]) -> Arrived:
        received = clock()
        for record in records:
            place: Place = (record.topic(), record.partition())
            kind, milliseconds = record.timestamp()
            moment = received if kind == self._kafka.TIMESTAMP_NOT_AVAILABLE else milliseconds * 1000
            key = record.key()
            topic = key.decode(errors="replace") if isinstance(key, bytes) else key
            where = f"{record.topic()}, partition {record.partition()}, offset {record.offset()}"
            value = record.value()
            # Without a value it is a deletion of its key.
            if value is not None:
                self.decoder.add(value, moment, topic, where)
            self._offsets[place] = record.offset() + 1
        readings, rejected, positions = self.decoder.take()
        mark: dict[str, dict[str, int]] = {}
        for (topic, partition), offset in self._offsets.items():
            mark.setdefault(topic, {})[str(partition)] = offset
        places = dict.fromkeys((record.topic(), record.partition()) for record in records)
        stored = [self._kafka.TopicPartition(*place, self._offsets[place]) for place in places]
        return Arrived(readings, received, rejected, positions, mark, lambda: self._commit(stored))

    def _commit(self, stored: Sequence[Any]) -> None:
        if not self._lasting:
            return
        try:
            self._consumer.commit(offsets=list(stored), asynchronous=True)
        except self._kafka.KafkaException:
            return  # OUT has them; the group gets the next ones

    def _on_error(self, error: Any) -> None:
        if error.code() == self._kafka.KafkaError._AUTHENTICATION:
            self._denied = error.str()
        if error.code() in (self._kafka.KafkaError._ALL_BROKERS_DOWN, self._kafka.KafkaError._AUTHENTICATION):
            self._lost(error.str())

    def _check(self, within: float) -> None:
        """Ask the cluster for the partitions of the topics, and read those that are new."""
        places: list[Place] = []
        try:
            for topic in self._topics:
                known = self._consumer.list_topics(topic, timeout=within).topics[topic]
                places += ((topic, partition) for partition in known.partitions)
                if known.error is not None:
                    self._problem(known.error)
        except self._kafka.KafkaException as error:
            self._lost(error.args[0].str())
            return
        self._recovered()
        if any(place not in self._buffers for place in places):
            # What was fetched and not returned is fetched again.
            self._buffers = {place: deque() for place in places}
            self._ended, self._paused, self._newest = set(), set(), {}
            stored = self._kafka.OFFSET_STORED
            offsets = [(*place, self._offsets.get(place, stored)) for place in places]
            self._consumer.assign([self._kafka.TopicPartition(*entry) for entry in offsets])
        complete = {topic for topic, _ in places} == set(self._topics)
        self._check_at = time.monotonic() + (PARTITIONS_INTERVAL if complete else CHECK_INTERVAL)

    def _problem(self, error: Any) -> None:
        """Log an error once."""
        if len(self._problems) < MOST_PROBLEMS and error.str() not in self._problems:
            self._problems.add(error.str())
            say(_log, logging.WARNING, f"{self._shown}: {error.str()}")

    def _lost(self, reason: str) -> None:
        self.connected = False
        self._check_at = time.monotonic() + CHECK_INTERVAL
        self._outage.begin(error=reason)

    def _recovered(self) -> None:
        self.connected = True
        self._outage.end()

    def close(self) -> None:
        """Disconnect; uncommitted records are read again after the next start."""
        self._consumer.close()
