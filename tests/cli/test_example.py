from pathlib import Path

import numpy as np
import polars
import pytest

from sensormend import ConfigError, clean
from sensormend.cli import main
from sensormend.simulate.network import city, write_example


def test_it_has_what_real_files_have(tmp_path: Path) -> None:
    rows = write_example(tmp_path / "new" / "readings.csv", sensors=8, days=40, seed=1)
    table = polars.read_csv(tmp_path / "new" / "readings.csv", try_parse_dates=True)
    assert len(table) == rows
    assert table.columns == ["sensor", "time", "value", "latitude", "longitude"]
    time = table["time"].dt.replace_time_zone(None).to_numpy().astype("datetime64[s]")
    off = (time - time.astype("datetime64[h]")).astype(int)
    assert ((off > 0) & (off < 100)).any(), "some after the full hour"
    assert (off > 3500).any(), "some before it"
    assert (np.diff(time).astype(int) < 0).any(), "in no order"
    assert (table["value"] == -999).any()
    twice = table.group_by("sensor", "time").agg(polars.col("value").n_unique(), polars.len())
    assert (twice["len"] > 1).any()
    assert (twice["value"] > 1).any()
    assert table.select("sensor", "latitude", "longitude").n_unique() == 8


def test_what_is_read_back_is_the_city(tmp_path: Path) -> None:
    write_example(tmp_path / "readings.csv", sensors=5, days=12, seed=2)
    mended = clean(polars.read_csv(tmp_path / "readings.csv")).data
    network = city(5, 12, seed=2)
    value = mended["value"].to_numpy().reshape(5, 12, 24).transpose(0, 2, 1)
    fill = (mended["reason"] == "fill").to_numpy().reshape(5, 12, 24).transpose(0, 2, 1)
    assert fill.any(), "a fill value keeps its value"
    value = np.where(fill, np.nan, value)
    assert (np.isnan(value) == np.isnan(network.readings)).all()
    assert np.nanmean(np.abs(value - network.readings) > 0.006) < 0.002, "but for readings that came twice"


def test_another_seed_is_another_city_and_the_same_the_same(tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        write_example(tmp_path / name, sensors=2, days=3, seed=seed)
    a, b, c = ((tmp_path / name).read_bytes() for name in "abc")
    assert a == b != c


def test_a_file_that_is_there_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "readings.csv"
    assert main(["example", str(path), "--sensors", "2", "--days", "2"]) == 0
    assert f"sensormend clean {path} mended" in capsys.readouterr().out.replace("\n", "")
    before = path.read_bytes()
    assert main(["example", str(path)]) == 2
    assert "already exists" in capsys.readouterr().err
    assert path.read_bytes() == before
    with pytest.raises(ConfigError, match="--seed"):
        write_example(tmp_path / "no.csv", seed=-1)
    assert not (tmp_path / "no.csv").exists()
