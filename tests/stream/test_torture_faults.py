"""What goes wrong around the service: it goes on, says so once, and loses nothing that was acknowledged."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import polars
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from list_source import read_rows
from malformed import malformed_message
from sensormend.stream.formats import values as why
from servers import restartable_postgres, running_mosquitto
from torture import (
    Proxy,
    ReferenceArchive,
    assert_same_as_archive,
    assert_same_table,
    feed,
    messages_of,
    publishing,
    wait_for_end,
)
from waiting import wait_until
from watch_process import GRID, WatchProcess

SENSORS, DAYS = 8, 10

pytestmark = [pytest.mark.server, pytest.mark.processes]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> ReferenceArchive:
    return ReferenceArchive(feed(SENSORS, DAYS), tmp_path_factory.mktemp("city"), DAYS)


def test_the_broker_is_restarted_and_the_network_cut(network: ReferenceArchive, tmp_path: Path) -> None:
    out, count = tmp_path / "out", len(network.readings)
    with running_mosquitto(persistent=True) as broker, Proxy(broker.port) as proxy:  # noqa: SIM117
        with WatchProcess(f"mqtt://127.0.0.1:{proxy.port}/city/#", out, *GRID) as watch:
            watch.connected()
            with publishing(broker, messages_of(network.readings), 12.0, count) as published:
                cuts = [(broker.stop, broker.start), (proxy.cut, proxy.mend), (proxy.cut, proxy.mend)]
                for number, (begin, end) in enumerate(cuts):
                    time.sleep(0.7)
                    begin()
                    wait_until(lambda: watch.health()[0] == 503)
                    assert watch.health()[1]["reasons"] == ["the source is not connected"]
                    # Long enough for several tries to come back.
                    time.sleep(0.2 if number < 2 else 1.2)
                    end()
                    wait_until(lambda: watch.health()[0] == 200)
                published()
                wait_for_end(out)
            assert watch.stop() == 0
            assert len(watch.lines_with("no connection to")) == 3
            assert len(watch.lines_with("again  seconds")) == 3
            # Beside these it says what it watches, where its metrics are, who is faulty, what it refused, its end.
            others = (
                "watching",
                "turned",
                "is healthy",
                "messages are",
                "taken for",
                "refused",
                "metrics at",
                "stopped",
                "no connection to",
                "again  seconds",
            )
            assert not [line for line in watch.lines if not any(text in line for text in others)]
    assert_same_as_archive(out, network)


class Listener:
    """Hears what is published under a topic."""

    def __init__(self, port: int, topic: str) -> None:
        self.heard: list[dict[str, Any]] = []
        self.client = paho.Client(CallbackAPIVersion.VERSION2)
        self.client.on_message = lambda client, reported, message: self.heard.append(json.loads(message.payload))
        self.client.connect("127.0.0.1", port)
        self.client.subscribe(topic, 1)
        self.client.loop_start()

    def final(self) -> set[tuple[str, str]]:
        """Return which rows have become final."""
        return {(one["sensor"], one["time"]) for one in list(self.heard) if not one["provisional"]}


def test_postgres_is_stopped_and_started(network: ReferenceArchive, tmp_path: Path) -> None:
    out, count = tmp_path / "out", len(network.readings)
    with running_mosquitto() as broker, restartable_postgres() as server:
        sinks = ("--sink", f"{server.address}?table=mended", "--sink", f"{broker.address}/mended")
        listener = Listener(broker.port, "mended/cleaned/#")
        with WatchProcess(f"{broker.address}/city/#", out, *GRID, *sinks) as watch:
            watch.connected()
            with publishing(broker, messages_of(network.readings), 5.0, count) as published:
                wait_until(lambda: len(listener.final()) >= 2 * 24 * SENSORS)
                server.stop()
                before = len(listener.final())
                # Others go on: three more days are final while the table is away.
                wait_until(lambda: len(listener.final()) >= before + 3 * 24 * SENSORS)
                wait_until(lambda: watch.health()[1]["status"] == "degraded")
                assert watch.health()[0] == 200
                assert len(list((out / "data").rglob("*.parquet"))) >= 5
                server.start()
                published()
                wait_for_end(out)
            watch.delivered()
            assert watch.stop() == 0
        listener.client.loop_stop()
        assert_same_as_archive(out, network)
        assert_same_table(server.address, out)
        assert len([line for line in watch.lines_with("cannot deliver") if "postgres" in line]) == 1
        assert len([line for line in watch.lines_with("back after") if "postgres" in line]) == 1
        assert len(listener.final()) == len(read_rows(out))


def test_20_000_malformed_messages_among_good_ones(network: ReferenceArchive, tmp_path: Path) -> None:
    out, chance, bad = tmp_path / "out", random.Random(20), 20_000
    good: list[tuple[str, str | bytes]] = list(messages_of(network.readings))
    parts, huge = 4, b"[" + b"1," * (9 << 20) + b"1]"
    used: list[int] = []
    with running_mosquitto() as broker, WatchProcess(f"{broker.address}/city/#", out, *GRID) as watch:
        watch.connected()
        for part in range(1, parts + 1):
            mixed = good[(part - 1) * len(good) // parts : part * len(good) // parts]
            for _ in range(bad // parts - 1):
                # Anywhere, while the good ones stay in their order.
                mixed.insert(chance.randrange(len(mixed)), ("city/rubbish", malformed_message(chance)))
            # Only the first: what a huge message took is not given back to the system, nor taken twice.
            mixed.insert(len(mixed) // 2, ("city/rubbish", huge if part == 1 else malformed_message(chance)))
            with publishing(broker, iter(mixed)) as published:
                published()
            wait_until(lambda: sum(_rejected(watch).values()) == part * (bad // parts + 1))  # noqa: B023
            used.append(watch.resident_bytes)
        counted = _rejected(watch)
        assert watch.stop() == 0
    assert_same_as_archive(out, network)
    reported = Counter(polars.read_csv(out / "rejected.csv", truncate_ragged_lines=False)["reason"].to_list())
    assert counted == reported
    assert sum(counted.values()) == bad + parts
    assert set(reported) >= {why.NOT_UTF8, why.NOT_JSON, why.TOO_DEEP, why.TOO_LARGE, why.NOT_A_TIME, why.NOT_A_NUMBER,
                         why.BAD_NAME, why.NO_READING}  # fmt: skip
    # Once for each kind, whatever comes; the rest is in the table and in the figures.
    assert len(watch.lines_with("refused")) <= len(reported)
    assert used[-1] < 1.1 * used[0]


def _rejected(watch: WatchProcess) -> dict[str, int]:
    """Return how many messages were refused, by the reason."""
    label = 'sensormend_rejected_total{reason="'
    return {name.removeprefix(label)[:-2]: int(count) for name, count in watch.metrics().items() if label in name}
