import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from row_tables import YEAR_2019, any_rows, assert_equal_rows, by_day, in_archive_order, network
from sensormend.errors import InputError, SensormendError, StorageError
from sensormend.io import writing
from sensormend.io.folder import Archive, data_files, file_metadata, file_rows
from sensormend.io.writing import COLUMNS, MonthlyWriter, RowSpool, RowWriter, named
from sensormend.readings import DAY, HOUR, Rows


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def read(folder: Path) -> duckdb.DuckDBPyRelation:
    return duckdb.read_parquet(f"{folder}/data/*/*.parquet", hive_partitioning=False)


def types(folder: Path) -> dict[str, str]:
    table = read(folder)
    return dict(zip(table.columns, map(str, table.types), strict=True))


@given(any_rows())
def test_what_is_written_is_read_back(rows: Rows) -> None:
    with tempfile.TemporaryDirectory() as folder, RowWriter(folder) as writer:
        writer.write(rows)
        assert_equal_rows(Archive(folder).rows(), in_archive_order(rows))


def test_columns_and_types_are_those_of_the_contract(tmp_path: Path) -> None:
    with RowWriter(tmp_path / "one") as writer:
        writer.write(network())
    assert list(types(tmp_path / "one").items()) == [*COLUMNS.items()][:-2]
    with RowWriter(tmp_path / "two") as writer:
        writer.write(network(variables=("a", "b")))
    assert list(types(tmp_path / "two").items()) == [*COLUMNS.items()][:-1]
    assert list(COLUMNS)[-2:] == ["variable", "owner_flag"]
    assert named(("temperature",))
    assert not named(("",))


def test_missing_is_null_and_an_empty_reason_is_not(tmp_path: Path) -> None:
    rows = network()
    rows = replace(rows, cleaned=np.where(np.arange(len(rows)) == 0, np.nan, rows.cleaned),
                   origin=np.where(np.arange(len(rows)) == 0, 0, rows.origin).astype(np.int8))  # fmt: skip
    with RowWriter(tmp_path) as writer:
        writer.write(rows)
    counts = read(tmp_path).aggregate("count(*), count(value), count(cleaned), count(reason), count(origin)").fetchall()
    assert counts == [(144, int(rows.n.sum()), 143, 144, 143)]
    assert read(tmp_path).project("isnan(value) AS odd").filter("odd").fetchall() == []


def test_a_file_per_date_by_the_time_of_the_slot_in_the_order_given(tmp_path: Path) -> None:
    rows = network(days=3)
    rows = replace(rows, time=rows.time - 5 * HOUR)
    with RowWriter(tmp_path) as writer:
        written = writer.write(rows.taken(rows.time < rows.time.min() + DAY))
    assert files(tmp_path) == [
        "data/date=2018-12-31/part-20181231T190000.parquet",
        "data/date=2019-01-01/part-20181231T190000.parquet",
    ]
    assert [path.relative_to(tmp_path).as_posix() for path in written] == files(tmp_path)
    cells = duckdb.read_parquet(str(written[0])).project("sensor, time").fetchall()
    assert [name for name, _ in cells] == ["s0"] * 5 + ["s1"] * 5 + ["s2"] * 5


def test_a_period_written_again_takes_its_own_place(tmp_path: Path) -> None:
    first, second = by_day(network())
    with RowWriter(tmp_path) as writer:
        writer.write(first)
        writer.write(second, start=YEAR_2019 + DAY)
        before = files(tmp_path)
        late = second.taken(second.time > second.time.min())
        writer.write(late, start=YEAR_2019 + DAY)
        writer.sync()
    assert files(tmp_path) == before
    assert read(tmp_path).count("*").fetchall() == [(len(first) + len(late),)]


def test_a_file_per_month(tmp_path: Path) -> None:
    rows = network(days=40)
    # Periods begin at 19:00: one of them has rows of two months.
    rows = replace(rows, time=rows.time - 5 * HOUR)
    with MonthlyWriter(tmp_path) as writer:
        days = (rows.time - rows.time.min()) // DAY
        written = [writer.write(rows.taken(days == day)) for day in range(40)]
        assert [len(paths) for paths in written if paths] == [1, 1]
        writer.sync()
    assert files(tmp_path) == [
        "data/month=2018-12/part-20181231T190000.parquet",
        "data/month=2019-01/part-20181231T190000.parquet",
        "data/month=2019-02/part-20190131T190000.parquet",
    ]
    assert_equal_rows(Archive(tmp_path).rows(), in_archive_order(rows))
    assert [path.parent.name for path in data_files(tmp_path, YEAR_2019, YEAR_2019 + DAY)] == ["month=2019-01"]
    one_day = (rows.time >= YEAR_2019 + 3 * DAY) & (rows.time < YEAR_2019 + 4 * DAY)
    some = Archive(tmp_path).rows(start=YEAR_2019 + 3 * DAY, end=YEAR_2019 + 4 * DAY)
    assert_equal_rows(some, in_archive_order(rows.taken(one_day)))


def test_many_rows_make_more_files_than_months(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "MOST_ROWS", 3 * len(by_day(network())[0]))
    rows = network(days=7)
    with MonthlyWriter(tmp_path) as writer:
        for day in by_day(rows):
            writer.write(day)
        writer.sync()
    assert [name.rpartition("/")[2] for name in files(tmp_path)] == [
        f"part-201901{day:02d}T000000.parquet" for day in (1, 4, 7)
    ]
    assert_equal_rows(Archive(tmp_path).rows(), in_archive_order(rows))


def test_what_a_run_wrote_after_its_last_checkpoint_is_not_there_twice(tmp_path: Path) -> None:
    rows = network(days=40)
    with MonthlyWriter(tmp_path) as writer:
        for number, day in enumerate(by_day(rows)):
            writer.write(day)
            if number in (5, 20):
                writer.sync()
        writer.sync()
    start = YEAR_2019 + 6 * DAY
    with MonthlyWriter(tmp_path, start) as writer:
        assert [name.rpartition("/")[2] for name in files(tmp_path)] == ["part-20190101T000000.parquet"]
        for day in by_day(rows)[6:]:
            writer.write(day)
        writer.sync()
    assert_equal_rows(Archive(tmp_path).rows(), in_archive_order(rows))
    MonthlyWriter(tmp_path).close()
    assert files(tmp_path) == []


def test_what_was_left_half_written_is_cleared_away(tmp_path: Path) -> None:
    with RowWriter(tmp_path) as writer:
        (written,) = writer.write(by_day(network())[0])
    written.with_name(f"{written.name}.new").write_text("half")
    RowWriter(tmp_path).close()
    assert files(tmp_path) == [written.relative_to(tmp_path).as_posix()]


def test_sensors_may_join(tmp_path: Path) -> None:
    first, second = by_day(network(sensors=2))
    later = replace(second, sensors=("new", *second.sensors))
    with RowWriter(tmp_path) as writer:
        writer.write(first)
        writer.write(later)
    assert set(Archive(tmp_path).rows(end=YEAR_2019 + DAY).sensors) == {"s0", "s1"}
    assert set(Archive(tmp_path).rows(start=YEAR_2019 + DAY).sensors) == {"new", "s0"}


def test_no_rows_no_file(tmp_path: Path) -> None:
    rows = network()
    with RowWriter(tmp_path) as writer:
        assert writer.write(rows.taken(np.zeros(len(rows), bool))) == ()
    assert files(tmp_path) == []


def test_a_folder_that_cannot_be_written_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("in the way")
    with RowWriter(tmp_path) as writer, pytest.raises(SensormendError, match=r"cannot write .*part-"):
        writer.write(network())
    assert files(tmp_path) == ["data"]


def test_neither_pandas_nor_pyarrow_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = ("pandas", "pyarrow", "polars")
    for name in [name for name in sys.modules if name.partition(".")[0] in gone]:
        monkeypatch.delitem(sys.modules, name)

    class Nowhere:
        def find_spec(self, name: str, *_: object) -> None:
            if name.partition(".")[0] in gone:
                raise ModuleNotFoundError(name)

    monkeypatch.setattr(sys, "meta_path", [Nowhere(), *sys.meta_path])
    rows = network()
    folder = tmp_path / "odd [name]* 'quoted'"
    with RowWriter(folder) as writer:
        writer.write(rows)
    assert_equal_rows(Archive(folder).rows(), in_archive_order(rows))


@pytest.mark.parametrize("variables", [("",), ("dew", "temp")])
def test_many_names_are_written_as_few_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: tuple[str, ...]
) -> None:
    rows = network(days=2, sensors=5, variables=variables)
    rows = replace(rows, sensors=("it's", "b", "c,d", "é", "e"))
    with RowWriter(tmp_path / "few") as writer:
        writer.write(rows)
    monkeypatch.setattr(writing, "LISTED", 1)
    with RowWriter(tmp_path / "many") as writer:
        writer.write(rows)
    few, many = ([file_rows(file) for file in data_files(tmp_path / name)] for name in ("few", "many"))
    assert len(few) == len(many) == 2
    for one, other in zip(few, many, strict=True):
        assert_equal_rows(one, other)


@pytest.mark.parametrize("resumed", [None, 0, 4])
def test_rows_that_may_change_are_kept_as_they_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resumed: int | None
) -> None:
    monkeypatch.setattr(writing, "MOST_ROWS", 3 * len(by_day(network())[0]))
    rows = network(days=12, variables=("dew", "temp"))
    days, starts = by_day(rows), [YEAR_2019 + number * DAY for number in range(12)]
    spool = RowSpool(tmp_path)
    for number, (start, day) in enumerate(zip(starts, days, strict=True)):
        spool.write(day, start)
        if number == 3:
            spool.sync()
    if resumed is not None:
        # As a run that goes on after the period of its last checkpoint: what came later is written again.
        assert list(spool.parts((), ()))
        (tmp_path / "1.rows.new").write_text("half")
        spool = RowSpool(tmp_path, starts[resumed] if resumed else None)
        for start, day in zip(starts[resumed:], days[resumed:], strict=True):
            spool.write(day, start)
    parts = [(start, part.taken(place)) for part, periods in spool.parts(rows.sensors, rows.variables)
             for start, place in periods]  # fmt: skip
    assert [start for start, _ in parts] == starts
    for (_, part), day in zip(parts, days, strict=True):
        assert_equal_rows(part, day)


TEXTS = st.dictionaries(
    st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1),
    st.text(st.characters(codec="utf-8", exclude_characters="\x00")),
    max_size=3,
)


@given(any_rows(), TEXTS)
def test_one_file_has_its_rows_in_their_order_and_its_metadata(rows: Rows, metadata: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as folder, RowWriter(folder) as writer:
        path = Path(folder, "state", "x.parquet")
        writer.write_file(path, rows, metadata)
        assert_equal_rows(file_rows(path), rows)
        assert file_metadata(path) == metadata
        assert files(Path(folder)) == ["state/x.parquet"]


def test_one_file_takes_the_place_of_another(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    with RowWriter(tmp_path) as writer:
        for days in (3, 1):
            writer.write_file(path, network(days=days), {"days": str(days)})
        assert_equal_rows(file_rows(path), network(days=1))
        assert file_metadata(path) == {"days": "1"}
        writer.write_file(path, network().taken(slice(0, 0)), {})
        assert (len(file_rows(path)), file_metadata(path)) == (0, {})
        (tmp_path / "taken").write_text("no folder")
        with pytest.raises(StorageError, match="cannot write"):
            writer.write_file(tmp_path / "taken" / "x.parquet", network(), {})


@pytest.mark.parametrize("content", [None, b"", b"PAR1", b"ARROW1" * 3, bytes(100)])
def test_what_is_no_parquet_is_refused_in_one_line(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "x.parquet"
    if content is not None:
        path.write_bytes(content)
    for read_it in (file_rows, file_metadata):
        with pytest.raises(InputError, match=r"^cannot read [^\n]*x.parquet[^\n]*$"):
            read_it(path)


def test_provisional_rows_of_a_thousand_sensors_take_no_time(tmp_path: Path) -> None:
    rows = network(days=1, sensors=1000)
    rows = replace(rows, sensors=tuple(f"station {name}, unité 7" for name in rows.sensors))
    took = []
    with RowWriter(tmp_path) as writer:
        for _ in range(5):
            start = time.thread_time()
            writer.write_file(tmp_path / "x.parquet", rows, {"reached": "now"})
            took.append(time.thread_time() - start)
    assert min(took) < 0.1
    assert_equal_rows(file_rows(tmp_path / "x.parquet"), rows)
