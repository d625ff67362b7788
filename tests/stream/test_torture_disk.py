"""A full disk: said once, nothing acknowledged that is not on it, and it goes on when there is room."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sensormend.pipeline.times import iso
from sensormend.readings import DAY, SECOND
from sensormend.stream.store import Acknowledged
from servers import lacking, running_mosquitto, running_postgres
from simulated_city import START
from things_server import running_things
from torture import (
    END,
    ReferenceArchive,
    assert_same_as_archive,
    feed,
    hourly_messages_of,
    messages_of,
    move_file_into,
    publishing,
    wait_for_end,
)
from waiting import wait_until
from watch_process import GRID, WatchProcess

SENSORS, DAYS = 8, 10
FULL, WRITABLE = "the disk cannot be written", "the disk can be written again"

pytestmark = [pytest.mark.server, pytest.mark.processes]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> ReferenceArchive:
    return ReferenceArchive(feed(SENSORS, DAYS), tmp_path_factory.mktemp("city"), DAYS)


class Disk:
    """A small disk that can be filled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self, left: int = 0) -> None:
        """Leave so many bytes."""
        with self._ballast.open("wb") as ballast:
            while True:
                status = os.statvfs(self.folder)
                size = (status.f_bavail * status.f_frsize - left) // status.f_frsize * status.f_frsize
                if size <= 0:
                    return
                try:
                    os.posix_fallocate(ballast.fileno(), 0, size)
                except OSError:
                    continue  # somebody else has taken some of it meanwhile
                return

    def empty(self) -> None:
        """Make room again."""
        self._ballast.unlink()


@contextmanager
def small_disk() -> Iterator[Disk]:
    """Give a disk of some megabytes, a tmpfs."""
    folder = Path(tempfile.mkdtemp(prefix="sensormend-disk-"))
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "none", folder], capture_output=True, check=False
    )
    try:
        if mounted.returncode == 0:
            yield Disk(folder)
        else:
            # Who may not mount, as in a container, has a small one there.
            with _shared_memory() as folder:
                yield Disk(folder)
    finally:
        if mounted.returncode == 0:
            subprocess.run(["umount", "-l", folder], check=True)
        folder.rmdir()


@contextmanager
def _shared_memory() -> Iterator[Path]:
    root = Path("/dev/shm")
    status = os.statvfs(root) if os.access(root, os.W_OK) else None
    if status is None or status.f_blocks * status.f_frsize > 1 << 30:
        lacking("there is no small disk: neither may a tmpfs be mounted, nor is /dev/shm one of less than 1 GB")
    folder = Path(tempfile.mkdtemp(prefix="sensormend-disk-", dir=root))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def test_the_disk_is_full(network: ReferenceArchive) -> None:
    with small_disk() as disk, running_mosquitto() as broker:
        out = disk.folder / "out"
        words = (f"{broker.address}/city/#", out, *GRID)
        with WatchProcess(*words, checkpoint=0.3) as watch:
            watch.connected()
            with publishing(broker, messages_of(network.readings), 15.0, len(network.readings)) as published:
                # At the next message, when values are provisional or a day is over, when a checkpoint is due.
                for times, left in enumerate((0, 12 << 10, 64 << 10), start=1):
                    time.sleep(0.5)
                    disk.fill(left)
                    wait_until(lambda: watch.health()[0] == 503)
                    assert any("No space left" in reason for reason in watch.health()[1]["reasons"])
                    time.sleep(0.3)
                    disk.empty()
                    wait_until(lambda: watch.health()[0] == 200)
                    assert len(watch.lines_with(FULL)) == len(watch.lines_with(WRITABLE)) == times
                # Not a byte more, not even in the last page of the journal: what comes now is not acknowledged, and the
                # broker has it for the next one.
                _limit(watch, 0)
                wait_until(lambda: watch.health()[0] == 503)
                watch.kill()
                disk.fill()
                with WatchProcess(*words, checkpoint=0.3) as after:
                    wait_until(lambda: bool(after.lines_with(FULL)))
                    assert after.health()[0] == 503
                    disk.empty()
                    published()
                    wait_for_end(out)
                    assert after.stop() == 0
                    assert len(after.lines_with(FULL)) == len(after.lines_with(WRITABLE)) == 1
        assert_same_as_archive(out, network)


Sender = Callable[[Sequence[tuple[str, int, float]]], None]
"""Gives readings to a source: sensor, time and value; without any, what marks the end."""


@contextmanager
def postgres_feed() -> Iterator[tuple[str, Sender]]:
    psycopg = pytest.importorskip("psycopg")
    with running_postgres() as address, psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE TABLE feed (id bigserial PRIMARY KEY, sensor text, time text, value float8)")

        def send(readings: Sequence[tuple[str, int, float]]) -> None:
            rows = [(sensor, f"{iso(moment)}Z", value) for sensor, moment, value in readings] or [("a", END, 0.0)]
            connection.cursor().executemany("INSERT INTO feed (sensor, time, value) VALUES (%s, %s, %s)", rows)

        yield f"{address}?table=feed", send


@contextmanager
def kafka_feed() -> Iterator[tuple[str, Sender]]:
    kafka = pytest.importorskip("confluent_kafka")
    producer = kafka.Producer({"bootstrap.servers": "none", "test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = producer.list_topics(timeout=10).brokers.values()

    def send(readings: Sequence[tuple[str, int, float]]) -> None:
        for sensor, moment, value in readings:
            content = json.dumps({"time": iso(moment), "value": value})
            # Partitions are read in the order of their times.
            producer.produce("feed", content, sensor, timestamp=moment // 1000)
        if not readings:
            producer.produce("feed", END, "end")
        assert producer.flush(20) == 0

    yield f"kafka://{broker.host}:{broker.port}/feed", send


@contextmanager
def things_feed() -> Iterator[tuple[str, Sender]]:
    streams: dict[str, int] = {}
    with running_things() as (things, address):

        def send(readings: Sequence[tuple[str, int, float]]) -> None:
            for sensor, moment, value in readings:
                stream = streams.get(sensor) or streams.setdefault(sensor, things.add_stream(sensor, ""))
                things.observe(stream, datetime.fromtimestamp(moment / SECOND, UTC), value)
            if not readings:
                things.observe(1, datetime.now(UTC), END)

        yield f"{address}?poll=1s", send


@pytest.mark.parametrize("feeding", [postgres_feed, kafka_feed, things_feed])
def test_the_disk_is_full_whatever_the_source(network: ReferenceArchive, feeding: Any) -> None:
    """What comes while nothing can be written, and at a start on a full disk, is in OUT once there is room."""
    readings = network.readings
    names = [readings.sensors[code] for code in readings.sensor.tolist()]
    rows = list(zip(names, readings.time.tolist(), readings.value.tolist(), strict=True))
    third = len(rows) // 3
    with small_disk() as disk, feeding() as (address, send):
        out = disk.folder / "out"
        send(rows[:third])
        with WatchProcess(address, out, *GRID, checkpoint=0.3) as watch:
            watch.connected()
            wait_until(lambda: watch.metrics()["sensormend_readings_total"] == third)
            disk.fill()
            send(rows[third : 2 * third])
            wait_until(lambda: watch.health()[0] == 503)
            watch.kill()
        with WatchProcess(address, out, *GRID, checkpoint=0.3) as after:
            wait_until(lambda: bool(after.lines_with(FULL)))
            send(rows[2 * third :])
            send([])
            disk.empty()
            wait_for_end(out)
            assert after.stop() == 0
            assert not after.lines_with("Traceback")
        assert_same_as_archive(out, network)


def test_rows_cannot_be_written(network: ReferenceArchive, tmp_path: Path) -> None:
    """Only they: their folder is on a disk of its own."""
    with small_disk() as disk, running_mosquitto() as broker:
        out = tmp_path / "out"
        words = (f"{broker.address}/city/#", out, *GRID)
        with WatchProcess(*words) as first:
            first.connected()
            assert first.stop() == 0
        (disk.folder / "data").mkdir()
        (out / "data").symlink_to(disk.folder / "data")
        hours = hourly_messages_of(network.readings)
        with WatchProcess(*words) as watch, publishing(broker, hours, 12.0, 24 * DAYS) as published:
            for times in (1, 2):
                disk.fill()
                wait_until(lambda: len(watch.lines_with(FULL)) == times)  # noqa: B023
                assert ".parquet" in watch.lines_with(FULL)[-1]
                assert watch.health()[0] == 503
                disk.empty()
                wait_until(lambda: len(watch.lines_with(WRITABLE)) == times)  # noqa: B023
                wait_until(lambda: len(list((disk.folder / "data").rglob("*.parquet"))) >= 2 * times)  # noqa: B023
            published()
            wait_for_end(out)
            assert watch.stop() == 0
            assert not list((disk.folder / "data").rglob("*.new"))
        assert_same_as_archive(out, network)


def test_a_checkpoint_cannot_be_written(network: ReferenceArchive, tmp_path: Path) -> None:
    """A limit for the size of files: that of the model is the first that is over it."""
    out = tmp_path / "out"
    with running_mosquitto() as broker:
        words = (f"{broker.address}/city/#", out, *GRID)
        with WatchProcess(*words, checkpoint=0.3) as watch:
            watch.connected()
            with publishing(broker, hourly_messages_of(network.readings), 6.0, 24 * DAYS) as published:
                wait_until(lambda: _checkpoint(out) is not None)
                limit = (out / "state" / "store.sqlite").stat().st_size * 3 // 4
                _limit(watch, limit)
                wait_until(lambda: watch.health()[0] == 503)
                stored = _checkpoint(out)
                assert stored is not None
                time.sleep(1.2)
                assert _checkpoint(out) == stored
                _limit(watch, resource.RLIM_INFINITY)
                wait_until(lambda: watch.health()[0] == 200)
                wait_until(lambda: _checkpoint(out) != stored)
                # Once more, and now it is asked to end before there is room.
                _limit(watch, limit)
                wait_until(lambda: watch.health()[0] == 503)
                assert watch.stop() == 0
                assert len(watch.lines_with(FULL)) == 2
                assert len(watch.lines_with("stopped while the disk was full")) == 1
                published()
                with WatchProcess(*words) as after:
                    wait_for_end(out)
                    after.connected()
                    assert after.stop() == 0
    assert_same_as_archive(out, network)


def test_a_file_that_appears_while_the_disk_is_full_is_not_taken_for_a_broken_one(
    network: ReferenceArchive, tmp_path: Path
) -> None:
    """On its way it is written down for a while, and that is what fails."""
    folder, out = tmp_path / "files", tmp_path / "out"
    folder.mkdir()
    first = network.readings.time < START + 3 * DAY
    move_file_into(folder, "first", network.readings.taken(first))
    with WatchProcess(folder, out, *GRID) as watch:
        wait_until(lambda: watch.metrics()["sensormend_periods_total"] >= 2)
        _limit(watch, 20 << 10)
        move_file_into(folder, "second", network.readings.taken(~first))
        wait_until(lambda: bool(watch.lines_with(FULL)))
        assert watch.health()[0] == 503
        _limit(watch, resource.RLIM_INFINITY)
        wait_until(lambda: watch.metrics()["sensormend_periods_total"] >= DAYS)
        assert watch.stop() == 0
        assert len(watch.lines_with(FULL)) == len(watch.lines_with(WRITABLE)) == 1
    assert_same_as_archive(out, network)
    assert not (out / "rejected.csv").exists()


def _limit(watch: WatchProcess, size: int) -> None:
    _, most = resource.prlimit(watch.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(watch.process.pid, resource.RLIMIT_FSIZE, (size, most))


def _checkpoint(out: Path) -> dict[str, int] | None:
    return Acknowledged.read(out / "state" / "acknowledged").get("checkpoint")
