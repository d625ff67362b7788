"""Wide tables out, a Series as one sensor, units and names on their way through."""

import json
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

from sensormend import clean
from sensormend.archive.cleaning import clean_archive
from sensormend.archive.frames import Frame
from sensormend.cli import main
from sensormend.errors import ConfigError, InputError
from sensormend.io.folder import Archive
from sensormend.io.staging import Staging
from sensormend.pipeline.options import Options
from sensormend.pipeline.units import UsualRange, described, likely_unit
from sensormend.views.reader import OutReader
from sensormend.views.sensors import sensor_view
from simulated_city import city_readings

DAYS = 12


@pytest.fixture(scope="module")
def long() -> pd.DataFrame:
    readings = city_readings(days=DAYS)
    return pd.DataFrame(
        {
            "station": np.array(readings.sensors)[readings.sensor],
            "time": readings.time.astype("datetime64[us]"),
            "temp (°C)": readings.value,
        }
    )


@pytest.fixture(scope="module")
def rows(long: pd.DataFrame) -> pd.DataFrame:
    return clean(long).data


@pytest.fixture(scope="module")
def expected(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.pivot(index="time", columns="sensor", values="cleaned").rename_axis(columns=None)


def test_a_wide_frame_goes_out_wide(long: pd.DataFrame, expected: pd.DataFrame) -> None:
    wide = long.pivot(index="time", columns="station", values="temp (°C)").rename_axis(columns=None)
    backwards = wide[wide.columns[::-1]]
    cleaned = clean(backwards, wide=True).data
    assert list(cleaned.columns) == list(backwards.columns), "the columns keep their order"
    pd.testing.assert_frame_equal(cleaned[expected.columns], expected, check_freq=False)
    column = clean(wide.reset_index(), wide=True).data
    pd.testing.assert_frame_equal(column.set_index("time"), expected, check_freq=False)
    polars = clean(pl.DataFrame({name: list(values) for name, values in wide.reset_index().items()}), wide=True).data
    assert polars.columns == ["time", *expected.columns]
    np.testing.assert_array_equal(polars["s03"].to_numpy(), expected["s03"].to_numpy())
    pd.testing.assert_frame_equal(clean(long, wide=True).data.set_index("time"), expected, check_freq=False)


def test_several_variables_have_a_column_each(long: pd.DataFrame, rows: pd.DataFrame) -> None:
    both = long.assign(rh=50 + long["temp (°C)"] / 3)
    cleaned, details = clean(both, wide=True).data, clean(both).data
    assert list(cleaned.columns) == ["station", "time", "temp (°C)", "rh"]
    pivoted = details.pivot(index=["sensor", "time"], columns="variable", values="cleaned").reset_index()
    for name in ("temp (°C)", "rh"):
        np.testing.assert_array_equal(cleaned[name], pivoted[name])
    np.testing.assert_array_equal(cleaned["station"], pivoted["sensor"])


def test_a_series_is_one_sensor(long: pd.DataFrame) -> None:
    mine = long[long.station == "s03"].set_index("time")["temp (°C)"]
    by_name = clean(mine.rename("Hilltop")).data
    assert set(by_name.sensor) == {"Hilltop"}
    assert "variable" not in by_name
    measured = clean(mine).data
    assert set(measured.sensor) == {"sensor"}
    assert set(measured.variable) == {"temp (°C)"}
    nameless = clean(mine.rename(None)).data
    assert set(nameless.sensor) == {"sensor"}
    for other in (measured, nameless):
        np.testing.assert_array_equal(other.cleaned, by_name.cleaned)
    series = clean(mine.rename("Hilltop"), wide=True).data
    assert isinstance(series, pd.Series)
    assert series.name == "Hilltop"
    np.testing.assert_array_equal(series.to_numpy(), by_name.cleaned)
    np.testing.assert_array_equal(series.index.to_numpy(), by_name.time.to_numpy())
    with pytest.raises(InputError, match="needs an index of times"):
        clean(mine.reset_index(drop=True))


def test_the_command_writes_a_wide_table_and_keeps_the_rows(
    long: pd.DataFrame, expected: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "readings.csv"
    long.to_csv(source, index=False)
    assert main(["clean", str(source), str(tmp_path / "wide.csv"), "--wide"]) == 0
    table = pd.read_csv(tmp_path / "wide.csv", parse_dates=["time"]).set_index("time")
    assert list(table.columns) == list(expected.columns)
    np.testing.assert_allclose(table.to_numpy(), expected.to_numpy(), rtol=1e-12)
    archived = Archive(tmp_path / "wide.csv").rows()
    assert len(archived) == expected.size
    assert set(archived.variables) == {"temp (°C)"}
    capsys.readouterr()
    assert main(["clean", str(source), str(tmp_path / "folder"), "--wide"]) == 2
    assert "choose an OUT that ends in .csv" in capsys.readouterr().err
    assert not (tmp_path / "folder").exists()


def test_several_variables_in_a_wide_file(long: pd.DataFrame, tmp_path: Path) -> None:
    source = tmp_path / "readings.csv"
    long.assign(rh=50 + long["temp (°C)"] / 3).to_csv(source, index=False)
    clean_archive(source, tmp_path / "wide.parquet", Options.of(wide=True))
    described = duckdb.execute(f"DESCRIBE SELECT * FROM '{tmp_path / 'wide.parquet'}'").fetchall()
    assert [line[0] for line in described] == ["time", "sensor", "rh", "temp (°C)"]
    (count,) = duckdb.execute(f"SELECT count(*) FROM '{tmp_path / 'wide.parquet'}'").fetchall()[0]
    assert count == 8 * 24 * DAYS


def test_wide_and_per_reading_are_refused_together() -> None:
    with pytest.raises(ConfigError, match="wide or per_reading, not both"):
        Options.of(wide=True, per_reading=True)


@pytest.mark.parametrize(
    ("column", "settings", "units", "name"),
    [
        ("temp (°C)", {}, "°C", "temp"),
        ("temp", {}, None, "temp"),
        ("value [K]", {}, "K", "value"),
        ("value", {"units": "degC", "names": "air temperature"}, "degC", "air temperature"),
        ("temp (°C)", {"units": {"temp (°C)": "degC"}}, "degC", "temp"),
    ],
)
def test_units_reach_run_json_netcdf_and_pictures(
    long: pd.DataFrame, tmp_path: Path, column: str, settings: dict[str, Any], units: str | None, name: str
) -> None:
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("matplotlib")
    from sensormend.plot import course

    frame = long.rename(columns={"temp (°C)": column})
    frame.to_csv(tmp_path / "readings.csv", index=False)
    clean_archive(tmp_path / "readings.csv", tmp_path / "out.nc", Options.of(one_pass=True, **settings))
    with xarray.open_dataset(tmp_path / "out.nc", engine="h5netcdf") as dataset:
        variable = "temp" if column.startswith("temp") else "value"
        for part in (variable, f"{variable}_cleaned"):
            assert dataset[part].attrs.get("units") == units
        assert dataset[variable].attrs["long_name"] == name
    record = json.loads((tmp_path / "out.nc.meta" / "run.json").read_text())
    key = column if column.startswith("temp") else ""
    assert record.get("units", {}).get(key) == units
    cleaned = clean(frame, one_pass=True, **settings).data
    for source in (cleaned, tmp_path / "out.nc"):
        label = course(source, "s03").axes[0].get_ylabel()
        assert label == (f"{name}, {units}" if units else name)


def test_units_of_missing_variables_are_refused(long: pd.DataFrame) -> None:
    with pytest.raises(ConfigError, match="units names variable 'ph'; there is temp"):
        clean(long, units={"ph": "1"})
    with pytest.raises(ConfigError, match="names is a text, or a text per variable"):
        Options.of(names=3)


def test_units_in_a_toml_file(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('[units]\ntemp = "K"\n[names]\ntemp = "air temperature"\n', encoding="utf-8")
    options = Options.from_toml(tmp_path / "c.toml")
    assert described(["temp", "rh (%)"], options) == {
        "temp": {"units": "K", "long_name": "air temperature"},
        "rh (%)": {"units": "%", "long_name": "rh"},
    }


def test_a_frame_of_another_kind_has_its_layout() -> None:
    frame = pd.DataFrame({"time": pd.date_range("2020", periods=3, freq="h"), "a": 1.0, "b": 2.0}).set_index("time")
    for table, indexed in ((frame, True), (frame.reset_index(), False)):
        with Staging(None) as staging:
            assert Frame.of(table, Options(), staging).indexed == indexed


@pytest.mark.parametrize(
    ("name", "usual", "unit"),
    [
        ("air_temperature", (-7, 14, 34, 729), "°C"),
        ("air_temperature", (-7, 14, 34, 60), ""),
        ("temp", (60, 68, 75, 900), ""),
        ("temp", (20, 55, 92, 900), ""),
        ("temp", (255, 287, 305, 900), ""),
        ("temp", (-12, 3, 20, 900), ""),
        ("temp_degF", (-7, 14, 34, 729), "°F"),
        ("pressure", (990, 1010, 1030, 1), "hPa"),
        ("baro", (99_000, 101_000, 103_000, 1), "Pa"),
        ("pressure", (29.5, 30.0, 30.5, 900), ""),
        ("humidity", (0.2, 0.6, 0.99, 900), ""),
        ("humidity", (2, 9, 28, 900), ""),
        ("rh", (20, 60, 101, 1), "%"),
        ("pm25", (1, 20, 200, 1), "µg/m³"),
        ("co2", (410, 480, 2000, 3), "ppm"),
        ("co2", (740, 900, 3000, 3), ""),
        ("wind", (0, 3, 12, 900), ""),
        ("rain", (0, 0, 5, 900), ""),
        ("do", (5, 9, 14, 900), ""),
        ("temp_c", (-7, 14, 34, 20), ""),
        ("S12", (990, 1010, 1030, 900), ""),
    ],
)
def test_a_unit_is_claimed_where_no_other_one_fits(
    name: str, usual: tuple[float, float, float, float], unit: str
) -> None:
    assert likely_unit(name, UsualRange(*usual)) == unit
    assert described([name], Options(units={name: "furlong"}), None, {name: UsualRange(*usual)}) == {
        name: {"units": "furlong"}
    }


def test_units_by_name_and_range_are_in_frames_and_run_json_and_no_others(tmp_path: Path) -> None:
    readings = city_readings(days=DAYS)
    value = readings.value
    frame = pd.DataFrame(
        {
            "station": np.array(readings.sensors)[readings.sensor],
            "time": readings.time.astype("datetime64[us]"),
            "temp": 68 + value / 10,
            "rh": (60 + value).clip(5, 100),
            "pressure": 1010 + value,
        }
    )
    frame.to_csv(tmp_path / "readings.csv", index=False)
    assert main(["clean", str(tmp_path / "readings.csv"), str(tmp_path / "out")]) == 0
    units = json.loads((tmp_path / "out" / "run.json").read_text())["units"]
    assert units == {"rh": "%", "pressure": "hPa"}
    assert clean(frame).data.attrs["units"] == units
    with OutReader(tmp_path / "out") as reader:
        assert [sensor_view(reader, "s03", name).unit for name in ("temp", "rh", "pressure")] == ["", "%", "hPa"]
