"""clean() on frames of every kind, and on labelled arrays."""

from dataclasses import fields
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

from sensormend import clean
from sensormend.archive.frames import Frame
from sensormend.errors import ConfigError, InputError, ValueRangeError
from sensormend.io.staging import Staging
from sensormend.pipeline.faults import FaultInterval
from sensormend.pipeline.options import Options
from sensormend.readings import DAY, HOUR, Readings
from simulated_city import START, all_rows, city_readings, small_city

DAYS = 34


def columns() -> dict[str, Any]:
    readings = city_readings(days=DAYS)
    order = np.random.default_rng(0).permutation(len(readings))
    return {
        "Station ID": np.array(readings.sensors)[readings.sensor[order]],
        "time": readings.time[order].astype("datetime64[us]"),
        "temperature": readings.value[order],
    }


@pytest.fixture(scope="module")
def expected() -> pd.DataFrame:
    return clean(pd.DataFrame(columns())).data


FAULT_COLUMNS = [field.name for field in fields(FaultInterval)]


def in_utc(frame: Any) -> Any:
    """Return a frame with its times in UTC, without a zone."""
    return frame.assign(time=frame.time.dt.tz_convert("UTC").dt.tz_localize(None))


def same(one: Any, other: pd.DataFrame) -> None:
    """Compare two frames by their values."""
    assert list(one.columns) == list(other.columns)
    for name in other.columns:
        left, right = one[name].to_numpy(), other[name].to_numpy()
        if name in ("value", "cleaned", "lower", "upper"):
            np.testing.assert_array_equal(left, right, err_msg=name)
        elif name == "time":
            np.testing.assert_array_equal(left.astype("datetime64[us]"), right.astype("datetime64[us]"))
        else:
            missing = pd.isna(right)
            np.testing.assert_array_equal(pd.isna(left), missing, err_msg=name)
            assert (left[~missing] == right[~missing]).all(), name


def test_a_frame_comes_back_with_the_columns_of_the_contract(expected: pd.DataFrame) -> None:
    assert list(expected.columns) == [
        "sensor", "time", "value", "n", "cleaned", "lower", "upper", "flag", "reason", "origin",
        "variable",
    ]  # fmt: skip
    assert set(expected.variable) == {"temperature"}, "a column that has a name keeps it"
    assert len(expected) == 8 * 24 * DAYS
    assert expected.groupby("sensor").time.is_monotonic_increasing.all()
    assert set(expected.flag) <= {1, 2, 3, 4, 9}
    trusted = expected[expected.origin == "observed"]
    assert (trusted.cleaned == trusted.value).all()
    assert (expected.lower <= expected.cleaned).all()
    assert (expected.cleaned <= expected.upper).all()
    network = small_city(days=DAYS)
    truth = np.moveaxis(network.truth, 1, 2).reshape(-1)
    observed = expected.value.notna().to_numpy()
    raw, error = (np.sqrt(np.mean((column - truth)[observed] ** 2)) for column in (expected.value, expected.cleaned))
    assert error < raw / 2


def test_pandas_and_polars_give_the_same(expected: pd.DataFrame) -> None:
    cleaned = clean(pl.DataFrame(columns())).data
    assert isinstance(cleaned, pl.DataFrame)
    assert cleaned["time"].dtype == pl.Datetime("us")
    same(cleaned, expected)


def test_a_wide_frame_gives_the_same_with_times_as_a_column_or_as_the_index() -> None:
    long = pd.DataFrame(columns())
    # Neither says what was measured.
    expected = clean(long.rename(columns={"temperature": "value"})).data
    wide = long.pivot(index="time", columns="Station ID", values="temperature")
    assert isinstance(wide.index, pd.DatetimeIndex)
    assert wide.isna().any(axis=None), "cells with nothing in them are no readings"
    for frame in (wide, wide.reset_index().rename_axis(columns=None)):
        same(clean(frame).data, expected)


def readings_of(frame: Any) -> Readings:
    with Staging(None) as staging:
        Frame.of(frame, Options(), staging)
        return staging.all_readings()


def spread(frame: pd.DataFrame, names: str) -> pd.DataFrame:
    """Return a long frame with its times as numbers in several columns."""
    time = frame["time"].dt
    parts = {"year": time.year, "month": time.month, "day": time.day, "doy": time.day_of_year, "hour": time.hour,
             "minute": time.minute, "date": time.normalize(),
             "hhmm": 100 * time.hour + time.minute, "clock": time.strftime("%I:%M %p")}  # fmt: skip
    parts["epoch"] = (frame["time"] - pd.Timestamp(0)) // pd.Timedelta("1s")
    parts["timestamp_ms"] = parts["epoch"] * 1000
    return frame.drop(columns="time").assign(**{name: parts[name] for name in names.split()})


@pytest.mark.parametrize(
    "names",
    ["year month day hour", "year month day hour minute", "year doy hhmm", "date hour", "date clock", "epoch",
     "timestamp_ms", "year month day clock"],
)  # fmt: skip
def test_times_over_several_columns_of_a_frame(names: str) -> None:
    frame = pd.DataFrame(columns())
    expected = readings_of(frame)
    for spread_out in (
        spread(frame, names),
        pl.DataFrame({name: list(column) for name, column in spread(frame, names).items()}),
    ):
        readings = readings_of(spread_out)
        np.testing.assert_array_equal(readings.time, expected.time)
        np.testing.assert_array_equal(readings.value, expected.value)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            {"year": [2020, 2020], "month": [1, 13], "day": [1, 1]},
            "column 'year and month and day' has '2020 13 1' in row 1",
        ),
        ({"year": [2020, 2020], "month": [1, 2], "day": [1, 30]}, "'2020 2 30' in row 1"),
        (
            {"date": ["2020-01-01", "2020-01-01"], "hour": [1, 25]},
            "column 'date and hour' has '2020-01-01 25' in row 1",
        ),
        ({"date": ["2020-01-01"] * 3, "at": ["6:30 am", "7:15 pm", "7:15 xm"]}, "'2020-01-01 7:15 xm' in row 2"),
        ({"year": [2020, 2020.5], "month": [1, 1]}, "'2020.5 1' in row 1"),
        ({"time": [7, 8]}, "column 'time' holds no times"),
    ],
)
def test_columns_that_make_no_time_are_refused_in_one_line(parts: dict[str, list[object]], message: str) -> None:
    frame = pd.DataFrame(parts)
    frame = frame.assign(sensor="a", value=np.arange(len(frame)) + 1.5)
    with pytest.raises(InputError, match=message):
        clean(frame)


def test_a_wide_frame_of_many_columns_is_read_in_parts() -> None:
    time = pd.date_range("2024-01-01", periods=3, freq="h")
    values = np.arange(3.0 * 2500).reshape(3, 2500)
    frame = pd.DataFrame(values, columns=[f"s{number:04d}" for number in range(2500)]).assign(time=time)
    readings = readings_of(frame)
    assert len(readings.sensors) == 2500
    at = (readings.time - readings.time.min()) // HOUR
    np.testing.assert_array_equal(readings.value, values[at, readings.sensor])
    frame["s2400"] = ["1", "warm", "3"]
    with pytest.raises(ValueRangeError, match="column 's2400' has 'warm' in row 1"):
        clean(frame, sensors=[f"s{number:04d}" for number in range(2500)])


def test_a_clock_that_was_not_set_is_left_out_with_a_warning() -> None:
    frame = pd.DataFrame(columns())
    moments = frame.time.astype("datetime64[us]").to_numpy().copy()
    moments[5], moments[9] = np.datetime64("1970-01-01", "us"), np.datetime64("9999-12-31", "us")
    with pytest.warns(UserWarning, match="2 readings a year and more"):
        rows = clean(frame.assign(time=moments)).data
    assert rows.time.min() >= pd.Timestamp("2020")
    assert rows.time.max() < pd.Timestamp("2021")


def test_times_keep_their_zone_and_nothing_shifts_in_march() -> None:
    frame = pd.DataFrame(columns())
    local = frame.assign(time=frame.time.dt.tz_localize("UTC").dt.tz_convert("Europe/Berlin"))
    result = clean(local)
    assert str(result.data.time.dt.tz) == "Europe/Berlin"
    assert str(result.faults.start.dt.tz) == str(result.sensors["last"].dt.tz) == "Europe/Berlin"
    same(in_utc(result.data), clean(frame).data)
    start = np.datetime64("2024-03-25T00", "us")
    hours = start + np.arange(24 * 14) * np.timedelta64(3600, "s")
    spring = pd.DataFrame({"time": np.tile(hours, 2), "sensor": np.repeat(["a", "b"], hours.size), "value": 1.0})
    spring.value = np.random.default_rng(0).normal(size=len(spring))
    berlin = spring.assign(time=spring.time.dt.tz_localize("UTC").dt.tz_convert("Europe/Berlin"))
    assert (clean(berlin).data.n == 1).all()
    assert (clean(spring).data.n == 1).all()
    written = spring.assign(time=[moment.isoformat() for moment in berlin.time])
    same(clean(written).data, clean(spring).data)


@pytest.mark.parametrize("zone", ["America/New_York", "Etc/GMT+5", "Asia/Kolkata"])
def test_every_zone_of_pandas_is_known(zone: str, expected: pd.DataFrame) -> None:
    frame = pd.DataFrame(columns())
    same(in_utc(clean(frame.assign(time=frame.time.dt.tz_localize("UTC").dt.tz_convert(zone))).data), expected)


def test_what_is_not_known_is_null_in_polars() -> None:
    cleaned = clean(pl.DataFrame(columns())).data
    assert cleaned["value"].null_count() == (cleaned["flag"] == 9).sum()
    assert not cleaned["value"].is_nan().any()


def test_a_quiet_network_has_an_empty_list_of_the_same_kind() -> None:
    hours = START + np.arange(48, dtype=np.int64) * HOUR
    value = np.random.default_rng(0).normal(size=(4, 48))
    quiet = {"time": hours.astype("datetime64[us]"), **{f"s{number}": value[number] for number in range(4)}}
    for frame in (pd.DataFrame(quiet), pl.DataFrame(quiet)):
        faults = clean(frame).faults
        assert len(faults) == 0
        assert list(faults.columns) == FAULT_COLUMNS
        assert "float" not in str(faults["sensor"].dtype).lower()


def test_a_result_tells_what_is_wrong_and_how_the_sensors_are() -> None:
    for kind in (pd.DataFrame, pl.DataFrame):
        result = clean(kind(columns()))
        rows, faults, sensors = result.data, result.faults, result.sensors
        assert isinstance(faults, kind)
        assert isinstance(sensors, kind)
        assert list(faults.columns) == FAULT_COLUMNS
        assert len(sensors) == 8
        begin, end = (np.asarray(faults[name]).astype("datetime64[us]") for name in ("start", "end"))
        time, flag, sensor = (np.asarray(rows[name]) for name in ("time", "flag", "sensor"))
        covered = np.zeros(len(rows), dtype=bool)
        for row in range(len(faults)):
            inside = (sensor == np.asarray(faults["sensor"])[row]) & (time >= begin[row]) & (time < end[row])
            assert set(flag[inside]) <= {4, 9}
            covered |= inside
        assert covered[flag == 4].all()


def test_several_variables_with_settings_of_their_own() -> None:
    frame = pd.DataFrame(columns()).rename(columns={"temperature": "temp"})
    frame["humidity"] = 50 - frame.temp
    frame.loc[frame.index[7], "humidity"] = 180.0
    cleaned = clean(frame, valid={"humidity": [0, 100]}, fill=[]).data
    assert list(cleaned.columns)[-1] == "variable"
    assert set(cleaned.variable) == {"humidity", "temp"}
    implausible = cleaned[cleaned.reason == "implausible"]
    assert ((implausible.value > 100) | (implausible.value < 0) | (implausible.flag == 4)).all()
    assert (implausible.value == 180).any()


def test_a_sensor_that_moves_is_a_new_sensor() -> None:
    frame = pd.DataFrame(columns())
    moved = (frame["Station ID"] == "s03") & (frame.time >= np.datetime64(START + 20 * DAY, "us"))
    frame["lat"], frame["lon"] = np.where(moved, 41.9, 41.8), -87.6
    result = clean(frame)
    rows, sensors = result.data, result.sensors
    assert "s03@2" in set(rows.sensor)
    assert rows[rows.sensor == "s03@2"].time.min() == pd.Timestamp(START + 20 * DAY, unit="us")
    assert sensors.set_index("sensor").latitude["s03@2"] == 41.9


@pytest.mark.parametrize("lasting", [2, 6, 14])
def test_a_fault_of_the_first_weeks_is_not_learned_away(lasting: int) -> None:
    from networks import fault_free
    from simulated_city import tensor_readings

    readings = tensor_readings(fault_free(8, 90)[..., :40])
    day = (readings.time - START) // DAY
    readings.value[(readings.sensor == 2) & (day >= 10) & (day < 10 + lasting)] += 15
    frame = pd.DataFrame(
        {"sensor": readings.sensor, "time": readings.time.astype("datetime64[us]"), "value": readings.value}
    )
    for settings in ({}, {"one_pass": True}):
        rows = clean(frame, **settings).data
        flags = rows[rows.sensor == "2"].set_index("time").flag
        wrong = flags[flags == 4]
        days = wrong.index.normalize().unique()
        first = pd.Timestamp(START + 10 * DAY, unit="us")
        assert first in days, settings
        assert len(days) >= min(lasting, 3), settings
        assert days.min() == first, settings
        assert days.max() < first + pd.Timedelta(days=lasting), settings


def test_one_pass_gives_the_rows_of_a_stream() -> None:
    rows, cleaned = all_rows(city_readings(days=DAYS)), clean(pd.DataFrame(columns()), one_pass=True, step="1h").data
    order = np.lexsort((rows.time, np.array(rows.sensors, dtype=object)[rows.sensor]))
    for name in ("value", "n", "cleaned", "lower", "upper", "flag"):
        np.testing.assert_array_equal(cleaned[name].to_numpy(), getattr(rows, name)[order])


def test_per_reading_keeps_every_reading() -> None:
    frame = pd.DataFrame(columns())
    frame.time = frame.time + pd.to_timedelta(np.arange(len(frame)) % 50, unit="min")
    cleaned = clean(frame, per_reading=True, step="1h").data
    present = cleaned[cleaned.n > 0]
    assert sorted(present.value) == sorted(frame.temperature)
    assert set(present.time) == set(frame.time)


def test_a_labelled_array_comes_back_as_a_dataset(expected: pd.DataFrame) -> None:
    xarray = pytest.importorskip("xarray")
    network = small_city(days=DAYS)
    values = np.moveaxis(network.readings, 1, 2).reshape(8, -1).T
    times = (START + np.arange(24 * DAYS) * HOUR).astype("datetime64[us]").astype("datetime64[ns]")
    array = xarray.DataArray(
        values,
        dims=("time", "station"),
        coords={"time": times, "station": [f"s{number:02d}" for number in range(8)]},
        name="temperature",
    )
    dataset = clean(array).data
    cleaned = dataset["temperature_cleaned"].transpose("station", "time").to_numpy().ravel()
    np.testing.assert_allclose(cleaned, expected.cleaned.to_numpy())
    assert dataset["temperature_flag"].attrs["flag_meanings"].split()[0] == "good"


@pytest.mark.parametrize(
    ("frame", "settings", "error", "match"),
    [
        ([1, 2], {}, InputError, "pandas or polars frame"),
        (np.ones((3, 3)), {}, InputError, "path of a file, not ndarray"),
        (pd.DataFrame({"time": [], "sensor": [], "value": []}), {}, InputError, "no rows"),
        (pd.DataFrame({"a": ["x"], "b": ["y"]}), {}, ConfigError, "the frame"),
        (pd.DataFrame([[1, 2]], columns=["time", "time"]), {}, InputError, "two columns named 'time'"),
        (pd.DataFrame([[1, 2]], columns=[["a", "a"], ["b", "c"]]), {}, InputError, "several levels"),
        (pl.LazyFrame({"time": [1]}), {}, InputError, "collect"),
        (pd.DataFrame({"time": pd.date_range("2020", periods=9, freq="h"), "value": 1.0}), {"step": 3600},
         ConfigError, "step is a number and a unit"),
        (pd.DataFrame({"time": pd.date_range("2020", periods=9, freq="h"), "a": 1.0, "b": 2.0}),
         {"step": "10s", "period": "7d"}, ConfigError, "60,480 slots"),
        (pd.DataFrame({"time": ["2020-01-01"], "value": [1]}), {"colour": 1}, ConfigError, "no option"),
        (pd.DataFrame({"time": ["2020-01-01", "2020-01-02", "soon"], "sensor": ["a"] * 3, "value": [1.0] * 3}),
         {"time": "time"}, InputError, "'soon' in row 2, which is not a time"),
        (pd.DataFrame({"time": [pd.Timestamp("2020"), pd.NaT], "sensor": ["a"] * 2, "value": [1.0] * 2}), {},
         InputError, "'time' is empty in row 1"),
        (pd.DataFrame({"time": pd.date_range("2020", periods=3), "sensor": ["a", None, "b"], "value": [1.0] * 3}), {},
         InputError, "is empty in row 1"),
        (pd.DataFrame({"time": pd.date_range("2020", periods=4), "sensor": ["a"] * 4, "value": [*"123", "warm"]}),
         {}, ValueRangeError, "'warm' in row 3"),
    ],
)  # fmt: skip
def test_what_cannot_be_cleaned_is_refused_in_one_line(
    frame: Any, settings: dict[str, Any], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match) as caught:
        clean(frame, **settings)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("heard", [0, 5])
def test_a_polars_frame_has_texts_also_where_nothing_is_known_at_first(heard: int) -> None:
    """The first slots, or all of them, have no reading and no estimate."""
    times = np.datetime64("2020-01-01T00:00", "us") + np.arange(heard, heard + 24) * np.timedelta64(3600, "s")
    frame = pl.DataFrame({"sensor": ["a"] * 24, "time": times, "value": [float("nan")] * 19 + [1.0] * heard
                              + [float("nan")] * (5 - heard)})  # fmt: skip
    rows = clean(frame, step="1h", period="1d", one_pass=True).data
    assert rows["origin"].dtype == rows["reason"].dtype == rows["sensor"].dtype == pl.String
    assert rows["origin"].to_list().count(None) >= 24 - 5
    assert set(rows["origin"].to_list()) <= {None, "observed", "estimated"}


def test_a_tolerance_reaches_the_model_by_its_variable() -> None:
    random = np.random.default_rng(0)
    weather = np.cumsum(random.normal(size=40 * 24)) * 0.3
    times = np.datetime64("2021-05-01T00:00", "us") + np.arange(weather.size) * np.timedelta64(3600, "s")
    parts = []
    for number in range(6):
        values = weather + 0.2 * random.normal(size=weather.size)
        values[800:830] += 4.0 if number == 2 else 0.0
        parts.append(pl.DataFrame({"sensor": f"s{number}", "time": times, "warm": values, "cold": values}))
    rows = clean(pl.concat(parts), tolerance={"warm": 6.0}).data
    wrong = rows.filter((pl.col("sensor") == "s2") & (pl.col("flag") == 4))
    assert wrong.filter(pl.col("variable") == "cold").height >= 28
    assert wrong.filter(pl.col("variable") == "warm").height == 0
    with pytest.raises(ConfigError, match="tolerance names variable 'hot'; there is"):
        clean(pl.concat(parts), tolerance={"hot": 1.0})


RAMPS = {
    "up over six decades": lambda part, sensor: 10 ** (6 * part),
    "down over six decades": lambda part, sensor: 10 ** (6 - 6 * part),
    "over ninety decades": lambda part, sensor: 10 ** (90 * part - 45),
    "each sensor its own": lambda part, sensor: 10 ** (6 * part * (sensor + 1) / 6),
    "negative": lambda part, sensor: -(10 ** (6 * part)),
    "in steps": lambda part, sensor: 10 ** np.floor(6 * part),
}


@pytest.mark.parametrize("ramp", RAMPS)
@pytest.mark.parametrize("sensors", [1, 6])
def test_no_ramp_stops_a_run(ramp: str, sensors: int) -> None:
    hours, random = 24 * 30, np.random.default_rng(0)
    part = np.linspace(0, 1, hours)
    time = pd.date_range("2024-01-01", periods=hours, freq="h")
    frame = pd.concat(
        pd.DataFrame(
            {"sensor": f"s{row}", "time": time, "value": RAMPS[ramp](part, row) * random.normal(1, 0.01, hours)}
        )
        for row in range(sensors)
    )
    rows = clean(frame).data
    np.testing.assert_array_equal(rows.value.to_numpy(), frame.value.to_numpy())
    assert len(rows) == sensors * hours
    low, high = frame.value.min(), frame.value.max()
    known = rows.cleaned.dropna()
    assert known.between(low, high).all()
    assert len(known) > 0.95 * len(rows)


def test_a_notebook_without_ipywidgets_cleans_too(expected: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = Staging.ask

    def without_widgets(self: Staging, sql: str, parameters: Any = ()) -> Any:
        if "progress_bar" in sql:
            raise duckdb.InvalidInputException("required package 'ipywidgets' is missing")
        return ask(self, sql, parameters)

    monkeypatch.setattr(Staging, "ask", without_widgets)
    monkeypatch.setattr("sensormend.io.staging._SPARE.take", lambda: None)
    pd.testing.assert_frame_equal(clean(pd.DataFrame(columns())).data, expected)
