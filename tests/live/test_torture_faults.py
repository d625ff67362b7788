"""What goes wrong around the service: it goes on, says so once, and loses nothing that was acknowledged."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import polars
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from given import contents
from rubbish import rubbish
from sensormend.live.formats import refused as why
from servers import restartable_postgres, running_mosquitto
from torture import (
    GRID,
    Network,
    Proxy,
    Watch,
    ended,
    feed,
    messages_of,
    publishing,
    same_as_the_archive,
    same_table,
    until,
)

SENSORS, DAYS = 8, 10


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Network:
    return Network(feed(SENSORS, DAYS), tmp_path_factory.mktemp("city"), DAYS)


def test_the_broker_is_restarted_and_the_network_cut(network: Network, tmp_path: Path) -> None:
    out, count = tmp_path / "out", len(network.readings)
    with running_mosquitto(persistent=True) as broker, Proxy(broker.port) as proxy:  # noqa: SIM117
        with Watch(f"mqtt://127.0.0.1:{proxy.port}/city/#", out, *GRID) as watch:
            watch.connected()
            with publishing(broker, messages_of(network.readings), 12.0, count) as published:
                cuts = [(broker.stop, broker.start), (proxy.cut, proxy.mend), (proxy.cut, proxy.mend)]
                for number, (begin, end) in enumerate(cuts):
                    time.sleep(0.7)
                    begin()
                    until(lambda: watch.health()[0] == 503)
                    assert watch.health()[1]["reasons"] == ["the source is not connected"]
                    # Long enough for several tries to come back.
                    time.sleep(0.2 if number < 2 else 1.2)
                    end()
                    until(lambda: watch.health()[0] == 200)
                published()
                ended(out)
            assert watch.stop() == 0
            assert len(watch.saying("no connection to")) == 3
            assert len(watch.saying("again  seconds")) == 3
            assert len(watch.said) == len([line for line in watch.said if "turned" in line or "is well" in line]) + 8
    same_as_the_archive(out, network)


class Listener:
    """Hears what is published under a topic."""

    def __init__(self, port: int, topic: str) -> None:
        self.heard: list[dict[str, Any]] = []
        self.client = paho.Client(CallbackAPIVersion.VERSION2)
        self.client.on_message = lambda client, told, message: self.heard.append(json.loads(message.payload))
        self.client.connect("127.0.0.1", port)
        self.client.subscribe(topic, 1)
        self.client.loop_start()

    def final(self) -> set[tuple[str, str]]:
        """Return which rows have become final."""
        return {(one["sensor"], one["time"]) for one in list(self.heard) if not one["provisional"]}


def test_postgres_is_stopped_and_started(network: Network, tmp_path: Path) -> None:
    out, count = tmp_path / "out", len(network.readings)
    with running_mosquitto() as broker, restartable_postgres() as server:
        sinks = ("--sink", f"{server.address}?table=mended", "--sink", f"{broker.address}/mended")
        listener = Listener(broker.port, "mended/cleaned/#")
        with Watch(f"{broker.address}/city/#", out, *GRID, *sinks) as watch:
            watch.connected()
            with publishing(broker, messages_of(network.readings), 5.0, count) as published:
                until(lambda: len(listener.final()) >= 2 * 24 * SENSORS)
                server.stop()
                before = len(listener.final())
                # Others go on: three more days are final while the table is away.
                until(lambda: len(listener.final()) >= before + 3 * 24 * SENSORS)
                until(lambda: watch.health()[1]["status"] == "degraded")
                assert watch.health()[0] == 200
                assert len(list((out / "data").rglob("*.parquet"))) >= 5
                server.start()
                published()
                ended(out)
            watch.delivered()
            assert watch.stop() == 0
        listener.client.loop_stop()
        same_as_the_archive(out, network)
        same_table(server.address, out)
        assert len([line for line in watch.saying("cannot deliver") if "postgres" in line]) == 1
        assert len([line for line in watch.saying("back after") if "postgres" in line]) == 1
        assert len(listener.final()) == len(contents(out))


def test_20_000_malformed_messages_among_good_ones(network: Network, tmp_path: Path) -> None:
    out, chance, bad = tmp_path / "out", random.Random(20), 20_000
    good = list(messages_of(network.readings))
    share = bad / len(good)

    def mixed() -> Iterator[tuple[str, str | bytes]]:
        told = 0
        for number, message in enumerate(good):
            yield message
            while told < min(bad, (number + 1) * share):
                told += 1
                yield "city/rubbish", b"[" + b"1," * (9 << 20) + b"1]" if told % 8000 == 0 else rubbish(chance)

    with running_mosquitto() as broker, Watch(f"{broker.address}/city/#", out, *GRID) as watch:
        watch.connected()
        used: list[int] = []
        with publishing(broker, mixed()) as published:
            while watch.figures().get("sensormend_watermark_seconds", 0) < network.readings.time.max() / 1e6 - 7200:
                used.append(watch.resident)
                time.sleep(0.1)
            published()
            ended(out)
        figures = watch.figures()
        assert watch.stop() == 0
    same_as_the_archive(out, network)
    counted = {name.split('"')[1]: int(value) for name, value in figures.items()
               if name.startswith("sensormend_rejected_total")}  # fmt: skip
    told = Counter(polars.read_csv(out / "rejected.csv", truncate_ragged_lines=False)["reason"].to_list())
    assert counted == told
    assert sum(counted.values()) == bad + 1
    assert set(told) >= {why.NOT_UTF8, why.NOT_JSON, why.TOO_DEEP, why.TOO_LARGE, why.NOT_A_TIME, why.NOT_A_NUMBER,
                         why.BAD_NAME, why.NO_READING}  # fmt: skip
    quarter = len(used) // 4
    assert sorted(used[-quarter:])[quarter // 2] < 1.1 * sorted(used[quarter : 2 * quarter])[quarter // 2]
