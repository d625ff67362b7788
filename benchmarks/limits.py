"""Measures the limits for senders: how much of each kind of input is accepted, and what that costs.

    python benchmarks/limits.py              # all of it, a few minutes
    python benchmarks/limits.py names late   # some
    python benchmarks/limits.py --list       # their names

Each prints a line of the table in docs/operations.md: what is sent, how far it goes, what happens then, and the time
and memory up to there. Memory is what the process grew by, at its most. One thread: set OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from sensormend import NetworkModel
from sensormend.pipeline.options import Options
from sensormend.readings import DAY, HOUR, SECOND, Readings, Rows
from sensormend.stream.admission import KNOWN_AFTER, MOST_FIRST, MOST_UNKNOWN, MOST_VARIABLES
from sensormend.stream.arrivals import Arrived
from sensormend.stream.formats.decoding import LARGEST, MOST_KEYS, MOST_READINGS, Decoder
from sensormend.stream.formats.recognition import NESTED
from sensormend.stream.metrics import Metrics
from sensormend.stream.output import Output
from sensormend.stream.stream import MOST_LATE, Event, LateReadings, PeriodFinal, ReadingsRejected, Stream
from sensormend.stream.stream import MOST_READINGS as MOST_OF_SENSOR

START = 18_262 * DAY
SENSORS = 20


class Cost:
    """Seconds, and megabytes that the process grew by at its most."""

    def __init__(self) -> None:
        self.seconds = self.megabytes = 0.0


@contextmanager
def measured() -> Iterator[Cost]:
    """Measure what happens inside; the peak is that of the process, which has to be a fresh one."""
    cost, start = Cost(), time.perf_counter()
    before = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    yield cost
    cost.seconds = time.perf_counter() - start
    cost.megabytes = max(0.0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before) / 2**20


def line(what: str, goes: str, then: str, cost: Cost, more: str = "") -> None:
    """Print a row of the table."""
    print(f"| {what} | {goes} | {then} | {cost.seconds:.1f} s, {cost.megabytes:,.0f} MB{more} |", flush=True)


def day_of(sensors: int, variables: int, day: int, name: str = "real") -> Readings:
    """Return hourly readings of a day."""
    shape = (sensors, variables, 24)
    sensor, variable, hour = (index.ravel() for index in np.indices(shape))
    random = np.random.default_rng(day)
    common = random.normal(size=(1, variables, 24)).cumsum(axis=2)
    value = common + 0.3 * random.normal(size=shape) + np.arange(sensors)[:, None, None] % 7
    names = tuple(f"{name}{number}" for number in range(sensors))
    of = tuple(f"v{number}" for number in range(variables)) if variables > 1 else ("",)
    return Readings(names, of, sensor, variable, START + day * DAY + hour * HOUR, value.ravel())


def walked(stream: Stream, readings: Readings) -> list[Event]:
    """Give a stream some readings at once, as they would come in time."""
    readings = readings.taken(np.argsort(readings.time, kind="stable"))
    return list(stream.take(Arrived(readings, int(readings.time.max()))))


def trained(sensors: int = SENSORS, variables: int = 1, days: int = KNOWN_AFTER + 3) -> Stream:
    """Return a stream that knows its sensors."""
    stream = Stream(Options.of(step="1h", period="1d"))
    for day in range(days):
        walked(stream, day_of(sensors, variables, day))
    return stream


def seconds_of_a_period(stream: Stream, days: Iterator[Readings]) -> float:
    """Return what the last of some days takes."""
    for day in days:
        start = time.perf_counter()
        events = walked(stream, day)
        took = time.perf_counter() - start
        assert any(isinstance(event, PeriodFinal) for event in events)
    return took


def refusals(events: list[Event]) -> str:
    """Say how much was refused for what."""
    counts = Counter(one.reason for event in events if isinstance(event, ReadingsRejected) for one in event.rejected)
    return ", ".join(f"`{reason}`" for reason in counts)


def message(count: int, time_of: Callable[[int], int], sensor: Callable[[int], str]) -> bytes:
    """Return a list of readings."""
    entries = [{"sensor": sensor(number), "time": time_of(number) / SECOND, "value": 20} for number in range(count)]
    return json.dumps(entries).encode()


def names() -> None:
    """Send new names of sensors to a stream that has learned."""
    stream, decoder = trained(), Decoder()
    at = START + (KNOWN_AFTER + 3) * DAY
    usual = seconds_of_a_period(trained(), (day_of(SENSORS, 1, day) for day in range(KNOWN_AFTER + 3, KNOWN_AFTER + 5)))
    payload = message(100_000, lambda number: at, lambda number: f"x{number}")
    with measured() as cost:
        decoder.add(payload, at)
        events = list(stream.take(Arrived(decoder.take().readings, at)))
    assert len(stream.sensors) == SENSORS + MOST_UNKNOWN
    took = seconds_of_a_period(stream, (day_of(SENSORS, 1, day) for day in range(KNOWN_AFTER + 3, KNOWN_AFTER + 5)))
    line("new names of sensors, 100,000 in a message",
         f"{MOST_UNKNOWN:,} at a time, or as many as are known",
         refusals(events), cost,
         f"; a period of {SENSORS} sensors and these {took:.1f} s in place of {usual:.2f} s")  # fmt: skip


def first_names() -> None:
    """Send names while no sensor is known."""
    stream = Stream(Options.of(step="1h", period="1d"))
    walked(stream, day_of(SENSORS, 1, 0).taken(slice(0, 24 * SENSORS, 24)))
    with measured() as cost:
        walked(stream, day_of(MOST_FIRST + 100, 1, 0, "x").taken(slice(0, None, 24)))
        assert len(stream.sensors) == MOST_FIRST
        for day in range(1, 4):
            walked(stream, day_of(SENSORS, 1, day))
    line("the same on the first day, when no sensor is known", f"{MOST_FIRST:,}",
         "`more names than there can be sensors`", cost, ", with the three days after it")  # fmt: skip


def variables() -> None:
    """Send very many keys all day."""
    stream, decoder = Stream(Options.of(step="1h", period="1d")), Decoder()
    keys = {f"k{number}": number for number in range(900)}
    with measured() as cost:
        for hour in range(26):
            at = START + hour * HOUR
            for sensor in range(SENSORS):
                payload = {"sensor": f"real{sensor}", "time": at / SECOND, "v0": hour + sensor / 9, "v1": hour**0.5}
                decoder.add(json.dumps(payload).encode(), at)
            decoder.add(json.dumps({"sensor": "real3", "time": at / SECOND, **keys}).encode(), at)
            list(stream.take(Arrived(decoder.take().readings, at)))
    assert stream.cleaner is not None
    count = len(stream.cleaner.variables)
    assert count == MOST_VARIABLES
    decided = cost.seconds
    took = {}
    for width in (2, count):
        known = trained(variables=width, days=4)
        took[width] = seconds_of_a_period(known, (day_of(SENSORS, width, day) for day in range(4, 7)))
    cost.seconds = decided
    line("keys of messages that are not in `variables`, 900 in each of one sensor", f"{count} variables",
         "`a variable that too few messages carry`", cost,
         f" for the first day; a period of {SENSORS} sensors {took[count]:.1f} s in place of {took[2]:.2f} s"
    )  # fmt: skip


def readings() -> None:
    """Send readings of one sensor in one period."""
    stream = trained()
    at, chunk = START + (KNOWN_AFTER + 3) * DAY, 250_000
    zero, events = np.zeros(chunk, dtype=np.int64), list[Event]()
    with measured() as cost:
        for number in range(MOST_OF_SENSOR // chunk + 1):
            when = at + np.arange(chunk) + number * chunk
            events += stream.take(Arrived(Readings(("real0",), ("",), zero, zero, when, np.full(chunk, 20.0)), at))
        assert len(stream.buffer) <= MOST_OF_SENSOR + SENSORS * 24 * 2
    took = seconds_of_a_period(stream, (day_of(SENSORS, 1, day) for day in range(KNOWN_AFTER + 3, KNOWN_AFTER + 5)))
    line(
        "readings of one sensor in one period",
        f"{MOST_OF_SENSOR:,}",
        refusals(events),
        cost,
        f"; the period {took:.1f} s",
    )


def late() -> None:
    """Send readings of a period that is over."""
    stream, chunk, events = trained(), 250_000, list[Event]()
    zero = np.zeros(chunk, dtype=np.int64)
    with tempfile.TemporaryDirectory() as folder:
        output = Output(Path(folder), late_for=30 * DAY, keep=None, compact=True)
        output.writer.write(_rows(), START + 2 * DAY)
        with measured() as cost:
            for number in range(MOST_LATE // chunk + 1):
                when = START + 2 * DAY + np.arange(chunk) + number * chunk
                for event in stream.take(
                    Arrived(Readings(("real0",), ("",), zero, zero, when, np.full(chunk, 20.0)), START + 9 * DAY)
                ):
                    events.append(event)
                    if isinstance(event, LateReadings):
                        output.collect(event, number, number)
                list(output.correct_late(stream))
        output.close()
    count = sum(len(event.readings) for event in events if isinstance(event, LateReadings))
    assert count == MOST_LATE
    line(
        "late readings of one period", f"{count:,}, for `late_for`", refusals(events) + ", `a time too long ago`", cost
    )


def _rows() -> Rows:
    """Return the rows of a day that is over."""
    again = Stream(Options.of(step="1h", period="1d"))
    finals = [
        event for day in range(4) for event in walked(again, day_of(SENSORS, 1, day)) if isinstance(event, PeriodFinal)
    ]
    return finals[2].cleaned_period.rows


def messages() -> None:
    """Send a message as large as can be."""
    some = len(message(1000, lambda number: START, lambda number: f"real{number % SENSORS}"))
    count = 1000 * LARGEST // some - 1000
    payload = message(count, lambda number: START, lambda number: f"real{number % SENSORS}")
    payload = payload[:-1] + b" " * (LARGEST - len(payload)) + b"]"
    decoder = Decoder()
    with measured() as cost:
        decoder.add(payload, START)
        taken = decoder.take()
    decoder.add(payload + b" ", START)
    (refused,) = decoder.take().rejected
    goes = f"{len(payload):,}, which are {len(taken.readings):,} readings of at most {MOST_READINGS:,}"
    line("bytes of a message", goes, f"`{refused.reason}`", cost)


def keys() -> None:
    """Send an object with very many keys."""
    decoder = Decoder()
    flat = {f"k{number}": 1 for number in range(MOST_KEYS - 2)}
    with measured() as cost:
        decoder.add(json.dumps({"sensor": "a", "time": START / SECOND, **flat}).encode(), START)
        assert len(decoder.take().readings) == MOST_KEYS - 2
        decoder.add(json.dumps({"sensor": "a", "time": START / SECOND, **flat, "more": 1}).encode(), START)
        (many,) = decoder.take().rejected
    line("keys of an object", f"{MOST_KEYS:,}", f"`{many.reason}`", cost)


def depth() -> None:
    """Send objects within objects."""
    decoder, payload = Decoder(), {"temp": 20.0}
    for _ in range(NESTED - 1):
        payload = {"a": payload}  # type: ignore[dict-item]
    with measured() as cost:
        decoder.add(json.dumps({"sensor": "a", "time": START / SECOND, **payload}).encode(), START)
        assert len(decoder.take().readings) == 1
        decoder.add(json.dumps({"sensor": "a", "time": START / SECOND, "a": payload}).encode(), START)
        decoder.add(b"[" * 4_000_000, START)
        deep, endless = decoder.take().rejected
    line("objects within objects", f"{NESTED}", f"`{deep.reason}`", cost, " for four million brackets")
    assert endless.reason in (deep.reason, "neither JSON nor a number")


def retained() -> None:
    """Send retained messages."""
    decoder, count = Decoder(), 20_000
    with measured() as cost:
        for number in range(count):
            decoder.add(b"20.5", START + 3 * DAY, f"city/x{number}", retained=True)
            payload = {"sensor": f"x{number}", "time": START / SECOND, "value": 1}
            decoder.add(json.dumps(payload).encode(), START + 3 * DAY, retained=True)
        taken = decoder.take()
    assert not len(taken.readings)
    reasons = ", ".join(f"`{reason}`" for reason in dict.fromkeys(one.reason for one in taken.rejected))
    line(f"retained messages, {2 * count:,}", "those with a time, of the last day", reasons, cost)


def connections() -> None:
    """Connect to `/metrics`, and send nothing."""
    from sensormend.stream.http_server import CONNECTION_TIME, MOST_CONNECTIONS
    from sensormend.stream.metrics import MetricsServer

    metrics = Metrics()
    with measured() as cost, ExitStack() as stack:
        page = stack.enter_context(MetricsServer(metrics, port=0))
        held = [
            stack.enter_context(socket.create_connection(("127.0.0.1", page.port))) for _ in range(2 * MOST_CONNECTIONS)
        ]
        start, alive = time.monotonic(), 2 * MOST_CONNECTIONS
        while alive > MOST_CONNECTIONS and time.monotonic() - start < 30:
            alive = sum(_alive(one) for one in held)
        assert 0 < alive <= MOST_CONNECTIONS
        while sum(_alive(one) for one in held) and time.monotonic() - start < 2 * CONNECTION_TIME:
            time.sleep(0.1)
        with urllib.request.urlopen(f"http://127.0.0.1:{page.port}/healthz", timeout=5) as answer:
            assert answer.status == 200
    line("connections to `/metrics` and `/healthz`", f"{MOST_CONNECTIONS}, for {CONNECTION_TIME:.0f} s each", "closed",
         cost, ", until all idle ones are closed")  # fmt: skip


def _alive(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1, socket.MSG_PEEK) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def streams() -> None:
    """Open event streams of the dashboard, and other connections."""
    from sensormend.stream.service_state import ServiceState
    from sensormend.web.security import MAX_STREAMS
    from sensormend.web.server import MAX_CONNECTIONS, Server

    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        out = Path(folder) / "out"
        ServiceState(out).claim()
        ServiceState(out).begin()
        server = Server(out, "127.0.0.1", 0)
        stack.callback(server.close)
        server.start()
        ask = f"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode()
        with measured() as cost:
            answers = Counter[bytes]()
            for _ in range(MAX_STREAMS + 20):
                one = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=20))
                one.sendall(ask)
                answers[one.recv(12)] += 1
        assert answers == {b"HTTP/1.1 200": MAX_STREAMS, b"HTTP/1.1 503": 20}
        line("event streams of the dashboard", f"{MAX_STREAMS}", "503", cost)
        ask = f"GET /api/network HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode()
        with measured() as cost:
            held = [stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=20))
                    for _ in range(MAX_CONNECTIONS - MAX_STREAMS + 50)]  # fmt: skip
            for one in held[:-100:-1]:
                one.sendall(ask)
                answers[one.recv(12)] += 1
        assert answers[b"HTTP/1.1 503"] > 20
        line("requests on connections to the dashboard, these included", f"{MAX_CONNECTIONS}", "503", cost)


ALL = {
    one.__name__: one
    for one in (names, first_names, variables, readings, late, messages, keys, depth, retained, connections, streams)
}


def main() -> None:
    """Measure each in a process of its own, so that none has the memory of another."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", nargs="*", choices=[[], *ALL], help="what to measure; all of it by default")
    parser.add_argument("--list", action="store_true", help="print their names")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.list:
        print("\n".join(f"{name:12s} {one.__doc__}" for name, one in ALL.items()))
    elif args.here:
        NetworkModel(fiber_axis=2).update(np.arange(48.0).reshape(2, 1, 24))
        for name in args.what:
            ALL[name]()
    else:
        print("| what is sent | how far it goes | then | costs up to there |\n|---|---|---|---|", flush=True)
        for name in args.what or ALL:
            subprocess.run([sys.executable, __file__, "--here", name], check=True)


if __name__ == "__main__":
    main()
