"""In an archive nothing is estimated before the first reading of a series, nor after its last one."""

from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest

from sensormend import clean
from sensormend.archive.cleaning import clean_archive
from sensormend.io.folder import Archive
from sensormend.pipeline.options import Options

HOURS = 24 * 30
ENDS, BEGINS = 24 * 18 + 7, 24 * 9 + 4
GAP = slice(24 * 12 + 3, 24 * 14 + 2)


def network() -> pd.DataFrame:
    """Six sensors; S2 ends early, S3 begins late, S4 has a gap of two days."""
    random = np.random.default_rng(0)
    weather = 15 + 5 * np.sin(np.arange(HOURS) / 24 * 2 * np.pi) + np.cumsum(random.normal(0, 0.3, HOURS))
    table = pd.DataFrame({f"S{number}": weather + random.normal(0, 0.3, HOURS) for number in range(6)})
    table.insert(0, "time", pd.date_range("2024-01-01", periods=HOURS, freq="h"))
    table.loc[ENDS:, "S2"] = np.nan
    table.loc[: BEGINS - 1, "S3"] = np.nan
    table.loc[GAP.start : GAP.stop - 1, "S4"] = np.nan
    return table


def archive_rows(table: pd.DataFrame, folder: Path, **settings: bool) -> pd.DataFrame:
    table.to_csv(folder / "readings.csv", index=False)
    clean_archive(folder / "readings.csv", folder / "out", Options.of(**settings))
    return duckdb.execute(f"SELECT * FROM '{folder}/out/data/*/*.parquet' ORDER BY sensor, time").df()


@pytest.mark.parametrize("kind", ["frame", "file"])
def test_nothing_is_estimated_outside_the_time_of_a_series(kind: str, tmp_path: Path) -> None:
    table = network()
    rows = clean(table).data if kind == "frame" else archive_rows(table, tmp_path)
    by_sensor = {name: own.set_index("time") for name, own in rows.groupby("sensor")}
    ended, late, gap = by_sensor["S2"], by_sensor["S3"], by_sensor["S4"]
    assert ended.cleaned.dropna().index.max() == table.time[ENDS - 1]
    assert ended.index.max() == table.time[24 * 19 - 1], "the rest of its last day has rows without a value"
    assert set(ended.flag[ended.index > table.time[ENDS - 1]]) == {9}
    assert ended.origin[ended.index > table.time[ENDS - 1]].isna().all()
    assert late.cleaned.dropna().index.min() == table.time[BEGINS]
    assert set(late.flag[late.index < table.time[BEGINS]]) == {9}
    assert gap.cleaned.notna().all()
    assert len(gap) == HOURS


def test_the_end_of_a_series_is_not_a_fault_and_a_gap_is_silence() -> None:
    faults = clean(network()).faults
    assert set(faults.sensor[faults.reason == "silent"]) == {"S4"}


def test_a_fault_that_is_open_at_the_end_ends_with_the_last_reading(tmp_path: Path) -> None:
    table = network()
    table.loc[24 * 20 :, "S1"] += 9
    table.loc[24 * 21 :, "S5"] -= 9
    last = HOURS - 5, HOURS - 12
    table = table[: last[0] + 1]
    table.loc[last[1] + 1 :, "S5"] = np.nan
    faults = clean(table).faults
    archive_rows(table, tmp_path)
    for listed in (faults, pd.DataFrame(vars(one) for one in Archive(tmp_path / "out").faults())):
        still = listed[listed.open].set_index("sensor")
        ends = pd.to_datetime(still.end, unit="us")
        assert dict(ends) == dict(zip(("S1", "S5"), table.time.iloc[list(last)] + pd.Timedelta(hours=1), strict=True))


def test_each_variable_of_a_sensor_has_its_own_end(tmp_path: Path) -> None:
    parts = []
    for name in ("S0", "S1", "S2", "S3", "S5"):
        own = network()[["time", "S0" if name == "S2" else name, "S2" if name == "S2" else "S5"]]
        parts.append(own.set_axis(["time", "temp", "humidity"], axis=1).assign(sensor=name))
    rows = archive_rows(pd.concat(parts), tmp_path)
    own = rows[(rows.sensor == "S2") & rows.cleaned.notna()]
    last = own.groupby("variable").time.max()
    times = network().time
    assert last["temp"] == times[HOURS - 1]
    assert last["humidity"] == times[ENDS - 1]


def test_a_sensor_that_moved_has_an_end_at_each_place(tmp_path: Path) -> None:
    table = network().melt("time", var_name="sensor", value_name="temp").dropna()
    moves = table.time[table.sensor == "S1"].iloc[24 * 15]
    places = pd.DataFrame(
        {"sensor": ["S1", "S1"], "latitude": [50.0, 51.0], "longitude": [8.0, 8.0], "from": ["", moves]}
    )
    places.to_csv(tmp_path / "places.csv", index=False)
    table.to_csv(tmp_path / "readings.csv", index=False)
    clean_archive(tmp_path / "readings.csv", tmp_path / "out", Options.of(coordinates=str(tmp_path / "places.csv")))
    rows = duckdb.execute(f"SELECT * FROM '{tmp_path}/out/data/*/*.parquet' WHERE cleaned IS NOT NULL").df()
    span = rows.groupby("sensor").time.agg(["min", "max"])
    assert span.loc["S1", "max"] == moves - pd.Timedelta(hours=1)
    assert span.loc["S1@2", "min"] == moves


def test_every_reading_keeps_its_row() -> None:
    table = network()
    rows = clean(table, per_reading=True).data
    assert rows.n.sum() == table.drop(columns="time").count().sum()


def test_in_one_pass_the_end_is_not_known() -> None:
    rows = clean(network(), one_pass=True).data
    ended = rows[rows.sensor == "S2"]
    assert ended.time.max() == network().time[HOURS - 1]
    assert ended.cleaned.notna().all()
