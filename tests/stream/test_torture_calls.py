"""`sensormend watch` as it is called: each kind of source to its end, a clean end, and what is wrong with a call."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from list_source import read_rows
from sensormend.readings import DAY, Readings
from servers import running_mosquitto
from simulated_city import START, write_csv
from torture import (
    ReferenceArchive,
    assert_same_as_archive,
    feed,
    hourly_messages_of,
    messages_of,
    move_file_into,
    publishing,
)
from waiting import wait_until
from watch_process import GRID, ForkServer, WatchProcess

SENSORS, DAYS = 8, 6

pytestmark = [pytest.mark.server, pytest.mark.processes]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> ReferenceArchive:
    return ReferenceArchive(feed(SENSORS, DAYS), tmp_path_factory.mktemp("city"), DAYS)


@pytest.fixture(scope="module")
def whole(network: ReferenceArchive) -> Readings:
    """Return the readings of days that are whole."""
    return network.readings.taken(network.readings.time < START + DAYS * DAY)


def days_of(readings: Readings, first: int, end: int) -> Readings:
    return readings.taken((readings.time >= START + first * DAY) & (readings.time < START + end * DAY))


def test_asked_to_end_it_closes_nothing_and_goes_on_later(network: ReferenceArchive, tmp_path: Path) -> None:
    """To the second start the broker is not there yet, as it may be when a machine comes up."""
    out, half = tmp_path / "out", START + 3 * DAY + 10 * 3_600_000_000
    with running_mosquitto(persistent=True) as broker:
        words = (f"{broker.address}/city", out, *GRID)
        with WatchProcess(*words) as first:
            first.connected()
            with WatchProcess(*words) as another:
                assert another.wait() == 1
            assert "another sensormend is watching" in another.lines[-1]
            assert len(another.lines) == 2
            with publishing(
                broker, hourly_messages_of(network.readings.taken(network.readings.time < half))
            ) as published:
                published()
            wait_until(lambda: first.metrics()["sensormend_watermark_seconds"] >= half / 1e6 - 3600)
            began = time.monotonic()
            assert first.stop() == 0
            assert time.monotonic() - began < 5
        assert read_rows(out).time.max() < START + 3 * DAY
        assert "stopped" in first.lines[-1]
        broker.stop()
        with WatchProcess(*words) as second:
            wait_until(lambda: bool(second.lines_with("no connection to")))
            assert second.health()[0] == 503
            broker.start()
            second.connected()
            with publishing(
                broker, hourly_messages_of(network.readings.taken(network.readings.time >= half))
            ) as published:
                published()
            _closed(second, START + DAYS * DAY)
            assert second.stop() == 0
            assert len(second.lines_with("no connection to")) == 1
    assert_same_as_archive(out, network)


def _closed(watch: WatchProcess, end: int) -> None:
    """Wait until the time has come to an hour after the end of a day, and what follows from it is written."""
    wait_until(lambda: watch.metrics()["sensormend_watermark_seconds"] >= end / 1e6 + 3600)


def test_lines_on_standard_input_to_their_end(network: ReferenceArchive, whole: Readings, tmp_path: Path) -> None:
    out, file = tmp_path / "out", tmp_path / "readings.ndjson"
    file.write_text("".join(f"{payload}\n" for _, payload in messages_of(whole)))
    with subprocess.Popen(["cat", file], stdout=subprocess.PIPE) as cat:
        assert cat.stdout is not None
        with WatchProcess("-", out, *GRID, stdin=cat.stdout.fileno()) as watch:
            assert watch.wait() == 0
    assert "the source has ended" in watch.lines[-1]
    assert_same_as_archive(out, network)


def test_files_that_appear(network: ReferenceArchive, tmp_path: Path) -> None:
    """Some before it starts, one more while it runs, the last after it was killed and started again."""
    folder, out = tmp_path / "files", tmp_path / "out"
    folder.mkdir()
    words = (folder, out, *GRID)
    move_file_into(folder, "0", days_of(network.readings, 0, 2))
    move_file_into(folder, "2", days_of(network.readings, 2, 3))
    with WatchProcess(*words) as first:
        wait_until(lambda: first.metrics()["sensormend_periods_total"] >= 2)
        move_file_into(folder, "3", days_of(network.readings, 3, 5))
        wait_until(lambda: first.metrics()["sensormend_periods_total"] >= 4)
        first.kill()
    with WatchProcess(*words) as second:
        move_file_into(folder, "5", days_of(network.readings, 5, 7))
        wait_until(lambda: bool(second.lines_with("replayed the journal")))
        _closed(second, START + DAYS * DAY)
        assert second.stop() == 0
    assert_same_as_archive(out, network)


def test_a_replay_killed_and_gone_on_with(network: ReferenceArchive, whole: Readings, tmp_path: Path) -> None:
    out, speed = tmp_path / "out", DAYS * 86_400 / 3
    file = write_csv(tmp_path / "readings.csv", whole)
    words = (f"replay:{file}", out, *GRID, "--speed", f"{speed}")
    with WatchProcess(*words, checkpoint=0.3) as first:
        wait_until(lambda: first.metrics()["sensormend_periods_total"] >= 2)
        first.kill()
    assert read_rows(out).time.max() < START + (DAYS - 1) * DAY
    with WatchProcess(*words) as second:
        assert second.wait() == 0
    assert_same_as_archive(out, network)


def test_all_of_it_in_a_file(network: ReferenceArchive, whole: Readings, tmp_path: Path) -> None:
    write_csv(tmp_path / "readings.csv", whole)
    (tmp_path / "network.toml").write_text('source = "replay:readings.csv"\nout = "out"\nstep = "1h"\nperiod = "2d"\n')
    with WatchProcess("--config", tmp_path / "network.toml", "--period", "1d") as watch:
        assert watch.wait() == 0
    assert_same_as_archive(tmp_path / "out", network)


def test_a_wrong_call_is_one_line(network: ReferenceArchive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "network.toml").write_text('source = "-"\nout = "out"\nstpe = "1h"\n')
    (tmp_path / "broken.toml").write_text('source = "-\n')
    calls: dict[str, tuple[str | Path, ...]] = {
        "there is no key 'stpe'": ("--config", "network.toml"),
        "broken.toml: ": ("--config", "broken.toml"),
        "a source is mqtt://host/topic": ("ftp://host/readings", "out"),
        "there is no folder nowhere": ("nowhere", "out"),
        "there is no file or folder nothing.csv": ("replay:nothing.csv", "out"),
        "step: a duration is": ("mqtt://host/#", "out", "--step", "soon"),
        "a sink is mqtt://": ("mqtt://host/#", "out", "--sink", "ftp://host"),
        "watch needs SOURCE and OUT": ("mqtt://host/#",),
        "was written by clean": ("-", network.archive),
    }
    with ForkServer() as nursery:
        for number, (text, words) in enumerate(calls.items()):
            log = tmp_path / f"log-{number}"
            nursery.watch(*words, log=log)
            wait_until(lambda: log.exists() and "ended" in log.read_text())  # noqa: B023
            line, end = log.read_text().splitlines()
            assert text in line
            assert end == "ended with 2"
    assert not (tmp_path / "out").exists()
