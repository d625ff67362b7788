"""Files that appear, lines that come, an archive that is replayed; each goes on after a restart where it was."""

from __future__ import annotations

import gzip
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sensormend.errors import ConfigError
from sensormend.readings import DAY, HOUR, SECOND, Readings
from sensormend.stream.arrivals import Arrived, Source
from sensormend.stream.formats import values as why
from sensormend.stream.formats.decoding import LARGEST
from sensormend.stream.sources import folder_source as folder_module
from sensormend.stream.sources import open_source
from sensormend.stream.sources import replay_source as staged
from sensormend.stream.sources.folder_source import FolderSource
from sensormend.stream.sources.pipe_source import PipeSource
from sensormend.stream.sources.replay_source import ReplaySource
from simulated_city import city_readings, small_city, tensor_readings, write_csv
from staged_readings import as_list


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


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a hundred readings be many."""
    for module in ("folder_source", "replay_source"):
        monkeypatch.setattr(f"sensormend.stream.sources.{module}.CHUNK", 100)


@pytest.fixture
def incoming(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that is looked into every time."""
    monkeypatch.setattr(folder_module, "SCAN_INTERVAL", 0.0)
    monkeypatch.setattr(folder_module, "SCAN_SHARE", 1.0)
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def drop(path: Path, text: str | bytes, age: float = 60.0) -> None:
    """Put a file somewhere that was written a while ago."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    os.utime(path, (time.time() - age, time.time() - age))


def table(*rows: tuple[str, str, float]) -> str:
    return "sensor,time,value\n" + "".join(f"{sensor},{when},{value}\n" for sensor, when, value in rows)


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


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("stop", [0, 1, 4, 7, 9, 100])
def test_a_folder_goes_on_after_a_restart(incoming: Path, tmp_path: Path, stop: int) -> None:
    readings = city_readings(8, 4)
    thirds = np.array_split(np.argsort(readings.time, kind="stable"), 3)
    for number, rows in enumerate(thirds):
        write_csv(incoming / f"{number}.csv", readings, rows)
        os.utime(incoming / f"{number}.csv", (1e9 + number, 1e9 + number))
    # Three loads, each in parts.
    folder_module.MOST_FILES, before = 1, folder_module.MOST_FILES
    try:
        with FolderSource(incoming, None, tmp_path / "work") as source:
            first = read_all(source, stop)
            lost = source.read(0.0)  # not journalled: it comes again
        mark = json.loads(json.dumps(first[-1].mark)) if first else None
        with FolderSource(incoming, None, tmp_path / "work", mark=mark) as source:
            second = read_all(source)
    finally:
        folder_module.MOST_FILES = before
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


@pytest.mark.usefixtures("small_parts")
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
    assert staged.CHUNK >= 100
