"""Publishers for `sensormend watch`, a proxy that can be cut, and comparisons with the archive of the same readings."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Self

import numpy as np
import paho.mqtt.client as paho
import polars
import psycopg
from paho.mqtt.enums import CallbackAPIVersion

from list_source import assert_same_rows, read_rows
from sensormend.archive.cleaning import clean_archive
from sensormend.io.folder import Archive
from sensormend.pipeline.options import Options
from sensormend.readings import DAY, HOUR, Readings
from servers import Mosquitto
from simulated_city import START, small_city, tensor_readings, write_csv
from waiting import wait_until

__all__ = [
    "Proxy",
    "ReferenceArchive",
    "assert_same_as_archive",
    "assert_same_table",
    "feed",
    "hourly_messages_of",
    "messages_of",
    "move_file_into",
    "publishing",
    "wait_for_end",
]  # fmt: skip

END = "that is all"
"""A message that is no reading: when it is refused, everything before it has been processed."""


class ReferenceArchive:
    """Readings to be published, and what `clean --one-pass` makes of those whose periods will be closed by them."""

    def __init__(self, readings: Readings, folder: Path, days: int) -> None:
        self.readings, self.days = readings, days
        closed = readings.taken(readings.time < START + days * DAY)
        file = write_csv(folder / "readings.csv", closed)
        clean_archive(file, folder / "archive", Options.of(step="1h", period="1d", one_pass=True))
        self.archive = folder / "archive"


def feed(sensors: int, days: int, *, silent: bool = False) -> Readings:
    """Return the readings of a city in which no sensor is silent for long, and two hours of the day after.

    Parameters
    ----------
    silent
        The last sensor reports nothing in the second half of the time.
    """
    city = small_city(sensors, days + 1)
    values = np.where(np.isnan(city.readings), city.truth, city.readings)
    values[np.random.default_rng(7).random(values.shape) < 0.03] = np.nan
    if silent:
        values[-1, :, days // 2 :] = np.nan
    readings = tensor_readings(values)
    readings = readings.taken(readings.time < START + days * DAY + 2 * HOUR)
    return readings.taken(np.lexsort((readings.sensor, readings.time)))


def messages_of(readings: Readings) -> Iterator[tuple[str, str]]:
    """Yield topic and payload of each reading."""
    times = readings.time.astype("datetime64[us]").astype("datetime64[s]")
    for sensor, moment, value in zip(readings.sensor.tolist(), times, readings.value.tolist(), strict=True):
        name = readings.sensors[sensor]
        yield f"city/{name}", json.dumps({"sensor": name, "time": f"{moment}Z", "value": value})


def hourly_messages_of(readings: Readings) -> Iterator[tuple[str, str]]:
    """Yield topic and payload of each hour."""
    payloads = [payload for _, payload in messages_of(readings)]
    edges = [0, *(np.flatnonzero(np.diff(readings.time)) + 1).tolist(), len(payloads)]
    for start, end in pairwise(edges):
        yield "city", f"[{', '.join(payloads[start:end])}]"


@contextmanager
def publishing(
    broker: Mosquitto, messages: Iterator[tuple[str, str | bytes]], seconds: float = 0.0, count: int = 0
) -> Iterator[Callable[[], None]]:
    """Publish in a thread, at QoS 1, and then `END`; give a function that waits until the broker has everything.

    Parameters
    ----------
    seconds, count
        The time for so many messages; as fast as possible by default, and as soon as the returned function is called.
    """
    client = paho.Client(CallbackAPIVersion.VERSION2)
    client.max_inflight_messages_set(500)
    client.reconnect_delay_set(1, 1)
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    stopped, hurried = threading.Event(), threading.Event()
    sent, confirmed = list[int](), list[int]()
    # What is published without a connection is sent later, but paho reports that it failed.
    client.on_publish = lambda client, userdata, number, *more: confirmed.append(number)

    def publish() -> None:
        start = time.monotonic()
        for number, (topic, payload) in enumerate([*messages, ("city/end", END)]):
            if count and (left := start + seconds * number / count - time.monotonic()) > 0:
                hurried.wait(left)
            # Wait for the connection: paho may send new messages before those that waited.
            while not client.is_connected() and not stopped.wait(0.005):
                pass
            if stopped.is_set():
                return
            sent.append(client.publish(topic, payload, qos=1).mid)

    thread = threading.Thread(target=publish)
    thread.start()

    def wait() -> None:
        hurried.set()
        thread.join(60)
        assert not thread.is_alive()
        wait_until(lambda: len(confirmed) >= len(sent), 30)

    try:
        yield wait
    finally:
        stopped.set()
        hurried.set()
        thread.join(30)
        client.disconnect()
        client.loop_stop()


def move_file_into(folder: Path, name: str, readings: Readings) -> None:
    """Move a complete file into a folder; its last change was an hour ago."""
    half = write_csv(folder / f"{name}.csv.part", readings)
    long_ago = time.time() - 3600 + float(readings.time.min()) / 1e14
    os.utime(half, (long_ago, long_ago))
    half.rename(folder / f"{name}.csv")


def wait_for_end(out: Path, seconds: float = 40) -> None:
    """Wait until the last message has been processed."""
    file = out / "rejected.csv"
    wait_until(lambda: file.exists() and END in file.read_text(errors="replace"), seconds)


def assert_same_as_archive(out: Path, network: ReferenceArchive) -> None:
    """Assert that the rows are those of the archive, bit by bit, and the faults its faults."""
    assert_same_rows(read_rows(out), read_rows(network.archive))
    live, whole = Archive(out), Archive(network.archive)
    assert sorted(map(str, live.faults())) == sorted(map(str, whole.faults()))


def assert_same_table(address: str, out: Path) -> None:
    """Assert that the table `mended` of a database has the rows of an OUT, and no other final ones."""
    columns = "sensor, time, value, n, cleaned, lower, upper, flag, reason, origin"
    with psycopg.connect(address) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        query = f"SELECT {columns} FROM mended WHERE NOT provisional ORDER BY sensor, time"
        stored = connection.execute(query).fetchall()
    rows = polars.read_parquet(out / "data" / "**" / "*.parquet").sort("sensor", "time")
    expected = rows.select(columns.split(", ")).rows()
    assert [(sensor, time.replace(tzinfo=None), *rest) for sensor, time, *rest in stored] == expected


class Proxy:
    """A TCP proxy before a broker, which can be cut."""

    def __init__(self, port: int) -> None:
        self._inner = port
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self.port = self._listen(0)

    def _listen(self, port: int) -> int:
        self._listener = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()
        return int(self._listener.getsockname()[1])

    def cut(self) -> None:
        """Close all connections, and refuse new ones."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            gone, self._open = self._open, set()
        for one in gone:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        """Accept connections again, at the same port."""
        self._listen(self.port)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            try:
                inner = socket.create_connection(("127.0.0.1", self._inner))
            except OSError:
                client.close()
                continue
            with self._lock:
                self._open |= {client, inner}
            for pair in ((client, inner), (inner, client)):
                threading.Thread(target=self._forward, args=pair, daemon=True).start()

    @staticmethod
    def _forward(source: socket.socket, target: socket.socket) -> None:
        with ExitStack() as stack:
            stack.callback(source.close)
            with suppress(OSError):
                while part := source.recv(65536):
                    target.sendall(part)
            for end in (source, target):
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.cut()
