"""What real files do, and what happens then: every bad row is accounted for, every bad file named in one line."""

import gzip
import os
import time
import zipfile
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sensormend.archive.cleaning import clean_archive
from sensormend.errors import ConfigError, InputError, SensormendError
from sensormend.io.metadata import read_faults, read_json, read_sensors
from sensormend.io.staging import Staging
from sensormend.io.table_files import UNPACKED_SIZE, line_numbers
from sensormend.pipeline.maintenance import Maintenance, read_notes
from sensormend.pipeline.options import Options, read_toml
from sensormend.pipeline.places import Places
from sensormend.readings import HOUR
from staged_readings import as_list, as_set, rejects, staged, staged_text

NEW_YEAR = 1_577_836_800_000_000
HEAD = "sensor,time,value\n"
GOOD = "a,2020-01-01 00:00:00,1\n"


def test_bad_rows_are_rejected_with_line_and_reason_and_the_others_stay() -> None:
    text = f"""# a note before the header
{HEAD}{GOOD}
b,2020-01-01 00:00:00,2,9
c,2020-01-01 00:00:00
d,2020-01-01 00:00:00,n.a

,2020-01-01 00:00:00,3
   ,2020-01-01 00:00:00,3
e,,4
f,NULL,4
g,2020-02-30 00:00:00,5
h,1066-10-14,6
a,2020-01-01 01:00:00,7
"""
    with staged_text(text) as staging:
        assert as_list(staging.sample()) == [("a", "", NEW_YEAR, 1.0), ("a", "", NEW_YEAR + HOUR, 7.0)]
        assert rejects(staging) == [
            (5, "more columns than the header", "b,2020-01-01 00:00:00,2,9"),
            (6, "fewer columns than the header", "c,2020-01-01 00:00:00"),
            (7, "not a number", "d,2020-01-01 00:00:00,n.a"),
            (9, "no sensor", ",2020-01-01 00:00:00,3"),
            (10, "no sensor", ",2020-01-01 00:00:00,3"),
            (11, "no time", "e,,4"),
            (12, "no time", "f,NULL,4"),
            (13, "not a time", "g,2020-02-30 00:00:00,5"),
            (14, "a time before 1678 or after 2261", "h,1066-10-14,6"),
        ]


def test_words_for_nothing_are_readings_without_a_number() -> None:
    words = ["", "NULL", "na", "N/A", "NaN", "None", "inf", "-Infinity", "-", "--", " ", "#N/A", "."]
    rows = "".join(f"a,2020-01-{day:02},{word}\n" for day, word in enumerate(words, 1))
    with staged_text(HEAD + rows + "b,2020-01-01,-9999\n") as staging:
        assert staging.rejected == 0
        assert [value for *_, value in as_list(staging.sample())] == [None] * len(words) + [-9999.0]


def test_a_bad_cell_of_a_wide_table_costs_that_cell_and_a_bad_time_the_row() -> None:
    text = "time,north,south,east\n2020-01-01,1,broken,3\nnever,4,5,6\n2020-01-01 01:00,7,8,\n2020-01-01 02:00,1,2,3\n"
    with staged_text(text) as staging:
        assert staging.readings == 2 + 2 + 3
        assert rejects(staging) == [(2, "not a number", "south,2020-01-01,broken"), (3, "not a time", "north,never,4")]


def test_rows_of_parquet_and_json_are_counted_from_one(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    duckdb.execute(f"""COPY (SELECT * FROM (VALUES
        ('a', TIMESTAMP '2020-01-01', 1.0), (NULL, TIMESTAMP '2020-01-01', 1.0), ('b', NULL, 1.0),
        ('c', TIMESTAMP '2020-01-01', NULL)) AS t(sensor, time, value)) TO '{path}'""")
    with staged(path) as staging:
        assert as_list(staging.sample()) == [("a", "", NEW_YEAR, 1.0), ("c", "", NEW_YEAR, None)]
        assert rejects(staging) == [(2, "no sensor", ",2020-01-01 00:00:00,1.0"), (3, "no time", "b,,1.0")]
    lines = ['{"sensor": "a", "time": "2020-01-01", "value": 1}'] * 3
    text = "\n".join([lines[0], "", "{broken", lines[1], '{"sensor": "a", "value": 1}', "[1, 2]", lines[2]])
    with staged_text(text, name="x.ndjson") as staging:
        assert staging.readings == 3
        assert rejects(staging) == [
            (3, "not a JSON object", "{broken"), (5, "no time", '{"sensor": "a", "value": 1}'),
            (6, "not a JSON object", "[1, 2]"),
        ]  # fmt: skip


def test_an_unclosed_quote_does_not_swallow_the_file() -> None:
    rows = [f"a,{datetime(2020, 1, 1) + timedelta(hours=n)},{n}" for n in range(20_000)]
    rows[15_000] = 'a,"2020-01-01 00:00:00,1'
    with staged_text(HEAD + "\n".join(rows)) as staging:
        assert staging.readings == 19_999
        assert [row for row, *_ in rejects(staging)] == [15_002]


def test_bytes_that_are_no_text_deep_in_a_file_cost_their_line() -> None:
    rows = [f"a,{datetime(2020, 1, 1) + timedelta(hours=n)},{n}".encode() for n in range(20_000)]
    rows[19_000] = b"\xff\xfe,2020-01-01,1"
    with staged_text(HEAD.encode() + b"\n".join(rows)) as staging:
        assert staging.readings == 19_999
        assert [entry[:2] for entry in rejects(staging)] == [(19_002, "not UTF-8")]


@pytest.mark.parametrize(
    "text",
    [
        b"\xef\xbb\xbfsensor,time,value\nM\xc3\xbcnchen,2020-01-01,1.5\n",
        "Standort;Zeit;Wert in °C\nMünchen;01.01.2020 00:00;1,5\n".encode("cp1252"),
        'sensor,time,value\nMünchen,2020-01-01,"1,5"\nMünchen,2020-01-02,"12,125"\n'.encode(),
        "sensor\ttime\tvalue\nMünchen\t2020-01-01\t1.5\n".encode("utf-16"),
        "sensor,time,value\r\nMünchen,2020-01-01,1.5\r\n".encode(),
        "sensor,time,value\rMünchen,2020-01-01,1.5\r".encode(),
        'sensor,time,value\r\nMünchen,2020-01-01,1.5\n"München",2020-01-01,1.5\r\n'.encode(),
        "sensor|time|value\nMünchen|2020-01-01|1.5".encode(),
        "# München\n\n#sensor,time,value\nMünchen,2020-01-01,1.5\n".encode(),
        "Logger 7\nSerial 123\n\nsensor,time,value\nMünchen,2020-01-01,1.5\nMünchen,2020-01-01,1.5\n".encode(),
        "sensor,time,value\nMünchen,2020-01-01,1.5,\nMünchen,2020-01-01,1.5,\n".encode(),
        '"sensor","time","value"\n"1","München","2020-01-01",1.5\n"2","München","2020-01-01",1.5\n'.encode(),
        "München,2020-01-01,1.5\nMünchen,2020-01-02,2.5\n".encode(),
        "sensor,date,hour,value\nMünchen,2020-01-01,00:00,1.5\n".encode(),
        " sensor , time , value \n München , 2020-01-01 , 1.5 \n".encode(),
        "sensor,time,value,value\nMünchen,2020-01-01,1.5,7\n".encode(),
    ],
)
def test_ways_to_write_a_table(text: bytes) -> None:
    with staged_text(text) as staging:
        sensor, _, moment, value = as_list(staging.sample())[0]
        assert (sensor, moment, value) == ("München", NEW_YEAR, 1.5)
        assert staging.rejected == 0


def test_the_order_of_day_and_month_is_decided_from_all_files(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(HEAD + "a,02/01/2020 00:00,1\n")
    with pytest.raises(InputError, match=r"a\.csv: in column 'time' no time has a day above 12"), staged(tmp_path):
        pass
    rows = "".join(f"b,{1 + n // 24:02}/01/2020 {n % 24:02}:00,1\n" for n in range(24 * 31))
    (tmp_path / "b.csv").write_text(HEAD + rows)
    with staged(tmp_path) as staging:
        assert as_list(staging.sample())[0] == ("a", "", NEW_YEAR + 24 * HOUR, 1.0)
    (tmp_path / "c.csv").write_text(HEAD + "a,01/31/2020 00:00,1\n")
    with pytest.raises(InputError, match="first in some times and second in others"), staged(tmp_path):
        pass


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.csv", b"", "the file is empty"),
        ("x.csv", b"\n  \n\n", "the file is empty"),
        ("x.csv", HEAD.encode(), "column names but no readings"),
        ("x.csv", bytes(range(256)) * 8, "binary file"),
        ("x.csv", np.random.default_rng(0).bytes(5000).replace(b"\0", b"\1"), "binary file"),
        ("x.csv", b"PK\x03\x04" + bytes(100), "Excel"),
        ("x.csv", b"PAR1" + bytes(100), "ending .parquet"),
        ("x.csv", HEAD.encode() + b"a,b,c\nd,e,f\n", "found no column for the time"),
        ("x.csv", HEAD.encode() + b"a,2020-01-01,1,2\n", "names 3 columns, but no line below has as many"),
        ("x.csv", HEAD.encode() + b"a" * 200_000 + b"\nb\n", "not a table of readings: field larger than"),
        ("x.csv", b"just some words\nand some more\n", "found no column for the time"),
        ("x.csv", b"sensor,time,value\na,2020-02-30,1\na,2020-02-31,2\n", r"none of 2 rows .* row 2: not a time"),
        ("x.csv", b"sensor,time,value\na,7,1\na,8,1\n", "column 'time' holds no times"),
        ("x.csv.gz", gzip.compress(HEAD.encode() + GOOD.encode() * 9000)[:-40], "cannot be read"),
        ("x.csv.gz", b"\x1f\x8bnonsense", "cannot be read"),
        ("x.parquet", b"nonsense" * 10, "Parquet file cannot be read"),
        ("x.parquet", b"", "Parquet file cannot be read"),
        ("x.json", b"[1, 2", "JSON cannot be read"),
        ("x.ndjson", b"hello\n", "none of its lines is a JSON object"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_in_one_line(
    name: str, content: bytes, message: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(SensormendError, match=message) as caught, Staging(tmp_path / "s") as staging:
        staging.load(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_a_missing_source_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for source, message in (
        (tmp_path / "no.csv", "there is no file or folder"),
        (str(tmp_path / "*.csv"), "no file matches"),
        (tmp_path / "empty", "the folder has no CSV"),
        ([], "no file of readings"),
    ):
        with pytest.raises(InputError, match=message), staged(source):
            pass
    with pytest.raises(ConfigError, match=r"readings\.csv: there is no column 'val'"):
        staged_text(HEAD + GOOD, Options(value="val")).__enter__()


def test_names_are_only_text(tmp_path: Path) -> None:
    """Nothing in a file or its name is taken for a command."""
    evil = "'); DROP TABLE raw; --"
    path = tmp_path / "it's [a] * {file} ;.csv"
    path.write_text(f'time,"{evil}",b\n2020-01-01,1,2\n')
    with staged(path) as staging:
        assert as_set(staging.sample()) == {(evil, "", NEW_YEAR, 1.0), ("b", "", NEW_YEAR, 2.0)}
    path.write_text(f'site,time,variable,value\n"{evil}",2020-01-01,"{evil}",1\nb,2020-01-01,x,1\n')
    with staged(path) as staging:
        assert (evil, evil, NEW_YEAR, 1.0) in as_set(staging.sample())
        staging.sort(0, HOUR)
        assert len(staging.read(int(staging.periods[0]))) == 2


LINES = st.lists(st.sampled_from(["", "x", "yy", "bad"]), max_size=30)


@settings(max_examples=50)
@given(LINES, st.sampled_from(["\n", "\r\n", "\r"]), st.booleans(), st.integers(0, 3))
def test_lines_of_rows(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], end: str, open_end: bool, skip: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "lines.txt"
    path.write_bytes((end.join(lines) + ("" if open_end else end)).encode())
    rejected = [number for number, line in enumerate(lines, 1) if line == "bad"]
    rows = [number for number, line in enumerate(lines, 1) if line not in ("", "bad") and number > skip]
    assert line_numbers(path, skip, rejected, np.arange(len(rows))).tolist() == rows
    assert line_numbers(path, skip, rejected, np.arange(1, len(rows), 2)).tolist() == rows[1::2]


def test_a_quote_that_is_not_closed_costs_its_line_alone(tmp_path: Path) -> None:
    lines = ["sensor,time,value", *(f"s{number % 3},2024-01-01T{number // 60:02d}:{number % 60:02d}:00,1.5"
                                    for number in range(600))]  # fmt: skip
    lines[51] = f'"{lines[51]}'
    (tmp_path / "readings.csv").write_text("\n".join(lines) + "\n")
    with Staging(tmp_path / "staging") as staging:
        staging.load(tmp_path / "readings.csv")
        assert staging.readings + staging.rejected == 600
        assert staging.readings >= 599


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes on this system")
@pytest.mark.parametrize("kind", ["a pipe", "a folder with a pipe", "a pattern", "a link to a device"])
def test_what_may_never_end_is_refused(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "readings"
    folder.mkdir()
    (folder / "a.csv").write_text("sensor,time,value\na,2020-01-01 00:00,1\na,2020-01-01 01:00,2\n")
    special = folder / "b.csv"
    if kind == "a link to a device":
        special.symlink_to("/dev/zero")
    else:
        os.mkfifo(special)
    source = {"a folder with a pipe": folder, "a pattern": folder / "*.csv"}.get(kind, special)
    with pytest.raises(InputError, match="not a regular file") as caught:
        clean_archive(source, tmp_path / "out")
    assert "b.csv" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes on this system")
@pytest.mark.parametrize(
    "read", [Maintenance.read, Places.read, read_toml, read_json, read_faults, read_sensors, read_notes]
)
def test_small_files_that_may_never_end_are_refused(tmp_path: Path, read: Callable[[Path], object]) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "device.csv").symlink_to("/dev/zero")
    for name in ("pipe.csv", "device.csv"):
        with pytest.raises(SensormendError, match="not a regular file") as caught:
            read(tmp_path / name)
        assert name in str(caught.value)
        assert "Errno" not in str(caught.value)


def test_a_file_of_words_that_a_shell_gives_is_read() -> None:
    """As `--config <(...)` does."""
    read, write = os.pipe()
    os.write(write, b"step = '1h'")
    os.close(write)
    try:
        assert read_toml(Path(f"/dev/fd/{read}")) == {"step": "1h"}
    finally:
        os.close(read)


def test_what_is_unpacked_is_bounded(tmp_path: Path) -> None:
    bomb, row = tmp_path / "bomb.csv.gz", b"a,2020-01-01 00:00,1\n"
    with gzip.open(bomb, "wb") as file:
        file.write(b"sensor,time,value\n")
        for _ in range((UNPACKED_SIZE >> 20) + 1):
            file.write(row * ((1 << 20) // len(row) + 1))
    with pytest.raises(InputError, match=r"bomb\.csv\.gz: unpacks to more than 256 MB"):
        clean_archive(bomb, tmp_path / "out")


def test_a_workbook_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    book = tmp_path / "bomb.xlsx"
    with (
        zipfile.ZipFile(book, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("xl/worksheets/sheet1.xml", "w") as file,
    ):
        for _ in range((UNPACKED_SIZE >> 20) + 1):
            file.write(bytes(1 << 20))
    with pytest.raises(InputError, match=r"bomb\.xlsx: unpacks to 257 MB"):
        clean_archive(book, tmp_path / "out")


def test_a_hundred_thousand_columns_are_refused_in_plain_words(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    names, cells = (",".join(f"{mark}{number}" for number in range(100_000)) for mark in ("s", ""))
    path.write_text(f"time,{names}\n" + "".join(f"2020-01-0{day},{cells}\n" for day in (1, 2, 3)))
    with pytest.raises(InputError, match=r"100,001 columns; at most 5,000 are read"):
        clean_archive(path, tmp_path / "out")


def test_the_lines_of_a_file_with_one_huge_line_are_numbered_in_one_pass(tmp_path: Path) -> None:
    path = tmp_path / "readings.csv"
    path.write_bytes(b"head\n1\n" + b"x" * (100 << 20) + b"\r\n2\n")
    started = time.monotonic()
    assert line_numbers(path, 1, [3], np.arange(2)).tolist() == [2, 4]
    assert time.monotonic() - started < 10
