import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

from row_tables import any_rows, network, same
from sensormend.errors import InputError, SensormendError
from sensormend.io.arrow import read_arrow, write_arrow
from sensormend.io.writing import COLUMNS, named
from sensormend.readings import ORIGINS, REASONS, Rows

TEXTS = st.dictionaries(st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8")), max_size=3)
TYPES = {
    "VARCHAR": polars.String,
    "TIMESTAMP": polars.Datetime("us"),
    "DOUBLE": polars.Float64,
    "INTEGER": polars.Int32,
    "TINYINT": polars.Int8,
}


@given(any_rows(), TEXTS)
def test_what_is_written_is_read_back(rows: Rows, metadata: Mapping[str, str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_arrow(f"{folder}/x.arrow", rows, metadata)
        back, told = read_arrow(f"{folder}/x.arrow")
        assert [path.name for path in Path(folder).iterdir()] == ["x.arrow"]
    same(back, rows)
    assert told == metadata


@given(any_rows(), TEXTS)
def test_polars_reads_the_same(rows: Rows, metadata: Mapping[str, str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_arrow(f"{folder}/x.arrow", rows, metadata)
        frame = polars.read_ipc(Path(folder, "x.arrow").read_bytes(), use_pyarrow=False)
    columns = [name for name in COLUMNS if name != "variable" or named(rows.variables)]
    assert frame.schema == {name: TYPES[COLUMNS[name]] for name in columns}
    assert frame["sensor"].to_list() == [rows.sensors[code] for code in rows.sensor]
    if "variable" in columns:
        assert frame["variable"].to_list() == [rows.variables[code] for code in rows.variable]
    assert frame["reason"].to_list() == [REASONS[code] for code in rows.reason]
    assert frame["origin"].to_list() == [ORIGINS[code] or None for code in rows.origin]
    zero = datetime(1970, 1, 1)
    assert [(moment - zero) // timedelta(microseconds=1) for moment in frame["time"]] == rows.time.tolist()
    for name in ("value", "cleaned", "lower", "upper"):
        wanted = [None if np.isnan(number) else number for number in getattr(rows, name).tolist()]
        assert frame[name].to_list() == wanted
    for name in ("n", "flag"):
        assert frame[name].to_list() == getattr(rows, name).tolist()


@pytest.mark.parametrize("variables", [("",), ("a", "b")])
def test_no_rows(tmp_path: Path, variables: tuple[str, ...]) -> None:
    rows = network(variables=variables)
    write_arrow(tmp_path / "x", rows.taken(slice(0, 0)))
    back, told = read_arrow(tmp_path / "x")
    assert (len(back), told) == (0, {})
    assert polars.read_ipc(tmp_path / "x").shape == (0, 10 + named(variables))


def test_one_file_takes_the_place_of_another(tmp_path: Path) -> None:
    for days in (3, 1):
        write_arrow(tmp_path / "x.arrow", network(days=days))
    same(read_arrow(tmp_path / "x.arrow")[0], network(days=1))
    with pytest.raises(SensormendError, match="cannot write"):
        write_arrow(tmp_path / "no" / "x.arrow", network())


def test_other_files_are_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "x.arrow"
    with pytest.raises(InputError, match="cannot read"):
        read_arrow(path)
    frame = polars.DataFrame({"sensor": ["a"], "time": [1]})
    frame.write_ipc(path)
    with pytest.raises(InputError, match="not an Arrow file that sensormend wrote"):
        read_arrow(path)
    write_arrow(path, network())
    again = polars.read_ipc(path.read_bytes())
    again.write_ipc(path, compression="zstd")
    with pytest.raises(InputError, match="not an Arrow file that sensormend wrote"):
        read_arrow(path)
    for text in (b"", b"ARROW1", b"ARROW1" * 3, bytes(100), b"PAR1"):
        path.write_bytes(text)
        with pytest.raises(InputError, match="not an Arrow file that sensormend wrote"):
            read_arrow(path)


def test_a_broken_file_gives_one_line_or_rows_and_nothing_else(tmp_path: Path) -> None:
    path, random = tmp_path / "x.arrow", np.random.default_rng(0)
    write_arrow(path, network(days=1, variables=("a", "b")), {"made": "now"})
    whole, refused = path.read_bytes(), 0
    for _ in range(600):
        broken = bytearray(whole)
        for at in random.integers(0, len(whole), 3):
            broken[at] = random.integers(256)
        if random.random() < 0.3:
            start = len(whole) - 1400
            broken[start + random.integers(1400)] ^= 1 << random.integers(8)
        if random.random() < 0.2:
            del broken[random.integers(len(broken)) :]
        path.write_bytes(broken)
        try:
            rows, _ = read_arrow(path)
        except InputError:
            refused += 1
        else:
            assert max(rows.sensor, default=0) < max(len(rows.sensors), 1)
    assert refused > 100


def test_a_thousand_sensors_take_no_time(tmp_path: Path) -> None:
    rows = network(days=1, sensors=1000)
    rows = replace(rows, sensors=tuple(f"station {name}, unité 7" for name in rows.sensors))
    write_arrow(tmp_path / "x.arrow", rows)
    took = []
    for _ in range(3):
        start = time.perf_counter()
        write_arrow(tmp_path / "x.arrow", rows)
        took.append(time.perf_counter() - start)
    assert min(took) < 0.05
    same(read_arrow(tmp_path / "x.arrow")[0], rows)
