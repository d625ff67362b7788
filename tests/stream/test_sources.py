"""Files that appear, lines that come, an archive that is replayed: whatever the disk does, nothing is lost or twice."""

from __future__ import annotations

import gzip
import json
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
from sensormend.io.staging import Staging
from sensormend.pipeline.options import Options
from sensormend.readings import DAY, HOUR, SECOND, Readings
from sensormend.stream.arrivals import Arrived, Source
from sensormend.stream.formats import values as why
from sensormend.stream.formats.decoding import LARGEST
from sensormend.stream.sources import folder_source, open_source
from sensormend.stream.sources.folder_source import FileState, FolderSource, files_below
from sensormend.stream.sources.pipe_source import PipeSource
from sensormend.stream.sources.replay_source import ReplaySource
from simulated_city import city_readings, small_city, tensor_readings, write_csv
from staged_readings import as_list

HEAD = "sensor,time,value\n"


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scan a folder every time, and read a hundred readings at once."""
    monkeypatch.setattr(folder_source, "SCAN_INTERVAL", 0.0)
    monkeypatch.setattr(folder_source, "SCAN_SHARE", 1.0)
    for module in ("folder_source", "replay_source"):
        monkeypatch.setattr(f"sensormend.stream.sources.{module}.CHUNK", 100)


@pytest.fixture
def incoming(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def read_all(source: Source, parts: int = 10_000, wait: float = 0.0) -> list[Arrived]:
    """Read until there is nothing more."""
    arrivals: list[Arrived] = []
    while len(arrivals) < parts:
        arrived = source.read(wait)
        if arrived is None or arrived.empty:
            break
        arrivals.append(arrived)
    return arrivals


def is_connected(source: Source) -> bool:
    """Say whether it is connected; unlike an attribute, this may change under mypy's eyes."""
    return source.connected


def readings_of(arrivals: list[Arrived]) -> list[Any]:
    return [entry for arrived in arrivals for entry in as_list(arrived.readings)]


def drop(path: Path, text: str | bytes, age: float = 60.0) -> Path:
    """Put a file somewhere that was written a while ago."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    os.utime(path, (time.time() - age, time.time() - age))
    return path


def read_retrying(source: Source) -> tuple[list[Arrived], int]:
    """Read until there is nothing more, again after errors of the disk; return the number of errors too."""
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


def rejected_of(arrivals: list[Arrived]) -> list[tuple[str, str]]:
    return [(one.where, one.reason) for arrived in arrivals for one in arrived.rejected]


def table(*rows: tuple[str, str, float]) -> str:
    return HEAD + "".join(f"{sensor},{when},{value}\n" for sensor, when, value in rows)


def test_files_appear(incoming: Path, tmp_path: Path) -> None:
    with FolderSource(incoming, None, tmp_path / "work") as source:
        assert source.read(0.0).empty
        drop(incoming / "b.csv", table(("a", "2020-01-01 00:00", 1)), age=90)
        drop(incoming / "deep" / "er" / "a.ndjson", '{"sensor": "a", "time": "2020-01-01 01:00", "value": 2}\n')
        drop(incoming / "c.csv.gz", gzip.compress(table(("b", "2020-01-01 02:00", 3)).encode()))
        for name in (".hidden.csv", "_temporary.csv", "half.csv.part", "half.csv.tmp", "half.csv.new", "notes.md"):
            drop(incoming / name, table(("x", "2020-01-01 00:00", 9)))
        drop(incoming / "out" / "run.json", "{}")
        drop(incoming / "out" / "rows.csv", table(("x", "2020-01-01 00:00", 9)))
        arrivals = read_all(source)
        assert [entry[3] for entry in readings_of(arrivals)] == [1.0, 2.0, 3.0]
        assert source.read(0.0).empty
        drop(incoming / "d.csv", table(("a", "2020-01-01 03:00", 4)))
        assert [entry[3] for entry in readings_of(read_all(source))] == [4.0]


def test_a_file_that_is_being_written_is_left_alone(incoming: Path, tmp_path: Path) -> None:
    with FolderSource(incoming, None, tmp_path / "work") as source:
        drop(incoming / "a.csv", table(("a", "2020-01-01 00:00", 1)), age=0.0)
        assert source.read(0.0).empty
        drop(incoming / "a.csv", table(("a", "2020-01-01 00:00", 1), ("a", "2020-01-01 01:00", 2)), age=0.5)
        assert source.read(0.0).empty
        os.utime(incoming / "a.csv", (time.time() - 3, time.time() - 3))
        assert len(readings_of(read_all(source))) == 2
        # A clock that is ahead: the same twice is enough.
        drop(incoming / "b.csv", table(("a", "2020-01-01 02:00", 3)), age=-3600)
        assert source.read(0.0).empty
        assert len(readings_of(read_all(source))) == 1


def test_a_file_that_has_grown_is_read_again(incoming: Path, tmp_path: Path) -> None:
    with FolderSource(incoming, None, tmp_path / "work") as source:
        drop(incoming / "a.csv", table(("a", "2020-01-01 00:00", 1)))
        assert len(readings_of(read_all(source))) == 1
        drop(incoming / "a.csv", table(("a", "2020-01-01 00:00", 1), ("a", "2020-01-01 01:00", 2)), age=30)
        assert len(readings_of(read_all(source))) == 2
        assert source.read(0.0).empty


def test_a_broken_file_is_told_about_once_and_the_others_go_on(incoming: Path, tmp_path: Path) -> None:
    with FolderSource(incoming, None, tmp_path / "work") as source:
        drop(incoming / "a.csv", table(("a", "2020-01-01 00:00", 1)), age=90)
        drop(incoming / "b.csv", b"\x00\x01\x02" * 100, age=80)
        drop(incoming / "c.parquet", b"PAR1 not really", age=70)
        drop(
            incoming / "d.csv",
            table(("a", "2020-01-01 01:00", 2), ("a", "2020-01-01 02:00", 3)) + "a,never,4\n",
            age=60,
        )
        arrivals = read_all(source)
        assert [entry[3] for entry in readings_of(arrivals)] == [1.0, 2.0, 3.0]
        rejected = [one for arrived in arrivals for one in arrived.rejected]
        assert [(one.where, one.reason) for one in rejected] == [
            ("b.csv", why.UNREADABLE),
            ("c.parquet", why.UNREADABLE),
            ("d.csv, row 4", why.NOT_A_TIME),
        ]
        assert source.read(0.0).empty
    with FolderSource(incoming, None, tmp_path / "work", mark=arrivals[-1].mark) as source:
        assert source.read(0.0).empty


@pytest.mark.parametrize("stop", [0, 1, 4, 7, 9, 100])
def test_a_folder_goes_on_after_a_restart(incoming: Path, tmp_path: Path, stop: int) -> None:
    readings = city_readings(8, 4)
    thirds = np.array_split(np.argsort(readings.time, kind="stable"), 3)
    for number, rows in enumerate(thirds):
        write_csv(incoming / f"{number}.csv", readings, rows)
        os.utime(incoming / f"{number}.csv", (1e9 + number, 1e9 + number))
    # Three loads, each in parts.
    folder_source.MOST_FILES, before = 1, folder_source.MOST_FILES
    try:
        with FolderSource(incoming, None, tmp_path / "work") as source:
            first = read_all(source, stop)
            lost = source.read(0.0)  # not journalled: it comes again
        mark = json.loads(json.dumps(first[-1].mark)) if first else None
        with FolderSource(incoming, None, tmp_path / "work", mark=mark) as source:
            second = read_all(source)
    finally:
        folder_source.MOST_FILES = before
    got = readings_of([*first, *second])
    assert len(got) == len(set(got)) == len(readings)
    assert set(got) == {(name, q, t, v) for name, q, t, v in as_list(readings)}
    assert stop == 100 or not lost.empty
    assert all(len(arrived.readings) <= 100 for arrived in first)


def test_a_folder_that_goes_away_and_comes_back(incoming: Path, tmp_path: Path) -> None:
    with FolderSource(incoming, None, tmp_path / "work") as source:
        incoming.rename(tmp_path / "elsewhere")
        assert source.read(0.0).empty
        assert not is_connected(source)
        (tmp_path / "elsewhere").rename(incoming)
        assert source.read(0.0).empty
        assert is_connected(source)
    with pytest.raises(ConfigError, match="there is no folder"):
        FolderSource(tmp_path / "never", None, tmp_path / "work")


def piped(work: Callable[[PipeSource, int], None]) -> None:
    out, into = os.pipe()
    try:
        work(PipeSource(descriptor=out), into)
    finally:
        os.close(out)


def test_lines() -> None:
    def work(source: PipeSource, into: int) -> None:
        began = time.monotonic()
        arrived = source.read(0.1)
        assert arrived is not None
        assert arrived.empty
        assert 0.08 < time.monotonic() - began < 1.0
        os.write(
            into,
            b'{"sensor": "a", "value": 1}\n\nhello\n[{"sensor": "a", "value": 2},{"sensor": "b", "value": 3}]\n{"sens',
        )
        arrived = source.read(5.0)
        assert arrived is not None
        assert arrived.readings.value.tolist() == [1.0, 2.0, 3.0]
        assert [(one.where, one.reason) for one in arrived.rejected] == [("line 3", why.NOT_JSON)]
        os.write(into, b'or": "c", "value": 4}\r\n{"sensor": "d", "value": 5}')
        os.close(into)
        arrived = source.read(5.0)
        assert arrived is not None
        assert arrived.readings.value.tolist() == [4.0, 5.0]
        assert source.read(0.0) is None
        assert source.read(0.0) is None

    piped(work)


def test_a_line_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sensormend.stream.sources.pipe_source.LARGEST", 100_000)

    def work(source: PipeSource, into: int) -> None:
        arrivals: list[Arrived | None] = []
        for _ in range(20):
            os.write(into, b"[" * 60_000)
            arrivals.append(source.read(0.0))
            assert len(source._partial) <= 200_000
        os.write(into, b'\n{"sensor": "a", "value": 1}\n')
        os.close(into)
        arrivals.append(source.read(1.0))
        filled = [arrived for arrived in arrivals if arrived is not None and not arrived.empty]
        assert [one.reason for arrived in filled for one in arrived.rejected] == [why.TOO_LARGE]
        assert [value for arrived in filled for value in arrived.readings.value] == [1.0]

    assert LARGEST > 100_000
    piped(work)


def archive(folder: Path) -> tuple[Path, Readings]:
    """Write a small archive whose rows are sorted by sensor."""
    readings = tensor_readings(small_city(8, 4).readings)
    return write_csv(folder / "readings.csv", readings), readings


@pytest.mark.parametrize("stop", [0, 1, 5, 9, 1000])
def test_a_replay_goes_on_after_a_restart(tmp_path: Path, stop: int) -> None:
    path, readings = archive(tmp_path)
    with ReplaySource(str(path), None, tmp_path / "work") as source:
        assert not source.live
        first = read_all(source, stop)
        source.read(0.0)
    mark = first[-1].mark if first else None
    made = (tmp_path / "work" / "staging.duckdb").stat().st_ino
    with ReplaySource(str(path), None, tmp_path / "work", mark=mark) as source:
        second = read_all(source)
        assert source.read(0.0) is None
    assert (tmp_path / "work" / "staging.duckdb").stat().st_ino == made
    got = readings_of([*first, *second])
    assert len(got) == len(readings)
    assert set(got) == set(as_list(readings))
    times = [entry[2] for entry in got]
    assert times == sorted(times)
    assert [*first, *second][-1].mark == len(readings)


def test_another_archive_is_not_taken_for_the_one_before(tmp_path: Path) -> None:
    path, readings = archive(tmp_path)
    with ReplaySource(str(path), None, tmp_path / "work") as source:
        assert len(readings_of(read_all(source))) == len(readings)
    path.write_text(table(("a", "2020-01-01 00:00", 1), ("a", "2020-01-01 01:00", 2), ("a", "x", 3)))
    with ReplaySource(str(path), None, tmp_path / "work") as source:
        (arrived,) = read_all(source)
    assert as_list(arrived.readings) == [("a", "", 18262 * DAY, 1.0), ("a", "", 18262 * DAY + HOUR, 2.0)]
    assert [one.reason for one in arrived.rejected] == [why.NOT_A_TIME]


def test_a_replay_at_a_speed(tmp_path: Path) -> None:
    rows = [("a", f"2020-01-01 00:00:{second:02d}", float(second)) for second in range(40)]
    path = tmp_path / "a.csv"
    path.write_text(table(*rows))
    with ReplaySource(str(path), None, tmp_path / "work", speed=40.0) as source:
        began = time.monotonic()
        arrivals = []
        while (arrived := source.read(0.2)) is not None:
            arrivals.append(arrived)
            if len(arrived.readings):
                newest = float(arrived.readings.value[-1])
                assert newest <= (time.monotonic() - began) * 40.0 + 1
        taken = time.monotonic() - began
    assert readings_of(arrivals) == [("a", "", 18262 * DAY + second * SECOND, float(second)) for second in range(40)]
    assert 0.9 < taken < 3.0
    assert sum(not arrived.empty for arrived in arrivals) > 3
    with pytest.raises(ConfigError, match="speed"):
        ReplaySource(str(path), None, tmp_path / "work", speed=0.0)


def test_a_replay_is_paced_from_a_time_on(tmp_path: Path) -> None:
    lines = [f"a,2019-01-{day:02d}T{hour:02d}:00:00,{hour}" for day in (1, 2) for hour in range(24)]
    (tmp_path / "a.csv").write_text("sensor,time,value\n" + "\n".join(lines))
    live = 17_898 * DAY + 6 * HOUR  # 2 January 2019, 06:00
    with ReplaySource(str(tmp_path / "a.csv"), None, tmp_path / "work", speed=100 * 3600, paced_from=live) as source:
        began = time.monotonic()
        parts = [part for part in iter(lambda: source.read(1.0), None) if not part.empty]
        took = time.monotonic() - began
    counts = [len(part.readings) for part in parts]
    assert counts[:2] == [24, 6]
    assert sum(counts) == 48
    assert took >= 17 / 100


def test_places_of_a_replay(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("sensor,time,value,lat,lon\na,2020-01-01 00:00,1,47.5,8.5\na,2020-01-02 00:00,2,48.5,8.5\n")
    with ReplaySource(str(path), None, tmp_path / "work") as source:
        arrivals = read_all(source)
    assert [[place.latitude for place in arrived.positions] for arrived in arrivals] == [[47.5], [48.5]]


def test_what_an_address_means(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with open_source(str(tmp_path / "in"), work=tmp_path / "work") as source:
        assert isinstance(source, FolderSource)
    assert isinstance(open_source("-", work=tmp_path), PipeSource)
    path, _ = archive(tmp_path)
    with open_source(f"replay:{path}", work=tmp_path / "work") as source:
        assert isinstance(source, ReplaySource)
    with pytest.raises(ConfigError, match="is a file; watch a folder, or replay:"):
        open_source(str(path), work=tmp_path)
    with pytest.raises(ConfigError, match="a source is mqtt://") as raised:
        open_source("amqp://me:secret@host/queue", work=tmp_path)
    assert "secret" not in str(raised.value)


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
        arrivals, failed = read_retrying(source)
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
            monkeypatch.setattr(folder_source.FilesRead, "begin", failing(folder_source.FilesRead.begin, full))
        else:
            monkeypatch.setattr(Staging, what, failing(getattr(Staging, what), SensormendError("no room")))
        arrivals, failed = read_retrying(source)
        assert failed
        assert sorted(readings_of(arrivals)) == sorted(as_list(readings))
        assert [reason for _, reason in rejected_of(arrivals)] == [why.NOT_A_TIME] * 2
        drop(incoming / "c.csv", HEAD + "c,2020-03-01,1\n")
        arrivals, _ = read_retrying(source)
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
        arrivals, failed = read_retrying(source)
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
        arrivals, _ = read_retrying(source)
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
        assert len(readings_of(read_retrying(source)[0])) == 6
    (incoming / "a.csv").unlink()
    with FolderSource(incoming, None, tmp_path / "work", mark=mark) as source:
        assert len(readings_of(read_retrying(source)[0])) == 5


def test_a_file_that_is_gone_when_it_is_read(incoming: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drop(incoming / "a.csv", HEAD + "a,2020-01-01 12:00,1\n")
    gone = drop(incoming / "b.csv", HEAD + "b,2020-01-01 12:00,1\n")
    load = Staging.load

    def late(self: Staging, *given: Any, **named: Any) -> None:
        gone.unlink(missing_ok=True)
        load(self, *given, **named)

    monkeypatch.setattr(Staging, "load", late)
    with FolderSource(incoming, None, tmp_path / "work") as source:
        arrivals, failed = read_retrying(source)
    assert (len(readings_of(arrivals)), rejected_of(arrivals), failed) == (1, [], 0)


def test_results_are_not_taken_for_readings(incoming: Path, tmp_path: Path) -> None:
    drop(incoming / "out.csv", HEAD + "a,2020-01-01 12:00,1\n")
    drop(incoming / "deep" / "out" / "state" / "files.jsonl", '{"sensor": "x"}\n')
    drop(incoming / "deep" / "out" / "faults.csv", HEAD + "b,2020-01-01 12:00,1\n")
    (tmp_path / "link").symlink_to(incoming)
    for folder, without in ((incoming, tmp_path / "link" / "deep" / "out"), (tmp_path / "link", incoming / "deep/out")):
        with open_source(str(folder), work=tmp_path / "w" / folder.name, without=without) as source:
            arrivals, _ = read_retrying(source)
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
        assert [entry[0] for entry in readings_of(read_retrying(source)[0])] == ["a"]
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
            arrivals, failed = read_retrying(source)
            assert ([entry[0] for entry in readings_of(arrivals)], rejected_of(arrivals), failed) == (["a"], [], 0)
            for _ in range(3):
                assert source.read(0.0).empty
            assert [record.getMessage() for record in caplog.records] == [
                f"{barred}: not allowed to read it; tried again until it is"
            ]
        barred.chmod(0o644)
        with without_power(), FolderSource(root / "in", None, root / "work", mark=arrivals[-1].mark) as source:
            assert [entry[0] for entry in readings_of(read_retrying(source)[0])] == ["b"]


@pytest.mark.parametrize("line", ["a,yesterday,1", "hello", "1;2;3\n"])
@pytest.mark.parametrize("alone", [True, False])
def test_one_line_that_names_no_column_is_refused(incoming: Path, tmp_path: Path, line: str, alone: bool) -> None:
    drop(incoming / "one.csv", line)
    if not alone:
        drop(incoming / "a.csv", HEAD + "a,2020-01-01 12:00,1\n")
        drop(incoming / "none.csv", HEAD)
    with FolderSource(incoming, None, tmp_path / "work") as source:
        arrivals, _ = read_retrying(source)
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
        arrivals, _ = read_retrying(source)
    assert not rejected_of(arrivals)
    got = {(sensor, variable, value) for sensor, variable, _, value in readings_of(arrivals)}
    assert got == {(sensor, "temp", float(hour)) for sensor in "ab" for hour in range(5)}


def test_names_that_are_not_utf8_are_told_about_once(incoming: Path, tmp_path: Path) -> None:
    drop(incoming / os.fsdecode(b"x\xff") / "a.csv", HEAD + "a,2020-01-01 12:00,1\n")
    drop(incoming / os.fsdecode(b"x\xff") / "b.csv", HEAD + "a,2020-01-01 12:00,1\n")
    drop(incoming / os.fsdecode(b"y\xff.csv"), HEAD + "a,2020-01-01 12:00,1\n")
    drop(incoming / "z.csv", HEAD + "z,2020-01-01 12:00,1\n")
    with FolderSource(incoming, None, tmp_path / "work") as source:
        arrivals, _ = read_retrying(source)
        assert sorted(rejected_of(arrivals)) == [(r"x\xff", why.UNREADABLE), (r"y\xff.csv", why.UNREADABLE)]
        assert [entry[0] for entry in readings_of(arrivals)] == ["z"]
        assert source.read(0.0).empty
    with FolderSource(incoming, None, tmp_path / "work", mark=arrivals[-1].mark) as source:
        assert source.read(0.0).empty
    with pytest.raises(ConfigError, match="not UTF-8"):
        FolderSource(incoming / os.fsdecode(b"x\xff"), None, tmp_path / "work")


def test_looking_takes_a_tenth_of_the_time(incoming: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_source, "SCAN_SHARE", 0.1)
    looks = []

    def slowly(*given: Any) -> Iterator[FileState]:
        looks.append(given)
        time.sleep(0.03)
        yield from files_below(*given)

    monkeypatch.setattr(folder_source, "files_below", slowly)
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
    arrivals, failed = read_retrying(PipeSource(descriptor=out))
    os.close(out)
    assert failed == 1
    assert [entry[0] for entry in readings_of(arrivals)] == ["a", "b"]
    assert rejected_of(arrivals) == [("line 2", why.NOT_JSON)]
