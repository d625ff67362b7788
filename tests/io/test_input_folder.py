"""Folders as people have them: the Beijing archive, notes beside the readings, tables of stations, Excel."""

import builtins
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

from beijing import VARIABLES, write_beijing
from sensormend.errors import ConfigError, InputError, SensormendError
from sensormend.pipeline.options import Options
from sensormend.pipeline.times import parse_time
from sensormend.readings import DAY, HOUR, MINUTE, SECOND
from staged_readings import Reading, as_set, rejects, staged, staged_text

NEW_YEAR = 1_577_836_800_000_000


def readings_of(text: str, **options: Any) -> set[Reading]:
    with staged_text(text, Options.of(**options)) as staging:
        return as_set(staging.sample())


def test_the_archive_of_beijing_as_it_is(tmp_path: Path) -> None:
    firsts = write_beijing(tmp_path, stations=3, days=10)
    with staged(tmp_path) as staging:
        assert staging.sensors == tuple(sorted(firsts))
        assert staging.variables == tuple(sorted(VARIABLES))
        written = [pd.read_csv(path)[list(VARIABLES)] for path in tmp_path.iterdir()]
        assert (staging.readings, staging.rejected) == (sum(int(part.count().sum()) for part in written), 0)
        assert staging.notes == ("columns that are not used: No, wd",)
        seen = as_set(staging.sample())
    for station, first in firsts.items():
        moment = parse_time("2013-03-01") + int(first["hour"]) * HOUR
        for name in VARIABLES:
            assert (first[name] is None) or (station, name, moment, first[name]) in seen
    times = {moment for _, _, moment, _ in seen}
    assert times == {parse_time("2013-03-01") + hour * HOUR for hour in range(240)}


@pytest.mark.parametrize(
    ("head", "cells", "after"),
    [
        ("year,month,day", "2020,1,3", 2 * DAY),
        ("Year,Month,Day,Hour,Minute", "2020,1,1,13,5", 13 * HOUR + 5 * MINUTE),
        ("year,month,day,hour,minute,second", "2020,01,02,03,04,5.5", DAY + 3 * HOUR + 4 * MINUTE + 5_500_000),
        ("yr,month,day,hour", "20,1,1,24", DAY),
        ("year,doy,hour", "2020,32,6", 31 * DAY + 6 * HOUR),
        ("year,day,hour", "2020,60,0", 59 * DAY),
        ("year,month", "2020,2", 31 * DAY),
        ("year,month,day,time", "2020,1,1,1330", 13 * HOUR + 30 * MINUTE),
        ("year,month,day,time", "2020,1,1,06:30", 6 * HOUR + 30 * MINUTE),
        ("date,hour", "2020-01-02,5", DAY + 5 * HOUR),
        ("date,hour,minute", "31.1.2020,5,30", 30 * DAY + 5 * HOUR + 30 * MINUTE),
        ("date,time", "2020-01-01,2300", 23 * HOUR),
        ("date,hour", "2020-01-02 07:00,5", DAY + 7 * HOUR),
        ("YYYYMMDD,HH", "20200102,24", 2 * DAY),
        ("date,hour", "20200102,5", DAY + 5 * HOUR),
        ("YYYYMMDD,clock", "20200102,05:30", DAY + 5 * HOUR + 30 * MINUTE),
        ("DATE,START TIME,END TIME", "2020-01-02,05:30,05:44", DAY + 5 * HOUR + 30 * MINUTE),
        ("Date Local,Time Local,Date GMT,Time GMT", "2020-01-01,21:00,2020-01-02,05:00", DAY + 5 * HOUR),
        ("AAAAMMJJHH", "2020010205", DAY + 5 * HOUR),
        ("MESS_DATUM", "202001020510", DAY + 5 * HOUR + 10 * MINUTE),
        ("timestamp,year,month,day", "1577836801,2020,1,1", SECOND),
        ("epoch_ms,hour", "1577836801500,0", 1_500_000),
        ("time,year,month,day,hour", "2020-01-01 04:00,2020,1,1,4", 4 * HOUR),
    ],
)
def test_times_over_several_columns(head: str, cells: str, after: int) -> None:
    assert readings_of(f"station,{head},temp\na,{cells},7.5\n") == {("a", "temp", NEW_YEAR + after, 7.5)}


def test_parts_that_make_no_time_are_rejected() -> None:
    rows = "a,2020,1,1,1\na,2020,13,1,2\na,2020,2,30,3\na,,,,4\na,x,1,1,5\n"
    with staged_text(f"station,year,month,day,value\n{rows}") as staging:
        assert as_set(staging.sample()) == {("a", "", NEW_YEAR, 1.0)}
        assert [row[:2] for row in rejects(staging)] == [
            (3, "not a time"), (4, "not a time"), (5, "no time"), (6, "not a time"),
        ]  # fmt: skip
    with staged_text("station,date,hour,value\na,2020-01-01,25,1\na,2020-01-01,3,2\n") as staging:
        assert as_set(staging.sample()) == {("a", "", NEW_YEAR + 3 * HOUR, 2.0)}
        assert rejects(staging)[0][:2] == (2, "not a time")


def test_an_hour_beside_typed_times_is_added_only_where_all_are_midnights(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    for times, expected in (
        ("DATE '2020-01-01'", {0, HOUR}),
        ("20200101", {0, HOUR}),
        ("TIMESTAMP '2020-01-01'", {0, HOUR}),
        ("TIMESTAMP '2020-01-01' + to_hours(n)", {0, HOUR}),
    ):
        duckdb.execute(f"""
            COPY (SELECT 'a' AS sensor, {times} AS date, n AS hour, 1.5 AS value
            FROM (SELECT range::INTEGER AS n FROM range(2))) TO '{path}' (FORMAT parquet)""")
        with staged(path) as staging:
            assert {moment - NEW_YEAR for _, _, moment, _ in as_set(staging.sample())} == expected


def test_what_holds_no_readings_is_named_and_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("sensor,time,value,quality,remark\na,2020-01-01,1,0,ok\n")
    (tmp_path / "notes.csv").write_text("date,who,what\n2020-01-01,Ann,cleaned the lens\n2020-01-09,Bob,nothing\n")
    (tmp_path / "prose.csv").write_text("Dear all,\nthe sensors are fine, mostly, and so am I\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "README").write_text("about")
    (tmp_path / "settings.json").write_text("{}")
    with staged(tmp_path) as staging:
        assert as_set(staging.sample()) == {("a", "", NEW_YEAR, 1.0)}
        assert staging.owner_flags == ("", "0"), "the column quality has the owners' flags"
        assert staging.notes == (
            "passed over, no readings in them: empty.csv, notes.csv, prose.csv",
            "columns that are not used: remark",
            "files that are not read: README, settings.json",
        )
    # What is given by its own name is not passed over.
    with (
        pytest.raises(ConfigError, match=r"notes\.csv: found no column for the readings"),
        staged([tmp_path / "a.csv", tmp_path / "notes.csv"]),
    ):
        pass
    (tmp_path / "a.csv").unlink()
    with pytest.raises((InputError, ConfigError), match=r"empty\.csv and 2 more hold no readings"), staged(tmp_path):
        pass


@pytest.mark.parametrize("options", [{"time": "when"}, {"value": "reading"}, {"variables": ["reading"]}])
def test_files_without_the_columns_that_are_named_are_passed_over(tmp_path: Path, options: dict[str, Any]) -> None:
    (tmp_path / "a.csv").write_text("sensor,when,reading\na,2020-01-01,1\n")
    (tmp_path / "other.csv").write_text("sensor,time,battery\na,2020-01-01,1\n")
    with staged(tmp_path, Options.of(**options)) as staging:
        assert {(sensor, moment, value) for sensor, _, moment, value in as_set(staging.sample())} == {
            ("a", NEW_YEAR, 1.0)
        }
        assert staging.notes == ("passed over, no readings in them: other.csv",)


def test_a_damaged_file_of_a_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("sensor,time,value\na,2020-01-01,1\n")
    (tmp_path / "b.csv.gz").write_bytes(b"\x1f\x8bnonsense")
    with pytest.raises(InputError, match=r"b\.csv\.gz: cannot be read"), staged(tmp_path):
        pass


@pytest.mark.parametrize("as_folder", [True, False])
def test_a_table_of_stations_has_their_places(tmp_path: Path, as_folder: bool) -> None:
    readings, stations = tmp_path / "readings.csv", tmp_path / "stations.csv"
    readings.write_text("station,time,value\nS1,2020-01-01,1\nS2,2020-01-01,2\nS3,2020-01-01,3\n")
    stations.write_text("id,station,name,lat,lon,elevation\n1,s1,Hill,50.5,8.5,310\n2,S2,Dale,51.5,9.5,120\n")
    with staged(tmp_path if as_folder else [readings, stations]) as staging:
        assert staging.locations == [(0, NEW_YEAR, 50.5, 8.5), (1, NEW_YEAR, 51.5, 9.5)]
        assert staging.notes == ("stations.csv has the places of 2 sensors",)
        assert (staging.readings, staging.rejected) == (3, 0)


def test_the_name_of_a_file_is_the_sensor_where_no_column_says_it(tmp_path: Path) -> None:
    (tmp_path / "north.csv").write_text("time,temp (°C),rh\n2020-01-01,1,50\n")
    (tmp_path / "south.csv").write_text("time,temp (°C),rh\n2020-01-01,2,60\n")
    with staged(tmp_path) as staging:
        assert as_set(staging.sample()) == {
            ("north", "temp (°C)", NEW_YEAR, 1.0), ("north", "rh", NEW_YEAR, 50.0),
            ("south", "temp (°C)", NEW_YEAR, 2.0), ("south", "rh", NEW_YEAR, 60.0),
        }  # fmt: skip
        assert staging.notes == ("no column says the sensor, so the file's name is the sensor: north, south",)
    with staged(tmp_path, Options(sensor_from_file=True)) as staging:
        assert staging.notes == ()


def write_book(path: Path, sheets: Mapping[str, Sequence[Sequence[Any]]]) -> None:
    from openpyxl import Workbook

    book = Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(list(row))
    book.save(path)


def test_excel(tmp_path: Path) -> None:
    rows: list[list[Any]] = [
        ["Readings of the river, 2020"],
        [],
        ["station", "date", "time", "level (m)"],
        ["a", date(2020, 1, 1), time(6, 30), 1.25],
        ["a", date(2020, 1, 2), time(7, 0), None],
        ["b", date(2020, 1, 1), time(6, 30), 3],
    ]
    write_book(tmp_path / "river.xlsx", {"Sheet1": rows, "Empty": []})
    moment = NEW_YEAR + 6 * HOUR + 30 * MINUTE
    with staged(tmp_path / "river.xlsx") as staging:
        assert as_set(staging.sample()) == {
            ("a", "level (m)", moment, 1.25), ("b", "level (m)", moment, 3.0),
            ("a", "level (m)", NEW_YEAR + DAY + 7 * HOUR, None),
        }  # fmt: skip


def test_sheets_of_a_workbook_are_like_files_of_a_folder(tmp_path: Path) -> None:
    def sheet(value: float) -> list[list[Any]]:
        return [["time", "temp"], [datetime(2020, 1, 1, 1), value], [datetime(2020, 1, 1, 2, 30), value + 1]]

    sheets: dict[str, list[list[Any]]] = {
        "north": sheet(1),
        "south": sheet(5),
        "about": [["who", "when"], ["Ann", "once"]],
        "sites": [["site", "lat", "lon"], ["north", 50.5, 8.5]],
    }
    write_book(tmp_path / "book.xlsx", sheets)
    with staged(tmp_path) as staging:
        assert as_set(staging.sample()) == {
            (name, "temp", NEW_YEAR + after, value + (after > HOUR))
            for name, value in (("north", 1.0), ("south", 5.0)) for after in (HOUR, 2 * HOUR + 30 * MINUTE)
        }  # fmt: skip
        assert staging.notes == (
            "passed over, no readings in them: book.xlsx [about]",
            "no column says the sensor, so the file's name is the sensor: north, south",
            "book.xlsx [sites] has the places of 1 sensors",
        )
        assert staging.locations == [(0, NEW_YEAR + HOUR, 50.5, 8.5)]


def test_excel_that_cannot_be_read_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.xlsx"
    path.write_bytes(b"nonsense")
    with pytest.raises(InputError, match=r"x\.xlsx: this Excel file cannot be read") as caught, staged(path):
        pass
    assert "\n" not in str(caught.value)
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("openpyxl"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(SensormendError, match=r"Excel files need openpyxl: .*'sensormend\[excel\]'"), staged(path):
        pass
