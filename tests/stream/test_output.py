import csv
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import duckdb
import numpy as np
import pytest

from row_tables import YEAR_2019, assert_equal_rows, in_archive_order, network
from sensormend.errors import SensormendError
from sensormend.io.folder import Archive, data_files
from sensormend.io.writing import RowWriter
from sensormend.readings import DAY, HOUR, Rows
from sensormend.stream import output
from sensormend.stream.output import AppendOnlyTable, compact_date, dates, drop_dates, remove_leftovers

FIRST = YEAR_2019 // DAY


def hourly(folder: Path, days: int = 2) -> Rows:
    """Write an OUT with a file per hour and return its rows."""
    rows = network(days=days, variables=("b", "a"))
    with RowWriter(folder) as writer:
        for hour in np.unique(rows.time).tolist():
            writer.write(rows.taken(rows.time == hour), start=hour)
    return in_archive_order(rows)


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder / "data").as_posix() for path in folder.rglob("*") if path.is_file())


def test_many_files_of_a_date_become_one_with_the_same_rows(tmp_path: Path) -> None:
    rows = hourly(tmp_path)
    assert len(data_files(tmp_path)) == 48
    whole = compact_date(tmp_path, FIRST)
    assert whole is not None
    assert whole.name == "part-20190101T000000-20190101T230000.parquet"
    assert names(tmp_path)[:2] == [f"date=2019-01-01/{whole.name}", "date=2019-01-02/part-20190102T000000.parquet"]
    assert_equal_rows(Archive(tmp_path).rows(), rows)
    keys = duckdb.read_parquet(str(whole), hive_partitioning=False).project("sensor, variable, time").fetchall()
    assert keys == sorted(keys)
    assert len(keys) == 24 * 6


def test_done_again_it_does_nothing_and_what_comes_later_goes_in(tmp_path: Path) -> None:
    rows = hourly(tmp_path, days=1)
    last = tmp_path / "data/date=2019-01-01/part-20190101T230000.parquet"
    last.rename(tmp_path / "last")
    first = compact_date(tmp_path, FIRST)
    assert first is not None
    before = first.stat().st_mtime_ns
    assert compact_date(tmp_path, FIRST) == first
    assert first.stat().st_mtime_ns == before
    (tmp_path / "last").rename(last)
    assert data_files(tmp_path) == [first, last]
    assert compact_date(tmp_path, FIRST) != first
    assert len(names(tmp_path)) == 1
    assert_equal_rows(Archive(tmp_path).rows(), rows)


def test_one_file_or_none_is_left_alone(tmp_path: Path) -> None:
    rows = network(days=1)
    with RowWriter(tmp_path) as writer:
        (written,) = writer.write(rows)
    assert compact_date(tmp_path, FIRST) == written
    assert compact_date(tmp_path, FIRST + 1) is None


def test_interrupted_every_row_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = hourly(tmp_path, days=1)
    moments = 0

    def look(*_: object) -> None:
        nonlocal moments
        moments += 1
        assert_equal_rows(Archive(tmp_path).rows(), rows)

    real = Path.unlink

    def unlink(self: Path, missing_ok: bool = False) -> None:
        look()
        if moments == 7:
            raise OSError(5, "the power is gone")
        real(self, missing_ok=missing_ok)

    monkeypatch.setattr(output, "sync", look)
    monkeypatch.setattr(Path, "unlink", unlink)
    with pytest.raises(SensormendError, match="the power is gone"):
        compact_date(tmp_path, FIRST)
    monkeypatch.undo()
    assert moments == 7
    assert len(names(tmp_path)) > 10
    remove_leftovers(tmp_path)
    assert names(tmp_path) == ["date=2019-01-01/part-20190101T000000-20190101T230000.parquet"]
    assert_equal_rows(Archive(tmp_path).rows(), rows)


LOOP = """
import sys
import threading
from pathlib import Path
from row_tables import YEAR_2019
from sensormend.stream.output import compact_date, remove_leftovers
from sensormend.readings import DAY
out = Path(sys.argv[1])
remove_leftovers(out)
print("go", flush=True)
for date in range(YEAR_2019 // DAY, YEAR_2019 // DAY + 3):
    compact_date(out, date)
"""


@pytest.mark.processes
def test_killed_at_any_moment_every_row_is_read_once(tmp_path: Path) -> None:
    rows = hourly(tmp_path, days=3)
    paths = {"PYTHONPATH": os.pathsep.join([*sys.path, str(Path(__file__).parents[1] / "helpers")])}
    for wait in np.linspace(0.001, 0.05, 4):
        loop = subprocess.Popen([sys.executable, "-c", LOOP, str(tmp_path)], stdout=subprocess.PIPE,
                                env={**os.environ, **paths}, text=True)  # fmt: skip
        assert loop.stdout is not None
        assert loop.stdout.readline() == "go\n"
        try:
            loop.wait(timeout=float(wait))
        except subprocess.TimeoutExpired:
            loop.send_signal(signal.SIGKILL)
        loop.wait()
        loop.stdout.close()
        assert_equal_rows(Archive(tmp_path).rows(), rows)
    RowWriter(tmp_path).close()
    remove_leftovers(tmp_path)
    for date in range(FIRST, FIRST + 3):
        compact_date(tmp_path, date)
    assert len(names(tmp_path)) == 3
    assert_equal_rows(Archive(tmp_path).rows(), rows)


def test_a_concurrent_reader_sees_every_row_once(tmp_path: Path) -> None:
    rows = hourly(tmp_path, days=5)
    done = threading.Event()

    def work() -> None:
        try:
            for date in range(FIRST, FIRST + 5):
                compact_date(tmp_path, date)
        finally:
            done.set()

    worker, looks, sizes = threading.Thread(target=work), 0, set()
    worker.start()
    while not done.is_set():
        sizes.add(len(data_files(tmp_path)))
        assert_equal_rows(Archive(tmp_path).rows(), rows)
        looks += 1
    worker.join()
    assert looks > 1
    assert len(sizes) > 1
    assert len(data_files(tmp_path)) == 5


def test_a_period_that_is_written_again_is_passed_over(tmp_path: Path) -> None:
    rows = hourly(tmp_path, days=1)
    compact_date(tmp_path, FIRST)
    with RowWriter(tmp_path) as writer:
        writer.write(rows.taken(rows.time == YEAR_2019 + 5 * HOUR), start=YEAR_2019 + 5 * HOUR)
    assert len(names(tmp_path)) == 2
    assert_equal_rows(Archive(tmp_path).rows(), rows)
    remove_leftovers(tmp_path)
    assert len(names(tmp_path)) == 1


def test_old_dates_go(tmp_path: Path) -> None:
    rows = hourly(tmp_path, days=4)
    assert list(dates(tmp_path)) == [FIRST, FIRST + 1, FIRST + 2, FIRST + 3]
    assert drop_dates(tmp_path, FIRST + 2) == [FIRST, FIRST + 1]
    assert drop_dates(tmp_path, FIRST + 2) == []
    assert_equal_rows(Archive(tmp_path).rows(), rows.taken(rows.time >= YEAR_2019 + 2 * DAY))
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["date=2019-01-03", "date=2019-01-04"]


def test_a_date_that_is_half_removed_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = hourly(tmp_path)

    def fails(_: object) -> None:
        raise OSError(5, "the power is gone")

    monkeypatch.setattr("shutil.rmtree", fails)
    with pytest.raises(SensormendError, match="the power is gone"):
        drop_dates(tmp_path, FIRST + 1)
    monkeypatch.undo()
    assert_equal_rows(Archive(tmp_path).rows(), rows.taken(rows.time >= YEAR_2019 + DAY))
    remove_leftovers(tmp_path)
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["date=2019-01-02"]


def test_rows_that_were_removed_need_no_syncing(tmp_path: Path) -> None:
    with RowWriter(tmp_path) as writer:
        rows = network(days=1)
        for hour in (0, 1):
            writer.write(rows.taken(rows.time == YEAR_2019 + hour * HOUR))
        compact_date(tmp_path, FIRST)
        drop_dates(tmp_path, FIRST + 1)
        writer.sync()
    assert data_files(tmp_path) == []


def test_what_is_settled_stays_and_the_rest_is_written_again(tmp_path: Path) -> None:
    path = tmp_path / "faults.csv"
    table = AppendOnlyTable(path, ("sensor", "from"))
    table.write([("a", 0)], [("b", HOUR)])
    assert path.read_text() == "sensor,from\na,1970-01-01T00:00:00\nb,1970-01-01T01:00:00\n"
    length = table.length
    table.write([("b", HOUR)], [("c", HOUR)])
    table.write([], [])
    assert path.read_text().splitlines()[1:] == ["a,1970-01-01T00:00:00", "b,1970-01-01T01:00:00"]
    # After a crash it begins where the state says, and what came since is written again.
    again = AppendOnlyTable(path, ("sensor", "from"), length)
    again.write([("d", 0)])
    assert path.read_text().splitlines()[1:] == ["a,1970-01-01T00:00:00", "d,1970-01-01T00:00:00"]


def test_lines_at_the_end_replace_those_that_no_state_knows(tmp_path: Path) -> None:
    path = tmp_path / "rejected.csv"
    table = AppendOnlyTable(path, ("reason", "text"), limit=40)
    table.append([("x", 'a "quoted", one')])
    known = table.length
    table.append([("y", "1")])
    table = AppendOnlyTable(path, ("reason", "text"), known, limit=40)
    table.append([("z", "2\n3")])
    assert path.read_text() == 'reason,text\nx,"a ""quoted"", one"\nz,"2\n3"\n'
    table.rotate()
    assert not path.exists()
    assert (tmp_path / "rejected.old.csv").exists()
    table.append([("w", "")])
    assert path.read_text() == "reason,text\nw,\n"


@pytest.mark.parametrize("length", [10_000, -1])
def test_a_removed_table_begins_anew(tmp_path: Path, length: int) -> None:
    table = AppendOnlyTable(tmp_path / "t.csv", ("sensor",), max(length, 0))
    table.write([("a",)])
    assert (tmp_path / "t.csv").read_text() == "sensor\na\n"


def test_a_table_that_was_turned_is_whole_after_a_crash(tmp_path: Path) -> None:
    """Turned before the state that counts on it: what the state says is never more than the new file's own."""
    path = tmp_path / "rejected.csv"
    table = AppendOnlyTable(path, ("reason", "text"), limit=100)
    table.append([("x", "y" * 200)])
    table.rotate()
    state = table.length
    table.append([("a", "b" * 300)])
    again = AppendOnlyTable(path, ("reason", "text"), state, limit=100)
    again.append([("a", "b" * 300)])
    assert path.read_text() == f"reason,text\na,{'b' * 300}\n"


@pytest.mark.parametrize("damage", ["flipped", "zeros", "cut", "garbage"])
def test_the_whole_lines_of_a_damaged_table_are_kept(tmp_path: Path, damage: str) -> None:
    path, header = tmp_path / "faults.csv", ("sensor", "reason")
    table = AppendOnlyTable(path, header)
    table.write([("a", "stuck"), ("b", "drift"), ("c, d", "noise")], [("e", "open")])
    length, crc, content = table.length, table.crc, path.read_bytes()
    second = content.index(b"b,drift")
    damaged = {
        "flipped": content[:second] + b"\xff" + content[second + 1 :],
        "zeros": content[:second] + bytes(7) + content[second + 7 :],
        "cut": content[: content.index(b"c, d") + 2],
        "garbage": b"\xff\xfe" * 40,
    }[damage]
    path.write_bytes(damaged)
    again = AppendOnlyTable(path, header, length, crc=crc)
    again.salvage(length)
    complete = {"flipped": ["a", "c, d"], "zeros": ["a", "c, d"], "cut": ["a", "b"], "garbage": []}[damage]
    again.write([], [("f", "open")])
    with path.open(newline="") as file:
        assert [line[0] for line in csv.reader(file)] == ["sensor", *complete, "f"]
    assert (tmp_path / "faults.csv.damaged-1").read_bytes() == damaged
    assert AppendOnlyTable(path, header, again.length).crc == again.crc


def test_a_table_whose_state_is_lost_goes_on_as_it_is(tmp_path: Path) -> None:
    path, header = tmp_path / "rejected.csv", ("where", "reason")
    AppendOnlyTable(path, header).append([("a", "1"), ("b", "2")])
    table = AppendOnlyTable(path, header)
    table.adopt()
    table.append([("c", "3")])
    assert path.read_text().splitlines() == ["where,reason", "a,1", "b,2", "c,3"]
