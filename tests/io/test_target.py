import csv
import tempfile
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings

from output_folders import small_output
from row_tables import YEAR_2019, any_rows, assert_equal_rows, by_day, in_archive_order, network, write_archive
from sensormend.errors import ConfigError, InputError, SensormendError
from sensormend.io.folder import Archive, data_files, find_ending
from sensormend.io.metadata import SENSORS_HEADER, write_csv
from sensormend.io.target import Target, export
from sensormend.readings import DAY, HOUR, MINUTE, Rows


def single(folder: Path, name: str, rows: Rows) -> Path:
    """Make a single-file OUT, as clean does."""
    out = folder / name
    meta = write_archive(folder / f"{name}.meta", rows)
    return export(meta, out)


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".parquet", ".nc"])
@pytest.mark.parametrize("variables", [("",), ("temperature", "PM2.5, fine")])
def test_one_file_has_the_same_rows(tmp_path: Path, ending: str, variables: tuple[str, ...]) -> None:
    rows = network(days=3, variables=variables)
    out = single(tmp_path, f"mended{ending}", rows)
    assert {path.name for path in tmp_path.iterdir()} == {out.name, f"{out.name}.meta"}
    archive = Archive(out)
    assert_equal_rows(archive.rows(), in_archive_order(rows))
    wanted = (rows.time >= YEAR_2019 + 30 * HOUR) & (rows.time < YEAR_2019 + 2 * DAY) & (rows.sensor == 1)
    wanted &= rows.variable == len(variables) - 1
    part = archive.rows("s1", YEAR_2019 + 30 * HOUR, YEAR_2019 + 2 * DAY, variables[-1])
    assert_equal_rows(part, in_archive_order(rows.taken(wanted)))
    assert archive.names == ("s0", "s1", "s2")
    assert archive.span() == (YEAR_2019, YEAR_2019 + 71 * HOUR)


@given(any_rows(unique=True))
@settings(max_examples=10)
def test_any_rows_through_csv(rows: Rows) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert_equal_rows(Archive(single(Path(folder), "a.csv", rows)).rows(), in_archive_order(rows))


@pytest.mark.parametrize("variables", [("",), ("temp", "@pm")])
def test_names_in_csv_are_no_formulas_and_come_back(tmp_path: Path, variables: tuple[str, ...]) -> None:
    rows = replace(network(sensors=3, variables=variables), sensors=("'=1+1", "+2", "=1+1"))
    out = single(tmp_path, "mended.csv", rows)
    archive = Archive(out)
    assert_equal_rows(archive.rows(), in_archive_order(rows))
    assert len(archive.rows("+2")) == len(rows) // 3
    wide = export(tmp_path / "mended.csv.meta", tmp_path / "wide.csv", wide=True)
    for path in (out, wide):
        with path.open(newline="") as file:
            cells = [cell for line in csv.reader(file) for cell in line]
        assert not any(cell.startswith(("=", "+", "@")) for cell in cells)
        assert {"''=1+1", "'+2", "'=1+1"} <= set(cells)


def test_text_is_for_people(tmp_path: Path) -> None:
    rows = network().taken(np.arange(2))
    rows = replace(
        rows, value=np.array([np.nan, 1.5]), reason=np.array([0, 8], np.int8), origin=np.array([0, 1], np.int8)
    )
    lines = single(tmp_path, "a.csv", rows).read_text().splitlines()
    assert lines[0] == "sensor,time,value,n,cleaned,lower,upper,flag,reason,origin"
    assert lines[1].startswith("s0,2019-01-01 00:00:00,,1,")
    assert lines[1].endswith(",1,,")
    assert lines[2].endswith(",1,fill,observed")


def test_files_are_sorted_by_time_and_sensor(tmp_path: Path) -> None:
    out = single(tmp_path, "a.parquet", network(days=2))
    rows = duckdb.read_parquet(str(out)).project("time, sensor").fetchall()
    assert rows == sorted(rows)


def test_netcdf_knows_where_sensors_stand(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    meta = write_archive(tmp_path / "a.nc.meta", network(sensors=2))
    write_csv(meta / "sensors.csv", SENSORS_HEADER, [{"sensor": "s1", "latitude": 41.5, "longitude": -87.5}])
    export(meta, tmp_path / "a.nc")
    with xarray.open_dataset(tmp_path / "a.nc", engine="h5netcdf") as dataset:
        assert dataset.attrs["featureType"] == "timeSeries"
        assert float(dataset["lat"].sel(station="s1")) == 41.5
        assert np.isnan(dataset["lon"].sel(station="s0"))


def test_rows_per_reading_do_not_fit_a_table(tmp_path: Path) -> None:
    rows = network(days=1)
    twice = Rows.concatenate([rows, rows])
    with pytest.raises(ConfigError, match=r"\.csv or \.parquet"):
        single(tmp_path, "a.nc", twice)
    assert_equal_rows(Archive(single(tmp_path, "a.parquet", twice)).rows(), in_archive_order(twice))
    scattered = network(days=2, sensors=30)
    scattered = replace(scattered, time=YEAR_2019 + np.arange(len(scattered)) * MINUTE)
    with pytest.raises(ConfigError, match="per reading"):
        single(tmp_path, "b.nc", scattered)
    assert not (tmp_path / "a.nc").exists()
    assert not list(tmp_path.glob(".*"))


def test_a_day_is_read_without_the_others(tmp_path: Path) -> None:
    rows = network(days=3)
    out = write_archive(tmp_path / "out", rows)
    files = data_files(out)
    files[0].write_text("no Parquet")
    assert_equal_rows(Archive(out).rows(start=YEAR_2019 + DAY), in_archive_order(Rows.concatenate(by_day(rows)[1:])))
    with pytest.raises(InputError, match="cannot read"):
        Archive(out).rows()
    (out / "data" / "date=odd").mkdir()
    (out / "data" / "date=2019-01-02" / "part.parquet.new").write_text("half")
    assert len(data_files(out, YEAR_2019 + DAY)) == 2
    assert len(Archive(out).rows(start=YEAR_2019 + 400 * DAY)) == 0


def test_what_is_no_out_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "raw.csv").write_text("a,b\n")
    (tmp_path / "folder").mkdir()
    for name, message in (("none", "no such output"), ("raw.csv", r"no raw\.csv\.meta"), ("folder", "no folder data")):
        with pytest.raises(InputError, match=message):
            Archive(tmp_path / name)
    (tmp_path / "raw.csv.meta").mkdir()
    with pytest.raises(InputError, match="column 'a'"):
        Archive(tmp_path / "raw.csv").rows()
    (tmp_path / "x.parquet.meta").mkdir()
    duckdb.values([1]).write_parquet(str(tmp_path / "x.parquet"))
    with pytest.raises(InputError, match="no column 'sensor'"):
        Archive(tmp_path / "x.parquet").rows()
    with pytest.raises(InputError, match="no rows"):
        export(tmp_path / "folder", tmp_path / "y.csv")
    with pytest.raises(ConfigError, match="ending"):
        export(tmp_path / "folder", tmp_path / "y.txt")


def test_a_wrong_sensor_is_answered_with_those_like_it(tmp_path: Path) -> None:
    archive = Archive(write_archive(tmp_path, network()))
    with pytest.raises(ConfigError, match="did you mean s0"):
        archive.rows("S0")
    with pytest.raises(ConfigError, match="there are s0, s1, s2"):
        archive.rows("roof")


def test_names_without_a_list_of_sensors(tmp_path: Path) -> None:
    out = write_archive(tmp_path, network())
    (out / "sensors.csv").unlink()
    assert Archive(out).names == ("s0", "s1", "s2")
    assert Archive(out).run() == {"step": HOUR}
    assert Archive(out).faults() == []


def test_a_target_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    out = write_archive(tmp_path / "out", network())
    (tmp_path / "a.csv").mkdir()
    with pytest.raises((SensormendError, OSError)):
        export(out, tmp_path / "a.csv")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "out"]


def test_endings() -> None:
    assert [find_ending(name) for name in ("a.CSV", "b.csv.gz", "x/y.nc", "folder", ".csv", "a.csvx")] == [
        ".csv", ".csv.gz", ".nc", None, None, None,
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["out.txt", "out.JSON", "out.xlsx", "a.b/out.tsv", "out.csv.zip"])
def test_a_name_of_another_kind_of_file_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=r"\.csv, \.csv\.gz, \.parquet, \.nc"):
        Target.of(tmp_path / name)


@pytest.mark.parametrize("name", ["out", "run.2", "site.north", "2024.01", ".csv", "out.csv.gz", "out.nc"])
def test_other_names_are_folders_or_files(tmp_path: Path, name: str) -> None:
    assert Target.of(tmp_path / name).path == tmp_path / name


def test_an_out_inside_an_out_is_refused(tmp_path: Path) -> None:
    out = small_output(tmp_path / "out", days=3).path
    for inside in (out / "again", out / "data" / "rows.csv"):
        with pytest.raises(ConfigError, match="choose an OUT beside it"):
            Target.of(inside)
    assert Target.of(tmp_path / "beside").ending == ""
