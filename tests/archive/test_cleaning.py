"""An archive in, a mended archive out: the same whatever the way, and nothing half written."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

from sensormend import clean
from sensormend.archive.cleaning import clean_archive
from sensormend.errors import ConfigError, InputError, SensormendError
from sensormend.io.folder import Archive
from sensormend.pipeline.options import Options
from sensormend.readings import COLUMNS, DAY, Readings, Rows
from simulated_city import START, all_rows, city_readings, write_csv

ALL = {"data", "faults.csv", "sensors.csv", "run.json", "state"}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    readings = city_readings()
    order = np.random.default_rng(0).permutation(len(readings))
    return write_csv(tmp_path_factory.mktemp("table") / "readings.csv", readings, order)


@pytest.fixture(scope="module")
def mended(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("mended") / "out"
    clean_archive(table, out)
    return out


def rows_of(out: Path) -> pd.DataFrame:
    files = f"{out}/data/*/*.parquet" if out.is_dir() else str(out)
    return duckdb.execute(f"SELECT * FROM '{files}' ORDER BY sensor, time").df()


def same(one: pd.DataFrame, other: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(one[other.columns], other, check_dtype=False)


def test_out_is_laid_out_as_the_design_says(mended: Path) -> None:
    assert {path.name for path in mended.iterdir()} == ALL
    parquet = [path.relative_to(mended).as_posix() for path in mended.rglob("*.parquet")]
    assert sorted(parquet) == [f"data/month=2020-{month}/part-2020{month}01T000000.parquet" for month in ("01", "02")]
    assert {path.name for path in (mended / "state").iterdir()} == {"model.npz", "cleaner.npz", "checkpoint.json"}
    record = json.loads((mended / "run.json").read_text())
    assert record["grid"] == {"step": "1h", "period": "1d", "early_seconds": 0, "cut_seconds": 0}
    assert record["readings"] == len(city_readings())
    assert str(mended.parent) not in (mended / "run.json").read_text()


def test_the_rows_are_those_of_clean_on_a_frame(mended: Path, table: Path) -> None:
    frame = clean(pl.read_csv(table, try_parse_dates=True)).data
    rows = rows_of(mended)
    for name in ("value", "n", "cleaned", "lower", "upper", "flag"):
        np.testing.assert_array_equal(rows[name].to_numpy(dtype=float), frame[name].to_numpy().astype(float))
    assert rows.reason.tolist() == frame["reason"].to_list()


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet", "nc"])
def test_one_file_holds_the_same_rows(mended: Path, table: Path, tmp_path: Path, ending: str) -> None:
    if ending == "nc":
        pytest.importorskip("h5netcdf")
    out = tmp_path / f"one.{ending}"
    clean_archive(table, out)
    assert {path.name for path in tmp_path.iterdir()} == {out.name, f"{out.name}.meta"}
    assert {path.name for path in (tmp_path / f"{out.name}.meta").iterdir()} == ALL - {"data"}
    whole, single = Archive(mended).rows(), Archive(out).rows()
    order = [np.lexsort((rows.time, np.array(rows.sensors, dtype=object)[rows.sensor])) for rows in (whole, single)]
    for name in COLUMNS[2:]:
        np.testing.assert_array_equal(getattr(single, name)[order[1]], getattr(whole, name)[order[0]], err_msg=name)


def test_days_pushed_one_by_one_give_the_same_as_one_pass(table: Path, tmp_path: Path) -> None:
    clean_archive(table, tmp_path / "out", Options(one_pass=True))
    archived, stream = Archive(tmp_path / "out").rows(), all_rows(city_readings())
    keys = [np.lexsort((rows.time, np.array(rows.sensors, dtype=object)[rows.sensor])) for rows in (archived, stream)]
    for name in COLUMNS[2:]:
        np.testing.assert_array_equal(getattr(archived, name)[keys[0]], getattr(stream, name)[keys[1]], err_msg=name)


def test_many_overlapping_files_are_one_archive(mended: Path, tmp_path: Path) -> None:
    readings = city_readings()
    early, late = readings.time < START + 25 * DAY, readings.time >= START + 20 * DAY
    (tmp_path / "in").mkdir()
    write_csv(tmp_path / "in" / "b.csv", readings.taken(early))
    write_csv(tmp_path / "in" / "a.csv", readings.taken(late))
    report = clean_archive(tmp_path / "in", tmp_path / "out")
    assert report.readings == int(early.sum() + late.sum())
    same(rows_of(tmp_path / "out"), rows_of(mended))


SCRIPT = """
import sys, time
from sensormend.archive import cleaning
from sensormend.pipeline.cleaner import Cleaner
cleaning.CHECKPOINT = 0.0
push = Cleaner.push
def slow(self, readings):
    time.sleep(0.03)
    return push(self, readings)
Cleaner.push = slow
cleaning.clean_archive(sys.argv[1], sys.argv[2], resume="resume" in sys.argv)
"""


@pytest.mark.processes
@pytest.mark.parametrize("periods", [1, 17])
def test_a_killed_run_goes_on_and_gives_the_same(table: Path, mended: Path, tmp_path: Path, periods: int) -> None:
    out, work = tmp_path / "out", tmp_path / "out.partial"
    run = subprocess.Popen([sys.executable, "-c", SCRIPT, str(table), str(out)])
    deadline = time.monotonic() + 60
    while len(list((work / "spool").glob("*.rows"))) < periods and time.monotonic() < deadline:
        assert run.poll() is None
        time.sleep(0.01)
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    assert not out.exists()
    with pytest.raises(ConfigError, match="--resume continues it, --overwrite starts over"):
        clean_archive(table, out)
    (tmp_path / "notes.csv").write_text("sensor,from,to,action\n")
    with pytest.raises(ConfigError, match="had other readings or options"):
        clean_archive(table, out, Options(maintenance=tmp_path / "notes.csv"), resume=True)
    with pytest.raises(ConfigError, match="had other readings or options"):
        clean_archive(table, out, Options(one_pass=True), resume=True)
    clean_archive(table, out, resume=True)
    assert not work.exists()
    same(rows_of(out), rows_of(mended))
    for name in ("faults.csv", "sensors.csv"):
        assert (out / name).read_text() == (mended / name).read_text()


def test_what_was_allowed_to_replace_still_is_when_it_goes_on(
    table: Path, mended: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "one.parquet"
    clean_archive(table, out, Options(one_pass=True))
    before = out.read_bytes()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr("sensormend.io.target.export", full)
        with pytest.raises(OSError, match="No space"):
            clean_archive(table, out, overwrite=True)
    assert out.read_bytes() == before
    with monkeypatch.context() as watched:
        # Everything is mended already: only the one file is lacking.
        watched.setattr("sensormend.pipeline.cleaner.Cleaner.push", full)
        clean_archive(table, out, resume=True)
    same(rows_of(mended), rows_of(out))
    assert {path.name for path in tmp_path.iterdir()} == {"one.parquet", "one.parquet.meta"}


def test_an_existing_out_is_not_replaced_without_overwrite(table: Path, mended: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("mine")
    with pytest.raises(ConfigError, match="--overwrite replaces it"):
        clean_archive(table, out)
    with pytest.raises(ConfigError, match="sensormend did not write"):
        clean_archive(table, out, overwrite=True)
    assert (out / "mine.txt").read_text() == "mine"
    (out / "mine.txt").rename(out / "run.json")
    with pytest.raises(InputError):
        clean_archive(tmp_path / "nothing.csv", out, overwrite=True)
    assert (out / "run.json").read_text() == "mine"
    assert {path.name for path in tmp_path.iterdir()} == {"out"}
    (tmp_path / "out.old").mkdir()
    clean_archive(table, out, overwrite=True)
    assert {path.name for path in out.iterdir()} == ALL
    assert {path.name for path in tmp_path.iterdir()} == {"out", "out.old"}
    with pytest.raises(ConfigError, match="give one of them"):
        clean_archive(table, out, overwrite=True, resume=True)
    with pytest.raises(ConfigError, match="nothing to resume"):
        clean_archive(table, tmp_path / "other", resume=True)


def test_the_readings_are_never_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    path = write_csv(folder / "readings.csv", city_readings(days=12))
    (folder / "run.json").write_text("{}")
    (tmp_path / "link").symlink_to(folder)
    for out in (path, folder, tmp_path / "link", folder / ".." / "mine"):
        with pytest.raises(ConfigError, match=r"would be replaced|choose another"):
            clean_archive(path, out, overwrite=True)
    assert {entry.name for entry in folder.iterdir()} == {"readings.csv", "run.json"}
    (tmp_path / "nowhere").symlink_to(tmp_path / "not-there")
    with pytest.raises(ConfigError, match="already exists"):
        clean_archive(path, tmp_path / "nowhere")


def test_an_out_among_the_readings_is_not_read(tmp_path: Path) -> None:
    write_csv(tmp_path / "readings.csv", city_readings(days=12))
    first = clean_archive(tmp_path, tmp_path / "out")
    again = clean_archive(tmp_path, tmp_path / "one.csv.gz")
    third = clean_archive(tmp_path, tmp_path / "out2")
    assert first.readings == again.readings == third.readings
    clean_archive(tmp_path / "readings.csv", tmp_path / "out", overwrite=True)


def test_two_runs_do_not_write_one_out(table: Path, tmp_path: Path) -> None:
    from sensormend.files import locked

    work = tmp_path / "out.partial"
    work.mkdir()
    (work / "half.txt").write_text("done so far")
    with locked(work / ".lock", "x"):
        for resume in (True, False):
            with pytest.raises(SensormendError, match="another run is writing"):
                clean_archive(table, tmp_path / "out", resume=resume, overwrite=not resume)
    assert (work / "half.txt").exists()


def test_what_cannot_be_read_leaves_nothing_behind(tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    for content in (b"", b"sensor,time,value\n", b"\x00\x01\x02\xff" * 100, b"a,b\nx,y\n"):
        bad.write_bytes(content)
        with pytest.raises(SensormendError, match=r"bad\.csv") as caught:
            clean_archive(bad, tmp_path / "out")
        assert "\n" not in str(caught.value)
        assert {path.name for path in tmp_path.iterdir()} == {"bad.csv"}


def test_broken_rows_are_counted_and_listed_with_the_reason(table: Path, tmp_path: Path) -> None:
    lines = table.read_text().splitlines()
    lines[100:100] = ["s01,yesterday,5.0", "s01,2020-01-05T00:00:00,warm", ",2020-01-05T00:00:00,3.0"]
    (tmp_path / "readings.csv").write_text("\n".join(lines) + "\n")
    report = clean_archive(tmp_path / "readings.csv", tmp_path / "out")
    assert report.rejected == 3
    rejected = pd.read_csv(tmp_path / "out" / "rejected.csv")
    assert rejected.row.tolist() == [101, 102, 103]
    assert rejected.reason.tolist() == ["not a time", "not a number", "no sensor"]


def test_a_clock_that_was_not_set_is_not_believed(table: Path, mended: Path, tmp_path: Path) -> None:
    lines = table.read_text().splitlines()
    strays = ["s01,1970-01-01T00:00:00,5.0", "s02,1970-01-02T03:00:00,5.0", "s03,2036-02-07T06:28:00,5.0"]
    (tmp_path / "readings.csv").write_text("\n".join([*lines, *strays]) + "\n")
    report = clean_archive(tmp_path / "readings.csv", tmp_path / "out")
    assert (report.readings, report.rejected) == (len(lines) - 1, 3)
    rejected = pd.read_csv(tmp_path / "out" / "rejected.csv")
    assert rejected.row.tolist() == [len(lines) + number for number in (1, 2, 3)]
    assert set(rejected.reason) == {"a time a year and more from all others"}
    same(rows_of(tmp_path / "out"), rows_of(mended))
    frame = pd.read_csv(tmp_path / "readings.csv", parse_dates=["time"])
    with pytest.warns(UserWarning, match="3 readings a year and more from all others were left out"):
        assert len(clean(frame).data) == len(rows_of(mended))


def test_fill_values_notes_and_limits_reach_the_rows(tmp_path: Path) -> None:
    readings = city_readings()
    value = readings.value.copy()
    value[::40] = -9999
    value[1::400] = 77.7
    changed = Readings(readings.sensors, readings.variables, readings.sensor, readings.variable, readings.time, value)
    path = write_csv(tmp_path / "readings.csv", changed)
    (tmp_path / "maintenance.csv").write_text("sensor,from,to,action\ns02,2020-01-20,2020-01-22,ignore\n")
    options = Options.of(valid=[-60, 60], maintenance=tmp_path / "maintenance.csv")
    report = clean_archive(path, tmp_path / "out", options)
    rows = rows_of(tmp_path / "out")
    assert (rows[rows.value > 60].reason == "implausible").all()
    assert (rows.reason == "fill").sum() >= 0.9 * np.sum(value == -9999)
    assert rows.cleaned.min() > -60
    ignored = rows[(rows.sensor == "s02") & (rows.time >= "2020-01-20") & (rows.time < "2020-01-22")]
    assert set(ignored.flag) <= {2, 4, 9}
    assert report.flags[4] == (rows.flag == 4).sum()


def test_no_reading_is_nulled(tmp_path: Path) -> None:
    readings = city_readings()
    value = readings.value.copy()
    time = readings.time - START
    dying = (readings.sensor == 3) & (time >= 30 * DAY) & np.isfinite(value)
    value[dying] = 122.153
    dead = (readings.sensor == 5) & (time >= 20 * DAY) & (time < 22 * DAY)
    value[dead] = -999
    for place, code in ((11, -9999.0), (13, 65535.0), (17, 1e300), (19, -1e200)):
        value[place::1501] = code
    changed = Readings(readings.sensors, readings.variables, readings.sensor, readings.variable, readings.time, value)
    report = clean_archive(write_csv(tmp_path / "readings.csv", changed), tmp_path / "out")
    rows = rows_of(tmp_path / "out")
    assert sorted(rows.value.dropna()) == sorted(value[np.isfinite(value)])
    assert rows.n.sum() == np.isfinite(value).sum()
    assert set(rows.flag[rows.value.isna()]) == {9}
    assert not rows.flag[rows.value.notna()].eq(9).any()
    coded = rows[rows.value.isin([-999.0, -9999.0, 65535.0])]
    assert set(zip(coded.flag, coded.reason, strict=True)) == {(4, "fill")}
    assert report.fill == len(coded)
    assert set(rows.reason[rows.value.abs() > 1e100]) == {"implausible"}
    dying_rows = rows[rows.value == 122.153]
    assert "fill" not in set(dying_rows.reason)
    assert (dying_rows.flag == 4).mean() > 0.9
    faults = pd.read_csv(tmp_path / "out" / "faults.csv")
    # Two days of nothing else are listed; a fill value between readings is not.
    fills = faults[faults.reason == "fill"]
    assert fills.sensor.tolist() == ["s05"]
    assert fills["from"].tolist() == ["2020-01-21T00:00:00"]
    sensors = pd.read_csv(tmp_path / "out" / "sensors.csv").set_index("sensor")
    assert sensors.readings.sum() == np.isfinite(value).sum()
    own = rows[rows.sensor == "s05"]
    missing = (own.flag == 9) | (own.reason == "fill")
    assert sensors.share_missing["s05"] == pytest.approx(missing.mean(), abs=1e-5)


def test_progress_is_reported_from_beginning_to_end(table: Path, tmp_path: Path) -> None:
    shares: dict[str, list[float]] = {}

    def stages(name: str, readings: int) -> Any:
        shares[name] = []
        return shares[name].append

    clean_archive(table, tmp_path / "out", stages=stages)
    assert list(shares) == ["reading", "sorting", "cleaning"]
    assert shares["cleaning"] == sorted(shares["cleaning"])
    assert shares["cleaning"][-1] > 0.9
    assert max(shares["cleaning"]) <= 1


def test_rows_of_an_archive_are_read_back_as_they_were(mended: Path) -> None:
    rows = Archive(mended).rows(sensor="s03", start=START + 5 * DAY, end=START + 7 * DAY)
    assert isinstance(rows, Rows)
    assert len(rows) == 48
    assert set(np.array(rows.sensors)[rows.sensor]) == {"s03"}
