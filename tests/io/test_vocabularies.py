"""The flags of an OUT in the codes of other systems."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import polars
import pytest

from list_source import read_rows
from sensormend import clean
from sensormend.archive.cleaning import clean_archive
from sensormend.errors import ConfigError
from sensormend.io.folder import VOCABULARIES
from sensormend.pipeline.options import Options
from sensormend.readings import Flag
from sensormend.stream.settings import Settings
from simulated_city import city_readings, write_csv


def test_every_flag_has_a_code() -> None:
    assert all(set(codes) == set(Flag) for codes in VOCABULARIES.values())


@pytest.mark.parametrize("name", VOCABULARIES)
def test_flags_beside_the_rows(name: str, tmp_path: Path) -> None:
    path = write_csv(tmp_path / "readings.csv", city_readings(4, 12))
    clean_archive(path, tmp_path / "out", Options.of(step="1h", period="1d", flags=name))
    rows = read_rows(tmp_path / "out")
    written = polars.read_csv(tmp_path / "out" / "flags.csv", schema_overrides={"flag": polars.Float64})
    assert written.columns == ["sensor", "time", "flag"]
    order = np.lexsort((rows.time, rows.sensor))
    expected = [float(VOCABULARIES[name][Flag(flag)]) for flag in rows.flag[order].tolist()]
    assert written["flag"].to_list() == expected
    assert written["sensor"].to_list() == [rows.sensors[code] for code in rows.sensor[order]]
    assert len(set(expected)) > 1
    if name == "saqc":
        assert -math.inf in expected


def test_a_single_file_has_them_beside_it(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "readings.csv", city_readings(4, 12))
    clean_archive(path, tmp_path / "out.csv", Options.of(step="1h", period="1d", flags="nerrs"))
    assert (tmp_path / "out.csv.meta" / "flags.csv").is_file()


def test_where_there_is_no_out_they_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="flags is qartod, ioc, saqc or nerrs"):
        Options.of(flags="mine")
    with pytest.raises(ConfigError, match="it is for clean"):
        Settings.of(source="-", out=tmp_path / "out", flags="saqc")
    with pytest.raises(ConfigError, match="beside the rows of an OUT"):
        clean(polars.DataFrame({"sensor": ["a"], "time": ["2020-01-01"], "value": [1.0]}), flags="saqc")
