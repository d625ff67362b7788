"""A Result has the tables, sentences, pictures, report and page that the command line gives."""

import json
import re
import urllib.request
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

from sensormend import ConfigError, InputError, Result, clean
from sensormend.cli import main
from sensormend.io.folder import Archive
from sensormend.simulate import write_example


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("example") / "readings.csv"
    write_example(path, sensors=8, days=40)
    return path


@pytest.fixture(scope="module")
def of_file(source: Path) -> Result:
    return clean(source)


@pytest.fixture(scope="module")
def of_frame(source: Path) -> Result:
    return clean(pd.read_csv(source))


def test_a_frame_its_file_and_the_command_line_give_the_same(
    source: Path, of_file: Result, of_frame: Result, tmp_path: Path
) -> None:
    pd.testing.assert_frame_equal(of_file.data, of_frame.data)
    pd.testing.assert_frame_equal(of_file.faults, of_frame.faults, rtol=1e-9)
    pd.testing.assert_frame_equal(of_file.sensors, of_frame.sensors, rtol=1e-9)
    pd.testing.assert_frame_equal(of_file.flags, of_frame.flags)
    assert main(["clean", str(source), str(tmp_path / "out")]) == 0
    archive = Archive(tmp_path / "out")
    written = archive.rows()
    order = np.lexsort((written.time, written.sensor))
    np.testing.assert_array_equal(of_frame.data.cleaned, written.cleaned[order])
    np.testing.assert_array_equal(of_frame.data.flag, written.flag[order])
    assert of_frame.faults.sentence.tolist() == [fault.sentence for fault in archive.faults()]
    run = archive.run()
    for name in ("grid", "sensors", "periods", "readings", "filled", "corrected", "faults", "states"):
        assert of_frame.run[name] == of_file.run[name] == run[name], name


def test_the_wide_flags_are_those_of_the_rows(of_frame: Result) -> None:
    lines = of_frame.flags.melt("time", var_name="sensor", value_name="flag")
    both = of_frame.data.merge(lines, on=["sensor", "time"], suffixes=("", "_wide"))
    assert len(both) == len(of_frame.data)
    assert (both.flag == both.flag_wide).all()


def test_the_summary_counts_what_the_tables_have(of_frame: Result) -> None:
    text = of_frame.summary()
    counts = of_frame.sensors.state.value_counts()
    assert text.startswith(f"{counts['healthy']} of 8 sensors ")
    assert f"There are {len(of_frame.faults)} faults" in text
    assert f"{counts['healthy']} of 8 sensors" in repr(of_frame)
    html = of_frame._repr_html_()
    assert len(html) < 4000
    assert html.count("<tr>") == 1 + min(5, int((~(of_frame.faults.confidence <= 0.5)).sum()))


def test_the_summary_has_the_shares_of_the_command_line(
    source: Path, of_file: Result, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["clean", str(source), str(tmp_path / "out")]) == 0
    printed = dict(re.findall(r"^(\w+ \w+) +[\d,]+ \((.* %)\)", capsys.readouterr().out, re.MULTILINE))
    assert (of_file.data.reason == "fill").any(), "a fill value has flag 4, and is no wrong reading"
    summary = re.search(r"^(.* %) of [\d,]+ readings are wrong.*; (.* %) of", of_file.summary(), re.MULTILINE)
    assert summary
    assert summary.groups() == (printed["wrong readings"], printed["missing slots"])


def test_markup_in_a_name_is_text_in_a_notebook() -> None:
    times = pd.date_range("2024-01-01", periods=24 * 40, freq="h")
    values = np.random.default_rng(0).normal(size=(times.size, 4)).cumsum(axis=0)
    frame = pd.DataFrame(values, columns=["<img src=x>", "b", "c", "d"]).assign(time=times)
    frame.loc[600:800, "<img src=x>"] = np.nan
    assert "<img" not in clean(frame)._repr_html_()


def test_a_reading_is_explained_as_on_the_command_line(
    source: Path, of_frame: Result, of_file: Result, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fault = of_frame.faults[of_frame.faults.reason != "silent"].iloc[0]
    at = (fault.start + (fault.end - fault.start) / 2).floor("h")
    text = of_frame.explain(fault.sensor, at)
    assert text == of_file.explain(fault.sensor, str(at))
    assert main(["clean", str(source), str(tmp_path / "out")]) == 0
    capsys.readouterr()
    assert main(["explain", str(tmp_path / "out"), fault.sensor, str(at)]) == 0
    assert " ".join(capsys.readouterr().out.split()) == " ".join(text.split())


def test_plots_are_figures_or_go_on_given_axes(of_frame: Result) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    assert of_frame.plot().axes
    assert of_frame.plot("S3").axes
    figure, axes = pyplot.subplots(2)
    assert of_frame.plot(ax=axes[0]) is figure
    assert of_frame.plot("S3", ax=axes[1]) is figure
    assert axes[0].has_data()
    assert axes[1].has_data()
    pyplot.close(figure)


@pytest.mark.server
def test_a_result_is_served_and_reported(of_frame: Result, tmp_path: Path) -> None:
    with of_frame.serve() as server:
        answer = urllib.request.urlopen(f"{server.address}/api/network", timeout=20)
        assert json.load(answer)["sensors"] == 8
    path = of_frame.report(tmp_path / "report.html")
    assert "S3" in path.read_text("utf-8")


def test_a_polars_frame_keeps_its_zone(source: Path) -> None:
    frame = pl.read_csv(source, try_parse_dates=True)
    zoned = frame.with_columns(pl.col("time").dt.convert_time_zone("Asia/Tokyo"))
    result = clean(zoned)
    for column in (result.data["time"], result.faults["start"], result.sensors["last"], result.flags["time"]):
        assert column.dtype.time_zone == "Asia/Tokyo"
    assert result.data["time"].dt.convert_time_zone("UTC").dt.replace_time_zone(None).min().hour == 0


def test_what_is_no_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="path of a file"):
        clean(3)
    with pytest.raises(InputError, match=r"nothing\.csv"):
        clean(tmp_path / "nothing.csv")
    with pytest.raises(ConfigError, match="one network"):
        clean(pd.DataFrame(), networks="city")


def test_an_array_and_a_series_give_results_of_their_kind() -> None:
    xarray = pytest.importorskip("xarray")
    times = pd.date_range("2024-01-01", periods=24 * 30, freq="h")
    random = np.random.default_rng(0)
    weather = 10 + random.normal(size=times.size).cumsum() / 5
    values = weather[:, None] + random.normal(size=(times.size, 5)) / 5
    values[500:560, 2] += 9
    coords = {"time": times, "station": list("abcde")}
    result = clean(xarray.DataArray(values, dims=("time", "station"), coords=coords, name="temp"))
    assert isinstance(result.data, xarray.Dataset)
    assert result.flags.dims == ("time", "station")
    assert int((result.flags == 4).sum()) == 60
    assert result.faults[["sensor", "reason"]].to_numpy().tolist() == [["c", "offset"]]
    assert "flag 4" in result.explain("c", "2024-01-22")
    hill = pd.Series(weather, index=times.tz_localize("UTC").tz_convert("Asia/Tokyo"), name="Hill")
    own = clean(hill)
    assert isinstance(own.flags, pd.Series)
    assert str(own.flags.index.tz) == str(own.data.time.dt.tz) == "Asia/Tokyo"
