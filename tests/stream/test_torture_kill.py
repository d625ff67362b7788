"""`kill -9` under load: no reading lost, none counted twice, every alert told."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from list_source import hourly, run_service
from sensormend.io.metadata import read_json
from sensormend.stream.sinks.messages import alert_message
from sensormend.stream.store import Acknowledged
from sensormend.stream.stream import AlertsRaised, Event
from servers import restartable_postgres, running_mosquitto
from torture import (
    ReferenceArchive,
    assert_same_as_archive,
    assert_same_table,
    feed,
    messages_of,
    publishing,
    wait_for_end,
)
from watch_process import GRID, ForkServer, WatchProcess

SENSORS, DAYS, KILLS = 20, 24, 30
START_SECONDS = 1.5
"""From a start of the service until it is connected, on a machine that does nothing else."""

pytestmark = [pytest.mark.server, pytest.mark.processes]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> ReferenceArchive:
    return ReferenceArchive(feed(SENSORS, DAYS, silent=True), tmp_path_factory.mktemp("city"), DAYS)


def test_killed_at_30_random_moments(network: ReferenceArchive, tmp_path: Path) -> None:
    chance, out, log, reported = random.Random(30), tmp_path / "out", tmp_path / "log", tmp_path / "alerts"
    where = f"command: tee -a {reported}"
    saved = set[int | None]()
    with running_mosquitto() as broker, restartable_postgres() as server, ForkServer() as nursery:
        sinks = ("--sink", f"{server.address}?table=mended", "--alert", where)
        words = (f"{broker.address}/city/#", out, *GRID, *sinks)
        # The session is there before the first message is: what is said to nobody is nobody's.
        began = time.monotonic()
        with WatchProcess(*words) as first:
            first.connected()
            first.kill()
        # On a busy machine everything takes longer, and a process that is killed at once has done nothing.
        slowness = max(1.0, (time.monotonic() - began) / START_SECONDS)
        load = 24.0 * slowness
        with publishing(broker, messages_of(network.readings), load, len(network.readings)) as published:
            for _ in range(KILLS):
                number = nursery.watch(*words, log=log, checkpoint=0.15)
                time.sleep(slowness * chance.uniform(0.02, 1.25))
                assert nursery.kill(number), log.read_text()
                saved.add(Acknowledged.read(out / "state" / "acknowledged").get("checkpoint", {}).get("number"))
            published()
            with WatchProcess(*words, checkpoint=0.15) as last:
                last.connected()
                wait_for_end(out)
                last.delivered()
                assert last.stop() == 0
                assert not last.lines_with("Traceback")
        assert_same_table(server.address, out)
    assert len(saved) > 5
    # No kill is taken for damage.
    assert "damage" not in read_json(out / "run.json")
    assert_same_as_archive(out, network)
    _same_alerts(reported, network, tmp_path)


def _same_alerts(reported: Path, network: ReferenceArchive, folder: Path) -> None:
    """Every alert of a run that nothing happened to was told, few twice, and no other."""
    expected: list[tuple[Any, ...]] = []

    def look(event: Event | None) -> None:
        if isinstance(event, AlertsRaised):
            expected.extend(map(_key, map(alert_message, event.alerts)))

    run_service(folder / "undisturbed", hourly(network.readings), look)
    text = reported.read_text()
    result, at = [], 0
    while at < len(text):
        one, at = json.JSONDecoder().raw_decode(text, at)
        result.append(one)
        at += len(text[at:]) - len(text[at:].lstrip())
    reported_in = Counter(map(_key, result))
    assert {key[1] for key in expected} == {"faulty", "healthy", "silent"}
    assert set(reported_in) == set(expected)
    assert len(result) - len(expected) <= KILLS / 3
    # What was told twice was told in the same words.
    assert len({json.dumps(one) for one in result}) == len(expected)


def _key(message: dict[str, Any]) -> tuple[Any, ...]:
    """Return what must be the same; when a silence is seen depends on how many readings come at once."""
    return message["sensor"], message["state"], message["reason"], message["since"]
