"""What publishes into a `sensormend watch`, what gets in its way, and what must come out all the same."""

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
from sensormend.io.folder import Archive
from sensormend.io.options import Options
from sensormend.pipeline.archive import clean_archive
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
"""A message that nobody takes for a reading: when it is refused, everything before it has been taken in."""


class ReferenceArchive:
    """Readings to be published, and what `clean --one-pass` makes of those whose periods will be closed by them."""

    def __init__(self, readings: Readings, folder: Path, days: int) -> None:
        self.readings, self.days = readings, days
        closed = readings.taken(readings.time < START + days * DAY)
        file = write_csv(folder / "readings.csv", closed)
        clean_archive(file, folder / "archive", Options.of(step="1h", period="1d", one_pass=True))
        self.archive = folder / "archive"


def feed(sensors: int, days: int, *, silent: bool = False) -> Readings:
    """Return the readings of a city of whom nobody is silent for long, and two hours of the day after.

    Parameters
    ----------
    silent
        The last sensor says nothing any more when half of the time is over.
    """
    city = small_city(sensors, days + 1)
    said = np.where(np.isnan(city.readings), city.truth, city.readings)
    said[np.random.default_rng(7).random(said.shape) < 0.03] = np.nan
    if silent:
        said[-1, :, days // 2 :] = np.nan
    readings = tensor_readings(said)
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
    """Publish in a thread, at QoS 1, and then say that this is all; give what waits until the broker has everything.

    Parameters
    ----------
    seconds, count
        How long to take for so many; as fast as possible by default, and from when on somebody waits for the end.
    """
    client = paho.Client(CallbackAPIVersion.VERSION2)
    client.max_inflight_messages_set(500)
    client.reconnect_delay_set(1, 1)
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    stopped, hurried = threading.Event(), threading.Event()
    sent, confirmed = list[int](), list[int]()
    # One that is published while there is no connection is sent later, but its own word for it is that it failed.
    client.on_publish = lambda client, told, number, *more: confirmed.append(number)

    def publish() -> None:
        began = time.monotonic()
        for number, (topic, payload) in enumerate([*messages, ("city/end", END)]):
            if count and (left := began + seconds * number / count - time.monotonic()) > 0:
                hurried.wait(left)
            # As one who stores and forwards: paho may send what is new before what has waited.
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
    """Have a file in a folder, all of it at once; nobody has written to it for an hour."""
    half = write_csv(folder / f"{name}.csv.part", readings)
    long_ago = time.time() - 3600 + float(readings.time.min()) / 1e14
    os.utime(half, (long_ago, long_ago))
    half.rename(folder / f"{name}.csv")


def wait_for_end(out: Path, seconds: float = 40) -> None:
    """Wait until the last message has been taken in."""
    file = out / "rejected.csv"
    wait_until(lambda: file.exists() and END in file.read_text(errors="replace"), seconds)


def assert_same_as_archive(out: Path, network: ReferenceArchive) -> None:
    """Hold the rows to be those of the archive, bit by bit, and the faults to be its faults."""
    assert_same_rows(read_rows(out), read_rows(network.archive))
    live, whole = Archive(out), Archive(network.archive)
    assert sorted(map(str, live.faults())) == sorted(map(str, whole.faults()))


def assert_same_table(address: str, out: Path) -> None:
    """Hold the table `mended` of a database to have the rows of an OUT, and no others that are final."""
    columns = "sensor, time, value, n, cleaned, lower, upper, flag, reason, origin"
    with psycopg.connect(address) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        query = f"SELECT {columns} FROM mended WHERE NOT provisional ORDER BY sensor, time"
        found = connection.execute(query).fetchall()
    rows = polars.read_parquet(out / "data" / "**" / "*.parquet").sort("sensor", "time")
    expected = rows.select(columns.split(", ")).rows()
    assert [(sensor, time.replace(tzinfo=None), *rest) for sensor, time, *rest in found] == expected


class Proxy:
    """Stands between somebody and a broker, as a network does, and can be cut."""

    def __init__(self, port: int) -> None:
        self._inner = port
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self.port = self._listen(0)

    def _listen(self, port: int) -> int:
        self._door = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._guard, args=(self._door,), daemon=True).start()
        return int(self._door.getsockname()[1])

    def cut(self) -> None:
        """Break all connections, and let nobody in."""
        self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()
        with self._lock:
            gone, self._open = self._open, set()
        for one in gone:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        """Let people in again, at the same port."""
        self._listen(self.port)

    def _guard(self, door: socket.socket) -> None:
        while True:
            try:
                guest, _ = door.accept()
            except OSError:
                return
            try:
                inner = socket.create_connection(("127.0.0.1", self._inner))
            except OSError:
                guest.close()
                continue
            with self._lock:
                self._open |= {guest, inner}
            for pair in ((guest, inner), (inner, guest)):
                threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    @staticmethod
    def _pass_on(one: socket.socket, other: socket.socket) -> None:
        with ExitStack() as stack:
            stack.callback(one.close)
            with suppress(OSError):
                while part := one.recv(65536):
                    other.sendall(part)
            for end in (one, other):
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *told: object) -> None:
        self.cut()
