"""An OUT that disappears under a running service: said as what it is, waited for, and then the end."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

from list_source import ListSource, assert_same_rows, hourly, read_rows, run_service, settings
from sensormend.errors import SensormendError, StorageError
from sensormend.readings import DAY, Readings
from sensormend.stream import retrying as retrying
from sensormend.stream.metrics import Metrics
from sensormend.stream.service import Service
from simulated_city import START, city_readings
from torture import move_file_into
from waiting import wait_until
from watch_process import GRID, WatchProcess

DAYS, AT = 6, 13


@pytest.fixture(scope="module")
def readings() -> Readings:
    return city_readings(6, DAYS)


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrying, "RETRY_INTERVAL", 0.05)
    monkeypatch.setattr(retrying, "GONE_WAIT", 0.5)


class Telling(Metrics):
    """Notes what `/healthz` says whenever nothing can be written, and may do something then."""

    def __init__(self, act: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self.answers: list[tuple[bool, list[str]]] = []
        self._act = act

    def beat(self) -> None:
        super().beat()
        if self.disk_error is not None:
            well, answer = self.health()
            self.answers.append((well, answer["reasons"]))
            self._act()


def service(
    out: Path, parts: list[Readings], metrics: Metrics, remove: Callable[[], None]
) -> tuple[Service, ListSource]:
    source = ListSource(parts, stop=lambda number: remove() if number == AT else None)
    return Service(settings(out), lambda mark, memory: source, metrics=metrics), source


@pytest.mark.parametrize("what", ["", "state", "state/store.sqlite"])
def test_it_is_logged_and_ends_after_a_while(
    readings: Readings, tmp_path: Path, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    out, metrics = tmp_path / "out", Telling()

    def remove(path: Path) -> None:
        path.unlink() if path.is_file() else shutil.rmtree(path)

    run, source = service(out, hourly(readings, 6), metrics, lambda: remove(out / what))
    with (
        caplog.at_level(logging.INFO),
        pytest.raises(SensormendError, match=r"is gone, or something in it.*start again"),
    ):
        run.run()
    # What comes after it is gone is not acknowledged, so that whoever sent it has it still.
    assert source.acknowledged == list(range(AT))
    assert len(metrics.answers) > 3
    assert not any(well for well, _ in metrics.answers)
    assert all("is gone" in reasons[0] for _, reasons in metrics.answers)
    assert sum("is gone" in record.getMessage() for record in caplog.records) == 1
    assert "the disk cannot be written" not in caplog.text
    # Nothing makes it anew, without what was in it.
    assert not (out / what).exists()


def test_one_that_comes_back_goes_on(readings: Readings, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    parts, out, away = hourly(readings, 6), tmp_path / "out", tmp_path / "away"
    run_service(tmp_path / "plain", parts)

    def back() -> None:
        if len(metrics.answers) == 4:
            away.rename(out)

    def remove() -> None:
        out.rename(away)

    metrics = Telling(back)
    run, source = service(out, parts, metrics, remove)
    with caplog.at_level(logging.INFO):
        run.run()
    assert len(metrics.answers) == 4
    assert source.acknowledged == list(range(len(parts)))
    assert "is back" in caplog.text
    assert metrics.health()[0]
    assert_same_rows(read_rows(out), read_rows(tmp_path / "plain"))


@pytest.mark.processes
@pytest.mark.parametrize("asked", [True, False])
def test_a_process_says_so_and_ends(readings: Readings, tmp_path: Path, asked: bool) -> None:
    """With exit code 1 where nobody has asked it to end meanwhile."""
    folder, out = tmp_path / "files", tmp_path / "out"
    folder.mkdir()
    move_file_into(folder, "0", readings.taken(readings.time < START + 3 * DAY))
    with WatchProcess(folder, out, *GRID, gone=60.0 if asked else 3.0) as watch:
        wait_until(lambda: watch.metrics()["sensormend_periods_total"] >= 2)
        shutil.rmtree(out)
        move_file_into(folder, "3", readings.taken(readings.time >= START + 3 * DAY))
        wait_until(lambda: bool(watch.lines_with("is gone")))
        if asked:
            status, answer = watch.health()
            assert status == 503
            assert any("is gone" in reason for reason in answer["reasons"])
            assert watch.stop() == 0
            assert watch.lines_with("stopped while its folder was gone")
        else:
            assert watch.wait() == 1
            assert "start again, or watch into another OUT" in watch.lines[-1]
    # It may have been about to write a file of the folder's; nothing goes on in there.
    assert not (out / "state" / "store.sqlite").exists()
    assert not (out / "data").exists()


@pytest.mark.skipif(os.name != "posix", reason="the limit of open files is one of POSIX")
@pytest.mark.parametrize("kind", ["file", "sqlite"])
def test_too_many_open_files_are_reported_as_such(kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    import resource

    def act() -> None:
        if kind == "file":
            (tmp_path / "new").write_text("content")
            return
        try:
            sqlite3.connect(tmp_path / "new.sqlite").execute("CREATE TABLE one (number)").connection.close()
        except sqlite3.Error as error:
            raise StorageError(f"cannot write: {error}") from error

    def free() -> None:
        if len(metrics.answers) == 3:
            for file in files:
                file.close()

    metrics, files = Telling(free), list[IO[bytes]]()
    retry = retrying.DiskRetry(threading.Event(), metrics, tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, hard), hard))
    try:
        with caplog.at_level(logging.INFO):
            with contextlib.suppress(OSError):
                while True:
                    files.append(Path(os.devnull).open("rb"))  # noqa: SIM115
            retry(act)
    finally:
        for file in files:
            file.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(metrics.answers) == 3
    assert all(reasons[0].startswith("too many files are open") for _, reasons in metrics.answers)
    assert metrics.disk_error is None
    assert [record.getMessage() for record in caplog.records] == [
        "too many files are open",
        "files can be opened again",
    ]
