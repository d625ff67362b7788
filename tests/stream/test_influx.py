"""InfluxDB's line protocol: taken over HTTP and from standard input as Telegraf sends it, and written to InfluxDB."""

from __future__ import annotations

import gzip
import http.client
import json
import math
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode
from urllib.request import urlopen

import numpy as np
import pytest

from row_tables import YEAR_2019, network
from sensormend.errors import ConfigError, RefusedError, SensormendError
from sensormend.pipeline.health import Health
from sensormend.readings import DAY, HOUR
from sensormend.stream.deliveries import Delivery, Kind
from sensormend.stream.settings import Settings
from sensormend.stream.sinks import influx_sink, open_sink
from sensormend.stream.sources import influx_source, open_source
from sensormend.stream.sources.influx_source import InfluxSource
from servers import free_port, running_influxdb
from staged_readings import as_list
from waiting import wait_until
from watch_process import GRID, WatchProcess

TELEGRAF = (
    b'weather,host=pi,station=S1 temperature=20.5,humidity=61i,ok=true,note="dry, warm" 1714565640000000000\n'
    b"weather,host=pi,station=S\\ 2 temperature=21 1714565640000000000\n"
)


class Sender:
    """Posts to a source, each time in a thread, since the answer comes when the batch is on disk."""

    def __init__(self, source: InfluxSource) -> None:
        self.source, self._threads = source, list[threading.Thread]()
        self.answers: list[tuple[int, bytes]] = []

    def send(self, body: bytes, path: str = "/write?db=x&precision=ns", method: str = "POST", **headers: str) -> None:
        thread = threading.Thread(target=self._send, args=(body, path, method, headers))
        self._threads.append(thread)
        thread.start()

    def _send(self, body: bytes, path: str, method: str, headers: dict[str, str]) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.source.port, timeout=20)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, named)
        answer = connection.getresponse()
        self.answers.append((answer.status, answer.read()))
        connection.close()

    def wait(self) -> list[tuple[int, bytes]]:
        for thread in self._threads:
            thread.join(20)
        return self.answers


@contextmanager
def listening(login: str = "") -> Iterator[tuple[InfluxSource, Sender]]:
    with InfluxSource(f"influx://{login}127.0.0.1:0") as source:
        sender = Sender(source)
        yield source, sender
        sender.wait()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("path", ["/write?db=x", "/write?db=x&precision=ns", "/api/v2/write?org=o&bucket=b"])
def test_a_batch_is_answered_when_it_is_on_disk(path: str, packed: bool) -> None:
    with listening() as (source, sender):
        if packed:
            sender.send(gzip.compress(TELEGRAF), path, Content_Encoding="gzip")
        else:
            sender.send(TELEGRAF, path)
        arrived = source.read(10)
        assert as_list(arrived.readings) == [
            ("S1", "temperature", 1_714_565_640_000_000, 20.5),
            ("S1", "humidity", 1_714_565_640_000_000, 61.0),
            ("S 2", "temperature", 1_714_565_640_000_000, 21.0),
        ]
        assert sender.answers == []
        arrived.acknowledge()
        assert sender.wait() == [(204, b"")]


@pytest.mark.parametrize(
    ("precision", "time"), [("s", 1_714_565_640), ("ms", 1_714_565_640_000), ("u", 1_714_565_640_000_000)]
)
def test_precisions(precision: str, time: int) -> None:
    with listening() as (source, sender):
        sender.send(f"m,sensor=a t=1 {time}".encode(), f"/write?precision={precision}")
        arrived = source.read(10)
        arrived.acknowledge()
        assert as_list(arrived.readings) == [("a", "t", 1_714_565_640_000_000, 1.0)]


def test_invalid_lines_are_refused_alone() -> None:
    with listening() as (source, sender):
        sender.send(
            b"\n# comment\nm,sensor=a t=1 1714565640\nnonsense\nm,sensor=a t= 1\n\xff\xfe\nm,sensor=b t=2 1714565640\n"
        )
        arrived = source.read(10)
        arrived.acknowledge()
        assert arrived.readings.value.tolist() == [1.0, 2.0]
        assert [one.where for one in arrived.rejected] == [f"line {n} of a batch" for n in (4, 5, 6)]
        assert sender.wait() == [(204, b"")]


def test_what_is_no_batch_is_answered_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(influx_source, "LARGEST", 1000)
    with listening() as (source, sender):
        for body, path, method, headers, status in [
            (b"x", "/elsewhere", "POST", {}, 404),
            (b"x" * 1001, "/write", "POST", {}, 413),
            (gzip.compress(b" " * 100_000), "/write", "POST", {"Content_Encoding": "gzip"}, 413),
            (gzip.compress(b"x y=1")[:-6], "/write", "POST", {"Content_Encoding": "gzip"}, 413),
            (b"no", "/write", "POST", {"Content_Encoding": "gzip"}, 400),
            (b"x y=1", "/write?precision=h", "POST", {}, 400),
            (b"", "/query?q=CREATE+DATABASE+x", "POST", {}, 200),
            (b"", "/ping", "GET", {}, 204),
            (b"", "/health", "GET", {}, 200),
            (b"", "/", "GET", {}, 404),
        ]:
            sender.answers.clear()
            sender.send(body, path, method, **headers)
            assert sender.wait()[0][0] == status, (path, headers)
        assert source.read(0.0).empty


def test_without_the_token_nothing_is_taken() -> None:
    with listening(":hush%2F1@") as (source, sender):
        for headers, path in [({}, "/write"), ({"Authorization": "Token no"}, "/write"), ({}, "/write?u=&p=no"),
                              ({"Authorization": "Basic %%%"}, "/write")]:  # fmt: skip
            sender.send(TELEGRAF, path, **headers)
        assert [status for status, _ in sender.wait()] == [401] * 4
        assert source.read(0.0).empty
        sender.send(TELEGRAF, Authorization="Token hush/1")
        arrived = source.read(10)
        arrived.acknowledge()
        assert len(arrived.readings) == 3
    with listening("me:hush@") as (source, sender):
        sender.send(TELEGRAF, "/write?u=me&p=hush")
        sender.send(TELEGRAF, Authorization="Basic bWU6aHVzaA==")
        received = 0
        while received < 6:
            arrived = source.read(10)
            arrived.acknowledge()
            received += len(arrived.readings)
        assert [status for status, _ in sender.wait()] == [204, 204]


def test_a_disk_that_takes_nothing_is_a_503(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(influx_source, "ANSWER_WITHIN", 0.2)
    with listening() as (source, sender):
        sender.send(TELEGRAF)
        assert sender.wait()[0][0] == 503
        # It was read meanwhile, or is: the sender repeats it, and it counts once.
        assert len(source.read(1.0).readings) == 3


def test_a_probe_leaves_batches_with_their_senders() -> None:
    with InfluxSource("influx://127.0.0.1:0", lasting=False) as source:
        sender = Sender(source)
        sender.send(TELEGRAF)
        arrived = source.read(10)
        assert len(arrived.readings) == 3
        arrived.acknowledge()
        assert sender.wait()[0][0] == 503


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("influx://0.0.0.0:8086", "ask for a token"),
        ("influx://:8086", "a place to listen at"),
        ("influx://127.0.0.1:8086/db", "a place to listen at"),
        ("influx://127.0.0.1:99999", "a place to listen at"),
    ],
)
def test_a_place_that_cannot_be_listened_at(address: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        InfluxSource(address)


def test_a_port_that_is_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match="cannot listen there"):
            open_source(f"influx://127.0.0.1:{port}", work=Path("nowhere"))


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running_influxdb() as address:
        yield address


def ask(server: str, query: str, **login: str) -> list[dict[str, Any]]:
    """Return what InfluxDB has, as a row by column for each point."""
    words = urlencode({"db": "sensors", "epoch": "u", "q": query, **login}, quote_via=quote)
    with urlopen(f"http://{server}/query?{words}", timeout=10) as answer:
        (result,) = json.load(answer)["results"]
    return [
        dict(zip(series["columns"], values, strict=True)) | series.get("tags", {})
        for series in result.get("series", [])
        for values in series["values"]
    ]


def some(kind: Kind = "final", **parts: Any) -> Delivery:
    return Delivery(kind, YEAR_2019, YEAR_2019 + DAY, **parts)


def test_rows_are_points(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(influx_sink, "LINES", 7)
    rows = network(1, 2, ("pm", ""))
    with open_sink(f"influx://{server}/sensors?measurement=rows") as sink:
        sink.write(some("provisional", rows=rows.taken(slice(0, 30))))
        sink.write(some(rows=rows))
        sink.write(some(rows=rows))
    points = ask(server, "SELECT * FROM rows")
    assert len(points) == len(rows) == 96
    stored = {(point["sensor"], point["variable"] or "", point["time"]): point for point in points}
    for place in range(len(rows)):
        key = (rows.sensors[rows.sensor[place]], rows.variables[rows.variable[place]], int(rows.time[place]))
        point = stored[key]
        value = rows.value[place]
        assert point["value"] == (None if math.isnan(value) else value)
        assert point["cleaned"] == rows.cleaned[place]
        assert (point["flag"], point["n"]) == (rows.flag[place], rows.n[place])
        assert point["provisional"] is False


def test_names_of_all_kinds(server: str) -> None:
    names = ["a b", "a,b=c", 'a"b', "a\\", "a\nb", "ä/ß", "half\ud800"]
    row = network(1, 1).taken(slice(0, 1))
    with open_sink(f"influx://{server}/sensors?measurement=the%20names") as sink:
        for name in names:
            sink.write(some(rows=replace(row, sensors=(name,), variables=(name,), value=np.array([1.5]))))
    points = ask(server, 'SELECT sensor, variable, value FROM "the names"')
    assert {point["sensor"] for point in points} == {"a b", "a,b=c", 'a"b', "a/", "ä/ß", "half\ufffd"}
    assert {point["value"] for point in points} == {1.5}


def test_the_state_of_a_channel_is_a_point_when_it_changes(server: str) -> None:
    well = Health("a", "t", "healthy", "", 0, HOUR)
    with open_sink(f"influx://{server}/sensors?measurement=states") as sink:
        for day, health in enumerate(
            [well, replace(well, heard=2 * HOUR), replace(well, state="faulty", reason="stuck")]
        ):
            sink.write(Delivery("final", day * DAY, (day + 1) * DAY, None, [health]))
    points = ask(server, "SELECT * FROM states_health")
    assert [(point["time"] // DAY, point["state"], point["reason"]) for point in points] == [
        (1, "healthy", ""),
        (3, "faulty", "stuck"),
    ]


def test_what_is_refused_and_what_is_tried_again(server: str) -> None:
    row = network(1, 1).taken(slice(0, 1))
    with open_sink(f"influx://{server}/nowhere") as sink, pytest.raises(RefusedError, match="answers 404"):
        sink.write(some(rows=row))
    with open_sink(f"influx://me:hush@127.0.0.1:{free_port()}/sensors") as sink:
        with pytest.raises(SensormendError) as failed:
            sink.write(some(rows=row))
        assert not isinstance(failed.value, RefusedError)
        assert "hush" not in str(failed.value)
    for address in ("influx://host", "influx:///db", "influx://host/db?colour=red", "influx://host:port/db"):
        with pytest.raises(ConfigError):
            open_sink(address)


@pytest.mark.server
def test_a_login(tmp_path: Path) -> None:
    with running_influxdb("me", "hush") as address:
        row = network(1, 1).taken(slice(0, 1))
        with open_sink(f"influx://me:hush@{address}/sensors") as sink:
            sink.write(some(rows=row))
        assert len(ask(address, "SELECT * FROM sensormend", u="me", p="hush")) == 1
        with (
            open_sink(f"influx://me:loud@{address}/sensors") as sink,
            pytest.raises(RefusedError, match="401") as failed,
        ):
            sink.write(some(rows=row))
        assert "loud" not in str(failed.value)
    shown = Settings.of(source="-", out=tmp_path / "o", sinks=["influx://me:hush@h/db"]).to_dict()
    assert "hush" not in json.dumps(shown)


@pytest.mark.processes
def test_lines_on_standard_input_and_back_to_influxdb(server: str, tmp_path: Path) -> None:
    lines = [
        f"weather,station=S{sensor} temp={20 + math.sin(hour / 4):.3f} {(YEAR_2019 + hour * HOUR) * 1000}\n"
        for hour in range(48)
        for sensor in range(3)
    ]
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as feed:
        assert feed.stdin is not None
        assert feed.stdout is not None
        sink = f"influx://{server}/sensors?measurement=back"
        with WatchProcess("-", tmp_path / "out", *GRID, "--sink", sink, stdin=feed.stdout.fileno()) as running:
            feed.stdin.writelines(lines)
            feed.stdin.close()
            assert running.wait() == 0
    points = ask(server, "SELECT * FROM back WHERE provisional = false")
    assert len(points) == 144
    assert {point["variable"] for point in points} == {"temp"}


@pytest.mark.processes
def test_a_service_that_is_killed_loses_no_batch_that_was_answered(tmp_path: Path) -> None:
    port = free_port()
    words = (f"influx://127.0.0.1:{port}", tmp_path / "out", *GRID)

    def send(hour: int) -> None:
        """Send until it is answered with 204, as Telegraf does."""
        body = "".join(
            f"w,station=S{sensor} temp={20 + math.sin(hour / 4):.3f} {(YEAR_2019 + hour * HOUR) * 1000}\n"
            for sensor in range(4)
        )

        def is_taken() -> bool:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            try:
                connection.request("POST", "/write?db=x", body)
                return connection.getresponse().status == 204
            except OSError:
                return False
            finally:
                connection.close()

        wait_until(is_taken)

    for kill in range(4):
        with WatchProcess(*words) as running:
            for hour in range(20 * kill, 20 * kill + 20):
                send(hour)
            running.kill()
    with WatchProcess(*words) as running:
        send(79)  # again
        running.connected()
        assert running.stop() == 0
    with (tmp_path / "out" / "run.json").open() as file:
        assert json.load(file)["periods"] == 3
    from list_source import read_rows

    rows = read_rows(tmp_path / "out")
    assert len(rows) == 3 * 24 * 4
    assert not np.isnan(rows.value).any()
    assert (rows.n == 1).all()
