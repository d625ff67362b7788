"""A frame and a file of the same readings give the same rows."""

from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

from sensormend import clean
from sensormend.archive.cleaning import clean_archive
from sensormend.pipeline.options import Options

HOURS = 24 * 14


def wide(sensors: int = 6) -> pd.DataFrame:
    random = np.random.default_rng(0)
    weather = 15 + 5 * np.sin(np.arange(HOURS) / 24 * 2 * np.pi) + np.cumsum(random.normal(0, 0.3, HOURS))
    columns = {f"S{number:03d}": (weather + random.normal(0, 0.3, HOURS)).round(2) for number in range(sensors)}
    return pd.DataFrame({"time": pd.date_range("2024-01-01", periods=HOURS, freq="h"), **columns})


def long(table: pd.DataFrame) -> pd.DataFrame:
    return table.melt("time", var_name="sensor", value_name="temperature")


def with_gaps(entry: object) -> pd.DataFrame:
    table = wide()
    table["S002"] = table.S002.astype(object).where(np.arange(HOURS) % 9 > 0, entry)
    return table


def fill_in_few_of_many() -> pd.DataFrame:
    table = wide(80)
    table.loc[::37, ["S001", "S003", "S079"]] = 999.0
    table.loc[::41, "S005"] = 85.0
    return table


def contradictory() -> pd.DataFrame:
    table = long(wide())
    return pd.concat([table, table.iloc[::17].assign(temperature=3.0)])


def owned() -> pd.DataFrame:
    """Return readings of two variables whose sensors no name tells: each owner has one at each time."""
    table = long(wide()).rename(columns={"sensor": "owner", "temperature": "north"})
    remark = np.where(np.arange(len(table)) % 5 == 0, "calm", "windy")
    return table.assign(south=table.north + 1, town=table.owner + " in Ulm", remark=remark)


INPUTS = {
    "wide": wide(),
    "999 in a few of 80 sensors": fill_in_few_of_many(),
    "999 in a few of 80 sensors, long and shuffled": long(fill_in_few_of_many()).sample(frac=1, random_state=1),
    "empty cells": with_gaps(None),
    "NaN": with_gaps(np.nan),
    "NA as text": with_gaps("NA"),
    "inf": with_gaps(np.inf),
    "empty, long": long(with_gaps(None)),
    "NA as text, long": long(with_gaps("NA")),
    "two values of a time": contradictory(),
    "spaces around names": long(wide()).assign(sensor=lambda table: " " + table.sensor + " "),
    "a time zone": long(wide()).assign(time=lambda table: table.time.dt.tz_localize("Europe/Berlin")),
    "times as text": long(wide()).assign(time=lambda table: table.time.astype(str)),
}


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("one_pass", [False, True])
def test_a_frame_and_a_file_give_the_same_rows(name: str, one_pass: bool, tmp_path: Path) -> None:
    table = INPUTS[name]
    table.to_csv(tmp_path / "readings.csv", index=False)
    clean_archive(tmp_path / "readings.csv", tmp_path / "out", Options.of(one_pass=one_pass))
    query = f"SELECT * EXCLUDE (month) FROM '{tmp_path}/out/data/*/*.parquet' ORDER BY sensor, time"
    rows = duckdb.execute(query).df()
    frame = clean(table, one_pass=one_pass).data.sort_values(["sensor", "time"]).reset_index(drop=True)
    pd.testing.assert_frame_equal(frame[rows.columns], rows, check_dtype=False, check_exact=True)


def test_the_texts_that_tell_readings_of_one_time_apart_are_the_sensors(tmp_path: Path) -> None:
    table = owned()
    table.to_csv(tmp_path / "readings.csv", index=False)
    for source in (table, tmp_path / "readings.csv"):
        result = clean(source)
        assert set(result.data.sensor) == set(table.owner)
        assert set(result.data.n) == {1}
    assert set(clean(table[table.owner == "S001"]).data.sensor) == {"north", "south"}


def plots(**columns: object) -> pd.DataFrame:
    """Return a long table of three plots with readings at two depths each."""
    table = pd.concat(
        long(wide(3))
        .rename(columns={"sensor": "plot"})
        .assign(depth=depth, temperature=lambda part: part.temperature / 2)
        for depth in (5, 20)
    )
    return table.assign(**columns)


@pytest.mark.parametrize(
    ("table", "sensors", "variables"),
    [
        (plots(), {f"S00{plot} {depth}" for plot in range(3) for depth in (5, 20)}, {"temperature"}),
        (
            plots(moisture=plots().temperature + 9),
            {f"S00{plot} {depth}" for plot in range(3) for depth in (5, 20)},
            {"temperature", "moisture"},
        ),
        (
            plots(depth=np.where(plots().depth == 5, "0-5cm", "5-20cm"), moisture=1.5 * plots().temperature).rename(
                columns={"plot": "treatment"}
            ),
            {f"S00{plot} {depth}" for plot in range(3) for depth in ("0-5cm", "5-20cm")},
            {"temperature", "moisture"},
        ),
        (
            plots(depth=np.where(plots().depth == 5, "NO2", "PM10")).rename(columns={"plot": "Place", "depth": "Gas"}),
            {"S000", "S001", "S002"},
            {"NO2", "PM10"},
        ),
    ],
)
def test_two_columns_that_together_tell_readings_apart(
    table: pd.DataFrame, sensors: set[str], variables: set[str], tmp_path: Path
) -> None:
    table.to_csv(tmp_path / "readings.csv", index=False)
    for source in (table, tmp_path / "readings.csv"):
        result = clean(source)
        assert set(result.data.sensor) == sensors
        assert set(result.data.variable) == variables
        assert set(result.data.n) == {1}


def test_a_column_that_never_changes_for_any_sensor_is_no_reading(tmp_path: Path) -> None:
    table = long(wide()).assign(rain=0.0, capacity=lambda table: 100 + table.sensor.str[-1].astype(int))
    table.to_csv(tmp_path / "readings.csv", index=False)
    for source in (table, tmp_path / "readings.csv"):
        result = clean(source)
        assert set(result.data.variable) == {"temperature", "rain"}
        assert "columns that never change for any sensor are not used: capacity" in result.summary()
    # One sensor may be stuck.
    assert set(clean(table[table.sensor == "S001"]).data.variable) == {"temperature", "rain", "capacity"}


def test_nan_in_a_wide_file_is_an_empty_cell(tmp_path: Path) -> None:
    with_gaps(np.nan).to_csv(tmp_path / "empty.csv", index=False)
    with_gaps(np.nan).to_csv(tmp_path / "nan.csv", index=False, na_rep="nan")
    reports = [clean_archive(tmp_path / f"{name}.csv", tmp_path / name) for name in ("empty", "nan")]
    assert reports[0].readings == reports[1].readings
    assert reports[0].flags == reports[1].flags


@pytest.mark.parametrize("zone", ["Europe/Berlin", "UTC", "Asia/Kathmandu"])
def test_a_wide_frame_keeps_its_time_zone(zone: str) -> None:
    table = wide().assign(time=lambda table: table.time.dt.tz_localize("UTC").dt.tz_convert(zone))
    plain = clean(wide(), wide=True).data
    by_column = clean(table, wide=True).data
    assert str(by_column.time.dt.tz) == zone
    pd.testing.assert_series_equal(by_column.time.dt.tz_convert("UTC").dt.tz_localize(None), plain.time)
    by_index = clean(table.set_index("time"), wide=True).data
    assert str(by_index.index.tz) == zone
    pd.testing.assert_frame_equal(by_index.reset_index(), by_column)
    series = clean(table.set_index("time").S001, wide=True).data
    assert str(series.index.tz) == zone
    utc = pl.from_pandas(wide()).with_columns(pl.col("time").dt.replace_time_zone("UTC"))
    polars = clean(utc.with_columns(pl.col("time").dt.convert_time_zone(zone)), wide=True).data
    assert polars.schema["time"].time_zone == zone
    assert polars["time"].dt.epoch("s").to_list() == utc["time"].dt.epoch("s").to_list()
