"""A `sensormend watch` of its own process, what publishes into it, and what gets in its way."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import paho.mqtt.client as paho
import polars
import psycopg
from paho.mqtt.enums import CallbackAPIVersion

import post
from feeds import START, made_of, small_city, write_csv
from given import contents, same_rows
from sensormend.archive import clean_archive
from sensormend.io.folder import Archive
from sensormend.options import Options
from sensormend.readings import DAY, HOUR, Readings
from servers import Mosquitto

__all__ = [
    "GRID", "Network", "Nursery", "Proxy", "Watch", "ended", "feed", "file_that_appears", "hourly_messages_of",
    "messages_of", "publishing", "same_as_the_archive", "same_table", "until",
]  # fmt: skip

GRID = ("--step", "1h", "--period", "1d")
END = "that is all"
"""A message that nobody takes for a reading: when it is refused, everything before it has been taken in."""

STARTED = (
    "import sys; import sensormend.live.service as service; from sensormend.cli import main; "
    "service.CHECKPOINT = float(sys.argv[1]); sys.exit(main(sys.argv[2:]))"
)


class Watch:
    """`sensormend watch` in a process of its own.

    Parameters
    ----------
    words
        What is typed after `watch`.
    checkpoint
        Seconds between two checkpoints, where they should be more frequent than anybody would have them.
    given
        What is on its standard input; nothing by default.

    Attributes
    ----------
    said
        The lines that it has said on standard error.
    """

    def __init__(self, *words: str | Path, checkpoint: float | None = None, given: int = subprocess.DEVNULL) -> None:
        program = [str(Path(sys.executable).with_name("sensormend"))]
        if checkpoint is not None:
            program = [sys.executable, "-c", STARTED, str(checkpoint)]
        self.said: list[str] = []
        # A pipe: a file would be as full as the disk is where a test says that it is.
        self.process = subprocess.Popen(
            [*program, "watch", *map(str, words), "--metrics", "127.0.0.1:0"],
            stdin=given, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )  # fmt: skip
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.wait()
        if error is not None:
            sys.stderr.write("".join(f"watch: {line}\n" for line in self.said))

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line.rstrip("\n"))

    def saying(self, text: str) -> list[str]:
        """Return the lines that say this."""
        return [line for line in self.said if text in line]

    def wait(self, seconds: float = 30) -> int:
        """Return its exit code when it has ended."""
        code = self.process.wait(seconds)
        self._listener.join(5)
        assert self.process.stderr is not None
        self.process.stderr.close()
        return code

    def stop(self) -> int:
        """Ask it to end as an operator does, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        """End it with no warning."""
        self.process.kill()
        self.wait()

    @property
    def page(self) -> str:
        """Where its figures are, when it has said so."""
        until(lambda: bool(self.saying("figures are shown")) or self.process.poll() is not None)
        found = re.search(r"http://[\d.:]+", self.saying("figures are shown")[0])
        assert found
        return found[0]

    def health(self) -> tuple[int, dict[str, Any]]:
        """Return what it says of itself: the status, and why."""
        try:
            with urllib.request.urlopen(f"{self.page}/healthz", timeout=5) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def figures(self) -> dict[str, float]:
        """Return its figures by name and labels."""
        with urllib.request.urlopen(f"{self.page}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[:1] != "#")}

    def connected(self) -> None:
        """Wait until it is in touch with its source: from then on a broker keeps for it whatever comes."""
        until(lambda: self.process.poll() is None and self.figures()["sensormend_connected"] == 1.0)

    def delivered(self) -> None:
        """Wait until every sink has all that is for it."""
        until(lambda: not any(n for name, n in self.figures().items() if name.startswith("sensormend_backlog{")))

    @property
    def resident(self) -> int:
        """How many bytes of it are in memory."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


NURSERY = """
import json, os, signal, sys
import sensormend.cli, sensormend.live.opening, sensormend.live.page
import sensormend.live.service as service, sensormend.live.sources.mqtt_client
import sensormend.live.sinks.command, sensormend.live.sinks.postgres, psycopg, prometheus_client.exposition
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for line in sys.stdin:
    words, log, checkpoint = json.loads(line)
    born = os.fork()
    if not born:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT), 2)
        service.CHECKPOINT = checkpoint
        code = sensormend.cli.main(words)
        os.write(2, b"ended with %d\\n" % code)
        os._exit(code)
    print(born, flush=True)
"""


class Nursery:
    """Makes processes of `sensormend watch` that have done their imports: a second in which a kill hits nothing."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", NURSERY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=20)

    def watch(self, *words: str | Path, log: Path, checkpoint: float = 20.0) -> int:
        """Start one, and return its number; what it says, and how it ends, is in the log."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = [["watch", *map(str, words), "--metrics", "off"], str(log), checkpoint]
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    @staticmethod
    def kill(number: int) -> bool:
        """Kill one, and return when it is gone; say whether it was there."""
        try:
            os.kill(number, signal.SIGKILL)
        except ProcessLookupError:
            return False
        until(lambda: not Path(f"/proc/{number}").exists())
        return True


class Network:
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
    readings = made_of(said)
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
        until(lambda: len(confirmed) >= len(sent), 30)

    try:
        yield wait
    finally:
        stopped.set()
        hurried.set()
        thread.join(30)
        client.disconnect()
        client.loop_stop()


def file_that_appears(folder: Path, name: str, readings: Readings) -> None:
    """Have a file in a folder, all of it at once; nobody has written to it for an hour."""
    half = write_csv(folder / f"{name}.csv.part", readings)
    long_ago = time.time() - 3600 + float(readings.time.min()) / 1e14
    os.utime(half, (long_ago, long_ago))
    half.rename(folder / f"{name}.csv")


def until(true: Callable[[], bool], seconds: float = 30) -> None:
    """Wait for something to become true, on a machine that is busy; fail when it does not."""
    post.until(true, seconds)


def ended(out: Path, seconds: float = 40) -> None:
    """Wait until the last message has been taken in."""
    file = out / "rejected.csv"
    until(lambda: file.exists() and END in file.read_text(errors="replace"), seconds)


def same_as_the_archive(out: Path, network: Network) -> None:
    """Hold the rows to be those of the archive, bit by bit, and the faults to be its faults."""
    same_rows(contents(out), contents(network.archive))
    live, whole = Archive(out), Archive(network.archive)
    assert sorted(map(str, live.faults())) == sorted(map(str, whole.faults()))


def same_table(address: str, out: Path) -> None:
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
