"""`sensormend watch` as it is called: each kind of source to its end, a clean end, and what is wrong with a call."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from feeds import START, write_csv
from given import contents
from sensormend.readings import DAY, Readings
from servers import running_mosquitto
from torture import Network, feed, file_that_appears, hourly_messages_of, messages_of, publishing, same_as_the_archive
from watching import GRID, Nursery, Watch, until

SENSORS, DAYS = 8, 6

pytestmark = [pytest.mark.server, pytest.mark.processes]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Network:
    return Network(feed(SENSORS, DAYS), tmp_path_factory.mktemp("city"), DAYS)


@pytest.fixture(scope="module")
def whole(network: Network) -> Readings:
    """Return the readings of days that are whole."""
    return network.readings.taken(network.readings.time < START + DAYS * DAY)


def days_of(readings: Readings, first: int, end: int) -> Readings:
    return readings.taken((readings.time >= START + first * DAY) & (readings.time < START + end * DAY))


def test_asked_to_end_it_closes_nothing_and_goes_on_later(network: Network, tmp_path: Path) -> None:
    """To the second start the broker is not there yet, as it may be when a machine comes up."""
    out, half = tmp_path / "out", START + 3 * DAY + 10 * 3_600_000_000
    with running_mosquitto(persistent=True) as broker:
        words = (f"{broker.address}/city", out, *GRID)
        with Watch(*words) as first:
            first.connected()
            with Watch(*words) as another:
                assert another.wait() == 1
            assert "another sensormend is watching" in another.said[-1]
            assert len(another.said) == 2
            with publishing(
                broker, hourly_messages_of(network.readings.taken(network.readings.time < half))
            ) as published:
                published()
            until(lambda: first.figures()["sensormend_watermark_seconds"] >= half / 1e6 - 3600)
            began = time.monotonic()
            assert first.stop() == 0
            assert time.monotonic() - began < 5
        assert contents(out).time.max() < START + 3 * DAY
        assert "stopped" in first.said[-1]
        broker.stop()
        with Watch(*words) as second:
            until(lambda: bool(second.saying("no connection to")))
            assert second.health()[0] == 503
            broker.start()
            second.connected()
            with publishing(
                broker, hourly_messages_of(network.readings.taken(network.readings.time >= half))
            ) as published:
                published()
            _closed(second, START + DAYS * DAY)
            assert second.stop() == 0
            assert len(second.saying("no connection to")) == 1
    same_as_the_archive(out, network)


def _closed(watch: Watch, end: int) -> None:
    """Wait until the time has come to an hour after the end of a day, and what follows from it is written."""
    until(lambda: watch.figures()["sensormend_watermark_seconds"] >= end / 1e6 + 3600)


def test_lines_on_standard_input_to_their_end(network: Network, whole: Readings, tmp_path: Path) -> None:
    out, file = tmp_path / "out", tmp_path / "readings.ndjson"
    file.write_text("".join(f"{payload}\n" for _, payload in messages_of(whole)))
    with subprocess.Popen(["cat", file], stdout=subprocess.PIPE) as cat:
        assert cat.stdout is not None
        with Watch("-", out, *GRID, given=cat.stdout.fileno()) as watch:
            assert watch.wait() == 0
    assert "the source has ended" in watch.said[-1]
    same_as_the_archive(out, network)


def test_files_that_appear(network: Network, tmp_path: Path) -> None:
    """Some before it starts, one more while it runs, the last after it was killed and started again."""
    folder, out = tmp_path / "files", tmp_path / "out"
    folder.mkdir()
    words = (folder, out, *GRID)
    file_that_appears(folder, "0", days_of(network.readings, 0, 2))
    file_that_appears(folder, "2", days_of(network.readings, 2, 3))
    with Watch(*words) as first:
        until(lambda: first.figures()["sensormend_periods_total"] >= 2)
        file_that_appears(folder, "3", days_of(network.readings, 3, 5))
        until(lambda: first.figures()["sensormend_periods_total"] >= 4)
        first.kill()
    with Watch(*words) as second:
        file_that_appears(folder, "5", days_of(network.readings, 5, 7))
        until(lambda: bool(second.saying("replayed the journal")))
        _closed(second, START + DAYS * DAY)
        assert second.stop() == 0
    same_as_the_archive(out, network)


def test_a_replay_killed_and_gone_on_with(network: Network, whole: Readings, tmp_path: Path) -> None:
    out, speed = tmp_path / "out", DAYS * 86_400 / 3
    file = write_csv(tmp_path / "readings.csv", whole)
    words = (f"replay:{file}", out, *GRID, "--speed", f"{speed}")
    with Watch(*words, checkpoint=0.3) as first:
        until(lambda: first.figures()["sensormend_periods_total"] >= 2)
        first.kill()
    assert contents(out).time.max() < START + (DAYS - 1) * DAY
    with Watch(*words) as second:
        assert second.wait() == 0
    same_as_the_archive(out, network)


def test_all_of_it_in_a_file(network: Network, whole: Readings, tmp_path: Path) -> None:
    write_csv(tmp_path / "readings.csv", whole)
    (tmp_path / "network.toml").write_text('source = "replay:readings.csv"\nout = "out"\nstep = "1h"\nperiod = "2d"\n')
    with Watch("--config", tmp_path / "network.toml", "--period", "1d") as watch:
        assert watch.wait() == 0
    same_as_the_archive(tmp_path / "out", network)


def test_a_wrong_call_is_one_line(network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    with Nursery() as nursery:
        for number, (said, words) in enumerate(calls.items()):
            log = tmp_path / f"log-{number}"
            nursery.watch(*words, log=log)
            until(lambda: log.exists() and "ended" in log.read_text())  # noqa: B023
            line, end = log.read_text().splitlines()
            assert said in line
            assert end == "ended with 2"
    assert not (tmp_path / "out").exists()
