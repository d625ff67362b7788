"""Disks that are full, folders that hold a file per sensor, names that nobody can read: nothing is lost, or twice."""

from __future__ import annotations

import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sensormend.errors import ConfigError, InputError, SensormendError
from sensormend.io.options import Options
from sensormend.io.staging import Staging
from sensormend.stream.arrivals import Arrived, Source
from sensormend.stream.formats import values as why
from sensormend.stream.sources import folder_source as folder_module
from sensormend.stream.sources import open_source
from sensormend.stream.sources.folder_source import FileState, FolderSource, files_below
from sensormend.stream.sources.pipe_source import PipeSource
from sensormend.stream.sources.replay_source import ReplaySource
from simulated_city import city_readings, write_csv
from staged_readings import as_list

HEAD = "sensor,time,value\n"


@pytest.fixture(autouse=True)
def _scan_always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look into a folder every time, and let a hundred readings be many."""
    monkeypatch.setattr(folder_module, "SCAN_INTERVAL", 0.0)
    monkeypatch.setattr(folder_module, "SCAN_SHARE", 1.0)
    for module in ("folder_source", "replay_source"):
        monkeypatch.setattr(f"sensormend.stream.sources.{module}.CHUNK", 100)


@pytest.fixture
def incoming(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def drop(path: Path, text: str | bytes, age: float = 60.0) -> Path:
    """Put a file somewhere that was written a while ago."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    os.utime(path, (time.time() - age, time.time() - age))
    return path


def read_all(source: Source) -> tuple[list[Arrived], int]:
    """Read until there is nothing more, as the service does: again after what the disk did. And how often that was."""
    arrivals: list[Arrived] = []
    failed = 0
    while failed < 50:
        try:
            arrived = source.read(0.0)
        except (InputError, ConfigError):
            raise
        except (OSError, SensormendError):
            failed += 1
            continue
        if arrived is None or arrived.empty:
            break
        arrivals.append(arrived)
    return arrivals, failed


def readings_of(arrivals: list[Arrived]) -> list[Any]:
    return [entry for arrived in arrivals for entry in as_list(arrived.readings)]


def rejected_of(arrivals: list[Arrived]) -> list[tuple[str, str]]:
    return [(one.where, one.reason) for arrived in arrivals for one in arrived.rejected]


def failing(act: Callable[..., Any], error: Exception) -> Callable[..., Any]:
    """Return what fails every second time."""
    count = [0]

    def act_or_not(*given: Any, **named: Any) -> Any:
        count[0] += 1
        if count[0] % 2:
            raise error
        return act(*given, **named)

    return act_or_not


@pytest.mark.parametrize("error", [SensormendError("no room"), OSError(28, "No space left on device")])
def test_a_replay_that_could_not_read_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    readings = city_readings(6, 4)
    path = write_csv(tmp_path / "a.csv", readings)
    with ReplaySource(str(path), None, tmp_path / "work") as source:
        monkeypatch.setattr(Staging, "read", failing(Staging.read, error))
        arrivals, failed = read_all(source)
    got = readings_of(arrivals)
    assert failed >= 4
    assert sorted(got) == sorted(as_list(readings))
    assert [entry[2] for entry in got] == sorted(entry[2] for entry in got)
    assert arrivals[-1].mark == len(readings)


@pytest.mark.parametrize("what", ["load", "sort", "read", "list", "begun"])
def test_a_folder_that_could_not_be_read_is_read_again(
    incoming: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    readings = city_readings(6, 4)
    write_csv(incoming / "a.csv", readings, np.arange(0, len(readings), 2))
    write_csv(incoming / "b.csv", readings, np.arange(1, len(readings), 2))
    for name in ("a.csv", "b.csv"):
        drop(incoming / name, (incoming / name).read_text() + f"{name},never,1\n")
    full = OSError(28, "No space left on device")
    with FolderSource(incoming, None, tmp_path / "work") as source:
        if what == "list":
            monkeypatch.setattr("sensormend.stream.sources.folder_source.os.fsync", failing(os.fsync, full))
        elif what == "begun":
            monkeypatch.setattr(folder_module.FilesRead, "begin", failing(folder_module.FilesRead.begin, full))
        else:
            monkeypatch.setattr(Staging, what, failing(getattr(Staging, what), SensormendError("no room")))
        arrivals, failed = read_all(source)
        assert failed
        assert sorted(readings_of(arrivals)) == sorted(as_list(readings))
        assert [reason for _, reason in rejected_of(arrivals)] == [why.NOT_A_TIME] * 2
        drop(incoming / "c.csv", HEAD + "c,2020-03-01,1\n")
        arrivals, _ = read_all(source)
        assert len(readings_of(arrivals)) == 1, "the others are done"
    monkeypatch.undo()
    lines = (tmp_path / "work" / "files.jsonl").read_text().splitlines()
    assert len(lines) == arrivals[-1].mark["files"] == 3
    with FolderSource(incoming, None, tmp_path / "work", mark=arrivals[-1].mark) as source:
        assert source.read(0.0).empty


@contextmanager
def no_large_files(size: int) -> Iterator[None]:
    """Let nothing be written beyond a size: to whoever writes, the disk is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_no_file_is_blamed_for_a_full_disk(incoming: Path, tmp_path: Path, encoding: str) -> None:
    rows = "".join(
        f"s{n % 50},2020-01-01 {n // 3600:02d}:{n // 60 % 60:02d}:{n % 60:02d},{n}.5\n" for n in range(20_000)
    )
    drop(incoming / "a.csv", (HEAD + rows).encode(encoding))
    with FolderSource(incoming, None, tmp_path / "work") as source:
        with no_large_files(100_000):
            for _ in range(2):
                with pytest.raises((OSError, SensormendError)) as raised:
                    source.read(0.0)
                assert not isinstance(raised.value, InputError)
        arrivals, failed = read_all(source)
    assert not failed
    assert len(readings_of(arrivals)) == 20_000
    assert not rejected_of(arrivals)


def test_no_sensor_runs_ahead_of_the_others(incoming: Path, tmp_path: Path) -> None:
    for number in range(120):
        rows = "".join(f"s{number},2020-01-{day:02d} 12:00,{number}\n" for day in range(1, 11))
        drop(incoming / f"s{number}.csv", HEAD + rows, age=1000 - number)
    drop(incoming / "broken.csv", b"\0\1\2" * 100, age=900)
    drop(incoming / "none.csv", HEAD, age=900)
    drop(incoming / "dated.csv", HEAD + "x,01/02/2020,1\nx,03/04/2020,1\n", age=900)
    with FolderSource(incoming, None, tmp_path / "work") as source:
        arrivals, _ = read_all(source)
    got = readings_of(arrivals)
    assert len(got) == 1200
    assert [entry[2] for entry in got] == sorted(entry[2] for entry in got)
    assert sorted(rejected_of(arrivals)) == [("broken.csv", why.UNREADABLE), ("dated.csv", why.UNREADABLE)]
    assert max(len(str(arrived.mark)) for arrived in arrivals) < 200, "every record of the journal has one"


def test_a_group_goes_on_after_a_restart_unless_it_changed(incoming: Path, tmp_path: Path) -> None:
    for name in "ab":
        drop(incoming / f"{name}.csv", HEAD + "".join(f"{name},2020-01-0{day} 12:00,1\n" for day in range(1, 6)))
    with FolderSource(incoming, None, tmp_path / "work") as source:
        mark = [source.read(0.0) for _ in range(2)][-1].mark
    with FolderSource(incoming, None, tmp_path / "work", mark=mark) as source:
        assert len(readings_of(read_all(source)[0])) == 6
    (incoming / "a.csv").unlink()
    with FolderSource(incoming, None, tmp_path / "work", mark=mark) as source:
        assert len(readings_of(read_all(source)[0])) == 5


def test_a_file_that_is_gone_when_it_is_read(incoming: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drop(incoming / "a.csv", HEAD + "a,2020-01-01 12:00,1\n")
    gone = drop(incoming / "b.csv", HEAD + "b,2020-01-01 12:00,1\n")
    load = Staging.load

    def late(self: Staging, *given: Any, **named: Any) -> None:
        gone.unlink(missing_ok=True)
        load(self, *given, **named)

    monkeypatch.setattr(Staging, "load", late)
    with FolderSource(incoming, None, tmp_path / "work") as source:
        arrivals, failed = read_all(source)
    assert (len(readings_of(arrivals)), rejected_of(arrivals), failed) == (1, [], 0)


def test_results_are_not_taken_for_readings(incoming: Path, tmp_path: Path) -> None:
    drop(incoming / "out.csv", HEAD + "a,2020-01-01 12:00,1\n")
    drop(incoming / "deep" / "out" / "state" / "files.jsonl", '{"sensor": "x"}\n')
    drop(incoming / "deep" / "out" / "faults.csv", HEAD + "b,2020-01-01 12:00,1\n")
    (tmp_path / "link").symlink_to(incoming)
    for folder, without in ((incoming, tmp_path / "link" / "deep" / "out"), (tmp_path / "link", incoming / "deep/out")):
        with open_source(str(folder), work=tmp_path / "w" / folder.name, without=without) as source:
            arrivals, _ = read_all(source)
        assert [entry[0] for entry in readings_of(arrivals)] == ["a"]
        assert rejected_of(arrivals) == []


@pytest.mark.parametrize(
    ("name", "text", "sure"),
    [
        ("state/watch.json", "{}", True),
        ("run.json", '{"command": "clean"}', True),
        # Anybody may have such a file beside readings.
        ("run.json", "{}", False),
        ("run.json", "[1", False),
    ],
)
def test_results_of_others_are_not_taken_for_readings_either(
    incoming: Path, tmp_path: Path, name: str, text: str, sure: bool
) -> None:
    drop(incoming / "a.csv", HEAD + "a,2020-01-01 12:00,1\n")
    drop(incoming / "deep" / "other" / name, text)
    drop(incoming / "deep" / "other" / "faults.csv", HEAD + "b,2020-01-01 12:00,1\n")
    with FolderSource(incoming, None, tmp_path / "work") as source:
        assert [entry[0] for entry in readings_of(read_all(source)[0])] == ["a"]
    if not sure:
        FolderSource(incoming / "deep" / "other", None, tmp_path / "more").close()
    else:
        with pytest.raises(ConfigError, match="results of sensormend"):
            FolderSource(incoming / "deep" / "other", None, tmp_path / "more")


@contextmanager
def without_power() -> Iterator[None]:
    """Be nobody for a while, who may not read what is root's."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


def test_a_file_that_we_may_not_read_is_read_when_we_may(caplog: pytest.LogCaptureFixture) -> None:
    with tempfile.TemporaryDirectory() as made:
        root = Path(made)
        for folder in (root, root / "in", root / "work"):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o777)
        barred = drop(root / "in" / "b.csv", HEAD + "b,2020-01-01 12:00,1\n")
        barred.chmod(0)
        drop(root / "in" / "a.csv", HEAD + "a,2020-01-01 12:00,1\n")
        with without_power(), FolderSource(root / "in", None, root / "work") as source:
            arrivals, failed = read_all(source)
            assert ([entry[0] for entry in readings_of(arrivals)], rejected_of(arrivals), failed) == (["a"], [], 0)
            for _ in range(3):
                assert source.read(0.0).empty
            assert [record.getMessage() for record in caplog.records] == [
                f"{barred}: not allowed to read it; tried again until it is"
            ]
        barred.chmod(0o644)
        with without_power(), FolderSource(root / "in", None, root / "work", mark=arrivals[-1].mark) as source:
            assert [entry[0] for entry in readings_of(read_all(source)[0])] == ["b"]


@pytest.mark.parametrize("line", ["a,yesterday,1", "hello", "1;2;3\n"])
@pytest.mark.parametrize("alone", [True, False])
def test_one_line_that_names_no_column_is_refused(incoming: Path, tmp_path: Path, line: str, alone: bool) -> None:
    drop(incoming / "one.csv", line)
    if not alone:
        drop(incoming / "a.csv", HEAD + "a,2020-01-01 12:00,1\n")
        drop(incoming / "none.csv", HEAD)
    with FolderSource(incoming, None, tmp_path / "work") as source:
        arrivals, _ = read_all(source)
        assert rejected_of(arrivals) == [("one.csv", why.UNREADABLE)]
        assert len(readings_of(arrivals)) == (0 if alone else 1)
        assert source.read(0.0).empty


def test_a_file_need_not_have_a_column_for_each_variable_that_may_come(incoming: Path, tmp_path: Path) -> None:
    long = "".join(f"a,2020-01-01T{hour:02d}:00,temp,{hour}\n" for hour in range(5))
    wide = "".join(f"b,2020-01-01T{hour:02d}:00,{hour},3.7\n" for hour in range(5))
    drop(incoming / "long.csv", "sensor,time,variable,value\n" + long)
    drop(incoming / "wide.csv", "sensor,time,temp,battery\n" + wide)
    options = Options.of(variables=["temp", "humidity"])
    with FolderSource(incoming, options, tmp_path / "work") as source:
        arrivals, _ = read_all(source)
    assert not rejected_of(arrivals)
    got = {(sensor, variable, value) for sensor, variable, _, value in readings_of(arrivals)}
    assert got == {(sensor, "temp", float(hour)) for sensor in "ab" for hour in range(5)}


def test_names_that_are_not_utf8_are_told_about_once(incoming: Path, tmp_path: Path) -> None:
    drop(incoming / os.fsdecode(b"x\xff") / "a.csv", HEAD + "a,2020-01-01 12:00,1\n")
    drop(incoming / os.fsdecode(b"x\xff") / "b.csv", HEAD + "a,2020-01-01 12:00,1\n")
    drop(incoming / os.fsdecode(b"y\xff.csv"), HEAD + "a,2020-01-01 12:00,1\n")
    drop(incoming / "z.csv", HEAD + "z,2020-01-01 12:00,1\n")
    with FolderSource(incoming, None, tmp_path / "work") as source:
        arrivals, _ = read_all(source)
        assert sorted(rejected_of(arrivals)) == [(r"x\xff", why.UNREADABLE), (r"y\xff.csv", why.UNREADABLE)]
        assert [entry[0] for entry in readings_of(arrivals)] == ["z"]
        assert source.read(0.0).empty
    with FolderSource(incoming, None, tmp_path / "work", mark=arrivals[-1].mark) as source:
        assert source.read(0.0).empty
    with pytest.raises(ConfigError, match="not UTF-8"):
        FolderSource(incoming / os.fsdecode(b"x\xff"), None, tmp_path / "work")


def test_looking_takes_a_tenth_of_the_time(incoming: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_module, "SCAN_SHARE", 0.1)
    looks = []

    def slowly(*given: Any) -> Iterator[FileState]:
        looks.append(given)
        time.sleep(0.03)
        yield from files_below(*given)

    monkeypatch.setattr(folder_module, "files_below", slowly)
    with FolderSource(incoming, None, tmp_path / "work") as source:
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            source.read(0.01)
    assert 2 <= len(looks) <= 4


def test_lines_that_came_before_an_error_are_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    out, into = os.pipe()
    os.write(into, b'{"sensor": "a", "value": 1}\nx\n{"sensor": "b", "value": 2}\n')
    os.close(into)
    read, count = os.read, [0]

    def once(descriptor: int, size: int) -> bytes:
        count[0] += 1
        if count[0] == 2:
            raise OSError(5, "Input/output error")
        return read(descriptor, size)

    monkeypatch.setattr("sensormend.stream.sources.pipe_source.os.read", once)
    arrivals, failed = read_all(PipeSource(descriptor=out))
    os.close(out)
    assert failed == 1
    assert [entry[0] for entry in readings_of(arrivals)] == ["a", "b"]
    assert rejected_of(arrivals) == [("line 2", why.NOT_JSON)]
