import csv
import json
import math
from dataclasses import astuple
from pathlib import Path

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sensormend.errors import InputError, SensormendError
from sensormend.files import harmless, original
from sensormend.io.metadata import (
    FAULTS_HEADER,
    SENSORS_HEADER,
    read_faults,
    read_json,
    read_sensors,
    write_csv,
    write_json,
)
from sensormend.io.sql import harmless_text, original_text
from sensormend.pipeline.faults import FaultInterval
from sensormend.pipeline.times import iso, parse_time
from sensormend.readings import DAY, HOUR

NAN = math.nan


@given(st.integers(-1000 * DAY, 40_000 * DAY))
def test_a_time_is_read_as_it_was_written(time: int) -> None:
    assert parse_time(iso(time)) == time


NAMES = st.text(alphabet="'=+-@\t\rab,\"", max_size=6)


@given(NAMES)
def test_no_cell_is_a_formula_and_every_name_comes_back(name: str) -> None:
    assert harmless(name)[:1] not in ("=", "+", "-", "@", "\t", "\r")
    assert original(harmless(name)) == name
    columns = f"SELECT {harmless_text('name')}, {original_text(harmless_text('name'))} FROM (SELECT ? AS name)"
    with duckdb.connect() as engine:
        assert engine.execute(columns, [name]).fetchall() == [(harmless(name), name)]


def test_names_sentences_and_reasons_are_no_formulas_and_numbers_stay_numbers(tmp_path: Path) -> None:
    values = ("=cmd|'/C calc'!A0", "@temp", DAY, 2 * DAY, "+x", -3.25, "-5 is its name.", -1.5, 0.0, 0.9)
    fault = FaultInterval(*values, incident=DAY)
    write_csv(tmp_path / "faults.csv", FAULTS_HEADER, [astuple(fault)])
    with (tmp_path / "faults.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["sensor"], row["variable"], row["sentence"]) == ("'=cmd|'/C calc'!A0", "'@temp", "'-5 is its name.")
    assert (row["score"], row["size"]) == ("-3.25", "-1.5")
    assert read_faults(tmp_path / "faults.csv") == [fault]


def test_zones_are_taken_off_and_none_is_utc() -> None:
    assert parse_time("2019-01-01T01:00+01:00") == parse_time("2019-01-01 00:00Z") == parse_time("2019-01-01")
    with pytest.raises(InputError, match="yesterday"):
        parse_time("yesterday")


def test_faults_and_sensors_come_back(tmp_path: Path) -> None:
    faults = [FaultInterval('a "roof", b', "pm\n2.5", DAY, 2 * DAY + HOUR, "offset", 3.25, "It reads 3,5 too high.",
                            3.5, 0.0, 0.98, DAY, open=True),
              FaultInterval("b", "", 0, 0, "stuck", NAN, "", incident=0, open=False)]  # fmt: skip
    write_csv(tmp_path / "faults.csv", FAULTS_HEADER, [astuple(fault) for fault in faults])
    write_csv(
        tmp_path / "sensors.csv",
        SENSORS_HEADER,
        [
            ("a", "t", 12, 0.1 + 0.2, 0.0, NAN, 41.878114, -87.629798, np.int64(5), 7, 20.5, "healthy"),
            {"sensor": "b", "variable": "", "readings": 0, "share_missing": 1.0},
        ],
    )
    read = read_faults(tmp_path / "faults.csv")
    assert read[0] == faults[0]
    assert math.isnan(read[1].score)
    assert math.isnan(read[1].confidence)
    again = read_sensors(tmp_path / "sensors.csv")
    assert again[0].share_missing == 0.3
    assert (again[0].longitude, again[0].first, again[0].last, again[0].last_value) == (-87.629798, 5, 7, 20.5)
    assert again[0].state == "healthy"
    assert (again[1].first, again[1].last) == (None, None)
    assert "b,,0,1,,,,,,,,\n" in (tmp_path / "sensors.csv").read_text()
    assert {file.name for file in tmp_path.iterdir()} == {"faults.csv", "sensors.csv"}


def test_faults_without_a_column_are_refused(tmp_path: Path) -> None:
    write_csv(tmp_path / "faults.csv", FAULTS_HEADER[:7], [("a", "", 0, DAY, "offset", 3.25, "It reads 3.5 too high.")])
    with pytest.raises(InputError, match=r"faults\.csv has no column 'size'"):
        read_faults(tmp_path / "faults.csv")


def test_rows_may_be_mappings(tmp_path: Path) -> None:
    write_csv(tmp_path / "a.csv", ("x", "y"), [{"y": np.float32(0.5), "x": None}, (1, "it's")])
    assert (tmp_path / "a.csv").read_text() == "x,y\n,0.5\n1,it's\n"


def test_json_has_neither_nan_nor_arrays(tmp_path: Path) -> None:
    write_json(
        tmp_path / "run.json", {"a": np.arange(2), "b": NAN, "c": Path("x"), "d": np.float64(2), "e": ("ä", True)}
    )
    assert json.loads((tmp_path / "run.json").read_text("utf-8")) == {
        "a": [0, 1], "b": None, "c": "x", "d": 2.0, "e": ["ä", True],
    }  # fmt: skip
    assert read_json(tmp_path / "none.json") == {}
    for text in ("[1]", "{"):
        (tmp_path / "odd.json").write_text(text)
        with pytest.raises(InputError, match=r"odd\.json"):
            read_json(tmp_path / "odd.json")


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    write_csv(path, ("x",), [(1,)])

    def broken() -> object:
        yield (2,)
        raise KeyError("no more")

    with pytest.raises(KeyError):
        write_csv(path, ("x",), broken())  # type: ignore[arg-type]
    assert path.read_text() == "x\n1\n"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(SensormendError, match="cannot write"):
        write_csv(tmp_path / "none" / "a.csv", ("x",), [])


def test_a_file_that_is_not_ours_is_named(tmp_path: Path) -> None:
    (tmp_path / "faults.csv").write_text("sensor,time\na,b\n")
    with pytest.raises(InputError, match=r"faults.csv has no column 'variable'"):
        read_faults(tmp_path / "faults.csv")
    assert read_sensors(tmp_path / "sensors.csv") == []


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    fault = FaultInterval("a", "", HOUR, 2 * HOUR, "noise", 1.0, "a scattered.", 1.0, 0.0, 1.0, HOUR, False)
    write_csv(tmp_path / "faults.csv", FAULTS_HEADER, [astuple(fault)])
    with (tmp_path / "faults.csv").open("a") as file:
        file.write("broken\n")
    with pytest.raises(InputError, match="row 3"):
        read_faults(tmp_path / "faults.csv")
