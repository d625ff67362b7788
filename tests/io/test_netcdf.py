import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from row_tables import YEAR_2019, any_rows, assert_equal_rows, by_day, in_archive_order, network
from sensormend.errors import ConfigError, InputError, SensormendError
from sensormend.io import netcdf
from sensormend.io.folder import Archive
from sensormend.io.netcdf import make_dataset, read_attributes, read_locations, read_readings, read_rows, write_netcdf
from sensormend.io.target import export
from sensormend.io.writing import RowWriter
from sensormend.pipeline.options import Options
from sensormend.readings import HOUR, MEANINGS, REASONS, Flag, Readings, Rows

xarray = pytest.importorskip("xarray")

TIMES = np.datetime64("2019-01-01", "ns") + np.arange(6) * np.timedelta64(1, "h")
VALUES = np.array([[1.0, 2.0, np.nan], [4.0, np.inf, 6.0], [7, 8, 9], [1, 2, 3], [4, 5, 6], [7, 8, 9]])
PLACES = {"s0": (41.8, -87.6), "s2": (41.7, -87.5)}
KNOWN = {"t": {"units": "degC", "standard_name": "air_temperature", "long_name": "temperature of the air"}}


def array(**arguments: Any) -> Any:
    coords = {"time": TIMES, "station": ["a", "b", "c"]}
    return xarray.DataArray(VALUES, dims=("time", "station"), coords=coords, **arguments)


def read(source: Any, options: Options | None = None) -> tuple[Readings, dict[tuple[str, str, int], float]]:
    parts = list(read_readings(source, options or Options()))
    last = parts[-1]
    values = {
        (last.sensors[part.sensor[k]], last.variables[part.variable[k]], int(part.time[k] - YEAR_2019) // HOUR):
            float(part.value[k])
        for part in parts
        for k in range(len(part))
    }  # fmt: skip
    return last, values


def meaning_of(flags: Any) -> dict[int, str]:
    return dict(zip(flags.attrs["flag_values"].tolist(), flags.attrs["flag_meanings"].split(), strict=True))


# In


@pytest.mark.parametrize("turned", [False, True])
def test_an_array_of_time_and_station(turned: bool) -> None:
    last, values = read(array().transpose() if turned else array())
    assert last.sensors == ("a", "b", "c")
    assert last.variables == ("",)
    assert len(values) == 16, "neither NaN nor infinity is a reading"
    assert values["b", "", 0] == 2.0
    assert values["c", "", 5] == 9.0


def test_a_dataset_has_several_variables_and_those_that_only_speak_of_others_are_left_out() -> None:
    dataset = xarray.Dataset({"t": array(), "h": array() * 10, "t_qc": array(), "area": ("station", [1.0, 2, 3])})
    dataset["t"].attrs["ancillary_variables"] = "t_qc"
    dataset["h_qc"] = array().notnull().astype("i1")
    dataset["h_qc"].attrs["flag_values"] = np.array([0, 1], "i1")
    last, values = read(dataset)
    assert last.variables == ("t", "h")
    assert values["a", "h", 2] == 70.0
    assert read(dataset, Options.of(variables=["h"]))[0].variables == ("h",)
    assert read(dataset, Options.of(value="t"))[0].variables == ("t",)
    with pytest.raises(ConfigError, match="no variable 'wind'; there are t, h"):
        read(dataset, Options.of(value="wind"))


def test_parts_count_in_the_same_names(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read(array(name="t"))
    monkeypatch.setattr(netcdf, "CELLS", 6)
    parts = list(read_readings(array(name="t")))
    assert len(parts) == 3
    assert {part.sensors for part in parts} == {("a", "b", "c")}
    assert read(array(name="t"))[1] == whole[1]
    assert all((np.diff(part.time) >= 0).all() for part in parts)


def test_a_file_is_decoded(tmp_path: Path) -> None:
    dataset = xarray.Dataset({"t": array(attrs={"units": "degC"})})
    dataset = dataset.assign_coords(lat=("station", [1.0, 2, np.nan]), lon=("station", [3.0, 4, 5]))
    packed = {"t": {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -999}}
    dataset["t"] = dataset["t"].where(np.isfinite(dataset["t"]))
    dataset.to_netcdf(tmp_path / "a.nc", engine="h5netcdf", encoding=packed)
    last, values = read(tmp_path / "a.nc")
    assert last.variables == ("t",)
    assert len(values) == 16
    assert values["c", "t", 1] == 6.0
    assert read_locations(tmp_path / "a.nc") == {"a": (1.0, 3.0), "b": (2.0, 4.0)}
    assert read_attributes(tmp_path / "a.nc") == {"t": {"units": "degC"}}


def test_the_classic_format_with_names_of_characters(tmp_path: Path) -> None:
    names = np.array([b"one", b"three", b"five"])
    dataset = xarray.Dataset({"t": (("station", "t0"), VALUES.T)}, {"t0": TIMES, "name": ("station", names)})
    dataset.to_netcdf(tmp_path / "a.nc", engine="scipy", format="NETCDF3_64BIT")
    last, values = read(tmp_path / "a.nc")
    assert last.sensors == ("one", "three", "five")
    assert values["five", "t", 1] == 6.0


def test_one_site_without_a_station_is_named_by_its_file(tmp_path: Path) -> None:
    dataset = xarray.Dataset({"t": ("time", VALUES[:, 0])}, {"time": TIMES, "lat": 5.0, "lon": 6.0, "id": 17})
    dataset.to_netcdf(tmp_path / "roof.nc", engine="h5netcdf")
    assert read(tmp_path / "roof.nc")[0].sensors == ("roof",)
    assert read(tmp_path / "roof.nc", Options.of(sensor="id"))[0].sensors == ("17",)
    assert read_locations(tmp_path / "roof.nc") == {"roof": (5.0, 6.0)}


def test_stations_by_number_by_role_and_by_wish() -> None:
    bare = array().drop_vars("station")
    assert read(bare)[0].sensors == ("0", "1", "2")
    assert read(bare.assign_coords(station=[10, 20, 30]))[0].sensors == ("10", "20", "30")
    dataset = bare.assign_coords(town=("station", ["x", "x", "y"]), code=("station", [7, 8, 9]))
    with pytest.raises(InputError, match="more than one station 'x'"):
        read(dataset)
    assert read(dataset, Options.of(sensor="code"))[0].sensors == ("7", "8", "9")
    dataset["code"].attrs["cf_role"] = "timeseries_id"
    assert read(dataset)[0].sensors == ("7", "8", "9")
    with pytest.raises(ConfigError, match="no names 'nobody' along station"):
        read(dataset, Options.of(sensor="nobody"))


def test_the_time_of_the_dimension_goes_first_and_another_may_be_named() -> None:
    later = array().assign_coords(arrived=("time", TIMES + np.timedelta64(1, "h")))
    assert read(later)[1]["a", "", 0] == 1.0
    assert read(later, Options.of(time="arrived"))[1]["a", "", 1] == 1.0
    with pytest.raises(ConfigError, match="no time 'noon'"):
        read(later, Options.of(time="noon"))


def test_unreadable_sources_are_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "text.nc").write_text("no NetCDF at all")
    with pytest.raises(InputError, match=r"text\.nc cannot be read as NetCDF"):
        read(tmp_path / "text.nc")
    with pytest.raises(InputError, match="there is no file"):
        read(tmp_path / "none.nc")
    cube = xarray.DataArray(np.zeros((6, 2, 2)), dims=("time", "y", "x"), coords={"time": TIMES}, name="t")
    with pytest.raises(InputError, match=r"it has t \(time, y, x\)"):
        read(cube)
    with pytest.raises(InputError, match="no numeric variable over a time"):
        read(array().drop_vars("time"))
    with pytest.raises(InputError, match="not in the standard calendar"):
        read(array().assign_coords(time=np.arange(6)), Options.of(time="time"))
    with pytest.raises(ConfigError, match="no latitude 'high'"):
        read_locations(array(), Options.of(latitude="high"))


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h5netcdf", None)
    with pytest.raises(SensormendError, match=r"sensormend\[netcdf\]"):
        list(read_readings("a.nc"))
    with pytest.raises(SensormendError, match=r"sensormend\[netcdf\]"):
        make_dataset(network())


# Out


def saying(rows: Rows) -> Rows:
    nothing = (rows.flag == Flag.MISSING) & (rows.reason == 0) & (rows.origin == 0) & (rows.n == 0)
    return rows.taken(~nothing)


@given(any_rows(unique=True))
def test_any_rows_come_back_from_a_dataset(rows: Rows) -> None:
    assert_equal_rows(read_rows(make_dataset(rows)), in_archive_order(saying(rows)))


@given(any_rows(unique=True))
@settings(max_examples=10)
def test_any_rows_come_back_from_a_file(rows: Rows) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.nc"
        write_netcdf(path, [rows], sensors=rows.sensors, variables=rows.variables, times=np.unique(rows.time))
        assert_equal_rows(read_rows(path), in_archive_order(saying(rows)))


def test_a_file_written_in_parts_is_the_dataset(tmp_path: Path) -> None:
    rows = network(days=3, variables=("t", "PM2.5"))
    make_dataset(rows, PLACES, KNOWN).to_netcdf(tmp_path / "whole.nc", engine="h5netcdf")
    write_netcdf(
        tmp_path / "parts.nc", by_day(rows), sensors=rows.sensors, variables=rows.variables,
        times=np.unique(rows.time), locations=PLACES, attributes=KNOWN,
    )  # fmt: skip
    files = [xarray.load_dataset(tmp_path / f"{name}.nc", engine="h5netcdf") for name in ("whole", "parts")]
    xarray.testing.assert_identical(*files)
    assert files[1].encoding["unlimited_dims"] == {"time"}
    for name, variable in files[0].variables.items():
        assert files[1][name].encoding["dtype"] == variable.encoding["dtype"], name


def test_an_archive_is_written_in_stretches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = network(days=3)
    with RowWriter(tmp_path / "out") as writer:
        writer.write(rows)
    monkeypatch.setattr(netcdf, "CELLS", 30)
    (tmp_path / "a.nc.meta").mkdir()
    assert_equal_rows(Archive(export(tmp_path / "out", tmp_path / "a.nc")).rows(), in_archive_order(rows))


def test_flags_say_what_they_mean_in_the_words_of_cf(tmp_path: Path) -> None:
    rows = network(sensors=2, variables=("t",))
    flag, reason = rows.flag.copy(), rows.reason.copy()
    flag[0], reason[0] = Flag.FAIL, REASONS.index("stuck")
    rows = replace(rows, flag=flag, reason=reason)
    make_dataset(rows, PLACES, KNOWN).to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    with xarray.open_dataset(tmp_path / "a.nc", engine="h5netcdf") as dataset:
        assert dataset.attrs["Conventions"] == "CF-1.11"
        assert dataset.attrs["featureType"] == "timeSeries"
        assert dataset["station"].attrs["cf_role"] == "timeseries_id"
        ancillary = dataset["t"].attrs["ancillary_variables"].split()
        assert set(ancillary) <= set(dataset.data_vars)
        assert all(dataset[name].dims == dataset["t"].dims == ("time", "station") for name in ancillary)
        assert dataset["t"].attrs["standard_name"] == dataset["t_cleaned"].attrs["standard_name"] == "air_temperature"
        flags = dataset["t_flag"]
        assert flags.dtype == flags.attrs["flag_values"].dtype == np.int8
        assert flags.attrs["standard_name"] == "aggregate_quality_flag"
        assert meaning_of(flags) == {int(code): word for code, word in MEANINGS.items()}
        first = {"time": "2019-01-01T00", "station": "s0"}
        assert meaning_of(flags)[int(flags.sel(first))] == "fail"
        assert meaning_of(dataset["t_reason"])[int(dataset["t_reason"].sel(first))] == "stuck"
        assert meaning_of(dataset["t_origin"]) == {0: "none", 1: "observed", 2: "estimated", 3: "corrected"}
        assert dataset["lat"].attrs["units"] == "degrees_north"
        assert np.isnan(dataset["lon"].sel(station="s1"))


def test_a_feature_type_needs_coordinates() -> None:
    dataset = make_dataset(network())
    assert "featureType" not in dataset.attrs
    assert "lat" not in dataset.variables
    assert "value_flag" in dataset


def test_a_cell_without_a_row_is_missing() -> None:
    rows = network(days=1, sensors=2)
    dataset = make_dataset(rows.taken((rows.sensor == 0) | (rows.time > YEAR_2019)))
    corner = dataset.sel(station="s1", time="2019-01-01T00")
    assert int(corner["value_flag"]) == Flag.MISSING
    assert np.isnan(corner["value_cleaned"])
    assert int(corner["value_n"]) == 0


def test_names_are_those_that_cf_allows() -> None:
    odd = ("PM2.5", "PM2 5", "2m wind", "time", "µ", "x", "x_flag")
    dataset = make_dataset(network(days=1, sensors=1, variables=odd))
    names = [name for name in dataset.data_vars if "sensormend_variable" in dataset[name].attrs]
    assert names == ["PM2_5", "PM2_5_2", "v_2m_wind", "time_2", "value", "x", "x_flag_2"]
    assert read_rows(dataset).variables == tuple(sorted(odd))
    assert read(dataset)[0].variables == odd, "and as readings they have their own names again"


def test_two_rows_for_one_cell_are_refused() -> None:
    rows = network(days=1)
    with pytest.raises(ConfigError, match=r"\.csv or \.parquet"):
        make_dataset(Rows.concatenate([rows, rows]))


def test_a_foreign_dataset_is_no_archive(tmp_path: Path) -> None:
    array(name="t").to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    (tmp_path / "a.nc.meta").mkdir()
    with pytest.raises(InputError, match="not a dataset that sensormend wrote"):
        Archive(tmp_path / "a.nc").rows()


def test_a_failed_file_leaves_nothing(tmp_path: Path) -> None:
    rows = network(days=1)
    with pytest.raises(ConfigError):
        write_netcdf(
            tmp_path / "a.nc", [Rows.concatenate([rows, rows])], sensors=rows.sensors, variables=rows.variables,
            times=np.unique(rows.time),
        )  # fmt: skip
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(SensormendError, match="cannot write"):
        write_netcdf(tmp_path / "no" / "a.nc", [], sensors=("a",), variables=("",), times=np.unique(rows.time))
