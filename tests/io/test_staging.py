import csv
import gzip
import io
import sys
import tempfile
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sensormend.errors import InputError, SensormendError, StateError
from sensormend.io.staging import Staging
from sensormend.pipeline.options import Options
from sensormend.readings import DAY, HOUR, MINUTE
from staged_readings import Reading, as_list, as_set, staged, staged_text

NEW_YEAR = 1_577_836_800_000_000
LONG = "sensor,time,value\nb,2020-01-02 00:00,3\na,2020-01-01 00:00,1\na,2020-01-01 01:00,2\na,2020-01-01 00:00,1.5\n"
RIVER = Options(sensor_from_file=True, time="datetime", variables=("temp", "cond", "ph", "do", "turb", "stage"))


def test_a_long_table_in_order_of_arrival() -> None:
    with staged_text(LONG) as staging:
        assert (staging.sensors, staging.variables) == (("a", "b"), ("",))
        assert (staging.readings, staging.rejected) == (4, 0)
        staging.sort(0, DAY, NEW_YEAR)
        assert staging.periods.tolist() == [0, 1]
        first = [("a", "", NEW_YEAR, 1.0), ("a", "", NEW_YEAR + HOUR, 2.0), ("a", "", NEW_YEAR, 1.5)]
        assert as_list(staging.read(0)) == first
        assert as_list(staging.read(0, 2)) == [*first, ("b", "", NEW_YEAR + DAY, 3.0)]
        assert len(staging.read(7)) == 0


def test_what_comes_out_are_plain_arrays() -> None:
    with staged_text(LONG) as staging:
        staging.sort(0, DAY)
        readings = staging.read(int(staging.periods[0]))
    assert readings.time.dtype == np.int64
    assert readings.value.dtype == np.float64
    assert readings.sensor.dtype.kind == "i"
    for column in (readings.sensor, readings.variable, readings.time, readings.value):
        assert type(column) is np.ndarray, "nothing masked"


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[dict[str, str]], list[Reading]]:
    """Return the columns of a table, its rows and the readings they are, each with an offset of its own."""
    rows, readings = [], []
    for _ in range(draw(st.integers(1, 30))):
        sensor = draw(st.sampled_from(["a", "B 7", "0012", "é,x", 'q"t']))
        variable = draw(st.sampled_from(["temp", "ph"]))
        moment = draw(st.datetimes(datetime(2019, 12, 1), datetime(2020, 2, 1))).replace(tzinfo=UTC)
        value = draw(st.none() | st.floats(-1e9, 1e9, allow_nan=False))
        zone = timezone(timedelta(minutes=draw(st.sampled_from([0, 60, -330]))))
        written = moment.astimezone(zone).isoformat(" ")
        text = draw(st.sampled_from(["", "NA", "nan", "NULL", "inf", "-"])) if value is None else repr(value)
        rows.append({"station": sensor, "time": written, "parameter": variable, "value": text, "note": "x"})
        since = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        readings.append((sensor, variable, since, value))
    return draw(st.permutations(list(rows[0]))), rows, readings


@settings(max_examples=15)
@given(tables(), st.sampled_from([",", ";", "\t"]), st.sampled_from(["\n", "\r\n"]), st.integers(1, 30))
def test_any_order_of_columns_any_marks_and_any_cut_into_files_give_the_same_readings(
    table: tuple[list[str], list[dict[str, str]], list[Reading]], delimiter: str, end: str, cut: int
) -> None:
    columns, rows, readings = table
    with tempfile.TemporaryDirectory() as folder:
        for number, begin in enumerate(range(0, len(rows), cut)):
            text = io.StringIO()
            writer = csv.DictWriter(text, columns, delimiter=delimiter, lineterminator=end)
            writer.writeheader()
            writer.writerows(rows[begin : begin + cut])
            name = Path(folder) / f"part-{number:03}.csv"
            (name if number % 2 else name.with_suffix(".csv.gz")).write_bytes(
                text.getvalue().encode() if number % 2 else gzip.compress(text.getvalue().encode())
            )
        named = Options(sensor="station", time="time", value="value", variable="parameter")
        with staged(folder, named) as staging:
            assert staging.rejected == 0
            assert as_list(staging.sample()) == readings
            staging.sort(0, DAY)
            apart = [reading for period in staging.periods for reading in as_list(staging.read(int(period)))]
            assert apart == sorted(readings, key=lambda reading: reading[2] // DAY)


@given(st.integers(-10 * DAY, 10 * DAY), st.sampled_from([0, 30 * MINUTE]), st.sampled_from([HOUR, DAY, 7 * DAY]))
@settings(max_examples=10)
def test_periods_are_rounded_down_on_both_sides_of_the_origin(shift: int, early: int, period: int) -> None:
    with _WEEKS as staging:
        origin = NEW_YEAR + shift
        staging.sort(early, period, origin)
        times = [reading[2] for reading in as_list(staging.sample())]
        assert staging.periods.tolist() == sorted({(time + early - origin) // period for time in times})
        for number in staging.periods.tolist():
            expected = [time for time in times if (time + early - origin) // period == number]
            assert staging.read(number).time.tolist() == expected


class _Weeks:
    """One staging for all examples: sorting again is what is tested."""

    def __enter__(self) -> Staging:
        if not hasattr(self, "staging"):
            self.folder = tempfile.TemporaryDirectory()
            path = Path(self.folder.name) / "weeks.csv"
            rows = [f"s{n % 3},{datetime(1969, 12, 25) + timedelta(hours=7 * (n * 37 % 60))},{n}" for n in range(60)]
            path.write_text("sensor,time,value\n" + "\n".join(rows))
            self.staging = Staging(Path(self.folder.name) / "staging")
            self.staging.load(path)
        return self.staging

    def __exit__(self, *_: object) -> None: ...


_WEEKS = _Weeks()


def test_wide_tables_by_sensor_and_by_variable() -> None:
    with staged_text("time,north,7\n2020-01-01,1,\n2020-01-02,NA,2\n") as staging:
        assert as_set(staging.sample()) == {
            ("north", "", NEW_YEAR, 1.0), ("7", "", NEW_YEAR + DAY, 2.0)
        }, "an empty cell is not a reading, whatever is written for it"  # fmt: skip
    with staged_text("site,time,temp,ph\nx,2020-01-01,1,7\ny,2020-01-01,,8\n") as staging:
        assert as_set(staging.sample()) == {
            ("x", "temp", NEW_YEAR, 1.0), ("x", "ph", NEW_YEAR, 7.0), ("y", "ph", NEW_YEAR, 8.0)
        }  # fmt: skip


def test_a_column_that_is_empty_for_a_long_time_is_still_a_sensor() -> None:
    rows = [f"{datetime(2020, 1, 1) + timedelta(hours=n)},{n},{n if n > 900 else ''}," for n in range(1000)]
    with staged_text("time,first,late,never\n" + "\n".join(rows)) as staging:
        assert staging.sensors == ("first", "late")
        assert staging.readings == 1099


def test_the_river_as_it_is(data: Path) -> None:
    with staged(data / "logan_river", RIVER) as staging:
        assert staging.sensors[0] == "BlackSmithFork2020"
        assert len(staging.sensors) == 6
        assert staging.variables == ("cond", "do", "ph", "stage", "temp", "turb")
        assert (staging.readings, staging.rejected) == (332_316, 0)
        staging.sort(0, DAY)
        day = staging.read(int(staging.periods[0]))
    assert len(day) == 96 * 6 * 6
    first = [reading for reading in as_list(day) if reading[0] == "BlackSmithFork2020"][:6]
    assert [value for *_, value in first] == [2.16, 452.3, 8.32, 11.55, 6.76, 44.18]


def test_places_and_moves() -> None:
    text = """sensor,time,value,lat,lon
a,2020-01-03,1,50.00001,8
a,2020-01-01,1,50,8
a,2020-01-04,1,51,8
a,2020-01-05,1,50,8
b,2020-01-02,1,1.5,-2
c,2020-01-02,1,,
"""
    with staged_text(text) as staging:
        assert staging.locations == [
            (0, NEW_YEAR, 50.0, 8.0),
            (1, NEW_YEAR + DAY, 1.5, -2.0),
            (0, NEW_YEAR + 3 * DAY, 51.0, 8.0),
            (0, NEW_YEAR + 4 * DAY, 50.0, 8.0),
        ]
    with staged_text(LONG) as staging:
        assert staging.locations == []


def test_samples_are_whole_courses_and_always_the_same(tmp_path: Path) -> None:
    path = tmp_path / "many.parquet"
    duckdb.execute(f"""COPY (SELECT 's' || lpad((i % 120)::VARCHAR, 3, '0') AS sensor, i // 120 AS value,
        TIMESTAMP '2020-01-01' + INTERVAL 1 HOUR * (i // 120) AS time, ['p', 'q'][1 + i % 2] AS variable
        FROM range(60000) AS t(i)) TO '{path}'""")
    with staged(path) as staging:
        sample = staging.sample()
        assert np.unique(sample.sensor).size == 50
        assert np.bincount(sample.sensor)[np.unique(sample.sensor)].tolist() == [500] * 50
        assert np.ptp(np.unique(sample.sensor)) > 100, "from all over the names"
        assert len(staging.sample(most=3_200)) == 3_000
        short = staging.sample(most=120)
        assert short.time.tolist() == [NEW_YEAR + n * HOUR for n in range(120)], "one sensor's beginning, without holes"


def test_parquet_of_any_types_and_several_files(tmp_path: Path) -> None:
    engine = duckdb.connect()
    engine.execute("SET TimeZone = 'America/New_York'")
    folder = tmp_path / "with 'quotes' and [stars]*"
    (folder / "date=2020-01-01").mkdir(parents=True)
    for name, select in {
        "date=2020-01-01/a": "TIMESTAMPTZ '2020-01-01 00:00:00+00' AS time, 7 AS station, 1.5::DECIMAL(8, 3) AS value",
        "b": "5::TINYINT AS value, 7.0::DOUBLE AS station, TIMESTAMP_NS '2020-01-01 01:00:00' AS time",
        "c": "'x' AS station, DATE '2020-01-02' AS time, 'inf'::FLOAT AS value",
        "d": "'x' AS station, '2020-01-03 00:00' AS time, '2' AS value",
        "e": "'y'::ENUM('x', 'y') AS station, 1577836800000::BIGINT AS time, NULL::DOUBLE AS value",
        "f": "'z' AS station, 20200101 AS time, 3::FLOAT AS value",
        "g": "'z' AS station, 1577840400.5::DOUBLE AS time, 3::FLOAT AS value",
    }.items():
        target = str(folder / f"{name}.parquet").replace("'", "''")
        engine.execute(f"COPY (SELECT {select}) TO '{target}'")
    engine.close()
    with staged(folder) as staging:
        assert as_list(staging.sample()) == [
            ("7", "", NEW_YEAR + HOUR, 5.0), ("x", "", NEW_YEAR + DAY, None), ("x", "", NEW_YEAR + 2 * DAY, 2.0),
            ("7", "", NEW_YEAR, 1.5), ("y", "", NEW_YEAR, None), ("z", "", NEW_YEAR, 3.0),
            ("z", "", NEW_YEAR + HOUR + 500_000, 3.0),
        ]  # fmt: skip


def test_json_by_lines_and_as_an_array() -> None:
    lines = """{"sensor": "a", "time": "2020-01-01T01:00:00+01:00", "value": 1.5, "place": {"lat": 50, "lon": 8}}
{"time": "2020-01-02T00:00:00Z", "sensor": "b", "value": null}

{"time": "2020-01-01T00:00:00Z", "sensor": "it's", "value": "3"}
"""
    options = Options(latitude="place.lat", longitude="place.lon")
    expected = [("a", "", NEW_YEAR, 1.5), ("b", "", NEW_YEAR + DAY, None), ("it's", "", NEW_YEAR, 3.0)]
    for name in ("a.ndjson", "a.jsonl", "a.json"):
        with staged_text(lines, options, name) as staging:
            assert as_list(staging.sample()) == expected
            assert staging.locations == [(0, NEW_YEAR, 50.0, 8.0)]
            assert staging.rejected == 0
    array = "[" + ",\n".join(line for line in lines.splitlines() if line) + "]"
    with staged_text(array, options, "a.json") as staging:
        assert as_list(staging.sample()) == expected
    with staged_text(gzip.compress(lines.encode()), options, "a.ndjson.gz") as staging:
        assert as_list(staging.sample()) == expected


def test_netcdf(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    times = np.array(["2020-01-01T00", "2020-01-01T01"], dtype="datetime64[ns]")
    array = xarray.DataArray(
        [[1.0, 2.0], [3.0, np.nan]], dims=("time", "station"), name="temp",
        coords={"time": times, "station": ["a", "b"], "lat": ("station", [50.0, 51.0]), "lon": ("station", [8.0, 9.0])},
    )  # fmt: skip
    array.to_netcdf(tmp_path / "x.nc", engine="h5netcdf")
    with staged(tmp_path / "x.nc") as staging:
        readings = {(sensor, time, value) for sensor, _, time, value in as_list(staging.sample()) if value is not None}
        assert readings == {("a", NEW_YEAR, 1.0), ("b", NEW_YEAR, 2.0), ("a", NEW_YEAR + HOUR, 3.0)}
        assert staging.locations == [(0, NEW_YEAR, 50.0, 8.0), (1, NEW_YEAR, 51.0, 9.0)]


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    json_line = b'{"sensor": "a", "time": "2020-01-01", "value": 1}\n'
    for written in (LONG.encode(), gzip.compress(LONG.encode()), json_line):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(written)))
        with staged("-") as staging:
            assert "a" in staging.sensors
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    with pytest.raises(InputError, match="standard input is empty"), staged("-"):
        pass


def test_patterns_lists_and_what_a_folder_holds_beside_readings(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv", "c.tsv"):
        mark = "\t" if name.endswith("tsv") else ","
        (tmp_path / name).write_text(f"sensor,time,value\n{name},2020-01-01,1\n".replace(",", mark))
    (tmp_path / "README.txt").write_text("not readings")
    (tmp_path / "settings.json").write_text("{}")
    (tmp_path / ".hidden.csv").write_text("not readings")
    (tmp_path / "header-only.csv").write_text("sensor,time,value\n")

    def names(source: object) -> list[str]:
        with staged(source) as staging:
            return [reading[0] for reading in as_list(staging.sample())]

    assert names(tmp_path) == ["a.csv", "b.csv", "c.tsv"]
    assert names(str(tmp_path / "[ab].csv")) == ["a.csv", "b.csv"]
    assert names([tmp_path / "b.csv", tmp_path / "a.csv"]) == ["b.csv", "a.csv"]


def test_a_finished_staging_is_opened_again(tmp_path: Path) -> None:
    source = tmp_path / "r.csv"
    source.write_text(LONG + "x,,1\n")
    with pytest.raises(StateError, match="no staged readings"):
        Staging.open(tmp_path / "s")
    with Staging(tmp_path / "s") as staging:
        staging.load(source)
        # As it is while the readings are loaded.
        staging.ask("DELETE FROM properties")
    with pytest.raises(StateError, match="not complete"):
        Staging.open(tmp_path / "s")
    with Staging(tmp_path / "s") as staging:
        staging.load(source)
        staging.sort(0, DAY, NEW_YEAR)
        readings = as_list(staging.read(0))
    with Staging.open(tmp_path / "s") as again:
        again.sort(0, DAY, NEW_YEAR)
        assert as_list(again.read(0)) == readings
        assert (again.sensors, again.readings, again.rejected) == (("a", "b"), 4, 1)
        assert again.periods.tolist() == [0, 1]
        again.sort(0, 2 * DAY, NEW_YEAR)
        assert len(again.read(0)) == 4
    again.path.write_bytes(b"nonsense" * 1000)
    with pytest.raises(StateError, match="cannot be opened"):
        Staging.open(tmp_path / "s")


def test_a_full_disk_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text(LONG)
    (tmp_path / "s").write_text("in the way")
    with pytest.raises(SensormendError, match="cannot stage readings here"), Staging(tmp_path / "s") as staging:
        staging.load(tmp_path / "r.csv")
    (tmp_path / "s").unlink()
    with Staging(tmp_path / "s") as staging:
        staging.load(tmp_path / "r.csv")
        staging.ask("SET memory_limit = '1MB'")
        with pytest.raises(SensormendError, match="no space to stage readings") as caught:
            staging.ask("SELECT list(range) FROM range(10000000)")
    assert "\n" not in str(caught.value)


def test_progress_goes_from_nothing_to_all(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text(LONG)
    shares: list[float] = []
    with Staging(tmp_path / "s") as staging:
        staging.load(tmp_path, progress=shares.append)
        assert shares == sorted(shares)
        assert shares[-1] == 1.0
        staging.sort(0, DAY, progress=shares.append)
        assert shares[-1] == 1.0
