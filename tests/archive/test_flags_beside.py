"""Flags that come with an archive: beside ours in every kind of OUT, compared, and no way in for what is hostile."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

from sensormend import clean
from sensormend.archive.cleaning import clean_archive
from sensormend.cli import main
from sensormend.errors import ConfigError, InputError, StorageError
from sensormend.io.folder import Archive
from sensormend.pipeline.options import Options
from sensormend.pipeline.owner_flags import with_owner_flags
from sensormend.readings import Flag, Rows
from sensormend.views.comparison import Comparison, compare, owner_agreement
from sensormend.views.reader import OutReader
from sensormend.views.series import row_lines, series

HOURS = 24 * 36
WRONG_BY_OWNERS = slice(600, 680)
"""They end twenty hours before the fault of w3 does."""


def table(bad: object = "4", good: object = "1") -> pd.DataFrame:
    """Return six stations of temperature and salinity, of which w3 is 15 too warm for 100 hours."""
    random = np.random.default_rng(5)
    weather = 10 + 5 * np.sin(np.arange(HOURS) / 24 * 2 * np.pi) + random.normal(0, 0.1, HOURS).cumsum()
    parts = []
    for number in range(6):
        temp = weather + random.normal(0, 0.2, HOURS)
        flag = np.full(HOURS, good, dtype=object)
        if number == 3:
            temp[600:700] += 15
            flag[WRONG_BY_OWNERS] = bad
        if number == 1:
            flag[300] = bad
        parts.append(pd.DataFrame({
            "DateTimeStamp": pd.date_range("2024-01-01", periods=HOURS, freq="h"), "StationCode": f"w{number}",
            "Temp": temp.round(2), "F_Temp": flag, "Sal": (30 + weather / 10 + random.normal(0, 0.1, HOURS)).round(2),
            "F_Sal": good,
        }))  # fmt: skip
    return pd.concat(parts, ignore_index=True)


def long(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the temperatures with the columns sensor, time, value, flag."""
    names = {"StationCode": "sensor", "DateTimeStamp": "time", "Temp": "value", "F_Temp": "flag"}
    return frame.rename(columns=names)[list(names.values())]


def flags_of(rows: Rows, sensor: str, variable: str = "") -> list[str]:
    assert rows.owner is not None
    own = (rows.sensor == rows.sensors.index(sensor)) & (rows.variable == rows.variables.index(variable))
    return [rows.owner_flags[code] for code in rows.owner[own]]


EXPECTED = ["1"] * 600 + ["4"] * 80 + ["1"] * (HOURS - 680)


@pytest.mark.parametrize("name", ["out", "out.csv", "out.parquet", "out.csv.gz"])
def test_they_are_a_column_of_every_out(tmp_path: Path, name: str) -> None:
    table().to_csv(tmp_path / "readings.csv", index=False)
    clean_archive(tmp_path / "readings.csv", tmp_path / name)
    with Archive(tmp_path / name) as archive:
        rows, run = archive.rows(), archive.run()
    assert set(rows.variables) == {"Temp", "Sal"}
    assert flags_of(rows, "w3", "Temp") == EXPECTED
    assert set(flags_of(rows, "w3", "Sal")) == {"1"}
    assert run["owner_flags"] == ["1", "4"]
    lines = {line.variable: line for line in compare(tmp_path / name)}
    fail = rows.flag == Flag.FAIL
    wrong = np.array([flag == "4" for flag in np.array(rows.owner_flags)[rows.owner]])
    both = int((fail & wrong).sum())
    assert both > 60
    assert lines["all"] == Comparison("all", 2 * 6 * HOURS, 81, int(fail.sum()), both, *_rest(rows))
    assert lines["Sal"].labelled == 0


def _rest(rows: Rows) -> tuple[int, int]:
    return int((rows.flag == Flag.SUSPECT).sum()), int((rows.flag == Flag.NOT_EVALUATED).sum())


def test_a_frame_and_a_file_have_the_same(tmp_path: Path) -> None:
    frame = long(table())
    frame.to_csv(tmp_path / "readings.csv", index=False)
    from_file = clean(tmp_path / "readings.csv").data
    for given in (frame, pl.DataFrame({name: frame[name].tolist() for name in frame})):
        result = clean(given)
        owners = list(result.data["owner_flag"])
        assert owners == from_file["owner_flag"].tolist()
        assert [flag for flag, sensor in zip(owners, result.data["sensor"], strict=True) if sensor == "w3"] == EXPECTED
        assert result.run["owner_flags"] == ["1", "4"]
    assert "owner_flag" not in clean(frame.drop(columns="flag")).data.columns


def test_a_slot_has_all_flags_of_its_readings_and_a_reading_its_own(tmp_path: Path) -> None:
    frame = long(table())
    late = frame.assign(time=frame.time + pd.Timedelta("30min"), flag="3")
    pd.concat([frame, late]).to_csv(tmp_path / "readings.csv", index=False)
    clean_archive(tmp_path / "readings.csv", tmp_path / "out", Options.of(step="1h", period="1d"))
    with Archive(tmp_path / "out") as archive:
        assert flags_of(archive.rows(), "w3") == [f"{flag}; 3" if flag < "3" else f"3; {flag}" for flag in EXPECTED]
    assert compare(tmp_path / "out")[0].labelled == 81
    options = Options.of(step="1h", period="1d", per_reading=True)
    clean_archive(tmp_path / "readings.csv", tmp_path / "each", options)
    with Archive(tmp_path / "each") as archive:
        assert flags_of(archive.rows(), "w3") == [word for flag in EXPECTED for word in (flag, "3")]


def test_of_a_sensor_that_moved_and_of_what_has_no_flag(tmp_path: Path) -> None:
    frame = long(table())
    frame["flag"] = frame.flag.where(frame.sensor != "w5", None)
    moved = (frame.sensor == "w3") & (frame.time >= "2024-01-20")
    frame["latitude"], frame["longitude"] = 53.5 + moved * 0.1, 10.0
    frame.to_csv(tmp_path / "readings.csv", index=False)
    clean_archive(tmp_path / "readings.csv", tmp_path / "out")
    with Archive(tmp_path / "out") as archive:
        rows = archive.rows()
    hours = 19 * 24
    later = [flag for flag in flags_of(rows, "w3@2") if flag]
    assert [flag for flag in flags_of(rows, "w3") if flag] + later == EXPECTED
    assert later == EXPECTED[hours:]
    assert set(flags_of(rows, "w5")) == {""}
    assert compare(tmp_path / "out")[0].readings == 5 * HOURS


def test_networks_have_their_own(tmp_path: Path) -> None:
    frame = long(table())
    pd.concat([frame.assign(net="north"), frame.assign(net="south", flag="1")]).to_csv(
        tmp_path / "readings.csv", index=False
    )
    assert main(["clean", str(tmp_path / "readings.csv"), str(tmp_path / "out"), "--networks", "net"]) == 0
    counts = {}
    for folder in (tmp_path / "out").glob("*/data"):
        with Archive(folder.parent) as archive:
            counts[folder.parent.name.split("-")[0]] = flags_of(archive.rows(), "w3").count("4")
    assert counts == {"north": 80, "south": 0}


def test_the_command_compares_without_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    long(table("R", "P")).to_csv(tmp_path / "readings.csv", index=False)
    readings, out = str(tmp_path / "readings.csv"), str(tmp_path / "out")
    assert main(["clean", readings, out]) == 0
    capsys.readouterr()
    assert main(["compare", out]) == 2
    assert "P, R; name those that do with --wrong" in capsys.readouterr().err
    assert main(["compare", out, "--wrong", "r"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:3] == ["value", f"{6 * HOURS:,}", "81"]
    # What is given to `clean` holds for `compare` and for the page.
    assert main(["clean", readings, out, "--overwrite", "--owner-wrong", "R"]) == 0
    assert compare(out)[0].labelled == 81
    clean_archive(readings, tmp_path / "out.nc")
    for without in (tmp_path / "out.nc", readings):
        with pytest.raises((ConfigError, InputError), match=r"came without flags|was not written by sensormend"):
            compare(without)
    with pytest.raises(ConfigError, match=r"came without flags: .*--owner-flag"):
        compare(_cleaned(tmp_path, long(table()).drop(columns="flag")))


def _cleaned(folder: Path, frame: pd.DataFrame, **options: Any) -> Path:
    frame.to_csv(folder / "some.csv", index=False)
    clean_archive(folder / "some.csv", folder / "some", Options.of(**options), overwrite=True)
    return folder / "some"


def test_where_only_what_is_odd_has_a_flag_the_other_readings_are_good(tmp_path: Path) -> None:
    out = _cleaned(tmp_path, long(table("bad", good="")))
    (line,) = compare(out)
    assert (line.readings, line.labelled) == (6 * HOURS, 81)
    assert line.good_flagged < 0.02
    # With a flag for good ones, what has none was not judged.
    some = long(table("bad", good=""))
    some.loc[:99, "flag"] = "good"
    assert compare(_cleaned(tmp_path, some))[0].readings == 100 + 81


def test_the_page_shows_where_they_differ(tmp_path: Path) -> None:
    table("<-3> [SBO]", "<0>").to_csv(tmp_path / "readings.csv", index=False)
    clean_archive(tmp_path / "readings.csv", tmp_path / "out.csv")
    with OutReader(tmp_path / "out.csv") as reader:
        agreement = owner_agreement(reader)
        scores = {line.variable: line for line in compare(tmp_path / "out.csv")}
        assert (agreement.wrong, agreement.others) == (["<-3> [SBO]"], ["<0>"])
        assert [line.variable for line in agreement.variables] == ["Sal", "Temp", "all"]
        for line in agreement.variables:
            assert (line.both, line.flagged) == (scores[line.variable].both, scores[line.variable].flagged)
        assert agreement.variables[0].recall is None
        items = {(item.sensor, item.variable): item for item in agreement.items}
        assert items["w1", "Temp"].theirs == 1
        assert (items["w1", "Temp"].start, items["w1", "Temp"].end) == ("2024-01-13T12:00:00Z", "2024-01-13T13:00:00Z")
        assert sum(item.ours for item in agreement.items) == scores["all"].flagged - scores["all"].both
        assert sum(item.theirs for item in agreement.items) == scores["all"].labelled - scores["all"].both
        assert owner_agreement(reader, offset=1, limit=1).items == agreement.items[1:2]
        spans = series(reader, "w3", "Temp").owner
        (span,) = [entry for entry in spans if entry.word == "<-3> [SBO]"]
        assert span.end - span.start == 80 * 3600
        assert series(reader, "w3", "Sal").owner == []
        lines = list(csv.DictReader(row_lines(reader, "w1", "Temp", None, None, 400).splitlines()))
        assert [line["owner_flag"] for line in lines].index("<-3> [SBO]") == 300


@pytest.mark.parametrize(
    ("flags", "flags_of_rows"),
    [
        (["=1+1", "@x", "+", "-3"], {"=1+1", "@x", "+", "-3"}),
        (["it's", 'a "b"', "a,b", "ö\u202e", "' OR 1=1 --"], {"it's", 'a "b"', "a,b", "ö\u202e", "' OR 1=1 --"}),
        (["; ", " ", "NULL"], {";", "", "NULL"}),
        (["x" * 100_000], {"x" * 100_000}),
    ],
)
@pytest.mark.parametrize("name", ["out", "out.csv"])
def test_hostile_flags_are_texts(tmp_path: Path, flags: list[str], flags_of_rows: set[str], name: str) -> None:
    frame = long(table())
    frame["flag"] = [flags[number % len(flags)] for number in range(len(frame))]
    frame = frame[frame.time < "2024-01-16"]
    frame.to_csv(tmp_path / "readings.csv", index=False)
    clean_archive(tmp_path / "readings.csv", tmp_path / name)
    with Archive(tmp_path / name) as archive:
        rows = archive.rows()
    assert rows.owner is not None
    assert set(np.array(rows.owner_flags, dtype=object)[rows.owner]) == flags_of_rows
    if name == "out.csv":
        with (tmp_path / name).open(newline="", encoding="utf-8") as file:
            assert not any(line["owner_flag"][:1] in ("=", "@", "+", "-") for line in csv.DictReader(file))


def test_a_column_of_remarks_is_not_one_of_flags(tmp_path: Path) -> None:
    frame = long(table())
    frame["flag"] = [f"remark {number}" for number in range(len(frame))]
    out = _cleaned(tmp_path, frame)
    with Archive(out) as archive:
        assert archive.rows().owner is None
        assert any("more than 1,000 different texts" in note for note in archive.run()["notes"])


def test_a_run_that_is_stopped_while_they_are_added_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table().to_csv(tmp_path / "readings.csv", index=False)
    clean_archive(tmp_path / "readings.csv", tmp_path / "whole")
    calls = 0

    def full(rows: Rows, *more: Any) -> Rows:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise StorageError("No space left on device")
        return with_owner_flags(rows, *more)

    monkeypatch.setattr("sensormend.archive.cleaning.with_owner_flags", full)
    monkeypatch.setattr("sensormend.io.writing.MOST_ROWS", 100)
    with pytest.raises(StorageError):
        clean_archive(tmp_path / "readings.csv", tmp_path / "out")
    monkeypatch.undo()
    clean_archive(tmp_path / "readings.csv", tmp_path / "out", resume=True)
    assert calls == 2
    with duckdb.connect() as engine:
        query = "SELECT * FROM '{}/data/*/*.parquet' ORDER BY ALL"
        whole, resumed = (engine.execute(query.format(tmp_path / name)).fetchall() for name in ("whole", "out"))
    assert whole == resumed
    assert len(whole) == 2 * 6 * HOURS
